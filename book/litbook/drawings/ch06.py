"""Chapter 6: over what a norm takes its mean, and where it stands."""

from collections.abc import Sequence

from litbook import figures


def norm_axes(words: Sequence[str], first: int) -> figures.Picture:
    """Which numbers share a mean: one word's features in LayerNorm, one feature of all words in
    BatchNorm. first: words of the first sentence."""
    bottom = 46 + 28 * len(words)
    sheet = figures.Drawing(344, bottom + 30)
    for x, title, below in (
        (52, "LayerNorm", "one mean per word"),
        (204, "BatchNorm", "one mean per feature"),
    ):
        sheet.text(x + 60, 14, title, 13, weight="bold").text(x + 60, bottom + 16, below)
        for i, word in enumerate(words):
            top = 34 + 28 * i + (12 if i >= first else 0)
            if title == "LayerNorm":
                sheet.text(x - 8, top + 14, word, 12, "end")
            for j in range(4):
                shared = i == first - 1 if title == "LayerNorm" else j == 1
                paint = (figures.TEAL, figures.TEAL) if shared else ("none", figures.GREY)
                sheet.box(x + j * 30, top, 30, 28, "", *paint)
    return sheet.show(
        f"Two grids of {len(words)} words by four features, two sentences and a pad. One row is"
        " coloured in the left grid, one column in the right.",
        "LayerNorm takes its mean over one word's features, BatchNorm over one feature of all"
        " words, the pad included.",
    )


def norm_orders() -> figures.Picture:
    "Post-norm and pre-norm, the wires of one sublayer; the word's own line is the thick one."
    sheet = figures.Drawing(344, 268)
    for x, name, formula in (
        (48, "post-norm", "norm(x + f(x))"),
        (220, "pre-norm", "x + f(norm(x))"),
    ):
        pre, branch = name == "pre-norm", x + 84
        sheet.text(x + 42, 14, name, 13, weight="bold").text(x + 42, 256, formula, mono=True)
        sheet.text(x - 10, 222, "x", 13, "end").line(x, 234, x, 116, width=3.2)
        sheet.arrow(x, 92, x, 34 if pre else 77, width=3.2)
        sheet.line(x, 210, branch, 210).arrow(branch, 210, branch, 197 if pre else 157)
        sheet.line(branch, 128, branch, 104).arrow(branch, 104, x + 13, 104)
        sheet.box(x - 12, 92, 24, 24, "+", "#dddddd", size=13)
        sheet.box(branch - 30, 128, 60, 28, "f", size=13)
        norm, top, end, thick = (branch, 170, 157, 1.3) if pre else (x, 50, 34, 3.2)
        sheet.box(norm - 30, top, 60, 26, "norm", "#dddddd", size=13)
        sheet.arrow(norm, top, norm, end, width=thick)
    return sheet.show(
        "Two wirings of one sublayer. Post-norm: the word and f of it are added and the sum goes"
        " through the norm. Pre-norm: the norm stands before f.",
        "Post-norm has a norm on the word's own line, the thick one; pre-norm leaves that line"
        " untouched from bottom to top.",
    )
