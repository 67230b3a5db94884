"""A saved translator's description is read with suspicion: one sentence for whatever is wrong with
it."""

import dataclasses
import json
from pathlib import Path
from typing import get_type_hints

from transformer_lit.corpora.texts import fields, json_file
from transformer_lit.tokens import Subwords, Vocabulary


def described(path: Path) -> dict:
    """translator.json as a dictionary with a `config`, and word lists where it has them. ValueError
    with one sentence else."""
    advice = "take it from where it came from again"
    kept = fields(json_file(path, advice=advice), path, {"config": dict}, advice)
    for name in "source", "target", "languages":
        if name in kept and not (
            isinstance(kept[name], list) and all(isinstance(word, str) for word in kept[name])
        ):
            raise ValueError(f"{path}: {name} is no list of texts")
    if (
        ("source" in kept) != ("target" in kept)
        or "source" in kept
        and not isinstance(kept.get("language"), str)
    ):
        raise ValueError(f"{path} is not whole: words need source, target and language")
    if not isinstance(kept.get("source_language", ""), str):
        raise ValueError(f"{path}: source_language is no text")
    if len(kept.get("languages", "ab")) != 2:
        raise ValueError(f'{path}: languages are two, as ["en", "fr"]')
    limits = kept.get("limits", [1, 1])
    if not (
        isinstance(limits, list)
        and len(limits) == 2
        and all(type(n) is int and n > 0 for n in limits)
    ):
        raise ValueError(f"{path}: limits are two numbers of tokens, as [100, 20]")
    return kept


def configuration(cls, given: dict, path: Path):
    "`cls(**given)`, if every field is known, of its type and possible."
    hints = get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for name, value in given.items():
        if name not in fields:
            raise ValueError(f"{path}: there is no size called {name}")
        fits = isinstance(value, hints[name]) or hints[name] is float and isinstance(value, int)
        if not fits or isinstance(value, bool) != (hints[name] is bool):
            raise ValueError(f"{path}: {name} can't be {json.dumps(value)[:40]}")
        if isinstance(value, int) and value < 1 and hints[name] not in (bool, float):
            raise ValueError(f"{path}: {name}={value}, 1 is the least")
    missing = [
        name
        for name, field in fields.items()
        if name not in given and field.default is dataclasses.MISSING
    ]
    if missing:
        raise ValueError(f"{path}: {missing[0]} is missing")
    config = cls(**given)
    if config.d_model % config.n_heads:
        raise ValueError(f"{path}: {config.n_heads} heads can't share d_model={config.d_model}")
    if config.norm not in ("pre", "post") or not 0 <= config.dropout < 1:
        raise ValueError(
            f"{path}: norm={config.norm!r}, dropout={config.dropout} is no Transformer of this book"
        )
    return config


def subwords(cls, path: Path, size: int):
    """`cls.load(path)`, whose ids are all below `size`. OSError or ValueError with one sentence
    else."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: the model's subwords stand in it")
    try:
        tokens = cls.load(path)
        highest = max(tokens.tokenizer.get_vocab().values(), default=-1)
    except Exception as error:  # the library raises bare Exceptions
        raise ValueError(
            f"{path} can't be read as subwords ({' '.join(str(error).split())[:100]}): take it from"
            " where it came from again"
        ) from None
    if len(tokens) != size or highest >= size:
        raise ValueError(
            f"{path} has {len(tokens)} subwords with ids up to {highest}, and the model knows"
            f" {size}: both must be from the same run"
        )
    return tokens


def words(counts: tuple[int, int], config, path: Path) -> None:
    "ValueError if word lists of these lengths aren't the model's."
    wanted = config.source_vocab, config.target_vocab or config.source_vocab
    if counts != wanted:
        raise ValueError(
            f"{path} lists {counts[0]:,} and {counts[1]:,} tokens, and its model has {wanted[0]:,}"
            f" and {wanted[1]:,}"
        )


def languages(kept: dict) -> tuple[str, str] | None:
    """From which language into which, as ("en", "fr"); None if the file doesn't say. Older files
    name the second one only."""
    if "languages" in kept:
        return tuple(kept["languages"])
    return ("en", kept["language"]) if "language" in kept else None


def read_tokens(kept: dict, config, path: Path) -> tuple:
    """Source and target tokens that `save_translator` kept in and beside `path`: word lists, or one
    list of subwords for both.

    Raises ValueError or OSError if they are not the model's."""
    if "source" in kept:
        two = Vocabulary(kept["source"], kept.get("source_language", "en")), Vocabulary(
            kept["target"], kept["language"]
        )
        words((len(two[0]), len(two[1])), config, path)
        return two
    joint = subwords(Subwords, path.parent / "tokenizer.json", config.source_vocab)
    return joint, joint
