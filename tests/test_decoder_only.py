"""Decoder-only: the stream leaks nothing, pads change nothing, the cache is the stream, and the loss is over what it says."""
import copy
import math

import pytest
import torch
import torch.nn.functional as F
from helpers import MODES, NORMS, SEEDS, VOCAB, same, sentences, shake
from hypothesis import given
from hypothesis import strategies as st

from transformer_lit.decoder_only import (
    DESIGNS, DecayTraining, DecoderOnly, StreamTraining, last_step, source_share, stream, stream_loss, stream_mask)
from transformer_lit.decoding import beam_search, greedy_decode
from transformer_lit.equal_cost import SCALES, SMALL_SIZES, count_parameters, wanted_parameters
from transformer_lit.masks import BOS, EOS, PAD, reads_future, reads_padding
from transformer_lit.model import TransformerConfig
from transformer_lit.training import Training, TrainingConfig, backward, validation_loss
from transformer_lit.support.recipes import rise_and_fall

PREFIXES = pytest.mark.parametrize("prefix", [False, True], ids=["causal", "prefix"])


def small(seed=0, prefix=False, **changes):
    "A model of a few hundred weights, in float64, each weight something of its own."
    torch.manual_seed(seed)
    sizes = dict(d_model=8, n_heads=2, d_ff=16, n_decoder_layers=2, dropout=0.0, norm="pre")
    return shake(DecoderOnly(TransformerConfig(VOCAB, **{**sizes, **changes}), prefix).double()).eval()


def batch(seed, rows=3, s=5, t=5):
    "Sources that end in EOS, targets that begin with BOS, both padded on the right."
    source, target = sentences(rows, s, seed), sentences(rows, t, seed + 1)
    ends = (source != PAD).sum(1) - 1
    source[torch.arange(rows), ends] = EOS
    target[:, 0] = BOS
    return source, target


# The stream -------------------------------------------------------------------------------------------------------

@given(SEEDS)
def test_the_parts_lie_where_the_stream_says(seed):
    source, target = batch(seed)
    tokens, positions, tag = stream(source, target, VOCAB)
    assert (tokens[:, 0] == VOCAB).all() and torch.equal(tokens[:, 1:tag], source)
    assert (tokens[:, tag] == VOCAB + 1).all(), "the target's tag stands where BOS stood"
    assert torch.equal(tokens[:, tag + 1:], target[:, 1:])
    for row, places in zip(tokens, positions):
        real = places[row != PAD].tolist()
        assert real == list(range(len(real))), "pads are counted in the positions"


@given(SEEDS, st.integers(0, 8))
def test_the_mask_word_by_word(seed, prefix):
    tokens = sentences(2, 8, seed, "anywhere")
    mask = stream_mask(tokens, prefix)
    for b in range(2):
        for q in range(8):
            for k in range(8):
                may = bool(tokens[b, k] != PAD) and (k <= q or (q < prefix and k < prefix))
                assert bool(mask[b, 0, q, k]) == may, (
                    "the prefix leaks the target" if k > q and not may else "the mask is not that of a stream")


# The model --------------------------------------------------------------------------------------------------------

@PREFIXES
@MODES
@NORMS
def test_no_target_word_is_seen_before_it_is_said(prefix, training, norm):
    model = small(1, prefix, norm=norm, dropout=0.1 if training else 0.0).train(training)
    source, _ = batch(3)
    target = sentences(3, 5, 4, None)
    target[:, 0] = BOS
    for t in range(4):
        assert not reads_future(lambda ids: model(source, ids), target, t), "the prefix leaks the target"


@PREFIXES
def test_who_sees_the_rest_of_the_source(prefix):
    model, source = small(2, prefix), sentences(1, 5, 5, None)
    target = torch.tensor([[BOS, 5, 6]])
    seen = reads_future(lambda ids: model.states(ids, target)[:, 1:6], source, 2)
    assert seen == prefix, "only a prefix sees the rest of the source"
    assert not reads_padding(lambda ids: model.states(ids, target)[:, 1:1 + ids.size(1)], source), "pads are read"


@PREFIXES
@NORMS
@given(seed=SEEDS)
def test_a_sentence_alone_is_the_sentence_in_its_batch(prefix, norm, seed):
    model = small(seed, prefix, norm=norm)
    source, target = batch(seed)
    whole = model(source, target)
    for b in range(len(source)):
        own = model(source[b:b + 1, source[b] != PAD], target[b:b + 1, target[b] != PAD])[0]
        same(whole[b, :len(own)], own, "pads change a sentence: are they counted, or read?")


@PREFIXES
@given(seed=SEEDS)
def test_cached_steps_are_the_stream(prefix, seed):
    model = small(seed, prefix)
    source, target = batch(seed, t=4)
    whole, state = model(source, target), model.start(source)
    for t in range(4):
        before = {name: x.clone() for name, x in state.items() if name != "caches"}
        logits, following = model.step(target[:, t], state)
        assert all(torch.equal(state[name], x) for name, x in before.items()), "a step changes the state it was given"
        real = target[:, t] != PAD
        same(logits[real], whole[real, t], "the cache differs from the stream: a position, a tag or a pad")
        state = following


@PREFIXES
def test_decoding_rows_of_different_lengths_together(prefix):
    model = small(6, prefix, d_model=16)
    source, _ = batch(7, rows=5)
    for decode in (lambda s: greedy_decode(model, s, 6), lambda s: beam_search(model, s, 3, max_length=6)):
        assert decode(source) == [decode(row[None, row != PAD])[0] for row in source], "rows are mixed up in decoding"


def test_a_tag_is_never_said_and_vectors_are_shared():
    model = small(8)
    logits = model(*batch(9))
    assert logits.size(-1) == VOCAB, "a tag is said"
    logits.sum().backward()
    tags = model.embedding.tokens.weight.grad[VOCAB:]
    assert tags.abs().sum(1).min() > 0, "both tags are read"
    with torch.no_grad():
        model.embedding.tokens.weight[5] += 1
    assert not torch.allclose(model(*batch(9))[..., 5], logits[..., 5]), "what is read is what is said"


def test_longer_than_the_table_of_positions():
    model, long = small(10, n_decoder_layers=1), torch.full((1, 600), 5)
    target = torch.tensor([[BOS, 5]])
    whole, state = model(long, target), model.start(long)
    same(model.step(target[:, 0], state)[0], whole[:, 0], "positions beyond the table")


# The loss ---------------------------------------------------------------------------------------------------------

def in_one(model, source, target, share, smoothing):
    logits = model.output(model.states(source, target[:, :-1]))
    kinds = dict(ignore_index=PAD, label_smoothing=smoothing)
    start = 1 + source.size(1)
    return (F.cross_entropy(logits[:, start:].mT, target[:, 1:], **kinds)
            + share * F.cross_entropy(logits[:, :start - 1].mT, source, **kinds))


@PREFIXES
@given(seed=SEEDS, share=st.sampled_from([0.0, 0.1, 1.0]), smoothing=st.sampled_from([0.0, 0.1]))
def test_the_loss_is_the_target_and_a_share_of_the_source(prefix, seed, share, smoothing):
    model = small(seed, prefix)
    source, target = batch(seed, t=6)
    target[:, 1] = 5  # a label in every row
    twin = copy.deepcopy(model)
    loss = stream_loss(model, source, target, share, smoothing)
    plain = in_one(twin, source, target, share, smoothing)
    plain.backward()
    same(loss.double(), plain.detach(), "the loss is over other labels: is a tag asked for?", atol=1e-5)
    for mine, theirs in zip(model.parameters(), twin.parameters()):
        same(mine.grad, theirs.grad, "the gradient is not the loss's", atol=1e-6)


def test_without_a_share_it_is_any_models_loss():
    model, (source, target) = small(11).float(), batch(12, t=6)
    ours = stream_loss(model, source, target, 0.0)
    mine = [w.grad.clone() for w in model.parameters()]
    model.zero_grad()
    torch.testing.assert_close(ours, backward(model, source, target, TrainingConfig()))
    torch.testing.assert_close(mine, [w.grad for w in model.parameters()])


def test_validation_is_over_the_target_alone():
    model = small(13).float()
    pairs = [([5, 6, EOS], [BOS, 7, EOS]), ([5, EOS], [BOS, 8, 9, 4, EOS])]
    total = sum(-model(torch.tensor([s]), torch.tensor([t[:-1]])).log_softmax(-1)[0].gather(
        1, torch.tensor(t[1:])[:, None]).sum().item() for s, t in pairs)
    assert abs(validation_loss(model, pairs) - total / 6) < 1e-5


# The share --------------------------------------------------------------------------------------------------------

@given(st.integers(2, 3000), st.floats(0.01, 0.99), st.floats(0.05, 0.95))
def test_the_share_falls_in_two_lines(steps, alpha, bend):
    shares = [source_share(n, steps, alpha, bend) for n in range(steps + 1)]
    assert shares[0] == 1, "the decay is off by one: the first step has λ = 1"
    assert abs(shares[-1]) < 1e-9, "λ ends at 0"
    assert all(a > b for a, b in zip(shares, shares[1:])), "λ falls in each step"
    assert abs(source_share(bend * steps, steps, alpha, bend) - alpha) < 1e-9, "at B it is α"


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_the_last_step_is_where_the_rate_ends(n, rise):
    rise = min(rise, n)
    assert last_step(lambda step: rise_and_fall(step, n, 1e-3, rise)) == n, "the end is off by one"


def test_a_rate_without_an_end_is_refused():
    run = DecayTraining(small(14).float(), [], TrainingConfig())  # Noam
    with pytest.raises(ValueError, match="never falls to 0"):
        run.share()


def test_the_decay_goes_on_where_a_run_was_stopped(tmp_path):
    pairs = [([5 + i % 3, 6, EOS], [BOS, 7 + i % 4, 5, EOS]) for i in range(40)]
    config = TrainingConfig(epochs=2, max_tokens=32, checkpoint_every=0)

    def trainer(folder):
        run = DecayTraining(small(15).float(), pairs, config, folder, schedule=lambda n: rise_and_fall(n, 20, 1e-2, 2))
        run.heard = []
        share = run.share
        run.share = lambda: run.heard.append(share()) or run.heard[-1]
        return run

    whole = trainer(tmp_path / "whole")
    losses = [e["loss"] for e in whole.fit() if e["kind"] == "step"]
    assert whole.heard == [source_share(n, 20) for n in range(len(losses))], "the decay is off by one"
    first, second = trainer(tmp_path / "two"), trainer(tmp_path / "two")
    first.fit(stop_at=7)
    first.save()
    assert [e["loss"] for e in second.fit() if e["kind"] == "step"] == losses
    assert second.heard == whole.heard[7:], "λ begins anew after a stop"


# The designs ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("scale", SCALES.values(), ids=list(SCALES))
def test_equal_parameters(scale):
    wanted = wanted_parameters(scale, scale.vocabulary)
    for design in DESIGNS.values():
        with torch.device("meta"):
            model = design.build(scale.vocabulary, scale.sizes, wanted)
        assert abs(count_parameters(model) / wanted - 1) < 0.02, "parameters differ by more than 2%"
        assert len(model.decoder.layers) == 7


def test_each_design_is_what_its_name_says():
    built = {name: design.build(50, SMALL_SIZES | dict(d_model=16, d_ff=64), 2 * 16 + 84 * 256 + 95 * 16 + 50 * 16)
             for name, design in DESIGNS.items()}
    assert {name for name, model in built.items() if model.prefix} == {"decoder-only-prefix"}
    assert {name: design.training for name, design in DESIGNS.items()} == {
        "decoder-only": Training, "decoder-only-prefix": Training, "decoder-only-both": StreamTraining,
        "decoder-only-decay": DecayTraining}
    assert all((model.decoder.norm.weight == 1).all() for model in built.values()), "the last norm begins at 1"
    assert all(design.smoothing == 0.1 and design.optimizer == "adam" for design in DESIGNS.values())


def test_one_vocabulary_or_a_refusal():
    for wrong in (dict(target_vocab=9), dict(tied=False)):
        with pytest.raises(ValueError, match="one vocabulary"):
            DecoderOnly(TransformerConfig(9, d_model=8, n_heads=2, **wrong))


def test_a_constant_share_and_precision_reach_the_loss():
    model, (source, target) = small(16).float(), batch(17, t=6)
    target[:, 1] = 5
    run = StreamTraining(model, [], TrainingConfig(smoothing=0.0, precision="bf16"))
    half = float(run.gradient(source, target))
    whole = float(in_one(model, source, target, 1.0, 0.0).detach())
    assert half != whole and math.isclose(half, whole, rel_tol=0.05)
