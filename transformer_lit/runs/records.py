"""Metadata of a run: run.json, with commit, machine, CPU time."""

import os
import platform
import subprocess
from dataclasses import asdict
from pathlib import Path

import torch
from torch import nn

from transformer_lit.corpora.files import PACKAGE, write_json
from transformer_lit.runtime.devices import default_device, device_of
from transformer_lit.runtime.distributed import world_size


def git_commit(package: Path = PACKAGE) -> str:
    """The commit of the checkout that this package belongs to, with -dirty where files were
    changed; "" without one.

    Git is asked about the folder that the package stands in and not about the current one, which
    may be another project's. A package that was installed into somebody's repository (an
    environment inside a checkout) isn't part of it."""
    if not (package.parent / ".git").exists():
        return ""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=package, capture_output=True, text=True, env=clean)
    except OSError:  # git is not installed
        return ""
    return done.stdout.strip()  # nothing if it failed


def hardware_name(device: torch.device | None = None) -> str:
    """GPU, if `device` is one (None: if there is one), how many of them, threads and processor, as
    far as the system tells."""
    device = device or default_device()
    n, gpus = torch.get_num_threads(), world_size()
    words = f"{n} thread{'s' * (n > 1)}, {platform.machine()}"
    if device.type == "mps":
        return f"Apple GPU, {words}"
    if device.type != "cuda":
        return words
    return f"{gpus} × " * (gpus > 1) + f"{torch.cuda.get_device_name(device)}, {words}"


def effort(model: nn.Module, trainer) -> dict:
    """Machine, size, tokens, operations, time of a training, which has `n_labels` and `seconds`.

    Operations are counted as 6 per weight and token: two on the way forward, four for the gradient.
    """
    parameters = sum(w.numel() for w in model.parameters())
    return {
        "hardware": hardware_name(device_of(model)),
        "torch": torch.__version__.split("+")[0],
        "parameters": parameters,
        "tokens": trainer.n_labels,
        "flops": 6.0 * parameters * trainer.n_labels,
        "seconds": round(trainer.seconds, 1),
        "tokens_per_second": round(trainer.n_labels / max(trainer.seconds, 1e-9)),
    }


def write_record(
    folder: Path,
    command: str,
    seed: int,
    recipe,
    data: dict,
    effort: dict,
    scores: list[dict],
    **extra,
) -> dict:
    """What a run was and what came of it, to `folder`/run.json, whole or not at all; returns it.

    `recipe` is a dataclass with all choices, `data` tells the corpus, its size and hash, `extra`
    goes between effort and scores. The commit is that of the package's own checkout."""
    record = {
        "command": command,
        "commit": git_commit(),
        "seed": seed,
        "recipe": asdict(recipe),
        "data": data,
        **effort,
        **extra,
        "scores": scores,
    }
    write_json(folder / "run.json", record)
    return record
