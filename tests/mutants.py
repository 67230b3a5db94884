"""Tries to break a chapter's exported cells unnoticed: python tests/mutants.py 03 [--page] [--cell
ID]

Each exported cell is changed in one place at a time (a statement deleted, an operator swapped, a
number changed, a keyword dropped), and the chapter's cells are run from there, in another process,
until one fails. A mutant that raises anything is killed. Not run in mutants: cells that took
over two seconds in the clean run or carry the tag training, skip-mutants or remove-cell (what they
define is taken from the clean run instead). Figures are stubs. What survives the page is given to
the fast tests of its module and of the core; --page leaves them out.

Survivors with a reason stand in tests/mutants_known.md; exit status 1 if there is one without."""

import argparse
import ast
import contextlib
import json
import linecache
import os
import pkgutil
import re
import shutil
import signal
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from unittest.mock import MagicMock

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", MPLBACKEND="Agg")
ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
sys.path[:0] = [str(ROOT), str(ROOT / "book"), str(TESTS)]
HEAVY = 2.0  # seconds
ASIDE = {"training", "skip-mutants", "remove-cell"}
CORE = "test_parity.py", "test_properties.py", "test_whole.py"


# Mutations ----------------------------------------------------------------------------------------

SWAPS = """+ -, - +, * /, / *, ** *, % //, // *, & |, | &, and or, or and, < <=, <= <, > >=, >= >,
    == !=, != ==, is is_not, is_not is, in not_in, not_in in"""
WHOLE = ast.FunctionDef, ast.ClassDef, ast.For, ast.While, ast.Try, ast.Pass


def operator(sign: str) -> ast.AST:
    node = ast.parse(f"a {sign} b", mode="eval").body
    return node.ops[0] if isinstance(node, ast.Compare) else node.op


SIGNS = {ast.Not: "not", ast.Invert: "~", ast.USub: "-"}
SWAPPED = {}
for pair in SWAPS.split(","):
    old, new = (sign.replace("_", " ") for sign in pair.split())
    SIGNS[type(operator(old))] = old
    SWAPPED[type(operator(old))] = operator(new)


def protected(tree: ast.AST) -> set[int]:
    """Nodes that are left alone: docstrings, annotations, error sentences, imports, defaults of
    parameters and of a class's fields."""
    aside: list[ast.AST | None] = []
    for node in ast.walk(tree):
        aside += [getattr(node, "annotation", None), getattr(node, "returns", None)]
        match node:
            case ast.arguments():
                aside += [*node.defaults, *node.kw_defaults]
            case ast.ClassDef():
                aside += [line.value for line in node.body if isinstance(line, ast.AnnAssign)]
            case ast.Expr(ast.Constant()) | ast.Raise() | ast.Import() | ast.ImportFrom():
                aside.append(node)
    parts = (part for top in aside if top for part in ast.walk(top))
    return {id(part) for part in parts if hasattr(part, "lineno")}  # an operator is shared


def replacement(field: str, node: ast.AST):
    "What is changed, and the nodes in this one's place; or None."
    sign = SIGNS.get(type(node))
    match node:
        case ast.With():
            return "drop the with", node.body
        case ast.stmt() if not isinstance(node, WHOLE):
            return "delete", [ast.Pass()]
        case ast.keyword(arg=str()):
            return f"drop {node.arg}=", []
        case ast.expr() if field == "decorator_list":
            return f"drop @{ast.unparse(node)}", []
        case ast.UnaryOp() if type(node.op) in SIGNS:
            return f"drop {SIGNS[type(node.op)]}", [node.operand]
        case ast.Constant(bool() | int() | float() as value):
            new = not value if isinstance(value, bool) else value + 1
            new = 2 * value if isinstance(value, float) and value else new
            return f"{value} to {new}", [ast.Constant(new)]
        case _ if type(node) in SWAPPED:
            new = SWAPPED[type(node)]
            return f"{sign} to {SIGNS[type(new)]}", [new]


def mutations(source: str) -> Iterator[tuple[int, str, str]]:
    "(line number, what is changed, mutated source) for each possible change of a cell."
    tree = ast.parse(source)
    safe = protected(tree)
    for node in list(ast.walk(tree)):
        for field, parts in ast.iter_fields(node):
            is_list = isinstance(parts, list)
            for i, part in enumerate(parts if is_list else [parts]):
                is_safe = id(part) in safe and not isinstance(part, ast.Raise)
                if id(node) in safe or is_safe or not (change := replacement(field, part)):
                    continue
                words, new = change
                setattr(node, field, [*parts[:i], *new, *parts[i + 1 :]] if is_list else new[0])
                place = part if hasattr(part, "lineno") else node
                yield place.lineno, words, ast.unparse(tree)
                setattr(node, field, parts)


# Cells --------------------------------------------------------------------------------------------


def compiled(source: str, name: str):
    file = f"<cell {name}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file  # for inspect
    return compile(source, file, "exec")


class Cell:
    def __init__(self, cell, transform):
        self.id, self.source = cell["id"], "".join(cell["source"])
        self.exported = bool(re.search(r"^#\|\s*export\b", self.source, re.M))
        self.code, self.bound = compiled(transform(self.source), self.id), {}
        self.aside = bool(ASIDE & set(cell["metadata"].get("tags", [])))


def stub_figures() -> None:
    "What draws does nothing; what reckons for captions stays."
    import litbook
    from litbook import figures
    from litbook.live.explore import Explorer

    for found in pkgutil.walk_packages(litbook.__path__, "litbook."):
        module = import_module(found.name)
        for name, value in list(vars(module).items()):
            drawn = getattr(value, "__annotations__", {}).get("return")
            if drawn in (figures.Picture, Explorer) or getattr(value, "__name__", "") == "Prose":
                setattr(module, name, MagicMock())
    for name, value in list(vars(figures).items()):
        is_code = isinstance(value, (types.FunctionType, type))
        if is_code and name not in ("heights", "powers", "spread"):
            setattr(figures, name, MagicMock())


class Chapter:
    """Runs cells in one namespace, the dictionary of a module called __main__, and in one folder;
    each mutant in a fork."""

    def __init__(self, path: Path, top: Path):
        from IPython.core.inputtransformer2 import TransformerManager

        transform = TransformerManager().transform_cell
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        self.cells = [Cell(cell, transform) for cell in cells if cell["cell_type"] == "code"]
        sources = "\n".join(cell.source for cell in self.cells)
        default = re.search(r"^#\|\s*default_exp\s+(\S+)", sources, re.M)
        self.module = default[1] if default else ""
        self.names = vars(import_module(f"transformer_lit.{self.module}")).copy() if default else {}
        self.folder, self.copy = top / "work", top / "copy"
        self.folder.mkdir()
        self.space = self.new_space()

    def new_space(self) -> dict:
        os.chdir(self.folder)
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        vars(main).update(display=lambda *_, **__: None, get_ipython=MagicMock())
        return vars(main)

    def clean_run(self) -> None:
        for cell in self.cells:
            before, began = dict(self.space), time.perf_counter()
            exec(cell.code, self.space)
            cell.bound = {k: v for k, v in self.space.items() if before.get(k, self) is not v}
            cell.aside |= time.perf_counter() - began > HEAVY and not cell.exported
        self.space = self.new_space()

    def execute(self, cell: Cell, code) -> None:
        "An exported cell's new definitions are seen by the other modules, too."
        before = dict(self.space)
        exec(code, self.space)
        for name, new in self.space.items():
            if cell.exported and name in self.names and new is not before.get(name, self):
                modules = [m for n, m in sys.modules.items() if n.startswith("transformer_lit")]
                for module in modules:
                    if vars(module).get(name) is self.names[name]:
                        setattr(module, name, new)
                self.names[name] = new

    def failing(self, at: int, code, limit: float) -> int:
        """With this code in cell `at`: 0 if it and all after it run through, or the number of the
        one that fails, from 1; below 0 if time is up."""
        child = os.fork()
        if not child:
            number = at + 1
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, limit)
            try:
                self.execute(self.cells[at], code)
                for number in range(at + 2, len(self.cells) + 1):
                    cell = self.cells[number - 1]
                    if cell.aside:
                        self.space.update(cell.bound)
                    else:
                        self.execute(cell, cell.code)
                number = 0
            finally:
                os._exit(number)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        shutil.rmtree(self.folder)
        shutil.copytree(self.copy, self.folder)
        os.chdir(self.folder)
        return status

    def survivors(self, at: int) -> Iterator[dict | None]:
        "For each mutant of a cell None, or what nothing notices."
        cell = self.cells[at]
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.folder, self.copy)
        began = time.perf_counter()
        while number := self.failing(at, cell.code, 600):  # nothing is changed, nothing may fail
            if number <= at + 1:
                raise SystemExit(f"exported cell {cell.id} fails without a mutation")
            self.cells[number - 1].aside = True  # it needs what a skipped cell did in place
            began = time.perf_counter()
        limit = 5 * (time.perf_counter() - began) + 5
        lines = ["" if line.startswith("#|") else line for line in cell.source.split("\n")]
        for number, words, text in mutations("\n".join(lines)):
            line = lines[number - 1].split("  #")[0].strip()
            row = {"cell": cell.id, "line": line, "mutation": words, "text": text}
            yield None if self.failing(at, compiled(text, f"{cell.id} mutant"), limit) else row

    def all_survivors(self, only: str | None) -> Iterator[dict | None]:
        for at, cell in enumerate(self.cells):
            if cell.exported and only in (None, cell.id):
                yield from self.survivors(at)
            if cell.aside:
                self.space.update(cell.bound)
            else:
                exec(cell.code, self.space)


# Survivors ----------------------------------------------------------------------------------------


def known(chapter: str) -> dict[tuple[str, str], str]:
    "Reasons of tests/mutants_known.md, by (line, mutation)."
    rows = {}
    for text in (TESTS / "mutants_known.md").read_text(encoding="utf-8").splitlines():
        row = [part.strip().replace("\\|", "|") for part in re.split(r"(?<!\\)\|", text)[1:-1]]
        if len(row) == 4 and row[0] in (chapter, "*"):
            rows[row[1].strip("`"), row[2].strip("`")] = row[3]
    return rows


def catching(survivor: dict, module: str, book: str) -> str:
    "The first test that fails with this mutant in a copy of the package; empty if none does."
    import faults

    files = [name for name in (f"test_{module}.py", *CORE) if (TESTS / name).exists()]
    with tempfile.TemporaryDirectory() as name:
        faults.copy(Path(name))
        path, place = Path(name, faults.path_of(module)), f"{book}.ipynb #{survivor['cell']}\n"
        text = survivor["text"].replace("from transformer_lit.", "from .")
        before, _, after = path.read_text("utf-8").partition(place)
        rest = re.sub(r"(?s).*?(?=\n# %% |\Z)", lambda _: text + "\n", after, count=1)
        path.write_text(before + place + rest, encoding="utf-8")
        failed = faults.failing(faults.fast_tests(Path(name), "-x", files=files)[1])
        return next((test for test in failed if "::" in test), "")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("chapter", help="its number, two digits")
    options.add_argument("--page", action="store_true", help="without the module's tests")
    options.add_argument("--cell", help="only this exported cell")
    options = options.parse_args()
    (path,) = (ROOT / "book").glob(f"{options.chapter}_*.ipynb")
    import torch

    torch.set_num_threads(1)
    quiet, reasons = open(os.devnull, "w"), known(options.chapter)
    with (
        tempfile.TemporaryDirectory() as top,
        contextlib.redirect_stdout(quiet),
        contextlib.redirect_stderr(quiet),
    ):
        stub_figures()
        chapter = Chapter(path, Path(top))
        tempfile.tempdir = str(chapter.folder)
        chapter.clean_run()
        mutants = list(chapter.all_survivors(options.cell))
        os.chdir(ROOT)
        tempfile.tempdir = None
    without = 0
    for row in filter(None, mutants):
        reason = reasons.get((row["line"], row["mutation"])) or reasons.get(("*", row["mutation"]))
        if not (reason or options.page):
            reason = catching(row, chapter.module, path.stem)
        without += not reason
        print(f"{row['cell']}: `{row['line']}` {row['mutation']}  -- {reason or 'NO REASON'}")
    print(f"{path.stem}: {len(mutants)} mutants, {len([*filter(None, mutants)])} survive the page")
    print("not run:", *(cell.id for cell in chapter.cells if cell.aside))
    return bool(without)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # sys.modules["__main__"] is not this file any more: leave without ceremony
