"""The script that changes exported cells: which changes it makes, and what it leaves alone."""

import json

import pytest
from mutants import ROOT, known, mutations


@pytest.mark.parametrize(
    "source, words, text",
    [
        ("x = a + b", "+ to -", "x = a - b"),
        ("y = a < 3", "< to <=", "y = a <= 3"),
        ("y = a not in b", "not in to in", "y = a in b"),
        ("f(a, dim=-1)", "drop dim=", "f(a)"),
        ("f(a, dim=-1)", "drop -", "f(a, dim=1)"),
        ("x = True", "True to False", "x = False"),
        ("with a:\n    f()", "drop the with", "f()"),
        ("@once\ndef f():\n    g()", "drop @once", "def f():\n    g()"),
        ("x = a and not b", "drop not", "x = a and b"),
        ("raise ValueError('4' + word)", "delete", "pass"),
    ],
)
def test_changes(source, words, text):
    assert (words, text) in [change[1:] for change in mutations(source)]


@pytest.mark.parametrize(
    "source",
    ['def f():\n    "Docstring"', "import torch", "def f(a=3, *, b=True, **c):\n    pass"],
)
def test_words_imports_and_defaults_are_left_alone(source):
    assert not list(mutations(source))


def test_each_reason_is_of_a_line_that_is_there():
    for path in (ROOT / "book").glob("??_*.ipynb"):
        source = json.loads(path.read_bytes())["cells"]
        text = "".join(line for cell in source for line in cell["source"])
        assert not [line for line, _ in known(path.name[:2]) if line != "*" and line not in text]
