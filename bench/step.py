"""One training step three ways, in turns in one process.

    python bench/step.py                     a tiny size, seconds on a CPU
    python bench/step.py --medium            d 256, 3 + 3 layers, 2,048 tokens a side, 8,000 words
    python bench/step.py --full --out FILE   Transformer-base, 25,000 + 25,000 tokens, 37,000 words,
                                             on a GPU

ours       chapter 12's `Trainer`: loss in blocks, fused Adam; on a GPU PyTorch's attention kernel,
           compiled
torch      nn.Transformer between the book's embeddings and output (`Twin`), PyTorch's loss, fused
           Adam; on a GPU compiled, loss and all
textbook   the book's model with explicit attention and nothing compiled, PyTorch's loss on all
           logits, plain Adam

All three have the same sizes, batch, dropout, smoothing and precision: bf16 on a GPU; on a CPU
fp32, and bf16 if it has units for it. A GPU is timed by the clock, a CPU in processor time. Each
round times each of them once, after the products of large matrices that serve as ceiling; what is
printed are medians and ratios. The share of the ceiling counts the operations of the products of
one step (PyTorch's counter) and nothing else. The record is written after each round, so that a
stop costs only the round in which it comes."""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from common import Record, options
from torch.utils.flop_counter import FlopCounterMode
from twin import Twin, textbook_adam, textbook_loss, textbook_step

from transformer_lit.masks import BOS, EOS, PAD, UNK
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.multi_head_attention import MultiHeadAttention
from transformer_lit.runtime.devices import resolve_precision
from transformer_lit.recipes.recipes import compiled_gradients
from transformer_lit.training import Trainer, TrainingConfig

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
# fields of TransformerConfig; tokens a side, words a sentence, words known, steps a round, rounds
SIZES = {
    "tiny": (
        dict(d_model=64, n_heads=2, d_ff=128, n_encoder_layers=1, n_decoder_layers=1),
        *(512, 16, 500, 2, 3),
    ),
    "medium": (
        dict(d_model=256, n_heads=4, d_ff=512, n_encoder_layers=3, n_decoder_layers=3),
        *(2_048, 24, 8_000, 1, 7),
    ),
    "full": ({}, 25_000, 32, 37_000, 10, 5),
}


def random_batch(tokens: int, words: int, vocab: int) -> tuple:
    """Sentences of nearly one length, as a bucketed loader gives them: source (B, S), target (B, S
    + 1)."""
    rng = torch.Generator().manual_seed(0)
    rows = max(1, tokens // words)
    source, target = (
        torch.randint(UNK + 1, vocab, (rows, width), generator=rng) for width in (words, words + 1)
    )
    target[:, 0] = BOS
    for side in (source, target):
        lengths = torch.randint(side.size(1) - 2, side.size(1) + 1, (rows, 1), generator=rng)
        position = torch.arange(side.size(1))[None]
        side[position == lengths - 1] = EOS
        side[position >= lengths] = PAD
    return source.to(DEVICE), target.to(DEVICE)


def set_kernel(model: Transformer, fused: bool) -> Transformer:
    "Attention by PyTorch's kernel, or as chapter 2 has it."
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            part.need_weights = not fused
    return model


def our_step(config: TransformerConfig, precision: str, batch: tuple) -> Callable:
    model = Transformer(config).to(DEVICE).train()
    settings = TrainingConfig(clip_norm=0.0, warmup_steps=400, precision=precision)
    trainer = Trainer(model, settings, gradient_fn=compiled_gradients(model) if GPU else None)
    return lambda: trainer.train_step(*batch)["loss"]


def torch_step(config: TransformerConfig, precision: str, batch: tuple) -> Callable:
    model = Twin(config).to(DEVICE).train()
    adam = textbook_adam(model, fused=True)
    loss = torch.compile(textbook_loss, dynamic=False) if GPU else textbook_loss
    return lambda: textbook_step(model, adam, batch, precision, loss)


def plain_step(config: TransformerConfig, precision: str, batch: tuple) -> Callable:
    model = set_kernel(Transformer(config).to(DEVICE).train(), fused=False)
    adam = textbook_adam(model)
    return lambda: textbook_step(model, adam, batch, precision)


FORMS = {"ours": our_step, "torch": torch_step, "textbook": plain_step}


def now() -> float:
    if GPU:
        torch.cuda.synchronize()
    return time.perf_counter() if GPU else time.process_time()


def seconds(work: Callable, times: int = 1) -> float:
    start = now()
    for _ in range(times):
        work()
    return (now() - start) / times


def ceiling(precision: str) -> float:
    "Operations a second of the products of large square matrices."
    n, times = (8192, 20) if GPU else (1024, 2)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = torch.randn(2, n, n, device=DEVICE, dtype=dtype)
    a @ b
    return 2 * n**3 / seconds(lambda: a @ b, times)


def operations(config: TransformerConfig, batch: tuple) -> int:
    "Of all products of one step, forward and backward; shapes are enough to count them."
    source, target = (side.to("meta") for side in batch)
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        Transformer(config)(source, target[:, :-1]).sum().backward()
    return counter.get_total_flops()


def race(
    size: str, precision: str, forms: list[str], rounds: int | None, on_round: Callable
) -> None:
    "The forms in turns; on_round(what is known) after each round."
    model, tokens, words, vocab, steps, usual = SIZES[size]
    config, batch = TransformerConfig(vocab, **model), random_batch(tokens, words, vocab)
    torch.manual_seed(0)
    step_of = {name: FORMS[name](config, precision, batch) for name in forms}
    for step in step_of.values():  # the first steps compile
        seconds(step, 3 if GPU else 1)
    times, ceilings, work = {name: [] for name in forms}, [], operations(config, batch)
    count = batch[0].numel() + batch[1].numel() - len(batch[1])
    for _ in range(rounds or usual):
        ceilings.append(ceiling(precision))
        for name, step in step_of.items():
            times[name].append(seconds(step, steps))
        rows = {
            name: {
                "seconds": times[name],
                "tokens_per_second": count / median(times[name]),
                "share_of_ceiling": work / median(times[name]) / max(ceilings),
                "times_ours": median(a / b for a, b in zip(times[name], times[forms[0]])),
            }
            for name in forms
        }
        on_round({"ceiling": max(ceilings), "operations": work, "tokens": count, "forms": rows})


def main():
    o = options(__doc__, medium=False, full=False, rounds=int, out=Path)
    size = "full" if o.full else "medium" if o.medium else "tiny"
    record = Record(o.out, precisions={})
    for precision in ["bf16"] if GPU else sorted({"fp32", resolve_precision()}, reverse=True):

        def on_round(rows):
            record["precisions"][precision] = rows
            record.write()

        race(size, precision, list(FORMS), o.rounds, on_round)
        for name, row in record["precisions"][precision]["forms"].items():
            print(precision, name, row)


if __name__ == "__main__":
    main()
