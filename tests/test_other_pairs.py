"""`bench/other_pairs.py`: what the command leaves becomes the record."""

import json
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"
sys.path.insert(0, str(BENCH))
import other_pairs

from transformer_lit.corpora import texts


@pytest.mark.slow
def test_a_trial_of_the_command_becomes_a_record(tmp_path, monkeypatch):
    words = "other_pairs.py", "fr-en", "en-signs", "--trial", "--home", str(tmp_path)
    monkeypatch.setattr(sys, "argv", list(words))
    for _ in range(2):  # the second time there is nothing to do
        assert other_pairs.main() == 0
    home = tmp_path / "trial"
    pairs = json.loads((home / "record.json").read_text(encoding="utf-8"))["pairs"]
    assert list(pairs) == ["fr-en", "en-signs"]
    assert "--pairs french.tsv --languages en-fr --reverse" in pairs["fr-en"]["command"]
    for name, record in pairs.items():
        assert record["data"]["train"] == 48
        test = [tuple(pair[:2]) for pair in texts.read_columns(home / name / "test.tsv")]
        outputs = (home / name / "hypotheses.txt").read_text("utf-8").splitlines()
        rows = [tuple(row) for row in record["shown"]]
        assert rows == [(*pair, output) for pair, output in zip(test, outputs)][: len(rows)]
        assert ("tok:char" in record["scores"][1]["signature"]) == (name == "en-signs")
