"""Chapter 4: one attention split into heads."""

from litbook import figures


def heads_apart(x, heads) -> figures.Picture:
    """Two heads: (T, 4) split by columns into two of (T, 2), attended apart, concatenated and
    multiplied by the output matrix."""
    fills = ("#dddddd", "none")
    sheet = figures.Drawing(340, 424)

    def draw_cells(left: float, top: float, rows, columns) -> None:
        for i, row in enumerate(rows.tolist()):
            for j, number in enumerate(row):
                sheet.box(left + 28 * j, top + 28 * i, 28, 28, number, columns[j])

    sheet.text(170, 11, "queries, keys or values: (T, D)", 12)
    draw_cells(114, 24, x, [fill for fill in fills for _ in range(2)])
    for h, (left, fill) in enumerate(zip((44, 240), fills)):
        middle, joined = left + 28, 142 + 56 * h
        sheet.arrow(joined, 109, middle, 150)
        draw_cells(left, 152, heads[h], [fill, fill])
        for y, label in ((188, f"head {h + 1}"), (204, "(T, d_head)")):
            sheet.text(middle + (1 - 2 * h) * 62, y, label, 11)
        sheet.arrow(middle, 238, middle, 258)
        sheet.box(left - 36, 260, 128, 30, "softmax(QKᵀ/√dₖ) V", fill, size=11)
        sheet.arrow(middle, 292, joined, 320)
        sheet.box(joined - 28, 322, 56, 26, f"head {h + 1}", fill)
    sheet.text(104, 335, "concatenate", 11, "end").arrow(170, 349, 170, 367)
    sheet.box(114, 369, 112, 26, "times Wᴼ").text(170, 410, "output: (T, D)", 12)
    return sheet.show(
        f"A matrix of {len(x)} tokens by {x.shape[1]} dimensions is split by columns into two"
        " heads; each attends by itself, the results are concatenated and multiplied by the"
        " output matrix.",
        "Head 1 has the left half of every token, head 2 the right half:"
        f" {x.shape[1] // 2} dimensions each.",
    )
