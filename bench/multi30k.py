"""Multi30k from scratch in a fixed budget of processor time: ours beside nn.Transformer trained the
textbook way.

    python bench/multi30k.py             en-de and en-fr, 240 seconds a training: seven trainings
    python bench/multi30k.py --trial     seconds: a tiny model on the pocket corpus

Both train for the same processor seconds on one thread (a busy machine does not stretch those),
with the same pairs, joint subwords and sizes. `ours` is the book's model and loop by chapter 18's
recipe: pre-norm, Muon, batches of tokens, a rate that falls to zero; how far it has fallen is how
much of the budget is used, so that it ends at zero however fast the machine is. Three trials of 60
seconds on en-de led to 1,024 tokens a batch (2,048 before) and to no dropout, which less than two
epochs don't need. `textbook` is the nn.Transformer twin: post-norm, Adam, Noam, random batches of
64, dropout 0.1. In both products are in bf16 where that is faster. Its warm-up is the best of
--warmups by validation loss at the full budget, tried in German. Both decode with the book's beam
of four and are scored on test 2016. Both have chapter 12's `Trainer`; the textbook's gradient is
PyTorch's cross-entropy on all logits. Validation and decoding are outside the budget. A run that
the record holds is not repeated."""

import time
from collections.abc import Iterator

import torch
from common import BENCH, Record, options, scores, where
from twin import RandomBatches, Twin, textbook_loss

from transformer_lit.data import load_corpus, read_multi30k
from transformer_lit.model import TransformerConfig
from transformer_lit.recipes.recipes import SMALL
from transformer_lit.runtime.devices import autocast, resolve_precision
from transformer_lit.runtime.optimizers import MuonAndAdam
from transformer_lit.schedule import noam_lr
from transformer_lit.tokenization import SubwordTokenizer
from transformer_lit.batching import PairBatches
from transformer_lit.training import Trainer, TrainingConfig, validation_loss
from transformer_lit.translation import Translator, translate_ids

OURS = dict(norm="pre", dropout=0.0, max_tokens=1024, peak=6e-3, rise=0.05)
TEXTBOOK = dict(norm="post", dropout=0.1, batch=64)
TINY = dict(d_model=32, n_heads=2, d_ff=64, n_encoder_layers=1, n_decoder_layers=1)
SEED, EPOCHS = 1, 1000  # more than a budget lasts


def rate_at(used: float, peak: float, rise: float) -> float:
    "Up in a line over the first `rise` of the budget, then down to zero at its end."
    return peak * max(0.0, min(used / rise, (1 - used) / (1 - rise)))


class Budget:
    "An `on_step` that stops when the next step would not end in the budget."

    def __init__(self, seconds: float):
        self.seconds, self.used, self.start = seconds, 0.0, time.process_time()

    def __call__(self, trainer: Trainer) -> None:
        self.used = time.process_time() - self.start
        trainer.run.stop_requested |= self.used * (1 + 1 / trainer.step) > self.seconds


def ours(tokens: SubwordTokenizer, sizes: dict, ids: list, budget: Budget) -> tuple:
    "The book's model and loop; the rate follows the budget."
    r = OURS
    model = Translator.untrained(
        tokens, tokens, **sizes, norm=r["norm"], dropout=r["dropout"]
    ).model
    config = TrainingConfig(EPOCHS, r["max_tokens"], precision=resolve_precision(), seed=SEED)
    trainer = Trainer(
        model,
        config,
        optimizer=MuonAndAdam(model),
        lr_schedule=lambda step: rate_at(budget.used / budget.seconds, r["peak"], r["rise"]),
    )
    return trainer, PairBatches(ids, config), r | {"optimizer": "muon"}


def textbook_gradient(trainer: Trainer, source, target):
    with autocast(source.device, trainer.config.precision):
        loss = textbook_loss(trainer.model, source, target)
    loss.backward()
    return loss.detach()


def textbook(tokens: SubwordTokenizer, sizes: dict, ids: list, warmup: int) -> tuple:
    "nn.Transformer, Adam, Noam."
    r = TEXTBOOK
    config = TransformerConfig(len(tokens), **sizes, norm=r["norm"], dropout=r["dropout"])
    settings = TrainingConfig(EPOCHS, clip_norm=0.0, precision=resolve_precision(), seed=SEED)
    trainer = Trainer(
        Twin(config),
        settings,
        lr_schedule=lambda step: noam_lr(step, config.d_model, warmup),
        gradient_fn=textbook_gradient,
    )
    return trainer, RandomBatches(ids, settings), r | {"optimizer": "adam", "warmup": warmup}


def run(way: str, language: str, warmup: int | None, o) -> dict:
    if o.trial:
        parts, sizes = {part: pairs[:400] for part, pairs in load_corpus("pocket").items()}, TINY
        parts["test"] = parts["test"][:8]
    else:
        parts = {part: read_multi30k(part, language) for part in ("train", "valid", "test")}
        sizes = SMALL
    sides = (side for pair in parts["train"] for side in pair)
    tokens = SubwordTokenizer.train(sides, 400 if o.trial else 5000)
    empty = Translator(None, tokens, tokens)
    ids, valid = (empty.encode_pairs(parts[part]) for part in ("train", "valid"))
    torch.manual_seed(SEED)
    budget = Budget(o.budget)
    if way == "ours":
        trainer, batches, recipe = ours(tokens, sizes, ids, budget)
    else:
        trainer, batches, recipe = textbook(tokens, sizes, ids, warmup)
    budget.start = time.process_time()
    trainer.fit(batches, callback=budget)
    model, (english, french) = trainer.model.eval(), zip(*parts["test"])
    outputs = translate_ids(model, [tokens.encode(text) for text in english], 4, 64, "fp32")
    bleu = scores(list(map(tokens.decode, outputs)), [[text] for text in french])["bleu"]
    return {
        "way": way,
        "language": language,
        "seed": SEED,
        **where(),
        "recipe": recipe | {"precision": trainer.config.precision},
        "parameters": sum(w.numel() for w in model.parameters()),
        "steps": trainer.step,
        "tokens": trainer.n_labels,
        "cpu_seconds": budget.used,
        "valid_loss": validation_loss(model, valid),
        "bleu": bleu["value"],
        **{key: bleu[key] for key in ("low", "high", "signature")},
    }


def plan(o, runs: list[dict]) -> Iterator[tuple[str, str, int | None]]:
    "(way, language, warm-up) of each run; those in German choose the warm-up of those in French."
    for language in ("fr",) if o.trial else ("de", "fr"):
        yield "ours", language, None
        warmups = o.warmups[:1] if o.trial else o.warmups
        if language == "fr" and not o.trial:
            trials = [r for r in runs if (r["way"], r["language"]) == ("textbook", "de")]
            warmups = [min(trials, key=lambda r: r["valid_loss"])["recipe"]["warmup"]]
        for warmup in warmups:
            yield "textbook", language, warmup


def main():
    out = BENCH / "multi30k.json"
    o = options(__doc__, trial=False, budget=0.0, warmups=[100, 200, 400, 800], out=out)
    o.budget = o.budget or (2.0 if o.trial else 240.0)
    record = Record(o.out, corpus="pocket" if o.trial else "multi30k", budget=o.budget)
    runs = record.resume()
    for name, language, warmup in plan(o, runs):
        if any(
            (r["way"], r["language"], r["recipe"].get("warmup")) == (name, language, warmup)
            for r in runs
        ):
            continue
        runs.append(run(name, language, warmup, o))
        print({key: runs[-1][key] for key in ("language", "way", "steps", "valid_loss", "bleu")})
        record.write(warmups=o.warmups)


if __name__ == "__main__":
    main()
