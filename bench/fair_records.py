"""From rows to records: `python bench/fair.py collect` writes book/results/fair/GROUND/.

NAME.json has every trial of a design's search, whether it is closed, and every run; NAME.txt what
its first seed said. summary.json has the lines of n-grams, the seconds of a step, and the
comparison: of each design with a closed search and three seeds, below the trigram's line, the mean
test loss, its difference to the reference with a 95% interval (bootstrap over seeds and test
sentences, both paired), its rank, and its loss at the reference's operations and seconds.

A rank is 1 plus the number of designs that are better by a decided difference, so designs that
can't be told apart may share one."""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from statistics import mean

import numpy as np
from fair import (
    AGAINST,
    ALL,
    BESIDE,
    CROSSING,
    POCKET,
    REFERENCE,
    SHORTENED,
    full_peaks,
    loss,
    search,
)
from fair_jobs import GROUNDS, SEARCH_SEEDS, SEEDS, UNORDERED, Job, row_of
from jobs import rows_of
from ngrams import NAMES

from transformer_lit.equal_cost import TRIALS, difference, is_closed, loss_at, next_peak
from transformer_lit.corpora.files import write_json, write_text

KEPT = {"tatoeba": ALL, "pocket": POCKET}


# What is done -------------------------------------------------------------------------------------


class Missing(Exception):
    "A job that isn't done."


def known(part: Generator[Job, dict, object], home: Path) -> object:
    "What a part of the plan returns. Raises Missing if a job of it isn't done."
    try:
        job = next(part)
        while True:
            row = row_of(job, home)
            if row is None:
                raise Missing(job.name)
            job = part.send(row)
    except StopIteration as end:
        return end.value


def trials_of(ground: str, design: str, home: Path) -> dict | None:
    """Both parts of the search: trials in the order in which they were made, the choice, and
    whether they are closed.

    None if the first part isn't over. Without the second the search is open, and the first part's
    choice stands."""
    try:
        tried = known(search(ground, design), home)
    except Missing:
        return None
    best, budget = min(tried, key=tried.get), GROUNDS[ground].search
    try:
        peaks = known(full_peaks(ground, design, best), home)
    except Missing:
        peaks = {}
    trials, longest = (
        [],
        2 * GROUNDS[ground].tokens,
    )  # where longer runs than the full budget's look for their peak
    start = (min(peaks, key=peaks.get), best[1]) if peaks else best
    try:
        longer = known(full_peaks(ground, design, start, longest), home) if peaks else {}
    except Missing:
        longer = {}
    for peak, warmup in tried:
        found = [
            row
            for seed in SEARCH_SEEDS
            if (row := row_of(Job("train", ground, design, budget, peak, warmup, seed), home))
        ]
        value = mean(map(loss, found))
        trials.append(
            {
                "peak": peak,
                "warmup": warmup,
                "loss": value if math.isfinite(value) else None,
                "seeds": {str(row["seed"]): row.get("valid_loss") for row in found},
            }
        )
    return {
        "tokens": budget,
        "allowed": TRIALS,
        "trials": trials,
        "short_peak": best[0],
        "warmup": best[1],
        "peak": start[0],
        "peaks": as_rows(peaks),
        "closed": is_closed(tried) and bool(peaks) and next_peak(peaks) is None,
        "longer": {"tokens": longest, "peaks": as_rows(longer)} if longer else None,
    }


def as_rows(peaks: dict[float, float]) -> list[dict]:
    "Peaks and their losses, None for a run that failed."
    return [
        {"peak": peak, "loss": value if math.isfinite(value) else None}
        for peak, value in peaks.items()
    ]


def runs_of(ground: str, design: str, rows: Sequence[dict]) -> list[dict]:
    """A design's runs with the seeds that count. The losses of sentences stay where differences are
    taken: all seeds, and not the search's budget."""
    found = [
        row
        for row in rows
        if (row["kind"], row["ground"], row["design"]) == ("train", ground, design)
        and row["seed"] not in SEARCH_SEEDS
    ]
    short = GROUNDS[ground].search

    def kept(row: dict) -> bool:
        seeds = {other["seed"] for other in found if cell_of(other) == cell_of(row)}
        return set(SEEDS) <= seeds and (row["budget"] != short or design in CROSSING)

    return [
        {name: value for name, value in row.items() if name != "sentences" or kept(row)}
        for row in sorted(found, key=lambda row: (*cell_of(row), row["seed"]))
    ]


def cell_of(row: dict) -> tuple:
    "Runs that differ in the seed alone have this in common."
    return row["budget"], row["peak"], row["warmup"]


# Statistics ---------------------------------------------------------------------------------------


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    "Spearman's: 1 for the same order, -1 for the reverse. Equal values share their mean rank."

    def ranks(values: Sequence[float]) -> np.ndarray:
        values = np.array(values)
        return np.array([(values < v).sum() + ((values == v).sum() - 1) / 2 for v in values])

    return float(np.corrcoef(ranks(one), ranks(other))[0, 1])


# The summary --------------------------------------------------------------------------------------


def with_all_seeds(record: dict) -> dict[tuple, list[dict]]:
    """(budget, peak, warm-up) -> its runs in the order of SEEDS, where each seed has one that
    trained."""
    found: dict[tuple, dict] = {}
    for run in record["runs"]:
        if "test_loss" in run:
            found.setdefault(cell_of(run), {})[run["seed"]] = run
    return {
        cell: [runs[seed] for seed in SEEDS]
        for cell, runs in found.items()
        if set(SEEDS) <= set(runs)
    }


def by_budget(record: dict) -> dict[int, list[dict]]:
    """Budget -> its runs in the order of SEEDS. Of two settings with all seeds the one with the
    lower validation loss."""
    found: dict[int, list[dict]] = {}
    for cell, runs in with_all_seeds(record).items():
        other = found.get(cell[0])
        if other is None or mean(run["valid_loss"] for run in runs) < mean(
            run["valid_loss"] for run in other
        ):
            found[cell[0]] = runs
    return found


def chosen_runs(record: dict, budget: int) -> list[dict]:
    """The runs of one budget with the search's choice, one for each seed; none if a seed is missing
    or didn't train."""
    search = record["search"]
    return (
        with_all_seeds(record).get((budget, search["peak"], search["warmup"]), []) if search else []
    )


def may_be_ranked(record: dict, trigram: float, budget: int) -> str:
    "Why a design isn't ranked; an empty string if it is."
    if record["search"] is None:
        return "its search isn't over"
    if not record["search"]["closed"]:
        return "its search is open"
    runs = chosen_runs(record, budget)
    if not runs:
        return "a seed is missing"
    if mean(run["test_loss"] for run in runs) >= trigram:
        return "not below the trigram"
    return ""


def comparison(
    records: dict[str, dict], trigram: float, tokens: Sequence[int], budget: int
) -> list[dict]:
    "A row for each design, the ranked ones in order and then the others with the reason."
    why = {name: may_be_ranked(record, trigram, budget) for name, record in records.items()}
    runs = {name: chosen_runs(records[name], budget) for name in records if not why[name]}
    nats = {name: [run["sentences"] for run in some] for name, some in runs.items()}
    order = sorted(runs, key=lambda name: mean(run["test_loss"] for run in runs[name]))
    apart = {
        (a, b): difference(nats[a], nats[b], tokens)["decided"] for a, b in combinations(order, 2)
    }
    rows = []
    for name in order:
        some, row = runs[name], {"design": name, "seeds": len(runs[name])}
        row["behind"] = [other for other in order if apart.get((other, name), False)]
        row["rank"] = 1 + len(row["behind"])
        for key in ("test_loss", "valid_loss", "bleu", "flops", "cpu_seconds"):
            row[key] = mean(run[key] for run in some)
        row["chrf"] = mean(run["chrf"]["value"] for run in some)
        row["parameters"], row["tokens"] = some[0]["parameters"], some[0]["tokens"]
        for other in sorted({REFERENCE, "2017", *BESIDE.get(name, ())} & set(order) - {name}):
            row.setdefault("more_than", {})[other] = difference(nats[name], nats[other], tokens)
        rows.append(row)
    return rows + [
        {"design": name, "rank": None, "why": reason} for name, reason in why.items() if reason
    ]


def currencies(
    records: dict[str, dict], ranked: Sequence[str], seconds: dict[str, float] | None, budget: int
) -> list[dict]:
    """Each ranked design's loss with the reference's operations, and with its seconds, in place of
    its tokens.

    How fast it falls with the tokens is taken from the seeds that ran with another budget as well;
    where it stands, from all."""

    def points(name: str) -> dict[int, float]:
        found: dict[int, dict[tuple, dict]] = {}
        valid: dict[tuple, list[float]] = {}
        for run in records[name]["runs"]:
            if "test_loss" in run:
                found.setdefault(run["budget"], {}).setdefault(cell_of(run)[1:], {})[
                    run["seed"]
                ] = run["test_loss"]
                valid.setdefault((run["budget"], cell_of(run)[1:]), []).append(run["valid_loss"])
        full = found[budget][records[name]["search"]["peak"], records[name]["search"]["warmup"]]
        best = {
            b: cells[
                max(cells, key=lambda cell: (len(cells[cell]), -mean(valid[b, cell])))
            ]  # never by the test
            for b, cells in found.items()
            if b != budget
        } | {budget: full}
        return {
            b: mean(full.values()) + mean(losses[seed] - full[seed] for seed in losses)
            for b, losses in best.items()
            if losses.keys() <= full.keys()
        }

    def each(name: str) -> float:
        return mean(run["flops"] / run["tokens"] for run in chosen_runs(records[name], budget))

    rows = []
    for name in ranked:
        found = points(name)
        if REFERENCE not in ranked or len(found) < 2:
            continue
        row = {"design": name, "at_equal_tokens": found[budget]}
        for kind, ratio in (
            ("operations", each(REFERENCE) / each(name)),
            ("seconds", seconds[REFERENCE] / seconds[name] if seconds else None),
        ):
            if ratio is not None:
                value, beyond = loss_at(found, ratio * budget)
                row[f"at_equal_{kind}"] = {
                    "tokens": round(ratio * budget),
                    "loss": value,
                    "beyond": beyond,
                }
        rows.append(row)
    return rows


def crossing(records: dict[str, dict], tokens: Sequence[int]) -> list[dict]:
    """RNN with attention and Transformer at each budget that both have with all seeds: the losses,
    and their difference."""
    one, other = (by_budget(records[name]) for name in CROSSING)
    return [
        {
            "tokens": budget,
            **{
                name: mean(run["test_loss"] for run in runs)
                for name, runs in zip(CROSSING, (one[budget], other[budget]))
            },
            "bleu": {
                name: mean(run["bleu"] for run in runs)
                for name, runs in zip(CROSSING, (one[budget], other[budget]))
            },
            "more": difference(
                [r["sentences"] for r in one[budget]],
                [r["sentences"] for r in other[budget]],
                tokens,
            ),
        }
        for budget in sorted(one.keys() & other.keys())
    ]


def without_order(records: dict[str, dict], rows: Sequence[dict], tokens: Sequence[int]) -> dict:
    """RNN and Transformer without the order of the source, at the search's budget: losses, what
    order is worth to each, and who leads.

    Empty until all their runs are done."""
    bags = {
        name: with_all_seeds({"runs": [row for row in rows if row["design"] == bag]})
        for name, bag in UNORDERED.items()
    }
    if not all(bags.values()) or not set(UNORDERED) <= records.keys():
        return {}
    without = {name: next(iter(cells.values())) for name, cells in bags.items()}
    ordered = {
        name: with_all_seeds(records[name]).get(cell_of(runs[0])) for name, runs in without.items()
    }
    if not all(ordered.values()):
        return {}

    def gap(one: list[dict], other: list[dict]) -> dict:
        return difference(
            [run["sentences"] for run in one], [run["sentences"] for run in other], tokens
        )

    rows = [
        {
            "design": name,
            "with": mean(run["test_loss"] for run in ordered[name]),
            "without": mean(run["test_loss"] for run in runs),
            "more": gap(runs, ordered[name]),
            "bleu": [mean(run["bleu"] for run in some) for some in (ordered[name], runs)],
            "runs": [
                {key: value for key, value in run.items() if key not in ("sentences", "curve")}
                for run in runs
            ],
        }
        for name, runs in without.items()
    ]
    return {
        "tokens": GROUNDS["tatoeba"].search,
        "designs": rows,
        "gap_with": gap(*ordered.values()),
        "gap_without": gap(*without.values()),
    }


def at_equal_cost(
    records: dict[str, dict],
    pairs: Mapping[str, str],
    clock: dict | None,
    tokens: Sequence[int],
    budget: int,
) -> list[dict]:
    """Designs, each at its budgets against another's full run: with as many tokens, operations,
    seconds. Each budget is a run of its own."""
    rows = []
    for name, other in pairs.items():
        theirs = chosen_runs(records.get(other, {"search": None}), budget)
        for tokens_of, ours in (
            sorted(by_budget(records[name]).items()) if theirs and name in records else ()
        ):
            if "sentences" in ours[0]:
                row = {"design": name, "against": other, "tokens": tokens_of}
                row["operations"] = mean(run["flops"] for run in ours) / mean(
                    run["flops"] for run in theirs
                )
                row["cpu_seconds"] = mean(run["cpu_seconds"] for run in ours) / mean(
                    run["cpu_seconds"] for run in theirs
                )
                if clock:
                    each = clock["cpu_seconds_per_token"]
                    row["seconds"] = tokens_of * each[name] / (budget * each[other])
                rows.append(
                    row | {
                        "more": difference(
                            [r["sentences"] for r in ours], [r["sentences"] for r in theirs], tokens
                        )
                    }
                )
    return rows


def search_against_full(records: dict[str, dict], budget: int) -> dict:
    "Do the designs come in the same order at the search's budget?"
    pairs = {}
    for name, record in records.items():
        if record["search"] and (runs := chosen_runs(record, budget)):
            best = min(
                trial["loss"] for trial in record["search"]["trials"] if trial["loss"] is not None
            )
            pairs[name] = best, mean(run["valid_loss"] for run in runs)
    if len(pairs) < 3:
        return {}
    return {
        "designs": len(pairs),
        "rank_correlation": rank_correlation(*zip(*pairs.values())),
        "losses": pairs,
    }


def warmups_at_full(records: dict[str, dict], budget: int) -> dict:
    """Of the designs that ran with another warm-up at the full budget: warm-up -> validation loss,
    all with the chosen peak and the first seed."""
    found = {}
    for name, record in records.items():
        rows = {
            run["warmup"]: loss(run)
            for run in record["runs"]
            if record["search"]
            and (run["budget"], run["peak"], run["seed"])
            == (budget, record["search"]["peak"], SEEDS[0])
        }
        if len(rows) > 1:
            found[name] = [
                {"warmup": warmup, "loss": value if math.isfinite(value) else None}
                for warmup, value in sorted(rows.items())
            ]
    return found


def collect(home: Path, out: Path) -> int:
    """Write the records of all that is done. Raises ValueError if rows of one ground belong to
    other data."""
    rows = rows_of(home)
    for ground, designs in KEPT.items():
        here = [row for row in rows if row["ground"] == ground]
        if len({row["data"] for row in here if "data" in row}) > 1:
            raise ValueError(
                f"the rows of {ground} in {home} were made with other pairs: keep one corpus to one"
                " folder"
            )
        scale, records = GROUNDS[ground], {}
        lines = {
            row["budget"]: {part: row[part] for part in ("valid", "test")}
            for row in here
            if row["kind"] == "ngrams"
        }
        tokens = next((row["sentence_tokens"] for row in here if row["kind"] == "ngrams"), None)
        clocks = [row for row in here if row["kind"] == "clock"]
        for name in designs:
            record = {
                "command": "python bench/fair.py run",
                "design": name,
                "ground": ground,
                "scale": asdict(scale),
                "search": trials_of(ground, name, home),
                "runs": runs_of(ground, name, here),
            }
            if not record["runs"] and not record["search"]:
                continue
            records[name] = record
            write_json(out / ground / f"{name}.json", record, None)
            if said := chosen_runs(record, scale.tokens):
                first = Job(
                    "train",
                    ground,
                    name,
                    scale.tokens,
                    said[0]["peak"],
                    said[0]["warmup"],
                    SEEDS[0],
                )
                write_text(
                    out / ground / f"{name}.txt",
                    (home / "done" / f"{first.name}.txt").read_text("utf-8"),
                )
        if found := [row for row in here if row["kind"] == "families"]:
            write_json(
                out / ground / "families.json",
                {"command": 'python bench/fair.py run --part "three families"', "runs": found},
                None,
            )
        if not records:
            continue
        summary = {
            "command": "python bench/fair.py collect",
            "ground": ground,
            "scale": asdict(scale),
            "ngrams": lines,
            "sentence_tokens": tokens,
            "clock": clocks,
            "search_against_full": search_against_full(records, scale.tokens),
            "warmups_at_full": warmups_at_full(records, scale.tokens),
        }
        if scale.tokens in lines:
            trigram = lines[scale.tokens]["test"][NAMES[-1]]
            summary["comparison"] = comparison(records, trigram, tokens, scale.tokens)
            ranked = [row["design"] for row in summary["comparison"] if row["rank"]]
            seconds = clocks[0]["cpu_seconds_per_token"] if clocks else None
            for title, pairs in (("muon", AGAINST), ("streams", SHORTENED)):
                summary[title] = at_equal_cost(
                    records, pairs, clocks[0] if clocks else None, tokens, scale.tokens
                )
            if set(CROSSING) <= records.keys():
                summary["crossing"] = crossing(records, tokens)
                if bags := without_order(records, here, tokens):
                    summary["without_order"] = bags
            summary["currencies"] = currencies(records, ranked, seconds, scale.tokens)
        write_json(out / ground / "summary.json", summary)
        print(
            f"{ground}: {len(records)} designs in {out / ground},"
            f" {sum(bool(row['rank']) for row in summary.get('comparison', []))} ranked"
        )
    return 0
