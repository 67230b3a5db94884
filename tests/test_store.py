"""Tokens on disk: the format, and files that are not what was written."""

import shutil
from collections import Counter

import numpy as np
import pytest
from helpers import one_sentence

from transformer_lit.corpora.store import EncodedChunk, TokenStore, write_tokens


def test_the_two_sides_of_a_pair(store):
    for source, target in store:
        ends = source[-1], target[-1], target[0]
        assert ends == (2, 2, 1), "the two sides don't belong together"
    sides = *store.ids(0), store.data
    assert all(isinstance(side, np.memmap) for side in sides)  # ids stay on the disk


def test_pairs_lie_on_the_disk_as_the_chapter_draws_them(tmp_path):
    ids, more_ids = [5, 9, 2, 1, 8, 2, 7, 2, 1, 6, 2], [7, 2, 1, 6, 2, 4, 2, 1, 2]
    chunks = [
        ("a", ids, [[3, 3], [2, 3]], [11, 12], Counter(given=2, kept=2)),
        ("b", more_ids, [[2, 3], [2, 2]], [12, 13], Counter(given=3, kept=2, empty=1)),
    ]
    counts = write_tokens(
        tmp_path,
        (
            (name, EncodedChunk(np.array(ids, np.uint16), np.array(lengths), *facts))
            for name, ids, lengths, *facts in chunks
        ),
    )
    assert counts["kept"] == 3, "a repeat is kept"
    assert np.load(tmp_path / "offsets.npy").tolist() == [0, 3, 6, 8, 11, 13, 15]
    assert np.fromfile(tmp_path / "ids.bin", np.uint16).tolist() == [*ids, 4, 2, 1, 2]
    assert counts == {"given": 5, "kept": 3, "empty": 1, "repeated": 1, "from a": 2, "from b": 1}
    (tmp_path / "manifest.json").write_text("{}")
    store = TokenStore(tmp_path)
    assert len(store) == 3 and store[2] == ([4, 2], [1, 2])
    assert store.lengths.tolist() == [[3, 3], [2, 3], [2, 2]]
    with pytest.raises(IndexError):
        store[3]


def test_what_is_no_store_of_today_is_one_sentence(store, tmp_path):
    cut = tmp_path / "cut"
    shutil.copytree(store.folder, cut)
    (cut / "ids.bin").write_bytes((cut / "ids.bin").read_bytes()[:-100])
    with pytest.raises(ValueError, match="ids.bin has") as refusal:
        TokenStore(cut)
    assert one_sentence(str(refusal.value))


def test_what_run_json_says_of_the_data(store):
    record = store.record("mine-fr")
    assert record["train"] == len(store) and record["tokens"] == store.lengths.sum(0).tolist()
    assert [file["file"] for file in record["inputs"]] == ["a.tsv", "b.tsv.gz", "c.txt.xz"]
