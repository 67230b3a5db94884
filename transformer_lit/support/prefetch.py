"""The next batches are put together while the present one is computed."""
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


def ahead(make: Callable[[Item], Made], items: Iterable[Item], depth: int = 2) -> Iterator[Made]:
    """make(item) of each item, in order, up to `depth` made early.

    One thread makes them, one after the other; an error there comes out here, in its place."""
    with ThreadPoolExecutor(1) as worker:
        waiting: deque[Future] = deque()
        for item in items:
            waiting.append(worker.submit(make, item))
            if len(waiting) > depth:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
