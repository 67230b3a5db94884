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
from litbook.figures import diagram, heat_maps, plots, style
from litbook.figures.style import BRIDGE, CYCLE, DECODER, ENCODER, INK, KEY, MASK, QUERY, VALUE
from litbook.live.explore import Explorer
from litbook.prose import Prose
from transformer_lit import schedule

ALT = "A sentence of some words."
BOOK = Path(__file__).resolve().parents[1] / "book"
PAGES = ("#ffffff", "#14181d")


# The style ----------------------------------------------------------------------------------------


def test_colors_are_different_and_stand_out_on_both_pages():
    assert len(set(CYCLE)) == len(CYCLE)
    meanings = {QUERY, KEY, VALUE, ENCODER, DECODER, BRIDGE}
    others = {*CYCLE, *style.NAMED.values(), style.FAULT}
    assert not meanings & others, "a part of the model has its color to itself"
    for paint in [*others - {INK}, MASK(0)]:
        assert min(style.contrast(paint, page) for page in PAGES) >= 3, paint
    assert style.contrast(MASK(0), MASK(1)) >= 3, "open and closed look alike"


def test_contrast_is_wcags():
    assert style.contrast("#ffffff", "#000000") == pytest.approx(21)
    assert style.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


def test_letters_stand_out_on_every_gray():
    grays = [str(level) for level in np.linspace(0, 1, 1001)]
    assert min(style.contrast(style.ink_on(gray), gray) for gray in grays) >= 4.5


def test_signed_numbers_are_read_on_both_pages():
    assert style.SIGNED(0.5)[3] == 0, "zero is the page itself"
    for page, own in (("#ffffff", "#030303"), ("#14181e", "#dddddd")):
        for at in np.linspace(0, 1, 201):
            *rgb, alpha = style.SIGNED(at)
            ground = [alpha * part + (1 - alpha) * below for part, below in zip(rgb, to_rgb(page))]
            ink = style.ink_on(style.SIGNED(at))
            assert style.contrast(own if ink == INK else ink, ground) >= 4.5, f"{at} on {page}"


def test_a_picture_says_what_it_shows():
    page = figures.Picture("<svg></svg>", 'Four words & a "sign".').html
    label = "Four words &amp; a &quot;sign&quot;."
    assert f'role="img" aria-label="{label}"' in page and f">{label}</figcaption>" in page
    assert 'aria-hidden="true"' in page, "said twice"
    with pytest.raises(ValueError, match="alt="):
        figures.Picture("<svg></svg>", "two words here")


@pytest.mark.parametrize(
    "raw, clean",
    [
        ("<?xml?><svg><metadata>\nby\n</metadata></svg>", "<svg></svg>"),
        ('<svg><path id="clip" d="M1.23456"/></svg>', '<svg><path id="clip" d="M1.23"/></svg>'),
        ("<svg><text>0.0001</text></svg>", "<svg><text>0.0001</text></svg>"),
        ("<svg><text>-1</text></svg>", "<svg><text>−1</text></svg>"),
    ],
)
def test_cleaned_keeps_the_drawing_alone(raw, clean):
    assert style.cleaned(raw) == clean


def test_a_figure_takes_the_pages_ink_and_is_the_same_each_time():
    first, again = (figures.curves({"one": [1, 2], "two": [2, 1]}, alt=ALT).html for _ in "ab")
    assert first == again
    assert not re.search(f'{INK}|#000000|<metadata>|id="figure', first)
    assert "currentColor" in first and ">one<" in first, "letters stay letters"


# Maps and curves ----------------------------------------------------------------------------------


def test_numbers_in_cells_stand_out():
    axes, values = style.panel(200, 100)[1], np.arange(12.0).reshape(3, 4)
    words = [[f"{v:.2f}" for v in row] for row in values]
    heat_maps.draw_squares(axes, values, None, None, 9, words, cmap="cividis")
    assert [text.get_text() for text in axes.texts] == sum(words, [])
    assert round(style.contrast("#777777", "white"), 2) == 4.48  # of WCAG's own table
    for text, paint in zip(axes.texts, axes.collections[0].get_facecolors()):
        assert style.contrast(text.get_color(), paint) >= 4.5, text


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


# Tables -------------------------------------------------------------------------------------------


def test_a_table():
    rows = [{"a": "x < y", "n": 1200, "b": 0}, {"n": 0.5}, {"c": 3, "n": True}]
    page = figures.table(rows, columns=["n", "a"], caption="what < who").html
    _, *lines = re.findall(r"<tr>(.*?)</tr>", page)
    found = [" | ".join(re.findall(r">([^<>]*)</td>", line)) for line in lines]
    assert found == ["1,200 | x &lt; y", "0.500 | ", "✓ | "]
    assert "what &lt; who</caption>" in page
    assert 'scope="row"' in figures.table({"r": {"n": 1}}).html


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
    "name, color", [("softmax", DECODER), ("encoder", ENCODER), ("bridge", BRIDGE)]
)
def test_the_architecture_lights_what_it_is_asked(name, color):
    fills = {fill for *_, fill, _ in boxes(drawn(name))}
    assert fills == {color, "none"}
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


# Something to turn --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chapter, control, value, number", [("02", 0, 8, "256"), ("11", 1, 800, "0.000313")]
)
def test_a_slider_of_the_chapters_own_cell_draws_again(chapter, control, value, number):
    (path,) = BOOK.glob(f"{chapter}_*.ipynb")
    sources = ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"]]
    (source,) = [source for source in sources if "\nExplorer(" in source]
    names = {**vars(schedule), "figures": figures, "torch": torch, "Explorer": Explorer}
    exec(source.replace("\nExplorer(", "\nview = Explorer("), names)
    view = names["view"]
    assert "window.tlView =" in view._repr_mimebundle_()["text/html"], "a page and a widget"
    before = view.widget.result.alt
    view.widget.children[control].value = value
    assert number in view.widget.result.alt != before, "the slider is dead"
