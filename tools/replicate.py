"""Run the chapters that claim something again, with other seeds, instruction sets and threads:
`replicate.py [NN ...]`.

Each run is one chapter in a kernel of its own, with all seeds shifted (tools/shifted), under one
setting of the instruction sets; what its claims measured is kept in .run/replicate/, so that the
command stops and goes on, and all of it together in book/results/replication.jsonl, the record that
the page *What held* shows. The working tree must be clean: a record names the commit that it was
made from.

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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path

import nbformat
from IPython.core.inputtransformer2 import TransformerManager

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tools"))
import execute  # noqa: E402

from litbook import claims  # noqa: E402

RUNS = ROOT / ".run" / "replicate"
TRIED = "uncommitted"
RECORD = ROOT / "book" / "results" / "replication.jsonl"
SETS = {  # what PyTorch's own kernels, oneDNN and MKL may use; "best": whatever the machine has
    "best": {},
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
    "default": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    },
    "avx512": {
        "ATEN_CPU_CAPABILITY": "avx512",
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
    },
}
SETTINGS = [
    ("best", 1),
    ("avx2", 1),
    ("default", 1),
    ("avx512", 1),
    ("best", 2),
    ("default", 2),
    ("avx2", 2),
]
NEEDS = {
    "avx2": "avx2",
    "avx512": "avx512f",
}  # flags of the processor; a set that it lacks would run as a lesser one


# The experiment behind a claim --------------------------------------------------------------------

CHANGES = {
    "append",
    "extend",
    "add",
    "update",
    "insert",
    "load_state_dict",
    "train",
    "eval",
    "fit",
    "step",
    "backward",
    "requires_grad_",
    "to",
    "double",
    "float",
    "copy_",
    "fill_",
    "mul_",
    "add_",
    "zero_",
}
SHOWS = {
    "print",
    "figures",
    "sketches",
    "pictures",
    "views",
    "show_attention",
    "Prose",
    "two_columns",
    "token_boxes",
    "validation_by_epoch",
    "HTML",
}  # a line that calls these only shows, and so does one that calls a chapter's drawings, ch13
READS = {
    "tuple",
    "len",
    "list",
    "round",
    "sorted",
    "item",
    "tolist",
}  # calls that only read what they are given
MODULES = {"torch", "nn", "F", "np", "math"}


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
        return {
            n.id
            for target in line.targets
            for n in ast.walk(target)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
    return names_in(line.target) if isinstance(line, ast.For) else set()


def names_of(source: str) -> Names:
    "The names of a cell; what is local to a function or a comprehension doesn't count."
    found = Names()

    def scope(table, inside, bound):
        for symbol in table.get_symbols():
            name, whole = symbol.get_name(), table.get_type() == "module"
            if (
                symbol.is_referenced()
                and (whole or symbol.is_global())
                and (inside or name not in bound)
            ):
                (found.later if inside else found.now).add(name)
            if whole and (symbol.is_assigned() or symbol.is_imported()):
                found.makes.add(name)
        for child in table.get_children():
            comprehension = child.get_name() in ("listcomp", "setcomp", "dictcomp", "genexpr")
            scope(child, inside or not (comprehension or child.get_type() == "class"), bound)

    tree, bound = (
        ast.parse(source),
        set(),
    )  # by the lines above: what a cell makes before it reads it, it doesn't take from another
    tree.body = [line for line in tree.body if not only_shows(line) and not only_colours(line)]
    for line in tree.body:
        before = bound
        if isinstance(line, ast.For):  # its body runs with the loop's own names
            scope(symtable.symtable(ast.unparse(line.iter), "cell", "exec"), False, bound)
            before = bound | names_in(line.target)
        scope(symtable.symtable(ast.unparse(line), "cell", "exec"), False, before)
        bound = bound | made_by(line)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            found.changes.add(root_of(node))
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in CHANGES
        ):
            found.changes.add(root_of(node.func))
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found.changes.add(node.target.id)
        elif isinstance(
            node, ast.FunctionDef
        ):  # @patch_to(Model) adds a method to a class that another cell defines
            found.changes |= {
                call.args[0].id
                for call in node.decorator_list
                if isinstance(call, ast.Call)
                and root_of(call.func) == "patch_to"
                and call.args
                and isinstance(call.args[0], ast.Name)
            }
    found.changes &= (
        found.now | found.makes
    ) - MODULES  # names of a function are its own; torch.ones(1).double() changes nothing
    return found


def only_shows(line: ast.stmt) -> bool:
    "Whether a line of a cell does nothing but print or draw: it takes no part in the experiment."
    if not isinstance(line, ast.Expr):
        return False
    name = root_of(line.value) or ""
    return name in SHOWS or re.fullmatch(r"ch\d\d", name) is not None or displays(line.value)


def only_colours(line: ast.stmt) -> bool:
    "Whether a line gives a name to colours: what is drawn in them is the same experiment."
    return isinstance(line, ast.Assign) and any(
        isinstance(node, ast.Attribute) and node.attr.isupper() and root_of(node) == "figures"
        for node in ast.walk(line.value)
    )


def displays(value: ast.expr) -> bool:
    "Whether an expression on a line alone was put there to be seen, and changes nothing."
    if any(isinstance(node, ast.Attribute) and node.attr in CHANGES for node in ast.walk(value)):
        return False
    if isinstance(value, ast.Call):
        return (
            isinstance(value.func, ast.Name)
            and value.func.id in READS
            or isinstance(value.func, ast.Attribute)
            and value.func.attr in READS
        )
    return isinstance(
        value,
        (
            ast.Name,
            ast.Attribute,
            ast.Constant,
            ast.Tuple,
            ast.List,
            ast.Dict,
            ast.ListComp,
            ast.DictComp,
            ast.Subscript,
            ast.JoinedStr,
        ),
    )


def without_words(tree: ast.AST) -> ast.AST:
    """The same code without docstrings, imports, what only shows, a claim's name, and what a claim
    or a figure says in words."""
    if isinstance(tree, ast.Module):
        tree.body = [line for line in tree.body if not only_shows(line) and not only_colours(line)]
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(
            body, list
        ):  # where a name comes from may change; what is done with it is what counts
            body = node.body = [
                line for line in body if not isinstance(line, (ast.Import, ast.ImportFrom))
            ] or [ast.Pass()]
        if (
            isinstance(node, (ast.FunctionDef, ast.ClassDef))
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            node.body = body[1:] or [ast.Pass()]
        if isinstance(node, ast.Call):
            node.args = node.args[root_of(node) == "claims" :]  # a chapter may get another number
            node.keywords = [
                k
                for k in node.keywords
                if k.arg not in (
                    "words",
                    "unit",
                    "alt",
                    "caption",
                    "title",
                    "xlabel",
                    "ylabel",
                    "fmt",
                )
            ]
    return tree


def claims_in(tree: ast.AST) -> list[ast.Call]:
    "The calls claims.below(...) and claims.within(...) of a cell."
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and root_of(node.func) == "claims"
        and node.func.attr in ("below", "within")
    ]


@cache
def slices(path: Path) -> dict[str, list[str]]:
    "Of each claim of a chapter: the code of the cells that it depends on, in order, its own last."
    sources = [
        TransformerManager().transform_cell(cell.source)
        for cell in nbformat.read(path, 4).cells
        if cell.cell_type == "code"
    ]
    trees, found = [ast.parse(source) for source in sources], {}
    names = [names_of(source) for source in sources]
    for at, tree in enumerate(trees):
        for call in claims_in(tree):
            name = (
                call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
            )
            if not isinstance(name, str):
                sys.exit(f"{path.name}: a claim's name must stand there as text")
            if name in found:
                sys.exit(f"{path.name}: two claims are called {name}")
            taken, asked = set(), set()
            own = names_of(ast.unparse(call))
            wanted = {(n, at + 1) for n in (own.now | own.later) - {"claims"}}
            while wanted:
                word, before = wanted.pop()
                asked.add((word, before))
                # its last definition before that place, and what changed it in between
                last = max((n for n in range(before) if word in names[n].makes), default=None)
                cells = [
                    n
                    for n in range(0 if last is None else last, before)
                    if n == last or word in names[n].changes
                ]
                for n in cells:
                    taken.add(n)
                    wanted |= {(w, n) for w in names[n].now} | {(w, at) for w in names[n].later}
                    wanted -= asked
            found[name] = [sources[n] for n in sorted(taken - {at})] + [sources[at]]
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
    return [
        path
        for path in sorted((ROOT / "book").glob("[0-9]*.ipynb"))
        if slices(path) and (not numbers or path.name[:2] in [n.zfill(2) for n in numbers])
    ]


# One run ------------------------------------------------------------------------------------------


@cache
def processor() -> str:
    "The kind of processor, as far as rounding depends on it: who made it, and its widest units."
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    flags = set((re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.M) or ["", ""])[1].split())
    maker = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}.get(
        (re.search(r"^vendor_id\s*:\s*(\S+)", text, re.M) or ["", ""])[1], platform.machine()
    )
    units = [
        name
        for flag, name in (
            ("amx_bf16", "AMX"),
            ("avx512_bf16", "AVX-512 with bf16"),
            ("avx512f", "AVX-512"),
            ("avx2", "AVX2"),
            ("asimd", "NEON"),
        )
        if flag in flags
    ]
    return f"{maker}, {units[0]}" if units else maker


@cache
def has(instructions: str) -> bool:
    if instructions not in NEEDS:
        return True
    try:
        return NEEDS[instructions] in Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    except OSError:
        return False


def run_here(path: Path, out: Path) -> None:
    """Execute one chapter in this process's environment; every claim that it reached, and every
    cell that raised, into `out`."""
    from nbclient import NotebookClient

    notebook = nbformat.read(path, 4)
    NotebookClient(
        notebook,
        timeout=1800,
        allow_errors=True,
        kernel_name="python3",
        resources={"metadata": {"path": str(out.parent)}},
    ).execute()
    errors = [
        {"cell": cell.id, "error": f"{output.ename}: {output.evalue}"[:300]}
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "error"
    ]
    out.write_text(
        json.dumps({"claims": claims.shown(notebook), "errors": errors}), encoding="utf-8"
    )


def run(path: Path, shift: int, instructions: str, threads: int, commit: str) -> str:
    "One run of one chapter, kept; returns what happened in words."
    name = (
        f"{path.stem[:2]}-{shift:02}-{instructions}-{threads}-{re.sub(r'[^A-Za-z0-9]+', '', processor())}"
    )
    kept = RUNS / f"{name}.json"
    due = experiments(path)
    if kept.exists():
        told = json.loads(kept.read_text(encoding="utf-8"))
        if due.items() <= told["experiments"].items() and (
            told["commit"] != TRIED or commit == TRIED
        ):
            return "kept"
    raw = RUNS / name / "raw.json"
    raw.parent.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        **SETS[instructions],
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "TRANSFORMER_LIT_SEED_SHIFT": str(shift),
        "TRANSFORMER_LIT_CI": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tools" / "shifted"), str(ROOT)]),
    }
    began = time.time()
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--one", str(path), str(raw)],
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return f"FAILED: {(done.stderr.strip().splitlines() or ['no word'])[-1]}"
    found = json.loads(raw.read_text(encoding="utf-8"))
    kept.write_text(
        json.dumps(
            {
                "chapter": path.stem,
                "experiments": due,
                "shift": shift,
                "instructions": instructions,
                "threads": threads,
                "processor": processor(),
                "torch": version("torch"),
                "commit": commit,
                **found,
            }
        ),
        encoding="utf-8",
    )
    fell = [c["name"] for c in found["claims"] if not c["held"]]
    return (
        f"{time.time() - began:.0f} s"
        + (f"; otherwise: {', '.join(fell)}" if fell else "")
        + "".join(f"; cell {e['cell']}: {e['error'][:100]}" for e in found["errors"])
    )


def take_book(path: Path, commit: str) -> str:
    "The last `make book` as one run more, with the seeds as they stand in the chapter."
    out, told = execute.OUT / path.name, execute.OUT / f"{path.stem}.json"
    about = json.loads(told.read_text(encoding="utf-8")) if told.exists() else {}
    if not (about and execute.is_fresh(path, about["threads"])):
        return "not executed as it stands: make book"
    name = (
        f"{path.stem[:2]}-00-{about['instructions']}-{about['threads']}-{re.sub(r'[^A-Za-z0-9]+', '', processor())}"
    )
    (RUNS / f"{name}.json").write_text(
        json.dumps(
            {
                "chapter": path.stem,
                "experiments": experiments(path),
                "shift": 0,
                "instructions": about["instructions"],
                "threads": about["threads"],
                "processor": processor(),
                "torch": about["torch"],
                "commit": commit,
                "claims": claims.shown(nbformat.read(out, 4)),
                "errors": [],
            }
        ),
        encoding="utf-8",
    )
    return "taken"


def plan(paths: list[Path], seeds: int, every: bool, first: int = 1) -> list[tuple]:
    """(path, shift, instructions, threads): each seed under one setting after the other, so that
    few runs meet all of them; with `every`, each seed under each setting. Shifts are first, ...,
    seeds."""
    settings = [s for s in SETTINGS if has(s[0])]
    jobs = [
        (path, shift, *setting)
        for shift in range(first, seeds + 1)
        for setting in (settings if every else [settings[(shift - 1) % len(settings)]])
        for path in paths
    ]
    return sorted(jobs, key=lambda job: job[3])  # two threads come last, one job at a time


# The record ---------------------------------------------------------------------------------------


def gather() -> list[dict]:
    """What was kept, is not out of date and isn't in the record yet, as lines for its end: what a
    claim is where that has changed, and runs."""
    record = claims.read_record(RECORD.read_text("utf-8") if RECORD.exists() else "")
    due = {name: now for path in chapters([]) for name, now in experiments(path).items()}
    lines = []

    def add(name: str, line: dict) -> None:
        lines.append({"claim": name, **line})

    kept = [json.loads(path.read_text("utf-8")) for path in sorted(RUNS.glob("*.json"))]
    kept = [run for run in kept if run["commit"] != TRIED]
    for run in kept:  # first what each claim is: a run that didn't reach it counts as well
        for claim in run["claims"]:
            name = claim["name"]
            if (now := due.get(name)) and run["experiments"].get(name) == now:
                words = {key: claim[key] for key in ("kind", "words", "unit", "low", "high")}
                about = {"chapter": run["chapter"], "experiment": now, **words}
                old = record.get(name, {"experiment": "", "runs": []})
                runs = old["runs"] if old["experiment"] == now else []
                if {**about, "runs": runs} != old:
                    add(name, about)
                    record[name] = {**about, "runs": runs}
    for name in [name for name, old in record.items() if due.get(name) != old["experiment"]]:
        add(name, {"withdrawn": True})  # or it falls due again
        del record[name]
    for run in kept:
        reached = {claim["name"]: claim for claim in run["claims"]}
        where = {
            key: run[key]
            for key in ("shift", "processor", "instructions", "threads", "torch", "commit")
        }
        for name, made_with in run["experiments"].items():
            if record.get(name, {}).get("experiment") == due.get(name, "") == made_with:
                claim = reached.get(name)
                effect = claim["effect"] if claim and math.isfinite(claim["effect"]) else None
                row = {**where, "effect": effect, "held": bool(claim and claim["held"])}
                if row not in record[name]["runs"]:
                    add(name, row)
        for error in run["errors"]:
            print(f"{run['chapter']}, {error['cell']}: {error['error']}")
    return lines


def write_record() -> None:
    "Add to the record, a run a line."
    with RECORD.open("a", encoding="utf-8") as file:
        for line in gather():
            file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")


def committed() -> str:
    "The commit of a clean checkout, or an end with a sentence."

    def git(*words):
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
        if done.returncode:
            sys.exit(
                f"a record names its commit, and git says: {done.stderr.strip()} (--try to look"
                " without a record)"
            )
        return done.stdout.strip()

    changed = [
        line
        for line in git("status", "--porcelain").splitlines()
        if not line.endswith("book/results/replication.jsonl")
    ]
    if changed:
        sys.exit(
            f"a record is made from a commit, and {len(changed)} files have changed"
            f" ({changed[0].strip()}): commit, or --try to look without a record"
        )
    return git("rev-parse", "HEAD")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "chapters", nargs="*", help="numbers, as in 13; none: every chapter that claims something"
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=10,
        help="how many shifts of all seeds (default 10; give 20 to what is cheap)",
    )
    parser.add_argument(
        "--first",
        type=int,
        default=1,
        help="the first shift: 6 with --seeds 10 adds five seeds to five that another machine ran",
    )
    parser.add_argument(
        "--every",
        action="store_true",
        help="each seed under each instruction set and number of threads, not one after the other",
    )
    parser.add_argument(
        "--jobs", type=int, default=2, help="chapters at a time, one thread each (default 2)"
    )
    parser.add_argument(
        "--try",
        dest="trying",
        action="store_true",
        help="run uncommitted chapters, keep nothing in the record",
    )
    parser.add_argument(
        "--book", action="store_true", help="count the last make book as a run too, and run nothing"
    )
    parser.add_argument(
        "--gather", action="store_true", help="only write the record from what was kept"
    )
    parser.add_argument("--one", nargs=2, metavar=("NOTEBOOK", "OUT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run_here(*map(Path, options.one))
        return
    paths = chapters(options.chapters)
    if not paths:
        sys.exit("none of these chapters claims anything")
    commit = TRIED if options.trying else committed()
    RUNS.mkdir(parents=True, exist_ok=True)
    if options.book:
        for path in paths:
            print(f"{path.stem}: {take_book(path, commit)}")
    elif not options.gather:
        jobs, done = plan(paths, options.seeds, options.every, options.first), 0
        for threads in (1, 2):
            now = [job for job in jobs if job[3] == threads]
            with ThreadPoolExecutor(options.jobs if threads == 1 else 1) as pool:
                for job, what in zip(now, pool.map(lambda job: run(*job, commit), now)):
                    done += 1
                    print(
                        f"[{done}/{len(jobs)}] {job[0].stem} seeds +{job[1]} {job[2]} {job[3]}"
                        f" thread{'s' * (job[3] > 1)}: {what}",
                        flush=True,
                    )
    if not options.trying:
        write_record()
        print(f"the record: {RECORD.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
