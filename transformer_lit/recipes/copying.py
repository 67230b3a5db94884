"""Pairs that teach to copy: a name or a number that stands on both sides becomes one that nobody
has seen."""

# A translator that saw "Tom" ten thousand times has learned a word for it and not to copy. Where
# the same name or number stands on both sides of a pair, another in its place makes a pair as right
# as before, and the only way to translate it is to copy.
import re
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
SHARE = r"\d\s?%|\d:\d"  # of a hundred, and a time of day: not any number can stand there
VARIANTS = 8  # of a pair with a number: names are many, numbers few


def invented_name(rng: Random) -> str:
    "One to three syllables, never a vowel first: French would have to elide before it."
    syllables = [
        rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS)
        for _ in range(rng.choice((1, 2, 2, 3)))
    ]
    return "".join(syllables).capitalize()


def plain(number: str) -> str:
    "Its digits alone."
    return re.sub(r"\D", "", number)


def other_number(
    number: str, rng: Random, day: bool = False, thousands: str = " "
) -> tuple[str, str]:
    """Another in place of one, as English and as the other language writes it, which parts
    `thousands` so and has a comma before the cents: a day that every month has for a day, a year
    for what may be a year, cents for cents, else up to five digits."""
    if day:
        new = str(rng.randint(2, 28))
        return new, new
    if len(number) == 4 and number.isdigit() and 1000 < int(number) < 2100:
        year = str(rng.randint(1100, 2099))
        return year, year
    n = rng.randint(2, 10 ** rng.randint(2, 5) - 1)
    if re.fullmatch(CENTS, number):
        cents = f"{rng.randint(1, 99):02d}"
        return f"{n % 1000}.{cents}", f"{n % 1000},{cents}"
    return f"{n:,}", f"{n:,}".replace(",", thousands)


def shared_names(pair: TextPair, usual: Collection[str] = ()) -> list[str]:
    """The capitalised words that stand once on either side, don't begin with a vowel, and aren't
    `usual` words that begin a sentence."""
    found = [re.findall(r"\b[A-Z][a-z]{2,}\b", side) for side in pair]
    return [
        name
        for name in dict.fromkeys(found[0])
        if [names.count(name) for names in found] == [1, 1]
        and name[0] not in "AEIOUYH"
        and name.lower() not in usual
    ]


def shared_numbers(pair: TextPair) -> list[tuple[str, str]]:
    """The numbers over 1 that stand once on either side, as each writes them; none where a time or
    a percentage may be meant."""
    if re.search(SHARE, pair[0]):
        return []
    english, other = (re.findall(NUMBER, side) for side in pair)
    digits = [[plain(number) for number in side] for side in (english, other)]
    return [
        (one, other[digits[1].index(value)])
        for one, value in zip(english, digits[0])
        if [side.count(value) for side in digits] == [1, 1] and int(value) > 1
    ]


def with_others(
    pair: TextPair, rng: Random, usual: Collection[str] = (), thousands: str = " "
) -> TextPair | None:
    """The pair with other names and numbers wherever both sides share them; None where they share
    none."""
    english, other = pair
    for name in shared_names(pair, usual):
        new = invented_name(rng)
        english, other = (re.sub(rf"\b{name}\b", new, side) for side in (english, other))
    days = {one or two for one, two in re.findall(DAY, pair[0])}
    numbers = [
        (one, two, *other_number(one, rng, one in days, thousands))
        for one, two in shared_numbers(pair)
    ]
    heres, theres = {one: here for one, _, here, _ in numbers}, {
        two: there for _, two, _, there in numbers
    }
    english, other = (
        re.sub(NUMBER, lambda found: new.get(found[0], found[0]), side)
        for side, new in ((english, heres), (other, theres))
    )
    return (english, other) if (english, other) != pair else None


def copying_pairs(
    read: Callable[[], Iterable[TextPair]], thousands: str = " ", seed: int = 1
) -> Iterator[TextPair]:
    """The pairs of a source that share a name or a number, each with others; the same ones at every
    reading."""
    rng, usual = Random(seed), {
        word for pair in read() for side in pair for word in re.findall(r"\b[a-z]{3,}\b", side)
    }
    for pair in read():
        for _ in range(VARIANTS if shared_numbers(pair) else 1):
            if made := with_others(pair, rng, usual, thousands):
                yield made
