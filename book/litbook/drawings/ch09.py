"""Chapter 9: where a model's parameters stand."""

from collections.abc import Mapping

from litbook import figures


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
    total, both = sum(parts.values()), parts["feed-forward"]
    parts = {name: n for name, n in parts.items() if name != "feed-forward"}
    parts |= {"encoder feed-forward": both / 2, "decoder feed-forward": both / 2}
    thin = ", ".join(f"{name} {n / 1e6:.2f} M" for name, n in parts.items() if name not in BOXES)
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
    gray = figures.GRAY
    sheet.box(LEFT, low - thick, base, thick, "embedding", gray, gray, sub=count)
    lane, high, tie = RIGHT - 14, tops[0] - 18, edge + 12
    corners = [(over, tops[0]), (over, high), (lane, high), (lane, cross), (RIGHT - 1, cross)]
    sheet.path(corners, figures.BRIDGE, width=2).text(over - 6, high - 11, "encoder output")
    sheet.arrow(out, tops[1], out, tops[1] - 18).text(out, 12, "linear: embedding")
    middle = low - thick / 2
    for wire in ((edge, middle, tie, middle), (tie, middle, tie, 12), (tie, 12, out + 60, 12)):
        sheet.line(*wire, gray, dash=True)
    sheet.text(over, low + 16, "source tokens").text(out, low + 16, "target, shifted right")
    sheet.text(172, low + 42, f"too thin to draw: {thin}", 11.5)
    largest = max(BOXES, key=parts.__getitem__)
    attention = sum(parts[name] for name in BOXES if "attention" in name)
    return sheet.show(
        "Boxes with areas in proportion to parameters, in millions: "
        + ", ".join(f"{name} {parts[name] / 1e6:.1f}" for name in BOXES)
        + f". The largest single box is the {largest}; the two feed-forward boxes together hold"
        f" {both / 1e6:.1f}.",
        f"Of {total / 1e6:.0f} million parameters the feed-forward boxes hold {both / total:.0%},"
        f" the embedding {parts['embedding'] / total:.0%} and the attentions"
        f" {attention / total:.0%}.",
    )
