"The most memory that was held, and what a processor can multiply."

import contextlib
import math
import sys
import time
from pathlib import Path

import torch


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
    # Linux counts into ru_maxrss what the process that started this one held
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                own = int(line.split()[1]) / 1e3
    return {"own_megabytes": round(own), "worker_megabytes": round(workers)}


def matmul_flops(device: torch.device, precision: str = "fp32") -> float:
    "Operations per second in a product of two (n, n) matrices: the best of six tries."
    n = 8192 if device.type == "cuda" else 1024
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    a, best = torch.randn(n, n, device=device, dtype=kind), math.inf
    for _ in range(6):
        started = time.perf_counter()
        a @ a
        if device.type != "cpu":
            torch.get_device_module(device).synchronize()
        best = min(best, time.perf_counter() - started)
    return 2 * n**3 / best
