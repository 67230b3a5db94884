"""A sign of life: a bar on a terminal, a line each half minute everywhere else."""
# Output goes to standard error, so that a pipe or a file of translations stays clean. Off a terminal a small thread writes the
# lines, because one step can take longer than half a minute.
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

EVERY = 30.0  # seconds between two lines


def duration(seconds: float) -> str:
    "75 -> '1 min 15 s'; hours where there are any."
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


class Lines:
    "What stands in for the bar off a terminal: counts, and writes a line every `EVERY` seconds until it is closed."

    def __init__(self, total: int | None, what: str, done: int = 0):
        self.total, self.what, self.done, self.first, self.more = total, what, done, done, ""
        self.began, self.over, self.out = time.monotonic(), threading.Event(), sys.stderr
        self.thread = threading.Thread(target=self.write, daemon=True)
        self.thread.start()

    def line(self) -> str:
        spent, new = time.monotonic() - self.began, self.done - self.first
        of = f" of {self.total:,}" if self.total else ""
        left = f", about {duration(spent / new * (self.total - self.done))} left" if new and self.total else ""
        return f"{self.what}: {self.done:,}{of}{self.more and ', ' + self.more}, {duration(spent)}{left}"

    def write(self) -> None:
        while not self.over.wait(EVERY):
            try:
                print(self.line(), file=self.out, flush=True)
            except (OSError, ValueError):  # nobody listens any more
                return

    def update(self, n: int = 1) -> None:
        self.done += n

    def set_postfix_str(self, text: str, refresh: bool = False) -> None:
        self.more = text

    def close(self) -> None:
        self.over.set()
        self.thread.join()


@contextmanager
def bar(total: int | None, what: str, done: int = 0, quiet: bool = False):
    """Something with `update(n)` and `set_postfix_str(text)`: a bar on a terminal, else lines.

    quiet: nothing is shown, for all processes but the first."""
    if quiet or sys.stderr.isatty():
        shown = tqdm(total=total, initial=done, desc=what, leave=False, disable=quiet)
    else:
        shown = Lines(total, what, done)
    try:
        yield shown
    finally:
        shown.close()


def progress(iterable: Iterable, total: int | None = None, what: str = "", done: int = 0, quiet: bool = False) -> Iterator:
    "The same items, counted where a person can see it; `what` is the word in front."
    if total is None and hasattr(iterable, "__len__"):
        total = len(iterable)
    with bar(total, what, done, quiet) as shown:
        for item in iterable:
            yield item
            shown.update()
