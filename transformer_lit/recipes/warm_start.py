"""Warm start: initialization from another model's weights, across vocabularies."""

# All weights but the token embeddings are taken as they are. A token of both vocabularies keeps its
# embedding. A new one gets the mean of the embeddings of the pieces into which the old vocabulary
# cuts it: its meaning is somewhere between theirs, and training moves it.
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from transformer_lit.corpora.files import sha256_file
from transformer_lit.serving.files import find_translator, load_translator
from transformer_lit.tokenization import SubwordTokenizer
from transformer_lit.translation import Translator

EMBEDDINGS = (
    "source_embedding.token_embedding.weight",
    "target_embedding.token_embedding.weight",
    "output_projection.weight",
)


def weights_hash(name: str | Path) -> str:
    "SHA-256 of the weights that a training starts from."
    path = find_translator(name) / "model.safetensors"
    return sha256_file(path if path.exists() else path.with_name("checkpoint.safetensors"))


def transfer_embeddings(table: Tensor, old: SubwordTokenizer, new: SubwordTokenizer) -> Tensor:
    "(len(old), D) -> (len(new), D)"
    rows = []
    for token in new.tokens:
        index = old.token_to_id.get(token)
        pieces = [piece.id for piece in old.tokenizer.model.tokenize(token)]
        rows.append(table[pieces if index is None else [index]].mean(0))
    return torch.stack(rows)


def initialize_from(translator: Translator, name: str | Path) -> None:
    """Give a new translator the weights of a trained one.

    ValueError if one hasn't joint subwords, or if their sizes differ."""
    pretrained = load_translator(name)
    for side in pretrained, translator:
        tokenizer = side.source_tokenizer
        if tokenizer is not side.target_tokenizer or not isinstance(tokenizer, SubwordTokenizer):
            raise ValueError(f"training can't start from {name}: both need joint subwords")
    theirs, config = pretrained.model.config, translator.model.config
    if (
        replace(theirs, source_vocab_size=config.source_vocab_size, dropout=config.dropout)
        != config
    ):
        raise ValueError(f"training can't start from {name}: it has {theirs}, and this is {config}")
    state = pretrained.model.state_dict()
    tokenizers = pretrained.source_tokenizer, translator.source_tokenizer
    for name in EMBEDDINGS:  # tied: one tensor
        state[name] = transfer_embeddings(state[name], *tokenizers)
    translator.model.load_state_dict(state)
