"""The ground of "Your own pair": the test stays apart, noise is what it says, compared runs have
equally many updates, rows travel."""

import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
import jobs
import own
import own_jobs
from own_jobs import BACK, NOISE, TAG, TRIAL, Job, Scale

from transformer_lit.data import sentence_key
from transformer_lit.evaluation import line_counts
from transformer_lit.masks import EOS

real_corpora = pytest.mark.skipif(
    not os.environ.get("TRANSFORMER_LIT_DATA"), reason="the corpora are not here"
)


@pytest.fixture
def trial(monkeypatch):
    monkeypatch.setattr(own_jobs, "SCALE", TRIAL)


# The plan -----------------------------------------------------------------------------------------


def planned(guess):
    found = {}
    for title, part in own.plan().items():
        found[title] = []
        jobs.walk(part, lambda job: found[title].append(job) or guess(job))
    return found


@pytest.mark.parametrize("wins", ["", "dropout=0.1", "layers=4"])
def test_the_plan_ends_and_names_every_job_once(wins):
    found = planned(lambda job: {"valid_per_character": 1.0 - 0.5 * (job.change == wins)})
    every = {job for part in found.values() for job in part}
    assert len({job.name for job in every}) == len(every) < 150
    assert all(job.size.layers > 0 and job.size.vocabulary > 260 for job in every)
    assert list(found)[:5] == [
        "sizing, 2k",
        "sizing, 10k",
        "sizing, 50k",
        "around 50k",
        "back-translation, 10k",
    ]
    for pairs in (2_000, 10_000, 50_000):
        assert {job.seed for job in every if job == Job(pairs, seed=job.seed)} == {1, 2, 3}
        assert len({job.change for job in every if job.pairs == pairs and job.seed == 1}) >= 8
    if wins == "dropout=0.1":
        assert all(
            Job(pairs, seed=seed, change=wins) in every
            for pairs in (2_000, 10_000, 50_000)
            for seed in (1, 2, 3)
        )


def test_what_a_text_needs_was_done_before_and_is_compared_with_what_was_done():
    order = [job for part in planned(own.guess).values() for job in part]
    first = {job: order.index(job) for job in order}
    for job in first:
        kind, _, way = job.text.partition("+")
        if kind in BACK:
            assert first[Job(job.pairs, "reverse")] < first[job]
        if way == "filtered":
            assert first[replace(job, text=kind)] < first[job]
        for pairs, text, change, epochs in own.against(
            (job.pairs, job.text, job.change, job.epochs)
        )[:1]:
            assert (
                job.text in ("general", "shipped")
                or Job(pairs, text, job.seed, change, epochs) in first
            ), job


def test_nothing_is_trained_without_what_a_rule_does_not_find(trial):
    def seen(job):
        rule = {"recall": 0.05 if job.text == "misaligned" else 0.5}
        return (
            {"found": {"all rules": rule, "own score": {"recall": 0.5}}}
            if job.text in NOISE
            else {}
        )

    done = []
    jobs.walk(lambda: own.noise([1]), lambda job: done.append(job.text) or seen(job))
    assert done == [
        "real",
        *NOISE,
        *(f"{kind}+filtered" for kind in NOISE),
        *(f"{kind}+cleaned" for kind in NOISE[1:]),
    ]


def test_a_change_is_one_field():
    changed = Job(10_000, change="dropout=0.4").size
    assert (
        changed == replace(Job(10_000).size, dropout=0.4)
        and Job(10_000, change="layers=4").size.layers == 4
    )
    assert (
        Job(50_000, epochs=4).size.epochs == 4
        and len(own.changes(2_000)) == 8
        and "dropout=0.4" not in own.changes(50_000)
    )


# The text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scale",
    [TRIAL, pytest.param(Scale(), marks=[real_corpora, pytest.mark.slow])],
    ids=["pocket", "tatoeba"],
)
def test_subsets_are_nested_and_know_nothing_of_the_test(scale, monkeypatch, tmp_path):
    monkeypatch.setattr(own_jobs, "SCALE", scale)
    t = own_jobs.texts(scale)
    held = {sentence_key(one) for sources, _ in t.tests.values() for one in sources} | {
        sentence_key(one) for pairs in t.valid.values() for one, _ in pairs
    }
    before = []
    for size in scale.sizes[:-1]:
        now = own_jobs.given(Job(size.pairs), tmp_path)
        assert len(now) == size.pairs and now[: len(before)] == before
        before = now
    assert (
        len(own_jobs.given(Job(scale.sizes[2].pairs, "mixed"), tmp_path))
        == scale.sizes[2].pairs + scale.captions
    )
    for pairs in (t.train, t.captions, t.german):
        assert not held & {sentence_key(english) for english, _ in pairs}
    assert all(len(side) == scale.held for test in t.tests.values() for side in test)
    answers = {
        sentence_key(one)
        for _, references in t.tests.values()
        for refs in references
        for one in refs
    }
    lines = own_jobs.monolingual(scale.sizes[1].pairs)
    assert not (
        answers | {sentence_key(french) for _, french in t.train[: scale.sizes[2].pairs]}
    ) & set(map(sentence_key, lines))
    assert len(lines) == min(4 * scale.sizes[1].pairs, scale.mono) and lines == list(
        dict.fromkeys(lines)
    )


@pytest.mark.parametrize("kind", NOISE)
def test_noise_has_the_share_and_is_what_it_says(kind, trial):
    pairs, n = own_jobs.texts(TRIAL).train, TRIAL.sizes[2].pairs
    lines, marks = own_jobs.planted(kind, n)
    assert marks == [False] * n + [True] * round(TRIAL.share * n) and lines[:n] == pairs[:n]
    right = dict(pairs)
    for english, french in lines[n:]:
        assert (english, french) not in pairs
        assert kind != "untranslated" or english == french
        assert kind != "misaligned" or french in right.values()
        assert kind != "misordered" or sorted(french.split()) == sorted(right[english].split())
        assert kind != "wrong-language" or (english, french) in own_jobs.texts(TRIAL).german
    assert own_jobs.planted(kind, n) == (lines, marks), "the same noise each time"


def test_what_was_found_of_the_noise():
    flags, marks = [True, True, False, False, True], [True, False, True, False, False]
    assert own_jobs.told(flags, marks) == {"recall": 0.5, "false_alarms": pytest.approx(2 / 3)}


def test_the_tag_is_one_token_and_takes_nothing_from_the_rest():
    plain = own_jobs.of_real(TRIAL, 80, 400)
    tokens = own_jobs.tagged(plain)
    english = own_jobs.texts(TRIAL).train[0][0]
    tag, *rest = tokens.encode(TAG + english)
    assert (
        rest == plain.encode(english) == tokens.encode(english)
        and tag == len(plain) == len(tokens) - 1
    )
    assert tokens.encode(TAG) == [tag, EOS] and len(plain.encode(TAG)) > 3


def test_draws_follow_the_model():
    class Says(torch.nn.Module):
        def start(self, source):
            return {}

        def step(self, tokens, state):
            return torch.tensor([0.5, 0.3, 0.2]).log().expand(len(tokens), 3), state

    torch.manual_seed(0)
    logits, _ = own_jobs.Sampling(Says()).step(torch.zeros(20_000), {})
    assert torch.bincount(logits.argmax(1)).div(20_000).tolist() == pytest.approx(
        [0.5, 0.3, 0.2], abs=0.02
    )


def test_made_up_text_and_noise_bring_no_more_updates(trial):
    full, short = own_jobs.updates(Job(40)), own_jobs.updates(Job(80, epochs=1))
    assert {own_jobs.updates(Job(40, text)) for text in (*BACK, "greedy+tagged", "reverse")} == {
        full
    } and full > 1
    assert {
        own_jobs.updates(Job(80, kind + way, epochs=1))
        for kind in NOISE
        for way in ("", "+cleaned", "+filtered")
    } == {short}
    assert own_jobs.updates(Job(80, "mixed", epochs=1)) == short + TRIAL.tune


# From rows to the record --------------------------------------------------------------------------


def test_the_gain_and_its_interval():
    said = [f"le chat dort dans la maison {k} fois par jour" for k in range(30)]
    right = line_counts(said, [[one] for one in said])
    worse = line_counts(
        [one.replace("dort", "mange") if k % 3 else one for k, one in enumerate(said)],
        [[one] for one in said],
    )
    assert own.gain([right], [right]) == {"value": 0.0, "low": 0.0, "high": 0.0, "each": [0.0]}
    one = own.gain([right], [worse])
    assert 0 < one["low"] < one["value"] < one["high"] and one == own.gain([right], [worse])
    three = own.gain([right, right, worse], [worse, worse, worse])
    assert three["value"] == pytest.approx(2 / 3 * one["value"]) and three["each"][2] == 0
    assert three["low"] < one["low"], "seeds are drawn too"


def test_a_dirty_tree_makes_no_row(monkeypatch, tmp_path, capsys):
    for found in ("", "b" * 40 + "-dirty"):
        monkeypatch.setattr(own, "commit", lambda: found)
        assert own.main(["run", "--home", str(tmp_path), "--packed", str(tmp_path / "packed")]) == 1
        assert "commit first" in capsys.readouterr().err and not (tmp_path / "done").exists()


@pytest.mark.parametrize(
    "change, words",
    [({"commits": ["a" * 40 + "-dirty"]}, "no commit says"), ({"data": "other"}, "other pairs")],
)
def test_rows_that_do_not_belong_together_make_no_record(tmp_path, change, words, capsys):
    (tmp_path / "done").mkdir()
    for name, more in (("one", {}), ("two", change)):
        (tmp_path / f"done/{name}.json").write_text(
            json.dumps({"commits": ["a" * 40], "data": "d"} | more)
        )
    out = tmp_path / "record.json"
    assert (
        own.main(
            [
                "collect",
                "--home",
                str(tmp_path),
                "--packed",
                str(tmp_path / "packed"),
                "--out",
                str(out),
            ]
        )
        == 1
    )
    assert words in capsys.readouterr().err and not out.exists()


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
    Job(100, "general"),
    *(Job(80, text, epochs=1) for text in ("misaligned+cleaned", *NOISE[1:], *own_jobs.DOMAIN)),
]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    "The command in a trial, twice; its folder, and what was said."
    top = tmp_path_factory.mktemp("own")
    return top, runs(top, FEW)


def runs(top, some):
    "Do these jobs, pack, go on elsewhere from what was packed, collect there."
    typed = ["--trial", "--packed", str(top / "packed"), "--out", str(top / "record.json")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_jobs, "SCALE", TRIAL)
        patch.setattr(own_jobs, "commit", lambda: "a" * 40)
        patch.setattr(own, "plan", lambda: {"some": lambda: iter(some)})
        patch.setattr(jobs, "walk", lambda part, row_for: [row_for(job) for job in part()])
        for home, what, *most in (
            ("here", "run", "--most", "2"),
            ("here", "pack"),
            ("there", "run"),
            ("there", "pack"),
            ("last", "collect"),
        ):
            assert own.main([what, "--home", str(top / home), *most, *typed]) == 0
    return {job: jobs.row_of(job, top / "last") for job in some}


def test_rows_travel_and_are_collected(ran):
    top, rows = ran
    assert (
        all(rows.values())
        and not list((top / "there/jobs").iterdir())
        and len(list((top / "there/done").glob("*.json"))) == len(FEW)
    )
    first = (top / "here/done" / f"{FEW[0].name}.json").read_bytes()
    assert (
        first == (top / "last/done" / f"{FEW[0].name}.json").read_bytes()
    ), "what was packed isn't done again"
    record = json.loads((top / "record.json").read_text())
    assert (
        record["command"] == "python bench/own.py run"
        and record["commits"] == ["a" * 40]
        and len(record["runs"]) == len(FEW)
    )
    assert "counts" not in json.dumps(record["runs"]) and not any(
        "dropped" in run for run in record["runs"]
    )
    cells = {(cell["pairs"], cell["text"]): cell for cell in record["cells"]}
    assert [(one["text"], one["seeds"]) for one in cells[40, "greedy+tagged"]["more_than"]] == [
        ("real", [1])
    ]
    assert [one["text"] for one in cells[80, "misaligned+filtered"]["more_than"]] == [
        "real",
        "misaligned",
    ]
    assert "more_than" not in cells[40, "real"] and set(cells[80, "real"]["bleu"]) == {
        "tatoeba",
        "multi30k",
    }
    told = {(run["pairs"], run["text"]): run for run in record["runs"]}
    assert (
        all(0 <= told[key]["repeats"] < 1 for key in ((40, "real"), (80, "misaligned")))
        and "repeats" not in told[40, "reverse"]
    )
    assert len(told[40, "reverse"]["shown"]) == 20 and all(
        len(one) == 3 for one in told[40, "reverse"]["shown"]
    )
    assert told[40, "reverse"]["in_test"] == [0, 0]


def test_answers_beside_a_row(trial, tmp_path):
    "Repeated sentences are counted; answers to other sentences are refused."
    t = own_jobs.texts(TRIAL)
    english = t.tests["tatoeba"][0]
    row = asdict(Job(40)) | {"data": t.digest}
    assert own.beside(row, tmp_path) == {}
    (tmp_path / "done").mkdir()
    path = tmp_path / "done" / f"{Job(40).name}.txt"
    path.write_text(
        "".join(f"{line}\n" for line in ["Non.", *english[1:3], *["Oui."] * (len(english) - 3)]),
        "utf-8",
    )
    assert own.beside(row, tmp_path) == {"repeats": 2 / len(english)}
    with pytest.raises(ValueError, match="other pairs"):
        own.beside(row | {"data": "another"}, tmp_path)


def test_a_row_has_all_that_is_reported(ran):
    _, rows = ran
    for job, row in rows.items():
        assert row["commits"] == ["a" * 40] and row["size"]["pairs"] == job.pairs
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
            assert len(test["counts"]) == TRIAL.held and len(test["sha256"]) == 64
            assert all(
                "version:" in test[refs][name]["signature"]
                for refs in ("first", "all")
                for name in ("bleu", "chrf")
            )
            assert all(
                test["all"][name]["low"] <= test["all"][name]["high"] for name in ("bleu", "chrf")
            )
    assert (
        len(rows[FEW[0]]["shown"]) == TRIAL.held
        and all(len(one) == 3 for one in rows[FEW[0]]["shown"])
        and "shown" not in rows[FEW[2]]
    )
    assert rows[FEW[0]]["steps"] == rows[FEW[2]]["steps"], "the gain isn't more training"
    assert (
        rows[FEW[2]]["train_pairs"] <= 40 + TRIAL.mono
        and rows[FEW[2]]["parameters"] == rows[FEW[0]]["parameters"] + 64
    )
    noisy, filtered = rows[FEW[4]], rows[FEW[5]]
    assert noisy["planted"] == {"kind": "misaligned", "lines": 8, "clean": 80}
    assert noisy["steps"] == rows[FEW[3]]["steps"] == filtered["steps"]
    assert (
        set(noisy["found"]) == {"copied", "lopsided", "languages", "all rules", "own score"}
        and len(noisy["dropped"]) == 8
    )
    assert filtered["train_pairs"] == 80
    ours = rows[FEW[6]]
    assert (
        ours["train_pairs"] == 46_000
        and ours["record"] == "results/pocket/run.json"
        and len(ours["shown"]) == TRIAL.held
    )
    assert (
        ours["bleu"] > rows[FEW[0]]["bleu"]
        and 0 < ours["valid_per_character"] < rows[FEW[0]]["valid_per_character"]
    )


def test_the_weights_of_the_least_loss_are_tested(trial, tmp_path, monkeypatch):
    "Where the loss only rises, those of the first look; what the last ones say is kept too."
    losses = iter((1.0, 2.0))
    monkeypatch.setattr(own_jobs, "validation_loss", lambda *_: next(losses))
    row, _ = own_jobs.work(Job(40), tmp_path, tmp_path / "job")
    assert (
        row["best_step"] == row["curve"][0][0] < row["steps"]
        and row["valid_loss"] == 1.0
        and row["best_epoch"] == pytest.approx(1)
    )
    assert set(row["last"]) == {"first", "all"}


@pytest.mark.slow
def test_every_kind_of_job(tmp_path):
    rows = runs(tmp_path, FEW + MORE)
    assert all(rows.values()) and {row["data"] for row in rows.values()} == {rows[FEW[0]]["data"]}
    cells = {
        (cell["pairs"], cell["text"]): cell
        for cell in json.loads((tmp_path / "record.json").read_text())["cells"]
    }
    for text in own_jobs.DOMAIN:
        assert set(cells[80, text]["more_than"][0]) > {"tatoeba", "multi30k"}
