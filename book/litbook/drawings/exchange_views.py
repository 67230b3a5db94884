"""Chapter 25's figures, tables and sentences: what each change did, from recorded runs and from
what the page measured."""

# The runs are book/results/fair/tatoeba (read by `fair`). A gap is a difference of test losses with
# its interval, as chapter 22 takes it. What the page measures comes in as tensors, its seeds along
# the first axis.
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from torch import Tensor

from litbook import fair, figures
from litbook.figures.plots import named_rows
from litbook.prose import Prose

Gaps = dict[str, dict]  # value, low, high, decided
BASE = "2017"
TITLES = {
    "transformer": "pre-norm"
}  # the reference of part IV is 2017 with the norm before each sublayer
TODAY = (  # part, in 2017, today, why it was replaced, our name for the change
    ("attention", "softmax(QKᵀ/√K) V", "the same", "stayed", ""),
    ("residuals", "around every part", "the same", "stayed", ""),
    ("several heads", "yes", "the same", "stayed", ""),
    ("tokens", "byte pairs", "the same, more of them", "stayed", ""),
    ("warm-up", "4,000 steps", "still there", "stability", ""),
    ("place of the norm", "after", "before", "stability", "transformer"),
    ("norm", "LayerNorm", "RMSNorm", "cost of a step", "rms-norm"),
    ("keys and values", "a head each", "a group each", "serving", "grouped-query"),
    ("activation", "ReLU", "SwiGLU", "neither: loss", "swiglu"),
    ("positions", "added waves", "turned in", "neither: distance", "rope"),
    ("smoothing", "0.1", "none", "neither: likelihood", "no-smoothing"),
    ("dropout", "0.1", "none in pre-training", "neither: data seen once", "no-dropout"),
    ("weight decay", "none", "on the matrices, AdamW", "neither: loss", "adamw"),
    ("optimiser", "Adam", "mostly AdamW, some Muon", "neither: loss, with Muon", "muon"),
    ("two stacks", "yes", "mostly one", "chapter 24", ""),
)


# The gaps -----------------------------------------------------------------------------------------


def against_2017(names: Sequence[str]) -> Gaps:
    "Of those that are ranked, the test loss minus that of `2017`, lowest first."
    rows = {
        row["design"]: row.get("more_than", {}).get(BASE) for row in fair.summary_of()["comparison"]
    }
    gaps = {TITLES.get(name, name): rows[name] for name in names if rows.get(name)}
    return dict(sorted(gaps.items(), key=lambda item: item[1]["value"]))


def unclear(gaps: Gaps) -> list[str]:
    "The changes whose difference the runs don't decide."
    return [name for name, gap in gaps.items() if not gap["decided"]]


def gap_dots(gaps: Gaps) -> figures.Picture:
    """A dot for each change, its whisker the 95% interval, and a line at zero; grey where nothing
    is decided."""
    told = "; ".join(f"{name} {fair.gap_said(gap, 2)}" for name, gap in gaps.items())
    near = set(unclear(gaps))
    sides = {
        "lower": sum(gap["value"] < 0 for name, gap in gaps.items() if name not in near),
        "higher": sum(gap["value"] > 0 for name, gap in gaps.items() if name not in near),
    }
    first = max(gaps, key=lambda name: abs(gaps[name]["value"]))

    def draw(axes: Axes) -> None:
        axes.axvline(0, color=figures.INK, linewidth=0.9)
        for i, (name, gap) in enumerate(gaps.items()):
            colour = figures.GREY if name in near else figures.INK
            axes.axhline(i, color=figures.GREY, linewidth=0.4, alpha=0.35, zorder=0)
            axes.plot([gap["low"], gap["high"]], [i, i], color=colour, linewidth=1.6)
            axes.plot([gap["value"]], [i], "o", color=colour, markersize=7)
            axes.annotate(
                f"{gap['value']:+.2f}".replace("-", "−"),
                (1.01, i),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=10.5,
                annotation_clip=False,
            )

    return named_rows(
        gaps,
        draw,
        f"Loss on the test minus that of {BASE}, with its 95% interval: {told}.",
        f"Furthest from {BASE} is {first}, {gaps[first]['value']:+.2f}. Decided: {sides['lower']}"
        f" lower, {sides['higher']} higher. Undecided: {len(near)}.",
        f"loss minus that of {BASE}, nats per token\nbetter to the left",
        None,
        False,
        figures.COLUMN,
    )


def today(gaps: Gaps) -> figures.Picture:
    "2017 beside today, part by part, with the reason and the measured loss."

    def measured(name: str) -> str:
        gap = gaps.get(TITLES.get(name, name))
        return fair.gap_and_verdict(gap, 2) if gap else ""

    return figures.table(
        [
            {"part": part, "2017": then, "today": now, "reason": why, "loss here": measured(name)}
            for part, then, now, why, name in TODAY
        ],
        caption="What stayed, what was replaced, and why",
    )


# Parts --------------------------------------------------------------------------------------------


def exchanged_boxes() -> figures.Picture:
    "The architecture with every kind of box lit in which something has been replaced."
    return figures.architecture(
        lit=("encoder", "decoder", "source_embedding", "target_embedding"),
        alt=(
            "The Transformer with its attentions, feed-forwards, norms and embeddings lit: in all"
            " of them something has been replaced."
        ),
    )


def activations() -> figures.Picture:
    "ReLU, GELU and swish from -4 to 4."
    xs = torch.linspace(-4, 4, 81)
    lines = {"ReLU": F.relu, "GELU": F.gelu, "swish": F.silu}
    at = torch.tensor(-1.0)
    return figures.curves(
        {name: (xs, f(xs)) for name, f in lines.items()},
        xlabel="a feature before the activation",
        ylabel="after it",
        caption="A feature of −1 becomes "
        + ", ".join(f"{f(at).item():.2f} ({name})" for name, f in lines.items()).replace("-", "−")
        + ".",
        alt=(
            "ReLU with its corner at zero; GELU and swish follow it smoothly and dip a little below"
            " zero to the left of it."
        ),
    )


def right_by_place(
    shares: Mapping[str, Tensor], first: int = 4, longest: int = 12, words: int = 12
) -> figures.Picture:
    """The share of right answers at each place from `first` on, for each kind of positions: (seeds,
    places) each."""
    places = range(first, first + next(iter(shares.values())).size(1))
    least = min(s[:, : longest + 1 - first].mean(0).min().item() for s in shares.values())
    told = ", ".join(f"{kind} {s[:, 19 - first:].mean():.0%}" for kind, s in shares.items())
    return figures.curves(
        {kind: (list(places), s.mean(0), s.amin(0), s.amax(0)) for kind, s in shares.items()},
        xlabel=f"place in the sentence; trained up to {longest}",
        ylabel="share right",
        hline=(1 / words, "guessing"),
        caption=(
            f"Up to place {longest} all kinds of positions get more than"
            f" {math.floor(100 * least - 1e-6)}% right; from place 19 on {told}."
        ),
        alt=(
            f"Share of right answers by place, mean and range of {len(next(iter(shares.values())))}"
            " seeds, with a dotted line for guessing."
        ),
    )


def evened(before: Tensor, after: Tensor) -> figures.Picture:
    """What Muon's five rounds do to singular values from 0.001 to 1; and one gradient's, before and
    after."""
    values = torch.logspace(-3, 0, 61)
    curve = values.clone()
    for _ in range(5):
        curve = 3.4445 * curve - 4.775 * curve**3 + 2.0315 * curve**5
    return figures.curve_panels(
        [
            dict(
                series={"five rounds": (values, curve)},
                logx=True,
                xlabel="singular value before",
                ylabel="after",
                title="What five rounds do",
            ),
            dict(
                series={
                    "gradient": before / before[0],
                    "Muon's step": after.sort(descending=True)[0],
                },
                xlabel="direction",
                ylabel="size",
                title="A real gradient",
            ),
        ],
        caption=(
            f"Largest over median: {before[0] / before.median():.1f} in the gradient,"
            f" {after.max() / after.median():.1f} in Muon's step."
        ),
        alt=(
            "Left: singular values from a thousandth to one, before and after five rounds. Right:"
            " sizes over the directions of a real gradient and of Muon's step."
        ),
    )


def bytes_by_kind(kept: Mapping[str, tuple[int, int]]) -> figures.Picture:
    """The cache of one sentence by kind of attention: its own keys and values, cross-attention's,
    and both for one beam and for four."""
    return figures.table(
        {
            name: {
                "self": own,
                "cross": cross,
                "one beam": own + cross,
                "four beams": 4 * own + cross,
            }
            for name, (own, cross) in kept.items()
        },
        caption=(
            "Bytes of the cache for one sentence, base model, bf16, 100 tokens read and 100 said"
        ),
    )


def weights_said(parameters: int, kept: Sequence[int]) -> Prose:
    "The bytes of the decoder's weights beside what a sentence keeps, both of two bytes a number."
    return Prose(
        f"The weights of the decoder's layers are {2 * parameters / 1e6:.0f} MB, as much as"
        f" {2 * parameters / sum(kept):.0f} sentences keep with MHA, one beam each."
    )


def costs(
    models: Mapping[str, Any],
    share: Mapping[str, float],
    ratio: Callable[[str, int], str],
    kept: Mapping[str, int],
) -> figures.Picture:
    """What each change costs: width, parameters over those wanted, time of a step and of decoding
    over that of `2017`, bytes of cache."""
    return figures.table(
        {
            name: {
                "d_ff": model.config.d_ff,
                "parameters": f"{share[name] - 1:+.1%}",
                "training": ratio(name, 0),
                "decoding": ratio(name, 1),
                "cache": kept[name],
            }
            for name, model in models.items()
        },
        caption="Time over that of 2017; cache in bytes per sentence",
    )


# Depth --------------------------------------------------------------------------------------------


def start_gradients(depths: Sequence[int], slopes: Mapping[str, Tensor]) -> figures.Picture:
    """Gradient norms before any step, against depth. slopes: norm -> (seeds, depths, 2), first
    encoder and last decoder layer."""
    told = " and ".join(
        f"from {s[:, 0, 1].mean():.2f} to {s[:, -1, 1].mean():.2f} under {norm}-norm"
        for norm, s in slopes.items()
    )
    return figures.curve_panels(
        [
            dict(
                series={
                    f"{norm}-norm": (
                        depths,
                        s[..., end].mean(0),
                        s[..., end].amin(0),
                        s[..., end].amax(0),
                    )
                    for norm, s in slopes.items()
                },
                title=title,
                xlabel="layers in each stack",
                ylabel="gradient norm",
                logy=True,
            )
            for end, title in enumerate(("First encoder layer", "Last decoder layer"))
        ],
        caption=(
            f"From {depths[0]} to {depths[-1]} layers the last decoder layer's gradient goes"
            f" {told}."
        ),
        alt=(
            "Gradient norm at the start against depth, mean and range of the seeds: the first"
            " encoder layer on the left, the last decoder layer on the right."
        ),
    )
