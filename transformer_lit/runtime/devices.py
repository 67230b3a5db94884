"""The one place that decides where to compute: the device of this process, and what to decode with
there."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist

from transformer_lit.runtime.precision import precision_here

MISSING = {
    "cuda": "PyTorch sees no NVIDIA GPU on this machine",
    "mps": "PyTorch sees no Apple GPU on this machine",
}


def device_here(asked: str = "auto") -> torch.device:
    """ "auto": the GPU, if PyTorch can use one of NVIDIA's, else the processor; or the one that is
    asked for.

    ValueError with one sentence if that one isn't there."""
    there = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    device = asked if asked != "auto" else "cuda" if there["cuda"] else "cpu"
    if not there[device]:
        raise ValueError(f"{MISSING[device]}: leave --device {device} out, or take --device cpu")
    return torch.device(device)


def join_processes(asked: str = "auto") -> torch.device:
    "This process's device, as `device_here` finds it; under torchrun it also meets the others."
    device, place, several = (
        device_here(asked),
        int(os.environ.get("LOCAL_RANK", 0)),
        int(os.environ.get("WORLD_SIZE", 1)) > 1,
    )
    if device.type == "cuda" and place >= torch.cuda.device_count():
        raise ValueError(
            "torchrun asks for more processes than there are GPUs: --nproc-per-node"
            f" {torch.cuda.device_count()} is the most here"
        )
    if device.type == "mps" and several:
        raise ValueError(
            "an Apple GPU works for one process: leave torchrun out, or take --device cpu"
        )
    how: dict = dict(backend="gloo")
    if device.type == "cuda":  # chosen before they meet: else each opens its first channel on GPU 0
        device = torch.device("cuda", place)
        torch.cuda.set_device(device)
        how = dict(backend="nccl", device_id=device)
    if "RANK" in os.environ and not dist.is_initialized():
        dist.init_process_group(timeout=timedelta(days=1), **how)
    return device


def answers_in(device: torch.device) -> str:
    """The precision to translate in: bf16 on a GPU that has it; on a CPU fp32, so that the answers
    are the same on any machine."""
    return precision_here("cuda") if device.type == "cuda" else "fp32"
