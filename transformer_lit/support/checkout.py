"""Where the book's own checkout is: a commit is asked of it, and not of the folder one happens to stand in."""
from importlib.resources import files
from pathlib import Path


def checkout() -> Path | None:
    "The folder of the clone that this package is imported from; None where it was installed without one."
    home = Path(str(files("transformer_lit"))).parent
    return home if (home / ".git").exists() else None
