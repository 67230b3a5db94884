"""Chapter 20's question where no table answers it: which noun is *it*, when verb and adjective fit
both?

    python bench/binding.py                     # three seeds, an hour and a half on one thread; the
                                                # same command goes on after a stop

In the corpus's own *it* sentences verb and adjective say which noun is meant (chapter 16). Here two
sentences go before that say how each noun was, in either order, and the adjective that comes back
decides:

    The bird was slow. The mouse was fat. The bird didn't catch the mouse because it was too fat.

Both adjectives fit both nouns, and each comes back as often for the one as for the other. So a
table of (verb, adjective), the nearer noun, the first one and the subject are right in half of the
test. The nouns differ in gender; the test's couples of nouns stand in no training sentence of any
kind. The pocket recipe trains on the pocket corpus and these sentences together.

The record, book/results/bench/binding.json, holds for each seed the share of greedy translations
with the right pronoun; with all heads, and without the encoder's."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from random import Random

from common import BENCH, ROOT, Record, options

from transformer_lit.attention_analysis import attention_modules, ablate_heads
from transformer_lit.data import load_corpus
from transformer_lit.pocket_corpus import (
    CONDITIONS,
    NoCandidate,
    Noun,
    PocketPair,
    adjectives,
    noun_and_pronoun_genders,
    load_frames,
    nouns_of_gender,
    load_pocket,
    noun_phrase,
    assign_split,
    rng_choice,
    realize_pair,
    subject_pronoun,
    triple_of,
    noun_pairs,
    words_of,
)
from transformer_lit.recipes.recipes import RECIPES, train_translator
from transformer_lit.tokenization import split_words
from transformer_lit.translation import Translator, translate_ids

STATES = ("{0} =be.past@{0}/s {1}@{0}/y .", "{0} =être.imp@{0}/s {1}@{0}/y .")
LAST = (
    "S didn't/n V.base O because/b R =be.past@R/x too/v A@R .",
    "S ne/n V.aux pas/n V.part O parce/b que/b R =être.imp@R/x trop/v A@R .",
)
PRONOUNS = {"il": "m", "elle": "f"}


# Sentences ----------------------------------------------------------------------------------------


def graded(noun: Noun) -> list:
    "Adjectives that fit a noun and that a thing can be too much of."
    classes = {noun.english, *noun.classes.split()}
    return [
        x
        for x in adjectives()
        if x.place in "bacp" and "graded" in x.remarks and classes & set(x.classes.split())
    ]


def sentence(rng: Random, cell: tuple, first: str) -> PocketPair:
    """Genders and who is meant as in `CONDITIONS`; `first`, S or O, is described first. NoCandidate
    where nothing fits."""
    a_gender, b_gender, who = cell
    frame = rng_choice(rng, load_frames())
    a, b = rng_choice(rng, nouns_of_gender(frame.subject_classes, a_gender)), rng_choice(
        rng, nouns_of_gender(frame.object_classes, b_gender)
    )
    both = [x for x in graded(a) if x in graded(b)]
    if a == b or len(both) < 2:
        raise NoCandidate
    named = rng_choice(rng, both)
    other = rng_choice(rng, [x for x in both if x != named])
    verb, object_ = frame.verb, noun_phrase(b, "the")
    words = words_of(verb.preposition, "^V"), words_of(verb.prep_fr, "^V", "fr")
    slots = {"V": verb, "S": noun_phrase(a, "the"), "B": object_, "A": named, "Z": other}
    slots["O"] = object_.with_words(*words)
    slots["R"] = subject_pronoun(rng, slots, who)
    adjectives = {"S": "A", "B": "Z"} if who == "S" else {"S": "Z", "B": "A"}
    order = "SB" if first == "S" else "BS"
    english, french = (
        " ".join([*(state.format(noun, adjectives[noun]) for noun in order), last])
        for state, last in zip(STATES, LAST)
    )
    return realize_pair(f"binding:{frame.name}", slots, english, french, triple_of(slots))


def binding(seed: int, sizes: dict[str, int]) -> dict[str, list[PocketPair]]:
    """Distinct sentences of both parts; couples of the one are not in the other. In the test all
    cells whose genders differ come equally often, each with either noun described first."""
    rng, parts = Random(seed), {}
    cases = [(cell, first) for cell in CONDITIONS for first in "SO"]
    differing = [case for case in cases if case[0][0] != case[0][1]]
    for part, its_cases in (("train", cases), ("test", differing)):
        pairs: dict[str, PocketPair] = {}
        while len(pairs) < sizes[part]:
            with suppress(NoCandidate):
                pair = sentence(rng, *its_cases[len(pairs) % len(its_cases)])
                if assign_split(pair.triple) == part:
                    pairs.setdefault(pair.english, pair)
        parts[part] = list(pairs.values())
    return parts


def pronoun(french: str) -> str | None:
    "The last il or elle of a translation, None without one."
    words = reversed(split_words(french.lower(), "fr"))
    return next((word for word in words if word in PRONOUNS), None)


def tables(train: Iterable[PocketPair], test: list[PocketPair]) -> dict[str, float]:
    "What tables know: the share of the test that each gets right."

    def genders(pair: PocketPair) -> dict[str, str]:
        subject, object_, _ = noun_and_pronoun_genders(pair)
        noun, _, last = pair.triple.split("|")
        gender = {noun: subject, last: object_}
        in_order = [gender[word] for word in split_words(pair.english) if word in gender]
        names = ("described first", "described last", "subject", "object")
        return dict(zip(names, (*in_order[:2], subject, object_)))

    def key(pair: PocketPair) -> tuple:
        return pair.pattern, split_words(pair.english)[-2], *noun_and_pronoun_genders(pair)[:2]

    pronouns: dict = defaultdict(Counter)
    for pair in train:
        pronouns[key(pair)][pronoun(pair.french)] += 1
    common, count = Counter(pronoun(pair.french) for pair in test).most_common(1)[0]
    right: Counter = Counter()
    for pair in test:
        answer = pronoun(pair.french)
        right.update(n for n, gender in genders(pair).items() if gender == PRONOUNS[answer])
        guesses = pronouns[key(pair)] or {common: 1}
        right["verb, adjective and genders"] += max(guesses, key=guesses.get) == answer
    shares = {name: n / len(test) for name, n in sorted(right.items())}
    return {"the commoner": count / len(test), **shares}


# Right pronouns -----------------------------------------------------------------------------------


def written(translator: Translator, pairs: list[PocketPair]) -> float:
    """The share whose greedy translation has the right pronoun; all sentences at once, where
    `translate` would cut a long text apart."""
    sources = [translator.source_tokenizer.encode(p.english) for p in pairs]
    outputs = translate_ids(translator.model, sources, 1, 64, precision="fp32")
    texts = map(translator.target_tokenizer.decode, outputs)
    return sum(pronoun(text) == pronoun(p.french) for text, p in zip(texts, pairs)) / len(pairs)


def measured(translator: Translator, tests: dict[str, list[PocketPair]]) -> dict[str, dict]:
    "The share for each test, with all heads and without the encoder's."
    model = translator.model.eval()
    heads = [
        (*place, head)
        for place, part in attention_modules(model).items()
        if place[0] == "encoder"
        for head in range(part.n_heads)
    ]
    shares: dict[str, dict] = {name: {} for name in tests}
    for way, switched_off in (("written", []), ("written, no encoder head", heads)):
        with ablate_heads(model, switched_off):
            for name, pairs in tests.items():
                shares[name][way] = written(translator, pairs)
    return shares


def main() -> None:
    o = options(
        __doc__,
        seeds=3,
        epochs=8,
        train=12_000,  # binding sentences
        pocket=int,  # pairs of the pocket corpus beside them
        test=1_000,
        home=ROOT / ".run/binding",
        out=BENCH / "binding.json",
    )
    corpus, ours = load_pocket(), binding(1, {"train": o.train, "test": o.test})
    held_out = {couple for pair in ours["test"] for couple in noun_pairs(pair)}
    train = [pair for pair in corpus["train"][: o.pocket] if not noun_pairs(pair) & held_out]
    train += ours["train"]
    tests = {"binding": ours["test"], "the corpus's own": corpus["test_it"][: o.test]}
    record = Record(
        o.out,
        epochs=o.epochs,
        binding=o.train,
        pairs=len(train),
        test=o.test,
        tables=tables(ours["train"], ours["test"]),
        shipped=measured(Translator.load(ROOT / "data/checkpoints/pocket"), tests),
    )
    runs, base = record.resume(), RECIPES["pocket"]
    pairs = [(pair.english, pair.french) for pair in train]
    parts = {"train": pairs, "valid": load_corpus("pocket")["valid"], "test": []}
    for seed in range(len(runs) + 1, o.seeds + 1):
        recipe = replace(base, training=replace(base.training, seed=seed, epochs=o.epochs))
        translator, _ = train_translator(o.home / str(seed), recipe, parts, [])
        runs.append({"seed": seed, **measured(translator, tests)})
        print(runs[-1])
        record.write()


if __name__ == "__main__":
    main()
