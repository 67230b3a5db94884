"""The corpora's files: the right addresses, the right file told from a wrong one, and what is here.
No network is asked."""

import gzip
import hashlib
import io
import os
import tarfile
import zipfile
from unittest import mock

import pytest
from helpers import zipped
from web_server import WHOLE, Answers, archive, server  # noqa: F401

from transformer_lit.corpora import published as corpora

REAL = os.environ.get("TRANSFORMER_LIT_DATA")
real_corpora = pytest.mark.skipif(
    not REAL, reason="TRANSFORMER_LIT_DATA names no folder with the real corpora"
)
PAIRS = "Go.\tVa !\tCC-BY\n" * 200


@pytest.fixture
def own(tmp_path, monkeypatch):
    "An empty folder of the reader's own, and a way to put a gzipped text into it."
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def put(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()))
        return path

    return put


def zip_at(path, text, member="fra.txt"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(archive(text, member))
    return path


# What was published -------------------------------------------------------------------------------


def test_the_shipped_list_knows_what_never_changes():
    row = corpora.published("multi30k/test_2016_flickr.en.gz")
    assert (
        (row["lines"], row["bytes"]) == (1000, 62076)
        and len(row["sha256"]) == 64
        and len(row["md5"]) == 32
    )
    assert corpora.published("tatoeba/fra-eng.zip") is None, "this one is renewed"
    for language in "fr", "de":
        assert all(map(corpora.published, corpora.files_of("multi30k", language)))


def test_a_text_is_what_was_published_however_it_is_packed(tmp_path):
    text = b"A dog runs.\n" * 3
    row = {
        "bytes": 36,
        "sha256": hashlib.sha256(text).hexdigest(),
        "md5": hashlib.md5(b"as packed").hexdigest(),
    }
    path = tmp_path / "a.gz"
    for good in gzip.compress(text, 1), gzip.compress(text, 9), b"as packed":
        path.write_bytes(good)
        corpora.verify_published(path, row)
    for bad, words in (
        (gzip.compress(text)[:-9], "can't be read"),
        (text, "Not a gzipped file"),
        (gzip.compress(text[1:]), "its text has 35 of 36 bytes and is not the published one"),
        (gzip.compress(text.replace(b"dog", b"cat")), "is not the published one"),
        (gzip.compress(text + b"x"), "unpacks to more than 36 bytes"),
    ):
        path.write_bytes(bad)
        with pytest.raises((OSError, ValueError), match=words):
            corpora.verify_published(path, row)
    with pytest.raises(OSError, match="^its checksum is not the published one$"):
        corpora.verify_published(path, row | {"bytes": 0})


# Tatoeba ------------------------------------------------------------------------------------------


def test_the_text_stands_in_the_root_or_in_a_folder(tmp_path):
    for member in "fra.txt", "x/fra.txt":
        assert (
            corpora.tatoeba_text(zip_at(tmp_path / "a.zip", "\ufeffGo.\tVa !\tCC-BY", member))
            == "Go.\tVa !\tCC-BY"
        )


@pytest.mark.parametrize(
    "text, member, fewest, words",
    [
        (PAIRS, "fra.txt", 201, "200 of its 201 lines are pairs, and 201 were expected"),
        (PAIRS + "no column\n" * 3, "fra.txt", 200, "200 of its 204 lines"),
        (PAIRS, "deu.txt", 1, "no item named 'fra.txt'"),
    ],
)
def test_another_archive_is_refused(text, member, fewest, words, tmp_path):
    with pytest.raises(ValueError) as caught:
        corpora.tatoeba_shape(zip_at(tmp_path / "a.zip", text, member), "fr", fewest)
    assert words.replace("'", "") in str(caught.value).replace("'", "")


def test_the_right_archive_is_counted(tmp_path):
    path = tmp_path / "a.zip"
    assert corpora.tatoeba_shape(zip_at(path, PAIRS), "fr", 200) == 200
    assert (
        corpora.tatoeba_shape(zip_at(path, PAIRS + "x\ty\tz\tw\n")) == 200
    ), "a line of four columns in a hundred is let pass"
    assert corpora.tatoeba_shape(zip_at(path, "Go.\tVa !\n")) == 1
    path.write_bytes(zipped({"fra.txt": "x"})[:50])
    with pytest.raises(ValueError, match="not a zip file"):
        corpora.tatoeba_shape(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("fra.txt", "a\té\n".encode("latin-1"))
    with pytest.raises(ValueError, match="can't be read"):
        corpora.tatoeba_shape(path)


@pytest.mark.parametrize("text, member", [("Go.\tVa !", "x.txt"), (None, "")])
def test_an_archive_that_cant_be_read_says_what_to_do(text, member, tmp_path):
    path = tmp_path / "a.zip"
    path.write_bytes(WHOLE[:500]) if text is None else zip_at(path, text, member)
    with pytest.raises(ValueError) as caught:
        corpora.tatoeba_text(path)
    said = str(caught.value)
    assert (
        "can't be read" in said
        and str(path) in said
        and "delete it, and it will be fetched again" in said
    )


def test_who_is_asked_for_the_archive_and_how_large_it_must_be():
    with mock.patch.object(corpora, "cached_file") as given:
        corpora.tatoeba_archive(), corpora.tatoeba_archive("de")
    french, german = [call.args for call in given.call_args_list]
    assert french[:2] == (
        "tatoeba/fra-eng.zip",
        [corpora.TATOEBA + "fra-eng.zip", *corpora.MIRRORS["fr"]],
    )
    assert german[:2] == ("tatoeba/deu-eng.zip", [corpora.TATOEBA + "deu-eng.zip"])
    assert (
        french[2].keywords == {"language": "fr", "min_pairs": 150_000}
        and german[2].keywords["language"] == "de"
    )


def test_the_publishers_archive_must_be_large_and_has_a_mirror(server, monkeypatch):  # noqa: F811
    monkeypatch.setattr(corpora, "TATOEBA", f"{server}/good/")
    monkeypatch.setattr(
        corpora,
        "MIRRORS",
        {"fr": [f"{server}/mirror/fra-eng.zip#sha1={hashlib.sha1(WHOLE).hexdigest()}"]},
    )
    with pytest.raises(FileNotFoundError) as caught:
        corpora.tatoeba_archive()
    assert (
        str(caught.value).count("150,000 were expected") == 2
    ), "4,000 lines are too few, also at the mirror"
    monkeypatch.setattr(corpora, "MIN_LINES", 4000)
    n_asked, path = len(Answers.asked), corpora.tatoeba_archive()
    assert corpora.tatoeba_archive() == path, "what was fetched is not fetched again"
    assert len(Answers.asked) == n_asked + 1
    assert corpora.state("tatoeba/fra-eng.zip") == "whole, 4,000 pairs"
    path.write_bytes(WHOLE[:500])
    assert corpora.state("tatoeba/fra-eng.zip").startswith("DAMAGED")


# Multi30k and the news ----------------------------------------------------------------------------


def test_where_captions_are_fetched_from():
    with mock.patch.object(corpora, "cached_file") as given:
        for side in "en", "fr":
            corpora.multi30k_file("test", side)
    for call, side in zip(given.call_args_list, ("en", "fr"), strict=True):
        name, urls, check = call.args
        assert name == f"multi30k/test_2016_flickr.{side}.gz"
        assert [url.split("/")[2] for url in urls] == ["raw.githubusercontent.com", "github.com"]
        assert all(
            url.endswith(f"/dataset/{mid}/data/task1/raw/{name[9:]}")
            for url, mid in zip(urls, ("master", "raw/master"), strict=True)
        )
        assert check.keywords["row"] == corpora.published(name)
    assert corpora.MULTI30K_SPLITS == {"train": "train", "valid": "val", "test": "test_2016_flickr"}


def news_archive(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as file:
        for name in "fren-src.en", "fren-ref.fr", "csen-src.en":
            body = (
                f'<doc><seg id="1"> Law &amp; order\n</seg><seg id="2">{name[-2:]}</seg>'.encode()
            )
            member = tarfile.TarInfo(f"test-full/newstest2014-{name}.sgm")
            member.size = len(body)
            file.addfile(member, io.BytesIO(body))
    return path


def test_a_news_test_is_read_from_its_archive(own, tmp_path):
    path = news_archive(tmp_path / "newstest/test-full.tgz")
    assert corpora.read_sgm(path, "2014-fren-ref.fr.sgm") == [" Law & order\n", "fr"]
    with pytest.raises(ValueError, match="holds no ...-ref.de.sgm: delete it"):
        corpora.read_sgm(path, "-ref.de.sgm")
    assert (
        corpora.newstest_files("newstest2014") == []
    ), "the single files aren't here, and an archive has them"
    assert corpora.news_sides("newstest2014") == [
        [" Law & order\n", "en"],
        [" Law & order\n", "fr"],
    ]
    with mock.patch.object(corpora, "cached_file", return_value=path) as given:
        corpora.news_sides("newstest2014", "fr")
    name, urls, check = given.call_args.args
    assert (name, len(urls)) == ("newstest/test-full.tgz", 2) and all(
        url.endswith("/wmt14/test-full.tgz") for url in urls
    )
    assert check.keywords["row"] == corpora.published(name)


def test_single_files_come_before_the_archive(own):
    files = [own(f"newstest/en-fr/newstest2014.{side}.gz", "x\n") for side in ("en", "fr")]
    assert corpora.newstest_files("newstest2014") == files
    with pytest.raises(
        FileNotFoundError, match="newstest2009.en.gz could not be fetched from anywhere"
    ):
        corpora.newstest_files("newstest2009")


# What is here -------------------------------------------------------------------------------------


def test_the_files_of_a_corpus(own):
    assert (
        corpora.files_of("tatoeba", "de") == ["tatoeba/deu-eng.zip"]
        and corpora.files_of("pocket") == []
    )
    assert len(corpora.files_of("multi30k")) == 6
    archives = corpora.files_of("wmt14", "fr")
    assert archives == ["newstest/wmt13-test.tgz", "newstest/test-full.tgz"] and all(
        map(corpora.published, archives)
    )
    for news in corpora.NEWS:
        for side in "en", "fr":
            own(f"newstest/en-fr/{news}.{side}.gz", "x\n")
    assert corpora.files_of("wmt14", "fr") == [
        f"newstest/en-fr/{news}.{side}.gz" for news in corpora.NEWS for side in ("en", "fr")
    ]
    assert {len(row) for row in corpora.WMT14.values()} == {3}


def test_the_state_of_a_file(own, tmp_path, monkeypatch):
    file = "multi30k/val.de.gz"
    zip_at(tmp_path / "tatoeba/fra-eng.zip", "Go.\tVa !\n" * 6000)
    assert (
        corpora.state("no.gz") == "not here"
        and corpora.state("tatoeba/fra-eng.zip") == "whole, 6,000 pairs"
    )
    own(file, "Ein Hund.\n")
    assert corpora.state(file).startswith("DAMAGED: its text has 10 of ")
    row = {"bytes": 10, "sha256": hashlib.sha256(b"Ein Hund.\n").hexdigest(), "md5": ""}
    monkeypatch.setattr(corpora, "published", lambda name: row)
    assert corpora.state(file) == "as published"


@real_corpora
def test_the_real_files_are_as_published():
    for name, language in [
        ("tatoeba", "fr"),
        ("tatoeba", "de"),
        ("multi30k", "fr"),
        ("multi30k", "de"),
        ("wmt14", "fr"),
        ("wmt14", "de"),
    ]:
        for file in corpora.files_of(name, language):
            words = corpora.state(file, language)
            assert words == "as published" or words.startswith("whole, 16"), f"{file}: {words}"
