"""How a row of attention weights spreads: over how many words, how far, and how differently from
other heads' rows."""

from itertools import combinations

import torch
from torch import Tensor


def entropy(weights: Tensor) -> Tensor:
    "-Σ w ln w of each row, in nats. (..., T, S) -> (..., T)"
    return -torch.special.xlogy(weights, weights).sum(-1)


def distance(weights: Tensor) -> Tensor:
    "Σ w |s - t|, in words. (..., T, S) -> (..., T)"
    t, s = (torch.arange(n, device=weights.device) for n in weights.shape[-2:])
    return (weights * (s - t[:, None]).abs()).sum(-1)


def heads_differ(weights: Tensor) -> Tensor:
    """Mean total variation over pairs of heads, between 0 and 1.

    (..., H, T, S) -> (..., T); 0 for one head."""
    apart = [
        (p - q).abs().sum(-1) / 2 for p, q in combinations(weights.unbind(-3), 2)
    ]  # each (..., T)
    return torch.stack(apart).mean(0) if apart else torch.zeros_like(weights[..., 0, :, 0])
