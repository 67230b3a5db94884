"""The index from the paper to the code, the address, and what the package ships tell the truth."""
import importlib
import json
import re
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


def test_every_file_that_carries_the_address_carries_the_same():
    from address import address, carriers

    host = address().split("/")[2]
    for path in carriers():
        for found in re.findall(rf"https://{re.escape(host)}/[\w./-]+", path.read_text(encoding="utf-8")):
            if "hub" not in host:  # a public host has other repositories too
                assert found.startswith(address()), f"{path.relative_to(ROOT)} has {found}; make address sets it"


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
