"""The book on A4: `python tools/pdf.py` prints the built book with Chromium into
_build/paper/the-literate-transformer.pdf.

All pages become one document, which is printed twice: the first print says on which page each place
falls, the second has these numbers in its contents, its index and beside its hints. Folded code
stands open in its place, in smaller type; hints and solutions stand at the end, so that nobody
reads them with the task. Live views are pictures."""

import html
import re
import sys
import time
from pathlib import Path

import chromium
import still
import yaml

NAME = "the-literate-transformer"
HERE = Path(__file__).parent.parent / "book" / "web" / "paper"
COLUMN, SHEET = (
    640,
    950,
)  # pixels of a page between its margins; book/web/paper/paper.css has the margins
FIT = (HERE / "fit.js").read_text(encoding="utf-8")


def facts(root: Path = still.ROOT) -> dict:
    "Title, authors, version, date of release."
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    return {
        "title": cited["title"],
        "author": ", ".join(a["name"] for a in cited["authors"]),
        "version": cited["version"],
        "released": str(cited["date-released"]),
    }


def cover(about: dict, pages: list[still.Page]) -> str:
    "Title, and the running sentence with the lines of attention, where the first page has it."
    return (
        f'<section class="tl-cover"><h1 class="tl-cover-title">{html.escape(about["title"])}</h1><p'
        ' class="tl-cover-line">“Attention Is All You Need”, rebuilt in PyTorch, from four lines'
        f" of attention to a translator that runs</p>{pages[0].sentence}<p"
        f' class="tl-cover-foot">{html.escape(about["author"])}</p></section>'
    )


def imprint(about: dict) -> str:
    return (
        f'<section class="tl-imprint"><p><b>{html.escape(about["title"])}</b>, version'
        f' {about["version"]}, {about["released"]}.</p><p>Paper edition. Code that is folded in the'
        " web edition stands open here, in smaller type. Hints and solutions are at the end, each"
        " exercise says on which page. What moves in the web edition is a picture here, marked"
        " “Alive in the web edition”. Links work in this file, inside the book as well.</p><p>Text"
        " and figures: CC BY 4.0. Code: MIT. Type: Source Serif 4, Inter and JetBrains Mono, under"
        " the SIL Open Font License.</p></section>"
    )


def number_of(place: str) -> str:
    return f'<a class="tl-page" href="#{place}" data-page-of="{place}">000</a>'


def contents(pages: list[still.Page], more: list[tuple[str, str]]) -> str:
    "Parts, chapters and sections with their pages."
    lines = []
    for page in pages:
        level = (
            "part" if not page.part or page.opens_part or page.part == still.FIRST else "chapter"
        )
        title = page.title.removesuffix(", at a glance") if page.opens_part else page.title
        lines.append(
            f'<p class="tl-toc-{level}"><a'
            f' href="#{page.key}">{html.escape(title)}</a>{number_of(page.key)}</p>'
        )
        if re.match(r"\d", page.title):
            lines += [
                '<p class="tl-toc-section"><a'
                f' href="#{head["id"]}">{html.escape(head["text"])}</a>{number_of(head["id"])}</p>'
                for head in page.heads
                if head["level"] == 2
            ]
    lines += [
        f'<p class="tl-toc-part"><a href="#{place}">{title}</a>{number_of(place)}</p>'
        for place, title in more
    ]
    return (
        '<section class="tl-contents" id="contents"><h1 class="tl-h1">Contents</h1><div'
        ' class="tl-toc">'
        + "".join(lines)
        + "</div></section>"
    )


def answers(pages: list[still.Page]) -> str:
    "Hints and solutions of all exercises, chapter by chapter."
    made = []
    for page in pages:
        if page.answers:
            made.append(f'<h2 class="tl-h2">{html.escape(page.title)}</h2>')
        for answer in page.answers:
            head = (
                f'<h3 class="tl-h3">{html.escape(answer["title"])} <small><a'
                f' href="#{answer["of"]}">the task, page</a> {number_of(answer["of"])}</small></h3>'
            )
            made.append(
                re.sub(
                    r"(<section[^>]*>)",
                    lambda found, head=head: found[1] + head,
                    answer["html"],
                    count=1,
                )
            )
    return (
        '<section class="tl-answers bd-article" id="answers"><h1 class="tl-h1">Hints and'
        " solutions</h1>"
        + "".join(made)
        + "</section>"
    )


def index(pages: list[still.Page]) -> str:
    "Every name that a chapter exports, with its module and its page."
    names = sorted(
        (export["name"].lower(), export["name"], export["module"], export["id"])
        for page in pages
        for export in page.exports
    )
    rows = [
        f'<p><a href="#{place}"><code>{html.escape(name)}</code></a>'
        f" <span>{html.escape(Path(module).stem)}</span>{number_of(place)}</p>"
        for _, name, module, place in names
    ]
    return (
        '<section class="tl-index" id="index-of-names"><h1 class="tl-h1">Exported names</h1><p>What'
        " the chapters export into the package <code>transformer_lit</code>, with the module and"
        ' the page where it is written.</p><div class="tl-names">'
        + "".join(rows)
        + "</div></section>"
    )


def running_heads(pages: list[still.Page]) -> str:
    "A named kind of sheet for each page of the book, with its title above."

    def sheet(name: str, words: str) -> str:
        return (
            f'@page {name} {{ @top-left {{ content: "{words}"; font: 8.5pt "Inter"; color: #59616b;'
            ' } @bottom-center { content: counter(page); font: 8.5pt "Inter"; color: #59616b;'
            " } }"
        )

    named = [(f"s-{page.key}", page.title) for page in pages] + [
        ("s-contents", "Contents"),
        ("s-answers", "Hints and solutions"),
        ("s-index-of-names", "Exported names"),
    ]
    return "\n".join(
        sheet(name, words.replace("\\", "").replace('"', "”")) for name, words in named
    )


def whole(site: Path, pages: list[still.Page], about: dict) -> str:
    "The document that is printed."
    has_answers, has_names = any(page.answers for page in pages), any(
        page.exports for page in pages
    )
    back = ([("answers", "Hints and solutions")] if has_answers else []) + (
        [("index-of-names", "Exported names")] if has_names else []
    )
    chapters, part = [], None
    for page in pages:
        if page.part != part and page.part and not page.opens_part and page.part != still.FIRST:
            chapters.append(
                '<section class="tl-divider" style="page:divider"><h1'
                f' class="tl-h1">{html.escape(page.part)}</h1></section>'
            )
        part = page.part
        chapters.append(
            f'<article class="bd-article" id="{page.key}"'
            f' style="page:s-{page.key}">{page.html}</article>'
        )
    body = "".join(
        [
            cover(about, pages),
            imprint(about),
            f'<div style="page:s-contents">{contents(pages, back)}</div>',
            *chapters,
            f'<div style="page:s-answers">{answers(pages)}</div>' if has_answers else "",
            f'<div style="page:s-index-of-names">{index(pages)}</div>' if has_names else "",
        ]
    )
    places = still.ids_in(body)
    body = re.sub(
        r'href="#([^"]+)"',
        lambda found: found[0] if found[1] in places else f'href="#{found[1].partition("--")[0]}"',
        body,
    )
    body = re.sub(
        r'(<a class="tl-answer-link" href="#([^"]+)">[^<]*</a>)',
        lambda found: f"{found[1]}: page {number_of(found[2])}",
        body,
    )
    return document_of(site, about, body, running_heads(pages))


def document_of(site: Path, about: dict, body: str, more: str = "") -> str:
    """A document with the book's own style and the style of paper; `more` is style as well.
    `dressed` puts them on: with them, loading takes minutes."""
    sheets = "".join(
        f'<link rel="stylesheet" media="none" href="{(site / "_static" / name).as_uri()}">'
        for name in ("pygments.css", "book.css")
    )
    return (
        '<!DOCTYPE html><html lang="en" data-theme="light"><head><meta'
        f' charset="utf-8"><title>{html.escape(about["title"])}</title>'
        f'<meta name="author" content="{html.escape(about["author"])}">{sheets}<style'
        f' media="none">{(HERE / "paper.css").read_text(encoding="utf-8")}\n{more}</style></head>'
        f"<body>{body}</body></html>"
    )


def dressed(tab, file: Path) -> None:
    tab.goto(file.as_uri())
    tab.evaluate("document.querySelectorAll('[media=none]').forEach(sheet => sheet.media = 'all')")
    tab.evaluate("document.body.offsetHeight, document.fonts.ready")


def pages_of_places(pdf: bytes) -> dict[str, int]:
    """On which page each linked place falls, read from the file that Chromium wrote: its list of
    destinations and its tree of pages."""
    objects = {
        int(found[1]): found[2]
        for found in re.finditer(rb"(?:^|\n)(\d+) 0 obj\n(.*?)\nendobj", pdf, re.S)
    }

    def leaves(number: int) -> list[int]:
        body = objects[number]
        if b"/Kids" not in body:
            return [number]
        return [
            leaf
            for kid in re.findall(rb"(\d+) 0 R", re.search(rb"/Kids \[(.*?)\]", body, re.S)[1])
            for leaf in leaves(int(kid))
        ]

    catalog = next(body for body in objects.values() if b"/Type /Catalog" in body)
    order = {
        leaf: number
        for number, leaf in enumerate(leaves(int(re.search(rb"/Pages (\d+) 0 R", catalog)[1])), 1)
    }
    found = re.search(rb"/Dests (\d+) 0 R", catalog)
    places = objects[int(found[1])] if found else b""
    name = lambda raw: re.sub(
        rb"#([0-9A-Fa-f]{2})", lambda code: bytes([int(code[1], 16)]), raw
    ).decode(
        "utf-8"
    )  # noqa: E731
    return {
        name(raw): order[int(page)]
        for raw, page in re.findall(rb"/([^\s/\[\]<>()]+) \[(\d+) 0 R /XYZ", places)
    } | {"": len(order)}


def numbered(document: str, where: dict[str, int]) -> str:
    return re.sub(
        r'data-page-of="([^"]+)">\d*<',
        lambda found: f'data-page-of="{found[1]}">{where.get(found[1], 0)}<',
        document,
    )


def printed(document: str, file: Path) -> tuple[bytes, dict]:
    "The document as PDF, and what had to be made smaller to fit, or didn't."
    file.write_text(document, encoding="utf-8")
    with chromium.opened() as browser:
        tab = browser.new_page(
            viewport={"width": COLUMN, "height": SHEET}, color_scheme="light", offline=True
        )
        tab.set_default_timeout(600_000)
        tab.emulate_media(media="print")
        dressed(tab, file)
        fitted = tab.evaluate(f"({FIT})({{column: {COLUMN}, sheet: {SHEET}}})")
        return (
            tab.pdf(prefer_css_page_size=True, print_background=True, outline=True, tagged=True),
            fitted,
        )


def make(site: Path, toc: Path, folder: Path, about: dict) -> tuple[Path, dict]:
    pages = still.taken(site, toc, "paper", folder)
    document = whole(site, pages, about)
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
    began = time.monotonic()
    if chromium.program() is None:
        sys.exit("no Chromium here: install Debian's package chromium")
    target, said = make(still.SITE, still.ROOT / "_toc.yml", still.PAPER, facts())
    print(
        f"{target}: {said['pages']} pages, {target.stat().st_size / 1e6:.1f} MB,"
        f" {time.monotonic() - began:.0f} s; made smaller to fit: {said['smaller']}; too wide"
        f" still: {said['wide'] or 'nothing'}"
    )


if __name__ == "__main__":
    main()
