"""log.jsonl: one JSON object a line, written at once, and cut back to where a run goes on."""
import json
from pathlib import Path

from .files import write_text

NAME = "log.jsonl"


def add_line(folder: Path, entry: dict) -> None:
    "One more line, which another program can read while the run lasts."
    with (folder / NAME).open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def first_lines(folder: Path, count: int) -> list[dict]:
    "The first `count` lines; ValueError if they are not whole."
    path = folder / NAME
    lines = path.read_bytes().splitlines() if path.exists() else []
    try:
        if len(lines) < count:
            raise ValueError(f"{len(lines)} lines of {count}")
        return [json.loads(line) for line in lines[:count]]
    except ValueError as error:
        raise ValueError(f"{path} is not the log that the checkpoint tells of ({error}): put it back, or use another folder") from None


def write_lines(folder: Path, log: list[dict]) -> None:
    "The whole log, in place of what stands there."
    write_text(folder / NAME, "".join(json.dumps(entry) + "\n" for entry in log))
