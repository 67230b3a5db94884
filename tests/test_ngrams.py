"""The lines of unigram, bigram and trigram, worked by hand."""

import math
import sys
from itertools import product
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
from fair import ngrams

BOS, EOS, A, B = 1, 2, 3, 4  # V = 5 with PAD
SEEN = [[BOS, A, B, EOS], [BOS, A, A, EOS]]


def test_a_case_by_hand():
    """Labels: a b eos, a a eos. Of six a is three, eos two, b one; three kinds.

    p_1(a) = (3 + 3/5) / 9 = 0.4, p_1(b) = (1 + 3/5) / 9, p_1(eos) = (2 + 3/5) / 9.
    After bos: a twice, one kind, so p_2(a | bos) = (2 + 0.4) / 3 = 0.8.
    After a: b, a, eos once each, three kinds: p_2(b | a) = (1 + 3 p_1(b)) / 6.
    After bos a: b and a once each, two kinds: p_3(b | bos a) = (1 + 2 p_2(b | a)) / 4."""
    model = ngrams.WittenBell(SEEN, 5)
    assert model.probabilities((BOS, BOS), A) == pytest.approx([0.4, 0.8, (2 + 0.8) / 3])
    p1 = 8 / 45
    p2 = (1 + 3 * p1) / 6
    assert model.probabilities((BOS, A), B) == pytest.approx([p1, p2, (1 + 2 * p2) / 4])
    p1 = 13 / 45
    after_b = (1 + p1) / 2  # only EOS was seen after b
    assert model.probabilities((B, B), EOS) == pytest.approx(
        [p1, after_b, after_b]
    ), "b b was never seen: the bigram's word"
    assert model.probabilities((EOS, EOS), EOS) == pytest.approx(
        [p1] * 3
    ), "nothing was seen after EOS"


def test_a_sentence_adds_up():
    model = ngrams.WittenBell(SEEN, 5)
    by_hand = [0.0] * 3
    for past, word in (((BOS, BOS), A), ((BOS, A), B), ((A, B), EOS)):
        for n, p in enumerate(model.probabilities(past, word)):
            by_hand[n] -= math.log(p)
    assert model.losses([BOS, A, B, EOS]) == pytest.approx(by_hand)
    found = ngrams.lines(SEEN, [[BOS, A, B, EOS]], 5)
    assert [found[name].item() for name in ngrams.NAMES] == pytest.approx(by_hand)
    assert list(found) == ["unigram", "bigram", "trigram"]


def test_the_probabilities_of_all_words_add_up_to_one():
    model = ngrams.WittenBell(SEEN, 5)
    for past in product((BOS, EOS, A, B), repeat=2):
        for n in range(3):
            assert sum(model.probabilities(past, word)[n] for word in range(5)) == pytest.approx(1)


@pytest.mark.parametrize("order", [2, 3])
def test_each_order_stands_alone(order):
    whole, short = ngrams.WittenBell(SEEN, 5), ngrams.WittenBell(SEEN, 5, order)
    assert short.losses([BOS, B, A, EOS]) == pytest.approx(whole.losses([BOS, B, A, EOS])[:order])


def test_only_pairs_of_the_batches_count_each_once():
    pairs = [([9], [BOS, k, EOS]) for k in range(10)]
    assert ngrams.targets(pairs, [[3, 1], [1]]) == [[BOS, 1, EOS], [BOS, 3, EOS]]
    assert len(ngrams.targets(pairs)) == 10
