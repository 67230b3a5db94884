"""Chapter 12: how batches are padded, and a run that is killed."""

from collections.abc import Mapping, Sequence

from litbook import figures


def padded(sentences: Sequence[str], orders: Mapping[str, Sequence[int]]) -> figures.Picture:
    """Sentences of words and an end, two to a batch, in several orders: each batch a rectangle of
    its own width, words light, padding dark."""
    lengths = [len(text.split()) + 1 for text in sentences]
    batches = {
        name: [(order[k : k + 2], max(lengths[i] for i in order[k : k + 2])) for k in (0, 2)]
        for name, order in orders.items()
    }
    counts = []
    for name, pairs in batches.items():
        places = sum(2 * across for _, across in pairs)
        padding = places - sum(lengths)
        verb = "is" if padding == 1 else "are"
        counts.append(f"{name.lower()}, {padding} of {places} places {verb} padding")
    told = "; ".join(counts)

    def draw(width: int) -> str:
        wide, label = width > figures.PHONE, 92
        room, high = (width - 24) / 2 if wide else width, 170
        cell = (room - label - 4) / max(lengths)
        drawing = figures.Drawing(width, high if wide else 2 * high)
        for k, (name, pairs) in enumerate(batches.items()):
            left, y = ((room + 24) * k + label, 10) if wide else (label, 10 + high * k)
            drawing.text(left, y, name, 13, "start", weight="bold")
            for pair, across in pairs:
                for i in pair:
                    y += 22
                    words = " ".join(sentences[i].split()[:2])
                    drawing.text(left - 8, y + 5, f"{words} …", 12, "end")
                    for place in range(across):
                        fill = "#dddddd" if place < lengths[i] else "#555555"
                        x = left + cell * place
                        drawing.box(x, y - 5, cell - 2, 20, fill=fill, color=figures.GREY)
                y += 24
                drawing.text(left, y, f"2 · {across} = {2 * across} places", 12, "start")
        return drawing.svg()

    return figures.sketch(
        draw,
        f"{len(sentences)} sentences as rows, words light, padding dark, two rows to a batch, each"
        f" batch as wide as its longer row: {told}.",
        f"{told[0].upper()}{told[1:]}.",
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

    return figures.sketch(
        draw,
        f"A run goes to step {killed} with checkpoints at {', '.join(map(str, saved))} and is"
        f" killed. It resumes at {last}; the log's lines {last + 1} to {killed} are cut and written"
        " again.",
        f"Killed at step {killed}, the run goes on from the checkpoint of step {last}:"
        f" {killed - last} lines of the log are written twice.",
    )
