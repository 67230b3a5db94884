"""Parallel text from plain, .gz and .xz files or a tar, read as a stream, with limits; whatever
is wrong with a file is one sentence that names it."""

# A line ends at the newline byte and nowhere else: Python's own idea of a line also ends at
# characters that stand inside sentences of Common Crawl, and one such character would shift
# everything below it.
import gzip
import lzma
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

TextPair = tuple[str, str]  # English, other
Pairs = list[TextPair]
Splits = dict[str, Pairs]  # "train", "valid", "test"
TEXTS = (".tsv", ".tsv.gz", ".tsv.xz", ".txt", ".txt.gz", ".txt.xz")
# marks of direction and byte order, soft hyphens: a program sees them, and nobody else
INVISIBLE = re.compile("[\u00ad\u200b\ufeff\u200e\u200f\u202a-\u202e\u2066-\u2069]")
MAX_LINE = 1_000_000  # bytes: more is no text of sentences
MAX_TEXT = 1 << 29  # bytes unpacked; the largest that the book reads whole has a tenth of them


class TextSource(NamedTuple):
    "One stream of pairs: its name, the files behind it, and a way to begin reading from the start."

    name: str
    files: Sequence[Path]
    read: Callable[[], Iterable[TextPair]]


# Packed files -------------------------------------------------------------------------------------


@contextmanager
def damage(path: Path, advice: str) -> Iterator[None]:
    "Whatever a broken archive raises becomes a ValueError with `advice`; a missing file stays one."
    try:
        yield
    except (FileNotFoundError, PermissionError):
        raise
    except Exception as error:  # each kind of archive has its own
        raise ValueError(f"{path} can't be read ({error}): {advice}") from None


def read_all(file, path: Path, max_bytes: int = MAX_TEXT) -> bytes:
    "All bytes of an open file, which may be packed. OSError if there are more than `max_bytes`."
    content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(f"{path} unpacks to more than {max_bytes:,} bytes")
    return content


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    "A member of a zip, after a look at the size that it claims; `read` never gives more than that."
    size = archive.getinfo(name).file_size
    if size > MAX_TEXT:
        raise OSError(f"{name} would unpack to {size:,} bytes, and {MAX_TEXT:,} are the most")
    return archive.read(name)


def check_archive(path: Path) -> None:
    "ValueError unless a tar, packed or not, is whole to its end and holds a file."
    with damage(path, "delete it"), open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        with gzip.open(file) if packed else file as unpacked:
            with tarfile.open(fileobj=unpacked, mode="r|") as archive:
                if not any(member.isfile() for member in list(archive)):
                    raise OSError("there is no file in it")
            while unpacked.read(1 << 20):  # to the end, where gzip's checksum stands
                pass


# Lines --------------------------------------------------------------------------------------------


def open_text(path: Path):
    "A text as it stands, or unpacked from .gz or .xz, as an open binary file."
    openers: dict[str, Callable] = {".gz": gzip.open, ".xz": lzma.open}
    return openers.get(path.suffix.lower(), open)(path, "rb")


def text_lines(file) -> Iterator[str]:
    """The lines of an open binary file, without their ends and without a byte-order mark.

    A byte that is no UTF-8 becomes U+FFFD, and cleaning counts it. Of a line that is too long to be
    a sentence only the beginning is read; cleaning counts that, too."""
    codec = "utf-8-sig"
    while line := file.readline(MAX_LINE):
        yield line.decode(codec, "replace").rstrip("\r\n")
        codec = "utf-8"
        while len(line) == MAX_LINE and line[-1:] != b"\n":
            line = file.readline(MAX_LINE)


def read_lines(path: Path) -> Iterator[str]:
    "The lines of a text, plain, .gz or .xz; a byte that is no UTF-8 becomes U+FFFD."
    advice = "is it packed as its name says? Rename it, or put a whole one in its place"
    with damage(path, advice), open_text(path) as file:
        yield from text_lines(file)


def read_columns(path: Path) -> Iterator[TextPair]:
    """English<TAB>other, a line for each pair; further columns are dropped.

    A line without a tab has an empty other side: cleaning counts it."""
    for text in read_lines(path):
        source, _, target = text.partition("\t")
        yield source, target.partition("\t")[0]


def member_lines(path: Path, name: str) -> Iterator[str]:
    """The lines of one text of a tar, whatever folder of the tar it stands in. ValueError if it
    isn't there.

    A tar that is packed as a whole can't be entered in the middle, so it is read from the front,
    and what isn't wanted goes by. Nothing is written to the disk. A text that is packed once more
    inside, as `name`.gz, is unpacked."""
    advice = "delete it and get the archive again"
    with damage(path, advice), tarfile.open(path, "r|*") as archive:
        for member in archive:
            if member.isfile() and Path(member.name).name in (name, name + ".gz"):
                file = archive.extractfile(member)
                packed = member.name.endswith(".gz")
                yield from text_lines(gzip.open(file) if packed else file)
                return
    raise ValueError(f"{path} holds no {name}: {advice}")


def two_members(path: Path, text: str, language: str) -> Iterator[TextPair]:
    """English and the other language of a text of a tar, line by line; the archive is opened twice.

    ValueError if one ends before the other: a line is missing somewhere, and no pair can be
    trusted."""
    names = (f"{Path(text).name}.{side}" for side in ("en", language))
    for source, target in zip_longest(*(member_lines(path, name) for name in names)):
        if source is None or target is None:
            raise ValueError(
                f"one side of {text} in {path} ends before the other, so no line can be trusted"
            )
        yield source, target


def folder_sources(folder: Path) -> list[TextSource]:
    """Every file of `English<TAB>other` lines in a folder, in the order of their names. ValueError
    if there is none, or one begins otherwise."""
    paths = [path for path in sorted(folder.iterdir()) if path.name.endswith(TEXTS)]
    if not paths:
        raise ValueError(f"{folder} holds no file that ends in one of {', '.join(TEXTS)}")
    for path in paths:
        require_sentences(list(islice(read_columns(path), 1000)), str(path))
    return [TextSource(path.name, (path,), partial(read_columns, path)) for path in paths]


# What a user's file must be -----------------------------------------------------------------------

# a line's number, a score of its pair, or its name, as talk_0001, menu.file.open or Mark 3:16
IDENTIFIER = re.compile(r"([!-~]*([\d_/]|\w\.\w)[!-~]*|[\w ]+ \d+:\d+)( ?%)?")


def is_garbled(text: str) -> bool:
    "Did it hold bytes that are no UTF-8, or zero bytes?"
    return "\ufffd" in text or "\0" in text


def require_sentences(pairs: Sequence[TextPair], name: str) -> None:
    """ValueError if all second sides are empty, if lines end in carriage returns alone, if a
    side is numbers or names, or if a tenth isn't UTF-8."""
    if not any(right for _, right in pairs):
        raise ValueError(
            f"{name} has no line with a second column: a line is a sentence, a tab and its"
            " translation (--pairs reads .csv, .tmx and .jsonl, too)"
        )
    garbled = sum(is_garbled(left + right) for left, right in pairs)
    if 10 * garbled > len(pairs):
        raise ValueError(
            f"{name}: {garbled:,} of {len(pairs):,} lines are not UTF-8 text, or hold zero bytes as"
            " UTF-16 and zip files do: save it as UTF-8, or unpack it, first"
        )
    if 2 * sum("\r" in left + right for left, right in pairs) > len(pairs):
        raise ValueError(
            f"the lines of {name} end in carriage returns alone: save it with line feeds"
        )
    for which, side in zip(("first", "second"), zip(*pairs)):
        names = [text for text in side if IDENTIFIER.fullmatch(text.strip())]
        if 2 * len(names) > len(pairs):
            raise ValueError(
                f"the {which} column of {name} holds numbers or names of lines, as"
                f" {names[0][:60]}: keep the two columns of sentences alone (--pairs finds them by"
                " names in a first line)"
            )


def take_evenly(items: Sequence, n_items: int) -> list:
    "At most n_items of them, evenly over the whole list."
    step = max(1.0, len(items) / max(n_items, 1))
    return [items[int(k * step)] for k in range(min(n_items, len(items)))]
