"""The whole model against nn.Transformer with the same weights. It runs last: smaller tests name a
mistake better."""

import pytest
from helpers import (
    MODES,
    NORMS,
    SEEDS,
    VOCAB,
    copy_layer,
    gradients,
    same,
    sentences,
    shake,
    small_model,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from transformer_lit.masks import PAD, causal_mask

SIZES = st.integers(1, 5)


@NORMS
@MODES
@pytest.mark.filterwarnings("ignore")
@given(SIZES, SIZES, st.integers(1, 2), SEEDS)
def test_transformer(norm, training, t, s, layers, seed):
    ours = shake(
        small_model(
            seed, norm=norm, n_encoder_layers=layers, tied_embeddings=False, target_vocab_size=VOCAB
        )
    ).train(training)
    theirs = (
        nn.Transformer(8, 2, layers, 2, 16, 0.0, batch_first=True, norm_first=norm == "pre")
        .double()
        .train(training)
    )
    pairs = []
    for mine, other in (ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder):
        for a, b in zip(mine.layers, other.layers):
            pairs += copy_layer(a, b)
        if norm == "pre":
            other.norm.load_state_dict(mine.norm.state_dict())
        else:  # nn.Transformer always adds one; the paper's post-norm has none
            other.norm = None
    source, target = sentences(3, s, seed), sentences(3, t, seed + 1)
    mine = ours(source, target)
    other = ours.output_projection(
        theirs(
            ours.source_embedding(source),
            ours.target_embedding(target),
            tgt_mask=~causal_mask(t)[0, 0],
            src_key_padding_mask=source == PAD,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source == PAD,
        )
    )
    real = target != PAD
    same(
        mine[real],
        other[real],
        f"the Transformer ({norm}-norm) differs from nn.Transformer: look at masks and wiring",
    )
    for a, b in zip(
        gradients(mine[real], [p for p, _ in pairs]), gradients(other[real], [p for _, p in pairs])
    ):
        same(a, b, "a weight's gradient differs from nn.Transformer's")
