"""Notebooks as text: `text.py out NN` writes .run/text/NN_name.py, `text.py in NN` takes it back.

The text is jupytext's py:percent. Each cell's id stands in its first line, so that ids survive
edits; a new cell without one gets an id from its heading or its first definition. Outputs are never
written into book/."""

import os
import re
import sys
from pathlib import Path

import jupytext
import nbformat
from chapters import ROOT, chapters

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def name_for(cell) -> str:
    "A readable id from what the cell holds."
    named = re.search(r"^(?:#+ +(.+)|(?:def|class) (\w+))", cell.source, re.M)
    words = named[1] or named[2] if named else f"{cell.cell_type} {cell.source[:30]}"
    return re.sub(r"[^a-z0-9]+", "-", words.lower())[:48].strip("-") or cell.cell_type


def with_ids(notebook):
    "The notebook with unique ids, moved from the metadata, where py:percent keeps them."
    ids: set[str] = set()
    for cell in sorted(notebook.cells, key=lambda cell: "id" not in cell.metadata):
        cell.metadata.pop("lines_to_next_cell", None)
        name = cell.metadata.pop("id", "") or name_for(cell)
        cell["id"] = f"{name}-{len(ids)}" if name in ids else name
        ids.add(cell.id)
    return notebook


def as_text(notebook) -> str:
    for cell in notebook.cells:
        cell.metadata = {"id": cell.id, **cell.metadata}
    notebook.metadata = {"kernelspec": KERNEL}
    return jupytext.writes(notebook, fmt="py:percent")


def from_text(path: Path):
    notebook = with_ids(jupytext.read(path, fmt="py:percent"))
    about = nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    notebook |= {"metadata": about, "nbformat": 4, "nbformat_minor": 5}
    nbformat.validate(notebook)
    return notebook


def main() -> None:
    command, number = sys.argv[1:]
    [path] = chapters([number]) or sys.exit(f"there is no chapter {number}")
    file = ROOT / f".run/text/{path.stem}.py"
    last = file.with_suffix(".last")  # the text as it was when chapter and text agreed
    text = as_text(nbformat.read(path, 4))
    agreed = last.read_text("utf-8") if last.exists() else ""
    written = file.read_text("utf-8") if file.exists() else text
    target, found = (file, written) if command == "out" else (path, text)
    if written != text and found != agreed and "FORCE" not in os.environ:
        sys.exit(f"{target} may hold an edit: FORCE=1 writes over it")
    if command == "in":
        path.write_text(nbformat.writes(from_text(file), indent=1) + "\n", "utf-8")
        text = as_text(nbformat.read(path, 4))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    last.write_text(text, "utf-8")
    print(target)


if __name__ == "__main__":
    main()
