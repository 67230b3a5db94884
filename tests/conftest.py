"""How the tests run: one thread (make test JOBS=1 THREADS=2: two), few examples, always the same
ones.

`pytest tests -m "not slow"` takes some minutes on two cores; whatever takes over five seconds is
marked slow."""

import os
import signal
import sys
import threading
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import pytest
import torch
from hypothesis import HealthCheck, Phase, settings

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import chromium  # noqa: E402

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
if (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell has begun us in the background; some tests press Ctrl-C
settings.register_profile(
    "book",
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(  # the first counterexample, not the smallest: that can take minutes
    "first", settings.get_profile("book"), phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("book")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    "Sizes that don't fit get a sentence, wherever in a model they meet."
    try:
        return (yield)
    except RuntimeError as error:
        if "size of tensor" in str(error) or "shapes cannot be multiplied" in str(error):
            error.add_note(
                "Has a mask or a projection lost an axis, or taken the queries' for the keys'? The"
                " first failure in test_parity.py names the mistake."
            )
        raise


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes over five seconds; left out by make test-fast")


@pytest.fixture(scope="module")
def browser():
    """Chromium without a window, which asks nobody on its own; a test that needs it is skipped
    where it is missing."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if chromium.program() is None:
        pytest.skip("no Chromium here: install Debian's package chromium to run the browser checks")
    with chromium.opened() as one:
        yield one
