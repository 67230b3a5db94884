"""Chapter 21: how tokens lie on the disk."""

from litbook import figures


def tokens_on_disk() -> figures.Picture:
    "Two pairs as they lie in a store: ids in a row, and offsets that say where each side begins."
    ids, offsets = (5, 9, 2, 1, 8, 2, 7, 2, 1, 6, 2), (0, 3, 6, 8, 11)
    sheet = figures.Drawing(350, 178)
    for side, (start, end) in enumerate(zip(offsets, offsets[1:])):
        source = side % 2 == 0
        sheet.text(14 + 14.5 * (start + end), 36, "source" if source else "target", 11.5)
        for k in range(start, end):
            sheet.box(
                14 + 29 * k, 50, 29, 29, str(ids[k]), fill=figures.SLATE if source else "none"
            )
    for pair, (start, end) in enumerate(zip(offsets[::2], offsets[2::2]), 1):
        sheet.text(14 + 14.5 * (start + end), 14, f"pair {pair}", weight="bold")
    for k in offsets:
        sheet.arrow(14 + 29 * k, 116, 14 + 29 * k, 82)
        sheet.text(14 + 29 * k, 128, str(k))
    sheet.text(14, 150, "boxes: ids-000.bin, two bytes each", anchor="start")
    sheet.text(14, 168, "arrows: offsets-000.npy", anchor="start")
    return sheet.show(
        alt=(
            f"Two pairs as they lie on the disk: {len(ids)} ids in a row, source and target by"
            f" turns, and below them the offsets {', '.join(map(str, offsets))} that point at where"
            " each side begins."
        ),
        caption=(
            f"{len(ids)} tokens take {2 * len(ids)} bytes; the offsets {offsets[2]} and"
            f" {offsets[3]} say where the source of pair 2 begins and ends."
        ),
    )
