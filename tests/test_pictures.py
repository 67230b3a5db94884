"""Drawings of part IV: their alt texts hold the numbers that are drawn."""

import torch

from litbook.drawings import pictures


def test_speeds_are_told_from_the_first_to_the_last():
    found = {"transformer": [900.0, 800.0], "rnn": [2000.4, 500.0]}
    picture = pictures.training_speeds((5, 80), found, 480)
    assert (
        repr(picture)
        == "Speed in tokens per second, with 5 to 80 words per sentence: Transformer from 900 to"
        " 800, RNN from 2,000 to 500."
    )
    assert (
        picture.caption
        == "Speed at 80 words per sentence as a share of that at 5: Transformer 89%, RNN 25%."
    )
    assert (
        pictures.decoding_speeds((1, 64), found).caption
        == "While the Transformer says one word the RNN says 2.2 with 1 sentence at once and 0.6"
        " with 64."
    )


def test_a_stream_is_laid_out_column_by_column():
    body = pictures.stream_laid_out(
        (torch.tensor([[9, 5, 10], [9, 0, 10]]), torch.tensor([[0, 1, 2], [0, 0, 1]]), 2)
    ).html
    assert [
        f"{name}, pair {row}" in body for row in (1, 2) for name in ("tokens", "positions")
    ] == [True] * 4
    assert "column 0" in body and body.count("<tr>") == 5 and body.count(">10<") == 2


def test_a_map_says_where_it_looks_for_one_word():
    maps = {
        "one": torch.tensor([[0.9, 0.1], [0.2, 0.8]]),
        "other": torch.tensor([[0.9, 0.1], [0.7, 0.3]]),
    }
    picture = pictures.word_maps_of(maps, ["il", "fatigué"], ["it", "tired"], "fatigué")
    assert "For fatigué the most weight lies on: tired (one), it (other)." in repr(picture)
    assert (
        picture.caption
        == "For fatigué the most weight lies on tired in the one (0.80) and on it in the other"
        " (0.70)."
    )


def test_heads_are_counted_from_one_and_losses_told():
    picture = pictures.heads_of_a_stream(
        torch.rand(3, 2, 2, 2), ["⟨en⟩", "cats"], {"alignment": (2, 0), "tags": (0, 1)}
    )
    assert "layer 3, head 1" in picture._repr_html_() and "most to: alignment, tags." in repr(
        picture
    )
    weights = torch.zeros(1, 2, 5, 5)
    weights[0, 0, :, 1], weights[0, 1, :, 3] = 1, 1
    names = ["⟨en⟩", "cats", "⟨end⟩", "⟨fr⟩", "chats"]
    assert (
        pictures.heads_of_a_stream(weights, names, {"alignment": (0, 0), "tags": (0, 1)}).caption
        == "French rows, of 2, that look most at an English word: 2 in layer 1, head 1; 0 in layer"
        " 1, head 2."
    )
    both = pictures.heads_of_a_stream(
        weights, names, {"alignment": (0, 0), "previous token": (0, 1), "tags": (0, 1)}
    )
    assert (
        both.html.count("<svg") == 2 and "previous token and tags: layer 1, head 2" in both.html
    ), "one head is drawn once"
    fallen = {"causal": ([0, 10], [3.8, 3.7]), "prefix": ([0, 10], [3.8, 0.1])}
    picture = pictures.copied_losses(fallen, 3.69, "ln 40")
    assert (
        "ln 40 = 3.69. At the last step: causal 3.70, prefix 0.10." in picture.caption
        and "#c2503c" in picture.html.lower()
    ), "a leak is a fault"
    assert (
        repr(picture)
        == "Loss of random English words over 10 steps, beside ln 40 = 3.69. causal from 3.80 to"
        " 3.70; prefix from 3.80 to 0.10."
    )


def test_what_was_seen_on_the_way_is_told_for_the_middle_and_the_end():
    seen = {
        "rnn-attention": torch.tensor(
            [[50e3, 1e5, 15e4, 2e5], [3, 2, 1, 0.5], [0.5, 1, 2, 3], [0.8, 0.6, 0.4, 0.25]]
        )
    }
    picture = pictures.on_the_way(seen, 0.33)
    assert (
        picture.caption
        == "After 150,000 tokens and at the end: RNN with attention 2.0 and 3.0 nats, 40% and 25%"
        " errors."
    )
    assert "the diagonal, 33%" in repr(picture) and picture.html.count("<svg") >= 2
