"""Templates of the pocket corpus: the order in which slots are filled, and the topics."""

from functools import cache

from transformer_lit.grammar.french import lexicon
from transformer_lit.grammar.slots import Slots

DEFAULTS = {"S": "subject", "O": "object", "X": "folk"}
# of verbs: transitive, with a preposition, of giving, intransitive, of going
KINDS = ("tv", "tp", "dit", "iv", "go")


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
        if kind in KINDS + ("verb",):
            kind, arguments = "verb", [kind, *arguments]
        steps.append((slot, kind, arguments))
    filled = {slot for slot, *_ in steps}
    subject_fillers = {kind for slot, kind, _ in steps if slot == "S"} - {"other"}
    for _, kind, arguments in steps:
        if subject_fillers and kind == "verb" and arguments[0] in KINDS:
            arguments.append("by")  # whoever was chosen is a person: the verb must allow it
    for lemma, form, *_ in parts:
        if lemma in ("S", "O") and lemma not in filled:
            is_definite = form == "def" or lemma == "S" and negative
            mode = "sure" if is_definite else "not" if form == "not" else ""
            steps.append((lemma, DEFAULTS[lemma], [mode]))
            filled.add(lemma)
    rank = {"Y": 0, "V": 1}
    return sorted(steps, key=lambda step: rank.get(step[0], 2))


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
