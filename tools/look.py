"""How the built pages look: `look.py [NN ...]` opens each in Chromium, on a desk and on a phone.

Prints for each: figures, those narrower than 60% of the column, those without a number, outputs
that are a bare repr, the pixels to the first heading, and the page's kB. `--pictures` also writes
.run/look/PAGE_{desk,phone}_{light,dark}_K.png, in pieces of 15,000 pixels."""

import sys
from itertools import product
from pathlib import Path

import chromium

ROOT = Path(__file__).resolve().parent.parent
SITE, LOOK = ROOT / "_build" / "html" / "book", ROOT / ".run" / "look"
DEVICES = {"desk": 1280, "phone": 390}
PIECE = 15_000  # a browser's picture ends near 16,000
MEASURE = """() => {
  const article = document.querySelector("article"), heading = article.querySelector("h2");
  const shown = e => e.getClientRects().length > 0, column = article.clientWidth;
  const figures = [...article.querySelectorAll("figure.tl-figure")];
  const width = figure => {
    const drawn = [...figure.querySelectorAll("svg")].filter(shown);
    const boxes = drawn.map(svg => svg.getBoundingClientRect());
    return boxes.length == 0 ? column
      : Math.max(...boxes.map(b => b.right)) - Math.min(...boxes.map(b => b.left));
  };
  return {
    figures: figures.length,
    narrow: figures.filter(figure => width(figure) < 0.6 * column).length,
    unnamed: figures.filter(figure => !figure.querySelector("figcaption .tl-number")).length,
    reprs: [...article.querySelectorAll(".output.text_plain")].filter(shown).length,
    first: heading ? Math.round(heading.getBoundingClientRect().top + scrollY) : 0,
  };
}"""


def main() -> None:
    pictures, wanted = "--pictures" in sys.argv, tuple(a for a in sys.argv[1:] if a[0] != "-")
    LOOK.mkdir(parents=True, exist_ok=True)
    with chromium.opened() as browser:
        paths = [p for p in sorted(SITE.glob("*.html")) if p.name.startswith(wanted or "")]
        for path, device in product(paths, DEVICES):
            width = DEVICES[device]
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.goto(path.as_uri())
            found = {**page.evaluate(MEASURE), "kB": path.stat().st_size // 1000}
            print(f"{path.stem:24}{device:6}", *(f"{k} {v:<6}" for k, v in found.items()))
            for theme in ("light", "dark") if pictures else ():
                page.evaluate(f"document.documentElement.dataset.theme='{theme}'")
                page.wait_for_timeout(400)
                height = page.evaluate("document.documentElement.scrollHeight")
                for k, top in enumerate(range(0, height, PIECE)):
                    clip = {"x": 0, "y": top, "width": width, "height": min(PIECE, height - top)}
                    target = LOOK / f"{path.stem}_{device}_{theme}_{k}.png"
                    page.screenshot(path=target, full_page=True, clip=clip)
            page.close()


if __name__ == "__main__":
    main()
