"""Synthetic pairs that teach to copy, and near-duplicates of held-out sentences."""

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_lit.recipes.augmentation import (
    NearDuplicates,
    invented_name,
    invented_number,
    shared_names,
    shared_numbers,
    synthetic_copies,
    synthetic_copy,
)
from transformer_lit.recipes.lexicon import build_lexicon


@pytest.mark.parametrize(
    "pair, names",
    [
        (("Tom saw Mary in Boston.", "Tom a vu Mary à Boston."), ["Tom", "Mary", "Boston"]),
        (("London is big.", "Londres est grande."), []),
        (("Tom saw Tom.", "Tom a vu Tom."), []),
        (("I saw Anna.", "J'ai vu Anna."), []),
        (("No, Bill.", "Non, Bill."), ["Bill"]),
        (("McTom", "McTom"), []),
    ],
)
def test_names_that_both_sides_share(pair, names):
    assert shared_names(pair) == names


@pytest.mark.parametrize(
    "pair, numbers",
    [
        (("I have 12 cats.", "J'ai 12 chats."), [("12", "12")]),
        (("It has 4,718 parts.", "Il a 4 718 parties."), [("4,718", "4 718")]),
        (("One of 1.", "Un de 1."), []),
        (("3 and 3", "3 et 3"), []),
        (("It costs $37.50.", "Ça coûte 37,50 $."), [("37.50", "37,50")]),
        (("10 miles", "16 km"), []),
        (("the 3rd of 5", "la 3e de 5"), [("5", "5")]),
        (("It is 7:30.", "Il est 7 h 30."), []),
        (("I gave 50%.", "J'ai donné 50 %."), []),
    ],
)
def test_numbers_that_both_sides_share(pair, numbers):
    assert shared_numbers(pair) == numbers
    assert (synthetic_copy(pair, Random(1)) is None) == (not numbers)


@pytest.mark.parametrize(
    "english, french",
    [
        ("(N) paid (C) dollars in (Y)", "(N) a payé (C) dollars en (Y)"),
        ("It was October (D), (Y)", "C'était le (D) octobre (Y)"),
        ("It ended on (D) May (Y)", "Ça a fini le (D) mai (Y)"),
        ("It cost (F) dollars in (Y)", "En (Y), ça coûtait (F) dollars"),
    ],
)
def test_the_same_stands_on_both_sides_afterwards(english, french):
    "N a name, Y a year, D a day, C and F other numbers, in the writing of each language."
    values = {"N": "Tom", "Y": "1972", "D": "10", "F": "5"}

    def filled(template, **more):
        return re.sub(r"\((\w)\)", lambda match: (values | more)[match[1]], template)

    pair = filled(english, C="4,718"), filled(french, C="4 718")
    for seed in range(50):
        found = []
        for template, side in zip((english, french), synthetic_copy(pair, Random(seed))):
            values_in = re.fullmatch(re.sub(r"\((\w)\)", r"(?P<\1>[\\w, ]+)", template), side)
            found.append(
                {name: value.replace(",", " ") for name, value in values_in.groupdict().items()}
            )
        assert found[0] == found[1]  # the two sides tell different things
        assert found[0].get("N") != "Tom"
        assert 1100 <= int(found[0]["Y"]) < 2100, "a year is no year any more"
        assert 2 <= int(found[0].get("D", 2)) <= 28  # a day is no day any more


def test_a_word_that_only_begins_a_sentence_is_no_name():
    pairs = [("Pardon me, Tom.", "Pardon, Tom."), ("I beg your pardon.", "Je vous demande pardon.")]
    ((english, _),) = synthetic_copies(lambda: pairs)
    assert english.startswith("Pardon me, ") and "Tom" not in english


@given(st.integers(0, 10_000))
def test_what_is_invented_keeps_its_kind(seed):
    name = invented_name(Random(seed))
    assert name.isalpha() and name.istitle() and name[0] not in "AEIOU" and len(name) > 1
    english, french = invented_number("37.50", Random(seed))
    assert re.fullmatch(r"\d{1,3}\.\d\d", english) and french == english.replace(".", ",")
    for mark in " ", ".":  # French, German
        english, other = invented_number("12,345", Random(seed), thousands=mark)
        assert other == english.replace(",", mark)


def test_a_source_is_read_the_same_every_time_and_numbers_come_more_often():
    pairs = [("Tom sleeps.", "Tom dort."), ("I have 12 cats.", "J'ai 12 chats.")]
    copies = list(synthetic_copies(lambda: pairs))
    assert copies == list(synthetic_copies(lambda: pairs))
    assert len(copies) == 1 + sum("cats" in english for english, _ in copies) > 6


NEAR = NearDuplicates(["The cat sleeps.", "A man in a green coat walks his dog along the beach."])


@pytest.mark.parametrize(
    "sentence, repeated",
    [
        ("the CAT sleeps", {0}),
        ("“The cat… sleeps!”", {0}),
        ("The cats sleep.", set()),
        ("The cat sleeps here.", set()),
        ("", set()),
        ("Look, a man in a green coat walks his dog along the beach!", {1}),
        ("Yesterday a man in a green coat walks his dog along the river.", {1}),  # 8 of 9 runs
        ("A man in a green coat walks his cat along the beach.", set()),  # 5 of 9
        ("A man in a green coat sleeps.", set()),
    ],
)
def test_a_sentence_repeats_another(sentence, repeated):
    assert NEAR.of(sentence) == repeated


@pytest.mark.parametrize("words, shared, repeats", [(8, 7, True), (8, 6, False), (7, 7, False)])
def test_seven_runs_of_ten_and_eight_words_decide(words, shared, repeats):
    near = NearDuplicates(["1 2 3 4 5 6 7 8"[: 2 * words - 1]])
    assert bool(near.of("x 1 2 3 4 5 6 7"[: 2 * shared + 1] + " y")) == repeats


def test_words_and_phrases_of_a_lexicon_are_those_that_are_aligned():
    pairs = [
        ("The cat sleeps.", "Le chat dort."),
        ("The dog sleeps.", "Le chien dort."),
        ("A cat eats.", "Un chat mange."),
        ("A dog.", "Un chien."),
        ("The water.", "L’eau."),
        ("The tree.", "L’arbre."),
        ("A cat drinks water.", "Un chat boit l'eau."),
        ("A mouse eats.", "Une souris mange."),
    ]
    lexicon = dict(build_lexicon(3 * pairs + [("Rare mice.", "Souris rares.")]))
    words = {"cat": "chat", "Cat": "Chat", "water": "eau", "a dog": "un chien", "eats": "mange"}
    assert words.items() <= lexicon.items()
    assert "mice" not in lexicon  # too rare
