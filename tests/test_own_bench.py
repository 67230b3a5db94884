"""The ground of appendix A4: the test stays apart, noise is what it says, compared runs have
equally many updates."""

import os
import sys
from dataclasses import asdict
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
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
TRAINED = dict(TUNING=2, TOKENS=2000, EVERYDAY=runs.EVERYDAY.with_name("pocket"))


def of_the_pocket_corpus(corpus, language="fr"):
    "Parts of the pocket corpus that play Tatoeba, captions and German; some know the test."
    parts = pocket("pocket")
    few = parts["test"][:3] + parts["train"][1000:1200]
    if language == "de":
        return {"train": [(english, french[::-1]) for english, french in few]}
    if corpus == "multi30k":
        return {"train": few, "valid": parts["valid"][500:], "test": parts["test_it"]}
    return parts | {"train": parts["test"][:3] + parts["train"]}


pocket, trial_corpora = cache(load_corpus), cache(text.corpora.__wrapped__)


def patch_trial(patch):
    for module, values in (text, TRIAL), (runs, TRAINED):
        for name, value in values.items():
            patch.setattr(module, name, value)
    patch.setattr(text, "load_corpus", of_the_pocket_corpus)
    patch.setattr(text.training_sets, "own_folder", Path)
    patch.setattr(records, "clean_commit", lambda: "a" * 40)
    patch.setattr(text, "corpora", trial_corpora)


@pytest.fixture
def trial(monkeypatch):
    patch_trial(monkeypatch)


# The names ----------------------------------------------------------------------------------------


def test_a_name_says_all_of_a_run():
    for name, row in records.rows_of("own").items():
        job = Job.of(name)
        assert job.name == name and asdict(job).items() <= row.items()
    for name in "10000-nothing-s1", "10000-greedy+nothing-s1":
        with pytest.raises(ValueError, match="is no run"):
            Job.of(name)


# The text -----------------------------------------------------------------------------------------


def keys(sentences):
    return set(map(sentence_key, sentences))


@pytest.mark.seconds
@pytest.mark.parametrize(
    "real", [False, pytest.param(True, marks=[real_corpora, pytest.mark.slow])]
)
def test_subsets_are_nested_and_know_nothing_of_the_test(real, monkeypatch):
    if not real:
        patch_trial(monkeypatch)
    c, sizes = text.corpora(), [size.pairs for size in text.SIZES]
    held_out = keys(english for sources, _ in c.tests.values() for english in sources)
    held_out |= keys(english for pairs in c.valid.values() for english, _ in pairs)
    for pairs in (c.train, c.captions, c.german):
        assert not held_out & keys(english for english, _ in pairs), "the test leaks into training"
    assert all(Job(n).real == c.train[:n] for n in sizes[:-1])
    known = keys(one for _, references in c.tests.values() for refs in references for one in refs)
    known |= keys(french for _, french in c.train[: sizes[2]])
    lines = text.monolingual(sizes[1])
    assert lines and not known & keys(lines), "a sentence to translate back is known already"


@pytest.mark.parametrize("kind", NOISE)
def test_noise_has_the_share_and_is_what_it_says(kind, trial):
    pairs, n = text.corpora().train, TRIAL["SIZES"][2].pairs
    lines = text.with_noise(kind, n)
    assert len(lines) == n + round(text.SHARE * n) and lines[:n] == pairs[:n]
    right = dict(pairs)
    is_spoilt = {
        "untranslated": lambda english, french: english == french,
        "misaligned": lambda english, french: french in right.values(),
        "misordered": lambda en, fr: sorted(fr.split()) == sorted(right[en].split()),
        "wrong-language": lambda *pair: pair in text.corpora().german,
    }[kind]
    assert all(pair not in pairs and is_spoilt(*pair) for pair in lines[n:])
    assert text.with_noise(kind, n) == lines, "the same noise each time"


def test_the_tag_is_one_token_and_takes_nothing_from_the_rest(trial):
    plain = runs.vocabulary(Job(80), Job(80).real)
    tagged = runs.vocabulary(Job(80, "greedy+tagged"), [])
    english = text.corpora().train[0][0]
    assert tagged.encode(TAG + english) == [len(plain), *plain.encode(english)]
    assert tagged.encode(TAG) == [len(plain), EOS] and len(plain.encode(TAG)) > 3


def test_made_up_text_and_noise_bring_no_more_updates(trial):
    made_up = [Job(40, kind) for kind in (*BACK, "greedy+tagged", "reverse")]
    assert {runs.updates(job) for job in made_up} == {runs.updates(REAL)}
    noise = [Job(80, kind + way, epochs=1) for kind in NOISE for way in ("", "+filtered")]
    assert {runs.updates(job) for job in noise} == {runs.updates(SHORT)}


# Runs of a second ---------------------------------------------------------------------------------

REAL, REVERSE, TAGGED = Job(40), Job(40, "reverse"), Job(40, "greedy+tagged")
SHORT, NOISY = Job(80, epochs=1), Job(80, "misaligned", epochs=1)
FILTERED, SHIPPED = Job(80, "misaligned+filtered", epochs=1), Job(90, "shipped")
JOBS = [
    *(REAL, REVERSE, TAGGED, SHORT, NOISY, FILTERED, SHIPPED),
    Job(40, "greedy"),
    Job(40, "sampled"),
    Job(40, change="layers=1"),
    Job(47_000, "general"),
    *(Job(80, kind, epochs=1) for kind in ("misaligned+cleaned", *DOMAIN)),
]


def make(top, jobs):
    "The command in a trial, twice; the lines by job."
    files = []
    with pytest.MonkeyPatch.context() as patch:
        patch_trial(patch)
        for n in 2, len(jobs):
            names = [job.name for job in jobs[:n]]
            words = ["bench/own", *names, "--home", str(top / "home"), "--out", str(top)]
            patch.setattr(sys, "argv", words)
            assert command.main() == 0
            files.append((top / "own.jsonl").read_bytes())
    assert files[1].startswith(files[0]), "what is there is done again"
    rows = records.rows_of("own", top)
    return {job: rows[job.name] for job in jobs}


@pytest.mark.slow
def test_jobs_of_a_second(tmp_path):
    rows, arrays = make(tmp_path, JOBS), records.arrays_of("own", tmp_path)
    assert rows[REVERSE]["in_test"] == [0, 0]
    assert len({row["data"] for row in rows.values()}) == 1
    for job, row in rows.items():
        assert row["size"]["pairs"] == job.pairs and row["valid_loss"] > 0
        assert job == SHIPPED or 0 < row["best_step"] <= row["steps"] == row["curve"][-1][0]
    assert rows[REAL]["steps"] == rows[TAGGED]["steps"], "the gain is more training"
    assert rows[SHORT]["steps"] == rows[FILTERED]["steps"], "noise brings more training"
    assert rows[TAGGED]["parameters"] == rows[REAL]["parameters"] + 64, "one token more"
    assert len(arrays[f"{NOISY.name}/dropped"]) == 8 and rows[FILTERED]["train_pairs"] == 80
    assert rows[SHIPPED]["bleu"] > rows[REAL]["bleu"]


@pytest.mark.slow
def test_the_weights_of_the_least_loss_are_tested(trial, tmp_path, monkeypatch):
    "Where the loss only rises, those of the first look; what the last ones give is a field, too."
    losses = iter((1.0, 2.0))
    monkeypatch.setattr(runs, "validation_loss", lambda *_: next(losses))
    row = runs.work(Job(40), tmp_path / "job", tmp_path).row
    assert row["best_step"] == row["curve"][0][0] < row["steps"] and row["valid_loss"] == 1.0
    assert {"first", "all"} <= set(row["last"])
