"""What makes a chapter execute again: its code, and the files that it opened. Words don't."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import stamps  # noqa: E402

MODULE = '"Masks."\n\ndef mask(n):\n    "What may be seen."\n    return n + 1  # the diagonal\n'
CELL = 'def f(x):\n    "Says f."\n    return x\nf(1)'


@pytest.fixture
def chapter(tmp_path, monkeypatch):
    monkeypatch.setattr(stamps, "ROOT", tmp_path)
    stamps.content.cache_clear()

    def write(source, name="01_x.ipynb"):
        cells = [nbformat.v4.new_code_cell(source, id="a")]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / name)
        return tmp_path / name

    yield write
    stamps.content.cache_clear()


def put(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    stamps.content.cache_clear()


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        (CELL.replace("return x", "return x + 1"), True),
        (CELL.replace("Says f.", "Other words."), False),
        ("#@title A drawing\n" + CELL + "  # a comment", False),
    ],
)
def test_code_counts_and_words_do_not(chapter, changed, again):
    assert (stamps.own_code(chapter(CELL)) != stamps.own_code(chapter(changed))) == again


def test_words_count_where_a_page_shows_them(chapter):
    shows = CELL + "\nhelp(f)"
    assert stamps.own_code(chapter(shows)) != stamps.own_code(chapter(shows.replace("Says", "Is")))


@pytest.mark.parametrize(
    ("name", "new", "again"),
    [
        ("transformer_lit/masks.py", MODULE.replace("n + 1", "n - 1"), True),
        ("transformer_lit/masks.py", MODULE.replace("What may", "All that may"), False),
        ("data/pocket.tsv", "other", True),
        ("data/checkpoints/pocket/translator.json", "{}", False),
        ("book/results/replication.json", "other", False),
    ],
)
def test_a_file_counts_by_what_it_says(chapter, tmp_path, name, new, again):
    put(tmp_path, name, MODULE if name.endswith(".py") else "{}")
    path = chapter(CELL)
    last = {"code": stamps.own_code(path), "opened": stamps.opened(path, name)}
    assert stamps.unchanged(path, last)
    put(tmp_path, name, new)
    assert stamps.unchanged(path, last) != again


def test_the_weights_of_an_opened_translator_and_new_files_of_a_listed_folder_count(
    chapter, tmp_path
):
    put(tmp_path, "data/checkpoints/pocket/translator.json", "{}")
    put(tmp_path, "data/checkpoints/pocket/model.safetensors", "weights")
    put(tmp_path, "book/results/fair/a.json", "{}")
    path = chapter(CELL)
    trace = "data/checkpoints/pocket/translator.json\nbook/results/fair\n"
    last = {"code": stamps.own_code(path), "opened": stamps.opened(path, trace)}
    for name in "book/results/fair/b.json", "data/checkpoints/pocket/model.safetensors":
        assert stamps.unchanged(path, last)
        put(tmp_path, name, "others")
        assert not stamps.unchanged(path, last)
        last["opened"] = stamps.opened(path, trace)


def test_a_process_and_its_children_note_what_they_open(tmp_path):
    code = (
        "import subprocess, sys; from transformer_lit import schedule\n"
        "subprocess.run([sys.executable, '-c', 'from transformer_lit.corpora.files import shipped;"
        ' shipped("data/pocket.tsv.gz").read_bytes(); list(shipped("results").iterdir())\'])'
    )
    trace = tmp_path / "opened.txt"
    environment = os.environ | {
        "TRANSFORMER_LIT_TRACE": str(trace),
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "tools/traced", ROOT, ROOT / "book"))),
    }
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    lines = trace.read_text(encoding="utf-8").splitlines()
    assert set(lines) >= {
        "transformer_lit/schedule.py",
        "transformer_lit/corpora/files.py",
        "data/pocket.tsv.gz",
        "book/results",
    }
