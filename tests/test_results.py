"""Recorded runs as tables: what readers give, intervals by hand, and commands below everything that
a page makes of them."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
import records

from litbook import results
from transformer_lit.evaluation import segment_stats

ROOT = Path(__file__).parents[1]
PAGES = ["22", "23", "24", "25", "26", "26b", "A4"]


@pytest.mark.parametrize("table", ["tatoeba", "pocket", "german", "own"])
def test_a_table_is_whole(table):
    runs, names = results.load_runs(table), results.load_sentences(table).files
    assert runs.run.is_unique and {name.partition("/")[0] for name in names} <= set(runs.run)
    assert all(len(c) == 40 for commits in runs.commits for c in commits)  # a commit is cut short
    assert runs.data.dropna().nunique() == 1  # runs of one table belong to one text
    if table != "own":
        scored = runs[runs.bleu.notna()]
        assert scored.losses.notna().all() or table == "tatoeba"
        assert {len(counts) for counts in scored.counts} == {scored.lines.iloc[0]}


def test_a_difference_in_bleu_by_hand():
    outputs = [f"le chat dort dans la maison {k} fois par jour" for k in range(30)]
    mixed = [text.replace("dort", "mange") if k % 3 else text for k, text in enumerate(outputs)]
    right, worse = (segment_stats(texts, [[o] for o in outputs]) for texts in (outputs, mixed))
    same = results.bleu_difference([right], [right])
    assert same["value"] == same["low"] == same["high"] == 0 and not same["significant"]
    single = results.bleu_difference([right], [worse])
    assert 0 < single["low"] < single["value"] < single["high"]
    assert not single["significant"]  # one seed is no evidence
    three = results.bleu_difference([right, right, worse], [worse] * 3)
    assert three["value"] == pytest.approx(2 / 3 * single["value"])
    assert three["low"] < single["low"] and not three["significant"]  # seeds are drawn too
    assert results.bleu_difference([right] * 3, [worse] * 3)["significant"]


def test_commands_name_every_run_once():
    names = [f"tatoeba-rnn-2000k-p0.006-w0-s{seed}" for seed in (1, 2, 3)]
    assert results.commands([*names, "10000-greedy+tagged-s1"]) == [
        "python bench/own 10000-greedy+tagged-s1",
        "python bench/fair tatoeba-rnn-2000k-p0.006-w0-s{1,2,3}",
    ]


def test_a_run_is_added_whole_and_replaced(tmp_path):
    for value in (1, 2):
        for run in ("a-s1", "b-s1"):
            arrays, outputs = {"losses": np.array([value])}, [f"says {value}", "é\tx"]
            log = [{"step": value}]
            records.add_run("t", run, {"value": value}, arrays, outputs, log, tmp_path)
    assert records.rows_of("t", tmp_path) == {r: {"run": r, "value": 2} for r in ("a-s1", "b-s1")}
    assert records.outputs_of("t", "a-s1", tmp_path) == ["says 2", "é\tx"]
    assert records.arrays_of("t", tmp_path)["b-s1/losses"].tolist() == [2]
    log = (tmp_path / "t-logs.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["step"] for line in log] == [2, 2]
    assert not [path for path in tmp_path.iterdir() if "part" in path.name]


READS = re.compile(
    r"results\.(trials|peaks|results|by_budget|along|ngrams|beside|clock|read)\(|"
    r"\b(change_rows|scores_of|runs_of|same_seeds|french_alone|over_seeds|gap_text)\(|"
    r"\b(standing|search_maps|peak_table|currencies|crossing_table)\(|"
    r"\b(losses_by_budget|against_2017|three_tasks|decided|sizing_row)\("
)


@pytest.mark.parametrize("page", PAGES)
def test_everything_made_of_runs_has_its_commands(page):
    (source,) = (ROOT / "book").glob(f"{page}_*.ipynb")
    executed = ROOT / ".run/out" / source.name
    if not executed.exists():
        pytest.skip("not executed: make book")
    checked = 0
    for cell in json.loads(executed.read_text("utf-8"))["cells"]:
        shown = json.dumps(cell.get("outputs", []))
        if "text/html" in shown and READS.search("".join(cell["source"])):
            assert "python bench/" in shown, f"{cell['id']}: no command below it"
            checked += 1
    assert checked >= 4
