"""Execute chapters through nbmake, outside the working tree: `execute.py [--jobs 2] [--all] [NN
...]`.

A chapter is executed again only when its code, that of a module behind it or a recorded run that it
reads has changed (tools/stamps.py); words change nothing. Results: .run/out/NAME.ipynb (with
outputs) and .run/out/NAME.json (stamp, seconds, memory). A chapter fails when a cell raises or
prints a warning (anything on stderr)."""

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import nbformat
from stamps import stamp

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / ".run" / "out"
TIMEOUT = 600  # seconds a cell


def last(path: Path) -> dict:
    "What is known of a chapter's last execution; nothing, if it was broken off."
    try:
        return json.loads((OUT / f"{path.stem}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def here(threads: int) -> dict:
    "What outputs depend on besides the code."
    return {
        "threads": threads,
        "instructions": os.environ.get("ATEN_CPU_CAPABILITY", "best"),
        "torch": version("torch"),
        "python": ".".join(map(str, sys.version_info[:2])),
    }


def execute(path: Path, force: bool = False, threads: int = 1) -> tuple[str, str]:
    "(what happened, details) for one chapter; runs in a process of its own."
    kept = OUT / f"{path.stem}.json"
    now = stamp(path)
    before = {"stamp": now, **here(threads)}
    if not force and before.items() <= last(path).items():
        return "unchanged", ""
    work = ROOT / ".run" / "work" / path.stem
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    kept.unlink(missing_ok=True)
    copy = work / path.name
    shutil.copy(path, copy)
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "TRANSFORMER_LIT_CI": "1",
    }
    command = [sys.executable, str(Path(__file__).resolve()), "--measure", str(copy)]
    began = time.time()
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
    seconds = time.time() - began
    notebook = nbformat.read(copy, 4)
    if done.returncode:
        return "FAILED", failure(notebook) + done.stdout[-4000:] + done.stderr[-2000:]
    said = [
        "".join(out.text)
        for cell in notebook.cells
        if cell.cell_type == "code"
        for out in cell.outputs
        if out.output_type == "stream" and out.name == "stderr"
    ]
    if said:
        return "FAILED", "a cell printed a warning:\n" + "\n".join(said)[:4000]
    memory = int(re.search(r"peak (\d+) kB", done.stdout)[1])
    OUT.mkdir(parents=True, exist_ok=True)
    shutil.copy(copy, OUT / path.name)
    part = kept.with_suffix(".part")
    part.write_text(
        json.dumps(before | {"seconds": round(seconds, 1), "megabytes": memory // 1024}),
        encoding="utf-8",
    )
    os.replace(part, kept)
    return "executed", f"{seconds:.0f} s, {memory // 1024} MB"


def failure(notebook) -> str:
    "Which cell stopped the chapter, what that means, and what to do; empty when no cell raised."
    for cell in notebook.cells:
        for out in cell.get("outputs", []) if cell.cell_type == "code" else []:
            if out.output_type == "error":
                line = f"in the cell `{cell.id}`: {out.ename}: {out.evalue}\n"
                if out.ename == "AssertionError":
                    line += (
                        "    This check is exact: it should hold on every machine, whatever its"
                        " processor. If you have changed nothing, please\n    report it;"
                        " CONTRIBUTING.md, *A check fails on my machine*, says where and with which"
                        " lines.\n"
                    )
                return line
    return ""


def measure(copy: str) -> None:
    "Run nbmake on one notebook and print the largest memory that a process of it took."
    code = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--nbmake",
            "--overwrite",
            "--rootdir",
            str(Path(copy).parent),
            "-c",
            os.devnull,
            f"--nbmake-timeout={TIMEOUT}",
            copy,
        ]
    ).returncode
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # in bytes on a Mac
    print(f"peak {peak // (1024 if sys.platform == 'darwin' else 1)} kB")
    sys.exit(code)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("chapters", nargs="*", help="numbers, as in 03; none: every chapter")
    parser.add_argument("--jobs", type=int, default=2, help="chapters at a time")
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        help="threads of each; two jobs of two threads on two cores take ten times as long",
    )
    parser.add_argument("--all", action="store_true", help="execute unchanged ones too")
    parser.add_argument("--measure", metavar="NOTEBOOK", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure)
    paths = [
        p
        for p in sorted((ROOT / "book").glob("[0-9]*.ipynb"))
        if not options.chapters or any(p.name.startswith(n) for n in options.chapters)
    ]
    if not paths:
        sys.exit(f"no chapter begins with {' or '.join(options.chapters)}")
    paths.sort(
        key=lambda p: -last(p).get("seconds", 30 if p.name[:2] in ("06", "12", "14") else 0)
    )  # long ones first
    failed, began = 0, time.time()
    with ThreadPoolExecutor(options.jobs) as pool:
        for n, (path, (what, details)) in enumerate(
            zip(paths, pool.map(lambda p: execute(p, options.all, options.threads), paths)), 1
        ):
            print(f"[{n}/{len(paths)}] {path.stem}: {what} {details}", flush=True)
            failed += what == "FAILED"
    print(f"{len(paths) - failed} passed, {failed} failed, {time.time() - began:.0f} s")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
