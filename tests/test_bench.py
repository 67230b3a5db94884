"""The bench scripts at sizes of a second: they run, what they compare is the same, and chapter 21
finds its fields.

Nothing here measures anything; timings of a trial mean nothing.
"""

import argparse
import importlib
import itertools
import json
import sys
from pathlib import Path

import pytest
import torch

BENCH = Path(__file__).parents[1] / "bench"
sys.path.insert(0, str(BENCH))
import common
import multi30k
import laptop_article
from twin import Twin, difference, twin_of

from transformer_lit.corpora.files import shipped
from transformer_lit.decoding import beam_search, greedy_decode
from transformer_lit.masks import PAD
from transformer_lit.model import Transformer, TransformerConfig

WHERE = {"command", "commit", "hardware", "torch"}
FIELDS = {  # record -> its list, and the fields of a row that chapter 21 reads
    "step": {"precisions": {"forms"}},
    "loss": {"forms": {"peak", "seconds"}},
    "decoding": {"rows": {"name", "case", "batch", "beam", "length", "ratio", "same", "sentences"}},
    "to_loss": {
        "steps": {"name", "steps", "ratio", "hardware"},
        "rows": {
            "name",
            "epochs",
            "planned_epochs",
            "hardware",
            "best",
            "cpu_seconds",
            "goal_epoch",
            "goal_cpu_seconds",
        },
    },
    "multi30k": {
        "runs": {
            "language",
            "way",
            "seed",
            "steps",
            "tokens",
            "epochs",
            "valid_loss",
            "bleu",
            "low",
            "high",
            "signature",
            "set",
            "lines",
            "samples",
            "recipe",
            "parameters",
            "cpu_seconds",
        }
    },
}


def ran(monkeypatch, script: str, *words) -> None:
    "The script's main, as if typed."
    monkeypatch.setattr(sys, "argv", [str(BENCH / f"{script}.py"), *map(str, words)])
    importlib.import_module(script).main()


def complete(name: str, file: Path) -> dict:
    "The record, with all that the chapter reads."
    record = json.loads(file.read_text("utf-8"))
    must = (
        WHERE - {"commit"} if name == "step" else WHERE
    )  # step.py also runs from a copy, where there is no git
    assert must <= set(record), f"{file} does not say {must - set(record)}"
    for precision in record.get("precisions", {}).values():
        for form in precision["forms"].values():
            assert {"tokens_per_second", "times_ours", "share_of_ceiling", "breakdown"} <= set(form)
    for part, fields in FIELDS[name].items():
        assert record[part], f"{file} has no {part}"
        for row in record[part].values() if isinstance(record[part], dict) else record[part]:
            assert fields <= set(row), f"{file}: {part} lack {fields - set(row)}"
    return record


# The twin -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("tied", [True, False])
def test_the_twin_is_the_same_model(norm, tied):
    assert difference(norm, tied) < 1e-12, "nn.Transformer with our weights says something else"


@pytest.fixture
def pair():
    "A small model and its twin."
    torch.manual_seed(3)
    model = Transformer(TransformerConfig(30, None, 16, 2, 32, 1, 2, norm="pre")).eval()
    torch.nn.init.normal_(model.target.tokens.weight)
    return model, twin_of(model)


def test_the_twin_decodes_as_we_do(pair):
    source = torch.randint(4, 30, (5, 6))
    source[1, 4:] = PAD
    for decode in (
        lambda m: greedy_decode(m, source, 9),
        lambda m: beam_search(m, source, 3, 0.6, 9),
    ):
        assert decode(pair[0]) == decode(pair[1])


def test_the_twin_trains_with_dropout_and_ties():
    model = Twin(TransformerConfig(30, None, 16, 2, 32, 1, 1, dropout=0.5))
    assert model.output.weight is model.source.tokens.weight is model.target.tokens.weight
    source = torch.randint(4, 30, (2, 6))
    assert not torch.equal(model(source, source), model(source, source))
    model.eval()
    assert torch.equal(model(source, source), model(source, source))


# Rates --------------------------------------------------------------------------------------------


def test_rates_begin_and_end_at_zero():
    for used, value in ((0.0, 0.0), (0.05, 1.0), (0.525, 0.5), (1.0, 0.0), (1.1, 0.0)):
        assert multi30k.rate_at(used, 1.0, 0.05) == pytest.approx(value)


# Trials -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_multi30k(monkeypatch, tmp_path):
    """On a clock that goes on by 0.01 each time it is read, so that the budget ends at the same
    step on every machine."""
    ticks = itertools.count()
    monkeypatch.setattr(common.time, "process_time", lambda: next(ticks) / 100)
    out = tmp_path / "multi30k.json"
    trial = "--trial", "--budget", "0.3", "--lines", "8", "--out", out
    ran(monkeypatch, "multi30k", *trial)
    record = complete("multi30k", out)
    ours, textbook = record["runs"]
    assert record["corpus"] == "pocket" and ours["set"] == "pocket-test"
    assert (ours["way"], textbook["way"]) == ("ours", "textbook")
    assert (
        textbook["parameters"] - ours["parameters"] == 0
    )  # both stacks end in a LayerNorm, in both
    for run in record["runs"]:
        assert 0.28 < run["cpu_seconds"] < 0.3 + 1e-9, "the budget is used, and not more than it"
        assert 20 < run["steps"] < 30, "a step, or the batches of an epoch, take 0.01 seconds here"
    before = out.read_text()
    ran(monkeypatch, "multi30k", *trial)
    assert out.read_text() == before, "what is done is not done again"
    with pytest.raises(ValueError, match="budget 0.3 and not 5"):
        ran(monkeypatch, "multi30k", "--trial", "--budget", "5", "--out", out)


@pytest.mark.slow
def test_laptop_article(monkeypatch, tmp_path):
    homes = {name: tmp_path / f"{name}-by-sentence" for name in laptop_article.RECIPES}
    for name, home in homes.items():
        ran(monkeypatch, "laptop_article", name, "--trial", "--epochs", "2", "--out", home)
        record = json.loads((home / "run.json").read_text("utf-8"))
        assert WHERE <= set(record) and record["epoch"] == 2
        assert record["planned_epochs"] == laptop_article.RECIPES[name]["epochs"]
        assert record["data"]["name"] == "pocket" and record["data"]["leak"] == 0.0
        assert "commit" not in (home / "log.jsonl").read_text("utf-8"), "it stands in run.json"
    ran(monkeypatch, "laptop_article", "time", "--trial", "--out", tmp_path / "to_loss.json")
    record = complete("to_loss", tmp_path / "to_loss.json")
    assert {row["name"] for row in record["rows"]} == set(homes)
    assert [row["name"] for row in record["steps"]][:2] == ["laptop", "twin, fp32"]
    there = [
        {**row, "hardware": "another"} for row in record["steps"]
    ]  # as if recorded on another machine
    (tmp_path / "to_loss.json").write_text(json.dumps({**record, "steps": there}), "utf-8")
    ran(monkeypatch, "laptop_article", "time", "--trial", "--out", tmp_path / "to_loss.json")
    record = complete("to_loss", tmp_path / "to_loss.json")
    assert record["steps"][: len(there)] == there and len(record["steps"]) == 2 * len(there)


@pytest.mark.slow
def test_laptop_article_goes_on(monkeypatch, tmp_path):
    ran(
        monkeypatch,
        "laptop_article",
        "twin",
        "--trial",
        "--epochs",
        "2",
        "--out",
        tmp_path / "whole",
    )
    for epochs in (1, 2):
        ran(
            monkeypatch,
            "laptop_article",
            "twin",
            "--trial",
            "--epochs",
            epochs,
            "--out",
            tmp_path / "parts",
        )
    whole, parts = (
        [
            json.loads(line)
            for line in (tmp_path / name / "log.jsonl").read_text("utf-8").splitlines()
        ]
        for name in ("whole", "parts")
    )
    for one, other in zip(whole, parts, strict=True):
        assert {k for k in one if one[k] != other[k]} <= {"cpu_seconds", "seconds"}
    ran(
        monkeypatch,
        "laptop_article",
        "twin",
        "--trial",
        "--out",
        tmp_path / "groups",
        "--groups",
        tmp_path / "whole/checkpoint.pt",
    )
    [row] = json.loads((tmp_path / "groups/groups.json").read_text("utf-8"))
    assert (
        row["epoch"] == 2 and row["seen"] is None and row["unseen"] > 0
    ), "split by sentence, nothing is seen"


@pytest.mark.slow
def test_decoding(monkeypatch, tmp_path):
    out = tmp_path / "decoding.json"
    ran(monkeypatch, "decoding", "--rounds", "1", "--only", "batch 8, greedy", "--out", out)
    record = complete("decoding", out)
    assert record["rows"][0]["ratio"] == 1.0


@pytest.mark.slow
def test_step(monkeypatch, tmp_path):
    ran(monkeypatch, "step", "--rounds", "1", "--steps", "1", "--out", tmp_path / "step.json")
    record = complete("step", tmp_path / "step.json")
    assert record["commit"], "where it was made"
    assert all(
        set(found["forms"]) == {"ours", "torch", "textbook"}
        for found in record["precisions"].values()
    )


@pytest.mark.slow
def test_loss(monkeypatch, tmp_path):
    ran(
        monkeypatch,
        "loss",
        "--tokens",
        "200",
        "--vocab",
        "500",
        "--d-model",
        "16",
        "--out",
        tmp_path / "loss.json",
    )
    record = complete("loss", tmp_path / "loss.json")
    assert {"whole, fp32", "blocks, fp32"} <= set(record["forms"]) and record["vocab"] == 500


# Switches and profiles of the step ----------------------------------------------------------------


def test_a_marked_range_is_not_counted_once_more():
    from types import SimpleNamespace as Event
    import step

    events = [
        Event(
            key="adam kernel",
            device_type="DeviceType.CUDA",
            is_user_annotation=False,
            self_device_time_total=5.0,
        ),
        Event(
            key="Optimizer.step#Adam.step",
            device_type="DeviceType.CUDA",
            is_user_annotation=True,
            self_device_time_total=5.0,
        ),
        Event(key="gemm", device_type="DeviceType.CUDA", self_device_time_total=7.0),
        Event(
            key="aten::mm",
            device_type="DeviceType.CPU",
            is_user_annotation=False,
            self_device_time_total=7.0,
        ),
    ]
    found = step.by_kind(events, True)
    assert (
        found["optimiser"] == 5.0 and sum(found.values()) == 12.0
    ), "the optimiser's kernels are counted twice"


@pytest.mark.parametrize("name", FIELDS)
def test_what_was_recorded_can_be_read(name):
    file = shipped(f"results/bench/{name}.json")
    assert file.exists(), f"the record of {name} comes with the book and is missing"
    record = complete(name, file)
    assert record.get("corpus") != "pocket", "a trial is no record"


# The command --------------------------------------------------------------------------------------


def test_the_command_of_a_record_makes_it_again(monkeypatch):
    parser = argparse.ArgumentParser()
    parser.add_argument("what")
    for option, how in {
        "--out": dict(type=Path),
        "--steps": dict(type=int, default=5),
        "--seeds": dict(type=int, nargs="+"),
        "--trial": dict(action="store_true"),
    }.items():
        parser.add_argument(option, **how)
    out = common.BENCH / "x.json"

    def typed(*words, **instead):
        monkeypatch.setattr(sys, "argv", [str(BENCH / "step.py"), *map(str, words)])
        return common.command(parser, "what", **instead)

    whole = typed("depth", "--steps", 7, "--seeds", 1, 2, "--trial", "--out", out)
    assert (
        whole
        == "python bench/step.py depth --out book/results/bench/x.json --steps 7 --seeds 1 2"
        " --trial"
    )
    assert (
        typed("depth", "--steps", 5) == "python bench/step.py depth"
    ), "what is the default anyway needn't be typed"
    assert typed("depth", "--out", out, out=None) == "python bench/step.py depth"
