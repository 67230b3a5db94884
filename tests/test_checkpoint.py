"""Weights to disk and back: what belongs in a file, and files that can't be trusted."""

import contextlib
import resource

import pytest
import torch
from helpers import sentences, small_model
from torch import nn

from transformer_lit.corpora import files
from transformer_lit.runs import checkpoints
from transformer_lit.runs.checkpoints import average_weights, model_tensors, read_file


def trained(seed=0, **changes):
    model = small_model(seed, **changes)
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def step(model, optimizer):
    model(sentences(2, 4, 0), sentences(2, 3, 1)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


@pytest.fixture
def saved(tmp_path):
    "A checkpoint in a new folder, with its model and optimizer."
    path, (model, optimizer) = tmp_path / "new" / "c.safetensors", trained()
    step(model, optimizer)
    checkpoints.save(path, model, optimizer, {"step": 1})
    assert path.exists(), "a save destroys the old checkpoint: write beside it, then move"
    return path, model, optimizer


def test_a_checkpoint_brings_everything_back(tmp_path):
    path, (model, optimizer), (second, adam) = tmp_path / "new" / "c", trained(0), trained(1)
    step(model, optimizer)
    torch.manual_seed(5)
    checkpoints.save(path, model, optimizer, {"step": 7})
    dice = torch.rand(3)
    assert checkpoints.load(path, second, adam) == {"step": 7}
    assert torch.equal(torch.rand(3), dice), (
        "the random state is not restored: dropout would throw other dice"
    )
    for _ in range(2):
        step(model, optimizer)
        step(second, adam)
    assert all(map(torch.equal, model.parameters(), second.parameters())), (
        "after loading, the steps differ: Adam's averages and its count belong in the checkpoint"
    )


def test_without_an_optimizer_the_dice_stay(saved):
    torch.manual_seed(3)
    checkpoints.load(*saved[:2])
    dice = torch.rand(2)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(2), dice)  # translating must not reset the reader's random state


@contextlib.contextmanager
def full_disk(monkeypatch):
    "No file of this process may grow beyond 4,000 bytes: the operating system itself refuses."
    old, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (old, hard))


@contextlib.contextmanager
def failing(monkeypatch, place, name, error):
    def fail(tensors, path, *_):
        if name == "save_file":
            path.write_bytes(b"half a file")
        raise error("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(place, name, fail)
        yield


@pytest.mark.parametrize(
    "stop, error",
    [
        (full_disk, OSError),
        (lambda patch: failing(patch, checkpoints, "save_file", OSError), OSError),
        (
            lambda patch: failing(patch, checkpoints, "save_file", KeyboardInterrupt),
            KeyboardInterrupt,
        ),
        (lambda patch: failing(patch, files.os, "replace", KeyboardInterrupt), KeyboardInterrupt),
    ],
    ids=["full disk", "error", "stop while writing", "stop while moving"],
)
def test_a_save_that_fails_leaves_the_old_checkpoint(saved, monkeypatch, stop, error):
    path, model, optimizer = saved
    old = path.read_bytes()
    with stop(monkeypatch), pytest.raises(error) as failure:
        checkpoints.save(path, model, optimizer, {"step": 2})
    assert path.exists() and path.read_bytes() == old, (
        "a stop or a full disk destroys the old checkpoint: write beside it, then move"
    )
    assert error is KeyboardInterrupt or path.name in str(failure.value)
    assert list(path.parent.iterdir()) == [path]  # half a new checkpoint is left


def test_what_is_stored(saved):
    path, model, _ = saved
    tensors, _ = read_file(path)
    assert len(tensors) == len(list(model.parameters())) < len(model.state_dict())  # tied: once
    tensors, _ = read_file(path, with_training=True)
    kinds = [name.partition(".")[0] for name in tensors]
    assert kinds.count("optimizer") == 3 * kinds.count("model")  # two means and a count for each
    norm = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    assert "model.1.running_mean" in model_tensors(norm)  # buffers that last belong to the model


@pytest.mark.parametrize("size", [0, 8, 900, -1])
def test_a_truncated_checkpoint_is_one_sentence(saved, size):
    path = saved[0]
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match="c.safetensors is no whole checkpoint"):
        read_file(path)


def test_weights_of_another_shape_change_nothing(saved):
    model, optimizer = trained(d_ff=20)
    before = [weight.clone() for weight in model.parameters()]
    with pytest.raises(ValueError, match="another shape: model"):
        checkpoints.load(saved[0], model, optimizer)
    assert all(map(torch.equal, model.parameters(), before))  # a refusal must change nothing
    with pytest.raises(ValueError, match="another shape: model"):
        checkpoints.load_weights(nn.Linear(2, 2), {"model.weight": torch.zeros(2, 2)})


def test_the_average_weights_several_weights(tmp_path):
    models = [nn.Linear(3, 2) for _ in range(4)]
    mean = torch.stack([model.weight.detach() for model in models]).mean(0)
    averaged = average_weights(model.state_dict() for model in models)["weight"]
    torch.testing.assert_close(averaged, mean)
    for n, model in enumerate(models):
        checkpoints.save_weights(tmp_path / f"step-{n}.safetensors", model)
    checkpoints.average_files(models[0], sorted(tmp_path.glob("step-*")))
    torch.testing.assert_close(models[0].weight.detach(), mean)
