"""What the book adds to Sphinx: badges for exported cells, formulas and a Colab button without another host's help."""
from importlib.metadata import files
from pathlib import Path
from shutil import copyfile

import nbformat
from docutils import nodes
from sphinx.util.osutil import ensuredir

MATHJAX = "tex-svg.js"  # one file, fonts inside


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
    "Take nbdev's `#|` lines out of the code in view; exported cells get a badge that links to their file."
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


def asks_thebe(file) -> bool:
    return "thebe" in f"{getattr(file, 'filename', file)} {getattr(file, 'attributes', '')}".lower()


def dress_page(app, pagename, templatename, context, doctree) -> None:
    """Drop thebe, which asks a CDN. Notebooks get a Colab button, which opens the chapter there; while the book has no address it leads
    to the preface's steps. The theme's download button gives the notebook as it is in the repository."""
    for kind in ("script_files", "css_files"):
        context[kind] = [file for file in context.get(kind, []) if not asks_thebe(file)]
    source = app.env.doc2path(pagename) if pagename in app.env.found_docs else ""
    if str(source).endswith(".ipynb") and "header_buttons" in context:
        slug = "/".join(app.config.repository_address.split("/")[3:])
        context["header_buttons"].insert(0, {
            "type": "link", "text": "Open in Colab", "tooltip": "Open this chapter in Colab",
            "icon": "fas fa-play", "label": "colab-button",
            "url": f"https://colab.research.google.com/github/{slug}/blob/main/{pagename}.ipynb" if slug
            else f"{context['pathto']('book/preface')}#in-colab"})
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
    app.connect("doctree-read", dress_cells)
    app.connect("html-page-context", dress_page, priority=900)
    app.connect("build-finished", copy_mathjax)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
