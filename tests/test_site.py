"""The built pages: links, hosts, formulas, phone width, accessibility, and the controls, in
headless Chromium."""

import re
import sys
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import torch
from plugins.pages import THEME_RULES, served

from transformer_lit.attention import scaled_dot_product_attention
from transformer_lit.masks import causal_mask, depends_on_future, depends_on_padding, padding_mask

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
SITE = ROOT / "_build" / "html"
pytestmark = pytest.mark.slow  # wants the built pages
NOTEBOOKS = sorted((ROOT / "book").glob("*.ipynb"))
PAGES = sorted(p.relative_to(SITE).as_posix() for p in SITE.glob("book/**/*.html"))
# 91 to 97 redirect
VISITED = [p for p in PAGES if "/source/" not in p and not p.startswith("book/9")] + [
    p for p in PAGES if p.endswith(("source/masks.html", "drawings/ch02.html"))
]
OURS = """.tl-figure .tl-explore .tl-badge .tl-check .tl-part .tl-first .tl-ask .tl-in .tl-cards
    .tl-margin .tl-term""".split()


class Parsed(HTMLParser):
    "The ids, links and loaded files of one page."

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        self.ids |= {a[k] for k in ("id", "name") if a.get(k)}
        if tag == "a" and a.get("href"):
            self.links.append(a["href"])
        if tag in ("script", "img", "iframe", "source") and a.get("src"):
            self.loaded.append(a["src"])
        if tag == "link" and a.get("rel") not in ("canonical", "next", "prev", "author"):
            self.loaded.append(a.get("href", ""))


def text_of(name):
    return (SITE / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def parsed():
    return {name: Parsed(text_of(name)) for name in PAGES}


def test_the_book_is_built():
    "Else every check below would pass."
    assert all((SITE / "book" / f"{path.stem}.html").exists() for path in NOTEBOOKS), "make book"


def is_dead(name, link, parsed):
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return False
    target = (SITE / name).parent / unquote(parts.path) if parts.path else SITE / name
    target = target.resolve()
    target = target / "index.html" if target.is_dir() else target
    if target.suffix != ".html" or not parts.fragment:
        return not target.exists()
    there = parsed.get(target.relative_to(SITE.resolve()).as_posix())
    return there is None or unquote(parts.fragment) not in there.ids


def test_every_link_inside_the_book_leads_somewhere(parsed):
    links = [(name, link) for name, page in parsed.items() for link in page.links]
    dead = [link for link in links if is_dead(*link, parsed)]
    assert len(links) > 1000 and not dead, dead


def test_no_page_loads_from_another_host_or_links_to_the_placeholder(parsed):
    "Addresses that end with .example nobody can have."
    for page in parsed.values():
        assert not [link for link in page.loaded if urlsplit(link).netloc]
        assert not [link for link in page.links if ".example" in urlsplit(link).netloc]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_chapters_page_leads_to_its_notebook_the_wheel_and_colab(path, parsed):
    from address import home

    text, links = text_of(f"book/{path.stem}.html"), parsed[f"book/{path.stem}.html"].links
    [wheel] = (SITE / "downloads").glob("transformer_lit-*.whl")
    assert {f"../downloads/{path.name}", f"../downloads/{wheel.name}"} <= set(links)
    notebook = path.read_bytes()
    assert (SITE / "downloads" / path.name).read_bytes() == notebook
    assert f"{wheel.stat().st_size / 1e6:.1f} MB" in text
    colab = "preface.html#in-colab"
    if home():
        slug = home().split("/", 3)[3]
        colab = f"https://colab.research.google.com/github/{slug}/blob/main/book/{path.name}"
    assert colab in links
    assert not re.search(r"#\| ?(export|default_exp|hide|echo)", text)
    assert "Show code cell" not in text, "a fold doesn't say what is in it: code_prompt_show"


@pytest.mark.parametrize("name", [p for p in PAGES if p.count("/") == 1])
def test_every_figure_has_a_description_and_a_caption(name):
    for figure in re.findall(r"<figure [^>]*tl-figure.*?</figure>", text_of(name), re.S):
        assert re.search(r'role="(img|group)" aria-label="[^"]+ [^"]+ [^"]+ [^"]+"', figure)
        caption = r'<figcaption[^>]*><span class="tl-number">Fig [\w.]+</span>[^<]{12}'
        assert re.search(caption, figure)


def test_what_the_style_names_is_on_a_page(parsed):
    "A heading that is renamed would lose its look without a word."
    css = (ROOT / "book/web/static/book.css").read_text("utf-8")
    named = set(re.findall(r"#([a-z][a-z-]{7,})", css))
    assert named and not named - set().union(*(page.ids for page in parsed.values()))


# In a browser -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address():
    with served(SITE) as address:
        yield address


@pytest.fixture
def page_of(visit, address):
    return lambda name, root="", **looks: visit(address + name, root, **looks)


SLOW_RULES = ["target-size", "link-in-text-block"]


# Each class of ours is on one of these pages, and looks the same on all
WITH_NEW_CLASSES, classes = [], set()
for name in sorted(VISITED, key=lambda name: -text_of(name).count("tl-")):
    if not classes >= (new := set(re.findall(r"[\" ](tl-[\w-]+)", text_of(name)))):
        WITH_NEW_CLASSES.append(name)
        classes |= new


def findings(page, is_whole=True):
    """Of all rules in our own parts, elsewhere of all but the theme's known ones, in two passes.
    Not whole: without what takes long, our own parts (for their contrast) and SLOW_RULES."""
    parts = [part for part in OURS if is_whole and page.locator(part).count()]
    ours = page.findings(*parts, rules=THEME_RULES) if parts else []
    return page.findings(but=THEME_RULES + SLOW_RULES * (not is_whole)) + ours


@pytest.mark.parametrize("name", VISITED)
def test_page_in_a_browser(page_of, name):
    """No other host, no error, formulas typeset, no sideways scrolling on a phone, nothing serious
    from axe."""
    page = page_of(name, motion="no-preference")
    if formulas := page.locator(".math").count():
        page.wait_for_function("window.MathJax && MathJax.startup && MathJax.startup.promise")
        page.evaluate("MathJax.startup.promise")
        assert page.locator("mjx-container").count() >= formulas
        assert not page.locator("mjx-container [data-mml-node=merror]").count()
    page.set_viewport_size({"width": 390, "height": 844})
    page.check_width()
    assert not re.search(r"<p[^>]*>[^<]*\*\*", text_of(name))
    assert not (found := findings(page, name in WITH_NEW_CLASSES)), found


SPOILT = {  # the rule that must see it -> where, what
    "image-alt": ("article", "<img src=data:,>"),
    "color-contrast": (".tl-figure", '<p style="color:#eee;background:#fff">pale</p>'),
}


@pytest.mark.parametrize("rule", SPOILT)
def test_what_is_wrong_is_found(page_of, rule):
    page = page_of("book/26b_limitations.html", width=390)
    page.evaluate(
        "([css, html]) => document.querySelector(css).insertAdjacentHTML('beforeend', html)",
        list(SPOILT[rule]),
    )
    assert any(finding.startswith(rule) for finding in findings(page))


VIEWS = {
    "#tl-softmax": "book/02_attention.html",
    "#tl-masks": "book/03_masks.html",
    "#tl-noam": "book/11_schedule.html",
}


@pytest.fixture
def view(page_of):
    "A function that opens the page of a view."

    def open_view(root, motion="no-preference", **looks):
        page = page_of(VIEWS[root], root, motion=motion, **looks)
        page.locator(root).scroll_into_view_if_needed()
        return page

    return open_view


def shape(page):
    "All that a view shows at rest, without what only marks a place."
    page.wait()
    drawn = page.at(":is(svg, [role=grid])").evaluate_all("all => all.map(e => e.innerHTML)")
    text = page.locator(page.root).inner_text() + "".join(drawn)
    return re.sub(r' (tabindex|class)="[^"]*"', "", text)


@pytest.mark.parametrize("root", VIEWS)
def test_every_control_of_a_view_is_alive(view, root):
    page = view(root)
    controls = page.at("input").all()
    assert controls
    for control in controls:
        is_box, before = control.get_attribute("type") == "checkbox", shape(page)
        control.press("Space" if is_box else "ArrowRight")
        name = control.get_attribute("data-in")
        assert shape(page) != before, f"{name} changes nothing"
        control.press("Space" if is_box else "ArrowLeft")


@pytest.mark.parametrize("root", VIEWS)
def test_try_this_performs_each_suggestion_and_comes_back(view, root):
    page = view(root)
    shapes, sentences, name = [shape(page)], [], ""
    while not name.startswith("Back"):
        page.at("[data-do=try]").press("Enter")
        shapes.append(shape(page))
        sentences.append(page.out("say").inner_text())
        name = page.at("[data-do=try]").inner_text()
    page.do("try")
    assert len(shapes) == len(set(shapes)) == len(set(sentences)) + 1 >= 4
    assert shape(page) == shapes[0]


def failed_tests(page):
    return page.at(".tl-m-rings").evaluate_all("all => all.map(e => e.dataset.test)")


def test_the_mask_shows_why_a_cell_is_masked_and_goes_by_keyboard(view):
    page, paint = view("#tl-masks"), "e => getComputedStyle(e).backgroundImage"
    places = ("0,1", "2,0", "2,5", "6,2")  # causal and padding, padding, causal, unmasked
    paints = {page.at(f'[data-cell="{place}"]').evaluate(paint) for place in places}
    assert len(paints) == 4, "causal, padding, both and unmasked look different"
    page.at('[data-cell="0,0"]').focus()
    page.keys("ArrowDown*3 ArrowRight*3 Enter")
    assert page.focused("dataset.cell") == "3,3" and failed_tests(page) == ["itself"]
    page.at("[data-in=inf]").check()
    assert failed_tests(page) == ["itself", "finite"]
    page.do("clear")
    assert failed_tests(page) == ["finite"], "what was masked by hand is unmasked again"


def test_the_masks_tests_are_the_chapters(view):
    "With the padding on the right, as in the chapter's batch, its own two tests agree."
    page, table = view("#tl-masks"), torch.sin(torch.arange(1, 129).view(16, 8) ** 1.5)
    page.at("[data-in=left]").set_checked(False)
    for causal, padding, pads in product((True, False), (True, False), (1, 3)):

        def attend(tokens):
            mask = torch.ones(1, 1, tokens.size(1), tokens.size(1), dtype=torch.bool)
            mask = mask & causal_mask(tokens.size(1)) if causal else mask
            mask, x = mask & padding_mask(tokens) if padding else mask, table[tokens][:, None]
            return scaled_dot_product_attention(x, x, x, mask)[0][:, 0]

        tokens = torch.tensor([[1, 4, 5, 6, 2] + [0] * pads])
        leaks = any(depends_on_future(attend, tokens, t) for t in range(4 + pads))
        expected = ["future"] * leaks
        expected += ["padding"] * depends_on_padding(attend, tokens)
        page.at("[data-in=causal]").set_checked(causal)
        page.at("[data-in=padding]").set_checked(padding)
        page.at("[data-in=pads]").fill(str(pads))
        assert failed_tests(page) == expected, (causal, padding, pads)


def drag(page, mark, right, down):
    box = mark.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + right, y + down, steps=4)
    page.mouse.up()
    page.wait()


def value_of(mark):
    return float(mark.get_attribute("aria-valuenow"))


def test_scores_can_be_dragged_and_typed(view):
    page = view("#tl-softmax")
    dot, before = page.at('[data-key="2"]'), shape(page)
    score = value_of(dot)
    drag(page, dot, 0, -60)
    dragged = value_of(dot)
    dot.focus()
    page.keys("ArrowDown")
    assert score < value_of(dot) == pytest.approx(dragged - 0.4)
    page.do("clear")
    assert shape(page) == before


def test_the_division_holds_the_upper_row(view):
    page, weights = view("#tl-softmax", motion="reduce"), []
    for power in range(2, 11):
        page.at("[data-in=k]").fill(str(power))
        weights.append(re.findall(r"\d\.\d+", page.out("say").inner_text())[:2])
    divided, plain = zip(*weights)
    assert len({*divided}) == 1 and list(plain) == sorted(plain) and float(plain[-1]) > 0.9


def test_the_peak_can_be_dragged_and_the_axis_follows(view):
    page = view("#tl-noam")
    peak = page.at("svg [role=slider]")
    before = value_of(peak)
    drag(page, peak, 200, 0)
    steps = int(value_of(peak))
    assert steps > before and page.out("w").inner_text() == f"{steps:,}"
    peak.focus()
    page.keys("ArrowLeft")
    assert value_of(peak) == steps - 100
    page.at("[data-in=w]").fill("400")
    page.at("[data-in=d]").fill("6")
    page.wait()
    height = "e => e.getBBox().height"
    own, base = (page.at(f"path[data-line={name}]").evaluate(height) for name in ("own", "base"))
    assert own > 3 * base > 0, "the axis follows the highest line"


@pytest.mark.parametrize("root", VIEWS)
def test_a_view_fits_a_phone_and_axe_finds_nothing(view, root):
    page = view(root, width=390)
    for theme in "dark", "light":
        page.theme(theme)
        page.check_looks()


def test_a_word_of_the_glossary_shows_its_line(page_of):
    page = page_of("book/09_transformer.html")
    term = page.locator("a.tl-term").first
    line = term.get_attribute("data-line")
    term.focus()
    shown = term.evaluate("e => getComputedStyle(e, '::after').content")
    assert len(line.split()) > 4 and shown == f'"{line}"'
    term.click()
    page.wait_for_url("**/glossary.html#term-*")


LIVE = {  # a page's view -> how far down it may stand
    "book/index.html .tl-first": 900,
    "book/18_translation.html .tl-try": 3500,
    "book/20_attention_maps.html .tl-attention": 30_000,
}


@pytest.mark.parametrize("place", LIVE)
def test_a_view_of_the_built_page_is_alive_on_a_phone(page_of, place):
    "Its controls one by one: test_first_page.py, test_try_it.py, test_map_view.py."
    page = page_of(*place.split(), width=390)
    view = page.locator(page.root).first
    assert view.bounding_box()["y"] < LIVE[place], "the view is buried"
    before = view.inner_text()
    view.locator("[data-do=try], .tl-switch [aria-pressed=false]").first.press("Enter")
    page.wait()
    assert view.inner_text() != before
