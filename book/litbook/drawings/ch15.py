"""Chapter 15: words and their numbers, and a word that grows by merges."""

from collections.abc import Mapping, Sequence

from litbook import figures
from litbook.prose import in_a_row


def numbered_words(
    text: str, words: Sequence[str], ids: Sequence[int], unknown: int
) -> figures.Picture:
    """A sentence, the words that it is cut into, and the number of each; the box of the `unknown`
    number is dashed."""
    sheet = figures.Drawing(20 + 80 * len(words), 150)
    sheet.text(40 * len(words), 18, text, 13, weight="bold").row(14, 40, words, 80, 70)
    for x, n in zip(range(14, sheet.width, 80), ids):
        sheet.arrow(x + 35, 66, x + 35, 96).box(x, 98, 70, 26, n, dash=n == unknown)
    lost = [word for word, n in zip(words, ids) if n == unknown]
    return sheet.show(
        alt=f"The sentence “{text}” is cut, and each part has a number: "
        + ", ".join(f"{word} {n}" for word, n in zip(words, ids))
        + (f"; a dashed box for each {unknown}." if lost else "."),
        caption=(
            f"The number {unknown}, of the unknown word, stands for"
            f" {in_a_row([f'“{word}”' for word in lost])}."
            if lost
            else "No word is unknown."
        ),
    )


def growing_word(grown: Mapping[Sequence[str], int]) -> figures.Picture:
    """A word from its bytes to one token, a row for each new cut and after how many merges; what a
    merge made is colored."""
    cuts = list(grown)
    sheet = figures.Drawing(84 + 36 * max(map(len, cuts)), 44 * len(cuts) + 8)
    for i, (cut, n) in enumerate(grown.items()):
        x, y = 70.0, 8 + 44 * i
        sheet.text(60, y + 13, f"{n} merges" if n else "bytes", 11, "end")
        for token in cut:
            width, new = 36 * len(token) - 6, bool(i) and token not in cuts[i - 1]
            sheet.box(
                x,
                y,
                width,
                26,
                token.replace(" ", "␣"),
                size=13,
                fill=figures.DECODER if new else "none",
            )
            if new:
                sheet.line(x + 15, y - 18, x + width / 2, y).line(
                    x + width - 15, y - 18, x + width / 2, y
                )
            x += 36 * len(token)
    final, n = cuts[-1], list(grown.values())[-1]
    return sheet.show(
        alt=(
            f"“{''.join(final).strip()}” grows from {len(cuts[0])} bytes to {len(final)}"
            f" token{'s' * (len(final) > 1)}: in each row two neighbors, joined by lines, become"
            " one box; "
        )
        + "; ".join(
            f"after {n} merges {' '.join(token.replace(' ', '␣') for token in cut)}"
            for cut, n in grown.items()
        )
        + ".",
        caption=(
            f"“{''.join(final).strip()}” and its space are {len(cuts[0])} bytes at first, and one"
            f" token after {n} merges of the whole text."
        ),
    )
