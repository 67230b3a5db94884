"""Attention maps: what is recorded is what was used, and everything is put back."""

from types import SimpleNamespace

import pytest
import torch
from helpers import SEEDS, models, same, sentences, small_model
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Categorical

from transformer_lit.attention_analysis import (
    ablate_heads,
    alignment_error_rate,
    alignment_matrices,
    attention_distance,
    attention_entropy,
    attention_modules,
    attention_patterns,
    head_disagreement,
    mean_weight_at,
    record_attention,
    token_strings,
)
from transformer_lit.masks import BOS, EOS, PAD, padding_mask, target_mask
from transformer_lit.tokenization import WordTokenizer


def run(model, seed=0, rows=3, s=6, t=5):
    source, target = sentences(rows, s, seed), sentences(rows, t, seed + 1)
    return source, target, model(source, target)


def unexplained(model, weights, source, target):
    """The largest difference between A V and what reached the output projection, over all
    attentions."""
    latest, differences, hooks = {}, [], []
    for (kind, layer), part in attention_modules(model).items():

        def keep_values(module, inputs, output):
            latest["values"] = output

        def compare(module, inputs, part=part, a=weights[kind][layer]):
            values, output = part.split_heads(latest["values"]), part.split_heads(inputs[0])
            differences.append((a @ values - output).abs().max().item())

        hooks.append(part.v_proj.register_forward_hook(keep_values))
        hooks.append(part.out_proj.register_forward_pre_hook(compare))
    model(source, target)
    for hook in hooks:
        hook.remove()
    return max(differences)


# Recording ----------------------------------------------------------------------------------------


@given(models(), SEEDS)
def test_what_is_recorded_is_what_was_used(model, seed):
    model.eval()
    with record_attention(model) as weights:
        run(model, seed + 7, s=4, t=3)
        source, target, logits = run(model, seed)
    assert (
        unexplained(model, weights, source, target) < 1e-9
    ), "the weights recorded don't explain what the heads gave out"
    assert torch.equal(model(source, target), logits)  # listening changes the output
    c = model.config
    shapes = {"encoder": (6, 6), "decoder": (5, 5), "cross": (5, 6)}
    for kind, layers in weights.items():
        assert len(layers) == (c.n_encoder_layers if kind == "encoder" else c.n_decoder_layers)
        assert {(w.shape, w.requires_grad) for w in layers} == {
            ((3, c.n_heads, *shapes[kind]), False)
        }


def test_hooks_are_gone_after_an_error():
    model = small_model()
    parts = attention_modules(model).values()
    for part in parts:
        part.need_weights = False
    with pytest.raises(RuntimeError, match="on purpose"):
        with record_attention(model), ablate_heads(model, [("cross", 1, 0)]):
            assert all(part.need_weights for part in parts)  # a fused kernel has none to show
            raise RuntimeError("on purpose")
    assert not any(part.need_weights for part in parts), "weights are asked for after the block"
    assert not any(part._forward_hooks for part in parts)  # a hook listens after the block
    off = [part for part in parts if part.out_proj._forward_pre_hooks]
    assert not off, "a head is still switched off"


# Switching off ------------------------------------------------------------------------------------


@given(models(), SEEDS, st.data())
def test_heads_switched_off_are_their_columns_of_the_output_at_zero(model, seed, data):
    model.eval()
    place = data.draw(st.sampled_from(sorted(attention_modules(model))))
    part = attention_modules(model)[place]
    heads = data.draw(st.lists(st.integers(0, part.n_heads - 1), min_size=1, max_size=3))
    _, _, before = run(model, seed)
    with ablate_heads(model, [(*place, head) for head in heads]) as ablated:
        assert ablated is model
        _, _, off = run(model, seed)
    assert torch.equal(run(model, seed)[2], before)  # the head is not switched on again
    with torch.no_grad():
        for head in heads:
            part.out_proj.weight.unflatten(1, (part.n_heads, -1))[:, head] = 0
    assert torch.allclose(run(model, seed)[2], off), f"another slice than that of {heads} is zero"


@pytest.mark.parametrize(
    "head", [("cross", 2, 0), ("cross", 0, 2), ("cross", 0, -1), ("other", 0, 0)]
)
def test_a_head_that_is_not_there_is_refused(head):
    model = small_model()
    with pytest.raises(ValueError, match="no head"):
        with ablate_heads(model, [("cross", 0, 0), head]):
            pass
    assert not any(part.out_proj._forward_pre_hooks for part in attention_modules(model).values())


# Counting -----------------------------------------------------------------------------------------


@given(SEEDS)
def test_patterns_are_all_their_positions_where_one_may_look(seed):
    tokens = sentences(4, 7, seed)
    tokens[0, -1] = EOS
    for mask in (padding_mask(tokens)[:, 0], target_mask(tokens)[:, 0]):
        mask = mask.expand(4, 7, 7)
        for name, positions in attention_patterns(tokens, mask).items():
            for b, t, s in torch.ones(4, 7, 7).nonzero().tolist():
                in_pattern = {
                    "previous token": s == t - 1,
                    "itself": s == t,
                    "next token": s == t + 1,
                    "repeated token": tokens[b, s] == tokens[b, t] and s != t,
                    "end token": tokens[b, s] == EOS and s != t,
                    "first token": s == 0 and s != t,
                }[name]
                is_open = mask[b, t, s] and tokens[b, t] != PAD
                assert positions[b, t, s] == (in_pattern and is_open), f"{name}: {b}, {t}, {s}"


@given(SEEDS, st.integers(1, 4))
def test_the_mean_weight_is_over_rows_that_have_a_position(seed, heads):
    torch.manual_seed(seed)
    weights, positions = torch.rand(2, 3, heads, 4, 5).softmax(-1), torch.rand(3, 4, 5) < 0.3
    rows = positions.any(-1).nonzero().tolist()
    sums = [weights[:, b, :, t][..., positions[b, t]].sum(-1) for b, t in rows]
    expected = torch.stack(sums).mean(0) if rows else torch.zeros(2, heads)
    same(mean_weight_at(weights, positions), expected, "not the mean over rows", atol=1e-6)


@given(SEEDS)
def test_entropy_distance_and_disagreement_are_their_definitions(seed):
    torch.manual_seed(seed)
    w = (torch.randn(2, 3, 6, 6) * 4).softmax(-1)
    same(attention_entropy(w), Categorical(w).entropy(), "not the entropy", atol=1e-4)
    far = [sum(w[1, 2, t, s] * abs(s - t) for s in range(6)) for t in range(6)]
    same(attention_distance(w)[1, 2], torch.stack(far), "not the mean distance", atol=1e-5)
    a, b, c = w.unbind(1)
    gaps = sum((x - y).clamp(min=0).sum(-1) for x, y in ((a, b), (a, c), (b, c)))
    same(head_disagreement(w), gaps / 3, "not the total variation", atol=1e-5)
    assert attention_entropy(torch.eye(3)).tolist() == [0, 0, 0]  # 0 ln 0 is 0


# Alignment ----------------------------------------------------------------------------------------


def rate_by_sets(weights, gold, allow_null, strict):
    hits = total = 0
    for w, links in zip(weights, gold):
        s, rows = w.size(-1), range(len(w) - 1)
        aligned = {(int((w[t] if allow_null else w[t, :-1]).argmax()), t) for t in rows}
        aligned = {(i, t) for i, t in aligned if i < s - 1}
        possible = set(links)
        sure = {(i, t) for i, t in possible if strict or sum(u == t for _, u in possible) == 1}
        hits += len(aligned & sure) + len(aligned & possible)
        total += len(aligned) + len(sure)
    return 1 - hits / total


@given(SEEDS, st.booleans(), st.booleans())
def test_alignment_error_rate_against_sets(seed, allow_null, strict):
    dice = torch.Generator().manual_seed(seed)
    weights = [torch.rand(2, t, s, generator=dice) for t, s in ((5, 4), (3, 6))]
    marks = [torch.rand(w.size(2) - 1, w.size(1) - 1, generator=dice) < 0.3 for w in weights]
    gold = [[(0, 0), *map(tuple, mark.nonzero().tolist())] for mark in marks]
    ours = alignment_error_rate(weights, gold, allow_null, strict)
    theirs = [rate_by_sets([w[h] for w in weights], gold, allow_null, strict) for h in range(2)]
    same(ours, torch.tensor(theirs), "not the rate of sets", atol=1e-6)


def test_alignment_by_hand():
    sure, possible = alignment_matrices([(0, 0), (1, 1), (2, 2), (3, 2)], (3, 5))
    assert sure.nonzero().tolist() == [[0, 0], [1, 1]]
    assert possible.nonzero().tolist() == [[0, 0], [1, 1], [2, 2], [2, 3]]


# Words --------------------------------------------------------------------------------------------


def test_a_piece_that_goes_on_a_word_has_a_dot():
    texts = {5: " a", 6: "b", 7: "c", 8: "'", 9: "d", 10: "e'", 11: " "}
    decoder = SimpleNamespace(decode=lambda ids, skip_special_tokens: texts[ids[0]])
    pieces = token_strings([5, 6, 7, 8, 9, 10, 11, PAD], SimpleNamespace(tokenizer=decoder))
    assert pieces == ["a", "·b", "·c", "'", "d", "·e'", "␣"]
    words = token_strings([BOS, 4, 5, EOS, PAD], WordTokenizer(["the", "cat"]))
    assert words == ["<bos>", "the", "cat", "<eos>"]
