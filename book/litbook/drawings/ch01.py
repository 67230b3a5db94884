"""Chapter 1: reading in a loop, and by a look."""

from collections.abc import Sequence

from litbook import figures

SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"


def unrolled(words: Sequence[str], states) -> figures.Picture:
    """A recurrent network over `words`: the state after each, (T, H), and the step that leads from
    one to the next."""
    size = states.shape[1]
    middle, bottom = 34 + 23 * size, 34 + 46 * size
    sheet = figures.Drawing(18 + 92 * len(words), bottom + 50)
    sheet.row(16, bottom + 23, words, 92, 62, 25)
    for t, state in enumerate(states):
        left = 24 + 92 * t
        title = f"h{SUBSCRIPTS[t + 1]}"
        sheet.matrix(left, 34, state[:, None], cell=46, fmt="{:.4f}", title=title)
        sheet.arrow(left + 23, bottom + 22, left + 23, bottom + 3)
        sheet.text(left + 31, bottom + 13, "W", 11, "start", mono=True)
        if t:
            sheet.arrow(left - 44, middle, left - 3, middle)
            sheet.text(left - 24, middle - 12, "U", mono=True)
    return sheet.show(
        f"{len(words)} words in a row, each with the {size} numbers of the state after it; an arrow"
        " labeled U leads from each state to the next.",
        f"The last of the {len(words)} states waits for all the others.",
    )


def reading(words: Sequence[str], look: bool) -> figures.Drawing:
    """The words and, on a clock below them, the result for each: at once, or each after the one
    before."""
    n = len(words)
    ticks = 1 if look else n
    sheet = figures.Drawing(48 + 62 * n, 88 + 42 * ticks)
    for t in range(ticks):
        sheet.text(4, 106 + 42 * t, f"tick {t + 1}", 11, "start")
        sheet.line(44, 106 + 42 * t, sheet.width, 106 + 42 * t, figures.GRAY, dash=True, width=0.5)
    title = "look: 1 tick" if look else f"loop: {n} ticks"
    sheet.text(44 + 31 * n, 10, title, 12, weight="bold").row(48, 24, words, 62, 54, 24)
    for t in range(n):
        x, y = 48 + 62 * t, 93 if look else 93 + 42 * t
        color, width = (figures.QUERY, 1.6) if look and t == n - 1 else (figures.GRAY, 0.7)
        for s in range(n) if look else [t]:
            sheet.line(x + 27, y, 75 + 62 * s, 49, color, width=width)
        sheet.box(x, y, 54, 26, f"{'y' if look else 'h'}{SUBSCRIPTS[t + 1]}", "#dddddd")
        if t and not look:
            sheet.arrow(x - 35, y - 15, x - 2, y + 9)
    return sheet


def loop_and_look(words: Sequence[str]) -> figures.Picture:
    "The same words read in a loop and by attention: on which tick is each result there?"
    n = len(words)
    return figures.side_by_side(
        [reading(words, look) for look in (False, True)],
        f"{n} words, read twice. In the loop state 1 is there at tick 1 and state {n} at tick {n},"
        f" each waiting for the one before. In the look all {n} results are there at tick 1, each"
        f" joined to all {n} words.",
        f"For {n} words the loop takes {n} ticks, and the look takes one.",
    )
