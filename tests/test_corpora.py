"""The corpora's files: the right file told from a wrong one, where it is fetched, and what is here.
No host outside is asked."""

import gzip
import hashlib
import os

import pytest
from plugins.corpus import put_lines, tar
from plugins.server import WHOLE, archive

from transformer_lit import data
from transformer_lit.corpora import published as corpora

real_corpora = pytest.mark.skipif(
    not os.environ.get("TRANSFORMER_LIT_DATA"),
    reason="TRANSFORMER_LIT_DATA names no folder with the real corpora",
)
PAIRS = "Go.\tVa !\tCC-BY\n" * 200


@pytest.fixture
def folder(tmp_path, monkeypatch):
    "An empty folder of the reader's."
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_a_text_is_what_was_published_however_it_is_packed(tmp_path):
    text, path = b"A dog runs.\n" * 3, tmp_path / "a.gz"
    md5 = hashlib.md5(b"as packed").hexdigest()
    row = {"bytes": 36, "sha256": hashlib.sha256(text).hexdigest(), "md5": md5}
    for good in gzip.compress(text, 1), gzip.compress(text, 9), b"as packed":
        path.write_bytes(good)
        corpora.verify_published(path, row)
    for bad, words in (
        (gzip.compress(text)[:-9], "can't be read"),
        (text, "Not a gzipped file"),
        (gzip.compress(text[1:]), "35 of 36 bytes"),
        (gzip.compress(text.replace(b"dog", b"cat")), "not the published one"),
    ):
        path.write_bytes(bad)
        with pytest.raises((OSError, ValueError), match=words):
            corpora.verify_published(path, row)


# Tatoeba ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content, fewest, result",
    [
        (archive("\ufeff" + PAIRS, "folder/fra.txt"), 200, 200),
        (archive(PAIRS + "x\ty\tz\tw\n"), 1, 200),  # one odd line in a hundred is let pass
        (archive(PAIRS), 201, "200 of its 201 .* 201"),
        (archive(PAIRS + "no column\n" * 3), 200, "200 of its 204"),
        (archive(PAIRS, "deu.txt"), 1, "fra.txt"),
        (WHOLE[:500], 1, "a.zip can't be read.*delete it"),
    ],
)
def test_an_archive_is_counted_and_another_is_refused(content, fewest, result, tmp_path):
    path = tmp_path / "a.zip"
    path.write_bytes(content)
    if isinstance(result, int):
        assert corpora.tatoeba_shape(path, "fr", fewest) == result
    else:
        with pytest.raises(ValueError, match=result):
            corpora.tatoeba_shape(path, "fr", fewest)


def test_the_publishers_archive_must_be_large_and_has_a_mirror(server, monkeypatch):
    mirror = f"{server}/mirror/fra-eng.zip#sha1={hashlib.sha1(WHOLE).hexdigest()}"
    monkeypatch.setattr(corpora, "TATOEBA", f"{server}/good/")
    monkeypatch.setattr(corpora, "MIRRORS", {"fr": [mirror]})
    with pytest.raises(FileNotFoundError) as refusal:
        corpora.tatoeba_archive()
    assert str(refusal.value).count("150,000") == 2  # too few lines, also at the mirror
    monkeypatch.setattr(corpora, "MIN_LINES", 4000)
    path = corpora.tatoeba_archive()
    assert "4,000" in corpora.state("tatoeba/fra-eng.zip")
    path.write_bytes(WHOLE[:500])
    assert corpora.state("tatoeba/fra-eng.zip").startswith("DAMAGED")


# Multi30k and the news ----------------------------------------------------------------------------


def test_published_files_are_fetched_and_looked_at(server, monkeypatch):
    root, text = f"{server}/tsv.gz/", b"A dog.\n"
    monkeypatch.setattr(corpora, "MULTI30K", [root])
    monkeypatch.setattr(corpora, "STATMT", [root])
    fetches = (corpora.multi30k_file, ["test", "fr"]), (corpora.news_sides, ["newstest2014", "fr"])
    for fetch, names in fetches:
        with pytest.raises(FileNotFoundError, match=f"{root}.*not the published"):
            fetch(*names)
    row = {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest(), "md5": ""}
    monkeypatch.setattr(corpora, "published", lambda name: row)
    assert gzip.decompress(corpora.multi30k_file("test", "fr").read_bytes()) == text
    assert corpora.state("multi30k/test_2016_flickr.fr.gz") == "as published"


def test_a_news_test_is_read_from_its_archive_or_from_files(folder):
    names = "fren-src.en", "fren-ref.fr", "csen-src.en"
    text = '<doc><seg id="1"> Law &amp; order\n</seg><seg id="2">{}</seg>'
    members = {f"test-full/newstest2014-{n}.sgm": text.format(n[-2:]).encode() for n in names}
    path = folder / "newstest/test-full.tgz"
    path.parent.mkdir()
    path.write_bytes(tar(members))
    with pytest.raises(ValueError, match="no x.sgm"):
        corpora.read_sgm(path, "x.sgm")
    tidied = [("Law & order", "Law & order"), ("en", "fr")]
    assert data.read_newstest("newstest2014") == tidied  # both sides, tidied
    for tag in "en", "fr":
        put_lines(folder, f"newstest/en-fr/newstest2014.{tag}.gz", [tag])
    assert data.read_newstest("newstest2014") == [("en", "fr")]  # files come before the archive


# What is here -------------------------------------------------------------------------------------


def test_the_files_of_a_corpus(folder):
    assert corpora.files_of("tatoeba", "de") == ["tatoeba/deu-eng.zip"]
    assert corpora.files_of("pocket") == [] and len(corpora.files_of("multi30k")) == 6
    archives = corpora.files_of("wmt14", "fr")
    assert len(archives) == 2 and all(map(corpora.published, archives))


def test_the_state_of_a_file(folder):
    assert corpora.state("no.gz") == "not here"
    put_lines(folder, "multi30k/val.de.gz", ["Ein Hund."])
    assert corpora.state("multi30k/val.de.gz").startswith("DAMAGED: its text has 10 of ")


@real_corpora
@pytest.mark.parametrize("language", ["fr", "de"])
@pytest.mark.parametrize("name", ["tatoeba", "multi30k", "wmt14"])
def test_the_real_files_are_as_published(name, language):
    for file in corpora.files_of(name, language):
        words = corpora.state(file, language)
        assert words == "as published" or words.startswith("whole, 16"), f"{file}: {words}"
