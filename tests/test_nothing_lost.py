"""Nothing is lost: refusals change nothing, one folder has one training, and damaged files end in
one sentence. What a stop leaves: test_interrupted.py."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from translators import PAIRS, PARTS, TINY, recipe

from transformer_lit import training
from transformer_lit.corpora import files
from transformer_lit.recipes.recipes import train_translator
from transformer_lit.runs import limits
from transformer_lit.runs.run import CONFIG, LOCK, Run
from transformer_lit.runtime import devices
from transformer_lit.training import TrainingConfig
from transformer_lit.translation import Translator

TEXTS = ["I see a cats.", "I see f keys."]


def words(training=(), **changes):
    settings = {"epochs": 3, "max_tokens": 64, "checkpoint_every": 2, **dict(training)}
    plain = recipe(tokens="words", min_frequency=1)
    return replace(plain, **{"model": TINY, **changes}, training=TrainingConfig(**settings))


def contents(folder):
    "Every file with its bytes."
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != LOCK)
    return {path.relative_to(folder): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    train_translator(folder, words(), PARTS, TEXTS)
    return folder


@pytest.fixture
def folder(finished, tmp_path):
    "A copy of a folder in which a training has ended."
    for path, content in contents(finished).items():
        (tmp_path / path).write_bytes(content)
    return tmp_path


# A refused training -------------------------------------------------------------------------------

EXCHANGED = {"chats": "clés", "clés": "chats"}
PERMUTED = [  # the same words, the same number of each, two of them exchanged in the French
    (english, " ".join(EXCHANGED.get(word, word) for word in french[:-1].split()) + ".")
    for english, french in PARTS["train"]
]


@pytest.mark.parametrize(
    "different, train, name",
    [
        (words({"epochs": 2}), None, "'epochs': 2"),
        (words({"seed": 2}), None, "'seed': 2"),
        (words(model=TINY | {"n_heads": 4}), None, "'n_heads': 4"),
        (words(optimizer="muon"), None, "'optimizer': 'muon'"),
        (words(peak_lr=0.01), None, "'peak_lr': 0.01"),
        (words(), PERMUTED, "'data': "),
        (words(), PAIRS[:11], "'data': '"),
    ],
    ids=["epochs", "seed", "heads", "optimizer", "peak", "permuted", "fewer"],
)
def test_a_refused_training_changes_nothing_and_names_what_differs(different, train, name, folder):
    before = contents(folder)
    with pytest.raises(ValueError) as refusal:
        train_translator(folder, different, PARTS | {"train": train or PARTS["train"]}, TEXTS)
    assert name in str(refusal.value)
    assert contents(folder) == before  # a training that is refused must change nothing on the disk


def test_a_run_goes_on_in_its_own_precision(folder, monkeypatch):
    "On another machine `auto` is another one; one that is asked for is not ignored."
    begun = json.loads((folder / CONFIG).read_text("utf-8"))["training"]["precision"]
    other = {"fp32": "bf16", "bf16": "fp32"}[begun]
    auto = {"auto": other, begun: begun, other: other}
    monkeypatch.setattr(devices, "resolve_precision", lambda name, _: auto[name])
    run = words({"precision": "auto"})
    assert train_translator(folder, run, PARTS, [])[1].config.precision == begun
    with pytest.raises(ValueError, match="precision"):
        train_translator(folder, words({"precision": other}), PARTS, [])


@pytest.mark.parametrize(
    "config, words_of_error",
    [
        (None, "no config.json"),
        ('{"steps": 5}', "'recipe'"),
        ("[1, 2", "config.json"),
    ],
)
def test_a_folder_that_was_begun_by_something_else_is_left_alone(config, words_of_error, folder):
    (folder / CONFIG).unlink()
    if config:
        (folder / CONFIG).write_text(config)
    before = contents(folder)
    with pytest.raises((OSError, ValueError), match=words_of_error):
        train_translator(folder, words(), PARTS, TEXTS)
    assert contents(folder) == before


# A stop -------------------------------------------------------------------------------------------


def test_a_second_signal_acts_at_once():
    before, stages = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt), Run(None, {}, []) as run:
        for stage in "first", "second":
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            stages.append((stage, run.should_stop()))
    assert stages == [("first", True)] and signal.getsignal(signal.SIGINT) == before


# One folder, one training -------------------------------------------------------------------------

HOLD = """
import sys, time
from pathlib import Path
from transformer_lit.runs.run import only_run
with only_run(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_folder_has_one_training_and_a_dead_process_holds_no_lock(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(Path(training.__file__).parents[1])}
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    try:
        assert process.stdout.readline() == "held\n"
        before = contents(tmp_path)
        with pytest.raises(OSError, match="another training is at work in"):
            begin = (tmp_path / "test.tsv").touch
            train_translator(tmp_path, words(), PARTS, [], begin=begin)
        assert contents(tmp_path) == before, "a refused command changes nothing"
    finally:
        process.kill()  # as kill -9: no farewell
        process.wait()
        process.stdout.close()
    assert train_translator(tmp_path, words(), PARTS, [])[1].epoch == 3


# What is read is looked at ------------------------------------------------------------------------


def test_words_must_be_the_models(folder):
    path = folder / "target_tokenizer.json"
    record = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(record | {"words": record["words"][:-1]}))
    with pytest.raises(ValueError, match="are not its model's"):
        Translator.load(folder)


@pytest.mark.parametrize("name", ["open-fr", "tatoeba-fr", "pocket", "mixture-fr"])
def test_the_shipped_weights_have_their_sums(name, tmp_path):
    shutil.copytree(files.shipped(f"data/checkpoints/{name}"), tmp_path / "a")
    assert Translator.load(tmp_path / "a").languages == ("en", "fr")
    path = tmp_path / "a" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-300_000] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not the file that"):
        Translator.load(tmp_path / "a")


def test_a_log_full_of_garbage_is_one_sentence(folder):
    path = folder / "log.jsonl"
    log = path.read_bytes()
    for garbage in b"", b"\xff\xfe\x00" * 50, log[:-30], b"garbage\n" + log:
        path.write_bytes(garbage)
        with pytest.raises(ValueError, match="log.jsonl"):
            train_translator(folder, words(), PARTS, TEXTS)
        assert path.read_bytes() == garbage


# The API ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option", [{"beam_size": n} for n in (0, -1, 100_000)] + [{"batch_size": n} for n in (0, -5)]
)
def test_impossible_questions_are_one_sentence_each(finished, option):
    translator = Translator.load(finished)
    ((name, n),) = option.items()
    with pytest.raises(ValueError, match=f"{name}={n}: "):
        translator.translate(TEXTS, **option)
    with pytest.raises(ValueError, match="20,001 .* 20,000"):
        translator.translate(["a", "b" * 20_001])
    assert translator.translate(["b" * 2000], beam_size=limits.WIDEST, batch_size=1)


def test_a_folder_of_an_older_version_knows_no_languages(folder):
    record = json.loads((folder / "translator.json").read_text("utf-8"))
    assert Translator.load(folder).languages == tuple(record.pop("languages"))
    (folder / "translator.json").write_text(json.dumps(record))
    assert Translator.load(folder).languages is None
