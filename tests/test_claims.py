"""Claims: each has a record that supports it, this machine's run fits its record, and a spoilt
experiment is seen; what a page writes of a record stands beside its check."""

import ast
import math
import os
import re
import statistics
import subprocess
import sys
from functools import reduce
from pathlib import Path

import nbformat
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtr

from litbook import claims

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / ".run" / "out"
sys.path.insert(0, str(ROOT / "tools"))
import replicate  # noqa: E402

CHAPTERS = [path for path in replicate.chapters([]) if "claims." in path.read_text("utf-8")]


def record(*effects, processor="Intel, AMX"):
    "A record as `make replicate` writes it, of one claim: effects above 0 hold."
    setting = dict(processor=processor, instructions="best", threads=1, torch="2.13.0")
    runs = [{"effect": e, "held": e > 0, "shift": n, **setting} for n, e in enumerate(effects)]
    return {"kind": "below", "low": 0.0, "high": None, "unit": "nats", "words": "w", "runs": runs}


def result(name, effect):
    return dict(name=name, effect=effect, held=effect > 0)


# Judging a run ------------------------------------------------------------------------------------

UNLIKELY = 1e-3


def surprise(effect, record):
    """How seldom a run like the recorded ones gives an effect this far on the wrong side: Student's
    t for one more observation, n - 1 degrees of freedom, the smaller tail. 1.0 where the record is
    too small to say."""
    seen = [run["effect"] for run in record["runs"] if run["effect"] is not None]
    if len(seen) < 3:
        return 1.0
    spread = max(statistics.stdev(seen), 1e-9 * max(1.0, *map(abs, seen)))
    t = abs(effect - statistics.fmean(seen)) / (spread * math.sqrt(1 + 1 / len(seen)))
    return float(stdtr(len(seen) - 1, -t))


def allowed(chances):
    """The most claims that may come out otherwise: with these chances of doing so, more happens
    less than once in a thousand (the exact distribution of a sum of independent trials)."""
    # P(0 fail), P(1 fails), ...
    failing = reduce(np.convolve, [[1 - p, p] for p in chances], [1.0])
    return int(np.searchsorted(np.cumsum(failing), 1 - UNLIKELY))


def judge(measured, record):
    """What is wrong with a run of the book, in words; [] when nothing is.

    A claim that came out otherwise fails alone when an effect like its own comes less than once in
    a thousand runs like the recorded ones: then the experiment is broken, not the processor. The
    rest are counted: with a record of h of n, a claim may come out otherwise with chance (n - h +
    1) / (n + 2) (Laplace), and more than `allowed` of them fails."""
    wrong, otherwise, chances = [], [], []
    for claim in measured:
        of_it = record.get(claim["name"])
        if of_it is None or claims.stands(of_it):
            wrong.append(f"{claim['name']} {claims.stands(of_it)}")
            continue
        runs = of_it["runs"]
        chances.append((len(runs) - sum(run["held"] for run in runs) + 1) / (len(runs) + 2))
        if claim["held"]:
            continue
        p = surprise(claim["effect"], of_it)
        if not math.isfinite(claim["effect"]) or p < UNLIKELY:
            wrong.append(
                f"{claim['name']} came out otherwise with {claim['effect']:.3g}, which runs like"
                f" the recorded give with chance {p:.0e}: is its experiment broken?"
            )
        else:
            otherwise.append(claim["name"])
    if len(otherwise) > (most := allowed(chances)):
        wrong.append(f"more than {most} claims came out otherwise: {', '.join(otherwise)}")
    return wrong


# The arithmetic -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "held, tried, low, high",
    [(10, 10, 0.6915, 1), (3, 3, 0.2924, 1), (9, 10, 0.5550, 0.9975), (0, 5, 0, 0.5218)],
)
def test_the_exact_interval_is_the_tables(held, tried, low, high):
    assert claims.interval(held, tried) == pytest.approx((low, high), abs=1e-4), (
        "Clopper and Pearson's interval has other ends"
    )


@pytest.mark.parametrize("t, runs, p", [(2.262157, 10, 0.025), (4.296806, 10, 0.001), (0, 5, 0.5)])
def test_students_tail_is_the_tables(t, runs, p):
    effects = np.arange(float(runs))
    away = t * effects.std(ddof=1) * math.sqrt(1 + 1 / runs)
    chance = surprise(effects.mean() - away, record(*effects))
    assert chance == pytest.approx(p, rel=1e-5), "the tail of Student's t is another"


@given(st.lists(st.floats(0.01, 0.5), min_size=1, max_size=40))
def test_the_number_allowed_is_passed_less_than_once_in_a_thousand(chances):
    bound, failing = allowed(chances), reduce(np.convolve, [[1 - p, p] for p in chances])
    assert sum(failing[bound + 1 :]) < 1e-3 + 1e-12, "more claims fail by chance"
    assert bound == 0 or sum(failing[bound:]) > 1e-3 - 1e-12, "a smaller bound would do"


# What a chapter calls -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, values, more, held",
    [
        ("below", ([1.0, 2.0], [2.0, 5.0]), {"by": 1.5}, True),
        ("below", ([1.0, 2.0], [2.0, 5.0]), {"by": 2.0}, False),
        ("below", (2.0, 1.0), {}, False),
        ("below", (math.nan, 1.0), {}, False),
        ("within", (0.1, 0.1, 0.2), {}, False),
        ("within", (0.15, 0.1, 0.2), {}, True),
    ],
)
def test_a_claim_holds_strictly_inside_its_threshold(kind, values, more, held, monkeypatch):
    "`below` by the mean gap of the pairs."
    shown = []
    monkeypatch.setattr(claims, "show", shown.append)
    getattr(claims, kind)("00/x", *values, **more, words="w")
    assert shown[0].held == held, "the threshold is turned, or upper and lower are swapped"


def test_a_claim_stops_nothing_and_says_so_when_it_comes_out_otherwise(monkeypatch):
    shown = []
    monkeypatch.setattr(claims, "display", lambda data, **named: shown.append((data, named)))
    claims.below("00/x", 2.0, 1.0, unit="nats", words="<a> below b")
    data, named = shown[0]
    metadata = named["metadata"]["claim"]
    assert "&lt;a&gt;" in data["text/html"] and metadata["held"] is False
    again = claims.rendered(claims.from_metadata(metadata))
    assert again == data, "the build shows another line than the chapter"


def test_kinds_of_processor_are_never_pooled():
    both = record(*[0.5] * 10)
    both["runs"] += record(*[0.5] * 3, *[-0.1] * 7, processor="AMD, AVX-512")["runs"]
    assert "3 of 10" in claims.stands(both), "one weak kind of processor passes"


@pytest.mark.parametrize("value, fits", [(0.1, True), (0.2, True), (0.05, False), (0.3, False)])
def test_a_sentence_about_a_record_stops_the_build_when_the_record_says_otherwise(value, fits):
    try:
        claims.recorded("00/x", value, 0.1, 0.2, words="a fifth at most")
    except AssertionError as error:
        assert not fits and "a fifth at most" in str(error)
    else:
        assert fits, "a number that the record doesn't have stands on the page"


def recorded_sentences():
    "(name, words, the next paragraph) of every `claims.recorded`."
    for path in sorted((ROOT / "book").glob("*.ipynb")):
        cells = nbformat.read(path, 4).cells
        for k, cell in enumerate(cells):
            if cell.cell_type == "code" and "claims.recorded(" in cell.source:
                text = next(c.source for c in cells[k:] if c.cell_type == "markdown")
                for call in ast.walk(ast.parse(cell.source)):
                    if isinstance(call, ast.Call) and ast.unparse(call.func) == "claims.recorded":
                        words = {word.arg: word.value for word in call.keywords}["words"]
                        yield call.args[0].value, words.value, text


def test_what_is_recorded_is_what_the_next_paragraph_says():
    sentences = list(recorded_sentences())
    assert len({name for name, *_ in sentences}) == len(sentences) > 0, "a name comes twice"
    for name, words, text in sentences:
        plain = " ".join(re.sub(r"[*_`]", "", text).split())
        assert words in plain, f"{name}: the next paragraph doesn't say {words!r}"


# What a record must be, and what a run may be -----------------------------------------------------


@pytest.mark.parametrize(
    "effects, wrong",
    [
        ([0.5] * 5, ""),
        ([0.5] * 4, "4 runs"),
        ([0.5] * 4 + [-1], "4 of 5"),
        ([0.5] * 9 + [-1], ""),
        ([0.5] * 8 + [-1] * 2, "8 of 10"),
    ],
)
def test_a_record_stands_at_nine_of_ten_and_at_five_of_five(effects, wrong):
    verdict = claims.stands(record(*effects))
    assert bool(verdict) == bool(wrong) and wrong in verdict, (
        "a claim that held too seldom stands, or one that held falls"
    )


CLOSE = record(0.5, 0.6, 0.4, 0.55, 0.45, 0.5, 0.62, 0.38, 0.52, 0.48)
WIDE = record(0.5, 0.1, 0.9, 0.2, 1.2, 0.4, 0.05, 0.3, 0.8, 0.6)


@pytest.mark.parametrize(
    "of_it, effect, broken",
    [(CLOSE, 0.3, False), (CLOSE, 0.0, True), (CLOSE, math.nan, True), (WIDE, -0.02, False)],
)
def test_a_spoilt_experiment_is_told_from_a_close_call(of_it, effect, broken):
    verdict = judge([result("00/x", effect)], {"00/x": of_it})
    assert bool(verdict) == broken and all("broken" in line for line in verdict)


def test_more_close_calls_than_chance_allows_fail():
    for n, fails in ((5, False), (6, True)):
        results = [result(f"00/{k}", -0.02 if k < n else 0.5) for k in range(12)]
        verdict = judge(results, {f"00/{k}": WIDE for k in range(12)})
        assert bool(verdict) == fails, "chance allows 5 of 12"


# The experiment behind a claim --------------------------------------------------------------------


def experiment(folder, *cells):
    path = folder / "00_made.ipynb"
    cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    replicate.slices.cache_clear()
    return replicate.experiments(path)["00/x"]


CELLS = (
    "import random\nfrom litbook import claims",
    "def train(seed):\n    'Words.'\n    return random.Random(seed).random()",
    "lost = [train(s) for s in (1, 2)]",
    "other = 3",
    "figure = max(lost)",
    "claims.below('00/x', lost, [9, 9], words='low', unit='nats')",
)


@pytest.mark.parametrize(
    "cell, new, due",
    [
        (1, "def train(seed):\n    'Others.'\n    return random.Random(seed).random()  # a", False),
        (1, "def train(seed):\n    return random.Random(seed + 1).random()", True),
        (2, "lost = [train(s) for s in (1, 3)]", True),
        (3, "other = 4", False),
        (3, "lost[0] = 5", True),
        (4, "figure = max(lost)\nlost.append(5), 2", True),
        (3, "other = lost.copy()\nother.append(3)", False),
        (5, "claims.below('00/x', lost, [9, 9], words='lower', unit='')", False),
        (5, "claims.below('00/x', lost, [9, 9], by=1, words='low')", True),
    ],
)
def test_a_record_falls_due_when_its_experiment_changes_and_not_when_words_do(
    cell, new, due, tmp_path
):
    changed = experiment(tmp_path, *CELLS[:cell], new, *CELLS[cell + 1 :])
    assert (experiment(tmp_path, *CELLS) != changed) == due


SEEDED = """import random, subprocess, sys, torch, numpy
print(random.Random(1).random(), torch.manual_seed(0) and torch.rand(1).item(),
      torch.rand(1, generator=torch.Generator().manual_seed(3)).item(),
      numpy.random.default_rng(0).random())
sys.argv[1:] and subprocess.run([sys.executable, '-c', sys.argv[1]])"""


def test_seeds_are_shifted_without_the_programs_knowing():
    "In torch, its generators, numpy and random; the same in children."
    numbers = []
    for shift in "01":
        shifted = {"PYTHONPATH": str(ROOT / "tools/shifted"), "TRANSFORMER_LIT_SEED_SHIFT": shift}
        command = [sys.executable, "-c", SEEDED, SEEDED]
        numbers.append(
            subprocess.check_output(command, text=True, env=os.environ | shifted).split()
        )
    zero, one = numbers
    assert len(zero) == 8 and zero[:4] == zero[4:], "a child has other seeds than its parent"
    assert not set(zero) & set(one), "some source of random numbers isn't shifted"


# This book, on this machine -----------------------------------------------------------------------


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_the_record_of_a_claim_stands(path):
    wrong = []
    for name, experiment in replicate.experiments(path).items():
        of_it = claims.records().get(name)
        if claims.stands(of_it):
            wrong.append(f"{name} {claims.stands(of_it)}")
        elif of_it["experiment"] != experiment:
            wrong.append(f"{name} has changed: make replicate N={path.name[:2]}")
        elif any(len(run["commit"]) != 40 for run in of_it["runs"]):
            wrong.append(f"{name} was made from uncommitted code")
    assert not wrong, wrong


def test_no_record_is_left_without_its_claim():
    assert set(claims.records()) == {name for path in CHAPTERS for name in replicate.slices(path)}


def test_the_claims_of_this_machine_fit_their_records():
    paths = [OUT / path.name for path in CHAPTERS if replicate.slices(path)]
    if not all(path.exists() for path in paths):
        pytest.skip("not every chapter was executed: make book")
    here = [claim for path in paths for claim in claims.from_notebook(nbformat.read(path, 4))]
    names = {claim["name"] for claim in here}
    assert names == set(claims.records()), "a chapter didn't reach its claims"
    assert not judge(here, claims.records())


# Planted: an experiment that is spoilt is shown by its claim --------------------------------------

SPOILT = [  # claim, old code, new code: both arms the same, or the arm that should win taken away
    ("01/fade", '"attention": Attention}', '"attention": lambda D: nn.RNN(D, D)}'),
    ("02/median", "(math.sqrt(d_k) if scaled else 1)", "math.sqrt(d_k)"),
    ("06/bend", "nn.ReLU() if bend else nn.Identity()", "nn.ReLU()"),
    ("23/open-gate", "= reset, update", "= reset, 0.0"),
]


@pytest.mark.slow
@pytest.mark.parametrize("name, old, new", SPOILT, ids=[name for name, *_ in SPOILT])
def test_a_spoilt_experiment_is_seen(name, old, new, monkeypatch, capsys):
    """The cells of one claim, as the chapter has them and with one of them spoilt, judged by the
    claim's own record."""
    (path,) = (path for path in CHAPTERS if path.name.startswith(f"{name[:2]}_"))
    cells, verdicts = replicate.slices(path)[name], []
    assert sum(old in cell for cell in cells) == 1, "the experiment has changed: plant another"
    for source in cells, [cell.replace(old, new) for cell in cells]:
        shown, names = [], {"__name__": "chapter", "claims": claims}
        monkeypatch.setattr(claims, "show", shown.append)
        for cell in map(replicate.experiment_in, source):
            exec(compile(cell, name, "exec"), names)
        (claim,) = [claim for claim in shown if claim.name == name]
        measured = {field: getattr(claim, field) for field in ("name", "effect", "held")}
        verdicts.append(judge([measured], claims.records()))
    healthy, spoilt = verdicts
    assert healthy == [] and len(spoilt) == 1 and "broken" in spoilt[0], verdicts
