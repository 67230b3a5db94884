"""Which module of the package imports which: `arrows.py` draws it into the marked block of
CONTRIBUTING.md.

An arrow leads from a module to one that it imports, at its top or inside a function. What a module
starts when it is run as a command (`if __name__ == "__main__"`) doesn't count: nobody who imports
it comes by there. Arrows that follow from others are left out, and so are those to the modules of
support that import none of the book's: they are listed below the drawing."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import stamps

ROOT = Path(__file__).resolve().parent.parent
MARKED = re.compile(r"(?<=<!-- arrows -->\n).*?(?=<!-- /arrows -->)", re.S)
Arrows = dict[str, set[str]]


@dataclass(frozen=True)
class Import:
    """One import of a module of the package. target: "?" where the code makes the name up; hidden:
    it stands inside a function."""

    source: str
    target: str
    hidden: bool


def imports_of(name: str, text: str) -> list[Import]:
    """The package's modules that a module imports; what only a type checker or a command sees
    doesn't count."""
    found = []

    def look(node: ast.AST, hidden: bool) -> None:
        if isinstance(node, ast.If) and re.search(
            "TYPE_CHECKING$|^__name__ == '__main__'", ast.unparse(node.test)
        ):
            return
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for modules in stamps.named_imports([node], stamps.folder_of(name)).values():
                found.extend(Import(name, target, hidden) for target in modules)
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).endswith("import_module")
            and "transformer_lit" in ast.unparse(node)
        ):
            found.append(Import(name, "?", hidden))
        for child in ast.iter_child_nodes(node):
            look(child, hidden or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))

    look(ast.parse(text), False)
    return [one for one in found if one.target not in (name, "__init__")]


def modules() -> list[str]:
    "Every module of the package but its own root."
    package = stamps.ROOT / "transformer_lit"
    return sorted(
        path.relative_to(package).with_suffix("").as_posix()
        for path in package.rglob("*.py")
        if "_shipped" not in path.parts
        and path not in (package / "_modidx.py", package / "__init__.py")
    )


def all_imports() -> list[Import]:
    "Every import of one module of the package by another."
    return [one for name in modules() for one in imports_of(name, stamps.text_of(name))]


def arrows(imports: list[Import]) -> Arrows:
    "module -> the modules that it imports, for every module of the package."
    found: Arrows = {name: set() for name in modules()}
    for one in imports:
        if one.target != "?":
            found[one.source].add(one.target)
    return found


def behind(found: Arrows, name: str) -> set[str]:
    "Every module that one imports, directly or not; itself, where it stands in a circle."
    seen: set[str] = set()
    waiting = set(found.get(name, ()))
    while waiting:
        one = waiting.pop()
        seen.add(one)
        waiting |= found.get(one, set()) - seen
    return seen


def circles(found: Arrows) -> list[list[str]]:
    "Groups of modules that import each other in a circle; [] where all arrows lead one way."
    reach = {name: behind(found, name) for name in found}
    groups = {
        tuple(sorted(other for other in reach[name] if name in reach[other]))
        for name in found
        if name in reach[name]
    }
    return [list(group) for group in sorted(groups)]


def is_support(name: str) -> bool:
    return name.startswith("support/")


def bottom(found: Arrows) -> set[str]:
    "The modules of support that import none of the book's."
    return {
        name
        for name in found
        if is_support(name) and all(map(is_support, behind(found, name) - {"support/__init__"}))
    }


def grouped(name: str) -> str:
    "A module by the name that the drawing gives it: a package of support is one node."
    parts = name.removesuffix("/__init__").split("/")
    return ".".join(parts[:2])


def reduced(found: Arrows) -> Arrows:
    "Without the arrows that follow from others; what leads into a circle stays."
    reach = {name: behind(found, name) for name in found}
    return {
        name: {
            one
            for one in targets
            if not any(one in reach[other] and other not in reach[one] for other in targets - {one})
        }
        for name, targets in found.items()
    }


def drawing(found: Arrows) -> str:
    """The block of CONTRIBUTING.md: a Mermaid drawing, and the modules of support that it leaves
    out."""
    base = bottom(found) | {"support/__init__"}
    nodes: Arrows = {}
    for name, targets in found.items():
        if name not in base:
            nodes.setdefault(grouped(name), set()).update(
                {grouped(one) for one in targets - base} - {grouped(name)}
            )
    pairs = [
        (name, target)
        for name, targets in sorted(reduced(nodes).items())
        for target in sorted(targets)
    ]
    alone = sorted(set(nodes) - {name for pair in pairs for name in pair})
    names = sorted({grouped(name).removeprefix("support.") for name in base - {"support/__init__"}})
    listed = ", ".join(f"`{name}`" for name in names)
    lines = [
        *(f"    {name} --> {target}" for name, target in pairs),
        *(f"    {name}" for name in alone),
    ]
    return (
        "```mermaid\nflowchart TD\n"
        + "\n".join(lines)
        + "\n```\n\n"
        f"Below all of them, importing no module of a chapter: {listed}, all in `support`.\n"
    )


def main() -> None:
    found, path = arrows(all_imports()), ROOT / "CONTRIBUTING.md"
    text = path.read_text(encoding="utf-8")
    path.write_text(MARKED.sub(lambda _: drawing(found), text), encoding="utf-8")
    for group in circles(found):
        print("a circle:", ", ".join(group))


if __name__ == "__main__":
    main()
