"""The pocket corpus: its French by independent rules, its parts, its frozen file, and the grammar
that writes it (chapter 16)."""

import re
from collections import Counter, defaultdict

import pytest

from transformer_lit import pocket_corpus
from transformer_lit.corpora.files import sha256_file, shipped
from transformer_lit.grammar.file import known_words_filter, write_pairs
from transformer_lit.grammar.french import adjectives
from transformer_lit.tokenization import join_words, split_words

VOWEL = re.compile(r"(?i)[aeiouyhâàéèêëîïôœæ]")


@pytest.fixture(scope="module")
def parts():
    return pocket_corpus.load_pocket()


@pytest.fixture(scope="module")
def pairs(parts):
    return [pair for part in parts.values() for pair in part]


def table(kind):
    "Rows of the lexicon, read here a second time."
    text = shipped("data/pocket_lexicon.tsv").read_text("utf-8")
    return [line.split("\t")[1:] for line in text.splitlines() if line.startswith(kind + "\t")]


ASPIRATED = {
    word.lstrip("*").lower()
    for row in table("noun")
    for word in (row[2], row[3], row[2] + "s")
    if word.startswith("*")
}


def guessed_plural(french):
    if french[-1] in "sxz":
        return french
    if french.endswith(("eau", "eu")):
        return french + "x"
    return french[:-2] + "aux" if french.endswith("al") else french + "s"


def french_nouns():
    "Surface -> {(gender, plural)}; the plural as the file gives it, or with s or x or -aux."
    forms = defaultdict(set)
    for _, _, french, plural, gender, _ in table("noun"):
        french, plural = french.lstrip("*"), plural.lstrip("*")
        if " " not in french:
            forms[french].add((gender, False))
            forms[plural or guessed_plural(french)].add((gender, True))
    return forms


# The file -----------------------------------------------------------------------------------------


def test_the_file_is_the_one_that_the_readme_names():
    path = shipped("data/pocket.tsv.gz")
    assert sha256_file(path) == pocket_corpus.POCKET_SHA256
    readme = shipped("data/pocket.tsv.gz").parent / "README.md"
    assert pocket_corpus.POCKET_SHA256 in readme.read_text("utf-8"), "the README has another hash"


def test_sizes_and_distinct_sentences(parts, pairs):
    sizes = {name: len(part) for name, part in parts.items()}
    assert sizes == {"train": 46000, "valid": 1000, "test": 2000, "test_it": 1000}
    english = {pair.english for pair in pairs}
    assert len(english) == len(pairs), "one English sentence could have two translations"


def test_words_and_links_are_those_of_split_words(pairs):
    for pair in pairs:
        left, right = split_words(pair.english, "en"), split_words(pair.french, "fr")
        assert join_words(left, "en") == pair.english and join_words(right, "fr") == pair.french
        assert {i for i, _ in pair.alignment} == set(range(len(left))), pair
        assert {j for _, j in pair.alignment} == set(range(len(right))), pair


ELIDED = set("le la de ne je me te se que ce puisque".split())
CONTRACTED = {("de", "le"), ("de", "les"), ("à", "le"), ("à", "les"), ("si", "il")}


def test_elision_contraction_and_spacing(pairs):
    for pair in pairs:
        text, words = pair.french, split_words(pair.french, "fr")
        assert "  " not in text and text == text.strip() and "*" not in text + pair.english
        assert not re.search(r"[^ ][?!]|[ ][.,]|' ", text), pair
        assert text[0].isupper() and text[-1] in ".?!" and pair.english[0].isupper()
        for word, after in zip(map(str.lower, words), words[1:]):
            vowel = VOWEL.match(after) and after.lower() not in ASPIRATED
            assert not (word in ELIDED and vowel), f"no elision before {after!r}: {text}"
            if word.endswith("'") and word != "s'":
                assert vowel, f"elision before {after!r}: {text}"
            assert (word, after) not in CONTRACTED, text


DETERMINERS = {
    **dict.fromkeys("le un ce cet du au".split(), ("m", False)),
    **dict.fromkeys("la une cette ma ta sa".split(), ("f", False)),
    **dict.fromkeys("mon ton son notre votre leur chaque".split(), (None, False)),
    **dict.fromkeys(
        """les ces mes tes ses nos vos leurs des aux deux trois quatre cinq plusieurs
        quelques""".split(),
        (None, True),
    ),
}
BEFORE_A_VOWEL = {"vieil", "bel", "nouvel"}


def test_determiners_adjectives_and_nouns_agree(pairs):
    nouns, checked = french_nouns(), 0
    forms = {
        adjective.inflect(gender, plural): adjective
        for adjective in adjectives()
        for gender in "mf"
        for plural in (False, True)
    }
    before = {form for form, adjective in forms.items() if adjective.place in "bn"} | BEFORE_A_VOWEL
    for pair in pairs:
        words = split_words(pair.french.lower(), "fr")
        for i, word in enumerate(words):
            j = i - 1 - (words[i - 1] in before)
            if word not in nouns or word in before or j < 0 or words[j] not in DETERMINERS:
                continue
            gender, plural = DETERMINERS[words[j]]
            genders = {g for g, p in nouns[word] if p == plural and gender in (None, g)}
            assert genders, f"{words[j]} {word}: {pair.french}"
            if j < i - 1 and words[i - 1] not in BEFORE_A_VOWEL:
                agreeing = {forms[words[i - 1]].inflect(g, plural) for g in genders}
                assert words[i - 1] in agreeing, pair.french
            checked += 1
    assert checked > 40_000


def test_the_pronoun_of_the_it_family_is_the_antecedents(pairs):
    "Recomputed from the frames' adjectives alone."
    genders = {row[0]: row[4] for row in table("noun")}
    fitting = {row[0]: (set(row[7].split()), set(row[8].split())) for row in table("frame")}
    by_name = {a.english: a for a in adjectives()}
    its = [pair for pair in pairs if ":" in pair.pattern]
    for pair in its:
        nouns = pair.triple.split("|")[::2]
        subjects, objects = fitting[pair.pattern.split(":")[1]]
        adjective = split_words(pair.english)[-2]
        assert (adjective in subjects) != (adjective in objects), "decides nothing"
        gender = genders[nouns[adjective in objects]]
        words = split_words(pair.french, "fr")
        assert {"m": "il", "f": "elle"}[gender] in words and nouns[0] != nouns[1], pair
        assert words[-2] == by_name[adjective].inflect(gender, False), pair
    assert len(its) > 10_000


# Its parts ----------------------------------------------------------------------------------------


def test_the_test_holds_what_training_does_not(parts):
    pinned = {"idiom", "weather-time"}
    trained = {pair.triple for pair in parts["train"] if pair.pattern not in pinned}
    for name in ("valid", "test", "test_it"):
        assert not [pair for pair in parts[name] if pair.triple in trained], name
    couples = {couple for pair in parts["test_it"] for couple in pocket_corpus.noun_pairs(pair)}
    for pair in parts["train"]:
        assert not pocket_corpus.noun_pairs(pair) & couples, f"meets in training: {pair.english}"


def test_every_word_of_the_test_is_known(parts):
    known = known_words_filter(parts["train"])
    for name in ("valid", "test", "test_it"):
        assert not [pair for pair in parts[name] if not known(pair)], name


def test_position_and_majority_are_coins_in_test_it(parts):
    genders = Counter(map(pocket_corpus.noun_and_pronoun_genders, parts["test_it"]))
    cells = [("m", "f", "m"), ("m", "f", "f"), ("f", "m", "m"), ("f", "m", "f")]
    assert genders == dict.fromkeys(cells, 250)
    its = [pair for pair in parts["train"] if ":" in pair.pattern]
    train = Counter(pocket_corpus.noun_and_pronoun_genders(pair)[2] for pair in its)
    assert abs(train["m"] / train.total() - 0.5) < 0.02


# The grammar --------------------------------------------------------------------------------------


def test_one_french_for_one_english_beyond_the_file(pairs):
    known = {pair.english: pair.french for pair in pairs}
    for seed in (11, 12):
        for pair in pocket_corpus.generate_pairs(4000, seed):
            assert known.setdefault(pair.english, pair.french) == pair.french


@pytest.mark.slow
def test_the_file_is_what_the_grammar_writes(parts, monkeypatch):
    "The first eighth of it: the whole takes twenty seconds."
    generate, few = pocket_corpus.generate_pairs, pocket_corpus.held_out_it_pairs(2, 100)
    assert few == parts["test_it"][:100]
    monkeypatch.setattr(pocket_corpus, "generate_pairs", lambda n, seed: generate(n // 8, seed))
    monkeypatch.setattr(pocket_corpus, "held_out_it_pairs", lambda *_: parts["test_it"])
    again = pocket_corpus.build_corpus()
    train = again["train"]
    assert train and train == parts["train"][: len(train)]
    for name in ("valid", "test"):
        assert again[name] and set(again[name]) <= set(parts[name])


def test_a_frozen_file_comes_back_and_another_is_refused(tmp_path):
    pairs = pocket_corpus.generate_pairs(60, seed=5)
    parts = {"train": [tuple(pair) for pair in pairs]}
    right, again = (write_pairs(tmp_path / name, parts) for name in "ab")
    assert right == again and (tmp_path / "a").read_bytes()[9] == 3, "the same on every system"
    assert pocket_corpus.load_pocket(tmp_path / "a", right)["train"] == pairs
    with pytest.raises(ValueError, match="not the pocket corpus"):
        pocket_corpus.load_pocket(tmp_path / "a")
