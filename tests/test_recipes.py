"""`recipes.recipes`: what is trained, on which device, stopped and resumed, averaged, scored and
recorded."""

import dataclasses
import json
import zipfile
from dataclasses import replace

import pytest
import torch
from translators import PAIRS, PARTS, joint, recipe

from transformer_lit.data import load, shared_english
from transformer_lit.model import TransformerConfig
from transformer_lit.recipes import recipes
from transformer_lit.runs import records
from transformer_lit.corpora.files import sha256_file
from transformer_lit.runtime.optimizers import MuonAndAdam
from transformer_lit.runtime.devices import resolve_precision
from transformer_lit.recipes.recipes import (
    RECIPES,
    Recipe,
    accepted,
    begin_translator,
    describe,
    prepare_training,
    rise_and_fall,
    score_and_record,
    scored,
    train_translator,
    vocabulary_costs,
)
from transformer_lit.runs.checkpoints import model_tensors, read_file
from transformer_lit.training import TrainingConfig, token_batches, validation_loss
from transformer_lit.translation import from_pretrained


def test_the_rate_rises_and_falls_and_never_below_zero():
    assert [round(rise_and_fall(s, 1000, 1.0, 100), 9) for s in (1, 100, 550, 1000)] == [
        round(r, 9) for r in (0.01, 1.0, 451 / 901, 1 / 901)
    ]
    assert rise_and_fall(1001, 1000, 1.0, 100) == 0 == rise_and_fall(1002, 1000, 1.0, 100)
    assert rise_and_fall(3, 3, 1.0, 6) == 0.5, "too short a run only rises"
    assert (
        rise_and_fall(1, 1, 1.0, 1) == 1 == rise_and_fall(5, 5, 1.0, 5)
    ), "the peak is the last step"
    assert rise_and_fall.__defaults__ == (1e-3, 400)


def test_the_recipe_that_ships_is_the_one_that_ran():
    r = RECIPES["tatoeba-fr"]
    assert r.training == TrainingConfig(8, 2048, 400, 1.0, 0.1, 1.0, 1, resolve_precision(), 1, 500)
    assert (r.peak, r.optimizer, r.gain, r.pairs, r.words, r.size) == (
        4e-3,
        "muon",
        1.0,
        None,
        None,
        8000,
    )
    assert dataclasses.replace(r, language="de") == RECIPES["tatoeba-de"]


def test_the_other_recipes_are_as_they_were():
    r = RECIPES["words"]
    assert (
        r.training
        == recipes.FIRST
        == TrainingConfig(epochs=5, max_tokens=1024, precision=resolve_precision())
    )
    assert [*recipes.SMALL.values()] == [256, 4, 512, 3, 3], "D, H, FF, N, N"
    assert r == Recipe(
        pairs=50_000, words=15, tokens="words", model=recipes.SMALL, training=recipes.FIRST
    )
    assert Recipe() == Recipe(
        "tatoeba",
        "fr",
        None,
        None,
        "subwords",
        8000,
        2,
        {},
        TrainingConfig(),
        1e-3,
        "adam",
        None,
        0,
    )
    assert TransformerConfig.small(8000, norm="pre") == TransformerConfig(
        8000, **RECIPES["tatoeba-fr"].model
    )
    r = RECIPES["pocket"]
    assert (r.corpus, r.tokens, r.at_least, r.model["d_model"], r.optimizer) == (
        "pocket",
        "words",
        1,
        128,
        "muon",
    )


def test_a_final_mark_is_no_mistake():
    assert accepted("I love you.", "Je t'aime !") and accepted("I love you.", "Je t'aime.")
    assert not accepted("I love you.", "Je t'aime bien.") and len(recipes.SAMPLES) == 12


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
    tiny, whole, again = (load("tatoeba", words=15, pairs=n) for n in (150, None, 150))
    assert {name: len(part) for name, part in tiny.items()} == {
        "test": 2000,
        "valid": 2000,
        "train": 150,
    }
    assert len(whole["train"]) == 200 and again == tiny
    assert sum(map(len, load("tatoeba").values())) == 4201, "no bound on words"


def test_the_pocket_corpus_is_loaded_alike():
    pocket = load("pocket")
    assert set(pocket) >= {"train", "valid", "test"}
    assert not {english for english, _ in pocket["train"]} & {
        english for english, _ in pocket["test"]
    }


# Training -----------------------------------------------------------------------------------------


def test_a_translator_begins_as_its_recipe_says(tmp_path):
    r = recipe(gain=0.5)
    begun = begin_translator(r, PAIRS, tmp_path)
    assert (begun.model.decoder.norm.weight == 0.5).all()
    again = begin_translator(r, PAIRS[:3], tmp_path)
    assert len(again.source) == len(begun.source), "tokens that were kept are taken again"
    assert all(
        torch.equal(a, b) for a, b in zip(begun.model.parameters(), again.model.parameters())
    ), "the seed decides"
    worded = begin_translator(
        recipe(tokens="words", at_least=1, gain=None), PAIRS, tmp_path / "words"
    )
    assert (
        (worded.model.decoder.norm.weight == 8**-0.5).all()
        and "vois" in worded.target.words
        and "see" in map(str.lower, worded.source.words)
    )
    begin_translator(r, PAIRS, tmp_path / "not", keep=False)
    assert not (tmp_path / "not").exists()


def test_a_training_is_prepared_as_its_recipe_says(tmp_path):
    translator = joint()
    r = recipe(peak=1e-3)
    made, batches = prepare_training(translator, PAIRS + [("e " * 200, "e")], r, tmp_path)
    assert len(batches) == len(PAIRS), "pairs over 128 tokens are left out"
    last = 3 * len(token_batches(batches.pairs, 64))
    assert made.schedule(1) == 1e-3 / 400 and made.schedule(last) > 0 == made.schedule(last + 1)
    assert type(made.optimizer) is torch.optim.Adam
    assert (
        type(
            prepare_training(translator, PAIRS, replace(r, optimizer="muon"), tmp_path)[0].optimizer
        )
        is MuonAndAdam
    )
    with pytest.raises(ValueError, match="no pairs to train on"):
        prepare_training(translator, [], r, tmp_path)


def test_a_run_notes_what_it_sees_after_each_epoch(tmp_path):
    samples = PARTS["train"][0][0], PARTS["test"][0][0]
    translator, run = train_translator(tmp_path, recipe(), PARTS, samples)
    ends = [entry for entry in run.log if entry["kind"] == "epoch"]
    assert len(ends) == run.epoch == 3
    assert ends[-1]["valid_loss"] == pytest.approx(
        validation_loss(translator.model, translator.encode_pairs(PARTS["valid"])), rel=1e-5
    )
    assert ends[-1]["samples"] == dict(zip(samples, translator.translate(list(samples))))
    assert run.log[0]["lr"] == pytest.approx(0.02 / 400)
    again, resumed = train_translator(tmp_path, recipe(), PARTS, samples)
    assert resumed.log == run.log, "a finished run is not trained again"
    assert from_pretrained(tmp_path).translate(["I see a cats."]) == translator.translate(
        ["I see a cats."]
    )


def test_the_corpus_is_the_recipes_where_no_parts_are_given(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(recipes, "load", lambda *how: asked.append(how) or PARTS)
    train_translator(tmp_path, recipe(pairs=7, language="de"), None, [], 1)
    assert asked == [("tatoeba", "de", None, 7)]


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("tokens", ["words", "subwords"])
def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(optimizer, tokens, tmp_path):
    r = recipe(optimizer=optimizer, tokens=tokens, at_least=1)
    through, straight = train_translator(tmp_path / "a", r, PARTS, ["I see a cats."])
    for stop in 2, 5, None:
        torch.manual_seed(stop or 0)
        resumed, run = train_translator(tmp_path / "b", r, PARTS, ["I see a cats."], stop)
    assert [e.get("loss") for e in run.log] == [e.get("loss") for e in straight.log], (
        "a resumed run must go on with the very losses: does the rate reach the optimiser's groups"
        " after loading?"
    )
    assert all(
        torch.equal(a, b) for a, b in zip(through.model.parameters(), resumed.model.parameters())
    )


def test_a_gpu_trains_where_there_is_one(tmp_path, monkeypatch):
    "`train --recipe tatoeba-fr` stayed on the processor of a machine with a GPU."
    moved, asked = [], []

    class Card:  # stands for the GPU where there is none: the processor, under another name
        type = "cuda"

    monkeypatch.setattr(recipes, "default_device", Card)
    monkeypatch.setattr(
        recipes, "resolve_precision", lambda _, device="cpu": asked.append(device) or "bf16"
    )
    monkeypatch.setattr(
        torch.nn.Module, "to", lambda model, device: moved.append((model, device)) or model
    )
    kept = recipes.prepare_training
    monkeypatch.setattr(
        recipes, "prepare_training", lambda *how: moved.append("prepared") or kept(*how)
    )
    translator, run = train_translator(tmp_path, recipe(), PARTS, [], 1)
    assert [
        what if isinstance(what, str) else (what[0] is translator.model, what[1].type)
        for what in moved[:2]
    ] == [
        (True, "cuda"),
        "prepared",
    ], "the weights move to the GPU, before the optimiser takes hold of them"
    assert (
        asked == ["cuda"] and run.config.precision == "bf16"
    ), "in the numbers that the GPU is good at"


def test_without_a_gpu_the_recipe_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    translator, run = train_translator(tmp_path, recipe(), PARTS, [], 1)
    assert (
        run.config.precision == "fp32" and next(translator.model.parameters()).device.type == "cpu"
    )


def test_the_mean_of_the_last_ends_is_kept(tmp_path):
    translator, run = train_translator(tmp_path, recipe(average=2), PARTS, [])
    last = read_file(tmp_path / "epoch-3.safetensors", False)[0]
    before = read_file(tmp_path / "epoch-2.safetensors", False)[0]
    for name, weight in model_tensors(from_pretrained(tmp_path).model).items():
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


def test_a_corpus_is_described_with_what_it_leaks(tmp_path):
    file = tmp_path / "archive"
    file.write_bytes(b"pairs")
    told = describe(PARTS, file)
    assert (
        told["name"],
        told["sha256"],
        told["pairs"],
        told["train"],
        told["distinct_english"],
    ) == ("tatoeba", sha256_file(file), 18, 12, 18)
    assert (
        told["leak_by_sentence"] == 0 == told["leak_by_pair"]
        and describe(PARTS, file, "pocket")["name"] == "pocket"
    )
    twice = [(str(i // 2), str(i)) for i in range(80)]
    dealt = {"train": twice[:50], "valid": [], "test": twice[49:]}
    mixed = torch.randperm(81, generator=torch.Generator().manual_seed(1)).tolist()
    mixed = [(dealt["test"] + dealt["train"])[i] for i in mixed]
    told = describe(dealt, file)
    assert told["leak_by_pair"] == shared_english(mixed[31:], mixed[:31]) and (
        told["distinct_english"],
        told["pairs"],
    ) == (40, 81)
    assert told["leak_by_sentence"] == 1 / 31 < told["leak_by_pair"]


def test_a_shorter_list_of_words_knows_less():
    learnt = " ".join("abcdef"[k] for k in range(6) for _ in range(4**k))
    rows = vocabulary_costs({"train": [("", learnt)], "valid": [("", "a c z"), ("", "c' f")]})
    assert [r["at_least"] for r in rows] == [1, 2, 3, 5, 10, 20] and [r["words"] for r in rows] == [
        10,
        9,
        9,
        8,
        8,
        7,
    ]
    assert [r["unknown"] for r in rows] == [2 / 5, 3 / 5, 3 / 5, 3 / 5, 3 / 5, 4 / 5]
    for valid, share in ([("", "z")], 1), ([], 0):
        assert {
            row["unknown"] for row in vocabulary_costs({"train": [("", "a")], "valid": valid})
        } == {share}


def test_a_finished_run_is_scored_and_recorded(tmp_path):
    file = tmp_path / "archive"
    file.write_bytes(b"pairs")
    parts = {**PARTS, "test": PARTS["test"] * 2}
    translator, run = train_translator(tmp_path, recipe(), parts, ["I SEE A CATS", "unseen"])
    record = score_and_record(tmp_path, "né", recipe(), translator, run, parts, file)
    text = (tmp_path / "run.json").read_text("utf-8")
    assert record == json.loads(text) and text.startswith('{\n "command": "né",\n "commit": ')
    said = (tmp_path / "hypotheses.txt").read_text("utf-8").splitlines()
    assert said == translator.translate(
        [english for english, _ in PARTS["test"]], precision="fp32"
    ), "a line for each distinct sentence"
    assert record["seen"] == {"I SEE A CATS": True, "unseen": False} and "vocabulary" not in record
    assert record["data"] == describe(parts, file) and record["data"]["leak_by_sentence"] == 0
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
    card = records.model_card(record, "mine")
    for part in (
        "# mine",
        "né",
        "CC BY 2.0 FR",
        "contributors",
        record["data"]["sha256"],
        "## Limits",
    ):
        assert part in card, f"the card lacks {part!r}"


def test_a_run_with_words_records_what_its_list_costs(tmp_path):
    file = tmp_path / "archive"
    file.write_bytes(b"pairs")
    r = recipe(tokens="words", at_least=1)
    done = train_translator(tmp_path, r, PARTS, [])
    assert score_and_record(tmp_path, "none", r, *done, PARTS, file)[
        "vocabulary"
    ] == vocabulary_costs(PARTS)
