"""The package against itself at another commit, in turns: training steps, decoding, filled batches, answers, memory of the loss.

    python bench/against.py 52b2df9 --trial                 the smallest sizes, no answers: a minute
    python bench/against.py 52b2df9 --out FILE              minutes; 2,000 Tatoeba test sentences (TRANSFORMER_LIT_DATA)

Each commit has a worktree of its own for the time of the run, and a process of its own with one thread. A round asks both for the same
work, in turns and in changing order; what is kept is processor time of each round and what came out. `other` is the named commit, `here`
the one that is checked out; a ratio is the median over the rounds of other's time by here's in one round, so above 1 means that this one
is faster. `nn.Transformer` is asked in the same rounds (`Twin` of bench/). "filled batches": the tokens that a step of a compiled run
trains on per second, in the batches that each commit cuts from lengths like WMT's, padded to their static shapes. Losses of a step, and
the sum of an answer's tokens, are compared as well (dropout has the same seed on both sides).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

WORK = [
    "step fp32",
    "step bf16",
    "step bf16, Muon",
    "nn.Transformer fp32",
    "nn.Transformer bf16",
    "greedy, 32 rows",
    "beam 4, 32 rows",
    "greedy, 1 row",
    "beam 4, 1 row",
    "filled batches",
]


def worker(root: str, size: str) -> None:
    "Answers one line of stdin after the other with the package under `root`."
    import time

    sys.path[:0] = [root, f"{root}/bench"]
    import numpy as np
    import step as bench
    import torch
    import transformer_lit
    from transformer_lit import wmt
    from transformer_lit.data import test_set
    from transformer_lit.decoding import beam_search, greedy_decode
    from transformer_lit.masks import BOS, EOS, UNK
    from transformer_lit.model import Transformer, TransformerConfig
    from transformer_lit.runtime.optimizers import MuonAndAdam
    from transformer_lit.training import Trainer, TrainingConfig
    from transformer_lit.translation import Translator

    assert Path(transformer_lit.__file__).is_relative_to(root), transformer_lit.__file__
    torch.set_num_threads(1)
    model, tokens, words, vocab, *_ = bench.SIZES[size]
    config, batch = TransformerConfig(vocab, **model), bench.a_batch(tokens, words, vocab)

    def trainer(precision, muon=False):
        torch.manual_seed(0)
        model = Transformer(config).train()
        return Trainer(
            model,
            TrainingConfig(clip=0.0, warmup=400, precision=precision),
            optimizer=MuonAndAdam(model) if muon else None,
        )

    def step(*how):
        run = trainer(*how)
        return lambda: (1, float(run.train_step(*batch)["loss"]))

    def twin(precision):
        torch.manual_seed(0)
        one = bench.torch_step(config, precision, batch)
        return lambda: (1, float(one()))

    def filled():
        dice, room = np.random.default_rng(0), tokens
        both = np.exp(dice.normal(3.25, 0.6, (20_000, 1)))
        lengths = (
            (both * np.exp(dice.normal(0, [0, 0.1], (20_000, 2))))
            .clip(2, room // 8)
            .astype(np.uint16)
        )
        some, run = wmt.static_batches(lengths, room)[:6], trainer("fp32")
        made, ids = [], torch.Generator().manual_seed(1)
        for one in some:
            sides = [
                torch.zeros(wmt.static_shape(lengths, one, room), dtype=torch.long)
                for _ in range(2)
            ]
            for side, column in zip(sides, lengths[one].T.tolist()):
                for row, length in enumerate(column):
                    side[row, :length] = torch.randint(UNK + 1, vocab, (length,), generator=ids)
                    side[row, length - 1] = EOS
            sides[1][: len(one), 0] = BOS
            made.append(sides)
        real = sum(int(lengths[one].sum()) for one in some)
        return lambda: (1 / real, [float(run.train_step(*sides)["loss"]) for sides in made][0])

    translator = Translator.from_pretrained()
    translator.model.eval()
    sentences = [
        "I was too tired to go on, so I sat down.",
        "Where did you put my keys?",
        "She speaks French better than her brother.",
    ]
    rows = [translator.source.encode(one) for one in sentences] * 11

    def search(how, n):
        width = max(map(len, rows[:n]))
        source = torch.tensor([row + [0] * (width - len(row)) for row in rows[:n]])
        return lambda: (
            1,
            sum(map(sum, (list(map(int, row)) for row in how(translator.model, source)))),
        )

    makers = {
        "step fp32": lambda: step("fp32"),
        "step bf16": lambda: step("bf16"),
        "step bf16, Muon": lambda: step("bf16", True),
        "nn.Transformer fp32": lambda: twin("fp32"),
        "nn.Transformer bf16": lambda: twin("bf16"),
        "greedy, 32 rows": lambda: search(greedy_decode, 32),
        "beam 4, 32 rows": lambda: search(beam_search, 32),
        "greedy, 1 row": lambda: search(greedy_decode, 1),
        "beam 4, 1 row": lambda: search(beam_search, 1),
        "filled batches": filled,
    }
    assert list(makers) == WORK
    work = {name: make() for name, make in makers.items()}
    for line in sys.stdin:
        name, n = json.loads(line)
        if name == "answers":
            asked = test_set("tatoeba")[0][:n]
            told = {
                f"{which}, beam {beam}": (
                    Translator.from_pretrained(f"{root}/data/checkpoints/{which}").translate(
                        asked, beam_size=beam, precision="fp32"
                    )
                )
                for which in ("tatoeba-fr", "pocket")
                for beam in (1, 4)
            }
            print(json.dumps(told), flush=True)
            continue
        torch.manual_seed(n)
        began = time.process_time()
        share, said = work[name]()
        print(json.dumps([(time.process_time() - began) * share, said]), flush=True)


def loss_memory(root: Path, trial: bool) -> dict:
    "Peak and seconds of the loss in blocks, by that commit's own bench/loss.py."
    sizes = (
        ("--tokens", "200", "--vocab", "500", "--d-model", "16")
        if trial
        else ("--tokens", "8000", "--vocab", "8000", "--d-model", "256")
    )
    from loss import NOTHING_KEPT

    told = {}
    for precision in "fp32", "bf16":
        runs = [
            json.loads(
                subprocess.run(
                    [sys.executable, "bench/loss.py", "--one", "blocks", precision, *sizes],
                    cwd=root,
                    check=True,
                    text=True,
                    stdout=subprocess.PIPE,
                    env={**os.environ, **NOTHING_KEPT},
                ).stdout
            )
            for _ in range(1 if trial else 3)
        ]
        told[precision] = {
            "peaks": [run["peak"] for run in runs],
            "seconds": [run["seconds"] for run in runs],
            "loss": runs[0]["loss"],
        }
    return told


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("commit", help="the other one")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--sentences", type=int, default=2_000)
    p.add_argument(
        "--trial", action="store_true", help="the smallest sizes, two rounds, no answers"
    )
    p.add_argument("--out", type=Path)
    p.add_argument("--worker", metavar="SIZE", help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.worker:
        return worker(o.commit, o.worker)
    sys.path.insert(0, str(Path(__file__).parent))
    from common import ROOT, command, keep, where

    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    size, rounds, sentences = ("tiny", 2, 0) if o.trial else ("medium", o.rounds, o.sentences)
    git = ["git", "-C", str(ROOT)]
    known = subprocess.run(
        [*git, "rev-parse", "--verify", f"{o.commit}^{{commit}}"], text=True, capture_output=True
    )
    if known.returncode:
        p.error(f"there is no commit {o.commit} in this repository: name one that `git log` shows")
    with tempfile.TemporaryDirectory() as folder:
        roots = {"other": Path(folder).resolve() / "other", "here": ROOT}
        subprocess.run(
            [
                *git,
                "worktree",
                "add",
                "--quiet",
                "--detach",
                str(roots["other"]),
                known.stdout.strip(),
            ],
            check=True,
        )
        try:
            record = compare(roots, size, rounds, sentences, o.trial)
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(roots["other"])], check=True)
    if o.out:
        keep(
            o.out,
            {
                "command": command(p, "commit", worker=None),
                "other": known.stdout.strip(),
                "size": size,
                "threads": 1,
                **record,
                **where(),
            },
        )


def compare(roots: dict[str, Path], size: str, rounds: int, sentences: int, trial: bool) -> dict:
    sides = {
        name: subprocess.Popen(
            [sys.executable, __file__, str(root), "--worker", size],
            stdin=subprocess.PIPE,
            text=True,
            stdout=subprocess.PIPE,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        for name, root in roots.items()
    }

    def ask(side, name, n=0):
        sides[side].stdin.write(json.dumps([name, n]) + "\n")
        sides[side].stdin.flush()
        told = sides[side].stdout.readline()
        assert told, f"the process of {side} ended at {name!r}"
        return json.loads(told)

    seconds, said = ({name: {side: [] for side in sides} for name in WORK} for _ in range(2))
    try:
        told = {side: ask(side, "answers", sentences) if sentences else {} for side in sides}
        equal = {
            which: [sum(a == b for a, b in zip(told["other"][which], said)), len(said)]
            for which, said in told["here"].items()
        }
        print(
            "equal answers: "
            + (
                ", ".join(f"{which} {equal[which][0]} of {equal[which][1]}" for which in equal)
                or "not asked"
            ),
            flush=True,
        )
        for n in range(rounds + 1):  # the first warms up; its results count, its times do not
            for name in WORK:
                for side in sorted(sides, reverse=n % 2 == 0):
                    took, out = ask(side, name, n)
                    said[name][side].append(out)
                    if n:
                        seconds[name][side].append(took)
    finally:
        for side in sides.values():
            side.stdin.close()
            side.wait(60)
    rows = {}
    for name in WORK:
        other, here = (seconds[name][side] for side in ("other", "here"))
        rows[name] = {
            "other": other,
            "here": here,
            "ratio": statistics.median(a / b for a, b in zip(other, here)),
        }
        words = (
            f"{name:20} {statistics.median(other):10.3g} {statistics.median(here):10.3g} s, ratio"
            f" {rows[name]['ratio']:.3f}"
        )
        if name != "filled batches":  # there the batches are others
            rows[name]["results_apart"] = max(
                abs(a - b) for a, b in zip(said[name]["other"], said[name]["here"])
            )
            words += f", results apart by {rows[name]['results_apart']:.2g}"
        print(words, flush=True)
    rival = {}
    for precision in "fp32", "bf16":
        for side in sides:
            ratio = statistics.median(
                a / b
                for a, b in zip(
                    seconds[f"nn.Transformer {precision}"][side], seconds[f"step {precision}"][side]
                )
            )
            rival[f"{side}, {precision}"] = ratio
            print(f"nn.Transformer's time by ours, {precision}, {side}: {ratio:.3f}", flush=True)
    memory = {side: loss_memory(root, trial) for side, root in roots.items()}
    for precision in "fp32", "bf16":
        print(
            f"loss in blocks, {precision}: "
            + ", ".join(
                f"{side} {statistics.median(memory[side][precision]['peaks']) / 1e6:.1f} MB"
                for side in roots
            )
        )
    return {
        "rounds": rounds,
        "work": rows,
        "nn_transformer_over_ours": rival,
        "answers_equal": equal,
        "loss": memory,
    }


if __name__ == "__main__":
    main()
