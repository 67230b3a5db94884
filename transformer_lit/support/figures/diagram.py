"""Figure 1 of the paper in a drawing of our own: each chapter lights the part that it builds and leaves the others grey."""
# The sheet is as wide as a phone. Everything goes up: words at the bottom, the next word on top. Under an attention hang three
# small ports, V, K and Q, in the order of the paper's figure 2. Beside each stack runs the lane of its residuals: from below
# a sublayer round it into its "add & norm".
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .drawing import Drawing
from .style import BRIDGE, DECODER, ENCODER, GREY, KEY, QUERY, VALUE, Picture

WIDTH, HEIGHT = 340, 420
BOX = 120  # a box's width
PORTS = (("V", VALUE, -36), ("K", KEY, 0), ("Q", QUERY, 36))  # letter, colour, place from the middle of the box
NAMES = {"V": "value", "K": "key", "Q": "query"}
On = Callable[[str], bool]


class Part(NamedTuple):
    "A box of the drawing: its left upper corner, its words, and its colour when lit."
    x: float
    y: float
    words: str
    colour: str


class Sublayer(NamedTuple):
    """What stands between a sublayer and its norm: the part's name, the top of its add & norm, and the height where the
    residual leaves the stem below it."""
    part: str
    norm: float
    tap: float


PARTS = {
    "output": Part(190, 20, "linear", DECODER),
    "decoder_feed_forward": Part(190, 96, "feed-forward", DECODER),
    "cross_attention": Part(190, 165, "cross-attention", BRIDGE),
    "decoder_attention": Part(190, 254, "masked attention", DECODER),
    "encoder_feed_forward": Part(30, 185, "feed-forward", ENCODER),
    "encoder_attention": Part(30, 254, "self-attention", ENCODER),
    "target_embedding": Part(190, 364, "embedding", DECODER),
    "source_embedding": Part(30, 364, "embedding", ENCODER),
}
STACKS = {  # the middle of the boxes, the lane of the residuals, and the sublayers from below
    "encoder": (90, 16, (Sublayer("encoder_attention", 229, 300), Sublayer("encoder_feed_forward", 160, 219))),
    "decoder": (250, 324, (Sublayer("decoder_attention", 229, 300), Sublayer("cross_attention", 140, 220),
                           Sublayer("decoder_feed_forward", 71, 130))),
}
COLOURS = {"encoder": ENCODER, "decoder": DECODER}
FORK = 211  # where the memory reaches the keys and values of the cross-attention


def is_lit(name: str, lit: set[str]) -> bool:
    "Is the part lit by its own name, by its stack's, or by all?"
    group = name.split("_")[0]
    inside = name != "output" and not name.endswith("embedding")
    bridge = name == "cross_attention" and {"bridge", "decoder"} & lit
    return bool({name, "all"} & lit or (group in lit and inside) or bridge)


def shade(colour: str, lit: bool) -> tuple[str, str]:
    "Fill and outline of a part."
    return (colour, colour) if lit else ("none", GREY)


def draw_frames(sheet: Drawing) -> None:
    "The two stacks, each N times over, and what the letters mean."
    for x, y in ((4, 151), (182, 62)):
        sheet.box(x, y, 154, 308 - y, "", "none", GREY, dash=True)
    sheet.text(4, 142, "encoder × N", 11, "start").text(336, 53, "decoder × N", 11, "end")
    for i, (letter, colour, _) in enumerate(reversed(PORTS)):
        sheet.box(4, 12 + 19 * i, 18, 13, letter, colour, colour, size=10).text(28, 19 + 19 * i, NAMES[letter], 11, "start")
    sheet.arrow(4, 76, 22, 76).text(28, 76, "residual", 11, "start")


def draw_ports(sheet: Drawing, name: str, on: On, tap: float) -> None:
    "Value, key and query under an attention; each comes from the stem, or, under the cross-attention, two from the memory."
    part = PARTS[name]
    for letter, colour, across in PORTS:
        x, memory = part.x + BOX / 2 + across, name == "cross_attention" and letter != "Q"
        fill, line = shade(colour, on(name))
        sheet.line(x, FORK if memory else tap, x, part.y + 39, line, width=1.8)
        sheet.box(x - 9, part.y + 24, 18, 15, letter, fill, line, size=10)


def draw_residual(sheet: Drawing, middle: float, lane: float, norm: float, tap: float, lit: bool) -> None:
    "From the stem below a sublayer along the lane into the side of its add & norm."
    edge = middle + (BOX / 2 if lane > middle else -BOX / 2)
    sheet.path([(middle, tap), (lane, tap), (lane, norm + 8.5), (edge, norm + 8.5)], width=2.0 if lit else 1.3)


def draw_stack(sheet: Drawing, side: str, on: On) -> None:
    "The sublayers of one stack with their norms, residuals and ports, and the stem that joins them."
    middle, lane, sublayers = STACKS[side]
    below = 318.0  # the top of what the stem comes from
    for name, norm, tap in sublayers:
        top = PARTS[name].y
        if name.endswith("attention"):
            from_stem = PORTS[-1:] if name == "cross_attention" else PORTS  # there V and K come from the memory
            sheet.line(middle, below, middle, tap)
            sheet.line(min(middle, middle + from_stem[0][2]), tap, middle + from_stem[-1][2], tap)
            draw_ports(sheet, name, on, tap)
        else:
            sheet.line(middle, below, middle, top + 24)
        draw_residual(sheet, middle, lane, norm, tap, on(f"{side}_norm"))
        sheet.line(middle, top, middle, norm + 17)
        sheet.box(middle - BOX / 2, norm, BOX, 17, "add & norm", *shade(COLOURS[side], on(f"{side}_norm")), size=10)
        below = norm


def draw_parts(sheet: Drawing, on: On) -> None:
    "The boxes, in colour where `on(name)` is true."
    for name, part in PARTS.items():
        sheet.box(part.x, part.y, BOX, 24, part.words, *shade(part.colour, on(name)), size=11)


def draw_ends(sheet: Drawing, on: On) -> None:
    "What comes in at the bottom and what goes out on top."
    for side, (x, *_) in STACKS.items():
        sheet.arrow(x, 405, x, 389).arrow(x, 364, x, 339)
        sheet.box(x - BOX / 2, 318, BOX, 20, "+ positions", *shade(COLOURS[side], on("positions")), size=11)
    sheet.text(90, 412, "source words", 11).text(250, 412, "target, shifted right", 11)
    sheet.arrow(250, 71, 250, 45).arrow(250, 20, 250, 6)
    sheet.text(240, 9, "softmax" if on("softmax") else "next word", 11, "end", weight="bold" if on("softmax") else None)


def draw_memory(sheet: Drawing, on: On) -> None:
    "The encoder's output, over the bridge to the keys and values of the cross-attention."
    colour = BRIDGE if on("bridge") or on("cross_attention") else GREY
    sheet.path([(90, 160), (90, 128), (170, 128), (170, FORK), (202, FORK)], colour, width=1.8)
    sheet.line(202, FORK, 250, FORK, colour, width=1.8)
    sheet.text(130, 118, "memory", 11)


def architecture(lit: Sequence[str] = ("all",), alt: str = "The architecture of the Transformer.") -> Picture:
    """The whole Transformer, its parts in `lit` in colour.

    lit: the names in PARTS, and softmax, positions, bridge, encoder, decoder, encoder_norm, decoder_norm, all."""
    sheet, names = Drawing(WIDTH, HEIGHT), set(lit)

    def on(name: str) -> bool:
        return is_lit(name, names)

    draw_frames(sheet)
    draw_memory(sheet, on)
    for side in STACKS:
        draw_stack(sheet, side, on)
    draw_parts(sheet, on)
    draw_ends(sheet, on)
    return sheet.show(alt)
