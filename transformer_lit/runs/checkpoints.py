"""Weights and what belongs to them, to disk and back: whole files with checksums, checked before
they are believed."""

# The format is safetensors and not a pickle, since a pickle may run any code when it is opened.
# Names of tensors:
#
# model.NAME            a parameter or lasting buffer; tied ones once, under their first name
# optimizer.I.SLOT      what the optimiser keeps of parameter I: exp_avg, exp_avg_sq, step,
# momentum_buffer random.DEVICE.RANK    a process's random state
#
# The header holds "progress" (JSON) and "sums" (a checksum for each tensor; files from before these
# have none).
import json
import os
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from transformer_lit.runs import run_log, weights
from transformer_lit.corpora.files import write_atomic
from transformer_lit.runtime.distributed import all_gather_objects, run_on_main, process

NAME = "checkpoint.safetensors"
OTHER_RUN = (
    "these weights are for a model of another shape: translator.json and the weights must be from"
    " the same run"
)


def other_shape(path: str | Path) -> str:
    "What to say where a training's own checkpoint doesn't fit its model."
    return (
        f"{path} holds a model of another shape: use the configuration it was trained with, or"
        " another folder"
    )


# What goes in -------------------------------------------------------------------------------------


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and lasting buffers by name, each tied one once: safetensors refuses two names for
    one memory."""
    named: dict[str, Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if all(tensor is not other for other in named.values()):
            named["model." + name] = tensor
    return named


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    "What an optimiser keeps of each parameter; Adam two running means and a count of steps."
    return {
        f"optimizer.{i}.{name}": torch.as_tensor(slot)
        for i, slots in optimizer.state_dict()["state"].items()
        for name, slot in slots.items()
    }


def rng_tensors(device: torch.device) -> dict[str, Tensor]:
    "Each process's random state by name; all processes must call this."
    own = (
        torch.get_rng_state()
        if device.type == "cpu"
        else torch.get_device_module(device).get_rng_state()
    )
    return {f"random.{device.type}.{i}": state for i, state in enumerate(all_gather_objects(own))}


# To disk ------------------------------------------------------------------------------------------


def write_file(path: str | Path, tensors: dict[str, Tensor], progress: dict) -> None:
    """One safetensors file, whole or not at all, with checksums: a disk can change a few bytes and
    say nothing."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    kept = {"progress": json.dumps(progress), "sums": weights.sums(tensors)}
    if "lines" in progress:  # of the log
        run_log.settle(Path(path).parent)
    write_atomic(Path(path), lambda part: save_file(tensors, part, kept))


def set_aside(path: Path) -> None:
    """The file becomes the one before the last, under the same name with .before; the first process
    moves it."""
    if path.exists() and process()[0] == 0:
        os.replace(path, path.with_suffix(".before"))


def stand_in(path: Path) -> None:
    """Where the file is gone, the one before the last takes its place; the first process moves it,
    and all wait."""
    before = path.with_suffix(".before")

    def put_back() -> None:
        if before.exists() and not path.exists():
            os.replace(before, path)

    run_on_main(put_back)


def forget(path: str | Path, part: str | None) -> None:
    """Write a checkpoint again without its `part`: `optimizer` or `random`, or a number of its
    place set to 0, as `batch`."""
    held, progress = read_file(path, everything=True)
    if part in progress["at"]:
        progress["at"][part] = 0
    write_file(
        path,
        {name: tensor for name, tensor in held.items() if name.split(".")[0] != part},
        progress,
    )


# And back -----------------------------------------------------------------------------------------


def read_file(path: str | Path, everything: bool = False) -> tuple[dict[str, Tensor], dict]:
    """Tensors by name, and the progress; the model's alone, or all.

    Raises ValueError if the file is no whole checkpoint, or was changed since it was written, or
    holds a weight that is nan."""
    with open(path, "rb"):  # what can't be opened says so with its name
        pass
    try:
        with safe_open(str(path), "pt") as file:
            held = {
                name: file.get_tensor(name)
                for name in file.keys()
                if everything or name.startswith("model.")
            }
            kept = file.metadata()
            progress = json.loads(kept["progress"])
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is no whole checkpoint ({error}): put a whole one in its place, or use another"
            " folder"
        ) from None
    weights.verify(path, held, kept.get("sums"))
    return held, progress


@torch.no_grad()
def load_weights(model: nn.Module, held: dict[str, Tensor], words: str = OTHER_RUN) -> None:
    """Put weights into a model, by name. ValueError(words) if names or shapes differ; nothing is
    changed then."""
    own = model_tensors(model)
    if {n: w.shape for n, w in own.items()} != {
        n: w.shape for n, w in held.items() if n.startswith("model.")
    }:
        raise ValueError(words)
    for name, weight in own.items():
        weight.copy_(held[name])


def load_optimizer(optimizer: torch.optim.Optimizer, held: dict[str, Tensor]) -> None:
    "What `optimizer_tensors` gave goes back, weight by weight. ValueError for weights alone."
    if not any(name.startswith(("optimizer.", "random.")) for name in held):
        raise ValueError(
            f"the {NAME} there holds weights alone, and a run goes on from all that it kept: put"
            " the whole file back, or use another folder"
        )
    slots: dict[int, dict[str, Tensor]] = {}
    for name, tensor in held.items():
        if name.startswith("optimizer."):
            _, i, slot = name.split(".")
            slots.setdefault(int(i), {})[slot] = tensor
    optimizer.load_state_dict(
        {"state": slots, "param_groups": optimizer.state_dict()["param_groups"]}
    )


def load_random_state(held: dict[str, Tensor], device: torch.device) -> None:
    "This process's random state, if the file has one for it."
    state = held.get(f"random.{device.type}.{process()[0]}")
    if state is None:
        return
    if device.type == "cpu":
        torch.set_rng_state(state)
    else:
        torch.get_device_module(device).set_rng_state(state)


# int8, for a file alone ---------------------------------------------------------------------------

PRECISIONS = "fp32", "bf16", "int8"


def quantize(weights: dict[str, Tensor], precision: str = "int8") -> dict[str, Tensor]:
    """Matrices in fewer bits; vectors stay fp32. int8: each row has its own scale, name.scale.

    A row's step is s = max|w| / 127 and w is kept as round(w / s), so no weight moves by more than
    s / 2. One step for the whole matrix would lose the rows with small weights beside one with
    large ones."""
    if precision not in PRECISIONS:
        raise ValueError(f'precision={precision!r}: choose "fp32", "bf16" or "int8"')
    packed = {}
    for name, weight in weights.items():
        weight = weight.detach().float()
        if weight.ndim == 2 and precision == "bf16":
            weight = weight.to(torch.bfloat16)
        if weight.ndim == 2 and precision == "int8":
            scale = weight.abs().amax(1, keepdim=True) / 127  # (rows, 1)
            scale = scale.clamp(min=torch.finfo(torch.float32).tiny)  # a row of zeros
            weight = (weight / scale).round().to(torch.int8)
            packed[name + ".scale"] = scale
        packed[name] = weight.contiguous()
    return packed


def dequantize(packed: dict[str, Tensor]) -> dict[str, Tensor]:
    "fp32 again: int8 rows times their scales."
    return {
        name: weight.float() * packed.get(name + ".scale", 1.0)
        for name, weight in packed.items()
        if not name.endswith(".scale")
    }


# Several as one -----------------------------------------------------------------------------------


def mean_of(states: Iterable[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several sets of weights, tensor by tensor (§6.1), read one after the other.

    Raises ValueError if there are none."""
    total: dict[str, Tensor] = {}
    count = 0
    for count, state in enumerate(states, 1):
        for name, tensor in state.items():
            total[name] = total[name] + tensor if name in total else tensor.detach().clone()
    if not count:
        raise ValueError("there are no weights to average")
    return {name: tensor / count for name, tensor in total.items()}


def save_weights(path: str | Path, model: nn.Module) -> None:
    """The model's weights alone, for an average; the first process writes.

    ValueError, and no file, if there is nan or inf in them: on a GPU a loss is looked at seldom,
    and may not have been since."""
    if process()[0] == 0:
        held = model_tensors(model)
        for name, tensor in held.items():
            if not torch.isfinite(tensor).all():
                raise ValueError(
                    f"there is nan or inf in {name}, and {path} was not written: the last"
                    " checkpoint stands; lower the learning rate, or look for a garbled pair"
                )
        write_file(path, held, {})


def average_files(model: nn.Module, paths: Iterable[str | Path]) -> None:
    "Fill the model with the mean of what `save_weights` wrote."
    load_weights(model, mean_of(read_file(path)[0] for path in paths))
