"""The page that shows every claim with every run: a table, and a dot for each run."""

import html
from collections.abc import Sequence

from IPython.display import HTML

from litbook.claims import NEEDED, anchor, by_processor, number, records, summary
from litbook.figures import FAULT, GREY, powers

OUTLINES = {  # by instruction set, round (0, 0); runs on two threads are hollow
    "best": '<circle r="4"',
    "avx512": '<path d="M0-5.2 5.2 0 0 5.2-5.2 0z"',
    "avx2": '<path d="M-3.7-3.7H3.7V3.7H-3.7z"',
    "default": '<path d="M0-4.8 4.8 3.6H-4.8z"',
}
WIDTH, HEIGHT = 300, 36


def order(record: dict) -> tuple:
    "Failures first, then the least share, then by name."
    shares = [s["held"] / s["tried"] for s in map(summary, by_processor(record["runs"]).values())]
    return (min(shares) if shares else 0.0, record["chapter"])


def run_words(run: dict, unit: str) -> str:
    seeds = f"seeds +{run['shift']}" if run["shift"] else "the book's own seeds"
    return (
        f"{number(run['effect'])} {unit}".strip()
        + ("" if run["held"] else ", otherwise")
        + f": {seeds}, {run['instructions']}, "
        f"{run['threads']} thread{'s' * (run['threads'] > 1)}, torch {run['torch']}"
    )


def mark(run: dict, x: float, y: float, unit: str) -> str:
    """One run: its outline says the instruction set, hollow two threads, brick that it came out
    otherwise."""
    colour = "currentColor" if run["held"] else FAULT
    fill = "none" if run["threads"] > 1 else colour
    outline = OUTLINES.get(run["instructions"], OUTLINES["best"])
    return (
        f'{outline} transform="translate({x:.1f} {y})" fill="{fill}" fill-opacity=".75"'
        f' stroke="{colour}" stroke-width="1.2" '
        f'pointer-events="all"><title>{html.escape(run_words(run, unit))}</title></{outline[1:outline.index(" ")]}>'
    )


def strip(runs: Sequence[dict], record: dict, unit: str) -> str:
    """Every run as a mark at its effect, the bounds of the claim as lines; runs that didn't reach
    the claim are counted beside it."""
    effects = [run["effect"] for run in runs if run["effect"] is not None] or [0.0]
    reach = (
        4 * (max(effects) - min(effects)) + max(map(abs, effects)) / 4
    )  # a bound far away would press the runs into a corner
    bounds = [
        b
        for b in (record["low"], record["high"])
        if b is not None and min(effects) - reach <= b <= max(effects) + reach
    ]
    low, high = min([*effects, *bounds]), max([*effects, *bounds])
    room = (high - low or abs(high) or 1.0) * 0.08
    low, high = low - room, high + room

    def at(value: float) -> float:
        return 6 + (WIDTH - 12) * (value - low) / (high - low)

    marks = [
        mark(run, at(run["effect"]), 8 + 7 * (n % 3), unit)
        for n, run in enumerate(runs)
        if run["effect"] is not None
    ]
    lines = "".join(
        f'<line x1="{at(b):.1f}" x2="{at(b):.1f}" y1="1" y2="{HEIGHT}" stroke="{GREY}"'
        ' stroke-width="1.6" stroke-dasharray="4 3"/>'
        for b in bounds
    )
    s = summary(runs)
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


def claimed(record: dict) -> str:
    "The threshold in words."
    unit = f" {record['unit']}" if record["unit"] else ""
    if record["kind"] == "below":
        return f"gap above {number(record['low'])}{unit}" if record["low"] else "gap above 0"
    return f"between {number(record['low'])} and {number(record['high'])}{unit}"


def block(name: str, record: dict) -> str:
    "One claim: its words, its threshold, and a line with dots for each kind of processor."
    rows, words = [], record["words"]
    for kind, runs in by_processor(record["runs"]).items():
        s = summary(runs)
        short = "" if s["held"] >= NEEDED * s["tried"] else ' class="tl-short"'
        rows.append(
            '<div style="display:flex;flex-wrap:wrap;gap:.1em 1.2em;align-items:center"><div'
            ' style="flex:1 1 17em">'
            f'<b{short}>{s["held"]} of {s["tried"]}</b> on {html.escape(kind)} (95%:'
            f' {100 * s["low"]:.0f} to {100 * s["high"]:.0f}%); median '
            f'{powers(number(s["median"]))}, from {powers(number(s["least"]))} to'
            f' {powers(number(s["greatest"]))}</div>'
            '<div style="flex:1 1'
            f' {WIDTH}px;max-width:{round(1.2 * WIDTH)}px">{strip(runs, record, record["unit"])}</div></div>'
        )
    return (
        f'<div id="{anchor(name)}" style="border-top:1px solid rgba(128,128,128,.4);padding:.6em'
        f' 0"><div class="tl-claimed">{html.escape(words[:1].upper() + words[1:])}</div><div><a'
        f' href="{record["chapter"]}.html">{html.escape(name)}</a> ·'
        f' {html.escape(claimed(record))}</div>{"".join(rows)}</div>'
    )


def all_claims() -> HTML:
    "Every claim with every run, failures first."
    found = sorted(records().items(), key=lambda item: (order(item[1]), item[0]))
    return HTML(
        f'<div class="tl-claims">{"".join(block(name, record) for name, record in found)}</div>'
    )


def counts() -> list[dict]:
    """One row for each kind of processor: claims, runs, and how many claims held in all, in nine of
    ten, in fewer."""
    kinds: dict[str, list[dict]] = {}
    for record in records().values():
        for kind, runs in by_processor(record["runs"]).items():
            kinds.setdefault(kind, []).append(summary(runs))
    return [
        {
            "processor": kind,
            "claims": len(all_),
            "runs": sum(s["tried"] for s in all_),
            "held in every run": sum(s["held"] == s["tried"] for s in all_),
            "in nine of ten": sum(NEEDED * s["tried"] <= s["held"] < s["tried"] for s in all_),
            "in fewer": sum(s["held"] < NEEDED * s["tried"] for s in all_),
        }
        for kind, all_ in kinds.items()
    ]
