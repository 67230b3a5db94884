"""Every way to train, stopped in every way, goes on as if it had not been stopped: the same losses,
weights and files.

`python tests/test_interrupted.py LOOP HOME FOLDER STEP` is a training that kills itself, a
real SIGKILL, before the step of that number; step 0 stands for never."""

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import translators
from helpers import one_sentence
from plugins import corpus

from transformer_lit import cli, training, translation, wmt
from transformer_lit.batching import PairBatches
from transformer_lit.corpora import files
from transformer_lit.custom_pair import train
from transformer_lit.recipes import large, recipes
from transformer_lit.runs.checkpoints import read_file
from transformer_lit.runs.run import LOCK, Run
from transformer_lit.training import Trainer, TrainingConfig

ROOT = Path(__file__).resolve().parent.parent
CPU = torch.device("cpu")

# The ways to train --------------------------------------------------------------------------------


def alone(home, folder):
    "A `Trainer` and nothing else."
    translator = translators.words()
    config = TrainingConfig(epochs=3, max_tokens=64, checkpoint_every=2)
    batches = PairBatches(translator.encode_pairs(translators.PAIRS), config)
    Trainer(translator.model, config, folder=folder).fit(
        batches, training.on_epoch_end(lambda trainer: {"valid_loss": trainer.step})
    )


def by_recipe(**changes):
    recipe = translators.recipe(min_frequency=1, n_averaged=2, **changes)

    def loop(home, folder):
        samples = [english for english, _ in translators.PAIRS[:2]]
        recipes.train_translator(folder, recipe, translators.PARTS, samples, device=CPU)

    return loop


class Ended(Exception):
    "The command line ended with this status."


def typed(home, folder):
    "From a file of pairs to the report, on the command line."
    train.SIZES = (train.ModelSize(100, 300, 1, 64, 0.1, 256, 2, 400),)
    line = f"train --pairs {home / 'own.tsv'} --languages en-fr --device cpu --threads 1"
    if status := cli.main([*line.split(), "--output-dir", str(folder)]):
        raise Ended(status)


def large_run(home, folder):
    "From a folder of texts to the scores, as `transformer-lit train --recipe FOLDER`."
    training = dict(max_tokens=400, warmup_steps=5, precision="fp32", checkpoint_every=3)
    plan = wmt.build_experiment(str(home / "mine-fr"), "modern", "tiny", 400, training)
    model = translators.TINY | {"norm": "pre"}
    lengths = dict(max_steps=12, eval_every=5, n_eval_sentences=5, n_averaged=2, snapshot_every=2)
    experiment = wmt.replace(
        plan, model=model, optimizer="adam", peak_lr=5e-3, tokenizer_sample=400, **lengths
    )
    large.run_experiment(experiment, folder, home / "store", device="cpu")


LOOPS = {
    "alone": alone,
    "words": by_recipe(tokens="words"),
    "muon": by_recipe(optimizer="muon"),
    "typed": typed,
    "large": large_run,
}


def short_answers():
    "An untrained model says nothing sensible: a few tokens will do."
    translation.translate_ids = lambda model, ids, *_: [row[:4] for row in ids]


@pytest.fixture(scope="module")
def home(own_folder):
    "What the trainings need."
    lines = "".join("\t".join(pair) + "\n" for pair in corpus.PAIRS[:120])
    (own_folder / "own.tsv").write_text(lines, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_LIT_DATA", str(own_folder))
        patch.setattr(translation, "translate_ids", translation.translate_ids)
        patch.setattr(train, "SIZES", train.SIZES)
        short_answers()
        yield own_folder


def straight(name, home):
    "What a training leaves that is not stopped."
    if not (home / name).exists():
        LOOPS[name](home, home / name)
    return outcome(home / name)


# Stops --------------------------------------------------------------------------------------------


class Crash(Exception):
    "As if the process had ended here, with nothing saved."


def crash(*_):
    raise Crash


def full_disk(*_):
    raise OSError(28, "No space left on device")


def poison(trainer):
    next(trainer.model.parameters()).data.fill_(math.nan)


def press(number):
    def act(*_):
        os.kill(os.getpid(), number)
        time.sleep(0.01)  # the handler has run

    return act


@contextmanager
def acting(act, place, n):
    "The training does `act` before a step, after it logged an evaluation, or with a file in hand."
    step, log, replace, count = Trainer.train_step, Run.log, os.replace, [0]

    def is_time(is_place):
        count[0] += is_place
        return is_place and count[0] == n

    def train_step(trainer, *batch):
        if place == "batch" and trainer.step == n:
            act(trainer)
        return step(trainer, *batch)

    def log_entry(run, kind, **values):
        log(run, kind, **values)
        if is_time(place == kind):
            act(run)

    def put_file(part, path):
        if is_time(Path(path).name.startswith(place)):
            act(path)
        replace(part, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "train_step", train_step)
        patch.setattr(Run, "log", log_entry)
        patch.setattr(files.os, "replace", put_file)
        yield


STOPS = {
    "Ctrl-C": (press(signal.SIGINT), "batch", 2, KeyboardInterrupt),
    "SIGTERM": (press(signal.SIGTERM), "batch", 3, SystemExit),
    "Ctrl-C while saving": (press(signal.SIGINT), "checkpoint", 2, KeyboardInterrupt),
    "crash": (crash, "batch", 5, Crash),
    "crash after an evaluation": (crash, "eval", 2, Crash),
    "crash while saving": (crash, "checkpoint", 1, OSError),
    "full disk": (full_disk, "checkpoint", 2, OSError),
    "nan": (poison, "batch", 4, ValueError),
    "crash while testing": (crash, "hypotheses", 1, OSError),
}


def outcome(folder):
    "What a training leaves but for its clocks: losses, weights, scores, files."
    left = {}
    for path in folder.iterdir():
        if path.suffix == ".safetensors":
            tensors, _ = read_file(path, with_training=True)
            left[path.name] = {name: tensor.tolist() for name, tensor in tensors.items()}
        elif path.name == "log.jsonl":
            entries = map(json.loads, path.read_text("utf-8").splitlines())
            left[path.name] = [{**entry, "seconds": 0} for entry in entries]
        elif path.name == "run.json":
            record = json.loads(path.read_text("utf-8"))
            left[path.name] = [record[name] for name in ("recipe", "scores", "data", "tokens")]
        elif path.name != LOCK:
            left[path.name] = path.name == "report.md" or path.read_bytes()
    return left


def differences(cut, uncut):
    return [name for name in {**cut, **uncut} if cut.get(name) != uncut.get(name)]


SIGNALS = signal.SIGINT, signal.SIGTERM


@pytest.mark.parametrize(
    "name, stop",
    [
        pytest.param(name, stop, marks=[pytest.mark.slow] * (name in ("typed", "large")))
        for name in ("alone", "words", "muon", "typed", "large")
        for stop in STOPS
        if stop != "crash while testing" or name in ("typed", "large")
    ],
)
def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(name, stop, home, tmp_path, capsys):
    act, place, n, error = STOPS[stop]
    folder, handlers = tmp_path / "cut", list(map(signal.getsignal, SIGNALS))
    with acting(act, place, n), pytest.raises((error, Ended)) as caught:
        LOOPS[name](home, folder)
    errors = capsys.readouterr().err
    if caught.type is Ended:
        assert caught.value.args == (130 if error is KeyboardInterrupt else 1,)
    elif error in (OSError, ValueError):
        assert one_sentence(str(caught.value))
    if error in (KeyboardInterrupt, SystemExit):
        assert f"saved in {folder}" in f"{caught.value} {errors}"
        assert getattr(caught.value, "code", 143) == 143
        step = read_file(folder / "checkpoint.safetensors")[1]["step"]
        assert place != "batch" or step == n + 1, "a run that pauses must be saved first"
    assert list(map(signal.getsignal, SIGNALS)) == handlers, "the handlers are put back"
    assert not list(folder.glob("*.part")), "half a file is left"
    torch.manual_seed(99)
    LOOPS[name](home, folder)
    differing = differences(outcome(folder), straight(name, home))
    assert not differing, (
        f"a resumed run must go on with the very losses, and {differing} differ: is a step lost, or"
        " taken twice, does the rate reach the optimizer after loading?"
    )


# A real SIGKILL -----------------------------------------------------------------------------------


def killed(name, home, folder, step):
    "A training in a process of its own, which may kill itself; its status and its errors."
    paths = os.pathsep.join((str(ROOT), str(ROOT / "book")))
    settings = {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "TRANSFORMER_LIT_DATA": str(home)}
    process = subprocess.run(
        [sys.executable, __file__, name, str(home), str(folder), str(step)],
        **dict(capture_output=True, text=True, timeout=240, env=os.environ | settings),
    )
    return process.returncode, process.stderr[-800:]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["typed", "large"])
def test_killed_at_a_random_step_and_resumed(name, home, tmp_path):
    step, folder = random.SystemRandom().randrange(1, 6), tmp_path / "cut"
    status, errors = killed(name, home, folder, step)
    assert status == -signal.SIGKILL and not (folder / "run.json").exists(), errors
    status, errors = killed(name, home, folder, 0)
    assert status == 0, errors
    differing = differences(outcome(folder), straight(name, home))
    assert not differing, f"killed at step {step}, {differing} differ"


if __name__ == "__main__":
    name, home, folder, step = sys.argv[1:]
    short_answers()
    take = Trainer.train_step

    def train_step(trainer, *batch):
        if trainer.step == int(step) != 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return take(trainer, *batch)

    Trainer.train_step = train_step
    LOOPS[name](Path(home), Path(folder))
