"""What every figure shares: colors, the `Picture` with its alt text, and matplotlib's SVG in the
page's own ink."""

# A figure must read on white and on black, on a wide screen and on a phone, and to somebody who
# can't see it. So figures are SVG, their letters are letters, and what would be black is
# `currentColor`, the color of the text around them. matplotlib knows no such color: it draws with
# INK, a near-black that nothing else uses, and `cleaned` replaces it in the finished SVG. There are
# two palettes. The model's colors are Okabe and Ito's, which most color-blind eyes can tell
# apart; each belongs to one part of the Transformer and is used for nothing else. An experiment has
# colors of its own: ours in ink, the reference in gray, a fault in dashed brick, further settings
# in six quiet colors; a name that comes again keeps its color (`NAMED`). Each of them has a
# contrast of at least 3 on the light and on the dark page.
import html
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb, to_rgba
from matplotlib.figure import Figure

QUERY, KEY, VALUE = "#0072B2", "#E69F00", "#009E73"
ENCODER, DECODER, BRIDGE = "#CC79A7", "#56B4E9", "#D55E00"
GRAY = "#888888"
INK = "#010203"  # stands for the page's own text color
FAULT = "#C2503C"  # brick
TEAL, PLUM, OCHRE, SLATE, OLIVE = "#2A8C82", "#9A5FB0", "#B07D1A", "#5B7DB1", "#74882B"
CYCLE = [INK, TEAL, PLUM, OCHRE, SLATE, OLIVE, GRAY]
NAMED = {  # what comes in several chapters has the same color in all of them
    name: color
    for color, names in (
        (INK, ["Transformer", "transformer", "encoder-decoder", "ours", "post-norm"]),
        (INK, ["Adam", "AdamW"]),
        (TEAL, ["RNN with attention", "rnn-attention", "encoder-only", "Muon"]),
        (OCHRE, ["RNN", "rnn", "adamw"]),
        (PLUM, ["decoder-only", "RoPE"]),
        (SLATE, ["pre-norm"]),
        (OLIVE, ["2017"]),
        (GRAY, ["reference", "PyTorch", "sacreBLEU", "trigram", "5-gram"]),
    )
    for name in names
}
COLUMN, PHONE = 704, 358  # pixels that a figure may fill on a desk and on a phone
MASK = ListedColormap(
    ["#666666", "#e8e8e8"]
)  # closed, open; closed stands out on both pages, and a gray line bounds what is open
SIGNED = ListedColormap(
    [(*to_rgb("#5E3C99" if k < 0 else "#A85005"), abs(k) / 100) for k in range(-100, 101)]
)  # zero is the page itself

STYLE: dict[str, Any] = {
    "svg.fonttype": "none",  # letters stay letters, to be selected and searched
    "svg.hashsalt": "transformer-lit",  # the same figure is the same text in every build
    "font.family": "sans-serif",
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.labelsize": 11,
    "xtick.labelsize": 10.5,
    "ytick.labelsize": 10.5,
    **dict.fromkeys(
        ["text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"], INK
    ),
    "axes.linewidth": 0.7,
    "lines.linewidth": 1.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    **dict.fromkeys(["figure.facecolor", "axes.facecolor", "savefig.facecolor"], "none"),
}


def colors_of(labels: Iterable[str], colors: Mapping[str, str] | None = None) -> list[str]:
    """The color of each setting of a figure: the author's, else its name's in the whole book, else
    the next of the cycle that isn't taken."""
    paints = [{**NAMED, **(colors or {})}.get(label) for label in labels]
    for i, color in enumerate(paints):
        turned = CYCLE[i % len(CYCLE) :] + CYCLE[: i % len(CYCLE)]
        free = [paint for paint in turned if paint not in paints]
        paints[i] = color or (free or turned)[0]
    return paints


def minus(text: str) -> str:
    "Text in which numbers below zero have a minus: a hyphen isn't read aloud."
    return re.sub(r"(?:(?<=[\s(\[])|^)-(?=\d)", "−", text)


def powers(text: str) -> str:
    """HTML or Markdown in which 3e-07 is written as people write it, 3 · 10<sup>−7</sup>, and -0.5
    with a minus; `code` is left alone."""

    def raise_power(match: re.Match[str]) -> str:
        number, exponent = match[1], int(match[2])
        if not exponent or not float(number):
            return number if float(number) else "0"
        power = f"10<sup>{exponent}</sup>".replace("-", "−")
        return power if number == "1" else f"{number}\u00a0·\u00a0{power}"

    number = r"(?<![\w.])(\d+(?:\.\d+)?)e([+-]\d+)\b"
    return "".join(
        part if part.startswith("`") else minus(re.sub(number, raise_power, part))
        for part in re.split(r"(`[^`]*`)", text)
    )


class Picture:
    """HTML that a notebook shows by itself, with a description for those who can't see it and a
    caption under it.

    alt: a sentence of at least four words; None only where the words can be read as they are, as in
    a table. caption: the finding, in a sentence; without one the description stands there too.
    Raises ValueError for a shorter alt."""

    def __init__(self, body: str, alt: str | None, caption: str | None = None):
        if alt is not None and len(alt.split()) < 4:
            raise ValueError(f"alt={alt!r}: say in a sentence what one sees")
        alt = alt and minus(alt)
        self.alt, self.caption = alt, caption and minus(caption) or alt
        if alt is None:
            self.html = f'<div class="tl-figure">{body}</div>'
            return
        twice = (
            ' aria-hidden="true"' if self.caption == alt else ""
        )  # nobody wants to hear a sentence twice
        self.html = (
            '<figure class="tl-figure" style="margin:1em 0"><div role="img"'
            f' aria-label="{html.escape(alt)}">{body}</div>'
            f'<figcaption class="tl-caption"{twice}'
            f' style="margin-top:.4em;font-size:.9em">{powers(html.escape(self.caption or ""))}'
            "</figcaption></figure>"
        )

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.alt or "a table"


def columns_for(panels: int) -> int:
    """How many panels stand side by side: up to three, or four where there are eight; four make a
    square."""
    return {1: 1, 2: 2, 4: 2, 7: 4, 8: 4}.get(panels, 3)


def panel_width(panels: int) -> int:
    "Pixels of one of so many panels in the column."
    across = columns_for(panels)
    return (COLUMN - 16 * (across - 1)) // across


def wrap(panels: Sequence[str], across: int = 0) -> str:
    """Panels side by side over the whole column, below each other where the page is narrow. across:
    at most so many in a row.

    Beside two sidebars the column has 640 pixels on a screen of 1,280, and 610 in a cell's card;
    they shrink a little there."""
    min_width = round(0.85 * panel_width(across or len(panels)))
    return (
        '<div style="display:grid;gap:14px'
        f" 16px;grid-template-columns:repeat(auto-fill,minmax(min(100%,{min_width}px),1fr));"
        f'align-items:start">{"".join(panels)}</div>'
    )


# From matplotlib to a piece of the page -----------------------------------------------------------


def panel(width: int, height: int) -> tuple[Figure, Axes]:
    """A figure of so many pixels with one pair of axes. matplotlib counts 72 points in an inch;
    here a point is a pixel."""
    with matplotlib.rc_context(STYLE):
        figure = Figure((width / 72, height / 72), layout="constrained")
        return figure, figure.add_subplot()


IDS = re.compile(
    r' id="(?:figure|axes|patch|line2d|text|matplotlib|xtick|ytick|QuadMesh|PolyCollection|Fill|'
    r'LineCollection|PathCollection)[\w.]*"'
)


def raised(power: re.Match[str]) -> str:
    """10¹² with an exponent that is raised by the drawing, since raised letters are too small to
    read; what follows stands on the line again."""
    exponent, after = power[1].translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "−0123456789")), power[2]
    return f'10<tspan dy="-4" style="font-size: 8.5px">{exponent}</tspan>' + (
        f'<tspan dy="4">{after}</tspan>' if after else ""
    )


def cleaned(text: str) -> str:
    """The SVG alone, in the page's color, without metadata.

    Ids go too, since two figures on a page would share them, except a clipping path's: something
    else refers to it."""
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r" ?font-family: [^;]+;", "", text)  # the page's, from the opening tag
    # a hundredth of a pixel is enough; in words, a tick of 0.001 stays one
    text = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d\.\d\d)\d+", r"\1", tag[0]), text)
    text = re.sub(r">-(?=\d)", ">−", text)  # a number below zero has a minus, as its axis has
    text = re.sub("10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)([^<]*)", raised, text)
    return IDS.sub("", text).replace("<image ", '<image style="image-rendering:pixelated" ')


def to_svg(figure: Figure, width: int) -> str:
    """A matplotlib figure as SVG that takes the page's text color, in a panel that fills its
    place, up to a fifth more than the `width` that it was drawn for."""
    file = io.StringIO()
    with matplotlib.rc_context(STYLE):  # whether letters or outlines is chosen while it is saved
        figure.savefig(file, format="svg", metadata={"Date": None})
    text = cleaned(file.getvalue())
    box = re.search(r'viewBox="[^"]+"', text)[0]
    return (
        f'<div style="min-width:0;width:100%;max-width:{round(1.2 * width)}px">'
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} '
        'xmlns:xlink="http://www.w3.org/1999/xlink" '
        'aria-hidden="true" style="width:100%;height:auto;font-family:sans-serif">'
        f'{text[text.index(">") + 1 :]}</div>'
    )


def responsive(draw: Callable[[int], str], width: int) -> str:
    """What `draw(width)` makes and, where that would shrink its letters on a phone, the same drawn
    for a phone.

    The style sheet shows one of the two; without it, as in Colab, the wide one stands."""
    if width <= PHONE:
        return draw(width)
    return (
        f'<div class="tl-desk">{draw(width)}</div><div class="tl-phone"'
        f' style="display:none">{draw(PHONE)}</div>'
    )


def sketch(
    draw: Callable[[int], str], alt: str, caption: str | None = None, width: int = COLUMN
) -> Picture:
    "What `draw(width)` makes for a desk and for a phone, as a figure."
    return Picture(responsive(draw, width), alt, caption)


# Letters on a colored ground ---------------------------------------------------------------------


def contrast(ink: Any, ground: Any) -> float:
    "WCAG's contrast of two colors, from 1 to 21; text needs 4.5."
    rgb = np.array([to_rgb(paint) for paint in (ink, ground)])
    linear = np.where(rgb <= 0.03928, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    low, high = sorted(linear @ (0.2126, 0.7152, 0.0722) + 0.05)
    return high / low


def ink_on(paint: Any) -> str:
    """Dark or white letters, whichever stand out more on `paint`. A softer dark would reach 4.5 on
    no middle gray.

    Where the page shines through, its own ink, as long as that is dark enough on a light page."""
    *rgb, alpha = to_rgba(paint)
    if alpha < 1 and contrast("#030303", [alpha * part + 1 - alpha for part in rgb]) >= 4.5:
        return INK
    return max("#030303", "#ffffff", key=lambda ink: contrast(ink, rgb))


def as_array(values: Any, dtype: Any = None) -> np.ndarray:
    "A tensor, with or without gradient, or a list as an array."
    return np.asarray(values.detach() if hasattr(values, "detach") else values, dtype)
