"""What the book adds to Sphinx: badges for exported cells and checks, a chapter's head and margin,
numbers of figures, the glossary's words in the text, formulas and a Colab button without another
host's help."""

import html
import itertools
import re
from importlib.metadata import files
from pathlib import Path
from shutil import copyfile

import nbformat
import yaml
from docutils import nodes

from litbook import figures

MATHJAX = "tex-svg.js"  # one file, fonts inside
LONGEST_WHOLE = 32  # letters of code that fit a line of a phone
CHECK = re.compile(r"^\s*assert\b|\bassert_close\(|\bassert_equal\(", re.M)
UNLINKED = {nodes.title, nodes.reference, nodes.literal, nodes.literal_block, nodes.math, nodes.raw}
UNLINKED |= {nodes.table, nodes.caption}


def notebook_of(app, docname: str) -> nbformat.NotebookNode | None:
    path = Path(app.srcdir) / f"{docname}.ipynb"
    return nbformat.read(path, 4) if path.exists() else None


def module_of(notebook) -> str | None:
    "The module that a notebook exports, from its `#| default_exp`."
    code = "\n".join(cell.source for cell in notebook.cells) if notebook else ""
    found = re.search(r"^#\| default_exp (\S+)", code, re.M)
    return found and found[1]


def add_above(block, *children, classes: list[str]) -> None:
    badge = nodes.paragraph("", "", *children, classes=classes)
    block.parent.insert(block.parent.index(block), badge)


def dress_cells(app, doctree) -> None:
    """Take nbdev's `#|` lines out of the code in view. Exported cells get a badge that links to
    their file, checks a mark."""
    docname = app.env.docname
    module = module_of(notebook_of(app, docname))
    for block in list(doctree.findall(nodes.literal_block)):
        marks, code = re.match(r"((?:#\|[^\n]*(?:\n|$))*)(.*)", block.astext(), re.S).groups()
        if marks:
            code = code.strip("\n")
            block.rawsource, block.children = code, []
            block += nodes.Text(code)
        if not code:
            block.parent.remove(block)
        elif "#| export" in marks and module:
            target = app.builder.get_relative_uri(docname, f"book/source/{module}")
            link = nodes.reference("", f"transformer_lit/{module}.py", refuri=target, internal=True)
            add_above(block, nodes.Text("exported to "), link, classes=["tl-badge"])
        elif "cell_input" in block.parent.get("classes", []) and CHECK.search(code):
            if not re.search(r"^(def|class) ", code, re.M):
                wide = len(code.partition("\n")[0]) > 64  # the mark would lie on the first line
                classes = ["tl-check", "tl-check-above"] if wide else ["tl-check"]
                add_above(block, nodes.Text("✓ checked"), classes=classes)


def hold_punctuation(app, doctree) -> None:
    """A formula and the comma or full stop after it stay on one line. A formula is a picture, so a
    browser would break between the two."""
    for formula in list(doctree.findall(nodes.math)):
        after = formula.next_node(descend=False, siblings=True)
        mark = re.match(r"[,.;:!?)”’]+", after.astext()) if isinstance(after, nodes.Text) else None
        if mark:
            parent, rest = formula.parent, nodes.Text(after.astext()[mark.end() :])
            parent.replace(after, rest)
            held = nodes.inline("", classes=["tl-hold"])
            parent.replace(formula, held)
            held += [formula, nodes.Text(mark[0])]


def glossary_lines(app) -> dict[str, tuple[str, str, str]]:
    """Each name in the glossary that links are made of, with its line, the chapter that builds it,
    and the entry it stands in."""
    text = (Path(app.srcdir) / "book" / "glossary.md").read_text(encoding="utf-8")
    everyday = re.search(r"^% Also words of every day.*?: (.*)\.$", text, re.M)[1].split(", ")
    block = text.partition("```{glossary}")[2].partition("```")[0]
    found = {}
    for entry in re.split(r"\n\s*\n", block.strip()):
        term, _, line = entry.strip().partition("\n")
        home = re.search(r"\]\(([\w]+)\.ipynb\)", line)
        words = re.sub(r",?\s*\[[^\]]*\]\([^)]*\)", "", line.strip())  # a link leads to a page
        words = re.sub(r"[*`$]|\\", "", words)
        names = re.sub(r" \(.*\)", "", term.strip()).split(", ")  # "byte-pair encoding, BPE"
        for name in names:
            if name not in everyday and len(name) > 1:
                found[name] = words, home[1] if home else "", term.strip()
    return found


def takes_links(text) -> bool:
    "Is it running text, and no code, title or link?"
    kinds, classes = set(), set()
    while text := text.parent:
        kinds.add(type(text))
        classes.update(text.get("classes", []))
    return nodes.paragraph in kinds and not kinds & UNLINKED and not classes & {"cell", "tl-badge"}


def link_terms(app, doctree, docname: str) -> None:
    """The first time that a page uses a word of the glossary, the word leads there, and its line
    shows when one points at it."""
    if not re.match(r"book/\d\d_|book/preface", docname):
        return
    objects = app.env.get_domain("std").objects.items()
    anchors = {name.lower(): anchor for (kind, name), (_, anchor) in objects if kind == "term"}
    here, target = docname.split("/")[-1], app.builder.get_relative_uri(docname, "book/glossary")
    unused = {
        name: (line, anchors[entry.lower()])
        for name, (line, home, entry) in app.env.glossary_lines.items()
        if home != here
    }
    longest = sorted(unused, key=len, reverse=True)
    names = "|".join(f"[{n[0]}{n[0].upper()}]{re.escape(n[1:])}" for n in longest)

    def link(match: re.Match) -> str:
        word = match[1]
        name = word if word in unused else word[0].lower() + word[1:]
        if name not in unused:
            return match[0]
        line, anchor = unused.pop(name)
        return f"""<a class="tl-term" href="{target}#{anchor}" \
data-line="{html.escape(line)}">{match[0]}</a>"""

    for text in filter(takes_links, list(doctree.findall(nodes.Text))):
        escaped = html.escape(text.astext(), quote=False)
        linked = re.sub(rf"(?<![\w&-])({names})s?(?![\w-])", link, escaped)
        if linked != escaped:
            text.parent.replace(text, nodes.raw("", linked, format="html"))


def hold_words(app, doctree) -> None:
    """Code in a line breaks at its spaces and not after a hyphen, unless a word of it is too long
    for a phone."""
    for code in doctree.findall(nodes.literal):
        if max(map(len, code.astext().split()), default=0) <= LONGEST_WHOLE:
            code["classes"].append("tl-whole")


def parts_of_book(app) -> dict[str, str]:
    "The part that each page stands in."
    toc = yaml.safe_load((Path(app.srcdir) / "_toc.yml").read_text(encoding="utf-8"))
    return {c["file"]: part["caption"] for part in toc["parts"] for c in part["chapters"]}


def prepare(app) -> None:
    app.env.glossary_lines, app.env.book_parts = glossary_lines(app), parts_of_book(app)


def number_figures(body: str, chapter: int | None) -> str:
    "Each caption begins with its figure's number, and each figure can be linked."
    numbers = itertools.count(1)

    def number(match: re.Match) -> str:
        label = f"{chapter}.{next(numbers)}" if chapter else f"{next(numbers)}"
        return f"""<figure id="fig-{label.replace(".", "-")}" class="tl-figure"{match[1]}\
<figcaption class="tl-caption"{match[2]}><span class="tl-number">Fig {label}</span>"""

    figure = r'<figure class="tl-figure"(.*?)<figcaption class="tl-caption"([^>]*)>'
    return re.sub(figure, number, body, flags=re.S)


def hold_options(body: str) -> str:
    "In a caption --an-option stays on one line."

    def held(found: re.Match) -> str:
        return re.sub(r"(?<=\s)--[a-z][a-z-]*", r'<span class="tl-hold">\g<0></span>', found[0])

    return re.sub(r"<(figcaption|caption)\b.*?</\1>", held, body, flags=re.S)


def link_boxes(app, pagename: str, body: str) -> str:
    "Every box of the architecture leads to the chapter that builds it."

    def link(match: re.Match) -> str:
        target = app.builder.get_relative_uri(pagename, f"book/{match[1]}")
        return f'<a href="{target}">{match[2]}</a>'

    body = re.sub(r'<g data-chapter="(\w+)">(.*?)</g><!--box-->', link, body, flags=re.S)
    # what holds links is no picture
    drawing = r'class="tl-desk"><svg[^>]*aria-hidden="true"[^>]*>(?:(?!</svg>).)*<a href'
    picture = rf'<div role="img"( aria-label="[^"]*")>(?=<div {drawing})'
    body = re.sub(picture, r'<div role="group"\1>', body, flags=re.S)
    hidden = r'(<svg[^>]*) aria-hidden="true"([^>]*>(?:(?!</svg>).)*?<a href)'
    return re.sub(hidden, r"\1\2", body, flags=re.S)


def chapter_number(body: str) -> int | None:
    found = re.search(r"<h1>(\d+) · ", body)
    return found and int(found[1])


def margin_map(lit: list[str]) -> str:
    "The architecture with a chapter's parts lit: a map, no numbered figure."
    parts = ", ".join(lit).replace("_", " ")
    whole = "The whole Transformer, lit."
    alt = whole if "all" in lit else f"The Transformer; this chapter's parts are lit: {parts}."
    drawn = figures.architecture(lit, alt=alt).html.partition('class="tl-phone"')[2]
    svg = re.search(r"<svg.*?</svg>", drawn, re.S)[0]
    svg = re.sub(r"<title>.*?</title>|</?g[^>]*>|<!--box-->", "", svg)
    return f'<div role="img" aria-label="{alt}">{svg}</div>'


def lit_by(notebook) -> list[str]:
    "What a chapter lights in its margin: the tags lit-... of its first cell."
    tags = notebook.cells[0].metadata.get("tags", []) if notebook else []
    return [tag.removeprefix("lit-") for tag in tags if tag.startswith("lit-")]


def dress_body(app, pagename, context, notebook) -> None:
    "Head, margin, numbers of figures."
    body = context.get("body") or ""
    chapter = chapter_number(body)
    body = link_boxes(app, pagename, hold_options(number_figures(body, chapter)))
    if chapter or "<h1>Workshop: " in body:
        part = app.env.book_parts.get(pagename, "")
        body = body.replace("<h1>", f'<p class="tl-part">Part {html.escape(part)}</p>\n<h1>', 1)
        if lit := lit_by(notebook):
            context["tl_map"] = margin_map(lit)
            more = context.get("secondary_sidebar_items", [])
            context["secondary_sidebar_items"] = ["map.html", *more]
    context["body"] = body


def asks_thebe(file) -> bool:
    return "thebe" in f"{getattr(file, 'filename', file)} {getattr(file, 'attributes', '')}".lower()


def colab_button(app, pagename, pathto) -> dict:
    slug = "/".join(app.config.repository_address.split("/")[3:])
    there = f"https://colab.research.google.com/github/{slug}/blob/main/{pagename}.ipynb"
    return {
        "type": "link",
        "text": "Open in Colab",
        "tooltip": "Open this chapter in Colab",
        "icon": "fas fa-play",
        "label": "colab-button",
        "url": there if slug else f"{pathto('book/preface')}#in-colab",
    }


def dress_page(app, pagename, templatename, context, doctree) -> None:
    """Drop thebe, which asks a CDN. Notebooks get a Colab button, which opens the chapter there;
    while the book has no address it leads to the preface's steps. The theme's download button gives
    the notebook as it is in the repository."""
    for kind in ("script_files", "css_files"):
        context[kind] = [file for file in context.get(kind, []) if not asks_thebe(file)]
    notebook = notebook_of(app, pagename)
    dress_body(app, pagename, context, notebook)
    if notebook and "header_buttons" in context:
        context["header_buttons"].insert(0, colab_button(app, pagename, context["pathto"]))
        for button in (b for group in context["header_buttons"] for b in group.get("buttons", [])):
            if button.get("label") == "download-source-button":
                name = f"downloads/{pagename.split('/')[-1]}.ipynb"
                button["url"] = context["pathto"](name, 1)


def copy_mathjax(app, error) -> None:
    found = next(f for f in files("sphinx-mathjax-offline") if f.name == MATHJAX)
    folder = Path(app.outdir) / "_static" / "mathjax"
    folder.mkdir(parents=True, exist_ok=True)
    copyfile(found.locate(), folder / MATHJAX)


def setup(app):
    app.add_config_value("repository_address", "", "html")
    app.connect("builder-inited", prepare)
    app.connect("doctree-read", dress_cells)
    app.connect("doctree-read", hold_punctuation)
    app.connect("doctree-read", hold_words)
    app.connect("doctree-resolved", link_terms)
    app.connect("html-page-context", dress_page, priority=900)
    app.connect("build-finished", copy_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
