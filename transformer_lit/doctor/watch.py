"""A forward pass traced: the torch functions that a model calls."""

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

DROPOUT = {"scaled_dot_product_attention": 4, "multi_head_attention_forward": 10}  # place of p
ADD = "add __add__ add_ __iadd__ __radd__".split()
TIMES = dict.fromkeys("mul __mul__ __rmul__ mul_ __imul__ multiply".split(), 1)
TIMES |= dict.fromkeys("div __truediv__ div_ __itruediv__ true_divide divide".split(), -1)
PRODUCTS = "matmul __matmul__ __rmatmul__ bmm baddbmm einsum".split()
LAYERS = "linear", *PRODUCTS
KEEP_AXES = "dropout masked_fill masked_fill_ to float type_as contiguous clone nan_to_num".split()
# after these, scores are still scores, and embeddings embeddings
KEEP = {
    *"""view reshape transpose permute where expand unsqueeze squeeze __getitem__ split chunk
unbind flatten repeat cat swapaxes movedim repeat_interleave __get__ sub __sub__ tril clamp
conv1d""".split(),
    *KEEP_AXES,
    *ADD,
}


class NoDropout(TorchFunctionMode):
    "While active, dropout does nothing, whoever calls it."

    def __init__(self, active: bool = True):
        super().__init__()
        self.active = active

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if self.active and "dropout" in name and isinstance(args[0], Tensor):
            return args[0]
        if self.active and name in DROPOUT:
            at = DROPOUT[name]
            kwargs |= {} if len(args) > at else {"dropout_p": 0.0}
            args = (*args[:at], 0.0, *args[at + 1 :])[: len(args)]
        return func(*args, **kwargs)


class GivenLogits(TorchFunctionMode):
    """While active, the output layer answers with these logits; `ignore_index` is what
    cross-entropy was called with."""

    ignore_index: int = 0

    def __init__(self, logits: Tensor):
        super().__init__()
        self.logits = logits

    def __torch_function__(self, func, types, args=(), kwargs=None):
        output, name = func(*args, **(kwargs or {})), getattr(func, "__name__", "")
        if name == "cross_entropy":
            self.ignore_index = kwargs.get("ignore_index", -100)
        if name in LAYERS and output.shape == self.logits.shape:
            return self.logits
        return output


def as_number(x: Any) -> float | None:
    if isinstance(x, Tensor) and not x.requires_grad:
        values = x[x != 0].unique()  # one, if it is a number or a mask
        return values.item() if len(values) == 1 else 1.0
    return float(x) if isinstance(x, (int, float)) else None


class Watch(NoDropout):
    """What a forward pass does: `scales`, (factor on queries times keys, d_k); `softmax_axes`, (is
    it the axis of the sum with the values, axis, shape); `norms`, (name, axes, shape);
    `sums`, (token vectors, positions added); `embedded`, the ids that were looked up;
    `attention_weights`, (..., T, S) of each attention."""

    def __init__(self, inputs: list[Tensor]):
        super().__init__()
        self.inputs, self.tags, self.alive = inputs, {}, []  # alive: so that an id isn't used twice
        self.scales, self.softmax_axes, self.norms = [], [], []
        self.sums, self.embedded, self.attention_weights = [], [], []

    def tag(self, x: Any) -> dict:
        return self.tags.get(id(x), {})

    def put(self, x: Any, **tag) -> None:
        for part in x if isinstance(x, (tuple, list)) else [x]:
            self.tags[id(part)] = tag
            self.alive.append(part)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        first, second = (*args, None, None)[:2]
        tag = next(filter(None, map(self.tag, first if name == "cat" else args)), {})
        if name in ADD:
            self.watch_sum(first, second)
        if name == "multi_head_attention_forward":
            kwargs["need_weights"] = True
        output = super().__torch_function__(func, types, args, kwargs)
        with suppress(Exception):  # what can't be read is left out
            if name in KEEP and tag:
                self.put(
                    output, **{k: x for k, x in tag.items() if k != "axis" or name in KEEP_AXES}
                )
            elif name in TIMES:
                for x, y in (first, second), (second, first):
                    if (factor := as_number(y)) is not None:
                        factor = self.tag(x).get("factor", 1.0) * factor ** TIMES[name]
                        self.put(output, **self.tag(x) | {"factor": factor})
            elif name in PRODUCTS:
                self.watch_product(name, args, output, kwargs.get("alpha", 1))
            elif name == "softmax" and "d_k" in tag:
                self.scales.append((tag["factor"], tag["d_k"]))
                axis = kwargs.get("dim", second)
                axis = (-1 if axis is None else axis) % first.dim()
                self.put(output, axis=axis)
                self.attention_weights.append(output.detach().transpose(axis, -1))
            elif name == "scaled_dot_product_attention":
                factor = self.tag(first).get("factor", 1.0) * self.tag(second).get("factor", 1.0)
                scale = kwargs.get("scale") or first.size(-1) ** -0.5
                self.scales.append((factor * scale, first.size(-1)))
                n_keys = second.size(-2)  # values of one word each: the output is the weights
                one_hot = torch.eye(n_keys).to(second).expand(*second.shape[:-1], n_keys)
                inputs = first, second, one_hot, *args[3:]
                weights = super().__torch_function__(func, types, inputs, kwargs)
                self.attention_weights.append(weights.detach())
            elif name == "multi_head_attention_forward":
                d_k = first.size(-1) // args[4]
                self.scales.append((d_k**-0.5, d_k))
                self.attention_weights.append(output[1].detach())
            elif name == "embedding":
                self.embedded.append(first.detach().clone())
                both = [ids for x in self.inputs for ids in (x, x.T)]
                # the adapter may have padded them
                self.put(output, token=any(first[..., : x.size(1)].equal(x) for x in both))
            elif name in ("layer_norm", "batch_norm"):
                n_axes = len(kwargs.get("normalized_shape", second)) if name == "layer_norm" else 0
                self.norms.append((name, list(range(-n_axes, 0)), tuple(first.shape)))
            elif name in ("mean", "std", "var") and kwargs.get("keepdim"):
                axes = kwargs.get("dim", kwargs.get("axis", second))
                axes = [axes] if isinstance(axes, int) else axes or [-1]
                axes = [axis % first.dim() - first.dim() for axis in axes]
                self.norms.append((f"a {name} by hand", axes, tuple(first.shape)))
        return output

    def watch_sum(self, a: Any, b: Any) -> None:
        for x, y in (a, b), (b, a):
            if self.tag(x).get("token") and isinstance(y, Tensor) and y.dim() > 1:
                if x.shape[-1] == y.shape[-1] and not self.tag(y).get("token"):
                    self.sums.append((x, y))

    def watch_product(self, name: str, args: tuple, output: Tensor, alpha: float) -> None:
        operands = args[name in ("einsum", "baddbmm") :]
        a, b = operands[0] if isinstance(operands[0], (list, tuple)) else operands[:2]
        axis = a.dim() - 1
        if name == "einsum" and "..." not in args[0]:
            ours, theirs, result = args[0].replace(" ", "").replace("->", ",").split(",")
            axis = next(
                i for i, letter in enumerate(ours) if letter in theirs and letter not in result
            )
        if "axis" in self.tag(a):
            at = self.tag(a)["axis"]
            self.softmax_axes.append((at == axis, at, tuple(a.shape)))
        elif min(a.dim(), b.dim()) > 2:
            factor = self.tag(a).get("factor", 1.0) * self.tag(b).get("factor", 1.0)
            self.put(output, d_k=a.size(axis), factor=factor * alpha)
