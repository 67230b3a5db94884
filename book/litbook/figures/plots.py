"""Curves and bars, each one call that gives a `Picture`."""

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from .style import (
    COLUMN,
    GRAY,
    INK,
    NAMED,
    STYLE,
    Picture,
    as_array,
    colors_of,
    minus,
    panel,
    panel_width,
    responsive,
    sketch,
    to_svg,
    wrap,
)

# Axes ---------------------------------------------------------------------------------------------


def log_axes(axes: Axes, logx: bool, logy: bool) -> None:
    "Logarithmic where asked, numbers in full: raised ones get too small."
    for letter, wanted in (("x", logx), ("y", logy)):
        if wanted:
            axes.set(**{f"{letter}scale": "log"})
            axis = getattr(axes, f"{letter}axis")
            axis.set_major_formatter(lambda value, _: tick_label(value))
            axis.set_minor_formatter(partial(minor_label, axis))


def tick_label(value: float) -> str:
    "A tick of a logarithmic axis in full, 0.01, or where that has many zeros as a power, 10⁻⁵."
    number, _, exponent = f"{value:e}".partition("e")
    if 0.9e-3 < value < 0.9e6 or float(number) != 1:
        return f"{value:g}"
    return "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def minor_label(axis, value: float, _: int | None = None) -> str:
    "Between powers of ten only 2 and 5 are named, and only where there are fewer than two powers."
    low, high = axis.get_view_interval()
    return tick_label(value) if high < 100 * low and f"{value:e}"[0] in "25" else ""


def place_ticks(axes: Axes, xs: np.ndarray) -> None:
    """Ticks for points at xs: on a logarithmic axis of few points, half as large again from one to
    the next, these points; between whole numbers no half a step."""
    if axes.get_xscale() == "linear":
        if (xs % 1 == 0).all():
            axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    elif 1 < len(xs) <= 7 and xs[0] > 0 and (xs[1:] >= 1.5 * xs[:-1]).all():
        axes.set_xticks(xs)
        axes.set_xticks([], minor=True)


# Curves -------------------------------------------------------------------------------------------


class End(NamedTuple):
    "Where a curve ends, in the units of its axes, and what it is called."

    x: float
    y: float
    label: str
    color: str


def points(entry: Any) -> list[np.ndarray]:
    "ys, (xs, ys) or (xs, ys, low, high) as arrays, xs from 0 where there are none."
    xs, ys, *band = entry if isinstance(entry, tuple) else (None, entry)
    return [as_array(part, float) for part in (range(len(ys)) if xs is None else xs, ys, *band)]


def fit_beside(ends: Sequence[End], width: int = 330) -> bool:
    "Is there room in `width` pixels for the names at the ends of the lines?"
    # a panel of three columns has no width to spare beside its curves
    count, long = (12, 30) if width > 500 else (5, 14) if width > 250 else (5, 7)
    return len(ends) <= count and max(len(end.label) for end in ends) <= long


def free_at_first(axes: Axes, entries: Iterable[Any], level: float) -> bool:
    "Whether the curves begin further from the level than they end, as losses above a floor do."
    scale = np.log if axes.get_yscale() == "log" else np.asarray
    away = [abs(scale(points(entry)[1]) - scale(level)) for entry in entries]
    return min(ys[0] for ys in away) > min(ys[-1] for ys in away)


def draw_level(axes: Axes, level: float, name: str, left: bool) -> None:
    "A dotted line across the panel, its name at the left or at the right end; no name is none."
    axes.axhline(level, color=INK, linewidth=0.9, linestyle=":")
    axes.annotate(
        name,
        (0.02 if left else 0.98, level),
        xytext=(0, 3),
        ha="left" if left else "right",
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        fontsize=10.5,
    )


DASHES = {"--": (0, (1.4, 0.7)), ":": (0, (0.6, 0.6))}  # of a short mark, in its widths


def name_ends(axes: Axes, ends: Sequence[End], styles: Mapping[str, str] | None = None) -> None:
    """Names at the ends of their lines, the lower ones first, pushed apart where they would
    collide; a curve that ends in nan is named on top, a mark is dashed as its line is."""
    axes.get_xlim(), axes.get_ylim()  # settles the scales
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = np.nan_to_num([to_axes.transform((end.x, end.y))[1] for end in ends], nan=1.0)
    low = -1.0
    for y, label, color in sorted((y, end.label, end.color) for y, end in zip(heights, ends)):
        low = max(min(y, 1.05), low + 0.085)
        axes.annotate(
            label,
            (1.05, low),
            xycoords="axes fraction",
            va="center",
            fontsize=10.5,
            annotation_clip=False,
        )
        axes.plot(
            [1.0, 1.035],
            [low, low],
            color=color,
            linewidth=3,
            transform=axes.transAxes,
            clip_on=False,
            solid_capstyle="butt",
            dash_capstyle="butt",
            linestyle=DASHES.get((styles or {}).get(label, ""), "-"),
        )


def keyed(svg: str, ends: Sequence[End], styles: Mapping[str, str] | None = None) -> str:
    "The SVG with a key below it, for long names; a line that is dashed or dotted is so in the key."
    if len(ends) == 1:
        return svg
    lines = {"--": "dashed", ":": "dotted"}
    marks = "".join(
        '<span style="white-space:nowrap;margin-right:14px">'
        '<span style="display:inline-block;width:18px;vertical-align:middle;margin-right:5px;'
        f'border-top:3px {lines.get((styles or {}).get(end.label, ""), "solid")} '
        f'{"currentColor" if end.color == INK else end.color}">'
        f"</span>{html.escape(end.label)}</span>"
        for end in ends
    )
    key = (
        "<div"
        f' style="font-family:var(--tl-ui,sans-serif);font-size:12px;line-height:1.6">{marks}</div>'
    )
    return svg[: -len("</div>")] + key + "</div>"


def curve_panel(
    series: Mapping[str, Any],
    xlabel: str = "",
    ylabel: str = "",
    title: str = "",
    logx: bool = False,
    logy: bool = False,
    colors: Mapping[str, str] | None = None,
    styles: Mapping[str, str] | None = None,
    hline: tuple[float, str] | None = None,
    width: int = COLUMN,
    height: int | None = None,
    ylim: tuple[float, float] | None = None,
) -> str:
    """Curves as SVG; each is ys, (xs, ys), or (xs, ys, low, high) with a band from low to high.

    Their names stand at their ends, or in a key below where they are long or many. colors, styles:
    of single curves, by label. hline: a dotted reference (height, name). ylim: lowest and highest,
    for panels that are compared."""
    height = height or (330 if width > 500 else 250)
    styles = styles or {}

    def draw(width: int) -> str:
        figure, axes = panel(width, height if width > 500 else min(height, 260))
        log_axes(axes, logx, logy)
        if ylim:
            axes.set_ylim(ylim)
        ends: list[End] = []
        with matplotlib.rc_context(STYLE):
            for (label, entry), color in zip(series.items(), colors_of(series, colors)):
                xs, ys, *band = points(entry)
                axes.plot(xs, ys, styles.get(label, "-"), color=color)
                if band:
                    axes.fill_between(xs, *band, color=color, alpha=0.35, linewidth=0)
                ends.append(End(xs[-1], ys[-1], label, color))
            axes.set(xlabel=xlabel, ylabel=ylabel)
            axes.set_title(title, loc="left")
            axes.grid(alpha=0.25, linewidth=0.5, color=GRAY)
            place_ticks(axes, np.unique(np.concatenate([line.get_xdata() for line in axes.lines])))
            named = [*ends, End(ends[0].x, *hline, GRAY)] if hline and hline[1] else ends
            beside = fit_beside(named, width) and len(named) > 1
            if hline:
                left = free_at_first(axes, series.values(), hline[0])
                draw_level(axes, hline[0], "" if beside else hline[1], left)
            if beside:
                dotted = {hline[1]: ":"} if hline else {}
                name_ends(axes, named if len(ends) > 1 else named[1:], {**styles, **dotted})
        svg = to_svg(figure, width)
        return svg if beside else keyed(svg, ends, styles)

    return responsive(draw, width)


def curves(
    series: Mapping[str, Any], alt: str | None = None, caption: str | None = None, **options: Any
) -> Picture:
    """Curves in one panel; options as in `curve_panel`. Without `alt`, the description says where
    they begin and end."""
    if alt is None:
        xs = np.concatenate([points(entry)[0] for entry in series.values()])
        what, along = options.get("ylabel", "height"), options.get("xlabel", "x")
        ends = heights(series, xs.min(), xs.max(), fmt="{:.3g}")
        alt = f"{what} at {along} {xs.min():g} and {xs.max():g}: {ends}."
        alt = alt[0].upper() + alt[1:]
    return Picture(curve_panel(series, **options), alt, caption)


def curve_panels(
    panels: Sequence[Mapping[str, Any]], alt: str, caption: str | None = None, **options: Any
) -> Picture:
    "Panels of curves, each a dictionary: `series`, its curves, and options of `curve_panel`."
    shared = {"width": panel_width(len(panels)), **options}
    svgs = [curve_panel(**{**shared, **own}) for own in panels]
    return Picture(wrap(svgs), alt, caption)


def spread(runs: Any, xs: Any = None) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    "(runs, n) numbers -> xs, mean, least, most: the entry of a curve whose band holds all runs."
    rows = np.stack([as_array(run, float) for run in runs])
    return xs, rows.mean(0), rows.min(0), rows.max(0)


def heights(series: Mapping[str, Any], *places: float, fmt: str = "{:.2f}") -> str:
    """How high curves stand at some places, in words for an alt text: "post 0.33 and 0.54; pre 0.35
    and 0.13".

    Each height is that of the curve's point nearest to the place."""
    lines = []
    for label, entry in series.items():
        xs, ys, *_ = points(entry)
        *first, final = [minus(fmt.format(ys[np.abs(xs - place).argmin()])) for place in places]
        lines.append(f"{label} {', '.join(first)}{' and ' * bool(first)}{final}")
    return "; ".join(lines)


# Bars ---------------------------------------------------------------------------------------------


def named_rows(
    names: Iterable[str],
    draw: Callable[[Axes], None],
    alt: str,
    caption: str | None = None,
    xlabel: str = "",
) -> Picture:
    "A panel with one row per name, the first on top; `draw` fills the rows."
    names = list(names)

    def draw_panel(width: int) -> str:
        figure, axes = panel(width, 30 * len(names) + 64)
        with matplotlib.rc_context(STYLE):
            draw(axes)
            axes.set_yticks(range(len(names)), names)
            axes.invert_yaxis()
            axes.margins(x=0.16)
            axes.tick_params(axis="y", length=0)
            axes.set_xlabel(xlabel)
        return to_svg(figure, width)

    return sketch(draw_panel, alt, caption)


def bars(
    values: Mapping[str, Any],
    alt: str | None = None,
    caption: str | None = None,
    fmt: str = "{:.2f}",
    colors: Mapping[str, str] | None = None,
    xlabel: str = "",
) -> Picture:
    """Horizontal bars with their numbers; a value is a number or (value, low, high), which draws a
    whisker. Without `alt`, the description says the numbers."""

    def draw(axes: Axes) -> None:
        for i, (label, entry) in enumerate(values.items()):
            value, *band = np.atleast_1d(entry)
            color = {**NAMED, **(colors or {})}.get(label, INK)
            axes.barh(i, value, height=0.62, color=color)
            if band:  # half of it lies on the bar
                ink = GRAY if color == INK else INK
                axes.plot(band, [i, i], color=ink, linewidth=1.6, marker="|", markersize=7)
            axes.annotate(
                fmt.format(value),
                (max(value, *band, 0), i),  # clear of the whisker
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=10.5,
            )

    if alt is None:
        ends = {label: np.atleast_1d(entry) for label, entry in values.items()}
        alt = f"Bars, {xlabel or 'from zero'}: {heights(ends, 0, fmt=fmt)}."
    return named_rows(values, draw, alt, caption, xlabel)
