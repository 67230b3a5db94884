"""The notebooks as files: clean, exported, linked, and each with its exercises. Nothing is executed
here."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from IPython.core.inputtransformer2 import TransformerManager

ROOT = Path(__file__).resolve().parent.parent
BOOK, PACKAGE = ROOT / "book", ROOT / "transformer_lit"
NOTEBOOKS = sorted(BOOK.glob("*.ipynb"))
CHAPTERS = [path for path in NOTEBOOKS if path.name[:2].isdigit() and int(path.name[:2]) < 90]
TOOLS = Path(sys.executable).parent  # nbdev and ruff of this environment
ADDRESS = re.search(
    r'^Repository = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M
)[1]
DIRECTIVE = re.compile(r"^#\|\s*(\w+)")

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
every_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


def cells(path, kind=None):
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for cell in found:
        cell["source"] = "".join(cell["source"])
        cell["tags"] = cell["metadata"].get("tags", [])
    return [cell for cell in found if kind in (None, cell["cell_type"])]


def visible_prose(path):
    "Markdown without code in it."
    text = "\n\n".join(cell["source"] for cell in cells(path, "markdown"))
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)


@every_notebook
def test_no_outputs_are_committed(path):
    for cell in cells(path, "code"):
        assert not cell["outputs"] and cell["execution_count"] is None, (
            f"cell {cell['id']} holds outputs: take them out (python tools/text.py in ..., or"
            " nbstripout)"
        )


@every_notebook
def test_code_fits_the_page(path):
    for cell in cells(path, "code"):
        wide = [
            line for line in cell["source"].splitlines() if len(line) > 76 and ADDRESS not in line
        ]
        assert (
            not wide
        ), f"cell {cell['id']} has a line of {len(wide[0])} characters, 76 fit the page: {wide[0]}"


@every_notebook
def test_export_stands_first(path):
    """nbdev ignores `#| export` under an ordinary line, without a word; above it only other
    directives may stand."""
    exports = default = 0
    for cell in cells(path, "code"):
        lines = cell["source"].splitlines()
        above = next((i for i, line in enumerate(lines) if not DIRECTIVE.match(line)), len(lines))
        for i, line in enumerate(lines):
            name = DIRECTIVE.match(line.strip())
            if name and name[1] in ("export", "exporti", "exports", "default_exp"):
                assert i < above and line == line.strip(), (
                    f"cell {cell['id']}, line {i + 1}: `{line.strip()}` is not on top of its cell"
                    " and is ignored"
                )
                default += name[1] == "default_exp"
                exports += name[1] != "default_exp"
    assert default == bool(
        exports
    ), f"{default} cells name a module with `#| default_exp`, {exports} cells are exported"


@every_notebook
def test_ids_are_readable(path):
    ids = [cell["id"] for cell in cells(path)]
    assert len(set(ids)) == len(ids), "two cells have the same id"
    assert not [
        i for i in ids if re.fullmatch(r"[0-9a-f]{8}", i)
    ], "a random id: it would stand in the exported file"


def test_the_package_is_the_export(tmp_path):
    """Into an empty package, because a notebook that has lost its `#| default_exp` leaves the old
    module behind."""
    shutil.copytree(BOOK, tmp_path / "book", ignore=shutil.ignore_patterns("results", "_static"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "transformer_lit").mkdir()
    shutil.copy(PACKAGE / "__init__.py", tmp_path / "transformer_lit")
    done = subprocess.run([TOOLS / "nbdev-export"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, f"nbdev-export fails: {done.stderr[-500:]}"
    ours, fresh = (
        {path.name: path.read_bytes() for path in folder.glob("*.py") if path.name != "_modidx.py"}
        for folder in (PACKAGE, tmp_path / "transformer_lit")
    )
    assert set(ours) == set(fresh), (
        f"only in transformer_lit/: {set(ours) - set(fresh)}; only in the export:"
        f" {set(fresh) - set(ours)}"
    )
    stale = [name for name in ours if ours[name] != fresh[name]]
    assert not stale, (
        f"{stale} differ from what the notebooks export: run nbdev-export, and never edit the"
        " package by hand"
    )


def test_ruff_is_content():
    done = subprocess.run(
        [TOOLS / "ruff", "check", "--no-cache", PACKAGE], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def bootstrap(path):
    return next((c["source"] for c in cells(path, "code") if "find_spec" in c["source"]), None)


def test_the_bootstrap_is_the_same_everywhere():
    found = {path.stem: bootstrap(path) for path in NOTEBOOKS}
    missing = [path.stem for path in CHAPTERS if found[path.stem] is None]
    assert not missing, f"no bootstrap cell in {missing}"
    texts = {text for text in found.values() if text}
    assert (
        len(texts) == 1
    ), f"{len(texts)} different bootstrap cells: {sorted(k for k, v in found.items() if v)}"
    text = texts.pop()
    assert not re.search(
        r"\b(torch|numpy)\b", text
    ), "the bootstrap must leave torch and numpy as the machine has them"
    assert (
        f'where = "{ADDRESS}"' in text
    ), f"the bootstrap installs from another address than pyproject.toml's {ADDRESS}"


class Shell:
    "Stands in for IPython: keeps what `%pip` was told."

    def __init__(self, space):
        self.space, self.told = space, []

    def run_line_magic(self, name, line, *_):
        self.told.append(f"%{name} {line}".format(**self.space))


@pytest.mark.parametrize(
    "installed, colab, wheels, home, told",
    [
        (True, False, [], False, None),
        (True, True, ["transformer_lit-0.1.0-py3-none-any.whl"], True, None),
        (False, False, [], True, "pip install -e ."),
        (
            False,
            False,
            ["transformer_lit-0.1.0-py3-none-any.whl"],
            False,
            "pip install transformer_lit-*.whl",
        ),
        (False, True, [], False, "Upload the book's wheel"),
        (False, True, ["other-1.0-py3-none-any.whl"], False, "Upload the book's wheel"),
        (False, True, [], True, "%pip install -q git+https://github.com/owner/name"),
        (
            False,
            True,
            ["transformer_lit-0.1.0-py3-none-any.whl"],
            False,
            "%pip install -q transformer_lit-0.1.0-py3-none-any.whl",
        ),
        (
            False,
            True,
            ["transformer_lit-0.1.0-py3-none-any.whl"],
            True,
            "%pip install -q transformer_lit-0.1.0-py3-none-any.whl",
        ),
    ],
)
def test_the_bootstrap_in_each_place(installed, colab, wheels, home, told, tmp_path, monkeypatch):
    """Installed or not, in Colab or not, with a wheel beside the notebook or not, while the book
    has an address or not."""
    text = bootstrap(NOTEBOOKS[0]).replace(
        ADDRESS, "https://github.com/owner/name" if home else "https://git.example/owner/name"
    )
    monkeypatch.chdir(tmp_path)
    for name in wheels:
        Path(name).touch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if installed else None)
    (
        monkeypatch.setitem(sys.modules, "google.colab", object())
        if colab
        else monkeypatch.delitem(sys.modules, "google.colab", raising=False)
    )
    space = {}
    shell = Shell(space)
    space["get_ipython"] = lambda: shell
    code = compile(TransformerManager().transform_cell(text), "bootstrap", "exec")
    if told and not told.startswith("%"):
        with pytest.raises(ImportError, match=re.escape(told)):
            exec(code, space)
    else:
        exec(code, space)
    assert shell.told == ([told] if told and told.startswith("%") else [])


@every_chapter
def test_a_chapter_begins_with_title_and_bootstrap(path):
    found = cells(path)
    assert re.match(
        rf"# {int(path.name[:2])} · \w", found[0]["source"]
    ), "the first cell is `# N · Title`"
    assert (
        "- **Takes** " in found[0]["source"]
    ), "the first cell's list has a line `- **Takes** ...` that the build fills in"
    code = cells(path, "code")
    assert "find_spec" in code[0]["source"], "the first code cell is the bootstrap"
    assert "export" not in code[0]["source"], "the bootstrap holds %pip and must not be exported"


def test_the_table_of_contents_lists_every_notebook():
    toc = ROOT / "_toc.yml"
    listed = re.findall(r"^\s*(?:- )?(?:file|root): *(\S+)", toc.read_text(encoding="utf-8"), re.M)
    assert yaml.safe_load(toc.read_text(encoding="utf-8"))
    assert len(set(listed)) == len(listed), "a page is listed twice"
    for name in listed:
        assert name == "book/changelog" or list(
            ROOT.glob(f"{name}.*")
        ), (  # the build copies CHANGELOG.md there
            f"_toc.yml lists {name}, and there is no such file"
        )
    notebooks = [name for name in listed if (ROOT / f"{name}.ipynb").exists()]
    assert sorted(notebooks) == sorted(
        f"book/{path.stem}" for path in NOTEBOOKS
    ), "_toc.yml and book/ list other notebooks"
    closing = {
        "book/91_ten_patients": "book/14_copy_task",
        "book/94_cannot_tell": "book/26_three_families",
    }
    numbered = [name for name in notebooks if Path(name).name[0].isdigit() and name not in closing]
    assert numbered == sorted(numbered), "chapters stand in the order of their numbers"
    for name, before in closing.items():
        assert (
            notebooks.index(name) == notebooks.index(before) + 1
        ), f"{name} closes the part that ends with {before}"


@every_notebook
def test_links_lead_somewhere(path):
    for link in re.findall(r"\]\(([^)\s]+)\)", visible_prose(path)):
        if re.match(r"[a-z]+:|#", link):
            continue
        file, _, anchor = link.partition("#")
        target = (BOOK / file).resolve()
        assert target.exists(), f"a link leads to {file}, which does not exist"
        if anchor and target.suffix == ".ipynb":
            heads = re.findall(r"^#+ +(.+)$", visible_prose(target), re.M)
            slugs = {
                re.sub(r"[^\w\s-]", "", head.lower()).strip().replace(" ", "-") for head in heads
            }
            assert anchor.lower() in slugs, f"{file} has no heading #{anchor}"


def prompt(cell):
    "The word on a cell's fold."
    return cell["metadata"].get("mystnb", {}).get("code_prompt_show")


@every_chapter
def test_exercises_have_solutions(path):
    tasks = [
        t
        for c in cells(path, "markdown")
        for t in re.findall(r"^### Exercise ([\d.]+)", c["source"], re.M)
    ]
    solutions = [
        c for c in cells(path, "code") if "solution" in c["tags"] and prompt(c) != "Answer"
    ]
    number = int(path.name[:2])
    assert (
        tasks == [f"{number}.{k + 1}" for k in range(len(tasks))] and len(tasks) >= 2
    ), f"two exercises or more, numbered {number}.1, {number}.2, ...: found {tasks}"
    assert len(solutions) == len(
        tasks
    ), f"{len(tasks)} exercises and {len(solutions)} cells tagged solution"
    for cell in solutions:
        assert (
            "hide-cell" in cell["tags"]
        ), f"solution {cell['id']} is open in the book: tag it hide-cell as well"
        assert (
            prompt(cell) == "Solution" and cell["metadata"].get("cellView") == "form"
        ), f"solution {cell['id']} has lost its label or its fold in Colab"
    planted = [
        c for c in cells(path, "code") if "remove-cell" in c["tags"] and "planted(" in c["source"]
    ]
    assert (
        planted
    ), "at least one exercise asks for code, with wrong answers planted against its check"


@every_chapter
def test_questions_have_answers(path):
    "Three questions at the end, each with a folded cell that computes its answer and asserts it."
    number = int(path.name[:2])
    after = cells(path)
    heads = [
        re.findall(r"^## (.+)$", c["source"], re.M) for c in after if c["cell_type"] == "markdown"
    ]
    answers = [c for c in cells(path, "code") if prompt(c) == "Answer"]
    if ["Three questions"] not in [head[:1] for head in heads]:
        assert not answers, "answers without the heading ## Three questions"
        assert number == 0 or number > 14, "the chapters of parts I and II end with three questions"
        return
    assert [c["id"] for c in answers] == [f"answer-{number}-{k}" for k in (1, 2, 3)]
    for k, answer in enumerate(answers, 1):
        before = after[[c["id"] for c in after].index(answer["id"]) - 1]
        assert before["cell_type"] == "markdown" and re.search(
            rf"^\*\*{k}\.\*\* \S", before["source"], re.M
        ), f"question {k} stands in a cell of its own, before its answer, and begins with **{k}.**"
        assert {"solution", "hide-cell"} <= set(answer["tags"]) and answer["metadata"].get(
            "cellView"
        ) == "form", f"{answer['id']} isn't folded"
        assert re.search(
            r"^\s*assert ", answer["source"], re.M
        ), f"{answer['id']} asserts nothing, so its sentence could be wrong"


@every_notebook
def test_folds_are_closed(path):
    for cell in cells(path, "markdown"):
        for tag in "details", "summary":
            opened, closed = (
                len(re.findall(pattern, cell["source"])) for pattern in (rf"<{tag}\b", rf"</{tag}>")
            )
            assert (
                opened == closed
            ), f"cell {cell['id']}: <{tag}> opens {opened} times and closes {closed} times"


@every_chapter
def test_the_prose_is_plain_markdown(path):
    prose = visible_prose(path)
    directive = re.search(r"^(:::|\{[a-z]+\}`)", prose, re.M)
    assert not directive, "a MyST directive reads badly in Colab and on GitHub: use plain Markdown"
    images = re.findall(r"!\[\s*\]\([^)]*\)", prose)
    assert not images, f"a picture without a description: {images}"
    for cell in cells(path, "code"):
        for call in re.findall(
            r"\bfigures\.(heatmaps?|curves|curve_panels|bars|attention_lines)\(", cell["source"]
        ):
            assert (
                "alt=" in cell["source"]
            ), f"cell {cell['id']}: figures.{call} needs alt=\"a sentence with the finding\""
