"""A training that begins with what another model knows, though its subwords are cut otherwise."""

# A model can go on with other text, and other text wants other subwords. All weights but the
# vectors of the tokens are taken as they are. A token that both vocabularies have keeps its vector.
# A new one begins as the mean of the vectors of the pieces into which the old vocabulary cuts it:
# its meaning is somewhere between theirs, and training moves it.
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from transformer_lit.model import TransformerConfig
from transformer_lit.tokens import Subwords
from transformer_lit.translation import Translator, from_pretrained
from transformer_lit.corpora.files import sha256_file, shipped
from transformer_lit.options import translator as named
from transformer_lit.serving.saved import described

SHIPPED = "book"  # what the command calls the translator that answers where none is named
TABLES = (
    "source.tokens.weight",
    "target.tokens.weight",
    "output.weight",
)  # one and the same where they are tied
SIZES = (
    "d_model",
    "n_heads",
    "d_ff",
    "n_encoder_layers",
    "n_decoder_layers",
    "norm",
    "tied",
)  # what both must have alike


def folder_of(name: str) -> Path:
    "The folder that `name` names: one of yours, or of a translator that comes with the book."
    return shipped("data/checkpoints/tatoeba-fr") if name == SHIPPED else named(name)


def weights_hash(name: str) -> str:
    "SHA-256 of the weights that a training began with. FileNotFoundError if there are none."
    folder = folder_of(name)
    for file in "model.safetensors", "checkpoint.safetensors":
        if (folder / file).exists():
            return sha256_file(folder / file)
    raise FileNotFoundError(
        f'no trained translator in {folder}: name a folder that holds one, or "{SHIPPED}"'
    )


def carried_over(table: Tensor, old: Subwords, new: Subwords) -> tuple[Tensor, int]:
    """The vectors of one vocabulary, (tokens of old, d_model), for another: (tokens of new,
    d_model), and how many both have.

    A subword that only `new` has gets the mean of the vectors of its pieces in `old`."""
    rows, shared = [], 0
    for token, _ in sorted(new.tokenizer.get_vocab().items(), key=lambda item: item[1]):
        known = old.tokenizer.token_to_id(token)
        shared += known is not None
        pieces = (
            [piece.id for piece in old.tokenizer.model.tokenize(token)]
            if known is None
            else [known]
        )
        rows.append(table[pieces].mean(0))
    return torch.stack(rows), shared


def sizes_agree(was: Mapping, now: Mapping, name: str) -> None:
    "Raises ValueError with the sizes that differ, of those that both have."
    if wrong := [
        f"{size} {was[size]} and {now[size]}"
        for size in SIZES
        if size in was and size in now and was[size] != now[size]
    ]:
        raise ValueError(
            f"a training can't begin with {folder_of(name)}, its model has another size:"
            f" {', '.join(wrong)}"
        )


def may_begin_as(name: str, model: Mapping) -> None:
    """What can be told without the subwords, before hours of preparation: the translator is there,
    and has the sizes of `model`."""
    weights_hash(name)
    now = asdict(TransformerConfig(1, **model))
    sizes_agree(
        described(folder_of(name) / "translator.json")["config"],
        {size: now[size] for size in SIZES if size != "tied"},
        name,
    )


def begin_as(translator: Translator, name: str) -> int:
    """Give a new translator the weights of the one that `name` names; how many of its subwords both
    have.

    Both have one joint vocabulary. Raises ValueError with one sentence where their sizes differ."""
    given = from_pretrained(folder_of(name))
    sizes_agree(asdict(given.model.config), asdict(translator.model.config), name)
    if (
        not all(isinstance(side, Subwords) for side in (given.source, translator.source))
        or given.source is not given.target
    ):
        raise ValueError(f"a training can't begin with {folder_of(name)}: it has no joint subwords")
    table, shared = carried_over(
        given.model.source.tokens.weight.detach(), given.source, translator.source
    )
    translator.model.load_state_dict(given.model.state_dict() | {key: table for key in TABLES})
    return shared
