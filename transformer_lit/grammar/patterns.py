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
    steps = []
    for part in spec.split(";"):
        slot, _, rule = part.strip().partition("=")
        kind, *arguments = rule.split()
        steps.append((slot, kind, arguments))
    filled = {slot for slot, *_ in steps}
    for lemma, form, *_ in parts:
        if lemma in DEFAULTS.keys() - filled:
            is_definite = form == "def" or lemma == "S" and negative
            mode = "sure" if is_definite else "not" if form == "not" else ""
            steps.append((lemma, DEFAULTS[lemma], [mode]))
            filled.add(lemma)
    return steps


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
