"""The ground of "Your own pair": how to train on few pairs, what back-translation, noise and another domain do. On one thread.

    python bench/own.py status             # jobs done and left, hours spent and left
    python bench/own.py run                # does what is left, the most important first; the same command goes on after a stop
    python bench/own.py run --hours 3      # begins no job after three hours
    python bench/own.py pack               # rows that are done into bench/rows_own, so that they can be committed
    python bench/own.py collect            # what is done so far becomes book/results/bench/own-pair.json
    python bench/own.py run --trial        # the same with the pocket corpus at sizes of a second, in a folder of its own

English to French, from Tatoeba. Subsets are nested: the first 2,000, 10,000, ... pairs in one order. The test is 1,000 sentences
whose English is in no training text, but for what a reverse model happened to write (the record counts it), and whose French is in no
monolingual text; validation has 1,000 pairs. Weights are those of
the least validation loss at the end of an epoch, and where it isn't the last epoch, a run on real pairs is scored at its end too.
A seed is the training's, for weights, order and dropout. Runs that are compared have equally many updates, but for changes of the
vocabulary or the batch, which have equally many epochs, and for captions.

Sizing: the table of `own_pairs`, three seeds; around each row of 2,000 to 50,000 pairs one change at a time, one seed; the change
with the least validation loss per character (losses per token of two vocabularies can't be compared), three seeds, if it beats the row.
Back-translation: monolingual French, 4 sentences for each pair, through a reverse model of seed 1. Greedily, with and without a tag
(Caswell et al. 2019), and sampled: that costs no more than greedy, a beam costs four times as much, and Edunov et al. (2018) found
sampling better with much text and worse with little. At 50,000 pairs only greedy. With as many updates as the row has, later twice as many.
Noise: after Khayrallah and Koehn (2018) a tenth of the clean pairs' number is ADDED. Own score: the worst tenth by the mean
log-probability of the model that trained on it. No run without what a rule throws out if that is less than a tenth of the noise.
Domain: 10,000 captions mixed in; or 500 more updates on them alone, at a quarter of the rate; or captions alone.

Cut: around 50,000 pairs, for noise and domain runs have 4 epochs and not 12, so what dropout is worth in 12 isn't known; noise, domain
and 50,000 pairs with back-translation have one seed, more in the parts after these; 150,000 pairs is the book's own translator as it
comes along, in 8 bits, which has this row's recipe and one seed; 1M pairs see 4M target tokens, an eighth of an epoch, and are mostly
law and manuals, so their score on everyday sentences says nothing against more pairs; synthetic text has one reverse model, so
intervals lack what another would change.

`run` needs a clean checkout, and each row names its commit. Rows, weights and checkpoints are under .run/own; rows that were packed
before, here or on another machine, count as done. It stops at Ctrl-C or SIGTERM after the step that it is in; what was trained
stands. `run` and `collect` need $TRANSFORMER_LIT_DATA or a download, and `general` only for 1M pairs.
"""

import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from itertools import chain
from pathlib import Path
from statistics import mean, median

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
import jobs  # noqa: E402
import numpy as np  # noqa: E402
import own_jobs  # noqa: E402
from common import BENCH  # noqa: E402
from own_jobs import DOMAIN, NOISE, Job, do  # noqa: E402

from transformer_lit.data import sentence_key  # noqa: E402
from transformer_lit.equal_cost import gap_of  # noqa: E402
from transformer_lit.evaluation import bleu_of  # noqa: E402
from transformer_lit.corpora.files import write_json  # noqa: E402
from transformer_lit.runs.records import git_commit  # noqa: E402
from transformer_lit.corpora.texts import take_evenly  # noqa: E402

HOME, PACKED, RECORD = ROOT / ".run/own", ROOT / "bench/rows_own", BENCH / "own-pair.json"


# The plan -----------------------------------------------------------------------------------------


def row_number(k: int) -> int:
    "Pairs of the table's k-th row."
    return own_jobs.SCALE.sizes[k].pairs


def changes(pairs: int) -> list[str]:
    """One change at a time: half and double the vocabulary, a layer fewer and more, less and more
    dropout, half and double batches."""
    size = Job(pairs).size
    dropout = [
        rate
        for rate in (0.1, 0.3, 0.4)
        if rate != size.dropout and (rate < 0.4 or pairs < row_number(2))
    ]
    return [
        f"{name}={value}"
        for name, values in {
            "vocabulary": (size.vocabulary // 2, size.vocabulary * 2),
            "layers": (size.layers - 1, size.layers + 1),
            "dropout": dropout,
            "max_tokens": (size.max_tokens // 2, size.max_tokens * 2),
        }.items()
        for value in values
    ]


def loss(row: dict) -> float:
    "By which a change is chosen; infinite for a run that didn't train."
    return row.get("valid_per_character", math.inf)


def best_change(pairs: int, epochs: int) -> jobs.Due:
    "The change with the least loss, one seed; an empty string for the row itself."
    tried = {}
    for change in ("", *changes(pairs)):
        tried[change] = loss((yield Job(pairs, change=change, epochs=epochs)))
    return min(tried, key=tried.get)


def with_seeds(k: int, change: str) -> jobs.Due:
    for seed in own_jobs.SCALE.seeds:
        yield Job(row_number(k), seed=seed, change=change)


def sizing(k: int, epochs: int = 0) -> jobs.Due:
    "The row with all seeds, its neighbours with so many epochs, the best of them with all seeds."
    yield from with_seeds(k, "")
    if best := (yield from best_change(row_number(k), epochs)):
        yield from with_seeds(k, best)


def around(k: int) -> jobs.Due:
    "A row's neighbours in short runs."
    yield from best_change(row_number(k), own_jobs.SCALE.short)


def back(k: int, texts: Sequence[str], seeds: Iterable[int], epochs: int = 0) -> jobs.Due:
    "A reverse model with what it makes, then forward models."
    yield Job(row_number(k), "reverse")
    for seed in seeds:
        for text in texts:
            yield Job(row_number(k), text, seed, epochs=epochs)


def finds(row: dict, rule: str) -> bool:
    """Does a rule throw out at least a tenth of a run's noise? Where it doesn't, training without
    what it threw out would show nothing."""
    return row.get("found", {}).get(rule, {"recall": 1.0})["recall"] >= 0.1


def noise(seeds: Iterable[int]) -> jobs.Due:
    """Clean, with noise, filtered by the score of the model that trained on the noise, cleaned by
    rule."""
    for seed in seeds:
        yield Job(row_number(2), seed=seed, epochs=own_jobs.SCALE.short)
        rows = {}
        for kind in NOISE:
            rows[kind] = yield Job(row_number(2), kind, seed, epochs=own_jobs.SCALE.short)
        for way, rule in (("+filtered", "own score"), ("+cleaned", "all rules")):
            for kind, row in rows.items():
                if finds(row, rule):
                    yield Job(row_number(2), kind + way, seed, epochs=own_jobs.SCALE.short)


def domain() -> jobs.Due:
    yield Job(row_number(2), epochs=own_jobs.SCALE.short)
    for text in DOMAIN:
        yield Job(row_number(2), text, epochs=own_jobs.SCALE.short)


def once(job: Job) -> jobs.Due:
    yield job


def plan() -> dict[str, Callable[[], jobs.Due]]:
    "The most important first."
    first, *others = own_jobs.SCALE.seeds
    twice = 2 * own_jobs.SCALE.sizes[1].epochs
    return {
        "sizing, 2k": lambda: sizing(0),
        "sizing, 10k": lambda: sizing(1),
        "sizing, 50k": lambda: with_seeds(2, ""),
        "around 50k": lambda: around(2),
        "back-translation, 10k": lambda: back(
            1, ("greedy", "greedy+tagged", "sampled"), own_jobs.SCALE.seeds
        ),
        "noise": lambda: noise([first]),
        "back-translation, 50k": lambda: back(2, ("greedy+tagged", "greedy"), [first]),
        "domain": domain,
        "sizing, 150k": lambda: once(Job(row_number(3), "shipped")),
        "sizing, 1M": lambda: once(Job(row_number(4), "general")),
        "10k, twice the updates": lambda: back(
            1, ("real", "greedy+tagged"), own_jobs.SCALE.seeds, twice
        ),
        "50k, the best change": lambda: sizing(2, own_jobs.SCALE.short),
        "back-translation, more seeds": lambda: back(2, ("greedy+tagged", "greedy"), others),
        "noise, more seeds": lambda: noise(others),
    }


# What is left -------------------------------------------------------------------------------------


def guess(job: Job) -> dict:
    """A made-up row, so that the plan can be counted: less dropout is best, also beside rows that
    are done."""
    return {"valid_per_character": -1.0 * job.change.startswith("dropout=0.1")}


def seconds_of(job: Job) -> float:
    "Processor seconds of a job where 4 + 4 layers of 256 take 4,500 target tokens per second."
    if job.text == "shipped":
        return 60  # tested, not trained
    size = job.size
    weights = (
        size.layers * 28 * size.width**2 + size.width * size.vocabulary
    )  # that a target token and a source token meet
    a_pair = 15 * (size.vocabulary / 1000) ** -0.17  # target tokens, as counted on the subsets
    tokens = size.epochs * size.pairs * a_pair if job.text != "general" else own_jobs.SCALE.tokens
    if job.text in DOMAIN:
        tokens = size.max_tokens * own_jobs.SCALE.tune + tokens * (job.text != "tuned")
    found = (
        tokens * weights * 2.4e-11 + tokens / size.max_tokens * 0.02
    )  # each step has its own cost, whatever the size
    tests = 60 if job.text in DOMAIN or job.epochs == own_jobs.SCALE.short else 30
    made = (
        min(4 * job.pairs, own_jobs.SCALE.mono)
        * (2 if job.pairs < row_number(2) else 1)
        * a_pair
        / 3000
        if job.text == "reverse"
        else 0
    )
    return found + tests + made


def seconds_after(done: dict[Job, dict]) -> Callable[[Job], float]:
    "As slow or fast as the jobs that are done were, against `seconds_of`."
    pace = median(
        [row["wall_seconds"] / seconds_of(job) for job, row in done.items() if "failed" not in row]
        or [1.0]
    )
    return lambda job: pace * seconds_of(job)


# From rows to the record --------------------------------------------------------------------------


def gain(
    ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray], samples: int = 1000, seed: int = 1
) -> dict:
    """BLEU that `ours` has more, with its 95% interval: a bootstrap that draws seeds and sentences,
    both in pairs; half: Student's, of the seeds.

    ours, theirs: for each seed the counts of each sentence, (n, 10), seeds and sentences in the
    same order."""
    rng, n, seeds = np.random.default_rng(seed), len(ours[0]), len(ours)
    draws = np.vstack(
        [np.ones(n, int), rng.multinomial(n, np.full(n, 1 / n), samples)]
    )  # first: as it is
    each = np.array(
        [
            [bleu_of(a, True) - bleu_of(b, True) for a, b in zip(draws @ x, draws @ y)]
            for x, y in zip(ours, theirs)
        ]
    )
    drawn = rng.multinomial(seeds, np.full(seeds, 1 / seeds), samples) / seeds  # (samples, seeds)
    low, high = np.quantile((each[:, 1:] * drawn.T).sum(0), (0.025, 0.975))
    told = {
        "value": float(each[:, 0].mean()),
        "low": float(low),
        "high": float(high),
        "each": [float(x) for x in each[:, 0]],
    }
    return told | ({"half": gap_of(told["each"], [0.0] * seeds)[1]} if seeds > 1 else {})


Cell = tuple[
    int, str, str, int
]  # pairs, text, change, epochs: what runs have in common that differ in the seed alone


def against(cell: Cell) -> list[Cell]:
    'What a cell is compared with: the row on real pairs, and for what has a "+" the same without.'
    pairs, text, change, epochs = cell
    short = own_jobs.SCALE.short if text.partition("+")[0] in (*NOISE, *DOMAIN) else epochs
    found = [(pairs, "real", "", short), (pairs, text.partition("+")[0], change, epochs)]
    return [] if text == "reverse" else [one for one in dict.fromkeys(found) if one != cell]


def cells(rows: list[dict]) -> list[dict]:
    """Each cell with its runs' means and its gains over what it is compared with, over the seeds
    that both have."""
    found: dict[Cell, dict[int, dict]] = {}
    for row in rows:
        if "tests" in row:
            found.setdefault((row["pairs"], row["text"], row["change"], row["epochs"]), {})[
                row["seed"]
            ] = row

    def counts(cell: Cell, test: str, seeds: list[int]) -> list[np.ndarray]:
        return [
            np.array([line.split() for line in found[cell][seed]["tests"][test]["counts"]], int)
            for seed in seeds
        ]

    told = []
    for cell, runs in sorted(found.items()):
        one = dict(zip(("pairs", "text", "change", "epochs"), cell)) | {"seeds": sorted(runs)}
        for name in next(iter(runs.values()))["tests"]:
            values = [run["tests"][name]["all"]["bleu"]["value"] for run in runs.values()]
            one.setdefault("bleu", {})[name] = {
                "mean": mean(values),
                "low": min(values),
                "high": max(values),
            }
        for key in (
            "valid_loss",
            "valid_per_character",
            "best_epoch",
            "epochs_run",
            "tokens",
            "cpu_seconds",
            "parameters",
        ):
            one[key] = mean(run[key] for run in runs.values())
        for other in against(cell):
            both = sorted(runs.keys() & found.get(other, {}).keys())
            shared = [
                test
                for test in one["bleu"]
                if both and all(test in found[other][seed]["tests"] for seed in both)
            ]
            if shared:
                one.setdefault("more_than", []).append(
                    dict(zip(("pairs", "text", "change", "epochs"), other))
                    | {"seeds": both}
                    | {
                        test: gain(counts(cell, test, both), counts(other, test, both))
                        for test in shared
                    }
                )
        told.append(one)
    return told


def beside(row: dict, home: Path) -> dict:
    """What the text beside a row tells: of a reverse model twenty lines with what it made of each;
    of answers the share of test sentences that they only repeat. in_test: how many sentences of
    each way to translate back are test sentences. ValueError if the corpus isn't the row's."""
    path = home / "done" / f"{Job(*(row[field.name] for field in fields(Job))).name}.txt"
    if not path.exists():
        return {}
    texts, lines = own_jobs.texts(own_jobs.SCALE), path.read_text("utf-8").split("\n")[:-1]
    if row["data"] != texts.digest:
        raise ValueError(f"{path} belongs to other pairs than those at hand")
    if row["text"] == "reverse":
        french = own_jobs.monolingual(row["pairs"])
        made = [line.split("\t") for line in lines]
        known = set(map(sentence_key, texts.tests["tatoeba"][0]))
        return {
            "shown": take_evenly(
                [[one, *both] for one, both in zip(french, made, strict=True)], 20
            ),
            "in_test": [sum(sentence_key(one) in known for one in way) for way in zip(*made)],
        }
    sources, _ = texts.tests["tatoeba"]
    return {
        "repeats": mean(
            english.strip() == said.strip() for english, said in zip(sources, lines, strict=True)
        )
    }


def collect(home: Path, out: Path) -> int:
    """Write the record of all that is done. ValueError if rows belong to other text, or to a tree
    that no commit says."""
    rows = jobs.rows_of(home)
    commits = sorted(set(chain.from_iterable(row["commits"] for row in rows)))
    if len({row["data"] for row in rows if "data" in row}) > 1:
        raise ValueError(
            f"the rows in {home} were made with other pairs: keep one corpus to one folder"
        )
    if own_jobs.SCALE.corpus != "pocket" and any(len(one) != 40 for one in commits):
        raise ValueError(
            f"some rows in {home} were made from a tree that no commit says: {', '.join(commits)}"
        )
    kept = [
        {name: value for name, value in row.items() if name not in ("dropped", "tests")}
        | beside(row, home)
        for row in rows
    ]
    for one, row in zip(kept, rows):  # a line of counts for each sentence stays in the rows
        one["tests"] = {
            name: {key: value for key, value in test.items() if key != "counts"}
            for name, test in row.get("tests", {}).items()
        }
    write_json(
        out,
        {
            "command": "python bench/own.py run",
            "commit": git_commit(),
            "commits": commits,
            "hardware": sorted({row["hardware"] for row in rows}),
            "torch": sorted({row["torch"] for row in rows}),
            "corpus": own_jobs.SCALE.corpus,
            "cells": cells(rows),
            "runs": kept,
        },
    )
    print(f"{len(rows)} rows in {out}")
    return 0


# The command --------------------------------------------------------------------------------------


def main(args: list[str] | None = None) -> int:
    p = jobs.options(__doc__, HOME, PACKED, RECORD)
    p.add_argument(
        "--trial", action="store_true", help="some seconds, in .run/own-trial; measures nothing"
    )
    o = p.parse_args(args)
    if o.trial:
        own_jobs.SCALE = own_jobs.TRIAL
        trial = ROOT / ".run/own-trial"
        for name, usual, instead in (
            ("home", HOME, trial),
            ("packed", PACKED, trial / "packed"),
            ("out", RECORD, trial / RECORD.name),
        ):
            if getattr(o, name) == usual:
                setattr(o, name, instead)

    def run() -> int:
        if not o.trial:
            jobs.clean(git_commit())
        return jobs.run(
            jobs.parts_of(plan(), o.part),
            o.home,
            lambda job: do(job, o.home),
            ("valid_loss", "bleu"),
            o.hours,
            o.most,
        )

    return jobs.command(
        o,
        {
            "run": run,
            "status": lambda: jobs.status(jobs.count(plan(), o.home, guess, seconds_after)),
            "list": lambda: jobs.names_of(plan(), o.home, guess),
            "collect": lambda: collect(o.home, o.out),
        },
    )


if __name__ == "__main__":
    sys.exit(main())
