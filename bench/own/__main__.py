"""The runs of appendix A4: how to train on few pairs, what back-translation, noise and another
domain do. On one thread.

    python bench/own 10000-real-s1                   # real pairs, what becomes of them, seed
    python bench/own 10000-greedy+tagged-s{1,2,3}    # the shell writes three names
    python bench/own 2000-real-dropout=0.4-s1        # one change of the row of the sizing table
    python bench/own 50000-misaligned+filtered-e4-s1 # four epochs

English to French, from Tatoeba. Subsets are nested: the first 2,000, 10,000, ... pairs in one
order. The test is 1,000 sentences whose English is in no training text, but for what a reverse
model happened to write (its line counts it), and whose French is in no monolingual text; validation
has 1,000 pairs. Weights are those of the least validation loss at the end of an epoch, and where it
isn't the last epoch, a run is scored at its end too. A seed is the training's, for
weights, order and dropout. Runs that are compared have equally many updates, but for changes of the
vocabulary or the batch, which have equally many epochs, and for captions.

Back-translation: monolingual French, 4 sentences for each pair, through a reverse model of seed 1.
Greedily, with and without a tag (Caswell et al. 2019), and sampled: that costs no more than greedy,
a beam costs four times as much, and Edunov et al. (2018) found sampling better with much text and
worse with little. At 50,000 pairs only greedy. Noise: after Khayrallah and Koehn (2018) a tenth of
the clean pairs' number is ADDED. Own score: the worst tenth by the mean log-probability of the
model that trained on it. Domain: 10,000 captions mixed in; or 500 more updates on them alone, at a
quarter of the rate; or captions alone.

150,000 pairs is `tatoeba-fr` as it comes along, in 8 bits, which has this row's recipe
and one seed; 1M pairs see 4M target tokens, an eighth of an epoch, and are mostly law and manuals.

Each run becomes a line of book/results/runs/own.jsonl and names its commit, so the checkout must be
clean but for these tables; a run that is there already is only read, and what a run needs (a
reverse model's text, another model's score) is made before it. Checkpoints are under .run/own. It
stops at Ctrl-C or SIGTERM after the step that it is in, and the same command goes on. Needs
$TRANSFORMER_LIT_DATA or a download, and `general` only for 1M pairs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, options  # noqa: E402
from own import runs  # noqa: E402
from records import RUNS  # noqa: E402

from transformer_lit.cli import exit_status  # noqa: E402


def main() -> int:
    names = dict(nargs="+", metavar="NAME", help="runs by their names")
    o = options(__doc__, {"names": names}, home=ROOT / ".run/own", out=RUNS)

    def work() -> int:
        for name in o.names:
            runs.make(runs.Job.of(name), o.home, o.out)
        return 0

    return exit_status(work)


if __name__ == "__main__":
    sys.exit(main())
