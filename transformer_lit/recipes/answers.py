"""Many sentences into a file of answers, a line each; stopped and gone on with."""

import math
import os
import time
from collections.abc import Sequence
from pathlib import Path

from transformer_lit.translation import Translator
from transformer_lit.runtime.devices import decoding_precision
from transformer_lit.runtime.progress import bar


def whole_lines(path: Path) -> list[str]:
    "A file's lines; one that was cut off goes, from the file as well."
    if not path.exists():
        return []
    held = path.read_bytes()
    os.truncate(path, held.rfind(b"\n") + 1)
    return held.decode("utf-8", "ignore").split("\n")[:-1]


def translate_lines(
    translator: Translator,
    english: Sequence[str],
    path: Path,
    until: float = math.inf,
    size: int = 256,
) -> list[str] | None:
    """Beam 4, α 0.6 (§6.1), into a file that has its name when all is said; returns the answers.

    None if `until` (time.monotonic()) came first: the next call goes on. ValueError if the file
    holds another number of lines."""
    part = path.with_name(path.name + ".part")
    if not path.exists():
        done, total = len(whole_lines(part)), len(english)
        precision = decoding_precision(next(translator.model.parameters()).device)
        with bar(total, path.stem, unit="sentence", done=done) as shown:
            for k in range(done, total, size):
                if time.monotonic() > until:
                    return None
                some = list(english[k : k + size])
                answers = translator.translate(
                    some, beam_size=4, batch_size=64, precision=precision
                )
                with open(part, "a", encoding="utf-8", newline="\n") as file:
                    file.write("".join(" ".join(answer.split()) + "\n" for answer in answers))
                shown.update(len(some))
        os.replace(part, path)
    said = path.read_text("utf-8", "replace").split("\n")[:-1]
    if len(said) != len(english):
        raise ValueError(
            f"{path} holds {len(said):,} lines, the test {len(english):,}: delete it and start"
            " again"
        )
    return said
