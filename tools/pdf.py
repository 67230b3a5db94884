"""The book on A4: `python tools/pdf.py` prints the built book with Chromium into
_build/paper/the-literate-transformer.pdf.

All pages become one document, which is printed twice: the first print says on which page each place
falls, the second has these numbers in its contents, its index and beside its hints. Setup and
drawing code is left out, as a line at the chapter's end says; hints and solutions stand at the end
of the book, so that nobody reads them with the task. Live views are pictures."""

import html
import io
import re
from pathlib import Path

import chromium
import still
import yaml
from pypdf import PdfReader

NAME = "the-literate-transformer"
HERE = Path(__file__).parent.parent / "book" / "web" / "paper"
COLUMN, SHEET = 672, 1000  # pixels of a page between the margins that paper.css has
FIT = (HERE / "fit.js").read_text("utf-8")
BACK = {"answers": "Hints and solutions", "index-of-names": "Exported names"}


def facts() -> dict:
    "What CITATION.cff says of the book, with its authors in one line."
    cited = yaml.safe_load((still.ROOT / "CITATION.cff").read_text("utf-8"))
    return cited | {"author": ", ".join(author["name"] for author in cited["authors"])}


def cover(about: dict, pages: list[still.Page]) -> str:
    "Title, and the running sentence with the lines of attention, where the first page has it."
    return f"""<section class="tl-cover">
<h1 class="tl-cover-title">{html.escape(about["title"])}</h1>
<p class="tl-cover-line">“Attention Is All You Need”, rebuilt in PyTorch, from four lines of
attention to a translator that runs</p>
{pages[0].sentence}<p class="tl-cover-foot">{html.escape(about["author"])}</p></section>"""


def imprint(about: dict) -> str:
    return f"""<section class="tl-imprint">
<p><b>{html.escape(about["title"])}</b>, version {about["version"]}, {about["date-released"]}.</p>
<p>Paper edition. Code of setup, drawings and tables is left out, as each chapter's last line says,
and so are the commands of recorded runs: both are in the notebooks and in the web edition. Hints
and solutions are at the end, each exercise says on which page. What moves in the web edition is a
picture here, marked “Alive in the web edition”. Links work in this file, inside the book as
well.</p>
<p>Text and figures: CC BY 4.0. Code: MIT. Type: Source Serif 4, Inter and JetBrains Mono, under the
SIL Open Font License.</p></section>"""


def number_of(place: str) -> str:
    return f'<a class="tl-page" href="#{place}" data-page-of="{place}">000</a>'


def contents(pages: list[still.Page]) -> str:
    "Parts, chapters and sections with their pages."
    lines = []
    for page in pages:
        title = page.title.removesuffix(", at a glance")
        lines.append(("part" if page.outer else "chapter", page.key, title))
        lines += [("section", head["id"], head["text"]) for head in page.sections]
    lines += [("part", place, title) for place, title in BACK.items()]
    rows = [
        f"""<p class="tl-toc-{level}"><a href="#{place}">{html.escape(title)}</a>\
{number_of(place)}</p>"""
        for level, place, title in lines
    ]
    return f"""<section class="tl-contents" id="contents"><h1 class="tl-h1">Contents</h1>
<div class="tl-toc">{"".join(rows)}</div></section>"""


def answers(pages: list[still.Page]) -> str:
    task = f'<a href="#{{of}}">the task, page</a> {number_of("{of}")}'
    return f"""<section class="tl-answers bd-article" id="answers">
<h1 class="tl-h1">{BACK["answers"]}</h1>{still.answers(pages, f"{{title}} <small>{task}</small>")}
</section>"""


def index(pages: list[still.Page]) -> str:
    "Every name that a chapter exports, with its module and its page."
    row = """<p><a href="#{id}"><code>{name}</code></a>
<span>{module}</span>"""
    rows = still.names(pages, f'{row}{number_of("{id}")}</p>')
    return f"""<section class="tl-index" id="index-of-names">
<h1 class="tl-h1">{BACK["index-of-names"]}</h1>
<p>What the chapters export into the package <code>transformer_lit</code>, with the module and the
page where it is written.</p><div class="tl-names">{rows}</div></section>"""


def running_heads(pages: list[still.Page]) -> str:
    "A named kind of sheet for each page of the book, with its title above."
    style = 'font: 8.5pt "Inter"; color: #59616b;'
    titles = {page.key: page.title.replace('"', "”") for page in pages}
    titles |= {"contents": "Contents", **BACK}
    return "\n".join(
        f"""@page s-{key} {{ @top-left {{ content: "{title}"; {style} }}
@bottom-center {{ content: counter(page); {style} }} }}"""
        for key, title in titles.items()
    )


def full_document(site: Path, pages: list[still.Page], about: dict) -> str:
    "The document that is printed."
    pieces, part = [cover(about, pages), imprint(about)], ""
    pieces.append(f'<div style="page:s-contents">{contents(pages)}</div>')
    for page in pages:
        if page.part != part and not page.outer:  # no page opens it
            pieces.append(f"""<section class="tl-divider" style="page:divider">
<h1 class="tl-h1">{html.escape(page.part)}</h1></section>""")
        part = page.part
        pieces.append(f"""<article class="bd-article" id="{page.key}" style="page:s-{page.key}">\
{page.html}</article>""")
    pieces.append(f'<div style="page:s-answers">{answers(pages)}</div>')
    pieces.append(f'<div style="page:s-index-of-names">{index(pages)}</div>')
    body = still.whole_links({"": "".join(pieces)})[""]
    body = re.sub(
        r'<a class="tl-answer-link" href="#([^"]+)">[^<]*</a>',
        lambda match: f"{match[0]}: page {number_of(match[1])}",
        body,
    )
    return document_of(site, about, body, running_heads(pages))


def document_of(site: Path, about: dict, body: str, extra_style: str = "") -> str:
    """A document with the book's own style and the style of paper; `more` is style as well.
    `dressed` puts them on: with them, loading takes minutes."""
    sheets = "".join(
        f'<link rel="stylesheet" media="none" href="{(site / "_static" / name).as_uri()}">'
        for name in ("pygments.css", "book.css")
    )
    return f"""<!DOCTYPE html><html lang="en" data-theme="light"><head><meta charset="utf-8">
<title>{html.escape(about["title"])}</title>
<meta name="author" content="{html.escape(about["author"])}">{sheets}
<style media="none">{(HERE / "paper.css").read_text("utf-8")}
{extra_style}</style></head><body>{body}</body></html>"""


def dressed(tab, file: Path) -> None:
    tab.goto(file.as_uri())
    tab.evaluate("document.querySelectorAll('[media=none]').forEach(sheet => sheet.media = 'all')")
    tab.evaluate("document.body.offsetHeight, document.fonts.ready")


def pages_of_places(pdf: bytes) -> dict[str, int]:
    "On which page each linked place falls; under an empty name, how many pages there are."
    reader = PdfReader(io.BytesIO(pdf))
    places = reader.named_destinations.items()
    where = {name.lstrip("/"): reader.get_destination_page_number(to) + 1 for name, to in places}
    return where | {"": len(reader.pages)}


def numbered(document: str, where: dict[str, int]) -> str:
    return re.sub(
        r'data-page-of="([^"]+)">\d*<',
        lambda match: f'data-page-of="{match[1]}">{where.get(match[1], 0)}<',
        document,
    )


def printed(document: str, file: Path) -> tuple[bytes, dict]:
    "The document as PDF, and what had to be made smaller to fit, or didn't."
    file.write_text(document, "utf-8")
    view = {"width": COLUMN, "height": SHEET}
    with chromium.opened() as browser:
        tab = browser.new_page(viewport=view, color_scheme="light", offline=True)
        tab.set_default_timeout(600_000)
        tab.emulate_media(media="print")
        dressed(tab, file)
        fitted = tab.evaluate(f"({FIT})({{column: {COLUMN}, sheet: {SHEET}}})")
        flags = "prefer_css_page_size", "print_background", "outline", "tagged"
        return tab.pdf(**dict.fromkeys(flags, True)), fitted


def make(site: Path, toc: Path, folder: Path, about: dict) -> tuple[Path, dict]:
    pages = still.capture_pages(site, toc, "paper", folder)
    document = full_document(site, pages, about)
    where: dict[str, int] = {}
    for _ in range(3):
        pdf, fitted = printed(numbered(document, where), folder / "book.html")
        before, where = where, pages_of_places(pdf)
        if before == where:
            break
    target = folder / f"{NAME}.pdf"
    target.write_bytes(pdf)
    return target, {**fitted, "pages": where[""], "places": where}


def main() -> None:
    target, about = make(still.SITE, still.ROOT / "_toc.yml", still.PAPER, facts())
    print(f"{target}: {about['pages']} pages; too wide: {about['wide'] or 'nothing'}")


if __name__ == "__main__":
    main()
