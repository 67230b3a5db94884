"""The built pages: links, hosts, formulas, phone width, accessibility, and the controls, in
headless Chromium."""

import http.server
import re
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
pytestmark = pytest.mark.slow
PAGES = sorted(p.relative_to(SITE).as_posix() for p in SITE.glob("book/**/*.html"))
VISITED = [p for p in PAGES if "/source/" not in p] + [
    p for p in PAGES if p.endswith(("source/masks.html", "drawings/ch02.html"))
]
# Findings of the theme itself and of docutils, not of our pages: search and sidebar controls
# without a name (summary-name), code blocks that scroll, colours of code, the list of citations.
# Each is named with its rule.
THEME_RULES = {
    "color-contrast",
    "summary-name",
    "aria-required-children",
    "scrollable-region-focusable",
    "landmark-unique",
    "region",
    "aria-allowed-role",
    "landmark-no-duplicate-banner",
    "landmark-banner-is-top-level",
    "landmark-complementary-is-top-level",
}
OURS = (
    ".tl-figure",
    ".tl-explore",
    ".tl-badge",
    ".tl-check",
    ".tl-part",
    ".tl-first",
    ".tl-ask",
    ".tl-in",
    ".tl-cards",
    ".tl-margin",
    ".tl-term",
)


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
        if (
            tag == "link"
            and a.get("href")
            and a.get("rel") not in ("canonical", "next", "prev", "author")
        ):
            self.loaded.append(a["href"])


def test_the_book_is_built():
    "Else every check of this file would find nothing to look at, and pass."
    missing = [
        p.stem
        for p in (ROOT / "book").glob("*.ipynb")
        if not (SITE / "book" / f"{p.stem}.html").exists()
    ]
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
    foreign = [
        f"{name}: {src}"
        for name, page in parsed.items()
        for src in page.loaded
        if urlsplit(src).netloc
    ]
    assert not foreign, "pages must carry everything themselves:\n" + "\n".join(foreign)


def to_the_placeholder(page):
    "Links that lead to an address under .example, which nobody can have."
    return [
        link
        for link in page.links + page.loaded
        if (urlsplit(link).hostname or "").endswith(".example")
    ]


def test_no_page_links_to_the_placeholder():
    whole = {
        p.relative_to(SITE).as_posix(): Page(p.read_text(encoding="utf-8"))
        for p in SITE.glob("**/*.html")
    }
    nowhere = [
        f"{name}: {link}" for name, page in whole.items() for link in to_the_placeholder(page)
    ]
    assert not nowhere, "the book has no home yet, and these links lead there:\n" + "\n".join(
        nowhere
    )


@pytest.mark.parametrize(
    "link",
    [
        "https://git.example/nobody/book",
        "https://www.git.example/nobody/book/edit/main/book/02.ipynb",
    ],
)
def test_a_link_to_the_placeholder_is_found(link):
    assert to_the_placeholder(Page(f'<p>and <a href="{link}">the book</a></p>')) == [link]
    assert (
        to_the_placeholder(
            Page(
                '<a href="https://github.com/owner/name">x</a><a'
                ' href="02.html">y</a><p>github.example</p>'
            )
        )
        == []
    )


def test_the_colab_button_leads_somewhere(parsed):
    from address import home

    for path in (ROOT / "book").glob("*.ipynb"):
        links = parsed[f"book/{path.stem}.html"].links
        if home():
            slug = home().split("/", 3)[3]
            assert (
                f"https://colab.research.google.com/github/{slug}/blob/main/book/{path.name}"
                in links
            )
        else:
            assert not [link for link in links if "colab.research" in link and "/github/" in link]
            assert "preface.html#in-colab" in links, f"{path.stem} has no way into Colab"


def test_no_page_prints_a_command_of_a_folder_that_is_gone():
    """The scripts that measure lay under tests once; records keep what was typed, pages say what is
    typed today."""
    for name in [p for p in PAGES if p != "book/changelog.html" and "/source/" not in p]:
        text = re.sub(r"<[^>]*>", "", (SITE / name).read_text(encoding="utf-8"))
        assert "tests/bench" not in text, f"{name} sends a reader to a folder that isn't there"


def test_the_engine_and_the_shipped_models_lie_beside_the_pages():
    assert (SITE / "engine" / "engine.js").read_bytes() == (
        ROOT / "book" / "web" / "engine.js"
    ).read_bytes(), "another engine: make book"
    for name, least in (("pocket", 2.9e6), ("tatoeba-fr", 12.5e6)):
        assert (
            sum(part.stat().st_size for part in (SITE / "engine").glob(f"model-{name}-*.js"))
            > least
        )


def test_every_chapter_is_a_download_beside_its_page(parsed):
    "With the package as a wheel, whose size the page states."
    wheels = list((SITE / "downloads").glob("*.whl"))
    assert [w.name.split("-")[0] for w in wheels] == ["transformer_lit"], f"one wheel, not {wheels}"
    size = f"{wheels[0].stat().st_size / 1e6:.1f} MB"
    assert size in (SITE / "book" / "preface.html").read_text(
        encoding="utf-8"
    ), "the preface states the wheel's size"
    for path in (ROOT / "book").glob("*.ipynb"):
        links = parsed[f"book/{path.stem}.html"].links
        for name in (path.name, wheels[0].name):
            assert links.count(f"../downloads/{name}") >= 1, f"{path.stem} has no link to {name}"
        assert (
            SITE / "downloads" / path.name
        ).read_bytes() == path.read_bytes(), (
            f"the download {path.name} is another notebook: make book"
        )
        assert size in (SITE / "book" / f"{path.stem}.html").read_text(
            encoding="utf-8"
        ), f"{path.stem} doesn't state the wheel's size"


def test_nbdev_lines_are_replaced_by_badges():
    for path in SITE.glob("book/[0-9]*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(
            r"#\| ?(export|default_exp|hide|echo)", text
        ), f"{path.name} still shows a line that begins with #|"
        notebook = (ROOT / "book" / f"{path.stem}.ipynb").read_text(encoding="utf-8")
        exports = notebook.count('"#| export\\n"')
        assert text.count('class="tl-badge"') >= min(
            exports, 1
        ), f"{path.name} has exported cells and no badge"


def test_what_the_style_names_is_on_a_page(parsed):
    "A heading that is renamed would lose its look without a word."
    named = set(
        re.findall(r"#([a-z][a-z-]{7,})", (ROOT / "book/web/static/book.css").read_text("utf-8"))
    )
    assert named and not named - set().union(*(page.ids for page in parsed.values()))


def test_every_fold_says_what_is_in_it():
    unnamed = [name for name in PAGES if "Show code cell" in (SITE / name).read_text("utf-8")]
    assert not unnamed, f"a cell of {unnamed} has no code_prompt_show"


def test_every_figure_has_a_description():
    for path in SITE.glob("book/*.html"):
        text = path.read_text(encoding="utf-8")
        for figure in re.findall(r"<figure [^>]*tl-figure.*?</figure>", text, re.S):
            assert re.search(
                r'role="(img|group)" aria-label="[^"]+ [^"]+ [^"]+ [^"]+"', figure
            ), f"{path.name}: a figure without words"
            assert re.search(
                r'<figcaption[^>]*><span class="tl-number">Fig [\d.]+</span>[^<]{12}', figure
            ), f"{path.name}: a figure without a caption"


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


@pytest.fixture
def visit(browser, address):
    """A function that loads a page of the book: the page, what it asked other hosts for, and its
    errors. The pages are closed at the end."""
    pages = []

    def load(name, width=1280, dark=False, motion="no-preference"):
        page = browser.new_page(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            reduced_motion=motion,
        )
        pages.append(page)
        page.set_default_timeout(
            180_000
        )  # a shared machine can be slow, and that is no fault of the page
        asked, errors = [], []
        page.on(
            "request",
            lambda r: (
                asked.append(r.url) if not r.url.startswith((address, "data:", "blob:")) else None
            ),
        )
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: errors.append(str(e)))
        page.goto(address + name, wait_until="load")
        return page, asked, errors

    yield load
    for page in pages:
        page.close()


@pytest.mark.parametrize("name", VISITED)
def test_page_in_a_browser(visit, name):
    """No other host, no error, formulas typeset, no sideways scrolling on a phone, nothing serious
    from axe in our own parts."""
    page, asked, errors = visit(name)
    if page.locator(".math").count():
        page.wait_for_function("window.MathJax && MathJax.startup && MathJax.startup.promise")
        page.evaluate("MathJax.startup.promise")
        assert (
            page.locator("mjx-container").count() >= page.locator(".math").count()
        ), "a formula was not typeset"
        assert (
            page.locator("mjx-container [data-mml-node=merror]").count() == 0
        ), "a formula has an error"
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


def findings(page) -> list[str]:
    """Serious and critical findings of axe: of all rules in our own parts, elsewhere of all but the
    theme's known ones.

    Two passes, because the theme's rules are the slow ones (contrast above all) and only our own
    parts need them."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed"
    ).Axe()
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
    "document.querySelector('article').insertAdjacentHTML('beforeend', '<img src=x.png>')": (
        "image-alt"
    ),
    "document.querySelector('.tl-figure').insertAdjacentHTML('beforeend',"
    " '<p style=\"color:#eee;background:#fff\">pale</p>')": (
        "color-contrast"
    ),
    "document.querySelector('article').insertAdjacentHTML('beforeend', '<button></button>')": (
        "button-name"
    ),
}


@pytest.mark.parametrize("harm, rule", SPOILT.items(), ids=SPOILT.values())
def test_what_is_wrong_is_found(visit, harm, rule):
    page, _, _ = visit("book/02_attention.html", width=390)
    page.evaluate(harm)
    assert [said for said in findings(page) if said.startswith(rule)], f"{rule} went unseen"


# The live views: what each promises is clicked, dragged and typed
# -------------------------------------------------------

VIEWS = {
    "tl-softmax": "book/02_attention.html",
    "tl-masks": "book/03_masks.html",
    "tl-noam": "book/11_schedule.html",
}


@pytest.fixture
def view(visit):
    """A function that opens the page of a view: the page, and the view on it. What it drew has come
    to rest when it is asked."""
    opened = []

    def open_(name, width=1280, dark=False):
        page, asked, errors = visit(VIEWS[name], width, dark)
        opened.append((asked, errors))
        root = page.locator(f"#{name}")
        root.scroll_into_view_if_needed()
        return page, root

    yield open_
    for asked, errors in opened:
        errors = [
            error for error in errors if "Failed to load resource" not in error
        ]  # axe looks for sources of the theme's styles
        assert not asked and not errors, (asked, errors)


def state(page, root):
    "All that a view shows, after the 200 ms in which it moves."
    page.wait_for_timeout(350)
    return root.inner_text() + "".join(
        root.locator("svg, [role=grid]").evaluate_all("all => all.map(e => e.innerHTML)")
    )


def said(root):
    return root.locator("[data-out=say]").inner_text()


@pytest.mark.parametrize("name", VIEWS)
def test_every_control_of_a_view_is_alive(view, name):
    page, root = view(name)
    controls = root.locator("input")
    assert controls.count() >= 1
    for i in range(controls.count()):
        control = controls.nth(i)
        box, before = control.get_attribute("type") == "checkbox", state(page, root)
        control.press("Space" if box else "ArrowRight")
        assert (
            state(page, root) != before
        ), f"{control.get_attribute('data-in')} of {name} changes nothing"
        control.press("Space" if box else "ArrowLeft")


def test_a_control_that_would_change_nothing_is_switched_off(view):
    page, root = view("tl-masks")
    off = "e => [...e.querySelectorAll('input:disabled')].map(one => one.dataset.in)"
    assert root.evaluate(off) == []
    root.locator("[data-in=left]").uncheck()
    assert root.evaluate(off) == ["inf"], "no row is dead"
    root.locator("[data-in=pads]").fill("0")
    assert root.evaluate(off) == ["padding", "left", "inf"]
    root.locator("[data-in=causal]").uncheck()
    assert root.evaluate(off) == ["padding", "left", "inf", "training"], "nothing is closed"


@pytest.mark.parametrize("name", VIEWS)
def test_try_this_performs_each_suggestion_and_comes_back(view, name):
    page, root = view(name)
    button, start, seen = root.locator("[data-do=try]"), state(page, root), set()
    while not button.inner_text().startswith("Back"):
        before, offered = state(page, root), button.inner_text()
        assert offered.startswith("Try this: ")
        button.press("Enter")
        assert state(page, root) != before and said(root) not in seen, offered
        seen.add(said(root))
    button.click()
    assert len(seen) >= 3
    page.mouse.move(0, 0)
    page.wait_for_timeout(1500)  # the rings round changed cells go
    after = state(page, root)
    assert re.sub(r' (tabindex|class)="[^"]*"', "", after) == re.sub(
        r' (tabindex|class)="[^"]*"', "", start
    )


def alarms(root):
    return [
        line.split("\n")[0].removesuffix(" ALARM").strip()
        for line in root.locator("li.tl-m-rings").all_inner_texts()
    ]


def cell(root, t, s):
    return root.locator(f'[data-cell="{t},{s}"]')


def test_a_click_on_a_cell_of_the_mask_rings_the_alarms(view):
    page, root = view("tl-masks")
    assert (
        alarms(root) == [] and root.locator(".tl-m-dead").count() == 4
    ), "two dead rows: their names, and what they give"
    cell(root, 3, 5).click()
    assert alarms(root) == ["reads the future"] and "opened query elle, key large" in said(root)
    cell(root, 4, 1).click()
    assert alarms(root) == ["reads the future", "reads padding"]
    cell(root, 3, 3).click()
    assert alarms(root) == ["reads the future", "reads padding", "misses itself"]
    root.locator("[data-in=inf]").check()
    assert alarms(root)[-1] == "not finite" and root.get_by_text("nan", exact=True).count() == 2
    root.locator("[data-in=training]").check()
    assert alarms(root)[-2:] == ["not finite", "train ≠ eval"] and len(alarms(root)) == 5
    root.locator("[data-do=clear]").click()
    assert (
        alarms(root) == ["not finite", "train ≠ eval"]
        and root.locator("[data-do=clear]").is_hidden()
    )


def test_the_mask_says_why_a_cell_is_closed(view):
    page, root = view("tl-masks")
    for at, label, kinds in (
        ((0, 1), "by causal and padding", ("causal", "padding")),
        ((2, 0), "by padding", ("padding",)),
        ((2, 5), "by causal", ("causal",)),
        ((6, 2), "open", ()),
    ):
        one = cell(root, *at)
        assert one.get_attribute("aria-label").endswith(label)
        assert [
            kind for kind in ("causal", "padding") if f"tl-m-{kind}" in one.get_attribute("class")
        ] == list(kinds)
    paints = {
        cell(root, *at).evaluate("e => getComputedStyle(e).backgroundImage")
        for at in ((0, 1), (2, 0), (2, 5), (6, 2))
    }
    assert len(paints) == 4, "causal, padding, both and open look different"


def test_the_mask_goes_by_keyboard(view):
    page, root = view("tl-masks")
    cell(root, 0, 0).focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert "closed query bos, key bos" in said(root) and cell(root, 2, 2).evaluate(
        "e => e == document.activeElement"
    )
    assert root.locator('[data-cell][tabindex="0"]').count() == 1, "one stop for the whole grid"


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("padding", [True, False])
@pytest.mark.parametrize("pads", [1, 3])
def test_the_masks_alarms_are_the_chapters(view, causal, padding, pads):
    """With the pads on the right, as in the chapter's batch, its own two tests ring where the
    view's do."""
    import torch

    from transformer_lit.attention import scaled_dot_product_attention
    from transformer_lit.masks import (
        causal_mask,
        padding_mask,
        depends_on_future,
        depends_on_padding,
    )

    table = torch.sin(torch.arange(1, 129).view(16, 8) ** 1.5)

    def attend(tokens):
        mask = torch.ones(1, 1, tokens.size(1), tokens.size(1), dtype=torch.bool)
        mask = mask & causal_mask(tokens.size(1)) if causal else mask
        x = table[tokens][:, None]
        return scaled_dot_product_attention(
            x, x, x, mask & padding_mask(tokens) if padding else mask
        )[0][:, 0]

    tokens = torch.tensor([[1, 4, 5, 6, 2] + [0] * pads])
    due = {
        "reads the future": any(depends_on_future(attend, tokens, t) for t in range(4 + pads)),
        "reads padding": depends_on_padding(attend, tokens),
    }
    page, root = view("tl-masks")
    root.locator("[data-in=left]").set_checked(False)
    root.locator("[data-in=causal]").set_checked(causal)
    root.locator("[data-in=padding]").set_checked(padding)
    root.locator("[data-in=pads]").fill(str(pads))
    assert alarms(root) == [name for name, rings in due.items() if rings]
    assert root.locator("[data-out=pads]").inner_text() == str(pads)


def drag(page, mark, right, down):
    box = mark.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + right, y + down, steps=4)
    page.mouse.up()
    page.wait_for_timeout(350)


def keys_of(root):
    return [
        float(text.split()[1]) for text in root.locator("[role=meter] text").all_text_contents()
    ]


def test_scores_can_be_dragged_and_typed(view):
    page, root = view("tl-softmax")
    dot = root.locator('[data-key="2"]')
    before, score = keys_of(root), float(dot.get_attribute("aria-valuenow"))
    assert before == [5.6, 1.0] and score == pytest.approx(-1.12 * 8)
    drag(page, dot, 0, -60)
    assert float(dot.get_attribute("aria-valuenow")) > 8 and keys_of(root) != before
    dragged = float(dot.get_attribute("aria-valuenow"))
    dot.focus()
    page.keyboard.press("ArrowDown")
    assert float(dot.get_attribute("aria-valuenow")) == pytest.approx(dragged - 0.05 * 8)
    root.locator("[data-do=clear]").click()
    assert (
        float(dot.get_attribute("aria-valuenow")) == pytest.approx(score)
        and keys_of(root) == before
    )


def test_the_division_holds_the_upper_row(view):
    page, root = view("tl-softmax")
    found = {}
    for power in range(2, 11):
        root.locator("[data-in=k]").fill(str(power))
        page.wait_for_timeout(300)
        weights = re.search(r"([\d.]+) divided, ([\d.]+) not", said(root))
        found[2**power] = float(weights[2])
        assert keys_of(root)[0] == 5.6 and weights[1] == "0.38"
        assert root.locator("[data-out=k]").inner_text() == str(2**power)
    assert min(k for k, most in found.items() if most > 0.9) == 16, "what the button says"


def test_the_peak_can_be_dragged_and_the_axis_follows(view):
    page, root = view("tl-noam")
    peak = root.locator("svg [role=slider]")
    assert peak.get_attribute("aria-valuetext") == "warm-up 400 steps, peak 0.00221"
    drag(page, peak, 200, 0)
    warm = int(peak.get_attribute("aria-valuenow"))
    assert 4000 < warm < 9000 and root.locator("[data-out=w]").inner_text() == f"{warm:,}"
    peak.focus()
    page.keyboard.press("ArrowLeft")
    assert int(peak.get_attribute("aria-valuenow")) == warm - 100
    root.locator("[data-in=w]").fill("400")
    root.locator("[data-in=d]").fill("6")
    page.wait_for_timeout(350)
    tall = root.locator("svg path[data-line=own]").evaluate("e => e.getBBox().height")
    assert (
        tall > 180
    ), "the smallest width with the shortest warm-up fills the height, and isn't cut off"
    ghost = root.locator("svg path[data-line=base]").evaluate("e => e.getBBox().height")
    assert 5 < ghost < tall / 3, "the base model's line keeps the scale"


def test_reduced_motion_draws_at_once(visit):
    page, _, _ = visit(VIEWS["tl-softmax"], motion="reduce")
    root = page.locator("#tl-softmax")
    root.locator("[data-in=k]").fill("10")
    bars = root.locator("svg").inner_html()
    page.wait_for_timeout(300)
    assert root.locator("svg").inner_html() == bars


def said_in_french(page) -> str:
    return " ".join(page.locator(".tl-first [data-out=fr] span:not(.tl-unsaid)").all_inner_texts())


@pytest.mark.parametrize("width", [1280, 390])
def test_the_first_pages_switch_turns_the_pronoun(visit, width):
    page, _, errors = visit("book/index.html", width=width)
    assert " il " in said_in_french(page) and page.locator(".tl-first path.tl-link-it").count() == 1
    page.get_by_role("button", name="wide").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('.tl-first-note').textContent.includes('wide')")
    assert " elle " in said_in_french(page) and " il " not in said_in_french(page) and not errors
    assert (
        page.locator(".tl-first path.tl-link-it").count() == 1
        and page.get_by_role("button", name="wide").get_attribute("aria-pressed") == "true"
    )


def test_a_word_of_the_glossary_shows_its_line(visit):
    page, _, _ = visit("book/09_transformer.html")
    term = page.locator("a.tl-term").first
    line = term.get_attribute("data-line")
    term.focus()
    assert (
        len(line.split()) > 4
        and page.evaluate("e => getComputedStyle(e, '::after').content", term.element_handle())
        == f'"{line}"'
    )
    term.click()
    page.wait_for_url("**/glossary.html#term-*")


def test_a_box_of_the_drawing_leads_to_its_chapter(visit):
    page, _, _ = visit("book/index.html")
    page.locator(".tl-desk a:has(title:text-is('cross-attention'))").first.click()
    page.wait_for_url("**/08_decoder.html")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_fits_a_phone_and_axe_finds_nothing(view, name, dark):
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed"
    ).Axe()
    page, root = view(name, width=390, dark=dark)
    assert (
        root.evaluate("e => e.scrollWidth <= e.clientWidth") and root.bounding_box()["width"] <= 390
    )
    found = axe.run(
        page, context={"include": [[f"#{name}"]]}, options={"resultTypes": ["violations"]}
    ).response["violations"]
    assert not [
        (rule["id"], rule["nodes"][0]["html"][:150])
        for rule in found
        if rule["impact"] in ("serious", "critical")
    ]
    small = root.locator("button:visible, [role=slider]").evaluate_all(
        "all => all.map(e => e.getBoundingClientRect()).filter(b => b.width < 22 || b.height <"
        " 22).length"
    )
    assert not small, "too small for a finger"
    letters = root.locator("text, label, p, li").evaluate_all(
        "all => Math.min(...all.map(e => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert letters >= 11


@pytest.mark.parametrize("dark", [False, True])
def test_the_attention_view_of_chapter_20(visit, dark):
    """It opens on the pronoun's head; its button taps the pronoun; a thumbnail turns it; nothing is
    loaded for it."""
    page, asked, errors = visit("book/20_attention_maps.html", dark=dark)
    view = page.locator(".tl-attention").first
    say = view.locator("[data-out=say]")
    assert say.inner_text().startswith("Layer 3, head 1 of cross-attention.")
    view.locator("[data-do=try]").click()
    assert "“il” (said after" in say.inner_text() and "tired" in say.inner_text()
    view.locator(".tl-heads button").nth(1).click()
    assert say.inner_text().startswith("Layer 1, head 2") and "“il”" in say.inner_text()
    assert "another sharp head" in view.locator("[data-do=try]").inner_text()
    assert (
        page.locator(".tl-attention").count() == 2
    ), "the running sentence, and one of the shipped translator"
    assert not asked and not errors


@pytest.mark.parametrize("width", [1280, 390])
def test_the_forty_sentences_stand_near_the_top_and_answer(visit, width):
    "Its controls one by one: tests/test_try_it.py."
    page, asked, errors = visit("book/18_translation.html", width=width)
    view = page.locator(".tl-try")
    assert view.bounding_box()["y"] < (2500 if width > 600 else 3500), "the view is buried"
    for control, said in (
        ("[data-do=try]", "wide"),
        ("[data-filter=failures]", ""),
        ("[data-out=list] button >> nth=3", ""),
        ("[data-do=again]", ""),
    ):
        before = view.inner_html()
        view.locator(control).click()
        page.wait_for_function("document.querySelector('.tl-try [data-out=say]').textContent != ''")
        assert view.inner_html() != before or "again" in control, f"{control} changes nothing"
        assert said in view.locator("[data-out=s]").get_attribute("aria-label")
    assert not asked and not errors


@pytest.mark.parametrize("dark", [False, True])
def test_solutions_open(visit, dark):
    "A solution is one click away, in both themes."
    page, _, _ = visit("book/03_masks.html", dark=dark)
    solution = page.locator("details:has-text('Solution')").first
    solution.locator("summary").first.click()
    assert solution.evaluate("e => e.open"), "the solution did not open"
