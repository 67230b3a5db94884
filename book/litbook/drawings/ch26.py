"""Chapter 26's figures and tables of recorded runs: three families of models, and what each can
do."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from litbook import figures
from litbook import results as recorded
from transformer_lit.equal_cost import difference

ONE, LEFT, TWO = "encoder-only", "decoder-only", "encoder-decoder"
COLORS = {family: figures.NAMED[family] for family in (ONE, LEFT, TWO)}
STEPS = (800, 3200)
ONCE, EACH, LOOKS = f"{ONE}, one look", f"{ONE}, a look per word", f"{LEFT}, 16 looks"
FILLERS = {ONE: "o-", LOOKS: "o-", LEFT: "--", TWO: "o-"}  # way -> its line
SPEAKERS = {EACH: "o-", ONCE: "--", LEFT: "o-", TWO: "o-"}
GAPS = "il or elle", "any word"
UNITS = {
    "il or elle": "Pronouns right, %",
    "any word": "Any word right, %",
    "perplexity": "Continuing, nats per word",
    "exact": "Exact translations, %",
}


def runs_with(steps: int) -> pd.DataFrame:
    "The recorded runs with so many steps at the chapter's peak rate, in the order of seeds."
    runs = recorded.load_runs("pocket")
    chosen = (runs.kind == "families") & (runs.steps == steps) & (runs.peak == 6e-3)
    return recorded.read(runs[chosen].sort_values("seed"))


def french_alone() -> dict[str, float]:
    """trigram, bigram, unigram -> perplexity of the rest. They count the training sentences'
    French, so they are the same in every run."""
    return dict(reversed(runs_with(STEPS[0]).ngrams.iloc[0].items()))


def beside() -> str:
    "The n-grams of a table or a figure of perplexities, as the last sentence of its caption."
    return recorded.ngrams_text(french_alone())


def measured(kind: str, way: str, runs: pd.DataFrame) -> list[float]:
    "A measure of one way in each run: a kind of gap or exact in percent, perplexity, BLEU, chrF."
    if kind == "perplexity":
        return [run[way] for run in runs.perplexity]
    if kind in GAPS:
        return [100 * run[way][kind] for run in runs.filled]
    return [run[way][kind] * (100 if kind == "exact" else 1) for run in runs.translated]


def gap(kind: str, ours: tuple[str, pd.DataFrame], theirs: tuple[str, pd.DataFrame]) -> dict:
    """What one way has more than another, each in its runs, with its interval: percentage points,
    or nats per word of the rest."""
    kept, nats = recorded.load_sentences("pocket"), kind == "perplexity"
    sides = [
        [
            kept[f"{run}/rest_nats/{way}"] if nats else 100.0 * kept[f"{run}/right/{way}/{kind}"]
            for run in runs.run
        ]
        for way, runs in (ours, theirs)
    ]
    words = kept[f"{ours[1].run.iloc[0]}/rest_words"].astype(int)
    return difference(*np.array(sides, float).round(4), words if nats else np.ones_like(words))


def gap_rows(kind: str, gaps: Mapping[str, dict], **more: Sequence[str]) -> list[dict]:
    "Differences in one measure, under its name as a heading."
    rows = [{"": UNITS[kind]}]
    for k, (name, gap) in enumerate(gaps.items()):
        text = recorded.gap_text(gap, 2 if kind == "perplexity" else 1, verdict=False)
        row = {key: values[k] for key, values in more.items()}
        rows.append({"": name, **row, "difference": text, "decided": gap["decided"]})
    return rows


def with_more_steps(kinds: Sequence[str]) -> figures.Picture:
    "What the recorded runs reach, a row for each way, a column for each measure and STEPS."
    found = {steps: runs_with(steps) for steps in STEPS}
    first, spoken = found[STEPS[0]], "perplexity" in kinds
    rows = {
        way: {
            f"{kind}, {steps:,}": recorded.over_seeds(
                measured(kind, way, runs), int(kind == "perplexity")
            )
            for kind in kinds
            for steps, runs in found.items()
        }
        for way in sorted((first.perplexity if spoken else first.filled).iloc[0])
    }
    for name, line in french_alone().items() if spoken else ():
        rows[f"{name} of French alone"] = {f"perplexity, {s:,}": f"{line:.1f}" for s in STEPS}
    signatures = "".join(
        f"; {name} {sign.replace('|', ' ')}"
        for name, sign in first.signatures.iloc[0].items()
        if name in kinds
    )
    caption = (
        ("Continued and translated" if spoken else "Percent of gaps filled right")
        + f" after {' and '.join(f'{steps:,}' for steps in STEPS)} steps;"
        f" {len(first)} seeds (lowest to highest){signatures}"
    )
    return recorded.with_commands(figures.table(rows, wide=True, caption=caption))


def three_tasks() -> figures.Picture:
    """The result: fill, continue, translate in the recorded runs, a line for each way from the
    first number of steps to the last, a band for the seeds."""
    found = {steps: runs_with(steps) for steps in STEPS}
    first, panels, told, ended = found[STEPS[0]], [], [], []
    trigram = {"logy": True, "hline": (french_alone()["trigram"], "trigram")}
    percent = {"ylim": (0, 105)}
    for title, kind, what, ways, options in (
        ("Fill: il or elle", GAPS[0], "percent of pronouns right", FILLERS, percent),
        ("Continue", "perplexity", "Perplexity", SPEAKERS, trigram),
        ("Translate", "BLEU", "BLEU", SPEAKERS, percent),
    ):
        names = {
            way: f"{LEFT}, from the left" if style == "--" and way == LEFT else way
            for way, style in ways.items()
        }
        lines = {
            names[way]: recorded.band(STEPS, [measured(kind, way, runs) for runs in found.values()])
            for way in ways
        }
        ylabel = {"BLEU": "BLEU", "perplexity": "perplexity, lower is better"}
        panels.append(
            {
                "series": lines,
                "title": title,
                "ylabel": ylabel.get(kind, "percent right"),
                "colors": {names[way]: COLORS[way.split(",")[0]] for way in ways},
                "styles": {names[way]: style for way, style in ways.items()},
                **options,
            }
        )
        digits = 2 if kind == "perplexity" else 0
        ends = {name: [f"{line[1][k]:.{digits}f}" for k in (0, -1)] for name, line in lines.items()}
        told.append(
            f"{what}: " + ", ".join(f"{name} from {a} to {b}" for name, (a, b) in ends.items())
        )
        ended.append(f"{what}: " + ", ".join(f"{name} {b}" for name, (_, b) in ends.items()))
    sign = first.signatures.iloc[0]["BLEU"].replace("|", " ")
    return recorded.with_commands(
        figures.curve_panels(
            panels,
            logx=True,
            xlabel="steps of training",
            caption=(
                f"Means of {len(first)} seeds; the bands hold all of them. After {STEPS[-1]:,}"
                f" steps: {'. '.join(ended)}. {beside()} BLEU {sign}."
            ),
            alt=(
                f"Three panels, each from {STEPS[0]:,} to {STEPS[-1]:,} steps of training:"
                f" {'. '.join(told)}."
            ),
        )
    )
