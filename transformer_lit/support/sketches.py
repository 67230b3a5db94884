"Drawings of single chapters: a tree of words, a cache, rows of the decoder, runs of equal words; and sentences made from numbers."
from collections.abc import Mapping, Sequence

import numpy as np

from transformer_lit.support import figures


def word_tree(tree: Mapping[str, Mapping[str, float]], said: str) -> figures.Picture:
    """Two words after `said`, with their probabilities.

    `tree[""]` holds the first words, `tree[word]` what may follow each. The likeliest pair is coloured, and the product
    of both probabilities stands at its end."""
    whole = {(word, end): p * q for word, p in tree[""].items() for end, q in tree[word].items()}
    best = max(whole, key=whole.__getitem__)
    drawing, top = figures.Drawing(600, 52 + 42 * len(whole)), 10.0
    start = drawing.height / 2 - 20
    drawing.box(10, start, 90, 30, said)
    for word, p in tree[""].items():
        middle = top + 21 * len(tree[word]) - 6
        color = figures.DECODER if word == best[0] else None
        drawing.arrow(100, start + 15, 198, middle, color=color)
        drawing.box(200, middle - 15, 70, 30, word, color=color)
        drawing.text(150, middle, f"{p:.2f}", size=11)
        for end, q in tree[word].items():
            color = figures.DECODER if (word, end) == best else None
            drawing.arrow(270, middle, 378, top + 15, color=color)
            drawing.box(380, top, 90, 30, end, color=color)
            drawing.text(348, middle + 0.7 * (top + 15 - middle) - 13, f"{q:.2f}", size=11)
            drawing.text(510, top + 19, f"{whole[word, end]:.4f}", size=12)
            top += 42
        top += 10
    first = max(tree[""], key=tree[""].__getitem__)
    below = max(p for (word, _), p in whole.items() if word == first)
    return drawing.show(alt=(
        f"A tree of two words. '{first}' begins with {tree[''][first]:.2f}, and no end makes more than {below:.4f} of it; "
        f"'{best[0]}' with {tree[''][best[0]]:.2f} and then '{best[1]}' make {whole[best]:.4f}, the likeliest sentence, coloured."))


def cached_rows(steps: int = 4) -> figures.Picture:
    "The scores computed at the last of some steps, without and with a cache."
    drawing = figures.Drawing(560, 88 + 28 * steps)
    for x, cached, title, note in ((20, False, f"without a cache, step {steps}", f"{steps} rows computed"),
                                   (300, True, f"with a cache, step {steps}", f"1 row computed, k1 to k{steps - 1} kept")):
        drawing.text(x + 110, 20, title, size=12)
        for row in range(steps):
            past = cached and row < steps - 1
            for col in range(steps):
                empty = past or col > row
                colour = figures.DECODER if row == steps - 1 else figures.GREY
                drawing.box(x + 50 + 28 * col, 40 + 28 * row, 26, 26, fill="none" if empty else colour, dash=empty)
            drawing.text(x + 25, 54 + 28 * row, f"q{row + 1}", size=11, color=figures.GREY if past else None)
            drawing.text(x + 63 + 28 * row, 60 + 28 * steps, f"k{row + 1}", size=11)
        drawing.text(x + 110, 80 + 28 * steps, note, size=11)
    return drawing.show(alt=(
        f"Two triangles of attention scores, {steps} by {steps}. Without a cache all {steps} rows are filled at step {steps}; "
        f"with it only the last row, and {steps - 1} of the {steps} keys come from before."))


def read_and_said(words: Sequence[str]) -> figures.Picture:
    "The rows of a decoder: each reads one of `words` and says the next."
    rows = list(zip(words, words[1:]))
    drawing = figures.Drawing(36 + 76 * len(rows), 150)
    for i, (reads, says) in enumerate(rows):
        x = 62 + 76 * i
        drawing.text(x, 132, reads, 12)
        drawing.box(x - 32, 62, 64, 28, f"row {i + 1}", figures.DECODER, figures.DECODER)
        drawing.text(x, 22, says, 12, weight="bold")
        drawing.arrow(x, 122, x, 92)
        drawing.arrow(x, 60, x, 34)
    drawing.text(4, 112, "reads", 11, "start")
    drawing.text(4, 46, "says", 11, "start")
    told = ", ".join(f"row {i} reads {reads.strip('<>')} and says {says.strip('<>')}" for i, (reads, says) in enumerate(rows, 1))
    return drawing.show(alt=f"{len(rows)} rows of the decoder: {told}.")


def runs(rows: Sequence[str], cols: Sequence[str]) -> np.ndarray:
    "How long a run of equal words ends at each pair of words: (rows, cols)."
    length = np.zeros((len(rows) + 1, len(cols) + 1), int)
    for i, j in np.ndindex(len(rows), len(cols)):
        if rows[i] == cols[j]:
            length[i + 1, j + 1] = length[i, j] + 1
    return length[1:, 1:]


def equal_runs(output: str, reference: str) -> figures.Picture:
    "Words of an output against words of a reference, with the length of the run of equal words that ends at each pair."
    rows, cols = output.split(), reference.split()
    lengths = runs(rows, cols)
    ends = [int(lengths[i, j]) for i, j in np.ndindex(*lengths.shape)
            if lengths[i, j] and not (i + 1 < len(rows) and j + 1 < len(cols) and lengths[i + 1, j + 1])]
    return figures.heatmap(lengths, rows=rows, cols=cols, annotate=True, fmt=".0f", title="runs of words",
                           alt="Runs of equal words along the diagonal, of " + ", ".join(map(str, ends)) + " words.")


class Prose:
    "Sentences made from numbers; a notebook shows them as text, not as output."
    def __init__(self, *texts: str):
        self.texts = texts

    def _repr_markdown_(self) -> str:
        return "\n\n".join(self.texts)

    def __repr__(self) -> str:
        return "\n".join(self.texts)
