"""What the target alone gives away: unigram, bigram and trigram, interpolated after Witten and Bell
(1991).

A translator that predicts French worse than a trigram that never saw the English hasn't learned to
translate yet. So these three lines stand in every table and figure of losses. They count on the
same batches, in the same vocabulary, as the models, and are measured on the same held-out pairs, in
nats per target token:

    p_0(w)     = 1 / V
    p_n(w | h) = (c(h w) + t(h) p_n-1(w | h')) / (c(h) + t(h))

h is the n - 1 tokens before w, and h' is h without its first one. c counts, t(h) is how many
different tokens stood after h. After an h that was never seen p_n is p_n-1. EOS is a token like any
other; BOS is read and never predicted."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

NAMES = ("unigram", "bigram", "trigram")


class WittenBell:
    """Counts of all runs of up to `order` tokens, 2 or more, in sentences of ids, each with BOS
    first and EOS last."""

    def __init__(self, sentences: Iterable[Sequence[int]], vocabulary: int, order: int = 3):
        self.vocabulary, self.order = vocabulary, order
        self.runs: Counter = Counter()  # (*h, w) -> c(h w)
        for ids in sentences:
            ids = self.padded(ids)
            for n in range(1, order + 1):
                self.runs.update(
                    zip(*(ids[order - 1 - k : len(ids) - k] for k in reversed(range(n))))
                )
        self.after: Counter = Counter()  # h -> c(h)
        self.kinds: Counter = Counter()  # h -> t(h)
        for run, count in self.runs.items():
            self.after[run[:-1]] += count
            self.kinds[run[:-1]] += 1

    def padded(self, ids: Sequence[int]) -> list[int]:
        "BOS as often as the longest h needs it."
        return [ids[0]] * (self.order - 2) + list(ids)

    def probabilities(self, past: tuple, word: int) -> list[float]:
        "p_1 to p_order of `word` after `past`, which has order - 1 tokens."
        found, p = [], 1 / self.vocabulary
        for n in range(self.order):
            h = past[len(past) - n :]
            if h in self.after:
                kinds = self.kinds[h]
                p = (self.runs.get((*h, word), 0) + kinds * p) / (self.after[h] + kinds)
            found.append(p)
        return found

    def losses(self, ids: Sequence[int], skip: int = 0, end: bool = True) -> np.ndarray:
        """Nats of one sentence, added up over its tokens: by p_1, ..., by p_order.

        skip: so many are read and not measured; end: measure EOS, too."""
        ids, before = self.padded(ids), self.order - 1
        steps = [
            self.probabilities(tuple(ids[at - before : at]), ids[at])
            for at in range(before + skip, len(ids) - (not end))
        ]
        return -np.log(steps).reshape(-1, self.order).sum(0)


def lines(
    seen: Iterable[Sequence[int]],
    held_out: Iterable[Sequence[int]],
    vocabulary: int,
    skip: int = 0,
    end: bool = True,
) -> dict[str, np.ndarray]:
    """unigram, bigram, trigram -> nats of each sentence.

    seen, held_out: targets, BOS first. A target counts once for each pair that has it, however many
    epochs there were. skip, end: of `WittenBell.losses`."""
    model = WittenBell(seen, vocabulary)
    return dict(zip(NAMES, np.array([model.losses(ids, skip, end) for ids in held_out]).T))


def targets(pairs: Sequence[tuple], batches: Iterable[Sequence[int]] | None = None) -> list:
    "The targets of all pairs, or of those in `batches`, each pair once."
    if batches is not None:
        pairs = [pairs[i] for i in sorted({i for batch in batches for i in batch})]
    return [target for _, target in pairs]
