"""When a sentence may leave the beam: `tatoeba-fr` under both rules
(chapter 13).

    python bench/stopping.py            # about three minutes on one core
    python bench/stopping.py 200 --out some.json

Distinct Tatoeba test sentences, evenly over the set (TRANSFORMER_LIT_DATA), a beam of four, fp32.
For each α both rules, by turns: answers, BLEU of the first reference with its signature, length
against the references, answers that differ from those of the other rule, rows that the decoder
computed, and processor time."""

from collections.abc import Iterator
from functools import partial
from unittest.mock import patch

from common import BENCH, EVERYDAY, Clock, Record, options

from transformer_lit import translation
from transformer_lit.corpora.texts import take_evenly
from transformer_lit.data import load_test_set
from transformer_lit.decoding import beam_search
from transformer_lit.evaluation import bootstrap_interval, segment_stats, sacrebleu_scores
from transformer_lit.translation import Translator, clean_input

ALPHAS = (0.0, 0.6, 1.0, 1.5)


def decode(model, ids: list[list[int]], alpha: float, patient: bool) -> tuple[list, int, float]:
    "Answers as ids, rows that `step` computed, processor seconds."
    rows, step = [], model.step

    def counted(tokens, state):
        rows.append(len(tokens))
        return step(tokens, state)

    search = partial(beam_search, alpha=alpha, early_stopping=not patient)
    with patch.object(model, "step", counted), patch.object(translation, "beam_search", search):
        with Clock() as clock:
            outputs = translation.translate_ids(model, ids, 4, 64, "fp32")
    return outputs, sum(rows), clock.cpu


def compare(translator: Translator, asked: list, references: list) -> Iterator[dict]:
    "Two rows for each α: k finished are enough, and patient."
    ids, model = [
        translator.source_tokenizer.encode(clean_input(text)) for text in asked
    ], translator.model
    for alpha in ALPHAS:
        outputs, counts = {}, {}
        for patient in (False, True):
            outputs[patient], rows, seconds = decode(model.eval(), ids, alpha, patient)
            texts = [translator.target_tokenizer.decode(row) for row in outputs[patient]]
            bleu, counts[patient] = sacrebleu_scores(texts, references)[0], segment_stats(
                texts, references
            )
            row = {
                "alpha": alpha,
                "patient": patient,
                "bleu": bleu["value"],
                "signature": bleu["signature"],
                "length": bleu["length_ratio"],
                "rows": rows,
                "cpu_seconds": seconds,
            }
            if patient:
                row["changed"] = sum(a != b for a, b in zip(*outputs.values()))
                row["difference"] = bootstrap_interval(counts[True], counts[False])
            print(row)
            yield row


def main():
    sentences = dict(type=int, nargs="?", default=2000)
    o = options(__doc__, {"sentences": sentences}, out=BENCH / "stopping.json")
    pairs = take_evenly(list(zip(*load_test_set("tatoeba"))), o.sentences)
    record = Record(o.out, sentences=len(pairs), beam=4)
    translator = Translator.load(EVERYDAY)
    references = [several[:1] for _, several in pairs]
    rows = compare(translator, [sentence for sentence, _ in pairs], references)
    record.write(rows=list(rows))


if __name__ == "__main__":
    main()
