"""A random search over what chapter 22 holds fixed, with equal trials for every design."""

from dataclasses import replace

import numpy as np

from transformer_lit.comparison import Variant
from transformer_lit.runtime.optimizers import CombinedOptimizer

SPACE = {
    "warmup": (0.0, 0.03, 0.1, 0.3, 0.6, 0.9),
    "dropout": (0.0, 0.1, 0.2, 0.3),
    "label_smoothing": (0.0, 0.1),
    "max_tokens": (512, 1024, 2048),
    "beta2": (0.95, 0.98, 0.99, 0.999),
    "eps": (1e-9, 1e-8, 1e-6),
    "weight_decay": (0.0, 0.03, 0.1, 0.3),
    "layers": (2, 3, 4),  # an RNN has one
    "d_model": (64, 80, 96, 112),
}


def random_setting(number: int) -> dict:
    "A trial's setting, the same for every design; the peak is log-uniform."
    draw = np.random.default_rng(number)
    setting = {key: draw.choice(values).item() for key, values in SPACE.items()}
    return setting | {"peak": 0.0015 * 16 ** draw.random()}


def random_design(setting: dict, base: Variant) -> Variant:
    "A design with a trial's setting, at the same number of parameters; Adam becomes AdamW."
    shape = {"d_ff": 512} | {key: setting[key] for key in ("dropout", "d_model")}
    shape |= dict.fromkeys(("n_encoder_layers", "n_decoder_layers"), setting["layers"])
    return replace(
        base,
        build=lambda vocab_size, sizes, n: base.build(vocab_size, sizes | shape, n),
        optimizer="muon" if base.optimizer == "muon" else "adamw",
        label_smoothing=setting["label_smoothing"],
    )


def set_optimizer(optimizer: CombinedOptimizer, setting: dict) -> None:
    "β₂ and ε of all Adam, weight decay of the hidden matrices."
    for group in optimizer.param_groups:
        if "betas" in group:
            group |= {"betas": (0.9, setting["beta2"]), "eps": setting["eps"]}
    optimizer.parts[0].param_groups[0]["weight_decay"] = setting["weight_decay"]
