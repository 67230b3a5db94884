"""The appendix "Your own pair": its tables and drawings, by hand on a made-up record; and what the
page says of the real one."""

import re
from statistics import mean

import pytest

from litbook.drawings import own_views as views
from transformer_lit.custom_pair.own_pairs import SIZES


def a_run(pairs, seed, bleu, text="real", change="", loss=1.0, **more):
    score, first = (
        {
            name: {"value": value, "low": value - 2, "high": value + 3, "signature": "a|b"}
            for name, value in (("bleu", of), ("chrf", of + 20))
        }
        for of in (bleu, bleu - 0.75)
    )
    return {
        "pairs": pairs,
        "train_pairs": pairs,
        "seed": seed,
        "text": text,
        "change": change,
        "epochs": 0,
        "cpu_seconds": 60 * seed,
        "valid_per_character": loss,
        "steps": 40,
        "epochs_run": 4.0,
        "best_epoch": 3.0,
        "curve": [[10, 4.0], [20, 3.5], [30, loss + 2], [40, 3.25]],
        "copied_answers": 0.034,
        "tests": {"tatoeba": {"sentences": 9, "all": score, "first": first}},
        **more,
    }


def a_cell(pairs, text="real", change="", seeds=(1, 2, 3), value=1.0):
    gain = {
        "seeds": list(seeds),
        "tatoeba": {"value": value, "low": value - 0.5, "high": value + 0.5},
    }
    return {
        "pairs": pairs,
        "text": text,
        "change": change,
        "epochs": 0,
        "seeds": list(seeds),
        "more_than": [gain],
    }


@pytest.fixture
def made_up(monkeypatch):
    runs = [
        a_run(
            2000,
            seed,
            5.0 + seed,
            last={
                "first": {"bleu": {"value": 2.0 + seed}},
                "all": {
                    "bleu": {
                        "value": 3.0 + seed,
                        "low": 1.0 + seed,
                        "high": 4.0 + seed,
                        "signature": "a|b",
                    },
                    "chrf": {"value": 23.0 + seed, "low": 22.5 + seed, "high": 24.0 + seed},
                },
            },
            shown=[["Go.", "Va !", "Pars."]],
        )
        for seed in (3, 1, 2)
    ]
    runs += [
        a_run(2000, 1, 9.0, change="dropout=0.1", loss=1.2),
        a_run(2000, 1, 9.0, change="vocabulary=500", loss=0.9),
    ]
    runs += [a_run(10000, seed, 20.0) for seed in (1, 2)] + [
        a_run(2000, 1, 3.0, epochs=4),
        a_run(150_000, 1, 50.0, "shipped", train_pairs=158_482),
        a_run(1_000_000, 1, 7.0, "general"),
    ]
    cells = [
        a_cell(2000),
        a_cell(2000, change="dropout=0.1", seeds=[1], value=-0.25),
        a_cell(2000, change="vocabulary=500", seeds=[1]),
        a_cell(10000, seeds=[1, 2]),
    ]
    monkeypatch.setattr(views, "recorded", lambda name: {"cells": cells, "runs": runs})


def test_each_row_says_with_how_many_seeds_it_was_run(made_up):
    assert [size.pairs for size in views.measured()] == [2000] and [
        size.pairs for size in views.measured(1)
    ] == [2000, 10_000, 150_000, 1_000_000]
    html = views.sizing_table().html
    assert (
        "5.0 [3.0, 6.0]" in html
        and ">25.0<" in html
        and "3 (4.0 to 6.0)" in html
        and "9 test sentences" in html
    )
    assert "50.0 [48.0, 53.0]" in html and ">1<" in html and "1,000,000 (mixed)" in html
    assert (
        ">4.0<" in html and ">19.2<" in html and ">3.4%<" in html
    ), "one reference, and the share of French that training holds"
    assert (
        "158,482" in html and "150,000" not in html and "50,000" not in html
    ), "a row shows on how many pairs it was trained"
    counts = re.findall(r"<td[^>]*>(\d+)</td></tr>", views.shape_table().html.replace("\n", ""))
    assert counts == ["3", "2", "0", "1", "1"] and len(counts) == len(SIZES)


def test_changes_are_said_with_what_the_row_has_and_the_least_loss_is_first(made_up):
    assert views.change_rows(2000) == [
        {
            "": "subwords: 500, not 1,000",
            "loss": "-10.0%",
            "BLEU, best": "+1.0 [+0.5, +1.5]",
            "BLEU, end": "+5.0",
            "seeds": 1,
        },
        {
            "": "dropout: 0.1, not 0.3",
            "loss": "+20.0%",
            "BLEU, best": "-0.2 [-0.8, +0.2]",
            "BLEU, end": "+5.0",
            "seeds": 1,
        },
    ]
    assert views.change_said(10000, "layers=4") == "layers of each stack: 4, not 3"
    assert views.change_said(10000, "max_tokens=2048") == "tokens in a batch: 2,048, not 1,024"


def test_curves_and_the_epoch_to_stop_at(made_up):
    picture = views.loss_curves(2000)
    assert (
        "dropout 0.1: 3.20 after 3 epochs; dropout 0.3: 3.00 after 3 epochs" in picture.caption
        and "2,000 pairs" in picture.caption
    )
    assert views.stop_rows() == [
        {
            "pairs": "2,000",
            "epochs": "4",
            "best epoch": "3",
            "BLEU there": "7.0",
            "BLEU at the end": "5.0",
        }
    ]


def test_a_run_that_was_best_at_its_end_has_one_score(monkeypatch):
    whole = {"cells": [], "runs": [a_run(2000, seed, 8.0) for seed in (1, 2, 3)]}
    monkeypatch.setattr(views, "recorded", lambda name: whole)
    assert views.stop_rows()[0]["BLEU at the end"] == views.stop_rows()[0]["BLEU there"] == "8.0"


def test_answers_side_by_side(made_up):
    html = views.answers_table(["Go."], [2000]).html
    assert "Go." in html and "Pars." in html and "2,000 pairs" in html
    with pytest.raises(KeyError):
        views.answers_table(["Stay."], [2000])


def test_ways_to_use_captions(monkeypatch):
    def cell(text, everyday, captions):
        gains = (
            []
            if text == "real"
            else [
                {
                    "seeds": [1],
                    **{
                        test: {"value": value, "low": value - 1, "high": value + 1}
                        for test, value in (("tatoeba", everyday - 30), ("multi30k", captions - 12))
                    },
                }
            ]
        )
        return a_cell(50_000, text, seeds=[1]) | {
            "epochs": 4,
            "bleu": {"tatoeba": {"mean": everyday}, "multi30k": {"mean": captions}},
            "more_than": gains,
        }

    cells = [
        cell("captions", 2, 22.5),
        cell("mixed", 31, 24),
        cell("real", 30, 12),
        cell("tuned", 28, 25),
    ]
    cells.append(
        a_cell(50_000) | {"bleu": {"tatoeba": {"mean": 40}}}
    )  # the whole run knows no captions

    def run_of(cell, seed, more=0.0):
        tests = {
            test: {"all": {"bleu": {"value": one["mean"] + more}}}
            for test, one in cell["bleu"].items()
        }
        return a_run(50_000, seed, 5.0, cell["text"]) | {
            "epochs": 4,
            "best_step": 2000 if cell["text"] == "real" else 500,
            "tests": tests,
        }

    cells[2]["seeds"] = [1, 2]  # everyday pairs alone were run once more, for another part
    runs = [run_of(cell, 1) for cell in cells[:4]] + [run_of(cells[2], 2, more=5.0)]
    monkeypatch.setattr(
        views, "recorded", lambda name: {"cells": cells, "runs": runs + [a_run(50_000, 1, 9.0)]}
    )
    assert views.domain_rows() == [
        {"": "everyday pairs alone", "updates": "2,000", "everyday": "30.0", "captions": "12.0"},
        {
            "": "captions mixed in",
            "updates": "500",
            "everyday": "31.0, +1.0 [+0.0, +2.0]",
            "captions": "24.0, +12.0 [+11.0, +13.0]",
        },
        {
            "": "then tuned on captions",
            "updates": "2,500",
            "everyday": "28.0, -2.0 [-3.0, -1.0]",
            "captions": "25.0, +13.0 [+12.0, +14.0]",
        },
        {
            "": "captions alone",
            "updates": "500",
            "everyday": "2.0, -28.0 [-29.0, -27.0]",
            "captions": "22.5, +10.5 [+9.5, +11.5]",
        },
    ]
    del cells[1]
    with pytest.raises(KeyError, match="mixed"):
        views.domain_rows()


# What the page says of the real record ------------------------------------------------------------


def test_the_page_says_what_so_many_pairs_gave():
    few, more, many, every = (
        views.scores_of(views.runs_of(pairs), "bleu") for pairs in (2_000, 10_000, 50_000, 150_000)
    )
    assert (
        [size.pairs for size in views.measured(1)] == [2_000, 10_000, 50_000, 150_000, 1_000_000]
        and max(few) < 10 < 20 < min(more)
        and every[0] > 50
    )
    assert views.runs_of(150_000)[0]["train_pairs"] == 158_482 and [
        run["seed"] for run in views.runs_of(50_000)
    ] == [1, 2, 3]
    (mixed,) = views.runs_of(1_000_000)
    assert (
        mixed["text"] == "general"
        and mixed["train_pairs"] == 1_000_000
        and round(1 - 158_482 / 1e6, 2) == 0.84
        and mixed["size"]["epochs"] == 5
    )
    assert (
        round(1 / mixed["epochs_run"]) == 7
        and round(mixed["tokens"] / 1e6, 1) == 4.0
        and 55 < mixed["cpu_seconds"] / 60 < 65
    ), "an hour, a seventh of an epoch"
    assert (
        round(views.scores_of([mixed], "bleu")[0]) == 24 and 24 < min(more) < 26
    ), "about as many as ten thousand everyday pairs"
    means = [round(mean(some), 1) for some in (few, more, many, every)]
    assert (
        all(17 <= after - before < 18.5 for before, after in zip(means[:2], means[1:3]))
        and round(means[3] - means[2]) == 11
        and round(means[2]) == 45
    )
    assert sorted(round(run["cpu_seconds"] / 60) for run in views.runs_of(50_000)) == [39, 41, 78]
    assert (
        1 / 9.5 < views.runs_of(150_000)[0]["copied_answers"] < 1 / 8.5
    ), "one answer in nine could have been met"
    said = {
        pairs: {source: one for source, _, one in views.runs_of(pairs)[0]["shown"]}
        for pairs in (10_000, 50_000, 150_000)
    }
    assert (
        said[50_000]["My shoelaces came undone."] == "Mes chaussettes sont entrées."
        and said[50_000]["I need a heavy coat."] == "J'ai besoin d'un manteau lourd."
    )
    assert said[50_000]["Boys, as a rule, are taller than girls."].startswith(
        "Les garçons, une règle,"
    )
    for source, reference, _ in views.runs_of(10_000)[0]["shown"]:
        if source in ("I don't like coffee.", "That's exactly what I thought."):
            assert said[10_000][source] == said[150_000][source] == reference
    assert (
        said[10_000]["My shoelaces came undone."] == "Ma confiance est venu des chaussures."
        and said[150_000]["My shoelaces came undone."] == "Mes lacets sont défaits."
    )
    assert (
        said[10_000]["I need a heavy coat."] == "J'ai besoin d'être un manteau."
        and said[150_000]["I need a heavy coat."] == "J'ai besoin d'un lourd manteau."
    )
    assert (
        "une règle est plus grande que les filles" in said[150_000][
            "Boys, as a rule, are taller than girls."
        ]
    )


def test_the_page_says_what_became_of_other_pairs():
    pairs = views.recorded("other-pairs")["pairs"]
    first = {
        name: {
            score["metric"]: score["value"]
            for score in one["scores"]
            if score.get("references") == "first"
        }
        for name, one in pairs.items()
    }
    assert list(first) == ["en-de", "de-en", "fr-en", "en-signs"] and all(
        9_800 < one["data"]["train"] < 10_000 for one in pairs.values()
    )
    assert [round(one["BLEU"]) for one in first.values()] == [20, 24, 31, 43], "the last of signs"
    assert (
        pairs["fr-en"]["interval"]["first"]["low"]
        > pairs["de-en"]["interval"]["first"]["high"]
        > pairs["de-en"]["interval"]["first"]["low"]
        > pairs["en-de"]["interval"]["first"]["high"]
    )
    assert (
        abs(first["en-de"]["chrF"] - first["de-en"]["chrF"]) < 1
        and 6 < first["fr-en"]["chrF"] - first["de-en"]["chrF"] < 7.1
        and round(first["en-signs"]["chrF"]) == 40
    )
    answers = [row["answer"] for row in views.other_answers(["en-de", "de-en", "fr-en"])]
    assert answers[5] == "They're our children." and len(answers) == 6
    assert "Bierung" in answers[0] and "Stickung" in answers[1], "words that don't exist"


def test_the_page_says_what_wrong_lines_cost():
    rows = {row["added"]: row for row in views.noise_rows()}
    cells = views.cells_by_text(50_000, 4)
    cost = {kind: cells[kind]["more_than"][0]["tatoeba"] for kind in views.NOISE if kind in cells}
    assert set(rows) == set(views.NOISE.values()) and all(
        cell["seeds"] == [1] for cell in cells.values()
    )
    assert (
        min(cost, key=lambda kind: cost[kind]["value"]) == "untranslated"
        and cost["untranslated"]["value"] < 2 * cost["misaligned"]["value"] < -4
    )
    seeds = views.scores_of(views.runs_of(10_000), "bleu")
    assert round(max(seeds), 1) - round(min(seeds), 1) == pytest.approx(
        1.1
    ), "the page's measure of how far seeds differ"
    assert all(one["high"] < 0 for one in cost.values()) and [
        round(cost[kind]["value"], 1) for kind in ("misaligned", "wrong-language", "misordered")
    ] == [-2.3, -1.6, -1.4]
    without = {
        kind: cells[f"{kind}+filtered"]["more_than"][0]["tatoeba"]
        for kind in views.NOISE
        if f"{kind}+filtered" in cells
    }
    assert (
        set(without) == {"misaligned", "wrong-language", "misordered"}
        and rows["English on both sides"]["worst tenth out"] == "finds 0%"
    )
    assert all(
        one["low"] < 0 < one["high"]
        and abs(one["value"]) < 1
        and cells[f"{kind}+filtered"]["seeds"] == [1]
        for kind, one in without.items()
    ), "could be zero"
    brought = {
        kind: next(
            gain["tatoeba"]
            for gain in cells[f"{kind}+filtered"]["more_than"]
            if gain["text"] == kind
        )
        for kind in without
    }
    assert [
        round(brought[kind]["value"], 1) for kind in ("misaligned", "wrong-language", "misordered")
    ] == [2.4, 2.3, 1.3] and all(one["low"] > 0 for one in brought.values())
    cleaned = {
        kind: cells[f"{kind}+cleaned"]["more_than"][0]["tatoeba"]
        for kind in views.NOISE
        if f"{kind}+cleaned" in cells
    }
    assert {kind: round(one["value"], 1) for kind, one in cleaned.items()} == {
        "wrong-language": -0.2,
        "untranslated": -0.6,
    } and all(one["low"] < 0 < one["high"] for one in cleaned.values())
    assert all(
        rows[views.NOISE[kind]]["cleaned"] in ("finds 0%", "finds 1%")
        for kind in views.NOISE
        if kind not in cleaned
    )
    lossy = {row["added"]: row for row in views.noise_losses()}
    assert all(
        abs(float(lossy[views.NOISE[kind]]["cleaned"].rstrip("%"))) < 1 for kind in cleaned
    ), "within one percent of clean pairs"
    losses = {
        kind: [
            float(lossy[views.NOISE[kind]][way].rstrip("%"))
            for way in ("on all lines", "worst tenth out")
        ]
        for kind in without
    }
    assert losses["misaligned"] == [3.5, 2.0]
    assert (
        [after < before for before, after in losses.values()]
        == [True, False, False]
        == [kind == "misaligned" for kind in without]
    ), "falls for one kind only"
    assert (
        0.12 < float(lossy["English on both sides"]["repeated"].rstrip("%")) / 100 < 0.13
    ), "one in eight"
    found = {kind: runs[0]["found"] for kind, runs in views.noisy_runs().items() if kind != "real"}
    wrong = {kind: one["own score"]["recall"] * 5_000 for kind, one in found.items()}
    good = {kind: one["own score"]["false_alarms"] * 50_000 for kind, one in found.items()}
    assert all(
        0.3 < good[kind] / (good[kind] + wrong[kind]) < 0.56 for kind in without
    ), "a third to a little over a half of it was good"
    assert all(
        one["lopsided"]["recall"] < 0.02 for one in found.values()
    ), "lengths find at most one in a hundred"
    assert round(found["untranslated"]["copied"]["recall"], 2) == 0.82
    assert (
        found["untranslated"]["all rules"]["recall"]
        > 0.95
        < found["wrong-language"]["all rules"]["recall"]
        and found["misaligned"]["all rules"]["recall"] < 0.02
    )
    assert (
        found["untranslated"]["own score"]["recall"] < 0.01
        and 0.7 < found["misaligned"]["own score"]["recall"] < 0.8
    )
    assert (
        0.6 < found["misordered"]["own score"]["recall"] < 0.7
        and found["misordered"]["all rules"]["recall"] < 0.02
    )
    assert all(
        0.03 < found[kind]["own score"]["false_alarms"] < 0.05
        for kind in ("misaligned", "misordered")
    )


def test_the_page_says_what_synthetic_pairs_bring():
    run, cells = views.reverse_run(10_000), views.cells_by_text(10_000, 0)
    assert run["monolingual"] == 40_000 and run["in_test"][0] == 4
    made = {french: both for french, *both in run["shown"]}
    assert (
        made["Je sais que tu veux l'aider."][0] == "I know you want to help it."
        and made["J'ai invité mes amis à venir prendre le café."][0]
        == "I invited my friends to come the coffee."
    )
    assert (
        made["Tom a vendu sa voiture à Mary pour trois cents dollars."][0]
        == "Tom fell to Mary by three hundred dollars."
    )
    gains = {
        text: cells[text]["more_than"][0]["tatoeba"]
        for text in ("greedy", "greedy+tagged", "sampled")
    }
    assert [round(gain["value"], 1) for gain in gains.values()] == [1.5, 1.3, -1.0]
    better = gains["greedy"]["each"] + gains["greedy+tagged"]["each"]
    assert (
        len(better) == 6 and round(min(better), 1) == 0.8 and round(max(better), 1) == 2.7
    ), "all six gain"
    assert 0 < gains["greedy"]["low"] < 0.1 > gains["greedy+tagged"]["low"] > 0, "just above zero"
    assert (
        round(cells["greedy+tagged"]["more_than"][1]["tatoeba"]["value"], 1) == -0.2
        and cells["greedy+tagged"]["more_than"][1]["text"] == "greedy"
    )
    assert (
        max(gains["sampled"]["each"]) < 0 < gains["sampled"]["high"]
    ), "all three have less, and the interval includes zero"
    steps = {
        run["steps"]
        for run in views.recorded("own-pair")["runs"]
        if run["pairs"] == 10_000 and run["text"] != "reverse" and not run["change"]
    }
    assert len(steps) == 1, "the same number of updates"
    losses = [float(row["loss"].rstrip("%")) for row in views.back_rows([10_000]) if row["loss"]]
    assert len(losses) == 3 and all(
        -15.5 < loss < -12.5 for loss in losses
    ), "13 to 15 percent less"
    assert {text: cells[text]["seeds"] for text in gains} == dict.fromkeys(gains, [1, 2, 3])
    rows = {row[""]: row["gain"] for row in views.back_rows([10_000])}
    assert [text for text, gain in rows.items() if gain and "undecided" not in gain] == [
        views.BACK["greedy+tagged"]
    ], "decided with the tag alone"


def test_the_page_says_what_synthetic_pairs_bring_to_more_pairs():
    run, cells = views.reverse_run(50_000), views.cells_by_text(50_000, 0)
    assert run["monolingual"] == 100_000 and run["in_test"] == [11]
    assert [
        round(views.reverse_run(pairs)["tests"]["tatoeba, reversed"]["all"]["bleu"]["value"])
        for pairs in (50_000, 10_000)
    ] == [46, 27]
    assert {text: cell["seeds"] for text, cell in cells.items() if text in views.BACK} == {
        "real": [1, 2, 3],
        "greedy": [1],
        "greedy+tagged": [1],
    }
    plain, tagged = (cells[text]["more_than"][0]["tatoeba"] for text in ("greedy", "greedy+tagged"))
    assert [round(gain["value"], 1) for gain in (plain, tagged)] == [1.0, 2.1] and plain[
        "low"
    ] < 0 < tagged["low"]
    real = views.scores_of(views.runs_of(50_000), "bleu")
    assert real[0] == min(real) and round(mean(real) - real[0], 1) == 0.7, "the worst of the three"
    losses = [float(row["loss"].rstrip("%")) for row in views.back_rows([50_000]) if row["loss"]]
    assert all(-9 < loss < -8 for loss in losses) and len(losses) == 2
    assert (
        len(
            {
                run["steps"]
                for run in views.recorded("own-pair")["runs"]
                if run["pairs"] == 50_000 and run["epochs"] == 0 and run["text"] != "reverse"
            }
        )
        == 1
    )


def test_the_page_says_which_changes_help():
    rows = {row[""]: row for row in views.change_rows(2_000)}
    assert (
        next(iter(rows)) == "dropout: 0.4, not 0.3" and list(rows)[-1] == "dropout: 0.1, not 0.3"
    ), "the least loss, and the highest"
    cells = {cell["change"]: cell["more_than"][0] for cell in views.changes_of(2_000)}
    assert [change for change, gain in cells.items() if len(gain["seeds"]) == 3] == [
        "dropout=0.4"
    ], "the one with three seeds"
    assert abs(float(rows["dropout: 0.1, not 0.3"]["BLEU, end"])) < 0.3, "about the same at the end"
    more, row = (
        views.scores_of(views.runs_of(2_000, change), "bleu") for change in ("dropout=0.4", "")
    )
    assert all(
        one < other for one, other in zip(more, row, strict=True)
    ), "lower at the end, with all three seeds"
    ends = {name: abs(float(row["BLEU, end"])) for name, row in rows.items()}
    assert set(sorted(ends, key=ends.get)[-2:]) == {
        "subwords: 2,000, not 1,000",
        "subwords: 500, not 1,000",
    }, "the vocabulary moves BLEU most"
    assert (
        float(rows["subwords: 2,000, not 1,000"]["BLEU, end"]) > 1
        and cells["vocabulary=2000"]["tatoeba"]["low"] > 0
    ), "higher at both points"
    assert float(rows["subwords: 500, not 1,000"]["BLEU, end"]) < -1
    (fewer,) = views.change_rows(10_000)
    assert (
        fewer[""] == "subwords: 1,000, not 2,000"
        and fewer["BLEU, end"] == "-3.2"
        and fewer["BLEU, best"].startswith("-3.2 [-4")
        and fewer["seeds"] == 1
    )


def test_the_page_says_that_bleu_does_not_follow_the_loss():
    few, more, many = views.stop_rows()
    assert (
        float(few["BLEU at the end"]) > float(few["BLEU there"]) + 1
        and int(few["best epoch"]) < 25 < int(few["epochs"]) == 40
    )
    steps = [
        run["steps"]
        for run in views.recorded("own-pair")["runs"]
        if (run["pairs"], run["text"], run["epochs"]) == (2_000, "real", 0)
    ]
    assert (min(steps), max(steps)) == (1360, 5240) and views.runs_of(2_000)[0][
        "steps"
    ] == 2600, "what the page says of equal epochs"
    assert (
        round(mean(views.scores_of(views.runs_of(2_000, "dropout=0.4"), "bleu", best=True)), 1)
        == 8.2
    )
    assert all(
        run["best_step"] == run["steps"] for run in views.runs_of(50_000)
    ), "the last epoch has the least loss"
    assert many["BLEU there"] == many["BLEU at the end"]
    assert abs(float(more["BLEU at the end"]) - float(more["BLEU there"])) < 0.5
    turn = {
        value: min(run["curve"], key=lambda point: point[1])[0] * run["epochs_run"] / run["steps"]
        for value, run in (
            (0.1, views.runs_of(2_000, change="dropout=0.1")[0]),
            (0.3, views.runs_of(2_000)[0]),
        )
    }
    assert turn[0.1] < 8 < turn[0.3], "after a few epochs, and later"


def test_the_page_says_what_becomes_of_another_subject():
    cells = views.domain_cells()
    assert {(cell["pairs"], cell["epochs"], tuple(cell["seeds"])) for cell in cells.values()} == {
        (50_000, 4, (1,))
    }, "short runs, one seed"
    everyday, captions = (
        {text: cell["bleu"][test]["mean"] for text, cell in cells.items()}
        for test in ("tatoeba", "multi30k")
    )
    assert (
        round(captions["real"]) == 10
        and round(captions["mixed"]) == 40
        and round(captions["tuned"]) == 29
    )
    assert (
        42.5 < captions["captions"] < 43.5 and everyday["captions"] < 5
    ), "a little more than mixed, and nothing else"
    gain = cells["mixed"]["more_than"][0]["tatoeba"]
    assert gain["low"] < 0 < gain["high"], "everyday sentences lose nothing that is decided"
    assert 0.45 < everyday["tuned"] / everyday["real"] < 0.52, "half of it forgotten"
    runs = {
        run["text"]: run
        for run in views.recorded("own-pair")["runs"]
        if (run["pairs"], run["epochs"]) == (50_000, 4)
    }
    assert 7.5 < runs["captions"]["best_epoch"] < 8.5, "eight times"
    assert {text: run["steps"] for text, run in runs.items() if text in views.DOMAIN} == {
        "real": 2456,
        "mixed": 2956,
        "captions": 2956,
        "tuned": 500,
    }
    assert (
        runs["captions"]["best_step"] == 2956 // 2
        and runs["tuned"]["best_step"] == 250
        and 1.0 < runs["tuned"]["best_epoch"] < 1.3
        and 3.5 < runs["mixed"]["epochs_run"] < 3.7
    )


def test_synthetic_pairs_beside_real_ones(monkeypatch):
    def cell(text, bleu, seeds, gain=None):
        gains = (
            []
            if gain is None
            else [
                {
                    "seeds": seeds,
                    "tatoeba": {"value": gain, "low": gain - 1, "high": gain + 1, "half": 3.5},
                }
            ]
        )
        return {
            "pairs": 10_000,
            "text": text,
            "change": "",
            "epochs": 0,
            "seeds": seeds,
            "more_than": gains,
            "bleu": {"tatoeba": {"mean": bleu, "low": bleu - 1, "high": bleu + 1}},
        }

    cells = [
        cell("sampled", 22, [1], -0.5),
        cell("greedy", 24, [1, 2], 3),
        cell("real", 21, [1, 2, 3]),
        cell("greedy+tagged", 25, [1, 2], 4.25),
    ]
    cells += [
        cell("real", 99, [1]) | {"epochs": 50},
        cell("real", 98, [1]) | {"change": "layers=1"},
        cell("real", 97, [1]) | {"pairs": 2000},
    ]
    runs = [
        a_run(10_000, seed, 21.0, text, loss=loss)
        for text, seed, loss in (
            ("real", 1, 1.0),
            ("real", 2, 1.5),
            ("real", 3, 9.0),
            ("greedy", 1, 0.9),
            ("greedy", 2, 1.1),
            ("greedy+tagged", 1, 1.0),
            ("greedy+tagged", 2, 1.0),
            ("sampled", 1, 1.02),
        )
    ]
    backwards = a_run(
        10_000, 1, 30.0, "reverse", shown=[["Va !", "Go!", "Leave!"], ["Oui.", "Yes.", "Yeah."]]
    )
    runs.append(backwards)
    monkeypatch.setattr(views, "recorded", lambda name: {"cells": cells, "runs": runs})
    assert views.back_rows([10_000, 50_000]) == [
        {
            "real pairs": "10,000",
            "": "real pairs alone",
            "BLEU": "21.0 (20.0 to 22.0)",
            "gain": "",
            "loss": "",
            "seeds": 3,
        },
        {
            "real pairs": "10,000",
            "": "+ synthetic",
            "BLEU": "24.0 (23.0 to 25.0)",
            "gain": "+3.0 [+2.0, +4.0], undecided",
            "loss": "-20.0%",
            "seeds": 2,
        },
        {
            "real pairs": "10,000",
            "": "+ synthetic, tagged",
            "BLEU": "25.0 (24.0 to 26.0)",
            "gain": "+4.2 [+3.2, +5.2]",
            "loss": "-20.0%",
            "seeds": 2,
        },
        {
            "real pairs": "10,000",
            "": "+ synthetic, sampled",
            "BLEU": "22.0",
            "gain": "-0.5 [-1.5, +0.5]",
            "loss": "+2.0%",
            "seeds": 1,
        },
    ]
    html = views.synthetic_table(10_000, ["Oui."]).html
    assert "Yeah." in html and "Leave!" not in html and "30.0 BLEU into English" in html
    for pairs, sentence in ((10_000, "Non."), (50_000, "Oui.")):
        with pytest.raises(KeyError, match=sentence if pairs == 10_000 else "50000"):
            views.synthetic_table(pairs, [sentence])


def test_what_noise_costs_and_what_finds_it(monkeypatch):
    def cell(text, value, more=()):
        return {
            "pairs": 50_000,
            "text": text,
            "change": "",
            "epochs": 4,
            "seeds": [1],
            "more_than": [
                {
                    "text": other,
                    "seeds": [1],
                    "tatoeba": {"value": one, "low": one - 1, "high": one + 1},
                }
                for other, one in (("real", value), *more)
                if one is not None
            ],
        }

    def found(recall):
        return {rule: {"recall": recall, "false_alarms": 0.01} for rule in views.RULES}

    cells = [
        cell("real", None) | {"bleu": {"tatoeba": {"mean": 38.0}}},
        cell("untranslated", -6),
        cell("untranslated+cleaned", 0.5),
        cell("misaligned", -2),
        cell("untranslated+filtered", -1, [("untranslated", 5)]),
    ]
    runs = [
        a_run(50_000, seed, 30.0 - seed, text) | {"epochs": 4, **more}
        for seed, text, more in (
            (2, "untranslated", {"found": found(0.5)}),
            (1, "untranslated", {"found": found(1.0), "repeats": 0.25, "valid_per_character": 1.2}),
            (1, "untranslated+filtered", {"valid_per_character": 1.1}),
            (
                1,
                "misaligned",
                {
                    "valid_per_character": 1.05,
                    "found": found(0.2) | {"all rules": {"recall": 0.01, "false_alarms": 0}},
                    "repeats": 0.002,
                },
            ),
            (1, "untranslated+cleaned", {"repeats": 0.0, "valid_per_character": 1.01}),
            (1, "real", {"repeats": 0.001}),
        )
    ]
    monkeypatch.setattr(
        views, "recorded", lambda name: {"cells": cells, "runs": [*runs, a_run(50_000, 1, 50.0)]}
    )
    assert [run["seed"] for run in views.noisy_runs()["untranslated"]] == [1, 2] and len(
        views.noisy_runs()["real"]
    ) == 1
    assert views.noise_rows() == [
        {
            "added": "French of another pair",
            "on all lines": "-2.0 [-3.0, -1.0]",
            "worst tenth out": "no run",
            "gain": "–",
            "cleaned": "finds 1%",
        },
        {
            "added": "English on both sides",
            "on all lines": "-6.0 [-7.0, -5.0]",
            "worst tenth out": "-1.0 [-2.0, +0.0]",
            "gain": "+5.0 [+4.0, +6.0]",
            "cleaned": "+0.5 [-0.5, +1.5]",
        },
    ]
    assert views.noise_losses() == [
        {
            "added": "French of another pair",
            "on all lines": "+5.0%",
            "worst tenth out": "no run",
            "cleaned": "no run",
            "repeated": "0.2%",
        },
        {
            "added": "English on both sides",
            "on all lines": "+20.0%",
            "worst tenth out": "+10.0%",
            "cleaned": "+1.0%",
            "repeated": "25.0%",
        },
    ]
    del cells[2]  # no run of what was cleaned, and no column
    assert (
        list(views.noise_rows()[0]) == ["added", "on all lines", "worst tenth out", "gain"]
        and "cleaned" not in views.noise_losses()[0]
    )
    assert views.clean_bleu() == 38.0
    assert (
        views.found_rows()[1]["copies"] == "75% (1.0%)"
        and views.found_rows()[0]["own score"] == "20% (1.0%)"
    )


def test_other_pairs_say_how_bleu_is_counted(monkeypatch):
    def one(bleu, cut):
        scores = [
            {"metric": "cross-entropy, nats a token", "value": 2.0},
            *(
                {
                    "metric": metric,
                    "references": which,
                    "value": value,
                    "signature": f"nrefs:1|tok:{cut}",
                }
                for which, more in (("first", 0), ("all", 9))
                for metric, value in (("BLEU", bleu + more), ("chrF", 40 + more))
            ),
        ]
        return {
            "scores": scores,
            "interval": {"first": {"low": bleu - 1, "high": bleu + 1}},
            "data": {"train": 10_000},
            "seconds": 1500,
        }

    monkeypatch.setattr(
        views,
        "recorded",
        lambda name: {"pairs": {"en-signs": one(30, "char"), "de-en": one(20, "13a")}},
    )
    assert views.other_rows() == [
        {
            "": "German to English",
            "training pairs": 10_000,
            "BLEU": "20.0 [19.0, 21.0]",
            "chrF": "40.0",
            "minutes": "25",
        },
        {
            "": "English to French in signs",
            "training pairs": 10_000,
            "BLEU": "30.0 [29.0, 31.0] (of signs)",
            "chrF": "40.0",
            "minutes": "25",
        },
    ]


def test_answers_of_other_pairs(monkeypatch):
    shown = [["Geh!", "Go.", "Go."], ["Ja.", "Yes.", "No."], ["Nein.", "No.", "Yes."]]
    monkeypatch.setattr(views, "recorded", lambda name: {"pairs": {"de-en": {"shown": shown}}})
    assert views.other_answers(["de-en"]) == [
        {"sentence": "Geh!", "reference": "Go.", "answer": "Go."},
        {"sentence": "Ja.", "reference": "Yes.", "answer": "No."},
    ]
    with pytest.raises(KeyError, match="en-fr"):
        views.other_answers(["en-fr"])
