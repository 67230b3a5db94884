"""`bench/binding.py`: sentences that no table answers, and a run of a few seconds that goes on
where it stopped."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
import binding

from transformer_lit.pocket_corpus import noun_and_pronoun_genders, noun_pairs
from transformer_lit.grammar.slots import adjectives_for
from transformer_lit.grammar.french import nouns
from transformer_lit.tokenization import split_words
from transformer_lit.translation import Translator

NOUNS = {noun.english: noun for noun in nouns()}


@pytest.fixture(scope="module")
def parts():
    return binding.binding(1, {"train": 640, "test": 160})


def test_both_adjectives_fit_both_nouns_and_one_comes_back(parts):
    for pair in parts["train"] + parts["test"]:
        words = split_words(pair.english)
        said, last = [words[3], words[8]], words[-2]
        assert (
            words[2] == words[7] == "was" and words[4] == words[9] == "." and words.count("it") == 1
        )
        assert said[0] != said[1] and last in said, pair.english
        for noun in (pair.triple.split("|")[0], pair.triple.split("|")[2]):
            fitting = {a.english for a in adjectives_for(NOUNS[noun].classes, noun)}
            assert set(said) <= fitting, f"{noun}: {said}"


def test_the_noun_that_was_so_is_meant(parts):
    for pair in parts["test"]:
        words = split_words(pair.english)
        meant = words[1] if words[3] == words[-2] else words[6]
        assert binding.pronoun(pair.french) == {"m": "il", "f": "elle"}[NOUNS[meant].gender], pair


def test_no_table_knows_the_test(parts):
    known = binding.tables(parts["train"], parts["test"])
    assert all(
        known[name] == 0.5
        for name in ("the commoner", "described first", "described last", "subject", "object")
    ), known
    assert 0.35 < known["verb, adjective and genders"] < 0.65
    own = binding.tables(
        parts["test"], parts["test"]
    )  # a table that had seen the test itself is no coin
    assert own["verb, adjective and genders"] > 0.65


def test_couples_of_the_test_are_in_no_training_sentence(parts):
    seen = {couple for pair in parts["train"] for couple in noun_pairs(pair)}
    assert not seen & {couple for pair in parts["test"] for couple in noun_pairs(pair)}
    assert all(
        len(set(noun_and_pronoun_genders(pair)[:2])) == 2 for pair in parts["test"]
    ), "genders differ"
    assert len({pair.english for pair in parts["train"] + parts["test"]}) == 800
    assert binding.binding(1, {"train": 640, "test": 160}) == parts


def test_a_small_run_goes_on(monkeypatch, tmp_path):
    out, home = tmp_path / "binding.json", tmp_path / "home"

    def run(seeds):
        monkeypatch.setattr(
            sys,
            "argv",
            [
                str(Path(binding.__file__)),
                "--seeds",
                seeds,
                "--epochs",
                "1",
                "--train",
                "96",
                "--pocket",
                "96",
                "--test",
                "16",
                "--out",
                str(out),
                "--home",
                str(home),
            ],
        )
        binding.main()
        return json.loads(out.read_text("utf-8"))

    first, both = run("1"), run("2")
    assert both["runs"][0] == first["runs"][0] and [row["seed"] for row in both["runs"]] == [1, 2]
    for row in [*both["runs"], both["shipped"]]:
        assert all(
            0 <= share <= 1
            for test in ("binding", "the corpus's own")
            for share in row[test].values()
        )
    own = both["shipped"]["the corpus's own"]
    assert own["written"] > 0.9, "the shipped translator knows its own corpus"


def test_what_is_written_was_read_as_a_whole(monkeypatch, parts):
    "A translator that cuts long texts apart would lose what the first sentences say."
    read = []
    monkeypatch.setattr(
        binding,
        "translate_ids",
        lambda model, ids, *options, **named: read.extend(ids) or [[] for _ in ids],
    )
    translator = Translator.load(binding.ROOT / "data/checkpoints/pocket")
    pairs = parts["test"][:4]
    assert binding.written(translator, pairs) == 0, "no answer, no pronoun"
    assert read == [translator.source_tokenizer.encode(pair.english) for pair in pairs] and max(
        map(len, read)
    ) > min(translator.length_limits)
