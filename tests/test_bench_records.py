"""Numbers that pages say in words, held to what the scripts of bench/ recorded."""

from pathlib import Path

from litbook import results

ROOT = Path(__file__).parents[1]


def test_chapter_21_says_who_reaches_the_goal_and_when():
    rows = {row["name"]: row for row in results.load_bench("to_loss")["rows"]}
    assert list(rows) == ["laptop", "twin", "ours", "ours, products"] and all(
        row["epochs"] == row["planned_epochs"] for row in rows.values()
    )
    assert (rows["laptop"]["goal_epoch"], rows["twin"]["goal_epoch"]) == (12, 11) and abs(
        rows["laptop"]["best"] - rows["twin"]["best"]
    ) < 0.01
    for ours, other in ("ours", "laptop"), ("ours, products", "twin"):
        assert rows[ours]["hardware"] == rows[other]["hardware"], (
            "minutes compare within one machine"
        )
        assert 3 < rows[other]["goal_cpu_seconds"] / rows[ours]["goal_cpu_seconds"] < 4.5, (
            "less than a third of the time"
        )


def test_chapter_18_says_what_the_translators_records_hold():
    first, second = (results.load_bench(f"domains-{name}") for name in ("tatoeba-fr", "mixture-fr"))
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
    mean = {run["temperature"]: 0.0 for run in results.load_bench("temperature")["runs"]}
    for run in results.load_bench("temperature")["runs"]:
        mean[run["temperature"]] += run["judged"]
    assert min(mean, key=mean.get) == 9, "the best of three in short runs"
