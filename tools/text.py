"""Notebooks as text: `text.py out NN` writes .run/text/NN_name.py, `text.py in FILE` takes it back,
`text.py exercise NN` writes one more exercise into the text, to be filled in.

The text is jupytext's py:percent. Each cell's id stands in its first line, so that ids survive
edits; a new cell without one gets an id from its heading or its first definition. Outputs are never
written into book/."""

import os
import re
import sys
from itertools import chain, count
from pathlib import Path

import jupytext
import nbformat
from chapters import ROOT, chapters
from nbformat.v4 import new_code_cell, new_markdown_cell

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
HIDDEN = {"tags": ["remove-cell"]}
FOLDED = {
    "cellView": "form",
    "mystnb": {"code_prompt_show": "Solution"},
    "tags": ["solution", "hide-cell"],
}
TASK = """\
### Exercise {n}.{k} · A title

What to write, and what it returns.

<details><summary>Hint</summary>

One step, not the answer.

</details>"""
CHECK = '''\
def check_{n}_{k}(answer):
    assert answer(2) == 4, "the likely mistake, as a question"'''
START = """\
def exercise_{n}_{k}(x): ...

attempt(check_{n}_{k}, exercise_{n}_{k})"""
SOLUTION = """\
def exercise_{n}_{k}_solution(x):
    return 2 * x


attempt(check_{n}_{k}, exercise_{n}_{k}_solution)"""
PLANTED = """\
planted(check_{n}_{k}, exercise_{n}_{k}_solution, {{
    "the likely mistake": lambda x: x}})"""


def name_for(cell) -> str:
    "A readable id from what the cell holds."
    named = re.search(r"^(?:#+ +(.+)|(?:def|class) (\w+))", cell.source, re.M)
    words = named[1] or named[2] if named else f"{cell.cell_type} {cell.source[:30]}"
    return re.sub(r"[^a-z0-9]+", "-", words.lower())[:48].strip("-") or cell.cell_type


def with_ids(notebook):
    "The notebook with unique ids, moved from the metadata, where py:percent keeps them."
    taken: set[str] = set()
    for cell in notebook.cells:
        cell.metadata.pop("lines_to_next_cell", None)
        wanted = cell.metadata.pop("id", "") or name_for(cell)
        others = (f"{wanted}-{n}" for n in count(2))
        cell["id"] = next(name for name in chain([wanted], others) if name not in taken)
        taken.add(cell.id)
    return notebook


def write(target: Path, text: str, source: Path) -> None:
    """Write `text`, made from `source`. Ends with a sentence if what stands there is newer and
    differs: it may hold an edit."""
    newer = target.exists() and target.stat().st_mtime > source.stat().st_mtime
    if newer and target.read_text("utf-8") != text and not os.environ.get("FORCE"):
        sys.exit(f"{target} is newer than {source} and may hold an edit: FORCE=1 writes over it")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, "utf-8")
    print(target)


def as_text(notebook) -> str:
    for cell in notebook.cells:
        cell.metadata = {"id": cell.id, **cell.metadata}
    notebook.metadata = {"kernelspec": KERNEL}
    return jupytext.writes(notebook, fmt="py:percent")


def from_text(path: Path):
    notebook = with_ids(jupytext.read(path, fmt="py:percent"))
    about = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    notebook |= {"metadata": nbformat.from_dict(about), "nbformat": 4, "nbformat_minor": 5}
    nbformat.validate(notebook)
    return notebook


def with_exercise(notebook, n: int):
    "The notebook with one more exercise behind the others."
    texts = [cell.source for cell in notebook.cells]
    k = len(re.findall(rf"^### Exercise {n}\.", "\n".join(texts), re.M)) + 1
    after = r"^## (Three questions|Further reading)"
    place = next(i for i, text in enumerate(texts) if re.search(after, text, re.M))
    cells = [new_markdown_cell(TASK, id=f"exercise-{n}-{k}")]
    cells.append(new_code_cell(CHECK, id=f"check-{n}-{k}", metadata=HIDDEN))
    cells.append(new_code_cell(START, id=f"exercise-{n}-{k}-start"))
    cells.append(new_code_cell(SOLUTION, id=f"solution-{n}-{k}", metadata=FOLDED))
    cells.append(new_code_cell(PLANTED, id=f"planted-{n}-{k}", metadata=HIDDEN))
    for cell in cells:
        cell.source = cell.source.format(n=n, k=k)
    notebook.cells[place:place] = cells
    return notebook


def main() -> None:
    way, what = sys.argv[1:]
    if way == "in":
        path = Path(what)
        text = nbformat.writes(from_text(path), indent=1) + "\n"
        return write(ROOT / "book" / f"{path.stem}.ipynb", text, path)
    found = chapters([what])
    if len(found) != 1:
        sys.exit(f"{len(found)} chapters begin with {what!r}: name one")
    text = ROOT / ".run" / "text" / f"{found[0].stem}.py"
    notebook = nbformat.read(found[0], 4)
    if way == "exercise":
        notebook = with_exercise(from_text(text) if text.exists() else notebook, int(what))
        text.unlink(missing_ok=True)
    write(text, as_text(notebook), found[0])


if __name__ == "__main__":
    main()
