"""Weights to disk and back: whole files, what belongs in them, and files that can't be trusted."""

import contextlib
import json
import resource
from unittest.mock import Mock

import pytest
import torch
from helpers import sentences, small_model
from safetensors import safe_open
from torch import nn

from transformer_lit.corpora import files
from transformer_lit.runs import checkpoints as checkpoint
from transformer_lit.runtime import distributed as processes
from transformer_lit.runs.checkpoints import (
    average_weights,
    load_rng,
    model_tensors,
    read_file,
    rng_tensors,
)
from transformer_lit.runs import checkpoints


def trained(seed=0, **changes):
    model = small_model(seed, **changes)
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def step(model, optimizer):
    model(sentences(2, 4, 0), sentences(2, 3, 1)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def test_a_checkpoint_brings_everything_back(tmp_path):
    (one, optimizer), (two, other) = trained(0), trained(1)
    step(one, optimizer)
    torch.manual_seed(5)
    checkpoints.save(tmp_path / "new" / "c.safetensors", one, optimizer, {"step": 7})
    dice = torch.rand(3)
    assert checkpoints.load(tmp_path / "new" / "c.safetensors", two, other) == {"step": 7}
    assert torch.equal(torch.rand(3), dice), (
        "the random state is not restored: dropout would throw other dice"
    )
    for _ in range(2):
        step(one, optimizer)
        step(two, other)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters())), (
        "after loading, the steps differ: Adam's averages and its count belong in the checkpoint"
    )


def test_without_an_optimizer_the_dice_stay(tmp_path):
    model, optimizer = trained()
    checkpoints.save(tmp_path / "c.safetensors", model, optimizer, {})
    torch.manual_seed(3)
    checkpoints.load(tmp_path / "c.safetensors", model)
    dice = torch.rand(2)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(2), dice), (
        "loading weights to translate must not reset the reader's random state"
    )


def test_a_checkpoint_of_another_shape(tmp_path):
    checkpoints.save(tmp_path / "c.safetensors", *trained(), {})
    model, optimizer = trained(d_ff=20)
    before = [w.clone() for w in model.parameters()]
    with pytest.raises(ValueError, match="another shape: model"):
        checkpoints.load(tmp_path / "c.safetensors", model, optimizer)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before)), (
        "a refused checkpoint must change nothing"
    )


def test_a_save_that_fails_is_one_sentence(tmp_path, monkeypatch):
    path, (model, optimizer) = tmp_path / "c.safetensors", trained()
    checkpoints.save(path, model, optimizer, {"step": 1})
    old = path.read_bytes()

    def full(*_, **__):
        raise OSError("No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(OSError, match="can't be written: No space left"):
        checkpoints.save(path, model, optimizer, {"step": 2})
    assert path.exists() and path.read_bytes() == old, (
        "a full disk destroys the old checkpoint: write beside it, then move"
    )
    assert [p.name for p in tmp_path.iterdir()] == [path.name], (
        "a full disk leaves half a new checkpoint"
    )


@pytest.mark.parametrize("where", ["save_file", "replace"])
def test_an_interrupted_save_leaves_the_old_checkpoint(tmp_path, monkeypatch, where):
    path, (model, optimizer) = tmp_path / "c.safetensors", trained()
    checkpoints.save(path, model, optimizer, {"step": 1})
    old = path.read_bytes()

    def half(tensors, file, metadata=None):
        open(file, "wb").write(b"half a file")
        raise KeyboardInterrupt

    def stop(*_):
        raise KeyboardInterrupt

    if where == "save_file":
        monkeypatch.setattr(checkpoint, "save_file", half)
    else:
        monkeypatch.setattr(files.os, "replace", stop)
    step(model, optimizer)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(path, model, optimizer, {"step": 2})
    assert path.read_bytes() == old, (
        "a stop in the middle of saving destroys the old checkpoint: write beside it, then move"
    )
    monkeypatch.undo()
    checkpoints.save(path, model, optimizer, {"step": 2})
    assert checkpoints.load(path, model) == {"step": 2}
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_what_is_stored(tmp_path):
    model, optimizer = trained()
    step(model, optimizer)
    checkpoints.save(tmp_path / "c.safetensors", model, optimizer, {"step": 2})
    with safe_open(tmp_path / "c.safetensors", "pt") as file:
        kinds = [name.split(".")[0] for name in file.keys()]
        assert json.loads(file.metadata()["progress"]) == {"step": 2}
    assert kinds.count("optimizer") == 3 * kinds.count("model"), (
        "Adam has two means and a count for each weight"
    )
    assert kinds.count("model") == len(list(model.parameters())) < len(model.state_dict()), (
        "tied matrices are stored once"
    )
    assert kinds.count("random") == 1
    norm = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    assert "model.1.running_mean" in model_tensors(norm), "buffers that last belong to the model"


def test_weights_alone_are_read_without_the_rest(tmp_path):
    model, optimizer = trained()
    step(model, optimizer)
    checkpoints.save(tmp_path / "c.safetensors", model, optimizer, {"step": 2})
    held, progress = read_file(tmp_path / "c.safetensors")
    assert progress == {"step": 2} and {name[:6] for name in held} == {"model."}
    held, _ = read_file(tmp_path / "c.safetensors", with_training=True)
    assert "random.cpu.0" in held and "optimizer.0.exp_avg" in held


@pytest.mark.parametrize("kept", [0, 8, 900, -1])
def test_a_truncated_checkpoint_is_one_sentence(tmp_path, kept):
    path = tmp_path / "c.safetensors"
    checkpoints.save(path, *trained(), {})
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(
        ValueError,
        match="no whole checkpoint .*: put a whole one in its place, or use another folder",
    ):
        read_file(path)


@contextlib.contextmanager
def full_disk(size=4000):
    "No file of this process may grow beyond `size` bytes: the operating system itself refuses."
    old, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (old, hard))


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path):
    path, (model, optimizer) = tmp_path / "c.safetensors", trained()
    checkpoints.save(path, model, optimizer, {"step": 1})
    old = path.read_bytes()
    with full_disk(), pytest.raises(OSError, match="can't be written"):
        checkpoints.save(path, model, optimizer, {"step": 2})
    assert path.read_bytes() == old and [p.name for p in tmp_path.iterdir()] == [path.name]


def test_the_first_process_writes_and_all_wait(tmp_path, monkeypatch):
    """Process 0 of two writes, process 1 doesn't; both wait until the file is there, and it has
    both random states."""
    model, optimizer = trained()

    def as_process(rank, path):
        waits = []
        with monkeypatch.context() as patch:
            patch.setattr(processes, "process", lambda: (rank, 2))
            patch.setattr(processes.dist, "barrier", lambda: waits.append(path.exists()))
            patch.setattr(
                processes.dist,
                "all_gather_object",
                lambda found, own: found.__setitem__(slice(None), [own, own.flip(0)]),
            )
            checkpoints.save(path, model, optimizer, {})
        return waits

    assert as_process(0, tmp_path / "one") == [True] and as_process(1, tmp_path / "two") == [False]
    assert not (tmp_path / "two").exists()
    held, _ = read_file(tmp_path / "one", with_training=True)
    assert torch.equal(held["random.cpu.1"], held["random.cpu.0"].flip(0)), (
        "each process has its own random state"
    )
    torch.manual_seed(3)
    assert torch.equal(rng_tensors(torch.device("cpu"))["random.cpu.0"], torch.get_rng_state())


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_gpu_keeps_its_own_random_state(device, monkeypatch):
    module, own = Mock(), torch.arange(3)
    module.get_rng_state.return_value = own
    monkeypatch.setattr(torch, "get_device_module", lambda device: module)
    held = rng_tensors(torch.device(device))
    assert held.keys() == {f"random.{device}.0"} and held[f"random.{device}.0"] is own
    load_rng(held, torch.device("cpu"))
    module.set_rng_state.assert_not_called()
    load_rng(held, torch.device(device))
    module.set_rng_state.assert_called_once_with(own)


def test_weights_that_do_not_fit_change_nothing():
    model = nn.Linear(2, 2)
    before = model.weight.clone()
    for held in (
        {},
        {"model.weight": torch.zeros(2, 2)},
        {"model.weight": torch.zeros(2, 2), "model.bias": torch.zeros(3)},
    ):
        with pytest.raises(ValueError, match="another shape: model"):
            checkpoint.load_weights(model, held)
    assert torch.equal(model.weight, before)
    checkpoint.load_weights(
        model,
        {
            "model.weight": torch.ones(2, 2),
            "model.bias": torch.zeros(2),
            "optimizer.0.step": torch.ones(()),
        },
    )
    assert model.weight.sum() == 4


def test_the_average_weights_several_weights(tmp_path):
    models = [nn.Linear(3, 2) for _ in range(4)]
    before = [model.weight.clone() for model in models]
    mean = average_weights(model.state_dict() for model in models)
    torch.testing.assert_close(
        mean["weight"], torch.stack([m.weight.detach() for m in models]).mean(0)
    )
    assert list(mean) == ["weight", "bias"] and all(
        torch.equal(m.weight, old) for m, old in zip(models, before)
    ), "the first is changed"
    alone = average_weights([models[0].state_dict()])
    assert (
        torch.equal(alone["weight"], models[0].weight)
        and alone["weight"].data_ptr() != models[0].weight.data_ptr()
    ), "one alone is a copy"
    for n, model in enumerate(models):
        checkpoint.save_weights(tmp_path / f"step-{n}.safetensors", model)
    checkpoint.average_files(models[0], sorted(tmp_path.glob("step-*")))
    torch.testing.assert_close(models[0].weight.detach(), mean["weight"])


def test_only_the_first_process_keeps_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "process", lambda: (1, 2))
    checkpoint.save_weights(tmp_path / "step-1", nn.Linear(1, 1))
    assert not list(tmp_path.iterdir())
