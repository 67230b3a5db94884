"""Samplers for the slots of corpus templates: one function for each kind of word."""

# A pattern of data/pocket_lexicon.tsv says for its slots which chooser fills them: `Y=vocative;
# V=verb tv past` draws somebody who is spoken to, and a transitive verb that has a past of its own
# (tv; tp: with a preposition, dit: of giving, iv: intransitive, go: of going). Slots are filled in
# the order in which they stand there, S and O at last.
#
# A chooser is called with the random generator, the slots that are filled already and its
# arguments, and returns a Phrase, a Verb or an Adjective. What makes no sense raises NoCandidate.
# The draws decide what the corpus is: another order of them gives another corpus.
from collections.abc import Sequence
from functools import cache, partial
from random import Random
from typing import Any

from transformer_lit.grammar.french import (
    Adjective,
    Noun,
    Phrase,
    TaggedWords,
    Verb,
    adjectives,
    by_word,
    determiner,
    lexicon,
    noun_phrase,
    nouns_of,
    verbs,
    words_of,
)
from transformer_lit.tokenization import split_words

Slots = dict[str, Any]  # a slot's letter -> Phrase, Verb or Adjective

CONCRETE = """person animal thing clothes text container furniture vehicle boat building room plant
    instrument show food cover pair food2 drink road waters height"""
PLACED = "small clothes pair text food fragile toy"  # what lies about
BARE = "small clothes pair text food animal"
OWNED = "animal thing clothes text container furniture vehicle"
MY = ["my", "his", "her", "our", "their"]


class NoCandidate(Exception):
    "A draw that makes no sense; another one is tried."


def rng_choice(rng: Random, options: Sequence) -> Any:
    "One of them, the same in every version of Python; NoCandidate if there is none."
    if not options:
        raise NoCandidate
    return options[int(rng.random() * len(options))]


# Nouns --------------------------------------------------------------------------------------------
@cache
def adjectives_for(
    classes: str, english: str, places: str = "bacp", remark: str = ""
) -> list[Adjective]:
    "Adjectives that fit a noun of these classes."
    wanted = {english, *classes.split()}
    return [
        a
        for a in adjectives()
        if a.place in places and remark in a.remarks and wanted.intersection(a.classes.split())
    ]


def choose_determiner(rng: Random, mode: str, plural: bool, mass: bool) -> str:
    "The modes are those of `choose_noun`; `mass`: water, which is not counted."
    draw = rng.random()
    if draw < (0.7 if mode == "sure" else 0.45):
        return "the"
    if mode == "sure" or draw < 0.65:
        return rng_choice(rng, ["this", *MY])
    if mass or mode == "not":
        return "some" if mass or plural else "a"
    many = [det for det, row in by_word("det").items() if row[-1] == "pl"]
    return rng_choice(rng, many + ["some"] * 3 if plural else ["a"] * 5 + ["every"])


def choose_adjectives(rng: Random, noun: Noun) -> tuple[Adjective | None, Adjective | None]:
    "(before, after) the French noun: mostly none, at times both."
    fitting = adjectives_for(noun.classes, noun.english, "bnac")
    if rng.random() >= 0.2 or not fitting:
        return None, None
    adjective = rng_choice(rng, fitting)
    if adjective.place not in "bn":
        return None, adjective
    colors = adjectives_for(noun.classes, noun.english, "c")
    return adjective, rng_choice(rng, colors) if rng.random() < 0.2 and colors else None


def choose_noun(
    rng: Random,
    classes: str,
    mode: str = "",
    singular: bool = False,
    exclude: Phrase | None = None,
) -> Phrase:
    """A noun phrase of one of the classes, never about the noun of `exclude`.

    `mode` "sure": known to the listener (the, this, my); "not": for the object of a negation."""
    noun = rng_choice(rng, nouns_of(classes))
    if exclude and noun.english == exclude.lemma:
        raise NoCandidate
    mass = "mass" in noun.classes.split()
    plural = not singular and not mass and rng.random() < 0.25
    if "unique" in noun.classes.split():
        return noun_phrase(noun, "the")
    det = choose_determiner(rng, mode, plural, mass)
    return noun_phrase(noun, det, plural, *choose_adjectives(rng, noun))


def with_determiner(rng: Random, classes: str, dets: list[str], plural: float = 0.0) -> Phrase:
    """A noun phrase that begins with one of `dets`; with the probability `plural` in the plural,
    where a becomes three."""
    noun = rng_choice(rng, nouns_of(classes))
    many = rng.random() < plural
    det = rng_choice(rng, dets)
    det = "three" if det == "a" and many else det
    return noun_phrase(noun, det, many, *choose_adjectives(rng, noun))


def similar_noun(rng: Random, slots: Slots) -> Phrase:
    "Another noun of the subject's class."
    classes = slots["S"].classes
    kind = classes.split()[-1 if "mass" in classes else 0]
    return choose_noun(rng, kind, "sure", exclude=slots["S"])


def what_a(rng: Random, slots: Slots) -> Phrase:
    "what a big house, quelle grande maison: without the what, which the pattern says."
    noun = rng_choice(rng, nouns_of("animal building plant clothes land"))
    adjective = rng_choice(rng, adjectives_for(noun.classes, noun.english, "b"))
    phrase = noun_phrase(noun, "a", False, adjective)
    what = "quelle" if noun.gender == "f" else "quel"
    return phrase._replace(french=((what, "d"), *phrase.french[1:]))


def place(rng: Random, slots: Slots, remark: str = "") -> Phrase:
    "in the kitchen, near the lake, on the table, at the station; `remark` out: not indoors."
    en, fr, classes, _ = rng_choice(rng, [row for row in lexicon()["place"] if remark in row[3]])
    noun = choose_noun(rng, classes, "sure", singular=True)
    return noun.with_words(words_of(en, "p"), words_of(fr, "p", "fr"))


# People -------------------------------------------------------------------------------------------
@cache
def pronouns() -> dict[str, Phrase]:
    "I, he, she, we, they as subjects; they is ils unless known."
    return {
        en: Phrase(words_of(en), words_of(fr), int(person), gender, en, "person")
        for en, _, fr, *_, person, gender in lexicon()["pronoun"]
    }


@cache
def names() -> list[Phrase]:
    "First names."
    return [
        Phrase(words_of(en), words_of(fr), 2, gender, en, "person")
        for en, fr, gender in lexicon()["name"]
    ]


def person(rng: Random, slots: Slots, kind: str = "") -> Phrase:
    "A pronoun, a name, or a noun of the class person; `kind` may ask for one of the first two."
    draw = rng.random()
    if kind == "pronoun" or not kind and draw < 0.4:
        return rng_choice(rng, list(pronouns().values()))
    if kind == "name" or draw < 0.65:
        return rng_choice(rng, names())
    return choose_noun(rng, "person")


def he_or_she(rng: Random, slots: Slots) -> Phrase:
    "One person whose sex the English shows."
    draw = rng.random()
    if draw < 0.4:
        return rng_choice(rng, names())
    if draw < 0.6:
        return pronouns()[rng_choice(rng, ["he", "she"])]
    return choose_noun(rng, "person", "sure", singular=True)


def guest(rng: Random, slots: Slots) -> Phrase:
    "Somebody with a name or a noun."
    return rng_choice(rng, [person(rng, slots, "name"), choose_noun(rng, "person", "sure")])


def anybody(rng: Random, slots: Slots) -> Phrase:
    "A person, or a thing that the listener knows."
    if rng.random() < 0.35:
        return person(rng, slots)
    return choose_noun(rng, CONCRETE, "sure")


def vocative(rng: Random, slots: Slots) -> Phrase:
    "Who is spoken to: it decides between tu and vous."
    if rng.random() < 0.35:
        return rng_choice(rng, names())._replace(person=1)
    en, fr, gender, code = rng_choice(rng, lexicon()["vocative"])
    return Phrase(
        words_of(en), words_of(fr, language="fr"), int(code[0]), gender, en, "person", code[1:]
    )


def you(rng: Random, slots: Slots) -> Phrase:
    "tu or vous, with gender and number of the one spoken to."
    spoken_to = slots["Y"]
    word = "tu" if spoken_to.person == 1 else "vous"
    return spoken_to._replace(english=words_of("you"), french=words_of(word), lemma="you")


def yours(rng: Random, slots: Slots) -> Phrase:
    "Your thing: ton, ta, tes or votre, vos, as the one spoken to has it."
    noun = rng_choice(rng, nouns_of("small clothes pair text dog cat"))
    plural = rng.random() < 0.3
    key = "your (tu)" if slots["Y"].person == 1 else "your (vous)"
    word = determiner(key, noun, plural, noun.french, False)
    return noun_phrase(noun, "", plural).with_words(words_of("your", "d"), words_of(word, "d"))


def clitic(rng: Random, slots: Slots, column: int = 3) -> Phrase:
    "me, him, her, us, them, for somebody else than the subject."
    row = rng_choice(rng, lexicon()["pronoun"])
    if row[0] in ("I", "we") and slots["S"].lemma in ("I", "we"):
        raise NoCandidate
    return pronouns()[row[0]]._replace(english=words_of(row[1]), french=words_of(row[column]))


def them(rng: Random, slots: Slots) -> Phrase:
    "The object pronoun for a noun: it, them; le, la, les."
    referent = slots["N"]
    french = "les" if referent.plural else "le" if referent.gender == "m" else "la"
    english = "them" if referent.plural else "it"
    return referent._replace(english=words_of(english), french=words_of(french))


# Verbs, and what they ask for ---------------------------------------------------------------------
def suits(v: Verb, need: str) -> bool:
    "Whether a verb has what a pattern needs; noprog, say, in its remarks rules prog out."
    match need:
        case "past" if v.past == v.base:  # it can't be told from the present
            return False
        case "bare":
            return not v.preposition and not v.prep_fr
        case "folk":
            return "person" in v.objects.split()
        case "things":
            return "person" not in v.objects.split()
        case "by":  # a person can do it
            return "person" in v.subjects.split()
    return "no" + need not in v.remarks.split()


@cache
def verbs_of(kind: str, needs: tuple[str, ...]) -> list[Verb]:
    "Verbs of a kind that suit all the needs."
    return [v for v in verbs() if v.kind == kind and all(suits(v, need) for need in needs)]


def subject(rng: Random, slots: Slots, mode: str = "") -> Phrase:
    "Somebody or something that can do what the verb says."
    classes = slots["V"].subjects
    if "person" in classes.split() and rng.random() < 0.5:
        return person(rng, slots, rng_choice(rng, ["pronoun", "name"]))
    return choose_noun(rng, classes, mode)


def subject_but_speaker(rng: Random, slots: Slots) -> Phrase:
    "A subject that isn't the speaker."
    if (phrase := subject(rng, slots)).lemma == "I":
        raise NoCandidate
    return phrase


def object_of(rng: Random, slots: Slots, mode: str = "", singular: str = "") -> Phrase:
    "Something that the verb can be done to, with its preposition."
    v = slots["V"]
    mode = "sure" if "def" in v.remarks.split() else mode
    noun = choose_noun(rng, v.objects, mode, bool(singular), exclude=slots.get("S"))
    return noun.with_words(words_of(v.preposition, "^V"), words_of(v.prep_fr, "^V", "fr"))


# Adjectives and fixed expressions -----------------------------------------------------------------
def quality(
    rng: Random, slots: Slots, name: str = "S", remark: str = "", exclude: str = ""
) -> Adjective:
    "An adjective that slot `name` can be said to have, other than the one of slot `exclude`."
    noun = slots[name]
    chosen = rng_choice(rng, adjectives_for(noun.classes, noun.lemma, "bacp", remark))
    if exclude and chosen == slots[exclude] or chosen.english in dict(noun.english):
        raise NoCandidate
    return chosen


def item(rng: Random, slots: Slots, kind: str, *wanted: str) -> Phrase:
    "A fixed expression of the lexicon, such as `tomorrow`."
    en, fr, *_ = rng_choice(rng, [row for row in lexicon()[kind] if {*wanted} <= {*row[2:]}])
    return Phrase(words_of(en), words_of(fr, language="fr"), lemma=en)


def marked(text: str, language: str) -> TaggedWords:
    "The words of an expression: all linked to each other, its marks to themselves."
    return tuple(
        (word, "" if word[0].isalpha() else "^" + word) for word in split_words(text, language)
    )


def idiom(rng: Random, slots: Slots, whom: str = "") -> Phrase:
    "A fixed expression, for somebody or for itself."
    rows = [row for row in lexicon()["idiom"] if bool(row[3]) == bool(whom)]
    en, tu, vous, mark = rng_choice(rng, rows)
    french = vous if whom and slots[whom].person > 1 else tu
    return Phrase(marked(en, "en"), marked(french, "fr"), lemma=en, classes=mark)


def mark_of(rng: Random, slots: Slots) -> Phrase:
    "The mark that ends a fixed expression."
    words = marked(slots["I"].classes, "en")
    return Phrase(words, words)


SLOT_FILLERS = {
    # people
    "subject": subject,
    "other": subject_but_speaker,
    "person": person,
    "he": he_or_she,
    "guest": guest,
    "any": anybody,
    "vocative": vocative,
    "you": you,
    "yours": yours,
    "them": them,
    "clitic": clitic,
    # not those of the subject
    "folk": lambda rng, slots: choose_noun(rng, "person", "sure", exclude=slots.get("S")),
    "us": lambda rng, slots: pronouns()["we"],
    "who": lambda rng, slots: Phrase(words_of("who"), words_of("qui"), lemma="who"),
    "dative": partial(clitic, column=4),  # me, lui, nous, leur
    # things and places
    "object": object_of,
    "like": similar_noun,
    "fine": what_a,
    "place": place,
    # that the listener knows
    "noun": lambda rng, slots: choose_noun(rng, CONCRETE, "sure"),
    "thing": lambda rng, slots, verb_slot="": choose_noun(
        rng, slots[verb_slot].objects if verb_slot else PLACED, "sure"
    ),
    "goal": lambda rng, slots: choose_noun(rng, "building", "sure", singular=True),
    # new to the listener; one such, or three
    "one": lambda rng, slots: with_determiner(rng, PLACED + " animal", ["a"]),
    "a": lambda rng, slots: with_determiner(rng, PLACED + " animal", ["a"], 0.3),
    "mine": lambda rng, slots: with_determiner(rng, OWNED, MY + ["a"]),
    "need": lambda rng, slots: with_determiner(rng, PLACED, "a the my this".split()),
    "bare": lambda rng, slots: noun_phrase(rng_choice(rng, nouns_of(BARE)), "", True),
    # verbs, adjectives, fixed expressions
    "quality": quality,
    "item": item,
    "idiom": idiom,
    "mark": mark_of,
    "verb": lambda rng, slots, kind, *needs: rng_choice(rng, verbs_of(kind, needs)),
    "named": lambda rng, slots, *bases: rng_choice(rng, [v for v in verbs() if v.base in bases]),
    # another one for the same slot; how it is at the moment
    "second": lambda rng, slots, name, exclude: quality(rng, slots, name, "", exclude),
    "state": lambda rng, slots: rng_choice(rng, [a for a in adjectives() if "state" in a.remarks]),
}
