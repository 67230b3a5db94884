"""What a translator's probabilities are worth: answers to sentences whose translation is known, in order of how sure it was.

    python bench/confidence.py                                     # the shipped translator, a quarter of an hour on one thread
    python bench/confidence.py --folder runs/mixture-en-fr         # another one; writes confidence.json into its folder

Fitted on 500 sentences each of Tatoeba's, Multi30k's and the news' development sets, tried on the answers to their tests that
`bench/domains.py` keeps, which runs first. The record, book/results/bench/confidence-NAME.json: what was expected and what came, in
ten groups of like size, the rank correlation, and the mean distance, also with each test's own mean in place of an expectation.
"""

import argparse
import sys
from pathlib import Path
from statistics import mean

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from common import BENCH, command, keep, where  # noqa: E402
from domains import answered, english_french, tests  # noqa: E402

from transformer_lit import data  # noqa: E402
from transformer_lit.corpora import texts  # noqa: E402
from transformer_lit.recipes import training_sets  # noqa: E402
from transformer_lit.serving import confidence  # noqa: E402
from transformer_lit.corpora.files import sha256_file, shipped  # noqa: E402

FITTED = {"tatoeba": "valid-tatoeba", "multi30k": "valid-multi30k", "newstest2013": "valid"}
TRIED = ("tatoeba", "multi30k", "newstest2014")


def rank_correlation(x: list[float], y: list[float]) -> float:
    "Spearman's; ties share a rank."

    def mean_ranks(values) -> np.ndarray:
        in_order = np.sort(values)
        return np.searchsorted(in_order, values, "left") + np.searchsorted(
            in_order, values, "right"
        )

    ranks = [mean_ranks(np.asarray(values)) for values in (x, y)]
    return float(np.corrcoef(*ranks)[0, 1])


def tried(worth: confidence.Calibration, sure: list[float], chrf: list[float]) -> dict:
    "How well what is expected agrees with what came."
    expected = [worth(value) for value in sure]
    groups = [
        {"expected": x, "chrf": y, "answers": n}
        for x, y, n in confidence.group_means(expected, chrf, 10)
    ]
    return {
        "answers": len(sure),
        "rank_correlation": rank_correlation(sure, chrf),
        "groups": groups,
        "distance": mean(abs(a - b) for a, b in zip(expected, chrf)),
        "distance_of_mean": mean(abs(mean(chrf) - b) for b in chrf),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, help="a translator (default: the shipped one)")
    parser.add_argument(
        "--sentences", type=int, default=500, help="of each development set (default: %(default)s)"
    )
    o = parser.parse_args()
    torch.set_num_threads(1)
    made = where()  # now: the first file that is written here changes a checkout
    folder = o.folder or shipped("data/checkpoints/tatoeba-fr")
    translator, weights = english_french(folder), sha256_file(folder / "model.safetensors")
    place = ROOT / ".run/domains" / weights[:12]
    held, sure, chrf = training_sets.mixture_held_out("fr"), [], []
    for name, part in FITTED.items():
        english, references = data.grouped(held[part])
        some = texts.take_evenly(list(zip(english, references)), o.sentences)
        said, own = answered(
            translator, [one for one, _ in some], place / f"fitted-{o.sentences}-{name}.json"
        )
        sure += own
        chrf += confidence.sentence_chrf(said, [refs for _, refs in some])
    worth = confidence.fit_calibration(sure, chrf)
    confidence.save_calibration(worth, folder)
    rows, known = {}, tests()
    for name in TRIED:
        english, references = known[name]
        said, own = answered(translator, english, place / f"{name}.json")
        rows[name] = tried(worth, own, confidence.sentence_chrf(said, references))
        print(f"{name}: rank correlation {rows[name]['rank_correlation']:.2f}", flush=True)
    keep(
        BENCH / f"confidence-{folder.name}.json",
        made | {
            "command": command(parser),
            "weights": weights,
            "fitted": len(sure),
            "log_probability": worth.log_probability,
            "chrf": worth.chrf,
            "tests": rows,
        },
    )
