"""Quality estimation: the chrF2 to expect of a translation, from its mean token log-probability
(calibrated on held-out sentences)."""

# A translator's probability says how sure it is, in a unit of its own. On sentences whose
# translation is known, outputs are put in order of it, and the mean chrF of outputs alike is what
# an output of that probability may be expected to have.
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from transformer_lit.corpora.files import read_json, write_json
from transformer_lit.loss import shift_right
from transformer_lit.masks import BOS, EOS, PAD
from transformer_lit.runtime.devices import device_of
from transformer_lit.runtime.progress import bar
from transformer_lit.batching import collate
from transformer_lit.translation import Translator, translate_ids

NAME = "confidence.json"
N_GROUPS = 15
MIN_GROUP_SIZE = 10  # one output tells nothing


class ScoredTranslation(NamedTuple):
    "A text, and the mean log-probability of its tokens, EOS among them; 0 for an empty text."

    text: str
    log_prob: float


@torch.no_grad()
def log_probabilities(
    translator: Translator, pairs: Sequence[tuple[list[int], list[int]]], batch_size: int = 64
) -> list[float]:
    """Of each (source ids, target ids without BOS and EOS) the sum over the target's tokens and its
    EOS."""
    model, sums = translator.model.eval(), [0.0] * len(pairs)
    device = device_of(model)
    order = sorted(range(len(pairs)), key=lambda i: sum(map(len, pairs[i])))
    with bar(len(order), "scoring", unit="pair", delay=2.0) as progress:
        for start in range(0, len(order), batch_size):
            indices = order[start : start + batch_size]
            source, target = collate([(pairs[i][0], [BOS, *pairs[i][1], EOS]) for i in indices])
            inputs, labels = (side.to(device) for side in shift_right(target))  # two of (n, T)
            logits = model(source.to(device), inputs).float()  # (n, T, V)
            losses = F.cross_entropy(logits.mT, labels, ignore_index=PAD, reduction="none")
            for i, loss in zip(indices, losses.sum(1).tolist()):
                sums[i] = -loss
            progress.update(len(indices))
    return sums


def translate_with_scores(
    translator: Translator, sentences: Sequence[str], beam_size: int = 4, batch_size: int = 64
) -> list[ScoredTranslation]:
    """What `Translator.translate` answers, each with its mean log-probability a token; over all
    parts of a long text."""
    texts = translator.encode_parts(sentences)
    sources = list(chain(*texts))
    outputs = translate_ids(translator.model.eval(), sources, beam_size, batch_size)
    sums = iter(log_probabilities(translator, list(zip(sources, outputs)), batch_size))
    answers, results = iter(outputs), []
    for parts in texts:
        own = list(islice(answers, len(parts)))
        text = " ".join(map(translator.target_tokenizer.decode, own))
        n_tokens = sum(map(len, own)) + len(own)  # with each EOS
        results.append(ScoredTranslation(text, sum(islice(sums, len(own))) / max(n_tokens, 1)))
    return results


# What a probability is worth ----------------------------------------------------------------------


class Calibration(NamedTuple):
    """Mean log-probabilities, rising, and the chrF that outputs of each had; between two of them a
    straight line."""

    log_probability: Sequence[float]
    chrf: Sequence[float]

    def __call__(self, log_prob: float) -> float:
        "The chrF to expect of an output, 0 to 100."
        return float(np.interp(log_prob, self.log_probability, self.chrf))


def isotonic(values: Sequence[float]) -> list[float]:
    """The nearest values that never fall: the largest of the smallest means of runs that begin at
    or before a value and end at or behind it."""
    n = len(values)
    return [
        max(min(fmean(values[i:j]) for j in range(k + 1, n + 1)) for i in range(k + 1))
        for k in range(n)
    ]


def group_means(
    log_probs: Sequence[float], chrf: Sequence[float], n_groups: int
) -> list[tuple[float, float, int]]:
    """Outputs in order of their probability, in groups of like size: mean log-probability, mean
    chrF, how many."""
    x, y = np.asarray(log_probs), np.asarray(chrf)
    groups = np.array_split(np.argsort(x, kind="stable"), min(n_groups, len(x)))
    return [(float(x[group].mean()), float(y[group].mean()), len(group)) for group in groups]


def fit_calibration(log_probs: Sequence[float], chrf: Sequence[float]) -> Calibration:
    "From at least twenty outputs whose chrF is known, ten or more in a group."
    n_groups = min(N_GROUPS, len(log_probs) // MIN_GROUP_SIZE)
    x, y, _ = zip(*group_means(log_probs, chrf, n_groups))
    return Calibration(np.round(x, 4).tolist(), np.round(isotonic(y), 2).tolist())


def sentence_chrf(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    "sacreBLEU's chrF of each output, the best of its references."
    from sacrebleu import CHRF

    metric = CHRF()
    return [
        metric.sentence_score(text, list(refs)).score
        for text, refs in zip(hypotheses, references, strict=True)
    ]


def save_calibration(calibration: Calibration, folder: Path) -> None:
    "Beside the translator, as confidence.json."
    write_json(folder / NAME, calibration._asdict())


def load_calibration(folder: Path) -> Calibration:
    "That of a translator's folder. FileNotFoundError with what to do."
    path = folder / NAME
    if not path.exists():
        raise FileNotFoundError(
            f"{folder} doesn't say what its probabilities are worth: open-fr and tatoeba-fr do,"
            " and translators of your own pair, once they are trained, if they had sentences enough"
        )
    return Calibration(**read_json(path))
