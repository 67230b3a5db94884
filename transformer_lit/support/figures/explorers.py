"""Things to turn by hand: a page of JavaScript for readers without a kernel, ipywidgets for those who have one."""
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..files import shipped
from .plots import bars, curves, heatmap


def live(controls: Mapping[str, Any], draw: Callable[..., str]) -> Any:
    "A box with the controls and, under them, the HTML that `draw(**values)` makes of them; moving one draws again."
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

    page: a file of data/interactive, which works by itself. Where a kernel answers, the same controls as ipywidgets go in
    front: `controls` maps names to widgets, `draw(**values)` gives HTML. A notebook takes the richest form that it can show."""

    def __init__(self, page: str, controls: Mapping[str, Any], draw: Callable[..., str]):
        self.html = shipped(f"data/interactive/{page}.html").read_text(encoding="utf-8")
        self.widget = live(controls, draw)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict:
        found = self.widget._repr_mimebundle_() or {}
        kept = {kind: value for kind, value in found.items() if "widget" in kind}
        return {"text/html": self.html, "text/plain": "controls", **kept}


def softmax_bars(power: int, scaled: bool) -> str:
    "The weights of eight scores for dₖ = 2 ** power."
    draws = np.array([.34, -1.12, 1.57, .08, -.45, .91, -1.83, .52])
    scores = draws if scaled else draws * 2 ** (power / 2)
    weights = np.exp(scores - scores.max())
    weights = weights / weights.sum()
    return bars({f"{score:.1f}": weight for score, weight in zip(scores, weights)},
                alt="the weights of eight scores", title=f"dₖ = {2 ** power}").html


def explore_softmax() -> Explorer:
    "Softmax of eight scores against dₖ, with and without 1/√dₖ."
    import ipywidgets

    return Explorer("softmax", {"power": ipywidgets.IntSlider(6, 2, 10, description="log2 dₖ"),
                                "scaled": ipywidgets.Checkbox(True, description="1/√dₖ")}, softmax_bars)


def mask_of_six(causal: bool, padding: bool, pads: int) -> str:
    "The mask of a sentence of six words, the last `pads` padded."
    words = "the animal was too tired .".split()
    tokens = words[:6 - pads] + ["<pad>"] * pads
    seen = np.tril(np.ones((6, 6), bool)) | (not causal)
    real = np.array([token != "<pad>" for token in tokens])
    return heatmap(seen & (real | (not padding)), rows=tokens, cols=tokens, cmap="mask", width=340,
                   alt="rows are queries, columns are keys").html


def explore_masks() -> Explorer:
    "Causal, padding, both: the mask of a six-word sentence."
    import ipywidgets

    return Explorer("masks", {"causal": ipywidgets.Checkbox(True, description="causal"),
                              "padding": ipywidgets.Checkbox(True, description="padding"),
                              "pads": ipywidgets.IntSlider(2, 0, 4, description="pads")}, mask_of_six)


def noam_curve(power: int, warmup: int) -> str:
    "The learning rate for d_model = 2 ** power, as a curve."
    step = np.arange(1, 20001, 50.0)
    rate = 2 ** (-power / 2) * np.minimum(step ** -0.5, step * warmup ** -1.5)
    return curves({"rate": (step, rate)}, xlabel="step", alt="the rate rises in a line and falls slowly",
                  title=f"d_model {2 ** power}").html


def explore_noam() -> Explorer:
    "The learning rate of equation 3 against the step."
    import ipywidgets

    return Explorer("noam", {"power": ipywidgets.IntSlider(9, 6, 11, description="log2 d"),
                             "warmup": ipywidgets.IntSlider(4000, 100, 16000, 100, description="warm-up")}, noam_curve)
