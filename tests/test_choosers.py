"""Who fills the slots of a pattern: each chooser draws what fits, and raises NoCandidate where
nothing does."""

from random import Random


from transformer_lit import pocket_corpus
from transformer_lit.grammar.french import (
    noun_phrase,
    nouns_of,
    starts_with_vowel,
    verbs,
)
from transformer_lit.grammar.patterns import slot_order, triple_of, weighted_patterns
from transformer_lit.grammar.slots import (
    SLOT_FILLERS,
    NoCandidate,
    names,
    pronouns,
)

VERBS = {verb.base: verb for verb in verbs()}
STREET, BREAD, DOCTOR = (noun_phrase(nouns_of(w)[0], "the") for w in ("street", "bread", "doctor"))
TU, VOUS = (names()[0]._replace(person=person) for person in (1, 4))


def plain(words):
    return " ".join(word for word, _ in words)


def draws(kind, slots, *arguments, n=300):
    "What a chooser draws, draws that make no sense left out."
    rng, drawn = Random(3), []
    for _ in range(n):
        try:
            drawn.append(SLOT_FILLERS[kind](rng, slots, *arguments))
        except NoCandidate:
            continue
    assert drawn, f"{kind} draws nothing"
    return drawn


def french(kind, *arguments):
    return {plain(phrase.french) for phrase in draws(kind, *arguments)}


def lemmas(kind, *arguments):
    return {phrase.lemma for phrase in draws(kind, *arguments)}


def test_you_is_as_the_one_spoken_to():
    whom = {v.lemma: SLOT_FILLERS["you"](None, {"Y": v}) for v in draws("vocative", {})}
    forms = {lemma: (plain(y.french), y.gender, y.plural) for lemma, y in whom.items()}
    assert forms["Dad"] == forms["Paul"] == ("tu", "m", False), "a father is vous"
    assert forms["madam"] == ("vous", "f", False) and forms["girls"] == ("vous", "f", True)
    assert {words.split()[0] for words in french("yours", {"Y": VOUS})} == {"votre", "vos"}
    for phrase in draws("yours", {"Y": TU}):
        (word, _), (noun, _) = phrase.french[:2]
        vowel = phrase.gender == "m" or starts_with_vowel(noun)
        assert word == ("tes" if phrase.plural else "ton" if vowel else "ta")  # ta before a vowel


def test_pronouns_for_objects():
    assert french("dative", {"S": names()[0]}) == {"me", "lui", "nous", "leur"}
    assert french("clitic", {"S": names()[0]}) == {"me", "le", "la", "nous", "les"}
    for speaker in ("I", "we"):
        assert not lemmas("clitic", {"S": pronouns()[speaker]}) & {"I", "we"}  # I see me
    for gender, expected in (("m", "le"), ("f", "la")):
        assert french("them", {"N": STREET._replace(gender=gender)}) == {expected}


def test_subjects_and_objects_of_a_verb():
    eat = {"V": VERBS["eat"]}
    assert any("walker" in phrase.classes for phrase in draws("subject", eat))
    assert "I" in lemmas("subject", eat) and "I" not in lemmas("other", eat)
    assert "bread" not in lemmas("object", eat | {"S": BREAD}), "bread eats bread"
    assert "doctor" not in lemmas("folk", {"S": DOCTOR})  # a doctor meets the doctor
    assert "street" not in lemmas("like", {"S": STREET})


def test_every_pattern_can_be_filled():
    "Each chooser that the table names exists, and each pattern gives a sentence."
    rng = Random(1)
    for name, spec, en, fr in dict.fromkeys(weighted_patterns()):
        for _ in range(300):
            slots = {}
            try:
                for slot, kind, arguments in slot_order(spec, pocket_corpus.parse_template(en)):
                    it = pocket_corpus.subject_pronoun
                    filler = it if kind == "it" else SLOT_FILLERS[kind]
                    slots[slot] = filler(rng, slots, *arguments)
            except NoCandidate:
                continue
            assert pocket_corpus.realize_pair(name, slots, en, fr, triple_of(slots)).french
            break
        else:
            raise AssertionError(f"the pattern {name} is never filled")
