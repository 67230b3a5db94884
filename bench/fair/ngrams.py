"""Target-side n-gram language models: what the target alone gives away.

A translator that predicts French worse than counts that never saw the English hasn't learned to
translate yet. So these baselines stand in every table and figure of losses. They count on the same
batches, in the same vocabulary, as the models, and are measured on the same held-out pairs, in nats
per target token. All are interpolated:

    p_0(w)     = 1 / V
    p_n(w | h) = (kept(h w) + given(h) p_n-1(w | h')) / (sum of kept(h .) + given(h))

h is the n - 1 tokens before w, fewer where the sentence begins, and h' is h without its first one.
After an h that was never seen p_n is p_n-1. EOS is a token like any other; BOS is read and never
predicted. The smoothing is what an n-gram keeps of its count and gives to p_n-1."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain

import numpy as np

from transformer_lit.masks import BOS

MODELS = {  # order, and is it Kneser-Ney?
    "unigram": (1, False),
    "bigram": (2, False),
    "trigram": (3, False),
    "Kneser-Ney trigram": (3, True),
    "Kneser-Ney 5-gram": (5, True),
}


class NGrams:
    """Witten and Bell (1991): an n-gram keeps its count, and gives 1 more.

    Modified Kneser-Ney (Chen and Goodman 1998): a shorter n-gram counts once for each token that
    stood before it, unless it begins with BOS. Of a count of 1, of 2, of 3 or more it gives a
    discount, which follows, for each n, from how many n-grams have the counts 1 to 4.

    sentences: of ids, each with BOS first and EOS last."""

    def __init__(self, sentences: Sequence, vocabulary: int, order: int, kneser_ney: bool):
        self.vocabulary, self.order = vocabulary, order
        self.kept, self.given, self.after = {}, Counter(), Counter()
        counts = {}
        for n in reversed(range(1, order + 1)):
            before, gives = Counter(gram[1:] for gram in counts), [1, 1, 1]
            grams = (zip(*(ids[k:] for k in range(n))) for ids in sentences)
            counts = Counter(chain.from_iterable(grams))
            del counts[(BOS,)]
            if kneser_ney:
                counts = {gram: before.get(gram, count) for gram, count in counts.items()}
                have = Counter(counts.values())
                y = have[1] / (have[1] + 2 * have[2])
                gives = [k - (k + 1) * y * have[k + 1] / have[k] for k in (1, 2, 3)]
            for gram, count in counts.items():
                given = gives[min(count, 3) - 1]
                self.kept[gram] = kept = count - given * kneser_ney
                self.given[gram[:-1]] += given
                self.after[gram[:-1]] += kept + given

    def probability(self, past: tuple, word: int) -> float:
        "Of `word` after `past`, which has order - 1 tokens at most."
        p = 1 / self.vocabulary
        for start in reversed(range(len(past) + 1)):
            if (h := past[start:]) in self.after:
                p = (self.kept.get((*h, word), 0) + self.given[h] * p) / self.after[h]
        return p

    def loss(self, ids: Sequence[int], skip: int) -> float:
        "Nats of one sentence, added up over its tokens after BOS and `skip` more."
        nats = 0.0
        for at in range(1 + skip, len(ids)):
            past = tuple(ids[max(0, at + 1 - self.order) : at])
            nats -= math.log(self.probability(past, ids[at]))
        return nats


def losses(seen: Sequence, held_out: Sequence, vocabulary: int, skip: int = 0) -> dict:
    """Name of a model -> nats of each sentence of `held_out`. skip: of `NGrams.loss`.

    seen: targets, BOS first. A target counts once for each pair that has it, however many epochs
    there were."""
    return {
        name: np.array([model.loss(ids, skip) for ids in held_out])
        for name, kind in MODELS.items()
        for model in [NGrams(seen, vocabulary, *kind)]
    }
