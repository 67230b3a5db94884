"""A long list of jobs, worked off one by one: what `fair.py` and `own.py` have in common. They say
which jobs are due.

A plan has parts by title, the most important first. A part yields jobs and is sent their rows, so
that what is due later can hang on what was found before. A job is a frozen dataclass with a `name`;
one that was done for another part is not done again. Its row is a JSON file in HOME/done, which can
be packed, committed, and counts as done on the next machine."""

import argparse
import itertools
import json
import lzma
import math
import shutil
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from transformer_lit.equal_cost import MeteredTrainer
from transformer_lit.runs.run import only_run
from transformer_lit.cli import exit_status
from transformer_lit.corpora.files import write_json, write_text
from transformer_lit.runs.records import git_commit

Due = Generator[Any, dict, object]  # yields jobs, is sent rows
Plan = Mapping[str, Callable[[], Due]]


# One job ------------------------------------------------------------------------------------------


class Dirty(ValueError):
    "The checkout is not what a commit says."


def clean(found: str) -> str:
    "The commit that was found, if the tree is as it was committed. Raises Dirty if not."
    if not found or found.endswith("-dirty"):
        raise Dirty(
            "a record names the commit that it was made from, and this tree is"
            f" {found or 'no checkout'}: commit first"
        )
    return found


class Resumable(MeteredTrainer):
    """A trainer that counts operations and seconds as chapter 22's does, and has the counts in its
    checkpoint too."""

    @classmethod
    def of(cls, run, **more):
        "Take over a prepared run."
        made = cls.__new__(cls)
        vars(made).update(vars(run), **more)
        return made

    def progress(self) -> dict:
        found = super().progress()
        found["at"] |= {
            name: getattr(self, name) for name in ("flops", "counted", "timed", "wall", "cpu")
        }
        return found


def row_of(job, home: Path) -> dict | None:
    "The row of a finished job, None if there is none."
    path = home / "done" / f"{job.name}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def keep_row(
    job, home: Path, git_commit: str, work: Callable[[Path], tuple[dict, str | None]], **more
) -> dict:
    """Do a job or go on with it; returns its row, which is kept in `home`.

    work(folder) gives what was found, and a text to keep beside the row or None. A training that
    ends in nan has a row with "failed"."""
    begun, folder = time.time(), home / "jobs" / job.name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "commits.txt").open("a", encoding="utf-8") as file:
        file.write(git_commit + "\n")
    try:
        with only_run(folder):
            found, said = work(folder)
    except ValueError as error:
        if "lower the learning rate" not in str(
            error
        ):  # chapter 12's trainer stops at nan with these words
            raise
        found, said = {"failed": str(error)}, None
    commits = list(dict.fromkeys((folder / "commits.txt").read_text("utf-8").split()))
    wall = max(
        time.time() - begun, found.get("cpu_seconds", 0.0)
    )  # a job that was gone on with took longer than this call
    row = {**asdict(job), "commits": commits, **more, "wall_seconds": round(wall, 1), **found}
    if said is not None:
        write_text(home / "done" / f"{job.name}.txt", said)
    write_json(home / "done" / f"{job.name}.json", row, None)
    shutil.rmtree(folder)
    return row


def rows_of(home: Path) -> list[dict]:
    "All rows, in the order of their names."
    return [json.loads(path.read_text("utf-8")) for path in sorted((home / "done").glob("*.json"))]


# All jobs -----------------------------------------------------------------------------------------


def parts_of(plan: Plan, titles: list[str] | None) -> Plan:
    """The parts with these titles, in the plan's order; all of them if there are none. ValueError
    names a title that isn't there."""
    if strange := [title for title in titles or [] if title not in plan]:
        raise ValueError(f"the plan has no part {strange[0]!r}: its parts are {', '.join(plan)}")
    return {title: part for title, part in plan.items() if not titles or title in titles}


def walk(part: Callable[[], Due], row_for: Callable[[Any], dict]) -> None:
    "Through a part of the plan; row_for(job) does a job, reads it or guesses it."
    due = part()
    try:
        job = next(due)
        while True:
            job = due.send(row_for(job))
    except StopIteration:
        pass


def run(
    plan: Plan,
    home: Path,
    do: Callable[[Any], dict],
    told: tuple[str, ...],
    hours: float = math.inf,
    most: float = math.inf,
) -> int:
    """Do what is left until it is done, or until no more is to be begun. told: what is said of each
    row.

    Raises Dirty before the next job if the checkout has moved on: the code in memory is still that
    of the commit before."""
    torch.set_num_threads(1)
    begun, number, loaded = time.monotonic(), itertools.count(), git_commit()

    class Enough(Exception):
        pass

    def row_for(job) -> dict:
        if row := row_of(job, home):
            return row
        if next(number) >= most or time.monotonic() - begun > 3600 * hours:
            raise Enough
        if git_commit() != loaded:
            raise Dirty(
                f"the checkout was {loaded} when this began and is {git_commit()} now: start it again"
            )
        print(f"{time.strftime('%H:%M:%S')} {job.name}", flush=True)
        row = do(job)
        words = [f"{name} {row[name]:.3f}" for name in told if name in row]
        print("        ", *words, row.get("failed", ""), f"{row['wall_seconds']:.0f} s", flush=True)
        return row

    with only_run(home):
        try:
            for part in plan.values():
                walk(part, row_for)
        except Enough:
            pass
    return 0


def count(
    plan: Plan,
    home: Path,
    guess: Callable[[Any], dict],
    seconds: Callable[[dict], Callable[[Any], float]],
) -> list[dict]:
    """Of each part: jobs done and left, hours spent and left. guess(job) is a made-up row, so that
    what hangs on it can be counted; seconds(rows of the jobs that are done) gives a function that
    says how long a job will take."""
    done: dict[Any, dict] = {}
    found: dict[str, list] = {}
    seen: set = set()

    def row_for(job) -> dict:
        if job not in seen:
            seen.add(job)
            jobs.append(job)
            if row := row_of(job, home):
                done[job] = row
        return done.get(job) or guess(job)

    for title, part in plan.items():
        jobs = found[title] = []
        walk(part, row_for)
    takes = seconds(done)
    return [
        {
            "part": title,
            "done": sum(job in done for job in jobs),
            "left": sum(job not in done for job in jobs),
            "spent": sum(done[job]["wall_seconds"] for job in jobs if job in done) / 3600,
            "to go": sum(takes(job) for job in jobs if job not in done) / 3600,
        }
        for title, jobs in found.items()
    ]


def status(rows: list[dict]) -> int:
    "The count as lines."
    rows = [
        *rows,
        {"part": "all"}
        | {name: sum(row[name] for row in rows) for name in ("done", "left", "spent", "to go")},
    ]
    print(f"{'':28}{'done':>6}{'left':>6}{'hours spent':>13}{'hours left':>12}")
    for row in rows:
        print(
            f"{row['part']:28}{row['done']:6}{row['left']:6}{row['spent']:13.1f}{row['to go']:12.1f}"
        )
    return 0


def names_of(plan: Plan, home: Path, guess: Callable[[Any], dict]) -> int:
    "Every job, with a mark where it is done; what hangs on a job that isn't done is guessed."
    seen: set = set()

    def row_for(job) -> dict:
        row = row_of(job, home)
        if job not in seen:
            print("done" if row else "    ", job.name)
            seen.add(job)
        return row or guess(job)

    for title, part in plan.items():
        print(f"# {title}")
        walk(part, row_for)
    return 0


# Rows from one machine to the next ----------------------------------------------------------------


def pack(home: Path, packed: Path) -> int:
    """Each file of a finished job compressed into `packed`, if it isn't there: a row of 30 kB takes
    8."""
    files = [
        path
        for path in sorted((home / "done").iterdir())
        if not (packed / f"{path.name}.xz").exists()
    ]
    packed.mkdir(parents=True, exist_ok=True)
    for path in files:
        (packed / f"{path.name}.xz").write_bytes(lzma.compress(path.read_bytes()))
    print(f"{len(files)} files packed into {packed}")
    return 0


def unpack(packed: Path, home: Path) -> None:
    "What was packed counts as done."
    for path in sorted(packed.glob("*.xz")):
        if not (there := home / "done" / path.stem).exists():
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(lzma.decompress(path.read_bytes()))


# The command --------------------------------------------------------------------------------------


def options(
    doc: str | None, home: Path, packed: Path, out: Path, more: Sequence[str] = ()
) -> argparse.ArgumentParser:
    """What can be typed; the three paths are where things go if nothing else is typed. more: what
    else this list can do."""
    p = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("what", choices=("run", "status", "list", "collect", "pack", *more))
    p.add_argument("--hours", type=float, default=math.inf, help="begin no job after so many hours")
    p.add_argument("--most", type=float, default=math.inf, help="do so many jobs at most")
    p.add_argument(
        "--part",
        action="append",
        metavar="TITLE",
        help="run only this part, as status names it; may be given again",
    )
    p.add_argument(
        "--home",
        type=Path,
        default=home,
        help="rows, weights and checkpoints (default: %(default)s)",
    )
    p.add_argument(
        "--packed", type=Path, default=packed, help="rows that are committed (default: %(default)s)"
    )
    p.add_argument(
        "--out", type=Path, default=out, help="collect: where records go (default: %(default)s)"
    )
    return p


def command(o: argparse.Namespace, do: Mapping[str, Callable[[], int]]) -> int:
    "Pack, or count what was packed as done and do what was asked."

    def what() -> int:
        if o.what == "pack":
            return pack(o.home, o.packed)
        unpack(o.packed, o.home)
        return do[o.what]()

    return exit_status(what)
