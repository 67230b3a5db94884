"""Multi30k from scratch in a fixed budget of processor time: ours beside nn.Transformer trained the textbook way.

    python bench/multi30k.py             en-de and en-fr, 240 seconds a training: seven trainings and their decoding
    python bench/multi30k.py --trial     seconds: a tiny model on the pocket corpus, and the record says so

Both train for the same processor seconds on one thread (a busy machine does not stretch those), with the same pairs,
joint subwords and sizes. `ours` is the book's model and loop by chapter 18's recipe: pre-norm, Muon, batches of tokens,
a rate that falls to zero; how far it has fallen is how much of the budget is used, so that it ends at zero however fast
the machine is. Three trials of 60 seconds on en-de led to 1,024 tokens a batch (2,048 before) and to no dropout, which
less than two epochs don't need. `textbook` is the nn.Transformer twin: post-norm, Adam, Noam, random batches of 64,
dropout 0.1, in fp32 or bf16, whichever is faster here. Its warm-up is the best of --warmups by validation loss at the
full budget, tried in the first language. Both decode with the book's beam of four and are scored on test 2016.
Validation and decoding are outside the budget. A run that the record holds is not repeated.
"""

import argparse
import random
import statistics
from pathlib import Path

import torch
from common import BENCH, Clock, bleu, command, keep, kept_runs, textbook_step, where
from torch import nn
from twin import Twin

from transformer_lit.data import load, read_multi30k
from transformer_lit.masks import PAD
from transformer_lit.model import TransformerConfig
from transformer_lit.schedule import noam
from transformer_lit.tokens import Subwords
from transformer_lit.training import (
    Trainer,
    TrainingConfig,
    collate,
    token_batches,
    validation_loss,
)
from transformer_lit.runtime.optimizers import MuonAndAdam
from transformer_lit.runtime.devices import resolve_precision
from transformer_lit.recipes.recipes import SMALL
from transformer_lit.translation import Translator, answers, create_joint

OURS = dict(norm="pre", dropout=0.0, gain=1.0, max_tokens=1024, peak=6e-3, rise=0.05)
TEXTBOOK = dict(norm="post", dropout=0.1, batch=64)


def parts_of(corpus: str, language: str) -> dict:
    "Training, validation and test pairs."
    if corpus == "pocket":
        found = load("pocket")
        return {name: some[:400] for name, some in found.items()}
    return {name: read_multi30k(name, language) for name in ("train", "valid", "test")}


def rate_at(used: float, peak: float, rise: float) -> float:
    "Up in a line over the first `rise` of the budget, then down to zero at its end."
    return peak * max(0.0, min(used / rise, (1 - used) / (1 - rise)))


def random_batches(n: int, size: int, seed: int) -> list[list[int]]:
    order = list(range(n))
    random.Random(seed).shuffle(order)
    return [order[i : i + size] for i in range(0, n, size)]


class Ours:
    "The book's model and `Trainer`."

    def __init__(self, tokens, sizes, seed):
        r = OURS
        torch.manual_seed(seed)
        self.model = create_joint(tokens, **sizes, norm=r["norm"], dropout=r["dropout"]).model
        nn.init.constant_(self.model.decoder.norm.weight, r["gain"])
        self.recipe = {**r, "optimizer": "muon", "precision": resolve_precision()}

    def begin(self, ids, seed):
        config = TrainingConfig(
            max_tokens=OURS["max_tokens"], precision=self.recipe["precision"], seed=seed
        )
        self.rate = 0.0  # follows the budget that is spent
        self.trainer = Trainer(
            self.model, config, optimizer=MuonAndAdam(self.model), schedule=lambda step: self.rate
        )

    def batches(self, ids, seed):
        return token_batches(ids, OURS["max_tokens"], seed)

    def step(self, n, used, source, target):
        self.rate = rate_at(used, OURS["peak"], OURS["rise"])
        return float(self.trainer.train_step(source, target)["loss"])


class Textbook:
    "nn.Transformer, Adam, Noam."

    def __init__(self, tokens, sizes, seed, warmup):
        r = TEXTBOOK
        torch.manual_seed(seed)
        self.model = Twin(
            TransformerConfig(len(tokens), **sizes, norm=r["norm"], dropout=r["dropout"])
        )
        self.recipe = {**r, "optimizer": "adam", "warmup": warmup}

    def begin(self, ids, seed):
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9
        )
        batches = [collate([ids[i] for i in some]) for some in self.batches(ids, seed)[:4]]
        times = {
            "fp32": [],
            "bf16": [],
        }  # a rate of zero changes nothing but Adam's means, and those begin anew
        for batch in batches:
            for precision in times:
                with Clock() as clock:
                    textbook_step(self.model, self.optimizer, *batch, 0.0, precision)
                times[precision].append(clock.cpu)
        self.recipe["precision"] = min(times, key=lambda name: statistics.median(times[name]))
        self.recipe["seconds"] = {name: statistics.median(some) for name, some in times.items()}
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9
        )

    def batches(self, ids, seed):
        return random_batches(len(ids), TEXTBOOK["batch"], seed)

    def step(self, n, used, source, target):
        rate = noam(n, self.model.config.d_model, self.recipe["warmup"])
        return textbook_step(
            self.model, self.optimizer, source, target, rate, self.recipe["precision"]
        )


def train(way, ids: list, budget: float, seed: int) -> dict:
    "Steps until the next one would not end in the budget."
    way.begin(ids, seed)
    way.model.train()
    torch.manual_seed(seed)
    clock, steps, tokens, epoch, lately = Clock(), 0, 0, 0, []
    while True:
        with clock:
            batches = way.batches(ids, seed + 1000 * epoch)
        for k, batch in enumerate(batches):
            if steps and clock.cpu + clock.cpu / steps > budget:
                return {
                    "steps": steps,
                    "tokens": tokens,
                    "epochs": epoch + k / len(batches),
                    "cpu_seconds": clock.cpu,
                    "seconds": clock.wall,
                    "tokens_per_second": tokens / clock.cpu,
                    "train_smoothed": statistics.mean(lately),
                }
            with clock:
                source, target = collate([ids[i] for i in batch])
                steps += 1
                loss = way.step(steps, clock.cpu / budget, source, target)
            tokens += int((target[:, 1:] != PAD).sum())
            lately = [*lately[-49:], loss]
            if steps % 100 == 0:
                print(
                    f"  {steps} steps, {clock.cpu:.0f} s, loss {statistics.mean(lately):.3f}",
                    flush=True,
                )
        epoch += 1


def score(way, tokens, pairs: list, name: str, beam: int) -> dict:
    "BLEU of the book's beam search, and the first few answers."
    model = way.model.eval()
    with Clock() as clock:
        said = [
            tokens.decode(ids)
            for ids in answers(model, [tokens.encode(e) for e, _ in pairs], beam, 64)
        ]
    return {
        "set": name,
        "lines": len(pairs),
        "beam": beam,
        **bleu(said, [other for _, other in pairs]),
        "decoding_cpu_seconds": clock.cpu,
        "samples": said[:6],
    }  # the captions may not be published


def run(name: str, language: str, warmup: int | None, o) -> dict:
    corpus = "pocket" if o.trial else "multi30k"
    parts = parts_of(corpus, language)
    tokens = Subwords.build(
        (side for pair in parts["train"] for side in pair), 400 if o.trial else o.vocabulary
    )
    sizes = (
        dict(d_model=32, n_heads=2, d_ff=64, n_encoder_layers=1, n_decoder_layers=1)
        if o.trial
        else SMALL
    )
    way = Ours(tokens, sizes, o.seed) if name == "ours" else Textbook(tokens, sizes, o.seed, warmup)
    pairs = Translator(way.model, tokens, tokens)
    ids, valid = (pairs.encode_pairs(parts[part]) for part in ("train", "valid"))
    found = train(way, ids, o.budget, o.seed)
    return {
        "way": name,
        "language": language,
        "seed": o.seed,
        **where(),
        "recipe": way.recipe,
        "sizes": sizes,
        "vocabulary": len(tokens),
        "parameters": sum(w.numel() for w in way.model.parameters()),
        "train": len(ids),
        **found,
        "valid_loss": validation_loss(way.model, valid),
        **score(
            way,
            tokens,
            parts["test"][: o.lines],
            "pocket-test" if o.trial else "multi30k-test2016",
            o.beam,
        ),
    }


def plan(o, runs: list[dict]):
    """(way, language, warm-up) of what is still to do; the first language's runs choose the warm-up
    of the others."""

    def there(way, language, warmup):
        return [
            r
            for r in runs
            if (r["way"], r["language"], r["seed"]) == (way, language, o.seed)
            and warmup in (None, r["recipe"].get("warmup"))
        ]

    for k, language in enumerate(o.languages):
        tried = [
            r
            for r in runs
            if r["way"] == "textbook" and (r["language"], r["seed"]) == (o.languages[0], o.seed)
        ]
        best = min(tried, key=lambda r: r["valid_loss"])["recipe"]["warmup"] if tried else None
        for way, warmup in [("ours", None)] + [
            ("textbook", w) for w in ([best] if k else o.warmups)
        ]:
            if way in o.ways and not there(way, language, warmup):
                yield way, language, warmup


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument(
        "--trial",
        action="store_true",
        help="the pocket corpus, a tiny model, two seconds a training",
    )
    p.add_argument(
        "--budget", type=float, help="processor seconds of each training; default: 240, trial 2"
    )
    p.add_argument(
        "--languages",
        nargs="+",
        choices=["de", "fr"],
        default=None,
        help="default: de fr, trial fr",
    )
    p.add_argument("--ways", nargs="+", choices=["ours", "textbook"], default=["ours", "textbook"])
    p.add_argument(
        "--warmups",
        nargs="+",
        type=int,
        default=[100, 200, 400, 800],
        help="of the textbook's Noam; the best should not be the last",
    )
    p.add_argument("--vocabulary", type=int, default=5000)
    p.add_argument("--lines", type=int, help="of the test set; default: all, trial 40")
    p.add_argument("--beam", type=int, default=4)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out", type=Path, default=BENCH / "multi30k.json")
    o = p.parse_args()
    torch.set_num_threads(1)
    o.budget = o.budget or (2.0 if o.trial else 240.0)
    o.lines = o.lines or (40 if o.trial else None)
    o.languages = o.languages or (["fr"] if o.trial else ["de", "fr"])
    o.warmups = o.warmups[:1] if o.trial else o.warmups
    head = {"corpus": "pocket" if o.trial else "multi30k", "budget": o.budget}
    runs = kept_runs(o.out, **head)
    while todo := next(plan(o, runs), None):
        print(*(x for x in todo if x), flush=True)
        runs.append(run(*todo, o))
        r = runs[-1]
        print(
            f"{head['corpus']} en-{r['language']} {r['way']}: {r['steps']} steps, "
            f"{r['tokens']} tokens, {r['cpu_seconds']:.0f} s, loss {r['valid_loss']:.3f}, "
            f"BLEU {r['bleu']:.1f}",
            flush=True,
        )
        keep(o.out, {"command": command(p), **where(), **head, "warmups": o.warmups, "runs": runs})


if __name__ == "__main__":
    main()
