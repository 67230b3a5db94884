"""The records of part IV's rule, read: by hand on made-up records, and what the pages say of the
real ones."""

import json
import math
import re
from pathlib import Path
from statistics import mean

import numpy as np
import pytest

from transformer_lit.equal_cost import gap_of
from litbook import fair, figures
from litbook.drawings import pictures

ROOT = Path(__file__).parents[1]


def a_run(seed, loss, budget=2000, peak=0.1, warmup=0.3, **more):
    return {
        "seed": seed,
        "budget": budget,
        "tokens": budget + 5,
        "peak": peak,
        "warmup": warmup,
        "test_loss": loss,
        "valid_loss": loss - 0.1,
        "bleu": 30.0 + seed,
        "chrf": {"value": 50.0 + seed},
        "lines": 9,
        "signature": "a|b",
        "parameters": 77,
        "flops": 3e9,
        "cpu_seconds": 4,
        "curve": [[1000, 1.0, 3.0, 3.5 + seed], [2005, 2.0, 2.0, 4.0 + seed]],
        "by_length": [
            {"group": 1, "sentences": 30, "BLEU": 10.0 * seed},
            {"group": 5, "sentences": 19, "BLEU": 1.0},
        ],
        **more,
    }


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """Two designs, one of them with runs of several budgets and settings, and a third whose search
    is open."""
    folder = tmp_path / "results/fair/tatoeba"
    folder.mkdir(parents=True)
    scale = {"tokens": 2000, "seeds": [1, 2, 3]}
    trials = [
        {"peak": 0.1, "warmup": 0.1, "loss": 3.0},
        {"peak": 0.2, "warmup": 0.1, "loss": None},
        {"peak": 0.1, "warmup": 0.3, "loss": 2.5},
    ]
    search = {
        "tokens": 2000,
        "trials": trials,
        "peak": 0.1,
        "warmup": 0.3,
        "short_peak": 0.1,
        "peaks": [{"peak": 0.1, "loss": 2.5}, {"peak": 0.2, "loss": 3.0}],
    }
    short = {
        "short_peak": 0.05,
        "peaks": [{"peak": 0.1, "loss": 1.75}, {"peak": 0.05, "loss": None}],
    }
    runs = [a_run(seed, loss) for seed, loss in ((2, 2.0), (1, 1.0), (3, 3.0))]
    runs += [
        a_run(1, 9.0, peak=0.2),
        a_run(1, 0.5, budget=4000),
        *(a_run(seed, 0.25, budget=4000, peak=0.05) for seed in (1, 2, 3)),
        a_run(1, 5.0, budget=500),
        {"seed": 2, "budget": 500, "peak": 0.1, "warmup": 0.3, "failed": "nan"},
    ]
    other = [{"peak": 0.1, "warmup": 0.1, "loss": 2.0}, {"peak": 0.1, "warmup": 0.3, "loss": 2.8}]
    gap = {"value": -0.5, "low": -0.75, "high": 0.125, "half": 0.2, "decided": False}
    summary = {
        "scale": scale,
        "ngrams": {
            "2000": {"test": {"unigram": 6.0, "trigram": 3.0}, "valid": {"trigram": 2.75}},
            "500": {"test": {"unigram": 6.0, "trigram": 3.5}},
        },
        "comparison": [
            {
                "design": "transformer",
                "rank": 1,
                "behind": [],
                "parameters": 77,
                "tokens": 2005,
                "flops": 3e9,
                "cpu_seconds": 4.4,
                "bleu": 32.0,
            },
            {
                "design": "rnn",
                "rank": 2,
                "behind": ["transformer"],
                "parameters": 78,
                "tokens": 2005,
                "flops": 2e9,
                "cpu_seconds": 3,
                "bleu": 32.04,
                "more_than": {"transformer": gap},
            },
            {"design": "odd", "rank": None, "why": "its search is open"},
        ],
        "currencies": [
            {
                "design": "rnn",
                "at_equal_tokens": 2.0,
                "at_equal_operations": {"loss": 1.5, "beyond": True},
                "at_equal_seconds": {"loss": 1.25, "beyond": False},
            },
            {"design": "transformer", "at_equal_tokens": 1.0},
        ],
        "crossing": [
            {
                "tokens": 500,
                "rnn-attention": 1.0,
                "transformer": 2.0,
                "more": gap,
                "bleu": {"rnn-attention": 9.04, "transformer": 8.0},
            }
        ],
        "without_order": {
            "tokens": 500,
            "gap_with": gap,
            "gap_without": {**gap, "value": 0.25},
            "designs": [
                {"design": "rnn", "with": 1.0, "without": 1.5, "more": gap, "bleu": [9.0, 7.0]}
            ],
        },
    }
    for name, found in {
        "transformer": (search, runs),
        "rnn": ({**search, **short, "trials": other}, runs[:3]),
    }.items():
        (folder / f"{name}.json").write_text(
            json.dumps({"scale": scale, "search": found[0], "runs": found[1]})
        )
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "families.json").write_text("{}")
    more = {"value": 1.0, "low": -0.25, "high": 2.25, "half": 0.5, "decided": False}
    (folder / "bleu.json").write_text(
        json.dumps(
            {
                "gaps": [
                    {"design": "rnn", "against": "transformer", "tokens": 2000, **more},
                    {
                        "design": "rnn-attention",
                        "against": "transformer",
                        "tokens": 500,
                        "value": -3.0,
                        "low": -4.0,
                        "high": -2.0,
                        "half": 0.5,
                        "decided": True,
                    },
                ]
            }
        )
    )
    monkeypatch.setattr(fair, "shipped", lambda name: tmp_path / name)
    return folder


def test_a_search_is_read(made_up):
    assert fair.designs_of() == ["rnn", "transformer"]
    trials = fair.trials_of("transformer")
    assert (
        trials == {(0.1, 0.1): 3.0, (0.1, 0.3): 2.5}
        and fair.best_of(trials) == (0.1, 0.3)
        and fair.setting_said((0.006, 0.3)) == "0.006, 30%"
    )
    picture = fair.search_maps({"ours": "transformer", "theirs": "rnn"})
    assert (
        "<details" in picture.html
        and "run --ground tatoeba --design rnn<" in picture.html.split("<details")[1]
    ), "and how its searches are made"
    assert (
        picture.caption.endswith(
            "ours 2.50 at 0.1, 30%; theirs 2.00 at 0.1, 10%. N-grams that see the French alone:"
            " trigram 2.75."
        )
        and picture.html.count("<svg") >= 2
    )
    with pytest.raises(
        FileNotFoundError, match="type python bench/fair.py run --ground tatoeba --design nobody"
    ):
        fair.record_of("nobody")


def test_the_second_part_is_read(made_up):
    assert fair.peak_rows(["rnn"]) == [
        {
            "": "rnn",
            "peak": "0.05",
            "a quarter of the budget": "",
            "the full budget": "failed",
            "chosen by": "the quarter",
        },
        {
            "": "",
            "peak": "0.1",
            "a quarter of the budget": "2.80",
            "the full budget": "1.75",
            "chosen by": "the full",
        },
    ]


def test_the_runs_that_count(made_up):
    assert [run["test_loss"] for run in fair.results_of("transformer")] == [1.0, 2.0, 3.0]
    assert fair.lines_of()["trigram"] == 3.0
    path = made_up / "rnn.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"search": None}))
    assert fair.results_of("rnn") == [], "its search isn't over"


def test_the_table_of_a_comparison(made_up):
    html = fair.standing()._repr_html_()
    for part in (
        "unigram of French alone",
        "2.000 (1.000 to 3.000)",
        "−0.500 [−0.750, +0.125]",
        "its search is open",
        "3.000",
        ">32.0<",
        "32.0 (31.0 to 33.0)",
        "--design odd",
        "0.1",
        "30%",
        "a b",
    ):
        assert part.replace("−", "-") in html.replace("−", "-"), part
    assert "odd" not in fair.standing(["rnn", "transformer"])._repr_html_()
    ranks = [
        re.findall(
            r"<t[hd][^>]*>(\d)</t[hd]>", fair.standing(names)._repr_html_().split("<details")[0]
        )
        for names in (None, ["rnn"])
    ]
    assert ranks == [["1", "2"], ["1"]], "ranks are among those that are shown"


def test_the_commands_of_a_table(made_up):
    shown = fair.with_commands(
        figures.table([{"a": 1}], caption="Ones"),
        "rnn",
        parts=["seconds of a step"],
        ground="pocket",
    )
    table, fold = shown.html.split("<details")
    assert "Ones" in table and "made by" not in table
    for command in (
        "run --ground pocket --design rnn<",
        "run --part &quot;seconds of a step&quot;<",
        "--packed runs/none --home runs/fair",
    ):
        assert command in fold, command


def test_pages_name_parts_of_the_plan():
    "A command under a table names a part that `bench/fair.py` has."
    plan = (ROOT / "bench/fair.py").read_text("utf-8")
    named = set()
    for path in (ROOT / "book").glob("*.ipynb"):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "code" and "with_commands" in source:
                found = re.findall(r"parts=(?:\[|\()(.*?)(?:\]|\))", source, re.S)
                named |= {
                    title
                    for one in found
                    for title in re.findall('"(.*?)"', one)
                    if "{" not in title
                }
                named |= {
                    f"RNN and Transformer to {many}M" for many in (1, 4, 6) if "{many}M" in source
                }
    assert len(named) >= 8 and all(f'"{title}": ' in plan for title in named), [
        title for title in named if f'"{title}": ' not in plan
    ]


def test_differences_in_bleu_are_those_of_the_records():
    """Their middle is the difference of the means that the tables show; which ones are decided, the
    intervals say."""
    for ground in "tatoeba", "pocket":
        gaps = json.loads(fair.shipped(f"results/fair/{ground}/bleu.json").read_text("utf-8"))[
            "gaps"
        ]
        summary = fair.summary_of(ground)
        wanted = {
            (row["design"], other, summary["scale"]["tokens"])
            for row in summary["comparison"]
            for other in row.get("more_than", ())
        }
        wanted |= {
            ("rnn-attention", "transformer", row["tokens"]) for row in summary.get("crossing", ())
        }
        wanted |= {
            (row["design"], row["against"], row["tokens"])
            for row in [*summary["muon"], *summary["streams"]]
        }
        assert {(gap["design"], gap["against"], gap["tokens"]) for gap in gaps} == wanted and len(
            gaps
        ) > 8, "every pair that a table shows"
        for gap in gaps:
            full, tokens = (
                fair.summary_of(ground)["scale"]["tokens"],
                gap["tokens"],
            )  # with other costs it is set against the full run
            theirs = (
                tokens
                if {gap["design"], gap["against"]} == {"rnn-attention", "transformer"}
                else full
            )
            means = [
                mean(run["bleu"] for run in fair.by_budget(name, ground)[budget])
                for name, budget in ((gap["design"], tokens), (gap["against"], theirs))
            ]
            assert abs(means[0] - means[1] - gap["value"]) < 0.01, gap
            assert gap["low"] < gap["value"] < gap["high"]
            assert gap["decided"] == (
                gap["low"] * gap["high"] > 0 and abs(gap["value"]) > gap["half"]
            )


def test_budgets_bands_and_lengths(made_up):
    losses = {
        budget: [run["test_loss"] for run in runs]
        for budget, runs in fair.by_budget("transformer").items()
    }
    assert losses == {
        500: [5.0],
        2000: [1.0, 2.0, 3.0],
        4000: [0.25, 0.25, 0.25],
    }, "the choice at the full budget, the most seeds elsewhere"
    assert fair.trigram_by_budget() == {500: 3.5, 2000: 3.0}
    assert fair.losses_along("rnn") == ([0.001, 0.002005], [3.0, 2.0], [3.0, 2.0], [3.0, 2.0])
    assert [round(at, 9) for at in fair.losses_along("rnn", operations=True)[0]] == [
        round(3e-3 * n / 2005, 9) for n in (1000, 2005)
    ]
    assert fair.worth_along("rnn") == ([0.001, 0.002005], [2.5, 4.0], [1.5, 3.0], [3.5, 5.0])
    assert fair.by_length("transformer") == ([1], [20.0], [10.0], [30.0])
    assert fair.by_length("transformer", least=19)[0] == [1, 5]


def test_of_two_settings_with_as_many_seeds_the_better_one_counts(made_up):
    path = made_up / "rnn.json"
    record = json.loads(path.read_text())
    record["runs"] += [a_run(1, 7.0, budget=500, peak=0.2), a_run(1, 6.0, budget=500, peak=0.4)]
    path.write_text(json.dumps(record))
    assert [run["peak"] for run in fair.by_budget("rnn")[500]] == [0.4]


def test_currencies_crossing_and_order_as_rows(made_up):
    assert fair.currency_rows(["transformer"]) == [{"": "transformer", "tokens": "1.000"}]
    assert fair.currency_rows() == [
        {"": "rnn", "tokens": "2.000", "operations": "1.500 *", "seconds": "1.250"},
        {"": "transformer", "tokens": "1.000"},
    ]
    assert fair.gap_rows(["rnn", "odd"], "transformer") == [
        {
            "": "rnn",
            "more than transformer": "-0.500 [-0.750, +0.125], undecided",
            "BLEU": "+1.0 [-0.2, +2.2], undecided",
        },
        {"": "odd", "more than transformer": "its search is open", "BLEU": ""},
    ]
    assert fair.pair_rows({"first": ("rnn", "transformer"), "second": ("odd", "transformer")}) == [
        {
            "": "first",
            "nats per token": "-0.500 [-0.750, +0.125], undecided",
            "BLEU": "+1.0 [-0.2, +2.2], undecided",
        },
        {"": "second", "nats per token": "its search is open", "BLEU": ""},
    ]
    assert fair.crossing_rows() == [
        {
            "target tokens": 500,
            "RNN with attention": "1.000",
            "Transformer": "2.000",
            "RNN − Transformer": "-0.500 [-0.750, +0.125], undecided",
            "BLEU": "9.0\u00a0/\u00a08.0",
            "BLEU, RNN − Transformer": "-3.0 [-4.0, -2.0]",
        }
    ]
    record = json.loads((made_up / "transformer.json").read_text())
    for name, rows in {
        "transformer": [(0.2, 1.5), (0.1, 1.25)],
        "rnn-attention": [(0.2, None), (0.05, 1.0)],
    }.items():
        record["search"]["longer"] = {
            "tokens": 4000,
            "peaks": [{"peak": peak, "loss": loss} for peak, loss in rows],
        }
        (made_up / f"{name}.json").write_text(json.dumps(record))
    assert fair.longer_rows() == [
        {"peak": "0.05", "RNN with attention": "1.000", "Transformer": ""},
        {"peak": "0.1", "RNN with attention": "", "Transformer": "1.250"},
        {"peak": "0.2", "RNN with attention": "", "Transformer": "1.500"},
    ]
    assert fair.order_rows() == [
        {"": "with order", "rnn": "1.00", "RNN − Transformer": "-0.50 [-0.75, +0.12]"},
        {"": "without", "rnn": "1.50", "RNN − Transformer": "+0.25 [-0.75, +0.12]"},
        {"": "lost without it", "rnn": "-0.50 [-0.75, +0.12]"},
        {"": "BLEU with order", "rnn": "9.0"},
        {"": "BLEU without", "rnn": "7.0"},
    ]


def test_ngrams_stand_beside_losses(made_up):
    assert fair.beside() == "N-grams that see the French alone: trigram 3.00, unigram 6.00."
    assert (
        fair.beside(budget=500) == "N-grams that see the French alone: trigram 3.50, unigram 6.00."
    )
    with pytest.raises(KeyError):
        fair.beside(budget=501)


def test_where_two_designs_cross(monkeypatch):
    runs = {
        "rnn-attention": {10: [1.0, 1.0], 100: [1.0, 2.0], 10_000: [2.0, 3.0]},
        "transformer": {10: [3.0, 3.0], 100: [2.0, 3.0], 10_000: [1.0, 0.0]},
    }
    monkeypatch.setattr(
        fair,
        "by_budget",
        lambda name, ground: {
            budget: [{"test_loss": loss} for loss in losses]
            for budget, losses in runs[name].items()
        },
    )
    assert [round(place) for place in fair.crossing_places()] == [
        1000,
        round(100 * 100**0.25),
    ], "half and a quarter of the way, in logarithms"


def test_warm_ups_with_the_full_budget(made_up):
    path = made_up / "summary.json"
    found = {
        "transformer": [
            {"warmup": 0.1, "loss": 2.0},
            {"warmup": 0.3, "loss": 1.5},
            {"warmup": 0.6, "loss": None},
        ]
    }
    path.write_text(json.dumps(json.loads(path.read_text()) | {"warmups_at_full": found}))
    assert fair.warmup_rows(["transformer", "rnn"]) == [
        {"": "transformer", "warm-up": "10%", "loss": "2.00", "chosen": ""},
        {"": "", "warm-up": "30%", "loss": "1.50", "chosen": "✓"},
        {"": "", "warm-up": "60%", "loss": "failed", "chosen": ""},
    ]


def test_a_table_without_ranks(made_up):
    ranked, plain = (
        fair.standing(["transformer", "rnn"], ranked=ranked).html for ranked in (True, False)
    )
    assert ">rank<" in ranked and ">rank<" not in plain


def test_settings_that_all_seeds_had(made_up):
    path = made_up / "transformer.json"
    record = json.loads(path.read_text())
    record["runs"] += [a_run(seed, 4.0 + seed, warmup=0.6) for seed in (1, 2, 3)]
    path.write_text(json.dumps(record))
    assert fair.settings_rows("transformer") == [
        {
            "peak": "0.1",
            "warm-up": "60%",
            "loss": "6.00 (5.00 to 7.00)",
            "BLEU": "32.0 (31.0 to 33.0)",
        },
        {
            "peak": "0.1",
            "warm-up": "30%",
            "loss": "2.00 (1.00 to 3.00)",
            "BLEU": "32.0 (31.0 to 33.0)",
        },
    ], "the choice last; one seed at another peak is no row"


def test_the_curves_of_the_pocket_corpus(made_up):
    for name in ("transformer", "rnn"):
        record = json.loads((made_up / f"{name}.json").read_text())
        for run in record["runs"] if name == "transformer" else ():
            run["alignment"] = [[1000, 0.5], [2005, 0.1 * run["seed"]]]
        (made_up / f"{name}.json").write_text(json.dumps(record))
    made_up.rename(made_up.parent / "pocket")
    at, mean, low, high = fair.alignment_along("transformer")
    assert at == [0.001, 0.002005] and [round(x, 9) for x in mean + low + high] == [
        0.5,
        0.2,
        0.5,
        0.1,
        0.5,
        0.3,
    ]
    picture = pictures.pocket_curves(["transformer", "rnn"])
    assert (
        picture.caption
        == "Pocket corpus. At the end: Transformer 2.00 and 20% errors; RNN 2.00. N-grams that see"
        " the French alone: trigram 2.75."
    )
    assert picture.html.count("<svg") >= 2 and "Loss and alignment error rate of 2 models" in repr(
        picture
    )
    alone = pictures.pocket_curves(["transformer", "rnn"], aligned=False)
    assert (
        alone.caption
        == "Pocket corpus. At the end: Transformer 2.00; RNN 2.00. N-grams that see the French"
        " alone: trigram 2.75."
    )
    assert (
        alone.alt == "Loss of 2 models along their runs. At the end: Transformer 2.00; RNN 2.00."
        and "alignment" not in alone.html
    )


def test_muon_in_three_currencies(made_up):
    path, gap = made_up / "summary.json", {
        "value": -0.25,
        "low": -0.5,
        "high": -0.125,
        "decided": True,
    }
    summary = json.loads(path.read_text()) | {
        "muon": [
            {
                "design": "muon",
                "against": "adamw",
                "tokens": 1500,
                "operations": 0.95,
                "cpu_seconds": 1.3,
                "seconds": 1.01,
                "more": gap,
            },
            {
                "design": "muon",
                "against": "adamw",
                "tokens": 1600,
                "operations": 1.0,
                "cpu_seconds": 1.4,
                "seconds": 1.07,
                "more": gap | {"decided": False},
            },
            {
                "design": "muon",
                "against": "adamw",
                "tokens": 2000,
                "operations": 1.25,
                "cpu_seconds": 1.75,
                "seconds": 1.34,
                "more": gap,
            },
            {
                "design": "pre-norm-muon",
                "against": "pre-norm-adamw",
                "tokens": 2000,
                "operations": 1.5,
                "cpu_seconds": 2.0,
                "more": gap,
            },
        ]
    }
    path.write_text(json.dumps(summary))
    rows = fair.measured_rows("muon")
    assert [
        (
            row["as many"].split(" (")[0],
            row["operations"],
            row["seconds"],
            "undecided" in row["loss"],
        )
        for row in rows
    ] == [
        ("tokens", "1.25", "1.34", False),
        ("operations", "1.00", "1.07", True),
        ("seconds", "0.95", "1.01", False),
    ]
    assert [row["by the runs' clocks"] for row in rows] == ["1.75", "1.40", "1.30"]
    assert (
        rows[0]["loss"] == "-0.250 [-0.500, -0.125]"
        and fair.measured_rows("muon", ["operations"]) == rows[1:2]
    )
    path.write_text(
        json.dumps(
            summary | {
                "streams": [
                    {**summary["muon"][1], "design": "stream", "against": "transformer"},
                    {**summary["muon"][2], "design": "stream", "against": "transformer"},
                ]
            }
        )
    )
    assert [row["as many"].split(" (")[0] for row in fair.measured_rows("stream")] == [
        "tokens",
        "operations",
    ] and len(fair.measured_rows("muon")) == 3
    assert [row["as many"] for row in fair.measured_rows("pre-norm-muon")] == [
        "tokens (0.00M)"
    ], "a currency whose own run isn't there has no row"


def test_a_mean_and_its_brackets():
    assert (
        fair.over_seeds([1.0, 2.0, 4.5]) == "2.50 (1.00 to 4.50)"
        and fair.over_seeds([1.0]) == "1.00"
    )


def test_the_drawings_say_what_they_show(made_up):
    picture = pictures.losses_by_budget(["transformer", "rnn"])
    assert (
        "Transformer 5.00 at 0.0005M, 2.00 at 0.002M, 0.25 at 0.004M; RNN 2.00 at 0.002M" in repr(
            picture
        )
        and "trigram" in picture.html
    )
    assert (
        "all seeds. RNN was run up to 0.002M. N-grams" in picture.caption
        and picture.caption.endswith("budget's batches: trigram 3.00, unigram 6.00.")
    )
    assert pictures.worth_of_the_source(["transformer", "rnn"]).caption.endswith(
        "At the end: Transformer 4.0, RNN 4.0."
    )
    picture = pictures.losses_along(["transformer", "rnn"])
    assert (
        picture.caption
        == "Tatoeba. At the end: Transformer 2.00, RNN 2.00. Operations, 10¹²: Transformer 0,"
        " RNN 0. "
        "Dotted: a trigram that sees the French alone. All such n-grams: trigram 2.75."
    )
    assert (
        picture.html.count("<svg") >= 2
        and "trigram" in picture.html
        and "2 models" in repr(picture)
    )
    assert (
        fair.losses_along("rnn", since=1500)[0] == fair.losses_along("rnn")[0][-1:]
        and len(fair.losses_along("rnn")[0]) == 2
    )
    picture = pictures.bleu_by_length(["transformer", "rnn"], least=10)
    assert (
        picture.caption
        == "BLEU as a share of that of RNN, from the shortest sentences to the longest: Transformer"
        " from 100% to 100%."
    )
    assert "Transformer: from 20 to 1; RNN: from 20 to 1" in repr(picture)
    path = made_up / "rnn.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"search": None}))
    assert (
        "At the end: Transformer 2.00. Op" in pictures.losses_along(["transformer", "rnn"]).caption
    ), "no line before its seeds are there"


# What the page says of the real records -----------------------------------------------------------


def losses(name):
    return [run["test_loss"] for run in fair.results_of(name)]


def test_the_designs_that_are_ranked_have_all_their_seeds():
    ranked = [row["design"] for row in fair.summary_of()["comparison"] if row["rank"]]
    assert (
        {"transformer", "rnn-attention", "rnn", "2017"}
        <= set(ranked)
        <= set(fair.designs_of())
        >= {"2017"}
    )
    for name in ranked:
        assert [run["seed"] for run in fair.results_of(name)] == [1, 2, 3] and fair.record_of(name)[
            "search"
        ]["closed"], name
        assert max(losses(name)) < fair.lines_of()["trigram"], name
        assert (
            len(fair.shipped(f"results/fair/tatoeba/{name}.txt").read_text("utf-8").splitlines())
            == 1000
        ), "what it said"


def test_chapter_22_says_what_the_first_part_of_the_search_found():
    rnn, pre, post = (fair.trials_of(name) for name in ("rnn-attention", "transformer", "2017"))
    common = 6e-3, 0.1
    one, other = (
        next(
            t["seeds"]
            for t in fair.record_of(name)["search"]["trials"]
            if (t["peak"], t["warmup"]) == common
        )
        for name in ("transformer", "2017")
    )
    [seed] = other.keys() & one.keys()
    assert (
        round(other[seed] - one[seed], 1) == 1.7 and min(post.values()) - min(pre.values()) < 0.8
    ), "1.7 nats; well under one"
    assert min(pre[common], post[common]) > fair.lines_of()["trigram"], "above the n-grams"
    assert (
        rnn[common] - min(rnn.values()) < 0.1 and pre[common] - min(pre.values()) > 0.3
    ), "the RNN is nearly as good"
    for trials in pre, post:
        tenth = min(loss for (_, warmup), loss in trials.items() if warmup == 0.1)
        assert 0.35 < tenth - min(trials.values()) < 0.65, "about half a nat from a longer warm-up"


def test_chapter_22_says_what_the_second_part_changed():
    "The RNN's first choice would have lost to the Transformer's; the second wins."
    found = {name: fair.record_of(name)["search"] for name in ("rnn-attention", "transformer")}
    peaks = {
        name: {row["peak"]: row["loss"] for row in search["peaks"]}
        for name, search in found.items()
    }
    rnn = found["rnn-attention"]
    assert (
        rnn["short_peak"] == 2 * rnn["peak"]
        and 0.2
        < peaks["rnn-attention"][rnn["short_peak"]] - peaks["rnn-attention"][rnn["peak"]]
        < 0.3
    )
    assert (
        peaks["rnn-attention"][rnn["short_peak"]]
        > peaks["transformer"][found["transformer"]["short_peak"]] + 0.1
    ), "behind"
    gap = next(row for row in fair.summary_of()["comparison"] if row["design"] == "rnn-attention")[
        "more_than"
    ]["transformer"]
    assert gap["decided"] and gap["value"] < -0.05, "and now ahead, decided"


def test_chapter_22_says_whether_a_quarter_ranks_the_designs():
    losses = fair.summary_of()["search_against_full"]["losses"]
    short, full = (
        {
            name: 1 + place
            for place, name in enumerate(sorted(losses, key=lambda name: losses[name][k]))
        }
        for k in (0, 1)
    )
    moved = {name for name in losses if abs(short[name] - full[name]) > 3}
    assert len(losses) == 14 and moved == {"transformer", "rnn"}, "twelve of the fourteen"
    assert (short["transformer"], full["transformer"], short["rnn"], full["rnn"]) == (10, 6, 4, 12)
    html = fair.order_of_designs()._repr_html_()
    assert (
        "rank correlation (Spearman" in html
        and html.count("<tr>") == 18
        and "trigram of French alone" in html
    )
    same, pairs = fair.pairs_in_order()
    assert (
        0.8 < same / pairs < 0.83
        and f"Of the {pairs} pairs that the full runs decide, {same} have" in html
    ), "nearly a fifth come out the other way round"
    lines = fair.lines_of(part="valid", budget=500_000)
    behind = {
        line: {name for name, (short, _) in losses.items() if short > lines[line]}
        for line in ("bigram", "trigram")
    }
    assert behind == {"bigram": {"2017", "adamw"}, "trigram": {"2017", "adamw", "rope"}}


def test_chapters_23_and_94_say_who_leads_at_which_budget():
    gaps = {row["tokens"]: row for row in fair.summary_of()["crossing"]}
    assert {tokens: row["more"]["decided"] for tokens, row in gaps.items()} == {
        500_000: True,
        2_000_000: True,
        4_000_000: False,
        6_000_000: True,
    }
    assert [round(row["more"]["value"], 2) for row in gaps.values()] == [
        -0.73,
        -0.1,
        0.01,
        0.05,
    ], "three quarters, a tenth, level, a twentieth the other way"
    bleu = {tokens: fair.bleu_gap("rnn-attention", "transformer", tokens) for tokens in gaps}
    assert [gap["decided"] for gap in bleu.values()] == [True, True, True, False] and round(
        bleu[4_000_000]["value"], 1
    ) == 2.8
    assert gaps[6_000_000]["bleu"]["rnn-attention"] > gaps[6_000_000]["bleu"]["transformer"] + 1
    assert all(3.4e6 < place < 4.1e6 for place in fair.crossing_places()), "near four million"
    bleu = {
        name: [run["bleu"] for run in fair.by_budget(name)[6_000_000]]
        for name in ("rnn-attention", "transformer")
    }
    gap, half = gap_of(bleu["rnn-attention"], bleu["transformer"])
    assert 0 < gap < half, "three seeds don't decide BLEU"
    trigram = fair.trigram_by_budget()
    assert all(
        max(row["transformer"], row["rnn-attention"]) < trigram[tokens]
        for tokens, row in gaps.items()
    ), "no verdict above its own line"
    assert sorted(trigram.values(), reverse=True) == list(
        trigram.values()
    ), "higher for a smaller budget"
    longer = {
        name: fair.record_of(name)["search"]["longer"] for name in ("rnn-attention", "transformer")
    }
    low = {name: min(row["loss"] for row in found["peaks"]) for name, found in longer.items()}
    assert (
        all(found["tokens"] == 4_000_000 for found in longer.values())
        and abs(low["rnn-attention"] - low["transformer"]) < 0.01
    ), "level"
    summary = fair.by_budget("rnn")
    assert (
        max(run["test_loss"] for run in summary[500_000]) < gaps[500_000]["transformer"]
    ), "one summary is ahead of it at first"
    assert min(run["test_loss"] for run in summary[2_000_000]) > gaps[2_000_000]["transformer"]


def test_chapter_23_says_when_the_source_is_found():
    found = {
        name: dict(zip(*fair.worth_along(name)[:2])) for name in ("rnn-attention", "transformer")
    }
    at = {
        name: next(place for place, nats in worth.items() if nats > 1)
        for name, worth in found.items()
    }
    assert round(at["rnn-attention"], 2) == 0.15 and round(at["transformer"], 1) == 0.3
    ends = [list(worth.values())[-1] for worth in found.values()]
    assert abs(ends[0] - ends[1]) < 0.1, "nearly level"


def test_the_lowest_loss_of_every_search_is_that_of_its_choice():
    "A trial with one seed must not look better than the one that was chosen by two."
    for ground in ("tatoeba", "pocket"):
        for name in fair.designs_of(ground):
            search = fair.record_of(name, ground)["search"]
            assert fair.best_of(fair.trials_of(name, ground)) == (
                search["short_peak"],
                search["warmup"],
            ), f"{ground}, {name}"


def test_chapter_23_says_what_longer_runs_on_the_pocket_corpus_show():
    names = "rnn-attention", "transformer"
    loss, errors = (
        {name: dict(zip((round(at, 2) for at in line[0]), line[1])) for name, line in found.items()}
        for found in (
            {name: fair.losses_along(name, ground="pocket") for name in names},
            {name: fair.alignment_along(name) for name in names},
        )
    )
    line = fair.lines_of("pocket", "valid")["trigram"]
    assert (
        loss["rnn-attention"][0.2] < line < loss["rnn-attention"][0.15]
        and loss["transformer"][0.5] < line < loss["transformer"][0.4]
    )
    assert (
        abs(loss["rnn-attention"][0.2] - loss["transformer"][0.5]) < 0.05
        and round(loss["transformer"][0.5], 1) == 1.6
    ), "equal losses"
    assert (
        0.47 < errors["rnn-attention"][0.2] < 0.53 and 0.33 < errors["transformer"][0.5] < 0.38
    ), "half, and little more than a third"
    ends = {name: fair.alignment_along(name) for name in names}
    assert ends["transformer"][3][-1] < ends["rnn-attention"][2][-1], "the better map, every seed"
    gap = next(
        row for row in fair.summary_of("pocket")["comparison"] if row["design"] == "rnn-attention"
    )["more_than"]["transformer"]
    assert gap["decided"] and round(gap["value"], 2) == -0.03
    for name in names:
        assert [run["seed"] for run in fair.results_of(name, "pocket")] == [
            1,
            2,
            3,
        ] and fair.record_of(name, "pocket")["search"]["closed"]
        assert (
            fair.record_of(name, "pocket")["scale"]["tokens"] == 2_000_000 and min(loss[name]) < 0.2
        ), "from 0.2M to 2M"


def test_chapter_22_says_that_the_warm_ups_are_right_with_the_full_budget():
    gains = {}
    for name in "2017", "transformer", "rnn-attention":
        assert [row["chosen"] for row in fair.warmup_rows([name])] == ["", "✓", ""], name
        less, chosen, more = (row["loss"] for row in fair.summary_of()["warmups_at_full"][name])
        gains[name] = min(less, more) - chosen
    assert (
        min(gains["2017"], gains["transformer"]) > 0.03 and 0 < gains["rnn-attention"] < 0.01
    ), "the RNN hardly cares"
    best = [
        sorted(row["loss"] for row in fair.record_of(name)["search"]["peaks"] if row["loss"])[:2]
        for name in fair.designs_of()
    ]
    assert (
        sum(second - first < 0.01 for first, second in best) >= 2
    ), "some of the best two peaks lie within a hundredth"


def test_chapter_25_says_what_is_left_at_equal_cost():
    rows = {row["design"]: row for row in fair.summary_of()["currencies"]}
    names = (
        "2017",
        "adamw",
        "muon",
        "rope",
        "transformer",
        "pre-norm-adamw",
        "pre-norm-muon",
        "all-together",
    )
    assert {row[""] for row in fair.currency_rows(names)} == set(names) and len(
        rows
    ) == 14, "every design has all three"
    for key in ("at_equal_operations", "at_equal_seconds"):
        assert min(names, key=lambda name: rows[name][key]["loss"]) == "all-together"
    lead = rows["2017"]["at_equal_tokens"] - rows["rope"]["at_equal_tokens"]
    left = rows["2017"]["at_equal_seconds"]["loss"] - rows["rope"]["at_equal_seconds"]["loss"]
    assert (
        0.5 < left / lead < 0.8
        and abs(rows["rope"]["at_equal_operations"]["loss"] - rows["rope"]["at_equal_tokens"])
        < 0.005
    )


def test_chapter_25_says_what_the_pocket_corpus_shows():
    names = "2017", "transformer", "pre-norm-muon", "all-together"
    for name in names:
        assert (
            len(fair.results_of(name, "pocket")) == 3
            and fair.record_of(name, "pocket")["search"]["closed"]
        )
    pairs = {
        "norm": ("transformer", "2017"),
        "muon": ("pre-norm-muon", "transformer"),
        "parts": ("all-together", "pre-norm-muon"),
    }
    gaps = {
        row["design"]: row["more_than"]
        for row in fair.summary_of("pocket")["comparison"]
        if "more_than" in row
    }
    gaps = {what: gaps[one][other] for what, (one, other) in pairs.items()}
    assert (
        gaps["norm"]["decided"]
        and gaps["muon"]["decided"]
        and round(gaps["norm"]["value"], 2) == -0.05
    )
    assert gaps["parts"]["decided"] and -0.05 < gaps["muon"]["value"] < -0.04, "nearly as many nats"
    large = {
        row["design"]: row["more_than"]
        for row in fair.summary_of()["comparison"]
        if "more_than" in row
    }
    shrunk = {
        what: gaps[what]["value"] / large[one][other]["value"]
        for what, (one, other) in pairs.items()
    }
    assert (
        min(shrunk, key=shrunk.get) == "norm"
        and 1 / 8 < shrunk["norm"] < 1 / 6.5
        and max(shrunk.values()) < 1
    ), "all smaller, the norm's a seventh"
    bleu = [mean(run["bleu"] for run in fair.results_of(name, "pocket")) for name in names]
    assert [round(after - before, 1) for before, after in zip(bleu, bleu[1:])] == [
        4.4,
        4.8,
        2.5,
    ], "more than four, five, two and a half"
    gap, half = gap_of(
        *(
            [run["bleu"] for run in fair.results_of(name, "pocket")]
            for name in ("all-together", "pre-norm-muon")
        )
    )
    assert 0 < gap < half, "not decided"
    line, along = fair.lines_of("pocket", "valid")["trigram"], {
        name: fair.losses_along(name, ground="pocket") for name in names
    }
    passed = {
        name: np.interp(-line, [-loss for loss in losses], at)
        for name, (at, losses, *_) in along.items()
    }
    assert (
        passed["pre-norm-muon"] < passed["transformer"] / 2
        and passed["all-together"] < passed["transformer"] / 2
    ), "fewer than half of the tokens"
    apart = [
        abs(trial["seeds"]["4"] - trial["seeds"]["5"])
        for trial in fair.record_of("2017", "pocket")["search"]["trials"]
        if len(trial["seeds"]) == 2 and trial["warmup"] == 0.1
    ]
    assert min(apart) > 0.3, "the seeds of post-norm lie far apart, where the fault struck"
    starved, choice = fair.settings_rows("2017", "pocket")
    assert (starved["warm-up"], choice["warm-up"]) == ("3%", "60%")
    low, high = (float(row["loss"].split()[0]) for row in (choice, starved))
    assert (
        low < high / 2
        and 15 < float(choice["BLEU"].split()[0]) - float(starved["BLEU"].split()[0]) < 16
    )
    over = high - mean(run["test_loss"] for run in fair.results_of("transformer", "pocket"))
    assert round(over, 2) == 0.38 and 7.5 < over / -gaps["norm"]["value"] < 8.5, "eight times"


def test_chapter_23_says_what_the_order_of_the_source_is_worth():
    found = fair.summary_of()["without_order"]
    lost = {row["design"]: row["more"]["value"] for row in found["designs"]}
    assert 2 < lost["rnn-attention"] / lost["transformer"] < 2.5, "twice as much"
    assert (
        found["gap_without"]["decided"]
        and 0.75 < found["gap_without"]["value"] / found["gap_with"]["value"] < 0.85
    ), "four fifths of the lead"


def test_chapter_23_says_what_length_does():
    summary, look = (fair.by_length(name)[1] for name in ("rnn", "rnn-attention"))
    assert (
        summary[-1] / look[-1] < summary[0] / look[0] - 0.1
    ), "the summary keeps a smaller share as sentences grow"


STREAMS = ("decoder-only", "decoder-only-prefix", "decoder-only-both", "decoder-only-decay")


def test_chapter_24_says_who_leads_and_when():
    rows = {row["design"]: row for row in fair.summary_of()["comparison"]}
    gap = rows["decoder-only"]["more_than"]["transformer"]
    prefix, both, decay = (rows[name]["more_than"]["decoder-only"] for name in STREAMS[1:])
    assert gap["decided"] and 0.075 < gap["value"] < 0.085, "a little less than a tenth of a nat"
    assert (
        prefix["decided"]
        and 0.09 < prefix["value"] < 0.12
        and rows["decoder-only-prefix"]["rank"] > rows["decoder-only"]["rank"]
    )
    assert both["decided"] and round(both["value"], 2) == 0.13, "0.13 nats"
    assert (
        decay["decided"] and round(decay["value"], 2) == -0.01 and decay["high"] > -0.005
    ), "a hundredth; its interval just leaves zero out"
    assert (
        min(STREAMS, key=lambda name: rows[name]["test_loss"]) == "decoder-only-decay"
    ), "the best of the streams"
    ends = rows["decoder-only-decay"]["more_than"]["transformer"]
    assert (
        ends["decided"] and 0.06 < ends["value"] < 0.085
    ), "it doesn't bring the stream to the Transformer"
    short = [min(fair.trials_of(name).values()) for name in ("decoder-only", "decoder-only-prefix")]
    assert abs(short[0] - short[1]) < 0.01, "level in the search"
    each = [rows[name]["flops"] / rows["transformer"]["flops"] for name in STREAMS]
    assert all(1.7 < one < 1.8 for one in each[:2]) and all(
        2 < one < 2.1 for one in each[2:]
    ), "about 1.75, and twice as many"
    looks = {name: fair.losses_along(name)[:2] for name in ("transformer", *STREAMS)}
    alike = [[loss for at, loss in zip(*line) if 0.2 < at < 0.31] for line in looks.values()]
    assert all(len(losses) == 2 for losses in alike) and all(
        max(row) - min(row) < 0.25 for row in zip(*alike)
    ), "nearly alike up to 300,000 tokens"
    plain, falling = (dict(zip(*looks[name])) for name in ("decoder-only", "decoder-only-decay"))
    behind = [
        at for at, one, other in zip(plain, plain.values(), falling.values()) if other > one + 0.02
    ]
    assert (
        len(behind) > 5 and max(behind) < 0.75
    ), "on the way behind; ahead from where a third of the run is over"
    bleu = {row["design"]: row["bleu"] for row in fair.summary_of()["comparison"] if row["rank"]}
    assert (
        abs(bleu["decoder-only-decay"] - bleu["transformer"]) < 0.1
        and bleu["decoder-only"] < bleu["transformer"] - 0.5
    ), "level by BLEU"
    assert bleu["decoder-only"] - bleu["decoder-only-prefix"] > 3
    chrf = {row["design"]: row["chrf"] for row in fair.summary_of()["comparison"] if row["rank"]}
    assert chrf["decoder-only-decay"] < chrf["transformer"] - 0.4, "behind by chrF"


def test_chapter_24_three_seeds_do_not_decide_the_order_of_bleu():
    whole, plain, decay = (
        [run["bleu"] for run in fair.results_of(name)]
        for name in ("transformer", "decoder-only", "decoder-only-decay")
    )
    assert mean(plain) < mean(whole) < mean(decay), "the article's order"
    for one, other in ((whole, decay), (plain, whole)):
        gap, half = gap_of(one, other)
        assert abs(gap) < half


def test_chapter_24_three_streams_were_ahead_in_the_search():
    least = {name: min(fair.trials_of(name).values()) for name in fair.designs_of()}
    level = [least[name] for name in ("decoder-only", "decoder-only-prefix", "decoder-only-decay")]
    assert (
        max(level) - min(level) < 0.01
        and max(level) < least["transformer"] - 0.03
        and least["decoder-only-both"] > least["transformer"]
    )
    at = {
        name: [loss for tokens, loss in zip(*fair.losses_along(name)[:2]) if tokens >= 0.3][0]
        for name in (
            "transformer",
            "decoder-only",
            "decoder-only-prefix",
            "decoder-only-both",
            "decoder-only-decay",
        )
    }
    assert (
        abs(at["transformer"] - at["decoder-only"]) < 0.03
        and abs(at["transformer"] - at["decoder-only-prefix"]) < 0.03
    ), "just caught up"
    assert min(at["decoder-only-both"], at["decoder-only-decay"]) > at["transformer"] + 0.1


def test_chapter_24_by_operations_the_transformer_is_ahead_all_the_way():
    ours, *streams = (
        fair.losses_along(name, operations=True) for name in ("transformer", *STREAMS)
    )
    for one in streams:
        for at, loss in zip(*one[:2]):
            assert np.interp(math.log(at), np.log(ours[0]), ours[1]) < loss, at
    rows = {row["design"]: row for row in fair.summary_of()["currencies"]}
    assert (
        rows["decoder-only-decay"]["at_equal_operations"]["loss"]
        > rows["decoder-only"]["at_equal_operations"]["loss"]
    ), "its gain is lost"
    for name in STREAMS:
        for kind in ("tokens", "operations", "seconds"):
            one, other = (rows[who][f"at_equal_{kind}"] for who in (name, "transformer"))
            one, other = (one, other) if kind == "tokens" else (one["loss"], other["loss"])
            assert one > other + 0.05, "behind in all three columns"
    plain = rows["decoder-only"]
    assert (
        1.1e6 < plain["at_equal_operations"]["tokens"] < 1.2e6
        and not plain["at_equal_operations"]["beyond"]
    ), "a little more than half"
    behind = plain["at_equal_seconds"]["loss"] - rows["transformer"]["at_equal_tokens"]
    assert 0.3 < behind < 0.37, "a third of a nat, on the line"


def test_chapter_24_at_equal_operations_streams_were_run():
    equal = {
        name: {row["as many"].split(" (")[0]: row for row in fair.measured_rows(name)}
        for name in ("decoder-only", "decoder-only-decay")
    }
    for rows in equal.values():
        assert (
            set(rows) == {"tokens", "operations"}
            and "undecided" not in rows["operations"]["loss"]
            and "undecided" not in rows["operations"]["BLEU"]
        )
        assert abs(float(rows["operations"]["operations"]) - 1) < 0.02, "as many"
    plain, decay = (
        float(equal[name]["operations"]["loss"].split()[0])
        for name in ("decoder-only", "decoder-only-decay")
    )
    assert (
        round(plain, 2) == 0.48 and decay > plain
    ), "0.48 behind; what the falling weight gains is lost"
    assert (
        -9 < float(equal["decoder-only"]["operations"]["BLEU"].split()[0]) < -8.5
    ), "almost nine BLEU"


@pytest.mark.parametrize(
    "chapter",
    ["22_fair_comparison", "23_rnn", "24_decoder_only", "25_since_2017", "26_three_families"],
)
def test_a_comparison_ends_with_three_sentences_and_their_records(chapter):
    "Each says where it stands: a record that is there, or a claim that the chapter makes."
    cells = json.loads((ROOT / f"book/{chapter}.ipynb").read_text("utf-8"))["cells"]
    text = next(source for cell in cells if "## Summary" in (source := "".join(cell["source"])))
    text = text.split("## Summary")[1].split("\n## ")[0]
    listed = re.findall(r"^\d\. (.*)$", text, re.M)
    assert len(listed) == 3, listed
    code = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    for line in listed:
        sentence, kind, name = re.fullmatch(r"(.*) \((record|claim): ([\w/.-]+)\)\.", line).groups()
        assert not re.search(r"[.!?] [A-Z]", sentence), f"more than one sentence: {line}"
        assert (
            (ROOT / f"book/results/fair/{name}.json").exists()
            if kind == "record"
            else f'"{name}"' in code
        ), line


def test_chapter_22_says_what_a_cheaper_rnn_would_gain():
    rows = {row["design"]: row for row in fair.summary_of()["currencies"]}
    rnn, ours = rows["rnn"], rows["transformer"]["at_equal_tokens"]
    for kind in ("operations", "seconds"):
        assert (
            rnn[f"at_equal_{kind}"]["beyond"]
            and rnn["at_equal_tokens"] - rnn[f"at_equal_{kind}"]["loss"] > 0.1
        ), "over a tenth"
        assert (
            ours < rnn[f"at_equal_{kind}"]["loss"] < rows["2017"]["at_equal_tokens"]
        ), "and stays third"
    ranked = {row["design"]: row for row in fair.summary_of()["comparison"]}
    assert ranked["rnn"]["flops"] < 0.8 * ranked["transformer"]["flops"], "over a fifth cheaper"


def test_chapter_25_says_what_each_change_is_worth():
    rows = {row["design"]: row for row in fair.summary_of()["comparison"] if row["rank"]}
    gaps = {
        name: rows[name]["more_than"]["2017"]
        for name in (
            "adamw",
            "muon",
            "transformer",
            "pre-norm-adamw",
            "pre-norm-muon",
            "all-together",
        )
    }
    assert (
        all(gap["decided"] for gap in gaps.values())
        and round(gaps["transformer"]["value"], 2) == -0.35
        and round(gaps["all-together"]["value"], 2) == -0.72
    )
    assert (
        0.6 < gaps["adamw"]["value"] / gaps["transformer"]["value"] < 0.7
    ), "AdamW's decay alone gains two thirds of it"
    assert (
        gaps["muon"]["value"] < gaps["transformer"]["value"]
        and rows["muon"]["more_than"]["transformer"]["decided"]
    ), "Muon alone gains more than either"
    assert (
        rows["pre-norm-adamw"]["rank"] == rows["transformer"]["rank"]
        and not rows["pre-norm-adamw"]["more_than"]["transformer"]["decided"]
    ), "one rank"
    assert (
        round(rows["all-together"]["bleu"], 1) == 37.5
        and round(rows["2017"]["bleu"], 1) == 26.9
        and 4.5 < rows["transformer"]["bleu"] - rows["2017"]["bleu"] < 5
    )
    parts = rows["all-together"]["more_than"]["pre-norm-muon"]
    assert (
        parts["decided"]
        and -0.25 < parts["value"] < -0.18
        and rows["all-together"]["bleu"] - rows["pre-norm-muon"]["bleu"] > 2
    ), "a fifth of a nat"
    assert (
        round(rows["all-together"]["bleu"] - rows["pre-norm-muon"]["bleu"], 1) == 2.8
    ), "nearly three BLEU"
    assert all(
        1.5 < rows[pre]["bleu"] - rows[post]["bleu"] < 2.5
        for pre, post in (("pre-norm-adamw", "adamw"), ("pre-norm-muon", "muon"))
    ), "some two BLEU"


def test_chapter_25_says_how_pre_norms_lead_depends_on_the_optimiser():
    pairs = {
        "Adam": ("transformer", "2017"),
        "AdamW": ("pre-norm-adamw", "adamw"),
        "Muon": ("pre-norm-muon", "muon"),
    }
    lead = {
        row[""]: float(row["nats per token"].split()[0])
        for row in fair.pair_rows(pairs)
        if "undecided" not in row["nats per token"]
    }
    assert list(lead) == list(pairs) and all(
        0.3 < lead[name] / lead["Adam"] < 0.4 for name in ("AdamW", "Muon")
    ), "a third of that"
    adam, adamw = (
        {float(row["peak"]): float(row["the full budget"]) for row in fair.peak_rows([name])}
        for name in ("2017", "adamw")
    )
    gains = {peak: adam[peak] - adamw[peak] for peak in sorted(adam.keys() & adamw.keys())}
    assert (
        len(gains) == 3
        and all(gain > 0.05 for gain in gains.values())
        and max(gains, key=gains.get) == max(gains)
    ), "most at the highest"


def test_chapter_25_says_what_rope_alone_is_worth():
    rows = {row["design"]: row for row in fair.summary_of()["comparison"]}
    gaps = {name: rows[name]["more_than"]["2017"] for name in ("rope", "adamw", "transformer")}
    assert (
        gaps["rope"]["decided"] and abs(gaps["rope"]["value"] - gaps["adamw"]["value"]) < 0.01
    ), "as much as the decay"
    assert (
        0.6 < gaps["rope"]["value"] / gaps["transformer"]["value"] < 0.7
    ), "two thirds of what the norm's place gains"
    new, old = fair.by_length("rope", least=20), fair.by_length("2017", least=20)
    gains = dict(zip(new[0], (a - b for a, b in zip(new[1], old[1]))))
    assert round(gains[1]) == 2 and all(
        4.4 < gain < 5.2 for length, gain in gains.items() if length >= 7
    ), "two BLEU, and about five"
    assert all(
        low > high for length, low, high in zip(new[0], new[2], old[3]) if length >= 5
    ), "all three seeds"
    peaks, theirs = (
        {row["peak"]: float(row["the full budget"]) for row in fair.peak_rows([name])}
        for name in ("rope", "2017")
    )
    assert len(theirs.keys() & peaks.keys()) == 3 and all(
        peaks[at] < theirs[at] for at in theirs.keys() & peaks.keys()
    )


def test_chapter_25_says_how_muon_does_in_each_currency():
    settings = {
        name: fair.best_of(fair.trials_of(name))
        for name in ("2017", "adamw", "muon", "transformer", "pre-norm-adamw", "pre-norm-muon")
    }
    assert [warmup for _, warmup in settings.values()] == [0.6] * 5 + [0.0]
    least = {name: min(fair.trials_of(name).values()) for name in settings}
    assert (
        least["pre-norm-muon"] < 2.5
        and min(loss for name, loss in least.items() if name != "pre-norm-muon") >= 2.9
    )
    rows = {
        name: {row["as many"].split(" (")[0]: row for row in fair.measured_rows(name)}
        for name in ("pre-norm-muon", "muon")
    }
    more = {
        of: float(row["loss"].split()[0])
        for of, row in rows["pre-norm-muon"].items()
        if "undecided" not in row["loss"]
    }
    assert (
        list(more) == ["tokens", "operations", "seconds"]
        and more["tokens"] < more["seconds"] < more["operations"] < 0
    )
    assert 0.45 < more["seconds"] / more["tokens"] < 0.6, "half of it"
    post = {
        of: (float(row["loss"].split()[0]), "undecided" not in row["loss"])
        for of, row in rows["muon"].items()
    }
    for found in rows.values():
        bleu = {of: float(row["BLEU"].split()[0]) for of, row in found.items()}
        assert (
            2.5 < bleu["tokens"] < 3.6 and 1.35 < bleu["seconds"] < 1.75
        ), "about three points, and half of that"
        assert {of: "undecided" in row["BLEU"] for of, row in found.items()} == {
            "tokens": False,
            "operations": True,
            "seconds": False,
        }
    assert [decided for _, decided in post.values()] == [True, False, True] and round(
        post["tokens"][0], 2
    ) == -0.16, "nothing decided at equal operations"
    assert [found["seconds"]["by the runs' clocks"] for found in rows.values()] == ["1.10", "1.02"]
    assert round(post["seconds"][0], 2) == -0.06 and round(more["seconds"], 2) == -0.08
    assert (
        abs(more["tokens"]) < (least["pre-norm-adamw"] - least["pre-norm-muon"]) / 3
    ), "at the end most of the lead is gone"
