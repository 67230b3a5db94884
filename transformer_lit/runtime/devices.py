"""Device, precision and attention kernels: decided here, and nowhere else."""

# bf16 has the range of fp32 and eight bits of mantissa. It pays on processors that multiply it by
# themselves: NVIDIA's from compute capability 8.0 on, those with AMX (Intel) or AVX-512's bf16
# products (AMD from Zen 4 on). Elsewhere it is imitated, and slower.
from collections.abc import Callable
from functools import cache, wraps

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

MANY_ROWS = 128  # from here on bf16 pays, found by trying: 32 sentences, beam 4
# Kernels of attention that take any length as they are. cuDNN's plans each new shape, in some tens
# of milliseconds, and decoding has a new length at each step.
ANY_LENGTH = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def default_device(name: str = "auto") -> torch.device:
    """The device of this name; "auto" is NVIDIA's GPU where there is one, else the processor.

    ValueError with one sentence if there is none."""
    available = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if name == "auto":
        name = "cuda" if available["cuda"] else "cpu"
    if not available[name]:
        raise ValueError(
            f"PyTorch sees no {'NVIDIA' if name == 'cuda' else 'Apple'} GPU on this machine: leave"
            f" --device {name} out, or take --device cpu"
        )
    return torch.device(name)


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def supports_bf16(device: str | torch.device = "cpu") -> bool:
    "Has it instructions for products in bf16, and may use them (ATEN_CPU_CAPABILITY forbids some)?"
    kind = torch.device(device).type
    if kind == "cuda":
        return torch.cuda.get_device_capability() >= (8, 0)
    if kind != "cpu" or torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2"):
        return False
    # PyTorch has no public name for these questions
    checks = (getattr(torch.cpu, f"_is_{k}_supported", None) for k in ("amx_tile", "avx512_bf16"))
    return any(check and check() for check in checks)


def resolve_precision(
    precision: str = "auto", device: str | torch.device = "cpu", rows: int = MANY_ROWS
) -> str:
    """ "fp32" or "bf16": what is asked for; for "auto" what is faster there.

    rows: how many a batch has. Every number is converted on its way into a product and out of it,
    which with few rows takes longer than the product saves."""
    if precision != "auto":
        return precision
    return "bf16" if rows >= MANY_ROWS and supports_bf16(device) else "fp32"


def decoding_precision(device: torch.device) -> str:
    "For test sets: bf16 on a GPU that has it, else fp32, with the same answers on any machine."
    return resolve_precision("auto", device) if device.type == "cuda" else "fp32"


def autocast(device: torch.device, precision: str) -> torch.autocast:
    "Products in bf16 inside the block; with fp32 nothing changes."
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


@cache
def compiled(f: Callable) -> Callable:
    "The one compiled form of `f`, with one graph for all shapes from the first one on."
    return torch.compile(f, dynamic=True)


def compile_model(model: nn.Module) -> None:
    "Compile what a training step calls, `encode` and `hidden_states`; evaluation stays as it is."

    def dispatch(eager: Callable) -> Callable:
        return lambda *args: (compiled(eager) if model.training else eager)(*args)

    model.encode, model.hidden_states = map(dispatch, (model.encode, model.hidden_states))


def evaluation_mode(f: Callable) -> Callable:
    """A decorator: `f(model, ...)` without gradients, dropout and cuDNN's attention;
    afterwards the model is in its mode again, even if `f` raised. A model that is no module has no
    mode."""

    @wraps(f)
    def evaluate(model, *args, **kwargs):
        training = getattr(model, "training", False)
        if training:
            model.eval()
        try:
            with torch.no_grad(), sdpa_kernel(ANY_LENGTH):
                return f(model, *args, **kwargs)
        finally:
            if training:
                model.train()

    return evaluate
