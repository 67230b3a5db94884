"""Chapter 3: two masks and what both leave open."""

from collections.abc import Sequence

from litbook import figures
from litbook.figures.drawing import square_colours


def two_masks(words: Sequence[str], padding, causal) -> figures.Picture:
    """The padding mask (S,), repeated for every query, and the causal mask (T, T): open is what
    both leave open."""
    n, both = len(words), padding & causal

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        cell = 30 if wide else 21
        side, left, top = n * cell, 62, 46
        step = side + 40
        sheet = figures.Drawing(width, top + side + 26 if wide else 2 * (top + side) + 34)
        third = (left + 2 * step, top) if wide else (left + step / 2, 2 * top + side + 24)
        corners = [(left, top), (left + step, top), third]
        masks = {"padding": padding.expand(n, n), "causal": causal, "both": both}
        for (x, y), (name, mask) in zip(corners, masks.items()):
            sheet.text(x + side / 2, y - 34, name, 12, weight="bold")
            for j, word in enumerate(words):
                sheet.text(x + (j + 0.5) * cell, y - 8 - 11 * (j % 2 == 0), word, 10)
                if name == "padding" or (name == "both" and not wide):
                    sheet.text(x - 6, y + (j + 0.5) * cell, word, 10, "end")
            for i, row in enumerate(mask.tolist()):
                inset = cell * 0.3 if name == "padding" and i else 0  # broadcasting makes this row
                for j, is_open in enumerate(row):
                    corner = x + j * cell + inset, y + i * cell + inset
                    fill = square_colours(float(is_open), "mask")[0]
                    size = cell - 2 * inset
                    sheet.box(*corner, size, size, "", fill, figures.GREY)
        sheet.arrow(left - 50, top + cell / 2, left - 50, top + side, figures.GREY)
        sheet.text(left + side / 2, top + side + 14, "one row, used by every query", 11)
        sheet.text(left + side + 20, top + side / 2, "and", 12, weight="bold")
        x, y = third
        equals = (x - 20, y + side / 2 - 12) if wide else (x - 52, y - 30)
        return sheet.text(*equals, "=", 16, weight="bold").svg()

    return figures.sketch(
        draw,
        "The padding mask is one row of keys, repeated in small for every query; the causal mask is"
        " a triangle; a cell of the third square is open where both are.",
        f"A pair stays open only where both masks are open: {both.sum()} of {n * n}. Light is"
        " open.",
    )
