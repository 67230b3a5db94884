"""The page that shows every claim with every run: its words, and a mark for each run."""

import html
from collections.abc import Sequence

from IPython.display import HTML

from litbook.claims import NEEDED, anchor, by_processor, number, records, summary, threshold
from litbook.figures import FAULT, GREY, powers

OUTLINES = {  # by instruction set, round (0, 0); runs on two threads are hollow
    "best": '<circle r="4"',
    "avx512": '<path d="M0-5.2 5.2 0 0 5.2-5.2 0z"',
    "avx2": '<path d="M-3.7-3.7H3.7V3.7H-3.7z"',
    "default": '<path d="M0-4.8 4.8 3.6H-4.8z"',
}
WIDTH, HEIGHT = 300, 36


def mark(run: dict, x: float, y: float, unit: str) -> str:
    """One run: its outline says the instruction set, hollow two threads, brick that it came out
    otherwise."""
    colour = "currentColor" if run["held"] else FAULT
    fill = "none" if run["threads"] > 1 else colour
    outline = OUTLINES.get(run["instructions"], OUTLINES["best"])
    words = (
        f"{number(run['effect'])} {unit}".strip()
        + ("" if run["held"] else ", otherwise")
        + (f": seeds +{run['shift']}, " if run["shift"] else ": the book's own seeds, ")
        + f"{run['instructions']}, {run['threads']} thread{'s' * (run['threads'] > 1)},"
        f" torch {run['torch']}"
    )
    return (
        f'{outline} transform="translate({x:.1f} {y})" fill="{fill}" fill-opacity=".75"'
        f' stroke="{colour}" stroke-width="1.2" pointer-events="all">'
        f"<title>{html.escape(words)}</title></{outline[1:outline.index(' ')]}>"
    )


def strip(runs: Sequence[dict], record: dict) -> str:
    """Every run as a mark at its effect, the bounds of the claim as lines; runs that didn't reach
    the claim have none."""
    reached = [run for run in runs if run["effect"] is not None]
    s, unit = summary(runs), record["unit"]
    least, greatest = s["least"] or 0.0, s["greatest"] or 0.0
    # a bound far away would press the runs into a corner
    reach = 4 * (greatest - least) + max(abs(least), abs(greatest)) / 4
    bounds = [
        bound
        for bound in (record["low"], record["high"])
        if bound is not None and least - reach <= bound <= greatest + reach
    ]
    low, high = min([least, *bounds]), max([greatest, *bounds])
    room = (high - low or abs(high) or 1.0) * 0.08

    def at(value: float) -> float:
        return 6 + (WIDTH - 12) * (value - low + room) / (high - low + 2 * room)

    marks = [mark(run, at(run["effect"]), 8 + 7 * (n % 3), unit) for n, run in enumerate(reached)]
    lines = "".join(
        f'<line x1="{at(b):.1f}" x2="{at(b):.1f}" y1="1" y2="{HEIGHT}" stroke="{GREY}"'
        ' stroke-width="1.6" stroke-dasharray="4 3"/>'
        for b in bounds
    )
    alt = (
        f"{len(marks)} runs from {number(s['least'])} to {number(s['greatest'])} {unit}, median"
        f" {number(s['median'])}; {s['held']} of {s['tried']} on the claimed side"
    )
    return (
        f'<svg role="img" aria-label="{html.escape(alt)}" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' style="display:block;width:100%;height:auto">{lines}<line x1="0" x2="{WIDTH}"'
        f' y1="{HEIGHT - 5}" y2="{HEIGHT - 5}" stroke="currentColor"'
        f' stroke-opacity=".35"/>{"".join(marks)}</svg>'
    )


def block(name: str, record: dict) -> str:
    "One claim: its words, its threshold, and a line with marks for each kind of processor."
    rows, words, unit = [], record["words"], record["unit"]
    claimed = f"{threshold(record['low'], record['high'], unit)} {unit}".strip()
    if record["kind"] == "below":
        claimed = f"gap {claimed}"
    for kind, runs in by_processor(record["runs"]).items():
        s = summary(runs)
        short = "" if s["held"] >= NEEDED * s["tried"] else ' class="tl-short"'
        median, *ends = (powers(number(s[key])) for key in ("median", "least", "greatest"))
        rows.append(
            '<div style="display:flex;flex-wrap:wrap;gap:.1em 1.2em;align-items:center"><div'
            ' style="flex:1 1 17em">'
            f'<b{short}>{s["held"]} of {s["tried"]}</b> on {html.escape(kind)} (95%:'
            f' {100 * s["low"]:.0f} to {100 * s["high"]:.0f}%); median {median}, from {ends[0]} to'
            f' {ends[1]}</div><div style="flex:1 1 {WIDTH}px;max-width:{round(1.2 * WIDTH)}px">'
            f"{strip(runs, record)}</div></div>"
        )
    return (
        f'<div id="{anchor(name)}" style="border-top:1px solid rgba(128,128,128,.4);padding:.6em'
        f' 0"><div class="tl-claimed">{html.escape(words[:1].upper() + words[1:])}</div><div><a'
        f' href="{record["chapter"]}.html">{html.escape(name)}</a> ·'
        f' {html.escape(claimed)}</div>{"".join(rows)}</div>'
    )


def all_claims() -> HTML:
    "Every claim with every run: failures first, then the least share, then by chapter."

    def order(item: tuple[str, dict]) -> tuple:
        name, record = item
        kinds = map(summary, by_processor(record["runs"]).values())
        return min((s["held"] / s["tried"] for s in kinds), default=0.0), record["chapter"], name

    blocks = (block(*item) for item in sorted(records().items(), key=order))
    return HTML(f'<div class="tl-claims">{"".join(blocks)}</div>')
