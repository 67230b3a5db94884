"""`recipes.recipes`: what is trained, on which device, averaged, scored and recorded. What a stop
leaves: test_interrupted.py."""

import json
from dataclasses import replace

import pytest
import torch
from translators import PAIRS, PARTS, joint, recipe

from transformer_lit.batching import token_batches
from transformer_lit.corpora.files import sha256_file
from transformer_lit.recipes import recipes
from transformer_lit.recipes.recipes import (
    build_trainer,
    build_translator,
    describe,
    evaluate_and_record,
    scored,
    train_translator,
)
from transformer_lit.runs import records
from transformer_lit.runs.checkpoints import model_tensors, read_file
from transformer_lit.runtime.optimizers import MuonAndAdam
from transformer_lit.schedule import linear_lr
from transformer_lit.training import validation_loss
from transformer_lit.translation import Translator


@pytest.mark.parametrize(
    "step, n_steps, warmup, rate",
    [
        (1, 1000, 100, 0.01),
        (100, 1000, 100, 1),
        (1000, 1000, 100, 1 / 901),
        (1002, 1000, 100, 0),
        (3, 3, 6, 0.5),  # too short a run only rises
    ],
)
def test_the_rate_rises_and_falls_and_never_below_zero(step, n_steps, warmup, rate):
    assert linear_lr(step, n_steps, 1.0, warmup) == pytest.approx(rate, abs=1e-12)


# Training -----------------------------------------------------------------------------------------


def test_a_translator_begins_as_its_recipe_says(tmp_path):
    begun = build_translator(recipe(), PAIRS, tmp_path)
    begun.source_tokenizer.save(tmp_path / "tokenizer.json")
    again = build_translator(recipe(), PAIRS[:3], tmp_path)
    assert all(map(torch.equal, begun.model.parameters(), again.model.parameters())), (
        "the folder's tokens and the seed decide"
    )
    words = recipe(tokens="words", min_frequency=1)
    by_words = build_translator(words, PAIRS, tmp_path)
    assert "vois" in by_words.target_tokenizer.tokens


def test_a_training_is_prepared_as_its_recipe_says(tmp_path):
    translator, r = joint(), recipe()
    trainer, batches = build_trainer(translator, PAIRS + [("e " * 200, "e")], r, tmp_path)
    assert len(batches.pairs) == len(PAIRS), "pairs over 128 tokens are left out"
    last = 3 * len(token_batches(batches.pairs, 64))
    assert trainer.lr_schedule(last) > 0 == trainer.lr_schedule(last + 1)
    muon, _ = build_trainer(translator, PAIRS, replace(r, optimizer="muon"), tmp_path)
    assert type(muon.optimizer) is MuonAndAdam is not type(trainer.optimizer)
    with pytest.raises(ValueError, match="pairs"):
        build_trainer(translator, [], r, tmp_path)


def test_a_run_notes_what_it_sees_after_each_epoch(tmp_path):
    samples = [PARTS["train"][0][0], PARTS["test"][0][0]]
    translator, trainer = train_translator(tmp_path, recipe(), PARTS, samples)
    ends = [entry for entry in trainer.log_history if entry["kind"] == "eval"]
    assert len(ends) == trainer.epoch == 3
    loss = validation_loss(translator.model, translator.encode_pairs(PARTS["valid"]))
    assert ends[-1]["valid_loss"] == pytest.approx(loss, rel=1e-5)
    answers = translator.translate(samples)
    assert ends[-1]["samples"] == dict(zip(samples, answers))
    assert Translator.load(tmp_path).translate(samples) == answers


@pytest.mark.parametrize("kind", ["cuda", "cpu"])
def test_a_gpu_trains_where_there_is_one(kind, tmp_path, monkeypatch):
    "`train --recipe tatoeba-fr` stayed on the processor of a machine with a GPU."
    steps = []

    class Card:  # stands for the GPU where there is none: the processor, under another name
        type = kind

    def to(model, device):
        steps.append(device.type)
        return model

    def build_trainer(*args):
        steps.append("built")
        raise KeyboardInterrupt

    monkeypatch.setattr(recipes.devices, "default_device", Card)
    monkeypatch.setattr(torch.nn.Module, "to", to)
    monkeypatch.setattr(recipes, "build_trainer", build_trainer)
    with pytest.raises(KeyboardInterrupt):
        train_translator(tmp_path, recipe(), PARTS, [])
    assert steps == [kind, "built"], "the weights move to the GPU, before the optimizer holds them"


def test_the_mean_of_the_last_ends_is_saved(tmp_path):
    train_translator(tmp_path, recipe(n_averaged=2), PARTS, [])
    before, last = (read_file(tmp_path / f"epoch-{n}.safetensors")[0] for n in (2, 3))
    for name, weight in model_tensors(Translator.load(tmp_path).model).items():
        torch.testing.assert_close(weight, (last[name] + before[name]) / 2)
    assert not (tmp_path / "epoch-1.safetensors").exists()


# Scores and records -------------------------------------------------------------------------------


def test_scores_with_the_first_reference_and_with_all():
    answers = [french for _, french in PAIRS]
    rows = scored(answers, [["x", text] for text in answers], "toy")
    first, every = ([row for row in rows if row["references"] == n] for n in ("first", "all"))
    assert first[0]["value"] < 10 and every[0]["value"] > 99.9 and len(first) == len(every)


@pytest.fixture
def archive(tmp_path, monkeypatch):
    (tmp_path / "archive").write_bytes(b"pairs")
    monkeypatch.setattr(recipes, "tatoeba_archive", lambda language: tmp_path / "archive")
    return tmp_path / "archive"


def test_a_corpus_is_described_with_what_it_leaks(archive):
    corpus = describe(PARTS, recipe())
    assert (corpus["name"], corpus["sha256"]) == ("tatoeba", sha256_file(archive))
    assert [corpus[name] for name in ("pairs", "train", "distinct_english")] == [18, 12, 18]
    assert corpus["leak_by_sentence"] == 0 == corpus["leak_by_pair"]
    twice = [(str(i // 2), str(i)) for i in range(80)]
    corpus = describe({"train": twice[:50], "valid": [], "test": twice[49:]}, recipe())
    assert corpus["leak_by_sentence"] == 1 / 31, "the sentence of which pairs are in both"
    assert corpus["leak_by_pair"] > 0.3, "pairs of one sentence are dealt to both"


def test_a_finished_run_is_scored_and_recorded(archive, tmp_path, monkeypatch):
    monkeypatch.setattr(recipes, "SAMPLES", ["I SEE A CATS", "unseen"])
    parts, folder = {**PARTS, "test": PARTS["test"] * 2}, tmp_path / "run"
    translator, trainer = train_translator(folder, recipe(), parts, [])
    record = evaluate_and_record(folder, "né", recipe(), translator, trainer, parts)
    assert record == json.loads((folder / "run.json").read_text("utf-8"))
    answers = (folder / "hypotheses.txt").read_text("utf-8").splitlines()
    sources = [english for english, _ in PARTS["test"]]
    assert answers == translator.translate(sources, precision="fp32"), "each distinct sentence"
    assert record["seen"] == {"I SEE A CATS": True, "unseen": False}
    assert record["data"] == describe(parts, recipe()), "a description throws no new dice"
    assert records.effort(translator.model, trainer).items() <= record.items()
    loss, *rows = record["scores"]
    assert loss["value"] == trainer.log_history[-1]["valid_loss"]
    assert all("signature" in row for row in rows), "a score without it can't be compared"
