"""`runs.records`, `bench/publish.py` and `litbook.results`: what a run leaves, and what cards and
pages take from it."""

import sys
import types
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
import publish
from litbook import results
from transformer_lit.runs import records

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


def test_a_card_keeps_its_words_and_takes_the_runs_numbers():
    old = (
        "# toy\n\n## Data\n\nMine.\n1 pairs to train; SHA-256 of the list of files 00.\nApart.\n\n"
        "## Training\n\n    old\n\nold\n\n## Scores\n\n- old\n\n## Limits\n\nMany.\n"
    )
    card = publish.card(old, RECORD, [RECORD | {"command": "begin"}])
    for part in "Mine.", "Apart.", "Many.", "begin", "train it", "1,234", "5,678", "30 pairs":
        assert part in card, f"the card lacks {part!r}"
    assert "old" not in card and "- old" in publish.card(old, RECORD | {"scores": []})


def test_effort_counts_six_operations_per_weight_and_token():
    model, trainer = torch.nn.Linear(3, 2, bias=False), types.SimpleNamespace(n_labels=1000)
    effort = records.effort(model, types.SimpleNamespace(**vars(trainer), seconds=4.0))
    counts = [effort[name] for name in ("parameters", "tokens", "flops", "tokens_per_second")]
    assert counts == [6, 1000, 36_000, 250] and effort["seconds"] == 4
    assert f"{torch.get_num_threads()} thread" in effort["hardware"]
    assert effort["torch"] == torch.__version__.partition("+")[0]
    records.effort(model, types.SimpleNamespace(n_labels=1, seconds=0))  # no division by zero


def test_seen_sentences_are_known_by_four_bytes(tmp_path):
    pairs = [(f"See {i} of it.", "") for i in range(30)]
    publish.save_seen(pairs * 2, tmp_path)
    content = (tmp_path / "seen.bin").read_bytes()
    keys = [content[i : i + 4] for i in range(0, len(content), 4)]
    assert len(keys) == 30 and keys == sorted(keys)
    spellings = [english.upper().rstrip(".") for english, _ in pairs]
    assert all(results.was_seen(text, tmp_path) for text in spellings)
    assert not any(results.was_seen(f"See {i} of it.", tmp_path) for i in range(30, 500))
    assert results.fingerprint("It’s  so") == results.fingerprint("It's so.")
    assert results.was_seen("I love you.") and not results.was_seen("The blicket is white.")


@pytest.mark.parametrize("name", ["bf16", "int8"])
def test_fewer_bits_answer_as_well_within_the_interval(name):
    for row in results.load_bench(name)["rows"]:
        assert row["difference"]["low"] <= 0 <= row["difference"]["high"]
