"""What a run is trained on, and how its batches reach the device: made in order, for a GPU while
the step before is computed."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

Item = TypeVar("Item")
Made = TypeVar("Made")


class Batches(Protocol):
    "What a `Trainer` is trained on."

    steps: int  # how many there will be

    def __len__(self) -> int:
        "How many pairs there are."

    def epoch(self, n: int) -> Sequence:
        "The batches of epoch n, from 0, in their order."

    def make(self, batch: Any, device: torch.device) -> tuple[Tensor, Tensor, int]:
        "Source (B, S), target (B, T+1), and how many labels they hold."

    def digest(self) -> str:
        "A hash of the data: a run must go on with the same."


def prefetch(make: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[Made]:
    """make(item) of each item, in order, two made early.

    One thread makes them, one after the other; an error there comes out here, in its place."""
    with ThreadPoolExecutor(1) as worker:
        waiting: deque[Future] = deque()
        for item in items:
            waiting.append(worker.submit(make, item))
            if len(waiting) > 2:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def iterate_batches(
    batches: Batches, epoch: int, done: int, device: torch.device
) -> Iterator[tuple[Tensor, Tensor, int, bool]]:
    """(source, target, labels, is it the epoch's last?) without end, from `epoch` on, without its
    first `done` batches.

    A second thread makes them early for a GPU. On a CPU it would only take time from the step."""
    early = prefetch if device.type == "cuda" else map
    while True:
        todo = batches.epoch(epoch)
        for k, made in enumerate(
            early(partial(batches.make, device=device), todo[done:]), done + 1
        ):
            yield *made, k == len(todo)
        epoch, done = epoch + 1, 0


def to_device(sides: Iterable[Tensor], device: torch.device) -> Iterator[Tensor]:
    """Tensors on their device; to a GPU through pinned memory, which it fetches from while the
    processor goes on."""
    for side in sides:
        yield (
            side.pin_memory().to(device, non_blocking=True)
            if device.type == "cuda"
            else side.to(device)
        )
