"""What a chapter's outputs depend on, as one hash: `stamp(path)`.

It counts the code of the chapter's cells, of every module of the package that they import, directly
or not, and the recorded runs and shipped files that any of them names. Code is its syntax tree:
comments, `#@title`, the width of a line and docstrings change nothing. Only where code shows the
source or the docstring of something on the page (inspect.getsource, help, __doc__) do the words of
the file that holds it count as well."""

import ast
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import nbformat
from IPython.core.inputtransformer2 import TransformerManager

ROOT = Path(__file__).resolve().parent.parent
SHOWERS = {
    "getsource",
    "getsourcelines",
    "getdoc",
    "help",
}  # functions that read the words of what they are given
SILENT = {
    "book/litbook/exercises"
}  # reads the source of an answer, and tells only whether there is one
FILES = re.compile(r"(?<![\w.-])(results|data)((?:/[\w.+-]*)+)")
MODULE = re.compile(r"\btransformer_lit((?:\.[a-z_0-9]+)+)")


@dataclass(frozen=True)
class Source:
    """What one text of Python says: its code without words; `imports`, name -> the modules of the
    package that it may come from; what it defines; the names whose words it shows (None: no name to
    go by); files and modules that its strings name."""

    code: str
    imports: dict[str, set[str]]
    defines: set[str]
    shows: set[str | None]
    files: set[str]
    scripts: set[str]

    @property
    def modules(self) -> set[str]:
        return self.scripts.union(*self.imports.values())


def module(name: str) -> str | None:
    """The name under which a module is kept here, from its path below the package: "masks",
    "book/litbook/figures/__init__"; None if there is none."""
    for known in (name, f"{name}/__init__".strip("/")):
        if (ROOT / "transformer_lit" / f"{known}.py").is_file():
            return known
    return None


def with_parents(name: str) -> set[str]:
    """A module and the packages that are imported before it; the package's own root holds nothing
    but its version."""
    folders = name.split("/")[:-1]
    return {name, *(f"{'/'.join(folders[:n])}/__init__" for n in range(1, len(folders) + 1))}


def named_imports(nodes: list[ast.AST], inside: str) -> dict[str, set[str]]:
    """name -> the modules of the package that it may come from, for each import of a text that lies
    in the folder `inside`."""
    found: dict[str, set[str]] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "transformer_lit":
                    name = (alias.asname or alias.name).split(".")[0]
                    found.setdefault(name, set()).add(
                        alias.name.partition(".")[2].replace(".", "/")
                    )
        elif isinstance(node, ast.ImportFrom):
            parts = (node.module or "").split(".")
            if node.level:
                parts = [*inside.split("/")[: 1 - node.level or None], *parts]
            elif parts.pop(0) != "transformer_lit":
                continue
            base = "/".join(part for part in parts if part)
            for alias in node.names:
                within = f"{base}/{alias.name}".strip("/")
                # `from .support import files`: the module, not only the package that it lies in
                found.setdefault(alias.asname or alias.name, set()).add(
                    within if module(within) else base
                )
    kept = {
        name: {known for path in paths if (known := module(path))} for name, paths in found.items()
    }
    return {name: modules for name, modules in kept.items() if modules}


def root_of(node: ast.AST) -> str | None:
    "The name at the front of x, x.y, x[0].y."
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def shown(nodes: list[ast.AST]) -> set[str | None]:
    """The names whose words a text shows: "" for its own docstring, None where there is no name to
    go by."""
    names: set[str | None] = set()
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr == "__doc__":
            names.add(root_of(node))
        elif isinstance(node, ast.Name) and node.id == "__doc__":
            names.add("")
        elif isinstance(node, ast.Call):
            called = (
                node.func.attr
                if isinstance(node.func, ast.Attribute)
                else getattr(node.func, "id", None)
            )
            if called in SHOWERS:
                names |= {root_of(one) for one in node.args} or {None}
            elif called == "run_line_magic" and "pinfo" in ast.unparse(node):  # f? and f??
                names.add(None)
    return names


def drop_words(nodes: list[ast.AST], whole: bool) -> None:
    """Docstrings out of a tree; of the text itself too, where it is a `whole` module: a cell shows
    a string on its last line."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, *([ast.Module] if whole else []))
    for node in nodes:
        if (
            isinstance(node, kinds)
            and node.body
            and isinstance(node.body[0], ast.Expr)
            and isinstance(node.body[0].value, ast.Constant)
            and isinstance(node.body[0].value.value, str)
        ):
            node.body[0].value.value = ""  # the strings of a text are looked through as well
            node.body = node.body[1:] or [ast.Pass()]


@cache
def read(text: str, inside: str = "", whole: bool = True) -> Source:
    "What a text of Python says; `inside`: the folder below the package that it lies in."
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    drop_words(nodes, whole)
    words = [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    scripts = {
        dotted.strip(".").replace(".", "/") for word in words for dotted in MODULE.findall(word)
    }  # those that a cell writes and starts
    defines = {
        node.name
        for node in nodes
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    }
    imports = {
        name: set().union(*map(with_parents, modules))
        for name, modules in named_imports(nodes, inside).items()
    }
    return Source(
        ast.dump(tree),
        imports,
        defines,
        shown(nodes),
        {"".join(found) for word in words for found in FILES.findall(word)},
        {found for name in scripts if (found := module(name))},
    )


def together(sources: list[Source]) -> Source:
    "The cells of a chapter as one text."
    imports: dict[str, set[str]] = {}
    for source in sources:
        for name, modules in source.imports.items():
            imports.setdefault(name, set()).update(modules)

    def all_of(what: str) -> set:
        return set().union(*(getattr(source, what) for source in sources))

    return Source("", imports, *map(all_of, ("defines", "shows", "files", "scripts")))


def text_of(name: str) -> str:
    return (ROOT / "transformer_lit" / f"{name}.py").read_text(encoding="utf-8")


def folder_of(name: str) -> str:
    return name.rpartition("/")[0]


def modules_behind(first: set[str]) -> dict[str, Source]:
    "Every module that these import, directly or not."
    found: dict[str, Source] = {}
    waiting = set(first)
    while waiting:
        name = waiting.pop()
        found[name] = read(text_of(name), folder_of(name))
        waiting |= found[name].modules - set(found)
    return found


def worded(chapter: Source, modules: dict[str, Source]) -> set[str]:
    """The modules whose words count, "" for the chapter itself. Of a package that is shown, what it
    hands on counts too."""
    found: set[str] = set()
    for where, source in {"": chapter, **modules}.items():
        for name in source.shows if where not in SILENT else ():
            if name in source.imports:
                found |= source.imports[name]
            else:
                found |= {where} | (
                    set() if name == "" or name in source.defines else source.modules
                )
    return found | {
        one for name in found if name.endswith("__init__") for one in modules[name].modules
    }


def held(name: str) -> list[Path]:
    """The files behind a path that a text names, results/... or data/...: all of a folder, and
    whatever begins so where that is all it says."""
    folder, _, rest = name.partition("/")
    path = ROOT / ("book/results" if folder == "results" else "data")
    for part in filter(None, rest.split("/")):
        if not (
            path / part
        ).exists():  # f"results/tatoeba-{language}/run.json" names what begins with results/tatoeba-
            found = list(path.glob(f"{part}*"))
            break
        path /= part
    else:
        found = [path]
    return [
        file
        for one in found
        for file in (one.rglob("*") if one.is_dir() else [one])
        if file.is_file()
    ]


@cache
def content(path: Path, size: int, changed: int) -> bytes:
    "A file's hash; read once as long as its size and time stay."
    return hashlib.sha256(path.read_bytes()).digest()


@cache
def cell_code(source: str) -> str:
    "A cell as plain Python: IPython's own lines become calls."
    try:
        ast.parse(source)
        return source
    except SyntaxError:
        return TransformerManager().transform_cell(source)


def quiet(source: str) -> bool:
    """Does a cell end in a semicolon, which the tree forgets and which keeps its value from being
    shown?"""
    lines = [
        line for line in source.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    return bool(lines) and lines[-1].split("  #")[0].rstrip().endswith(";")


def stamp(path: Path) -> str:
    "What the chapter's outputs depend on, as one hash."
    cells = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    sources = [read(cell_code(cell.source), whole=False) for cell in cells]
    chapter = together(sources)
    modules = modules_behind(chapter.modules)
    words = worded(chapter, modules)
    said = [
        f"{cell.id} {quiet(cell.source)} {cell.source if '' in words else source.code}"
        for cell, source in zip(cells, sources)
    ]
    for name in sorted(modules):
        said.append(f"{name} {text_of(name) if name in words else modules[name].code}")
    digest = hashlib.sha256("\0".join(said).encode())
    # the record of claims is put into the pages when the book is built; only the page that shows it
    # depends on it
    names = set().union(chapter.files, *(source.files for source in modules.values()))
    for file in sorted({file for name in names for file in held(name)}):
        if file.name != "replication.jsonl" or "book/litbook/what_held" in modules:
            about = file.stat()
            digest.update(
                file.relative_to(ROOT).as_posix().encode()
                + b"\0"
                + content(file, about.st_size, about.st_mtime_ns)
            )
    return digest.hexdigest()
