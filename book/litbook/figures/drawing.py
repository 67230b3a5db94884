"""Diagrams in SVG: boxes, arrows, words and small matrices, with coordinates in pixels."""

import html
import re
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import to_hex

from .style import COLUMN, MASK, PHONE, QUERY, Picture, as_array, ink_on, wrap


DASHES = ' stroke-dasharray="4 3"'


def square_color(value: float, cmap: str | None) -> str:
    """Fill of one square of a matrix; cmap: a name that matplotlib knows, "mask", or None for no
    fill."""
    if cmap is None:
        return "none"
    return to_hex((MASK if cmap == "mask" else matplotlib.colormaps[cmap])(value))


class Drawing:
    """A sheet of `width` by `height` pixels: one of at most 358 is drawn once, for a desk and for a
    phone; a wide one scrolls there.

    Every call but `show` gives the sheet back, so that calls can be chained. `parts` holds the SVG
    so far."""

    def __init__(self, width: int, height: int):
        self.width, self.height = width, height
        self.parts: list[str] = []

    def text(
        self, x, y, text, size=12, anchor="middle", color=None, weight="normal", mono=False,
        opacity=1,
    ) -> "Drawing":
        'Words at a point; anchor: "start", "middle" or "end" of them stands there.'
        words = html.escape(re.sub(r"^-(?=[0-9])", "−", str(text)))
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"'
            ' dominant-baseline="central" '
            f'font-family="{"monospace" if mono else "sans-serif"}" font-weight="{weight}" '
            f'opacity="{opacity}" fill="{color or "currentColor"}">{words}</text>'
        )
        return self

    def box(
        self, x, y, w, h, text="", fill="none", color=None, dash=False, size=12, sub=None, opacity=1
    ) -> "Drawing":
        """A rounded box; words on a fill are as dark or light as it asks. sub: a second, smaller
        line of words."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="4" fill="{fill}" '
            f'stroke="{color or "currentColor"}" stroke-width="1.3"{DASHES * dash}/>'
        )
        ink = ink_on(fill) if fill != "none" else None
        middle = y + h / 2 - (7 if sub else 0)
        self.text(x + w / 2, middle, text, size, color=ink, opacity=opacity)
        if sub:
            self.text(x + w / 2, middle + 15, sub, min(size, 10), color=ink, opacity=opacity)
        return self

    def row(self, x, y, words, pitch, w, h=26, **options) -> "Drawing":
        "Boxes `w` wide with a word each, `pitch` from one to the next; options as in `box`."
        for i, word in enumerate(words):
            self.box(x + pitch * i, y, w, h, word, **options)
        return self

    def line(self, x1, y1, x2, y2, color=None, dash=False, width=1.3, opacity=1.0) -> "Drawing":
        "A straight line."
        self.parts.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"'
            f' stroke="{color or "currentColor"}" opacity="{opacity:.3g}"'
            f' stroke-width="{width:.3g}"{DASHES * dash}/>'
        )
        return self

    def arrow(self, x1, y1, x2, y2, color=None, dash=False, width=1.3) -> "Drawing":
        "A line with a head at (x2, y2)."
        self.line(x1, y1, x2, y2, color, dash, width)
        length = max(np.hypot(x2 - x1, y2 - y1), 1e-9)
        u, v = (x2 - x1) / length * 7, (y2 - y1) / length * 7
        left = f"{x2 - u - v / 2:.1f},{y2 - v + u / 2:.1f}"
        right = f"{x2 - u + v / 2:.1f},{y2 - v - u / 2:.1f}"
        self.parts.append(
            f'<polygon points="{x2:g},{y2:g} {left} {right}" fill="{color or "currentColor"}"/>'
        )
        return self

    def path(
        self, points: Sequence[tuple[float, float]], color=None, dash=False, width=1.3
    ) -> "Drawing":
        "Lines from point to point, with an arrow head at the last one."
        for start, end in zip(points, points[1:-1]):
            self.line(*start, *end, color, dash, width)
        return self.arrow(*points[-2], *points[-1], color, dash, width)

    def matrix(
        self, x, y, array, cell=28, fmt="{:.1f}", cmap=None, rows=(), cols=(), title=None, size=11
    ) -> "Drawing":
        """An array as squares, labels left (rows) and above (cols); (x, y) is the corner of the
        first square."""
        array = as_array(array, float)
        for (i, j), value in np.ndenumerate(array):
            number = fmt.format(value).replace("-inf", "−∞")
            fill = square_color(value, cmap)
            self.box(x + j * cell, y + i * cell, cell, cell, number, fill, size=size)
        for i, label in enumerate(rows):
            self.text(x - 6, y + (i + 0.5) * cell, label, size, "end")
        for j, label in enumerate(cols):
            self.text(x + (j + 0.5) * cell, y - 9, label, size)
        if title:
            middle = x + array.shape[1] * cell / 2
            self.text(middle, y - (24 if cols else 11), title, 12, weight="bold")
        return self

    def image(self, min_width: int, max_width: int) -> str:
        "The SVG, from so many to so many pixels wide on its page."
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}"'
            f' aria-hidden="true" style="display:block;width:100%;min-width:{min_width}px;'
            f'max-width:{max_width}px;height:auto">{"".join(self.parts)}</svg>'
        )

    def svg(self) -> str:
        """The sheet alone. It fills the column as far as its letters stay letters: a sheet made for
        a phone grows by a quarter."""
        max_width = min(COLUMN, max(round(1.25 * self.width), 440))
        min_width = 0 if self.width <= PHONE + 30 else round(0.85 * self.width)
        stop = ' tabindex="0"' if min_width else ""  # what can't scroll needn't be reached
        image = self.image(min_width, max(max_width, self.width))
        return f'<div style="overflow-x:auto"{stop}>{image}</div>'

    def show(self, alt: str, caption: str | None = None) -> Picture:
        "The sheet as a figure; alt: what one sees, caption: what one learns, each in a sentence."
        return Picture(self.svg(), alt, caption)


def side_by_side(sheets: Sequence[Drawing], alt: str, caption: str | None = None) -> Picture:
    "Sheets as one figure, two in a row; on a phone they stand below each other."
    return Picture(wrap([sheet.svg() for sheet in sheets], 2), alt, caption)


def attention_lines(
    weights: Any,
    queries: Sequence,
    keys: Sequence,
    alt: str,
    caption: str | None = None,
    heads: tuple[str, str] = ("query", "key"),
) -> Picture:
    """(T, S) weights as lines from each query word to the key words; a line is as thick and as dark
    as its weight.

    heads: what stands over the two columns.

    Raises ValueError for words that don't fit the matrix: a line to the wrong word looks as good as
    one to the right."""
    array = as_array(weights, float)
    if array.shape != (len(queries), len(keys)):
        raise ValueError(f"weights {array.shape} for {len(queries)} queries and {len(keys)} keys")
    sheet = Drawing(340, 24 * max(array.shape) + 40)
    for (i, j), weight in np.ndenumerate(array):
        if weight > 0.02:
            thick, dark = 0.6 + 4 * weight, 0.35 + 0.65 * weight
            sheet.line(112, 40 + i * 24, 228, 40 + j * 24, QUERY, width=thick, opacity=dark)
    for words, x, anchor, head in ((queries, 106, "end", heads[0]), (keys, 234, "start", heads[1])):
        for i, word in enumerate(words):
            sheet.text(x, 40 + i * 24, word, 12, anchor)
        sheet.text(x, 14, head, 11, anchor, weight="bold")
    return sheet.show(alt, caption)
