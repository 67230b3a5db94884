"""torch.compile, with one choice made: a graph for each shape, or one graph for all of them."""

# Left to itself torch.compile makes a graph for the first shape that it meets and, at the second,
# one whose lengths are free; every later batch takes that one, what a fixed shape allows is lost,
# and the first graph was compiled for nothing. So it is told which: chapter 21 cuts its batches to
# few shapes, and each has a graph of its own; whatever has shapes without number has one for all. A
# graph per shape is the default here, until a measurement on a GPU says otherwise.
from collections.abc import Callable
from functools import cache

import torch

# of one function, for all models of a process; torch gives up after 8, and runs the rest uncompiled
GRAPHS = 128


@cache
def compiled(
    f: Callable, dynamic: bool | None = False, backend: str | Callable = "inductor"
) -> Callable:
    """The one compiled form of `f`.

    dynamic: False makes a graph for each shape; None or True one graph for all shapes, from the
    first one on."""
    settings = torch._dynamo.config
    settings.cache_size_limit = max(settings.cache_size_limit, GRAPHS)
    return torch.compile(f, dynamic=dynamic is not False, backend=backend)
