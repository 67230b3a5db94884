"""`litbook.workshop`: each patient shows its symptom, its probe finds it and no other probe
misleads; the verdict knows right from wrong."""

import ast
import json
import math
import re
from functools import cache
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from transformer_lit import decoding
from transformer_lit.decoding import beam_search, greedy_decode
from transformer_lit.loss import label_smoothed_cross_entropy
from transformer_lit.masks import BOS, EOS, PAD
from litbook import workshop
from litbook.workshop import (
    BUDGET,
    chart,
    judged,
    patients,
    probe,
)
from litbook.workshop.patients import (
    FAULTS,
    FAULTY,
    LEARNED,
    SOUND,
    WARD,
    admitted,
    patient,
)
from litbook.workshop.probes import PROBES, reading as cached_reading, symptoms, unwell

PAGE = Path(__file__).resolve().parent.parent / "book" / "14b_workshop.ipynb"
SLOW, WRONG = "it learns too slowly", "its output is wrong"
TOO_GOOD = "its loss in training is lower than it can be"
SIGNS = {
    "eos": {WRONG},
    "scale": {SLOW},
    "transposed": {TOO_GOOD, WRONG},
    "training": {"its losses in training and in evaluation mode disagree"},
    "position": {WRONG},
    "pad": {WRONG},
    "cross": {WRONG},
    "shift": {TOO_GOOD, WRONG},
    "mean": {TOO_GOOD},
    "pile": {SLOW, WRONG},
    "length": {"the output of beam search is too short"},
}


def signs(fault):
    return cached_reading(symptoms, fault)


def reading(name, fault):
    return cached_reading(PROBES[name].run, fault)


@pytest.fixture(autouse=True)
def nothing_spent(monkeypatch):
    monkeypatch.setattr(workshop, "SPENT", {})


def test_a_healthy_model_is_the_books_own_and_shows_nothing():
    case = admitted("")
    assert unwell(signs("")) == [], f"a healthy model looks ill: {signs('')}"
    assert case.changed() == []
    source, target = case.batch()
    assert case.greedy(source) == greedy_decode(case.model, source, patients.LIMIT)
    beam = beam_search(case.model, source, 4, 0.6, patients.LIMIT, early_stopping=False)
    assert case.beam(source) == beam


@pytest.mark.parametrize("fault", ["", *sorted(FAULTY)])
def test_a_patient_shows_its_symptom_and_no_probe_misleads(fault):
    """A probe misleads if it shows trouble where the fault isn't: here exactly those of the list
    may."""
    assert set(unwell(signs(fault))) >= SIGNS.get(fault, set()), f"{fault}: {signs(fault)}"
    alarmed = {name for name, kind in PROBES.items() if kind.trouble(reading(name, fault))}
    assert alarmed == (set(FAULTS[fault]["probes"].split()) if fault else set())


@pytest.mark.parametrize("n", range(1, 11))
def test_a_name_or_a_print_gives_nothing_away(n):
    case = patient(n)
    shown = f"{case} {case.model} {type(case.model).__name__} {' '.join(vars(case.model))}"
    names = set(FAULTY) - {"position", "training", "shift"}
    assert not names & set(re.findall(r"\w+", shown))


def test_patients_are_copies():
    case = patient(1)
    with torch.no_grad():
        next(case.model.parameters()).zero_()
    assert next(patient(1).model.parameters()).any()


def test_a_decoding_with_another_penalty_is_over_with_the_call():
    penalty, source = decoding.length_penalty, admitted("").batch()[0]
    admitted("length").beam(source[:1])
    assert decoding.length_penalty is penalty


def test_the_fourth_probe_is_refused_and_a_repeated_one_is_free():
    names = list(PROBES)
    for name in [*names[:BUDGET], names[0]]:
        assert "<table" in probe(3, name)._repr_html_()
    assert "<table" not in repr(probe(3, names[BUDGET]))
    assert workshop.SPENT[3] == names[:BUDGET], "the fourth probe of a case must be refused"
    probe(4, names[BUDGET])
    assert workshop.SPENT[4] == [names[BUDGET]], "another case has probes of its own"


@cache
def solutions() -> dict[int, tuple]:
    "check and mend of each case, from the page's own cells."
    space = {}
    for cell in json.loads(PAGE.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["id"] == "imports":
            exec(source, space)
        elif cell["id"].startswith(("solution-", "checks-0", "mend-0")):
            nodes = ast.parse(source).body
            functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
            exec(compile(ast.Module(functions, []), cell["id"], "exec"), space)
    return {0: (space["ends_in_eos"], space["mend"])} | {
        n: (space[f"check_{n}"], space[f"mend_{n}"]) for n in range(1, 11)
    }


@pytest.mark.parametrize("n", range(11))
def test_the_pages_answer_is_right_and_no_other(n):
    "Another case's mend is refused, and a check that asks for nothing."
    check, mend = solutions()[n]
    assert judged(n, check, mend).startswith("Right."), f"case {n}, {WARD[n]}"
    unlike = (*LEARNED, FAULTS[WARD[n]]["part"])
    elsewhere = next(m for m in range(1, 11) if FAULTS[WARD[m]]["part"] not in unlike)
    for answer in (
        (check, solutions()[elsewhere][1]),
        (lambda case: True, mend),
        (lambda case: False, mend),
    ):
        assert not judged(n, *answer).startswith("Right.")


def case_of(fault):
    return WARD.index(fault)


def all_parts(case):
    for name, part in SOUND.items():
        setattr(case, name, part)


def raises(case):
    raise KeyError("x")


@pytest.mark.parametrize(
    "check, mend, words",
    [
        (lambda case: ..., None, "check"),
        (None, lambda case: ..., "mend"),
        (None, all_parts, "9"),
        (None, lambda case: setattr(case, "first", lambda: BOS), "TypeError"),
        (raises, None, "KeyError"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(check, mend, words):
    n = case_of("pad")
    answer = judged(n, check or solutions()[n][0], mend or solutions()[n][1])
    assert words in answer and not answer.startswith("Right.")
    assert not set(re.findall(r"\w+", answer)) & set(SOUND), "it gives the part away"


def test_a_mend_that_only_pleases_the_check_is_seen_through():
    def half(case):
        case.first = lambda rows: torch.full_like(rows, BOS if len(rows) == 2 else PAD)

    def nearly(case):
        case.loss = lambda logits, labels: label_smoothed_cross_entropy(logits, labels, 0.05)

    def pleased(case):
        loss = case.loss(torch.zeros(1, 2, 24), torch.tensor([[7, PAD]]))
        return abs(loss - math.log(24)) < 1e-4

    pad, mean = case_of("pad"), case_of("mean")
    assert WRONG in judged(pad, solutions()[pad][0], half)
    assert SLOW in judged(mean, pleased, nearly)


def test_a_mend_in_other_words_is_right_as_well():
    def check(case):
        logits, labels = torch.zeros(1, 3, 24), torch.tensor([[7, EOS, PAD]])
        return torch.isclose(case.loss(logits, labels), torch.tensor(24.0).log())

    def mend(case):
        case.loss = lambda logits, labels: F.cross_entropy(
            logits.flatten(0, -2), labels.flatten(), ignore_index=PAD
        )

    assert judged(case_of("mean"), check, mend).startswith("Right.")


def test_charts_hold_recorded_probes_behind_folds():
    outside = re.sub(r"<details.*?</details>", "", chart(2).html, flags=re.S)
    assert "Hint" not in outside and "Probe" not in outside
