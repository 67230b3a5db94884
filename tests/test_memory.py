"""The most memory that was held, and what a processor can multiply."""

import subprocess
import sys

import pytest


MB = 1_000_000


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux counts what the process before held"
)
def test_a_process_is_charged_with_its_own_memory_alone():
    """A child of a large process: the operating system's figure for it includes the parent's, ours
    doesn't."""
    parents = bytearray(b"x") * (200 * MB)  # written, so that it is really held
    code = "import sys; from transformer_lit.runtime.memory import peak_memory_mb as peak; "
    code += "before = peak(); own = bytearray(b'x') * (100 * 1000000); print(before, peak())"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    before, after = map(int, output.split())
    assert len(parents) == 200 * MB and 90 < after - before < 130
