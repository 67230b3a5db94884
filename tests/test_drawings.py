"""Drawings of single chapters: the numbers and words that they show, and alt texts made from them.
"""

import html
import re

import numpy as np
import pytest
import torch

from litbook import prose
from litbook.drawings import ch01, ch02, ch03, ch04, ch05, ch09, ch12, ch13, ch15
from litbook.live import looks

TREE = {
    "": {"elle": 0.55, "il": 0.45},
    "elle": {"large": 0.4, "étroite": 0.35, "fatiguée": 0.25},
    "il": {"fatigué": 0.9, "grand": 0.1},
}


def words(picture):
    return [html.unescape(word) for word in re.findall(r">([^<>]+)</text>", picture._repr_html_())]


def test_a_tree_shows_each_product_and_names_the_best():
    picture = ch13.word_tree(TREE, "parce qu'")
    shown = words(picture)
    for word, ends in TREE.items():
        for end, q in ends.items():
            assert end in shown and f"{q:.2f}" in shown
            assert not word or f"{TREE[''][word] * q:.4f}" in shown
    assert "'il' with 0.45 and then 'fatigué' make 0.4050" in repr(
        picture
    ) and "is the product above 0.2200" in repr(picture)


def test_a_tree_fits_a_phone():
    assert 'viewBox="0 0 344 ' in ch13.word_tree(TREE, "parce qu'")._repr_html_()


def test_the_longest_stays_on_top_and_what_is_saved_is_dashed():
    picture = ch13.staying({"one": 2, "two": 5, "three": 3})
    assert words(picture)[:3] == ["two", "three", "one"]
    assert picture._repr_html_().count("stroke-dasharray") == 2, "the longest saves nothing"
    assert "two 5 steps, three 3 steps, one 2 steps" in repr(
        picture
    ) and picture.caption.startswith("Of 15 rows, 3 in each of 5 steps, 10 are computed")


def test_areas_are_in_proportion():
    parts = {
        "embedding": 40,
        "encoder attention": 80,
        "decoder attention": 80,
        "cross-attention": 80,
        "LayerNorm": 40,
    }
    picture = ch09.parameter_areas({**parts, "feed-forward": 296}, layers=1)
    parts |= {"encoder feed-forward": 148, "decoder feed-forward": 148}
    areas = [
        float(w) * float(h)
        for w, h in re.findall(
            r'<rect [^>]*width="([\d.]+)" height="([\d.]+)"', picture._repr_html_()
        )
    ]
    names = [word for word in words(picture) if word in parts]
    assert len(areas) == len(names) == 6
    for name, area in zip(names, areas):
        assert area / areas[0] == pytest.approx(parts[name] / parts[names[0]], rel=1e-3)
    assert "LayerNorm 0.00 M" in words(picture)[-1]
    assert "feed-forward boxes hold 48%, the embedding 6% and the attentions 39%" in picture.caption


def test_a_loop_shows_every_state_under_its_word():
    states = torch.arange(12.0).view(4, 3) / 8
    picture = ch01.unrolled("a b c d".split(), states)
    shown = words(picture)
    assert all(f"{n:.4f}" in shown for n in states.flatten().tolist())
    assert shown.count("U") == 3 and shown.count("W") == 4 and "h₄" in shown and "h₀" not in shown


def test_a_look_joins_all_words_at_one_tick():
    picture = ch01.loop_and_look("a b c".split())
    shown, html = words(picture), picture._repr_html_()
    assert html.count('viewBox="0 0 234 ') == 2, "a phone has no need to scroll"
    assert {"loop: 3 ticks", "look: 1 tick", "tick 3", "h₃", "y₃"} <= set(shown)
    assert (
        html.count("<line") == 3 + 1 + 3 + 2 + 9
    ), "ticks of both, words of the loop, its steps, and all pairs of the look"
    assert (
        "state 3 at tick 3" in repr(picture)
        and picture.caption == "For 3 words the loop takes 3 ticks, and the look takes one."
    )


def test_ones_pick_out_the_rows_that_add_up():
    x, eye = torch.tensor([0.0, 1, 0, 1]), torch.eye(4)
    picture = ch02.query_key_value(
        "dog", x, (2 * eye, eye, 3 * eye), "cat", torch.tensor([0.0, 1, 0, 3])
    )
    shown = words(picture)
    assert picture._repr_html_().count('opacity="0.35"') == 6 and "rows 2 and 4" in repr(picture)
    assert shown.count("3") == (
        4 + 2 + 1
    ), "a diagonal, the two numbers that it leaves, and one of the other word's key"
    assert {"q of dog", "k of cat", "= 8"} <= set(shown) and shown.count("6") == 1, "2 · 1 + 2 · 3"
    assert (
        picture.caption
        == "Rows 2 and 4 add up to the query of dog. Its product with the key of cat is a score"
        " of 8."
    )


def test_a_sheet_of_attention_names_the_largest_weights():
    eye = torch.eye(3, 4)
    weights = torch.tensor([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [0.6, 0.2, 0.2]])
    picture = ch02.attention_sheet(
        "a b c".split(), (eye, eye, eye), 4 * eye[:, :3], weights, weights @ eye
    )
    assert (
        picture.caption
        == "The largest weight in each row: “a” gives 0.50 to “b”, “b” gives 0.80 to “c”, “c” gives"
        " 0.60 to “a”."
    )
    assert "÷ √4" in words(picture) and words(picture).count("2") == 3


def test_two_masks_leave_open_what_both_leave_open():
    padding, causal = torch.tensor([True, True, False]), torch.ones(3, 3).tril() == 1
    picture = ch03.two_masks("a b pad".split(), padding, causal)
    drawn = picture._repr_html_()
    assert (
        drawn.count("#e8e8e8") == 6 + 6 + 5 and drawn.count("#666666") == 3 + 3 + 4
    ), "padding, causal, both"
    widths = re.findall(r'<rect x="\S+" y="\S+" width="([\d.]+)"', drawn)
    assert sorted(map(widths.count, set(widths))) == [
        6,
        21,
    ], "two rows of three that broadcasting makes are small"
    assert (
        picture.caption
        == "A pair stays open only where both masks are open: 5 of 9. Light is open."
    )


def test_heads_count_from_one():
    x = torch.arange(12).view(3, 4)
    shown = words(ch04.heads_apart(x, x.unflatten(-1, (2, 2)).transpose(0, 1)))
    assert shown.count("head 1") == 2 and shown.count("head 2") == 2 and "head 0" not in shown
    assert all(shown.count(str(n)) == 2 for n in range(12))


def test_a_mapping_becomes_two_columns():
    table = prose.two_columns(
        {"a": 0.5, "b": 2}, "word", "share", fmt="{:.1f}", caption="two"
    )._repr_html_()
    assert (
        re.findall(r">([^<>]+)</t[hd]>", table) == ["word", "share", "a", "0.5", "b", "2"]
        and "two" in table
    )


def test_padding_is_counted_by_batches_of_two():
    said = repr(
        ch12.padded(
            ["a", "b c d", "e", "f g h"], {"As they come": (0, 1, 2, 3), "Sorted": (0, 2, 1, 3)}
        )
    )
    assert "as they come, 4 of 16 places are padding; sorted, 0 of 12 places are padding" in said


def test_each_padded_batch_is_as_wide_as_its_longer_sentence():
    picture = ch12.padded(
        ["a", "b c d", "e", "f g h"], {"As they come": (0, 1, 2, 3), "Sorted": (0, 2, 1, 3)}
    )
    assert picture._repr_html_().count("<rect") == 16 + 12, "no place outside a batch"
    assert words(picture).count("2 · 4 = 8 places") == 3
    assert words(picture).count("2 · 2 = 4 places") == 1


def test_over_clocks_draws_the_clocks_that_the_columns_are():
    angle = np.array([0.0, np.pi / 2])
    table = np.array([[0.0, 1.0, 1.0, 0.0]])
    shown = ch05.over_clocks(
        table,
        {"one": angle},
        rows=["here"],
        alt="one row of two clocks",
        caption="found",
    )
    assert shown.caption == "found" and "tl-phone" not in shown.html, "two clocks fit a phone"
    desk = shown.html
    assert desk.count(">1.00<") == 2 and ">0.00<" not in desk, "a zero is an empty cell"
    assert ">here<" in desk and ">one<" in desk and ">clock<" in desk
    plain = ch05.over_clocks(
        np.zeros((30, 4)), {"a": angle, "b": angle}, alt="thirty rows of zeros", caption="found"
    ).html.split("tl-phone")[0]
    assert (
        ">20<" in plain and ">+1<" in plain and ">0.00<" not in plain
    ), "every tenth line is numbered, and a scale stands beside it"


BEAM = [
    [(-0.5, 0, "elle"), (-0.8, 0, "il"), (-9.0, 0, "on"), (-9.5, 0, "EOS")],
    [(-0.9, 1, "fatigué"), (-1.5, 0, "large"), (-1.6, 0, "étroite"), (-1.9, 1, "EOS")],
    [(-0.9, 0, "EOS"), (-1.5, 1, "EOS"), (-3.0, 0, "et"), (-3.1, 1, "et")],
]


def test_a_candidate_is_kept_dropped_or_finished():
    states = [[state for *_, state in row] for row in looks.followed(BEAM, 2, "EOS")]
    assert states == [
        ["open", "open", "cut", "cut"],
        ["open", "open", "cut", "cut"],
        ["ended", "ended", "open", "open"],
    ], "an end below the best two counts for nothing"


def test_candidates_continue_the_beams_that_went_on():
    steps = [
        BEAM[0],
        [(-0.9, 0, "EOS"), (-1.0, 1, "fatigué"), (-1.5, 0, "large"), (-2.0, 0, "x")],
        [(-1.1, 0, "EOS"), (-1.6, 1, "EOS")],
    ]
    answers = [[answer for *_, answer, _ in row] for row in looks.followed(steps, 2, "EOS")]
    assert answers[1] == [["elle"], ["il", "fatigué"], ["elle", "large"], ["elle", "x"]]
    assert answers[2] == [
        ["il", "fatigué"],
        ["elle", "large"],
    ], "an end makes room: beams are counted without it"


def test_a_tree_of_a_search_tells_the_winner_and_its_score():
    picture = ch13.beam_tree(BEAM, 2)
    score = f"−{0.9 / (8 / 6) ** 0.6:.2f}"
    assert (
        picture.caption
        == "At step 1 'il' is behind 'elle'. The beam keeps both, and 'il fatigué' wins with"
        f" {score}."
    )
    assert words(picture).count(score) == 1
    assert f"'il fatigué' with {score}; 'elle large' with −{1.5 / (8 / 6) ** 0.6:.2f}" in repr(
        picture
    )
    assert picture._repr_html_().count("<rect") == 12 + 2, "a finished one has two boxes"


def test_a_tree_without_an_end_says_so():
    picture = ch13.beam_tree(BEAM[:2], 2)
    assert "none" in repr(picture) and picture.caption.startswith("0 of the beginnings finished")


# Chapters 15 to 18 --------------------------------------------------------------------------------


def test_pieces_stand_in_boxes_over_their_numbers():
    assert [
        prose.readable_piece(piece) for piece in (" a", "Ġa", b"\xc3\xa9", b"\xc3", "\n")
    ] == ["␣a", "␣a", "é", "C3", "↵"]
    shown = re.findall(
        r">([^<>]+)</span>",
        prose.token_boxes(
            {"it's <b>": ["it", " 's"], "": [b"x"]}, {"it's <b>": [7, 8]}
        )._repr_html_(),
    )
    assert [html.unescape(text) for text in shown] == ["it's <b>", "it", "7", "␣'s", "8", "x"]


def test_words_have_numbers_and_the_unknown_one_is_dashed():
    shown = ch15.numbered_words("a b !", ["a", "b", "!", "<eos>"], [4, 3, 3, 2], unknown=3)
    assert (
        words(shown) == ["a b !", "a", "b", "!", "<eos>", "4", "3", "3", "2"]
        and shown.html.count("stroke-dasharray") == 2
    )
    assert (
        "a 4, b 3, ! 3, <eos> 2; a dashed" in repr(shown)
        and shown.caption == "The number 3, of the unknown word, stands for “b” and “!”."
    )
    assert ch15.numbered_words("a", ["a"], [4], unknown=3).caption == "No word is unknown."


def test_a_word_grows_to_one_token():
    shown = ch15.growing_word({(" ", "a", "b"): 0, (" ", "ab"): 3, (" ab",): 12})
    assert (
        words(shown) == ["bytes", "␣", "a", "b", "3 merges", "␣", "ab", "12 merges", "␣ab"]
        and shown.html.upper().count("#56B4E9") == 2
    )
    assert (
        shown.caption
        == "“ab” and its space are 3 bytes at first, and one token after 12 merges of the whole"
        " text."
    )


def test_words_stand_in_a_row():
    assert [prose.in_a_row(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]


def test_losses_by_epoch_tell_where_they_end_and_are_best():
    runs = {
        "told": ([1, 5], [5.0, 2.0]),
        "ours": ([1, 2, 3], [4.0, 2.0, 3.0]),
        "ours, seen": ([2, 3], [1.0, 1.0]),
    }
    drawn = prose.validation_by_epoch(runs, reference="told", fault="ours")
    assert repr(drawn).endswith("told 5 and 2; ours 4 and 3; ours, seen 1 and 1.")
    assert (
        drawn.caption == "The loss is lowest after epoch 5 (told) and epoch 2 (ours)."
        and "#C2503C" in drawn.html.upper()
    )
    assert prose.validation_by_epoch(runs, caption="Seen it is.").caption == "Seen it is."

