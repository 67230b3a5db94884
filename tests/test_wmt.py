"""The paper's experiment in small: a run that trains from a token store, is stopped, averaged,
translated and scored.

All text is made up from the pocket corpus (made_up.py); nothing is fetched from outside.
"""

import dataclasses
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from made_up import HELD, PAIRS, Statmt, here, own, served, settings, store, text  # noqa: F401
from helpers import one_sentence

from transformer_lit import cli, training, translation, wmt
from transformer_lit.recipes import prepare
from transformer_lit.recipes import large
from transformer_lit.runs import checkpoints as checkpoint
from helpers import LOOPBACK
from transformer_lit.corpora.texts import take_evenly
from transformer_lit.tokenization import SubwordTokenizer
from transformer_lit.batching import collate, token_batches, token_batches_from_lengths
from transformer_lit.training import Trainer

MODEL = dict(
    d_model=16, n_heads=2, d_ff=32, n_encoder_layers=1, n_decoder_layers=1, dropout=0.0, norm="pre"
)


def test_batches_by_hand():
    batches = token_batches_from_lengths(np.array([[10, 3], [4, 10]], np.uint16), 10)
    assert [len(batch) for batch in batches] == [1, 1], "a pair as wide as a batch is one"
    alike = np.array([[1, 6], [6, 1], [3, 6], [6, 4], [2, 6], [6, 6]], np.uint16)
    [batch] = token_batches_from_lengths(alike, 100, 1)
    assert alike[batch, 0].tolist() == [
        1,
        2,
        3,
        6,
        6,
        6,
    ], "of equal widths the shorter source comes first"
    assert len(token_batches_from_lengths(np.full((10, 2), 5, np.uint16), 20)[0]) in (
        2,
        4,
    ), "four pairs of five make twenty"


def test_which_text_a_run_learns_from():
    one, other = (
        wmt.StoreBatches(
            types.SimpleNamespace(manifest={"ids": ids}), None, 1
        ).fingerprint()
        for ids in ("a", "b")
    )
    assert one and other and one != other


def test_an_epoch_s_seed_is_the_run_s_and_a_thousand_for_each(store):
    batches = wmt.StoreBatches(store, training.TrainingConfig(max_tokens=400, seed=3), 9)
    for n in 0, 1, 2:
        assert all(
            map(
                np.array_equal,
                batches.epoch_batches(n),
                token_batches_from_lengths(store.lengths, 400, 3 + 1000 * n),
            )
        )


def test_a_batch_that_is_too_small_does_not_spoil_the_folder(own, store, tmp_path):
    e = experiment(own)
    small = dataclasses.replace(e, training=dataclasses.replace(e.training, max_tokens=9))
    with pytest.raises(ValueError, match="raise max_tokens"):
        large.run_experiment(small, tmp_path / "run", own / "store")
    assert not (
        tmp_path / "run"
    ).exists(), "the next try would be refused, because a plan was written"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_stop_saves_where_it_is(own, store, tmp_path, monkeypatch, capsys, name):
    short_answers(monkeypatch)
    e = dataclasses.replace(experiment(own), eval_every=100)
    e = dataclasses.replace(e, training=dataclasses.replace(e.training, checkpoint_every=0))
    large.run_experiment(e, tmp_path / "whole", own / "store")
    with monkeypatch.context() as patch:
        before_step(patch, 7, lambda run: os.kill(os.getpid(), getattr(signal, name)))
        with pytest.raises((KeyboardInterrupt, SystemExit)) as caught:
            large.run_experiment(e, tmp_path / "cut", own / "store")
    said = str(caught.value) if name == "SIGINT" else capsys.readouterr().err
    assert (
        "stopped, and saved in" in said
        and (tmp_path / "cut" / "checkpoint.safetensors").exists()
    )
    steps, take = [], Trainer.train_step
    monkeypatch.setattr(
        Trainer, "train_step", lambda run, *batch: (steps.append(run.step), take(run, *batch))[1]
    )
    large.run_experiment(e, tmp_path / "cut", own / "store")
    assert steps[0] == 8 and losses(tmp_path / "cut") == losses(
        tmp_path / "whole"
    ), "steps are lost, or taken twice"


def test_one_folder_has_one_training(own, store, tmp_path, monkeypatch):
    import threading

    short_answers(monkeypatch)
    e, errors = experiment(own), []

    def other(run):
        def go():
            try:
                large.run_experiment(e, tmp_path / "run", own / "store")
            except OSError as error:
                errors.append(str(error))

        thread = threading.Thread(target=go)
        thread.start()
        thread.join()

    with monkeypatch.context() as patch:
        before_step(patch, 3, other)
        large.run_experiment(e, tmp_path / "run", own / "store")
    assert (
        len(errors) == 1 and one_sentence(errors[0]) and "another training is at work" in errors[0]
    )


# Batches ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [60, 300, 5000])
def test_batches_follow_chapter_12s_rule(store, limit):
    pairs = list(store)
    ours, theirs = token_batches_from_lengths(store.lengths, limit, 3), token_batches(
        pairs, limit, 3
    )
    assert sorted(np.concatenate(ours).tolist()) == list(
        range(len(pairs))
    ), "each pair must come exactly once"
    shape = lambda batches: sorted(
        (len(b), max(max(map(len, pairs[i])) for i in b)) for b in batches
    )
    assert shape(ours) == shape(theirs), "batches are cut elsewhere than in chapter 12"
    again, other = (token_batches_from_lengths(store.lengths, limit, seed) for seed in (3, 4))
    assert all(map(np.array_equal, ours, again)) and not all(map(np.array_equal, ours, other))
    for batch in ours[:5]:
        for mine, chapter_12s in zip(
            wmt.collate_from_store(store, batch), collate([pairs[i] for i in batch])
        ):
            assert torch.equal(mine, chapter_12s)


def test_each_epoch_has_batches_of_its_own(store):
    batches = wmt.StoreBatches(store, training.TrainingConfig(max_tokens=400), 9)
    first, again, second = map(batches.epoch_batches, (0, 0, 1))
    assert all(map(np.array_equal, first, again)) and not all(
        map(np.array_equal, first, second)
    ), "every epoch deals the same batches"


def test_a_pair_that_is_too_wide_is_one_sentence(store):
    with pytest.raises(ValueError, match="raise max_tokens"):
        token_batches_from_lengths(store.lengths, 10)


def test_a_batch_comes_with_its_labels_counted(store):
    batches = wmt.StoreBatches(store, training.TrainingConfig(max_tokens=300), 5)
    batch = batches.epoch_batches(0)[0]
    source, target = batches.load_batch(batch)
    assert source.size(0) == len(batch) == target.size(0)
    assert batches.count_labels(batch) == sum(len(store[int(i)][1]) - 1 for i in batch)
    assert batches.n_steps == 5
    other = wmt.StoreBatches(store, training.TrainingConfig(), 5)
    assert batches.fingerprint() == other.fingerprint(), "a hash of the data alone"


def test_a_run_goes_with_the_folder_of_a_run_before(own, store, tmp_path, monkeypatch):
    "What a run leaves in its folder."
    short_answers(monkeypatch)
    e = experiment(own, max_steps=4)
    large.run_experiment(e, tmp_path / "run", own / "store")
    kept = json.loads((tmp_path / "run" / "config.json").read_text())
    assert set(kept) > {"model", "training", "recipe", "data", "tokenizer", "ids"}
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {
        "config.json",
        "checkpoint.safetensors",
        "log.jsonl",
        "tokenizer.json",
        "translator.json",
        "model.safetensors",
        "run.json",
        "step-2.safetensors",
        "step-4.safetensors",
        "hypotheses-newstest2013.txt",
        "hypotheses-newstest2014.txt",
    }


def test_evaluate_and_the_run_cut_text_alike(own, store, tmp_path, monkeypatch):
    """A line of several sentences is parted as the saved translator parts it, in the looks, in the
    hypotheses and in `evaluate`."""
    asked = []
    monkeypatch.setattr(
        translation,
        "translate_ids",
        lambda model, ids, *how: asked.append([len(i) for i in ids]) or ids,
    )
    translator, _, _ = large.build_run(
        experiment(own), store, tmp_path / "run", torch.device("cpu")
    )
    assert translator.length_limits == (256, 256)
    translator.save(tmp_path / "saved", "fp32")
    again = translation.Translator.load(tmp_path / "saved")
    assert (
        again.length_limits == translator.length_limits
    ), "the saved translator parts lines elsewhere"
    long = [" ".join(e for e, _ in PAIRS[:9])]
    large.translate_to_file(translator, long, tmp_path / "said.txt", math.inf)
    large.EvaluationCallback(translator, experiment(own), [(long[0], "x")]).evaluate()
    again.translate(long)
    assert (
        asked[0] == asked[1] == asked[2] and len(asked[0]) == 1
    ), "one line is cut in different ways"


# Training -----------------------------------------------------------------------------------------


def command(own, folder):
    "Trains on the small corpus."
    places = {"recipe": own / "mine-fr", "data-dir": own / "store", "output-dir": folder}
    return ["train", "--threads=1", *(f"--{name}={path}" for name, path in places.items())]


def experiment(own, **changes):
    e = wmt.build_experiment(
        str(own / "mine-fr"),
        "modern",
        "tiny",
        400,
        dict(max_tokens=400, warmup_steps=5, precision="fp32", log_every=1, checkpoint_every=3),
    )
    return dataclasses.replace(
        e,
        **{
            **dict(
                model=MODEL,
                tokenizer_sample=400,
                optimizer="adam",
                max_steps=12,
                eval_every=5,
                n_eval_sentences=5,
                n_averaged=2,
                snapshot_every=2,
                peak_lr=5e-3,
            ),
            **changes,
        },
    )


class Killed(Exception):
    pass


def losses(folder):
    found = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [(e["step"], e["kind"], e.get("loss", e.get("valid_loss"))) for e in found]


def short_answers(monkeypatch):
    "An untrained model says nothing sensible: a few tokens will do."
    monkeypatch.setattr(translation, "translate_ids", lambda model, ids, *how: [i[:4] for i in ids])


def test_one_command_from_folder_to_scores(own, store, tmp_path, monkeypatch, capsys):
    short_answers(monkeypatch)
    folder = tmp_path / "run"
    monkeypatch.setattr(large, "configure_experiment", lambda *given: experiment(own))
    given = command(own, folder)
    assert cli.main(given) == 0
    record = json.loads((folder / "run.json").read_text())
    assert {s["set"] for s in record["scores"]} == {"newstest2013", "newstest2014"}
    assert [s["metric"] for s in record["scores"]][:2] == ["BLEU", "chrF"]
    assert "BLEU, tokenised, compound-split" in {s["metric"] for s in record["scores"]}
    assert record["scores"][0]["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")
    assert record["steps"] == 12 and record["tokens"] > 0 and record["data"]["train"] == len(store)
    assert len((folder / "hypotheses-newstest2014.txt").read_text().splitlines()) == 30
    log = losses(folder)
    assert [step for step, kind, _ in log if kind == "eval"] == [5, 10, 12]
    assert sorted(p.name for p in folder.glob("step-*")) == [
        "step-10.safetensors",
        "step-12.safetensors",
    ], "other weights than the last ones are averaged"
    held = [
        checkpoint.read_file(folder / f"step-{n}.safetensors", False)[0] for n in (10, 12)
    ]
    mean = checkpoint.read_file(folder / "model.safetensors", False)[0]
    for name, weight in mean.items():
        assert torch.allclose(
            weight, (held[0][name] + held[1][name]) / 2, atol=1e-6
        ), "the model is not the mean of the last ones"
    said = capsys.readouterr().out
    assert "newstest2014: BLEU" in said
    assert (
        cli.main(given) == 0 and losses(folder) == log
    ), "a finished run must stay as it is"


@pytest.mark.parametrize("served", ["de", "fr"], indirect=True)
def test_one_command_from_archives_to_bleu(served, tmp_path, monkeypatch, capsys):
    """tar.gz, a tar with gz inside, sgm: fetched from a server, prepared, trained, averaged,
    translated, scored."""
    short_answers(monkeypatch)
    given = f"train --recipe wmt14-en-{served} --size tiny --max-steps 4 --eval-every 3 --threads 1"
    settings = "vocab_size=400 tokenizer_sample=500 max_tokens=400 precision=fp32"
    for setting in f"{settings} snapshot_every=2 n_eval_sentences=3".split():
        given += f" --with {setting}"
    given = f"{given} --data-dir {tmp_path / 'store'} --output-dir {tmp_path / 'run'}".split()
    assert cli.main(given) == 0, capsys.readouterr().err
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    metrics = {s["metric"]: s for s in record["scores"] if s["set"] == "newstest2014"}
    assert (
        metrics["BLEU"]["signature"].startswith("nrefs:1|case:mixed")
        and "BLEU, tokenised, compound-split" in metrics
    )
    assert {i["file"] for i in record["data"]["inputs"]} >= {
        "training-parallel-europarl-v7.tgz",
        "training-parallel-nc-v9.tgz",
    }
    assert str(tmp_path) not in json.dumps(record["data"]), "a path of one machine"
    assert record["recipe"]["model"].get("norm", "post") == "post" and record["steps"] == 4
    before = len(Statmt.asked)
    assert (
        cli.main(given) == 0 and len(Statmt.asked) == before
    ), "nothing is fetched a second time"


@pytest.mark.parametrize("stops", [[4], [1, 7, 10]])
def test_stopped_and_resumed_gives_the_same_losses(
    own, store, tmp_path, monkeypatch, stops
):
    "Killed after a step that no checkpoint holds: the steps since the last one are taken again."
    short_answers(monkeypatch)
    e = experiment(own, model={**MODEL, "dropout": 0.1})
    large.run_experiment(e, tmp_path / "whole", own / "store")
    take = Trainer.train_step
    for stop in stops:

        def taking(run, *batch):
            if run.step == stop:
                raise Killed
            return take(run, *batch)

        monkeypatch.setattr(Trainer, "train_step", taking)
        with pytest.raises(Killed):
            large.run_experiment(e, tmp_path / "cut", own / "store")
    monkeypatch.setattr(Trainer, "train_step", take)
    large.run_experiment(e, tmp_path / "cut", own / "store")
    assert losses(tmp_path / "cut") == losses(
        tmp_path / "whole"
    ), "a resumed run reaches other losses"
    held = [
        checkpoint.read_file(tmp_path / n / "model.safetensors", False)[0]
        for n in ("cut", "whole")
    ]
    assert all(torch.equal(held[0][name], held[1][name]) for name in held[0])


def test_segments_stop_in_time_and_chain(own, store, tmp_path, monkeypatch, capsys):
    short_answers(monkeypatch)
    e = experiment(own)
    large.run_experiment(e, tmp_path / "whole", own / "store")
    take = Trainer.train_step
    clock, taken = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def taking(run, *batch):
        found = take(run, *batch)
        taken.append(run.step)
        clock[0] += 60
        return found

    monkeypatch.setattr(Trainer, "train_step", taking)
    monkeypatch.setattr(large, "configure_experiment", lambda *given: e)
    given = command(own, tmp_path / "chained") + ["--max-minutes", "3.5"]
    codes = []
    while not codes or codes[-1] == 75 and len(codes) < 9:
        codes.append(cli.main(given))
    assert codes == [
        75,
        75,
        75,
        0,
    ], f"a segment must go on where the one before it stopped: {codes}"
    assert losses(tmp_path / "chained") == losses(tmp_path / "whole")
    assert taken == list(
        range(1, 13)
    ), f"a segment must go on where the one before it stopped, no step is taken twice: {taken}"
    assert capsys.readouterr().err.count("the same command resumes") == 3


def test_translating_stops_in_time_and_goes_on(own, store, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        translation, "translate_ids", lambda model, ids, *how: asked.append((len(ids), how)) or ids
    )
    tokens = SubwordTokenizer.load(store.tokenizer())
    lines = [e for e, _ in PAIRS[:25]]
    translator = translation.Translator(
        torch.nn.Linear(1, 1), tokens, tokens, length_limits=(256, 256)
    )
    path = tmp_path / "said.txt"
    clock = iter([0, 0, 9])
    monkeypatch.setattr(large, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    assert large.translate_to_file(translator, lines, path, 5, size=10) is None
    monkeypatch.setattr(large, "time", time)
    assert large.translate_to_file(translator, lines, path, math.inf, size=10) == lines
    assert large.translate_to_file(translator, lines, path, math.inf) == lines
    assert asked == [
        (n, (4, 64, "fp32")) for n in (10, 10, 5)
    ], "what was translated is not translated again"


def refusals(own, **changes):
    return dataclasses.replace(experiment(own), **changes)


def test_what_does_not_fit_a_run_is_one_sentence(own, store, tmp_path, monkeypatch):
    short_answers(monkeypatch)
    large.run_experiment(experiment(own, max_steps=2), tmp_path / "run", own / "store")
    words = "begun with {'recipe': {'max_steps': 2}}, and this run has {'recipe': {'max_steps': 4}}"
    with pytest.raises(ValueError, match=words):
        large.run_experiment(experiment(own, max_steps=4), tmp_path / "run", own / "store")
    prepare.prepare_store(settings(own, vocabulary=500), tmp_path / "other")
    with pytest.raises(ValueError) as caught:
        large.run_experiment(
            experiment(own, max_steps=2, vocab_size=500), tmp_path / "run", tmp_path / "other"
        )
    assert one_sentence(str(caught.value)) and "'vocab_size': 500" in str(caught.value)
    assert "'tokenizer'" in str(caught.value) and "another folder" in str(caught.value)


def test_a_checkpoint_of_another_vocabulary_or_cut_short(own, store, tmp_path, monkeypatch):
    short_answers(monkeypatch)
    e, folder = experiment(own, max_steps=4), tmp_path / "run"
    _, run, batches = large.build_run(e, store, folder, torch.device("cpu"))
    run.fit(batches, max_steps=2)
    path = folder / "checkpoint.safetensors"
    whole = path.read_bytes()
    other = tmp_path / "other"
    bigger = prepare.prepare_store(settings(own, vocabulary=500), tmp_path / "store500")
    _, run, batches = large.build_run(
        dataclasses.replace(e, vocab_size=500), bigger, other, torch.device("cpu")
    )
    other.mkdir()
    (other / path.name).write_bytes(whole)
    with pytest.raises(ValueError, match="a model of another shape"):
        run.fit(batches)
    path.write_bytes(whole[:-100])
    with pytest.raises(ValueError) as caught:
        large.run_experiment(e, folder, own / "store")
    assert one_sentence(str(caught.value)) and "no whole checkpoint" in str(caught.value)


def before_step(patch, step, act):
    "The training does `act` before it takes the batch after that step."
    take = Trainer.train_step

    def taking(run, *batch):
        if run.step == step:
            act(run)
        return take(run, *batch)

    patch.setattr(Trainer, "train_step", taking)


def test_nan_leaves_a_state_to_resume_from(own, store, tmp_path, monkeypatch, capsys):
    short_answers(monkeypatch)
    e = experiment(own)
    large.run_experiment(e, tmp_path / "whole", own / "store")

    def poisoned(run):
        next(run.model.parameters()).data.fill_(math.nan)

    with monkeypatch.context() as patch:
        before_step(patch, 7, poisoned)
        with pytest.raises(ValueError) as caught:
            large.run_experiment(e, tmp_path / "ill", own / "store")
    assert one_sentence(str(caught.value)) and "nan" in str(caught.value)
    large.run_experiment(e, tmp_path / "ill", own / "store")
    assert losses(tmp_path / "ill") == losses(tmp_path / "whole")


def joined(rank, world, own, folder, changes):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), TRANSFORMER_LIT_DATA=str(own))
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}.meeting", rank=rank, world_size=world
    )
    large.LOG_EVERY = 1
    translation.translate_ids = lambda model, ids, *how: [i[:4] for i in ids]
    large.run_experiment(experiment(own, **changes), folder, own / "store")
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_reach_the_losses_of_one(own, store, tmp_path, monkeypatch):
    import torch.multiprocessing as mp

    short_answers(monkeypatch)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", LOOPBACK)
    large.run_experiment(experiment(own), tmp_path / "one", own / "store")
    mp.start_processes(joined, (2, own, tmp_path / "two", {}), nprocs=2, start_method="spawn")
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert [x[:2] for x in one] == [x[:2] for x in two]
    assert (
        max(abs(a[2] - b[2]) for a, b in zip(one, two)) < 1e-4
    ), "two processes reach other losses than one"
    assert json.loads((tmp_path / "two" / "run.json").read_text())["processes"] == 2


ROOT = Path(__file__).resolve().parent.parent
TORCHRUN = [
    sys.executable,
    "-m",
    "torch.distributed.run",
    "--standalone",
    "--nproc-per-node",
    "2",
    "--monitor-interval",
    "0.2",
]
WAITING = """# The command, which waits at a step until it is killed.
import signal, sys, time
from transformer_lit import cli
from transformer_lit.runtime.distributed import process
from transformer_lit.training import Trainer
step, take = int(sys.argv.pop(1)), Trainer.train_step
def taking(run, *made):
    if run.step == step:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if not process()[0]:
            (run.folder / "waiting").touch()
        time.sleep(600)
    return take(run, *made)
Trainer.train_step = taking
sys.exit(cli.main())
"""


def typed(own, folder):
    """The options of a run that is small on any machine; without dropout, whose dice each process
    throws for itself."""
    fields = (
        "vocab_size=400 tokenizer_sample=400 dropout=0 max_tokens=500 warmup_steps=4"
        " n_eval_sentences=2 checkpoint_every=3 precision=fp32 peak_lr=1e-3"
    )
    words = "--preset modern --size tiny --max-steps 20 --eval-every 4"
    words = " --with ".join([words, *fields.split()])
    return ["-m", "transformer_lit", *command(own, folder), *words.split()]


def started(command, own):
    kept = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    return subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=kept
        | dict(
            PYTHONPATH=str(ROOT),
            OMP_NUM_THREADS="1",
            TRANSFORMER_LIT_DATA=str(own),
            GLOO_SOCKET_IFNAME=LOOPBACK,
        ),
    )


def killed_at(command, own, folder):
    "SIGKILL for one worker, once all of them wait for it at a step; waits for the end."
    done = started(command, own)
    for _ in range(4800):
        if done.poll() is not None or (folder / "waiting").exists():
            break
        time.sleep(0.05)
    assert done.poll() is None, f"it ended before it could be killed: {done.stderr.read()[-800:]}"
    workers = (
        Path(f"/proc/{done.pid}/task/{done.pid}/children").read_text().split()
        if "torch.distributed.run" in command
        else []
    )
    os.kill(int(workers[-1]) if workers else done.pid, signal.SIGKILL)
    said = done.communicate(timeout=120)[1]
    assert done.returncode != 0, said


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds a worker in /proc")
def test_killed_at_a_random_step_and_resumed(own, store, tmp_path):
    """With a real SIGKILL, from the command line, alone and under torchrun; two processes reach the
    losses of one."""
    whole, waiting = tmp_path / "whole", tmp_path / "waiting.py"
    waiting.write_text(WAITING)
    first = started([sys.executable, *typed(own, whole)], own)
    assert first.wait(240) == 0, first.stderr.read()[-800:]
    for processes, command in (1, [sys.executable]), (2, TORCHRUN):
        cut = tmp_path / f"cut by {processes}"
        lines = random.SystemRandom().randrange(2, 20)
        killed_at([*command, str(waiting), str(lines), *typed(own, cut)[2:]], own, cut)
        (cut / "waiting").unlink()
        assert not (cut / "run.json").exists()
        again = started([*command, *typed(own, cut)], own)
        assert again.wait(240) == 0, again.stderr.read()[-800:]
        one, other, said = (
            losses(whole),
            losses(cut),
            f"{processes} processes, killed at step {lines}",
        )
        assert [x[:2] for x in one] == [x[:2] for x in other] and len(
            one
        ) == 7, f"{said}: another log"
        gap = max(abs(a[2] - b[2]) for a, b in zip(one, other))
        assert gap < (1e-12 if processes == 1 else 1e-4), f"{said}: the losses differ by {gap}"
        assert json.loads((cut / "run.json").read_text())["processes"] == processes


# Looks and scores ---------------------------------------------------------------------------------


def test_a_look_measures_what_chapter_12_measures(own, store, tmp_path, monkeypatch):
    short_answers(monkeypatch)
    e, held = experiment(own, n_eval_sentences=3), store.held_out()["valid"][:8]
    translator, _, _ = large.build_run(e, store, tmp_path / "run", torch.device("cpu"))
    found = large.EvaluationCallback(translator, e, held).evaluate()
    assert found["valid_loss"] == training.validation_loss(
        translator.model, translator.encode_pairs(held), e.training.max_tokens
    )
    assert found["lines"] == 3 and found["signature"].startswith("nrefs:1|")
    wide = dataclasses.replace(e, training=dataclasses.replace(e.training, max_tokens=64))
    long = large.EvaluationCallback(translator, wide, [("word " * 80, "mot " * 80)])
    assert long.evaluate()["valid_loss"] > 0, "what is held out isn't cut"


def test_some_lines_evenly_and_the_kept_steps():
    assert take_evenly(range(10), 3) == [0, 3, 6] and take_evenly([1, 2], 5) == [1, 2]
    assert take_evenly([1], 0) == []
    assert wmt.snapshot_steps(wmt.Experiment()) == [100_000, 98_600, 97_200, 95_800, 94_400]
    assert wmt.snapshot_steps(wmt.Experiment(max_steps=3000)) == [3000, 1600, 200]


def test_scores_have_an_interval_and_every_variant(tmp_path, monkeypatch):
    pairs = PAIRS[:40]
    outputs = ["Le " + reference for _, reference in pairs]
    monkeypatch.setattr(large, "translate_to_file", lambda *given: outputs)
    rows = large.evaluate_test_sets(None, {"made-up": pairs}, tmp_path, math.inf)
    found = {row["metric"]: row for row in rows}
    bleu = found["BLEU"]
    assert bleu["low"] < bleu["value"] < bleu["high"] and found["chrF"]["set"] == "made-up"
    assert "BLEU, tokenised, compound-split" in found


# Plans --------------------------------------------------------------------------------------------


def test_the_papers_recipe_is_the_papers():
    e = wmt.build_experiment()
    assert (e.corpus, e.vocab_size, e.max_steps, e.n_averaged, e.lr_schedule, e.optimizer) == (
        "wmt14-en-de",
        37_000,
        100_000,
        5,
        "noam",
        "adam",
    )
    t = e.training
    assert (t.max_tokens, t.warmup_steps, t.label_smoothing, t.clip_norm, t.lr_factor) == (
        25_000,
        4_000,
        0.1,
        0.0,
        1.0,
    )
    m = e.model
    assert [
        m[k]
        for k in (
            "d_model",
            "d_ff",
            "n_heads",
            "n_encoder_layers",
            "n_decoder_layers",
            "dropout",
            "norm",
        )
    ] == [512, 2048, 8, 6, 6, 0.1, "post"]
    assert (
        wmt.build_experiment("wmt14-en-fr").vocab_size == 32_000
        and wmt.build_experiment("wmt14-en-fr").language == "fr"
    )
    assert wmt.build_experiment(preset="modern").model["norm"] == "pre"
