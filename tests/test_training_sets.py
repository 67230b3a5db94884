"""Training sets by name: which files stand behind each, and what is held out."""

import gzip
from pathlib import Path

import pytest

from transformer_lit import data
from transformer_lit.corpora import published, texts
from transformer_lit.corpora.files import sha256_file
from transformer_lit.recipes import training_sets
from transformer_lit.recipes.training_sets import TRAINING_SETS, find_training_set


def test_wmts_archives_are_asked_for_where_they_lie(monkeypatch):
    calls = []
    monkeypatch.setattr(
        training_sets, "cached_file", lambda *given: calls.append(given) or Path(given[0])
    )
    french, german = (TRAINING_SETS[f"wmt14-en-{tag}"].sources() for tag in ("fr", "de"))
    assert [s.name for s in german] == [
        "europarl-v7.de-en",
        "commoncrawl.de-en",
        "news-commentary-v9.de-en",
    ]
    assert [s.name for s in french][3:] == ["undoc.2000.fr-en", "giga-fren.release2.fixed"]
    name, urls, validate = calls[-1]
    assert urls == [root + "wmt14/training-parallel-nc-v9.tgz" for root in published.STATMT]
    assert validate is texts.check_archive
    assert german[1].read.args[1:] == ("commoncrawl.de-en", "de"), "a text of another archive"


def test_small_sources(monkeypatch, tmp_path):
    monkeypatch.setattr(published, "tatoeba_archive", lambda language: tmp_path)
    monkeypatch.setattr(published, "multi30k_file", lambda part, side: f"{part}.{side}")
    monkeypatch.setattr(data, "read_tatoeba", lambda *given: given)
    monkeypatch.setattr(data, "read_multi30k", lambda *given: given)
    monkeypatch.setattr(data, "load_wmt14", lambda language: {"train": [language]})
    monkeypatch.setattr(training_sets, "find_cached", lambda name: None if "2010" in name else name)
    tatoeba = training_sets.tatoeba_source("de")
    assert tatoeba.read() == (tmp_path, "de") and tatoeba.files == (tmp_path,)
    captions = training_sets.multi30k_source("fr")
    assert captions.files == ("train.en", "train.fr") and captions.read() == ("train", "fr")
    news = training_sets.news_source("de")
    assert news.read() == ["de"] and len(news.files) == 10 and news.files[1].endswith("2008.de.gz")


def test_general_text_is_your_folder_and_two_more(monkeypatch, tmp_path):
    (tmp_path / "a.txt").write_text("C\tD\n")
    monkeypatch.setattr(training_sets, "find_cached", lambda name: tmp_path)
    monkeypatch.setattr(training_sets, "tatoeba_source", str.upper)
    monkeypatch.setattr(training_sets, "news_source", str.title)
    sources = TRAINING_SETS["general-en-fr"].sources()
    assert [getattr(s, "name", s) for s in sources] == ["a.txt", "FR", "Fr"]
    monkeypatch.setattr(training_sets, "find_cached", lambda name: None)
    with pytest.raises(FileNotFoundError, match="a folder that holds general/en-fr"):
        TRAINING_SETS["general-en-fr"].sources()


def test_a_name_leads_to_a_training_set_or_to_a_folder(tmp_path):
    assert {name.partition("-")[0] for name in TRAINING_SETS} == {
        "wmt14", "general", "mixture", "multi30k"
    }  # fmt: skip
    assert find_training_set("wmt14-en-de").language == "de"
    mine = tmp_path / "multi30k-mine-fr"
    mine.mkdir()
    (mine / "b.tsv").write_text("A\tB\n")
    found = find_training_set(f"{mine}/")  # as a shell completes the name of a folder
    assert found.language == "fr" and [s.name for s in found.sources()] == ["b.tsv"]
    assert found.held_names == {"valid": "newstest2013", "test": "newstest2014"}
    assert found.inputs() == [
        {"source": "b.tsv", "file": "b.tsv", "bytes": 4, "sha256": sha256_file(mine / "b.tsv")}
    ]
    for wrong in "wmt15-en-de", "nowhere-fr":
        with pytest.raises(OSError, match=wrong):
            find_training_set(wrong)


def test_a_folder_of_any_pair_holds_out_files_of_its_own(tmp_path):
    mine = tmp_path / "mine-nl"
    mine.mkdir()
    for name in ("a.tsv", "valid.tsv", "b.txt"):
        (mine / name).write_text(f"{name}\tB\n")

    def refused(folder=mine):
        with pytest.raises(ValueError, match="needs two files of pairs.*one of -fr, -de"):
            find_training_set(str(folder))

    refused()
    (mine / "test.tsv.gz").write_bytes(gzip.compress(b"T\tB\n"))
    found = find_training_set(str(mine))
    names = [source.name for source in found.sources()]
    assert names == ["a.tsv", "b.txt"], "what is held out is not trained on"
    assert found.held_out() == {"valid": [("valid.tsv", "B")], "test": [("T", "B")]}
    assert found.held_names == {"valid": "valid.tsv", "test": "test.tsv.gz"}
    files = [file["file"] for file in found.inputs()]
    assert files == ["a.tsv", "b.txt", "valid.tsv", "test.tsv.gz"]
    (mine / "test.txt").write_text("T\tB\n")
    refused()
    (mine / "test.txt").unlink()
    (mine / "valid.tsv").unlink()
    refused()
    refused(mine.rename(tmp_path / "mine-fr"))


def test_what_is_held_out(monkeypatch):
    monkeypatch.setattr(data, "read_newstest", lambda *given: given)
    monkeypatch.setattr(data, "read_multi30k", lambda *given: given)
    news = {"valid": ("newstest2013", "de"), "test": ("newstest2014", "de")}
    assert TRAINING_SETS["wmt14-en-de"].held_out() == news
    assert TRAINING_SETS["general-en-de"].held_out() == news
    captions = TRAINING_SETS["multi30k-en-fr"]
    assert captions.held_out() == {"valid": ("valid", "fr"), "test": ("test", "fr")}
    assert captions.held_names == {"valid": "multi30k-val", "test": "multi30k-test2016"}
