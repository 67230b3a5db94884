"""Text of several kinds in one training set, each kind seen as often as a temperature says."""

# A translator that shall leave its corpus needs text of many kinds, and there is forty times as
# much of one as of another. With temperature 1 each kind is seen as often as it occurs, and the
# largest is nearly all; the higher the temperature, the more even.
from dataclasses import dataclass

import numpy as np

from transformer_lit.training import TrainingConfig
from transformer_lit.wmt import Experiment, StoreBatches, length_batches, static_batches
from transformer_lit.corpora.store import TokenStore


@dataclass
class Mixture(Experiment):
    """An `Experiment` on several kinds of text, each as often as `temperature` says: 9 was best of
    1, 3 and 9 (bench/temperature.py)."""

    temperature: float = 9.0
    begin_with: str = ""  # a translator whose weights it begins with; "": with drawn ones


def kinds_in(counts: dict[str, int]) -> dict[str, int]:
    """The sources that the counts of a preparation name, in their order, and how many pairs come
    from each."""
    return {name.removeprefix("from "): n for name, n in counts.items() if name.startswith("from ")}


def kinds_of(store: TokenStore) -> dict[str, int]:
    "The sources of a store in their order, and how many of its pairs come from each."
    kinds = kinds_in(store.manifest["counts"])
    if sum(kinds.values()) != len(store):
        raise ValueError(
            f"{store.folder} doesn't say which of its pairs come from where: delete it and prepare"
            " it again"
        )
    return kinds


def shares_at(kinds: dict[str, int], temperature: float) -> dict[str, float]:
    """The share of each kind among the pairs of an epoch: in proportion to its size to the power of
    1 / temperature."""
    weights = {name: n ** (1 / temperature) if n else 0.0 for name, n in kinds.items()}
    return {name: weight / sum(weights.values()) for name, weight in weights.items()}


def mixed_order(kinds: dict[str, int], temperature: float, seed: int) -> np.ndarray:
    """The pairs of an epoch, kind after kind: about as many as there are in all.

    A kind that is due k times comes k times whole; of a rest, pairs are drawn, none of them twice.
    """
    dice, chosen, start, total = np.random.default_rng(seed), [], 0, sum(kinds.values())
    for name, share in shares_at(kinds, temperature).items():
        n = kinds[name]
        whole, rest = divmod(round(share * total), n) if n else (0, 0)
        chosen += [np.tile(np.arange(n), whole) + start, dice.permutation(n)[:rest] + start]
        start += n
    return np.concatenate(chosen)


def in_passes(order: np.ndarray, seed: int, most: int = 16) -> list[np.ndarray]:
    """The entries of an order, parted so that what comes up to `most` times comes at most once in a
    part.

    Batches hold pairs of like length, so copies of a pair would meet in one batch."""
    times = np.bincount(order)  # (pairs,)
    parts, first = min(int(times.max()), most), np.cumsum(times) - times
    by_pair = np.argsort(order, kind="stable")
    nth = np.empty(
        len(order), dtype=np.int64
    )  # of an entry: is it the first of its pair, the second, ...?
    nth[by_pair] = np.arange(len(order)) - first[order[by_pair]]
    part = (np.random.default_rng(seed).integers(parts, size=len(times))[order] + nth) % parts
    return [np.flatnonzero(part == k) for k in range(parts)]


class MixedBatches(StoreBatches):
    """A store's batches, in which each kind of text is as frequent as `temperature` says and no
    pair meets itself."""

    def __init__(self, store: TokenStore, config: TrainingConfig, steps: int, temperature: float):
        super().__init__(store, config, steps)
        self.kinds, self.temperature = kinds_of(store), temperature

    def epoch(self, n: int) -> list[np.ndarray]:
        c, seed = self.config, self.config.seed + 1000 * n
        order = mixed_order(self.kinds, self.temperature, seed)
        cut, batches = static_batches if c.compile is True else length_batches, []
        for k, part in enumerate(map(order.__getitem__, in_passes(order, seed))):
            batches += [
                part[batch] for batch in cut(self.store.lengths[part], c.max_tokens, seed + k)
            ]
        return [batches[k] for k in np.random.default_rng(seed).permutation(len(batches))]


def batches_of(store: TokenStore, config: TrainingConfig, experiment: Experiment) -> StoreBatches:
    "The batches of a run: mixed, where it is a mixture."
    if isinstance(experiment, Mixture):
        return MixedBatches(store, config, experiment.steps, experiment.temperature)
    return StoreBatches(store, config, experiment.steps)
