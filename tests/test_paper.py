"""The book on paper and in an e-reader: a small book of two pages, made in seconds, and the whole
one where it is built."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import files
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import chromium
import pytest
from plugins.pages import require
from pypdf import PdfReader

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import epub  # noqa: E402
import pdf  # noqa: E402
import still  # noqa: E402

CHECKER = Path("/usr/share/java/epubcheck.jar")
ABOUT = {"title": "A small book", "author": "Nobody & Co", "version": "1"}
ABOUT["date-released"] = "2026-01-01"
MARK = '<defs><path id="m1" d="M0 0h4v4z"/></defs><use href="#m1"/>'
CELL = (
    '<div class="cell"><div class="cell_input"><p class="tl-badge">exported to <a'
    ' href="source/small.html">transformer_lit/small.py</a></p><div class="highlight"><pre>def'
    " {name}(x):\n{body}    return x</pre></div></div></div>"
)
QUESTION = (
    '<p><strong>{n}.</strong> What fails?</p><p>Think first.</p><div class="cell'
    ' tag_solution"><details class="hide"><summary><p class="collapsed">Answer</p><p'
    ' class="expanded">Hide</p></summary><div class="cell_input"><div class="highlight"><pre>told ='
    " {n}</pre></div></div></details></div>"
)
CELLS = "".join(CELL.format(name=f"f{n}", body="    x = x * 2\n" * 6) for n in range(20))
QUESTIONS = "".join(QUESTION.format(n=n) for n in (1, 2))
FIRST = """<section id="a-small-book">
<h1>A small book<a class="headerlink" href="#a-small-book">#</a></h1>
<p>Begin with <a href="01_small.html#the-end">the end</a>.</p></section>"""
SMALL = f"""<section id="small"><p class="tl-part">Part I · One</p>
<h1>1 · Small<a class="headerlink" href="#small">#</a></h1><p>What it promises.</p>
<ul class="simple"><li><p><strong>Paper</strong> §3</p></li><li><p>
<a href="../downloads/x.ipynb" download>this notebook</a></p></li></ul>
<section id="formulas"><h2>Formulas</h2>
<p>With <span class="math">\\(\\sqrt{{d_k}}\\)</span> and &lt;pad&gt;,</p>
<div class="math">\\[\\sum_{{i=1}}^{{n}} \\frac{{a_i}}{{b_i}} = \\mathrm{{softmax}}(x)\\]</div>
<p><a href="source/small.html">A file</a>, <a href="index.html">the first page</a>,
<a href="01_small.html#nowhere">gone</a>,
<a href="https://arxiv.org/abs/1706.03762">the paper</a>.</p>
<figure class="tl-figure"><div class="tl-desk">
<svg width="200" height="40" viewBox="0 0 200 40">{MARK}<text fill="var(--tl-line)">desk</text>
</svg></div>
<div class="tl-phone" style="display:none"><svg width="90" height="40">{MARK}<text>phone</text>
</svg></div><figcaption class="tl-caption">A figure.</figcaption></figure>
<svg width="50" height="9" viewBox="0 0 50 9">{MARK}</svg>
<div class="tl-explore" role="group" aria-label="A view of one number">
<style>.tl-explore b {{ color: red }}</style><b>seven</b><button data-do="try">Try this</button>
<p data-out="say">It is seven.</p></div><script>1 < 2</script>
<details class="tl-more"><summary>More</summary><table><tr>
<td>{"</td><td>".join(f"word{i}" for i in range(40))}</td></tr></table></details></section>
<section id="cells"><h2>Cells</h2>{CELLS}
<div class="cell"><div class="cell_input"><div class="highlight">
<pre>{"wide = " + "1 + " * 60}</pre></div></div></div>
<div class="cell"><details class="hide above-input"><summary><p class="collapsed">Drawing</p>
<p class="expanded">Hide</p></summary><div class="cell_input"><pre>sheet = 0</pre></div></details>
</div></section>
<section id="exercise-1-1"><h3>Exercise 1.1 · One</h3><p>Do it.</p><div class="cell">
<div class="cell_input"><div class="highlight"><pre>chart(1)</pre></div></div>
<div class="cell_output"><div class="tl-figure"><p>The chart.</p><details>
<summary>Hint: 1</summary><p>Look there.</p></details></div></div></div><details>
<summary>Hint</summary><p>Think.</p></details>
<div class="cell tag_solution"><details class="hide"><summary><p class="collapsed">Solution</p>
<p class="expanded">Hide</p></summary><div class="cell_input"><div class="highlight">
<pre>answer = 42</pre></div></div></details></div></section>
<section id="three-questions"><h2>Three questions</h2>{QUESTIONS}</section>
<section id="the-end"><h2>The end</h2><p>Done.</p></section></section>"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    "The small book's folder, its PDF, what the printing said, and its EPUB."
    require(find_spec("playwright"), "playwright is not installed")
    require(chromium.program(), "no Chromium here: install Debian's package chromium")
    folder = tmp_path_factory.mktemp("paper")
    shutil.copytree(ROOT / "book" / "web" / "static", folder / "html" / "_static")
    formulas = next(f for f in files("sphinx-mathjax-offline") if f.name == "tex-svg.js")
    shutil.copy(formulas.locate(), folder / "html" / "_static")
    (folder / "html" / "_static" / "pygments.css").write_text(
        'html[data-theme="light"] .highlight .k { color: #6730C5 }\nhtml[data-theme="dark"]'
        " .highlight .k { color: #DCC6E0 }\n"
    )
    for name, body in (("index", FIRST), ("01_small", SMALL)):
        page = folder / "html" / "book" / f"{name}.html"
        page.parent.mkdir(exist_ok=True)
        page.write_text(
            '<!DOCTYPE html><html data-theme="auto"><head><meta'
            ' charset="utf-8"><title>x</title><link rel="stylesheet"'
            ' href="../_static/book.css"><script defer'
            ' src="../_static/tex-svg.js"></script></head><body><article'
            f' class="bd-article">{body}</article></body></html>',
            encoding="utf-8",
        )
    toc = folder / "_toc.yml"
    toc.write_text(
        "format: jb-book\nroot: book/index\nparts:\n  - caption: I · One\n    chapters:\n      -"
        " file: book/01_small\n"
    )
    target, facts = pdf.make(folder / "html", toc, folder / "out", ABOUT)
    return folder, target, facts, epub.make(folder / "html", toc, folder / "out", ABOUT)


@pytest.fixture(scope="module")
def printed(made):
    return (made[0] / "out" / "book.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def unpacked(made):
    with zipfile.ZipFile(made[3]) as book:
        return {name: book.read(name) for name in book.namelist()}


def pages_in(unpacked):
    return {
        Path(name).name: text.decode("utf-8")
        for name, text in unpacked.items()
        if name.endswith(".xhtml")
    }


def test_the_contents_and_the_index_have_the_right_pages(made, printed):
    places, pages = made[2]["places"], made[2]["pages"]
    listed = dict(re.findall(r'data-page-of="([^"]+)">(\d+)<', printed))
    parts = "index c01_small c01_small--cells c01_small--the-end c01_small--export-f0 answers"
    assert {*parts.split(), "index-of-names"} <= set(listed)
    assert {place: int(page) for place, page in listed.items()}.items() <= places.items()
    order = [places[name] for name in ("index", "c01_small", "answers", "index-of-names", "")]
    assert order == sorted(order) and len(set(order[:3])) == 3 and order[-1] == pages


def test_a_short_cell_is_not_broken(made):
    texts = [page.extract_text() for page in PdfReader(made[1]).pages]
    begun = [text.count("def f") for text in texts]
    assert begun == [text.count("return x") for text in texts] and any(begun)


def test_nothing_is_too_wide(made):
    assert made[2]["wide"] == []
    assert made[2]["smaller"] >= 1, "the table of forty columns was not made smaller"


def test_nothing_is_folded_alive_or_foreign(printed, unpacked):
    signs = "<script <button <details mjx-assistive tl-phone headerlink Hide".split()
    for text in (printed, *pages_in(unpacked).values()):
        assert not [sign for sign in [*signs, "this notebook"] if sign in text]
        assert not re.search(r'(src|href)="https?://(?!arxiv\.org)', text)
    assert printed.count('alt="A view of one number. It is seven."') == 1


def test_drawing_code_is_left_to_the_notebook(printed, unpacked):
    assert "that aren't printed here: Drawing." in printed
    assert "sheet = 0" not in printed and "sheet = 0" in pages_in(unpacked)["c01_small.xhtml"]


def test_hints_and_solutions_stand_at_the_end(printed, unpacked):
    for line in (
        ["Do it.", "chart(1)", "The chart.", 'id="answers"', "Look there."],
        ["Do it.", 'id="answers"', "Think.", "answer = 42"],
    ):
        places = [printed.index(words) for words in line]
        assert places == sorted(places), line
    pages = pages_in(unpacked)
    assert "Think." in pages["answers.xhtml"] and "Think." not in pages["c01_small.xhtml"]


def test_a_question_leads_to_its_answer(printed, unpacked):
    for text in printed, pages_in(unpacked)["c01_small.xhtml"]:
        links = re.findall(r'"tl-answer-link" href="[^"#]*#([^"]+)"', text)
        ends = "exercise-1-1", "question-1", "question-2"
        assert links == [f"c01_small--answer-{end}" for end in ends]


def links_that_lead_nowhere(pages):
    places = {name: still.ids_in(text) for name, text in pages.items()}
    for name, text in pages.items():
        for link in re.findall(r'href="([^"]*)"', text):
            file, _, place = link.partition("#")
            if re.match(r"https?:|file:", link) or (file or name).endswith(".css"):
                continue
            ids = places.get(file or name)
            if ids is None or place and place not in ids:
                yield f"{name}: {link}"


def test_every_link_inside_leads_somewhere_and_no_id_comes_twice(printed, unpacked):
    for pages in ({"book.html": printed}, pages_in(unpacked)):
        assert not list(links_that_lead_nowhere(pages))
        for name, text in pages.items():
            ids = re.findall(r'\sid="([^"]+)"', text)
            assert len(ids) == len(set(ids)), name


def test_formulas(printed, unpacked):
    page = pages_in(unpacked)["c01_small.xhtml"]
    assert printed.count("<mjx-container") == page.count("<math ") == 2
    assert not re.search(r"mjx|\\\(", page)
    assert 'display="block"' in page and 'alttext="\\sqrt{d_k}"' in page


def test_the_parcel_is_an_epub(unpacked):
    assert list(unpacked)[0] == "mimetype" and unpacked["mimetype"] == b"application/epub+zip"
    for name, content in unpacked.items():
        if name.endswith((".xhtml", ".opf", ".xml")):
            ElementTree.fromstring(content)
    listed = set(re.findall(r' href="([^"]+)"', unpacked["book/package.opf"].decode()))
    frame = {"mimetype", "META-INF/container.xml", "book/package.opf"}
    assert {f"book/{name}" for name in listed} == set(unpacked) - frame
    assert {"nav.xhtml", "cover.jpg", "pictures/c01_small-0.png"} <= listed


def check(file):
    if not shutil.which("java") or not CHECKER.exists():
        pytest.skip("no epubcheck here: install Debian's package epubcheck")
    done = subprocess.run(["java", "-jar", str(CHECKER), str(file)], capture_output=True, text=True)
    assert "0 fatals / 0 errors / 0 warnings" in done.stdout + done.stderr, done.stderr[-3000:]


def test_epubcheck_finds_nothing(made):
    check(made[3])


@pytest.mark.slow
@pytest.mark.skipif(
    not os.environ.get("TRANSFORMER_LIT_PAPER"), reason="minutes: TRANSFORMER_LIT_PAPER=1"
)
def test_the_whole_book(tmp_path):
    "Every formula finished, nothing cut, every link right, a valid EPUB."
    target, facts = pdf.make(still.SITE, ROOT / "_toc.yml", tmp_path, pdf.facts())
    text = (tmp_path / "book.html").read_text(encoding="utf-8")
    assert facts["wide"] == [] and 200 < facts["pages"] < 650 and target.stat().st_size < 60e6
    assert "merror" not in text and not re.search(r'data-page-of="[^"]+">0<', text)
    assert not list(links_that_lead_nowhere({"book.html": text}))
    check(epub.make(still.SITE, ROOT / "_toc.yml", tmp_path, pdf.facts()))
