"""Scripts that put no spaces between words: found by their letters, scored by characters."""

# BLEU counts words. Its usual rules (13a) cut at spaces and marks, so a Chinese or Thai sentence
# would be one or two words, and BLEU all or nothing. sacreBLEU's "char" cuts such text into
# characters. The signature tells which of the two a score was counted with: scores of different
# cuts can't be compared.
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from transformer_lit.evaluation import counts, line_counts, scores

SCRIPTS = (
    "CJK",
    "HIRAGANA",
    "KATAKANA",
    "BOPOMOFO",
    "THAI",
    "LAO",
    "KHMER",
    "MYANMAR",
    "TIBETAN",
    "YI ",
    "TAI ",
    "NEW TAI",
    "JAVANESE",
    "BALINESE",
)  # as the names of their letters begin in Unicode


def without_spaces(lines: Iterable[str]) -> bool:
    "Are most letters of these lines of a script that puts no spaces between words?"
    letters = Counter(
        letter for line in lines for letter in line if unicodedata.category(letter)[0] in "LM"
    )
    some = sum(
        n for letter, n in letters.items() if unicodedata.name(letter, "").startswith(SCRIPTS)
    )
    return 2 * some > letters.total()


def cut_for(lines: Iterable[str]) -> str:
    """How sacreBLEU shall cut these lines: "char" where no spaces part the words, else its usual
    "13a"."""
    return "char" if without_spaces(lines) else "13a"


def scores_by(
    said: Sequence[str], references: Sequence[Sequence[str]], cut: str = "13a"
) -> list[dict]:
    "Chapter 19's `scores`, with BLEU on text that is cut as `cut` says."
    import sacrebleu

    bleu, chrf = scores(said, references)
    if cut != "13a":
        most = max(map(len, references))
        metric = sacrebleu.BLEU(tokenize=cut)
        value = metric.corpus_score(
            list(said),
            [[refs[k] if k < len(refs) else None for refs in references] for k in range(most)],
        ).score
        bleu |= {"value": value, "signature": str(metric.get_signature())}
    return [bleu, chrf]


def line_counts_by(
    said: Sequence[str], references: Sequence[Sequence[str]], cut: str = "13a"
) -> np.ndarray:
    "Chapter 19's `line_counts`, on text that is cut as `cut` says. (n, 10)"
    import sacrebleu

    if cut == "13a":
        return line_counts(said, references)
    split = sacrebleu.BLEU(tokenize=cut).tokenizer
    return np.array(
        [
            counts(split(one).split(), [split(ref).split() for ref in refs])
            for one, refs in zip(said, references, strict=True)
        ]
    )
