"""Chapters 18 and 19: scores, how sure they are, and what moves them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from litbook import figures


def runs(rows: Sequence[str], cols: Sequence[str]) -> np.ndarray:
    "How long a run of equal words ends at each pair of words: (rows, cols)."
    length = np.zeros((len(rows) + 1, len(cols) + 1), int)
    for i, j in np.ndindex(len(rows), len(cols)):
        if rows[i] == cols[j]:
            length[i + 1, j + 1] = length[i, j] + 1
    return length[1:, 1:]


def equal_runs(output: str, reference: str) -> figures.Picture:
    """Words of an output against words of a reference, with the length of the run of equal words
    that ends at each pair."""
    rows, cols = output.split(), reference.split()
    lengths = runs(rows, cols)
    ends = [
        int(lengths[i, j])
        for i, j in np.ndindex(*lengths.shape)
        if lengths[i, j] and not (i + 1 < len(rows) and j + 1 < len(cols) and lengths[i + 1, j + 1])
    ]
    found = ", ".join(map(str, ends))
    shown = [
        [str(n) if n else "" for n in row] for row in lengths.tolist()
    ]  # a page of zeros would hide the runs
    return figures.heatmap(
        lengths,
        rows=rows,
        cols=cols,
        annotate=shown,
        fmt="",
        bar=False,
        width=600,
        xlabel="reference",
        ylabel="output",
        caption=(
            f"{sum(ends)} of {len(rows)} words agree, in runs of {found}; a wrong word ends every"
            " run that would cross it."
        ),
        alt=f"Runs of equal words along the diagonal, of {found} words.",
    )


def precisions_compared(rows: Sequence[Mapping[str, Any]]) -> figures.Picture:
    """Recorded decoding in fewer bits, each row against fp32: equal answers, BLEU with the interval
    of the difference, time."""
    return figures.table(
        [
            {
                "products in": row["name"],
                "beam": str(row["beam"]),
                "same answers": f"{row['same']} of {row['sentences']}",
                "BLEU": f"{row['bleu']:.2f}",
                "difference": "{low:+.2f} to {high:+.2f}".format(**row["difference"]),
                "time": f"{row['ratio']:.2f}",
            }
            for row in rows
            if row["name"] != "fp32"
        ],
        caption="Against fp32, time as a share",
    )


def scores_by_group(
    groups: Mapping[str, Sequence[Mapping[str, Any]]],
    xlabel: str,
    title: str,
    at_least: int = 25,
    log: bool = False,
) -> figures.Picture:
    """BLEU with its band by group, a line for each set; groups of fewer than `at_least` sentences
    are left out.

    log: groups are counts, on a logarithmic axis that shows 0 as 0.3."""
    drawn = {}
    for name, rows in groups.items():
        kept = [row for row in rows if row["sentences"] >= at_least]
        if kept:
            at = [max(row["group"], 0.3) if log else row["group"] for row in kept]
            drawn[name] = (at, *([row[field] for row in kept] for field in ("BLEU", "low", "high")))
    scores = {name: dict(zip(entry[0], entry[1])) for name, entry in drawn.items()}
    first, *others = scores
    shared = sorted(
        group for group in scores[first] if any(group in scores[name] for name in others)
    )
    at_best = sum(
        all(scores[first][group] >= scores[name].get(group, 0) for name in others)
        for group in shared
    )
    ends = "; ".join(
        f"{name} from {entry[1][0]:.0f} to {entry[1][-1]:.0f}" for name, entry in drawn.items()
    )
    told = (
        f"{first[:1].upper()}{first[1:]} scores highest in"
        f" {'all' if at_best == len(shared) else f'{at_best} of the'} {len(shared)} groups that it"
        " shares with another set."
        if shared
        else None
    )
    return figures.curves(
        drawn,
        logx=log,
        xlabel=xlabel,
        ylabel="BLEU",
        caption=told,
        alt=f"{title}, with 95% bands, first to last group: {ends}.",
    )


def narrowing(
    sizes: Sequence[int], around: Sequence[Mapping[str, float]], truth: float
) -> figures.Picture:
    "BLEU of growing parts of a test set with its 95% band, and a dotted line for the whole."
    first, last = (x["high"] - x["low"] for x in (around[0], around[-1]))
    return figures.curves(
        {"BLEU": (list(sizes), *([x[k] for x in around] for k in ("value", "low", "high")))},
        logx=True,
        xlabel="sentences",
        ylabel="BLEU",
        hline=(truth, "all"),
        caption=(
            f"{sizes[-1] / sizes[0]:.0f} times the sentences make the 95% interval"
            f" {first / last:.1f} times narrower: {first:.1f} points with {sizes[0]:,} sentences,"
            f" {last:.1f} with {sizes[-1]:,}."
        ),
        alt=(
            "BLEU of growing parts of the test set with its 95% band, which narrows from "
            f"{first:.1f} to {last:.1f} points."
        ),
    )


def damaged_scores(shares: Sequence[float], moved: Mapping[str, np.ndarray]) -> figures.Picture:
    """BLEU and chrF by the probability of a fault, a panel each. moved: fault -> (seeds, shares,
    2); the band spans the seeds."""
    last = {name: v[:, -1].mean(0) for name, v in moved.items()}
    told = "; ".join(
        f"{name}, BLEU {bleu:.0f}, chrF {chrf:.0f}" for name, (bleu, chrf) in last.items()
    )
    least, most = (pick(last, key=lambda name: last[name][1]) for pick in (min, max))
    return figures.curve_panels(
        [
            {
                "title": metric,
                "xlabel": "probability of a fault",
                "ylabel": metric,
                "series": {
                    name: (list(shares), v[..., k].mean(0), v[..., k].min(0), v[..., k].max(0))
                    for name, v in moved.items()
                },
            }
            for k, metric in enumerate(("BLEU", "chrF"))
        ],
        caption=(
            f"At {shares[-1]:.0%} BLEU is {min(v[0] for v in last.values()):.0f} to"
            f" {max(v[0] for v in last.values()):.0f} for every fault; chrF tells them apart, from"
            f" {last[least][1]:.0f} ({least}) to {last[most][1]:.0f} ({most})."
        ),
        alt=f"Scores against the probability of a fault, two panels. At {shares[-1]:.0%}: {told}.",
    )


def ways_apart(scores: Mapping[str, float], base: str) -> figures.Picture:
    "One output scored in several ways: the points of each above the way called `base`."
    above = {way: score - scores[base] for way, score in scores.items()}
    return figures.bars(
        above,
        fmt="{:+.1f}",
        xlabel=f"BLEU points above {base}",
        caption=(
            f"One output, {len(scores)} ways to score it: BLEU {min(scores.values()):.1f} to"
            f" {max(scores.values()):.1f}."
        ),
        alt=f"A bar for each way, as long as the points above {base}: "
        + ", ".join(f"{way} {more:+.1f}" for way, more in above.items())
        + ".",
    )


def at_group(
    record: Mapping[str, Mapping[str, Any]],
    sets: Sequence[str],
    by: str,
    group: int,
    at_least: int = 25,
) -> str:
    """BLEU of each set's group of this name, in words; groups of fewer than `at_least` sentences
    are left out."""
    return ", ".join(
        f"{name} {row['BLEU']:.1f}"
        for name in sets
        for row in record[name][by]
        if row["group"] == group and row["sentences"] >= at_least
    )


REPORTED_BY = {
    "sacreBLEU (13a)": "WMT, and most papers since 2018",
    "sacreBLEU, intl": "some WMT papers, for every mark apart",
    "sacreBLEU, lower-cased": "where case was lost in the data",
    "tokenised": "multi-bleu.perl, usual before 2018",
    "tokenised, lower-cased": "captions: Multi30k's shared tasks",
    "tokenised, compound-split": "Vaswani et al. 2017, en-de",
    "mean of sentences": "tutorials",
}


def who_reports(ways: Mapping[str, float]) -> figures.Picture:
    "One output's BLEU in each way of `evaluation.ways`, and who counts so."
    return figures.table(
        [
            {"way": way, "BLEU": f"{value:.1f}", "reported by": REPORTED_BY[way]}
            for way, value in ways.items()
        ],
        caption="The test set's BLEU, and who counts it that way",
    )
