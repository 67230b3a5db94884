"""`runtime.devices`: one place decides where to compute."""

from unittest.mock import Mock

import pytest
import torch

from transformer_lit.runtime import devices, distributed
from transformer_lit.runtime.devices import decoding_precision, default_device
from transformer_lit.runtime.distributed import init_process_group


@pytest.fixture
def machine(monkeypatch):
    "What PyTorch sees on it."

    def has(cuda: bool = False, mps: bool = False) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return has


@pytest.mark.parametrize(
    "cuda, mps, kind",
    [(True, False, "cuda"), (False, False, "cpu"), (False, True, "cpu"), (True, True, "cuda")],
)
def test_nobody_asked(cuda, mps, kind, machine):
    machine(cuda, mps)
    assert default_device().type == default_device("auto").type == kind


def test_what_is_asked_for_is_taken_where_it_is_there(machine):
    machine(cuda=True, mps=True)
    assert [default_device(name).type for name in ("auto", "cpu", "cuda", "mps")] == [
        "cuda",
        "cpu",
        "cuda",
        "mps",
    ]
    machine()
    assert default_device("cpu").type == "cpu"
    for name, words in ("cuda", "no NVIDIA GPU"), ("mps", "no Apple GPU"):
        try:
            default_device(name)
        except ValueError as error:
            assert (
                f"{words} on this machine: leave --device {name} out, or take --device cpu"
                in str(error)
            )
        else:
            pytest.fail("a device that isn't there must be refused")


def test_under_torchrun_the_processes_meet_on_the_device_that_was_asked_for(machine, monkeypatch):
    machine(cuda=True)
    met, chosen = (
        Mock(side_effect=lambda **_: chosen.assert_called_with(torch.device("cuda", 1))),
        Mock(),
    )
    monkeypatch.setattr(distributed.dist, "init_process_group", met)
    monkeypatch.setattr(distributed.dist, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "set_device", chosen)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert init_process_group("auto") == torch.device("cuda", 1)
    chosen.assert_called_once_with(torch.device("cuda", 1))
    met.assert_not_called()
    monkeypatch.setenv("RANK", "1")
    assert init_process_group("cuda") == torch.device("cuda", 1), (
        "the GPU is chosen before they meet, or each begins on the first one"
    )
    assert (met.call_args.kwargs["backend"], met.call_args.kwargs["device_id"]) == (
        "nccl",
        torch.device("cuda", 1),
    )
    assert (
        init_process_group("cpu") == torch.device("cpu")
        and met.call_args.kwargs["backend"] == "gloo"
    )
    assert "device_id" not in met.call_args.kwargs
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(
        ValueError, match="more processes than there are GPUs: --nproc-per-node 2 is the most here"
    ):
        init_process_group("cuda")


def test_answers_are_the_same_on_any_processor(monkeypatch):
    monkeypatch.setattr(devices, "supports_bf16", lambda device: True)
    assert (
        decoding_precision(torch.device("cuda")),
        decoding_precision(torch.device("cpu")),
        decoding_precision(torch.device("mps")),
    ) == ("bf16", "fp32", "fp32")
