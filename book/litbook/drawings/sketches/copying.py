"Chapter 14: the copying task."

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from litbook import figures
from litbook.figures.style import as_array
from litbook.prose import in_a_row
from litbook.prose import token_boxes


def said_again(read: Sequence[int], said: Sequence[int], run: Mapping[str, Any]) -> figures.Picture:
    """A sequence, what a model made of it, and in a table what its training came to: `loss`,
    `before`, `after` and `exact`."""
    rows = token_boxes({"read": [str(word) for word in read], "said": [str(word) for word in said]})
    told = figures.table(
        [
            {"": name, "loss, nats per token": f"{loss:.4f}", "exact copies": copied}
            for name, loss, copied in (
                ("before training", run["before"], "–"),
                (f"after {len(run['loss'])} steps", run["after"], f"{run['exact']:.1%}"),
            )
        ],
        caption="On sequences that it hasn't seen",
    )
    return figures.Picture(rows.html + told.html, None)


def by_head(shares: Any, caption: str) -> figures.Picture:
    "One number for each head, (N, H), a row for each layer."
    return figures.table(
        [
            {"layer": str(n + 1), **{f"head {h + 1}": share for h, share in enumerate(row)}}
            for n, row in enumerate(as_array(shares, float).tolist())
        ],
        caption=caption,
    )


def pointing_heads(weights: Any, pointing: Any) -> figures.Picture:
    """The cross-attention of each layer's best head over the words of one sequence and EOS.

    weights: (N, H, T, S); pointing: (N, H), a head's mean weight on the word whose turn it is."""
    maps, shares = as_array(weights, float), as_array(pointing, float)
    best, words = shares.argmax(1), [str(s + 1) for s in range(maps.shape[-1] - 1)] + ["EOS"]
    return figures.heatmaps(
        [
            {
                "matrix": maps[n, h],
                "title": f"Layer {n + 1}, head {h + 1}",
                "rows": [f"say {word}" for word in words],
                "cols": words,
            }
            for n, h in enumerate(best)
        ],
        vmin=0,
        vmax=1,
        alt=(
            f"{len(best)} heat maps of cross-attention, {len(words)} queries down and as many"
            " source words across. Weight on the diagonal, row by row: "
        )
        + "; ".join(
            f"layer {n + 1} " + ", ".join(f"{w:.2f}" for w in maps[n, h].diagonal())
            for n, h in enumerate(best)
        )
        + ".",
        caption="The word whose turn it is gets "
        + in_a_row(
            [
                f"{shares[n, h]:.0%} of the weight in layer {n + 1}, head {h + 1}"
                for n, h in enumerate(best)
            ]
        )
        + ".",
    )


def loss_and_copies(
    runs: Mapping[str, Mapping[str, Sequence[float]]], every: int = 20
) -> figures.Picture:
    """Training loss and exact copies of two runs or more, the last one faulty: `loss` by step,
    `copies` after `every` steps each."""
    faulty = list(runs)[-1]
    look = {"xlabel": "step", "colors": {faulty: figures.FAULT}, "styles": {faulty: "--"}}
    copied = {
        name: ([every * (n + 1) for n in range(len(run["copies"]))], run["copies"])
        for name, run in runs.items()
    }
    ends = "; ".join(
        f"{name}, {fmean(run['loss'][-every:]):.4f} nats and {run['copies'][-1]:.1%} exact copies"
        for name, run in runs.items()
    )
    return figures.curve_panels(
        [
            {
                "series": {name: run["loss"] for name, run in runs.items()},
                "title": "Training loss",
                "ylabel": "nats per token",
                "logy": True,
                **look,
            },
            {"series": copied, "title": "Exact copies", "ylabel": "share of the sequences", **look},
        ],
        alt=(
            f"Training loss by step, and the share of exact copies, of {in_a_row(list(runs))}."
            f" Training loss of the last {every} steps, and copies after the last: {ends}."
        ),
        caption=f"Training loss of the last {every} steps, and copies after the last: {ends}.",
    )


def copies_by_length(
    by_length: Mapping[str, tuple[Sequence[int], Sequence[float]]], around: int = 8
) -> figures.Picture:
    """Exact copies against length, (lengths, shares) by what a model was trained on; the caption
    looks at `around` and its neighbours."""
    shares = {name: dict(zip(*entry)) for name, entry in by_length.items()}
    near = [around - 1, around, around + 1]
    told = "; ".join(
        f"trained on {name}: {', '.join(f'{share[n]:.0%}' for n in near)}"
        for name, share in shares.items()
    )
    return figures.curves(
        dict(by_length),
        xlabel="words to copy",
        ylabel="exact copies",
        title="By the lengths in training",
        caption=f"Exact copies of {', '.join(map(str, near[:-1]))} and {near[-1]} words, {told}.",
        alt="Exact copies against length. "
        + " ".join(
            f"Trained on {name}: "
            + ", ".join(f"{share:.0%} of {n} words" for n, share in found.items())
            + "."
            for name, found in shares.items()
        ),
    )


def what_is_left_out(
    results: Mapping[str, Sequence[tuple[float, float, float]]], nats: float = 1.5
) -> figures.Picture:
    """Three numbers of each run by variant: loss, share of exact copies, first step below so many
    `nats` (infinite: never)."""

    def row(runs: Sequence[tuple[float, float, float]]) -> dict[str, str]:
        loss, copies, early = (sorted(column) for column in zip(*runs))
        middle = early[len(early) // 2]
        return {
            "loss": f"{loss[0]:.2f}–{loss[-1]:.2f}",
            "copies": f"{copies[0]:.1%}–{copies[-1]:.1%}",
            f"{nats} nats": f"step {middle}" if np.isfinite(middle) else "never",
        }

    return figures.table(
        {name: row(runs) for name, runs in results.items()},
        caption="Lowest–highest of the seeds; steps: the median",
    )


def copies_left(results: Mapping[str, Sequence[tuple[float, float, float]]]) -> figures.Picture:
    """Exact copies by variant, the median with the seeds' range; the first variant is the whole
    model."""
    copies = {name: sorted(copied for _, copied, _ in runs) for name, runs in results.items()}
    bars = {name: (c[len(c) // 2], c[0], c[-1]) for name, c in copies.items()}
    whole, *changed = bars
    return figures.bars(
        bars,
        xlabel="exact copies, median of the seeds",
        fmt="{:.1%}",
        colors={name: figures.GREY for name in changed},
        caption=(
            f"With {whole}, {bars[whole][0]:.1%} of the sequences come back exactly;"
            f" {sum(bars[name][0] < 0.5 for name in changed)} of {len(changed)} changes leave fewer"
            " than half."
        ),
        alt="Exact copies by what was left out, median of the seeds: "
        + ", ".join(f"{name} {bar[0]:.1%}" for name, bar in bars.items())
        + ".",
    )
