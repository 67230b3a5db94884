"""torch.compile, with one choice made: a graph for each shape, or one graph for all of them."""
# By default torch.compile makes a graph for the first shape that it meets and, at the second, one whose lengths are free; every
# later batch takes that one, and what a fixed shape allows is lost. Chapter 21 cuts its batches to a dozen shapes, so that each
# can have a graph of its own. That is the default here, until a measurement on a GPU says otherwise.
from collections.abc import Callable
from functools import cache

import torch

GRAPHS = 64  # of one function; torch gives up after 8, and runs the rest uncompiled


@cache
def compiled(f: Callable, dynamic: bool | None = False, backend: str | Callable = "inductor") -> Callable:
    """The one compiled form of `f`.

    dynamic: False makes a graph for each shape, None what torch does by default, True one graph for all shapes."""
    if dynamic is False:
        settings = torch._dynamo.config
        settings.cache_size_limit = max(settings.cache_size_limit, GRAPHS)
    return torch.compile(f, dynamic=dynamic, backend=backend)
