"""The lines of unigram, bigram and trigram, worked by hand."""

import math
import sys
from itertools import product
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
from fair import ngrams

BOS, EOS, A, B = 1, 2, 3, 4  # V = 5 with PAD
TEXT = [[BOS, A, B, EOS], [BOS, A, A, EOS]]
MODEL = ngrams.WittenBell(TEXT, 5)
# Labels: a b eos, a a eos. Of six a is three, eos two, b one; three kinds:
P_A, P_B, P_EOS = (3 + 3 / 5) / 9, (1 + 3 / 5) / 9, (2 + 3 / 5) / 9
B_AFTER_A = (1 + 3 * P_B) / 6  # after a: b, a, eos once each, three kinds
EOS_AFTER_B = (1 + P_EOS) / 2  # only EOS stood after b


@pytest.mark.parametrize(
    "past, word, expected",
    [
        # after bos: a twice, one kind
        ((BOS, BOS), A, [P_A, (2 + P_A) / 3, (2 + (2 + P_A) / 3) / 3]),
        # after bos a: b and a once each, two kinds
        ((BOS, A), B, [P_B, B_AFTER_A, (1 + 2 * B_AFTER_A) / 4]),
        # b b never stood there: the bigram's word; and nothing stood after EOS
        ((B, B), EOS, [P_EOS, EOS_AFTER_B, EOS_AFTER_B]),
        ((EOS, EOS), EOS, [P_EOS] * 3),
    ],
)
def test_a_case_by_hand(past, word, expected):
    assert MODEL.probabilities(past, word) == pytest.approx(expected)


def test_a_sentence_adds_up():
    steps = ((BOS, BOS), A), ((BOS, A), B), ((A, B), EOS)
    nats = [[-math.log(p) for p in MODEL.probabilities(*step)] for step in steps]
    losses = ngrams.lines(TEXT, [[BOS, A, B, EOS]], 5)
    assert list(losses) == ["unigram", "bigram", "trigram"]
    assert [loss.item() for loss in losses.values()] == pytest.approx(list(map(sum, zip(*nats))))
    rest = ngrams.lines(TEXT, [[BOS, A, B, EOS]], 5, skip=1, end=False)
    assert [loss.item() for loss in rest.values()] == pytest.approx(nats[1])


@pytest.mark.parametrize("past", list(product((BOS, EOS, A, B), repeat=2)))
def test_the_probabilities_of_all_words_add_up_to_one(past):
    each = zip(*(MODEL.probabilities(past, word) for word in range(5)))
    assert [sum(column) for column in each] == pytest.approx([1] * 3)
