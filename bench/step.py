"""One training step three ways, in turns in one process: the book's, PyTorch's nn.Transformer, and the textbook's.

    python bench/step.py                            a tiny size, seconds on a CPU
    python bench/step.py --medium                   d 256, 3 + 3 layers, 2,048 tokens a side, 8,000 words
    python bench/step.py --full --out FILE          Transformer-base, 25,000 + 25,000 tokens, 37,000 words, on a GPU

ours       chapter 12's `Trainer`: loss in blocks, fused Adam; on a GPU PyTorch's attention kernel, compiled
torch      nn.Transformer between the book's embeddings and output (`Twin`), PyTorch's loss, fused Adam; on a GPU compiled, loss and all
textbook   the book's model with explicit attention and nothing compiled, PyTorch's loss on all logits, plain Adam

All three have the same sizes, batch, dropout, smoothing and precision. A GPU is timed by the clock, a CPU in processor time. Each round
times each of them once, after the products of large matrices that serve as ceiling; what is printed are medians and ratios. The share
of the ceiling counts the operations of the products of one step (PyTorch's counter) and nothing else. After the last round a profile of
three steps of each tells where its time goes. The record is written after each round, so that a stop costs only the round in which it comes.
"""

import argparse
import statistics
import sys
import time
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).parent)]
from common import command, keep, where  # noqa: E402
from twin import Twin  # noqa: E402

from transformer_lit.loss import shift_right  # noqa: E402
from transformer_lit.masks import BOS, EOS, PAD, UNK  # noqa: E402
from transformer_lit.model import Transformer, TransformerConfig  # noqa: E402
from transformer_lit.multi_head import MultiHeadAttention  # noqa: E402
from transformer_lit.training import Trainer, TrainingConfig  # noqa: E402

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
# fields of TransformerConfig, tokens a side, words a sentence, words known, steps in a round,
# rounds
SIZES = {
    "tiny": (
        dict(d_model=64, n_heads=2, d_ff=128, n_encoder_layers=1, n_decoder_layers=1),
        512,
        16,
        500,
        2,
        3,
    ),
    "medium": (
        dict(d_model=256, n_heads=4, d_ff=512, n_encoder_layers=3, n_decoder_layers=3),
        2_048,
        24,
        8_000,
        1,
        7,
    ),
    "full": (dict(), 25_000, 32, 37_000, 10, 5),
}
# the first whose word is in the name of an operation or kernel; what is left is "norm, dropout,
# elementwise"
KINDS = (
    ("optimiser", ("adam", "multi_tensor", "_foreach", "clip_grad", "lpnorm")),
    ("attention", ("scaled_dot", "flash", "fmha", "sdpa", "bmm", "aten::_softmax", "attention")),
    ("loss", ("log_softmax", "logsoftmax", "nll", "cross_entropy", "gather", "scatter")),
    ("products", ("mm", "gemm", "cutlass", "nvjet", "xmma", "cublas", "mkldnn", "linear")),
    ("embedding", ("embedding", "index")),
)


def a_batch(tokens: int, words: int, vocab: int) -> tuple:
    """Sentences of nearly one length, as a bucketed loader gives them: source (B, S), target (B, S
    + 1)."""
    dice = torch.Generator().manual_seed(0)
    rows = max(1, tokens // words)
    source, target = (
        torch.randint(UNK + 1, vocab, (rows, words + more), generator=dice) for more in (0, 1)
    )
    target[:, 0] = BOS
    for side in (source, target):
        lengths = torch.randint(side.size(1) - 2, side.size(1) + 1, (rows, 1), generator=dice)
        place = torch.arange(side.size(1))[None]
        side[place == lengths - 1] = EOS
        side[place >= lengths] = PAD
    return source.to(DEVICE), target.to(DEVICE)


def set_fused(model: nn.Module, fused: bool | None) -> None:
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            part.fused = fused


def our_step(config, precision, batch, fused=None):
    model = Transformer(config).to(DEVICE).train()
    set_fused(model, fused)
    run = Trainer(model, TrainingConfig(clip=0.0, warmup=400, precision=precision, compile=GPU))
    return lambda: run.train_step(*batch)["loss"]


def plain_step(model, precision, batch, fused, compiled):
    "As tutorials write it: all logits, PyTorch's loss, Adam."
    adam = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=fused)
    read, say = shift_right(batch[1])

    def its_loss(source, read, say):
        logits = model(source, read)
        return F.cross_entropy(
            logits.float().flatten(0, 1), say.flatten(), ignore_index=PAD, label_smoothing=0.1
        )

    call = torch.compile(its_loss, dynamic=False) if compiled else its_loss

    def step():
        adam.zero_grad()
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=precision == "bf16"):
            loss = call(batch[0], read, say)
        loss.backward()
        adam.step()
        return loss.detach()

    return step


def torch_step(config, precision, batch):
    return plain_step(Twin(config).to(DEVICE).train(), precision, batch, True, GPU)


def textbook_step(config, precision, batch):
    model = Transformer(config).to(DEVICE).train()
    set_fused(model, False)
    return plain_step(model, precision, batch, None, False)


FORMS = {
    "ours": our_step,
    "torch": torch_step,
    "textbook": textbook_step,
    "ours, explicit": partial(our_step, fused=False),
    "ours, kernel": partial(our_step, fused=True),
}


def now() -> float:
    if GPU:
        torch.cuda.synchronize()
    return time.perf_counter() if GPU else time.process_time()


def seconds(f, times: int) -> float:
    began = now()
    for _ in range(times):
        f()
    return (now() - began) / times


def ceiling(precision: str) -> float:
    "Operations a second of the products of large square matrices."
    n, times = (8192, 20) if GPU else (1024, 2)
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = torch.randn(2, n, n, device=DEVICE, dtype=kind)
    a @ b
    return 2 * n**3 / seconds(lambda: a @ b, times)


def operations(config, batch) -> int:
    "Of all products of one step, forward and backward; shapes are enough to count them."
    with torch.device("meta"):
        model, sides = Transformer(config), [
            torch.empty_like(side, device="meta") for side in batch
        ]
        with FlopCounterMode(display=False) as counter:
            model(sides[0], shift_right(sides[1])[0]).sum().backward()
    return counter.get_total_flops()


def by_kind(events, gpu: bool) -> dict[str, float]:
    """Microseconds of each kind of work.

    On a GPU only kernels count. A range that a caller marked (`Optimizer.step#...`) has the time of
    the kernels in it once more."""
    found = dict.fromkeys([*(kind for kind, _ in KINDS), "norm, dropout, elementwise"], 0.0)
    for event in events:
        if gpu and (
            "cuda" not in str(event.device_type).lower()
            or getattr(event, "is_user_annotation", False)
        ):
            continue
        spent = event.self_device_time_total if gpu else event.self_cpu_time_total
        kind = next(
            (kind for kind, names in KINDS if any(name in event.key.lower() for name in names)),
            "norm, dropout, elementwise",
        )
        found[kind] += spent
    return found


def breakdown(step) -> dict:
    "Share of each kind of work in the time of three steps; on a GPU `idle` is when no kernel ran."
    kinds = [torch.profiler.ProfilerActivity.CPU] + [torch.profiler.ProfilerActivity.CUDA] * GPU
    with torch.profiler.profile(activities=kinds) as profile:
        whole = seconds(step, 3) * 3e6
    found = by_kind(profile.key_averages(), GPU)
    if GPU:
        found["idle"] = max(0.0, whole - sum(found.values()))
    return {kind: spent / sum(found.values()) for kind, spent in found.items()}


def race(o, config, batch, steps: int, rounds: int, precision: str, so_far) -> dict:
    """The forms in turns; seconds a step in each round, and the rest; so_far(found) after each
    round."""
    torch.manual_seed(0)
    forms = {name: FORMS[name](config, precision, batch) for name in o.forms}
    losses = {
        name: float([step() for _ in range(3 if GPU else 1)][0]) for name, step in forms.items()
    }  # compiles
    times, ceilings, work = {name: [] for name in forms}, [], operations(config, batch)
    tokens = batch[0].numel() + batch[1].numel() - len(batch[1])

    def told(name: str) -> dict:
        middle = statistics.median(times[name])
        return {
            "seconds": times[name],
            "tokens_per_second": tokens / middle,
            "share_of_ceiling": work / middle / max(ceilings),
            "times_ours": statistics.median(
                other / own for other, own in zip(times[name], times[o.forms[0]])
            ),
            "first_loss": losses[name],
        }

    def whole(found: dict) -> dict:
        return {"ceiling": max(ceilings), "operations": work, "tokens": tokens, "forms": found}

    for _ in range(rounds):
        ceilings.append(ceiling(precision))
        for name, step in forms.items():
            times[name].append(seconds(step, steps))
        so_far(whole({name: told(name) for name in forms}))
    found, top = {}, max(ceilings)
    for name, step in forms.items():
        middle = statistics.median(times[name])
        found[name] = told(name) | {"breakdown": breakdown(step)}
        print(
            f"{precision} {name:14} {middle:8.4f} s, {tokens / middle:9.0f} tokens a second,"
            f" {work / middle / top:5.1%} of the ceiling, {found[name]['times_ours']:.2f} times"
            f" {o.forms[0]}'s time",
            flush=True,
        )
        print(
            "     "
            + ", ".join(f"{kind} {share:.0%}" for kind, share in found[name]["breakdown"].items()),
            flush=True,
        )
    return whole(found)


def precisions() -> list[str]:
    "What is worth timing here."
    if GPU:
        return ["bf16"]
    from transformer_lit.runtime.devices import resolve_precision  # wants more libraries than the machine with the GPU may have

    return sorted({"fp32", resolve_precision()}, reverse=True)


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    size = p.add_mutually_exclusive_group()
    size.add_argument("--medium", dest="size", action="store_const", const="medium", default="tiny")
    size.add_argument("--full", dest="size", action="store_const", const="full")
    p.add_argument("--forms", nargs="+", choices=FORMS, default=["ours", "torch", "textbook"])
    p.add_argument(
        "--precision",
        nargs="+",
        choices=["fp32", "bf16"],
        default=precisions(),
        help="default: bf16 on a GPU; fp32 on a CPU, and bf16 if it has units for it",
    )
    p.add_argument("--rounds", type=int), p.add_argument("--steps", type=int), p.add_argument(
        "--tokens", type=int
    )
    p.add_argument("--out", type=Path)
    o = p.parse_args()
    model, tokens, words, vocab, steps, rounds = SIZES[o.size]
    config, batch = TransformerConfig(vocab, **model), a_batch(o.tokens or tokens, words, vocab)
    record = {
        "command": command(p, size=None, **({} if o.size == "tiny" else {o.size: True})),
        "model": vars(config),
        "batch": [list(s.shape) for s in batch],
        "precisions": {},
        "threads": torch.get_num_threads(),
        **where(),
    }
    found = record["precisions"]

    def so_far(precision: str, one: dict) -> None:
        found[precision] = one
        if o.out:
            keep(o.out, record)

    for precision in o.precision:
        so_far(
            precision,
            race(
                o,
                config,
                batch,
                o.steps or steps,
                o.rounds or rounds,
                precision,
                partial(so_far, precision),
            ),
        )
    if len(found) == 2:  # is the default ever slower than plain fp32?
        plain = statistics.median(found["fp32"]["forms"][o.forms[-1]]["seconds"])
        for precision, one in found.items():
            own = statistics.median(one["forms"][o.forms[0]]["seconds"])
            print(
                f"{o.forms[0]}, {precision}: {plain / own:.2f} times as fast as {o.forms[-1]} in"
                " fp32"
            )


if __name__ == "__main__":
    main()
