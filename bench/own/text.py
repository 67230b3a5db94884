"""What the runs of appendix A4 are called, and the text that each of them trains on."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from random import Random

import records

from transformer_lit import data
from transformer_lit.corpora.texts import TextPair, take_evenly
from transformer_lit.custom_pair.clean import reject_pairs
from transformer_lit.custom_pair.train import SIZES, ModelSize
from transformer_lit.data import exclude_sources, group_references, load_corpus
from transformer_lit.recipes import training_sets
from transformer_lit.runs.run import fingerprint

Pairs = list[TextPair]
Test = tuple[list[str], list[list[str]]]  # sentences, the references of each
HELD = 1000  # sentences of a test, and pairs to watch with
CAPTIONS = 10_000  # pairs of another domain
MONOLINGUAL = 100_000  # the most sentences to translate back
SHARE = 0.1  # of noise
BACK, TAG = ("greedy", "sampled"), "<synthetic>"
DOMAIN = ("mixed", "tuned", "captions")


# Names --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """A training from English into French.

    pairs: a row of the table, and so many real pairs; text: what becomes of them, one of TEXTS;
    change: of the row, as "dropout=0.4"; epochs: of the real pairs, 0 as the row says."""

    pairs: int
    text: str = "real"
    seed: int = 1
    change: str = ""
    epochs: int = 0

    @property
    def name(self) -> str:
        changes = filter(None, [self.change, self.epochs and f"e{self.epochs}"])
        return "-".join([str(self.pairs), self.text, *changes, f"s{self.seed}"])

    @classmethod
    def of(cls, name: str) -> "Job":
        "The run with this name. ValueError if none has it."
        match = re.fullmatch(
            r"(\d+)-([\w-]+?(?:\+(?:tagged|cleaned|filtered))?)"
            r"(?:-(\w+=[\d.]+))?(?:-e(\d+))?-s(\d+)", name
        )  # fmt: skip
        if not match or match[2].partition("+")[0] not in TEXTS:
            raise ValueError(f"{name} is no run: as 10000-greedy+tagged-s1")
        pairs, text, change, epochs, seed = match.groups()
        return cls(int(pairs), text, int(seed), change or "", int(epochs or 0))

    @property
    def kind(self) -> str:
        return self.text.partition("+")[0]

    @property
    def way(self) -> str:
        return self.text.partition("+")[2]

    @property
    def needs(self) -> "Job | None":
        "The run that must be there before: it wrote the text, or scored it."
        if self.kind in BACK:
            return Job(self.pairs, "reverse")
        return replace(self, text=self.kind) if self.way == "filtered" else None

    @property
    def size(self) -> ModelSize:
        row = next(size for size in SIZES if size.pairs == self.pairs)
        field, _, value = self.change.partition("=")
        changed = replace(row, **{field: type(getattr(row, field))(value)}) if field else row
        return replace(changed, epochs=self.epochs or row.epochs)

    @property
    def real(self) -> Pairs:
        return corpora().train[: self.pairs]


# Real pairs ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Corpora:
    "All text in its fixed order; no English sentence of `tests` or `valid` is in the rest."

    train: Pairs
    captions: Pairs
    german: Pairs
    valid: dict[str, Pairs]
    tests: dict[str, Test]
    digest: str


@cache
def corpora() -> Corpora:
    parts = {name: load_corpus(name) for name in ("tatoeba", "multi30k")}
    held_out = [
        english
        for corpus in parts.values()
        for english, _ in chain(corpus["valid"], corpus["test"])
    ]
    train, captions = (exclude_sources(corpus["train"], held_out) for corpus in parts.values())
    captions = captions[:CAPTIONS]
    german = exclude_sources(chain.from_iterable(load_corpus("tatoeba", "de").values()), held_out)
    valid = {name: corpus["valid"][:HELD] for name, corpus in parts.items()}
    tests = {
        name: tuple(side[:HELD] for side in group_references(corpus["test"]))
        for name, corpus in parts.items()
    }
    digest = fingerprint([*train, *captions, *valid["tatoeba"], *map(str, tests.values())])
    return Corpora(train, captions, german, valid, tests, digest)


def general(job: Job, folder: Path) -> Pairs:
    "As many pairs as the table's last row: all of Tatoeba's, and law and manuals spread evenly."
    c = corpora()
    held_out = [english for pairs in c.valid.values() for english, _ in pairs]
    held_out += [english for sources, _ in c.tests.values() for english in sources]
    pairs, _ = data.clean_pairs(
        training_sets.text_kind("", training_sets.own_folder("general/en-fr").glob("*.xz")).read()
    )
    return c.train + take_evenly(exclude_sources(pairs, held_out), job.pairs - len(c.train))


# Back-translation ---------------------------------------------------------------------------------


def monolingual(pairs: int) -> list[str]:
    """French sentences to translate back, four for each pair: of pairs that no subset has, and none
    that a test or a subset knows."""
    c, subsets = corpora(), SIZES[2].pairs
    known = [french for _, french in c.train[:subsets] + c.valid["tatoeba"]]
    for _, references in c.tests.values():
        known += chain.from_iterable(references)
    sentences, _ = group_references(
        exclude_sources((pair[::-1] for pair in c.train[subsets:]), known)
    )
    return sentences[: min(4 * pairs, MONOLINGUAL)]


def with_back_translations(job: Job, folder: Path) -> Pairs:
    "What the reverse model wrote is read from its table."
    lines = records.outputs_of("own", job.needs.name, folder)
    tag, column = TAG * (job.way == "tagged"), BACK.index(job.kind)
    synthetic = [
        (tag + line.split("\t")[column], french)
        for line, french in zip(lines, monolingual(job.pairs), strict=True)
    ]
    return job.real + [pair for pair in synthetic if pair[0] not in ("", TAG)]


# Noise --------------------------------------------------------------------------------------------


def misordered(french: str, rng: Random) -> str:
    words = french.split()
    while words == french.split():
        rng.shuffle(words)
    return " ".join(words)


NOISE: dict[str, Callable[[Pairs, Random], Pairs]] = {
    # half the list away, because neighbors may share a sentence
    "misaligned": lambda pairs, _: [
        (english, pairs[(k + len(pairs) // 2) % len(pairs)][1])
        for k, (english, _) in enumerate(pairs)
    ],
    "wrong-language": lambda pairs, _: pairs,
    "untranslated": lambda pairs, _: [(english, english) for english, _ in pairs],
    "misordered": lambda pairs, rng: [(en, misordered(fr, rng)) for en, fr in pairs],
}


def with_noise(kind: str, n: int) -> Pairs:
    """`n` clean pairs, and after them noise, a share of their number, as Khayrallah and Koehn
    (2018) add it.

    All kinds but the wrong language spoil the same pairs, of at least three French words, which no
    subset has."""
    c = corpora()
    if kind == "wrong-language":
        spare = exclude_sources(c.german, (english for english, _ in c.train[:n]))
    else:
        spare = [pair for pair in c.train[SIZES[2].pairs :] if len(set(pair[1].split())) > 2]
    return c.train[:n] + NOISE[kind](spare[: round(SHARE * n)], Random(1))


def noisy(job: Job, folder: Path) -> Pairs:
    pairs = with_noise(job.kind, job.pairs)
    if job.way == "cleaned":
        return [pair for pair, reason in reject_pairs(pairs) if not reason]
    if job.way == "filtered":
        dropped = set(records.arrays_of("own", folder)[f"{job.needs.name}/dropped"].tolist())
        return [pair for k, pair in enumerate(pairs) if k not in dropped]
    return pairs


TEXTS: dict[str, Callable[[Job, Path], Pairs]] = {
    "real": lambda job, _: job.real,
    "reverse": lambda job, _: [pair[::-1] for pair in job.real],
    **dict.fromkeys(BACK, with_back_translations),
    **dict.fromkeys(NOISE, noisy),
    "mixed": lambda job, _: job.real + corpora().captions,
    **dict.fromkeys(["tuned", "captions"], lambda job, _: corpora().captions),
    "general": general,
    "shipped": lambda job, _: corpora().train,  # `tatoeba-fr`, which is only tested
}
