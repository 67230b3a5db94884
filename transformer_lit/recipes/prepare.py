"""From text to a token store: cleaned, learned subwords, encoded by several processes, and stopped
and gone on with at any moment."""

import errno
import hashlib
import math
import multiprocessing
import os
import re
import shutil
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import islice, tee
from pathlib import Path

import numpy as np

from transformer_lit.data import clean, sentence_key, tidy, without
from transformer_lit.masks import BOS, EOS
from transformer_lit.tokens import Subwords
from transformer_lit.corpora.texts import TextSource, TextPair
from transformer_lit.commands import new_folder, nothing_left
from transformer_lit.corpora.files import sha256_file, write_json
from transformer_lit.runtime.memory import peak_memory_mb
from transformer_lit.runs.run import LOCK, changes, only_run
from transformer_lit.corpora.texts import fields, json_file
from transformer_lit.corpora.store import Chunk, ShardWriter, TokenStore, fill_shards
from transformer_lit.recipes.training_sets import (
    held_out,
    held_sources,
    inputs_here,
    inputs_of,
    sources_of,
)

CHUNK = 4096  # pairs
WORDS = 1 << 16  # that an encoder remembers


@dataclass(frozen=True)
class PreparationConfig:
    """All that decides what a token store holds.

    vocabulary: joint subwords (§5.1). sample: pairs that they are learned from, spread evenly over
    the corpus. words and ratio: as in chapter 17's `fault`. tokens: the most of a side, EOS
    counted. pairs: the first so many of the corpus, None for all."""

    corpus: str
    vocabulary: int = 37_000
    sample: int = 1_000_000
    words: int = 100
    ratio: float = 3.0
    tokens: int = 256
    pairs: int | None = None


def stream_pairs(sources: Iterable[TextSource], pairs: int | None = None) -> Iterator[TextPair]:
    "Source after source, pair after pair, nothing kept; the first `pairs` of them, or all."
    return islice((pair for source in sources for pair in source.read()), pairs)


def sample_lines(sources: Sequence[TextSource], sample: int, pairs: int | None = None) -> Iterator[str]:
    """Both sides of `sample` pairs, or of all, evenly over the corpus. It is read twice: once to
    count."""
    total = sum(1 for _ in stream_pairs(sources, pairs))
    step = max(1.0, total / sample)
    for k, pair in enumerate(stream_pairs(sources, pairs)):
        if k // step > (k - 1) // step:
            yield from map(tidy, pair)


def chunks_of(pairs: Iterator[TextPair], size: int = CHUNK) -> Iterator[list[TextPair]]:
    "Lists of `size` pairs, the last one shorter."
    while chunk := list(islice(pairs, size)):
        yield chunk


def source_chunks(
    sources: Iterable[TextSource], pairs: int | None = None
) -> Iterator[tuple[str, list[TextPair]]]:
    """The chunks of source after source, each with its source's name: the first `pairs` pairs, or
    all."""
    for source in sources:
        for chunk in chunks_of(islice(source.read(), pairs)):
            yield source.name, chunk
            pairs = None if pairs is None else pairs - len(chunk)


def pair_key(pair: TextPair) -> int:
    "64 bits that stand for a pair, the same on every machine."
    text = "\t".join(pair).encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def clean_pairs(
    given: Sequence[TextPair], settings: PreparationConfig, held: Iterable[str]
) -> tuple[list[TextPair], Counter]:
    """Chapter 17's `clean`, then two more reasons to leave a pair out: bytes that were no UTF-8,
    and English that is held out."""
    kept, counts = clean(given, settings.words, settings.ratio)
    whole = [pair for pair in kept if "\ufffd" not in pair[0] + pair[1]]
    good = without(whole, held)
    return good, Counter(counts) + Counter(
        {"garbled": len(kept) - len(whole), "held out": len(whole) - len(good)}
    )


class WordEncoder:
    """`Subwords.encode`, with each word and its space looked up first.

    Exact where single spaces part the words, as `tidy` leaves them: no piece of chapter 15 goes on
    past a space."""

    def __init__(self, tokens: Subwords, most: int = WORDS):
        self.word = lru_cache(most)(lambda word: tokens.encode(word)[:-1])

    def __call__(self, text: str) -> list[int]:
        first, *rest = text.split(" ")
        words = [first] + [" " + word for word in rest]
        return [i for word in words for i in self.word(word)] + [EOS]


class ChunkEncoder:
    "What is done to a chunk: clean it, keep the tests out, encode what is left."

    def __init__(self, tokenizer: Path, settings: PreparationConfig, held: Sequence[str]):
        self.encode = WordEncoder(Subwords.load(tokenizer))
        self.settings, self.held = settings, held

    def __call__(self, given: Sequence[TextPair]) -> Chunk:
        good, counts = clean_pairs(given, self.settings, self.held)
        ids, keys = [], []
        for pair in good:
            source, target = self.encode(pair[0]), [BOS, *self.encode(pair[1])]
            if max(len(source), len(target)) <= self.settings.tokens:
                ids.append((source, target))
                keys.append(pair_key(pair))
        counts["too many tokens"] = len(good) - len(ids)
        counts["kept"] = len(ids)
        return Chunk(
            np.array([i for pair in ids for side in pair for i in side], np.uint16),
            np.array([[len(source), len(target)] for source, target in ids], np.int64).reshape(
                -1, 2
            ),
            np.array(keys, np.uint64),
            counts,
        )


WORKER: list[ChunkEncoder] = []  # of this process


def begin_worker(*how) -> None:
    "A worker process loads its encoder once."
    WORKER[:] = [ChunkEncoder(*how)]


def encode_chunk(given: list[TextPair]) -> Chunk:
    "What a worker process does."
    return WORKER[0](given)


def encode_chunks(given: Iterator[list[TextPair]], how: tuple, workers: int = 1) -> Iterator[Chunk]:
    """Chunk after chunk, in order, by `workers` processes; how: what a `ChunkEncoder` is made of.

    At most four chunks for each worker are on their way: a reader that is faster than its workers
    would pile up the corpus. Raises ChildProcessError if a worker was killed."""
    if workers == 1:
        yield from map(ChunkEncoder(*how), given)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, begin_worker, how) as pool:
        waiting: deque[Future] = deque()
        try:
            for chunk in given:
                waiting.append(pool.submit(encode_chunk, chunk))
                if len(waiting) >= 4 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise ChildProcessError(
                "a worker was killed, perhaps for its memory: start again with fewer workers, the"
                " shards so far are kept"
            ) from None


def growing_folder(folder: Path, wanted: dict) -> Path:
    """Where a store grows until it is whole: `folder`.part. What an earlier call left is there if
    that one wanted the same.

    ValueError if it wanted something else and is not done: what took hours isn't thrown away
    unasked."""
    part = folder.with_name(folder.name + ".part")
    note = part / "wanted.json"
    if part.exists() and not note.exists() and any(part.iterdir()):
        raise FileExistsError(
            f"{part} holds something else: move it, or take another folder for the store"
        )
    kept = json_file(note, advice=f"delete {part}") if note.exists() else None
    if kept and kept != wanted and any(part.glob("ids-*.bin")):
        raise ValueError(
            f"{part} holds a preparation that isn't done, begun with"
            f" {changes(kept, wanted)}: keep to it, take another folder for the"
            " store, or delete it"
        )
    if kept != wanted:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        write_json(note, wanted)
    return part


def lock_of(folder: Path) -> Path:
    """Where the lock of a store lies while it is made: beside it, for what is inside may be thrown
    away."""
    return folder.with_name(f".{folder.name}.lock")


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    "Nobody else prepares this store meanwhile. BlockingIOError if somebody does."
    with ExitStack() as ours:
        try:
            ours.enter_context(only_run(lock_of(folder)))
        except BlockingIOError:
            raise BlockingIOError(
                f"another command prepares {folder}: let it end, or take another folder for the"
                " store"
            ) from None
        ours.callback(shutil.rmtree, lock_of(folder), ignore_errors=True)
        yield


@contextmanager
def enough_room(folder: Path) -> Iterator[None]:
    "Raises OSError with one sentence if the disk is full."
    try:
        yield
    except Exception as error:  # tokenizers has an Exception of its own
        full = getattr(error, "errno", None) == errno.ENOSPC
        if not full and not re.search("No space left|requested and", str(error)):  # numpy's words
            raise
        raise OSError(
            f"the disk is full, {folder} is not whole yet: make room, the same command goes on"
        ) from None


def write_store(
    part: Path,
    settings: PreparationConfig,
    sources: Sequence[TextSource],
    apart: dict,
    workers: int = 1,
    until: float = math.inf,
) -> dict | None:
    """Subwords, shards and held-out pairs into a folder; the manifest. Goes on with what is there;
    None if `until` came first.

    Only the learning of the subwords is one piece. Of a corpus that was begun it reads past the
    chunks that are done."""
    tokenizer, writer = part / "tokenizer.json", ShardWriter(part)
    if "learning_seconds" not in writer.state:
        Subwords.build(
            sample_lines(sources, settings.sample, settings.pairs), settings.vocabulary
        ).save(tokenizer)
        now = time.perf_counter()
        writer.state["learning_seconds"] = now - writer.began
        writer.began = now
        writer.close()  # so that it is not learned again
    english = sorted({sentence_key(english) for pairs in apart.values() for english, _ in pairs})
    names, left = tee(islice(source_chunks(sources, settings.pairs), writer.state["chunks"], None))
    encoded = encode_chunks((chunk for _, chunk in left), (tokenizer, settings, english), workers)
    if not fill_shards(
        writer, (replace(chunk, source=name) for chunk, (name, _) in zip(encoded, names)), until
    ):
        return None
    write_json(part / "held_out.json", apart)
    counts, seconds = writer.state["counts"], writer.state["seconds"]
    return {
        "counts": counts,
        "shards": writer.state["shards"],
        "tokenizer": sha256_file(tokenizer),
        "effort": {
            "workers": workers,
            "learning_seconds": writer.state["learning_seconds"],
            "encoding_seconds": seconds,
            "pairs_per_second": counts.get("given", 0) / seconds,
            **peak_memory_mb(),
        },
    }


def open_store(folder: Path, settings: PreparationConfig) -> TokenStore:
    """The store that is there. ValueError if it was made with other settings, or of other files,
    where they are at hand.

    To overwrite a store that trainings depend on would be the worse surprise."""
    store = TokenStore(folder)
    kept = fields(
        store.manifest, folder / "manifest.json", {"wanted": dict, "counts": dict, "effort": dict}
    )["wanted"]
    wanted = asdict(settings) | {"inputs": inputs_here(settings.corpus) or kept.get("inputs")}
    if kept != wanted:
        raise ValueError(
            f"{folder} was prepared with {changes(kept, wanted)}: take another folder, or delete"
            " this one"
        )
    return store


def prepare_store(
    settings: PreparationConfig,
    folder: str | Path,
    workers: int = 1,
    until: float = math.inf,
    held: dict[str, list[TextPair]] | None = None,
) -> TokenStore | None:
    """The token store of a corpus: made, or the one that is there.

    held: pairs to keep out, "valid" and "test"; None for the corpus' own. None if `until`
    (time.monotonic()) came first: the next call goes on. The folder gets its name when all of it is
    there."""
    folder = Path(folder)
    if (folder / "manifest.json").exists():
        return open_store(folder, settings)
    new_folder(folder)
    sources = sources_of(settings.corpus)  # fetched, if need be
    apart = held or held_out(settings.corpus)
    wanted = asdict(settings) | {"inputs": inputs_of(sources + held_sources(settings.corpus))}
    part = folder.with_name(folder.name + ".part")
    with (
        nothing_left(lock_of(folder), LOCK),
        only_one(folder),
        enough_room(folder),
        nothing_left(part, "progress.json"),
    ):
        if (folder / "manifest.json").exists():  # another process made it meanwhile
            return open_store(folder, settings)
        made = write_store(growing_folder(folder, wanted), settings, sources, apart, workers, until)
        if made is None:
            return None
        if not made["counts"].get("kept"):
            (part / "progress.json").unlink()  # nothing to go on with
            raise ValueError(f"{settings.corpus} holds no pair that is left after cleaning")
        write_json(part / "manifest.json", {"wanted": wanted, **made})
        os.replace(part, folder)
    for path in [*folder.glob("keys-*.bin"), folder / "progress.json", folder / "wanted.json"]:
        path.unlink()  # were for going on
    return TokenStore(folder)
