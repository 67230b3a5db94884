"""Each chapter as Colab runs it: `alone.py [NN ...]`.

An empty folder holds one notebook and the book's wheel. Its Python has what the package depends on,
but not the package; a stand-in for `google.colab` is loaded, and no index can be asked. So the
first cell has to install the wheel that lies beside it."""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from build import ROOT, make_wheel

HOME = ROOT / ".run" / "alone"
EXECUTE ="""
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], 4)
nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
"""
KERNEL = (
    '{"argv": ["%s", "-m", "ipykernel_launcher", "-f", "{connection_file}"], "display_name":'
    ' "alone", "language": "python"}'
)


def libraries() -> Path:
    """The folder with what the package declares as its dependencies and what runs a notebook; the
    package itself is not there."""
    programs = HOME / "venv" / "bin"
    if not programs.exists():
        subprocess.run([sys.executable, "-m", "venv", str(HOME / "venv")], check=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needs = (
        project["dependencies"] + project["optional-dependencies"]["serve"]
    )  # the page on serving says to install it
    own = [str(programs / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*own, "install", "-c", str(ROOT / "requirements.txt"), *needs, "nbclient", "ipykernel"],
        check=True,
    )
    subprocess.run(
        [*own, "uninstall", "--yes", "transformer-lit"], check=True
    )  # an older trial has installed it
    return next((HOME / "venv" / "lib").glob("python*/site-packages"))


def rent(folder: Path, borrowed: Path) -> Path:
    """A small environment that sees the borrowed libraries and takes itself for Colab; returns its
    Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = next((folder / "lib").glob("python*/site-packages"))
    (packages / "google" / "colab").mkdir(parents=True)
    (packages / "google" / "colab" / "__init__.py").touch()
    (packages / "colab.pth").write_text(f"{borrowed}\nimport google.colab\n", encoding="utf-8")
    kernel = folder / "share" / "jupyter" / "kernels" / "python3" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    kernel.write_text(KERNEL.replace("%s", str(folder / "bin" / "python")), encoding="utf-8")
    return folder / "bin" / "python"


def run(borrowed: Path, wheel: Path, path: Path) -> str | None:
    "None, or why the chapter failed."
    with tempfile.TemporaryDirectory() as rented, tempfile.TemporaryDirectory() as empty:
        python = rent(Path(rented), borrowed)
        shutil.copy(wheel, empty)
        copy = shutil.copy(path, empty)
        environment = {
            k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "TRANSFORMER_LIT_DATA")
        }
        done = subprocess.run(
            [str(python), "-c", EXECUTE, copy],
            cwd=empty,
            capture_output=True,
            text=True,
            env={
                **environment,
                "OMP_NUM_THREADS": "1",
                "PYDEVD_DISABLE_FILE_VALIDATION": "1",
                "JUPYTER_PREFER_ENV_PATH": "1",
                "PIP_NO_INDEX": "1",
                "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            },
        )
        installed = list(Path(rented).glob("lib/python*/site-packages/transformer_lit/__init__.py"))
    if done.returncode:
        return (done.stdout + done.stderr)[-3000:]
    return (
        None
        if installed
        else "its first cell did not install the wheel, and the chapter ran nevertheless"
    )


def main() -> None:
    wheel, borrowed = make_wheel(HOME / "wheel"), libraries()
    paths = [
        p
        for p in sorted((ROOT / "book").glob("[0-9]*.ipynb"))
        if not sys.argv[1:] or any(p.name.startswith(n) for n in sys.argv[1:])
    ]
    failed = 0
    with ThreadPoolExecutor(2) as pool:
        for path, trouble in zip(paths, pool.map(lambda p: run(borrowed, wheel, p), paths)):
            print(
                f"{path.stem}:"
                f" {'alone, it works' if trouble is None else 'FAILED' + chr(10) + trouble}",
                flush=True,
            )
            failed += trouble is not None
    print(f"{len(paths) - failed} passed, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
