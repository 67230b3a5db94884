"""Chapter 17: pairs dealt out to the parts of a split."""

from collections.abc import Mapping, Sequence

from litbook import figures


def dealt_out(parts: Mapping[str, Sequence[tuple[str, str]]]) -> figures.Picture:
    "Pairs of sentences, and an arrow from each to the part of a split that it went to."
    rows = [(pair, k) for k, pairs in enumerate(parts.values()) for pair in pairs]
    sheet = figures.Drawing(340, 41 + 27 * len(rows))
    middles = [
        34 + 27 * sum(i for i, (_, n) in enumerate(rows) if n == k) / len(pairs)
        for k, pairs in enumerate(parts.values())
    ]
    for i, ((english, other), k) in enumerate(rows):
        sheet.text(12, 34 + 27 * i, english, 12, "start")
        sheet.text(70, 34 + 27 * i, other, 12, "start").arrow(176, 34 + 27 * i, 226, middles[k])
    sheet.text(12, 12, "pairs", 11, "start", weight="bold").text(
        230, 12, "one part each", 11, "start", weight="bold"
    )
    for k, name in enumerate(parts):
        sheet.box(230, middles[k] - 14, 100, 28, name, "#dddddd" if k == 0 else "none")
    told = [
        f"{name} gets {len(pairs)} of {', '.join(dict.fromkeys(english for english, _ in pairs))}"
        for name, pairs in parts.items()
    ]
    groups = len({english.casefold().rstrip(" .!?…") for (english, _), _ in rows})
    return sheet.show(
        alt=f"{len(rows)} pairs, dealt out by their English: {'; '.join(told).rstrip('.')}.",
        caption=(
            f"{len(rows)} pairs of {groups} English sentences: all pairs of one sentence go to one"
            " part."
        ),
    )
