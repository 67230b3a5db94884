"""Weights averaged over the ends of epochs, as in the paper (§6.1), beside the weights at each end
alone.

    python bench/averages.py ENDS tatoeba-fr

ENDS holds the checkpoint of a training at several ends of epochs, as epoch-N.safetensors (copied
while it ran, or kept by a recipe with `average`). The held-out loss of each end and of means of two
and three ends go to NAME's line among the trainings of book/results/runs. A mean of epochs 5 and 6
is compared with epoch 6: that is what averaging does while the rate is still high. One thread; half
a minute each."""

from pathlib import Path

import torch
from common import ROOT, options
from records import measure

from transformer_lit.data import load_corpus
from transformer_lit.recipes.recipes import RECIPES
from transformer_lit.runs.checkpoints import load_weights, read_file
from transformer_lit.training import validation_loss
from transformer_lit.translation import from_pretrained


def main():
    o = options(__doc__, {"ends": dict(type=Path), "name": dict(choices=RECIPES)})
    torch.set_num_threads(1)
    recipe = RECIPES[o.name]
    parts = load_corpus(recipe.corpus, recipe.language, recipe.words, recipe.pairs)
    translator = from_pretrained(ROOT / "data/checkpoints" / o.name)
    valid = translator.encode_pairs(parts["valid"])
    files = {int(f.stem.split("-")[1]): f for f in o.ends.glob("epoch-*.safetensors")}
    ends = {n: read_file(files[n], False) for n in sorted(files)}
    rows = []
    for size in (1, 2, 3):
        for n in ends:
            epochs = list(range(n - size + 1, n + 1))
            if not set(epochs) <= set(ends):
                continue
            weights = [ends[epoch][0] for epoch in epochs]
            mean = {name: sum(w[name] for w in weights) / size for name in weights[0]}
            load_weights(translator.model, mean)
            loss = validation_loss(translator.model, valid)
            rows.append({"epochs": epochs, "step": ends[n][1]["at"]["step"], "loss": loss})
            print(rows[-1], flush=True)
    measure(o.name, averages=rows)


if __name__ == "__main__":
    main()
