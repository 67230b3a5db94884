"""Near-copies of held-out sentences: what counts as one, and what doesn't."""

from transformer_lit.recipes.near_copies import NearCopies, apart_from
from transformer_lit.custom_pair.own_report import nearly_known

HELD = ["The cat sleeps.", "A man in a green coat walks his dog along the beach."]
NEAR = NearCopies(HELD)


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
    assert NearCopies([long], share=0.4)("x one two three four five y")  # two of five
    assert not NearCopies([long], share=0.41)("x one two three four five y")
    assert not NearCopies([long], share=0.4, long=9)(
        "x one two three four five y"
    ), "too short to be compared by runs"


def test_near_copies_are_named_by_their_numbers():
    assert (
        NEAR.of("The cat sleeps!") == {0}
        and NEAR.of("Look, a man in a green coat walks his dog along the beach!") == {1}
        and NEAR.of("A dog.") == set()
    )
    assert NearCopies(["Go.", "go!", "Stay."]).of("GO") == {0, 1}
    train = [
        ("the cat sleeps", "x"),
        ("Now a man in a green coat walks his dog along the beach.", "y"),
        ("A cat.", "z"),
    ]
    assert nearly_known([*HELD, "A bird sings."], train) == 2 / 3 and nearly_known([], train) == 0


def test_a_source_loses_its_near_copies_and_nothing_else():
    pairs = [("The cat sleeps!", "a"), ("The cat eats.", "b"), ("The cat eats.", "c")]
    asked = []
    left = apart_from(lambda: pairs, lambda: asked.append(1) or NEAR)
    assert list(left) == pairs[1:] and asked == [1]
