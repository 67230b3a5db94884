"""Parallel text as it comes: plain, .gz, .xz, or one file a language inside a tar. Read as a
stream, nothing kept."""

# A line ends at the newline byte and nowhere else: Python's own idea of a line also ends at
# characters that stand inside sentences of Common Crawl, and one such character would shift
# everything below it.
import gzip
import lzma
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path

from transformer_lit.corpora.reading import damage, short_lines

TextPair = tuple[str, str]  # English, other
TEXTS = (".tsv", ".tsv.gz", ".tsv.xz", ".txt", ".txt.gz", ".txt.xz")


@dataclass(frozen=True)
class Source:
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


def must_be_columns(pairs: Sequence[TextPair], file: Path) -> None:
    """ValueError unless these lines of a file, as `read_columns` gave them, are two columns of
    sentences."""
    must_be_text([f"{one}\t{other}" for one, other in pairs], file)
    if pairs and not any(second for _, second in pairs):
        raise ValueError(
            f"{file} has no second column: a line is a sentence, a tab and its translation"
        )
    must_be_sentences(pairs, str(file))


def folder_sources(folder: Path) -> list[Source]:
    """Every file of `English<TAB>other` lines in a folder, in the order of their names. ValueError
    if there is none, or one begins otherwise."""
    found = [path for path in sorted(folder.iterdir()) if path.name.endswith(TEXTS)]
    if not found:
        raise ValueError(f"{folder} holds no file that ends in one of {', '.join(TEXTS)}")
    for path in found:
        must_be_columns(list(islice(read_columns(path), 1000)), path)
    return [Source(path.name, (path,), partial(read_columns, path)) for path in found]


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
