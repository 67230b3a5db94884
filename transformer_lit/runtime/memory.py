"""Peak memory, and the matrix-product throughput of a device (FLOP/s)."""

import contextlib
from pathlib import Path

import torch
from torch.utils.benchmark import Timer


def peak_memory_mb() -> int | None:
    "Most megabytes that this process held so far, as Linux counts them; None elsewhere."
    # not ru_maxrss: it counts what the process that started this one held
    with contextlib.suppress(OSError):
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) // 1000
    return None


def matmul_flops(device: torch.device, precision: str) -> float:
    "Operations per second in a product of two (n, n) matrices: the best of six tries."
    n = 8192 if device.type == "cuda" else 1024
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    a = torch.randn(n, n, device=device, dtype=kind)
    timer = Timer("a @ a", globals={"a": a}, num_threads=torch.get_num_threads())
    return 2 * n**3 / min(timer.timeit(1).mean for _ in range(6))
