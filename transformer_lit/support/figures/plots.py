"""Heat maps, curves, bars and dots, each one call that gives a `Picture`."""
import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import CYCLE, GREY, INK, MASK, QUERY, STYLE, Picture, as_array, ink_on, panel, to_svg, wrap

SMALL = 900  # cells: a larger matrix becomes one small picture inside the SVG


# Heat maps ---------------------------------------------------------------------------------------------------------

def image_panel(figure: Figure, axes: Axes, array: np.ndarray, cmap: Any, vmin: float | None, vmax: float | None, bar: bool) -> None:
    "A large matrix as one small picture inside the SVG."
    image = axes.imshow(array.astype(float), cmap=cmap, vmin=vmin, vmax=vmax, aspect="auto", interpolation="none")
    if bar:
        figure.colorbar(image, ax=axes, shrink=0.8, aspect=14, pad=0.02)


def square_panel(axes: Axes, array: np.ndarray, rows: Sequence | None, cols: Sequence | None, **options: Any) -> None:
    "A small matrix through seaborn, with a line between cells; `options` are seaborn.heatmap's."
    import seaborn

    seaborn.heatmap(array.astype(float), ax=axes, linewidths=0.4, linecolor="#99999966", annot_kws={"size": 10.5},
                    xticklabels=cols if cols is not None else "auto", yticklabels=rows if rows is not None else "auto",
                    cbar_kws={"shrink": 0.8, "aspect": 14, "pad": 0.02}, **options)
    paints = axes.collections[0].get_facecolors()  # type: ignore[attr-defined]
    for text in axes.texts:  # seaborn's own choice is too pale on tan
        j, i = map(int, text.get_position())
        text.set_color(ink_on(paints[i * array.shape[1] + j]))


def label_heat(axes: Axes, title: str | None, xlabel: str | None, ylabel: str | None, cols: Sequence | None) -> None:
    "Title, axis names, and words slanted where they would collide."
    axes.set_title(title or "")
    axes.set_xlabel(xlabel or "")
    axes.set_ylabel(ylabel or "")
    axes.tick_params(length=0)
    axes.tick_params(axis="y", rotation=0)
    letters = sum(len(str(word)) for word in cols) if cols is not None else 0
    axes.tick_params(axis="x", rotation=45 if letters > 34 else 0)


def heat_height(t: int, s: int, width: int) -> int:
    "Pixels for (T, S) cells: squares, but of a small matrix no slab."
    cell = (width - 70) / s
    if t * s <= SMALL:
        cell = min(44, cell)
    return int(min(max(cell * t, 60), 420)) + 62


def heat_panel(matrix: Any, rows: Sequence | None = None, cols: Sequence | None = None, title: str | None = None,
               xlabel: str | None = None, ylabel: str | None = None, annotate: bool = False, vmin: float | None = None,
               vmax: float | None = None, cmap: Any = "cividis", fmt: str = ".2f", width: int = 330, bar: bool = True) -> str:
    """One heat map of a (T, S) matrix as SVG.

    rows, cols: words for its lines and columns. annotate: the numbers in their cells, formatted by `fmt`. cmap: "mask"
    for booleans, True light. bar: the scale of colours beside it."""
    array = as_array(matrix)
    if cmap == "mask":
        array, cmap, vmin, vmax, bar = array.astype(int), MASK, 0, 1, False
    t, s = array.shape
    figure, axes = panel(width, heat_height(t, s, width))
    with matplotlib.rc_context(STYLE):
        if array.size <= SMALL:
            square_panel(axes, array, rows, cols, annot=annotate, fmt=fmt, cmap=cmap, vmin=vmin, vmax=vmax, cbar=bar)
        else:
            image_panel(figure, axes, array, cmap, vmin, vmax, bar)
        label_heat(axes, title, xlabel, ylabel, cols)
    return to_svg(figure, width)


def heatmap(matrix: Any, alt: str, **options: Any) -> Picture:
    "A (T, S) matrix; options as in `heat_panel`."
    return Picture(heat_panel(matrix, **{"width": 390, **options}), alt)


def heatmaps(panels: Sequence[Mapping[str, Any]], alt: str, **options: Any) -> Picture:
    "Several heat maps, each a dictionary of `heat_panel`'s options; what they share is said once, as `options`."
    last = len(panels) - 1
    return Picture(wrap([heat_panel(**{"bar": i == last, **options, **one}) for i, one in enumerate(panels)]), alt)


# Curves ------------------------------------------------------------------------------------------------------------

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
    for wanted, scale, axis in ((logx, axes.set_xscale, axes.xaxis), (logy, axes.set_yscale, axes.yaxis)):
        if wanted:
            scale("log")
            axis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.set_minor_formatter(lambda value, _: "")


def direct(ends: Sequence[End]) -> bool:
    "Is there room for the names at the ends of the lines?"
    return len(ends) <= 5 and max(len(end.label) for end in ends) <= 14


def dress_curves(axes: Axes, xlabel: str | None, ylabel: str | None, title: str | None, hline: tuple[float, str] | None) -> None:
    "Axis names, a faint grid, and a dotted reference with its name."
    axes.set_xlabel(xlabel or "")
    axes.set_ylabel(ylabel or "")
    axes.set_title(title or "", loc="left")
    axes.grid(alpha=0.25, linewidth=0.5, color=GREY)
    if hline is not None:
        axes.axhline(hline[0], color=INK, linewidth=0.9, linestyle=":")
        axes.annotate(hline[1], (0.98, hline[0]), xytext=(0, 3), ha="right", xycoords=("axes fraction", "data"),
                      textcoords="offset points", fontsize=10.5)


def end_heights(axes: Axes, ends: Sequence[End]) -> list[tuple[float, str, str]]:
    "(height, label, colour): where lines end, in shares of the panel."
    axes.get_xlim(), axes.get_ylim()  # settles the scales
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = [to_axes.transform((end.x, end.y))[1] for end in ends]
    return [(float(np.nan_to_num(y, nan=1.0)), end.label, end.colour) for y, end in zip(heights, ends)]


def name_ends(axes: Axes, ends: Sequence[End]) -> None:
    "Names at the ends of their lines, the lower ones first, pushed apart where they would collide."
    low = -1.0
    for y, label, colour in sorted(end_heights(axes, ends)):
        low = max(min(y, 1.05), low + 0.085)
        axes.annotate(label, (1.04, low), xycoords="axes fraction", va="center", fontsize=10.5, annotation_clip=False)
        axes.plot([1.0, 1.02], [low, low], color=colour, linewidth=3, transform=axes.transAxes, clip_on=False,
                  solid_capstyle="butt")


def draw_curve(axes: Axes, entry: Any, colour: str, style: str) -> tuple[float, float]:
    "One line with its band, if it has one; returns where it ends."
    xs, ys, low, high = series(entry)
    axes.plot(xs, ys, style, color=colour)
    if low is not None and high is not None:
        axes.fill_between(xs, low, high, color=colour, alpha=0.35, linewidth=0)
    return float(xs[-1]), float(ys[-1])


def keyed(svg: str, ends: Sequence[End]) -> str:
    "The SVG with a key below it, for long names."
    if len(ends) == 1:
        return svg
    marks = "".join('<span style="white-space:nowrap;margin-right:14px">'
                    f'<span style="display:inline-block;width:16px;height:3px;'
                    f'background:{end.colour};vertical-align:middle;margin-right:5px">'
                    f"</span>{html.escape(end.label)}</span>" for end in ends)
    key = f'<div style="font-size:12px;line-height:1.6">{marks}</div>'
    return svg[:-len("</div>")] + key + "</div>"


def curve_panel(series_by_label: Mapping[str, Any], xlabel: str | None = None, ylabel: str | None = None, title: str | None = None,
                logx: bool = False, logy: bool = False, colors: Mapping[str, str] | None = None,
                styles: Mapping[str, str] | None = None, hline: tuple[float, str] | None = None, width: int = 330,
                height: int = 240) -> str:
    """Curves as SVG; each is ys, (xs, ys), or (xs, ys, low, high) with a band from low to high.

    Their names stand at their ends, or in a key below where they are long or many. colors, styles: of single curves, by
    label. hline: a dotted reference (height, name)."""
    figure, axes = panel(width, height)
    log_axes(axes, logx, logy)
    ends = []
    with matplotlib.rc_context(STYLE):
        for i, (label, entry) in enumerate(series_by_label.items()):
            colour = (colors or {}).get(label, CYCLE[i % len(CYCLE)])
            ends.append(End(*draw_curve(axes, entry, colour, (styles or {}).get(label, "-")), label, colour))
        dress_curves(axes, xlabel, ylabel, title, hline)
        if direct(ends) and len(ends) > 1:
            name_ends(axes, ends)
    svg = to_svg(figure, width)
    return svg if direct(ends) else keyed(svg, ends)


def curves(series_by_label: Mapping[str, Any], alt: str, **options: Any) -> Picture:
    "Curves in one panel; options as in `curve_panel`."
    return Picture(curve_panel(series_by_label, **{"width": 400, "height": 260, **options}), alt)


def curve_panels(panels: Sequence[Mapping[str, Any]], alt: str, **options: Any) -> Picture:
    "Panels of curves, each a dictionary: `series`, its curves, and options of `curve_panel`."
    own = [{key: value for key, value in one.items() if key != "series"} for one in panels]
    return Picture(wrap([curve_panel(one["series"], **{**options, **more}) for one, more in zip(panels, own)]), alt)


# Bars and dots -----------------------------------------------------------------------------------------------------

def draw_bar(axes: Axes, i: int, entry: Any, colour: str, fmt: str) -> None:
    "Bar `i`, its whisker if it has one, and its number at the end, clear of the whisker."
    value, *band = entry if isinstance(entry, tuple) else (entry,)
    axes.barh(i, float(value), height=0.62, color=colour)
    if band:
        axes.plot(band, [i, i], color=INK, linewidth=1.2)
    end = max(float(value), *map(float, band), 0)
    axes.annotate(fmt.format(float(value)), (end, i), xytext=(4, 0), textcoords="offset points", va="center", fontsize=10.5)


def named_rows(names: Iterable[str], draw: Callable[[Axes], None], alt: str, xlabel: str | None, title: str | None, logx: bool,
               width: int) -> Picture:
    "A panel with one row per name, the first on top; `draw` fills the rows."
    names = list(names)
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
    return Picture(to_svg(figure, width), alt)


def bars(values: Mapping[str, Any], alt: str, xlabel: str | None = None, title: str | None = None, fmt: str = "{:.2f}",
         colors: Mapping[str, str] | None = None, logx: bool = False, width: int = 400) -> Picture:
    "Horizontal bars with their numbers; a value is a number or (value, low, high), which draws a whisker."
    def draw(axes: Axes) -> None:
        for i, (label, entry) in enumerate(values.items()):
            draw_bar(axes, i, entry, (colors or {}).get(label, QUERY), fmt)

    return named_rows(values, draw, alt, xlabel, title, logx, width)


def dots(values: Mapping[str, Sequence[float]], alt: str, xlabel: str | None = None, title: str | None = None, paired: bool = True,
         colors: Mapping[str, str] | None = None, logx: bool = False, width: int = 400) -> Picture:
    """Every run as a dot, one row per setting, through seaborn; a bar marks each row's mean.

    paired: run k of each row had the same seed; a line joins them, so that the eye compares within the pair. Raises
    ValueError when the rows then differ in length."""
    import seaborn

    lengths = {len(runs) for runs in values.values()}
    if paired and len(lengths) > 1:
        raise ValueError(f"rows of {sorted(lengths)} runs can't be paired: one run per seed in each, or paired=False")

    def draw(axes: Axes) -> None:
        rows = [as_array(runs, float) for runs in values.values()]
        if paired:
            axes.plot(np.stack(rows), range(len(rows)), color=GREY, linewidth=0.7, alpha=0.7, zorder=1)
        paints = [(colors or {}).get(label, CYCLE[i % len(CYCLE)]) for i, label in enumerate(values)]
        at: np.ndarray = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        seaborn.stripplot(x=np.concatenate(rows), y=at, hue=at, palette=paints, orient="h",
                          native_scale=True, jitter=False, size=6, legend=False, ax=axes)
        for i, row in enumerate(rows):
            axes.plot([row.mean()] * 2, [i - 0.28, i + 0.28], color=INK, linewidth=1.6)

    return named_rows(values, draw, alt, xlabel, title, logx, width)
