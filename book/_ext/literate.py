"""What the book adds to Sphinx: badges for exported cells and checks, a chapter's head and margin,
numbers of figures, the glossary's words in the text, formulas and a Colab button without another
host's help."""

import html
import itertools
import re
from pathlib import Path

import nbformat
import yaml
from docutils import nodes

from litbook.figures import diagram, style

LONGEST_WHOLE = 32  # letters of code that fit a line of a phone
CHECK = re.compile(r"^\s*assert\b|\bassert_close\(|\bassert_equal\(", re.M)
UNLINKED = "title reference literal literal_block math raw table caption".split()


def add_above(block, *children, classes: list[str]) -> None:
    badge = nodes.paragraph("", "", *children, classes=classes)
    block.parent.insert(block.parent.index(block), badge)


def dress_cells(app, doctree) -> None:
    """Take nbdev's `#|` lines out of the code in view. Exported cells get a badge that links to
    their file, checks a mark."""
    module = re.search(r"^#\| default_exp (\S+)", doctree.astext(), re.M)
    for block in list(doctree.findall(nodes.literal_block)):
        marks, code = re.match(r"((?:#\|[^\n]*(?:\n|$))*)(.*)", block.astext(), re.S).groups()
        if marks:
            code = code.strip("\n")
            block.rawsource, block.children = code, []
            block += nodes.Text(code)
        if not code:
            block.parent.remove(block)
        elif "#| export" in marks:
            name = (re.search(r"export (\S+)", marks) or module)[1]
            target = app.builder.get_relative_uri(app.env.docname, f"book/source/{name}")
            link = nodes.reference("", f"transformer_lit/{name}.py", refuri=target, internal=True)
            add_above(block, nodes.Text("exported to "), link, classes=["tl-badge"])
        elif "cell_input" in block.parent.get("classes", []) and CHECK.search(code):
            if not re.search(r"^(def|class) ", code, re.M):
                wide = len(code.partition("\n")[0]) > 64  # the mark would lie on the first line
                classes = ["tl-check", *["tl-check-above"] * wide]
                add_above(block, nodes.Text("✓ checked"), classes=classes)


def hold_words(app, doctree) -> None:
    """Code in a line breaks at its spaces and not after a hyphen, unless a word of it is too long
    for a phone."""
    for code in doctree.findall(nodes.literal):
        if max(map(len, code.astext().split()), default=0) <= LONGEST_WHOLE:
            code["classes"].append("tl-whole")


def glossary_lines(app) -> dict[str, tuple[str, str, str]]:
    """Each name in the glossary that links are made of, with its line, the chapter that builds it,
    and the entry it stands in."""
    text = (Path(app.srcdir) / "book/glossary.md").read_text("utf-8")
    everyday = re.search(r"^% Also words of every day.*?: (.*)\.$", text, re.M)[1].split(", ")
    block = re.search(r"```\{glossary}(.*?)```", text, re.S)[1]
    lines = {}
    for entry in re.split(r"\n\s*\n", block.strip()):
        term, _, line = entry.strip().partition("\n")
        home = re.search(r"\]\((\w+)\.ipynb\)", line)
        words = re.sub(r",?\s*\[[^\]]*\]\([^)]*\)", "", line.strip())  # a link leads to a page
        words = re.sub(r"[*`$]|\\", "", words)
        names = re.sub(r" \(.*\)", "", term.strip()).split(", ")  # "byte-pair encoding, BPE"
        for name in names:
            if name not in everyday and len(name) > 1:
                lines[name] = words, home[1] if home else "", term.strip()
    return lines


def takes_links(text) -> bool:
    "Is it running text, and no code, title or link?"
    kinds, classes = set(), set()
    while text := text.parent:
        kinds.add(text.tagname)
        classes.update(text.get("classes", []))
    return "paragraph" in kinds and kinds.isdisjoint(UNLINKED) and "cell" not in classes


def link_terms(app, doctree, docname: str) -> None:
    """The first time that a page uses a word of the glossary, the word leads there, and its line
    shows when one points at it."""
    if not re.match(r"book/(\d\d|A\d)\w?_|book/preface", docname):
        return
    objects = app.env.get_domain("std").objects.items()
    anchors = {name.lower(): anchor for (kind, name), (_, anchor) in objects if kind == "term"}
    unused = {
        name: (line, anchors[entry.lower()])
        for name, (line, home, entry) in glossary_lines(app).items()
        if f"book/{home}" != docname
    }
    longest = sorted(unused, key=len, reverse=True)
    names = "|".join(f"[{n[0]}{n[0].upper()}]{re.escape(n[1:])}" for n in longest)

    def link(match: re.Match) -> str:
        word = match[1]
        name = word if word in unused else word[0].lower() + word[1:]
        if name not in unused:
            return match[0]
        line, anchor = unused.pop(name)
        return f"""<a class="tl-term" href="glossary.html#{anchor}" \
data-line="{html.escape(line)}">{match[0]}</a>"""

    for text in filter(takes_links, list(doctree.findall(nodes.Text))):
        escaped = html.escape(text.astext(), quote=False)
        linked = re.sub(rf"(?<![\w&-])({names})s?(?![\w-])", link, escaped)
        if linked != escaped:
            text.parent.replace(text, nodes.raw("", linked, format="html"))


def hold_marks(body: str) -> str:
    """A formula and the comma or full stop after it stay on one line: a formula is a picture, so a
    browser would break between the two. So does --an-option in a caption."""

    def hold(pattern: str, text: str) -> str:
        return re.sub(pattern, r'<span class="tl-hold">\g<0></span>', text)

    def hold_options(caption: re.Match) -> str:
        return hold(r"(?<=\s)--[a-z][a-z-]*", caption[0])

    body = hold(r'<span class="math [^>]*>[^<]*</span>[,.;:!?)”’]+', body)
    return re.sub(r"<(figcaption|caption)\b.*?</\1>", hold_options, body, flags=re.S)


def dress_figures(body: str, chapter: str) -> str:
    """Each caption begins with its figure's number, and each figure can be linked. The boxes of the
    architecture lead to the chapters that build them."""
    numbers = itertools.count(1)

    def dress(match: re.Match) -> str:
        label = f"{chapter}{next(numbers)}"
        figure = match[0].replace("<figure", f'<figure id="fig-{label.replace(".", "-")}"', 1)
        number = rf'\g<0><span class="tl-number">Fig {label}</span>'
        figure = re.sub('<figcaption class="tl-caption"[^>]*>', number, figure)
        if "data-chapter" not in figure:
            return figure
        box = r'<g data-chapter="(\w+)">(.*?)</g><!--box-->'
        figure = re.sub(box, r'<a href="\1.html">\2</a>', figure, flags=re.S)
        figure = figure.replace('role="img"', 'role="group"')  # what holds links is no picture
        return re.sub('(<svg[^>]*) aria-hidden="true"', r"\1", figure)

    return re.sub(r'<figure class="tl-figure".*?</figure>', dress, body, flags=re.S)


def parts_of_book(app) -> dict[str, str]:
    "The part that each page stands in."
    toc = yaml.safe_load((Path(app.srcdir) / "_toc.yml").read_text("utf-8"))
    return {c["file"]: part["caption"] for part in toc["parts"] for c in part["chapters"]}


def margin_map(lit: list[str]) -> str:
    "The architecture with a chapter's parts lit: a map, no numbered figure."
    parts = ", ".join(lit).replace("_", " ")
    full = "The whole Transformer, lit."
    alt = full if "all" in lit else f"The Transformer; this chapter's parts are lit: {parts}."
    svg = diagram.draw(style.PHONE, set(lit))
    svg = re.sub(r"<title>.*?</title>|</?g[^>]*>|<!--box-->", "", svg)
    return f'<div role="img" aria-label="{alt}">{svg}</div>'


def lit_by(notebook) -> list[str]:
    "What a chapter lights in its margin: the tags lit-... of its first cell."
    tags = notebook.cells[0].metadata.get("tags", [])
    return [tag.removeprefix("lit-") for tag in tags if tag.startswith("lit-")]


def dress_body(app, pagename: str, body: str) -> str:
    "Figures with their numbers, and above the title of a chapter its part."
    title = re.search(r"<h1>(\d\w*) · ", body)
    chapter = f"{title[1]}." if title else ""
    body = hold_marks(dress_figures(body, chapter))
    if title:
        part = html.escape(parts_of_book(app).get(pagename, ""))
        body = body.replace("<h1>", f'<p class="tl-part">Part {part}</p>\n<h1>', 1)
    return body


def colab_button(app, pagename, pathto) -> dict:
    host, _, slug = app.config.repository_address.removeprefix("https://").partition("/")
    there = f"https://colab.research.google.com/github/{slug}/blob/main/{pagename}.ipynb"
    return {
        "type": "link",
        "text": "Open in Colab",
        "tooltip": "Open this chapter in Colab",
        "icon": "fas fa-play",
        "label": "colab-button",
        "url": f"{pathto('book/preface')}#in-colab" if host.endswith(".example") else there,
    }


def dress_page(app, pagename, templatename, context, doctree) -> None:
    """Drop thebe, which asks a CDN, and MathJax where there is no formula. Notebooks get a Colab
    button, which opens the chapter there; while the book has no address it leads to the preface's
    steps. The theme's download button gives the notebook as it is in the repository."""
    context["body"] = dress_body(app, pagename, context.get("body") or "")
    unused = "thebe" if 'class="math' in context["body"] else "thebe|mathjax"
    for kind in ("script_files", "css_files"):
        files = context.get(kind, [])
        context[kind] = [file for file in files if not re.search(unused, str(file), re.I)]
    notebook = Path(app.srcdir) / f"{pagename}.ipynb"
    if notebook.exists():
        if lit := lit_by(nbformat.read(notebook, 4)):
            context["tl_map"] = margin_map(lit)
            context["secondary_sidebar_items"].insert(0, "map.html")
        context["header_buttons"].insert(0, colab_button(app, pagename, context["pathto"]))
        for button in (b for group in context["header_buttons"] for b in group.get("buttons", [])):
            if button["label"] == "download-source-button":
                button["url"] = context["pathto"](f"downloads/{notebook.name}", 1)


def setup(app):
    app.add_config_value("repository_address", "", "html")
    app.connect("doctree-read", dress_cells)
    app.connect("doctree-read", hold_words)
    app.connect("doctree-resolved", link_terms)
    app.connect("html-page-context", dress_page, priority=900)
