"""The workshop: ten small Transformers, each with one fault that was really made; probes, hints and
a verdict. Whoever wants to heal them reads this folder afterwards."""

from collections.abc import Callable

from litbook import figures
from litbook.exercises import unwritten
from litbook.prose import Prose, in_a_row
from transformer_lit.batching import collate

from .patients import (
    FAULTS,
    LEARNED,
    WARD,
    Patient,
    admitted,
    floor,
    longer,
    patient,
    plain,
)
from .probes import PROBES, in_words, reading, symptoms, unwell

BUDGET = 3  # probes for each case
SPENT: dict[int, list[str]] = {}  # case -> the probes asked for


def beside(n: int, run: Callable, title: str) -> figures.Picture:
    "A reading of a case beside a healthy model's."
    healthy = reading(run, "")
    rows = [
        {"": name, "this case": value, "a healthy model": healthy[name]}
        for name, value in reading(run, WARD[n]).items()
    ]
    return figures.table(rows, caption=f"Case {n} · {title}")


def round_of_the_ward() -> figures.Picture:
    "Every case in one row, and a healthy model in the last."
    rows = {
        f"case\N{NO-BREAK SPACE}{n}": reading(symptoms, fault) for n, fault in enumerate(WARD) if n
    }
    rows["healthy"] = reading(symptoms, "")
    caption = "Loss after training, exact match, and length of two outputs for one source"
    return figures.table(rows, ["", *list(rows["healthy"])[2:]], caption)


# Probes and hints ---------------------------------------------------------------------------------
def probe(n: int, name: str) -> figures.Picture | Prose:
    "The reading of a probe; three for each case, the same one again is free."
    if name not in PROBES:
        return Prose(f"There is no probe `{name}`. There are {quoted(list(PROBES))}.")
    spent = SPENT.setdefault(n, [])
    if name not in spent and len(spent) == BUDGET:
        return Prose(
            f"Three probes are spent on case {n}: {quoted(spent)}. "
            f"Write a check with what they said, or take a hint: `hint({n}, 1)`."
        )
    spent += [] if name in spent else [name]
    return beside(n, PROBES[name].run, PROBES[name].title)


def quoted(names: list[str]) -> str:
    "Names in a row, as code."
    return in_a_row([f"`{name}`" for name in names])


def hints(n: int) -> list[str]:
    "Where to look; with which probe; in which part."
    fault = FAULTS[WARD[n]]
    texts = fault["look"], fault["probe"], f"The bug is in `{fault['part']}`."
    return [" ".join(text.split()) for text in texts]


def hint(n: int, grade: int = 1) -> Prose:
    "Of grade 1, where to look; 2, with which probe; 3, in which part."
    return Prose(f"Case {n}, hint {grade}: {hints(n)[grade - 1]}")


# Charts -------------------------------------------------------------------------------------------
def answers(n: int) -> figures.Picture:
    "What a case says to three sentences, wrong answers first."
    source, _ = collate([*plain(), longer()])
    rows = [
        {"expected": in_words(target[1:-1]), "output": in_words(answer)}
        for (_, target), answer in zip(plain(), patient(n).greedy(source))
    ]
    rows.sort(key=lambda row: row["expected"] == row["output"])
    return figures.table(rows[:3], caption=f"Case {n} · outputs, wrong ones first")


def curves(n: int) -> figures.Picture:
    "The training loss of a case and of the healthy model."
    case, well = patient(n).losses, admitted("").losses
    same = case == well
    return figures.curves(
        {"a healthy model": well, f"case {n}": case},
        xlabel="training step",
        ylabel="nats per token",
        logy=True,
        colors={"a healthy model": figures.GRAY, f"case {n}": figures.FAULT},
        hline=(floor(), "lower bound"),
        height=250,
        caption=(
            f"Case {n}: the loss goes from {case[0]:.2f} to {case[-1]:.3f}, a healthy model's"
            f" from {well[0]:.2f} to {well[-1]:.3f}{', and the two lines coincide' * same}."
            f" Its lower bound is {floor():.3f}."
        ),
    )


def chart(n: int) -> figures.Picture:
    "A case's sheet: its curve, its symptoms, some answers; recorded probes and hints behind folds."
    signs = beside(n, symptoms, "symptoms")
    sheet = figures.Picture(curves(n).html + signs.html + answers(n).html, None)
    for kind in PROBES.values():
        sheet = figures.folded(sheet, beside(n, kind.run, kind.title), f"Probe: {kind.title}")
    for grade, text in enumerate(hints(n), 1):
        words = figures.Picture(f"<p>{text.replace('`', '')}</p>", None)
        sheet = figures.folded(sheet, words, f"Hint {grade}")
    return sheet


# The verdict --------------------------------------------------------------------------------------
def passes(check: Callable, case: Patient) -> bool:
    "Does a check say yes? It returns True or False, or asserts."
    try:
        answer = check(case)
    except AssertionError:
        return False
    return answer is None or bool(answer)


def judged_mend(check: Callable, mend: Callable, fault: str) -> str:
    "What is wrong with a mend, in a sentence; the model is trained again if the part asks for it."
    case = admitted(fault)
    mend(case)
    changed = case.changed()
    if not changed:
        return "Your mend changes none of the nine parts."
    if len(changed) > 1:
        return f"Your mend changes {len(changed)} parts. The bug is in one; say in which."
    if changed[0] in LEARNED:
        case = case.fresh().learn(*case.batch())
    if not passes(check, case):
        return "After your mend your own check still fails."
    ill = unwell(symptoms(case)) or [
        f"the probe {kind.title} still differs from a healthy model's"
        for kind in PROBES.values()
        if kind.trouble(kind.run(case))
    ]
    return ill and f"Your check passes after your mend, but the model isn't well: {in_a_row(ill)}."


def judged(n: int, check: Callable, mend: Callable) -> str:
    "The verdict on a check and a mend, in a sentence or two that give nothing away."
    if unwritten(check):
        return "The check is not written yet."
    fault, tried = WARD[n], "On a healthy model your check"
    try:
        if not passes(check, admitted("")):
            return "Your check fails a healthy model: what it demands isn't true there."
        tried = "On the patient your check"
        if passes(check, admitted(fault)):
            return "Your check passes the patient: what it tests is not what is wrong here."
        if unwritten(mend):
            return (
                "The check is right: a healthy model passes it and the patient doesn't. The mend is"
                " not written yet."
            )
        tried = "With your mend the model"
        wrong = judged_mend(check, mend, fault)
    except Exception as error:
        return f"{tried} stops with {type(error).__name__}: {error}."
    return wrong or (
        "Right. A healthy model passes your check and the patient doesn't. After your mend it"
        f" passes too, its symptom is gone, and all {len(PROBES)} probes pass."
        f" {' '.join(FAULTS[fault]['origin'].split())}"
    )


def verdict(n: int, check: Callable, mend: Callable) -> Prose:
    """On case n: check(case) must be true of a healthy model and not of the patient; mend(case)
    replaces one part.

    After a mend the model is trained again if the part takes part in training."""
    return Prose(f"**Case {n}.** {judged(n, check, mend)}")
