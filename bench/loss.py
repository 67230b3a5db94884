"""Peak memory of the loss, forward and backward through output layer and loss: whole, as one writes it, and in blocks of tokens.

    python bench/loss.py                          a small size, seconds on a CPU
    python bench/loss.py --full --out FILE        25,000 tokens, 32,000 words, 512 features; `whole` takes some 10 GB in fp32

Each form runs in a process of its own, twice: the first round is for its peak, the second for its time. On a CPU the peak is that of the
process's resident memory above where it stood with weights, states and both their gradients in place, with an allocator that keeps nothing
for later (glibc is asked not to: what it keeps varies by a third from run to run); on a GPU (taken if there is one) that of the allocator.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import command, keep  # noqa: E402
from transformer_lit.loss import loss_in_blocks  # noqa: E402
from transformer_lit.masks import UNK  # noqa: E402
from transformer_lit.runs.records import git_commit, hardware_name  # noqa: E402
from transformer_lit.training import summed_loss  # noqa: E402

NOTHING_KEPT = {"MALLOC_MMAP_THRESHOLD_": "1000000", "MALLOC_TRIM_THRESHOLD_": "0"}
FORMS = [(how, precision) for precision in ("fp32", "bf16") for how in ("whole", "blocks")]


def resident() -> int:
    "Bytes of this process in memory now."
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wait_for(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() if device == "cuda" else time.process_time()


def measure(how: str, precision: str, tokens: int, vocab: int, d_model: int, device: str) -> dict:
    "Bytes at the peak above the start, seconds, loss and a number that tells the gradients apart."
    torch.manual_seed(0)
    output = torch.nn.Linear(d_model, vocab, bias=False, device=device)
    below = torch.randn(tokens, d_model, device=device, requires_grad=True)
    labels = torch.randint(UNK + 1, vocab, (tokens,)).to(device)

    def summed(x, y):
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
            return summed_loss(output, x, y, 0.1)

    def once():
        hidden = below * 1.0  # (tokens, D), as the decoder hands it over
        if how == "blocks":
            return loss_in_blocks(hidden, labels, summed, tokens)
        loss = summed(hidden, labels) / tokens
        loss.backward()
        return loss.detach()

    below.grad, output.weight.grad = torch.ones_like(below), torch.ones_like(output.weight)
    tiny = torch.randn(8, 8, requires_grad=True)  # loads what the first backward pass loads
    torch.nn.functional.cross_entropy(tiny @ tiny, torch.arange(8)).backward()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        start, peak = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated
    else:
        start, peak = resident(), lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    loss, above = once().item(), peak() - start
    below.grad.zero_(), output.weight.grad.zero_()
    began = wait_for(device)
    once()
    seconds = wait_for(device) - began
    return {
        "peak": above,
        "seconds": seconds,
        "loss": loss,
        "gradients": [below.grad.norm().item(), output.weight.grad.norm().item()],
    }


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--full", action="store_true", help="25,000 tokens, 32,000 words, 512 features")
    p.add_argument("--tokens", type=int), p.add_argument("--vocab", type=int), p.add_argument(
        "--d-model", type=int
    )
    p.add_argument("--out", type=Path)
    p.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    o = p.parse_args()
    sizes = (25_000, 32_000, 512) if o.full else (2_000, 4_000, 128)
    tokens, vocab, d_model = (
        own or size for own, size in zip((o.tokens, o.vocab, o.d_model), sizes)
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if o.one:
        print(json.dumps(measure(*o.one, tokens, vocab, d_model, device)))
        return
    found, sizes = {}, ["--tokens", str(tokens), "--vocab", str(vocab), "--d-model", str(d_model)]
    for how, precision in FORMS:
        done = subprocess.run(
            [sys.executable, __file__, "--one", how, precision, *sizes],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env={**os.environ, **NOTHING_KEPT},
        )
        row = found[f"{how}, {precision}"] = json.loads(done.stdout)
        print(
            f"{how:6} {precision}: {row['peak'] / 1e6:8.1f} MB, {row['seconds']:.3f} s, loss"
            f" {row['loss']:.5f}",
            flush=True,
        )
    for precision in ("fp32", "bf16"):
        a, b = (found[f"{how}, {precision}"] for how in ("whole", "blocks"))
        near = 1e-5 if precision == "fp32" else 1e-2
        assert all(
            abs(x - y) <= near * abs(x)
            for x, y in zip([a["loss"], *a["gradients"]], [b["loss"], *b["gradients"]])
        ), found
        print(
            f"{precision}: blocks take {b['peak'] / a['peak']:.3f} of the memory and"
            f" {b['seconds'] / a['seconds']:.2f} of the time"
        )
    if o.out:
        name = hardware_name()
        record = {
            "command": command(p),
            "tokens": tokens,
            "vocab": vocab,
            "d_model": d_model,
            "logits_bytes": tokens * vocab * 4,
            "forms": found,
            "hardware": name,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__.split("+")[0],
            "commit": git_commit(),
        }
        keep(o.out, record)


if __name__ == "__main__":
    main()
