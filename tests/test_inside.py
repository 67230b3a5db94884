"""Inside the model: the page shows what the package computes, its record before the model is loaded
and the model itself afterwards; each switch does what the package does without that part."""

import base64
import json
import math
import re
from pathlib import Path

import build
import engine_models as packing
import pytest
import torch
from markdown_it import MarkdownIt
from plugins.pages import Page, write_page

from litbook.live import inside
from litbook.live.map_view import packed
from transformer_lit.attention_analysis import compute_attention
from transformer_lit.corpora.files import shipped
from transformer_lit.decoding import beam_search, greedy_decode
from transformer_lit.masks import BOS, EOS
from transformer_lit.translation import Translator

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "book" / "inside.md").read_text("utf-8")
DUCHESS = inside.EXAMPLES["noHeads:cross.1.2"]


@pytest.fixture(scope="module")
def translator():
    return Translator.load(shipped("data/checkpoints/pocket"))


@pytest.fixture(scope="module")
def model(translator):
    return translator.model.eval()


@pytest.fixture(scope="module")
def script(translator):
    return inside.script(translator)


@pytest.fixture(scope="module")
def record(script):
    assert len(script.encode()) < 60_000, "the page carries this before anybody asks for it"
    return json.loads(script[script.index("= ") + 2 : -2])


# The record and the package -----------------------------------------------------------------------


def test_the_record_is_what_the_package_computes(record, translator, model):
    source = torch.tensor([translator.source_tokenizer.encode(inside.RUNNING)])
    ids, target = [token for token, _ in record["steps"]], translator.target_tokenizer
    assert ids == [*greedy_decode(model, source)[0], EOS]
    assert record["text"] == target.decode(ids)
    with torch.no_grad():
        logits = model(source, torch.tensor([[BOS] + ids[:-1]]))[0].log_softmax(-1)
    for (token, top), row in zip(record["steps"], logits, strict=True):
        assert top[0][0] == token
        best = torch.tensor([log_prob for _, log_prob in top])
        assert torch.allclose(best, row.topk(5).values, atol=1e-3)
    ended = [row for rows in record["beam"] for row in rows if row[4] == "ended"]
    best = max(ended, key=lambda row: row[2])
    assert best[3] == target.decode(beam_search(model, source)[0])
    maps, _, _ = compute_attention(translator, [(inside.RUNNING, record["text"])])
    for kind, layers in maps.items():
        weights = base64.b64encode(packed(layers[:, 0], False)).decode()
        assert record["attention"][kind]["weights"] == weights


def test_a_model_is_mended_afterwards(record, model):
    source, target = torch.tensor([record["source"]]), torch.tensor([[BOS, 28, 261]])
    with torch.no_grad():
        before = model(source, target)
        for parts in inside.single_breaks(model.config).values():
            with inside.broken(model, **parts):
                pass
        with inside.broken(model, noNorm=["encoder.1"], noResidual=["encoder.1"], noCross=True):
            assert not torch.allclose(model(source, target), before)
        assert torch.equal(model(source, target), before)
    with pytest.raises(TypeError), inside.broken(model, noHat=True):
        pass


def test_each_example_is_broken_by_its_switch(record):
    for key, (text, unbroken, broken) in record["examples"].items():
        assert unbroken[1] != broken[1], f"{key}: {text}"
    assert set(re.findall(r'data-example="([^"]+)"', PAGE)) == set(record["examples"])


# The page -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory, script):
    "The address of the page as the build makes it, without the theme around it."
    folder = tmp_path_factory.mktemp("inside")
    packing.write(folder / "engine")
    body = build.filled(PAGE, {"size": "{} MB".format, "pads": lambda: "8"})
    address = write_page(folder, MarkdownIt("commonmark", {"html": True}).render(body))
    (folder / "_static" / "inside-record.js").write_text(script, "utf-8")
    return address


class Inside(Page):
    def wait(self, *states):
        super().wait(*states, of=".tl-in[data-block=ask]")


@pytest.fixture
def opened(visit, site):
    return lambda place="", **looks: visit(site + place, "", Inside, **looks)


def off(page):
    switches = page.locator('[data-key][aria-checked="false"]')
    return switches.evaluate_all("all => all.map(one => one.dataset.key)")


def translate(page, text=None, name=None, state="done"):
    "Load and translate."
    if text is not None:
        page.out("text").fill(text)
    if name:
        page.check(f'input[value="{name}"]')
    page.do("go")
    page.wait(state)


def ids(page):
    return [int(text) for text in page.texts('[data-out="said"] small')]


def broken_words(page):
    return page.texts('[data-out="now"] .tl-in-word')


def encoded(translator, text=inside.RUNNING):
    return translator.source_tokenizer.encode(text)


def test_before_the_model_is_loaded_the_record_is_there_and_nothing_pretends(opened, record):
    page = opened()
    assert ids(page) == [token for token, _ in record["steps"]]
    assert page.texts('[data-out="read"] b') == [*record["pieces"][:-1], "end"]
    live = '[data-out="top"] button, [data-try], [data-do=own], [data-do=mend]'
    assert not page.locator(live).filter(visible=True).count(), "the model isn't there yet"
    for key in "noCross", "noScale":
        page.at(f'[data-key="{key}"]').click()
        assert off(page) == [key], "the record knows one switch at a time"
    page.do("mend")
    assert not broken_words(page) and not off(page)


def test_the_five_likeliest_are_the_packages_and_add_up(opened, translator, model):
    page, text = opened(), "The dog is older than the cat."
    translate(page, text)
    steps = inside.greedy_steps(model, encoded(translator, text))
    assert ids(page) == [token for token, _ in steps]
    names = dict(enumerate(translator.target_tokenizer.tokens)) | {EOS: "end"}
    for i, (_, top) in enumerate(steps):
        page.locator(f'[data-step="{i}"]').click()
        bars = page.locator('[data-out="top"] .tl-in-bar')
        pieces = bars.locator("b").all_inner_texts()
        percents = [float(p.strip("<%")) for p in bars.locator("span").all_inner_texts()]
        assert pieces == [names[token] for token, _ in top]
        expected = [100 * math.exp(log_prob) for _, log_prob in top]
        assert percents == pytest.approx(expected, abs=0.06)
        five, others = map(float, re.findall(r"([\d.]+)%", page.out("sum").inner_text())[:2])
        assert [five, five + others] == pytest.approx([sum(percents), 100], abs=0.1)


def test_another_token_and_the_sentence_goes_on_as_the_package_does(opened, translator, model):
    page, tokens = opened(), translator.target_tokenizer.tokens
    translate(page)
    steps = inside.greedy_steps(model, encoded(translator))
    at = [tokens[token] for token, _ in steps[:-1]].index("il")  # the page opens on it
    choices = [token for token, _ in steps[at][1]]
    choice = [tokens[token] for token in choices].index("elle")
    page.locator(f'[data-choice="{choice}"]').click()
    page.wait()
    prefix = [token for token, _ in steps[:at]] + [choices[choice]]
    following = inside.greedy_steps(model, encoded(translator), prefix)
    assert ids(page) == prefix + [token for token, _ in following]
    page.do("own")
    page.wait()
    assert ids(page) == [token for token, _ in steps]


def test_every_switch_of_the_engine_is_what_the_package_does(opened, translator, model, record):
    "All of them on the running sentence, and each on its example."
    page, singles = opened(), inside.single_breaks(model.config)
    expected = record["broken"]
    cases = {key: (record["source"], off, expected[key][1]) for key, off in singles.items()}
    for name, (text, _, answer) in record["examples"].items():
        cases[f"example of {name}"] = encoded(translator, text), singles[name], answer[1]
    answers = page.evaluate(
        """async ([cases, maxLength, n]) => {
      const engine = await tlLive.engine("pocket"), all = [];
      for (const [ids, broken] of cases) {
        const options = {beam: 1, maxLength, broken, pads: broken.noSourceMask ? n : 0};
        all.push((await engine.answer(ids, options)).ids);
      }
      return all;
    }""",
        [list(cases.values()), inside.MOST, inside.PADS],
    )
    expected = {name: answer for name, (_, _, answer) in cases.items()}
    assert dict(zip(cases, answers, strict=True)) == expected


def test_switches_of_the_page_change_the_answer_as_the_package_does(opened, translator, model):
    page, parts = opened(), {}
    translate(page, DUCHESS)
    for name, part in (
        ("noHeads:cross.1.2", {"noHeads": [("cross", 1, 2)]}),
        ("noPositions:source", {"noPositions": "source"}),
        ("stuckPosition", {"stuckPosition": True}),
        ("noCross", {"noCross": True}),
    ):
        page.at(f'[data-key="{name}"]').click()
        page.wait()
        parts |= part
        _, expected, _ = inside.broken_answer(translator, DUCHESS, parts)
        assert ids(page)[:-1] == expected, f"the page isn't broken by {name}"
        assert broken_words(page) == [translator.target_tokenizer.tokens[i] for i in expected]
    page.do("mend-top")
    page.wait()
    assert not off(page) and not broken_words(page), "a part is still switched off"


PRESETS = {*re.findall(r'id="(\w+)" data-preset', PAGE)} - {"noEncoder"}  # all heads of it


@pytest.mark.parametrize("place", sorted(PRESETS))
def test_an_address_turns_its_switch(opened, place, record):
    page = opened(f"#{place}")
    switches = off(page)
    assert switches and {name.partition(":")[0] for name in switches} == {place}
    tokens = record["broken"][switches[0]][1]
    assert broken_words(page) == [record["names"][str(token)] for token in tokens]
    assert 0 < page.locator(f"#{place}").bounding_box()["y"] < 900, "the switch is out of sight"


def test_every_control_by_keyboard(opened):
    page = opened()
    page.keys("Tab")
    assert page.focused("id") == "in-text"
    page.keys("Enter")
    page.wait()
    page.locator('[data-step][aria-pressed="true"]').focus()
    here = int(page.focused("dataset.step"))
    page.keys("ArrowRight")
    assert page.focused("dataset.step") == str(here + 1)
    page.locator('[data-out="heads-cross"] [aria-pressed="true"]').focus()
    page.keys("ArrowUp")
    assert page.focused("dataset.head") == "1.0"
    page.locator('[data-out="heads-encoder"] button').first.press("Enter")
    page.out("map").focus()
    page.keys("ArrowRight*2")
    words = re.findall("“(.*?)”", page.out("map-say").inner_text())
    assert words == ["The", "animal"], "the cell of the first row and the second column"
    page.locator('[data-choice="1"]').press("Enter")
    page.wait()
    assert page.focused("dataset.choice") == "1"
    for name in "grow", "play":
        page.at(f"[data-do={name}]").press("Enter")
        page.wait("busy")
        page.at(f"[data-do={name}]").press("Enter")
        page.wait()
    page.locator('[data-all="cross"]').press("Space")
    page.wait()
    assert len(off(page)) == 12
    page.locator("[data-try]").first.press("Enter")
    page.wait()
    assert page.out("text").input_value() == DUCHESS and broken_words(page)


@pytest.mark.parametrize("text", ["", "very " * 60 + "old", "x " * 20_000])
def test_what_cannot_be_shown_is_refused(opened, text):
    page = opened()
    translate(page, text, state="refused")
    assert page.out("say").inner_text() and ids(page), "what was there stays"


def test_the_other_translator_has_other_heads(opened):
    page, text = opened("#noHeads"), "My old umbrella is broken."
    large = Translator.load(shipped("data/checkpoints/open-fr"))
    translate(page, text, "open-fr")
    assert page.locator(".tl-in-dots button").count() == 48 and not off(page)
    assert not page.locator("[data-try]:visible").count(), "examples are of the pocket translator"
    assert ids(page)[:-1] == greedy_decode(large.model, torch.tensor([encoded(large, text)]))[0]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_and_axe_finds_nothing_serious(opened, width, dark):
    page = opened("#noCross", width=width, dark=dark)
    if width == 390:
        translate(page, DUCHESS)
        assert off(page) == ["noCross"], "a switch outlives the loading"
    page.check_looks(".tl-in")
