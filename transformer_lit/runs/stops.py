"""Ctrl-C, SIGTERM and SIGHUP, a terminal that is closed, are heard between two steps, so that what
was trained can be saved first."""

#     with stops.heard() as asked:
#         while not asked.over(trainer, steps, until):
#             step()
#         save()
#         if asked:
#             asked.leave(n, folder)
#
# The handlers only set a flag. They are the main thread's alone (Python has it so; in another
# thread nothing is changed), and the old ones are put back at the end. A second Ctrl-C or SIGTERM
# acts at once, as it would without all this.
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from transformer_lit.runtime.distributed import largest, process

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # Windows has no SIGHUP


class Asked:
    "True once a stop was asked for."

    def __init__(self):
        self.signal: int | None = None
        self.last: tuple[int, Path | None] | None = (
            None  # step and folder, as the trainer last asked
        )

    def __bool__(self) -> bool:
        return self.signal is not None

    def over(
        self, trainer: Any, steps: int, until: int | Callable[[Any], bool] | None = None
    ) -> bool:
        """Is it time for a trainer to end, for all processes alike?

        It is after `steps`; at the step `until`, or when until(trainer) is true; and when a stop
        was asked for. Of several processes one may have been asked, so they ask each other: at
        every step, on GPUs at every tenth, where asking waits for them."""
        self.last = trainer.step, trainer.folder
        if trainer.step >= steps:
            return True
        if until(trainer) if callable(until) else until is not None and trainer.step >= until:
            return True
        if process()[1] == 1:
            return bool(self)
        device = next(trainer.model.parameters()).device
        return (device.type != "cuda" or trainer.step % 10 == 0) and largest(bool(self), device) > 0

    def leave(self, step: int, folder: Path | None) -> None:
        """Say what was saved, and end as the signal would have: KeyboardInterrupt, or exit status
        143 (SIGHUP: 129) with the words on stderr."""
        words = f"stopped at step {step}, " + (
            f"saved in {folder}: the same command goes on there"
            if folder
            else "nothing is saved, because no folder was given"
        )
        if self.signal is not None and self.signal != signal.SIGINT:
            with suppress(OSError):  # the terminal may be gone
                print(words, file=sys.stderr, flush=True)
            raise SystemExit(128 + self.signal)
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
            if (
                signal.getsignal(number) != signal.SIG_IGN
            ):  # under nohup-like callers an ignored signal stays ignored
                before[number] = signal.signal(number, note)
    try:
        yield asked
    finally:
        put_back()
    if asked and asked.last:  # in the last step, or the look after it
        asked.leave(*asked.last)


# Broken off on purpose ----------------------------------------------------------------------------


class Killed(Exception):
    "A run was broken off by `killed`."


def killed(trainer: Any, batches: Any, step: int) -> None:
    """Fit, and break off after this step as `kill -9` or a power cut would: nothing is saved any
    more."""

    def on_step(trainer: Any) -> None:
        if trainer.step == step:
            raise Killed

    with suppress(Killed):
        trainer.fit(batches, on_step=on_step)
