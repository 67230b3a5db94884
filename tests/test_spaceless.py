"""Scripts without spaces are found by their letters, and their BLEU is counted by characters."""

import numpy as np
import pytest

from transformer_lit.evaluation import line_counts, scores
from transformer_lit.custom_pair.spaceless import cut_for, line_counts_by, scores_by, without_spaces


@pytest.mark.parametrize(
    "text, found",
    [
        ("我愛你。", True),
        ("猫が好きです。", True),
        ("カタカナ", True),
        ("ฉันรักคุณ", True),
        ("ខ្ញុំស្រលាញ់អ្នក", True),
        ("ငါမင်းကိုချစ်တယ်", True),
        ("나는 너를 사랑해.", False),
        ("Я тебя люблю.", False),
        ("मैं तुमसे प्यार करता हूँ।", False),
        ("أحبك", False),
        ("I love 北京 and Tokyo.", False),
        ("我愛 Tom", False),
        ("我愛湯姆和 Tom", True),
        ("12 + 3", False),
        ("", False),
    ],
)
def test_most_letters_decide(text, found):
    assert without_spaces([text]) is found and cut_for([text, text]) == ("char" if found else "13a")


def test_characters_count_where_words_would_be_all_or_nothing():
    said, references = ["我愛你們大家。", "他是我的朋友。"], [
        ["我愛你們所有人。", "我愛你們。"],
        ["他是我的朋友。"],
    ]
    words, signs = scores_by(said, references), scores_by(said, references, "char")
    assert words == scores(said, references) and words[1] == signs[1], "chrF is as it was"
    assert "tok:char" in signs[0]["signature"] and signs[0]["value"] > words[0]["value"] + 10
    assert np.array_equal(line_counts_by(said, references), line_counts(said, references))
    assert line_counts_by(said, references, "char").tolist() == [
        [7, 8, 5, 3, 2, 1, 7, 6, 5, 4],
        [7, 7, 7, 6, 5, 4, 7, 6, 5, 4],
    ]
