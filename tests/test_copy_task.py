"""The copy task: what is asked, what counts as right, which batches, what `train_on_copying` keeps,
all at sizes of a second."""

import pytest
import torch
from torch import nn

from transformer_lit.copy_task import CopyBatches, copy_batch, copy_accuracy, train_on_copying
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.runs.checkpoints import average_weights
from transformer_lit.training import Trainer, TrainingConfig


class Echo(nn.Module):
    "Says its source again; the rows in `wrong` lose their first word."

    def __init__(self, wrong=()):
        super().__init__()
        self.wrong, self.source = list(wrong), None

    def initial_state(self, source):
        self.source = source
        answer = source.clone()
        answer[self.wrong] = answer[self.wrong].roll(-1, 1)
        return {"answer": answer}

    def step(self, tokens, state):
        answer = state["answer"]
        return nn.functional.one_hot(answer[:, 0], 84) * 50.0, {"answer": answer.roll(-1, 1)}


def small(seed=0):
    torch.manual_seed(seed)
    sizes = dict(d_model=8, n_heads=2, d_ff=16, n_encoder_layers=1, n_decoder_layers=1)
    return Transformer(TransformerConfig(12, **sizes))


@pytest.mark.parametrize("wrong, share", [([], 1.0), (range(25), 0.75)])
def test_whole_sequences_count(wrong, share):
    assert copy_accuracy(Echo(wrong), n_sequences=100) == share


def test_batches_by_their_seed():
    batches, rng = CopyBatches(5, (3, 6), 4, 20, seed=7), torch.Generator().manual_seed(7)
    torch.manual_seed(3)  # the global generator doesn't matter
    lengths, epoch = set(), batches.epoch_batches(0)
    assert len(epoch) == 5
    for batch in epoch:
        pick = int(torch.randint(2, (1,), generator=rng))
        source, target = batches.load_batch(batch)
        wanted = copy_batch(4, (3, 6)[pick], 20, rng)
        assert torch.equal(source, wanted[0]) and torch.equal(target, wanted[1])
        assert batches.count_labels(batch) == source.numel()
        lengths.add(source.size(1))
    assert lengths == {4, 7}


@pytest.mark.seconds
def test_training_is_the_trainers_and_the_last_five_weights_are_averaged():
    n_steps, called_at, weights = 130, [], []
    ours, theirs = small(), small()
    settings = dict(warmup_steps=7, lr_factor=0.5, label_smoothing=0.1, seed=3)
    losses = train_on_copying(ours, n_steps, (2, 4), 5, callback=called_at.append, **settings)
    assert called_at == [20, 40, 60, 80, 100, 120, 130] and len(losses) == n_steps

    def on_step(trainer):
        if trainer.step in called_at:
            weights.append({name: weight.clone() for name, weight in theirs.state_dict().items()})

    run = Trainer(theirs, TrainingConfig(clip_norm=0.0, **settings))
    log = run.fit(CopyBatches(n_steps, (2, 4), 5, 12, seed=3), callback=on_step)
    assert losses == [entry["loss"] for entry in log if entry["kind"] == "step"]
    for name, weight in average_weights(weights[-5:]).items():
        assert torch.equal(ours.state_dict()[name], weight), name
