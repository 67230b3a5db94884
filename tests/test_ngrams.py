"""N-gram language models, worked by hand."""

import math
import sys
from itertools import product
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
from fair import ngrams

BOS, EOS, A, B = 1, 2, 3, 4  # V = 5 with PAD
TEXT = [[BOS, *map(int, words), EOS] for words in "443 433 3 4443 43 43".split()]
WITTEN, KNESER = (ngrams.NGrams(TEXT, 5, 3, kneser_ney) for kneser_ney in (False, True))
# Labels: a seven times, b eight, eos six; three kinds. After b: a five times, b three
A_AFTER_B = (5 + 2 * (7 + 3 / 5) / 24) / 10
# Before a: b, a, bos; before b: bos, b; before eos: a. One n-gram each has 1, 2 and 3, so Y = 1/3
# and the discounts are 1/3, 1, 3. Of six, 13/3 are given to five words
K_A, K_B, K_EOS = 13 / 90, 28 / 90, 23 / 90
# Of bigrams, where one that begins with bos keeps its count, two have 1 (bos a, aa), two 2 (bb,
# ba), one 3 (a eos), one more (bos b: 5): Y = 1/3, discounts 1/3, 3/2, 3
K_A_AFTER_B = (0.5 + 3 * K_A) / 4


@pytest.mark.parametrize(
    "model, past, word, expected",
    [
        (WITTEN, (BOS,), B, (5 + 2 * (8 + 3 / 5) / 24) / 8),
        (WITTEN, (BOS, B), A, (3 + 2 * A_AFTER_B) / 7),
        (WITTEN, (EOS, EOS), EOS, (6 + 3 / 5) / 24),  # nothing stood after eos
        (WITTEN, (EOS, B), A, A_AFTER_B),
        (KNESER, (BOS,), B, (2 + 10 / 3 * K_B) / 6),
        # four trigrams have 1, two 2, one 3, one 4: Y = 1/2, discounts 1/2, 5/4, 1
        (KNESER, (BOS, B), A, (2 + 9 / 4 * K_A_AFTER_B) / 5),
        (KNESER, (EOS, EOS), EOS, K_EOS),
        (KNESER, (EOS, B), A, K_A_AFTER_B),
    ],
)
def test_a_case_by_hand(model, past, word, expected):
    assert model.probability(past, word) == pytest.approx(expected)


def test_a_sentence_adds_up():
    steps = ((BOS,), B), ((BOS, B), A), ((B, A), EOS)
    nats = [-math.log(KNESER.probability(*step)) for step in steps]
    for skip in (0, 1):
        assert KNESER.loss([BOS, B, A, EOS], skip) == pytest.approx(sum(nats[skip:]))


@pytest.mark.parametrize("past", [(), *product((BOS, EOS, A, B), repeat=2)])
def test_the_probabilities_of_all_words_add_up_to_one(past):
    for model in (WITTEN, KNESER):
        assert sum(model.probability(past, word) for word in range(5)) == pytest.approx(1)
