"""The first ten minutes on a GPU, as one command: what works there, what is right, how fast it is.

    python bench/card.py --out runs/card                  on a GPU: under ten minutes
    python bench/card.py --out runs/card --minutes 20 --switches    and then each switch of `switches.py`, a minute and a half each
    python bench/card.py --out runs/card                  on a CPU: the same with tiny sizes, under a minute; its times mean nothing

probe    versions; which attention kernel torch chooses; four kernels by four masks by three widths, forward and backward, the first
         call and the second (a plan for each shape shows there)
correct  gradients beside float64 on the processor; steps under torch.cuda.set_sync_debug_mode("error"), which stops at a wait; a run in
         two parts beside the run; compiled beside not compiled; greedy and beam answers beside the processor's
steps    `step.py`: ours beside nn.Transformer, both compiled
loss     `loss.py`: peak memory and time of the loss, whole and in blocks
run      a training on a made-up token store as `wmt` has it: its own clock beside the wall's, tokens a second, shapes, real tokens
--switches adds a part for each: `step.py --forms ours "ours, NAME"`

Each part is a process with its own limit; what it finds is on the disk at once, line by line, in OUT/PART.jsonl (or, of step.py and
loss.py, OUT/PART.json). A part that fails or is cut leaves what it had, and the next one begins. OUT/card.json says how each ended; it is
written after every part. `--only` runs some parts. Compiled graphs are kept in OUT/cache, for the next run.
"""

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

BENCH = Path(__file__).resolve().parent
sys.path[:0] = [str(BENCH.parent), str(BENCH)]
from common import keep, where  # noqa: E402

from transformer_lit import wmt  # noqa: E402
from transformer_lit.decoding import beam_search, greedy_decode  # noqa: E402
from transformer_lit.masks import BOS, EOS, PAD, UNK  # noqa: E402
from transformer_lit.model import Transformer, TransformerConfig  # noqa: E402
from transformer_lit.corpora.store import ShardWriter, TokenStore  # noqa: E402
from transformer_lit.training import PairBatches, Trainer, TrainingConfig, backward  # noqa: E402

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
HALF = "bf16" if GPU else "fp32"
KERNELS = ("MATH", "EFFICIENT_ATTENTION", "FLASH_ATTENTION", "CUDNN_ATTENTION")
SMALL = dict(d_model=64, n_heads=2, d_ff=128, n_encoder_layers=2, n_decoder_layers=2, dropout=0.0)
LIMITS = {"probe": 120, "correct": 120, "steps": 240, "loss": 90, "run": 150}  # seconds
SWITCH = 100


class Lines:
    "A file that has each row as soon as it is known; the row is printed as well."

    def __init__(self, path: Path):
        self.path = path
        path.write_text("")

    def __call__(self, **row) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        print(
            "  "
            + ", ".join(
                f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
                for name, value in row.items()
            ),
            flush=True,
        )


def wait() -> float:
    if GPU:
        torch.cuda.synchronize()
    return time.perf_counter()


def timed(f) -> float:
    "Milliseconds."
    began = wait()
    f()
    return 1000 * (wait() - began)


# Parts --------------------------------------------------------------------------------------------


def masks_of(width: int, rows: int) -> dict:
    real = torch.arange(width, device=DEVICE) < torch.randint(
        width // 2, width + 1, (rows, 1), device=DEVICE
    )
    padding = real[:, None, None, :]
    return {
        "none": {},
        "padding": {"attn_mask": padding},
        "is_causal": {"is_causal": True},
        "causal mask": {
            "attn_mask": padding & torch.ones(width, width, dtype=torch.bool, device=DEVICE).tril()
        },
    }


def probe(say: Lines) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from transformer_lit.runtime.precision import precision_here

    say(
        versions=(
            f"torch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN"
            f" {torch.backends.cudnn.version() if GPU else None}"
        ),
        precision=precision_here(DEVICE.type),
        **where(),
    )
    tokens = 25_000 if GPU else 256
    for width in (32, 64, 128) if GPU else (8, 16):
        rows = tokens // width
        query = torch.randn(
            rows,
            8,
            width,
            64,
            device=DEVICE,
            dtype=torch.bfloat16 if GPU else torch.float32,
            requires_grad=True,
        )
        for name, how in masks_of(width, rows).items():
            chosen = torch._fused_sdp_choice(
                query, query, query, how.get("attn_mask"), 0.0, how.get("is_causal", False)
            )
            say(
                width=width,
                mask=name,
                chosen=(
                    str(SDPBackend(chosen)).split(".")[-1]
                    if not isinstance(chosen, SDPBackend)
                    else chosen.name
                ),
            )
            for kernel in KERNELS:

                def both_ways():
                    with sdpa_kernel([getattr(SDPBackend, kernel)]):
                        torch.nn.functional.scaled_dot_product_attention(
                            query, query, query, **how
                        ).sum().backward()

                try:
                    first, second, third = timed(both_ways), timed(both_ways), timed(both_ways)
                    say(
                        width=width,
                        mask=name,
                        kernel=kernel,
                        first_ms=first,
                        then_ms=min(second, third),
                    )
                except RuntimeError as error:
                    say(
                        width=width,
                        mask=name,
                        kernel=kernel,
                        refused=str(error).split("\n")[0][:100],
                    )


def a_model(dtype=torch.float32, device=DEVICE) -> Transformer:
    torch.manual_seed(0)
    return Transformer(TransformerConfig(200, **SMALL)).to(dtype).to(device)


def a_batch(device=DEVICE) -> list:
    dice = torch.Generator().manual_seed(0)
    source, target = (torch.randint(UNK + 1, 200, (16, n), generator=dice) for n in (20, 21))
    target[:, 0], source[:4, 15:], target[4:8, 12:] = BOS, PAD, PAD
    return [source.to(device), target.to(device)]


def losses(folder: Path, stops: list[int], steps: int = 6) -> list[float]:
    "Of a run in as many parts as there are stops."
    dice = np.random.default_rng(0)
    pairs = [
        ([*dice.integers(4, 200, n).tolist(), EOS], [BOS, *dice.integers(4, 200, n).tolist(), EOS])
        for n in dice.integers(3, 20, 200)
    ]
    for stop in stops:
        model, config = a_model(), TrainingConfig(
            max_tokens=400, checkpoint_every=2, precision=HALF
        )
        run = Trainer(model, config, folder=folder, log_every=1)
        run.fit(PairBatches(pairs, config, steps=steps), stop)
    return [entry["loss"] for entry in run.log if entry["kind"] == "step"]


def correct(say: Lines) -> None:
    exact = a_model(torch.float64, torch.device("cpu"))
    right = backward(exact, *a_batch(torch.device("cpu")), TrainingConfig())
    for precision, near in ("fp32", 1e-4), ("bf16", 0.05):
        model = a_model()
        loss = backward(model, *a_batch(), TrainingConfig(precision=precision))
        one, other = (
            torch.cat([w.grad.cpu().double().flatten() for w in some.parameters()])
            for some in (model, exact)
        )
        away = ((one - other).norm() / other.norm()).item()
        say(
            check=f"gradients, {precision}, beside float64",
            ok=away < near,
            loss=abs(loss.item() - right.item()),
            gradient=away,
        )
    model = a_model()
    run, sides = Trainer(model, TrainingConfig(precision=HALF)), a_batch()
    run.train_step(*sides)
    if GPU:
        torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(3):
            run.train_step(*sides)
        say(check="a step waits for nothing", ok=True, asked=GPU)
    except RuntimeError as error:
        say(check="a step waits for nothing", ok=False, asked=GPU, error=str(error).split("\n")[0])
    finally:
        if GPU:
            torch.cuda.set_sync_debug_mode("default")
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        through, parts = losses(Path(one), [6]), losses(Path(two), [3, 6])
    say(
        check="a run in two parts",
        ok=through == parts,
        apart=max(abs(a - b) for a, b in zip(through, parts)),
    )
    if GPU:
        found = []
        for choice in False, True, "dynamic":
            model = a_model()
            found.append(
                backward(model, *a_batch(), TrainingConfig(precision=HALF, compile=choice)).item()
            )
        say(
            check="compiled beside not compiled",
            ok=max(found) - min(found) < 0.01,
            apart=max(found) - min(found),
        )
    from transformer_lit.corpora.files import shipped
    from transformer_lit.translation import Translator
    from transformer_lit.pocket import load_pocket

    english = [pair.english for pair in load_pocket()["test"][: 64 if GPU else 8]]
    plain, card = (Translator.from_pretrained(shipped("data/checkpoints/pocket")) for _ in range(2))
    card.model.to(DEVICE)
    for beam in 1, 4:
        said = [one.translate(english, beam_size=beam, precision="fp32") for one in (plain, card)]
        same = sum(a == b for a, b in zip(*said)) / len(english)
        say(check=f"answers, beam {beam}, beside the processor's", ok=same > 0.95, same=same)
    ids = torch.randint(UNK + 1, 200, (32, 20), device=DEVICE)
    for name, search in ("greedy", greedy_decode), ("beam 4", beam_search):
        model = a_model().eval()
        with torch.no_grad():
            model.output.weight[:UNK] -= 100.0  # no end before the limit
        search(model, ids, max_length=5)
        say(
            check=f"milliseconds of a step of {name}, 32 sentences",
            ok=True,
            ms=timed(lambda: search(model, ids, max_length=40)) / 40,
        )


def made_up_store(folder: Path, pairs: int, vocab: int) -> TokenStore:
    "Pairs with lengths like WMT's, their ids drawn."
    dice = np.random.default_rng(0)
    both = np.exp(dice.normal(3.25, 0.6, (pairs, 1)))
    lengths = (both * np.exp(dice.normal(0, [0, 0.1], (pairs, 2)))).clip(3, 128).astype(np.int64)
    ids = dice.integers(UNK + 1, vocab, lengths.sum())
    ends = lengths.ravel().cumsum()
    ids[ends - 1], ids[ends[::2]] = EOS, BOS
    writer = ShardWriter(folder)
    writer.add(ids, lengths)
    writer.close()
    keep(folder / "manifest.json", {"shards": writer.state["shards"]})
    return TokenStore(folder)


def short_run(say: Lines) -> None:
    vocab, tokens = (37_000, 25_000) if GPU else (300, 400)
    config = TrainingConfig(
        max_tokens=tokens, warmup=400, clip=0.0, precision=HALF, compile=GPU, checkpoint_every=0
    )
    with tempfile.TemporaryDirectory() as folder:
        store = made_up_store(Path(folder), 350_000 if GPU else 600, vocab)
        batches = wmt.StoreBatches(store, config, 10_000 if GPU else 12)
        shapes = [
            tuple(wmt.static_shape(store.lengths, batch, tokens))
            for batch in wmt.static_batches(store.lengths, tokens)
        ]
        say(
            pairs=len(store),
            shapes=len(set(shapes)),
            real=store.lengths.sum(dtype=int) / (2 * sum(map(math.prod, shapes))),
        )
        torch.manual_seed(0)
        model = Transformer(TransformerConfig(vocab, **({} if GPU else SMALL))).to(DEVICE)
        run = Trainer(model, config, log_every=10 if GPU else 4)
        began, last, seen = wait(), [wait(), 0, 0.0], set()

        def look(run: Trainer) -> None:
            if run.step % run.log_every == 0:
                now = time.perf_counter()
                say(
                    step=run.step,
                    loss=float(run.last["loss"]),
                    own_seconds=run.seconds,
                    wall_seconds=now - began,
                    tokens_per_second=(run.tokens - last[1]) / max(now - last[0], 1e-9),
                    shapes_so_far=len(seen),
                )
                last[:] = [now, run.tokens, run.seconds]

        take = run.train_step
        run.train_step = lambda source, target: seen.add(tuple(source.shape)) or take(
            source, target
        )
        until = time.monotonic() + (110 if GPU else 10)
        run.fit(batches, lambda run: time.monotonic() > until, look)
        wall = wait() - began
        # Steps of a GPU must fill the wall's time; a processor's twelve small ones share theirs
        # with whatever else runs there.
        say(
            check="its clock beside the wall's",
            ok=(0.9 if GPU else 0) < run.seconds / wall <= 1.001,
            own_seconds=run.seconds,
            wall_seconds=wall,
            steps=run.step,
            tokens_per_second=run.tokens / run.seconds,
        )


PARTS = {"probe": probe, "correct": correct, "run": short_run}


# All of them --------------------------------------------------------------------------------------


def command_of(name: str, out: Path) -> list[str]:
    "What a part's process runs."
    if name in PARTS:
        return [str(BENCH / "card.py"), "--part", name, "--out", str(out)]
    size = ["--full"] if GPU else ["--rounds", "1"]
    if name == "loss":
        return [
            str(BENCH / "loss.py"),
            *(["--full"] if GPU else ["--tokens", "200", "--vocab", "500", "--d-model", "16"]),
            "--out",
            str(out / "loss.json"),
        ]
    forms = ["ours", "torch"] if name == "steps" else ["ours", f"ours, {name}"]
    file = "steps" if name == "steps" else "switch-" + name.replace(" ", "-")
    return [
        str(BENCH / "step.py"),
        *size,
        "--precision",
        HALF,
        "--forms",
        *forms,
        "--out",
        str(out / f"{file}.json"),
    ]


def one_part(name: str, out: Path, seconds: float) -> dict:
    """Run a part in a process of its own; how it ended. At its limit it is asked to end, and then
    made to."""
    began = time.monotonic()
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(out / "cache"), "PYTHONUNBUFFERED": "1"}
    with open(out / f"{name}.log", "w", encoding="utf-8") as log:
        child = subprocess.Popen(
            [sys.executable, *command_of(name, out)],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=cache | dict(os.environ),
        )
        try:
            code = child.wait(seconds)
        except (subprocess.TimeoutExpired, KeyboardInterrupt) as cut:
            for number, patience in (signal.SIGTERM, 5), (signal.SIGKILL, 5):
                try:
                    os.killpg(child.pid, number)
                    child.wait(patience)
                    break
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    continue
            if isinstance(cut, KeyboardInterrupt):
                raise
            code = None
    row = {
        "state": (
            "cut at its limit" if code is None else "done" if code == 0 else f"failed ({code})"
        ),
        "seconds": round(time.monotonic() - began, 1),
    }
    lines = out / f"{name}.jsonl"
    if lines.exists():
        rows = [json.loads(line) for line in lines.read_text("utf-8").splitlines()]
        wrong = [one["check"] for one in rows if one.get("ok") is False]
        row |= {"rows": len(rows), "wrong": wrong}
    return row


def table(parts: dict) -> str:
    lines = [
        f"{name:14} {row['state']:18} {row['seconds']:6.1f} s"
        + (f"  {row['rows']} rows" if "rows" in row else "")
        + ("  WRONG: " + "; ".join(row["wrong"]) if row.get("wrong") else "")
        for name, row in parts.items()
    ]
    return "\n".join(lines)


def main() -> int:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--out", type=Path, required=True)
    p.add_argument(
        "--minutes", type=float, default=9.5, help="of all parts together (default: 9.5)"
    )
    p.add_argument("--only", nargs="+", help="these parts alone")
    p.add_argument("--switches", action="store_true", help="then each switch of switches.py")
    p.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    o = p.parse_args()
    o.out.mkdir(parents=True, exist_ok=True)
    if o.part:
        PARTS[o.part](Lines(o.out / f"{o.part}.jsonl"))
        return 0
    from switches import SWITCHES

    limits = {**LIMITS, **dict.fromkeys(SWITCHES if o.switches else (), SWITCH)}
    unknown = set(o.only or ()) - set(LIMITS) - set(SWITCHES)
    if unknown:
        p.error(f"there is no part {sorted(unknown)}: choose from {[*LIMITS, *SWITCHES]}")
    names = o.only or list(limits)
    until, record = time.monotonic() + 60 * o.minutes, {"parts": {}, **where()}
    for name in names:
        left = until - time.monotonic()
        if left < 1:
            record["parts"][name] = {"state": "no time left", "seconds": 0.0}
        else:
            record["parts"][name] = one_part(
                name, o.out.resolve(), min(limits.get(name, SWITCH), left)
            )
        keep(o.out / "card.json", record)
        print(table({name: record["parts"][name]}), flush=True)
    print(f"\n{record['hardware']}, torch {record['torch']}\n{table(record['parts'])}")
    return any(row["state"] != "done" or row.get("wrong") for row in record["parts"].values())


if __name__ == "__main__":
    sys.exit(main())
