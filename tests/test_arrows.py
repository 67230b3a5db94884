"""The package's imports lead one way, stand on top of their files, and support knows no model."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import arrows  # noqa: E402
import stamps  # noqa: E402

IMPORTS = arrows.all_imports()
FOUND = arrows.arrows(IMPORTS)
KNOWS_NOTHING = {
    "checkpoint",
    "claims",
    "commands",
    "compiling",
    "download",
    "exercises",
    "figures",
    "files",
    "lock",
    "options",
    "pages",
    "plan",
    "processes",
    "progress",
    "reading",
    "records",
    "stops",
    "weights",
    "what_held",
}  # of support
KNOWS_TOKENS = {"french", "saved", "store"}
CIRCLES: dict[tuple, str] = {}  # modules that import each other, with the reason
HIDDEN: dict[tuple, str] = {}  # imports inside functions of a chapter's module, with the reason


def test_no_circle():
    "Imports inside functions count: a circle that works because one of them is late is still one."
    found = [group for group in arrows.circles(FOUND) if tuple(group) not in CIRCLES]
    assert not found, f"these modules import each other, so none can be read first: {found}"


def test_no_chapters_module_hides_an_import_in_a_function():
    hidden = {
        (one.source, one.target)
        for one in IMPORTS
        if one.hidden and not arrows.is_support(one.source)
    }
    assert not hidden - set(
        HIDDEN
    ), f"put these imports on top of their modules: {sorted(hidden - set(HIDDEN))}"


@pytest.mark.parametrize(
    "name",
    sorted(
        name
        for name in FOUND
        if arrows.grouped(name).removeprefix("support.") in KNOWS_NOTHING | KNOWS_TOKENS
    ),
)
def test_support_that_knows_no_model(name):
    allowed = {"tokens", "masks"} if name.removeprefix("support/") in KNOWS_TOKENS else set()
    known = {one for one in arrows.behind(FOUND, name) if not arrows.is_support(one)} - allowed
    assert (
        not known
    ), f"{name} imports {sorted(known)}: what every module stands on must import none of the book's"


def test_the_drawing_is_todays():
    block = arrows.MARKED.search((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert block, "CONTRIBUTING.md has lost the marks <!-- arrows --> and <!-- /arrows -->"
    assert block[0] == arrows.drawing(
        FOUND
    ), "the imports have changed since they were drawn: python tools/arrows.py"


# The tool itself ----------------------------------------------------------------------------------


def test_what_counts_as_an_import():
    text ="""
from typing import TYPE_CHECKING
from .masks import PAD
from .support import files
if TYPE_CHECKING:
    from .model import Transformer

if __name__ == "__main__" and globals().get("__spec__"):
    from .wmt import run

def late():
    from litbook.figures import table
    import importlib
    return importlib.import_module(f"transformer_lit.{table}")
"""
    assert set(arrows.imports_of("decoding", text)) == {
        arrows.Import("decoding", "masks", False),
        arrows.Import("decoding", "transformer_lit/corpora/files", False),
        arrows.Import("decoding", "book/litbook/figures/__init__", True),
        arrows.Import("decoding", "?", True),
    }


def test_imports_are_found_in_every_module():
    assert {one.source for one in IMPORTS} <= set(FOUND) == set(arrows.modules())
    assert {
        "multi_head",
        "masks",
        "book/litbook/exercises",
        "book/litbook/figures/__init__",
    } <= set(FOUND) and not {"__init__", "_modidx"} & set(FOUND)
    assert {"encoder", "decoder", "masks"} <= arrows.behind(
        FOUND, "model"
    ) and "model" not in arrows.behind(FOUND, "encoder")
    assert "book/litbook/figures/style" in FOUND["book/litbook/figures/plots"]


def test_circles_are_found():
    chain = {"a": {"b"}, "b": {"c"}, "c": set()}
    assert arrows.circles(chain) == [] and arrows.behind(chain, "a") == {"b", "c"}
    assert arrows.circles({**chain, "c": {"a"}}) == [["a", "b", "c"]]
    assert arrows.circles({"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"c"}}) == [
        ["a", "b"],
        ["c", "d"],
    ]


def test_arrows_that_follow_are_left_out():
    assert arrows.reduced({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {
        "a": {"b"},
        "b": {"c"},
        "c": set(),
    }
    circle = {"a": {"b", "c"}, "b": {"c"}, "c": {"b"}}
    assert arrows.reduced(circle) == circle, "neither way into a circle follows from the other"


def test_support_below_and_on_top():
    found = {
        "model": {"transformer_lit/corpora/files", "masks"},
        "masks": set(),
        "transformer_lit/corpora/files": set(),
        "transformer_lit/recipes/recipes": {"model", "transformer_lit/corpora/files"},
        "book/litbook/figures/plots": {"book/litbook/figures/style"},
        "book/litbook/figures/style": set(),
    }
    assert arrows.bottom(found) == {
        "transformer_lit/corpora/files",
        "book/litbook/figures/plots",
        "book/litbook/figures/style",
    }
    drawn = arrows.drawing(found)
    assert (
        "    model --> masks\n    recipes.recipes --> model\n" in drawn
        and "`figures`, `files`" in drawn
        and "plots" not in drawn
    )


def test_names_of_the_lists_are_modules():
    "A name that is misspelt would hold nothing."
    for pair in [*CIRCLES, *HIDDEN]:
        assert all(name == "?" or stamps.module(name) == name for name in pair), pair
    named, known = KNOWS_NOTHING | KNOWS_TOKENS, {
        arrows.grouped(name).removeprefix("support.") for name in FOUND
    }
    assert named <= known, f"no such module: {sorted(named - known)}"
