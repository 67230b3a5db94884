"""Things to turn by hand: a page that works without a kernel and, where one answers, sliders."""

from collections.abc import Callable

import ipywidgets
import torch

from litbook import figures
from litbook.live.pages import live_view
from transformer_lit.masks import PAD, causal_mask, padding_mask
from transformer_lit.schedule import noam


class Explorer:
    """A view of book/web/views, and sliders for the picture that `draw(**values)` returns. A
    notebook takes the richest form that it can show."""

    def __init__(self, page: str, draw: Callable[..., figures.Picture], **controls):
        self.html = live_view(page)
        self.widget = ipywidgets.interactive(draw, {"auto_display": True}, **controls)

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        bundle = self.widget._repr_mimebundle_() or {}
        widgets = {kind: value for kind, value in bundle.items() if "widget" in kind}
        return {"text/html": self.html, "text/plain": "controls", **widgets}


def softmax() -> Explorer:
    "Softmax of eight scores against dₖ, with and without 1/√dₖ."
    scores = torch.tensor([0.34, -1.12, 1.57, 0.08, -0.45, 0.91, -1.83, 0.52])

    def draw(log2_dk: int) -> figures.Picture:
        return figures.heatmap(
            torch.stack([scores, scores * 2 ** (log2_dk / 2)]).softmax(-1),
            f"Weights of eight scores at dₖ = {2 ** log2_dk}, divided by √dₖ and not divided.",
            rows=["divided", "not divided"],
            annotate=True,
            vmin=0,
            vmax=1,
            bar=False,
        )

    return Explorer("softmax", draw, log2_dk=(2, 10))


def masks() -> Explorer:
    "Causal, padding, both: the mask of a padded sentence."

    def draw(causal: bool, padding: bool, pads: int, left: bool) -> figures.Picture:
        words, pad = "<bos> elle était large <eos>".split(), ["<pad>"] * pads
        tokens = pad + words if left else words + pad
        ids = torch.tensor([[PAD if token == "<pad>" else PAD + 4 for token in tokens]])
        mask = (causal_mask(len(tokens)) | (not causal)) & (padding_mask(ids) | (not padding))
        return figures.heatmap(
            mask[0, 0],
            "A mask: rows are queries, columns are keys, light is open.",
            rows=tokens,
            cols=tokens,
            cmap="mask",
        )

    return Explorer("masks", draw, causal=True, padding=True, pads=(0, 3), left=True)


def learning_rate() -> Explorer:
    "The learning rate of equation 3 against the step, beside the base model's."
    steps = range(1, 20001, 50)

    def draw(d_model: int, warmup: int, log: bool) -> figures.Picture:
        return figures.curves(
            {
                "yours": (steps, [noam(step, d_model, warmup) for step in steps]),
                "base": (steps, [noam(step) for step in steps]),
            },
            xlabel="step",
            colors={"base": figures.GREY},
            logx=log,
            logy=log,
            caption=f"The peak is {noam(warmup, d_model, warmup):.2e}.",
        )

    sizes = [64, 128, 256, 512, 1024, 2048]
    return Explorer("noam", draw, d_model=sizes, warmup=(100, 16000, 100), log=False)
