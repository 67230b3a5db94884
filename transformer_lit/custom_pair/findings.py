"""What stands in a corpus and shouldn't, in sentences with a count and an example."""

import codecs
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from transformer_lit.corpora.texts import INVISIBLE, TextPair

FILTERED = "filtered.tsv"
ADVICE = {  # behind the first word of a reason to leave pairs out
    "too": ": a line is one sentence, documents must be split first",
    "extra": ": a tab in a sentence, or one side with two columns?",
    "perhaps": f": read {FILTERED}, and if they are right, train with --no-langid-filter into"
    " another folder",
}
PATTERNS = {
    "look encoded twice": "[ÂÃ][\u0080-\u00bf]|â€",
    "hold HTML or escapes, as &amp;, <b> or \\u00e9: convert them first": r"(?i)&(#\d+|[a-z]+);"
    r"|<[a-z/][^>@]*>|\\u[\da-f]{4}|=C3=|\\'",
    "hold subword pieces, as @@ or ▁: join them, or users must type the same, and BLEU can't be"
    " compared": r"@@(\s|$)|[▁￭Ġ]|(^|\s)##\w",
    "hold ? inside words: letters that a conversion lost?": r"[^\W\d_]\?[^\W\d_]",
    "look tokenized, with a space before a comma or full stop: undo it, or users must type the"
    " same, and BLEU can't be compared": r"\w [.,](\s|$)",
}


# the first letters of such characters, as they are misread; what has no letter there is a byte
MISREAD = re.compile(r"[ÂÃÄÅÎÏÐÑâØÙ×ĂĹ]|[à-ï][^\w\s]|[РС][^а-яА-Я\s]")
# a byte that a code page leaves undefined is often kept as the control character of its number
codecs.register_error("as bytes", lambda e: (e.object[e.start : e.end].encode("latin-1"), e.end))
MIN_Z = 6.0  # standard errors by which lines must go together better with their neighbors


def decode_twice(text: str) -> str:
    "UTF-8 that was read in another encoding and saved as UTF-8 again, put right; else the text."
    for codec in ("cp1252", "cp1251", "cp1250") * bool(MISREAD.search(text)):
        with suppress(UnicodeError):
            return decode_twice(text.encode(codec, "as bytes").decode())
    return text


def shifted_lines(pairs: Sequence[TextPair]) -> list[str]:
    "From which line on the lengths of sides go together better with neighbors'; or that none do."
    lengths = np.log1p([[len(side) for side in pair] for pair in pairs])
    left, right = ((lengths - lengths.mean(0)) / (lengths.std(0) + 1e-9)).T
    notes = []
    for lag in range(-12, 13):
        gain = left * (np.roll(right, -lag) - right)
        total = gain.cumsum()
        end = (total - np.minimum.accumulate(total)).argmax()
        start = total[: end + 1].argmin()
        if total[end] - total[start] > MIN_Z * np.sqrt(np.square(gain[start : end + 1]).sum()):
            notes.append(
                f"from about line {start + 2:,} to {end + 1:,} translations seem to stand"
                f" {abs(lag)} line(s) {'below' if lag > 0 else 'above'} their sentences, as the"
                " lengths tell: one side lacks something there"
            )
    if len(pairs) >= 100 and (left * right).mean() < 0.1:  # short sentences have 0.3
        notes.append(
            "the lengths of the two sides don't go together: was one of them sorted or shuffled?"
        )
    return notes


def corpus_notes(
    pairs: Sequence[TextPair],
    judged: Sequence[tuple[TextPair, str]],
    target: int,
    swapped: Sequence[bool] = (),
) -> list[str]:
    """What to know of a corpus before one trains on it, with the first pair of each kind. pairs: as
    in their file; judged: with why they are left out; target: the side to predict."""
    reasons = [reason for _, reason in judged]
    targets = Counter(pair[target] for pair, reason in judged if not reason).most_common(1)
    usual = {
        words: [not reason and re.search(pattern, "\t".join(pair)) for pair, reason in judged]
        for words, pattern in PATTERNS.items()
    } | {
        "have the same translation: a placeholder?": [
            targets[0][0] == pair[target] for pair, _ in judged
        ]
    }
    kinds = {
        "had their languages in the other order, and are turned (--no-langid-filter leaves"
        " them)": swapped,
        "held invisible marks, as of direction or byte order, which are removed": [
            any(map(INVISIBLE.search, pair)) for pair in pairs
        ],
        "were encoded twice, and are put right": [
            [*map(decode_twice, pair)] != [*pair] for pair in pairs
        ],
    } | {
        f"are left out, {name}{ADVICE.get(name.split()[0], '')}": [name == r for r in reasons]
        for name in dict.fromkeys(reasons)
        if name not in ("", "repeated")
    }
    notes = []
    for words, matches in (kinds | usual).items():
        numbers = [number for number, match in enumerate(matches) if match]
        if len(numbers) > (words in usual) * max(10, len(pairs) / 100):
            sides = (re.sub("[\0-\x1f]+", " ", side[:60]) for side in pairs[numbers[0]])
            notes.append(
                f"{len(numbers):,} of {len(pairs):,} pairs {words}"
                f" (pair {numbers[0] + 1:,}: {' → '.join(sides)})"
            )
    return notes + shifted_lines(pairs)
