"""Appendix A3: a claim, and each of its runs as a point."""

import html
from collections.abc import Mapping, Sequence

from litbook import claims, figures
from litbook.claims import number

OUTLINES = {  # by instruction set, round (0, 0)
    "best": '<circle r="4"',
    "avx512": '<path d="M0-5.2 5.2 0 0 5.2-5.2 0z"',
    "avx2": '<path d="M-3.7-3.7H3.7V3.7H-3.7z"',
    "default": '<path d="M0-4.8 4.8 3.6H-4.8z"',
}
WIDTH, HEIGHT = 300, 36


def mark(run: Mapping, x: float, y: float, unit: str) -> str:
    "One run: hollow for two threads, red if it failed to replicate."
    color = "currentColor" if run["held"] else figures.FAULT
    fill = "none" if run["threads"] > 1 else color
    outline = OUTLINES.get(run["instructions"], OUTLINES["best"])
    words = (
        f"{number(run['effect'])} {unit}".strip()
        + ("" if run["held"] else ", failed to replicate")
        + (f": seed offset {run['shift']}, " if run["shift"] else ": the book's own seeds, ")
        + f"{run['instructions']}, {run['threads']} thread{'s' * (run['threads'] > 1)}, torch"
        f" {run['torch']}"
    )
    return (
        f'{outline} transform="translate({x:.1f} {y})" fill="{fill}" fill-opacity=".75"'
        f' stroke="{color}" stroke-width="1.2" pointer-events="all"><title>{html.escape(words)}'
        f"</title></{outline[1 : outline.index(' ')]}>"
    )


def strip(runs: Sequence[Mapping], record: Mapping) -> str:
    """Every run as a point at its effect, the bounds of the claim as lines; runs that didn't reach
    the claim have none."""
    reached = [run for run in runs if run["effect"] is not None]
    s, unit = claims.summary(runs), record["unit"]
    lowest, highest = s["least"] or 0.0, s["greatest"] or 0.0
    # a bound far away would press the runs into a corner
    reach = 4 * (highest - lowest) + max(abs(lowest), abs(highest)) / 4
    bounds = [
        x
        for x in (record["low"], record["high"])
        if x is not None and lowest - reach <= x <= highest + reach
    ]
    low, high = min([lowest, *bounds]), max([highest, *bounds])
    room = (high - low or abs(high) or 1.0) * 0.08

    def at(x: float) -> float:
        return 6 + (WIDTH - 12) * (x - low + room) / (high - low + 2 * room)

    marks = [mark(run, at(run["effect"]), 8 + 7 * (n % 3), unit) for n, run in enumerate(reached)]
    lines = "".join(
        f'<line x1="{at(b):.1f}" x2="{at(b):.1f}" y1="1" y2="{HEIGHT}" stroke="{figures.GRAY}"'
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
        f' y1="{HEIGHT - 5}" y2="{HEIGHT - 5}" stroke="currentColor" stroke-opacity=".35"/>'
        f"{''.join(marks)}</svg>"
    )


def row(kind: str, runs: Sequence[Mapping], record: Mapping) -> str:
    "The replications on one kind of processor, and their points."
    s = claims.summary(runs)
    short = "" if s["held"] >= claims.NEEDED * s["tried"] else ' class="tl-short"'
    median, *ends = (figures.powers(number(s[key])) for key in ("median", "least", "greatest"))
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:.1em 1.2em;align-items:center"><div'
        f' style="flex:1 1 17em"><b{short}>{s["held"]} of {s["tried"]}</b> on {html.escape(kind)}'
        f" (95%: {100 * s['low']:.0f} to {100 * s['high']:.0f}%); median {median}, from {ends[0]}"
        f' to {ends[1]}</div><div style="flex:1 1 {WIDTH}px;max-width:{round(1.2 * WIDTH)}px">'
        f"{strip(runs, record)}</div></div>"
    )


def block(name: str, record: Mapping) -> str:
    "One claim: its words, its threshold, a row for each processor."
    words, unit = record["words"], record["unit"]
    claimed = "gap " * (record["kind"] == "below")
    claimed += f"{claims.threshold(record['low'], record['high'], unit)} {unit}"
    rows = (row(kind, runs, record) for kind, runs in claims.by_processor(record["runs"]).items())
    return (
        f'<div id="{claims.anchor(name)}" style="border-top:1px solid rgba(128,128,128,.4);'
        f'padding:.6em 0"><div class="tl-claimed">{html.escape(words[:1].upper() + words[1:])}'
        f'</div><div><a href="{record["chapter"]}.html">{html.escape(name)}</a> ·'
        f" {html.escape(claimed.strip())}</div>{''.join(rows)}</div>"
    )
