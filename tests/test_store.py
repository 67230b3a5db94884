"""Tokens on disk: the format, shards that go on after a stop, and files that are not what was
written."""

import shutil

import numpy as np
import pytest
from made_up import here, own, store  # noqa: F401
from helpers import one_sentence

from transformer_lit.corpora import files
from transformer_lit.corpora import store as store_


def test_the_two_sides_of_a_pair(store):
    for source, target in store:
        assert (
            source[-1] == target[-1] == 2 and target[0] == 1
        ), "the two sides don't belong together"


@pytest.mark.parametrize("name", ["ids-000.bin", "offsets-000.npy"])
@pytest.mark.parametrize("harm", ["cut", "flipped", "gone"])
def test_a_damaged_shard_is_found(store, tmp_path, name, harm):
    folder = tmp_path / "copy"
    shutil.copytree(store.folder, folder)
    held = bytearray((folder / name).read_bytes())
    held[len(held) // 2] ^= 1
    if harm == "gone":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(held if harm == "flipped" else held[:-100])
    with pytest.raises(ValueError) as caught:
        store_.TokenStore(folder)
    assert (
        one_sentence(str(caught.value))
        and name in str(caught.value)
        and "prepare it again" in str(caught.value)
    )


def test_repeats_are_found_and_nothing_new_is_lost():
    before = store_.RecentKeys(1 << 10)
    keys = np.arange(1, 500, dtype=np.uint64)
    assert before.new(keys).all()
    assert not before.new(keys).any(), "a repeat is taken for new"
    many = np.random.default_rng(1).integers(1, 2**63, 5000).astype(np.uint64)
    assert before.new(many).all(), "a key that never came was called a repeat"


def test_a_slot_remembers_the_last_key():
    table = store_.RecentKeys(slots=8)
    assert [bool(table.new(np.array([key], np.uint64))[0]) for key in (3, 3, 11, 3)] == [
        True,
        False,
        True,
        True,
    ]
    assert len(store_.RecentKeys().table) == 1 << 22


def two_chunks():
    "Two pairs, and one more."
    first = np.array([5, 9, 2, 1, 8, 2, 7, 2, 1, 6, 2]), np.array([[3, 3], [2, 3]])
    return first, (np.array([4, 2, 1, 2]), np.array([[2, 2]]))


def test_pairs_lie_on_the_disk_as_the_chapter_draws_them(tmp_path):
    writer = store_.ShardWriter(tmp_path, most=11)
    for ids, lengths in two_chunks():
        writer.add(ids, lengths)
    writer.close()
    writer.close()
    assert store_.shard_files(tmp_path, 7) == {
        "ids": tmp_path / "ids-007.bin",
        "offsets": tmp_path / "offsets-007.npy",
    }
    assert np.load(tmp_path / "offsets-000.npy").tolist() == [0, 3, 6, 8, 11]
    assert np.fromfile(tmp_path / "ids-001.bin", np.uint16).tolist() == [4, 2, 1, 2]
    records = writer.state["shards"]
    assert [(w["pairs"], w["tokens"]) for w in records] == [(2, 11), (1, 4)]
    assert records[1]["ids"] == files.sha256_file(tmp_path / "ids-001.bin")
    again = store_.ShardWriter(tmp_path)
    assert again.state == writer.state and again.state["chunks"] == 2 and again.most == 1 << 25


def test_progress_is_kept_with_the_keys_that_belong_to_it(tmp_path):
    writer = store_.ShardWriter(tmp_path, slots=8)
    assert writer.keys.new(np.array([3, 5], np.uint64)).all()
    writer.state["chunks"] = 2
    writer.save()
    writer.state["shards"].append({"ids": "one", "offsets": "two", "pairs": 3})
    writer.save()
    again = store_.ShardWriter(tmp_path, slots=8)
    assert again.state == writer.state and again.state["seconds"] > 0
    assert again.keys.new(np.array([3, 4], np.uint64)).tolist() == [
        False,
        True,
    ], "a stop changes the store"
    assert [path.name for path in tmp_path.glob("keys-*")] == [
        "keys-001.bin"
    ], "one table is enough"
    (tmp_path / "keys-001.bin").write_bytes(b"")
    with pytest.raises(ValueError, match="keys-001.bin is empty: delete"):
        store_.ShardWriter(tmp_path)


def chunks(store, *numbers):
    "Chunks of ten pairs of a store, with keys by their place."
    for n in numbers:
        pairs = range(10 * n, 10 * n + 10)
        ids = np.concatenate([side for i in pairs for side in store.ids(i)])
        yield store_.Chunk(
            ids,
            store.lengths[10 * n : 10 * n + 10].astype(np.int64),
            np.arange(10 * n + 1, 10 * n + 11, dtype=np.uint64),
            store_.Counter(given=10, kept=10),
        )


def test_a_repeat_in_a_later_chunk_is_not_written(store, tmp_path):
    writer = store_.ShardWriter(tmp_path)
    assert store_.fill_shards(writer, chunks(store, 0, 1, 0))
    assert (
        writer.state["counts"] == {"given": 30, "kept": 20, "repeated": 10}
        and writer.state["shards"][0]["pairs"] == 20
    )
    ids = [i for k in range(20) for side in store.ids(k) for i in side]
    assert np.fromfile(tmp_path / "ids-000.bin", np.uint16).tolist() == ids
    (tmp_path / "few").mkdir()
    forgetful = store_.ShardWriter(tmp_path / "few", slots=1)
    store_.fill_shards(forgetful, chunks(store, 0, 1, 0))
    assert forgetful.state["counts"]["kept"] == 30, "one slot forgets"


def test_stopped_and_gone_on_with(store, tmp_path):
    """The last chunk holds the first one's pairs again, so that only remembered keys can keep them
    out."""
    assert not store_.fill_shards(store_.ShardWriter(tmp_path), chunks(store, 0, 1, 0), until=0)
    writer = store_.ShardWriter(tmp_path)
    assert writer.state["chunks"] == 1, "one chunk of three is written, and no more"
    assert store_.fill_shards(writer, chunks(store, 1, 0))
    assert (
        writer.state["counts"] == {"given": 30, "kept": 20, "repeated": 10}
        and writer.state["chunks"] == 3
    )
    assert [record["pairs"] for record in writer.state["shards"]] == [10, 10]


def test_a_store_of_several_shards(store, tmp_path):
    writer = store_.ShardWriter(tmp_path)
    store_.fill_shards(writer, chunks(store, 0, 1))
    for name in "ids", "offsets":
        shutil.copy(*(store_.shard_files(tmp_path, n)[name] for n in (0, 1)))
    files.write_json(tmp_path / "manifest.json", {"shards": 2 * writer.state["shards"]})
    two = store_.TokenStore(tmp_path)
    assert (
        two.starts.tolist() == [0, 20, 40]
        and len(two) == 40
        and two.lengths[20:].tolist() == store.lengths[:20].tolist()
    )
    assert two[0] == two[20] == store[0] != two[1]
    for wrong in -1, 40:
        with pytest.raises(IndexError):
            two[wrong]


def test_ids_stay_on_the_disk(store):
    ids, offsets = store_.open_shard(store.folder, 0, store.manifest["shards"][0])
    assert isinstance(ids, np.memmap) and ids.dtype == np.uint16 and isinstance(offsets, np.memmap)
    assert offsets.tolist()[:2] == [0, int(store.lengths[0, 0])]


def test_no_store_and_an_empty_one(store, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no token store in"):
        store_.TokenStore(tmp_path / "nothing")
    files.write_json(tmp_path / "manifest.json", {"shards": []})
    with pytest.raises(ValueError, match="nothing was left"):
        store_.TokenStore(tmp_path)
