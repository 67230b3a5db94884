"""What scripts leave under book/results/runs, the tables that `litbook.results` reads.

    python bench/records.py runs/words tatoeba-fr-words     # a training's folder becomes a line

A run has one line in TABLE.jsonl; what is kept of each test sentence is beside it in
TABLE-sentences.npz, under RUN/WHAT, and what was said in TABLE-outputs.tsv.xz. A run that is there
already is replaced."""

import json
import lzma
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock

from common import ROOT, options

from transformer_lit.corpora.files import write_atomic
from transformer_lit.comparison import MeteredTrainer
from transformer_lit.runs.records import git_commit, hardware_name
from transformer_lit.runtime.devices import resolve_precision

RUNS = ROOT / "book/results/runs"
SHOWN = "valid_loss", "valid_per_character", "test_loss", "bleu", "failed", "wall_seconds"


def rows_of(table: str, folder: Path = RUNS) -> dict[str, dict]:
    "Run -> its line."
    path = folder / f"{table}.jsonl"
    lines = path.read_text("utf-8").strip().split("\n") if path.exists() else []
    return {row["run"]: row for row in map(json.loads, lines)}


def outputs_of(table: str, run: str, folder: Path = RUNS) -> list[str]:
    "What a run said."
    with lzma.open(folder / f"{table}-outputs.tsv.xz", "rt", encoding="utf-8") as file:
        return [line[len(run) + 1 : -1] for line in file if line.startswith(f"{run}\t")]


def arrays_of(table: str, folder: Path = RUNS) -> dict[str, np.ndarray]:
    "RUN/WHAT -> an array over sentences."
    path = folder / f"{table}-sentences.npz"
    return dict(np.load(path)) if path.exists() else {}


def put_lines(path: Path, start: str, lines: Iterable[str]) -> None:
    "These lines in place of those that begin so. The file is compressed if its name ends in .xz."
    opener = lzma.open if path.suffix == ".xz" else open
    kept = []
    if path.exists():
        with opener(path, "rt", encoding="utf-8", newline="\n") as file:
            kept = [line for line in file if not line.startswith(start)]

    def write(to: str) -> None:
        with opener(to, "wt", encoding="utf-8", newline="\n") as file:
            file.writelines([*kept, *(f"{line}\n" for line in lines)])

    write_atomic(path, write)


def add_run(
    table: str,
    run: str,
    row: Mapping,
    arrays: Mapping[str, np.ndarray] | None = None,
    outputs: Iterable[str] | None = None,
    log: Iterable[Mapping] | None = None,
    folder: Path = RUNS,
) -> None:
    "A run with all that is kept of it. Its line comes last: a run that has one is whole."

    def put(name: str, rows: Iterable[Mapping]) -> None:
        lines = (json.dumps({"run": run, **row}, ensure_ascii=False) for row in rows)
        put_lines(folder / f"{table}{name}.jsonl", f'{{"run": "{run}", ', lines)

    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(ROOT / ".run/records.lock"):
        if arrays:
            held = arrays_of(table, folder) | {f"{run}/{k}": v for k, v in arrays.items()}
            path = folder / f"{table}-sentences.npz"
            np.savez_compressed(part := path.with_suffix(".part.npz"), **held)
            part.replace(path)
        if outputs is not None:
            lines = [f"{run}\t{text}" for text in outputs]
            put_lines(folder / f"{table}-outputs.tsv.xz", f"{run}\t", lines)
        if log is not None:
            put("-logs", log)
        put("", [row])


def add_training(run: str, made: Path, folder: Path = RUNS, every: int = 1, **measured) -> None:
    """A training's folder becomes a line: its record, with what else was measured of it, its log,
    of which each step that `every` divides is kept, and what it said."""
    record = json.loads((made / "run.json").read_text("utf-8"))
    lines = (made / "log.jsonl").read_text("utf-8").splitlines()
    log = [x for x in map(json.loads, lines) if x.get("kind") != "step" or x["step"] % every == 0]
    said = made / "hypotheses.txt"
    outputs = said.read_text("utf-8").split("\n")[:-1] if said.exists() else None
    add_run("trainings", run, record | measured, outputs=outputs, log=log, folder=folder)


def measure(run: str, **measured) -> None:
    "Something else that was measured of a training that has its line."
    row = rows_of("trainings")[run]
    add_run("trainings", row.pop("run"), row | measured)


# A run that is made here -------------------------------------------------------------------------


class Dirty(ValueError):
    "The checkout is not what a commit says."


@cache
def clean_commit() -> str:
    """The commit of the code that this process has loaded. Raises Dirty if the checkout isn't as it
    was committed; the tables themselves may have new lines."""
    status = ["git", "-C", str(ROOT), "status", "--porcelain", "--", ":!book/results"]
    changed = subprocess.run(status, capture_output=True, text=True)
    if changed.returncode or changed.stdout:
        raise Dirty(
            "a record names the commit that it was made from, and this checkout has changed:"
            f" {(changed.stdout or changed.stderr).splitlines()[0].strip()}: commit first"
        )
    return git_commit().removesuffix("-dirty")


class Resumable(MeteredTrainer):
    """A trainer that counts operations and seconds as chapter 22's does, and has the counts in its
    checkpoint too."""

    @classmethod
    def of(cls, run: MeteredTrainer, **more) -> "Resumable":
        "Take over a prepared run."
        made = cls.__new__(cls)
        vars(made).update(vars(run), **more)
        return made

    def progress(self) -> dict:
        names = "flops", "flop_tokens", "timed_steps", "wall_seconds", "cpu_seconds"
        return {**super().progress(), **{name: getattr(self, name) for name in names}}


def where() -> dict:
    "Machine and torch; Muon's products are in bf16 where the processor has units for it."
    return dict(hardware=hardware_name(), torch=torch.__version__, muon=resolve_precision())


@dataclass
class Made:
    "What a run leaves: its line, arrays over sentences, what it said."

    row: dict
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    outputs: list[str] | None = None


def make_run(
    table: str,
    run: str,
    facts: Mapping,
    work: Callable[[Path], Made],
    home: Path,
    folder: Path = RUNS,
) -> dict:
    """Make a run or go on with it, and add it to its table; returns its line. What the table has
    already is only read.

    It works in HOME/RUN, which goes when the run is whole. A training that ends in nan has a line
    with "failed". Raises Dirty unless the tree is clean, filelock.Timeout if another process is at
    work on this run."""
    row = rows_of(table, folder).get(run)
    print(f"{time.strftime('%H:%M:%S')} {run}", "is there" * bool(row))
    if row:
        return row
    commit, begun, place = clean_commit(), time.time(), home / run
    place.mkdir(parents=True, exist_ok=True)
    with FileLock(home / f".{run}.lock", timeout=0):
        with (place / "commits.txt").open("a", encoding="utf-8") as file:
            file.write(commit + "\n")
        try:
            made = work(place)
        except ValueError as error:  # chapter 12's trainer stops at nan with these words
            if "lower the learning rate" not in str(error):
                raise
            made = Made({"failed": str(error)})
        commits = list(dict.fromkeys((place / "commits.txt").read_text("utf-8").split()))
        # a run that was gone on with took longer than this call
        wall = max(time.time() - begun, made.row.get("cpu_seconds", 0.0))
        row = {**facts, "commits": commits, **where(), "wall_seconds": round(wall, 1), **made.row}
        add_run(table, run, row, made.arrays, made.outputs, folder=folder)
        shutil.rmtree(place)
    print("        ", {key: row[key] for key in SHOWN if key in row})
    return row


def main() -> None:
    o = options(__doc__, {"folder": dict(type=Path), "name": {}})
    add_training(o.name, o.folder)


if __name__ == "__main__":
    main()
