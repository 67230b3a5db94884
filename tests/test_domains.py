"""`bench/domains.py`: what counts as copied and repeated, and whose answers are scored."""

import json
import sys
from pathlib import Path
from random import Random

import pytest
import translators

BENCH = Path(__file__).parents[1] / "bench"
sys.path.insert(0, str(BENCH))
import domains


@pytest.mark.parametrize(
    "kind, write",
    [
        ("names", str),
        *(("numbers", lambda value, mark=mark: value.replace(",", mark)) for mark in ",. \u202f"),
        ("numbers", lambda value: value.replace(",", "")),
        ("prices", str),
        ("prices", lambda value: value.strip("$").replace(".", ",")),
    ],
)
def test_a_right_answer_counts_however_it_is_written(kind, write):
    rng = Random(1)
    for _ in range(100):
        value, right = domains.one_probe(kind, rng)
        answer = write(value)
        assert right(f"C'est {answer}.")
        assert not right(f"C'est {answer[:-1]}.") and not right(f"C'est 1{answer.strip('$')}.")


@pytest.mark.parametrize(
    "template, is_right",
    [("{0} {1} {2}", True), ("{0} {1} {2}0", False), ("1{0} {1} {2}", False), ("{0} {2}", False)],
)
def test_a_date(template, is_right):
    value, right = domains.one_probe("dates", Random(1))
    month, day, year = value.replace(",", "").split()
    assert right(f"Né le {template.format(day, domains.MONTHS[month], year)}.") == is_right


def test_a_noun_alone_or_with_its_article():
    for text in "chien", "Chien.", "un chien", "Le chien !":
        assert domains.is_noun("chien", text)
    assert domains.is_noun("œil", "L'œil.") and not domains.is_noun("chien", "Le chien dort.")
    questions = dict(domains.probes("words"))
    assert len(questions) == 200 and questions["dog"]("un chien")


def test_three_words_three_times():
    assert domains.repeats("le chat dort, le chat dort, le chat dort, oui")
    assert not domains.repeats("le chat dort, le chat dort, oui") and not domains.repeats("")


ENGLISH = ["I see a cats.", "I see b dogs.", "I see c keys."]
FRENCH = ["Je vois a chats.", "Je vois b chiens.", "Je vois c clés."]


def test_answers_go_on_and_belong_to_their_sentences(tmp_path):
    translator, path = translators.joint(), tmp_path / "deep/a.json"
    answers = domains.answered(translator, ENGLISH, path, 2)
    assert len(answers[0]) == 3 and domains.answered(None, ENGLISH, path, 2) == answers
    path.write_text(json.dumps(json.loads(path.read_text())[:2]))
    assert domains.answered(translator, ENGLISH, path, 2)[0] == answers[0]  # goes on
    other = [ENGLISH[0], "I see d boxes.", ENGLISH[2]]
    fresh = domains.answered(translator, other, tmp_path / "b.json")
    assert domains.answered(translator, other, path, 2) == fresh  # answers of other sentences


def test_what_is_reported_of_a_test():
    references = [["Autre chose encore ici.", text] for text in FRENCH]
    row = domains.report((ENGLISH, references), FRENCH)
    assert row["bleu"]["value"] == pytest.approx(100)
    assert row["first"]["bleu"]["value"] < 5  # the first reference alone is scored, too
    outputs = ["Je", "Je vois " * 8, "Je"]
    row = domains.report((ENGLISH, references), outputs)
    shares = [row[name] for name in ("short", "long", "repeats")]
    assert shares == pytest.approx([2 / 3, 1 / 3, 1 / 3])
