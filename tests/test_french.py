"""Words of the pocket corpus and their forms: inflection by rule and by table, determiners, phrases
with what each word says."""

from typing import NamedTuple

import pytest

from transformer_lit.grammar import english, french
from transformer_lit.grammar.french import Noun, Phrase, conjugate, determiner, noun_phrase


class Someone(NamedTuple):
    person: int
    gender: str
    plural: bool


THOU, HE, GIRLS = Someone(1, "m", False), Someone(2, "m", False), Someone(5, "f", True)
VERBS = {verb.base: verb for verb in french.verbs()}
ADJECTIVES = {adjective.english: adjective for adjective in french.adjectives()}
FRIEND, TREE = Noun("friend", "", "amie", "", "f", "person"), Noun("tree", "", "arbre", "", "m", "")
OWL = Noun("owl", "", "*hibou", "", "m", "")


def words(tagged):
    return " ".join(word for word, _ in tagged)


RULES = {  # by rule, where it is spelled otherwise, and where the table has the form
    french.french_plural: "nez nez prix prix gâteau gâteaux chat chats bleu bleus cheval chevaux",
    french.feminine: "large large heureux heureuse vif vive fier fière vert verte",
    french.participle: "manger mangé finir fini perdre perdu être été mourir mort",
    english.english_plural: "box boxes cherry cherries key keys dog dogs lens lenses",
    english.third_person: "eat eats go goes wash washes try tries have has",
    english.an_or_a: "apple an honest an hour an uniform a useful a dog a",
    lambda base: VERBS[base].past: "love loved carry carried eat ate clean cleaned play played",
    lambda base: VERBS[base].ing: "love loving see seeing cut cutting carry carrying",
}
TENSES = {
    french.present: """
        manger mange manges mange mangeons mangez mangent
        commencer commence commences commence commençons commencez commencent
        acheter achète achètes achète achetons achetez achètent
        préférer préfère préfères préfère préférons préférez préfèrent
        nettoyer nettoie nettoies nettoie nettoyons nettoyez nettoient
        finir finis finis finit finissons finissez finissent
        perdre perds perds perd perdons perdez perdent
        aller vais vas va allons allez vont""",
    french.imperfect: """
        commencer commençais commençais commençait commencions commenciez commençaient
        finir finissais finissais finissait finissions finissiez finissaient
        être étais étais était étions étiez étaient""",
    french.future: """
        acheter achèterai achèteras achètera achèterons achèterez achèteront
        préférer préférerai préféreras préférera préférerons préférerez préféreront
        nettoyer nettoierai nettoieras nettoiera nettoierons nettoierez nettoieront
        envoyer enverrai enverras enverra enverrons enverrez enverront""",
}


@pytest.mark.parametrize("rule", RULES)
def test_a_word_has_its_forms(rule):
    words = RULES[rule].split()
    assert [rule(word) for word in words[::2]] == words[1::2]


@pytest.mark.parametrize("tense", TENSES)
def test_a_verb_has_its_forms(tense):
    for verb, *forms in map(str.split, TENSES[tense].strip().splitlines()):
        assert tense(verb) == forms


@pytest.mark.parametrize(
    "verb, form, subject, expected",
    [
        ("aller", "aux", GIRLS, "sont"),
        ("aller", "part", GIRLS, "allées"),
        ("aller", "fut", GIRLS, "iront"),
        ("voir", "aux", GIRLS, "ont"),
        ("voir", "part", GIRLS, "vu"),
        ("voir", "agreed", GIRLS, "vues"),
        ("prendre", "agreed", Someone(5, "m", True), "pris"),
        ("aller", "order", THOU, "va"),
        ("finir", "order", THOU, "finis"),
        ("manger", "pres", None, "mange"),
    ],
)
def test_a_verb_goes_with_its_subject(verb, form, subject, expected):
    assert conjugate(verb, form, subject) == expected


def test_adjectives_agree():
    old = ADJECTIVES["old"]
    forms = [("m", False, False), ("m", False, True), ("m", True, True), ("f", True, False)]
    assert [old.inflect(*form) for form in forms] == ["vieux", "vieil", "vieux", "vieilles"], (
        "vieil is a singular"
    )
    assert words(old.realize("fr", "", GIRLS)) == "vieilles"


@pytest.mark.parametrize(
    "det, noun, plural, follows, adjective, expected",
    [
        ("my", FRIEND, False, "amie", False, "mon"),
        ("this", TREE, False, "arbre", False, "cet"),
        ("some", TREE, True, "vieux", True, "de"),
        ("some", TREE, True, "arbres", False, "des"),
        ("some", FRIEND, False, "eau", False, "de la"),
        ("some", TREE, False, "vieux", True, "de le"),
        ("my", FRIEND, False, "vieille", True, "ma"),
        ("this", TREE, False, "grand", True, "ce"),
    ],
)
def test_determiners(det, noun, plural, follows, adjective, expected):
    assert determiner(det, noun, plural, follows, adjective) == expected


@pytest.mark.parametrize(
    "phrase, in_french, in_english",
    [
        (noun_phrase(TREE, "a", False, ADJECTIVES["old"]), "un vieil arbre", "an old tree"),
        (
            noun_phrase(FRIEND, "this", True, None, ADJECTIVES["tired"]),
            *("ces amies fatiguées", "these tired friends"),
        ),
        (noun_phrase(TREE, "some", True, ADJECTIVES["old"]), "de vieux arbres", "some old trees"),
        (noun_phrase(OWL, "the"), "le *hibou", "the owl"),
        (noun_phrase(TREE, "", True), "arbres", "trees"),
    ],
)
def test_noun_phrases_in_the_order_of_each_language(phrase, in_french, in_english):
    assert (words(phrase.french), words(phrase.english)) == (in_french, in_english)
    assert sorted(tag for _, tag in phrase.french) == sorted(tag for _, tag in phrase.english), (
        "what says the same has one tag in both languages"
    )


def test_after_a_negation():
    bread = Phrase((("some", "d"), ("bread", "n")), (("de", "d"), ("le", "d"), ("pain", "n")))
    assert words(bread.realize("en", "not", HE)) == "any bread"
    assert words(bread.realize("fr", "not", HE)) == "de pain"
    assert bread.realize("fr", "", HE) == bread.french
