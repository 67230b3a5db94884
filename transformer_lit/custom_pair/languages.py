"""Language identification by character n-grams: filters for copied, swapped and wrong-language
pairs."""

# No list of languages and no download: two models of letters, one of each column, are learned from
# the corpus that they judge. A library that knows 176 languages knows nothing of the 177th, and a
# wrong line is rare enough not to spoil the model of its column.
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from transformer_lit.corpora.texts import TextPair, take_evenly

SAMPLE_SIZE = 50_000  # lines that a model of letters learns from
MIN_LETTERS = 12  # that a line must have to be judged
PRIOR_COUNT = 2000  # trigrams that every model is given beside the counted ones
N_TRIGRAMS = 20_000  # how many a language may use
OTHER, THIRD = "perhaps the other column's language", "perhaps a third language"
UNUSUAL, THIRD_MARGIN = 0.15, 1.5  # a share of lines, and nats a trigram: see `third_language`
MARGIN = 0.1  # nats a trigram by which the other column's language must be likelier
SURE, MIN_SWAPPED = 1.0, 10  # of both sides together; pairs: see `swapped_pairs`
# share of trigrams that occur once from which on a column tells too little: Chinese, Japanese and
# Korean, or very few lines
MAX_SINGLETONS = 0.1
# Chinese characters, kana, Korean syllables
CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\U00020000-\U000323af]")
UNSPACED_SCRIPTS = tuple(  # as the names of their letters begin in Unicode
    "CJK,HIRAGANA,KATAKANA,BOPOMOFO,THAI,LAO,KHMER,MYANMAR,TIBETAN,"
    "YI ,TAI ,NEW TAI,JAVANESE,BALINESE".split(",")
)


COMMON_WORDS = dict(
    line.split(": ")
    for line in """en: the of and to is in that it you have this with
fr: le les des est et une dans que je vous pas nous
de: der die das und ist nicht ein zu ich wir sie
es: el los las es una por que y está muy
it: il di che è una per non gli sono
nl: het een van niet ik en dat is
pt: o os uma não é que do da eu você
sv: och att det som är inte på jag
fi: ja on ei että se hän ole oli
pl: nie się na jest to że do w
cs: se na je že to jsem si v
hu: az és nem hogy egy van ez meg
tr: bir ve bu çok için ben değil var
ru: и не в что на я с он""".splitlines()
)


def common_words(lines: Iterable[str]) -> Counter[str]:
    "How many of their words are COMMON_WORDS of each language, and how many they are in all."
    words = Counter(word for line in lines for word in line.casefold().split())
    counts = {tag: sum(words[x] for x in common.split()) for tag, common in COMMON_WORDS.items()}
    return Counter(counts, all=words.total())


def likely_language(counts: Counter[str], declared: str) -> str:
    """The language that lines with these `common_words` are in; `declared` where that has none, or
    where nothing speaks clearly for another."""
    best = max(COMMON_WORDS, key=counts.__getitem__)
    clear = counts[best] > max(counts["all"] / 20, 3 * counts[declared])
    return best if clear and declared in COMMON_WORDS else declared


def letters_of(text: str) -> str:
    "Lower case, one space for everything that is no letter, a space at both ends."
    words = re.findall(r"[^\W\d_]+", unicodedata.normalize("NFC", text).casefold())
    return f" {' '.join(words)} "


def is_long_enough(text: str) -> bool:
    "Does it have letters enough to be judged?"
    return len(letters_of(text)) - 2 >= MIN_LETTERS


def count_letters(text: str) -> int:
    "How long a text is in letters: a sign that is a syllable or a word counts as three."
    return len(text) + 2 * len(CJK.findall(text))


def has_spaces(lines: Iterable[str]) -> bool:
    """Are the words of these lines separated by spaces, as most letters tell? BLEU's usual rules
    would take a Chinese sentence for one word."""
    letters = Counter(c for line in lines for c in line if unicodedata.category(c)[0] in "LM")
    unspaced = sum(
        count
        for letter, count in letters.items()
        if unicodedata.name(letter, "").startswith(UNSPACED_SCRIPTS)
    )
    return 2 * unspaced <= letters.total()


class CharacterModel(dict[str, float]):
    """How frequent three letters are in some lines: {trigram: the log of its share}.

    Their share, and not how likely the third is after the two before: those would be the same
    however few of the lines are in that language. To what was counted come PRIOR_COUNT trigrams
    that are shared out as in `prior`, another such model, or evenly."""

    def __init__(self, lines: Iterable[str], prior: "CharacterModel | None" = None):
        super().__init__()
        self.prior, self.counts = prior, Counter[str]()
        for line in map(letters_of, lines):
            self.counts.update(line[i : i + 3] for i in range(len(line) - 2))
        self.total = self.counts.total()

    def __missing__(self, trigram: str) -> float:
        p = math.exp(self.prior[trigram]) if self.prior is not None else 1 / N_TRIGRAMS
        value = math.log((self.counts[trigram] + PRIOR_COUNT * p) / (self.total + PRIOR_COUNT))
        if trigram in self.counts:  # the others would fill the memory, in a text with many signs
            self[trigram] = value
        return value

    def score(self, line: str) -> float:
        "The mean over the line; 0 for a line without letters."
        text = letters_of(line)
        return sum(self[text[i : i + 3]] for i in range(len(text) - 2)) / max(len(text) - 2, 1)


def third_language(lines: Sequence[str]) -> list[bool]:
    """True for each line that is in another language than most.

    A model of the column has learned the wrong lines too. So the column is parted in two, over and
    over: at first the UNUSUAL least likely lines from the rest, then each line to the model, of the
    one part or of the other, that finds it likelier; at last by over THIRD_MARGIN nats a trigram. A
    column of one language parts as well, into usual and unusual lines, but not by so much. Where
    many trigrams occur once, a line knows itself again in the part that counted it: then nothing is
    told apart."""
    nothing = [False] * len(lines)
    sample = take_evenly([line for line in lines if is_long_enough(line)], SAMPLE_SIZE)
    column = CharacterModel(sample)
    singletons = sum(count == 1 for count in column.counts.values())
    if not sample or singletons > MAX_SINGLETONS * column.total:
        return nothing
    scores = [column.score(line) for line in sample]
    threshold = sorted(scores)[int(UNUSUAL * len(scores))]
    for final in False, False, True, True:
        usual, unusual = (
            CharacterModel((x for x, y in zip(sample, scores) if (y < threshold) is below), column)
            for below in (False, True)
        )
        scores = [usual.score(line) - unusual.score(line) for line in sample]
        threshold = -THIRD_MARGIN if final else 0.0
        if min(scores) >= threshold:
            return nothing
    return [
        is_long_enough(line) and usual.score(line) - unusual.score(line) < -THIRD_MARGIN
        for line in lines
    ]


def column_models(pairs: Sequence[TextPair]) -> list[CharacterModel]:
    "One of each side."
    sample = take_evenly(pairs, SAMPLE_SIZE)
    return [CharacterModel(pair[side] for pair in sample) for side in (0, 1)]


def own_words(text: str, other: str) -> str:
    "A text without the words of the other side, too; a copy, of which nothing is left, as it is."
    shared = letters_of(other).split()
    return " ".join(word for word in letters_of(text).split() if word not in shared) or text


def wrong_language_reasons(pairs: Sequence[TextPair]) -> list[str]:
    """For each pair "" or why its languages can't be right.

    OTHER: a side is likelier in the other column's language, so it wasn't translated, or the sides
    are swapped. THIRD: see `third_language`. Words on both sides don't count: names, codes and
    copied terms tell nothing of a line's language. Neither reason is sure: some lines in a thousand
    are unusual and right, of close languages and of a language in two scripts many more. Lines of
    fewer than MIN_LETTERS letters are not judged, nor THIRD in a column of Chinese, Japanese or
    Korean."""
    pairs = [(own_words(*pair), own_words(*pair[::-1])) for pair in pairs]
    first, second = column_models(pairs)
    third = zip(*map(third_language, zip(*pairs)))

    def is_foreign(text, own, foreign):
        return is_long_enough(text) and foreign.score(text) > own.score(text) + MARGIN

    return [
        OTHER
        if is_foreign(source, first, second) or is_foreign(target, second, first)
        else THIRD * any(sides)
        for (source, target), sides in zip(pairs, third)
    ]


def order_margins(pairs: Sequence[TextPair], models: Sequence[CharacterModel]) -> list[float]:
    "By how many nats a trigram each pair is likelier as it stands than with its sides swapped."
    first, second = models
    return [
        first.score(source) + second.score(target) - second.score(source) - first.score(target)
        for source, target in pairs
    ]


def columns_look_swapped(pairs: Sequence[TextPair], reference: Sequence[TextPair]) -> bool:
    """Are most of these pairs surely likelier with their sides swapped, by the letters of
    `reference`'s columns? False if they are few."""
    margins = order_margins(take_evenly(pairs, 1000), column_models(reference))
    return len(pairs) >= 10 and median(margins) < -2 * MARGIN


def swapped_pairs(pairs: Sequence[TextPair], source: str, target: str) -> list[bool]:
    """True for each pair whose languages surely stand in the other order, where over MIN_SWAPPED
    and a 33rd do. Which order is right the COMMON_WORDS of both languages tell; without them
    it is that of two thirds, else that of the first pair.

    Both columns hold both languages then, and models of the columns tell nothing. So models are
    made of pairs that the commonest three letters of one language alone have put in order."""
    sample = take_evenly([pair for pair in pairs if all(map(is_long_enough, pair))], 2000)
    grams = [
        [{*zip(text, text[1:], text[2:])} for text in map(letters_of, pair)] for pair in sample
    ]
    counts = Counter(gram for left, right in grams for gram in left ^ right)
    marker = max(counts, key=counts.__getitem__, default=())
    ordered = [
        pair[:: 1 if marker in left else -1]
        for pair, (left, right) in zip(sample, grams)
        if marker in left ^ right
    ]
    models = column_models(ordered)
    order = [margin > 0 for margin in order_margins(sample, models) if abs(margin) > SURE]
    both = min(sum(order), len(order) - sum(order)) > max(MIN_SWAPPED, len(sample) / 33)
    sign = 1 if 3 * sum(order) > (2 - sum(order[:1])) * len(order) else -1
    margins = order_margins(pairs, models)
    for usual in (sign, -sign) * both:
        swapped = [usual * margin < -SURE for margin in margins]
        first = common_words(pair[0] for pair, turn in zip(pairs, swapped) if turn)
        if likely_language(first, source) == target or not {source, target} <= {*COMMON_WORDS}:
            return swapped
    return [False] * len(pairs)
