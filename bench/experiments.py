"""Chapter 18's experiments, one change each to the recipe that ships: python bench/experiments.py
[NAME ...]

Each trains for about as many steps as one epoch of the whole corpus has (5,000 pairs: half of
them), and becomes exp-NAME among the trainings of book/results/runs; a stopped run goes on from
runs/exp-NAME. All cut words as the shipped translator does, so that losses compare. Tied embeddings
and smoothing are tried at the small size. The recorded runs took half an hour at the large size and
eight to fourteen minutes at the small, less with 5,000 pairs. Needs the corpus
($TRANSFORMER_LIT_DATA)."""

import argparse
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import torch
from records import add_training

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from transformer_lit.recipes import recipes as t  # noqa: E402
from transformer_lit.data import load  # noqa: E402
from transformer_lit.corpora.files import shipped  # noqa: E402

BASE = t.RECIPES["tatoeba-fr"]
TINY = BASE.model | dict(d_model=128, d_ff=512, n_encoder_layers=2, n_decoder_layers=2)
EPOCHS = {
    5_000: 16,
    50_000: 3,
    None: 1,
}  # about 900 steps; half of that for 5,000, which are known by heart sooner


def variant(pairs, model, smoothing=0.1):
    training = replace(BASE.training, epochs=EPOCHS[pairs], smoothing=smoothing)
    return replace(BASE, pairs=pairs, training=training, model=model)


RUNS = {
    f"data-{label}-{size}": variant(pairs, model)
    for size, model in (("small", TINY), ("large", BASE.model))
    for label, pairs in (("5k", 5_000), ("50k", 50_000), ("all", None))
}
RUNS |= {
    "tied-no": variant(None, TINY | {"tied": False}),
    "smoothing-0.0": variant(None, TINY, smoothing=0.0),
}  # beside data-all-small


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("names", nargs="*", default=list(RUNS))
    o = p.parse_args()
    torch.set_num_threads(1)
    for name in o.names:
        recipe = RUNS[name]
        parts = load(recipe.corpus, recipe.language, recipe.words, recipe.pairs)
        work = ROOT / "runs" / f"exp-{name}"
        if not (work / "tokenizer.json").exists():
            work.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(
                shipped("data/checkpoints/tatoeba-fr/tokenizer.json"), work / "tokenizer.json"
            )
        done = t.train_translator(work, recipe, parts)
        command = f"python bench/experiments.py {name}"
        if not (work / "run.json").exists():
            t.evaluate_and_record(work, command, recipe, *done, parts)
        add_training(f"exp-{name}", work, every=10)
        print(name, "done", flush=True)


if __name__ == "__main__":
    main()
