"""How much fits: micro-batches that a device has room for, the most memory that was held, and what
a processor can multiply."""

import contextlib
import math
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

from transformer_lit.training import TrainingConfig, add_gradient
from transformer_lit.runtime.distributed import process


def fits(model: nn.Module, source: Tensor, target: Tensor, config: TrainingConfig) -> bool:
    """Is there memory for a step with these rows, Adam's two means for each weight included? Leaves
    no gradient behind."""
    try:
        means = [torch.empty_like(weight) for weight in model.parameters() for _ in range(2)]
        add_gradient(model, source, target, config)
        return len(means) > 0  # held until here
    except torch.OutOfMemoryError:
        return False
    finally:
        model.zero_grad()


def micro_batches_that_fit(
    model: nn.Module, hardest: Iterable[tuple[Tensor, Tensor]], config: TrainingConfig
) -> int:
    """Into how many micro-batches each batch must be cut to fit this device: 1, 2, 4, ...

    hardest: source (n, S) and target (n, T) of the batches that need most memory. This process
    takes its share of their rows. MemoryError if one row alone has no room."""
    device, (_, world) = next(model.parameters()).device, process()
    parts = 1
    for source, target in hardest:
        while True:
            rows = max(1, math.ceil(len(source) / (world * parts)))
            if fits(model, source[:rows].to(device), target[:rows].to(device), config):
                break
            parts *= 2
            if parts >= 2 * len(source):
                raise MemoryError(
                    "one sentence alone is too much for this device: take a smaller model"
                )
    return parts


def peak_memory_mb() -> dict[str, float]:
    """Most megabytes held so far: by this process, and by its largest worker. Empty on Windows.

    The worker's may include what this process held when it started it."""
    try:
        import resource
    except ImportError:
        return {}
    unit = 1e6 if sys.platform == "darwin" else 1e3
    own, workers = (
        resource.getrusage(who).ru_maxrss / unit
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    with contextlib.suppress(
        OSError
    ):  # Linux counts into ru_maxrss what the process that started this one held
        own = next(
            (
                int(line.split()[1]) / 1e3
                for line in Path("/proc/self/status").read_text().splitlines()
                if line.startswith("VmHWM:")
            ),
            own,
        )
    return {"own_megabytes": round(own), "worker_megabytes": round(workers)}


def matmul_flops(device: torch.device, precision: str = "fp32") -> float:
    "Operations per second in a product of two (n, n) matrices: the best of six tries."
    n = 8192 if device.type == "cuda" else 1024
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    a, best = torch.randn(n, n, device=device, dtype=kind), math.inf
    for _ in range(6):
        began = time.perf_counter()
        a @ a
        if device.type != "cpu":
            torch.get_device_module(device).synchronize()
        best = min(best, time.perf_counter() - began)
    return 2 * n**3 / best
