"""Datasets of the large runs, by name, with their validation and test sets."""

from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from transformer_lit import data
from transformer_lit.corpora import published
from transformer_lit.corpora.download import cached_file, find_cached
from transformer_lit.corpora.files import sha256_file
from transformer_lit.corpora.texts import (
    Splits,
    TextSource,
    check_archive,
    folder_sources,
    read_columns,
    two_members,
)
from transformer_lit.recipes.augmentation import NearDuplicates, synthetic_copies
from transformer_lit.recipes.lexicon import build_lexicon

NEWS = {"valid": "newstest2013", "test": "newstest2014"}  # §6.1


def read_news(language: str) -> Splits:
    "newstest2013 to develop with, newstest2014 to test with."
    return {part: data.read_newstest(name, language) for part, name in NEWS.items()}


class TrainingSet(NamedTuple):
    """Streams of pairs to train on, and the pairs that are held out: "valid" and "test".

    held_names: what the scores call these. held_files: who holds them, in a folder of yours."""

    sources: Callable[[], list[TextSource]]
    held_out: Callable[[], Splits]
    held_names: dict[str, str] = NEWS
    held_files: tuple[TextSource, ...] = ()

    def inputs(self) -> list[dict]:
        "Name, size and hash of every file behind it."
        return [
            {
                "source": source.name,
                "file": path.name,
                "bytes": path.stat().st_size,
                "sha256": sha256_file(path),
            }
            for source in (*self.sources(), *self.held_files)
            for path in source.files
        ]


# Sources ------------------------------------------------------------------------------------------


def wmt_sources(language: str) -> list[TextSource]:
    "The training archives of WMT14, found, or fetched from statmt.org."
    sources = []
    for name, (_, languages, text) in published.WMT14.items():
        if language in languages:
            member = text.format(language)
            path = cached_file(name, [root + name for root in published.STATMT], check_archive)
            read = partial(two_members, path, member, language)
            sources.append(TextSource(Path(member).name, [path], read))
    return sources


def tatoeba_source(language: str) -> TextSource:
    "The everyday sentences of chapter 18."
    path = published.tatoeba_archive(language)
    return TextSource("tatoeba", [path], partial(data.read_tatoeba, path, language))


def news_source(language: str) -> TextSource:
    "The news tests of 2008 to 2012, where they lie in your own folder."
    files = (
        find_cached(f"newstest/en-{language}/{name}.{side}.gz")
        for name in published.OLDER_NEWS
        for side in ("en", language)
    )
    return TextSource(
        "older news tests",
        [path for path in files if path],
        lambda: data.load_wmt14(language)["train"],
    )


def own_folder(name: str) -> Path:
    if folder := find_cached(name):
        return folder
    raise FileNotFoundError(
        f"{name} is not on this machine: set TRANSFORMER_LIT_DATA to a folder that holds {name}"
        " with files of English<TAB>other"
    )


def general_sources(language: str) -> list[TextSource]:
    "Law and manuals from your folder, Tatoeba, the older news tests."
    general = own_folder(f"general/en-{language}")
    return folder_sources(general) + [tatoeba_source(language), news_source(language)]


# Mixtures -----------------------------------------------------------------------------------------

GENERAL = {
    "law": "canada_laws.tsv.xz",
    "web": "debian_web.tsv.xz",
    "php": "php_docs.tsv.xz",
    "python": "python_docs.tsv.xz",
}


@cache
def mixture_held_out(language: str) -> Splits:
    """What a mixture develops and is tested with, of each kind of text; `valid` and `test` are the
    news.

    Of the general text, 300 and 1,000 English sentences of each of four kinds, as far as their
    files are there."""
    kinds = {
        "": read_news(language),
        "-tatoeba": data.load_corpus("tatoeba", language),
        "-multi30k": data.load_corpus("multi30k", language),
    }
    folder = own_folder(f"general/en-{language}")
    for kind, name in GENERAL.items():
        if (path := folder / name).exists():
            good, _ = data.clean_pairs(read_columns(path))
            kinds["-" + kind] = data.split_by_source(good, 300, 1000)
    return {part + kind: kinds[kind][part] for part in ("valid", "test") for kind in kinds}


@cache
def near_duplicates(language: str) -> NearDuplicates:
    "Tells what repeats a sentence that a mixture holds out."
    return NearDuplicates(
        english for pairs in mixture_held_out(language).values() for english, _ in pairs
    )


def text_kind(name: str, paths: Iterable[Path]) -> TextSource:
    files = sorted(paths)
    return TextSource(name, files, lambda: chain.from_iterable(map(read_columns, files)))


def without_near_duplicates(kind: TextSource, language: str) -> TextSource:
    "Only its pairs whose English repeats nothing that a mixture holds out."

    def read():
        repeated = near_duplicates(language).of
        return (pair for pair in kind.read() if not repeated(pair[0]))

    return kind._replace(read=read)


def with_copies(language: str, *kinds: TextSource) -> list[TextSource]:
    """Tatoeba, these, law and manuals, without what nearly repeats a held-out sentence; last, pairs
    that teach to copy."""
    general = text_kind("general", own_folder(f"general/en-{language}").glob("*.xz"))
    tatoeba, *others = (
        without_near_duplicates(kind, language)
        for kind in (tatoeba_source(language), *kinds, general)
    )
    copies = partial(synthetic_copies, tatoeba.read, published.THOUSANDS[language])
    return [tatoeba, *others, TextSource("copying", tatoeba.files, copies)]


def mixture_sources(language: str) -> list[TextSource]:
    "All text at hand, also for research only: captions and older news."
    files = [published.multi30k_file("train", side) for side in ("en", language)]
    captions = TextSource("multi30k", files, partial(data.read_multi30k, "train", language))
    return with_copies(language, captions, news_source(language))


def open_sources(language: str) -> list[TextSource]:
    """Text whose license lets weights be shipped: debates, other prose and dialogue; and words and
    phrases from all of it."""
    clean = own_folder("clean")
    debates = {clean / f"europarl.en-{language}.tsv.xz"}
    prose = text_kind("clean", set(clean.rglob(f"*.en-{language}.*")) - debates)
    *texts, copies = with_copies(language, text_kind("europarl", debates), prose)
    files = [path for text in texts for path in text.files]
    lexicon = cache(lambda: build_lexicon(chain.from_iterable(text.read() for text in texts)))
    return [*texts, copies, TextSource("words", files, lexicon)]


# By name ------------------------------------------------------------------------------------------


FAMILIES = {
    "wmt14": (wmt_sources, read_news),
    "general": (general_sources, read_news),
    "mixture": (mixture_sources, mixture_held_out),
    "open": (open_sources, mixture_held_out),
}
TRAINING_SETS = {
    f"{family}-en-{language}": TrainingSet(partial(sources, language), partial(held_out, language))
    for family, (sources, held_out) in FAMILIES.items()
    for language in ("de", "fr")
}


def folder_set(folder: Path) -> TrainingSet:
    """A folder's texts to train on. It holds out its files `valid` and `test`, such as valid.tsv,
    if it has both; the news if it has neither.

    ValueError for anything else, and for the news in a language that they aren't in."""
    language = published.language_of(str(folder))
    parts = [(source.name.partition(".")[0], source) for source in folder_sources(folder)]
    train = [source for part, source in parts if part not in NEWS]
    held = {part: source for part, source in parts if part in NEWS}
    if not held and language in data.CORPUS_LANGUAGES["wmt14"]:
        return TrainingSet(lambda: train, partial(read_news, language))
    if len(held) < 2 or len(parts) > len(train) + 2:
        raise ValueError(
            f"{folder} needs two files of pairs to hold out, one valid.tsv and one test.tsv;"
            " without both, the news tests are held out, and its name must end in one of"
            f" -{', -'.join(data.CORPUS_LANGUAGES['wmt14'])}"
        )
    return TrainingSet(
        lambda: train,
        lambda: {
            part: [tuple(map(data.normalize_text, pair)) for pair in held[part].read()]
            for part in NEWS
        },
        {part: held[part].name for part in NEWS},
        (held["valid"], held["test"]),
    )


def find_training_set(corpus: str) -> TrainingSet:
    "A named training set, or a folder of yours. OSError if there is neither."
    return TRAINING_SETS.get(corpus) or folder_set(Path(corpus))
