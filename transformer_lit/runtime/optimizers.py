"""Muon, and two optimisers that step as one: one for the matrices between hidden layers, one for
all the rest."""

# Chapter 25 explains Muon and looks at what its rounds do to singular values.
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from transformer_lit.runtime.devices import resolve_precision


def orthogonal(g: Tensor, rounds: int = 5, precision: str = "fp32") -> Tensor:
    """About U Vᵀ of g = U Σ Vᵀ, by products alone, of one matrix or of each of a stack. ([N,] A, B)
    -> ([N,] A, B)

    Rounds of X -> aX + bXXᵀX + c(XXᵀ)²X, after Newton and Schulz, with the coefficients of Jordan
    et al. (2024)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = g.size(-2) > g.size(-1)
    x = (g.mT if tall else g).to(torch.bfloat16 if precision == "bf16" else torch.float32)
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)  # no singular value is above 1
    add_product = torch.addmm if x.dim() == 2 else torch.baddbmm
    for _ in range(rounds):
        s = x @ x.mT
        x = add_product(x, add_product(s, s, s, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


def of_one_shape(weights: Iterable[Tensor]) -> list[list[Tensor]]:
    """The weights in groups of one shape, type and device; on a processor each is a group of its
    own.

    There a matrix stays in the cache from one product to the next, and a stack doesn't: it took a
    seventh longer."""
    groups: dict[tuple, list[Tensor]] = {}
    for w in weights:
        alone = id(w) if w.device.type == "cpu" else 0
        groups.setdefault((w.shape, w.dtype, w.device, alone), []).append(w)
    return list(groups.values())


class Muon(torch.optim.Optimizer):
    """Momentum made orthogonal, for matrices (Jordan et al. 2024).

    torch.optim.Muon with adjust_lr_fn="match_rms_adamw", which has precision="bf16" and needs
    PyTorch 2.9. None is `resolve_precision`'s: a processor that has to imitate bf16 takes dozens of
    times as long in it.

    On a GPU matrices of one shape are stacked and stepped together: a model has many layers and few
    shapes, and each operation costs a launch, which for matrices as small as these takes longer
    than the work."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        precision: str | None = None,
    ):
        super().__init__(
            params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, precision=precision)
        )

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # no closure
        for group in self.param_groups:
            rate, ahead = group["lr"], group["momentum"]
            for same in of_one_shape([w for w in group["params"] if w.grad is not None]):
                grads, means = [w.grad for w in same], [self.mean_of(w) for w in same]
                torch._foreach_lerp_(means, grads, 1 - ahead)
                mixed = torch._foreach_lerp(grads, means, ahead)
                steps = orthogonal(
                    torch.stack(mixed) if len(mixed) > 1 else mixed[0],
                    precision=group["precision"] or resolve_precision("auto", same[0].device),
                )
                torch._foreach_mul_(same, 1 - rate * group["weight_decay"])
                size = 0.2 * max(same[0].shape) ** 0.5  # of a step of Adam's
                torch._foreach_add_(
                    same, list(steps.to(same[0].dtype).view(-1, *same[0].shape)), alpha=-rate * size
                )

    def mean_of(self, w: Tensor) -> Tensor:
        "The running mean of a weight's gradients, zeros at first."
        if "momentum_buffer" not in self.state[w]:
            self.state[w]["momentum_buffer"] = torch.zeros_like(w)
        return self.state[w]["momentum_buffer"]


class CombinedOptimizer:
    """Two optimisers, `parts`, that step, save and load as one.

    `first` is how many parameters the first one has: in a saved state the second one's are counted
    on from there."""

    def __init__(self, first: int, parts: list[torch.optim.Optimizer]):
        self.first, self.parts = first, parts

    @property
    def param_groups(self) -> list[dict]:
        "Of both; asked for each time, since loading a state makes new ones."
        return [group for part in self.parts for group in part.param_groups]

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad()

    def step(self) -> None:
        for part in self.parts:
            part.step()

    def state_dict(self) -> dict:
        one, two = (part.state_dict()["state"] for part in self.parts)
        return {
            "state": one | {i + self.first: slots for i, slots in two.items()},
            "param_groups": [],
        }

    def load_state_dict(self, kept: dict) -> None:
        one, two = {}, {}
        for i, slots in kept["state"].items():
            if i < self.first:
                one[i] = slots
            else:
                two[i - self.first] = slots
        for part, state in zip(self.parts, (one, two)):
            part.load_state_dict({**part.state_dict(), "state": state})


def split_hidden_matrices(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The matrices inside the encoder's and the decoder's layers, and all other parameters:
    embeddings, output, biases, norms."""
    stacks = [*model.encoder.parameters(), *model.decoder.parameters()]
    hidden = [w for w in stacks if w.ndim == 2]
    chosen = {id(w) for w in hidden}
    return hidden, [w for w in model.parameters() if id(w) not in chosen]


class MuonAndAdam(CombinedOptimizer):
    """Muon for the hidden matrices, Adam for all the rest, as one.

    Both take the same rate: Muon's steps are scaled to Adam's size. precision: of Muon's products,
    None for the machine's."""

    def __init__(self, model: nn.Module, decay: float = 0.1, precision: str | None = None):
        hidden, rest = split_hidden_matrices(model)
        super().__init__(
            len(hidden),
            [
                Muon(hidden, lr=0.0, weight_decay=decay, precision=precision),
                torch.optim.Adam(rest, lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True),
            ],
        )


class AdamWAndAdam(CombinedOptimizer):
    "AdamW with decay for the hidden matrices, Adam for all the rest, as one."

    def __init__(self, model: nn.Module, decay: float = 0.1):
        hidden, rest = split_hidden_matrices(model)
        how = dict(lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
        super().__init__(
            len(hidden),
            [torch.optim.AdamW(hidden, weight_decay=decay, **how), torch.optim.Adam(rest, **how)],
        )
