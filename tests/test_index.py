"""The index from the paper to the code, the address, and what the package ships tell the truth."""

import json
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from litbook.results import load_record, load_runs

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
INDEX = (ROOT / "book" / "paper_to_code.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(\w+\.\w+(?:\.\w+)?)`", INDEX))))
def test_the_index_names_what_the_package_exports(name):
    try:
        pkgutil.resolve_name(f"transformer_lit.{name}")
    except (ImportError, AttributeError):
        raise AssertionError(f"the index names {name}, and the package has no such thing") from None


RESULTS = ROOT / "book" / "results"


def test_the_build_lists_every_module_that_no_chapter_exports_by_its_docstring(
    tmp_path, monkeypatch
):
    import build

    monkeypatch.setattr(build, "SITE", tmp_path)
    row = r"^\| \[`([\w/]+)\.py`\]\(source/\1\.md\) \| (.+) \|$"
    rows = dict(re.findall(row, build.source_pages(), re.M))
    api = (ROOT / "book" / "api.md").read_text(encoding="utf-8")
    assert api.count("<!-- rooms -->") == 1, "here the build puts this table"
    exported = set(re.findall(r"source/([\w/]+)\.md", api))
    assert set(build.modules()) - set(rows) == exported, "the build lists all other modules"
    short = [name for name, words in rows.items() if len(words.split()) < 4]
    assert not short, f"the first sentence of a docstring is its row in the table: {short}"


def strays(text, own):
    """Addresses in a text that `make address` has missed: the placeholder's kind, which nobody can
    have, other than `own`."""
    return [
        found
        for found in re.findall(r"https://[\w.-]+\.example/[\w./-]+", text)
        if not re.match(rf"{re.escape(own)}(?![\w-])", found)
    ]


def test_every_file_that_carries_the_address_carries_the_same():
    from address import address, carriers

    own = (path for path in carriers() if not path.is_relative_to(ROOT / "tests"))  # made up there
    found = {path.name: strays(path.read_text(encoding="utf-8"), address()) for path in own}
    assert not any(found.values()), f"make address sets it: {found}"
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r'^repository-code: "?([^"\s]+)', citation, re.M)[1] == address()


@pytest.mark.parametrize(
    "own", ["https://github.example/owner/name", "https://github.com/owner/name"]
)
def test_a_stray_address_is_found(own):
    "Planted: one old address among right ones, while the book has a home and before."
    right = f"see {own}, {own}/blob/main/x.py, https://github.com/facebookresearch/fairseq"
    assert strays(right, own) == []
    for wrong in (
        "https://github.example/owner/other",
        "https://github.example/owner/names",
        "https://other.example/owner/name",
    ):
        assert strays(f"{right} and {wrong}", own) == [wrong]


def test_setting_the_address(tmp_path, monkeypatch):
    """On a copy of two chapters and what names the book: all of it changes, the chapters get their
    line; and back again."""
    import address

    for name in (
        "pyproject.toml",
        "CITATION.cff",
        "book/02_attention.ipynb",
        "book/95_what_held.ipynb",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    monkeypatch.setattr(address, "ROOT", tmp_path)
    before, old = {p: p.read_bytes() for p in address.carriers()}, address.address()
    new = "https://github.com/somebody/somewhere"
    monkeypatch.setattr(sys, "argv", ["address.py", new + "/"])
    address.main()
    assert address.address() == address.home() == new
    for path in before:
        text = path.read_text(encoding="utf-8")
        assert old not in text and new in text, path
        if path.suffix == ".ipynb":
            assert text.count(f"- **Read it rendered** in [the book]({new})") == 1
    monkeypatch.setattr(sys, "argv", ["address.py", old])
    address.main()
    if not address.home():
        assert {p: p.read_bytes() for p in before} == before


def undeclared(thing, where="") -> list[str]:
    """The commits in a record that name no commit: not forty hex digits, or uncommitted code
    without a note that says so."""
    if isinstance(thing, list):
        thing = dict(enumerate(thing))
    if not isinstance(thing, dict):
        return []
    commit, places = str(thing.get("commit", "0" * 40)), []
    is_noted = commit.endswith("-dirty") and "not yet committed" in thing.get("note", "")
    if not (is_noted or re.fullmatch(r"[0-9a-f]{40}", commit)):
        places.append(f"{where}: {commit}")
    return sum((undeclared(value, f"{where}/{key}") for key, value in thing.items()), places)


def test_every_record_names_its_commit_or_says_why_it_has_none():
    texts = {path.name: path.read_text(encoding="utf-8") for path in RESULTS.glob("**/*.json")}
    for path in set(RESULTS.glob("*/*.jsonl")) - set(RESULTS.glob("*/*-logs.jsonl")):
        lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        texts |= {f"{path.name}:{number}": line for number, line in lines}
    assert len(texts) > 500, "the records are not where they were"
    nameless = sum((undeclared(json.loads(text), name) for name, text in texts.items()), [])
    assert not nameless, "commit, then record again from there:\n" + "\n".join(nameless)
    for card in (ROOT / "data" / "checkpoints").glob("*/README.md"):
        text = card.read_text(encoding="utf-8")
        assert "-dirty" not in text or "not yet committed" in text, card.parent.name


@pytest.mark.parametrize("commit", ["89b5606-dirty", "89b5606", "unknown", "", None])
def test_a_commit_that_is_none_is_found(commit):
    right = {"commit": "0123456789" * 4}
    noted = {"commit": "89b5606-dirty", "note": "Made from code that was not yet committed."}
    assert undeclared([right, noted, {"runs": [right]}]) == []
    assert undeclared({**right, "runs": [{"commit": commit}]}) == [f"/runs/0: {commit}"]


NAMED = re.compile(r"""shipped\(\\?["']((?:data|results)/[^"'{}\\]+)\\?["']\)""")
SPEAKING = [
    *(ROOT / "book").glob("*.ipynb"),
    *(ROOT / "transformer_lit").rglob("*.py"),
    *(path for path in (ROOT / "tests").rglob("*.py") if path.name != "test_stamps.py"),
]  # its files are made up
SHIPPED = sorted(
    {name for path in SPEAKING for name in NAMED.findall(path.read_text(encoding="utf-8"))}
)


@pytest.mark.parametrize("name", SHIPPED)
def test_what_the_book_names_as_shipped_is_there(name):
    from transformer_lit.corpora.files import shipped

    assert shipped(name).exists(), f"{name} comes with the book and is missing"


def test_the_names_of_shipped_files_are_found():
    assert {"data/pocket.tsv.gz", "data/checksums.tsv"} <= set(SHIPPED)


def test_every_record_of_the_table_is_there_and_every_record_stands_in_it():
    rows = re.findall(r"^\| (`.*?) \|", (RESULTS / "README.md").read_text("utf-8"), re.M)
    names = {name for row in rows for name in re.findall(r"`([\w./-]+)`", row)}
    trainings = (RESULTS / "runs" / "trainings.jsonl").read_text("utf-8").splitlines()
    runs = {json.loads(line)["run"] for line in trainings}
    missing = [n for n in names if "NAME" not in n and n[0] != "-"]
    missing = [n for n in missing if n not in runs and not (RESULTS / n).exists()]
    assert len(names) > 10 and not missing, f"the table names {missing}"
    patterns = [re.escape(name).replace("NAME", ".*") for name in names]
    files = {f"bench/{path.name}" for path in (RESULTS / "bench").iterdir()}
    unknown = {n for n in files | runs if not any(re.match(p, n) for p in patterns)}
    assert not unknown, f"by which commands were {unknown} made? book/results/README.md"


FACTS = "command commit seed data hardware torch parameters tokens flops seconds tokens_per_second"


@pytest.mark.parametrize("run", load_runs("trainings").to_dict("records"), ids=lambda r: r["run"])
def test_a_recorded_training_says_what_it_was(run):
    facts = FACTS.split() + ([] if run["run"].startswith("mixture-") else ["scores"])
    assert not [fact for fact in facts if not run[fact]], f"{run['run']} lacks a fact"
    assert re.fullmatch(r"[0-9a-f]{64}", run["data"]["sha256"])
    assert run["flops"] == 6 * run["parameters"] * run["tokens"], "six a parameter and token"
    bleu = [score for score in run["scores"] or [] if score["metric"] == "BLEU"]
    assert all("signature" in s for s in bleu), "a BLEU without a signature can't be compared"
    _, log = load_record(run["run"])
    for kind, number in (("step", "step"), ("epoch", "epoch")):
        places = [entry[number] for entry in log if entry["kind"] == kind]
        if places:
            expected = list(range(places[0], places[-1] + 1, places[0]))
            assert places == expected, f"a {kind} is missing from the log, or stands there twice"
            break
    assert log[-1]["tokens"] == run["tokens"]
    assert not re.search(r"/(home|root|tmp|Users|work)/", json.dumps(run)), "a path of one machine"


def test_each_chapter_has_a_cell_whose_figure_stands_on_its_card():
    import build

    for path in build.between("1", "26"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        shown = [cell["id"] for cell in cells if "card" in cell["metadata"].get("tags", [])]
        assert len(shown) == 1, f"{path.stem}: the tag `card` stands on {shown or 'no cell'}"


FIGURE = """<figure class="tl-figure"><div role="img" aria-label="{}"><div class="tl-desk"><svg
 >{}</svg></div><div class="tl-phone"><svg >{}</svg></div></div></figure>"""


@pytest.mark.parametrize("count, words", [(3, "5.0 &amp; more?"), (2, "First."), (1, None)])
def test_a_thumbnail_is_a_phones_drawing_with_the_first_sentence_of_its_words(
    count, words, tmp_path, monkeypatch
):
    import build
    import nbformat

    def cell(name, *parts, tags=()):
        page = {"text/html": FIGURE.format(*parts).replace("\n", "")}
        outputs = [nbformat.v4.new_output("display_data", page)]
        metadata = {"tags": list(tags)}
        return nbformat.v4.new_code_cell("", id=name, outputs=outputs, metadata=metadata)

    monkeypatch.setattr(build, "OUT", tmp_path)
    cells = [
        cell("big", "Big.", "d", "p" * build.LARGEST),
        cell("first", "First.", "d1", "p1"),
        cell("key", "5.0 &amp; more? No.", "d2", "p2", tags=["card"]),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells[:count]), tmp_path / "01_x.ipynb")
    shown = build.thumbnail(tmp_path / "01_x.ipynb")
    if words is None:
        assert shown == "", "the only drawing is too large"
    else:
        assert f'role="img" aria-label="{words}"' in shown
        assert shown.count("<svg") == 1 and ">d" not in shown, "the desk's drawing"


PAPERS = re.compile(
    r"(?:https?://)?(?:www\.)?((?:arxiv\.org/abs|aclanthology\.org|doi\.org)/[^\s)\"\\>}]+)"
)


def papers_of(text: str) -> set[str]:
    "Addresses of papers that a text names, without version, slash or full stop at the end."
    return {re.sub(r"(?<=\d)v\d+$", "", link.rstrip("/.,")) for link in PAPERS.findall(text)}


@pytest.mark.parametrize(
    "path",
    sorted([*(ROOT / "book").glob("[0-9]*.ipynb"), *(ROOT / "book").glob("*.md")]),
    ids=lambda path: path.stem,
)
def test_the_bibliography_has_every_paper_that_a_page_links(path):
    missing = papers_of(path.read_text(encoding="utf-8")) - papers_of(
        (ROOT / "book/references.bib").read_text(encoding="utf-8")
    )
    assert not missing, f"add to book/references.bib: {sorted(missing)}"


def test_a_paper_that_is_linked_is_found():
    text = (
        r"([A 2020](https://arxiv.org/abs/2001.00001v2))."
        r" \"[B](https://aclanthology.org/W18-6421/)\", https://doi.org/10.1000/b.4."
    )
    assert papers_of(text) == {
        "arxiv.org/abs/2001.00001",
        "aclanthology.org/W18-6421",
        "doi.org/10.1000/b.4",
    }
