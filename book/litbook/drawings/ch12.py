"""Chapter 12: how batches are padded, and a run that is killed."""

from collections.abc import Mapping, Sequence

from litbook import figures


def padded(sentences: Sequence[str], orders: Mapping[str, Sequence[int]]) -> figures.Picture:
    """Sentences of words and an end, two to a batch, in several orders: each batch a rectangle of
    its own width, words light, padding dark."""
    lengths = [len(text.split()) + 1 for text in sentences]
    cell, sheets, counts = 248 / max(lengths), [], []
    for name, order in orders.items():
        sheet, y, places = figures.Drawing(344, 170), 10, 0
        sheet.text(92, y, name, 13, "start", weight="bold")
        for pair in (order[:2], order[2:]):
            across = max(lengths[i] for i in pair)
            places += 2 * across
            for i in pair:
                y += 22
                words = " ".join(sentences[i].split()[:2])
                sheet.text(84, y + 5, f"{words} …", 12, "end")
                for place in range(across):
                    fill = "#dddddd" if place < lengths[i] else "#555555"
                    sheet.box(92 + cell * place, y - 5, cell - 2, 20, "", fill, figures.GREY)
            y += 24
            sheet.text(92, y, f"2 · {across} = {2 * across} places", 12, "start")
        sheets.append(sheet)
        padding = places - sum(lengths)
        verb = "is" if padding == 1 else "are"
        counts.append(f"{name.lower()}, {padding} of {places} places {verb} padding")
    told = "; ".join(counts)
    return figures.side_by_side(
        sheets,
        f"{len(sentences)} sentences as rows, words light, padding dark, two rows to a batch, each"
        f" batch as wide as its longer row: {told}.",
        f"{told[0].upper()}{told[1:]}.",
    )


def killed_and_resumed(killed: int, saved: Sequence[int], end: int) -> figures.Picture:
    """A run with checkpoints at `saved` that is killed, and goes on from the last of them to `end`;
    and the lines of its log."""
    last, every, unit = saved[-1], saved[-1] - saved[-2], 268 / end
    sheet, places = figures.Drawing(344, 190), [50 + unit * step for step in range(end + 1)]
    for y, name, first, stop, marks in (
        (40, "run", 0, killed, saved),
        (100, "again", last, end, range(last + every, end + 1, every)),
    ):
        sheet.text(42, y, name, anchor="end").arrow(places[first], y, places[stop] + 16, y)
        for x in places[first + 1 : stop + 1]:
            sheet.line(x, y - 4, x, y + 4)
        for step in marks:
            sheet.box(places[step] - 10, y - 10, 20, 20, str(step), "#dddddd", size=11)
    sheet.text(places[killed] + 20, 40, "killed", anchor="start")
    sheet.arrow(places[last], 52, places[last], 96, dash=True)
    sheet.text(places[last] + 8, 76, "resume", anchor="start").text(42, 150, "log", anchor="end")
    for step, x in enumerate(places[1:], 1):
        again = last < step <= killed
        sheet.box(x - unit / 2, 140, unit - 1, 20, str(step), dash=again, size=8.5)
    middle = (places[last + 1] + places[killed]) / 2
    sheet.text(middle, 178, f"{last + 1} to {killed}: cut, then written again")
    return sheet.show(
        f"A run goes to step {killed} with checkpoints at {', '.join(map(str, saved))} and is"
        f" killed. It resumes at {last}; the log's lines {last + 1} to {killed} are cut and written"
        " again.",
        f"Killed at step {killed}, the run goes on from the checkpoint of step {last}:"
        f" {killed - last} lines of the log are written twice.",
    )
