"""Chapter 7: the two steps of an encoder layer."""

from collections.abc import Sequence

from litbook import figures


def across_then_alone(words: Sequence[str], chosen: str) -> figures.Picture:
    "An encoder layer's two steps: all words reach the chosen one, then each goes up alone."
    at, n = words.index(chosen), len(words)

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        left, step = (196, (width - 196) / n) if wide else (0, width / n)
        low, mid, high = (212, 116, 20) if wide else (236, 140, 44)
        sheet = figures.Drawing(width, 264 if wide else 316)
        middles = [left + step * (i + 0.5) for i in range(n)]
        for word, x in zip(words, middles):
            here = x == middles[at]
            sheet.text(x, low + 40, word, 12)
            for row, fill in ((low, "none"), (mid, figures.ENCODER), (high, figures.ENCODER)):
                sheet.box(x - 22, row, 44, 22, "", fill if here else "none")
            sheet.arrow(x, mid, x, high + 23, None if here else figures.GREY)
            sheet.arrow(x, low, middles[at], mid + 23, figures.VALUE)
        if not wide:  # no room at the left: the steps stand below and above, in their order
            sheet.text(width / 2, high - 20, "2. feed-forward: each word alone", 12)
            return sheet.text(width / 2, low + 68, "1. self-attention: across words", 12).svg()
        for y, name, what in (
            ((high + mid) / 2 + 11, "feed-forward:", "each word alone"),
            ((mid + low) / 2 + 11, "self-attention:", "across words"),
        ):
            sheet.text(4, y - 8, name, 12, "start").text(4, y + 8, what, 12, "start")
        return sheet.svg()

    return figures.sketch(
        draw,
        f"{n} words in three rows. From the first row to the second all words send arrows to"
        f" {chosen}. From the second to the third each word goes straight up alone.",
        f"Self-attention brings something of all {n} words to {chosen}; the feed-forward then works"
        " on each word alone.",
    )
