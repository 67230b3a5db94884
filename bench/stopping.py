"""When a sentence may leave the beam: the translator that comes with the book under both rules (chapter 13).

    python bench/stopping.py            # about three minutes on one core
    python bench/stopping.py 200 --out some.json

Distinct Tatoeba test sentences, evenly over the set (TRANSFORMER_LIT_DATA), a beam of four, fp32. For each α both rules, by turns:
answers, BLEU of the first reference with its signature, length against the references, answers that differ from those of the other rule,
rows that the decoder computed, and processor time.
"""

import argparse
import sys
import time
from pathlib import Path
from unittest.mock import patch

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import BENCH, command, keep, where  # noqa: E402
from transformer_lit.data import test_set  # noqa: E402
from transformer_lit.corpora.files import shipped  # noqa: E402
from transformer_lit.decoding import beam_search  # noqa: E402
from transformer_lit.evaluation import interval, line_counts, scores  # noqa: E402
from transformer_lit.masks import BOS  # noqa: E402
from transformer_lit.training import collate  # noqa: E402
from transformer_lit.translation import Translator, readable  # noqa: E402

ALPHAS = (0.0, 0.6, 1.0, 1.5)


def batches(ids, size=64):
    "Places in `ids`, sentences of like length together."
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    return [order[k : k + size] for k in range(0, len(order), size)]


def decoded(model, ids, alpha, patient, beam=4):
    "Answers as ids in the given order, rows that `step` computed, processor seconds."
    said, rows, step = [[] for _ in ids], [0], model.step

    def counted(tokens, state):
        rows[0] += len(tokens)
        return step(tokens, state)

    began = time.process_time()
    with patch.object(model, "step", counted):
        for some in batches(ids):
            source, _ = collate([(ids[i], [BOS]) for i in some])
            for i, out in zip(some, beam_search(model, source, beam, alpha, patient=patient)):
                said[i] = out
    return said, rows[0], time.process_time() - began


def row(texts, references, alpha, patient, rows, seconds):
    found, counts = scores(texts, references)[0], line_counts(texts, references)
    said, right = counts[:, :2].sum(0)  # words
    return {
        "alpha": alpha,
        "patient": patient,
        "bleu": found["value"],
        "signature": found["signature"],
        "length": float(said / right),
        "rows": rows,
        "cpu_seconds": seconds,
    }, counts


def compare(translator, asked, references):
    "Two rows for each α: k finished are enough, and patient."
    ids = [translator.source.encode(readable(text)) for text in asked]
    for alpha in ALPHAS:
        heard, counted, found = [], [], []
        for patient in (False, True):
            said, rows, seconds = decoded(translator.model.eval(), ids, alpha, patient)
            texts = [translator.target.decode(one) for one in said]
            one, counts = row(texts, references, alpha, patient, rows, seconds)
            heard.append(said), counted.append(counts), found.append(one)
        both = list(zip(*heard))
        found[1] |= {
            "changed": sum(a != b for a, b in both),
            "longer": sum(len(b) > len(a) for a, b in both),
            "difference": interval(counted[1], counted[0]),
        }
        for one in found:
            print(
                ", ".join(f"{name} {value}" for name, value in one.items() if name != "signature"),
                flush=True,
            )
        yield from found


def main():
    wanted = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    wanted.add_argument("sentences", type=int, nargs="?", default=2000)
    wanted.add_argument("--out", type=Path, default=BENCH / "stopping.json")
    options = wanted.parse_args()
    torch.set_num_threads(1)
    asked, references = test_set("tatoeba")
    n = min(options.sentences, len(asked))
    some = [int(k * len(asked) / n) for k in range(n)]
    began = where()
    rows = list(
        compare(
            Translator.from_pretrained(shipped("data/checkpoints/tatoeba-fr")),
            [asked[k] for k in some],
            [references[k][:1] for k in some],
        )
    )
    keep(
        options.out,
        {"command": command(wanted, "sentences"), **began, "sentences": n, "beam": 4, "rows": rows},
    )


if __name__ == "__main__":
    main()
