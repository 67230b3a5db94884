"""Claims: each has a record that supports it, this machine's run fits its record, and a spoilt
experiment is found."""

import functools
import json
import math
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import nbformat
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtr

from litbook import claims
from litbook.figures import FAULT

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / ".run" / "out"
sys.path.insert(0, str(ROOT / "tools"))
import replicate  # noqa: E402

CLAIMS = {name: path for path in replicate.chapters([]) for name in replicate.slices(path)}


def record(*effects, low=0.0, high=None, processor="Intel, AMX", **more):
    "A record as `make replicate` writes it, of one claim."
    held = [low < e < (math.inf if high is None else high) for e in effects]
    return {
        "kind": "below" if high is None else "within",
        "low": low,
        "high": high,
        "unit": "nats",
        "words": "a below b",
        "chapter": "00_none",
        "runs": [
            {
                "effect": e,
                "held": h,
                "processor": processor,
                "shift": n,
                "instructions": "best",
                "threads": 1,
                "torch": "2.13.0",
            }
            for n, (e, h) in enumerate(zip(effects, held))
        ],
        **more,
    }


def found(name, effect, low=0.0, high=None):
    return {
        "name": name,
        "effect": effect,
        "low": low,
        "high": high,
        "words": "a below b",
        "unit": "nats",
        "held": low < effect < (math.inf if high is None else high),
    }


# Judging a run ------------------------------------------------------------------------------------

UNLIKELY = 1e-3


def surprise(effect: float, record: dict) -> float:
    """How seldom a run like the recorded ones gives an effect this far on the wrong side: Student's
    t for one more observation, n - 1 degrees of freedom, the smaller tail. 1.0 where the record is
    too small to say."""
    seen = [run["effect"] for run in record["runs"] if run["effect"] is not None]
    if len(seen) < 3:
        return 1.0
    spread = max(statistics.stdev(seen), 1e-9 * max(1.0, *map(abs, seen)))
    t = abs(effect - statistics.fmean(seen)) / (spread * math.sqrt(1 + 1 / len(seen)))
    return float(stdtr(len(seen) - 1, -t))


def allowed(chances: Sequence[float]) -> int:
    """The most claims that may come out otherwise: with these chances of doing so, more happens
    less than once in a thousand (the exact distribution of a sum of independent trials)."""
    # P(0 fail), P(1 fails), ...
    failing = reduce(np.convolve, [[1 - p, p] for p in chances], [1.0])
    return int(np.searchsorted(np.cumsum(failing), 1 - UNLIKELY))


def judge(found: Sequence[dict], record: dict[str, dict]) -> list[str]:
    """What is wrong with a run of the book, in words; [] when nothing is.

    A claim that came out otherwise fails alone when an effect like its own comes less than once in
    a thousand runs like the recorded ones: then the experiment is broken, not the processor. The
    rest are counted: with a record of h of n, a claim may come out otherwise with chance (n - h +
    1) / (n + 2) (Laplace), and more than `allowed` of them fails."""
    wrong, otherwise, chances = [], [], []
    for claim in found:
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
                f"{claim['name']} came out otherwise with {claims.number(claim['effect'])}"
                f" {claim['unit']}, which runs like the recorded give with chance {p:.0e}: is its"
                f" experiment broken? {claim['words']}"
            )
        else:
            otherwise.append(claim["name"])
    if len(otherwise) > allowed(chances):
        wrong.append(
            f"{len(otherwise)} claims came out otherwise, chance allows {allowed(chances)}:"
            f" {', '.join(otherwise)}"
        )
    return wrong


# The arithmetic -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "held, tried, low, high",
    [
        (10, 10, 0.6915, 1),
        (20, 20, 0.8316, 1),
        (3, 3, 0.2924, 1),
        (9, 10, 0.5550, 0.9975),
        (0, 5, 0, 0.5218),
        (5, 10, 0.1871, 0.8129),
    ],
)
def test_the_exact_interval_is_the_tables(held, tried, low, high):
    assert claims.interval(held, tried) == pytest.approx(
        (low, high), abs=1e-4
    ), "Clopper and Pearson's interval has other ends"


@pytest.mark.parametrize("t, runs, p", [(2.262157, 10, 0.025), (4.296806, 10, 0.001), (0, 5, 0.5)])
def test_students_tail_is_the_tables(t, runs, p):
    effects = np.arange(float(runs))
    away = t * effects.std(ddof=1) * math.sqrt(1 + 1 / runs)
    assert surprise(effects.mean() - away, record(*effects)) == pytest.approx(
        p, rel=1e-5
    ), "the tail of Student's t is another"


@given(st.lists(st.floats(0.01, 0.5), min_size=1, max_size=40))
def test_the_number_allowed_is_passed_less_than_once_in_a_thousand(chances):
    bound, failing = allowed(chances), functools.reduce(
        np.convolve, [[1 - p, p] for p in chances]
    )  # P(0 fail), P(1 fails), ...
    assert (
        sum(failing[bound + 1 :]) < 1e-3 + 1e-12
    ), "more claims fail by chance than the bound says"
    assert bound == 0 or sum(failing[bound:]) > 1e-3 - 1e-12, "a smaller bound would do"


def test_ten_claims_of_one_chance_allow_what_the_binomial_says():
    assert (
        allowed([0.1] * 10) == 5
        and allowed([0.1] * 60) == 14
        and allowed([]) == 0
    )


# What a chapter calls -----------------------------------------------------------------------------


def caught(monkeypatch, make):
    got = []
    monkeypatch.setattr(claims, "show", got.append)
    make()
    return got[0]


def test_below_is_the_mean_gap_of_the_pairs(monkeypatch):
    claim = caught(
        monkeypatch,
        lambda: claims.below("00/x", [1.0, 2.0], [2.0, 5.0], by=1.5, unit="nats", words="w"),
    )
    assert (claim.effect, claim.values) == (2.0, [1.0, 3.0])
    assert claim.held, "the threshold is turned"
    assert not caught(
        monkeypatch, lambda: claims.below("00/x", [1.0, 2.0], [2.0, 5.0], by=2.0, words="w")
    ).held
    assert not caught(
        monkeypatch, lambda: claims.below("00/x", 2.0, 1.0, words="w")
    ).held, "upper and lower are swapped"
    assert not caught(
        monkeypatch, lambda: claims.below("00/x", math.nan, 1.0, words="w")
    ).held, "nan is below nothing"


def test_within_is_open_at_both_ends(monkeypatch):
    got = [
        caught(monkeypatch, lambda v=v: claims.within("00/x", v, 0.1, 0.2, words="w")).held
        for v in (0.1, 0.15, 0.2, math.nan)
    ]
    assert got == [False, True, False, False]


def test_values_of_other_lengths_are_refused():
    with pytest.raises(ValueError, match="longer"):
        claims.below("00/x", [1.0], [1.0, 2.0], words="w")


def test_a_claim_stops_nothing_and_says_so_when_it_comes_out_otherwise(monkeypatch):
    shown = []
    monkeypatch.setattr(
        claims, "display", lambda data, raw, metadata: shown.append((data, metadata))
    )
    claims.below("00/x", 2.0, 1.0, unit="nats", words="<a> below b")
    data, metadata = shown[0]
    assert (
        "otherwise on this machine" in data["text/plain"]
        and "not replicated yet" in data["text/plain"]
    )
    assert "&lt;a&gt;" in data["text/html"] and "95_what_held.html#claim-00-x" in data["text/html"]
    assert json.loads(json.dumps(metadata, allow_nan=False))["claim"]["held"] is False
    assert (
        claims.rendered(claims.from_metadata(metadata["claim"])) == data
    ), "the build shows another line than the chapter"


def test_the_line_tells_kinds_of_processor_apart(monkeypatch):
    both = record(*[0.5] * 10)
    both["runs"] += record(*[0.5] * 9, -0.1, processor="AMD, AVX-512")["runs"]
    words = claims.record_words(both, "nats")
    assert (
        "10 of 10 runs on Intel, AMX (95%: 69 to 100%), median gap 0.500 nats [0.500, 0.500]"
        in words
    )
    assert "9 of 10 runs on AMD, AVX-512" in words and "[−0.100, 0.500]" in words


# What a record must be, and what a run may be -----------------------------------------------------


@pytest.mark.parametrize(
    "effects, wrong",
    [
        ([0.5] * 5, ""),
        ([0.5] * 4, "4 runs"),
        ([0.5] * 4 + [-1], "4 of 5"),
        ([0.5] * 9 + [-1], ""),
        ([0.5] * 8 + [-1] * 2, "8 of 10"),
        ([0.5] * 18 + [-1] * 2, ""),
        ([0.5] * 17 + [-1] * 3, "17 of 20"),
    ],
)
def test_a_record_stands_at_nine_of_ten_and_at_five_of_five(effects, wrong):
    assert bool(claims.stands(record(*effects))) == bool(
        wrong
    ), "a claim that held too seldom stands, or one that held falls"
    assert wrong in claims.stands(record(*effects))


def test_a_claim_without_a_record_fails_and_so_does_one_weak_kind_of_processor():
    assert "no record" in judge([found("00/x", 1.0)], {})[0]
    weak = record(*[0.5] * 10)
    weak["runs"] += record(*[0.5] * 3, *[-0.5] * 7, processor="AMD, AVX2")["runs"]
    assert "3 of 10 runs on AMD, AVX2" in judge([found("00/x", 1.0)], {"00/x": weak})[0]


def test_a_spoilt_experiment_is_told_from_a_close_call():
    of_it = {"00/x": record(0.5, 0.6, 0.4, 0.55, 0.45, 0.5, 0.62, 0.38, 0.52, 0.48)}
    assert judge([found("00/x", 0.3)], of_it) == []
    assert (
        "is its experiment broken" in judge([found("00/x", 0.0)], of_it)[0]
    ), "both arms are the same: nobody noticed"
    assert "is its experiment broken" in judge([found("00/x", math.nan)], of_it)[0]
    wide = {"00/x": record(0.5, 0.1, 0.9, 0.2, 1.2, 0.4, 0.05, 0.3, 0.8, 0.6)}
    assert (
        judge([found("00/x", -0.02)], wide) == []
    ), "a close call on one machine isn't a broken experiment"


def test_more_close_calls_than_chance_allows_fail():
    wide = record(0.5, 0.1, 0.9, 0.2, 1.2, 0.4, 0.05, 0.3, 0.8, 0.6)
    many = [found(f"00/{n}", -0.02 if n < 6 else 0.5) for n in range(12)]
    assert allowed([1 / 12] * 12) == 5
    assert (
        "6 claims came out otherwise, chance allows 5"
        in judge(many, {f"00/{n}": wide for n in range(12)})[0]
    )


# The experiment behind a claim --------------------------------------------------------------------


def chapter(folder, *cells):
    path = folder / "00_made.ipynb"
    nbformat.write(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells]), path
    )
    replicate.slices.cache_clear()
    return replicate.experiments(path)


CELLS = (
    "import random\nfrom transformer_lit.support import claims",
    "def train(seed):\n    'Words.'\n    return random.Random(seed).random()",
    "lost = [train(s) for s in (1, 2)]",
    "other = 3",
    "figure = max(lost)",
    "claims.below('00/x', lost, [9, 9], words='low', unit='nats')",
)


@pytest.mark.parametrize(
    "cell, new, due",
    [
        (
            1,
            (
                "def train(seed):\n    'Other words.'\n    return random.Random(seed).random()  # a"
                " comment"
            ),
            False,
        ),
        (1, "def train(seed):\n    return random.Random(seed + 1).random()", True),
        (2, "lost = [train(s) for s in (1, 3)]", True),
        (3, "other = 4", False),
        (4, "figure = min(lost)", False),
        (3, "lost[0] = 5", True),
        (3, "lost.append(5)", True),
        (3, "print(lost[0])", False),
        (4, "figure = max(lost)\nlost.append(5), 2", True),
        (3, "other = lost.copy()\nother.append(3)", False),
        (3, "other = random.Random(1)", False),
        (4, "figures.curve(lost, caption='falls')", False),
        (5, "claims.below('00/x', lost, [9, 9], words='lower', unit='')", False),
        (5, "claims.below('00/x', lost, [9, 9], by=1, words='low')", True),
    ],
)
def test_a_record_falls_due_when_its_experiment_changes_and_not_when_words_do(
    cell, new, due, tmp_path
):
    before = chapter(tmp_path, *CELLS)["00/x"]
    after = chapter(tmp_path, *CELLS[:cell], new, *CELLS[cell + 1 :])["00/x"]
    assert (before != after) == due


def test_seeds_are_shifted_without_the_programs_knowing():
    """In torch, its generators, numpy and random, in children too; the same shift gives the same
    numbers."""
    program = (
        "import random, subprocess, sys, torch, numpy\nprint(random.Random(1).random(),"
        " torch.manual_seed(0) and torch.rand(1).item(),torch.rand(1,"
        " generator=torch.Generator().manual_seed(3)).item(),"
        " numpy.random.default_rng(0).random())\nsys.argv[1:] and subprocess.run([sys.executable,"
        " '-c', sys.argv[1]])"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", program, program],
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT / "tools" / "shifted"),
                "TRANSFORMER_LIT_SEED_SHIFT": n,
            },
        ).stdout.split()
        for n in "011"
    ]
    assert (
        len(said[0]) == 8 and said[0][:4] == said[0][4:]
    ), "a child has other seeds than its parent"
    assert said[1] == said[2] and not set(said[0]) & set(
        said[1]
    ), "some source of random numbers wasn't shifted"


# This book, on this machine -----------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_a_claim_is_named_after_its_chapter_and_its_record_stands(name):
    path = CLAIMS[name]
    assert name.startswith(f"{path.name[:2]}/"), f"{name} stands in {path.stem}"
    of_it = claims.records().get(name)
    assert not claims.stands(of_it), f"{name} {claims.stands(of_it)}"
    assert (
        of_it["experiment"] == replicate.experiments(path)[name]
    ), f"the experiment of {name} has changed: make replicate N={path.name[:2]}"
    assert all(
        len(run["commit"]) == 40 for run in of_it["runs"]
    ), "a run was made from uncommitted code"


def test_no_record_is_left_without_its_claim():
    assert set(claims.records()) == set(CLAIMS)


@pytest.mark.skipif(
    not all((OUT / path.name).exists() for path in {*CLAIMS.values()}),
    reason="not every chapter was executed: make book",
)
def test_the_claims_of_this_machine_fit_their_records():
    here = [
        claim
        for path in {*CLAIMS.values()}
        for claim in claims.from_notebook(nbformat.read(OUT / path.name, 4))
    ]
    assert {claim["name"] for claim in here} == set(
        CLAIMS
    ), "a chapter was executed without reaching its claims"
    assert not judge(here, claims.records())


# Planted: an experiment that is spoilt is found by its claim --------------------------------------

SPOILT = [  # claim, old code, new code: both arms the same, or the arm that should win taken away
    ("01/fade", '"attention": Attention}', '"attention": lambda D: nn.RNN(D, D)}'),
    ("02/median", "(math.sqrt(d_k) if scaled else 1)", "math.sqrt(d_k)"),
    ("06/bend", "nn.ReLU() if bend else nn.Identity()", "nn.ReLU()"),
    ("23/open-gate", "= reset, update", "= reset, 0.0"),
]


@pytest.mark.parametrize("name, old, new", SPOILT, ids=[name for name, *_ in SPOILT])
def test_a_spoilt_experiment_is_found(name, old, new, monkeypatch, capsys):
    """The cells of one claim, as the chapter has them and with one of them spoilt, judged by the
    claim's own record."""
    cells = replicate.slices(CLAIMS[name])[name]
    assert (
        sum(old in cell for cell in cells) == 1
    ), "the experiment has changed: plant another fault"
    verdicts = []
    for source in cells, [cell.replace(old, new) for cell in cells]:
        got, names = [], {"__name__": "chapter", "claims": claims}
        monkeypatch.setattr(claims, "show", got.append)
        for cell in map(replicate.experiment_in, source):
            exec(compile(cell, name, "exec"), names)
        (claim,) = [one for one in got if one.name == name]
        verdicts.append(
            judge(
                [
                    {
                        "name": name,
                        "effect": claim.effect,
                        "held": claim.held,
                        "words": claim.words,
                        "unit": claim.unit,
                    }
                ],
                claims.records(),
            )
        )
    healthy, spoilt = verdicts
    assert healthy == []
    assert (
        len(spoilt) == 1 and "is its experiment broken" in spoilt[0]
    ), f"the spoilt experiment passed: {spoilt}"


def test_the_page_shows_every_claim_and_every_run():
    names = {}
    for cell in nbformat.read(ROOT / "book" / "95_what_held.ipynb", 4).cells:
        if cell.id in ("imports", "all"):
            exec(cell.source, names)
    page = names["all_claims"].data
    assert all(f'id="{claims.anchor(name)}"' in page for name in claims.records())
    titles = re.findall('class="tl-claimed">(.)', page)
    assert len(titles) == len(claims.records()) and not any(
        one.islower() for one in titles
    ), "each opens like a sentence"
    runs = [run for one in claims.records().values() for run in one["runs"]]
    drawn = [run for run in runs if run["effect"] is not None]
    assert page.count('fill="none"') == sum(
        run["threads"] > 1 for run in drawn
    ), "two threads are hollow"
    assert page.count(f'stroke="{FAULT}"') == sum(
        not run["held"] for run in drawn
    ), "brick is what came out otherwise, and nothing else"
    assert page.count("<title>") == len(drawn)
