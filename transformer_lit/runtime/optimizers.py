"""Muon, and an optimizer that combines Muon (hidden matrices) with Adam (all other parameters)."""

# Chapter 25 explains Muon and looks at what its rounds do to singular values.
from collections import defaultdict
from collections.abc import Iterable
from functools import partial

import torch
from torch import Tensor, nn

from transformer_lit.runtime.devices import resolve_precision


def orthogonal(g: Tensor, rounds: int = 5, precision: str = "fp32") -> Tensor:
    """About U Vᵀ of g = U Σ Vᵀ, by products alone. (A, B) -> (A, B), or so for each of (n, A, B).

    Rounds of X -> aX + bXXᵀX + c(XXᵀ)²X, after Newton and Schulz, with the coefficients of Jordan
    et al. (2024)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = g.size(-2) > g.size(-1)
    product = torch.addmm if g.ndim == 2 else torch.baddbmm
    x = (g.mT if tall else g).to(torch.bfloat16 if precision == "bf16" else torch.float32)
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)  # no singular value is above 1
    for _ in range(rounds):
        s = x @ x.mT
        x = product(x, product(s, s, s, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


MOMENTUM = 0.95  # of Muon


class Muon(torch.optim.Optimizer):
    """Momentum made orthogonal, for matrices (Jordan et al. 2024).

    torch.optim.Muon with adjust_lr_fn="match_rms_adamw", which has precision="bf16" and needs
    PyTorch 2.9. "auto" is the machine's: a processor that has to imitate bf16 takes dozens of times
    as long in it."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        precision: str = "auto",
    ):
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, precision=precision))

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # no closure
        for group in self.param_groups:
            lr, alike = group["lr"], defaultdict(list)
            for w in group["params"]:
                if w.grad is not None:
                    mean = self.state[w].setdefault("momentum_buffer", torch.zeros_like(w))
                    mean.lerp_(w.grad, 1 - MOMENTUM)
                    # small matrices of one shape take the rounds together
                    alike[w.shape if w.numel() < 2**15 else w].append((w, mean))
            for members in alike.values():
                gradients = torch.stack([w.grad.lerp(mean, MOMENTUM) for w, mean in members])
                precision = resolve_precision(group["precision"], gradients.device)
                for (w, _), update in zip(members, orthogonal(gradients, precision=precision)):
                    w.mul_(1 - lr * group["weight_decay"])
                    scale = 0.2 * max(w.shape) ** 0.5  # of a step of Adam's
                    w.add_(update.to(w.dtype), alpha=-lr * scale)


ADAM = dict(lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)  # a Trainer sets the rate


class CombinedOptimizer:
    """One optimizer for the hidden matrices, Adam for embeddings, output, biases and norms; they
    step, save and load as one.

    Hidden are the matrices inside the layers of encoder and decoder, or those of
    `model.hidden_matrices()`. `first` is how many they are: in a saved state Adam's parameters are
    counted on from there."""

    def __init__(self, model: nn.Module, optimizer: type[torch.optim.Optimizer], **settings):
        if hasattr(model, "hidden_matrices"):
            hidden = model.hidden_matrices()
        else:
            stacks = [*model.encoder.parameters(), *model.decoder.parameters()]
            hidden = [w for w in stacks if w.ndim == 2]
        chosen = {id(w) for w in hidden}
        others = [w for w in model.parameters() if id(w) not in chosen]
        self.first = len(hidden)
        self.parts = [optimizer(hidden, **settings), torch.optim.Adam(others, **ADAM)]

    @property
    def param_groups(self) -> list[dict]:
        "Of both; looked up each time, since loading a state makes new ones."
        return [group for part in self.parts for group in part.param_groups]

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad()

    def step(self) -> None:
        for part in self.parts:
            part.step()

    def state_dict(self) -> dict:
        first, second = (part.state_dict()["state"] for part in self.parts)
        moved = {i + self.first: slots for i, slots in second.items()}
        return {"state": first | moved, "param_groups": []}

    def load_state_dict(self, state: dict) -> None:
        states = {}, {}
        for i, slots in state["state"].items():
            second = i >= self.first
            states[second][i - self.first * second] = slots
        for part, slots in zip(self.parts, states):
            part.load_state_dict({**part.state_dict(), "state": slots})


class MuonAndAdam(CombinedOptimizer):
    """Muon for the hidden matrices; both parts take the same rate, as Muon's steps are scaled to
    Adam's size. precision: of Muon's products."""

    def __init__(self, model: nn.Module, decay: float = 0.1, precision: str = "auto"):
        super().__init__(model, Muon, lr=0.0, weight_decay=decay, precision=precision)


# AdamW, with decay, for the hidden matrices
AdamWAndAdam = partial(CombinedOptimizer, optimizer=torch.optim.AdamW, weight_decay=0.1, **ADAM)
