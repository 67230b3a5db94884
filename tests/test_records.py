"""`runs.records` and `litbook.results`: what a run leaves, and that pages say of recorded runs only
what they hold."""

import dataclasses
import json
import sys
import types
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
import publish
from litbook import results
from transformer_lit.runs import records
from transformer_lit.runs.records import effort, hardware_name, write_record
from transformer_lit.recipes.recipes import Recipe

RECORD = {
    "recipe": {"language": "fr"},
    "command": "train it",
    "commit": "",
    "seed": 3,
    "parameters": 1234,
    "tokens": 5678,
    "seconds": 120.0,
    "hardware": "1 thread",
    "torch": "2.9",
    "data": {"name": "tatoeba", "sha256": "abc", "train": 30},
    "scores": [
        {"set": "a", "metric": "BLEU", "value": 1.0, "references": "first", "signature": "nrefs:1"},
        {"set": "b", "metric": "m", "value": 2.5},
    ],
}


def test_scores_are_lines_with_their_signatures():
    assert publish.score_lines(RECORD) == "- a, BLEU, first: 1.000 (`nrefs:1`)\n- b, m: 2.500"


def test_a_card_keeps_its_words_and_takes_the_runs_numbers():
    written = (
        "# toy\n\n## Data\n\nMine.\n1 pairs to train; SHA-256 of the list of files 00.\nApart.\n\n"
        "## Training\n\n    old\n\nold\n\n## Scores\n\n- old\n\n## Limits\n\nMany.\n"
    )
    card = publish.card(written, RECORD | {"processes": 2}, [RECORD | {"command": "begin"}])
    for part in (
        "Mine.\n30 pairs to train; SHA-256 of the list of files abc.\nApart.",
        "    begin\n\n1,234 parameters, 5,678 target tokens, 2 minutes\non 1 thread, torch 2.9",
        "Then:\n\n    train it",
        "on 1 thread in each of 2 processes",
        "commit unknown.\n\n## Scores\n\n- a, BLEU",
        "- b, m: 2.500\n\n## Limits\n\nMany.",
    ):
        assert part in card, f"the card lacks {part!r}"
    assert "old" not in card and "- old" in publish.card(written, RECORD | {"scores": []})


def test_effort_counts_six_operations_per_weight_and_token():
    model = torch.nn.Linear(3, 2, bias=False)
    assert effort(model, types.SimpleNamespace(n_tokens=1000, seconds=2.3456)) == {
        "hardware": hardware_name(),
        "torch": torch.__version__.partition("+")[0],
        "parameters": 6,
        "tokens": 1000,
        "flops": 36_000.0,
        "seconds": 2.3,
        "tokens_per_second": round(1000 / 2.3456),
    }
    assert (
        effort(model, types.SimpleNamespace(n_tokens=1, seconds=0))["tokens_per_second"] == 10**9
    ), "no time, no division by zero"


def test_one_writer_for_all_records(tmp_path):
    record = write_record(
        tmp_path, "né", 7, Recipe(), {"name": "toy"}, {"seconds": 1}, [{"set": "x"}], steps=5
    )
    text = (tmp_path / "run.json").read_text("utf-8")
    assert json.loads(text) == json.loads(json.dumps(record)) and text.startswith(
        '{\n "command": "né",\n "commit": '
    )
    assert record["recipe"] == dataclasses.asdict(Recipe()) and list(record)[-2:] == [
        "steps",
        "scores",
    ]
    assert record["commit"] == records.git_commit() and record["seconds"] == 1


# Which sentences were seen ------------------------------------------------------------------------


def test_seen_sentences_are_known_by_four_bytes(tmp_path):
    pairs = [(f"See {i} of it.", "") for i in range(30)]
    publish.save_seen(pairs * 2, tmp_path)
    held = (tmp_path / "seen.bin").read_bytes()
    assert len(held) == 4 * 30 and held == b"".join(
        sorted(held[i : i + 4] for i in range(0, 120, 4))
    )
    assert all(
        results.was_seen(english.upper().rstrip("."), tmp_path) for english, _ in pairs
    ), "case and end marks don't count"
    assert not any(results.was_seen(f"See {i} of it.", tmp_path) for i in range(30, 500))
    curly, straight = map(results.fingerprint, ("It’s  so", "It's so."))
    assert len(results.fingerprint("a")) == 4 and curly == straight
    assert results.was_seen("I love you.") and not results.was_seen(
        "The blicket is white."
    ), "None: the translator that ships"


# What chapter 18 says of recorded runs ------------------------------------------------------------


TOLD = {1: 5.14, 5: 3.23, 10: 2.84, 15: 2.72, 20: 2.68}  # the laptop article's validation losses
BY_SENTENCE, BY_PAIR = "laptop-by-sentence", "laptop-by-pair"


def best(name):
    return min(results.load_record(name)[1], key=lambda line: line["valid_smoothed"])


def test_the_leak_flatters_the_loss_and_hides_learning_by_heart():
    groups = results.load_record(BY_PAIR)[0]["groups"]
    assert groups[-1]["seen"] < groups[0]["seen"] and groups[-1]["unseen"] > groups[0]["unseen"]
    assert (
        results.load_record(BY_SENTENCE)[1][0]["epoch"] == 1
        and results.load_record(BY_SENTENCE)[0]["data"]["leak"]
        < results.load_record(BY_PAIR)[0]["data"]["leak"]
    )
    assert (
        max(best(name)["epoch"] for name in (BY_SENTENCE, BY_PAIR)) < 15
    ), "both are best earlier than the article's"
    for epoch, name in (10, BY_SENTENCE), (15, BY_PAIR):
        assert abs(results.load_record(name)[1][epoch - 1]["valid_smoothed"] - TOLD[epoch]) < 0.01


def test_our_recipe_gets_there_earlier():
    goal = best(BY_SENTENCE)["valid_smoothed"]
    spent = results.load_record(BY_SENTENCE)[1][-1]["cpu_seconds"]
    ours = results.load_record("ours-by-sentence")[1]
    below = next(line for line in ours if line["valid_smoothed"] < goal)
    assert below["cpu_seconds"] < spent / 4


def test_neighbouring_epochs_are_better_averaged_until_the_rate_is_zero():
    rows = results.load_record("tatoeba-fr")[0]["averages"]
    held = {tuple(row["epochs"]): row["loss"] for row in rows}
    assert all(held[n - 1, n] < min(held[n - 1,], held[n,]) for n in (4, 5, 6)) and held[8,] == min(
        held.values()
    )


def test_what_the_experiments_found():
    def row(name):
        return types.SimpleNamespace(**results.outcome(f"exp-{name}"))

    for size in "small", "large":
        assert (
            row(f"data-5k-{size}").BLEU
            < row(f"data-50k-{size}").BLEU
            < row(f"data-all-{size}").BLEU
        ), "more data, better"
    base, untied, plain = row("data-all-small"), row("tied-no"), row("smoothing-0.0")
    assert (
        untied.perplexity < base.perplexity
        and untied.BLEU > base.BLEU + 1
        and untied.parameters > 2 * base.parameters
    )
    assert plain.perplexity < base.perplexity and abs(plain.BLEU - base.BLEU) < 0.5


def test_fewer_bits_answer_as_well_within_the_interval():
    for name in "bf16", "int8":
        for row in results.load_bench(name)["rows"]:
            assert row["difference"]["low"] <= 0 <= row["difference"]["high"]


@pytest.mark.parametrize("name, spoiled", [("tatoeba-fr", False), ("tatoeba-fr-words", True)])
def test_only_word_lists_leave_words_unknown(name, spoiled):
    assert ("<unk>" in "".join(results.load_outputs("trainings", name))) == spoiled
