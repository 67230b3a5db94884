"""What the tools do with chapters: name them, and work on several at a time."""

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def chapters(numbers: Iterable[str]) -> list[Path]:
    "The chapters whose names begin with one of the numbers; all, when there are none."
    paths, begins = sorted((ROOT / "book").glob("[0-9]*.ipynb")), tuple(numbers) or ""
    return [path for path in paths if path.name.startswith(begins)]


def run_each(paths: list[Path], work: Callable[[Path], tuple[str, str]], at_once: int) -> None:
    'Prints what came of each, and ends with 1 if that was "FAILED" for one of them.'
    failed = 0
    with ThreadPoolExecutor(at_once) as pool:
        for path, (what, details) in zip(paths, pool.map(work, paths)):
            print(f"{path.stem}: {what} {details}", flush=True)
            failed += what == "FAILED"
    print(f"{len(paths) - failed} passed, {failed} failed")
    sys.exit(bool(failed))
