"""Three languages that nobody speaks: each has syllables of its own."""

SYLLABLES = {
    "a": "ka to mi ra ne su lo".split(),
    "b": "bru gwen thar ild oms fex".split(),
    "c": "zhi qua xol puy djek vish".split(),
}


def line(language, rng):
    return " ".join(
        "".join(rng.choice(SYLLABLES[language]) for _ in range(rng.randint(1, 3)))
        for _ in range(rng.randint(4, 8))
    )
