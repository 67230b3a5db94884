"""What makes a chapter execute again: its code, the code behind it, the records it reads. Words
don't."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import stamps  # noqa: E402

PACKAGE = {
    "__init__": "",
    "masks": (
        '"Masks."\n\ndef mask(n):\n    "What may be seen."\n    return n + 1  # the diagonal\n'
    ),
    "model": "from .masks import mask\n\ndef model(n):\n    return mask(n)\n",
    "later": "def other():\n    return 3\n",
    "lazy": "def lazy():\n    from .later import other\n    return other()\n",
    "shows": (
        "import inspect\nfrom .masks import mask\n\ndef source():\n    return"
        " inspect.getsource(mask)\n"
    ),
    "command": 'def main():\n    "What --help says."\n    return main.__doc__\n',
    "reads": 'def record(name):\n    return read(f"results/one/{name}.json")\n',
    "support/__init__": '"Support."\n',
    "book/litbook/figures/__init__": "from .plots import curves\nfrom .table import table\n",
    "book/litbook/figures/plots": (
        'from ..colours import BLUE\n\ndef curves():\n    "Curves."\n    return BLUE\n'
    ),
    "book/litbook/figures/table": "def table():\n    return 1\n",
    "support/colours": 'BLUE = "blue"\n',
    "book/litbook/what_held": "",
}
FILES = [
    "data/pocket.tsv",
    "book/results/one/a.json",
    "book/results/two/b.json",
    "book/results/tatoeba-fr/run.json",
    "book/results/tatoeba-de/run.json",
    "book/results/replication.jsonl",
]


class Book:
    "A package, some files and one chapter, in a folder of their own."

    def __init__(self, folder):
        self.folder, self.chapter, self.cells = folder, folder / "book" / "01_x.ipynb", {}
        for name, text in PACKAGE.items():
            self.module(name, text)
        for name in FILES:
            self.file(name, "x")

    def file(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def module(self, name, text):
        self.file(f"transformer_lit/{name}.py", text)

    def edit(self, name, old, new):
        text = (self.folder / "transformer_lit" / f"{name}.py").read_text(encoding="utf-8")
        assert old in text
        self.module(name, text.replace(old, new))

    def stamp(self, *sources, prose="prose", tags=()):
        cells = [
            nbformat.v4.new_code_cell(source, id=f"c{i}", metadata={"tags": list(tags)})
            for i, source in enumerate(sources)
        ]
        nbformat.write(
            nbformat.v4.new_notebook(
                cells=[nbformat.v4.new_markdown_cell(prose, id="prose"), *cells]
            ),
            self.chapter,
        )
        return stamps.stamp(self.chapter)


@pytest.fixture
def book(tmp_path, monkeypatch):
    monkeypatch.setattr(stamps, "ROOT", tmp_path)
    stamps.read.cache_clear()  # what a text imports depends on the modules that there are
    yield Book(tmp_path)
    stamps.read.cache_clear()


# The chapter's own cells --------------------------------------------------------------------------


def test_words_of_a_chapter_change_nothing(book):
    code = 'def f(x):\n    "Twice."\n    return 2 * x  # twice'
    before = book.stamp(code)
    for words in (
        "def f(x):\n    return 2 * x",
        (
            '#@title Drawing\n#| export\ndef f(x):\n    """Another\n\n    docstring."""\n    return'
            " (2 *\n            x)"
        ),
    ):
        assert book.stamp(words, prose="other prose", tags=["hide-input"]) == before, words


@pytest.mark.parametrize(
    "one, other",
    [
        ("f(2)", "f(3)"),
        ("f(2)", "g(2)"),
        ("x = 1\nx", "x = 1\nx;"),
        ('"a string is shown"', '"another"'),
        ('x = "a"', 'x = "b"'),
        ("x == y", "x is y"),
        ("def f(): ...", "def f(x): ..."),
        ("!ls", "!pwd"),
        ("%pip install a", "%pip install b"),
    ],
)
def test_code_of_a_chapter_counts(book, one, other):
    assert book.stamp(one) != book.stamp(other)
    assert book.stamp(one, "last") != book.stamp(other, "last"), "in any cell"


def test_cells_and_their_order_count(book):
    assert (
        len(
            {
                book.stamp("a", "b"),
                book.stamp("b", "a"),
                book.stamp("a\nb"),
                book.stamp("a"),
                book.stamp("a", "b", ""),
            }
        )
        == 5
    )


def test_a_semicolon_before_a_comment_counts(book):
    assert (
        book.stamp("f()  # draw")
        == book.stamp("f()")
        != book.stamp("f();  # draw")
        == book.stamp("f();\n# draw")
    )


# The modules behind it ----------------------------------------------------------------------------


def seen(book, chapter, name, old, new):
    "Does the chapter's stamp change with this edit of a module?"
    before = book.stamp(chapter)
    book.edit(name, old, new)
    return book.stamp(chapter) != before


@pytest.mark.parametrize(
    "chapter",
    [
        "from transformer_lit.masks import mask",
        "import transformer_lit.masks",
        "from transformer_lit import masks",
        "import transformer_lit.model as m",
        "from transformer_lit.model import model",
        "def f():\n    from transformer_lit.model import model",
        'SCRIPT = "from transformer_lit.model import model"',
        "!python -m transformer_lit.model",
    ],
)
def test_code_behind_a_chapter_counts(book, chapter):
    assert seen(book, chapter, "masks", "n + 1", "n + 2")


@pytest.mark.parametrize(
    "name, old, new",
    [
        ("masks", '"What may be seen."', '"""What\n    may be seen."""'),
        ("masks", '    "What may be seen."\n', ""),
        ("masks", '"Masks."', '"All masks."'),
        ("masks", "# the diagonal", "# itself"),
        ("later", "return 3", "return 4"),
    ],
)
def test_words_behind_a_chapter_and_other_modules_change_nothing(book, name, old, new):
    assert not seen(book, "from transformer_lit.model import model", name, old, new)


def test_an_import_inside_a_function_is_followed(book):
    assert seen(book, "from transformer_lit.lazy import lazy", "later", "return 3", "return 4")


@pytest.mark.parametrize(
    "chapter",
    [
        "from transformer_lit.support import figures",
        "from litbook.figures import curves",
        "import litbook.figures",
        "import litbook.figures.table",
        "from litbook.figures.table import table",
    ],
)
@pytest.mark.parametrize(
    "name, old, new",
    [
        ("book/litbook/figures/plots", "return BLUE", "return None"),
        ("support/colours", '"blue"', '"red"'),
        ("book/litbook/figures/table", "return 1", "return 2"),
        ("book/litbook/figures/__init__", "curves\n", "curves as drawn\n"),
    ],
)
def test_packages_are_followed_into_their_modules(book, chapter, name, old, new):
    assert seen(book, chapter, name, old, new)


def test_a_docstring_of_the_figures_executes_nothing(book):
    assert not seen(
        book,
        "from transformer_lit.support import figures",
        "book/litbook/figures/plots",
        '"Curves."',
        '"Lines."',
    )


# Where the words are shown ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chapter",
    [
        "import inspect\nfrom transformer_lit.masks import mask\ninspect.getsource(mask)",
        "from transformer_lit import masks\nprint(masks.mask.__doc__)",
        "from transformer_lit.masks import mask\nhelp(mask)",
        "from transformer_lit.masks import mask\nmask??",
        "from transformer_lit.shows import source\nsource()",
        "from transformer_lit.masks import mask\nfor f in [mask]:\n    print(f.__doc__)",
    ],
)
def test_where_source_is_shown_its_words_count(book, chapter):
    assert seen(book, chapter, "masks", "What may be seen", "What can be seen")
    if "__doc__" not in chapter:
        assert seen(book, chapter, "masks", "# the diagonal", "# itself")


def test_a_commands_own_help_counts(book):
    assert seen(
        book,
        "from transformer_lit.command import main",
        "command",
        "What --help says",
        "What it says",
    )
    assert not seen(
        book,
        "from transformer_lit.shows import source",
        "command",
        "What it says",
        "What --help says",
    )


def test_a_chapter_that_shows_its_own_source(book):
    show = "import inspect\nprint(inspect.getsource(f))"
    assert book.stamp("def f():\n    return 1  # one", show) != book.stamp(
        "def f():\n    return 1", show
    )


def test_a_package_that_is_shown_shows_what_it_hands_on(book):
    assert seen(
        book,
        "from transformer_lit.support import figures\nhelp(figures.curves)",
        "book/litbook/figures/plots",
        '"Curves."',
        '"Lines."',
    )


# Records and files --------------------------------------------------------------------------------


def read_by(book, *sources):
    "The files that change the chapter's stamp."
    before, found = book.stamp(*sources), set()
    for name in FILES:
        book.file(name, "something else")
        found |= {name} if book.stamp(*sources) != before else set()
        book.file(name, "x")
    return found


@pytest.mark.parametrize(
    "code, files",
    [
        ("x = 1", set()),
        ("# results/one", set()),
        ('read("results/one/a.json")', {"book/results/one/a.json"}),
        ('read("data/pocket.tsv")', {"data/pocket.tsv"}),
        ('f"results/tatoeba-{language}/run.json"', set(FILES[3:5])),
        ('f"results/{name}/run.json"', set(FILES[1:5])),
        ('read("results/one")', {"book/results/one/a.json"}),
        ("from transformer_lit.reads import record", {"book/results/one/a.json"}),
        ('"data/elsewhere/x.tsv"', set()),
        (
            'from transformer_lit.support import what_held\nRECORD = "results/replication.jsonl"',
            {"book/results/replication.jsonl"},
        ),
        ('RECORD = "results/replication.jsonl"', set()),
    ],
)
def test_a_chapter_depends_on_the_files_it_names(book, code, files):
    assert read_by(book, code) == files


def test_a_new_record_counts(book):
    before = book.stamp('read(f"results/{name}")')
    book.file("book/results/three/c.json", "")
    assert book.stamp('read(f"results/{name}")') != before


# This book ----------------------------------------------------------------------------------------


def test_a_docstring_in_the_books_own_figures_executes_nothing(monkeypatch):
    "Every chapter draws with them, and none shows their words."
    chapters = sorted((ROOT / "book").glob("[0-9]*.ipynb"))
    before, text_of = {path: stamps.stamp(path) for path in chapters}, stamps.text_of
    monkeypatch.setattr(
        stamps,
        "text_of",
        lambda name: text_of(name).replace("Curves in one panel;", "One panel of curves;"),
    )
    assert "One panel of curves;" in stamps.text_of("book/litbook/figures/plots")
    assert {path: stamps.stamp(path) for path in chapters} == before
    monkeypatch.setattr(
        stamps,
        "text_of",
        lambda name: text_of(name).replace('"width": panel_width(', '"width": 2 * panel_width('),
    )
    changed = {path.stem for path in chapters if stamps.stamp(path) != before[path]}
    assert {
        "02_attention",
        "25_since_2017",
    } <= changed, "a line of the same function executes what draws with it"


def test_the_pages_that_show_source_are_known():
    "A page whose code shows docstrings or source executes again when those words change."
    showing = {}
    for path in sorted((ROOT / "book").glob("[0-9]*.ipynb")):
        cells = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
        chapter = stamps.together(
            [stamps.read(stamps.cell_code(cell.source), whole=False) for cell in cells]
        )
        showing[path.stem[:2]] = stamps.worded(chapter, stamps.modules_behind(chapter.modules))
    assert "tokens" in showing["93"], "its script is made from the source of two functions"
    assert not any("book/litbook/figures/plots" in words for words in showing.values())


def test_a_stamp_is_the_same_in_every_process():
    "Else all chapters are executed again, whatever changed."
    code = (
        "import stamps; print([stamps.stamp(p) for p in sorted((stamps.ROOT /"
        " 'book').glob('2*.ipynb'))])"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT / "tools",
            capture_output=True,
            text=True,
            check=True,
            env={"PATH": "", "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1 and len(found.pop()) > 6 * 64
