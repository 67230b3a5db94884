"""Tokens on disk: the format, and files that are not what was written."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest
from made_up import here, own, store  # noqa: F401
from helpers import one_sentence

from transformer_lit.corpora.store import EncodedChunk, TokenStore, write_tokens


def test_the_two_sides_of_a_pair(store):
    for source, target in store:
        assert (
            source[-1] == target[-1] == 2 and target[0] == 1
        ), "the two sides don't belong together"


def test_pairs_lie_on_the_disk_as_the_chapter_draws_them(tmp_path):
    ids, lengths = [5, 9, 2, 1, 8, 2, 7, 2, 1, 6, 2], np.array([[3, 3], [2, 3]])
    first = EncodedChunk(np.array(ids, np.uint16), lengths, [11, 12], Counter(given=2, kept=2))
    more = EncodedChunk(
        np.array([*ids[6:], 4, 2, 1, 2], np.uint16),
        np.array([[2, 3], [2, 2]]),
        [12, 13],
        Counter(given=3, kept=2, empty=1),
    )
    counts = write_tokens(tmp_path, [("a", first), ("b", more)])
    assert counts["kept"] == 3, "a repeat is kept"
    assert np.load(tmp_path / "offsets.npy").tolist() == [0, 3, 6, 8, 11, 13, 15]
    assert np.fromfile(tmp_path / "ids.bin", np.uint16).tolist() == [*ids, 4, 2, 1, 2]
    assert counts == {
        "given": 5, "kept": 3, "empty": 1, "repeated": 1, "from a": 2, "from b": 1
    }  # fmt: skip
    (tmp_path / "manifest.json").write_text("{}")
    store = TokenStore(tmp_path)
    assert len(store) == 3 and store[2] == ([4, 2], [1, 2])
    assert store.lengths.tolist() == [[3, 3], [2, 3], [2, 2]] and store.lengths.dtype == np.uint16
    assert store.tokenizer() == tmp_path / "tokenizer.json"
    for wrong in -1, 3:
        with pytest.raises(IndexError):
            store[wrong]


def test_ids_stay_on_the_disk(store):
    assert isinstance(store.data, np.memmap) and store.data.dtype == np.uint16
    assert isinstance(store.offsets, np.memmap) and store.lengths.sum() == len(store.data)


def test_a_store_that_was_cut_short_is_found(store, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(store.folder, folder)
    (folder / "ids.bin").write_bytes((folder / "ids.bin").read_bytes()[:-100])
    with pytest.raises(ValueError, match="ids.bin has .* were written: delete") as caught:
        TokenStore(folder)
    assert one_sentence(str(caught.value))


def test_no_store_and_one_of_the_second_edition(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no token store in"):
        TokenStore(tmp_path)
    old = {"wanted": {}, "counts": {}, "shards": [{"ids": "a", "offsets": "b", "pairs": 3}]}
    (tmp_path / "manifest.json").write_text(json.dumps(old))
    with pytest.raises(ValueError, match="an earlier version .* prepare it again") as caught:
        TokenStore(tmp_path)
    assert one_sentence(str(caught.value))


def test_what_run_json_says_of_the_data(store):
    record = store.record("mine-fr")
    assert record["train"] == len(store) == record["counts"]["kept"]
    assert record["tokens"] == store.lengths.sum(0).tolist() and len(record["sha256"]) == 64
    assert [file["file"] for file in record["inputs"]] == ["a.tsv", "b.tsv.gz", "c.txt.xz"]
    assert record["preparation"]["pairs_per_second"] > 0
