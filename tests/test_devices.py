"""`runtime.devices` and `runtime.distributed`: one place decides where to compute."""

import pytest
import torch

from transformer_lit.runtime import devices, distributed
from transformer_lit.runtime.devices import decoding_precision, default_device
from transformer_lit.runtime.distributed import init_process_group


@pytest.fixture
def machine(monkeypatch):
    "What PyTorch sees on it."

    def has(*kinds):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in kinds)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in kinds)

    return has


@pytest.mark.parametrize(
    "kinds, name, device",
    [
        (["cuda", "mps"], "auto", "cuda"),
        (["mps"], "auto", "cpu"),
        (["cuda", "mps"], "cpu", "cpu"),
        (["cuda", "mps"], "mps", "mps"),
        ([], "cuda", None),
        (["cuda"], "mps", None),
    ],
)
def test_a_device_is_taken_where_it_is_there(kinds, name, device, machine):
    machine(*kinds)
    try:
        assert default_device(name).type == device, "a device that isn't there must be refused"
    except ValueError as error:
        assert device is None and "--device" in str(error)


def test_under_torchrun_each_process_takes_its_gpu_before_they_meet(machine, monkeypatch):
    machine("cuda")
    steps = []
    monkeypatch.setattr(distributed.dist, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: steps.append(str(device)))
    monkeypatch.setattr(
        distributed.dist, "init_process_group", lambda **options: steps.append(options["backend"])
    )
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert init_process_group("auto") == torch.device("cuda", 1)
    monkeypatch.setenv("RANK", "1")
    assert init_process_group("cuda") == torch.device("cuda", 1)
    assert init_process_group("cpu") == torch.device("cpu")
    expected = ["cuda:1", "cuda:1", "nccl", "gloo"]
    assert steps == expected, "the GPU is chosen before they meet, or each begins on the first one"
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(ValueError, match="--nproc-per-node 2"):
        init_process_group("cuda")


@pytest.mark.parametrize("kind, precision", [("cuda", "bf16"), ("cpu", "fp32"), ("mps", "fp32")])
def test_answers_are_the_same_on_any_processor(kind, precision, monkeypatch):
    monkeypatch.setattr(devices, "supports_bf16", lambda device: True)
    assert decoding_precision(torch.device(kind)) == precision
