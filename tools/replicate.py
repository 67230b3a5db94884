"""Run the chapters that claim something again, with other seeds, instruction sets and threads:
`replicate.py [NN ...]`.

Each run is one chapter in a kernel of its own, with all seeds shifted (tools/shifted), under one
setting of the instruction sets. What its claims measured is added to the record that the page *What
held* shows, book/results/replication.jsonl, so that the command stops and goes on. The working tree
must be clean: a record names the commit that it was made from.

A record belongs to its experiment: the cells that the claim's cell depends on. When one of them
changes, in code and not in words, the runs before are dropped and fall due again. Lines that only
print or draw are words, too, and so are colours and an expression that stands on a line alone to be
seen."""

import argparse
import ast
import hashlib
import json
import math
import os
import platform
import re
import subprocess
import symtable
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path

import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from nbclient import NotebookClient

from litbook import claims

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "book" / "results" / "replication.jsonl"
WORK = ROOT / ".run" / "work"
ATEN, ONEDNN, MKL = "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS"
SETS = {  # what PyTorch's own kernels, oneDNN and MKL may use; "best": whatever the machine has
    "best": {},
    "avx2": {ATEN: "avx2", ONEDNN: "AVX2", MKL: "AVX2"},
    "default": {ATEN: "default", ONEDNN: "SSE41", MKL: "SSE4_2"},
    "avx512": {ATEN: "avx512", ONEDNN: "AVX512_CORE", MKL: "AVX512"},
}
SETTINGS = [("best", 1), ("avx2", 1), ("default", 1), ("avx512", 1), ("best", 2), ("default", 2)]
SETTINGS += [("avx2", 2)]
FLAGS = {"avx2": "avx2", "avx512": "avx512f"}  # without it, a set would run as a lesser one


# The experiment behind a claim --------------------------------------------------------------------

CHANGES = set(  # methods that change what they are called on
    """append extend add update insert load_state_dict train eval fit step backward requires_grad_
    to double float copy_ fill_ mul_ add_ zero_""".split()
)
SHOWS = set(  # a line that calls these only shows
    """print figures sketches pictures views show_attention Prose two_columns token_boxes
    validation_by_epoch HTML""".split()
)
READS = set("tuple len list round sorted item tolist".split())  # calls that change nothing
MODULES = set("torch nn F np math".split())
WORDS = set("words unit alt caption title xlabel ylabel fmt".split())  # what is said, not done
VALUES = (ast.Name, ast.Attribute, ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.ListComp)
VALUES += (ast.DictComp, ast.Subscript, ast.JoinedStr)


def root_of(node: ast.AST) -> str | None:
    "The name at the front of x, x.y, x[0].y …"
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


@dataclass
class Names:
    "What a cell reads at once, reads later (inside functions), defines, and changes in place."

    now: set = field(default_factory=set)
    later: set = field(default_factory=set)
    makes: set = field(default_factory=set)
    changes: set = field(default_factory=set)


def names_in(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def made_by(line: ast.stmt) -> set[str]:
    "Names that a line of a cell surely binds."
    if isinstance(line, (ast.FunctionDef, ast.ClassDef)):
        return {line.name}
    if isinstance(line, ast.Assign):
        nodes = [node for target in line.targets for node in ast.walk(target)]
        return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return names_in(line.target) if isinstance(line, ast.For) else set()


def changed_by(node: ast.AST) -> set[str | None]:
    "Names that a node changes in place."
    if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
        return {root_of(node)}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return {root_of(node.func)} if node.func.attr in CHANGES else set()
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return {node.target.id}
    if isinstance(node, ast.FunctionDef):  # @patch_to(Model): a class that another cell defines
        calls = [call for call in node.decorator_list if isinstance(call, ast.Call) and call.args]
        return {root_of(call.args[0]) for call in calls if root_of(call.func) == "patch_to"}
    return set()


def names_of(source: str) -> Names:
    "The names of a cell; what is local to a function or a comprehension doesn't count."
    names = Names()

    def scope(code, inside, bound):
        look(symtable.symtable(code, "cell", "exec"), inside, bound)

    def look(table, inside, bound):
        outermost = table.get_type() == "module"
        for symbol in table.get_symbols():
            name = symbol.get_name()
            reads = symbol.is_referenced() and (outermost or symbol.is_global())
            if reads and (inside or name not in bound):
                (names.later if inside else names.now).add(name)
            if outermost and (symbol.is_assigned() or symbol.is_imported()):
                names.makes.add(name)
        for child in table.get_children():
            comprehension = child.get_name() in ("listcomp", "setcomp", "dictcomp", "genexpr")
            look(child, inside or not (comprehension or child.get_type() == "class"), bound)

    tree = without_shows(ast.parse(source))
    bound = set()  # what a cell makes before it reads it, it takes from no other
    for line in tree.body:
        before = bound
        if isinstance(line, ast.For):  # its body runs with the loop's own names
            scope(ast.unparse(line.iter), False, bound)
            before = bound | names_in(line.target)
        scope(ast.unparse(line), False, before)
        bound = bound | made_by(line)
    names.changes = set().union(*map(changed_by, ast.walk(tree)))
    # names of a function are its own; torch.ones(1).double() changes nothing
    names.changes &= (names.now | names.makes) - MODULES
    return names


def without_shows(tree: ast.Module) -> ast.Module:
    "A cell without the lines that only print, draw, or give a name to colors."
    tree.body = [line for line in tree.body if not only_shows(line) and not only_colours(line)]
    return tree


def only_shows(line: ast.stmt) -> bool:
    "Whether a line of a cell does nothing but print or draw: it takes no part in the experiment."
    root = isinstance(line, ast.Expr) and root_of(line.value)
    drawing = root in SHOWS or re.fullmatch(r"ch\d\d", root or "")  # ch05.shift_by(...) draws
    return isinstance(line, ast.Expr) and bool(drawing or displays(line.value))


def only_colours(line: ast.stmt) -> bool:
    "Whether a line gives a name to colours: what is drawn in them is the same experiment."
    nodes = ast.walk(line.value) if isinstance(line, ast.Assign) else []
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    return any(node.attr.isupper() and root_of(node) == "figures" for node in attributes)


def displays(value: ast.expr) -> bool:
    "Whether an expression on a line alone was put there to be seen, and changes nothing."
    if any(isinstance(node, ast.Attribute) and node.attr in CHANGES for node in ast.walk(value)):
        return False
    if isinstance(value, ast.Call):
        return getattr(value.func, "id", getattr(value.func, "attr", None)) in READS
    return isinstance(value, VALUES)


def without_words(tree: ast.AST) -> ast.AST:
    """The same code without docstrings, imports, what only shows, a claim's name, and what a claim
    or a figure says in words."""
    if isinstance(tree, ast.Module):
        without_shows(tree)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):  # where a name comes from may change
            body = [line for line in body if not isinstance(line, (ast.Import, ast.ImportFrom))]
            node.body = body = body or [ast.Pass()]
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and isinstance(body[0], ast.Expr):
            if isinstance(body[0].value, ast.Constant):
                node.body = body[1:] or [ast.Pass()]
        if isinstance(node, ast.Call):
            node.args = node.args[root_of(node) == "claims" :]  # a chapter may get another number
            node.keywords = [word for word in node.keywords if word.arg not in WORDS]
    return tree


def claims_in(tree: ast.AST) -> list[ast.Call]:
    "The calls claims.below(...) and claims.within(...) of a cell."
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    calls = [call for call in calls if isinstance(call.func, ast.Attribute)]
    return [c for c in calls if root_of(c) == "claims" and c.func.attr in ("below", "within")]


def cells_behind(names: list[Names], words: set[str], at: int) -> set[int]:
    "The cells that some names of cell `at` depend on."
    cells, done, wanted = set(), set(), {(word, at + 1) for word in words}
    while wanted:
        word, before = wanted.pop()
        done.add((word, before))
        # its last definition before that place, and what changed it in between
        last = max((n for n in range(before) if word in names[n].makes), default=None)
        for n in range(last or 0, before):
            if n == last or word in names[n].changes:
                cells.add(n)
                wanted |= {(w, n) for w in names[n].now} | {(w, at) for w in names[n].later}
                wanted -= done
    return cells


@cache
def slices(path: Path) -> dict[str, list[str]]:
    "Of each claim of a chapter: the code of the cells that it depends on, in order, its own last."
    cells = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    sources = [TransformerManager().transform_cell(cell.source) for cell in cells]
    names, found = [names_of(source) for source in sources], {}
    for at, source in enumerate(sources):
        for call in claims_in(ast.parse(source)):
            name = getattr(call.args[0], "value", None) if call.args else None
            if not isinstance(name, str):
                sys.exit(f"{path.name}: a claim's name must stand there as text")
            if name in found:
                sys.exit(f"{path.name}: two claims are called {name}")
            own = names_of(ast.unparse(call))
            behind = cells_behind(names, (own.now | own.later) - {"claims"}, at) - {at}
            found[name] = [sources[n] for n in sorted(behind)] + [source]
    return found


def experiments(path: Path) -> dict[str, str]:
    """Of each claim of a chapter: one hash over the cells that it depends on, and over its own
    thresholds."""
    hashes = {}
    for name, cells in slices(path).items():
        (call,) = [c for c in claims_in(ast.parse(cells[-1])) if c.args[0].value == name]
        trees = [ast.parse(source) for source in cells[:-1]]
        # of its own cell: what it shares with the claim is part of the experiment, other claims
        # there are not
        own = [s for s in ast.parse(cells[-1]).body if not claims_in(s)]
        code = [ast.dump(without_words(tree)) for tree in (*trees, ast.Module(own, []), call)]
        hashes[name] = hashlib.sha256("\n".join(code).encode()).hexdigest()[:16]
    return hashes


def chapters(numbers: list[str]) -> list[Path]:
    "The chapters that claim something, all or those whose number was given."
    paths = sorted((ROOT / "book").glob("[0-9]*.ipynb"))
    wanted = [path for path in paths if not numbers or path.name[:2] in numbers]
    return [path for path in wanted if slices(path)]


# One run ------------------------------------------------------------------------------------------


@cache
def processor_flags() -> str:
    cpus = Path("/proc/cpuinfo")
    return cpus.read_text(encoding="utf-8") if cpus.exists() else ""


@cache
def processor() -> str:
    "The kind of processor, as far as rounding depends on it: who made it, and its widest units."
    makers = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}
    units = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 with bf16", "avx512f": "AVX-512"}
    units |= {"avx2": "AVX2", "asimd": "NEON"}
    words = re.findall(r"\w+", processor_flags())
    maker = next((makers[word] for word in words if word in makers), platform.machine())
    return ", ".join([maker, *[unit for flag, unit in units.items() if flag in words][:1]])


def run(path: Path, setting: dict) -> tuple[list[dict], list[str]]:
    "One run of one chapter: the claims that it reached, and the cells that raised."
    folder = WORK / "-".join(map(str, (path.stem, *setting.values())[:4]))
    folder.mkdir(parents=True, exist_ok=True)
    paths = ROOT / "tools" / "shifted", ROOT, ROOT / "book"
    environment = {
        **os.environ,
        **SETS[setting["instructions"]],
        "OMP_NUM_THREADS": str(setting["threads"]),
        "MKL_NUM_THREADS": str(setting["threads"]),
        "TRANSFORMER_LIT_SEED_SHIFT": str(setting["shift"]),
        "TRANSFORMER_LIT_CI": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
    }
    notebook, place = nbformat.read(path, 4), {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=1800, allow_errors=True, resources=place)
    client.execute(env=environment)
    outputs = [(cell.id, out) for cell in notebook.cells for out in cell.get("outputs", [])]
    errors = [f"{i}: {o.ename}: {o.evalue}"[:300] for i, o in outputs if o.output_type == "error"]
    return claims.shown(notebook), errors


def settings_of(shifts: range) -> list[dict]:
    "Each shift of the seeds under one setting after the other, so that few runs meet all of them."
    flags = processor_flags().split()
    able = [s for s in SETTINGS if FLAGS.get(s[0]) in (None, *flags)]
    where = {"processor": processor(), "torch": version("torch")}
    each = ((shift, *able[(shift - 1) % len(able)]) for shift in shifts)
    return [{"shift": s, "instructions": i, "threads": t, **where} for s, i, t in each]


# The record ---------------------------------------------------------------------------------------


def lines_of(path: Path, where: dict, reached: list[dict], record: dict) -> list[dict]:
    """What a run adds to the record: what a claim is, where that is new, and what it measured. A
    known claim that the run didn't reach didn't hold."""
    found, lines = {claim["name"]: claim for claim in reached}, []
    for name, experiment in experiments(path).items():
        claim, old = found.get(name), record.get(name, {})
        if claim:
            about = {"chapter": path.stem, "experiment": experiment}
            about |= {key: claim[key] for key in ("kind", "words", "unit", "low", "high")}
            if about != {key: old.get(key) for key in about}:
                lines.append({"claim": name, **about})
        elif old.get("experiment") != experiment:
            continue
        effect = claim["effect"] if claim and math.isfinite(claim["effect"]) else None
        held = bool(claim and claim["held"])
        lines.append({"claim": name, **where, "effect": effect, "held": held})
    return lines


def due(path: Path, setting: dict, record: dict) -> bool:
    "Is there a claim of the chapter that has no run in this setting?"

    def ran(name, experiment):
        old = record.get(name, {"experiment": "", "runs": []})
        same = any(setting.items() <= run.items() for run in old["runs"])
        return old["experiment"] == experiment and same

    return not all(ran(*claim) for claim in experiments(path).items())


def read_record() -> dict:
    return claims.read_record(RECORD.read_text(encoding="utf-8") if RECORD.exists() else "")


def add(lines: list[dict]) -> None:
    with RECORD.open("a", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")


def committed() -> str:
    "The commit of a clean checkout, or an end with a sentence."

    def git(*words):
        return subprocess.check_output(["git", "-C", str(ROOT), *words], text=True).strip()

    changed = git("status", "--porcelain", "--", ".", f":!{RECORD.relative_to(ROOT)}")
    if changed:
        sys.exit(f"a record is made from a commit: commit, or --try, without a record\n{changed}")
    return git("rev-parse", "HEAD")


def replicate(jobs: list[tuple[Path, dict]], at_once: int, commit: str | None) -> None:
    "Run chapters, each in its setting, and add what they measured to the record of a commit."
    began = time.time()
    with ThreadPoolExecutor(at_once) as pool:
        runs = {pool.submit(run, *job): job for job in jobs}
        for n, done in enumerate(as_completed(runs), 1):
            (path, setting), (reached, errors) = runs[done], done.result()
            if commit:
                add(lines_of(path, {**setting, "commit": commit}, reached, read_record()))
            failed = [f"otherwise: {claim['name']}" for claim in reached if not claim["held"]]
            place = f"[{n}/{len(jobs)}] {time.time() - began:.0f} s: {path.stem}"
            print(place, *setting.values(), *failed, *errors, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("chapters", nargs="*", help="numbers, as in 13; none: all with claims")
    parser.add_argument("--seeds", type=int, default=10, help="how many shifts of all seeds")
    parser.add_argument("--first", type=int, default=1, help="the first shift; 0: the book's seeds")
    parser.add_argument("--jobs", type=int, default=2, help="chapters at a time, one thread each")
    parser.add_argument("--try", dest="trial", action="store_true", help="without a record")
    options = parser.parse_args()
    commit, record = None if options.trial else committed(), read_record()
    if commit:
        known = {name for path in chapters([]) for name in slices(path)}
        add([{"claim": name, "withdrawn": True} for name in record if name not in known])
    jobs = [
        (path, setting)
        for setting in settings_of(range(options.first, options.seeds + 1))
        for path in chapters(options.chapters)
        if options.trial or due(path, setting, record)
    ]
    replicate([job for job in jobs if job[1]["threads"] == 1], options.jobs, commit)
    replicate([job for job in jobs if job[1]["threads"] > 1], 1, commit)


if __name__ == "__main__":
    main()
