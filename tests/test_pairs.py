"""Sentence pairs on disk, and the words that training has shown."""

import gzip

import pytest

from transformer_lit.grammar.file import read_pairs, known_words_filter, write_pairs

DOG = ("The dog eats.", "Le chien mange.", ((0, 0), (1, 1), (2, 2)), "eats", "dog|eat|-")
CAT = ("The cat eats.", "Le chat mange.", ((0, 0), (1, 1), (2, 2)), "eats", "cat|eat|-")


def test_what_is_written_is_read(tmp_path):
    parts = {"train": [DOG, CAT], "test": [CAT]}
    assert write_pairs(tmp_path / "a.gz", parts) == write_pairs(
        tmp_path / "b.gz", parts
    ), "the same pairs, other bytes"
    assert read_pairs(tmp_path / "a.gz") == parts
    assert (tmp_path / "a.gz").read_bytes()[9] == 3, "the same on every system"
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()).startswith(
        b"train\tThe dog eats.\tLe chien mange.\t0-0 1-1 2-2\teats\tdog|eat|-\n"
    )


def test_another_file_is_refused(tmp_path):
    right = write_pairs(tmp_path / "a.gz", {"train": [DOG]})
    write_pairs(tmp_path / "b.gz", {"train": [CAT]})
    assert read_pairs(tmp_path / "a.gz", right) == {"train": [DOG]}
    with pytest.raises(ValueError, match="not the pocket corpus"):
        read_pairs(tmp_path / "b.gz", right)


def test_known_words():
    knows = known_words_filter([DOG] * 3)
    assert knows(DOG) and not knows(CAT) and not known_words_filter([DOG] * 2)(DOG)
    assert not knows((*DOG[:1], CAT[1], *DOG[2:])) and not knows(
        (CAT[0], *DOG[1:])
    ), "both languages count"
    assert known_words_filter([CAT], min_frequency=1)(CAT)
