"""A browser for tests that look at pages, and `Page`: one page in it, watched and asked.

A live element says in data-state what it does (book/web/static/live.js); tests wait for that, never
for a sentence and never for some time."""

import functools
import os
import shutil
import threading
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import chromium
import pytest

STATIC = Path(__file__).resolve().parents[2] / "book" / "web" / "static"
OWN = ("file:", "blob:", "data:", "about:", "http://127.0.0.1:")
# Findings of the theme itself and of docutils, not of our pages: search and sidebar controls
# without a name (summary-name), code blocks that scroll, colors of code, the list of citations.
THEME_RULES = """color-contrast summary-name aria-required-children scrollable-region-focusable
    landmark-unique region aria-allowed-role landmark-no-duplicate-banner
    landmark-banner-is-top-level landmark-complementary-is-top-level""".split()
CONTRASTS = """([marks, property]) => {
  const canvas = Object.assign(document.createElement("canvas"), {width: 1, height: 1});
  const ctx = canvas.getContext("2d", {willReadFrequently: true});
  const ground = getComputedStyle(document.body).backgroundColor;
  function light(paint, alpha) {
    [ctx.globalAlpha, ctx.fillStyle] = [1, ground];
    ctx.fillRect(0, 0, 1, 1);
    [ctx.globalAlpha, ctx.fillStyle] = [alpha, paint];
    ctx.fillRect(0, 0, 1, 1);
    const linear = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const rgb = [...ctx.getImageData(0, 0, 1, 1).data].slice(0, 3).map(v => linear(v / 255));
    return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2] + 0.05;
  }
  const drawn = [...document.querySelectorAll(marks)].filter(e => e.getAttribute("d") !== "");
  return drawn.map(e => {
    const style = getComputedStyle(e);
    const [a, b] = [light(style[property], +style.opacity), light(ground, 1)];
    return [Math.max(a, b) / Math.min(a, b), e.outerHTML.slice(0, 100)];
  });
}"""


def require(is_there, reason):
    "Skip where a tool is missing; in CI fail."
    if not is_there:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


@pytest.fixture(scope="module")
def browser():
    "Chromium without a window, which asks nobody on its own."
    for name in ("playwright", "axe_playwright_python"):
        require(find_spec(name), f"{name} is not installed")
    require(chromium.program(), "no Chromium here: install Debian's package chromium")
    with chromium.opened() as running:
        yield running


@contextmanager
def served(folder):
    "The address of a folder on a free port of this machine."

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def write_page(folder, body):
    """A page in the book's style, beside its scripts as in the built book, without the theme; its
    address."""
    shutil.copytree(STATIC, folder / "_static", dirs_exist_ok=True)
    (folder / "book").mkdir(exist_ok=True)
    path = folder / "book" / "page.html"
    path.write_text(
        '<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8"><meta'
        ' name="viewport" content="width=device-width"><title>t</title><link rel="stylesheet"'
        ' href="../_static/book.css"><style>body{margin:0;color:var(--pst-color-text-base);'
        "background:var(--pst-color-background)}a{color:var(--pst-color-link)}</style><main"
        ' class="bd-article" style="max-width:704px;margin:auto;padding:0 12px"><h1>t</h1>'
        f"{body}</main></html>",
        "utf-8",
    )
    return path.as_uri()


class Page:
    "A page of the browser. What it reports as an error or asks of another host is a problem."

    def __init__(self, browser, address, width=1000, dark=False, motion="reduce"):
        self.page, self.problems, self.root = None, [], ""
        self.page = browser.new_page(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            reduced_motion=motion,
        )
        self.set_default_timeout(120_000)  # a shared machine can be slow
        self.on("pageerror", lambda error: self.problems.append(str(error)))
        self.on("console", self.hear)
        self.on("request", self.watch)
        self.goto(address)
        if dark:
            self.theme("dark")

    def __getattr__(self, name):
        return getattr(self.page, name)

    def hear(self, message):
        if message.type == "error":
            self.problems.append(message.text)

    def watch(self, request):
        if not request.url.startswith(OWN):
            self.problems.append(request.url)

    def theme(self, name):
        self.evaluate("name => { document.documentElement.dataset.theme = name }", name)

    def at(self, css, **which):
        "Elements of the view that the page is about, if it is about one."
        return self.locator(f"{self.root} {css}", **which)

    def out(self, name):
        return self.at(f'[data-out="{name}"]')

    def do(self, name):
        self.at(f'[data-do="{name}"]').click()

    def texts(self, css):
        return self.at(css).all_inner_texts()

    def wait(self, *states, of=None):
        "Until the view, or the element `of`, is in one of these states, without any: done."
        marks = [f'{of or self.root}[data-state="{state}"]' for state in states or ["done"]]
        self.wait_for_selector(", ".join(marks), state="attached")

    def keys(self, presses):
        'As in "Tab*3 Enter".'
        for press in presses.split():
            key, _, times = press.partition("*")
            for _ in range(int(times or 1)):
                self.keyboard.press(key)

    def focused(self, what="tagName"):
        return self.evaluate(f"document.activeElement.{what}")

    def findings(self, *parts, rules=None, but=()):
        "What axe finds serious or critical, as rule: element."
        from axe_playwright_python.sync_playwright import Axe

        options = {"resultTypes": ["violations"], "preload": False}
        if rules:
            options["runOnly"] = rules
        options["rules"] = {rule: {"enabled": False} for rule in but}
        parts = parts or ([self.root] if self.root else [])
        context = {"exclude": [["mjx-container"], [".highlight pre"]]}  # MathJax's and Pygments'
        if parts:
            context = {"include": [[part] for part in parts]}
        violations = Axe().run(self.page, context=context, options=options).response["violations"]
        return [
            f"{rule['id']}: {node['html'][:150]}"
            for rule in violations
            if rule["impact"] in ("serious", "critical")
            for node in rule["nodes"]
        ]

    def check_width(self):
        width = self.viewport_size["width"]
        self.wait_for_function(  # the layout takes a moment to settle
            f"document.documentElement.scrollWidth <= {width}", timeout=20_000
        )

    def check_looks(self, *parts):
        "It is no wider than the page, axe finds nothing, and a finger meets each control."
        self.check_width()
        assert not (findings := self.findings(*parts)), findings
        css = ", ".join(
            f"{part} :is(button, select, textarea, [role=slider]):visible"
            for part in parts or [self.root]
        )
        sizes = self.locator(css).evaluate_all(
            "all => all.map(e => [e.getBoundingClientRect().height, e.outerHTML.slice(0, 100)])"
        )
        small = [html for height, html in sizes if height < 22]
        assert sizes and not small, f"too small for a finger: {small}"

    def check_contrast(self, marks, paint, least):
        contrasts = self.evaluate(CONTRASTS, [marks, paint])
        pale = [mark for mark in contrasts if mark[0] < least]
        assert contrasts and not pale, f"{marks}, {paint}: {pale[:4]}"


@pytest.fixture
def visit(browser):
    "A function that opens a watched page: visit(address, width=, dark=, motion=)."
    pages = []

    def load(address, root="", kind=Page, **looks):
        pages.append(kind(browser, address, **looks))
        pages[-1].root = root
        return pages[-1]

    yield load
    for page in pages:
        page.close()
    problems = [problem for page in pages for problem in page.problems]
    assert not problems, problems
