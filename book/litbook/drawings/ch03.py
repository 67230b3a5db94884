"""Chapter 3: two masks and the pairs that both leave unmasked."""

from collections.abc import Sequence

from litbook import figures
from litbook.figures.drawing import square_color

CELL, LEFT, TOP = 21, 62, 46


def two_masks(words: Sequence[str], padding, causal) -> figures.Picture:
    """The padding mask (S,), repeated for every query, and the causal mask (T, T), and the
    pairs that both leave unmasked."""
    n, both = len(words), padding & causal
    side = n * CELL
    below, across, center = 2 * TOP + side + 24, LEFT + side / 2, TOP + side / 2
    sheet = figures.Drawing(358, below + side + 10)
    for x, y, name, mask in (
        (LEFT, TOP, "padding", padding.expand(n, n)),
        (LEFT + side + 40, TOP, "causal", causal),
        (across + 20, below, "both", both),
    ):
        sheet.text(x + side / 2, y - 34, name, 12, weight="bold")
        for j, word in enumerate(words):
            at = (j + 0.5) * CELL
            sheet.text(x + at, y - 8 - 11 * (j % 2 == 0), word, 10)
            if name != "causal":
                sheet.text(x - 6, y + at, word, 10, "end")
        for i, row in enumerate(mask.tolist()):
            inset = 6 if name == "padding" and i else 0  # broadcasting makes this row
            for j, is_open in enumerate(row):
                fill, size = square_color(float(is_open), "mask"), CELL - 2 * inset
                corner = x + j * CELL + inset, y + i * CELL + inset
                sheet.box(*corner, size, size, "", fill, figures.GRAY)
    sheet.arrow(LEFT - 50, TOP + CELL / 2, LEFT - 50, TOP + side, figures.GRAY)
    sheet.text(across, TOP + side + 14, "one row, used by every query", 11)
    sheet.text(LEFT + side + 20, center, "and", 12, weight="bold")
    sheet.text(across - 32, below - 30, "=", 16, weight="bold")
    return sheet.show(
        "The padding mask is one row of keys, repeated in small for every query; the causal mask is"
        " a triangle; a cell of the third square is unmasked where both are.",
        f"A pair of query and key stays unmasked only where both masks allow it: {both.sum()} of"
        f" {n * n}. Light is unmasked.",
    )
