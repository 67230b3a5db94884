"""Templates of the pocket corpus: the order in which slots are filled, and the topics."""

from functools import cache

from transformer_lit.grammar.french import lexicon
from transformer_lit.grammar.slots import Slots

DEFAULTS = {"S": "subject", "O": "object"}


@cache
def slot_order(spec: str, parts: tuple[tuple, ...]) -> list[tuple[str, str, list[str]]]:
    """Which slots of a pattern to fill, in which order and how: (slot, chooser, arguments).

    `spec` is the third column of a pattern, `parts` its English side taken apart by chapter 16:
    (lemma, form, agrees_with, tags)."""
    negative = any("n" in tags for *_, tags in parts)
    rules = {}
    for part in spec.split(";"):
        slot, _, rule = part.strip().partition("=")
        rules[slot] = rule.split()
    for lemma, form, *_ in parts:
        if lemma in DEFAULTS and lemma not in rules:
            is_definite = form == "def" or lemma == "S" and negative
            mode = "sure" if is_definite else "not" if form == "not" else ""
            rules[lemma] = [DEFAULTS[lemma], mode]
    return [(slot, kind, arguments) for slot, (kind, *arguments) in rules.items()]


@cache
def weighted_patterns() -> list[tuple[str, str, str, str]]:
    "(name, spec, English, French) of each pattern, as often as its weight says."
    return [
        (name, spec, en, fr)
        for name, weight, spec, en, fr in lexicon()["pattern"]
        for _ in range(int(weight))
    ]


# What a sentence is about -------------------------------------------------------------------------
def triple_of(slots: Slots) -> str:
    """Subject, verb and object, as in animal|cross|street.

    With the verb be: what the subject is, or where."""
    subject = next(slots[k] for k in "SNIWY" if k in slots)
    verb = slots["V"].base if "V" in slots else "be"
    order = "NOCXL" if "V" in slots else "ANXPY"
    complement = next((slots[k] for k in order if k in slots and slots[k] is not subject), None)
    complement_word = getattr(complement, "lemma", "") or getattr(complement, "english", "-")
    return f"{subject.lemma}|{verb}|{complement_word}"
