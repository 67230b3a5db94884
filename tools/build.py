"""Render the book from the executed chapters: `build.py` puts it together in .run/site and builds
_build/html.

Nothing is executed here; tools/execute.py has done that. The working tree is only read.
"""

import ast
import hashlib
import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import engine_models
import nbformat
from chapters import ROOT, chapters

from litbook import claims, figures
from litbook.live import inside
from litbook.live.first_page import MODEL, any_sentence, running_sentence
from transformer_lit.corpora.files import shipped
from transformer_lit.serving.files import APART, pack_translator
from transformer_lit.translation import Translator

SITE, OUT, BUILT = ROOT / ".run" / "site", ROOT / ".run" / "out", ROOT / "_build"
TEMPLATES = ROOT / "book" / "web" / "templates"
STATIC = SITE / "book" / "web" / "static"
MATHJAX = resources.files("sphinx-mathjax-offline") / "static/mathjax/tex-svg.js"  # fonts inside
LARGEST = 25_000  # letters of a drawing on a card
FIGURE = re.compile(  # its words, and the last drawing for a phone, if there is one
    r'<figure class="tl-figure".*?aria-label="([^"]*)"(?:(?:(?!</figure>).)*class="tl-phone")?.*?'
    r"(<svg.*?</svg>)",
    re.S,
)
UNREAD = {"solution", "remove-cell", "remove-input", "hide-input"}  # tags of code that is folded


def read(path: Path) -> str:
    return path.read_text("utf-8")


# Chapters -----------------------------------------------------------------------------------------


def measured(name: str) -> str:
    "The box's line on time and memory, from the chapter's last execution."
    facts = json.loads(read(OUT / f"{name}.json"))
    threads = "one thread" if facts["threads"] == 1 else f"{facts['threads']} threads"
    effort = f"{facts['seconds']:.0f} seconds on {threads} and {facts['megabytes']:,} MB"
    return f"- **Takes** {effort}, measured by this build"


def make_wheel(folder: Path) -> Path:
    """The package as one file, the doctor as another; the same bytes whenever they are made, and
    nothing is fetched for them."""
    shutil.rmtree(folder, ignore_errors=True)
    pip = "-m pip -q --disable-pip-version-check wheel --no-deps --no-build-isolation"
    command = [sys.executable, *f"{pip} --no-cache-dir --wheel-dir".split(), folder]
    command += [ROOT, ROOT / "transformer_lit/doctor"]
    subprocess.run(command, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1767225600"})
    for name in APART:  # translators whose license allows less than the wheel's
        pack_translator(ROOT / "data/checkpoints" / name, folder / f"{name}.zip")
    return next(folder.glob("transformer_lit-*.whl"))


def link_to(file: Path, words: str) -> str:
    "A file that lies beside the pages, and its size."
    size = file.stat().st_size
    weight = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
    return f'<a href="../downloads/{file.name}" download>{words}</a> ({weight})'


def merged(path: Path, wheel: Path):
    """The committed chapter with the outputs of its last execution; widgets need a kernel and stay
    out."""
    notebook, done = nbformat.read(path, 4), OUT / path.name
    cells = nbformat.read(done, 4).cells if done.exists() else []
    outputs = {cell.id: cell.get("outputs", []) for cell in cells}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            line = r"^- \*\*Takes\*\* [^;\n]*"
            cell.source = re.sub(line, lambda _: measured(path.stem), cell.source, flags=re.M)
        elif cell.id not in outputs:
            sys.exit(f"{path.name} was not executed as it stands: make book")
        else:
            cell.outputs = outputs[cell.id]
            for out in cell.outputs:
                if "data" in out:
                    out.data = {k: data for k, data in out.data.items() if "widget" not in k}
                if "claim" in out.get("metadata", {}):  # the record may be newer than the execution
                    out["data"] = claims.rendered(claims.from_metadata(out["metadata"]["claim"]))
    notebook.cells[0].source += f"""
- **Run it:** {link_to(path, "this notebook")} and {link_to(wheel, "the package")}, \
<a href="preface.html#in-colab">in five steps</a>"""
    for file in wheel.parent.glob("*-*"):  # what is no chapter
        if file != wheel and any(file.name in cell.source for cell in notebook.cells):
            notebook.cells[0].source += f"; beside it {link_to(file, file.name)}"
    return notebook


def minutes(path: Path) -> int:
    """How long a chapter takes to read: 200 words and 20 lines of code a minute, exercises and
    folded cells apart."""
    words = lines = 0
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type == "markdown":
            words += len(cell.source.split())
        elif not UNREAD & set(cell.metadata.get("tags", [])):
            lines += len(cell.source.splitlines())
    return round(words / 200 + lines / 20)


def between(start: str, end: str) -> list[Path]:
    return chapters([f"{n:02}" for n in range(int(start), int(end) + 1)])


def hours(start: str, end: str) -> str:
    return f"about {round(sum(map(minutes, between(start, end))) / 60)} hours of reading"


def drawing_in(output) -> str:
    "An output's drawing for a phone, with the first sentence of its words: as a card shows it."
    figure = FIGURE.search(output.get("data", {}).get("text/html", ""))
    if not figure or "data-chapter" in figure[2] or len(figure[2]) >= LARGEST:
        return ""
    alt = re.match(r".*?[.!?](?= |$)|.*", html.unescape(figure[1]), re.S)[0]
    small = figure[2].replace("<svg ", '<svg preserveAspectRatio="xMinYMid" ', 1)
    return f'<span class="tl-thumb" role="img" aria-label="{html.escape(alt)}">{small}</span>'


def thumbnail(path: Path) -> str:
    "The drawing of the chapter's cell with the tag `card`, else its first one."
    cells = nbformat.read(OUT / path.name, 4).cells
    cells.sort(key=lambda cell: "card" not in cell.metadata.get("tags", []))
    drawings = (drawing_in(out) for cell in cells for out in cell.get("outputs", []))
    return next(filter(None, drawings), "")


def card(path: Path) -> str:
    "A chapter in short: its figure, its title, its first sentence, its minutes."
    title, _, lead = nbformat.read(path, 4).cells[0].source.partition("\n")
    lead = re.sub(r"[*_`]", "", lead.strip().split("\n\n")[0].replace("\n", " "))
    return f"""<a class="tl-card" href="{path.stem}.html">{thumbnail(path)}\
<b>{html.escape(title.lstrip("# "))}</b><span>{html.escape(lead)}</span>\
<small>{minutes(path)} minutes of reading</small></a>"""


# The package --------------------------------------------------------------------------------------


def modules() -> dict[str, Path]:
    "name -> file, for every module of the package and of the kit of its pages; rooms last."
    rooms = ("transformer_lit", "transformer_lit"), ("book/litbook", "book")
    paths = {
        path.relative_to(ROOT / base).with_suffix("").as_posix(): path
        for folder, base in rooms
        for path in (ROOT / folder).rglob("[a-z]*.py")
    }
    return dict(sorted(paths.items(), key=lambda item: ("/" in item[0], item[0])))


def source_pages() -> str:
    """One page per module, so that a badge leads to the exported file without leaving the book.
    Returns the rows of the API page for the modules that no chapter exports: each with the first
    line of its docstring."""
    rows = []
    for name, path in modules().items():
        code, above = read(path), ""
        if origin := re.search(r"File to edit: \.\./book/([\w.]+\.ipynb)", code):
            above = f"Exported from [this chapter](../{origin[1]}).\n\n"
        else:
            words = (ast.get_docstring(ast.parse(code)) or "").partition("\n\n")[0]
            words = " ".join(words.split()).replace("|", "\\|")
            rows.append(f"| [`{name}.py`](source/{name}.md) | {words} |")
        page = SITE / "book" / "source" / f"{name}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"# `{name}.py`\n\n{above}```python\n{code.rstrip()}\n```\n", "utf-8")
    return "\n".join(rows)


# Pages --------------------------------------------------------------------------------------------


def architecture(*lit: str) -> str:
    "The model with a part's chapters lit; with none, as the book's contents."
    alt = "The Transformer, with what this part is about in color."
    words = "What this part is about, lit."
    if lit == ("all",):
        words = "This part is about the whole model."
    elif not lit:
        alt = """The whole Transformer: the encoder on the left reads, the decoder on the right \
writes; each box leads to its chapter."""
        words = "The Transformer of 2017. Each box leads to the chapter that builds it."
    return figures.architecture(lit or ("all",), alt=alt, caption=words).html


def cards(start: str, end: str) -> str:
    each = "".join(map(card, between(start, end)))
    return f'<div class="tl-cards tl-cards-wide">{each}</div>'


def megabytes(model: str) -> str:
    "What the page fetches when it is asked for that translator."
    parts = (SITE / "beside" / "engine").glob(f"model-{model}-*.js")
    return f"{sum(part.stat().st_size for part in parts) / 1e6:.0f} MB"


def ask() -> str:
    "Some sentences, translated by the default translator."
    page = read(TEMPLATES / "ask.html")
    return any_sentence(page, shipped_translator(MODEL), megabytes(MODEL)).strip()


def shipped_translator(name: str) -> Translator:
    return Translator.load(shipped(f"data/checkpoints/{name}"))


def filled(text: str, makers: dict[str, Callable[..., str]]) -> str:
    "A page with what the makers make in place of `<!-- name words -->` and `{{name words}}`."

    def replacement(match: re.Match) -> str:
        return makers[match[1]](*match[2].split()) if match[1] in makers else match[0]

    return re.sub(r"(?:<!-- |{{)(\w+)((?: [\w-]+)*)(?: -->|}})", replacement, text)


def assemble() -> None:
    book = SITE / "book"
    shutil.rmtree(SITE, ignore_errors=True)
    unseen = shutil.ignore_patterns("*.ipynb", "__pycache__", ".ipynb_checkpoints", "results")
    shutil.copytree(ROOT / "book", book, ignore=unseen)
    # Sphinx copies what lies in `beside` as it is
    wheel = make_wheel(SITE / "beside" / "downloads")
    engine_models.write(SITE / "beside" / "engine")
    shutil.copytree(ROOT / "book/web/moved", SITE / "beside/book")  # old addresses lead to the new
    for path in sorted((ROOT / "book").glob("*.ipynb")):
        shutil.copy(path, wheel.parent)
        nbformat.write(merged(path, wheel), book / path.name)
    (STATIC / "mathjax").mkdir()
    shutil.copy(MATHJAX, STATIC / "mathjax")
    pocket, sentence = shipped_translator("pocket"), read(TEMPLATES / "first.html")
    (STATIC / "inside-record.js").write_text(inside.script(pocket), "utf-8")
    makers = {
        "architecture": architecture,
        "ask": ask,
        "cards": cards,
        "hours": hours,
        "pads": lambda: str(inside.PADS),
        "rooms": source_pages,
        "sentence": lambda: running_sentence(sentence, pocket, megabytes("pocket")).strip(),
        "size": megabytes,
        "wheel": lambda: f": {link_to(wheel, wheel.name)}",
    }
    # with a version behind each script of its own, so that a browser takes no older one from its
    # cache; live.js hands its own to engine.js
    scripts = [engine_models.ENGINE, *sorted(STATIC.glob("*.js"))]
    version = hashlib.sha256(b"".join(path.read_bytes() for path in scripts)).hexdigest()[:16]
    for page in book.glob("*.md"):
        text, script = filled(read(page), makers), r'(src="\.\./_static/[\w-]+\.js)"'
        page.write_text(re.sub(script, rf'\1?v={version}"', text), "utf-8")
    shutil.copy(ROOT / "CHANGELOG.md", book / "changelog.md")
    for name in "_toc.yml", "_config.yml":
        shutil.copy(ROOT / name, SITE)


# Search -------------------------------------------------------------------------------------------

NAME = r"\b[A-Za-z]\w{2,}(?=\()|\b[a-z]\w*_\w+(?==)"  # in code: called, or given by its name
PLAIN = {  # what makes words of pages, in this order
    "<!DOCTYPE[^\0]*?<article|</article[^\0]*": "",
    "<summary>Going further: (.*?)</summary>": "\n\3\\1\n",
    r"<(svg|script|style|button|summary)\b.*?</\1>|\\\[.*?\\\]": "",
    '<a class="headerlink.*?</a>|<p class="tl-(part|badge|check).*?</p>': "",
    '<span class="tl-number.*?</span>|</?(a|b|code|em|i|span|strong|su[bp]|wbr)\\b[^>]*>': "",
    r'<(?:section|dt)\b[^>]* id="([^"]+)">': "\1\\1\n",
    "<pre>.*?</pre>": lambda code: f"\n\2{' '.join(sorted({*re.findall(NAME, code[0])}))}\n",
    r"(\s*<[^>]+>)+\s*": "\n",
}


def write_search(site: Path) -> None:
    """The words of the built pages, for book/web/static/search.js, in a script, so that a page that
    is opened from a folder can load them: a page begins with a byte 0 and its address, a section
    with a 1, its place and its title, names in code with a 2, a box's title with a 3. Sphinx's own
    search goes."""
    pages = sorted(site.glob("book/**/*.html"))
    text = "".join(f"\0{page.relative_to(site)}\n{read(page)}" for page in pages)
    for pattern, instead in PLAIN.items():
        text = re.sub(pattern, instead, text, flags=re.S)
    script = f"window.tlSearchPages = {json.dumps(text, ensure_ascii=False)};\n"
    (site / "_static/search-pages.js").write_text(script, "utf-8")
    for name in "searchindex.js", "_static/searchtools.js", "_static/language_data.js":
        (site / name).unlink()


def main() -> None:
    assemble()
    shutil.rmtree(BUILT / "html", ignore_errors=True)  # a page that was renamed doesn't stay
    program = Path(sys.executable).parent / "jupyter-book"
    flags = "--all --warningiserror --keep-going --path-output".split()
    with (ROOT / ".run" / "build.log").open("w", encoding="utf-8") as log:
        done = subprocess.run([program, "build", *flags, ROOT, SITE], stdout=log)
    if done.returncode:
        sys.exit("the book was not built; the rest of the log is in .run/build.log")
    write_search(BUILT / "html")
    print(f"the book: {BUILT / 'html' / 'index.html'}")


if __name__ == "__main__":
    main()
