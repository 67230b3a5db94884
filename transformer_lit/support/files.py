"""Files that come with the book."""
from importlib.resources import files
from pathlib import Path


def shipped(name: str) -> Path:
    """A file or folder that comes with the book: "results/..." or "data/...", in a checkout and in an installed package."""
    here = Path(str(files("transformer_lit")))
    folder, _, rest = name.partition("/")
    checkout = here.parent / ("book/results" if folder == "results" else folder)
    root = here / "_shipped" / folder
    return (root if root.exists() else checkout) / rest
