"""Pairs that don't belong: sides in another language, sides that were not translated."""

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unspoken import line

from transformer_lit import data
from transformer_lit.custom_pair import languages
from transformer_lit.custom_pair.languages import (
    CharacterModel,
    has_spaces,
    swapped_pairs,
    third_language,
    wrong_language_reasons,
)


def pairs(n, languages="ab"):
    rng = Random(1)
    return [tuple(line(language, rng) for language in languages) for _ in range(n)]


def test_a_line_is_likelier_in_its_own_language():
    rng = Random(2)
    models = {name: CharacterModel([line(name, rng) for _ in range(50)]) for name in "abc"}
    for language in "abc":
        text = line(language, rng)
        assert max(models, key=lambda name: models[name].score(text)) == language
    assert models["a"].score("42") == 0 and models["a"].score("kato") < 0


@given(st.text(max_size=20))
def test_probabilities_of_what_follows_stay_below_one(text):
    model = CharacterModel(["kato mira", "mira neko"])
    assert model.score(text) <= 0
    letters = "abcdefghijklmnopqrstuvwxyz "
    assert sum(math.exp(model["ka" + letter]) for letter in letters) < 1 + 1e-6


def test_what_was_not_counted_takes_no_memory_and_is_as_likely_as_in_the_prior():
    own = CharacterModel(["kato mira"])
    model = CharacterModel(["neko mira"], own)
    value = model["xyz"]
    assert not {"xyz"} & {*model, *own}, "a trigram that was not counted is remembered"
    assert value < model["kat"] < model["mir"]  # its prior has met kat and not xyz


@pytest.mark.parametrize(
    "spoil, reason",
    [
        (lambda left, right, third: (left, left), languages.OTHER),
        (lambda left, right, third: (right, left), languages.OTHER),
        (lambda left, right, third: (left, third), languages.THIRD),
        (lambda left, right, third: (third, right), languages.THIRD),
    ],
)
def test_planted_faults_are_named_and_few_others(spoil, reason):
    rng, clean = Random(3), pairs(600)
    spoilt = {k for k in range(600) if rng.random() < 0.1}
    lines = [spoil(*p, line("c", rng)) if k in spoilt else p for k, p in enumerate(clean)]
    reasons = wrong_language_reasons(lines)
    right = sum(reasons[k] == reason for k in spoilt)
    assert right >= 0.95 * len(spoilt)  # a wrong language is not seen
    assert sum(map(bool, reasons)) - right <= 0.02 * len(clean)


@pytest.mark.parametrize("every, first, tags", [(2, 1, "xy"), (10, 1, "xy"), (2, 0, ("en", "fr"))])
def test_pairs_in_the_other_direction_are_found_one_by_one(every, first, tags):
    straight = pairs(600) if first else data.load_corpus("pocket")["train"][:600]
    others = [n % every == first for n in range(600)]
    mixed = [pair[:: -1 if other else 1] for pair, other in zip(straight, others)]
    assert sum(a == b for a, b in zip(swapped_pairs(mixed, *tags), others)) > 590
    assert not any(swapped_pairs(straight, *tags))


def test_a_clean_text_loses_next_to_nothing():
    rows = pairs(600)
    rows[::10] = [(f"{a} {c}", f"{b} {c}") for a, b, c in pairs(60, "abc")]
    assert sum(map(bool, wrong_language_reasons(rows))) <= 6
    assert wrong_language_reasons([("ka", "bru")]) == [""]  # too short to be judged
    assert third_language(["", "ka to", "42"]) == [False] * 3


def test_a_column_of_signs_that_are_words_loses_nothing():
    """Most threes of Chinese occur once: a line that was counted with the strangers knows itself
    there again."""
    rng, signs = Random(1), [chr(0x4E00 + 7 * k) for k in range(2500)]
    words = "the cat dog sees my old house and a big tree in some water".split()
    weights = [1 / (k + 5) for k in range(2500)]
    rows = [
        (
            " ".join(rng.choices(words, k=rng.randint(5, 12))),
            "".join(rng.choices(signs, weights, k=rng.randint(12, 20))),
        )
        for _ in range(1500)
    ]
    assert wrong_language_reasons(rows) == [""] * 1500


@pytest.mark.seconds
def test_real_text():
    """English and French of the corpus that comes with the book, with French that was not
    translated in between."""
    clean = [pair for pair in data.load_corpus("pocket")["test"] if len(pair[0]) > 25]
    reasons = wrong_language_reasons([(e, f if k % 10 else e) for k, (e, f) in enumerate(clean)])
    assert reasons[::10].count(languages.OTHER) >= 0.08 * len(clean) > 40
    assert sum(map(bool, reasons)) <= 0.13 * len(clean)


SPACED = ["나는 너를 사랑해.", "Я тебя люблю.", "मैं तुमसे प्यार करता हूँ।", "أحبك"]
SPACED += ["I love 北京 and Tokyo.", "我愛 Tom", "12 + 3", ""]
UNSPACED = ["我愛你。", "猫が好きです。", "カタカナ", "ฉันรักคุณ", "ខ្ញុំស្រលាញ់អ្នក"]
UNSPACED += ["ငါမင်းကိုချစ်တယ်", "我愛湯姆和 Tom"]


@pytest.mark.parametrize("text", [*SPACED, *UNSPACED])
def test_most_letters_decide_how_bleu_splits(text):
    assert has_spaces([text, text]) == (text in SPACED)
