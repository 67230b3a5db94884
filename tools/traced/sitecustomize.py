"""Notes which files of the project a Python process and its children read while they run.

tools/execute.py puts this folder on PYTHONPATH and names the list in TRANSFORMER_LIT_TRACE. A line
is a path below the root of the project. Of the folders of data, what lists their files counts as
well."""

import os
import sys
from importlib.util import source_from_cache
from pathlib import Path

ROOT = str(Path(__file__).resolve().parent.parent.parent)
DATA = f"{ROOT}/book/results", f"{ROOT}/data"
OURS = *DATA, f"{ROOT}/transformer_lit", f"{ROOT}/book/litbook", f"{ROOT}/book/web"
noted = set()


def note(event, arguments):
    if event not in ("open", "os.listdir", "os.scandir") or not isinstance(arguments[0], str):
        return
    path = os.path.abspath(arguments[0])
    reads = event != "open" or "r" in (arguments[1] or "r")
    if not reads or not path.startswith(OURS if event == "open" else DATA):
        return
    path = source_from_cache(path) if path.endswith(".pyc") else path
    if path not in noted:
        noted.add(path)
        os.write(LIST, f"{os.path.relpath(path, ROOT)}\n".encode())


if "TRANSFORMER_LIT_TRACE" in os.environ:
    LIST = os.open(os.environ["TRANSFORMER_LIT_TRACE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    sys.addaudithook(note)
