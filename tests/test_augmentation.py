"""Synthetic pairs that teach to copy, and near-duplicates of held-out sentences."""

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_lit.recipes import augmentation
from transformer_lit.recipes.augmentation import (
    NearDuplicates,
    synthetic_copies,
    invented_number,
    shared_names,
    shared_numbers,
    synthetic_copy,
    without_near_duplicates,
)


def digits(number):
    return re.sub(r"\D", "", number)


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
        (("In 1950.", "En 1950."), [("1950", "1950")]),
        (("One of 1.", "Un de 1."), []),
        (("3 and 3", "3 et 3"), []),
        (("It costs $37.50.", "Ça coûte 37,50 $."), [("37.50", "37,50")]),
        (("10 miles", "16 km"), []),
        (("the 3rd of 5", "la 3e de 5"), [("5", "5")]),
    ],
)
def test_numbers_that_both_sides_share(pair, numbers):
    assert shared_numbers(pair) == numbers


def test_the_same_stands_on_both_sides_afterwards():
    given_ = ("Tom paid 4,718 dollars in 1950.", "Tom a payé 4 718 dollars en 1950.")
    for seed in range(50):
        english, other = synthetic_copy(given_, Random(seed))
        one, two = re.match(r"(\w+) paid ([\d,]+) dollars in (\d{4})\.$", english), re.match(
            r"(\w+) a payé ([\d ]+) dollars en (\d{4})\.$", other
        )
        assert (
            one[1] == two[1] != "Tom"
            and one[2].replace(",", "") == two[2].replace(" ", "")
            and one[3] == two[3]
        )
        assert 1100 <= int(one[3]) < 2100
    assert synthetic_copy(("It rains.", "Il pleut."), Random(1)) is None


@pytest.mark.parametrize(
    "english, french",
    [
        ("It was October {}, {}.", "C'était le {} octobre {}."),
        ("It ended on {} May {}.", "Ça a fini le {} mai {}."),
    ],
)
def test_a_date_stays_a_date(english, french):
    for seed in range(50):
        one, two = synthetic_copy((english.format(10, 1972), french.format(10, 1972)), Random(seed))
        day, year = map(int, re.findall(r"\d+", one))
        assert (
            2 <= day <= 28
            and 1100 <= year < 2100
            and (one, two) == (english.format(day, year), french.format(day, year))
        )


@pytest.mark.parametrize(
    "pair", [("It is 7:30.", "Il est 7 h 30."), ("I gave 50%.", "J'ai donné 50 %.")]
)
def test_not_any_number_can_stand_in_a_time_or_a_percentage(pair):
    assert shared_numbers(pair) == [] and synthetic_copy(pair, Random(1)) is None


def test_a_word_that_only_begins_a_sentence_is_no_name():
    pairs = [("Pardon me, Tom.", "Pardon, Tom."), ("I beg your pardon.", "Je vous demande pardon.")]
    made = list(synthetic_copies(lambda: pairs))
    assert len(made) == 1 and made[0][0].startswith("Pardon me, ") and "Tom" not in made[0][0]


def test_a_number_inside_another_stays():
    for seed in range(50):
        english, french = synthetic_copy(
            ("It cost 5 dollars in 1995.", "En 1995, ça coûtait 5 dollars."), Random(seed)
        )
        (year,) = re.findall(r"in (\d{4})\.", english)
        assert re.fullmatch(rf"En {year}, ça coûtait [\d ]+ dollars\.", french) and re.fullmatch(
            r"It cost [\d,]+ dollars in \d{4}\.", english
        )


@given(st.integers(0, 10_000))
def test_an_invented_name_begins_with_a_consonant(seed):
    name = augmentation.invented_name(Random(seed))
    assert name.isalpha() and name.istitle() and name[0] not in "AEIOU" and len(name) > 1


@given(st.integers(0, 10_000))
def test_numbers_keep_their_kind(seed):
    english, french = invented_number("37.50", Random(seed))
    assert re.fullmatch(r"\d{1,3}\.\d\d", english) and french == english.replace(".", ",")
    for parted in " ", ".":  # French, German
        thousands = invented_number("12,345", Random(seed), thousands=parted)
        assert [digits(one) for one in thousands] == [
            digits(thousands[0])
        ] * 2 and thousands[1] == thousands[0].replace(",", parted)
    english, french = invented_number("12", Random(seed))
    assert (
        digits(english) == digits(french)
        and int(digits(english)) > 1
        and "." not in english
    )


def test_a_source_is_read_the_same_every_time_and_numbers_come_more_often():
    pairs = [
        ("Tom sleeps.", "Tom dort."),
        ("It rains.", "Il pleut."),
        ("I have 12 cats.", "J'ai 12 chats."),
    ]
    made = list(synthetic_copies(lambda: pairs))
    assert made == list(synthetic_copies(lambda: pairs)) and len(made) == 1 + augmentation.VARIANTS
    assert len(set(made)) > 7 and made != list(synthetic_copies(lambda: pairs, seed=2))


HELD = ["The cat sleeps.", "A man in a green coat walks his dog along the beach."]
NEAR = NearDuplicates(HELD)


def test_case_and_marks_make_no_difference():
    assert NEAR("the CAT sleeps") and NEAR("“The cat… sleeps!”")
    assert not NEAR("The cats sleep.") and not NEAR("The cat sleeps here.") and not NEAR("")


def test_a_long_sentence_is_repeated_though_a_word_is_changed():
    assert NEAR("Yesterday a man in a green coat walks his dog along the river.")  # 8 of its 9 runs
    assert (
        NEAR("A man in a green coat walks his cat along the beach.") is False
    )  # a word in the middle takes four runs: 5 of 9
    assert not NEAR("A man in a green coat sleeps.")


def test_the_share_decides_at_its_own_value():
    long = "one two three four five six seven eight"  # five runs
    assert NearDuplicates([long], overlap=0.4)("x one two three four five y")  # two of five
    assert not NearDuplicates([long], overlap=0.41)("x one two three four five y")
    assert not NearDuplicates([long], overlap=0.4, min_words=9)(
        "x one two three four five y"
    ), "too short to be compared by runs"


def test_near_copies_are_named_by_their_numbers():
    assert (
        NEAR.of("The cat sleeps!") == {0}
        and NEAR.of("Look, a man in a green coat walks his dog along the beach!") == {1}
        and NEAR.of("A dog.") == set()
    )
    assert NearDuplicates(["Go.", "go!", "Stay."]).of("GO") == {0, 1}


def test_a_source_loses_its_near_copies_and_nothing_else():
    pairs = [("The cat sleeps!", "a"), ("The cat eats.", "b"), ("The cat eats.", "c")]
    asked = []
    left = without_near_duplicates(lambda: pairs, lambda: asked.append(1) or NEAR)
    assert list(left) == pairs[1:] and asked == [1]
