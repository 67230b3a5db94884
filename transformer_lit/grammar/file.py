"""Reading and writing the pairs of a synthetic corpus; which of them use only words seen in
training."""

import gzip
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from transformer_lit.corpora.files import sha256_file
from transformer_lit.tokenization import split_words

# English, French, links, pattern, triple
Row = tuple[str, str, tuple[tuple[int, int], ...], str, str]


def write_pairs(path: Path | str, splits: Mapping[str, Iterable[Row]]) -> str:
    """Write the pairs of all parts, the same bytes for the same pairs wherever zlib is the same;
    returns the file's SHA-256."""
    lines = [
        "\t".join((part, english, french, " ".join(f"{i}-{j}" for i, j in links), pattern, triple))
        + "\n"
        for part, pairs in splits.items()
        for english, french, links, pattern, triple in pairs
    ]
    packed = bytearray(gzip.compress("".join(lines).encode(), mtime=0))
    packed[9] = 3  # the byte in which gzip names the system
    Path(path).write_bytes(packed)
    return sha256_file(path)


def read_pairs(path: Path | str, sha256: str | None = None) -> dict[str, list[Row]]:
    """What `write_pairs` wrote, part by part. Raises ValueError if the file isn't the one with this
    SHA-256."""
    if sha256 and sha256_file(path) != sha256:
        raise ValueError(
            f"{path} is not the pocket corpus of this version: fetch it again, or"
            " write it with save_pocket()"
        )
    splits = {}
    for line in gzip.decompress(Path(path).read_bytes()).decode().splitlines():
        split, english, french, links, pattern, triple = line.split("\t")
        alignment = tuple(tuple(map(int, link.split("-"))) for link in links.split())
        splits.setdefault(split, []).append((english, french, alignment, pattern, triple))
    return splits


def known_words_filter(train: Sequence[Row]) -> Callable[[Row], bool]:
    "A test for pairs: does training hold each of their words, English and French, three times?"

    def words(pair):
        sides = zip(("en", "fr"), pair)
        return [(side, word) for side, text in sides for word in split_words(text, side)]

    counts = Counter(word for pair in train for word in words(pair))
    return lambda pair: all(counts[word] >= 3 for word in words(pair))
