"""Look at a chapter's figures: `peek.py NN` writes .run/peek/NAME_light.html and NAME_dark.html and
prints where they are."""

import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    path = next((ROOT / ".run" / "out").glob(f"{sys.argv[1]}*.ipynb"))
    bodies = []
    for cell in nbformat.read(path, 4).cells:
        for out in cell.get("outputs", []):
            data = out.get("data", {})
            if "text/html" in data:
                bodies.append(f"<p><code>{cell.id}</code></p>{data['text/html']}")
    folder = ROOT / ".run" / "peek"
    folder.mkdir(parents=True, exist_ok=True)
    for theme, colours in (
        ("light", "background:#fff;color:#222"),
        ("dark", "background:#14181e;color:#ced6dd"),
    ):
        target = folder / f"{path.stem}_{theme}.html"
        target.write_text(
            f'<meta charset="utf-8"><body style="{colours};font-family:sans-serif;max-width:720px">'
            + "<hr>".join(bodies),
            encoding="utf-8",
        )
        print(target)


if __name__ == "__main__":
    main()
