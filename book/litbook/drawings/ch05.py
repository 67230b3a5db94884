"""Chapter 5: the clocks of a position, and what their turns do."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.patches import Circle, Rectangle

from litbook import figures
from litbook.figures.style import SIGNED, as_array, ink_on


def over_clocks(
    table,
    hands: Mapping[str, Sequence[float]],
    alt: str,
    caption: str,
    annotate: bool = False,
    rows: Sequence[str] | None = None,
    ylabel: str = "",
) -> figures.Picture:
    """A table of signed numbers whose columns are pairs, sine and cosine of one clock each; under
    each pair stand its clocks.

    table: (T, 2 n). hands: name of a row of clocks -> n angles in radians, clockwise from twelve.
    annotate: the numbers in their cells, zeros left out. rows: words for the lines of the table;
    without them every tenth is numbered."""
    t, n = table.shape
    most = float(np.abs(table).max()) or 1.0
    labels = dict(enumerate(rows)) if rows else {i: str(i) for i in range(0, t, 10)}

    def paint(value: float):
        return SIGNED((value / most + 1) / 2)

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        left, right, top = 78 if wide else 62, 4 if annotate else 34, 6
        cell = (width - left - right) / n
        height = min(cell, 40) * t if annotate else 300
        radius, line, bottom = min(0.84 * cell, 24), height / t, top + height
        step = 2 * radius + 10
        foot = bottom + step * len(hands)
        figure, axes = figures.panel(width, round(foot + 44))
        figure.set_layout_engine("none")
        axes.set(position=(0, 0, 1, 1), xlim=(0, width), ylim=(round(foot + 44), 0))
        axes.axis("off")
        axes.imshow(
            table,
            cmap=SIGNED,
            vmin=-most,
            vmax=most,
            extent=(left, width - right, bottom, top),
            aspect="auto",
            interpolation="none",
        )

        def write(x, y, text, ha="center", size=10.5, color=figures.INK, **style) -> None:
            axes.text(x, y, text, ha=ha, va="center", fontsize=size, color=color, **style)

        for (i, j), value in np.ndenumerate(table):
            if annotate and abs(value) >= 0.005:  # a zero is an empty cell
                place = left + (j + 0.5) * cell, top + (i + 0.5) * line
                write(*place, f"{value:.2f}", size=11 if wide else 10, color=ink_on(paint(value)))
        for i, label in labels.items():
            write(left - 6, top + (i + 0.5) * line, label, "right")
        if ylabel:
            write(12, top + height / 2, ylabel, size=11, rotation=90)
        for k, value in enumerate(() if annotate else (most, 0.0, -most)):  # the scale of colours
            write(width - 18, 32 + 15 * k, f"{value:+.0f}" if value else "0", "left")
            key = {"facecolor": paint(value), "edgecolor": figures.GREY, "linewidth": 0.8}
            axes.add_patch(Rectangle((width - right + 6, 27 + 15 * k), 8, 10, **key))
        for r, (name, angles) in enumerate(hands.items()):
            y = bottom + 8 + radius + step * r
            write(left - 6, y, name, "right")
            for i, angle in enumerate(angles):
                x = left + (2 * i + 1) * cell
                grey = {"color": figures.GREY, "linewidth": 1}
                axes.add_patch(Circle((x, y), radius, fill=False, **grey))
                axes.plot([x, x], [y - radius, y - 0.65 * radius], **grey)
                axes.plot(
                    [x, x + 0.86 * radius * np.sin(angle)],
                    [y, y - 0.86 * radius * np.cos(angle)],
                    color=figures.INK,
                    linewidth=1.8 if wide else 1.4,
                    solid_capstyle="round",
                )
        for i in range(n // 2):
            if wide or n <= 16 or i % 5 == 0:
                write(left + (2 * i + 1) * cell, foot + 16, str(i))
        write(left + n * cell / 2, foot + 33, "clock", size=11)
        return figures.to_svg(figure, width)

    width = min(figures.COLUMN, 90 + 56 * n) if annotate else figures.COLUMN
    return figures.sketch(draw, alt, caption, width)


def table_of_clocks(length: int, n: int, stops: Sequence[int]) -> figures.Picture:
    """The paper's encodings of `length` positions by `n` clocks, and under them the clocks at the
    positions in `stops`."""
    rates = 10000.0 ** (-np.arange(n) / n)
    angles = np.arange(length)[:, None] * rates
    turns = rates * stops[-1] / (2 * np.pi)
    return over_clocks(
        np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, 2 * n),
        {f"at {p}": rates * p for p in stops},
        f"{length} positions by {2 * n} features: stripes that alternate fast on the left and"
        f" slowly, then not at all, on the right. Under them {n} clocks at positions"
        f" {' and '.join(map(str, stops))}.",
        f"Each pair of columns is one clock. By position {stops[-1]} clock 0 has turned"
        f" {turns[0]:.1f} times and the last one {360 * turns[-1]:.1f} degrees.",
        ylabel="position",
    )


def shift_by(steps: int, matrix, turns: Sequence[float]) -> figures.Picture:
    """The matrix that moves every encoding on by so many steps, (2 n, 2 n), and below it the turn
    of each of its n clocks, in radians."""
    array, n = as_array(matrix, float), len(turns)
    outside = np.abs(array * (1 - np.kron(np.eye(n), np.ones((2, 2))))).max()
    degrees = ", ".join(f"{np.degrees(a):.1f}°" for a in turns)
    return over_clocks(
        array,
        {f"turn by {steps}": turns},
        f"A matrix with {n} two-by-two rotations on its diagonal, the slow ones close to the"
        " identity. Under each stands a clock with its turn.",
        f"Moving on by {steps} turns each clock by its own angle: {degrees}. Outside the blocks no"
        f" entry exceeds {outside:.0e}.",
        annotate=True,
        rows=[f"{name} {i}" for i in range(n) for name in ("sin", "cos")],
    )
