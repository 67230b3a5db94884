"""The script that changes exported cells: which changes it makes, and which tests it asks."""

import pytest
import mutants
from mutants import mutations, reason_for


def changed(source):
    return {(words, text) for _, words, text in mutations(source)}


@pytest.mark.parametrize(
    "source, words, text",
    [
        ("x = a + b", "+ to -", "x = a - b"),
        ("x = a + b", "delete", "pass"),
        ("y = a < 3", "< to <=", "y = a <= 3"),
        ("y = a < 3", "3 to 4", "y = a < 4"),
        ("f(a, dim=-1)", "drop dim=", "f(a)"),
        ("f(a, dim=-1)", "drop -", "f(a, dim=1)"),
        ("x = True", "True to False", "x = False"),
        ("x = 0.5", "0.5 to 1.0", "x = 1.0"),
        ("with a:\n    f()", "drop the with", "f()"),
        ("@once\ndef f():\n    g()", "drop @once", "def f():\n    g()"),
        ("x = a and not b", "drop not", "x = a and b"),
    ],
)
def test_changes(source, words, text):
    assert (words, text) in changed(source)


@pytest.mark.parametrize(
    "source, left",
    [
        ('def f():\n    "A docstring of 3 words."', set()),
        ("import torch", set()),
        ("def f(a=3, *, b=True, **c):\n    pass", set()),
        ("class A:\n    n: int = 3", {("delete", "class A:\n    pass")}),
        ("x: int", {("delete", "pass")}),
    ],
)
def test_words_imports_and_defaults_are_left_alone(source, left):
    assert changed(source) == left


def test_a_sentence_of_an_error_is_left_alone_and_its_raising_not():
    assert changed("raise ValueError('4' + word)") == {("delete", "pass")}


def test_the_tests_of_a_module():
    core = ["test_parity.py", "test_properties.py", "test_whole.py"]
    assert mutants.test_files("transformer_lit.model") == [
        "test_model.py",
        *core,
    ] and mutants.test_files("transformer_lit.loss") == ["test_faults_plumbing.py", *core]
    assert (
        mutants.test_files("transformer_lit.rnn") == ["test_rnn.py"]
        and mutants.test_files("transformer_lit.tokenization")[0] == "test_tokenization.py"
    )


def test_reasons_are_found_by_line_or_for_any_line():
    reasons = {("x = 1", "delete"): "one", ("*", "drop help="): "words"}
    assert reason_for({"line": "x = 1", "mutation": "delete"}, reasons) == "one"
    assert (
        reason_for({"line": "y", "mutation": "drop help="}, reasons) == "words"
        and reason_for({"line": "y", "mutation": "delete"}, reasons) is None
    )
