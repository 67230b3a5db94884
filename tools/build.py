"""Render the book from the executed chapters: `build.py` puts it together in .run/site and builds
_build/html.

Nothing is executed here; tools/execute.py has done that. The working tree is only read.
"""

import ast
import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import engine_models
import nbformat
import torch
import yaml
from address import home

from litbook import claims, figures
from litbook.live import inside
from transformer_lit.corpora.files import sha256_file, shipped
from litbook.live.first_page import SHIPPED, any_sentence, running_sentence
from transformer_lit.translation import Translator

ROOT = Path(__file__).resolve().parent.parent
SITE, OUT, BUILT = ROOT / ".run" / "site", ROOT / ".run" / "out", ROOT / "_build"


# chapter -> the cell whose figure stands on its card; the first small one where none is named
KEY_FIGURES = {
    "01": "states",
    "02": "figure-scale",
    "03": "figure-four-steps",
    "04": "promise",
    "05": "clocks",
    "06": "norm-places",
    "07": "mechanism",
    "08": "lines-bridge",
    "09": "draw-tying",
    "10": "shift-drawing",
    "11": "promise",
    "12": "timeline",
    "13": "tree-drawn",
    "14": "leak-figure",
    "15": "growing-figure",
    "16": "mechanism-figure",
    "17": "mechanism",
    "18": "loss-figure",
    "19": "narrow-figure",
    "20": "by-head-figure",
    "21": "curves-figure",
    "22": "promise",
    "23": "problem-figure",
    "24": "mask-figure",
    "25": "bends-figure",
    "26": "readers",
}
LARGEST = 25_000  # letters of such a drawing


def measured(name: str) -> str:
    "The box's line on time and memory, from the chapter's last execution."
    kept = json.loads((OUT / f"{name}.json").read_text())
    threads = "one thread" if kept["threads"] == 1 else f"{kept['threads']} threads"
    return (
        f"- **Takes** {kept['seconds']:.0f} seconds on {threads} and {kept['megabytes']:,} MB,"
        " measured by this build"
    )


def make_wheel(folder: Path) -> Path:
    "The package as one file; the same bytes whenever it is made, and nothing is fetched for it."
    for older in folder.glob("transformer_lit-*.whl"):
        older.unlink()
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--quiet",
            "--disable-pip-version-check",
            "wheel",
            "--no-deps",
            "--no-build-isolation",
            "--no-cache-dir",
            "--wheel-dir",
            str(folder),
            str(ROOT),
        ],
        check=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1767225600"},
    )
    return next(folder.glob("transformer_lit-*.whl"))


def size_of(path: Path) -> str:
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def downloads(name: str, wheel: Path) -> str:
    """The box's line on running the chapter elsewhere: its notebook and the package, as files that
    lie beside the pages."""
    notebook = ROOT / "book" / f"{name}.ipynb"
    return (
        f'- **Run it:** <a href="../downloads/{name}.ipynb" download>this notebook</a>'
        f' ({size_of(notebook)}) and <a href="../downloads/{wheel.name}" download>the package</a>'
        f' ({size_of(wheel)}), <a href="preface.html#in-colab">in five steps</a>'
    )


def merged(path: Path, wheel: Path):
    """The committed chapter with the outputs of its last execution; widgets need a kernel and stay
    out."""
    notebook, done = nbformat.read(path, 4), nbformat.read(OUT / path.name, 4)
    outputs = {cell.id: cell.get("outputs", []) for cell in done.cells}
    if not {cell.id for cell in notebook.cells if cell.cell_type == "code"} <= set(outputs):
        sys.exit(f"{path.name} has changed since it was executed: make book")
    notebook.cells[0].source += f"\n{downloads(path.stem, wheel)}"
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = outputs[cell.id]
            for out in cell.outputs:
                for kind in [k for k in out.get("data", {}) if "widget" in k]:
                    del out["data"][kind]
                if "claim" in out.get("metadata", {}):  # the record may be newer than the execution
                    out["data"] = claims.rendered(claims.again(out["metadata"]["claim"]))
        else:
            cell.source = re.sub(
                r"^- \*\*Takes\*\* [^;\n]*", lambda _: measured(path.stem), cell.source, flags=re.M
            )
    return notebook


def modules() -> dict[str, Path]:
    "name -> file, for every module of the package and of the kit of its pages; rooms last."
    found = {}
    for folder, prefix in (("transformer_lit", ""), ("book/litbook", "litbook/")):
        for path in (ROOT / folder).rglob("[a-z]*.py"):
            name = path.relative_to(ROOT / folder).with_suffix("").as_posix()
            found[prefix + name] = path
    return dict(sorted(found.items(), key=lambda item: ("/" in item[0], item[0])))


def chapter_of(code: str) -> str | None:
    "The notebook that a module is exported from."
    origin = re.search(r"File to edit: \.\./book/([\w.]+\.ipynb)", code)
    return origin and origin[1]


def source_pages() -> None:
    """One page per module, so that a badge leads to the exported file without leaving the book."""
    for name, path in modules().items():
        code = path.read_text(encoding="utf-8")
        origin = chapter_of(code)
        title = f"# `{name}.py`\n\n"
        title += f"Exported from [this chapter](../{origin}).\n\n" if origin else ""
        page = SITE / "book" / "source" / f"{name}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"{title}```python\n{code.rstrip()}\n```\n", encoding="utf-8")


def table_of_rooms() -> str:
    """The rows of the API page for the modules that no chapter exports: each with the first line of
    its docstring."""
    rows = []
    for name, path in modules().items():
        code = path.read_text(encoding="utf-8")
        if not chapter_of(code):
            words, _, _ = (ast.get_docstring(ast.parse(code)) or "").partition("\n\n")
            words = " ".join(words.split()).replace("|", "\\|")
            rows.append(f"| [`{name}.py`](source/{name}.md) | {words} |")
    return "\n".join(rows)


def minutes(path: Path) -> int:
    """How long a chapter takes to read: 200 words and 20 lines of code a minute, exercises and
    folded cells apart."""
    words = lines = 0
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type == "markdown":
            words += len(cell.source.split())
        elif not {"solution", "remove-cell", "remove-input", "hide-input"} & set(
            cell.metadata.get("tags", [])
        ):
            lines += len(cell.source.splitlines())
    return round(words / 200 + lines / 20)


def chapters(first: int, last: int) -> list[Path]:
    return [
        path
        for path in sorted((ROOT / "book").glob("[0-9]*.ipynb"))
        if first <= int(path.name[:2]) <= last
    ]


def hours(first: int, last: int) -> str:
    return f"about {round(sum(map(minutes, chapters(first, last))) / 60)} hours of reading"


def thumbnail(path: Path) -> str:
    """The figure that a card shows of a chapter, as it was drawn in its last execution: a phone's
    drawing, because it is small."""
    first, wanted = "", KEY_FIGURES.get(path.stem[:2])
    for cell in nbformat.read(OUT / path.name, 4).cells:
        for output in cell.get("outputs", []):
            page = "".join(output.get("data", {}).get("text/html", ""))
            found = re.search(
                r'<figure class="tl-figure".*?aria-label="([^"]*)".*?</figure>', page, re.S
            )
            drawn = (
                re.findall(r"<svg.*?</svg>", found[0].rpartition('class="tl-phone"')[2], re.S)
                if found
                else []
            )
            if drawn and "data-chapter" not in drawn[0] and len(drawn[0]) < LARGEST:
                alt = re.match(r".*?[.!?](?= |$)|.*", html.unescape(found[1]), re.S)[0]
                small = drawn[0].replace("<svg ", '<svg preserveAspectRatio="xMinYMid" ', 1)
                shown = (
                    '<span class="tl-thumb" role="img"'
                    f' aria-label="{html.escape(alt)}">{small}</span>'
                )
                if cell.id == wanted:
                    return shown
                first = first or shown
    return first


def card(path: Path) -> str:
    "A chapter in short: its figure, its title, its first sentence, its minutes."
    title, _, lead = nbformat.read(path, 4).cells[0].source.partition("\n")
    lead = re.sub(r"[*_`]", "", lead.strip().split("\n\n")[0].replace("\n", " "))
    return (
        '<a class="tl-card"'
        f' href="{path.stem}.html">{thumbnail(path)}<b>{html.escape(title.lstrip("# "))}</b><span>{html.escape(lead)}</span><small>{minutes(path)}'
        " minutes of reading</small></a>"
    )


def dress_part_pages() -> None:
    "The drawing with the part lit, and its chapters as cards."
    for page in sorted((SITE / "book").glob("part_*.md")):
        text = page.read_text(encoding="utf-8")
        text = re.sub(
            r"<!-- architecture ([\w ]+) -->",
            lambda found: figures.architecture(
                found[1].split(),
                alt="The Transformer, with what this part is about in colour.",
                caption=(
                    "This part is about the whole model."
                    if found[1] == "all"
                    else "What this part is about, in colour."
                ),
            ).html,
            text,
        )
        text = re.sub(
            r"<!-- cards (\d+) (\d+) -->",
            lambda found: '<div class="tl-cards tl-cards-wide">'
            + "".join(card(path) for path in chapters(int(found[1]), int(found[2])))
            + "</div>",
            text,
        )
        page.write_text(text, encoding="utf-8")


def megabytes(model: str) -> str:
    "What the page fetches when it is asked for that translator."
    return (
        f"{sum(part.stat().st_size for part in (SITE / 'beside' / 'engine').glob(f'model-{model}-*.js')) / 1e6:.0f} MB"
    )


def versioned(text: str) -> str:
    """The page with a version behind each script of its own, so that a browser takes no older one
    from its cache; live.js hands its own to engine.js."""

    def address(found: re.Match) -> str:
        paths = [SITE / "book" / "web" / "static" / found[1]] + [
            SITE / "beside" / "engine" / "engine.js"
        ] * (found[1] == "live.js")
        return f'src="../_static/{found[1]}?v={"".join(sha256_file(path)[:8] for path in paths)}"'

    return re.sub(r'src="\.\./_static/([\w-]+\.js)"', address, text)


def dress_first_page() -> None:
    """The running sentence, said by the pocket translator, and some said by each of the shipped
    ones; hours; the architecture as contents."""
    index = SITE / "book" / "index.md"
    text = index.read_text(encoding="utf-8")
    one, *others = (
        (Translator.from_pretrained(shipped(f"data/checkpoints/{name}")), megabytes(name))
        for name in ("pocket", *SHIPPED)
    )
    for place, name, dressed in (
        ("running sentence", "first.html", lambda view: running_sentence(view, *one)),
        ("any sentence", "ask.html", lambda view: any_sentence(view, dict(zip(SHIPPED, others)))),
    ):
        template = SITE / "book" / "web" / "static" / name
        view = dressed(template.read_text(encoding="utf-8"))
        template.unlink()
        text = text.replace(f"<!-- {place} -->", view.strip())
    text = re.sub(
        r"<!-- hours (\d+) (\d+) -->", lambda found: hours(int(found[1]), int(found[2])), text
    )
    drawn = figures.architecture(
        alt=(
            "The whole Transformer: the encoder on the left reads, the decoder on the right says;"
            " each box leads to its chapter."
        ),
        caption="The Transformer of 2017. Each box leads to the chapter that builds it.",
    )
    index.write_text(versioned(text.replace("<!-- architecture -->", drawn.html)), encoding="utf-8")


def inside_text(text: str, size: Callable[[str], str]) -> str:
    "The page with its numbers in their places."
    return re.sub(r"{{size ([\w-]+)}}", lambda found: size(found[1]), text).replace(
        "{{pads}}", str(inside.PADS)
    )


def dress_inside() -> None:
    """The page Inside the model: what it shows before its model is loaded, as a script beside it,
    and the sizes of what it would load."""
    page, static = SITE / "book" / "inside.md", SITE / "book" / "web" / "static"
    (static / "inside-record.js").write_text(
        inside.script(Translator.from_pretrained(shipped("data/checkpoints/pocket"))),
        encoding="utf-8",
    )
    page.write_text(
        versioned(inside_text(page.read_text(encoding="utf-8"), megabytes)), encoding="utf-8"
    )


def assemble() -> None:
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(
        ROOT / "book",
        SITE / "book",
        ignore=shutil.ignore_patterns("*.ipynb", "__pycache__", ".ipynb_checkpoints", "results"),
    )
    wheel = make_wheel(
        SITE / "beside" / "downloads"
    )  # Sphinx copies what lies in `beside` into the built book as it is
    engine_models.write(SITE / "beside" / "engine")
    for path in sorted((ROOT / "book").glob("*.ipynb")):
        shutil.copy(path, wheel.parent)
        nbformat.write(merged(path, wheel), SITE / "book" / path.name)
    preface = SITE / "book" / "preface.md"
    link = f': <a href="../downloads/{wheel.name}" download>{wheel.name}</a> ({size_of(wheel)})'
    preface.write_text(
        preface.read_text(encoding="utf-8").replace("<!-- wheel -->", link), encoding="utf-8"
    )
    dress_first_page()
    dress_part_pages()
    dress_inside()
    source_pages()
    api = SITE / "book" / "api.md"
    api.write_text(
        api.read_text(encoding="utf-8").replace("<!-- rooms -->", table_of_rooms()),
        encoding="utf-8",
    )
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    for part in toc["parts"]:
        for chapter in part["chapters"]:
            if chapter["file"] == "book/api":
                chapter["sections"] = [{"file": f"book/source/{name}"} for name in modules()]
    (SITE / "_toc.yml").write_text(yaml.safe_dump(toc, sort_keys=False), encoding="utf-8")
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    config["sphinx"]["config"]["repository_address"] = home() or ""
    config["sphinx"]["config"]["html_extra_path"] = ["beside"]
    (SITE / "_config.yml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    shutil.copy(ROOT / "CHANGELOG.md", SITE / "book" / "changelog.md")


def main() -> None:
    missing = [p.name for p in (ROOT / "book").glob("*.ipynb") if not (OUT / p.name).exists()]
    if missing:
        sys.exit(f"not executed yet: {', '.join(missing)}; run make book, or tools/execute.py")
    torch.set_num_threads(
        1
    )  # one sentence at a time: on a busy machine two threads wait for each other thirty times as long
    assemble()
    shutil.rmtree(BUILT / "html", ignore_errors=True)  # a page that was renamed doesn't stay
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "jupyter-book"),
            "build",
            "--all",
            "--warningiserror",
            "--keep-going",
            "--path-output",
            str(ROOT),
            str(SITE),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1"},
    )
    said = done.stdout + done.stderr
    (ROOT / ".run" / "build.log").write_text(said, encoding="utf-8")
    noise = re.compile(r"WARNING|ERROR|Error|Traceback")
    if done.returncode:
        print(
            "\n".join(line for line in said.splitlines() if noise.search(line))[-6000:]
            or said[-6000:]
        )
        sys.exit("the book was not built; the whole log is in .run/build.log")
    print(f"the book: {BUILT / 'html' / 'index.html'}")


if __name__ == "__main__":
    main()
