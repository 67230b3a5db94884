"""Which numbers to compute with, weights in fewer bits, and what those bits cost."""

# bf16 has the range of fp32 and eight bits of mantissa. It pays on processors that multiply it by
# themselves: NVIDIA's from compute capability 8.0 on, those with AMX (Intel) or AVX-512's bf16
# products (AMD from Zen 4 on). Elsewhere it is imitated, and slower.
#
# int8 is for the file alone: each row of a matrix has its own step s = max|w| / 127 and is kept as
# round(w / s), so that no weight
# moves by more than s / 2. One step for the whole matrix would lose the rows with small weights
# beside one row with large ones.
import torch
from torch import Tensor, nn

from transformer_lit.masks import PAD
from transformer_lit.runs.checkpoints import fill_weights, named_tensors
from transformer_lit.training import collate, validation_loss

MANY = 128  # rows from which bf16 pays, found by trying: 32 sentences, beam 4
PRECISIONS = "fp32", "bf16", "int8"


def precision_here(device: str = "cpu") -> str:
    """bf16 on a machine that has instructions for its products and may use them
    (ATEN_CPU_CAPABILITY can forbid it), else fp32."""
    if device == "cuda":
        new = torch.cuda.get_device_capability() >= (8, 0)
        return "bf16" if new else "fp32"
    if device != "cpu":
        return "fp32"
    asked = [
        getattr(torch.cpu, f"_is_{name}_supported", None) for name in ("amx_tile", "avx512_bf16")
    ]
    wide = torch.backends.cpu.get_cpu_capability() not in ("DEFAULT", "AVX2")
    return "bf16" if wide and any(supported and supported() for supported in asked) else "fp32"


def precision_for(model: nn.Module, rows: int) -> str:
    """What is faster for batches of so many rows: bf16 or fp32.

    Every number is converted on its way into a product and out of it. With few rows that takes
    longer than the product saves, so a short list stays in fp32, and its answers are the same on
    every machine."""
    device = next(model.parameters()).device.type
    return precision_here(device) if rows >= MANY else "fp32"


def pack(weights: dict[str, Tensor], precision: str = "int8") -> dict[str, Tensor]:
    """Matrices in fewer bits; vectors stay fp32.

    int8: each row has its own scale, kept in fp32 as name.scale; bf16; fp32. Raises ValueError for
    another precision."""
    if precision not in PRECISIONS:
        raise ValueError(f'precision={precision!r}: choose "fp32", "bf16" or "int8"')
    kept = {}
    for name, weight in weights.items():
        weight = weight.detach().float()
        if not torch.isfinite(weight).all():
            raise ValueError(f"there is nan or inf in {name}: nothing is written")
        if weight.ndim == 2 and precision == "bf16":
            weight = weight.to(torch.bfloat16)
        if weight.ndim == 2 and precision == "int8":
            scale = weight.abs().amax(1, keepdim=True) / 127  # (rows, 1)
            scale = scale.clamp(min=torch.finfo(torch.float32).tiny)  # a row of zeros
            weight = (weight / scale).round().to(torch.int8)
            kept[name + ".scale"] = scale
        kept[name] = weight.contiguous()
    return kept


def unpack(kept: dict[str, Tensor]) -> dict[str, Tensor]:
    "fp32 again: int8 rows times their scales."
    scales = {name: kept[name] for name in kept if name.endswith(".scale")}
    return {
        name: weight.float() * scales.get(name + ".scale", 1.0)
        for name, weight in kept.items()
        if name not in scales
    }


@torch.no_grad()
def precision_losses(translator, pairs: list[tuple[str, str]]) -> list[dict]:
    """What fewer bits cost on `pairs`: megabytes, largest difference of a logit, held-out loss. The
    translator is left as it was."""
    was_training, model, rows = translator.model.training, translator.model.eval(), []
    full = {name: weight.clone() for name, weight in named_tensors(model).items()}
    ids = translator.encode_pairs(pairs)
    device = next(model.parameters()).device
    source, target = (side.to(device) for side in collate(ids[:32]))
    before = model(source, target)  # (32, T, V)
    for precision in PRECISIONS:
        kept = pack(full, precision)
        fill_weights(model, unpack(kept))
        away = (model(source, target) - before)[target != PAD]
        rows.append(
            {
                "precision": precision,
                "megabytes": sum(t.numel() * t.element_size() for t in kept.values()) / 1e6,
                "logit": away.abs().max().item(),
                "loss": validation_loss(model, ids),
            }
        )
    fill_weights(model, full)
    model.train(was_training)
    return rows
