"""Decoding part by part: what leaves a batch, what a beam keeps, when it stops, and how far it is
from a search of everything."""

import json
import math

import pytest
import torch
from helpers import sentences

from transformer_lit import decoding
from transformer_lit.decoding import (
    BestHypotheses,
    beam_search,
    collect_finished,
    expand_beams,
    greedy_decode,
    length_penalty,
    max_output_lengths,
    reorder_state,
    unfinished_beams,
)
from transformer_lit.masks import BOS, EOS, PAD, UNK
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.corpora.files import shipped
from transformer_lit.runtime.devices import evaluation_mode, without_cudnn_attention


@pytest.fixture(scope="module")
def model():
    "Random weights, kept from saying PAD and BOS; sources of four and of six tokens."
    torch.manual_seed(4)
    made = Transformer(
        TransformerConfig(9, d_model=32, n_heads=4, d_ff=64, n_encoder_layers=2, n_decoder_layers=2)
    ).eval()
    made.output_projection.register_forward_hook(
        lambda part, x, logits: logits.index_fill(-1, torch.tensor([PAD, BOS]), -torch.inf)
    )
    return made


@pytest.fixture(scope="module")
def source():
    torch.manual_seed(4)
    made = torch.randint(3, 9, (12, 6))
    made[::2, 4:] = PAD
    return made


# Rows that leave ----------------------------------------------------------------------------------


def test_a_state_follows_rows_and_its_parts_of_the_source_follow_sentences():
    a, rows = torch.arange(6).view(3, 2), torch.tensor([2, 0, 0])
    state = reorder_state({"a": a, "b": [(a + 10,)]}, rows, rows)
    assert state["a"].tolist() == [[4, 5], [0, 1], [0, 1]]
    assert state["b"][0][0].tolist() == [[14, 15], [10, 11], [10, 11]]
    assert isinstance(state["b"], list) and isinstance(state["b"][0], tuple)
    state = [{"memory_keys": a, "source_mask": a, "keys": torch.arange(6)}]
    (part,) = reorder_state(state, torch.tensor([5, 4]), torch.tensor([2]))
    assert part["memory_keys"].equal(a[2:]) and part["source_mask"].equal(a[2:]), (
        "a part of the source has a row per sentence"
    )
    assert part["keys"].tolist() == [5, 4], "what a hypothesis has cached has a row of its own"
    assert reorder_state(state, None, None)[0]["memory_keys"] is a, "rows that all stay are copied"
    assert reorder_state(state, None, torch.tensor([1]))[0]["memory_keys"].equal(a[1:2])


def test_limits_count_no_pads():
    two = torch.tensor([[5, 6, EOS], [5, EOS, PAD]])
    assert max_output_lengths(two).tolist() == [53, 52] and max_output_lengths(two, 7).tolist() == [
        7,
        7,
    ]


class Spy(torch.nn.Module):
    "Says in which mode, and with or without gradients, it was asked."


def test_decoding_evaluates_without_gradients_and_puts_the_mode_back():
    evaluated = evaluation_mode(
        lambda model, *args, **kwargs: (model.training, torch.is_grad_enabled(), args, kwargs)
    )
    spy = Spy()
    assert (
        evaluated(spy, 1, beam=2) == (False, False, (1,), {"beam": 2}) and spy.training
    ), "the training mode is not put back"
    assert (
        evaluated(spy.eval(), 1)[0] is False and not spy.training
    ), "a model that evaluates must not come back in training"
    assert evaluated.__name__ == "<lambda>", "the name of what is wrapped is lost"

    def fails(model):
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError):
        evaluation_mode(fails)(spy.train())
    assert spy.training, "after an error the mode is not put back"


def test_no_plan_is_made_for_a_length_that_comes_once(model, source, monkeypatch):
    "cuDNN's attention is left out while decoding, and taken again afterwards, also after an error."
    seen, allowed, take = [], torch.backends.cuda.cudnn_sdp_enabled, model.step
    monkeypatch.setattr(
        model, "step", lambda *args: seen.append(allowed()) or take(*args), raising=False
    )
    for search in greedy_decode, beam_search:
        search(model, source, max_length=2)
        seen.append(allowed())
    assert (
        seen == [False, False, True] * 2
    ), "decoding takes cuDNN's attention, or doesn't give it back"
    monkeypatch.setattr(model, "step", None, raising=False)
    with pytest.raises(TypeError):
        greedy_decode(model, source)
    assert allowed(), "after an error cuDNN is not given back"
    torch.backends.cuda.enable_cudnn_sdp(False)
    with without_cudnn_attention():
        pass
    assert not allowed(), "who had it off finds it on"
    torch.backends.cuda.enable_cudnn_sdp(True)


def greedy_uncached(model, row, max_length):
    "No cache, no batch: the whole sentence again for each token."
    ids, row = [BOS], row[row != PAD][None]
    while len(ids) <= max_length and ids[-1] != EOS:
        ids.append(model(row, torch.tensor([ids]))[0, -1].argmax().item())
    return [i for i in ids[1:] if i != EOS]


def test_a_source_may_be_anything_that_its_model_reads(small):
    "Numbers that aren't ids, no rows at all: a search asks a source for its length and its device."
    random, every, _ = small
    for search in greedy_decode, beam_search:
        assert search(random, every) == search(
            Halves(random), every / 2
        ), "the first tokens are ids, whatever a source is made of"
        assert search(random, every[:0], max_length=3) == []


class Halves:
    "Reads halves of what the other model reads."

    def __init__(self, model):
        self.step, self.initial_state = model.step, lambda source: model.initial_state(
            (2 * source).long()
        )


@pytest.mark.parametrize("max_length", [1, 5, 12])
def test_greedy_is_the_uncached_loop(model, source, max_length):
    outputs = greedy_decode(model, source, max_length)
    assert outputs == [greedy_uncached(model, row, max_length) for row in source]
    assert greedy_decode(model.train(), source, max_length) == outputs and model.training
    model.eval()


def test_a_sentence_may_have_its_own_length_and_fifty_tokens(model, source):
    endless = model.output_projection.register_forward_hook(
        lambda part, x, logits: logits.index_fill(-1, torch.tensor([EOS]), -torch.inf)
    )
    outputs = greedy_decode(model, source)
    endless.remove()
    assert [len(ids) for ids in outputs] == [54, 56] * 6, "the limit comes from the padded batch"


def test_with_a_cache_the_source_is_projected_once_a_layer(model, source):
    target, calls = sentences(12, 10, 0).clamp(3, 8), [0, 0]
    hooks = [
        layer.cross_attention.k_proj.register_forward_hook(
            lambda *_, i=i: calls.__setitem__(i, calls[i] + 1)
        )
        for i, layer in enumerate(model.decoder.layers)
    ]
    state = model.initial_state(source)
    for t in range(10):
        _, state = model.step(target[:, t], state)
    assert calls == [1, 1], "cross-attention projects the source again at each step"
    for t in range(1, 11):
        model(source, target[:, :t])
    assert calls == [11, 11]
    for hook in hooks:
        hook.remove()


# What a beam keeps --------------------------------------------------------------------------------


def by_hand():
    "Beginnings of 0.6 and 0.4: EOS and word 3 at 0.5 each, word 3 at 0.9 and EOS at 0.1."
    next_p = torch.tensor([[0, 0, 0.5, 0.5], [0, 0, 0.1, 0.9]])
    return expand_beams(
        next_p.log() + 3, torch.tensor([[0.6, 0.4]]).log()
    )  # a constant in the logits changes nothing


def test_expanding_by_hand():
    scores, beams, tokens = by_hand()
    torch.testing.assert_close(scores.exp(), torch.tensor([[0.36, 0.3, 0.3, 0.04]]))
    assert beams[0, 0] == 1 and beams[0, 3] == 1 and tokens[0, 0] == 3
    assert sorted(tokens[0, 1:3].tolist()) == [EOS, 3], "the two of 0.3 may come in either order"
    scores, beams, tokens = unfinished_beams(scores, beams, tokens)
    assert beams.tolist() == [[1, 0]] and tokens.tolist() == [[3, 3]]
    torch.testing.assert_close(scores.exp(), torch.tensor([[0.36, 0.3]]))


@pytest.mark.parametrize("seed", range(5))
def test_expanding_is_ranking_every_sum(seed):
    torch.manual_seed(seed)
    logits, scores = torch.randn(6, 50), -torch.rand(2, 3)  # B = 2, k = 3
    sums = (scores.view(6, 1) + logits.log_softmax(-1)).view(2, 150)
    top_scores, beams, tokens = expand_beams(logits, scores)
    expected, index = sums.topk(6)
    torch.testing.assert_close(top_scores, expected)
    assert (beams * 50 + tokens).equal(index)


def finishing():
    "Two sentences with a beam of two, after two steps: sentences, sequences, scores, tokens."
    return (
        torch.tensor([0, 1]),
        torch.tensor([[[1, 5], [1, 6]], [[1, 7], [1, 8]]]),
        torch.tensor([[-1.0, -2, -3, -4], [-1.5, -2, -3, -4]]),
        torch.tensor([[EOS, 5, 5, 5], [EOS, EOS, 5, 5]]),
    )


def hypotheses(best):
    return [
        (score, ids[: ids.index(EOS)])
        for score, ids in zip(best.scores.tolist(), best.ids.tolist())
    ]


def test_the_best_finished_one_is_kept():
    sentences, sequences, scores, tokens = finishing()
    best = BestHypotheses(torch.tensor([1, 1]))
    best.scores[1], best.ids[1, 0] = -1.0, 8
    collect_finished(best, sentences, sequences, (scores, tokens - 1, tokens), 0.0)
    assert hypotheses(best) == [(-1.0, [6]), (-1.0, [8])] and best.n_finished.tolist() == [1, 2]


def test_a_score_is_divided_once():
    sentences, sequences, scores, tokens = finishing()
    best = BestHypotheses(torch.tensor([1, 1]))
    collect_finished(best, sentences, sequences, (scores, tokens - 1, tokens), 1.0)
    torch.testing.assert_close(best.scores, torch.tensor([-1.0, -1.5]) / (7 / 6))


def test_an_end_behind_the_k_best_does_not_count():
    sentences, sequences, scores, tokens = finishing()
    best = BestHypotheses(torch.tensor([1, 1]))
    collect_finished(best, sentences, sequences, (scores, tokens - 2, tokens.flip(1)), 0.6)
    assert hypotheses(best) == [(-math.inf, [])] * 2 and best.n_finished.tolist() == [0, 0]


def test_an_end_that_cannot_be_does_not_count():
    sentences, sequences, scores, tokens = finishing()
    best = BestHypotheses(torch.tensor([1, 1]))
    scores[1, 1] = -math.inf  # of a copy of the start
    collect_finished(best, sentences, sequences, (scores, tokens - 1, tokens), 0.6)
    assert best.n_finished.tolist() == [1, 1]


class Chain:
    "After t words the next is EOS with probability ends[t], word 4 else; step counts its calls."

    def __init__(self, *ends):
        self.ends, self.steps = ends, 0

    def initial_state(self, source):
        return {"t": torch.zeros_like(source[:, 0])}

    def step(self, tokens, state):
        self.steps += 1
        p = torch.tensor(self.ends)[state["t"].clamp(max=len(self.ends) - 1)]
        logits = torch.full((len(tokens), 6), -30.0)
        logits[:, EOS], logits[:, 4], logits[:, 5] = p.log(), (0.9 - 0.9 * p).log(), (
            0.1 - 0.1 * p
        ).log()
        return logits, {"t": state["t"] + 1}


@pytest.mark.parametrize(
    "ends, k, early_stopping, steps",
    [
        ((0.9, 0.0), 1, False, 1),  # no open one can win any more
        ((0.2, 0.5, 0.0), 1, True, 1 + 1),  # k have finished
        ((0.0, 0.0), 2, True, 9),  # the limit
    ],
)
def test_reasons_to_stop(ends, k, early_stopping, steps):
    model = Chain(*ends)
    beam_search(model, torch.zeros(1, 1).long(), k, 0.0, 9, early_stopping)
    assert model.steps == steps, (
        "the search ends while an open one can win, or goes on when none can"
    )


def test_one_finished_hypothesis_of_several_is_no_reason_to_stop():
    "EOS at once with 0.3; or 4, and then EOS for sure, with 0.63."
    assert beam_search(Chain(0.3, 1.0), torch.zeros(1, 1).long(), 2, 0.0, 9) == [[4]], (
        "the search ends while an open one can win"
    )


def test_at_the_limit_the_best_open_one_is_taken_if_nothing_finished():
    source = torch.zeros(1, 1).long()
    assert beam_search(Chain(0.0), source, 2, 0.6, 3) == [[4, 4, 4]]
    assert beam_search(Chain(1e-5, 0.0), source, 2, 0.0, 3) == [[4, 4, 4]]
    assert beam_search(Chain(0.4, 0.0), source, 2, 0.0, 9, early_stopping=False) == [[]], (
        "the limit must not replace what has finished"
    )


def test_the_defaults_are_the_papers():
    assert beam_search.__wrapped__.__defaults__ == (4, 0.6, None, True)
    assert (
        length_penalty(1) == 1
        and length_penalty(7, 1.0) == 2
        and length_penalty(9, 0) == 1
        and math.isclose(length_penalty(7), 2**0.6)
    )


# Against a search through everything --------------------------------------------------------------


class RandomModel:
    "Random logits for each source and each two tokens before."

    def __init__(self, n_sources, V=9):
        generator = torch.Generator().manual_seed(0)
        self.logits = 2 * torch.randn(n_sources, V, V, V, generator=generator)
        self.logits[..., :EOS] = -torch.inf  # no PAD, no BOS

    def initial_state(self, source):
        return {"source": source[:, 0], "previous": 0 * source[:, 0]}

    def step(self, tokens, state):
        logits = self.logits[state["source"], state["previous"], tokens]
        return logits, {**state, "previous": tokens}


def exhaustive(model, source, alpha, max_length=4):
    "The best of all sentences of at most `max_length` tokens."
    words = torch.arange(UNK, 9)
    state, ids = model.initial_state(source), torch.full((1, 1), BOS)
    scores, best, tried = torch.zeros(1), (-math.inf, []), 0
    for length in range(1, max_length + 1):
        logits, state = model.step(ids[:, -1], state)
        total, tried = scores[:, None] + logits.log_softmax(-1), tried + len(ids)
        top, at = (total[:, EOS] / length_penalty(length, alpha)).max(0)
        best = max(best, (top.item(), ids[at, 1:].tolist()))
        parent = torch.arange(len(ids)).repeat_interleave(len(words))
        scores = total[:, words].flatten()
        ids = torch.cat([ids[parent], words.repeat(len(ids))[:, None]], 1)
        state = {name: part[parent] for name, part in state.items()}
    assert tried == 259, "1 + 6 + 36 + 216 sentences"
    return best[1]


@pytest.fixture(scope="module")
def small():
    "The model, 60 sources, and for three penalties the best sentence of each."
    random, every = RandomModel(60), torch.arange(60)[:, None]
    return (
        random,
        every,
        {
            alpha: [exhaustive(random, row[None], alpha) for row in every]
            for alpha in (0.0, 0.6, 2.0)
        },
    )


def accuracy(small, k, alpha):
    random, every, best = small
    return sum(map(list.__eq__, beam_search(random, every, k, alpha, 4), best[alpha])) / len(every)


def test_a_beam_that_drops_nothing_finds_every_best_sentence(small):
    shares = [accuracy(small, k, 0.0) for k in (1, 4, 216)]
    assert shares[2] == 1 and shares[0] < shares[1] < 1
    assert accuracy(small, 216, 0.6) > 0.95


def old_order(state, rows, sentences):
    "The state stays where it was."
    if len(rows) <= len(state["source"]):  # else: copies for the beams
        rows = torch.arange(len(rows))
    return {name: part[rows] for name, part in state.items()}


FAULTS = {
    "the state is not reordered": {"reorder_state": old_order},
    "past scores are dropped": {
        "expand_beams": lambda logits, scores: expand_beams(
            logits, scores.clamp(min=-1e4).mul(1e-9).where(scores > -torch.inf, scores)
        )
    },
    "all k copies of the start count": {
        "expand_beams": lambda logits, scores: expand_beams(
            logits, scores.masked_fill(scores.isinf(), 0)
        )
    },
    "finished ones go on": {
        "unfinished_beams": lambda *parts: [part[:, : part.size(1) // 2] for part in parts]
    },
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_a_beam_lose_sentences(small, name, monkeypatch):
    right = [accuracy(small, 4, alpha) for alpha in (0.0, 2.0)]
    for part, wrong in FAULTS[name].items():
        monkeypatch.setattr(decoding, part, wrong)
    lost = [a - accuracy(small, 4, alpha) for a, alpha in zip(right, (0.0, 2.0))]
    assert max(lost) > 0.02, f"{name}, and as many sentences are found"
    if name == "finished ones go on":
        assert lost[0] == 0, (
            "without a penalty this fault is harmless: a finished hypothesis pushes out worse ones"
            " only"
        )


# What the page says of the recorded run -----------------------------------------------------------


def test_a_patient_search_is_no_better_in_the_recorded_run():
    record = json.loads(shipped("results/bench/stopping.json").read_text("utf-8"))
    for early, patient in zip(record["rows"][::2], record["rows"][1::2]):
        assert not early["patient"] and patient["patient"] and early["alpha"] == patient["alpha"]
        assert (
            patient["difference"]["low"] < 0 < patient["difference"]["high"]
        ), "the page says that BLEU can't tell the rules apart"
