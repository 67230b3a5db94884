"""The pocket corpus: its French by independent rules, its parts, its frozen file, and the grammar
that writes it (chapter 16)."""

import gzip
import re
from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import pytest

from transformer_lit import pocket_corpus
from transformer_lit.grammar.slots import NoCandidate
from transformer_lit.corpora.files import sha256_file, shipped
from transformer_lit.grammar.french import Phrase, adjectives, noun_phrase, nouns_of, verbs
from transformer_lit.tokenization import join_words, split_words

ROOT = Path(__file__).resolve().parent.parent
VOWEL = re.compile(r"(?i)[aeiouyhâàéèêëîïôœæ]")


@pytest.fixture(scope="module")
def parts():
    return pocket_corpus.load_pocket()


@pytest.fixture(scope="module")
def pairs(parts):
    return [pair for some in parts.values() for pair in some]


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


def french_nouns():
    "Surface -> {(gender, plural)}; the plural as the file gives it, or with s or x or -aux."
    found = defaultdict(set)
    for _, _, fr, plural, gender, _ in table("noun"):
        fr, plural = fr.lstrip("*"), plural.lstrip("*")
        if " " in fr:
            continue
        guess = plural or (
            fr
            if fr[-1] in "sxz"
            else (
                fr + "x"
                if fr.endswith(("eau", "eu"))
                else fr[:-2] + "aux" if fr.endswith("al") else fr + "s"
            )
        )
        found[fr].add((gender, False))
        found[guess].add((gender, True))
    return found


def test_the_file_is_the_one_that_the_readme_names():
    path = shipped("data/pocket.tsv.gz")
    assert sha256_file(path) == pocket_corpus.POCKET_SHA256
    assert pocket_corpus.POCKET_SHA256 in (ROOT / "data" / "README.md").read_text(
        "utf-8"
    ), "data/README.md records another SHA-256"
    assert path.stat().st_size < 2_200_000


def test_another_file_is_refused(tmp_path):
    (tmp_path / "p.gz").write_bytes(gzip.compress(b"train\ta\tb\t0-0\tx\ta|b|c\n"))
    with pytest.raises(ValueError, match="not the pocket corpus"):
        pocket_corpus.load_pocket(tmp_path / "p.gz")
    assert pocket_corpus.load_pocket(tmp_path / "p.gz", None)["train"][0].alignment == ((0, 0),)


def test_sizes_and_distinct_sentences(parts, pairs):
    assert {name: len(some) for name, some in parts.items()} == {
        "train": 46000,
        "valid": 1000,
        "test": 2000,
        "test_it": 1000,
    }
    assert len({pair.english for pair in pairs}) == len(
        pairs
    ), "one English sentence comes twice: it could have two translations"
    assert len({pair.pattern.split(":")[0] for pair in pairs}) >= 100


def test_words_and_links_are_those_of_split_words(pairs):
    for pair in pairs:
        left, right = split_words(pair.english, "en"), split_words(pair.french, "fr")
        assert join_words(left, "en") == pair.english and join_words(right, "fr") == pair.french
        assert {i for i, _ in pair.alignment} == set(range(len(left))), pair
        assert {j for _, j in pair.alignment} == set(range(len(right))), pair


def test_elision_contraction_and_spacing(pairs):
    for pair in pairs:
        text, words = pair.french, split_words(pair.french, "fr")
        assert "  " not in text and text == text.strip() and "*" not in text + pair.english
        assert not re.search(r"[^ ][?!]|[ ][.,]|' ", text), pair
        assert text[0].isupper() and text[-1] in ".?!" and pair.english[0].isupper()
        for word, after in zip(words, words[1:]):
            mute = VOWEL.match(after) and after.lower() not in ASPIRATED
            if word.lower() in {
                "le",
                "la",
                "de",
                "ne",
                "je",
                "me",
                "te",
                "se",
                "que",
                "ce",
                "puisque",
            }:
                assert not mute, f"no elision before {after!r}: {text}"
            if word.endswith("'") and word.lower() != "s'":
                assert mute, f"elision before {after!r}: {text}"
            assert (word.lower(), after) not in {
                ("de", "le"),
                ("de", "les"),
                ("à", "le"),
                ("à", "les"),
                ("si", "il"),
            }, text


DETERMINERS = {
    **dict.fromkeys(["le", "un", "ce", "cet", "du", "au"], ("m", False)),
    **dict.fromkeys(["la", "une", "cette", "ma", "ta", "sa"], ("f", False)),
    **dict.fromkeys(["mon", "ton", "son", "notre", "votre", "leur", "chaque"], (None, False)),
    **dict.fromkeys(
        """les ces mes tes ses nos vos leurs des aux deux trois quatre cinq plusieurs
        quelques""".split(),
        (None, True),
    ),
}


def test_determiners_adjectives_and_nouns_agree(pairs):
    nouns, checked = french_nouns(), 0
    forms = {
        form: (adjective, gender, plural)
        for adjective in adjectives()
        for gender in "mf"
        for plural in (False, True)
        for form in [adjective.inflect(gender, plural)]
    }
    before = {form for form, (adjective, *_) in forms.items() if adjective.place in "bn"} | {
        "vieil",
        "bel",
        "nouvel",
    }
    for pair in pairs:
        words = split_words(pair.french.lower(), "fr")
        for i, word in enumerate(words):
            if word not in nouns or not i:
                continue
            j = i - 1 - (words[i - 1] in before)
            if j < 0 or words[j] not in DETERMINERS or word in before:
                continue
            gender, plural = DETERMINERS[words[j]]
            fits = {
                (g, p)
                for g, p in nouns[word]
                if p == plural
                and (gender in (None, g) or (gender == "m" and words[j] in ("mon", "ton", "son")))
            }
            assert fits, f"{words[j]} {word}: {pair.french}"
            if j < i - 1:
                adjective = forms.get(words[i - 1])
                allowed = {a for a in ("vieil", "bel", "nouvel")}
                assert words[i - 1] in allowed or any(
                    adjective[0].inflect(g, p) == words[i - 1] for g, p in fits
                ), pair.french
            checked += 1
    assert checked > 40_000


def test_the_pronoun_of_the_it_family_is_the_antecedents(pairs):
    "Recomputed from the frames' adjectives alone."
    genders = {row[0]: row[4] for row in table("noun")}
    subject_adjectives = {row[0]: set(row[7].split()) for row in table("frame")}
    object_adjectives = {row[0]: set(row[8].split()) for row in table("frame")}
    by_name = {a.english: a for a in adjectives()}
    its = [pair for pair in pairs if ":" in pair.pattern]
    for pair in its:
        first, _, second = pair.triple.split("|")
        frame, adjective = pair.pattern.split(":")[1], split_words(pair.english)[-2]
        assert (adjective in subject_adjectives[frame]) != (adjective in object_adjectives[frame])
        gender = genders[first] if adjective in subject_adjectives[frame] else genders[second]
        words = split_words(pair.french, "fr")
        assert {"m": "il", "f": "elle"}[gender] in words, pair
        assert words[-2] == by_name[adjective].inflect(gender, False), pair
    assert len(its) > 10_000


def test_the_test_holds_what_training_does_not(parts):
    pinned = {"idiom", "weather-time"}
    seen = {pair.triple for pair in parts["train"] if pair.pattern not in pinned}
    for name in ("valid", "test", "test_it"):
        assert not [pair for pair in parts[name] if pair.triple in seen], name
    kept = {couple for pair in parts["test_it"] for couple in pocket_corpus.noun_pairs(pair)}
    for pair in parts["train"]:
        assert (
            not pocket_corpus.noun_pairs(pair) & kept
        ), f"a couple of the test meets in training: {pair.english}"


def test_every_word_of_the_test_is_known(parts):
    for side, language in (("english", "en"), ("french", "fr")):
        counts = Counter(
            word for pair in parts["train"] for word in split_words(getattr(pair, side), language)
        )
        for name in ("valid", "test", "test_it"):
            rare = {
                word
                for pair in parts[name]
                for word in split_words(getattr(pair, side), language)
                if counts[word] < 3
            }
            assert not rare, (name, rare)


def test_position_and_majority_are_coins_in_test_it(parts):
    cells = Counter(pocket_corpus.noun_and_pronoun_genders(pair) for pair in parts["test_it"])
    assert cells == {
        ("m", "f", "m"): 250,
        ("m", "f", "f"): 250,
        ("f", "m", "m"): 250,
        ("f", "m", "f"): 250,
    }
    train = Counter(
        pocket_corpus.noun_and_pronoun_genders(pair)[2]
        for pair in parts["train"]
        if ":" in pair.pattern
    )
    assert abs(train["m"] / train.total() - 0.5) < 0.02


def test_one_french_for_one_english_beyond_the_file(pairs):
    known = {pair.english: pair.french for pair in pairs}
    for seed in (11, 12):
        for pair in pocket_corpus.generate_pairs(4000, seed):
            assert known.setdefault(pair.english, pair.french) == pair.french


def test_same_seed_same_pairs():
    assert (
        pocket_corpus.generate_pairs(500, 3)
        == pocket_corpus.generate_pairs(800, 3)[:500]
        != pocket_corpus.generate_pairs(500, 4)
    )


def test_the_file_begins_as_the_grammar_says(parts):
    "Cheap: the first 600 pairs of the grammar, as far as they are training pairs."
    pairs = [
        pair
        for pair in pocket_corpus.generate_pairs(600)
        if pocket_corpus.assign_split(pair.triple) == "train"
        and pair.pattern not in pocket_corpus.TRAIN_ONLY_PATTERNS
    ]
    known = set(parts["train"])
    gone = [pair for pair in pairs if pair not in known]
    assert len(gone) < len(pairs) / 5, "the grammar has changed, and the file has not"
    assert all(pair.english not in {p.english for p in known} for pair in gone)


@pytest.mark.slow
def test_the_file_is_what_the_grammar_writes(tmp_path):
    pocket_corpus.save_pocket(tmp_path / "again.gz")
    ours, again = (
        gzip.decompress(path.read_bytes())
        for path in (shipped("data/pocket.tsv.gz"), tmp_path / "again.gz")
    )
    assert ours == again, "the grammar has changed, and the file has not"


TREE, STREET = (noun_phrase(nouns_of(name)[0], "the") for name in ("tree", "street"))
FALL = next(verb for verb in verbs() if verb.base == "fall")


def plain(words):
    return " ".join(word for word, _ in words)


def row(text):
    "Words of a phrase; articles tagged .d, a pronoun le! not."
    return [(word.rstrip("!"), ("" if "!" in word else ".d",)) for word in text.split()]


@pytest.mark.parametrize(
    "before, after",
    [
        ("si il que elle ce est la la", "s' il qu' elle c' est la la"),
        ("le *hibou", "le *hibou"),
        ("si elle Le animal", "si elle L' animal"),
        ("de le", "de le"),
        ("si ils", "s' ils"),
    ],
)
def test_elision(before, after):
    assert plain(pocket_corpus.elide(row(before))) == after


def test_contraction():
    assert pocket_corpus.contract(row("De le chat"))[0] == (
        "Du",
        (".d", ".d"),
    ), "the one word says what both said"
    assert plain(pocket_corpus.contract(row("à les à le de les"))) == "aux au des"
    assert plain(pocket_corpus.contract(row("de le! voir"))) == "de le voir", "a pronoun stays"
    assert plain(pocket_corpus.contract(pocket_corpus.elide(row("de le animal")))) == "de l' animal"


def test_a_pattern_is_taken_apart():
    assert pocket_corpus.parse_template("S V.past won't/n,V =be.past@R/x .") == (
        ("S", "", "", ("S",)),
        ("V", "past", "", ("V",)),
        ("won't", "", "", ("n", "V")),
        ("=be", "past", "R", ("x",)),
        (".", "", "", (".",)),
    )


def test_a_pattern_is_filled():
    slots = {"S": TREE, "V": FALL}
    left = pocket_corpus.fill_template("S didn't/n V.base .", slots, "en")
    right = pocket_corpus.fill_template("S ne/n V.aux pas/n V.part .", slots, "fr")
    assert (
        left[0] == ("the", ("S.d",))
        and right[1] == ("arbre", ("S.n",))
        and left[2] == ("didn't", ("n",))
    )
    assert plain(right) == "le arbre ne est pas tombé ." and plain(left) == "the tree didn't fall ."
    assert (
        plain(pocket_corpus.fill_template("S =be.past-not/x old", slots, "en"))
        == "the tree wasn't old"
    )
    assert (
        plain(
            pocket_corpus.fill_template(
                "=être.imp@O/x",
                {"S": noun_phrase(nouns_of("tree")[0], "the", True), "O": STREET},
                "fr",
            )
        )
        == "était"
    )
    assert pocket_corpus.fill_template("O", {"O": Phrase((("for", "^V"),), ())}, "en") == [
        ("for", ("V",))
    ]


def test_a_pair_is_realised_with_its_links():
    pair = pocket_corpus.realize_pair(
        "fell",
        {"S": TREE, "V": FALL},
        "S didn't/n V.base . R fell .",
        "S ne/n V.aux pas/n V.part . R fell .",
        "a|b|c",
    )
    assert (pair.english, pair.french) == (
        "The tree didn't fall. R fell.",
        "L'arbre n'est pas tombé. R fell.",
    )
    assert pair.alignment[:6] == ((0, 0), (1, 1), (2, 2), (2, 4), (3, 3), (3, 5)) and pair[3:] == (
        "fell",
        "a|b|c",
    )
    assert (
        pocket_corpus.join_sentence([(word, ()) for word in "le *hibou . il dort .".split()], "fr")
        == "Le hibou. Il dort."
    )


def test_a_pronoun_is_as_its_antecedent():
    scene = {
        "S": TREE,
        "O": STREET,
        "X": noun_phrase(nouns_of("street")[0], "the", True),
        "P": TREE._replace(classes="person"),
        "Q": STREET._replace(classes="person"),
    }
    said = {
        name: [plain(side) for side in pocket_corpus.subject_pronoun(None, scene, name)[:2]]
        for name in scene
    }
    assert said == {
        "S": ["it", "il"],
        "O": ["it", "elle"],
        "X": ["they", "elles"],
        "P": ["he", "il"],
        "Q": ["she", "elle"],
    }
    assert (
        pocket_corpus.subject_pronoun(None, scene, "O").gender == "f"
    ), "an adjective agrees with it"


def test_the_frames():
    frames = pocket_corpus.load_frames()
    assert (
        len(frames) == 12
        and frames[0].verb.base == "cross"
        and frames[0].object_adjectives[0].english == "wide"
    )
    couples = [(nouns_of(f.subject_classes), nouns_of(f.object_classes)) for f in frames]
    assert sum(len(subjects) * len(objects) for subjects, objects in couples) > 5000
    for f in frames:
        assert not set(f.subject_adjectives) & set(
            f.object_adjectives
        ), "an adjective that fits both nouns decides nothing"
        for side in f.subject_classes, f.object_classes:
            for gender in "mf":
                assert pocket_corpus.nouns_of_gender(side, gender) and {
                    noun.gender for noun in pocket_corpus.nouns_of_gender(side, gender)
                } == {gender}


def test_the_it_family_visits_all_eight_cells_in_turn():
    family = pocket_corpus.iterate_it_pairs(Random(2))
    pairs = [next(family) for _ in range(16)]
    assert ["il" in split_words(pair.french, "fr") for pair in pairs] == 2 * [
        True,
        True,
        False,
        False,
        True,
        False,
        True,
        False,
    ]
    assert [pocket_corpus.noun_and_pronoun_genders(pair)[:2] for pair in pairs] == 2 * [
        (first, second) for first, second, _ in pocket_corpus.CONDITIONS
    ]
    assert {word for pair in pairs for word in ("because", "since") if word in pair.english} == {
        "because",
        "since",
    }


def test_the_same_seed_with_another_antecedent_changes_one_word():
    "The first screen of chapter 16."
    w = "The animal didn't cross the street because it was too "
    pairs = {who: pocket_corpus.sample_it_pair(Random(135836), ("m", "f", who)) for who in "SO"}
    assert (pairs["S"].english, pairs["O"].english) == (w + "tired.", w + "wide.")
    assert pairs["S"].french == "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."
    assert pairs["O"].french == "L'animal n'a pas traversé la rue parce qu'elle était trop large."
    assert pocket_corpus.noun_pairs(pairs["S"]) == {("animal", "street")}
    assert pocket_corpus.noun_and_pronoun_genders(pairs["S"]) == (
        "m",
        "f",
        "m",
    ) and pocket_corpus.noun_and_pronoun_genders(pairs["O"]) == (
        "m",
        "f",
        "f",
    )


def test_two_nouns_of_a_frame_differ():
    for seed in range(3000):
        try:
            first, _, second = pocket_corpus.sample_it_pair(
                Random(seed), ("m", "m", "S")
            ).triple.split("|")
        except NoCandidate:
            continue
        assert first != second


def test_a_fifth_of_the_pairs_are_it_sentences():
    pairs = pocket_corpus.generate_pairs(4000, seed=5)
    assert 0.19 < sum(":" in pair.pattern for pair in pairs) / 4000 < 0.25
    assert (
        len({pair.pattern.split(":")[0] for pair in pairs}) > 120
        and len({pair.english for pair in pairs}) == 4000
    )
    counts = Counter(pocket_corpus.assign_split(pair.triple) for pair in pairs)
    assert 0.04 < counts["test"] / 4000 < 0.09 and 0.015 < counts["valid"] / 4000 < 0.05


def test_two_things_decide_the_part():
    assert pocket_corpus.assign_split("dog|eat|cat") == pocket_corpus.assign_split("cat|bite|dog")
    assert (
        len({pocket_corpus.assign_split(f"dog|{v}|-") for v in range(200)}) == 3
    ), "without an object the verb counts"
    assert (
        pocket_corpus.lemma_by_form()["mice"] == pocket_corpus.lemma_by_form()["mouse"] == "mouse"
    )


def test_couples_kept_for_the_test():
    kept = pocket_corpus.held_out_it_pairs(3, 40)
    assert len({pair.english for pair in kept}) == 40 and {
        pocket_corpus.assign_split(pair.triple) for pair in kept
    } == {"test"}
    cells = [("m", "f", "m"), ("f", "m", "f"), ("m", "f", "f"), ("f", "m", "m")]
    assert Counter(pocket_corpus.noun_and_pronoun_genders(pair) for pair in kept) == dict.fromkeys(
        cells, 10
    )
    assert [
        pocket_corpus.noun_and_pronoun_genders(pair) for pair in kept[:4]
    ] == cells, "in turn, so that any beginning is balanced"


def test_a_frozen_file_comes_back(tmp_path):
    some = pocket_corpus.generate_pairs(60, seed=5)
    small = {"train": some[:50], "test": some[50:]}
    twice = {pocket_corpus.save_pocket(tmp_path / f"{i}.gz", small) for i in "ab"}
    assert (
        len(twice) == 1 and (tmp_path / "a.gz").read_bytes()[9] == 3
    ), "the same bytes each time, on every system"
    back = pocket_corpus.load_pocket(tmp_path / "a.gz", *twice)
    assert back == {"train": some[:50], "valid": [], "test": some[50:], "test_it": []}


def test_pocket_and_data_make_no_circle():
    source = Path(pocket_corpus.__file__).read_text("utf-8")
    assert "transformer_lit.data" not in source and ".data import" not in source
