"""What a translator's probabilities are worth: answers to sentences whose translation is known, in
order of their log-probability.

    python bench/confidence.py                                 # the default translator, a quarter
                                                               # of an hour on one thread
    python bench/confidence.py --folder data/checkpoints/mixture-fr   # another one; writes
                                                               # confidence.json into its folder

Fitted on 500 sentences each of Tatoeba's, Multi30k's and the news' development sets, tried on the
answers to their tests that `bench/domains.py` keeps, which runs first. The record,
book/results/bench/confidence-NAME.json: what was expected and what came, in ten groups of like
size, and the rank correlation."""

from pathlib import Path

from common import BENCH, Record, options
from domains import answered, english_french, tests
from scipy.stats import spearmanr

from transformer_lit import data
from transformer_lit.corpora.texts import take_evenly
from transformer_lit.recipes.training_sets import mixture_held_out
from transformer_lit.serving import confidence

FITTED = {"tatoeba": "valid-tatoeba", "multi30k": "valid-multi30k", "newstest2013": "valid"}
TRIED = ("tatoeba", "multi30k", "newstest2014")


def agreement(calibration: confidence.Calibration, log_probs: list, chrf: list) -> dict:
    "How well what is expected agrees with what came."
    expected = [calibration(value) for value in log_probs]
    groups = confidence.group_means(expected, chrf, 10)
    return {
        "answers": len(log_probs),
        "rank_correlation": float(spearmanr(log_probs, chrf).statistic),
        "groups": [{"expected": x, "chrf": y, "answers": n} for x, y, n in groups],
    }


def main():
    o = options(__doc__, folder=Path)
    translator, folder, weights, home = english_french(o.folder)
    record = Record(BENCH / f"confidence-{folder.name}.json", weights=weights)
    held_out, log_probs, chrf = mixture_held_out("fr"), [], []
    for name, part in FITTED.items():
        pairs = take_evenly(list(zip(*data.group_references(held_out[part]))), 500)
        sentences, references = map(list, zip(*pairs))
        path = home / f"fitted-{name}.json"
        outputs, own = answered(translator, sentences, path)
        log_probs += own
        chrf += confidence.sentence_chrf(outputs, references)
    calibration = confidence.fit_calibration(log_probs, chrf)
    confidence.save_calibration(calibration, folder)
    rows, known = {}, tests()
    for name in TRIED:
        sentences, references = known[name]
        outputs, own = answered(translator, sentences, home / f"{name}.json")
        rows[name] = agreement(calibration, own, confidence.sentence_chrf(outputs, references))
        print(f"{name}: rank correlation {rows[name]['rank_correlation']:.2f}")
    record.write(fitted=len(log_probs), **calibration._asdict(), tests=rows)


if __name__ == "__main__":
    main()
