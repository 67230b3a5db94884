"""The built book page by page as it can stand on paper and in an e-reader: opened in Chromium,
offline, formulas finished, live views as pictures.

`taken(site, toc, "paper")` keeps formulas as drawings; "reader" makes them MathML and every page
well-formed XML. tools/pdf.py and tools/epub.py use it."""

import re
from dataclasses import dataclass
from pathlib import Path

import chromium
import yaml

ROOT = Path(__file__).resolve().parent.parent
SITE, PAPER = ROOT / "_build" / "html", ROOT / "_build" / "paper"
SCRIPT = (ROOT / "book" / "web" / "paper" / "still.js").read_text(encoding="utf-8")
FIRST = "Before you start"
FINER = 2.5  # dots of a live view's picture for each pixel of the page


@dataclass
class Page:
    "One page of the book. Every id in it begins with its key."

    name: str  # as in the table of contents: "03_masks"
    key: str  # "c03_masks"; may begin an id
    part: str  # the part's caption, or nothing
    opens_part: bool
    title: str
    html: str
    sentence: str  # of the first page, for the cover
    heads: list[dict]  # level, text, id
    exports: list[dict]  # name, module, id
    answers: list[dict]  # title, of, html: hints and solutions, out of their places


def key_of(name: str) -> str:
    return re.sub(r"^(?=\d)", "c", name)


def listed(toc: Path) -> list[tuple[str, str]]:
    "Each page with its part, in reading order."
    contents = yaml.safe_load(toc.read_text(encoding="utf-8"))
    return [(contents["root"], "")] + [
        (chapter["file"], part["caption"])
        for part in contents.get("parts", [])
        for chapter in part["chapters"]
    ]


def lives(file: Path) -> bool:
    "May the page have a live view? A tab with fine dots is slow."
    article = file.read_text(encoding="utf-8").partition("<article")[2].partition("</article>")[0]
    return bool(
        re.search(r"<(button|input|select|textarea|canvas)|tl-(explore|first|live)", article)
    )


def pictures_of(tab, key: str, folder: Path) -> list[str]:
    "Photographs the page's live views; their addresses, as seen from beside `folder`."
    made = []
    for number in range(tab.evaluate("unfolded()")):
        made.append(f"{folder.name}/{key}-{number}.png")
        tab.locator(f"[data-picture='{number}']").screenshot(
            path=folder / f"{key}-{number}.png", animations="disabled"
        )
    return made


def taken(site: Path, toc: Path, edition: str, folder: Path) -> list[Page]:
    "Every page of the table of contents; pictures go to `folder`/pictures."
    pictures = folder / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    names = listed(toc)
    missing = [name for name, _ in names if not (site / f"{name}.html").exists()]
    if missing:
        raise SystemExit(f"not built yet: {', '.join(missing)}; run make book")
    keys = {name: key_of(Path(name).name) for name, _ in names}
    pages, seen = [], set()
    with chromium.opened() as browser:
        for name, part in names:
            tab = browser.new_page(
                viewport={"width": 1280, "height": 1000},
                device_scale_factor=FINER if lives(site / f"{name}.html") else 1,
                color_scheme="light",
                reduced_motion="reduce",
                offline=True,
            )
            tab.add_init_script(
                "try { localStorage.setItem('mode', 'light'); localStorage.setItem('theme',"
                " 'light') } catch (e) {}"
            )
            tab.goto((site / f"{name}.html").as_uri())
            tab.evaluate("document.documentElement.dataset.theme = 'light'")
            tab.add_script_tag(content=SCRIPT)
            tab.evaluate("ready()")
            key = keys[name]
            shots = pictures_of(tab, key, pictures)
            opens = bool(part) and part not in seen and Path(name).name.startswith("part_")
            seen.add(part)
            outer = not part or opens or part == FIRST
            found = tab.evaluate(
                "still",
                {
                    "key": key,
                    "mathml": edition == "reader",
                    "shift": 0 if outer or edition == "reader" else 1,
                    "pictures": shots,
                    "pages": {
                        (site / f"{n}.html").as_uri().removeprefix("file://"): k
                        for n, k in keys.items()
                    },
                },
            )
            pages.append(Page(Path(name).name, key, part, opens, **found))
            tab.close()
    return pages


def ids_in(text: str) -> set[str]:
    return set(re.findall(r'\sid="([^"]+)"', text))
