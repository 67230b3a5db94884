"""Chapter 5: the clocks of a position, and what their turns do."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.patches import Circle, Rectangle

from litbook import figures


def over_clocks(
    table: Any,
    hands: Mapping[str, Any],
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
    array = figures.style.as_array(table, float)
    (t, n), names = array.shape, [f"{i}" for i in range(array.shape[1] // 2)]

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        left, right = 78 if wide else 62, 4 if annotate else 34
        cell = (width - left - right) / n
        height = min(cell, 40) * t if annotate else 300
        radius = min(0.84 * cell, 24)
        step, top = 2 * radius + 10, 6
        bottom = top + height
        figure, axes = figures.panel(width, round(bottom + step * len(hands) + 44))
        figure.set_layout_engine("none")
        axes.set_position((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(round(bottom + step * len(hands) + 44), 0))
        axes.axis("off")
        most = float(np.abs(array).max()) or 1.0
        paints = figures.style.SIGNED
        axes.imshow(
            array,
            cmap=paints,
            vmin=-most,
            vmax=most,
            extent=(left, width - right, bottom, top),
            aspect="auto",
            interpolation="none",
        )

        def word(
            x: float,
            y: float,
            text: str,
            ha: str = "center",
            colour: str = figures.INK,
            size: float = 11,
        ) -> None:
            axes.text(x, y, text, ha=ha, va="center", fontsize=size, color=colour)

        for (i, j), value in np.ndenumerate(array):
            if annotate and abs(value) >= 0.005:  # a zero is an empty cell
                word(
                    left + (j + 0.5) * cell,
                    top + (i + 0.5) * height / t,
                    f"{value:.2f}",
                    colour=figures.style.ink_on(paints((value / most + 1) / 2)),
                    size=11 if wide else 10,
                )
        for i in range(t) if rows else range(0, t, 10):
            word(
                left - 6,
                top + (i + 0.5) * height / t,
                str(rows[i] if rows else i),
                "right",
                size=10.5,
            )
        if ylabel:
            axes.text(
                12,
                top + height / 2,
                ylabel,
                rotation=90,
                ha="center",
                va="center",
                fontsize=11,
                color=figures.INK,
            )
        for k, value in enumerate(() if annotate else (most, 0.0, -most)):  # the scale of colours
            word(
                width - 18,
                top + 8 + k * 15 + 18,
                f"{value:+.0f}" if value else "0",
                "left",
                size=10.5,
            )
            axes.add_patch(
                Rectangle(
                    (width - right + 6, top + 21 + 15 * k),
                    8,
                    10,
                    facecolor=paints((value / most + 1) / 2),
                    edgecolor=figures.GREY,
                    linewidth=0.8,
                )
            )
        for r, (name, angles) in enumerate(hands.items()):
            y = bottom + 8 + radius + step * r
            word(left - 6, y, name, "right", size=10.5)
            for i, angle in enumerate(np.asarray(angles, float)):
                x = left + (2 * i + 1) * cell
                axes.add_patch(
                    Circle((x, y), radius, fill=False, edgecolor=figures.GREY, linewidth=1)
                )
                axes.plot([x, x], [y - radius, y - 0.65 * radius], color=figures.GREY, linewidth=1)
                axes.plot(
                    [x, x + 0.86 * radius * np.sin(angle)],
                    [y, y - 0.86 * radius * np.cos(angle)],
                    color=figures.INK,
                    linewidth=1.8 if wide else 1.4,
                    solid_capstyle="round",
                )
        for i, name in enumerate(names):
            if wide or len(names) <= 8 or i % 5 == 0:
                word(left + (2 * i + 1) * cell, bottom + step * len(hands) + 16, name, size=10.5)
        word(left + n * cell / 2, bottom + step * len(hands) + 33, "clock")
        return figures.to_svg(figure, width)

    width = min(figures.COLUMN, 90 + 56 * n) if annotate else figures.COLUMN
    return figures.Picture(figures.style.responsive(draw, width), alt, caption)


def table_of_clocks(length: int, n: int, stops: Sequence[int]) -> figures.Picture:
    """The paper's encodings of `length` positions by `n` clocks, and under them the clocks at the
    positions in `stops`."""
    rates = 10000.0 ** (-np.arange(n) / n)
    angles = np.arange(length)[:, None] * rates
    table = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, 2 * n)
    turns = rates * stops[-1] / (2 * np.pi)
    return over_clocks(
        table,
        {f"at {p}": rates * p for p in stops},
        ylabel="position",
        alt=(
            f"{length} positions by {2 * n} features: stripes that alternate fast on the left and"
            f" slowly, then not at all, on the right. Under them {n} clocks at positions"
            f" {' and '.join(map(str, stops))}."
        ),
        caption=(
            f"Each pair of columns is one clock. By position {stops[-1]} clock 0 has turned"
            f" {turns[0]:.1f} times and the last one {360 * turns[-1]:.1f} degrees."
        ),
    )


def shift_by(steps: int, matrix: Any, turns: Sequence[float]) -> figures.Picture:
    """The matrix that moves every encoding on by so many steps, (2 n, 2 n), and below it the turn
    of each of its n clocks, in radians."""
    array = figures.style.as_array(matrix, float)
    outside = np.abs(array * (1 - np.kron(np.eye(len(turns)), np.ones((2, 2))))).max()
    return over_clocks(
        array,
        {f"turn by {steps}": turns},
        annotate=True,
        rows=[f"{name} {i}" for i in range(len(turns)) for name in ("sin", "cos")],
        alt=(
            f"A matrix with {len(turns)} two-by-two rotations on its diagonal, the slow ones close"
            " to the identity. Under each stands a clock with its turn."
        ),
        caption=f"Moving on by {steps} turns each clock by its own angle: "
        + ", ".join(f"{np.degrees(a):.1f}°" for a in turns)
        + f". Outside the blocks no entry exceeds {outside:.0e}.",
    )


def windows_read(right: Any, alike: Any, guess: float) -> figures.Picture:
    """Share right in sentences by the position at which they start, and the likeness of their
    scores to those at 0: (seeds, starts) each."""
    lines = {"share right": figures.spread(right), "likeness": figures.spread(alike)}
    mean, like = (entry[1] for entry in lines.values())
    return figures.curves(
        lines,
        xlabel="first position",
        hline=(guess, "a guess"),
        alt=(
            "Share right in sentences of 16 words, and likeness of their scores, mean of the"
            " seeds, at first positions 0, 10 and so on:"
            f" {figures.heights(lines, *range(0, len(mean), 10))}."
        ),
        caption=(
            "Share right and likeness of the scores have a correlation of"
            f" {np.corrcoef(mean, like)[0, 1]:.2f}: {mean[44]:.0%} are right in sentences that"
            f" start at 44, {mean[50]:.0%} at 50."
        ),
    )


def joined_clocks(pairs: Any) -> figures.Picture:
    "How much each pair of clocks counts, (n, n), a row for each clock of the query."
    array = figures.style.as_array(pairs, float)
    names, rest = [f"clock {i}" for i in range(len(array))], array[1:, 1:]
    others = rest[~np.eye(len(rest), dtype=bool)].mean()
    return figures.heatmap(
        array,
        rows=names,
        cols=names,
        annotate=True,
        vmin=0,
        vmax=1,
        xlabel="key",
        ylabel="query",
        alt=(
            "Size of the blocks that join a clock of the query with a clock of the key, mean of"
            " three seeds, by rows: "
        )
        + "; ".join(", ".join(f"{n:.2f}" for n in row) for row in array)
        + ".",
        caption=(
            f"The block that joins clock 0 with itself has size {array[0, 0]:.2f}. The other"
            f" clocks' blocks average {others:.2f} with one another and"
            f" {np.mean([*array[0, 1:], *array[1:, 0]]):.2f} with clock 0."
        ),
    )
