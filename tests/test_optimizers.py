"""`runtime.optimizers`: Muon beside PyTorch's, and two optimizers that are one to whoever uses
them."""

import math

import pytest
import torch
from torch import nn
from translators import PAIRS, joint

from transformer_lit.runtime import devices
from transformer_lit.runtime.optimizers import (
    AdamWAndAdam,
    Muon,
    MuonAndAdam,
    CombinedOptimizer,
    orthogonal,
)
from transformer_lit.batching import collate
from transformer_lit.training import Trainer, TrainingConfig


def test_orthogonal_by_hand():
    one = orthogonal(
        torch.tensor([[7.0]]), rounds=1
    )  # a matrix of one number is its own singular value
    assert abs(one.item() - (3.4445 - 4.7750 + 2.0315)) < 1e-6
    none = orthogonal(torch.tensor([[1e-8]]), 1)  # is divided by 1e-7 at least
    assert abs(none.item() - (0.34445 - 0.004775 + 0.0000203)) < 1e-5
    torch.manual_seed(1)
    singular = torch.linalg.svdvals(orthogonal(torch.randn(48, 20)))
    assert singular.min() > 0.3 and singular.max() < 1.4, (
        "after five rounds all directions are nearly alike"
    )


def test_orthogonal_is_the_same_on_its_side():
    torch.manual_seed(1)
    wide = torch.randn(6, 30)
    assert torch.allclose(orthogonal(wide.mT), orthogonal(wide).mT)
    assert orthogonal(wide, precision="bf16").dtype == torch.bfloat16
    x = wide / wide.norm()
    s = x @ x.mT
    assert torch.allclose(
        orthogonal(wide, 1), 3.4445 * x - 4.7750 * s @ x + 2.0315 * s @ s @ x, atol=1e-5
    )


@pytest.mark.skipif(
    not hasattr(torch.optim, "Muon"), reason="PyTorch has Muon to compare with since 2.9"
)
@pytest.mark.parametrize(
    "rate, decay, shape",
    [(0.02, 0.1, (3, 40)), (0.3, 0.0, (40, 3)), (1e-3, 0.5, (16, 16)), (0.1, 0.1, (1, 1))],
)
def test_muon_is_pytorchs(rate, decay, shape):
    """As near as bf16 rounds (a hundredth of the way; another torch may sum in another order), a
    stop and a resume on the way.

    The least mistake, a momentum of 0.9, is five hundredths away."""
    torch.manual_seed(1)
    begun, gradients = torch.randn(shape), torch.randn(6, *shape)
    ended = []
    for make in (
        lambda w: torch.optim.Muon(
            [w], lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw"
        ),
        lambda w: Muon([w], rate, decay, precision="bf16"),
        lambda w: Muon([w], rate, decay, precision="fp32"),
    ):
        w = torch.nn.Parameter(begun.clone())
        optimizer = make(w)
        for n, g in enumerate(gradients):
            if n == 3:
                kept, optimizer = optimizer.state_dict(), make(w)
                optimizer.load_state_dict(kept)
            w.grad = g.clone()
            optimizer.step()
        ended.append(w.detach())
    way = (ended[0] - begun).norm()
    assert (ended[1] - ended[0]).norm() < 0.02 * way, "another Muon than PyTorch's"
    assert (ended[2] - ended[0]).norm() < 0.02 * way, "the rounds in fp32 go elsewhere"


def test_muon_without_a_gradient_and_with_decay_alone():
    still = nn.Parameter(torch.ones(2, 2))
    Muon([still]).step()
    assert torch.equal(still, torch.ones(2, 2)), "no gradient, no step"
    still.grad = torch.zeros(2, 2)
    Muon([still], lr=0.1, weight_decay=0.5).step()
    assert torch.allclose(still, torch.full((2, 2), 0.95))


@pytest.mark.parametrize("has_bf16", [True, False])
def test_muon_takes_what_the_machine_is_good_at(has_bf16, monkeypatch):
    monkeypatch.setattr(devices, "supports_bf16", lambda device: has_bf16)
    ended = []
    for precision in "auto", "bf16" if has_bf16 else "fp32":
        w = torch.nn.Parameter(torch.eye(3))
        w.grad = torch.arange(9.0).view(3, 3)
        Muon([w], precision=precision).step()
        ended.append(w)
    assert torch.equal(*ended)


def test_two_optimizers_look_like_one():
    one, two = (nn.Parameter(torch.ones(1)) for _ in range(2))
    model = nn.Module()  # one hidden matrix, and one parameter that Adam gets
    model.hidden_matrices = lambda: [one]
    model.one, model.two = one, two
    both = CombinedOptimizer(model, torch.optim.SGD, lr=0.1, momentum=0.9)
    both.parts[1] = torch.optim.SGD([two], 0.5, momentum=0.9)
    (one + two).sum().backward()
    both.step()
    assert (round(one.item(), 6), two.item()) == (0.9, 0.5) and [
        g["lr"] for g in both.param_groups
    ] == [0.1, 0.5]
    both.zero_grad()
    assert one.grad is None and two.grad is None
    kept = both.state_dict()
    assert kept["param_groups"] == [] and set(kept["state"]) == {
        0,
        1,
    }, "the second one's parameters are counted on"
    both.load_state_dict(
        {
            "state": {
                0: {"momentum_buffer": torch.tensor([7.0])},
                1: {"momentum_buffer": torch.tensor([8.0])},
            }
        }
    )
    resumed = [
        float(part.state[w].get("momentum_buffer", math.nan))
        for part, w in zip(both.parts, (one, two))
    ]
    assert resumed == [
        7.0,
        8.0,
    ], "a resumed run must go on with the very losses: the second one's state is lost"


@pytest.mark.parametrize("make", [MuonAndAdam, AdamWAndAdam])
def test_every_weight_has_one_optimizer(make):
    model = joint().model
    optimizer = make(model)
    muon, adam = ([w for g in part.param_groups for w in g["params"]] for part in optimizer.parts)
    assert sorted(map(id, muon + adam)) == sorted(map(id, model.parameters())), (
        "a weight belongs to no optimizer, or to both"
    )
    assert all(w.ndim == 2 for w in muon) and any(
        w is model.output_projection.weight for w in adam
    ), "embeddings belong to Adam"


def test_both_parts_are_set_as_the_recipes_want_them():
    muon, adam = MuonAndAdam(joint().model).parts
    assert {w.ndim for g in muon.param_groups for w in g["params"]} == {2}
    assert muon.param_groups[0]["weight_decay"] == 0.1
    assert adam.param_groups[0]["betas"] == (0.9, 0.98) and adam.param_groups[0]["eps"] == 1e-9
    adamw, adam = AdamWAndAdam(joint().model, weight_decay=0.5).parts
    assert [type(part) for part in (adamw, adam)] == [torch.optim.AdamW, torch.optim.Adam]
    assert (
        adamw.param_groups[0]["weight_decay"] == 0.5 and adam.param_groups[0]["weight_decay"] == 0
    )


def test_a_rate_reaches_the_groups_after_loading():
    """Loading makes new groups; an optimizer that remembers the old ones goes on without an error
    and learns nothing."""

    def three_steps(stop):
        model = joint(dropout=0.0).model
        run = Trainer(
            model, TrainingConfig(), optimizer=MuonAndAdam(model), lr_schedule=lambda step: 0.01
        )
        for step in range(3):
            if step == stop:
                kept = run.optimizer.state_dict()
                run.optimizer = MuonAndAdam(model)
                run.optimizer.load_state_dict(kept)
            found = run.train_step(*collate(joint().encode_pairs(PAIRS[:8])))
        return float(found["loss"]), run

    (through, run), (resumed, _) = three_steps(None), three_steps(2)
    assert math.isclose(through, resumed, rel_tol=1e-6), "must go on with the very losses"
    assert [group["lr"] for group in run.optimizer.param_groups] == [0.01, 0.01]
