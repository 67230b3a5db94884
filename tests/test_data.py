"""Corpora and the command line: reading, cleaning, splits that training never meets the test of,
exit codes.

Real archives are read only where TRANSFORMER_LIT_DATA names a folder in the layout of
data/README.md."""

import gzip
import hashlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers import one_sentence
from litbook.results import load_record
from web_server import BODIES, archive, server  # noqa: F401

from transformer_lit import data
from transformer_lit import cli
from transformer_lit.corpora import published as corpora
from transformer_lit.corpora.files import sha256_file, shipped

ROOT = Path(__file__).resolve().parent.parent
REAL = os.environ.get("TRANSFORMER_LIT_DATA")
real_corpora = pytest.mark.skipif(
    not REAL, reason="TRANSFORMER_LIT_DATA names no folder with the real corpora"
)


def test_a_folder_that_is_not_there_is_said(monkeypatch, capsys):
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", "/no/such/folder")
    assert cli.main(["data", "list", "tatoeba"]) == 1
    said = capsys.readouterr().err
    assert one_sentence(said) and "/no/such/folder" in said


# Reading ------------------------------------------------------------------------------------------


def zip_at(path, text, member="fra.txt"):
    path.write_bytes(archive(text, member))
    return path


def test_text_is_brought_into_one_spelling():
    assert (
        data.normalize_text("J\u2019ai\u202fe\u0301te\u0301 ") == "J'ai \u00e9t\u00e9"
        and data.normalize_text(" a  b\n") == "a b"
    )
    assert data.parse_pairs("Go.\tVa\u202f!\nGo.\tVa !\nHi.\tJ\u2019ai e\u0301.\tCC-BY") == [
        ("Go.", "Va !"),
        ("Hi.", "J'ai \u00e9."),
    ], "apostrophes, spaces and composed letters are made alike, and then a pair comes once"


def test_an_archive_is_read_in_its_order(tmp_path):
    path = tmp_path / "a.zip"
    assert data.read_tatoeba(zip_at(path, "b\tc\n\nx\na\td\n")) == [("b", "c"), ("a", "d")]
    assert data.read_tatoeba(zip_at(path, "Go.\tGeh!", "deu.txt"), "de") == [("Go.", "Geh!")]
    assert data.read_tatoeba(zip_at(path, "Go.\tVa\u2028!\r\n")) == [
        ("Go.", "Va !")
    ], "only a line feed ends a line"


@pytest.mark.parametrize(
    "text, member, words",
    [("no column here", "fra.txt", "two columns"), ("Go.\tVa !", "x.txt", "be read")],
)
def test_an_archive_without_pairs_says_what_to_do(text, member, words, tmp_path):
    path = zip_at(tmp_path / "fra-eng.zip", text, member)
    with pytest.raises(ValueError, match=words) as caught:
        data.read_tatoeba(path)
    assert str(path) in str(caught.value) and "delete it, and it will be fetched again" in str(
        caught.value
    )


def test_two_files_lie_side_by_side_or_say_so(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress("\ufeffA\u0085\r b.\nC.\n".encode()))
    assert data.read_lines(path) == [
        "A b.",
        "C.",
    ], "one line too many: cut at something else than a line feed"
    path.write_bytes(gzip.compress(b""))
    assert data.read_lines(path) == []
    for broken in gzip.compress(b"A dog.\n" * 9)[:-9], gzip.compress("\u00e9".encode("latin-1")):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="can't be read.*: delete it"):
            data.read_lines(path)
    assert data.pair_lines(["A"], ["B"]) == [("A", "B")]
    with pytest.raises(ValueError, match="^2 English lines and 1 others"):
        data.pair_lines(["A", "B"], ["C"])


def test_the_ten_pairs_keep_their_authors():
    lines = shipped("data/tatoeba_sample.tsv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 10 and len(data.parse_pairs("\n".join(lines))) == 10
    for line in lines:
        columns = line.split("\t")
        assert len(columns) == 3 and columns[2].startswith(
            "CC-BY 2.0 (France) Attribution: tatoeba.org #"
        ), "the licence asks for names"


# Cleaning -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pair, options, words",
    [
        (("w " * 100, "v " * 100), {}, ""),
        (("w " * 101, "w " * 101), {}, "too long"),
        (("a b", "c d"), {"max_words": 2}, ""),
        (("a b c", "c d"), {"max_words": 2}, "too long"),
        (("a", "b c d"), {"max_ratio": 1}, "lopsided"),
        (("Go.", "a b c d e f"), {}, ""),
        (("a b c d e f g", "x"), {}, "lopsided"),
        (("a b c", "a b c"), {}, ""),
        (("A b c d", "a B c d"), {}, "copied"),
        (("", ""), {}, "empty"),
        (("Go.", ""), {}, "empty"),
        (("Taxi", "taxi"), {}, ""),
    ],
)
def test_a_fault_has_a_name(pair, options, words):
    assert data.rejection_reason(pair, **options) == words


def test_every_pair_is_kept_or_counted():
    given = [
        ("Go.", ""),
        ("Go.", "a b c d e f"),
        ("A dog.", "Un chien."),
        ("A dog.", "Un\u202fchien."),
        ("I\u2019m.", "Je suis."),
    ]
    kept, counts = data.clean_pairs(iter(given))
    assert kept == [("Go.", "a b c d e f"), ("A dog.", "Un chien."), ("I'm.", "Je suis.")]
    assert counts == {"given": 5, "respelled": 2, "empty": 1, "kept": 3, "repeated": 1}
    assert data.clean_pairs(given, 5, 1.0)[1] == {
        "given": 5,
        "respelled": 2,
        "empty": 1,
        "too long": 1,
        "kept": 2,
        "repeated": 1,
    }
    assert data.clean_pairs([]) == ([], {"given": 0, "respelled": 0})
    assert [data.clean_pairs([("w " * n, "x " * n)])[1].get("too long") for n in (100, 101)] == [
        None,
        1,
    ], "a hundred words are not too long"


def test_a_published_test_set_keeps_its_lines(monkeypatch):
    """Tatoeba's references are gathered by sentence; a published test has as many lines as it was
    published with, repeats among them."""
    monkeypatch.setattr(
        data,
        "load_corpus",
        lambda name, language: {"test": [("Go.", "Va."), ("Go!", "Allez !"), ("No.", "Non.")]},
    )
    for name in "multi30k", "newstest2014":
        assert data.load_test_set(name) == (["Go.", "Go!", "No."], [["Va."], ["Allez !"], ["Non."]])
    assert data.load_test_set("tatoeba") == (["Go.", "No."], [["Va.", "Allez !"], ["Non."]])


def test_short_means_fewer_words_on_both_sides():
    pairs = [("a b", "c"), ("a", "b c d"), ("a b", "c d")]
    assert data.filter_by_length(pairs, 3) == [("a b", "c"), ("a b", "c d")]
    assert data.filter_by_length([("w " * 15, "x"), ("w " * 14, "x")]) == [("w " * 14, "x")]


# Splitting ----------------------------------------------------------------------------------------

REPEATED = [(f"Sentence {i % 70}{mark}", f"Phrase {i}{mark}") for i in range(150) for mark in ".!"]


def test_a_key_forgets_case_and_final_marks():
    assert (
        data.sentence_key("Straße…")
        == data.sentence_key("STRASSE !?")
        != data.sentence_key("Straßen")
    ), "two spellings of one sentence: the test set leaks into training"
    assert data.overlap_rate([("a", "b")], iter([("A!", "c"), ("b", "c")])) == 0.5
    assert data.overlap_rate(iter([]), [("a", "b")]) == 0 == data.overlap_rate([("a", "b")], [])


def test_a_split_uses_every_pair_and_is_the_same_each_time():
    parts = data.split_by_source(REPEATED, 10, 15)
    assert sorted(pair for part in parts.values() for pair in part) == sorted(REPEATED)
    assert parts == data.split_by_source(iter(REPEATED), 10, 15)
    assert parts["test"] != data.split_by_source(REPEATED, 10, 15, 2)["test"]
    assert data.split_by_source.__defaults__ == (2000, 2000, 1)
    more = data.split_by_source([("Another one", "x")] + REPEATED, 10, 15)
    left = {e for e, _ in parts["test"]} - {e for e, _ in more["test"]}
    assert len(left) <= 2, "a new sentence moves one group at most, with its two marks"


@pytest.mark.parametrize("valid, test", [(50, 20), (65, 5), (5, 65)])
def test_a_split_leaves_something_to_train_on(valid, test):
    with pytest.raises(
        ValueError, match=f"70 distinct English sentences can't give {valid} and {test}"
    ):
        data.split_by_source(REPEATED, valid, test)
    assert len(data.split_by_source(REPEATED, 50, 19)["train"]) >= 4


def test_training_gives_way_and_tests_stay_whole():
    mixed = {
        "test": [("A", "7")],
        "train": [("A.", "1"), ("b", "2"), ("C", "3"), ("D", "4")],
        "valid": [("a", "5"), ("B!", "6")],
        "test_it": [("d", "8")],
    }
    parts = data.remove_overlap(mixed)
    assert parts == {
        "train": [("C", "3")],
        "valid": [("B!", "6")],
        "test": [("A", "7")],
        "test_it": [("d", "8")],
    }, "English sentences stand in validation and test, or in training: the split leaks"
    assert list(parts) == ["train", "valid", "test", "test_it"]
    assert data.exclude_sources(mixed["train"], []) == mixed["train"]


def digest(anything):
    return hashlib.sha256(repr(anything).encode()).hexdigest()[:16]


POCKET = {"train": "670348e68254f510", "valid": "7532802700bfa7ef", "test": "0f3d999112fde349"}
POCKET_TEST = "814d3e6fd217cd6e"
TATOEBA = {
    "tatoeba-fr": "ff210b45a9a8a60b",
    "tatoeba-fr-words": "2c9dc986d8cffcb6",
}  # runs that the book ships


@pytest.mark.seconds
def test_the_pocket_parts_are_those_of_the_recorded_runs():
    parts = data.load_corpus("pocket")
    assert {name: digest(parts[name]) for name in ("train", "valid", "test")} == POCKET
    assert (
        digest(data.group_references(parts["test"]))
        == POCKET_TEST
        == digest(data.load_test_set("pocket"))
    )
    short = data.load_corpus("pocket", max_words=5)
    assert short["train"] == data.filter_by_length(parts["train"], 5) != parts["train"]
    fewer = data.load_corpus("pocket", max_pairs=10)
    assert fewer["train"] == parts["train"][:10] and fewer["test"] == parts["test"]


@real_corpora
def test_what_chapters_17_and_18_say_of_tatoeba():
    parts = data.load_corpus("tatoeba")
    held = {french for _, french in parts["train"]}
    known = [
        len(one.split())
        for refs in data.group_references(parts["test"])[1]
        for one in refs
        if one in held
    ]
    assert sum(words > 3 for words in known) > 0.8 * len(known) > 100, "most are whole sentences"
    english = [source.lower() for source, _ in parts["train"]]
    assert not any(
        word in source for word in ("heron", "anvil", "like a house on fire") for source in english
    )


@real_corpora
@pytest.mark.parametrize(
    "run, words, pairs", [("tatoeba-fr", None, None), ("tatoeba-fr-words", 15, 50_000)]
)
def test_the_tatoeba_parts_are_those_of_the_recorded_runs(run, words, pairs):
    record = load_record(run)[0]["data"]
    if sha256_file(data.tatoeba_archive()) != record["sha256"]:
        pytest.skip("another release of Tatoeba than the one that the run was trained on")
    parts = data.load_corpus("tatoeba", "fr", words, pairs)
    assert (
        len(parts["train"]) == record["train"] and sum(map(len, parts.values())) == record["pairs"]
    )
    assert digest({name: parts[name] for name in ("train", "valid", "test")}) == TATOEBA[run]


# Test sets never meet training --------------------------------------------------------------------


def put(folder, name, lines):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(line + "\n" for line in lines).encode()))


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    "All corpora in small, each with sentences that stand in two parts, in other spellings."
    for language, (file, member) in corpora.ARCHIVES.items():
        pairs = [f"Sentence {i % 4500}{'.!'[i % 2]}\tPhrase {i // 2}.\tCC-BY" for i in range(9001)]
        path = tmp_path / "tatoeba" / file
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(archive("\n".join(pairs) + "\n", f"folder/{member}"))
        for part, english in (
            ("train", ["A dog.", "A cat.", "A cow."]),
            ("val", ["a cat", "A hen."]),
            ("test_2016_flickr", ["A HEN!", "A cow"]),
        ):
            put(tmp_path, f"multi30k/{part}.en.gz", english)
            put(
                tmp_path,
                f"multi30k/{part}.{language}.gz",
                [f"{part} {i}" for i in range(len(english))],
            )
        for name, english in (
            ("newstest2010", ["War.", "Peace.", "Rain."]),
            ("newstest2013", ["peace", "Sun."]),
            ("newstest2014", ["RAIN", "Sun!"]),
        ):
            put(tmp_path, f"newstest/en-{language}/{name}.en.gz", english)
            put(
                tmp_path,
                f"newstest/en-{language}/{name}.{language}.gz",
                [f"{name} {i}" for i in range(len(english))],
            )
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", str(tmp_path))
    return tmp_path


EVERY = [
    (name, language) for name, languages in data.CORPUS_LANGUAGES.items() for language in languages
]


def disjoint(parts):
    keys = {
        name: {data.sentence_key(english) for english, _ in pairs} for name, pairs in parts.items()
    }
    assert {"train", "valid", "test"} <= set(parts) and parts["test"] and parts["valid"]
    for name in keys.keys() - {"train"}:
        leak = keys["train"] & keys[name]
        assert (
            not leak
        ), f"{len(leak)} English sentences of {name} stand in training: the split leaks"
        assert data.overlap_rate(parts["train"], parts[name]) == 0
    leak = keys["valid"] & set().union(*(keys[name] for name in keys if name.startswith("test")))
    assert not leak, f"{len(leak)} English sentences stand in validation and test: the split leaks"


@pytest.mark.parametrize("name, language", EVERY)
def test_no_test_sentence_is_in_training(made_up, name, language):
    disjoint(data.load_corpus(name, language))


def test_the_official_tests_stay_whole(made_up):
    for language in "fr", "de":
        assert data.load_test_set("multi30k", language) == (
            ["A HEN!", "A cow"],
            [["test_2016_flickr 0"], ["test_2016_flickr 1"]],
        )
        assert data.load_test_set("newstest2014", language)[0] == ["RAIN", "Sun!"]
        assert [e for e, _ in data.load_corpus("multi30k", language)["train"]] == [
            "A dog."
        ], "training gives way to both others"
        assert [e for e, _ in data.load_corpus("wmt14", language)["valid"]] == [
            "peace"
        ], "validation gives way to the test"


def test_tatoeba_has_2000_sentences_with_all_their_references(made_up):
    sources, references = data.load_test_set("tatoeba")
    pairs = data.load_corpus("tatoeba")["test"]
    assert len({data.sentence_key(s) for s in sources}) == len(sources) == len(references) == 2000
    wanted = {}
    for english, other in pairs:
        wanted.setdefault(data.sentence_key(english), set()).add(other)
    assert [set(r) for r in references] == [
        wanted[data.sentence_key(s)] for s in sources
    ], "all references, none of another's"
    assert all(len(r) == len(set(r)) for r in references) and max(map(len, references)) > 1


def test_what_a_translator_was_trained_on_is_what_load_gives(made_up):
    every = data.read_tatoeba(data.tatoeba_archive())
    assert data.load_corpus("tatoeba") == {
        k: data.split_by_source(every)[k] for k in ("train", "valid", "test")
    }


def test_a_corpus_that_is_not_there_is_named(made_up):
    with pytest.raises(
        ValueError,
        match="^there is no pocket in de; there are: pocket \\(fr\\), tatoeba \\(fr or de\\)",
    ):
        data.load_corpus("pocket", "de")
    with pytest.raises(ValueError, match="there is no such in fr"):
        data.load_corpus("such")
    with pytest.raises(
        ValueError, match="there is no test set newstest2019; there are: tatoeba, .*newstest2014"
    ):
        data.load_test_set("newstest2019")


def test_the_news_are_read_from_files_or_from_their_archive(made_up, tmp_path):
    from test_corpora import news_archive

    assert data.read_newstest("newstest2013", "de") == [
        ("peace", "newstest2013 0"),
        ("Sun.", "newstest2013 1"),
    ]
    for side in "en", "fr":
        (tmp_path / f"newstest/en-fr/newstest2014.{side}.gz").unlink()
    news_archive(tmp_path / "newstest/test-full.tgz")
    assert data.read_newstest("newstest2014") == [
        ("Law & order", "Law & order"),
        ("en", "fr"),
    ], "both sides, tidied"
    assert [e for e, _ in data.load_corpus("wmt14")["train"]] == [
        "War.",
        "Rain.",
    ], "the older news, without what is held out"


@pytest.mark.parametrize("name, language", EVERY)
def test_no_corpus_forgets_how_long_its_sentences_may_be(made_up, name, language, monkeypatch):
    monkeypatch.setattr(data.split_by_source, "__defaults__", (2, 2, 1))
    parts = data.load_corpus(name, language, max_words=3)
    assert all(len(side.split()) < 3 for pairs in parts.values() for pair in pairs for side in pair)


def test_short_pairs_are_chosen_before_the_split(made_up, monkeypatch):
    few = [(f"{i}" + " x" * (i % 3), "y") for i in range(4500)]
    monkeypatch.setattr(data, "read_tatoeba", lambda path, language: few)
    monkeypatch.setattr(
        data,
        "split_by_source",
        lambda pairs: {"test": pairs[:2], "valid": pairs[2:4], "train": pairs[4:]},
    )
    parts = data.load_corpus("tatoeba", max_words=3, max_pairs=7)
    assert parts["test"] == [("0", "y"), ("1 x", "y")] and len(parts["train"]) == 7
    assert max(len(e.split()) for e, _ in parts["valid"] + parts["train"]) == 2


def test_references_are_grouped_by_key_and_come_once():
    pairs = [("I see.", "Je vois."), ("Go.", "Va !"), ("I see!", "Ah !"), ("I see.", "Je vois.")]
    assert data.group_references(iter(pairs)) == (
        ["I see.", "Go."],
        [["Je vois.", "Ah !"], ["Va !"]],
    )


def test_an_answer_that_training_knows_is_counted():
    assert data.seen_in_training(
        [["Merci.", "Merci bien."], ["Un chien."], []], iter([("Thank you.", "Merci bien.")])
    ) == [True, False, False]


def test_the_two_recorded_losses_part_as_the_page_says():
    (_, sentence), (run, pair) = (load_record(f"laptop-by-{name}") for name in ("sentence", "pair"))
    groups = run["groups"]
    assert (
        max(
            abs(a["train_smoothed"] - b["train_smoothed"])
            for a, b in zip(sentence, pair, strict=True)
        )
        < 0.025
    )
    gap = [a["valid_smoothed"] - b["valid_smoothed"] for a, b in zip(sentence, pair, strict=True)]
    assert max(map(abs, gap[:5])) < 0.05 < 0.09 < min(gap[9:])
    assert abs(groups[-1]["unseen"] - sentence[-1]["valid_smoothed"]) < 0.02
    assert (
        groups[-1]["seen"] < groups[0]["seen"] and groups[-1]["unseen"] > groups[0]["unseen"] + 0.03
    )
    leaks = load_record("tatoeba-fr")[0]["data"]
    assert (
        leaks["leak_by_sentence"] == 0 and 0.49 < leaks["leak_by_pair"] < 0.51
    ), "half of the test, says the page"


@pytest.mark.slow
@real_corpora
@pytest.mark.parametrize("language", ["fr", "de"])
def test_no_real_test_sentence_is_in_training(language):
    everything = {
        name: data.load_corpus(name, language)
        for name, languages in data.CORPUS_LANGUAGES.items()
        if language in languages
    }
    for parts in everything.values():
        disjoint(parts)
    shown = everything["tatoeba"]["train"]
    for name in "tatoeba", "multi30k", "newstest2014":
        sources, references = data.load_test_set(name, language)
        assert (
            data.overlap_rate(shown, [(s, "") for s in sources]) == 0
        ), f"{name} meets Tatoeba's training sentences"
        assert (
            len(sources)
            == len(references)
            == {"tatoeba": 2000, "multi30k": 1000, "newstest2014": 3003}[name]
        )
    known = data.seen_in_training(data.load_test_set("tatoeba", language)[1], shown)
    assert (
        0 < sum(known) < 400
    ), "answers that training knows under another sentence are few, and counted"


# The command line ---------------------------------------------------------------------------------


def test_data_list_and_verify(made_up, capsys):
    assert cli.main(["data", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(EVERY) and lines[0].split(None, 2) == [
        "pocket",
        "fr",
        "comes with the book",
    ]
    assert str(made_up) in lines[1], "list names the folder in which a corpus lies"
    assert (
        cli.main(["data", "verify", "multi30k", "--language", "fr"]) == 1
    ), "made-up files are not the published ones"
    out = capsys.readouterr().out
    assert out.count("DAMAGED") == 6
    assert cli.main(["data", "verify", "tatoeba"]) == 0
    assert capsys.readouterr().out.count("whole, 9,001 pairs") == 2


def pretend(folder=None):
    if folder and not Path(folder).exists():
        raise FileNotFoundError(
            f"no trained translator in {folder}: train one with transformer-lit train --folder"
            f" {folder}"
        )

    class Loud:
        model = torch.nn.Identity()  # what goes to the device

        def translate(self, lines, beam_size=4, batch_size=64, precision=None):
            return [line.upper() for line in lines]

    return Loud()


@pytest.mark.parametrize(
    "spoilt, words",
    [
        ("é".encode("latin-1"), "standard input isn't UTF-8"),
        ("Good morning.".encode("utf-16"), "standard input isn't UTF-8"),
    ],
    ids=["latin-1", "utf-16"],
)
def test_standard_input_is_utf_8_whatever_the_locale(spoilt, words, capsys, monkeypatch):
    monkeypatch.setattr(
        "transformer_lit.translation.Translator.load", staticmethod(pretend)
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(spoilt), encoding="latin-1"))
    assert cli.main(["translate"]) == 1
    said = capsys.readouterr()
    assert one_sentence(said.err) and words in said.err and not said.out


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        "transformer_lit.translation.Translator.load", staticmethod(pretend)
    )
    text = "I'm hungry.\r\nHi.\r\n".encode("utf-8-sig")
    (tmp_path / "text.txt").write_bytes(text)
    assert cli.main(["translate", "--file", str(tmp_path / "text.txt")]) == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text), encoding="utf-8"))
    assert cli.main(["translate"]) == 0
    assert capsys.readouterr().out == "I'M HUNGRY.\nHI.\n" * 2
    path = tmp_path / "fra-eng.zip"
    path.write_bytes(archive("\ufeffGo.\tVa !\n"))
    assert data.read_tatoeba(path) == [("Go.", "Va !")]


@pytest.mark.seconds
@pytest.mark.parametrize("language", ["fr", "de"])
def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path, language):
    "Less than a megabyte that unpacks to 600."
    import tracemalloc
    import zipfile

    path, (_, member) = tmp_path / "bomb.zip", corpora.ARCHIVES[language]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open(member, "w") as text:
        for _ in range(600):
            text.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="would unpack to 629,145,600 bytes"):
            data.read_tatoeba(path, language)
        with pytest.raises(ValueError, match="would unpack to"):
            corpora.tatoeba_shape(path, language)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 100e6, "it was unpacked first"


def test_a_reader_that_goes_away_is_no_error():
    code = (
        "import sys\nfrom transformer_lit import cli\nsys.path.insert(0, 'tests')\nfrom"
        " test_data import pretend\nfrom transformer_lit.translation import"
        " Translator\nTranslator.load ="
        " staticmethod(pretend)\nsys.exit(cli.main(['translate', *map(str, range(20000))]))"
    )
    done = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert done.stdout.readline() == "0\n"
    done.stdout.close()
    assert done.stderr.read() == "" and done.wait() == 0


def test_a_first_sentence_waits_for_nothing_that_it_does_not_need():
    "A clock would measure the machine; what is imported is the same on all of them."
    assert shipped(
        "data/checkpoints/tatoeba-fr/model.safetensors"
    ).exists(), "the translator that comes with the book is gone"
    code = (
        "import sys\nfrom transformer_lit.cli import main\nstatus = main(['translate', 'Good"
        " morning.'])\nimport torch\nfor name in sys.argv[1:]: assert name not in sys.modules,"
        " f'{name} is imported to translate a sentence'\nassert torch.get_num_threads() =="
        " 1\nsys.exit(status)"
    )
    heavy = [
        "sacrebleu",
        "matplotlib",
        "seaborn",
        "pandas",
        "IPython",
        "ipywidgets",
        "requests",
    ]
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip(), done.stderr[-300:]
