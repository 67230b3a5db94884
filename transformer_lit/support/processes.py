"""Several processes of one training, as torchrun starts them: who this one is, and what all of them agree on."""
from collections.abc import Callable
from typing import TypeVar

import torch
import torch.distributed as dist

Found = TypeVar("Found")


def process() -> tuple[int, int]:
    "This process's number, its rank, and how many there are: (0, 1) when alone."
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def wait_for_all() -> None:
    "Nobody goes on before all are here."
    if process()[1] > 1:
        dist.barrier()


def first_alone(do: Callable[[], Found]) -> Found | None:
    "The first process does it, and the others wait; None to them."
    found = do() if process()[0] == 0 else None
    wait_for_all()
    return found


def largest(number: float, device: torch.device) -> float:
    "The largest of all the processes' numbers, known to each; all must ask."
    if process()[1] == 1:
        return float(number)
    found = torch.tensor(float(number), device=device)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return found.item()


def each(own: object) -> list:
    "What every process brings, in the order of their ranks; all must ask."
    world = process()[1]
    if world == 1:
        return [own]
    found: list = [None] * world
    dist.all_gather_object(found, own)
    return found
