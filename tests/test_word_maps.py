"""Rows of chapter 20, read from a translator; maps between words are tested with chapter
23's readers."""

import re

import pytest
import torch

from transformer_lit.attention_maps import read_pairs
from transformer_lit.model import Transformer, TransformerConfig
from litbook.drawings import ch20
from transformer_lit.tokens import Vocabulary
from transformer_lit.translation import Translator


@pytest.fixture(scope="module")
def translator():
    torch.manual_seed(3)
    english, french = Vocabulary(["the", "cat", "sleeps", "."]), Vocabulary(
        ["il", "dort", "."], "fr"
    )
    return Translator(
        Transformer(TransformerConfig(len(english), len(french), 16, 2, 32, 1, 2)).eval(),
        english,
        french,
    )




def test_a_row_is_that_of_the_last_time_the_word_is_said(translator):
    pair = ("the cat sleeps.", "il dort il dort.")
    weights, _, _ = read_pairs(translator, [pair])
    row = weights["cross"][0, 0, 1, 2]  # says the second il
    picture = ch20.rows_side_by_side(translator, [(*pair, "il")], ("cross", 0, 1))
    assert (
        f"{row.max():.2f}." in repr(picture)
        and "cross layer 1, head 2" in repr(picture)
        and "… sleeps" in repr(picture)
    )
    both = ch20.rows_side_by_side(
        translator,
        [(*pair, "il"), ("the sleeps cat.", "il dort il dort.", "dort")],
        ("cross", 0, 1),
    )
    assert "“… cat”: dort looks most at “" in both.caption and "cat / sleeps" in both._repr_html_()
    numbers = re.findall(r">(\d\.\d\d)</text>", both._repr_html_())
    assert len(numbers) == 2 * 2 * 5, "two widths, a number for each word, the end included"
    with pytest.raises(ValueError):
        ch20.rows_side_by_side(
            translator, [(*pair, "il"), ("the cat.", "il dort.", "il")], ("cross", 0, 1)
        )
    with pytest.raises(ValueError):
        ch20.rows_side_by_side(translator, [(*pair, "elle")], ("cross", 0, 1))
