"""Which depths train at all, and what happens beyond the lengths of training: python bench/depth_and_length.py depth

`depth`: a tiny Transformer (32 features, 2 heads, 64 in the feed-forward, no dropout) on the pocket corpus with 6, 12, 24
and 48 layers IN EACH of its two stacks, so that 48 means 48 encoder layers and 48 decoder layers. Post-norm and pre-norm,
with a rate that rises over the first 30% of the steps and with one that starts at its peak of 3e-3; it falls to zero in
a line. Same start, same 200 batches of at most 256 tokens for all; Adam, chapter 12's loop with its bound of 1 on the
gradient's norm, one seed. What counts is the plain loss on 300 validation pairs, and beside it the loss of whoever knows
only how often each token occurs: a model that stays there (not 0.05 below it) has learnt nothing of the order of words or
of the source. Whoever stays there gets a second chance with half the peak.

`length`: the pocket model of the comparison in chapter 25, pre-norm, Muon, on pairs of at most 12 tokens a side: with
sinusoids, with learned positions (128 exist, those beyond the training's are never trained) and with RoPE. And the same
three on pairs of all lengths, as what could be had. Same number of target tokens, three seeds. What counts is the loss on
held-out pairs by the length of the longer side; in the longer ones that of the first 12 target tokens and of the rest;
and BLEU of greedy output for shorter and longer sentences, with the length of what was said over the reference's.

    python bench/depth_and_length.py depth     # book/results/bench/depth.json
    python bench/depth_and_length.py length    # book/results/bench/length.json

Each takes ten to fifteen minutes of one core; `--trial --out FILE` some seconds. A run that the record holds is not repeated,
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

TINY, BATCH, CLEAR = dict(d_model=32, n_heads=2, d_ff=64, dropout=0.0), 256, 0.05
DEPTHS, NORMS, WARMUPS, PEAKS = (6, 12, 24, 48), ("post", "pre"), (0.3, 0.0), (3e-3, 1.5e-3)
KINDS = {"sinusoids": {}, "learned": dict(embedding=LearnedPositions), "RoPE": ROPE}
WITHIN, EDGES, SEEDS, PEAK = 12, (1, 9, 11, 13, 15, 17, 19, 21), (1, 2, 3), 6e-3


def built(norm: str, **parts):
    "A `Design.build` that takes the sizes as they are: what differs here is meant to differ."
    return lambda vocab, sizes, _: assembled(TransformerConfig(vocab, **sizes | dict(norm=norm)), **parts)


def width(pair: tuple) -> int:
    "Tokens of the longer side, as they are read: BOS or EOS counts, not both."
    return max(len(pair[0]), len(pair[1]) - 1)


def trained(design: Design, scale, pairs: list, vocab: int, peak: float, seed: int, batches: list) -> tuple:
    "The run after all batches, its losses and gradient norms, its time; ValueError if a loss is nan."
    run, clock, losses, norms = training_for(design, scale, vocab, peak, len(batches), seed), Clock(), [], []
    run.model.train()
    for batch in batches:
        with clock:
            found = run.train_step(*collate([pairs[k] for k in batch]))
        losses.append(round(float(found["loss"]), 4))
        norms.append(float(f"{float(found['norm']):.3g}"))
    return run.model.eval(), {"losses": losses, "norms": norms, "cpu_seconds": clock.cpu}


# Depth ----------------------------------------------------------------------------------------------------------

def frequency_loss(pairs: list, held: list, vocab: int) -> float:
    "Nats a token on `held` for one who knows how often each token is said in `pairs`, and nothing else."
    said, heard = (torch.tensor([i for _, target in some for i in target[1:]]) for some in (pairs, held))
    count = torch.bincount(said, minlength=vocab) + 1.0
    return -(count / count.sum()).log()[heard].mean().item()


def one_depth(field, one: dict, o) -> dict:
    "Train one model of the plan."
    sizes = TINY | dict(n_encoder_layers=one["depth"], n_decoder_layers=one["depth"])
    scale = replace(SCALES["pocket"], max_tokens=BATCH, sizes=sizes | dict(norm=one["norm"]))
    batches = batches_for(field.train, scale.max_tokens, 3 * o.steps * scale.max_tokens, 1)[:o.steps]
    design = Design(built(one["norm"]), smoothing=0.0, warmup=one["warmup"])
    row = {**one, "seed": 1, "steps": len(batches), "tokens": sum(labels(field.train, batch) for batch in batches)}
    try:
        model, found = trained(design, scale, field.train, len(field.tokens), one["peak"], 1, batches)
    except ValueError as error:  # chapter 12 stops at nan
        return {**row, "failed": str(error)}
    return {**row, "parameters": count_parameters(model), "valid_loss": validation_loss(model, field.valid[:300]), **found}


def depth_plan(o, runs: list[dict], floor: float):
    "The next run, as long as one is missing: the lower peak only for whoever did not get off the floor."
    for depth in o.depths:
        for norm in NORMS:
            for warmup in WARMUPS:
                for peak in PEAKS:
                    one = dict(depth=depth, norm=norm, warmup=warmup, peak=peak)
                    held = next((r for r in runs if one.items() <= r.items()), None)
                    if held is None:
                        yield one
                        held = runs[-1]
                    if held.get("valid_loss", floor) < floor - CLEAR:
                        break


# Length ---------------------------------------------------------------------------------------------------------

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
    design = Design(built("pre", **KINDS[one["kind"]]), "muon", smoothing=0.0)
    model, found = trained(design, scale, pairs, len(field.tokens), PEAK, one["seed"], batches)
    held = field.valid if not o.trial else field.valid[:100]
    sides = {"shorter": [p for p in held if width(p) <= WITHIN], "longer": [p for p in held if width(p) > WITHIN]}
    return {**one, "parameters": count_parameters(model), "pairs": len(pairs), "steps": len(batches),
            "tokens": sum(labels(pairs, batch) for batch in batches), "valid_loss": validation_loss(model, held),
            **by_length(model, held), "greedy": greedy_scores(model, field, sides, o.lines),
            "losses": found["losses"][::10], "cpu_seconds": found["cpu_seconds"]}


def length_plan(o, runs: list[dict], _=None):
    for seed in o.seeds:
        for kind in KINDS:
            for pairs in ("short", "all"):
                one = dict(kind=kind, trained=pairs, seed=seed)
                if not any(one.items() <= r.items() for r in runs):
                    yield one


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("depth", "length"))
    p.add_argument("--trial", action="store_true", help="some steps of a tiny plan")
    p.add_argument("--steps", type=int, help="depth: steps of each run; default: 200, trial 4")
    p.add_argument("--depths", nargs="+", type=int, help="depth: default 6 12 24 48, trial 1 2")
    p.add_argument("--tokens", type=int, help="length: target tokens of each run; default: 150,000, trial 2,000")
    p.add_argument("--seeds", nargs="+", type=int, help="length: default 1 2 3, trial 1")
    p.add_argument("--lines", type=int, help="length: sentences a side that are decoded; default: 200, trial 5")
    p.add_argument("--most", type=int, help="stop after so many runs; the next call goes on")
    p.add_argument("--out", type=Path, help="default: book/results/bench/depth.json or length.json")
    o = p.parse_args()
    torch.set_num_threads(1)
    o.out = o.out or BENCH / f"{o.what}.json"
    o.steps, o.depths = o.steps or (4 if o.trial else 200), o.depths or ([1, 2] if o.trial else list(DEPTHS))
    o.tokens, o.seeds = o.tokens or (2_000 if o.trial else 150_000), o.seeds or ([1] if o.trial else list(SEEDS))
    o.lines = o.lines or (5 if o.trial else 200)
    field = ground("pocket")
    if o.what == "depth":
        head, todo, run = {"corpus": "pocket", "steps": o.steps, "sizes": TINY, "max_tokens": BATCH}, depth_plan, one_depth
        floor = frequency_loss(field.train, field.valid[:300], len(field.tokens))
        extra = {"frequency_loss": floor, "clear": CLEAR}
    else:
        head, todo, run = {"corpus": "pocket", "tokens": o.tokens, "within": WITHIN}, length_plan, one_length
        floor, extra = None, {"peak": PEAK, "held": len(field.valid), "sizes": SCALES["pocket"].sizes}
    runs = kept_runs(o.out, **head)
    begun = len(runs)
    for one in todo(o, runs, floor):
        if o.most is not None and len(runs) >= begun + o.most:
            break
        runs.append(run(field, one, o))
        print({k: v for k, v in runs[-1].items() if k not in ("losses", "norms", "by_length", "greedy")}, flush=True)
        keep(o.out, {"command": command(p, "what"), **where(), **head, **extra, "runs": runs})


if __name__ == "__main__":
    main()
