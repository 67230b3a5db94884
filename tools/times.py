"""The table of times in CONTRIBUTING.md, from the last execution of each chapter: `times.py` writes
it."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    rows = ["| chapter | seconds | MB |", "|---|---:|---:|"]
    for path in sorted((ROOT / "book").glob("[0-9]*.ipynb")):
        kept = json.loads((ROOT / ".run" / "out" / f"{path.stem}.json").read_text())
        rows.append(f"| `{path.stem}` | {kept['seconds']:.0f} | {kept['megabytes']} |")
    target = ROOT / "CONTRIBUTING.md"
    text = target.read_text(encoding="utf-8")
    made = "<!-- times -->\n" + "\n".join(rows) + "\n<!-- /times -->"
    target.write_text(
        re.sub(r"<!-- times -->.*<!-- /times -->", lambda _: made, text, flags=re.S),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
