"""Run the chapters that claim something again, with other seeds, instruction sets and threads:
`replicate.py SEEDS JOBS [NN ...]`, for so many shifts of all seeds, so many chapters at a time.

Each run is one chapter in a kernel of its own, with all seeds shifted (tools/shifted), under one
setting of the instruction sets. What its claims measured is added to the record that the page *What
held* shows, book/results/replication.jsonl, so that the command stops and goes on. The working tree
must be clean: a record names the commit that it was made from.

A record belongs to its experiment: the cells that the claim's cell depends on. When one of them
changes, in code and not in words, the runs before are dropped and fall due again. Lines that only
print or draw are words, too."""

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
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import version
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import nbformat
from chapters import ROOT, chapters
from IPython.core.inputtransformer2 import TransformerManager
from litbook import claims
from nbclient import NotebookClient

RECORD = ROOT / "book" / "results" / "replication.jsonl"
# what PyTorch's own kernels, oneDNN and MKL may use; "best": whatever the machine has
LIMITS = "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS"
SETS = {
    "best": (),
    "avx2": ("avx2", "AVX2", "AVX2"),
    "default": ("default", "SSE41", "SSE4_2"),
    "avx512": ("avx512", "AVX512_CORE", "AVX512"),
}
FLAGS = {"avx2": "avx2", "avx512": "avx512f"}  # without it, a set would run as a lesser one
SETTINGS = [(name, 1) for name in SETS] + [("best", 2), ("default", 2), ("avx2", 2)]
CPU = Path("/proc/cpuinfo")
CPU_WORDS = re.findall(r"\w+", CPU.read_text("utf-8")) if CPU.exists() else []


# The experiment behind a claim --------------------------------------------------------------------

CHANGES = set(  # methods that change what they are called on
    """append extend add update insert load_state_dict train eval fit step backward requires_grad_
    to double float copy_ fill_ mul_ add_ zero_""".split()
)
SHOWS = re.compile(  # a line that calls these only shows; ch05.shift_by(...) draws
    """print|figures|sketches|pictures|views|show_attention|Prose|two_columns|token_boxes|\
validation_by_epoch|HTML|ch\\d\\d"""
)
WORDS = set("words unit alt caption title xlabel ylabel fmt".split())  # what is said, not done


class Names(NamedTuple):
    "What a cell reads at once, reads later (inside functions), defines, and changes in place."

    now: set[str]
    later: set[str]
    makes: set[str]
    changes: set[str]


def root_of(node: ast.AST) -> str:
    "The name at the front of x, x.y, x[0].y …"
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return getattr(node, "id", "")


def changed_by(node: ast.AST) -> str:
    "The name that a node changes in place, or nothing."
    if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
        return root_of(node)
    if isinstance(node, ast.Call) and root_of(node) == "patch_to":  # another cell's class
        return root_of(node.args[0])
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in CHANGES:
        return root_of(node)
    return ""


def reads(table: symtable.SymbolTable, inside: bool = False) -> Iterator[tuple[str, bool]]:
    "The global names that a piece of code reads, and whether inside a function or class."
    for symbol in table.get_symbols():
        if symbol.is_referenced() and symbol.is_global():
            yield symbol.get_name(), inside
    for child in table.get_children():
        at_once = child.get_name() in ("listcomp", "setcomp", "dictcomp", "genexpr")
        yield from reads(child, inside or not at_once)


def names_of(source: str) -> Names:
    "The names of a cell; what is local to a function or a comprehension doesn't count."
    now, later, makes, bound = set(), set(), set(), set()
    tree = experiment_in(source)
    for line in tree.body:
        table = symtable.symtable(ast.unparse(line), "cell", "exec")
        stored = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_local()}
        makes |= stored
        if isinstance(line, ast.For):  # its body runs with the loop's own names
            bound |= {node.id for node in ast.walk(line.target) if isinstance(node, ast.Name)}
        read = set(reads(table))
        now |= {name for name, inside in read if not inside} - bound  # else it is the cell's own
        later |= {name for name, inside in read if inside}
        if isinstance(line, (ast.FunctionDef, ast.ClassDef, ast.Assign)):
            bound |= stored
    changes = set(map(changed_by, ast.walk(tree))) & (now | makes)  # a function's names are its own
    return Names(now, later, makes, changes)


def experiment_in(source: str) -> ast.Module:
    "A cell without the lines that only print or draw."
    lines = ast.parse(source).body
    shows = [isinstance(x, ast.Expr) and SHOWS.fullmatch(root_of(x.value)) for x in lines]
    return ast.Module([line for line, only in zip(lines, shows) if not only], [])


def only_words(line: ast.stmt) -> bool:
    "An import or a docstring."
    return isinstance(line, (ast.Import, ast.ImportFrom)) or (
        isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
    )


def without_words(tree: ast.AST) -> ast.AST:
    """The same code without docstrings, imports, a claim's name, and what a claim or a figure says
    in words."""
    for node in ast.walk(tree):
        if isinstance(getattr(node, "body", None), list):  # where a name comes from may change
            node.body = [line for line in node.body if not only_words(line)] or [ast.Pass()]
        if isinstance(node, ast.Call):
            node.args = node.args[root_of(node) == "claims" :]  # a chapter may get another number
            node.keywords = [word for word in node.keywords if word.arg not in WORDS]
    return tree


def claims_in(tree: ast.AST) -> list[ast.Call]:
    "The calls claims.below(...) and claims.within(...) of a cell."
    named = "claims.below", "claims.within"
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [call for call in calls if ast.unparse(call.func) in named]


def cells_behind(names: list[Names], words: set[str], at: int) -> set[int]:
    "The cells that some names of cell `at` depend on."
    cells, done, wanted = set(), set(), {(word, at + 1) for word in words}
    while wanted:
        word, before = wanted.pop()
        done.add((word, before))
        # its last definition before that place, and what changed it in between
        definition = max((n for n in range(before) if word in names[n].makes), default=None)
        for n in range(definition or 0, before):
            if n == definition or word in names[n].changes:
                cells.add(n)
                wanted |= {(w, n) for w in names[n].now} | {(w, at) for w in names[n].later}
                wanted -= done
    return cells


@cache
def slices(path: Path) -> dict[str, list[str]]:
    "Of each claim of a chapter: the code of the cells that it depends on, in order, its own last."
    cells, plain = nbformat.read(path, 4).cells, TransformerManager().transform_cell
    sources = [plain(cell.source) for cell in cells if cell.cell_type == "code"]
    names, claimed = [names_of(source) for source in sources], {}
    for at, source in enumerate(sources):
        for call in claims_in(ast.parse(source)):
            name, own = call.args[0].value, names_of(ast.unparse(call))
            assert name not in claimed, f"{path.name}: two claims are called {name}"
            behind = cells_behind(names, (own.now | own.later) - {"claims"}, at) - {at}
            claimed[name] = [sources[n] for n in sorted(behind)] + [source]
    return claimed


def experiments(path: Path) -> dict[str, str]:
    """Of each claim of a chapter: one hash over the cells that it depends on, and over its own
    thresholds."""
    hashes = {}
    for name, cells in slices(path).items():
        *trees, own = map(experiment_in, cells)
        (call,) = [c for c in claims_in(own) if c.args[0].value == name]
        # what its own cell does besides is part of the experiment, other claims there are not
        own.body = [line for line in own.body if not claims_in(line)]
        code = [ast.dump(without_words(tree)) for tree in (*trees, own, call)]
        hashes[name] = hashlib.sha256("\n".join(code).encode()).hexdigest()[:16]
    return hashes


# One run ------------------------------------------------------------------------------------------


def processor() -> str:
    "The kind of processor, as far as rounding depends on it: who made it, and its widest units."
    makers = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}
    units = {
        "amx_bf16": "AMX",
        "avx512_bf16": "AVX-512 with bf16",
        "avx512f": "AVX-512",
        "avx2": "AVX2",
        "asimd": "NEON",
    }
    maker = next((makers[word] for word in CPU_WORDS if word in makers), platform.machine())
    return ", ".join([maker, *[units[flag] for flag in units if flag in CPU_WORDS][:1]])


def settings_of(shifts: range) -> list[dict]:
    "Each shift of the seeds under one setting after the other, so that few runs meet all of them."
    able = cycle([s for s in SETTINGS if FLAGS.get(s[0]) in (None, *CPU_WORDS)])
    where = {"processor": processor(), "torch": version("torch")}
    each = zip(shifts, able)
    return [{"shift": n, "instructions": i, "threads": t, **where} for n, (i, t) in each]


def run(path: Path, setting: dict) -> tuple[list[dict], list[str]]:
    "One run of one chapter: the claims that it reached, and what cells raised."
    environment = {
        **os.environ,
        **dict(zip(LIMITS, SETS[setting["instructions"]])),
        "OMP_NUM_THREADS": str(setting["threads"]),
        "TRANSFORMER_LIT_SEED_SHIFT": str(setting["shift"]),
        "TRANSFORMER_LIT_CI": "1",
        "PYTHONPATH": os.pathsep.join(f"{ROOT}/{place}" for place in ("tools/shifted", "", "book")),
    }
    notebook = nbformat.read(path, 4)
    with TemporaryDirectory() as folder:
        place = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=1800, allow_errors=True, resources=place)
        client.execute(env=environment)
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    errors = [f"{o.ename}: {o.evalue}" for o in outputs if o.output_type == "error"]
    return claims.from_notebook(notebook), errors


# The record ---------------------------------------------------------------------------------------


def lines_of(path: Path, where: dict, reached: list[dict], record: dict) -> Iterator[dict]:
    """What a run adds to the record: what a claim is, where that is new, and what it measured. A
    known claim that the run didn't reach didn't hold."""
    measured = {claim["name"]: claim for claim in reached}
    for name, experiment in experiments(path).items():
        old = record.get(name, {})
        if name not in measured and old.get("experiment") != experiment:
            continue
        claim = {**old, "effect": math.nan, "held": False, **measured.get(name, {})}
        about = {"chapter": path.stem, "experiment": experiment}
        about |= {key: claim[key] for key in ("kind", "words", "unit", "low", "high")}
        if not about.items() <= old.items():
            yield {"claim": name, **about}
        effect = claim["effect"] if math.isfinite(claim["effect"]) else None
        yield {"claim": name, **where, "effect": effect, "held": claim["held"]}


def needs_run(path: Path, setting: dict, record: dict) -> bool:
    "Is there a claim of the chapter that has no run in this setting?"
    return any(
        record.get(name, {}).get("experiment") != experiment
        or not any(setting.items() <= run.items() for run in record[name]["runs"])
        for name, experiment in experiments(path).items()
    )


def read_record() -> dict:
    return claims.read_record(RECORD.read_text("utf-8"))


def add(lines: Iterable[dict]) -> None:
    with RECORD.open("a", encoding="utf-8") as file:
        for line in lines:
            print(json.dumps(line, ensure_ascii=False, allow_nan=False), file=file)


def committed() -> str:
    "The commit of a clean checkout, or an end with a sentence."

    def git(*words):
        return subprocess.check_output(["git", "-C", ROOT, *words], text=True).strip()

    if changed := git("status", "--porcelain", "--", ".", f":!{RECORD.relative_to(ROOT)}"):
        sys.exit(f"a record is made from a commit: commit first\n{changed}")
    return git("rev-parse", "HEAD")


def main() -> None:
    seeds, at_once, *numbers = sys.argv[1:]
    committed()
    record = read_record()
    for name in record.keys() - {name for path in chapters([]) for name in slices(path)}:
        add([{"claim": name, "withdrawn": "", "words": record[name]["words"]}])
    jobs = [
        (path, setting)
        for setting in settings_of(range(1, int(seeds) + 1))
        for path in chapters(numbers)
        if needs_run(path, setting, record)
    ]
    for threads, workers in (1, int(at_once)), (2, 1):
        these = [job for job in jobs if job[1]["threads"] == threads]
        with ThreadPoolExecutor(workers) as pool:
            runs = pool.map(lambda job: run(*job), these)  # Ctrl-C cancels those to come
            for (path, setting), (reached, errors) in zip(these, runs):
                add(lines_of(path, {**setting, "commit": committed()}, reached, read_record()))
                failed = [f"otherwise: {claim['name']}" for claim in reached if not claim["held"]]
                print(path.stem, *setting.values(), *failed, *errors, flush=True)


if __name__ == "__main__":
    main()
