"""Notebooks as text: `text.py out NN` writes .run/text/NN_name.py, `text.py in FILE` takes it back.

The text is jupytext's py:percent. Each cell's id stands in its first line, so that ids survive
edits; a new cell without one gets an id from its heading or its first definition. Outputs are never
written into book/."""

import os
import re
import sys
import unicodedata
from pathlib import Path

import jupytext
import nbformat

ROOT = Path(__file__).resolve().parent.parent
TEXT = ROOT / ".run" / "text"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def slug(text: str) -> str:
    text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", text).strip("-")[:48].strip("-")


def name_for(cell) -> str:
    "A readable id from what the cell holds."
    if cell.cell_type == "markdown":
        heading = re.search(r"^#+\s+(.+)$", cell.source, re.M)
        return slug(heading[1]) if heading else "text-" + slug(cell.source[:30])
    defined = re.search(r"^(?:def|class)\s+(\w+)", cell.source, re.M)
    return slug(defined[1].replace("_", "-")) if defined else "code-" + slug(cell.source[:30])


def promote_ids(notebook) -> None:
    "Move ids from the metadata (where py:percent keeps them) to the cells; make every one unique."
    seen = set()
    for cell in notebook.cells:
        wanted = cell.metadata.pop("id", None) or name_for(cell) or cell.cell_type
        cell.metadata.pop("lines_to_next_cell", None)
        unique, n = wanted, 2
        while unique in seen:
            unique, n = f"{wanted}-{n}", n + 1
        seen.add(unique)
        cell["id"] = unique
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None


def replace(target: Path, text: str, source: Path) -> None:
    """Write `text`, made from `source`. Ends with a sentence if what stands there is newer and
    differs: it may hold an edit."""
    newer = target.exists() and target.stat().st_mtime > source.stat().st_mtime
    if newer and target.read_text(encoding="utf-8") != text and not os.environ.get("FORCE"):
        sys.exit(f"{target} is newer than {source} and may hold an edit: FORCE=1 writes over it")
    target.write_text(text, encoding="utf-8")


def text_out(path: Path) -> Path:
    notebook = nbformat.read(path, 4)
    for cell in notebook.cells:
        cell.metadata = {"id": cell.id, **cell.metadata}
    notebook.metadata = {"kernelspec": KERNEL}
    TEXT.mkdir(parents=True, exist_ok=True)
    target = TEXT / f"{path.stem}.py"
    replace(target, jupytext.writes(notebook, fmt="py:percent"), path)
    return target


def text_in(path: Path) -> Path:
    notebook = jupytext.read(path, fmt="py:percent")
    promote_ids(notebook)
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    nbformat.validate(notebook)
    target = ROOT / "book" / f"{path.stem}.ipynb"
    replace(target, nbformat.writes(notebook, indent=1) + "\n", path)
    return target


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[1] not in ("out", "in"):
        sys.exit("text.py out NN, or text.py in FILE.py")
    way, what = sys.argv[1:]
    if way == "in":
        print(text_in(Path(what)))
        return
    found = sorted((ROOT / "book").glob(f"{what}*.ipynb"))
    if len(found) != 1:
        sys.exit(f"{len(found)} chapters begin with {what!r}: name one")
    print(text_out(found[0]))


if __name__ == "__main__":
    main()
