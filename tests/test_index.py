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


API = (ROOT / "book" / "api.md").read_text(encoding="utf-8")


def test_the_build_lists_every_module_that_no_chapter_exports_by_its_docstring(
    tmp_path, monkeypatch
):
    import build

    monkeypatch.setattr(build, "SITE", tmp_path)
    row = r"^\| \[`([\w/]+)\.py`\]\(source/\1\.md\) \| (.+) \|$"
    rows = dict(re.findall(row, build.source_pages(), re.M))
    assert API.count("<!-- rooms -->") == 1, "here the build puts this table"
    assert set(build.modules()) - set(rows) == set(re.findall(r"source/([\w/]+)\.md", API)), (
        "the page lists the exported modules, the build all others"
    )
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

    for path in carriers():
        if path.is_relative_to(ROOT / "tests"):  # tests make up addresses
            continue
        found = strays(path.read_text(encoding="utf-8"), address())
        assert not found, f"{path.relative_to(ROOT)} has {found}; make address sets it"
    cited = re.search(
        r'^repository-code: "?([^"\s]+)', (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M
    )[1]
    assert cited == address(), f"CITATION.cff has {cited}; make address sets it"


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


def test_no_chapter_links_to_the_placeholder():
    "The bootstrap names it; nothing that a reader can click does."
    from address import address, home

    for path in [] if home() else sorted((ROOT / "book").glob("*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            assert cell["cell_type"] == "code" or address() not in "".join(
                cell["source"]
            ), f"{path.name}, cell {cell['id']}, names {address()}"


def undeclared(thing, where="") -> list[str]:
    """The commits in a record that name no commit: not forty hex digits, or uncommitted code
    without a note that says so."""
    found = []
    if isinstance(thing, dict):
        told = re.fullmatch(
            r"[0-9a-f]{7,40}-dirty", str(thing.get("commit"))
        ) and "not yet committed" in thing.get("note", "")
        if (
            "commit" in thing
            and not told
            and not re.fullmatch(r"[0-9a-f]{40}", str(thing["commit"]))
        ):
            found.append(f"{where}: {thing['commit']}")
    for key, value in (
        thing.items()
        if isinstance(thing, dict)
        else enumerate(thing) if isinstance(thing, list) else []
    ):
        found += undeclared(value, f"{where}/{key}")
    return found


def test_every_record_names_its_commit_or_says_why_it_has_none():
    results = ROOT / "book" / "results"
    held = {path.name: path.read_text(encoding="utf-8") for path in results.glob("**/*.json")}
    for path in set(results.glob("*/*.jsonl")) - set(results.glob("*/*-logs.jsonl")):
        lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        held |= {f"{path.name}:{number}": line for number, line in lines}
    assert len(held) > 500, "the records are not where they were"
    nameless = [said for name, text in held.items() for said in undeclared(json.loads(text), name)]
    assert not nameless, "commit, then record again from there:\n" + "\n".join(nameless)
    for card in (ROOT / "data" / "checkpoints").glob("*/README.md"):
        text = card.read_text(encoding="utf-8")
        assert (
            "-dirty" not in text or "not yet committed" in text
        ), f"{card.parent.name}: its card doesn't say that its code was not yet committed"


def test_a_commit_that_is_none_is_found():
    whole = {"commit": "0123456789" * 4, "runs": [{"commit": "0123456789" * 4}]}
    assert (
        undeclared(whole)
        == undeclared(
            {"commit": "89b5606-dirty", "note": "Made from code that was not yet committed."}
        )
        == []
    )
    for wrong in "89b5606-dirty", "89b5606", "unknown", "", None:
        assert undeclared({"commit": wrong}) and undeclared(
            {**whole, "runs": [{"commit": wrong}]}
        ), f"{wrong!r} went unseen"


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
    results = ROOT / "book" / "results"
    rows = re.findall(r"^\| (`.*?) \|", (results / "README.md").read_text("utf-8"), re.M)
    names = {name for row in rows for name in re.findall(r"`([\w./-]+)`", row)}
    trainings = (results / "runs" / "trainings.jsonl").read_text("utf-8").splitlines()
    runs = {json.loads(line)["run"] for line in trainings}
    missing = [n for n in names if "NAME" not in n and n[0] != "-"]
    missing = [n for n in missing if n not in runs and not (results / n).exists()]
    assert len(names) > 10 and not missing, f"the table names {missing}"
    patterns = [re.escape(name).replace("NAME", ".*") for name in names]
    files = {f"bench/{path.name}" for path in (results / "bench").iterdir()}
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
            whole = list(range(places[0], places[-1] + 1, places[0]))
            assert places == whole, f"of {kind}s one is missing from the log, or stands there twice"
            break
    assert log[-1]["tokens"] == run["tokens"]
    assert not re.search(r"/(home|root|tmp|Users|work)/", json.dumps(run)), "a path of one machine"


def test_each_chapter_has_a_cell_whose_figure_stands_on_its_card():
    import build

    for path in build.between("1", "26"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        shown = [cell["id"] for cell in cells if "card" in cell["metadata"].get("tags", [])]
        assert len(shown) == 1, f"{path.stem}: the tag `card` stands on {shown or 'no cell'}"


def test_a_thumbnail_is_a_phones_drawing_with_the_first_sentence_of_its_words(
    tmp_path, monkeypatch
):
    import build
    import nbformat

    def cell(name, words, desk, phone, tags=()):
        page = (
            f'<figure class="tl-figure"><div role="img" aria-label="{words}"><div'
            f' class="tl-desk"><svg >{desk}</svg></div><div class="tl-phone"><svg'
            f" >{phone}</svg></div></div></figure>"
        )
        return nbformat.v4.new_code_cell(
            "",
            id=name,
            outputs=[nbformat.v4.new_output("display_data", {"text/html": page})],
            metadata={"tags": list(tags)},
        )

    monkeypatch.setattr(build, "OUT", tmp_path)
    cells = [
        cell("big", "Big.", "d", "p" * build.LARGEST),
        cell("first", "First.", "d1", "p1"),
        cell("key", "5.0 &amp; more? No.", "d2", "p2", ["card"]),
    ]
    for kept, told in ((cells, "5.0 &amp; more?"), (cells[:2], "First."), (cells[:1], None)):
        nbformat.write(nbformat.v4.new_notebook(cells=kept), tmp_path / "01_x.ipynb")
        shown = build.thumbnail(tmp_path / "01_x.ipynb")
        assert (
            shown == ""
            if told is None
            else f'role="img" aria-label="{told}"' in shown
            and shown.count("<svg") == 1
            and ">d" not in shown
        )


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
