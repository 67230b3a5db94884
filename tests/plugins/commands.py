"""Type a command line in a folder, see what came of it, and judge whether a refusal is one."""

import contextlib
import hashlib
import io
import os
import signal
import sys
import traceback
from functools import partial
from typing import NamedTuple

import pytest

STATUSES = {
    0: "done",
    1: "a mistake, in one sentence",
    2: "a wrong option",
    75: "the time was up",
    130: "Ctrl-C",
}


class Outcome(NamedTuple):
    status: int | str  # a text if the command ended in another way
    out: str
    err: str
    changed: list[str]  # paths below the folder


def tree(folder):
    "Every path below with what it holds."
    entries = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            entries[name] = "link " + os.readlink(path)
        elif path.is_file():
            readable = os.access(path, os.R_OK)
            digest = hashlib.sha256(path.read_bytes()) if readable else None
            entries[name] = digest.hexdigest() if digest else "unreadable"
        else:
            entries[name] = "folder"
    return entries


class Late(BaseException):
    pass


def late(*_):
    raise Late


def type_line(line, folder, stdin=b"", seconds=0):
    "The outcome of one command, a text or a list of words, in a folder; 0: it may take its time."
    from transformer_lit import cli

    before, out, err = tree(folder), io.StringIO(), io.StringIO()
    old_stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    os.chdir(folder)
    signal.alarm(seconds)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cli.main(line.split() if isinstance(line, str) else line)
    except SystemExit as end:
        status = end.code
    except Late:
        status = f"over {seconds} s"
    except BaseException:
        status = traceback.format_exc()[-900:]
    finally:
        signal.alarm(0)
        sys.stdin = old_stdin
    after = tree(folder)
    changed = sorted(name for name in {**before, **after} if before.get(name) != after.get(name))
    return Outcome(status, out.getvalue(), err.getvalue(), changed)


def complaint(outcome):
    "What is wrong with an outcome, whatever was typed; empty if nothing."
    status, out, err, changed = outcome
    err = err.strip()
    if status not in STATUSES:
        return f"neither a status nor a sentence: {status}"
    if "Traceback" in err or "[Errno" in err:
        return f"not written for people: {err[-300:]}"
    if status in (1, 2) and changed:
        return f"a refused command changes nothing, and {changed[:5]} changed"
    sentence = err.startswith("transformer-lit: ") and len(err) >= 30 and "\n" not in err
    if status == 1 and "DAMAGED" not in out and not sentence:
        return f"one sentence was expected: {err[-300:]!r}"
    if status == 2 and not (err.startswith("usage: ") and "error: " in err.splitlines()[-1]):
        return f"argparse's words were expected: {err[-300:]!r}"
    return ""


def refused(outcome, *names):
    "Status 1, one sentence that holds these names, nothing changed."
    assert outcome.status == 1, f"status 1 was expected: {outcome}"
    assert complaint(outcome) == "" == outcome.out
    missing = [name for name in names if name not in outcome.err]
    assert not missing, f"{outcome.err.strip()!r} should name {missing}"


@pytest.fixture
def typed(tmp_path, monkeypatch):
    "Types a command in the test's folder."
    monkeypatch.chdir(tmp_path)
    return partial(type_line, folder=tmp_path)
