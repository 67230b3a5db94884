"""What an export to CTranslate2 keeps and loses: book/results/bench/export.json.

    python bench/export.py    # needs ctranslate2, and Tatoeba in TRANSFORMER_LIT_DATA or the cache

For two translators that come with the book and each way to write the weights: the folder's
size, the largest difference of a log-probability from ours over all tokens of the references, how
many of the sentences come out the same greedily and with a beam of four (the forty of
data/try_it.tsv for tatoeba-fr, 200 unseen ones for pocket), and BLEU on unseen sentences. One
thread."""

import tempfile
from pathlib import Path

import ctranslate2
import numpy as np
import torch
from common import BENCH, Record, options, try_it

from transformer_lit.corpora.files import shipped
from transformer_lit.data import load_corpus, load_test_set
from transformer_lit.evaluation import sacrebleu_scores
from transformer_lit.masks import PAD
from transformer_lit.serving.ctranslate import engine_answers, export
from transformer_lit.batching import collate
from transformer_lit.translation import Translator, translate_ids, clean_input


@torch.no_grad()
def our_log_probs(translator, pairs) -> list[list[float]]:
    "Of each token of each reference, EOS included, by our own model."
    rows = []
    for pair in pairs:
        source, target = collate([pair])
        log_probs = translator.model(source, target[:, :-1]).log_softmax(-1)  # (1, T, V)
        rows.append(log_probs[0].gather(-1, target[0, 1:, None])[:, 0].tolist())
    return rows


def engine_log_probs(engine, translator, pairs) -> list[list[float]]:
    source, target = translator.source_tokenizer.tokens, translator.target_tokenizer.tokens
    sources = [[source[i] for i in ids[:-1] if i != PAD] for ids, _ in pairs]
    targets = [[target[i] for i in ids[1:-1]] for _, ids in pairs]
    return [list(row.log_probs) for row in engine.score_batch(sources, targets)]


def largest_gap(ours, theirs) -> float:
    return np.abs(np.concatenate(ours) - np.concatenate(theirs)).max().item()


def open_engine(folder):
    return ctranslate2.Translator(str(folder), intra_threads=1, inter_threads=1)


def outputs_of(translator, engines: dict, sources: list, beam: int = 4) -> dict[str, list]:
    "Answers as ids, ours and each engine's."
    return {"ours": translate_ids(translator.model, sources, beam, 64, "fp32")} | {
        name: engine_answers(engine, translator, sources, beam) for name, engine in engines.items()
    }


def count_same(outputs: dict[str, list], name: str) -> int:
    return sum(map(list.__eq__, outputs["ours"], outputs[name]))


def compare(translator, name, pairs, folders, engines) -> list[dict]:
    "Size, log-probabilities and answers of each export."
    ids = translator.encode_pairs([(clean_input(e), clean_input(f)) for e, f in pairs])
    sources, log_probs = [source for source, _ in ids], our_log_probs(translator, ids)
    greedy, beam = (outputs_of(translator, engines, sources, width) for width in (1, 4))
    return [
        {
            "translator": name,
            "quantization": quantization,
            "compute": engine.compute_type,
            "megabytes": sum(f.stat().st_size for f in folders[quantization].iterdir()) / 1e6,
            "sentences": len(pairs),
            "largest_gap": largest_gap(log_probs, engine_log_probs(engine, translator, ids)),
            "same_greedy": count_same(greedy, quantization),
            "same_beam": count_same(beam, quantization),
        }
        for quantization, engine in engines.items()
    ]


def quality(translator, name, english, references, engines) -> dict:
    "BLEU with the first reference, ours and each export's, from the same ids."
    ids = [translator.source_tokenizer.encode(clean_input(text)) for text in english]
    outputs, first = outputs_of(translator, engines, ids), [several[:1] for several in references]
    bleu = {
        form: sacrebleu_scores([translator.target_tokenizer.decode(row) for row in rows], first)[0]
        for form, rows in outputs.items()
    }
    return {
        "translator": name,
        "sentences": len(english),
        "bleu": {form: score["value"] for form, score in bleu.items()},
        "signature": bleu["ours"]["signature"],
        "same_beam": {q: count_same(outputs, q) for q in engines},
    }


def main():
    o = options(__doc__, out=BENCH / "export.json")
    ctranslate2.set_log_level(40)  # errors only: that a CPU takes bfloat16 as float32 is known
    record = Record(o.out, ctranslate2=ctranslate2.__version__)
    rows, scored = [], []
    for name in ("tatoeba-fr", "pocket"):
        translator = Translator.load(shipped(f"data/checkpoints/{name}"))
        pairs = load_corpus("pocket")["test"][:200] if name == "pocket" else try_it()
        with tempfile.TemporaryDirectory() as home:
            folders = {
                q: export(translator, Path(home) / q, q) for q in ("float32", "bfloat16", "int8")
            }
            engines = {q: open_engine(folder) for q, folder in folders.items()}
            rows += compare(translator, name, pairs, folders, engines)
            english, references = load_test_set("pocket" if name == "pocket" else "tatoeba")
            scored.append(quality(translator, name, english[:1000], references[:1000], engines))
        print(*rows[-len(engines) :], scored[-1], sep="\n")
    record.write(rows=rows, quality=scored)


if __name__ == "__main__":
    main()
