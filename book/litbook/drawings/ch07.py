"""Chapter 7: the two steps of an encoder layer."""

from collections.abc import Sequence

from litbook import figures


def across_then_alone(words: Sequence[str], chosen: str) -> figures.Picture:
    "An encoder layer's two steps: all words reach the chosen one, then each goes up alone."
    n, step = len(words), 344 / len(words)
    sheet, end = figures.Drawing(344, 316), step * (words.index(chosen) + 0.5)
    for i, word in enumerate(words):
        x, here = step * (i + 0.5), word == chosen
        sheet.text(x, 276, word)
        for row, fill in ((236, "none"), (140, figures.ENCODER), (44, figures.ENCODER)):
            sheet.box(x - 22, row, 44, 22, "", fill if here else "none")
        sheet.arrow(x, 140, x, 67, None if here else figures.GREY)
        sheet.arrow(x, 236, end, 163, figures.VALUE)
    sheet.text(172, 24, "2. feed-forward: each word alone")
    sheet.text(172, 304, "1. self-attention: across words")
    return sheet.show(
        f"{n} words in three rows. From the first row to the second all words send arrows to"
        f" {chosen}. From the second to the third each word goes straight up alone.",
        f"Self-attention brings something of all {n} words to {chosen}; the feed-forward then works"
        " on each word alone.",
    )
