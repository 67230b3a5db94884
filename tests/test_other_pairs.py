"""`bench/other_pairs.py`: the made-up script has no spaces and loses no letter, and what the
command leaves becomes the record."""

import json
import sys
from pathlib import Path

BENCH = Path(__file__).parents[1] / "bench"
sys.path.insert(0, str(BENCH))
import other_pairs
import records

from transformer_lit.corpora import texts
from transformer_lit.custom_pair.languages import has_spaces


def test_each_letter_becomes_a_sign_of_its_own():
    french = ["Où est la clé ?", "La clé, la voilà !"]
    signs = other_pairs.in_signs(french)
    assert not has_spaces(signs) and not any(" " in line for line in signs)
    assert [len(line) for line in signs] == [len(line.replace(" ", "")) for line in french]
    assert signs[0][-1] == "？" and signs[1][-1] == "！" and "，" in signs[1]
    assert signs[0][-4:-1] == signs[1][2:5], "the same letters, the same signs"
    letters = {letter for line in french for letter in line if letter.isalpha()}
    assert len({sign for line in signs for sign in line if sign.isalpha()}) == len(letters)


def typed(patch, *words):
    patch.setattr(sys, "argv", [str(BENCH / "other_pairs.py"), *map(str, words)])
    return other_pairs.main()


def test_a_trial_of_the_command_becomes_a_record(tmp_path, monkeypatch, capsys):
    home = tmp_path / "trial"
    words = "fr-en", "en-signs", "--trial", "--home", tmp_path
    for _ in range(2):  # the second time there is nothing to do
        assert typed(monkeypatch, *words) == 0
    assert capsys.readouterr().out.count("test sentences, none of them in training") == 2
    found = json.loads((home / "record.json").read_text(encoding="utf-8"))["pairs"]
    assert found["fr-en"]["command"].startswith(
        "transformer-lit train --pairs french.tsv --languages en-fr --reverse"
    )
    assert list(found) == ["fr-en", "en-signs"] and all(
        one["data"]["train"] == 48 for one in found.values()
    )
    for name, one in found.items():
        held = [tuple(pair[:2]) for pair in texts.read_columns(home / name / "test.tsv")]
        assert 0 < len(one["shown"]) <= 20 and all(
            (source, reference) in held for source, reference, _ in one["shown"]
        )
        assert [answer for *_, answer in one["shown"]] == (
            home / name / "hypotheses.txt"
        ).read_text("utf-8").split("\n")[: len(one["shown"])]
    cuts = {name: one["scores"][1]["signature"] for name, one in found.items()}
    assert "tok:13a" in cuts["fr-en"] and "tok:char" in cuts["en-signs"]


def test_kept_answers_are_spread_over_the_whole_test(tmp_path):
    pairs = [(f"source {k:02}", f"reference {k:02}") for k in range(60)]
    (tmp_path / "test.tsv").write_text(
        "".join(f"{one}\t{other}\n" for one, other in pairs), encoding="utf-8"
    )
    (tmp_path / "hypotheses.txt").write_text(
        "".join(f"answer {k:02}\n" for k in range(60)), encoding="utf-8"
    )
    assert other_pairs.shown(tmp_path) == [[*pairs[k], f"answer {k:02}"] for k in range(0, 60, 3)]


def test_a_changed_tree_is_refused(tmp_path, monkeypatch, capsys):
    def dirty():
        raise records.Dirty("commit first")

    monkeypatch.setattr(other_pairs, "clean_commit", dirty)
    assert typed(monkeypatch, "--home", tmp_path) == 1
    assert "commit first" in capsys.readouterr().err and not list(tmp_path.iterdir())
