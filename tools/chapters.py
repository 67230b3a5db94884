"""What the tools do with chapters: name them, and work on several at a time."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def chapters(numbers: list[str]) -> list[Path]:
    "The chapters with these numbers, 03 or 14b; all, when there are none."
    return sorted(
        path
        for path in (ROOT / "book").glob("*_*.ipynb")
        if not numbers or path.stem.split("_")[0] in numbers
    )


def run_each(paths: list[Path], work: Callable[[Path], tuple[str, str]], at_once: int) -> None:
    'Prints what came of each, and ends with 1 if that was "FAILED" for one of them.'
    failed = 0
    with ThreadPoolExecutor(at_once) as pool:
        for path, (what, details) in zip(paths, pool.map(work, paths)):
            print(f"{path.stem}: {what} {details}", flush=True)
            failed += what == "FAILED"
    print(f"{len(paths) - failed} passed, {failed} failed")
    sys.exit(bool(failed))
