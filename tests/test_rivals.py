"""Tables of what the benches recorded."""

import copy
import html
from pathlib import Path

import pytest

from litbook import rivals
from transformer_lit.corpora.files import shipped
from transformer_lit.recipes.recipes import SAMPLES
from litbook.results import was_seen

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in shipped("results/bench").glob("*.json"))
)
def test_the_command_that_a_page_prints_can_be_typed(name):
    python, script, *_ = rivals.command_of(rivals.recorded(name)).split()
    assert (
        python == "python" and (ROOT / script).is_file()
    ), f"{name} was made by {script}, which isn't there"


def test_a_command_that_never_moved_stays_as_it_is():
    assert (
        rivals.command_of({"command": "transformer-lit train --recipe words"})
        == "transformer-lit train --recipe words"
    )


def test_every_record_has_its_table():
    for name, (rows_of, _) in rivals.ROWS.items():
        record, html = rivals.recorded(name), rivals.shown(name)._repr_html_()
        assert len(rows_of(record)) > 1 and html.count("<tr>") == len(rows_of(record)) + 1, name
        assert "made by python bench/" in html, name
        assert rivals.titles(record)[name].split(";")[0].split(":")[0] in html, name


def test_a_goal_that_was_not_reached_is_said():
    row = {
        "name": "twin, x",
        "hardware": "2 threads",
        "epochs": 3,
        "planned_epochs": 20,
        "best": 1.5,
        "goal_epoch": None,
        "cpu_seconds": 600,
    }
    reached = row | {
        "name": "ours",
        "hardware": "1 thread, bf16 products",
        "goal_epoch": 2,
        "goal_cpu_seconds": 120,
    }
    first, second = rivals.goal_rows({"rows": [row, reached]})
    assert (first["recipe"], first["in"], first["goal reached"], first["minutes"]) == (
        "ours",
        "bf16, products",
        "epoch 2 of 20",
        "2",
    )
    assert (second["in"], second["goal reached"], second["minutes"]) == (
        "fp32",
        "not by epoch 3",
        "over 10",
    )


def test_chapter_21_says_who_reaches_the_goal_and_when():
    rows = {row["name"]: row for row in rivals.recorded("to_loss")["rows"]}
    assert list(rows) == ["laptop", "twin", "ours", "ours, products"] and all(
        row["epochs"] == row["planned_epochs"] for row in rows.values()
    )
    assert (rows["laptop"]["goal_epoch"], rows["twin"]["goal_epoch"]) == (12, 11) and abs(
        rows["laptop"]["best"] - rows["twin"]["best"]
    ) < 0.01
    for ours, other in ("ours", "laptop"), ("ours, products", "twin"):
        assert (
            rows[ours]["hardware"] == rows[other]["hardware"]
        ), "minutes compare within one machine"
        assert (
            3 < rows[other]["goal_cpu_seconds"] / rows[ours]["goal_cpu_seconds"] < 4.5
        ), "less than a third of the time"


def test_the_best_run_of_each_way():
    run = {
        "language": "de",
        "way": "ours",
        "steps": 9,
        "tokens": 90,
        "bleu": 20.0,
        "low": 19.0,
        "high": 21.0,
    }
    found = rivals.caption_rows(
        {"runs": [run | {"valid_loss": 2.0}, run | {"valid_loss": 1.0}, run | {"valid_loss": 3.0}]}
    )
    assert [row["loss"] for row in found] == [1.0] and found[0]["BLEU"] == "20.0 (19.0 to 21.0)"


def test_patience_is_compared_with_haste_at_each_penalty():
    record = rivals.recorded("stopping")
    rows = rivals.stopping_rows(record)
    assert list(rows) == [f"α = {alpha}" for alpha in (0.0, 0.6, 1.0, 1.5)]
    for (hasty, calm), row in zip(rivals.stopping_pairs(record), rows.values()):
        assert not hasty["patient"] and calm["patient"] and hasty["alpha"] == calm["alpha"]
        assert (
            row["BLEU"] == f"{hasty['bleu']:.2f} → {calm['bleu']:.2f}"
            and row["changed"] == calm["changed"]
        )
    assert rivals.stopping_words(record).startswith(
        "At α = 0.6, "
    ) and "of 2,000 answers" in rivals.stopping_words(record)


def test_bars_are_the_record_s_and_its_table_is_folded_below():
    for name, draw in rivals.BARS.items():
        html, picture = rivals.shown(name)._repr_html_(), draw(rivals.recorded(name))
        assert picture.html in html and html.index("<table") > html.index("<details"), name
        assert (
            picture.caption != picture.alt and len(picture.caption.split()) <= 27
        ), picture.caption
    step = rivals.recorded("step")["precisions"]["fp32"]["forms"]["torch"]
    assert f"nn.Transformer, fp32 {step['tokens_per_second']:,.0f}" in repr(
        rivals.step_bars(rivals.recorded("step"))
    )
    forms = {"whole, fp32": {"peak": 9e9}, "blocks, fp32": {"peak": 4e8}}
    assert (
        rivals.loss_bars({"forms": forms}).caption
        == "In blocks the peak falls from 9.0 to 0.4 GB in fp32."
    )


def test_ours_is_ink_and_the_others_are_grey():
    assert rivals.quiet(["ours, fp32", "post-norm, ours", "textbook"]) == {
        "textbook": rivals.figures.GREY
    }
    assert rivals.listed({"a": 1.0, "b": (2.0, 1.0, 3.0)}, "{:.1f}") == "a 1.0, b 2.0"


def test_two_translators_side_by_side(monkeypatch):
    before = rivals.recorded("domains-tatoeba-fr")
    after = copy.deepcopy(before) | {"command": "python bench/domains.py --folder x"}
    for field in "value", "low", "high":
        after["tests"]["multi30k"]["bleu"][field] += 10
    after["tests"]["tatoeba"]["bleu"]["value"] -= 1.5
    after["copied"]["names"] = 0.75
    after["spoken"]["recipe"][0][1] = "Autrement."
    monkeypatch.setattr(
        rivals, "recorded", {"domains-one": before, "domains-two": after}.__getitem__
    )
    told = rivals.two_translators(("one", "two")).html
    assert (
        "−1.5 on everyday sentences, +10.0 on captions, +0.0 on news of 2013" in told
        and "--folder x" in told
    )
    assert "75.0" in told and "names" in told and "captions, two" in told
    said = rivals.answers_beside(("one", "two")).html
    assert (
        "Of these 12 English sentences the shipped translator's training held"
        f" {sum(map(was_seen, SAMPLES))}"
        in html.unescape(said)
    )
    own = html.unescape(rivals.answers_beside(("one", "two"), "own").html)
    assert (
        "Of these 40 English sentences the shipped translator's training held none" in own
    ), "the book's own stand in no corpus"
    assert (
        said.count("<tr>") == 1 + len(before["spoken"]["recipe"])
        and "Autrement." in said
        and before["spoken"]["recipe"][0][1] in html.unescape(said)
    )


def test_losses_of_a_mixture_by_text(monkeypatch):
    log = [{"kind": "step", "step": 1}] + [
        {
            "kind": "look",
            "tokens": 1000 * n,
            "valid_loss": 5.0 - n,
            "losses": {"tatoeba": 2.0 - n / 2, "law": 3.0},
        }
        for n in (1, 2)
    ]
    drawn = rivals.losses_by_text(log)
    assert (
        "From the first look to the last: news 4.00 to 3.00, everyday sentences 1.50 to 1.00, law"
        " 3.00 to 3.00."
        in drawn.html
    )
    further = [
        {"kind": "look", "tokens": 500, "valid_loss": 2.5, "losses": {"tatoeba": 0.75, "law": 2.0}}
    ]
    curves = {}
    monkeypatch.setattr(rivals.figures, "curves", lambda found, **_: curves.update(found))
    rivals.losses_by_text(log, further)
    assert curves["news"] == ([0.001, 0.002, 0.0025], [4.0, 3.0, 2.5]) and curves["law"] == (
        [0.001, 0.002, 0.0025],
        [3.0, 3.0, 2.0],
    )


def test_chapter_18_says_what_the_translators_records_hold():
    first, second = (rivals.recorded(f"domains-{name}") for name in ("tatoeba-fr", "mixture-fr"))
    gain = {
        test: (first["tests"][test]["bleu"]["value"], second["tests"][test]["bleu"]["value"])
        for test in first["tests"]
    }
    assert [round(bleu) for bleu in gain["multi30k"]] == [20, 60] and [
        round(bleu) for bleu in gain["newstest2014"]
    ] == [5, 24]
    assert all(
        40 <= round(then - before) <= 45
        for before, then in (gain[test] for test in ("law", "web", "php", "python"))
    )
    shares = {
        field: [round(100 * one["tests"]["newstest2014"][field], 1) for one in (first, second)]
        for field in ("repeats", "untouched")
    }
    assert shares == {"repeats": [1.2, 0.1], "untouched": [0.5, 0.1]}
    assert [round(100 * one["tests"]["newstest2014"]["short"], 1) for one in (first, second)] == [
        18.0,
        0.1,
    ], "18 of a hundred, one of a thousand"
    assert [
        round(one["tests"]["tatoeba"]["first"]["bleu"]["value"]) for one in (first, second)
    ] == [53, 50], "with the first reference alone"
    before, then = gain["tatoeba"]
    assert 3 < before - then < 3.5, "more than three"
    copied = second["copied"]
    assert (
        min(copied["names"], copied["numbers"], copied["dates"]) > 0.9 > copied["prices"] > 0.85
    ), "more than nine in ten; nearly nine"
    mean = {run["temperature"]: 0.0 for run in rivals.recorded("temperature")["runs"]}
    for run in rivals.recorded("temperature")["runs"]:
        mean[run["temperature"]] += run["judged"]
    assert min(mean, key=mean.get) == 9, "the best of three in short runs"


def test_chapter_18_says_how_far_to_trust_a_confidence():
    def off(name):
        "By how much the ten groups of each test came out better than expected, the surest last."
        return {
            test: [group["chrf"] - group["expected"] for group in found["groups"]]
            for test, found in rivals.recorded(f"confidence-{name}")["tests"].items()
        }

    first, second = off("tatoeba-fr"), off("mixture-fr")
    news = [gap for test, gaps in first.items() if test.startswith("news") for gap in gaps]
    surest = [gaps[-1] for test, gaps in first.items() if test.startswith("news")]
    assert (
        round(min(news)) == -11 and min(news) in surest and max(news) < 0
    ), "every group is somewhat worse"
    assert all(abs(gap) < 7.5 for gaps in first.values() for gap in gaps if gap not in surest)
    assert (
        first["multi30k"][0] > 0 > first["multi30k"][-1]
    ), "the unsure answers are better and the surest worse"
    away = [
        [
            round(rivals.recorded(f"confidence-{name}")["tests"]["newstest2014"][key])
            for key in ("distance", "distance_of_mean")
        ]
        for name in ("tatoeba-fr", "mixture-fr")
    ]
    everyday = rivals.recorded("confidence-mixture-fr")["tests"]["tatoeba"]
    assert away == [[8, 11], [10, 11]] and [
        round(everyday[key]) for key in ("distance", "distance_of_mean")
    ] == [18, 22], "what a single answer is away from"
    assert (
        max(abs(gap) for gaps in second.values() for gap in gaps) < 9.5
        and min(second["multi30k"]) > 0
    ), "captions are better than expected"
    assert all(
        gaps[-1] < 0 for test, gaps in second.items() if test.startswith("news")
    ), "the surest answers on news are worse"
