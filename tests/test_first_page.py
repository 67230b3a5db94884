"""The first page: the running sentence is said by the pocket translator, and its switch shows what
the weights say; any other sentence by one of the shipped two. What is recorded in the page and what
the engine says in it are what the package says."""

import html
import json
import re
import shutil
import time
from pathlib import Path

import engine_models as packing
import pytest

from transformer_lit.attention_analysis import alignment_error_rate
from transformer_lit.pocket_corpus import load_pocket
from litbook.live import first_page
from transformer_lit.serving.confidence import load_calibration, translate_with_scores
from transformer_lit.corpora.files import shipped
from litbook.word_maps import cross_weights, maps_of
from transformer_lit.translation import Translator, split_long_text, clean_input

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def translator():
    return Translator.load(shipped("data/checkpoints/pocket"))


@pytest.fixture(scope="module")
def cases(translator):
    return [first_page.looks_of(translator, adjective) for adjective in first_page.WORDS]


def test_the_last_word_decides_the_pronoun(cases):
    tired, wide = cases
    assert tired["french"][tired["pronoun"]] == "il" and wide["french"][wide["pronoun"]] == "elle"
    assert [word for word, other in zip(tired["english"], wide["english"]) if word != other] == [
        "tired"
    ]


def test_the_pronouns_link_and_note_are_the_weights(cases):
    for case, adjective in zip(cases, first_page.WORDS):
        (link,) = [link for link in case["links"] if link["pronoun"]]
        assert (
            link["row"] == case["pronoun"]
            and case["english"][link["word"]] == adjective
            and link["weight"] > 0.5
        )
        assert f"{link['weight']:.0%}" in case["note"] and adjective in case["note"]
        assert all(
            0 <= link["word"] < len(case["english"]) and 0 <= link["row"] < len(case["french"])
            for link in case["links"]
        )
        assert len({link["row"] for link in case["links"]}) == len(
            case["links"]
        ), "one link for each word"


def test_the_page_can_be_read_without_a_script(translator, cases):
    page = first_page.running_sentence(
        "<p>{{english}}|{{french}}|{{note}}|{{pocket}}</p><i data='{{data}}'></i>",
        translator,
        "3 MB",
    )
    assert "{{" not in page and page.count("<span>") == len(cases[0]["english"]) + len(
        cases[0]["french"]
    )
    assert (
        json.loads(html.unescape(re.search("data='([^']*)'", page.replace("&#x27;", "&apos;"))[1]))[
            "cases"
        ]
        == cases
    )


# What the page does with the engine, in a browser -------------------------------------------------


@pytest.fixture(scope="module")
def shipped_one():
    return Translator.load(shipped("data/checkpoints/tatoeba-fr"))


@pytest.fixture(scope="module")
def other_one():
    return Translator.load(shipped("data/checkpoints/mixture-fr"))


@pytest.fixture(scope="module")
def site(tmp_path_factory, translator, shipped_one, other_one):
    "A folder as the built book has it: the page, its scripts, the engine."
    folder, static = tmp_path_factory.mktemp("site"), ROOT / "book" / "web" / "static"
    for name in "book.css", "live.js", "first.js":
        (folder / "_static").mkdir(exist_ok=True)
        shutil.copy(static / name, folder / "_static")
    views = first_page.running_sentence(
        (static.parent / "templates" / "first.html").read_text("utf-8"), translator, "3 MB"
    ) + first_page.any_sentence(
        (static.parent / "templates" / "ask.html").read_text("utf-8"),
        {"tatoeba-fr": (shipped_one, "13 MB"), "mixture-fr": (other_one, "14 MB")},
    )
    (folder / "book").mkdir()
    (folder / "book" / "index.html").write_text(
        '<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8"><meta'
        ' name="viewport" content="width=device-width"><title>t</title><link rel="stylesheet"'
        ' href="../_static/book.css"><style>body { color: var(--pst-color-text-base); background:'
        " var(--pst-color-background); }</style><body"
        f' class="bd-article"><main><h1>t</h1>{views}</main><script'
        ' src="../_static/live.js"></script><script src="../_static/first.js"></script>',
        "utf-8",
    )
    packing.write(folder / "engine")
    return folder


@pytest.fixture
def visit(browser, site):
    "A function that opens the page from its folder; nothing may fail and nobody may be asked."
    opened, problems = [], []

    def load(width=900, motion="reduce", dark=False):
        page = browser.new_page(
            viewport={"width": width, "height": 900},
            reduced_motion=motion,
            color_scheme="dark" if dark else "light",
        )
        opened.append(page)
        page.set_default_timeout(180_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "request",
            lambda request: (
                problems.append(request.url)
                if not request.url.startswith(("file:", "blob:", "data:"))
                else None
            ),
        )
        page.goto((site / "book" / "index.html").as_uri())
        if dark:
            page.evaluate("document.documentElement.dataset.theme = 'dark'")
        return page

    yield load
    for page in opened:
        page.close()
    assert not problems, problems


def words(page, view, side="fr"):
    return page.locator(f"{view} [data-out={side}] span:not(.tl-unsaid)").all_inner_texts()


def status(page, view):
    return page.locator(f"{view} .tl-first-note[role=status]").text_content()


def settled(page, *told):
    "The field's status, once it says one of these."
    page.wait_for_function(
        "told => told.some(one => document.querySelector('.tl-ask"
        " [role=status]').textContent.includes(one))",
        arg=list(told),
    )
    return status(page, ".tl-ask")


def ask(page, text, *told):
    page.locator("textarea").fill(text)
    page.locator("textarea").press("Enter")
    return settled(page, *(told or ("seconds on this device",)))


def test_nothing_of_the_engine_comes_before_it_is_asked_for(visit):
    page = visit()
    assert (
        page.evaluate(
            "performance.getEntriesByType('resource').filter(one =>"
            " one.name.includes('/engine/')).length + !!window.tlEngine"
        )
        == 0
    )
    assert (
        not page.locator(".tl-first select").count()
        and "MB, stays on this device" in page.locator(".tl-ask [data-do=load]").inner_text()
    )
    page.get_by_role("button", name="wide").click()
    assert (
        "elle" in words(page, ".tl-first")
        and "recorded" in page.locator(".tl-first-how").inner_text().lower()
    )


def test_the_switch_runs_live_and_says_what_the_package_says(visit, translator, cases):
    page = visit()
    drawn = []
    for adjective in first_page.WORDS:
        page.get_by_role("button", name=adjective, exact=True).click()
        drawn.append(
            (
                page.locator(".tl-first path").count(),
                page.locator(".tl-first-note [data-out=note]").text_content(),
            )
        )
    page.locator(".tl-first [data-do=load]").click()
    page.wait_for_selector(".tl-first select")
    page.wait_for_function("document.querySelector('.tl-first-note').textContent.includes('Right')")
    for case, adjective, (paths, note) in zip(cases, first_page.WORDS, drawn):
        page.get_by_role("button", name=adjective, exact=True).click()
        page.wait_for_function(
            "word => document.querySelector('.tl-first"
            " [data-out=note]').textContent.includes('Right: ' + word)",
            arg=adjective,
        )
        assert (
            words(page, ".tl-first") == case["french"]
            and words(page, ".tl-first", "en") == case["english"]
        )
        assert page.locator(".tl-first path").count() == paths == len(case["links"]) and status(
            page, ".tl-first"
        ).split("Right")[0].strip().endswith(note)
    for name, word in (("first", "cow"), ("second", "bridge"), ("adjective", "slow")):
        page.locator(f"select[name={name}]").select_option(word)
    page.wait_for_function(
        "document.querySelector('.tl-first [data-out=note]').textContent.includes('slow describes"
        " the cow')"
    )
    (answer,) = translator.translate(["The cow didn't cross the bridge because it was too slow."])
    assert f"French: {answer} " in status(page, ".tl-first")
    assert (
        page.locator(".tl-first button[aria-pressed=true]").count() == 0
    ), "slow is neither tired nor wide"


def test_the_menus_are_the_corpuss_words(translator):
    menus = first_page.menus()
    known = set(translator.source_tokenizer.tokens)
    assert all(
        {noun for noun, _, _ in menus[side]} <= known for side in ("first", "second")
    ) and known > {*menus["ofFirst"], *menus["ofSecond"]}
    assert not {*menus["ofFirst"]} & {
        *menus["ofSecond"]
    }, "an adjective of both nouns would leave the pronoun open"
    genders = {noun: gender for noun, _, gender in menus["first"] + menus["second"]}
    assert (
        genders["animal"] == "m"
        and genders["street"] == "f"
        and not any("*" in french for _, french, _ in menus["first"])
    )


@pytest.mark.parametrize("name", first_page.SHIPPED)
def test_the_drawn_layer_is_the_one_that_aligns_best(name):
    one = Translator.load(shipped(f"data/checkpoints/{name}"))
    pairs, config = load_pocket()["valid"][:60], one.model.config
    maps = maps_of(cross_weights(one.model), pairs, one.source_tokenizer)
    rates = alignment_error_rate(maps, [pair.alignment for pair in pairs]).flatten()[
        config.n_decoder_layers * config.n_heads :
    ]
    assert int(rates.argmin()) == first_page.LAYER and rates.min() < 0.25


def test_the_shipped_one_avoids_the_pronoun_as_the_page_says(shipped_one):
    said = first_page.recorded(
        shipped_one,
        load_calibration(shipped("data/checkpoints/tatoeba-fr")),
        first_page.RUNNING.format("tired"),
    )["french"]
    assert (
        "c'" in said
        and not {"il", "elle"} & set(said)
        and "avoids the choice between *il* and *elle*" in (ROOT / "book" / "index.md").read_text(
            "utf-8"
        )
    )


@pytest.mark.slow
def test_the_field_says_what_the_package_says(visit, shipped_one):
    page = visit()
    recorded = {}
    for button in page.locator(".tl-ask-list button").all():
        button.click()
        recorded[button.inner_text()] = (
            words(page, ".tl-ask"),
            page.locator(".tl-ask path").count(),
            page.locator("[data-out=list]").text_content(),
        )
    assert set(recorded) == set(first_page.RECORDED)
    page.locator("textarea").fill("I love you.")
    page.locator(".tl-ask [data-do=load]").click()
    assert f"French: {shipped_one.translate(['I love you.'], 1)[0]} " in settled(page, "greedy.")
    page.get_by_label("beam of 4").check()
    assert f"French: {shipped_one.translate(['I love you.'])[0]} " in settled(
        page, "with a beam of 4."
    )
    worth, doubted = load_calibration(shipped("data/checkpoints/tatoeba-fr")), set()
    for text in "I love you.", "The senate ratified the treaty amid widespread scepticism.":
        for beam, label in (1, "greedy"), (4, "beam of 4"):
            page.get_by_label(label).check()
            told = ask(page, text)
            (sure,) = translate_with_scores(shipped_one, [text], beam)
            assert (
                abs(
                    int(re.search(r"scored (?:at most )?(\d+) of 100", told)[1])
                    - worth(sure.log_prob)
                )
                <= 1
            ), (text, label)
            grey = worth(sure.log_prob) < first_page.DOUBT
            assert (
                page.locator(".tl-ask").get_attribute("data-doubt") == ("" if grey else None)
                and ("don't rely on it" in told) == grey
            )
            doubted |= {text} if grey else set()
    assert doubted == {text}, "the second is beyond it"
    for text, (french, lines, listed) in recorded.items():
        page.get_by_role("button", name=text).click()
        page.wait_for_function(
            "text => !document.querySelector('.tl-ask').hasAttribute('data-busy') &&"
            " [...document.querySelectorAll('.tl-ask [data-out=en] span')].map(e =>"
            " e.textContent).join('').length == text.replaceAll(' ', '').length",
            arg=text,
        )
        settled(page, "seconds on this device")
        found = page.locator("[data-out=list]").text_content()
        assert words(page, ".tl-ask") == french and page.locator(".tl-ask path").count() == lines
        assert re.sub(r"\d+", "", found) == re.sub(r"\d+", "", listed), "the same lines"
        assert all(
            abs(int(a) - int(b)) <= 1
            for a, b in zip(
                re.findall(r"(\d+)%", found), re.findall(r"(\d+)%", listed), strict=True
            )
        )
        assert page.locator("textarea").input_value() == text


@pytest.mark.slow
def test_the_two_translators_are_chosen_by_what_they_have_read(visit, shipped_one, other_one):
    """Recorded answers of either before anything is fetched; then each says live what the package
    says, and is fetched once."""
    page, said = visit(), {}
    for title, one in zip(first_page.SHIPPED.values(), (shipped_one, other_one)):
        page.get_by_label(title, exact=True).check()
        page.get_by_role("button", name="I live in Lyon.").click()
        (said[title],) = one.translate(["I live in Lyon."])
        assert "".join(words(page, ".tl-ask")) == said[title].replace(
            " ", ""
        ) and f"French: {said[title]} Recorded" in status(page, ".tl-ask")
    assert (
        len(set(said.values())) == 2
        and "14 MB" in page.locator(".tl-ask [data-do=load]").inner_text()
    )
    page.locator("textarea").fill("Two dogs run along the beach.")
    page.locator(".tl-ask [data-do=load]").click()
    for one in other_one, shipped_one, other_one:
        if one is shipped_one:
            page.get_by_label("everyday sentences").check()
            if page.locator(".tl-ask [data-do=load]").is_visible():
                assert (
                    "Recorded" in status(page, ".tl-ask")
                    and "13 MB" in page.locator(".tl-ask [data-do=load]").inner_text()
                    and page.get_by_role("button", name="Translate").is_hidden()
                )
                page.locator(".tl-ask [data-do=load]").click()
        elif page.get_by_label("everyday sentences").is_checked():
            page.get_by_label("captions").check()
        (answer,) = one.translate(["Two dogs run along the beach."], 1)
        page.wait_for_function(
            "said => document.querySelector('.tl-ask [role=status]').textContent.startsWith(said)",
            arg=f"French: {answer} ",
        )
        told = settled(page, "seconds on this device")
        (sure,) = translate_with_scores(one, ["Two dogs run along the beach."], 1)
        worth = load_calibration(
            shipped(f"data/checkpoints/{'tatoeba-fr' if one is shipped_one else 'mixture-fr'}")
        )
        assert (
            abs(
                int(re.search(r"scored (?:at most )?(\d+) of 100", told)[1])
                - worth(sure.log_prob)
            )
            <= 1
        ), "each by its own measure"
    assert page.locator(".tl-ask [data-do=load]").is_hidden()


@pytest.mark.slow
def test_odd_texts_get_an_answer_or_one_sentence(visit, shipped_one):
    page = visit()
    assert "isn't here yet" in ask(page, "I love you.", "isn't here yet")
    page.locator("textarea").fill("")
    page.locator(".tl-ask [data-do=load]").click()
    settled(page, "translator is loaded")
    assert "nothing to translate" in ask(page, " \n ", "nothing")
    page.locator("textarea").fill("")
    start = time.monotonic()
    page.locator("textarea").focus()
    page.keyboard.insert_text("They left. " * 190_000)  # as if it were pasted
    assert (
        "2,090,000 characters, 20,000 are the most" in settled(page, "the most")
        and page.locator("textarea").input_value() == ""
    )
    assert time.monotonic() - start < 120, "not letter by letter"
    for text, note in (
        ("שלום עולם, מה נשמע?", "other scripts"),
        ("مرحبا", "other scripts"),
        ("😀 !", "no words"),
        ("42", "no words"),
    ):
        said = ask(page, text, note)
        assert (
            said.endswith("It wasn't translated.")
            and "French" not in said
            and not words(page, ".tl-ask")
        )
        assert "".join(words(page, ".tl-ask", "en")) == text.replace(" ", "")
    for text, plain in (
        ("I 😀 love you 👩‍👩‍👧🇫🇷 ❤️.", "I love you."),
        ("It is 5 o'clock 👍🏽!", "It is 5 o'clock!"),
    ):
        said = ask(page, text)
        assert (
            f"French: {shipped_one.translate([plain], 1)[0]} Emoji are left out" in said
            and "".join(words(page, ".tl-ask", "en")) == plain.replace(" ", "")
        )
    for text in (
        "Ceci n'est pas une pipe.",
        "I said שלום to my old friend.",
        "x" * 300,
        "<b>I</b> love you & {{data}}",
    ):
        assert f"French: {shipped_one.translate([text], 1)[0]} " in ask(page, text)
    three = "She has to go home, because they were too late. " * 3
    parts = len(
        split_long_text(
            clean_input(three),
            lambda part: len(shipped_one.source_tokenizer.encode(part)),
            *shipped_one.length_limits,
        )
    )
    ask(page, three)
    assert (
        page.locator("[data-out=all]").inner_text() == shipped_one.translate([three], 1)[0]
        and parts > 1
    )
    assert page.locator("[data-out=page]").inner_text() == f"part 1 of {parts}"
    page.get_by_role("button", name="Next").click()
    assert (
        page.locator("[data-out=page]").inner_text() == f"part 2 of {parts}"
        and words(page, ".tl-ask", "en")[0] == "She"
    )


@pytest.mark.slow
def test_a_long_text_can_be_stopped(visit):
    page = visit(motion="no-preference")
    page.locator(".tl-ask [data-do=load]").click()
    settled(page, "translator is loaded")
    page.locator("textarea").fill("They were too tired to go home, and it was late. " * 300)
    page.get_by_role("button", name="Translate").click()
    page.wait_for_function("document.querySelector('[data-out=all]').textContent.length > 100")
    slowest = page.evaluate(
        """() => new Promise(done => { let last = performance.now(), slowest = 0, n = 0;
        (function tick() {
          const now = performance.now();
          slowest = Math.max(slowest, now - last);
          last = now;
          n++ < 60 ? setTimeout(tick, 10) : done(slowest);
        })();
      })"""
    )
    assert slowest < 10_000, "the page was held up"
    page.get_by_role("button", name="Stop").click()
    assert settled(page, "Stopped.") and page.locator("[data-do=stop]").is_hidden()
    assert page.evaluate("document.activeElement.tagName") == "TEXTAREA"
    page.get_by_label("greedy").check()
    assert "French: Je t'aime. " in ask(page, "I love you.")
    assert page.locator("[data-out=all]").is_hidden()


@pytest.mark.slow
def test_a_folder_without_the_engine_is_told_in_one_sentence(visit, site):
    page = visit()
    (site / "engine").rename(site / "gone")
    try:
        for view in ".tl-first", ".tl-ask":
            page.locator(f"{view} [data-do=load]").click()
        page.wait_for_function(
            "document.querySelector('.tl-first-how').textContent.includes('could not be loaded')"
        )
        assert (
            "Try again." in settled(page, "could not be loaded")
            and "MB" in page.locator(".tl-ask [data-do=load]").inner_text()
        )
    finally:
        (site / "gone").rename(site / "engine")
    page.locator(".tl-first [data-do=load]").click()
    page.wait_for_selector(".tl-first select")


def test_a_reader_who_goes_on_keeps_the_focus(visit):
    "What is loading takes the focus only from the button that was pressed."
    page = visit()
    page.evaluate(
        """() => { const engine = tlLive.engine; tlLive.engine = async (...given) => {
        const found = await engine(...given);
        await new Promise(go => { window.arrive = go; });
        return found;
      }; }"""
    )
    page.locator(".tl-first [data-do=load]").click()
    page.locator("textarea").focus()
    page.wait_for_function("Boolean(window.arrive)")
    page.evaluate("arrive()")
    page.wait_for_selector(".tl-first select")
    assert page.evaluate("document.activeElement.tagName") == "TEXTAREA"
    page.evaluate("delete window.arrive")
    page.locator(".tl-ask [data-do=load]").click()
    page.locator("textarea").focus()
    page.keyboard.type("I love y")
    page.wait_for_function("Boolean(window.arrive)")
    page.evaluate("arrive()")
    page.wait_for_selector(".tl-ask [data-do=go]:not([hidden])")
    assert page.evaluate(
        "document.activeElement.tagName"
    ) == "TEXTAREA" and "press Enter to translate" in status(
        page, ".tl-ask"
    ), "half a sentence was translated"
    page.keyboard.type("ou.")
    page.keyboard.press("Enter")
    assert "seconds on this device" in settled(page, "seconds on this device")
    assert (
        page.locator(".tl-ask [data-out=said] [lang=fr]").count() == 1
    ), "the French is read as French"


@pytest.mark.slow
def test_by_keyboard_alone(visit):
    "Every control is reached with Tab; the answer is said once, and not for every token."
    page = visit(motion="no-preference")
    page.evaluate(
        """() => { window.heard = [];
        const changes = {childList: true, characterData: true, subtree: true};
        for (const one of document.querySelectorAll('[role=status]'))
        new MutationObserver(() => heard.push(one.textContent)).observe(one, changes); }"""
    )

    def tab_to(name):
        for _ in range(25):
            page.keyboard.press("Tab")
            if page.evaluate(
                "(document.activeElement.getAttribute('aria-label') ||"
                " document.activeElement.textContent || document.activeElement.id)"
            ).startswith(name):
                return
        raise AssertionError(f"no way to {name}")

    tab_to("wide")
    page.keyboard.press("Enter")
    page.wait_for_function("heard.some(one => one.includes('elle'))")
    tab_to("Run it live")
    page.keyboard.press("Space")
    page.wait_for_selector(".tl-first select")
    assert (
        page.evaluate("document.activeElement.name") == "first"
    ), "the button is gone, so the first menu has the focus"
    page.keyboard.type("cow")
    page.wait_for_function("heard.some(one => one.includes('vache'))")
    tab_to("tl-ask-text")
    page.keyboard.type("I love you.")
    tab_to("Load the translator")
    page.keyboard.press("Enter")
    page.wait_for_function("heard.some(one => one.includes('Je t\\'aime.'))")
    assert page.evaluate("document.activeElement.textContent") == "Translate"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "heard.some(one => one.includes('beam of 4.') && one.includes('seconds'))"
    )
    heard = page.evaluate("[...new Set(heard)]")
    assert sum("Je t'aime" in one for one in heard) <= 4 and not [
        one for one in heard if one.startswith("French: Je ") and "aime" not in one
    ], heard


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone_and_axe_finds_nothing(visit, dark):
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed"
    )
    page = visit(width=390, dark=dark)
    for loaded in (False, True):
        if loaded:
            page.locator(".tl-first [data-do=load]").click()
            page.locator("textarea").fill(
                "The animal didn't cross the extraordinarily uninteresting street. She went home."
            )
            page.locator(".tl-ask [data-do=load]").click()
            settled(page, "greedy")
            page.wait_for_selector(".tl-first select")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        found = (
            axe.Axe()
            .run(page, context={"include": [[".tl-first"], [".tl-ask"]]})
            .response["violations"]
        )
        assert not [
            (rule["id"], rule["nodes"][0]["html"][:160])
            for rule in found
            if rule["impact"] in ("serious", "critical")
        ]
        small = page.locator("button:visible, select:visible, textarea").evaluate_all(
            "all => all.filter(e => e.getBoundingClientRect().height < 24).length"
        )
        assert not small, "too small for a finger"


def test_the_longest_text_is_the_engines():
    (live,), (own,) = (
        re.findall(r"LONGEST[:=\s]+(\d+)", path.read_text("utf-8"))
        for path in (ROOT / "book/web/static/live.js", ROOT / "book/web/engine.js")
    )
    assert live == own
