"""Notes which files of the project a Python process and its children read while they run.

tools/execute.py puts this folder on PYTHONPATH and names the list in TRANSFORMER_LIT_TRACE. A line
is a path below the root of the project; "text " before it: a module whose source was read, not
imported. Of the folders of data, what lists their files counts as well."""

import os
import sys
from importlib.util import source_from_cache
from pathlib import Path

ROOT = str(Path(__file__).resolve().parent.parent.parent)
DATA = f"{ROOT}/book/results", f"{ROOT}/data"
OURS = *DATA, f"{ROOT}/transformer_lit", f"{ROOT}/book/litbook", f"{ROOT}/book/web"
seen = set()


def note(event, arguments):
    if event not in ("open", "os.listdir", "os.scandir") or not isinstance(arguments[0], str):
        return
    path = os.path.abspath(arguments[0])
    reads = event != "open" or "r" in (arguments[1] or "r")
    if not reads or not path.startswith(OURS if event == "open" else DATA):
        return
    imports = sys._getframe(1).f_code.co_filename.startswith(("<frozen importlib", "<frozen runpy"))
    path = source_from_cache(path) if path.endswith(".pyc") else path
    line = os.path.relpath(path, ROOT)
    line = f"text {line}\n" if path.endswith(".py") and not imports else f"{line}\n"
    if line not in seen:
        seen.add(line)
        os.write(LIST, line.encode())


if "TRANSFORMER_LIT_TRACE" in os.environ:
    LIST = os.open(os.environ["TRANSFORMER_LIT_TRACE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    sys.addaudithook(note)
