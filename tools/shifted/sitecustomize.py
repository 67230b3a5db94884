"""Shifts every seed of a Python process and of its children, without the program's knowing.

tools/replicate.py puts this folder on PYTHONPATH and the shift into TRANSFORMER_LIT_SEED_SHIFT.
Seeds given to torch, its generators, numpy and random are moved by the same large number, so that
initialization, order and split vary together and two seeds of one chapter never meet another's.
What asks for no seed stays as it is."""

import os
import random

import numpy

SHIFT = 1_000_003 * int(os.environ["TRANSFORMER_LIT_SEED_SHIFT"])


def moved(seed):
    return (seed + SHIFT) % 2**32 if isinstance(seed, int) else seed


def shifted(function):
    return lambda seed=None, *args: function(moved(seed), *args)


class Random(random.Random):
    def seed(self, a=None, version=2):
        super().seed(moved(a), version)


random.seed, random.Random = shifted(random.seed), Random
numpy.random.seed = shifted(numpy.random.seed)
numpy.random.default_rng = shifted(numpy.random.default_rng)

import torch  # noqa: E402, what it imports of numpy is shifted


class Generator(torch.Generator):
    def manual_seed(self, seed):
        return super().manual_seed(moved(int(seed)))


torch.manual_seed = torch.random.manual_seed = shifted(torch.manual_seed)
torch.Generator = Generator
