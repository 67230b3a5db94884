"""Diagnostics of a patient (a model with a bug): its symptoms, and eight tests, to compare with
a healthy model."""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lit.attention_analysis import attention_entropy, record_attention
from transformer_lit.decoding import greedy_decode, length_penalty
from transformer_lit.masks import BOS, EOS, PAD, target_mask
from transformer_lit.model import Transformer
from transformer_lit.batching import collate

from .patients import (
    LIMIT,
    SENTENCES,
    STEPS,
    UM,
    VOCAB,
    WORDS,
    Begun,
    Patient,
    admitted,
    after,
    floor,
    longer,
    plain,
    two_answers,
)

Reading = dict[str, float | str]
SPECIAL = {PAD: "PAD", BOS: "BOS", EOS: "EOS", UM: "um"}


def in_words(ids: list[int]) -> str:
    "Ids as a reader sees them; the special ones by name."
    return " ".join(SPECIAL.get(i, str(i)) for i in ids) or "nothing"


# Symptoms -----------------------------------------------------------------------------------------
@torch.no_grad()
def symptoms(case: Patient) -> Reading:
    "What one sees of a patient without any probe."
    source, target = case.batch()
    case.model.eval()
    decoder_input, labels = case.shift(target)
    together, _ = collate([*plain(), longer()])
    ambiguous, _ = collate(two_answers()[:1])
    return {
        "loss at step 1": case.losses[0],
        f"loss at step {STEPS // 4 + 1}": case.losses[STEPS // 4],
        f"loss at step {STEPS}": case.losses[-1],
        "loss in evaluation mode": case.loss(case.model(source, decoder_input), labels).item(),
        f"exact match, of {SENTENCES}": sum(
            answer == target[1:-1] for answer, (_, target) in zip(case.greedy(together), plain())
        ),
        "tokens by greedy decoding": len(case.greedy(ambiguous)[0]),
        "tokens by beam search, size 4": len(case.beam(ambiguous)[0]),
    }


def unwell(readings: Reading) -> list[str]:
    "Which of the symptoms are none of a healthy model's."
    first_loss, quarter_loss, final_loss, eval_loss, n_right, greedy, beam = readings.values()
    too_low = first_loss < 0.95 * math.log(VOCAB) or final_loss < 0.95 * floor()
    disagree = abs(eval_loss - final_loss) > floor()
    signs = {
        "it learns too slowly": quarter_loss > 0.7 or final_loss > 2.5 * floor(),
        "its loss in training is lower than it can be": too_low,
        "its losses in training and in evaluation mode disagree": disagree,
        "its output is wrong": n_right < SENTENCES,
        "the output of beam search is too short": beam < min(greedy, WORDS),
    }
    return [sign for sign, there in signs.items() if there]


# Probes -------------------------------------------------------------------------------------------
def overfit(case: Patient) -> Reading:
    "A new copy, trained on eight sequences again and again."
    losses = case.fresh().learn(*collate(plain()[:8]), 40).losses
    return {f"loss at step {n}": losses[n - 1] for n in (1, 10, 20, 40)}


@torch.no_grad()
def future(case: Patient) -> Reading:
    "How much the logits up to position 2 change with later tokens."
    source, target = collate(plain()[:8])
    decoder_input, _ = case.shift(target)
    later = torch.arange(decoder_input.size(1)) > 2
    changed = torch.where(later & (decoder_input > UM), after(decoder_input), decoder_input)

    def change(model: Transformer) -> float:
        return (model(source, changed) - model(source, decoder_input))[:, ~later].abs().max().item()

    return {
        f"largest change before it, in {mode} mode": change(case.model.train(mode == "training"))
        for mode in ("training", "evaluation")
    }


@torch.no_grad()
def batch(case: Patient) -> Reading:
    """The sequence with the shortest output: by itself, and in a batch of eight, padded to their
    length."""
    short = min(plain(), key=lambda pair: len(pair[1]))
    (single, target), (eight, _) = collate([short]), collate([short, *plain()[:6], longer()])
    # the same words in both, so that only the company differs
    decoder_input, labels = case.shift(target)
    alone = case.model(single, decoder_input)
    among = case.model(eight, decoder_input.expand(8, -1))[:1]
    padded = case.loss(F.pad(among, (0, 0, 0, 5)), F.pad(labels, (0, 5), value=PAD))
    return {
        "largest difference of its logits": (alone - among).abs().max().item(),
        "its loss, batch size 1": case.loss(alone, labels).item(),
        "its loss, in the batch": padded.item(),
    }


def stepped(model: Begun | Transformer, source: Tensor, decoder_input: Tensor) -> Tensor:
    "Logits (B, T, V) of decoding with the cache, which is fed `decoder_input` (B, T)."
    state, steps = model.initial_state(source), []
    for tokens in decoder_input.T:
        logits, state = model.step(tokens, state)
        steps.append(logits)
    return torch.stack(steps, 1)


@torch.no_grad()
def cached(case: Patient) -> Reading:
    """Teacher forcing twice: token by token with the cache, and all at once. Both with the
    book's causal mask."""
    source, target = collate(plain()[::6])  # three without um: no padding
    decoder_input = target[:, :-1]
    with patch.object(case, "self_mask", target_mask):
        uncached = case.model(source, decoder_input)
    gaps = (stepped(case.model, source, decoder_input) - uncached).abs().amax((0, 2))
    return {f"largest difference at token {t + 1}": gaps[t].item() for t in (0, 1, 4, 7)}


def gradients(case: Patient) -> Reading:
    "The gradient's norm at five steps on one batch, at a learning rate of 0."
    untrained, pairs = case.fresh(), collate(plain()[:8])
    untrained.optimizer.param_groups[0]["lr"] = 0.0
    return {f"norm at step {n}": untrained.train_step(*pairs)["grad_norm"] for n in range(1, 6)}


@torch.no_grad()
def ids(case: Patient) -> Reading:
    "One sequence: source, decoder input and labels, in training and in decoding."
    source, target = collate(plain()[3:4])
    decoder_input, labels = case.shift(target)
    begun = Begun(case)
    greedy_decode(begun, source, LIMIT)
    lines = {
        "source": source[0],
        "decoder input": decoder_input[0],
        "labels": labels[0],
        "decoder input in decoding": torch.cat(begun.fed),
    }
    return {name: in_words(line.tolist()) for name, line in lines.items()}


@torch.no_grad()
def attention(case: Patient) -> Reading:
    """An untrained copy: how many of nine keys get attention weight. Equal weights count as
    nine, a single one as one."""
    untrained = case.fresh()
    source, target = collate(plain()[::6])
    with record_attention(untrained.model) as weights:
        untrained.model(source, untrained.shift(target)[0])
    places = {"keys used in the encoder": "encoder", "keys used in cross-attention": "cross"}
    return {
        name: attention_entropy(weights[kind][0]).exp().mean().item()
        for name, kind in places.items()
    }


@torch.no_grad()
def search(case: Patient) -> Reading:
    """Greedy and beam search output for one source: tokens, log-probabilities, and
    these divided by the length penalty."""
    source, _ = collate(two_answers()[:1])
    result: Reading = {}
    for name, (answer,) in (("greedy", case.greedy(source)), ("beam", case.beam(source))):
        logits = stepped(Begun(case), source, torch.tensor([[BOS, *answer]]))
        loss = F.cross_entropy(logits[0], torch.tensor([*answer, EOS]), reduction="sum").item()
        result |= {
            f"{name}: tokens": len(answer),
            f"{name}: log-probability": -loss,
            f"{name}: length-normalized score": -loss / length_penalty(len(answer) + 1),
        }
    return result


class Probe(NamedTuple):
    "What a button runs, and when its reading is no healthy model's."

    run: Callable[[Patient], Reading]
    title: str
    trouble: Callable[[Reading], bool]

    @property
    def what(self) -> str:
        return " ".join(self.run.__doc__.split())


PROBES = {
    "overfit": Probe(overfit, "Overfit one batch", lambda r: r["loss at step 20"] > 0.7),
    "future": Probe(future, "Change a future token", lambda r: max(r.values()) > 1e-3),
    "batch": Probe(
        batch,
        "A batch of 1 against 8",
        lambda r: r["largest difference of its logits"] > 1e-3
        or not math.isclose(r["its loss, batch size 1"], r["its loss, in the batch"], rel_tol=0.05),
    ),
    "cache": Probe(cached, "Cached against uncached", lambda r: max(r.values()) > 1e-3),
    "gradients": Probe(
        gradients,
        "Gradient norms at a learning rate of 0",
        lambda r: r["norm at step 5"] > 1.5 * r["norm at step 1"],
    ),
    "ids": Probe(
        ids,
        "Read the ids",
        lambda r: not r["decoder input"].startswith("BOS")
        or not r["decoder input in decoding"].startswith("BOS")
        or not r["labels"].endswith("EOS"),
    ),
    "attention": Probe(
        attention,
        "Attention before training",
        lambda r: r["keys used in cross-attention"] < 4.5,
    ),
    "search": Probe(
        search,
        "Beam against greedy",
        lambda r: r["beam: tokens"] < r["greedy: tokens"]
        and r["beam: length-normalized score"] < r["greedy: length-normalized score"] - 1e-3,
    ),
}


@cache
def reading(run: Callable[[Patient], Reading], fault: str) -> Reading:
    "The symptoms of a patient with this fault, or what a probe reads of it; made once."
    return run(admitted(fault))
