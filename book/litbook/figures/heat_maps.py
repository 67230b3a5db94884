"""Heat maps, each one call that gives a `Picture`."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np

from .style import (
    COLUMN,
    GRAY,
    MASK,
    SIGNED,
    STYLE,
    Picture,
    as_array,
    ink_on,
    panel,
    panel_width,
    responsive,
    to_svg,
    wrap,
)

SCALE = {"shrink": 0.8, "aspect": 14, "pad": 0.02}  # the colors' scale beside a map
SMALL = 900  # cells: a larger matrix becomes one small picture inside the SVG


def number_size(array, fmt: str, cell: float) -> float:
    """Pixels for letters with which every number of the matrix fits a cell that is `cell` wide; at
    least 8.5."""
    longest = max(len(format(float(value), fmt)) for value in array.ravel())
    return float(np.clip(1.75 * cell / longest, 8.5, 10.5))


def draw_squares(axes, array, rows, cols, size, words, **color) -> Any:
    """A small matrix with a line between cells and `words`, of this size, in them; numbers count
    its lines and columns where `rows` and `cols` are None."""
    # an open cell of a mask needs a line on a light page
    line = (0.9, GRAY) if color["cmap"] is MASK else (0.4, "#99999966")
    mesh = axes.pcolormesh(
        np.ma.masked_invalid(array), linewidth=line[0], edgecolors=line[1], **color
    )
    mesh.update_scalarmappable()
    box = axes.get_window_extent()
    axes.invert_yaxis()
    axes.spines[:].set_visible(False)
    sides = (
        (axes.xaxis, cols, array.shape[1], box.width),
        (axes.yaxis, rows, len(array), box.height),
    )
    for axis, names, n, pixels in sides:
        every = n // int(pixels / 14) + 1 if names is None else 1
        axis.set_ticks(np.arange(0, n, every) + 0.5, names or range(0, n, every))
    for (i, j), paint in zip(np.ndindex(array.shape), mesh.get_facecolors()):
        if words and not np.isnan(array[i, j]):
            axes.text(
                j + 0.5,
                i + 0.5,
                words[i][j],
                size=size,
                color=ink_on(paint),
                ha="center",
                va="center",
            )
    return mesh


def label_heat(axes, title, xlabel, ylabel, cols, width: int = 330) -> None:
    "Title, axis names, and words slanted where they would collide in `width` pixels."
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    axes.tick_params(length=0, rotation=0)
    if sum(len(str(word)) for word in cols or ()) <= (width - 60) / 8:
        return
    for label in axes.get_xticklabels():
        if len(cols) > 8 and (width - 90) / len(cols) < 15:
            label.set(rotation=90)  # slanted ones would run into each other
        else:  # steeper where columns are narrow; each word ends below its own column
            angle = 45 if (width - 110) / len(cols) > 18 else 60
            label.set(rotation=angle, ha="right", rotation_mode="anchor")


def heat_height(t: int, s: int, width: int) -> int:
    "Pixels for (T, S) cells: squares, but of a small matrix no slab."
    cell = min((width - 70) / s, 64 if t * s <= SMALL else width)
    return int(min(max(cell * t, 60), 480)) + 62


def heat_panel(
    matrix: Any,
    rows: Sequence | None = None,
    cols: Sequence | None = None,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
    annotate: bool | Sequence[Sequence[str]] = False,
    vmin: float | None = None,
    vmax: float | None = None,
    cmap: Any = "cividis",
    fmt: str = ".2f",
    width: int = 330,
    bar: bool = True,
    turned: bool = False,
) -> str:
    """One heat map of a (T, S) matrix as SVG.

    rows, cols: words for its lines and columns. annotate: the numbers in their cells, formatted by
    `fmt`, or words for each cell. cmap: "mask" for booleans, True light; "signed" for numbers on
    both sides of zero. bar: the scale of colors beside it. turned: a wide map changes rows and
    columns on a phone, where its numbers would collide."""
    array = as_array(matrix, float)
    if cmap == "mask":
        cmap, vmin, vmax, bar = MASK, 0, 1, False
    if cmap == "signed":
        limit = np.abs(array).max() or 1.0
        cmap, vmin, vmax = SIGNED, -limit if vmin is None else vmin, limit if vmax is None else vmax
    desk = width

    def draw(width: int) -> str:
        values, down, across, names = array, rows, cols, (xlabel, ylabel)
        if turned and width < desk:
            values, down, across, names = array.T, cols, rows, (ylabel, xlabel)
        figure, axes = panel(width, heat_height(*values.shape, width))
        color, room = {"cmap": cmap, "vmin": vmin, "vmax": vmax}, width - 48 * bar
        with matplotlib.rc_context(STYLE):
            if values.size <= SMALL:
                size = number_size(values, fmt, (room - 70) / values.shape[1])
                words = annotate
                if annotate is True:
                    words = [[f"{v:{fmt}}".replace("-", "−") for v in row] for row in values]
                mesh = draw_squares(axes, values, down, across, size, words, **color)
            else:
                mesh = axes.imshow(values, aspect="auto", interpolation="none", **color)
            if bar:
                figure.colorbar(mesh, ax=axes, **SCALE).outline.set_linewidth(0)
            label_heat(axes, title, *names, across, room)
        return to_svg(figure, width)

    return responsive(draw, width)


def heatmap(matrix: Any, alt: str, caption: str | None = None, **options: Any) -> Picture:
    """A (T, S) matrix; options as in `heat_panel`. It is wider for more columns, at least two
    thirds of the text's column."""
    width = int(min(max(90 + 56 * as_array(matrix).shape[1], 470), COLUMN))
    return Picture(heat_panel(matrix, **{"width": width, **options}), alt, caption)


def heatmaps(
    panels: Sequence[Mapping[str, Any]],
    alt: str,
    caption: str | None = None,
    across: int = 0,
    **options: Any,
) -> Picture:
    """Several heat maps, each a dictionary of `heat_panel`'s options; what they share is said once,
    as `options`. across: at most so many in a row."""
    shared = {"width": panel_width(across or len(panels)), **options}
    svgs = [
        heat_panel(**{"bar": i == len(panels), **shared, **own}) for i, own in enumerate(panels, 1)
    ]
    return Picture(wrap(svgs, across), alt, caption)
