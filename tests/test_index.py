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
    row = r"^\| \[`([\w/]+)\.py`\]\(source/\1\.md\) \| .+ \|$"
    rows = set(re.findall(row, build.source_pages(), re.M))
    api = (ROOT / "book" / "api.md").read_text(encoding="utf-8")
    exported = set(re.findall(r"source/([\w/]+)\.md", api))
    assert set(build.modules()) - rows == exported, "the build lists all other modules"


def test_every_file_that_carries_the_address_carries_the_same():
    "An address that ends with .example is the placeholder's kind, which nobody can have."
    from address import address, carriers

    for path in carriers():
        if not path.is_relative_to(ROOT / "tests"):  # made up there
            text = path.read_text(encoding="utf-8")
            placeholders = set(re.findall(r"https://[\w.-]+\.example(?:/[\w-]+){2}", text))
            assert placeholders <= {address()}, f"{path.name}: make address sets it"
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r'^repository-code: "?([^"\s]+)', citation, re.M)[1] == address()


def test_setting_the_address(tmp_path, monkeypatch):
    """On a copy of two chapters and what names the book: all of it changes, the chapters get their
    line; and back again."""
    import address

    for name in (
        "pyproject.toml",
        "CITATION.cff",
        "book/02_attention.ipynb",
        "book/A3_replication.ipynb",
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
    monkeypatch.setattr(sys, "argv", ["address.py", old])
    address.main()
    if not address.home():
        assert {p: p.read_bytes() for p in before} == before


def records():
    "(file, a part of it that is an object) of everything that is recorded."
    files = {*RESULTS.glob("**/*.json*")} - {*RESULTS.glob("*/*-logs.jsonl")}
    for path in files:
        text, parts = path.read_text(encoding="utf-8"), []
        texts = text.splitlines() if path.suffix == ".jsonl" else [text]
        for each in texts:
            json.loads(each, object_hook=lambda part: parts.append(part) or part)
        yield from ((path.name, part) for part in parts)


def test_every_record_names_its_commit_or_says_why_it_has_none():
    commits = [(name, part, str(part["commit"])) for name, part in records() if "commit" in part]
    assert len(commits) > 500, "the records are not where they were"
    nameless = {
        f"{name}: {commit}"
        for name, part, commit in commits
        if not re.fullmatch(r"[0-9a-f]{40}", commit)
        and not (commit.endswith("-dirty") and "not yet committed" in part.get("note", ""))
    }
    assert not nameless, f"commit, then record again from there: {nameless}"


NAMED = re.compile(r"""shipped\(\\?["']((?:data|results)/[^"'{}\\]+)\\?["']\)""")
SPEAKING = [*(ROOT / "book").glob("*.ipynb"), *(ROOT / "transformer_lit").rglob("*.py")]
SHIPPED = sorted(
    {name for path in SPEAKING for name in NAMED.findall(path.read_text(encoding="utf-8"))}
)


@pytest.mark.parametrize("name", SHIPPED)
def test_what_the_book_names_as_shipped_is_there(name):
    from transformer_lit.corpora.files import shipped

    assert shipped(name).exists(), f"{name} comes with the book and is missing"


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
    facts = FACTS.split() + ([] if run["run"].startswith(("mixture-", "open-")) else ["scores"])
    assert not [fact for fact in facts if not run[fact]], f"{run['run']} lacks a fact"
    assert re.fullmatch(r"[0-9a-f]{64}", run["data"]["sha256"])
    assert run["flops"] == 6 * run["parameters"] * run["tokens"], "six a parameter and token"
    bleu = [score for score in run["scores"] or [] if score["metric"] == "BLEU"]
    assert all("signature" in s for s in bleu), "a BLEU without a signature can't be compared"
    _, log = load_record(run["run"])
    kind = "step" if any(entry["kind"] == "step" for entry in log) else "epoch"
    places = [entry[kind] for entry in log if entry["kind"] == kind]
    expected = list(range(places[0], places[-1] + 1, places[0]))
    assert places == expected, f"a {kind} is missing from the log, or stands there twice"
    assert log[-1].get("n_labels", log[-1].get("tokens")) == run["tokens"]
    assert not re.search(r"/(home|root|tmp|Users|work)/", json.dumps(run)), "a path of one machine"


def test_each_chapter_has_a_cell_whose_figure_stands_on_its_card():
    import build

    for path in build.between("1", "26"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        shown = [cell["id"] for cell in cells if "card" in cell["metadata"].get("tags", [])]
        assert len(shown) == 1, f"{path.stem}: the tag `card` stands on {shown or 'no cell'}"


PAPERS = re.compile(
    r"(?:https?://)?(?:www\.)?((?:arxiv\.org/abs|aclanthology\.org|doi\.org)/[^\s)\"\\>}]+)"
)


def papers_of(text):
    "Addresses of papers that a text names, without version, slash or full stop at the end."
    return {re.sub(r"(?<=\d)v\d+$", "", link.rstrip("/.,")) for link in PAPERS.findall(text)}


@pytest.mark.parametrize(
    "path",
    sorted([*(ROOT / "book").glob("*.ipynb"), *(ROOT / "book").glob("*.md")]),
    ids=lambda path: path.stem,
)
def test_the_bibliography_has_every_paper_that_a_page_links(path):
    missing = papers_of(path.read_text(encoding="utf-8")) - papers_of(
        (ROOT / "book/references.bib").read_text(encoding="utf-8")
    )
    assert not missing, f"add to book/references.bib: {sorted(missing)}"
