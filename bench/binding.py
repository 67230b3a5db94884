"""Chapter 20's question where no table answers it: which noun is *it*, when verb and adjective fit both?

    python bench/binding.py                     # three seeds, an hour and a half on one thread; the same command goes on after a stop
    python bench/binding.py --only generate     # a second: some sentences, and what tables know of the test

In the corpus's own *it* sentences verb and adjective say which noun is meant (chapter 16). Here two sentences go before that say
how each noun was, in either order, and the adjective that comes back decides:

    The bird was slow. The mouse was fat. The bird didn't catch the mouse because it was too fat.

Both adjectives fit both nouns, and each comes back as often for the one as for the other. So a table of (verb, adjective), the
nearer noun, the first one and the subject are right in half of the test. The nouns differ in gender; the test's couples of nouns
stand in no training sentence of any kind. The pocket recipe trains on the pocket corpus and these sentences together.

The record, book/results/bench/binding.json, holds for each seed the share of right pronouns: chosen between il and elle with the
French before it given, and written freely by greedy decoding; with all heads, and without the encoder's.
"""

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from random import Random

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from common import BENCH, command, keep, kept_runs, where  # noqa: E402
from transformer_lit.attention_maps import attention_modules, without_heads  # noqa: E402
from transformer_lit.masks import BOS  # noqa: E402
from transformer_lit.pocket import (  # noqa: E402
    CELLS,
    NoCandidate,
    Noun,
    PocketPair,
    Slots,
    adjectives,
    antecedents,
    frames,
    it_nouns,
    load_pocket,
    noun_phrase,
    part_of,
    pick,
    realise,
    refer,
    triple_of,
    two_nouns,
    words_of,
)
from transformer_lit.recipes.recipes import RECIPES, train_translator  # noqa: E402
from transformer_lit.tokens import split_words  # noqa: E402
from transformer_lit.training import collate  # noqa: E402
from transformer_lit.translation import Translator, answers  # noqa: E402

SIZES = {"train": 12_000, "test": 1_000}
STATES = ("{0} =be.past@{0}/s {1}@{0}/y .", "{0} =être.imp@{0}/s {1}@{0}/y .")
LAST = (
    "S didn't/n V.base O because/b R =be.past@R/x too/v A@R .",
    "S ne/n V.aux pas/n V.part O parce/b que/b R =être.imp@R/x trop/v A@R .",
)


# Sentences ----------------------------------------------------------------------------------------
def graded(noun: Noun) -> list:
    "Adjectives that fit a noun and that a thing can be too much of."
    classes = {noun.english, *noun.classes.split()}
    return [
        x
        for x in adjectives()
        if x.place in "bacp" and "graded" in x.remarks and classes & set(x.classes.split())
    ]


def one(rng: Random, cell: tuple, first: str) -> PocketPair:
    """Genders and who is meant as in `CELLS`; `first`, S or O, is described first. NoCandidate
    where nothing fits."""
    a_gender, b_gender, who = cell
    frame = pick(rng, frames())
    a, b = pick(rng, it_nouns(frame.first, a_gender)), pick(rng, it_nouns(frame.second, b_gender))
    both = [x for x in graded(a) if x in graded(b)]
    if a == b or len(both) < 2:
        raise NoCandidate
    named = pick(rng, both)
    other = pick(rng, [x for x in both if x != named])
    slots: Slots = {
        "V": frame.verb,
        "S": noun_phrase(a, "the"),
        "B": noun_phrase(b, "the"),
        "A": named,
        "Z": other,
    }
    slots["O"] = slots["B"].with_words(
        words_of(frame.verb.preposition, "^V"), words_of(frame.verb.prep_fr, "^V", "fr")
    )
    slots["R"] = refer(rng, slots, who)
    said = {"S": "A" if who == "S" else "Z", "B": "A" if who == "O" else "Z"}
    order = ("S", "B") if first == "S" else ("B", "S")
    english, french = (
        " ".join([*(states.format(noun, said[noun]) for noun in order), last])
        for states, last in zip(STATES, LAST)
    )
    return realise(f"binding:{frame.name}", slots, english, french, triple_of(slots))


def binding(seed: int, sizes: dict[str, int]) -> dict[str, list[PocketPair]]:
    """Distinct sentences of both parts; couples of the one are not in the other. In the test all
    cells whose genders differ come equally often, each with either noun described first."""
    rng, found = Random(seed), {part: {} for part in sizes}  # type: Random, dict[str, dict]
    asked = [(cell, first) for cell in CELLS for first in "SO"]
    differing = [case for case in asked if case[0][0] != case[0][1]]
    for part, cases in (("train", asked), ("test", differing)):
        for case in cycle(cases):
            if len(found[part]) == sizes[part]:
                break
            while True:
                try:
                    pair = one(rng, *case)
                except NoCandidate:
                    continue
                if part_of(pair.triple) == part and pair.english not in found[part]:
                    break
            found[part][pair.english] = pair
    return {part: list(pairs.values()) for part, pairs in found.items()}


def pronoun(french: str) -> str | None:
    "The last il or elle of a translation, None without one."
    return next(
        (word for word in reversed(split_words(french.lower(), "fr")) if word in ("il", "elle")),
        None,
    )


def tables(train: Iterable[PocketPair], test: list[PocketPair]) -> dict[str, float]:
    "What tables know: the share of the test that each gets right."

    def facts(pair: PocketPair) -> dict:
        first, second, _ = antecedents(pair)
        words = split_words(pair.english)
        nouns = [w for w in words if w in pair.triple.split("|")]  # in the order of the text
        gender = dict(zip((pair.triple.split("|")[0], pair.triple.split("|")[2]), (first, second)))
        return {
            "described first": gender[nouns[0]],
            "described last": gender[nouns[1]],
            "subject": first,
            "object": second,
            "key": (pair.pattern, words[-2], first, second),
        }

    seen: dict = defaultdict(Counter)
    for pair in train:
        seen[facts(pair)["key"]][pronoun(pair.french)] += 1
    commoner = Counter(pronoun(pair.french) for pair in test).most_common(1)[0]
    right: Counter = Counter()
    for pair in test:
        told = facts(pair)
        answer = {"il": "m", "elle": "f"}[pronoun(pair.french)]
        right.update(
            name
            for name in ("described first", "described last", "subject", "object")
            if told[name] == answer
        )
        guess = seen[told["key"]].most_common(1)
        right["verb, adjective and genders"] += (guess[0][0] if guess else commoner[0]) == pronoun(
            pair.french
        )
    return {
        "the commoner": commoner[1] / len(test),
        **{name: n / len(test) for name, n in sorted(right.items())},
    }


# Right pronouns -----------------------------------------------------------------------------------
def encoder_heads(model) -> list[tuple[str, int, int]]:
    return [
        (*place, head)
        for place, part in attention_modules(model).items()
        if place[0] == "encoder"
        for head in range(part.n_heads)
    ]


@torch.no_grad()
def chosen(translator: Translator, pairs: list[PocketPair]) -> float:
    "The share where the right one of il and elle scores higher, with the French before it given."
    il, elle = (translator.target.encode(word)[0] for word in ("il", "elle"))
    right = 0
    for begin in range(0, len(pairs), 100):
        some = pairs[begin : begin + 100]
        source, target = collate(
            [
                (translator.source.encode(p.english), [BOS] + translator.target.encode(p.french))
                for p in some
            ]
        )
        at = [
            max(i for i, token in enumerate(row) if token in (il, elle)) for row in target.tolist()
        ]
        logits = translator.model(source, target[:, :-1])[range(len(some)), [i - 1 for i in at]]
        right += sum(
            (row[il] > row[elle]).item() == (pronoun(p.french) == "il")
            for row, p in zip(logits, some)
        )
    return right / len(pairs)


def written(translator: Translator, pairs: list[PocketPair]) -> float:
    """The share whose greedy translation has the right pronoun; all sentences at once, where
    `translate` would cut a long text apart."""
    said = answers(translator.model, [translator.source.encode(p.english) for p in pairs], 1, 64)
    return sum(
        pronoun(translator.target.decode(ids)) == pronoun(p.french) for ids, p in zip(said, pairs)
    ) / len(pairs)


def measured(
    translator: Translator, tests: dict[str, list[PocketPair]]
) -> dict[str, dict[str, float]]:
    "Both shares for each test, with all heads and without the encoder's."
    translator.model.eval()
    found = {}
    for name, pairs in tests.items():
        with without_heads(translator.model, encoder_heads(translator.model)):
            bare = {
                "chosen, no encoder head": chosen(translator, pairs),
                "written, no encoder head": written(translator, pairs),
            }
        found[name] = {
            "chosen": chosen(translator, pairs),
            "written": written(translator, pairs),
            **bare,
        }
    return found


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument(
        "--train",
        type=int,
        default=SIZES["train"],
        help="binding sentences beside the pocket corpus",
    )
    p.add_argument(
        "--pocket", type=int, default=None, help="pairs of the pocket corpus (default: all)"
    )
    p.add_argument("--test", type=int, default=SIZES["test"])
    p.add_argument("--only", choices=["generate"])
    p.add_argument(
        "--home",
        type=Path,
        default=ROOT / ".run/binding",
        help="where trainings go on (default: .run/binding)",
    )
    p.add_argument("--out", type=Path, default=BENCH / "binding.json")
    o = p.parse_args()
    torch.set_num_threads(1)
    corpus, ours = load_pocket(), binding(1, {"train": o.train, "test": o.test})
    kept = {couple for pair in ours["test"] for couple in two_nouns(pair)}
    train = [pair for pair in corpus["train"][: o.pocket] if not two_nouns(pair) & kept] + ours[
        "train"
    ]
    known = tables(ours["train"], ours["test"])
    if o.only:
        for pair in ours["test"][:8]:
            print(pair.english, pair.french, sep="\n  ")
        print(
            {name: round(share, 3) for name, share in known.items()},
            f"{len(train)} pairs to train on",
        )
        return
    tests = {"binding": ours["test"], "the corpus's own": corpus["test_it"][: o.test]}
    shipped = measured(Translator.from_pretrained(ROOT / "data/checkpoints/pocket"), tests)
    base = RECIPES["pocket"]
    settings = {
        "epochs": o.epochs,
        "binding": o.train,
        "pairs": len(train),
        "test": o.test,
        "tables": known,
        "shipped": shipped,
    }
    runs = kept_runs(o.out, **settings)
    for seed in range(len(runs) + 1, o.seeds + 1):
        recipe = replace(base, training=replace(base.training, seed=seed, epochs=o.epochs))
        parts = {
            "train": [(x.english, x.french) for x in train],
            "valid": [(x.english, x.french) for x in corpus["valid"]],
            "test": [],
        }
        translator, _ = train_translator(o.home / str(seed), recipe, parts, [])
        runs.append({"seed": seed, **measured(translator, tests)})
        print(runs[-1], flush=True)
        keep(
            o.out, {"command": command(p, out=None, home=None), **where(), **settings, "runs": runs}
        )


if __name__ == "__main__":
    main()
