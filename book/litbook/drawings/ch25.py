"""Chapter 25's figures and tables: what each change since 2017 did, from recorded runs."""

from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from torch import Tensor

from litbook import figures
from litbook import results as recorded
from litbook.figures.plots import named_rows

Gaps = dict[str, dict]  # value, low, high, decided
BASE = "2017"
TITLES = {"transformer": "pre-norm"}  # 2017 with the norm before each sublayer
TODAY = (  # part, in 2017, today, why it was replaced, our name for the change
    ("attention", "softmax(QKᵀ/√K) V", "the same", "stayed", ""),
    ("residuals", "around every part", "the same", "stayed", ""),
    ("several heads", "yes", "the same", "stayed", ""),
    ("tokens", "byte pairs", "the same, more of them", "stayed", ""),
    ("warm-up", "4,000 steps", "still there", "stability", ""),
    ("place of the norm", "after", "before", "stability", "transformer"),
    ("norm", "LayerNorm", "RMSNorm", "cost of a step", "rms-norm"),
    ("keys and values", "a head each", "a group each", "serving", "grouped-query"),
    ("activation", "ReLU", "SwiGLU", "neither: loss", "swiglu"),
    ("positions", "added waves", "turned in", "neither: distance", "rope"),
    ("smoothing", "0.1", "none", "neither: likelihood", "no-smoothing"),
    ("dropout", "0.1", "none in pre-training", "neither: data seen once", "no-dropout"),
    ("weight decay", "none", "on the matrices, AdamW", "neither: loss", "adamw"),
    ("optimiser", "Adam", "mostly AdamW, some Muon", "neither: loss, with Muon", "muon"),
    ("two stacks", "yes", "mostly one", "chapter 24", ""),
)


def against_2017(names: Sequence[str]) -> Gaps:
    "Of those that have runs, the test loss minus that of `2017`, lowest first."
    names = [name for name in recorded.designs() if name in names and name != BASE]
    runs = {name: recorded.results(name) for name in names}
    base = recorded.results(BASE)
    gaps = {TITLES.get(name, name): recorded.gap(ours, base) for name, ours in runs.items()}
    return dict(sorted(gaps.items(), key=lambda item: item[1]["value"]))


def gap_dots(gaps: Gaps) -> figures.Picture:
    """A dot for each change, its whisker the 95% interval, and a line at zero; grey where nothing
    is decided."""
    text = "; ".join(
        f"{name} {recorded.gap_text(gap, 2, verdict=False)}" for name, gap in gaps.items()
    )
    decided = [gap["value"] for gap in gaps.values() if gap["decided"]]
    first = max(gaps, key=lambda name: abs(gaps[name]["value"]))

    def draw(axes: Axes) -> None:
        axes.axvline(0, color=figures.INK, linewidth=0.9)
        for i, gap in enumerate(gaps.values()):
            colour = figures.INK if gap["decided"] else figures.GREY
            axes.axhline(i, color=figures.GREY, linewidth=0.4, alpha=0.35, zorder=0)
            axes.plot([gap["low"], gap["high"]], [i, i], color=colour, linewidth=1.6)
            axes.plot([gap["value"]], [i], "o", color=colour, markersize=7)
            axes.annotate(
                f"{gap['value']:+.2f}".replace("-", "−"),
                (1.01, i),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=10.5,
                annotation_clip=False,
            )

    return recorded.with_commands(
        named_rows(
            gaps,
            draw,
            f"Loss on the test minus that of {BASE}, with its 95% interval: {text}.",
            f"Furthest from {BASE} is {first}, {gaps[first]['value']:+.2f}. Decided:"
            f" {sum(value < 0 for value in decided)} lower,"
            f" {sum(value > 0 for value in decided)} higher. Undecided:"
            f" {len(gaps) - len(decided)}.",
            f"loss minus that of {BASE}, nats per token\nbetter to the left",
        )
    )


def today() -> figures.Picture:
    "2017 beside today, part by part, with the reason and the measured loss."
    gaps = against_2017([name for *_, name in TODAY])
    texts = {name: recorded.gap_text(gap, 2) for name, gap in gaps.items()}
    columns = "part", "2017", "today", "reason", "loss here"
    rows = [
        dict(zip(columns, (*row, texts.get(TITLES.get(name, name), "")))) for *row, name in TODAY
    ]
    caption = "What stayed, what was replaced, and why"
    return recorded.with_commands(figures.table(rows, caption=caption))


def evened(before: Tensor, after: Tensor) -> figures.Picture:
    """What Muon's five rounds do to singular values from 0.001 to 1; and one gradient's, before and
    after."""
    values = torch.logspace(-3, 0, 61)
    curve = values.clone()
    for _ in range(5):
        curve = 3.4445 * curve - 4.775 * curve**3 + 2.0315 * curve**5
    return figures.curve_panels(
        [
            dict(
                series={"five rounds": (values, curve)},
                logx=True,
                xlabel="singular value before",
                ylabel="after",
                title="What five rounds do",
            ),
            dict(
                series={
                    "gradient": before / before[0],
                    "Muon's step": after.sort(descending=True)[0],
                },
                xlabel="direction",
                ylabel="size",
                title="A real gradient",
            ),
        ],
        caption=(
            f"Largest over median: {before[0] / before.median():.1f} in the gradient,"
            f" {after.max() / after.median():.1f} in Muon's step."
        ),
        alt=(
            "Left: singular values from a thousandth to one, before and after five rounds. Right:"
            " sizes over the directions of a real gradient and of Muon's step."
        ),
    )
