"""The laptop article's recipe, the same on nn.Transformer, and ours, on the same words and pairs.

    python bench/laptop_article.py laptop --split sentence     # into runs/laptop-by-sentence
    python bench/laptop_article.py laptop --split pair
    python bench/laptop_article.py twin --epochs 10
    python bench/laptop_article.py ours --precision fp32 --out FOLDER
    python bench/laptop_article.py time                        # bench/to_loss.json, from the runs

50,000 random Tatoeba pairs under 15 words a side; words are lower-cased and split at spaces, those
seen twice in training are known; 90% train, 10% validate, split by English sentence or, as many
tutorials do, by pair. `laptop` is the recipe as the article tells it ("Attention Is All You Need:
Building the Original Transformer that Started the LLM Revolution"), completed where it is silent:
Adam, Noam with 4,000 steps of warm-up, 64 random pairs a batch, dropout 0.1, post-norm, 20 epochs.
`twin` is the same recipe, batch for batch, on nn.Transformer. `ours` changes the recipe: token
batches, pre-norm, Muon on the hidden matrices, a rate that falls to zero after six epochs and once
more in a seventh, embeddings that shrink a little with each step, more dropout. It was found by
some ten trials. All run one thread, in bf16 where the machine has instructions for its products;
`cpu_seconds` is processor time, which a busy machine does not stretch.

Each epoch is a line of FOLDER/log.jsonl; a stopped run goes on; bench/records.py takes it over when
it is done. `time` reads from the recorded runs how long each took to the lowest validation loss of
`laptop`; minutes compare only where machine and precision are the same. With --trial all is tiny
and the corpus is the pocket corpus: seconds."""

import random
from collections import Counter
from functools import partial
from pathlib import Path
from statistics import mean

import torch
from common import BENCH, Clock, Record, options
from litbook.results import load_record
from twin import RandomBatches, Twin

from transformer_lit.corpora.files import sha256_file, shipped
from transformer_lit.data import (
    filter_by_length,
    load_corpus,
    read_tatoeba,
    sentence_key,
    tatoeba_archive,
)
from transformer_lit.masks import BOS, EOS, UNK
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.runs.records import effort
from transformer_lit.runtime.optimizers import MuonAndAdam
from transformer_lit.schedule import linear_lr, noam_lr
from transformer_lit.batching import PairBatches
from transformer_lit.gradients import compute_gradients
from transformer_lit.training import (
    Trainer, TrainingConfig, on_epoch_end, validation_loss)

LAPTOP = dict(epochs=20, norm="post", dropout=0.1, heads=8, batch=64, clip=0.0)
OURS = dict(epochs=7, norm="pre", dropout=0.25, heads=4, tokens=2048, clip=1.0, fall=6)
OURS |= dict(peak=6e-3, warmup=100, shrink=0.3)
RECIPES = {"laptop": LAPTOP, "twin": LAPTOP | dict(stacks="nn.Transformer"), "ours": OURS}
RUNS = {name: f"{name}-by-sentence" for name in RECIPES} | {
    "ours, products": "ours-by-sentence-products"
}


# Data ---------------------------------------------------------------------------------------------


def split(kind: str, trial: bool = False) -> tuple[list, list]:
    "90% and 10% of 50,000 random short pairs, by sentence or by pair."
    if trial:
        pairs = load_corpus("pocket")["train"][:300]
    else:
        pairs = filter_by_length(read_tatoeba(tatoeba_archive()), 15)
        pairs = random.Random(1).sample(pairs, 50_000)
    if kind == "pair":
        cut = len(pairs) * 9 // 10
        return pairs[:cut], pairs[cut:]
    keys = list(dict.fromkeys(sentence_key(english) for english, _ in pairs))
    random.Random(2).shuffle(keys)
    held_out = set(keys[: len(keys) // 10])
    parts = [], []
    for pair in pairs:
        parts[sentence_key(pair[0]) in held_out].append(pair)
    return parts


class Words:
    "Lower-cased words, split at spaces, seen twice or more."

    def __init__(self, sentences):
        counts = Counter(w for s in sentences for w in s.lower().split())
        known = sorted((w for w in counts if counts[w] > 1), key=lambda w: (-counts[w], w))
        self.ids = {w: i for i, w in enumerate(known, UNK + 1)}

    def encode(self, text: str) -> list[int]:
        return [self.ids.get(w, UNK) for w in text.lower().split()] + [EOS]


class Data:
    "The split, its words and ids, and the validation pairs whose English is in training or not."

    def __init__(self, kind: str, trial: bool = False):
        train, valid = split(kind, trial)
        self.source, self.target = Words(e for e, _ in train), Words(f for _, f in train)
        self.train, self.valid = (
            [(self.source.encode(e), [BOS] + self.target.encode(f)) for e, f in part]
            for part in (train, valid)
        )
        known = {sentence_key(english) for english, _ in train}
        self.groups = {"seen": [], "unseen": []}
        for (english, _), ids in zip(valid, self.valid):
            self.groups["seen" if sentence_key(english) in known else "unseen"].append(ids)


# Recipes ------------------------------------------------------------------------------------------


class TimedTrainer(Trainer):
    "Counts the processor seconds of its steps."

    cpu_seconds = 0.0
    losses: list[float] = []

    def train_step(self, source, target):
        with Clock() as clock:
            metrics = super().train_step(source, target)
        self.cpu_seconds += clock.cpu
        self.losses = [*self.losses * (self.epoch_step > 0), metrics["loss"]]
        return metrics

    def progress(self) -> dict:
        return {**super().progress(), "cpu_seconds": self.cpu_seconds}


def rate(recipe: dict, steps: int, step: int) -> float:
    """Noam; or a rise and a fall to zero over `fall` epochs, and over the rest the end of a fall
    over all of them."""
    if "batch" in recipe:
        return noam_lr(step, 256, 4000)
    first = steps * recipe["fall"] // recipe["epochs"]
    return linear_lr(step, first if step <= first else steps, recipe["peak"], recipe["warmup"])


def shrinking(recipe: dict, trainer: Trainer, source, target):
    "The gradient; before the step the embeddings shrink, or rare words keep their first noise."
    loss = compute_gradients(trainer.model, source, target, trainer.config)
    for name, weight in trainer.model.named_parameters():
        if "token_embedding." in name or name == "output_projection.weight":
            weight.data.mul_(1 - trainer.lr_schedule(trainer.step + 1) * recipe["shrink"])
    return loss


def build_run(recipe: dict, data: Data, folder: Path, trial: bool) -> tuple:
    "The recipe's trainer and its batches."
    torch.manual_seed(1)
    width, layers = (32, 1) if trial else (256, 3)
    vocab = [UNK + 1 + len(words.ids) for words in (data.source, data.target)]
    model = (Twin if "stacks" in recipe else Transformer)(
        TransformerConfig(
            *(*vocab, width, recipe["heads"], 2 * width, layers, layers),
            *(recipe["dropout"], recipe["norm"]),
            tied_embeddings=False,
        )
    )
    config = TrainingConfig(
        epochs=recipe["epochs"],
        max_tokens=recipe.get("tokens", 2048),
        clip_norm=recipe["clip"],
        precision=recipe["precision"],
        checkpoint_every=0,
    )
    batches = (RandomBatches if "batch" in recipe else PairBatches)(data.train, config)
    trainer = TimedTrainer(
        model,
        config,
        optimizer=MuonAndAdam(model) if "tokens" in recipe else None,
        lr_schedule=partial(rate, recipe, batches.total_steps),
        folder=folder,
        gradient_fn=partial(shrinking, recipe) if "shrink" in recipe else None,
    )
    return trainer, batches


def evaluate(data: Data, trainer: TimedTrainer) -> dict:
    "An epoch's losses."
    model = trainer.model
    return {
        "train_smoothed": mean(trainer.losses),
        "valid_smoothed": validation_loss(model, data.valid, label_smoothing=0.1),
        "valid": validation_loss(model, data.valid),
        "groups": {
            name: validation_loss(model, pairs, label_smoothing=0.1) if pairs else None
            for name, pairs in data.groups.items()
        },
    }


# Records ------------------------------------------------------------------------------------------


def train(recipe: dict, o) -> None:
    data = Data(o.split, o.trial)
    folder = o.out or Path("runs") / f"{o.recipe}-by-{o.split}"
    trainer, batches = build_run(recipe, data, folder, o.trial)
    record = Record(folder / "run.json", recipe=recipe, seed=1)
    until = len(batches.epoch_batches(0)) * (o.epochs or recipe["epochs"])
    entries = trainer.fit(batches, on_epoch_end(partial(evaluate, data)), until)
    log = [entry for entry in entries if entry["kind"] == "eval"]
    archive = shipped("data/pocket.tsv.gz") if o.trial else tatoeba_archive()
    words = {"valid": "nats a word", "valid_smoothed": "nats a word, smoothing 0.1"}
    record.write(
        data={
            "name": "pocket" if o.trial else "tatoeba",
            "sha256": sha256_file(archive),
            "train": len(data.train),
            "valid": len(data.valid),
            "leak": len(data.groups["seen"]) / len(data.valid),
        },
        planned_epochs=recipe["epochs"],
        **effort(trainer.model, trainer) | {"hardware": record["hardware"]},
        **{name: log[-1][name] for name in ("epoch", "step", "cpu_seconds")},
        scores=[
            {"set": "tatoeba-valid", "metric": f"cross-entropy, {unit}", "value": log[-1][key]}
            for key, unit in words.items()
        ],
        groups=[{"epoch": line["epoch"], **line["groups"]} for line in log],
    )


def to_loss() -> dict:
    """Processor seconds of the recorded runs to the lowest validation loss of `laptop`, or to the
    end if they don't get there."""
    runs = {name: load_record(run) for name, run in RUNS.items()}
    goal, rows = min(line["valid_smoothed"] for line in runs["laptop"][1]), []
    for name, (record, log) in runs.items():
        reached = next((line for line in log if line["valid_smoothed"] <= goal), {})
        rows.append(
            {
                "name": name,
                "run": RUNS[name],
                "epochs": log[-1]["epoch"],
                "planned_epochs": record["recipe"]["epochs"],
                "hardware": record["hardware"],
                "best": min(line["valid_smoothed"] for line in log),
                "cpu_seconds": log[-1]["cpu_seconds"],
                "goal_epoch": reached.get("epoch"),
                "goal_cpu_seconds": reached.get("cpu_seconds"),
            }
        )
    return {"goal": goal, "rows": rows}


def main():
    o = options(
        __doc__,
        {
            "recipe": dict(choices=[*RECIPES, "time"]),
            "--split": dict(choices=["sentence", "pair"], default="sentence"),
        },
        out=Path,
        epochs=int,
        precision="auto",
        trial=False,
    )
    if o.recipe == "time":
        Record(o.out or BENCH / "to_loss.json", corpus="tatoeba", batch=64).write(**to_loss())
    else:
        train(RECIPES[o.recipe] | {"precision": o.precision}, o)


if __name__ == "__main__":
    main()
