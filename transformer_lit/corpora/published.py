"""Dataset files: where each is published, its checksum, and what is on this machine."""

import gzip
import hashlib
import html
import re
import zipfile
from functools import partial
from pathlib import Path

from transformer_lit.corpora.download import cached_file, find_cached
from transformer_lit.corpora.files import shipped
from transformer_lit.corpora.texts import damage, member_lines, read_all, read_member

AGAIN = "delete it, and it will be fetched again"


def language_of(corpus: str) -> str:
    "The other language: what stands behind the last hyphen of a corpus or a folder."
    return Path(corpus).name.rpartition("-")[2]


# Files that never change: any difference is an error ----------------------------------------------


def published(name: str) -> dict | None:
    """Size and hashes of a file that never changes, from data/checksums.tsv, or None.

    The same text is in circulation packed by different programs, each giving another file. So the
    size, lines and SHA-256 are the text's; the MD5 is that of the packed file, where its publisher
    has one."""
    for line in shipped("data/checksums.tsv").read_text("utf-8").splitlines():
        file, size, _, sha256, md5 = line.split("\t")
        if file == name:
            return {"bytes": int(size), "sha256": sha256, "md5": md5}
    return None


def verify_published(path: Path, row: dict) -> None:
    "Raises OSError or ValueError unless the file holds what was published."
    if hashlib.md5(path.read_bytes()).hexdigest() == row["md5"]:
        return
    if not row["bytes"]:
        raise OSError("its checksum is not the published one")
    with damage(path, AGAIN), gzip.open(path) as file:
        text = read_all(file, path, row["bytes"])
    if hashlib.sha256(text).hexdigest() != row["sha256"]:
        raise OSError(
            f"its text has {len(text):,} of {row['bytes']:,} bytes and is not the published one"
        )


# Tatoeba: renewed without notice, so its structure is checked and not its hash -------------------

ARCHIVES = {  # language -> file at manythings.org, its text inside
    "fr": ("fra-eng.zip", "fra.txt"),
    "de": ("deu-eng.zip", "deu.txt"),
}
# what parts a number's thousands; English has a comma, and both of these have one before the cents
THOUSANDS = {"fr": " ", "de": "."}
TATOEBA = "https://www.manythings.org/anki/"
# an older release of the same archive, with the hash that Dive into Deep Learning (d2l.ai)
# publishes for it
MIRRORS = {
    "fr": [
        "https://d2l-data.s3-accelerate.amazonaws.com/fra-eng.zip"
        "#sha1=94646ad1522d915e7b0f9296181140edcf86a4f5"
    ]
}
# lines that the publisher's archive has at least: the releases of 2019 have over 160,000
MIN_LINES = 150_000


def tatoeba_text(path: Path, language: str) -> str:
    "The text in the archive, in its root or in a folder. ValueError for another or a broken one."
    name = ARCHIVES[language][1]
    with damage(path, AGAIN), zipfile.ZipFile(path) as archive:
        member = next((n for n in archive.namelist() if Path(n).name == name), name)
        return read_member(archive, member).decode("utf-8-sig")


def tatoeba_shape(path: Path, language: str = "fr", min_pairs: int = 1) -> int:
    "The number of pairs; ValueError unless there are enough lines of two or three columns."
    lines = tatoeba_text(path, language).split("\n")
    pairs = sum(line.count("\t") in (1, 2) for line in lines)
    if pairs < max(min_pairs, 0.99 * (len(lines) - 1)):
        raise ValueError(
            f"{pairs:,} of its {len(lines):,} lines are pairs, and {min_pairs:,} were expected"
        )
    return pairs


def tatoeba_archive(language: str = "fr") -> Path:
    """The zip of English-`language` pairs: found, or downloaded.

    Looks in $TRANSFORMER_LIT_DATA/tatoeba, then in the cache, then downloads. Raises
    FileNotFoundError."""
    name, _ = ARCHIVES[language]
    validate = partial(tatoeba_shape, language=language, min_pairs=MIN_LINES)
    return cached_file(f"tatoeba/{name}", [TATOEBA + name, *MIRRORS.get(language, [])], validate)


# Multi30k and the news tests of WMT ---------------------------------------------------------------

MULTI30K = [
    "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/",
    "https://github.com/multi30k/dataset/raw/master/data/task1/raw/",
]
MULTI30K_SPLITS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
STATMT = ["https://www.statmt.org/", "https://statmt.org/"]
NEWS = {  # set -> archive, its name here, the names of the two texts in it
    "newstest2013": (
        "wmt13/test.tgz",
        "newstest/wmt13-test.tgz",
        "newstest2013-src.en.sgm",
        "newstest2013-src.{0}.sgm",
    ),
    "newstest2014": (
        "wmt14/test-full.tgz",
        "newstest/test-full.tgz",
        "newstest2014-{0}en-src.en.sgm",
        "newstest2014-{0}en-ref.{0}.sgm",
    ),
}
OLDER_NEWS = (
    "news-test2008 newssyscomb2009 newstest2009 newstest2010 newstest2011 newstest2012".split()
)
WMT14 = {  # training archive -> megabytes, languages, text without its ending
    "wmt13/training-parallel-europarl-v7.tgz": (628, ("fr", "de"), "training/europarl-v7.{0}-en"),
    "wmt13/training-parallel-commoncrawl.tgz": (876, ("fr", "de"), "commoncrawl.{0}-en"),
    "wmt14/training-parallel-nc-v9.tgz": (77, ("fr", "de"), "training/news-commentary-v9.{0}-en"),
    "wmt13/training-parallel-un.tgz": (2300, ("fr",), "un/undoc.2000.{0}-en"),
    "wmt10/training-giga-fren.tar": (2300, ("fr",), "giga-fren.release2.fixed"),
}


def multi30k_file(split: str, language: str) -> Path:
    'One side of "train", "valid" or "test", gzipped: found, or downloaded.'
    file = f"{MULTI30K_SPLITS[split]}.{language}.gz"
    name = f"multi30k/{file}"
    validate = partial(verify_published, row=published(name))
    return cached_file(name, [root + file for root in MULTI30K], validate)


def newstest_files(name: str, language: str) -> list[Path]:
    """The two sides of a news test as single gzipped files; none where they aren't here and an
    archive of statmt.org has them."""
    files = [f"newstest/en-{language}/{name}.{side}.gz" for side in ("en", language)]
    if all(map(find_cached, files)) or name not in NEWS:
        return [cached_file(file, [], bool) for file in files]
    return []


def news_sides(name: str, language: str) -> list[list[str]]:
    "The two sides of a news test from its archive: found, or downloaded."
    remote, local, *texts = NEWS[name]
    validate = partial(verify_published, row=published(local))
    path = cached_file(local, [root + remote for root in STATMT], validate)
    return [read_sgm(path, text.format(language)) for text in texts]


def read_sgm(path: Path, name: str) -> list[str]:
    "The sentences of a text of the archive: they stand between tags, with ampersands written out."
    text = "\n".join(member_lines(path, name))
    return [html.unescape(line) for line in re.findall(r"<seg[^>]*>(.*?)</seg>", text, re.S)]


# What is here, and is it right? -------------------------------------------------------------------


def files_of(name: str, language: str = "fr") -> list[str]:
    "The files that `data.load_corpus` reads or fetches; pocket comes with the book."
    sides = ("en", language)
    if name == "tatoeba":
        return [f"tatoeba/{ARCHIVES[language][0]}"]
    if name == "multi30k":
        return [f"multi30k/{part}.{side}.gz" for side in sides for part in MULTI30K_SPLITS.values()]
    if name != "wmt14":
        return []
    single = [f"newstest/en-{language}/{news}.{side}.gz" for news in NEWS for side in sides]
    return single if all(map(find_cached, single)) else [local for _, local, *_ in NEWS.values()]


def state(file: str, language: str = "fr") -> str:
    "One file: not here, as published, whole, or what is wrong with it. Nothing is downloaded."
    path, row = find_cached(file), published(file)
    if path is None:
        return "not here"
    try:
        if row:
            verify_published(path, row)
            return "as published"
        return f"whole, {tatoeba_shape(path, language):,} pairs"
    except (OSError, ValueError) as error:
        return f"DAMAGED: {error}"
