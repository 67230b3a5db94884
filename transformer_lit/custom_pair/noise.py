"""Pairs that don't belong in a parallel text, told by the text itself: another language, a side
that wasn't translated."""

# No list of languages and no download: two models of letters, one of each column, are learned from
# the corpus that they judge. A library that knows 176 languages knows nothing of the 177th, and a
# wrong line is rare enough not to spoil the model of its column.
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

from transformer_lit.corpora.texts import TextPair
from transformer_lit.corpora.texts import take_evenly

SAMPLE = 50_000  # lines that a model of letters learns from
LEAST = 12  # letters that a line must have to be judged
PRIOR, THREES = (
    2000,
    20_000,
)  # letters that every model is given; how many threes a language may use
OTHER, THIRD = "perhaps the other column's language", "perhaps a third language"
SURE = 0.1  # nats a letter by which the other column's language must be likelier
# share of threes that occur once from which on a column tells too little: Chinese, Japanese and
# Korean, or very few lines
RARE = 0.1
SIGNS = re.compile(
    "[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\U00020000-\U000323af]"
)  # Chinese characters, kana, Korean syllables


def letters_of(text: str) -> str:
    "Lower case, one space for everything that is no letter, a space at both ends."
    lower = unicodedata.normalize("NFC", text).casefold()
    words = re.findall(r"[^\W\d_]+", lower)
    return f" {' '.join(words)} "


def letters_in(text: str) -> int:
    "How long a text is in letters: a sign that is a syllable or a word counts as three."
    return len(text) + 2 * len(SIGNS.findall(text))


class Letters(dict[str, float]):
    """How frequent three letters are in some lines: {three letters: the log of their share}.

    Their share, and not how likely the third is after the two before: those would be the same
    however few of the lines are in that language. To what was counted come PRIOR letters that are
    shared out as in `prior`, another such model, or evenly."""

    def __init__(self, lines: Iterable[str], prior: "Letters | None" = None):
        super().__init__()
        self.prior, self.counts = prior, Counter[str]()
        for line in map(letters_of, lines):
            self.counts.update(line[i : i + 3] for i in range(len(line) - 2))
        self.total = self.counts.total()

    def __missing__(self, three: str) -> float:
        share = math.exp(self.prior[three]) if self.prior is not None else 1 / THREES
        value = math.log((self.counts[three] + PRIOR * share) / (self.total + PRIOR))
        if (
            three in self.counts
        ):  # what wasn't counted isn't kept either, or a long text with many signs would fill the memory
            self[three] = value
        return value

    def score(self, line: str) -> float:
        "The mean over the line; 0 for a line without letters."
        text = letters_of(line)
        return sum(self[text[i : i + 3]] for i in range(len(text) - 2)) / max(len(text) - 2, 1)


def strangers(
    lines: Sequence[str],
    sample: int = SAMPLE,
    share: float = 0.15,
    margin: float = 1.5,
    rounds: int = 4,
) -> list[bool]:
    """True for each line that is in another language than most.

    A model of the column has learned the strangers too. So the column is parted in two, over and
    over: at first the `share` least likely lines from the rest, then each line to the model, of the
    one part or of the other, that finds it likelier; at last by over `margin` nats a letter. A
    column of one language parts as well, into usual and unusual lines, but not by so much. Where
    many threes occur once, a line knows itself again in the part that counted it: then nothing is
    told apart."""
    judged = [line for line in lines if len(letters_of(line)) - 2 >= LEAST]
    some = take_evenly(judged, sample)
    if not some:
        return [False] * len(lines)
    own = Letters(some)
    if sum(n == 1 for n in own.counts.values()) > RARE * own.total:
        return [False] * len(lines)
    scores = [own.score(line) for line in some]
    limit = sorted(scores)[int(share * len(scores))]
    for once in range(rounds):
        kept, rest = (
            Letters((line for line, score in zip(some, scores) if (score < limit) is under), own)
            for under in (False, True)
        )
        scores = [kept.score(line) - rest.score(line) for line in some]
        limit = -margin if once >= rounds - 2 else 0.0
        if not any(score < limit for score in scores):
            return [False] * len(lines)
    return [
        len(letters_of(line)) - 2 >= LEAST and kept.score(line) - rest.score(line) < -margin
        for line in lines
    ]


def language_faults(pairs: Sequence[TextPair], sample: int = SAMPLE) -> list[str]:
    """For each pair "" or why its languages can't be right.

    OTHER: a side is likelier in the other column's language, so it wasn't translated, or the sides
    are swapped. THIRD: see `strangers`. Neither is sure: some lines in a thousand are unusual and
    right, of close languages and of a language in two scripts many more. Lines of fewer than LEAST
    letters are not judged, nor THIRD in a column of Chinese, Japanese or Korean."""
    some = take_evenly(pairs, sample)
    models = [Letters(pair[side] for pair in some) for side in (0, 1)]
    third = [strangers([pair[side] for pair in pairs], sample) for side in (0, 1)]
    found = []
    for k, pair in enumerate(pairs):
        long = [side for side in (0, 1) if len(letters_of(pair[side])) - 2 >= LEAST]
        if any(
            models[1 - side].score(pair[side]) > models[side].score(pair[side]) + SURE
            for side in long
        ):
            found.append(OTHER)
        else:
            found.append(THIRD if third[0][k] or third[1][k] else "")
    return found


def look_swapped(pairs: Sequence[TextPair], like: Sequence[TextPair], sample: int = 1000) -> bool:
    """Are most of these pairs surely likelier with their sides swapped, by the letters of `like`'s
    columns? False if few are long enough."""
    models, votes = [Letters(pair[side] for pair in take_evenly(like, SAMPLE)) for side in (0, 1)], []
    for one, other in take_evenly(pairs, sample):
        if min(len(letters_of(side)) - 2 for side in (one, other)) >= LEAST:
            votes.append(
                models[1].score(one) + models[0].score(other)
                > models[0].score(one) + models[1].score(other) + 2 * SURE
            )
    return len(votes) >= 10 and 2 * sum(votes) > len(votes)
