"""Is each choice of `ours` worth keeping? Each taken back to the paper's, at equal tokens, three seeds.

    python bench/choices.py --store FOLDER    some 40 trainings of 75 to 150 processor seconds, and their looks
    python bench/choices.py --trial           seconds: a tiny model on the pocket corpus, and the record says so

The model is chapter 21's tiny one on general-en-fr, whose token store is only read. `ours`: pre-norm, Muon, a rate that
rises over the first 2/27 and falls to zero (as in the recorded run), 2,048 tokens a batch, peak 4e-3. Against it
post-norm; Adam; Noam's shape, with the same rise, in place of the fall to zero; batches of half and of twice the size.
Each, `ours` too, searches its peak with the first seed: from 4e-3 on the double and the half of the best so far are
tried until both are worse, and the best goes on to the other seeds. Every run sees the same number of target tokens
(to a batch), and with a seed the same pairs, start and dice; the rate is a function of the tokens seen. What counts is
the loss on 1,000 pairs of newstest2013, and beside it on 500 pairs of the corpus that no run trains on. A run that the
record holds is not repeated, so a stopped plan goes on; the summary covers what is there.
"""
import argparse
import itertools
import math
import random
import statistics
from pathlib import Path

import torch
from common import BENCH, Clock, command, keep, kept_runs, where
from torch import nn

from transformer_lit import equal_cost
from transformer_lit.data import load, read_news
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.tokens import Subwords
from transformer_lit.training import PairBatches, Trainer, TrainingConfig, validation_loss
from transformer_lit.support.optimizers import MuonAndAdam
from transformer_lit.support.precision import precision_here
from transformer_lit.support.recipes import SMALL
from transformer_lit.translation import Translator

OURS = dict(norm="pre", optimizer="muon", rate="fall", max_tokens=2048, peak=4e-3)
RISE = 400 / 5400  # of all tokens
CHOICES = {  # name -> what is taken back
    "ours": dict(), "post-norm": dict(norm="post"), "Adam": dict(optimizer="adam"), "Noam": dict(rate="noam"),
    "half the batch": dict(max_tokens=1024), "twice the batch": dict(max_tokens=4096)}
TINY = dict(d_model=32, n_heads=2, d_ff=64, n_encoder_layers=1, n_decoder_layers=1)


class Data:
    "Encoded pairs to train on, a fresh draw for each seed, and two held-out sets."

    def __init__(self, o):
        if o.trial:
            parts = load("pocket")
            tokens = Subwords.build((side for pair in parts["train"][:300] for side in pair), 400)
            encode = Translator(None, tokens, tokens).encode_pairs
            self.pairs, self.apart = encode(parts["train"][:300]), 20
            self.news = encode(parts["valid"][:20])
        else:
            from transformer_lit.support.store import TokenStore
            from transformer_lit.support.sampling import evenly
            self.pairs, self.apart = TokenStore(o.store), 500
            tokens = self.pairs.tokens()
            news = evenly(read_news("newstest2013", "fr"), 1000)
            self.news = Translator(None, tokens, tokens).encode_pairs(news)
        self.vocabulary = len(tokens)
        dice = random.Random(0)
        self.held = set(dice.sample(range(len(self.pairs)), self.apart))
        self.corpus = [self.pairs[i] for i in sorted(self.held)]

    def draw(self, seed: int, tokens: int) -> list:
        "Pairs with at least so many target tokens."
        dice, chosen, count = random.Random(seed), {}, 0
        while count < 1.1 * tokens and len(chosen) < len(self.pairs) - len(self.held):
            i = dice.randrange(len(self.pairs))
            if i not in self.held and i not in chosen:
                chosen[i] = self.pairs[i]
                count += len(chosen[i][1]) - 1
        return list(chosen.values())


def rate_at(shape: str, used: float, peak: float) -> float:
    "After a share `used` of the tokens: up in a line, then down to zero in a line, or as the root of what is used."
    if used < RISE:
        return peak * used / RISE
    return peak * ((1 - used) / (1 - RISE) if shape == "fall" else (RISE / used) ** 0.5)


def until_spent(ids: list, config: TrainingConfig, tokens: int) -> list[float]:
    "For each step until so many target tokens are spent: the tokens up to the middle of its batch, where its rate is taken."
    batches, count, middles = PairBatches(ids, config), 0, []
    for epoch in itertools.count():
        for batch in batches.epoch(epoch):
            if count >= tokens:
                return middles
            n = sum(len(ids[i][1]) - 1 for i in batch)
            middles.append(count + n / 2)
            count += n


def train(data, settings: dict, seed: int, tokens: int, sizes: dict) -> tuple:
    "One run to the given number of target tokens: the model, steps, tokens and time."
    s = settings
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(data.vocabulary, **sizes, norm=s["norm"]))
    if s["norm"] == "pre":
        nn.init.constant_(model.decoder.norm.weight, 1.0)
    ids, clock = data.draw(seed, tokens), Clock()
    config = TrainingConfig(max_tokens=s["max_tokens"], precision=precision_here(), seed=seed)
    middles = until_spent(ids, config, tokens)
    trainer = Trainer(model, config, optimizer=MuonAndAdam(model) if s["optimizer"] == "muon" else None, reseed=False,
                      schedule=lambda step: rate_at(s["rate"], min(1.0, middles[step - 1] / tokens), s["peak"]))
    with clock:
        trainer.fit(PairBatches(ids, config, steps=len(middles)))
    return model, trainer.step, trainer.tokens, clock


def run(data, choice: str, peak: float, seed: int, o) -> dict:
    settings = {**OURS, **CHOICES[choice], "peak": peak}
    if o.trial:
        settings["max_tokens"] //= 8
    try:
        model, steps, count, clock = train(data, settings, seed, o.tokens, TINY if o.trial else SMALL)
        losses = {"news": validation_loss(model, data.news), "corpus": validation_loss(model, data.corpus)}
        if not math.isfinite(sum(losses.values())):
            raise ValueError(f"held-out losses {losses}")
    except ValueError as error:  # the loss is no number any more
        return {"choice": choice, "peak": peak, "seed": seed, "settings": settings, "failed": str(error)}
    return {"choice": choice, "peak": peak, "seed": seed, "settings": settings, **losses, "steps": steps,
            "tokens": count, "parameters": sum(w.numel() for w in model.parameters()), "cpu_seconds": clock.cpu,
            "seconds": clock.wall}


def plan(runs: list[dict], seeds: list[int]):
    "The next (choice, peak, seed), None at the end: first every search, then the best peaks with the other seeds."
    for choice in CHOICES:
        if peak := next_peak(runs, choice, seeds[0]):
            return choice, peak, seeds[0]
    done = {(r["choice"], r["peak"], r["seed"]) for r in runs}
    rest = ((choice, best_peak(runs, choice, seeds[0]), seed) for seed in seeds[1:] for choice in CHOICES)
    return next((one for one in rest if one[1] and one not in done), None)


def search(runs: list[dict], choice: str, seed: int) -> list[dict]:
    "The choice's runs with that seed, as chapter 22 keeps a search."
    return [{"seed": seed, "search": True, "peak": r["peak"], "valid_loss": r.get("news", math.inf)}
            for r in runs if (r["choice"], r["seed"]) == (choice, seed)]


def next_peak(runs: list[dict], choice: str, seed: int) -> float | None:
    "As chapter 22 searches, from one peak on; while nothing trains, down from there, six times at most."
    tried = search(runs, choice, seed)
    if tried and len(tried) < 6 and equal_cost.best_peak(tried, seed) is None:
        return min(r["peak"] for r in tried) / 2
    return equal_cost.next_peak(tried, seed, (OURS["peak"],))


def best_peak(runs: list[dict], choice: str, seed: int) -> float | None:
    return equal_cost.best_peak(search(runs, choice, seed), seed)


def summary(runs: list[dict], seeds: list[int]) -> list[dict]:
    "A row a choice at its best peak: mean, lowest and highest of the seeds, and the same of the difference to ours."
    rows, ours = [], {}
    for choice in CHOICES:
        peak = best_peak(runs, choice, seeds[0])
        mine = {r["seed"]: r for r in runs if (r["choice"], r["peak"]) == (choice, peak) and "news" in r}
        ours = ours or mine
        if not mine:
            continue
        row = {"choice": choice, "peak": peak, "seeds": len(mine),
               "peaks_tried": sorted({r["peak"] for r in runs if (r["choice"], r["seed"]) == (choice, seeds[0])})}
        for name in ("news", "corpus"):
            away = [r[name] - ours[seed][name] for seed, r in mine.items() if seed in ours]
            for kind, values in ((name, [r[name] for r in mine.values()]), (f"{name}_worse", away)):
                row |= {kind: statistics.mean(values), f"{kind}_low": min(values), f"{kind}_high": max(values)}
        row["steps"] = statistics.median(r["steps"] for r in mine.values())
        row["cpu_seconds"] = statistics.median(r["cpu_seconds"] for r in mine.values())
        rows.append(row)
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--store", type=Path, default=Path("runs/store-general-en-fr-8k"), help="a token store, only read")
    p.add_argument("--trial", action="store_true", help="the pocket corpus, a tiny model, two seeds")
    p.add_argument("--tokens", type=int, help="target tokens of each run; default: 220,000, trial 2,000")
    p.add_argument("--seeds", nargs="+", type=int, help="default: 1 2 3, trial 1 2")
    p.add_argument("--most", type=int, help="stop after so many runs; the next call goes on")
    p.add_argument("--out", type=Path, default=BENCH / "choices.json")
    o = p.parse_args()
    torch.set_num_threads(1)
    o.tokens = o.tokens or (2_000 if o.trial else 220_000)
    seeds = o.seeds or ([1, 2] if o.trial else [1, 2, 3])
    head = {"corpus": "pocket" if o.trial else "general-en-fr", "tokens": o.tokens}
    runs, data = kept_runs(o.out, **head), Data(o)
    begun = len(runs)
    while (todo := plan(runs, seeds)) and (o.most is None or len(runs) < begun + o.most):
        runs.append(run(data, *todo, o))
        print({k: v for k, v in runs[-1].items() if k != "settings"}, flush=True)
        typed = command(p, store=Path("runs") / o.store.name)
        keep(o.out, {"command": typed, **where(), **head, "ours": OURS, "sizes": TINY if o.trial else SMALL,
                     "news_pairs": len(data.news), "corpus_pairs": len(data.corpus), "seeds": seeds,
                     "choices": summary(runs, seeds), "runs": runs})


if __name__ == "__main__":
    main()
