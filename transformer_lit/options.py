"""Types for argparse: a bad value is one sentence, before anything is loaded."""

import argparse
import math
import os
import re
from collections.abc import Callable
from pathlib import Path

from transformer_lit.corpora.files import shipped

THREADS = 256
DEVICE = dict(
    choices=("auto", "cpu", "cuda", "mps"),
    default="auto",
    help="where to compute (default: an NVIDIA GPU if PyTorch sees one, else the processor)",
)


def whole(low: int = 1, high: int = 10**9) -> Callable[[str], int]:
    "A whole number from `low` to `high`."

    def parse(text: str) -> int:
        digits = text[1:] if text[:1] == "-" else text
        if (
            digits.isascii()
            and digits.isdecimal()
            and len(digits) < 19
            and low <= int(text) <= high
        ):
            return int(text)
        raise argparse.ArgumentTypeError(
            f"{text[:40]} is not a whole number from {low:,} to {high:,}"
        )

    return parse


def number(low: float, high: float) -> Callable[[str], float]:
    "A number between `low` and `high`, both included; never nan."

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if low <= value <= high:
            return value
        raise argparse.ArgumentTypeError(f"{text[:40]} is not a number from {low:g} to {high:g}")

    return parse


def path(text: str) -> Path:
    "A path that could be one: an empty one is mostly a variable of the shell that nobody has set."
    if not text.strip() or "\0" in text:
        raise argparse.ArgumentTypeError("a path was asked for, and this one is empty")
    if any(
        "\ud800" <= sign <= "\udfff" for sign in text
    ):  # how Python holds bytes that it can't read
        raise argparse.ArgumentTypeError("the path is not UTF-8: rename it")
    return Path(text)


def name(text: str) -> str:
    "A path or the name of a translator, as it was typed: a record keeps it so."
    path(text)
    return text


def translator(text: str) -> Path:
    """A trained translator's folder; or, where no folder is called so, the one of that name that
    comes with the book."""
    folder = path(text)
    if not re.fullmatch(r"[a-z0-9-]{1,40}", text) or folder.exists():
        return folder
    inside = shipped(f"data/checkpoints/{text}")
    return inside if inside.is_dir() else folder


def cores() -> int:
    "The cores that this process may use."
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads(asked: int | None) -> int:
    """What was asked for; else OMP_NUM_THREADS; else half of the cores, at least one.

    The half are the real cores where the system counts each of them twice. It also leaves room:
    torch's threads wait for the slowest at every product, so with as many threads as cores one busy
    neighbour makes all of them slow."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return asked or (int(given) if given.isdecimal() and int(given) else max(1, cores() // 2))


def number_or_path(text: str) -> int | Path:
    "A number of pairs, or a file of them; a file whose name is a number is written ./300."
    return whole()(text) if text.removeprefix("-").isdecimal() else path(text)


def once(action: argparse.Action, namespace: argparse.Namespace) -> None:
    """ArgumentError if the option was given before: the second list of files would silently replace
    the first."""
    if getattr(namespace, action.dest, None) is not None:
        raise argparse.ArgumentError(action, "was given twice: name all files after one")


class Paths(argparse.Action):
    "A list of files, given once."

    def __call__(self, parser, namespace, values, option_string=None):
        once(self, namespace)
        setattr(namespace, self.dest, values)


class NumberOrPaths(argparse.Action):
    "One number is kept as it is, anything else as a list."

    def __call__(self, parser, namespace, values, option_string=None):
        once(self, namespace)
        alone = len(values) == 1 and isinstance(values[0], int)
        setattr(namespace, self.dest, values[0] if alone else values)


def two_languages(text: str) -> tuple[str, str]:
    "Two tags of letters with a hyphen between them."
    tags = text.lower().split("-")
    if (
        len(tags) == 2
        and tags[0] != tags[1]
        and all(tag.isascii() and tag.isalpha() and 2 <= len(tag) <= 8 for tag in tags)
    ):
        return tags[0], tags[1]
    raise argparse.ArgumentTypeError(
        f"{text[:40]} is not a pair of two languages, as en-de: two tags of letters"
    )


THREADS_HELP = (
    "default: half of the cores; one thread per core is slow as soon as anything else is running"
)
