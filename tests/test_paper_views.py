"""Chapter 21's figures and sentences say what the recorded run says."""

import math
import re
import shlex

from litbook.drawings import paper_views
from transformer_lit import commands
from transformer_lit.corpora import published as corpora
from transformer_lit.corpora.files import shipped

RUN, LOG = paper_views.record(), paper_views.log()


def shown(picture):
    return re.findall(r"<t[dh] [^>]*>([^<]*)<", picture._repr_html_())


def test_the_recorded_run_is_one_pass_over_its_corpus_and_the_full_test_set():
    assert (
        RUN["tokens"] <= RUN["data"]["tokens"][1] - RUN["data"]["train"]
    ), "each pair at most once"
    assert (
        len(
            shipped("results/general-en-fr/hypotheses-newstest2014.txt")
            .read_text("utf-8")
            .splitlines()
        )
        == 3003
    )
    bleu = paper_views.bleu_of(RUN)
    assert bleu["low"] <= bleu["value"] <= bleu["high"] and bleu["signature"].startswith("nrefs:1|")


def test_the_run_stands_beside_the_paper():
    rows = paper_views.beside_the_paper(RUN)
    assert list(rows) == ["the paper, base", "the paper, big", "here, tiny", "here, base"]
    assert rows["here, tiny"]["BLEU"] == f"{paper_views.bleu_of(RUN)['value']:.1f}, French"
    assert (
        rows["here, tiny"]["steps"] == f"{RUN['steps']:,}"
        and rows["here, base"]["BLEU"] == "not run"
    )
    cells = shown(paper_views.beside_others(RUN))
    assert cells[-2] == f"{paper_views.bleu_of(RUN)['value']:.1f}" and "38.6" in cells


def test_every_score_of_the_test_set_is_shown():
    cells = shown(paper_views.every_ruler(RUN))
    for score in paper_views.scores_of(RUN):
        assert f"{score['value']:.1f}" in cells, score["metric"]
    values = [
        score["value"] for score in paper_views.scores_of(RUN) if score["metric"].startswith("BLEU")
    ]
    caption = paper_views.every_ruler(RUN)._repr_html_()
    assert f" {min(values):.1f} by " in caption and f" {max(values):.1f} by " in caption
    said = repr(paper_views.interval_said(RUN))
    low, high, wide = map(
        float,
        re.search(
            r"between ([\d.]+) and ([\d.]+) .* an interval ([\d.]+) points wide", said
        ).groups(),
    )
    assert math.isclose(
        high - low, wide, abs_tol=1e-9
    ), "the width is that of the numbers beside it"
    assert (
        f"The rulers are {max(values) - min(values):.2f} points apart" in said
        and f"it is {paper_views.bleu_of(RUN)['value']:.2f}, " in said
    )


def test_a_command_is_broken_between_options_and_stays_the_same():
    typed = repr(paper_views.run_said(RUN)).split("```")[1].strip()
    assert len(typed.splitlines()) > 2 and max(map(len, typed.splitlines())) <= 66
    assert all(line.endswith(" \\") for line in typed.splitlines()[:-1])
    assert all(line.lstrip().startswith(("python", "--")) for line in typed.splitlines())
    words = shlex.split(typed.replace("\\\n", " "))
    assert words == shlex.split(re.sub(" --threads 1", "", RUN["command"]))
    assert commands.in_lines("do it") == "do it"
    assert commands.in_lines("do --a 1 --b 2 --c 3", 14) == "do --a 1 \\\n    --b 2 \\\n    --c 3"


def test_curves_and_answers_are_those_of_the_log():
    looks = [entry for entry in LOG if entry["kind"] == "look"]
    picture = paper_views.learning_curves(LOG)
    alt = repr(picture)
    assert f"newstest2013 ends at {looks[-1]['valid_loss']:.2f}" in picture.caption
    assert f"to {looks[-1]['valid_loss']:.2f} nats" in alt and f"to {looks[-1]['bleu']:.1f}." in alt
    assert f"{looks[0]['step']:,}" in shown(paper_views.answers_over_time(LOG))


def test_counts_of_operations():
    four = {"by hand": 2e15, "time × peak": 8e15}
    assert "by hand 2, time × peak 8" in repr(paper_views.cost_bars(four))
    assert (
        paper_views.cost_bars(four).caption
        == "One run, counted in 2 ways, from 2 to 8 · 10¹⁵ operations: a factor of 4."
    )
    assert "took 25% of the operations" in repr(paper_views.share_said(four, RUN))


def test_the_drawing_and_what_to_fetch():
    drawn = paper_views.tokens_on_disk()
    assert "offsets 0, 3, 6, 8, 11" in repr(drawn) and drawn.caption.startswith(
        "11 tokens take 22 bytes; the offsets 6 and 8"
    )
    assert "Preparation by size" in paper_views.preparation()._repr_html_()
    said = repr(paper_views.to_fetch_said(corpora.WMT14, 4.0))
    both = sum(size for size, languages, _ in corpora.WMT14.values() if "de" in languages)
    assert f"{both / 1000:.1f} GB for German" in said and "would take 4.0" in said
