"""How often a mixture should show each kind of text: a small model trained with several temperatures, its loss on every kind.

    python bench/temperature.py --store runs/store-mixture-en-fr      # half an hour on one thread; the same command goes on after a stop

The token store is that of `transformer-lit train --recipe mixture-en-fr`, and only read. A run is chapter 21's tiny model our way,
so many steps with a rate that falls to zero. It is judged by the mean loss on four kinds of held-out text: everyday sentences,
captions, news, and law and manuals, which count as one. All runs of a seed begin with the same weights. That rule was fixed
before the first run.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import mean

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from common import BENCH, command, keep, kept_runs, where  # noqa: E402

from transformer_lit import wmt  # noqa: E402
from transformer_lit.recipes import large, mixture  # noqa: E402
from transformer_lit.runtime.devices import resolve_precision  # noqa: E402
from transformer_lit.corpora.store import TokenStore  # noqa: E402
from transformer_lit.recipes.training_sets import GENERAL  # noqa: E402

TEMPERATURES, SEEDS = (1, 3, 9), (1, 2)


def judged(losses: dict[str, float]) -> float:
    "The mean loss over four kinds: everyday sentences, captions, news, and law and manuals as one."
    general = mean(losses[name] for name in GENERAL if name in losses)
    return mean([*(loss for name, loss in losses.items() if name not in GENERAL), general])


def trained(store: TokenStore, temperature: float, seed: int, steps: int) -> dict:
    "One run, and what it has come to."
    plain = wmt.experiment_for(
        "mixture-en-fr",
        "modern",
        "tiny",
        training=dict(
            max_tokens=2048, warmup=max(1, steps // 10), seed=seed, precision=resolve_precision()
        ),
        steps=steps,
        look_every=steps,
        lines=10,
    )
    e, apart = mixture.MixtureExperiment(**vars(plain), temperature=temperature), store.held_out()
    with tempfile.TemporaryDirectory() as folder:
        translator, trainer, batches = large.build_run(
            e, store, Path(folder), torch.device("cpu")
        )
        trainer.fit(batches)
        kinds = {part[6:]: pairs for part, pairs in apart.items() if part.startswith("valid-")}
        found = large.EvaluationCallback(translator, e, apart["valid"], kinds).evaluate()
    losses = {"news": found["valid_loss"], **found["losses"]}
    return {
        "temperature": temperature,
        "seed": seed,
        "tokens": trainer.tokens,
        "losses": losses,
        "judged": judged(losses),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--store",
        type=Path,
        default=Path("runs/store-mixture-en-fr"),
        help="a token store, only read",
    )
    parser.add_argument("--steps", type=int, default=250, help="of each run (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, default=BENCH / "temperature.json", help="where the record goes"
    )
    o = parser.parse_args()
    torch.set_num_threads(1)
    store = TokenStore(o.store)
    kinds = mixture.kinds_in(store.manifest["counts"])
    head = {
        "command": command(parser, out=None),
        "steps": o.steps,
        "pairs": kinds,
        "tokenizer": store.manifest["tokenizer"],
    }
    runs = kept_runs(o.out, steps=o.steps, pairs=kinds, tokenizer=head["tokenizer"])
    for seed in SEEDS:
        for temperature in TEMPERATURES:
            if not any((run["temperature"], run["seed"]) == (temperature, seed) for run in runs):
                runs.append(
                    trained(store, temperature, seed, o.steps) | {
                        "shares": mixture.sampling_rates(kinds, temperature)
                    }
                )
                keep(o.out, where() | head | {"runs": runs})
                print(
                    f"temperature {temperature}, seed {seed}: {runs[-1]['judged']:.3f} nats per"
                    " token",
                    flush=True,
                )
