"""What happens beyond the lengths of training: python bench/length.py

The pocket model of the comparison in chapter 25, pre-norm, Muon, on pairs of at most 12 tokens a side: with sinusoids, with
learned positions (128 exist, those beyond the training's are never trained) and with RoPE. And the same three on pairs of
all lengths, as what could be had. Same number of target tokens, three seeds. What counts is the loss on held-out pairs by
the length of the longer side; in the longer ones that of the first 12 target tokens and of the rest; and BLEU of greedy
output for shorter and longer sentences, with the length of what was said over the reference's.

    python bench/length.py    # book/results/bench/length.json

It takes ten to fifteen minutes of one core; `--trial --out FILE` some seconds. A run that the record holds is not repeated,
so a stopped plan goes on.
"""
import argparse
from dataclasses import replace
from pathlib import Path

import torch
from common import BENCH, Clock, bleu, command, keep, kept_runs, where

from transformer_lit.decoding import greedy_decode
from transformer_lit.equal_cost import SCALES, Design, batches_for, count_parameters, ground, labels, training_for
from transformer_lit.loss import shift_right
from transformer_lit.masks import PAD
from transformer_lit.model import TransformerConfig
from transformer_lit.since_2017 import ROPE, LearnedPositions, assembled
from transformer_lit.training import collate, token_batches, validation_loss

KINDS = {"sinusoids": {}, "learned": dict(embedding=LearnedPositions), "RoPE": ROPE}
WITHIN, EDGES, SEEDS, PEAK = 12, (1, 9, 11, 13, 15, 17, 19, 21), (1, 2, 3), 6e-3


def built(**parts):
    "A `Design.build` that takes the sizes as they are: what differs here is meant to differ."
    return lambda vocab, sizes, _: assembled(TransformerConfig(vocab, **sizes), **parts)


def width(pair: tuple) -> int:
    "Tokens of the longer side, as they are read: BOS or EOS counts, not both."
    return max(len(pair[0]), len(pair[1]) - 1)


def trained(design: Design, scale, pairs: list, vocab: int, seed: int, batches: list) -> tuple:
    "The model after all batches, its losses, its processor seconds."
    run, clock, losses = training_for(design, scale, vocab, PEAK, len(batches), seed), Clock(), []
    run.model.train()
    for batch in batches:
        with clock:
            found = run.train_step(*collate([pairs[k] for k in batch]))
        losses.append(round(float(found["loss"]), 4))
    return run.model.eval(), losses, clock.cpu


@torch.no_grad()
def token_losses(model, pairs: list) -> list[list[float]]:
    "The loss of each target token, for each pair."
    found = [None] * len(pairs)
    for batch in token_batches(pairs, 2048):
        source, target = collate([pairs[k] for k in batch])
        read, say = shift_right(target)
        log_p = model(source, read).log_softmax(-1)  # (n, T, V)
        loss = -log_p.gather(-1, say[..., None])[..., 0]  # (n, T)
        for k, row, words in zip(batch, loss, say):
            found[k] = row[words != PAD].tolist()
    return found


def mean(values: list) -> float | None:
    return sum(values) / len(values) if values else None


def by_length(model, held: list) -> dict:
    "Losses by width; in the longer pairs those of the first tokens and of the rest."
    losses, groups = token_losses(model, held), []
    for low, high in zip(EDGES, (*EDGES[1:], 10 ** 6)):
        inside = [k for k, pair in enumerate(held) if low <= width(pair) < high]
        groups.append({"from": low, "pairs": len(inside), "loss": mean([x for k in inside for x in losses[k]])})
    longer = [k for k, pair in enumerate(held) if width(pair) > WITHIN]
    return {"by_length": groups,
            "early": mean([x for k in longer for x in losses[k][:WITHIN]]),
            "late": mean([x for k in longer for x in losses[k][WITHIN:]])}


def greedy_scores(model, field, sides: dict, most: int) -> dict:
    "BLEU of greedy output and its length over the reference's, for shorter and for longer pairs."
    found = {}
    for name, pairs in sides.items():
        pairs = sorted(pairs[:most], key=lambda pair: len(pair[0]))
        said = []
        for at in range(0, len(pairs), 64):
            source, _ = collate(pairs[at:at + 64])
            said += greedy_decode(model, source)
        lines, references = ([field.tokens.decode(ids) for ids in side] for side in (said, [p[1][1:] for p in pairs]))
        found[name] = bleu(lines, references) | {
            "lines": len(pairs), "said": sum(map(len, said)) / sum(len(p[1]) - 2 for p in pairs)}
    return found


def one_length(field, one: dict, o) -> dict:
    "Train with one kind of positions, on short pairs or on all, and measure by length."
    scale = SCALES["pocket"] if not o.trial else replace(SCALES["pocket"], sizes=SCALES["pocket"].sizes | dict(
        d_model=16, n_heads=2, d_ff=32, n_encoder_layers=1, n_decoder_layers=1))
    pairs = [p for p in field.train if width(p) <= WITHIN] if one["trained"] == "short" else field.train
    batches = batches_for(pairs, scale.max_tokens, o.tokens, one["seed"])
    design = Design(built(**KINDS[one["kind"]]), "muon", smoothing=0.0)
    model, losses, seconds = trained(design, scale, pairs, len(field.tokens), one["seed"], batches)
    held = field.valid if not o.trial else field.valid[:100]
    sides = {"shorter": [p for p in held if width(p) <= WITHIN], "longer": [p for p in held if width(p) > WITHIN]}
    return {**one, "parameters": count_parameters(model), "pairs": len(pairs), "steps": len(batches),
            "tokens": sum(labels(pairs, batch) for batch in batches), "valid_loss": validation_loss(model, held),
            **by_length(model, held), "greedy": greedy_scores(model, field, sides, o.lines),
            "losses": losses[::10], "cpu_seconds": seconds}


def plan(o, runs: list[dict]):
    "The next run, as long as one is missing."
    for seed in o.seeds:
        for kind in KINDS:
            for pairs in ("short", "all"):
                one = dict(kind=kind, trained=pairs, seed=seed)
                if not any(one.items() <= r.items() for r in runs):
                    yield one


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--trial", action="store_true", help="some steps of tiny models")
    p.add_argument("--tokens", type=int, help="target tokens of each run; default: 150,000, trial 2,000")
    p.add_argument("--seeds", nargs="+", type=int, help="default 1 2 3, trial 1")
    p.add_argument("--lines", type=int, help="sentences a side that are decoded; default: 200, trial 5")
    p.add_argument("--most", type=int, help="stop after so many runs; the next call goes on")
    p.add_argument("--out", type=Path, default=BENCH / "length.json", help="default: book/results/bench/length.json")
    o = p.parse_args()
    torch.set_num_threads(1)
    o.tokens, o.seeds = o.tokens or (2_000 if o.trial else 150_000), o.seeds or ([1] if o.trial else list(SEEDS))
    o.lines = o.lines or (5 if o.trial else 200)
    field, head = ground("pocket"), {"corpus": "pocket", "tokens": o.tokens, "within": WITHIN}
    more = {"peak": PEAK, "held": len(field.valid), "sizes": SCALES["pocket"].sizes}
    runs = kept_runs(o.out, **head)
    begun = len(runs)
    for one in plan(o, runs):
        if o.most is not None and len(runs) >= begun + o.most:
            break
        runs.append(one_length(field, one, o))
        print({k: v for k, v in runs[-1].items() if k not in ("losses", "by_length", "greedy")}, flush=True)
        keep(o.out, {"command": command(p), **where(), **head, **more, "runs": runs})


if __name__ == "__main__":
    main()
