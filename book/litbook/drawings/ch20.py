"""Chapter 20: rows of a decoder, and what is lost without a head."""

from collections.abc import Mapping, Sequence

from litbook import figures
from litbook.figures.drawing import square_colours
from transformer_lit.attention_maps import piece_names, read_pairs


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
    kinds = list(
        dict.fromkeys(kind for kind, _, _ in sorted(lost, key=lambda place: place[0] != "encoder"))
    )
    layers, heads = 1 + max(layer for _, layer, _ in lost), 1 + max(head for _, _, head in lost)
    scale, wide = (
        max(5.0, *lost.values()),
        36 * heads + 26,
    )  # a loss of little is not to look like much
    sheet = figures.Drawing(30 + wide * len(kinds), 66 + 36 * layers)
    for layer in range(layers):
        sheet.text(48, 46 + 36 * layer, f"layer {layer + 1}", 11, "end")
    for head in range(heads * len(kinds)):
        sheet.text(74 + 36 * head + 26 * (head // heads), 42 + 36 * layers, head % heads + 1, 11)
    for k, kind in enumerate(kinds):
        sheet.text(56 + wide * k + 18 * heads, 12, kind, 12, weight="bold").text(
            56 + wide * k + 18 * heads, 58 + 36 * layers, "head", 11
        )
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
        caption=(
            f"{free} of {len(lost)} heads can be switched off alone at a cost of less than half a"
            f" point; the costliest, head {head + 1} of {kind} layer {layer + 1}, costs"
            f" {lost[worst]:.1f}."
        ),
        alt=(
            f"A dot for each head of {' and '.join(kinds)}, a row for each layer; the number in it"
            f" says how many points are lost without it, {min(lost.values()):.1f} to"
            f" {lost[worst]:.1f}."
        ),
    )


def row_that_says(
    translator: Translator, pairs: Sequence[tuple[str, str, str]], place: tuple[str, int, int]
) -> figures.Picture:
    """One head's row for a word said, for each (English, French, word): the last row that says it,
    a column each.

    place: (kind, layer, head), from 0; a column is named by the word before the full stop and the
    word said. The area of a square is a weight. Raises ValueError for a word not said, and for
    sentences that differ in length."""
    kind, layer, head = place
    columns: list[str] = []
    told: list[str] = []
    looks: list[Tensor] = []
    names: list[list[str]] = []
    for english, french, word in pairs:
        weights, source, target = read_pairs(translator, [(english, french)])
        said = [name.lower() for name in piece_names(target[0], translator.target)[1:]]
        row = len(said) - 1 - said[::-1].index(word)
        names.append(piece_names(source[0], translator.source))
        looks.append(weights[kind][layer, 0, head, row].cpu())
        columns.append(f"… {names[-1][-3]} → {word}")
        told.append(
            f"“… {names[-1][-3]}”: {word} looks most at “{names[-1][int(looks[-1].argmax())]}”,"
            f" {looks[-1].max():.2f}"
        )
    sheet, colour = figures.Drawing(124 + 104 * len(looks), 34 + 22 * len(names[0])), (
        figures.BRIDGE if kind == "cross" else figures.QUERY
    )
    for s, words in enumerate(zip(*names, strict=True)):
        sheet.text(112, 37 + 22 * s, " / ".join(dict.fromkeys(words)), 12, "end")
    for k, weight in enumerate(looks):
        sheet.text(170 + 104 * k, 10, columns[k], 12, weight="bold")
        for s, w in enumerate(weight.tolist()):
            side = 20 * w**0.5  # the area is the weight
            sheet.parts.append(
                f'<rect x="{156 + 104 * k - side / 2:.1f}" y="{37 + 22 * s - side / 2:.1f}"'
                f' width="{side:.1f}" height="{side:.1f}" fill="{colour}"/>'
            )
            if w >= 0.005:
                sheet.text(172 + 104 * k, 37 + 22 * s, f"{w:.2f}", 12, "start")
    return sheet.show(
        caption="; ".join(told) + ".",
        alt=(
            f"Rows of {place_name(*place)}, for sentences that differ in the last adjective alone,"
            f" as columns of squares. {'. '.join(told)}."
        ),
    )
