"""Files that come with the book, their hashes, and writing that is complete or doesn't happen."""

import os

import pytest

from transformer_lit.corpora import files


def test_what_the_book_ships_is_there_in_a_checkout_and_in_a_package(tmp_path, monkeypatch):
    for name in "results/README.md", "web/views/masks.html", "data/checksums.tsv":
        assert files.shipped(name).exists()
    (tmp_path / "_shipped/data").mkdir(parents=True)
    monkeypatch.setattr(files, "PACKAGE", tmp_path)
    assert files.shipped("data/x/run.json") == tmp_path / "_shipped/data/x/run.json"
    assert files.shipped("other/b") == tmp_path.parent / "other/b", "it is in the checkout alone"


@pytest.mark.skipif(os.name == "nt", reason="file modes are Unix's")
@pytest.mark.parametrize("mask, mode", [(0o022, 0o644), (0o077, 0o600)])
def test_a_file_has_the_mode_of_any_new_file(mask, mode, tmp_path):
    old = os.umask(mask)
    try:
        files.write_text(tmp_path / "a", "x")
    finally:
        os.umask(old)
    assert (tmp_path / "a").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("stop", [OSError(28, "No space"), KeyboardInterrupt()])
def test_a_file_that_cant_be_written_leaves_the_old_one(stop, tmp_path):
    path = tmp_path / "run.json"
    files.write_text(path, "old")

    def write(part):
        part.write_text("ha")
        raise stop

    with pytest.raises(type(stop), match="No space|^$"):
        files.write_atomic(path, write)
    with pytest.raises(TypeError):
        files.write_json(path, {"no JSON": object()})
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff"])
def test_another_file_than_an_object_is_named(content, tmp_path):
    path = tmp_path / "translator.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="translator.json"):
        files.read_json(path)
