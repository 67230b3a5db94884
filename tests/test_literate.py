"""What the book adds to Sphinx: figures are numbered, boxes lead to their chapters, glossary words
are found."""

import importlib.util
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import yaml
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
        (f"<p>(with {MATH}). Then</p>", f"{MATH})."),
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
    assert "data-chapter" not in body and "<!--box-->" not in body
    assert '<a href="03_masks.html"><title>masked self-attention</title>' in body
    assert (body.count('role="group"'), body.count('role="img"')) == (1, 2), "links are no picture"
    linked = re.findall(r"<svg[^>]*>(?=(?:(?!</svg>).)*<a href)", body, re.S)
    assert len(linked) == 2 and "aria-hidden" not in "".join(linked), "hidden links lead nowhere"


def test_the_glossarys_words_are_found_by_each_of_their_names():
    lines = literate.glossary_lines(APP)
    assert lines["BPE"] == lines["byte-pair encoding"]
    assert lines["beam search"][1:] == ("13_decoding", "beam search")
    assert not {"look", "chain rule"} & set(lines), "a word of every day leads nowhere"
    assert not [line for line, _, _ in lines.values() if "](" in line], "what is shown has no links"


def test_no_name_of_the_glossary_stands_for_two_entries():
    text = (ROOT / "book/glossary.md").read_text(encoding="utf-8")
    block = re.search(r"```\{glossary}(.*?)```", text, re.S)[1].strip()
    terms = [entry.strip().partition("\n")[0] for entry in re.split(r"\n\s*\n", block)]
    names = Counter(name for term in terms for name in re.sub(r" \(.*\)", "", term).split(", "))
    twice = {name for name, n in names.items() if n > 1} & set(literate.glossary_lines(APP))
    assert len(terms) > 100 and not twice, f"{twice} would lead to the last of their entries"


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


@pytest.mark.parametrize("number", range(1, 5))
def test_a_part_page_names_its_chapters_and_they_follow_it(number):
    parts = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))["parts"]
    page, *chapters = [chapter["file"] for chapter in parts[number]["chapters"]]
    assert page == f"book/part_{number}"
    cards = re.search(r"<!-- cards (\d+) (\d+) -->", (ROOT / f"{page}.md").read_text("utf-8"))
    first, last = map(int, cards.groups())
    numbers = [int(name[5:7]) for name in chapters if name[5] < "9"]  # 9_: what closes a part
    assert numbers == list(range(first, last + 1))
