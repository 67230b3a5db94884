"""The book's parts against PyTorch's own, from the smallest to the whole model: values and
gradients."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers import (
    MODES,
    NORMS,
    SEEDS,
    VOCAB,
    copy_attention,
    copy_layer,
    gradients,
    normal,
    same,
    sentences,
    shake,
    small_model,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from transformer_lit.attention import fused_attention, scaled_dot_product_attention
from transformer_lit.decoder import Decoder, DecoderLayer
from transformer_lit.embeddings import InputEmbedding, sinusoids
from transformer_lit.encoder import Encoder, EncoderLayer
from transformer_lit.loss import chunked_loss_backward, label_smoothed_cross_entropy
from transformer_lit.masks import PAD, causal_mask, padding_mask, target_mask
from transformer_lit.multi_head_attention import MultiHeadAttention
from transformer_lit.schedule import noam_lr, noam_scheduler
from transformer_lit.sublayers import FeedForward, SublayerConnection

SIZES = st.integers(1, 5)


# Masks, entry by entry ----------------------------------------------------------------------------


def test_padding_and_target_mask_entries():
    tokens = torch.tensor([[5, 6, PAD], [7, PAD, PAD]])
    right = torch.tensor([[True, True, False], [True, False, False]])[:, None, None]
    mask = padding_mask(tokens)
    assert not torch.equal(mask, ~right), "the padding mask is inverted: True is a real token"
    assert torch.equal(mask, right), f"it must be (B, 1, 1, S), True at real tokens: {mask}"
    both = right & torch.ones(3, 3, dtype=torch.bool).tril()
    assert torch.equal(target_mask(tokens), both), "the target mask is causal AND not padding"


def test_causal_mask_entries():
    mask = causal_mask(4)
    ones = torch.ones(4, 4, dtype=torch.bool)
    wrong = {
        "the causal mask is transposed: query t may see s <= t": ones.triu(),
        "the causal mask's diagonal is off by one: a query can't see itself": ones.tril(-1),
        "the causal mask's diagonal is off by one: a query sees the next token, the answer": (
            ones.tril(1)
        ),
        "the causal mask is inverted": ones.triu(1),
    }
    for mistake, value in wrong.items():
        assert not torch.equal(mask[0, 0], value), mistake
    assert torch.equal(
        mask, ones.tril()[None, None]
    ), f"the causal mask must be (1, 1, T, T), True for s <= t: {mask}"


# Attention ----------------------------------------------------------------------------------------


def attention_mistakes(query, key, value, mask):
    "What the usual mistakes would return."
    raw = query @ key.mT
    scores = raw / math.sqrt(query.size(-1))
    low = torch.finfo(raw.dtype).min

    def attend(scores, mask):
        scores = scores if mask is None else scores.masked_fill(~mask, low)
        weights = scores.softmax(-1)
        return (weights if mask is None else weights.masked_fill(~mask, 0.0)) @ value

    wrong = {
        "the scale is dropped: divide the scores by √d_k": attend(raw, mask),
        "the scores are divided by d_k and not by its root": attend(raw / query.size(-1), mask),
    }
    if mask is not None:
        wrong["a fully masked row must return zeros, not a mean of what it can't see"] = (
            scores.masked_fill(~mask, low).softmax(-1) @ value
        )
        wrong["the mask is not used at all"] = attend(scores, None)
        wrong["the mask is inverted: True is where a query MAY look"] = attend(scores, ~mask)
        wrong["the mask comes after the softmax: the open weights no longer add up to 1"] = (
            scores.softmax(-1).masked_fill(~mask, 0.0) @ value
        )
        if mask.size(-1) == mask.size(-2):
            wrong["the mask is transposed: rows are queries, columns are keys"] = attend(
                scores, mask.mT
            )
    return wrong


@given(
    SIZES, SIZES, SIZES, SIZES, st.integers(2, 6), st.sampled_from(["none", "keys", "any"]), SEEDS
)
def test_attention(b, h, t, s, k, kind, seed):
    torch.manual_seed(seed)
    qkv = normal(b, h, t, k), normal(b, h, s, k), normal(b, h, s, k + 1)
    mask = {
        "none": None,
        "keys": torch.rand(b, 1, 1, s) < 0.7,
        "any": torch.rand(b, h, t, s) < 0.6,
    }[kind]
    ours, weights = scaled_dot_product_attention(*qkv, mask)
    theirs = F.scaled_dot_product_attention(*qkv, attn_mask=mask)
    same(
        ours,
        theirs,
        "attention differs from F.scaled_dot_product_attention",
        attention_mistakes(*qkv, mask),
    )
    for name, mine, other in zip(
        "query key value".split(), gradients(ours, qkv), gradients(theirs, qkv)
    ):
        same(mine, other, f"the gradient of {name} differs from PyTorch's")
    same(weights @ qkv[2], ours, "the weights that come back are not those that were used")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_row_closed_everywhere_returns_zeros(dtype):
    torch.manual_seed(0)
    qkv = [torch.randn(1, 2, 3, 4).to(dtype).requires_grad_() for _ in range(3)]
    mask = torch.tensor([[True, False, False], [False, False, False], [True, True, True]])
    output, weights = scaled_dot_product_attention(*qkv, mask)
    assert (
        weights.isfinite().all()
    ), "a fully masked row gives nan: is it 0/0 in the softmax?"
    assert (
        output[:, :, 1] == 0
    ).all(), "a fully masked row must return zeros, not a mean of what it can't see"
    output.sum().backward()
    assert all(
        x.grad.isfinite().all() for x in qkv
    ), "the gradient of a closed row is nan or infinite"


def test_dropout_falls_on_the_weights():
    torch.manual_seed(0)
    q, value = torch.randn(1, 1, 200, 4), torch.ones(1, 1, 200, 1)
    output, weights = scaled_dot_product_attention(q, q, value, dropout_p=0.5)
    same(weights.sum(-1), torch.ones(1, 1, 200), "the weights come back before dropout", atol=1e-5)
    for x in output, fused_attention(q, q, value, dropout_p=0.5):
        assert x.std() > 0.01, "dropout does nothing: is its argument passed on?"
        assert abs(x.mean() - 1) < 0.1, "what dropout leaves must be scaled up"


# Several heads ------------------------------------------------------------------------------------


def test_heads_come_back_in_order():
    "Each query sees itself only, value and output do nothing: what goes in must come out."
    torch.manual_seed(0)
    attention = MultiHeadAttention(6, 3).double()
    with torch.no_grad():
        for part in attention.v_proj, attention.out_proj:
            part.weight.copy_(torch.eye(6))
            part.bias.zero_()
    x = normal(2, 4, 6)
    scrambled = x.unflatten(-1, (3, 2)).transpose(1, 2).reshape(2, 4, 6)
    same(
        attention(x, x, x, torch.eye(4, dtype=torch.bool))[0],
        x,
        "the heads do not return what they were given",
        {
            "the heads are merged without transposing back: (B, H, T, K) to (B, T, H, K) first": (
                scrambled
            ),
            "keys and values are swapped: what comes out is a mix of keys": attention.k_proj(x),
        },
    )


@given(
    SIZES, SIZES, SIZES, st.sampled_from([1, 2, 3]), st.sampled_from([2, 4]), st.booleans(), SEEDS
)
def test_multi_head(b, t, s, heads, k, train, seed):
    torch.manual_seed(seed)
    ours = MultiHeadAttention(heads * k, heads).double().train(train)
    theirs = nn.MultiheadAttention(heads * k, heads, batch_first=True).double().train(train)
    nn.init.normal_(ours.k_proj.bias)
    copy_attention(ours, theirs)
    inputs = normal(b, t, heads * k), normal(b, s, heads * k), normal(b, s, heads * k)
    mask = torch.rand(t, s) < 0.6
    mask[:, 0] = True
    mine, my_weights = ours(*inputs, mask)
    other, their_weights = theirs(*inputs, attn_mask=~mask, average_attn_weights=False)
    same(
        mine,
        other,
        "MultiHeadAttention differs from nn.MultiheadAttention: look at how heads are split and"
        " merged",
    )
    same(my_weights, their_weights, "the weights differ from nn.MultiheadAttention's")
    for a, b_ in zip(gradients(mine, inputs), gradients(other, inputs)):
        same(a, b_, "a gradient differs from nn.MultiheadAttention's")


# Positions and embeddings -------------------------------------------------------------------------


def wave_table(length, d_model, start=0, base=10000.0):
    "The paper's formula, entry by entry in numpy's float64."
    pos = np.arange(start, start + length)[:, None]
    angle = pos / base ** (2 * np.arange(d_model // 2) / d_model)
    table = np.zeros((length, d_model))
    table[:, 0::2], table[:, 1::2] = np.sin(angle), np.cos(angle)
    return torch.tensor(table)


@given(st.integers(2, 80), st.integers(1, 16).map(lambda n: 2 * n), st.integers(0, 200))
def test_sinusoids(length, d_model, start):
    right = wave_table(length, d_model, start)
    same(
        sinusoids(length, d_model, start).double(),
        right,
        "the table is not the paper's formula: is the base 10000?",
        {
            "sines and cosines are swapped: the sine stands in the even columns": (
                right.view(length, -1, 2).flip(-1).flatten(1)
            ),
            "positions are off by one: row 0 is position `start`": wave_table(
                length, d_model, start + 1
            ),
            "`start` is not used: every token would be at position 0": wave_table(length, d_model),
        },
        atol=1e-4,
    )


def test_embedding_scales_then_adds_positions():
    torch.manual_seed(0)
    embedding = InputEmbedding(VOCAB, 16, dropout=0.0).eval()
    tokens, rows = sentences(2, 5, 0, None), sinusoids(9, 16)
    vectors = embedding.token_embedding(tokens)
    same(
        embedding(tokens),
        vectors * 4 + rows[:5],
        "an embedding is its token's vector times √d_model plus its position",
        {
            "√d_model is dropped: the positions drown the words": vectors + rows[:5],
            "the positions are missing": vectors * 4,
            "positions are off by one": vectors * 4 + rows[1:6],
            "the positions were scaled as well": (vectors + rows[:5]) * 4,
        },
        atol=1e-5,
    )
    same(
        embedding(tokens[:, :1], 4),
        vectors[:, :1] * 4 + rows[4:5],
        "a token alone at `start` has position `start`",
        {"`start` is not used: every token would be at position 0": vectors[:, :1] * 4 + rows[:1]},
        atol=1e-5,
    )
    last = embedding(tokens[:, :1].expand(2, 1300))[:, 1299]
    beyond = vectors[:, 0] * 4 + sinusoids(1300, 16)[1299]
    same(last, beyond, "positions beyond the table are not computed", atol=1e-4)


# Sublayers ----------------------------------------------------------------------------------------


def test_feed_forward():
    torch.manual_seed(0)
    ours, x = FeedForward(4, 12).double(), normal(2, 3, 4)
    first, last = [part for part in ours.modules() if isinstance(part, nn.Linear)]
    same(
        ours(x),
        last(torch.relu(first(x))),
        "feed-forward is max(0, x W_1 + b_1) W_2 + b_2",
        {
            "the ReLU is missing: two linear maps in a row are one linear map": last(first(x)),
            "the ReLU comes after the second matrix": torch.relu(last(first(x))),
        },
    )


@NORMS
def test_sublayer(norm):
    torch.manual_seed(0)
    around, f, x = (
        SublayerConnection(4, 0.0, norm).double(),
        nn.Linear(4, 4).double(),
        normal(2, 3, 4),
    )
    nn.init.normal_(around.norm.weight)
    n = around.norm
    forms = {"post": n(x + f(x)), "pre": x + f(n(x))}
    bare = {"post": n(f(x)), "pre": f(n(x))}
    other = "pre" if norm == "post" else "post"
    same(
        around(x, f),
        forms[norm],
        f"{norm}-norm is wired wrongly",
        {
            f"post-norm and pre-norm are swapped: this is {other}-norm": forms[other],
            "the residual is dropped: add x": bare[norm],
            "the LayerNorm is missing": x + f(x),
            "the residual adds the normalized x": n(x) + f(n(x)),
        },
    )


def test_sublayer_drops_only_what_the_function_says():
    torch.manual_seed(0)
    around, x = SublayerConnection(4, 0.999999, "pre"), torch.randn(5, 6, 4)
    same(around(x, lambda y: y), x, "dropout must fall on f(x), never on the residual", atol=1e-5)


# Layers and stacks --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [EncoderLayer, DecoderLayer])
@NORMS
@MODES
@pytest.mark.filterwarnings("ignore")
@given(SIZES, SIZES, st.integers(1, 3), SEEDS)
def test_a_layer_is_pytorchs(kind, norm, training, t, s, heads, seed):
    torch.manual_seed(seed)
    d = 4 * heads
    ours = shake(kind(d, heads, 10, 0.0, norm).double()).train(training)
    theirs = getattr(nn, "Transformer" + kind.__name__)(
        d, heads, 10, 0.0, batch_first=True, norm_first=norm == "pre"
    ).double()
    pairs, x, memory = copy_layer(ours, theirs.train(training)), normal(3, t, d), normal(3, s, d)
    tokens = sentences(3, t if kind is EncoderLayer else s, seed)
    mask, pads = padding_mask(tokens), tokens == PAD
    if kind is EncoderLayer:  # PyTorch's fast path in eval mode changes the rows of pads
        mine, other = (y[~pads] for y in (ours(x, mask), theirs(x, src_key_padding_mask=pads)))
    else:
        causal = causal_mask(t)
        mine = ours(x, memory, causal, mask)
        other = theirs(x, memory, tgt_mask=~causal[0, 0], memory_key_padding_mask=pads)
    same(mine, other, f"{norm}-norm differs from PyTorch's layer")
    for a, b in zip(
        gradients(mine, [p for p, _ in pairs]), gradients(other, [p for _, p in pairs])
    ):
        same(a, b, "a weight's gradient differs from PyTorch's")


def test_pre_norm_stacks_end_in_a_norm():
    for stack in Encoder([], 8, "pre"), Decoder([], 8, "pre"):
        x = torch.randn(2, 3, 8) * 5 + 1
        y = stack(x) if isinstance(stack, Encoder) else stack(x, x)
        same(
            y,
            F.layer_norm(x, (8,)),
            f"{type(stack).__name__}: pre-norm needs one last LayerNorm, here its sum goes out raw",
            atol=1e-5,
        )


def test_cross_attention_reads_memory_where_it_may():
    torch.manual_seed(0)
    layer, x, memory = DecoderLayer(8, 2, 16, 0.0).double().eval(), normal(1, 3, 8), normal(1, 3, 8)
    assert not torch.allclose(
        layer(x, memory), layer(x, memory + torch.randn_like(memory))
    ), "cross-attention reads x and not memory: the source sentence changes nothing"
    open_ = torch.tensor([True, True, False])
    same(
        layer(x, memory, None, open_),
        layer(x, memory[:, :2]),
        "cross-attention reads padding: it needs the source's mask",
    )


# First weights ------------------------------------------------------------------------------------


def test_linear_weights_start_as_xavier():
    model = small_model(d_model=64, d_ff=256)
    for part in model.modules():
        if isinstance(part, nn.Linear) and part is not model.output_projection:
            bound = math.sqrt(6 / sum(part.weight.shape))
            assert (
                0.9 * bound < part.weight.abs().max() <= bound
            ), "linear maps start as Xavier uniform: is `init_weights` called?"
            assert (part.bias == 0).all(), "biases start at zero"


# Loss and schedule --------------------------------------------------------------------------------


@given(
    SIZES,
    SIZES,
    st.integers(4, 9),
    st.sampled_from([0.0, 0.1, 0.4]),
    st.sampled_from(["mean", "sum"]),
    SEEDS,
)
def test_smoothed_cross_entropy(b, t, vocab, smoothing, reduction, seed):
    torch.manual_seed(seed)
    logits, labels = normal(b, t, vocab), torch.randint(0, vocab, (b, t))
    labels[0, 0] = 3
    ours = label_smoothed_cross_entropy(logits, labels, smoothing, reduction=reduction)

    def theirs(**changes):
        settings = dict(label_smoothing=smoothing, ignore_index=PAD, reduction=reduction)
        return nn.CrossEntropyLoss(**{**settings, **changes})(
            logits.flatten(0, 1), labels.flatten()
        )

    real = labels != PAD
    log_p = logits.log_softmax(-1)[real]
    hit = log_p.gather(-1, labels[real][:, None])[:, 0]
    shares = {
        "ε is shared by V - 1 words in a sum over all V: the shares add up to more than 1": (
            -(1 - smoothing) * hit - smoothing * log_p.sum(-1) / (vocab - 1)
        ),
        "the smoothed labels add up to more than 1: the label gets 1 - ε + ε/V": (
            -hit - smoothing * log_p.mean(-1)
        ),
    }
    wrong = {name: getattr(loss, reduction)() for name, loss in shares.items()}
    wrong["pads are counted in the loss"] = theirs(ignore_index=-1)
    wrong["pads are counted in the sum of the losses"] = (
        theirs(ignore_index=-1, reduction="sum") / real.sum()
    )
    if reduction == "mean":
        wrong["pads are counted in the mean: divide by the number of real labels"] = (
            theirs(reduction="sum") / labels.numel()
        )
    same(
        ours,
        theirs(),
        "the loss differs from nn.CrossEntropyLoss(label_smoothing, ignore_index)",
        wrong,
    )
    same(
        gradients(ours, logits)[0],
        gradients(theirs(), logits)[0],
        "the loss's gradient differs from nn.CrossEntropyLoss's",
    )


def test_the_mean_of_no_label_is_zero():
    logits = torch.randn(2, 3, 5, requires_grad=True)
    loss = label_smoothed_cross_entropy(logits, torch.full((2, 3), PAD))
    loss.backward()
    assert (
        loss == 0 and logits.grad.isfinite().all()
    ), "a batch of pads alone must cost 0, not nan (0/0)"


@given(
    st.integers(1, 9000),
    st.integers(1, 5000),
    st.sampled_from([16, 512]),
    st.sampled_from([1.0, 2.0]),
)
def test_noam(step, warmup, d_model, factor):
    right = (
        factor / math.sqrt(d_model) * (step / warmup**1.5 if step < warmup else 1 / math.sqrt(step))
    )
    assert math.isclose(
        noam_lr(step, d_model, warmup, factor), right
    ), "the rate is not equation 3: is the power of the warm-up -1.5, and of the step -0.5?"


def test_noam_schedule_counts_from_one():
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    try:
        schedule = noam_scheduler(optimizer, 64, 3)
    except ValueError as error:
        raise AssertionError(
            f"the schedule is off by one: LambdaLR counts from 0, noam from 1 ({error})"
        ) from None
    for step in range(1, 8):
        rate = optimizer.param_groups[0]["lr"]
        assert math.isclose(
            rate, noam_lr(step, 64, 3)
        ), f"the schedule is off by one: step {step} gets another step's rate"
        optimizer.step()
        schedule.step()


@given(SEEDS, st.booleans(), st.sampled_from([torch.float64, torch.float32, torch.bfloat16]))
def test_the_kernel_equals_the_explicit_form(seed, masked, kind):
    torch.manual_seed(seed)
    q, k, v = (torch.randn(2, 3, n, 4, dtype=kind, requires_grad=True) for n in (5, 6, 6))
    mask = torch.rand(2, 1, 5, 6) < 0.4 if masked else None  # some rows are fully masked
    found = []
    explicit, _ = scaled_dot_product_attention(q, k, v, mask)
    for x in explicit, fused_attention(q, k, v, mask):
        found.append([x, *torch.autograd.grad(x.square().sum(), (q, k, v))])
    atol = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 0.2}[kind]
    for name, own, its in zip(("output", "query", "key", "value"), *found):
        assert its.isfinite().all(), "a fully masked row must give zeros, not nan"
        same(
            its.double(),
            own.double(),
            f"the kernel's {name} differs from the explicit form's",
            atol=atol,
        )


@given(SEEDS, st.integers(1, 40), st.sampled_from([0.0, 0.1]), st.integers(1, 30))
def test_the_loss_in_blocks_is_the_whole_loss(seed, size, smoothing, count):
    model = small_model(seed)
    source, target = sentences(4, 5, seed), sentences(4, 6, seed + 1)

    def summed(x, labels):
        return label_smoothed_cross_entropy(
            model.output_projection(x), labels, smoothing, reduction="sum"
        )

    hidden = model.hidden_states(target, model.encode(source), source)
    same(
        model.output_projection(hidden),
        model(source, target),
        "the output layer over `hidden` must give the model's logits",
    )
    whole = summed(hidden, target) / count
    right = torch.autograd.grad(whole, list(model.parameters()))
    found = chunked_loss_backward(
        model.hidden_states(target, model.encode(source), source), target, summed, count, size
    )
    same(
        found.double(),
        whole.detach(),
        "the loss in blocks differs from the whole loss: is it divided by each block's own count?",
        atol=1e-5,
    )
    for own, weight in zip(right, model.parameters()):
        same(
            weight.grad,
            own,
            "the loss in blocks leaves another gradient: is each block's share added once, pads and"
            " all?",
        )
