"""Decoder-only: the stream leaks nothing, pads change nothing, the cache is the stream, and the
loss is over what it says."""

import copy

import pytest
import torch
import torch.nn.functional as F
from helpers import (
    MODES,
    NORMS,
    SEEDS,
    VOCAB,
    copy_layer,
    gradients,
    normal,
    same,
    sentences,
    shake,
)
from hypothesis import given
from hypothesis import strategies as st

from torch import nn

from transformer_lit.decoder_only import (
    DecoderOnlyTransformer,
    DecoderOnlyLayer,
    constant_source_weight,
    decaying_source_weight,
    source_loss_weight,
    join_pair,
    joint_loss_backward,
    prefix_lm_mask,
)
from transformer_lit.masks import BOS, EOS, PAD, causal_mask, depends_on_future
from transformer_lit.model import TransformerConfig
from transformer_lit.training import Trainer, TrainingConfig

PREFIXES = pytest.mark.parametrize("prefix", [False, True], ids=["causal", "prefix"])


def small(seed=0, prefix=False, **changes):
    "A model of a few hundred weights, in float64, each weight something of its own."
    torch.manual_seed(seed)
    sizes = dict(d_model=8, n_heads=2, d_ff=16, n_decoder_layers=2, dropout=0.0, norm="pre")
    return shake(
        DecoderOnlyTransformer(TransformerConfig(VOCAB, **{**sizes, **changes}), prefix).double()
    ).eval()


def batch(seed, rows=3, s=5, t=5):
    "Sources that end in EOS, targets that begin with BOS, both padded on the right."
    source, target = sentences(rows, s, seed), sentences(rows, t, seed + 1)
    ends = (source != PAD).sum(1) - 1
    source[torch.arange(rows), ends] = EOS
    target[:, 0] = BOS
    return source, target


# The stream ---------------------------------------------------------------------------------------


@given(SEEDS)
def test_the_parts_lie_where_the_stream_says(seed):
    source, target = batch(seed)
    tokens, positions, start = join_pair(source, target, VOCAB)
    assert (tokens[:, 0] == VOCAB).all() and torch.equal(tokens[:, 1:start], source)
    assert (tokens[:, start] == VOCAB + 1).all()  # the target's tag stands where BOS stood
    assert torch.equal(tokens[:, start + 1 :], target[:, 1:])
    for row, places in zip(tokens, positions):
        real = places[row != PAD].tolist()
        assert real == list(range(len(real))), "pads are counted in the positions"


@given(SEEDS, st.integers(0, 8))
def test_the_mask_word_by_word(seed, prefix):
    tokens = sentences(2, 8, seed, "anywhere")
    mask = prefix_lm_mask(tokens, prefix)
    for b in range(2):
        for q in range(8):
            for k in range(8):
                may = bool(tokens[b, k] != PAD) and (k <= q or (q < prefix and k < prefix))
                assert bool(mask[b, 0, q, k]) == may, (
                    "the prefix leaks the target"
                    if k > q and not may
                    else "the mask is not that of a stream"
                )


# The model ----------------------------------------------------------------------------------------


@PREFIXES
def test_only_a_prefix_sees_the_rest_of_its_source_and_none_the_target(prefix):
    model, source, target = small(1, prefix), sentences(3, 5, 3, None), sentences(3, 5, 4, None)
    for t in range(4):
        leaks = depends_on_future(lambda ids: model(source, ids), target, t)
        assert not leaks, "the prefix leaks the target"
    seen = depends_on_future(lambda ids: model.sequence_states(ids, target)[:, 1:6], source, 2)
    assert seen == prefix
    assert model(source, target).size(-1) == VOCAB  # a tag is said


@PREFIXES
@NORMS
@given(seed=SEEDS)
def test_a_sentence_alone_is_the_sentence_in_its_batch(prefix, norm, seed):
    model = small(seed, prefix, norm=norm)
    source, target = batch(seed)
    whole = model(source, target)
    for b in range(len(source)):
        own = model(source[b : b + 1, source[b] != PAD], target[b : b + 1, target[b] != PAD])[0]
        same(whole[b, : len(own)], own, "pads change a sentence: are they counted, or read?")


@PREFIXES
@given(seed=SEEDS)
def test_cached_steps_are_the_stream(prefix, seed):
    model = small(seed, prefix)
    source, target = batch(seed, t=4)
    whole, state = model(source, target), model.initial_state(source)
    for t in range(4):
        before = {name: x.clone() for name, x in state.items() if name != "caches"}
        logits, following = model.step(target[:, t], state)
        assert all(
            torch.equal(state[name], x) for name, x in before.items()
        ), "a step changes the state it was given"
        real = target[:, t] != PAD
        same(
            logits[real],
            whole[real, t],
            "the cache differs from the stream: a position, a tag or a pad",
        )
        state = following


# The loss -----------------------------------------------------------------------------------------


def in_one(model, source, target, share, smoothing):
    logits = model.output_projection(model.sequence_states(source, target[:, :-1]))
    kinds = dict(ignore_index=PAD, label_smoothing=smoothing)
    start = 1 + source.size(1)
    return F.cross_entropy(logits[:, start:].mT, target[:, 1:], **kinds) + share * F.cross_entropy(
        logits[:, : start - 1].mT, source, **kinds
    )


@PREFIXES
@given(seed=SEEDS, share=st.sampled_from([0.0, 0.1, 1.0]), smoothing=st.sampled_from([0.0, 0.1]))
def test_the_loss_is_the_target_and_a_share_of_the_source(prefix, seed, share, smoothing):
    model = small(seed, prefix)
    source, target = batch(seed, t=6)
    target[:, 1] = 5  # a label in every row
    twin = copy.deepcopy(model)
    loss = joint_loss_backward(model, source, target, share, smoothing)
    plain = in_one(twin, source, target, share, smoothing)
    plain.backward()
    same(
        loss.double(),
        plain.detach(),
        "the loss is over other labels: is a tag asked for?",
        atol=1e-5,
    )
    for mine, theirs in zip(model.parameters(), twin.parameters()):
        same(mine.grad, theirs.grad, "the gradient is not the loss's", atol=1e-6)


# The share ----------------------------------------------------------------------------------------


@given(st.integers(2, 3000), st.floats(0.01, 0.99), st.floats(0.05, 0.95))
def test_the_share_falls_in_two_lines(steps, alpha, bend):
    shares = [source_loss_weight(n, steps, alpha, bend) for n in range(steps + 1)]
    assert shares[0] == 1, "the decay is off by one: the first step has λ = 1"
    assert abs(shares[-1]) < 1e-9  # λ ends at 0
    assert all(a > b for a, b in zip(shares, shares[1:]))  # λ falls in each step
    assert abs(source_loss_weight(bend * steps, steps, alpha, bend) - alpha) < 1e-9  # at B it is α


def test_each_share_is_what_its_name_says():
    source, target = batch(21, t=6)
    target[:, 1] = 5
    for make, share in (
        (constant_source_weight, lambda n: 1.0),
        (decaying_source_weight, lambda n: source_loss_weight(n, 8)),
    ):
        run = Trainer(
            small(22).float(), TrainingConfig(), lr_schedule=lambda n: 0.01, gradient_fn=make(8)
        )
        for n in range(4):
            twin = copy.deepcopy(run.model)
            smoothing = run.config.label_smoothing
            expected = joint_loss_backward(twin, source, target, share(n), smoothing)
            assert float(run.train_step(source, target)["loss"]) == float(
                expected
            ), "the decay is off by one"


# The layer ----------------------------------------------------------------------------------------


@NORMS
@MODES
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_the_layer_is_pytorchs_under_a_causal_mask(norm, training):
    torch.manual_seed(0)
    layer, causal = shake(DecoderOnlyLayer(16, 4, 32, 0.0, norm).double()).train(
        training
    ), causal_mask(6)
    theirs = (
        nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True, norm_first=norm == "pre")
        .double()
        .train(training)
    )
    pairs, x = copy_layer(layer, theirs), normal(2, 6, 16)
    mine, other = layer(x, mask=causal), theirs(x, src_mask=~causal[0, 0], is_causal=True)
    same(mine, other, "the layer differs from nn.TransformerEncoderLayer")
    for one, two in zip(
        gradients(mine, [x, *(w for w, _ in pairs)]),
        gradients(other, [x, *(w for _, w in pairs)]),
        strict=True,
    ):
        same(one, two, "a gradient differs from nn.TransformerEncoderLayer's")
