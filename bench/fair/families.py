"""Chapter 26's three families with more seeds and four times the steps: the chapter's own cells,
run outside its page.

What is trained and asked is what the notebook says, cell by cell; here only the seed (weights,
order of sentences, what is covered and cut), the number of steps and the peak rate are others.
Beside each share and mean is what it is made of, sentence by sentence, for the intervals."""

import json
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from fair import ngrams
from torch import Tensor

from transformer_lit.evaluation import sacrebleu_scores

NOTEBOOK = Path(__file__).resolve().parents[2] / "book/26_three_families.ipynb"
BEFORE = """imports imports-models sentences one-list as-ids encoder-only build families cover
    covered masked train exam exam-check by-encoder cut cut-training""".split()
AFTER = """by-others readers by-score fill-run rest go-on-one-pass go-on-gaps continue-run fill-in
    translate-run translate-gaps translate-score""".split()


def run_cells(names: Iterable[str], space: dict) -> None:
    "Run cells of the chapter by their ids. KeyError if it hasn't one any more."
    cells = {cell["id"]: cell for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]}
    for name in names:
        code = "".join(cells[name]["source"])
        exec(compile(code, f"{NOTEBOOK.name}#{name}", "exec"), space)


def rest_nats(logits: Tensor, rest: Tensor, last: int) -> np.ndarray:
    """Nats of the words of each rest, added up; ids up to `last` (EOS) are no words. (n, R, V), (n,
    R) -> (n,)"""
    loss = F.cross_entropy(logits.transpose(1, 2), rest, reduction="none")
    return (loss * (rest > last)).sum(1).numpy()


@torch.no_grad()
def by_sentence(space: dict) -> tuple[dict, dict[str, np.ndarray]]:
    "Continue and translate as the chapter's cells have left it, and each sentence of all tasks."
    answers, rest, last = space["answers"], space["rest"], space["EOS"]
    texts = {
        way: [space["french"].decode(ids) for ids in said] for way, said in space["said"].items()
    }
    wanted = [pair.french for pair in space["unseen"]]
    references = [[text] for text in wanted]
    judged = {
        way: {score["metric"]: score for score in sacrebleu_scores(said, references)}
        for way, said in texts.items()
    }
    held = [[i for i in row if i != space["PAD"]] for row in answers.tolist()]
    seen = (target for _, target in space["pairs"])
    nats = {way: rest_nats(f(), rest, last) for way, f in space["WAYS"].items()}
    # of the French alone; EOS isn't measured, as in the chapter
    lines = ngrams.lines(seen, held, space["V"], space["K"], end=False)
    nats |= {name: each.astype(np.float32) for name, each in lines.items()}
    words = (rest > last).sum(1).numpy().astype(np.uint16)
    arrays = {"rest_words": words} | {f"rest_nats/{way}": each for way, each in nats.items()}
    for way, fill in space["fillers"].items():
        for kind, at in (("il or elle", space["pronoun"]), ("any word", space["anywhere"])):
            right = fill(answers, at).argmax(-1) == answers[space["rows"], at]
            arrays[f"right/{way}/{kind}"] = right.numpy()
    for way, said in texts.items():
        arrays[f"right/{way}/exact"] = np.array([a == b for a, b in zip(said, wanted, strict=True)])
    return {
        "ngrams": {name: math.exp(each.sum() / words.sum()) for name, each in lines.items()},
        "translated": {
            way: {
                "BLEU": scores["BLEU"]["value"],
                "chrF": scores["chrF"]["value"],
                "exact": space["translated"][way]["exact"],
            }
            for way, scores in judged.items()
        },
        "signatures": {name: s["signature"] for name, s in next(iter(judged.values())).items()},
    }, arrays


def run(steps: int, seed: int, peak: float = 6e-3) -> tuple[dict, dict[str, np.ndarray]]:
    "All three trained for `steps` steps, and how each fills, continues and translates."
    import matplotlib

    matplotlib.use("Agg")
    space: dict = {"__name__": "chapter_26"}
    torch.manual_seed(0)  # which words of the unseen sentences are covered is the chapter's
    run_cells(BEFORE, space)
    space["config"] = space["TrainingConfig"](
        epochs=10**6, max_tokens=512, label_smoothing=0.0, seed=seed
    )
    space["dice"].seed(seed)
    gradients = {
        "encoder-only": space["masked"](),
        "decoder-only": space["constant_source_weight"](steps),
        "encoder-decoder": space["cut_gradient"],
    }
    models = space["models"] = {
        family: space["build"](kind, seed) for family, kind in space["KINDS"].items()
    }
    for family, model in models.items():
        space["trained"](model, gradients[family], steps, peak)
    run_cells(AFTER, space)
    sentences, arrays = by_sentence(space)
    parameters = {family: space["count_parameters"](model) for family, model in models.items()}
    return {
        "steps": steps,
        "unseen": space["n"],
        "pairs": len(space["pairs"]),
        "parameters": parameters,
        "filled": space["filled"],
        "perplexity": space["perplexities"],
        **sentences,
    }, arrays
