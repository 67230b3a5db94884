"""The comparisons of part IV, where models translate: one run, or a design's search, on one thread.

    python bench/fair tatoeba-transformer-2000k-p0.012-w0.6-s1    # ground, design, budget, peak of
    the rate, share of warm-up, seed
    python bench/fair tatoeba-rnn-2000k-p0.006-w0-s{1,2,3}        # the shell writes three names
    python bench/fair --search rnn --ground pocket                # the trials that choose a setting
    python bench/fair --design rnn                                # and then the three runs
    python bench/fair tatoeba-ngrams-2000000-p0-s1 tatoeba-clock-0-p0-s1
    python bench/fair pocket-families-800-p0.006-s1               # chapter 26's models

The rule is chapter 22's. Grounds: Tatoeba English-French, 2M target tokens (about one epoch of the
corpus), three seeds; and the pocket corpus up to 2M. All designs of a ground have as many
parameters, within 2%, and see the same batches in the same order. What is reported is measured on
test sentences.

Each run becomes a line of book/results/runs/GROUND.jsonl and names its commit, so the checkout must
be clean but for these tables; a run that is there already is only read. Checkpoints are under
.run/fair. It stops at Ctrl-C or SIGTERM after the step that it is in, and the same command goes on
with it. Two commands may run beside each other. Needs $TRANSFORMER_LIT_DATA or a download."""

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "book"), str(ROOT / "bench")]
import torch  # noqa: E402
from fair.runs import DESIGNS, GROUNDS, Job, loss_of, make  # noqa: E402
from records import RUNS  # noqa: E402

from litbook.search import FULL, SEEDS, search, walk  # noqa: E402
from transformer_lit.cli import exit_status  # noqa: E402


def main(args: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("names", nargs="*", metavar="NAME", help="runs by their names")
    p.add_argument("--search", nargs="+", default=[], choices=DESIGNS, metavar="DESIGN")
    p.add_argument("--design", nargs="+", default=[], choices=DESIGNS, metavar="DESIGN")
    p.add_argument("--ground", choices=GROUNDS, default="tatoeba", help="default: %(default)s")
    p.add_argument("--tokens", type=int, default=0, help="--search: walk on with so large a budget")
    p.add_argument("--home", type=Path, default=ROOT / ".run/fair", help="default: %(default)s")
    p.add_argument("--out", type=Path, default=RUNS, help="default: %(default)s")
    o = p.parse_args(args)

    def line_of(job: Job) -> dict:
        print(f"{time.strftime('%H:%M:%S')} {job.name}", flush=True)
        row = make(job, o.home, o.out)
        scores = [key for key in ("valid_loss", "test_loss", "bleu") if key in row]
        print(
            "        ",
            *(f"{key} {row[key]:.3f}" for key in scores),
            row.get("failed", ""),
            f"{row['wall_seconds']:.0f} s",
            flush=True,
        )
        return row

    def work() -> int:
        torch.set_num_threads(1)
        for job in map(Job.of, o.names):
            line_of(job)
        for design in o.search + o.design:
            setting = walk(
                search(o.ground, o.tokens),
                lambda trial: loss_of(line_of(Job("train", o.ground, design, *trial))),
            )
            for seed in SEEDS if setting and design in o.design else ():
                line_of(Job("train", o.ground, design, o.tokens or FULL, *setting, seed))
        return 0

    return exit_status(work)


if __name__ == "__main__":
    sys.exit(main())
