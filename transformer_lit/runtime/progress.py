"""Progress that shows everywhere: a bar on a terminal, a plain line each half minute in a log."""

#     with progress.bar(len(batches), "epoch 3", unit="step") as bar:
#         for batch in batches:
#             ...
#             bar.update(note="loss 2.345")
#
# A notebook gets nothing: its page keeps what a cell prints, and there the log is better company.
import sys
import time
from contextlib import suppress
from typing import TextIO

from tqdm import tqdm

EVERY = 30.0  # seconds


def tell(*lines: str, file: TextIO | None = None) -> None:
    """Lines on standard output, or on `file`. That nobody reads them any more, or that their disk
    is full, is no reason to end a training."""
    with suppress(OSError):
        print(*lines, sep="\n", file=file, flush=True)


def terminal() -> bool:
    return bool(getattr(sys.stderr, "isatty", lambda: False)())


class Lines:
    "What `bar` gives where there is no terminal."

    def __init__(self, total: int | None, name: str, unit: str, done: int = 0, quiet: bool = False):
        self.total, self.name, self.unit, self.done, self.quiet = total, name, unit, done, quiet
        self.first, self.began = done, time.monotonic()
        self.told = self.began

    def update(self, n: int = 1, note: str = "") -> None:
        self.done += n
        now = time.monotonic()
        if not self.quiet and now - self.told >= EVERY:
            self.told = now
            tell(self.line(now, note), file=sys.stderr)

    def line(self, now: float, note: str) -> str:
        "epoch 3: 120 of 700 steps, 2.4 per second, 4 minutes left, loss 2.345"
        rate = (self.done - self.first) / max(now - self.began, 1e-9)
        said = [
            f"{self.name}: {self.done:,}"
            + (f" of {self.total:,}" if self.total else "")
            + f" {self.unit}s",
            f"{rate:.2g} per second" if rate < 10 else f"{rate:,.0f} per second",
        ]
        if self.total and rate:
            said.append(f"{(self.total - self.done) / rate / 60:.0f} minutes left")
        return ", ".join(said + [note] * bool(note))

    def close(self) -> None:
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None:
        self.close()


class Bar(tqdm):
    "tqdm, with the note beside it."

    def update(self, n: int = 1, note: str = "") -> None:
        if note:
            self.set_postfix_str(note, refresh=False)
        super().update(n)


def bar(
    total: int | None,
    name: str,
    unit: str = "step",
    done: int = 0,
    quiet: bool = False,
    delay: float = 0.0,
):
    """A context with `update(n=1, note="")`; it stands at `done` of `total`.

    quiet: nothing is shown. On a terminal the bar comes after `delay` seconds and is wiped away at
    the end."""
    if terminal() and not quiet:
        return Bar(total=total, initial=done, desc=name, unit=unit, leave=False, delay=delay)
    return Lines(total, name, unit, done, quiet or "ipykernel" in sys.modules)
