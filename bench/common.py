"""What the scripts share: options, records, scores with their intervals, a clock."""

import argparse
import json
import shlex
import sys
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "book/results/bench"
sys.path[:0] = [str(ROOT), str(ROOT / "book")]
from transformer_lit.corpora.files import shipped, write_json  # noqa: E402
from transformer_lit.corpora.texts import TextPair, read_columns  # noqa: E402
from transformer_lit.runs.records import git_commit, hardware_name  # noqa: E402

EVERYDAY = shipped("data/checkpoints/tatoeba-fr")  # what chapters 13, 18 and 20 study


def options(doc: str, arguments: dict[str, dict] | None = None, **defaults) -> argparse.Namespace:
    """What was typed; from here on the script computes on one thread, as recorded runs do, and
    what it prints is there at once.

    arguments: what argparse must describe. An option has the type of its default; a list takes
    several values, and a type stands for an option that needn't be there."""
    torch.set_num_threads(1)
    sys.stdout.reconfigure(line_buffering=True)
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, description in (arguments or {}).items():
        parser.add_argument(name, **description)
    for name, default in defaults.items():
        description = {"default": default, "type": type(default)}
        if isinstance(default, type):
            description = {"type": default}
        elif isinstance(default, bool):
            description = {"action": "store_true"}
        elif isinstance(default, list):
            description |= {"nargs": "+", "type": type(default[0])}
        parser.add_argument(f"--{name.replace('_', '-')}", **description)
    return parser.parse_args()


def try_it() -> list[TextPair]:
    "The forty sentences that come with the book, each with its translation."
    return list(read_columns(shipped("data/try_it.tsv")))


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


class Record(dict):
    """What a script measured, to be written to `path` (None: nowhere) whenever there is more.

    It begins with the command that was typed, and with where it ran: a checkout that no record has
    changed yet."""

    def __init__(self, path: Path | None, **settings):
        script = Path(sys.argv[0]).resolve().relative_to(ROOT)
        command = shlex.join(["python", str(script), *sys.argv[1:]])
        super().__init__(command=command, **where(), **settings)
        self.path, self.settings = path, settings

    def resume(self) -> list[dict]:
        "The runs in the file; ValueError if they were made with other settings."
        held = json.loads(self.path.read_text("utf-8")) if self.path.exists() else self.settings
        for name, value in self.settings.items():
            if held.get(name) != value:
                raise ValueError(
                    f"{self.path} was made with {name} {held.get(name)} and not {value}: take"
                    " another --out"
                )
        return self.setdefault("runs", held.get("runs", []))

    def write(self, **fields) -> None:
        self.update(fields)
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.path, self)


def scores(outputs: list[str], references: list[list[str]]) -> dict[str, dict]:
    "BLEU and chrF with all references, each with its signature and 95% interval."
    from sacrebleu import CHRF
    from sacrebleu.significance import _bootstrap_resample

    from transformer_lit import evaluation

    bleu, chrf = evaluation.sacrebleu_scores(outputs, references)
    spread = evaluation.bootstrap_interval(evaluation.segment_stats(outputs, references))
    metric, streams = CHRF(), evaluation.reference_streams(references)
    score = metric.corpus_score(outputs, streams)
    _, draws = _bootstrap_resample(metric._extract_corpus_statistics(outputs, streams), metric)
    for draw in draws:  # sacrebleu can't add up scores of which one is 0, an int
        draw.score = float(draw.score)
    score.estimate_ci(draws)
    return {
        "bleu": bleu | {"low": spread["low"], "high": spread["high"]},
        "chrf": chrf | {"low": score._mean - score._ci, "high": score._mean + score._ci},
    }


class Clock:
    "Processor and wall seconds, only while it runs."

    def __init__(self):
        self.cpu = self.wall = 0.0

    def __enter__(self):
        self.start = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_):
        self.cpu += time.process_time() - self.start[0]
        self.wall += time.perf_counter() - self.start[1]
