"""Chapter 1: reading in a loop, and by a look."""

from collections.abc import Sequence

from litbook import figures

SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"


def unrolled(words: Sequence[str], states) -> figures.Picture:
    """A recurrent network over `words`: the state after each, (T, H), and the step that leads from
    one to the next."""
    size = states.shape[1]
    sheet, bottom = figures.Drawing(18 + 92 * len(words), 84 + 46 * size), 34 + 46 * size
    for t, (word, state) in enumerate(zip(words, states)):
        left = 24 + 92 * t
        sheet.matrix(left, 34, state[:, None], cell=46, fmt="{:.4f}")
        sheet.text(left + 23, 18, f"h{SUBSCRIPTS[t + 1]}", 13, weight="bold")
        sheet.arrow(left + 23, bottom + 22, left + 23, bottom + 3)
        sheet.text(left + 31, bottom + 13, "W", 11, "start", mono=True)
        sheet.box(left - 8, bottom + 23, 62, 25, word)
        if t:
            sheet.arrow(left - 44, 34 + 23 * size, left - 3, 34 + 23 * size)
            sheet.text(left - 24, 22 + 23 * size, "U", mono=True)
    return sheet.show(
        f"{len(words)} words in a row, each with the {size} numbers of the state after it; an arrow"
        " labelled U leads from each state to the next.",
        f"The last of the {len(words)} states waits for all the others.",
    )


def draw_reading(sheet, words, left: float, top: float, look: bool) -> None:
    """The words and, on a clock below them, the result for each: at once, or each after the one
    before."""
    n = len(words)
    ticks = "look: 1 tick" if look else f"loop: {n} ticks"
    sheet.text(left + 31 * n - 4, top + 10, ticks, 12, weight="bold")
    for t, word in enumerate(words):
        x, y = left + 62 * t, top + 93 + (0 if look else 42 * t)
        sheet.box(x, top + 24, 54, 24, word)
        last = look and t == n - 1
        color, width = (figures.QUERY, 1.6) if last else (figures.GREY, 0.7)
        for s in range(n) if look else [t]:
            sheet.line(x + 27, y, left + 62 * s + 27, top + 49, color, width=width)
        sheet.box(x, y, 54, 26, f"{'y' if look else 'h'}{SUBSCRIPTS[t + 1]}", "#dddddd")
        if t and not look:
            sheet.arrow(x - 35, y - 15, x - 2, y + 9)


def loop_and_look(words: Sequence[str]) -> figures.Picture:
    """The same words read in a loop and by attention, on one clock: on which tick is each result
    there? On a phone one is below the other."""
    n = len(words)

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        size = (80 + 124 * n, 88 + 42 * n) if wide else (48 + 62 * n, 234 + 42 * n)
        sheet = figures.Drawing(*size)
        for t in range(n if wide else n + 1):
            y = 106 + 42 * t + (0 if t < n else 88)
            sheet.text(4, y, f"tick {t % n + 1}", 11, "start")
            sheet.line(44, y, sheet.width, y, figures.GREY, dash=True, width=0.5)
        draw_reading(sheet, words, 48, 0, False)
        draw_reading(sheet, words, *((64 + 62 * n, 0) if wide else (48, 42 * n + 88)), True)
        return sheet.svg()

    return figures.sketch(
        draw,
        f"{n} words, read twice. In the loop state 1 is there at tick 1 and state {n} at tick {n},"
        f" each waiting for the one before. In the look all {n} results are there at tick 1, each"
        f" joined to all {n} words.",
        f"For {n} words the loop takes {n} ticks, and the look takes one.",
    )
