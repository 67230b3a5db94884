"""Chapter 5: pairs of a sine and a cosine, drawn as clocks."""

from collections.abc import Mapping, Sequence

import numpy as np

from litbook import figures
from litbook.figures.style import SIGNED, as_array, ink_on


def over_clocks(
    table,
    hands: Mapping[str, Sequence[float]],
    alt: str,
    caption: str,
    rows: Sequence[str] = (),
    ylabel: str = "",
) -> figures.Picture:
    """A table of numbers from -1 to 1 whose columns are pairs, sine and cosine of one frequency
    each; under each pair stand its clocks.

    table: (T, 2 n). hands: name of a row of clocks -> n angles in radians, clockwise from twelve.
    rows: words for the lines of a small table, whose numbers stand in their cells, zeros left out;
    of a table without them every tenth line is numbered, and a scale stands beside it."""
    table = as_array(table)
    t, n = table.shape
    labels = dict(enumerate(rows)) or {i: i for i in range(0, t, 10)}

    def draw(width: int) -> str:
        left, right, top = 66, 4 if rows else 34, 6
        cell = (width - left - right) / n
        line, radius = min(cell, 40) if rows else 300 / t, min(0.84 * cell, 24)
        bottom, step = top + line * t, 2 * radius + 10
        foot = bottom + step * len(hands)
        figure, axes = figures.panel(width, round(foot + 44))
        figure.set_layout_engine("none")
        axes.set(position=(0, 0, 1, 1), xlim=(0, width), ylim=(round(foot + 44), 0))
        axes.axis("off")
        where = {"extent": (left, width - right, bottom, top), "aspect": "auto"}
        axes.imshow(table, SIGNED, vmin=-1, vmax=1, interpolation="none", **where)

        def write(x, y, text, ha="center", size=10.5, color=figures.INK, **style) -> None:
            axes.text(x, y, text, ha=ha, va="center", fontsize=size, color=color, **style)

        def paint(value: float):
            return SIGNED((value + 1) / 2)

        for i, label in labels.items():
            write(left - 6, top + (i + 0.5) * line, label, "right")
        write(12, top + line * t / 2, ylabel, size=11, rotation=90)
        for (i, j), value in np.ndenumerate(table):
            if rows and abs(value) >= 0.005:
                place = left + (j + 0.5) * cell, top + (i + 0.5) * line
                write(*place, f"{value:.2f}", color=ink_on(paint(value)))
        gray = {"color": figures.GRAY, "linewidth": 1}
        for y, sign in () if rows else ((32, "+1"), (47, "0"), (62, "-1")):
            write(width - 18, y, sign, "left")
            axes.plot(width - 24, y, "s", color=paint(int(sign)), ms=9, mec=figures.GRAY)
        clocks = left + (2 * np.arange(n // 2) + 1) * cell
        for r, (name, angles) in enumerate(hands.items()):
            y = 0 * clocks + bottom + 8 + radius + step * r
            write(left - 6, y[0], name, "right")
            axes.plot(clocks, y, "o", fillstyle="none", ms=2 * radius, **gray)
            axes.vlines(clocks, y - radius, y - 0.65 * radius, **gray)
            tips = clocks + 0.86 * radius * np.sin(angles), y - 0.86 * radius * np.cos(angles)
            hand = {"color": figures.INK, "linewidth": 1.6, "solid_capstyle": "round"}
            axes.plot((clocks, tips[0]), (y, tips[1]), **hand)
        for i, x in enumerate(clocks):
            write(x, foot + 16, i)
        write(left + n * cell / 2, foot + 33, "pair", size=11)
        return figures.to_svg(figure, width)

    width = min(figures.COLUMN, 90 + 56 * n) if rows else figures.COLUMN
    return figures.sketch(draw, alt, caption, width)
