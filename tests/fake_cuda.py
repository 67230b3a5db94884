"""A pretended GPU: tensors that say they lie on "cuda:0" and are computed on the processor, with a
note of each wait for the device.

It finds, without a GPU, tensors of two devices in one operation, and places where the processor has
to wait: `.item()`, `.tolist()`, `nonzero`, a copy to the processor. What it can't show: which
kernels are chosen, pinned memory, several processes, and any time.

`build` compiles fake_cuda.cpp for a wheel without CUDA. The library must be loaded before torch:
this module does so if FAKE_CUDA names it. Under `pretended()` the rest is Python."""

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
import traceback
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

HERE = Path(__file__).parent


def torch_folder() -> Path:
    return Path(importlib.util.find_spec("torch").submodule_search_locations[0])


def compiler() -> str | None:
    "A C++ compiler, if this machine has one; what is built here is for Linux."
    names = (os.environ.get("CXX"), "g++", "c++", "clang++")
    return (
        next((found for name in names if name and (found := shutil.which(name))), None)
        if sys.platform == "linux"
        else None
    )


def build(folder: Path) -> Path:
    "The library, some seconds of work; RuntimeError with what the compiler said."
    made, torch = folder / "fake_cuda.so", torch_folder()
    done = subprocess.run(
        [
            compiler(),
            "-O0",
            "-std=c++20",
            "-fPIC",
            "-shared",
            f"-I{torch / 'include'}",
            str(HERE / "fake_cuda.cpp"),
            f"-L{torch / 'lib'}",
            "-lc10",
            "-ltorch_cpu",
            "-o",
            str(made),
        ],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return made


def load(library: str) -> None:
    for path in torch_folder() / "lib/libc10.so", torch_folder() / "lib/libtorch_cpu.so", library:
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


if library := os.environ.get("FAKE_CUDA"):
    load(library)

import torch  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402

COPIES = {"_to_copy", "copy_", "_copy_from"}  # may have tensors of two devices
WAITS = {
    "_local_scalar_dense",
    "nonzero",
    "equal",
    "masked_select",
    "is_nonzero",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
}


class Device:
    """What the pretended GPU was asked for.

    waits: where the processor waited, as "file:function what". ops: how often each operation ran.
    costs: seconds of work that an operation leaves to the device, by a clock of its own, `now`: to
    hand it over takes a microsecond, and a wait goes on until all of it is done."""

    def __init__(self, costs: dict[str, float] | None = None):
        self.waits: list[str] = []
        self.ops: dict[str, int] = {}
        self.costs, self.now, self.busy_until = costs or {}, 0.0, 0.0

    def ran(self, name: str) -> None:
        self.ops[name] = self.ops.get(name, 0) + 1
        self.now += 1e-6
        self.busy_until = max(self.busy_until, self.now) + self.costs.get(name, 0.0)

    def wait(self, name: str) -> None:
        ours = [f for f in traceback.extract_stack() if "transformer_lit" in f.filename]
        where = f"{Path(ours[-1].filename).stem}:{ours[-1].name} " if ours else ""
        self.waits.append(where + name)
        self.now = max(self.now, self.busy_until)


DEVICE = [Device()]  # the one in use; a second thread asks for it as well


class Card(torch.Tensor):
    "A tensor on the pretended GPU; `held` has its numbers."

    @staticmethod
    def __new__(cls, held):
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device="cuda:0",
        )
        made.held = held
        return made

    def __repr__(self):
        return f"Card({self.held})"

    @classmethod
    def __torch_function__(cls, f, types, args=(), kwargs=None):
        if f is torch.Tensor.tolist:
            DEVICE[0].wait("tolist")
            return args[0].detach().held.tolist()
        with torch._C.DisableTorchFunctionSubclass():
            return f(*args, **kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, f, types, args=(), kwargs=None):
        return run(f, args, dict(kwargs or {}))


def waits_for(name: str, args: tuple, cards: list, to_card: bool) -> bool:
    "Must the processor wait for the result?"
    if name in (
        "index",
        "index_put",
        "index_put_",
        "_index_put_impl_",
    ):  # a mask is turned into positions first
        return any(
            isinstance(one, Card) and one.dtype in (torch.bool, torch.uint8)
            for one in args[1]
            if one is not None
        )
    if name == "repeat_interleave":
        return True
    if name in COPIES:
        return bool(cards) and (
            not to_card if name == "_to_copy" else not isinstance(args[0], Card)
        )
    return name in WAITS


def run(f, args: tuple, kwargs: dict):
    "One operation: refused if its tensors lie on two devices, noted, computed on the processor."
    name, flat = f.overloadpacket.__name__, tree_leaves((args, kwargs))
    cards = [one for one in flat if isinstance(one, Card)]
    plain = [one for one in flat if isinstance(one, torch.Tensor) and not isinstance(one, Card)]
    asked = kwargs.get("device")
    to_card = bool(cards) if asked is None else torch.device(asked).type == "cuda"
    if cards and name not in COPIES and any(one.ndim for one in plain):
        raise RuntimeError(
            f"tensors of two devices in {f}: cuda:0 {[tuple(c.shape) for c in cards]}, cpu"
            f" {[tuple(p.shape) for p in plain]}"
        )
    if not cards and not to_card:
        return f(*args, **kwargs)
    DEVICE[0].ran(name)
    if name == "_fused_sdp_choice":
        return 0  # products and a softmax, as there are no kernels here
    if waits_for(name, args, cards, to_card):
        DEVICE[0].wait(name)
    if asked is not None:
        kwargs["device"] = torch.device("cpu")
    kwargs.pop("pin_memory", None)
    whose = {id(card.held): card for card in cards}
    out = f(
        *tree_map(lambda x: x.held if isinstance(x, Card) else x, args),
        **tree_map(lambda x: x.held if isinstance(x, Card) else x, kwargs),
    )
    if name == "copy_":
        return args[0]
    if name == "_to_copy" and not to_card:
        return out

    def wrapped(x):
        if not isinstance(x, torch.Tensor) or isinstance(x, Card):
            return x
        return whose.get(id(x)) if id(x) in whose else Card(x)

    return tree_map(wrapped, out)


class Pretended(TorchDispatchMode):
    "Operations that ask for the GPU, or have a tensor of it, are computed by `run`."

    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        return run(f, args, dict(kwargs or {}))


@contextmanager
def pretended(costs: dict[str, float] | None = None):
    "A machine with one GPU; yields its `Device`."
    from transformer_lit.runtime import batches as prefetch

    ahead = prefetch.prefetch

    def in_thread(make, items, depth=2):
        def inside(item):
            with Pretended():  # a mode belongs to its thread
                return make(item)

        return ahead(inside, items, depth)

    fixed = dict(
        is_available=True,
        is_initialized=True,
        device_count=1,
        current_device=0,
        is_bf16_supported=True,
        get_device_capability=(9, 0),
        get_device_name="A pretended GPU",
        synchronize=None,
        set_device=None,
    )
    with ExitStack() as undo:
        for name, value in fixed.items():
            undo.enter_context(patch.object(torch.cuda, name, lambda *_, value=value, **__: value))
        undo.enter_context(
            patch.object(torch.cuda, "get_rng_state", lambda *_: torch.get_rng_state())
        )
        undo.enter_context(
            patch.object(torch.cuda, "set_rng_state", lambda state, *_: torch.set_rng_state(state))
        )
        undo.enter_context(patch.object(torch.cuda, "manual_seed_all", lambda seed: None))
        undo.enter_context(patch.object(torch.Tensor, "pin_memory", lambda tensor, *_: tensor))
        undo.enter_context(patch.object(prefetch, "ahead", in_thread))
        torch._C._set_only_lift_cpu_tensors(
            True
        )  # torch.tensor(..., device="cuda") is copied where the mode sees it
        undo.callback(torch._C._set_only_lift_cpu_tensors, False)
        torch.__future__.set_swap_module_params_on_conversion(
            True
        )  # else .to(device) would part tied matrices
        undo.callback(torch.__future__.set_swap_module_params_on_conversion, False)
        DEVICE[0] = Device(costs)
        undo.enter_context(Pretended())
        yield DEVICE[0]
