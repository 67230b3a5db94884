"""Weights averaged over the ends of epochs, as in the paper (§6.1), beside the weights at each end
alone.

    python bench/averages.py ENDS tatoeba-fr

ENDS holds the checkpoint of a training at several ends of epochs, as epoch-N.safetensors (copied
while it ran, or kept by a recipe with `average`). The held-out loss of each end and of means of two
and three ends go to NAME's line among the trainings of book/results/runs. A mean of epochs 5 and 6
is compared with epoch 6: that is what averaging does while the rate is still high. One thread; half
a minute each."""

from itertools import product
from pathlib import Path

from common import ROOT, options
from records import measure

from transformer_lit.data import load_corpus
from transformer_lit.recipes.recipes import RECIPES
from transformer_lit.runs.checkpoints import average_files, read_file
from transformer_lit.training import validation_loss
from transformer_lit.translation import Translator


def main():
    o = options(__doc__, {"ends": dict(type=Path), "name": dict(choices=RECIPES)})
    recipe = RECIPES[o.name]
    parts = load_corpus(recipe.corpus, recipe.language, recipe.words, recipe.pairs)
    translator = Translator.load(ROOT / "data/checkpoints" / o.name)
    valid = translator.encode_pairs(parts["valid"])
    ends = {int(path.stem.split("-")[1]): path for path in o.ends.glob("epoch-*.safetensors")}
    rows = []
    for size, last in product((1, 2, 3), sorted(ends)):
        epochs = list(range(last - size + 1, last + 1))
        if set(epochs) <= set(ends):
            average_files(translator.model, [ends[epoch] for epoch in epochs])
            loss = validation_loss(translator.model, valid)
            _, progress = read_file(ends[last])
            rows.append({"epochs": epochs, "step": progress["at"]["step"], "loss": loss})
            print(rows[-1])
    measure(o.name, averages=rows)


if __name__ == "__main__":
    main()
