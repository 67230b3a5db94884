"""Chapter 26's figures and tables say what they are given."""

import json
import math
import re

import pytest
import torch

from transformer_lit.equal_cost import difference
from litbook import fair
from litbook.drawings import family_views as views


def shown(picture):
    return re.findall(r"<t[dh] [^>]*>([^<]*)<", picture._repr_html_())


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Runs of two sentences and three seeds. In half of the measures 3,200 steps are better by far,
    and the seeds hardly differ.

    A trigram has a perplexity of e to the 0.9, as one word of 0.5 nats and two of 1.1 have."""

    def run(steps, seed):
        early, bit = steps == 800, seed / 1000
        shares = {
            way: {"il or elle": 0.5 if early else 1.0, "any word": 0.5} for way in views.FILLERS
        }
        nats = {
            way: [(2 if early else 1) + bit, (4 if early else 2) + bit] for way in views.SPEAKERS
        } | {views.LEFT: [1.0 + bit, 2.0 + bit]}
        return {
            "steps": steps,
            "seed": seed,
            "peak": 6e-3,
            "unseen": 2,
            "commits": ["c0ffee" * 6 + "c0ff"],
            "wall_seconds": 51.3,
            "filled": shares,
            "filled_right": {
                way: {"il or elle": "01" if early else "11", "any word": "10"} for way in shares
            },
            "rest_words": [1, 2],
            "rest_nats": nats,
            "perplexity": {way: math.exp(sum(some) / 3) for way, some in nats.items()},
            "translated": {
                way: {
                    "BLEU": 40.0 if early else 90.0 + seed,
                    "chrF": 55.0,
                    "exact": 0.5,
                    "right": "01",
                }
                for way in views.SPEAKERS
            },
            "signatures": {"BLEU": "nrefs:1|tok:13a", "chrF": "nrefs:1|nc:6"},
            "ngrams": {
                name: {"perplexity": math.exp(value), "nats": [value - 0.4, 2 * value + 0.4]}
                for name, value in (("unigram", 3.0), ("bigram", 1.0), ("trigram", 0.9))
            },
        }

    (tmp_path / "families.json").write_text(
        json.dumps({"runs": [run(steps, seed) for steps in (3200, 800) for seed in (2, 1, 3)]})
    )
    monkeypatch.setattr(fair, "shipped", lambda name: tmp_path / name.split("/")[-1])


def rows_of(picture):
    "The rows of all tables of a picture or of HTML, without markup."
    html = picture if isinstance(picture, str) else picture._repr_html_()
    return [
        [re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<t[dh].*?</t[dh]>", row)]
        for row in re.findall(r"<tr>.*?</tr>", html)
    ]


def rows_under_headings(picture):
    "(heading, name) -> the other cells, of a table whose headings stand alone in their rows."
    found, heading = {}, ""
    for name, *cells in rows_of(picture)[1:]:
        if not any(cells):
            heading = name
        else:
            found[heading, name] = cells
    return found


LEAKS = {"cover_nothing": ([2.0] * 5 + [0.5] * 20, 0.1), "covered": ([3.0] * 25, 0.6)}


def test_ways_to_cover():
    assert views.end_of(LEAKS["cover_nothing"][0]) == 0.5
    drawn = views.losses_by_way(LEAKS)
    assert (
        "cover nothing 0.50, covered 3.00" in repr(drawn)
        and drawn.caption
        == "The lowest loss, 0.50, belongs to cover nothing; covered ends at 3.00. Gaps filled"
        " right: cover nothing 10%, covered 60%."
    )
    cells = shown(
        views.covering_table(
            ["il", "est"],
            torch.tensor([0.71, 0.09]),
            torch.tensor([0.2, 0.3]),
            ["il", "<gap>"],
            ["", "est"],
        )
    )
    assert cells[5:10] == ["il", "0.71", "–", "il", "–"] and cells[11:] == [
        "0.09",
        "0.30",
        "&lt;gap&gt;",
        "est",
    ]


def test_what_is_read():
    sight = torch.tensor([[True, False, True], [True, False, False]])
    assert (
        views.reading_map(sight, [views.ONE, views.LEFT], ["il", "est", "."], 1).caption
        == "To name the gap, of 3 places encoder-only reads 2, decoder-only reads 1."
    )


def test_one_table_of_all_tasks():
    once, many = "encoder-only, one look", "encoder-only, a look per word"
    ways = [once, many, views.LEFT, views.TWO]
    filled = {
        name: {"il or elle": 0.5, "any word": k / 10}
        for k, name in enumerate((views.ONE, views.LEFT, "decoder-only, 16 looks", views.TWO))
    }
    cells = shown(
        views.all_tasks(
            filled,
            {way: k for k, way in enumerate(ways)},
            {way: {"exact": 0.25, "BLEU": 10.0 * k} for k, way in enumerate(ways)},
        )
    )
    rows = [cells[k : k + 6] for k in range(6, len(cells), 6)]
    assert [row[0] for row in rows] == [once, many, views.LEFT, "decoder-only, 16 looks", views.TWO]
    assert rows[0][1:] == ["50%", "0%", "0.00", "25%", "0.0"] and rows[1][1:] == [
        "",
        "",
        "1.00",
        "25%",
        "10.0",
    ]
    assert rows[3][1:] == ["50%", "20%", "", "", ""] and rows[4][1:] == [
        "50%",
        "30%",
        "3.00",
        "25%",
        "30.0",
    ]


def test_drawing_and_famous_models():
    image = torch.arange(16.0).view(4, 4)
    drawn = views.cut_into_patches(image, image)
    assert (
        "four patches" in repr(drawn)
        and drawn.caption == "An image of 16 pixels becomes 4 tokens of 4 numbers."
    )
    assert shown(views.famous())[:4] == ["model", "family", "a token is", "it learns to say"]


def test_products_and_sums():
    cells = shown(views.products_table({"both at once": torch.full((2, 2), 0.25)}))
    assert cells[4:] == ["both at once", "0.25", "0.25", "1.00"]

    def from_the_left(): ...

    assert shown(views.sums_table([(views.LEFT, from_the_left)], [0.99996]))[3:] == [
        "decoder-only",
        "from the left",
        "1.0000",
    ]


def test_pictures_of_who_sees():
    full, low = torch.ones(3, 3).bool(), torch.ones(3, 3).tril().bool()
    assert (
        views.who_moves_whom({views.ONE: full, views.LEFT: low}, list("abc")).caption
        == "Squares in which the row's state moves with the column's word: encoder-only 9 of 9,"
        " decoder-only 6 of 9."
    )
    told = views.same_picture(
        {"prefix": full, "other": low.T, "twin": low}, {views.ONE: full, views.LEFT: low}
    )
    assert (
        str(told)
        == "The picture of prefix is the encoder-only one. The picture of other is none of the"
        " three. The picture of twin is the decoder-only one."
    )


def test_shares_and_ways():
    hits = torch.arange(400) < 100  # a quarter; the standard error of a half is 1/40
    picture = views.shares_table({"gap": (0.5, hits)})
    assert (
        shown(picture)[-4:] == ["gap", "50%", "25.0%", "−10.0"] and "at most 10.0" in picture.html
    )
    picture = views.ways_to_ask(
        {"cover_nothing": {"copier is right": 1.0}, "covered": {"copier is right": 0.1}}
    )
    assert "What a copier gets right: cover nothing 100%, covered 10%" in picture.html


def test_trainings():
    assert views.smoothed([4.0, 2.0, 0.0], 2) == [4.0, 3.0, 1.0]
    assert (
        views.three_trainings({views.ONE: [3.0] * 12, views.LEFT: [4.0] * 12}).caption
        == "Three questions, three losses: encoder-only from 3.00 to 3.00, decoder-only from 2.00"
        " to 2.00."
    )
    assert shown(
        views.efforts(
            {views.ONE: 1200}, {views.ONE: [1.0] * 8}, {views.ONE: 2 * 10**9}, {views.ONE: (1, 2)}
        )
    )[-5:] == [views.ONE, "1,200", "8", "2,000", "1.5"]


def test_answers():
    assert shown(views.gaps_filled({views.ONE: {"any word": 0.5}}, 3))[-2:] == [views.ONE, "50%"]
    assert shown(views.ends_table("il", {views.ONE: "dort ."}))[1:] == ["il …", views.ONE, "dort ."]
    assert shown(
        views.translations(
            {views.ONE: {"BLEU": 3.14, "exact": 0.25, "the first one": "il"}}, "he", "s"
        )
    )[-4:] == [views.ONE, "3.1", "25%", "il"]


def test_continuing_stands_beside_ngrams(recorded):
    drawn = views.continuing({views.LEFT: 1.5, views.ONCE: 9.0})
    assert (
        drawn.caption
        == "Perplexity of the rest, from 1.50 (decoder-only) to 9.00 (encoder-only, one look). "
        "N-grams that see the French alone: trigram 2.46, bigram 2.72, unigram 20.09."
    )
    assert "A trigram has 2.46." in repr(drawn) and "trigram of the French alone" in drawn.html


def test_recorded_runs_by_steps(recorded):
    assert [one["seed"] for one in views.recorded_runs(800)] == [
        1,
        2,
        3,
    ] and not views.recorded_runs(3200, 3e-3)
    picture = views.with_more_steps(["il or elle", "any word"])
    rows = rows_of(picture)
    assert (
        rows[0] == ["", "il or elle, 800", "il or elle, 3,200", "any word, 800", "any word, 3,200"]
        and len(rows) == 1 + 4 + 1 + 6
    )
    assert rows[1] == [
        views.LEFT,
        "50 (50 to 50)",
        "100 (100 to 100)",
        "50 (50 to 50)",
        "50 (50 to 50)",
    ]
    assert "Percent of gaps filled right after 800 and 3,200 steps; 3 seeds" in picture.html
    assert rows[6] == [
        "python bench/families.py --steps 800 --peak 0.006 --seed 1",
        "c0ffeec",
        "51",
    ], "every run with its command"
    assert "All of them: python bench/fair.py run --part &quot;three families&quot;" in picture.html
    picture = views.with_more_steps(["perplexity", "BLEU", "chrF"])
    rows = rows_of(picture)
    assert rows[3] == [
        views.EACH,
        "7.4 (7.4 to 7.4)",
        "2.7 (2.7 to 2.7)",
        "40 (40 to 40)",
        "92 (91 to 93)",
        "55 (55 to 55)",
        "55 (55 to 55)",
    ]
    assert rows[5:8] == [
        [f"{name} of French alone", value, value, "", "", "", ""]
        for name, value in (("trigram", "2.5"), ("bigram", "2.7"), ("unigram", "20.1"))
    ]
    assert (
        "Continued and translated" in picture.html
        and "BLEU nrefs:1 tok:13a; chrF nrefs:1 nc:6" in picture.html
    )


def test_the_result_in_one_figure(recorded):
    drawn = views.three_tasks()
    for said in (
        "3 seeds",
        "After 3,200 steps: percent of pronouns right: ",
        "decoder-only, 16 looks 100",
        "decoder-only, from the left 100",
        "encoder-only, one look 2.72",
        "BLEU: ",
        "encoder-decoder 92",
        "trigram 2.46, bigram 2.72, unigram 20.09",
        "BLEU nrefs:1 tok:13a",
    ):
        assert said in drawn.caption, said
    assert "from 800 to 3,200 steps" in repr(
        drawn
    ) and "encoder-only, a look per word from 7.40 to 2.72" in repr(drawn)
    assert "run --part &quot;three families&quot;" in drawn.html and all(
        name in drawn.html for name in ("Fill: il or elle", "Continue", "Translate", "trigram")
    )


def test_differences_have_intervals(recorded):
    picture = views.intervals(difference)
    late, _, early = (rows_under_headings(part) for part in picture.html.split("<details"))
    assert len(late) == len(early) == len(views.PAIRS) and list(
        dict.fromkeys(heading for heading, _ in late)
    ) == list(views.UNITS.values())
    nats = "Continuing, nats per word"
    for rows, value in ((late, "+0.00 [+0.00, +0.00]"), (early, "−1.00 [−1.00, −1.00]")):
        assert rows[nats, f"{views.LEFT} − {views.EACH}"] == [value, "✓" if rows is early else "✗"]
        assert rows[nats, f"{views.ONCE} − {views.EACH}"] == [
            "+0.00 [+0.00, +0.00]",
            "✗",
        ], "the same numbers"
    gap, decided = late[nats, f"{views.LEFT} − trigram"]
    assert (
        gap.startswith("+0.10") and decided == "✗"
    ), "the sentences don't agree: +0.5 and −0.2 nats, of one word and two"
    assert (
        "After 3,200 steps; 95% intervals over 3 seeds and 2 unseen sentences" in picture.html
        and "trigram 2.46" in picture.html
    )
    assert (
        "run --part &quot;three families&quot;" in picture.html
        and "the same after 800 steps" in picture.html
    )


def test_what_more_steps_change_has_intervals(recorded):
    picture = views.gains(difference)
    rows = rows_under_headings(picture.html.split("<details")[0])
    assert (
        len(rows) == len(views.CHANGES)
        and "From 800 to 3,200 steps" in picture.html
        and "trigram 2.46" in picture.html
    )
    assert rows["Continuing, nats per word", views.EACH] == [
        "7.4 to 2.7",
        "−1.00 [−1.00, −1.00]",
        "✓",
    ]
    assert rows["Continuing, nats per word", views.LEFT][1:] == ["+0.00 [+0.00, +0.00]", "✗"]
    assert rows["Pronouns right, %", views.ONE] == [
        "50.0 to 100.0",
        "+50.0 [+0.0, +100.0]",
        "✗",
    ], "one of two sentences: no interval without 0"


def test_chapter_26_says_what_is_decided():
    "Each verdict of the sections One table and Summary, from the record."
    found = {
        steps: [
            views.gap_between(difference, *pair, views.recorded_runs(steps)) for pair in views.PAIRS
        ]
        for steps in (800, 3200)
    }
    early, gap = (
        {pair: one["value"] for pair, one in zip(views.PAIRS, gaps)} for gaps in found.values()
    )
    both = {
        pair: (few["decided"], many["decided"])
        for pair, few, many in zip(views.PAIRS, *found.values())
    }

    def decided(*pair):
        return both[pair]

    one, left, two, each, once, looks = (
        views.ONE,
        views.LEFT,
        views.TWO,
        views.EACH,
        views.ONCE,
        views.LOOKS,
    )
    assert (
        decided("il or elle", one, looks) == decided("il or elle", two, looks) == (True, True)
    ), "ahead of both, and then behind both"
    assert (
        gap["il or elle", one, looks] > 0 > early["il or elle", one, looks]
        and gap["il or elle", two, looks] > 0 > early["il or elle", two, looks]
    )
    assert (
        decided("il or elle", one, two) == (True, True) and 0 < gap["il or elle", one, two] < 2
    ), "behind by less than two points"
    assert not any(
        decided("any word", *pair)[1] for pair in ((one, looks), (one, two), (two, looks))
    )
    assert all(decided("perplexity", left, other) == (True, True) for other in (each, two))
    assert all(
        early["perplexity", left, other] < 0 < gap["perplexity", left, other]
        for other in (each, two)
    ), "reversed"
    assert (
        decided("perplexity", left, "trigram") == (True, True)
        and early["perplexity", left, "trigram"] < 0 < gap["perplexity", left, "trigram"]
    )
    assert (
        not decided("perplexity", two, each)[1]
        and gap["perplexity", once, "trigram"] > 0 < early["perplexity", once, "trigram"]
    )
    assert decided("perplexity", each, "trigram")[1] and decided("perplexity", two, "trigram")[1]
    assert gap["perplexity", each, "trigram"] < 0 > gap["perplexity", two, "trigram"]
    assert (
        decided("exact", left, each)[1]
        and decided("exact", two, each)[1]
        and gap["exact", left, each] > 0 < gap["exact", two, each]
    )
    assert not decided("exact", left, two)[1]


def test_chapter_26_says_what_more_steps_change():
    few, many = (views.recorded_runs(steps) for steps in (800, 3200))
    assert [run["seed"] for run in few] == [run["seed"] for run in many] == [1, 2, 3]
    each = "encoder-only, a look per word"

    def pronoun(run, way):
        return run["filled"][way]["il or elle"]

    assert (
        round(sum((1 - pronoun(run, views.ONE)) * run["unseen"] for run in many)) == 0
    ), "every pronoun"
    assert [
        round(100 * sum(run["translated"][each]["exact"] for run in runs) / 3)
        for runs in (few, many)
    ] == [0, 63]
    assert sum(pronoun(run, views.TWO) for run in few) / 3 < 0.6, "little better than a coin toss"
    assert (
        round(100 * sum(pronoun(run, views.TWO) for run in many) / 3) == 98
        and round(100 * sum(pronoun(run, views.LOOKS) for run in many) / 3) == 88
    )
    assert all(
        pronoun(a, "decoder-only, 16 looks") > 0.98 > 0.91 > pronoun(b, "decoder-only, 16 looks")
        for a, b in zip(few, many)
    ), "a start that is lost"
    assert all(
        0.45 < pronoun(run, views.LEFT) < 0.56 for run in few + many
    ), "a coin from the left, however long it trains"
    assert [
        round(sum(run["translated"][each]["BLEU"] for run in runs) / 3) for runs in (few, many)
    ] == [33, 81]
    assert [
        f"{sum(run['perplexity'][views.LEFT] for run in runs) / 3:.1f}" for runs in (few, many)
    ] == ["2.1", "4.6"]
    assert all(
        b["last_losses"][views.LEFT] < a["last_losses"][views.LEFT] - 0.2 for a, b in zip(few, many)
    ), "the training loss falls all the same"
    other_rates = [views.recorded_runs(3200, peak) for peak in (3e-3, 1.2e-2)]
    assert [len(runs) for runs in other_rates] == [1, 1]
    for run in [*many, *other_rates[0], *other_rates[1]]:
        assert run["perplexity"][views.LEFT] > 1.5 * run["perplexity"][each]
        assert (
            pronoun(run, views.ONE) > 0.99 > 0.96 > pronoun(run, views.LOOKS)
            and run["translated"][each]["BLEU"] < 97
        )
        assert (
            run["perplexity"][views.LEFT] > run["perplexity"][views.ONCE]
            and run["perplexity"][views.TWO] < run["perplexity"][each]
        ), "as well as any"
        assert min(run["translated"][way]["BLEU"] for way in (views.LEFT, views.TWO)) > 99.5
    assert [round(100 * pronoun(runs[0], views.TWO)) for runs in other_rates] == [90, 90]
    assert round(other_rates[0][0]["translated"][each]["BLEU"]) == 96
    assert [round(100 * pronoun(runs[0], views.LOOKS)) for runs in other_rates] == [91, 95]
