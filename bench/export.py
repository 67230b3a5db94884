"""What an export to CTranslate2 keeps and loses: book/results/bench/export.json.

    python bench/export.py                    needs ctranslate2 and Tatoeba (TRANSFORMER_LIT_DATA or the cache)
    python bench/export.py --small --out FILE seconds: the pocket translator alone, forty sentences

For the two translators that come with the book and each way to write the weights: the folder's size, the largest difference of
a log-probability from ours over all tokens of the references, how many of the sentences come out the same greedily and with a
beam of four (the forty of data/try_it.tsv for tatoeba-fr, 200 unseen ones for pocket), and BLEU on unseen sentences.
One thread.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import BENCH, command, keep  # noqa: E402
from transformer_lit.data import load, test_set  # noqa: E402
from transformer_lit.corpora.files import shipped  # noqa: E402
from transformer_lit.evaluation import scores  # noqa: E402
from transformer_lit.serving.ctranslate import (
    QUANTIZATIONS,
    engine_answers,
    engine_library,
    export,
    token_names,
)  # noqa: E402
from transformer_lit.masks import PAD  # noqa: E402
from transformer_lit.training import collate  # noqa: E402
from transformer_lit.runs.records import git_commit, hardware_name  # noqa: E402
from transformer_lit.translation import Translator, answers, readable  # noqa: E402


def forty() -> list[tuple[str, str]]:
    rows = shipped("data/try_it.tsv").read_text("utf-8").splitlines()
    return [tuple(row.split("\t")[:2]) for row in rows]


def unseen(n: int = 200) -> list[tuple[str, str]]:
    return load("pocket")["test"][:n]


@torch.no_grad()
def our_log_probs(translator, pairs) -> list[list[float]]:
    "Of each token of each reference, EOS included, by our own model."
    found = []
    for pair in pairs:
        source, target = collate([pair])
        log_p = translator.model(source, target[:, :-1]).log_softmax(-1)  # (1, T, V)
        found.append(log_p[0].gather(-1, target[0, 1:, None])[:, 0].tolist())
    return found


def engine_log_probs(engine, translator, pairs) -> list[list[float]]:
    source, target = token_names(translator.source), token_names(translator.target)
    given = [
        [names[i] for i in ids if i != PAD] for names, ids in ((source, p[0][:-1]) for p in pairs)
    ]
    said = [[target[i] for i in p[1][1:-1]] for p in pairs]
    return [list(one.log_probs) for one in engine.score_batch(given, said)]


def largest_gap(ours, theirs) -> float:
    assert [len(row) for row in ours] == [len(row) for row in theirs]
    return max(abs(a - b) for one, two in zip(ours, theirs) for a, b in zip(one, two))


def open_engine(folder):
    return engine_library().Translator(str(folder), intra_threads=1, inter_threads=1)


def exported(translator, home: Path) -> dict:
    return {q: export(translator, home / q, q) for q in QUANTIZATIONS}


def sameness(translator, name, pairs, folders) -> list[dict]:
    ids = translator.encode_pairs([(readable(e), readable(o)) for e, o in pairs])
    sources, ours = [source for source, _ in ids], our_log_probs(translator, ids)
    said = {k: answers(translator.model, sources, k, 64) for k in (1, 4)}
    rows = []
    for quantization, folder in folders.items():
        engine = open_engine(folder)
        same = {
            k: sum(map(list.__eq__, said[k], engine_answers(engine, translator, sources, k)))
            for k in said
        }
        rows.append(
            {
                "translator": name,
                "quantization": quantization,
                "compute": engine.compute_type,
                "megabytes": sum(f.stat().st_size for f in folder.iterdir()) / 1e6,
                "sentences": len(pairs),
                "largest_gap": largest_gap(ours, engine_log_probs(engine, translator, ids)),
                "same_greedy": same[1],
                "same_beam": same[4],
            }
        )
        print(rows[-1], flush=True)
    return rows


def quality(translator, name, english, references, folders) -> dict:
    "BLEU with the first reference, ours and each export's, from the same ids."
    ids = [translator.source.encode(readable(text)) for text in english]
    said = {"ours": answers(translator.model, ids, 4, 64)}
    said |= {
        q: engine_answers(open_engine(folder), translator, ids) for q, folder in folders.items()
    }
    found, first = {}, [some[:1] for some in references]
    for which, rows in said.items():
        bleu = next(
            s
            for s in scores([translator.target.decode(row) for row in rows], first)
            if s["metric"] == "BLEU"
        )
        found[which], signature = bleu["value"], bleu["signature"]
    row = {
        "translator": name,
        "sentences": len(english),
        "bleu": found,
        "signature": signature,
        "same_beam": {q: sum(map(list.__eq__, said["ours"], said[q])) for q in folders},
    }
    print(row, flush=True)
    return row


def main():
    wanted = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    wanted.add_argument(
        "--small", action="store_true", help="the pocket translator alone, forty sentences"
    )
    wanted.add_argument(
        "--sentences", type=int, default=1000, help="for BLEU (default: %(default)s)"
    )
    wanted.add_argument("--out", type=Path, default=BENCH / "export.json")
    options = wanted.parse_args()
    torch.set_num_threads(1)
    engine_library().set_log_level(40)  # errors only: that a CPU takes bfloat16 as float32 is known
    rows, scored = [], []
    for name in ("pocket",) if options.small else ("tatoeba-fr", "pocket"):
        translator = Translator.from_pretrained(shipped(f"data/checkpoints/{name}"))
        pairs = unseen(40 if options.small else 200) if name == "pocket" else forty()
        with tempfile.TemporaryDirectory() as home:
            folders = exported(translator, Path(home))
            rows += sameness(translator, name, pairs, folders)
            english, references = test_set("pocket" if name == "pocket" else "tatoeba", "fr")
            n = 40 if options.small else options.sentences
            scored.append(quality(translator, name, english[:n], references[:n], folders))
    record = {
        "command": command(wanted),
        "commit": git_commit(),
        "seed": None,
        "hardware": hardware_name(),
        "torch": torch.__version__.split("+")[0],
        "ctranslate2": engine_library().__version__,
        "rows": rows,
        "quality": scored,
    }
    keep(options.out, record)


if __name__ == "__main__":
    main()
