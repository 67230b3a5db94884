"""Chapter 18's experiments, one change each to the recipe that ships: python tests/bench/experiments.py [NAME ...]

Each trains for about the same number of steps and leaves book/results/exp-NAME/run.json (and hypotheses.txt); a stopped run
goes on from runs/exp-NAME. --scale 0.5 halves the epochs. Needs the corpus ($TRANSFORMER_LIT_DATA).
"""
import argparse
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from transformer_lit import translation as t  # noqa: E402
from transformer_lit.data import tatoeba_archive  # noqa: E402

BASE = t.RECIPES["tatoeba-fr"]
TINY = BASE.model | dict(d_model=128, d_ff=512, n_encoder_layers=2, n_decoder_layers=2)
EPOCHS = {5_000: 64, 50_000: 6.4, None: 2}  # about 1,800 steps each


def variant(pairs, epochs=None, smoothing=0.1, **changes):
    training = replace(BASE.training, epochs=epochs or EPOCHS[pairs], smoothing=smoothing)
    return replace(BASE, pairs=pairs, training=training, **changes)


RUNS = {f"data-{label}-{size}": variant(pairs, model=model)
        for size, model in (("small", TINY), ("large", BASE.model))
        for label, pairs in (("5k", 5_000), ("50k", 50_000), ("all", None))}
RUNS |= {"tied-yes": variant(None), "tied-no": variant(None, model=BASE.model | {"tied": False}),
         "smoothing-0.1": variant(None), "smoothing-0.0": variant(None, smoothing=0.0)}
SAME = {"tied-yes": "data-all-large", "smoothing-0.1": "data-all-large"}  # one run, three names


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", default=list(RUNS))
    p.add_argument("--scale", type=float, default=1.0)
    o = p.parse_args()
    torch.set_num_threads(1)
    for name in o.names:
        recipe, first = RUNS[name], SAME.get(name, name)
        epochs = max(1, round(recipe.training.epochs * o.scale))
        recipe = replace(recipe, training=replace(recipe.training, epochs=epochs))
        parts = t.load_parts(recipe.language, recipe.pairs, recipe.words)
        work, kept = ROOT / "runs" / f"exp-{first}", ROOT / "book/results" / f"exp-{name}"
        done = t.train_translator(work, recipe, parts)
        command = f"python tests/bench/experiments.py {name}" + (f" --scale {o.scale:g}" if o.scale != 1 else "")
        if not (work / "run.json").exists():
            t.write_record(work, command, *done, parts, tatoeba_archive(recipe.language))
        kept.mkdir(parents=True, exist_ok=True)
        for file in "run.json", "hypotheses.txt":
            shutil.copyfile(work / file, kept / file)
        print(name, "done", flush=True)


if __name__ == "__main__":
    main()
