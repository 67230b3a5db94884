"""`bench/domains.py` and `bench/confidence.py`: what counts as copied, repeated, untouched, and how
an expectation is judged."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import translators

BENCH = Path(__file__).parents[1] / "bench"
sys.path.insert(0, str(BENCH))
import domains

from transformer_lit.serving.confidence import Calibration

spec = importlib.util.spec_from_file_location("bench_confidence", BENCH / "confidence.py")
on_confidence = importlib.util.module_from_spec(spec)
spec.loader.exec_module(on_confidence)


@pytest.mark.parametrize("kind", domains.FRAMES)
def test_two_hundred_sentences_and_no_value_twice(kind):
    asked = domains.probes(kind)
    assert (
        len({sentence for sentence, _ in asked}) == 200
        and asked[0][0] == domains.probes(kind)[0][0]
    )
    assert domains.probes(kind, seed=2)[0][0] != asked[0][0]
    assert not any(right(answer) for _, right in asked for answer in ("", "Il pleut.", "12345678"))


@pytest.mark.parametrize(
    "kind, write",
    [
        ("names", str),
        ("numbers", str),
        ("numbers", lambda value: value.replace(",", " ")),
        ("numbers", lambda value: value.replace(",", "\u202f")),
        ("numbers", lambda value: value.replace(",", ".")),
        ("numbers", lambda value: value.replace(",", "")),
        ("prices", str),
        ("prices", lambda value: value.strip("$").replace(".", ",")),
    ],
)
def test_a_right_answer_counts_however_it_is_written(kind, write):
    rng = domains.Random(1)
    for _ in range(100):
        value, right = domains.one_probe(kind, rng)
        assert right(f"C'est {write(value)}.")
        assert not right(f"C'est {write(value)[:-1]}.") and not right(
            f"C'est 1{write(value).strip('$')}."
        )


def test_a_date():
    rng = domains.Random(1)
    value, right = domains.one_probe("dates", rng)
    month, day, year = value.replace(",", "").split()
    there = domains.MONTHS[month]
    assert right(f"Né le {day} {there} {year}.") and not right(
        f"Né le {day} {there} {int(year) + 1}."
    )
    assert not right(f"Né le 1{day} {there} {year}.") and not right(f"Né le {day} {there} {year}0.")


def test_said_again_and_again():
    assert domains.repeats("le chat dort, le chat dort, le chat dort, oui")
    assert not domains.repeats("le chat dort, le chat dort, oui") and not domains.repeats("")


def test_what_is_reported_of_a_test(tmp_path):
    translator = translators.joint()
    english, references = ["I see a cats.", "I see b dogs.", "I see c keys."], [
        ["Je vois a chats."],
        ["Je vois b chiens."],
        ["Je vois c clés."],
    ]
    said, sure = domains.answered(translator, english, tmp_path / "deep/a.json", 2)
    assert len(said) == 3 and domains.answered(None, english, tmp_path / "deep/a.json", 2) == (
        said,
        sure,
    ), "from the file"
    kept = json.loads((tmp_path / "deep/a.json").read_text())
    (tmp_path / "deep/a.json").write_text(json.dumps(kept[:2]))
    assert domains.answered(translator, english, tmp_path / "deep/a.json", 2)[0] == said, "goes on"
    other = [english[0], "I see d boxes.", english[2]]
    assert domains.answered(translator, other, tmp_path / "deep/a.json", 2) == domains.answered(
        translator, other, tmp_path / "b.json"
    ), "other sentences"
    best = domains.report(translator, (english, references), [refs[0] for refs in references], sure)
    assert (
        best["bleu"]["value"] == pytest.approx(100)
        and best["chrf"]["value"] == pytest.approx(100)
        and best["sentences"] == 3
    )
    assert (
        (best["short"], best["long"], best["repeats"]) == (0, 0, 0)
        and 0 <= best["untouched"] <= 1
        and "first" not in best
    )
    two = domains.report(
        translator,
        (english, [["Autre chose encore ici.", *refs] for refs in references]),
        [refs[0] for refs in references],
        sure,
    )
    assert (
        two["bleu"]["value"] == pytest.approx(100) and two["first"]["bleu"]["value"] < 5
    ), "the first reference alone is scored, too"
    worst = domains.report(translator, (english, references), ["Je", "Je vois " * 8, "Je"], sure)
    assert (worst["short"], worst["long"], worst["repeats"]) == (
        pytest.approx(2 / 3),
        pytest.approx(1 / 3),
        pytest.approx(1 / 3),
    )


def test_untouched_pieces_are_counted():
    translator = translators.joint()
    lines, said = ["I see a cats and b dogs.", "I see c keys."], ["Je vois.", "Je vois c clés."]
    shares = [domains.untouched(translator, lines, said, least) for least in (0.0, 0.1, 1.0, 100.0)]
    assert shares[0] == 0 and shares[-1] == 1 and shares == sorted(shares)


def test_an_expectation_is_judged():
    worth = Calibration((-3.0, -1.0), (20.0, 80.0))
    found = on_confidence.agreement(worth, [-3.0, -2.0, -1.0], [20.0, 50.0, 80.0])
    assert (
        found["rank_correlation"] == pytest.approx(1)
        and found["distance"] == pytest.approx(0)
        and found["distance_of_mean"] == pytest.approx(20)
    )
    assert [(g["expected"], g["chrf"], g["answers"]) for g in found["groups"]] == [
        (20, 20, 1),
        (50, 50, 1),
        (80, 80, 1),
    ]
