"""The command `transformer-lit`: no option is forgotten, and what each command prints and returns.
What it refuses: test_refusals.py."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from litbook.commands import typed_today

from transformer_lit import cli, data
from transformer_lit.corpora.files import shipped
from transformer_lit.custom_pair import train
from transformer_lit.recipes import large, recipes
from transformer_lit.serving.files import find_translator
from transformer_lit.serving.lines import input_lines, translate_lines

RECORD = {"scores": [{"set": "test", "metric": "BLEU", "value": 30.5, "references": "first"}]}
COMMANDS = cli.build_parser(cli.COMMANDS)._subparsers._group_actions[0].choices
LARGE, OWN = "train --recipe mixture-en-fr", "train --pairs a.tsv --languages en-de"

# Options ------------------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch, tmp_path):
    "What the three ways to train are called with, instead of training."
    (tmp_path / "a.tsv").write_text("a\tb\n")
    calls = []

    def recorder(name, result=RECORD):
        def call(*args, **more):
            plain = [math.isfinite(x) if isinstance(x, float) else x for x in args]
            plain = [x for x in plain if not str(x).startswith("transformer-lit")]
            calls.append(repr((name, plain, more)))
            return result

        return call

    monkeypatch.setattr(data, "load_corpus", lambda *args: {"corpus": args})
    monkeypatch.setattr(recipes, "train_translator", recorder("recipe", (None, None)))
    monkeypatch.setattr(recipes, "evaluate_and_record", lambda *_: RECORD)
    monkeypatch.setattr(train, "train_on_files", recorder("pairs"))
    monkeypatch.setattr(large, "run_experiment", recorder("large"))
    monkeypatch.setattr(torch, "set_num_threads", lambda n: calls.append(f"threads {n}"))
    monkeypatch.setattr("transformer_lit.runtime.devices.default_device", lambda name: name)
    monkeypatch.setattr(large, "default_device", lambda name: torch.device("cpu"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return calls


def sample_value(action):
    "Something that nobody has as a default."
    if action.nargs == 0:
        return []
    if action.option_strings == ["--with"]:
        return ["seed=7"]
    if action.choices:
        return [next(value for value in ("tiny", "modern", "cpu") if value in action.choices)]
    by_metavar = {"N": "7", "T": "7", "FILE": "a.tsv", "DIR": "d", "MODEL": "pocket"}
    return [by_metavar.get(action.metavar) or "fr-de"]


@pytest.mark.parametrize(
    "action",
    [a for a in COMMANDS["train"]._actions if a.dest not in ("help", "recipe")],
    ids=lambda action: action.option_strings[0],
)
def test_no_option_is_forgotten(action, typed, calls):
    """Each either changes what the training is called with or is refused, and some training takes
    it, whatever options are added."""
    option, works = action.option_strings[0], False
    for line in "train --recipe pocket", OWN, LARGE, LARGE + " --preset modern":
        if option in line:
            works = True
            continue
        assert typed(line).status == 0
        plain = list(calls)
        calls.clear()
        outcome = typed([*line.split(), option, *sample_value(action)])
        if outcome.status == 0:
            assert calls != plain, f"{option} changes nothing"
            works = True
        else:
            assert outcome.status == 1 and len(outcome.err.splitlines()) == 1
        calls.clear()
    assert works, f"no training takes {option}"


@pytest.mark.parametrize("cores, threads", [(1, 1), (2, 1), (3, 1), (16, 8)])
def test_half_of_the_cores_unless_a_number_is_typed(cores, threads, typed, calls, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(cores), raising=False)
    typed(LARGE)
    typed(f"{LARGE} --threads 5")
    monkeypatch.delenv("OMP_NUM_THREADS")
    typed(LARGE)
    numbers = [call for call in calls if call.startswith("threads")]
    assert numbers == ["threads 5", f"threads {threads}"], "--threads is not passed on"


def imported(code, *names):
    code = f"import sys; from transformer_lit import cli; {code}; sys.stderr.write(repr(sorted("
    code += "set(sys.argv[1:]) & set(sys.modules))))"
    command = [sys.executable, "-c", code, *names]
    return subprocess.run(command, capture_output=True, text=True).stderr


def test_a_reader_waits_for_no_import_that_is_not_needed():
    "A clock would measure the machine; what is imported is the same on all of them."
    assert imported("cli.build_parser(cli.COMMANDS)", "torch", "numpy", "requests") == "[]"
    heavy = "sacrebleu", "matplotlib", "pandas", "IPython", "ipywidgets", "requests"
    assert imported("cli.main(['translate', 'Good morning.'])", *heavy, "torch") == "['torch']"


def test_time_is_up_is_status_75(typed, monkeypatch):
    monkeypatch.setattr(large, "run_experiment", lambda *_: None)
    outcome = typed("train --recipe wmt14-en-de --max-minutes 0")
    assert outcome.status == 75 and "runs/wmt14-en-de" in outcome.err


def recorded_commands():
    for line in shipped("results/runs/trainings.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        if "transformer" in record["command"]:
            yield pytest.param(record["command"], id=record.get("name"))


@pytest.mark.parametrize("command", list(recorded_commands()))
def test_recorded_commands_can_be_typed_today(command, typed, calls):
    program, *words = typed_today(command).replace("--init-from runs/", "--init-from ").split()
    words = ["tatoeba-fr" if word.startswith("mixture-f") else word for word in words]
    assert program == "transformer-lit" and typed(words).status == 0


# translate, evaluate, data ------------------------------------------------------------------------


def test_a_model_of_the_book_is_named_and_ones_own_folder_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_translator("pocket") == shipped("data/checkpoints/pocket")
    Path("pocket").mkdir()
    for name in "nowhere", "../pocket", "pocket":
        assert find_translator(name) == Path(name)


def test_lines_are_typed_or_from_a_file(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("\ufeffOne.\r\n\nDeux à deux.\n".encode())
    assert list(input_lines([], path)) == ["One.", "", "Deux à deux."]
    assert list(input_lines(["a", "b"], None)) == ["a", "b"]
    assert [*translate_lines(lambda _: ["b"], ["☃ ?!", "a", "\u200b"])] == ["☃ ?!", "b", "\u200b"]
    path.write_bytes(b"One.\n\xe9t\xe9\n")
    lines = input_lines([], path)
    assert next(lines) == "One."
    with pytest.raises(ValueError, match="line 2 of .*text"):
        next(lines)


def test_the_shipped_translator_translates_and_is_sure(typed):
    assert typed(["translate", "I love you.", ""]).out == "Je t'aime.\n\n"
    assert typed("translate", stdin=b"I love you.\n\n").out == "Je t'aime.\n\n"
    answer, chrf = typed(["translate", "--show-confidence", "I love you."]).out.split("\t")
    assert answer == "Je t'aime." and 0 <= int(chrf) <= 100


def test_the_model_moves_to_its_device(typed, monkeypatch):
    places = []
    model = SimpleNamespace(to=places.append)
    translator = SimpleNamespace(model=model, translate=lambda lines, **_: lines)
    monkeypatch.setattr("transformer_lit.serving.files.load_translator", lambda _: translator)
    monkeypatch.setattr("transformer_lit.runtime.devices.default_device", lambda name: name)
    assert typed("translate --device cuda a").out == "a\n"
    assert places == ["cuda"], "the model stays on the processor"


@pytest.mark.seconds
def test_evaluate_writes_what_it_prints(typed, monkeypatch):
    few = data.load_test_set("pocket", "fr")
    monkeypatch.setattr(data, "load_test_set", lambda *_: tuple(side[:20] for side in few))
    outcome = typed("evaluate --test-set pocket --beam-size 1")
    report = json.loads(Path("scores-pocket.json").read_text("utf-8"))
    assert outcome.status == 0 and f"BLEU {report['one'][0]['value']:.1f}  nrefs:1" in outcome.out
    assert (report["set"], report["beam"], report["sentences"]) == ("pocket", 1, 20)


def test_data_list_and_verify(typed, tmp_path, small_corpora):
    lines = typed("data list").out.splitlines()
    assert len(lines) == sum(map(len, data.CORPUS_LANGUAGES.values()))
    assert str(tmp_path) in lines[1]  # list names the folder in which a corpus lies
    damaged = typed("data verify multi30k --language fr")
    assert (damaged.status, damaged.out.count("DAMAGED")) == (1, 6)
    intact = typed("data verify tatoeba")
    assert (intact.status, intact.out.count("9,001 pairs")) == (0, 2)


# One sentence, one status -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error, status, words",
    [
        (ModuleNotFoundError(name="sacrebleu"), 1, "pip install sacrebleu"),
        (ValueError("a\nb"), 1, "transformer-lit: a b\n"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(28, "No space left on device", "x"), 1, "x: no space left on device"),
        (torch.OutOfMemoryError("CUDA out of memory"), 1, "--device cpu"),
        (RuntimeError("MPS backend out of memory"), 1, "out of memory"),
        (MemoryError(), 1, "out of memory"),
    ],
)
def test_each_mistake_has_its_status(error, status, words, capsys):
    def fail(error):
        raise error

    assert cli.exit_status(lambda: fail(error)) == status and words in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="shapes"):
        cli.exit_status(lambda: fail(RuntimeError("shapes")))  # a fault of ours, which is shown


@pytest.mark.parametrize(
    "code, status",
    [
        ("cli.main(['train', '--help'])", 141),
        ("cli.exit_status(lambda: print('x' * 100_000) or 75)", 141),
        ("cli.exit_status(lambda: print('x') or 75)", 75),
    ],
)
def test_a_reader_that_is_gone_shows_in_the_status_alone(code, status):
    code = f"import sys; from transformer_lit import cli; sys.exit({code})"
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, env=plain)
    process.stdout.close()
    assert (process.stderr.read(), process.wait()) == (b"", status)
