"""log.jsonl: one JSON object a line, written at once, and cut back to where a run goes on. Of
several processes the first writes."""

import json
import os
from pathlib import Path

from torch import Tensor

from transformer_lit.corpora.files import write_text
from transformer_lit.runtime.distributed import process

NAME = "log.jsonl"


def add_line(folder: Path | None, entry: dict) -> dict:
    """The entry with its tensors as numbers; if there is a folder one more line, which another
    program can read meanwhile."""
    entry = {
        name: float(value) if isinstance(value, Tensor) else value for name, value in entry.items()
    }
    if folder is not None and process()[0] == 0:
        with (folder / NAME).open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
    return entry


def settle(folder: Path) -> None:
    "The log on the disk before a checkpoint tells of it: a power cut must not leave it behind."
    if process()[0] == 0 and (folder / NAME).exists():
        with (folder / NAME).open("r+b") as file:
            os.fsync(file.fileno())


def first_lines(folder: Path, count: int) -> list[dict]:
    "The first `count` lines; ValueError if they are not whole."
    path = folder / NAME
    lines = path.read_bytes().splitlines() if path.exists() else []
    try:
        if len(lines) < count:
            raise ValueError(f"{len(lines)} lines of {count}")
        entries = [json.loads(line) for line in lines[:count]]
        if not all(isinstance(entry, dict) for entry in entries):
            raise ValueError("a line of it is no object")
        return entries
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is not the log that the checkpoint tells of ({error}): put it back, or use"
            " another folder"
        ) from None


def write_lines(folder: Path, log: list[dict]) -> None:
    "The whole log, in place of what stands there."
    if process()[0] == 0:
        write_text(folder / NAME, "".join(json.dumps(entry) + "\n" for entry in log))
