"""The laptop article's recipe, the same on nn.Transformer, and ours, on the same words, pairs and loss.

    python bench/laptop_article.py laptop --split sentence --out FOLDER
    python bench/laptop_article.py laptop --split pair --out FOLDER
    python bench/laptop_article.py twin --split sentence --out FOLDER --epochs 10
    python bench/laptop_article.py ours --split sentence --out FOLDER    [--set 'precision="fp32"']
    python bench/laptop_article.py time --out book/results/bench/to_loss.json

50,000 random Tatoeba pairs under 15 words a side; words are lower-cased and split at spaces, those seen twice in
training are known; 90% train, 10% validate, split by English sentence or, as many tutorials do, by pair. `laptop` is
the recipe as the article tells it ("Attention Is All You Need: Building the Original Transformer that Started the LLM
Revolution"), completed where it is silent: Adam, Noam with 4,000 steps of warm-up, 64 random pairs
a batch, dropout 0.1, post-norm, 20 epochs. `twin` is the same recipe, batch for batch, on nn.Transformer; `time` finds bf16 faster than fp32 for it where
the machine has instructions for bf16. `ours` changes the recipe: token batches, pre-norm, Muon on the hidden matrices, a rate that falls to zero after
six epochs and once more in a seventh, embeddings that shrink a little with each step, more dropout. It was found by
some ten trials. All run one thread, in bf16 where the machine has instructions for its products (elsewhere fp32:
there bf16 is imitated, and slower); `cpu_seconds` is processor time, which a busy machine does not stretch. Each
epoch is a line of FOLDER/log.jsonl; a stopped run goes on; bench/records.py takes it over when it is done. `time` takes steps of `laptop` and `twin` in turns, keeps
what its record holds from other machines, and reads from the recorded runs how long each took to the lowest validation
loss of `laptop`; minutes compare only where machine and precision are the same. With --trial all is tiny and the corpus
is the pocket corpus: seconds.
"""

import argparse
import json
import random
import statistics
from collections import Counter
from pathlib import Path

import torch
from common import BENCH, Clock, command, keep, where
from torch import nn
from twin import Twin

from transformer_lit.data import load, read_tatoeba, sentence_key, shorter_than, tatoeba_archive
from transformer_lit.decoding import greedy_decode
from transformer_lit.loss import shift_right, smoothed_cross_entropy
from transformer_lit.masks import BOS, EOS, PAD, UNK
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.schedule import noam
from litbook.results import load_record
from transformer_lit.corpora.files import sha256_file, write_atomic
from transformer_lit.runtime.optimizers import MuonAndAdam
from transformer_lit.runtime.devices import resolve_precision
from transformer_lit.recipes.recipes import rise_and_fall
from transformer_lit.training import collate, token_batches

SHOWN = [
    "I love you.",
    "How are you?",
    "I am a student.",
    "Where is the bathroom?",
    "Good morning.",
    "The food is delicious.",
    "The animal was too tired.",
]
LAPTOP = dict(epochs=20, norm="post", dropout=0.1, batch=64)
RECIPES = {
    "laptop": LAPTOP,
    "twin": dict(LAPTOP, stacks="nn.Transformer"),
    "ours": dict(
        epochs=7,
        fall=6,
        norm="pre",
        gain=1.0,
        dropout=0.25,
        heads=4,
        tokens=2048,
        peak=6e-3,
        warmup=100,
        shrink=0.3,
    ),
}
RUNS = {name: f"{name}-by-sentence" for name in RECIPES} | {
    "ours, products": "ours-by-sentence-products"
}


# Data ---------------------------------------------------------------------------------------------


def split(kind: str, trial: bool = False) -> tuple[list, list]:
    "90% and 10% of 50,000 random short pairs, by sentence or by pair."
    if trial:
        pairs = load("pocket")["train"][:300]
    else:
        pairs = shorter_than(read_tatoeba(tatoeba_archive()), 15)
        pairs = random.Random(1).sample(pairs, 50_000)
    if kind == "pair":
        return pairs[: len(pairs) * 9 // 10], pairs[len(pairs) * 9 // 10 :]
    keys = list(dict.fromkeys(sentence_key(e) for e, _ in pairs))
    random.Random(2).shuffle(keys)
    held = set(keys[: len(keys) // 10])
    parts = [], []
    for pair in pairs:
        parts[sentence_key(pair[0]) in held].append(pair)
    return parts


class Words:
    "Lower-cased words, split at spaces, seen twice or more."

    def __init__(self, sentences):
        counts = Counter(w for s in sentences for w in s.lower().split())
        known = sorted((w for w in counts if counts[w] > 1), key=lambda w: (-counts[w], w))
        self.words = ["<pad>", "<bos>", "<eos>", "<unk>"] + known
        self.ids = {w: i for i, w in enumerate(self.words)}

    def encode(self, text):
        return [self.ids.get(w, UNK) for w in text.lower().split()] + [EOS]

    def decode(self, ids):
        ids = [int(i) for i in ids]
        ids = ids[: ids.index(EOS)] if EOS in ids else ids
        return " ".join(self.words[i] for i in ids if i > BOS)


class Data:
    "The split, its words and ids, and which English sentences training holds."

    def __init__(self, kind: str, trial: bool = False):
        self.train, self.valid = split(kind, trial)
        self.source, self.target = Words(e for e, _ in self.train), Words(f for _, f in self.train)
        self.ids, self.valid_ids = (
            [(self.source.encode(e), [BOS] + self.target.encode(f)) for e, f in part]
            for part in (self.train, self.valid)
        )
        self.known = {sentence_key(e) for e, _ in self.train}

    def seen(self, english: str) -> bool:
        return sentence_key(english) in self.known

    def said(self) -> dict:
        "What the record says of it."
        leak = sum(self.seen(e) for e, _ in self.valid) / len(self.valid)
        return {"train": len(self.train), "valid": len(self.valid), "leak": leak}


# Recipes ------------------------------------------------------------------------------------------


def batches(recipe, pairs, epoch):
    "Lists of indices: 64 random pairs, or about 2,048 tokens of like width."
    if "tokens" in recipe:
        return token_batches(pairs, recipe["tokens"], seed=1 + 1000 * epoch)
    order = list(range(len(pairs)))
    random.Random(1 + 1000 * epoch).shuffle(order)
    return [order[i : i + recipe["batch"]] for i in range(0, len(order), recipe["batch"])]


def rate(recipe, step, last):
    """Noam; or a rise and a fall to zero over `fall` epochs, and over the rest the end of a fall
    over all of them."""
    if "batch" in recipe:
        return noam(step, 256, 4000)
    first = last * recipe["fall"] // recipe["epochs"]
    return rise_and_fall(step, first if step <= first else last, recipe["peak"], recipe["warmup"])


def create(recipe, data, trial=False):
    "The recipe's model and optimiser."
    torch.manual_seed(1)
    width, layers = (32, 1) if trial else (256, 3)
    config = TransformerConfig(
        len(data.source.words),
        len(data.target.words),
        width,
        recipe.get("heads", 8),
        2 * width,
        layers,
        layers,
        recipe["dropout"],
        recipe["norm"],
        tied=False,
    )
    model = (Twin if "stacks" in recipe else Transformer)(config)
    if "gain" in recipe:
        nn.init.constant_(model.decoder.norm.weight, recipe["gain"])
    if "tokens" in recipe:
        return model, MuonAndAdam(model)
    return model, torch.optim.Adam(
        model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True
    )


class Run:
    "A model on its way through a recipe."

    def __init__(self, recipe, data, trial=False):
        self.recipe, self.data = recipe, data
        self.model, self.optimizer = create(recipe, data, trial)
        self.last = recipe["epochs"] * len(batches(recipe, data.ids, 0))
        self.bf16 = recipe.get("precision", resolve_precision()) == "bf16"
        self.tables = [
            w for n, w in self.model.named_parameters() if "tokens." in n or n == "output.weight"
        ]
        self.at, self.log = dict(epoch=0, step=0, cpu_seconds=0.0, seconds=0.0, tokens=0), []

    def forward(self, source, read):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            return self.model(source, read).float()

    def step(self, batch) -> tuple[float, int]:
        "One update; its loss and how many labels."
        self.at["step"] += 1
        source, target = collate([self.data.ids[i] for i in batch])
        read, say = shift_right(target)
        self.optimizer.zero_grad()
        loss = smoothed_cross_entropy(self.forward(source, read), say, 0.1)
        loss.backward()
        if "tokens" in self.recipe:
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        now = rate(self.recipe, self.at["step"], self.last)
        for group in self.optimizer.param_groups:
            group["lr"] = now
        for table in (
            self.tables if "shrink" in self.recipe else ()
        ):  # rare words keep their first noise otherwise
            table.data.mul_(1 - now * self.recipe["shrink"])
        self.optimizer.step()
        return loss.item(), int((say != PAD).sum())

    def epoch(self, stop=None):
        "All its batches; the mean training loss. None if step `stop` came first."
        self.model.train()
        total, count = 0.0, 0
        with Clock() as clock:
            for batch in batches(self.recipe, self.data.ids, self.at["epoch"]):
                loss, n = self.step(batch)
                total, count = total + loss * n, count + n
                if stop and self.at["step"] % 50 == 0:
                    print(self.at["step"], round(total / count, 4), round(loss, 3), flush=True)
                if stop and self.at["step"] >= stop:
                    return None
        self.at["cpu_seconds"] += clock.cpu
        self.at["seconds"] += clock.wall
        self.at["tokens"] += count
        self.at["epoch"] += 1
        return total / count

    @torch.no_grad()
    def losses(self, pairs):
        "Validation loss in nats a token, with smoothing 0.1 and without."
        self.model.eval()
        sums, count = [0.0, 0.0], 0
        for batch in token_batches(pairs, 4096):
            source, target = collate([pairs[i] for i in batch])
            read, say = shift_right(target)
            logits = self.forward(source, read)
            for k, smoothing in enumerate((0.1, 0.0)):
                sums[k] += smoothed_cross_entropy(logits, say, smoothing, reduction="sum").item()
            count += int((say != PAD).sum())
        return [s / count for s in sums]

    def look(self, train_loss):
        "The epoch's line of the log."
        smoothed, plain = self.losses(self.data.valid_ids)
        said = greedy_decode(
            self.model, collate([(self.data.source.encode(s), [BOS]) for s in SHOWN])[0], 20
        )
        self.log.append(
            {
                "kind": "epoch",
                **self.at,
                "train_smoothed": train_loss,
                "valid_smoothed": smoothed,
                "valid": plain,
                "samples": {s: self.data.target.decode(out) for s, out in zip(SHOWN, said)},
            }
        )
        print(
            {
                k: round(v, 3) if isinstance(v, float) else v
                for k, v in self.log[-1].items()
                if k != "samples"
            },
            flush=True,
        )

    def save(self, folder):
        write_atomic(
            folder / "log.jsonl",
            lambda part: part.write_text(
                "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in self.log),
                encoding="utf-8",
            ),
        )
        write_atomic(
            folder / "checkpoint.pt",
            lambda part: torch.save(
                dict(
                    model=self.model.state_dict(),
                    optimizer=self.optimizer.state_dict(),
                    at=self.at,
                    log=self.log,
                    dice=torch.get_rng_state(),
                ),
                part,
            ),
        )

    def resume(self, folder):
        if not (folder / "checkpoint.pt").exists():
            return
        held = torch.load(folder / "checkpoint.pt", weights_only=False)
        self.model.load_state_dict(held["model"])
        self.optimizer.load_state_dict(held["optimizer"])
        self.at, self.log = {k: held["at"][k] for k in self.at}, held["log"]
        torch.set_rng_state(held["dice"])


# What is recorded ---------------------------------------------------------------------------------


def record(run, o, typed: str) -> dict:
    data, last, at = run.data, run.log[-1], run.at
    parameters = sum(w.numel() for w in run.model.parameters())
    corpus = (
        {"name": "pocket"}
        if o.trial
        else {"name": "tatoeba", "sha256": sha256_file(tatoeba_archive())}
    )
    return {
        "command": typed,
        **where(),
        "recipe": run.recipe,
        "seed": 1,
        "data": {**corpus, **data.said()},
        "vocabularies": [len(data.source.words), len(data.target.words)],
        "parameters": parameters,
        "planned_epochs": run.recipe["epochs"],
        **at,
        "flops": 6 * parameters * at["tokens"],
        "tokens_per_second": at["tokens"] / at["cpu_seconds"],
        "scores": [
            {
                "set": "tatoeba-valid",
                "metric": f"cross-entropy, nats a word{words}",
                "value": last[key],
            }
            for words, key in (("", "valid"), (", smoothing 0.1", "valid_smoothed"))
        ],
        "seen": {s: data.seen(s) for s in SHOWN},
    }


def by_group(run, files, out):
    "Losses of checkpoints on validation pairs whose English is in training, and on the others."
    groups, rows = {"seen": [], "unseen": []}, []
    for (english, _), ids in zip(run.data.valid, run.data.valid_ids):
        groups["seen" if run.data.seen(english) else "unseen"].append(ids)
    for file in files:
        held = torch.load(file, weights_only=False)
        run.model.load_state_dict(held["model"])
        rows.append(
            {
                "epoch": held["at"]["epoch"],
                **{name: run.losses(some)[0] if some else None for name, some in groups.items()},
            }
        )
        print(rows[-1], flush=True)
    (out / "groups.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


def take_turns(data, steps, trial) -> list[dict]:
    """Median processor seconds a step of laptop and twin, the same batches in turns; the ratio is
    the median of ratios."""
    ways = {
        "laptop": RECIPES["laptop"],
        **{
            f"twin, {p}": {**RECIPES["twin"], "precision": p}
            for p in dict.fromkeys(["fp32", resolve_precision()])
        },
    }
    runs, times = {name: Run(recipe, data, trial) for name, recipe in ways.items()}, {
        name: [] for name in ways
    }
    for n, batch in enumerate(batches(LAPTOP, data.ids, 0)[: steps + 3]):
        for name, run in runs.items():
            run.model.train()
            with Clock() as clock:
                run.step(batch)
            times[name] += [clock.cpu] * (n >= 3)  # three to warm up
    return [
        {
            "name": name,
            "steps": len(some),
            "cpu_seconds": statistics.median(some),
            "hardware": where()["hardware"],
            "ratio": statistics.median(a / b for a, b in zip(some, times["laptop"])),
        }
        for name, some in times.items()
    ]


def from_elsewhere(file: Path) -> list[dict]:
    "The steps in a record that another kind of machine took."
    if not file.exists():
        return []
    held = json.loads(file.read_text("utf-8"))
    return [row for row in held["steps"] if row["hardware"] != where()["hardware"]]


def to_loss(runs: dict) -> dict:
    """Processor seconds of recorded runs to the lowest validation loss of `laptop`, or to the end
    if they don't get there."""
    found = {}
    for name, run in runs.items():
        if not isinstance(run, Path):
            found[name] = load_record(run)
        elif (run / "run.json").exists():  # of a trial
            lines = (run / "log.jsonl").read_text("utf-8").splitlines()
            found[name] = json.loads((run / "run.json").read_text("utf-8")), [
                json.loads(line) for line in lines
            ]
    if "laptop" not in found:
        return {"goal": None, "rows": []}
    goal, rows = min(line["valid_smoothed"] for line in found["laptop"][1]), []
    for name, (kept, log) in found.items():
        there = [line for line in log if line["valid_smoothed"] <= goal]
        rows.append(
            {
                "name": name,
                "run": run.name if isinstance(run := runs[name], Path) else run,
                "epochs": log[-1]["epoch"],
                "planned_epochs": kept["recipe"]["epochs"],
                "hardware": kept["hardware"],
                "best": min(line["valid_smoothed"] for line in log),
                "cpu_seconds": log[-1]["cpu_seconds"],
                "goal_epoch": there[0]["epoch"] if there else None,
                "goal_cpu_seconds": there[0]["cpu_seconds"] if there else None,
            }
        )
    return {"goal": goal, "rows": rows}


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("recipe", choices=[*RECIPES, "time"])
    p.add_argument("--split", choices=["sentence", "pair"], default="sentence")
    p.add_argument(
        "--out",
        type=Path,
        help="a folder; with time a file (default: book/results/bench/to_loss.json)",
    )
    p.add_argument("--epochs", type=int, help="stop after so many; the record says of how many")
    p.add_argument(
        "--steps",
        type=int,
        help="a trial: stop after so many; with time: how many of each (default: 50)",
    )
    p.add_argument(
        "--trial", action="store_true", help="a tiny model on 300 pairs of the pocket corpus"
    )
    p.add_argument("--set", nargs="*", default=[], help="name=value: another setting of the recipe")
    p.add_argument(
        "--groups",
        nargs="*",
        type=Path,
        help=(
            "no training: the losses of these checkpoints on validation "
            "pairs whose English is in training, and on the others, to OUT/groups.json"
        ),
    )
    o = p.parse_args()
    torch.set_num_threads(1)
    data = Data(o.split, o.trial)
    if o.recipe == "time":
        out = o.out or BENCH / "to_loss.json"
        steps = from_elsewhere(out) + take_turns(data, o.steps or (3 if o.trial else 50), o.trial)
        runs = to_loss(
            {name: out.parent / folder for name, folder in RUNS.items()} if o.trial else RUNS
        )
        for row in [*steps, *runs["rows"]]:
            print(row)
        return keep(
            out,
            {
                "command": command(p, "recipe"),
                **where(),
                "corpus": "pocket" if o.trial else "tatoeba",
                "batch": LAPTOP["batch"],
                "steps": steps,
                **runs,
            },
        )
    if o.out is None:
        p.error("--out FOLDER: where log and record go")
    recipe = {**RECIPES[o.recipe], **{k: json.loads(v) for k, v in (s.split("=") for s in o.set)}}
    run = Run(recipe, data, o.trial)
    o.out.mkdir(parents=True, exist_ok=True)
    if o.groups:
        return by_group(run, o.groups, o.out)
    run.resume(o.out)
    print(
        o.recipe,
        o.split,
        "pairs",
        len(data.train),
        len(data.valid),
        "words",
        len(data.source.words),
        len(data.target.words),
        "parameters",
        sum(w.numel() for w in run.model.parameters()),
        "steps",
        run.last,
        flush=True,
    )
    while run.at["epoch"] < min(recipe["epochs"], o.epochs or recipe["epochs"]):
        train_loss = run.epoch(o.steps)
        if train_loss is None:
            return print(run.losses(data.valid_ids))
        run.look(train_loss)
        run.save(o.out)
    typed = command(p, "recipe", out=Path("runs") / o.out.name)
    keep(o.out / "run.json", record(run, o, typed))


if __name__ == "__main__":
    main()
