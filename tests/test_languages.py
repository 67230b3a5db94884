"""Pairs that don't belong: sides in another language, sides that were not translated."""

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
    letters_of,
    third_language,
    wrong_language_reasons,
)


def pairs(n, seed=1):
    rng = Random(seed)
    return [(line("a", rng), line("b", rng)) for _ in range(n)]


def test_only_letters_count():
    assert letters_of("«L'été» — 12 FOIS!") == " l été fois " and letters_of("42!") == "  "


def test_a_line_is_likelier_in_its_own_language():
    rng = Random(2)
    texts = {language: [line(language, rng) for _ in range(50)] for language in "abc"}
    models = {language: CharacterModel(lines) for language, lines in texts.items()}
    for language in "abc":
        text = line(language, rng)
        assert max(models, key=lambda name: models[name].score(text)) == language
    assert models["a"].score("42") == 0 and models["a"].score("kato") < 0


@given(st.text(max_size=20))
def test_probabilities_of_what_follows_stay_below_one(text):
    model = CharacterModel(["kato mira", "mira neko"])
    assert model.score(text) <= 0
    assert (
        sum(2.718281828 ** model["ka" + letter] for letter in "abcdefghijklmnopqrstuvwxyz ")
        < 1 + 1e-6
    )


@pytest.mark.parametrize(
    "spoil, told",
    [
        (lambda pair, rng: (pair[0], pair[0]), languages.OTHER),
        (lambda pair, rng: (pair[1], pair[1]), languages.OTHER),
        (lambda pair, rng: pair[::-1], languages.OTHER),
        (lambda pair, rng: (pair[0], line("c", rng)), languages.THIRD),
        (lambda pair, rng: (line("c", rng), pair[1]), languages.THIRD),
    ],
)
def test_planted_faults_are_found_and_few_others(spoil, told):
    rng, given_ = Random(3), pairs(600)
    bad = [rng.random() < 0.1 for _ in given_]
    found = wrong_language_reasons(
        [spoil(pair, rng) if wrong else pair for pair, wrong in zip(given_, bad)]
    )
    assert sum(fault == told for fault, wrong in zip(found, bad) if wrong) >= 0.95 * sum(bad)
    assert sum(bool(fault) for fault, wrong in zip(found, bad) if not wrong) <= 0.02 * len(bad)


def test_a_clean_text_loses_next_to_nothing():
    assert sum(map(bool, wrong_language_reasons(pairs(600)))) <= 6
    assert wrong_language_reasons([]) == [] and wrong_language_reasons([("ka", "bru")]) == [
        ""
    ], "too short to be judged"
    assert third_language(["", "ka to", "42"]) == [False] * 3


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
    assert wrong_language_reasons(given_) == [""] * 1500
    monkeypatch.setattr(languages, "MAX_SINGLETONS", 1.0)
    assert sum(fault == languages.THIRD for fault in wrong_language_reasons(given_)) > 100
    assert languages.count_letters("我爱你") == 9 and languages.count_letters("abc") == 3


def test_real_text():
    """English and French of the corpus that comes with the book, with French that was not
    translated in between."""
    some = data.load_corpus("pocket")["test"][:1000]
    assert sum(map(bool, wrong_language_reasons(some))) <= 0.03 * len(some)
    copied = [
        (english, english) if k % 10 == 0 else (english, french)
        for k, (english, french) in enumerate(some)
    ]
    found = wrong_language_reasons(copied)
    least = languages.MIN_LETTERS + 10
    long = [k for k in range(0, len(copied), 10) if len(letters_of(copied[k][0])) > least]
    assert len(long) > 50 and sum(found[k] == languages.OTHER for k in long) >= 0.8 * len(long)


def test_what_was_not_counted_is_not_kept():
    own = CharacterModel(["kato mira"])
    model, held = CharacterModel(["neko mira"], own), len(own)
    assert (
        held == 0
        and model["xyz"] == CharacterModel(["neko mira"], own)["xyz"]
        and not {"xyz"} & {*model, *own}
    )
    assert (
        model["mir"] == model.pop("mir") and model["xyz"] < model["kat"] < model["mir"]
    ), "its prior has met kat and not xyz"


@pytest.mark.parametrize(
    "text, found",
    [
        ("我愛你。", True),
        ("猫が好きです。", True),
        ("カタカナ", True),
        ("ฉันรักคุณ", True),
        ("ខ្ញុំស្រលាញ់អ្នក", True),
        ("ငါမင်းကိုချစ်တယ်", True),
        ("나는 너를 사랑해.", False),
        ("Я тебя люблю.", False),
        ("मैं तुमसे प्यार करता हूँ।", False),
        ("أحبك", False),
        ("I love 北京 and Tokyo.", False),
        ("我愛 Tom", False),
        ("我愛湯姆和 Tom", True),
        ("12 + 3", False),
        ("", False),
    ],
)
def test_most_letters_decide_how_bleu_splits(text, found):
    assert has_spaces([text, text]) is not found
