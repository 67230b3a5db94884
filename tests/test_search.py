"""The search of the built book, in headless Chromium: what readers type finds its page, from a
folder as from a server, by keyboard, and in one and a half megabytes."""

from pathlib import Path

import pytest
from plugins.pages import served

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "_build" / "html"
pytestmark = pytest.mark.slow  # wants the built pages
PAGE = "book/glossary.html"  # a light one
LINES = (ROOT / "tests" / "search_queries.tsv").read_text("utf-8").splitlines()[1:]
QUERIES = dict(line.split("\t") for line in LINES)
DIALOG = ".search-button__search-container"


@pytest.fixture(params=["folder", "server"])
def address(request):
    if request.param == "folder":
        yield f"{SITE.as_uri()}/"
    else:
        with served(SITE) as address:
            yield address


def opened(visit, address, query, **looks):
    "A page with the dialog open, and the results of a query in it."
    page = visit(address + PAGE, DIALOG, **looks)
    page.keys("Control+k")
    page.keyboard.insert_text(query)
    page.wait(of=f"{DIALOG} .tl-found")
    return page


def addresses(page, where):
    return page.locator(f"{where} [role=option]").evaluate_all("all => all.map(e => e.href)")


def test_a_reader_s_words_find_the_page(visit):
    page = visit(f"{SITE.as_uri()}/{PAGE}")
    first = page.evaluate(
        """async queries => { await tlSearch.ready.complete();
           const missing = tlSearchWords.about.match(/^\\w+#[^:]+/gm).filter(address => {
             const [name, place] = address.split("#");
             return !tlSearchPages.split("\\0").some(page => page.startsWith(`book/${name}.html`)
               && page.includes(`\\x01${place}\\n`)); });
           if (missing.length) throw new Error(`no such section: ${missing}`);
           return queries.map(q => tlSearch.find(q).slice(0, 3).flatMap(found =>
             [found.name, found.address.replace(/^book\\/|\\.html/g, "")])); }""",
        list(QUERIES),
    )
    misses = {
        query: names
        for (query, right), names in zip(QUERIES.items(), first)
        if not set(right.split(",")) & set(names)
    }
    assert len(QUERIES) >= 60 and len(misses) <= 3, misses


def test_what_is_loaded_is_small_and_sphinx_has_no_second_search():
    names = "minisearch.js search.js search-pages.js search-words.js"
    size = sum((SITE / "_static" / name).stat().st_size for name in names.split())
    assert size < 1.5e6
    assert not [*SITE.glob("searchindex.js"), *SITE.glob("_static/searchtools.js")]


def test_the_dialog_goes_by_keyboard(visit):
    page = opened(visit, f"{SITE.as_uri()}/", "skip conection")
    chosen = page.at("[aria-selected=true]")
    title = chosen.inner_text()
    assert "results for “skip connection”" in page.at("[role=status]").inner_text()
    assert page.at("mark").count() and page.focused("role") == "combobox"
    page.keys("ArrowDown")
    assert chosen.get_attribute("id") == page.focused("getAttribute('aria-activedescendant')")
    assert chosen.inner_text() != title
    page.keys("ArrowUp Escape")
    assert page.at(".tl-found").is_hidden()
    page.keys("Control+k")
    assert page.at("input").input_value() == "skip conection"
    page.keys("Enter")
    page.wait_for_url("**/06_residual_and_norm.html#*")


def test_an_old_link_shows_the_same_results(visit, address):
    page = visit(f"{address}search.html?q=beam_search")
    page.wait(of=".tl-search-page .tl-found")
    dialog = opened(visit, address, "beam_search")
    there = addresses(dialog, DIALOG)
    assert there and addresses(page, ".tl-search-page")[: len(there)] == there


def test_nothing_found_is_said(visit):
    page = opened(visit, f"{SITE.as_uri()}/", "qqqqqqqqqqqqqqqqqqqqqqqq")
    assert page.at("[role=status]").inner_text().startswith("Nothing found")
    assert page.at("[role=listbox]").is_hidden()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_dialog_fits_and_axe_finds_nothing(visit, width, dark):
    opened(visit, f"{SITE.as_uri()}/", "label smoothing", width=width, dark=dark).check_looks()
