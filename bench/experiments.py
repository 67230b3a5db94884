"""Chapter 18's experiments, one change each to the recipe of `tatoeba-fr`.

    python bench/experiments.py [NAME ...]

Each trains for about as many steps as one epoch of the whole corpus has (5,000 pairs: half of
them), and becomes exp-NAME among the trainings of book/results/runs; a stopped run goes on from
runs/exp-NAME. All cut words as `tatoeba-fr` does, so that losses compare. Tied embeddings
and smoothing are tried at the small size. The recorded runs took half an hour at the large size and
eight to fourteen minutes at the small, less with 5,000 pairs. Needs the corpus
($TRANSFORMER_LIT_DATA)."""

import shutil
from dataclasses import replace

from common import ROOT, options
from records import add_training

from transformer_lit.corpora.files import shipped
from transformer_lit.data import load_corpus
from transformer_lit.recipes.recipes import RECIPES, Recipe, evaluate_and_record, train_translator

BASE = RECIPES["tatoeba-fr"]
TINY = BASE.model | dict(d_model=128, d_ff=512, n_encoder_layers=2, n_decoder_layers=2)
# about 900 steps; half of that for 5,000, which are known by heart sooner
EPOCHS = {5_000: 16, 50_000: 3, None: 1}


def variant(pairs: int | None, model: dict, smoothing: float = 0.1) -> Recipe:
    training = replace(BASE.training, epochs=EPOCHS[pairs], label_smoothing=smoothing)
    return replace(BASE, pairs=pairs, training=training, model=model)


RUNS = {
    f"data-{label}-{size}": variant(pairs, model)
    for size, model in (("small", TINY), ("large", BASE.model))
    for label, pairs in (("5k", 5_000), ("50k", 50_000), ("all", None))
}
RUNS["tied-no"] = variant(None, TINY | {"tied_embeddings": False})  # beside data-all-small
RUNS["smoothing-0.0"] = variant(None, TINY, smoothing=0.0)


def main():
    o = options(__doc__, {"names": dict(nargs="*", default=list(RUNS))})
    for name in o.names:
        recipe, folder = RUNS[name], ROOT / "runs" / f"exp-{name}"
        parts = load_corpus(recipe.corpus, recipe.language, recipe.words, recipe.pairs)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(shipped("data/checkpoints/tatoeba-fr/tokenizer.json"), folder)
        trained = train_translator(folder, recipe, parts)
        if not (folder / "run.json").exists():
            command = f"python bench/experiments.py {name}"
            evaluate_and_record(folder, command, recipe, *trained, parts)
        add_training(f"exp-{name}", folder, every=10)


if __name__ == "__main__":
    main()
