"""The rule of part IV by its parts: equal parameters, batches and search, counted operations,
intervals. The records: test_fair.py."""

import itertools
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


def test_batches_are_those_of_the_seed_and_meet_the_budget():
    subset = data().train[:300]
    batches, again, others = (e.batches_for_budget(subset, 256, 6000, seed) for seed in (1, 1, 2))
    assert batches == again != others
    labels = [sum(len(subset[i][1]) - 1 for i in batch) for batch in batches]
    assert sum(labels) >= 6000 > sum(labels[:-1]), "the last batch meets the budget, not before it"
    first, second = (e.token_batches(subset, 256, seed) for seed in (1, 1001))
    assert batches == (first + second)[: len(batches)], "later epochs are dealt anew"
    exact = sum(labels[: len(first)])
    assert e.batches_for_budget(subset, 256, exact, 1) == first, "an exact budget needs no more"


@pytest.mark.parametrize(
    "n_parameters, sizes, size",
    [
        (10_250, range(8, 4096), 101),
        (4095 * 4096, range(8, 4096), 4095),
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
    design = e.Variant(
        e.build_transformer, "muon", 0.3, 0.5, gradient_fn=lambda n_steps: f"over {n_steps}"
    )
    run = e.build_trainer(design, replace(TINY, max_tokens=77), 2000, 0.4, n_steps=20, seed=9)
    assert (run.config.max_tokens, run.config.seed, run.config.label_smoothing) == (77, 9, 0.3)
    assert run.gradient_fn == "over 20" and isinstance(run.optimizer, e.MuonAndAdam)
    rates = [run.lr_schedule(step) for step in (1, 5, 10, 15)]
    assert rates == pytest.approx([0.04, 0.2, 0.4, 0.4 * e.linear_lr(15, 20, 1.0, 10)])
    plain = e.build_trainer(replace(design, warmup_ratio=0.0), TINY, 2000, 0.4, 20, 9)
    assert plain.lr_schedule(1) == pytest.approx(e.linear_lr(1, 20, 0.4, 1))


def test_chosen_batches_begin_with_the_random_state_after_the_model():
    run = e.build_trainer(e.VARIANTS["transformer"], TINY, 2000, 0.4, 20, 9)
    state, batches = torch.get_rng_state(), e.FixedBatches(data().train, run, [[1], [2]])
    torch.rand(9)
    assert batches.epoch_batches(0) == [[1], [2]] and torch.equal(torch.get_rng_state(), state)


def test_what_is_counted_and_timed(monkeypatch):
    "Each `every`-th step is counted and not timed, from the second on."
    clock = itertools.count()
    monkeypatch.setattr(e.time, "perf_counter", lambda: 10.0 * next(clock))
    monkeypatch.setattr(e.time, "process_time", lambda: 100.0 * next(clock))
    run = e.build_trainer(e.VARIANTS["transformer"], TINY, 2000, 1e-3, 9, 1)
    run.flop_every = 3
    counted = []
    for _ in range(6):
        before = run.flop_tokens, run.timed_steps
        run.train_step(*collate(data().train[:4]))
        counted.append(run.flop_tokens > before[0])
        assert counted[-1] == (run.timed_steps == before[1])
    assert counted == [False, True, False, False, True, False]
    assert (run.wall_seconds, run.cpu_seconds) == (4 * 20, 4 * 200), "one reading to the next"
    run.n_tokens = 1000
    cost, size = e.training_cost(run), e.count_parameters(run.model)
    assert cost["parameters"] == size and cost["flops_6nd"] == 6 * size * 1000
    assert cost["flops"] == pytest.approx(run.flops / run.flop_tokens * 1000)
    seconds = cost["seconds"], cost["cpu_seconds"], cost["tokens_per_second"]
    assert seconds == pytest.approx((80 * 6 / 4, 800 * 6 / 4, 1000 / 1200))


def bowl(best):
    "A loss that is 0 at `best` and rises by 1 with each step away."
    return lambda s: abs(math.log2(s[0] / best[0])) + abs(
        e.WARMUP_RATIOS.index(s[1]) - e.WARMUP_RATIOS.index(best[1])
    )


def walked(loss, most=e.MAX_TRIALS):
    "All trials of a search."
    tried = {}
    while setting := e.next_trial(tried, most):
        assert setting not in tried
        tried[setting] = loss(setting)
    return tried


@pytest.mark.parametrize(
    "best",
    [
        (6e-3, 0.1),
        (6e-3, 0.3),
        (3e-3, 0.03),
        (1.5e-3, 0.3),
        (2.4e-2, 0.1),
        (1.2e-2, 0.0),
        (3e-3, 0.9),
    ],
)
def test_the_search_closes_around_the_best(best):
    tried = walked(bowl(best), 30)
    found = min(tried, key=tried.get)
    assert found == pytest.approx(best) and e.is_local_minimum(tried)
    assert all(tried[near] > tried[found] for near in e.neighbors(found))


def test_where_nothing_trains_the_search_goes_down():
    tried = {(peak, 0.1): math.inf for peak in e.PEAK_LRS}
    for lower in (min(e.PEAK_LRS) / 2, min(e.PEAK_LRS) / 4):
        assert e.next_trial(tried) == (lower, 0.1) and not e.is_local_minimum(tried)
        tried[lower, 0.1] = math.inf


@pytest.mark.parametrize(
    "setting, near",
    [
        ((6.0, 0.1), [(3.0, 0.1), (12.0, 0.1), (6.0, 0.03), (6.0, 0.3)]),
        ((6.0, 0.0), [(3.0, 0.0), (12.0, 0.0), (6.0, 0.03)]),
        ((6.0, 0.9), [(3.0, 0.9), (12.0, 0.9), (6.0, 0.6)]),
    ],
)
def test_the_order_of_neighbours_and_the_ends_of_the_warm_up(setting, near):
    assert e.neighbors(setting) == near


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
        (2000, 2.5, False),
        (8000, 1.75, False),
        (4000, 2.0, False),
        (1000, 3.0, False),
        (16000, 1.5, False),
        (32000, 1.25, True),
        (500, 3.5, True),
    ],
)
def test_a_loss_between_budgets_and_beyond(n_tokens, loss, beyond):
    points = {1000: 3.0, 4000: 2.0, 16000: 1.5}
    assert e.interpolate_loss(points, n_tokens) == (pytest.approx(loss), beyond)


# Intervals ----------------------------------------------------------------------------------------


def test_an_interval_that_ends_at_zero_decides_nothing():
    "One sentence of two differs, alike with every seed: draws of the other alone give exactly 0."
    more, less = [[1.0, 5.0]] * 3, [[0.0, 5.0]] * 3
    above, below = e.loss_difference(more, less, [1, 1]), e.loss_difference(less, more, [1, 1])
    assert above["low"] == 0 < above["value"] and below["high"] == 0 > below["value"]
    assert not above["significant"] and not below["significant"]


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
