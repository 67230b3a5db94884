"""Files: what comes with the book, their hashes, and files that are written whole or not at all."""

import hashlib
import errno
import json
import os
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)


def shipped(name: str) -> Path:
    """A file or folder that comes with the book: "results/...", "web/views/..." or "data/...", in a
    checkout and in an installed package."""
    here = Path(str(files("transformer_lit")))
    folder, _, rest = name.partition("/")
    checkout = here.parent / (f"book/{folder}" if folder in ("results", "web") else folder)
    root = here / "_shipped" / folder
    return (root if root.exists() else checkout) / rest


def sha256_file(path: Path | str) -> str:
    """SHA-256 of a file, as 64 hexadecimal digits, read in pieces so that two gigabytes need no
    memory."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def cache_dir() -> Path:
    "Where downloads are kept: $XDG_CACHE_HOME/transformer-lit, or ~/.cache/transformer-lit."
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.path.expanduser(base)) / "transformer-lit"


def write_atomic(path: Path, write: Callable[[Path], object]) -> None:
    """`write` a file beside `path`, then put it in its place at once.

    A stop or a full disk on the way leaves the old file as it was. Raises OSError if the new one
    can't be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        part.touch()
        mode = part.stat().st_mode  # as any new file has it
        write(part)
        part.chmod(mode)
        with part.open("r+b") as file:
            os.fsync(file.fileno())  # on the disk, not on its way there
        os.replace(part, path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if not isinstance(error, Exception):
            raise  # Ctrl-C
        full = getattr(error, "errno", None) in FULL or re.search(
            "No space left|os error 28", str(error)
        )  # safetensors keeps the words alone
        why = "the disk is full" if full else str(error)
        raise OSError(
            f"{path} can't be written{', the old one stands' * path.exists()}: {why}"
        ) from error


def write_text(path: Path, text: str) -> None:
    "A text in UTF-8, whole or not at all."
    write_atomic(path, lambda part: part.write_text(text, "utf-8"))


def write_json(path: Path, record: object, indent: int | None = 1) -> None:
    "A record as JSON with a line feed at its end, whole or not at all."
    write_text(path, json.dumps(record, indent=indent, ensure_ascii=False) + "\n")
