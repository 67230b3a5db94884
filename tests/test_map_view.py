"""The view of attention: small, whole and harmless, and each of its controls in a browser."""

import base64
import json
import re
from html.parser import HTMLParser

import pytest
import torch
from plugins.pages import Page, write_page

from litbook.live import pages
from litbook.live.map_view import attention_page, packed, show_attention
from transformer_lit.attention_analysis import compute_attention, token_strings
from transformer_lit.corpora.files import shipped
from transformer_lit.translation import Translator


class Parts(HTMLParser):
    "Each tag with its attributes."

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def data_of(view):
    return json.loads(Parts(view.html).tags[0][1]["data-view"])


def maps_of(s, t, layers, heads):
    torch.manual_seed(0)
    causal = torch.full((t - 1, t - 1), -1e9).triu(1)
    return {
        "encoder": torch.rand(layers, heads, s, s).softmax(-1),
        "decoder": (torch.rand(layers, heads, t - 1, t - 1) + causal).softmax(-1),
        "cross": torch.rand(layers, heads, t - 1, s).softmax(-1),
    }


def view(s=16, t=17, layers=4, heads=4, **options):
    source, target = [f"word{i}" for i in range(s)], [f"mot{i}" for i in range(t)]
    return attention_page(maps_of(s, t, layers, heads), source, target, "a made-up pair", **options)


def test_a_view_holds_the_weights_in_order_and_leaves_out_the_future():
    maps, data = maps_of(5, 4, 2, 3), data_of(view(5, 4, 2, 3, show=("cross", 1, 2)))
    maps["decoder"] = maps["decoder"][..., torch.ones(3, 3).tril().bool()]
    expected = torch.cat([weights.flatten() for weights in maps.values()])
    assert list(base64.b64decode(data["w"])) == (expected * 255).round().tolist()


def test_the_view_of_a_pair_is_what_the_translator_read():
    pocket, pair = Translator.load(shipped("data/checkpoints/pocket")), ("The cat.", "Le chat.")
    maps, source, target = compute_attention(pocket, [pair])
    data = data_of(show_attention(pocket, *pair, alt="a pair", show=("cross", 2, 0)))
    expected = b"".join(packed(w[:, 0], kind == "decoder") for kind, w in maps.items())
    assert base64.b64decode(data["w"]) == expected
    assert data["s"] == token_strings(source[0], pocket.source_tokenizer)
    assert data["t"] == token_strings(target[0], pocket.target_tokenizer)


RUDE = (
    "/onclick=alert(1)//",
    '" onclick=alert(1) x="',
    "' onclick=alert(1) x='",
    "{{alt}} {{data}}",
    "--><b onclick=alert(1)>",
    "</script><script>x",
    "&amp;",
)


@pytest.mark.parametrize("alt", RUDE)
def test_nothing_in_a_view_becomes_an_attribute_or_a_tag(alt):
    n = len(RUDE)
    plain = [(tag, sorted(attrs)) for tag, attrs in Parts(view(n, n, 1, 1).html).tags]
    rude = attention_page(maps_of(n, n, 1, 1), RUDE, RUDE, alt=alt)
    tags = Parts(rude.html).tags
    assert [(tag, sorted(attrs)) for tag, attrs in tags] == plain, "a token has become HTML"
    assert tags[0][1]["aria-label"] == alt and data_of(rude)["s"] == list(RUDE)
    assert not any("id" in attrs for _, attrs in tags), "an id would clash with a second view's"


def test_a_page_is_filled_in_one_pass():
    page = pages.filled("<p a='{{a}}'>{{b}}{{a}}", a="{{b}}", b="x")
    assert page == "<p a='{{b}}'>x{{b}}", "a token has become HTML"


# In a browser -------------------------------------------------------------------------------------


class View(Page):
    "The first of two views on a page."

    def head(self, layer, head):
        self.at(f".tl-heads button[data-l='{layer - 1}'][data-h='{head - 1}']").click()

    def pressed(self):
        "Layer and head of the thumbnail that is marked, from 1."
        button = self.at(".tl-heads [aria-pressed=true]")
        return int(button.get_attribute("data-l")) + 1, int(button.get_attribute("data-h")) + 1

    def pick(self, name, value):
        self.at(f"[data-pick={name}] [data-v={value}]").click()

    def lines(self):
        "Ends of the lines: (row, column)."
        return self.at("line[data-t]").evaluate_all(
            "all => all.map(e => [+e.dataset.t, +e.dataset.s])"
        )

    def lit(self):
        "Words that stand out, rows and columns."
        return self.at("[data-part=lines] text[font-weight='700']").all_text_contents()

    def shape(self):
        return self.at("[data-part=map]").inner_html()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    views = view(6, 7, 3, 2, show=("cross", 0, 0, "mot3")), view(4, 5, 2, 2)
    return write_page(tmp_path_factory.mktemp("maps"), "".join(view.html for view in views))


@pytest.fixture
def maps(visit, site):
    return lambda **looks: visit(site, ".tl-attention:first-of-type", View, **looks)


def test_a_thumbnail_sets_its_view_and_no_other(maps):
    page, shapes = maps(), set()
    still = page.locator(".tl-attention").nth(1).inner_html()
    for layer, head in ((1, 1), (3, 2), (3, 3)):
        page.head(layer, head)
        assert page.pressed() == (layer, head)
        shapes.add(page.shape())
    assert len(shapes) == 3, "two heads and the mean are drawn alike"
    page.at(".tl-heads [aria-pressed=true]").focus()
    page.keys("ArrowUp ArrowLeft")
    assert page.pressed() == (2, 2)
    assert page.focused("getAttribute('aria-pressed')") == "true", "the focus stays behind"
    assert page.locator(".tl-attention").nth(1).inner_html() == still


def test_kinds_rows_and_the_least_weight(maps):
    page = maps()
    for kind, key in (("encoder", "encoder"), ("decoder", "decoder"), ("cross", "encoder")):
        page.pick("kind", kind)
        assert f"key: {key}" in page.at("[data-part=lines]").text_content()
    for rows, first in (("predicts", "mot1"), ("receives", "mot0")):
        page.pick("rows", rows)
        words = re.findall(r"mot\d", page.at("[data-part=map]").text_content())
        assert min(words) == first, "a row is the token that is read, or the one that is said"
    count = len(page.lines())
    page.at("[data-in=least]").fill("0.25")
    assert len(page.lines()) < count


def test_a_line_lights_its_cell_and_a_cell_its_line(maps):
    page = maps()
    page.at("[data-in=least]").fill("0.05")
    page.at("line[data-t='2'][data-s='4']").dispatch_event("click")
    assert page.lines() == [[2, 4]]
    frame, cell = (
        page.at(f"[data-part=map] {css}").bounding_box()
        for css in ("[data-lit]", "rect[data-t='2'][data-s='4']")
    )
    assert frame["x"] == pytest.approx(cell["x"], abs=3), "the frame isn't round its cell"
    for is_single in (True, False):
        page.at("[data-part=map] rect[data-t='1'][data-s='0']").click()
        page.mouse.move(0, 0)
        assert (page.lines() == [[1, 0]]) == is_single, "a second click lets go"


def test_words_by_pointer_and_by_key(maps):
    page = maps()
    word = page.at("[data-part=lines] rect[data-t='2']")
    word.hover()
    assert {row for row, _ in page.lines()} == {2}
    page.mouse.move(0, 0)
    assert len({row for row, _ in page.lines()}) > 1, "what the pointer shows ends when it leaves"
    word.click()
    page.mouse.move(0, 0)
    page.head(2, 1)
    assert {row for row, _ in page.lines()} == {2}, "what is chosen stays, also in another head"
    page.at(".tl-p").focus()
    for keys, words in (
        ("Escape ArrowDown*2", ["mot2"]),
        ("ArrowRight ArrowUp", ["word0"]),
        ("Escape", []),
    ):
        page.keys(keys)
        assert page.lit() == words, keys


def test_the_button_offers_three_things_in_turn(maps):
    page, steps = maps(), []
    for _ in range(4):
        page.pick("kind", "encoder")
        page.do("try")
        steps.append((page.pressed(), page.lit(), page.out("say").inner_text()))
    assert steps[0] == steps[3] and steps[0][:2] == ((1, 1), ["mot3"])
    assert len({text for _, _, text in steps}) == 3


def test_layers_play_and_pause(maps):
    page = maps(motion="no-preference")
    page.clock.install()
    page.do("play")
    assert page.pressed() == (2, 1)
    page.wait("busy")
    page.do("play")
    page.clock.run_for(3000)
    page.wait("done")
    assert page.pressed() == (2, 1), "it plays on after a pause"
    page.do("play")
    page.clock.run_for(3000)
    page.wait("done")
    assert page.pressed() == (3, 1), "it ends with the last layer"


def test_on_a_phone_lines_and_map_are_tabs(maps):
    page = maps(width=390)
    for tab in ("lines", "map"):
        page.pick("tab", tab)
        for part in ("lines", "map"):
            assert page.at(f"[data-part={part}]").is_visible() == (part == tab)
    page.at("[data-part=map] rect[data-t='1'][data-s='0']").click()
    page.pick("tab", "lines")
    assert page.lines() == [[1, 0]], "what was chosen in the map is lit in the lines"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 900])
def test_a_view_fits_and_stands_out(maps, width, dark):
    "Also what isn't chosen."
    page = maps(width=width, dark=dark)
    page.check_looks(".tl-attention")
    for kind in ("cross", "decoder"):
        page.pick("kind", kind)
        page.at("[data-part=lines] rect[data-t='2']").click()
        page.check_contrast(".tl-attention svg text:not(.tl-k)", "fill", 4.5)
        page.check_contrast(".tl-attention :is(small, p)", "color", 4.5)
        page.check_contrast(".tl-attention line:not([stroke=transparent])", "stroke", 3)
        page.check_contrast(".tl-attention [data-part] path", "fill", 3)
