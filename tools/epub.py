"""The book for an e-reader: `python tools/epub.py` makes
_build/paper/the-literate-transformer.epub, an EPUB 3, from the built book.

Each page goes through Chromium, which puts MathML in place of every formula and writes the page as
XML. A reader's device may know little: book/web/paper/reader.css has plain selectors and plain
colors, and there are no scripts. Hints and solutions are a page at the end."""

import html
import re
import sys
import time
import zipfile
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import chromium
import pdf
import still

HERE = Path(__file__).parent.parent / "book" / "web" / "paper"
SPACES = (
    'xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" xml:lang="en"'
    ' lang="en"'
)
KINDS = {
    ".xhtml": "application/xhtml+xml",
    ".css": "text/css",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".txt": "text/plain",
}
LONG_AGO = (2026, 1, 1, 0, 0, 0)  # the same book makes the same bytes


def file_of(title: str, body: str) -> str:
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n<html {SPACES}><head><meta'
        f' charset="utf-8"/><title>{html.escape(title)}</title><link rel="stylesheet"'
        f' type="text/css" href="book.css"/></head><body>{body}</body></html>\n'
    )


def answers(pages: list[still.Page]) -> str:
    "Hints and solutions of all exercises, chapter by chapter."
    made = ["<h1>Hints and solutions</h1>"]
    for page in pages:
        if page.answers:
            made.append(f"<h2>{html.escape(page.title)}</h2>")
        for answer in page.answers:
            head = (
                "<h3><a"
                f' href="{page.key}.xhtml#{answer["of"]}">{html.escape(answer["title"])}</a></h3>'
            )
            made.append(
                re.sub(
                    r"(<section[^>]*>)",
                    lambda found, head=head: found[1] + head,
                    answer["html"],
                    count=1,
                )
            )
    return "".join(made)


def index(pages: list[still.Page]) -> str:
    names = sorted(
        (e["name"].lower(), e["name"], e["module"], page.key, e["id"])
        for page in pages
        for e in page.exports
    )
    rows = "".join(
        f'<li><a href="{key}.xhtml#{place}"><code>{html.escape(name)}</code></a>'
        f" {html.escape(Path(module).stem)}</li>"
        for _, name, module, key, place in names
    )
    return (
        "<h1>Exported names</h1><p>What the chapters export into the package"
        f' <code>transformer_lit</code>, with the module.</p><ul class="tl-names">{rows}</ul>'
    )


def navigation(pages: list[still.Page], more: list[tuple[str, str]]) -> str:
    "Parts, chapters, sections; the reader's table of contents."

    def entry(page: still.Page, title: str, below: str = "") -> str:
        inner = f"<ol>{below}</ol>" if below else ""
        return f'<li><a href="{page.key}.xhtml">{html.escape(title)}</a>{inner}</li>'

    def chapter(page: still.Page) -> str:
        sections = [
            f'<li><a href="{page.key}.xhtml#{h["id"]}">{html.escape(h["text"])}</a></li>'
            for h in page.heads
            if h["level"] == 2
        ]
        return entry(page, page.title, "".join(sections) if re.match(r"\d", page.title) else "")

    lines, part = [], object()
    for page in pages:
        if not page.part or page.part == still.FIRST:
            lines.append(entry(page, page.title))
        elif page.part != part:
            within = [other for other in pages if other.part == page.part]
            below = "".join(map(chapter, within[within[0].opens_part :]))
            lines.append(entry(within[0], page.part, below))
        part = page.part
    lines += [f'<li><a href="{name}.xhtml">{title}</a></li>' for name, title in more]
    return f'<nav epub:type="toc" id="toc"><h1>Contents</h1><ol>{"".join(lines)}</ol></nav>'


def whole_links(files: dict[str, str]) -> dict[str, str]:
    "A link to a place that isn't there leads to the page it would be on."
    places = {name: still.ids_in(text) for name, text in files.items()}

    def mended(found: re.Match) -> str:
        name, _, place = found[1].partition("#")
        return (
            found[0]
            if name not in places or not place or html.unescape(place) in places[name]
            else f'href="{name}"'
        )

    return {
        name: re.sub(r'href="([\w.]+\.xhtml[^"]*)"', mended, text) for name, text in files.items()
    }


def cover_picture(about: dict, pages: list[still.Page], site: Path, file: Path) -> bytes:
    "The cover of the paper edition, photographed."
    with chromium.opened() as browser:
        tab = browser.new_page(
            viewport={"width": 794, "height": 1123}, device_scale_factor=2, offline=True
        )
        file.write_text(pdf.document_of(site, about, pdf.cover(about, pages)), encoding="utf-8")
        pdf.dressed(tab, file)
        return tab.screenshot(type="jpeg", quality=88)


def style_sheet(site: Path) -> str:
    "Ours, and the light colours of code."
    light, code = 'html[data-theme="light"] ', (site / "_static" / "pygments.css").read_text(
        encoding="utf-8"
    )
    return (HERE / "reader.css").read_text(encoding="utf-8") + "\n".join(
        line.removeprefix(light)
        for line in code.splitlines()
        if line.startswith(light + ".highlight .")
    )


def package(about: dict, files: dict[str, bytes], spine: list[str]) -> str:
    "The list of everything in the book."

    def line(name: str) -> str:
        text = files[name].decode("utf-8") if name.endswith(".xhtml") else ""
        has = [
            word
            for word, mark in (("nav", 'epub:type="toc"'), ("mathml", "<math"), ("svg", "<svg"))
            if mark in text
        ] + (["cover-image"] if name == "cover.jpg" else [])
        return (
            f'<item id="{re.sub(r"[^A-Za-z0-9_.-]", "-", "i-" + name)}" href="{name}"'
            f' media-type="{KINDS[Path(name).suffix]}"'
            + (f' properties="{" ".join(has)}"' if has else "")
            + "/>"
        )

    order = "".join(f'<itemref idref="i-{name}"/>' for name in spine)
    title, author = html.escape(about["title"]), html.escape(about["author"])
    number = uuid5(NAMESPACE_URL, about["title"] + about["version"])
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<package xmlns="http://www.idpf.org/2007/opf"'
        ' version="3.0" unique-identifier="id" xml:lang="en">'
        '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier'
        f' id="id">urn:uuid:{number}</dc:identifier>'
        f"<dc:title>{title}</dc:title><dc:creator>{author}</dc:creator>"
        f'<dc:language>en</dc:language><dc:date>{about["released"]}</dc:date>'
        "<dc:rights>Text and figures: CC BY 4.0. Code: MIT.</dc:rights><meta"
        f' property="dcterms:modified">{about["released"]}T00:00:00Z</meta>'
        '<meta property="schema:accessMode">textual</meta><meta'
        ' property="schema:accessMode">visual</meta><meta'
        ' property="schema:accessibilityFeature">MathML</meta>'
        '<meta property="schema:accessibilityFeature">alternativeText</meta><meta'
        ' property="schema:accessibilityHazard">none</meta><meta name="cover"'
        ' content="i-cover.jpg"/></metadata>'
        f'<manifest>{"".join(map(line, files))}</manifest><spine>{order}</spine></package>\n'
    )


def packed(target: Path, about: dict, files: dict[str, bytes], spine: list[str]) -> None:
    "A zip whose first file says what it is, uncompressed."
    container = (
        '<?xml version="1.0" encoding="utf-8"?>\n<container version="1.0"'
        ' xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile'
        ' full-path="book/package.opf"'
        ' media-type="application/oebps-package+xml"/></rootfiles></container>\n'
    )
    whole = {
        "mimetype": b"application/epub+zip",
        "META-INF/container.xml": container.encode(),
        "book/package.opf": package(about, files, spine).encode(),
    }
    with zipfile.ZipFile(target, "w") as book:
        for name, content in (
            whole | {f"book/{name}": content for name, content in files.items()}
        ).items():
            entry = zipfile.ZipInfo(name, LONG_AGO)
            entry.compress_type = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            book.writestr(entry, content)


def make(site: Path, toc: Path, folder: Path, about: dict) -> Path:
    pages = still.taken(site, toc, "reader", folder)
    more = ([("answers", "Hints and solutions")] if any(page.answers for page in pages) else []) + (
        [("names", "Exported names")] if any(page.exports for page in pages) else []
    )
    texts = {
        "nav.xhtml": file_of("Contents", navigation(pages, more)),
        "cover.xhtml": file_of(
            about["title"],
            '<div class="tl-cover"><img src="cover.jpg"'
            f' alt="{html.escape(about["title"])}"/></div>',
        ),
    }
    texts |= {f"{page.key}.xhtml": file_of(page.title, page.html) for page in pages}
    bodies = {"answers": answers, "names": index}
    texts |= {f"{name}.xhtml": file_of(title, bodies[name](pages)) for name, title in more}
    files = {name: text.encode("utf-8") for name, text in whole_links(texts).items()}
    files["cover.jpg"] = cover_picture(about, pages, site, folder / "cover.html")
    files["book.css"] = style_sheet(site).encode("utf-8")
    used = set(re.findall(r'src="(pictures/[^"]+)"', "".join(texts.values())))
    files |= {name: (folder / name).read_bytes() for name in sorted(used)}
    files |= {
        f"fonts/{font.name}": font.read_bytes()
        for font in sorted((site / "_static" / "fonts").iterdir())
    }
    target = folder / f"{pdf.NAME}.epub"
    packed(
        target,
        about,
        files,
        [
            "cover.xhtml",
            "nav.xhtml",
            *(f"{page.key}.xhtml" for page in pages),
            *(f"{name}.xhtml" for name, _ in more),
        ],
    )
    return target


def main() -> None:
    began = time.monotonic()
    if chromium.program() is None:
        sys.exit("no Chromium here: install Debian's package chromium")
    target = make(still.SITE, still.ROOT / "_toc.yml", still.PAPER, pdf.facts())
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
