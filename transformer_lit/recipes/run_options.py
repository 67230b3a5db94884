"""The options of a large run as a table: two commands share it, and help needn't wait for torch."""

# The defaults in the help texts are those of `wmt.WAYS["paper"]` and `wmt.PAPER`; a test holds them
# equal.
import argparse
import math
from typing import Any

from transformer_lit import options as types

TRAINING_SETS = (
    "wmt14-en-de",
    "wmt14-en-fr",
    "general-en-fr",
    "general-en-de",
    "mixture-en-fr",
    "mixture-en-de",
    "multi30k-en-de",
    "multi30k-en-fr",
)
WAYS = ("paper", "ours")
PAPER_DEFAULTS = {
    "steps": 100_000,
    "sample": 1_000_000,
    "look_every": 2000,
    "keep_every": 1400,
    "lines": 500,
    "max_tokens": 25_000,
    "warmup": 4000,
    "seed": 1,
    "checkpoint_every": 1000,
}
WHOLE = {  # option -> least, most, what it means
    "vocabulary": (
        260,
        65_536,
        "joint subwords (default: the paper's, 37,000 and 32,000 for WMT14; else 32,000)",
    ),
    "sample": (1, 10**9, "pairs that the subwords are learned from (default: {sample:,})"),
    "pairs": (1, 10**9, "use only this many pairs, from the start of the corpus (default: all)"),
    "steps": (1, 10**7, "steps in all (default: {steps:,})"),
    "look-every": (
        1,
        10**7,
        "steps between two looks at held-out loss and BLEU (default: {look_every:,})",
    ),
    "keep-every": (
        1,
        10**7,
        (
            "steps between the sets of weights averaged at the end, the paper's way (default:"
            " {keep_every:,})"
        ),
    ),
    "lines": (1, 10**5, "sentences that a look translates (default: {lines})"),
    "max-tokens": (8, 10**7, "tokens of a batch, each side (default: {max_tokens:,})"),
    "warmup": (1, 10**6, "steps in which the rate rises (default: {warmup:,}; 400 our way)"),
    "seed": (0, 2**31 - 1, "of weights, batches and dropout (default: {seed})"),
    "checkpoint-every": (
        0,
        10**6,
        "steps between two checkpoints, 0 for only at looks (default: {checkpoint_every:,})",
    ),
    "workers": (1, 256, "processes that prepare the corpus (default: 1)"),
    "threads": (1, types.THREADS, types.THREADS_HELP),
}
RUN_OPTIONS: dict[str, dict[str, Any]] = {  # option -> what argparse's add_argument is given
    "--corpus": dict(
        default="wmt14-en-de",
        help=", ".join(TRAINING_SETS) + ", or a folder of texts (default: %(default)s)",
    ),
    "--way": dict(
        choices=WAYS,
        default="paper",
        help="how to train: as the paper did, or as chapter 18 does (default: %(default)s)",
    ),
    "--size": dict(
        choices=["base", "big", "small", "tiny"],
        default="base",
        help="of the model (default: %(default)s)",
    ),
    "--folder": dict(type=types.path, help="default: runs/CORPUS-WAY-SIZE"),
    "--store": dict(type=types.path, help="the corpus as tokens (default: runs/store-CORPUS)"),
    "--minutes": dict(
        type=types.number(0, math.inf),
        default=math.inf,
        help="stop cleanly after this many minutes, with exit status 75",
    ),
    **{
        "--" + name: dict(type=types.whole(low, high), help=text.format(**PAPER_DEFAULTS))
        for name, (low, high, text) in WHOLE.items()
    },
    "--device": types.DEVICE,
    "--peak": dict(
        type=types.number(1e-8, 10),
        help="highest rate, our way (default: 0.004; the paper's way has none)",
    ),
    "--temperature": dict(
        type=types.number(0.1, 100),
        help=(
            "for a mixture: 1 samples each kind of text in proportion to its size; the "
            "higher, the more even (default: 9)"
        ),
    ),
    "--begin-with": dict(
        type=types.name,
        help=(
            "for a mixture: the folder or name of a translator of the same size whose weights"
            ' training starts from; "book" is the shipped one (default: none, random weights)'
        ),
    ),
    "--dropout": dict(type=types.number(0, 0.99), help="default: the size's"),
    "--precision": dict(
        choices=["fp32", "bf16"], help="default: bf16 where the machine has units for it"
    ),
    "--compile": dict(
        action=argparse.BooleanOptionalAction,
        help="torch.compile, in few shapes and with a graph for each (default: on a GPU with bf16)",
    ),
    "--dynamic": dict(
        action=argparse.BooleanOptionalAction,
        help="with --compile: one graph for all shapes (default: no)",
    ),
}
ASIDE = (
    "folder",
    "store",
    "minutes",
    "workers",
    "threads",
    "device",
)  # where and how long, not what


def field(option: str) -> str:
    "The name under which argparse keeps an option: --look-every is look_every."
    return option.lstrip("-").replace("-", "_")
