"""Progress bars: on a terminal; in a log, one line each half minute."""

import sys

from tqdm import tqdm


def tell(*lines: str) -> None:
    "Lines on standard output, at once."
    print(*lines, sep="\n", flush=True)


def bar(
    total: int | None,
    name: str,
    unit: str = "step",
    quiet: bool = False,
    delay: float = 0.0,
) -> tqdm:
    """A context with `update(n=1)`; it comes after `delay` seconds and goes at the end. quiet:
    nothing is shown; nor in a notebook, whose page keeps what it prints."""
    terminal = sys.stderr.isatty()
    every = 0.1 if terminal else 30
    return tqdm(
        total=total,
        desc=name,
        unit=unit,
        leave=False,
        delay=max(delay, 0 if terminal else every),
        mininterval=every,
        maxinterval=every,
        disable=quiet or not terminal and "ipykernel" in sys.modules,
    )
