"""Checkpoints: weights and metadata, saved and loaded (safetensors); checkpoint averaging."""

# The format is safetensors and not a pickle, since a pickle may run any code when it is opened.
# Names of tensors:
#
# model.NAME            a parameter or lasting buffer; tied ones once, under their first name
# optimizer.I.SLOT      of parameter I: exp_avg, exp_avg_sq, step, momentum_buffer
# random.DEVICE.RANK    a process's random state
#
# The header holds "progress" as JSON (and in older files checksums, which nobody asks any more).
# Files that were written before the core took the field's names are read by `rename_legacy`.
import json
import re
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from transformer_lit.corpora.files import write_atomic
from transformer_lit.runtime.devices import device_of
from transformer_lit.runtime.distributed import all_gather_objects, rank, run_on_main

NAME = "checkpoint.safetensors"
Tensors = dict[str, Tensor]  # by name
LEGACY_TENSORS = (  # patterns of old names, and what they became, one after the other
    (r"^model\.(source|target)\.tokens\.", r"model.\1_embedding.token_embedding."),
    (r"^model\.output\.", "model.output_projection."),
    (r"\.around_attention\.", ".self_attention_residual."),
    (r"\.around_(\w+)\.", r".\1_residual."),
    (r"(layers\.\d+)\.attention\.", r"\1.self_attention."),
    (r"(layers\.\d+\.\w+_attention)\.(query|key|value)\.", lambda m: f"{m[1]}.{m[2][0]}_proj."),
    (r"(layers\.\d+\.\w+_attention)\.output\.", r"\1.out_proj."),
)
LEGACY_FIELDS = {  # of configurations and translator.json
    "source_vocab": "source_vocab_size",
    "target_vocab": "target_vocab_size",
    "tied": "tied_embeddings",
    "limits": "length_limits",
}


def rename_legacy(tensors: Tensors) -> Tensors:
    "Tensors of an old file under the names that the models have today."
    renamed = {}
    for name, tensor in tensors.items():
        for pattern, new in LEGACY_TENSORS:
            name = re.sub(pattern, new, name)
        renamed[name] = tensor
    return renamed


def rename_legacy_fields(config: dict) -> dict:
    "The same for the fields of a configuration, nested ones too."
    return {
        LEGACY_FIELDS.get(name, name): rename_legacy_fields(x) if isinstance(x, dict) else x
        for name, x in config.items()
    }


# What goes in -------------------------------------------------------------------------------------


def model_tensors(model: nn.Module) -> Tensors:
    """Parameters and lasting buffers by name, each tied one once: safetensors refuses two names for
    one memory."""
    tensors = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if all(tensor is not known for known in tensors.values()):
            tensors["model." + name] = tensor
    return tensors


# To disk, and back --------------------------------------------------------------------------------


def write_file(path: Path, tensors: Tensors, progress: dict) -> None:
    "One safetensors file, whole or not at all."
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = {"progress": json.dumps(progress)}
    write_atomic(path, lambda part: save_file(tensors, part, header))


def read_file(path: Path, with_training: bool = False) -> tuple[Tensors, dict]:
    """Tensors by name, and the progress; the model's alone, or all.

    ValueError if the file is no whole one."""
    with open(path, "rb"):  # what can't be opened says so with its name
        pass
    try:
        with safe_open(str(path), "pt") as file:
            progress = json.loads((file.metadata() or {}).get("progress", "{}"))
            tensors = {
                name: file.get_tensor(name)
                for name in file.keys()
                if with_training or name.startswith("model.")
            }
            return rename_legacy(tensors), progress
    except (SafetensorError, ValueError) as error:
        raise ValueError(
            f"{path} is no whole checkpoint ({error}): put a whole one in its place, or use another"
            " folder"
        ) from None


@torch.no_grad()
def load_weights(model: nn.Module, tensors: Tensors) -> None:
    "Put weights into a model, by name. ValueError, and no change, if a name or a shape differs."
    own = model_tensors(model)
    shapes, theirs = (
        {name: list(held[name].shape) for name in held if name.startswith("model.")}
        for held in (own, tensors)
    )
    for name in shapes | theirs:
        if shapes.get(name) != theirs.get(name):
            raise ValueError(
                f"these weights are for a model of another shape: {name} is"
                f" {theirs.get(name, 'missing')} there and {shapes.get(name, 'missing')} in the"
                " model"
            )
    for name, weight in own.items():
        weight.copy_(tensors[name])


def load_rng(tensors: Tensors, device: torch.device) -> None:
    "This process's random state, if the file has one for it."
    state = tensors.get(f"random.{device.type}.{rank()}")
    if state is not None:
        (torch if device.type == "cpu" else torch.get_device_module(device)).set_rng_state(state)


def save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, progress: dict) -> None:
    """Weights, optimizer state, random state of each process and `progress` into one file, whole or
    not at all; all processes must call this."""
    tensors, device = model_tensors(model), device_of(model)
    state = (torch if device.type == "cpu" else torch.get_device_module(device)).get_rng_state()
    for process, random_state in enumerate(all_gather_objects(state)):
        tensors[f"random.{device.type}.{process}"] = random_state
    for i, slots in optimizer.state_dict()["state"].items():
        for name, slot in slots.items():
            tensors[f"optimizer.{i}.{name}"] = torch.as_tensor(slot)
    run_on_main(lambda: write_file(path, tensors, progress))


def load(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> dict:
    """Fill model, optimizer and random state with what `save` wrote; returns its `progress`.

    optimizer=None: the weights alone. ValueError: damaged, or of another shape."""
    tensors, progress = read_file(path, optimizer is not None)
    load_weights(model, tensors)
    if optimizer is not None:
        load_rng(tensors, device_of(model))
        state = optimizer.state_dict() | {"state": {}}
        for name, tensor in tensors.items():
            if name.startswith("optimizer."):
                _, i, slot = name.split(".")
                state["state"].setdefault(int(i), {})[slot] = tensor
        optimizer.load_state_dict(state)
    return progress


# int8, for a file alone ---------------------------------------------------------------------------

PRECISIONS = "fp32", "bf16", "int8"


def quantize(weights: Tensors, precision: str = "int8") -> Tensors:
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


def dequantize(packed: Tensors) -> Tensors:
    "fp32 again: int8 rows times their scales."
    return {
        name: weight.float() * packed.get(name + ".scale", 1.0)
        for name, weight in packed.items()
        if not name.endswith(".scale")
    }


# Several as one -----------------------------------------------------------------------------------


def average_weights(states: Iterable[Tensors]) -> Tensors:
    """The mean of several sets of weights, tensor by tensor (§6.1), read one after the other."""
    total = {}
    for count, state in enumerate(states, 1):
        for name, tensor in state.items():
            total[name] = total.get(name, 0) + tensor.detach()
    return {name: tensor / count for name, tensor in total.items()}


def save_weights(path: Path, model: nn.Module) -> None:
    "The model's weights alone, for an average; the first process writes."
    if rank() == 0:
        write_file(path, model_tensors(model), {})


def average_files(model: nn.Module, paths: Iterable[Path]) -> None:
    "Fill the model with the mean of what `save_weights` wrote."
    load_weights(model, average_weights(read_file(path)[0] for path in paths))
