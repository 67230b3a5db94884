"""The matrix-product throughput of a device (FLOP/s)."""

import torch
from torch.utils.benchmark import Timer


def matmul_flops(device: torch.device, precision: str) -> float:
    "Operations per second in a product of two (n, n) matrices: the best of six tries."
    n = 8192 if device.type == "cuda" else 1024
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    a = torch.randn(n, n, device=device, dtype=kind)
    timer = Timer("a @ a", globals={"a": a}, num_threads=torch.get_num_threads())
    return 2 * n**3 / min(timer.timeit(1).mean for _ in range(6))
