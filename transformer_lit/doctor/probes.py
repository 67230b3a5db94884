"""The questions behind the checks, each a few lines: they change ids and look at logits. The page
*Check a Transformer of your own* builds them one by one."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor


def spread(logits: Tensor) -> float:
    "Standard deviation of logits (..., V) over the vocabulary, root mean square over the rest."
    return rms(logits - logits.mean(-1, keepdim=True))


def largest_gap(a: Tensor, b: Tensor) -> float:
    return (a.detach().float() - b.detach().float()).abs().max().item()


def tolerance(logits: Tensor) -> float:
    "The largest difference that rounding explains."
    return max(2e-4, 8 * torch.finfo(logits.dtype).eps) * spread(logits) + 1e-6


def rms(x: Tensor) -> float:
    return x.detach().float().square().mean().sqrt().item()


def influence(
    f: Callable, ids: Tensor, substitutes: Tensor, where: Sequence[Tensor] = ()
) -> Tensor:
    """(T, S): how much f's outputs at position t change with the token at s; 0 if rounding explains
    it.

    f: ids (B, S) -> (B, T, ...). substitutes: the ids that replace it, (B, S). where: masks (S,)
    of tokens to replace together, a column for each."""

    def outputs(ids):
        return f(ids)[..., None].flatten(2).float().nan_to_num(0.0, 0.0, 0.0)

    base, each = outputs(ids), torch.ones_like(ids[0]).diag() > 0
    changed = [outputs(torch.where(mask, substitutes, ids)) for mask in where or each]
    change = torch.stack([(x - base).abs().amax((0, 2)) for x in changed], 1)
    return change * (change > tolerance(base))


def without_padding(f: Callable, ids: Tensor, pad_id: int) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Of each row with a token: its number, its outputs (T, ...), and those it has if it is cut
    after its last token and stands in all rows.

    f: ids (B, S) -> (B, T, ...)."""
    padded, is_token = f(ids), ids != pad_id
    for b in is_token.any(1).nonzero().flatten().tolist():
        length = 1 + int(is_token[b].nonzero().max())
        yield b, padded[b], f(ids[b : b + 1, :length].repeat(len(ids), 1))[b]


def append_padding(ids: Tensor, pad_id: int, n: int = 3, left: bool = False) -> Tensor:
    return torch.nn.functional.pad(ids, (n, 0) if left else (0, n), value=pad_id)


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
