"""Nothing is lost: refusals change nothing, one folder has one training, and damaged files end in
one sentence. What a stop leaves: test_interrupted.py."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import translators
from translators import PAIRS, PARTS, TINY, recipe

from transformer_lit import training
from transformer_lit.batching import PairBatches
from transformer_lit.corpora import files
from transformer_lit.recipes.recipes import train_translator
from transformer_lit.runs import limits
from transformer_lit.runs.checkpoints import read_file
from transformer_lit.runs.run import CONFIG, LOCK, Run, only_run
from transformer_lit.runtime import distributed
from transformer_lit.training import Trainer, TrainingConfig
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
    with pytest.raises(ValueError, match="was begun with") as refusal:
        train_translator(folder, different, PARTS | {"train": train or PARTS["train"]}, TEXTS)
    assert name in str(refusal.value)
    assert contents(folder) == before, "a training that is refused must change nothing on the disk"


def test_the_same_training_is_not_repeated(folder):
    before, often = contents(folder), words({"checkpoint_every": 7})  # which is no part of the plan
    assert train_translator(folder, often, PARTS, TEXTS)[1].epoch == 3
    assert contents(folder) == before


def test_a_run_goes_on_in_its_own_precision(folder):
    "On another machine the recipe may ask for another one."
    begun = json.loads((folder / CONFIG).read_text("utf-8"))["training"]["precision"]
    different = words({"precision": {"fp32": "bf16", "bf16": "fp32"}[begun]})
    assert train_translator(folder, different, PARTS, [])[1].config.precision == begun


@pytest.mark.parametrize(
    "config, words_of_error",
    [
        (None, "no config.json"),
        ('{"steps": 5}', "was begun with .*'recipe'"),
        ("[1, 2", "config.json"),
        ("7", "config.json"),
        ("", "config.json"),
    ],
)
def test_a_folder_that_was_begun_by_something_else_is_left_alone(config, words_of_error, folder):
    (folder / CONFIG).unlink()
    if config is not None:
        (folder / CONFIG).write_text(config)
    before = contents(folder)
    with pytest.raises((OSError, ValueError), match=words_of_error):
        train_translator(folder, words(), PARTS, TEXTS)
    assert contents(folder) == before


def alone(folder, pairs=PAIRS[:12], heads=2, **settings):
    translator = translators.words(n_heads=heads)
    config = TrainingConfig(**{"epochs": 1, "max_tokens": 64, **settings})
    batches = PairBatches(translator.encode_pairs(pairs), config)
    return Trainer(translator.model, config, folder=folder), batches


@pytest.mark.parametrize(
    "different, name",
    [
        ({"heads": 4}, "'n_heads': 2"),
        ({"warmup_steps": 9}, "'rate at step 1'"),
        ({"pairs": PAIRS[1:13]}, "'data'"),
    ],
)
def test_training_alone_compares_its_plan_too(different, name, tmp_path):
    trainer, batches = alone(tmp_path)
    trainer.fit(batches)
    before = contents(tmp_path)
    trainer, batches = alone(tmp_path, **different)
    with pytest.raises(ValueError, match=name):
        trainer.fit(batches)
    assert contents(tmp_path) == before
    trainer, batches = alone(tmp_path, epochs=2)
    assert trainer.fit(batches)[-1]["epoch"] == 1, "more epochs go on where the run ended"


# A stop -------------------------------------------------------------------------------------------


def test_a_run_that_pauses_or_is_stopped_by_its_callback_is_saved(tmp_path):
    def on_step(trainer):
        trainer.run.stop_requested = trainer.step == 2

    for step, options in (1, {"max_steps": 1}), (2, {"callback": on_step}):
        trainer, batches = alone(tmp_path, checkpoint_every=0)
        assert trainer.fit(batches, **options)[-1]["step"] == step
        path = tmp_path / "checkpoint.safetensors"
        assert path.exists(), "a run that pauses must be saved first"
        assert read_file(path)[1]["step"] == step


def test_a_second_signal_acts_at_once():
    before, stages = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt), Run(None, {}, []) as run:
        for stage in "first", "second":
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            stages.append((stage, run.should_stop()))
    assert stages == [("first", True)] and signal.getsignal(signal.SIGINT) == before


def test_signals_in_a_thread_are_left_alone():
    before, states = signal.getsignal(signal.SIGINT), []

    def elsewhere():
        with Run(None, {}, []):
            states.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert states == [before]


@pytest.mark.parametrize("kind, steps", [("cpu", 1), ("cuda", 10)])
def test_processes_stop_together(kind, steps, monkeypatch):
    "One of them was asked; GPUs, which would be waited for, ask each other at every tenth step."
    votes, run = [], Run(None, {}, [])
    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    monkeypatch.setattr(distributed, "largest", lambda number: votes.append(number) or 1.0)
    monkeypatch.setattr(distributed, "group_device", lambda: torch.device(kind))
    assert [run.should_stop() for _ in range(steps)] == [False] * (steps - 1) + [True]
    assert votes == [False]


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
            train_translator(tmp_path, words(), PARTS, [])
        assert contents(tmp_path) == before
    finally:
        process.kill()  # as kill -9: no farewell
        process.wait()
        process.stdout.close()
    assert train_translator(tmp_path, words(), PARTS, [])[1].epoch == 3


def test_one_thread_may_ask_twice(tmp_path):
    errors = []

    def second():
        try:
            with only_run(tmp_path):
                errors.append(None)
        except BlockingIOError as error:
            errors.append(error)

    with only_run(tmp_path), only_run(tmp_path / "."):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert errors != [None] and len(errors) == 1


# What is read is looked at ------------------------------------------------------------------------


def test_words_must_be_the_models(folder):
    path = folder / "target_tokenizer.json"
    record = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(record | {"words": record["words"][:-1]}))
    with pytest.raises(ValueError, match="are not its model's"):
        Translator.load(folder)


@pytest.mark.parametrize("name", ["tatoeba-fr", "pocket", "mixture-fr"])
def test_the_shipped_weights_have_their_sums(name, tmp_path):
    shipped = files.shipped(f"data/checkpoints/{name}")
    assert Translator.load(shipped).languages == ("en", "fr")
    for path in shipped.glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    content = bytearray((shipped / "model.safetensors").read_bytes())
    content[-300_000] ^= 1
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match="is not the file that"):
        Translator.load(tmp_path)


def test_a_log_full_of_garbage_is_one_sentence(folder):
    path = folder / "log.jsonl"
    log = path.read_bytes()
    for garbage in b"", b"\xff\xfe\x00" * 50, log[:-30], b"garbage\n" + log:
        path.write_bytes(garbage)
        with pytest.raises(ValueError, match="log.jsonl"):
            train_translator(folder, words(), PARTS, TEXTS)
        assert path.read_bytes() == garbage
    path.write_bytes(log + b"half a li")  # beyond the checkpoint: cut, as after kill -9
    train_translator(folder, words(), PARTS, TEXTS)
    assert path.read_bytes() == log


# The API ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "texts, options, words_of_error",
    [
        (TEXTS, {"beam_size": 0}, "beam_size=0: "),
        (TEXTS, {"beam_size": -1}, "beam_size=-1: "),
        (TEXTS, {"beam_size": 100_000}, "beam_size=100000: "),
        (TEXTS, {"batch_size": 0}, "batch_size=0: "),
        (TEXTS, {"batch_size": -5}, "batch_size=-5: "),
        (["a", "b" * 20_001], {}, "20,001 .* 20,000"),
    ],
)
def test_impossible_questions_are_one_sentence_each(finished, texts, options, words_of_error):
    translator = Translator.load(finished)
    with pytest.raises(ValueError, match=words_of_error):
        translator.translate(texts, **options)
    assert translator.translate(["b" * 2000], beam_size=limits.WIDEST, batch_size=1)


def test_a_folder_knows_its_languages(tmp_path):
    train_translator(tmp_path, recipe(language="de"), PARTS, [], stop_at=1)
    assert Translator.load(tmp_path).languages == ("en", "de")
    record = json.loads((tmp_path / "translator.json").read_text("utf-8"))
    del record["languages"]  # as older folders have it
    (tmp_path / "translator.json").write_text(json.dumps(record))
    assert Translator.load(tmp_path).languages is None


