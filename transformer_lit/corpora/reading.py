"""Files that people bring are read with a limit, and whatever is wrong with one is a sentence that
names it."""

import errno
import gzip
import io
import json
import lzma
import math
import os
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

LONGEST = 1_000_000  # characters of a line: more is no text of sentences
MOST = (
    1 << 29
)  # bytes of an unpacked text; the largest that the book reads whole has a tenth of them
DAMAGE = (
    EOFError,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
)


@contextmanager
def damage(path: Path, advice: str) -> Iterator[None]:
    "Whatever a broken archive raises becomes a ValueError with `advice`; a missing file stays one."
    try:
        yield
    except (FileNotFoundError, PermissionError):
        raise
    except (
        OSError,
        *DAMAGE,
        NotImplementedError,
        RuntimeError,
    ) as error:  # the last two: a zip with a password or another method
        said = getattr(error, "strerror", None) or error
        raise ValueError(f"{path} can't be read ({said}): {advice}") from None


def small_enough(size: int, path: Path | str, most: int = MOST) -> None:
    """Raises OSError for what would unpack to more than `most` bytes: damaged, or made to fill the
    memory."""
    if size > most:
        raise OSError(f"{path} would unpack to {size:,} bytes, and {most:,} are the most")


def unpacked(file, path: Path, most: int = MOST) -> bytes:
    """All bytes of an open file, which may be packed; raises OSError when there are more than
    `most`."""
    found = file.read(most + 1)
    if len(found) > most:
        raise OSError(f"{path} unpacks to more than {most:,} bytes")
    return found


def zip_text(archive: zipfile.ZipFile, name: str) -> bytes:
    "A member of a zip, after a look at the size that it claims; `read` never gives more than that."
    small_enough(archive.getinfo(name).file_size, name)
    return archive.read(name)


def text_lines(file, name: str, longest: int = LONGEST) -> Iterator[str]:
    """The lines of an open binary file as text, without their ends and without a byte-order mark.

    Raises ValueError for what is no UTF-8, and for a line over `longest` characters."""
    n = 0
    while line := file.readline(
        4 * longest + 2
    ):  # a character has four bytes at most, the end of a line may be two
        n += 1
        if len(line.rstrip(b"\r\n")) <= 4 * longest:
            try:
                text = line.decode("utf-8-sig" if n == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                raise ValueError(
                    f"line {n} of {name} is not UTF-8 text: convert it first"
                ) from None
        if len(line.rstrip(b"\r\n")) > 4 * longest or len(text) > longest:
            raise ValueError(
                f"line {n} of {name} has over {longest:,} characters: put each sentence on a line"
                " of its own"
            )
        if "\0" in text:
            raise ValueError(
                f"{name} is not UTF-8 text, it holds zero bytes as UTF-16 does: convert it first"
            )
        if n == 1 and "\r" in text and not line.endswith(b"\n"):
            raise ValueError(
                f"the lines of {name} end in carriage returns alone: save it with line feeds"
            )
        yield text


def short_lines(file, path: Path, longest: int = LONGEST) -> Iterator[bytes]:
    """The lines of an open binary file; a first byte-order mark goes. ValueError for a line over
    `longest` bytes."""
    n, mark = 0, b"\xef\xbb\xbf"
    while line := file.readline(longest + 2):  # the end of a line may be two bytes
        n += 1
        if len(line.rstrip(b"\r\n")) > longest:
            raise ValueError(
                f"line {n} of {path} has over {longest:,} bytes: is it a text with a sentence on"
                " each line?"
            )
        yield line.removeprefix(mark) if n == 1 else line


def parsed(
    text: str | bytes,
    where: str,
    kind: type = dict,
    advice: str = "put a whole one in its place",
    infinite: bool = False,
):
    """JSON of one kind; ValueError for anything else, nan and huge numbers included. infinite:
    Infinity is one."""

    def constant(name: str):
        if infinite and name == "Infinity":
            return math.inf
        raise ValueError(f"{name} is no number")

    def finite(digits: str) -> float:
        value = float(digits)
        return value if math.isfinite(value) else constant(digits[:20])

    try:
        found = json.loads(text, parse_constant=constant, parse_float=finite)
    except (ValueError, RecursionError) as error:
        said = " ".join(str(error).split())[:100]
        raise ValueError(f"{where} is not valid JSON ({said}): {advice}") from None
    if not isinstance(found, kind):
        wanted = "an object" if kind is dict else "a list" if kind is list else kind.__name__
        raise ValueError(f"{where} holds JSON, and not {wanted}: {advice}")
    return found


def json_file(
    path: Path,
    kind: type = dict,
    advice: str = "put a whole one in its place",
    most: int = 1 << 28,
    infinite: bool = False,
):
    """The JSON in a file, checked; ValueError names the file. A missing file stays
    FileNotFoundError."""
    small_enough(path.stat().st_size, path, most)
    return parsed(path.read_bytes(), str(path), kind, advice, infinite)


def fields(
    record: dict,
    path: Path | str,
    kinds: Mapping[str, type | tuple],
    advice: str = "put a whole one in its place",
) -> dict:
    """The record, if each of `kinds` is there and of its kind. ValueError names the file and the
    field."""
    for name, kind in kinds.items():
        value = record.get(name) if isinstance(record, dict) else None
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"{path} has no usable {name!r}: {advice}")
    return record


def standard_input():
    "Standard input as bytes, so that no locale decides what they mean. ValueError if it is closed."
    if sys.stdin is None:
        raise ValueError("there is no standard input: type a sentence, or give --file")
    return getattr(sys.stdin, "buffer", None) or io.BytesIO(
        sys.stdin.read().encode("utf-8", "surrogatepass")
    )


def readable_text(path: Path) -> Path:
    """The path, if a file lies there that can be opened; OSError now and not after a model was
    loaded. It is not opened: it may be a pipe."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.stat()
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return path
