"""Shipped files, their SHA-256 checksums, and atomic writes."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def shipped(name: str) -> Path:
    """A file or folder that comes with the book: "results/...", "web/views/..." or "data/...", in a
    checkout and in an installed package."""
    folder, _, rest = name.partition("/")
    installed = PACKAGE / "_shipped" / folder
    if installed.exists():
        return installed / rest
    return PACKAGE.parent / (f"book/{folder}" if folder in ("results", "web") else folder) / rest


def sha256_file(path: Path | str) -> str:
    "SHA-256 of a file, as 64 hexadecimal digits, read in pieces."
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def cache_dir() -> Path:
    "Where downloads are kept: $XDG_CACHE_HOME/transformer-lit, or ~/.cache/transformer-lit."
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.path.expanduser(base)) / "transformer-lit"


def write_atomic(path: Path, write: Callable[[Path], object]) -> None:
    """`write` a file beside `path`, then put it in its place at once: whatever goes wrong on the
    way, the old file stands."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")  # of this process alone
    try:
        part.touch()
        mode = part.stat().st_mode  # as any new file has it; safetensors gives it another
        write(part)
        part.chmod(mode)
        os.replace(part, path)
    except Exception as error:
        raise OSError(f"{path} can't be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    "A text in UTF-8, whole or not at all."
    write_atomic(path, lambda part: part.write_text(text, "utf-8"))


def write_json(path: Path, record: object, indent: int | None = 1) -> None:
    "A record as JSON with a line feed at its end, whole or not at all."
    write_text(path, json.dumps(record, indent=indent, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict:
    "The object in a JSON file. ValueError names the file if it holds something else."
    try:
        record = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(record, dict):
        raise ValueError(f"{path} holds JSON, and not an object")
    return record
