"""Parallel text as it comes: plain, packed, inside a tar, whole and damaged."""

import gzip
import io
import lzma
import tarfile
import tracemalloc
import zlib
from pathlib import Path

import pytest
from made_up import tar

from transformer_lit.corpora import texts


def test_two_sides_belong_together(tmp_path):
    path = tmp_path / "a.tgz"
    path.write_bytes(tar({"x.de-en.en": b"A\n", "x.de-en.de": b"B\n"}))
    assert list(texts.two_members(path, "x.de-en", "de")) == [
        ("A", "B")
    ], "the two sides don't belong together"


def test_a_byte_order_mark_is_no_part_of_the_first_pair(tmp_path):
    (tmp_path / "a.tsv").write_bytes("\ufeffGo.\tVa !\n\ufeffHi.\tSalut.\n".encode())
    (tmp_path / "b.tsv.gz").write_bytes(gzip.compress("\ufeffGo.\tVa !\r\n".encode()))
    assert list(texts.read_columns(tmp_path / "a.tsv")) == [
        ("Go.", "Va !"),
        ("\ufeffHi.", "Salut."),
    ]
    assert list(texts.read_columns(tmp_path / "b.tsv.gz")) == [("Go.", "Va !")]


def test_a_member_that_is_missing_or_short(tmp_path):
    path = tmp_path / "a.tgz"
    path.write_bytes(tar({"training/x.de-en.en": b"A\nB\n", "training/x.de-en.de": b"A\n"}))
    with pytest.raises(ValueError, match="ends before the other"):
        list(texts.two_members(path, "training/x.de-en", "de"))
    with pytest.raises(ValueError, match="holds no x.de-en.fr"):
        list(texts.two_members(path, "training/x.de-en", "fr"))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match="can't be read"):
        texts.check_archive(path)


def test_a_text_is_opened_as_it_is_packed(tmp_path):
    for name, held in (
        ("a.tsv", b"Go.\tVa !\n"),
        ("a.tsv.gz", gzip.compress(b"Go.\tVa !\n")),
        ("a.tsv.xz", lzma.compress(b"Go.\tVa !\n")),
    ):
        (tmp_path / name).write_bytes(held)
        with texts.open_text(tmp_path / name) as file:
            assert file.readline() == b"Go.\tVa !\n", name


@pytest.mark.parametrize("error", [OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError])
def test_whatever_is_wrong_while_reading_is_one_sentence(error):
    with pytest.raises(ValueError) as caught, texts.damage(Path("a.tsv"), "put a whole one there"):
        raise error("x")
    assert (
        str(caught.value)
        == "a.tsv can't be read (x): put a whole one there"
    )


def test_a_line_ends_at_the_newline_byte_and_nowhere_else(tmp_path):
    (tmp_path / "odd.tsv").write_bytes(
        "One\u2028two.\tUn\u2028deux.\n".encode() + b"B\xe9d.\tMal.\tCC-BY\r\nAlone.\n"
    )
    assert list(texts.read_columns(tmp_path / "odd.tsv")) == [
        ("One\u2028two.", "Un\u2028deux."),
        ("B\ufffdd.", "Mal."),
        ("Alone.", ""),
    ]


def test_a_line_without_end_is_no_text(monkeypatch):
    monkeypatch.setattr(texts, "MAX_LINE", 20)
    for end in b"", b"\n", b"\r\n":
        assert list(texts.text_lines(io.BytesIO(b"x" * 20 + end), "text")) == ["x" * 20]
        with pytest.raises(ValueError, match="line 2 of text has over 20 bytes"):
            list(texts.text_lines(io.BytesIO(b"Go.\n" + b"x" * 21 + end), "text"))


def test_texts_are_found_in_any_folder_of_a_tar_and_unpacked_twice(tmp_path):
    path = tmp_path / "small.tgz"
    path.write_bytes(
        tar(
            {
                "training/x.cs-en.en": b"no\n",
                "training/x.de-en.de": b"A\nB\n",
                "deep/er/x.de-en.en": b"C\nD\xe9",
                "y.en.gz": gzip.compress(b"E\n"),
            }
        )
    )
    assert list(texts.member_lines(path, "x.de-en.de")) == ["A", "B"]
    assert list(texts.member_lines(path, "x.de-en.en")) == ["C", "D\ufffd"]
    assert list(texts.member_lines(path, "y.en")) == ["E"]
    assert list(texts.two_members(path, "training/x.de-en", "de")) == [
        ("C", "A"),
        ("D\ufffd", "B"),
    ], "the two sides don't belong together"
    with pytest.raises(ValueError, match="small.tgz holds no z.en"):
        list(texts.member_lines(path, "z.en"))


def test_two_sides_are_read_without_being_held(tmp_path):
    most = []
    for n in 1_000, 10_000:
        lines = b"".join(
            b"%032x The animal was too tired.\n"
            % ((k * 0x9E3779B97F4A7C15F39CC0605CEDC835) % (1 << 128))
            for k in range(n)
        )
        path = tmp_path / f"{n}.tgz"
        path.write_bytes(tar({"x.en": lines, "x.de": lines}))
        tracemalloc.start()
        assert sum(1 for _ in texts.two_members(path, "x", "de")) == n
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert most[1] < 1.5 * most[0] + 5e5, f"memory grows with the archive: {most}"


def test_a_broken_archive_does_not_go_through(tmp_path):
    whole = tar({"x.en": b"A\n"})
    flipped = bytearray(whole)
    flipped[-6] ^= 1  # of the checksum
    path = tmp_path / "a.tgz"
    path.write_bytes(whole)
    texts.check_archive(path)
    for broken in whole[:-20], bytes(flipped), b"<html>", b"":
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="can't be read"):
            texts.check_archive(path)
    path.write_bytes(tar({}, "w"))
    with pytest.raises(ValueError, match="no file in it"):
        texts.check_archive(path)


def test_a_folder_is_its_texts_in_the_order_of_their_names(tmp_path):
    (tmp_path / "README.md").write_text("no corpus")
    with pytest.raises(ValueError) as caught:
        texts.folder_sources(tmp_path)
    assert str(caught.value).endswith(".tsv, .tsv.gz, .tsv.xz, .txt, .txt.gz, .txt.xz")
    (tmp_path / "b.tsv").write_text("A\tB\n")
    (tmp_path / "a.txt").write_text("C\tD\n")
    found = texts.folder_sources(tmp_path)
    assert [source.name for source in found] == ["a.txt", "b.tsv"] and list(found[1].read()) == [
        ("A", "B")
    ]
    assert found[0].files == (tmp_path / "a.txt",)


@pytest.mark.parametrize(
    "text, words",
    [
        ("1\tHold fire.\n" * 9, "holds numbers"),
        ("One.\rTwo.\rThree.\r", "carriage returns"),
        ("One.\n" * 9, "no second column"),
        ("Käse.\tCheese.\n".encode("latin-1").decode("latin-1"), None),
    ],
)
def test_a_folder_of_texts_is_looked_at_before_hours_of_training(text, words, tmp_path):
    (tmp_path / "a.tsv").write_bytes(text.encode("utf-8"))
    if words:
        with pytest.raises(ValueError, match=words):
            texts.folder_sources(tmp_path)
    else:
        assert [source.name for source in texts.folder_sources(tmp_path)] == ["a.tsv"]
    (tmp_path / "a.tsv").write_bytes("Käse.\tfromage.\n".encode("utf-16"))
    with pytest.raises(ValueError, match="zero bytes"):
        texts.folder_sources(tmp_path)
