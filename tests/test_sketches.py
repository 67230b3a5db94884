"""Drawings of single chapters: the numbers and words that they show, and alt texts made from them."""
import re

import pytest

from transformer_lit.support import sketches

TREE = {"": {"elle": 0.55, "il": 0.45}, "elle": {"large": 0.4, "étroite": 0.35, "fatiguée": 0.25}, "il": {"fatigué": 0.9, "grand": 0.1}}


def words(picture):
    return re.findall(r">([^<>]+)</text>", picture._repr_html_())


def test_a_tree_shows_each_product_and_names_the_best():
    picture = sketches.word_tree(TREE, "parce qu'")
    shown = words(picture)
    for word, ends in TREE.items():
        for end, q in ends.items():
            assert end in shown and f"{q:.2f}" in shown
            assert not word or f"{TREE[''][word] * q:.4f}" in shown
    assert "'il' with 0.45 and then 'fatigué' make 0.4050" in repr(picture) and "more than 0.2200" in repr(picture)


@pytest.mark.parametrize("steps", [2, 4])
def test_a_cache_leaves_one_row(steps):
    html = sketches.cached_rows(steps)._repr_html_()
    empty = html.count("stroke-dasharray")
    assert html.count("<rect") == 2 * steps ** 2
    assert 2 * steps ** 2 - empty == steps * (steps + 1) // 2 + steps, "a filled box is a score computed at the last step"


def test_rows_count_from_one_and_say_the_next_word():
    picture = sketches.read_and_said(["<bos>", "il", "est", "<eos>"])
    assert "row 1" in words(picture) and "row 3" in words(picture) and "row 0" not in words(picture)
    assert repr(picture) == "3 rows of the decoder: row 1 reads bos and says il, row 2 reads il and says est, row 3 reads est and says eos."


def test_runs_grow_along_the_diagonal_and_break():
    assert sketches.runs("a b x d".split(), "a b c d".split()).tolist() == [[1, 0, 0, 0], [0, 2, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    assert repr(sketches.equal_runs("a b x d", "a b c d")).endswith("of 2, 1 words.")
