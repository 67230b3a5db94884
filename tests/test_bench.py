"""The bench scripts at sizes of a second: they run, what they compare is the same, and pages find
their fields.

Nothing here measures anything; timings of a trial mean nothing.
"""

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
import laptop_article
import multi30k
from helpers import copy_layer
from twin import Twin

from transformer_lit.corpora.files import shipped
from transformer_lit.decoding import beam_search, greedy_decode
from transformer_lit.masks import PAD
from transformer_lit.model import Transformer, TransformerConfig

WHERE = {"command", "commit", "hardware", "torch"}
FIELDS = {  # record -> its list, and the fields of a row that pages read
    "step": ("precisions", "ceiling operations tokens forms"),
    "loss": ("forms", "peak seconds"),
    "decoding": ("rows", "name case batch beam length ratio same sentences seconds"),
    "to_loss": (
        "rows",
        "name epochs planned_epochs hardware best cpu_seconds goal_epoch goal_cpu_seconds",
    ),
    "multi30k": (
        "runs",
        "language way seed steps tokens valid_loss bleu low high signature"
        " recipe parameters cpu_seconds",
    ),
    "stopping": ("rows", "alpha patient bleu length rows"),
    "export": ("rows", "translator quantization megabytes largest_gap same_greedy same_beam"),
}
TRIALS = {
    "step": "--rounds 1",
    "loss": "",
    "decoding": "--rounds 1",
    "gpu": "--steps 4",
}


def ran(monkeypatch, script: str, *words, out: Path) -> dict:
    "The record of the script's main, as if typed."
    monkeypatch.setattr(sys, "argv", [str(BENCH / f"{script}.py"), *map(str, words)])
    importlib.import_module(script).main()
    return json.loads(out.read_text("utf-8"))


def complete(name: str, record: dict) -> None:
    "It has all that pages read."
    must = WHERE - ({"commit"} if name == "step" else set())  # it ran from a copy without git
    assert must <= set(record), f"{name} does not say {must - set(record)}"
    part, fields = FIELDS[name]
    rows = record[part].values() if isinstance(record[part], dict) else record[part]
    assert rows, f"{name} has no {part}"
    for row in rows:
        assert set(fields.split()) <= set(row), f"{name}: {set(fields.split()) - set(row)}"
        for form in row.get("forms", {}).values():
            assert {"tokens_per_second", "times_ours", "share_of_ceiling"} <= set(form)


# The twin -----------------------------------------------------------------------------------------


def twin_of(model: Transformer) -> Twin:
    "With the model's weights; post-norm, without the two last LayerNorms, which the paper lacks."
    twin = Twin(model.config).to(model.output_projection.weight)
    twin.load_state_dict(model.state_dict(), strict=False)  # all but the stacks
    for name in ("encoder", "decoder"):
        ours, theirs = getattr(model, name), getattr(twin.core, name)
        for layers in zip(ours.layers, theirs.layers, strict=True):
            copy_layer(*layers)
        theirs.norm = ours.norm if model.config.norm == "pre" else None
    return twin.eval()


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("tied", [True, False])
def test_the_twin_is_the_same_model(norm, tied):
    torch.manual_seed(0)
    config = TransformerConfig(
        50, None if tied else 40, 16, 4, 32, 2, 3, norm=norm, tied_embeddings=tied
    )
    model = Transformer(config).double().eval()
    source, target = torch.randint(4, 40, (3, 7)), torch.randint(4, 40, (3, 6))
    source[1, 5:] = target[2, 3:] = PAD
    gaps = (model(source, target) - twin_of(model)(source, target))[target != PAD]
    assert gaps.abs().max() < 1e-12, "nn.Transformer with our weights says something else"


def test_the_twin_decodes_as_we_do():
    torch.manual_seed(3)
    model = Transformer(TransformerConfig(30, None, 16, 2, 32, 1, 2, norm="pre")).eval()
    torch.nn.init.normal_(model.target_embedding.token_embedding.weight)
    source = torch.randint(4, 30, (5, 6))
    source[1, 4:] = PAD
    for decode in (
        lambda m: greedy_decode(m, source, 9),
        lambda m: beam_search(m, source, 3, 0.6, 9),
    ):
        assert decode(model) == decode(twin_of(model))


def test_the_twin_trains_with_dropout_and_ties():
    model = Twin(TransformerConfig(30, None, 16, 2, 32, 1, 1, dropout=0.5))
    assert (
        model.output_projection.weight
        is model.source_embedding.token_embedding.weight
        is model.target_embedding.token_embedding.weight
    )
    source = torch.randint(4, 30, (2, 6))
    assert not torch.equal(model(source, source), model(source, source))
    model.eval()
    assert torch.equal(model(source, source), model(source, source))


# Trials -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIALS)
def test_a_trial(monkeypatch, tmp_path, name):
    out = tmp_path / f"{name}.json"
    words = [*common.shlex.split(TRIALS[name]), "--out", out]
    if name == "gpu":
        words += ["--home", tmp_path / "home", "--store", tmp_path / "store"]
        monkeypatch.delenv("TRANSFORMER_LIT_DATA", raising=False)
    record = ran(monkeypatch, name, *words, out=out)
    if name == "gpu":
        assert {"correct", "waits", "kernels", "step", "decoding"} <= set(record)
        assert record["training"]["step"] == 4 and record["training"]["finished"]
    else:
        complete(name, record)


def test_rates_begin_and_end_at_zero():
    for used, value in ((0.0, 0.0), (0.05, 1.0), (0.525, 0.5), (1.0, 0.0), (1.1, 0.0)):
        assert multi30k.rate_at(used, 1.0, 0.05) == pytest.approx(value)


@pytest.mark.slow
def test_multi30k(monkeypatch, tmp_path):
    """On a clock that goes on by 0.01 each time it is read, so that the budget ends at the same
    step on every machine."""
    ticks = itertools.count()
    monkeypatch.setattr(common.time, "process_time", lambda: next(ticks) / 100)
    out = tmp_path / "multi30k.json"
    trial = "--trial", "--budget", "0.3", "--out", out
    record = ran(monkeypatch, "multi30k", *trial, out=out)
    complete("multi30k", record)
    ours, textbook = record["runs"]
    assert record["corpus"] == "pocket" and (ours["way"], textbook["way"]) == ("ours", "textbook")
    assert textbook["parameters"] == ours["parameters"], "both stacks end in a LayerNorm, in both"
    for run in record["runs"]:
        assert 0.28 < run["cpu_seconds"] < 0.3 + 1e-9, "the budget is used, and not more than it"
        assert run["steps"] == round(100 * run["cpu_seconds"]), "a step takes 0.01 seconds here"
    assert ran(monkeypatch, "multi30k", *trial, out=out) == record, "what is done is done"
    with pytest.raises(ValueError, match="budget 0.3 and not 5"):
        ran(monkeypatch, "multi30k", "--trial", "--budget", "5", "--out", out, out=out)


@pytest.mark.slow
@pytest.mark.parametrize("name", laptop_article.RECIPES)
def test_the_laptop_article_goes_on(monkeypatch, tmp_path, name):
    def run(folder, epochs):
        options = "--trial", "--epochs", epochs, "--out", tmp_path / folder
        out = tmp_path / folder / "run.json"
        return ran(monkeypatch, "laptop_article", name, *options, out=out)

    whole, _, parts = run("whole", 2), run("parts", 1), run("parts", 2)
    assert WHERE <= set(whole) and whole["epoch"] == 2 and whole["data"]["leak"] == 0.0
    assert whole["planned_epochs"] == laptop_article.RECIPES[name]["epochs"]
    assert [row["seen"] for row in whole["groups"]] == [None, None], "split by sentence"
    assert whole["scores"] == parts["scores"] and whole["groups"] == parts["groups"]


# Records ------------------------------------------------------------------------------------------


def test_the_times_to_a_loss_are_read_from_the_recorded_runs():
    record = json.loads(shipped("results/bench/to_loss.json").read_text("utf-8"))
    assert laptop_article.to_loss() == {name: record[name] for name in ("goal", "rows")}


@pytest.mark.parametrize("name", FIELDS)
def test_what_was_recorded_can_be_read(name):
    record = json.loads(shipped(f"results/bench/{name}.json").read_text("utf-8"))
    complete(name, record)
    assert record.get("corpus") != "pocket", "a trial is no record"


def test_a_record_says_what_was_typed_and_goes_on_with_the_same_settings(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", [str(BENCH / "step.py"), "depth", "--steps", "7", "a b"])
    record = common.Record(tmp_path / "new/x.json", steps=7)
    assert record["command"] == "python bench/step.py depth --steps 7 'a b'"
    record.resume().append({"loss": 1.0})
    record.write()
    assert common.Record(record.path, steps=7).resume() == [{"loss": 1.0}]
    with pytest.raises(ValueError, match="steps 7 and not 8"):
        common.Record(record.path, steps=8).resume()
