"""Reports of several test sets: scored as each alone, with no text that isn't ours to show."""

import json

import numpy as np

from test_evaluation import ENGLISH, FRENCH, ONE, damaged

from transformer_lit.evaluation import interval, rarest, report, word_counts
from transformer_lit.reports import all_reports


def translations(lines):
    return [dict(zip(ENGLISH, damaged(0.2)))[line] for line in lines]


def test_reports():
    pairs = [(ENGLISH[3].lower(), "Oui."), ("Nothing.", FRENCH[7])]
    found = all_reports(
        translations, {"own": (ENGLISH, ONE), "part": (ENGLISH[:20], ONE[:20])}, pairs, own=["own"]
    )
    assert found["own"]["seen"] == [
        i == 3 for i in range(40)
    ], "seen and unseen sentences are confused"
    assert found["own"]["hypotheses"] == damaged(0.2) and "hypotheses" not in found["part"]
    assert found["own"]["references_seen"] == 1 and found["own"]["fresh"]["sentences"] == 39
    assert json.loads(json.dumps(found)) == found
    text = json.dumps(found["part"], ensure_ascii=False)
    assert not any(line in text for line in FRENCH + ENGLISH), "corpus text must not be in a report"
    rows = np.array([line.split() for line in found["part"]["counts"]], int)
    assert interval(rows) == found["part"]["interval"], "the counts kept give the score again"


def test_reports_count_rarity_in_training():
    pairs = [(ENGLISH[0].upper(), FRENCH[0]), ("The street is wide.", "Oui.")]
    found = all_reports(translations, {"other": (ENGLISH[:3], ONE[:3])}, pairs)["other"]
    rare = rarest(ENGLISH[:3], word_counts(english for english, _ in pairs))
    assert found == report(
        translations(ENGLISH[:3]), ONE[:3], ENGLISH[:3], rare, [french for _, french in pairs]
    )
