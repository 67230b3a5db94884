"""What is refused before it begins, each in one sentence that says what to do instead: by a
translator, and by a training."""

from collections.abc import Sequence
from typing import Any

LONGEST = 20_000  # characters in one line
WIDEST = 64  # hypotheses: a wider beam costs more and soon finds nothing better
LEAST = {
    "epochs": 1,
    "max_tokens": 1,
    "warmup": 1,
    "accumulate": 1,
    "smoothing": 0,
    "clip": 0,
    "checkpoint_every": 0,
}
CHOICES: dict[str, tuple] = {"precision": ("fp32", "bf16"), "compile": (False, True, "dynamic")}


def training_bounds(config: Any) -> None:
    "ValueError for settings of a training that can't be meant; nan is none."
    for name, allowed in CHOICES.items():
        if (value := getattr(config, name)) not in allowed:
            raise ValueError(f"{name}={value!r}: choose " + " or ".join(map(repr, allowed)))
    for name, least in LEAST.items():
        if not (value := getattr(config, name)) >= least:
            raise ValueError(f"{name}={value}: {least} is the least")


def search_bounds(beam_size: int, batch_size: int, precision: str) -> None:
    "ValueError for what can't be searched."
    if precision not in ("fp32", "bf16"):
        raise ValueError(f'precision={precision!r}: choose "fp32" or "bf16"')
    if not 1 <= beam_size <= WIDEST:
        raise ValueError(f"beam_size={beam_size}: choose 1 to {WIDEST}")
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size}: 1 is the least")


def askable(sentences: Sequence[str]) -> None:
    """TypeError for a single text, or for what can be read only once; ValueError for a line without
    end.

    To Python a string is a list of letters: without brackets one sentence would be translated
    letter by letter."""
    if isinstance(sentences, str):
        raise TypeError(
            f"translate takes a list of sentences: write translate([{sentences[:200]!r}])"
        )
    if not hasattr(sentences, "__len__"):
        raise TypeError(
            "translate takes a list of sentences, and this can be read only once: write"
            " translate(list(...))"
        )
    longest = max(map(len, sentences), default=0)
    if longest > LONGEST:
        raise ValueError(
            f"a line has {longest:,} characters, {LONGEST:,} are the most: write one sentence per"
            " line"
        )
