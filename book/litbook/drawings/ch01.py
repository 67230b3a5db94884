"""Chapter 1: a sequence in an RNN, and by attention."""

from collections.abc import Sequence

from litbook import figures

SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"


def unrolled(words: Sequence[str], states) -> figures.Picture:
    """A recurrent network over `words`: the hidden state after each, (T, d_h), and the step that
    leads from one to the next."""
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
        f"{len(words)} tokens in a row, each with the hidden state after it, of dimension {size};"
        " an arrow labeled U leads from each state to the next.",
        f"The last of the {len(words)} states waits for all the others.",
    )


def steps(words: Sequence[str], attention: bool) -> figures.Drawing:
    """The tokens and, step by step below them, the output for each: at once, or each after the one
    before."""
    n = len(words)
    n_steps = 1 if attention else n
    sheet = figures.Drawing(48 + 62 * n, 88 + 42 * n_steps)
    for t in range(n_steps):
        sheet.text(4, 106 + 42 * t, f"step {t + 1}", 11, "start")
        sheet.line(44, 106 + 42 * t, sheet.width, 106 + 42 * t, figures.GRAY, dash=True, width=0.5)
    title = "attention: 1 step" if attention else f"RNN: {n} steps"
    sheet.text(44 + 31 * n, 10, title, 12, weight="bold").row(48, 24, words, 62, 54, 24)
    for t in range(n):
        x, y = 48 + 62 * t, 93 if attention else 93 + 42 * t
        color, width = (figures.QUERY, 1.6) if attention and t == n - 1 else (figures.GRAY, 0.7)
        for s in range(n) if attention else [t]:
            sheet.line(x + 27, y, 75 + 62 * s, 49, color, width=width)
        sheet.box(x, y, 54, 26, f"{'y' if attention else 'h'}{SUBSCRIPTS[t + 1]}", "#dddddd")
        if t and not attention:
            sheet.arrow(x - 35, y - 15, x - 2, y + 9)
    return sheet


def rnn_and_attention(words: Sequence[str]) -> figures.Picture:
    "The same tokens in an RNN and in attention: at which step is each output there?"
    n = len(words)
    return figures.side_by_side(
        [steps(words, attention) for attention in (False, True)],
        f"{n} tokens, processed twice. In the RNN state 1 is there at step 1 and state {n} at step"
        f" {n}, each waiting for the one before. With attention all {n} outputs are there at step"
        f" 1, each connected to all {n} tokens.",
        f"Sequential steps for {n} tokens: {n} in the RNN, one with attention.",
    )
