"""What draws: every figure reads on light and dark, says what it shows, and shows what it was
given."""

import json
import re
from itertools import combinations
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb

from litbook import figures
from litbook.prose import Prose
from litbook.figures import diagram, drawing, heat_maps, plots, style, tables
from litbook.figures.style import (
    BRIDGE,
    CYCLE,
    DECODER,
    ENCODER,
    INK,
    KEY,
    MASK,
    QUERY,
    STYLE,
    VALUE,
)
from litbook.live.explore import Explorer
from transformer_lit import masks, schedule

ALT = "A sentence of some words."
BOOK = Path(__file__).resolve().parents[1] / "book"


def test_without_a_description_the_numbers_are_told():
    curve = figures.curves({"a": [1, 2, 4]}, xlabel="step", ylabel="loss")
    assert curve.alt == "Loss at step 0 and 2: a 1 and 4."
    bar = figures.bars({"one": 1.0, "two": (2.0, 1.8, 2.3)}, fmt="{:.1f}", xlabel="share")
    assert bar.alt == "Bars, share: one 1.0; two 2.0."


@pytest.fixture
def axes():
    return style.panel(200, 100)[1]


# The style ----------------------------------------------------------------------------------------


def test_colors_are_different():
    assert len(set(CYCLE)) == len(CYCLE) == 7 and MASK(0) != MASK(1)
    meanings = {QUERY, KEY, VALUE, ENCODER, DECODER, BRIDGE}
    assert not meanings & {
        *CYCLE,
        *style.NAMED.values(),
        style.FAULT,
    }, "a part of the model has its color to itself"
    for paint in {*CYCLE, style.FAULT} - {INK}:
        assert min(style.contrast(paint, page) for page in ("#ffffff", "#14181d")) >= 3, paint


def test_open_and_closed_stand_out_on_both_pages():
    closed, shown = MASK(0), MASK(1)
    assert style.contrast(closed, shown) >= 3 and style.contrast(shown, "#14181d") >= 3
    assert min(style.contrast(closed, page) for page in ("#ffffff", "#14181d")) >= 3
    assert (
        style.contrast(style.GRAY, "#ffffff") >= 3
    ), "the line round an open cell, which is pale on a light page"


def test_a_name_keeps_its_color():
    (alone,), (first, beside) = style.colors_of(["RNN"]), style.colors_of(["Transformer", "RNN"])
    assert alone == beside != first
    assert style.colors_of(["new", "newer"]) == CYCLE[:2]
    assert style.colors_of(["RNN"], {"RNN": KEY}) == [KEY]
    assert (QUERY, KEY, VALUE) == (
        "#0072B2",
        "#E69F00",
        "#009E73",
    ), "DESIGN's colors: query blue, key orange, value green"


def test_settings_are_matplotlibs():
    assert set(STYLE) <= set(matplotlib.rcParams), "a setting is misspelt"
    inked = {name for name, value in STYLE.items() if value == INK}
    assert inked == {
        "text.color",
        "axes.labelcolor",
        "axes.edgecolor",
        "xtick.color",
        "ytick.color",
    }, "what is black must take the page's color"


def test_a_picture_says_what_it_shows():
    shown = figures.Picture("<svg></svg>", 'Four words & a "sign" here.')
    assert (
        'aria-label="Four words &amp; a &quot;sign&quot; here."' in shown._repr_html_()
        and 'role="img"' in shown.html
    )
    assert repr(shown) == 'Four words & a "sign" here.' and shown.html.startswith(
        '<figure class="tl-figure"'
    )
    assert (
        'aria-hidden="true"' in shown.html
        and ">Four words &amp; a &quot;sign&quot; here.</figcaption>" in shown.html
    ), "said once, seen once"
    found = figures.Picture("", "What one sees here.", "What one < learns.").html
    assert (
        "aria-hidden" not in found
        and ">What one &lt; learns.</figcaption>" in found
        and 'aria-label="What one sees here."' in found
    )
    assert (
        figures.Picture("", None).html == '<div class="tl-figure"></div>'
        and repr(figures.Picture("", None)) == "a table"
    )


@pytest.mark.parametrize("alt", ["", "a plot", "two words here"])
def test_a_picture_without_a_sentence_is_refused(alt):
    with pytest.raises(ValueError, match="say in a sentence"):
        figures.Picture("<svg></svg>", alt)


def test_wrap_holds_its_panels_in_order():
    assert style.wrap(["a", "b"]).endswith(
        '">ab</div>'
    ) and "minmax(min(100%,292px),1fr)" in style.wrap(["a", "b"])
    assert [style.columns_for(n) for n in range(1, 9)] == [
        1,
        2,
        3,
        2,
        3,
        3,
        4,
        4,
    ], "three panels are three columns"
    for n in range(1, 9):
        across = style.columns_for(n)
        assert (
            style.COLUMN - across
            < across * style.panel_width(n) + 16 * (across - 1)
            <= style.COLUMN
        ), "panels fill the column"


def test_a_panel_is_measured_in_pixels():
    figure, axes = style.panel(200, 100)
    assert np.allclose(figure.get_size_inches() * 72, (200, 100)) and figure.axes == [axes]


def test_cleaned_keeps_the_drawing_alone():
    raw = (
        f'<?xml?><svg id="figure_1" fill="{INK}"><metadata>\nby\n</metadata><image /><path'
        ' id="clip"/></svg>'
    )
    assert (
        style.cleaned(raw)
        == '<svg fill="currentColor"><image style="image-rendering:pixelated" /><path'
        ' id="clip"/></svg>'
    ), "ids that other figures share go, a clipping path's stays"


def test_a_number_that_is_read_keeps_its_digits():
    assert (
        style.cleaned('<svg><path d="M1.23456 0.98765"/><text x="1.23456">0.0001</text></svg>')
        == '<svg><path d="M1.23 0.98"/><text x="1.23">0.0001</text></svg>'
    )
    assert ">0.001<" in figures.curves({"a": [1e-4, 1]}, logy=True, alt=ALT).html


def test_a_power_is_raised_by_the_drawing():
    exponent = '<tspan dy="-4" style="font-size: 8.5px">{}</tspan>'
    assert (
        style.cleaned("<svg><text>10⁻⁵</text></svg>")
        == f"<svg><text>10{exponent.format('−5')}</text></svg>"
    )
    assert (
        style.cleaned("<svg><text>operations, 10¹² in all</text></svg>")
        == f"<svg><text>operations, 10{exponent.format('12')}<tspan dy=\"4\"> in"
        " all</tspan></text></svg>"
    ), "what follows is on the line again"


def test_a_wide_figure_is_drawn_for_a_phone_as_well():
    assert style.responsive(str, 300) == "300", "what fits a phone is drawn once"
    both = style.responsive(str, 704)
    assert (
        both == '<div class="tl-desk">704</div><div class="tl-phone" style="display:none">358</div>'
    )


def test_to_svg_takes_the_pages_color(axes):
    axes.plot([0, 1], [0, 1])
    axes.set_title("a name")
    made = style.to_svg(axes.figure, 200)
    assert (
        INK not in made
        and "currentColor" in made
        and "<metadata>" not in made
        and made.count("<svg") == 1
    )
    assert (
        'id="figure_1"' not in made and "max-width:240px" in made and ">a name<" in made
    ), "letters stay letters"
    assert (
        figures.curves({"a": [1, 2]}, alt=ALT).html == figures.curves({"a": [1, 2]}, alt=ALT).html
    ), "the same figure must be the same text"


def test_contrast_is_wcags():
    assert np.isclose(style.contrast("#ffffff", "#000000"), 21) and np.isclose(
        style.contrast("#777777", "#ffffff"), 4.48, atol=0.005
    )
    assert style.contrast(KEY, KEY) == 1 and style.contrast(KEY, INK) == style.contrast(INK, KEY)


def test_letters_stand_out_on_every_grey():
    greys = [str(level) for level in np.linspace(0, 1, 1001)]
    assert min(style.contrast(style.ink_on(gray), gray) for gray in greys) >= 4.5
    assert style.ink_on("#000000") == "#ffffff" and style.ink_on("#ffffff") == "#030303"


def test_signed_numbers_are_read_on_both_pages():
    assert (
        style.SIGNED(0.5)[3] == 0.0 and style.SIGNED(0.0)[3] == style.SIGNED(1.0)[3] == 1.0
    ), "zero is the page itself"
    assert style.ink_on(style.SIGNED(0.5)) == INK and style.ink_on(style.SIGNED(0.0)) == "#ffffff"
    for page, own in (("#ffffff", "#030303"), ("#14181e", "#dddddd")):
        for at in np.linspace(0, 1, 201):
            *rgb, alpha = style.SIGNED(at)
            seen = [alpha * part + (1 - alpha) * below for part, below in zip(rgb, to_rgb(page))]
            ink = style.ink_on(style.SIGNED(at))
            assert style.contrast(own if ink == INK else ink, seen) >= 4.5, f"{at} on {page}"


def test_as_array_takes_tensors_and_lists():
    assert style.as_array(torch.ones(2, requires_grad=True)).tolist() == [1, 1]
    assert style.as_array([1, 2], float).dtype == float and style.as_array([1, 2]).tolist() == [
        1,
        2,
    ]


# Heat maps ----------------------------------------------------------------------------------------


def test_heat_labels(axes):
    heat_maps.label_heat(axes, "title", "across", "", ["a" * 40])
    assert (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) == (
        "title",
        "across",
        "",
    ), "no name is an empty name"
    assert axes.get_xticklabels()[0].get_rotation() == 45, "long words would collide"
    heat_maps.label_heat(axes, "", "", "", ["word"] * 20, 330)
    assert (
        axes.get_xticklabels()[0].get_rotation() == 90
    ), "twenty of them would run into each other slanted"
    heat_maps.label_heat(axes, "", "", "down", ["a"])
    assert axes.get_xticklabels()[0].get_rotation() == 0 and axes.get_ylabel() == "down"


def test_words_slant_where_the_scale_takes_their_room():
    words = "it was too tired pad pad".split()
    assert "rotate(-60" not in heat_maps.heat_panel(np.eye(6), cols=words, width=264, bar=False)
    assert "rotate(-60" in heat_maps.heat_panel(np.eye(6), cols=words, width=224, bar=True)


def test_numbers_get_smaller_where_the_cells_do():
    assert (
        heat_maps.number_size(np.array([-4.1, 1]), ".1f", 60) == 10.5
        and 8.5 < heat_maps.number_size(np.array([-4.1, 1]), ".1f", 21) < 10
    )
    assert heat_maps.number_size(np.array([1.0]), ".2f", 1) == 8.5


def test_whole_steps_have_no_half_ticks():
    assert ">2.5<" not in plots.curve_panel({"a": ([2, 4, 8, 16], [10, 20, 30, 40])}, width=330)
    assert ">0.5<" in plots.curve_panel({"a": ([0.1, 0.9], [1, 2])}, width=330)


def test_numbers_in_cells_stand_out(axes):
    values = np.linspace(0, 1, 12).reshape(3, 4)
    heat_maps.draw_squares(
        axes,
        values,
        list("abc"),
        None,
        annot=True,
        fmt=".2f",
        cmap="cividis",
        vmin=0,
        vmax=1,
        cbar=False,
    )
    assert [text.get_text() for text in axes.texts] == [f"{v:.2f}" for v in values.ravel()]
    paints = axes.collections[0].get_facecolors()
    for text, paint in zip(axes.texts, paints):
        assert (
            style.contrast(text.get_color(), paint) >= 4.5
        ), f"{text.get_text()} can't be read on its cell"
    assert [label.get_text() for label in axes.get_yticklabels()] == list("abc")


def test_the_height_of_a_heat_map():
    assert (
        heat_maps.heat_height(4, 4, 704) == 64 * 4 + 62
    ), "a small matrix has cells of at most 64 pixels"
    assert heat_maps.heat_height(900, 2, 330) == 480 + 62, "too tall for a page"
    assert heat_maps.heat_height(1, 26, 330) == 60 + 62, "too flat to be seen"
    assert heat_maps.heat_height(31, 31, 330) == int(260 / 31 * 31) + 62


def test_small_heat_maps_are_squares_and_large_ones_one_picture():
    one = heat_maps.heat_panel(np.eye(2), annotate=True, title="one", bar=False)
    assert (
        one.count("<svg") == 1
        and one.count(">1.00<") == 2
        and ">one<" in one
        and "<image" not in one
    )
    assert "<image" not in heat_maps.heat_panel(np.eye(30), bar=False)
    assert "<image" in heat_maps.heat_panel(np.eye(31), bar=False)
    large = figures.heatmap(np.zeros((31, 31)), alt=ALT)
    assert "<image" in large.html and "max-width:845px" in large.html and repr(large) == ALT


def test_a_mask_is_drawn_in_its_two_inks():
    html = figures.heatmap(torch.tensor([[True, False]]), cmap="mask", alt=ALT).html
    assert (
        html.count("#666666") == html.count("#e8e8e8") > 0 and "<image" not in html
    ), "closed dark, open light, no scale"
    assert style.GRAY in html, "a line round each cell"


def test_heat_maps_side_by_side_have_one_scale():
    grid = np.arange(6).reshape(2, 3) / 5
    left = dict(matrix=grid, title="left", rows=["a", "b"])
    both = figures.heatmaps([left, {**left, "title": "right"}], vmin=0, vmax=1, alt=ALT).html
    assert both.count("<svg") == 2 and both.index(">left<") < both.index(">right<")
    first, second = both.split("<svg")[1:]
    assert (
        "<image" not in first and "<image" in second
    ), "the scale of colors stands beside the last panel only"


# Curves -------------------------------------------------------------------------------------------


def test_series_of_each_kind():
    for entry, arrays in (
        (([1, 2], [3, 4]), [[1, 2], [3, 4]]),
        ([3, 4], [[0, 1], [3, 4]]),
        (torch.tensor([5.0]), [[0], [5]]),
        (([1], [2], [1.5], [3]), [[1], [2], [1.5], [3]]),
    ):
        assert [part.tolist() for part in plots.points(entry)] == arrays


def test_log_axes_show_numbers_in_full(axes):
    plots.log_axes(axes, True, False)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    assert (
        axes.xaxis.get_major_formatter()(1000.0, 0) == "1000"
        and axes.xaxis.get_minor_formatter()(30.0, 0) == ""
    )
    plots.log_axes(axes, False, True)
    assert axes.get_yscale() == "log"
    assert [plots.tick_label(value) for value in (1e-12, 1e-4, 1e-3, 0.5, 1e6, 1e7)] == [
        "10⁻¹²",
        "10⁻⁴",
        "0.001",
        "0.5",
        "10⁶",
        "10⁷",
    ]


def end(label, y=0.0, color=KEY):
    return plots.End(0, y, label, color)


def test_when_names_stand_at_the_ends():
    assert plots.fit_beside([end("x" * 14)]) and plots.fit_beside([end("a")] * 5)
    assert not plots.fit_beside([end("x" * 15)]), "long names need a key"
    assert not plots.fit_beside([end("a")] * 6), "six names would collide"
    assert plots.fit_beside([end("x" * 7)], 224) and not plots.fit_beside(
        [end("x" * 8)], 224
    ), "a narrow panel keeps its width for the curves"


def test_names_get_a_key_when_the_references_name_is_long():
    shown = plots.curve_panel(
        {"one": [1, 2], "two": [2, 3]}, hline=(1.5, "a reference with a long name"), width=330
    )
    assert shown.count("white-space:nowrap") == 2 and "a reference with a long name" in shown


def test_a_references_name_stands_where_the_curves_are_far_from_it(axes):
    falls, rises = [9.0, 2.0, 0.11], [0.1, 1.0, 5.0]
    assert plots.free_at_first(axes, [falls, falls], 0.1)
    assert not plots.free_at_first(axes, [rises], 0.1)
    assert not plots.free_at_first(axes, [falls, rises], 0.1)
    plots.draw_level(axes, 0.1, "floor", left=True)
    plots.draw_level(axes, 0.5, "half", left=False)
    assert [text.get_ha() for text in axes.texts] == ["left", "right"]
    assert list(axes.lines[1].get_ydata()) == [0.5, 0.5]


def test_names_stand_where_curves_end(axes):
    axes.set_ylim(0, 4)
    plots.name_ends(axes, [end("a", 1), end("b", np.nan, QUERY)])
    assert {text.get_text(): text.xy[1] for text in axes.texts} == {
        "a": 0.25,
        "b": 1,
    }, "a curve that ends in nan is named on top"
    assert [line.get_color() for line in axes.lines] == [KEY, QUERY]


def test_names_at_the_ends_do_not_collide(axes):
    plots.name_ends(axes, [end("b", 0.1), end("a", 0.1), end("c", 0.9)])
    heights = {text.get_text(): text.xy[1] for text in axes.texts}
    assert heights["b"] - heights["a"] > 0.08, "names collide"
    assert list(heights) == ["a", "b", "c"] and len(axes.lines) == 3


def test_long_names_go_into_a_key():
    assert (
        f">{'x' * 15}<"
        in plots.curve_panel({"short": [0, 1], "x" * 15: [1, 0]}).split("var(--tl-ui")[0]
    ), "the column has room"
    long = plots.curve_panel({"short": [0, 1], "x" * 15: [1, 0]}, width=344)
    assert INK not in long
    assert long.count("var(--tl-ui") == 1 and f">{'x' * 15}<" not in long.split("var(--tl-ui")[0]
    assert "var(--tl-ui" not in plots.curve_panel({"a": [0, 1], "b": [1, 0]})
    assert plots.keyed("</div>", [end("one")]) == "</div>", "a single curve needs no name"
    key = plots.keyed("<div></div>", [end("a < b"), end("c", color=QUERY)])
    assert (
        "3px dotted" in plots.keyed("<div></div>", [end("a"), end("b")], {"b": ":"})
        and "3px solid" in key
    )
    assert "a &lt; b" in key and key.index(KEY) < key.index(QUERY) and key.endswith("</div></div>")


def test_curves_have_the_colors_and_styles_asked_for():
    html = figures.curves(
        {"one": [1, 2], "two": [2, 1]},
        colors={"two": BRIDGE},
        styles={"two": "--"},
        hline=(1.5, "middle"),
        xlabel="step",
        alt=ALT,
    ).html
    for wanted in (
        BRIDGE.lower(),
        "currentColor",
        ">one<",
        ">two<",
        ">middle<",
        ">step<",
        "stroke-dasharray",
        "max-width:845px",
    ):
        assert wanted in html, wanted
    alone = figures.curves({"one": [1, 2]}, alt=ALT)
    assert ">one<" not in alone.html and repr(alone) == ALT


def test_runs_become_a_curve_with_its_band():
    runs = [torch.tensor([1.0, 4.0]), torch.tensor([3.0, 0.0])]
    parts = plots.points(figures.spread(runs))
    assert [part.tolist() for part in parts] == [[0, 1], [2, 2], [1, 0], [3, 4]]
    assert figures.spread([[1, 2, 3]], xs=[2, 4, 8])[0] == [2, 4, 8]


def test_heights_of_curves_in_words():
    lines = {
        "one": ([0, 10, 20], [1, 2, 3]),
        "two": figures.spread([[0.0, 0.5, 1.0]], xs=[0, 10, 20]),
    }
    assert figures.heights(lines, 10) == "one 2.00; two 0.50"
    assert (
        figures.heights(lines, 0, 9, 20, fmt="{:.0e}")
        == "one 1e+00, 2e+00 and 3e+00; two 0e+00, 5e-01 and 1e+00"
    )


def test_panels_of_curves():
    xs = np.linspace(1, 4, 30)
    left = dict(series={"root": (xs, xs**0.5), "line": (xs, xs)}, title="two", ylabel="own")
    right = dict(
        series={"with a band": (xs, xs, xs - 0.3, xs + 0.3)}, hline=(2, "two"), title="a spread"
    )
    html = figures.curve_panels([left, right], ylabel="shared", alt=ALT).html
    assert (
        html.count("<svg") == 2
        and ">root<" in html
        and html.index(">two<") < html.index(">a spread<")
    )
    assert (
        html.count(">shared<") == html.count(">own<") == 1
    ), "what a panel says of itself goes before what is shared"


# Bars and dots ------------------------------------------------------------------------------------


def test_a_bars_number_stands_clear_of_its_whisker(axes, monkeypatch):
    monkeypatch.setattr(plots, "named_rows", lambda names, draw, *_: draw(axes))
    figures.bars({"a": (-1, -2, 3), "b": -1}, ALT, fmt="{:.1f}")
    assert [text.xy for text in axes.texts] == [(3, 0), (0, 1)]
    assert axes.texts[0].get_text() == "-1.0" and len(axes.lines) == 1, "one whisker"


def test_bars():
    html = figures.bars(
        {"one": 1.0, "two": (2.0, 1.8, 2.3)},
        fmt="{:.1f}",
        xlabel="length",
        colors={"two": KEY},
        alt=ALT,
    ).html
    assert html.index(">1.0<") < html.index(">2.0<") and ">length<" in html
    assert html.index(">one<") < html.index(">two<") and KEY.lower() in html
    one, two = (float(re.search(rf'y="?([\d.]+)[^>]*>{name}<', html)[1]) for name in ("one", "two"))
    assert one < two, "the first stands on top"


# Tables -------------------------------------------------------------------------------------------


def test_what_counts_as_a_number():
    assert tables.is_number(1) and tables.is_number(0.5)
    assert not tables.is_number(True) and not tables.is_number("1") and not tables.is_number("")


def test_cells():
    cell = tables.table_cell
    assert (
        ">0.50<" in cell(0.5, "{:.2f}")
        and ">1,200<" in cell(1200, "")
        and "a &lt; b" in cell("a < b", "")
    )
    assert "left" in cell(True, "") and "right" in cell(1, "")
    assert "nowrap" in cell("0.50 nan", "") and "nowrap" not in cell(
        "None open", ""
    ), "words may break, numbers may not"


def test_places_are_rounded_and_words_are_not():
    shown = style.cleaned(
        '<?xml?><svg viewBox="0 0 1 1"><path d="M1.23456 2"/><text x="3.14159">0.001</text></svg>'
    )
    assert "M1.23 2" in shown and 'x="3.14"' in shown and ">0.001<" in shown
    assert (
        ">0.001<" in figures.bars({"one": 0.001}, fmt="{:.3f}", alt="one bar, of a thousandth").html
    )


def test_a_wide_map_turns_on_a_phone():
    html = figures.heatmap(
        np.arange(20.0).reshape(2, 10),
        rows=["up", "down"],
        cols=list("abcdefghij"),
        turned=True,
        alt="two rows of ten numbers",
    ).html
    desk, phone = html.split('class="tl-phone"')
    where = [[part.index(f">{word}<") for word in ("a", "up")] for part in (desk, phone)]
    assert (
        where[0][0] < where[0][1] and where[1][0] > where[1][1]
    ), "the horizontal axis is drawn first"


def test_powers_of_ten_are_written_as_people_write_them():
    assert (
        figures.powers("by 3e-07, 1e+05, 0e+00 and 2.5e+00")
        == "by 3\u00a0·\u00a010<sup>−7</sup>, 10<sup>5</sup>, 0 and 2.5"
    )
    assert (
        figures.powers("`1e-9` and x1e-9, face-07, 2017") == "`1e-9` and x1e-9, face-07, 2017"
    ), "code and names stay"
    assert (
        figures.powers("-0.5 (-1 to 2), [-3, -4], 2017-01, a-1, --n and `-5`")
        == "−0.5 (−1 to 2), [−3, −4], 2017-01, a-1, --n and `-5`"
    )
    cell = figures.table([{"a": 3e-7}], fmt="{:.0e}").html
    shown = figures.Picture(
        "<svg></svg>", alt="Four words and more here.", caption="1.5e-07 < 1."
    ).html
    assert (
        "3\u00a0·\u00a010<sup>−7</sup></td>" in cell
        and ">1.5\u00a0·\u00a010<sup>−7</sup> &lt; 1.</figcaption>" in shown
    )
    assert Prose("0e+00.")._repr_markdown_() == "0."


def test_heads_rows_and_captions():
    mixed = figures.table([{"a": "x", "n": 1}, {"n": 2}]).html
    assert mixed.count('scope="col"') == 2 and mixed.count("<td") == 4
    head = mixed[: mixed.index("</thead>")]
    assert head.index("left") < head.index(">a<") < head.index("right") < head.index(">n<")
    last = mixed[mixed.rindex("<tr>") :]
    assert last.index("><") < last.index(">2<"), "a column that a row lacks is empty"
    assert "a &lt; b" in tables.table_caption("a < b", False)
    assert "nowrap" in tables.table_caption("x" * 44, False)
    assert "nowrap" not in tables.table_caption("x" * 45, False)
    assert "sticky" in tables.table_caption("a", True)


def test_a_table():
    small = figures.table({"a": {"n": 1200, "x": 0.5, "ok": True}})
    assert (
        "1,200" in small.html
        and "0.500" in small.html
        and "✓" in small.html
        and "True" not in small.html
        and small.alt is None
    )
    assert small.html.count("text-align:right") == 4, "two columns of numbers, with their heads"
    assert "tl-wide" in figures.table([{"a": 1}], wide=True).html and "tl-wide" not in small.html
    chosen = figures.table([{"a": 1, "b": 2}, {"c": 3}], columns=["c", "a"], caption="what").html
    assert (
        chosen.index(">c<") < chosen.index(">a<")
        and ">b<" not in chosen
        and chosen.count("<tr>") == 3
        and "what" in chosen
    )
    assert (
        figures.table([{"a": 1}, {"a": "one"}]).html.count("text-align:right") == 1
    ), "a column with a word has its head left"


# Drawings -----------------------------------------------------------------------------------------


def test_words_on_a_sheet():
    word = figures.Drawing(100, 50).text(1, 2, "a < b", mono=True).parts[0]
    assert (
        'x="1" y="2"' in word
        and ">a &lt; b<" in word
        and "monospace" in word
        and 'fill="currentColor"' in word
    )
    assert 'viewBox="0 0 100 50"' in figures.Drawing(100, 50).show(ALT).html


def test_words_on_a_box_can_be_read():
    sheet = figures.Drawing(100, 50).box(1, 2, 30, 20, "a < b", QUERY, sub="under")
    assert "a &lt; b" in "".join(sheet.parts) and len(sheet.parts) == 3
    assert 'fill="#ffffff"' in sheet.parts[1], "white words on blue"
    assert (
        'y="5"' in sheet.parts[1] and 'y="20"' in sheet.parts[2]
    ), "the second line stands under the first"
    sheet.box(1, 2, 30, 20, "dark", KEY)
    assert (
        'fill="#030303"' in sheet.parts[-1] and 'y="12"' in sheet.parts[-1]
    ), "dark words on orange, in the middle"


def test_lines_and_arrows():
    line, shaft, head = figures.Drawing(9, 9).line(0, 0, 9, 9, dash=True).arrow(0, 0, 10, 0).parts
    assert "dasharray" in line and "dasharray" not in shaft
    assert 'points="10,0 3.0,3.5 3.0,-3.5"' in head, "it points right"
    bent = figures.Drawing(9, 9).path([(0, 0), (0, 5), (9, 5)], KEY).parts
    last = figures.Drawing(9, 9).arrow(0, 5, 9, 5, KEY).parts
    assert len(bent) == 3 and bent[1:] == last, "the head follows the last line"


def test_square_colors():
    assert drawing.square_color(0.5, None) == "none"
    assert drawing.square_color(1.0, "mask") == "#e8e8e8"


def test_a_matrix_and_its_labels():
    sheet = figures.Drawing(340, 120).matrix(
        160, 40, [[0.2, 0.8]], cell=34, cmap="cividis", cols=["a", "b"], rows=["r"], title="both"
    )
    parts = "".join(sheet.parts)
    assert parts.count("<rect") == 2 and ">0.2<" in parts and 'x="194" y="40"' in parts
    for words in (
        'x="177" y="31"[^>]*>a<',
        'x="211" y="31"[^>]*>b<',
        'x="154" y="57"[^>]*>r<',
        'x="194" y="16"[^>]*>both<',
    ):
        assert re.search(words, parts), words
    assert (
        'y="29"' in figures.Drawing(9, 9).matrix(0, 40, [[1]], title="t").parts[-1]
    ), "without labels the title comes closer"


def test_minus_infinity_is_a_sign():
    assert ">−∞<" in "".join(figures.Drawing(9, 9).matrix(0, 0, [[-np.inf]]).parts)


def test_attention_as_lines():
    shown = figures.attention_lines(
        np.array([[0.9, 0.1], [0.0, 1.0]]), ["il", "est"], ["it", "is"], alt=ALT
    ).html
    assert shown.count("<line") == 3, "a weight of zero draws nothing"
    widths = [float(w) for w in re.findall(r'stroke-width="([\d.]+)"', shown)]
    assert (
        widths == sorted(widths[:2], reverse=True) + [widths[2]] and widths[2] > widths[0]
    ), "a line is as thick as its weight"
    for words in (
        'x="106" y="64"[^>]*>est<',
        'x="234" y="40"[^>]*>it<',
        ">query<",
        ">key<",
    ):
        assert re.search(words, shown), words
    with pytest.raises(ValueError, match="1 queries and 2 keys"):
        figures.attention_lines(np.eye(2), ["a"], ["b", "c"], alt=ALT)


# The architecture ---------------------------------------------------------------------------------


def drawn(*names, width=style.COLUMN):
    return diagram.draw(width, set(names))


def boxes(svg):
    "(left, top, right, bottom, fill, words) of every box and norm."
    return [
        (float(x), float(y), float(x) + float(w), float(y) + float(h), fill, words)
        for words, x, y, w, h, fill in re.findall(
            r'<title>([^<]*)</title><rect x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)" rx="4"'
            r' fill="(\S+)"',
            svg,
        )
    ]


def fills(*names):
    return [fill for *_, fill, _ in boxes(drawn(*names))]


def test_the_architecture_lights_what_it_is_asked():
    assert set(fills("all")) == {ENCODER, DECODER, BRIDGE} and set(fills()) == {"none"}
    assert fills("output").count(DECODER) == fills("softmax").count(DECODER) == 1
    assert fills("encoder").count(ENCODER) == 4 and set(fills("encoder")) == {ENCODER, "none"}
    assert fills("encoder_norm").count(ENCODER) == 2 and fills("decoder_norm").count(DECODER) == 3
    assert (
        drawn("positions").count(f'fill="{ENCODER}"')
        == drawn("positions").count(f'fill="{DECODER}"')
        == 1
    ), "two pluses"
    assert f'stroke="{BRIDGE}"' in drawn("bridge") and f'stroke="{BRIDGE}"' not in drawn(
        "encoder"
    ), "the memory's line"


def test_every_attention_has_a_query_a_key_and_a_value():
    for color, letter in ((QUERY, "Q"), (KEY, "K"), (VALUE, "V")):
        assert (
            drawn("all").count(f'stroke="{color}"') == 3 == drawn("all").count(f">{letter}</text>")
        ), letter
        assert drawn("encoder_attention").count(f'stroke="{color}"') == 1, "what isn't lit is gray"


def starts(svg, color):
    "x and y where each line of this color begins, and where it ends."
    return [
        tuple(map(float, found))
        for found in re.findall(
            rf'<line x1="(\S+)" y1="(\S+)" x2="\S+" y2="(\S+)" stroke="{color}"', svg
        )
    ]


@pytest.mark.parametrize("width", [style.COLUMN, style.PHONE])
def test_keys_and_values_of_the_cross_attention_come_from_the_memory(width):
    svg = drawn("all", width=width)
    memory = re.search(
        rf'<path d="M([\d.]+) [\d.]+V.*?q0 9 9 9H([\d.]+)" fill="none" stroke="{BRIDGE}"', svg
    )
    level = float(re.search(r"V([\d.]+)q0 9 9 9H", memory[0])[1]) + 9
    (cross,) = [box for box in boxes(svg) if box[5] == "cross-attention"]
    for color, from_memory in ((KEY, True), (VALUE, True), (QUERY, False)):
        (lead,) = [
            lead
            for lead in starts(svg, color)
            if cross[0] < lead[0] < cross[2] and lead[2] == cross[3]
        ]
        assert (
            lead[1] == level and (lead[0] <= float(memory[2])) == from_memory
        ), f"{color} comes from elsewhere"
    (own,) = [box for box in boxes(svg) if box[5] == "self-attention"]
    assert float(memory[1]) == pytest.approx((own[0] + own[2]) / 2), "it begins over the encoder"


def test_a_residual_goes_round_every_sublayer_into_a_plus():
    svg = drawn("all")
    rings = [tuple(map(float, ring)) for ring in re.findall(r'<circle cx="(\S+)" cy="(\S+)"', svg)]
    ways = [
        tuple(map(float, way))
        for way in re.findall(
            r'<path d="M(\S+) (\S+?)H\S+?Q\S+ \S+ \S+ \S+V\S+?Q\S+ (\S+) \S+ \S+?H', svg
        )
    ]
    assert len(rings) == 7 and len(ways) == 5, "five sublayers, and two pluses for the positions"
    sublayers = [box for box in boxes(svg) if box[5].endswith(("attention", "feed-forward"))]
    for x, low, high in ways:
        assert (x, high) in rings
        (inside,) = [
            box for box in sublayers if box[0] < x < box[2] and high < box[1] and box[3] < low
        ]
        assert not any(
            box[5] == "layer norm" and box[0] < x < box[2] and high < box[1] and box[3] < low
            for box in boxes(svg)
        ), f"{inside[5]}: the norm stands outside the residual"


@pytest.mark.parametrize("width", [style.COLUMN, style.PHONE])
def test_the_architecture_fits_its_sheet_and_nothing_overlaps(width):
    svg = drawn("all", width=width)
    _, top, wide, high = map(float, re.search(r'viewBox="([^"]+)"', svg)[1].split())
    assert wide == width and len(boxes(svg)) == 14
    for left, upper, right, lower, *_ in boxes(svg):
        assert 0 <= left < right <= wide and top <= upper < lower <= top + high
    for a, b in combinations(boxes(svg), 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], f"{a} and {b} overlap"


def test_every_box_names_a_chapter():
    root = __import__("pathlib").Path(__file__).resolve().parent.parent / "book"
    named = set(re.findall(r'data-chapter="(\w+)"', drawn("all")))
    assert len(named) >= 6 and all((root / f"{name}.ipynb").exists() for name in named)
    assert (
        figures.architecture().html
        == figures.architecture(("all",), alt="The architecture of the Transformer.").html
    )


# Something to turn --------------------------------------------------------------------------------


def explorer(chapter):
    "What the chapter's own cell shows."
    (path,) = BOOK.glob(f"{chapter}_*.ipynb")
    sources = ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"]]
    (source,) = [source for source in sources if "\nExplorer(" in source]
    names = {**vars(masks), **vars(schedule), "figures": figures, "torch": torch}
    names["Explorer"] = Explorer
    exec(source.replace("\nExplorer(", "\nview = Explorer("), names)
    return names["view"]


@pytest.mark.parametrize(
    "chapter, name, control, value, alt",
    [
        ("02", "tl-softmax", 0, 8, "at dₖ = 256"),
        ("11", "tl-noam", 1, 800, "base 1.75e-07 and 0.000313"),
        ("03", "tl-masks", 2, 3, "light is open"),
    ],
)
def test_a_slider_draws_again(chapter, name, control, value, alt):
    view = explorer(chapter)
    kinds = view._repr_mimebundle_()
    assert (
        len(kinds) == 3
        and f'id="{name}"' in kinds["text/html"]
        and "window.tlView =" in kinds["text/html"]
    ), "a page that works alone, a widget, and plain words"
    before = view.widget.result.html
    view.widget.children[control].value = value
    assert view.widget.result.html != before, "the slider is dead"
    assert alt in view.widget.result.alt


@pytest.mark.parametrize(
    "causal, padding, pads, left, cells",
    [(1, 1, 1, 0, 20), (0, 1, 1, 0, 30), (1, 0, 1, 0, 21), (0, 0, 1, 0, 36), (1, 1, 1, 1, 15)],
)
def test_the_mask_to_turn_has_its_cells_open(causal, padding, pads, left, cells):
    view = explorer("03").widget
    for control, value in zip(view.children, (bool(causal), bool(padding), pads, bool(left))):
        control.value = value
    assert view.result.html.count("#e8e8e8") == 2 * cells, "drawn for a desk and for a phone"


def test_no_two_settings_of_a_figure_have_one_color():
    assert style.colors_of(["transformer", "decoder-only", "prefix", "both"]) == [
        figures.INK,
        figures.PLUM,
        figures.OCHRE,
        figures.SLATE,
    ], "plum is taken by name, and so on"
    assert style.colors_of("abcdefgh") == [*figures.CYCLE, figures.INK]
    assert style.colors_of(["a", "b"], {"b": figures.INK}) == [figures.TEAL, figures.INK]


def test_a_table_with_a_second_one_in_a_fold():
    first, more = figures.table([{"a": 1}]), figures.table([{"b": 2}])
    page = figures.folded(first, more, "more & more").html
    assert first.html in page and page.index("<details") < page.index(
        "more &amp; more</summary>"
    ) < page.index(more.html)


@pytest.mark.parametrize(("low", "high", "named"), [(4, 60, ["5", "20", "50"]), (1, 150, [])])
def test_a_short_logarithmic_axis_names_2_and_5(axes, low, high, named):
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    places = [4, 5, 20, 30, 50]
    assert [
        text for text in (plots.minor_label(axes.yaxis, place) for place in places) if text
    ] == named
    page = figures.curves({"a": [low, high]}, ALT, logy=True)._repr_html_()
    assert (">20<" in re.sub(r"\s*<!--.*?-->", "", page)) == bool(named)


def ticks(picture):
    return re.findall(r">([\d.]+)</text>", picture.html.split('class="tl-phone"')[0])


def test_few_points_on_a_logarithmic_axis_are_its_ticks():
    few = figures.curves(
        {"a": ([5, 20, 80], [1.0, 2.0, 3.0])}, alt="A curve of three points.", logx=True
    )
    assert {"5", "20", "80"} <= set(ticks(few)) and "10" not in ticks(few)
    many = figures.curves(
        {"a": ([1, 1.1, 80], [1.0, 2.0, 3.0])}, alt="A curve of three points.", logx=True
    )
    assert "10" in ticks(many)


def test_slanted_words_end_below_their_columns():
    words = ["because", "it", "was", "too", "tired", "animal", "street", "crossed"]
    wide, narrow = (
        figures.heatmap(np.eye(8), cols=words, alt="A map of eight words.", width=width).html
        for width in (350, 200)
    )
    assert "rotate(-45" in wide and "rotate(-60" in narrow
    assert (
        "rotate(-45" not in figures.heatmap(
            np.eye(2), cols=["a", "b"], alt="A map of two words."
        ).html
    )


def test_no_curve_loses_its_name_to_a_dotted_reference():
    page = figures.curves(
        {letter: [i, i + 1] for i, letter in enumerate("vwxyz")}, ALT, hline=(2.0, "level")
    )._repr_html_()
    phone = page[page.index("tl-phone") :]
    assert (
        all(f">{letter}<" in phone for letter in "vwxyz") and "level" in phone
    ), "five curves and a reference don't fit beside a phone's panel"
