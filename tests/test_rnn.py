"""The RNN translators: the step is PyTorch's, pads and the future stay out, beams keep to their
sentence, pieces become words."""


import pytest
import torch
import torch.nn.functional as F
from helpers import MODES, SEEDS, VOCAB, gradients, normal, same, sentences
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from transformer_lit.decoding import beam_search, greedy_decode
from transformer_lit.masks import PAD, depends_on_future, depends_on_padding
from transformer_lit.rnn import (
    RNNSeq2Seq,
    AdditiveAttention,
    RNNConfig,
    gru_cell,
    final_states,
    run_bidirectional,
    word_ids,
    merge_subwords,
)
from transformer_lit.tokenization import SubwordTokenizer, split_words

LOOKS = pytest.mark.parametrize("attention", [True, False], ids=["attention", "summary"])


def rnn(attention=True, seed=0, **changes):
    "A model of a few hundred weights, in float64; its output is spread, so that beams differ."
    torch.manual_seed(seed)
    sizes = dict(vocab_size=VOCAB, d_model=6, hidden_size=7, dropout=0.0, attention=attention)
    model = RNNSeq2Seq(RNNConfig(**{**sizes, **changes})).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2.0)
    return model


# The step -----------------------------------------------------------------------------------------


@given(SEEDS, st.integers(1, 5), st.integers(1, 6))
def test_the_step_is_pytorchs(seed, d, n):
    torch.manual_seed(seed)
    cell = nn.GRUCell(d, n).double()
    x, h = torch.randn(4, d, dtype=torch.float64), torch.randn(
        4, n, dtype=torch.float64, requires_grad=True
    )
    a, u = F.linear(x, cell.weight_ih, cell.bias_ih), F.linear(h, cell.weight_hh, cell.bias_hh)
    ours, theirs = gru_cell(a, u, h), cell(x, h)
    z = (a + u).sigmoid()[:, n : 2 * n]
    n_ = (a + (a + u).sigmoid()[:, :n].repeat(1, 3) * u).tanh()[:, 2 * n :]
    wrong = {
        "the update gate is turned round": z * n_ + (1 - z) * h,
        "the reset gate is not used": (1 - z) * (a + u).tanh()[:, 2 * n :] + z * h,
    }
    same(ours, theirs, "the step differs from nn.GRUCell", wrong)
    inputs = [h, *cell.parameters()]
    for mine, other in zip(gradients(ours, inputs), gradients(theirs, inputs), strict=True):
        same(mine, other, "a gradient differs from nn.GRUCell's")


@given(SEEDS, st.integers(1, 4), st.integers(1, 6))
def test_reading_is_that_of_each_sentence_alone(seed, rows, length):
    torch.manual_seed(seed)
    gru = nn.GRU(3, 4, batch_first=True, bidirectional=True).double()
    tokens = sentences(rows, length, seed)
    x, mask = torch.randn(rows, length, 3, dtype=torch.float64), tokens != PAD
    states = run_bidirectional(gru, x, mask)
    summary = final_states(states, mask)
    for b, n in enumerate(mask.sum(1).tolist()):
        alone, end = gru(x[b : b + 1, :n])
        same(
            states[b, :n],
            alone[0],
            "padding leaks into the states",
            {"padding leaks into the backward direction": gru(x)[0][b, :n]},
        )
        assert states[b, n:].abs().sum() == 0, "the states of pads are zero"
        same(
            summary[b],
            end.flatten(),
            "the summary is the last word's forward and the first word's backward state",
        )


# The look -----------------------------------------------------------------------------------------


def test_a_row_closed_everywhere_gives_zeros():
    look, memory = AdditiveAttention(3, 4, 5), torch.randn(2, 5, 4)
    closed = torch.zeros(2, 1, 5, dtype=torch.bool)
    context, weights = look(torch.randn(2, 1, 3), look.key_proj(memory), memory, closed)
    assert context.abs().sum() == weights.abs().sum() == 0, "a closed row must return zeros"


@given(SEEDS, st.integers(1, 5))
def test_a_closed_word_is_absent_and_the_query_is_heard(seed, n):
    torch.manual_seed(seed)
    look = AdditiveAttention(3, 4, 5).double()
    query, memory = torch.randn(2, 3, 3).double(), torch.randn(2, 5, 4).double()
    mask = (torch.arange(5) < n).expand(2, 1, 5)
    context, weights = look(query, look.key_proj(memory), memory, mask)
    cut, _ = look(query, look.key_proj(memory[:, :n]), memory[:, :n], mask[..., :n])
    same(context, cut, "a closed word is not as if it were absent")
    same(weights.sum(-1), torch.ones(2, 3).double(), "the weights of an open row add up to 1")
    if n > 1:
        assert not torch.allclose(
            weights[:, 0], weights[:, 1]
        ), "the query is not heard: is the tanh there?"
    order = torch.randperm(n)
    mixed, _ = look(query, look.key_proj(memory[:, order]), memory[:, order], mask[..., :n])
    same(mixed, cut, "the order of the words must not matter to a look")


# The translators ----------------------------------------------------------------------------------


@LOOKS
def test_neither_future_nor_padding(attention):
    model = rnn(attention)
    source, target = sentences(3, 6, 1), sentences(3, 5, 2, pads=None)
    future = [depends_on_future(lambda y: model(source, y), target, t) for t in range(4)]
    assert not any(future), "the decoder reads the future"
    assert not depends_on_padding(model.encode, source), "padding leaks into the backward direction"

    def outputs(tokens):
        return model(tokens, target).flatten(1)[:, None].expand(-1, tokens.size(1), -1)

    assert not depends_on_padding(outputs, source), "the translator reads padding"


def test_a_sentence_of_pads_is_finite():
    assert rnn().encode(torch.full((2, 3), PAD)).isfinite().all()


@LOOKS
@given(seed=SEEDS)
def test_steps_give_what_the_whole_gives(attention, seed):
    model = rnn(attention, seed).eval()
    source, target = sentences(3, 5, seed), sentences(3, 4, seed + 1, pads=None)
    with torch.no_grad():
        whole, state = model(source, target), model.initial_state(source)
        for t in range(4):
            logits, state = model.step(target[:, t], state)
            same(logits, whole[:, t], "a step differs from the whole sentence")
        if attention:
            weights = model.attention_weights(source, target)
            assert (weights * (source == PAD)[:, None]).sum() == 0, "attention rests on pads"
            same(weights.sum(-1), torch.ones(3, 4).double(), "the weights add up to 1")


@MODES
def test_the_decoders_loop_is_pytorchs_gru(training):
    "Without attention nn.GRU can run the loop."
    model = rnn(attention=False).train(training)
    source, x = sentences(2, 5, 3), normal(2, 4, 6)
    gru = nn.GRU(6 + 14, 7, batch_first=True).double()
    gates = torch.cat([model.input_gates.weight, model.context_gates.weight], 1)
    names = "weight_ih_l0 bias_ih_l0 weight_hh_l0 bias_hh_l0".split()
    weights = gates, model.input_gates.bias, model.hidden_gates.weight, model.hidden_gates.bias
    gru.load_state_dict(dict(zip(names, weights)))
    memory = model.encode(source).detach()
    h, context, _ = model.unroll(x, memory, source)
    summary = final_states(memory, source != PAD)[:, None].expand_as(context)
    same(context, summary, "without attention the context is the summary")
    begin = model.initial_decoder_state(memory, source)["h"].detach()
    theirs, _ = gru(torch.cat([x, context], -1), begin[None])
    same(h, theirs, "the loop differs from nn.GRU")
    pairs = zip(
        gradients(h, [x, model.hidden_gates.weight, model.hidden_gates.bias]),
        gradients(theirs, [x, gru.weight_hh_l0, gru.bias_hh_l0]),
        strict=True,
    )
    for mine, other in pairs:
        same(mine, other, "a gradient through time differs from nn.GRU's")


@LOOKS
@given(seed=SEEDS)
def test_a_beam_keeps_to_its_sentence(attention, seed):
    model = rnn(attention, seed).eval()
    source = sentences(4, 5, seed)
    for decode in (
        lambda s: beam_search(model, s, 3, max_length=6),
        lambda s: greedy_decode(model, s, 6),
    ):
        alone = [decode(row[row != PAD][None])[0] for row in source]
        assert decode(source) == alone, "the beams of one sentence must look at that sentence"


def test_each_beam_asks_with_its_own_state():
    model = rnn().eval()
    source = sentences(3, 5, 8)
    with torch.no_grad():
        state = model.initial_state(source)
        h = torch.randn(6, 7).double()  # two beams a sentence, in a row
        context, gates, weights = model.attend({**state, "h": h})
        for row in range(6):
            one = {name: part[row // 2 : row // 2 + 1] for name, part in state.items()}
            for ours, alone in zip(
                (context, gates, weights), model.attend({**one, "h": h[row : row + 1]})
            ):
                same(ours[row], alone[0], "each beam must ask with its own state, its own sentence")


def test_the_embedding_is_tied_and_scaled():
    model = RNNSeq2Seq(RNNConfig(400, 32, 5, dropout=0.0))
    assert model.output_projection.weight is model.token_embedding.weight, "untied"
    assert abs(model.embed(torch.arange(400)).var().item() - 1) < 0.05, "√d_model is dropped"


# Pieces and words ---------------------------------------------------------------------------------

TEXTS = [
    "L'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
    "She didn't see the hairdresser, did she?",
    "Où est-ce ? Là-bas, dans la forêt.",
    "a",
]
PIECES = SubwordTokenizer.train(TEXTS[:2], 280)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("language", ["en", "fr"])
def test_every_piece_has_its_word(text, language):
    number, words = word_ids(PIECES, text, language), split_words(text, language)
    assert len(number) == len(PIECES.encode(text)) and number[-1] == len(
        words
    ), "EOS is a word of its own, the last"
    letters = [""] * (len(words) + 1)
    spans = PIECES.tokenizer.encode(text).offsets
    ends = {}
    for word, (start, end) in zip(number, spans):  # the bytes of one letter share its span
        letters[word] += text[max(start, ends.get(word, 0)) : end]
        ends[word] = end
    assert [x.strip() for x in letters[:-1]] == words, "a piece is counted to another word"


@given(SEEDS)
def test_rows_keep_their_sum_and_the_mean_is_over_pieces(seed):
    torch.manual_seed(seed)
    weights = torch.rand(2, 5, 4, dtype=torch.float64).softmax(-1)
    words = merge_subwords(weights, [0, 0, 1, 2, 2], [0, 1, 1, 2])
    same(
        words.sum(-1),
        torch.ones(2, 3).double(),
        "the rows of a word's pieces are averaged, its columns added up",
    )
    same(
        words[:, 0, 1], weights[:, :2, 1:3].sum(-1).mean(-1), "columns are added up, rows averaged"
    )
    same(merge_subwords(weights, range(5), range(4)), weights, "one piece a word changes nothing")
