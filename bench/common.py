"""What several bench scripts share: what a record begins with, BLEU with interval, the textbook's
step, a clock."""

import argparse
import json
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "book/results/bench"
sys.path.insert(0, str(ROOT))
from transformer_lit.loss import shift_right  # noqa: E402
from transformer_lit.masks import PAD  # noqa: E402
from transformer_lit.corpora.files import write_json  # noqa: E402
from transformer_lit.runs.records import git_commit, hardware_name  # noqa: E402


def where() -> dict:
    "Commit, machine and torch."
    amx, products = (
        getattr(torch.cpu, f"_is_{name}_supported", bool)() for name in ("amx_tile", "avx512_bf16")
    )
    cores = ", bf16 matrix units" if amx else ", bf16 products" if products else ""
    return {
        "commit": git_commit(),
        "hardware": hardware_name() + cores,
        "torch": torch.__version__.split("+")[0],
    }


def command_again(program: str, options: Mapping[str, object]) -> str:
    "What to type for the same once more: the program, and each option that has a value."
    words = program.split()
    for name, value in options.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        elif isinstance(value, (list, tuple)):
            words += [f"--{option}", *map(str, value)]
        elif value is not None:
            words += [f"--{option}", str(value)]
    return shlex.join(words)


def command(parser: argparse.ArgumentParser, *places: str, **instead) -> str:
    """What to type for the same once more, from the repository's root: all that was typed and isn't
    the default.

    places: the arguments that have no option, in their order; instead: other values for some, None
    for none."""
    typed = vars(parser.parse_args()) | instead
    for name, value in typed.items():
        if isinstance(value, Path) and value.is_absolute() and value.is_relative_to(ROOT):
            typed[name] = value.relative_to(ROOT)
    script = Path(sys.argv[0]).resolve().relative_to(ROOT)
    program = " ".join(["python", str(script), *(str(typed[name]) for name in places)])
    return command_again(
        program,
        {
            name: value
            for name, value in typed.items()
            if name not in places and value != parser.get_default(name)
        },
    )


def keep(path: Path, record: dict) -> None:
    write_json(Path(path), record)


def kept_runs(path: Path, **must) -> list[dict]:
    "The runs that a record holds already; ValueError if it was made with other settings."
    if not Path(path).exists():
        return []
    held = json.loads(Path(path).read_text("utf-8"))
    for name, value in must.items():
        if held.get(name) != value:
            raise ValueError(
                f"{path} was made with {name} {held.get(name)} and not {value}: take another --out"
            )
    return held["runs"]


def bleu(said: list[str], references: list[str]) -> dict:
    "sacreBLEU with its signature and chapter 19's interval."
    from transformer_lit import evaluation

    refs = [[one] for one in references]
    found = evaluation.scores(said, refs)[0]
    sure = evaluation.interval(evaluation.line_counts(said, refs))
    return {
        "bleu": found["value"],
        "low": sure["low"],
        "high": sure["high"],
        "signature": found["signature"],
    }


def scores(said: list[str], references: list[list[str]]) -> dict[str, dict]:
    "BLEU and chrF with all references, each with its signature and 95% interval."
    from sacrebleu import CHRF
    from sacrebleu.significance import _bootstrap_resample

    from transformer_lit import evaluation

    bleu, chrf = evaluation.scores(said, references)
    spread = evaluation.interval(evaluation.line_counts(said, references))
    metric, streams = CHRF(), evaluation.columns(references)
    sampled = metric.corpus_score(said, streams)
    _, drawn = _bootstrap_resample(metric._extract_corpus_statistics(said, streams), metric)
    for (
        one
    ) in drawn:  # a score of 0 is of another type than the rest, and sacrebleu can't add the two
        one.score = float(one.score)
    sampled.estimate_ci(drawn)
    return {
        "bleu": bleu | {"low": spread["low"], "high": spread["high"]},
        "chrf": chrf | {"low": sampled._mean - sampled._ci, "high": sampled._mean + sampled._ci},
    }


def textbook_step(
    model, optimizer, source, target, rate: float, precision: str, smoothing: float = 0.1
) -> float:
    "One update as tutorials write it: PyTorch's cross-entropy, no bound on the gradient."
    read, say = shift_right(target)
    optimizer.zero_grad()
    with torch.autocast(source.device.type, torch.bfloat16, enabled=precision == "bf16"):
        logits = model(source, read)
    loss = F.cross_entropy(
        logits.float().flatten(0, 1), say.flatten(), ignore_index=PAD, label_smoothing=smoothing
    )
    loss.backward()
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return loss.item()


class Clock:
    "Processor and wall seconds, only while it runs."

    def __init__(self):
        self.cpu = self.wall = 0.0

    def __enter__(self):
        self.began = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_):
        self.cpu += time.process_time() - self.began[0]
        self.wall += time.perf_counter() - self.began[1]
