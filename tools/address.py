"""The repository's address stands in pyproject.toml ([project.urls] Repository): `address.py` says
which it is, `address.py https://...` writes it everywhere.

As long as the book has no home it is a placeholder under .example, and nothing that a reader can
click leads there: the built pages have no link to it, and the chapters' line "Read it rendered" is
written when the address is set."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
from chapters import ROOT

KINDS = {".md", ".ipynb", ".toml", ".cff", ".yml", ".bib", ".py"}
LINE = "- **Read it rendered** in [the book]({})"


def address() -> str:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    return re.search(r'^Repository = "([^"]+)"$', text, re.M)[1]


def home() -> str | None:
    "The address, or None while it is the placeholder."
    return None if address().split("/")[2].endswith(".example") else address()


def carriers() -> list[Path]:
    "Text files that may carry the address: tracked ones, and new ones that git doesn't ignore."
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    paths = map(ROOT.joinpath, subprocess.check_output(command, cwd=ROOT, text=True).splitlines())
    return [path for path in paths if path.suffix in KINDS and path.exists()]


def set_line(path: Path) -> None:
    "The line on the rendered book, at the end of the first cell's list; none without a home."
    notebook = nbformat.read(path, 4)
    cell = notebook.cells[0]
    lines = [line for line in cell.source.split("\n") if not line.startswith(LINE[:21])]
    cell.source = "\n".join(lines + [LINE.format(home())] * bool(home()))
    path.write_text(nbformat.writes(notebook, indent=1) + "\n", "utf-8")


def main() -> None:
    old, new = address(), "".join(sys.argv[1:]).rstrip("/")
    if not new:
        return print(old)
    if not re.fullmatch(r"https://[\w.-]+/[\w.-]+/[\w.-]+", new):
        sys.exit(f"{new!r} is no repository address: write https://host/owner/name")
    for path in carriers():
        text = path.read_text("utf-8")
        if old in text:
            path.write_text(text.replace(old, new), "utf-8")
            print(path.relative_to(ROOT))
    for path in sorted((ROOT / "book").glob("*.ipynb")):
        set_line(path)


if __name__ == "__main__":
    main()
