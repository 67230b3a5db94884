"""Data parallelism with torchrun: rank, broadcast, all-reduce."""

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from transformer_lit.runtime.devices import default_device


def init_process_group(name: str) -> torch.device:
    "This process's device, as `default_device` finds it; under torchrun it also meets the others."
    device, number = default_device(name), int(os.environ.get("LOCAL_RANK", 0))
    options = dict(backend="gloo")
    if device.type == "cuda":  # chosen before they meet: else each opens its first channel on GPU 0
        if number >= torch.cuda.device_count():
            raise ValueError(
                "torchrun asks for more processes than there are GPUs: --nproc-per-node"
                f" {torch.cuda.device_count()} is the most here"
            )
        device = torch.device("cuda", number)
        torch.cuda.set_device(device)
        options = dict(backend="nccl", device_id=device)
    if "RANK" in os.environ and not dist.is_initialized():
        dist.init_process_group(timeout=timedelta(days=1), **options)
    return device


def process() -> tuple[int, int]:
    "This process's number, its rank, and how many there are: (0, 1) when alone."
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def rank() -> int:
    return process()[0]


def world_size() -> int:
    return process()[1]


def run_on_main(f: Callable[[], Any]) -> Any:
    "The first process does it, and the others wait; None to them."
    result = f() if rank() == 0 else None
    if world_size() > 1:
        dist.barrier()
    return result


def group_device() -> torch.device:
    "Where the processes exchange numbers."
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")


def all_gather_objects(own: object) -> list:
    "What every process brings, in the order of their ranks; all must ask."
    if world_size() == 1:
        return [own]
    objects = [None] * world_size()
    dist.all_gather_object(objects, own)
    return objects


# A model that all of them hold --------------------------------------------------------------------


def broadcast_parameters(model: nn.Module) -> None:
    "Every process takes the first one's weights."
    if world_size() > 1:
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, 0)


def all_reduce(tensor: Tensor) -> Tensor:
    "The sum over the processes, in place; all must ask."
    if world_size() > 1:
        dist.all_reduce(tensor)
    return tensor


def is_any(flag: bool) -> bool:
    "Is it true in any of the processes? All must ask."
    return all_reduce(torch.tensor(float(flag), device=group_device())).item() > 0


def all_reduce_gradients(model: nn.Module, loss: Tensor) -> None:
    """Sum gradients and loss over the processes, in place.

    All in one message, since each costs a round of waiting. A process without a row of the batch
    has no gradient and sends zeros: without them the others would wait for ever."""
    if world_size() == 1:
        return
    parts = [loss]
    for weight in model.parameters():
        if weight.requires_grad:
            weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
            parts.append(weight.grad)
    message = parameters_to_vector(parts)
    dist.all_reduce(message)
    vector_to_parameters(message, parts)
