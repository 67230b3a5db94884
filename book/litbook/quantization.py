"""What quantization costs a translation model."""

import torch

from transformer_lit.masks import PAD
from transformer_lit.runs.checkpoints import (
    PRECISIONS,
    dequantize,
    load_weights,
    model_tensors,
    quantize,
)
from transformer_lit.runtime.devices import device_of
from transformer_lit.batching import collate
from transformer_lit.training import validation_loss


@torch.no_grad()
def precision_losses(translator, pairs: list[tuple[str, str]]) -> list[dict]:
    """Megabytes, largest difference of a logit and held-out loss on `pairs`, for each precision.

    The translator is left as it was."""
    was_training, model, rows = translator.model.training, translator.model.eval(), []
    full = {name: weight.clone() for name, weight in model_tensors(model).items()}
    ids = translator.encode_pairs(pairs)
    source, target = (side.to(device_of(model)) for side in collate(ids[:32]))
    exact = model(source, target)  # (32, T, V)
    for precision in PRECISIONS:
        packed = quantize(full, precision)
        load_weights(model, dequantize(packed))
        difference = (model(source, target) - exact)[target != PAD]
        rows.append(
            {
                "precision": precision,
                "megabytes": sum(t.numel() * t.element_size() for t in packed.values()) / 1e6,
                "logit": difference.abs().max().item(),
                "loss": validation_loss(model, ids),
            }
        )
    load_weights(model, full)
    model.train(was_training)
    return rows
