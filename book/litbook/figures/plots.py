"""Curves and bars, each one call that gives a `Picture`."""

import html
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from .style import (
    COLUMN,
    GREY,
    INK,
    NAMED,
    STYLE,
    Picture,
    as_array,
    colours_of,
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
    for wanted, set_scale, axis in (
        (logx, axes.set_xscale, axes.xaxis),
        (logy, axes.set_yscale, axes.yaxis),
    ):
        if wanted:
            set_scale("log")
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
    colour: str


def series(entry: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
    "ys, (xs, ys) or (xs, ys, low, high) -> all four, None where absent."
    xs, ys, *band = entry if isinstance(entry, tuple) else (None, entry)
    ys = as_array(ys, float)
    low, high = [as_array(edge, float) for edge in band] or (None, None)
    return np.arange(len(ys)) if xs is None else as_array(xs, float), ys, low, high


def fit_beside(ends: Sequence[End], width: int = 330) -> bool:
    "Is there room in `width` pixels for the names at the ends of the lines?"
    # a panel of three columns has no width to spare beside its curves
    most, long = (12, 30) if width > 500 else (5, 14) if width > 250 else (5, 7)
    return len(ends) <= most and max(len(end.label) for end in ends) <= long


def free_at_first(axes: Axes, entries: Iterable[Any], level: float) -> bool:
    "Whether the curves begin further from the level than they end, as losses above a floor do."
    scale = np.log if axes.get_yscale() == "log" else np.asarray
    away = [abs(scale(ys) - scale(level)) for _, ys, *_ in map(series, entries) if len(ys)]
    return min((ys[0] for ys in away), default=0) > min((ys[-1] for ys in away), default=0)


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
    for y, label, colour in sorted((y, end.label, end.colour) for y, end in zip(heights, ends)):
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
            color=colour,
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
        f'{"currentColor" if end.colour == INK else end.colour}">'
        f"</span>{html.escape(end.label)}</span>"
        for end in ends
    )
    key = (
        "<div"
        f' style="font-family:var(--tl-ui,sans-serif);font-size:12px;line-height:1.6">{marks}</div>'
    )
    return svg[: -len("</div>")] + key + "</div>"


def curve_panel(
    series_by_label: Mapping[str, Any],
    xlabel: str | None = None,
    ylabel: str | None = None,
    title: str | None = None,
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
        if ylim is not None:
            axes.set_ylim(*ylim)
        ends: list[End] = []
        with matplotlib.rc_context(STYLE):
            for (label, entry), colour in zip(
                series_by_label.items(), colours_of(series_by_label, colors)
            ):
                xs, ys, low, high = series(entry)
                axes.plot(xs, ys, styles.get(label, "-"), color=colour)
                if low is not None:
                    axes.fill_between(xs, low, high, color=colour, alpha=0.35, linewidth=0)
                ends.append(End(float(xs[-1]), float(ys[-1]), label, colour))
            axes.set(xlabel=xlabel or "", ylabel=ylabel or "")
            axes.set_title(title or "", loc="left")
            axes.grid(alpha=0.25, linewidth=0.5, color=GREY)
            place_ticks(axes, np.unique(np.concatenate([line.get_xdata() for line in axes.lines])))
            named = [*ends, End(ends[0].x, *hline, GREY)] if hline and hline[1] else ends
            beside = fit_beside(named, width) and len(named) > 1
            if hline:
                left = free_at_first(axes, series_by_label.values(), hline[0])
                draw_level(axes, hline[0], "" if beside else hline[1], left)
            if beside:
                dotted = {hline[1]: ":"} if hline else {}
                name_ends(axes, named if len(ends) > 1 else named[1:], {**styles, **dotted})
        svg = to_svg(figure, width)
        return svg if beside else keyed(svg, ends, styles)

    return responsive(draw, width)


def curves(
    series_by_label: Mapping[str, Any],
    alt: str | None = None,
    caption: str | None = None,
    **options: Any,
) -> Picture:
    """Curves in one panel; options as in `curve_panel`. Without `alt`, the description says where
    they begin and end."""
    if alt is None:
        xs = np.concatenate([series(entry)[0] for entry in series_by_label.values()])
        what, along = options.get("ylabel") or "height", options.get("xlabel") or "x"
        told = heights(series_by_label, xs.min(), xs.max(), fmt="{:.3g}")
        alt = f"{what} at {along} {xs.min():g} and {xs.max():g}: {told}."
        alt = alt[0].upper() + alt[1:]
    return Picture(curve_panel(series_by_label, **options), alt, caption)


def curve_panels(
    panels: Sequence[Mapping[str, Any]], alt: str, caption: str | None = None, **options: Any
) -> Picture:
    "Panels of curves, each a dictionary: `series`, its curves, and options of `curve_panel`."
    shared = {"width": panel_width(len(panels)), **options}
    svgs = [
        curve_panel(own["series"], **{k: v for k, v in {**shared, **own}.items() if k != "series"})
        for own in panels
    ]
    return Picture(wrap(svgs), alt, caption)


def spread(runs: Any, xs: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    "(runs, n) numbers -> xs, mean, least, most: the entry of a curve whose band holds all runs."
    rows = np.stack([as_array(run, float) for run in runs])
    places = np.arange(rows.shape[1]) if xs is None else as_array(xs, float)
    return places, rows.mean(0), rows.min(0), rows.max(0)


def heights(series_by_label: Mapping[str, Any], *places: float, fmt: str = "{:.2f}") -> str:
    """How high curves stand at some places, in words for an alt text: "post 0.33 and 0.54; pre 0.35
    and 0.13".

    Each height is that of the curve's point nearest to the place."""
    told = []
    for label, entry in series_by_label.items():
        xs, ys, *_ = series(entry)
        *most, last = [
            re.sub("^-", "−", fmt.format(ys[np.abs(xs - place).argmin()])) for place in places
        ]
        told.append(f"{label} " + (f"{', '.join(most)} and {last}" if most else last))
    return "; ".join(told)


# Bars ---------------------------------------------------------------------------------------------


def named_rows(
    names: Iterable[str],
    draw: Callable[[Axes], None],
    alt: str,
    caption: str | None = None,
    xlabel: str | None = None,
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
            axes.set_xlabel(xlabel or "")
        return to_svg(figure, width)

    return sketch(draw_panel, alt, caption)


def draw_bar(axes: Axes, i: int, entry: Any, colour: str, fmt: str) -> None:
    "Bar `i`, its whisker if it has one, and its number at the end, clear of the whisker."
    value, *band = map(float, entry if isinstance(entry, tuple) else (entry,))
    axes.barh(i, value, height=0.62, color=colour)
    if band:  # half of it lies on the bar
        ink = GREY if colour == INK else INK
        axes.plot(band, [i, i], color=ink, linewidth=1.6, marker="|", markersize=7)
    axes.annotate(
        fmt.format(value),
        (max(value, *band, 0), i),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=10.5,
    )


def bars(
    values: Mapping[str, Any],
    alt: str | None = None,
    caption: str | None = None,
    fmt: str = "{:.2f}",
    colors: Mapping[str, str] | None = None,
    xlabel: str | None = None,
) -> Picture:
    """Horizontal bars with their numbers; a value is a number or (value, low, high), which draws a
    whisker. Without `alt`, the description says the numbers."""

    def draw(axes: Axes) -> None:
        for i, (label, entry) in enumerate(values.items()):
            draw_bar(axes, i, entry, {**NAMED, **(colors or {})}.get(label, INK), fmt)

    if alt is None:
        ends = {label: [as_array(entry, float).flat[0]] for label, entry in values.items()}
        alt = f"Bars, {xlabel or 'from zero'}: {heights(ends, 0, fmt=fmt)}."
    return named_rows(values, draw, alt, caption, xlabel)
