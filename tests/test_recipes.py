"""`recipes.recipes`: what is trained, on which device, stopped and resumed, averaged, scored and
recorded."""

import dataclasses
import json
import zipfile
from dataclasses import replace

import pytest
import torch
from translators import PAIRS, PARTS, joint, recipe

from transformer_lit.data import load_corpus, overlap_rate
from transformer_lit.recipes import recipes
from transformer_lit.runs import records
from transformer_lit.corpora.files import sha256_file
from transformer_lit.runtime.optimizers import MuonAndAdam
from transformer_lit.recipes.recipes import (
    build_trainer,
    build_translator,
    describe,
    evaluate_and_record,
    scored,
    train_translator,
)
from transformer_lit.runs.checkpoints import model_tensors, read_file
from transformer_lit.schedule import linear_lr
from transformer_lit.batching import token_batches
from transformer_lit.training import validation_loss
from transformer_lit.translation import Translator


def test_the_rate_rises_and_falls_and_never_below_zero():
    assert [round(linear_lr(s, 1000, 1.0, 100), 9) for s in (1, 100, 550, 1000)] == [
        round(r, 9) for r in (0.01, 1.0, 451 / 901, 1 / 901)
    ]
    assert linear_lr(1001, 1000, 1.0, 100) == 0 == linear_lr(1002, 1000, 1.0, 100)
    assert linear_lr(3, 3, 1.0, 6) == 0.5, "too short a run only rises"
    assert (
        linear_lr(1, 1, 1.0, 1) == 1 == linear_lr(5, 5, 1.0, 5)
    ), "the peak is the last step"


# Data ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    "An archive in the layout of the real one, of numbered sentences and one that is long."
    path = tmp_path_factory.mktemp("corpora") / "tatoeba" / "fra-eng.zip"
    path.parent.mkdir()
    lines = [f"See {i % 50} of {i}.\tVoir {i} de {i % 50}." for i in range(4200)] + [
        "w " * 15 + "\tfifteen words"
    ]
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("fra.txt", "\n".join(lines))
    return path


def test_parts_are_drawn_alike_and_bounded_by_words(archive, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", str(archive.parents[1]))
    tiny, whole, again = (
        load_corpus("tatoeba", max_words=15, max_pairs=n) for n in (150, None, 150)
    )
    assert {name: len(part) for name, part in tiny.items()} == {
        "test": 2000,
        "valid": 2000,
        "train": 150,
    }
    assert len(whole["train"]) == 200 and again == tiny
    assert sum(map(len, load_corpus("tatoeba").values())) == 4201, "no bound on words"


def test_the_pocket_corpus_is_loaded_alike():
    pocket = load_corpus("pocket")
    assert set(pocket) >= {"train", "valid", "test"}
    assert not {english for english, _ in pocket["train"]} & {
        english for english, _ in pocket["test"]
    }


# Training -----------------------------------------------------------------------------------------


def test_a_translator_begins_as_its_recipe_says(tmp_path):
    r = recipe()
    begun = build_translator(r, PAIRS, tmp_path)
    (tmp_path / "kept").mkdir()
    begun.source_tokenizer.save(tmp_path / "kept" / "tokenizer.json")
    again = build_translator(r, PAIRS[:3], tmp_path / "kept")
    assert len(again.source_tokenizer) == len(
        begun.source_tokenizer
    ), "tokens that were kept are taken again"
    assert all(
        torch.equal(a, b) for a, b in zip(begun.model.parameters(), again.model.parameters())
    ), "the seed decides"
    worded = build_translator(
        recipe(tokens="words", min_frequency=1), PAIRS, tmp_path / "words"
    )
    assert (
        (worded.model.decoder.norm.weight == 1).all()
        and "vois" in worded.target_tokenizer.tokens
        and "see" in map(str.lower, worded.source_tokenizer.tokens)
    )
    assert not (tmp_path / "words").exists(), "nothing is written"


def test_a_training_is_prepared_as_its_recipe_says(tmp_path):
    translator = joint()
    r = recipe(peak_lr=1e-3)
    made, batches = build_trainer(translator, PAIRS + [("e " * 200, "e")], r, tmp_path)
    assert len(batches.pairs) == len(PAIRS), "pairs over 128 tokens are left out"
    last = 3 * len(token_batches(batches.pairs, 64))
    assert made.lr_schedule(1) == 1e-3 / 400
    assert made.lr_schedule(last) > 0 == made.lr_schedule(last + 1)
    assert type(made.optimizer) is torch.optim.Adam
    assert (
        type(
            build_trainer(translator, PAIRS, replace(r, optimizer="muon"), tmp_path)[0].optimizer
        )
        is MuonAndAdam
    )
    with pytest.raises(ValueError, match="no pairs to train on"):
        build_trainer(translator, [], r, tmp_path)


def test_a_run_notes_what_it_sees_after_each_epoch(tmp_path):
    samples = PARTS["train"][0][0], PARTS["test"][0][0]
    translator, run = train_translator(tmp_path, recipe(), PARTS, samples)
    ends = [entry for entry in run.log if entry["kind"] == "eval"]
    assert len(ends) == run.epoch == 3
    assert ends[-1]["valid_loss"] == pytest.approx(
        validation_loss(translator.model, translator.encode_pairs(PARTS["valid"])), rel=1e-5
    )
    assert ends[-1]["samples"] == dict(zip(samples, translator.translate(list(samples))))
    assert run.log[0]["lr"] == pytest.approx(0.02 / 400)
    again, resumed = train_translator(tmp_path, recipe(), PARTS, samples)
    assert resumed.log == run.log, "a finished run is not trained again"
    assert Translator.load(tmp_path).translate(["I see a cats."]) == translator.translate(
        ["I see a cats."]
    )


def test_the_corpus_is_the_recipes_where_no_parts_are_given(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(recipes, "load_corpus", lambda *how: asked.append(how) or PARTS)
    train_translator(tmp_path, recipe(pairs=7, language="de"), None, [], 1)
    assert asked == [("tatoeba", "de", None, 7)]


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("tokens", ["words", "subwords"])
def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(optimizer, tokens, tmp_path):
    r = recipe(optimizer=optimizer, tokens=tokens, min_frequency=1)
    through, straight = train_translator(tmp_path / "a", r, PARTS, ["I see a cats."])
    for stop in 2, 5, None:
        torch.manual_seed(stop or 0)
        resumed, run = train_translator(tmp_path / "b", r, PARTS, ["I see a cats."], stop)
    assert [e.get("loss") for e in run.log] == [e.get("loss") for e in straight.log], (
        "a resumed run must go on with the very losses: does the rate reach the optimizer's groups"
        " after loading?"
    )
    assert all(
        torch.equal(a, b) for a, b in zip(through.model.parameters(), resumed.model.parameters())
    )


def test_a_gpu_trains_where_there_is_one(tmp_path, monkeypatch):
    "`train --recipe tatoeba-fr` stayed on the processor of a machine with a GPU."
    moved = []

    class Card:  # stands for the GPU where there is none: the processor, under another name
        type = "cuda"

    monkeypatch.setattr(recipes, "default_device", Card)
    monkeypatch.setattr(
        torch.nn.Module, "to", lambda model, device: moved.append((model, device)) or model
    )
    kept = recipes.build_trainer
    monkeypatch.setattr(
        recipes, "build_trainer", lambda *how: moved.append("prepared") or kept(*how)
    )
    translator, _ = train_translator(tmp_path, recipe(), PARTS, [], 1)
    assert [
        what if isinstance(what, str) else (what[0] is translator.model, what[1].type)
        for what in moved[:2]
    ] == [
        (True, "cuda"),
        "prepared",
    ], "the weights move to the GPU, before the optimizer holds them"


def test_without_a_gpu_the_recipe_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    translator, run = train_translator(tmp_path, recipe(), PARTS, [], 1)
    assert (
        run.config.precision == "fp32" and next(translator.model.parameters()).device.type == "cpu"
    )


def test_the_mean_of_the_last_ends_is_kept(tmp_path):
    translator, run = train_translator(tmp_path, recipe(n_averaged=2), PARTS, [])
    last = read_file(tmp_path / "epoch-3.safetensors", False)[0]
    before = read_file(tmp_path / "epoch-2.safetensors", False)[0]
    for name, weight in model_tensors(Translator.load(tmp_path).model).items():
        torch.testing.assert_close(weight, (last[name] + before[name]) / 2)

    assert not (tmp_path / "epoch-1.safetensors").exists()
    plain = train_translator(tmp_path / "plain", recipe(), PARTS, [])[1]
    assert [e.get("loss") for e in run.log] == [
        e.get("loss") for e in plain.log
    ], "the run itself is the same"


# Scores and records -------------------------------------------------------------------------------


def test_scores_with_the_first_reference_and_with_all():
    wanted = [french for _, french in PAIRS]
    rows = scored(wanted, [["x", text] for text in wanted], "toy")
    first, both = (
        [row for row in rows if row["references"] == which] for which in ("first", "all")
    )
    assert first[0]["value"] < 10 and both[0]["value"] > 99.9 and len(first) == len(both)
    assert (
        rows[0]["set"] == "toy"
        and rows[0]["metric"] == "BLEU"
        and "tok:13a" in rows[0]["signature"]
    )


def test_a_corpus_is_described_with_what_it_leaks(tmp_path, monkeypatch):
    file = tmp_path / "archive"
    file.write_bytes(b"pairs")
    monkeypatch.setattr(recipes, "tatoeba_archive", lambda language: file)
    told = describe(PARTS, recipe())
    assert (
        told["name"],
        told["sha256"],
        told["pairs"],
        told["train"],
        told["distinct_english"],
    ) == ("tatoeba", sha256_file(file), 18, 12, 18)
    assert (
        told["leak_by_sentence"] == 0 == told["leak_by_pair"]
        and describe(PARTS, recipe(corpus="pocket"))["name"] == "pocket"
    )
    twice = [(str(i // 2), str(i)) for i in range(80)]
    dealt = {"train": twice[:50], "valid": [], "test": twice[49:]}
    mixed = torch.randperm(81, generator=torch.Generator().manual_seed(1)).tolist()
    mixed = [(dealt["test"] + dealt["train"])[i] for i in mixed]
    told = describe(dealt, recipe())
    assert told["leak_by_pair"] == overlap_rate(mixed[31:], mixed[:31]) and (
        told["distinct_english"],
        told["pairs"],
    ) == (40, 81)
    assert told["leak_by_sentence"] == 1 / 31 < told["leak_by_pair"]


def test_a_finished_run_is_scored_and_recorded(tmp_path, monkeypatch):
    file = tmp_path / "archive"
    file.write_bytes(b"pairs")
    monkeypatch.setattr(recipes, "tatoeba_archive", lambda language: file)
    parts = {**PARTS, "test": PARTS["test"] * 2}
    translator, run = train_translator(tmp_path, recipe(), parts, ["I SEE A CATS", "unseen"])
    record = evaluate_and_record(tmp_path, "né", recipe(), translator, run, parts)
    text = (tmp_path / "run.json").read_text("utf-8")
    assert record == json.loads(text) and text.startswith('{\n "command": "né",\n "commit": ')
    said = (tmp_path / "hypotheses.txt").read_text("utf-8").splitlines()
    assert said == translator.translate(
        [english for english, _ in PARTS["test"]], precision="fp32"
    ), "a line for each distinct sentence"
    assert record["seen"] == {"I SEE A CATS": True, "unseen": False}
    assert record["data"] == describe(parts, recipe()) and record["data"]["leak_by_sentence"] == 0
    assert (record["seed"], record["commit"], record["recipe"]) == (
        1,
        records.git_commit(),
        dataclasses.asdict(recipe()),
    )
    assert records.effort(translator.model, run).items() <= record.items()
    assert record["scores"][0] == {
        "set": "tatoeba-valid",
        "metric": "cross-entropy, nats a token",
        "value": run.log[-1]["valid_loss"],
    }
    assert {s.get("references") for s in record["scores"]} == {None, "first", "all"}
    assert all(
        "signature" in s for s in record["scores"][1:]
    ), "a score without its signature can't be compared"
