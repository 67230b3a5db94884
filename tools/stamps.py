"""What a chapter's outputs depend on: its own code, and the files of the project that its last
execution opened (tools/traced noted them), each with a hash.

Code is its syntax tree: comments, `#@title`, the width of a line and docstrings change nothing, but
for a chapter that shows docstrings or source."""

import ast
import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import nbformat
from IPython.core.inputtransformer2 import TransformerManager

ROOT = Path(__file__).resolve().parent.parent
SHOWS_WORDS = re.compile(r'\bhelp\(|--help\\"|__doc__|getsource|^\w.*\?$', re.M)
RECORD = "book/results/replication."  # of claims: put into the pages by the build


WORDED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def shows_words(path: Path) -> bool:
    return bool(SHOWS_WORDS.search(path.read_text("utf-8")))


def code_of(source: str, worded: tuple = (ast.Module, *WORDED)) -> str:
    "A text of Python without comments and docstrings."
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, worded) and ast.get_docstring(node, clean=False) is not None:
            node.body[0] = ast.Pass()
    return ast.dump(tree)


def cell_code(source: str) -> str:
    """The same of a cell, where IPython's own lines become calls; a string on its last line is
    shown, and so is a last value without a semicolon."""
    lines = [line for line in source.splitlines() if not line.lstrip().startswith("#")]
    quiet = "".join(lines[-1:]).split("  #")[0].rstrip().endswith(";")
    return f"{code_of(TransformerManager().transform_cell(source), WORDED)} {quiet}"


def hashed(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@cache
def content(path: Path, with_words: bool) -> str:
    "The hash of a file, or of the names in a folder; nothing where there is none."
    if path.is_dir():
        return hashed(sorted(p.name for p in path.iterdir() if p.name != "__pycache__"))
    if not path.is_file():
        return ""
    if path.suffix == ".py" and not with_words:
        return hashed([code_of(path.read_text("utf-8"))])
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def own_code(path: Path) -> str:
    "The hash of a chapter's own code."
    cells = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    code = cell_code if not shows_words(path) else str
    return hashed(f"{cell.id} {code(cell.source)}" for cell in cells)


def opened(path: Path, trace: str) -> dict[str, str]:
    "Of each line of a trace, which an execution of the chapter left: the hash of its file."
    lines, with_words = set(trace.splitlines()), shows_words(path)
    # safetensors and tokenizers read a translator's files without Python: its whole folder counts
    for folder in {(ROOT / line).parent for line in lines if line.startswith("data/checkpoints/")}:
        lines |= {str(file.relative_to(ROOT)) for file in folder.iterdir() if file.is_file()}
    if "claims.records" not in path.read_text("utf-8"):
        lines = {line for line in lines if not line.startswith(RECORD)}
    return {line: content(ROOT / line, with_words) for line in sorted(lines)}


def unchanged(path: Path, facts: dict) -> bool:
    "Does everything that the last execution of a chapter depended on stand as it did?"
    return facts.get("code") == own_code(path) and all(
        content(ROOT / line, shows_words(path)) == old for line, old in facts["opened"].items()
    )
