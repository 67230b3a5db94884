"""Corpora: reading, cleaning, and splits whose test sets training never meets.

Real archives are read only where TRANSFORMER_LIT_DATA names a folder in the layout of
data/README.md."""

import gzip
import hashlib
import os
import tracemalloc
import zipfile

import pytest
from litbook.results import load_record
from plugins.server import archive

from transformer_lit import data
from transformer_lit.corpora import published as corpora
from transformer_lit.corpora.files import sha256_file

real_corpora = pytest.mark.skipif(
    not os.environ.get("TRANSFORMER_LIT_DATA"),
    reason="TRANSFORMER_LIT_DATA names no folder with the real corpora",
)
EVERY = [
    (name, language) for name, languages in data.CORPUS_LANGUAGES.items() for language in languages
]


def english_of(pairs):
    return [english for english, _ in pairs]


# Reading ------------------------------------------------------------------------------------------


def test_text_is_brought_into_one_spelling():
    assert data.normalize_text("J\u2019ai\u202fe\u0301te\u0301 ") == "J'ai \u00e9t\u00e9"
    pairs = data.parse_pairs("Go.\tVa\u202f!\nGo.\tVa !\nHi.\tJ\u2019ai e\u0301.\tCC-BY")
    assert pairs == [("Go.", "Va !"), ("Hi.", "J'ai \u00e9.")]  # made alike, then a pair comes once


@pytest.mark.parametrize(
    "text, member, pairs",
    [
        ("b\tc\n\nx\na\td\n", "fra.txt", [("b", "c"), ("a", "d")]),
        ("Go.\tGeh!", "deu.txt", [("Go.", "Geh!")]),
        ("Go.\tVa\u2028!\r\n", "fra.txt", [("Go.", "Va !")]),  # only a line feed ends a line
        ("\ufeffGo.\tVa !\n", "fra.txt", [("Go.", "Va !")]),
        ("no column here", "fra.txt", None),
        ("Go.\tVa !", "x.txt", None),
    ],
)
def test_an_archive_is_read_in_its_order(text, member, pairs, tmp_path):
    path, language = tmp_path / "a.zip", member[:2]
    path.write_bytes(archive(text, member))
    if pairs:
        assert data.read_tatoeba(path, language) == pairs
    else:
        with pytest.raises(ValueError, match=f"{path}.*delete it"):
            data.read_tatoeba(path)


@pytest.mark.seconds
@pytest.mark.parametrize("language", ["fr", "de"])
def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path, language):
    "Less than a megabyte that unpacks to 600."
    path, (_, member) = tmp_path / "bomb.zip", corpora.ARCHIVES[language]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open(member, "w") as text:
        for _ in range(600):
            text.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        for read in data.read_tatoeba, corpora.tatoeba_shape:
            with pytest.raises(ValueError, match="629,145,600"):
                read(path, language)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 100e6  # it was unpacked first


def test_two_files_lie_side_by_side_or_say_so(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress("\ufeffA\u0085\r b.\nC.\n".encode()))
    assert data.read_lines(path) == ["A b.", "C."]  # cut at something else than a line feed
    for broken in gzip.compress(b"A dog.\n" * 9)[:-9], gzip.compress("\u00e9".encode("latin-1")):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="a.gz can't be read"):
            data.read_lines(path)
    with pytest.raises(ValueError, match="^2 English lines and 1"):
        data.pair_lines(["A", "B"], ["C"])


# Cleaning -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pair, options, words",
    [
        (("w " * 100, "v " * 100), {}, ""),
        (("w " * 101, "v " * 101), {}, "too long"),
        (("a b c", "c d"), {"max_words": 2}, "too long"),
        (("a", "b c d"), {"max_ratio": 1}, "lopsided"),
        (("Go.", "a b c d e f"), {}, ""),
        (("a b c d e f g", "x"), {}, "lopsided"),
        (("a b c", "a b c"), {}, ""),
        (("A b c d", "a B c d"), {}, "copied"),
        (("Go.", ""), {}, "empty"),
    ],
)
def test_a_fault_has_a_name(pair, options, words):
    assert data.rejection_reason(pair, **options) == words


def test_every_pair_is_useful_or_counted():
    pairs = [("Go.", ""), ("Go.", "a b c d e f"), ("A dog.", "Un chien.")]
    pairs += [("A dog.", "Un\u202fchien."), ("I\u2019m.", "Je suis.")]
    result, counts = data.clean_pairs(iter(pairs))
    assert result == [*pairs[1:3], ("I'm.", "Je suis.")]
    assert counts == {"given": 5, "respelled": 2, "empty": 1, "kept": 3, "repeated": 1}


# Splitting ----------------------------------------------------------------------------------------

REPEATED = [(f"Sentence {i % 70}{mark}", f"Phrase {i}{mark}") for i in range(150) for mark in ".!"]


def test_a_key_forgets_case_and_final_marks():
    key = data.sentence_key
    assert key("Straße…") == key("STRASSE !?") != key("Straßen"), (
        "two spellings of one sentence: the test set leaks into training"
    )
    assert data.overlap_rate([("a", "b")], iter([("A!", "c"), ("b", "c")])) == 0.5


def test_a_new_sentence_moves_one_group_at_most():
    tests = [
        set(english_of(data.split_by_source(pairs, 10, 15)["test"]))
        for pairs in (REPEATED, [("Another one", "x"), *REPEATED])
    ]
    assert len(tests[0] - tests[1]) <= 2  # with its two marks


@pytest.mark.parametrize("valid, test", [(50, 20), (65, 5), (5, 65)])
def test_a_split_leaves_something_to_train_on(valid, test):
    with pytest.raises(ValueError, match=f"^70 distinct .* {valid} and {test}"):
        data.split_by_source(REPEATED, valid, test)
    assert len(data.split_by_source(REPEATED, valid, test - 1)["train"]) >= 4


def test_training_gives_way_and_tests_stay_as_they_are():
    mixed = {
        "test": [("A", "7")],
        "train": [("A.", "1"), ("b", "2"), ("C", "3"), ("D", "4")],
        "valid": [("a", "5"), ("B!", "6")],
        "test_it": [("d", "8")],
    }
    separate = mixed | {"train": [("C", "3")], "valid": [("B!", "6")]}
    assert data.remove_overlap(mixed) == separate, (
        "English sentences stand in validation and test, or in training: the split leaks"
    )


def test_references_are_grouped_by_key_and_come_once():
    pairs = [("I see.", "Je vois."), ("Go.", "Va !"), ("I see!", "Ah !"), ("I see.", "Je vois.")]
    groups = ["I see.", "Go."], [["Je vois.", "Ah !"], ["Va !"]]
    assert data.group_references(iter(pairs)) == groups
    train = iter([("Thank you.", "Merci bien.")])
    answers = [["Merci.", "Merci bien."], ["Un chien."], []]
    assert data.seen_in_training(answers, train) == [True, False, False]


# Corpora ------------------------------------------------------------------------------------------


def digest(value):
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


POCKET = {"train": "670348e68254f510", "valid": "7532802700bfa7ef", "test": "0f3d999112fde349"}
TATOEBA = {"tatoeba-fr": "ff210b45a9a8a60b", "tatoeba-fr-words": "2c9dc986d8cffcb6"}  # shipped runs


@pytest.mark.seconds
def test_the_pocket_parts_are_those_of_the_recorded_runs():
    parts = data.load_corpus("pocket")
    assert {name: digest(parts[name]) for name in ("train", "valid", "test")} == POCKET
    fewer = data.load_corpus("pocket", max_words=5, max_pairs=10)
    assert fewer["train"] == data.filter_by_length(parts["train"], 5)[:10]


@real_corpora
@pytest.mark.parametrize(
    "run, words, pairs", [("tatoeba-fr", None, None), ("tatoeba-fr-words", 15, 50_000)]
)
def test_the_tatoeba_parts_are_those_of_the_recorded_runs(run, words, pairs):
    record = load_record(run)[0]["data"]
    if sha256_file(data.tatoeba_archive()) != record["sha256"]:
        pytest.skip("another release of Tatoeba than the one that the run was trained on")
    parts = data.load_corpus("tatoeba", "fr", words, pairs)
    assert len(parts["train"]) == record["train"]
    assert digest({name: parts[name] for name in ("train", "valid", "test")}) == TATOEBA[run]


def disjoint(parts):
    keys = {name: set(map(data.sentence_key, english_of(pairs))) for name, pairs in parts.items()}
    assert parts["test"] and parts["valid"]
    tests = set().union(*(keys[name] for name in keys if name.startswith("test")))
    assert not keys["train"] & (keys["valid"] | tests), "the test set leaks into training"
    leak = keys["valid"] & tests
    assert not leak, f"{len(leak)} English sentences stand in validation and test: the split leaks"


@pytest.mark.parametrize("name, language", EVERY)
def test_no_test_sentence_is_in_training_and_none_is_too_long(
    small_corpora, name, language, monkeypatch
):
    disjoint(data.load_corpus(name, language))
    split = data.split_by_source
    monkeypatch.setattr(data, "split_by_source", lambda pairs: split(pairs, 2, 2))
    parts = data.load_corpus(name, language, max_words=3)
    sides = (side for pairs in parts.values() for pair in pairs for side in pair)
    longest = max((len(side.split()) for side in sides), default=0)
    assert longest < 3, "a corpus forgets how long its sentences may be"


def test_the_official_tests_stay_as_they_are(small_corpora):
    references = [["test_2016_flickr 0"], ["test_2016_flickr 1"]]
    assert data.load_test_set("multi30k", "de") == (["A HEN!", "A cow"], references)
    assert data.load_test_set("newstest2014", "de")[0] == ["RAIN", "Sun!"]
    captions, news = (data.load_corpus(name, "de") for name in ("multi30k", "wmt14"))
    assert english_of(captions["train"]) == ["A dog."]  # training gives way to both
    assert english_of(news["valid"]) == ["peace"]  # validation gives way to the test


def test_tatoeba_has_2000_sentences_with_all_their_references(small_corpora):
    sources, references = data.load_test_set("tatoeba")
    parts = data.load_corpus("tatoeba")
    assert len(set(map(data.sentence_key, sources))) == len(references) == 2000
    assert sum(map(len, references)) == len(parts["test"])  # each reference, once
    every = data.read_tatoeba(data.tatoeba_archive())
    assert parts == data.split_by_source(every)  # what a translator was trained on


def test_a_published_test_set_has_as_many_lines_as_it_was_published_with(monkeypatch):
    pairs = [("Go.", "Va."), ("Go!", "Allez !"), ("No.", "Non.")]
    monkeypatch.setattr(data, "load_corpus", lambda name, language: {"test": pairs})
    assert data.load_test_set("multi30k") == (english_of(pairs), [["Va."], ["Allez !"], ["Non."]])
    assert data.load_test_set("tatoeba") == (["Go.", "No."], [["Va.", "Allez !"], ["Non."]])


@pytest.mark.parametrize(
    "load, name, language",
    [
        (data.load_corpus, "pocket", "de"),
        (data.load_corpus, "such", "fr"),
        (data.load_test_set, "newstest2019", "fr"),
    ],
)
def test_a_corpus_that_is_not_there_is_named(load, name, language):
    with pytest.raises(ValueError, match=name):
        load(name, language)


@pytest.mark.slow
@real_corpora
@pytest.mark.parametrize("language", ["fr", "de"])
def test_no_real_test_sentence_is_in_training(language):
    corpora = {name: data.load_corpus(name, tag) for name, tag in EVERY if tag == language}
    for parts in corpora.values():
        disjoint(parts)
    train = corpora["tatoeba"]["train"]
    for name, n in ("tatoeba", 2000), ("multi30k", 1000), ("newstest2014", 3003):
        sources, references = data.load_test_set(name, language)
        assert data.overlap_rate(train, [(s, "") for s in sources]) == 0, f"{name} meets training"
        assert len(sources) == len(references) == n
