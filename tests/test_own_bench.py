"""The ground of "Your own pair": the test stays apart, noise is what it says, compared runs have
equally many updates."""

import os
import sys
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import pytest
import torch

BENCH = Path(__file__).parents[1] / "bench"
sys.path.insert(0, str(BENCH))
import records
from own import __main__ as command
from own import runs, text
from own.text import BACK, DOMAIN, NOISE, TAG, Job

from transformer_lit.custom_pair.train import ModelSize
from transformer_lit.data import load_corpus, sentence_key
from transformer_lit.masks import EOS

real_corpora = pytest.mark.skipif(
    not os.environ.get("TRANSFORMER_LIT_DATA"), reason="the corpora are not here"
)
TRIAL = {
    "SIZES": [ModelSize(pairs, 400, 2, 64, 0.1, 1024, 2, 5) for pairs in (20, 40, 80, 90, 47_000)],
    **dict(HELD=6, CAPTIONS=10, MONOLINGUAL=60),
}
TRAINED = dict(TUNING=2, TOKENS=2000, SHIPPED="pocket")


def of_the_pocket_corpus(corpus, language="fr"):
    "Parts of the pocket corpus that play Tatoeba, captions and German."
    parts = load_corpus("pocket")
    few = parts["train"][1000:1200]
    if language == "de":
        return {"train": [(english, french[::-1]) for english, french in few]}
    if corpus == "multi30k":
        return {"train": few, "valid": parts["valid"][500:], "test": parts["test_it"]}
    return parts


def patch_trial(patch):
    for module, values in (text, TRIAL), (runs, TRAINED):
        for name, value in values.items():
            patch.setattr(module, name, value)
    patch.setattr(text, "load_corpus", of_the_pocket_corpus)
    patch.setattr(text.training_sets, "general_files", lambda _: [])
    patch.setattr(records, "clean_commit", lambda: "a" * 40)
    patch.setattr(text, "corpora", cache(text.corpora.__wrapped__))


@pytest.fixture
def trial(monkeypatch):
    patch_trial(monkeypatch)


# The names ----------------------------------------------------------------------------------------


def test_a_name_says_all_of_a_run():
    for name, row in records.rows_of("own").items():
        job = Job.of(name)
        assert job.name == name
        assert asdict(job) == {key: row[key] for key in asdict(job)}
    for wrong in ("10000-nothing-s1", "many-real-s1", "10000-real"):
        with pytest.raises(ValueError, match="is no run"):
            Job.of(wrong)


def test_what_a_text_needs():
    assert Job(40, "greedy+tagged", 2).needs == Job(40, "reverse")
    assert Job(80, "misaligned+filtered", 2, epochs=1).needs == Job(80, "misaligned", 2, epochs=1)
    for text in ("real", "reverse", "misaligned", "misaligned+cleaned", *DOMAIN, "shipped"):
        assert Job(80, text).needs is None


def test_a_change_is_one_field():
    changed = Job(10_000, change="dropout=0.4").size
    assert changed == replace(Job(10_000).size, dropout=0.4)
    assert Job(10_000, change="layers=4").size.layers == 4
    assert Job(50_000, epochs=4).size.epochs == 4


# The text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "real", [False, pytest.param(True, marks=[real_corpora, pytest.mark.slow])]
)
def test_subsets_are_nested_and_know_nothing_of_the_test(real, monkeypatch, tmp_path):
    if not real:
        patch_trial(monkeypatch)
    t, sizes = text.corpora(), [size.pairs for size in text.SIZES]
    held = {sentence_key(one) for sources, _ in t.tests.values() for one in sources} | {
        sentence_key(one) for pairs in t.valid.values() for one, _ in pairs
    }
    before = []
    for size in sizes[:-1]:
        now = Job(size).real
        assert len(now) == size and now[: len(before)] == before
        before = now
    mixed = text.TEXTS["mixed"](Job(sizes[2]), tmp_path)
    assert len(mixed) == sizes[2] + text.CAPTIONS
    for pairs in (t.train, t.captions, t.german):
        assert not held & {sentence_key(english) for english, _ in pairs}
    assert all(len(side) == text.HELD for test in t.tests.values() for side in test)
    known = {
        sentence_key(one)
        for _, references in t.tests.values()
        for refs in references
        for one in refs
    } | {sentence_key(french) for _, french in t.train[: sizes[2]]}
    lines = text.monolingual(sizes[1])
    assert not known & set(map(sentence_key, lines))
    assert len(lines) == min(4 * sizes[1], text.MONOLINGUAL) == len(set(lines))


@pytest.mark.parametrize("kind", NOISE)
def test_noise_has_the_share_and_is_what_it_says(kind, trial):
    pairs, n = text.corpora().train, TRIAL["SIZES"][2].pairs
    lines = text.with_noise(kind, n)
    assert len(lines) == n + round(text.SHARE * n) and lines[:n] == pairs[:n]
    right = dict(pairs)
    for english, french in lines[n:]:
        assert (english, french) not in pairs
        assert kind != "untranslated" or english == french
        assert kind != "misaligned" or french in right.values()
        assert kind != "misordered" or sorted(french.split()) == sorted(right[english].split())
        assert kind != "wrong-language" or (english, french) in text.corpora().german
    assert text.with_noise(kind, n) == lines, "the same noise each time"


def test_the_tag_is_one_token_and_takes_nothing_from_the_rest(trial):
    plain = runs.vocabulary(Job(80), Job(80).real)
    tokens = runs.vocabulary(Job(80, "greedy+tagged"), [])
    english = text.corpora().train[0][0]
    tag, *rest = tokens.encode(TAG + english)
    assert (
        rest == plain.encode(english) == tokens.encode(english)
        and tag == len(plain) == len(tokens) - 1
    )
    assert tokens.encode(TAG) == [tag, EOS] and len(plain.encode(TAG)) > 3


def test_draws_follow_the_model():
    class Says(torch.nn.Module):
        def initial_state(self, source):
            return {}

        def step(self, tokens, state):
            return torch.tensor([0.5, 0.3, 0.2]).log().expand(len(tokens), 3), state

    torch.manual_seed(0)
    logits, _ = runs.Sampling(Says()).step(torch.zeros(20_000), {})
    assert torch.bincount(logits.argmax(1)).div(20_000).tolist() == pytest.approx(
        [0.5, 0.3, 0.2], abs=0.02
    )


def test_made_up_text_and_noise_bring_no_more_updates(trial):
    full, short = runs.updates(Job(40)), runs.updates(Job(80, epochs=1))
    assert {runs.updates(Job(40, text)) for text in (*BACK, "greedy+tagged", "reverse")} == {
        full
    } and full > 1
    assert {
        runs.updates(Job(80, kind + way, epochs=1))
        for kind in NOISE
        for way in ("", "+cleaned", "+filtered")
    } == {short}
    assert runs.updates(Job(80, "mixed", epochs=1)) == short + TRAINED["TUNING"]


def typed(patch, *words):
    patch.setattr(sys, "argv", [str(BENCH / "own/__main__.py"), *map(str, words)])
    return command.main()


# Runs of a second ---------------------------------------------------------------------------------

FEW = [
    Job(40),
    Job(40, "reverse"),
    Job(40, "greedy+tagged"),
    Job(80, epochs=1),
    Job(80, "misaligned", epochs=1),
    Job(80, "misaligned+filtered", epochs=1),
    Job(90, "shipped"),
]
MORE = [
    Job(40, "greedy"),
    Job(40, "sampled"),
    Job(40, change="layers=1"),
    Job(80, "reverse"),
    Job(80, "greedy"),
    Job(47_000, "general"),
    *(Job(80, text, epochs=1) for text in ("misaligned+cleaned", *list(NOISE)[1:], *DOMAIN)),
]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    "The command in a trial; its folder, and the lines by job."
    return make(tmp_path_factory.mktemp("own"), FEW)


def make(top, some):
    with pytest.MonkeyPatch.context() as patch:
        patch_trial(patch)
        names, places = [job.name for job in some], ["--home", top / "home", "--out", top]
        assert typed(patch, *names[:2], *places) == 0
        first = (top / "own.jsonl").read_bytes()
        assert typed(patch, *names, *places) == 0
        assert (top / "own.jsonl").read_bytes().startswith(first), "what is there isn't done again"
    rows = records.rows_of("own", top)
    return top, {job: rows[job.name] for job in some}


def test_what_stands_beside_the_lines(ran):
    top, rows = ran
    kept = records.arrays_of("own", top)
    assert set(rows) == set(map(Job.of, records.rows_of("own", top)))
    assert not any((top / "home" / job.name).exists() for job in FEW)
    assert not [name for name in kept if name.partition("/")[0] not in {job.name for job in rows}]
    assert len(records.outputs_of("own", Job(40).name, top)) == TRIAL["HELD"]
    reverse = rows[Job(40, "reverse")]
    lines = records.outputs_of("own", Job(40, "reverse").name, top)
    assert lines and all(line.count("\t") == 1 for line in lines)
    assert len(reverse["shown"]) == 20 and all(len(one) == 3 for one in reverse["shown"])
    assert reverse["in_test"] == [0, 0] and "repeats" not in reverse
    assert all(0 <= rows[job]["repeats"] < 1 for job in (Job(40), Job(80, "misaligned", epochs=1)))


def test_a_row_has_all_that_is_reported(ran):
    top, rows = ran
    kept = records.arrays_of("own", top)
    for job, row in rows.items():
        assert row["commits"] and row["size"]["pairs"] == job.pairs
        assert (
            row["tokens"] > 0
            and row["cpu_seconds"] > 0
            and row["parameters"] > 0
            and row["valid_loss"] > 0
        )
        if job.text != "shipped":
            assert row["steps"] == row["curve"][-1][0] and row["best_step"] <= row["steps"]
        assert row["recipe"]["training"]["seed"] == 1 and row["hardware"] and row["muon"]
        for test in row["tests"].values():
            assert test["sentences"] == TRIAL["HELD"]
            assert all(
                test["all"][name]["low"] <= test["all"][name]["high"] for name in ("bleu", "chrf")
            )
    assert rows[FEW[0]]["steps"] == rows[FEW[2]]["steps"], "the gain isn't more training"
    assert (
        rows[FEW[2]]["train_pairs"] <= 40 + TRIAL["MONOLINGUAL"]
        and rows[FEW[2]]["parameters"] == rows[FEW[0]]["parameters"] + 64
    )
    noisy, filtered = rows[FEW[4]], rows[FEW[5]]
    assert noisy["steps"] == rows[FEW[3]]["steps"] == filtered["steps"]
    assert (
        set(noisy["found"]) == {"copied", "lopsided", "languages", "all rules", "own score"}
        and len(kept[f"{FEW[4].name}/dropped"]) == 8
    )
    assert filtered["train_pairs"] == 80
    ours = rows[FEW[6]]
    assert (
        ours["train_pairs"] == 46_000
        and ours["record"] == "pocket"
        and len(ours["shown"]) == TRIAL["HELD"]
    )
    assert (
        ours["bleu"] > rows[FEW[0]]["bleu"]
        and 0 < ours["valid_per_character"] < rows[FEW[0]]["valid_per_character"]
    )


def test_the_weights_of_the_least_loss_are_tested(trial, tmp_path, monkeypatch):
    "Where the loss only rises, those of the first look; what the last ones say is kept too."
    losses = iter((1.0, 2.0))
    monkeypatch.setattr(runs, "validation_loss", lambda *_: next(losses))
    row = runs.work(Job(40), tmp_path / "job", tmp_path).row
    assert (
        row["best_step"] == row["curve"][0][0] < row["steps"]
        and row["valid_loss"] == 1.0
        and row["best_epoch"] == pytest.approx(1)
    )
    assert {"first", "all"} <= set(row["last"])


@pytest.mark.slow
def test_every_kind_of_job(tmp_path):
    top, rows = make(tmp_path, FEW + MORE)
    assert {row["data"] for row in rows.values()} == {rows[FEW[0]]["data"]}
    kept = records.arrays_of("own", top)
    for text in DOMAIN:
        name = Job(80, text, epochs=1).name
        assert {f"{name}/bleu/{test}" for test in ("tatoeba", "multi30k")} <= set(kept)
