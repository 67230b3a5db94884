"""The paper's experiment in small: batches from a token store, a run that is timed, averaged,
translated and scored. What a stop leaves: test_interrupted.py."""

import dataclasses
import json
import math
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from plugins.corpus import PAIRS

from transformer_lit import training, translation, wmt
from transformer_lit.batching import collate, token_batches, token_batches_from_lengths
from transformer_lit.recipes import large
from transformer_lit.runs import checkpoints
from transformer_lit.training import Trainer, TrainingConfig

CPU = torch.device("cpu")
MODEL = dict(
    d_model=16, n_heads=2, d_ff=32, n_encoder_layers=1, n_decoder_layers=1, dropout=0.0, norm="pre"
)
TRAINING = dict(max_tokens=400, warmup_steps=5, precision="fp32", log_every=1, checkpoint_every=3)
STEPS = dict(max_steps=12, eval_every=5, n_eval_sentences=5, n_averaged=2, snapshot_every=2)


def experiment(own, training=(), **changes):
    plan = wmt.build_experiment(
        str(own / "mine-fr"), "modern", "tiny", 400, TRAINING | dict(training)
    )
    changes = {
        **STEPS,
        "model": MODEL,
        "tokenizer_sample": 400,
        "optimizer": "adam",
        "peak_lr": 5e-3,
        **changes,
    }
    return dataclasses.replace(plan, **changes)


def losses(folder):
    entries = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [(e["step"], e["kind"], e.get("loss", e.get("valid_loss"))) for e in entries]


@pytest.fixture
def short_answers(monkeypatch):
    "An untrained model says nothing sensible: a few tokens will do."
    monkeypatch.setattr(translation, "translate_ids", lambda model, ids, *_: [i[:4] for i in ids])


# Batches ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [60, 300, 5000])
def test_batches_follow_chapter_12s_rule(store, limit):
    pairs = list(store)
    ours, theirs = token_batches_from_lengths(store.lengths, limit, 3), token_batches(pairs, limit)
    indices = sorted(np.concatenate(ours).tolist())
    assert indices == list(range(len(pairs))), "each pair must come exactly once"
    shapes = [
        sorted((len(batch), max(max(map(len, pairs[i])) for i in batch)) for batch in batches)
        for batches in (ours, theirs)
    ]
    assert shapes[0] == shapes[1]  # batches are cut elsewhere than in chapter 12
    for batch in ours[:5]:
        sides = zip(wmt.collate_from_store(store, batch), collate([pairs[i] for i in batch]))
        assert all(torch.equal(mine, chapter_12s) for mine, chapter_12s in sides)


def test_each_epoch_has_batches_of_its_own(store):
    config = TrainingConfig(max_tokens=400, seed=3)
    batches = wmt.StoreBatches(store, config, 9)
    first, again, second = map(batches.epoch_batches, (0, 0, 1))
    assert all(map(np.array_equal, first, again))
    assert not all(map(np.array_equal, first, second)), "every epoch deals the same batches"


def test_a_batch_comes_with_its_labels_counted(store):
    batches = wmt.StoreBatches(store, TrainingConfig(max_tokens=300), 5)
    batch = batches.epoch_batches(0)[0]
    source, target = batches.load_batch(batch)
    assert len(source) == len(batch) == len(target)
    assert batches.count_labels(batch) == sum(len(store[int(i)][1]) - 1 for i in batch)


def test_a_batch_that_is_too_small_does_not_spoil_the_folder(own, store, tmp_path):
    with pytest.raises(ValueError, match="max_tokens"):
        large.run_experiment(experiment(own, {"max_tokens": 9}), tmp_path / "run", own / "store")
    assert not (tmp_path / "run").exists()  # the next try would be refused, because a plan stands


# Training -----------------------------------------------------------------------------------------


def test_one_run_from_folder_to_scores(own, store, tmp_path, short_answers):
    folder, e = tmp_path / "run", experiment(own)
    record = large.run_experiment(e, folder, own / "store", command="typed")
    assert record == json.loads((folder / "run.json").read_text())
    assert {score["set"] for score in record["scores"]} == {"newstest2013", "newstest2014"}
    metrics = {score["metric"] for score in record["scores"]}
    assert metrics >= {"BLEU", "chrF2", "BLEU, Moses-like, compound-split"}
    assert len((folder / "hypotheses-newstest2014.txt").read_text().splitlines()) == 30
    log = losses(folder)
    assert [step for step, kind, _ in log if kind == "eval"] == [5, 10, 12]
    steps = [folder / f"step-{n}.safetensors" for n in (10, 12)]
    assert set(folder.glob("step-*")) == set(steps), "other weights than the last ones are averaged"
    paths = *steps, folder / "model.safetensors"
    before, last, mean = (checkpoints.read_file(path)[0] for path in paths)
    for name, weight in mean.items():
        torch.testing.assert_close(weight, (before[name] + last[name]) / 2)
    large.run_experiment(e, folder, own / "store")
    with pytest.raises(ValueError, match="n_heads"):
        other = experiment(own, model=MODEL | {"n_heads": 4})
        large.run_experiment(other, folder, own / "store")
    assert losses(folder) == log  # a finished run must stay as it is
    assert translation.Translator.load(folder).model.config.n_heads == 2


def test_segments_stop_in_time_and_chain(own, store, tmp_path, monkeypatch, short_answers):
    e, folder, take = experiment(own), tmp_path / "chained", Trainer.train_step
    large.run_experiment(e, tmp_path / "straight", own / "store")
    clock, steps, records = [0.0], [], []

    def train_step(trainer, *batch):
        steps.append(trainer.step)
        clock[0] += 60
        return take(trainer, *batch)

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(Trainer, "train_step", train_step)
    while len(records) < 9 and not any(records):
        deadline = clock[0] + 3.5 * 60
        records.append(large.run_experiment(e, folder, own / "store", deadline=deadline))
    assert [bool(record) for record in records] == [False] * 3 + [True] and steps == list(
        range(12)
    ), f"a segment must go on where the one before it stopped, no step is taken twice: {steps}"
    assert losses(folder) == losses(tmp_path / "straight")


def test_translating_stops_in_time_and_goes_on(store, tmp_path, monkeypatch):
    sizes, path, lines = [], tmp_path / "answers.txt", [english for english, _ in PAIRS[:25]]
    translator = SimpleNamespace(
        model=torch.nn.Linear(1, 1),
        translate=lambda chunk, precision: sizes.append(len(chunk)) or chunk,
    )
    clock = iter([0, 0, 9])
    monkeypatch.setattr(large, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert large.translate_to_file(translator, lines, path, 5, size=10) is None
    monkeypatch.setattr(large, "time", time)
    for _ in range(2):
        assert large.translate_to_file(translator, lines, path, math.inf, size=10) == lines
    assert sizes == [10, 10, 5], "what was translated is not translated again"


# Looks and scores ---------------------------------------------------------------------------------


def test_evaluate_and_the_run_cut_text_alike(own, store, tmp_path, monkeypatch):
    """A line of several sentences is parted as the saved translator parts it, in the looks, in the
    hypotheses and in `evaluate`."""
    lengths = []

    def translate_ids(model, ids, *_):
        lengths.append([len(i) for i in ids])
        return ids

    monkeypatch.setattr(translation, "translate_ids", translate_ids)
    translator, _, _ = large.build_run(experiment(own), store, tmp_path / "run", CPU)
    translator.save(tmp_path / "saved", "fp32")
    line = " ".join(english for english, _ in PAIRS[:9])
    large.translate_to_file(translator, [line], tmp_path / "answers.txt", math.inf)
    large.EvaluationCallback(translator, experiment(own), [(line, "x")]).evaluate()
    translation.Translator.load(tmp_path / "saved").translate([line])
    assert lengths == [lengths[0]] * 3 and len(lengths[0]) == 1  # a line is cut in different ways


def test_a_look_measures_what_chapter_12_measures(own, store, tmp_path, short_answers):
    e, valid = experiment(own, n_eval_sentences=3), store.held_out()["valid"][:8]
    translator, _, _ = large.build_run(e, store, tmp_path / "run", CPU)
    look = large.EvaluationCallback(translator, e, valid).evaluate()
    ids = translator.encode_pairs(valid)
    assert look["valid_loss"] == training.validation_loss(translator.model, ids, 400)
    assert look["lines"] == 3


def test_the_steps_that_are_averaged():
    steps = [100_000, 98_600, 97_200, 95_800, 94_400]  # §6.1: five of them
    assert wmt.snapshot_steps(wmt.Experiment()) == steps
