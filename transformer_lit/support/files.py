"""Files that come with the book, and their hashes."""
import hashlib
from importlib.resources import files
from pathlib import Path


def shipped(name: str) -> Path:
    """A file or folder that comes with the book: "results/..." or "data/...", in a checkout and in an installed package."""
    here = Path(str(files("transformer_lit")))
    folder, _, rest = name.partition("/")
    checkout = here.parent / ("book/results" if folder == "results" else folder)
    root = here / "_shipped" / folder
    return (root if root.exists() else checkout) / rest


def file_hash(path: Path | str) -> str:
    "SHA-256 of a file, as 64 hexadecimal digits, read in pieces so that two gigabytes need no memory."
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()
