"""The whole model's settings: sizes, starts, and what decoding and the loss in blocks take from it.
"""


import pytest
import torch
from helpers import sentences, small_model
from litbook.results import load_record

from transformer_lit.decoder_only import DecoderOnlyTransformer
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.variants import build_modern


@pytest.mark.parametrize(
    "size, fields",
    [
        ("base", (9, None, 512, 8, 2048, 6, 6, 0.1, "post", True)),
        ("big", (9, None, 1024, 16, 4096, 6, 6, 0.3, "post", True)),
        ("small", (9, None, 256, 4, 1024, 4, 4, 0.1, "post", True)),
    ],
)
def test_sizes_have_every_field(size, fields):
    make = getattr(TransformerConfig, size)
    assert tuple(vars(make(9)).values()) == fields
    changed = make(9, dropout=0.25, d_model=64)
    assert (changed.dropout, changed.d_model, changed.n_heads) == (
        0.25,
        64,
        fields[3],
    ), "one thing changed, the rest as named"


@pytest.fixture
def parts():
    torch.manual_seed(0)
    return Transformer(
        TransformerConfig(300, d_model=64, d_ff=128, n_encoder_layers=2, norm="pre")
    )


def test_the_rest_of_the_parts_settings(parts):
    assert not parts.encoder.layers[0].feed_forward[0].bias.any(), "biases start at zero"
    assert (
        parts.decoder.norm.weight.eq(1).all() and parts.encoder.norm.weight.eq(1).all()
    ), "every gain is one"
    assert (len(parts.encoder.layers), len(parts.decoder.layers)) == (2, 6)
    assert parts.source_embedding.dropout.p == parts.target_embedding.dropout.p == 0.1


def test_two_vocabularies_without_ties_have_three_matrices():
    made = Transformer(TransformerConfig(30, 20, 16, 2, 32, 1, 1, tied_embeddings=False))
    assert (
        len(
            {
                w.data_ptr()
                for w in (
                    made.source_embedding.token_embedding.weight,
                    made.target_embedding.token_embedding.weight,
                    made.output_projection.weight,
                )
            }
        )
        == 3
    )


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_hidden_is_what_the_output_layer_reads(norm):
    model = small_model(norm=norm).eval()
    source, target = sentences(2, 5, 0), sentences(2, 4, 1)
    assert torch.equal(
        model.output_projection(model.hidden_states(target, model.encode(source), source)),
        model(source, target),
    )


def test_the_memorys_keys_are_laid_out_once():
    model = small_model().eval()
    state = model.initial_state(sentences(2, 5, 0))
    assert all(part.is_contiguous() for cache in state["caches"] for part in cache[2:])


def test_table_3_implies_two_vocabularies():
    def needed(size, millions):
        c = getattr(TransformerConfig, size)(0)
        D, FF = c.d_model, c.d_ff
        layers = 6 * (3 * (4 * D * D + 4 * D) + 2 * (2 * D * FF + FF + D) + 10 * D)
        return [(millions * 1e6 + off - layers) / D for off in (-5e5, 5e5)]

    assert (
        needed("big", 213)[1] < 37_000 < needed("base", 65)[0]
    ), "the page says that the paper's 37,000 lie between the two"


def test_translators_for_use_start_with_a_gain_of_one():
    "Chapter 9 says that records have a gain of 1."
    for name in ("general-en-fr", "exp-data-all-large", "ours-by-sentence"):
        recipe = load_record(name)[0]["recipe"]
        flat = recipe | recipe.get("training", {}) | recipe.get("model", {})
        assert (flat["norm"], flat["gain"]) == ("pre", 1.0) and flat["warmup"] > 1


@pytest.mark.parametrize("length", [6, 600], ids=["in the table", "beyond it"])
@pytest.mark.parametrize("kind", ["book", "modern", "decoder-only"])
def test_forward_is_one_graph(kind, length):
    "torch.compile finds nothing in `forward` at which it must stop."
    config = TransformerConfig(30, None, 16, 2, 32, 1, 1, norm="pre")
    build = {"book": Transformer, "modern": build_modern, "decoder-only": DecoderOnlyTransformer}
    model = build[kind](config).eval()
    source, target = torch.full((2, length), 5), torch.full((2, 4), 6)
    whole = torch.compile(model, backend="eager", fullgraph=True)
    assert torch.allclose(whole(source, target), model(source, target), atol=1e-5)
