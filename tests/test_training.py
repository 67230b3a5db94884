"""The Trainer: batches, the gradient, one step, the loop, stops, and runs that go on."""

import dataclasses
import functools
import json
import math
import time

import pytest
import torch
from helpers import LOOPBACK, sentences, small_model, torchrun
from torch.nn.functional import cross_entropy
from torch._dynamo.testing import CompileCounterWithBackend

from transformer_lit.loss import shift_right
from transformer_lit.masks import BOS, EOS, PAD
from transformer_lit.runs import checkpoints
from transformer_lit.runs.run import LOG
from transformer_lit.runtime import devices, distributed as processes
from transformer_lit.runtime.batches import iterate_batches, prefetch
from transformer_lit.batching import PairBatches, collate, token_batches
from transformer_lit.recipes.recipes import compiled_gradients
from transformer_lit.training import (
    Diverged,
    Trainer,
    TrainingConfig,
    compute_gradients,
    on_epoch_end,
    summed_loss,
    validation_loss,
)

# Settings and batches -----------------------------------------------------------------------------


def test_every_epoch_deals_its_own_batches():
    config = TrainingConfig(epochs=3, max_tokens=40, seed=5)
    data = PairBatches(pairs(), config)
    assert data.n_steps == 3 * len(data.epoch_batches(0)), "every epoch has as many batches"
    assert data.epoch_batches(1) == token_batches(pairs(), 40, 1005) != data.epoch_batches(0)
    assert data.count_labels([0, 3]) == int((data.load_batch([0, 3])[1][:, 1:] != PAD).sum())
    others = PairBatches(pairs(23), config)
    assert data.fingerprint() == PairBatches(pairs(), config).fingerprint() != others.fingerprint()
    with pytest.raises(ValueError, match="no pairs"):
        PairBatches([], config)


def test_ahead_is_in_order_and_not_too_early():
    made = []
    squares = prefetch(lambda n: made.append(n) or n * n, range(9))
    assert next(squares) == 0 and len(made) <= 3
    assert list(squares) == [1, 4, 9, 16, 25, 36, 49, 64] and made == list(range(9))
    halves = prefetch(lambda n: 1 / n, [2, 0, 3])
    assert next(halves) == 0.5
    with pytest.raises(ZeroDivisionError):
        next(halves)


def test_batches_come_in_order_from_a_place_on():
    data = PairBatches(pairs(), TrainingConfig(max_tokens=40))
    n = len(data.epoch_batches(0))
    stream = iterate_batches(data, 0, n - 2, torch.device("cpu"))
    for epoch, k in (0, n - 2), (0, n - 1), (1, 0):
        indices, batch = data.epoch_batches(epoch)[k], next(stream)
        source, target = data.load_batch(indices)
        assert torch.equal(batch.source, source) and torch.equal(batch.target, target)
        assert batch.n_labels == data.count_labels(indices)
        assert batch.ends_epoch is (k == n - 1)


# The gradient -------------------------------------------------------------------------------------


def a_batch(rows=5):
    source, target = sentences(rows, 6, 0), sentences(rows, 7, 1)
    target[:, 0] = BOS
    return source, target


def gradients(model):
    grads = ((w.grad, w) for w in model.parameters())
    return torch.cat([(0 * w if grad is None else grad).flatten() for grad, w in grads])


def test_bf16_multiplies_and_the_loss_stays_in_float32():
    source, target = a_batch()
    losses, seen = [], []
    for precision in "fp32", "bf16":
        model = small_model().float()
        model.output_projection.register_forward_hook(
            lambda part, x, out: seen.append((x[0].dtype, out.dtype))
        )
        config = TrainingConfig(precision=precision)
        losses.append(compute_gradients(model, source, target, config))
        assert {p.grad.dtype for p in model.parameters()} == {torch.float32}
    assert seen[-1] == (torch.float32, torch.bfloat16), "the last LayerNorm gives fp32"
    assert losses[0] != losses[1], 'precision="bf16" changes nothing: is autocast on?'
    assert abs(losses[0] - losses[1]) < 0.05, f"bf16 changes the loss too much: {losses}"
    read, say = shift_right(target)
    logits = model(source, read).detach()
    coarse = logits.bfloat16().float().mT
    wanted = cross_entropy(coarse, say, ignore_index=PAD, label_smoothing=0.2, reduction="sum")
    torch.testing.assert_close(summed_loss(lambda x: x.bfloat16(), logits, say, 0.2), wanted)


def test_a_batch_without_a_label_has_a_loss_of_0():
    source, model = torch.tensor([[5, EOS]]), small_model().float()
    assert compute_gradients(model, source, torch.zeros(1, 2).long(), TrainingConfig()) == 0


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_validation_is_the_mean_over_labels_and_leaves_no_trace(smoothing):
    model, state, seen = small_model(dropout=0.3).float().train(), torch.get_rng_state(), []
    model.output_projection.register_forward_hook(lambda _, x, out: seen.append(out.requires_grad))
    loss = validation_loss(model, pairs(14), 32, label_smoothing=smoothing)
    assert model.training and torch.equal(state, torch.get_rng_state())
    assert not any(seen), "validation needs no gradient"
    source, target = collate(pairs(14))
    logits = model.eval()(source, target[:, :-1]).mT
    right = cross_entropy(logits, target[:, 1:], ignore_index=PAD, label_smoothing=smoothing)
    assert abs(loss - right.item()) < 1e-4


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("accumulate", [1, 2, 7])
def test_shares_of_all_processes_add_up(world, accumulate, monkeypatch):
    whole, (source, target) = small_model().float(), a_batch()
    loss = compute_gradients(whole, source, target, TrainingConfig())
    losses, grads, sums = [], [], []
    n_labels = (target[:, 1:] != PAD).sum()
    monkeypatch.setattr(processes, "all_reduce", lambda count: n_labels)
    monkeypatch.setattr(processes, "all_reduce_gradients", lambda *what: sums.append(what))
    for rank in range(world):
        model, rows = small_model().float(), slice(rank, None, world)
        config = TrainingConfig(accumulation_steps=accumulate)
        losses.append(compute_gradients(model, source[rows], target[rows], config))
        grads.append(gradients(model))
    assert len(sums) == world, "one sum over the processes"
    torch.testing.assert_close(sum(losses), loss)
    torch.testing.assert_close(sum(grads), gradients(whole), atol=1e-5, rtol=1e-4)


# torch.compile ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_graph_for_all_shapes(monkeypatch):
    "Of encoder, decoder and loss; a model that is evaluated stays as it is."
    counters = []

    def compiled(f):
        counters.append(CompileCounterWithBackend("eager"))
        return torch.compile(f, dynamic=True, backend=counters[-1])

    torch._dynamo.reset()
    monkeypatch.setattr(devices, "compiled", functools.cache(compiled))
    model, plain = (small_model(n_encoder_layers=1, n_decoder_layers=1).float() for _ in range(2))
    trainer = Trainer(model, CONFIG, gradient_fn=compiled_gradients(model))
    for width in 6, 7, 9, 8:  # none is the number of rows
        source, target = sentences(4, width, 0, pads=None), sentences(4, width + 1, 1, pads=None)
        loss = trainer.gradient_fn(trainer, source, target)
        torch.testing.assert_close(loss, compute_gradients(plain, source, target, CONFIG))
    assert [counter.frame_count for counter in counters] == [1, 1, 1]
    model.eval()(source, target)
    assert [counter.frame_count for counter in counters] == [1, 1, 1]


# Steps, stops and going on ------------------------------------------------------------------------


def pairs(n=24):
    rows = zip(sentences(n, 6, 0).tolist(), sentences(n, 5, 1).tolist())
    return [([i for i in s if i] + [EOS], [BOS] + [i for i in t if i] + [EOS]) for s, t in rows]


CONFIG = TrainingConfig(epochs=3, max_tokens=40, warmup_steps=10, checkpoint_every=3)
TWO_EPOCHS = dataclasses.replace(CONFIG, epochs=2)


def run(folder=None, until=None, config=CONFIG, look=None):
    job = Trainer(small_model(dropout=0.1).float(), config, folder=folder)
    job.fit(PairBatches(pairs(), config), look and on_epoch_end(look), until)
    return job


def story(job):
    return [{k: v for k, v in entry.items() if k != "seconds"} for entry in job.log]


def test_gradients_are_fresh_in_each_step():
    job = Trainer(small_model().float(), CONFIG, lr_schedule=lambda step: 0.0)
    norms = [float(job.train_step(*a_batch())["grad_norm"]) for _ in range(2)]
    assert math.isclose(*norms, rel_tol=1e-4), "gradients pile up: zero_grad is missing"


class Killed(Exception):
    pass


def dies_at(step):
    def callback(trainer):
        if trainer.step == step:
            raise Killed

    return callback


def resumes_like(whole, folder):
    torch.manual_seed(99)  # a new process has other dice
    resumed = run(folder)
    assert story(resumed) == story(whole), (
        "resumed losses are not those of the run without a stop: are weights, Adam's averages,"
        " position in the epoch and the random state (dropout's dice) all restored?"
    )
    for one, two in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(one, two)
    lines = (folder / LOG).read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    assert steps == [entry["step"] for entry in whole.log], "one line an entry"


@pytest.mark.parametrize("stop_at", [1, 4, 6, 11])
def test_an_interrupted_run_reaches_the_very_same_losses(tmp_path, stop_at):
    stopped = run(tmp_path, stop_at)
    assert stopped.step == stop_at and stopped.log[-1]["step"] == stop_at
    resumes_like(run(), tmp_path)


@pytest.mark.parametrize("dies", [1, 4, 10, 11])
def test_a_killed_run_goes_on_from_its_last_checkpoint(tmp_path, dies):
    "Also where it dies after an epoch's last step, while it is looked at."
    job = Trainer(small_model(dropout=0.1).float(), CONFIG, folder=tmp_path)
    with pytest.raises(Killed):
        job.fit(PairBatches(pairs(), CONFIG), callback=dies_at(dies))
    resumes_like(run(), tmp_path)


def test_training_switches_dropout_on():
    job = Trainer(small_model(dropout=0.1).float().eval(), CONFIG)
    job.fit(PairBatches(pairs(), CONFIG), callback=lambda trainer: trainer.model.eval() and None)
    assert story(job) == story(run()), "a model in evaluation mode must be trained with dropout"


def test_a_finished_run_is_not_repeated(tmp_path):
    first, seen = run(tmp_path), []
    again = run(tmp_path, look=lambda trainer: seen.append(trainer.epoch))
    assert story(again) == story(first) and not seen, "a finished run is loaded, not run again"
    longer = run(tmp_path, config=dataclasses.replace(CONFIG, epochs=4))
    begun = story(longer)[: len(first.log)]
    assert longer.epoch == 4 and begun == story(first), "more epochs go on where the run ended"


def test_the_log_counts_real_labels_and_the_loss_falls():
    job = run(look=lambda trainer: {"valid_loss": 1.5})
    assert job.n_tokens == CONFIG.epochs * sum(len(t) - 1 for _, t in pairs()), "pads are counted"
    evals = [(e["epoch"], e["valid_loss"]) for e in job.log if e["kind"] == "eval"]
    assert evals == [(1, 1.5), (2, 1.5), (3, 1.5)]
    losses = [entry["loss"] for entry in job.log if entry["kind"] == "step"]
    assert sum(losses[-4:]) < sum(losses[:4]), "the loss does not fall"


def test_the_rate_is_that_of_the_step():
    job = Trainer(small_model(), CONFIG, lr_schedule=lambda step: 0.001 * step)
    source, target = sentences(2, 4, 0), sentences(2, 5, 1)
    for n in 1, 2:
        job.train_step(source, target)
        assert job.optimizer.param_groups[0]["lr"] == 0.001 * n, (
            "the schedule is off by one: the first step is step 1"
        )


def join(rank, world, folder):
    "One of `world` processes; the last batch has a single row, so that most processes have none."
    import torch.distributed as dist

    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world
    )
    model = small_model(
        seed=rank
    ).float()  # every process begins with other weights, and must take over the first one's
    job = Trainer(model, TWO_EPOCHS, folder=folder)
    job.fit(PairBatches(uneven_pairs(), TWO_EPOCHS))
    if rank == 0:
        torch.save([job.log, dict(job.model.named_parameters())], folder / "result.pt")
    dist.destroy_process_group()


def uneven_pairs():
    return pairs(13) + [([5] * 30 + [EOS], [BOS] + [6] * 30 + [EOS])]


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 4])
def test_processes_reach_the_single_process_result(tmp_path, world, monkeypatch):
    import torch.multiprocessing as mp

    alone = Trainer(small_model().float(), TWO_EPOCHS)
    alone.fit(PairBatches(uneven_pairs(), TWO_EPOCHS))
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", LOOPBACK)
    mp.start_processes(join, (world, tmp_path), nprocs=world, start_method="spawn")
    log, weights = torch.load(tmp_path / "result.pt", weights_only=False)
    for a, b in zip(log, alone.log):
        assert a["step"] == b["step"] and abs(a.get("loss", 0) - b.get("loss", 0)) < 1e-4, (
            f"{world} processes reach another loss than one: are gradients summed, and divided by"
            " the WHOLE batch's labels?"
        )
    for name, weight in alone.model.named_parameters():
        if name.endswith(
            "k_proj.bias"
        ):  # the softmax doesn't feel it: its gradient is rounding, which Adam makes large
            continue
        assert torch.allclose(weight, weights[name], atol=1e-3), (
            f"{name} differs between one process and {world}"
        )


def broken():
    model = small_model().float()
    model.encoder.layers[0].self_attention.v_proj.bias.data[0] = math.inf
    return model


def test_nan_stops_before_the_weights_on_a_cpu():
    model = broken()
    before = model.output_projection.weight.clone()
    with pytest.raises(Diverged, match="step 0"):
        Trainer(model, CONFIG).train_step(*a_batch())
    assert torch.equal(before, model.output_projection.weight)


def test_on_a_gpu_nan_is_found_before_it_is_saved(tmp_path):
    "Played on the CPU: nobody looks at the loss before the update."

    class OnGPU(torch.Tensor):
        is_cuda = True

    def gradient_fn(trainer, *batch):
        return compute_gradients(trainer.model, *batch, CONFIG).as_subclass(OnGPU)

    spoilt = Trainer(broken(), CONFIG, folder=tmp_path, gradient_fn=gradient_fn)
    checkpoints.write_file(tmp_path / checkpoints.NAME, {}, {})
    good = (tmp_path / checkpoints.NAME).read_bytes()
    assert isinstance(spoilt.train_step(*a_batch())["loss"], torch.Tensor)
    with pytest.raises(Diverged, match="step 1"):
        spoilt.save()
    assert (tmp_path / checkpoints.NAME).read_bytes() == good


def test_the_log_of_every_nth_step():
    job = Trainer(small_model().float(), dataclasses.replace(CONFIG, log_every=4))
    data = PairBatches(pairs(), CONFIG, n_steps=10)
    n = len(data.epoch_batches(0))
    job.fit(data)
    ends = [step for step in range(1, 11) if step % 4 == 0 or step % n == 0]
    steps = [e["step"] for e in job.log if e["kind"] == "step"]
    assert steps == ends, "an epoch's end, where the clock has to be right, isn't logged"


def test_a_callback_comes_after_every_step_and_what_it_returns_is_logged_and_saved(tmp_path):
    seen, data = [], PairBatches(pairs(), CONFIG)
    n = len(data.epoch_batches(0))

    def callback(trainer):
        saved = checkpoints.read_file(tmp_path / checkpoints.NAME)[1] if n < trainer.step else {}
        seen.append((trainer.step, trainer.epoch, trainer.epoch_step, saved.get("step")))
        return {"valid_loss": torch.tensor(1.5)} if trainer.step in (2, n) else None

    config = dataclasses.replace(CONFIG, checkpoint_every=0)
    job = Trainer(small_model().float(), config, folder=tmp_path)
    job.fit(data, callback, n + 1)
    assert seen == [(k, 0, k, None) for k in range(1, n)] + [(n, 1, 0, None), (n + 1, 1, 1, n)]
    evals = [(e["step"], e["valid_loss"]) for e in job.log if e["kind"] == "eval"]
    assert evals == [(2, 1.5), (n, 1.5)]
    assert [json.loads(line) for line in (tmp_path / LOG).read_text().splitlines()] == job.log


def test_somebody_elses_log_stays(tmp_path):
    (tmp_path / LOG).write_text("mine\n")
    with pytest.raises(ValueError, match="log"):
        run(tmp_path)
    assert (tmp_path / LOG).read_text() == "mine\n"


def test_seconds_are_those_of_training_alone():
    job = Trainer(small_model().float(), CONFIG)
    began = time.perf_counter()
    job.fit(PairBatches(pairs(), CONFIG), lambda trainer: time.sleep(0.3), 2)
    assert 0 < job.seconds < time.perf_counter() - began - 0.55, (
        "what on_step takes is no time of training"
    )


# By hand, and in several processes ----------------------------------------------------------------


def test_four_steps_by_hand():
    "Clipping and the rate by their formulas, the update by Adam of §5.3."
    config = TrainingConfig(clip_norm=0.2, warmup_steps=3, lr_factor=2.0)
    job, model, batch = Trainer(small_model().float(), config), small_model().float(), a_batch()
    weights = list(model.parameters())
    adam = torch.optim.Adam(weights, betas=(0.9, 0.98), eps=1e-9)
    for step in range(1, 5):
        adam.zero_grad()
        loss = compute_gradients(model, *batch, TrainingConfig())
        norm = sum(w.grad.square().sum() for w in weights).sqrt()
        for weight in weights:
            weight.grad *= min(1, 0.2 / norm)
        rate = 2 * model.config.d_model**-0.5 * min(step**-0.5, step * 3**-1.5)
        adam.param_groups[0]["lr"] = rate
        adam.step()
        wanted = {"loss": loss.item(), "grad_norm": norm.item()}
        torch.testing.assert_close(job.train_step(*batch), wanted, atol=1e-3, rtol=0)
    ours, theirs = job.model.output_projection.weight, model.output_projection.weight
    torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=1e-3)


STOPPED_TWICE = """
import torch.distributed
from transformer_lit.batching import PairBatches
from transformer_lit.training import Trainer, TrainingConfig

torch.distributed.init_process_group("gloo")
for folder, until, model in torch.load("runs.pt", weights_only=False)["runs"]:
    kept = torch.load("runs.pt", weights_only=False)
    config = TrainingConfig(**kept["config"])
    data = PairBatches(kept["pairs"], config)
    Trainer(model, config, folder=folder).fit(data, max_steps=until)
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_processes_that_are_stopped_reach_the_very_same_losses(tmp_path):
    "Two of them, with dropout: the checkpoint has the random state of each."
    runs = [
        (folder, until, small_model(dropout=0.1).float())
        for folder, until in (("whole", None), ("stopped", 2), ("stopped", 5), ("stopped", None))
    ]
    torch.save(
        {"runs": runs, "pairs": uneven_pairs(), "config": vars(TWO_EPOCHS)}, tmp_path / "runs.pt"
    )
    torchrun(STOPPED_TWICE, tmp_path, 2)
    lines = [
        [
            json.loads(line)["loss"]
            for line in (tmp_path / name / LOG).read_text().splitlines()
            if "loss" in line
        ]
        for name in ("whole", "stopped")
    ]
    assert lines[0] == lines[1] and len(lines[0]) > 5
