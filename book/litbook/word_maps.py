"""Attention between the words of a pair: maps of any translator, the alignment error of the best of
them, and single rows and links."""

# Maps are used by chapter 23, which teaches `word_of_piece` and `word_weights`. A map has a row for
# each French word and a column for each English one, EOS last on both sides; several maps of one
# model come along the first axis. Rows, links and the table by layer belong to chapter 20.
import math
from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lit.attention_maps import (
    alignment_error_rate,
    piece_names,
    read_pairs,
    record,
    weight_at,
)
from transformer_lit.pocket import PocketPair
from transformer_lit.rnn import word_of_piece, word_weights
from transformer_lit.tokens import Subwords, split_words
from transformer_lit.training import collate
from transformer_lit.translation import Translator
from litbook import figures
from litbook.spread import distance, entropy, heads_differ

Maps = list[Tensor]  # of each pair: (T, S) or (M, T, S)


def cross_weights(model: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """A function of source and target: a Transformer's cross-attention, (B, N·H + N, T, S), each
    head and the mean of each layer."""

    def weights(source: Tensor, target: Tensor) -> Tensor:
        with record(model) as seen:
            model(source, target)
        layers = torch.stack(seen["cross"], 1)  # (B, N, H, T, S)
        return torch.cat([layers.flatten(1, 2), layers.mean(2)], 1)

    return weights


@torch.no_grad()
def maps_of(
    weights: Callable[[Tensor, Tensor], Tensor], pairs: Sequence[PocketPair], tokens: Subwords
) -> Maps:
    "Of each pair the weights between its words, from a function that gives them between pieces."
    ids = Translator(None, tokens, tokens).encode_pairs(
        [(pair.english, pair.french) for pair in pairs]
    )
    maps: Maps = []
    for start in range(0, len(pairs), 50):
        source, target = collate(ids[start : start + 50])
        for pair, found in zip(pairs[start : start + 50], weights(source, target[:, :-1])):
            seen, said = word_of_piece(tokens, pair.english, "en"), word_of_piece(
                tokens, pair.french, "fr"
            )
            maps.append(word_weights(found[..., : len(said), : len(seen)], said, seen))
    return maps


def diagonal(pair: PocketPair) -> Tensor:
    """A map that looks at the word in the same place: what an alignment is worth without any
    reading. (T, S)"""
    s, t = len(split_words(pair.english, "en")), len(split_words(pair.french, "fr"))
    at = [min(s - 1, round((j + 0.5) * s / t - 0.5)) for j in range(t)]
    return F.one_hot(torch.tensor(at + [s]), s + 1).float()


def best_map(
    chosen: Maps,
    chosen_pairs: Sequence[PocketPair],
    tested: Maps,
    tested_pairs: Sequence[PocketPair],
) -> tuple[int, float]:
    "Which map aligns best on the chosen pairs, and its alignment error rate on the tested ones."
    first, then = (
        alignment_error_rate(maps, [pair.alignment for pair in pairs]).flatten()
        for maps, pairs in ((chosen, chosen_pairs), (tested, tested_pairs))
    )
    at = int(first.argmin())
    return at, then[at].item()


def place_name(kind: str, layer: int, head: int) -> str:
    "A head as the text calls it, counted from 1."
    return f"{kind} layer {layer + 1}, head {head + 1}"


def cross_links(
    translator: Translator,
    pairs: Mapping[str, str],
    named: Sequence[tuple[str, str, int, int, str, str]],
) -> figures.Picture:
    """A table of single weights of cross-attention.

    pairs: English -> French; named: (what the head does, English, layer, head, word said, word
    looked at), from 0."""
    read = {english: read_pairs(translator, [pair]) for english, pair in zip(pairs, pairs.items())}
    rows = []
    for does, english, layer, head, says, looks_at in named:
        weights, source, target = read[english]
        row = piece_names(target[0], translator.target)[1:].index(says)
        column = piece_names(source[0], translator.source).index(looks_at)
        rows.append(
            {
                "cross-attention": f"layer {layer + 1}, head {head + 1}",
                "what it does": does,
                "says → looks at": f"{says} → {looks_at}",
                "weight": weights["cross"][layer, 0, head, row, column].item(),
            }
        )
    least = min(rows, key=lambda row: row["weight"])
    return figures.table(
        rows,
        fmt="{:.2f}",
        caption=(
            f"The weakest of these {len(rows)} links, {least['says → looks at']}, has"
            f" {least['weight']:.0%} of its row's weight"
        ),
    )


def row_that_says(
    translator: Translator, pairs: Sequence[tuple[str, str, str]], place: tuple[str, int, int]
) -> figures.Picture:
    """One head's row for a word said, for each (English, French, word): the last row that says it,
    a column each.

    place: (kind, layer, head), from 0; a column is named by the word before the full stop and the
    word said. The area of a square is a weight. Raises ValueError for a word not said, and for
    sentences that differ in length."""
    kind, layer, head = place
    columns: list[str] = []
    told: list[str] = []
    looks: list[Tensor] = []
    names: list[list[str]] = []
    for english, french, word in pairs:
        weights, source, target = read_pairs(translator, [(english, french)])
        said = [name.lower() for name in piece_names(target[0], translator.target)[1:]]
        row = len(said) - 1 - said[::-1].index(word)
        names.append(piece_names(source[0], translator.source))
        looks.append(weights[kind][layer, 0, head, row].cpu())
        columns.append(f"… {names[-1][-3]} → {word}")
        told.append(
            f"“… {names[-1][-3]}”: {word} looks most at “{names[-1][int(looks[-1].argmax())]}”,"
            f" {looks[-1].max():.2f}"
        )
    sheet, colour = figures.Drawing(124 + 104 * len(looks), 34 + 22 * len(names[0])), (
        figures.BRIDGE if kind == "cross" else figures.QUERY
    )
    for s, words in enumerate(zip(*names, strict=True)):
        sheet.text(112, 37 + 22 * s, " / ".join(dict.fromkeys(words)), 12, "end")
    for k, weight in enumerate(looks):
        sheet.text(170 + 104 * k, 10, columns[k], 12, weight="bold")
        for s, w in enumerate(weight.tolist()):
            side = 20 * w**0.5  # the area is the weight
            sheet.parts.append(
                f'<rect x="{156 + 104 * k - side / 2:.1f}" y="{37 + 22 * s - side / 2:.1f}"'
                f' width="{side:.1f}" height="{side:.1f}" fill="{colour}"/>'
            )
            if w >= 0.005:
                sheet.text(172 + 104 * k, 37 + 22 * s, f"{w:.2f}", 12, "start")
    return sheet.show(
        caption="; ".join(told) + ".",
        alt=(
            f"Rows of {place_name(*place)}, for sentences that differ in the last adjective alone,"
            f" as columns of squares. {'. '.join(told)}."
        ),
    )


def looking_by_layer(
    weights: Mapping[str, Tensor], open_: Mapping[str, Tensor], real: Mapping[str, Tensor]
) -> list[dict]:
    """Entropy, distance and difference of heads by kind and layer, averaged over heads and real
    rows, and of an even spread.

    weights: kind -> (N, B, H, T, S); open_: kind -> to (B, T, S), True where a row may look; real:
    kind -> (B, T)."""
    rows: list[dict] = []
    for kind, recorded in weights.items():
        even = (open_[kind] / open_[kind].sum(-1, keepdim=True))[:, None].expand(
            -1, 1, *recorded.shape[-2:]
        )
        for layer, part in [*enumerate(recorded, 1), ("even", even)]:
            near = {
                measure.__name__.replace("_", " "): measure(part)
                for measure in (entropy, distance, heads_differ)
            }
            mean = {
                name: (m.mean(1) if m.dim() == 3 else m)[real[kind]].mean().item()
                for name, m in near.items()
            }
            rows.append(
                {
                    "attention": kind,
                    "layer": str(layer),
                    **mean,
                    "as many words": math.exp(mean["entropy"]),
                }
            )
    return rows


def layers_table(
    weights: Mapping[str, Tensor], open_: Mapping[str, Tensor], real: Mapping[str, Tensor]
) -> figures.Picture:
    "`looking_by_layer` as a table; its caption names the sharpest layer."
    rows = looking_by_layer(weights, open_, real)
    sharp = min(rows, key=lambda row: row["entropy"])
    return figures.table(
        rows,
        fmt="{:.2f}",
        caption=(
            f"Sharpest: {sharp['attention']} layer {sharp['layer']}, which looks at "
            f"{sharp['as many words']:.1f} words per row"
        ),
    )


def habits(
    weights: Mapping[str, Tensor],
    open_: Mapping[str, Tensor],
    places: Mapping[str, Mapping[str, Tensor]],
) -> list[dict]:
    """For each place the head that puts most weight there, beside an even spread, and how many
    heads put over half there.

    weights: kind -> (N, B, H, T, S); open_: kind -> to (B, T, S); places: kind -> name -> (B, T,
    S). A place that no row has is left out."""
    rows: list[dict] = []
    for kind, named in places.items():
        even = open_[kind] / open_[kind].sum(-1, keepdim=True)
        for name, place in named.items():
            if place.any():
                on = weight_at(weights[kind], place)  # (N, H)
                n, h = divmod(int(on.argmax()), on.size(1))
                rows.append(
                    {
                        "attention": kind,
                        "place": name,
                        "best head": f"layer\u00a0{n + 1}, head\u00a0{h + 1}",
                        "its weight": on.max().item(),
                        "spread evenly": weight_at(even[:, None], place).item(),
                        "heads over half": f"{int((on > 0.5).sum())}\u00a0of\u00a0{on.numel()}",
                    }
                )
    return rows


def habits_table(
    weights: Mapping[str, Tensor],
    open_: Mapping[str, Tensor],
    places: Mapping[str, Mapping[str, Tensor]],
) -> figures.Picture:
    "`habits` as a table; its caption names the strongest."
    rows = habits(weights, open_, places)
    best = max(rows, key=lambda row: row["its weight"])
    return figures.table(
        rows,
        fmt="{:.2f}",
        caption=(
            f"The strongest habit: {best['attention']} {best['best head']}, with"
            f" {best['its weight']:.0%} of its weight on the {best['place']}"
        ),
    )
