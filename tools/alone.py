"""Each chapter as Colab runs it: `alone.py [NN ...]`.

An empty folder holds one notebook and the book's wheel. Its Python has what the package depends on,
but not the package; a stand-in for `google.colab` is loaded, and no index can be asked. So the
first cell has to install the wheel that lies beside it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import tomllib
from build import make_wheel
from chapters import ROOT, chapters, run_each

HOME = ROOT / ".run" / "alone"
EXECUTE = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], 4)
nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
"""
SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "JUPYTER_PREFER_ENV_PATH": "1",
    "PIP_NO_INDEX": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PYTHONPATH": "",
    "TRANSFORMER_LIT_DATA": "",
}


def libraries() -> Path:
    """The folder with what the package declares as its dependencies and what runs a notebook; the
    package itself is not there."""
    python = HOME / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", HOME / "venv"], check=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needs = sum(project["optional-dependencies"].values(), project["dependencies"])
    install = f"-m pip --quiet install nbclient ipykernel -c {ROOT / 'requirements.txt'}".split()
    subprocess.run([python, *install, *needs], check=True)
    return next((HOME / "venv" / "lib").glob("python*/site-packages"))


def rent(folder: Path, borrowed: Path) -> Path:
    """A small environment that sees the borrowed libraries and takes itself for Colab; returns its
    Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages, python = next((folder / "lib").glob("python*/site-packages")), folder / "bin/python"
    (packages / "google" / "colab").mkdir(parents=True)  # a namespace without files will do
    (packages / "colab.pth").write_text(f"{borrowed}\nimport google.colab\n", "utf-8")
    kernel = folder / "share/jupyter/kernels/python3"
    kernel.mkdir(parents=True)
    command = f"{python} -m ipykernel_launcher -f {{connection_file}}".split()
    about = {"argv": command, "display_name": "alone", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(about), "utf-8")
    return python


def run(borrowed: Path, wheel: Path, path: Path) -> tuple[str, str]:
    'What came of a chapter, and why where that is "FAILED".'
    with TemporaryDirectory() as rented, TemporaryDirectory() as empty:
        command = [rent(Path(rented), borrowed), "-c", EXECUTE, shutil.copy(path, empty)]
        for file in wheel, *wheel.parent.glob("*.zip"):
            shutil.copy(file, empty)
        settings = {**os.environ, **SETTINGS}
        done = subprocess.run(command, cwd=empty, env=settings, capture_output=True, text=True)
        installed = list(Path(rented).glob("lib/python*/site-packages/transformer_lit/__init__.py"))
    if done.returncode:
        return "FAILED", (done.stdout + done.stderr)[-3000:]
    if not installed:
        return "FAILED", "its first cell did not install the wheel, and the chapter ran"
    return "works alone", ""


def main() -> None:
    wheel, borrowed = make_wheel(HOME / "wheel"), libraries()
    run_each(chapters(sys.argv[1:]), lambda path: run(borrowed, wheel, path), 2)


if __name__ == "__main__":
    main()
