"""Chapters 10 to 12 and 18: what is asked for, how batches are padded, and how runs went."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from litbook import figures
from litbook.prose import in_a_row


def shifted(words: Sequence[str]) -> figures.Picture:
    """What a decoder reads (below) and is asked to say (above); dashed lines carry each true word
    back as the next input."""
    last = len(words) - 2

    def draw(width: int) -> str:
        pitch = (width - 8) / (last + 1)
        sheet, w, size = figures.Drawing(width, 178), pitch - 9, 13 if width > figures.PHONE else 11
        sheet.text(4, 12, "is asked to say", 12, "start", weight="bold").text(
            4, 166, "reads", 12, "start", weight="bold"
        )
        for t, (reads, says) in enumerate(zip(words, words[1:])):
            x = 4 + pitch * t
            sheet.box(x, 24, w, 26, says, figures.DECODER, size=size).box(
                x, 128, w, 26, reads, "none", figures.GREY, size=size
            )
            sheet.arrow(x + w / 2, 128, x + w / 2, 51)
            if t < last:
                out, back = x + 0.75 * w, x + pitch + 0.25 * w
                sheet.line(out, 51, out, 90, figures.GREY, dash=True).line(
                    out, 90, back, 90, figures.GREY, dash=True
                )
                sheet.arrow(back, 90, back, 127, figures.GREY, dash=True)
        return sheet.svg()

    return figures.Picture(
        figures.style.responsive(draw, figures.COLUMN),
        f"The decoder reads {', '.join(words[:-1])} and is asked for {', '.join(words[1:])}; dashed"
        " lines carry each true word back as the next input.",
        f"One pass asks for {last + 1} words at once: each position reads a true word and must say"
        " the next.",
    )


def training_curves(log: Sequence[Mapping[str, Any]]) -> figures.Picture:
    "The two losses of a recorded run: of training by step, held out after each epoch."
    steps, ends = ([line for line in log if line["kind"] == kind] for kind in ("step", "epoch"))
    low = min(ends, key=lambda line: line["valid_loss"])
    return figures.curves(
        {
            "training, smoothed labels": (
                [line["step"] for line in steps],
                [line["loss"] for line in steps],
            ),
            "held out": ([line["step"] for line in ends], [line["valid_loss"] for line in ends]),
        },
        colors={"training, smoothed labels": figures.GREY, "held out": figures.INK},
        xlabel="step",
        ylabel="nats per token",
        alt=(
            f"Training loss falls from {steps[0]['loss']:.1f} to {steps[-1]['loss']:.1f} nats per"
            f" token in {steps[-1]['step']:,} steps, held-out loss from {ends[0]['valid_loss']:.2f}"
            f" after the first epoch to {ends[-1]['valid_loss']:.2f}."
        ),
        caption=(
            f"The held-out loss is lowest after epoch {1 + ends.index(low)} of {len(ends)}, at"
            f" {low['valid_loss']:.2f} nats per token."
        ),
    )


def averaged_checkpoints(
    kept: Sequence[Mapping[str, Any]],
    pairs: Sequence[tuple[int, int]],
    rate: Callable[[int], float],
) -> figures.Picture:
    """Held-out loss of single epochs and of their means with an earlier one.

    kept: rows with `epochs`, `step` and `loss`; pairs: (earlier epoch, epoch); rate(step): a share
    of the peak."""
    held = {tuple(row["epochs"]): row["loss"] for row in kept}
    step = {row["epochs"][-1]: row["step"] for row in kept}
    return figures.table(
        [
            {
                "epoch": str(n),
                "rate, of its peak": rate(step[n]),
                "alone": held[n,],
                "mean with an epoch before": f"{held[before, n]:.3f} (epoch {before})",
            }
            for before, n in pairs
        ],
        caption="Held-out loss, nats per subword",
    )


def answers_by_epoch(
    ends: Sequence[Mapping[str, Any]], seen: Mapping[str, bool], right: Callable[[str, str], bool]
) -> figures.Picture:
    """A grid of sentence and epoch: what a run answered after its first two epochs, half way and at
    the end.

    ends: the run's lines of epochs, whose `samples` map each sentence to its answer;
    right(sentence, answer)."""
    columns = sorted({1, 2, len(ends) // 2, len(ends)} - {0})
    last = ends[-1]["samples"]
    done = sum(right(english, answer) for english, answer in last.items())
    return figures.table(
        [
            {
                "English": english,
                "seen": bool(seen[english]),
                **{f"epoch {n}": ends[n - 1]["samples"][english] for n in columns},
                "right": right(english, ends[-1]["samples"][english]),
            }
            for english in last
        ],
        caption=f"After {len(ends)} epochs {done} of {len(last)} answers are right",
    )


def padded(sentences: Sequence[str], orders: Mapping[str, Sequence[int]]) -> figures.Picture:
    """Sentences of words and an end, two to a batch, in several orders: each batch a rectangle of
    its own width, words light, padding dark."""
    lengths = [len(text.split()) + 1 for text in sentences]
    batches = {
        name: [order[k : k + 2] for k in range(0, len(order), 2)] for name, order in orders.items()
    }
    told = []
    for name, pairs in batches.items():
        places = sum(len(pair) * max(lengths[i] for i in pair) for pair in pairs)
        told.append(
            f"{name.lower()}, {places - sum(lengths)} of {places} places"
            f" {'is' if places - sum(lengths) == 1 else 'are'} padding"
        )
    found = "; ".join(told)

    def draw(width: int) -> str:
        wide, label = width > figures.PHONE, 92
        room = (width - 24) / 2 if wide else width
        cell, below = (room - label - 4) / max(lengths), 24
        high = 26 + sum(len(pair) * 22 + below for pair in next(iter(batches.values()))) + 8
        drawing = figures.Drawing(width, high if wide else high * len(batches))
        for k, (name, pairs) in enumerate(batches.items()):
            left, y = ((room + 24) * k, 10.0) if wide else (0.0, 10.0 + high * k)
            drawing.text(left + label, y, name, 13, "start", weight="bold")
            y += 16
            for pair in pairs:
                across = max(lengths[i] for i in pair)
                for i in pair:
                    drawing.text(
                        left + label - 8,
                        y + 11,
                        " ".join(sentences[i].split()[:2]) + " …",
                        12,
                        "end",
                    )
                    for place in range(across):
                        drawing.box(
                            left + label + cell * place,
                            y + 1,
                            cell - 2,
                            20,
                            fill="#dddddd" if place < lengths[i] else "#555555",
                            color=figures.GREY,
                        )
                    y += 22
                drawing.text(
                    left + label,
                    y + 8,
                    f"{len(pair)} · {across} = {len(pair) * across} places",
                    12,
                    "start",
                )
                y += below
        return drawing.svg()

    return figures.Picture(
        figures.style.responsive(draw, figures.COLUMN),
        f"{len(sentences)} sentences as rows, words light, padding dark, two rows to a batch, each"
        f" batch as wide as its longer row: {found}.",
        f"{found[0].upper()}{found[1:]}.",
    )


def killed_and_resumed(killed: int, saved: Sequence[int], end: int) -> figures.Picture:
    """A run with checkpoints at `saved` that is killed, and goes on from the last of them to `end`;
    and the lines of its log."""
    last, every = saved[-1], saved[-1] - saved[-2]

    def draw(width: int) -> str:
        wide, left = width > figures.PHONE, 50
        unit = (width - left - 26) / end
        drawing = figures.Drawing(width, 190)

        def at(step: float) -> float:
            return left + unit * step

        for y, name, first, stop in ((40, "run", 0, killed), (100, "again", last, end)):
            drawing.text(left - 8, y, name, anchor="end").arrow(at(first), y, at(stop) + 16, y)
            for step in range(first + 1, stop + 1):
                drawing.line(at(step), y - 4, at(step), y + 4)
        drawing.text(at(killed) + 20, 40, "killed", anchor="start")
        for y, step in [(40, step) for step in saved] + [
            (100, step) for step in range(last + every, end + 1, every)
        ]:
            drawing.box(at(step) - 10, y - 10, 20, 20, str(step), size=11, fill="#dddddd")
        drawing.arrow(at(last), 52, at(last), 96, dash=True).text(
            at(last) + 8, 76, "resume", anchor="start"
        )
        drawing.text(left - 8, 150, "log", anchor="end")
        half = min(unit, 22) / 2
        for step in range(1, end + 1):
            drawing.box(
                at(step) - half,
                140,
                2 * half - 1,
                20,
                str(step) if wide else "",
                size=11,
                dash=last < step <= killed,
            )
            if not wide and step in (1, *saved, killed, end):
                drawing.text(at(step), 131, step, 11)
        drawing.text(
            (at(last + 1) + at(killed)) / 2, 178, f"{last + 1} to {killed}: cut, then written again"
        )
        return drawing.svg()

    return figures.Picture(
        figures.style.responsive(draw, figures.COLUMN),
        f"A run goes to step {killed} with checkpoints at {', '.join(map(str, saved))} and is"
        f" killed. It resumes at {last}; the log's lines {last + 1} to {killed} are cut and written"
        " again.",
        f"Killed at step {killed}, the run goes on from the checkpoint of step {last}:"
        f" {killed - last} lines of the log are written twice.",
    )


def falling_loss(losses: Sequence[float]) -> figures.Picture:
    "The training loss of each step, from step 1 on."
    last = len(losses)
    told = ", ".join(
        f"{losses[n - 1]:.2f} at step {n}" for n in sorted({1, last // 6, last // 2, last} - {0})
    )
    return figures.curves(
        {"training loss": (range(1, last + 1), losses)},
        xlabel="step",
        ylabel="nats per token",
        alt=f"The training loss by step: {told}.",
        caption=(
            f"In {last} steps the loss falls from {losses[0]:.2f} to {losses[-1]:.2f} nats per"
            " token."
        ),
    )


def losses_by_epoch(log: Sequence[Mapping[str, Any]]) -> figures.Picture:
    """A trainer's log: the mean training loss of each epoch, and the loss on new sentences
    (`valid`) after it."""
    ends = [line for line in log if line["kind"] == "epoch"]
    epochs, valid = [line["epoch"] for line in ends], [line["valid"] for line in ends]
    means = [
        np.mean([line["loss"] for line in log if line["kind"] == "step" and line["epoch"] == n - 1])
        for n in epochs
    ]
    return figures.curves(
        {"training, smoothed labels": (epochs, means), "new sentences": (epochs, valid)},
        xlabel="epoch",
        ylabel="nats per token",
        alt=(
            f"Training loss, a mean per epoch, from {means[0]:.2f} to {means[-1]:.2f}; the loss on"
            " new sentences, every fourth: "
        )
        + ", ".join(f"{x:.2f}" for x in valid[3::4])
        + ".",
        caption=(
            f"In {len(ends)} epochs the loss on new sentences falls from {valid[0]:.2f} to"
            f" {valid[-1]:.2f} nats per token."
        ),
    )


def losses_apart(gaps: Mapping[str, Sequence[float]]) -> figures.Picture:
    """Of runs whose checkpoint has forgotten something, how far each loss is from that of the
    uninterrupted run."""
    steps = max(map(len, gaps.values()))
    return figures.curves(
        {what: (range(1, len(gap) + 1), gap) for what, gap in gaps.items()},
        xlabel="step",
        ylabel="difference of the loss",
        alt=(
            f"{len(gaps)} runs whose checkpoints forget {in_a_row(list(gaps))}, each against the"
            f" uninterrupted one, over {steps} steps."
        ),
        caption="How far a loss gets from that of the uninterrupted run: "
        + ", ".join(
            (
                f"{max(gap):.3f} nats if the checkpoint forgets {what}"
                if n == 0
                else f"{max(gap):.3f} for {what}"
            )
            for n, (what, gap) in enumerate(gaps.items())
        )
        + ".",
    )


def range_by_epoch(
    runs: Mapping[str, Sequence[Sequence[float]]], dashed: str | None = None
) -> figures.Picture:
    """Validation losses, {kind: a list of losses by epoch per seed}: the median of the seeds and
    their range."""
    bands = {
        kind: (np.median(seeds, 0), np.min(seeds, 0), np.max(seeds, 0))
        for kind, seeds in runs.items()
    }
    seeds, epochs = np.shape(next(iter(runs.values())))
    return figures.curves(
        {kind: (range(1, epochs + 1), *band) for kind, band in bands.items()},
        xlabel="epoch",
        ylabel="validation loss, nats per token",
        styles={dashed: "--"} if dashed else None,
        alt=f"Validation loss by epoch, median and range of {seeds} seeds: {in_a_row(list(runs))}.",
        caption=(
            f"After {epochs} epochs the median loss is"
            f" {in_a_row([f'{b[0][-1]:.2f} in {kind}' for kind, b in bands.items()])}. The bands"
            f" reach from the lowest to the highest of {seeds} seeds."
        ),
    )


def words_kept(
    whole: Sequence[tuple[int, float]], cut: Sequence[tuple[int, float]]
) -> figures.Picture:
    """What is left of single translations when 1, 2, 3 … sentences are asked for as one text,
    (tokens, share): whole, and cut at their ends."""
    return figures.curves(
        {"whole": tuple(zip(*whole)), "cut": tuple(zip(*cut))},
        xlabel="source tokens",
        ylabel="share of words kept",
        colors={"whole": figures.FAULT, "cut": figures.INK},
        styles={"whole": "--"},
        alt=(
            "Share of the words of the single translations that remain when the sentences are"
            f" asked for as one text: {whole[-1][1]:.0%} of {whole[-1][0]} tokens whole,"
            f" {cut[-1][1]:.0%} cut at sentence ends."
        ),
        caption=(
            f"With {len(whole)} sentences in one text, {cut[-1][1]:.0%} of the words are kept if it"
            f" is cut at sentence ends, and {whole[-1][1]:.0%} if it is translated whole."
        ),
    )
