"""A mixture of domains in one training set, with temperature sampling."""

# There is forty times as much of one kind of text as of another. At temperature 1 each kind is
# sampled in proportion to its size, and the largest is nearly everything; the higher the
# temperature, the more even. A size is counted in tokens: sentences of law are longer than everyday
# ones.
from dataclasses import dataclass

import numpy as np

from transformer_lit.corpora.store import TokenStore
from transformer_lit.batching import token_batches_from_lengths
from transformer_lit.training import TrainingConfig
from transformer_lit.wmt import Experiment, StoreBatches


@dataclass
class MixtureExperiment(Experiment):
    """An `Experiment` on several kinds of text. Temperature 9 was best of 1, 3 and 9, with sizes
    in pairs (book/results/counts/temperature.json)."""

    temperature: float = 9.0
    init_from: str = ""  # a trained model whose weights training starts from


def kinds_in(counts: dict[str, int]) -> dict[str, int]:
    "How many pairs come from each kind of text, by the counts of a preparation, in their order."
    return {name.removeprefix("from "): n for name, n in counts.items() if name.startswith("from ")}


def sampling_rates(sizes: dict[str, int], temperature: float) -> dict[str, float]:
    "The share of each kind in an epoch: proportional to its size to the power of 1 / temperature."
    largest = max(sizes.values())  # the power of a share can't overflow
    weights = {kind: (n / largest) ** (1 / temperature) for kind, n in sizes.items()}
    return {kind: weight / sum(weights.values()) for kind, weight in weights.items()}


def sample_epoch(
    sizes: dict[str, int], lengths: np.ndarray, temperature: float, seed: int
) -> np.ndarray:
    """The pairs of an epoch, kind after kind, with about as many tokens as there are in all.

    lengths (pairs,): tokens of each. A kind that is due k times comes k times whole; of a rest,
    pairs are drawn without replacement."""
    rng, epoch, start = np.random.default_rng(seed), [], 0
    parts = np.split(lengths, np.cumsum([*sizes.values()]))
    tokens = dict(zip(sizes, map(np.sum, parts)))
    for kind, rate in sampling_rates(tokens, temperature).items():
        n = sizes[kind]
        repeats, rest = divmod(round(n * rate * lengths.sum() / tokens[kind]), n)
        epoch += [np.tile(np.arange(n), repeats) + start, rng.permutation(n)[:rest] + start]
        start += n
    return np.concatenate(epoch)


def split_repeats(epoch: np.ndarray) -> list[np.ndarray]:
    """The pairs of an epoch in parts, so that a pair occurs once in a part if it has no more than
    16 occurrences.

    Batches hold pairs of similar length, so all occurrences of a pair would meet in one batch."""
    n_parts = min(int(np.bincount(epoch).max()), 16)
    pairs = np.sort(epoch)  # the occurrences of a pair are neighbors
    return [pairs[k::n_parts] for k in range(n_parts)]


class MixtureBatches(StoreBatches):
    "A store's batches: kinds of text sampled by temperature, and no pair twice in a batch."

    def __init__(self, store: TokenStore, config: TrainingConfig, steps: int, temperature: float):
        super().__init__(store, config, steps)
        self.sizes, self.temperature = kinds_in(store.manifest["counts"]), temperature

    def epoch_batches(self, epoch: int) -> list[np.ndarray]:
        seed, batches = self.config.seed + 1000 * epoch, []
        tokens = self.store.lengths.sum(1)
        sample = sample_epoch(self.sizes, tokens, self.temperature, seed)
        for k, part in enumerate(split_repeats(sample)):
            lengths = self.store.lengths[part]
            batches += [
                part[batch]
                for batch in token_batches_from_lengths(lengths, self.config.max_tokens, seed + k)
            ]
        return [batches[k] for k in np.random.default_rng(seed).permutation(len(batches))]
