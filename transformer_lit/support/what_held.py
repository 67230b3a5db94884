"""The page that shows every claim with every run: a table, and a dot for each run."""
import html
from collections.abc import Sequence

from IPython.display import HTML

from .claims import NEEDED, anchor, by_processor, number, records, summary

MARKS = {"best": "●", "avx512": "◆", "avx2": "■", "default": "▲"}  # by instruction set; two threads are hollow
HOLLOW = {"best": "○", "avx512": "◇", "avx2": "□", "default": "△"}
WIDTH, HEIGHT = 260, 34


def order(record: dict) -> tuple:
    "Failures first, then the least share, then by name."
    shares = [s["held"] / s["tried"] for s in map(summary, by_processor(record["runs"]).values())]
    return (min(shares) if shares else 0.0, record["chapter"])


def run_words(run: dict, unit: str) -> str:
    seeds = f"seeds +{run['shift']}" if run["shift"] else "the book's own seeds"
    return (f"{number(run['effect'])} {unit}".strip() + ("" if run["held"] else ", otherwise") + f": {seeds}, {run['instructions']}, "
            f"{run['threads']} thread{'s' * (run['threads'] > 1)}, torch {run['torch']}")


def strip(runs: Sequence[dict], record: dict, unit: str) -> str:
    "Every run as a mark at its effect, the bounds of the claim as lines; runs that didn't reach the claim are counted beside it."
    effects = [run["effect"] for run in runs if run["effect"] is not None] or [0.0]
    reach = 4 * (max(effects) - min(effects)) + max(map(abs, effects)) / 4  # a bound far away would press the runs into a corner
    bounds = [b for b in (record["low"], record["high"]) if b is not None and min(effects) - reach <= b <= max(effects) + reach]
    low, high = min([*effects, *bounds]), max([*effects, *bounds])
    room = (high - low or abs(high) or 1.0) * 0.08
    low, high = low - room, high + room

    def at(value: float) -> float:
        return 4 + (WIDTH - 8) * (value - low) / (high - low)

    marks = []
    for n, run in enumerate(runs):
        if run["effect"] is not None:
            sign = (HOLLOW if run["threads"] > 1 else MARKS).get(run["instructions"], "●")
            fill = "currentColor" if run["held"] else "#D55E00"
            marks.append(f'<text x="{at(run["effect"]):.1f}" y="{14 + 5 * (n % 3)}" text-anchor="middle" font-size="9" fill="{fill}">'
                         f'<title>{html.escape(run_words(run, unit))}</title>{sign}</text>')
    lines = "".join(f'<line x1="{at(b):.1f}" x2="{at(b):.1f}" y1="2" y2="{HEIGHT - 2}" stroke="#D55E00" stroke-dasharray="3 2"/>' for b in bounds)
    s = summary(runs)
    alt = (f"{len(marks)} runs from {number(s['least'])} to {number(s['greatest'])} {unit}, median {number(s['median'])}; "
           f"{s['held']} of {s['tried']} on the claimed side")
    return (f'<svg role="img" aria-label="{html.escape(alt)}" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            f'style="max-width:100%">{lines}<line x1="0" x2="{WIDTH}" y1="{HEIGHT - 6}" y2="{HEIGHT - 6}" stroke="currentColor" '
            f'stroke-opacity=".3"/>{"".join(marks)}</svg>')


def claimed(record: dict) -> str:
    "The threshold in words."
    unit = f" {record['unit']}" if record["unit"] else ""
    if record["kind"] == "below":
        return f"gap above {number(record['low'])}{unit}" if record["low"] else "gap above 0"
    return f"between {number(record['low'])} and {number(record['high'])}{unit}"


def block(name: str, record: dict) -> str:
    "One claim: its words, its threshold, and a line with dots for each kind of processor."
    rows = []
    for kind, runs in by_processor(record["runs"]).items():
        s = summary(runs)
        short = "" if s["held"] >= NEEDED * s["tried"] else ' style="color:#D55E00"'
        rows.append(
            f'<div style="display:flex;flex-wrap:wrap;gap:.2em 1em;align-items:center"><div style="flex:1 1 15em">'
            f'<b{short}>{s["held"]} of {s["tried"]}</b> on {html.escape(kind)} (95%: {100 * s["low"]:.0f} to {100 * s["high"]:.0f}%); median '
            f'{number(s["median"])}, from {number(s["least"])} to {number(s["greatest"])}</div>'
            f'<div style="flex:0 1 {WIDTH}px">{strip(runs, record, record["unit"])}</div></div>')
    return (f'<div id="{anchor(name)}" style="border-top:1px solid rgba(128,128,128,.4);padding:.5em 0">'
            f'<div><a href="{record["chapter"]}.html">{html.escape(name)}</a> · {html.escape(record["words"])} '
            f'<i>({html.escape(claimed(record))})</i></div>{"".join(rows)}</div>')


def all_claims() -> HTML:
    "Every claim with every run, failures first."
    found = sorted(records().items(), key=lambda item: (order(item[1]), item[0]))
    return HTML(f'<div class="tl-claims">{"".join(block(name, record) for name, record in found)}</div>')


def counts() -> list[dict]:
    "One row for each kind of processor: claims, runs, and how many claims held in all, in nine of ten, in fewer."
    kinds: dict[str, list[dict]] = {}
    for record in records().values():
        for kind, runs in by_processor(record["runs"]).items():
            kinds.setdefault(kind, []).append(summary(runs))
    return [{"processor": kind, "claims": len(all_), "runs": sum(s["tried"] for s in all_),
             "held in every run": sum(s["held"] == s["tried"] for s in all_),
             "in nine of ten": sum(NEEDED * s["tried"] <= s["held"] < s["tried"] for s in all_),
             "in fewer": sum(s["held"] < NEEDED * s["tried"] for s in all_)} for kind, all_ in kinds.items()]
