"""The command `transformer-lit`: its options, what it refuses, what each command prints."""

import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

import transformer_lit
from litbook.commands import in_lines, typed_today
from transformer_lit import cli, data
from transformer_lit.corpora.files import shipped
from transformer_lit.custom_pair import train
from transformer_lit.recipes import large, recipes, settings
from transformer_lit.serving.files import find_translator

RECORD = {"scores": [{"set": "test", "metric": "BLEU", "value": 30.5, "references": "first"}]}
COMMANDS = cli.build_parser(cli.COMMANDS)._subparsers._group_actions[0].choices
LARGE, OWN = "train --recipe mixture-en-fr", "train --pairs a.tsv --languages en-de"


@pytest.fixture
def typed(tmp_path, monkeypatch, capsys):
    "Types a command in an empty folder: status, standard output, standard error."
    monkeypatch.chdir(tmp_path)

    def run(line):
        try:
            status = cli.main(line.split() if isinstance(line, str) else line)
        except SystemExit as end:
            status = end.code
        return (status, *capsys.readouterr())

    return run


# Refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line, words",
    [
        ("train --recipe nosuch", "unknown recipe nosuch; choose from words, tatoeba-fr"),
        ("train --languages en-fr", "--languages has no effect with words"),
        ("train --recipe pocket --preset paper", "--preset has no effect with pocket"),
        ("train --recipe pocket --max-steps 5", "steps has no effect with pocket"),
        ("train --recipe wmt14-en-de --epochs 3", "epochs has no effect with wmt14-en-de"),
        ("train --recipe wmt14-en-de --with peak_lr=1", "peak_lr has no effect"),
        ("train --recipe wmt14-en-de --preset modern --with snapshot_every=1", "snapshot_every"),
        ("train --recipe wmt14-en-de --init-from pocket", "begin_with has no effect"),
        ("train --recipe mixture-en-fr --init-from nowhere", "nowhere"),
        (
            "train --with sed=2",
            "sed has no effect with words: choose from accumulation_steps",
        ),
        ("train --with seed=x", "seed=x: expected an integer over 0"),
        ("train --with optimizer=sgd", "optimizer=sgd: expected adam or muon"),
        ("train --with peak_lr=nan", "peak_lr=nan: expected a number over 0"),
        ("train --pairs a.tsv", "what is in a.tsv? Give both languages, as --languages en-de"),
        ("train --pairs nosuch.tsv --languages en-de", "nosuch.tsv: no such file"),
        ("train --pairs a.tsv a.tsv --languages en-de", "one file of two columns, or two"),
        ("train --pairs a.tsv b.tsv c.tsv --languages en-de", "one file of two columns, or two"),
        ("train --pairs a.tsv --recipe pocket", "--recipe has no effect with --pairs"),
        (OWN + " --with seed=2", "seed has no effect with --pairs"),
        (OWN + " --exclude nosuch.tsv", "nosuch.tsv: no such file"),
        ("translate --model nowhere Hello.", "no trained translator in nowhere"),
        ("translate --file nosuch", "nosuch: no such file or directory"),
        ("translate --file .", ".: is a directory"),
        ("evaluate --output no/such.json", "no/such.json can't be written"),
        ("evaluate --output letter.txt", "letter.txt can't be written: name a .json file"),
        ("evaluate --test-set own", "has no test set of its own"),
        ("evaluate --test-set nosuch", "nosuch"),
        ("export .", "is there already: name a new folder"),
        ("data download", "choose from the datasets that there are: pocket (fr), tatoeba"),
        ("data list pocked", "choose from the datasets"),
        ("data list pocket --language de", "choose from the datasets"),
    ],
)
def test_a_mistake_is_one_sentence_and_status_1_and_changes_nothing(line, words, typed, tmp_path):
    (tmp_path / "a.tsv").write_text("a\tb\n")
    status, out, err = typed(line)
    assert (status, out) == (1, "") and words in err, err
    assert err.startswith("transformer-lit: ") and err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.tsv"]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "data eat",
        "train --size huge",
        "train --output-dir=",
        "train --epochs 0",
        "train --threads 1e3",
        "train --max-minutes nan",
        "train --languages en-en",
        "train --with seed",
        "translate --beam-size 65",
        "translate --device gpu",
        "translate a --file b",
        "translate --file b --interactive",
        "translate --nosuch",
    ],
)
def test_a_wrong_option_is_status_2_and_shows_the_usage(line, typed):
    status, out, err = typed(line)
    assert status == 2 and err.startswith("usage: transformer-lit") and "error: " in err


@pytest.fixture
def calls(monkeypatch, tmp_path):
    "What the three ways to train are given, instead of training."
    (tmp_path / "a.tsv").write_text("a\tb\n")
    found = []

    def stand_in(kind, record=RECORD):
        def call(*args, **more):
            args = [
                math.isfinite(arg) if kind == "large" and isinstance(arg, float) else arg
                for arg in args
                if not (isinstance(arg, str) and arg.startswith("transformer-lit"))
            ]
            found.append(repr((kind, args, more)))
            return record

        return call

    monkeypatch.setattr(data, "load_corpus", lambda *given: {"given": given})
    monkeypatch.setattr(recipes, "train_translator", stand_in("recipe", (None, None)))
    monkeypatch.setattr(recipes, "evaluate_and_record", lambda *_: RECORD)
    monkeypatch.setattr(train, "train_on_files", stand_in("pairs"))
    monkeypatch.setattr(large, "run_experiment", stand_in("large"))
    monkeypatch.setattr(torch, "set_num_threads", lambda n: found.append(f"threads {n}"))
    monkeypatch.setattr("transformer_lit.runtime.devices.default_device", lambda name: name)
    monkeypatch.setattr(large, "default_device", lambda name: torch.device("cpu"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return found


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
    """Each either changes what the training is given or is refused, and some training takes it,
    whatever options are added."""
    option, taken = action.option_strings[0], False
    for line in "train --recipe pocket", OWN, LARGE, LARGE + " --preset modern":
        if option in line:
            taken = True
            continue
        assert typed([*line.split()])[0] == 0
        plain = list(calls)
        calls.clear()
        status, _, err = typed([*line.split(), option, *sample_value(action)])
        if status == 0:
            assert calls != plain, f"{option} changes nothing"
            taken = True
        else:
            assert status == 1 and "has no effect with" in err, err
        calls.clear()
    assert taken, f"no training takes {option}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_a_parameter_of_its_command(name):
    parameters = cli.inspect.signature(COMMANDS[name].get_default("run")).parameters
    kinds = {p.kind for p in parameters.values()}
    options = {action.dest for action in COMMANDS[name]._actions} - {"help"}
    assert cli.inspect.Parameter.VAR_KEYWORD in kinds or options == set(parameters)


def test_help_imports_neither_torch_nor_numpy():
    code = "import sys; from transformer_lit import cli; cli.build_parser(cli.COMMANDS);"
    code += "print([m for m in ('torch', 'numpy', 'requests') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_version(typed):
    assert typed("--version") == (0, transformer_lit.__version__ + "\n", "")


# train --------------------------------------------------------------------------------------------


def test_settings_are_fields_of_recipe_training_and_model():
    words = recipes.RECIPES["words"]
    typed = {"pairs": "30", "seed": "7", "dropout": "0", "n_averaged": "2"}
    other = settings.change_settings(words, typed, "words")
    assert (other.pairs, other.n_averaged, other.training.seed) == (30, 2, 7)
    assert other.model == words.model | {"dropout": 0.0} and other.training.seed == 7
    assert settings.change_settings(words, {}, "words") == words
    assert settings.change_settings(words, {"compile": "true"}, "").compile is True


def test_a_large_run_is_an_experiment(monkeypatch):
    e = large.configure_experiment("wmt14-en-fr", "paper", "big", {"eval_every": 6, "dropout": "0"})
    assert (e.eval_every, e.model["dropout"], e.vocab_size) == (6, 0, 32_000)
    assert (e.language, e.training.warmup_steps, e.training.precision) == ("fr", 4000, "fp32") or (
        e.training.precision == "bf16"
    )
    assert not hasattr(e, "temperature")
    mixed = large.configure_experiment("mixture-en-de", "modern", "tiny", {"temperature": 2.0})
    assert (mixed.temperature, mixed.lr_schedule, mixed.model["norm"]) == (2, "linear", "pre")


def test_time_is_up_is_status_75(typed, monkeypatch):
    monkeypatch.setattr(large, "run_experiment", lambda *_: None)
    status, _, err = typed("train --recipe wmt14-en-de --max-minutes 0")
    assert status == 75 and "the same command resumes runs/wmt14-en-de" in err


def test_the_record_keeps_the_command_as_it_was_typed(typed, monkeypatch):
    commands = []
    monkeypatch.setattr(large, "run_experiment", lambda *args: commands.append(args[5]) or RECORD)
    line = "train --recipe wmt14-en-de --with seed=2 --max-steps 9"
    assert typed(line) == (0, "test: BLEU, first reference only 30.500\n", "")
    assert commands == ["transformer-lit " + line]


def recorded_commands():
    for line in shipped("results/runs/trainings.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        if "transformer" in record["command"]:
            yield pytest.param(record["command"], id=record.get("name"))


@pytest.mark.parametrize("command", list(recorded_commands()))
def test_recorded_commands_can_be_typed_today(command, typed, calls):
    program, *words = typed_today(command).replace("--init-from runs/", "--init-from ").split()
    words = ["tatoeba-fr" if word.startswith("mixture-f") else word for word in words]
    status, _, err = typed(words)
    assert (program, status) == ("transformer-lit", 0), err


def test_a_long_command_is_broken_before_an_option():
    assert in_lines("do it") == "do it"
    assert in_lines("do --a 1 --b 2 --c 3", 14) == "do --a 1 \\\n    --b 2 \\\n    --c 3"


# translate, evaluate, export ----------------------------------------------------------------------


def test_a_model_of_the_book_is_named_and_ones_own_folder_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_translator("pocket") == shipped("data/checkpoints/pocket")
    assert find_translator("nowhere") == Path("nowhere")
    assert find_translator("../pocket") == Path("../pocket")
    Path("pocket").mkdir()
    assert find_translator("pocket") == Path("pocket")


def test_lines_are_typed_or_from_a_file_or_from_stdin(tmp_path, monkeypatch):
    path = tmp_path / "text"
    path.write_bytes("\ufeffOne.\r\n\nDeux à deux.\n".encode())
    assert list(cli.input_lines([], path)) == ["One.", "", "Deux à deux."]
    assert list(cli.input_lines(["a", "b"], None)) == ["a", "b"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("Été.\nTwo.".encode())))
    assert list(cli.input_lines([], None)) == ["Été.", "Two."]
    path.write_bytes(b"One.\n\xe9t\xe9\n")
    lines = cli.input_lines([], path)
    assert next(lines) == "One."
    with pytest.raises(ValueError, match="line 2 of .* isn't UTF-8"):
        next(lines)


def test_translations_come_batch_by_batch_in_their_order():
    sizes = []
    upper = lambda batch: sizes.append(len(batch)) or [line.upper() for line in batch]
    assert list(cli.translate_lines(upper, iter("abcde"), size=2)) == list("ABCDE")
    assert sizes == [2, 2, 1] and list(cli.translate_lines(upper, [])) == []


def test_a_conversation_ends_with_the_input(monkeypatch, capsys):
    answers = iter(["hello", " you "])
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers, None) or exit_input())

    def exit_input():
        raise EOFError

    assert list(cli.typed_lines()) == ["hello", "you"]
    assert "Ctrl-D ends" in capsys.readouterr().err


@pytest.mark.parametrize("device", ["cuda", "mps"])
@pytest.mark.parametrize("line", ["translate a", "evaluate", "train", LARGE])
def test_a_device_that_is_not_there_is_refused_before_anything_is_loaded(
    line, device, typed, monkeypatch, tmp_path
):
    for library in torch.cuda, torch.backends.mps:
        monkeypatch.setattr(library, "is_available", lambda: False)
    status, _, err = typed(f"{line} --device {device}")
    assert status == 1 and "PyTorch sees no" in err and err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_shipped_translator_translates_and_is_sure(typed):
    assert typed(["translate", "I love you.", ""]) == (0, "Je t'aime.\n\n", "")
    status, out, _ = typed(["translate", "--show-confidence", "I love you."])
    answer, chrf = out.strip().split("\t")
    assert answer == "Je t'aime." and 0 <= int(chrf) <= 100


def test_the_model_moves_to_its_device(typed, monkeypatch):
    translator = Mock(translate=lambda lines, **_: lines)
    monkeypatch.setattr("transformer_lit.serving.files.load_translator", lambda _: translator)
    monkeypatch.setattr("transformer_lit.runtime.devices.default_device", lambda name: name)
    assert typed("translate --device cuda a") == (0, "a\n", "")
    translator.model.to.assert_called_once_with("cuda")


@pytest.mark.seconds
def test_evaluate_writes_what_it_prints(typed, monkeypatch):
    few = data.load_test_set("pocket", "fr")
    monkeypatch.setattr(data, "load_test_set", lambda *_: tuple(side[:20] for side in few))
    status, out, _ = typed("evaluate --test-set pocket --beam-size 1")
    report = json.loads(Path("scores.json").read_text("utf-8"))
    assert status == 0 and out.startswith(f"pocket: BLEU {report['one'][0]['value']:.1f}  nrefs:1")
    assert (report["set"], report["beam"], report["sentences"]) == ("pocket", 1, 20)


# One sentence, one status -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error, status, words",
    [
        (ModuleNotFoundError(name="sacrebleu"), 1, "pip install sacrebleu"),
        (ValueError("a\nb"), 1, "transformer-lit: a b\n"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(28, "No space left on device", "x"), 1, "x: no space left on device"),
        (torch.OutOfMemoryError("CUDA out of memory"), 1, "on a GPU, try --device cpu"),
        (RuntimeError("MPS backend out of memory"), 1, "out of memory"),
        (MemoryError(), 1, "out of memory"),
    ],
)
def test_each_mistake_has_its_status(error, status, words, capsys):
    def run():
        raise error

    assert cli.exit_status(run) == status and words in capsys.readouterr().err


def test_any_other_error_is_a_fault_of_ours_and_is_shown():
    def run():
        raise RuntimeError("shapes")

    with pytest.raises(RuntimeError, match="shapes"):
        cli.exit_status(run)


@pytest.mark.parametrize(
    "code, status",
    [
        ("cli.main(['train', '--help'])", 0),
        ("sys.exit(cli.exit_status(lambda: print('x' * 100_000) or 75))", 75),
    ],
)
def test_a_reader_that_is_gone_is_no_mistake(code, status):
    code = f"import sys; from transformer_lit import cli; {code}"
    done = subprocess.run(
        ["/bin/bash", "-c", '"$0" -c "$1" | true; exit ${PIPESTATUS[0]}', sys.executable, code],
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"},
    )
    assert done.stderr == "" and done.returncode in (0, status)
