"""Chapter 26's figures and tables say what they are given."""
import json
import re

import torch

from transformer_lit.support import fair, family_views as views


def shown(picture):
    return re.findall(r"<t[dh] [^>]*>([^<]*)<", picture._repr_html_())


LEAKS = {"cover_nothing": ([2.0] * 5 + [0.5] * 20, 0.1), "covered": ([3.0] * 25, 0.6)}


def test_ways_to_cover():
    assert views.end_of(LEAKS["cover_nothing"][0]) == 0.5
    drawn = views.losses_by_way(LEAKS)
    assert "cover nothing 0.50, covered 3.00" in repr(drawn) and drawn.caption == (
        "The lowest loss, 0.50, belongs to cover nothing; covered ends at 3.00. Gaps filled right: cover nothing 10%, covered 60%.")
    cells = shown(views.covering_table(["il", "est"], torch.tensor([0.71, 0.09]), torch.tensor([0.2, 0.3]), ["il", "<gap>"], ["", "est"]))
    assert cells[5:10] == ["il", "0.71", "–", "il", "–"] and cells[11:] == ["0.09", "0.30", "&lt;gap&gt;", "est"]


def test_what_is_read():
    sight = torch.tensor([[True, False, True], [True, False, False]])
    assert views.reading_map(sight, [views.ONE, views.LEFT], ["il", "est", "."], 1).caption == (
        "To name the gap, of 3 places encoder-only reads 2, decoder-only reads 1.")


def test_one_table_of_all_tasks():
    once, many = "encoder-only, one look", "encoder-only, a look per word"
    ways = [once, many, views.LEFT, views.TWO]
    filled = {name: {"il or elle": 0.5, "any word": k / 10} for k, name in enumerate((views.ONE, views.LEFT, "decoder-only, 16 looks", views.TWO))}
    cells = shown(views.all_tasks(filled, {way: k for k, way in enumerate(ways)}, {way: {"exact": 0.25, "BLEU": 10.0 * k} for k, way in enumerate(ways)}))
    rows = [cells[k:k + 6] for k in range(6, len(cells), 6)]
    assert [row[0] for row in rows] == [once, many, views.LEFT, "decoder-only, 16 looks", views.TWO]
    assert rows[0][1:] == ["50%", "0%", "0.00", "25%", "0.0"] and rows[1][1:] == ["", "", "1.00", "25%", "10.0"]
    assert rows[3][1:] == ["50%", "20%", "", "", ""] and rows[4][1:] == ["50%", "30%", "3.00", "25%", "30.0"]


def test_drawing_and_famous_models():
    image = torch.arange(16.).view(4, 4)
    drawn = views.cut_into_patches(image, image)
    assert "four patches" in repr(drawn) and drawn.caption == "An image of 16 pixels becomes 4 tokens of 4 numbers."
    assert shown(views.famous())[:4] == ["model", "family", "a token is", "it learns to say"]


def test_products_and_sums():
    cells = shown(views.products_table({"both at once": torch.full((2, 2), 0.25)}))
    assert cells[4:] == ["both at once", "0.25", "0.25", "1.00"]

    def from_the_left(): ...

    assert shown(views.sums_table([(views.LEFT, from_the_left)], [0.99996]))[3:] == ["decoder-only", "from the left", "1.0000"]


def test_pictures_of_who_sees():
    full, low = torch.ones(3, 3).bool(), torch.ones(3, 3).tril().bool()
    assert views.who_moves_whom({views.ONE: full, views.LEFT: low}, list("abc")).caption == (
        "Squares in which the row's state moves with the column's word: encoder-only 9 of 9, decoder-only 6 of 9.")
    told = views.same_picture({"prefix": full, "other": low.T, "twin": low}, {views.ONE: full, views.LEFT: low})
    assert str(told) == "The picture of prefix is the encoder-only one. The picture of other is none of the three. The picture of twin is the decoder-only one."


def test_shares_and_ways():
    hits = torch.arange(400) < 100  # a quarter; the standard error of a half is 1/40
    picture = views.shares_table({"gap": (0.5, hits)})
    assert shown(picture)[-4:] == ["gap", "50%", "25.0%", "−10.0"] and "at most 10.0" in picture.html
    picture = views.ways_to_ask({"cover_nothing": {"copier is right": 1.0}, "covered": {"copier is right": 0.1}})
    assert "What a copier gets right: cover nothing 100%, covered 10%" in picture.html


def test_trainings():
    assert views.smoothed([4.0, 2.0, 0.0], 2) == [4.0, 3.0, 1.0]
    assert views.three_trainings({views.ONE: [3.0] * 12, views.LEFT: [4.0] * 12}).caption == (
        "Three questions, three losses: encoder-only from 3.00 to 3.00, decoder-only from 2.00 to 2.00.")
    assert shown(views.efforts({views.ONE: 1200}, {views.ONE: [1.0] * 8}, {views.ONE: 2 * 10 ** 9}, {views.ONE: (1, 2)}))[-5:] == [
        views.ONE, "1,200", "8", "2,000", "1.5"]


def test_answers():
    assert shown(views.gaps_filled({views.ONE: {"any word": 0.5}}, 3))[-2:] == [views.ONE, "50%"]
    assert views.continuing({views.LEFT: 1.5, f"{views.ONE}, one look": 9.0}).caption == (
        "Perplexity of the rest, from 1.50 (decoder-only) to 9.00 (encoder-only, one look).")
    assert shown(views.ends_table("il", {views.ONE: "dort ."}))[1:] == ["il …", views.ONE, "dort ."]
    assert shown(views.translations({views.ONE: {"BLEU": 3.14, "exact": 0.25, "the first one": "il"}}, "he", "s"))[-4:] == [views.ONE, "3.1", "25%", "il"]


def test_recorded_runs_by_steps(tmp_path, monkeypatch):
    def run(steps, seed, value, peak=6e-3):
        return {"steps": steps, "seed": seed, "peak": peak, "filled": {"b": {"il or elle": value}, "a": {"il or elle": 0.5}},
                "perplexity": {"a": value}, "translated": {"a": {"BLEU": 10 * value}}}
    (tmp_path / "families.json").write_text(json.dumps({"runs": [
        run(800, 2, 0.5), run(800, 1, 0.25), run(3200, 1, 1.0), run(3200, 2, 1.0), run(3200, 1, 0.0, 3e-3)]}))
    monkeypatch.setattr(fair, "shipped", lambda name: tmp_path / name.split("/")[-1])
    assert [one["seed"] for one in views.recorded_runs(800)] == [1, 2] and len(views.recorded_runs(3200, 3e-3)) == 1
    picture = views.with_more_steps(["il or elle"])
    assert shown(picture) == ["", "il or elle, 800", "il or elle, 3,200", "a", "50 (50 to 50)", "50 (50 to 50)", "b", "38 (25 to 50)", "100 (100 to 100)"]
    assert "Percent of gaps filled right after 800 and 3,200 steps; 2 seeds" in picture.html
    picture = views.with_more_steps(["perplexity", "BLEU"])
    assert shown(picture)[5:] == ["a", "0.4 (0.2 to 0.5)", "1.0 (1.0 to 1.0)", "4 (2 to 5)", "10 (10 to 10)"] and "Continued and translated" in picture.html


def test_chapter_26_says_what_more_steps_change():
    few, many = (views.recorded_runs(steps) for steps in (800, 3200))
    assert [run["seed"] for run in few] == [run["seed"] for run in many] == [1, 2, 3]
    each = "encoder-only, a look per word"

    def pronoun(run, way):
        return run["filled"][way]["il or elle"]

    assert round(sum((1 - pronoun(run, views.ONE)) * run["unseen"] for run in many)) == 1 and max(pronoun(run, views.TWO) for run in few) < 0.6
    assert round(100 * sum(pronoun(run, views.TWO) for run in many) / 3) == 95
    assert all(pronoun(a, "decoder-only, 16 looks") == 1 > 0.91 > pronoun(b, "decoder-only, 16 looks") for a, b in zip(few, many)), "a start that is lost"
    assert all(0.45 < pronoun(run, views.LEFT) < 0.56 for run in few + many), "a coin from the left, however long it trains"
    assert [round(sum(run["translated"][each]["BLEU"] for run in runs) / 3) for runs in (few, many)] == [34, 90]
    assert [f"{sum(run['perplexity'][views.LEFT] for run in runs) / 3:.1f}" for runs in (few, many)] == ["2.1", "4.7"]
    assert all(b["last_losses"][views.LEFT] < a["last_losses"][views.LEFT] - 0.2 for a, b in zip(few, many)), "the training loss falls all the same"
    other_rates = [views.recorded_runs(3200, peak) for peak in (3e-3, 1.2e-2)]
    assert [len(runs) for runs in other_rates] == [1, 1]
    for run in [*many, *other_rates[0], *other_rates[1]]:
        assert run["perplexity"][views.LEFT] > 1.5 * run["perplexity"][each]
        assert pronoun(run, views.ONE) > 0.99 > 0.95 > pronoun(run, "decoder-only, 16 looks") and run["translated"][each]["BLEU"] > 70
