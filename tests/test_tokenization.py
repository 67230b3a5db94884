"""Byte pairs: any text comes back, by hand and from the library, and both agree on every id."""

import json
import unicodedata
from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

from transformer_lit.masks import BOS, EOS, PAD, UNK
from transformer_lit.corpora.files import shipped
from transformer_lit.tokenization import (
    SPLIT_PATTERN,
    SPECIAL_TOKENS,
    BPETokenizer,
    SubwordTokenizer,
    WordTokenizer,
    apply_merges,
    count_pairs,
    character_class,
    learn_merges,
    load_tokenizers,
    merge_pair,
    to_bytes,
    pre_tokenize,
    save_tokenizers,
    split_words,
)

TEXT = [
    "The animal didn't cross the street because it was too tired.",
    "It was too wide, and the animals were too tired!",
    "L'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
    "Où ça ? Là-bas, près de l'école : l'élève dort.",
]
BY_HAND, LIBRARY = BPETokenizer.train(TEXT * 2, 340), SubwordTokenizer.train(TEXT * 2, 340)
CUTTER = pre_tokenizers.Split(Regex(SPLIT_PATTERN), "isolated")
TRICKY = "e\u0301 '_\u203f²³¼½¾৴⁴ⅣⒶ\U0001f170☕\x1c\x1f\x85\u00a0\u180e\u200b\u2028\r\n"


@cache
def found_by_library(pattern: str) -> set[str]:
    "All characters that the library's engine finds."
    every = "".join(chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000)
    cut = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    return {c for piece, _ in cut.pre_tokenize_str(every) for c in piece}


def known(letter: str) -> bool:
    """Assigned in this Python's Unicode and in the library's. Where one of them is older, they
    can't agree."""
    return unicodedata.category(letter) != "Cn" and letter not in found_by_library(r"\p{Cn}")


KNOWN = st.text(
    st.sampled_from(TRICKY) | st.characters(exclude_categories=["Cs", "Cn"]).filter(known)
)
SMALL = st.lists(st.text("ab é'", max_size=10), min_size=1, max_size=6)


@given(st.text())
@example("")
@example("  a\u00a0b\r\n\x00\x1c ")
@example("<eos> <pad> e\u0301 ☕ 它")
def test_any_text_comes_back(text):
    assert (
        "".join(pre_tokenize(text)) == text
    ), "the pieces of a text, joined, are the text: does the pattern drop a character?"
    for tokenizer in (BY_HAND, LIBRARY):
        ids = tokenizer.encode(text)
        assert (
            ids[-1] == EOS and min(ids[:-1], default=UNK + 1) > UNK
        ), "nothing is unknown, and EOS stands at the end only"
        assert max(ids) < len(tokenizer)
        assert (
            tokenizer.decode([BOS, *ids, PAD, 70]) == text
        ), f"{type(tokenizer).__name__} does not give the text back"


@given(st.lists(st.integers(4, 339)))
def test_any_ids_can_be_read(ids):
    "A model may say bytes that are no text; both say so in the same way."
    assert BY_HAND.decode(ids) == LIBRARY.decode(ids)


@pytest.mark.seconds
@given(KNOWN)
@example(TRICKY)
@example("e\u0301te\u0301")
def test_library_cuts_as_by_hand(text):
    assert pre_tokenize(text) == [piece for piece, _ in CUTTER.pre_tokenize_str(text)]
    assert BY_HAND.encode(text) == LIBRARY.encode(text)


@pytest.mark.seconds
def test_one_rule_for_all_of_unicode():
    """Every code point that both know is of one kind for both; every third is cut alike inside a
    word, after one, alone and doubled."""
    letters = [c for c in map(chr, range(0x110000)) if not "\ud800" <= c < "\ue000" and known(c)]
    assert (
        len(letters) > 280_000
    ), "nearly nothing was compared: which Unicode does the library have?"
    in_words, spaces = found_by_library(r"\w"), found_by_library(r"\s")
    apart = [
        c
        for c in letters
        if (character_class(c) == "w") != (c in in_words)
        or (character_class(c) in " \t") != (c in spaces)
    ]
    assert not apart, (
        f"{len(apart)} characters are of another kind to the library, U+{ord(apart[0]):04X} the"
        " first"
    )
    letters = letters[::3]
    for start in range(0, len(letters), 5000):
        text = "".join(f"a{c}b' {c}{c}'x\t" for c in letters[start : start + 5000])
        assert pre_tokenize(text) == [
            piece for piece, _ in CUTTER.pre_tokenize_str(text)
        ], f"from U+{ord(letters[start]):04X} on"


@pytest.mark.parametrize(
    "path",
    sorted(shipped("data/checkpoints").rglob("tokenizer.json")),
    ids=lambda path: path.parent.name,
)
def test_the_shipped_translators_cut_by_this_rule(path):
    first, *_ = json.loads(path.read_text(encoding="utf-8"))["pre_tokenizer"]["pretokenizers"]
    assert first["pattern"] == {"Regex": SPLIT_PATTERN} and first["behavior"] == "Isolated"


@given(SMALL, st.integers(255, 290))
def test_library_learns_as_by_hand(sentences, size):
    "Few letters, so nearly all counts are tied: the rule for ties is put to the test."
    ours, theirs = BPETokenizer.train(sentences, size), SubwordTokenizer.train(sentences, size)
    assert len(ours) == len(theirs), "both stop at the size, or when nothing is left to glue"
    for text in sentences + ["abba", " é"]:
        assert ours.encode(text) == theirs.encode(
            text
        ), f"are ties decided differently, or merges applied in another order? {text!r}"


@given(SMALL, st.integers(0, 30))
def test_cut_as_in_training(sentences, n):
    words = {to_bytes(piece): 1 for text in sentences for piece in pre_tokenize(text)}
    merges = learn_merges(words, 256 + n)
    for word in words:
        trained = word
        for pair in merges:
            trained = merge_pair(trained, pair)
        ranks = {pair: rank for rank, pair in enumerate(merges)}
        assert (
            apply_merges(word, ranks) == trained
        ), "a word of the training text must be cut as at the end of training"
    assert len(merges) <= n and not any(
        b" " in (a + b)[1:] for a, b in merges
    ), "no merge crosses into the next word"


def test_no_token_twice():
    pairs = BPETokenizer([(b"a", b"b"), (b"b", b"c"), (b"ab", b"c"), (b"a", b"bc")])
    assert pairs.tokens[260:] == [
        b"ab",
        b"bc",
        b"abc",
    ], "two merges may make the same token; it has one id"


@pytest.mark.parametrize("target", [WordTokenizer(["été"], "fr"), BY_HAND, LIBRARY])
def test_two_tokenizers_of_a_folder(tmp_path, target):
    source = WordTokenizer(["a", "b"])
    save_tokenizers(tmp_path, source, target)
    loaded = load_tokenizers(tmp_path)
    assert [type(t) for t in loaded] == [type(source), type(target)]
    for again, tokenizer in zip(loaded, (source, target)):
        assert again.encode("l'été, a <eos>") == tokenizer.encode("l'été, a <eos>")
    save_tokenizers(tmp_path, target, target)
    source, target = load_tokenizers(tmp_path)
    assert source is target, "one tokenizer for both sides, and none is left from before"


@pytest.mark.parametrize("size", [0, 100, 260])
def test_smallest(size):
    "Fewer tokens than special ones and bytes can't be had; then there are no merges."
    for tokenizer in (BPETokenizer.train(TEXT, size), SubwordTokenizer.train(TEXT, size)):
        assert len(tokenizer) == 260 and tokenizer.decode(tokenizer.encode("é ")) == "é "


def test_languages_but_french_are_cut_like_english():
    assert split_words("L'ami d'Anna, l’été", "fr") == ["L'", "ami", "d'", "Anna", ",", "l'", "été"]
    assert split_words("L'amica d'Anna", "it") == ["L'amica", "d'Anna"]


def test_by_hand():
    assert pre_tokenize(" a  b\n!") == [" a", " ", " b", "\n", "!"]
    assert merge_pair(to_bytes("aaaa"), (b"a", b"a")) == (b"aa", b"aa")
    assert count_pairs({(b"a", b"a", b"a"): 2, (b"b",): 9}) == {(b"a", b"a"): 4}


def test_a_list_of_words():
    small = WordTokenizer.train(["the animal", "the street", "the animal !"])
    assert small.tokens == SPECIAL_TOKENS + ["the", "animal"], "the commonest first, none seen once"
    assert small.encode("the street") == [4, UNK, EOS]
    assert small.decode([BOS, 4, 5, EOS, 4, PAD]) == "the animal"
