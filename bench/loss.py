"""Peak memory of the loss, forward and backward through output layer and loss: whole, as one writes
it, and in blocks of tokens.

    python bench/loss.py                      a small size, in fp32, seconds on a CPU
    python bench/loss.py --full --out FILE    25,000 tokens, 32,000 words, 512 features; `whole`
                                              takes some 10 GB in fp32

Each form runs in a process of its own, twice: the first round is for its peak, the second for its
time. On a CPU the peak is that of the process's resident memory above where it stood with weights,
states and both their gradients in place, with an allocator that keeps nothing for later (glibc is
asked not to: what it keeps varies by a third from run to run); on a GPU (taken if there is one)
that of the allocator."""

import os
import resource
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch
from common import Record, options
from step import DEVICE, GPU, seconds

from transformer_lit.loss import chunked_loss_backward
from transformer_lit.masks import UNK
from transformer_lit.gradients import summed_loss

NOTHING_KEPT = {"MALLOC_MMAP_THRESHOLD_": "1000000", "MALLOC_TRIM_THRESHOLD_": "0"}


def memory() -> tuple[int, int]:
    "Bytes now, and at the peak so far: of the GPU's allocator, or resident of this process."
    if GPU:
        return torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return pages * os.sysconf("SC_PAGE_SIZE"), peak * 1024


def measure(form: str, precision: str, tokens: int, vocab: int, d_model: int) -> dict:
    "Bytes at the peak above the start, seconds, loss, and a number of each gradient."
    torch.manual_seed(0)
    output = torch.nn.Linear(d_model, vocab, bias=False, device=DEVICE)
    states = torch.randn(tokens, d_model, device=DEVICE, requires_grad=True)
    labels = torch.randint(UNK + 1, vocab, (tokens,)).to(DEVICE)

    def summed(x, y):
        return summed_loss(output, x, y, 0.1, precision)

    def once():
        hidden = states * 1.0  # (tokens, D), as the decoder hands it over
        if form == "blocks":
            return chunked_loss_backward(hidden, labels, summed, tokens)
        loss = summed(hidden, labels) / tokens
        loss.backward()
        return loss.detach()

    states.grad, output.weight.grad = torch.ones_like(states), torch.ones_like(output.weight)
    tiny = torch.randn(8, 8, requires_grad=True)  # loads what the first backward pass loads
    torch.nn.functional.cross_entropy(tiny @ tiny, torch.arange(8)).backward()
    if GPU:
        torch.cuda.reset_peak_memory_stats()
    start = memory()[0]
    loss = once().item()
    peak = memory()[1] - start
    states.grad.zero_(), output.weight.grad.zero_()
    return {
        "peak": peak,
        "seconds": seconds(once),
        "loss": loss,
        "gradients": [states.grad.norm().item(), output.weight.grad.norm().item()],
    }


def main():
    o = options(__doc__, full=False, out=Path)
    sizes = (25_000, 32_000, 512) if o.full else (2_000, 4_000, 128)
    tokens, vocab, _ = sizes
    record = Record(o.out, tokens=tokens, vocab=vocab)
    os.environ |= NOTHING_KEPT  # a process that is spawned reads them
    forms = {}
    for precision in ("fp32", "bf16") if o.full else ("fp32",):
        for form in ("whole", "blocks"):
            with ProcessPoolExecutor(1, get_context("spawn")) as process:
                row = process.submit(measure, form, precision, *sizes).result()
            forms[f"{form}, {precision}"] = row
            print(f"{form} {precision}: {row['peak'] / 1e6:.1f} MB, {row['seconds']:.3f} s")
        whole, blocks = (forms[f"{form}, {precision}"] for form in ("whole", "blocks"))
        for key in ("loss", "gradients"):
            torch.testing.assert_close(
                blocks[key], whole[key], rtol=1e-5 if precision == "fp32" else 1e-2, atol=0
            )
    record.write(forms=forms)


if __name__ == "__main__":
    main()
