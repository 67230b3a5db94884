"""Decoder-only: the stream leaks nothing, pads change nothing, the cache is the stream, and the
loss is over what it says."""

import copy
import math

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
    PositionedEmbedding,
    DecoderOnlyLayer,
    constant_source_weight,
    decaying_source_weight,
    source_loss_weight,
    join_pair,
    joint_loss_backward,
    prefix_lm_mask,
)
from transformer_lit.decoding import beam_search, greedy_decode
from transformer_lit.embeddings import sinusoids
from transformer_lit.comparison import (
    SETUPS,
    VARIANTS,
    count_parameters,
    reference_parameters,
)
from transformer_lit.masks import BOS, EOS, PAD, causal_mask, depends_on_future, depends_on_padding
from transformer_lit.model import TransformerConfig
from transformer_lit.training import Trainer, TrainingConfig

ALL = {name: variant for name, variant in VARIANTS.items() if name.startswith("decoder-only")}
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
    assert (tokens[:, start] == VOCAB + 1).all(), "the target's tag stands where BOS stood"
    assert torch.equal(tokens[:, start + 1 :], target[:, 1:])
    for row, places in zip(tokens, positions):
        real = places[row != PAD].tolist()
        assert real == list(range(len(real))), "pads are counted in the positions"


@pytest.mark.parametrize("last", range(6, 12))
def test_positions_beyond_the_table_are_computed(last):
    rows = PositionedEmbedding(9, 8, 0.0).eval()
    rows.position_encodings = rows.position_encodings[:8].clone()
    where = torch.arange(last + 1)[None]
    want = rows.token_embedding(torch.full_like(where, 3)) * math.sqrt(8) + sinusoids(last + 1, 8)
    assert torch.allclose(rows(torch.full_like(where, 3), where, last + 1), want, atol=1e-6)


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
@MODES
@NORMS
def test_no_target_word_is_seen_before_it_is_said(prefix, training, norm):
    model = small(1, prefix, norm=norm, dropout=0.1 if training else 0.0).train(training)
    source, _ = batch(3)
    target = sentences(3, 5, 4, None)
    target[:, 0] = BOS
    for t in range(4):
        assert not depends_on_future(
            lambda ids: model(source, ids), target, t
        ), "the prefix leaks the target"


@PREFIXES
def test_who_sees_the_rest_of_the_source(prefix):
    model, source = small(2, prefix), sentences(1, 5, 5, None)
    target = torch.tensor([[BOS, 5, 6]])
    seen = depends_on_future(lambda ids: model.sequence_states(ids, target)[:, 1:6], source, 2)
    assert seen == prefix, "only a prefix sees the rest of the source"
    assert not depends_on_padding(
        lambda ids: model.sequence_states(ids, target)[:, 1 : 1 + ids.size(1)], source
    ), "pads are read"


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


@PREFIXES
def test_decoding_rows_of_different_lengths_together(prefix):
    model = small(6, prefix, d_model=16)
    source, _ = batch(7, rows=5)
    for decode in (
        lambda s: greedy_decode(model, s, 6),
        lambda s: beam_search(model, s, 3, max_length=6),
    ):
        assert decode(source) == [
            decode(row[None, row != PAD])[0] for row in source
        ], "rows are mixed up in decoding"


def test_a_tag_is_never_said_and_vectors_are_shared():
    model = small(8)
    logits = model(*batch(9))
    assert logits.size(-1) == VOCAB, "a tag is said"
    logits.sum().backward()
    tags = model.embedding.token_embedding.weight.grad[VOCAB:]
    assert tags.abs().sum(1).min() > 0, "both tags are read"
    with torch.no_grad():
        model.embedding.token_embedding.weight[5] += 1
    assert not torch.allclose(
        model(*batch(9))[..., 5], logits[..., 5]
    ), "what is read is what is said"


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
    assert abs(shares[-1]) < 1e-9, "λ ends at 0"
    assert all(a > b for a, b in zip(shares, shares[1:])), "λ falls in each step"
    assert abs(source_loss_weight(bend * steps, steps, alpha, bend) - alpha) < 1e-9, "at B it is α"


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
            expected = joint_loss_backward(twin, source, target, share(n), 0.1)
            assert float(run.train_step(source, target)["loss"]) == float(
                expected
            ), "the decay is off by one"


# The designs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("setup", SETUPS.values(), ids=list(SETUPS))
@pytest.mark.parametrize("name", ALL)
def test_a_design_meets_the_count_and_is_what_its_name_says(name, setup):
    wanted = reference_parameters(setup, setup.vocab_size)
    with torch.device("meta"):
        model = ALL[name].build(setup.vocab_size, setup.model_sizes, wanted)
    assert abs(count_parameters(model) / wanted - 1) < 0.02, "parameters differ by more than 2%"
    assert model.prefix_lm == name.endswith("prefix")
    sources = {"both": constant_source_weight, "decay": decaying_source_weight}
    assert ALL[name].gradient_fn == sources.get(name.split("-")[-1])


def test_the_start_is_that_of_the_book():
    sizes = dict(d_model=16, n_heads=4, d_ff=64, n_decoder_layers=2, dropout=0.3, norm="pre")
    model = DecoderOnlyTransformer(TransformerConfig(50, **sizes))
    layer = model.decoder.layers[-1]
    assert layer.feed_forward[0].bias.abs().max() == 0, "init_weights has not been there"
    assert layer.self_attention_residual.pre_norm and layer.self_attention.n_heads == 4
    assert layer.self_attention_residual.dropout.p == model.embedding.dropout.p == 0.3


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
