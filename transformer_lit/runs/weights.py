"""A file of weights is checked before it is believed: sums, finite numbers, sizes against the
configuration."""

# Three things go wrong with files: a part is overwritten (each tensor has a checksum in the
# header), a training went astray (nan or inf in the weights), and two files of different models
# meet in one folder (the header's shapes are compared with the configuration before any memory is
# taken: a d_model of 200,000 in a text file must not reserve terabytes).
import hashlib
import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor


def checksum(tensor: Tensor) -> str:
    "The first 16 digits of the SHA-256 of a tensor's bytes."
    raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(raw.numpy()).hexdigest()[:16]


def sums(tensors: dict[str, Tensor]) -> str:
    "All checksums, as the header keeps them."
    return json.dumps({name: checksum(tensor) for name, tensor in tensors.items()})


def verify(path: str | Path, held: dict[str, Tensor], kept: str | None) -> None:
    """ValueError, with the file's name and the tensor's, if one is not what was written or a weight
    is nan or inf.

    `kept` is what `sums` gave when the file was written; None: older files have none."""
    wanted = json.loads(kept) if kept else {}
    for name, tensor in held.items():
        if name in wanted and checksum(tensor) != wanted[name]:
            raise ValueError(
                f"{path} is damaged: {name} is not what was written; take the file from where it"
                " came from again"
            )
        if (
            name.startswith("model.")
            and tensor.is_floating_point()
            and not torch.isfinite(tensor).all()
        ):
            raise ValueError(f"{path} can't be used: there is nan or inf in {name}")


def must_be(path: str | Path, sha256: str | None) -> None:
    "ValueError if the file is not the one with this hash; None: nobody said which."
    if sha256 and hashlib.sha256(Path(path).read_bytes()).hexdigest() != sha256:
        raise ValueError(
            f"{path} is damaged: it is not the file that translator.json was written for; take both"
            " from where they came from again"
        )


def shapes(path: str | Path) -> dict[str, list[int]]:
    """The shape of each tensor of the model, from the header alone. ValueError if it is no whole
    file."""
    with open(path, "rb"):  # what can't be opened says so with its name
        pass
    try:
        with safe_open(str(path), "pt") as file:
            return {
                name: list(file.get_slice(name).get_shape())
                for name in file.keys()
                if name.startswith("model.") and not name.endswith(".scale")
            }
    except SafetensorError as error:
        raise ValueError(
            f"{path} is no whole checkpoint ({error}): put a whole one in its place, or use another"
            " folder"
        ) from None


def must_fit(path: str | Path, config) -> None:
    """ValueError if the sizes of a `TransformerConfig` are not those in the header of `path`, with
    the first that differs."""
    found = shapes(path)
    told = sizes(found)
    for name, value in told.items():
        said = getattr(config, name)
        said = getattr(config, "source_vocab") if name == "target_vocab" and said is None else said
        if said != value:
            raise ValueError(
                f"{Path(path).parent / 'translator.json'} says {name}={said} and {Path(path).name}"
                f" holds {name}={value}, a model of another shape: both must be from the same run"
            )


def sizes(found: dict[str, list[int]]) -> dict[str, int]:
    "What the shapes of a Transformer's tensors say of its configuration."
    told = {}
    table = found.get("model.source.tokens.weight")
    if table:
        told["source_vocab"], told["d_model"] = table
    table = found.get("model.target.tokens.weight")
    if table:
        told["target_vocab"] = table[0]
    for side in "encoder", "decoder":
        start = f"model.{side}.layers."
        told[f"n_{side}_layers"] = len(
            {name[len(start) :].split(".")[0] for name in found if name.startswith(start)}
        )
    table = found.get("model.encoder.layers.0.feed_forward.0.weight")
    if table:
        told["d_ff"] = table[0]
    return told
