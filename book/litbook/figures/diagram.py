"""Figure 1 of the paper in a drawing of our own: each chapter lights the part that it builds and
leaves the others grey."""

# Everything goes up: words at the bottom, the next word on top. A residual leaves the stem below
# its sublayer, curves round it and meets it again at a plus. Under an attention stand three arrows,
# Q, K and V, in their colours. One drawing, two widths: the column of a desk and a phone's.
import html
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .style import BRIDGE, COLUMN, DECODER, ENCODER, GREY, KEY, PHONE, QUERY, VALUE, Picture, ink_on

HEIGHT = 580
BOX, BAR, RING = 30, 14, 8  # heights of a box and of a norm, radius of a plus
GROUND, EMBEDDING = 452, 510  # where the layers begin, the top of the embeddings
PORTS = (("Q", QUERY), ("K", KEY), ("V", VALUE))
FADED = 0.65  # opacity of what isn't lit
On = Callable[[str], bool]


class Part(NamedTuple):
    "A box of the drawing: its words, its colour when lit, and the chapter that builds it."

    words: str
    colour: str
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
}
STACKS = {
    "encoder": ("encoder_attention", "encoder_feed_forward"),
    "decoder": ("decoder_attention", "cross_attention", "decoder_feed_forward"),
}  # from below
COLOURS = {"encoder": ENCODER, "decoder": DECODER}


def is_lit(name: str, lit: set[str]) -> bool:
    "Is the part lit by its own name, by its stack's, or by all?"
    group = name.split("_")[0]
    inside = name not in ("output", "softmax") and not name.endswith("embedding")
    bridge = name == "cross_attention" and {"bridge", "decoder"} & lit
    return bool({name, "all"} & lit or (group in lit and inside) or bridge)


class Sheet:
    """An SVG of one width: half the boxes' width, the middle of both stacks, and the parts drawn so
    far."""

    def __init__(self, width: int, on: On):
        self.width, self.on = width, on
        self.half = 86 if width > PHONE else 58
        self.middle = {"encoder": width * 0.26, "decoder": width * 0.745}
        self.reach = self.half + (
            24 if width > PHONE else 18
        )  # from the middle to the residual's lane
        self.parts: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        words: str,
        size: float = 12,
        anchor: str = "middle",
        lit: bool = True,
        colour: str = "currentColor",
        bold: bool = False,
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}"'
            f' dominant-baseline="central" font-family="sans-serif" fill="{colour}"'
            f' opacity="{1 if lit else FADED}"{weight}>{html.escape(words)}</text>'
        )

    def path(
        self,
        d: str,
        colour: str = "currentColor",
        width: float = 1.4,
        dash: bool = False,
        lit: bool = True,
    ) -> None:
        dashes = ' stroke-dasharray="4 3"' if dash else ""
        self.parts.append(
            f'<path d="{d}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashes}'
            f' opacity="{1 if lit else FADED}"/>'
        )

    def head(
        self,
        x: float,
        y: float,
        towards: str = "up",
        colour: str = "currentColor",
        lit: bool = True,
    ) -> None:
        "A small arrow head whose point is (x, y)."
        dx, dy = {"up": (0, 1), "left": (1, 0), "right": (-1, 0)}[towards]
        corners = [
            (x, y),
            (x + 7 * dx - 3.6 * dy, y + 7 * dy - 3.6 * dx),
            (x + 7 * dx + 3.6 * dy, y + 7 * dy + 3.6 * dx),
        ]
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)
        self.parts.append(
            f'<polygon points="{points}" fill="{colour}" opacity="{1 if lit else FADED}"/>'
        )

    def box(self, name: str, side: str, top: float, height: float = BOX) -> None:
        "A part with its words; the built book makes a link to its chapter of it."
        part, lit, x = PARTS[name], self.on(name), self.middle[side] - self.half
        fill, line = (part.colour, part.colour) if lit else ("none", GREY)
        self.parts.append(
            f'<g data-chapter="{part.chapter}"><title>{html.escape(part.words)}</title><rect'
            f' x="{x:g}" y="{top:g}" width="{2 * self.half}" height="{height:g}" rx="5"'
            f' fill="{fill}" stroke="{line}" stroke-width="1.4"/>'
        )
        words = part.words if self.width > PHONE else part.words.replace("masked self-", "masked ")
        masked = "masked" in words  # its triangle stands before the words
        size = 13 if self.width > PHONE else 11 if masked else 11.5
        self.text(
            self.middle[side] + (6 if masked else 0),
            top + height / 2 + 0.5,
            words,
            size,
            lit=lit,
            colour=ink_on(fill) if lit else "currentColor",
        )
        self.parts.append("</g><!--box-->")

    def plus(self, x: float, y: float, lit: bool, colour: str) -> None:
        "The ring where two streams are added."
        line, r = (colour if lit else GREY), RING * 0.55
        self.parts.append(
            f'<circle cx="{x:g}" cy="{y:g}" r="{RING}" fill="{colour if lit else "none"}"'
            f' stroke="{line}" stroke-width="1.4"/>'
        )
        ink = ink_on(colour) if lit else "currentColor"
        self.path(
            f"M{x - r:.1f} {y:g}H{x + r:.1f}M{x:g} {y - r:.1f}V{y + r:.1f}", ink, 1.5, lit=lit
        )

    def norm(self, side: str, top: float, lit: bool) -> None:
        "A layer norm: a thin bar."
        colour = COLOURS[side] if lit else GREY
        x, words = self.middle[side] - self.half, "norm"
        self.parts.append(
            f'<g data-chapter="06_residual_and_norm"><title>layer norm</title><rect x="{x:g}"'
            f' y="{top:g}" width="{2 * self.half}" height="{BAR}" rx="5"'
            f' fill="{colour if lit else "none"}" stroke="{colour}" stroke-width="1.2"/>'
        )
        self.text(
            self.middle[side],
            top + BAR / 2 + 0.3,
            words,
            10,
            lit=lit,
            colour=ink_on(colour) if lit else "currentColor",
        )
        self.parts.append("</g><!--box-->")

    def svg(self, top: float) -> str:
        "Everything below `top`."
        most = round(1.2 * self.width)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {top:g} {self.width}'
            f' {HEIGHT - top:g}" aria-hidden="true" '
            f'style="display:block;width:100%;max-width:{most}px;height:auto">{"".join(self.parts)}</svg>'
        )


def draw_ports(
    sheet: Sheet, side: str, name: str, below: float, top: float, memory: float | None
) -> None:
    """Query, key and value under an attention: all three from the stem, or two of them from the
    memory."""
    x, step, lit = sheet.middle[side], sheet.half * 0.55, sheet.on(name)
    for i, (letter, colour) in enumerate(PORTS):
        shown = colour if lit else GREY
        at = (
            x + (i - 1) * step if memory is None else x + (1 - i) * step
        )  # from the memory, K and V stand on its side
        start = below if memory is None or letter == "Q" else memory
        sheet.path(f"M{at:g} {start:g}V{top + 7:g}", shown, 2, lit=lit)
        sheet.head(at, top, colour=shown, lit=lit)
        sheet.text(at + 9, top + 11, letter, 11.5, lit=lit, bold=True)


def draw_sublayer(
    sheet: Sheet, side: str, name: str, ground: float, memory: float | None, pre_norm: bool
) -> float:
    """One sublayer with its residual, plus and norm above `ground`; returns where the next one
    begins."""
    x, attention, lit = sheet.middle[side], name.endswith("attention"), sheet.on(f"{side}_norm")
    out = -1 if side == "encoder" else 1
    lane, tap = x + out * sheet.reach, ground - 8
    level = tap
    if pre_norm:
        sheet.path(f"M{x:g} {ground:g}V{level - 6:g}")
        sheet.norm(side, level - 6 - BAR, lit)
        level -= BAR + 4
    split = level - 10
    top = split - (28 if attention else 10)
    start, step = level if pre_norm else ground, sheet.half * 0.55
    if not attention:
        sheet.path(f"M{x:g} {start:g}V{top:g}")
    elif memory is None:
        sheet.path(f"M{x:g} {start:g}V{split:g}M{x - step:g} {split:g}H{x + step:g}")
    else:  # the query leaves the stem below the memory's line
        sheet.path(f"M{x:g} {start:g}V{split + (6 if pre_norm else 10):g}H{x + step:g}V{split:g}")
    if attention:
        draw_ports(sheet, side, name, split, top, memory)
    box = top - BOX
    ring = box - 6 - RING
    sheet.path(f"M{x:g} {box:g}V{ring + RING:g}")
    r = 9
    turn = lane - out * r
    sheet.path(
        f"M{x:g} {tap:g}H{turn:g}Q{lane:g} {tap:g} {lane:g} {tap - r:g}V{ring + r:g}Q{lane:g}"
        f" {ring:g} {turn:g} {ring:g}H{x + out * (RING + 6):g}",
        width=2.2 if lit else 1.4,
    )
    sheet.head(x + out * RING, ring, "right" if side == "encoder" else "left")
    sheet.box(name, side, box)
    if name == "decoder_attention":
        left, foot, size = (
            (x - sheet.half + 8, box + BOX - 9, 12)
            if sheet.width > PHONE
            else (x - sheet.half + 4, box + BOX - 11, 8)
        )
        sheet.path(
            f"M{left:g} {foot:g}v{-size}l{size} {size}z",
            ink_on(DECODER) if sheet.on(name) else "currentColor",
            1.2,
            lit=sheet.on(name),
        )
    sheet.plus(x, ring, lit, COLOURS[side])
    end = ring - RING
    if not pre_norm:
        sheet.path(f"M{x:g} {end:g}V{end - 5:g}")
        sheet.norm(side, end - 5 - BAR, lit)
        end -= 5 + BAR
    return end


def draw_entrance(sheet: Sheet, side: str, name: str, words: str) -> None:
    "Words, their embedding, and the plus with the sine of the positions."
    x, positions = sheet.middle[side], sheet.on("positions")
    sheet.text(x, HEIGHT - 8, words, 12)
    sheet.path(f"M{x:g} {HEIGHT - 17:g}V{EMBEDDING + 26:g}")
    sheet.head(x, EMBEDDING + 24)
    sheet.box(name, side, EMBEDDING, 24)
    ring = EMBEDDING - 20
    sheet.path(f"M{x:g} {EMBEDDING:g}V{ring + RING:g}M{x:g} {ring - RING:g}V{GROUND:g}")
    out = -1 if side == "encoder" else 1
    far = x + out * (sheet.half - 2)
    wave = x + out * (sheet.half - 34) if out > 0 else far
    colour = COLOURS[side] if positions else "currentColor"
    sheet.path(f"M{x + out * RING:g} {ring:g}H{(wave if out > 0 else wave + 32):g}", lit=positions)
    sheet.path(f"M{wave:g} {ring:g}q8 -14 16 0t16 0", colour, 2, lit=positions)
    if sheet.width > PHONE:
        sheet.text(
            far + out * 6, ring, "positions", 11, "start" if out > 0 else "end", lit=positions
        )
    sheet.plus(x, ring, positions, COLOURS[side])


def draw_frame(sheet: Sheet, side: str, top: float) -> None:
    "The stack's frame and how often it is repeated."
    x, w = sheet.middle[side] - sheet.reach - 8, 2 * sheet.reach + 16
    if side == "encoder":
        w -= sheet.reach - sheet.half - 8
    else:
        x, w = x + (sheet.reach - sheet.half - 8), w - (sheet.reach - sheet.half - 8)
    sheet.parts.append(
        f'<rect x="{x:g}" y="{top:g}" width="{w:g}" height="{GROUND - 2 - top:g}" rx="8"'
        f' fill="none" stroke="{GREY}" stroke-dasharray="4 3"/>'
    )
    far, anchor = (x + 2, "start") if side == "encoder" else (x + w - 2, "end")
    sheet.text(far, top - 9, f"{side} × N", 12, anchor)


def draw(width: int, on: On, pre_norm: bool) -> str:
    "The whole drawing, `width` pixels wide."
    sheet = Sheet(width, on)
    wide, tops, memory = width > PHONE, {}, 0.0
    for side, words in (("encoder", "source words"), ("decoder", "target, shifted right")):
        draw_entrance(
            sheet, side, "source_embedding" if side == "encoder" else "target_embedding", words
        )
        level = float(GROUND)
        for name in STACKS[side]:
            if name == "cross_attention":
                memory = level - 18 - (BAR + 4 if pre_norm else 0)
            level = draw_sublayer(
                sheet, side, name, level, memory if name == "cross_attention" else None, pre_norm
            )
        tops[side] = level
        draw_frame(sheet, side, level - 8)
    left, right = sheet.middle["encoder"], sheet.middle["decoder"]
    if pre_norm:  # the stream leaves the stack unnormalised: one more norm
        for side in STACKS:
            sheet.path(f"M{sheet.middle[side]:g} {tops[side]:g}v-26")
            sheet.norm(side, tops[side] - 26 - BAR, on(f"{side}_norm"))
            tops[side] -= 26 + BAR
    carried = on("bridge") or on("cross_attention")
    colour, high, lane = (
        BRIDGE if carried else GREY,
        tops["encoder"] - 26,
        (left + right) / 2 - (2 if wide else 4),
    )
    sheet.path(
        f"M{left:g} {tops['encoder']:g}V{high + 9:g}q0 -9 9 -9H{lane - 9:g}q9 0 9"
        f" 9V{memory - 9:g}q0 9 9 9H{right:g}",
        colour,
        2.2,
    )
    sheet.text((left + lane) / 2 + 4, high - 10, "memory (B, S, D)" if wide else "memory", 12)
    linear = tops["decoder"] - 26 - 24
    sheet.path(
        f"M{right:g} {tops['decoder']:g}V{linear + 24:g}M{right:g} {linear:g}v-16M{right:g}"
        f" {linear - 40:g}v-12"
    )
    sheet.head(right, linear - 53)
    sheet.box("output", "decoder", linear, 24)
    sheet.box("softmax", "decoder", linear - 40, 24)
    sheet.text(right, linear - 64, "probabilities of the next word" if wide else "next word", 12)
    edge, tie = right + sheet.half, min(right + sheet.reach + (46 if wide else 15), width - 4)
    sheet.path(
        f"M{edge:g} {EMBEDDING + 12:g}H{tie - 8:g}q8 0 8 -8V{linear + 20:g}q0 -8 -8 -8H{edge:g}",
        GREY,
        1.4,
        dash=True,
    )
    if wide:
        sheet.text(right - 10, tops["decoder"] - 17, "(B, T, D)", 11, "end")
        sheet.text(right + 10, linear - 8, "(B, T, V)", 11, "start")
        sheet.text(left + 10, EMBEDDING - 9, "(B, S, D)", 11, "start")
        sheet.text((edge + tie) / 2, linear + 3, "tied", 11)
    return sheet.svg(linear - 74)


def architecture(
    lit: Sequence[str] = ("all",),
    alt: str = "The architecture of the Transformer.",
    caption: str | None = None,
    pre_norm: bool = False,
) -> Picture:
    """The whole Transformer, its parts in `lit` in colour.

    lit: the names in PARTS, and positions, bridge, encoder, decoder, encoder_norm, decoder_norm,
    all. pre_norm: the norm stands before each sublayer, and one more above each stack."""
    names = set(lit)

    def on(name: str) -> bool:
        return is_lit(name, names)

    body = (
        f'<div class="tl-desk">{draw(COLUMN, on, pre_norm)}</div>'
        f'<div class="tl-phone" style="display:none">{draw(PHONE, on, pre_norm)}</div>'
    )
    return Picture(body, alt, caption)
