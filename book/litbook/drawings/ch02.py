"""Chapter 2: attention by hand."""

from collections.abc import Sequence

from litbook import figures

PARTS = (
    ("Q", figures.QUERY, "query: what I ask for"),
    ("K", figures.KEY, "key: what I offer"),
    ("V", figures.VALUE, "value: what I return"),
)


def product(x, matrix, word: str, name: str, color: str, note: str) -> figures.Drawing:
    "The vector of a word times a matrix, whose rows that the vector's ones pick out are shaded."
    side = 22 * len(x)
    sheet, middle = figures.Drawing(3 * side + 44, side + 46), 30 + side / 2
    left, right, row = 22 + side, 42 + 2 * side, middle - 11
    for i in x.nonzero().flatten().tolist():
        sheet.parts.append(
            f'<rect x="{left}" y="{30 + 22 * i}" width="{side}" height="22" fill="{color}"'
            ' opacity="0.35"/>'
        )
    sheet.matrix(2, row, x[None], 22, "{:.0f}", title=f"x of {word}")
    sheet.text(left - 10, middle, "×", 14).text(right - 10, middle, "=", 14)
    sheet.matrix(left, 30, matrix, 22, "{:.0f}", title=f"W_{name}")
    sheet.matrix(right, row, (x @ matrix)[None], 22, "{:.0f}", title=name.lower())
    return sheet.text(right + side, 39 + side, note, 11, "end")


def query_key_value(word: str, x, matrices: Sequence, neighbor: str, y) -> figures.Picture:
    """The vector of one word, (D,), times W_Q, W_K and W_V, (D, d_head) each: the rows that its
    ones pick out are shaded, and their sum is its query, its key or its value. At the end its query
    meets the key of another word, whose vector is `y`."""
    query, key = x @ matrices[0], y @ matrices[1]
    score, size = f"{query @ key:.0f}", len(query)
    rows = " and ".join(str(row + 1) for row in x.nonzero().flatten().tolist())
    sheet = figures.Drawing(138 + 34 * size, 136)
    for top, name, vector, color in (
        (36, f"q of {word}", query, figures.QUERY),
        (70, f"k of {neighbor}", key, figures.KEY),
    ):
        sheet.text(88, top + 13, name, 12, "end", weight="bold")
        sheet.row(96, top, [f"{number:.0f}" for number in vector], 34, 26, color=color)
    for j, number in enumerate(query * key):
        sheet.text(109 + 34 * j, 66, "×", 11).text(109 + 34 * j, 114, f"{number:.0f}")
        if j:
            sheet.text(92 + 34 * j, 114, "+")
    sheet.text(96 + 34 * size, 114, f"= {score}", 13, "start", weight="bold")
    return figures.side_by_side(
        [*(product(x, matrix, word, *part) for matrix, part in zip(matrices, PARTS)), sheet],
        f"The vector of {word} times three matrices. Its ones pick out rows {rows} of each, and the"
        " sum of these rows is its query, its key and its value. Its query times the key of"
        f" {neighbor}, number by number, adds up to {score}.",
        f"Rows {rows} add up to the query of {word}. Its product with the key of {neighbor} is a"
        f" score of {score}.",
    )


def attention_sheet(
    words: Sequence[str], qkv: Sequence, scores, weights, output
) -> figures.Picture:
    """Attention over three words on one sheet: Q, K and V, their scores, the scaled scores, the
    weights and the output."""
    root = qkv[0].shape[1] ** 0.5
    sheet = figures.Drawing(340, 400)
    for x, y, step in (
        (4, 12, "1  project"),
        (4, 132, "2  compare"),
        (138, 132, "3  scale"),
        (232, 132, "4  softmax"),
        (4, 284, "5  average the values"),
    ):
        sheet.text(x, y, step, 12, "start", weight="bold")
    for i, (name, matrix) in enumerate(zip("QKV", qkv)):
        rows = () if i else words
        sheet.matrix(50 + 100 * i, 46, matrix, 22, "{:.0f}", rows=rows, title=name)
    sheet.matrix(50, 176, scores, 22, "{:.0f}", rows=words, title="Q Kᵀ")
    sheet.matrix(148, 176, scores / root, 22, "{:.0f}", title=f"÷ √{qkv[0].shape[1]}")
    sheet.matrix(246, 164, weights, 31, "{:.2f}", "cividis", title="weights")
    sheet.matrix(213, 300, output, 31, "{:.1f}", rows=words)
    sheet.arrow(120, 209, 142, 209).arrow(218, 209, 240, 209)
    sheet.arrow(292, 260, 292, 296).text(302, 278, "× V", 11, "start")
    sheet.text(4, 330, "each row of weights", 11, "start")
    sheet.text(4, 346, "adds up to 1", 11, "start")
    largest = ", ".join(
        f"“{word}” gives {row.max():.2f} to “{words[int(row.argmax())]}”"
        for word, row in zip(words, weights)
    )
    return sheet.show(
        "Five steps on one sheet, from queries, keys and values over scores and weights to the"
        " output.",
        f"The largest weight in each row: {largest}.",
    )
