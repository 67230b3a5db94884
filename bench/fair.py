"""The comparisons of part IV where models translate: every training that they need, in one list, on one thread.

    python bench/fair.py status             # jobs done and left, hours spent and left
    python bench/fair.py run                # does what is left, the most important first; the same command goes on after a stop
    python bench/fair.py run --hours 3      # begins no job after three hours
    python bench/fair.py run --home .run/b --part decoder-only    # one part in a folder of its own: for a second core
    python bench/fair.py run --design rnn   # one design on Tatoeba: its search and its three seeds
    python bench/fair.py list               # the jobs by name, as far as their rates are known
    python bench/fair.py collect            # what is done so far becomes records in book/results/fair/
    python bench/fair.py score              # and the intervals of differences in BLEU, from what each run said
    python bench/fair.py pack               # rows that are done into bench/rows, so that they can be committed

The rule is chapter 22's. Grounds: Tatoeba English-French, 2M target tokens (about one epoch of the corpus), three seeds; and the pocket corpus
as curves up to 2M. All designs of a ground have as many parameters, within 2%, and see the same batches in the same
order. Search, first part: peak rate times share of warm-up, for every design alike, on a quarter of the budget, with two seeds that
no result has; from three peaks at a warm-up of 0.1 it walks to the better neighbour until the best trial has four worse ones
around it (half and double the peak, less and more warm-up), or until TRIALS of them are spent: then the search is open, and the
record says so. Second part: with the full budget and the first of these seeds the peak is halved or doubled as long as that
helps, for the best peak of a short run need not be that of a long one. The choice is by the loss on validation pairs; what is
reported is measured on test sentences.

`run` needs a clean checkout, and each row names its commit. Rows, weights and checkpoints are under .run/fair; rows that were
packed before, here or on another machine, count as done. It stops at Ctrl-C or SIGTERM after the step that it is in; what was
trained stands. Needs $TRANSFORMER_LIT_DATA or a download.
"""

import math
import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from statistics import mean

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
import jobs  # noqa: E402
from fair_jobs import GROUNDS, SEARCH_SEEDS, SEEDS, UNORDERED, Job, clean_commit, do  # noqa: E402
from jobs import walk  # noqa: E402, F401
from transformer_lit.equal_cost import WARMUPS, Setting, next_peak, next_setting  # noqa: E402

HOME, PACKED = ROOT / ".run/fair", ROOT / "bench/rows"

# The designs, as chapters 23 to 25 name them ------------------------------------------------------

THREE = ("transformer", "rnn-attention", "2017")  # `transformer` is pre-norm with Adam
OPTIMISERS = ("pre-norm-adamw", "pre-norm-muon", "adamw", "muon")
AGAINST = {"pre-norm-muon": "pre-norm-adamw", "muon": "adamw"}
STREAMS = ("decoder-only", "decoder-only-prefix", "decoder-only-both", "decoder-only-decay")
REFERENCE = "transformer"
SHORTENED = dict.fromkeys(
    ("decoder-only", "decoder-only-decay"), REFERENCE
)  # run once more, with as many operations as the other has
BESIDE = {
    "muon": ("adamw",),
    "pre-norm-muon": ("pre-norm-adamw", "muon"),
    "pre-norm-adamw": ("adamw",),
    "all-together": ("pre-norm-muon",),
    **dict.fromkeys(STREAMS[1:], STREAMS[:1]),
}  # whom a record's row is set against, next to the Transformer and 2017
PARTS = ("all-together", "rope", "swiglu", "rms-norm", "no-dropout")
MORE = ("gelu", "learned", "no-smoothing", "grouped-query", "untied")
ALL = (*THREE, *OPTIMISERS, "rnn", *STREAMS, *PARTS, *MORE)
CROSSING = ("rnn-attention", "transformer")
POCKET = (*CROSSING, "2017", "pre-norm-muon", "all-together")  # as curves: a grammar ranks nobody

# The search ---------------------------------------------------------------------------------------

# nats: a trial that the first seed leaves so far behind the best isn't run with the second
BEHIND = 0.15
MOST_PEAKS = 6  # of the second part


# The plan -----------------------------------------------------------------------------------------
# Each part yields jobs and is sent their rows, so that what is due later can hang on what was found
# before. A job that was done for another part is not done again.

Due = Generator[Job, dict, object]


def loss(row: dict) -> float:
    "Infinite for a run that didn't train."
    value = row.get("valid_loss", math.inf)
    return value if math.isfinite(value) else math.inf


def search(ground: str, design: str) -> Generator[Job, dict, dict[Setting, float]]:
    """All trials: cell -> mean validation loss over the search's seeds; infinite where the first
    seed was too far behind.

    One seed's loss isn't compared with a mean of two: where seeds differ much it could be below the
    mean of the trial that is ahead."""
    tried: dict[Setting, float] = {}
    lowest = math.inf  # of the first seed
    while cell := next_setting(tried):
        found = []
        for seed in SEARCH_SEEDS:
            found.append(
                loss((yield Job("train", ground, design, GROUNDS[ground].search, *cell, seed)))
            )
            if found[0] > lowest + BEHIND:
                found = [math.inf]
                break
            lowest = min(lowest, found[0])
        tried[cell] = mean(found)
    return tried


def short_choice(ground: str, design: str) -> Generator[Job, dict, Setting | None]:
    "Peak and warm-up after the first part of the search; None if nothing trained."
    tried = yield from search(ground, design)
    best = min(tried, key=tried.get)
    return best if math.isfinite(tried[best]) else None


def full_peaks(
    ground: str, design: str, start: Setting, tokens: int = 0
) -> Generator[Job, dict, dict[float, float]]:
    """The second part: peak -> validation loss with the full budget, or another, beginning with
    this setting."""
    tried: dict[float, float] = {}
    peak: float | None = start[0]
    while peak is not None and len(tried) < MOST_PEAKS:
        job = Job(
            "train",
            ground,
            design,
            tokens or GROUNDS[ground].tokens,
            peak,
            start[1],
            SEARCH_SEEDS[0],
        )
        tried[peak] = loss((yield job))
        peak = next_peak(tried)
    return tried


def chosen(ground: str, design: str) -> Generator[Job, dict, Setting | None]:
    "Peak and warm-up after both parts; None if nothing trained."
    start = yield from short_choice(ground, design)
    if start is None:
        return None
    tried = yield from full_peaks(ground, design, start)
    best = min(tried, key=tried.get)
    return (best, start[1]) if math.isfinite(tried[best]) else None


def choice_at(ground: str, design: str, tokens: int) -> Generator[Job, dict, Setting | None]:
    """Peak and warm-up for another budget than the full one.

    The search's own has its first part's choice. In between, the peaks of both parts are tried if
    they differ. Above the full one the second part is walked again. Each trial has the budget, or
    twice the full one if that is less."""
    scale = GROUNDS[ground]
    start = yield from short_choice(ground, design)
    if start is None or tokens <= scale.search:
        return start
    cell = yield from chosen(ground, design)
    if cell is None or tokens == scale.tokens:
        return cell
    if tokens > scale.tokens:
        tried = yield from full_peaks(ground, design, cell, min(tokens, 2 * scale.tokens))
    else:
        tried = {}
        for peak in sorted({start[0], cell[0]}) if start[0] != cell[0] else ():
            tried[peak] = loss(
                (yield Job("train", ground, design, tokens, peak, cell[1], SEARCH_SEEDS[0]))
            )
    return (min(tried, key=tried.get), cell[1]) if tried else cell


def trained(ground: str, designs: tuple, tokens: int | None = None) -> Due:
    "Search each design, then train it with all seeds."
    cells = {}
    for design in designs:
        cells[design] = yield from chosen(ground, design)
    for seed in SEEDS:
        for design, cell in cells.items():
            if cell:
                yield Job("train", ground, design, tokens or GROUNDS[ground].tokens, *cell, seed)


def full_runs(names: tuple) -> Generator[Job, dict, tuple[dict, dict] | None]:
    """Choices, and operations per token of the first seed's full run, by name; None if one of them
    didn't train."""
    cells, rows = {}, {}
    for name in names:
        cells[name] = yield from chosen("tatoeba", name)
    if None in cells.values():
        return None
    for name, cell in cells.items():
        rows[name] = yield Job("train", "tatoeba", name, GROUNDS["tatoeba"].tokens, *cell, SEEDS[0])
    if any("failed" in row for row in rows.values()):
        return None
    return cells, {name: row["flops"] / row["tokens"] for name, row in rows.items()}


def at_cost_of(name: str, other: str, cells: dict, each: dict) -> Due:
    """All seeds of a design, with as many tokens as bring its cost to that of the other's full run.
    each: cost per token, by name."""
    for seed in SEEDS:
        yield Job(
            "train",
            "tatoeba",
            name,
            round(GROUNDS["tatoeba"].tokens * each[other] / each[name], -4),
            *cells[name],
            seed,
        )


def currencies() -> Due:
    """Muon with as many operations, and with as many seconds, as AdamW has in its full run: fewer
    tokens of each."""
    clock = yield CLOCK
    for muon, adam in AGAINST.items():
        if found := (yield from full_runs((muon, adam))):
            for each in (found[1], clock["cpu_seconds_per_token"]):
                yield from at_cost_of(muon, adam, found[0], each)


def streams_at_equal_operations() -> Due:
    "Streams with as many operations as the Transformer's full run has."
    for stream, whole in SHORTENED.items():
        if found := (yield from full_runs((stream, whole))):
            yield from at_cost_of(stream, whole, *found)


def crossing(tokens: tuple, designs: tuple = CROSSING) -> Due:
    "RNN and Transformer, each budget a run of its own whose rate falls to zero at its end."
    for budget in tokens:
        for seed in SEEDS:
            for design in designs:
                cell = yield from choice_at("tatoeba", design, budget)
                if cell:
                    yield Job("train", "tatoeba", design, budget, *cell, seed)


def one_summary() -> Due:
    "The RNN without attention at two budgets."
    yield from trained("tatoeba", ("rnn",))
    yield from crossing((500_000,), ("rnn",))


def settled(designs: tuple = ("transformer", "2017", "rnn-attention", "pre-norm-muon")) -> Due:
    """Is the first part's warm-up good enough for the full budget? Less and more of it there, with
    the second part's peak and one seed."""
    for design in designs:
        cell = yield from chosen("tatoeba", design)
        k = WARMUPS.index(cell[1]) if cell else -1
        for i in (k - 1, k + 1) if cell else ():
            if 0 <= i < len(WARMUPS):
                yield Job(
                    "train",
                    "tatoeba",
                    design,
                    GROUNDS["tatoeba"].tokens,
                    cell[0],
                    WARMUPS[i],
                    SEEDS[0],
                )


def lines(ground: str, budgets: tuple) -> Due:
    "The n-grams of each budget."
    for tokens in budgets:
        yield Job("ngrams", ground, tokens=tokens, seed=SEEDS[0])


def quarters(designs: tuple) -> Due:
    """The search's budget with the first seed: how fast the loss falls with the tokens, for what is
    said of equal operations and seconds."""
    for design in designs:
        cell = yield from short_choice("tatoeba", design)
        if cell:
            yield Job("train", "tatoeba", design, GROUNDS["tatoeba"].search, *cell, SEEDS[0])


def unordered() -> Due:
    """Is it the order of the source that the RNN has for nothing? Both without it, at the search's
    budget, with the choices that they have with it."""
    for name, bag in UNORDERED.items():
        cell = yield from short_choice("tatoeba", name)
        for seed in SEEDS if cell else ():
            yield Job("train", "tatoeba", bag, GROUNDS["tatoeba"].search, *cell, seed)


CLOCK, CLOCK_AGAIN = (Job("clock", "tatoeba", seed=turn) for turn in (1, 2))


def three_families(steps: tuple = (800, 3200)) -> Due:
    """Chapter 26's models: its own steps and four times as many, three seeds; the rate, which isn't
    searched, halved and doubled once."""
    for number in steps:
        for seed in SEEDS:
            yield Job("families", "pocket", tokens=number, peak=6e-3, seed=seed)
    for peak in (3e-3, 1.2e-2):
        yield Job("families", "pocket", tokens=steps[-1], peak=peak, seed=SEEDS[0])


def starved() -> Due:
    """Post-norm with the setting that a search with a fault once chose, a warm-up of 3%: what a
    comparison owes to the search of the loser."""
    for seed in SEEDS:
        yield Job("train", "pocket", "2017", GROUNDS["pocket"].tokens, 1.5e-3, 0.03, seed)


def once(job: Job) -> Due:
    yield job


PLAN: dict[str, Callable[[], Due]] = {  # the most important first
    "seconds of a step": lambda: once(CLOCK),
    "n-grams, Tatoeba": lambda: lines(
        "tatoeba", (500_000, 1_000_000, 2_000_000, 4_000_000, 6_000_000)
    ),
    "three designs": lambda: trained("tatoeba", THREE),
    "Muon and AdamW": lambda: trained("tatoeba", OPTIMISERS),
    "Muon in three currencies": currencies,
    "RNN without attention": one_summary,
    "warm-up at the full budget, chapter 22": lambda: settled(THREE[::-1]),
    "a quarter of the budget, chapter 22": lambda: quarters(THREE),
    "RNN and Transformer to 1M": lambda: crossing(
        (500_000, 1_000_000)
    ),  # three parts, so that two cores can share them
    "RNN and Transformer to 4M": lambda: crossing((4_000_000,)),
    "RNN and Transformer to 6M": lambda: crossing((6_000_000,)),
    "the source without its order": unordered,
    "decoder-only": lambda: trained("tatoeba", STREAMS),
    "a quarter of the budget, chapter 24": lambda: quarters(STREAMS),
    "decoder-only at equal operations": streams_at_equal_operations,
    "a quarter of the budget, chapter 25": lambda: quarters(
        ("adamw", "pre-norm-adamw", "rope", "all-together")
    ),
    "since 2017": lambda: trained("tatoeba", PARTS),
    "warm-up at the full budget": settled,
    "a quarter of the budget": lambda: quarters((*THREE, *OPTIMISERS, "rnn", *STREAMS, *PARTS)),
    "n-grams, pocket": lambda: lines("pocket", (200_000, 700_000, 2_000_000)),
    "pocket curves": lambda: trained("pocket", POCKET),
    "post-norm with little warm-up": starved,
    "three families": three_families,
    "more parts": lambda: trained("tatoeba", MORE),
    "seconds again": lambda: once(CLOCK_AGAIN),
}


# What is left -------------------------------------------------------------------------------------

# processor seconds per million target tokens, measured with few steps of each; the rows of jobs
# take their place
COST = {
    "tatoeba": (
        dict.fromkeys((*ALL, *UNORDERED.values()), 125.0) | dict.fromkeys(STREAMS, 175.0) | {
            "rnn": 90.0,
            "rnn-attention": 100.0,
            "2017": 105.0,
            "no-dropout": 95.0,
            "all-together": 170.0,
            "muon": 135.0,
            "pre-norm-muon": 135.0,
        }
    ),
    "pocket": (
        dict.fromkeys(ALL, 95.0) | dict.fromkeys(STREAMS, 140.0) | {
            "rnn": 70.0,
            "rnn-attention": 90.0,
            "muon": 165.0,
            "pre-norm-muon": 165.0,
            "all-together": 185.0,
        }
    ),
}


def guess(job: Job) -> dict:
    "A made-up row, so that a plan can be counted: a search that takes eight trials."
    if job.kind == "clock":
        return {"cpu_seconds_per_token": {name: COST["tatoeba"][name] for name in ALL}}
    away = (
        abs(math.log2(job.peak / 6e-3)) + abs(WARMUPS.index(job.warmup) - 3) / 2
        if job.kind == "train"
        else 0.0
    )
    return {
        "valid_loss": 2 + away,
        "flops": job.tokens * (1.25 if "muon" in job.design else 1.0),
        "tokens": job.tokens,
    }


def seconds_of(job: Job, known: dict[tuple, float]) -> float:
    "What a job will take; known: (ground, design) -> seconds per token of those that are done."
    if job.kind != "train":
        return 0.12 * job.tokens if job.kind == "families" else 60.0
    each = known.get((job.ground, job.design), COST[job.ground][job.design] / 1e6)
    return each * job.tokens + (20 if job.judged else 4)


def seconds_after(done: dict[Job, dict]) -> Callable[[Job], float]:
    "How long a job will take, as the jobs that are done took."
    rates: dict[tuple, list] = {}
    for job, row in done.items():
        if row.get("cpu_seconds"):
            rates.setdefault((job.ground, job.design), []).append(
                row["cpu_seconds"] / row["tokens"]
            )
    known = {key: mean(values) for key, values in rates.items()}
    return lambda job: seconds_of(job, known)


def count(home: Path) -> list[dict]:
    """Of each part of the plan: jobs done and left, hours spent and left. What is left of a search
    is a guess."""
    return jobs.count(PLAN, home, guess, seconds_after)


# The command --------------------------------------------------------------------------------------


def run(
    home: Path,
    hours: float = math.inf,
    most: float = math.inf,
    titles: list[str] | None = None,
    designs: list[str] | None = None,
    ground: str = "tatoeba",
) -> int:
    """Do what is left of the plan, or of the parts with these titles, until it is done or no more
    is to be begun.

    designs: do these on a ground instead, search and results."""
    plan = (
        {"designs": lambda: trained(ground, tuple(designs))}
        if designs
        else jobs.parts_of(PLAN, titles)
    )
    clean_commit()
    return jobs.run(
        plan,
        home,
        lambda job: do(job, home, list(ALL)),
        ("valid_loss", "test_loss", "bleu"),
        hours,
        most,
    )


def main(args: list[str] | None = None) -> int:
    p = jobs.options(__doc__, HOME, PACKED, ROOT / "book/results/fair", ("score",))
    p.add_argument(
        "--design",
        action="append",
        choices=ALL,
        metavar="NAME",
        help="run only this design; may be given again",
    )
    p.add_argument(
        "--ground",
        choices=list(GROUNDS),
        default="tatoeba",
        help="of --design (default: %(default)s)",
    )
    o = p.parse_args(args)

    def collected() -> int:
        import torch
        from fair_records import collect

        torch.set_num_threads(1)
        return collect(o.home, o.out)

    def scored() -> int:
        from fair_bleu import score

        return score(o.home, o.out)

    return jobs.command(
        o,
        {
            "run": lambda: run(o.home, o.hours, o.most, o.part, o.design, o.ground),
            "status": lambda: jobs.status(count(o.home)),
            "list": lambda: jobs.names_of(PLAN, o.home, guess),
            "collect": collected,
            "score": scored,
        },
    )


if __name__ == "__main__":
    sys.exit(main())
