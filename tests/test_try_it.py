"""The view "Try it" of chapter 18: what it is given, and each of its controls, in a browser."""

import json
from pathlib import Path

import pytest

from transformer_lit.corpora.files import shipped
from litbook.live.looks import ALSO_RIGHT, try_it_page

ROOT = Path(__file__).resolve().parent.parent
TIRED = "The animal didn't cross the street because it was too tired."
WIDE = "The animal didn't cross the street because it was too wide."


@pytest.fixture(scope="module")
def rows():
    return json.loads(shipped("results/bench/try_it.json").read_text("utf-8"))


def test_the_record_holds_the_forty_sentences_and_its_judgements(rows):
    own = [line.split("\t") for line in shipped("data/try_it.tsv").read_text("utf-8").splitlines()]
    assert [[row["en"], row["ref"]] for row in rows] == own
    assert {row["said"] for row in rows if row["right"]} == {
        row["said"] for row in rows if row["said"] == row["ref"]
    } | ALSO_RIGHT, (
        "an accepted answer that nobody gives any more, or a judgement that is out of date"
    )
    by = {row["en"]: row for row in rows}
    assert (
        "c'était" in by[TIRED]["said"]
        and "qu'elle était" in by[WIDE]["said"]
        and not by[TIRED]["right"]
        and by[WIDE]["right"]
    )


def test_the_view_is_small_and_asks_nobody():
    page = try_it_page()
    assert len(page.encode()) < 60_000 and "fetch(" not in page and " src=" not in page


def test_what_chapter_18_says_of_the_lines(rows):
    """In the mean over the heads of the later layers the pronoun looks mostly at it, not at the
    adjective and not at a noun."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    row = next(row for row in rows if row["en"] == WIDE)
    at, width = row["t"].index("elle"), len(row["s"])
    weights = [letters.index(letter) for letter in row["w"][at * width : (at + 1) * width]]
    assert row["s"][weights.index(max(weights))] == " it"


# In a browser -------------------------------------------------------------------------------------


class View:
    "The view on a page of its own, in the book's style sheet."

    def __init__(self, browser, width=900, theme="light", motion="no-preference", rows=None):
        css = (ROOT / "book/web/static/book.css").read_text("utf-8")
        self.page = browser.new_page(
            viewport={"width": width, "height": 1000}, color_scheme=theme, reduced_motion=motion
        )
        self.page.set_default_timeout(180_000)  # a shared machine can be slow
        self.errors = []
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.set_content(
            "<!doctype html><html lang='en'"
            f" data-theme='{theme}'><title>t</title><style>{css}body{{margin:0;"
            "background:var(--pst-color-background);color:var(--pst-color-text-base)}</style><main"
            " class='bd-article' style='max-width:704px;margin:0"
            f" auto'><h1>t</h1>{try_it_page(rows)}</main>"
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.page.close()
        assert not self.errors, self.errors

    def at(self, name):
        return self.page.locator(f"[data-out={name}]")

    def do(self, name):
        self.page.locator(f"[data-do={name}]").click()

    def english(self):
        return self.at("s").get_attribute("aria-label")

    def said(self):
        return "".join(self.page.locator("[data-piece]:not(.tl-un)").all_inner_texts())

    def chosen(self):
        return self.page.locator(".tl-say button[aria-pressed=true]").inner_text()

    def settled(self):
        self.page.wait_for_function(
            "document.querySelector('.tl-try [data-out=say]').textContent != ''"
        )

    def lit(self):
        return self.page.locator("path.tl-on").count()


@pytest.mark.slow
def test_it_opens_on_the_running_sentence(browser):
    with View(browser) as view:
        assert view.english() == f"English: {TIRED}" and view.chosen() == "c'" and view.lit() > 1
        assert (
            "“it”" in view.at("say").inner_text()
            and view.at("say").get_attribute("aria-live") == "polite"
        )
        assert view.at("list").locator("button").first.inner_text().endswith(TIRED)
        off = (
            view.page.locator("[data-out=t] .tl-off").all_inner_texts(),
            view.page.locator("[data-out=ref] .tl-off").all_inner_texts(),
        )
        assert off == (["que", "c'"], ["qu'", "il"]) and "failure" in view.at("facts").inner_text()


@pytest.mark.slow
def test_the_suggestion_is_performed_piece_by_piece(browser):
    with View(browser) as view:
        view.do("try")
        first = view.said()
        assert (
            view.english() == f"English: {WIDE}"
            and first.replace(" ", "").startswith("L'an")
            and "large" not in first
        ), "typed, not shown at once"
        view.settled()
        assert (
            view.said().endswith("large.")
            and view.chosen() == "elle"
            and "Word for word" in view.at("facts").inner_text()
        )
        assert view.page.locator(".tl-off").count() == 0
        view.do("try")
        view.settled()
        assert view.english() == f"English: {TIRED}"


@pytest.mark.slow
def test_it_says_a_sentence_again(browser):
    with View(browser) as view:
        view.do("again")
        assert len(view.said()) < 20
        view.settled()
        assert view.said().endswith("fatigué.")
        view.do("again")
        view.page.locator("[data-out=t] button").nth(7).click()
        assert (
            view.said().endswith("fatigué.") and view.chosen() == "rue"
        ), "a click ends the saying"
        view.page.wait_for_timeout(500)
        assert view.chosen() == "rue"


@pytest.mark.slow
def test_without_motion_all_is_there_at_once(browser):
    with View(browser, motion="reduce") as view:
        view.do("try")
        assert view.said().endswith("large.") and view.chosen() == "elle"


@pytest.mark.slow
def test_filters_show_what_they_say(browser, rows):
    with View(browser, motion="reduce") as view:

        def shown():
            return [
                text.split("\n")[-1].lstrip("✗✓ ")
                for text in view.at("list").locator("button").all_inner_texts()
            ]

        wrong = {row["en"] for row in rows if not row["right"]}
        for name, expected in (
            ("pair", {TIRED, WIDE}),
            ("failures", wrong),
            ("all", {row["en"] for row in rows}),
        ):
            button = view.page.locator(f"[data-filter={name}]")
            button.click()
            assert set(shown()) == expected and button.inner_text().endswith(f" {len(expected)}")
            assert (
                button.get_attribute("aria-pressed") == "true"
                and view.page.locator("[data-filter][aria-pressed=true]").count() == 1
            )
            assert view.at("list").locator("[aria-current=true]").count() == 1
        view.page.locator("[data-filter=failures]").click()
        view.do("try")
        assert (
            view.english() == f"English: {WIDE}"
            and view.at("list").locator("[aria-current=true]").count() == 1
        )


@pytest.mark.slow
def test_a_sentence_and_a_word_of_either_language_can_be_chosen(browser, rows):
    with View(browser, motion="reduce") as view:
        view.at("list").locator("button", has_text="museum").click()
        assert "museum" in view.english() and "Word for word" in view.at("facts").inner_text()
        view.page.locator("[data-out=t] button", has_text="musée").click()
        assert (
            view.at("say").inner_text().startswith("Saying “musée”, it looks at “museum” 0.9")
            and view.lit() >= 1
        )
        view.page.locator("[data-out=s] button", has_text="which").click()
        assert (
            "“which” is looked at while it says “quel”" in view.at("say").inner_text()
            and view.chosen() == "which"
        )
        view.page.locator("[data-out=t] button", has_text="bus").hover()
        assert view.chosen() == "bus", "the mouse lights as well"


@pytest.mark.slow
def test_the_keyboard_is_enough(browser):
    with View(browser, motion="reduce") as view:
        key = view.page.keyboard.press
        view.page.locator("[data-filter=all]").focus()
        for _ in range(2):
            key("Tab")
        key("Enter")
        assert view.at("list").locator("button").count() == 28
        key("Tab")
        key("ArrowDown")
        second = view.english()
        assert "too tired" not in second
        key("ArrowUp")
        assert view.english() == f"English: {TIRED}"
        key("Tab")
        key("End")
        assert view.chosen() == "⟨end⟩" and view.at("say").inner_text().startswith(
            "the end sign is looked at"
        )
        key("Home")
        assert view.chosen() == "The"
        key("Tab")
        key("ArrowRight")
        assert view.chosen() == "animal" and "animal" in view.at("say").inner_text()
        key("Tab")
        key("Enter")
        assert view.english() == f"English: {WIDE}"


@pytest.mark.slow
@pytest.mark.parametrize("width", [900, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_and_axe_finds_nothing_serious(browser, width, theme):
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed"
    )
    with View(browser, width, theme, "reduce") as view:
        for turn in range(2):
            assert view.page.evaluate("document.documentElement.scrollWidth") <= width
            serious = [
                f"{rule['id']}: {rule['nodes'][0]['html'][:160]}"
                for rule in axe.Axe().run(view.page).response["violations"]
                if rule["impact"] in ("serious", "critical")
            ]
            assert not serious, serious
            view.at("list").locator("button").last.click()  # the longest sentence
        ends = view.page.evaluate(
            """[...document.querySelectorAll('.tl-say button')].map(b => b.getBoundingClientRect())
            .every(r => r.left >= 0 && r.right <= innerWidth && r.height >= 24)"""
        )
        assert ends, "a word is cut, or too small for a finger"


def brightness(rgb):
    bent = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (one / 255 for one in rgb)
    ]
    return 0.2126 * bent[0] + 0.7152 * bent[1] + 0.0722 * bent[2]


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lines_stand_out_from_the_page(browser, theme):
    "A mark needs a contrast of 3."
    with View(browser, theme=theme) as view:
        for mark in ("path.tl-on", "path:not(.tl-on)", ".tl-off"):
            colour, ground = view.page.evaluate(
                """mark => {
                  const canvas = document.createElement("canvas");
                  const paint = canvas.getContext("2d", {willReadFrequently: true});
                  const of = getComputedStyle(document.querySelector(mark));
                  const ground = getComputedStyle(document.body).backgroundColor;
                  const colour = of.stroke == "none" ? of.textDecorationColor : of.stroke;
                  return [colour, ground].map(c => {
                    for (paint.fillStyle of [ground, c]) paint.fillRect(0, 0, 1, 1);
                    return [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3);
                  });
                }""",
                mark,
            )
            low, high = sorted((brightness(colour) + 0.05, brightness(ground) + 0.05))
            assert high / low >= 3, f"{mark}: {colour} on {ground}"


@pytest.mark.slow
def test_what_is_not_there_has_no_button(browser, rows):
    with View(browser, rows=rows[:2], motion="reduce") as view:
        assert (
            not view.page.locator("[data-do=try]").is_visible()
            and view.page.locator("[data-filter]").count() == 1
        )
