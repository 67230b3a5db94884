"""Scores: equal to sacreBLEU for any file, promises of each part, and a record that can be computed
again."""

import json
import math
import random
import re
import subprocess
import sys

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lit import evaluation
from transformer_lit.corpora.files import shipped
from transformer_lit.evaluation import (
    BLEU_TOKENIZERS,
    LENGTH_BINS,
    FREQUENCY_BINS,
    assign_bins,
    bleu_from_stats,
    brevity_penalty,
    scores_by_group,
    hash_test_set,
    clipped_matches,
    closest_ref_length,
    reference_streams,
    corpus_bleu,
    bleu_stats,
    bootstrap_interval,
    segment_stats,
    moses_like_tokenize,
    ngram_counts,
    min_word_frequency,
    evaluation_report,
    sacrebleu_scores,
    split_compounds,
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


@given(LINES.filter(lambda line: len(line) > 6))
def test_reference_itself(line):
    assert math.isclose(corpus_bleu([line], [[line]]), 100)


@given(LINES, st.lists(LINES.filter(bool), min_size=1, max_size=3))
def test_counts(line, refs):
    tokens, refs = line.split(), [r.split() for r in refs]
    row = bleu_stats(tokens, refs)
    assert row[0] == len(tokens) and row[1] == closest_ref_length(len(tokens), map(len, refs))
    assert row[6:] == [
        ngram_counts(tokens, n).total() for n in (1, 2, 3, 4)
    ], "n-grams of the output are miscounted"
    for n, (match, total) in enumerate(zip(row[2:6], row[6:]), 1):
        assert (
            max(clipped_matches(tokens, [r], n) for r in refs) <= match <= total
        ), "more references can only add credit"


@given(st.integers(1, 40), st.integers(1, 40))
def test_brevity(c, r):
    penalty = brevity_penalty(c, r)
    assert (penalty == 1) == (c >= r), "only an output shorter than its reference is punished"
    assert math.isclose(penalty, min(1, math.exp(1 - r / c)))


def test_bad_input():
    with pytest.raises(ValueError, match="2 hypotheses and 1 lists"):
        corpus_bleu(["a", "b"], [["a"]])
    with pytest.raises(ValueError, match="no reference"):
        corpus_bleu(["a"], [[]])
    with pytest.raises(ValueError):
        segment_stats(["a", "b"], [["a"]])
    with pytest.raises(ValueError):
        hash_test_set(["a", "b"], [["a"]])


def test_empty_outputs():
    hyps = ["", *FRENCH[1:]]
    for score in sacrebleu_scores(hyps, ONE):
        assert 0 < score["value"] < 100
    assert (
        sacrebleu_scores([""] * 40, ONE)[0]["value"]
        == 0
        == bootstrap_interval(segment_stats([""] * 40, ONE), n_samples=5)["high"]
    )


def test_a_generator_of_references_counts_once():
    assert closest_ref_length(3, iter([9, 4])) == 4
    assert hash_test_set(("a",), (("b",),)) == hash_test_set(["a"], [["b"]])


def test_nothing_in_common_and_everything():
    few = [5, 6, 2, 1, 0, 0, 5, 4, 3, 2]
    assert (
        bleu_from_stats(few)
        == 0
        == bleu_from_stats([0] * 10, True)
        == bleu_from_stats([5, 5, 0, 0, 0, 0, 5, 4, 3, 2], True)
    )
    assert bleu_from_stats([4, 4, 4, 3, 2, 1, 4, 3, 2, 1]) == 100
    assert (
        corpus_bleu(["a b c x"], [["a b c d"]]) == 0 == bleu_from_stats(bleu_stats(["a"], [["a"]]))
    ), "no run of four is credited"
    assert reference_streams([]) == [] and segment_stats(["Oui."], [["Non."]])[0, :3].tolist() == [
        2,
        2,
        1,
    ]
    assert all(score["value"] > 99.99 for score in sacrebleu_scores(FRENCH, ONE))


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


def test_interval_is_near_sacrebleus():
    said = damaged(0.2)
    theirs = sacrebleu.BLEU().corpus_score(said, [FRENCH], n_bootstrap=1000)
    ours = bootstrap_interval(segment_stats(said, ONE))
    assert 0.8 < (ours["high"] - ours["low"]) / 2 / theirs._ci < 1.25


def test_the_ends_of_an_interval():
    nothing, right = [12, 12, 0, 0, 0, 0, 12, 11, 10, 9], [12, 12, 12, 11, 10, 9, 12, 11, 10, 9]
    edge = bootstrap_interval([right] * 3 + [nothing] * 17, n_samples=4000)
    assert edge["low"] == 0, "3.9% of the draws hold no right sentence: the lowest 2.5% are 0"
    assert math.isclose(edge["value"], 15) and 25 < edge["high"] < 50
    few = [5, 6, 2, 1, 0, 0, 5, 4, 3, 2]
    assert all(
        math.isclose(v, bleu_from_stats(few, True))
        for v in bootstrap_interval([few], n_samples=9).values()
    ), "each draw is the same"
    assert set(bootstrap_interval([few], [few], n_samples=9).values()) == {0}
    assert min(bootstrap_interval(segment_stats(FRENCH, ONE), n_samples=50).values()) > 99.99


def test_paired():
    rows, other = segment_stats(damaged(0.1), ONE), segment_stats(damaged(0.1, seed=2), ONE)
    same, there, back = (
        bootstrap_interval(rows, rows),
        bootstrap_interval(rows, other),
        bootstrap_interval(other, rows),
    )
    assert same == {
        "value": 0,
        "low": 0,
        "high": 0,
    }, "an output differs from itself: not the same draws"
    assert math.isclose(there["value"], -back["value"]) and math.isclose(
        there["low"], -back["high"]
    )


# Ways, groups, reports ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, cut",
    [
        ("L'animal n'a pas traversé.", "L' animal n' a pas traversé ."),
        ("Quoi ?", "Quoi ?"),
        ("Quoi?", "Quoi ?"),
        ("1,5 et 2, 3", "1,5 et 2 , 3"),
        ("M. Roy", "M. Roy"),
        ("3.14", "3.14"),
        ("", ""),
        ("(« oui »)", "( « oui » )"),
        ("3, 4,x", "3 , 4 , x"),
    ],
)
def test_moses_like(text, cut):
    assert moses_like_tokenize(text) == cut


def test_split_compounds():
    assert split_compounds("rich-text format") == "rich ##AT##-##AT## text format"
    assert split_compounds("- oui -") == "- oui -"


def test_ways():
    said = [line.lower() for line in damaged(0.1)]
    found = bleu_variants(said, ONE)
    assert len(found) == 7 and found["sacreBLEU (13a)"] == sacrebleu_scores(said, ONE)[0]["value"]
    assert found["sacreBLEU, lower-cased"] > found["sacreBLEU (13a)"]
    assert found["tokenised, lower-cased"] > found["tokenised"]
    mean = np.mean([sacrebleu.sentence_bleu(s, r).score for s, r in zip(said, ONE)])
    assert math.isclose(found["mean of sentences"], mean)
    intl = sacrebleu.BLEU(tokenize="intl").corpus_score(said, [FRENCH]).score
    assert found["sacreBLEU, intl"] == intl
    assert found["tokenised, compound-split"] == corpus_bleu(
        [split_compounds(moses_like_tokenize(s)) for s in said],
        [[split_compounds(moses_like_tokenize(f))] for f in FRENCH],
    )


def test_cutters():
    assert [cut("Vas-y.") for cut in BLEU_TOKENIZERS.values()] == [
        "Vas-y .",
        "vas-y .",
        "Vas ##AT##-##AT## y .",
    ]


def test_ways_and_case():
    loud = bleu_variants([line.upper() for line in FRENCH], ONE)
    assert loud["sacreBLEU, lower-cased"] > 99.99 > loud["tokenised"]
    assert (
        min(bleu_variants(FRENCH, ONE).values()) > 99.99
    ), "the reference itself gets 100 in every way"


def test_groups_are_scored_alone_and_in_order():
    said, short = damaged(0.1), [len(line.split()) < 10 for line in ENGLISH]
    groups = scores_by_group(said, ONE, ["under 10" if s else "10 or more" for s in short])
    assert [(g["group"], g["sentences"]) for g in groups] == [
        ("10 or more", 40 - sum(short)),
        ("under 10", sum(short)),
    ]
    some = [x for x, s in zip(said, short) if s], [x for x, s in zip(ONE, short) if s]
    for name, score in zip(("BLEU", "chrF"), sacrebleu_scores(*some)):
        assert abs(groups[1][name] - score["value"]) < 1e-9
    assert all(g["low"] < g["BLEU"] < g["high"] for g in groups)


def test_groups():
    keys = [i % 3 for i in range(40)]
    groups = scores_by_group(damaged(0.1), ONE, keys)
    assert [(g["group"], g["sentences"]) for g in groups] == [(0, 14), (1, 13), (2, 13)]
    whole = scores_by_group(damaged(0.1), ONE, ["all"] * 40)[0]
    assert abs(whole["BLEU"] - sacrebleu_scores(damaged(0.1), ONE)[0]["value"]) < 1e-9


def test_bins():
    assert assign_bins(range(0, 40), LENGTH_BINS) == [
        max([e for e in LENGTH_BINS if e <= n] or [1]) for n in range(40)
    ]
    assert assign_bins([0, 5, 999, 1000], FREQUENCY_BINS) == [0, 1, 100, 1000]


def test_rarest():
    known = word_frequencies(["The cat", "the dog"])
    assert min_word_frequency(["The cat?", "a the", "", "THE"], known) == [1, 0, 0, 2]


def test_several_references_in_a_report():
    two = [[f, f.upper()] for f in FRENCH]
    found = evaluation_report(FRENCH, two, ENGLISH, [0] * 40)
    assert found["references"] == 80 and "nrefs:1|" in found["one"][0]["signature"]
    assert "nrefs:2|" in found["all"][0]["signature"] and found["references_seen"] == 0


def test_a_report_part_by_part():
    said, two = damaged(0.2), [[f, f.lower()] if i < 6 else [f] for i, f in enumerate(FRENCH)]
    rare, table = min_word_frequency(ENGLISH, word_frequencies(ENGLISH)), segment_stats(said, ONE)
    made = evaluation_report(said, two, ENGLISH, rare, training_references=FRENCH[:2])
    assert made["references_seen"] == 2 and made["sentences"] == 40 and made["references"] == 46
    assert made["interval"] == bootstrap_interval(table) and made["sha256"] == hash_test_set(
        ENGLISH, two
    )
    assert (
        made["one"] == sacrebleu_scores(said, ONE)
        and made["all"] == sacrebleu_scores(said, two)
        and made["ways"] == bleu_variants(said, ONE)
    )
    assert made["fresh"] == {"sentences": 38, **bootstrap_interval(table[2:])}
    assert [int(x) for x in made["counts"][3].split()] == table[3].tolist()
    assert made["by_rarity"] == scores_by_group(said, ONE, assign_bins(rare, FREQUENCY_BINS))
    assert made["by_length"] == scores_by_group(
        said, ONE, assign_bins([len(line.split()) for line in ENGLISH], LENGTH_BINS)
    )
    everything = evaluation_report(said, ONE, ENGLISH, rare, FRENCH)
    assert everything["fresh"] is None and everything["references_seen"] == 40


# What is shipped ----------------------------------------------------------------------------------


def test_our_forty_sentences():
    assert len(OWN) == 40 == len(set(ENGLISH)) == len(set(FRENCH)) and all(
        len(pair) == 2 for pair in OWN
    )
    assert "The animal didn't cross the street because it was too tired." in ENGLISH
    for line in FRENCH:
        assert "’" not in line and not re.search(
            r"[^\s\d][?!:;]", line
        ), f"French typography: {line}"


def test_recorded_scores():
    path = shipped("results/tatoeba-fr/scores.json")
    sets = json.loads(path.read_text(encoding="utf-8"))["sets"]
    assert {"tatoeba", "multi30k", "newstest2014", "try-it"} <= set(sets)
    own = sets["try-it"]
    assert own["sha256"] == hash_test_set(
        ENGLISH, ONE
    ), "data/try_it.tsv changed after it was scored"
    for ours, kept in zip(sacrebleu_scores(own["hypotheses"], ONE), own["one"]):
        assert (
            abs(ours["value"] - kept["value"]) < 1e-6
        ), "the outputs kept don't give the scores kept"
    for name, one in sets.items():
        rows = np.array([line.split() for line in one["counts"]], int)
        assert len(rows) == one["sentences"], name
        assert all(
            abs(x - one["interval"][end]) < 0.5 for end, x in bootstrap_interval(rows).items()
        ), name
        assert abs(one["interval"]["value"] - one["one"][0]["value"]) < 1e-9, name
        assert sum(g["sentences"] for g in one["by_length"]) == one["sentences"], name


def test_neither_length_nor_rarity_explains_the_domain():
    "The page says so of 9 to 11 words and of words seen 100 to 999 times."
    sets = json.loads(shipped("results/tatoeba-fr/scores.json").read_text(encoding="utf-8"))["sets"]
    for by, group in (("by_length", 9), ("by_rarity", 100)):
        home, *away = [
            g["BLEU"]
            for name in ("tatoeba", "multi30k", "newstest2014")
            for g in sets[name][by]
            if g["group"] == group and g["sentences"] >= 25
        ]
        assert away and home > 1.5 * max(away)
    assert not any(
        sets["try-it"]["seen"]
    ), "the page says that none of the forty stands in training"


def test_more_damage_scores_lower():
    low = [sacrebleu_scores(damaged(share), ONE) for share in (0, 0.05, 0.3)]
    assert (
        all(a["value"] > b["value"] > c["value"] for a, b, c in zip(*low))
        and low[0][0]["value"] > 99.99
    )


def test_imports_nothing_of_the_package():
    code = (
        "import sys, transformer_lit.evaluation; "
        "print([m for m in sys.modules if m.startswith(('transformer_lit.', 'torch'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['transformer_lit.evaluation']", done.stdout
    assert evaluation.__all__


def test_by_hand_as_the_page_counts():
    cat = "le chat dort".split()
    assert evaluation.ngram_counts("a a a".split(), 2) == {
        ("a", "a"): 2
    } and not evaluation.ngram_counts(cat, 4)
    assert evaluation.clipped_matches("le le le".split(), [cat, "le le".split()], 1) == 2
    assert evaluation.clipped_matches("le chat mange".split(), [cat], 2) == 1
    assert (
        evaluation.clipped_matches(cat, [["le", "chien"], ["chat", "dort"]], 1) == 3
    ), "the larger count of each reference"
    assert (
        evaluation.closest_ref_length(5, [9, 6, 1]) == 6
        and evaluation.closest_ref_length(0, [3]) == 3
    )
    assert (
        evaluation.brevity_penalty(10, 10) == evaluation.brevity_penalty(12, 10) == 1
        and evaluation.brevity_penalty(0, 3) == 0
    )
    assert evaluation.bleu_stats(cat, [cat]) == [3, 3, 3, 2, 1, 0, 3, 2, 1, 0]
    known = evaluation.word_frequencies(["The cat sleeps.", "The dog sleeps, the cat eats."])
    assert known["the"] == 3 and known["cat"] == 2 and known["eats"] == 1


@pytest.mark.parametrize(
    "said, references", [(["a", "b"], [["a"], ["b"], ["c"]]), (["a", "b", "c"], [["a"], ["b"]])]
)
def test_a_file_that_was_cut_off_gets_no_score(said, references):
    for score in (
        sacrebleu_scores,
        lambda *some: scores_by_group(*some, groups=range(3)),
        segment_stats,
    ):
        with pytest.raises(ValueError):
            score(said, references)


@pytest.mark.parametrize("score", [sacrebleu_scores, segment_stats, bleu_variants])
def test_references_without_brackets_are_refused(score):
    with pytest.raises(TypeError, match="references are lists of texts"):
        score(["a b", "c d"], ["a b", "c d"])
