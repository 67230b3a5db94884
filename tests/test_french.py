"""Words of the pocket corpus and their forms: inflection by rule and by table, determiners, phrases
with what each word says."""

from typing import NamedTuple

import pytest

from transformer_lit.grammar.english import (
    an_or_a,
    english_plural,
    english_verb,
    third_person,
)
from transformer_lit.grammar.french import (
    Noun,
    Phrase,
    Verb,
    adjectives,
    after_not,
    inflect,
    determiner,
    feminine,
    french_plural,
    conjugate,
    future,
    imperfect,
    irregular,
    lexicon,
    noun_phrase,
    nouns,
    nouns_of,
    participle,
    present,
    split_words_starred,
    starts_with_vowel,
    stem_before,
    verbs,
    with_etre,
    words_of,
)


class They(NamedTuple):
    person: int
    gender: str
    plural: bool


GIRLS, THOU, HE, I = (
    They(5, "f", True),
    They(1, "m", False),
    They(2, "m", False),
    They(0, "m", False),
)
VERB = {verb.base: verb for verb in verbs()}
ADJECTIVE = {adjective.english: adjective for adjective in adjectives()}
FRIEND, TREE = Noun("friend", "", "amie", "", "f", "person"), Noun("tree", "", "arbre", "", "m", "")
THE_CAT = Phrase((("the", "d"), ("cat", "n")), (("le", "d"), ("chat", "n")))


def words(spoken):
    return " ".join(word for word, _ in spoken)


def test_the_table_has_its_rows():
    assert len(nouns()) > 500 and len(verbs()) > 150 and len(adjectives()) > 110
    size = {kind: len(rows) for kind, rows in lexicon().items()}
    assert (
        size["pattern"] > 60
        and size["idiom"] > 36
        and size["frame"] == 12
        and "#" not in "".join(size)
    )


@pytest.mark.parametrize(
    "word, plural",
    [
        ("nez", "nez"),
        ("fils", "fils"),
        ("prix", "prix"),
        ("gâteau", "gâteaux"),
        ("neveu", "neveux"),
        ("bleu", "bleus"),
        ("cheval", "chevaux"),
        ("chat", "chats"),
    ],
)
def test_french_plural(word, plural):
    assert french_plural(word) == plural


@pytest.mark.parametrize(
    "masculine, expected",
    [
        ("large", "large"),
        ("heureux", "heureuse"),
        ("vif", "vive"),
        ("fier", "fière"),
        ("vert", "verte"),
    ],
)
def test_feminine(masculine, expected):
    assert feminine(masculine) == expected


def test_adjectives_agree():
    old, blue = ADJECTIVE["old"], ADJECTIVE["blue"]
    assert [
        old.inflect("m", False),
        old.inflect("m", False, vowel=True),
        old.inflect("f", False),
        old.inflect("f", True),
    ] == ["vieux", "vieil", "vieille", "vieilles"]
    assert old.inflect("m", True, vowel=True) == "vieux", "vieil is a singular"
    assert old.realize("en", "", GIRLS) == (("old", ""),) and old.realize("fr", "", GIRLS) == (
        ("vieilles", ""),
    )
    assert blue.inflect("m", True) == "bleus" and blue.inflect("f", True) == "bleues"


@pytest.mark.parametrize(
    "verb, ending, stem",
    [
        ("manger", "ons", "mange"),
        ("commencer", "ais", "commenç"),
        ("nettoyer", "e", "nettoi"),
        ("acheter", "ent", "achèt"),
        ("préférer", "es", "préfèr"),
        ("préférer", "er", "préfér"),
        ("acheter", "ez", "achet"),
        ("protéger", "e", "protèg"),
        ("réparer", "e", "répar"),
        ("nettoyer", "er", "nettoi"),
        ("nettoyer", "ez", "nettoy"),
    ],
)
def test_the_stem_is_spelled_for_its_ending(verb, ending, stem):
    assert stem_before(verb, ending) == stem


def test_present():
    assert " ".join(present("manger")) == "mange manges mange mangeons mangez mangent"
    assert " ".join(present("perdre")) == "perds perds perd perdons perdez perdent"
    assert present("finir")[3:] == ["finissons", "finissez", "finissent"]
    assert present("aller")[:3] == ["vais", "vas", "va"] and irregular()["aller"][6:] == [
        "ir",
        "allé",
    ]


@pytest.mark.parametrize(
    "verb, expected",
    [
        ("commencer", ["commencé", "commençais", "commencions", "commencera"]),
        ("manger", ["mangé", "mangeais", "mangions", "mangera"]),
        ("être", ["été", "étais", "étions", "sera"]),
        ("perdre", ["perdu", "perdais", "perdions", "perdra"]),
        ("acheter", ["acheté", "achetais", "achetions", "achètera"]),
        ("finir", ["fini", "finissais", "finissions", "finira"]),
    ],
)
def test_past_and_future(verb, expected):
    assert [participle(verb), imperfect(verb)[0], imperfect(verb)[3], future(verb)[2]] == expected


def test_more_of_past_and_future():
    assert (
        future("perdre")[5] == "perdront"
        and future("acheter")[3] == "achèterons"
        and future("finir")[4] == "finirez"
    )
    assert imperfect("finir")[5] == "finissaient" and imperfect("commencer")[3:5] == [
        "commencions",
        "commenciez",
    ]
    assert (
        future("envoyer")[0] == "enverrai"
        and participle("mourir") == "mort" == irregular()["mourir"][7]
    )


def test_a_verb_goes_with_its_subject():
    assert with_etre() >= {"aller", "venir", "tomber", "passer"}
    assert [conjugate("aller", form, GIRLS) for form in ("inf", "aux", "part", "fut")] == [
        "aller",
        "sont",
        "allées",
        "iront",
    ]
    assert [conjugate("voir", form, GIRLS) for form in ("aux", "part", "agreed")] == [
        "ont",
        "vu",
        "vues",
    ]
    assert [conjugate(verb, "order", THOU) for verb in ("aller", "ouvrir", "finir")] == [
        "va",
        "ouvre",
        "finis",
    ]
    assert (
        conjugate("manger", "pres", None) == "mange"
        and conjugate("manger", "part", None) == "mangé"
    )
    with pytest.raises(AssertionError, match="tomber must agree"):
        conjugate("tomber", "part", None)
    assert [inflect("né", gender, plural) for gender in "mf" for plural in (False, True)] == [
        "né",
        "nés",
        "née",
        "nées",
    ]
    assert inflect("pris", "m", True) == "pris"


def test_english_forms():
    assert [english_plural(w) for w in "box cherry key dog lens".split()] == [
        "boxes",
        "cherries",
        "keys",
        "dogs",
        "lenses",
    ]
    assert [third_person(w) for w in "eat go wash try have do".split()] == [
        "eats",
        "goes",
        "washes",
        "tries",
        "has",
        "does",
    ]
    assert english_verb("be", "pres-not", I) == ["am", "not"] and english_verb(
        "be", "past", GIRLS
    ) == ["were"]
    assert english_verb("do", "pres-not", HE) == ["doesn't"] and english_verb(
        "want", "pres", GIRLS
    ) == ["want"]
    assert english_verb("be", "past-not", HE) == ["wasn't"]
    assert [an_or_a(w) for w in "apple honest hour uniform useful dog".split()] == [
        "an",
        "an",
        "an",
        "a",
        "a",
        "a",
    ]


def test_rows_of_the_table_say_their_forms():
    assert [VERB[v].past for v in ("love", "carry", "eat", "clean", "play")] == [
        "loved",
        "carried",
        "ate",
        "cleaned",
        "played",
    ]
    assert [VERB[v].ing for v in ("love", "see", "cut", "carry")] == [
        "loving",
        "seeing",
        "cutting",
        "carrying",
    ]
    assert VERB["carry"].realize("en", "pres", HE) == (("carries", ""),) and VERB["carry"].realize(
        "en", "past", HE
    ) == (("carried", ""),)
    assert VERB["carry"].realize("fr", "fut", GIRLS) == (("transporteront", ""),) and isinstance(
        VERB["eat"], Verb
    )
    child = Noun("child", "children", "enfant", "", "m", "person")
    assert (child.plural, child.pluriel) == ("children", "enfants") and Noun(
        "ox", "oxen", "bœuf", "", "m", ""
    ).plural == "oxen"
    key = Noun("key", "", "clé", "", "f", "")
    assert (key.plural, key.pluriel) == ("keys", "clés")
    plurals = {noun.english: noun.pluriel for noun in nouns()}
    assert (
        plurals["owl"],
        plurals["cabbage"],
        plurals["jewel"],
        plurals["horse"],
        plurals["nephew"],
    ) == ("*hiboux", "choux", "bijoux", "chevaux", "neveux")
    assert {n.english for n in nouns_of("flier owl")} >= {"owl", "bee"} and not nouns_of(
        "nothing such"
    )


def test_an_h_may_be_starred():
    assert (
        starts_with_vowel("Hélène") and starts_with_vowel("œuf") and not starts_with_vowel("*héros")
    )
    assert not starts_with_vowel("chat") and split_words_starred("*hors-d'œuvre")[0][:2] == "*h"
    assert split_words_starred("arbre") == ["arbre"] and words_of("l'ami", "n", "fr") == (
        ("l'", "n"),
        ("ami", "n"),
    )


@pytest.mark.parametrize(
    "english, noun, plural, follows, adjective, expected",
    [
        ("my", FRIEND, False, "amie", False, "mon"),
        ("this", TREE, False, "arbre", False, "cet"),
        ("this", FRIEND, False, "amie", False, "cette"),
        ("some", TREE, True, "vieux", True, "de"),
        ("some", TREE, True, "arbres", False, "des"),
        ("some", FRIEND, False, "eau", False, "de la"),
        ("some", TREE, False, "vieux", True, "de le"),
        ("all the", FRIEND, True, "amies", False, "toutes les"),
        ("my", FRIEND, False, "vieille", True, "ma"),
        ("this", TREE, False, "grand", True, "ce"),
    ],
)
def test_determiners(english, noun, plural, follows, adjective, expected):
    assert determiner(english, noun, plural, follows, adjective) == expected


def test_noun_phrases_in_the_order_of_each_language():
    old, tired = ADJECTIVE["old"], ADJECTIVE["tired"]
    made = [
        noun_phrase(TREE, "a", False, old),
        noun_phrase(FRIEND, "this", True, None, tired),
        noun_phrase(TREE, "some", True, old),
        noun_phrase(Noun("owl", "", "*hibou", "", "m", ""), "the"),
        noun_phrase(TREE, "", True),
    ]
    assert [words(p.french) for p in made] == [
        "un vieil arbre",
        "ces amies fatiguées",
        "de vieux arbres",
        "le *hibou",
        "arbres",
    ]
    assert [words(p.english) for p in made] == [
        "an old tree",
        "these tired friends",
        "some old trees",
        "the owl",
        "trees",
    ]
    assert (made[1].person, made[1].gender, made[1].plural) == (5, "f", True) and made[
        0
    ].lemma == "tree"
    assert made[0].english == (("an", "d"), ("old", "a"), ("tree", "n"))
    assert made[0].french == (("un", "d"), ("vieil", "a"), ("arbre", "n"))
    assert (
        [tag for _, tag in made[1].french]
        == ["d", "n", "b"]
        == sorted((tag for _, tag in made[1].english), key="dnb".index)
    ), "tired and fatiguées say the same"


def test_after_a_negation():
    bread = Phrase((("some", "d"), ("bread", "n")), (("de", "d"), ("le", "d"), ("pain", "n")))
    assert bread.realize("en", "not", HE) == (("any", "d"), ("bread", "n")) and bread.realize(
        "fr", "not", HE
    ) == (("de", "d"), ("pain", "n"))
    assert (
        bread.realize("fr", "", HE) == bread.french
        and bread.realize("en", "", HE) == bread.english
        and not bread.plural
    )
    assert (
        after_not(THE_CAT, "fr") == THE_CAT.french and after_not(THE_CAT, "en") == THE_CAT.english
    )


def test_a_phrase_may_be_several_and_take_prepositions():
    assert (
        Phrase((), (), 5).plural
        and Phrase((), (), 4, number="p").plural
        and not Phrase((), (), 4).plural
    )
    assert [Phrase((), (), person).plural for person in range(6)] == [
        False,
        False,
        False,
        True,
        False,
        True,
    ]
    longer = THE_CAT.with_words((("for", "^V"),), (("pour", "^V"),))
    assert (
        words(longer.english) == "for the cat"
        and words(longer.french) == "pour le chat"
        and THE_CAT.with_words() == THE_CAT
    )
