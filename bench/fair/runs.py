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
from itertools import accumulate, chain
from pathlib import Path

import numpy as np
import pandas as pd
import records
import torch
from common import Clock
from fair import families, lengths, ngrams, tuning
from records import Made, Resumable

from litbook import word_maps
from litbook.search import FULL, SEARCH, SEARCH_SEEDS
from transformer_lit import decoder_only, rnn, variants  # noqa: F401  # they add their VARIANTS
from transformer_lit.comparison import (
    SETUPS,
    VARIANTS,
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
from transformer_lit.batching import collate
from transformer_lit.training import validation_loss
from transformer_lit.translation import Translator

# Where --------------------------------------------------------------------------------------------

GROUNDS: dict[str, Setup] = SETUPS | {
    "pocket": replace(SETUPS["pocket"], n_tokens=FULL, n_search_tokens=SEARCH["pocket"]),
    "german": SETUPS["tatoeba"],
}
# thousands of target tokens
LOOKS = [
    *(25, 50, 100, 150, 200, 300, 400, 500, 700, 1000, 1300, 1650),
    *(2000, 2500, 3000, 3500, 4000, 5000, 6000),
]
LOOK_PAIRS = 600


@cache
def corpus_of(name: str) -> EncodedCorpus:
    "Chapter 22's text of a ground in ids; long pairs don't validate either."
    text = load_encoded_corpus(GROUNDS[name].corpus, "de" if name == "german" else "fr")
    return replace(text, valid=[pair for pair in text.valid if max(map(len, pair)) <= 100])


def digest(data: EncodedCorpus) -> str:
    "Of every pair, so that records tell whether they belong together."
    return fingerprint([*data.train, *data.valid, *data.test])


# Who ----------------------------------------------------------------------------------------------


def build_untied(vocab_size: int, model_sizes: dict, n_parameters: int) -> Transformer:
    """Three matrices of embeddings where the others have one. At the same number of parameters that
    leaves narrower layers."""

    def with_sizes(d_model: int, d_ff: int) -> Transformer:
        sizes = model_sizes | dict(d_model=d_model, d_ff=d_ff, tied_embeddings=False)
        return Transformer(TransformerConfig(vocab_size, **sizes))

    ratio = model_sizes["d_ff"] // model_sizes["d_model"]
    # the widest that leaves a feed-forward its share
    for d_model in range(model_sizes["d_model"], 0, -2 * model_sizes["n_heads"]):
        with torch.device("meta"):
            fits = count_parameters(with_sizes(d_model, ratio * d_model)) <= n_parameters
        if fits:
            build = partial(with_sizes, d_model)
            widths = range(8, 4 * model_sizes["d_ff"], 8)
            return build(match_parameters(build, n_parameters, widths))
    raise ValueError(f"{n_parameters} parameters are too few for untied embeddings")


def pre_norm_without_dropout(vocab_size: int, sizes: dict, n_parameters: int) -> Transformer:
    return variants.parameter_matched("pre")(vocab_size, sizes | {"dropout": 0.0}, n_parameters)


def without_order(design: Variant) -> Variant:
    """The same, but the words of each source come sorted by number: a bag. EOS and pads have the
    lowest numbers, so they stay last."""

    def build(*sizes) -> torch.nn.Module:
        model = design.build(*sizes)
        encode = model.encode
        model.encode = lambda source: encode(source.sort(1, descending=True).values)
        return model

    return replace(design, build=build)


UNORDERED = {name: f"{name}-unordered" for name in ("rnn-attention", "transformer")}
STRONG = {  # one factor at a time on a baseline of today, which is "pre-norm-adamw"
    "rope": variants.ROPE,
    "rms-norm": {"rms_norm": True},
    "swiglu": {"feed_forward": variants.SwiGLU},
    "grouped-query": variants.GQA,
    "all-together": variants.MODERN,
}
DESIGNS: dict[str, Variant] = VARIANTS | {
    "untied": Variant(build_untied),
    "strong-no-smoothing": Variant(variants.parameter_matched("pre"), "adamw", label_smoothing=0.0),
    "strong-no-dropout": Variant(pre_norm_without_dropout, "adamw"),
}
for name, parts in STRONG.items():
    DESIGNS[f"strong-{name}"] = Variant(variants.parameter_matched("pre", **parts), "adamw")
TIMED = list(DESIGNS)  # by the clock, in turns
for name, bag in UNORDERED.items():
    DESIGNS[bag] = without_order(DESIGNS[name])


# What ---------------------------------------------------------------------------------------------


KINDS = "ngrams", "clock", "families"
RANDOM = re.compile(r"random(\d+)-")  # before a design: the number of a random search's trial
NAME = r"(tatoeba|pocket|german)-(.+)-(\d+)(k?)-p([\d.e-]+?)(?:-w([\d.]+))?-s(\d+)"


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
        match = re.fullmatch(NAME, name)
        if not match:
            raise ValueError(f"{name} is no run: as tatoeba-transformer-2000k-p0.012-w0.6-s1")
        place, design, tokens, thousands, peak, warmup, seed = match.groups()
        kind = design if design in KINDS and not warmup else "train"
        if kind == "train" and RANDOM.sub("", design) not in DESIGNS:
            raise ValueError(f"no design is called {design}: {', '.join(DESIGNS)}")
        design, tokens = design * (kind == "train"), int(tokens) * (1000 if thousands else 1)
        job = cls(kind, place, design, tokens, float(peak), float(warmup or 0), int(seed))
        if job.name != name:
            raise ValueError(f"{name} is no run: it would be called {job.name}")
        return job

    @property
    def counts(self) -> bool:
        "Is it a result, or does it only choose a setting?"
        return self.seed not in SEARCH_SEEDS


# A training ---------------------------------------------------------------------------------------


class OneEpoch(FixedBatches):
    "A run's batches as one epoch. It draws no random numbers, so a run can go on in the middle."

    def epoch_batches(self, epoch: int) -> list[list[int]]:
        return self.batches


def look_steps(pairs: list, batches: list) -> list[int]:
    "The first step at which each of LOOKS is reached, and the last step."
    count = list(accumulate(count_labels(pairs, batch) for batch in batches))
    reached = {bisect_left(count, 1000 * look) + 1 for look in LOOKS if 1000 * look <= count[-1]}
    return sorted(reached | {len(batches)})


def without_source(pairs: list) -> list:
    """Each target with another's source, half the list away: neighbors may share one. The loss
    rises by what the right one is worth."""
    middle = len(pairs) // 2
    shifted = pairs[middle:] + pairs[:middle]
    return [(source, target) for (_, target), (source, _) in zip(pairs, shifted)]


def sentence_losses(model: torch.nn.Module, data: EncodedCorpus) -> list[float]:
    "Nats of each target of the test, added up over its tokens."
    translator = Translator(model, data.tokenizer, data.tokenizer)
    pairs = [(source, target[1:-1]) for source, target in data.test]
    return [-total for total in log_probabilities(translator, pairs)]


ATTENDS = "transformer", "2017", "rnn-attention"  # on pocket, their words are aligned


@torch.no_grad()
def alignment_error(model: torch.nn.Module, tokenizer: SubwordTokenizer) -> float:
    """Chapter 23's: of the map of cross-attention that aligns best on validation pairs, the error
    on test pairs. The pocket corpus knows the links."""
    model.eval()
    parts = load_pocket()
    chosen, tested = parts["valid"][:100], parts["test"][:200]
    weights = getattr(model, "attention_weights", None) or word_maps.cross_weights(model)
    return word_maps.best_map(
        word_maps.maps_of(weights, chosen, tokenizer),
        chosen,
        word_maps.maps_of(weights, tested, tokenizer),
        tested,
    )[1]


def train(job: Job, folder: Path) -> tuple[Resumable, EncodedCorpus]:
    "The finished trainer, begun or gone on with in `folder`. ValueError if the loss is nan."
    data, setup = corpus_of(job.ground), replace(GROUNDS[job.ground], n_tokens=job.tokens)
    design, setting = DESIGNS[RANDOM.sub("", job.design)], {"peak": job.peak, "warmup": job.warmup}
    if trial := RANDOM.match(job.design):
        setting = tuning.random_setting(int(trial[1]))
        design = tuning.random_design(setting, design)
        setup = replace(setup, max_tokens=setting["max_tokens"])
    batches = batches_for_budget(data.train, setup.max_tokens, job.tokens, job.seed)
    design, n = replace(design, warmup_ratio=setting["warmup"]), len(data.tokenizer)
    prepared = build_trainer(design, setup, n, setting["peak"], len(batches), job.seed)
    if trial:
        tuning.set_optimizer(prepared.optimizer, setting)
    trainer = Resumable.of(
        prepared,
        folder=folder,
        flop_every=max(2, len(batches) // 6),
        metadata={**asdict(job), "setup": asdict(setup), "data": digest(data), **records.where()}
        | {"setting": setting},
    )
    trainer.config.checkpoint_every = 200
    at, held = set(look_steps(data.train, batches)), data.valid[:LOOK_PAIRS]

    def evaluate(trainer: Resumable) -> dict | None:
        if trainer.step in at:
            losses = {
                "valid": validation_loss(trainer.model, held),
                "other": validation_loss(trainer.model, without_source(held)),
                "cpu": round(trainer.cpu_seconds, 2),
            }
            if job.ground == "pocket" and job.counts and job.design in ATTENDS:
                losses["alignment"] = alignment_error(trainer.model, data.tokenizer)
            return losses

    trainer.fit(OneEpoch(data.train, trainer, batches), callback=evaluate)
    trainer.model.eval()
    return trainer, data


def train_and_score(job: Job, folder: Path) -> Made:
    "A training and, for the seeds that count, its scores."
    trainer, data = train(job, folder)
    looks = [entry for entry in trainer.log_history if "valid" in entry]
    row = {
        "steps": trainer.step,
        **training_cost(trainer),
        "valid_loss": validation_loss(trainer.model, data.valid),
        "data": trainer.metadata["data"],
        "setting": trainer.metadata["setting"],
        "curve": [[look[key] for key in ("n_labels", "cpu", "valid", "other")] for look in looks],
    }
    if not job.counts:
        return Made(row)
    if links := [[look["n_labels"], look["alignment"]] for look in looks if "alignment" in look]:
        row["alignment"] = links
    nats = sentence_losses(trainer.model, data)
    scores, hypotheses = evaluate_variant(trainer.model, data)
    translator = Translator(trainer.model, data.tokenizer, data.tokenizer)
    sides = zip(*(map(data.tokenizer.decode, pair) for pair in data.valid[:LOOK_PAIRS]))
    sources, targets = map(list, sides)
    held = sources, [[target] for target in targets]
    parts = {"valid": held, "test": (data.sources, data.references)}
    row |= scores | {
        "chrf": sacrebleu_scores(hypotheses, data.references)[1],
        "test_loss": sum(nats) / sum(len(t) - 1 for _, t in data.test),
        "searches": lengths.by_length_penalty(translator, parts),
        "early_ends": lengths.early_ends(trainer.model, data.valid),
    }
    counts = np.array(segment_stats(hypotheses, data.references), np.uint16)
    return Made(row, {"losses": np.array(nats, np.float32), "bleu": counts}, hypotheses)


# N-grams and the clock ----------------------------------------------------------------------------


def count_ngrams(job: Job) -> Made:
    "Losses of the n-gram models that counted on the batches of a run with that budget and seed."
    data, setup = corpus_of(job.ground), GROUNDS[job.ground]
    seen = chain(*batches_for_budget(data.train, setup.max_tokens, job.tokens, job.seed))
    train = [data.train[i][1] for i in set(seen)]
    targets, n = [target for _, target in data.valid + data.test], len(data.valid)
    tokens = np.array([len(target) - 1 for target in targets], np.uint16)
    nats = ngrams.losses(train, targets, len(data.tokenizer))
    row = {"pairs": len(train), "data": digest(data)}
    for part, at in ("valid", slice(n)), ("test", slice(n, None)):
        row[part] = {name: each[at].sum() / tokens[at].sum() for name, each in nats.items()}
    return Made(row, {"tokens": tokens[n:]})


def clock(job: Job, rounds: int = 30) -> Made:
    """Median seconds per target token of each design, steps interleaved: in each round every design
    takes the same batch."""
    data, setup = corpus_of(job.ground), GROUNDS[job.ground]
    batches = batches_for_budget(data.train, setup.max_tokens, 10**5, 1)[: rounds + 2]
    trainers = {
        name: build_trainer(DESIGNS[name], setup, len(data.tokenizer), 1e-4, 1000, 1)
        for name in TIMED
    }
    rows = []
    for batch in batches:
        source, target = collate([data.train[i] for i in batch])
        count = count_labels(data.train, batch)
        for name, trainer in trainers.items():
            trainer.flop_every = 10**9
            trainer.model.train()
            with Clock() as spent:
                trainer.train_step(source, target)
            rows.append((name, spent.cpu / count, spent.wall / count))
    columns = ["design", "cpu_seconds_per_token", "seconds_per_token"]
    timed = pd.DataFrame(rows[2 * len(TIMED) :], columns=columns)  # the first two warm up
    medians = timed.groupby("design", sort=False).median()
    return Made({"rounds": rounds, "data": digest(data), **medians.to_dict()})


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
