"""Encoded pairs on disk: two bytes for each token, in shards that are checked when they are opened.
"""

# A shard is two files. ids-000.bin holds token ids as uint16, one pair after the other, source
# before target. offsets-000.npy holds int64 offsets: where each side begins, and where the last one
# ends. So the lengths of all pairs are differences of offsets, and batches can be planned without
# reading a token. A store is its shards, tokenizer.json, held_out.json, and manifest.json, which
# has the hash of every shard file. While it grows, progress.json and keys-NNN.bin say how far it
# is.
import hashlib
import json
import os
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from transformer_lit.tokens import Subwords
from transformer_lit.corpora.texts import TextPair
from transformer_lit.corpora.files import sha256_file, write_json, write_atomic
from transformer_lit.runtime.progress import bar
from transformer_lit.corpora.texts import fields, json_file

SHARD = {"ids": str, "offsets": str, "pairs": int}  # fields of a shard's record
TOKENS = 1 << 25  # of a shard: 33 million, 64 MiB
SLOTS = 1 << 22  # of the table of keys: 34 MB


@dataclass
class Chunk:
    """Encoded pairs: ids end to end, lengths (n, 2), keys (n,), how many pairs each rule of
    cleaning took, and whence they came."""

    ids: np.ndarray
    lengths: np.ndarray
    keys: np.ndarray
    counts: Counter
    source: str = ""


class RecentKeys:
    """Which keys came before, in a table that never grows.

    A key's slot is its value modulo the number of slots. A key can be forgotten when another takes
    its slot, and then a repeat slips through; nothing new is called a repeat, but for two equal
    hashes and the key 0, with which the table begins."""

    def __init__(self, slots: int = SLOTS):
        self.table = np.zeros(slots, np.uint64)

    def new(self, keys: np.ndarray) -> np.ndarray:
        "True for each key that is not remembered; all are, after it."
        slots = keys % np.uint64(len(self.table))
        fresh = self.table[slots] != keys
        self.table[slots] = keys
        return fresh


def shard_files(folder: Path, n: int) -> dict[str, Path]:
    "Where shard n has its ids and its offsets."
    return {"ids": folder / f"ids-{n:03d}.bin", "offsets": folder / f"offsets-{n:03d}.npy"}


class Shard:
    "A pair of files that is being written."

    def __init__(self, folder: Path, n: int):
        self.files = shard_files(folder, n)
        self.file = open(self.files["ids"], "wb")
        self.lengths: list[np.ndarray] = []
        self.tokens = 0

    def add(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        "Append pairs: their ids, end to end, and their lengths (n, 2)."
        self.file.write(ids.astype(np.uint16).tobytes())
        self.lengths.append(lengths)
        self.tokens += len(ids)

    def close(self) -> dict:
        "Put all of it on the disk; returns the shard's record: sizes and hashes."
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        ends = np.concatenate(self.lengths).ravel().cumsum()
        with open(
            self.files["offsets"], "wb"
        ) as file:  # on the disk before progress.json tells of it
            np.save(file, np.append(0, ends))
            file.flush()
            os.fsync(file.fileno())
        return {
            "pairs": len(ends) // 2,
            "tokens": self.tokens,
            **{kind: sha256_file(path) for kind, path in self.files.items()},
        }


class ShardWriter:
    """Writes a store's shards into a folder, and goes on where an earlier one stopped.

    state: the records of whole shards, chunks read, counts, seconds. keys: the pairs that came.
    Both are saved where a shard ends, so that a stop costs what came after the last whole shard,
    and no pair from before the stop can come twice."""

    def __init__(self, folder: Path, most: int = TOKENS, slots: int = SLOTS):
        self.folder, self.most, self.began = folder, most, time.perf_counter()
        self.shard: Shard | None = None  # being written
        self.keys = RecentKeys(slots)
        self.state: dict = {"shards": [], "chunks": 0, "counts": {}, "seconds": 0.0}
        if (folder / "progress.json").exists():
            self.restore()

    def restore(self) -> None:
        "Read what an earlier writer saved. ValueError with one sentence if it can't be used."
        path = self.folder / "progress.json"
        advice = f"delete {self.folder}, and the preparation starts anew"
        self.state = fields(
            json_file(path, advice=advice),
            path,
            {"shards": list, "chunks": int, "counts": dict, "seconds": (int, float)},
            advice,
        )
        for record in self.state["shards"]:
            fields(record, path, SHARD, advice)
        self.keys.table = np.fromfile(self.keys_file(), np.uint64)
        if not len(self.keys.table):
            raise ValueError(f"{self.keys_file()} is empty: {advice}")

    def keys_file(self) -> Path:
        "The table of keys that belongs to the shards so far."
        return self.folder / f"keys-{len(self.state['shards']):03d}.bin"

    def add(self, ids: np.ndarray, lengths: np.ndarray, counts: dict | None = None) -> None:
        "Write a chunk's pairs; `counts` are those of all chunks up to this one."
        self.state["chunks"] += 1
        self.state["counts"] = dict(counts or {})
        if len(lengths):
            self.shard = self.shard or Shard(self.folder, len(self.state["shards"]))
            self.shard.add(ids, lengths)
            if self.shard.tokens >= self.most:
                self.close()

    def close(self) -> None:
        "End the shard, if one is open, and save how far this is."
        if self.shard is not None:
            self.state["shards"].append(self.shard.close())
        self.shard = None
        self.save()

    def save(self) -> None:
        "First the keys, under a new name; then the state, which names them; then older keys go."
        now = time.perf_counter()
        self.state["seconds"] += now - self.began
        self.began = now
        write_atomic(self.keys_file(), self.keys.table.tofile)
        write_json(self.folder / "progress.json", self.state)
        for path in self.folder.glob("keys-*.bin"):
            if path != self.keys_file():
                path.unlink()


def fill_shards(writer: ShardWriter, chunks: Iterable[Chunk], until: float = float("inf")) -> bool:
    """Write what is new of each chunk, and count what fell to which rule. False if `until`
    (time.monotonic()) came first.

    Repeats that stand in different chunks are found here, since only here do all chunks pass."""
    counts, late = Counter(writer.state["counts"]), False
    with bar(None, "encoding", unit="pair", done=counts["given"]) as shown:
        for chunk in chunks:
            fresh = writer.keys.new(chunk.keys)
            repeats = int((~fresh).sum())
            counts += chunk.counts
            counts["kept"] -= repeats
            counts["repeated"] += repeats
            if chunk.source:
                counts["from " + chunk.source] += int(fresh.sum())
            tokens = np.repeat(fresh, chunk.lengths.sum(1))  # is this token in a pair that is new?
            writer.add(chunk.ids[tokens], chunk.lengths[fresh], counts)
            shown.update(chunk.counts.get("given", 0))
            if late := time.monotonic() > until:
                break
    writer.close()
    return not late


def open_shard(folder: Path, n: int, record: dict) -> tuple[np.ndarray, np.ndarray]:
    """A shard's ids and offsets, as arrays that stay on the disk. ValueError if a file is not what
    was written."""
    files = shard_files(folder, n)
    for kind, path in files.items():
        if not path.exists() or sha256_file(path) != record[kind]:
            raise ValueError(
                f"{path} is not what was written: delete {folder} and prepare it again"
            )
    return np.memmap(files["ids"], np.uint16, "r"), np.load(files["offsets"], mmap_mode="r")


class TokenStore(Sequence):
    """Encoded pairs on disk, read where they are asked for: store[i] is what
    `Translator.encode_pairs` would give.

    `lengths` (n, 2) is known without a token being read. Opening it checks every file and raises
    ValueError, with one sentence, if one is not what was written; FileNotFoundError if there is no
    store."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        path = self.folder / "manifest.json"
        if not path.exists():
            raise FileNotFoundError(f"there is no token store in {folder}")
        advice = f"delete {folder} and prepare it again"
        self.manifest = json_file(path, advice=advice)
        records = fields(self.manifest, path, {"shards": list}, advice)["shards"]
        for record in records:
            fields(record, path, SHARD, advice)
        self.parts = [open_shard(self.folder, n, record) for n, record in enumerate(records)]
        self.starts = np.cumsum(
            [0] + [record["pairs"] for record in records]
        )  # each shard's first pair
        if self.starts[-1] == 0:
            raise ValueError(
                f"{folder} holds no pair: nothing was left of the corpus after cleaning"
            )
        self.lengths = np.concatenate(
            [np.diff(offsets).reshape(-1, 2).astype(np.uint16) for _, offsets in self.parts]
        )  # (n, 2)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def ids(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        "Source and target ids of pair i, not yet copied."
        if not 0 <= i < len(self):
            raise IndexError(f"pair {i} of {len(self)}")
        n = bisect_right(self.starts, i) - 1
        ids, offsets = self.parts[n]
        k = 2 * (i - int(self.starts[n]))
        a, b, c = offsets[k : k + 3].tolist()
        return ids[a:b], ids[b:c]

    def __getitem__(self, i):
        source, target = self.ids(i)
        return source.tolist(), target.tolist()

    def tokenizer(self) -> Path:
        "The file of its subwords. ValueError if it isn't what was made."
        path = self.folder / "tokenizer.json"
        if sha256_file(path) != self.manifest.get("tokenizer"):
            raise ValueError(
                f"{path} is not what was written: delete {self.folder} and prepare it again"
            )
        return path

    def tokens(self) -> Subwords:
        "The subwords that the pairs are written in."
        return Subwords.load(self.tokenizer())

    def held_out(self) -> dict[str, list[TextPair]]:
        """The pairs that were kept out, "valid" and "test". ValueError if the file holds something
        else."""
        path = self.folder / "held_out.json"
        advice = f"delete {self.folder} and prepare it again"
        kept = fields(json_file(path, advice=advice), path, {"valid": list, "test": list}, advice)
        for pair in (pair for pairs in kept.values() for pair in pairs):
            if not (
                isinstance(pair, list)
                and len(pair) == 2
                and all(isinstance(side, str) for side in pair)
            ):
                raise ValueError(f"{path} holds something else than pairs: {advice}")
        return {name: [(one, other) for one, other in pairs] for name, pairs in kept.items()}

    def record(self, name: str) -> dict:
        """What run.json says of the data: the files behind it, how they were cleaned, and how many
        pairs and tokens are left."""
        kept = self.manifest
        inputs = kept["wanted"]["inputs"]
        return {
            "name": name,
            "sha256": hashlib.sha256(json.dumps(inputs).encode()).hexdigest(),
            "train": len(self),
            "counts": kept["counts"],
            "tokens": self.lengths.sum(0).tolist(),
            "inputs": inputs,
            "preparation": kept["effort"],
        }
