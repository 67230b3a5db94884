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

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        w, cell, size = (170, 24, 13) if wide else (100, 15, 11)
        left, foot = (width - 8 * cell) / 2, 130 + cell * len(words)
        top = 128 + cell * chosen
        sheet = figures.Drawing(width, foot + 31)
        middles = [width * (1 + 2 * i) / 6 for i in range(3)]
        for x, color, above, name in zip(
            middles,
            (figures.ENCODER, figures.DECODER, figures.DECODER),
            ("source id", "target id", "D numbers"),
            ("source", "target", "output"),
        ):
            sheet.text(x, 12, above, size).arrow(x, 22, x, 40)
            sheet.box(x - w / 2, 42, w, 28, name, color, size=size + 1)
        for i, word in enumerate(words):
            y = 130 + cell * i
            for j in range(8):
                fill = figures.GREY if i == chosen else "none"
                sheet.box(left + cell * j, y, cell, cell, "", fill)
            sheet.text(left - 8, y + cell / 2, word, size, "end")
        source, target, output = middles
        sheet.arrow(source, 70, left + cell, top).arrow(target, 70, target, top)
        sheet.arrow(output, 70, left + 8 * cell + 3, 128).text(output, 104, "every row", size)
        sheet.text(source - 6 if wide else source, 104, "its row", size)
        sheet.text(target + 8, 96, "its row", size, "start")
        return sheet.text(width / 2, foot + 17, "one Parameter: V rows, D columns", size).svg()

    millions = vocab * d_model / 1e6
    return figures.sketch(
        draw,
        "Three boxes, source, target and output, point to one matrix with a row for each word: the"
        " two embeddings read out the row of an id, the output layer multiplies with every row.",
        f"Tied, a model of {vocab:,} tokens and width {d_model} holds {millions:.1f} million"
        f" numbers here; untied it would hold {3 * millions:.1f}.",
    )


TOWERS = (  # from above
    (figures.ENCODER, ("encoder feed-forward", "encoder attention")),
    (figures.DECODER, ("decoder feed-forward", "cross-attention", "decoder attention")),
)
BOXES = ["embedding", *TOWERS[0][1], *TOWERS[1][1]]


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

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        tower, gap, size = (220, 76, 13) if wide else (142, 28, 12)
        base_width = 2 * tower + gap
        left, right, ground = (width - base_width) / 2, (width + gap) / 2, 344.0
        tallest = max(sum(parts[name] for name in names) for _, names in TOWERS)
        per = 300 * tower / tallest  # square pixels for a parameter
        low = ground + 26 + parts["embedding"] * per / base_width
        sheet, level = figures.Drawing(width, round(low + 56)), {}

        def stack(x: float, bottom: float, w: float, name: str, color: str, of: str) -> float:
            height = parts[name] * per / w
            count = f"{of}{parts[name] / 1e6:.1f} M"
            sheet.box(x, bottom - height, w, height, name, color, color, size=size, sub=count)
            level[name] = bottom - height / 2
            return bottom - height

        tops = []
        for x, (color, names) in zip((left, right), TOWERS):
            sheet.arrow(x + tower / 2, ground + 26, x + tower / 2, ground + 1)
            top = ground
            for name in reversed(names):
                paint = figures.BRIDGE if name == "cross-attention" else color
                of = f"{layers} × {parts[name] / layers / 1e6:.2f} M = "
                top = stack(x, top, tower, name, paint, of)
            tops.append(top)
        stack(left, low, base_width, "embedding", figures.GREY, "one matrix, ")
        over, lane, cross = left + tower / 2, right - gap / 2, level["cross-attention"]
        way = [(over, tops[0]), (over, tops[0] - 18), (lane, tops[0] - 18), (lane, cross)]
        sheet.path([*way, (right - 1, cross)], figures.BRIDGE, 2)
        sheet.text(over - 6, tops[0] - 29, "memory", 12)
        out = right + tower / 2
        sheet.arrow(out, tops[1], out, tops[1] - 18)
        sheet.text(out, 12, "linear: the embedding again" if wide else "linear: embedding", 12)
        edge, end = right + tower, out + (88 if wide else 60)
        tie, matrix = edge + (30 if wide else 12), level["embedding"]
        way = [(edge, matrix), (tie, matrix), (tie, 12.0), (end, 12.0)]
        for start, stop in zip(way, way[1:]):
            sheet.line(*start, *stop, figures.GREY, dash=True)
        sheet.text(over, low + 16, "source words", 12)
        sheet.text(out, low + 16, "target, shifted right", 12)
        return sheet.text(width / 2, low + 42, f"too thin to draw: {rest}", 11.5).svg()

    most = max(BOXES, key=parts.__getitem__)
    attention = sum(parts[name] for name in BOXES if "attention" in name)
    return figures.sketch(
        draw,
        "Boxes with areas in proportion to parameters, in millions: "
        + ", ".join(f"{name} {parts[name] / 1e6:.1f}" for name in BOXES)
        + f". The largest single box is the {most}; the two feed-forward boxes together hold"
        f" {both / 1e6:.1f}.",
        f"Of {whole / 1e6:.0f} million parameters the feed-forward boxes hold {both / whole:.0%},"
        f" the embedding {parts['embedding'] / whole:.0%} and the attentions"
        f" {attention / whole:.0%}.",
    )
