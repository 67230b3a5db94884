"""The built pages: links, hosts, formulas, phone width, accessibility, and the controls, in headless Chromium."""
import http.server
import re
import shutil
import sys
import threading
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
SITE = ROOT / "_build" / "html"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.slow
PAGES = sorted(p.relative_to(SITE).as_posix() for p in SITE.glob("book/**/*.html"))
VISITED = [p for p in PAGES if "/source/" not in p] + [p for p in PAGES if p.endswith("source/masks.html")]
# Findings of the theme itself and of docutils, not of our pages: search and sidebar controls without a name
# (summary-name), code blocks that scroll, colours of code, the list of citations. Each is named with its rule.
THEME_RULES = {"color-contrast", "summary-name", "aria-required-children", "scrollable-region-focusable", "landmark-unique", "region", "aria-allowed-role",
               "landmark-no-duplicate-banner", "landmark-banner-is-top-level", "landmark-complementary-is-top-level"}
OURS = (".tl-figure", ".tl-explore", ".tl-badge")


class Page(HTMLParser):
    "The ids, links and loaded files of one page, and the code it shows."

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
        if tag == "link" and a.get("href") and a.get("rel") not in ("canonical", "next", "prev", "author"):
            self.loaded.append(a["href"])


def test_the_book_is_built():
    "Else every check of this file would find nothing to look at, and pass."
    missing = [p.stem for p in (ROOT / "book").glob("*.ipynb") if not (SITE / "book" / f"{p.stem}.html").exists()]
    assert not missing, f"no page of {missing}: make book"


@pytest.fixture(scope="module")
def parsed():
    return {name: Page((SITE / name).read_text(encoding="utf-8")) for name in PAGES}


def test_every_link_inside_the_book_leads_somewhere(parsed):
    dead = []
    for name, page in parsed.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (SITE / name).parent / unquote(parts.path) if parts.path else SITE / name
            target = target.resolve()
            if target.is_dir():
                target = target / "index.html"
            if not target.exists():
                dead.append(f"{name}: {link}")
            elif parts.fragment and target.suffix == ".html":
                key = target.relative_to(SITE.resolve()).as_posix()
                there = parsed.get(key) or Page(target.read_text(encoding="utf-8"))
                if unquote(parts.fragment) not in there.ids:
                    dead.append(f"{name}: {link} (no such place)")
    assert not dead, "dead links:\n" + "\n".join(dead)


def test_no_page_loads_a_file_from_another_host(parsed):
    foreign = [f"{name}: {src}" for name, page in parsed.items() for src in page.loaded
               if urlsplit(src).netloc]
    assert not foreign, "pages must carry everything themselves:\n" + "\n".join(foreign)


def to_the_placeholder(page):
    "Links that lead to an address under .example, which nobody can have."
    return [link for link in page.links + page.loaded if (urlsplit(link).hostname or "").endswith(".example")]


def test_no_page_links_to_the_placeholder():
    whole = {p.relative_to(SITE).as_posix(): Page(p.read_text(encoding="utf-8")) for p in SITE.glob("**/*.html")}
    nowhere = [f"{name}: {link}" for name, page in whole.items() for link in to_the_placeholder(page)]
    assert not nowhere, "the book has no home yet, and these links lead there:\n" + "\n".join(nowhere)


@pytest.mark.parametrize("link", ["https://git.example/nobody/book", "https://www.git.example/nobody/book/edit/main/book/02.ipynb"])
def test_a_link_to_the_placeholder_is_found(link):
    assert to_the_placeholder(Page(f'<p>and <a href="{link}">the book</a></p>')) == [link]
    assert to_the_placeholder(Page('<a href="https://github.com/owner/name">x</a><a href="02.html">y</a><p>github.example</p>')) == []


def test_the_colab_button_leads_somewhere(parsed):
    from address import home

    for path in (ROOT / "book").glob("*.ipynb"):
        links = parsed[f"book/{path.stem}.html"].links
        if home():
            slug = home().split("/", 3)[3]
            assert f"https://colab.research.google.com/github/{slug}/blob/main/book/{path.name}" in links
        else:
            assert not [link for link in links if "colab.research" in link and "/github/" in link]
            assert "preface.html#in-colab" in links, f"{path.stem} has no way into Colab"


def test_every_chapter_is_a_download_beside_its_page(parsed):
    "With the package as a wheel, whose size the page states."
    wheels = list((SITE / "downloads").glob("*.whl"))
    assert [w.name.split("-")[0] for w in wheels] == ["transformer_lit"], f"one wheel, not {wheels}"
    size = f"{wheels[0].stat().st_size / 1e6:.1f} MB"
    assert size in (SITE / "book" / "preface.html").read_text(encoding="utf-8"), "the preface states the wheel's size"
    for path in (ROOT / "book").glob("*.ipynb"):
        links = parsed[f"book/{path.stem}.html"].links
        for name in (path.name, wheels[0].name):
            assert links.count(f"../downloads/{name}") >= 1, f"{path.stem} has no link to {name}"
        assert (SITE / "downloads" / path.name).read_bytes() == path.read_bytes(), f"the download {path.name} is another notebook: make book"
        assert size in (SITE / "book" / f"{path.stem}.html").read_text(encoding="utf-8"), f"{path.stem} doesn't state the wheel's size"


def test_nbdev_lines_are_replaced_by_badges():
    for path in SITE.glob("book/[0-9]*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"#\| ?(export|default_exp|hide|echo)", text), f"{path.name} still shows a line that begins with #|"
        notebook = (ROOT / "book" / f"{path.stem}.ipynb").read_text(encoding="utf-8")
        exports = notebook.count('"#| export\\n"')
        assert text.count('class="tl-badge"') >= min(exports, 1), f"{path.name} has exported cells and no badge"


def test_every_figure_has_a_description():
    for path in SITE.glob("book/*.html"):
        text = path.read_text(encoding="utf-8")
        for start in (i for i in range(len(text)) if text.startswith('<div class="tl-figure"', i)):
            head = text[start:text.index(">", start)]
            assert 'aria-label="' in head or "<table" in text[start:start + 200], f"{path.name}: a figure without words"


@pytest.fixture(scope="module")
def address():
    "The book on a free port of this machine."
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@pytest.fixture(scope="module")
def browser():
    if BROWSER is None:
        pytest.skip("no Chromium here: install Debian's package chromium to run the browser checks")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=BROWSER, args=[
            "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"])
        yield chromium
        chromium.close()


def visit(browser, address, name, width=1280, dark=False):
    "A loaded page, what it asked other hosts for, and its errors."
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light")
    page.set_default_timeout(180_000)  # a shared machine can be slow, and that is no fault of the page
    asked, errors = [], []
    page.on("request", lambda r: asked.append(r.url) if not r.url.startswith((address, "data:", "blob:")) else None)
    page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: errors.append(str(e)))
    page.goto(address + name, wait_until="load")
    return page, asked, errors


@pytest.mark.parametrize("name", VISITED)
def test_page_in_a_browser(browser, address, name):
    "No other host, no error, formulas typeset, no sideways scrolling on a phone, nothing serious from axe in our own parts."
    page, asked, errors = visit(browser, address, name)
    try:
        if page.locator(".math").count():
            page.wait_for_function("window.MathJax && MathJax.startup && MathJax.startup.promise")
            page.evaluate("MathJax.startup.promise")
            assert page.locator("mjx-container").count() >= page.locator(".math").count(), "a formula was not typeset"
            assert page.locator("mjx-container [data-mml-node=merror]").count() == 0, "a formula has an error"
        assert not asked, f"{name} asked other hosts for {asked}"
        assert not errors, f"{name} reported {errors}"
        page.set_viewport_size({"width": 390, "height": 844})
        for _ in range(30):  # the layout takes a moment to settle
            wide = page.evaluate("document.documentElement.scrollWidth")
            if wide <= 390:
                break
            page.wait_for_timeout(100)
        assert wide <= 390, f"{name} is {wide} pixels wide on a phone of 390"
        serious = findings(page)
        assert not serious, f"{name}: {serious}"
    finally:
        page.close()


def findings(page) -> list[str]:
    """Serious and critical findings of axe: of all rules in our own parts, elsewhere of all but the theme's known ones.

    Two passes, because the theme's rules are the slow ones (contrast above all) and only our own parts need them."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    passes = [dict(options={"rules": {rule: {"enabled": False} for rule in THEME_RULES}})]
    if ours := [[part] for part in OURS if page.locator(part).count()]:
        passes.append(dict(context={"include": ours}, options={"runOnly": sorted(THEME_RULES)}))
    said = []
    for one in passes:
        one["options"]["resultTypes"] = ["violations"]
        for rule in axe.run(page, **one).response["violations"]:
            if rule["impact"] in ("serious", "critical"):
                said += [f"{rule['id']}: {node['html'][:120]}" for node in rule["nodes"]]
    return said


SPOILT = {  # what is done to a page -> the rule that must see it
    "document.querySelector('article').insertAdjacentHTML('beforeend', '<img src=x.png>')": "image-alt",
    "document.querySelector('.tl-figure').insertAdjacentHTML('beforeend', "
    "'<p style=\"color:#eee;background:#fff\">pale</p>')": "color-contrast",
    "document.querySelector('article').insertAdjacentHTML('beforeend', '<button></button>')": "button-name"}


@pytest.mark.parametrize("harm, rule", SPOILT.items(), ids=SPOILT.values())
def test_what_is_wrong_is_found(browser, address, harm, rule):
    page, _, _ = visit(browser, address, "book/02_attention.html", width=390)
    try:
        page.evaluate(harm)
        assert [said for said in findings(page) if said.startswith(rule)], f"{rule} went unseen"
    finally:
        page.close()


@pytest.mark.parametrize("name, control", [
    ("book/02_attention.html", "#tl-softmax [data-in=scale]"),
    ("book/02_attention.html", "#tl-softmax [data-in=k]"),
    ("book/03_masks.html", "#tl-masks [data-in=pads]"),
    ("book/03_masks.html", "#tl-masks [data-in=causal]"),
    ("book/11_schedule.html", "#tl-noam [data-in=w]"),
    ("book/11_schedule.html", "#tl-noam [data-in=d]"),
])
def test_controls_are_alive_without_a_kernel(browser, address, name, control):
    page, _, _ = visit(browser, address, name)
    try:
        root = page.locator(control.split()[0])
        before = root.inner_text() + root.locator("svg").inner_html()
        page.locator(control).press("Space" if page.locator(control).get_attribute("type") == "checkbox" else "ArrowRight")
        after = root.inner_text() + root.locator("svg").inner_html()
        assert before != after, f"{name}: turning {control} changes nothing"
    finally:
        page.close()


@pytest.mark.parametrize("dark", [False, True])
def test_solutions_open(browser, address, dark):
    "A solution is one click away, in both themes."
    page, _, _ = visit(browser, address, "book/03_masks.html", dark=dark)
    try:
        solution = page.locator("details:has-text('Solution')").first
        solution.locator("summary").first.click()
        assert solution.evaluate("e => e.open"), "the solution did not open"
    finally:
        page.close()
