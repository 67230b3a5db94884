"""Each chapter alone, as Colab opens it: `alone.py [NN ...]`.

A wheel is built and installed into an environment of its own (.run/alone), with its dependencies and what runs a
notebook and nothing else; each chapter is copied into an empty folder and executed there.
"""
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".run" / "alone"


def install() -> Path:
    "The environment, with a fresh wheel in it; returns its folder of programs."
    programs = HOME / "venv" / "bin"
    shutil.rmtree(HOME / "wheel", ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(HOME / "wheel"), str(ROOT)], check=True)
    wheel = next((HOME / "wheel").glob("*.whl"))
    if not programs.exists():
        subprocess.run([sys.executable, "-m", "venv", str(HOME / "venv")], check=True)
    own = [str(programs / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*own, "install", "-c", str(ROOT / "requirements.txt"), str(wheel), "nbclient", "ipykernel"], check=True)
    subprocess.run([*own, "install", "--force-reinstall", "--no-deps", str(wheel)], check=True)
    return programs


def run(programs: Path, path: Path) -> str | None:
    "None, or why the chapter failed."
    with tempfile.TemporaryDirectory() as empty:
        copy = shutil.copy(path, empty)
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "TRANSFORMER_LIT_DATA")}
        done = subprocess.run([str(programs / "jupyter"), "execute", "--timeout=600", copy], cwd=empty, capture_output=True, text=True,
                              env={**environment, "OMP_NUM_THREADS": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"})
    return None if done.returncode == 0 else (done.stdout + done.stderr)[-3000:]


def main() -> None:
    programs = install()
    paths = [p for p in sorted((ROOT / "book").glob("[0-9]*.ipynb")) if not sys.argv[1:] or any(p.name.startswith(n) for n in sys.argv[1:])]
    failed = 0
    with ThreadPoolExecutor(2) as pool:
        for path, trouble in zip(paths, pool.map(lambda p: run(programs, p), paths)):
            print(f"{path.stem}: {'alone, it works' if trouble is None else 'FAILED' + chr(10) + trouble}", flush=True)
            failed += trouble is not None
    print(f"{len(paths) - failed} passed, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
