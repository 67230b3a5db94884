"""What all commands have in common: one sentence for a mistake, and an exit status that a script
can read."""

# 0 done; 1 a mistake that a person can mend, in one sentence on standard error; 2 a wrong option
# (argparse); 75 the time that --minutes gave was up, the same command goes on; 130 Ctrl-C. Anything
# else is a fault in the book and shows its traceback.
import errno
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from transformer_lit.corpora.files import FULL as NO_ROOM

DONE, MISTAKE, LATER, STOPPED = 0, 1, 75, 130
WORDS = {
    errno.ENOENT: "{} is not there",
    errno.EEXIST: "{} is there already",
    errno.EISDIR: "{} is a folder, and a file was asked for",
    errno.ENOTDIR: "{} lies inside a file, and a folder was asked for",
    errno.EACCES: "{} can't be opened: permission denied",
    errno.EPERM: "{} can't be changed: permission denied",
    errno.EROFS: "{} can't be written: the disk is read-only",
    errno.ENAMETOOLONG: "{:.60} … is too long for a file's name",
    errno.ELOOP: "{} is a link that leads to itself",
}
FULL = "the disk is full: make room, and give the same command again"


def sentence(error: BaseException) -> str:
    "What went wrong, in one line that names the file."
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is missing: pip install {error.name}"
    if isinstance(error, MemoryError):
        return str(error) or "there is not enough memory for this"
    if getattr(error, "errno", None) in NO_ROOM:
        return FULL
    if isinstance(error, OSError) and error.filename is not None and error.errno:
        words = WORDS.get(error.errno, "{}: " + (error.strerror or "can't be used").lower())
        return words.format(os.fsdecode(error.filename))
    said = re.sub(r"\[Errno \d+\] ", "", " ".join(str(error).split()))
    return said or type(error).__name__


def guarded(do: Callable[[], int], again: str = "the same command starts again") -> int:
    """Run a command; a mistake is one sentence and status 1, Ctrl-C is 130 and says what happens
    `again`."""

    def flush() -> None:
        if sys.stdout is not None:
            # here a reader that has gone is no fault; at exit Python would show one
            sys.stdout.flush()

    status = DONE
    try:
        try:
            status = do()
        except SystemExit:  # argparse, after --help
            flush()
            raise
        flush()
        return status
    except BrokenPipeError:  # the reader went away: nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return status
    except KeyboardInterrupt as stop:
        print(f"\ntransformer-lit: {str(stop) or 'stopped; ' + again}", file=sys.stderr)
        return STOPPED
    except (OSError, ValueError, MemoryError, ModuleNotFoundError) as error:
        print(f"transformer-lit: {sentence(error)}", file=sys.stderr)
        return MISTAKE
    except RuntimeError as error:
        known = (
            type(error).__name__ == "OutOfMemoryError"
        )  # torch's, which isn't imported for it; elsewhere only its words tell
        if not known and not re.search(
            "out of memory|can't allocate memory|not enough memory", str(error)
        ):
            raise
        print(
            "transformer-lit: there is not enough memory; on a GPU, try --device cpu",
            file=sys.stderr,
        )
        return MISTAKE


def command_again(program: str, options: Mapping[str, object]) -> str:
    """What to type for the same once more: the program, and each option that has a value, or
    several."""
    words = program.split()
    for name, value in options.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        elif isinstance(value, (list, tuple)):
            words += [f"--{option}", *map(str, value)]
        elif value is not None:
            words += [f"--{option}", str(value)]
    return shlex.join(words)


def in_lines(command: str, width: int = 64) -> str:
    """A long command over several lines, to be copied as it stands: broken only before an option,
    which keeps its value."""
    first, *options = re.split(r" (?=--)", command)
    lines = [first]
    for option in options:
        if len(lines[-1]) + len(option) + 3 > width:
            lines.append(f"    {option}")
        else:
            lines[-1] += f" {option}"
    return " \\\n".join(lines)


def folder_or_new(path: Path) -> Path:
    "Raises OSError unless `path` is a folder or could become one."
    for part in (path, *path.parents):
        if part.is_dir():
            return path
        if part.exists() or part.is_symlink():
            raise NotADirectoryError(f"{part} is a file, and a folder was asked for")
    return path


def may_write(folder: Path) -> Path:
    "Raises OSError unless `folder` is one that can be written into, or could become one."
    there = next(
        part
        for part in (folder_or_new(folder).absolute(), *folder.absolute().parents)
        if part.is_dir()
    )
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(there))
    return folder


def new_folder(folder: Path) -> Path:
    "Raises OSError unless nothing stands there and something could."
    folder_or_new(folder.parent)
    if folder.is_symlink() or folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is not empty: name a new folder")
    return folder


@contextmanager
def nothing_left(folder: Path, worth: str) -> Iterator[None]:
    """What fails inside leaves no new `folder` behind, nor the folders above it that were made for
    it.

    worth: the file in it that makes it worth keeping, because the next call goes on there."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        if new and not (folder / worth).exists():
            shutil.rmtree(folder, ignore_errors=True)
            for path in new[1:]:
                try:
                    path.rmdir()  # only what is empty
                except OSError:
                    break
        raise
