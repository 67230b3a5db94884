"""Chapter 9: one matrix in three places, and where a model's parameters stand."""

from collections.abc import Mapping, Sequence

from litbook import figures


def one_matrix(
    words: Sequence[str] = ("the", "animal", "street", "l'", "rue"),
    chosen: int = 1,
    vocab: int = 37_000,
    d_model: int = 512,
) -> figures.Picture:
    """Source, target and output over one matrix with a row for each word; vocab, d_model: the sizes
    that the caption counts."""
    left, cell, top, foot = 112, 15, 128 + 15 * chosen, 130 + 15 * len(words)
    sheet = figures.Drawing(344, foot + 31)
    for x, color, above, name in (
        (57, figures.ENCODER, "source id", "source"),
        (172, figures.DECODER, "target id", "target"),
        (287, figures.DECODER, "D numbers", "output"),
    ):
        sheet.text(x, 12, above, 11).arrow(x, 22, x, 40)
        sheet.box(x - 50, 42, 100, 28, name, color)
    for i, word in enumerate(words):
        fill, y = figures.GREY if i == chosen else "none", 130 + cell * i
        sheet.row(left, y, [""] * 8, cell, cell, cell, fill=fill)
        sheet.text(left - 8, y + cell / 2, word, 11, "end")
    sheet.arrow(57, 70, left + cell, top).arrow(172, 70, 172, top)
    sheet.arrow(287, 70, left + 8 * cell + 3, 128).text(287, 104, "every row", 11)
    sheet.text(57, 104, "its row", 11).text(180, 96, "its row", 11, "start")
    sheet.text(172, foot + 17, "one Parameter: V rows, D columns", 11)
    millions = vocab * d_model / 1e6
    return sheet.show(
        "Three boxes, source, target and output, point to one matrix with a row for each word: the"
        " two embeddings read out the row of an id, the output layer multiplies with every row.",
        f"Tied, a model of {vocab:,} tokens and width {d_model} holds {millions:.1f} million"
        f" numbers here; untied it would hold {3 * millions:.1f}.",
    )


TOWERS = (  # from below
    (figures.ENCODER, ("encoder attention", "encoder feed-forward")),
    (figures.DECODER, ("decoder attention", "cross-attention", "decoder feed-forward")),
)
BOXES = ["embedding", *TOWERS[0][1][::-1], *TOWERS[1][1][::-1]]
LEFT, RIGHT, TOWER, GROUND = 16, 186, 142, 344.0  # of the drawing, in pixels


def parameter_areas(parts: Mapping[str, float], layers: int = 6) -> figures.Picture:
    """The parts of a tied model with one joint vocabulary, where they stand in the architecture;
    area is in proportion to parameters.

    parts: "embedding", "encoder attention", "decoder attention", "cross-attention" and
    "feed-forward", of which each side has half, each of them in so many layers; what else there is
    stands in the last line."""
    whole, both = sum(parts.values()), parts["feed-forward"]
    parts = {name: n for name, n in parts.items() if name != "feed-forward"}
    parts |= {"encoder feed-forward": both / 2, "decoder feed-forward": both / 2}
    rest = ", ".join(f"{name} {n / 1e6:.2f} M" for name, n in parts.items() if name not in BOXES)
    # pixels of height for a parameter, in a tower
    per = 300 / max(sum(parts[name] for name in names) for _, names in TOWERS)
    base = RIGHT + TOWER - LEFT
    thick = parts["embedding"] * per * TOWER / base
    low, over, out, edge = GROUND + 26 + thick, LEFT + TOWER / 2, RIGHT + TOWER / 2, RIGHT + TOWER
    sheet, tops, cross = figures.Drawing(344, round(low + 56)), [], 0.0
    for x, (color, names) in zip((LEFT, RIGHT), TOWERS):
        top = GROUND
        sheet.arrow(x + TOWER / 2, top + 26, x + TOWER / 2, top + 1)
        for name in names:
            millions, height = parts[name] / 1e6, parts[name] * per
            top -= height
            paint = figures.BRIDGE if name == "cross-attention" else color
            cross = top + height / 2 if name == "cross-attention" else cross
            count = f"{layers} × {millions / layers:.2f} M = {millions:.1f} M"
            sheet.box(x, top, TOWER, height, name, paint, paint, sub=count)
        tops.append(top)
    count = f"one matrix, {parts['embedding'] / 1e6:.1f} M"
    grey = figures.GREY
    sheet.box(LEFT, low - thick, base, thick, "embedding", grey, grey, sub=count)
    lane, high, tie = RIGHT - 14, tops[0] - 18, edge + 12
    way = [(over, tops[0]), (over, high), (lane, high), (lane, cross), (RIGHT - 1, cross)]
    sheet.path(way, figures.BRIDGE, width=2).text(over - 6, high - 11, "memory")
    sheet.arrow(out, tops[1], out, tops[1] - 18).text(out, 12, "linear: embedding")
    middle = low - thick / 2
    for wire in ((edge, middle, tie, middle), (tie, middle, tie, 12), (tie, 12, out + 60, 12)):
        sheet.line(*wire, grey, dash=True)
    sheet.text(over, low + 16, "source words").text(out, low + 16, "target, shifted right")
    sheet.text(172, low + 42, f"too thin to draw: {rest}", 11.5)
    most = max(BOXES, key=parts.__getitem__)
    attention = sum(parts[name] for name in BOXES if "attention" in name)
    return sheet.show(
        "Boxes with areas in proportion to parameters, in millions: "
        + ", ".join(f"{name} {parts[name] / 1e6:.1f}" for name in BOXES)
        + f". The largest single box is the {most}; the two feed-forward boxes together hold"
        f" {both / 1e6:.1f}.",
        f"Of {whole / 1e6:.0f} million parameters the feed-forward boxes hold {both / whole:.0%},"
        f" the embedding {parts['embedding'] / whole:.0%} and the attentions"
        f" {attention / whole:.0%}.",
    )
