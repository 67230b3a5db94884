"""The command of the large runs: its options, its plan, its exit status."""

import dataclasses
import errno
import json
import math
import time
from pathlib import Path

import pytest
import torch
from made_up import here, own, store  # noqa: F401
from helpers import one_sentence

from transformer_lit import wmt
from transformer_lit import cli
from transformer_lit.recipes import large_runs


def test_the_help_says_what_every_option_is_and_what_stands_otherwise(capsys):
    for action in large_runs.parser()._actions:
        assert action.help and (
            action.dest in ("help", "minutes", "size", "way", "corpus") or "default" in action.help
        ), action.dest
    with pytest.raises(SystemExit):
        large_runs.parser().parse_args(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    for words in (
        "default: 100,000",
        "default: 25,000",
        "default: 1,000,000",
        "exit status 75",
        "half of the cores",
    ):
        assert words in said, words


@pytest.mark.parametrize(
    "option, values",
    [
        ("vocabulary", "0 -1 259 65537 1e4 x"),
        ("steps", "0 -5 99999999999999999999 1.5"),
        ("max-tokens", "0 7 -1"),
        ("workers", "0 -1 100000"),
        ("minutes", "-1 nan x"),
        ("peak", "0 -1 nan inf"),
        ("dropout", "-0.1 1 nan"),
        ("seed", "-1 99999999999"),
        ("threads", "0 -2 100000"),
        ("folder", ""),
    ],
)
def test_a_bad_value_is_refused_before_anything_is_done(option, values, capsys, monkeypatch):
    monkeypatch.setattr(large_runs, "run_experiment", None)
    for value in values.split(" "):
        with pytest.raises(SystemExit) as stop:
            large_runs.run_command([f"--{option}={value}"])
        assert stop.value.code == 2 and f"argument --{option}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "given, words",
    [
        (["--corpus", "wmt15-en-de"], "there is no training set wmt15-en-de"),
        (["--corpus", "general-en-fr"], "general/en-fr is not on this machine"),
    ],
)
def test_a_wrong_name_is_one_sentence(given, words, tmp_path, capsys):
    assert (
        large_runs.run_command(
            [
                *given,
                "--folder",
                str(tmp_path / "run"),
                "--store",
                str(tmp_path / "store"),
                "--threads",
                "1",
            ]
        )
        == 1
    )
    said = capsys.readouterr().err
    assert one_sentence(said) and words in said


def test_one_line_takes_the_paper_from_archives_to_bleu(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(
        large_runs,
        "run_experiment",
        lambda e, folder, *more: asked.append((e, folder, more)) or {"scores": []},
    )
    assert (
        cli.main(["train", "--recipe", "wmt14-en-de", "--folder", str(tmp_path), "--threads", "1"])
        == 0
    )
    ((e, folder, more),) = asked
    assert dataclasses.replace(e, training=wmt.PAPER) == wmt.experiment_for() and folder == tmp_path
    assert more[-2:] == (
        "python -m transformer_lit.wmt --corpus wmt14-en-de --way paper --size base",
        "auto",
    ), "the record's command, and the device"
    assert cli.main(["train", "--recipe", "wmt14-en-de", "--epochs", "3"]) == 1 and len(asked) == 1


def options(words: str):
    return large_runs.parser().parse_args(words.split())


def test_options_become_an_experiment(monkeypatch):
    e = large_runs.experiment_of(
        options(
            "--corpus general-en-fr --way ours --size tiny --vocabulary 8000 --steps 5 --max-tokens"
            " 2048 --peak 1e-3 --seed 3 --precision fp32 --lines 4 --pairs 9 --sample 8"
            " --look-every 6 --warmup 2 --checkpoint-every 4"
        )
    )
    assert e == wmt.experiment_for(
        "general-en-fr",
        "ours",
        "tiny",
        8000,
        dict(max_tokens=2048, seed=3, precision="fp32", warmup=2, checkpoint_every=4),
        steps=5,
        peak=1e-3,
        lines=4,
        pairs=9,
        sample=8,
        look_every=6,
    )
    assert large_runs.experiment_of(options("--keep-every 2")).keep_every == 2
    for idle in "--peak 1e-3", "--way ours --keep-every 2", "--dynamic":
        with pytest.raises(ValueError, match="would change nothing here: leave it out"):
            large_runs.experiment_of(options(idle))
    assert large_runs.experiment_of(
        options("--dropout 0.3")
    ).model == wmt.experiment_for().model | {"dropout": 0.3}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for chip, words, precision, compiled in (
        ((7, 5), "", "fp32", False),
        ((8, 0), "", "bf16", True),
        ((8, 0), "--dynamic", "bf16", "dynamic"),
        ((8, 0), "--no-compile", "bf16", False),
        ((7, 5), "--compile --dynamic", "fp32", "dynamic"),
    ):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: chip)
        assert large_runs.experiment_of(options(words)) == wmt.experiment_for(
            training={"precision": precision, "compile": compiled}
        ), words


def test_the_processor_of_a_machine_with_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (8, 0))
    monkeypatch.setattr(
        large_runs, "resolve_precision", lambda _, device: {"cpu": "fp32", "cuda": "bf16"}[device]
    )
    for device, precision in ("cpu", "fp32"), ("cuda", "bf16"):
        training = large_runs.experiment_of(options(f"--device {device}")).training
        assert (training.precision, training.compile) == (precision, device == "cuda"), device
    assert large_runs.command_line(options("--device cpu")) == large_runs.command_line(
        options("")
    ), "where, not what"


def test_bare_options_are_the_papers():
    bare = options("")
    assert (bare.corpus, bare.way, bare.size, bare.minutes) == (
        "wmt14-en-de",
        "paper",
        "base",
        math.inf,
    )
    assert bare.device == "auto"
    assert bare.peak is None and bare.threads is None and bare.seed is None


def test_a_run_goes_on_in_its_own_numbers_on_another_machine(tmp_path):
    typed = large_runs.parser().parse_args(["--corpus", "general-en-fr"])
    assert vars(large_runs.as_begun(typed, tmp_path)) == vars(typed), "none was begun there"
    for compiled, words in (False, (False, None)), (True, (True, None)), ("dynamic", (True, True)):
        (tmp_path / "plan.json").write_text(
            json.dumps({"training": {"precision": "bf16", "compile": compiled}})
        )
        begun = large_runs.as_begun(typed, tmp_path)
        assert (begun.precision, (begun.compile, begun.dynamic)) == (
            "bf16",
            words,
        ) and typed.precision is None
        assert large_runs.experiment_of(begun).training.compile == compiled
    said = large_runs.parser().parse_args(["--precision", "fp32", "--no-compile"])
    assert (
        large_runs.as_begun(said, tmp_path).precision,
        large_runs.as_begun(said, tmp_path).compile,
    ) == ("fp32", False), "what is said counts"
    (tmp_path / "plan.json").write_text("broken")
    assert vars(large_runs.as_begun(typed, tmp_path)) == vars(
        typed
    ), "the comparison of the plans says so"


def test_the_command_that_trains_the_same():
    given = options("--corpus a-fr --folder b --store c --minutes 9 --look-every 5 --no-compile")
    told = large_runs.command_line(given)
    assert (
        told
        == "python -m transformer_lit.wmt --corpus a-fr --way paper --size base --look-every 5"
        " --no-compile"
    )
    assert large_runs.command_line(options("--compile")).endswith(" --compile")
    assert large_runs.experiment_of(
        large_runs.parser().parse_args(told.split()[3:])
    ) == large_runs.experiment_of(given)


def test_what_the_command_asks_for_and_answers(monkeypatch, capsys):
    asked = []

    def answer(outcome):
        def run_experiment(*given):
            asked.append(given)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr(large_runs, "run_experiment", run_experiment)
        code = large_runs.run_command(["--threads", "1", "--minutes", "2"])
        said = capsys.readouterr()
        return code, (said.out + said.err).strip()

    assert answer({"scores": [{"set": "a", "metric": "BLEU", "value": 1.0}]}) == (0, "a: BLEU 1.00")
    assert asked[0][1:4] == (Path("runs/wmt14-en-de-paper-base"), Path("runs/store-wmt14-en-de"), 1)
    assert 0 < asked[0][4] - time.monotonic() < 121 and asked[0][5].endswith(
        "wmt --corpus wmt14-en-de --way paper --size base"
    )
    code, said = answer(OSError(errno.ENOSPC, "x"))
    assert code == 1 and "the disk is full: make room, and give the same command again" in said
    code, said = answer(None)
    assert code == 75 and "goes on with the same command" in said
    assert answer(ValueError("one\nsentence")) == (1, "transformer-lit: one sentence")
