"""Chapter 12: how batches are padded."""

from collections.abc import Mapping, Sequence

from litbook import figures


def padded(sentences: Sequence[str], orders: Mapping[str, Sequence[int]]) -> figures.Picture:
    """Sentences of words and an end, two to a batch, in several orders: each batch a rectangle of
    its own width, words light, padding dark."""
    lengths = [len(text.split()) + 1 for text in sentences]
    cell, sheets, counts = 248 / max(lengths), [], []
    for name, order in orders.items():
        sheet, y, places = figures.Drawing(344, 170), 10, 0
        sheet.text(92, y, name, 13, "start", weight="bold")
        for pair in (order[:2], order[2:]):
            across = max(lengths[i] for i in pair)
            places += 2 * across
            for i in pair:
                y += 22
                words = " ".join(sentences[i].split()[:2])
                sheet.text(84, y + 5, f"{words} …", 12, "end")
                for place in range(across):
                    fill = "#dddddd" if place < lengths[i] else "#555555"
                    sheet.box(92 + cell * place, y - 5, cell - 2, 20, "", fill, figures.GRAY)
            y += 24
            sheet.text(92, y, f"2 · {across} = {2 * across} places", 12, "start")
        sheets.append(sheet)
        padding = places - sum(lengths)
        verb = "is" if padding == 1 else "are"
        counts.append(f"{name.lower()}, {padding} of {places} places {verb} padding")
    counted = "; ".join(counts)
    return figures.side_by_side(
        sheets,
        f"{len(sentences)} sentences as rows, words light, padding dark, two rows to a batch, each"
        f" batch as wide as its longer row: {counted}.",
        f"{counted[0].upper()}{counted[1:]}.",
    )
