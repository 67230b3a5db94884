"""The view "Try it" of chapter 18: what it is given, and each of its controls, in a browser."""

import json

import pytest
import torch
from plugins.pages import write_page
from translators import PAIRS, words

from litbook.live.looks import ALSO_RIGHT, LETTERS, beam_steps, try_it, try_it_page
from transformer_lit.attention_analysis import record_attention
from transformer_lit.corpora.files import shipped
from transformer_lit.decoding import beam_search
from transformer_lit.masks import BOS

RUNNING = "The animal didn't cross the street because it was too {}."
TIRED, WIDE = RUNNING.format("tired"), RUNNING.format("wide")


@pytest.fixture(scope="module")
def rows():
    return json.loads(shipped("results/bench/try_it.json").read_text("utf-8"))


def test_the_record_holds_the_forty_sentences_and_its_judgments(rows):
    own = [line.split("\t") for line in shipped("data/try_it.tsv").read_text("utf-8").splitlines()]
    assert [[row["en"], row["ref"]] for row in rows] == own
    right = {row["said"] for row in rows if row["right"]}
    assert right == {row["said"] for row in rows if row["said"] == row["ref"]} | ALSO_RIGHT, (
        "an accepted answer that nobody gives any more, or a judgment that is out of date"
    )


def test_a_page_shows_where_the_later_layers_looked():
    translator, dice = words(n_decoder_layers=3), torch.Generator().manual_seed(1)
    with torch.no_grad():  # weights that give words of the list
        for weight in translator.model.parameters():
            weight.add_(torch.randn(weight.shape, generator=dice), alpha=0.5)
    [row] = try_it(translator, [("I see a cats.", "x")], lambda english: 0)
    target = translator.target_tokenizer
    ids = [BOS] + [i for word in row["t"] for i in target.encode(word)[:-1]]
    assert len(ids) == len(row["t"]) + 1, "a word isn't in the list: another seed is needed"
    source = torch.tensor([translator.source_tokenizer.encode(row["en"])])
    with torch.no_grad(), record_attention(translator.model) as maps:
        translator.model(source, torch.tensor([ids]))
    mean = torch.stack(maps["cross"][1:]).mean((0, 2))[0, :-1]
    letters = "".join(LETTERS[i] for i in (mean * 63).round().long().flatten())
    assert row["w"] == letters, "not the mean over the later layers"


def test_a_watched_search_is_the_search():
    translator, english = words(), PAIRS[0][0]
    source = torch.tensor([translator.source_tokenizer.encode(english)])
    [answer] = beam_search(translator.model, source, 2)
    steps = beam_steps(translator, english, 2)
    shown = {word for candidates in steps for _, _, word in candidates}
    assert {translator.target_tokenizer.decode([i]).strip() for i in answer} <= shown
    assert len(steps) >= len(answer)


def test_nothing_in_the_view_of_sentences_ends_its_script():
    row = {"en": "</script><b onclick=alert(1)>", "ref": "{{data}}", "said": "<!--<script>"}
    row |= {"seen": False, "s": ["]]>"], "t": ["\u2028"], "w": "A"}
    page, empty = try_it_page([row]), try_it_page([])
    for sign in "</script>", "<script", "<b ", "\u2028":
        assert page.count(sign) == empty.count(sign), f"{sign} of a sentence has become HTML"
    data = page.partition('<script type="application/json"')[2].partition(">")[2]
    assert json.JSONDecoder().raw_decode(data)[0] == [row]


# In a browser -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return write_page(tmp_path_factory.mktemp("try"), try_it_page())


@pytest.fixture
def view(visit, site):
    return lambda **looks: visit(site, ".tl-try", **looks)


def english(page):
    return page.out("s").get_attribute("aria-label").partition(": ")[2]


def typed(page):
    return "".join(page.texts("[data-piece]:not(.tl-un)"))


def chosen(page):
    return page.at(".tl-say button[aria-pressed=true]").inner_text()


def test_it_opens_on_the_running_sentence(view):
    page = view()
    assert (english(page), chosen(page)) == (TIRED, "c'")
    assert page.at("path.tl-on").count() > 1
    assert page.texts("[data-out=t] .tl-off") == ["que", "c'"], "words that differ are marked"


def test_the_suggestion_is_typed_piece_by_piece_and_comes_back(view):
    page = view(motion="no-preference")
    page.do("try")
    page.wait("busy")
    assert english(page) == WIDE and "large" not in typed(page), "typed, not shown at once"
    page.wait()
    assert typed(page).endswith("large.") and chosen(page) == "elle"
    assert page.at(".tl-off").count() == 0, "word for word ours"
    page.do("try")
    page.wait()
    assert english(page) == TIRED


def test_filters_show_what_they_count(view, rows):
    page = view()
    wrong = {row["en"] for row in rows if not row["right"]}
    everything = {row["en"] for row in rows}
    for name, expected in (("pair", {TIRED, WIDE}), ("failures", wrong), ("all", everything)):
        button = page.at(f"[data-filter={name}]")
        button.click()
        listed = set(page.texts("[data-out=list] [lang=en]"))
        assert listed == expected and button.inner_text().endswith(f" {len(expected)}")


def test_the_keyboard_is_enough(view):
    page = view()
    page.at("[data-filter=all]").focus()
    page.keys("Tab*2 Enter Tab ArrowDown")
    assert english(page) not in (TIRED, WIDE)
    page.keys("ArrowUp")
    assert english(page) == TIRED
    for keys, word in (("Tab End", "⟨end⟩"), ("Home", "The"), ("Tab ArrowRight", "animal")):
        page.keys(keys)
        assert chosen(page) == word, keys
    page.keys("Tab Enter")
    assert english(page) == WIDE


@pytest.mark.parametrize("width", [900, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_fits_and_stands_out(view, width, dark):
    page = view(width=width, dark=dark)
    page.check_looks()
    for mark in "path.tl-on", "path:not(.tl-on)":
        page.check_contrast(f".tl-try {mark}", "stroke", 3)
    page.at("[data-out=list] button").last.click()  # the longest sentence
    page.check_looks()
