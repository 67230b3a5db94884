"""Data augmentation and overlap removal: synthetic pairs that teach copying; near-duplicates of
held-out sentences."""

# A model that saw "Tom" ten thousand times has learned a translation of it, and not to copy. Where
# the same name or number stands on both sides of a pair, another in its place makes a pair that is
# as right as before, and the only way to translate it is to copy.
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from random import Random

from transformer_lit.corpora.texts import TextPair

ONSETS = "b br c ch cl d dr f fl g gr h j k kl l m n p pr qu r s sch sk st t th tr v w y z".split()
VOWELS = "a e i o u a e i o ai au ei ee oo ie".split()
CODAS = "n r l s m t k ck nd rt ng sz v x".split() + 5 * [""]
CENTS = r"\d+[.,]\d\d"
NUMBER = rf"(?<![\w.,])(?:{CENTS}|\d{{1,3}}(?:[,.\s\u00a0\u202f]\d{{3}})+|\d+)(?![.,]?\d|\w)"
MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
DAY = rf"\b{MONTH} (\d{{1,2}})\b(?!,\d)|\b(\d{{1,2}}) (?:of )?{MONTH}\b"
NOT_ANY = r"\d\s?%|\d:\d"  # a percentage or a time of day: not every number can stand there
VARIANTS = 8  # of a pair with a number: names are many, numbers few


def invented_name(rng: Random) -> str:
    "One to three syllables, never a vowel first: French would have to elide before it."
    syllables = [
        rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS)
        for _ in range(rng.choice((1, 2, 2, 3)))
    ]
    return "".join(syllables).capitalize()


def invented_number(
    number: str, rng: Random, is_day: bool = False, thousands: str = " "
) -> tuple[str, str]:
    """A number of the same kind (day, year, cents, up to five digits), as English and as the other
    language writes it."""
    if is_day:
        day = str(rng.randint(2, 28))
        return day, day
    if len(number) == 4 and number.isdigit() and 1000 < int(number) < 2100:
        year = str(rng.randint(1100, 2099))
        return year, year
    n = rng.randint(2, 10 ** rng.randint(2, 5) - 1)
    if re.fullmatch(CENTS, number):
        cents = f"{rng.randint(1, 99):02d}"
        return f"{n % 1000}.{cents}", f"{n % 1000},{cents}"
    return f"{n:,}", f"{n:,}".replace(",", thousands)


def shared_names(pair: TextPair, common_words: Collection[str] = ()) -> list[str]:
    "Capitalized words that stand once on each side and aren't common ones at a sentence's start."
    names = [re.findall(r"\b[A-Z][a-z]{2,}\b", side) for side in pair]
    return [
        name
        for name in names[0]
        if [side.count(name) for side in names] == [1, 1]
        and name[0] not in "AEIOUYH"
        and name.lower() not in common_words
    ]


def shared_numbers(pair: TextPair) -> list[tuple[str, str]]:
    "Numbers over 1 that stand once on each side, as each side writes them."
    if re.search(NOT_ANY, pair[0]):
        return []
    numbers = [re.findall(NUMBER, side) for side in pair]
    digits = [[re.sub(r"\D", "", number) for number in side] for side in numbers]
    return [
        (english, numbers[1][digits[1].index(value)])
        for english, value in zip(numbers[0], digits[0])
        if [side.count(value) for side in digits] == [1, 1] and int(value) > 1
    ]


def synthetic_copy(
    pair: TextPair, rng: Random, common_words: Collection[str] = (), thousands: str = " "
) -> TextPair | None:
    "The pair with other names and numbers where both sides share them; None where they share none."
    sides = pair
    for name in shared_names(pair, common_words):
        new = invented_name(rng)
        sides = [re.sub(rf"\b{name}\b", new, side) for side in sides]
    days = {a or b for a, b in re.findall(DAY, pair[0])}
    replacements = {}, {}
    for number, written in shared_numbers(pair):
        new = invented_number(number, rng, number in days, thousands)
        replacements[0][number], replacements[1][written] = new
    sides = tuple(
        re.sub(NUMBER, lambda match: new.get(match[0], match[0]), side)
        for side, new in zip(sides, replacements)
    )
    return sides if sides != pair else None


def synthetic_copies(
    read: Callable[[], Iterable[TextPair]], thousands: str = " "
) -> Iterator[TextPair]:
    "Synthetic copies of all pairs that share a name or a number; the same ones at every reading."
    rng = Random(1)
    common = {
        word for pair in read() for side in pair for word in re.findall(r"\b[a-z]{3,}\b", side)
    }
    for pair in read():
        for _ in range(VARIANTS if shared_numbers(pair) else 1):
            if copy := synthetic_copy(pair, rng, common, thousands):
                yield copy


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def ngrams_of(words: list[str]) -> set[tuple[str, ...]]:
    return set(zip(words, words[1:], words[2:], words[3:]))


class NearDuplicates:
    """Finds the sentences of `held_out` that another one repeats: the same words, or, for a
    sentence of at least eight words, 70% of its 4-grams."""

    def __init__(self, held_out: Iterable[str]):
        self.by_words = defaultdict(list)
        self.by_ngram = defaultdict(list)
        self.threshold = {}
        for k, words in enumerate(map(words_of, held_out)):
            self.by_words[" ".join(words)].append(k)
            if len(words) >= 8:
                ngrams = ngrams_of(words)
                self.threshold[k] = 0.7 * len(ngrams)
                for ngram in ngrams:
                    self.by_ngram[ngram].append(k)

    def of(self, sentence: str) -> set[int]:
        "Indices of the held-out sentences that this one repeats."
        words = words_of(sentence)
        counts = Counter(k for ngram in ngrams_of(words) for k in self.by_ngram.get(ngram, ()))
        matches = {k for k, count in counts.items() if count >= self.threshold[k]}
        return matches.union(self.by_words.get(" ".join(words), ()))
