"""Ctrl-C and SIGTERM are heard between two steps, so that what was trained can be saved first."""
#     with stops.heard() as asked:
#         while not done:
#             step()
#             if asked:
#                 save()
#                 asked.leave(f"stopped at step {n}, saved in {folder}: the same command goes on there")
#
# The handlers only set a flag. They are the main thread's alone (Python has it so; in another thread nothing is changed), and
# the old ones are put back at the end. A second Ctrl-C or SIGTERM acts at once, as it would without all this.
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Asked:
    "True once a stop was asked for."

    def __init__(self):
        self.signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    def leave(self, words: str) -> None:
        "End as the signal would have: KeyboardInterrupt(words), or words on stderr and exit status 143."
        if self.signal == signal.SIGTERM:
            print(words, file=sys.stderr, flush=True)
            raise SystemExit(128 + signal.SIGTERM)
        raise KeyboardInterrupt(words)


@contextmanager
def heard() -> Iterator[Asked]:
    "Yields an `Asked`; where signals can't be heard it stays false."
    asked = Asked()
    before: dict[int, Any] = {}

    def put_back() -> None:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        before.clear()

    def note(number, frame) -> None:
        asked.signal = number
        put_back()  # the next one acts at once
        try:
            os.write(2, b"\nstopping after this step; once more stops at once\n")
        except OSError:  # nobody listens
            pass

    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:  # under nohup-like callers an ignored signal stays ignored
                before[number] = signal.signal(number, note)
    try:
        yield asked
    finally:
        put_back()
