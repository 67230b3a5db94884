"""What can be known of a GPU without one: nothing in a step needs a value, no tensors of two
devices meet, and a search waits once in each of its steps.

On `meta` there are no values: an operation that needs one fails, and so do tensors of two devices.
Where values are needed, `Waits` counts on the processor what a GPU would be waited for."""

from contextlib import nullcontext
from unittest.mock import patch

import pytest
import torch
from helpers import sentences
from torch.utils._python_dispatch import TorchDispatchMode

from transformer_lit import loss
from transformer_lit.decoding import beam_search, greedy_decode
from transformer_lit.masks import BOS, PAD, run_seeded
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.runs import records
from transformer_lit.runtime import devices, distributed, optimizers
from transformer_lit.runtime.optimizers import MuonAndAdam
from transformer_lit.training import Trainer, TrainingConfig

WAITS = {"_local_scalar_dense", "nonzero", "equal", "masked_select", "is_nonzero", "_unique2"}


class Waits(TorchDispatchMode):
    "The operations that run in the block, and those among them that a GPU is waited for."

    def __init__(self):
        super().__init__()
        self.ops, self.waits = [], 0
        self.patches = [
            patch.object(torch.Tensor, name, self.counted(getattr(torch.Tensor, name)))
            for name in ("tolist", "cpu", "numpy")
        ]

    def counted(self, method):
        def call(tensor, *args, **options):
            self.waits += 1
            return method(tensor, *args, **options)

        return call

    def __enter__(self):
        for each in self.patches:
            each.start()
        return super().__enter__()

    def __exit__(self, *error):
        for each in self.patches:
            each.stop()
        return super().__exit__(*error)

    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        out, name = f(*args, **kwargs or {}), f.overloadpacket.__name__
        by_mask = name == "index" and any(x is not None and x.dtype == torch.bool for x in args[1])
        self.waits += name in WAITS or by_mask
        self.ops.append((name, tuple(getattr(out, "shape", ()))))
        return out


def a_model(**changes):
    torch.manual_seed(0)
    sizes = dict(d_model=16, n_heads=2, d_ff=32, n_encoder_layers=1, n_decoder_layers=1)
    return Transformer(TransformerConfig(13, **sizes | changes))


def a_batch(rows=5):
    source, target = sentences(rows, 6, 0), sentences(rows, 7, 1)
    target[:, 0] = BOS
    return source, target


def test_it_counts_each_wait():
    x = torch.arange(3)
    with Waits() as seen:
        x + 2, x[torch.tensor([0, 1])], x.sum()
        assert not seen.waits, "positions and a sum that stays where it is need no wait"
        x.sum().item(), x.tolist(), x[x > 0], x.cpu(), bool(x.any())
    assert seen.waits == 5


# Training -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm, accumulate, clip", [("post", 1, 1.0), ("pre", 3, 0.0)])
def test_a_step_waits_for_nothing_and_meets_no_tensor_of_another_device(
    norm, accumulate, clip, monkeypatch
):
    monkeypatch.setattr(torch.Tensor, "is_cuda", True, raising=False)  # what our code asks
    config = TrainingConfig(accumulation_steps=accumulate, clip_norm=clip, warmup_steps=4)
    model = a_model(norm=norm)
    trainer = Trainer(model, config, optimizer=MuonAndAdam(model, precision="fp32"))
    with Waits() as seen:
        trainer.train_step(*a_batch())
    assert not seen.waits, "a step waits for the GPU"
    # `meta` knows neither of these
    monkeypatch.setitem(optimizers.ADAM, "fused", False)
    monkeypatch.setattr(devices, "autocast", lambda *_: nullcontext())
    model = a_model(norm=norm).to("meta")
    trainer = Trainer(model, config, optimizer=MuonAndAdam(model, precision="fp32"))
    try:
        trainer.train_step(*(side.to("meta") for side in a_batch()))
    except RuntimeError as error:
        pytest.fail(f"a step needs a value, or has tensors of two devices: {error}")
    assert all(w.grad.is_meta for w in model.parameters())


def test_the_gradient_of_the_loss_writes_into_no_zeros():
    logits, labels = torch.randn(32, 50, requires_grad=True), torch.randint(0, 50, (32,))
    with Waits() as seen:
        loss.label_smoothed_cross_entropy(logits, labels, reduction="sum").backward()
    names = {name for name, shape in seen.ops if shape == (32, 50)}
    written = names & set("scatter_add scatter_add_ scatter new_zeros zeros zeros_like".split())
    assert not written, "the gradient of the loss is written into zeros of tokens × vocabulary"


# Decoding -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "search",
    [greedy_decode, lambda model, source, longest: beam_search(model, source, 3, 0.6, longest)],
    ids=["greedy", "beam"],
)
def test_a_step_of_a_search_waits_once_whatever_the_rows(search):
    model = a_model().eval()
    with torch.no_grad():
        model.output_projection.weight[[PAD, BOS]] -= 100.0
    step, found = model.step, {}
    for rows in 2, 8:
        counts = []
        with Waits() as seen:
            model.step = lambda *args: counts.append(seen.waits) or step(*args)
            search(model, a_batch(rows)[0], 6)
        found[rows] = max(b - a for a, b in zip(counts, counts[1:])), seen.waits - len(counts)
    assert found[2][0] == found[8][0], "the waits grow with the rows"
    assert found[8][0] == 1 and found[8][1] <= 3, "a search waits outside its steps"


# Elsewhere ----------------------------------------------------------------------------------------


def test_the_gpus_random_state_is_put_back(monkeypatch):
    state = torch.tensor([7, 7])
    for name, value in dict(
        device_count=lambda: 1,
        is_available=lambda: True,
        get_rng_state=lambda *_: state.clone(),
        set_rng_state=lambda new, *_: state.copy_(new),
        manual_seed_all=lambda seed: state.fill_(seed),
    ).items():
        monkeypatch.setattr(torch.cuda, name, value)
    run_seeded(lambda x: x, torch.zeros(1))
    message = "same_randomness leaves the GPU with another random state"
    assert state.tolist() == [7, 7], message


def test_a_record_names_the_gpu_that_was_used(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: "NVIDIA Test 9")
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    assert (
        records.hardware_name().startswith("NVIDIA Test 9, ")
        and records.hardware_name(gpu) == records.hardware_name()
    ), "the record must name its GPU"
    assert "NVIDIA" not in records.hardware_name(cpu), (
        "a run on the processor names a GPU that it didn't use"
    )
    monkeypatch.setattr(distributed, "process", lambda: (0, 8))
    assert records.hardware_name(gpu).startswith("8 × NVIDIA Test 9, ")
