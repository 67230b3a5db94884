"""Chapters 6 to 9: layers of the encoder and the decoder, and what the whole model holds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from litbook import figures


def one_matrix(
    words: Sequence[str] = ("the", "animal", "street", "l'", "rue"),
    chosen: int = 1,
    vocab: int = 37_000,
    d_model: int = 512,
) -> figures.Picture:
    """Source, target and output over one matrix with a row for each word; vocab, d_model: the sizes
    that the caption counts."""

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        w, cell, size = (170, 24, 13) if wide else (100, 15, 11)
        gap = (width - 3 * w) / 3
        left, top = (width - 8 * cell) / 2, 130 + cell * chosen
        sheet = figures.Drawing(width, 161 + cell * len(words))
        middles = [gap / 2 + w / 2 + (w + gap) * i for i in range(3)]
        for x, colour, above, name in zip(
            middles,
            (figures.ENCODER, figures.DECODER, figures.DECODER),
            ("source id", "target id", "D numbers"),
            ("source", "target", "output"),
        ):
            sheet.text(x, 12, above, size).arrow(x, 22, x, 40).box(
                x - w / 2, 42, w, 28, name, colour, size=size + 1
            )
        for i, word in enumerate(words):
            for j in range(8):
                sheet.box(
                    left + cell * j,
                    130 + cell * i,
                    cell,
                    cell,
                    "",
                    figures.GREY if i == chosen else "none",
                )
            sheet.text(left - 8, 130 + cell * (i + 0.5), word, size, "end")
        one, two, three = middles
        sheet.arrow(one, 70, left + cell, top - 2).text(
            one - 6 if wide else one, 104, "its row", size
        )
        sheet.arrow(two, 70, two, top - 2).text(two + 8, 96, "its row", size, "start")
        sheet.arrow(three, 70, left + 8 * cell + 3, 128).text(three, 104, "every row", size)
        sheet.text(width / 2, 147 + cell * len(words), "one Parameter: V rows, D columns", size)
        return sheet.svg()

    one = vocab * d_model / 1e6
    return figures.Picture(
        figures.style.responsive(draw, figures.COLUMN),
        "Three boxes, source, target and output, point to one matrix with a row for each word: the"
        " two embeddings read out the row of an id, the output layer multiplies with every row.",
        f"Tied, a model of {vocab:,} tokens and width {d_model} holds {one:.1f} million numbers"
        f" here; untied it would hold {3 * one:.1f}.",
    )


def parameter_areas(parts: Mapping[str, float], layers: int = 6) -> figures.Picture:
    """The parts of a tied model with one joint vocabulary, where they stand in the architecture;
    area is in proportion to parameters.

    parts: "embedding", "encoder attention", "decoder attention", "cross-attention" and
    "feed-forward", of which each side has half, each of them in so many layers; what else there is
    stands in the last line."""
    half, whole = parts["feed-forward"] / 2, sum(parts.values())
    parts = {
        **{name: n for name, n in parts.items() if name != "feed-forward"},
        "encoder feed-forward": half,
        "decoder feed-forward": half,
    }
    towers = (
        (figures.ENCODER, ("encoder feed-forward", "encoder attention")),
        (figures.DECODER, ("decoder feed-forward", "cross-attention", "decoder attention")),
    )
    drawn = ["embedding", *(name for _, names in towers for name in names)]
    rest = ", ".join(f"{name} {n / 1e6:.2f} M" for name, n in parts.items() if name not in drawn)

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        tower, gap, size = (220, 76, 13) if wide else (142, 28, 11.5)
        left = (width - 2 * tower - gap) / 2
        per = (
            300 * tower / max(sum(parts[name] for name in names) for _, names in towers)
        )  # square pixels for a parameter
        ground = 344.0
        base = parts["embedding"] * per / (2 * tower + gap)
        sheet, level, tops = figures.Drawing(width, round(ground + base + 82)), {}, []

        def box(x: float, bottom: float, w: float, name: str, colour: str, of: str) -> float:
            height = parts[name] * per / w
            sheet.box(
                x,
                bottom - height,
                w,
                height,
                name,
                colour,
                colour,
                size=max(size, 12),
                sub=f"{of}{parts[name] / 1e6:.1f} M",
            )
            level[name] = bottom - height / 2
            return bottom - height

        for x, (colour, names) in zip((left, left + tower + gap), towers):
            sheet.arrow(x + tower / 2, ground + 26, x + tower / 2, ground + 1)
            bottom = ground
            for name in reversed(names):
                bottom = box(
                    x,
                    bottom,
                    tower,
                    name,
                    figures.BRIDGE if name == "cross-attention" else colour,
                    f"{layers} × {parts[name] / layers / 1e6:.2f} M = ",
                )
            tops.append(bottom)
        box(left, ground + 26 + base, 2 * tower + gap, "embedding", figures.GREY, "one matrix, ")
        lane, right = left + tower + gap / 2, left + tower + gap
        sheet.path(
            [
                (left + tower / 2, tops[0]),
                (left + tower / 2, tops[0] - 18),
                (lane, tops[0] - 18),
                (lane, level["cross-attention"]),
                (right - 1, level["cross-attention"]),
            ],
            figures.BRIDGE,
            2,
        )
        sheet.text(left + tower / 2 - 6, tops[0] - 29, "memory", 12)
        sheet.arrow(right + tower / 2, tops[1], right + tower / 2, tops[1] - 18)
        sheet.text(
            right + tower / 2,
            12,
            "linear: the embedding again" if wide else "linear: embedding",
            12,
        )
        edge, tie = right + tower, right + tower + (30 if wide else 12)
        for x1, y1, x2, y2 in (
            (edge, level["embedding"], tie, level["embedding"]),
            (tie, level["embedding"], tie, 12.0),
            (tie, 12.0, right + tower / 2 + (88 if wide else 60), 12.0),
        ):
            sheet.line(x1, y1, x2, y2, figures.GREY, dash=True)
        for x, word in ((left, "source words"), (right, "target, shifted right")):
            sheet.text(x + tower / 2, ground + base + 42, word, 12)
        sheet.text(width / 2, ground + base + 68, f"too thin to draw: {rest}", 11.5)
        return sheet.svg()

    most = max(drawn, key=parts.__getitem__)
    return figures.Picture(
        figures.style.responsive(draw, figures.COLUMN),
        "Boxes with areas in proportion to parameters, in millions: "
        + ", ".join(f"{name} {parts[name] / 1e6:.1f}" for name in drawn)
        + f". The largest single box is the {most}; the two feed-forward "
        f"boxes together hold {2 * half / 1e6:.1f}.",
        f"Of {whole / 1e6:.0f} million parameters the feed-forward boxes hold"
        f" {2 * half / whole:.0%}, the embedding {parts['embedding'] / whole:.0%} and the"
        f" attentions {sum(parts[n] for n in drawn if 'attention' in n) / whole:.0%}.",
    )


def across_then_alone(words: Sequence[str], chosen: str) -> figures.Picture:
    "An encoder layer's two steps: all words reach the chosen one, then each goes up alone."
    at = words.index(chosen)

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        left, step = (196, (width - 196) / len(words)) if wide else (0, width / len(words))
        sheet, middles = figures.Drawing(width, 264 if wide else 316), [
            left + step * (i + 0.5) for i in range(len(words))
        ]
        low, mid, high = (212, 116, 20) if wide else (236, 140, 44)
        for i, (word, x) in enumerate(zip(words, middles)):
            sheet.text(x, low + 40, word, 12)
            for row, fill in ((low, "none"), (mid, figures.ENCODER), (high, figures.ENCODER)):
                sheet.box(x - 22, row, 44, 22, "", fill if i == at else "none")
            sheet.arrow(x, mid, x, high + 23, None if i == at else figures.GREY)
            sheet.arrow(x, low, middles[at], mid + 23, figures.VALUE)
        if not wide:  # no room at the left: the steps stand below and above, in their order
            sheet.text(width / 2, high - 20, "2. feed-forward: each word alone", 12)
            return sheet.text(width / 2, low + 68, "1. self-attention: across words", 12).svg()
        for y, name in ((high + mid) / 2 + 11, ("feed-forward:", "each word alone")), (
            (mid + low) / 2 + 11,
            ("self-attention:", "across words"),
        ):
            for down, line in zip((-8, 8), name):
                sheet.text(4, y + down, line, 12, "start")
        return sheet.svg()

    return figures.Picture(
        figures.style.responsive(draw, figures.COLUMN),
        alt=(
            f"{len(words)} words in three rows. From the first row to the second all words send"
            f" arrows to {chosen}. From the second to the third each word goes straight up alone."
        ),
        caption=(
            f"Self-attention brings something of all {len(words)} words to {chosen}; the"
            " feed-forward then works on each word alone."
        ),
    )


def moved_by_layer(moved: Mapping[str, Any], words: Sequence[str], alike: Any) -> figures.Picture:
    """By how many percent each token's vector differs between two sentences, a row for each layer,
    the first before any layer.

    moved: layer -> (S,) percents. alike: (S,) booleans, True where both sentences have the same
    token."""
    rows = {name: figures.style.as_array(row, float) for name, row in moved.items()}
    same = figures.style.as_array(alike, bool)
    (_, start), (name, first), *_ = rows.items()
    at_first = start[same].max()
    told = "; ".join(
        f"{layer} {row[same].min():.1f} to {row[same].max():.1f}" for layer, row in rows.items()
    )
    return figures.heatmap(
        np.stack(list(rows.values())),
        rows=list(rows),
        cols=words,
        annotate=True,
        fmt=".1f",
        vmin=0,
        vmax=5,
        bar=False,
        turned=True,
        alt=(
            "A row for each layer and a column for each token. Percent by which the tokens that"
            f" both sentences share differ: {told}."
        ),
        caption=(
            "Before any layer the shared words"
            f" {'are the same' if at_first < 0.05 else f'differ by at most {at_first:.1f}%'}; after"
            f" {name} each of them differs, by {first[same].min():.1f}% to"
            f" {first[same].max():.1f}%."
        ),
    )


def norm_axes(words: Sequence[str], first: int) -> figures.Picture:
    """Which numbers share a mean: one word's features in LayerNorm, one feature of all words in
    BatchNorm. first: words of the first sentence."""

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        left, cell = (70, 52) if wide else (52, 30)
        bottom = 34 + 28 * len(words) + 12
        sheet, right = figures.Drawing(width, bottom + 30), width - 4 * cell - 20
        for x, title, below, by_feature in (
            (left, "LayerNorm", "one mean per word", False),
            (right, "BatchNorm", "one mean per feature", True),
        ):
            sheet.text(x + 2 * cell, 14, title, 13, weight="bold").text(
                x + 2 * cell, bottom + 16, below, 12
            )
            for i, word in enumerate(words):
                top = 34 + 28 * i + (12 if i >= first else 0)
                if x == left or wide:
                    sheet.text(x - 8, top + 14, word, 12, "end")
                for j in range(4):
                    on = j == 1 if by_feature else i == first - 1
                    sheet.box(
                        x + j * cell,
                        top,
                        cell,
                        28,
                        "",
                        figures.TEAL if on else "none",
                        figures.TEAL if on else figures.GREY,
                    )
        return sheet.svg()

    return figures.Picture(
        figures.style.responsive(draw, figures.COLUMN),
        f"Two grids of {len(words)} words by four features, two sentences and a pad. One row is"
        " coloured in the left grid, one column in the right.",
        "LayerNorm takes its mean over one word's features, BatchNorm over one feature of all"
        " words, the pad included.",
    )


def norm_orders() -> figures.Picture:
    "Post-norm and pre-norm, the wires of one sublayer; the word's own line is the thick one."

    def wires(sheet: figures.Drawing, x: float, pre: bool, box: float) -> None:
        branch = x + box + 24
        left, top = (branch, 170) if pre else (x, 50)
        sheet.text(x - 10, 222, "x", 13, "end").line(x, 234, x, 116, width=3.2).arrow(
            x, 92, x, 34 if pre else 77, width=3.2
        )
        sheet.line(x, 210, branch, 210).arrow(branch, 210, branch, 197 if pre else 157)
        sheet.line(branch, 128, branch, 104).arrow(branch, 104, x + 13, 104)
        sheet.box(x - 12, 92, 24, 24, "+", "#dddddd", size=13).box(
            branch - box / 2, 128, box, 28, "f", size=13
        )
        sheet.box(left - box / 2, top, box, 26, "norm", "#dddddd", size=13)
        sheet.arrow(left, top, left, 157 if pre else 34, width=1.3 if pre else 3.2)

    def draw(width: int) -> str:
        box = 84 if width > figures.PHONE else 60
        sheet = figures.Drawing(width, 268)
        for k, (name, formula) in enumerate(
            (("post-norm", "norm(x + f(x))"), ("pre-norm", "x + f(norm(x))"))
        ):
            middle = width / 2 * (k + 0.5)
            sheet.text(middle, 14, name, 13, weight="bold").text(
                middle, 256, formula, 12, mono=True
            )
            wires(sheet, middle - box / 2 - 12, bool(k), box)
        return sheet.svg()

    return figures.Picture(
        figures.style.responsive(draw, figures.COLUMN),
        "Two wirings of one sublayer. Post-norm: the word and f of it are added and the sum goes"
        " through the norm. Pre-norm: the norm stands before f.",
        "Post-norm has a norm on the word's own line, the thick one; pre-norm leaves that line"
        " untouched from bottom to top.",
    )


def residual_or_none(
    depths: Sequence[int],
    slopes: Mapping[bool, Any],
    trained: Sequence[int],
    right: Mapping[bool, Any],
) -> figures.Picture:
    """Stacks with residuals (True) and without (False), two panels.

    slopes: gradient at the words before the first step, (seeds, depths); right: share learned,
    (seeds, trained depths)."""
    names = {True: "residual", False: "none"}
    left, after = (
        {names[r]: figures.spread(found[r], at) for r in names}
        for found, at in ((slopes, depths), (right, trained))
    )
    return figures.curve_panels(
        [
            {"series": left, "title": "Gradient at the words", "xlabel": "layers", "logy": True},
            {
                "series": after,
                "title": "Share learned in 150 steps",
                "xlabel": "layers",
                "hline": (1 / 8, "guessing"),
            },
        ],
        colors={"none": figures.FAULT},
        styles={"none": "--"},
        alt=(
            f"Left: gradient at the words at {depths[0]} and at {depths[-1]} layers:"
            f" {figures.heights(left, depths[0], depths[-1], fmt='{:.0e}')}. Right: share learned"
            f" at {trained[0]} and at {trained[-1]} layers:"
            f" {figures.heights(after, trained[0], trained[-1])}."
        ),
        caption=(
            f"Through {trained[-1]} layers the stack learns {after['residual'][1][-1]:.0%} of the"
            f" phrases with residuals and {after['none'][1][-1]:.0%} without."
        ),
    )


def post_or_pre(
    by_layer: Mapping[str, Any], losses: Mapping[float, Mapping[str, Any]]
) -> figures.Picture:
    """Both orders of the norm, three panels: first gradients by layer, and losses by step at each
    learning rate.

    by_layer: "post-norm" and "pre-norm" -> (seeds, layers); losses: rate -> setting -> (seeds,
    steps)."""
    layers = len(by_layer["post-norm"][0])
    lines = {name: figures.spread(runs, range(1, layers + 1)) for name, runs in by_layer.items()}
    means = {
        rate: {name: np.asarray(runs)[:, -10:].mean() for name, runs in settings.items()}
        for rate, settings in losses.items()
    }
    told = {
        rate: ", ".join(f"{name} {mean:.2f}" for name, mean in ends.items())
        for rate, ends in means.items()
    }
    highest = max(losses)
    return figures.curve_panels(
        [
            {"series": lines, "title": "Gradient at the start", "xlabel": f"layer of {layers}"},
            *(
                {
                    "series": {name: figures.spread(runs) for name, runs in settings.items()},
                    "title": f"Six layers, rate {rate}",
                    "xlabel": "step",
                    "ylabel": "loss (nats)",
                }
                for rate, settings in losses.items()
            ),
        ],
        alt=(
            f"Gradient at layer 1 and at layer {layers}: {figures.heights(lines, 1, layers)}. Loss"
            " over the last ten steps, mean of the seeds: "
        )
        + "; ".join(f"rate {rate}, {ends}" for rate, ends in told.items())
        + ".",
        caption=(
            "The last layer's first gradient is"
            f" {lines['post-norm'][1][-1] / lines['pre-norm'][1][-1]:.1f} times as large under"
            f" post-norm. Loss at the end, rate {highest}:"
            f" {told[highest].replace('post, warm-up', 'post-norm with warm-up')}."
        ),
    )


def leaning_on(
    shares: Any, readers: Sequence[str], words: Sequence[str], at: str
) -> figures.Picture:
    """Shares of the words in the gradient of a score at one of them, a row for each reader; the
    caption follows the last word."""
    array = figures.style.as_array(shares, float)
    told = "; ".join(
        f"{name}: " + ", ".join(f"{word} {share:.2f}" for word, share in zip(words, row))
        for name, row in zip(readers, array)
    )
    return figures.heatmap(
        array,
        rows=readers,
        cols=words,
        annotate=True,
        vmin=0,
        vmax=float(array.max()),
        bar=False,
        alt=f"Shares of the gradient, a row for each of {len(readers)} readers. {told}.",
        caption=f"Share of {words[-1]} in the gradient at {at}: "
        + ", ".join(f"{name} {row[-1]:.0%}" for name, row in zip(readers, array))
        + ".",
    )


def who_reads(
    target: Any, source: Any, rows: Sequence[str], cols: Sequence[str]
) -> figures.Picture:
    """What each row of a decoder layer reads: booleans over the target, (T, T), and over the
    source, (T, S)."""
    of_source = figures.style.as_array(source, bool)
    ahead = int(np.triu(figures.style.as_array(target, bool), 1).sum())
    return figures.heatmaps(
        [
            {
                "matrix": target,
                "title": "Reads of the target",
                "xlabel": "target word",
                "ylabel": "output row",
                "cols": rows,
                "rows": rows,
            },
            {
                "matrix": source,
                "title": "Reads of the source",
                "xlabel": "source word",
                "cols": cols,
                "rows": rows,
            },
        ],
        cmap="mask",
        alt=(
            "Light cells are read. Of the target a lower triangle, plus each padded row reading"
            " itself through its residual; of the source the words before the padding."
        ),
        caption=(
            f"Every row reads {of_source.all(0).sum()} of the {len(cols)} source words, and no row"
            f" reads the other {(~of_source.any(0)).sum()}. {ahead or 'No'} target word is read by"
            " a row before it."
        ),
    )


def known_and_found(
    known: Any, weights: Any, rows: Sequence[Any], cols: Sequence[Any], fixed: Any
) -> figures.Picture:
    """The known alignment beside the weights of a bridge, (T, S) each.

    fixed: (T,) booleans, True where the next word follows from the last one and needs no source."""
    truth, found, sure = (figures.style.as_array(one, float) for one in (known, weights, fixed))
    hit, sure = found.argmax(1) == truth.argmax(1), sure > 0
    return figures.heatmaps(
        [
            {
                "matrix": matrix,
                "title": title,
                "xlabel": "source word",
                "ylabel": "word to be written",
                "rows": rows,
                "cols": cols,
            }
            for matrix, title in ((truth, "Known alignment"), (found, "Layer 2"))
        ],
        vmin=0,
        vmax=1,
        alt=(
            "Target words against source words: the known alignment, and the weights of the second"
            " decoder layer. Weight on the aligned word, row by row: "
        )
        + ", ".join(f"{word} {w:.2f}" for word, w in zip(rows, (found * truth).sum(1)))
        + ".",
        caption=(
            f"The aligned word has the most weight in {hit[~sure].sum()} of {(~sure).sum()} rows"
            f" that need the source, and in {hit[sure].sum()} of {sure.sum()} whose word is fixed."
        ),
    )
