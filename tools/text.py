"""Notebooks as text: `text.py out NN` writes .run/text/NN_name.py, `text.py in FILE` takes it back,
`text.py exercise NN` writes one more exercise into the text, to be filled in.

The text is jupytext's py:percent. Each cell's id stands in its first line, so that ids survive
edits; a new cell without one gets an id from its heading or its first definition. Outputs are never
written into book/."""

import os
import re
import sys
from pathlib import Path

import jupytext
import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell

ROOT = Path(__file__).resolve().parent.parent
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
CHECK = """\
def check_{n}_{k}(answer):
    assert answer(2) == 4, "the likely mistake, as a question"
    """
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
    words = (named[1] or named[2]) if named else f"{cell.cell_type} {cell.source[:30]}"
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:48].strip("-")


def with_ids(notebook):
    "The notebook with unique ids, moved from the metadata, where py:percent keeps them."
    taken: set[str] = set()
    for cell in notebook.cells:
        cell.metadata.pop("lines_to_next_cell", None)
        wanted = cell.metadata.pop("id", None) or name_for(cell) or cell.cell_type
        others = (f"{wanted}-{n}" for n in range(2, len(notebook.cells) + 2))
        cell["id"] = next(name for name in (wanted, *others) if name not in taken)
        taken.add(cell.id)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def replace(target: Path, text: str, source: Path) -> None:
    """Write `text`, made from `source`. Ends with a sentence if what stands there is newer and
    differs: it may hold an edit."""
    newer = target.exists() and target.stat().st_mtime > source.stat().st_mtime
    if newer and target.read_text(encoding="utf-8") != text and not os.environ.get("FORCE"):
        sys.exit(f"{target} is newer than {source} and may hold an edit: FORCE=1 writes over it")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    print(target)


def as_text(notebook) -> str:
    for cell in notebook.cells:
        cell.metadata = {"id": cell.id, **cell.metadata}
    notebook.metadata = {"kernelspec": KERNEL}
    return jupytext.writes(notebook, fmt="py:percent")


def from_text(path: Path):
    notebook = with_ids(jupytext.read(path, fmt="py:percent"))
    about = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    notebook.metadata = nbformat.from_dict(about)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    nbformat.validate(notebook)
    return notebook


def with_exercise(notebook, n: int):
    "The notebook with one more exercise behind the others."
    texts = [cell.source for cell in notebook.cells]
    k = len(re.findall(rf"^### Exercise {n}\.", "\n".join(texts), re.M)) + 1
    after = r"^## (Three questions|Further reading)"
    place = next(i for i, text in enumerate(texts) if re.search(after, text, re.M))
    parts = [
        (new_markdown_cell, f"exercise-{n}-{k}", TASK, {}),
        (new_code_cell, f"check-{n}-{k}", CHECK, HIDDEN),
        (new_code_cell, f"exercise-{n}-{k}-start", START, {}),
        (new_code_cell, f"solution-{n}-{k}", SOLUTION, FOLDED),
        (new_code_cell, f"planted-{n}-{k}", PLANTED, HIDDEN),
    ]
    notebook.cells[place:place] = [
        new(text.format(n=n, k=k).rstrip(), id=name, metadata=metadata)
        for new, name, text, metadata in parts
    ]
    return notebook


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[1] not in ("out", "in", "exercise"):
        sys.exit("text.py out NN, text.py in FILE.py, or text.py exercise NN")
    way, what = sys.argv[1:]
    if way == "in":
        path = Path(what)
        target = ROOT / "book" / f"{path.stem}.ipynb"
        replace(target, nbformat.writes(from_text(path), indent=1) + "\n", path)
        return
    found = sorted((ROOT / "book").glob(f"{what}*.ipynb"))
    if len(found) != 1:
        sys.exit(f"{len(found)} chapters begin with {what!r}: name one")
    text = ROOT / ".run" / "text" / f"{found[0].stem}.py"
    if way == "exercise":
        notebook = from_text(text) if text.exists() else nbformat.read(found[0], 4)
        text.unlink(missing_ok=True)
        replace(text, as_text(with_exercise(notebook, int(what))), found[0])
    else:
        replace(text, as_text(nbformat.read(found[0], 4)), found[0])


if __name__ == "__main__":
    main()
