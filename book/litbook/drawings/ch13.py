"""Chapter 13: two words deep, the steps of a beam, and what a cache saves."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from litbook import figures

Candidate = tuple[float, int, str]  # log-probability so far, beam of the step before, word


def word_tree(tree: Mapping[str, Mapping[str, float]], said: str) -> figures.Picture:
    """Two words after `said`, with their probabilities.

    `tree[""]` holds the first words, `tree[word]` what may follow each. The likeliest pair is drawn
    strongly, and the product of both probabilities stands at its end."""
    whole = {(word, end): p * q for word, p in tree[""].items() for end, q in tree[word].items()}
    best = max(whole, key=whole.__getitem__)
    sheet, top = figures.Drawing(344, 40 + 42 * len(whole)), 24.0
    start = sheet.height / 2 + 8
    sheet.text(261, 10, "probability", 11).text(318, 10, "product", 11)
    sheet.box(2, start - 15, 62, 30, said, size=11)
    for word, p in tree[""].items():
        middle, ink = top + 21 * len(tree[word]) - 6, None if word == best[0] else figures.GREY
        sheet.arrow(66, start, 104, middle, ink, width=1.3 if ink else 2.4)
        sheet.box(106, middle - 15, 34, 30, word, color=ink, size=11)
        sheet.text(80, middle + (10 if middle > start else -6), f"{p:.2f}", 11)
        for end, q in tree[word].items():
            ink = None if (word, end) == best else figures.GREY
            sheet.arrow(140, middle, 162, top + 15, ink, width=1.3 if ink else 2.4)
            sheet.box(164, top, 66, 30, end, color=ink, size=11)
            weight, product = "normal" if ink else "bold", f"{whole[word, end]:.4f}"
            sheet.text(261, top + 15, f"{q:.2f}", 11)
            sheet.text(318, top + 15, product, 11, weight=weight)
            top += 42
        top += 8
    first = max(tree[""], key=tree[""].__getitem__)
    below = max(p for (word, _), p in whole.items() if word == first)
    return sheet.show(
        f"A tree of two words. '{first}' begins with {tree[''][first]:.2f}, and with no second word"
        f" is the product above {below:.4f}; '{best[0]}' with {tree[''][best[0]]:.2f} and then"
        f" '{best[1]}' make {whole[best]:.4f}, the strong line.",
        f"The likelier first word is '{first}', with {tree[''][first]:.2f}; the likeliest sentence"
        f" is '{' '.join(best)}', {whole[best]:.3f} against {below:.3f}.",
    )


def staying(lengths: Mapping[str, int]) -> figures.Picture:
    """How many steps each sentence stays in a batch: a bar from the first step to its last, the
    longest on top."""
    order, most = sorted(lengths, key=lambda name: -lengths[name]), max(lengths.values())
    sheet, unit, foot = figures.Drawing(344, 46 + 22 * len(order)), 254 / most, 22 * len(order)
    for i, name in enumerate(order):
        stay, y = unit * lengths[name], 4 + 22 * i
        sheet.text(76, y + 9, name, 12, "end")
        sheet.box(82, y, stay, 18, fill=figures.SLATE, color=figures.SLATE)
        if lengths[name] < most:
            sheet.box(82 + stay, y, 254 - stay, 18, color=figures.GREY, dash=True)
    for step in range(most):
        sheet.text(82 + unit * (step + 0.5), 14 + foot, step + 1, 11)
    sheet.text(209, 34 + foot, "step")
    told = ", ".join(f"{name} {lengths[name]} steps" for name in order)
    return sheet.show(
        f"Bars for the steps that each sentence stays in the batch: {told}. Dashed: work that is"
        " saved.",
        f"Of {most * len(order)} rows, {len(order)} in each of {most} steps,"
        f" {sum(lengths.values())} are computed; the dashed ones are saved.",
    )


def cached_rows(steps: int = 4) -> figures.Picture:
    "The scores computed at the last of some steps, without and with a cache."
    side = 28 * steps
    sheet = figures.Drawing(344, 88 + side)
    for middle, title, note in (
        (84, "without a cache", f"{steps} rows computed"),
        (256, "with a cache", f"1 row computed, k1 to k{steps - 1} kept"),
    ):
        x = middle - side / 2
        sheet.text(middle, 16, f"{title}, step {steps}").text(middle, 68 + side, note, 11)
        for row in range(steps):
            last, at = row == steps - 1, 28 * row + 14
            for col in range(steps):
                empty = col > row or (title == "with a cache" and not last)
                fill = "none" if empty else figures.DECODER if last else figures.GREY
                corner, color = (x + 28 * col, 36 + 28 * row), figures.GREY if empty else None
                sheet.box(*corner, 26, 26, "", fill, color, dash=empty)
            sheet.text(x - 16, 35 + at, f"q{row + 1}").text(x + at - 1, 46 + side, f"k{row + 1}")
    return sheet.show(
        f"Two triangles of attention scores, {steps} by {steps}. Without a cache all {steps} rows"
        f" are filled at step {steps}; with it only the last row, and {steps - 1} of the {steps}"
        " keys come from before.",
        f"At step {steps} the cache leaves {steps} of {steps * (steps + 1) // 2} scores to compute:"
        " the new word's row.",
    )


class Node(NamedTuple):
    """A candidate of a beam search: where it stands, whom it continues, what became of it, and its
    penalised score once it has finished."""

    step: int
    rank: int
    parent: "Node | None"
    word: str
    log_p: float
    fate: str  # "open", "cut" or "done"
    score: float


def beam_nodes(
    steps: Sequence[Sequence[Candidate]], beam_size: int, length_penalty: float, end: str
) -> list[list[Node]]:
    """The candidates of each step, best first, each with its fate: the best `beam_size` that
    haven't said `end` go on."""
    nodes: list[list[Node]] = []
    going: list[Node] = []
    for t, candidates in enumerate(steps):
        column, alive = [], 0
        for rank, (log_p, beam, word) in enumerate(candidates):
            alive += word != end
            if word == end:
                fate = "done" if rank < beam_size else "cut"
            else:
                fate = "open" if alive <= beam_size and t < len(steps) - 1 else "cut"
            score = log_p / ((6 + t) / 6) ** length_penalty
            column.append(Node(t, rank, going[beam] if t else None, word, log_p, fate, score))
        going = [node for node in column if node.word != end][:beam_size]
        nodes.append(column)
    return nodes


def beam_tree(
    steps: Sequence[Sequence[Candidate]],
    beam_size: int,
    length_penalty: float = 0.6,
    end: str = "EOS",
) -> figures.Picture:
    """A beam search as a tree, one row for each step: kept solid, dropped dashed and pale, finished
    in a double box with its penalised score. steps: of each step the candidates, best first."""
    rows = beam_nodes(steps, beam_size, length_penalty, end)
    nodes = [node for row in rows for node in row]
    done = sorted((node for node in nodes if node.fate == "done"), key=lambda node: -node.score)
    path, most = ancestry(done[0]) if done else [], max(map(len, rows))
    pitch = 298 / most
    sheet, w = figures.Drawing(344, 60 * len(rows)), pitch - 8
    for t in range(len(rows)):
        sheet.text(0, 22 + 60 * t, f"step {t + 1}", 11, "start")
    for node in nodes:  # lines first: boxes stand on them
        if node.parent:
            start, stop = (42 + pitch * n.rank + w / 2 for n in (node.parent, node))
            y, cut, thick = 60 * node.step, node.fate == "cut", 2.6 if node in path else 1.3
            sheet.line(start, y - 22, stop, y + 6, figures.GREY if cut else None, cut, thick)
    for node in nodes:
        x, y, cut = 42 + pitch * node.rank, 6 + 60 * node.step, node.fate == "cut"
        fill, ink = ("#dddddd", "#111111") if node in path else ("none", None)
        sheet.box(x, y, w, 32, "", fill, figures.GREY if cut else None, cut)
        size = max(9, min(11.5, 1.6 * w / max(len(node.word), 1)))
        pale = 0.7 if cut else 1  # still at 4.5 to the page
        sheet.text(x + w / 2, y + 10, node.word, size, color=ink, opacity=pale)
        sheet.text(x + w / 2, y + 24, f"{node.log_p:.2f}", 10, color=ink, opacity=pale)
        if node.fate == "done":
            sheet.box(x - 3, y - 3, w + 6, 38)
            sheet.text(x + w / 2, y + 44, f"{node.score:.2f}", weight="bold")
    told = "; ".join(f"'{ended(node)}' with {node.score:.2f}" for node in done)
    caption = f"{len(done)} of the beginnings finished; the best of them was ahead at every step."
    behind = next((node for node in path if node.rank and node.fate == "open"), None)
    if behind:
        caption = (
            f"At step {behind.step + 1} '{behind.word}' is behind '{rows[behind.step][0].word}'."
            f" The beam keeps both, and '{ended(path[-1])}' wins with {path[-1].score:.2f}."
        )
    return sheet.show(
        f"A tree of {len(rows)} steps with up to {most} candidates each, {beam_size} of which go"
        f" on. Finished, with their penalised scores: {told or 'none'}.",
        caption,
    )


def ancestry(node: Node | None) -> list[Node]:
    "A candidate and all that it continues, the first first."
    return [*ancestry(node.parent), node] if node else []


def ended(node: Node) -> str:
    "The last two words of a finished hypothesis, without its end and without signs."
    words = [n.word for n in ancestry(node.parent) if any(map(str.isalnum, n.word))]
    return " ".join(words[-2:])
