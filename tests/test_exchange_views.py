"""Chapter 25's figures and sentences are those of the records and of what the page measures."""
import math
import re
import types

import pytest
import torch

from transformer_lit.since_2017 import DESIGNS
from transformer_lit.support import comparison, exchange_views as views

NAMES, KINDS = list(DESIGNS), ["sinusoids", "learned", "RoPE"]
GAPS = {"better": (-0.3, -0.4, -0.2), "unclear": (0.1, -0.1, 0.2), "worse": (0.2, 0.1, 0.3)}


def shown(picture):
    return re.findall(r"<t[dh] [^>]*>([^<]*)<", picture._repr_html_())


def test_every_exchange_is_measured_against_2017_and_sorted():
    gaps = views.against_2017(NAMES, "valid_loss")
    assert set(gaps) == {name for name in NAMES if name != "2017" and not name.startswith("pre-norm-")}
    assert gaps["rope"] == comparison.away("rope", "2017", "valid_loss") and list(gaps.values()) == sorted(gaps.values())
    assert "all-together" in repr(views.gap_dots(gaps, "validation loss", "left"))
    marked = views.gap_dots(gaps, "validation loss", "left", mark=views.trigram_gap())
    beyond = [name for name, (gap, *_) in gaps.items() if gap < views.trigram_gap()[0]]
    assert beyond == ["all-together"] and marked.caption.endswith("Beyond the dotted line of the trigram: all-together.")
    assert set(beyond) == set(comparison.below_trigram(gaps, "pocket")) and marked.html.count(">trigram<") == 2


def test_verdicts_and_the_word_for_the_spread():
    assert views.unclear(GAPS) == ["unclear"]
    said = repr(views.verdicts_said(GAPS))
    assert "Better with every seed: better." in said and "Worse with every seed: worse." in said and "grey: unclear." in said
    dots = views.gap_dots(GAPS, "loss", "left")
    assert "unclear +0.10 (-0.10 to +0.20)" in repr(dots) and dots.caption == (
        "Furthest from 2017 is better, -0.30. With every seed 1 exchanges lie lower and 1 higher; for 1 the seeds disagree.")
    assert dots.html.count(">better to the left<") == 2 == dots.html.count(">loss minus that of 2017<"), "once for a desk, once for a phone"
    cells = shown(views.today({"rope": GAPS["worse"], "swiglu": GAPS["unclear"], "muon": GAPS["better"]}, {"rope": []}))
    assert cells.count("seeds disagree") == 1 and "+0.100, in spread" in cells and "−0.300" in cells


def test_seeds_that_lie_apart_are_named():
    found = views.far_apart(NAMES)
    assert all(max(values) - min(values) > 0.5 for values in found.values()) and "rope" in found
    assert all(name in repr(views.far_apart_said(NAMES)) for name in found)
    assert "on pocket" in repr(views.together_said()) and "on tatoeba" in repr(views.together_said())


def test_searches_are_drawn_without_what_broke_down():
    drawn = comparison.drawn_searches({"Adam": "2017"}, worst=math.inf)
    assert dict(zip(*drawn["Adam"])) == comparison.search_of("2017")
    least = min(drawn["Adam"][1])
    assert not comparison.drawn_searches({"Adam": "2017"}, worst=least)["Adam"][0]
    assert comparison.lowest_said({"x": ([0.1, 0.2], [3.0, 2.0])}) == "x 2.00 at 0.2"
    assert "RNN" in repr(comparison.search_curves({"RNN": "rnn"}))
    crossing = {"a": ([0.1, 0.2], [3.0, 1.0]), "b": ([0.05, 0.1, 0.2], [9.0, 2.0, 1.5]), "c": ([0.1], [4.0])}
    assert comparison.places_changed(crossing) == (0.1, 1, 3)
    found = views.optimiser_searches()
    assert "pre-norm, lowest: Adam" in repr(found) and "nats" in found.caption and "under pre-norm" in found.caption


def test_a_run_overtakes_where_it_is_first_below_the_other_s_end():
    fast = {"tokens": 100, "curve": [[25, 0, 3.0], [50, 0, 1.9], [100, 0, 1.0]]}
    slow = {"curve": [[100, 0, 2.0]]}
    assert views.overtaken(fast, slow) == 0.5 and views.overtaken(fast, {"curve": [[9, 0, 0.5]]}) == math.inf
    assert [cell for cell in shown(views.optimiser_table()) if "pre-norm" in cell] == ["Muon, pre-norm", "Muon, no decay, pre-norm"]


def test_what_the_page_measures_is_drawn_with_its_numbers():
    shares = {"RoPE": torch.ones(3, 37), "learned": torch.cat([torch.ones(3, 9), torch.zeros(3, 28)], 1)}
    said = views.right_by_place(shares)
    assert said.caption == "Up to place 12 all kinds answer more than 99% right; from place 19 on RoPE 100%, learned 0%." and "3 seeds" in said.alt
    slopes = {"post": torch.full((3, 2, 2), 0.5), "pre": torch.tensor([[[1.0, 2.0], [3.0, 4.0]]] * 3)}
    assert "from 2.00 to 4.00 under pre-norm" in views.start_gradients([6, 48], slopes).caption
    assert "2.0 in the gradient, 1.0 in Muon's step" in views.evened(torch.tensor([2.0, 1, 1]), torch.ones(3)).caption
    assert views.activations().caption == "A feature of −1 becomes 0.00 (ReLU), −0.16 (GELU), −0.27 (swish)."


def test_bytes_weights_and_costs_of_an_exchange():
    cells = shown(views.bytes_by_kind({"MHA, 8": (10, 20), "GQA, 2": (3, 4)}))
    assert cells[cells.index("MHA, 8") + 1:][:4] == ["10", "20", "30", "60"] and "19" not in cells and "16" in cells
    assert repr(views.weights_said(3_000_000, (1_000, 2_000))).startswith("The weights of the decoder's layers are 6 MB, as much as 2000")
    model = types.SimpleNamespace(config=types.SimpleNamespace(d_ff=171))
    cells = shown(views.costs({"swiglu": model}, {"swiglu": 0.99}, lambda name, which: f"{name} {which}", {"swiglu": 64}))
    assert cells[-6:] == ["swiglu", "171", "−1.0%", "swiglu 0", "swiglu 1", "64"]
    assert "attentions" in repr(views.exchanged_boxes())


@pytest.mark.parametrize("kind", KINDS)
def test_lengths(kind):
    runs = views.of_length(kind, "short")
    assert len(runs) > 1 and all(run["kind"] == kind for run in runs)
    cells = shown(views.length_table(KINDS))
    assert f"{sum(run['late'] for run in runs) / len(runs):.2f}" in cells
    dearer = sum(views.dearer(KINDS)[kind]) / len(views.dearer(KINDS)[kind])
    assert f"- {kind}: {dearer:.2f}" in repr(views.length_said(KINDS)) and f"{dearer:.2f} nats with {kind}" in views.length_curves(KINDS).caption


def test_the_table_of_runs_shows_four_columns_and_folds_the_others():
    page = comparison.table_of(["2017", "pre-norm"])._repr_html_()
    before, _, after = page.partition("<details")
    heads = [re.findall(r'<th [^>]*>([^<]*)<', part) for part in (before, after)]
    assert heads[0] == comparison.FIRST and heads[1][0] == "" and heads[1][-1] == "made by" and len(heads[1]) == 9
    assert "comparison_runs pre-norm" in after.replace("<wbr>", "") and "comparison_runs" not in before.replace("<wbr>", "")
