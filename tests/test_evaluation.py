"""Scores: equal to sacreBLEU for any file, promises of each part, and a record that can be computed
again."""

import json
import math
import random

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lit.corpora.files import shipped
from transformer_lit.evaluation import (
    FREQUENCY_BINS,
    assign_bins,
    bleu_from_stats,
    scores_by_group,
    hash_test_set,
    reference_streams,
    corpus_bleu,
    bootstrap_interval,
    segment_stats,
    moses_like_tokenize,
    min_word_frequency,
    evaluation_report,
    sacrebleu_scores,
    bleu_variants,
    word_frequencies,
)

LINES = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=9).map(" ".join)
FILES = st.lists(
    st.tuples(LINES, st.lists(LINES.filter(bool), min_size=1, max_size=3)), min_size=1, max_size=8
).map(lambda pairs: ([h for h, _ in pairs], [refs for _, refs in pairs]))
OWN = [
    line.split("\t") for line in shipped("data/try_it.tsv").read_text(encoding="utf-8").splitlines()
]
ENGLISH, FRENCH = [e for e, _ in OWN], [f for _, f in OWN]
ONE = [[f] for f in FRENCH]


def damaged(share, seed=1):
    dice = random.Random(seed)
    return [" ".join(w for w in line.split() if dice.random() >= share) for line in FRENCH]


# BLEU by hand -------------------------------------------------------------------------------------


@settings(deadline=None)
@given(FILES, st.booleans())
def test_equal_to_sacrebleu(file, smooth):
    hyps, refs = file
    metric = sacrebleu.BLEU(tokenize="none", smooth_method="exp" if smooth else "none", force=True)
    theirs = metric.corpus_score(hyps, reference_streams(refs)).score
    assert (
        abs(corpus_bleu(hyps, refs, smooth) - theirs) < 1e-9
    ), "BLEU by hand differs from sacreBLEU"


@settings(deadline=None)
@given(FILES)
def test_plain_text_is_cut_as_sacrebleu_does(file):
    hyps, refs = file
    ours = bleu_from_stats(segment_stats(hyps, refs).sum(0), smooth=True)
    assert abs(ours - sacrebleu_scores(hyps, refs)[0]["value"]) < 1e-9


# Intervals ----------------------------------------------------------------------------------------


def test_interval_repeats_and_holds_the_score():
    rows = segment_stats(damaged(0.2), ONE)
    one = bootstrap_interval(rows)
    assert one == bootstrap_interval(rows) and one != bootstrap_interval(
        rows, seed=2
    ), "the seed decides, and nothing else"
    assert one["low"] < one["value"] < one["high"]
    more = bootstrap_interval(np.vstack([rows] * 4))
    assert math.isclose(one["value"], more["value"])
    assert (
        0.4 < (more["high"] - more["low"]) / (one["high"] - one["low"]) < 0.6
    ), "4 times the lines, half the width"


def test_the_ends_of_an_interval():
    nothing, right = [12, 12, 0, 0, 0, 0, 12, 11, 10, 9], [12, 12, 12, 11, 10, 9, 12, 11, 10, 9]
    edge = bootstrap_interval([right] * 3 + [nothing] * 17, n_samples=4000)
    assert edge["low"] == 0  # 3.9% of the draws hold no right sentence: the lowest 2.5% are 0
    assert math.isclose(edge["value"], 15) and 25 < edge["high"] < 50


def test_the_same_draws_for_both():
    rows, other = segment_stats(damaged(0.1), ONE), segment_stats(damaged(0.1, seed=2), ONE)
    alike, there, back = (bootstrap_interval(*pair) for pair in (
        (rows, rows), (rows, other), (other, rows)
    ))
    assert set(alike.values()) == {0}  # an output differs from itself: not the same draws
    assert math.isclose(there["low"], -back["high"]) and there["low"] < there["value"]


# Ways, groups, reports ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, cut",
    [
        ("L'animal n'a pas traversé.", "L' animal n' a pas traversé ."),
        ("Quoi?", "Quoi ?"),
        ("1,5 et 2, 3", "1,5 et 2 , 3"),
        ("M. Roy", "M. Roy"),
        ("3, 4,x", "3 , 4 , x"),
    ],
)
def test_moses_like(text, cut):
    assert moses_like_tokenize(text) == cut


def test_ways_of_scoring():
    output = [line.lower() for line in damaged(0.1)]
    ways = bleu_variants(output, ONE)
    assert ways["sacreBLEU (13a)"] == sacrebleu_scores(output, ONE)[0]["value"]
    assert ways["sacreBLEU, lowercased"] > ways["sacreBLEU (13a)"]
    mean = np.mean([sacrebleu.sentence_bleu(s, r).score for s, r in zip(output, ONE)])
    assert math.isclose(ways["average sentence-level BLEU"], mean)
    intl = sacrebleu.BLEU(tokenize="intl").corpus_score(output, [FRENCH]).score
    assert ways["sacreBLEU, intl"] == intl
    assert min(bleu_variants(FRENCH, ONE).values()) > 99.99  # the reference itself gets 100


def test_groups_are_scored_alone_and_in_order():
    output, keys = damaged(0.1), [i % 3 for i in range(40)]
    groups = scores_by_group(output, ONE, keys)
    assert [(g["group"], g["sentences"]) for g in groups] == [(0, 14), (1, 13), (2, 13)]
    for name, score in zip(("BLEU", "chrF2"), sacrebleu_scores(output[1::3], ONE[1::3])):
        assert abs(groups[1][name] - score["value"]) < 1e-9
    assert all(g["low"] < g["BLEU"] < g["high"] for g in groups)


def test_lengths_and_rarest_words():
    assert assign_bins([1, 5, 999, 1000], FREQUENCY_BINS) == [1, 1, 100, 1000]
    known = word_frequencies(["The cat", "the dog"])
    assert min_word_frequency(["The cat?", "a the", "", "THE"], known) == [1, 0, 0, 2]


def test_a_report_part_by_part():
    output, two = damaged(0.2), [[f, f.lower()] if i < 6 else [f] for i, f in enumerate(FRENCH)]
    table = segment_stats(output, ONE)
    report = evaluation_report(output, two, ENGLISH, [0] * 40, training_references=FRENCH[:2])
    wanted = {
        "references": 46,
        "references_seen": 2,
        "interval": bootstrap_interval(table),
        "one": sacrebleu_scores(output, ONE),
        "all": sacrebleu_scores(output, two),
        "fresh": {"sentences": 38, **bootstrap_interval(table[2:])},
    }
    assert {name: report[name] for name in wanted} == wanted
    assert evaluation_report(output, ONE, ENGLISH, [0] * 40, FRENCH)["fresh"] is None


# What is shipped ----------------------------------------------------------------------------------


def test_recorded_scores():
    path = shipped("results/tatoeba-fr/scores.json")
    sets = json.loads(path.read_text(encoding="utf-8"))["sets"]
    own = sets["try-it"]
    assert own["sha256"] == hash_test_set(ENGLISH, ONE)  # data/try_it.tsv is newer than its scores
    for ours, recorded in zip(sacrebleu_scores(own["hypotheses"], ONE), own["one"]):
        assert abs(ours["value"] - recorded["value"]) < 1e-6  # these outputs have other scores
    for name, scores in sets.items():
        counts = np.array([line.split() for line in scores["counts"]], int)
        interval = bootstrap_interval(counts)
        for end, value in interval.items():
            assert abs(value - scores["interval"][end]) < 0.5, name
        assert abs(scores["interval"]["value"] - scores["one"][0]["value"]) < 1e-9, name
        assert sum(g["sentences"] for g in scores["by_length"]) == scores["sentences"], name


@pytest.mark.parametrize("lines, references", [(2, 3), (3, 2)])
@pytest.mark.parametrize(
    "score",
    [
        sacrebleu_scores,
        segment_stats,
        corpus_bleu,
        hash_test_set,
        lambda *files: scores_by_group(*files, groups=range(3)),
    ],
)
def test_a_file_that_was_cut_off_gets_no_score(score, lines, references):
    with pytest.raises(ValueError):
        score(["a"] * lines, [["a"]] * references)


@pytest.mark.parametrize("score", [sacrebleu_scores, segment_stats, bleu_variants])
def test_references_without_brackets_are_refused(score):
    with pytest.raises(TypeError, match="references"):
        score(["a b", "c d"], ["a b", "c d"])
