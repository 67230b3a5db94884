"""One folder has one training: a lock that a dead process doesn't keep."""

# The lock belongs to the operating system, which frees it when the process ends, however it ends.
# The file stays behind empty and means nothing by itself. Where a file system knows no locks (some
# network drives), the training runs without one.
import errno
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transformer_lit.runtime.distributed import process

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

NAME = ".training.lock"
TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)
held: dict[Path, int] = {}  # folder -> the thread of this process that trains there


def take(file) -> None:
    "OSError if another has it."
    if sys.platform == "win32":
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def only_training(folder: str | Path | None) -> Iterator[None]:
    """Nobody else trains in `folder` meanwhile; None needs no lock. The folder is made if it isn't
    there.

    The first of several processes holds it for all. The same thread may ask again, inside. Raises
    BlockingIOError with one sentence if the folder is taken."""
    if folder is None or process()[0]:
        yield
        return
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    key, me = folder.resolve(), threading.get_ident()
    if held.get(key) == me:
        yield
        return
    with open(folder / NAME, "a+b") as file:
        try:
            take(file)
        except OSError as error:
            if error.errno in TAKEN:
                raise BlockingIOError(
                    f"another training is at work in {folder}: let it end, or use another folder"
                    " (--folder)"
                ) from None
        held[key] = me
        try:
            yield
        finally:
            del held[key]  # closing the file frees it
