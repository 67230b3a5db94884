"""Chapter 26's three families with more seeds and four times the steps: the chapter's own cells,
run outside its page.

What is trained and asked is what the notebook says, cell by cell; here only the seed (weights,
order of sentences, what is covered and cut), the number of steps and the peak rate are others. A
part of `fair.py`'s plan; alone:

    python bench/families.py --steps 60 --seed 1      # a minute, prints the row

Beside each share and mean the row has what it is made of, sentence by sentence:
`book/litbook/drawings/family_views.py` takes its intervals from that. A string of 0 and 1 says
which unseen sentences were right."""

import argparse
import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import ngrams
import torch
import torch.nn.functional as F
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
NOTEBOOK = ROOT / "book/26_three_families.ipynb"
BEFORE = (
    "imports",
    "imports-models",
    "sentences",
    "one-list",
    "as-ids",
    "encoder-only",
    "build",
    "families",
    "cover",
    "covered",
    "masked",
    "train",
    "exam",
    "exam-check",
    "by-encoder",
    "cut",
    "cut-training",
)
AFTER = (
    "by-others",
    "readers",
    "by-score",
    "fill-run",
    "rest",
    "go-on-one-pass",
    "go-on-gaps",
    "continue-run",
    "fill-in",
    "translate-run",
    "translate-gaps",
    "translate-score",
)


def cells(names: tuple) -> list[str]:
    "The code of cells by their ids, in that order. KeyError if the chapter hasn't one any more."
    found = {
        cell["id"]: "".join(cell["source"])
        for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    }
    return [found[name] for name in names]


def marks(right: Iterable) -> str:
    "A string of 0 and 1, a sentence each."
    return "".join(str(int(one)) for one in right)


def which_filled(space: dict) -> dict:
    "Way -> kind of gap -> which unseen sentences it fills right, a string of 0 and 1."
    answers, rows = space["answers"], space["rows"]
    with torch.no_grad():
        return {
            way: {
                kind: marks(fill(answers, at).argmax(-1) == answers[rows, at])
                for kind, at in (("il or elle", space["pronoun"]), ("any word", space["anywhere"]))
            }
            for way, fill in space["fillers"].items()
        }


def rest_nats(logits: Tensor, rest: Tensor, last: int) -> list[float]:
    """Nats of the words of each rest, added up; ids up to `last` (EOS) are no words. (n, R, V), (n,
    R) -> n numbers"""
    loss = F.cross_entropy(logits.transpose(1, 2), rest, reduction="none")
    return [round(nats, 4) for nats in (loss * (rest > last)).sum(1).tolist()]


def ngram_perplexities(
    seen: Iterable[Sequence[int]], held: Sequence[Sequence[int]], vocabulary: int, given: int
) -> dict:
    """unigram, bigram, trigram of the French alone -> perplexity, and the nats of each sentence.

    seen, held: ids from BOS to EOS. Counted on `seen`, all of it; measured on the words of `held`
    after the first `given` of them, which may be read. EOS is counted and isn't measured, as in the
    chapter."""
    model = ngrams.WittenBell(seen, vocabulary)
    before, rows = model.order - 1, []
    for ids in held:
        padded = model.padded(ids)
        steps = [
            model.probabilities(tuple(padded[at - before : at]), padded[at])
            for at in range(before + given, len(padded) - 1)
        ]
        rows.append([-sum(math.log(p[n]) for p in steps) for n in range(model.order)])
    words = sum(max(len(ids) - 2 - given, 0) for ids in held)
    return {
        name: {
            "perplexity": math.exp(sum(row[n] for row in rows) / words),
            "nats": [round(row[n], 4) for row in rows],
        }
        for n, name in enumerate(ngrams.NAMES)
    }


def by_sentence(space: dict) -> dict:
    """Fill, continue, translate sentence by sentence, and n-grams, from what the chapter's cells
    have left."""
    rest, last, held = (
        space["rest"],
        space["EOS"],
        [[i for i in row if i != space["PAD"]] for row in space["answers"].tolist()],
    )
    texts = {
        way: [space["french"].decode(ids) for ids in said] for way, said in space["said"].items()
    }
    wanted = [pair.french for pair in space["unseen"]]
    judged = {
        way: {one["metric"]: one for one in space["scores"](said, [[text] for text in wanted])}
        for way, said in texts.items()
    }
    return {
        "filled_right": which_filled(space),
        "rest_words": (rest > last).sum(1).tolist(),
        "rest_nats": {way: rest_nats(f(), rest, last) for way, f in space["WAYS"].items()},
        "ngrams": ngram_perplexities(
            (target for _, target in space["pairs"]), held, space["V"], space["K"]
        ),
        "translated": {
            way: {
                "BLEU": judged[way]["BLEU"]["value"],
                "chrF": judged[way]["chrF"]["value"],
                "exact": space["translated"][way]["exact"],
                "right": marks(a == b for a, b in zip(said, wanted, strict=True)),
            }
            for way, said in texts.items()
        },
        "signatures": {name: one["signature"] for name, one in next(iter(judged.values())).items()},
    }


def run(steps: int, seed: int, peak: float = 6e-3) -> dict:
    "All three trained for `steps` steps, and how each fills, continues and translates."
    import matplotlib

    matplotlib.use("Agg")
    space: dict = {"__name__": "chapter_26"}
    torch.manual_seed(0)  # which words of the unseen sentences are covered is the chapter's
    for name, code in zip(BEFORE, cells(BEFORE)):
        exec(compile(code, f"{NOTEBOOK.name}#{name}", "exec"), space)
    space["config"] = space["TrainingConfig"](
        epochs=10**6, max_tokens=512, smoothing=0.0, seed=seed
    )
    space["dice"].seed(seed)
    gradients = {
        "encoder-only": space["masked"](),
        "decoder-only": space["constant_share"](steps),
        "encoder-decoder": space["cut_gradient"],
    }
    models = space["models"] = {
        family: space["build"](kind, seed) for family, kind in space["KINDS"].items()
    }
    losses = {
        family: space["trained"](model, gradients[family], steps, peak)
        for family, model in models.items()
    }
    for name, code in zip(AFTER, cells(AFTER)):
        exec(compile(code, f"{NOTEBOOK.name}#{name}", "exec"), space)
    return {
        "steps": steps,
        "peak": peak,
        "unseen": space["n"],
        "pairs": len(space["pairs"]),
        "parameters": {
            family: space["count_parameters"](model) for family, model in models.items()
        },
        "last_losses": {family: sum(ys[-20:]) / len(ys[-20:]) for family, ys in losses.items()},
        "filled": space["filled"],
        "perplexity": space["perplexities"],
        **by_sentence(space),
    }


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--steps", type=int, default=3200)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--peak", type=float, default=6e-3)
    o = p.parse_args()
    torch.set_num_threads(1)
    print(json.dumps(run(o.steps, o.seed, o.peak), indent=1))


if __name__ == "__main__":
    main()
