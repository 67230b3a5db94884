"""`bench/binding.py`: sentences that no table answers, and a run of a few seconds that goes on
where it stopped."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
import binding

from transformer_lit.pocket_corpus import noun_pairs
from transformer_lit.grammar.slots import adjectives_for
from transformer_lit.grammar.french import nouns
from transformer_lit.tokenization import split_words

pytestmark = pytest.mark.slow
NOUNS = {noun.english: noun for noun in nouns()}


@pytest.fixture(scope="module")
def parts():
    return binding.binding(1, {"train": 320, "test": 80})


def test_both_adjectives_fit_both_nouns_and_one_comes_back(parts):
    for pair in parts["train"] + parts["test"]:
        words = split_words(pair.english)
        states = {words[3], words[8]}
        assert len(states) == 2 and words[-2] in states, pair.english
        for noun in pair.triple.split("|")[::2]:
            fitting = {a.english for a in adjectives_for(NOUNS[noun].classes, noun)}
            assert states <= fitting, f"{noun}: {states}"


def test_the_noun_that_was_so_is_meant(parts):
    trained = {couple for pair in parts["train"] for couple in noun_pairs(pair)}
    for pair in parts["test"]:
        words = split_words(pair.english)
        assert not noun_pairs(pair) & trained, "the couple stands in training"
        meant = words[1] if words[3] == words[-2] else words[6]
        assert binding.pronoun(pair.french) == {"m": "il", "f": "elle"}[NOUNS[meant].gender], pair


def test_no_table_knows_the_test(parts):
    known = binding.tables(parts["train"], parts["test"])
    richest = known.pop("verb, adjective and genders")
    coins = {"the commoner", "described first", "described last", "subject", "object"}
    assert {known[name] for name in coins} == {0.5} and 0.35 < richest < 0.65, known
    own = binding.tables(parts["test"], parts["test"])
    assert own["verb, adjective and genders"] > 0.65, "a table that knows the test is no coin"
