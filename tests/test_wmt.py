"""The paper's experiment in small: a run that trains from a token store, is stopped, averaged,
translated and scored.

All text is made up from the pocket corpus (made_up.py); nothing is fetched from outside.
"""

import dataclasses
import errno
import inspect
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from made_up import HELD, PAIRS, Statmt, here, own, served, settings, store, text  # noqa: F401
from helpers import one_sentence

from transformer_lit import training, translation, wmt
from transformer_lit.recipes import prepare
from transformer_lit.recipes import answers, experiments, large_runs
from transformer_lit.runs import checkpoints as checkpoint
from transformer_lit.runtime import devices
from helpers import LOOPBACK
from transformer_lit.corpora.texts import take_evenly
from transformer_lit.training import Trainer, collate, token_batches

MODEL = dict(
    d_model=16, n_heads=2, d_ff=32, n_encoder_layers=1, n_decoder_layers=1, dropout=0.0, norm="pre"
)


def test_both_ways_are_what_the_page_says():
    "Each of their numbers, and the paper's vocabularies: a run of days would find a slip late."
    for name, warmup, clip in ("paper", 4_000, 0.0), ("ours", 400, 1.0):
        used = wmt.WAYS[name].training
        assert used == dataclasses.replace(
            training.TrainingConfig(),
            max_tokens=25_000,
            warmup=warmup,
            clip=clip,
            precision="bf16",
            checkpoint_every=1_000,
        ), name
    assert wmt.WAYS["paper"] == wmt.Experiment(training=wmt.PAPER)
    assert (wmt.PAPER, wmt.OURS) == tuple(way.training for way in wmt.WAYS.values())
    ours = {
        field.name
        for field in dataclasses.fields(wmt.Experiment)
        if getattr(wmt.WAYS["ours"], field.name) != getattr(wmt.WAYS["paper"], field.name)
    }
    assert ours == {"training", "model", "rate", "peak", "optimizer", "gain", "average"}
    way = wmt.WAYS["ours"]
    assert (way.model, way.rate, way.peak, way.optimizer, way.gain, way.average) == (
        {"norm": "pre"},
        "fall",
        4e-3,
        "muon",
        1.0,
        0,
    )
    assert wmt.VOCABULARY == {"wmt14-en-de": 37_000, "wmt14-en-fr": 32_000}


def test_the_papers_settings_are_the_defaults():
    """Of an experiment and of both ways to cut batches; an own corpus has 32,000 subwords unless it
    is told otherwise."""
    defaults = {
        field.name: getattr(wmt.Experiment(), field.name)
        for field in dataclasses.fields(wmt.Experiment)
    }
    assert (
        defaults.items() >= {
            "corpus": "wmt14-en-de",
            "size": 37_000,
            "sample": 1_000_000,
            "steps": 100_000,
            "rate": "noam",
            "average": 5,
            "keep_every": 1_400,
            "look_every": 2_000,
            "lines": 500,
        }.items()
    )
    for cut in wmt.length_batches, wmt.static_batches:
        assert {
            name: one.default
            for name, one in inspect.signature(cut).parameters.items()
            if name != "lengths"
        } == {"max_tokens": 25_000, "seed": 0}
    asked = [
        wmt.experiment_for(corpus) for corpus in ("wmt14-en-de", "wmt14-en-fr", "general-en-fr")
    ]
    assert [(e.corpus, e.language, e.size) for e in asked] == [
        ("wmt14-en-de", "de", 37_000),
        ("wmt14-en-fr", "fr", 32_000),
        ("general-en-fr", "fr", 32_000),
    ]


def test_batches_by_hand():
    for cut in wmt.length_batches, wmt.static_batches:
        batches = cut(np.array([[10, 3], [4, 10]], np.uint16), 10)
        assert sorted(len(batch) for batch in batches if len(batch)) == [
            1,
            1,
        ], "a pair as wide as a batch is one"
    alike = np.array([[1, 6], [6, 1], [3, 6], [6, 4], [2, 6], [6, 6]], np.uint16)
    [batch] = wmt.length_batches(alike, 100, 1)
    assert alike[batch, 0].tolist() == [
        1,
        2,
        3,
        6,
        6,
        6,
    ], "of equal widths the shorter source comes first"
    assert len(wmt.length_batches(np.full((10, 2), 5, np.uint16), 20)[0]) in (
        2,
        4,
    ), "four pairs of five make twenty"


def test_which_text_a_run_learns_from():
    one, other = (
        wmt.StoreBatches(
            types.SimpleNamespace(manifest={"shards": [{"ids": ids}]}), None, 1
        ).digest()
        for ids in ("a", "b")
    )
    assert one and other and one != other


def test_an_epoch_s_seed_is_the_run_s_and_a_thousand_for_each(store):
    batches = wmt.StoreBatches(store, training.TrainingConfig(max_tokens=400, seed=3), 9)
    for n in 0, 1, 2:
        assert all(
            map(
                np.array_equal,
                batches.epoch(n),
                wmt.length_batches(store.lengths, 400, 3 + 1000 * n),
            )
        )


def test_a_row_without_a_pair_is_one_sign(store):
    source, target = wmt.gather(store, np.array([0]), (3, 40))
    for row in 1, 2:
        assert source[row].tolist() == [2] + 39 * [0] and target[row].tolist() == [1] + 40 * [0]


@pytest.mark.parametrize(
    "name, spoil, words",
    [
        ("manifest.json", lambda b: b[:-30], "is not valid JSON"),
        ("manifest.json", lambda b: b"[1]", "and not an object"),
        ("manifest.json", lambda b: b'{"shards": [{"ids": 3}]}', "no usable 'ids'"),
        ("tokenizer.json", lambda b: b.replace(b"a", b"b", 1), "not what was written"),
        ("held_out.json", lambda b: b"{}", "no usable 'valid'"),
        ("held_out.json", lambda b: b'{"valid": [["a"]], "test": []}', "something else than pairs"),
        ("held_out.json", lambda b: b"\xff\xfe", "is not valid JSON"),
    ],
)
def test_a_damaged_store_is_one_sentence(store, own, tmp_path, name, spoil, words):
    import shutil

    shutil.copytree(store.folder, tmp_path / "copy")
    path = tmp_path / "copy" / name
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(ValueError) as caught:
        experiments.run_experiment(experiment(own), tmp_path / "run", tmp_path / "copy")
    assert (
        one_sentence(str(caught.value)) and words in str(caught.value) and name in str(caught.value)
    )
    assert not (tmp_path / "run" / "config.json").exists(), "a refused run must not fix a plan"


def test_a_batch_that_is_too_small_does_not_spoil_the_folder(own, store, tmp_path):
    e = experiment(own)
    small = dataclasses.replace(e, training=dataclasses.replace(e.training, max_tokens=9))
    with pytest.raises(ValueError, match="give --max-tokens"):
        experiments.run_experiment(small, tmp_path / "run", own / "store")
    assert not (
        tmp_path / "run"
    ).exists(), "the next try would be refused, because a plan was written"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_stop_saves_where_it_is(own, store, tmp_path, monkeypatch, every_step, capsys, name):
    short_answers(monkeypatch)
    e = dataclasses.replace(experiment(own), look_every=100)
    e = dataclasses.replace(e, training=dataclasses.replace(e.training, checkpoint_every=0))
    experiments.run_experiment(e, tmp_path / "whole", own / "store")
    with monkeypatch.context() as patch:
        before_step(patch, 7, lambda run: os.kill(os.getpid(), getattr(signal, name)))
        with pytest.raises((KeyboardInterrupt, SystemExit)) as caught:
            experiments.run_experiment(e, tmp_path / "cut", own / "store")
    said = str(caught.value) if name == "SIGINT" else capsys.readouterr().err
    assert (
        "stopped at step 8, saved in" in said
        and (tmp_path / "cut" / "checkpoint.safetensors").exists()
    )
    steps, take = [], Trainer.train_step
    monkeypatch.setattr(
        Trainer, "train_step", lambda run, *batch: (steps.append(run.step), take(run, *batch))[1]
    )
    experiments.run_experiment(e, tmp_path / "cut", own / "store")
    assert steps[0] == 8 and losses(tmp_path / "cut") == losses(
        tmp_path / "whole"
    ), "steps are lost, or taken twice"


def test_one_folder_has_one_training(own, store, tmp_path, monkeypatch):
    import threading

    short_answers(monkeypatch)
    e, errors = experiment(own), []

    def other(run):
        def go():
            try:
                experiments.run_experiment(e, tmp_path / "run", own / "store")
            except OSError as error:
                errors.append(str(error))

        thread = threading.Thread(target=go)
        thread.start()
        thread.join()

    with monkeypatch.context() as patch:
        before_step(patch, 3, other)
        experiments.run_experiment(e, tmp_path / "run", own / "store")
    assert (
        len(errors) == 1 and one_sentence(errors[0]) and "another training is at work" in errors[0]
    )


# Batches ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [60, 300, 5000])
def test_batches_follow_chapter_12s_rule(store, limit):
    pairs = list(store)
    ours, theirs = wmt.length_batches(store.lengths, limit, 3), token_batches(pairs, limit, 3)
    assert sorted(np.concatenate(ours).tolist()) == list(
        range(len(pairs))
    ), "each pair must come exactly once"
    shape = lambda batches: sorted(
        (len(b), max(max(map(len, pairs[i])) for i in b)) for b in batches
    )
    assert shape(ours) == shape(theirs), "batches are cut elsewhere than in chapter 12"
    again, other = (wmt.length_batches(store.lengths, limit, seed) for seed in (3, 4))
    assert all(map(np.array_equal, ours, again)) and not all(map(np.array_equal, ours, other))
    for batch in ours[:5]:
        for mine, chapter_12s in zip(wmt.gather(store, batch), collate([pairs[i] for i in batch])):
            assert torch.equal(mine, chapter_12s)


def test_each_epoch_has_batches_of_its_own(store):
    batches = wmt.StoreBatches(store, training.TrainingConfig(max_tokens=400), 9)
    first, again, second = batches.epoch(0), batches.epoch(0), batches.epoch(1)
    assert all(map(np.array_equal, first, again)) and not all(
        map(np.array_equal, first, second)
    ), "every epoch deals the same batches"


@pytest.mark.parametrize("make", [wmt.length_batches, wmt.static_batches])
def test_a_pair_that_is_too_wide_is_one_sentence(store, make):
    with pytest.raises(ValueError, match="raise max_tokens"):
        make(store.lengths, 10)


@pytest.mark.parametrize("parts", [1, 3, 8])
def test_few_shapes_and_the_same_loss(store, parts):
    """What a compiler sees: a few shapes, for the whole batch and for each part of it. What is
    learned: the same."""
    from helpers import small_model

    shapes, bites = set(), set()
    for batch in wmt.static_batches(store.lengths, 400, 1):
        shape = wmt.static_shape(store.lengths, batch, 400, parts)
        source, target = wmt.gather(store, batch, shape)
        assert source.shape == shape and target.shape == (shape[0], shape[1] + 1)
        assert (source != 0).any(1).all() and (target[:, :-1] != 0).any(
            1
        ).all(), "a row without a sign has nothing to attend to"
        assert (target[len(batch) :, 1:] == 0).all(), "rows that are filling must hold no label"
        shapes.add(shape)
        bites |= {len(rows) for rank in range(parts) for rows in [range(shape[0])[rank::parts]]}
    assert len(shapes) <= 64 and len(bites) <= len(
        shapes
    ), "each part of a batch must have one shape, too"
    found = {}
    for padded in False, True:
        model = small_model(vocab=len(store.tokens())).float()
        config = training.TrainingConfig(accumulate=parts)
        loss = training.backward(
            model, *wmt.gather(store, batch, shape if padded else None), config
        )
        found[padded] = loss, [w.grad for w in model.parameters()]
    assert math.isclose(found[True][0], found[False][0], rel_tol=1e-6), "filling changes the loss"
    assert all(
        torch.allclose(a, b, atol=1e-6) for a, b in zip(found[True][1], found[False][1])
    ), "filling changes the gradient"


def test_widths_and_shapes_by_hand():
    assert wmt.steady_width(np.array([5, 7, 8, 9, 30, 64, 65, 129])).tolist() == [
        6,
        8,
        8,
        10,
        30,
        64,
        68,
        136,
    ]
    assert wmt.static_shape(
        np.array([[5, 2], [3, 7], [30, 1]], np.uint16), np.array([0]), 100, parts=5
    ) == (20, 6)


def test_shapes_stay_few_for_a_large_corpus():
    lengths = (
        np.random.default_rng(0).geometric(1 / 28, (200_000, 2)).clip(2, 256).astype(np.uint16)
    )
    batches = wmt.static_batches(lengths, 25_000)
    assert max(map(len, batches)) <= 25_000 // 2
    assert sorted(np.concatenate(batches).tolist()) == list(
        range(len(lengths))
    ), "each pair must come exactly once"
    assert len({wmt.static_shape(lengths, b, 25_000, 4) for b in batches}) <= 64 < devices.GRAPHS
    assert all(len(b) * lengths[b].max() <= 25_000 for b in batches)


def test_few_places_are_pads():
    """Lengths like WMT's: the sides of a pair differ by about a tenth, and chapter 12's rule leaves
    5% of the places empty.

    What a step costs it costs for pads as well."""
    dice = np.random.default_rng(0)
    both = np.exp(dice.normal(3.25, 0.6, (1_000_000, 1)))
    lengths = (
        (both * np.exp(dice.normal(0, [0, 0.1], (1_000_000, 2)))).clip(2, 256).astype(np.uint16)
    )
    shapes = [
        wmt.static_shape(lengths, batch, 25_000) for batch in wmt.static_batches(lengths, 25_000)
    ]
    real = lengths.sum(dtype=int) / (2 * sum(rows * width for rows, width in shapes))
    assert real >= 0.93, f"only {real:.3f} of the places have a token"
    assert len(set(shapes)) <= 64


def test_a_run_that_compiles_trains_on_static_shapes(own, store, tmp_path, monkeypatch):
    short_answers(monkeypatch)
    seen = set()
    monkeypatch.setattr(
        training, "compiled", lambda f, *how: f
    )  # the compiler itself would take minutes
    e = experiment(own, steps=30)
    e = dataclasses.replace(e, training=dataclasses.replace(e.training, compile=True))
    step = Trainer.train_step
    monkeypatch.setattr(
        Trainer, "train_step", lambda run, s, t: seen.add(tuple(s.shape)) or step(run, s, t)
    )
    record = experiments.run_experiment(e, tmp_path / "run", own / "store")
    assert (
        len(seen) <= 64
        and record["tokens"] > 0
        and all(rows == max(1, 400 // width) for rows, width in seen)
    )


def test_a_compiled_run_has_a_graph_for_each_shape(store, monkeypatch):
    """And the loss that it has uncompiled. "dynamic" makes one graph from the second shape on, so
    its batches need no fixed shapes."""
    from helpers import small_model
    from torch._dynamo import lookup_backend

    from transformer_lit.runtime.devices import compiled

    graphs = []

    def counting(module, inputs):
        graphs.append(module)
        return lookup_backend("aot_eager")(module, inputs)

    torch._dynamo.reset()
    monkeypatch.setattr(
        training,
        "compiled",
        lambda f, dynamic: compiled(f, dynamic, counting) if f is training.last_states else f,
    )
    model = small_model(vocab=len(store.tokens())).float()
    config = training.TrainingConfig(max_tokens=400, compile=True)
    batches = wmt.StoreBatches(store, config, 1)
    by_shape = {}
    for batch in batches.epoch(0):
        by_shape.setdefault(batches.tensors(batch)[0].shape, []).append(batch)
    chosen = [batch for group in list(by_shape.values())[:3] for batch in group[:2]]
    for batch in chosen:
        loss = training.backward(model, *batches.tensors(batch), config)
        plain = training.backward(
            model, *batches.tensors(batch), dataclasses.replace(config, compile=False)
        )
        assert math.isclose(loss, plain, rel_tol=1e-5), "compiled, the loss is another"
    assert len(graphs) == 3, f"{len(graphs)} graphs for 3 shapes"
    free = wmt.StoreBatches(store, dataclasses.replace(config, compile="dynamic"), 1)
    assert all(
        map(np.array_equal, free.epoch(0), wmt.length_batches(store.lengths, 400, config.seed))
    )


def test_a_batch_comes_with_its_labels_counted(store):
    for compile in False, True:
        batches = wmt.StoreBatches(
            store, training.TrainingConfig(max_tokens=300, accumulate=4, compile=compile), 5
        )
        batch = batches.epoch(0)[0]
        source, target, labels = batches.make(batch, torch.device("cpu"))
        assert (
            labels == int(sum(len(store[int(i)][1]) - 1 for i in batch))
            and len(batches) == len(store)
            and batches.steps == 5
        )
        if compile:
            assert (
                tuple(source.shape) == wmt.static_shape(store.lengths, batch, 300, 4)
                and source.shape[0] % 4 == 0
            )
    other = wmt.StoreBatches(store, training.TrainingConfig(), 5)
    assert batches.digest() == other.digest(), "a hash of the data alone"


def test_the_hardest_batches(store):
    batches = wmt.StoreBatches(store, training.TrainingConfig(max_tokens=300), 1)
    widest, fullest = experiments.hardest(batches)
    cut = batches.epoch(0)
    assert len(widest[0]) * max(side.shape[1] for side in widest) ** 2 == max(
        len(b) * int(store.lengths[b].max()) ** 2 for b in cut
    )
    assert (
        sum(side.numel() for side in fullest)
        == max(len(b) * int(store.lengths[b].max(0).sum()) for b in cut)
        <= 600
    )
    assert {side.device.type for side in batches.make(cut[0], torch.device("meta"))[:2]} == {
        "meta"
    }, "to any device"
    model = torch.nn.Linear(1, 1)
    assert (
        experiments.fit_to_memory(model, batches, torch.device("cpu")) == batches.config
    ), "nothing is tried on a CPU"


def test_a_run_goes_with_the_folder_of_a_run_before(own, store, tmp_path, monkeypatch):
    """plan.json as it was written before there was one Trainer: the same names, checkpoints and
    step files."""
    short_answers(monkeypatch)
    e = experiment(own, steps=4)
    experiments.run_experiment(e, tmp_path / "run", own / "store")
    kept = json.loads((tmp_path / "run" / "config.json").read_text())
    assert set(kept) == {*dataclasses.asdict(e), "tokenizer", "shards"}
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {
        "config.json",
        "checkpoint.safetensors",
        "log.jsonl",
        "tokenizer.json",
        "translator.json",
        "model.safetensors",
        "run.json",
        "step-2.safetensors",
        "step-4.safetensors",
        "hypotheses-newstest2013.txt",
        "hypotheses-newstest2014.txt",
    }


def test_evaluate_and_the_run_cut_text_alike(own, store, tmp_path, monkeypatch):
    """A line of several sentences is parted as the saved translator parts it, in the looks, in the
    hypotheses and in `evaluate`."""
    asked = []
    monkeypatch.setattr(
        translation, "answers", lambda model, ids, *how: asked.append([len(i) for i in ids]) or ids
    )
    translator, _, _ = experiments.begin(
        experiment(own), store, tmp_path / "run", torch.device("cpu")
    )
    assert translator.limits == (256, 256)
    translation.save_pretrained(translator, tmp_path / "saved", "fp32")
    again = translation.Translator.from_pretrained(tmp_path / "saved")
    assert again.limits == translator.limits, "the saved translator parts lines elsewhere"
    long = [" ".join(e for e, _ in PAIRS[:9])]
    answers.translate_lines(translator, long, tmp_path / "said.txt")
    experiments.Looks(translator, experiment(own), [(long[0], "x")]).look()
    again.translate(long)
    assert (
        asked[0] == asked[1] == asked[2] and len(asked[0]) == 1
    ), "one line is cut in different ways"


# Training -----------------------------------------------------------------------------------------


def experiment(own, **changes):
    e = wmt.experiment_for(
        str(own / "mine-fr"),
        "ours",
        "tiny",
        400,
        dict(max_tokens=400, warmup=5, precision="fp32", checkpoint_every=3),
    )
    return dataclasses.replace(
        e,
        **{
            **dict(
                model=MODEL,
                sample=400,
                optimizer="adam",
                steps=12,
                look_every=5,
                lines=5,
                average=2,
                keep_every=2,
                peak=5e-3,
            ),
            **changes,
        },
    )


class Killed(Exception):
    pass


def losses(folder):
    found = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [(e["step"], e["kind"], e.get("loss", e.get("valid_loss"))) for e in found]


@pytest.fixture
def every_step(monkeypatch):
    monkeypatch.setattr(experiments, "LOG_EVERY", 1)


def short_answers(monkeypatch):
    "An untrained model says nothing sensible: a few tokens will do."
    monkeypatch.setattr(translation, "answers", lambda model, ids, *how: [i[:4] for i in ids])


def test_one_command_from_folder_to_scores(own, store, tmp_path, monkeypatch, capsys, every_step):
    short_answers(monkeypatch)
    folder = tmp_path / "run"
    monkeypatch.setattr(large_runs, "experiment_of", lambda options: experiment(own))
    given = [
        "--corpus",
        str(own / "mine-fr"),
        "--store",
        str(own / "store"),
        "--folder",
        str(folder),
        "--threads",
        "1",
    ]
    assert large_runs.run_command(given) == 0
    record = json.loads((folder / "run.json").read_text())
    assert {s["set"] for s in record["scores"]} == {"newstest2013", "newstest2014"}
    assert [s["metric"] for s in record["scores"]][:2] == ["BLEU", "chrF"]
    assert "BLEU, tokenised, compound-split" in {s["metric"] for s in record["scores"]}
    assert record["scores"][0]["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")
    assert record["steps"] == 12 and record["tokens"] > 0 and record["data"]["train"] == len(store)
    assert len((folder / "hypotheses-newstest2014.txt").read_text().splitlines()) == 30
    log = losses(folder)
    assert [step for step, kind, _ in log if kind == "look"] == [5, 10, 12]
    assert sorted(p.name for p in folder.glob("step-*")) == [
        "step-10.safetensors",
        "step-12.safetensors",
    ], "other weights than the last ones are averaged"
    held = [
        checkpoint.read_file(folder / f"step-{n}.safetensors", False)[0] for n in (10, 12)
    ]
    mean = checkpoint.read_file(folder / "model.safetensors", False)[0]
    for name, weight in mean.items():
        assert torch.allclose(
            weight, (held[0][name] + held[1][name]) / 2, atol=1e-6
        ), "the model is not the mean of the last ones"
    said = capsys.readouterr().out
    assert "newstest2014: BLEU" in said
    assert (
        large_runs.run_command(given) == 0 and losses(folder) == log
    ), "a finished run must stay as it is"


@pytest.mark.parametrize("served", ["de", "fr"], indirect=True)
def test_one_command_from_archives_to_bleu(served, tmp_path, monkeypatch, capsys):
    """tar.gz, a tar with gz inside, sgm: fetched from a server, prepared, trained, averaged,
    translated, scored."""
    short_answers(monkeypatch)
    words = (
        "--size tiny --vocabulary 400 --sample 500 --max-tokens 400 --steps 4 --keep-every 2"
        " --look-every 3 --lines 3 --precision fp32 --threads 1"
    )
    given = [
        "--corpus",
        f"wmt14-en-{served}",
        "--store",
        str(tmp_path / "store"),
        "--folder",
        str(tmp_path / "run"),
        *words.split(),
    ]
    assert large_runs.run_command(given) == 0, capsys.readouterr().err
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    metrics = {s["metric"]: s for s in record["scores"] if s["set"] == "newstest2014"}
    assert (
        metrics["BLEU"]["signature"].startswith("nrefs:1|case:mixed")
        and "BLEU, tokenised, compound-split" in metrics
    )
    assert {i["file"] for i in record["data"]["inputs"]} >= {
        "training-parallel-europarl-v7.tgz",
        "training-parallel-nc-v9.tgz",
    }
    assert str(tmp_path) not in json.dumps(record), "a path of one machine"
    assert record["recipe"]["model"].get("norm", "post") == "post" and record["steps"] == 4
    before = len(Statmt.asked)
    assert (
        large_runs.run_command(given) == 0 and len(Statmt.asked) == before
    ), "nothing is fetched a second time"


@pytest.mark.parametrize("stops", [[4], [1, 7, 10]])
def test_stopped_and_resumed_gives_the_same_losses(
    own, store, tmp_path, monkeypatch, every_step, stops
):
    "Killed after a step that no checkpoint holds: the steps since the last one are taken again."
    short_answers(monkeypatch)
    e = experiment(own, model={**MODEL, "dropout": 0.1})
    experiments.run_experiment(e, tmp_path / "whole", own / "store")
    take = Trainer.train_step
    for stop in stops:

        def taking(run, *batch):
            if run.step == stop:
                raise Killed
            return take(run, *batch)

        monkeypatch.setattr(Trainer, "train_step", taking)
        with pytest.raises(Killed):
            experiments.run_experiment(e, tmp_path / "cut", own / "store")
    monkeypatch.setattr(Trainer, "train_step", take)
    experiments.run_experiment(e, tmp_path / "cut", own / "store")
    assert losses(tmp_path / "cut") == losses(
        tmp_path / "whole"
    ), "a resumed run reaches other losses"
    held = [
        checkpoint.read_file(tmp_path / n / "model.safetensors", False)[0]
        for n in ("cut", "whole")
    ]
    assert all(torch.equal(held[0][name], held[1][name]) for name in held[0])


def test_segments_stop_in_time_and_chain(own, store, tmp_path, monkeypatch, capsys, every_step):
    short_answers(monkeypatch)
    e = experiment(own)
    experiments.run_experiment(e, tmp_path / "whole", own / "store")
    take = Trainer.train_step
    clock, taken = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def taking(run, *batch):
        found = take(run, *batch)
        taken.append(run.step)
        clock[0] += 60
        return found

    monkeypatch.setattr(Trainer, "train_step", taking)
    monkeypatch.setattr(large_runs, "experiment_of", lambda options: e)
    given = [
        "--corpus",
        str(own / "mine-fr"),
        "--store",
        str(own / "store"),
        "--folder",
        str(tmp_path / "chained"),
        "--minutes",
        "3.5",
        "--threads",
        "1",
    ]
    codes = []
    while not codes or codes[-1] == 75 and len(codes) < 9:
        codes.append(large_runs.run_command(given))
    assert codes == [
        75,
        75,
        75,
        0,
    ], f"a segment must go on where the one before it stopped: {codes}"
    assert losses(tmp_path / "chained") == losses(tmp_path / "whole")
    assert taken == list(
        range(1, 13)
    ), f"a segment must go on where the one before it stopped, no step is taken twice: {taken}"
    assert capsys.readouterr().out.count("goes on with the same command") == 3


def test_translating_stops_in_time_and_goes_on(own, store, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        translation, "answers", lambda model, ids, *how: asked.append((len(ids), how)) or ids
    )
    tokens = store.tokens()
    lines = [e for e, _ in PAIRS[:25]]
    translator = translation.Translator(torch.nn.Linear(1, 1), tokens, tokens, limits=(256, 256))
    path = tmp_path / "said.txt"
    clock = iter([0, 0, 9])
    monkeypatch.setattr(answers, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    assert (
        answers.translate_lines(translator, lines, path, until=5, size=10) is None
        and not path.exists()
    )
    monkeypatch.setattr(answers, "time", time)
    assert answers.translate_lines(translator, lines, path, size=10) == lines
    assert asked == [
        (n, (4, 64, "fp32")) for n in (10, 10, 5)
    ], "what was translated is not translated again"


def refusals(own, **changes):
    return dataclasses.replace(experiment(own), **changes)


def test_what_does_not_fit_a_run_is_one_sentence(own, store, tmp_path, monkeypatch):
    short_answers(monkeypatch)
    experiments.run_experiment(experiment(own, steps=2), tmp_path / "run", own / "store")
    with pytest.raises(ValueError, match="steps=2; now steps=4"):
        experiments.run_experiment(experiment(own, steps=4), tmp_path / "run", own / "store")
    prepare.prepare_store(settings(own, vocabulary=500), tmp_path / "other")
    with pytest.raises(ValueError) as caught:
        experiments.run_experiment(
            experiment(own, steps=2, size=500), tmp_path / "run", tmp_path / "other"
        )
    assert one_sentence(str(caught.value)) and "size=400; now size=500" in str(caught.value)
    assert "other tokenizer" in str(caught.value) and "another folder" in str(caught.value)


def test_a_checkpoint_of_another_vocabulary_or_cut_short(own, store, tmp_path, monkeypatch):
    short_answers(monkeypatch)
    e, folder = experiment(own, steps=4), tmp_path / "run"
    _, run, batches = experiments.begin(e, store, folder, torch.device("cpu"))
    run.fit(batches, until=2)
    path = folder / "checkpoint.safetensors"
    whole = path.read_bytes()
    other = tmp_path / "other"
    bigger = prepare.prepare_store(settings(own, vocabulary=500), tmp_path / "store500")
    _, run, batches = experiments.begin(
        dataclasses.replace(e, size=500), bigger, other, torch.device("cpu")
    )
    (other / path.name).write_bytes(whole)
    with pytest.raises(ValueError, match="a model of another shape"):
        run.fit(batches)
    path.write_bytes(whole[:-100])
    with pytest.raises(ValueError) as caught:
        experiments.run_experiment(e, folder, own / "store")
    assert one_sentence(str(caught.value)) and "no whole checkpoint" in str(caught.value)


def before_step(patch, step, act):
    "The training does `act` before it takes the batch after that step."
    take = Trainer.train_step

    def taking(run, *batch):
        if run.step == step:
            act(run)
        return take(run, *batch)

    patch.setattr(Trainer, "train_step", taking)


def test_nan_leaves_a_state_to_resume_from(own, store, tmp_path, monkeypatch, capsys, every_step):
    short_answers(monkeypatch)
    e = experiment(own)
    experiments.run_experiment(e, tmp_path / "whole", own / "store")

    def poisoned(run):
        next(run.model.parameters()).data.fill_(math.nan)

    with monkeypatch.context() as patch:
        before_step(patch, 7, poisoned)
        with pytest.raises(ValueError) as caught:
            experiments.run_experiment(e, tmp_path / "ill", own / "store")
    assert one_sentence(str(caught.value)) and "nan" in str(caught.value)
    experiments.run_experiment(e, tmp_path / "ill", own / "store")
    assert losses(tmp_path / "ill") == losses(tmp_path / "whole")


def test_a_lost_checkpoint_and_the_one_before(own, store, tmp_path, monkeypatch, every_step):
    """Cut short by a drive that lost its connection: one sentence, and after its advice the run
    goes on from the one before."""
    short_answers(monkeypatch)
    e = experiment(own)
    experiments.run_experiment(e, tmp_path / "whole", own / "store")

    def stop(run):
        raise Killed

    with monkeypatch.context() as patch:
        before_step(patch, 8, stop)
        with pytest.raises(Killed):
            experiments.run_experiment(e, tmp_path / "cut", own / "store")
    path = tmp_path / "cut" / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(ValueError) as caught:
        experiments.run_experiment(e, tmp_path / "cut", own / "store")
    assert (
        one_sentence(str(caught.value))
        and "no whole checkpoint" in str(caught.value)
        and "put a whole one in its place" in str(caught.value)
    )
    path.unlink()
    steps, take = [], Trainer.train_step
    monkeypatch.setattr(
        Trainer, "train_step", lambda run, *batch: (steps.append(run.step), take(run, *batch))[1]
    )
    experiments.run_experiment(e, tmp_path / "cut", own / "store")
    assert (
        0 < steps[0] < 6
    ), f"the run must go on from the checkpoint before the last, and begins at {steps[0]}"
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")


@pytest.mark.parametrize("where", ["checkpoint", "log"])
def test_a_full_disk_in_a_run_is_one_sentence(
    own, store, tmp_path, monkeypatch, capsys, every_step, where
):
    short_answers(monkeypatch)
    e = experiment(own)
    experiments.run_experiment(e, tmp_path / "whole", own / "store")
    monkeypatch.setattr(large_runs, "experiment_of", lambda options: e)
    given = [
        "--corpus",
        str(own / "mine-fr"),
        "--store",
        str(own / "store"),
        "--folder",
        str(tmp_path / "full"),
        "--threads",
        "1",
    ]
    full = OSError(errno.ENOSPC, "No space left on device")
    note, keep = Trainer.note, checkpoint.save_file
    asked = []

    def noting(run, **entry):
        if run.step == 7:
            raise full
        note(run, **entry)

    def keeping(*given):
        asked.append(given)
        if len(asked) == 3:
            raise full
        keep(*given)

    with monkeypatch.context() as patch:
        if where == "log":
            patch.setattr(Trainer, "note", noting)
        else:
            patch.setattr(checkpoint, "save_file", keeping)
        assert large_runs.run_command(given) == 1
    said = capsys.readouterr().err
    assert one_sentence(said) and (
        "the disk is full" in said or "can't be written, the old one stands" in said
    ), said
    assert large_runs.run_command(given) == 0 and losses(tmp_path / "full") == losses(
        tmp_path / "whole"
    )


def test_a_torn_line_of_translations_is_said_again(own, store, tmp_path, monkeypatch):
    monkeypatch.setattr(translation, "answers", lambda model, ids, *how: ids)
    translator, lines = translation.Translator(
        torch.nn.Linear(1, 1), store.tokens(), store.tokens(), limits=(256, 256)
    ), [e for e, _ in PAIRS[:6]]
    (tmp_path / "said.txt.part").write_bytes(text(lines[:2]) + "Déj".encode()[:-2])
    assert (
        answers.translate_lines(translator, lines, tmp_path / "said.txt", size=3) == lines
    ), "half a line was gone on with"
    assert (tmp_path / "said.txt").read_text("utf-8").splitlines() == lines


def joined(rank, world, own, folder, changes):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), TRANSFORMER_LIT_DATA=str(own))
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}.meeting", rank=rank, world_size=world
    )
    experiments.LOG_EVERY = 1
    translation.answers = lambda model, ids, *how: [i[:4] for i in ids]
    experiments.run_experiment(experiment(own, **changes), folder, own / "store")
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_reach_the_losses_of_one(own, store, tmp_path, monkeypatch, every_step):
    import torch.multiprocessing as mp

    short_answers(monkeypatch)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", LOOPBACK)
    experiments.run_experiment(experiment(own), tmp_path / "one", own / "store")
    mp.start_processes(joined, (2, own, tmp_path / "two", {}), nprocs=2, start_method="spawn")
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert [x[:2] for x in one] == [x[:2] for x in two]
    assert (
        max(abs(a[2] - b[2]) for a, b in zip(one, two)) < 1e-4
    ), "two processes reach other losses than one"
    assert json.loads((tmp_path / "two" / "run.json").read_text())["processes"] == 2


ROOT = Path(__file__).resolve().parent.parent
TORCHRUN = [
    sys.executable,
    "-m",
    "torch.distributed.run",
    "--standalone",
    "--nproc-per-node",
    "2",
    "--monitor-interval",
    "0.2",
]
WAITING = """# The command, which waits at a step until it is killed.
import signal, sys, time
from transformer_lit.recipes import large_runs
from transformer_lit.training import Trainer, process
step, take = int(sys.argv.pop(1)), Trainer.train_step
def taking(run, *made):
    if run.step == step:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if not process()[0]:
            (run.folder / "waiting").touch()
        time.sleep(600)
    return take(run, *made)
Trainer.train_step = taking
sys.exit(large_runs.run_command())
"""


def typed(own, folder):
    """The options of a run that is small on any machine; without dropout, whose dice each process
    throws for itself."""
    words = (
        "--way ours --size tiny --vocabulary 400 --sample 400 --dropout 0 --max-tokens 500 --warmup"
        " 4 --steps 20 --look-every 4 --lines 2 --checkpoint-every 3 --precision fp32 --peak 1e-3"
        " --threads 1"
    )
    return [
        "-m",
        "transformer_lit.wmt",
        "--corpus",
        str(own / "mine-fr"),
        "--store",
        str(own / "store"),
        "--folder",
        str(folder),
        *words.split(),
    ]


def started(command, own):
    kept = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    return subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=kept
        | dict(
            PYTHONPATH=str(ROOT),
            OMP_NUM_THREADS="1",
            TRANSFORMER_LIT_DATA=str(own),
            GLOO_SOCKET_IFNAME=LOOPBACK,
        ),
    )


def killed_at(command, own, folder):
    "SIGKILL for one worker, once all of them wait for it at a step; waits for the end."
    done = started(command, own)
    for _ in range(4800):
        if done.poll() is not None or (folder / "waiting").exists():
            break
        time.sleep(0.05)
    assert done.poll() is None, f"it ended before it could be killed: {done.stderr.read()[-800:]}"
    workers = (
        Path(f"/proc/{done.pid}/task/{done.pid}/children").read_text().split()
        if "torch.distributed.run" in command
        else []
    )
    os.kill(int(workers[-1]) if workers else done.pid, signal.SIGKILL)
    said = done.communicate(timeout=120)[1]
    assert done.returncode != 0, said


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds a worker in /proc")
def test_killed_at_a_random_step_and_resumed(own, store, tmp_path):
    """With a real SIGKILL, from the command line, alone and under torchrun; two processes reach the
    losses of one."""
    whole, waiting = tmp_path / "whole", tmp_path / "waiting.py"
    waiting.write_text(WAITING)
    first = started([sys.executable, *typed(own, whole)], own)
    assert first.wait(240) == 0, first.stderr.read()[-800:]
    for processes, command in (1, [sys.executable]), (2, TORCHRUN):
        cut = tmp_path / f"cut by {processes}"
        lines = random.SystemRandom().randrange(2, 20)
        killed_at([*command, str(waiting), str(lines), *typed(own, cut)[2:]], own, cut)
        (cut / "waiting").unlink()
        assert not (cut / "run.json").exists()
        again = started([*command, *typed(own, cut)], own)
        assert again.wait(240) == 0, again.stderr.read()[-800:]
        one, other, said = (
            losses(whole),
            losses(cut),
            f"{processes} processes, killed at step {lines}",
        )
        assert [x[:2] for x in one] == [x[:2] for x in other] and len(
            one
        ) == 7, f"{said}: another log"
        gap = max(abs(a[2] - b[2]) for a, b in zip(one, other))
        assert gap < (1e-12 if processes == 1 else 1e-4), f"{said}: the losses differ by {gap}"
        assert json.loads((cut / "run.json").read_text())["processes"] == processes


# Looks and scores ---------------------------------------------------------------------------------


def test_a_look_measures_what_chapter_12_measures(own, store, tmp_path, monkeypatch):
    short_answers(monkeypatch)
    e, held = experiment(own, lines=3), store.held_out()["valid"][:8]
    translator, _, _ = experiments.begin(e, store, tmp_path / "run", torch.device("cpu"))
    found = experiments.Looks(translator, e, held).look()
    assert found["valid_loss"] == training.validation_loss(
        translator.model, translator.encode_pairs(held), e.training.max_tokens
    )
    assert found["lines"] == 3 and found["signature"].startswith("nrefs:1|")
    wide = dataclasses.replace(e, training=dataclasses.replace(e.training, max_tokens=64))
    assert (
        experiments.Looks(translator, wide, [("word " * 80, "mot " * 80)]).look()["valid_loss"] > 0
    ), "what is held out isn't cut"


def test_some_lines_evenly_and_the_kept_steps():
    assert (
        take_evenly(range(10), 3) == [0, 3, 6] and take_evenly([1, 2], 5) == [1, 2] and take_evenly([1], 0) == []
    )
    assert wmt.kept_steps(wmt.Experiment()) == [100_000, 98_600, 97_200, 95_800, 94_400]
    assert wmt.kept_steps(wmt.Experiment(steps=3000)) == [3000, 1600, 200]


def test_scores_have_an_interval_and_every_ruler():
    others = [other for _, other in PAIRS[:40]]
    found = {
        score["metric"]: score
        for score in experiments.all_scores("made-up", ["Le " + other for other in others], others)
    }
    assert (
        found["BLEU"]["low"] < found["BLEU"]["value"] < found["BLEU"]["high"]
        and found["chrF"]["set"] == "made-up"
    )
    assert "BLEU, tokenised, compound-split" in found


# Plans --------------------------------------------------------------------------------------------


def test_the_papers_recipe_is_the_papers():
    e = wmt.experiment_for()
    assert (e.corpus, e.size, e.steps, e.average, e.rate, e.optimizer) == (
        "wmt14-en-de",
        37_000,
        100_000,
        5,
        "noam",
        "adam",
    )
    t = e.training
    assert (t.max_tokens, t.warmup, t.smoothing, t.clip, t.factor) == (25_000, 4_000, 0.1, 0.0, 1.0)
    m = e.model
    assert [
        m[k]
        for k in (
            "d_model",
            "d_ff",
            "n_heads",
            "n_encoder_layers",
            "n_decoder_layers",
            "dropout",
            "norm",
        )
    ] == [512, 2048, 8, 6, 6, 0.1, "post"]
    assert (
        wmt.experiment_for("wmt14-en-fr").size == 32_000
        and wmt.experiment_for("wmt14-en-fr").language == "fr"
    )
    assert wmt.experiment_for(way="ours").model["norm"] == "pre"
