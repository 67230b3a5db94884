"""A reader's two files, a notebook and the wheel, run by themselves. `make alone` does this with
every chapter."""

import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from transformer_lit.serving.files import APART

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
pytestmark = pytest.mark.slow
NOTEBOOK = ROOT / "book" / "A3_replication.ipynb"  # the shortest


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    from build import make_wheel

    return make_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def borrowed(tmp_path_factory):
    "This environment's libraries without the package."
    folder = tmp_path_factory.mktemp("libraries")
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if "transformer_lit" not in entry.name:
            (folder / entry.name).symlink_to(entry)
    return folder


def test_the_first_cell_installs_the_wheel_beside_it(borrowed, wheel):
    from alone import run

    assert run(borrowed, wheel, NOTEBOOK) == ("works alone", "")


def test_the_wheel_carries_what_the_chapters_read(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    package = {p.relative_to(ROOT).as_posix() for p in (ROOT / "transformer_lit").rglob("*.py")}
    package -= {"transformer_lit/_modidx.py"}  # nbdev's, not of use to anybody
    package |= {
        p.relative_to(ROOT / "book").as_posix() for p in (ROOT / "book/litbook").rglob("*.py")
    }
    shipped = {
        f"transformer_lit/_shipped/{to}/{p.relative_to(ROOT / folder).as_posix()}"
        for folder, to in (
            ("data", "data"),
            ("book/results", "results"),
            ("book/web/views", "web/views"),
        )
        for p in (ROOT / folder).rglob("*")
        if p.is_file() and p.parent.name not in APART
    }
    assert package | shipped <= names, f"the wheel lacks {sorted((package | shipped) - names)[:5]}"


def test_the_wheel_is_the_same_bytes_each_time(wheel, tmp_path, monkeypatch):
    from build import make_wheel

    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    assert make_wheel(tmp_path).read_bytes() == wheel.read_bytes()
