"""The first page: the running sentence is translated by the pocket translator, and its switch shows
what the weights are; any other sentence by the default one. What is recorded in the page and
what the engine answers in it are what the package answers."""

import re
from pathlib import Path

import engine_models as packing
import pytest
from plugins.pages import write_page

from litbook.live import first_page
from transformer_lit.corpora.files import shipped
from transformer_lit.serving.confidence import load_calibration, translate_with_scores
from transformer_lit.translation import Translator

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "book" / "web" / "templates"
RUNNING, ASK = ".tl-first", ".tl-ask"


def checkpoint(name):
    return shipped(f"data/checkpoints/{name}")


@pytest.fixture(scope="module")
def translators():
    return {name: Translator.load(checkpoint(name)) for name in packing.NAMES}


@pytest.fixture(scope="module")
def default(translators):
    return translators[first_page.MODEL]


@pytest.fixture(scope="module")
def cases(translators):
    return [first_page.looks_of(translators["pocket"], word) for word in first_page.WORDS]


def test_the_last_word_turns_the_pronoun_and_a_link_leads_to_it(cases):
    for case, adjective, pronoun in zip(cases, first_page.WORDS, ("il", "elle")):
        assert case["french"][case["pronoun"]] == pronoun
        [link] = [link for link in case["links"] if link["pronoun"]]
        assert link["row"] == case["pronoun"] and link["weight"] > 0.5
        assert case["english"][link["word"]] == adjective
        assert f"{link['weight']:.0%}" in case["note"]


def test_the_menus_are_the_corpuss_words(translators):
    menus, known = first_page.menus(), set(translators["pocket"].source_tokenizer.tokens)
    adjectives = [*menus["ofFirst"], *menus["ofSecond"]]
    assert len(set(adjectives)) == len(adjectives), "an adjective of both leaves the pronoun open"
    genders = {noun: gender for noun, _, gender in menus["first"] + menus["second"]}
    assert known >= {*genders, *adjectives} and (genders["animal"], genders["street"]) == ("m", "f")


# What the page does with the engine, in a browser -------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory, translators):
    "A folder as the built book has it: the page, its scripts, the engine."
    folder = tmp_path_factory.mktemp("site")
    views = first_page.running_sentence(
        (TEMPLATES / "first.html").read_text("utf-8"), translators["pocket"], "3 MB"
    ) + first_page.any_sentence(
        (TEMPLATES / "ask.html").read_text("utf-8"), translators[first_page.MODEL], "14 MB"
    )
    scripts = "".join(f'<script src="../_static/{n}.js"></script>' for n in ("live", "first"))
    packing.write(folder / "engine")
    return folder, write_page(folder, views + scripts)


@pytest.fixture
def front(visit, site):
    return lambda view, **looks: visit(site[1], view, **looks)


def words(page, side="fr"):
    return page.texts(f"[data-out={side}] span:not(.tl-unsaid)")


def joined(page, side="fr"):
    return "".join(words(page, side))


def ask(page, text, state="done"):
    page.at("textarea").fill(text)
    page.at("textarea").press("Enter")
    page.wait(state)
    return page.out("said").text_content()


def load(page):
    page.do("load")
    page.wait("ready", "done")


def check_trust(page, one, text, beam):
    "The score to expect is the calibration's, and an answer that is not to be trusted is gray."
    [answer] = translate_with_scores(one, [text], beam)
    expected = load_calibration(checkpoint(first_page.MODEL))(answer.log_prob)
    score = int(re.search(r"(\d+) of 100", page.out("say").text_content())[1])
    assert abs(score - expected) <= 1, (text, beam)
    is_gray = page.locator(ASK).get_attribute("data-doubt") is not None
    assert is_gray == (expected < first_page.DOUBT), (text, beam)
    return is_gray


def test_nothing_of_the_engine_comes_before_it_is_asked_for(front):
    page = front(RUNNING)
    requests = "performance.getEntriesByType('resource').map(one => one.name)"
    assert not [name for name in page.evaluate(requests) if "/engine/" in name]
    assert not page.evaluate("!!window.tlEngine") and not page.at("select").count()
    page.get_by_role("button", name="wide").click()
    page.wait("done")
    assert "elle" in words(page), "the switch doesn't turn the pronoun"


def test_the_switch_runs_live_and_answers_as_the_package_does(front, translators, cases):
    page = front(RUNNING)
    load(page)
    for case, adjective in zip(cases, first_page.WORDS):
        page.get_by_role("button", name=adjective, exact=True).click()
        page.wait()
        assert (words(page), words(page, "en")) == (case["french"], case["english"])
        assert page.at("path").count() == len(case["links"])
        assert page.out("note").text_content().startswith(case["note"])
    for name, word in (("first", "cow"), ("second", "bridge"), ("adjective", "slow")):
        page.at(f"select[name={name}]").select_option(word)
    page.wait()
    text = "The cow didn't cross the bridge because it was too slow."
    [answer] = translators["pocket"].translate([text])
    assert answer in page.out("said").text_content()


def test_the_field_answers_as_the_package_does(front, default):
    page, records = front(ASK), {}
    for button in page.at(".tl-ask-list button").all():
        button.click()
        page.wait()
        records[button.inner_text()] = words(page), page.at("path").count()
    assert set(records) == set(first_page.RECORDED)
    load(page)
    for text, is_beyond in (
        ("I love you.", False),
        ("The senate ratified the treaty amid widespread scepticism.", True),
    ):
        for beam in 1, 4:
            page.check(f'input[name="tl-way"][value="{beam}"]')
            assert default.translate([text], beam)[0] in ask(page, text)
            is_gray = check_trust(page, default, text, beam)
        assert is_gray == is_beyond
    for text, recorded in records.items():
        page.get_by_role("button", name=text).click()
        page.wait()
        assert (words(page), page.at("path").count()) == recorded


def test_odd_texts_get_an_answer_or_are_refused(front, default):
    page = front(ASK)
    load(page)
    page.at("textarea").focus()
    page.keyboard.insert_text("They left. " * 190_000)  # as if it were pasted
    page.wait("refused")
    assert page.at("textarea").input_value() == ""
    for text in "שלום עולם, מה נשמע?", "😀 !", "42":
        assert ask(page, text, "refused") == "" == joined(page)
    for text, plain in (
        ("I 😀 love you 👩‍👩‍👧🇫🇷 ❤️.", "I love you."),
        ("I said שלום to my old friend.", None),
        ("x" * 300, None),
        ("<b>I</b> love you & {{data}}", None),
    ):
        assert default.translate([plain or text], 1)[0] in ask(page, text)
    long = "She has to go home, because they were too late. " * 3
    ask(page, long)
    assert page.out("all").inner_text() == default.translate([long], 1)[0]
    for number in "12":
        assert number in page.out("page").inner_text(), "its parts can be looked at one by one"
        page.do("on")


def test_a_long_text_can_be_stopped(front):
    page = front(ASK, motion="no-preference")
    load(page)
    page.at("textarea").fill("They were too tired to go home, and it was late. " * 300)
    page.do("go")
    page.wait_for_function("document.querySelector('[data-out=all]').textContent.length > 100")
    page.do("stop")
    page.wait("ready")
    assert "Je t'aime." in ask(page, "I love you.")


def test_without_the_engine_both_refuse_and_can_be_tried_again(front, site):
    page, folder = front(RUNNING), site[0]
    (folder / "engine").rename(folder / "elsewhere")
    for view in RUNNING, ASK:
        page.locator(f"{view} [data-do=load]").click()
        page.wait("refused", of=view)
    (folder / "elsewhere").rename(folder / "engine")
    page.problems.clear()  # a file wasn't there
    load(page)


LATER = """() => { const engine = tlLive.engine; tlLive.engine = async (...given) => {
  const found = await engine(...given);
  await new Promise(go => { window.arrive = go; });
  delete window.arrive;
  return found;
}; }"""


def test_a_reader_who_goes_on_keeps_the_focus(front):
    "What is loading takes the focus only from the button that was pressed."
    page = front(ASK)
    page.evaluate(LATER)
    for view, text in (RUNNING, ""), (ASK, "I love y"):
        page.locator(f"{view} [data-do=load]").click()
        page.at("textarea").focus()
        page.keyboard.type(text)
        page.wait_for_function("Boolean(window.arrive)")
        page.evaluate("arrive()")
        page.wait("ready", "done", of=view)
        assert page.focused() == "TEXTAREA"
    assert page.out("said").text_content() == "", "half a sentence was translated"
    page.keyboard.type("ou.")
    page.keys("Enter")
    page.wait()
    assert page.at("[data-out=said] [lang=fr]").count() == 1, "the French is read as French"


HEARD = """() => { window.heard = [];
  for (const one of document.querySelectorAll('[role=status]'))
    new MutationObserver(() => heard.push(one.textContent)).observe(
      one, {childList: true, characterData: true, subtree: true}); }"""


def test_by_keyboard_alone(front):
    "Every control is reached with Tab; the answer is read out once, and not for every token."
    page = front(ASK, motion="no-preference")
    page.evaluate(HEARD)

    def tab_to(css):
        for _ in range(25):
            page.keys("Tab")
            if page.evaluate("css => document.activeElement.matches(css)", css):
                return
        raise AssertionError(f"no way to {css}")

    tab_to(".tl-switch [aria-pressed=false]")
    page.keys("Enter")
    page.wait("done", of=RUNNING)
    tab_to(f"{RUNNING} [data-do=load]")
    page.keys("Space")
    page.wait("done", of=RUNNING)
    assert page.focused("name") == "first", "the button is gone, so the first menu has the focus"
    page.keyboard.type("cow")
    page.wait("done", of=RUNNING)
    tab_to("textarea")
    page.keyboard.type("I love you.")
    tab_to(f"{ASK} [data-do=load]")
    page.keys("Enter")
    page.wait()
    texts = page.evaluate("[...new Set(heard)]")
    for word, most in (("elle", 3), ("vache", 2), ("Je t'aime", 4)):
        assert 1 <= sum(word in text for text in texts) <= most, texts


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone_and_axe_finds_nothing(front, dark):
    page = front(ASK, width=390, dark=dark)
    page.check_looks(RUNNING, ASK)
    page.locator(f"{RUNNING} [data-do=load]").click()
    page.wait("done", of=RUNNING)
    page.at("textarea").fill("The animal crossed the extraordinarily uninteresting street. Why?")
    load(page)
    page.check_looks(RUNNING, ASK)
