"""A term list: names, codes and fixed translations that the output keeps."""

# Each term of a line becomes a placeholder, T1, T2, ..., which translators copy, and in the output
# the placeholder becomes the term's translation.
import re
import sys
from collections.abc import Callable
from itertools import chain, count
from pathlib import Path

from transformer_lit.corpora.texts import is_garbled, read_columns
from transformer_lit.data import normalize_text

# characters of scripts without spaces, beside which a term begins and ends anywhere
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"


def load_glossary(path: Path) -> dict[str, str]:
    """Terms and their translations, TERM<TAB>TRANSLATION; a term without one is kept as it is.
    ValueError if there is none, or if it is no such file."""
    rows = [(normalize_text(term), target.strip()) for term, target in read_columns(path)]
    terms = {term: target or term for term, target in rows if term}
    is_table = any(to for term, to in rows if term) or re.fullmatch("[^,;]+", "".join(terms))
    if not is_table or is_garbled("".join(chain(*rows))):
        raise ValueError(
            f"{path} has no terms: a line is TERM<TAB>TRANSLATION; from a spreadsheet, save it as"
            " text with tabs, in UTF-8"
        )
    return terms


def capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def whole_word(pattern: str) -> str:
    return rf"(?<![^\W{UNSPACED}])(?:{pattern})(?![^\W{UNSPACED}])"


def placeholders() -> Callable[[object], str]:
    "For `re.sub`: T1, T2, ..."
    numbers = count(1)
    return lambda _: f"T{next(numbers)}"


def with_glossary(translate: Callable, terms: dict[str, str]) -> Callable:
    """`translate` of a list of lines, with the terms kept. Terms are whole words, longer ones
    first, as they are listed or capitalized.

    A line whose placeholders don't come back, each once, is translated without the list."""
    known = {capitalized(term): capitalized(target) for term, target in terms.items()} | terms
    by_length = sorted(map(re.escape, known), key=len, reverse=True)
    pattern, numbered = re.compile(whole_word("|".join(by_length))), whole_word(r"T(\d+)")

    def run(lines: list[str]) -> list[str]:
        lines = [*map(normalize_text, lines)]
        matches = [pattern.findall(line) for line in lines]
        outputs, lost = translate([pattern.sub(placeholders(), line) for line in lines]), []
        for i, here in enumerate(matches):
            numbers = [int(n) for n in re.findall(numbered, outputs[i])]
            if sorted(numbers) == [*range(1, 1 + len(here))]:
                outputs[i] = re.sub(numbered, lambda n: known[here[int(n[1]) - 1]], outputs[i])
            elif here:
                lost.append(i)
        for i, output in zip(lost, translate([lines[i] for i in lost])):
            outputs[i] = output
            print(f"a term got lost, so without the term list: {lines[i][:80]}", file=sys.stderr)
        return outputs

    return run
