"""Tokenized dataset on disk, memory-mapped: two bytes per token."""

# ids.bin holds token ids as uint16, one pair after the other, source before target. offsets.npy
# holds int64 offsets: where each side begins, and where the last one ends. So the lengths of all
# pairs are differences of offsets, and batches can be planned without reading a token. Beside them
# tokenizer.json, held_out.json, and manifest.json, which is written last: without it a store isn't
# whole.
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transformer_lit.corpora.files import read_json
from transformer_lit.corpora.texts import Splits
from transformer_lit.runtime.progress import bar

FILES = (
    "ids.bin", "offsets.npy", "tokenizer.json", "held_out.json", "manifest.json", ".training.lock",
)  # fmt: skip


class EncodedChunk(NamedTuple):
    """Encoded pairs: ids end to end, lengths (n, 2), a 64-bit key of each pair, and how many pairs
    each rule of cleaning took."""

    ids: np.ndarray
    lengths: np.ndarray
    keys: list[int]
    counts: Counter


def write_tokens(folder: Path, chunks: Iterable[tuple[str, EncodedChunk]]) -> Counter:
    """Write each pair of the chunks once, and count what fell to which rule and what came from
    which source.

    Repeats that stand in different chunks are found here, since only here do all chunks pass."""
    counts, keys = Counter(), set()
    lengths = [np.zeros((0, 2), np.int64)]
    with open(folder / "ids.bin", "wb") as file, bar(None, "encoding", unit="pair") as progress:
        for source, chunk in chunks:
            new = np.array([key not in keys for key in chunk.keys], bool)
            keys.update(chunk.keys)
            counts += chunk.counts
            counts += Counter({"repeated": int((~new).sum()), f"from {source}": int(new.sum())})
            file.write(chunk.ids[np.repeat(new, chunk.lengths.sum(1))].tobytes())
            lengths.append(chunk.lengths[new])
            progress.update(chunk.counts["given"])
    ends = np.concatenate(lengths).ravel().cumsum()
    np.save(folder / "offsets.npy", np.append(0, ends))
    counts["kept"] = len(ends) // 2
    return counts


class TokenStore(Sequence):
    """Encoded pairs on disk, read where they are asked for: store[i] is what
    `Translator.encode_pairs` would give.

    `lengths` (n, 2) is known without a token being read. FileNotFoundError if there is no store,
    ValueError with one sentence if it isn't what was written."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.manifest = read_json(folder / "manifest.json")
        self.offsets = np.load(folder / "offsets.npy", mmap_mode="r")
        self.data = np.memmap(folder / "ids.bin", np.uint16, "r")
        if len(self.data) != self.offsets[-1]:
            raise ValueError(
                f"{folder / 'ids.bin'} has {len(self.data):,} tokens, and"
                f" {self.offsets[-1]:,} were written: delete {folder} and prepare it again"
            )
        self.lengths = np.diff(self.offsets).reshape(-1, 2).astype(np.uint16)

    def __len__(self) -> int:
        return len(self.lengths)

    def ids(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        "Source and target ids of pair i, not yet copied."
        if not 0 <= i < len(self):
            raise IndexError(f"pair {i} of {len(self)}")
        start, middle, end = self.offsets[2 * i : 2 * i + 3].tolist()
        return self.data[start:middle], self.data[middle:end]

    def __getitem__(self, i):
        source, target = self.ids(i)
        return source.tolist(), target.tolist()

    def tokenizer(self) -> Path:
        "The file of its subwords."
        return self.folder / "tokenizer.json"

    def held_out(self) -> Splits:
        'The pairs that were kept out: "valid" and "test", and those of each kind of a mixture.'
        splits = read_json(self.folder / "held_out.json")
        return {name: [*map(tuple, splits[name])] for name in splits}

    def record(self, name: str) -> dict:
        """What run.json says of the data: the files behind it, how they were cleaned, and how many
        pairs and tokens are left."""
        inputs = self.manifest["inputs"]
        return {
            "name": name,
            "sha256": hashlib.sha256(json.dumps(inputs).encode()).hexdigest(),
            "train": len(self),
            "counts": self.manifest["counts"],
            "tokens": self.lengths.sum(0).tolist(),
            "inputs": inputs,
            "preparation": self.manifest["effort"],
        }
