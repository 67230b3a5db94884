"""The index from the paper to the code, the address, and what the package ships tell the truth."""
import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
INDEX = (ROOT / "book" / "paper_to_code.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(\w+\.\w+(?:\.\w+)?)`", INDEX))))
def test_the_index_names_what_the_package_exports(name):
    module, *path = name.split(".")
    thing = importlib.import_module(f"transformer_lit.{module}")
    for part in path:
        assert hasattr(thing, part), f"the index names {name}, and the package has no such thing"
        thing = getattr(thing, part)


def strays(text, own):
    "Addresses in a text that `make address` has missed: the placeholder's kind, which nobody can have, other than `own`."
    return [found for found in re.findall(r"https://[\w.-]+\.example/[\w./-]+", text) if not re.match(rf"{re.escape(own)}(?![\w-])", found)]


def test_every_file_that_carries_the_address_carries_the_same():
    from address import address, carriers

    for path in carriers():
        if path.is_relative_to(ROOT / "tests"):  # tests make up addresses
            continue
        found = strays(path.read_text(encoding="utf-8"), address())
        assert not found, f"{path.relative_to(ROOT)} has {found}; make address sets it"
    cited = re.search(r'^repository-code: "?([^"\s]+)', (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)[1]
    assert cited == address(), f"CITATION.cff has {cited}; make address sets it"


@pytest.mark.parametrize("own", ["https://github.example/owner/name", "https://github.com/owner/name"])
def test_a_stray_address_is_found(own):
    "Planted: one old address among right ones, while the book has a home and before."
    right = f"see {own}, {own}/blob/main/x.py, https://github.com/facebookresearch/fairseq"
    assert strays(right, own) == []
    for wrong in "https://github.example/owner/other", "https://github.example/owner/names", "https://other.example/owner/name":
        assert strays(f"{right} and {wrong}", own) == [wrong]


def test_setting_the_address(tmp_path, monkeypatch):
    "On a copy of two chapters and what names the book: all of it changes, the chapters get their line; and back again."
    import address

    for name in "pyproject.toml", "CITATION.cff", "book/02_attention.ipynb", "book/91_exercises.ipynb":
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
            assert cell["cell_type"] == "code" or address() not in "".join(cell["source"]), f"{path.name}, cell {cell['id']}, names {address()}"


@pytest.mark.parametrize("folder", sorted(p.parent for p in (ROOT / "book" / "results").glob("*/run.json")), ids=lambda p: p.name)
def test_a_recorded_run_says_what_it_was(folder):
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    for key in ("command", "commit", "seed", "data", "hardware", "torch", "parameters", "tokens", "flops", "seconds",
                "tokens_per_second", "scores"):
        assert run.get(key), f"{folder.name}/run.json lacks {key}"
    assert re.fullmatch(r"[0-9a-f]{64}", run["data"]["sha256"])
    assert run["flops"] == 6 * run["parameters"] * run["tokens"], "flops are six a parameter and token"
    assert all("signature" in s for s in run["scores"] if s["metric"] == "BLEU"), "a BLEU without a signature can't be compared"
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    steps = [e["step"] for e in log if e["kind"] == "step"]
    epochs = [e["epoch"] for e in log if e["kind"] == "epoch"]
    if steps:
        assert steps == list(range(steps[0], steps[-1] + 1, steps[0])), "a step is missing from the log, or stands there twice"
    else:
        assert epochs == list(range(1, len(epochs) + 1)) != [], "an epoch is missing from the log, or stands there twice"
    assert log[-1]["tokens"] == run["tokens"]
    assert not re.search(r"/(home|root|tmp|Users|work)/", (folder / "run.json").read_text()), "a path of one machine"


def test_contributing_lists_the_time_of_every_chapter():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for path in (ROOT / "book").glob("[0-9]*.ipynb"):
        assert f"`{path.stem}`" in text, f"{path.stem} is missing from the table of times"
