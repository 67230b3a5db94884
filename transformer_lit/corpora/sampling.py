"""Some of many, evenly over the whole."""

from collections.abc import Sequence


def evenly(items: Sequence, n: int) -> list:
    "At most `n`, evenly over the whole list."
    step = max(1.0, len(items) / max(n, 1))
    return [items[int(k * step)] for k in range(min(n, len(items)))]
