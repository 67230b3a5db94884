"""Parallel text as it comes: plain, .gz, .xz, or one file a language inside a tar. Read as a
stream, nothing kept."""

# A line ends at the newline byte and nowhere else: Python's own idea of a line also ends at
# characters that stand inside sentences of Common Crawl, and one such character would shift
# everything below it.
import errno
import gzip
import io
import json
import lzma
import math
import os
import re
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice, zip_longest
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


TextPair = tuple[str, str]  # English, other
TEXTS = (".tsv", ".tsv.gz", ".tsv.xz", ".txt", ".txt.gz", ".txt.xz")


@dataclass(frozen=True)
class TextSource:
    "One stream of pairs: its name, the files behind it, and a way to begin reading from the start."

    name: str
    files: tuple[Path, ...]
    read: Callable[[], Iterable[TextPair]]


def open_text(path: Path):
    "A text as it stands, or unpacked from .gz or .xz, as an open binary file."
    if path.suffix == ".gz":
        return gzip.open(path, "rb")
    if path.suffix == ".xz":
        return lzma.open(path, "rb")
    return open(path, "rb")


def readable(path: Path) -> AbstractContextManager[None]:
    "Whatever is wrong with `path` while it is read becomes a ValueError of one sentence."
    return damage(path, "is it packed as its name says? Rename it, or put a whole one in its place")


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text, without their ends. A byte that is no UTF-8 becomes U+FFFD: cleaning
    counts it."""
    with readable(path), open_text(path) as file:
        for line in short_lines(file, path):
            yield line.decode("utf-8", "replace").rstrip("\r\n")


def read_columns(path: Path) -> Iterator[TextPair]:
    """English<TAB>other, a line for each pair; further columns are dropped.

    A byte that is no UTF-8 becomes U+FFFD, and a line without a tab has an empty other side:
    cleaning counts both."""
    for text in read_lines(path):
        english, _, rest = text.partition("\t")
        yield english, rest.partition("\t")[0]


NUMBER = re.compile(
    r"[-+]?\d+([.,:]\d+)*(e[-+]?\d+)?", re.I
)  # a line's number, or a score of its pair


def must_be_text(lines: Sequence[str], file: Path) -> None:
    """ValueError for zero bytes in the first thousand lines, and for lines that end in carriage
    returns alone."""
    if any("\0" in line for line in lines[:1000]):
        raise ValueError(
            f"{file}: this is not UTF-8 text, it holds zero bytes as UTF-16 and zip files do:"
            " convert or unpack it first"
        )
    if 2 * sum("\r" in line for line in lines) > len(lines) > 0:
        raise ValueError(
            f"the lines of {file} end in carriage returns alone: save it with line feeds"
        )


def must_be_sentences(pairs: Sequence[TextPair], named: str) -> None:
    "ValueError if the first side is numbers, or a tenth of the lines isn't UTF-8."
    if 2 * sum(bool(NUMBER.fullmatch(one.strip())) for one, _ in pairs) > len(pairs) > 0:
        raise ValueError(
            f"the first column of {named} holds numbers: keep the two columns of sentences alone,"
            " as cut -f2,3 or cut -f2,4 does"
        )
    garbled = sum("\ufffd" in one + other for one, other in pairs)
    if 10 * garbled > len(pairs):
        raise ValueError(
            f"{named}: {garbled:,} of {len(pairs):,} lines are not UTF-8 text: convert it first"
        )


def require_two_columns(pairs: Sequence[TextPair], file: Path) -> None:
    """ValueError unless these lines of a file, as `read_columns` gave them, are two columns of
    sentences."""
    must_be_text([f"{one}\t{other}" for one, other in pairs], file)
    if pairs and not any(second for _, second in pairs):
        raise ValueError(
            f"{file} has no second column: a line is a sentence, a tab and its translation"
        )
    must_be_sentences(pairs, str(file))


def folder_sources(folder: Path) -> list[TextSource]:
    """Every file of `English<TAB>other` lines in a folder, in the order of their names. ValueError
    if there is none, or one begins otherwise."""
    found = [path for path in sorted(folder.iterdir()) if path.name.endswith(TEXTS)]
    if not found:
        raise ValueError(f"{folder} holds no file that ends in one of {', '.join(TEXTS)}")
    for path in found:
        require_two_columns(list(islice(read_columns(path), 1000)), path)
    return [TextSource(path.name, (path,), partial(read_columns, path)) for path in found]


def member_lines(path: Path, name: str) -> Iterator[str]:
    """The lines of one text of a tar, whatever folder of the tar it stands in. ValueError if it
    isn't there.

    A tar that is packed as a whole can't be entered in the middle, so it is read from the front,
    and what isn't wanted goes by. A text that is packed once more inside, as `name`.gz, is
    unpacked."""
    with readable(path), tarfile.open(path, "r|*") as archive:
        for member in archive:
            if not member.isfile() or Path(member.name).name not in (name, name + ".gz"):
                continue
            text = archive.extractfile(member)
            assert text is not None  # a file has content
            for line in short_lines(gzip.open(text) if member.name.endswith(".gz") else text, path):
                yield line.decode("utf-8", "replace")
            return
    raise ValueError(f"{path} holds no {name}: delete it and get the archive again")


def two_members(path: Path, text: str, language: str) -> Iterator[TextPair]:
    """English and the other language of a text of a tar, line by line; the archive is opened twice.

    ValueError if one side ends before the other: a line is missing somewhere, and no pair can be
    trusted."""
    english, other = (member_lines(path, f"{Path(text).name}.{side}") for side in ("en", language))
    for one, two in zip_longest(english, other):
        if one is None or two is None:
            raise ValueError(
                f"{path}: one side of {text} ends before the other, so no line can be trusted"
            )
        yield one, two


def check_archive(path: Path) -> None:
    """Raises OSError unless a .tgz unpacks to its end, where its checksum stands, and a .tar lists
    to its end and holds a file."""
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        if packed:
            with gzip.open(path) as unpacked:
                while unpacked.read(1 << 20):
                    pass
        with tarfile.open(path, "r|*") as archive:
            if not any(member.isfile() for member in list(archive)):
                raise OSError("there is no file in the archive")
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise OSError(f"what came is no whole archive: {error}") from None


def take_evenly(items: Sequence, n: int) -> list:
    "At most `n`, evenly over the whole list."
    step = max(1.0, len(items) / max(n, 1))
    return [items[int(k * step)] for k in range(min(n, len(items)))]
