"""The comparisons of part IV, where models translate: one run, or a design's search, on one thread.

    python bench/fair tatoeba-transformer-2000k-p0.012-w0.6-s1    # ground, design, budget, peak of
    the rate, share of warm-up, seed
    python bench/fair tatoeba-rnn-2000k-p0.006-w0-s{1,2,3}        # the shell writes three names
    python bench/fair --search rnn --ground pocket                # the trials that choose a setting
    python bench/fair --design rnn                                # and then the three runs
    python bench/fair tatoeba-ngrams-2000000-p0-s1 tatoeba-clock-0-p0-s1
    python bench/fair pocket-families-800-p0.006-s1               # chapter 26's models
    python bench/fair tatoeba-random{1..24}-2017-500k-p0-w0-s4    # a random search, 24 trials
    python bench/fair german-2017-2000k-p0.003-w0.6-s1            # English-German

The rule is chapter 22's. Grounds: Tatoeba English-French, 2M target tokens (about one epoch of the
corpus), three seeds; and the pocket corpus up to 2M. All designs of a ground have as many
parameters, within 2%, and see the same batches in the same order. What is reported is measured on
test sentences.

Each run becomes a line of book/results/runs/GROUND.jsonl and names its commit, so the checkout must
be clean but for these tables; a run that is there already is only read. Checkpoints are under
.run/fair. It stops at Ctrl-C or SIGTERM after the step that it is in, and the same command goes on
with it. Two commands may run beside each other. Needs $TRANSFORMER_LIT_DATA or a download."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, options  # noqa: E402
from fair.runs import DESIGNS, GROUNDS, Job, loss_of, make  # noqa: E402
from records import RUNS  # noqa: E402

from litbook.search import FULL, SEEDS, search  # noqa: E402
from transformer_lit.cli import exit_status  # noqa: E402


def main() -> int:
    designs = dict(nargs="+", default=[], choices=DESIGNS, metavar="DESIGN")
    arguments = {
        "names": dict(nargs="*", metavar="NAME", help="runs by their names"),
        "--search": designs,
        "--design": designs,
        "--ground": dict(choices=GROUNDS, default="tatoeba", help="default: %(default)s"),
    }
    o = options(__doc__, arguments, home=ROOT / ".run/fair", out=RUNS)

    def work() -> int:
        for name in o.names:
            make(Job.of(name), o.home, o.out)
        for design in o.search + o.design:

            def job(*trial) -> Job:
                return Job("train", o.ground, design, *trial)

            setting = search(o.ground, lambda trial: loss_of(make(job(*trial), o.home, o.out)))
            for seed in SEEDS if setting and design in o.design else ():
                make(job(FULL, *setting, seed), o.home, o.out)
        return 0

    return exit_status(work)


if __name__ == "__main__":
    sys.exit(main())
