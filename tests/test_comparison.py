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
from transformer_lit.translation import Translator


def test_optimizers_step_what_they_should():
    model = e.build_transformer(
        40,
        e.SMALL_SIZES | dict(d_model=8, n_heads=2, d_ff=16, n_encoder_layers=1, n_decoder_layers=1),
    )
    stacks = {
        id(w) for stack in (model.encoder, model.decoder) for w in stack.parameters() if w.ndim == 2
    }
    for name in ("adamw", "muon"):
        one, two = e.OPTIMIZERS[name](model).parts
        assert {id(w) for group in one.param_groups for w in group["params"]} == stacks
        assert all(id(w) not in stacks for group in two.param_groups for w in group["params"])
        assert one.param_groups[0]["weight_decay"] == 0.1


def test_decay_shrinks_the_hidden_matrices_and_nothing_else():
    """With a gradient of zero Adam stays where it is, so all that moves is decay: by rate times
    decay."""
    model = e.build_transformer(50, e.SMALL_SIZES | dict(d_model=8, n_heads=2, d_ff=16))
    weight, vectors = (
        model.encoder.layers[0].feed_forward[0].weight,
        model.source_embedding.token_embedding.weight,
    )
    both = e.AdamWAndAdam(model, decay=0.5)
    for w in model.parameters():
        w.grad = torch.zeros_like(w)
    for group in both.param_groups:
        group["lr"] = 0.1
    before, read = weight.detach().clone(), vectors.detach().clone()
    both.step()
    torch.testing.assert_close(weight.detach(), before * (1 - 0.1 * 0.5))
    assert torch.equal(read, vectors)
    assert (
        both.first == 3 * 6 + 3 * 10
    ), "an encoder layer has 4 + 2 matrices, a decoder layer 8 + 2"


# The rule -----------------------------------------------------------------------------------------


@cache
def data():
    return e.load_encoded_corpus("pocket")


TINY = replace(
    e.SETUPS["pocket"],
    model_sizes=e.SMALL_SIZES | dict(d_model=16, d_ff=32),
    n_tokens=600,
    max_tokens=256,
    seeds=(1, 2),
)


@cache
def few():
    return replace(
        data(),
        valid=data().valid[:100],
        sources=data().sources[:8],
        references=data().references[:8],
    )


def test_the_ground_can_say_its_references():
    encode = Translator(None, data().tokenizer, data().tokenizer).encode_pairs
    pairs = zip(data().sources, (refs[0] for refs in data().references))
    assert all(
        data().tokenizer.decode(ids[1:]) in refs
        for (_, ids), refs in zip(encode(pairs), data().references)
    )
    assert len(data().sources) == len(set(data().sources)) == e.SETUPS["pocket"].n_test_sentences
    assert max(len(side) for pair in data().train for side in pair) <= 100
    assert [data().tokenizer.decode(ids[1:]) for _, ids in data().test[:9]] == [
        refs[0] for refs in data().references[:9]
    ]
    assert [data().tokenizer.decode(ids) for ids, _ in data().test[:9]] == data().sources[
        :9
    ] and len(data().test) >= len(data().sources)


def test_batches_are_those_of_the_seed_and_meet_the_budget():
    subset = data().train[:300]
    batches = e.batches_for_budget(subset, 256, 6000, seed=1)
    count = sum(e.count_labels(subset, batch) for batch in batches)
    assert (
        count >= 6000 > count - e.count_labels(subset, batches[-1])
    ), "the budget is met by the last batch, not before it"
    torch.rand(7)
    assert (
        batches
        == e.batches_for_budget(subset, 256, 6000, 1)
        != e.batches_for_budget(subset, 256, 6000, 2)
    )
    assert sorted([i for batch in batches for i in batch][:300]) == list(
        range(300)
    ), "a pair twice in an epoch"


def test_the_size_that_comes_nearest():
    square = lambda n: nn.Linear(n, n)  # noqa: E731
    assert e.match_parameters(square, 10_250) == 101
    assert [e.match_parameters(square, n * n + n) for n in (8, 9, 4095)] == [8, 9, 4095]
    with pytest.raises(ValueError, match="size 95 comes nearest and is -11.0% off"):
        e.match_parameters(square, 10_250, range(90, 96))


def test_a_run_takes_what_its_design_and_scale_say():
    made_for = []
    design = e.Variant(
        e.build_transformer,
        "muon",
        0.3,
        0.5,
        gradient_fn=lambda n_steps: made_for.append(n_steps) or "a gradient",
    )
    run = e.build_trainer(design, replace(TINY, max_tokens=77), 2000, 0.4, n_steps=20, seed=9)
    assert (
        run.config.max_tokens,
        run.config.seed,
        run.config.label_smoothing,
        run.gradient_fn,
        made_for,
    ) == (77, 9, 0.3, "a gradient", [20])
    assert isinstance(run.optimizer, e.MuonAndAdam) and [
        run.lr_schedule(step) for step in (1, 5, 10)
    ] == pytest.approx([0.04, 0.2, 0.4])
    assert run.lr_schedule(15) == pytest.approx(0.4 * e.linear_lr(15, 20, 1.0, 10))
    plain = replace(design, warmup_ratio=0.0, gradient_fn=None)
    none = e.build_trainer(plain, TINY, 2000, 0.4, 20, 9)
    assert (
        none.lr_schedule(1) == pytest.approx(e.linear_lr(1, 20, 0.4, 1))
        and none.optimizer is not None
    )
    torch.manual_seed(0)
    state = torch.get_rng_state()
    batches = e.FixedBatches(few().train, run, [[1], [2]])
    torch.rand(9)
    assert (
        batches.epoch_batches(0) == [[1], [2]]
        and torch.equal(torch.get_rng_state(), state)
        and batches.n_steps == 2
        and batches.pairs is few().train
    )


def test_what_is_counted_and_timed(monkeypatch, capsys):
    "Each `every`-th step is counted and not timed, from the second on."
    clock = itertools.count()
    monkeypatch.setattr(e.time, "perf_counter", lambda: 10.0 * next(clock))
    monkeypatch.setattr(e.time, "process_time", lambda: 100.0 * next(clock))
    run = e.build_trainer(e.VARIANTS["transformer"], TINY, 2000, 1e-3, 9, 1)
    run.flop_every = 3
    for _ in range(6):
        before = run.flop_tokens, run.timed_steps
        batch = collate(few().train[:4])
        assert set(run.train_step(*batch)) == {"loss", "grad_norm"}
        counted = run.flop_tokens > before[0], run.timed_steps == before[1]
        assert counted == (run.step in (2, 5),) * 2
    times = run.wall_seconds, run.cpu_seconds
    assert times == (4 * 20, 4 * 200), "from one reading of a clock to its next"
    assert run.flops % 2 == 0 and capsys.readouterr().out == ""
    run.n_tokens = 1000
    found = e.training_cost(run)
    size = e.count_parameters(run.model)
    assert found["flops_6nd"] == 6 * size * 1000 and found["flops"] == pytest.approx(
        run.flops / run.flop_tokens * 1000
    )
    assert found["seconds"] == pytest.approx(80 * 6 / 4) and found["cpu_seconds"] == pytest.approx(
        800 * 6 / 4
    )
    assert found["tokens_per_second"] == pytest.approx(1000 / 1200) and found["parameters"] == size


def test_batches_of_later_epochs_are_dealt_anew():
    subset = few().train[:60]
    batches = e.batches_for_budget(subset, 256, 3000, 4)
    first = e.token_batches(subset, 256, 4)
    assert batches[: len(first)] == first and batches[
        len(first) : 2 * len(first)
    ] == e.token_batches(subset, 256, 1004)
    exact = sum(e.count_labels(subset, batch) for batch in first)
    assert (
        e.batches_for_budget(subset, 256, exact, 4) == first
    ), "a budget that is met exactly needs no batch more"
    assert len(e.batches_for_budget(subset, 256, exact + 1, 4)) == len(first) + 1


def test_sizes_at_the_edge_of_two_percent():
    square = lambda n: nn.Linear(n, n, bias=False)  # noqa: E731
    assert e.match_parameters(square, 10_000, range(99, 102)) == 100 and e.match_parameters(
        square, 10_000, [99, 101]
    ) in (99, 101)
    assert (
        e.match_parameters(lambda n: nn.Linear(1, n, bias=False), 1000, [1019, 2000]) == 1019
    ), "within 2%"
    with pytest.raises(ValueError, match=r"\+3.0% off"):
        e.match_parameters(lambda n: nn.Linear(1, n, bias=False), 100, [103, 200])


def test_the_last_norm_begins_at_one_in_pre_norm_alone():
    sizes = [TINY.model_sizes | {"norm": norm} for norm in ("pre", "post")]
    pre, post = (e.build_transformer(40, each) for each in sizes)
    assert pre.decoder.norm.weight.unique().tolist() == [1.0] and isinstance(
        post.decoder.norm, nn.Identity
    )


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


def test_every_design_has_as_many_trials_and_an_open_search_says_so():
    far = walked(bowl((2e-4, 0.9)))
    assert (
        len(far) == e.MAX_TRIALS
        and not e.is_local_minimum(far)
        and list(far)[:3] == [(peak, 0.1) for peak in e.PEAK_LRS]
    )


def test_where_nothing_trains_the_search_goes_down():
    tried = {(peak, 0.1): math.inf for peak in e.PEAK_LRS}
    assert e.next_trial(tried) == (e.PEAK_LRS[0] / 2, 0.1) and not e.is_local_minimum(tried)
    tried[e.next_trial(tried)] = math.inf
    assert e.next_trial(tried) == (
        e.PEAK_LRS[0] / 4,
        0.1,
    ), "further down, not to the neighbours of a rate that is too high"


def test_the_order_of_neighbours_and_the_ends_of_the_warm_up():
    assert e.neighbors((0.006, 0.1)) == [(0.003, 0.1), (0.012, 0.1), (0.006, 0.03), (0.006, 0.3)]
    assert e.neighbors((0.006, 0.0)) == [(0.003, 0.0), (0.012, 0.0), (0.006, 0.03)]
    assert e.neighbors((0.006, 0.9)) == [(0.003, 0.9), (0.012, 0.9), (0.006, 0.6)]


def test_an_interval_that_ends_at_zero_decides_nothing():
    "One sentence of two differs, alike with every seed: draws of the other alone give exactly 0."
    found = e.loss_difference([[1.0, 5.0]] * 3, [[0.0, 5.0]] * 3, [1, 1])
    assert found["low"] == 0 < found["value"] and not found["significant"]
    assert found["t_half_width"] == 0
    turned = e.loss_difference([[0.0, 5.0]] * 3, [[1.0, 5.0]] * 3, [1, 1])
    assert turned["high"] == 0 > turned["value"] and not turned["significant"]


def test_the_bootstrap_holds_95_of_100():
    nats = np.random.default_rng(0).normal(
        0, 1, 3000
    )  # alike with every seed, so that only sentences are drawn
    found, error = (
        e.loss_difference([nats] * 3, [nats * 0] * 3, [1] * 3000, n_samples=4000),
        nats.std() / 3000**0.5,
    )
    assert (
        (found["value"] - found["low"]) / error
        == pytest.approx(1.96, abs=0.1)
        == (found["high"] - found["value"]) / error
    )


def test_the_interval_of_a_difference():
    rng = np.random.default_rng(0)
    base, tokens = rng.gamma(2, 5, (3, 400)), rng.integers(3, 12, 400)
    shifted = base + 0.2 * tokens
    found = e.loss_difference(shifted, base, tokens)
    assert (
        found["value"] == pytest.approx(0.2)
        and found["low"] == pytest.approx(0.2)
        and found["high"] == pytest.approx(0.2)
    )
    assert found["t_half_width"] == pytest.approx(0, abs=1e-9)
    unlike = base + rng.normal(0, 2, base.shape)
    found = e.loss_difference(unlike, base, tokens)
    assert (
        found["low"] < found["value"] < found["high"]
        and found["low"] < 0.1
        and found["high"] > -0.1
    )
    assert found == e.loss_difference(unlike, base, tokens), "the same draws each time"
    seeds = base + np.array([[0.0], [0.0], [3.0]]) * tokens
    found = e.loss_difference(seeds, base, tokens)
    assert (
        found["value"] == pytest.approx(1)
        and found["low"] == pytest.approx(0)
        and found["high"] >= 2
    ), "seeds are drawn as well"
    assert (
        not e.loss_difference(unlike, base, tokens)["significant"]
        and e.loss_difference(shifted, base, tokens)["significant"]
    )
    assert not found[
        "significant"
    ], "seed by seed the difference is 0, 0 and 3: three seeds decide nothing"
    alike = base + np.array([[0.9], [1.0], [1.1]]) * tokens
    found = e.loss_difference(alike, base, tokens)
    assert (
        found["significant"]
        and 0 < found["low"]
        and found["t_half_width"] == pytest.approx(4.303 * 0.1 / math.sqrt(3))
    )
    assert e.loss_difference(base, alike, tokens)["significant"], "below zero as well"
    mixed = base + np.array([[0.1], [1.0], [1.9]]) * tokens
    found = e.loss_difference(mixed, base, tokens)
    assert (
        found["low"] > 0 and not found["significant"]
    ), "the bootstrap alone would decide it; Student's interval holds 0"


def test_the_second_part_halves_or_doubles_the_peak():
    assert [
        e.next_peak_lr(dict.fromkeys(tried, 1.0)) for tried in ([8.0], [8.0, 4.0], [8.0, 4.0, 16.0])
    ] == [4.0, 16.0, None]
    assert (
        e.next_peak_lr({8.0: 2.0, 4.0: 1.0}) == 2.0
        and e.next_peak_lr({8.0: 2.0, 4.0: 3.0, 16.0: 1.0}) == 32.0
    )
    assert e.next_peak_lr({8.0: 2.0, 4.0: 3.0, 16.0: 2.5}) is None


def test_a_loss_between_budgets_and_beyond():
    points = {1000: 3.0, 4000: 2.0, 16000: 1.5}
    assert e.interpolate_loss(points, 2000) == (pytest.approx(2.5), False) and e.interpolate_loss(
        points, 8000
    ) == (
        pytest.approx(1.75),
        False,
    )
    assert e.interpolate_loss(points, 4000) == (pytest.approx(2.0), False) and e.interpolate_loss(
        points, 1000
    ) == (
        pytest.approx(3.0),
        False,
    )
    assert e.interpolate_loss(points, 16000) == (pytest.approx(1.5), False)
    assert e.interpolate_loss(points, 32000) == (pytest.approx(1.25), True) and e.interpolate_loss(
        points, 500
    ) == (
        pytest.approx(3.5),
        True,
    )


def test_a_gap_is_that_of_the_pairs():
    assert e.paired_t_interval([1.0, 2.0, 3.0], [0.0, 0.0, 0.0]) == (2.0, 4.303 / math.sqrt(3))
    assert e.paired_t_interval([1.0, 5.0], [0.0, 4.0]) == (
        1.0,
        0.0,
    ), "the same difference with both seeds"
    with pytest.raises(ValueError):
        e.paired_t_interval([1.0, 2.0], [1.0])


