"""English forms that stand beside the French ones of the pocket corpus."""

import re

FORMS_OF_BE = {"pres": "am are is are are are", "past": "was were was were were were"}


def english_plural(word: str) -> str:
    "By rule: boxes, cherries, keys, dogs."
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    return re.sub("([^aeou])y$", r"\1ie", word) + "s"


def third_person(base: str) -> str:
    "eats, goes, washes, tries, has."
    return {"have": "has", "go": "goes", "do": "does"}.get(base, english_plural(base))


def english_verb(base: str, form: str, subject) -> list[str]:
    "The words of be or of a regular verb: pres, past or either with -not."
    form, _, negative = form.partition("-")
    if base == "be":
        word = FORMS_OF_BE[form].split()[subject.person]
    else:
        word = third_person(base) if subject.person == 2 else base
    if word == "am" and negative:
        return ["am", "not"]
    return [word + "n't" if negative else word]


def an_or_a(word: str) -> str:
    "By sound: an hour, a uniform."
    return "an" if re.match("(?!uni|use)[aeiou]|hour|honest", word) else "a"
