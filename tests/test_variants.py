"""Parts that came after 2017: each against a reference, each inside a whole model."""


import pytest
import torch
import torch.nn.functional as F
from helpers import gradients, normal, same
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from transformer_lit.comparison import (
    SETUPS,
    VARIANTS,
    count_parameters,
    reference_parameters,
)
from transformer_lit.masks import (
    BOS,
    PAD,
    causal_mask,
    depends_on_future,
    depends_on_padding,
)
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.variants import (
    GQA,
    MODERN,
    ROPE,
    MQA,
    GELUFeedForward,
    GroupedQueryAttention,
    LearnedPositionEmbedding,
    RMSNorm,
    RotaryAttention,
    RotaryGroupedQueryAttention,
    SwiGLU,
    build_variant,
    parameter_matched,
    cache_bytes,
    apply_rotary,
    convert_to_rms_norm,
)

SEEDS, LENGTHS = st.integers(0, 10_000), st.integers(1, 9)
PARTS = {
    "book": {},
    "rms": dict(rms_norm=True),
    "gelu": dict(feed_forward=GELUFeedForward),
    "swiglu": dict(feed_forward=SwiGLU),
    "learned": dict(embedding=LearnedPositionEmbedding),
    "rope": ROPE,
    "grouped": GQA,
    "single": dict(self_attention=MQA, cross_attention=MQA),
    "all": MODERN,
}
ALL = pytest.mark.parametrize("name", list(PARTS))


def small(name: str, norm: str = "pre", layers: int = 2, **changes) -> Transformer:
    torch.manual_seed(5)
    sizes = dict(
        d_model=16,
        n_heads=4,
        d_ff=24,
        n_encoder_layers=layers,
        n_decoder_layers=layers,
        dropout=0.0,
        norm=norm,
    )
    return build_variant(TransformerConfig(40, **sizes | changes), **PARTS[name]).double().eval()


def sentences(rows: int = 3, source: int = 6, target: int = 5) -> tuple:
    torch.manual_seed(7)
    src, tgt = torch.randint(4, 39, (rows, source)), torch.randint(4, 39, (rows, target))
    src[0, source - 2 :], tgt[:, 0] = PAD, BOS
    return src, tgt


# Norm and feed-forward ----------------------------------------------------------------------------


@given(SEEDS, LENGTHS, st.sampled_from([1e-3, 1.0, 50.0]))
def test_rms_norm(seed, rows, size):
    torch.manual_seed(seed)
    x = (torch.randn(rows, 6) * size + size).double()
    ours, theirs = RMSNorm(6).double(), nn.RMSNorm(6, eps=1e-5).double()
    with torch.no_grad():
        theirs.weight.copy_(ours.weight.normal_())
    root = (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    same(
        ours(x),
        theirs(x),
        "RMSNorm differs from nn.RMSNorm",
        {
            "RMSNorm takes the mean away: that is LayerNorm": (
                theirs.weight * F.layer_norm(x, (6,), eps=1e-5)
            ),
            "RMSNorm divides by the length, not by the root mean square": (
                theirs.weight * x / root / 6**0.5
            ),
            "RMSNorm's weight is not used": x / root,
        },
    )


def test_rms_norm_takes_the_place_of_every_layer_norm():
    model = small("book")
    norms = {id(part.weight) for part in model.modules() if isinstance(part, nn.LayerNorm)}
    convert_to_rms_norm(model)
    converted = {id(part.weight) for part in model.modules() if isinstance(part, RMSNorm)}
    assert converted == norms, "the norms' weights must be taken over, all of them"


@given(SEEDS)
def test_gated_feed_forward(seed):
    torch.manual_seed(seed)
    part, x = SwiGLU(6, 9).double(), torch.randn(2, 4, 6).double()
    gate, carry = part.gate_proj(x), part.up_proj(x)
    same(
        part(x),
        part.down_proj(gate * gate.sigmoid() * carry),
        "SwiGLU differs from its equation",
        {
            "the gate is a sigmoid without its feature: that is GLU": part.down_proj(
                gate.sigmoid() * carry
            ),
            "what is carried goes through the swish": part.down_proj(gate * F.silu(carry)),
            "the gate is left out": part.down_proj(F.silu(gate)),
        },
    )


# Positions ----------------------------------------------------------------------------------------


def by_complex(x, start=0, sign=1.0):
    "The closed form, pair by pair."
    z = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    places = torch.arange(start, start + x.size(-2))[:, None]
    angle = sign * places * 10000.0 ** (-torch.arange(0, x.size(-1), 2) / x.size(-1))
    return torch.view_as_real(z * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


@given(SEEDS, LENGTHS, st.sampled_from([0, 1, 5, 130]), st.sampled_from([2, 6, 16]))
def test_rotate(seed, length, start, width):
    torch.manual_seed(seed)
    x = torch.randn(2, 3, length, width)
    half = torch.cat([x[..., 0::2], x[..., 1::2]], -1)
    same(
        apply_rotary(x, start),
        by_complex(x, start),
        "a rotation differs from its closed form",
        {
            "turned the other way": by_complex(x, start, -1.0),
            "positions are off by one": by_complex(x, start + 1),
            "start is not used": by_complex(x),
            "the halves are paired, not the neighbors": by_complex(half, start),
        },
        atol=2e-5,
    )


@pytest.mark.parametrize("kind", [RotaryAttention, RotaryGroupedQueryAttention])
def test_rotary_attention_against_the_closed_form(kind):
    torch.manual_seed(0)
    part, x = kind(16, 4), torch.randn(2, 5, 16)
    keys, values = part.project_keys_values(x, x)
    n = 4 // keys.size(1)
    q, k, v = (
        part.split_heads(part.q_proj(x)),
        keys.repeat_interleave(n, 1),
        values.repeat_interleave(n, 1),
    )
    merge = lambda y: part.out_proj(y.transpose(1, 2).flatten(2))
    scores = lambda a, b: (a @ b.mT / 2).softmax(-1)
    right = scores(by_complex(q), by_complex(k))
    wrong = {
        "values are turned as well": merge(right @ by_complex(v)),
        "values are repeated in the wrong order": merge(right @ values.repeat(1, n, 1, 1)),
        "keys are not turned": merge(scores(by_complex(q), k) @ v),
        "queries are not turned": merge(scores(q, by_complex(k)) @ v),
        "nothing is turned": merge(scores(q, k) @ v),
        "keys are turned the other way": merge(scores(by_complex(q), by_complex(k, 0, -1.0)) @ v),
    }
    same(
        part(x, x, x)[0],
        merge(right @ v),
        "rotary attention differs from its closed form",
        wrong,
        atol=1e-5,
    )
    same(part(x, x, x)[1], right, "the weights differ from the closed form's", atol=1e-5)


@pytest.mark.parametrize("kind", [RotaryAttention, RotaryGroupedQueryAttention])
def test_a_query_knows_its_place_in_the_cache(kind):
    torch.manual_seed(0)
    part, x = kind(16, 4), torch.randn(1, 6, 16)
    keys, values = part.project_keys_values(x, x)
    whole = part(x, x, x, causal_mask(6))[0]
    last = part(x[:, 5:], keys, values)[0]
    assert torch.allclose(
        last, whole[:, 5:], atol=1e-5
    ), "the last query must stand at the last key's place, not at 0"


def test_rotary_attention_fuses():
    torch.manual_seed(0)
    part, x = RotaryAttention(32, 2), torch.randn(1, 3, 32)
    explicit = part(x, x, x)[0]
    part.need_weights = False
    fused, weights = part(x, x, x)
    same(fused, explicit, "the fused kernel says something else", atol=1e-5)
    assert weights is None, "the kernel has no weights to show"


def test_learned_positions():
    torch.manual_seed(0)
    tokens, part = torch.randint(9, (2, 5)), LearnedPositionEmbedding(9, 16, 0.0, max_positions=6)
    words, rows = part.token_embedding(tokens), part.position_encodings.weight
    by_hand = (words + rows[[3, 4, 5, 5, 5]]) * 4
    wrong = {"√d_model is dropped": by_hand / 4, "start is not used": (words + rows[:5]) * 4}
    same(part(tokens, 3), by_hand, "they differ from their table", wrong, atol=1e-5)


# Groups -------------------------------------------------------------------------------------------


@given(SEEDS, st.sampled_from([(4, 4), (4, 2), (4, 1), (6, 3)]), st.booleans(), st.booleans())
def test_groups_against_torch(seed, heads, masked, training):
    torch.manual_seed(seed)
    n_heads, groups = heads
    part = GroupedQueryAttention(n_heads * 4, n_heads, groups).double().train(training)
    x, y = normal(2, 3, n_heads * 4), normal(2, 5, n_heads * 4)
    mask = torch.rand(2, 1, 3, 5) > 0.4 if masked else None
    if masked:
        mask[..., 0] = True
    query, n = part.split_heads(part.q_proj(x)), n_heads // groups
    keys, values = part.project_keys_values(y, y)
    assert keys.shape == values.shape == (2, groups, 5, 4), "the cache holds (B, G, S, K)"
    by = lambda k, v, **how: part.out_proj(
        F.scaled_dot_product_attention(query, k, v, mask, **how).transpose(1, 2).flatten(2)
    )
    ours, theirs = part(x, y, y, mask)[0], by(keys, values, enable_gqa=True)
    swapped = by(keys.repeat_interleave(n, 1), values.repeat(1, n, 1, 1))
    wrong = {"values are repeated in the wrong order": swapped}
    same(ours, theirs, "grouped heads differ from PyTorch's", wrong)
    inputs = [x, y, *part.parameters()]
    for mine, other in zip(gradients(ours, inputs), gradients(theirs, inputs), strict=True):
        same(mine, other, "a gradient differs from PyTorch's")


# Inside a model -----------------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_step_by_step_is_the_whole(name, norm):
    model, (source, target) = small(name, norm), sentences()
    state, whole = model.initial_state(source), model(source, target)
    for t in range(target.size(1)):
        logits, state = model.step(target[:, t], state)
        same(
            logits,
            whole[:, t],
            f"{name}: decoding step by step says something else at step {t}",
            atol=1e-5,
        )


@ALL
def test_nothing_leaks(name):
    model, (source, target) = small(name), sentences()
    future = depends_on_future(lambda tokens: model(source, tokens), target, 2)
    assert not future, f"{name} reads the future"
    assert not depends_on_padding(model.encode, source), f"{name} reads padding"
    padded = F.pad(source, (0, 3), value=PAD)
    same(model(padded, target), model(source, target), f"{name} reads padding", atol=1e-9)


@pytest.mark.parametrize("name, groups", [("book", 4), ("grouped", 2), ("all", 2)])
def test_bytes_of_the_cache(name, groups):
    model, (source, target) = small(name, layers=3), sentences(4, 7, 5)
    state = model.initial_state(source)
    for t in range(5):
        _, state = model.step(target[:, t], state)
    bytes_by_hand = 2 * 3 * 4 * groups * 4 * (7 + 5) * 8
    assert cache_bytes(state) == bytes_by_hand, f"{name}: 2 · N · B · G · K · (S + T) numbers"


def test_cross_attention_is_not_turned():
    for layer in small("all").decoder.layers:
        assert type(layer.self_attention) is RotaryGroupedQueryAttention
        kind = type(layer.cross_attention)
        assert kind is GroupedQueryAttention, "places in two sentences have no distance"


# The competitors ----------------------------------------------------------------------------------


def built(name, corpus="pocket"):
    "A design at the size of the reference, and that size."
    setup = SETUPS[corpus]
    wanted = reference_parameters(setup, setup.vocab_size)
    with torch.device("meta"):
        return VARIANTS[name].build(setup.vocab_size, setup.model_sizes, wanted), wanted


@pytest.mark.parametrize("corpus", list(SETUPS))
@pytest.mark.parametrize("name", list(VARIANTS))
def test_a_design_meets_the_count(name, corpus):
    model, wanted = built(name, corpus)
    away = count_parameters(model) / wanted - 1
    assert abs(away) <= 0.02, f"{name} has {away:+.1%} parameters"


CHANGED = {
    "gelu": {"GELUFeedForward", "GELU", "FeedForward", "ReLU"},
    "swiglu": {"SwiGLU", "FeedForward", "ReLU"},
    "learned": {"LearnedPositionEmbedding", "InputEmbedding"},
    "rope": {"RotaryAttention", "TokenEmbedding", "InputEmbedding"},
    "grouped-query": {"GroupedQueryAttention", "MultiHeadAttention"},
    "rms-norm": {"RMSNorm", "LayerNorm"},
    "no-dropout": set(),
}


@pytest.mark.parametrize("name", CHANGED)
def test_one_thing_is_changed(name):
    "Built like 2017 but for the part."
    kinds, plain = (
        {type(part).__name__ for part in built(design)[0].modules()} for design in (name, "2017")
    )
    assert kinds ^ plain == CHANGED[name], f"{name} changes more or less than its part"


def test_counting_draws_no_random_number():
    "With the same seed the weights are those of a model alone."
    sizes = dict(d_model=16, n_heads=2, d_ff=50, n_encoder_layers=1, n_decoder_layers=1)
    torch.manual_seed(0)
    alone = build_variant(TransformerConfig(60, **sizes))
    torch.manual_seed(0)
    model = parameter_matched()(60, sizes, count_parameters(alone))
    for one, two in zip(alone.parameters(), model.parameters(), strict=True):
        assert torch.equal(one, two)
