"""Chapter 16: the slots of a pattern."""

from collections.abc import Sequence

from litbook import figures


def filled_slots(parts: Sequence[tuple[str, str, str]]) -> figures.Picture:
    """One side of a pattern in three rows: each slot, the words that fill it, and the words after
    elision, dashed where they changed."""
    widths = [max(52, 13 + 9 * max(len(slot), len(word), len(done))) for slot, word, done in parts]
    sheet, x = figures.Drawing(16 + sum(widths) + 6 * len(parts), 190), 8
    for (slot, word, done), w in zip(parts, widths):
        sheet.box(x, 34, w, 26, slot, color=figures.GREY).arrow(x + w / 2, 60, x + w / 2, 92)
        sheet.box(x, 94, w, 26, word).arrow(x + w / 2, 120, x + w / 2, 152)
        sheet.box(x, 154, w, 26, done, dash=done != word)
        x += w + 6
    for y, text in ((20, "the pattern"), (80, "filled"), (140, "elided")):
        sheet.text(96, y, text, 12)
    changed = ", ".join(f"{word} became {done}" for _, word, done in parts if done != word)
    return sheet.show(
        alt=(
            "A pattern in three rows: slots, the words that fill them, and the same words after"
            f" elision, where {changed}."
        ),
        caption=f"Elision looks at the next word: {changed.replace(' became ', ' becomes ')}.",
    )
