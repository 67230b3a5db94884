"""Word and phrase pairs from the word alignments of a parallel corpus."""

# A model that has seen sentences alone makes a sentence of a single word. Pairs of words and short
# phrases on which the alignments of both directions agree teach it to answer with a word.
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from transformer_lit.corpora.texts import Pairs, TextPair
from transformer_lit.serving.glossary import capitalized

LONGEST = 12  # words of a sentence: a short one says more about each of its words
WORD = r"\w+(?:['-]\w+)*", r"\w+'|\w+(?:-\w+)*"  # of the source; of the target: l' eau


def split_words(pair: TextPair) -> list[list[str]]:
    "The words of both sides, the first ones without the capital of a sentence."
    sides = [re.sub(r"^(?!I\b)\w(?![A-Z])", lambda first: first[0].lower(), s) for s in pair]
    return [re.findall(word, side.replace("’", "'")) for word, side in zip(WORD, sides)]


def grid(side: int, texts: Sequence[list[np.ndarray]]) -> np.ndarray:
    "What stands in the row (side 0) or the column (1), for each cell of each pair, end to end."
    spread = (np.repeat, np.tile)[side]
    return np.concatenate([spread(pair[side], len(pair[1 - side])) for pair in zip(*texts)])


def alignment_scores(sources: Sequence[list], targets: Sequence[list]) -> list[np.ndarray]:
    """p(target word | source word) · p(source word | target word), (S, T) for each pair: IBM
    Model 1 (Brown et al. 1993), four rounds of expectation and maximization."""
    words, positions = [], []
    for texts in sources, targets:
        ends = np.cumsum([*map(len, texts)])
        _, ids = np.unique([*chain.from_iterable(texts)], return_inverse=True)
        words.append(np.split(ids, ends[:-1]))
        positions.append(np.split(np.arange(ends[-1]), ends[:-1]))
    rows, columns = grid(0, words), grid(1, words)
    _, cells = np.unique(rows * (columns.max() + 1) + columns, return_inverse=True)
    scores = np.ones(len(cells))
    for condition, position in (rows, grid(1, positions)), (columns, grid(0, positions)):
        p = np.ones(len(cells))
        for _ in range(4):
            share = p / np.bincount(position, p)[position]
            p = np.bincount(cells, share)[cells] / np.bincount(condition, share)[condition]
        scores *= p
    ends = np.cumsum([len(s) * len(t) for s, t in zip(sources, targets)])
    return [x.reshape(len(s), -1) for x, s in zip(np.split(scores, ends), sources)]


def phrase_pairs(source: list, target: list, scores: np.ndarray) -> Iterator[tuple[str, str]]:
    """Words, and phrases of up to three, that are linked with each other alone (Koehn et al. 2003).
    Two words are linked if each is the other's best; beside a phrase all words are linked."""
    best = enumerate(scores.argmax(1))
    links = {i: j for i, j in best if scores[:, j].argmax() == i and scores[i, j] > 1e-3}
    for first in range(len(source)):
        for last in range(first, min(first + 3, len(source))):
            inside = [links.get(i, -9) for i in range(first, last + 1)]
            low, high = min(inside), max(inside)
            beside = range(max(low - 1, 0), min(high + 2, len(target)))
            if low < 0 or high - low >= len(inside):
                continue
            if first == last or {*beside} <= {*links.values()}:
                phrase = " ".join(target[low : high + 1]).replace("' ", "'")
                yield " ".join(source[first : last + 1]), phrase


def build_lexicon(pairs: Iterable[TextPair]) -> Pairs:
    """The most frequent translation of each word and phrase, if it occurs three times and makes 30%
    of all; words also with a capital."""
    split = [pair for pair in map(split_words, pairs) if all(map(len, pair))]
    sources, targets = zip(*(pair for pair in split if max(map(len, pair)) <= LONGEST))
    counts: dict[str, Counter] = defaultdict(Counter)
    for pair in zip(sources, targets, alignment_scores(sources, targets)):
        for source, target in phrase_pairs(*pair):
            counts[source][target] += 1
    lexicon = []
    for source, translations in counts.items():
        [(target, count)] = translations.most_common(1)
        if count >= max(3, 0.3 * translations.total()):
            lexicon.append((source, target))
            if " " not in source:
                lexicon.append((capitalized(source), capitalized(target)))
    return lexicon
