"""How the built pages look, in figures: `python tools/looks.py` opens each chapter in Chromium at 1,280 pixels and measures.

narrow   figures under 60% of the column's width, of all       named   figures with a number and a caption
reprs    outputs that are a bare repr                          mono    words of prose in printed output: lines of six words and more that end as a sentence
first    pixels from the top to the first heading              kB      the page's own file

`python tools/looks.py --slow 09 13 25`: what a phone loads, and when it shows something: 390 pixels, a processor four times slower than this
one, 1.6 Mbit/s with 150 ms of delay (Lighthouse's slow 4G), nothing cached. kB over the line, seconds to the first paint and to the largest,
and the milliseconds in which the page didn't answer: tasks of more than 50 ms, what is over 50 of each added up."""

import gzip
import http.server
import re
import sys
import threading
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
    return sum(
        len(words)
        for line in lines
        if line.endswith(".") and len(words := re.findall(r"[A-Za-zÀ-ÿ']{2,}", line)) >= 6
    )


def measure(names: list[str], page) -> list[dict]:
    "One row a page, opened in `page`, a tab of Playwright's that is 1,280 pixels wide."
    rows = []
    for name in names:
        file = SITE / "book" / f"{name}.html"
        page.goto(file.as_uri())
        found = page.evaluate(MEASURE)
        rows.append(
            {
                "page": name,
                **found,
                "mono": prose_words(found.pop("printed")),
                "kB": file.stat().st_size // 1000,
            }
        )
    return rows


class Compressed(http.server.SimpleHTTPRequestHandler):
    "Files as a server sends them: text compressed."

    def __init__(self, *given):
        super().__init__(*given, directory=str(SITE))

    def do_GET(self):
        file = Path(self.translate_path(self.path))
        if not file.is_file():
            return self.send_error(404)
        data, text = file.read_bytes(), file.suffix in (".html", ".css", ".js", ".svg", ".json")
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(file)))
        if text:
            data = gzip.compress(data, 6)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


PAINTS = """() => new Promise(done => {
  const found = {first: 0, largest: 0, blocked: 0};
  new PerformanceObserver(l => l.getEntries().forEach(e => { if (e.name == "first-contentful-paint") found.first = e.startTime }))
    .observe({type: "paint", buffered: true});
  new PerformanceObserver(l => l.getEntries().forEach(e => found.largest = e.startTime)).observe({type: "largest-contentful-paint", buffered: true});
  new PerformanceObserver(l => l.getEntries().forEach(e => found.blocked += e.duration - 50)).observe({type: "longtask", buffered: true});
  setTimeout(() => done(found), 500);
})"""


def on_a_slow_phone(names: list[str], browser) -> list[dict]:
    "One row a page: what it weighs over the line and when it paints."
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Compressed)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rows = []
    for name in names:
        page = browser.new_page(viewport={"width": 390, "height": 844})
        link, weight = page.context.new_cdp_session(page), []
        link.send("Network.enable")
        link.on("Network.loadingFinished", lambda event: weight.append(event["encodedDataLength"]))
        link.send(
            "Network.emulateNetworkConditions",
            {
                "offline": False,
                "latency": 150,
                "downloadThroughput": 200_000,
                "uploadThroughput": 94_000,
            },
        )
        link.send("Emulation.setCPUThrottlingRate", {"rate": 4})
        page.goto(
            f"http://127.0.0.1:{server.server_port}/book/{name}.html",
            wait_until="networkidle",
            timeout=120_000,
        )
        found = page.evaluate(PAINTS)
        rows.append(
            {
                "page": name,
                "kB": round(sum(weight) / 1000),
                "first s": round(found["first"] / 1000, 1),
                "largest s": round(found["largest"] / 1000, 1),
                "blocked ms": round(found["blocked"]),
            }
        )
        page.close()
    server.shutdown()
    return rows


def full_names(asked: list[str]) -> list[str]:
    "Chapters by their number; any other page by its name. All chapters if none is asked for."
    pages = sorted(p.stem for p in (SITE / "book").glob("*.html"))
    return (
        [p for p in pages if any(p == a or re.match(rf"{re.escape(a)}_", p) for a in asked)]
        if asked
        else [p for p in pages if p[:1].isdigit()]
    )


def main() -> None:
    asked = [word for word in sys.argv[1:] if word != "--slow"]
    names = full_names(asked)
    if not names:
        sys.exit("no such page is built: make book")
    if "--slow" in sys.argv:
        with chromium.opened() as browser:
            rows = on_a_slow_phone(names, browser)
        print(f"{'page':22}" + "".join(f"{key:>12}" for key in list(rows[0])[1:]))
        for row in rows:
            print(f"{row['page']:22}" + "".join(f"{value:>12}" for value in list(row.values())[1:]))
        return
    with chromium.opened() as browser:
        rows = measure(names, browser.new_page(viewport={"width": 1280, "height": 900}))
    keys = ("figures", "narrow", "named", "reprs", "mono", "first", "kB")
    print(f"{'page':22}" + "".join(f"{key:>9}" for key in keys))
    for row in rows:
        print(f"{row['page']:22}" + "".join(f"{row[key]:>9}" for key in keys))
    total = {key: sum(row[key] for row in rows) for key in keys[:5]}
    print(
        f"\nnarrow {total['narrow']} of {total['figures']}, named {total['named']}, reprs"
        f" {total['reprs']}, words of prose in monospace {total['mono']}, first heading at most"
        f" {max(row['first'] for row in rows)} px, largest page {max(row['kB'] for row in rows)} kB"
    )


if __name__ == "__main__":
    main()
