"""The most memory that was held, and what a processor can multiply."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from transformer_lit.runtime import memory


def test_the_best_of_six_products(monkeypatch):
    clock = iter([0, 9, 0, 2, 0, 4, 0, 9, 0, 9, 0, 9])
    with monkeypatch.context() as patch:
        patch.setattr(memory.time, "perf_counter", lambda: next(clock))
        assert memory.matmul_flops(torch.device("cpu")) == 2 * 1024**3 / 2
    assert memory.matmul_flops(torch.device("cpu"), "bf16") > 1e8


def test_memory_that_was_held():
    assert 50 < memory.peak_memory_mb() < 20_000


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux counts what the process before held"
)
def test_a_process_is_not_charged_with_what_started_it():
    """A child of a large process: the operating system's figure for it includes the parent's, ours
    doesn't."""
    held = bytearray(b"x") * 600_000_000  # written, so that it is really held
    child = (
        "from transformer_lit.runtime.memory import peak_memory_mb;"
        " print(peak_memory_mb())"
    )
    found, larger = (
        int(
            subprocess.run(
                [sys.executable, "-c", first + child],
                capture_output=True,
                text=True,
                check=True,
                cwd=Path(__file__).parent.parent,
            ).stdout
        )
        for first in ("", "held = bytearray(b'x') * 600_000_000; ")
    )
    assert len(held) == 600_000_000 and larger > found + 500
