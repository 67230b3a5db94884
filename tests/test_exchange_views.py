"""Chapter 25's figures and sentences are those of the records and of what the page measures."""

import re
import types

import torch

from transformer_lit.since_2017 import DESIGNS
from litbook import fair
from litbook.drawings import exchange_views as views

GAPS = {
    "better": {"value": -0.3, "low": -0.4, "high": -0.2, "decided": True},
    "unclear": {"value": 0.1, "low": -0.1, "high": 0.2, "decided": False},
    "worse": {"value": 0.2, "low": 0.1, "high": 0.3, "decided": True},
}


def shown(picture):
    return re.findall(r"<t[dh] [^>]*>([^<]*)<", picture._repr_html_())


def test_every_ranked_exchange_is_measured_against_2017_and_sorted():
    gaps = views.against_2017([*DESIGNS, "transformer"])
    rows = {row["design"]: row for row in fair.summary_of()["comparison"]}
    assert set(gaps) == {
        views.TITLES.get(name, name)
        for name in (*DESIGNS, "transformer")
        if name != "2017" and rows.get(name, {}).get("rank")
    }
    assert gaps["pre-norm"] == rows["transformer"]["more_than"]["2017"] and "rnn" not in gaps
    values = [gap["value"] for gap in gaps.values()]
    assert values == sorted(values)
    drawn = views.gap_dots(gaps)
    assert all(
        f"{name} {fair.gap_said(gap, 2)}".replace(" -", " −").replace("[-", "[−") in drawn.alt
        for name, gap in gaps.items()
    )


def test_what_is_undecided_is_grey_and_said():
    assert views.unclear(GAPS) == ["unclear"]
    dots = views.gap_dots(GAPS)
    assert (
        "unclear +0.10 [−0.10, +0.20]" in dots.alt
        and dots.caption
        == "Furthest from 2017 is better, -0.30. Decided: 1 lower, 1 higher. Undecided: 1."
    )
    assert dots.html.count(">better to the left<") == 2, "once for a desk, once for a phone"
    cells = shown(
        views.today({"rope": GAPS["worse"], "swiglu": GAPS["unclear"], "pre-norm": GAPS["better"]})
    )
    assert (
        "+0.10 [−0.10, +0.20], undecided" in cells
        and "−0.30 [−0.40, −0.20]" in cells
        and "+0.20 [+0.10, +0.30]" in cells
    )


def test_what_the_page_measures_is_drawn_with_its_numbers():
    shares = {
        "RoPE": torch.ones(3, 37),
        "learned": torch.cat([torch.ones(3, 9), torch.zeros(3, 28)], 1),
    }
    said = views.right_by_place(shares)
    assert (
        said.caption
        == "Up to place 12 all kinds of positions get more than 99% right; from place 19 on RoPE"
        " 100%, learned 0%."
        and "3 seeds" in said.alt
    )
    slopes = {
        "post": torch.full((3, 2, 2), 0.5),
        "pre": torch.tensor([[[1.0, 2.0], [3.0, 4.0]]] * 3),
    }
    assert "from 2.00 to 4.00 under pre-norm" in views.start_gradients([6, 48], slopes).caption
    assert (
        "2.0 in the gradient, 1.0 in Muon's step" in views.evened(
            torch.tensor([2.0, 1, 1]), torch.ones(3)
        ).caption
    )
    assert (
        views.activations().caption
        == "A feature of −1 becomes 0.00 (ReLU), −0.16 (GELU), −0.27 (swish)."
    )


def test_bytes_weights_and_costs_of_an_exchange():
    cells = shown(views.bytes_by_kind({"MHA, 8": (10, 20), "GQA, 2": (3, 4)}))
    assert (
        cells[cells.index("MHA, 8") + 1 :][:4] == ["10", "20", "30", "60"]
        and "19" not in cells
        and "16" in cells
    )
    assert repr(views.weights_said(3_000_000, (1_000, 2_000))).startswith(
        "The weights of the decoder's layers are 6 MB, as much as 2000"
    )
    model = types.SimpleNamespace(config=types.SimpleNamespace(d_ff=171))
    cells = shown(
        views.costs(
            {"swiglu": model},
            {"swiglu": 0.99},
            lambda name, which: f"{name} {which}",
            {"swiglu": 64},
        )
    )
    assert cells[-6:] == ["swiglu", "171", "−1.0%", "swiglu 0", "swiglu 1", "64"]
    assert "attentions" in repr(views.exchanged_boxes())
