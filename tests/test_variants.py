"""Parts that came after 2017: each against a reference, each inside a whole model, and the scripts
that measure them."""

import math

import pytest
import torch
import torch.nn.functional as F
from helpers import gradients, normal, same
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from transformer_lit.decoding import beam_search, greedy_decode
from transformer_lit.decoder import DecoderLayer
from transformer_lit.embeddings import InputEmbedding, sinusoids
from transformer_lit.encoder import EncoderLayer
from transformer_lit.comparison import (
    SETUPS,
    VARIANTS,
    Variant,
    count_parameters,
    reference_parameters,
)
from transformer_lit.masks import (
    BOS,
    PAD,
    causal_mask,
    padding_mask,
    depends_on_future,
    depends_on_padding,
)
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.multi_head_attention import MultiHeadAttention
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
    TokenEmbedding,
    build_variant,
    parameter_matched,
    cache_bytes,
    build_modern,
    apply_rotary,
    layer_factory,
    convert_to_rms_norm,
)
from transformer_lit.sublayers import FeedForward

NAMES = """2017 rms-norm gelu swiglu learned rope multi-query grouped-query no-smoothing no-dropout
    all-together adamw muon pre-norm-adamw pre-norm-muon""".split()
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


def test_rms_norm_starts_as_layer_norm_does():
    assert (
        torch.equal(RMSNorm(4).weight, torch.ones(4))
        and RMSNorm(4).eps == 1e-5 == nn.LayerNorm(4).eps
    )
    x = torch.tensor([3.0, 4.0])
    same(RMSNorm(2)(x), x / 12.5**0.5, "RMSNorm of (3, 4)", atol=1e-5)


def test_rms_norm_trains_its_weight():
    torch.manual_seed(0)
    ours, theirs, x = RMSNorm(8), nn.RMSNorm(8, eps=1e-5), torch.randn(5, 8)
    inputs = x.clone().requires_grad_(), x.clone().requires_grad_()
    for norm, one in zip((ours, theirs), inputs):
        norm(one).pow(3).sum().backward()
    same(ours.weight.grad, theirs.weight.grad, "the gradient of RMSNorm's weight", atol=1e-4)
    same(inputs[0].grad, inputs[1].grad, "the gradient of what RMSNorm reads", atol=1e-4)


def test_epsilon_is_taken_over():
    odd = convert_to_rms_norm(nn.Sequential(nn.LayerNorm(3, eps=0.5)))
    assert type(odd[0]) is RMSNorm and odd[0].eps == 0.5, "ε must be taken over"


def test_an_exchanged_norm_changes_what_the_model_says():
    model, (source, target) = small("book"), sentences()
    said = model(source, target)
    kept = {id(part) for part in model.modules() if not isinstance(part, nn.LayerNorm)}
    again = convert_to_rms_norm(model)
    assert again is model and not torch.allclose(again(source, target), said)
    assert {
        id(part) for part in model.modules() if not isinstance(part, RMSNorm)
    } == kept, "something else was exchanged"


def test_with_rms_norm_reaches_every_norm():
    model = build_variant(TransformerConfig(30, None, 16, 2, 32, 3, 2, 0.0, "pre"))
    weights = {id(part.weight) for part in model.modules() if isinstance(part, nn.LayerNorm)}
    assert convert_to_rms_norm(model) is model
    norms = [part for part in model.modules() if isinstance(part, RMSNorm)]
    assert len(norms) == 3 * 2 + 2 * 3 + 2 and not any(
        isinstance(part, nn.LayerNorm) for part in model.modules()
    )
    assert {
        id(norm.weight) for norm in norms
    } == weights, "the norms' weights must be taken over, with where they start"
    optimizer = torch.optim.Adam(model.parameters())
    source, target = sentences(2)
    model(source % 30, target % 30).square().mean().backward()
    optimizer.step()
    assert all(norm.weight.grad is not None for norm in norms), "an exchanged norm is not trained"


def test_gelu_stands_between_the_two_matrices():
    part, x = GELUFeedForward(8, 32), torch.randn(4, 8)
    assert isinstance(part, FeedForward) and len(part) == 3
    assert (part[0].out_features, part[2].out_features) == (32, 8)
    h = part[0](x)
    same(
        part(x),
        part[2](h * 0.5 * (1 + torch.erf(h / 2**0.5))),
        "GELU differs from its definition",
        atol=1e-5,
    )


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


@pytest.mark.parametrize("d", [64, 96, 128, 512])
def test_two_thirds(d):
    share = count_parameters(SwiGLU(d, 4 * d)) / count_parameters(FeedForward(d, 4 * d))
    assert (
        abs(share - 1) < 0.02
    ), f"SwiGLU has {share:.2f} times the parameters: its inner size is 2/3 of d_ff"
    assert SwiGLU(64, 256).gate_proj.out_features == SwiGLU(64, 256).down_proj.in_features == 171


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
            "the halves are paired, not the neighbours": by_complex(half, start),
        },
        atol=2e-5,
    )


def test_rotate_keeps_type_and_length_and_turns_heads_alike():
    torch.manual_seed(0)
    x, deep = torch.randn(5, 16), torch.randn(2, 3, 5, 16)
    one = apply_rotary(torch.tensor([[1.0, 0, 1, 0]]).expand(3, 4))[1]
    same(
        one,
        torch.tensor([math.cos(1), math.sin(1), math.cos(0.01), math.sin(0.01)]),
        "the first pair turns by one radian",
        atol=1e-5,
    )
    assert apply_rotary(x.bfloat16()).dtype == torch.bfloat16
    assert torch.equal(apply_rotary(deep, 2)[1, 2], apply_rotary(deep[1, 2], 2))
    assert all(apply_rotary(torch.ones(n, 4)).shape == (n, 4) for n in range(1, 10))


@given(SEEDS, st.integers(0, 60))
def test_scores_know_distance_alone(seed, away):
    torch.manual_seed(seed)
    q, k = torch.randn(2, 5, 8).double()
    here, there = (apply_rotary(q, start) @ apply_rotary(k, start).mT for start in (0, away))
    assert torch.allclose(here, there, atol=1e-4), "a score depends on more than the distance"


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


def test_moving_a_sentence_changes_nothing():
    "Seven closed words in front: everything has moved, nothing may notice."
    torch.manual_seed(0)
    layer = layer_factory(EncoderLayer, self_attention=RotaryAttention)(16, 4, 32, 0.0)
    x, junk = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    seen = (torch.arange(12) >= 7)[None, None, None]
    moved = layer(torch.cat([junk, x], 1), seen)[:, 7:]
    assert torch.allclose(moved, layer(x), atol=1e-5), "RoPE notices where a sentence stands"


def test_embeddings():
    torch.manual_seed(0)
    tokens = torch.randint(9, (2, 5))
    words, book = TokenEmbedding(9, 16, 0.0), InputEmbedding(9, 16, 0.0)
    book.token_embedding = words.token_embedding
    same(
        words(tokens, 4) + sinusoids(5, 16, 4),
        book(tokens, 4),
        "TokensOnly is not the book's embedding without positions",
        atol=1e-5,
    )
    learned = LearnedPositionEmbedding(9, 16, 0.0, max_positions=6)
    by_hand = (
        learned.token_embedding(tokens) + learned.position_encodings.weight[[3, 4, 5, 5, 5]]
    ) * 4
    same(
        learned(tokens, 3),
        by_hand,
        "learned positions differ from their table",
        {
            "√d_model is dropped": by_hand / 4,
            "start is not used": (
                learned.token_embedding(tokens) + learned.position_encodings.weight[:5]
            )
            * 4,
        },
        atol=1e-5,
    )


def test_embeddings_begin_as_they_should():
    torch.manual_seed(0)
    tokens = torch.randint(9, (2, 6))
    words, wide = TokenEmbedding(9, 16, 0.0), LearnedPositionEmbedding(9, 400, max_positions=100)
    assert torch.equal(
        words(tokens, 4), words(tokens)
    ), "without positions the start doesn't matter"
    assert (
        abs(wide.position_encodings.weight.std() - 400**-0.5) < 1e-3
        and wide.position_encodings.num_embeddings == 100
    )
    assert LearnedPositionEmbedding(9, 16).position_encodings.num_embeddings == 128
    assert all(
        (part(tokens) == 0).any()
        for part in (LearnedPositionEmbedding(9, 16, 0.5), TokenEmbedding(9, 16, 0.5))
    ), "no dropout"
    assert not list(wide.buffers()), "the sinusoids are still there"


# Groups -------------------------------------------------------------------------------------------


@given(SEEDS, st.sampled_from([(4, 4), (4, 2), (4, 1), (6, 3), (6, 2)]), st.booleans())
def test_groups_against_torch(seed, heads, masked):
    torch.manual_seed(seed)
    n_heads, groups = heads
    part = GroupedQueryAttention(n_heads * 4, n_heads, groups).double()
    x, y = normal(2, 3, n_heads * 4), normal(2, 5, n_heads * 4)
    mask = torch.rand(2, 1, 3, 5) > 0.4 if masked else None
    if masked:
        mask[..., 0] = True
    query, (keys, values), n = (
        part.split_heads(part.q_proj(x)),
        part.project_keys_values(y, y),
        n_heads // groups,
    )
    assert keys.shape == values.shape == (2, groups, 5, 4), "the cache holds (B, G, S, K)"
    by = lambda k, v, **how: part.out_proj(
        F.scaled_dot_product_attention(query, k, v, mask, **how).transpose(1, 2).flatten(2)
    )
    same(
        part(x, y, y, mask)[0],
        by(keys, values, enable_gqa=True),
        "grouped heads differ from PyTorch's",
        {
            "groups are repeated in the wrong order: 0 1 0 1, not 0 0 1 1": by(
                keys.repeat(1, n, 1, 1), values.repeat(1, n, 1, 1)
            ),
            "values are repeated in the wrong order": by(
                keys.repeat_interleave(n, 1), values.repeat(1, n, 1, 1)
            ),
        },
    )
    inputs, theirs = [x, y, *part.parameters()], by(keys, values, enable_gqa=True)
    wanted = gradients(theirs, inputs)
    for training in (True, False):
        for mine, other in zip(
            gradients(part.train(training)(x, y, y, mask)[0], inputs), wanted, strict=True
        ):
            same(mine, other, "a gradient differs from PyTorch's")


def test_full_groups_are_multi_head():
    torch.manual_seed(0)
    full, plain, x = (
        GroupedQueryAttention(16, 4, 4),
        MultiHeadAttention(16, 4),
        torch.randn(2, 5, 16),
    )
    plain.load_state_dict(full.state_dict())
    same(
        full(x, x, x)[0],
        plain(x, x, x)[0],
        "with as many groups as heads it must be multi-head attention",
        atol=1e-6,
    )


def test_two_groups_unless_told_and_weights_of_every_head():
    part, x, y = GroupedQueryAttention(32, 4), torch.randn(2, 5, 32), torch.randn(2, 7, 32)
    assert part.n_kv_heads == 2
    assert part(x, y, y)[1].shape == (2, 4, 5, 7), "weights of every head of queries"


@pytest.mark.parametrize("heads, groups", [(4, 3), (4, 8), (6, 4)])
def test_groups_that_do_not_divide(heads, groups):
    with pytest.raises(ValueError, match="choose a divisor"):
        GroupedQueryAttention(heads * 4, heads, groups)


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
    assert not depends_on_future(
        lambda tokens: model(source, tokens), target, 2
    ), f"{name} reads the future"
    assert not depends_on_padding(
        lambda tokens: model.encode(tokens), source
    ), f"{name} reads padding"


@ALL
def test_a_beam_shares_the_memory(name):
    model, (source, _) = small(name), sentences()
    assert beam_search(model, source, 1, max_length=6) == greedy_decode(
        model, source, 6
    ), f"{name}: a beam of one is greedy"
    two = beam_search(model, source, 3, max_length=6)
    assert two == [
        beam_search(model, row[row != PAD][None], 3, max_length=6)[0] for row in source
    ], f"{name}: a sentence is decoded otherwise when it stands in a batch"


@ALL
def test_every_weight_is_trained(name):
    model, (source, target) = small(name), sentences()
    model(source, target).log_softmax(-1).square().mean().backward()
    idle = [n for n, w in model.named_parameters() if w.grad is None]
    assert not idle, f"{name}: no gradient reaches {idle}"


@pytest.mark.parametrize(
    "name, groups", [("book", 4), ("rope", 4), ("grouped", 2), ("single", 1), ("all", 2)]
)
def test_bytes_of_the_cache(name, groups):
    model, (source, target) = small(name, layers=3), sentences(4, 7, 5)
    state = model.initial_state(source)
    for t in range(5):
        _, state = model.step(target[:, t], state)
    assert (
        cache_bytes(state) == 2 * 3 * 4 * groups * 4 * (7 + 5) * 8
    ), f"{name}: 2 · N · B · G · K · (S + T) numbers"


def test_bytes_are_those_of_floats_alone():
    assert (
        cache_bytes([torch.ones(3), {"a": torch.ones(2).bool()}, (torch.ones(1).double(),)]) == 20
    )
    layer = {"keys": torch.zeros(2, 3), "mask": torch.ones(5).bool()}
    assert cache_bytes([layer, layer]) == 2 * (2 * 3) * 4


def test_a_part_gets_its_sizes_and_the_rest_stays():
    class Noted(nn.Identity):
        def __init__(self, *sizes):
            super().__init__()
            self.sizes = sizes

    changed = layer_factory(DecoderLayer, feed_forward=Noted, cross_attention=Noted)(
        8, 2, 32, 0.0, "pre"
    )
    assert changed.feed_forward.sizes == (8, 32) and changed.cross_attention.sizes == (8, 2)
    assert (
        type(changed.self_attention) is MultiHeadAttention
        and changed.self_attention_residual.pre_norm
    )
    with pytest.raises(AttributeError):
        layer_factory(EncoderLayer, cross_attention=Noted)(8, 2, 32)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_nothing_exchanged_is_the_book_s_model(norm):
    config = TransformerConfig(30, None, 16, 2, 32, 2, 2, 0.0, norm)
    torch.manual_seed(3)
    ours = build_variant(config).state_dict()
    torch.manual_seed(3)
    theirs = Transformer(config).state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_parts_are_exchanged_and_nothing_else():
    model = small("all")
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        assert (
            type(layer.self_attention) is RotaryGroupedQueryAttention
            and type(layer.feed_forward) is SwiGLU
        )
    assert all(
        type(layer.cross_attention) is GroupedQueryAttention for layer in model.decoder.layers
    ), "cross-attention must not be turned: places in two sentences have no distance"
    assert (
        model.output_projection.weight
        is model.source_embedding.token_embedding.weight
        is model.target_embedding.token_embedding.weight
    ), "the ties must survive"
    assert (
        model.decoder.norm.weight == 1
    ).all(), "the last norm of a pre-norm decoder starts at 1 here"
    with pytest.raises(AttributeError, match="feedforward"):
        layer_factory(EncoderLayer, feedforward=SwiGLU)(8, 2, 16)
    names = [type(part).__name__ for part in model.modules()]
    assert (
        names.count("RotaryGroupedQueryAttention") == 4
        and names.count("GroupedQueryAttention") == 2
    )
    assert (
        names.count("SwiGLU") == 4
        and names.count("TokenEmbedding") == 2
        and not {"LayerNorm", "FeedForward"} & set(names)
    )
    assert (
        type(
            build_modern(TransformerConfig(9, None, 16, 2, 8, 1, 1)).encoder.layers[0].feed_forward
        )
        is SwiGLU
    )


def test_padding_closes_grouped_keys():
    model, (source, target) = small("all"), sentences()
    other = source.clone()
    other[0, -1] = 9  # what stands under a closed mask
    memory = model.encode(source)
    mask = padding_mask(source)
    here, there = (
        model.decoder(model.target_embedding(target), m, None, mask)
        for m in (memory, torch.where(mask[:, 0, 0, :, None], memory, torch.full_like(memory, 3.0)))
    )
    assert torch.allclose(here, there), "cross-attention in groups reads padding"


# The competitors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("corpus", list(SETUPS))
@pytest.mark.parametrize("name", NAMES)
def test_a_design_meets_the_count(name, corpus):
    setup, design = SETUPS[corpus], VARIANTS[name]
    wanted = reference_parameters(setup, setup.vocab_size)
    with torch.device("meta"):
        model = design.build(setup.vocab_size, setup.model_sizes, wanted)
    away = count_parameters(model) / wanted - 1
    assert abs(away) <= 0.02, f"{name} has {away:+.1%} parameters"
    assert model.config.norm == ("pre" if name.startswith(("pre", "all")) else "post")
    assert design.optimizer == (
        name.split("-")[-1]
        if name.split("-")[-1] in ("adamw", "muon")
        else "muon" if name == "all-together" else "adam"
    )
    assert isinstance(design, Variant)


def test_one_thing_is_changed():
    "Built like 2017 but for the part."
    setup = SETUPS["pocket"]
    wanted = reference_parameters(setup, setup.vocab_size)
    kinds = {}
    for name in ("2017", "gelu", "swiglu", "learned", "rope", "grouped-query", "rms-norm"):
        with torch.device("meta"):
            model = VARIANTS[name].build(setup.vocab_size, setup.model_sizes, wanted)
        kinds[name] = {type(part).__name__ for part in model.modules()}
    changed = {
        "gelu": {"GELUFeedForward", "GELU", "FeedForward", "ReLU"},
        "swiglu": {"SwiGLU", "FeedForward", "ReLU"},
        "learned": {"LearnedPositionEmbedding", "InputEmbedding"},
        "rope": {"RotaryAttention", "TokenEmbedding", "InputEmbedding"},
        "grouped-query": {"GroupedQueryAttention", "MultiHeadAttention"},
        "rms-norm": {"RMSNorm", "LayerNorm"},
    }
    for name, parts in changed.items():
        assert kinds[name] ^ kinds["2017"] == parts, f"{name} changes more or less than its part"


def test_what_a_design_sets_besides_its_parts():
    assert VARIANTS["2017"].label_smoothing == 0.1 == VARIANTS["no-dropout"].label_smoothing
    assert VARIANTS["no-smoothing"].label_smoothing == 0 == VARIANTS["all-together"].label_smoothing
    setup = SETUPS["pocket"]
    wanted = reference_parameters(setup, setup.vocab_size)
    with torch.device("meta"):
        width = {
            name: VARIANTS[name].build(setup.vocab_size, setup.model_sizes, wanted).config.d_ff
            for name in ("multi-query", "grouped-query", "swiglu", "learned")
        }
        idle = VARIANTS["no-dropout"].build(setup.vocab_size, setup.model_sizes, wanted)
        rms = VARIANTS["rms-norm"].build(setup.vocab_size, setup.model_sizes, wanted)
    assert not any(
        "around" in name and name.endswith("bias") for name, _ in rms.named_parameters()
    ), "RMSNorm has no bias"
    assert width["multi-query"] > width["grouped-query"] > 256 == width["swiglu"] > width["learned"]
    assert idle.config.dropout == 0


def test_a_width_that_fits_is_left_alone():
    sizes = dict(
        d_model=16, n_heads=2, d_ff=50, n_encoder_layers=1, n_decoder_layers=1, dropout=0.0
    )
    count = count_parameters(build_variant(TransformerConfig(60, **sizes)))
    build = parameter_matched()
    assert build(60, sizes, count).config.d_ff == 50
    assert build(60, sizes, round(count * 1.008)).config.d_ff == 50
    assert build(60, sizes, round(count * 0.992)).config.d_ff == 50
    assert all(build(60, sizes, round(count * by)).config.d_ff % 8 == 0 for by in (1.2, 1.3))


def test_nothing_is_drawn_before_the_model_that_counts():
    """Counting draws no random number: with the same seed the weights are those of the model built
    alone."""
    sizes = dict(
        d_model=16, n_heads=2, d_ff=48, n_encoder_layers=1, n_decoder_layers=1, dropout=0.0
    )
    config = TransformerConfig(60, **sizes)
    torch.manual_seed(0)
    alone = build_variant(config)
    torch.manual_seed(0)
    for one, other in zip(
        alone.parameters(),
        parameter_matched()(60, sizes, count_parameters(alone)).parameters(),
        strict=True,
    ):
        assert torch.equal(one, other)
    wider = sizes | {"d_ff": 50}
    fitted = parameter_matched()(
        600, wider, round(1.015 * count_parameters(build_variant(TransformerConfig(600, **wider))))
    )
    assert fitted.config.d_ff % 8 == 0, "more than 1% away another width is looked for"


def test_which_parts_the_designs_have():
    assert ROPE == dict(self_attention=RotaryAttention, embedding=TokenEmbedding)
    assert MODERN == dict(
        self_attention=RotaryGroupedQueryAttention,
        cross_attention=GroupedQueryAttention,
        embedding=TokenEmbedding,
        feed_forward=SwiGLU,
        rms_norm=True,
    )
    setup = SETUPS["pocket"]
    wanted = reference_parameters(setup, setup.vocab_size)
    kinds = {"2017": FeedForward, "gelu": GELUFeedForward, "swiglu": SwiGLU, "all-together": SwiGLU}
    for name, kind in kinds.items():
        with torch.device("meta"):
            model = VARIANTS[name].build(setup.vocab_size, setup.model_sizes, wanted)
        assert all(
            type(layer.feed_forward) is kind
            for stack in (model.encoder, model.decoder)
            for layer in stack.layers
        ), name
    assert LearnedPositionEmbedding(9, 16).dropout.p == 0.1


def test_turned_attention_by_hand():
    "Softmax of turned queries and keys, times the values."
    torch.manual_seed(0)
    part, x = RotaryAttention(16, 4).double().eval(), torch.randn(
        2, 5, 16, dtype=torch.float64
    )
    q, k, v = (part.split_heads(layer(x)) for layer in (part.q_proj, part.k_proj, part.v_proj))
    scores = apply_rotary(q) @ apply_rotary(k).mT / 2
    by_hand = part.out_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
    same(
        part(x, *part.project_keys_values(x, x))[0],
        by_hand,
        "turned attention in evaluation is not softmax(QKᵀ/√K) V",
        atol=1e-9,
    )


def test_the_cost_of_rope_is_no_byte():
    "The cache of 2017, of two groups, of one; turning costs no byte."
    kept = {}
    for name in ("book", "rope", "grouped", "single", "all"):
        model, (source, target) = small(name), sentences()
        _, state = model.step(target[:, 0], model.initial_state(source))
        kept[name] = cache_bytes(state)
    assert (
        kept["book"] == kept["rope"] == 2 * kept["grouped"] == 2 * kept["all"] == 4 * kept["single"]
    )
