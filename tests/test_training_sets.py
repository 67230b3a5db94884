"""Training sets by name: which files stand behind each, and what is held out."""

import gzip

import pytest

from transformer_lit.corpora.files import sha256_file
from transformer_lit.recipes import training_sets
from transformer_lit.recipes.training_sets import TRAINING_SETS, find_training_set


def names_of(files):
    return [path.name for path in files]


def test_sources_of_each_kind(small_corpora):
    tatoeba = training_sets.tatoeba_source("de")
    assert names_of(tatoeba.files) == ["deu-eng.zip"]
    assert tatoeba.read()[1] == ("Sentence 1!", "Phrase 0.")
    assert [e for e, _ in training_sets.news_source("de").read()] == ["War.", "Peace.", "Rain."]
    general = TRAINING_SETS["general-en-fr"]
    with pytest.raises(FileNotFoundError, match="general/en-fr"):
        general.sources()
    folder = small_corpora / "general" / "en-fr"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("C\tD\n")
    assert [s.name for s in general.sources()] == ["a.txt", "tatoeba", "older news tests"]


def test_what_is_held_out(small_corpora):
    news = {"valid": ["peace", "Sun."], "test": ["RAIN", "Sun!"]}
    for name in "wmt14", "general":
        held_out = TRAINING_SETS[f"{name}-en-de"].held_out()
        assert {part: [e for e, _ in pairs] for part, pairs in held_out.items()} == news


def test_a_name_leads_to_a_training_set_or_to_a_folder(tmp_path):
    assert find_training_set("wmt14-en-de") is TRAINING_SETS["wmt14-en-de"]
    mine = tmp_path / "multi30k-mine-fr"
    mine.mkdir()
    (mine / "b.tsv").write_text("A\tB\n")
    result = find_training_set(f"{mine}/")  # as a shell completes the name of a folder
    assert [source.name for source in result.sources()] == ["b.tsv"]
    assert result.held_names == {"valid": "newstest2013", "test": "newstest2014"}
    file = {"file": "b.tsv", "bytes": 4, "sha256": sha256_file(mine / "b.tsv")}
    assert result.inputs() == [{"source": "b.tsv"} | file]
    for wrong in "wmt15-en-de", "nowhere-fr":
        with pytest.raises(OSError, match=wrong):
            find_training_set(wrong)


def test_a_folder_of_any_pair_holds_out_files_of_its_own(tmp_path):
    mine, name = tmp_path / "mine-nl", str(tmp_path / "mine-nl")
    mine.mkdir()
    for file in "a.tsv", "valid.tsv", "b.txt":
        (mine / file).write_text(f"a {file}\tB\n")
    with pytest.raises(ValueError, match="valid.tsv and one test.tsv"):
        find_training_set(name)
    (mine / "test.tsv.gz").write_bytes(gzip.compress(b"T\xc2\xa0s\tB\n"))
    result = find_training_set(name)
    names = [source.name for source in result.sources()]
    assert names == ["a.tsv", "b.txt"], "what is held out is not trained on"
    assert result.held_out() == {"valid": [("a valid.tsv", "B")], "test": [("T s", "B")]}
    assert [file["file"] for file in result.inputs()][2:] == ["valid.tsv", "test.tsv.gz"]
    (mine / "test.txt").write_text("T\tB\n")
    with pytest.raises(ValueError, match="valid.tsv and one test.tsv"):
        find_training_set(name)
