"""Chapter 20: what single heads do, and what is lost without them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from litbook import figures
from litbook.figures.drawing import square_colours


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
    told = ", ".join(
        f"row {i} reads {reads.strip('<>')} and says {says.strip('<>')}"
        for i, (reads, says) in enumerate(rows, 1)
    )
    return drawing.show(
        alt=f"{len(rows)} rows of the decoder: {told}.",
        caption=(
            f"Each of the {len(rows)} rows says the word after the one that it reads. With rows"
            " named by the wrong word, the map is off by one."
        ),
    )


def rates_by_head(by_head: Any, mean: Any) -> figures.Picture:
    """Alignment error rates of every head, (N, H), with the rates of each layer's mean as a last
    column."""
    by_head, mean = np.asarray(by_head), np.asarray(mean)
    n, h = np.unravel_index(by_head.argmin(), by_head.shape)
    layers, heads = by_head.shape
    return figures.heatmap(
        np.concatenate([by_head, mean[:, None]], 1),
        annotate=True,
        vmin=0,
        vmax=1,
        ylabel="layer",
        xlabel="head",
        rows=range(1, layers + 1),
        cols=[*range(1, heads + 1), "mean"],
        caption=(
            f"Head {h + 1} of layer {n + 1} aligns best of all heads, with {by_head.min():.1%}"
            f" errors; the mean of the heads of layer {mean.argmin() + 1} has {mean.min():.1%}."
        ),
        alt=(
            "Alignment error rate of every cross-attention head and of the mean of each layer's"
            f" heads; dark is better. Best head: layer {n + 1}, head {h + 1}, with"
            f" {by_head.min():.1%}; the lowest mean is {mean.min():.1%}."
        ),
    )


def head_turns(turns: Mapping[str, Any]) -> figures.Picture:
    """How far each head turns, kind -> (N, H), in hundredths, on one scale of colours; so small
    ones can be read as well."""
    hundredths = {kind: 100 * np.asarray(t) for kind, t in turns.items()}
    most = max(float(np.abs(t).max()) for t in hundredths.values())
    furthest, *others = sorted(hundredths, key=lambda kind: -np.abs(hundredths[kind]).max())
    n, h = np.unravel_index(np.abs(hundredths[furthest]).argmax(), hundredths[furthest].shape)
    told = ", ".join(f"{np.abs(t).max():.1f} in {kind}" for kind, t in hundredths.items())
    return figures.heatmaps(
        [
            {
                "matrix": t.round(1) + 0.0,
                "title": f"{kind}, hundredths",
                "rows": range(1, 1 + len(t)),
                "cols": range(1, 1 + t.shape[1]),
            }
            for kind, t in hundredths.items()
        ],
        annotate=True,
        fmt=".1f",
        xlabel="head",
        ylabel="layer",
        cmap="signed",
        vmin=-most,
        vmax=most,
        bar=False,
        caption=(
            f"Head {h + 1} of {furthest} layer {n + 1} turns most, by"
            f" {hundredths[furthest][n, h]:.1f} hundredths; "
        )
        + ", ".join(
            f"no {kind} head by more than {np.abs(hundredths[kind]).max():.1f}" for kind in others
        )
        + ".",
        alt=(
            "How far each head turns from one noun to the other as the adjective changes, in"
            f" hundredths. Furthest: {told}."
        ),
    )


def heads_off(
    steps: Sequence[int],
    by_turn: Sequence[float],
    by_size: Sequence[float],
    mixed: Any,
    common: float,
) -> figures.Picture:
    """Right pronouns by the number of heads off: the most turning first, by the turn's size, and
    random orders, (orders, steps), as a band."""
    mixed, half, bound = np.asarray(mixed), len(by_turn) // 2, (by_turn[0] + common) / 2
    fallen = [
        next((n for n, right in zip(steps, run) if right < bound), steps[-1])
        for run in (by_turn, by_size, *mixed)
    ]
    named = [f"all {n} heads off" if n == steps[-1] else f"{n} heads off" for n in fallen[:2]]
    return figures.curves(
        {
            "most turning first": (list(steps), by_turn),
            "largest turn first": (list(steps), by_size),
            "random order": (list(steps), mixed.mean(0), mixed.min(0), mixed.max(0)),
            "always one word": ([steps[0], steps[-1]], [common, common]),
        },
        xlabel="heads switched off",
        ylabel="right pronoun",
        styles={"always one word": ":"},
        colors={"random order": figures.GREY, "always one word": figures.INK},
        caption=(
            f"Half of what the model knows is lost with {named[0]} if the most turning go first,"
            f" with {named[1]} if the largest turns do, and with {np.mean(fallen[2:]):.0f} in"
            " random order."
        ),
        alt=(
            "Right pronouns over the number of heads switched off. With half of the heads off:"
            f" {by_turn[half]:.0%}, most turning first, {by_size[half]:.0%}, largest turn first,"
            f" and {mixed.mean(0)[half]:.0%} in random order; at the end {by_turn[-1]:.0%} and"
            f" {mixed.mean(0)[-1]:.0%}."
        ),
    )


def points_lost(left: Mapping[tuple[str, int, int], float], whole: float) -> figures.Picture:
    """A dot for each head, layer by head: its colour and number are the points of right answers
    lost when it alone is off.

    left: (kind, layer, head), from 0 -> the share that is right without it; whole: the share with
    all heads."""
    lost = {place: 100 * (whole - share) for place, share in left.items()}
    kinds = list(
        dict.fromkeys(kind for kind, _, _ in sorted(lost, key=lambda place: place[0] != "encoder"))
    )
    layers, heads = 1 + max(layer for _, layer, _ in lost), 1 + max(head for _, _, head in lost)
    scale, wide = (
        max(5.0, *lost.values()),
        36 * heads + 26,
    )  # a loss of little is not to look like much
    sheet = figures.Drawing(30 + wide * len(kinds), 66 + 36 * layers)
    for layer in range(layers):
        sheet.text(48, 46 + 36 * layer, f"layer {layer + 1}", 11, "end")
    for head in range(heads * len(kinds)):
        sheet.text(74 + 36 * head + 26 * (head // heads), 42 + 36 * layers, head % heads + 1, 11)
    for k, kind in enumerate(kinds):
        sheet.text(56 + wide * k + 18 * heads, 12, kind, 12, weight="bold").text(
            56 + wide * k + 18 * heads, 58 + 36 * layers, "head", 11
        )
    for (kind, layer, head), points in lost.items():
        x, y = 74 + wide * kinds.index(kind) + 36 * head, 46 + 36 * layer
        fill, ink = square_colours(max(points, 0) / scale, "cividis")
        sheet.parts.append(
            f'<circle cx="{x}" cy="{y}" r="15" fill="{fill}" stroke="currentColor"/>'
        )
        sheet.text(x, y, f"{points:.1f}".replace("-0.0", "0.0"), 10.5, color=ink)
    kind, layer, head = worst = max(lost, key=lost.__getitem__)
    free = sum(points < 0.5 for points in lost.values())
    return sheet.show(
        caption=(
            f"{free} of {len(lost)} heads can be switched off alone at a cost of less than half a"
            f" point; the costliest, head {head + 1} of {kind} layer {layer + 1}, costs"
            f" {lost[worst]:.1f}."
        ),
        alt=(
            f"A dot for each head of {' and '.join(kinds)}, a row for each layer; the number in it"
            f" says how many points are lost without it, {min(lost.values()):.1f} to"
            f" {lost[worst]:.1f}."
        ),
    )
