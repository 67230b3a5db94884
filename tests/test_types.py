"""What support says of its types is true, as far as a type checker sees; how strict it is stands in
pyproject.toml."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def checked(*words, folder=ROOT):
    "mypy's verdict, without its cache."
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--no-incremental",
            "--no-error-summary",
            "--cache-dir",
            "/dev/null",
            *words,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
    )


def test_the_checker_is_pinned_and_looks_at_support():
    assert "\nmypy==" in (ROOT / "requirements.txt").read_text(
        encoding="utf-8"
    ), "the book's environment needs the type checker"
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    assert settings["files"] == ["transformer_lit/support"] and settings["check_untyped_defs"]


def test_support_is_typed_as_it_says():
    pytest.importorskip("mypy", reason="mypy is missing: make test sets up the environment with it")
    done = checked()
    assert done.returncode == 0, f"the types don't fit:\n{done.stdout}{done.stderr}"


def test_a_wrong_type_is_found(tmp_path):
    "Planted: an argument of the wrong kind, in a call that no test makes."
    pytest.importorskip("mypy", reason="mypy is missing: make test sets up the environment with it")
    file = tmp_path / "wrong.py"
    file.write_text(
        "from transformer_lit.corpora.files import shipped\n\nshipped(3)\n", encoding="utf-8"
    )
    done = checked(str(file))
    assert done.returncode == 1 and 'incompatible type "int"; expected "str"' in done.stdout, (
        done.stdout + done.stderr
    )
