"""A class in pieces: each method in a cell of its own, and in the end one class."""

#     class Trainer:
#         def __init__(self, model): ...
#
#     @patch_to(Trainer)
#     def fit(self, batches): ...
#
# The method is put into the class itself, so nothing is inherited and nothing is hidden. nbdev
# knows decorators of this name: it leaves the function out of the module's __all__ and lists it
# under its class.
from collections.abc import Callable


def patch_to(cls: type) -> Callable:
    "A decorator that makes a function a method of `cls`, under its own name."

    def add(method: Callable) -> Callable:
        method.__qualname__ = f"{cls.__name__}.{method.__name__}"
        setattr(cls, method.__name__, method)
        return method

    return add
