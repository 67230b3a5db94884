"""`check_answer` and `check_wrong_answers`: what a reader sees when an answer is missing, wrong,
broken or right."""

import pytest

from litbook.exercises import check_answer, check_wrong_answers, unwritten, verdict


def check_double(answer):
    if answer(2) != 4:  # raised, not asserted: pytest would add lines of its own to the hint
        raise AssertionError(
            "did you add instead of doubling?" if answer(2) == 3 else "doubling 2 gives 4"
        )


def stub(x): ...


def passed(x):
    "A docstring is no answer yet."
    pass


def double(x):
    return 2 * x


def plus_one(x):
    return x + 1


def square_of_text(x):
    return "4"


def crash(x):
    return x.nothing


@pytest.mark.parametrize(
    "answer, said",
    [
        (stub, "stub: not written yet\n"),
        (passed, "passed: not written yet\n"),
        (double, "double: right\n"),
        (plus_one, "plus_one: not yet. did you add instead of doubling?\n"),
        (crash, "crash: it stopped with AttributeError: 'int' object has no attribute 'nothing'\n"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_attempt_says(answer, said, capsys):
    check_answer(check_double, answer)
    assert (
        capsys.readouterr().out == said
    ), "the reader must hear what is missing, wrong, broken or right"


def test_a_constant_answer_is_an_answer(capsys):
    def four(x):
        return 4

    check_answer(check_double, four)
    assert (
        capsys.readouterr().out == "four: right\n"
    ), "only `...`, `pass` and a docstring are not written yet"


def test_what_has_no_source_counts_as_written():
    assert unwritten(stub) and unwritten(passed) and not unwritten(double)
    assert not unwritten(
        len
    ), "a function born in C has no source to read: whoever hands it in means it"


def test_a_verdict_in_words():
    assert (
        verdict(check_double, stub) == "not written yet"
        and verdict(check_double, double) == "right"
    )
    assert verdict(check_double, plus_one) == "not yet. did you add instead of doubling?"
    assert verdict(check_double, lambda x: x + None).startswith("it stopped with TypeError")


def test_a_lambda_counts_as_written(capsys):
    check_answer(check_double, lambda x: 2 * x)
    assert "right" in capsys.readouterr().out


def test_planted_passes_and_says_so(capsys):
    check_wrong_answers(check_double, double, {"add instead": plus_one, "gives 4": square_of_text})
    assert capsys.readouterr().out == "the solution passes, 2 wrong answers are caught\n"


def test_planted_refuses_a_solution_that_fails():
    with pytest.raises(AssertionError, match="did you add"):
        check_wrong_answers(check_double, plus_one, {})


def test_planted_finds_a_check_that_lets_a_wrong_answer_through():
    with pytest.raises(AssertionError, match="lets 'squared' through"):
        check_wrong_answers(check_double, double, {"squared": lambda x: x * x})


def test_planted_finds_a_hint_that_names_another_mistake():
    with pytest.raises(AssertionError, match="'squared' was expected"):
        check_wrong_answers(check_double, double, {"squared": plus_one})
