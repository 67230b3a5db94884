"""Which English sentences a translator has trained on, told by four bytes of each one's hash."""

# A right answer to a sentence that stood in training shows memory; to one that did not, it shows
# more. The training sentences themselves are not the book's to ship. Four bytes of each one's hash
# are enough to say of any sentence whether it was there, and wrong about one unseen sentence in
# some forty thousand.
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from transformer_lit.data import sentence_key, tidy
from transformer_lit.corpora.files import shipped


def fingerprint(english: str) -> bytes:
    "Four bytes of a sentence's hash; case and end marks don't count."
    key = sentence_key(tidy(english)).encode()
    return hashlib.sha256(key).digest()[:4]


def save_seen(pairs: Iterable[tuple[str, str]], folder: str | Path) -> None:
    "The fingerprints of all English sentences, to `folder`/seen.bin."
    marks = {fingerprint(english) for english, _ in pairs}
    (Path(folder) / "seen.bin").write_bytes(b"".join(sorted(marks)))
    fingerprints.cache_clear()


@cache
def fingerprints(folder: Path) -> frozenset[bytes]:
    "What `save_seen` wrote."
    held = (folder / "seen.bin").read_bytes()
    return frozenset(held[i : i + 4] for i in range(0, len(held), 4))


def was_seen(english: str, folder: str | Path | None = None) -> bool:
    "Did the translator in `folder` train on this English sentence? None: the one that ships."
    folder = folder or shipped("data/checkpoints/tatoeba-fr")
    return fingerprint(english) in fingerprints(Path(folder))
