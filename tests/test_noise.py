"""Pairs that don't belong: sides in another language, sides that were not translated."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unspoken import line

from transformer_lit import data
from transformer_lit.custom_pair import noise
from transformer_lit.custom_pair.noise import Letters, language_faults, letters_of, strangers


def pairs(n, seed=1):
    rng = Random(seed)
    return [(line("a", rng), line("b", rng)) for _ in range(n)]


def test_only_letters_count():
    assert letters_of("«L'été» — 12 FOIS!") == " l été fois " and letters_of("42!") == "  "


def test_a_line_is_likelier_in_its_own_language():
    rng = Random(2)
    models = {language: Letters(line(language, rng) for _ in range(50)) for language in "abc"}
    for language in "abc":
        text = line(language, rng)
        assert max(models, key=lambda name: models[name].score(text)) == language
    assert models["a"].score("42") == 0 and models["a"].score("kato") < 0


@given(st.text(max_size=20))
def test_probabilities_of_what_follows_stay_below_one(text):
    model = Letters(["kato mira", "mira neko"])
    assert model.score(text) <= 0
    assert (
        sum(2.718281828 ** model["ka" + letter] for letter in "abcdefghijklmnopqrstuvwxyz ")
        < 1 + 1e-6
    )


@pytest.mark.parametrize(
    "spoil, told",
    [
        (lambda pair, rng: (pair[0], pair[0]), noise.OTHER),
        (lambda pair, rng: (pair[1], pair[1]), noise.OTHER),
        (lambda pair, rng: pair[::-1], noise.OTHER),
        (lambda pair, rng: (pair[0], line("c", rng)), noise.THIRD),
        (lambda pair, rng: (line("c", rng), pair[1]), noise.THIRD),
    ],
)
def test_planted_faults_are_found_and_few_others(spoil, told):
    rng, given_ = Random(3), pairs(600)
    bad = [rng.random() < 0.1 for _ in given_]
    found = language_faults(
        [spoil(pair, rng) if wrong else pair for pair, wrong in zip(given_, bad)]
    )
    assert sum(fault == told for fault, wrong in zip(found, bad) if wrong) >= 0.95 * sum(bad)
    assert sum(bool(fault) for fault, wrong in zip(found, bad) if not wrong) <= 0.02 * len(bad)


def test_a_clean_text_loses_next_to_nothing():
    assert sum(map(bool, language_faults(pairs(600)))) <= 6
    assert language_faults([]) == [] and language_faults([("ka", "bru")]) == [
        ""
    ], "too short to be judged"
    assert strangers(["", "ka to", "42"]) == [False] * 3


def test_a_column_of_signs_that_are_words_loses_nothing(monkeypatch):
    """Most threes of Chinese occur once: a line that was counted with the strangers knows itself
    there again."""
    rng, signs, words = (
        Random(1),
        [chr(0x4E00 + 7 * k) for k in range(2500)],
        "the cat dog sees my old house and a big tree in some water".split(),
    )
    lines = [
        "".join(rng.choices(signs, [1 / (k + 5) for k in range(2500)], k=rng.randint(12, 20)))
        for _ in range(1500)
    ]
    given_ = [(" ".join(rng.choices(words, k=rng.randint(5, 12))), one) for one in lines]
    assert language_faults(given_) == [""] * 1500
    monkeypatch.setattr(noise, "RARE", 1.0)
    assert sum(fault == noise.THIRD for fault in language_faults(given_)) > 100
    assert noise.letters_in("我爱你") == 9 and noise.letters_in("abc") == 3


def test_real_text():
    """English and French of the corpus that comes with the book, with French that was not
    translated in between."""
    some = data.load("pocket")["test"][:1000]
    assert sum(map(bool, language_faults(some))) <= 0.03 * len(some)
    copied = [
        (english, english) if k % 10 == 0 else (english, french)
        for k, (english, french) in enumerate(some)
    ]
    found = language_faults(copied)
    long = [
        k for k in range(0, len(copied), 10) if len(letters_of(copied[k][0])) > noise.LEAST + 10
    ]
    assert len(long) > 50 and sum(found[k] == noise.OTHER for k in long) >= 0.8 * len(long)


def test_what_was_not_counted_is_not_kept():
    own = Letters(["kato mira"])
    model, held = Letters(["neko mira"], own), len(own)
    assert (
        held == 0
        and model["xyz"] == Letters(["neko mira"], own)["xyz"]
        and not {"xyz"} & {*model, *own}
    )
    assert (
        model["mir"] == model.pop("mir") and model["xyz"] < model["kat"] < model["mir"]
    ), "its prior has met kat and not xyz"
