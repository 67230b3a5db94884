"""Chapter 25's first figure: what each change since 2017 did, from recorded runs."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from litbook import figures
from litbook import results as recorded
from litbook.figures.plots import named_rows

Gaps = dict[str, dict]  # value, low, high, decided
BASE = "2017"
TITLES = {"transformer": "pre-norm"}  # 2017 with the norm before each sublayer


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
