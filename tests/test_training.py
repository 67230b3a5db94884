"""The Trainer: batches, the gradient, one step, the loop, stops, and runs that go on."""

import dataclasses
import functools
import json
import math
import time

import pytest
import torch
from helpers import LOOPBACK, sentences, small_model
from torch.nn.functional import cross_entropy
from torch._dynamo.testing import CompileCounterWithBackend

from transformer_lit.masks import BOS, EOS, PAD
from transformer_lit.runs import checkpoints
from transformer_lit.runs.run import LOG
from transformer_lit.runtime import devices, distributed as processes
from transformer_lit.runtime.batches import iterate_batches, prefetch
from transformer_lit.batching import PairBatches, collate, token_batches
from transformer_lit.recipes.recipes import compiled_gradients
from transformer_lit.gradients import compute_gradients
from transformer_lit.training import (
    Diverged,
    Trainer,
    TrainingConfig,
    on_epoch_end,
    validation_loss,
)

# Settings and batches -----------------------------------------------------------------------------


def test_every_epoch_deals_its_own_batches():
    config = TrainingConfig(epochs=3, max_tokens=40, seed=5)
    data = PairBatches(pairs(), config)
    assert data.total_steps == 3 * len(data.epoch_batches(0))  # every epoch has as many batches
    assert data.epoch_batches(1) == token_batches(pairs(), 40, 1005) != data.epoch_batches(0)
    again, others = (PairBatches(pairs(n), config).fingerprint() for n in (24, 23))
    assert data.fingerprint() == again != others


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


def a_batch():
    source, target = sentences(5, 6, 0), sentences(5, 7, 1)
    target[:, 0] = BOS
    return source, target


def test_bf16_multiplies_and_the_gradient_stays_in_float32():
    losses = []
    for precision in "fp32", "bf16":
        model = small_model().float()
        losses.append(compute_gradients(model, *a_batch(), TrainingConfig(precision=precision)))
        assert {p.grad.dtype for p in model.parameters()} == {torch.float32}
    assert losses[0] != losses[1], 'precision="bf16" changes nothing: is autocast on?'
    assert abs(losses[0] - losses[1]) < 0.05, f"bf16 changes the loss too much: {losses}"


def test_validation_is_the_mean_over_labels_and_leaves_no_trace():
    model, state = small_model(dropout=0.3).float().train(), torch.get_rng_state()
    loss = validation_loss(model, pairs(14), 32, label_smoothing=0.1)
    assert model.training and torch.equal(state, torch.get_rng_state())
    source, target = collate(pairs(14))
    logits = model.eval()(source, target[:, :-1]).mT
    right = cross_entropy(logits, target[:, 1:], ignore_index=PAD, label_smoothing=0.1)
    assert abs(loss - right.item()) < 1e-4


@pytest.mark.parametrize("accumulate", [2, 7])
def test_a_batch_in_parts_has_the_gradient_of_the_whole(accumulate):
    whole, parts = small_model().float(), small_model().float()
    loss = compute_gradients(whole, *a_batch(), TrainingConfig())
    config = TrainingConfig(accumulation_steps=accumulate)
    torch.testing.assert_close(compute_gradients(parts, *a_batch(), config), loss)
    for one, two in zip(parts.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad, atol=1e-5, rtol=1e-4)


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
    return [{k: v for k, v in entry.items() if k != "seconds"} for entry in job.log_history]


def test_gradients_are_fresh_in_each_step():
    job = Trainer(small_model().float(), CONFIG, lr_schedule=lambda step: 0.0)
    norms = [float(job.train_step(*a_batch())["grad_norm"]) for _ in range(2)]
    assert math.isclose(*norms, rel_tol=1e-4), "gradients pile up: zero_grad is missing"


@pytest.mark.parametrize("stop_at", [4, 6])
def test_a_run_that_pauses_reaches_the_very_same_losses(tmp_path, stop_at):
    "Within an epoch, and at its end."
    assert run(tmp_path, stop_at).step == stop_at
    torch.manual_seed(99)  # a new process has other dice
    resumed, whole = run(tmp_path), run()
    assert story(resumed) == story(whole), (
        "resumed losses are not those of the run without a stop: are weights, Adam's averages,"
        " position in the epoch and the random state (dropout's dice) all restored?"
    )
    lines = (tmp_path / LOG).read_text().splitlines()
    assert len(lines) == len(whole.log_history)  # one line an entry


def test_each_process_takes_its_own_dice(monkeypatch):
    own = torch.get_rng_state()
    monkeypatch.setattr(processes, "process", lambda: (1, 2))
    states = {"random.cpu.0": own.flip(0), "random.cpu.1": own}
    checkpoints.load_rng(states, torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), own)


def test_training_switches_dropout_on():
    job = Trainer(small_model(dropout=0.1).float().eval(), CONFIG)
    job.fit(PairBatches(pairs(), CONFIG), callback=lambda trainer: trainer.model.eval() and None)
    assert story(job) == story(run())  # a model in evaluation mode must be trained with dropout


def test_a_finished_run_is_not_repeated(tmp_path):
    first, seen = run(tmp_path), []
    again = run(tmp_path, look=lambda trainer: seen.append(trainer.epoch))
    assert story(again) == story(first) and not seen  # a finished run is loaded, not run again
    longer = run(tmp_path, config=dataclasses.replace(CONFIG, epochs=4))
    begun = story(longer)[: len(first.log_history)]
    assert longer.epoch == 4 and begun == story(first)  # more epochs go on where the run ended


def test_the_log_counts_real_labels_and_the_loss_falls():
    job = run(look=lambda trainer: {"valid_loss": 1.5})
    assert job.n_labels == CONFIG.epochs * sum(len(t) - 1 for _, t in pairs())  # pads are counted
    evals = [(e["epoch"], e["valid_loss"]) for e in job.log_history if e["kind"] == "eval"]
    assert evals == [(1, 1.5), (2, 1.5), (3, 1.5)]
    losses = [entry["loss"] for entry in job.log_history if entry["kind"] == "step"]
    assert sum(losses[-4:]) < sum(losses[:4])  # the loss does not fall


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
        torch.save([job.log_history, dict(job.model.named_parameters())], folder / "result.pt")
    dist.destroy_process_group()


def uneven_pairs():
    return pairs(13) + [([5] * 30 + [EOS], [BOS] + [6] * 30 + [EOS])]


@pytest.mark.slow
def test_processes_reach_the_single_process_result(tmp_path, monkeypatch):
    import torch.multiprocessing as mp

    world = 3
    alone = Trainer(small_model().float(), TWO_EPOCHS)
    alone.fit(PairBatches(uneven_pairs(), TWO_EPOCHS))
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", LOOPBACK)
    mp.start_processes(join, (world, tmp_path), nprocs=world, start_method="spawn")
    log, weights = torch.load(tmp_path / "result.pt", weights_only=False)
    for a, b in zip(log, alone.log_history):
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
    data = PairBatches(pairs(), CONFIG, total_steps=10)
    n = len(data.epoch_batches(0))
    job.fit(data)
    ends = [step for step in range(1, 11) if step % 4 == 0 or step % n == 0]
    steps = [e["step"] for e in job.log_history if e["kind"] == "step"]
    assert steps == ends, "an epoch's end, where the clock has to be right, isn't logged"


def test_a_callback_comes_after_every_step_and_what_it_returns_is_logged(tmp_path):
    seen, data = [], PairBatches(pairs(), CONFIG)
    n = len(data.epoch_batches(0))

    def callback(trainer):
        seen.append((trainer.step, trainer.epoch, trainer.epoch_step))
        return {"valid_loss": torch.tensor(1.5)} if trainer.step in (2, n) else None

    job = Trainer(small_model().float(), CONFIG, folder=tmp_path)
    job.fit(data, callback, n + 1)
    assert seen == [(k, 0, k) for k in range(1, n)] + [(n, 1, 0), (n + 1, 1, 1)]
    assert [entry["step"] for entry in job.log_history if entry["kind"] == "eval"] == [2, n]
    lines = (tmp_path / LOG).read_text().splitlines()
    assert list(map(json.loads, lines)) == job.log_history


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
