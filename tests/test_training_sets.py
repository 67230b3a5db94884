"""Training sets by name: which files stand behind each, and what is held out."""

import gzip
from pathlib import Path

import pytest

from transformer_lit import data
from transformer_lit.corpora import download, texts, published as corpora
from transformer_lit.recipes import training_sets
from transformer_lit.corpora.files import sha256_file


def test_wmts_archives_are_asked_for_where_they_lie(monkeypatch):
    asked = []
    monkeypatch.setattr(
        download, "find", lambda name, urls, check: asked.append((name, urls, check)) or Path(name)
    )
    french, german = training_sets.wmt_sources("fr"), training_sets.wmt_sources("de")
    assert [s.name for s in german] == [
        "europarl-v7.de-en",
        "commoncrawl.de-en",
        "news-commentary-v9.de-en",
    ]
    assert [s.name for s in french][3:] == ["undoc.2000.fr-en", "giga-fren.release2.fixed"]
    name, urls, check = asked[-1]
    assert (
        urls == [root + "wmt14/training-parallel-nc-v9.tgz" for root in corpora.STATMT]
        and check is texts.check_archive
    )
    assert german[1].read.args[1:] == ("commoncrawl.de-en", "de"), "a text of another archive"


def test_small_sources(monkeypatch, tmp_path):
    monkeypatch.setattr(corpora, "tatoeba_archive", lambda language: tmp_path)
    monkeypatch.setattr(data, "read_tatoeba", lambda *given: given)
    assert training_sets.tatoeba_source("de").read() == (
        tmp_path,
        "de",
    ) and training_sets.tatoeba_source("de").files == (tmp_path,)
    monkeypatch.setattr(data, "read_multi30k", lambda *given: given)
    monkeypatch.setattr(download, "find_cached", lambda name: None if "2010" in name else name)
    monkeypatch.setattr(data, "parts_of_wmt14", lambda language: {"train": [language]})
    one = training_sets.multi30k_source("fr")
    assert one.files == ("multi30k/train.en.gz", "multi30k/train.fr.gz") and one.read() == (
        "train",
        "fr",
    )
    news = training_sets.news_source("de")
    assert news.read() == ["de"] and len(news.files) == 10 and news.files[1].endswith("2008.de.gz")


def test_general_text_is_your_folder_and_two_more(monkeypatch, tmp_path):
    (tmp_path / "a.txt").write_text("C\tD\n")
    monkeypatch.setattr(download, "find_cached", lambda name: tmp_path)
    monkeypatch.setattr(training_sets, "tatoeba_source", str.upper)
    monkeypatch.setattr(training_sets, "news_source", str.title)
    assert [getattr(s, "name", s) for s in training_sets.general_sources("fr")] == [
        "a.txt",
        "FR",
        "Fr",
    ]
    monkeypatch.setattr(download, "find_cached", lambda name: None)
    with pytest.raises(FileNotFoundError, match="a folder that holds general/en-fr"):
        training_sets.general_sources("fr")


def test_a_name_leads_to_its_family_or_to_a_folder(monkeypatch, tmp_path):
    assert (
        training_sets.language_of("wmt14-en-de") == "de"
        and training_sets.language_of("a-fr") == "fr"
    )
    monkeypatch.setitem(training_sets.FAMILIES, "wmt14", str.upper)
    monkeypatch.setitem(training_sets.FAMILIES, "general", str.title)
    assert (
        training_sets.sources_of("wmt14-en-fr") == "FR"
        and training_sets.sources_of("general-en-de") == "De"
    )
    mine = tmp_path / "mine-fr"
    mine.mkdir()
    (mine / "b.tsv").write_text("A\tB\n")
    assert [s.name for s in training_sets.sources_of(str(mine))] == ["b.tsv"]
    assert (
        training_sets.language_of(f"{mine}/") == "fr"
    ), "as a shell completes the name of a folder"
    assert [
        training_sets.family_of(name)
        for name in ("multi30k-en-de", "multi30k-mine-de", "mixture-mine-fr")
    ] == ["multi30k", "", ""]
    for wrong in "wmt15-en-de", "nowhere-fr":
        with pytest.raises(ValueError, match="there is no training set .*; there are wmt14-en-de"):
            training_sets.sources_of(wrong)


def test_a_folder_of_any_pair_holds_out_files_of_its_own(monkeypatch, tmp_path):
    mine = tmp_path / "mine-nl"
    mine.mkdir()
    for name in ("a.tsv", "valid.tsv", "b.txt"):
        (mine / name).write_text(f"{name}\tB\n")
    for refused in (training_sets.sources_of, training_sets.held_out, training_sets.held_sources):
        with pytest.raises(
            ValueError,
            match=(
                "mine-nl needs two files of pairs to hold out, valid.tsv and test.tsv; .* end in"
                " one of -fr, -de"
            ),
        ):
            refused(str(mine))
    (mine / "test.tsv.gz").write_bytes(gzip.compress(b"T\tB\n"))
    assert [source.name for source in training_sets.sources_of(str(mine))] == [
        "a.tsv",
        "b.txt",
    ], "what is held out is not trained on"
    assert training_sets.held_out(str(mine)) == {
        "valid": [("valid.tsv", "B")],
        "test": [("T", "B")],
    }
    inputs = training_sets.inputs_here(str(mine))
    assert [file["file"] for file in inputs] == [
        "a.tsv",
        "b.txt",
        "test.tsv.gz",
        "valid.tsv",
    ] and not training_sets.held_sources("wmt14-en-fr")
    assert training_sets.held_names(str(mine), inputs) == {
        "valid": "valid.tsv",
        "test": "test.tsv.gz",
    }
    assert training_sets.held_names("wmt14-en-fr", inputs[:2]) == {
        "valid": "newstest2013",
        "test": "newstest2014",
    }
    assert training_sets.held_names("multi30k-en-fr", []) == {
        "valid": "multi30k-val",
        "test": "multi30k-test2016",
    }
    (mine / "test.txt").write_text("T\tB\n")
    with pytest.raises(
        ValueError, match=r"mine-nl has test.tsv.gz besides test.txt: keep one of each"
    ):
        training_sets.sources_of(str(mine))
    (mine / "test.txt").unlink()
    (mine / "valid.tsv").unlink()
    with pytest.raises(ValueError, match="needs two files"):
        training_sets.sources_of(str(mine))
    french = mine.rename(tmp_path / "mine-fr")
    with pytest.raises(ValueError, match="needs two files"):
        training_sets.sources_of(str(french))


def test_what_is_held_out(monkeypatch):
    monkeypatch.setattr(data, "read_news", lambda *given: given)
    monkeypatch.setattr(data, "read_multi30k", lambda *given: given)
    assert training_sets.held_out("wmt14-en-de") == {
        "valid": ("newstest2013", "de"),
        "test": ("newstest2014", "de"),
    }
    assert training_sets.held_out("multi30k-en-fr") == {
        "valid": ("valid", "fr"),
        "test": ("test", "fr"),
    }
    assert (
        training_sets.held_out("my/multi30k-mine-de")["valid"]
        == ("newstest2013", "de")
        == training_sets.held_out("mixture-de")["valid"]
    )


def test_inputs_are_described_and_never_fetched_to_be_compared(monkeypatch, tmp_path):
    mine = tmp_path / "mine-fr"
    mine.mkdir()
    (mine / "b.tsv").write_text("A\tB\n")
    made = training_sets.inputs_of(training_sets.sources_of(str(mine)))
    assert made == [
        {"source": "b.tsv", "file": "b.tsv", "bytes": 4, "sha256": sha256_file(mine / "b.tsv")}
    ]
    assert (
        training_sets.inputs_here(str(mine)) == made
        and training_sets.inputs_here("not-here-fr") is None
    )
    assert training_sets.files_needed("wmt14-en-de") == [
        f"wmt1{n}/training-parallel-{text}.tgz"
        for n, text in ((3, "europarl-v7"), (3, "commoncrawl"), (4, "nc-v9"))
    ]
    assert (
        len(training_sets.files_needed("wmt14-en-fr")) == 5
        and training_sets.files_needed(str(mine)) == []
    )
    assert training_sets.files_needed("general-en-de") == ["tatoeba/deu-eng.zip"]
    assert len(training_sets.files_needed("multi30k-en-fr")) == 6
    monkeypatch.setattr(download, "find_cached", lambda name: None)
    assert training_sets.inputs_here("wmt14-en-de") is None
