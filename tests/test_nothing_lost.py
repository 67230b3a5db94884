"""Nothing is lost: refusals change nothing, stops save, one folder has one training, and damaged
files end in one sentence."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from transformer_lit import training
from transformer_lit.masks import BOS, EOS
from transformer_lit.corpora import files
from transformer_lit.recipes import recipes
from transformer_lit.runs import limits, lock, plan, records, stops, weights
from transformer_lit.runtime import progress
from transformer_lit.runs.checkpoints import model_tensors, read_file, write_file
from transformer_lit.corpora.files import write_atomic
from transformer_lit.recipes.recipes import Recipe, train_translator
from transformer_lit.tokens import Subwords
from transformer_lit.training import PairBatches, Trainer, TrainingConfig, save_checkpoint
from transformer_lit.translation import (
    create_joint,
    create_translator,
    from_pretrained,
    save_pretrained,
)

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
            "at_least": 1,
            "size": 300,
            "model": TINY,
            "peak": 0.02,
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
        if path.is_file()
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


def test_a_plan_that_differs_is_noticed():
    for other in {"a": 2}, {"b": 1}, {"a": 1, "b": 1}:
        assert plan.differences({"a": 1}, other), "a difference of plans isn't noticed"


def test_a_run_that_pauses_is_saved(tmp_path):
    made = create_translator(PAIRS, at_least=1, **TINY)
    config = TrainingConfig(epochs=2, max_tokens=64, checkpoint_every=0)
    Trainer(made.model, config, folder=tmp_path).fit(
        PairBatches(made.encode_pairs(PAIRS), config), 1
    )
    assert (tmp_path / "checkpoint.safetensors").exists(), "a run that pauses must be saved first"


OTHERWISE = {
    "epochs=3; now epochs=2": (recipe({"epochs": 2}), PARTS),
    "n_heads=2; now n_heads=4": (recipe(model=TINY | {"n_heads": 4}), PARTS),
    "d_ff=16; now d_ff=8": (recipe(model=TINY | {"d_ff": 8}), PARTS),
    "dropout=0.1; now dropout=0.0": (recipe(model=TINY | {"dropout": 0.0}), PARTS),
    "optimizer=adam; now optimizer=muon": (recipe(optimizer="muon"), PARTS),
    "peak=0.02; now peak=0.01": (recipe(peak=0.01), PARTS),
    "warmup=400; now warmup=3": (recipe({"warmup": 3}), PARTS),
    "smoothing=0.1; now smoothing=0.2": (recipe({"smoothing": 0.2}), PARTS),
    "seed=1; now seed=2": (recipe({"seed": 2}), PARTS),
    "max_tokens=64; now max_tokens=60": (recipe({"max_tokens": 60}), PARTS),
    "language=fr; now language=de": (recipe(language="de", tokens="subwords"), PARTS),
    "tokens=words; now tokens=subwords": (recipe(tokens="subwords"), PARTS),
    "pairs=none; now pairs=11": (recipe(pairs=11), {**PARTS, "train": PAIRS[:11]}),
    "corpus=tatoeba; now corpus=pocket": (recipe(corpus="pocket"), PARTS),
    "other data": (recipe(), permuted()),
    "pairs=12; now pairs=11": (recipe(), {**PARTS, "train": PAIRS[:11]}),
}


def test_a_run_goes_on_in_its_own_precision(trained, tmp_path):
    "On another machine the recipe may ask for another one."
    folder = copied(trained, tmp_path)
    begun = json.loads((folder / "plan.json").read_text("utf-8"))["training"]["precision"]
    run = train_translator(
        folder, recipe({"precision": {"fp32": "bf16", "bf16": "fp32"}[begun]}), PARTS, []
    )[1]
    assert run.config.precision == begun


@pytest.mark.parametrize("words", OTHERWISE)
def test_a_refused_training_changes_nothing_and_names_what_differs(words, trained, tmp_path):
    folder = copied(trained, tmp_path)
    before, said = held(folder), from_pretrained(folder).translate(ASKED)
    with pytest.raises(ValueError, match="was begun with") as refusal:
        train_translator(folder, OTHERWISE[words][0], OTHERWISE[words][1], ASKED)
    assert words in str(refusal.value), f"{refusal.value}\nshould name: {words}"
    assert held(folder) == before, "a training that is refused must change nothing on the disk"
    assert from_pretrained(folder).translate(ASKED) == said


def test_the_same_training_goes_on_and_is_not_repeated(trained, tmp_path):
    folder = copied(trained, tmp_path)
    before = held(folder)
    _, again = train_translator(
        folder, recipe({"checkpoint_every": 7}), PARTS, ASKED
    )  # how often is no part of the plan
    assert again.epoch == 3 and held(folder) == before


def test_a_folder_that_was_begun_by_something_else_is_left_alone(trained, tmp_path):
    folder = copied(trained, tmp_path)
    (folder / plan.NAME).unlink()
    before = held(folder)
    with pytest.raises(OSError, match="no plan.json to compare with"):
        train_translator(folder, recipe(), PARTS, ASKED)
    (folder / plan.NAME).write_text('{"steps": 5}')
    with pytest.raises(ValueError, match="begun by another command"):
        train_translator(folder, recipe(), PARTS, ASKED)
    (folder / plan.NAME).write_text("[1, 2")
    with pytest.raises(ValueError, match="plan.json can't be read"):
        train_translator(folder, recipe(), PARTS, ASKED)
    (folder / plan.NAME).unlink()
    assert held(folder) == before
    (tmp_path / "a file").write_text("here")
    with pytest.raises(OSError, match="is a file: name a folder"):
        train_translator(tmp_path / "a file", recipe(), PARTS, ASKED)


def test_training_alone_compares_its_plan_too(tmp_path):
    def job(heads=2, pairs=PAIRS[:12], **settings):
        torch.manual_seed(0)
        made = create_translator(PAIRS, at_least=1, **TINY | {"n_heads": heads})
        config = TrainingConfig(**{"epochs": 1, "max_tokens": 64, **settings})
        return Trainer(made.model, config, folder=tmp_path).fit(
            PairBatches(made.encode_pairs(pairs), config)
        )

    job()
    before = held(tmp_path)
    for other, words in (
        (dict(heads=4), "n_heads=2; now n_heads=4"),
        (dict(warmup=9), "rate at step 1"),
        (dict(pairs=PAIRS[1:13]), "other data"),
    ):
        with pytest.raises(ValueError) as refusal:
            job(**other)
        assert words in str(refusal.value)
    assert held(tmp_path) == before
    assert (
        job(epochs=2)[-1]["epoch"] == 2
    ), "with a rate that doesn't depend on them, more epochs go on where the run ended"


def test_differences_are_named_by_their_path_where_a_name_stands_twice():
    assert plan.differences(
        {"a": {"n": 1}, "b": {"n": 1}, "c": "x" * 64}, {"a": {"n": 2}, "b": {"n": 1}, "c": "y" * 64}
    ) == ["a.n=1; now a.n=2", "other c"]
    assert (
        plan.differences({"a": [1, 2]}, {"a": (1, 2)}) == []
    ), "a tuple comes back from JSON as a list"
    assert plan.differences({"gone": 1}, {"new": None}) == [
        "no new; now new=none",
        "gone=1; now no gone",
    ]


# A stop saves -------------------------------------------------------------------------------------


def test_stop_at_saves_where_it_stops(tmp_path):
    r = recipe({"checkpoint_every": 0})
    whole = train_translator(tmp_path / "whole", r, PARTS, [])[1].log
    train_translator(tmp_path / "stopped", r, PARTS, [], stop_at=1)
    assert read_file(tmp_path / "stopped/checkpoint.safetensors", False)[1]["at"]["step"] == 1
    run = train_translator(tmp_path / "stopped", r, PARTS, [])[1]
    assert [e.get("loss") for e in run.log] == [e.get("loss") for e in whole]


@pytest.mark.parametrize(
    "number, ends, status",
    [
        (signal.SIGINT, KeyboardInterrupt, None),
        (signal.SIGTERM, SystemExit, 143),
        (signal.SIGHUP, SystemExit, 129),
    ],
)
def test_a_signal_saves_between_two_steps_and_says_so(
    number, ends, status, tmp_path, monkeypatch, capsys
):
    r, steps = recipe({"checkpoint_every": 0}), []
    whole = train_translator(tmp_path / "whole", r, PARTS, [])[1].log
    outside = signal.getsignal(number)
    signal.signal(
        number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler
    )  # under nohup SIGHUP is ignored, and stays so
    step, before = Trainer.train_step, [signal.getsignal(s) for s in stops.SIGNALS]

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
    assert (
        f"stopped at step 2, saved in {tmp_path / 'stopped'}: the same command goes on there"
        in said
    )
    assert status is None or stop.value.code == status
    assert (
        read_file(tmp_path / "stopped/checkpoint.safetensors", False)[1]["at"]["step"] == 2
    ), "the message must be true"
    assert [signal.getsignal(s) for s in stops.SIGNALS] == before, "the handlers are put back"
    monkeypatch.undo()
    signal.signal(number, outside)
    run = train_translator(tmp_path / "stopped", r, PARTS, [])[1]
    assert [e.get("loss") for e in run.log] == [
        e.get("loss") for e in whole
    ], "the stop changed the run"


def test_a_signal_in_the_last_look_is_heard_too(tmp_path, monkeypatch):
    loss = recipes.validation_loss

    def interrupted(*some):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        return loss(*some)

    monkeypatch.setattr(recipes, "validation_loss", interrupted)
    with pytest.raises(KeyboardInterrupt, match="the same command goes on there"):
        train_translator(tmp_path, recipe({"checkpoint_every": 0, "epochs": 1}), PARTS, [])
    monkeypatch.undo()
    assert (
        train_translator(tmp_path, recipe({"checkpoint_every": 0, "epochs": 1}), PARTS, [])[1].log[
            -1
        ]["kind"]
        == "epoch"
    )


def test_a_second_signal_acts_at_once_and_other_threads_are_left_alone():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), stops.heard() as asked:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        assert asked
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
    assert signal.getsignal(signal.SIGINT) == before
    seen = []

    def elsewhere():
        with stops.heard() as asked:
            seen.append((bool(asked), signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [(False, before)]


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

HOLD ="""
import sys, time
from transformer_lit.runs import lock
with lock.only_training(sys.argv[1]):
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
    assert (
        train_translator(tmp_path, recipe(), PARTS, [])[1].epoch == 3
    ), "a process that died keeps no lock"


def test_two_threads_are_two_trainings_and_one_may_ask_twice(tmp_path):
    found = []

    def other():
        try:
            with lock.only_training(tmp_path):
                found.append("taken")
        except OSError as error:
            found.append(str(error))

    with lock.only_training(tmp_path), lock.only_training(tmp_path / "."):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert "another training is at work" in found[0]
    with lock.only_training(tmp_path), lock.only_training(None):
        pass


# What is read is looked at ------------------------------------------------------------------------


def test_a_config_is_compared_with_the_header_before_memory_is_taken(trained, tmp_path):
    folder = copied(trained, tmp_path)
    kept = json.loads((folder / "translator.json").read_text("utf-8"))
    for packed in False, True:
        if packed:
            save_pretrained(from_pretrained(trained), folder)
        for name, value in (
            ("d_model", 200_000),
            ("d_ff", 10**9),
            ("n_encoder_layers", 10**8),
            ("n_decoder_layers", 10**8),
        ):
            (folder / "translator.json").write_text(
                json.dumps(kept | {"config": kept["config"] | {name: value}})
            )
            began = time.monotonic()
            with pytest.raises(ValueError, match=f"{name}={value} and .* holds {name}="):
                from_pretrained(folder)
            assert time.monotonic() - began < 60, "refused in a moment"


CONFIG = {"source_vocab": 10, "target_vocab": 10, "d_model": 8, "n_heads": 2}
BROKEN = ["", "{", "[1, 2]", "{}", "null", '{"config": []}', '{"config": {}}', "[" * 100_000] + [
    json.dumps(x)
    for x in (
        {"config": CONFIG | {"colour": "red"}},
        {"config": CONFIG | {"d_model": "8"}},
        {"config": CONFIG | {"d_model": 8.5}},
        {"config": CONFIG | {"d_model": -8}},
        {"config": CONFIG | {"d_model": 0}},
        {"config": CONFIG | {"d_model": True}},
        {"config": CONFIG | {"tied": 1}},
        {"config": CONFIG | {"n_heads": 3}},
        {"config": CONFIG | {"norm": "mid"}},
        {"config": CONFIG | {"dropout": 2}},
        {"config": CONFIG, "source": "abc"},
        {"config": CONFIG, "source": ["a"]},
        {"config": CONFIG, "source": [1], "target": [2], "language": "fr"},
        {"config": CONFIG, "source": ["a"], "target": ["b"]},
        {"config": CONFIG, "languages": ["en"]},
        {"config": CONFIG, "languages": "en"},
        {"config": {"d_model": None, **CONFIG}},
    )
]


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_description_is_one_sentence(text, trained, tmp_path):
    folder = copied(trained, tmp_path)
    (folder / "translator.json").write_text(text)
    with pytest.raises(ValueError, match="translator.json") as refusal:
        from_pretrained(folder)
    assert len(str(refusal.value)) < 500 and "\n" not in str(refusal.value)


def test_word_lists_must_be_the_models(trained, tmp_path):
    folder = copied(trained, tmp_path)
    kept = json.loads((folder / "translator.json").read_text("utf-8"))
    (folder / "translator.json").write_text(json.dumps(kept | {"target": kept["target"][:-1]}))
    with pytest.raises(ValueError, match="translator.json lists"):
        from_pretrained(folder)


def test_subwords_are_there_whole_and_the_models(tmp_path):
    joint = create_joint(Subwords.build((s for pair in PAIRS for s in pair), 300), "fr", **TINY)
    save_pretrained(joint, tmp_path)
    path = tmp_path / "tokenizer.json"
    whole = path.read_text("utf-8")
    path.unlink()
    with pytest.raises(OSError, match="tokenizer.json is missing"):
        from_pretrained(tmp_path)
    high = json.loads(whole)
    high["model"]["vocab"]["Zz"] = (
        high["model"]["vocab"].pop(max(high["model"]["vocab"], key=high["model"]["vocab"].get))
        + 5000
    )
    for text in (
        "",
        "{}",
        "[]",
        whole[:-9],
        json.dumps(high),
        whole.replace('"<eos>"', '"<none>"', 1),
    ):
        path.write_text(text, "utf-8")
        if text == whole:
            continue
        with pytest.raises(ValueError, match="tokenizer.json"):
            from_pretrained(tmp_path)
    path.write_text(whole, "utf-8")
    assert from_pretrained(tmp_path).languages == ("en", "fr")


@pytest.mark.parametrize("packed", [True, False])
def test_every_changed_byte_of_the_weights_is_noticed(packed, trained, tmp_path):
    folder, name = copied(trained, tmp_path), (
        "model.safetensors" if packed else "checkpoint.safetensors"
    )
    if packed:
        save_pretrained(from_pretrained(trained), folder)
    whole = (folder / name).read_bytes()
    start = 8 + int.from_bytes(whole[:8], "little")
    model = [
        i
        for i in range(start, len(whole), 97)
        if any(n.startswith("model.") for n in read_names(folder / name, i - start))
    ]
    for i in model[:: max(1, len(model) // 12)]:
        (folder / name).write_bytes(whole[:i] + bytes([255 - whole[i]]) + whole[i + 1 :])
        with pytest.raises(ValueError, match="is damaged|nan or inf"):
            from_pretrained(folder)
    for cut in whole[:-5], whole[:start], whole[:3], b"", b"\x80\x05pickle", b"<html>no</html>":
        (folder / name).write_bytes(cut)
        with pytest.raises(ValueError, match="no whole checkpoint"):
            from_pretrained(folder)


def read_names(path, at):
    "The tensors whose bytes lie at `at` in the file's data."
    raw = path.read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    return [
        name
        for name, told in header.items()
        if "data_offsets" in told and told["data_offsets"][0] <= at < told["data_offsets"][1]
    ]


def test_a_damaged_optimizer_state_is_refused_at_resuming(trained, tmp_path):
    folder = copied(trained, tmp_path)
    path = folder / "checkpoint.safetensors"
    raw = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(raw[:8], "little")
    at = next(
        i
        for i in range(0, len(raw) - start, 8)
        if any("exp_avg_sq" in name for name in read_names(path, i))
    )
    raw[start + at] ^= 255
    path.write_bytes(raw)
    with pytest.raises(ValueError, match="is damaged: optimizer"):
        train_translator(folder, recipe(), PARTS, ASKED)


def test_nan_and_inf_are_refused(trained, tmp_path):
    for value in math.nan, math.inf:
        translator = from_pretrained(trained)
        save_pretrained(translator, tmp_path, "fp32")
        good = (tmp_path / "model.safetensors").read_bytes()
        with torch.no_grad():
            translator.model.encoder.layers[0].feed_forward[0].bias[3] = value
        with pytest.raises(ValueError, match="nan or inf in model.encoder"):
            save_pretrained(translator, tmp_path, "fp32")
        assert (tmp_path / "model.safetensors").read_bytes() == good, "a good file was written over"
        write_file(
            tmp_path / "model.safetensors", model_tensors(translator.model), {"precision": "fp32"}
        )
        with pytest.raises(ValueError, match="nan or inf in model.encoder"):
            from_pretrained(tmp_path)


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
        with pytest.raises(ValueError, match="is damaged"):
            from_pretrained(tmp_path)
        assert from_pretrained(folder).languages == ("en", "fr")


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
        with pytest.raises(ValueError, match="log.jsonl is not the log"):
            train_translator(folder, recipe(), PARTS, ASKED)
        assert (folder / "log.jsonl").read_bytes() == garbage
    (folder / "log.jsonl").write_bytes(
        log + b"half a li"
    )  # beyond the checkpoint: cut, as after kill -9
    train_translator(folder, recipe(), PARTS, ASKED)
    assert (folder / "log.jsonl").read_bytes() == log


# The API ------------------------------------------------------------------------------------------


def test_impossible_numbers_are_one_sentence_each(trained):
    translator = from_pretrained(trained)
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
    for wrong in (
        {"epochs": 0},
        {"clip": -1},
        {"clip": math.nan},
        {"max_tokens": 0},
        {"warmup": 0},
        {"accumulate": 0},
        {"smoothing": -0.1},
    ):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}="):
            TrainingConfig(**wrong)


def test_no_pairs_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match="no pairs to train on"):
        train_translator(tmp_path / "none", recipe(), {"train": [], "valid": [], "test": []})
    assert not (tmp_path / "none").exists()


def test_a_line_without_end_is_refused_and_a_single_word_lives(trained):
    translator = from_pretrained(trained)
    with pytest.raises(ValueError, match="a line has 20,001 characters, 20,000 are the most"):
        translator.translate(["a", "b" * 20_001])
    assert len(translator.translate(["b" * 2000])) == 1


def test_languages_are_kept(trained, tmp_path):
    assert from_pretrained(trained).languages == ("en", "fr")
    train_translator(tmp_path, recipe(tokens="subwords", language="de"), PARTS, [], stop_at=1)
    assert from_pretrained(tmp_path).languages == ("en", "de")
    kept = json.loads((tmp_path / "translator.json").read_text("utf-8"))
    del kept["languages"]  # as older folders have it
    (tmp_path / "translator.json").write_text(json.dumps(kept))
    assert from_pretrained(tmp_path).languages is None


@pytest.mark.skipif(os.name == "nt", reason="file modes are Unix's")
def test_every_file_has_the_mode_of_any_other_file(tmp_path):
    old = os.umask(0o022)
    try:
        translator, run = train_translator(tmp_path, recipe(average=1), PARTS, ASKED)
        (tmp_path / "archive").write_bytes(b"pairs")
        recipes.score_and_record(
            tmp_path, "by hand", recipe(average=1), translator, run, PARTS, tmp_path / "archive"
        )
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


def test_off_a_terminal_a_line_each_half_minute(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    with progress.bar(200, "epoch 2", done=50) as shown:
        for _ in range(100):
            now[0] += 1.0
            shown.update(note="loss 1.5")
    lines = capsys.readouterr().err.splitlines()
    assert (
        lines[0] == "epoch 2: 80 of 200 steps, 1 per second, 2 minutes left, loss 1.5"
        and len(lines) == 3
    )
    for quiet in True, False:
        monkeypatch.setitem(sys.modules, "ipykernel", object())
        with progress.bar(None, "x", quiet=quiet) as shown:
            now[0] += 99
            shown.update()
    assert capsys.readouterr().err == "", "asked to be quiet, or in a notebook"


def test_training_shows_that_it_lives(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    train_translator(tmp_path, recipe(), PARTS, ASKED)
    said = capsys.readouterr().err
    assert (
        "training: 1 of 6 steps" in said
        and "epoch 1, loss" in said
        and "translating: 2 of 2 parts" in said
    )


def test_sums_are_of_the_bytes(tmp_path):
    held_ = {
        "a": torch.ones(3, dtype=torch.bfloat16),
        "b": torch.tensor(2.0),
        "c": torch.zeros(0, 4),
        "d": torch.ones(2, 3).T,
    }
    for tensor in held_.values():
        assert weights.checksum(tensor) == weights.checksum(tensor.clone())
    assert weights.checksum(torch.tensor([1.0])) != weights.checksum(torch.tensor([2.0]))
    weights.verify("here", held_, weights.sums(held_))
    with pytest.raises(ValueError, match="here is damaged: a"):
        weights.verify("here", {"a": held_["a"] * 2}, weights.sums(held_))


def test_an_older_checkpoint_without_sums_is_read(tmp_path):
    from safetensors.torch import save_file

    save_file({"model.x": torch.ones(2)}, tmp_path / "old", {"progress": "{}"})
    assert read_file(tmp_path / "old", True)[1] == {}
    model = torch.nn.Linear(2, 2)
    save_checkpoint(
        tmp_path / "new", model, torch.optim.Adam(model.parameters()), {"ids": [BOS, EOS]}
    )
    assert read_file(tmp_path / "new", True)[1] == {"ids": [BOS, EOS]}
