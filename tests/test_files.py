"""Files that come with the book, their hashes, and writing that is whole or doesn't happen."""

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest

from transformer_lit.corpora import files


def test_what_the_book_ships_is_found():
    assert files.shipped("results/README.md").read_text(encoding="utf-8").startswith("# Recorded")
    assert files.shipped("web/views/masks.html").exists()
    assert {"attention.html", "masks.html"} <= {
        p.name for p in files.shipped("web/views").iterdir()
    }


def test_an_installed_package_holds_them_inside(tmp_path, monkeypatch):
    (tmp_path / "_shipped" / "data").mkdir(parents=True)
    (tmp_path / "_shipped" / "results").mkdir()
    monkeypatch.setattr(files, "files", lambda name: tmp_path)
    for folder in "data", "results":
        assert (
            files.shipped(f"{folder}/x/run.json")
            == tmp_path / "_shipped" / folder / "x" / "run.json"
        )
    assert (
        files.shipped("other/b") == tmp_path.parent / "other" / "b"
    ), "what isn't inside is looked for in the checkout"


def test_a_hash_is_sha_256_of_the_bytes(tmp_path):
    (tmp_path / "abc").write_bytes(b"abc")
    assert (
        files.sha256_file(tmp_path / "abc")
        == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )
    large = bytes(range(256)) * 5000  # more than one piece
    (tmp_path / "large").write_bytes(large)
    assert files.sha256_file(str(tmp_path / "large")) == hashlib.sha256(large).hexdigest()


def test_the_cache_lies_where_the_system_keeps_such_things(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert files.cache_dir() == tmp_path / "transformer-lit"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert files.cache_dir() == Path.home() / ".cache" / "transformer-lit"
    monkeypatch.setenv("XDG_CACHE_HOME", "")  # empty is as good as not set
    assert files.cache_dir() == Path.home() / ".cache" / "transformer-lit"


def test_json_is_whole_readable_and_ends_its_line(tmp_path):
    path = tmp_path / "new" / "folder" / "run.json"
    files.write_json(path, {"said": "Où ?", "n": [1, 2]})
    text = path.read_text(encoding="utf-8")
    assert text == '{\n "said": "Où ?",\n "n": [\n  1,\n  2\n ]\n}\n' and json.loads(text)["n"] == [
        1,
        2,
    ]
    files.write_json(path, [1], indent=None)
    assert path.read_text(encoding="utf-8") == "[1]\n"
    assert [p.name for p in path.parent.iterdir()] == ["run.json"], "nothing half is left beside it"
    assert (
        path.stat().st_mode & 0o777 == 0o666 & ~current_umask()
    ), "others may read it as they may any new file"


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_file_that_cant_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    files.write_text(path, "old")

    def full(part):
        part.write_text("ha")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="can't be written: .*No space left"):
        files.write_atomic(path, full)
    with pytest.raises(TypeError):
        files.write_json(path, {"no JSON": object()})
    def stopped(part):
        part.write_text("ha")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write_atomic(path, stopped)
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize("text", ["", "{", "[1]", "[" * 100_000, b"\xff"])
def test_another_file_than_an_object_is_named(text, tmp_path):
    path = tmp_path / "translator.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match="translator.json"):
        files.read_json(path)
