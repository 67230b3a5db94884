"""The rule of part IV by its parts: equal parameters, batches and search, counted operations,
intervals. The records: test_fair.py."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from transformer_lit import comparison as e
from transformer_lit.batching import collate

TINY = replace(e.SETUPS["pocket"], model_sizes=e.SMALL_SIZES | dict(d_model=16, d_ff=32))


def test_decay_shrinks_the_hidden_matrices_and_nothing_else():
    "With a gradient of zero Adam stays where it is, so all that moves is decay: rate times decay."
    model = e.build_transformer(40, TINY.model_sizes)
    both, before = e.AdamWAndAdam(model, weight_decay=0.5), [w.clone() for w in model.parameters()]
    for w in model.parameters():
        w.grad = torch.zeros_like(w)
    for group in both.param_groups:
        group["lr"] = 0.1
    both.step()
    for (name, w), old in zip(model.named_parameters(), before):
        hidden = w.ndim == 2 and name.startswith(("encoder", "decoder"))
        torch.testing.assert_close(w.detach(), old * (0.95 if hidden else 1))


# The rule ----------------------------------------------------------------------------------------


@cache
def data():
    return e.load_encoded_corpus("pocket")


@pytest.mark.seconds
def test_the_ground_can_say_its_references():
    corpus = data()
    assert len(corpus.sources) == len(set(corpus.sources)) <= len(corpus.test)
    decode = corpus.tokenizer.decode
    for (source, target), english, references in zip(
        corpus.test, corpus.sources, corpus.references
    ):
        assert decode(source) == english and decode(target[1:]) == references[0]
    assert max(len(side) for pair in corpus.train for side in pair) <= 100


@pytest.mark.seconds
def test_batches_are_those_of_the_seed_and_meet_the_budget():
    subset = data().train[:300]
    batches, again, others = (e.batches_for_budget(subset, 256, 6000, seed) for seed in (1, 1, 2))
    assert batches == again != others
    labels = [sum(len(subset[i][1]) - 1 for i in batch) for batch in batches]
    assert sum(labels) >= 6000 > sum(labels[:-1]), "the last batch meets the budget, not before it"
    first, second = (e.token_batches(subset, 256, seed) for seed in (1, 1001))
    assert batches == (first + second)[: len(batches)]  # later epochs are dealt anew
    exact = sum(labels[: len(first)])
    assert e.batches_for_budget(subset, 256, exact, 1) == first  # an exact budget needs no more


@pytest.mark.parametrize(
    "n_parameters, sizes, size",
    [
        (10_250, range(8, 4096), 101),
        (10_000, [98, 99, 102], 99),
        (100 * 101 * 0.981, [100, 200], 100),
    ],
)
def test_the_size_that_comes_nearest(n_parameters, sizes, size):
    assert e.match_parameters(lambda n: nn.Linear(n, n), n_parameters, sizes) == size


def test_no_size_within_two_percent_is_refused_by_name():
    with pytest.raises(ValueError, match=r"95 .* -11.0%"):
        e.match_parameters(lambda n: nn.Linear(n, n), 10_250, range(90, 96))


def test_a_run_takes_what_its_design_and_scale_say():
    design = e.Variant(e.build_transformer, "muon", 0.3, 0.5)
    run = e.build_trainer(design, replace(TINY, max_tokens=77), 2000, 0.4, n_steps=20, seed=9)
    assert (run.config.max_tokens, run.config.seed, run.config.label_smoothing) == (77, 9, 0.3)
    assert isinstance(run.optimizer, e.MuonAndAdam)
    rates = [run.lr_schedule(step) for step in (1, 5, 10, 15)]
    assert rates == pytest.approx([0.04, 0.2, 0.4, 0.4 * e.linear_lr(15, 20, 1.0, 10)])


@pytest.mark.seconds
def test_what_is_counted():
    "The operations of each `every`-th step, which is not timed, from the second on."
    run = e.build_trainer(e.VARIANTS["transformer"], TINY, 2000, 1e-3, 9, 1)
    run.flop_every, counted = 3, []
    for _ in range(6):
        tokens, timed = run.flop_tokens, run.timed_steps
        run.train_step(*collate(data().train[:4]))
        counted.append(run.flop_tokens > tokens)
        assert counted[-1] == (run.timed_steps == timed)
    assert counted == [False, True, False, False, True, False]
    run.n_labels = 1000
    cost, size = e.training_cost(run), e.count_parameters(run.model)
    assert cost["parameters"] == size and cost["flops_6nd"] == 6 * size * 1000
    assert cost["flops"] == pytest.approx(run.flops / run.flop_tokens * 1000)


@pytest.mark.parametrize("best", [(6e-3, 0.3), (1.5e-3, 0.3), (1.2e-2, 0.0), (3e-3, 0.9)])
def test_the_search_closes_around_the_best(best):
    "The loss rises by 1 with each step away from it."
    ratios, tried = e.WARMUP_RATIOS, {}
    while setting := e.next_trial(tried, 30):
        assert setting not in tried
        steps = abs(ratios.index(setting[1]) - ratios.index(best[1]))
        tried[setting] = abs(math.log2(setting[0] / best[0])) + steps
    assert min(tried, key=tried.get) == pytest.approx(best) and e.is_local_minimum(tried)


@pytest.mark.parametrize(
    "losses, peak",
    [
        ({8: 1.0}, 4),
        ({8: 1.0, 4: 1.0}, 16),
        ({8: 1.0, 4: 1.0, 16: 1.0}, None),
        ({8: 2.0, 4: 1.0}, 2),
        ({8: 2.0, 4: 3.0, 16: 1.0}, 32),
    ],
)
def test_the_second_part_halves_or_doubles_the_peak(losses, peak):
    assert e.next_peak_lr(losses) == peak


@pytest.mark.parametrize(
    "n_tokens, loss, beyond",
    [
        (8000, 1.75, False),
        (4000, 2.0, False),
        (32000, 1.25, True),
        (500, 3.5, True),
    ],
)
def test_a_loss_between_budgets_and_beyond(n_tokens, loss, beyond):
    points = {1000: 3.0, 4000: 2.0, 16000: 1.5}
    assert e.interpolate_loss(points, n_tokens) == (pytest.approx(loss), beyond)


# Intervals ----------------------------------------------------------------------------------------


def test_the_bootstrap_holds_95_of_100():
    "Alike with every seed, so that only sentences are drawn."
    nats = np.random.default_rng(0).normal(0, 1, 3000)
    gap = e.loss_difference([nats] * 3, [nats * 0] * 3, [1] * 3000, n_samples=4000)
    error = nats.std() / 3000**0.5
    for width in (gap["value"] - gap["low"], gap["high"] - gap["value"]):
        assert width / error == pytest.approx(1.96, abs=0.1)


BASE, LENGTHS = np.random.default_rng(0).gamma(2, 5, (3, 400)), np.arange(400) % 9 + 3


@pytest.mark.parametrize(
    "by_seed, significant, why",
    [
        ([0.2, 0.2, 0.2], True, "the same for all"),
        ([-0.9, -1.0, -1.1], True, "below zero as well"),
        ([0.0, 0.0, 3.0], False, "seeds are drawn as well"),
        ([0.1, 1.0, 1.9], False, "the bootstrap alone would decide it; Student's interval holds 0"),
    ],
)
def test_the_interval_of_a_difference(by_seed, significant, why):
    gap = e.loss_difference(BASE + np.array(by_seed)[:, None] * LENGTHS, BASE, LENGTHS)
    assert gap["value"] == pytest.approx(np.mean(by_seed))
    assert gap["t_half_width"] == pytest.approx(4.303 * np.std(by_seed, ddof=1) / 3**0.5, abs=1e-9)
    assert min(by_seed) - 1e-9 <= gap["low"] <= gap["value"] + 1e-9 <= gap["high"] + 2e-9
    assert gap["significant"] is significant, why
