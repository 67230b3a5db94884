"""Words of the pocket corpus and their forms: French inflection, the English beside it, and noun
phrases in both languages."""

# The words stand in data/pocket_lexicon.tsv, one row for each; its first lines say what the columns
# are. What a rule gives is made here, what no rule gives is in the table. Chapter 16 puts the
# phrases into sentences.
#
#     noun_phrase(nouns_of("street")[0], "the").french      # (("la", "d"), ("rue", "n"))
#     conjugate("manger", "imp", subject)                 # "mangeait", if subject.person is 2
#
# A star before an h, as in "*hibou", says that no vowel drops before it: le hibou, but l'homme.
import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from transformer_lit.corpora.files import shipped
from transformer_lit.grammar.english import an_or_a, english_plural, english_verb
from transformer_lit.tokenization import split_words

TaggedWords = tuple[tuple[str, str], ...]  # (word, its role)


@cache
def lexicon() -> dict[str, list[list[str]]]:
    "The rows of data/pocket_lexicon.tsv, by what they describe: noun, verb, pattern and so on."
    rows = {}
    for line in shipped("data/pocket_lexicon.tsv").read_text("utf-8").splitlines():
        if line and line[0] != "#":
            kind, *fields = line.split("\t")
            rows.setdefault(kind, []).append(fields)
    return rows


@cache
def by_word(kind: str) -> dict[str, list[str]]:
    """The rows of a kind by their first column: English determiners with the French masculine,
    feminine and plural; irregular verbs, or such as change their spelling (acheter, achète), with
    six forms of the present, the future's stem and the participle."""
    return {word: fields for word, *fields in lexicon()[kind]}


# French nouns and adjectives ----------------------------------------------------------------------
FEMININE = {"e": "e", "eux": "euse", "f": "ve", "er": "ère"}


def french_plural(word: str) -> str:
    "By rule: nez, gâteaux, chevaux, chats; bleu is the exception that takes an s."
    if word[-1] in "sxz":
        return word
    if word.endswith(("au", "eu")) and word != "bleu":
        return word + "x"
    return word[:-2] + "aux" if word.endswith("al") else word + "s"


def feminine(adjective: str) -> str:
    "By rule: large, heureuse, vive, fière, verte."
    for masculine, ending in FEMININE.items():
        if adjective.endswith(masculine):
            return adjective.removesuffix(masculine) + ending
    return adjective + "e"


def starts_with_vowel(word: str) -> bool:
    "Also before a mute h; an h that is not mute is written *h."
    return word[0].lower() in "aeiouyhâàéèêëîïôûœæ"


# French verbs -------------------------------------------------------------------------------------
ENDINGS = {
    "er": "e es e ons ez ent er é",
    "ir": "is is it issons issez issent ir i",
    "re": "s s  ons ez ent r u",
}


@cache
def principal_parts(verb: str) -> list[str]:
    "Six forms of the present, the future's stem, the participle: of the table, or by rule."
    return by_word("irregular").get(verb) or [
        verb[:-2] + ending for ending in ENDINGS[verb[-2:]].split(" ")
    ]


def present(verb: str) -> list[str]:
    "je, tu, il, nous, vous, ils."
    return principal_parts(verb)[:6]


def participle(verb: str) -> str:
    "mangé, fini, perdu."
    return principal_parts(verb)[7]


def imperfect(verb: str) -> list[str]:
    "The stem of nous mangeons with its endings: je mangeais, nous mangions."
    stem = "ét" if verb == "être" else present(verb)[3][:-3]
    before_i = stem.removesuffix("e").replace("ç", "c")  # mangions, commencions
    singular = [stem + ending for ending in ("ais", "ais", "ait")]
    return [*singular, before_i + "ions", before_i + "iez", stem + "aient"]


def future(verb: str) -> list[str]:
    "The infinitive, mostly, with the endings of avoir."
    stem = principal_parts(verb)[6]
    return [stem + ending for ending in ("ai", "as", "a", "ons", "ez", "ont")]


TENSES = {"pres": present, "imp": imperfect, "fut": future}


@cache
def with_etre() -> set[str]:
    "Infinitives whose passé composé takes être."
    return {verb.infinitive for verb in verbs() if "be" in verb.remarks.split()}


def conjugate(verb: str, form: str, subject: "Phrase | None") -> str:
    """A form of `verb` that goes with a subject; without one, the form of il.

    `form`: inf, pres, imp, fut, order, aux and part of the passé composé, or agreed, a participle
    that always agrees."""
    person = 2 if subject is None else subject.person
    if form == "inf":
        return verb
    if form == "aux":
        return present("être" if verb in with_etre() else "avoir")[person]
    if form == "order":
        return re.sub("(?<=[ea])s$", "", present(verb)[person])
    if form == "agreed" or form == "part" and verb in with_etre():  # né, née, nés, nées
        word = participle(verb) + "e" * (subject.gender == "f")
        return french_plural(word) if subject.plural else word
    return participle(verb) if form == "part" else TENSES[form](verb)[person]


# The words of the table ---------------------------------------------------------------------------
class Noun(NamedTuple):
    "A row of the table; the plurals are empty where a rule gives them."

    english: str
    plural_form: str
    french: str
    pluriel_form: str
    gender: str
    classes: str

    @property
    def plural(self) -> str:
        return self.plural_form or english_plural(self.english)

    @property
    def pluriel(self) -> str:
        return self.pluriel_form or french_plural(self.french)


class Adjective(NamedTuple):
    """A row of the table; the feminine and the form before a vowel are empty where a rule gives
    them."""

    english: str
    masculine: str
    feminine: str
    vowel: str  # un bel animal
    place: str  # b before the noun, a after it, c color, p only with be
    classes: str
    remarks: str

    def inflect(self, gender: str, plural: bool, vowel: bool = False) -> str:
        "The French form that goes with a noun; `vowel`: it stands before one."
        word = self.masculine
        if gender == "f":
            word = self.feminine or feminine(word)
        elif vowel and not plural:
            word = self.vowel or word
        return french_plural(word) if plural else word

    def realize(self, language: str, form: str, subject: "Phrase") -> TaggedWords:
        "Its word in a pattern, where it agrees with a subject."
        french = self.inflect(subject.gender, subject.plural)
        return ((self.english if language == "en" else french, ""),)


class Verb(NamedTuple):
    "A row of the table; past and -ing forms are empty where a rule gives them."

    base: str
    past_form: str
    ing_form: str
    preposition: str
    infinitive: str
    prep_fr: str
    kind: str
    subjects: str
    objects: str
    remarks: str

    @property
    def past(self) -> str:
        stem = re.sub("([^aeou])y$", r"\1i", self.base).removesuffix("e")
        return self.past_form or stem + "ed"

    @property
    def ing(self) -> str:
        return self.ing_form or re.sub("([^e])e$", r"\1", self.base) + "ing"

    def realize(self, language: str, form: str, subject: "Phrase") -> TaggedWords:
        "Its word in a pattern: a form of the French verb, or the English pres, base, past or ing."
        if language == "fr":
            word = conjugate(self.infinitive, form, subject)
        elif form == "pres":
            [word] = english_verb(self.base, form, subject)
        else:
            word = getattr(self, form)
        return ((word, ""),)


@cache
def nouns() -> list[Noun]:
    "All nouns of the table."
    return [Noun(*row) for row in lexicon()["noun"]]


@cache
def verbs() -> list[Verb]:
    "All verbs of the table, those of the it sentences apart."
    return [Verb(*row) for row in lexicon()["verb"]]


@cache
def adjectives() -> list[Adjective]:
    "All adjectives of the table."
    return [Adjective(*row) for row in lexicon()["adjective"]]


@cache
def nouns_of(classes: str) -> list[Noun]:
    "Nouns that have one of the classes, or are named themselves."
    wanted = set(classes.split())
    return [noun for noun in nouns() if wanted & {noun.english, *noun.classes.split()}]


# Phrases ------------------------------------------------------------------------------------------
class Phrase(NamedTuple):
    """What stands for somebody or something, in both languages: each word with a tag, d, n, a or b,
    for its role."""

    english: TaggedWords
    french: TaggedWords
    person: int = 2  # 0 to 5: I, you, he, we, you (vous), they
    gender: str = "m"
    lemma: str = ""  # the English word without its form
    classes: str = ""
    number: str = ""

    @property
    def plural(self) -> bool:
        "More than one: vous may be one."
        return self.person in (3, 5) or self.number == "p"

    def realize(self, language: str, form: str, subject: "Phrase") -> TaggedWords:
        """Its words in a pattern; form not: as the object of a negation, where un, une, des, du, de
        la become de, and some becomes any."""
        det = self.english[0][0] if form == "not" else ""
        if language == "en" and det == "some":
            return (("any", "d"), *self.english[1:])
        if language == "fr" and det in ("a", "an", "some"):
            return (("de", "d"), *(word for word in self.french if word[1] != "d"))
        return self.english if language == "en" else self.french

    def with_words(self, english: Sequence, french: Sequence) -> "Phrase":
        "The same, with prepositions before it."
        return self._replace(english=(*english, *self.english), french=(*french, *self.french))


def words_of(text: str, tag: str = "", language: str = "en") -> TaggedWords:
    "The words of a text, all with one tag."
    return tuple((word, tag) for word in split_words(text, language))


def determiner(english: str, noun: Noun, plural: bool, follows: str, adjective_first: bool) -> str:
    "French for `english` before the word `follows`: mon amie, cet arbre, de vieux arbres."
    masculine, feminine_, plural_form = by_word("det")[english][:3]
    if plural:
        if english == "some" and adjective_first:
            return "de"
        return plural_form.split("/")[-1 if noun.gender == "f" else 0]
    if starts_with_vowel(follows):
        if masculine in ("mon", "ton", "son"):
            return masculine
        if masculine == "ce" and noun.gender == "m":
            return "cet"
    return feminine_ if noun.gender == "f" else masculine


def noun_phrase(
    noun: Noun,
    det: str,
    plural: bool = False,
    before: Adjective | None = None,
    after: Adjective | None = None,
) -> Phrase:
    """A determiner, adjectives and a noun in the order of each language; "le arbre" and "de le"
    stay as they are.

    `before` stands before its noun in French, `after` behind it."""
    name, nom = (noun.plural, noun.pluriel) if plural else (noun.english, noun.french)
    tagged = [(before, "a"), (after, "b")]
    english = (*((a.english, tag) for a, tag in tagged if a), *words_of(name, "n"))
    vowel = starts_with_vowel(nom)
    before_noun, after_noun = (
        [(a.inflect(noun.gender, plural, vowel), tag)] if a else [] for a, tag in tagged
    )
    french = (*before_noun, *((word, "n") for word in nom.split()), *after_noun)
    if det:
        french_det = determiner(det, noun, plural, french[0][0], bool(before))
        french = words_of(french_det, "d", "fr") + french
        det = an_or_a(english[0][0]) if det == "a" else "these" if det == "this" and plural else det
        english = words_of(det, "d") + english
    return Phrase(english, french, 5 if plural else 2, noun.gender, noun.english, noun.classes)
