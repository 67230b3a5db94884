"""Rows and links of chapter 20, read from a translator; maps between words are tested with chapter
23's readers."""

import re

import pytest
import torch

from transformer_lit.attention_maps import habit_places, read_pairs
from transformer_lit.masks import padding_mask
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.pocket import load_pocket
from litbook import word_maps
from transformer_lit.corpora.files import shipped
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


def test_a_link_is_the_weight_of_its_row_and_column(translator):
    weights, _, _ = read_pairs(translator, [("the cat sleeps.", "il dort.")])
    table = word_maps.cross_links(
        translator,
        {"the cat sleeps.": "il dort."},
        [("sleeps", "the cat sleeps.", 1, 0, "dort", "sleeps")],
    )
    assert (
        f"{weights['cross'][1, 0, 0, 1, 2]:.2f}" in table._repr_html_()
        and "layer 2, head 1" in table._repr_html_()
    )
    assert "The weakest of these 1 links, dort → sleeps" in table._repr_html_()


def test_a_row_is_that_of_the_last_time_the_word_is_said(translator):
    pair = ("the cat sleeps.", "il dort il dort.")
    weights, _, _ = read_pairs(translator, [pair])
    row = weights["cross"][0, 0, 1, 2]  # says the second il
    picture = word_maps.row_that_says(translator, [(*pair, "il")], ("cross", 0, 1))
    assert (
        f"{row.max():.2f}." in repr(picture)
        and "cross layer 1, head 2" in repr(picture)
        and "… sleeps" in repr(picture)
    )
    both = word_maps.row_that_says(
        translator,
        [(*pair, "il"), ("the sleeps cat.", "il dort il dort.", "dort")],
        ("cross", 0, 1),
    )
    assert "“… cat”: dort looks most at “" in both.caption and "cat / sleeps" in both._repr_html_()
    assert (
        both._repr_html_().count('fill="#D55E00"') == 2 * 5
    ), "a square for each word, the end included"
    with pytest.raises(ValueError):
        word_maps.row_that_says(
            translator, [(*pair, "il"), ("the cat.", "il dort.", "il")], ("cross", 0, 1)
        )
    with pytest.raises(ValueError):
        word_maps.row_that_says(translator, [(*pair, "elle")], ("cross", 0, 1))


def test_no_head_is_farther_or_less_sharp_than_an_even_spread_that_is_even():
    open_ = torch.tensor([[[True, True, True, False]]])  # (1, 1, 4)
    even = (open_ / open_.sum(-1, keepdim=True))[None, :, None].expand(1, 1, 2, 4, 4)
    sharp = torch.eye(4)[[0, 1, 2, 2]].expand(1, 1, 2, 4, 4)
    asked = (
        {"encoder": torch.cat([even, sharp])},
        {"encoder": open_},
        {"encoder": torch.tensor([[True, True, True, False]])},
    )
    rows = word_maps.looking_by_layer(*asked)
    assert (
        "Sharpest: encoder layer 2, which looks at 1.0 words per row" in word_maps.layers_table(
            *asked
        )._repr_html_()
    )
    assert [row["layer"] for row in rows] == ["1", "2", "even"]
    first, second, spread = (re.sub(r"[^\d.]", "", f"{row['as many words']:.3f}") for row in rows)
    assert (first, second, spread) == ("3.000", "1.000", "3.000") and rows[0][
        "heads differ"
    ] == 0 == rows[1]["distance"]


def test_a_habit_is_the_head_with_most_weight_on_its_place():
    weights = torch.tensor(
        [[[[[1.0, 0.0], [0.9, 0.1]], [[1.0, 0.0], [0.2, 0.8]]]]]
    )  # (N, B, H, T, S) = (1, 1, 2, 2, 2)
    before, nowhere = torch.tensor([[[False, False], [True, False]]]), torch.zeros(1, 2, 2).bool()
    asked = (
        {"decoder": weights},
        {"decoder": torch.ones(2, 2).tril().bool()[None]},
        {"decoder": {"word before": before, "nowhere": nowhere}},
    )
    (row,) = word_maps.habits(*asked)
    assert (
        row["best head"] == "layer\u00a01, head\u00a01"
        and row["heads over half"] == "1\u00a0of\u00a02"
    ), "a place without rows is left out"
    assert abs(row["its weight"] - 0.9) < 1e-6 and row["spread evenly"] == 0.5
    assert (
        "decoder layer\u00a01, head\u00a01, with 90% of its weight on the word before"
        in word_maps.habits_table(*asked)._repr_html_()
    )


def test_no_encoder_head_of_the_pocket_translator_has_a_place():
    "What chapter 20 says of it."
    pocket, tested = (
        Translator.from_pretrained(shipped("data/checkpoints/pocket")),
        load_pocket()["test"][:100],
    )
    weights, source, _ = read_pairs(pocket, [(pair.english, pair.french) for pair in tested])
    mask = padding_mask(source)[:, 0]
    rows = word_maps.habits(weights, {"encoder": mask}, {"encoder": habit_places(source, mask)})
    assert len(rows) == 6 and all(row["its weight"] < 0.45 for row in rows)
