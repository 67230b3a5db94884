"""The repository's address stands in pyproject.toml ([project.urls] Repository); this writes it everywhere else.

    python tools/address.py                 say which it is
    python tools/address.py https://...     set it

As long as the book has no home it is a placeholder under .example, and nothing that a reader can click leads there: the built pages
have no link to it, and the chapters' line "Read it rendered" is written when the address is set.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIELD = re.compile(r'^Repository = "([^"]+)"$', re.M)


def address() -> str:
    return FIELD.search((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[1]


def home(of: str | None = None) -> str | None:
    "The address, or None while it is the placeholder."
    of = of or address()
    return None if of.split("/")[2].endswith(".example") else of


def rendered(notebook: dict, where: str | None) -> dict:
    """The notebook with its line on the rendered book, at the end of the first cell's list; without
    the line while there is no home."""
    cell = notebook["cells"][0]
    lines = [
        line
        for line in "".join(cell["source"]).split("\n")
        if not line.startswith("- **Read it rendered** ")
    ]
    if where:
        lines.append(f"- **Read it rendered** in [the book]({where})")
    cell["source"] = "\n".join(lines).splitlines(keepends=True)
    return notebook


def carriers() -> list[Path]:
    "Tracked text files that carry the address."
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    kinds = {".md", ".ipynb", ".toml", ".cff", ".yml", ".bib", ".py"}
    return [ROOT / n for n in names.splitlines() if Path(n).suffix in kinds and (ROOT / n).exists()]


def main() -> None:
    old = address()
    if len(sys.argv) == 1:
        print(old)
        return
    new = sys.argv[1].rstrip("/")
    if not re.fullmatch(r"https://[\w.-]+/[\w.-]+/[\w.-]+", new):
        sys.exit(f"{new!r} is no repository address: write https://host/owner/name")
    for path in carriers():
        text = path.read_text(encoding="utf-8")
        if old in text:
            path.write_text(text.replace(old, new), encoding="utf-8")
            print(path.relative_to(ROOT))
    for path in sorted((ROOT / "book").glob("*.ipynb")):
        notebook = rendered(json.loads(path.read_text(encoding="utf-8")), home(new))
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
