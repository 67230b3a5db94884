"""The architecture diagram, figure 1 of the paper redrawn: each chapter highlights the component
that it builds."""

# Everything goes up: tokens at the bottom, the next token on top. A residual leaves the stem below
# its sublayer, curves round it and meets it again at a plus. Under an attention stand three arrows,
# Q, K and V, in their colors. One drawing, two widths: the column of a desk and a phone's.
from collections.abc import Iterable
from typing import NamedTuple

from .drawing import DASHES, Drawing
from .style import BRIDGE, DECODER, ENCODER, GRAY, KEY, PHONE, QUERY, VALUE, Picture, ink_on, sketch

HEIGHT = 585
BOX, BAR, RING = 30, 14, 8  # heights of a box and of a norm, radius of a plus
GROUND, EMBEDDING = 457, 515  # where the layers begin, the top of the embeddings
PORTS = (("Q", QUERY), ("K", KEY), ("V", VALUE))
FADED = 0.65  # opacity of what isn't lit


class Part(NamedTuple):
    "A box of the drawing: its words, its color when lit, and the chapter that builds it."

    words: str
    color: str
    chapter: str


PARTS = {
    "softmax": Part("softmax", DECODER, "10_loss"),
    "output": Part("linear", DECODER, "09_transformer"),
    "decoder_feed_forward": Part("feed-forward", DECODER, "06_residual_and_norm"),
    "cross_attention": Part("cross-attention", BRIDGE, "08_decoder"),
    "decoder_attention": Part("masked self-attention", DECODER, "03_masks"),
    "encoder_feed_forward": Part("feed-forward", ENCODER, "06_residual_and_norm"),
    "encoder_attention": Part("self-attention", ENCODER, "04_multi_head"),
    "source_embedding": Part("embedding", ENCODER, "05_positions"),
    "target_embedding": Part("embedding", DECODER, "05_positions"),
    "encoder_norm": Part("layer norm", ENCODER, "06_residual_and_norm"),
    "decoder_norm": Part("layer norm", DECODER, "06_residual_and_norm"),
}
STACKS = {
    "encoder": ("encoder_attention", "encoder_feed_forward"),
    "decoder": ("decoder_attention", "cross_attention", "decoder_feed_forward"),
}  # from below
COLORS = {"encoder": ENCODER, "decoder": DECODER}


GROUPS = {  # more names of what can be lit
    "encoder": {*STACKS["encoder"], "encoder_norm"},
    "decoder": {*STACKS["decoder"], "decoder_norm"},
    "bridge": {"bridge", "cross_attention"},
    "all": {*PARTS, "bridge", "positions"},
}


class Sheet(Drawing):
    """A drawing of one width: half the boxes' width, the middle of both stacks, the distance from
    there to the residual's lane."""

    def __init__(self, width: int, lit: Iterable[str]):
        super().__init__(width, HEIGHT)
        self.lit = set().union(*(GROUPS.get(name, {name}) for name in lit))
        self.wide = width > PHONE
        self.half = 86 if self.wide else 58
        self.middle = {"encoder": width * 0.26, "decoder": width * 0.745}
        self.reach = self.half + (24 if self.wide else 18)

    def opacity(self, name: str) -> float:
        return 1 if name in self.lit else FADED

    def curve(self, d: str, color="currentColor", width=1.4, dashes="") -> None:
        "A path in SVG's own letters."
        self.parts.append(
            f'<path d="{d}" fill="none" stroke="{color}" stroke-width="{width:g}"{dashes}/>'
        )

    def part(self, name: str, side: str, top: float, height: float = BOX) -> None:
        "A box with its words; the built book makes a link to its chapter of it."
        part, left = PARTS[name], self.middle[side] - self.half
        words = part.words if self.wide else part.words.replace("masked self-", "masked ")
        size = 10 if height == BAR else 12.5 if self.wide else 11
        paint = (part.color,) * 2 if name in self.lit else ("none", GRAY)
        style = {"size": size, "opacity": self.opacity(name)}
        self.parts.append(f'<g data-chapter="{part.chapter}"><title>{part.words}</title>')
        self.box(left, top, 2 * self.half, height, words, *paint, **style)
        self.parts.append("</g><!--box-->")

    def plus(self, x: float, y: float, side: str, lit: bool) -> None:
        "The ring where two streams are added."
        fill, ring = (COLORS[side],) * 2 if lit else ("none", GRAY)
        self.parts.append(
            f'<circle cx="{x:g}" cy="{y:g}" r="{RING}" fill="{fill}" stroke="{ring}"'
            ' stroke-width="1.4"/>'
        )
        ink = ink_on(fill) if lit else GRAY
        self.curve(f"M{x - 4.4:.1f} {y:g}h8.8M{x:g} {y - 4.4:.1f}v8.8", ink, 1.5)


def draw_ports(sheet: Sheet, side: str, name: str, below: float, top: float, memory) -> None:
    """Query, key and value under an attention: all three from the stem, or two of them from the
    memory."""
    for i, (letter, color) in enumerate(PORTS, -1):
        # from the memory, K and V stand on its side
        x = sheet.middle[side] + (i if memory is None else -i) * sheet.half * 0.55
        start = below if memory is None or letter == "Q" else memory
        sheet.arrow(x, start, x, top, color if name in sheet.lit else GRAY, width=2)
        sheet.text(x + 9, top + 11, letter, 11.5, weight="bold", opacity=sheet.opacity(name))


def draw_sublayer(sheet: Sheet, side: str, name: str, ground: float, memory) -> float:
    """One sublayer with its residual, plus and norm above `ground`; returns where the next one
    begins."""
    x, attention, lit = sheet.middle[side], name.endswith("attention"), f"{side}_norm" in sheet.lit
    out, step, tap = -1 if side == "encoder" else 1, sheet.half * 0.55, ground - 8
    split = tap - 10
    top = split - (28 if attention else 10)
    if not attention:
        sheet.line(x, ground, x, top)
    elif memory is None:
        sheet.curve(f"M{x:g} {ground:g}V{split:g}M{x - step:g} {split:g}H{x + step:g}")
    else:  # the query leaves the stem below the memory's line
        sheet.curve(f"M{x:g} {ground:g}V{split + 10:g}H{x + step:g}V{split:g}")
    if attention:
        draw_ports(sheet, side, name, split, top, memory)
    box = top - BOX
    ring, r, lane = box - 6 - RING, 9, x + out * sheet.reach
    sheet.line(x, box, x, ring + RING)
    turn = lane - out * r
    sheet.curve(
        f"M{x:g} {tap:g}H{turn:g}Q{lane:g} {tap:g} {lane:g} {tap - r:g}V{ring + r:g}Q{lane:g}"
        f" {ring:g} {turn:g} {ring:g}H{x + out * (RING + 6):g}",
        width=2.2 if lit else 1.4,
    )
    sheet.arrow(turn, ring, x + out * RING, ring)
    sheet.part(name, side, box)
    if name == "decoder_attention":
        inset, rise, size = (8, 9, 12) if sheet.wide else (4, 11, 8)
        triangle = f"M{x - sheet.half + inset:g} {box + BOX - rise:g}v{-size}l{size} {size}z"
        sheet.curve(triangle, ink_on(DECODER) if name in sheet.lit else GRAY, 1.2)
    sheet.plus(x, ring, side, lit)
    end = ring - RING - 5 - BAR
    sheet.line(x, ring - RING, x, end + BAR)
    sheet.part(f"{side}_norm", side, end, BAR)
    return end


def draw_entrance(sheet: Sheet, side: str) -> None:
    "Tokens, their embedding, and the plus with the sine of the positional encoding."
    x, lit = sheet.middle[side], "positions" in sheet.lit
    name, words, out, anchor = {
        "encoder": ("source_embedding", "source tokens", -1, "end"),
        "decoder": ("target_embedding", "target, shifted right", 1, "start"),
    }[side]
    sheet.text(x, HEIGHT - 8, words).arrow(x, HEIGHT - 17, x, EMBEDDING + 24)
    sheet.part(name, side, EMBEDDING, 24)
    ring, outer = EMBEDDING - 20, x + out * (sheet.half - 2)
    wave, edge = (outer - 32, outer - 32) if out > 0 else (outer, outer + 32)
    sheet.line(x, EMBEDDING, x, ring + RING).line(x, ring - RING, x, GROUND)
    sheet.line(x + out * RING, ring, edge, ring)
    sheet.curve(f"M{wave:g} {ring:g}q8 -14 16 0t16 0", COLORS[side] if lit else GRAY, 2)
    if sheet.wide:
        opacity = sheet.opacity("positions")
        sheet.text(outer + out * 6, ring, "positions", 11, anchor, opacity=opacity)
    sheet.plus(x, ring, side, lit)


def draw_frame(sheet: Sheet, side: str, top: float) -> None:
    "The stack's frame and how often it is repeated."
    lane, edge = sheet.reach + 8, sheet.half + 16  # from the middle, with the residual or without
    left, right = (lane, edge) if side == "encoder" else (edge, lane)
    x, w = sheet.middle[side] - left, left + right
    sheet.box(x, top, w, GROUND - 2 - top, color=GRAY, dash=True)
    label_x, anchor = (x + 2, "start") if side == "encoder" else (x + w - 2, "end")
    sheet.text(label_x, top - 9, f"{side} × N", 12, anchor)


def draw(width: int, lit: Iterable[str]) -> str:
    "The whole drawing, `width` pixels wide."
    sheet = Sheet(width, lit)
    wide, tops, memory = sheet.wide, {}, 0.0
    for side, names in STACKS.items():
        draw_entrance(sheet, side)
        level = float(GROUND)
        for name in names:
            crossing = name == "cross_attention"
            memory = level - 18 if crossing else memory
            level = draw_sublayer(sheet, side, name, level, memory if crossing else None)
        tops[side] = level
        draw_frame(sheet, side, level - 8)
    left, right = sheet.middle["encoder"], sheet.middle["decoder"]
    color = BRIDGE if {"bridge", "cross_attention"} & sheet.lit else GRAY
    high, lane = tops["encoder"] - 26, (left + right) / 2 - (2 if wide else 4)
    sheet.curve(
        f"M{left:g} {tops['encoder']:g}V{high + 9:g}q0 -9 9 -9H{lane - 9:g}q9 0 9"
        f" 9V{memory - 9:g}q0 9 9 9H{right:g}",
        color,
        2.2,
    )
    result = "encoder output (B, S, D)" if wide else "encoder output"
    sheet.text((left + lane) / 2 + 4, high - 10, result, 11)
    linear = tops["decoder"] - 50
    sheet.line(right, tops["decoder"], right, linear + 24).line(right, linear, right, linear - 16)
    sheet.arrow(right, linear - 40, right, linear - 53)
    sheet.part("output", "decoder", linear, 24)
    sheet.part("softmax", "decoder", linear - 40, 24)
    sheet.text(right, linear - 64, "probabilities of the next token" if wide else "next token")
    edge, tie = right + sheet.half, min(right + sheet.reach + (46 if wide else 15), width - 4)
    sheet.curve(
        f"M{edge:g} {EMBEDDING + 12:g}H{tie - 8:g}q8 0 8 -8V{linear + 20:g}q0 -8 -8 -8H{edge:g}",
        GRAY,
        dashes=DASHES,
    )
    if wide:
        sheet.text(right - 10, tops["decoder"] - 17, "(B, T, D)", 11, "end")
        sheet.text(right + 10, linear - 8, "(B, T, V)", 11, "start")
        sheet.text(left + 10, EMBEDDING - 9, "(B, S, D)", 11, "start")
        sheet.text(edge + 4, linear + 3, "shared weights", 11, "start")
    return sheet.image(0, round(1.2 * width))


def architecture(
    lit: Iterable[str] = ("all",),
    alt: str = "The architecture of the Transformer.",
    caption: str | None = None,
) -> Picture:
    """The whole Transformer, its parts in `lit` in color.

    lit: the names in PARTS, and positions, bridge, encoder, decoder, encoder_norm, decoder_norm,
    all."""
    return sketch(lambda width: draw(width, lit), alt, caption)
