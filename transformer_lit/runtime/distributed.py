"""Several processes of one training, as torchrun starts them: who this one is, what all of them
agree on, what they add up."""

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from transformer_lit.runtime.devices import default_device

Found = TypeVar("Found")


def init_process_group(name: str = "auto") -> torch.device:
    "This process's device, as `default_device` finds it; under torchrun it also meets the others."
    device, place, several = (
        default_device(name),
        int(os.environ.get("LOCAL_RANK", 0)),
        int(os.environ.get("WORLD_SIZE", 1)) > 1,
    )
    if device.type == "cuda" and place >= torch.cuda.device_count():
        raise ValueError(
            "torchrun asks for more processes than there are GPUs: --nproc-per-node"
            f" {torch.cuda.device_count()} is the most here"
        )
    if device.type == "mps" and several:
        raise ValueError(
            "an Apple GPU works for one process: leave torchrun out, or take --device cpu"
        )
    how: dict = dict(backend="gloo")
    if device.type == "cuda":  # chosen before they meet: else each opens its first channel on GPU 0
        device = torch.device("cuda", place)
        torch.cuda.set_device(device)
        how = dict(backend="nccl", device_id=device)
    if "RANK" in os.environ and not dist.is_initialized():
        dist.init_process_group(timeout=timedelta(days=1), **how)
    return device


def process() -> tuple[int, int]:
    "This process's number, its rank, and how many there are: (0, 1) when alone."
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def barrier() -> None:
    "Nobody goes on before all are here."
    if process()[1] > 1:
        dist.barrier()


def run_on_main(do: Callable[[], Found]) -> Found | None:
    "The first process does it, and the others wait; None to them."
    found = do() if process()[0] == 0 else None
    barrier()
    return found


def largest(number: float, device: torch.device) -> float:
    "The largest of all the processes' numbers, known to each; all must ask."
    if process()[1] == 1:
        return float(number)
    found = torch.tensor(float(number), device=device)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return found.item()


def all_gather_objects(own: object) -> list:
    "What every process brings, in the order of their ranks; all must ask."
    world = process()[1]
    if world == 1:
        return [own]
    found: list = [None] * world
    dist.all_gather_object(found, own)
    return found


# A model that all of them hold --------------------------------------------------------------------


def broadcast_parameters(model: nn.Module) -> None:
    "Every process takes the first one's weights."
    if process()[1] > 1:
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, 0)


def all_reduce_gradients(model: nn.Module, loss: Tensor) -> None:
    """Sum gradients and loss over the processes, in place.

    All in one message, since each costs a round of waiting. A process without a row of the batch
    has no gradient and sends zeros: without them the others would wait for ever."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    parts = [loss] + [
        torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights
    ]
    flat = torch.cat([part.flatten() for part in parts])
    dist.all_reduce(flat)
    sums = flat.split([part.numel() for part in parts])
    loss.copy_(sums[0][0])
    for weight, total in zip(weights, sums[1:]):
        weight.grad = total.view_as(weight)


# Starting them ------------------------------------------------------------------------------------

LOOPBACK = (
    "lo0" if sys.platform == "darwin" else "lo"
)  # processes of one machine needn't ask its network


def torchrun(script: str, folder: Path, count: int = 2, timeout: float = 300) -> str:
    """Run the text of a script in `count` processes on this machine, inside `folder`; what they
    printed.

    One thread each. RuntimeError with the end of what they said if one of them fails."""
    (folder / "script.py").write_text(script, encoding="utf-8")
    home = Path(__file__).parents[2]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            str(count),
            "script.py",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": LOOPBACK,
            "PYTHONPATH": f"{home}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        },
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return done.stdout
