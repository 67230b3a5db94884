"""The rule of the comparisons: the search closes, a stop loses nothing, a dirty tree makes no
record; what is recorded is what its commands make."""

import math
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
import records
from fair import __main__ as command
from fair import families, runs
from fair.runs import DESIGNS, UNORDERED, Job

from litbook import results
from litbook.search import first_part, search
from transformer_lit.comparison import (
    SMALL_SIZES,
    Setup,
    is_local_minimum,
    next_peak_lr,
)
from transformer_lit.training import validation_loss

SIZES = SMALL_SIZES | dict(d_model=16, d_ff=32, n_encoder_layers=1, n_decoder_layers=2)
TINY = Setup("pocket", 400, SIZES, 3000, 1000, 128, n_test_sentences=4)


@pytest.fixture
def tiny(monkeypatch):
    "A ground of seconds, and a commit that is clean."
    whole = runs.corpus_of("pocket")
    few = replace(
        whole,
        train=whole.train[:400],
        valid=whole.valid[:20],
        test=whole.test[:10],
        sources=whole.sources[:4],
        references=whole.references[:4],
    )
    monkeypatch.setattr(runs, "corpus_of", lambda name: few)
    monkeypatch.setitem(runs.GROUNDS, "pocket", replace(TINY, vocab_size=len(whole.tokenizer)))
    monkeypatch.setattr(runs, "LOOKS", (1, 2))
    monkeypatch.setattr(records, "clean_commit", lambda: "a" * 40)
    return few


def a_job(design="transformer", **changes):
    return replace(Job("train", "pocket", design, 2500, 6e-3, 0.1, 1), **changes)


# The search ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ground, design", [(g, d) for g in ("tatoeba", "pocket") for d in results.designs(g)]
)
def test_every_recorded_search_is_closed_and_the_commands_make_what_was_read(ground, design):
    rows = records.rows_of(ground)

    def loss_of(trial):
        return runs.loss_of(rows[Job("train", ground, design, *trial).name])

    tried = first_part(results.SEARCH[ground], loss_of)
    assert is_local_minimum(tried) and next_peak_lr(results.peaks(design, ground)) is None
    assert search(ground, loss_of) == results.choice(design, ground)
    read = results.searched(design, ground).run
    by_search = results.search_names(ground, design)
    typed = " ".join(results.commands(read))
    assert f"--search {design}" in typed
    assert all((name in typed) == (name not in by_search) for name in read)


# The command --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ground", ["tatoeba", "pocket", "german"])
def test_a_name_says_all_of_a_run(ground):
    for name, row in records.rows_of(ground).items():
        job = Job.of(name)
        assert job.name == name and (job.kind, job.design) == (row["kind"], row["design"])
        assert (job.tokens, job.seed) == (row["budget"], row["seed"])


def run_command(patch, folder, *words):
    typed = "bench/fair", *words, "--home", str(folder / "home"), "--out", str(folder)
    patch.setattr(sys, "argv", list(typed))
    return command.main()


@pytest.mark.slow
def test_the_command_makes_what_is_not_there(tiny, tmp_path, monkeypatch, capsys):
    files = []
    for seeds in ([1], [1, 4]):
        names = [a_job(seed=seed).name for seed in seeds]
        assert run_command(monkeypatch, tmp_path, *names) == 0
        files.append((tmp_path / "pocket.jsonl").read_bytes())
    assert files[1].startswith(files[0]) and len(files[1].splitlines()) == 2
    assert run_command(monkeypatch, tmp_path, "nobody") == 1
    assert "nobody" in capsys.readouterr().err


def test_a_changed_tree_makes_no_record(tmp_path, monkeypatch, capsys):
    records.clean_commit.cache_clear()
    changed = type("Done", (), {"returncode": 0, "stdout": " M a.py\n", "stderr": ""})
    monkeypatch.setattr(records.subprocess, "run", lambda *_, **__: changed)
    assert run_command(monkeypatch, tmp_path, a_job().name) == 1
    assert "commit" in capsys.readouterr().err and not list(tmp_path.iterdir())


# A run --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UNORDERED)
def test_without_order_a_sentence_is_a_bag(name):
    """Two orders of one sentence, the second beside a pad: with order they differ, without it they
    don't; and nothing else is lost."""
    sources = torch.tensor([[9, 5, 7, 6, 3, 2, 0]]), torch.tensor([[5, 3, 6, 9, 7, 2]])
    others = torch.tensor([[9, 5, 7, 6, 8, 2]])
    target = torch.tensor([[1, 4, 4]])
    for design, alike in ((UNORDERED[name], True), (name, False)):
        torch.manual_seed(0)
        model = DESIGNS[design].build(20, TINY.model_sizes, 20_000 if "rnn" in name else 0).eval()
        one, two, other = (model(source, target) for source in (*sources, others))
        assert torch.allclose(one, two, atol=1e-5) == alike, "a bag has an order, or all are bags"
        assert not torch.allclose(one, other, atol=1e-5)
        first, _ = model.step(target[:, 0], model.initial_state(sources[0]))
        assert torch.allclose(first, one[:, 0], atol=1e-5), "decoding gets another bag"


SAME = "valid_loss test_loss bleu chrf flops tokens steps parameters".split()


@pytest.mark.slow
@pytest.mark.parametrize("design", ["rnn-attention", "muon"])
def test_a_stopped_run_goes_on_as_if_nothing_had_been(tiny, tmp_path, monkeypatch, design):
    """SIGTERM in the middle, twice; then every loss, score and count is that of a run that was
    never stopped."""
    place, step = tmp_path / "home" / a_job(design).name, records.Resumable.train_step

    def stopped(run, source, target):
        loss = step(run, source, target)
        if run.step == at:
            os.kill(os.getpid(), signal.SIGTERM)
        return loss

    def make(folder):
        return runs.make(a_job(design), tmp_path / "home", tmp_path / folder)

    rows = [make("once")]
    with monkeypatch.context() as terminated:
        terminated.setattr(records.Resumable, "train_step", stopped)
        for at in (5, 13):
            with pytest.raises(SystemExit) as end:
                make("parts")
            assert end.value.code == 143 and (place / "checkpoint.safetensors").exists()
    rows.append(make("parts"))
    once, parts = (
        {name: row[name] for name in SAME}
        | {"curve": [[tokens, *losses] for tokens, _, *losses in row["curve"]]}
        | {name: a.tolist() for name, a in records.arrays_of("pocket", tmp_path / folder).items()}
        | {"outputs": records.outputs_of("pocket", a_job(design).name, tmp_path / folder)}
        for row, folder in zip(rows, ("once", "parts"))
    )
    assert once == parts and len(once["outputs"]) == 4
    assert not place.exists(), "what is done leaves no checkpoint"


@pytest.mark.slow
def test_a_line_has_all_that_is_reported(tiny, tmp_path):
    name = a_job().name
    row = runs.make(a_job(), tmp_path / "home", tmp_path)
    assert records.rows_of("pocket", tmp_path)[name] == {"run": name, **row}
    assert row["commits"] == ["a" * 40] and row["tokens"] >= 2500
    arrays = records.arrays_of("pocket", tmp_path)
    words = sum(len(target) - 1 for _, target in tiny.test)
    assert row["test_loss"] == pytest.approx(arrays[f"{name}/losses"].sum() / words, rel=1e-5)
    assert [at for at, _ in row["alignment"]] == [tokens for tokens, *_ in row["curve"]]
    search = runs.make(a_job(seed=4), tmp_path / "home", tmp_path)
    assert "bleu" not in search and search["valid_loss"] > 0, "a trial only chooses"


def test_the_losses_of_sentences_are_the_models(tiny):
    model = DESIGNS["transformer"].build(len(tiny.tokenizer), TINY.model_sizes, 0).eval()
    total = sum(runs.sentence_losses(model, tiny)) / sum(len(t) - 1 for _, t in tiny.test)
    assert total == pytest.approx(validation_loss(model, tiny.test), rel=1e-5)


def test_a_run_that_ends_in_nan_is_a_line(tiny, tmp_path):
    row = runs.make(a_job(peak=1e30), tmp_path / "home", tmp_path)
    assert "valid_loss" not in row and "learning rate" in row["failed"]


# Chapter 26's models ------------------------------------------------------------------------------


def check_sentences(row: dict, arrays: dict) -> None:
    "The shares and means of a line follow from its arrays, which have a number for each sentence."
    words, n = arrays["rest_words"].sum(), row["unseen"]
    shares = {(w, k): share for w, kinds in row["filled"].items() for k, share in kinds.items()}
    shares |= {(way, "exact"): one["exact"] for way, one in row["translated"].items()}
    assert len(shares) == 12 and len(row["perplexity"]) == 4
    for (way, kind), share in shares.items():
        right = arrays[f"right/{way}/{kind}"]
        assert len(right) == n and right.mean() == pytest.approx(share, abs=1e-6)
    for way, perplexity in (row["perplexity"] | row["ngrams"]).items():
        nats = arrays[f"rest_nats/{way}"]
        assert len(nats) == n
        assert math.exp(nats.sum() / words) == pytest.approx(perplexity, rel=1e-3)


@pytest.mark.slow
def test_a_short_run_of_the_families():
    row, arrays = families.run(10, 2)
    assert set(row["parameters"]) == {"encoder-only", "decoder-only", "encoder-decoder"}
    check_sentences(row, arrays)


def test_the_recorded_families_follow_from_their_sentences():
    arrays = results.load_sentences("pocket")
    rows = [row for row in records.rows_of("pocket").values() if row["kind"] == "families"]
    assert len(rows) == 8 and all(row["ngrams"] == rows[0]["ngrams"] for row in rows)
    for row in rows:
        names = [name for name in arrays.files if name.startswith(row["run"] + "/")]
        check_sentences(row, {name.partition("/")[2]: arrays[name] for name in names})
