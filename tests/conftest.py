"""How the tests run: one thread (make test JOBS=1 THREADS=2: two), few examples, always the same
ones; and which of them are fast.

`pytest tests --fast` takes under a minute on two idle cores. It leaves out what is slow, and what
takes seconds: tests in SECONDS_FILES, with a browser, or with subprocess, named by the test or by a
helper (these get their mark here), and single ones marked by hand. With --fast a test fails that
starts a program or takes too long, and so does the run when its sum grows."""

import inspect
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from time import process_time  # some tests turn the clock of `time`

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import pytest
import torch
from hypothesis import HealthCheck, Phase, settings

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

pytest_plugins = ["plugins.corpus", "plugins.server", "plugins.commands", "plugins.pages"]

FOLDER = str(Path(__file__).resolve().parent)
TEST_SECONDS, LAYER_SECONDS = (
    3,
    90,
)  # of processor time, in the fast layer; a busy machine needs more
# whole commands, trainings and pages
SECONDS_FILES = set(
    """custom_pair doctor engine first_page fuzz inside interrupted mixture paper patients
    prepare serving site try_it wheel wmt""".split()
)

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


# Layers -------------------------------------------------------------------------------------------


def pytest_addoption(parser):
    parser.addoption("--fast", action="store_true", help="a minute, with a limit")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes many seconds; not tried by faults.py")
    config.addinivalue_line("markers", "seconds: left out by make test-fast, as slow ones are")
    if config.option.fast:
        config.option.markexpr = "not slow and not seconds"


def names_in(code):
    yield from code.co_names
    for constant in code.co_consts:
        if inspect.iscode(constant):
            yield from names_in(constant)


def starts_processes(function, visited) -> bool:
    "Does a test, or a function of the tests that it calls, name subprocess?"
    function = inspect.unwrap(getattr(function, "func", function))
    if function in visited or not inspect.isfunction(function):
        return False
    visited.add(function)
    if not function.__code__.co_filename.startswith(FOLDER):
        return False
    values = [function.__globals__.get(name) for name in names_in(function.__code__)]
    return any(
        value is subprocess or inspect.isfunction(value) and starts_processes(value, visited)
        for value in values
    )


def pytest_collection_modifyitems(items):
    for item in items:
        fixtures = [
            fixture.func for each in item._fixtureinfo.name2fixturedefs.values() for fixture in each
        ]
        visited = set()
        is_whole = item.path.stem.removeprefix("test_") in SECONDS_FILES
        if (
            is_whole
            or "browser" in item.fixturenames
            or any(starts_processes(function, visited) for function in [item.function, *fixtures])
        ):
            item.add_marker("seconds")


def no_programs(event, arguments):
    "In a fast test git may tell its commit; nothing else is started."
    if event == "subprocess.Popen" and running and "git" not in str(arguments[:2]):
        raise RuntimeError(f"a fast test starts {arguments[1]}: mark it with seconds")


running: list[str] = []  # the fast test of this process
sys.addaudithook(no_programs)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    "Sizes that don't fit get a sentence, wherever in a model they meet; a fast test is fast."
    is_fast = item.config.option.fast
    running[:] = [item.nodeid] * is_fast
    began = process_time()
    try:
        result = yield
    except RuntimeError as error:
        if "size of tensor" in str(error) or "shapes cannot be multiplied" in str(error):
            error.add_note(
                "Has a mask or a projection lost an axis, or taken the queries' for the keys'? The"
                " first failure in test_parity.py names the mistake."
            )
        raise
    finally:
        running.clear()
        seconds = process_time() - began
        item.user_properties.append(("processor seconds", seconds))
    if is_fast and seconds > TEST_SECONDS:
        pytest.fail(f"{seconds:.1f} seconds: make it shorter, or mark it with seconds")
    return result


def pytest_terminal_summary(terminalreporter, config):
    "The sum of the fast layer, of all workers."
    reports = [report for each in terminalreporter.stats.values() for report in each]
    properties = [p for r in reports if getattr(r, "when", "") == "call" for p in r.user_properties]
    total = sum(seconds for name, seconds in properties if name == "processor seconds")
    if config.option.fast and total > LAYER_SECONDS:
        terminalreporter.line(f"FAILED the fast tests take {total:.0f} s, {LAYER_SECONDS} at most")
        terminalreporter._session.exitstatus = pytest.ExitCode.TESTS_FAILED
