"""The book for an e-reader: `python tools/epub.py` makes
_build/paper/the-literate-transformer.epub, an EPUB 3, from the built book.

Each page goes through Chromium, which puts MathML in place of every formula and writes the page as
XML. A reader's device may know little: book/web/paper/reader.css has plain selectors and plain
colors, and there are no scripts. Hints and solutions are a page at the end."""

import html
import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import chromium
import pdf
import still

HERE = Path(__file__).parent.parent / "book" / "web" / "paper"
SPACES = """xml:lang="en" lang="en" xmlns="http://www.w3.org/1999/xhtml" \
xmlns:epub="http://www.idpf.org/2007/ops" """
BACK = {"answers": "Hints and solutions", "names": "Exported names"}
KINDS = {
    ".xhtml": "application/xhtml+xml",
    ".css": "text/css",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".woff2": "font/woff2",
    ".txt": "text/plain",
}
CONTAINER = """<?xml version="1.0" encoding="utf-8"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="book/package.opf" media-type="application/oebps-package+xml"/>
</rootfiles></container>
"""


def file_of(title: str, body: str) -> str:
    return f"""<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html>
<html {SPACES}><head><meta charset="utf-8"/><title>{html.escape(title)}</title>
<link rel="stylesheet" type="text/css" href="book.css"/></head><body>{body}</body></html>
"""


NAMES = """<h1>Exported names</h1><p>What the chapters export into the package
<code>transformer_lit</code>, with the module.</p><ul class="tl-names">"""


def navigation(pages: list[still.Page]) -> str:
    "Parts, chapters, sections; the reader's table of contents."

    def entry(address: str, title: str, below: Iterable[str] = ()) -> str:
        line = f'<a href="{address}">{html.escape(title)}</a>'
        inner = "".join(below)
        return f"<li>{line}<ol>{inner}</ol></li>" if inner else f"<li>{line}</li>"

    def chapter(page: still.Page) -> str:
        sections = (entry(f"{page.key}.xhtml#{h['id']}", h["text"]) for h in page.sections)
        return entry(f"{page.key}.xhtml", page.title, sections)

    lines = []
    for part, group in groupby(pages, lambda page: page.part):
        first, *others = group
        if part in ("", still.FIRST):
            lines += map(chapter, (first, *others))
        else:
            within = (chapter(page) for page in (first, *others) if not page.outer)
            lines.append(entry(f"{first.key}.xhtml", part, within))
    lines += [entry(f"{name}.xhtml", title) for name, title in BACK.items()]
    return f'<nav epub:type="toc" id="toc"><h1>Contents</h1><ol>{"".join(lines)}</ol></nav>'


def cover_picture(about: dict, pages: list[still.Page], site: Path, file: Path) -> bytes:
    "The cover of the paper edition, photographed."
    file.write_text(pdf.document_of(site, about, pdf.cover(about, pages)), "utf-8")
    view = {"width": 794, "height": 1123}
    with chromium.opened() as browser:
        tab = browser.new_page(viewport=view, device_scale_factor=2, offline=True)
        pdf.dressed(tab, file)
        return tab.screenshot(type="jpeg", quality=88)


def style_sheet(site: Path) -> str:
    "Ours, and the light colors of code."
    code = (site / "_static" / "pygments.css").read_text("utf-8")
    light = re.findall(r'^html\[data-theme="light"\] (\.highlight \..*)', code, re.M)
    return "\n".join([(HERE / "reader.css").read_text("utf-8"), *light])


def package(about: dict, files: dict[str, bytes], spine: list[str]) -> str:
    "The list of everything in the book."
    marks = {"nav": b'epub:type="toc"', "mathml": b"<math", "svg": b"<svg"}

    def line(name: str) -> str:
        has = "cover-image" if name == "cover.jpg" else ""
        if name.endswith(".xhtml"):
            has = " ".join(word for word, mark in marks.items() if mark in files[name])
        key, kind = re.sub(r"[^\w.-]", "-", name), KINDS[Path(name).suffix]
        properties = f' properties="{has}"' if has else ""
        return f'<item id="i-{key}" href="{name}" media-type="{kind}"{properties}/>'

    order = "".join(f'<itemref idref="i-{name}"/>' for name in spine)
    number = uuid5(NAMESPACE_URL, about["title"] + about["version"])
    return f"""<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id" xml:lang="en">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:identifier id="id">urn:uuid:{number}</dc:identifier>
<dc:title>{html.escape(about["title"])}</dc:title>
<dc:creator>{html.escape(about["author"])}</dc:creator>
<dc:language>en</dc:language><dc:date>{about["date-released"]}</dc:date>
<dc:rights>Text and figures: CC BY 4.0. Code: MIT.</dc:rights>
<meta property="dcterms:modified">{about["date-released"]}T00:00:00Z</meta>
<meta property="schema:accessMode">textual</meta>
<meta property="schema:accessMode">visual</meta>
<meta property="schema:accessibilityFeature">MathML</meta>
<meta property="schema:accessibilityFeature">alternativeText</meta>
<meta property="schema:accessibilityHazard">none</meta>
<meta name="cover" content="i-cover.jpg"/></metadata>
<manifest>{"".join(map(line, files))}</manifest><spine>{order}</spine></package>
"""


def make(site: Path, toc: Path, folder: Path, about: dict) -> Path:
    pages = still.capture_pages(site, toc, "reader", folder)
    title = about["title"]
    cover = f'<div class="tl-cover"><img src="cover.jpg" alt="{html.escape(title)}"/></div>'
    texts = {"cover.xhtml": file_of(title, cover)}
    texts["nav.xhtml"] = file_of("Contents", navigation(pages))
    texts |= {f"{page.key}.xhtml": file_of(page.title, page.html) for page in pages}
    answers = still.answers(pages, '<a href="{key}.xhtml#{of}">{title}</a>')
    row = '<li><code><a href="{key}.xhtml#{id}">{name}</a></code> {module}</li>'
    names = NAMES + still.names(pages, row) + "</ul>"
    texts["answers.xhtml"] = file_of(BACK["answers"], f"<h1>{BACK['answers']}</h1>{answers}")
    texts["names.xhtml"] = file_of(BACK["names"], names)
    files = {name: text.encode() for name, text in still.whole_links(texts).items()}
    files["cover.jpg"] = cover_picture(about, pages, site, folder / "cover.html")
    files["book.css"] = style_sheet(site).encode()
    for name in sorted(set(re.findall(r'src="(pictures/[^"]+)"', "".join(texts.values())))):
        files[name] = (folder / name).read_bytes()
    for font in sorted((site / "_static" / "fonts").iterdir()):
        files[f"fonts/{font.name}"] = font.read_bytes()
    start = {"mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER}
    start["book/package.opf"] = package(about, files, list(texts))
    target = folder / f"{pdf.NAME}.epub"
    with ZipFile(target, "w", ZIP_DEFLATED) as book:
        for name, content in (start | {f"book/{name}": files[name] for name in files}).items():
            stored = name == "mimetype"  # the first file says what the zip is, uncompressed
            book.writestr(ZipInfo(name), content, ZIP_STORED if stored else ZIP_DEFLATED)
    return target


def main() -> None:
    print(make(still.SITE, still.ROOT / "_toc.yml", still.PAPER, pdf.facts()))


if __name__ == "__main__":
    main()
