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
from transformer_lit.masks import BOS, EOS, PAD, target_mask
from transformer_lit.model import Transformer
from transformer_lit.batching import collate
from litbook import workshop
from litbook.workshop import (
    BUDGET,
    chart,
    hint,
    judged,
    patients,
    probe,
    round_of_the_ward,
    verdict,
)
from litbook.workshop.patients import (
    FAULTS,
    FAULTY,
    LEARNED,
    SENTENCES,
    SOUND,
    WARD,
    Patient,
    admitted,
    floor,
    patient,
    plain,
    two_answers,
)
from litbook.workshop.probes import PROBES, reading as cached_reading, symptoms, unwell

PAGE = Path(__file__).resolve().parent.parent / "book" / "91_ten_patients.ipynb"
SLOW, WRONG = "it learns too slowly", "it gives wrong answers"
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
    "length": {"the beam's answer is too short"},
}


def seen(fault):
    return cached_reading(symptoms, fault)


def reading(name, fault):
    return cached_reading(PROBES[name].run, fault)


every_fault = pytest.mark.parametrize("fault", sorted(FAULTY))


@pytest.fixture(autouse=True)
def nothing_spent(monkeypatch):
    monkeypatch.setattr(workshop, "SPENT", {})


def test_the_task_has_padded_targets_and_sources_of_one_length():
    source, target = admitted("").batch()
    assert (source != PAD).all() and (target == PAD).any() and source.shape == (SENTENCES + 10, 9)
    for read, say in plain():
        assert say == [
            BOS,
            *(word for word in read if word != patients.UM),
        ], "the target leaves out the ums, and nothing else"
    chance = -(0.6 * math.log(0.3) + 0.4 * math.log(0.4))
    assert floor() == pytest.approx(10 * chance / int((target[:, 1:] != PAD).sum()))
    assert len({tuple(read) for read, _ in two_answers()}) == 1


def test_a_healthy_model_is_the_books_own_and_shows_nothing():
    one = admitted("")
    assert unwell(seen("")) == [], f"a healthy model looks ill: {seen('')}"
    assert one.changed() == [] and all(getattr(one, name) is one._given[name] for name in SOUND)
    source, target = one.batch()
    assert one.greedy(source) == greedy_decode(one.model, source, patients.LIMIT)
    assert one.beam(source) == beam_search(
        one.model, source, 4, 0.6, patients.LIMIT, early_stopping=False
    )
    with torch.no_grad():
        twin = Transformer(one.model.config)
        twin.load_state_dict(one.model.state_dict())
        torch.testing.assert_close(twin(source, target), one.model(source, target))


def test_a_full_answer_wins_by_the_penalty_and_loses_without():
    words = "words by a beam of 4"
    assert seen("")[words] == 8 and seen("length")[words] == 1


@every_fault
def test_each_patient_shows_its_symptom(fault):
    assert (
        set(unwell(seen(fault))) >= SIGNS[fault]
    ), f"{fault} should be seen by {SIGNS[fault]}: {seen(fault)}"


@pytest.mark.parametrize("fault", ["", *sorted(FAULTY)])
def test_its_probes_find_it_and_no_other_misleads(fault):
    """A probe misleads if it shows trouble where the fault isn't: here exactly those of the list
    may."""
    alarmed = {name for name, one in PROBES.items() if one.trouble(reading(name, fault))}
    assert alarmed == (
        set(FAULTS[fault]["probes"].split()) if fault else set()
    ), f"{fault or 'healthy'}: {alarmed} show trouble"


def test_the_ids_tell_two_faults_apart():
    healthy_ids = reading("ids", "")
    assert healthy_ids["the decoder reads"].startswith("BOS") and healthy_ids[
        "and must say"
    ].endswith("EOS")
    shifted, padded = reading("ids", "shift"), reading("ids", "pad")
    assert shifted["the decoder reads"] == shifted["and must say"] == healthy_ids["and must say"]
    assert padded["the decoder reads"] == healthy_ids["the decoder reads"] and padded[
        "when decoding it reads"
    ].startswith("PAD")


def test_the_future_tells_when_the_mask_is_off():
    always, later = reading("future", "transposed"), reading("future", "training")
    assert all(float(x) > 0.1 for x in always.values())
    assert (
        later["largest change before it, in training mode"]
        < 1e-4
        < 0.1
        < later["largest change before it, in evaluation mode"]
    )


def test_the_batch_tells_logits_from_losses():
    mean, cross = reading("batch", "mean"), reading("batch", "cross")
    assert (
        mean["largest difference of its logits"] < 1e-4 < cross["largest difference of its logits"]
    )


def test_gradients_pile_up_step_by_step():
    piled, well = (list(reading("gradients", fault).values()) for fault in ("pile", ""))
    assert [x / piled[0] for x in piled] == pytest.approx(
        [1, 2, 3, 4, 5], rel=1e-3
    ) and well == pytest.approx([well[0]] * 5, rel=1e-4)


def test_a_name_or_a_print_tells_nothing():
    for n in range(1, 11):
        one = patient(n)
        shown = f"{one} {one.model} {type(one.model).__name__} {' '.join(vars(one.model))}"
        assert not re.search(
            "|".join(
                f"{name}\\b" for name in FAULTY if name not in ("position", "training", "shift")
            ),
            shown,
        )


def test_patients_are_copies():
    one = patient(1)
    one.first = lambda rows: rows
    with torch.no_grad():
        next(one.model.parameters()).zero_()
    again = patient(1)
    assert again.changed() == [] and next(again.model.parameters()).abs().sum() > 0


def test_every_fault_has_a_case_and_its_text():
    assert WARD[0] == "eos" and sorted(WARD) == sorted(FAULTY)
    assert all(set(FAULTS[name]) == {"part", "probes", "look", "probe", "origin"} for name in WARD)


def test_training_leaves_the_random_state():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    Patient("scale").learn(*collate(plain()[:2]), 1)
    assert torch.equal(before, torch.get_rng_state())


def test_a_decoding_with_another_penalty_is_over_with_the_call():
    kept, source = decoding.length_penalty, admitted("").batch()[0]
    admitted("length").beam(source[:1])
    assert decoding.length_penalty is kept


def test_the_fourth_probe_is_refused_and_a_repeated_one_is_free():
    names = list(PROBES)
    for name in [*names[:BUDGET], names[0]]:
        assert "a healthy model" in probe(3, name)._repr_html_()
    refused = repr(probe(3, names[BUDGET]))
    assert refused.startswith("Three probes are spent on case 3") and all(
        f"`{name}`" in refused for name in names[:BUDGET]
    )
    assert "healthy" in probe(4, names[BUDGET])._repr_html_(), "another case has probes of its own"
    assert "no probe `x`" in repr(probe(4, "x")) and len(workshop.SPENT[4]) == 1


def test_hints_come_in_three_grades():
    for n, fault in enumerate(WARD):
        first, second, third = (repr(hint(n, grade)) for grade in (1, 2, 3))
        assert (
            any(f"`{name}`" in second for name in FAULTS[fault]["probes"].split())
            or fault == "training"
        ), f"{fault}: which probe?"
        assert (
            f"`{FAULTS[fault]['part']}`" in third
            and FAULTS[fault]["part"] not in f"{first} {second}".split()
        )


@cache
def solutions() -> dict[int, tuple]:
    "check and mend of each case, from the page's own cells."
    space = {}
    for cell in json.loads(PAGE.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["id"] == "imports":
            exec(source, space)
        elif cell["id"].startswith(("solution-", "checks-0", "mend-0")):
            kept = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
            exec(compile(ast.Module(kept, []), cell["id"], "exec"), space)
    return {0: (space["ends_in_eos"], space["mend"])} | {
        n: (space[f"check_{n}"], space[f"mend_{n}"]) for n in range(1, 11)
    }


@pytest.mark.parametrize("n", range(11))
def test_the_pages_answer_is_right(n):
    assert judged(n, *solutions()[n]).startswith(
        "Right."
    ), f"case {n}, {WARD[n]}: {judged(n, *solutions()[n])}"


@pytest.mark.parametrize("n", range(11))
def test_another_cases_mend_is_refused_and_a_check_that_asks_for_nothing(n):
    check, mend = solutions()[n]
    other = next(
        m
        for m in range(1, 11)
        if FAULTS[WARD[m]]["part"] not in (*LEARNED, FAULTS[WARD[n]]["part"])
    )
    assert "your own check still fails" in judged(n, check, solutions()[other][1])
    assert "passes the patient" in judged(
        n, lambda case: True, mend
    ) and "fails a healthy" in judged(n, lambda case: False, mend)


def case_of(fault):
    return WARD.index(fault)


def test_what_is_wrong_is_told_in_one_sentence():
    n = case_of("pad")
    check, mend = solutions()[n]

    def nothing(case): ...

    def all_parts(case):
        for name, part in SOUND.items():
            setattr(case, name, part)

    def short(case):
        case.first = lambda: BOS

    def raises(case):
        raise KeyError("x")

    def asserts(case):
        assert check(case)

    for said, words in (
        (judged(n, nothing, mend), "check is not written"),
        (judged(n, check, nothing), "mend is not written"),
        (judged(n, check, all_parts), "changes 9 parts"),
        (judged(n, check, lambda case: None), "none of the nine"),
        (judged(n, check, short), "stops with TypeError"),
        (judged(n, raises, mend), "On a healthy model your check stops with KeyError"),
        (judged(n, asserts, mend), "Right."),
    ):
        assert words in said, said
        assert words == "Right." or not any(
            re.search(rf"\b{part}\b", said) for part in SOUND
        ), f"it gives the part away: {said}"
    assert repr(verdict(n, check, mend)).startswith(f"**Case {n}.** Right.")


def test_a_mend_that_only_pleases_the_check_is_seen_through():
    n = case_of("pad")

    def half(case):
        case.first = lambda rows: torch.full_like(rows, BOS if len(rows) == 2 else PAD)

    assert judged(n, solutions()[n][0], half).endswith(
        "the model isn't well: it gives wrong answers."
    )
    n = case_of("mean")

    def nearly(case):
        case.loss = lambda logits, labels: label_smoothed_cross_entropy(logits, labels, 0.05)

    told = judged(
        n,
        lambda case: abs(case.loss(torch.zeros(1, 2, 24), torch.tensor([[7, PAD]])) - math.log(24))
        < 1e-4,
        nearly,
    )
    assert "the model isn't well: it learns too slowly" in told, told


def test_mends_in_other_words_are_right_as_well():
    def check(case):
        logits, labels = torch.zeros(1, 3, 24), torch.tensor([[7, EOS, PAD]])
        return torch.isclose(case.loss(logits, labels), torch.tensor(24.0).log())

    def mend(case):
        case.loss = lambda logits, labels: F.cross_entropy(
            logits.flatten(0, -2), labels.flatten(), ignore_index=PAD
        )

    assert judged(case_of("mean"), check, mend).startswith("Right.")
    mask_check = solutions()[case_of("training")][0]

    def mask_mend(case):
        case.self_mask = lambda target: target_mask(target)

    assert judged(case_of("training"), mask_check, mask_mend).startswith("Right.")


def test_charts_hold_recorded_probes_behind_folds():
    page = chart(2).html
    assert (
        page.count("<details")
        == page.count("</details>")
        == page.count("<summary")
        == len(PROBES) + 3
    )
    assert all(f"Probe: {one.title}" in page for one in PROBES.values()) and "Hint 3" in page
    outside = re.sub(r"<details.*?</details>", "", page, flags=re.S)
    assert "Hint" not in outside and "Probe" not in outside and "aria-label" in outside
    assert round_of_the_ward().html.count("<tr>") == 12
