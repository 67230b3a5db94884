"""What draws: every figure reads on light and dark, says what it shows, and shows what it was
given. Words, numbers and overlaps of all drawings: test_drawings.py."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb

from litbook import figures
from litbook.figures import diagram, heat_maps, plots, style, tables
from litbook.figures.style import BRIDGE, CYCLE, DECODER, ENCODER, INK, KEY, MASK, QUERY, VALUE
from litbook.live.explore import Explorer
from litbook.prose import Prose
from transformer_lit import masks, schedule

ALT = "A sentence of some words."
BOOK = Path(__file__).resolve().parents[1] / "book"
PAGES = ("#ffffff", "#14181d")


@pytest.fixture
def axes():
    return style.panel(200, 100)[1]


# The style ----------------------------------------------------------------------------------------


def test_colors_are_different_and_stand_out_on_both_pages():
    assert len(set(CYCLE)) == len(CYCLE)
    meanings = {QUERY, KEY, VALUE, ENCODER, DECODER, BRIDGE}
    others = {*CYCLE, *style.NAMED.values(), style.FAULT}
    assert not meanings & others, "a part of the model has its color to itself"
    for paint in [*others - {INK}, MASK(0)]:
        assert min(style.contrast(paint, page) for page in PAGES) >= 3, paint
    assert style.contrast(MASK(0), MASK(1)) >= 3, "open and closed look alike"


def test_a_name_keeps_its_color_and_no_two_settings_have_one():
    assert style.colors_of(["Transformer", "RNN"])[1:] == style.colors_of(["RNN"])
    assert style.colors_of(["RNN"], {"RNN": KEY}) == [KEY]
    for names in ("abcdefg", ["transformer", "decoder-only", "prefix", "both"]):
        assert len(set(style.colors_of(names))) == len(names)


def test_contrast_is_wcags():
    assert style.contrast("#ffffff", "#000000") == pytest.approx(21)
    assert style.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


def test_letters_stand_out_on_every_grey():
    greys = [str(level) for level in np.linspace(0, 1, 1001)]
    assert min(style.contrast(style.ink_on(gray), gray) for gray in greys) >= 4.5


def test_signed_numbers_are_read_on_both_pages():
    assert style.SIGNED(0.5)[3] == 0, "zero is the page itself"
    for page, own in (("#ffffff", "#030303"), ("#14181e", "#dddddd")):
        for at in np.linspace(0, 1, 201):
            *rgb, alpha = style.SIGNED(at)
            ground = [alpha * part + (1 - alpha) * below for part, below in zip(rgb, to_rgb(page))]
            ink = style.ink_on(style.SIGNED(at))
            assert style.contrast(own if ink == INK else ink, ground) >= 4.5, f"{at} on {page}"


def test_a_picture_says_what_it_shows():
    plain = figures.Picture("<svg></svg>", 'Four words & a "sign".').html
    label = "Four words &amp; a &quot;sign&quot;."
    assert f'role="img" aria-label="{label}"' in plain and f">{label}</figcaption>" in plain
    assert 'aria-hidden="true"' in plain, "said twice"
    both = figures.Picture("", "What one sees here.", "What one < learns.").html
    assert "aria-hidden" not in both and ">What one &lt; learns.</figcaption>" in both
    with pytest.raises(ValueError, match="alt="):
        figures.Picture("<svg></svg>", "two words here")


@pytest.mark.parametrize(
    "raw, clean",
    [
        ("<?xml?><svg><metadata>\nby\n</metadata></svg>", "<svg></svg>"),
        (f'<svg id="figure_1" fill="{INK}"></svg>', '<svg fill="currentColor"></svg>'),
        ('<svg><path id="clip" d="M1.23456"/></svg>', '<svg><path id="clip" d="M1.23"/></svg>'),
        ("<svg><text>0.0001</text></svg>", "<svg><text>0.0001</text></svg>"),
        ("<svg><text>-1</text></svg>", "<svg><text>−1</text></svg>"),
        (
            "<svg><text>10⁻⁵ in all</text></svg>",
            '<svg><text>10<tspan dy="-4" style="font-size: 8.5px">−5</tspan><tspan dy="4"> in'
            " all</tspan></text></svg>",
        ),
    ],
)
def test_cleaned_keeps_the_drawing_alone(raw, clean):
    assert style.cleaned(raw) == clean


def test_a_wide_figure_is_drawn_for_a_phone_as_well():
    assert style.responsive(str, 300) == "300", "what fits a phone is drawn once"
    both = style.responsive(str, 704)
    assert re.findall(r'"tl-(\w+)"[^>]*>(\d+)<', both) == [("desk", "704"), ("phone", "358")]


def test_a_figure_takes_the_pages_ink_and_is_the_same_each_time():
    first, again = (figures.curves({"one": [1, 2], "two": [2, 1]}, alt=ALT).html for _ in "ab")
    assert first == again
    assert not re.search(f'{INK}|#000000|<metadata>|id="figure', first)
    assert "currentColor" in first and ">one<" in first, "letters stay letters"


# Heat maps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "n, options, angle",
    [
        (2, {"width": 330}, 0),
        (20, {"width": 330}, 90),
        (6, {"width": 264, "bar": False}, 45),
        (6, {"width": 224, "bar": True}, 60),
    ],
)
def test_words_slant_where_they_would_collide(n, options, angle):
    page = heat_maps.heat_panel(np.eye(n), rows=[""] * n, cols=["street"] * n, **options)
    (turned,) = set(re.findall(r"rotate\(-(\d+)[^>]*>street", page))
    assert int(turned) == angle


def test_numbers_in_cells_stand_out(axes):
    values = np.linspace(0, 1, 12).reshape(3, 4)
    heat_maps.draw_squares(axes, values, list("abc"), None, annot=True, fmt=".2f", cmap="cividis")
    assert [text.get_text() for text in axes.texts] == [f"{v:.2f}" for v in values.ravel()]
    for text, paint in zip(axes.texts, axes.collections[0].get_facecolors()):
        contrast = style.contrast(text.get_color(), paint)
        assert contrast >= 4.5, f"{text.get_text()} can't be read on its cell"


def test_a_mask_is_drawn_in_its_two_inks():
    page = figures.heatmap(torch.tensor([[True, False]]), cmap="mask", alt=ALT).html
    assert page.count("#666666") == page.count("#e8e8e8") > 0, "closed dark, open light"
    assert style.GRAY in page and "<image" not in page, "a line round each cell, and no scale"


def test_heat_maps_side_by_side_have_one_scale():
    panels = [{"matrix": np.eye(2), "title": title} for title in ("left", "right")]
    left, right = figures.heatmaps(panels, vmin=0, vmax=1, alt=ALT).html.split("<svg")[1:]
    assert ">left<" in left and ">right<" in right
    assert "<image" not in left and "<image" in right, "the scale stands beside the last panel"


def test_a_wide_map_turns_on_a_phone():
    words = {"rows": ["up", "down"], "cols": list("abcdefghij")}
    page = figures.heatmap(np.eye(2, 10), turned=True, alt=ALT, **words).html
    below = [part.index(">a<") < part.index(">up<") for part in page.split('class="tl-phone"')]
    assert below == [True, False], "the horizontal axis is drawn first"


# Curves and bars ----------------------------------------------------------------------------------


def test_ticks_of_a_logarithmic_axis():
    values = {1e-12: "10⁻¹²", 1e-4: "10⁻⁴", 1e-3: "0.001", 0.5: "0.5", 1e6: "10⁶", 3e7: "3e+07"}
    assert {value: plots.tick_label(value) for value in values} == values


@pytest.mark.parametrize(
    "xs, logx, ticks, none",
    [
        ([5, 20, 80], True, {"5", "20", "80"}, "10"),
        ([1, 1.1, 80], True, {"10"}, "80"),
        ([2, 4, 8, 16], False, {"4"}, "2.5"),
        ([0.1, 0.9], False, {"0.5"}, "0.55"),
    ],
)
def test_points_are_ticks_where_they_are_few(xs, logx, ticks, none):
    page = plots.curve_panel({"a": (xs, range(len(xs)))}, logx=logx, width=330)
    across = set(re.findall(r'text-anchor: middle[^>]*>([\d.]+)</text>', page))
    assert ticks <= across and none not in across


@pytest.mark.parametrize(
    "names, hline, width, key",
    [
        (["a", "b"], None, 344, False),
        (["short", "x" * 15], None, 344, True),
        (list("abcdef"), None, 344, True),
        (list("vwxyz"), (2.0, "level"), 344, True),
        (["alone"], None, 344, False),
    ],
)
def test_names_stand_at_the_ends_or_in_a_key(names, hline, width, key):
    series = {name: [i, i + 1] for i, name in enumerate(names)}
    page = plots.curve_panel(series, hline=hline, width=width).split("tl-phone")[0]
    drawn, *below = page.split("var(--tl-ui")
    assert bool(below) is key
    for name in names if len(names) > 1 else ():
        assert f">{name}<" in (below[0] if key else drawn), f"the curve {name} has lost its name"
    assert hline is None or f">{hline[1]}<" in drawn


def test_a_key_has_the_colors_and_dashes_of_its_curves():
    ends = [plots.End(0, 0, "a < b", KEY), plots.End(0, 0, "c", QUERY)]
    key = plots.keyed("<div></div>", ends, {"c": ":"})
    marks = re.findall(r"3px (\w+) (#\w+).*?</span>([^<]+)<", key)
    assert marks == [("solid", KEY, "a &lt; b"), ("dotted", QUERY, "c")]


def test_a_references_name_stands_where_the_curves_are_far_from_it(axes):
    falls, rises = [9.0, 2.0, 0.11], [0.1, 1.0, 5.0]
    assert plots.free_at_first(axes, [falls, falls], 0.1)
    assert not plots.free_at_first(axes, [falls, rises], 0.1)


def test_curves_have_the_colors_and_styles_asked_for():
    options = {"colors": {"two": BRIDGE}, "styles": {"two": "--"}, "hline": (1.5, "middle")}
    page = figures.curves({"one": [1, 2], "two": [2, 1]}, alt=ALT, xlabel="step", **options).html
    for part in (BRIDGE.lower(), ">one<", ">middle<", ">step<", "stroke-dasharray"):
        assert part in page, part


def test_what_a_panel_says_of_itself_goes_before_what_is_shared():
    panels = [{"series": {"a": [1, 2]}, "ylabel": "own"}, {"series": {"b": [1, 2]}}]
    page = figures.curve_panels(panels, ylabel="shared", alt=ALT).html
    assert page.count(">shared<") == page.count(">own<") == 1


# Tables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, text, side, breaks",
    [
        (0.5, "0.50", "right", False),
        (1200, "1,200", "right", False),
        (True, "✓", "left", True),
        ("a < b", "a &lt; b", "left", True),
        ("0.50 nan", "0.50 nan", "left", False),
        (3e-7, "0.00", "right", False),
    ],
)
def test_cells(value, text, side, breaks):
    cell = tables.table_cell(value, "{:.2f}")
    assert f">{text}<" in cell and f"text-align:{side}" in cell
    assert ("nowrap" in cell) is not breaks


def test_a_table():
    rows = [{"a": "x", "n": 1, "b": 0}, {"n": 2}, {"c": 3, "n": "one"}]
    page = figures.table(rows, columns=["n", "a"], caption="what < who").html
    heads, *lines = re.findall(r"<tr>(.*?)</tr>", page)
    assert re.findall(r'scope="col"[^>]*text-align:(\w+)[^>]*>(\w+)<', heads) == [
        ("left", "n"),
        ("left", "a"),
    ], "a column with a word has its head left"
    assert [re.findall(r">([^<>]*)</td>", line) for line in lines] == [
        ["1", "x"],
        ["2", ""],
        ["one", ""],
    ]
    assert "what &lt; who</caption>" in page and "tl-wide" not in page
    named = figures.table({"r": {"n": 1}}, wide=True).html
    assert 'scope="row"' in named and "tl-wide" in named


def test_a_table_with_a_second_one_in_a_fold():
    first, more = figures.table([{"a": 1}]), figures.table([{"b": 2}])
    page = figures.folded(first, more, "more & more").html
    fold = page.index("more &amp; more</summary>")
    assert page.index(first.html) < page.index("<details") < fold < page.index(more.html)


@pytest.mark.parametrize(
    "text, written",
    [
        ("by 3e-07, 1e+05, 0e+00", "by 3\u00a0·\u00a010<sup>−7</sup>, 10<sup>5</sup>, 0"),
        ("2.5e+00", "2.5"),
        ("`1e-9` and x1e-9, face-07, 2017", "`1e-9` and x1e-9, face-07, 2017"),
        ("-0.5 (-1 to 2), [-3], a-1, --n and `-5`", "−0.5 (−1 to 2), [−3], a-1, --n and `-5`"),
    ],
)
def test_powers_of_ten_are_written_as_people_write_them(text, written):
    assert figures.powers(text) == written
    assert Prose(text)._repr_markdown_() == written


# Drawings -----------------------------------------------------------------------------------------


def test_words_on_a_box_can_be_read():
    for fill in (QUERY, KEY, "#dddddd", "#555555"):
        sheet = figures.Drawing(100, 50).box(1, 2, 30, 20, "a < b", fill, sub="under")
        assert "a &lt; b" in sheet.parts[1], "markup in words"
        for words in sheet.parts[1:]:
            assert style.contrast(re.search(r'fill="(#\w+)"', words)[1], fill) >= 4.5


def test_a_head_stands_at_the_end_of_the_last_line():
    bent = figures.Drawing(9, 9).path([(0, 0), (0, 5), (9, 5)], KEY).parts
    assert bent[1:] == figures.Drawing(9, 9).arrow(0, 5, 9, 5, KEY).parts
    tips = [tuple(map(float, tip.split(","))) for tip in re.findall(r"[\d.]+,[\d.]+", bent[-1])]
    assert tips[0] == (9, 5) and all(x < 9 for x, _ in tips[1:]), "it points right"


# The architecture ---------------------------------------------------------------------------------


def drawn(*names, width=style.COLUMN):
    return diagram.draw(width, set(names))


def boxes(svg):
    "(left, top, right, bottom, fill, words) of every box and norm."
    box = (
        r'<title>([^<]*)</title><rect x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)" rx="4"'
        r' fill="(\S+)"'
    )
    places = [(words, *map(float, place), fill) for words, *place, fill in re.findall(box, svg)]
    return [(x, y, x + w, y + h, fill, words) for words, x, y, w, h, fill in places]


@pytest.mark.parametrize(
    "name, color, count",
    [
        ("output", DECODER, 1),
        ("softmax", DECODER, 1),
        ("encoder", ENCODER, 4),
        ("encoder_norm", ENCODER, 2),
        ("decoder_norm", DECODER, 3),
        ("bridge", BRIDGE, 1),
    ],
)
def test_the_architecture_lights_what_it_is_asked(name, color, count):
    fills = [fill for *_, fill, _ in boxes(drawn(name))]
    assert fills.count(color) == count and set(fills) == {color, "none"}
    assert (f'stroke="{BRIDGE}"' in drawn(name)) is (name == "bridge"), "the memory's line"


@pytest.mark.parametrize("color, letter", [(QUERY, "Q"), (KEY, "K"), (VALUE, "V")])
def test_every_attention_has_a_query_a_key_and_a_value(color, letter):
    assert drawn("all").count(f'stroke="{color}"') == drawn("all").count(f">{letter}</text>") == 3
    assert drawn("encoder_attention").count(f'stroke="{color}"') == 1, "what isn't lit is gray"


@pytest.mark.parametrize("width", [style.COLUMN, style.PHONE])
def test_keys_and_values_of_the_cross_attention_come_from_the_memory(width):
    svg = drawn("all", width=width)
    memory = re.search(
        rf'<path d="M([\d.]+) [\d.]+V.*?q0 9 9 9H([\d.]+)" fill="none" stroke="{BRIDGE}"', svg
    )
    level = float(re.search(r"V([\d.]+)q0 9 9 9H", memory[0])[1]) + 9
    (cross,) = [box for box in boxes(svg) if box[5] == "cross-attention"]
    for color, from_memory in ((KEY, True), (VALUE, True), (QUERY, False)):
        line = rf'<line x1="(\S+)" y1="(\S+)" x2="\S+" y2="(\S+)" stroke="{color}"'
        leads = [tuple(map(float, numbers)) for numbers in re.findall(line, svg)]
        ((x, start, _),) = [
            lead for lead in leads if cross[0] < lead[0] < cross[2] and lead[2] == cross[3]
        ]
        assert start == level, f"{color} comes from elsewhere"
        assert (x <= float(memory[2])) == from_memory, f"{color} comes from elsewhere"
    (own,) = [box for box in boxes(svg) if box[5] == "self-attention"]
    assert float(memory[1]) == pytest.approx((own[0] + own[2]) / 2), "it begins over the encoder"


def test_a_residual_goes_round_every_sublayer_into_a_plus():
    svg = drawn("all")
    rings = [tuple(map(float, ring)) for ring in re.findall(r'<circle cx="(\S+)" cy="(\S+)"', svg)]
    way = r'<path d="M(\S+) (\S+?)H\S+?Q\S+ \S+ \S+ \S+V\S+?Q\S+ (\S+) \S+ \S+?H'
    ways = [tuple(map(float, numbers)) for numbers in re.findall(way, svg)]
    assert len(rings) == 7 and len(ways) == 5, "five sublayers, and two pluses for the positions"
    for x, low, high in ways:
        assert (x, high) in rings
        (inside,) = [
            box[5] for box in boxes(svg) if box[0] < x < box[2] and high < box[1] and box[3] < low
        ]
        assert inside.endswith(("attention", "feed-forward")), "the norm is inside the residual"


def test_every_box_names_a_chapter():
    named = set(re.findall(r'data-chapter="(\w+)"', drawn("all")))
    assert len(named) >= 6 and all((BOOK / f"{name}.ipynb").exists() for name in named)


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
    "chapter, control, value, number", [("02", 0, 8, "256"), ("11", 1, 800, "0.000313")]
)
def test_a_slider_draws_again(chapter, control, value, number):
    view = explorer(chapter)
    kinds = view._repr_mimebundle_()
    assert len(kinds) == 3 and "window.tlView =" in kinds["text/html"], "a page, a widget, words"
    before = view.widget.result.alt
    view.widget.children[control].value = value
    assert number in view.widget.result.alt != before, "the slider is dead"


@pytest.mark.parametrize(
    "causal, padding, pads, left, cells",
    [(1, 1, 1, 0, 20), (0, 1, 1, 0, 30), (1, 0, 1, 0, 21), (0, 0, 1, 0, 36), (1, 1, 1, 1, 15)],
)
def test_the_mask_to_turn_has_its_cells_open(causal, padding, pads, left, cells):
    view = explorer("03").widget
    for control, value in zip(view.children, (bool(causal), bool(padding), pads, bool(left))):
        control.value = value
    assert view.result.html.count("#e8e8e8") == 2 * cells, "drawn for a desk and for a phone"
