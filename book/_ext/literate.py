"""What the book adds to Sphinx: badges for exported cells and checks, a chapter's head and margin,
numbers of figures, the glossary's words in the text, formulas and a Colab button without another
host's help."""

import html
import re
from importlib.metadata import files
from pathlib import Path
from shutil import copyfile

import nbformat
import yaml
from docutils import nodes
from sphinx.util.osutil import ensuredir

from litbook import figures

MATHJAX = "tex-svg.js"  # one file, fonts inside
LONGEST_WHOLE = 32  # letters of code that fit a line of a phone
CHECK = re.compile(r"^\s*assert\b|\bassert_close\(|\bassert_equal\(", re.M)
ATTENTIONS = ("encoder_attention", "decoder_attention", "cross_attention")
EVERYDAY = {
    "look",
    "frame",
    "hook",
    "tag",
    "patch",
    "surprise",
    "prefix",
    "leak",
    "memory",
    "merge",
    "reference",
    "recipe",
    "signature",
    "split",
    "stream",
    "gate",
    "kernel",
    "binding",
    "head",
    "byte",
    "cache",
    "mask",
    "corpus",
    "attention",
    "token",
    "value",
    "score",
    "state",
    "open",
    "closed",
    "confidence",
    "key",
    "decided",
    "chain rule",
}  # also words of every day: no link is made of them
LIT = {  # what each chapter lights in the drawing of its margin
    1: ("all",),
    2: ATTENTIONS,
    3: ("decoder_attention",),
    4: ATTENTIONS,
    5: ("positions", "source_embedding", "target_embedding"),
    6: ("encoder_feed_forward", "encoder_norm", "decoder_feed_forward", "decoder_norm"),
    7: ("encoder",),
    8: ("decoder", "bridge"),
    9: ("all",),
    10: ("output", "softmax"),
    11: ("all",),
    12: ("all",),
    13: ("decoder", "output", "softmax"),
    14: ("all",),
    15: ("source_embedding", "target_embedding"),
    18: ("all",),
    20: ATTENTIONS,
    23: ("encoder", "decoder"),
    24: ("decoder_attention", "decoder_feed_forward"),
    25: ("encoder", "decoder", "source_embedding", "target_embedding"),
    26: ("encoder", "decoder"),
}


def module_of(path: Path) -> str | None:
    "The module that a notebook exports, from its `#| default_exp`."
    if path.suffix != ".ipynb":
        return None
    for cell in nbformat.read(path, 4).cells:
        for line in cell.source.split("\n"):
            if line.startswith("#| default_exp "):
                return line.split()[2]
    return None


def dress_cells(app, doctree) -> None:
    """Take nbdev's `#|` lines out of the code in view; exported cells get a badge that links to
    their file."""
    docname = app.env.docname
    module = module_of(Path(app.env.doc2path(docname)))
    for block in list(doctree.findall(nodes.literal_block)):
        lines = block.astext().split("\n")
        marks = []
        while lines and lines[0].startswith("#|"):
            marks.append(lines.pop(0))
        if not marks:
            continue
        text = "\n".join(lines).strip("\n")
        block.rawsource = text
        block.children = []
        block += nodes.Text(text)
        exported = any(mark.startswith("#| export") for mark in marks)
        if exported and module and text:
            target = app.builder.get_relative_uri(docname, f"book/source/{module}")
            link = nodes.reference("", f"transformer_lit/{module}.py", refuri=target, internal=True)
            badge = nodes.paragraph("", "exported to ", link, classes=["tl-badge"])
            block.parent.insert(block.parent.index(block), badge)
        if not text:
            block.parent.remove(block)
    for block in list(doctree.findall(nodes.literal_block)):
        if (
            is_plain_input(block)
            and CHECK.search(block.astext())
            and not re.search(r"^(def|class) ", block.astext(), re.M)
        ):
            long = (
                len(block.astext().partition("\n")[0]) > 64
            )  # the mark would lie on the first line
            block.parent.insert(
                block.parent.index(block),
                nodes.paragraph(
                    "",
                    "✓ checked",
                    classes=["tl-check", "tl-check-above"] if long else ["tl-check"],
                ),
            )


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


def is_plain_input(block) -> bool:
    "Is the block the input of a cell, and not an exported one?"
    return "cell_input" in block.parent.get("classes", []) and not any(
        "tl-badge" in node.get("classes", []) for node in block.parent.children
    )


def glossary_lines(app) -> dict[str, tuple[str, str, str]]:
    """Each name in the glossary with its line, the chapter that builds it, and the entry it stands
    in."""
    text = (Path(app.srcdir) / "book" / "glossary.md").read_text(encoding="utf-8")
    block = text.partition("```{glossary}")[2].partition("```")[0]
    found = {}
    for entry in re.split(r"\n\s*\n", block.strip()):
        term, _, line = entry.strip().partition("\n")
        home = re.search(r"\]\(([\w]+)\.ipynb\)", line)
        words = re.sub(
            r",?\s*\[[^\]]*\]\([^)]*\)", "", line.strip()
        )  # every link there points to a page
        for name in re.sub(r" \(.*\)", "", term.strip()).split(
            ", "
        ):  # "byte-pair encoding, BPE" goes by both
            if name not in EVERYDAY and len(name) > 1:
                found[name] = (
                    re.sub(r"[*`$]|\\", "", words),
                    home[1] if home else "",
                    term.strip(),
                )
    return found


def link_terms(app, doctree, docname: str) -> None:
    """The first time that a page uses a word of the glossary, the word leads there, and its line
    shows when one points at it."""
    if not re.match(r"book/\d\d_|book/preface", docname):
        return
    anchors = {
        name.lower(): anchor
        for (kind, name), (_, anchor) in app.env.get_domain("std").objects.items()
        if kind == "term"
    }
    here, target = docname.split("/")[-1], app.builder.get_relative_uri(docname, "book/glossary")
    left = {
        name: (line, anchors[entry.lower()])
        for name, (line, home, entry) in app.env.glossary_lines.items()
        if home != here
    }
    names = "|".join(
        f"[{name[0]}{name[0].upper()}]{re.escape(name[1:])}"
        for name in sorted(left, key=len, reverse=True)
    )
    pattern = re.compile(rf"(?<![\w-])({names})s?(?![\w-])")

    def name_of(match: re.Match) -> str:
        return match[1] if match[1] in left else match[1][0].lower() + match[1][1:]

    for text in list(doctree.findall(nodes.Text)):
        above, node = [], text.parent
        while node is not None:
            above.append(node)
            node = node.parent
        if not any(isinstance(n, nodes.paragraph) for n in above) or any(
            isinstance(
                n,
                (
                    nodes.title,
                    nodes.reference,
                    nodes.literal,
                    nodes.literal_block,
                    nodes.math,
                    nodes.raw,
                    nodes.table,
                    nodes.caption,
                ),
            )
            or {"cell", "tl-badge"}
            & set(n.get("classes", []) if isinstance(n, nodes.Element) else [])
            for n in above
        ):
            continue
        rest, made = text.astext(), []
        while match := next((m for m in pattern.finditer(rest) if name_of(m) in left), None):
            line, anchor = left.pop(name_of(match))
            made += [
                nodes.Text(rest[: match.start()]),
                nodes.raw(
                    "",
                    f'<a class="tl-term" href="{target}#{anchor}"'
                    f' data-line="{html.escape(line, quote=True)}">{html.escape(match[0])}</a>',
                    format="html",
                ),
            ]
            rest = rest[match.end() :]
        if made:
            text.parent.replace(text, [*made, nodes.Text(rest)])


def hold_words(app, doctree) -> None:
    """Code in a line breaks at its spaces and not after a hyphen, unless a word of it is too long
    for a phone."""
    for code in doctree.findall(nodes.literal):
        if max(map(len, code.astext().split()), default=0) <= LONGEST_WHOLE:
            code["classes"].append("tl-whole")


def parts_of_book(app) -> dict[str, str]:
    "The part that each page stands in."
    toc = yaml.safe_load((Path(app.srcdir) / "_toc.yml").read_text(encoding="utf-8"))
    return {
        chapter["file"]: part["caption"] for part in toc["parts"] for chapter in part["chapters"]
    }


def prepare(app) -> None:
    app.env.glossary_lines, app.env.book_parts = glossary_lines(app), parts_of_book(app)


def number_figures(body: str, chapter: int | None) -> str:
    "Each caption begins with its figure's number, and each figure can be linked."
    count = iter(range(1, 1000))

    def number(match: re.Match) -> str:
        label = f"{chapter}.{next(count)}" if chapter else f"{next(count)}"
        return (
            f'<figure id="fig-{label.replace(".", "-")}" class="tl-figure"{match[1]}'
            f'<figcaption class="tl-caption"{match[2]}><span class="tl-number">Fig {label}</span>'
        )

    return re.sub(
        r'<figure class="tl-figure"(.*?)<figcaption class="tl-caption"([^>]*)>',
        number,
        body,
        flags=re.S,
    )


def hold_options(body: str) -> str:
    "In a caption --an-option stays on one line."
    return re.sub(
        r"<(figcaption|caption)\b.*?</\1>",
        lambda found: re.sub(
            r"(?<=\s)--[a-z][a-z-]*", r'<span class="tl-hold">\g<0></span>', found[0]
        ),
        body,
        flags=re.S,
    )


def link_boxes(app, pagename: str, body: str) -> str:
    "Every box of the architecture leads to the chapter that builds it."

    def link(match: re.Match) -> str:
        target = app.builder.get_relative_uri(pagename, f"book/{match[1]}")
        return f'<a href="{target}">{match[2]}</a>'

    linked = re.sub(r'<g data-chapter="(\w+)">(.*?)</g><!--box-->', link, body, flags=re.S)
    if linked != body:  # what holds links is no picture
        linked = re.sub(
            r'<div role="img"( aria-label="[^"]*")>(?=<div'
            r' class="tl-desk"><svg[^>]*aria-hidden="true"[^>]*>(?:(?!</svg>).)*<a )',
            r'<div role="group"\1>',
            linked,
            flags=re.S,
        )
        linked = re.sub(
            r'(<svg[^>]*) aria-hidden="true"([^>]*>(?:(?!</svg>).)*?<a href)',
            r"\1\2",
            linked,
            flags=re.S,
        )
    return linked


def chapter_number(body: str) -> int | None:
    found = re.search(r"<h1>(\d+) · ", body)
    return int(found[1]) if found else None


def dress_body(app, pagename, context) -> None:
    "Head, margin, numbers of figures."
    body = context.get("body")
    if not body:
        return
    chapter = chapter_number(body)
    body = link_boxes(app, pagename, hold_options(number_figures(body, chapter)))
    if chapter or "<h1>Workshop: " in body:
        part = app.env.book_parts.get(pagename, "")
        body = body.replace("<h1>", f'<p class="tl-part">Part {html.escape(part)}</p>\n<h1>', 1)
        if lit := LIT.get(chapter or 0):
            drawn = re.sub(
                r"<figcaption.*?</figcaption>|<title>.*?</title>",
                "",
                figures.architecture(
                    lit,
                    alt=(
                        "The whole Transformer, lit."
                        if "all" in lit
                        else "The Transformer; this chapter's parts are lit: "
                        + ", ".join(lit).replace("_", " ")
                        + "."
                    ),
                ).html,
            )
            drawn = re.sub(
                r"<figure[^>]*>(.*)</figure>", r"\1", drawn, flags=re.S
            )  # a map, no numbered figure
            drawn = re.sub(r'<div class="tl-desk">.*?</div>', "", drawn, count=1).replace(
                ' class="tl-phone" style="display:none"', ""
            )
            context["secondary_sidebar_items"] = [
                "map.html",
                *context.get("secondary_sidebar_items", []),
            ]
            context["tl_map"] = re.sub(r"</?g[^>]*>|<!--box-->", "", drawn)
    context["body"] = body


def asks_thebe(file) -> bool:
    return "thebe" in f"{getattr(file, 'filename', file)} {getattr(file, 'attributes', '')}".lower()


def dress_page(app, pagename, templatename, context, doctree) -> None:
    """Drop thebe, which asks a CDN. Notebooks get a Colab button, which opens the chapter there;
    while the book has no address it leads to the preface's steps. The theme's download button gives
    the notebook as it is in the repository."""
    for kind in ("script_files", "css_files"):
        context[kind] = [file for file in context.get(kind, []) if not asks_thebe(file)]
    dress_body(app, pagename, context)
    source = app.env.doc2path(pagename) if pagename in app.env.found_docs else ""
    if str(source).endswith(".ipynb") and "header_buttons" in context:
        slug = "/".join(app.config.repository_address.split("/")[3:])
        context["header_buttons"].insert(
            0,
            {
                "type": "link",
                "text": "Open in Colab",
                "tooltip": "Open this chapter in Colab",
                "icon": "fas fa-play",
                "label": "colab-button",
                "url": (
                    f"https://colab.research.google.com/github/{slug}/blob/main/{pagename}.ipynb"
                    if slug
                    else f"{context['pathto']('book/preface')}#in-colab"
                ),
            },
        )
        for button in (b for group in context["header_buttons"] for b in group.get("buttons", [])):
            if button.get("label") == "download-source-button":
                button["url"] = context["pathto"](f"downloads/{Path(source).name}", 1)


def copy_mathjax(app, error) -> None:
    if error or app.builder.format != "html":
        return
    found = next(f for f in files("sphinx-mathjax-offline") if f.name == MATHJAX)
    folder = Path(app.outdir) / "_static" / "mathjax"
    ensuredir(folder)
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
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
