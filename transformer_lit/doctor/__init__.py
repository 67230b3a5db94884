"""Checks for a Transformer of your own: `examine` asks it what a book would ask its own model.

from transformer_lit.doctor import examine
examine(model, vocab_size=32000, pad_id=0, bos_id=1, eos_id=2).check()
"""

import re
import time
from collections.abc import Callable, Collection
from copy import deepcopy

import torch
from torch import nn

from .case import Case, guess_logits, guess_loss, length_first
from . import training  # noqa: F401  # its checks register themselves
from .checks import CHECKS
from .report import ALLOWED, ERROR, FAULT, NOTE, OK, SKIPPED, Finding, Report

__all__ = ["examine", "Report", "Finding", "Case"]
OVERFIT_LIMIT = 30_000_000  # on a CPU more parameters than these take minutes
PURPOSE = {
    "step": "step: does decoding with a KV cache give the logits of the full pass?",
    "start": "start, which makes the state of step; one without a state: start=lambda n: None",
    "decode": "decode: does decoding start with the token that training starts with?",
    "rank": "rank: does beam search favor short outputs?",
    "batch": "batch: are the labels the decoder's input, shifted by one?",
    "loss": "loss: what does the loss ignore and smooth? It may shift the labels itself",
    "pads": "pad_id: does padding change the logits?",
    "steps": "quick=False, and a model that isn't too large for a CPU",
    "encode": "encode: does the encoder read both ways?",
    "optimizer": "optimizer: has it all parameters; do zero_grad and the schedule work?",
    "accumulate": "accumulate: do half batches add up to the gradient of the batch?",
}


def examine(
    model: nn.Module,
    logits: Callable | None = None,
    *,
    vocab_size: int,
    kind: str | None = None,
    allow: Collection[str] = (),
    quick: bool = False,
    checks: Collection[str] = (),
    **fields,
) -> Report:
    """Examine a model for faults that raise no error; a report.

    logits: ids to logits (B, T, V), as training calls the model, masks included; guessed for a
    forward of a usual signature. kind: "encoder-decoder", "decoder-only" or "encoder-only". allow:
    names of checks whose faults are meant. quick: without overfitting a batch. checks: only these.
    `fields` are those of `Case`: pad_id, bos_id, eos_id, loss, step ... each makes more checks
    possible. Weights, gradients, mode, optimizer and random state are as before afterwards."""
    started = time.perf_counter()
    if unknown := {*allow, *checks} - CHECKS.keys():
        raise ValueError(f"no checks: {sorted(unknown)}; there are {sorted(CHECKS)}")
    case = Case(model, logits, vocab_size, kind, **fields)
    case.logits = logits or guess_logits(case)
    findings: list[Finding] = []
    with torch.random.fork_rng():
        if logits is None:
            length_first(case)
        case.run(*case.inputs())  # lazy modules get their shapes; a wrong adapter fails here
        guess_loss(case)
        size = sum(w.numel() for w in model.parameters())
        if quick or case.device.type == "cpu" and size > OVERFIT_LIMIT:
            case.steps = 0
        gradients = [(w, w.grad) for w in model.parameters()]
        stateful = (x for x in (model, case.optimizer, case.scheduler) if hasattr(x, "state_dict"))
        before = [(x, deepcopy(x.state_dict())) for x in stateful]
        for name, (f, needs) in CHECKS.items():
            if checks and name not in checks:
                continue
            missing = [field for field in needs if not getattr(case, field)]
            if missing:
                if invitation := PURPOSE.get(missing[0]):
                    findings.append(Finding(name, SKIPPED, f"needs the argument {invitation}"))
                continue
            model.zero_grad()
            for w in model.parameters():
                if not w.any():  # a zero branch or head would hide everything behind it
                    w.data.normal_(0, 0.02)
            findings += run_check(name, f, case, name in allow, needs)
            for x, state in before:
                x.load_state_dict(deepcopy(state))
            if findings and findings[-1].cause.startswith("a row with no key"):
                break  # nothing compares with nan
        for w, gradient in gradients:
            w.grad = gradient
    return Report(type(model).__name__, findings, time.perf_counter() - started)


def run_check(name: str, f: Callable, case: Case, allowed: bool, needs: list[str]) -> list[Finding]:
    "One check's findings; what it raises is one, too, with what `Case` says of the check's fields."
    findings = []
    try:
        for ok, evidence, cause in f(case):
            verdict = NOTE if ok is NOTE else OK if ok else ALLOWED if allowed else FAULT
            findings.append(Finding(name, verdict, evidence, cause * (verdict != OK)))
    except Exception as error:
        words = f"{type(error).__name__}: {error}".split("\n")[0]
        fields = re.findall(r"(\w+): ([^.]+)\.", " ".join(Case.__doc__.split()))
        cause = "; ".join(f"{field} is {text}" for field, text in fields if field in needs)
        findings.append(Finding(name, ERROR, words, cause or "ids that the model can't take"))
    return findings
