"""The nouns are the field's: `terms.toml` lists terms that must stand in the prose, private words
that must not, and British spellings."""

import ast
import json
import re
import tomllib
from pathlib import Path

import pytest
from IPython.core.inputtransformer2 import TransformerManager

ROOT = Path(__file__).resolve().parent.parent
TERMS = tomllib.loads((ROOT / "tests" / "terms.toml").read_text(encoding="utf-8"))
SHOWN = {"alt", "caption", "title", "xlabel", "ylabel"}


def captions(code):
    "Strings that a cell hands to a figure."
    for node in ast.walk(ast.parse(TransformerManager().transform_cell(code))):
        if isinstance(node, ast.keyword) and node.arg in SHOWN:
            yield from (str(n.value) for n in ast.walk(node) if isinstance(n, ast.Constant))


def texts(pattern):
    return {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in ROOT.glob(pattern)}


PROSE = texts("*.md") | texts("book/*.md")
FIGURES, CODE = {}, {}
for name, text in texts("book/*.ipynb").items():
    parts = {"markdown": [], "code": []}
    for cell in json.loads(text)["cells"]:
        parts[cell["cell_type"]].append("".join(cell["source"]))
    PROSE[name], CODE[name] = ("\n\n".join(sources) for sources in parts.values())
    FIGURES[name] = "\n".join(words for code in parts["code"] for words in captions(code))


@pytest.mark.parametrize("term", TERMS["required"])
def test_a_term_of_the_field_stands_in_the_prose(term):
    assert len(re.findall(term, "\n".join(PROSE.values()), re.I)) >= 3


@pytest.mark.parametrize("word", TERMS["private"])
def test_a_private_word_stands_nowhere(word):
    found = set()
    for name, text in PROSE.items():
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S) + FIGURES.get(name, "")
        found |= {(name, m[0]) for m in re.finditer(word, prose, re.I)}
    assert not found, f"write: {TERMS['private'][word]}"


@pytest.mark.parametrize("pattern", TERMS["spelled"])
def test_spelling_is_that_of_the_us(pattern):
    found = set()
    for name, text in texts(pattern).items():
        text = PROSE.get(name, text) + CODE.get(name, "")
        text = re.sub(r"^# %% .*", "", text, flags=re.M)  # ids of cells
        found |= {f"{name} {word}" for word in re.findall(TERMS["british"], text, re.I)}
    assert not found - set(TERMS["allowed"])
