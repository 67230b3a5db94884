"""Attention weights between words: maps of any model, and the alignment error rate of the best
of them."""

# Chapter 23 teaches `word_ids` and `merge_subwords`. A map has a row for each French word and a
# column for each English one, EOS last on both sides; several maps of one model come along the
# first axis.
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lit.attention_analysis import alignment_error_rate, record_attention
from transformer_lit.pocket_corpus import PocketPair
from transformer_lit.rnn import word_ids, merge_subwords
from transformer_lit.tokenization import SubwordTokenizer, split_words
from transformer_lit.batching import collate
from transformer_lit.translation import Translator

Maps = list[Tensor]  # of each pair: (T, S) or (M, T, S)


def cross_weights(model: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """A function of source and target: a Transformer's cross-attention, (B, N·H + N, T, S), each
    head and the mean of each layer."""

    def weights(source: Tensor, target: Tensor) -> Tensor:
        with record_attention(model) as attention:
            model(source, target)
        layers = torch.stack(attention["cross"], 1)  # (B, N, H, T, S)
        return torch.cat([layers.flatten(1, 2), layers.mean(2)], 1)

    return weights


@torch.no_grad()
def maps_of(
    weights: Callable[[Tensor, Tensor], Tensor],
    pairs: Sequence[PocketPair],
    tokenizer: SubwordTokenizer,
) -> Maps:
    "Of each pair the weights between its words, from a function that gives them between pieces."
    ids = Translator(None, tokenizer, tokenizer).encode_pairs(
        [(pair.english, pair.french) for pair in pairs]
    )
    maps: Maps = []
    for start in range(0, len(pairs), 50):
        source, target = collate(ids[start : start + 50])
        for pair, pair_weights in zip(pairs[start : start + 50], weights(source, target[:, :-1])):
            source_ids = word_ids(tokenizer, pair.english, "en")
            target_ids = word_ids(tokenizer, pair.french, "fr")
            pair_weights = pair_weights[..., : len(target_ids), : len(source_ids)]
            maps.append(merge_subwords(pair_weights, target_ids, source_ids))
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
