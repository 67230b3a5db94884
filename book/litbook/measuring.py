"""Measuring a computation: CPU time and FLOPs of matrix products."""

import timeit
from collections.abc import Callable
from statistics import median
from time import process_time

from torch.utils._python_dispatch import TorchDispatchMode


def timed(f: Callable[[], object], times: int = 3) -> float:
    "Processor seconds of f(), the middle of a few turns."
    return median(timeit.repeat(f, timer=process_time, repeat=times, number=1))


class Products(TorchDispatchMode):
    """Notes the products of matrices that are made while it is on, as in `with Products() as seen:
    model(x)`.

    `seen.made` has of each product its operations: two for each pair of numbers that are multiplied
    and added."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[int] = []

    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        out = call(*args, **kwargs or {})
        if call.overloadpacket.__name__ in ("mm", "addmm", "bmm"):
            self.made.append(2 * out.numel() * args[-2].size(-1))
        return out
