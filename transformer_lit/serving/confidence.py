"""How far an answer can be trusted: the mean log-probability of its tokens, as the chrF that such
answers had on other sentences."""

# A translator's probability says how sure it is, in a unit of its own. On sentences whose
# translation is known, answers are put in order of it, and the mean chrF of answers alike is what
# an answer of that probability may be expected to have.
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch

from transformer_lit.loss import shift_right
from transformer_lit.masks import BOS, EOS, PAD
from transformer_lit.training import collate
from transformer_lit.translation import Translator, answers, pieces, readable
from transformer_lit.corpora.files import write_json
from transformer_lit.runs.limits import askable
from transformer_lit.runtime.devices import device_of, resolve_precision
from transformer_lit.runtime.progress import bar
from transformer_lit.corpora.texts import fields, json_file

NAME, GROUPS, LEAST = (
    "confidence.json",
    15,
    10,
)  # LEAST: answers of a group, for one alone tells nothing


@dataclass(frozen=True)
class Said:
    "An answer, and the mean log-probability of its tokens, EOS among them; 0 for an empty text."

    text: str
    log_probability: float


@torch.no_grad()
def log_probabilities(
    translator: Translator, pairs: Sequence[tuple[list[int], list[int]]], rows: int = 64
) -> list[float]:
    """Of each (source ids, answer ids without BOS and EOS) the sum over the answer's tokens and its
    EOS."""
    model, found = translator.model.eval(), [0.0] * len(pairs)
    device = next(model.parameters()).device
    order = sorted(range(len(pairs)), key=lambda i: sum(map(len, pairs[i])))
    with bar(len(order), "scoring", unit="pair", delay=2.0) as shown:
        for start in range(0, len(order), rows):
            some = order[start : start + rows]
            source, target = collate([(pairs[i][0], [BOS, *pairs[i][1], EOS]) for i in some])
            read, say = (side.to(device) for side in shift_right(target))  # two of (n, T)
            logs = (
                model(source.to(device), read)
                .float()
                .log_softmax(-1)
                .gather(-1, say[..., None])[..., 0]
            )
            for i, value in zip(some, logs.masked_fill(say == PAD, 0.0).sum(1).tolist()):
                found[i] = value
            shown.update(len(some))
    return found


def pair_scores(
    translator: Translator, pairs: Sequence[tuple[list[int], list[int]]]
) -> list[float]:
    """Of each pair, as `Translator.encode_pairs` gives it, the mean log-probability of its target's
    tokens, EOS among them.

    The lower, the less the model believes in it."""
    sums = log_probabilities(translator, [(source, target[1:-1]) for source, target in pairs])
    return [total / (len(target) - 1) for total, (_, target) in zip(sums, pairs)]


def translate_surely(
    translator: Translator, sentences: Sequence[str], beam_size: int = 4, batch_size: int = 64
) -> list[Said]:
    """What `Translator.translate` answers, each with its mean log-probability a token; over all
    parts of a long text."""
    askable(sentences)
    encode = cache(translator.source.encode)
    parts = [
        pieces(readable(text), lambda part: len(encode(part)), *translator.limits)
        for text in sentences
    ]
    sources = [encode(part) for some in parts for part in some]
    said = answers(
        translator.model.eval(),
        sources,
        beam_size,
        batch_size,
        resolve_precision(
            "auto", device_of(translator.model), beam_size * min(batch_size, len(sources))
        ),
    )
    sums = iter(log_probabilities(translator, list(zip(sources, said)), batch_size))
    ids, found = iter(said), []
    for some in parts:
        own = [(next(ids), next(sums)) for _ in some]
        tokens = sum(len(one) + 1 for one, _ in own)
        found.append(
            Said(
                " ".join(translator.target.decode(one) for one, _ in own),
                sum(x for _, x in own) / max(tokens, 1),
            )
        )
    return found


# What a probability is worth ----------------------------------------------------------------------


@dataclass(frozen=True)
class Calibration:
    """Mean log-probabilities, rising, and the chrF that answers of each had; between two of them a
    straight line."""

    log_probability: tuple[float, ...]
    chrf: tuple[float, ...]

    def __call__(self, log_probability: float) -> float:
        "The chrF to expect of an answer, 0 to 100."
        return float(np.interp(log_probability, self.log_probability, self.chrf))


def rising(values: Sequence[float]) -> list[float]:
    "The nearest values that never fall: neighbours that do are replaced by their mean."
    pools: list[tuple[float, int]] = []
    for value in values:
        pools.append((value, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (b, n), (a, m) = pools.pop(), pools.pop()
            pools.append(((a * m + b * n) / (m + n), m + n))
    return [value for value, n in pools for _ in range(n)]


def in_groups(
    log_probability: Sequence[float], chrf: Sequence[float], groups: int = GROUPS
) -> list[tuple[float, float, int]]:
    """Answers in order of their probability, in groups of like size: mean log-probability, mean
    chrF, how many."""
    x, y = np.asarray(log_probability), np.asarray(chrf)
    parts = np.array_split(np.argsort(x, kind="stable"), min(groups, len(x)))
    return [(float(x[some].mean()), float(y[some].mean()), len(some)) for some in parts]


def calibrate(
    log_probability: Sequence[float], chrf: Sequence[float], groups: int = GROUPS
) -> Calibration:
    """From answers whose chrF is known, at least ten in a group. ValueError if there aren't two
    groups of so many."""
    groups = min(groups, len(log_probability) // LEAST)
    if groups < 2:
        raise ValueError(
            f"{len(log_probability)} answers are too few to say what a probability is worth: at"
            f" least {2 * LEAST}"
        )
    x, y, _ = zip(*in_groups(log_probability, chrf, groups))
    return Calibration(
        tuple(round(value, 4) for value in x), tuple(round(value, 2) for value in rising(y))
    )


def sentence_chrf(said: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    "sacreBLEU's chrF of each answer, the best of its references."
    from sacrebleu import CHRF

    metric = CHRF()
    return [
        metric.sentence_score(one, list(some)).score
        for one, some in zip(said, references, strict=True)
    ]


def save_calibration(calibration: Calibration, folder: str | Path) -> None:
    "Beside the translator, as confidence.json."
    write_json(Path(folder) / NAME, asdict(calibration))


def load_calibration(folder: str | Path) -> Calibration:
    "That of a translator's folder. FileNotFoundError or ValueError with what to do."
    path = Path(folder) / NAME
    own = (Path(folder) / "test.tsv").exists()
    if not path.exists() and own and not (Path(folder) / "run.json").exists():
        raise FileNotFoundError(
            f"{folder} doesn't say yet what its probabilities are worth: its training isn't done"
        )
    if not path.exists() and own:
        raise FileNotFoundError(
            f"{folder} doesn't say what its probabilities are worth: it had too few sentences to"
            " find out"
        )
    if not path.exists():
        raise FileNotFoundError(
            f"{folder} doesn't say what its probabilities are worth: translators of your own pair"
            " do, and tatoeba-fr and mixture-fr, which come with the book"
        )
    advice = f"python bench/confidence.py --folder {folder} writes it anew"
    kept = fields(
        json_file(path, advice=advice), path, {"log_probability": list, "chrf": list}, advice
    )
    x, y = kept["log_probability"], kept["chrf"]
    if (
        not len(x) == len(y) > 0
        or not all(isinstance(v, (int, float)) for v in x + y)
        or json.dumps(sorted(x)) != json.dumps(x)
    ):
        raise ValueError(f"{path} holds something else than rising numbers: {advice}")
    return Calibration(tuple(x), tuple(y))
