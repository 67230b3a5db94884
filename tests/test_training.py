"""The Trainer: batches, the gradient, one step, the loop, stops, and runs that go on."""

import contextlib
import dataclasses
import functools
import io
import json
import math
import random
import time

import pytest
import torch
from helpers import LOOPBACK, same, sentences, small_model, torchrun
from torch import nn
from torch.nn.functional import cross_entropy
from torch._dynamo.testing import CompileCounterWithBackend

from transformer_lit import training
from transformer_lit.loss import shift_right
from transformer_lit.masks import BOS, EOS, PAD
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.schedule import noam_lr
from transformer_lit.runs import checkpoints as checkpoint
from transformer_lit.runs.run import LOG
from transformer_lit.runtime import batches as streams, devices, distributed as processes
from transformer_lit.runtime.batches import iterate_batches, prefetch, to_device
from transformer_lit.runtime.distributed import all_reduce_gradients, broadcast_parameters
from transformer_lit.runtime.patch import patch_to
from transformer_lit.batching import PairBatches, collate, token_batches
from transformer_lit.recipes.recipes import compiled_gradients, fit_with_bar
from transformer_lit.training import (
    Trainer,
    TrainingConfig,
    compute_gradients,
    on_epoch_end,
    summed_loss,
    validation_loss,
)

CPU = torch.device("cpu")


# Settings and batches -----------------------------------------------------------------------------


def test_pairs_of_one_width_are_sorted_by_their_source():
    twins = [([7] * n, [7] * 9) for n in (1, 5, 1, 5)]
    for seed in range(9):
        assert set(map(frozenset, token_batches(twins, 18, seed))) == {
            frozenset({0, 2}),
            frozenset({1, 3}),
        }
    assert token_batches([]) == []


def test_pair_batches():
    config = TrainingConfig(epochs=3, max_tokens=40, seed=5)
    batches = PairBatches(pairs(), config)
    assert batches.n_steps == 3 * len(batches.epoch_batches(0)) == 3 * len(batches.epoch_batches(2))
    assert (
        batches.epoch_batches(1) == token_batches(pairs(), 40, 1005) != batches.epoch_batches(0)
    ), "every epoch deals its own batches"
    source, target = batches.load_batch([0, 3])
    assert torch.equal(source, collate([pairs()[0], pairs()[3]])[0])
    assert batches.count_labels([0, 3]) == int((target[:, 1:] != PAD).sum())
    assert (
        batches.fingerprint()
        == PairBatches(pairs(), config).fingerprint()
        != PairBatches(pairs(23), config).fingerprint()
    )
    assert PairBatches(pairs(), config, n_steps=7).n_steps == 7
    with pytest.raises(ValueError, match="no pairs to train on"):
        PairBatches([], config)
    assert collate([([], [1, 2])])[0].dtype == torch.long


def test_ahead_is_in_order_and_not_too_early():
    made = []
    squares = prefetch(lambda n: made.append(n) or n * n, range(9))
    assert (
        next(squares) == 0
        and len(made) <= 3
        and list(squares) == [1, 4, 9, 16, 25, 36, 49, 64]
        and made == list(range(9))
    )
    assert list(prefetch(str, [7])) == ["7"] and list(prefetch(str, [])) == []
    held = prefetch(lambda n: 1 / n, [2, 1, 0, 3])
    assert next(held) == 0.5 and next(held) == 1
    with pytest.raises(ZeroDivisionError):
        next(held)


def test_batches_come_in_order_from_a_place_on(monkeypatch):
    "On a GPU, played here, a second thread makes them; they are the same."
    batches = PairBatches(pairs(), TrainingConfig(max_tokens=40))
    n, early = len(batches.epoch_batches(0)), []
    monkeypatch.setattr(
        streams, "prefetch", lambda make, items: early.append(len(items)) or map(make, items)
    )
    stream = iterate_batches(batches, 0, n - 2, CPU)
    for epoch, k in (0, n - 2), (0, n - 1), (1, 0):
        indices, batch = batches.epoch_batches(epoch)[k], next(stream)
        for ours, expected in zip(batch, batches.load_batch(indices)):
            assert torch.equal(ours, expected)
        assert batch.n_labels == batches.count_labels(indices)
        assert batch.ends_epoch is (k == n - 1)
    assert not early, "a CPU has no use for the second thread"
    monkeypatch.setattr(streams, "to_device", lambda sides, device: [device.type, ""])
    batch = next(iterate_batches(batches, 1, 1, torch.device("cuda")))
    assert batch.source == "cuda" and early == [n - 1]


@pytest.mark.parametrize("world", [2, 3])
def test_a_process_loads_its_own_rows(world, monkeypatch):
    "Together they have all of a batch's pairs; all know how many labels it has."
    data, loaded = PairBatches(pairs(13), TrainingConfig(max_tokens=40)), []
    monkeypatch.setattr(
        data, "load_batch", lambda rows: loaded.append(rows) or collate([pairs()[0]])
    )
    for rank in range(world):
        monkeypatch.setattr(processes, "process", lambda: (rank, world))
        batch = next(iterate_batches(data, 0, 0, CPU))
        assert batch.n_labels == data.count_labels(data.epoch_batches(0)[0])
    assert sorted(sum(loaded, [])) == sorted(data.epoch_batches(0)[0])
    lonely = PairBatches(pairs(1), TrainingConfig(max_tokens=40))
    monkeypatch.setattr(processes, "process", lambda: (1, 2))
    assert len(next(iterate_batches(lonely, 0, 0, CPU)).source) == 0


def test_tensors_move_to_a_gpu_through_pinned_memory():
    class Side:
        def pin_memory(self):
            return "pinned", self

        def to(self, device):
            return device

    assert list(to_device([Side()], CPU)) == [CPU]
    with pytest.raises(AttributeError, match="tuple"):  # the pinned one is asked to move
        list(to_device([Side()], torch.device("cuda")))


def test_patch_to_makes_one_class():
    class Simple:
        pass

    @patch_to(Simple)
    def twice(self, n):
        return 2 * n

    assert (
        Simple().twice(3) == 6
        and vars(Simple)["twice"].__qualname__ == "Simple.twice"
        and Simple.__bases__ == (object,)
    )


# The gradient -------------------------------------------------------------------------------------


def a_batch(rows=5):
    source, target = sentences(rows, 6, 0), sentences(rows, 7, 1)
    target[:, 0] = BOS
    return source, target


def gradients(model):
    return torch.cat(
        [
            torch.zeros_like(w).flatten() if w.grad is None else w.grad.flatten()
            for w in model.parameters()
        ]
    )


def test_the_loss_is_computed_in_fp32():
    model = small_model().float()
    (read, say), source = shift_right(a_batch()[1]), a_batch()[0]
    logits = model(source, read).detach()
    coarse = summed_loss(lambda x: x.bfloat16(), logits, say, 0.2)
    torch.testing.assert_close(
        coarse,
        cross_entropy(
            logits.bfloat16().float().mT,
            say,
            ignore_index=PAD,
            label_smoothing=0.2,
            reduction="sum",
        ),
    )
    seen = []
    model.output_projection.register_forward_hook(
        lambda part, x, out: seen.append((x[0].dtype, out.dtype))
    )
    compute_gradients(model, *a_batch(), TrainingConfig(precision="bf16"))
    assert seen == [(torch.float32, torch.bfloat16)], (
        "the last LayerNorm gives fp32, the product is in bf16"
    )
    assert (
        {w.dtype for w in model.parameters()}
        == {w.grad.dtype for w in model.parameters()}
        == {torch.float32}
    )


def test_one_label_and_none():
    tiny = torch.tensor([[5, EOS]]), torch.tensor([[BOS, 7]])
    model = small_model().float()
    label = cross_entropy(
        model(tiny[0], tiny[1][:, :1])[:, 0], tiny[1][:, 1], label_smoothing=0.1
    ).item()
    assert abs(compute_gradients(model, *tiny, TrainingConfig()) - label) < 1e-5
    assert compute_gradients(model, tiny[0], tiny[1] * 0, TrainingConfig()) == 0, (
        "no label: a loss of 0, and not nan"
    )
    logits = model(tiny[0], tiny[1][:, :1])[:, 0]
    seen = []
    model.output_projection.register_forward_hook(
        lambda part, x, out: seen.append(out.requires_grad)
    )
    found = validation_loss(model.eval(), [([5, EOS], [BOS, 7])])
    assert abs(found - cross_entropy(logits, tiny[1][:, 1]).item()) < 1e-5
    assert seen == [False] and not model.training, (
        "validation needs no gradient, and leaves the mode"
    )


def test_validation_may_smooth_and_draws_nothing():
    model, state = small_model(dropout=0.3).float().train(), torch.get_rng_state()
    found = validation_loss(model, pairs(14), 32, label_smoothing=0.1)
    assert model.training and torch.equal(state, torch.get_rng_state())
    source, target = collate(pairs(14))
    right = cross_entropy(
        model.eval()(source, target[:, :-1]).mT,
        target[:, 1:],
        ignore_index=PAD,
        label_smoothing=0.1,
    )
    assert abs(found - right.item()) < 1e-4


# Several processes, played in one -----------------------------------------------------------------


def test_who_we_are(monkeypatch):
    assert (
        processes.process() == (0, 1)
        and processes.largest(3) == 3
        and processes.all_gather_objects("x") == ["x"]
    )
    for name, value in dict(is_initialized=True, get_rank=1, get_world_size=2).items():
        monkeypatch.setattr(processes.dist, name, lambda value=value: value)
    assert processes.process() == (1, 2)
    waits = []
    monkeypatch.setattr(processes.dist, "barrier", lambda: waits.append("waited"))
    assert processes.run_on_main(lambda: waits.append("done")) is None and waits == ["waited"], (
        "only the first does it, all wait"
    )


def test_the_first_process_sends_its_weights(monkeypatch):
    line, sent = nn.Linear(2, 2), []
    broadcast_parameters(line)  # alone there is nobody to send to
    monkeypatch.setattr(processes, "process", lambda: (1, 2))
    monkeypatch.setattr(
        processes.dist, "broadcast", lambda weight, rank: sent.append((weight.shape, rank))
    )
    broadcast_parameters(line)
    assert sent == [((2, 2), 0), ((2,), 0)]


def test_gradients_and_loss_are_added(monkeypatch):
    line = nn.Linear(2, 2)
    line.weight.grad, loss = torch.full((2, 2), 10.0), torch.tensor(0.5)
    monkeypatch.setattr(processes, "world_size", lambda: 2)
    monkeypatch.setattr(processes.dist, "all_reduce", lambda flat: flat.add_(torch.arange(1.0, 8)))
    all_reduce_gradients(line, loss)
    assert (
        loss == 1.5
        and line.weight.grad.tolist() == [[12, 13], [14, 15]]
        and line.bias.grad.tolist() == [6, 7]
    )


def test_a_process_without_a_row_adds_zeros(monkeypatch):
    line, loss, sent = nn.Linear(2, 2), torch.tensor(0.0), []
    line.bias.requires_grad_(False)
    monkeypatch.setattr(processes, "world_size", lambda: 2)
    monkeypatch.setattr(
        processes.dist, "all_reduce", lambda flat: sent.append(flat.tolist()) or flat.add_(2)
    )
    all_reduce_gradients(line, loss)
    assert (
        sent == [[0.0] * 5]
        and loss == 2
        and line.weight.grad.tolist() == [[2, 2], [2, 2]]
        and line.bias.grad is None
    )


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("accumulate", [1, 2, 4, 7])
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


def test_a_process_without_a_row():
    model, config = small_model().float(), TrainingConfig(accumulation_steps=2)
    empty = torch.zeros(0, 2, dtype=torch.long)
    assert compute_gradients(model, empty, empty, config) == 0
    assert model.output_projection.weight.grad is None


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


def test_a_function_is_compiled_once(monkeypatch):
    calls = []
    monkeypatch.setattr(torch, "compile", lambda f, **options: calls.append(options) or f)
    devices.compiled.cache_clear()
    for _ in range(2):
        devices.compiled(len)
    devices.compiled.cache_clear()
    assert calls == [{"dynamic": True}]


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


@pytest.mark.parametrize("clip", [0.01, 1e6, 0.0])
def test_gradients_are_fresh_and_clipped(clip):
    model, norms = small_model(), []
    job = Trainer(model, dataclasses.replace(CONFIG, clip_norm=clip))
    job.optimizer.step = lambda: norms.append(
        torch.stack([p.grad.norm() for p in model.parameters()]).norm().item()
    )
    for _ in range(2):
        job.train_step(sentences(2, 4, 0), sentences(2, 5, 1))
    assert math.isclose(*norms, rel_tol=1e-4), (
        "gradients pile up from step to step: zero_grad is missing"
    )
    assert (norms[0] < 0.0101) is (clip == 0.01), (
        "the gradient's norm must be clipped, and only at `clip`"
    )


@pytest.mark.parametrize("stop_at", [1, 4, 6, 11])
def test_an_interrupted_run_reaches_the_very_same_losses(tmp_path, stop_at):
    whole, stopped = run(), run(tmp_path, stop_at)
    assert stopped.step == stop_at and stopped.log[-1]["step"] == stop_at
    torch.manual_seed(99)  # a new process has other dice
    resumed = run(tmp_path)
    assert story(resumed) == story(whole), (
        "resumed losses are not those of the run without a stop: are weights, Adam's averages,"
        " position in the epoch and the random state (dropout's dice) all restored?"
    )
    assert all(
        torch.equal(a, b) for a, b in zip(resumed.model.parameters(), whole.model.parameters())
    )
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [entry["step"] for entry in whole.log], (
        "one line an entry"
    )


def test_training_switches_dropout_on():
    job = Trainer(small_model(dropout=0.1).float().eval(), CONFIG)
    job.fit(PairBatches(pairs(), CONFIG), callback=lambda trainer: trainer.model.eval() and None)
    assert story(job) == story(run()), (
        "a model that comes in evaluation mode must be trained with its dropout on"
    )


def test_a_finished_run_is_not_repeated(tmp_path):
    first, seen = run(tmp_path), []
    again = run(tmp_path, look=lambda trainer: seen.append(trainer.epoch))
    assert story(again) == story(first) and not seen, "a finished run is loaded, not run again"
    longer = run(tmp_path, config=dataclasses.replace(CONFIG, epochs=4))
    assert longer.epoch == 4 and story(longer)[: len(first.log)] == story(first), (
        "more epochs go on where the run ended"
    )


def test_the_log_counts_real_labels_and_keeps_what_an_epoch_says(tmp_path):
    job = run(tmp_path, look=lambda trainer: {"valid_loss": 1.5})
    assert job.n_tokens == CONFIG.epochs * sum(len(t) - 1 for _, t in pairs()), (
        "tokens are the labels that are no pads"
    )
    epochs = [entry for entry in job.log if entry["kind"] == "eval"]
    assert [entry["epoch"] for entry in epochs] == [1, 2, 3] and all(
        e["valid_loss"] == 1.5 for e in epochs
    )
    losses = [entry["loss"] for entry in job.log if entry["kind"] == "step"]
    assert sum(losses[-4:]) < sum(losses[:4]), "the loss does not fall"


def test_the_rate_is_that_of_the_step():
    model, seen = small_model(), []
    job = Trainer(model, CONFIG, lr_schedule=lambda step: seen.append(step) or 0.001 * step)
    source, target = sentences(2, 4, 0), sentences(2, 5, 1)
    for n in 1, 2:
        job.train_step(source, target)
        assert job.optimizer.param_groups[0]["lr"] == 0.001 * n, (
            "the schedule is off by one: the first step is step 1"
        )
    assert seen == [1, 2]
    adam = job.optimizer.param_groups[0]
    assert (adam["betas"], adam["eps"]) == (
        (0.9, 0.98),
        1e-9,
    ), "the paper's Adam has β = (0.9, 0.98), ε = 1e-9 (§5.3)"


def test_the_default_rate_is_noam_for_the_models_width():
    job = Trainer(small_model(), CONFIG)
    assert job.lr_schedule(4) == noam_lr(4, 8, CONFIG.warmup_steps, CONFIG.lr_factor)


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


def test_bf16_keeps_the_loss_in_float32():
    source, target = sentences(3, 5, 0), sentences(3, 6, 1)
    target[:, 0], losses = BOS, []
    for precision in "fp32", "bf16":
        model = small_model(d_model=32).float()
        losses.append(
            training.compute_gradients(model, source, target, TrainingConfig(precision=precision))
        )
        assert all(p.grad.dtype == torch.float32 for p in model.parameters()), (
            "weights and gradients stay in float32"
        )
    assert losses[0] != losses[1], 'precision="bf16" changes nothing: is autocast on?'
    assert abs(losses[0] - losses[1]) < 0.05, f"bf16 changes the loss too much: {losses}"
    assert (target[:, 1:] == PAD).any()


def test_a_gradient_of_ones_own():
    seen = []

    def gradient(trainer, source, target):
        seen.append(trainer.step)
        return 2 * compute_gradients(trainer.model, source, target, trainer.config)

    job = Trainer(small_model().float(), CONFIG, gradient_fn=gradient)
    plain = Trainer(small_model().float(), CONFIG)
    assert job.train_step(*a_batch())["loss"] == 2 * plain.train_step(*a_batch())["loss"]
    job.train_step(*a_batch())
    assert seen == [0, 1]


def broken():
    model = small_model().float()
    model.encoder.layers[0].self_attention.v_proj.bias.data[0] = math.inf
    return model


def test_nan_stops_before_the_weights_on_a_cpu():
    model = broken()
    before = model.output_projection.weight.clone()
    with pytest.raises(training.Diverged, match="after step 0: lower the learning rate"):
        Trainer(model, CONFIG).train_step(*a_batch())
    assert torch.equal(before, model.output_projection.weight)


def test_a_gpu_is_not_waited_for(monkeypatch, tmp_path):
    """Played on the CPU: nobody looks before the update; the losses are the same; nan is found when
    somebody looks, before a checkpoint."""
    config = dataclasses.replace(CONFIG, clip_norm=0.0)
    here = Trainer(small_model().float(), config)
    wanted = [here.train_step(*a_batch()) for _ in range(4)][-1]

    class OnGPU(torch.Tensor):
        is_cuda = True

    def gradient_fn(trainer, *batch):
        return compute_gradients(trainer.model, *batch, config).as_subclass(OnGPU)

    there = Trainer(small_model().float(), config, gradient_fn=gradient_fn)
    found = [there.train_step(*a_batch()) for _ in range(4)][-1]
    assert isinstance(found["loss"], torch.Tensor)
    there.check_finite()
    assert there.metrics == wanted
    spoilt = Trainer(broken(), config, folder=tmp_path, gradient_fn=gradient_fn)
    checkpoint.write_file(tmp_path / checkpoint.NAME, {}, {})
    good = (tmp_path / checkpoint.NAME).read_bytes()
    spoilt.train_step(*a_batch())
    assert spoilt.model.output_projection.weight.isnan().any()
    with pytest.raises(training.Diverged, match="after step 1: lower the learning rate"):
        spoilt.save()
    assert (tmp_path / checkpoint.NAME).read_bytes() == good


def test_the_log_of_every_nth_step():
    job = Trainer(small_model().float(), dataclasses.replace(CONFIG, log_every=4))
    batches = PairBatches(pairs(), CONFIG, n_steps=10)
    n = len(batches.epoch_batches(0))
    job.fit(batches)
    ends = {
        step for step in range(1, 11) if step % 4 == 0 or step % n == 0
    }  # and at an epoch's end, where the clock has to be right
    steps = [e["step"] for e in job.log if e["kind"] == "step"]
    assert steps == sorted(ends), "an epoch's end, where the clock has to be right, isn't logged"
    assert {4, 8} < ends and job.step == 10


def test_on_step_is_asked_after_every_step_and_its_words_are_logged(tmp_path):
    seen, batches = [], PairBatches(pairs(), CONFIG)
    n = len(batches.epoch_batches(0))

    def on_step(trainer):
        seen.append((trainer.step, trainer.epoch, trainer.epoch_step))
        return {"valid_loss": torch.tensor(1.5)} if trainer.step in (2, n) else None

    job = Trainer(
        small_model().float(), dataclasses.replace(CONFIG, checkpoint_every=0), folder=tmp_path
    )
    job.fit(batches, on_step, n + 1)
    assert seen == [(k, 0, k) for k in range(1, n)] + [(n, 1, 0), (n + 1, 1, 1)]
    others = [(e["kind"], e["step"], e.get("valid_loss")) for e in job.log if e["kind"] != "step"]
    assert others == [("eval", 2, 1.5), ("eval", n, 1.5)]
    assert [json.loads(line) for line in (tmp_path / LOG).read_text().splitlines()] == job.log


def test_a_checkpoint_follows_each_evaluation(tmp_path, monkeypatch):
    saved, save = [], Trainer.save
    monkeypatch.setattr(Trainer, "save", lambda run: saved.append(run.step) or save(run))
    config = dataclasses.replace(CONFIG, checkpoint_every=0)
    job, batches = (
        Trainer(small_model().float(), config, folder=tmp_path),
        PairBatches(pairs(), config),
    )
    n = len(batches.epoch_batches(0))
    job.fit(batches, lambda run: {} if run.step in (2, n) else None, n + 2)
    assert saved == [2, n, n + 2]


class Killed(Exception):
    pass


def dies_at(step):
    def on_step(trainer):
        if trainer.step == step:
            raise Killed

    return on_step


@pytest.mark.parametrize("dies", [1, 4, 10, 11])
def test_a_killed_run_goes_on_from_its_last_checkpoint(tmp_path, dies):
    "Also where it dies after an epoch's last step, while it is looked at."
    whole = run()
    with pytest.raises(Killed):
        Trainer(small_model(dropout=0.1).float(), CONFIG, folder=tmp_path).fit(
            PairBatches(pairs(), CONFIG), callback=dies_at(dies)
        )
    torch.manual_seed(99)
    resumed = run(tmp_path)
    assert story(resumed) == story(whole)
    assert [json.loads(line)["step"] for line in (tmp_path / LOG).read_text().splitlines()] == [
        e["step"] for e in whole.log
    ]


def test_somebody_elses_log_stays(tmp_path):
    (tmp_path / "log.jsonl").write_text("mine\n")
    with pytest.raises(ValueError, match="has a log and no config.json"):
        run(tmp_path)
    assert (tmp_path / "log.jsonl").read_text() == "mine\n"


class Terminal(io.StringIO):
    isatty = lambda self: True


def test_a_terminal_sees_a_bar_and_a_file_nothing_at_once(tmp_path):
    def run(look=lambda trainer: None):
        job = Trainer(small_model(dropout=0.1).float(), CONFIG)
        fit_with_bar(job, PairBatches(pairs(), CONFIG), look)

    with contextlib.redirect_stderr(Terminal()) as screen:
        run(lambda trainer: time.sleep(0.15))  # the bar is drawn ten times per second at most
    shown = [line for line in screen.getvalue().split("\r") if "loss" in line]
    assert "training" in shown[-1] and "epoch" in shown[-1]
    with contextlib.redirect_stderr(io.StringIO()) as file:
        run()
    assert file.getvalue() == ""


def test_seconds_are_those_of_training_alone():
    job = Trainer(small_model().float(), CONFIG)
    began = time.perf_counter()
    job.fit(PairBatches(pairs(), CONFIG), lambda trainer: time.sleep(0.3), 2)
    assert 0 < job.seconds < time.perf_counter() - began - 0.55, (
        "what on_step takes is no time of training"
    )


# A run of before ----------------------------------------------------------------------------------
# The losses of this run in the first edition.

LOSSES = [
    3.0446131,
    3.1796098,
    2.7418292,
    2.6730764,
    2.6165020,
    2.4791112,
    2.3197770,
    2.3793156,
    2.2950718,
    2.2380414,
    2.6030571,
    2.4089457,
    2.4348652,
    2.3001163,
    2.2957969,
    2.3246396,
]
SETTINGS = TrainingConfig(epochs=2, max_tokens=40, warmup_steps=10, checkpoint_every=6, seed=3)


def begun_before(folder=None, **changes):
    rng, toy = random.Random(0), []
    for _ in range(40):
        words = [rng.randrange(8) for _ in range(rng.randint(1, 9))]
        toy.append(([4 + w for w in words] + [EOS], [BOS] + [4 + 3 * w % 8 for w in words] + [EOS]))
    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(
            12, d_model=8, n_heads=2, d_ff=8, n_encoder_layers=1, n_decoder_layers=1, dropout=0.2
        )
    )
    config = dataclasses.replace(SETTINGS, **changes)
    job = Trainer(model, config, folder=folder)
    job.fit(
        PairBatches(toy, config), callback=on_epoch_end(lambda trainer: {"seen": trainer.epoch - 1})
    )
    return job


SAME_DICE = pytest.mark.skipif(
    not torch.backends.mkl.is_available(), reason="torch without MKL draws its dropout otherwise"
)


@SAME_DICE
def test_the_losses_are_those_of_before():
    found = [e["loss"] for e in begun_before().log if e["kind"] == "step"]
    same(
        torch.tensor(found),
        torch.tensor(LOSSES),
        "the same seed gives other losses than before",
        atol=1e-4,
    )


def test_a_run_of_an_earlier_edition_is_refused(tmp_path):
    (tmp_path / "log.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match="earlier edition.*another folder"):
        begun_before(tmp_path)


def test_four_steps_by_hand():
    "Clipping and the rate by their formulas, the update by Adam of §5.3."
    job, model = (
        Trainer(
            small_model().float(), TrainingConfig(clip_norm=0.2, warmup_steps=3, lr_factor=2.0)
        ),
        small_model().float(),
    )
    batch, weights = a_batch(), list(model.parameters())
    adam = torch.optim.Adam(weights, betas=(0.9, 0.98), eps=1e-9)
    for step in range(1, 5):
        adam.zero_grad()
        loss = training.compute_gradients(model, *batch, TrainingConfig())
        norm = sum(w.grad.square().sum() for w in weights).sqrt()
        for weight in weights:
            weight.grad *= min(1, 0.2 / norm)
        adam.param_groups[0]["lr"] = (
            2 * model.config.d_model**-0.5 * min(step**-0.5, step * 3**-1.5)
        )
        adam.step()
        found = job.train_step(*batch)
        torch.testing.assert_close(
            found, {"loss": loss.item(), "grad_norm": norm.item()}, atol=1e-3, rtol=0
        )
    torch.testing.assert_close(
        job.model.output_projection.weight, model.output_projection.weight, atol=1e-3, rtol=1e-3
    )


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
