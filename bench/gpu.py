"""The first nine minutes on a GPU: what is right there, how fast it is, and a training.

    python bench/gpu.py                              nine minutes; the same command goes on with the
                                                     training
    python bench/gpu.py --out FILE                   on a CPU: tiny sizes, whose times mean nothing,
                                                     and no training

correct    the gradient of the book's model beside float64 on the processor, in fp32 and bf16, with
           attention as chapter 2 has it and by PyTorch's kernel
step       bench/step.py: ours beside nn.Transformer, both compiled
decoding   `tatoeba-fr`, greedy and a beam of four: sentences a second,
           and how many answers are those of the processor
training   `open-en-fr` until the time is up, resumable, in runs/gpu: --store is its token store,
           made here from $TRANSFORMER_LIT_DATA or brought along

The record, book/results/bench/gpu.json, is written after each part."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from common import BENCH, EVERYDAY, Record, options, try_it
from step import DEVICE, GPU, race, random_batch, seconds, set_kernel
from torch import Tensor

from transformer_lit import cli
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.runtime.devices import decoding_precision
from transformer_lit.gradients import compute_gradients
from transformer_lit.training import TrainingConfig
from transformer_lit.translation import Translator, clean_input, translate_ids

SMALL = TransformerConfig(200, None, 64, 2, 128, 2, 2, dropout=0.0)
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


def gradient(device: torch.device, dtype: torch.dtype, precision: str, fused: bool) -> Tensor:
    "Of a small model on one batch, all of it, in float64 on the processor."
    torch.manual_seed(0)
    model = set_kernel(Transformer(SMALL).to(device, dtype), fused)
    batch = (side.to(device) for side in random_batch(512, 16, 200))
    compute_gradients(model, *batch, TrainingConfig(precision=precision))
    return torch.cat([w.grad.flatten() for w in model.parameters()]).double().cpu()


def gradient_errors() -> dict[str, float]:
    exact = gradient(torch.device("cpu"), torch.float64, "fp32", fused=False)

    def error(precision: str, fused: bool) -> float:
        gap = gradient(DEVICE, torch.float32, precision, fused) - exact
        return (gap.norm() / exact.norm()).item()

    forms = {"explicit": False, "kernel": True}
    return {f"{p}, {form}": error(p, fused) for p in PRECISIONS for form, fused in forms.items()}


def decoding() -> Iterator[dict]:
    "Greedy and a beam of four."
    translator = Translator.load(EVERYDAY)
    model = translator.model
    ids = [translator.source_tokenizer.encode(clean_input(row[0])) for row in try_it()]
    for beam in (1, 4):
        expected = translate_ids(model.cpu(), ids, beam, 64, "fp32")
        model.to(DEVICE)
        for precision in dict.fromkeys(("fp32", decoding_precision(DEVICE))):
            same = sum(map(list.__eq__, translate_ids(model, ids, beam, 64, precision), expected))
            many = ids * (25 if GPU else 1)
            spent = seconds(lambda: translate_ids(model, many, beam, 256, precision))
            row = {"beam": beam, "precision": precision, "same": same, "sentences": len(ids)}
            yield row | {"sentences_per_second": len(many) / spent}


def train(home: Path, store: Path, minutes: float) -> list[dict]:
    "Until the time is up; the log's evaluations, and its last line."
    command = "train --recipe open-en-fr --preset modern --size base --workers 16"
    cli.main(
        [
            *command.split(),
            f"--max-minutes={minutes}",
            f"--output-dir={home}",
            f"--data-dir={store}",
        ]
    )
    log = [json.loads(line) for line in (home / "log.jsonl").read_text("utf-8").splitlines()]
    return [entry for entry in log if entry["kind"] == "eval"] + log[-1:]


def main():
    o = options(
        __doc__,
        minutes=9.0,
        home=Path("runs/gpu"),
        store=Path("runs/store-open-en-fr"),
        out=BENCH / "gpu.json",
    )
    deadline = time.monotonic() + 60 * o.minutes
    record = Record(o.out)
    record.write(correct=gradient_errors())
    size, precision = ("full", "bf16") if GPU else ("tiny", "fp32")
    race(size, precision, ["ours", "torch"], 2, lambda rows: record.write(step=rows))
    record.write(decoding=list(decoding()))
    print(json.dumps(record, indent=1))  # what a training that is cut can't take away
    if GPU:
        record.write(training=train(o.home, o.store, (deadline - time.monotonic()) / 60))


if __name__ == "__main__":
    main()
