"""What an author's tools do with a chapter: its text and back without a loss, its execution and
what comes of it."""

import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import chapters  # noqa: E402
import execute  # noqa: E402
import text  # noqa: E402
from helpers import one_sentence  # noqa: E402

NOTEBOOKS = sorted((ROOT / "book").glob("*.ipynb"))


def notebook(*cells):
    "(id, source) of each; code, unless the source begins with a word of prose."
    kinds = {True: nbformat.v4.new_markdown_cell, False: nbformat.v4.new_code_cell}
    made = [kinds[source.startswith("#")](source, id=name) for name, source in cells]
    return nbformat.v4.new_notebook(cells=made)


@pytest.fixture
def project(tmp_path, monkeypatch):
    "An empty project for the tools: `project(*cells)` writes its chapter 50."
    for module in (chapters, text, execute, execute.stamps):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(execute, "OUT", tmp_path / "out")
    monkeypatch.delenv("FORCE", raising=False)
    (tmp_path / "book").mkdir()
    (tmp_path / "requirements.txt").write_text("numpy==2.0\n")
    execute.stamps.content.cache_clear()

    def write(*cells):
        path = tmp_path / "book" / "50_new.ipynb"
        nbformat.write(notebook(*cells), path)
        return path

    yield write
    execute.stamps.content.cache_clear()


# A chapter as text --------------------------------------------------------------------------------


def content(path):
    "All of a notebook that the book's files hold."
    return [
        (cell.id, cell.cell_type, cell.source, dict(cell.metadata), cell.get("outputs", []))
        for cell in nbformat.read(path, 4).cells
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_chapter_comes_back_as_it_was(path, tmp_path):
    file = tmp_path / f"{path.stem}.py"
    file.write_text(text.as_text(nbformat.read(path, 4)), "utf-8")
    nbformat.write(text.from_text(file), tmp_path / path.name)
    assert content(tmp_path / path.name) == content(path), "a chapter changes on its way as text"


def run_text(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["text.py", *map(str, words)])
    text.main()


def test_an_edit_is_taken_back_with_its_ids(project, monkeypatch, tmp_path):
    path = project(("title", "# 50 · New"), ("first", "a = 1"))
    run_text(monkeypatch, "out", "50")
    file = tmp_path / ".run/text/50_new.py"
    edited = file.read_text("utf-8").replace("a = 1", "a = 2")
    file.write_text(edited + "\n# %%\ndef added(): ...\n\n# %%\ndef added(): ...\n", "utf-8")
    run_text(monkeypatch, "in", "50")
    cells = content(path)
    assert [cell[2] for cell in cells[:2]] == ["# 50 · New", "a = 2"], "the edit is lost"
    ids = [name for name, *_ in cells]
    assert ids[:3] == ["title", "first", "added"] and len({*ids}) == 4, "ids change with an edit"


@pytest.mark.parametrize("command", ["out", "in"])
def test_an_edit_is_not_written_over(project, monkeypatch, tmp_path, command):
    path = project(("title", "# 50 · New"))
    run_text(monkeypatch, "out", "50")
    file = tmp_path / ".run/text/50_new.py"
    source, target = (path, file) if command == "out" else (file, path)
    edited = target.read_text("utf-8").replace("New", "An edit")
    target.write_text(edited, "utf-8")
    source.write_text(source.read_text("utf-8").replace("New", "Pulled"), "utf-8")
    message = ""
    try:
        run_text(monkeypatch, command, "50")
    except SystemExit as end:
        message = str(end)
    assert target.read_text("utf-8") == edited, "an edit is written over"
    assert target.name in message and one_sentence(message)
    monkeypatch.setenv("FORCE", "1")
    run_text(monkeypatch, command, "50")
    assert "Pulled" in target.read_text("utf-8")


# A chapter's execution ----------------------------------------------------------------------------


def test_other_libraries_are_another_place(project, tmp_path):
    before = execute.here(1)
    (tmp_path / "requirements.txt").write_text("numpy==2.1\n")
    execute.stamps.content.cache_clear()
    assert execute.here(1) != before, "a library has changed, and chapters don't run again"


@pytest.mark.slow
@pytest.mark.parametrize(
    "source, words",
    [
        ("1 / 0", "ZeroDivisionError"),
        ("import warnings\nwarnings.warn('careful')", "careful"),
        ("import os\nos._exit(3)", "died"),
    ],
)
def test_a_chapter_that_fails_is_not_taken_for_done(project, source, words):
    path = project(("good", "print(1)"), ("bad-cell", source))
    for _ in range(2):
        outcome, details = execute.execute(path, force=False, threads=1)
        assert outcome == "FAILED" and words in details
        assert not list((path.parent.parent / "out").glob("*")), "what failed is shown as done"


@pytest.mark.slow
def test_a_chapter_runs_again_when_what_it_depends_on_has_changed(project, tmp_path):
    def outcome(path):
        execute.stamps.content.cache_clear()
        return execute.execute(path, force=False, threads=1)[0]

    path = project(("print", "print(6 * 7)"))
    assert outcome(path) == "executed"
    (cell,) = nbformat.read(tmp_path / "out" / path.name, 4).cells
    assert cell.outputs[0].text == "42\n" and not nbformat.read(path, 4).cells[0].outputs
    assert outcome(path) == "unchanged"
    (tmp_path / "out" / "50_new.json").write_text("{broken off")
    assert outcome(path) == "executed", "an execution that was broken off counts as done"
    assert outcome(project(("print", "print(6 * 8)"))) == "executed"
