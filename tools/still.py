"""The built book page by page as it can stand on paper and in an e-reader: opened in Chromium,
offline, formulas finished, live views as pictures.

`capture_pages(site, toc, "paper")` keeps formulas as drawings; "reader" makes them MathML and every
page well-formed XML. tools/pdf.py and tools/epub.py use it."""

import html
import re
from dataclasses import dataclass
from pathlib import Path

import chromium
import yaml

ROOT = Path(__file__).resolve().parent.parent
SITE, PAPER = ROOT / "_build" / "html", ROOT / "_build" / "paper"
SCRIPT = (ROOT / "book/web/paper/still.js").read_text("utf-8")
FIRST = "Before you start"
FINER = 2.5  # dots of a live view's picture for each pixel of the page


@dataclass
class Page:
    "One page of the book. Every id in it begins with its key."

    key: str  # of 03_masks "c03_masks"; may begin an id
    part: str  # the part's caption, or nothing
    outer: bool  # stands beside the parts, or opens one
    title: str
    html: str
    sentence: str  # of the first page, for the cover
    heads: list[dict]  # level, text, id
    exports: list[dict]  # name, module, id
    answers: list[dict]  # title, of, html: hints and solutions, out of their places

    @property
    def sections(self) -> list[dict]:
        "What the contents list of a chapter."
        return [h for h in self.heads if h["level"] == 2 and re.match(r"\d", self.title)]


def listed(toc: Path) -> list[tuple[str, str]]:
    "Each page with its part, in reading order."
    contents = yaml.safe_load(toc.read_text("utf-8"))
    parts = contents["parts"]
    pages = [(page["file"], part["caption"]) for part in parts for page in part["chapters"]]
    return [(contents["root"], ""), *pages]


def pictures_of(tab, key: str, folder: Path) -> list[str]:
    "Photographs the page's live views; their addresses, as seen from beside `folder`."
    names = [f"{key}-{number}.png" for number in range(tab.evaluate("unfolded()"))]
    for number, name in enumerate(names):
        view = tab.locator(f"[data-picture='{number}']")
        view.screenshot(path=folder / name, animations="disabled")
    return [f"{folder.name}/{name}" for name in names]


def capture_pages(site: Path, toc: Path, edition: str, folder: Path) -> list[Page]:
    "Every page of the table of contents; pictures go to `folder`/pictures."
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    contents, pages = listed(toc), []
    keys = {str(site / f"{n}.html"): re.sub(r"^(?=\d)", "c", Path(n).name) for n, _ in contents}
    with chromium.opened() as browser:
        for (name, part), (file, key) in zip(contents, keys.items()):
            tab = browser.new_page(
                viewport={"width": 1280, "height": 1000},
                device_scale_factor=FINER,
                color_scheme="light",
                reduced_motion="reduce",
                offline=True,
            )
            tab.goto(Path(file).as_uri())
            tab.evaluate("document.documentElement.dataset.theme = 'light'")
            tab.add_script_tag(content=SCRIPT)
            tab.evaluate("ready()")
            outer = part in ("", FIRST) or Path(name).name.startswith("part_")
            wish = {
                "key": key,
                "mathml": edition == "reader",
                "shift": int(edition == "paper" and not outer),
                "pictures": pictures_of(tab, key, folder / "pictures"),
                "pages": keys,
            }
            pages.append(Page(key, part, outer, **tab.evaluate("still", wish)))
            tab.close()
    return pages


def answers(pages: list[Page], head: str) -> str:
    """Hints and solutions of all exercises, chapter by chapter, each under its `head`, where
    {title}, {key} and {of} are filled in."""
    parts = []
    for page in pages:
        if page.answers:
            parts.append(f'<h2 class="tl-h2">{html.escape(page.title)}</h2>')
        for answer in page.answers:
            section, _, inner = answer["html"].partition(">")
            title = html.escape(answer["title"])
            words = head.format(title=title, key=page.key, of=answer["of"])
            parts.append(f'{section}><h3 class="tl-h3">{words}</h3>{inner}')
    return "".join(parts)


def names(pages: list[Page], row: str) -> str:
    """A row for every name that a chapter exports, where {name}, {module}, {key} and {id} of its
    place are filled in."""
    exports = [{**e, "key": page.key} for page in pages for e in page.exports]
    exports.sort(key=lambda e: (e["name"].lower(), e["name"], e["module"]))
    return "".join(row.format(**e) for e in exports)


def ids_in(text: str) -> set[str]:
    return set(re.findall(r'\sid="([^"]+)"', text))


def whole_links(texts: dict[str, str]) -> dict[str, str]:
    "Texts by file; a link to a place that isn't there leads to the page it would be on."
    places = {name: ids_in(text) for name, text in texts.items()}

    def mended(link: re.Match) -> str:
        name, place = link[1], html.unescape(link[2])
        if name not in places or place in places[name]:
            return link[0]
        return f'href="{name or "#" + place.partition("--")[0]}"'

    pattern = r'href="([\w.]*)#([^"]*)"'
    return {name: re.sub(pattern, mended, text) for name, text in texts.items()}
