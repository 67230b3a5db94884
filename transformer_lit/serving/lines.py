"""Lines to translate: typed, from a file, from standard input."""

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from transformer_lit.corpora.texts import INVISIBLE


def input_lines(sentences: Sequence[str], file: Path | None) -> Iterator[str]:
    "What was typed, or the lines of a file or of stdin; ValueError for what isn't UTF-8."
    if sentences:
        yield from sentences
        return
    with open(file, "rb") if file else sys.stdin.buffer as lines:
        for n, line in enumerate(lines, 1):
            try:
                line = line.replace(b"\0", b"\xff")  # no text has a zero byte
                yield line.decode("utf-8" + "-sig" * (n == 1)).strip()
            except UnicodeDecodeError:
                raise ValueError(
                    f"line {n} of {file or 'standard input'} isn't UTF-8: convert it first"
                ) from None


def typed_lines() -> Iterator[str]:
    "Lines typed at a prompt, until Ctrl-D or Ctrl-C."
    print("One sentence per line; Ctrl-D ends.", file=sys.stderr)
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            yield input("> ").strip()
    print(file=sys.stderr)


def translate_lines(translate: Callable, lines: Iterable[str], size: int = 256) -> Iterator[str]:
    """Translations in order, batch by batch: a long text takes no more memory than a short one. A
    line without a letter or a digit comes back as it is."""
    lines = iter(lines)
    while batch := list(islice(lines, size)):
        spoken = (line for line in batch if any(map(str.isalnum, line)))
        answers = iter(translate([INVISIBLE.sub("", line) for line in spoken]))
        for line in batch:
            yield next(answers) if any(map(str.isalnum, line)) else line
