"""Drawings of the rivals' chapters, 23 to 25, each one call."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from torch import Tensor

from litbook import fair, figures

T = TypeVar("T")
TITLES = {
    "transformer": "Transformer",
    "rnn": "RNN",
    "rnn-attention": "RNN with attention",
    "shipped transformer": "shipped Transformer",
    "rope": "RoPE",
}


def titled(found: Mapping[str, T]) -> dict[str, T]:
    "What was found of each competitor, under the names that figures have for them."
    return {TITLES.get(name, name): one for name, one in found.items()}


def losses_along(names: Sequence[str], since: int = 0) -> figures.Picture:
    """Recorded validation losses along the runs on Tatoeba, from so many target tokens on, by
    tokens and by operations.

    A design whose seeds aren't all there is left out."""
    names = [name for name in names if fair.results_of(name)]
    panels = {
        title: titled({name: fair.losses_along(name, operations, since=since) for name in names})
        for title, operations in (("by tokens", False), ("by operations", True))
    }
    told = ", ".join(f"{name} {line[1][-1]:.2f}" for name, line in panels["by tokens"].items())
    spent = ", ".join(f"{name} {line[0][-1]:.0f}" for name, line in panels["by operations"].items())
    return figures.curve_panels(
        [
            {
                "series": lines,
                "title": title,
                "xlabel": xlabel,
                "hline": (fair.lines_of(part="valid")["trigram"], "trigram"),
            }
            for (title, lines), xlabel in zip(
                panels.items(), ("millions of target tokens", "operations, 10¹²")
            )
        ],
        logx=True,
        ylabel="loss, nats per token",
        alt=(
            f"Validation loss of {len(names)} models along their runs. At the end: {told}."
            f" Operations, 10¹²: {spent}."
        ),
        caption=(
            f"Tatoeba. At the end: {told}. Operations, 10¹²: {spent}. Dotted: a trigram that sees"
            f" the French alone. All such n-grams: {fair.lines_said(part='valid')}."
        ),
    )


def stream_laid_out(stream: tuple[Tensor, Tensor, int]) -> figures.Picture:
    """Tokens and positions of each row of a joined stream, column by column. stream: tokens (B, L),
    positions (B, L), column of the tag."""
    tokens, positions, _ = stream
    rows = {
        f"{name}, pair {row}": values
        for row, pair in enumerate(zip(tokens.tolist(), positions.tolist()), 1)
        for name, values in zip(("tokens", "positions"), pair)
    }
    return figures.table(
        {
            name: {str(k) if k else "column 0": value for k, value in enumerate(values)}
            for name, values in rows.items()
        }
    )


def losses_by_budget(names: Sequence[str]) -> figures.Picture:
    """Recorded test losses on Tatoeba against the budget, each a run of its own, beside the
    trigram's. Mean, lowest and highest of the seeds."""
    found = {name: fair.by_budget(name) for name in names}
    lines: dict = {
        name: fair.band(
            [budget / 1e6 for budget in some],
            [[run["test_loss"] for run in runs] for runs in some.values()],
        )
        for name, some in titled(found).items()
    }
    told = "; ".join(
        f"{name} {', '.join(f'{loss:.2f} at {budget:g}M' for budget, loss in zip(*line[:2]))}"
        for name, line in lines.items()
    )
    longest = max(line[0][-1] for line in lines.values())
    ended = "".join(
        f" {name} was run up to {line[0][-1]:g}M."
        for name, line in lines.items()
        if line[0][-1] < longest
    )
    trigram = fair.trigram_by_budget()
    lines["trigram"] = [budget / 1e6 for budget in trigram], list(trigram.values())
    return figures.curves(
        lines,
        logx=True,
        xlabel="millions of target tokens",
        ylabel="loss on the test, nats per token",
        styles={name: "--" if name == "trigram" else "o-" for name in lines},
        colors={"trigram": figures.GREY},
        alt=f"Loss on the test against the budget: {told}.",
        caption=(
            "Tatoeba; each point is the end of runs of its own, and the bands hold all"
            f" seeds.{ended} N-grams see the French alone; on the full budget's batches:"
            f" {fair.lines_said()}."
        ),
    )


def worth_of_the_source(names: Sequence[str]) -> figures.Picture:
    "What the right source is worth along the recorded runs on Tatoeba."
    lines = titled({name: fair.worth_along(name) for name in names})
    told = ", ".join(f"{name} {line[1][-1]:.1f}" for name, line in lines.items())
    return figures.curves(
        lines,
        logx=True,
        xlabel="millions of target tokens",
        ylabel="worth of the source, nats per token",
        alt=(
            "How much the loss rises with another sentence's source, along the runs. At the end:"
            f" {told}."
        ),
        caption=f"How much the loss rises with another sentence's source. At the end: {told}.",
    )


def pocket_curves(names: Sequence[str], aligned: bool = True) -> figures.Picture:
    """Along the recorded runs on the pocket corpus: the loss on validation pairs and, if `aligned`,
    the alignment error rate of those that attend.

    The losses alone have a logarithmic axis. A design whose seeds aren't all there is left out."""
    names = [name for name in names if fair.results_of(name, "pocket")]
    losses = titled({name: fair.losses_along(name, ground="pocket") for name in names})
    errors = titled(
        {
            name: fair.alignment_along(name)
            for name in names
            if aligned and "alignment" in fair.results_of(name, "pocket")[0]
        }
    )
    told = "; ".join(
        f"{name} {line[1][-1]:.2f}"
        + (f" and {errors[name][1][-1]:.0%} errors" if name in errors else "")
        for name, line in losses.items()
    )
    trigram = fair.lines_of("pocket", "valid")["trigram"]
    caption = f"Pocket corpus. At the end: {told}. {fair.beside('pocket', 'valid')}"
    axes, lines = {"logx": True, "xlabel": "millions of target tokens"}, {
        "ylabel": "loss, nats per token",
        "hline": (trigram, "trigram"),
    }
    if not aligned:
        return figures.curves(
            losses,
            logy=True,
            **axes,
            **lines,
            alt=f"Loss of {len(names)} models along their runs. At the end: {told}.",
            caption=caption,
        )
    return figures.curve_panels(
        [{"series": losses, **lines}, {"series": errors, "ylabel": "alignment error rate"}],
        **axes,
        caption=caption,
        alt=(
            f"Loss and alignment error rate of {len(names)} models along their runs. At the end:"
            f" {told}."
        ),
    )


def bleu_by_length(names: Sequence[str], least: int = 20) -> figures.Picture:
    """Recorded BLEU on Tatoeba against the number of English words; groups of fewer than `least`
    sentences are left out.

    The caption says what share of the last model's BLEU the others have, for the shortest sentences
    and the longest."""
    lines = {name: fair.by_length(name, least=least) for name in names}
    told = "; ".join(
        f"{name}: from {line[1][0]:.0f} to {line[1][-1]:.0f}"
        for name, line in titled(lines).items()
    )
    most = lines[names[-1]][1]
    shares = ", ".join(
        f"{name} from {line[1][0] / most[0]:.0%} to {line[1][-1] / most[-1]:.0%}"
        for name, line in titled({name: lines[name] for name in names[:-1]}).items()
    )
    return figures.curves(
        titled(lines),
        xlabel="English words, from",
        ylabel="BLEU",
        alt=f"BLEU against the number of English words. {told}.",
        caption=(
            f"BLEU as a share of that of {TITLES.get(names[-1], names[-1])}, from the shortest"
            f" sentences to the longest: {shares}."
        ),
    )


def speeds(
    at: Sequence[int],
    found: Mapping[str, Sequence[float]],
    unit: str,
    xlabel: str,
    caption: str,
    logy: bool = False,
) -> figures.Picture:
    "Speed of several models against a length or a number of sentences."
    told = ", ".join(
        f"{name} from {values[0]:,.0f} to {values[-1]:,.0f}"
        for name, values in titled(found).items()
    )
    return figures.curves(
        {name: (list(at), values) for name, values in titled(found).items()},
        logx=True,
        logy=logy,
        xlabel=xlabel,
        ylabel=unit,
        alt=f"Speed in {unit}, with {at[0]} to {at[-1]} {xlabel.split(',')[0]}: {told}.",
        caption=caption,
    )


def training_speeds(
    lengths: Sequence[int], found: Mapping[str, Sequence[float]], tokens: int
) -> figures.Picture:
    """Target tokens per second by the length of the sentences; the caption says how much of its
    speed each model keeps."""
    kept = ", ".join(
        f"{name} {values[-1] / values[0]:.0%}" for name, values in titled(found).items()
    )
    return speeds(
        lengths,
        found,
        "tokens per second",
        f"words per sentence, {tokens} tokens per step",
        f"Speed at {lengths[-1]} words per sentence as a share of that at {lengths[0]}: {kept}.",
    )


def decoding_speeds(
    batches: Sequence[int], found: Mapping[str, Sequence[float]]
) -> figures.Picture:
    """Words per second by the number of sentences at once; the caption compares the last model with
    the first."""
    first, *_, last = titled(found)
    times = [b / a for a, b in zip(found[list(found)[0]], found[list(found)[-1]])]
    return speeds(
        batches,
        found,
        "words per second",
        "sentences at once",
        f"While the {first} says one word the {last} says {times[0]:.1f} with {batches[0]} sentence"
        f" at once and {times[-1]:.1f} with {batches[-1]}.",
        logy=True,
    )


def on_the_way(seen: Mapping[str, Tensor], diagonal: float) -> figures.Picture:
    """What the right source is worth, and how far attention is from the true links, along trainings
    of several models.

    seen: name -> (4, looks): target tokens, loss, worth, alignment error rate. diagonal: the rate
    of links between equal places."""
    at, middle = titled(seen), next(iter(seen.values())).size(1) // 2
    told = "; ".join(
        f"{name} {rows[2, middle]:.1f} and {rows[2, -1]:.1f} nats, {rows[3, middle]:.0%} and"
        f" {rows[3, -1]:.0%} errors"
        for name, rows in at.items()
    )
    half = next(iter(seen.values()))[0, middle] / 1e3
    panels = [
        {
            "series": {
                name: ((rows[0] / 1e3).tolist(), rows[k].tolist()) for name, rows in at.items()
            },
            "ylabel": ylabel,
            **more,
        }
        for k, ylabel, more in (
            (2, "worth of the source, nats per token", {}),
            (3, "alignment error rate", {"hline": (diagonal, "diagonal")}),
        )
    ]
    return figures.curve_panels(
        panels,
        xlabel="thousands of target tokens",
        caption=f"After {half:.0f},000 tokens and at the end: {told}.",
        alt=(
            "Two panels over target tokens: what the right source is worth, and the alignment"
            f" error rate with a dotted line for the diagonal, {diagonal:.0%}. After {half:.0f},000"
            f" tokens and at the end: {told}."
        ),
    )


def word_maps_of(
    maps: Mapping[str, Tensor], rows: Sequence[str], cols: Sequence[str], asked: str
) -> figures.Picture:
    """Maps of several models over the words of one pair, (T, S) each, and where each looks most for
    the word `asked`."""
    said = {name: w[list(rows).index(asked)] for name, w in titled(maps).items()}
    most = {name: cols[int(row.argmax())] for name, row in said.items()}
    return figures.heatmaps(
        [dict(matrix=w, title=name, rows=rows, cols=cols) for name, w in titled(maps).items()],
        vmin=0,
        vmax=1,
        alt=(
            f"{len(maps)} maps of one sentence, a row for each French word and a column for each"
            f" English one. For {asked} the most weight lies on: "
        )
        + ", ".join(f"{word} ({name})" for name, word in most.items())
        + ".",
        caption=f"For {asked} the most weight lies on "
        + " and on ".join(
            f"{most[name]} in the {name} ({float(row.max()):.2f})" for name, row in said.items()
        )
        + ".",
    )


def heads_of_a_stream(
    weights: Tensor, names: Sequence[str], heads: Mapping[str, tuple[int, int]]
) -> figures.Picture:
    """Attention of chosen heads over one joined sentence. weights: (layers, heads, L, L); heads:
    what each was chosen for -> its place."""
    jobs: dict[tuple[int, int], list[str]] = {}
    for name, at in heads.items():  # one head may be the best at two things
        jobs.setdefault(at, []).append(name)
    tag = list(names).index("⟨fr⟩") if "⟨fr⟩" in names else 0
    most = {
        at: weights[at][tag:].argmax(-1) for at in jobs
    }  # of each French row the column with most weight
    told = "; ".join(
        f"{int(((0 < best) & (best < tag - 1)).sum())} in layer {at[0] + 1}, head {at[1] + 1}"
        for at, best in most.items()
    )
    return figures.heatmaps(
        [
            {
                "matrix": weights[layer, head],
                "rows": names,
                "cols": names,
                "title": f"{' and '.join(found)}: layer {layer + 1}, head {head + 1}",
            }
            for (layer, head), found in jobs.items()
        ],
        across=2,
        vmin=0,
        vmax=1,  # three in a row would have no room for their words
        caption=f"French rows, of {len(names) - tag}, that look most at an English word: {told}.",
        alt=(
            f"{len(jobs)} lower triangles of attention over one joined sentence, each of the head "
            f"that gives most to: {', '.join(heads)}."
        ),
    )


def copied_losses(
    fallen: Mapping[str, tuple[Sequence[int], Sequence[float]]], floor: float, name: str
) -> figures.Picture:
    """Losses of random words over the steps, beside the loss of an honest guess. fallen: mask ->
    (steps, losses)."""
    told = "; ".join(
        f"{mask} from {losses[0]:.2f} to {losses[-1]:.2f}" for mask, (_, losses) in fallen.items()
    )
    leaks = [mask for mask, (_, losses) in fallen.items() if losses[-1] < floor / 2]
    return figures.curves(
        dict(fallen),
        colors=dict.fromkeys(leaks, figures.FAULT),
        styles=dict.fromkeys(leaks, "--"),
        caption=(
            f"Nobody can predict random words: an honest guess has a loss of {name} = {floor:.2f}."
            " At the last step: "
        )
        + ", ".join(f"{mask} {losses[-1]:.2f}" for mask, (_, losses) in fallen.items())
        + ".",
        xlabel="step",
        ylabel="loss of the English, nats",
        hline=(floor, name),
        alt=(
            f"Loss of random English words over {max(fallen[next(iter(fallen))][0])} steps, beside"
            f" {name} = {floor:.2f}. {told}."
        ),
    )
