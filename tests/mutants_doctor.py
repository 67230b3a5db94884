"""Which one-line mutants of the model's own modules does the doctor find? Some ten minutes:
python tests/mutants_doctor.py

A mutant counts if with the same weights other logits, loss or gradients come out; one that raises
is counted apart, and so are the faults that test_doctor.py plants. Each mutant runs in a fork. The
record is what chapter 14c shows."""

import os
import signal
import sys
from collections import Counter
from functools import partial
from importlib import import_module
from pathlib import Path

import torch
from mutants import mutations
from test_doctor import BOS, FAULTS, PAD, Training, V

from transformer_lit.corpora.files import write_json
from transformer_lit.doctor.watch import NoDropout
from transformer_lit.runs.records import git_commit

MODULES = """masks attention multi_head_attention embeddings sublayers encoder decoder model
    loss""".split()
KINDS = "same", "raises", "found", "missed"
RECORD = Path(__file__).parents[1] / "book/results/bench/doctor-mutants.json"


def behavior(weights):
    "Logits, memory, a step, loss and gradients on ids with padding; dropout off."
    case, rng = Training(), torch.Generator().manual_seed(5)
    source, target = (torch.randint(4, V, (3, n), generator=rng) for n in (7, 6))
    source[0, -2:], target[1, -2:], target[:, 0] = PAD, PAD, BOS
    model = case.model
    model.load_state_dict(weights)
    step, _ = model.eval().step(target[:, 0], model.initial_state(source))
    model.train()
    decoder_input, labels = case.shift(target)
    torch.manual_seed(1)
    logits = model(source, decoder_input)
    loss = case.loss(logits, labels)
    loss.backward()
    gradients = [w.grad for w in model.parameters() if w.grad is not None]
    return [step, logits, model.encode(source), loss, *gradients]


def install(module, text):
    "The mutated definitions, for all that imported the old ones."
    space = vars(module)
    before = dict(space)
    exec(compile(text, module.__file__, "exec"), space)
    for name, old in before.items():
        for other in list(sys.modules.values()):
            if space[name] is not old and vars(other).get(name) is old:
                setattr(other, name, space[name])


def kind_of(module, text, weights, healthy):
    try:
        install(module, text)
        with NoDropout():
            results = behavior(weights)
    except Exception:
        return "raises"
    close = partial(torch.allclose, rtol=1e-3, atol=1e-5)  # kernels round differently
    shapes, others = ([x.shape for x in tensors] for tensors in (results, healthy))
    if shapes == others and all(map(close, results, healthy)):
        return "same"
    return "found" if Training().examine().faults else "missed"


def main():
    torch.set_num_threads(1)
    weights = Training().model.state_dict()
    with NoDropout():
        healthy, counts, missed = behavior(weights), Counter(), []
    for name in MODULES:
        module = import_module(f"transformer_lit.{name}")
        source = Path(module.__file__).read_text(encoding="utf-8")
        for number, words, text in mutations(source):
            child = os.fork()
            if not child:
                signal.alarm(100)
                os._exit(KINDS.index(kind_of(module, text, weights, healthy)))
            kind = KINDS[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]
            counts[kind] += 1
            if kind == "missed":
                missed.append(f"{name}: {source.splitlines()[number - 1].strip()}; {words}")
    record = {"command": "python tests/mutants_doctor.py", "commit": git_commit(), **counts}
    write_json(RECORD, record | {"planted": len(FAULTS), "missed_mutants": missed})


if __name__ == "__main__":
    main()
