"""What fits in memory: micro-batches whose gradients add up to the whole batch's."""

import dataclasses
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import one_sentence, small_model
from made_up import here, own, store  # noqa: F401

from transformer_lit import training, wmt
from transformer_lit.recipes import experiments
from transformer_lit.runtime import memory


class Greedy(torch.nn.Module):
    "A model that has room for so many tokens at a time and no more."

    def __init__(self, model, room):
        super().__init__()
        self.model, self.room, self.config = model, room, model.config

    def forward(self, source, target):
        if source.numel() + target.numel() > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return self.model(source, target)


def test_the_budget_fits_itself_and_the_result_is_the_same(own, store):
    config = training.TrainingConfig(max_tokens=400)
    hardest = experiments.hardest(wmt.StoreBatches(store, config, 1))
    batch = max(wmt.length_batches(store.lengths, 400), key=len)
    gradients = {}
    for room in 10**9, 300, 100:
        model = small_model(vocab=len(store.tokens()))
        parts = memory.micro_batches_that_fit(Greedy(model, room), hardest, config)
        assert all(weight.grad is None for weight in model.parameters())
        loss = training.backward(
            Greedy(model, 10**9),
            *wmt.gather(store, batch),
            dataclasses.replace(config, accumulate=parts),
        )
        gradients[room] = parts, loss, [w.grad for w in model.parameters()]
    assert gradients[10**9][0] == 1 < gradients[300][0] < gradients[100][0]
    for _, loss, grads in gradients.values():
        assert math.isclose(loss, gradients[10**9][1], rel_tol=1e-6)
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(grads, gradients[10**9][2]))
    with pytest.raises(MemoryError) as caught:
        memory.micro_batches_that_fit(Greedy(model, 3), hardest, config)
    assert one_sentence(str(caught.value))


def test_trying_leaves_no_gradient(store):
    model, config = small_model(vocab=len(store.tokens())), training.TrainingConfig(max_tokens=400)
    source, target = wmt.gather(store, np.arange(4))
    assert memory.fits(model, source, target, config) and all(
        weight.grad is None for weight in model.parameters()
    )
    assert not memory.fits(Greedy(model, 3), source, target, config)
    assert all(weight.grad is None for weight in model.parameters())


def test_the_best_of_six_products(monkeypatch):
    clock = iter([0, 9, 0, 2, 0, 4, 0, 9, 0, 9, 0, 9])
    with monkeypatch.context() as patch:
        patch.setattr(memory.time, "perf_counter", lambda: next(clock))
        assert memory.matmul_flops(torch.device("cpu")) == 2 * 1024**3 / 2
    assert memory.matmul_flops(torch.device("cpu"), "bf16") > 1e8


def test_memory_that_was_held():
    found = memory.peak_memory_mb()
    assert 50 < found["own_megabytes"] < 20_000 and len(found) == 2


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux counts what the process before held"
)
def test_a_process_is_not_charged_with_what_started_it():
    """A child of a large process: the operating system's figure for it includes the parent's, ours
    doesn't."""
    held = bytearray(b"x") * 600_000_000  # written, so that it is really held
    child = (
        "from transformer_lit.runtime.memory import peak_memory;"
        " print(peak_memory()['own_megabytes'])"
    )
    found, larger = (
        int(
            subprocess.run(
                [sys.executable, "-c", first + child],
                capture_output=True,
                text=True,
                check=True,
                cwd=Path(__file__).parent.parent,
            ).stdout
        )
        for first in ("", "held = bytearray(b'x') * 600_000_000; ")
    )
    assert len(held) == 600_000_000 and larger > found + 500
