"""Chapter 2: attention by hand."""

from collections.abc import Sequence

from litbook import figures


def query_key_value(word: str, x, matrices: Sequence, other: str, y) -> figures.Picture:
    """The vector of one word, (D,), times W_Q, W_K and W_V, (D, K) each: the rows that its ones
    pick out are shaded, and their sum is its query, its key or its value. At the bottom its query
    meets the key of another word, whose vector is `y`."""
    size, query, key = len(x), x @ matrices[0], y @ matrices[1]
    ones = x.nonzero().flatten().tolist()
    rows, score = " and ".join(str(row + 1) for row in ones), f"{query @ key:.0f}"
    parts = (
        ("Q", figures.QUERY, "query: what I look for"),
        ("K", figures.KEY, "key: what I offer"),
        ("V", figures.VALUE, "value: what I give"),
    )

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        cell = 24 if wide else 22
        side = cell * size
        high, across = side + 46, 42 + 3 * side
        if wide:
            sheet = figures.Drawing(width, 2 * high + 8)
            corners, left, top = [(0, 0), (width - across - 20, 0), (0, high)], width - across, high
        else:
            sheet = figures.Drawing(across + 26, 3 * high + 128)
            corners, left, top = [(0, high * i) for i in range(3)], 20, 3 * high - 22
        left, top = left + 96, top + 36
        for y_at, name, vector, color in (
            (top, f"q of {word}", query, figures.QUERY),
            (top + 34, f"k of {other}", key, figures.KEY),
        ):
            sheet.text(left - 8, y_at + 13, name, 12, "end", weight="bold")
            for j, number in enumerate(vector.tolist()):
                sheet.box(left + 34 * j, y_at, 26, 26, f"{number:.0f}", color=color)
        for j, number in enumerate((query * key).tolist()):
            sheet.text(left + 34 * j + 13, top + 30, "×", 11)
            sheet.text(left + 34 * j + 13, top + 78, f"{number:.0f}", 12)
            if j:
                sheet.text(left + 34 * j - 4, top + 78, "+", 12)
        sheet.text(left + 34 * size, top + 78, f"= {score}", 13, "start", weight="bold")
        for (x0, y0), matrix, (name, color, note) in zip(corners, matrices, parts):
            left, right, top = x0 + 22 + side, x0 + 42 + 2 * side, y0 + 30
            middle = top + side / 2
            row = middle - cell / 2
            sheet.matrix(x0 + 2, row, x[None], cell, "{:.0f}", title=f"x of {word}")
            sheet.text(left - 10, middle, "×", 14)
            sheet.parts += [
                f'<rect x="{left:g}" y="{top + cell * one:g}" width="{side}" height="{cell}"'
                f' fill="{color}" opacity="0.35"/>'
                for one in ones
            ]
            sheet.matrix(left, top, matrix, cell, "{:.0f}", title=f"W_{name}")
            sheet.text(right - 10, middle, "=", 14)
            sheet.matrix(right, row, (x @ matrix)[None], cell, "{:.0f}", title=name.lower())
            sheet.text(right + side / 2, middle + cell + 2, note, 11)
        return sheet.svg()

    return figures.sketch(
        draw,
        f"The vector of {word} times three matrices. Its ones pick out rows {rows} of each, and the"
        " sum of these rows is its query, its key and its value. Its query times the key of"
        f" {other}, number by number, adds up to {score}.",
        f"Rows {rows} add up to the query of {word}. Its product with the key of {other} is a score"
        f" of {score}.",
    )


def attention_sheet(
    words: Sequence[str], qkv: Sequence, scores, weights, output
) -> figures.Picture:
    """Attention over three words on one sheet: Q, K and V, their scores, the scaled scores, the
    weights and the output."""
    scaled, root = scores / qkv[0].shape[1] ** 0.5, f"÷ √{qkv[0].shape[1]}"

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        sheet = figures.Drawing(width, 344) if wide else figures.Drawing(340, 400)
        # the steps' places, then where each matrix stands and how large its cells are
        steps, small, large = (
            ([(4, 12), (4, 168), (176, 168), (306, 168), (482, 168)], 26, 35)
            if wide
            else ([(4, 12), (4, 132), (138, 132), (232, 132), (4, 284)], 22, 31)
        )
        names = "1  project,2  compare,3  scale,4  softmax,5  average the values".split(",")
        for (x, y), name in zip(steps, names):
            sheet.text(x, y, name, 13 if wide else 12, "start", weight="bold")
        for i, (name, matrix) in enumerate(zip("QKV", qkv)):
            x, y = ((62, 306, 528)[i], 52) if wide else (50 + 100 * i, 46)
            beside = words if wide or i == 0 else None
            sheet.matrix(x, y, matrix, small, "{:.0f}", rows=beside, title=name)
        y = 222 if wide else 176
        sheet.matrix(62 if wide else 50, y, scores, small, "{:.0f}", rows=words, title="Q Kᵀ")
        sheet.matrix(192 if wide else 148, y, scaled, small, "{:.0f}", title=root)
        x, y = (306, 208) if wide else (246, 164)
        sheet.matrix(x, y, weights, large, "{:.2f}", "cividis", title="weights")
        x, y = (528, 208) if wide else (213, 300)
        sheet.matrix(x, y, output, large, "{:.1f}", rows=words)
        if wide:
            sheet.arrow(148, 261, 172, 261).arrow(278, 261, 302, 261)
            sheet.arrow(418, 261, 468, 261).text(443, 248, "× V", 12)
            return sheet.text(358, 328, "each row adds up to 1", 11).svg()
        sheet.arrow(120, 209, 142, 209).arrow(218, 209, 240, 209)
        sheet.arrow(292, 260, 292, 296).text(302, 278, "× V", 11, "start")
        sheet.text(4, 330, "each row of weights", 11, "start")
        return sheet.text(4, 346, "adds up to 1", 11, "start").svg()

    largest = ", ".join(
        f"“{word}” gives {row.max():.2f} to “{words[int(row.argmax())]}”"
        for word, row in zip(words, weights)
    )
    return figures.sketch(
        draw,
        "Five steps on one sheet, from queries, keys and values over scores and weights to the"
        " output.",
        f"The largest weight in each row: {largest}.",
    )
