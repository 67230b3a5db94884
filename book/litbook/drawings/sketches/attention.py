"""Chapters 2 to 4: attention by hand, its masks and its heads."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from litbook import figures
from litbook.figures.drawing import square_colours
from litbook.figures.style import COLUMN, PHONE, as_array, responsive


def query_key_value(
    word: str, x: Any, matrices: Sequence[Any], other: str, y: Any
) -> figures.Picture:
    """The vector of one word, (D,), times W_Q, W_K and W_V, (D, K) each: the rows that its ones
    pick out are shaded, and their sum is its query, its key or its value. At the bottom its query
    meets the key of another word, whose vector is `y`."""
    size, query, key = len(x), x @ matrices[0], y @ matrices[1]
    score, ones = float(query @ key), " and ".join(
        str(row + 1) for row, feature in enumerate(x.tolist()) if feature
    )
    parts = tuple(
        zip(
            "QKV",
            matrices,
            (figures.QUERY, figures.KEY, figures.VALUE),
            ("query: what I look for", "key: what I offer", "value: what I give"),
        )
    )

    def product(
        drawing: figures.Drawing, x0: float, top: float, cell: int, part: tuple[str, Any, str, str]
    ) -> None:
        name, matrix, colour, note = part
        side, middle = cell * size, top + cell * size / 2
        left, right = x0 + 22 + side, x0 + 42 + 2 * side
        drawing.matrix(x0 + 2, middle - cell / 2, x[None], cell, "{:.0f}", title=f"x of {word}")
        drawing.text(x0 + 12 + side, middle, "×", 14)
        for row, feature in enumerate(x.tolist()):
            if feature:
                drawing.parts.append(
                    f'<rect x="{left:g}" y="{top + cell * row:g}" width="{side}" height="{cell}"'
                    f' fill="{colour}" opacity="0.35"/>'
                )
        drawing.matrix(left, top, matrix, cell, "{:.0f}", title=f"W_{name}")
        drawing.text(left + 10 + side, middle, "=", 14)
        drawing.matrix(
            right, middle - cell / 2, (x @ matrix)[None], cell, "{:.0f}", title=name.lower()
        )
        drawing.text(right + side / 2, middle + cell + 2, note, 11)

    def meeting(drawing: figures.Drawing, left: float, top: float) -> None:
        for y_at, name, one, colour in (
            (top, f"q of {word}", query, figures.QUERY),
            (top + 34, f"k of {other}", key, figures.KEY),
        ):
            drawing.text(left - 8, y_at + 13, name, 12, "end", weight="bold")
            for j, number in enumerate(one.tolist()):
                drawing.box(left + 34 * j, y_at, 26, 26, f"{number:.0f}", color=colour)
        for j, number in enumerate((query * key).tolist()):
            drawing.text(left + 34 * j + 13, top + 30, "×", 11)
            drawing.text(left + 34 * j + 13, top + 78, f"{number:.0f}", 12)
            if j:
                drawing.text(left + 34 * j - 4, top + 78, "+", 12)
        drawing.text(left + 34 * size, top + 78, f"= {score:.0f}", 13, "start", weight="bold")

    def sheet(width: int) -> str:
        wide = width > PHONE
        cell = 24 if wide else 22
        high, across = cell * size + 46, 42 + 3 * cell * size
        if wide:
            drawing = figures.Drawing(width, 2 * high + 8)
            places = [(0, 30), (width - across - 20, 30), (0, 30 + high)]
            meeting(drawing, width - across + 96, high + 36)
        else:
            drawing = figures.Drawing(across + 26, 3 * high + 128)
            places = [(0, 30 + high * i) for i in range(3)]
            meeting(drawing, 116, 3 * high + 14)
        for (x0, top), part in zip(places, parts):
            product(drawing, x0, top, cell, part)
        return drawing.svg()

    return figures.Picture(
        responsive(sheet, COLUMN),
        f"The vector of {word} times three matrices. Its ones pick out rows {ones} of each, and the"
        " sum of these rows is its query, its key and its value. Its query times the key of"
        f" {other}, number by number, adds up to {score:.0f}.",
        f"Rows {ones} add up to the query of {word}. Its product with the key of {other} is a score"
        f" of {score:.0f}.",
    )


def attention_sheet(
    words: Sequence[str], qkv: Sequence[Any], scores: Any, weights: Any, output: Any
) -> figures.Picture:
    """Attention over three words on one sheet: Q, K and V, their scores, the scaled scores, the
    weights and the output."""
    scaled, root = scores / qkv[0].shape[1] ** 0.5, f"÷ √{qkv[0].shape[1]}"

    def phone() -> figures.Drawing:
        drawing = figures.Drawing(340, 400)
        drawing.text(4, 12, "1  project", 12, "start", weight="bold")
        for i, (name, one) in enumerate(zip("QKV", qkv)):
            drawing.matrix(
                50 + 100 * i, 46, one, 22, "{:.0f}", rows=words if i == 0 else None, title=name
            )
        for x, step in ((4, "2  compare"), (138, "3  scale"), (232, "4  softmax")):
            drawing.text(x, 132, step, 12, "start", weight="bold")
        drawing.matrix(50, 176, scores, 22, "{:.0f}", rows=words, title="Q Kᵀ").matrix(
            148, 176, scaled, 22, "{:.0f}", title=root
        )
        drawing.matrix(246, 164, weights, 31, "{:.2f}", "cividis", title="weights")
        for x in (120, 218):
            drawing.arrow(x, 209, x + 22, 209)
        drawing.arrow(292, 260, 292, 296).text(302, 278, "× V", 11, "start")
        drawing.text(4, 284, "5  average the values", 12, "start", weight="bold")
        drawing.matrix(213, 300, output, 31, "{:.1f}", rows=words)
        drawing.text(4, 330, "each row of weights", 11, "start")
        return drawing.text(4, 346, "adds up to 1", 11, "start")

    def sheet(width: int) -> str:
        if width <= PHONE:
            return phone().svg()
        drawing = figures.Drawing(width, 344)
        drawing.text(4, 12, "1  project", 13, "start", weight="bold")
        for x, name, one in zip((62, 306, 528), "QKV", qkv):
            drawing.matrix(x, 52, one, 26, "{:.0f}", rows=words, title=name)
        for x, step in (
            (4, "2  compare"),
            (176, "3  scale"),
            (306, "4  softmax"),
            (482, "5  average the values"),
        ):
            drawing.text(x, 168, step, 13, "start", weight="bold")
        drawing.matrix(62, 222, scores, 26, "{:.0f}", rows=words, title="Q Kᵀ").matrix(
            192, 222, scaled, 26, "{:.0f}", title=root
        )
        drawing.matrix(306, 208, weights, 35, "{:.2f}", "cividis", title="weights")
        for x in (148, 278):
            drawing.arrow(x, 261, x + 24, 261)
        drawing.arrow(418, 261, 468, 261).text(443, 248, "× V", 12)
        drawing.matrix(528, 208, output, 35, "{:.1f}", rows=words)
        return drawing.text(358, 328, "each row adds up to 1", 11).svg()

    told = ", ".join(
        f"“{word}” gives {row.max():.2f} to “{words[int(row.argmax())]}”"
        for word, row in zip(words, weights)
    )
    return figures.Picture(
        responsive(sheet, COLUMN),
        "Five steps on one sheet, from queries, keys and values over scores and weights to the"
        " output.",
        f"The largest weight in each row: {told}.",
    )


def two_masks(words: Sequence[str], padding: Any, causal: Any) -> figures.Picture:
    """The padding mask (S,), repeated for every query, and the causal mask (T, T): open is what
    both leave open."""
    padding, causal = as_array(padding, bool), as_array(causal, bool)
    both, n = padding & causal, len(words)

    def sheet(width: int) -> str:
        wide = width > PHONE
        cell = 30 if wide else 21
        side, gap, left, top = n * cell, 40, 62, 46
        drawing = figures.Drawing(width, top + side + 26 if wide else 2 * (top + side) + 34)
        places = [
            (left, top),
            (left + side + gap, top),
            (
                (left + 2 * (side + gap), top)
                if wide
                else (left + (side + gap) / 2, 2 * top + side + 24)
            ),
        ]

        def cells(x: float, y: float, row: Sequence[bool], ghost: bool) -> None:
            inset = cell * 0.3 if ghost else 0
            for j, is_open in enumerate(row):
                drawing.box(
                    x + j * cell + inset,
                    y + inset,
                    cell - 2 * inset,
                    cell - 2 * inset,
                    "",
                    square_colours(float(is_open), "mask")[0],
                    figures.GREY,
                )

        for (x, y), name, mask in zip(
            places, ("padding", "causal", "both"), (np.tile(padding, (n, 1)), causal, both)
        ):
            drawing.text(x + side / 2, y - 34, name, 12, weight="bold")
            for j, word in enumerate(words):
                drawing.text(x + (j + 0.5) * cell, y - 8 - 11 * (j % 2 == 0), word, 10)
            for i in range(n):
                cells(x, y + i * cell, mask[i], name == "padding" and i > 0)
            if name == "padding" or (name == "both" and not wide):
                for i, word in enumerate(words):
                    drawing.text(x - 6, y + (i + 0.5) * cell, word, 10, "end")
        drawing.arrow(left - 50, top + cell / 2, left - 50, top + side, figures.GREY)
        drawing.text(left + side / 2, top + side + 14, "one row, used by every query", 11)
        drawing.text(left + side + gap / 2, top + side / 2, "and", 12, weight="bold")
        x, y = places[2]
        drawing.text(
            x - gap / 2 if wide else x - 52,
            y + side / 2 - 12 if wide else y - 30,
            "=",
            16,
            weight="bold",
        )
        return drawing.svg()

    return figures.Picture(
        responsive(sheet, COLUMN),
        "The padding mask is one row of keys, repeated in small for every query; the causal mask is"
        " a triangle; a cell of the third square is open where both are.",
        f"A pair stays open only where both masks are open: {both.sum()} of {n * n}. Light is"
        " open.",
    )


def heads_apart(x: Any, heads: Any) -> figures.Picture:
    """Two heads: (T, 4) cut by columns into two of (T, 2), attended apart, joined side by side and
    multiplied by the output matrix."""
    fills = ("#dddddd", "none")
    drawing = figures.Drawing(340, 424)

    def cells(x: float, y: float, numbers: Sequence[Sequence[int]], columns: Sequence[str]) -> None:
        for i, row in enumerate(numbers):
            for j, number in enumerate(row):
                drawing.box(x + 28 * j, y + 28 * i, 28, 28, number, columns[j])

    drawing.text(170, 11, "queries, keys or values: (T, D)", 12)
    cells(114, 24, x.tolist(), [fill for fill in fills for _ in range(2)])
    for h, (left, fill) in enumerate(zip((44, 240), fills)):
        middle = left + 28
        drawing.arrow(142 + 56 * h, 109, middle, 150)
        cells(left, 152, heads[h].tolist(), [fill, fill])
        for y, label in ((188, f"head {h + 1}"), (204, "(T, K)")):
            drawing.text(middle + (1 - 2 * h) * 58, y, label, 11)
        drawing.arrow(middle, 238, middle, 258)
        drawing.box(left - 36, 260, 128, 30, "softmax(QKᵀ/√K) V", fill, size=11)
        drawing.arrow(middle, 292, 142 + 56 * h, 320)
        drawing.box(114 + 56 * h, 322, 56, 26, f"head {h + 1}", fill)
    drawing.text(104, 335, "side by side", 11, "end")
    drawing.arrow(170, 349, 170, 367)
    drawing.box(114, 369, 112, 26, "times Wᴼ")
    drawing.text(170, 410, "output: (T, D)", 12)
    return drawing.show(
        alt=(
            f"A matrix of {len(x)} tokens by {x.shape[1]} features is cut by columns into two"
            " heads; each attends by itself, the results are laid side by side and multiplied by"
            " the output matrix."
        ),
        caption=(
            f"Head 1 has the left half of every token, head 2 the right half: {x.shape[1] // 2}"
            " features each."
        ),
    )
