"""The repository's address stands in pyproject.toml ([project.urls] Repository); this writes it everywhere else.

    python tools/address.py                 check that nothing differs
    python tools/address.py https://...     set it
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIELD = re.compile(r'^Repository = "([^"]+)"$', re.M)


def address() -> str:
    return FIELD.search((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[1]


def carriers() -> list[Path]:
    "Tracked text files that carry the address."
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
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


if __name__ == "__main__":
    main()
