"""The book's training and decoding on a pretended GPU (fake_cuda.py): no tensors of two devices, no
waiting where none may be.

Its library has to be loaded before torch, so everything runs once, in one process of its own
(fake_cuda_checks.py); the tests read what it found. On a wheel with CUDA, or without a compiler,
they are skipped, and a step on `meta` is what is left."""

import json
import os
import subprocess
import sys
from pathlib import Path

import fake_cuda
import numpy as np
import pytest
import torch
from made_up import here, own, store  # noqa: F401
from torch.utils._python_dispatch import TorchDispatchMode

from transformer_lit import loss, wmt
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.runs import records
from transformer_lit.runtime.optimizers import Muon

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def all_found(own, store, tmp_path_factory):
    if torch.version.cuda or torch.version.hip:
        pytest.skip("this torch has GPUs of its own; the pretended one is for a wheel without")
    if not fake_cuda.compiler():
        pytest.skip("no C++ compiler here to build the pretended GPU with")
    folder = tmp_path_factory.mktemp("card")
    library, out = fake_cuda.build(folder), folder / "found.json"
    done = subprocess.run(
        [
            sys.executable,
            str(HERE / "fake_cuda_checks.py"),
            str(own / "store"),
            str(own / "mine-fr"),
            str(out),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        env={
            **os.environ,
            "FAKE_CUDA": str(library),
            "TRANSFORMER_LIT_DATA": str(own),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": f"{HERE.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(out.read_text())


@pytest.fixture
def found(all_found):
    def of(name):
        assert "found" in all_found[name], f"on a GPU this fails: {all_found[name]['error']}"
        return all_found[name]["found"]

    return of


# The pretended GPU itself -------------------------------------------------------------------------


def test_it_refuses_two_devices_and_notes_each_wait(found):
    said = found("two_devices")
    assert all("two devices" in said[name] for name in ("a sum", "an index", "a list"))
    assert said["none"] == [], (
        "a number from the processor, positions on the device and a sum that stays there need no"
        " wait"
    )
    assert said["waits"] == [
        "_local_scalar_dense",
        "tolist",
        "index",
        "nonzero",
        "_to_copy",
        "_local_scalar_dense",
        "_local_scalar_dense",
    ]


# Training -----------------------------------------------------------------------------------------


def test_a_step_waits_for_nothing_and_is_the_processors(found):
    rows = found("training")
    assert len(rows) == 16
    for row in rows:
        assert row["waits"] == [], f"{row['way']}: a step waits for the GPU at {row['waits']}"
        half = row["way"][0] == "bf16"
        assert row["apart"] < (
            0.05 if half else 1e-5
        ), f"{row['way']}: loss or norm is {row['apart']} from the processor's"
        assert (
            row["copies"] > 20
        ) == half, f"{row['way']}: autocast converts where it shouldn't, or doesn't"


def test_a_run_in_two_parts_is_the_run(found):
    runs = found("resume")
    assert (
        len(runs["through"]) == 6 and runs["through"] == runs["parts"]
    ), "a resumed run must go on with the very losses"


def test_a_large_run_from_its_store_to_its_record(found):
    runs = found("whole_run")
    cpu, cuda = runs["cpu"], runs["cuda"]
    assert (
        cuda["places"] == [["cuda", "cuda"]] and cuda["waits"] == []
    ), f"steps wait for the GPU: {cuda['waits'][:5]}"
    at = [10 * (k + 1) - 1 for k in range(len(cuda["loss"]))]  # a GPU's log has every tenth step
    assert cuda["loss"] == pytest.approx(
        [cpu["loss"][i] for i in at] if len(cpu["loss"]) > len(at) else cpu["loss"], rel=1e-4
    )
    assert cuda["valid"] == pytest.approx(cpu["valid"], rel=1e-4) and len(cuda["valid"]) == 2
    assert (
        "A pretended GPU" in cuda["hardware"] and "GPU" not in cpu["hardware"]
    ), "the record must name its GPU"
    assert not cuda["outside"], (
        "between two steps a run waits for the GPU, and its clock doesn't count that:"
        f" {cuda['outside'][:3]}"
    )


def test_the_clock_of_a_run_counts_the_devices_work(found):
    """A step hands 40 ms of work over and returns; what it costs is waited for somewhere, and must
    be waited for on the clock."""
    one = found("clock")
    assert one["steps"] == 20 and one["busy"] >= 0.8 and one["wall"] > one["busy"] * 0.99
    assert one["epochs"] > 1, "the end of an epoch is waited for as well"
    assert (
        one["own"] > 0.95 * one["wall"]
    ), f"{one['own']:.2f} s by the run's clock, {one['wall']:.2f} s by the wall"


def test_spoilt_weights_are_not_kept(found):
    kept = found("kept")
    assert kept["same"], "what is kept must be the weights"
    assert (
        "nan or inf in model." in kept["said"] and not kept["written"]
    ), "weights with nan were kept for an average"


# Decoding -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_a_step_of_a_search_waits_once_whatever_the_rows(found, search):
    two, eight = (found(search)[rows] for rows in ("2", "8"))
    assert two["same"] and eight["same"], "the answers are not the processor's"
    assert (
        two["steps"] == eight["steps"] and two["most"] == eight["most"]
    ), "the waits grow with the rows"
    assert eight["most"] == 1, f"{eight['most']} waits in a step: {eight['where']}"
    assert (
        eight["in_all"] <= eight["steps"] + 3
    ), f"{eight['in_all']} waits in {eight['steps']} steps: {eight['where']}"


def test_what_else_asks_a_model_finds_it_on_its_device(found):
    both = found("looking")
    for name in "answers", "letters", "steps":
        assert both["cuda"][name] == both["cpu"][name], name
    assert both["cuda"]["valid"] == pytest.approx(both["cpu"]["valid"], rel=1e-5)
    assert both["cuda"]["bits"] == pytest.approx(both["cpu"]["bits"], rel=1e-4)


def test_the_gpus_random_state_is_put_back(found):
    assert found("randomness") == [7, 7], "same_randomness leaves the GPU with another random state"


# Without a pretended GPU --------------------------------------------------------------------------


class Seen(TorchDispatchMode):
    "Operations, and the sizes of what each makes."

    def __init__(self):
        super().__init__()
        self.ops = []

    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        out = f(*args, **kwargs or {})
        self.ops.append(
            (f.overloadpacket.__name__, tuple(out.shape) if isinstance(out, torch.Tensor) else ())
        )
        return out


def test_a_step_without_numbers():
    """On `meta` there are no values: an operation that needs one fails, and so do tensors of two
    devices."""
    with torch.device("meta"):
        model = Transformer(
            TransformerConfig(
                40, d_model=16, n_heads=2, d_ff=32, n_encoder_layers=1, n_decoder_layers=1
            )
        )
        source, target = torch.ones(3, 5, dtype=torch.long), torch.ones(3, 6, dtype=torch.long)
    loss.smoothed_cross_entropy(model(source, target), target, reduction="sum").backward()
    hidden = [w for w in model.parameters() if w.ndim == 2]
    Muon(hidden, precision="fp32").step()
    assert all(w.grad.is_meta for w in model.parameters())


def test_the_gradient_of_the_loss_writes_into_no_zeros():
    logits, labels = torch.randn(32, 50, requires_grad=True), torch.randint(0, 50, (32,))
    with Seen() as seen:
        loss.smoothed_cross_entropy(logits, labels, reduction="sum").backward()
    names = {name for name, shape in seen.ops if shape == (32, 50)}
    assert not names & {
        "scatter_add",
        "scatter_add_",
        "scatter",
        "index_put_",
        "index_put",
        "new_zeros",
        "zeros",
        "zeros_like",
    }, f"the gradient of the loss is written into zeros of tokens × vocabulary: {sorted(names)}"


def test_muon_takes_as_many_operations_for_eight_layers_as_for_two():
    counts = []
    for layers in 2, 8:  # one layer's matrices are stepped without a stack
        weights = [
            torch.nn.Parameter(torch.empty(*shape, device="meta"))
            for _ in range(layers)
            for shape in ((4, 4), (4, 8), (8, 4), (4, 4))
        ]
        optimizer = Muon(weights, precision="fp32")
        for _ in range(2):  # the first step makes the means
            for w in weights:
                w.grad = torch.randn_like(w)
            with Seen() as seen:
                optimizer.step()
        counts.append(len(seen.ops))
    assert counts[0] == counts[1] < 200, f"Muon's operations grow with the layers: {counts}"


def test_a_record_names_the_gpu_that_was_used(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: "NVIDIA Test 9")
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    assert (
        records.hardware_name().startswith("NVIDIA Test 9, ")
        and records.hardware_name(gpu) == records.hardware_name()
    ), "the record must name its GPU"
    assert "NVIDIA" not in records.hardware_name(
        cpu
    ), "a run on the processor names a GPU that it didn't use"
    monkeypatch.setattr(records, "process", lambda: (0, 8))
    assert records.hardware_name(gpu).startswith("8 × NVIDIA Test 9, ")


def test_static_shapes_come_in_a_bounded_number():
    widths = wmt.steady_width(np.arange(1, 257))
    assert (widths >= np.arange(1, 257)).all() and len(set(widths.tolist())) == 64
