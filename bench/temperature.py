"""How often a mixture should show each kind of text: a small model trained with several
temperatures, its loss on every kind.

    python bench/temperature.py --store runs/store-mixture-en-fr      # half an hour on one thread;
                                                          # the same command goes on after a stop

The token store is that of `transformer-lit train --recipe mixture-en-fr`, and only read. A run is
chapter 21's tiny model our way, so many steps with a rate that falls to zero. It is judged by the
mean loss on four kinds of held-out text: everyday sentences, captions, news, and law and manuals,
which count as one. All runs of a seed begin with the same weights. That rule was fixed before the
first run."""

import tempfile
from itertools import product
from pathlib import Path
from statistics import mean

import torch
from common import BENCH, Record, options

from transformer_lit import wmt
from transformer_lit.corpora.store import TokenStore
from transformer_lit.recipes import large, mixture
from transformer_lit.recipes.training_sets import GENERAL
from transformer_lit.runtime.devices import resolve_precision

TEMPERATURES, SEEDS = (1, 3, 9), (1, 2)


def judged(losses: dict[str, float]) -> float:
    "The mean loss over four kinds: everyday sentences, captions, news, and law and manuals as one."
    general = mean(losses[name] for name in GENERAL if name in losses)
    return mean([*(loss for name, loss in losses.items() if name not in GENERAL), general])


def trained(store: TokenStore, temperature: float, seed: int, steps: int) -> dict:
    "One run, and its losses."
    warmup, precision = max(1, steps // 10), resolve_precision()
    training = dict(max_tokens=2048, warmup_steps=warmup, seed=seed, precision=precision)
    plain = wmt.build_experiment(
        *("mixture-en-fr", "modern", "tiny"),
        training=training,
        max_steps=steps,
        eval_every=steps,
        n_eval_sentences=10,
    )
    e = mixture.MixtureExperiment(**vars(plain), temperature=temperature)
    held_out = store.held_out()
    kinds = {part[6:]: pairs for part, pairs in held_out.items() if part.startswith("valid-")}
    with tempfile.TemporaryDirectory() as folder:
        run = large.build_run(e, store, Path(folder), torch.device("cpu"))
        translator, trainer, batches = run
        trainer.fit(batches)
    found = large.EvaluationCallback(translator, e, held_out["valid"], kinds).evaluate()
    losses = {"news": found["valid_loss"], **found["losses"]}
    return {
        "temperature": temperature,
        "seed": seed,
        "tokens": trainer.n_labels,
        "losses": losses,
        "judged": judged(losses),
    }


def main():
    out = BENCH / "temperature.json"
    o = options(__doc__, store=Path("runs/store-mixture-en-fr"), steps=250, out=out)
    store = TokenStore(o.store)
    kinds = mixture.kinds_in(store.manifest["counts"])
    tokenizer = store.manifest["tokenizer"]
    record = Record(o.out, steps=o.steps, pairs=kinds, tokenizer=tokenizer)
    runs = record.resume()
    # a stopped command goes on after the last run that it recorded
    for seed, temperature in list(product(SEEDS, TEMPERATURES))[len(runs) :]:
        shares = mixture.sampling_rates(kinds, temperature)
        runs.append(trained(store, temperature, seed, o.steps) | {"shares": shares})
        print(f"temperature {temperature}, seed {seed}: {runs[-1]['judged']:.3f} nats a token")
        record.write()


if __name__ == "__main__":
    main()
