"""Training sets by name: which files stand behind each, and what is held out."""

import gzip

import pytest

from transformer_lit.corpora.files import sha256_file
from transformer_lit.recipes import training_sets
from transformer_lit.recipes.training_sets import TRAINING_SETS, find_training_set


def names_of(files):
    return [path.name for path in files]


def test_wmts_archives_are_asked_for_where_they_lie(served):
    sources = TRAINING_SETS[f"wmt14-en-{served}"].sources()
    texts = "europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v9.de-en"
    assert tuple(source.name for source in sources) == texts
    assert [sum(1 for _ in source.read()) for source in sources] == [1000, 1005, 500]


def test_sources_of_each_kind(small_corpora, monkeypatch):
    tatoeba = training_sets.tatoeba_source("de")
    captions = training_sets.multi30k_source("fr")
    news = training_sets.news_source("de")
    assert names_of(tatoeba.files) == ["deu-eng.zip"]
    assert tatoeba.read()[1] == ("Sentence 1!", "Phrase 0.")
    assert names_of(captions.files) == ["train.en.gz", "train.fr.gz"]
    assert list(captions.read())[1] == ("A cat.", "train 1")
    assert names_of(news.files) == ["newstest2010.en.gz", "newstest2010.de.gz"]
    assert [english for english, _ in news.read()] == ["War.", "Peace.", "Rain."]
    general = TRAINING_SETS["general-en-fr"]
    with pytest.raises(FileNotFoundError, match="general/en-fr"):
        general.sources()
    folder = small_corpora / "general" / "en-fr"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("C\tD\n")
    assert [s.name for s in general.sources()] == ["a.txt", "tatoeba", "older news tests"]


def test_what_is_held_out(small_corpora):
    news = [["peace", "Sun."], ["RAIN", "Sun!"]]
    captions = [["a cat", "A hen."], ["A HEN!", "A cow"]]
    for name, expected in ("wmt14", news), ("general", news), ("multi30k", captions):
        held_out = TRAINING_SETS[f"{name}-en-de"].held_out()
        assert list(held_out) == ["valid", "test"]
        assert [[english for english, _ in part] for part in held_out.values()] == expected


def test_a_name_leads_to_a_training_set_or_to_a_folder(tmp_path):
    assert find_training_set("wmt14-en-de").language == "de"
    mine = tmp_path / "multi30k-mine-fr"
    mine.mkdir()
    (mine / "b.tsv").write_text("A\tB\n")
    result = find_training_set(f"{mine}/")  # as a shell completes the name of a folder
    assert result.language == "fr" and [s.name for s in result.sources()] == ["b.tsv"]
    assert result.held_names == {"valid": "newstest2013", "test": "newstest2014"}
    file = {"file": "b.tsv", "bytes": 4, "sha256": sha256_file(mine / "b.tsv")}
    assert result.inputs() == [{"source": "b.tsv"} | file]
    for wrong in "wmt15-en-de", "nowhere-fr":
        with pytest.raises(OSError, match=wrong):
            find_training_set(wrong)


def test_a_folder_of_any_pair_holds_out_files_of_its_own(tmp_path):
    mine = tmp_path / "mine-nl"
    mine.mkdir()

    def refused(folder=mine):
        with pytest.raises(ValueError, match="valid.tsv and one test.tsv.*-fr, -de"):
            find_training_set(str(folder))

    for name in "a.tsv", "valid.tsv", "b.txt":
        (mine / name).write_text(f"{name}\tB\n")
    refused()
    (mine / "test.tsv.gz").write_bytes(gzip.compress(b"T\tB\n"))
    result = find_training_set(str(mine))
    names = [source.name for source in result.sources()]
    assert names == ["a.tsv", "b.txt"], "what is held out is not trained on"
    assert result.held_out() == {"valid": [("valid.tsv", "B")], "test": [("T", "B")]}
    assert [file["file"] for file in result.inputs()][2:] == ["valid.tsv", "test.tsv.gz"]
    (mine / "test.txt").write_text("T\tB\n")
    refused()
    (mine / "test.txt").unlink()
    (mine / "valid.tsv").unlink()
    refused()
    refused(mine.rename(tmp_path / "mine-fr"))
