"""Things to turn by hand: a page of JavaScript for readers without a kernel, ipywidgets for those
who have one."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from litbook.live.pages import live_view
from .plots import bars, curves, heatmap
from .style import FAULT, GREY, INK


def live(controls: Mapping[str, Any], draw: Callable[..., str]) -> Any:
    """A box with the controls and, under them, the HTML that `draw(**values)` makes of them; moving
    one draws again."""
    import ipywidgets

    view = ipywidgets.HTML()

    def redraw(_: object = None) -> None:
        view.value = draw(**{name: widget.value for name, widget in controls.items()})

    for widget in controls.values():
        widget.observe(redraw, "value")
    redraw()
    return ipywidgets.VBox([*controls.values(), view])


class Explorer:
    """Something to turn by hand.

    page: a view of book/web/views, which works by itself with the style and the helpers in
    shared.html. Where a kernel answers, the main controls as ipywidgets go in front: `controls`
    maps names to widgets, `draw(**values)` gives HTML. A notebook takes the richest form that it
    can show."""

    def __init__(self, page: str, controls: Mapping[str, Any], draw: Callable[..., str]):
        self.html = live_view(page)
        self.widget = live(controls, draw)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict:
        found = self.widget._repr_mimebundle_() or {}
        kept = {kind: value for kind, value in found.items() if "widget" in kind}
        return {"text/html": self.html, "text/plain": "controls", **kept}


DRAWS = np.array([0.34, -1.12, 1.57, 0.08, -0.45, 0.91, -1.83, 0.52])  # eight of a standard normal


def softmax(scores: np.ndarray) -> np.ndarray:
    "The weights of some scores."
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def keys_used(weights: np.ndarray) -> float:
    "Over how many keys the weights spread: e to the power of their entropy."
    some = weights[weights > 0]
    return float(np.exp(-(some * np.log(some)).sum()))


def softmax_bars(power: int) -> str:
    "The weights of eight scores for dₖ = 2 ** power, divided by √dₖ and not divided."
    shown = []
    for name, factor, colour in (
        ("divided by √dₖ", 1, INK),
        ("not divided", 2 ** (power / 2), FAULT),
    ):
        weights = softmax(DRAWS * factor)
        keys = [f"key {i}" for i in range(1, 9)]
        shown.append(
            bars(
                dict(zip(keys, weights)),
                colors=dict.fromkeys(keys, colour),
                title=f"dₖ = {2 ** power}, {name}",
                alt=f"The weights of eight scores, {name}.",
                caption=f"About {keys_used(weights):.1f} of 8 keys.",
            ).html
        )
    return "".join(shown)


def explore_softmax() -> Explorer:
    "Softmax of eight scores against dₖ, with and without 1/√dₖ."
    import ipywidgets

    return Explorer(
        "softmax", {"power": ipywidgets.IntSlider(6, 2, 10, description="log2 dₖ")}, softmax_bars
    )


def mask_of_five(causal: bool, padding: bool, pads: int, left: bool) -> str:
    "The mask of a sentence of five places with `pads` more, on the right or on the left."
    words, fill = "<bos> elle était large <eos>".split(), ["<pad>"] * pads
    tokens = fill + words if left else words + fill
    seen = np.tril(np.ones((len(tokens), len(tokens)), bool)) | (not causal)
    real = np.array([token != "<pad>" for token in tokens])
    may = seen & (real | (not padding))
    dead = int((~may.any(1)).sum())
    return heatmap(
        may,
        rows=tokens,
        cols=tokens,
        cmap="mask",
        alt="A mask: rows are queries, columns are keys.",
        caption=f"Light is open. Rows that may look nowhere: {dead}.",
    ).html


def explore_masks() -> Explorer:
    "Causal, padding, both: the mask of a padded sentence."
    import ipywidgets

    return Explorer(
        "masks",
        {
            "causal": ipywidgets.Checkbox(True, description="causal"),
            "padding": ipywidgets.Checkbox(True, description="padding"),
            "pads": ipywidgets.IntSlider(2, 0, 3, description="pads"),
            "left": ipywidgets.Checkbox(True, description="on the left"),
        },
        mask_of_five,
    )


def noam_curve(power: int, warmup: int, log: bool) -> str:
    "The learning rate for d_model = 2 ** power as a curve, beside the base model's."
    step = np.geomspace(10, 20000, 300) if log else np.arange(1, 20001, 50.0)

    def rate(power: int, warmup: int) -> np.ndarray:
        return 2 ** (-power / 2) * np.minimum(step**-0.5, step * warmup**-1.5)

    return curves(
        {"yours": (step, rate(power, warmup)), "base": (step, rate(9, 4000))},
        colors={"base": GREY},
        xlabel="step",
        logx=log,
        logy=log,
        alt="The rate rises in a line and falls slowly.",
        title=f"d_model {2 ** power}, warm-up {warmup:,}",
        caption=f"The peak is {(2 ** power * warmup) ** -0.5:.2e}.",
    ).html


def explore_noam() -> Explorer:
    "The learning rate of equation 3 against the step."
    import ipywidgets

    return Explorer(
        "noam",
        {
            "power": ipywidgets.IntSlider(9, 6, 11, description="log2 d"),
            "warmup": ipywidgets.IntSlider(400, 100, 16000, 100, description="warm-up"),
            "log": ipywidgets.Checkbox(False, description="logarithmic"),
        },
        noam_curve,
    )
