"""`runtime.optimizers`: Muon beside PyTorch's, and two optimizers that are one to whoever uses
them."""


import pytest
import torch
from torch import nn
from translators import joint

from transformer_lit.rnn import RNNConfig, RNNSeq2Seq
from transformer_lit.runtime.optimizers import (
    Muon,
    MuonAndAdam,
    CombinedOptimizer,
    orthogonal,
)


def test_orthogonal_by_hand():
    one = orthogonal(torch.tensor([[7.0]]), rounds=1)  # its own singular value
    assert one.item() == pytest.approx(3.4445 - 4.7750 + 2.0315, abs=1e-6)
    none = orthogonal(torch.tensor([[1e-8]]), 1)  # is divided by 1e-7 at least
    assert none.item() == pytest.approx(0.34445 - 0.004775 + 0.0000203, abs=1e-5)
    singular = torch.linalg.svdvals(orthogonal(torch.randn(48, 20)))
    assert 0.3 < singular.min() and singular.max() < 1.4, "directions are nearly alike"


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
    begun, gradients = torch.randn(2, *shape), torch.randn(6, 2, *shape)
    ended = []
    for make in (
        lambda both: torch.optim.Muon(
            both, lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw"
        ),
        lambda both: Muon(both, rate, decay, precision="bf16"),
        lambda both: Muon(both, rate, decay, precision="fp32"),
    ):
        both = [torch.nn.Parameter(w.clone()) for w in begun]
        optimizer = make(both)
        for n, g in enumerate(gradients):
            if n == 3:
                kept, optimizer = optimizer.state_dict(), make(both)
                optimizer.load_state_dict(kept)
            for w, own in zip(both, g):
                w.grad = own.clone()
            optimizer.step()
        ended.append(torch.stack(both).detach())
    way = (ended[0] - begun).norm()
    assert (ended[1] - ended[0]).norm() < 0.02 * way, "another Muon than PyTorch's"
    assert (ended[2] - ended[0]).norm() < 0.02 * way, "the rounds in fp32 go elsewhere"


def test_two_optimizers_look_like_one():
    model = nn.Module()  # one hidden matrix, and one parameter that Adam gets
    model.one, model.two = one, two = [nn.Parameter(torch.ones(1)) for _ in range(2)]
    model.hidden_matrices = lambda: [one]
    both = CombinedOptimizer(model, torch.optim.SGD, lr=0.1, momentum=0.9)
    both.parts[1] = torch.optim.SGD([two], 0.5, momentum=0.9)
    (one + two).sum().backward()
    both.step()
    assert [one.item(), two.item()] == pytest.approx([0.9, 0.5])
    assert [group["lr"] for group in both.param_groups] == [0.1, 0.5]
    both.zero_grad()
    assert one.grad is None and two.grad is None
    assert set(both.state_dict()["state"]) == {0, 1}, "the second one's parameters are counted on"
    buffers = {n: {"momentum_buffer": torch.tensor([7.0 + n])} for n in range(2)}
    both.load_state_dict({"state": buffers})
    for part, w, value in zip(both.parts, (one, two), (7.0, 8.0)):
        buffer = part.state[w].get("momentum_buffer")
        assert buffer == value, "a resumed run must go on with the very losses: a state is lost"


@pytest.mark.parametrize("model", [joint().model, RNNSeq2Seq(RNNConfig(9, 8, 8))], ids=type)
def test_every_weight_has_one_optimizer(model):
    optimizer = MuonAndAdam(model)
    muon, adam = ([w for g in part.param_groups for w in g["params"]] for part in optimizer.parts)
    assert sorted(map(id, muon + adam)) == sorted(map(id, model.parameters())), (
        "a weight belongs to no optimizer, or to both"
    )
    assert all(w.ndim == 2 for w in muon) and any(
        w is model.output_projection.weight for w in adam
    ), "embeddings belong to Adam"
