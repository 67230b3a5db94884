"""Byte pairs: any text comes back, by hand and from the library, and both agree on every id."""

import json
import os
import subprocess
import sys
import unicodedata
from collections import Counter
from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

from translators import of_words
from transformer_lit.masks import BOS, EOS, PAD, UNK
from transformer_lit.corpora.files import shipped
from transformer_lit.tokenization import (
    BYTE_ALPHABET,
    SPLIT_PATTERN,
    SPECIAL_TOKENS,
    BPETokenizer,
    SubwordTokenizer,
    WordTokenizer,
    apply_merges,
    most_frequent_pair,
    count_pairs,
    character_class,
    join_words,
    learn_merges,
    load_tokenizers,
    merge_pair,
    to_bytes,
    pre_tokenize,
    cut_at_eos,
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


@given(KNOWN)
@example(TRICKY)
@example("e\u0301te\u0301")
def test_library_cuts_as_by_hand(text):
    assert pre_tokenize(text) == [piece for piece, _ in CUTTER.pre_tokenize_str(text)]
    assert BY_HAND.encode(text) == LIBRARY.encode(text)


def test_one_rule_for_all_of_unicode():
    """Every code point that both know is of one kind for both, and is cut alike inside a word,
    after one, alone and doubled."""
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


def test_shipped_translators_are_found():
    assert list(
        shipped("data/checkpoints").rglob("tokenizer.json")
    ), "no shipped tokenizer: the test above compared nothing"


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


def test_ids_in_order():
    assert (
        BY_HAND.tokens[:4] == [b""] * len(SPECIAL_TOKENS) and BY_HAND.tokens[4:260] == BYTE_ALPHABET
    )
    assert LIBRARY.encode("A")[0] == 4 + BYTE_ALPHABET.index(b"A") == BY_HAND.encode("A")[0]
    assert len(set(BY_HAND.tokens[4:])) == 336 == len(BY_HAND) - 4, "no token twice"


def test_no_token_twice():
    pairs = BPETokenizer([(b"a", b"b"), (b"b", b"c"), (b"ab", b"c"), (b"a", b"bc")])
    assert pairs.tokens[260:] == [
        b"ab",
        b"bc",
        b"abc",
    ], "two merges may make the same token; it has one id"


def test_counts_and_ties():
    assert count_pairs({(b"a", b"a", b"a"): 2, (b"b",): 9}) == {(b"a", b"a"): 4}
    age = {b"a": 0, b"b": 1, b"c": 2}
    assert most_frequent_pair({(b"b", b"a"): 3, (b"a", b"c"): 3, (b"a", b"b"): 3}, age) == (
        b"a",
        b"b",
    )
    assert most_frequent_pair({(b"a", b"a"): 3, (b"c", b"c"): 4}, age) == (
        b"c",
        b"c",
    ), "a higher count goes before age"


def test_until_end():
    assert (
        cut_at_eos([5, EOS, 6, EOS]) == [5]
        and cut_at_eos(iter([5])) == [5]
        and cut_at_eos([]) == []
    )


def test_special_words_are_ordinary_text():
    "Whoever types <eos> must not end the sentence."
    for word in SPECIAL_TOKENS:
        assert (
            min(LIBRARY.encode(f"a {word} b")[:-1]) > UNK
        ), f"{word} in a text was taken for the special token"


def test_one_file(tmp_path):
    path = tmp_path / "tokenizer.json"
    LIBRARY.save(path)
    again = SubwordTokenizer.load(path)
    assert len(again) == len(LIBRARY) and [again.encode(t) for t in TEXT] == [
        LIBRARY.encode(t) for t in TEXT
    ]
    assert again.encode("<eos>") == LIBRARY.encode(
        "<eos>"
    ), "the loaded tokenizer reads special tokens in a text"
    kept = json.loads(path.read_text())
    assert [token["content"] for token in kept["added_tokens"]] == SPECIAL_TOKENS
    assert len(kept["model"]["merges"]) == len(LIBRARY) - 260


def test_no_threads_unless_asked_for():
    """Some versions of the library warn when a process that has used its threads is forked: it is
    told not to use them."""
    plain = {name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"}
    for asked, told in (({}, "false"), ({"TOKENIZERS_PARALLELISM": "true"}, "true")):
        code = (
            "import os, transformer_lit.tokenization; print(os.environ['TOKENIZERS_PARALLELISM'])"
        )
        said = subprocess.run(
            [sys.executable, "-c", code],
            env=plain | asked,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert said.strip() == told


@pytest.mark.parametrize("size", [0, 100, 260])
def test_smallest(size):
    "Fewer tokens than special ones and bytes can't be had; then there are no merges."
    for tokenizer in (BPETokenizer.train(TEXT, size), SubwordTokenizer.train(TEXT, size)):
        assert len(tokenizer) == 260 and tokenizer.decode(tokenizer.encode("é ")) == "é "


def test_languages_but_french_are_cut_like_english():
    assert split_words("L'ami d'Anna", "fr") == ["L'", "ami", "d'", "Anna"]
    assert (
        split_words("L'amica d'Anna", "it")
        == split_words("L'amica d'Anna", "en")
        == ["L'amica", "d'Anna"]
    )
    translator = of_words(
        [("Hello there.", "Hola amigo.")] * 2,
        "es",
        d_model=8,
        n_heads=2,
        n_encoder_layers=1,
        n_decoder_layers=1,
        d_ff=8,
    )
    assert (
        translator.languages == ("en", "es") and "Hola" in translator.target_tokenizer.token_to_id
    )


def test_a_list_of_words():
    small = WordTokenizer.train(["the animal", "the street", "the animal !"])
    assert small.tokens == SPECIAL_TOKENS + ["the", "animal"] and len(small) == 6
    assert small.encode("the street") == [4, UNK, EOS]
    assert (
        small.decode([BOS, 4, 5, EOS, 4, PAD]) == "the animal"
        and small.decode([4, UNK]) == "the <unk>"
    )
    once = WordTokenizer.train(["b a", "a c"], min_frequency=1)
    assert once.tokens[4:] == ["a", "b", "c"] and once.language == "en"
    assert WordTokenizer.train(["l'ami l'ami"], "fr").tokens[4:] == ["ami", "l'"]


def test_ties_go_to_the_older_symbol():
    age = {symbol: i for i, symbol in enumerate(BYTE_ALPHABET)}
    assert (
        sorted(BYTE_ALPHABET) == [bytes([i]) for i in range(256)]
        and BYTE_ALPHABET[:2] == [b"!", b'"']
        and age[b" "] == 188 + 32
    )
    tied = Counter({(b"b", b"a"): 2, (b"a", b"c"): 2, (b"a", b"b"): 2})
    assert (
        most_frequent_pair(tied, age) == (b"a", b"b")
        and most_frequent_pair(tied + Counter([(b"z", b"z")] * 3), age)[0] == b"z"
    )


def test_by_hand_as_the_page_cuts():
    assert join_words(["(", "so", "…", ")"], "en") == "(so…)"
    assert pre_tokenize(" a  b\n!") == [" a", " ", " b", "\n", "!"]
    assert to_bytes(" rue") == (b" ", b"r", b"u", b"e")
    assert merge_pair(to_bytes("aaaa"), (b"a", b"a")) == (b"aa", b"aa")
    toy = {to_bytes("the"): 3, to_bytes("hen"): 1}
    assert learn_merges(toy, 999)[2:] == [(b"he", b"n")] and learn_merges(toy, 256) == []
    ranks = {(b"h", b"e"): 0, (b"t", b"he"): 1, (b"t", b"h"): 2}
    assert apply_merges(to_bytes("oth"), ranks) == (b"o", b"th")
    by_hand = BPETokenizer.train(["the the", "the hen"], 264)
    assert by_hand.decode([BOS, 261, PAD, 263, EOS, 260]) == "the the"
    assert by_hand.decode(by_hand.encode("é")[:1]) == "\ufffd", "one byte of the two of é"
    library = SubwordTokenizer.train(["l'été", "the the"], 270)
    assert library.decode([BOS, *library.encode("l'été"), 9]) == "l'été"


@pytest.mark.parametrize("target", [WordTokenizer(["été"], "fr"), BY_HAND, LIBRARY])
def test_two_tokenizers_of_a_folder(tmp_path, target):
    source = WordTokenizer(["a", "b"])
    save_tokenizers(tmp_path, source, target)
    loaded = load_tokenizers(tmp_path)
    assert [type(t) for t in loaded] == [type(source), type(target)]
    for again, tokenizer in zip(loaded, (source, target)):
        assert again.tokens == tokenizer.tokens
        assert again.encode("l'été, a b") == tokenizer.encode("l'été, a b")
    assert isinstance(target, SubwordTokenizer) or vars(loaded[1]) == vars(target)
    save_tokenizers(tmp_path, target, target)
    source, target = load_tokenizers(tmp_path)
    assert source is target, "one tokenizer for both sides, and none is left from before"


def test_words_of_a_folder_of_the_second_edition():
    source, target = load_tokenizers(shipped("data/checkpoints/pocket"))
    assert (source.language, target.language) == ("en", "fr")
    assert "because" in source.tokens and "fatiguée" in target.token_to_id
