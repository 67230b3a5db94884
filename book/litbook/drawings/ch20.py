"""Chapter 20: rows of a decoder, and what is lost without a head."""

from collections.abc import Mapping, Sequence

from litbook import figures
from litbook.figures.drawing import square_colours
from transformer_lit.attention_maps import piece_names, read_pairs
from transformer_lit.translation import Translator


def read_and_said(words: Sequence[str]) -> figures.Picture:
    "The rows of a decoder: each reads one of `words` and says the next."
    rows = list(zip(words, words[1:]))
    drawing = figures.Drawing(36 + 76 * len(rows), 150)
    for i, (reads, says) in enumerate(rows):
        x = 62 + 76 * i
        drawing.text(x, 132, reads, 12)
        drawing.box(x - 32, 62, 64, 28, f"row {i + 1}", figures.DECODER, figures.DECODER)
        drawing.text(x, 22, says, 12, weight="bold")
        drawing.arrow(x, 122, x, 92)
        drawing.arrow(x, 60, x, 34)
    drawing.text(4, 112, "reads", 11, "start")
    drawing.text(4, 46, "says", 11, "start")
    told = ", ".join(
        f"row {i} reads {reads.strip('<>')} and says {says.strip('<>')}"
        for i, (reads, says) in enumerate(rows, 1)
    )
    return drawing.show(
        alt=f"{len(rows)} rows of the decoder: {told}.",
        caption=(
            f"Each of the {len(rows)} rows says the word after the one that it reads. With rows"
            " named by the wrong word, the map is off by one."
        ),
    )


def points_lost(left: Mapping[tuple[str, int, int], float], whole: float) -> figures.Picture:
    """A dot for each head, layer by head: its colour and number are the points of right answers
    lost when it alone is off.

    left: (kind, layer, head), from 0 -> the share that is right without it; whole: the share with
    all heads."""
    lost = {place: 100 * (whole - share) for place, share in left.items()}
    kinds = sorted({kind for kind, _, _ in lost}, key=lambda kind: (kind != "encoder", kind))
    layers, heads = (1 + max(place[k] for place in lost) for k in (1, 2))
    scale = max(5.0, *lost.values())  # a loss of little is not to look like much
    wide = 36 * heads + 26
    sheet = figures.Drawing(30 + wide * len(kinds), 66 + 36 * layers)
    for layer in range(layers):
        sheet.text(48, 46 + 36 * layer, f"layer {layer + 1}", 11, "end")
    for k, kind in enumerate(kinds):
        left_edge = 56 + wide * k
        sheet.text(left_edge + 18 * heads, 12, kind, 12, weight="bold")
        sheet.text(left_edge + 18 * heads, 58 + 36 * layers, "head", 11)
        for head in range(heads):
            sheet.text(left_edge + 18 + 36 * head, 42 + 36 * layers, head + 1, 11)
    for (kind, layer, head), points in lost.items():
        x, y = 74 + wide * kinds.index(kind) + 36 * head, 46 + 36 * layer
        fill, ink = square_colours(max(points, 0) / scale, "cividis")
        sheet.parts.append(
            f'<circle cx="{x}" cy="{y}" r="15" fill="{fill}" stroke="currentColor"/>'
        )
        sheet.text(x, y, f"{points:.1f}".replace("-0.0", "0.0"), 10.5, color=ink)
    kind, layer, head = worst = max(lost, key=lost.__getitem__)
    free = sum(points < 0.5 for points in lost.values())
    return sheet.show(
        caption=f"{free} of {len(lost)} heads can be switched off alone at a cost of less than half"
        f" a point; the costliest, head {head + 1} of {kind} layer {layer + 1}, costs"
        f" {lost[worst]:.1f}.",
        alt=f"A dot for each head of {' and '.join(kinds)}, a row for each layer; the number in it"
        f" says how many points are lost without it, {min(lost.values()):.1f} to"
        f" {lost[worst]:.1f}.",
    )


def rows_side_by_side(
    translator: Translator, pairs: Sequence[tuple[str, str, str]], place: tuple[str, int, int]
) -> figures.Picture:
    """One head's row for a word said, for each (English, French, word): the last row that says it,
    a column each.

    place: (kind, layer, head), from 0; a column is named by the word before the full stop and the
    word said. The area of a square is a weight. Raises ValueError for a word not said, and for
    sentences that differ in length."""
    kind, layer, head = place
    columns = []  # of each pair: its words, its weights, its name
    for english, french, word in pairs:
        weights, source, target = read_pairs(translator, [(english, french)])
        words = piece_names(source[0], translator.source)
        said = [name.lower() for name in piece_names(target[0], translator.target)[1:]]
        row = len(said) - 1 - said[::-1].index(word)
        columns.append((words, weights[kind][layer, 0, head, row].tolist(), word))
    sheet = figures.Drawing(124 + 104 * len(columns), 34 + 22 * len(columns[0][0]))
    for s, names in enumerate(zip(*(words for words, _, _ in columns), strict=True)):
        sheet.text(112, 37 + 22 * s, " / ".join(dict.fromkeys(names)), 12, "end")
    findings = []
    for k, (words, row, word) in enumerate(columns):
        most = max(row)
        findings.append(
            f"“… {words[-3]}”: {word} looks most at “{words[row.index(most)]}”, {most:.2f}"
        )
        sheet.text(170 + 104 * k, 10, f"… {words[-3]} → {word}", 12, weight="bold")
        for s, weight in enumerate(row):
            x, y, half = 156 + 104 * k, 37 + 22 * s, 10 * weight**0.5  # the area is the weight
            sheet.parts.append(
                f'<rect x="{x - half:.1f}" y="{y - half:.1f}" width="{2 * half:.1f}"'
                f' height="{2 * half:.1f}"'
                f' fill="{figures.BRIDGE if kind == "cross" else figures.QUERY}"/>'
            )
            if weight >= 0.005:
                sheet.text(x + 16, y, f"{weight:.2f}", 12, "start")
    return sheet.show(
        caption="; ".join(findings) + ".",
        alt=f"Rows of {kind} layer {layer + 1}, head {head + 1}, for sentences that differ in the"
        f" last adjective alone, as columns of squares. {'. '.join(findings)}.",
    )
