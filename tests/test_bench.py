"""The bench scripts at sizes of a second: they run and go on, and what they compare is the same.

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
from helpers import copy_layer
from twin import Twin

from transformer_lit.masks import PAD
from transformer_lit.model import Transformer, TransformerConfig


def run(monkeypatch, script: str, words: str, out: Path) -> dict:
    "The record of the script's main, as if typed."
    monkeypatch.setattr(sys, "argv", [f"{script}.py", *words.split(), "--out", str(out)])
    monkeypatch.delenv("TRANSFORMER_LIT_DATA", raising=False)
    monkeypatch.syspath_prepend(BENCH)  # tools/ has an export.py, too
    importlib.import_module(script).main()
    return json.loads(out.read_text("utf-8"))


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
    targets = None if tied else 40
    config = TransformerConfig(50, targets, 16, 4, 32, 2, 3, norm=norm, tied_embeddings=tied)
    model = Transformer(config).double().eval()
    source, target = torch.randint(4, 40, (3, 7)), torch.randint(4, 40, (3, 6))
    source[1, 5:] = target[2, 3:] = PAD
    gaps = (model(source, target) - twin_of(model)(source, target))[target != PAD]
    assert gaps.abs().max() < 1e-12, "nn.Transformer with our weights gives something else"


# Trials -------------------------------------------------------------------------------------------

TRIALS = {
    "step": "--rounds 1",
    "loss": "",
    "decoding": "--rounds 1",
    "gpu": "",
    "binding": "--seeds 1 --epochs 1 --train 96 --pocket 96 --test 16 --home {0}/home",
}


@pytest.mark.slow
@pytest.mark.parametrize("script", TRIALS)
def test_a_trial(monkeypatch, tmp_path, script):
    record = run(monkeypatch, script, TRIALS[script].format(tmp_path), tmp_path / "out.json")
    assert {"command", "hardware", "torch"} <= set(record)


@pytest.mark.slow
def test_multi30k(monkeypatch, tmp_path):
    """On a clock that goes on by 0.01 each time it is read, so that the budget ends at the same
    step on every machine."""
    ticks, out = itertools.count(), tmp_path / "multi30k.json"
    monkeypatch.setattr(common.time, "process_time", lambda: next(ticks) / 100)
    record = run(monkeypatch, "multi30k", "--trial --budget 0.3", out)
    for row in record["runs"]:
        assert 0.28 < row["cpu_seconds"] < 0.3 + 1e-9, "the budget is used, and not more than it"
    assert run(monkeypatch, "multi30k", "--trial --budget 0.3", out) == record, "made once more"


@pytest.mark.slow
@pytest.mark.parametrize("name", laptop_article.RECIPES)
def test_the_laptop_article_goes_on(monkeypatch, tmp_path, name):
    def train(folder, epochs):
        out = tmp_path / folder
        words = ["laptop_article.py", name, "--trial", "--epochs", str(epochs), "--out", str(out)]
        monkeypatch.setattr(sys, "argv", words)
        laptop_article.main()
        return json.loads((out / "run.json").read_text("utf-8"))

    once, _, parts = train("once", 2), train("parts", 1), train("parts", 2)
    assert once["epoch"] == 2 and once["data"]["leak"] == 0.0
    assert once["scores"] == parts["scores"] and once["groups"] == parts["groups"]


# Records ------------------------------------------------------------------------------------------


def test_a_record_names_its_command_and_goes_on_with_the_same_settings(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", [str(BENCH / "step.py"), "depth", "--steps", "7", "a b"])
    record = common.Record(tmp_path / "new/x.json", steps=7)
    assert record["command"] == "python bench/step.py depth --steps 7 'a b'"
    record.resume().append({"loss": 1.0})
    record.write()
    assert common.Record(record.path, steps=7).resume() == [{"loss": 1.0}]
    with pytest.raises(ValueError, match="steps 7"):
        common.Record(record.path, steps=8).resume()
