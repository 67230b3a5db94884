"""Who fills the slots of a pattern: each chooser draws what fits, and raises NoCandidate where
nothing does."""

from collections import Counter
from random import Random

import pytest

from transformer_lit import pocket_corpus
from transformer_lit.grammar import slots as choosers
from transformer_lit.grammar.patterns import slot_order, triple_of, weighted_patterns
from transformer_lit.grammar.slots import (
    SLOT_FILLERS,
    PLACED,
    NoCandidate,
    adjectives_for,
    names,
    rng_choice,
    pronouns,
    choose_adjectives,
    choose_determiner,
    choose_noun,
    suits,
    verbs_of,
    with_determiner,
)
from transformer_lit.grammar.french import (
    Adjective,
    Phrase,
    Verb,
    adjectives,
    lexicon,
    noun_phrase,
    nouns_of,
    verbs,
)

VERB = {v.base: v for v in verbs()}
STREET = noun_phrase(nouns_of("street")[0], "the")
MINE = set("my his her our their".split())


def plain(spoken):
    return " ".join(word for word, _ in spoken)


def draws(kind, slots, *arguments, n=99, seed=3):
    "What a chooser draws, the unlucky draws left out."
    rng, found = Random(seed), []
    for _ in range(n):
        try:
            found.append(SLOT_FILLERS[kind](rng, slots, *arguments))
        except NoCandidate:
            continue
    assert found, f"{kind} draws nothing"
    return found


def test_pick_takes_each_and_none_of_none():
    assert rng_choice(Random(1), [7]) == 7 and Counter(
        rng_choice(Random(s), "ab") for s in range(99)
    ).keys() == {*"ab"}
    with pytest.raises(NoCandidate):
        rng_choice(Random(1), [])
    rng, twin = Random(5), Random(5)
    assert (
        rng_choice(rng, range(100)) == int(twin.random() * 100) and rng.random() == twin.random()
    ), "one draw, by random() alone"


def test_adjectives_fit_their_nouns():
    assert [a.english for a in adjectives_for("height", "wall", "p")] == ["high", "visible"]
    assert not adjectives_for("road", "street", "p", "state")
    assert {a.place for a in adjectives_for("clothes", "coat", "c")} == {"c"}


def test_determiners_say_what_is_known():
    rng = Random(3)
    sure = {choose_determiner(rng, "sure", False, False) for _ in range(200)}
    assert sure == {"the", "this", *MINE}
    assert {choose_determiner(rng, "not", True, False) for _ in range(200)} == {
        "the",
        "some",
        "this",
        *MINE,
    }
    assert {choose_determiner(rng, "not", False, False) for _ in range(200)} == {
        "the",
        "a",
        "this",
        *MINE,
    }
    assert {choose_determiner(rng, "", False, True) for _ in range(200)} == {
        "the",
        "some",
        "this",
        *MINE,
    }
    assert {choose_determiner(rng, "", False, False) for _ in range(200)} == {
        "the",
        "a",
        "every",
        "this",
        *MINE,
    }
    assert {choose_determiner(rng, "", True, False) for _ in range(300)} >= {
        "the",
        "some",
        "three",
        *MINE,
    }


def test_nouns_with_their_determiners():
    rng = Random(3)
    drinks = [choose_noun(rng, "drink") for _ in range(200)]
    assert {p.person for p in drinks} == {2} and len(
        set(drinks)
    ) > 50, "what is not counted has no plural"
    assert {p.english[0][0] for p in drinks} >= {"the", "some", "my", "this"}
    known = [choose_noun(rng, "animal", "sure") for _ in range(200)]
    assert not {p.english[0][0] for p in known} & {"a", "an", "some", "every"} and {
        p.plural for p in known
    } == {True, False}
    assert not any(p.plural for p in (choose_noun(rng, "animal", singular=True) for _ in range(99)))
    assert choose_noun(rng, "moon").english == (("the", "d"), ("moon", "n"))
    with pytest.raises(NoCandidate):
        choose_noun(rng, "street", exclude="street")
    with pytest.raises(NoCandidate):
        choose_noun(rng, "nothing such")


def test_adjectives_before_and_after():
    rng, car = Random(3), nouns_of("car")[0]
    both = [choose_adjectives(rng, car, 1) for _ in range(200)]
    assert (
        any(b and a for b, a in both)
        and any(a for b, a in both if not b)
        and any(b for b, a in both if not a)
    )
    assert all(b.place in "bn" for b, _ in both if b) and all(a.place in "ac" for _, a in both if a)
    assert all(a.place == "c" for b, a in both if b and a) and choose_adjectives(rng, car, 0) == (
        None,
        None,
    )


def test_people():
    assert (
        pronouns()["they"].person == 5
        and pronouns()["she"].gender == "f"
        and plain(pronouns()["we"].french) == "nous"
    )
    assert names()[0].lemma == "Paul" and (names()[10].lemma, names()[10].gender) == ("Marie", "f")
    assert {p.lemma for p in draws("pron", {})} == {"I", "he", "she", "we", "they"}
    assert all(p in names() for p in draws("name", {}))
    assert {p.person for p in draws("he", {})} == {2} and {"he", "she"} <= {
        p.lemma for p in draws("he", {})
    }
    people = draws("person", {})
    assert any(p in names() for p in people) and any(p in pronouns().values() for p in people)
    assert any(
        "person" in p.classes.split() and p.lemma not in pronouns() and p not in names()
        for p in people
    )
    assert all(
        p.lemma != "doctor"
        for p in draws("folk", {"S": noun_phrase(nouns_of("doctor")[0], "the")}, n=400)
    )
    assert (
        plain(SLOT_FILLERS["who"](None, {}).french) == "qui"
        and SLOT_FILLERS["us"](None, {}).lemma == "we"
    )
    assert not {p.lemma for p in draws("guest", {})} & set(pronouns()) and any(
        p in names() for p in draws("guest", {})
    )
    assert any("person" not in p.classes for p in draws("any", {})) and any(
        p.lemma in pronouns() for p in draws("any", {})
    )


def test_you_is_as_the_one_spoken_to():
    whom = {v.lemma: SLOT_FILLERS["you"](Random(1), {"Y": v}) for v in draws("vocative", {}, n=400)}
    said = {lemma: (plain(y.french), y.gender, y.plural) for lemma, y in whom.items()}
    assert said["Dad"] == ("tu", "m", False) == said["Paul"] and said["madam"] == (
        "vous",
        "f",
        False,
    )
    assert said["girls"] == ("vous", "f", True) and all(y.lemma == "you" for y in whom.values())
    dear = {"Y": names()[0]._replace(person=1)}
    thine = draws("yours", dear, n=300)
    assert {plain(p.french).split()[0] for p in thine} == {"ton", "ta", "tes"} and thine[0].english[
        0
    ] == ("your", "d")
    assert all(
        choosers.starts_with_vowel(p.french[1][0])
        for p in thine
        if p.french[0][0] == "ton" and p.gender == "f"
    )
    assert {
        plain(p.french).split()[0] for p in draws("yours", {"Y": names()[0]._replace(person=4)})
    } == {"votre", "vos"}


def test_pronouns_for_objects():
    friends = noun_phrase(nouns_of("friend")[0], "the", True)
    assert plain(SLOT_FILLERS["them"](None, {"S": friends}, "S").french) == "les"
    assert plain(SLOT_FILLERS["them"](None, {"S": friends}, "S").english) == "them"
    assert plain(SLOT_FILLERS["them"](None, {"O": STREET}, "O").french) == "la"
    assert plain(SLOT_FILLERS["them"](None, {"O": STREET._replace(gender="m")}, "O").french) == "le"
    assert not {p.lemma for p in draws("clitic", {"S": pronouns()["I"]})} & {
        "I",
        "we",
    }, "not I see me, nor I see us"
    assert not {p.lemma for p in draws("clitic", {"S": pronouns()["we"]})} & {"I", "we"}
    assert {plain(p.french) for p in draws("dative", {"S": names()[0]})} == {
        "me",
        "lui",
        "nous",
        "leur",
    }
    assert {plain(p.french) for p in draws("clitic", {"S": names()[0]})} == {
        "me",
        "le",
        "la",
        "nous",
        "les",
    }


def test_verbs_suit_their_patterns():
    assert {v.base for v in verbs_of("verb", ("love", "hate"))} == {"love", "hate"}
    past = {v.base for v in verbs_of("tv", ("past",))}
    assert not past & {"read", "cut", "know"} and "eat" in past
    assert "read" in {v.base for v in verbs_of("tv", ("did",))} and "know" not in {
        v.base for v in verbs_of("tv", ("did",))
    }
    assert "look" not in {v.base for v in verbs_of("tv", ("bare",))} and {
        v.kind for v in draws("verb", {}, "dit")
    } == {"dit"}
    for need, fits in {
        "past": lambda v: "state" not in v.remarks and v.past != v.base,
        "did": lambda v: "state" not in v.remarks,
        "prog": lambda v: not {"state", "noprog"} & set(v.remarks.split()),
        "bare": lambda v: v.preposition == v.prep_fr == "",
        "folk": lambda v: "person" in v.objects.split(),
        "things": lambda v: "person" not in v.objects.split(),
        "giver": lambda v: v.base != "return",
        "by": lambda v: "person" in v.subjects.split(),
        "repeated": lambda v: v.base not in "die disappear stay grow bloom".split(),
        "placed": lambda v: v.base not in choosers.PLACELESS and "by" not in v.remarks,
    }.items():
        found = [v.base for v in verbs() if suits(v, need)]
        assert found == [v.base for v in verbs() if fits(v)] and 0 < len(found) < len(verbs()), need
    with pytest.raises(ValueError, match="happy"):
        suits(VERB["eat"], "happy")


def test_subjects_and_objects_of_a_verb():
    eat = {"V": VERB["eat"]}
    eaters = draws("subject", eat)
    assert any("walker" in p.classes for p in eaters) and any(p in names() for p in eaters)
    assert any(p.lemma == "I" for p in draws("subject", eat, n=300))
    assert not any(p.lemma == "I" for p in draws("other", eat, "V", n=300))
    look = {"V": VERB["look"], "S": names()[0]}
    assert {p.english[0] for p in draws("object", look)} == {("for", "^V")} and draws(
        "object", look
    )[0].french[0][1] != "^V"
    assert {p.english[0][0] for p in draws("def", eat, "V")} <= {"the", "this", "these", *MINE}
    assert not any(p.plural for p in draws("def", eat, "V", "one"))
    assert all({"food", "food2"} & set(p.classes.split()) for p in draws("thing", eat, "V"))
    assert all(set(p.classes.split()) & set(PLACED.split()) for p in draws("thing", {}))
    assert all(
        p.lemma != "bread"
        for p in draws(
            "object", {"V": VERB["eat"], "S": noun_phrase(nouns_of("bread")[0], "the")}, n=300
        )
    )


def test_things_and_places():
    rng = Random(3)
    assert with_determiner(rng, "animal", ["a"], 1.0).english[0][0] == "three"
    assert {p.english[0][0] for p in draws("one", {}, "S")} == {"a", "an"}
    assert {p.english[0][0] for p in draws("a", {}, "S")} == {"a", "an", "three"}
    assert {p.english[0][0] for p in draws("need", {})} == {"a", "an", "the", "my", "this"}
    assert {p.english[0][0] for p in draws("mine", {})} == {"a", "an", *MINE}
    assert all(p.person == 5 and p.english[0][1] == "n" for p in draws("bare", {}))
    assert {p.french[0][0] for p in draws("fine", {})} == {"quel", "quelle"}
    assert all((p.french[0][0] == "quelle") == (p.gender == "f") for p in draws("fine", {}))
    assert (
        {p.english[0][1] for p in draws("place", {})}
        == {"p"}
        == {p.french[0][1] for p in draws("spot", {})}
    )
    outside = {p.english[0][0] for p in draws("place", {}, n=300)}
    assert outside <= {row[0].split()[0] for row in lexicon()["place"] if "out" in row[3]}
    assert all("building" in p.classes.split() and not p.plural for p in draws("goal", {}))
    assert all(
        p.lemma != "street" and "road" in p.classes.split()
        for p in draws("like", {"S": STREET}, "S")
    )
    assert any("person" in p.classes for p in draws("noun", {}, n=400)) and not any(
        p.lemma in pronouns() for p in draws("noun", {})
    )


def test_adjectives_for_a_slot():
    assert {a.english for a in draws("quality", {"S": STREET})} >= {"wide", "dark", "noisy"}
    assert all(
        len(a.english) > 7 and "graded" in a.remarks
        for a in draws("quality", {"S": STREET}, "S", "long")
    )
    first = draws("quality", {"S": STREET})[0]
    assert first not in draws("second", {"S": STREET, "A": first}, "S", "A", n=300)
    wide = next(a for a in adjectives() if a.english == "wide")
    assert wide not in draws(
        "quality", {"S": noun_phrase(nouns_of("street")[0], "the", after=wide)}, n=300
    )
    assert all("state" in a.remarks and isinstance(a, Adjective) for a in draws("state", {}))


def test_fixed_expressions():
    past = {row[0] for row in lexicon()["time"] if row[2] == "past"}
    assert {p.lemma for p in draws("time", {}, "past")} <= past and draws(
        "item", {}, "time", "future", "first"
    )[0].french
    alone = draws("idiom", {})
    assert all(p.classes == "" and p.english[-1][1][0] == "^" for p in alone)
    polite = draws("idiom", {"Y": names()[0]._replace(person=4)}, "Y")
    assert {p.classes for p in polite} <= {*".?!"} and any("vous" in dict(p.french) for p in polite)
    assert not any(
        "vous" in dict(p.french) for p in draws("idiom", {"Y": names()[0]._replace(person=1)}, "Y")
    )
    asked = {"I": Phrase((), (), classes="?")}
    assert (
        SLOT_FILLERS["mark"](None, asked, "I").french
        == (("?", "^?"),)
        == SLOT_FILLERS["mark"](None, asked, "I").english
    )


def test_a_plan_fills_what_others_need_first():
    def planned(spec, english):
        return slot_order(spec, pocket_corpus.parse_template(english))

    assert planned("V=tv did", "S didn't/n V.base O.not .") == [
        ("V", "verb", ["tv", "did"]),
        ("S", "subject", ["sure"]),
        ("O", "object", ["not"]),
    ]
    assert planned("S=person; V=iv", "S V .") == [("V", "verb", ["iv", "by"]), ("S", "person", [])]
    assert planned("S=other V; V=iv", "S V .")[0] == (
        "V",
        "verb",
        ["iv"],
    ), "whom the verb itself allows needs no more"
    assert planned("S=you; Y=vocative; V=verb eat", "Y S V O.def .") == [
        ("Y", "vocative", []),
        ("V", "verb", ["verb", "eat"]),
        ("S", "you", []),
        ("O", "object", ["sure"]),
    ]
    assert planned("V=tv", "S V.pres O .")[1:] == [("S", "subject", [""]), ("O", "object", [""])]


def test_every_pattern_can_be_filled():
    "Each chooser that the table names exists, and each pattern gives a sentence."
    rng = Random(1)
    assert len(weighted_patterns()) > 1000
    for name, spec, en, fr in dict.fromkeys(weighted_patterns()):
        for _ in range(300):
            slots = {}
            try:
                for slot, kind, arguments in slot_order(spec, pocket_corpus.parse_template(en)):
                    slots[slot] = (
                        pocket_corpus.subject_pronoun if kind == "it" else SLOT_FILLERS[kind]
                    )(rng, slots, *arguments)
                    assert isinstance(slots[slot], (Phrase, Verb, Adjective)), (name, kind)
            except NoCandidate:
                continue
            assert pocket_corpus.realize_pair(name, slots, en, fr, triple_of(slots)).french
            break
        else:
            raise AssertionError(f"the pattern {name} is never filled")


def test_the_triple_of_a_sentence():
    tree, fall = noun_phrase(nouns_of("tree")[0], "the"), VERB["fall"]
    assert triple_of({"S": tree, "V": fall, "O": STREET}) == "tree|fall|street"
    assert triple_of({"S": tree, "V": fall}) == "tree|fall|-"
    old = next(a for a in adjectives() if a.english == "old")
    assert triple_of({"S": tree, "A": old}) == "tree|be|old"
