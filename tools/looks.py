"""How the built pages look, in figures: `python tools/looks.py` opens each chapter in Chromium at 1,280 pixels and measures.

narrow   figures under 60% of the column's width, of all       named   figures with a number and a caption
reprs    outputs that are a bare repr                          mono    words of prose in printed output: lines of six words and more that end as a sentence
first    pixels from the top to the first heading              kB      the page with its style sheets and fonts, scripts apart"""
import re
import sys
from pathlib import Path

import chromium

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "_build" / "html"
MEASURE = """() => {
  const article = document.querySelector("article"), column = 704, shown = e => e.getClientRects().length > 0;
  const widths = [...article.querySelectorAll("figure.tl-figure")].map(f => {
    const all = [...f.querySelectorAll("svg")].filter(shown).map(s => s.getBoundingClientRect());
    return all.length ? Math.max(...all.map(r => r.right)) - Math.min(...all.map(r => r.left)) : column;
  });
  const named = article.querySelectorAll("figure.tl-figure > figcaption .tl-number").length;
  const reprs = [...article.querySelectorAll(".output.text_plain")].filter(shown).length;
  const printed = [...article.querySelectorAll(".output.stream, .output.text_plain")].filter(shown).map(e => e.innerText).join("\\n");
  const heading = article.querySelector("h2");
  return {narrow: widths.filter(w => w < 0.6 * column).length, figures: widths.length, named, reprs, printed,
          first: heading ? Math.round(heading.getBoundingClientRect().top + scrollY) : 0};
}"""


def prose_words(printed: str) -> int:
    "Words in lines that read as sentences: at least six words, at the end a full stop."
    lines = [line.strip() for line in printed.splitlines()]
    return sum(len(words) for line in lines if line.endswith(".") and len(words := re.findall(r"[A-Za-zÀ-ÿ']{2,}", line)) >= 6)


def measure(names: list[str], page) -> list[dict]:
    "One row a page, opened in `page`, a tab of Playwright's that is 1,280 pixels wide."
    rows = []
    for name in names:
        file = SITE / "book" / f"{name}.html"
        page.goto(file.as_uri())
        found = page.evaluate(MEASURE)
        rows.append({"page": name, **found, "mono": prose_words(found.pop("printed")), "kB": file.stat().st_size // 1000})
    return rows


def main() -> None:
    names = sys.argv[1:] or sorted(p.stem for p in (SITE / "book").glob("[0-9]*.html"))
    if not names:
        sys.exit("nothing is built yet: make book")
    with chromium.opened() as browser:
        rows = measure(names, browser.new_page(viewport={"width": 1280, "height": 900}))
    keys = ("figures", "narrow", "named", "reprs", "mono", "first", "kB")
    print(f"{'page':22}" + "".join(f"{key:>9}" for key in keys))
    for row in rows:
        print(f"{row['page']:22}" + "".join(f"{row[key]:>9}" for key in keys))
    total = {key: sum(row[key] for row in rows) for key in keys[:5]}
    print(f"\nnarrow {total['narrow']} of {total['figures']}, named {total['named']}, reprs {total['reprs']}, words of prose in monospace {total['mono']}, "
          f"first heading at most {max(row['first'] for row in rows)} px, largest page {max(row['kB'] for row in rows)} kB")


if __name__ == "__main__":
    main()
