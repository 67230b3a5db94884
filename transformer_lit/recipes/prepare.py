"""From text to a token store: cleaned, subwords learned, encoded by several processes.

What was stopped starts anew: the 4.5 million pairs of WMT14 take some minutes."""

import hashlib
import multiprocessing
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path

import numpy as np

from transformer_lit.corpora.files import sha256_file, write_json
from transformer_lit.corpora.store import FILES, EncodedChunk, TokenStore, write_tokens
from transformer_lit.corpora.texts import Pairs, Splits, TextPair, TextSource
from transformer_lit.data import clean_pairs, sentence_key, normalize_text, exclude_sources
from transformer_lit.masks import BOS, EOS
from transformer_lit.recipes.training_sets import find_training_set
from transformer_lit.runs.run import only_run
from transformer_lit.runtime.batches import prefetch
from transformer_lit.tokenization import SubwordTokenizer

CHUNK = 4096  # pairs
WORDS = 1 << 16  # that an encoder remembers


@dataclass(frozen=True)
class PreparationConfig:
    """All that decides what a token store holds.

    vocabulary: joint subwords (§5.1). sample: pairs that they are learned from, spread evenly over
    the corpus. words and ratio: as in chapter 17's `rejection_reason`. tokens: the most of a side,
    EOS counted. pairs: the first so many of the corpus, None for all."""

    corpus: str
    vocabulary: int = 37_000
    sample: int = 1_000_000
    words: int = 100
    ratio: float = 3.0
    tokens: int = 256
    pairs: int | None = None


def stream_pairs(sources: Iterable[TextSource], pairs: int | None) -> Iterator[TextPair]:
    "Source after source, pair after pair, nothing kept; the first `pairs` of them, or all."
    return islice((pair for source in sources for pair in source.read()), pairs)


def sample_lines(
    sources: Sequence[TextSource], sample: int, pairs: int | None = None
) -> Iterator[str]:
    """Both sides of `sample` pairs, or of all, evenly over the corpus. It is read twice: once to
    count."""
    total = sum(1 for _ in stream_pairs(sources, pairs))
    step = max(1.0, total / sample)
    for k, pair in enumerate(stream_pairs(sources, pairs)):
        if k // step > (k - 1) // step:
            yield from map(normalize_text, pair)


def source_chunks(
    sources: Iterable[TextSource], pairs: int | None = None
) -> Iterator[tuple[str, Pairs]]:
    "The first `pairs` pairs, or all, in chunks, each with its source's name."
    for source in sources:
        stream = islice(source.read(), pairs)
        while chunk := list(islice(stream, CHUNK)):
            yield source.name, chunk
            pairs = None if pairs is None else pairs - len(chunk)


def pair_key(pair: TextPair) -> int:
    "64 bits that stand for a pair, the same on every machine."
    text = "\t".join(pair).encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def filter_pairs(
    pairs: Sequence[TextPair], config: PreparationConfig, held_out: Iterable[str]
) -> tuple[Pairs, Counter]:
    """Chapter 17's `clean_pairs`, then two more reasons to leave a pair out: bytes that were no
    UTF-8, and English that is held out."""
    cleaned, counts = clean_pairs(pairs, config.words, config.ratio)
    intact = [pair for pair in cleaned if "\ufffd" not in pair[0] + pair[1]]
    good = exclude_sources(intact, held_out)
    return good, Counter(counts) + Counter(
        {"garbled": len(cleaned) - len(intact), "held out": len(intact) - len(good)}
    )


@lru_cache(1)
def text_encoder(tokenizer: Path, written: float) -> Callable[[str], list[int]]:
    """Text to ids, without EOS, by the subwords in a file; `written`: when it was.

    `SubwordTokenizer.encode` is asked for each word and its space once. That is exact where single
    spaces part the words, as `normalize_text` leaves them: no piece goes on past a space."""
    subwords = SubwordTokenizer.load(tokenizer)
    word_ids = lru_cache(WORDS)(lambda word: subwords.encode(word)[:-1])
    return lambda text: [i for word in re.findall(" ?[^ ]+", text) for i in word_ids(word)]


def encode_chunk(
    tokenizer: Path,
    config: PreparationConfig,
    held_out: Sequence[str],
    chunk: tuple[str, Pairs],
) -> tuple[str, EncodedChunk]:
    "Clean a chunk, keep the tests out, encode what is left."
    name, pairs = chunk
    encode = text_encoder(tokenizer, tokenizer.stat().st_mtime)
    good, counts = filter_pairs(pairs, config, held_out)
    sides, keys = [], []
    for pair in good:
        source, target = [*encode(pair[0]), EOS], [BOS, *encode(pair[1]), EOS]
        if max(len(source), len(target)) <= config.tokens:
            sides += [source, target]
            keys.append(pair_key(pair))
    counts["too many tokens"] = len(good) - len(keys)
    ids = np.array([i for side in sides for i in side], np.uint16)
    lengths = np.array([len(side) for side in sides], np.int64).reshape(-1, 2)
    return name, EncodedChunk(ids, lengths, keys, counts)


def encode_chunks(
    chunks: Iterable[tuple[str, Pairs]], arguments: tuple, workers: int = 1
) -> Iterator[tuple[str, EncodedChunk]]:
    """Chunk after chunk, in order, by `workers` processes; arguments: of `encode_chunk`.

    At most four chunks for each worker are on their way: a reader that is faster than its workers
    would pile up the corpus."""
    encode = partial(encode_chunk, *arguments)
    if workers == 1:
        return map(encode, chunks)
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
    return prefetch(encode, chunks, 4 * workers - 1, pool)


def write_store(
    folder: Path,
    config: PreparationConfig,
    sources: Sequence[TextSource],
    held_out: Splits,
    workers: int,
) -> dict:
    "Subwords, tokens and held-out pairs into a folder. What was counted and measured on the way."
    tokenizer, started = folder / "tokenizer.json", time.perf_counter()
    lines = sample_lines(sources, config.sample, config.pairs)
    SubwordTokenizer.train(lines, config.vocabulary).save(tokenizer)
    learned = time.perf_counter()
    english = sorted({sentence_key(english) for pairs in held_out.values() for english, _ in pairs})
    chunks = source_chunks(sources, config.pairs)
    counts = write_tokens(folder, encode_chunks(chunks, (tokenizer, config, english), workers))
    seconds = time.perf_counter() - learned
    write_json(folder / "held_out.json", held_out)
    return {
        "counts": counts,
        "ids": sha256_file(folder / "ids.bin"),
        "tokenizer": sha256_file(tokenizer),
        "effort": {
            "workers": workers,
            "learning_seconds": learned - started,
            "encoding_seconds": seconds,
            "pairs_per_second": counts["given"] / seconds,
        },
    }


def open_store(folder: Path, config: PreparationConfig) -> TokenStore:
    """The store that is there. ValueError if it was made with other settings, or if the texts of
    your folder have changed."""
    store = TokenStore(folder)
    old, wanted = store.manifest["config"], asdict(config)
    differences = [f"{key} {old[key]}" for key in old if old[key] != wanted[key]]
    if Path(config.corpus).is_dir():
        inputs = find_training_set(config.corpus).inputs()
        differences += ["other texts"] * (inputs != store.manifest["inputs"])
    if differences:
        raise ValueError(
            f"{folder} was prepared with {', '.join(differences)}: take another folder, or delete"
            " this one"
        )
    return store


def prepare_store(
    config: PreparationConfig,
    folder: Path,
    workers: int = 1,
    held_out: Splits | None = None,
) -> TokenStore:
    """The token store of a corpus: made, or the one that is there.

    held_out: pairs to keep out, "valid" and "test"; None for the corpus' own."""
    if (folder / "manifest.json").exists():
        return open_store(folder, config)
    training_set = find_training_set(config.corpus)
    inputs = training_set.inputs()  # fetched, if need be, before a folder is made
    held_out = held_out or training_set.held_out()
    if others := {path.name for path in folder.glob("*")}.difference(FILES):
        raise FileExistsError(f"{folder} holds {min(others)}: take a new folder for the store")
    with only_run(folder):  # two trainings may have the same store
        if (folder / "manifest.json").exists():  # made in the meantime
            return open_store(folder, config)
        try:
            summary = write_store(folder, config, training_set.sources(), held_out, workers)
            if not summary["counts"]["kept"]:
                raise ValueError(f"{config.corpus} holds no pair that is left after cleaning")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        settings = {"config": asdict(config), "inputs": inputs, "held_out": training_set.held_names}
        write_json(folder / "manifest.json", settings | summary)
    return TokenStore(folder)
