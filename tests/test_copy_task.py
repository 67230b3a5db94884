"""The copy task: what is asked, what counts as right, which batches, what `train_on_copying` keeps,
all at sizes of a second."""

import pytest
import torch
from torch import nn

from transformer_lit.copy_task import CopyBatches, copy_batch, copy_accuracy, train_on_copying
from transformer_lit.masks import BOS, EOS, UNK
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
    return Transformer(
        TransformerConfig(
            12, d_model=8, n_heads=2, d_ff=16, n_encoder_layers=1, n_decoder_layers=1, dropout=0.1
        )
    )


def test_a_batch_is_words_between_their_marks():
    source, target = copy_batch(3, generator=torch.Generator().manual_seed(1))
    assert (
        source.shape == (3, 11)
        and target.shape == (3, 12)
        and (source[:, -1] == EOS).all()
        and (target[:, 0] == BOS).all()
    )
    assert torch.equal(target[:, 1:], source) and UNK < source[:, :-1].min() and source.max() < 84


def test_a_thousand_sequences_of_eight_that_no_training_draws():
    echo = Echo()
    assert copy_accuracy(echo) == 1.0
    assert torch.equal(
        echo.source, copy_batch(1000, 8, 84, torch.Generator().manual_seed(1_000_000))[0]
    )
    assert copy_accuracy(Echo(range(25)), n_sequences=100) == 0.75


def test_batches_by_their_seed():
    batches, rng = CopyBatches(5, (3, 6), 4, 20, seed=7), torch.Generator().manual_seed(7)
    assert batches.n_steps == 5 and batches.fingerprint() == "random sequences"
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


def test_batches_as_they_come():
    ((source, _),) = CopyBatches(1).epoch_batches(0)
    rng = torch.Generator().manual_seed(0)
    torch.randint(1, (1,), generator=rng)
    assert torch.equal(source, copy_batch(64, 8, 84, rng)[0])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {
            "warmup_steps": 7,
            "lr_factor": 0.5,
            "label_smoothing": 0.1,
            "seed": 3,
            "lengths": (2, 4),
            "batch_size": 5,
        },
    ],
)
def test_training_is_the_trainers_and_the_last_five_weights_are_averaged(options):
    n_steps, called_at, weights = 130, [], []
    ours, theirs = small(), small()
    losses = train_on_copying(
        ours, n_steps, callback=called_at.append, **({"lengths": (3,), "batch_size": 4} | options)
    )
    assert called_at == [20, 40, 60, 80, 100, 120, 130] and len(losses) == n_steps

    def on_step(trainer):
        if trainer.step in called_at:
            weights.append({name: weight.clone() for name, weight in theirs.state_dict().items()})

    config = TrainingConfig(
        warmup_steps=options.get("warmup_steps", 60),
        lr_factor=options.get("lr_factor", 0.25),
        clip_norm=0.0,
        label_smoothing=options.get("label_smoothing", 0.0),
        seed=options.get("seed", 0),
    )
    log = Trainer(theirs, config).fit(
        CopyBatches(
            n_steps, options.get("lengths", (3,)), options.get("batch_size", 4), 12, config.seed
        ),
        callback=on_step,
    )
    assert losses == [entry["loss"] for entry in log if entry["kind"] == "step"]
    for name, weight in average_weights(weights[-5:]).items():
        assert torch.equal(ours.state_dict()[name], weight), name


def test_a_schedule_of_ones_own():
    rates = []
    train_on_copying(small(), 3, (2,), 2, lr_schedule=lambda step: rates.append(step) or 0.0)
    assert set(rates) >= {1, 2, 3}
