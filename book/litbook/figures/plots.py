"""Heat maps, curves, bars and dots, each one call that gives a `Picture`."""

import html
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .style import (
    COLUMN,
    GREY,
    INK,
    MASK,
    SIGNED,
    STYLE,
    Picture,
    as_array,
    colour_of,
    colours_of,
    ink_on,
    panel,
    panel_width,
    responsive,
    to_svg,
    wrap,
)

SMALL = 900  # cells: a larger matrix becomes one small picture inside the SVG


# Heat maps ----------------------------------------------------------------------------------------


def image_panel(
    figure: Figure,
    axes: Axes,
    array: np.ndarray,
    cmap: Any,
    vmin: float | None,
    vmax: float | None,
    bar: bool,
) -> None:
    "A large matrix as one small picture inside the SVG."
    image = axes.imshow(
        array.astype(float), cmap=cmap, vmin=vmin, vmax=vmax, aspect="auto", interpolation="none"
    )
    if bar:
        figure.colorbar(image, ax=axes, shrink=0.8, aspect=14, pad=0.02)


def number_size(array: np.ndarray, fmt: str, cell: float) -> float:
    """Pixels for letters with which every number of the matrix fits a cell that is `cell` wide; at
    least 8.5."""
    longest = max(len(format(float(value), fmt)) for value in array.ravel())
    return max(8.5, min(10.5, 10.5 * cell / (6 * longest)))


def square_panel(
    axes: Axes,
    array: np.ndarray,
    rows: Sequence | None,
    cols: Sequence | None,
    size: float = 10.5,
    **options: Any,
) -> None:
    """A small matrix through seaborn, with a line between cells; size: of the numbers in them;
    `options` are seaborn.heatmap's."""
    import seaborn

    thin, pale = (
        (0.9, GREY) if options.get("cmap") is MASK else (0.4, "#99999966")
    )  # an open cell needs a line on a light page
    seaborn.heatmap(
        array.astype(float),
        ax=axes,
        linewidths=thin,
        linecolor=pale,
        annot_kws={"size": size},
        xticklabels=cols if cols is not None else "auto",
        yticklabels=rows if rows is not None else "auto",
        cbar_kws={"shrink": 0.8, "aspect": 14, "pad": 0.02},
        **options,
    )
    paints = axes.collections[0].get_facecolors()  # type: ignore[attr-defined]
    for text in axes.texts:  # seaborn's own choice is too pale on tan
        j, i = map(int, text.get_position())
        text.set_color(ink_on(paints[i * array.shape[1] + j]))
        text.set_text(re.sub("^-", "−", text.get_text()))


def label_heat(
    axes: Axes,
    title: str | None,
    xlabel: str | None,
    ylabel: str | None,
    cols: Sequence | None,
    width: int = 330,
) -> None:
    "Title, axis names, and words slanted where they would collide in `width` pixels."
    axes.set_title(title or "")
    axes.set_xlabel(xlabel or "")
    axes.set_ylabel(ylabel or "")
    axes.tick_params(length=0)
    axes.tick_params(axis="y", rotation=0)
    letters = sum(len(str(word)) for word in cols) if cols is not None else 0
    axes.tick_params(axis="x", rotation=0)
    if (
        letters > (width - 60) / 8
    ):  # steeper where columns are narrow; each word ends below its own column
        count = len(cols or "-")
        for label in axes.get_xticklabels():
            if count > 8 and (width - 90) / count < 15:  # slanted ones would run into each other
                label.set(rotation=90)
            else:
                label.set(
                    rotation=45 if (width - 110) / count > 18 else 60,
                    ha="right",
                    rotation_mode="anchor",
                )


def heat_height(t: int, s: int, width: int) -> int:
    "Pixels for (T, S) cells: squares, but of a small matrix no slab."
    cell = (width - 70) / s
    if t * s <= SMALL:
        cell = min(64, cell)
    return int(min(max(cell * t, 60), 480)) + 62


def heat_width(matrix: Any) -> int:
    """Pixels for a heat map that stands alone: more for more columns, at least two thirds of the
    text's column."""
    return int(min(max(90 + 56 * as_array(matrix).shape[1], 470), COLUMN))


def heat_panel(
    matrix: Any,
    rows: Sequence | None = None,
    cols: Sequence | None = None,
    title: str | None = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
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
    both sides of zero. bar: the scale of colours beside it. turned: a wide map changes rows and
    columns on a phone, where its numbers would collide."""
    array = as_array(matrix)
    if cmap == "mask":
        array, cmap, vmin, vmax, bar = array.astype(int), MASK, 0, 1, False
    if cmap == "signed":
        most = float(np.abs(array.astype(float)).max()) or 1.0
        cmap, vmin, vmax = SIGNED, -most if vmin is None else vmin, most if vmax is None else vmax
    whole = width

    def draw(width: int) -> str:
        turn = turned and width < whole
        shown, down, across = (array.T, cols, rows) if turn else (array, rows, cols)
        figure, axes = panel(width, heat_height(shown.shape[0], shown.shape[1], width))
        with matplotlib.rc_context(STYLE):
            if shown.size <= SMALL:
                size = (
                    number_size(shown, fmt, (width - 70 - 48 * bar) / shown.shape[1])
                    if annotate
                    else 10.5
                )
                square_panel(
                    axes,
                    shown,
                    down,
                    across,
                    size,
                    annot=annotate,
                    fmt=fmt,
                    cmap=cmap,
                    vmin=vmin,
                    vmax=vmax,
                    cbar=bar,
                )
            else:
                image_panel(figure, axes, shown, cmap, vmin, vmax, bar)
            label_heat(
                axes,
                title,
                *((ylabel, xlabel) if turn else (xlabel, ylabel)),
                across,
                width - 48 * bar,
            )
        return to_svg(figure, width)

    return responsive(draw, width)


def heatmap(matrix: Any, alt: str, caption: str | None = None, **options: Any) -> Picture:
    "A (T, S) matrix; options as in `heat_panel`."
    return Picture(heat_panel(matrix, **{"width": heat_width(matrix), **options}), alt, caption)


def heatmaps(
    panels: Sequence[Mapping[str, Any]],
    alt: str,
    caption: str | None = None,
    across: int = 0,
    **options: Any,
) -> Picture:
    """Several heat maps, each a dictionary of `heat_panel`'s options; what they share is said once,
    as `options`. across: at most so many in a row."""
    last, shared = len(panels) - 1, {"width": panel_width(across or len(panels)), **options}
    return Picture(
        wrap(
            [heat_panel(**{"bar": i == last, **shared, **one}) for i, one in enumerate(panels)],
            across,
        ),
        alt,
        caption,
    )


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


def log_axes(axes: Axes, logx: bool, logy: bool) -> None:
    "Logarithmic where asked, numbers in full: raised ones get too small."
    for wanted, scale, axis in (
        (logx, axes.set_xscale, axes.xaxis),
        (logy, axes.set_yscale, axes.yaxis),
    ):
        if wanted:
            scale("log")
            axis.set_major_formatter(lambda value, _: tick_label(value))
            axis.set_minor_formatter(partial(minor_label, axis))


def tick_label(value: float) -> str:
    "A tick of a logarithmic axis in full, 0.01, or where that has many zeros as a power, 10⁻⁵."
    number, _, exponent = f"{value:e}".partition("e")
    if 0.9e-3 < value < 0.9e6 or float(number) != 1:
        return f"{value:g}"
    return "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def minor_label(axis: Any, value: float, _: int | None = None) -> str:
    "Between powers of ten only 2 and 5 are named, and only where there are fewer than two powers."
    low, high = axis.get_view_interval()
    return tick_label(value) if high < 100 * low and f"{value:e}"[0] in "25" else ""


def mark_points(axes: Axes) -> None:
    """On a logarithmic axis of few points, half as large again from one to the next, the ticks are
    these points."""
    at = sorted({float(x) for line in axes.lines for x in np.asarray(line.get_xdata(), float)})
    if (
        axes.get_xscale() == "log"
        and 1 < len(at) <= 7
        and all(b >= 1.5 * a > 0 for a, b in zip(at, at[1:]))
    ):
        axes.set_xticks(at)
        axes.set_xticks([], minor=True)


def direct(ends: Sequence[End], width: int = 330) -> bool:
    "Is there room in `width` pixels for the names at the ends of the lines?"
    # a panel of three columns has no width to spare beside its curves
    most, long = (12, 30) if width > 500 else (5, 14) if width > 250 else (5, 7)
    return len(ends) <= most and max(len(end.label) for end in ends) <= long


def dress_curves(
    axes: Axes,
    xlabel: str | None,
    ylabel: str | None,
    title: str | None,
    hline: tuple[float, str] | None,
    named: bool = True,
    first: bool = False,
) -> None:
    """Axis names, a faint grid, and a dotted reference; if it is `named` here, at its last or its
    first end."""
    axes.set_xlabel(xlabel or "")
    axes.set_ylabel(ylabel or "")
    axes.set_title(title or "", loc="left")
    axes.grid(alpha=0.25, linewidth=0.5, color=GREY)
    mark_points(axes)
    if hline is not None:
        axes.axhline(hline[0], color=INK, linewidth=0.9, linestyle=":")
    if hline is not None and named:
        axes.annotate(
            hline[1],
            (0.02 if first else 0.98, hline[0]),
            xytext=(0, 3),
            ha="left" if first else "right",
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            fontsize=10.5,
        )


def free_at_first(axes: Axes, entries: Iterable[Any], hline: tuple[float, str] | None) -> bool:
    "Whether the curves begin further from the reference than they end, as losses above a floor do."
    if hline is None:
        return False
    scale = np.log if axes.get_yscale() == "log" else np.asarray
    curves = [scale(ys) - scale(hline[0]) for _, ys, *_ in map(series, entries) if len(ys)]
    sides = [[abs(ys[at]) for ys in curves] for at in (0, -1)]
    return min(sides[0], default=0.0) > min(sides[1], default=0.0)


def end_heights(axes: Axes, ends: Sequence[End]) -> list[tuple[float, str, str]]:
    "(height, label, colour): where lines end, in shares of the panel."
    axes.get_xlim(), axes.get_ylim()  # settles the scales
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = [to_axes.transform((end.x, end.y))[1] for end in ends]
    return [
        (float(np.nan_to_num(y, nan=1.0)), end.label, end.colour) for y, end in zip(heights, ends)
    ]


DASHES = {"--": (0, (1.4, 0.7)), ":": (0, (0.6, 0.6))}  # of a short mark, in its widths


def name_ends(axes: Axes, ends: Sequence[End], styles: Mapping[str, str] | None = None) -> None:
    """Names at the ends of their lines, the lower ones first, pushed apart where they would
    collide; a mark is dashed as its line is."""
    low = -1.0
    for y, label, colour in sorted(end_heights(axes, ends)):
        low = max(min(y, 1.05), low + 0.085)
        dashes = DASHES.get((styles or {}).get(label, ""))
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
            linestyle=dashes or "-",
        )


def draw_curve(axes: Axes, entry: Any, colour: str, style: str) -> tuple[float, float]:
    "One line with its band, if it has one; returns where it ends."
    xs, ys, low, high = series(entry)
    axes.plot(xs, ys, style, color=colour)
    if low is not None and high is not None:
        axes.fill_between(xs, low, high, color=colour, alpha=0.35, linewidth=0)
    return float(xs[-1]), float(ys[-1])


KEY_LINES = {"--": "dashed", ":": "dotted"}


def keyed(svg: str, ends: Sequence[End], styles: Mapping[str, str] | None = None) -> str:
    "The SVG with a key below it, for long names; a line that is dashed or dotted is so in the key."
    if len(ends) == 1:
        return svg
    marks = "".join(
        '<span style="white-space:nowrap;margin-right:14px">'
        '<span style="display:inline-block;width:18px;vertical-align:middle;margin-right:5px;'
        f'border-top:3px {KEY_LINES.get((styles or {}).get(end.label, ""), "solid")} '
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
    if height is None:
        height = 330 if width > 500 else 250
    ends: list[End] = []

    def draw(width: int) -> str:
        figure, axes = panel(width, height if width > 500 else min(height, 260))
        log_axes(axes, logx, logy)
        if ylim is not None:
            axes.set_ylim(*ylim)
        ends.clear()
        with matplotlib.rc_context(STYLE):
            for (label, entry), colour in zip(
                series_by_label.items(), colours_of(series_by_label, colors)
            ):
                ends.append(
                    End(
                        *draw_curve(axes, entry, colour, (styles or {}).get(label, "-")),
                        label,
                        colour,
                    )
                )
            if not logx and all(
                (series(entry)[0] % 1 == 0).all() for entry in series_by_label.values()
            ):
                axes.xaxis.set_major_locator(
                    MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True)
                )  # no half a step
            named = (
                [*ends, End(ends[0].x, hline[0], hline[1], GREY)] if hline and hline[1] else ends
            )
            beside = direct(named, width) and len(named) > 1
            dress_curves(
                axes,
                xlabel,
                ylabel,
                title,
                hline,
                not beside,
                free_at_first(axes, series_by_label.values(), hline),
            )
            if beside:
                name_ends(
                    axes,
                    named if len(ends) > 1 else named[1:],
                    {**(styles or {}), **({hline[1]: ":"} if hline else {})},
                )
        svg = to_svg(figure, width)
        return svg if beside else keyed(svg, ends, styles)

    return responsive(draw, width)


def curves(
    series_by_label: Mapping[str, Any], alt: str, caption: str | None = None, **options: Any
) -> Picture:
    "Curves in one panel; options as in `curve_panel`."
    return Picture(curve_panel(series_by_label, **options), alt, caption)


def curve_panels(
    panels: Sequence[Mapping[str, Any]], alt: str, caption: str | None = None, **options: Any
) -> Picture:
    "Panels of curves, each a dictionary: `series`, its curves, and options of `curve_panel`."
    own = [{key: value for key, value in one.items() if key != "series"} for one in panels]
    shared = {"width": panel_width(len(panels)), **options}
    return Picture(
        wrap([curve_panel(one["series"], **{**shared, **more}) for one, more in zip(panels, own)]),
        alt,
        caption,
    )


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


# Bars and dots ------------------------------------------------------------------------------------


def draw_bar(axes: Axes, i: int, entry: Any, colour: str, fmt: str) -> None:
    "Bar `i`, its whisker if it has one, and its number at the end, clear of the whisker."
    value, *band = entry if isinstance(entry, tuple) else (entry,)
    axes.barh(i, float(value), height=0.62, color=colour)
    if band:
        axes.plot(
            band,
            [i, i],
            color=GREY if colour == INK else INK,
            linewidth=1.6,
            marker="|",
            markersize=7,
        )  # half of it lies on the bar
    end = max(float(value), *map(float, band), 0)
    axes.annotate(
        fmt.format(float(value)),
        (end, i),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=10.5,
    )


def named_rows(
    names: Iterable[str],
    draw: Callable[[Axes], None],
    alt: str,
    caption: str | None,
    xlabel: str | None,
    title: str | None,
    logx: bool,
    width: int,
) -> Picture:
    "A panel with one row per name, the first on top; `draw` fills the rows."
    names = list(names)

    def one(width: int) -> str:
        figure, axes = panel(width, 30 * len(names) + 64)
        with matplotlib.rc_context(STYLE):
            log_axes(axes, logx, False)
            draw(axes)
            axes.set_yticks(range(len(names)), names)
            axes.invert_yaxis()
            axes.margins(x=0.16)
            axes.tick_params(axis="y", length=0)
            axes.set_xlabel(xlabel or "")
            axes.set_ylabel("")
            axes.set_title(title or "", loc="left")
        return to_svg(figure, width)

    return Picture(responsive(one, width), alt, caption)


def bars(
    values: Mapping[str, Any],
    alt: str,
    caption: str | None = None,
    xlabel: str | None = None,
    title: str | None = None,
    fmt: str = "{:.2f}",
    colors: Mapping[str, str] | None = None,
    logx: bool = False,
    width: int = COLUMN,
) -> Picture:
    """Horizontal bars with their numbers; a value is a number or (value, low, high), which draws a
    whisker."""

    def draw(axes: Axes) -> None:
        for i, (label, entry) in enumerate(values.items()):
            draw_bar(axes, i, entry, colour_of(label, 0, colors), fmt)

    return named_rows(values, draw, alt, caption, xlabel, title, logx, width)


def dots(
    values: Mapping[str, Sequence[float]],
    alt: str,
    caption: str | None = None,
    xlabel: str | None = None,
    title: str | None = None,
    paired: bool = True,
    colors: Mapping[str, str] | None = None,
    logx: bool = False,
    width: int = COLUMN,
) -> Picture:
    """Every run as a dot, one row per setting, through seaborn; a bar marks each row's mean.

    paired: run k of each row had the same seed; a line joins them, so that the eye compares within
    the pair. Raises ValueError when the rows then differ in length."""
    import seaborn

    lengths = {len(runs) for runs in values.values()}
    if paired and len(lengths) > 1:
        raise ValueError(
            f"rows of {sorted(lengths)} runs can't be paired: one run per seed in each, or"
            " paired=False"
        )

    def draw(axes: Axes) -> None:
        rows = [as_array(runs, float) for runs in values.values()]
        if paired:
            axes.plot(
                np.stack(rows), range(len(rows)), color=GREY, linewidth=0.7, alpha=0.7, zorder=1
            )
        paints = colours_of(values, colors)
        at: np.ndarray = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        seaborn.stripplot(
            x=np.concatenate(rows),
            y=at,
            hue=at,
            palette=paints,
            orient="h",
            native_scale=True,
            jitter=False,
            size=6,
            legend=False,
            ax=axes,
        )
        for i, row in enumerate(rows):
            axes.plot([row.mean()] * 2, [i - 0.28, i + 0.28], color=INK, linewidth=1.6)

    return named_rows(values, draw, alt, caption, xlabel, title, logx, width)
