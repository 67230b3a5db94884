"""Changes of a training step that only a GPU can judge: each is one switch, off in the book, and a form of `step.py`.

one block       the loss of all tokens at once, in place of blocks of 4,096: fewer launches, more memory
causal          the decoder's self-attention by the kernel's own causal mask: pads stand last, so no word looks at one, and no mask is read
open rows       attention without the look for queries that may see nothing: a batch of training has none
joint           one product for query, key and value, and one for keys and values of the memory
flash, efficient, cudnn     attention by this kernel alone
autotune        torch.compile tries more kernels for each product; the compiling takes longer
combo           torch.compile joins small kernels that don't need each other
bf16 stream     what leaves a LayerNorm is bf16, so that the residual sums read half the bytes

A switch changes no weight and, but for rounding, no loss: tests/test_bench.py compares them. Those that are worth it on a GPU become
the book's own lines, and leave this file.
"""

import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from transformer_lit import decoder, model as models, multi_head, training
from transformer_lit.attention import attention_here
from transformer_lit.loss import loss_in_blocks
from transformer_lit.multi_head import MultiHeadAttention

CAUSAL = "causal"  # stands where a mask stands


def one_block():
    return patch.object(training, "loss_in_blocks", partial(loss_in_blocks, size=1 << 30))


def causal_or(query, key, value, mask=None, dropout=0.0, fused=None):
    if isinstance(mask, str):
        return (
            F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True),
            None,
        )
    return attention_here(query, key, value, mask, dropout, fused)


@contextmanager
def causal() -> Iterator[None]:
    with (
        patch.object(models, "target_mask", lambda target: CAUSAL),
        patch.object(multi_head, "attention_here", causal_or),
    ):
        yield


def open_rows():
    return patch.object(
        multi_head,
        "attention_here",
        lambda query, key, value, mask=None, dropout=0.0, fused=None: (
            F.scaled_dot_product_attention(query, key, value, mask, dropout),
            None,
        ),
    )


def together(x: torch.Tensor, *layers: nn.Linear) -> tuple[torch.Tensor, ...]:
    "Several linear layers of one input as one product."
    weight, bias = (
        torch.cat([getattr(layer, name) for layer in layers]) for name in ("weight", "bias")
    )
    return F.linear(x, weight, bias).chunk(len(layers), -1)


def joint_self(own: MultiHeadAttention, x: torch.Tensor, mask=None):
    query, key, value = (own.heads(part) for part in together(x, own.query, own.key, own.value))
    y, weights = multi_head.attention_here(
        query, key, value, mask, own.dropout if own.training else 0.0, own.fused
    )
    return own.output(y.transpose(1, 2).flatten(2)), weights


@contextmanager
def joint() -> Iterator[None]:
    with ExitStack() as undo:
        for where, name, other in (
            (
                MultiHeadAttention,
                "forward",
                lambda own, query, key, value, mask=None: joint_self(own, query, mask),
            ),
            (
                MultiHeadAttention,
                "keys_values",
                lambda own, key, value: tuple(
                    own.heads(part) for part in together(key, own.key, own.value)
                ),
            ),
            (
                decoder,
                "look_back",
                lambda own, x, mask=None, cache=None: joint_self(own, x, mask)[0],
            ),
        ):
            undo.enter_context(patch.object(where, name, other))
        yield


SWITCHES: dict[str, Callable] = {
    "one block": one_block,
    "causal": causal,
    "open rows": open_rows,
    "joint": joint,
    "flash": lambda: sdpa_kernel([SDPBackend.FLASH_ATTENTION]),
    "efficient": lambda: sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION]),
    "cudnn": lambda: sdpa_kernel([SDPBackend.CUDNN_ATTENTION]),
    "autotune": nullcontext,
    "combo": nullcontext,
    "bf16 stream": nullcontext,
}
KERNELS = "flash", "efficient", "cudnn"  # each needs a mask that it can read; flash reads none
COMPILER = {
    "autotune": dict(mode="max-autotune-no-cudagraphs"),
    "combo": dict(options={"combo_kernels": True}),
}


def own_compiler(tag: str, **how) -> Callable:
    """A `compiled` of a form's own: what it made while a switch was on must not be taken when it is
    off.

    torch keeps its graphs by the code of a function, so each form compiles a copy."""
    made: dict = {}

    def compiled(f: Callable, dynamic: bool | None = False) -> Callable:
        if f not in made:
            code = f.__code__.replace(co_name=f"{f.__name__} {tag}")
            copy = types.FunctionType(
                code, f.__globals__, f.__name__, f.__defaults__, f.__closure__
            )
            made[f] = torch.compile(copy, dynamic=dynamic is not False, **how)
        return made[f]

    return compiled


def switched(step: Callable, model: nn.Module, names: Iterable[str]) -> Callable:
    "A step that is taken with these switches on."
    names = list(names)
    compiled = own_compiler(
        ", ".join(names), **{k: v for name in names for k, v in COMPILER.get(name, {}).items()}
    )
    if "bf16 stream" in names:
        for part in model.modules():
            if isinstance(part, nn.LayerNorm):
                part.register_forward_hook(
                    lambda part, x, y: (
                        y.to(torch.bfloat16) if torch.is_autocast_enabled(y.device.type) else y
                    )
                )

    def taken():
        with ExitStack() as on:
            on.enter_context(patch.object(training, "compiled", compiled))
            for name in names:
                on.enter_context(SWITCHES[name]())
            return step()

    return taken
