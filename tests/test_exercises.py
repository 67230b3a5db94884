"""`check_answer` and `check_wrong_answers`: what a reader sees when an answer is missing, wrong,
broken or right."""

from contextlib import nullcontext

import pytest

from litbook.exercises import check_answer, check_wrong_answers


def check_double(answer):
    if answer(2) != 4:  # raised, not asserted: pytest would add lines of its own to the hint
        hint = "did you add?" if answer(2) == 3 else "doubling 2 gives 4"
        raise AssertionError(hint)


def stub(x): ...


def with_docstring(x):
    "A docstring is no answer yet."
    pass


def double(x):
    return 2 * x


def plus_one(x):
    return x + 1


def four(x):
    return 4


def crash(x):
    return x.nothing


@pytest.mark.parametrize(
    "answer, verdict",
    [
        (stub, "not written yet"),
        (with_docstring, "not written yet"),
        (double, "right"),
        (plus_one, "did you add?"),
        (abs, "doubling 2 gives 4"),  # born in C: no source to read, so it counts as written
        (crash, "AttributeError"),
    ],
)
def test_a_verdict_is_one_line(answer, verdict, capsys):
    check_answer(check_double, answer)
    output = capsys.readouterr().out
    assert output.startswith(answer.__name__) and output.endswith("\n") and output.count("\n") == 1
    assert verdict in output, "the reader must hear what is missing, wrong, broken or right"
    assert output.endswith("right\n") == (verdict == "right")


@pytest.mark.parametrize(
    "solution, wrong, error",
    [
        (double, {"add": plus_one, "gives 4": lambda x: "4"}, None),
        (plus_one, {}, "did you add"),
        (double, {"squared": four}, "lets 'squared' through"),
        (double, {"squared": plus_one}, "'squared' was expected"),
    ],
)
def test_wrong_answers_prove_a_check(solution, wrong, error):
    with pytest.raises(AssertionError, match=error) if error else nullcontext():
        check_wrong_answers(check_double, solution, wrong)
