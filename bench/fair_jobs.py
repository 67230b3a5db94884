"""One job of the comparisons: a training with its scores, the lines of n-grams, the clock, or
chapter 26's families. `fair.py` says which are due.

A training is chapter 22's run (`training_for`) in a folder, so that a stop loses nothing: it goes
on from its checkpoint and ends with the same losses, bit by bit. Its row has the loss on all
validation pairs, by which the search chooses, and, for the seeds that count, what is reported: the
loss of each test sentence, BLEU and chrF with signatures, what was said."""

import hashlib
import json
import statistics
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import accumulate
from pathlib import Path

import families
import ngrams
import torch
from jobs import Dirty, Resumable, clean, keep_row, row_of  # noqa: F401

from transformer_lit import decoder_only, equal_cost, rnn, since_2017
from transformer_lit.equal_cost import (
    SCALES,
    Design,
    Ground,
    MeteredTrainer,
    Scale,
    batches_for,
    cost,
    count_parameters,
    fit_size,
    ground,
    labels,
    score,
    training_for,
)
from transformer_lit.evaluation import scores
from transformer_lit.loss import shift_right
from transformer_lit.masks import PAD
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.pocket import load_pocket
from litbook import word_maps
from transformer_lit.runs.run import fingerprint
from transformer_lit.runs.checkpoints import save_weights
from transformer_lit.runtime.devices import resolve_precision
from transformer_lit.runs.records import git_commit, hardware_name
from transformer_lit.tokens import Subwords
from transformer_lit.training import PairBatches, collate, token_batches, validation_loss

# Where --------------------------------------------------------------------------------------------

GROUNDS: dict[str, Scale] = SCALES | {
    "pocket": replace(SCALES["pocket"], tokens=2_000_000, search=300_000)
}
SEEDS, SEARCH_SEEDS = GROUNDS["tatoeba"].seeds, GROUNDS["tatoeba"].search_seeds
LOOKS = (
    25,
    50,
    100,
    150,
    200,
    300,
    400,
    500,
    700,
    1000,
    1300,
    1650,
    2000,
    2500,
    3000,
    3500,
    4000,
    5000,
    6000,
)  # thousands
LOOK_PAIRS = 600


@dataclass
class Field(Ground):
    "Chapter 22's text of a ground, and the digest of all its pairs."

    digest: str


@cache
def field_of(name: str, longest: int = 100) -> Field:
    """The text of a ground in ids. Its digest covers every pair, so that records tell whether they
    belong together."""
    text = ground(GROUNDS[name].corpus, longest)
    valid = [pair for pair in text.valid if max(map(len, pair)) <= longest]
    return Field(
        **vars(text) | {"valid": valid, "digest": fingerprint([*text.train, *valid, *text.test])}
    )


# Who ----------------------------------------------------------------------------------------------


def build_untied(vocab: int, sizes: dict, parameters: int) -> Transformer:
    """Three matrices of embeddings where the others have one. At the same number of parameters that
    leaves narrower layers."""

    def of(d_model: int, d_ff: int) -> Transformer:
        model = Transformer(
            TransformerConfig(vocab, **sizes | dict(d_model=d_model, d_ff=d_ff, tied=False))
        )
        torch.nn.init.ones_(model.decoder.norm.weight)
        return model

    least = sizes["d_ff"] // sizes["d_model"]
    for d_model in range(
        sizes["d_model"], 0, -2 * sizes["n_heads"]
    ):  # the widest that leaves a feed-forward its share
        with torch.device("meta"):
            fits = count_parameters(of(d_model, least * d_model)) <= parameters
        if fits:
            return of(
                d_model, fit_size(partial(of, d_model), parameters, range(8, 4 * sizes["d_ff"], 8))
            )
    raise ValueError(f"{parameters} parameters are too few for untied embeddings of {vocab} tokens")


def without_order(design: Design) -> Design:
    """The same, but the words of each source come sorted by number: a bag. EOS and pads have the
    lowest numbers, so they stay last."""

    def build(vocab: int, sizes: dict, parameters: int) -> torch.nn.Module:
        model = design.build(vocab, sizes, parameters)
        read = model.encode
        model.encode = lambda source: read(source.sort(1, descending=True).values)
        return model

    return replace(design, build=build)


UNORDERED = {name: f"{name}-unordered" for name in ("rnn-attention", "transformer")}
COMPETITORS: dict[str, Design] = {
    **equal_cost.DESIGNS,
    **rnn.DESIGNS,
    **decoder_only.DESIGNS,
    **since_2017.DESIGNS,
}
DESIGNS: dict[str, Design] = (
    COMPETITORS
    | {"untied": Design(build_untied)}
    | {bag: without_order(COMPETITORS[name]) for name, bag in UNORDERED.items()}
)


# What ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """A training; or of the kind "ngrams", "clock" or "families", which have no design; tokens of
    the last are steps."""

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
            f"{self.ground}-{self.design}-{self.tokens // 1000}k-p{self.peak:g}-w{self.warmup:g}-s{self.seed}"
        )

    @property
    def judged(self) -> bool:
        "Does it count as a result, or does it only choose a rate?"
        return self.seed not in SEARCH_SEEDS


def where() -> dict:
    "Machine and torch; Muon's products are in bf16 where the processor has units for it."
    return {"hardware": hardware_name(), "torch": torch.__version__, "muon": resolve_precision()}


# A training ---------------------------------------------------------------------------------------


class OneEpoch(PairBatches):
    "A run's batches as one epoch. It draws no random numbers, so a run can go on in the middle."

    def __init__(self, pairs: list, run: MeteredTrainer, batches: list[list[int]]):
        super().__init__(pairs, run.config, steps=len(batches))
        self.batches = batches

    def epoch(self, n: int) -> list[list[int]]:
        return self.batches


def look_steps(pairs: list, batches: list) -> list[int]:
    "The first step at which each of LOOKS is reached, and the last step."
    count = list(accumulate(labels(pairs, batch) for batch in batches))
    found = {
        next(step for step, n in enumerate(count, 1) if n >= 1000 * look)
        for look in LOOKS
        if 1000 * look <= count[-1]
    }
    return sorted(found | {len(batches)})


def without_source(pairs: list) -> list:
    """Each target with another's source, half the list away: neighbours may share one. The loss
    rises by what the right one is worth."""
    half = len(pairs) // 2
    return [(other, target) for (_, target), (other, _) in zip(pairs, pairs[half:] + pairs[:half])]


@torch.no_grad()
def sentence_losses(model: torch.nn.Module, pairs: list) -> list[float]:
    "Nats of each target, added up over its tokens."
    model.eval()
    found = [0.0] * len(pairs)
    for batch in token_batches(pairs, 4096):
        source, target = collate([pairs[i] for i in batch])
        read, say = shift_right(target)  # two of (n, T)
        nats = -model(source, read).log_softmax(-1).gather(-1, say[..., None])[..., 0]
        for i, value in zip(batch, nats.masked_fill(say == PAD, 0.0).sum(1).tolist()):
            found[i] = value
    return found


ATTENDS = (
    "transformer",
    "2017",
    "rnn-attention",
)  # on pocket, their words are aligned as they learn


@torch.no_grad()
def alignment_error(model: torch.nn.Module, tokens: Subwords) -> float:
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


def train(job: Job, folder: Path) -> tuple[Resumable, Field]:
    "The finished run, begun or gone on with in `folder`. ValueError if the loss is nan."
    field, scale = field_of(job.ground), replace(GROUNDS[job.ground], tokens=job.tokens)
    batches = batches_for(field.train, scale.max_tokens, job.tokens, job.seed)
    design = replace(DESIGNS[job.design], warmup=job.warmup)
    prepared = training_for(design, scale, len(field.tokens), job.peak, len(batches), job.seed)
    run = Resumable.of(
        prepared,
        folder=folder,
        every=max(2, len(batches) // 6),
        plan={**asdict(job), "scale": asdict(scale), "data": field.digest, **where()},
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
            if job.ground == "pocket" and job.judged and job.design in ATTENDS:
                found["alignment"] = alignment_error(run.model, field.tokens)
            return found

    run.fit(OneEpoch(field.train, run, batches), on_step=look)
    run.model.eval()
    return run, field


def train_and_score(job: Job, folder: Path) -> tuple[dict, str | None]:
    "The row of a training, and what was said, a line for each test sentence."
    run, field = train(job, folder)
    steps = [entry["loss"] for entry in run.log if entry["kind"] == "step"]
    row = {
        "steps": run.step,
        **cost(run),
        "valid_loss": validation_loss(run.model, field.valid),
        "data": field.digest,
        "losses_sha256": hashlib.sha256(json.dumps(steps).encode()).hexdigest(),
        "curve": [
            [entry["tokens"], entry["cpu"], entry["valid"], entry["other"]]
            for entry in run.log
            if "valid" in entry
        ],
    }
    if not job.judged:
        return row, None
    if links := [
        [entry["tokens"], entry["alignment"]] for entry in run.log if "alignment" in entry
    ]:
        row["alignment"] = links
    nats = sentence_losses(run.model, field.test)
    found, said = score(run.model, field)
    row |= found | {
        "chrf": scores(said, field.references)[1],
        "test_loss": sum(nats) / sum(len(t) - 1 for _, t in field.test),
        "sentences": [round(x, 3) for x in nats],
    }
    if job.seed == SEEDS[0]:
        save_weights(folder.parents[1] / "weights" / f"{job.name}.safetensors", run.model)
    return row, "\n".join(said) + "\n"


# N-grams and the clock ----------------------------------------------------------------------------


def count_ngrams(job: Job) -> dict:
    "Losses of the three n-grams that counted on the batches of a run with that budget and seed."
    field, scale = field_of(job.ground), GROUNDS[job.ground]
    seen = ngrams.targets(
        field.train, batches_for(field.train, scale.max_tokens, job.tokens, job.seed)
    )
    found = {
        part: ngrams.lines(seen, ngrams.targets(pairs), len(field.tokens))
        for part, pairs in (("valid", field.valid), ("test", field.test))
    }
    return {
        part: {name: one["loss"] for name, one in rows.items()} for part, rows in found.items()
    } | {
        "sentences": {name: one["sentences"] for name, one in found["test"].items()},
        "pairs": len(seen),
        "sentence_tokens": [len(target) - 1 for _, target in field.test],
        "data": field.digest,
    }


def clock(job: Job, names: list[str], rounds: int = 30) -> dict:
    """Processor seconds per target token of each design, steps interleaved: in each round every
    design takes the same batch."""
    field, scale = field_of(job.ground), GROUNDS[job.ground]
    batches = batches_for(field.train, scale.max_tokens, 10**5, 1)[: rounds + 2]
    runs = {
        name: training_for(DESIGNS[name], scale, len(field.tokens), 1e-4, 1000, 1) for name in names
    }
    spent: dict[str, list] = {name: [] for name in names}
    for batch in batches:
        source, target = collate([field.train[i] for i in batch])
        for name, run in runs.items():
            run.every, before = 10**9, (run.cpu, run.wall)
            run.model.train()
            run.train_step(source, target)
            count = labels(field.train, batch)
            spent[name].append(((run.cpu - before[0]) / count, (run.wall - before[1]) / count))
    timed = {name: list(zip(*rows[2:])) for name, rows in spent.items()}  # the first two warm up
    return {
        "rounds": rounds,
        "data": field.digest,
        "cpu_seconds_per_token": {name: statistics.median(cpu) for name, (cpu, _) in timed.items()},
        "seconds_per_token": {name: statistics.median(wall) for name, (_, wall) in timed.items()},
    }


# All jobs alike -----------------------------------------------------------------------------------


def clean_commit() -> str:
    "The commit, if the tree is as it was committed. Raises Dirty if not."
    return clean(git_commit())


def do(job: Job, home: Path, names: list[str]) -> dict:
    """Do a job or go on with it; returns its row, which is kept in `home`. Raises Dirty unless the
    tree is clean."""

    def work(folder: Path) -> tuple[dict, str | None]:
        if job.kind == "train":
            return train_and_score(job, folder)
        others = {
            "ngrams": count_ngrams,
            "clock": lambda job: clock(job, names),
            "families": lambda job: families.run(job.tokens, job.seed, job.peak),
        }
        return others[job.kind](job), None

    return keep_row(job, home, clean_commit(), work, budget=job.tokens, **where())
