"""Overriding hyperparameters of a recipe: `--with key=value`."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from types import NoneType
from typing import get_args, get_type_hints

from transformer_lit.model import TransformerConfig
from transformer_lit.recipes.recipes import Recipe
from transformer_lit.training import TrainingConfig

FIXED = set(  # source and text: of a corpus of one's own
    "corpus language model training source_vocab_size target_vocab_size source text".split()
)
MAY_BE_0 = set("n_averaged clip_norm label_smoothing checkpoint_every seed dropout".split())
BELOW_1 = "label_smoothing", "dropout"
CHOICES = {
    "precision": ("fp32", "bf16", "auto"),
    "tokens": ("words", "subwords"),
    "optimizer": ("adam", "muon"),
    "lr_schedule": ("noam", "linear"),
    "norm": ("post", "pre"),
}
KINDS = {
    int: "an integer in range",
    float: "a number in range",
    str: "a word",
    bool: "true or false",
    NoneType: "none",
}
READERS = {
    NoneType: {"none": None}.__getitem__,
    bool: {"true": True, "false": False}.__getitem__,
}


def change_settings(recipe: Recipe, settings: Mapping[str, object], name: str) -> Recipe:
    """The recipe with other values, as typed, of fields of its own, its training, its model.

    ValueError for a value that can't be meant, and for a field that changes nothing here."""

    def changes(cls: type) -> dict:
        fields = get_type_hints(cls)
        chosen = settings.keys() & fields.keys() - FIXED
        return {key: read_value(key, settings[key], fields[key]) for key in chosen}

    changed = replace(
        recipe,
        **changes(type(recipe)),
        model=recipe.model | changes(TransformerConfig),
        training=replace(recipe.training, **changes(TrainingConfig)),
    )
    classes = type(recipe), TransformerConfig, TrainingConfig
    usable = set(chain(*map(get_type_hints, classes))) - FIXED - unused_fields(changed)
    if wrong := settings.keys() - usable:
        choices = ", ".join(sorted(usable))
        raise ValueError(f"{min(wrong)} has no effect with {name}: choose from {choices}")
    return changed


def read_value(key: str, value: object, kind: type) -> object:
    "What was typed, as the type of a field; most numbers are positive, and no word is empty."
    kinds = get_args(kind) or (kind,)
    for cls in kinds:
        try:
            result = READERS.get(cls, cls)(value)
        except (KeyError, ValueError):
            continue
        fits = cls in (bool, NoneType) or result > cls() or key in MAY_BE_0 and result == 0
        if fits and result in CHOICES.get(key, (result,)) and not (key in BELOW_1 and result >= 1):
            return result
    expected = CHOICES.get(key) or [KINDS[cls] for cls in kinds]
    raise ValueError(f"{key}={value}: expected {' or '.join(expected)}")


def unused_fields(recipe: Recipe) -> set[str]:
    "Fields that change nothing in this recipe."
    unused = {"vocab_size"} if recipe.tokens == "words" else {"min_frequency"}
    if recipe.corpus == "own":
        unused |= {"pairs", "words", "tokens"}
        if recipe.init_from:  # its sizes stay
            unused |= {"vocab_size"} | set(get_type_hints(TransformerConfig)) - {"dropout"}
    if not hasattr(recipe, "max_steps"):  # it counts epochs
        return unused | {"lr_factor"}
    unused |= {"epochs", "peak_lr" if recipe.lr_schedule == "noam" else "lr_factor"}
    return unused if recipe.n_averaged else unused | {"snapshot_every"}
