"""What the book adds to Sphinx: figures are numbered, boxes lead to their chapters, glossary words
are found."""

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from docutils import nodes

from litbook import figures

ROOT = Path(__file__).resolve().parent.parent
spec = importlib.util.spec_from_file_location("literate", ROOT / "book" / "_ext" / "literate.py")
literate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(literate)
APP = SimpleNamespace(
    srcdir=ROOT,
    builder=SimpleNamespace(get_relative_uri=lambda here, there: f"{there.split('/')[-1]}.html"),
)
TWO = "".join(
    figures.Picture("<svg></svg>", alt).html
    for alt in ("One thing is shown here.", "Another thing is shown here.")
)


@pytest.mark.parametrize(
    "chapter, first, label", [("3.", "Fig 3.1", "fig-3-2"), ("", "Fig 1", "fig-2")]
)
def test_figures_are_numbered_in_their_order(chapter, first, label):
    body = literate.dress_figures(TWO, chapter)
    assert f'<span class="tl-number">{first}</span>One thing' in body and f'id="{label}"' in body
    assert body.count("tl-number") == 2 == len(set(re.findall(r'id="(fig[-\d]+)"', body)))


MATH = '<span class="math notranslate">\\(x\\)</span>'


@pytest.mark.parametrize(
    "text, held",
    [
        ('<caption style="x">made by x --only en-fr</caption><p>x --beam 4</p>', "--only"),
        (f"<p>with {MATH}, and {MATH} more, then</p>", f"{MATH},"),
    ],
)
def test_options_and_a_formula_with_its_comma_stay_on_one_line(text, held):
    assert literate.hold_marks(text) == text.replace(held, f'<span class="tl-hold">{held}</span>')


def test_a_chapters_part_stands_above_its_title():
    dressed = literate.dress_body(APP, "book/12_training", "<h1>12 · Training</h1>" + TWO)
    assert '<p class="tl-part">Part II' in dressed and "Fig 12.1" in dressed
    assert literate.dress_body(APP, "book/glossary", "<h1>Glossary</h1>") == "<h1>Glossary</h1>"


def test_every_box_becomes_a_link_that_a_reader_of_screens_can_reach():
    body = figures.architecture(alt="Each box leads to its chapter.").html + TWO
    body = literate.dress_figures(body, "")
    assert '<a href="03_masks.html"><title>masked self-attention</title>' in body
    linked = re.findall(r"<svg[^>]*>(?=(?:(?!</svg>).)*<a href)", body, re.S)
    assert len(linked) == 2 and "aria-hidden" not in "".join(linked), "hidden links lead nowhere"


def test_the_glossarys_words_are_found_by_each_of_their_names():
    lines = literate.glossary_lines(APP)
    assert lines["BPE"] == lines["byte-pair encoding"]
    assert lines["beam search"][1:] == ("13_decoding", "beam search")


def test_every_chapter_stands_in_a_part_and_lights_what_there_is():
    parts = literate.parts_of_book(APP)
    chapters = sorted(p.stem for p in (ROOT / "book").glob("[0-2]*.ipynb"))
    assert all(parts[f"book/{name}"][:1] == "I" for name in chapters)
    for name in chapters:
        notebook = nbformat.read(ROOT / "book" / f"{name}.ipynb", 4)
        if lit := literate.lit_by(notebook):
            assert literate.margin_map(lit) != literate.margin_map([]), f"{lit} lights nothing"


def test_an_exported_cell_loses_its_mark_and_gets_a_badge_and_a_check_its_tick():
    code = ["#| export\ndef f():\n    return 1", "assert f() == 1\nx = 2"]
    code += ["#| default_exp masks\ny"]
    blocks = [nodes.literal_block(text, text) for text in code]
    document = nodes.section("", *(nodes.container("", b, classes=["cell_input"]) for b in blocks))
    env = SimpleNamespace(docname="book/03_masks")
    literate.dress_cells(SimpleNamespace(env=env, **vars(APP)), document)
    exported, check, plain = ([child.astext() for child in cell] for cell in document)
    assert exported == ["exported to transformer_lit/masks.py", "def f():\n    return 1"]
    assert check == ["✓ checked", code[1]], "a check has its tick"
    assert plain == ["y"]
