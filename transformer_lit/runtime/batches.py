"""Batch loading: in order, prefetched to a GPU during the step before."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from transformer_lit.runtime import distributed


class Batch(NamedTuple):
    """source (B, S) and target (B, T+1) of this process, on the device; n_labels: of all processes
    together."""

    source: Tensor
    target: Tensor
    n_labels: int
    ends_epoch: bool


class Batches(Protocol):
    "What a `Trainer` is trained on."

    total_steps: int  # of all epochs together, one a step

    def epoch_batches(self, epoch: int) -> Sequence:
        "The batches of an epoch, counted from 0, in their order: lists of indices."

    def load_batch(self, indices: Any) -> tuple[Tensor, Tensor]:
        "Source (B, S), target (B, T+1)."

    def count_labels(self, indices: Any) -> int:
        "How many labels the pairs have, without loading them."

    def fingerprint(self) -> str:
        "A hash of the data: a run resumes with the same or not at all."


def prefetch(
    f: Callable, items: Iterable, n_early: int = 2, pool: Executor | None = None
) -> Iterator:
    """f(item) of each item, in order, n_early of them early.

    The pool's workers compute them, or one thread; an error there is raised here, in its place."""
    with pool or ThreadPoolExecutor(1) as workers:
        waiting = deque()
        for item in items:
            waiting.append(workers.submit(f, item))
            if len(waiting) > n_early:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def iterate_batches(data: Batches, epoch: int, start: int, device: torch.device) -> Iterator[Batch]:
    """Batches without end, from batch `start` of `epoch` on; each process loads its own rows.

    A second thread loads them early for a GPU. On a CPU it would only take time from the step."""
    rank, world_size = distributed.process()
    on_gpu = device.type == "cuda"

    def load(indices):
        rows = indices if world_size == 1 else indices[rank::world_size]
        # a small batch may have no row for this process
        sides = data.load_batch(rows) if len(rows) else torch.zeros(2, 0, 2, dtype=torch.long)
        if on_gpu:  # it fetches from pinned memory while the processor goes on
            sides = [side.pin_memory() for side in sides]
        source, target = (side.to(device, non_blocking=on_gpu) for side in sides)
        return source, target, data.count_labels(indices)

    while True:
        batches = data.epoch_batches(epoch)
        loaded = (prefetch if on_gpu else map)(load, batches[start:])
        for number, (source, target, n_labels) in enumerate(loaded, start + 1):
            yield Batch(source, target, n_labels, number == len(batches))
        epoch, start = epoch + 1, 0
