"""Nothing is lost: refusals change nothing, stops save, one folder has one training, and damaged
files end in one sentence."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from translators import of_subwords, of_words
from transformer_lit import training
from transformer_lit.corpora import files
from transformer_lit.runs import limits, records
from transformer_lit.runs.run import CONFIG as CONFIG_FILE, LOCK, Run, changes, only_run
from transformer_lit.runtime import distributed, progress
from transformer_lit.runs.checkpoints import read_file
from transformer_lit.corpora.files import write_atomic
from transformer_lit.recipes.recipes import Recipe, train_translator
from transformer_lit.tokenization import SubwordTokenizer
from transformer_lit.batching import PairBatches
from transformer_lit.training import Trainer, TrainingConfig
from transformer_lit.serving.files import load_translator
from transformer_lit.translation import Translator

TINY = dict(d_model=8, n_heads=2, d_ff=16, n_encoder_layers=1, n_decoder_layers=1, dropout=0.1)
PAIRS = [
    (f"I see {n} {w}.", f"Je vois {n} {m}.")
    for n in "abcdef"
    for w, m in (("cats", "chats"), ("dogs", "chiens"), ("keys", "clés"))
]
PARTS = {"train": PAIRS[:12], "valid": PAIRS[12:15], "test": PAIRS[15:]}
ASKED = ["I see a cats.", "I see f keys."]


def recipe(settings=(), **changes):
    return Recipe(
        **{
            "tokens": "words",
            "min_frequency": 1,
            "vocab_size": 300,
            "model": TINY,
            "peak_lr": 0.02,
            "training": TrainingConfig(
                **{"epochs": 3, "max_tokens": 64, "checkpoint_every": 2, **dict(settings)}
            ),
            **changes,
        }
    )


def held(folder):
    "Every file with its bytes."
    return {
        path.relative_to(folder): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != LOCK
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    train_translator(folder, recipe(), PARTS, ASKED)
    return folder


def copied(folder, tmp_path):
    for path, data in held(folder).items():
        (tmp_path / path).write_bytes(data)
    return tmp_path


# A refused training -------------------------------------------------------------------------------


def permuted():
    "The same words, the same number of each, two of them exchanged in the French."
    swap = {"chats": "clés", "clés": "chats"}
    return {
        **PARTS,
        "train": [
            (e, " ".join(swap.get(w.rstrip("."), w.rstrip(".")) for w in f.split()) + ".")
            for e, f in PARTS["train"]
        ],
    }


def test_a_run_that_pauses_is_saved(tmp_path):
    made = of_words(PAIRS, min_frequency=1, **TINY)
    config = TrainingConfig(epochs=2, max_tokens=64, checkpoint_every=0)
    Trainer(made.model, config, folder=tmp_path).fit(
        PairBatches(made.encode_pairs(PAIRS), config), max_steps=1
    )
    assert (tmp_path / "checkpoint.safetensors").exists(), "a run that pauses must be saved first"


OTHERWISE = {
    "'epochs': 2": (recipe({"epochs": 2}), PARTS),
    "'n_heads': 4": (recipe(model=TINY | {"n_heads": 4}), PARTS),
    "'optimizer': 'muon'": (recipe(optimizer="muon"), PARTS),
    "'peak_lr': 0.01": (recipe(peak_lr=0.01), PARTS),
    "'seed': 2": (recipe({"seed": 2}), PARTS),
    "'data': ": (recipe(), permuted()),
    "'data': '": (recipe(), {**PARTS, "train": PAIRS[:11]}),
}


def test_a_run_goes_on_in_its_own_precision(trained, tmp_path):
    "On another machine the recipe may ask for another one."
    folder = copied(trained, tmp_path)
    begun = json.loads((folder / CONFIG_FILE).read_text("utf-8"))["training"]["precision"]
    run = train_translator(
        folder, recipe({"precision": {"fp32": "bf16", "bf16": "fp32"}[begun]}), PARTS, []
    )[1]
    assert run.config.precision == begun


@pytest.mark.parametrize("words", OTHERWISE)
def test_a_refused_training_changes_nothing_and_names_what_differs(words, trained, tmp_path):
    folder = copied(trained, tmp_path)
    before, said = held(folder), Translator.load(folder).translate(ASKED)
    with pytest.raises(ValueError, match="was begun with") as refusal:
        train_translator(folder, OTHERWISE[words][0], OTHERWISE[words][1], ASKED)
    assert words in str(refusal.value), f"{refusal.value}\nshould name: {words}"
    assert held(folder) == before, "a training that is refused must change nothing on the disk"
    assert Translator.load(folder).translate(ASKED) == said


def test_the_same_training_goes_on_and_is_not_repeated(trained, tmp_path):
    folder = copied(trained, tmp_path)
    before = held(folder)
    _, again = train_translator(
        folder, recipe({"checkpoint_every": 7}), PARTS, ASKED
    )  # how often is no part of the plan
    assert again.epoch == 3 and held(folder) == before


def test_a_folder_that_was_begun_by_something_else_is_left_alone(trained, tmp_path):
    folder = copied(trained, tmp_path)
    (folder / CONFIG_FILE).unlink()
    before = held(folder)
    with pytest.raises(OSError, match="no config.json to compare with"):
        train_translator(folder, recipe(), PARTS, ASKED)
    (folder / CONFIG_FILE).write_text('{"steps": 5}')
    with pytest.raises(ValueError, match="was begun with .*, and this run has .*'recipe'"):
        train_translator(folder, recipe(), PARTS, ASKED)
    for garbage in "[1, 2", "7", "":
        (folder / CONFIG_FILE).write_text(garbage)
        with pytest.raises(ValueError, match="config.json (is not valid JSON|holds JSON)"):
            train_translator(folder, recipe(), PARTS, ASKED)
    (folder / CONFIG_FILE).unlink()
    assert held(folder) == before
    (tmp_path / "a file").write_text("here")
    with pytest.raises(OSError, match="is a file: name a folder"):
        train_translator(tmp_path / "a file", recipe(), PARTS, ASKED)


def test_training_alone_compares_its_plan_too(tmp_path):
    def job(heads=2, pairs=PAIRS[:12], **settings):
        torch.manual_seed(0)
        made = of_words(PAIRS, min_frequency=1, **TINY | {"n_heads": heads})
        config = TrainingConfig(**{"epochs": 1, "max_tokens": 64, **settings})
        return Trainer(made.model, config, folder=tmp_path).fit(
            PairBatches(made.encode_pairs(pairs), config)
        )

    job()
    before = held(tmp_path)
    for other, words in (
        (dict(heads=4), "'n_heads': 2"),
        (dict(warmup_steps=9), "'rate at step 1'"),
        (dict(pairs=PAIRS[1:13]), "'data'"),
    ):
        with pytest.raises(ValueError) as refusal:
            job(**other)
        assert words in str(refusal.value)
    assert held(tmp_path) == before
    assert job(epochs=2)[-1]["epoch"] == 1, (
        "with a rate that doesn't depend on them, more epochs go on where the run ended"
    )


def test_a_refusal_shows_what_differs_and_nothing_else():
    one, other = (
        {"a": {"n": 1, "m": 2}, "b": [1], "c": 3},
        {"a": {"n": 1, "m": 4}, "b": [1], "d": 5},
    )
    assert changes(one, other) == {"a": {"m": 2}, "c": 3}
    assert changes(other, one) == {"a": {"m": 4}, "d": 5} and not changes(one, one)


# A stop saves -------------------------------------------------------------------------------------


def test_stop_at_saves_where_it_stops(tmp_path):
    r = recipe({"checkpoint_every": 0})
    whole = train_translator(tmp_path / "whole", r, PARTS, [])[1].log
    train_translator(tmp_path / "stopped", r, PARTS, [], stop_at=1)
    assert read_file(tmp_path / "stopped/checkpoint.safetensors", False)[1]["step"] == 1
    run = train_translator(tmp_path / "stopped", r, PARTS, [])[1]
    assert [e.get("loss") for e in run.log] == [e.get("loss") for e in whole]


@pytest.mark.parametrize(
    "number, ends, status",
    [
        (signal.SIGINT, KeyboardInterrupt, None),
        (signal.SIGTERM, SystemExit, 143),
    ],
)
def test_a_signal_saves_between_two_steps_and_says_so(
    number, ends, status, tmp_path, monkeypatch, capsys
):
    r, steps = recipe({"checkpoint_every": 0}), []
    whole = train_translator(tmp_path / "whole", r, PARTS, [])[1].log
    outside = signal.getsignal(number)
    signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)
    step, before = Trainer.train_step, signal.getsignal(number)

    def interrupted(run, *batch):
        steps.append(run.step)
        if len(steps) == 2:
            os.kill(os.getpid(), number)
            time.sleep(0.01)  # the handler has run
        return step(run, *batch)

    monkeypatch.setattr(Trainer, "train_step", interrupted)
    with pytest.raises(ends) as stop:
        train_translator(tmp_path / "stopped", r, PARTS, [])
    said = str(stop.value) if ends is KeyboardInterrupt else capsys.readouterr().err
    assert f"stopped, and saved in {tmp_path / 'stopped'}: the same command goes on there" in said
    assert status is None or stop.value.code == status
    assert read_file(tmp_path / "stopped/checkpoint.safetensors", False)[1]["step"] == 2, (
        "the message must be true"
    )
    assert signal.getsignal(number) == before, "the handlers are put back"
    monkeypatch.undo()
    signal.signal(number, outside)
    run = train_translator(tmp_path / "stopped", r, PARTS, [])[1]
    assert [e.get("loss") for e in run.log] == [e.get("loss") for e in whole], (
        "the stop changed the run"
    )


def test_a_second_signal_acts_at_once_and_other_threads_are_left_alone():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), Run(None, {}, []) as run:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        assert run.should_stop()
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
    assert signal.getsignal(signal.SIGINT) == before
    seen = []

    def elsewhere():
        with Run(None, {}, []) as run:
            seen.append((run.should_stop(), signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [(False, before)]


def test_a_stop_that_nobody_signalled_is_an_end(tmp_path):
    "As a time limit sets it: the run is saved, and the log comes back."
    made = of_words(PAIRS, min_frequency=1, **TINY)
    config = TrainingConfig(epochs=2, max_tokens=64)
    trainer = Trainer(made.model, config, folder=tmp_path)

    def on_step(trainer):
        trainer.run.stop_requested = trainer.step == 2

    assert (
        trainer.fit(PairBatches(made.encode_pairs(PAIRS), config), callback=on_step)[-1]["step"]
        == 2
    )
    assert read_file(tmp_path / "checkpoint.safetensors")[1]["step"] == 2


def test_processes_stop_together(monkeypatch):
    "One of them was asked; GPUs, which would be waited for, ask each other at every tenth step."
    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    votes = []
    monkeypatch.setattr(distributed, "largest", lambda number: votes.append(number) or 1.0)
    for kind, steps in ("cpu", 1), ("cuda", 10):
        monkeypatch.setattr(distributed, "group_device", lambda: torch.device(kind))
        run, votes[:] = Run(None, {}, []), []
        assert [run.should_stop() for _ in range(steps)] == [False] * (steps - 1) + [True]
        assert votes == [False]


def test_a_stop_in_the_middle_of_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "kept"
    path.write_text("old")

    def write(part):
        part.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, write)
    assert held(tmp_path) == {Path("kept"): b"old"}


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
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=env
    )
    try:
        assert other.stdout.readline() == "held\n"
        before = held(tmp_path)
        with pytest.raises(OSError, match="another training is at work in"):
            train_translator(tmp_path, recipe(), PARTS, [])
        assert held(tmp_path) == before
    finally:
        other.kill()  # as kill -9: no farewell
        other.wait()
        other.stdout.close()
    assert train_translator(tmp_path, recipe(), PARTS, [])[1].epoch == 3, (
        "a process that died keeps no lock"
    )


def test_one_thread_may_ask_twice(tmp_path):
    errors = []

    def other():
        with pytest.raises(BlockingIOError, match="another training is at work") as error:
            with only_run(tmp_path):
                pass
        errors.append(error)

    with only_run(tmp_path), only_run(tmp_path / "."):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert errors


# What is read is looked at ------------------------------------------------------------------------


CONFIG = {"source_vocab_size": 10, "target_vocab_size": 10, "d_model": 8, "n_heads": 2}
BROKEN = ["", "{", "[1, 2]", "{}", "null", '{"config": []}', "[" * 100_000] + [
    json.dumps({"config": config})
    for config in (
        {},
        CONFIG,
        CONFIG | {"colour": "red"},
        CONFIG | {"d_model": "8"},
        CONFIG | {"n_heads": 3},
        CONFIG | {"dropout": 2},
    )
]


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_description_is_one_sentence_at_the_door(text, trained, tmp_path):
    folder = copied(trained, tmp_path)
    (folder / "translator.json").write_text(text)
    with pytest.raises(ValueError, match="is no whole translator") as refusal:
        load_translator(folder)
    assert len(str(refusal.value)) < 500 and "\n" not in str(refusal.value)


def test_words_must_be_the_models(trained, tmp_path):
    folder = copied(trained, tmp_path)
    path = folder / "target_tokenizer.json"
    saved = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(saved | {"words": saved["words"][:-1]}))
    with pytest.raises(ValueError, match="are not its model's"):
        Translator.load(folder)


def test_subwords_are_there_whole_and_the_models(tmp_path):
    joint = of_subwords(
        SubwordTokenizer.train((s for pair in PAIRS for s in pair), 300), "fr", **TINY
    )
    joint.save(tmp_path)
    path = tmp_path / "tokenizer.json"
    whole = path.read_text("utf-8")
    for text in "", "{}", whole[:-9], whole.replace('"<eos>"', '"<none>"', 1):
        path.write_text(text, "utf-8")
        with pytest.raises(ValueError, match="is no whole translator"):
            load_translator(tmp_path)
    path.write_text(whole, "utf-8")
    assert load_translator(tmp_path).languages == ("en", "fr")
    path.unlink()
    with pytest.raises((FileNotFoundError, ValueError), match="whole translator|tokenizer.json"):
        load_translator(tmp_path)


def test_the_shipped_weights_have_their_sums(tmp_path):
    for name in "tatoeba-fr", "pocket", "mixture-fr":
        folder = files.shipped(f"data/checkpoints/{name}")
        kept = json.loads((folder / "translator.json").read_text("utf-8"))
        assert kept["sha256"] == files.sha256_file(folder / "model.safetensors")
        raw = bytearray((folder / "model.safetensors").read_bytes())
        (tmp_path / "translator.json").write_text(json.dumps(kept))
        if (folder / "tokenizer.json").exists():
            (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
        raw[-300_000:-100_000] = bytes(255 - b for b in raw[-300_000:-100_000])  # 200 KB, inverted
        (tmp_path / "model.safetensors").write_bytes(raw)
        with pytest.raises(ValueError, match="is not the file that"):
            Translator.load(tmp_path)
        assert Translator.load(folder).languages == ("en", "fr")


def test_a_log_full_of_garbage_is_one_sentence(trained, tmp_path):
    folder = copied(trained, tmp_path)
    log = (folder / "log.jsonl").read_bytes()
    for garbage in (
        b"",
        b"\xff\xfe\x00" * 50,
        log[:-30],
        b"garbage\n" + log,
        log.replace(b"{", b"", 1),
    ):
        (folder / "log.jsonl").write_bytes(garbage)
        with pytest.raises(ValueError, match="log.jsonl"):
            train_translator(folder, recipe(), PARTS, ASKED)
        assert (folder / "log.jsonl").read_bytes() == garbage
    # beyond the checkpoint: cut, as after kill -9
    (folder / "log.jsonl").write_bytes(log + b"half a li")
    train_translator(folder, recipe(), PARTS, ASKED)
    assert (folder / "log.jsonl").read_bytes() == log


# The API ------------------------------------------------------------------------------------------


def test_impossible_numbers_are_one_sentence_each(trained):
    translator = Translator.load(trained)
    for wrong in (
        {"beam_size": 0},
        {"beam_size": -1},
        {"beam_size": 100_000},
        {"batch_size": 0},
        {"batch_size": -5},
    ):
        ((name, value),) = wrong.items()
        with pytest.raises(ValueError, match=f"{name}={value}: "):
            translator.translate(ASKED, **wrong)
    assert translator.translate(ASKED, beam_size=limits.WIDEST, batch_size=1)


def test_no_pairs_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match="no pairs to train on"):
        train_translator(tmp_path / "none", recipe(), {"train": [], "valid": [], "test": []})
    assert not (tmp_path / "none").exists()


def test_a_line_without_end_is_refused_and_a_single_word_lives(trained):
    translator = Translator.load(trained)
    with pytest.raises(ValueError, match="a line has 20,001 characters, 20,000 are the most"):
        translator.translate(["a", "b" * 20_001])
    assert len(translator.translate(["b" * 2000])) == 1


def test_languages_are_kept(trained, tmp_path):
    assert Translator.load(trained).languages == ("en", "fr")
    train_translator(tmp_path, recipe(tokens="subwords", language="de"), PARTS, [], stop_at=1)
    assert Translator.load(tmp_path).languages == ("en", "de")
    kept = json.loads((tmp_path / "translator.json").read_text("utf-8"))
    del kept["languages"]  # as older folders have it
    (tmp_path / "translator.json").write_text(json.dumps(kept))
    assert Translator.load(tmp_path).languages is None


@pytest.mark.skipif(os.name == "nt", reason="file modes are Unix's")
def test_every_file_has_the_mode_of_any_other_file(tmp_path):
    old = os.umask(0o022)
    try:
        train_translator(tmp_path, recipe(n_averaged=1), PARTS, ASKED)
    finally:
        os.umask(old)
    assert {oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()} == {"0o644"}


def test_the_commit_is_the_books_and_not_the_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in (
        "git init -q .",
        "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m strange",
    ):
        subprocess.run(command.split(), check=True)
    strange = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True
    ).stdout.strip()
    assert strange and records.git_commit() != strange


# Progress -----------------------------------------------------------------------------------------


def test_off_a_terminal_progress_is_seldom_and_in_a_notebook_absent(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    with progress.bar(200, "epoch 2", done=50) as shown:
        assert shown.mininterval == 30 and shown.n == 50
        shown.update(150)
    assert capsys.readouterr().err == "", "what is over at once shows nothing"
    for quiet in True, False:
        monkeypatch.setitem(sys.modules, "ipykernel", object())
        assert progress.bar(None, "x", quiet=quiet).disable
