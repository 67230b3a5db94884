"""The corpora that large runs train on, by name, and the sentences that are held out of each."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from pathlib import Path

from transformer_lit import data
from transformer_lit.corpora import download, published as corpora
from transformer_lit.corpora.published import language_of
from transformer_lit.corpora.texts import (
    TextSource,
    TextPair,
    check_archive,
    folder_sources,
    two_members,
)
from transformer_lit.recipes.augmentation import (
    NearDuplicates,
    synthetic_copies,
    without_near_duplicates,
)
from transformer_lit.corpora.files import sha256_file

TRAINING_SETS = (
    "wmt14-en-de",
    "wmt14-en-fr",
    "general-en-fr",
    "general-en-de",
    "mixture-en-fr",
    "mixture-en-de",
    "multi30k-en-de",
    "multi30k-en-fr",
)


def family_of(corpus: str) -> str:
    'wmt14, general, mixture or multi30k; "" for a folder of yours, whatever its name.'
    return corpus.partition("-")[0] if corpus in TRAINING_SETS else ""


def wmt_sources(language: str) -> list[TextSource]:
    "The training archives of WMT14, found, or fetched from statmt.org."
    found = []
    for name, (_, languages, text) in corpora.WMT14.items():
        if language in languages:
            inside = text.format(language)
            path = download.cached_file(name, [root + name for root in corpora.STATMT], check_archive)
            found.append(
                TextSource(Path(inside).name, (path,), partial(two_members, path, inside, language))
            )
    return found


def tatoeba_source(language: str) -> TextSource:
    "The everyday sentences of chapter 18."
    path = corpora.tatoeba_archive(language)
    return TextSource("tatoeba", (path,), partial(data.read_tatoeba, path, language))


def multi30k_source(language: str) -> TextSource:
    "The captions that Multi30k trains on, fetched if need be."
    read = partial(data.read_multi30k, "train", language)
    read()
    files = (download.find_cached(f"multi30k/train.{side}.gz") for side in ("en", language))
    return TextSource("multi30k", tuple(path for path in files if path), read)


def news_source(language: str) -> TextSource:
    "The news tests of 2008 to 2012, where they lie in your own folder."
    files = [
        download.find_cached(f"newstest/en-{language}/{name}.{side}.gz")
        for name in corpora.OLDER_NEWS
        for side in ("en", language)
    ]
    return TextSource(
        "older news tests",
        tuple(path for path in files if path),
        lambda: data.parts_of_wmt14(language)["train"],
    )


def general_files(language: str) -> list[TextSource]:
    "Law and manuals, from your folder."
    name = f"general/en-{language}"
    folder = download.find_cached(name)
    if folder is None:
        raise FileNotFoundError(
            f"{name} is not on this machine: set TRANSFORMER_LIT_DATA to a folder that holds {name}"
            " with files of English<TAB>other"
        )
    return folder_sources(folder)


def general_sources(language: str) -> list[TextSource]:
    "Law and manuals from your folder, Tatoeba, the older news tests."
    return [*general_files(language), tatoeba_source(language), news_source(language)]


GENERAL = {
    "law": "canada_laws.tsv.xz",
    "web": "debian_web.tsv.xz",
    "php": "php_docs.tsv.xz",
    "python": "python_docs.tsv.xz",
}


@cache
def mixture_held_out(language: str) -> dict[str, list[TextPair]]:
    """What a mixture develops and is tested with, of each kind of text; `valid` and `test` are
    newstest2013 and 2014.

    Of the general text, 300 and 1,000 English sentences of each of four kinds, as far as their
    files are there."""
    parts = {
        "": {
            "valid": data.read_news("newstest2013", language),
            "test": data.read_news("newstest2014", language),
        },
        "-tatoeba": data.load("tatoeba", language),
        "-multi30k": data.load("multi30k", language),
    }
    files = {
        path.name: read
        for source in general_files(language)
        for path, read in [(source.files[0], source.read)]
    }
    for kind, file in GENERAL.items():
        if file in files:
            good, _ = data.clean(files[file]())
            parts["-" + kind] = data.split_by_english(good, 300, 1000)
    return {part + kind: found[part] for part in ("valid", "test") for kind, found in parts.items()}


@cache
def near_copies(language: str) -> NearDuplicates:
    "Tells what repeats a sentence that a mixture holds out."
    return NearDuplicates(
        english for pairs in mixture_held_out(language).values() for english, _ in pairs
    )


def mixture_sources(language: str) -> list[TextSource]:
    """All text at hand, one source for each kind: everyday sentences, captions, older news, law and
    manuals, and pairs that teach to copy."""
    files = general_files(language)

    def general() -> Iterator[TextPair]:
        return chain.from_iterable(source.read() for source in files)

    kinds = [
        tatoeba_source(language),
        multi30k_source(language),
        news_source(language),
        TextSource("general", tuple(path for source in files for path in source.files), general),
    ]
    repeats = partial(near_copies, language)
    kinds = [
        replace(kind, read=partial(without_near_duplicates, kind.read, repeats)) for kind in kinds
    ]
    return [
        *kinds,
        replace(
            kinds[0],
            name="copying",
            read=partial(synthetic_copies, kinds[0].read, corpora.THOUSANDS[language]),
        ),
    ]


HELD = ("valid", "test")
FAMILIES: dict[str, Callable[[str], list[TextSource]]] = {
    "wmt14": wmt_sources,
    "general": general_sources,
    "mixture": mixture_sources,
    "multi30k": lambda language: [multi30k_source(language)],
}


def parts_among(names: Iterable[str]) -> dict[str, str]:
    "Which of a folder's files, by their names, hold out pairs: part -> name."
    return {part: name for name in names if (part := name.partition(".")[0]) in HELD}


def folder_parts(folder: Path) -> tuple[list[TextSource], dict[str, TextSource]]:
    """A folder's texts to train on, and what it holds out: its files `valid` and `test`, such as
    valid.tsv, if it has both.

    ValueError if it has only one of them, or one twice, or neither and the news tests aren't in its
    language."""
    texts = {source.name: source for source in folder_sources(folder)}
    held = {part: texts.pop(name) for part, name in parts_among(list(texts)).items()}
    if twice := parts_among(texts):
        raise ValueError(
            f"{folder} has {' and '.join(twice.values())} besides"
            f" {' and '.join(held[part].name for part in twice)}: keep one of each"
        )
    if len(held) == 1 or not held and language_of(str(folder)) not in data.CORPORA["wmt14"]:
        raise ValueError(
            f"{folder} needs two files of pairs to hold out, valid.tsv and test.tsv; without both,"
            " the news tests are held out, and its name must end in one of"
            f" -{', -'.join(data.CORPORA['wmt14'])}"
        )
    return list(texts.values()), held


def sources_of(corpus: str) -> list[TextSource]:
    "The streams of a named training set, or of a folder of yours. ValueError for another name."
    if family := family_of(corpus):
        return FAMILIES[family](language_of(corpus))
    if Path(corpus).is_dir():
        return folder_parts(Path(corpus))[0]
    raise ValueError(
        f"there is no training set {corpus}; there are {', '.join(TRAINING_SETS)}, or name a folder"
    )


def held_out(corpus: str) -> dict[str, list[TextPair]]:
    """Pairs to develop with, "valid", and to test with, "test": Multi30k's own, a folder's own, and
    newstest2013 and 2014 for all others (§6.1)."""
    language, family = language_of(corpus), family_of(corpus)
    if not family and Path(corpus).is_dir() and (own := folder_parts(Path(corpus))[1]):
        return {part: list(own[part].read()) for part in HELD}
    if family == "multi30k":
        return {part: data.read_multi30k(part, language) for part in ("valid", "test")}
    if family == "mixture":
        return mixture_held_out(language)
    return {
        "valid": data.read_news("newstest2013", language),
        "test": data.read_news("newstest2014", language),
    }


def files_needed(corpus: str) -> list[str]:
    "The files of a named training set that could be fetched."
    language, family = language_of(corpus), family_of(corpus)
    if not family:
        return []
    if family == "wmt14":
        return [name for name, (_, languages, _) in corpora.WMT14.items() if language in languages]
    if family == "mixture":
        return corpora.files_of("tatoeba", language) + corpora.files_of("multi30k", language)
    return corpora.files_of("tatoeba" if family == "general" else family, language)


def held_names(corpus: str, inputs: Sequence[Mapping]) -> dict[str, str]:
    "What the scores call the pairs that a training with these inputs held out."
    if family_of(corpus) == "multi30k":
        return {"valid": "multi30k-val", "test": "multi30k-test2016"}
    return parts_among(file["source"] for file in inputs) or {
        "valid": "newstest2013",
        "test": "newstest2014",
    }


def held_sources(corpus: str) -> list[TextSource]:
    "The files that a folder of yours holds out; none for a named training set."
    return [] if family_of(corpus) else list(folder_parts(Path(corpus))[1].values())


def inputs_of(sources: list[TextSource]) -> list[dict]:
    "Name, size and hash of every file behind the sources."
    return [
        {
            "source": source.name,
            "file": path.name,
            "bytes": path.stat().st_size,
            "sha256": sha256_file(path),
        }
        for source in sources
        for path in source.files
    ]


def inputs_here(corpus: str) -> list[dict] | None:
    """`inputs_of` a corpus and what it holds out, or None where some of it is not at hand: nothing
    is fetched only to be compared."""
    try:
        if all(map(download.find_cached, files_needed(corpus))):
            return inputs_of(sources_of(corpus) + held_sources(corpus))
    except (FileNotFoundError, ValueError):
        pass
    return None
