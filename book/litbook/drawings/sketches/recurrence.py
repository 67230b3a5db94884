"""Chapters 1 and 23: reading in a loop, and by a look."""

from collections.abc import Sequence
from typing import Any

from litbook import figures
from litbook.figures.style import COLUMN, PHONE, responsive

SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"


def unrolled(words: Sequence[str], states: Any) -> figures.Picture:
    """A recurrent network over `words`: the state after each, (T, H), and the step that leads from
    one to the next."""
    drawing = figures.Drawing(18 + 92 * len(words), 84 + 46 * states.shape[1])
    bottom, middle = 34 + 46 * states.shape[1], 34 + 23 * states.shape[1]
    for t, (word, state) in enumerate(zip(words, states)):
        left = 24 + 92 * t
        drawing.matrix(left, 34, state[:, None], cell=46, fmt="{:.4f}")
        drawing.text(left + 23, 18, f"h{SUBSCRIPTS[t + 1]}", 13, weight="bold")
        drawing.arrow(left + 23, bottom + 22, left + 23, bottom + 3)
        drawing.text(left + 31, bottom + 13, "W", 11, "start", mono=True)
        drawing.box(left - 8, bottom + 23, 62, 25, word)
        if t:
            drawing.arrow(left - 44, middle, left - 3, middle)
            drawing.text(left - 24, middle - 12, "U", mono=True)
    return drawing.show(
        alt=(
            f"{len(words)} words in a row, each with the {states.shape[1]} numbers of the state"
            " after it; an arrow labelled U leads from each state to the next."
        ),
        caption=f"The last of the {len(words)} states waits for all the others.",
    )


def draw_reading(
    drawing: figures.Drawing, words: Sequence[str], left: float, top: float, look: bool
) -> None:
    """The words and, on a clock below them, the result for each: at once, or each after the one
    before."""
    n = len(words)
    drawing.text(
        left + 31 * n - 4,
        top + 10,
        f"{'look' if look else 'loop'}: {'1 tick' if look else f'{n} ticks'}",
        12,
        weight="bold",
    )
    for t, word in enumerate(words):
        x, y = left + 62 * t, top + 93 + (0 if look else 42 * t)
        drawing.box(x, top + 24, 54, 24, word)
        for s in range(n) if look else [t]:
            last = look and t == n - 1
            drawing.line(
                x + 27,
                y,
                left + 62 * s + 27,
                top + 49,
                figures.QUERY if last else figures.GREY,
                width=1.6 if last else 0.7,
            )
        drawing.box(x, y, 54, 26, f"{'y' if look else 'h'}{SUBSCRIPTS[t + 1]}", "#dddddd")
        if t and not look:
            drawing.arrow(x - 35, y - 15, x - 2, y + 9)


def loop_and_look(words: Sequence[str]) -> figures.Picture:
    """The same words read in a loop and by attention, on one clock: on which tick is each result
    there? On a phone one is below the other."""
    n = len(words)

    def sheet(width: int) -> str:
        wide = width > PHONE
        drawing = figures.Drawing(
            80 + 124 * n if wide else 48 + 62 * n, 88 + 42 * n + (0 if wide else 146)
        )
        for t in range(n if wide else n + 1):
            y = 106 + 42 * t + (0 if t < n else 88)
            drawing.text(4, y, f"tick {t % n + 1}", 11, "start")
            drawing.line(44, y, drawing.width, y, figures.GREY, dash=True, width=0.5)
        draw_reading(drawing, words, 48, 0, False)
        draw_reading(drawing, words, *((64 + 62 * n, 0) if wide else (48, 42 * n + 88)), True)
        return drawing.svg()

    return figures.Picture(
        responsive(sheet, COLUMN),
        f"{n} words, read twice. In the loop state 1 is there at tick 1 and state {n} at tick {n},"
        f" each waiting for the one before. In the look all {n} results are there at tick 1, each"
        f" joined to all {n} words.",
        f"For {n} words the loop takes {n} ticks, and the look takes one.",
    )


def two_readers() -> figures.Picture:
    """The two RNN translators of chapter 23: one summary of the sentence, or a look at all its
    states for each word."""
    sheet = figures.Drawing(350, 236)
    for top, look in ((-40, False), (94, True)):
        for j, word in enumerate(("it", "was", "tired")):
            x = 12 + 56 * j
            sheet.box(x, top + 62, 42, 26, "h" + "₁₂₃"[j], figures.ENCODER, figures.ENCODER)
            sheet.text(x + 21, top + 108, word)
            if j:
                sheet.arrow(x - 14, top + 70, x - 1, top + 70)
                sheet.arrow(x - 1, top + 80, x - 14, top + 80)
            if look:
                sheet.line(x + 21, top + 61, 252, top + 34, figures.BRIDGE, width=(0.8, 1.2, 4)[j])
        for t, word in enumerate(("il", "était", "fatigué")):
            x = 196 + 52 * t
            sheet.box(x - 4, top + 62, 40, 26, "s" + "₁₂₃"[t], figures.DECODER, figures.DECODER)
            sheet.text(x + 16, top + 108, word)
            if t:
                sheet.arrow(x - 16, top + 75, x - 5, top + 75)
        if look:
            sheet.arrow(252, top + 34, 310, top + 60, figures.BRIDGE)
            sheet.text(204, top + 22, "a look for each word", 11)
        else:
            sheet.arrow(167, top + 75, 190, top + 75, figures.BRIDGE)
            sheet.text(204, top + 54, "one summary", 11)
    return sheet.show(
        alt=(
            "Twice an encoder of three states that reads from both ends and a decoder of three"
            " states. Above, one arrow leads from the one to the other; below, the state that says"
            " fatigué looks at all three, most at tired."
        ),
        caption=(
            "Above, one summary is all that the decoder gets; below, each word takes a look of its"
            " own."
        ),
    )
