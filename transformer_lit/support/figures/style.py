"""What every figure shares: colours, the `Picture` with its spoken description, and matplotlib's SVG in the page's own ink."""
# A figure must read on white and on black, on a wide screen and on a phone, and to somebody who can't see it. So figures are
# SVG, their letters are letters, and what would be black is `currentColor`, the colour of the text around them. matplotlib
# knows no such colour: it draws with INK, a near-black that nothing else uses, and `cleaned` replaces it in the finished SVG.
# The colours are Okabe and Ito's, which most colour-blind eyes can tell apart; a thing has one colour in the whole book.
import html
import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.figure import Figure

QUERY, KEY, VALUE = "#0072B2", "#E69F00", "#009E73"
ENCODER, DECODER, BRIDGE = "#CC79A7", "#56B4E9", "#D55E00"
GREY = "#888888"
INK = "#010203"  # stands for the page's own text colour
CYCLE = [QUERY, BRIDGE, VALUE, ENCODER, GREY, KEY, DECODER]
MASK = ListedColormap(["#3b3b3b", "#e8e8e8"])  # closed, open

STYLE: dict[str, Any] = {
    "svg.fonttype": "none",  # letters stay letters, to be selected and searched
    "svg.hashsalt": "transformer-lit",  # the same figure is the same text in every build
    "font.family": "sans-serif", "font.size": 11, "axes.titlesize": 12, "axes.labelsize": 11,
    "xtick.labelsize": 10.5, "ytick.labelsize": 10.5,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.linewidth": 0.7, "lines.linewidth": 1.8, "axes.spines.top": False, "axes.spines.right": False,
    "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none",
}


class Picture:
    """HTML that a notebook shows by itself, with a description for those who can't see it.

    alt: a sentence of at least four words; None only where the words can be read as they are, as in a table.
    Raises ValueError for a shorter one."""

    def __init__(self, body: str, alt: str | None):
        if alt is not None and len(alt.split()) < 4:
            raise ValueError(f"alt={alt!r}: say in a sentence what one sees")
        self.alt = alt
        role = "" if alt is None else f' role="img" aria-label="{html.escape(alt)}"'
        self.html = f'<div class="tl-figure"{role}>{body}</div>'

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.alt or "a table"


def wrap(panels: Sequence[str]) -> str:
    "Panels side by side, below each other where the page is narrow."
    return ('<div style="display:flex;flex-wrap:wrap;gap:12px 10px;'
            f'align-items:flex-start">{"".join(panels)}</div>')


# From matplotlib to a piece of the page --------------------------------------------------------------------------

def panel(width: int, height: int) -> tuple[Figure, Axes]:
    "A figure of so many pixels with one pair of axes. matplotlib counts 72 points in an inch; here a point is a pixel."
    with matplotlib.rc_context(STYLE):
        figure = Figure((width / 72, height / 72), layout="constrained")
        return figure, figure.add_subplot()


IDS = re.compile(r' id="(?:figure|axes|patch|line2d|text|matplotlib|xtick|ytick|QuadMesh|PolyCollection|Fill|'
                 r'LineCollection|PathCollection)[\w.]*"')


def cleaned(text: str) -> str:
    """The SVG alone, in the page's colour, without metadata.

    Ids go too, since two figures on a page would share them, except a clipping path's: something else refers to it."""
    text = text[text.index("<svg"):].replace(INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    return IDS.sub("", text).replace("<image ", '<image style="image-rendering:pixelated" ')


def headed(text: str) -> str:
    "The SVG with an opening tag that lets it fill its panel: a view box without a size."
    box = re.search(r'viewBox="([^"]+)"', text)
    if box is None:
        raise ValueError("this SVG has no viewBox")
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box[1]}" '
            'xmlns:xlink="http://www.w3.org/1999/xlink" '
            'aria-hidden="true" style="width:100%;height:auto">')
    return head + text[text.index(">") + 1:]


def framed(svg: str, width: int) -> str:
    """The SVG in a panel of at most `width` pixels.

    Up to 400 it shrinks with the page; a wider one keeps nine tenths of its width and scrolls, or its letters would fall
    below 9 pixels on a phone."""
    least = 0 if width <= 400 else round(0.9 * width)
    scroll = 'overflow-x:auto" tabindex="0' if least else ""
    return ('<div style="flex:0 1 auto;min-width:0;width:100%;'
            f'max-width:{width}px;{scroll}">'
            f'<div style="min-width:{least}px">{svg}</div></div>')


def to_svg(figure: Figure, width: int) -> str:
    "A matplotlib figure as SVG that takes the page's text colour, in a panel of at most `width` pixels."
    file = io.StringIO()
    with matplotlib.rc_context(STYLE):  # matplotlib chooses between letters and outlines while it saves
        figure.savefig(file, format="svg", metadata={"Date": None})
    return framed(headed(cleaned(file.getvalue())), width)


# Letters on a coloured ground ------------------------------------------------------------------------------------

def brightness(paint: Any) -> float:
    "WCAG's relative luminance: 0 for black, 1 for white."
    rgb = np.array(to_rgb(paint))
    bent = ((rgb + 0.055) / 1.055) ** 2.4
    return float(np.where(rgb <= 0.04045, rgb / 12.92, bent) @ [0.2126, 0.7152, 0.0722])


def contrast(one: Any, other: Any) -> float:
    "WCAG's contrast of two colours, from 1 to 21; text needs 4.5."
    low, high = sorted(brightness(paint) + 0.05 for paint in (one, other))
    return high / low


def ink_on(paint: Any) -> str:
    "Dark or white letters, whichever stand out more on `paint`. A softer dark would reach 4.5 on no middle grey."
    return max("#030303", "#ffffff", key=lambda ink: contrast(ink, paint))


def as_array(values: Any, dtype: Any = None) -> np.ndarray:
    "A tensor, with or without gradient, or a list as an array."
    return np.asarray(values.detach() if hasattr(values, "detach") else values, dtype)
