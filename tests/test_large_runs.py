"""The command of the large runs: its options, its plan, its exit status."""
import dataclasses
import errno
import math
import time
from pathlib import Path

import pytest
import torch
from made_up import here, own, store  # noqa: F401
from test_data import one_sentence

from transformer_lit import cli, wmt
from transformer_lit.support import large_runs


def test_the_help_says_what_every_option_is_and_what_stands_otherwise(capsys):
    for action in large_runs.arguments()._actions:
        assert action.help and (action.dest in ("help", "minutes", "size", "way", "corpus") or "default" in action.help), action.dest
    with pytest.raises(SystemExit):
        large_runs.arguments().parse_args(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    for words in "default: 100,000", "default: 25,000", "default: 1,000,000", "exit status 75", "half of the cores":
        assert words in said, words


@pytest.mark.parametrize("option, values", [
    ("vocabulary", "0 -1 259 65537 1e4 x"), ("steps", "0 -5 99999999999999999999 1.5"), ("max-tokens", "0 7 -1"), ("workers", "0 -1 100000"),
    ("minutes", "-1 nan x"), ("peak", "0 -1 nan inf"), ("dropout", "-0.1 1 nan"), ("seed", "-1 99999999999"), ("threads", "0 -2 100000"),
    ("folder", "")])
def test_a_bad_value_is_refused_before_anything_is_done(option, values, capsys, monkeypatch):
    monkeypatch.setattr(wmt, "run_experiment", None)
    for value in values.split(" "):
        with pytest.raises(SystemExit) as stop:
            large_runs.run_command([f"--{option}={value}"])
        assert stop.value.code == 2 and f"argument --{option}: " in capsys.readouterr().err


@pytest.mark.parametrize("given, words", [
    (["--corpus", "wmt15-en-de"], "there is no training set wmt15-en-de"),
    (["--corpus", "general-en-fr"], "general/en-fr is not on this machine")])
def test_a_wrong_name_is_one_sentence(given, words, tmp_path, capsys):
    assert large_runs.run_command([*given, "--folder", str(tmp_path / "run"), "--store", str(tmp_path / "store"), "--threads", "1"]) == 1
    said = capsys.readouterr().err
    assert one_sentence(said) and words in said


def test_one_line_takes_the_paper_from_archives_to_bleu(monkeypatch, tmp_path):
    assert cli.LARGE == wmt.TRAINING_SETS, "the command line offers other training sets than chapter 21 has"
    asked = []
    monkeypatch.setattr(wmt, "run_experiment", lambda e, folder, *more: asked.append((e, folder, more)) or {"scores": []})
    assert cli.main(["train", "--recipe", "wmt14-en-de", "--folder", str(tmp_path), "--threads", "1"]) == 0
    (e, folder, more), = asked
    assert dataclasses.replace(e, training=wmt.PAPER) == wmt.experiment_for() and folder == tmp_path
    assert more[-1] == "python -m transformer_lit.wmt --corpus wmt14-en-de --way paper --size base", "the record's command"
    assert cli.main(["train", "--recipe", "wmt14-en-de", "--epochs", "3"]) == 1 and len(asked) == 1
