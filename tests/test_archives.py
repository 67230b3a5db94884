"""Parallel text as it comes: plain, packed, inside a tar, complete and damaged."""

import gzip
import io
import lzma
import tracemalloc

import pytest
from plugins.corpus import tar

from transformer_lit.corpora import texts


@pytest.mark.parametrize(
    "name, content, pairs",
    [
        ("a.tsv", b"Go.\tVa !\n", [("Go.", "Va !")]),
        ("a.tsv.gz", gzip.compress("\ufeffGo.\tVa !\r\n".encode()), [("Go.", "Va !")]),
        ("a.tsv.xz", lzma.compress(b"Go.\tVa !\tCC-BY"), [("Go.", "Va !")]),
        ("a.tsv", "\ufeffA\tB\n\ufeffC\tD\n".encode(), [("A", "B"), ("\ufeffC", "D")]),
        # a line ends at the newline byte and nowhere else
        ("a.tsv", "A\u2028b.\tC\u2028d.\n".encode(), [("A\u2028b.", "C\u2028d.")]),
        ("a.tsv", b"B\xe9d.\tMal.\nAlone.\n", [("B\ufffdd.", "Mal."), ("Alone.", "")]),
    ],
    ids=range(6),
)
def test_columns_are_read_however_they_are_packed(name, content, pairs, tmp_path):
    (tmp_path / name).write_bytes(content)
    assert list(texts.read_columns(tmp_path / name)) == pairs


def test_a_line_without_end_is_cut(monkeypatch):
    monkeypatch.setattr(texts, "MAX_LINE", 20)
    for end in b"", b"\n", b"\r\n":
        for n in 20, 50:
            assert [*texts.text_lines(io.BytesIO(b"x" * n + end))] == ["x" * 20]


def test_texts_are_found_in_any_folder_of_a_tar_and_unpacked_twice(tmp_path):
    path = tmp_path / "small.tgz"
    members = {
        "training/x.cs-en.en": b"no\n",
        "training/x.de-en.de": b"A\nB\n",
        "deep/er/x.de-en.en": b"C\nD\xe9",
        "y.de-en.de": b"A\n",
        "y.de-en.en.gz": gzip.compress(b"E\nF\n"),
    }
    path.write_bytes(tar(members))
    assert list(texts.member_lines(path, "y.de-en.en")) == ["E", "F"]
    pairs = list(texts.two_members(path, "training/x.de-en", "de"))
    assert pairs == [("C", "A"), ("D\ufffd", "B")], "the two sides don't belong together"
    for text, language, words in (
        ("y.de-en", "de", "y.de-en.*ends before"),
        ("training/x.de-en", "fr", "small.tgz holds no x.de-en.fr"),
    ):
        with pytest.raises(ValueError, match=words):
            list(texts.two_members(path, text, language))


def test_two_sides_are_read_without_being_held(tmp_path):
    most, odd = [], 0x9E3779B97F4A7C15F39CC0605CEDC835
    for n in 1_000, 10_000:
        numbers = (k * odd % (1 << 128) for k in range(n))
        lines = b"".join(b"%032x The animal was too tired.\n" % number for number in numbers)
        path = tmp_path / f"{n}.tgz"
        path.write_bytes(tar({"x.en": lines, "x.de": lines}))
        tracemalloc.start()
        assert sum(1 for _ in texts.two_members(path, "x", "de")) == n
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert most[1] < 1.5 * most[0] + 5e5, f"memory grows with the archive: {most}"


def test_a_broken_archive_does_not_go_through(tmp_path):
    good, path = tar({"x.en": b"A\n"}), tmp_path / "a.tgz"
    flipped = bytearray(good)
    flipped[-6] ^= 1  # of the checksum
    path.write_bytes(good)
    texts.check_archive(path)
    for broken in good[:-20], bytes(flipped), b"<html>", b"", tar({}, "w"):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="a.tgz can't be read"):
            texts.check_archive(path)


def test_a_folder_is_its_texts_in_the_order_of_their_names(tmp_path):
    for name, text in ("README.md", "none"), ("b.tsv", "A\tB\n"), ("a.txt", "Käse.\tC\n"):
        (tmp_path / name).write_text(text, "utf-8")
    sources = {source.name: list(source.read()) for source in texts.folder_sources(tmp_path)}
    assert list(sources.items()) == [("a.txt", [("Käse.", "C")]), ("b.tsv", [("A", "B")])]
