"""Chapter 20: rows of a decoder, and what is lost without a head."""

from collections.abc import Mapping, Sequence

from litbook import figures
from transformer_lit.attention_maps import piece_names, read_pairs
from transformer_lit.translation import Translator


def read_and_said(words: Sequence[str]) -> figures.Picture:
    "The rows of a decoder: each reads one of `words` and says the next."
    rows = list(zip(words, words[1:]))
    sheet = figures.Drawing(36 + 76 * len(rows), 150)
    names = [f"row {i}" for i in range(1, len(words))]
    sheet.row(30, 62, names, 76, 64, 28, fill=figures.DECODER, color=figures.DECODER)
    for x, (reads, says) in zip(range(62, sheet.width, 76), rows):
        sheet.text(x, 132, reads).text(x, 22, says, weight="bold")
        sheet.arrow(x, 122, x, 92).arrow(x, 60, x, 34)
    sheet.text(4, 112, "reads", 11, "start").text(4, 46, "says", 11, "start")
    told = ", ".join(
        f"row {i} reads {reads.strip('<>')} and says {says.strip('<>')}"
        for i, (reads, says) in enumerate(rows, 1)
    )
    return sheet.show(
        alt=f"{len(rows)} rows of the decoder: {told}.",
        caption=(
            f"Each of the {len(rows)} rows says the word after the one that it reads. With rows"
            " named by the wrong word, the map is off by one."
        ),
    )


def points_lost(left: Mapping[tuple[str, int, int], float], whole: float) -> figures.Picture:
    """A map for each kind, layer by head: the points of right answers lost when a head alone is
    off.

    left: (kind, layer, head), from 0 -> the share that is right without it; whole: the share with
    all heads."""
    lost = {place: round(100 * (whole - share), 1) + 0.0 for place, share in left.items()}
    kinds = sorted({kind for kind, _, _ in lost}, key=lambda kind: (kind != "encoder", kind))
    layers, heads = (range(1 + max(place[k] for place in lost)) for k in (1, 2))
    kind, layer, head = worst = max(lost, key=lost.__getitem__)
    free = sum(points < 0.5 for points in lost.values())
    return figures.heatmaps(
        [
            {"matrix": [[lost[kind, n, h] for h in heads] for n in layers], "title": kind}
            for kind in kinds
        ],
        rows=[f"layer {n + 1}" for n in layers],
        cols=[h + 1 for h in heads],
        xlabel="head",
        annotate=True,
        fmt=".1f",
        vmin=0,
        vmax=max(5.0, *lost.values()),  # a loss of little is not to look like much
        bar=False,
        caption=f"{free} of {len(lost)} heads can be switched off alone at a cost of less than half"
        f" a point; the costliest, head {head + 1} of {kind} layer {layer + 1}, costs"
        f" {lost[worst]:.1f}.",
        alt=f"A cell for each head of {' and '.join(kinds)}, a row for each layer; the number in it"
        f" says how many points are lost without it, {min(lost.values()):.1f} to"
        f" {lost[worst]:.1f}.",
    )


def rows_side_by_side(
    translator: Translator, pairs: Sequence[tuple[str, str, str]], place: tuple[str, int, int]
) -> figures.Picture:
    """One head's row for a word said, for each (English, French, word): the last row that says it,
    a column each.

    place: (kind, layer, head), from 0; a column is named by the word before the full stop and the
    word said. Raises ValueError for a word not said, and for sentences that differ in length."""
    kind, layer, head = place
    sources, columns, findings = [], {}, []
    for english, french, word in pairs:
        weights, source, target = read_pairs(translator, [(english, french)])
        words = piece_names(source[0], translator.source)
        said = [name.lower() for name in piece_names(target[0], translator.target)[1:]]
        row = len(said) - 1 - said[::-1].index(word)
        weight = weights[kind][layer, 0, head, row]
        most = f"“{words[int(weight.argmax())]}”, {weight.max():.2f}"
        findings.append(f"“… {words[-3]}”: {word} looks most at {most}")
        sources.append(words)
        columns[f"… {words[-3]} → {word}"] = weight.tolist()
    return figures.heatmap(
        list(zip(*columns.values())),
        rows=[" / ".join(dict.fromkeys(names)) for names in zip(*sources, strict=True)],
        cols=list(columns),
        annotate=True,
        vmin=0,
        vmax=1,
        caption="; ".join(findings) + ".",
        alt=f"Rows of {kind} layer {layer + 1}, head {head + 1}, for sentences that differ in the"
        f" last adjective alone, as columns. {'. '.join(findings)}.",
    )
