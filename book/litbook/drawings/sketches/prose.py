"""Sentences made from numbers, and a mapping as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from litbook import figures


def in_a_row(words: Sequence[str]) -> str:
    "Words as a sentence holds them: a, b and c."
    return " and ".join([*([", ".join(words[:-1])] if words[1:] else []), *words[-1:]])


def listed(
    values: Mapping[Any, Any],
    name: str = "",
    value: str = "",
    fmt: str = "{:.3f}",
    caption: str | None = None,
) -> figures.Picture:
    "A mapping as a table of two columns with these names."
    return figures.table(
        [{name: key, value: held} for key, held in values.items()], [name, value], caption, fmt
    )


class Prose:
    "Sentences made from numbers; a notebook shows them as text, not as output."

    def __init__(self, *texts: str):
        self.texts = texts

    def _repr_markdown_(self) -> str:
        return figures.powers("\n\n".join(self.texts))

    def __repr__(self) -> str:
        return "\n".join(self.texts)
