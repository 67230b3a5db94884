"""Weights averaged over the ends of epochs, as in the paper (§6.1), beside the weights at each end alone.

    python bench/averages.py ENDS tatoeba-fr

ENDS holds the checkpoint of a training at several ends of epochs, as epoch-N.safetensors (copied while it ran, or kept by a
recipe with `average`). The held-out loss of each end, of means over neighbours and of means with the last go to
NAME's line among the trainings of book/results/runs. A mean of epochs 5 and 6 is compared with epoch 6: that is what averaging does while the rate
is still high. One thread; half a minute each.
"""

import argparse
import sys
from pathlib import Path

import torch
from records import measure

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from transformer_lit.data import load  # noqa: E402
from transformer_lit.recipes import recipes  # noqa: E402
from transformer_lit.runs.checkpoints import load_weights, read_file  # noqa: E402
from transformer_lit.training import validation_loss  # noqa: E402
from transformer_lit.translation import from_pretrained  # noqa: E402


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("ends", type=Path)
    p.add_argument("name", choices=recipes.RECIPES)
    o = p.parse_args()
    torch.set_num_threads(1)
    recipe = recipes.RECIPES[o.name]
    parts = load(recipe.corpus, recipe.language, recipe.words, recipe.pairs)
    translator = from_pretrained(ROOT / "data/checkpoints" / o.name)
    valid = translator.encode_pairs(parts["valid"])
    files = {int(f.stem.split("-")[1]): f for f in o.ends.glob("epoch-*.safetensors")}
    held = {n: read_file(files[n], False) for n in sorted(files)}
    ends, steps = (
        {n: h[0] for n, h in held.items()},
        {n: h[1]["at"]["step"] for n, h in held.items()},
    )
    last = max(ends)
    runs = [[n - k for k in range(many)][::-1] for many in (1, 2, 3) for n in ends]
    groups = [g for g in runs if set(g) <= set(ends)]
    groups += [[last - 2, last]] if last - 1 not in ends and last - 2 in ends else []
    rows = []
    for group in groups:
        load_weights(
            translator.model,
            {name: sum(ends[n][name] for n in group) / len(group) for name in ends[last]},
        )
        rows.append(
            {
                "epochs": group,
                "step": steps[group[-1]],
                "loss": validation_loss(translator.model, valid),
            }
        )
        print(rows[-1], flush=True)
    measure(o.name, averages=rows)


if __name__ == "__main__":
    main()
