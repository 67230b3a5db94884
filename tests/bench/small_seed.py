"""The small seed's recipe and ours, on the same words, pairs and loss.

    python tests/bench/small_seed.py seed --split sentence --out FOLDER
    python tests/bench/small_seed.py seed --split pair --out FOLDER
    python tests/bench/small_seed.py ours --split sentence --out FOLDER

50,000 random Tatoeba pairs under 15 words a side; words are lower-cased
and split at spaces, those seen twice in training are known; 90% train,
10% validate, split by English sentence or, as many tutorials do, by
pair. `seed` is the textbook: Adam, Noam with 4,000 steps of warm-up, 64
random pairs a batch, dropout 0.1, post-norm, 20 epochs. `ours` changes
the recipe: token batches, pre-norm, Muon on the hidden matrices,
a rate that falls to zero after six epochs and once more in a seventh,
embeddings that shrink a little with each step, more dropout. It was
found by some ten trials. Both run one thread with the same precision;
`cpu_seconds` is processor time, which a busy machine does not stretch.
Each epoch is a line of FOLDER/log.jsonl; a stopped run goes on.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[2]))
from transformer_lit.data import (  # noqa: E402
    file_hash, read_tatoeba, sentence_key, shorter_than, tatoeba_archive)
from transformer_lit.decoding import greedy_decode  # noqa: E402
from transformer_lit.loss import shift_right, smoothed_cross_entropy  # noqa: E402
from transformer_lit.masks import BOS, EOS, PAD, UNK  # noqa: E402
from transformer_lit.model import Transformer, TransformerConfig  # noqa: E402
from transformer_lit.schedule import noam  # noqa: E402
from transformer_lit.training import collate, token_batches, write_whole  # noqa: E402
from transformer_lit.translation import MuonAndAdam, commit, rise_and_fall  # noqa: E402

SHOWN = ["I love you.", "How are you?", "I am a student.",
         "Where is the bathroom?", "Good morning.", "The food is delicious.",
         "The animal was too tired."]


def split(kind: str) -> tuple[list, list]:
    "90% and 10% of 50,000 random short pairs, by sentence or by pair."
    pairs = shorter_than(read_tatoeba(tatoeba_archive()), 15)
    pairs = random.Random(1).sample(pairs, 50_000)
    if kind == "pair":
        return pairs[:45_000], pairs[45_000:]
    keys = list(dict.fromkeys(sentence_key(e) for e, _ in pairs))
    random.Random(2).shuffle(keys)
    held = set(keys[:len(keys) // 10])
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
        ids = ids[:ids.index(EOS)] if EOS in ids else ids
        return " ".join(self.words[i] for i in ids if i > BOS)


RECIPES = {
    "seed": dict(epochs=20, norm="post", dropout=0.1, batch=64),
    "ours": dict(epochs=7, fall=6, norm="pre", gain=1.0, dropout=0.25, heads=4, tokens=2048, peak=6e-3, warmup=100, shrink=0.3),
}


def batches(recipe, pairs, epoch):
    "Lists of indices: 64 random pairs, or about 2,048 tokens of like width."
    if "tokens" in recipe:
        return token_batches(pairs, recipe["tokens"], seed=1 + 1000 * epoch)
    order = list(range(len(pairs)))
    random.Random(1 + 1000 * epoch).shuffle(order)
    return [order[i:i + recipe["batch"]] for i in range(0, len(order), recipe["batch"])]


def rate(recipe, step, last):
    "Noam; or a rise and a fall to zero over `fall` epochs, and then, over the rest, the end of a fall over all of them."
    if "batch" in recipe:
        return noam(step, 256, 4000)
    first = last * recipe.get("fall", recipe["epochs"]) // recipe["epochs"]
    return rise_and_fall(step, first if step <= first else last, recipe["peak"], recipe["warmup"])


@torch.no_grad()
def losses(model, pairs):
    "Validation loss in nats a token, with smoothing 0.1 and without."
    model.eval()
    sums, count = [0.0, 0.0], 0
    for batch in token_batches(pairs, 4096):
        source, target = collate([pairs[i] for i in batch])
        read, say = shift_right(target)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(source, read)
        for k, smoothing in enumerate((0.1, 0.0)):
            sums[k] += smoothed_cross_entropy(logits.float(), say, smoothing, reduction="sum").item()
        count += int((say != PAD).sum())
    return [s / count for s in sums]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("recipe", choices=RECIPES)
    p.add_argument("--split", choices=["sentence", "pair"], default="sentence")
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--set", nargs="*", default=[], help="name=value: another setting of the recipe")
    p.add_argument("--steps", type=int, help="stop after so many steps (a trial)")
    p.add_argument("--groups", nargs="*", type=Path, help="no training: the losses of these checkpoints on validation pairs whose "
                   "English is in training, and on the others, to OUT/groups.json")
    o = p.parse_args()
    torch.set_num_threads(1)
    recipe = {**RECIPES[o.recipe], **{k: json.loads(v) for k, v in (s.split("=") for s in o.set)}}
    train, valid = split(o.split)
    source, target = Words(e for e, _ in train), Words(f for _, f in train)
    ids = [[(source.encode(e), [BOS] + target.encode(f)) for e, f in part] for part in (train, valid)]
    torch.manual_seed(1)
    model = Transformer(TransformerConfig(
        len(source.words), len(target.words), d_model=256, n_heads=recipe.get("heads", 8), d_ff=512, n_encoder_layers=3,
        n_decoder_layers=3, dropout=recipe["dropout"], norm=recipe["norm"], tied=recipe.get("tied", False)))
    tables = [w for n, w in model.named_parameters() if w.ndim == 2 and "coder." not in n]  # embeddings and output
    if "gain" in recipe:
        nn.init.constant_(model.decoder.norm.weight, recipe["gain"])
    optimizer = MuonAndAdam(model, recipe.get("decay", 0.1)) if "tokens" in recipe else torch.optim.Adam(
        model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
    o.out.mkdir(parents=True, exist_ok=True)
    if o.groups:
        known = {sentence_key(e) for e, _ in train}
        in_train = [sentence_key(e) in known for e, _ in valid]
        rows = []
        for file in o.groups:
            held = torch.load(file, weights_only=False)
            model.load_state_dict(held["model"])
            rows.append({"epoch": held["at"]["epoch"], **{name: losses(model, [ids[1][i] for i, seen in enumerate(in_train) if seen == k])[0]
                                                          for name, k in (("seen", True), ("unseen", False))}})
            print(rows[-1], flush=True)
        (o.out / "groups.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
        return
    at, log = dict(epoch=0, step=0, cpu_seconds=0.0, seconds=0.0, tokens=0, commit=commit()), []
    kept = o.out / "checkpoint.pt"
    if kept.exists():
        held = torch.load(kept, weights_only=False)
        model.load_state_dict(held["model"]); optimizer.load_state_dict(held["optimizer"])
        at, log = held["at"], held["log"]
        torch.set_rng_state(held["dice"])
    last = recipe["epochs"] * len(batches(recipe, ids[0], 0))
    print(o.recipe, o.split, "pairs", len(train), len(valid), "words", len(source.words), len(target.words),
          "parameters", sum(w.numel() for w in model.parameters()), "steps", last, flush=True)
    while at["epoch"] < recipe["epochs"]:
        model.train()
        began, cpu, total, count = time.perf_counter(), time.process_time(), 0.0, 0
        for batch in batches(recipe, ids[0], at["epoch"]):
            at["step"] += 1
            words, others = collate([ids[0][i] for i in batch])
            read, say = shift_right(others)
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                logits = model(words, read)
            loss = smoothed_cross_entropy(logits.float(), say, 0.1)
            loss.backward()
            if "tokens" in recipe:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for group in optimizer.param_groups:
                group["lr"] = rate(recipe, at["step"], last)
            for table in tables if "shrink" in recipe else ():  # rows of rare words keep their first noise otherwise
                table.data.mul_(1 - rate(recipe, at["step"], last) * recipe["shrink"])
            optimizer.step()
            n = int((say != PAD).sum())
            total, count = total + loss.item() * n, count + n
            if o.steps and at["step"] % 50 == 0:
                print(at["step"], round(total / count, 4), round(loss.item(), 3), round(time.process_time() - cpu, 1), at["tokens"] + count, flush=True)
            if o.steps and at["step"] >= o.steps:
                print(losses(model, ids[1])); return
        at["cpu_seconds"] += time.process_time() - cpu
        at["seconds"] += time.perf_counter() - began
        at["tokens"] += count
        at["epoch"] += 1
        smoothed, plain = losses(model, ids[1])
        said = greedy_decode(model, collate([(source.encode(s), [BOS]) for s in SHOWN])[0], 20)
        log.append({"kind": "epoch", **at, "train_smoothed": total / count, "valid_smoothed": smoothed, "valid": plain,
                    "samples": {s: target.decode(out) for s, out in zip(SHOWN, said)}})
        write_whole(o.out / "log.jsonl", lambda part: part.write_text(
            "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in log), encoding="utf-8"))
        write_whole(kept, lambda part: torch.save(dict(
            model=model.state_dict(), optimizer=optimizer.state_dict(), at=at, log=log, dice=torch.get_rng_state()), part))
        print({k: round(v, 3) if isinstance(v, float) else v for k, v in log[-1].items() if k != "samples"}, flush=True)
    seen = {sentence_key(e) for e, _ in train}
    parameters = sum(w.numel() for w in model.parameters())
    (o.out / "run.json").write_text(json.dumps({
        "command": f"python tests/bench/small_seed.py {o.recipe} --split {o.split} --out book/results/{o.out.name}",
        "recipe": recipe, "seed": 1, "data": {"name": "tatoeba", "sha256": file_hash(tatoeba_archive()), "train": len(train),
        "valid": len(valid), "leak": sum(sentence_key(e) in seen for e, _ in valid) / len(valid)},
        "vocabularies": [len(source.words), len(target.words)], "hardware": "1 thread, x86_64, bf16 matrix units",
        "torch": torch.__version__.split("+")[0], "parameters": parameters, **at, "flops": 6 * parameters * at["tokens"],
        "tokens_per_second": at["tokens"] / at["cpu_seconds"], "scores": [
            {"set": "tatoeba-valid", "metric": f"cross-entropy, nats a word{words}", "value": log[-1][key]}
            for words, key in (("", "valid"), (", smoothing 0.1", "valid_smoothed"))],
        "seen": {s: sentence_key(s) in seen for s in SHOWN}}, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
