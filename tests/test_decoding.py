"""Decoding part by part: what leaves a batch, what a beam keeps, when it stops, and how far it is
from a search of everything."""


import pytest
import torch

from transformer_lit.decoding import (
    Candidates,
    beam_search,
    expand_beams,
    greedy_decode,
    reorder_state,
    unfinished_beams,
)
from transformer_lit.masks import BOS, EOS, PAD
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.runtime.devices import evaluation_mode


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
    assert state["b"][0][0].equal(state["a"] + 10) and isinstance(state["b"][0], tuple)
    parts = {"memory_keys": a, "source_mask": a, "keys": torch.arange(6)}
    part = reorder_state(parts, torch.tensor([5, 4]), torch.tensor([2]))
    for name in ("memory_keys", "source_mask"):
        assert part[name].equal(a[2:])  # a part of the source has a row per sentence
    assert part["keys"].tolist() == [5, 4]  # what a hypothesis has cached has a row of its own


def test_decoding_evaluates_and_puts_the_mode_back():
    model = torch.nn.Linear(1, 1)
    modes = evaluation_mode(lambda model: (model.training, torch.is_grad_enabled()))
    assert modes(model) == (False, False) and model.training  # the training mode is not put back
    with pytest.raises(ZeroDivisionError):
        evaluation_mode(lambda model: 1 / 0)(model)
    assert model.training  # after an error the mode is not put back


def test_no_plan_is_made_for_a_length_that_comes_once(model, source, monkeypatch):
    "cuDNN's attention is left out while decoding, and taken again afterwards, also after an error."
    seen, allowed, take = [], torch.backends.cuda.cudnn_sdp_enabled, model.step
    monkeypatch.setattr(
        model, "step", lambda *args: seen.append(allowed()) or take(*args), raising=False
    )
    for search in greedy_decode, beam_search:
        search(model, source, max_length=2)
        seen.append(allowed())
    off = [False, False, True] * 2
    assert seen == off, "decoding takes cuDNN's attention, or doesn't give it back"
    monkeypatch.setattr(model, "step", None, raising=False)
    with pytest.raises(TypeError):
        greedy_decode(model, source)
    assert allowed()  # after an error cuDNN is not given back


# What a beam keeps --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_expanding_is_ranking_every_sum(seed):
    torch.manual_seed(seed)
    logits, scores = torch.randn(6, 50), -torch.rand(2, 3)  # B = 2, k = 3
    sums = (scores.view(6, 1) + logits.log_softmax(-1)).view(2, 150)
    top_scores, beams, tokens = expand_beams(logits, scores)
    expected, index = sums.topk(6)
    assert torch.allclose(top_scores, expected), "past scores are dropped, or counted twice"
    assert (beams * 50 + tokens).equal(index)


def test_what_goes_on_is_unfinished_and_in_order():
    parts = [[-1.0, -2, -3, -4]], [[0, 1, 1, 0]], [[EOS, 3, EOS, 4]]
    scores, beams, tokens = unfinished_beams(Candidates(*map(torch.tensor, parts)))
    assert tokens.tolist() == [[3, 4]], "a finished hypothesis goes on"
    assert beams.tolist() == [[1, 0]] and scores.tolist() == [[-2.0, -4.0]]


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
