"""Shifts every seed of a Python process and of its children, without the program's knowing.

tools/replicate.py puts this folder on PYTHONPATH and the shift into TRANSFORMER_LIT_SEED_SHIFT.
Seeds given to torch, its generators, numpy and random are moved by the same large number, so that
initialisation, order and split vary together and two seeds of one chapter never meet another's.
What asks for no seed stays as it is."""

import importlib.abc
import importlib.machinery
import os
import random
import sys

SHIFT = int(os.environ.get("TRANSFORMER_LIT_SEED_SHIFT", "0"))
STRIDE = 1_000_003


def moved(seed):
    return (seed + STRIDE * SHIFT) % 2**32 if isinstance(seed, int) else seed


def shift_random():
    class Random(random.Random):
        def seed(self, a=None, version=2):
            super().seed(moved(a), version)

    seed = random.seed
    random.seed = lambda a=None, version=2: seed(moved(a), version)
    random.Random = Random


def shift_numpy(numpy):
    seed, default_rng = numpy.random.seed, numpy.random.default_rng
    numpy.random.seed = lambda a=None: seed(moved(a))
    numpy.random.default_rng = lambda a=None: default_rng(moved(a))


def shift_torch(torch):
    class Generator(torch.Generator):
        def manual_seed(self, seed):
            super().manual_seed(moved(int(seed)))
            return self

    manual_seed = torch.manual_seed
    torch.manual_seed = torch.random.manual_seed = lambda seed: manual_seed(moved(int(seed)))
    torch.Generator = Generator
    manual_seed(moved(torch.initial_seed()))


class Finder(importlib.abc.MetaPathFinder):
    "Lets the usual machinery find torch and numpy, and patches each right after it was executed."

    hooks = {"torch": shift_torch, "numpy": shift_numpy}

    def find_spec(self, name, path=None, target=None):
        if name not in self.hooks:
            return None
        hook = self.hooks.pop(name)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            hook(module)

        spec.loader.exec_module = exec_module
        return spec


if SHIFT:
    shift_random()
    sys.meta_path.insert(0, Finder())
