"""Execute chapters through nbmake, outside the working tree: `execute.py [--jobs 2] [--all] [NN
...]`.

A chapter is executed again only when its code, or a file of the project that it opened when it last
ran, has changed (tools/stamps.py); words change nothing. Results: .run/out/NAME.ipynb (with
outputs) and .run/out/NAME.json (hashes, seconds, memory). A chapter fails when a cell raises or
prints a warning (anything on stderr)."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import nbformat
import stamps
from chapters import ROOT, chapters, run_each

TRACED = ROOT / "tools/traced"
OUT = ROOT / ".run" / "out"
EXACT = """\
    This check is exact: it should hold on every machine, whatever its processor. If you have
    changed nothing, please report it; CONTRIBUTING.md, *A check fails on my machine*, says where
    and with which lines.
"""


def last_facts(path: Path) -> dict:
    "What is known of a chapter's last execution; nothing, if it was broken off."
    try:
        return json.loads((OUT / f"{path.stem}.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}


def here(threads: int) -> dict:
    "What outputs depend on besides the code."
    return {
        "threads": threads,
        "instructions": os.environ.get("ATEN_CPU_CAPABILITY", "best"),
        "torch": version("torch"),
        "requirements": stamps.content(ROOT / "requirements.txt", with_words=True),
        "python": ".".join(map(str, sys.version_info[:2])),
    }


def execute(path: Path, force: bool, threads: int) -> tuple[str, str]:
    "(what happened, details) for one chapter; runs in a process of its own."
    done, setting = last_facts(path), here(threads) | {"code": stamps.own_code(path)}
    if not force and setting.items() <= done.items() and stamps.unchanged(path, done):
        return "unchanged", ""
    work, about = ROOT / ".run" / "work" / path.stem, OUT / f"{path.stem}.json"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    about.unlink(missing_ok=True)
    copy, log, trace = work / path.name, work / "nbmake.log", work / "opened.txt"
    shutil.copy(path, copy)
    trace.touch()
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # half a second a chapter
        "TRANSFORMER_LIT_CI": "1",
        "TRANSFORMER_LIT_TRACE": str(trace),
        "PYTHONPATH": os.pathsep.join([str(TRACED), os.environ.get("PYTHONPATH", "")]),
    }
    command = f"{sys.executable} -m pytest -p nbmake.pytest_plugin -p polls --nbmake"
    command += f" --overwrite --nbmake-timeout=300 -c /dev/null --rootdir . {path.name}"
    started = time.time()
    for _ in range(2):
        with log.open("w") as file:
            child = subprocess.Popen(
                command.split(), cwd=work, env=environment, stdout=file, stderr=file
            )
            _, status, used = os.wait4(child.pid, 0)  # `used`: the most memory that any took
        if not status or "Kernel didn't respond" not in log.read_text("utf-8"):
            break  # else the kernel never started (a clock set forward is enough): once more
    seconds, cells = time.time() - started, nbformat.read(copy, 4).cells
    outputs = [(cell.id, out) for cell in cells for out in cell.get("outputs", [])]
    if status:
        return "FAILED", failure(outputs) + log.read_text("utf-8")[-6000:]
    if warnings := "".join(out.text for _, out in outputs if out.get("name") == "stderr"):
        return "FAILED", "a cell printed a warning:\n" + warnings[:4000]
    megabytes = used.ru_maxrss // (2**20 if sys.platform == "darwin" else 2**10)
    facts = {
        **setting,
        "opened": stamps.opened(path, trace.read_text("utf-8")),
        "seconds": round(seconds, 1),
        "megabytes": megabytes,
    }
    OUT.mkdir(parents=True, exist_ok=True)
    shutil.copy(copy, OUT / path.name)
    about.write_text(json.dumps(facts), "utf-8")
    return "executed", f"{seconds:.0f} s, {megabytes} MB"


def failure(outputs: list[tuple]) -> str:
    "Which cell stopped the chapter, what that means, and what to do; empty when no cell raised."
    for name, out in outputs:
        if out.output_type == "error":
            line = f"in the cell `{name}`: {out.ename}: {out.evalue}\n"
            return line + EXACT * (out.ename == "AssertionError")
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("chapters", nargs="*", help="numbers, as in 03; none: every chapter")
    parser.add_argument("--jobs", type=int, default=2, help="chapters at a time")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="execute unchanged ones too")
    options = parser.parse_args()
    if not (paths := chapters(options.chapters)):
        sys.exit(f"no chapter begins with {' or '.join(options.chapters)}")
    paths.sort(key=lambda p: -last_facts(p).get("seconds", 30))  # long ones first
    run_each(paths, lambda p: execute(p, options.all, options.threads), options.jobs)


if __name__ == "__main__":
    main()
