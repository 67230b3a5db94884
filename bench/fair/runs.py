"""One run of the comparisons: a training with its scores, the losses of n-grams, the clock, or
chapter 26's families.

A training is chapter 22's run (`build_trainer`) in a folder, so that a stop loses nothing: it goes
on from its checkpoint and ends with the same losses, bit by bit. Its line has the loss on all
validation pairs, by which the search chooses, and, for the seeds that count, what is reported: the
loss of each test sentence, BLEU and chrF with signatures, what was said."""

import math
import re
from bisect import bisect_left
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import accumulate
from pathlib import Path

import numpy as np
import pandas as pd
import records
import torch
from common import Clock
from fair import families, ngrams
from records import Made, Resumable

from litbook import word_maps
from litbook.search import FULL, SEARCH, SEARCH_SEEDS
from transformer_lit import decoder_only, comparison, rnn, variants
from transformer_lit.comparison import (
    SETUPS,
    Variant,
    EncodedCorpus,
    FixedBatches,
    Setup,
    batches_for_budget,
    training_cost,
    count_parameters,
    match_parameters,
    load_encoded_corpus,
    count_labels,
    evaluate_variant,
    build_trainer,
)
from transformer_lit.evaluation import segment_stats, sacrebleu_scores
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.pocket_corpus import load_pocket
from transformer_lit.runs.run import fingerprint
from transformer_lit.serving.confidence import log_probabilities
from transformer_lit.tokenization import SubwordTokenizer
from transformer_lit.training import collate, validation_loss
from transformer_lit.translation import Translator

# Where --------------------------------------------------------------------------------------------

GROUNDS: dict[str, Setup] = SETUPS | {
    "pocket": replace(SETUPS["pocket"], tokens=FULL, search=SEARCH["pocket"])
}
# thousands of target tokens
LOOKS = [
    *(25, 50, 100, 150, 200, 300, 400, 500, 700, 1000, 1300, 1650),
    *(2000, 2500, 3000, 3500, 4000, 5000, 6000),
]
LOOK_PAIRS = 600


@cache
def field_of(name: str) -> EncodedCorpus:
    "Chapter 22's text of a ground in ids; long pairs don't validate either."
    text = load_encoded_corpus(GROUNDS[name].corpus)
    return replace(text, valid=[pair for pair in text.valid if max(map(len, pair)) <= 100])


def digest(field: EncodedCorpus) -> str:
    "Of every pair, so that records tell whether they belong together."
    return fingerprint([*field.train, *field.valid, *field.test])


# Who ----------------------------------------------------------------------------------------------


def build_untied(vocab: int, sizes: dict, parameters: int) -> Transformer:
    """Three matrices of embeddings where the others have one. At the same number of parameters that
    leaves narrower layers."""

    def of(d_model: int, d_ff: int) -> Transformer:
        changed = sizes | dict(d_model=d_model, d_ff=d_ff, tied_embeddings=False)
        model = Transformer(TransformerConfig(vocab, **changed))
        torch.nn.init.ones_(model.decoder.norm.weight)
        return model

    least = sizes["d_ff"] // sizes["d_model"]
    # the widest that leaves a feed-forward its share
    for d_model in range(sizes["d_model"], 0, -2 * sizes["n_heads"]):
        with torch.device("meta"):
            fits = count_parameters(of(d_model, least * d_model)) <= parameters
        if fits:
            make = partial(of, d_model)
            return make(match_parameters(make, parameters, range(8, 4 * sizes["d_ff"], 8)))
    raise ValueError(f"{parameters} parameters are too few for untied embeddings of {vocab} tokens")


def pre_norm_without_dropout(vocab: int, sizes: dict, parameters: int) -> Transformer:
    return variants.parameter_matched("pre")(vocab, sizes | {"dropout": 0.0}, parameters)


def without_order(design: Variant) -> Variant:
    """The same, but the words of each source come sorted by number: a bag. EOS and pads have the
    lowest numbers, so they stay last."""

    def build(vocab: int, sizes: dict, parameters: int) -> torch.nn.Module:
        model = design.build(vocab, sizes, parameters)
        read = model.encode
        model.encode = lambda source: read(source.sort(1, descending=True).values)
        return model

    return replace(design, build=build)


UNORDERED = {name: f"{name}-unordered" for name in ("rnn-attention", "transformer")}
STRONG = {  # one factor at a time on a baseline of today, which is "pre-norm-adamw"
    "rope": variants.ROPE,
    "rms-norm": {"rms": True},
    "swiglu": {"feed_forward": variants.SwiGLU},
    "grouped-query": variants.GQA,
    "all-together": variants.MODERN,
}
DESIGNS: dict[str, Variant] = {
    **comparison.VARIANTS,
    **rnn.VARIANTS,
    **decoder_only.VARIANTS,
    **variants.VARIANTS,
    "untied": Variant(build_untied),
    "strong-no-smoothing": Variant(variants.parameter_matched("pre"), "adamw", smoothing=0.0),
    "strong-no-dropout": Variant(pre_norm_without_dropout, "adamw"),
}
for name, parts in STRONG.items():
    DESIGNS[f"strong-{name}"] = Variant(variants.parameter_matched("pre", **parts), "adamw")
TIMED = list(DESIGNS)  # by the clock, in turns
for name, bag in UNORDERED.items():
    DESIGNS[bag] = without_order(DESIGNS[name])


# What ---------------------------------------------------------------------------------------------


KINDS = "ngrams", "clock", "families"
NAME = r"(tatoeba|pocket)-(.+)-(\d+)(k?)-p([\d.e-]+?)(?:-w([\d.]+))?-s(\d+)"


@dataclass(frozen=True)
class Job:
    """A training; or of the kind "ngrams", "clock" or "families", which have no design; tokens of
    the last are steps. Its name says all of it."""

    kind: str
    ground: str
    design: str = ""
    tokens: int = 0
    peak: float = 0.0
    warmup: float = 0.0  # share of the steps
    seed: int = 0

    @property
    def name(self) -> str:
        if self.kind != "train":
            return f"{self.ground}-{self.kind}-{self.tokens}-p{self.peak:g}-s{self.seed}"
        return (
            f"{self.ground}-{self.design}-{self.tokens // 1000}k-p{self.peak:g}"
            f"-w{self.warmup:g}-s{self.seed}"
        )

    @classmethod
    def of(cls, name: str) -> "Job":
        "The run with this name. ValueError if none has it."
        found = re.fullmatch(NAME, name)
        if not found:
            raise ValueError(f"{name} is no run: as tatoeba-transformer-2000k-p0.012-w0.6-s1")
        place, design, tokens, thousands, peak, warmup, seed = found.groups()
        kind = design if design in KINDS and not warmup else "train"
        if kind == "train" and design not in DESIGNS:
            raise ValueError(f"no design is called {design}: {', '.join(DESIGNS)}")
        design, tokens = design * (kind == "train"), int(tokens) * (1000 if thousands else 1)
        return cls(kind, place, design, tokens, float(peak), float(warmup or 0), int(seed))

    @property
    def counts(self) -> bool:
        "Is it a result, or does it only choose a setting?"
        return self.seed not in SEARCH_SEEDS


# A training ---------------------------------------------------------------------------------------


class OneEpoch(FixedBatches):
    "A run's batches as one epoch. It draws no random numbers, so a run can go on in the middle."

    def epoch(self, n: int) -> list[list[int]]:
        return self.batches


def look_steps(pairs: list, batches: list) -> list[int]:
    "The first step at which each of LOOKS is reached, and the last step."
    count = list(accumulate(count_labels(pairs, batch) for batch in batches))
    reached = {bisect_left(count, 1000 * look) + 1 for look in LOOKS if 1000 * look <= count[-1]}
    return sorted(reached | {len(batches)})


def without_source(pairs: list) -> list:
    """Each target with another's source, half the list away: neighbours may share one. The loss
    rises by what the right one is worth."""
    half = len(pairs) // 2
    return [(other, target) for (_, target), (other, _) in zip(pairs, pairs[half:] + pairs[:half])]


def sentence_losses(model: torch.nn.Module, field: EncodedCorpus) -> list[float]:
    "Nats of each target of the test, added up over its tokens."
    translator = Translator(model, field.tokens, field.tokens)
    pairs = [(source, target[1:-1]) for source, target in field.test]
    return [-total for total in log_probabilities(translator, pairs)]


ATTENDS = "transformer", "2017", "rnn-attention"  # on pocket, their words are aligned


@torch.no_grad()
def alignment_error(model: torch.nn.Module, tokens: SubwordTokenizer) -> float:
    """Chapter 23's: of the map of cross-attention that aligns best on validation pairs, the error
    on test pairs. The pocket corpus knows the links."""
    model.eval()
    parts = load_pocket()
    chosen, tested = parts["valid"][:100], parts["test"][:200]
    weights = getattr(model, "alignment", None) or word_maps.cross_weights(model)
    return word_maps.best_map(
        word_maps.maps_of(weights, chosen, tokens),
        chosen,
        word_maps.maps_of(weights, tested, tokens),
        tested,
    )[1]


def train(job: Job, folder: Path) -> tuple[Resumable, EncodedCorpus]:
    "The finished run, begun or gone on with in `folder`. ValueError if the loss is nan."
    field, scale = field_of(job.ground), replace(GROUNDS[job.ground], tokens=job.tokens)
    batches = batches_for_budget(field.train, scale.max_tokens, job.tokens, job.seed)
    design = replace(DESIGNS[job.design], warmup=job.warmup)
    prepared = build_trainer(design, scale, len(field.tokens), job.peak, len(batches), job.seed)
    run = Resumable.of(
        prepared,
        folder=folder,
        every=max(2, len(batches) // 6),
        plan={**asdict(job), "scale": asdict(scale), "data": digest(field), **records.where()},
    )
    run.config.checkpoint_every = 200
    at, held = set(look_steps(field.train, batches)), field.valid[:LOOK_PAIRS]

    def look(run: Resumable) -> dict | None:
        if run.step in at:
            found = {
                "valid": validation_loss(run.model, held),
                "other": validation_loss(run.model, without_source(held)),
                "cpu": round(run.cpu, 2),
            }
            if job.ground == "pocket" and job.counts and job.design in ATTENDS:
                found["alignment"] = alignment_error(run.model, field.tokens)
            return found

    run.fit(OneEpoch(field.train, run, batches), callback=look)
    run.model.eval()
    return run, field


def train_and_score(job: Job, folder: Path) -> Made:
    "A training and, for the seeds that count, its scores."
    run, field = train(job, folder)
    looks = [entry for entry in run.log if "valid" in entry]
    row = {
        "steps": run.step,
        **training_cost(run),
        "valid_loss": validation_loss(run.model, field.valid),
        "data": run.plan["data"],
        "curve": [[look[key] for key in ("tokens", "cpu", "valid", "other")] for look in looks],
    }
    if not job.counts:
        return Made(row)
    if links := [[look["tokens"], look["alignment"]] for look in looks if "alignment" in look]:
        row["alignment"] = links
    nats = sentence_losses(run.model, field)
    found, said = evaluate_variant(run.model, field)
    row |= found | {
        "chrf": sacrebleu_scores(said, field.references)[1],
        "test_loss": sum(nats) / sum(len(t) - 1 for _, t in field.test),
    }
    counts = np.array(segment_stats(said, field.references), np.uint16)
    return Made(row, {"losses": np.array(nats, np.float32), "bleu": counts}, said)


# N-grams and the clock ----------------------------------------------------------------------------


def count_ngrams(job: Job) -> Made:
    "Losses of the three n-grams that counted on the batches of a run with that budget and seed."
    field, scale = field_of(job.ground), GROUNDS[job.ground]
    batches = batches_for_budget(field.train, scale.max_tokens, job.tokens, job.seed)
    train = ngrams.targets(field.train, batches)
    row: dict = {"pairs": len(train), "data": digest(field)}
    for part in ("valid", "test"):
        targets = ngrams.targets(getattr(field, part))
        tokens = np.array([len(target) - 1 for target in targets], np.uint16)
        nats = ngrams.lines(train, targets, len(field.tokens))
        row[part] = {name: each.sum() / tokens.sum() for name, each in nats.items()}
    arrays = {f"losses/{name}": each.astype(np.float32) for name, each in nats.items()}
    return Made(row, arrays | {"tokens": tokens})


def clock(job: Job, rounds: int = 30) -> Made:
    """Median seconds per target token of each design, steps interleaved: in each round every design
    takes the same batch."""
    field, scale = field_of(job.ground), GROUNDS[job.ground]
    batches = batches_for_budget(field.train, scale.max_tokens, 10**5, 1)[: rounds + 2]
    runs = {
        name: build_trainer(DESIGNS[name], scale, len(field.tokens), 1e-4, 1000, 1)
        for name in TIMED
    }
    rows = []
    for batch in batches:
        source, target = collate([field.train[i] for i in batch])
        count = count_labels(field.train, batch)
        for name, run in runs.items():
            run.every = 10**9
            run.model.train()
            with Clock() as spent:
                run.train_step(source, target)
            rows.append((name, spent.cpu / count, spent.wall / count))
    columns = ["design", "cpu_seconds_per_token", "seconds_per_token"]
    timed = pd.DataFrame(rows[2 * len(TIMED) :], columns=columns)  # the first two warm up
    medians = timed.groupby("design", sort=False).median()
    return Made({"rounds": rounds, "data": digest(field), **medians.to_dict()})


# All alike ----------------------------------------------------------------------------------------


def loss_of(row: dict) -> float:
    "The loss by which the search chooses; infinite for a run that didn't train."
    loss = row.get("valid_loss", math.inf)
    return loss if math.isfinite(loss) else math.inf


def make(job: Job, home: Path, folder: Path = records.RUNS) -> dict:
    "Make a run or go on with it; returns its line. What a table has already is only read."

    def work(place: Path) -> Made:
        if job.kind == "train":
            return train_and_score(job, place)
        if job.kind == "families":
            return Made(*families.run(job.tokens, job.seed, job.peak))
        return {"ngrams": count_ngrams, "clock": clock}[job.kind](job)

    facts = asdict(job) | {"budget": job.tokens}
    return records.make_run(job.ground, job.name, facts, work, home, folder)
