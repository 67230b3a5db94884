"""The questions behind the checks, each a few lines: they change ids and look at logits. The page
*Check a Transformer of your own* builds them one by one."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def spread(logits: Tensor) -> float:
    "Standard deviation of logits (..., V) over the vocabulary, root mean square over the rest."
    return rms(logits - logits.mean(-1, keepdim=True))


def largest_gap(a: Tensor, b: Tensor) -> float:
    return (a.detach().float() - b.detach().float()).abs().max().item()


def tolerance(logits: Tensor) -> float:
    "The largest difference that rounding explains."
    return 2e-4 * spread(logits) + 1e-6


def rms(x: Tensor) -> float:
    return x.detach().float().square().mean().sqrt().item()


def influence(
    logits: Callable, inputs: Sequence[Tensor], which: int, substitutes: Tensor
) -> Tensor:
    """(T, S): how much the logits at position t change with the token at s of inputs[which].

    logits(*inputs) -> (B, T, V). substitutes: the ids that replace it, (B, S)."""
    base, columns = logits(*inputs), []
    for s in range(substitutes.size(1)):
        changed = list(inputs)
        changed[which] = inputs[which].clone()
        changed[which][:, s] = substitutes[:, s]
        columns.append((logits(*changed) - base).float().abs().amax((0, 2)))
    return torch.stack(columns, 1)


def append_padding(ids: Tensor, pad_id: int, n: int = 3, left: bool = False) -> Tensor:
    pads = ids.new_full((len(ids), n), pad_id)
    return torch.cat([pads, ids] if left else [ids, pads], 1)


def stepwise_logits(state, step: Callable, decoder_input: Tensor) -> Tensor:
    "The logits (B, T, V) of decoding one token at a time. step(ids (B,), state) -> (B, V), state"
    steps = []
    for tokens in decoder_input.T:
        logits, state = step(tokens, state)
        steps.append(logits.detach().clone())
    return torch.stack(steps, 1)


def target_distribution(loss: Callable, labels: Tensor, vocab_size: int) -> tuple[float, Tensor]:
    """What a loss of equal logits costs, in nats, and the distribution that it pulls them to.

    The gradient of cross-entropy is softmax minus target. At equal logits softmax is 1/V, so the
    gradient tells the target (T, V): smoothed or not, and whether it sums to one. labels: (1, T)"""
    logits = torch.zeros(*labels.shape, vocab_size, device=labels.device, requires_grad=True)
    value = loss(logits, labels)
    (gradient,) = torch.autograd.grad(value, logits)
    return value.item(), 1 / vocab_size - gradient[0]
