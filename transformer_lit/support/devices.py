"""The device of this process, what to decode with there, and how several processes meet."""
import os
from datetime import timedelta

import torch
import torch.distributed as dist

from .precision import precision_here


def join_processes() -> torch.device:
    "This process's device; under torchrun it also meets the others."
    cuda = torch.cuda.is_available()
    if "RANK" in os.environ and not dist.is_initialized():
        dist.init_process_group("nccl" if cuda else "gloo", timeout=timedelta(days=1))
    if not cuda:
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    return device


def answers_in(device: torch.device) -> str:
    "The precision to translate in: bf16 on a GPU that has it; on a CPU fp32, so that the answers are the same on any machine."
    return precision_here("cuda") if device.type == "cuda" else "fp32"
