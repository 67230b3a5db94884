"""Tries to break a chapter's exported cells unnoticed: python tests/mutants.py 03 [--page] [--cell
ID]

Each exported cell is changed in one place at a time (a statement deleted, an operator swapped, a
number changed, a keyword dropped), and the chapter's cells are run from there until one fails. A
mutant that raises anything is killed. Not run in mutants: cells that took over two seconds in the
clean run or carry the tag training, skip-mutants or remove-cell (what they define is taken from the
clean run instead). Figures are stubs. What survives the page is given to the fast tests of its
module, the fastest file first, until one fails; --page leaves them out.

Survivors with a reason stand in tests/mutants_known.md; exit status 1 if there is one without."""

import argparse
import ast
import contextlib
import copy
import importlib
import io
import json
import linecache
import os
import random
import re
import signal
import sys
import tempfile
import time
import types
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", MPLBACKEND="Agg")
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "book"), str(ROOT / "tests")]
HEAVY = 2.0  # seconds
ASIDE = {"training", "skip-mutants", "remove-cell"}


# Mutations ----------------------------------------------------------------------------------------

PAIRS = [pair.split(", ") for pair in """+, -; -, +; *, /; /, *; **, *; %, //; //, *; &, |; |, &
    and, or; or, and; <, <=; <=, <; >, >=; >=, >; ==, !=; !=, ==
    is, is not; is not, is; in, not in; not in, in""".replace("\n    ", "; ").split("; ")]


def operator(sign: str) -> type[ast.AST]:
    node = ast.parse(f"a {sign} b", mode="eval").body
    return type(node.ops[0] if isinstance(node, ast.Compare) else node.op)


SWAPS = {operator(old): operator(new) for old, new in PAIRS}
SIGNS = {operator(old): old for old, _ in PAIRS}
SIGNS |= {ast.Not: "not", ast.Invert: "~", ast.USub: "-"}


def protected(tree: ast.AST) -> set[int]:
    """Nodes that are left alone: docstrings, annotations, error sentences, imports, defaults of
    parameters and of a class's fields."""
    out: set[int] = set()
    for node in ast.walk(tree):
        aside = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.arguments):
            aside += [*node.defaults, *node.kw_defaults]
        if isinstance(node, ast.ClassDef):
            aside += [line.value for line in node.body if isinstance(line, ast.AnnAssign)]
        if (
            isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module))
            and node.body
            and isinstance(node.body[0], ast.Expr)
            and isinstance(node.body[0].value, ast.Constant)
        ):
            aside.append(node.body[0])
        if isinstance(node, (ast.Raise, ast.Import, ast.ImportFrom)):
            aside.append(node)
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Subscript)
            and ast.unparse(node).startswith("Pair")
        ):
            aside.append(node.value)  # a type alias
        out |= {id(part) for top in aside if top is not None for part in ast.walk(top)}
    return out


def mutations(source: str):
    "(line number, what is changed, mutated source) for each possible change of a cell."
    found = []

    def changes(tree):
        "Every change of this tree, as (node, words, function that makes it)."
        safe = protected(tree)
        for node in ast.walk(tree):
            for field in "body", "orelse", "finalbody":
                block = getattr(node, field, None)
                for i, stmt in enumerate(block if isinstance(block, list) else []):
                    if not isinstance(stmt, ast.stmt) or isinstance(
                        stmt, (ast.FunctionDef, ast.ClassDef, ast.For, ast.While, ast.Try, ast.Pass)
                    ):
                        continue
                    if id(stmt) in safe and not isinstance(stmt, ast.Raise):
                        continue
                    new = stmt.body if isinstance(stmt, ast.With) else [ast.Pass()]
                    words = "drop the with" if isinstance(stmt, ast.With) else "delete"
                    yield (
                        stmt,
                        words,
                        lambda b=block, i=i, new=new: b.__setitem__(slice(i, i + 1), new),
                    )
            if id(node) in safe:
                continue
            for i, one in enumerate(getattr(node, "decorator_list", [])):
                yield one, f"drop @{ast.unparse(one)}", lambda n=node, i=i: n.decorator_list.pop(i)
            for name in ("op", "ops"):
                ops = getattr(node, name, [])
                for i, op in enumerate(ops if isinstance(ops, list) else [ops]):
                    if type(op) in SWAPS:
                        new = SWAPS[type(op)]()
                        change = (
                            (lambda n=node, i=i, new=new: n.ops.__setitem__(i, new))
                            if name == "ops"
                            else (lambda n=node, new=new: setattr(n, "op", new))
                        )
                        yield node, f"{SIGNS[type(op)]} to {SIGNS[type(new)]}", change
            for field, child in ast.iter_fields(node):
                for i, one in enumerate(child if isinstance(child, list) else [child]):
                    if not isinstance(one, ast.AST) or id(one) in safe:
                        continue
                    new = None
                    if isinstance(one, ast.UnaryOp):
                        new, words = one.operand, f"drop {SIGNS[type(one.op)]}"
                    elif isinstance(one, ast.Constant) and isinstance(one.value, bool):
                        new, words = ast.Constant(not one.value), f"{one.value} to {not one.value}"
                    elif isinstance(one, ast.Constant) and isinstance(one.value, (int, float)):
                        value = (
                            one.value * 2
                            if isinstance(one.value, float) and one.value
                            else one.value + 1
                        )
                        new, words = ast.Constant(value), f"{one.value} to {value}"
                    if new is not None:
                        yield (
                            one,
                            words,
                            (
                                (lambda c=child, i=i, new=new: c.__setitem__(i, new))
                                if isinstance(child, list)
                                else (lambda n=node, f=field, new=new: setattr(n, f, new))
                            ),
                        )
            if isinstance(node, ast.Call):
                for i, word in enumerate(node.keywords):
                    if word.arg:
                        yield word.value, f"drop {word.arg}=", lambda n=node, i=i: n.keywords.pop(i)

    count = len(list(changes(ast.parse(source))))
    for n in range(count):
        tree = ast.parse(source)
        node, words, change = list(changes(tree))[n]
        change()
        text = ast.unparse(ast.fix_missing_locations(tree))
        with contextlib.suppress(SyntaxError):
            compile(text, "mutant", "exec")
            found.append((node.lineno, words, text))
    return found


# Cells --------------------------------------------------------------------------------------------


class Late(BaseException):
    "A mutant ran out of time."


class Cell:
    def __init__(self, cell, transform):
        self.id, self.tags = cell["id"], set(cell["metadata"].get("tags", []))
        self.source = "".join(cell["source"])
        self.exported = bool(re.search(r"^#\|\s*export\b", self.source, re.M))
        self.code = compile_cell(transform(self.source), self.id)
        self.seconds, self.bound, self.dice, self.files = 0.0, {}, None, {}
        self.aside = bool(self.tags & ASIDE)


def compile_cell(source: str, name: str):
    file = f"<cell {name}>"
    linecache.cache[file] = (
        len(source),
        None,
        source.splitlines(True),
        file,
    )  # inspect.getsource finds it
    return compile(source, file, "exec")


def fresh(space: dict) -> dict:
    """Values copied, so that a mutant can't change them for the next one; functions, classes and
    what resists stay."""
    memo: dict = {}
    out = dict(space)
    for name, value in space.items():
        if not name.startswith("__") and not isinstance(
            value, (types.ModuleType, types.FunctionType, type)
        ):
            with contextlib.suppress(Exception):
                out[name] = copy.deepcopy(value, memo)
    return out


class Names:
    "Names for temporary files: the same ones in each run."

    n = 0

    def __iter__(self):
        return self

    def __next__(self):
        Names.n += 1
        return f"t{Names.n:04}"


def dice(state=None):
    "All random states, and the count of temporary files; read or restored."
    import numpy
    import torch

    if state is None:
        return random.getstate(), numpy.random.get_state(), torch.get_rng_state(), Names.n
    random.setstate(state[0])
    numpy.random.set_state(state[1])
    torch.set_rng_state(state[2])
    Names.n = state[3]


def files(folder: Path) -> dict[str, bytes | None]:
    "Everything in a folder: bytes of a file, None for a folder."
    return {
        str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None
        for p in sorted(folder.rglob("*"))
    }


def put_back(folder: Path, held: dict[str, bytes | None]) -> None:
    now = files(folder)
    for name in sorted(now, reverse=True):  # what is inside a folder comes before the folder
        if name not in held or (now[name] is None) != (held[name] is None):
            (folder / name).rmdir() if now[name] is None else (folder / name).unlink()
    for name, data in held.items():
        if data is None:
            (folder / name).mkdir(exist_ok=True)
        elif now.get(name) != data:
            (folder / name).write_bytes(data)


class Nothing:
    "Stands for a drawing: every call is accepted."

    def __init__(self, *_, **__):
        pass

    def __call__(self, *_, **__):
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self


def stub_figures() -> None:
    """Every call of `figures`, and every function of litbook that returns a picture, does nothing;
    but what reckons for captions stays."""
    import pkgutil

    import litbook
    from litbook import figures
    from litbook.live.explore import Explorer

    modules = [
        importlib.import_module(module.name)
        for module in pkgutil.walk_packages(litbook.__path__, "litbook.")
    ]
    for module in modules:
        for name, value in list(vars(module).items()):
            if isinstance(value, types.FunctionType) and value.__annotations__.get("return") in (
                figures.Picture,
                Explorer,
            ):
                setattr(module, name, lambda *_, **__: None)
            elif getattr(value, "__name__", None) == "Prose":
                setattr(module, name, Nothing)
    for name, value in list(vars(figures).items()):
        if isinstance(value, (types.FunctionType, type)) and name not in (
            "heights",
            "powers",
            "spread",
        ):
            setattr(figures, name, Nothing if isinstance(value, type) else lambda *_, **__: None)


class Quiet(io.StringIO):
    def write(self, text):
        return len(text)


class Chapter:
    """Runs cells in one namespace, the dictionary of a module called __main__, which is put back
    between mutants."""

    def __init__(self, path: Path, folder: Path):
        from IPython.core.inputtransformer2 import TransformerManager

        transform = TransformerManager().transform_cell
        notebook, self.folder = json.loads(path.read_text(encoding="utf-8")), folder
        self.cells = [Cell(c, transform) for c in notebook["cells"] if c["cell_type"] == "code"]
        default = re.search(
            r"^#\|\s*default_exp\s+(\S+)", "\n".join(c.source for c in self.cells), re.M
        )
        self.module = default and f"transformer_lit.{default[1]}"
        main = types.ModuleType("__main__")
        self.seen: dict = {}
        main.__dict__.update(display=lambda *_, **__: None, get_ipython=lambda: Nothing())
        sys.modules["__main__"], self.space = main, main.__dict__
        if self.module:
            __import__(self.module)
            self.original = dict(vars(sys.modules[self.module]))

    def execute(self, cell: Cell, code=None) -> None:
        before = dict(self.space)
        exec(code or cell.code, self.space)
        if cell.exported and self.module:  # other modules see the new definitions too
            for name, value in list(self.space.items()):
                old = self.original.get(name)
                if name in self.original and value is not before.get(name, self):
                    for module in self.book_modules():
                        if vars(module).get(name) is self.seen.get(name, old):
                            setattr(module, name, value)
                    self.seen[name] = value

    def book_modules(self):
        return [
            m for n, m in sys.modules.items() if n.startswith("transformer_lit") and m is not None
        ]

    def take(self, cell: Cell) -> None:
        "What the cell did in the clean run, without running it."
        self.space.update(fresh(cell.bound))
        dice(cell.dice)
        if cell.files:
            put_back(self.folder, {**files(self.folder), **cell.files})

    def clean_run(self) -> None:
        empty, state = dict(self.space), dice()
        for cell in self.cells:
            before, held, start = dict(self.space), files(self.folder), time.perf_counter()
            try:
                exec(cell.code, self.space)
            except Exception as error:
                raise SystemExit(
                    f"the chapter itself fails in cell {cell.id}: {type(error).__name__}: {error}"
                ) from error
            cell.seconds = time.perf_counter() - start
            cell.bound = {k: v for k, v in self.space.items() if before.get(k, self) is not v}
            cell.dice = dice()
            cell.files = {
                name: data for name, data in files(self.folder).items() if held.get(name, 0) != data
            }
            cell.aside |= cell.seconds > HEAVY and not cell.exported
        self.space.clear()
        self.space.update(empty)
        dice(state)
        put_back(self.folder, {})

    def freeze(self):
        modules = {module: dict(vars(module)) for module in self.book_modules()}
        return dict(self.space), modules, dice(), dict(self.seen), files(self.folder)

    def restore(self, frozen) -> None:
        space, modules, state, seen, held = frozen
        put_back(self.folder, held)
        self.space.clear()
        self.space.update(fresh(space))
        for module, names in modules.items():
            vars(module).update(names)
        dice(state)
        self.seen = dict(seen)

    def rest(self, at: int, code, limit: float):
        """Cell `at` with this code, then the others. Returns (None, None), or (index of the failing
        cell, error)."""

        def late(*_):
            raise Late

        signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, limit)
        i = at
        try:
            for i in range(at, len(self.cells)):
                cell = self.cells[i]
                if cell.aside and i > at:
                    self.take(cell)
                else:
                    self.execute(cell, code if i == at else None)
        except BaseException as error:
            if (
                isinstance(error, KeyboardInterrupt) and not error.args
            ):  # a real Ctrl-C; a training that stops itself says why
                raise
            return i, error
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return None, None


def try_cell(chapter: Chapter, at: int, report: dict) -> None:
    cell, frozen = chapter.cells[at], chapter.freeze()
    passes = (
        1 if report["mutants"] else 2
    )  # what one run leaves behind in a class shows in the next
    for _ in chapter.cells:  # the control: nothing changed, nothing may fail
        began = time.perf_counter()
        where, error = chapter.rest(at, None, 600)
        took = time.perf_counter() - began
        chapter.restore(frozen)
        if where is None:
            passes -= 1
            if not passes:
                break
            continue
        if where == at:
            raise SystemExit(f"exported cell {cell.id} fails without a mutation: {error!r}")
        chapter.cells[where].aside = True  # it needs what a skipped cell did in place
        report["needs"].append(chapter.cells[where].id)
    source = "\n".join("" if line.startswith("#|") else line for line in cell.source.split("\n"))
    for number, words, text in mutations(source):
        where, error = chapter.rest(at, compile_cell(text, f"{cell.id} mutant"), 5 * took + 5)
        chapter.restore(frozen)
        report["mutants"] += 1
        line = cell.source.split("\n")[number - 1].split("  #")[0].strip()
        if where is None:
            report["survivors"].append(dict(cell=cell.id, line=line, mutation=words, text=text))
        else:
            report["killed"] += 1
    where, error = chapter.rest(at, None, 600)
    chapter.restore(frozen)
    if where is not None:
        report["unsteady"].append(
            f"{cell.id}: without a mutation cell {chapter.cells[where].id} fails at the end"
            f" ({error!r})"
        )


# Survivors ----------------------------------------------------------------------------------------


def known(chapter: str) -> dict:
    "Reasons of tests/mutants_known.md, by (line, mutation)."
    rows = {}
    for text in (ROOT / "tests" / "mutants_known.md").read_text(encoding="utf-8").splitlines():
        row = [part.strip().replace("\\|", "|") for part in re.split(r"(?<!\\)\|", text)[1:-1]]
        if len(row) == 4 and row[0] in (chapter, "*"):
            rows[row[1].strip("`"), row[2].strip("`")] = row[3]
    return rows


def reason_for(survivor: dict, reasons: dict) -> str | None:
    return reasons.get((survivor["line"], survivor["mutation"])) or reasons.get(
        ("*", survivor["mutation"])
    )


KEEN = 8  # tests that are asked first
PLUMBING = "test_faults_plumbing.py"
CORE = ("test_parity.py", "test_properties.py", "test_whole.py")


def test_files(module: str) -> list[str]:
    """The test files of a module: its own, that of bad input where it imports it, and the core's
    where one of them does."""
    tests, name = ROOT / "tests", module.split(".")[1]

    def uses(file: str) -> bool:
        return bool(
            re.search(rf"transformer_lit\.{name}\b", (tests / file).read_text(encoding="utf-8"))
        )

    own, core = tests / f"test_{name}.py", any(map(uses, CORE))
    return [own.name] * own.exists() + [PLUMBING] * uses(PLUMBING) + list(CORE) * core


class Tests:
    """A module's test files, the fastest first; what fails in them without a mutant says nothing
    about one and is left out.

    Tests that caught a mutant before are asked before all others: most mutants of a cell fail the
    same few."""

    def __init__(self, module: str, book: str):
        import faults

        self.module, self.book, self.known, self.keen, seconds = module, book, [], [], {}
        with tempfile.TemporaryDirectory() as folder:
            faults.copy(Path(folder))
            for file in test_files(module):
                began = time.perf_counter()
                text = faults.fast_tests(Path(folder), files=[file])[1]
                seconds[file] = time.perf_counter() - began
                self.known += [f"--deselect={test}" for test in faults.failing(text)]
        self.files = sorted(seconds, key=seconds.get)

    def catch(self, survivor: dict) -> str | None:
        "The first test that fails with this mutant in a copy of the package."
        import faults

        if not self.files:
            return None
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            faults.copy(folder)
            path = folder / "transformer_lit" / f"{self.module.split('.')[1]}.py"
            parts = re.split(r"(?m)^(# %% .*)$", path.read_text(encoding="utf-8"))
            at = next(
                i
                for i, part in enumerate(parts)
                if part.endswith(f"{self.book}.ipynb #{survivor['cell']}")
            )
            parts[at + 1] = (
                "\n" + re.sub(r"(?m)^from transformer_lit\.", "from .", survivor["text"]) + "\n\n"
            )
            path.write_text("".join(parts), encoding="utf-8")
            code, text = (
                self.keen and faults.fast_tests(folder, "-x", *self.known, files=self.keen)
            ) or (0, "")
            if code != 1:
                code, text = faults.fast_tests(folder, "-x", *self.known, files=self.files)
        test = re.search(r"^(?:FAILED|ERROR) (?:tests/)?(\S+)", text, re.M)
        if code and test and "::" in test[1]:
            name = test[1].split("[")[0]
            self.keen = [name, *(one for one in self.keen if one != name)][:KEEN]
        return (test[1] if test else "tests/ does not even start") if code else None


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("chapter", help="its number, two digits")
    options.add_argument(
        "--page",
        action="store_true",
        help="against the page alone: without the module's tests, some seconds for each survivor",
    )
    options.add_argument("--cell", help="only this exported cell")
    options = options.parse_args()
    paths = sorted((ROOT / "book").glob(f"{options.chapter}_*.ipynb"))
    if len(paths) != 1:
        sys.exit(f"{len(paths)} chapters begin with {options.chapter}_")
    import torch

    torch.set_num_threads(1)
    began, here = time.perf_counter(), os.getcwd()
    report = dict(mutants=0, killed=0, survivors=[], needs=[], unsteady=[])
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(Quiet()),
        contextlib.redirect_stderr(Quiet()),
    ):
        os.chdir(folder)
        tempfile.tempdir, tempfile._name_sequence = (
            folder,
            Names(),
        )  # the chapter's own files; put back between mutants
        try:
            stub_figures()
            chapter = Chapter(paths[0], Path(folder))
            chapter.clean_run()
            for at, cell in enumerate(chapter.cells):
                if cell.exported and options.cell in (None, cell.id):
                    try_cell(chapter, at, report)
                if cell.aside:
                    chapter.take(cell)
                else:
                    try:
                        exec(cell.code, chapter.space)
                    except Exception as error:  # it needs what a skipped cell did in place
                        report["needs"].append(f"{cell.id} ({error!r})")
                        cell.aside = True
                        chapter.take(cell)
        finally:
            os.chdir(here)
            tempfile.tempdir = None
    heavy = [c.id for c in chapter.cells if c.seconds > HEAVY and not c.exported]
    reasons, alive = known(options.chapter), []
    tests = (
        Tests(chapter.module, paths[0].stem) if report["survivors"] and not options.page else None
    )
    for survivor in report["survivors"]:
        survivor["reason"] = reason_for(survivor, reasons)
        test = tests and survivor["reason"] is None and tests.catch(survivor)
        if test:
            report["killed"] += 1
        else:
            alive.append(survivor)

    print(
        f"{paths[0].stem}: {report['mutants']} mutants, {report['killed']} killed,"
        f" {len(alive)} survive; {time.perf_counter() - began:.0f} s"
    )
    for what, names in (
        (f"skipped, over {HEAVY:.0f} s", heavy),
        ("skipped, need a skipped cell", sorted(set(report["needs"]))),
        ("UNSTEADY", report["unsteady"]),
    ):
        if names:
            print(f"  {what}: {', '.join(names)}")
    for s in alive:
        reason = s["reason"] or "NO REASON"
        print(f"  {s['cell']}: `{s['line']}` {s['mutation']}  -- {reason}")
    return any(not s["reason"] for s in alive) or bool(report["unsteady"])


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # sys.modules["__main__"] is not this file any more: leave without ceremony
