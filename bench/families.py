"""Chapter 26's three families with more seeds and four times the steps: the chapter's own cells, run outside its page.

What is trained and asked is what the notebook says, cell by cell; here only the seed (weights, order of sentences, what is
covered and cut), the number of steps and the peak rate are others. A part of `fair.py`'s plan; alone:

    python bench/families.py --steps 60 --seed 1      # a minute, prints the row
"""
import argparse
import json
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
NOTEBOOK = ROOT / "book/26_three_families.ipynb"
BEFORE = ("imports", "imports-models", "sentences", "one-list", "as-ids", "encoder-only", "build", "families", "cover", "covered",
          "masked", "train", "exam", "exam-check", "by-encoder", "cut", "cut-training")
AFTER = ("by-others", "readers", "by-score", "fill-run", "rest", "go-on-one-pass", "go-on-gaps", "continue-run", "fill-in",
         "translate-run", "translate-gaps", "translate-score")


def cells(names: tuple) -> list[str]:
    "The code of cells by their ids, in that order. KeyError if the chapter hasn't one any more."
    found = {cell["id"]: "".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]}
    return [found[name] for name in names]


def run(steps: int, seed: int, peak: float = 6e-3) -> dict:
    "All three trained for `steps` steps, and how each fills, continues and translates."
    import matplotlib
    matplotlib.use("Agg")
    space: dict = {"__name__": "chapter_26"}
    torch.manual_seed(0)  # which words of the unseen sentences are covered is the chapter's
    for name, code in zip(BEFORE, cells(BEFORE)):
        exec(compile(code, f"{NOTEBOOK.name}#{name}", "exec"), space)
    space["config"] = space["TrainingConfig"](epochs=10 ** 6, max_tokens=512, smoothing=0.0, seed=seed)
    space["dice"].seed(seed)
    gradients = {"encoder-only": space["masked"](), "decoder-only": space["constant_share"](steps),
                 "encoder-decoder": space["cut_gradient"]}
    models = space["models"] = {family: space["build"](kind, seed) for family, kind in space["KINDS"].items()}
    losses = {family: space["trained"](model, gradients[family], steps, peak) for family, model in models.items()}
    for name, code in zip(AFTER, cells(AFTER)):
        exec(compile(code, f"{NOTEBOOK.name}#{name}", "exec"), space)
    return {"steps": steps, "peak": peak, "unseen": space["n"], "pairs": len(space["pairs"]),
            "parameters": {family: space["count_parameters"](model) for family, model in models.items()},
            "last_losses": {family: sum(ys[-20:]) / len(ys[-20:]) for family, ys in losses.items()},
            "filled": space["filled"], "perplexity": space["perplexities"],
            "translated": {way: {k: row[k] for k in ("BLEU", "exact")} for way, row in space["translated"].items()}}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--steps", type=int, default=3200)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--peak", type=float, default=6e-3)
    o = p.parse_args()
    torch.set_num_threads(1)
    print(json.dumps(run(o.steps, o.seed, o.peak), indent=1))


if __name__ == "__main__":
    main()
