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

    def stroke(strong: bool) -> dict:
        return {"width": 2.4} if strong else {"color": figures.GREY}

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        size, first, then, at, product = (
            (13, (180, 92), (378, 116), 558, 650) if wide else (11, (106, 34), (164, 66), 261, 318)
        )
        drawing, top = figures.Drawing(704 if wide else 344, 40 + 42 * len(whole)), 24.0
        start, stem = drawing.height / 2 - 7, 92 if wide else 64
        drawing.text(at, 10, "probability", size).text(product, 10, "product", size)
        drawing.box(2, start, stem, 30, said, size=size)
        for word, p in tree[""].items():
            middle = top + 21 * len(tree[word]) - 6
            ink = None if word == best[0] else figures.GREY
            above = 10 if middle > start + 15 else -6
            drawing.arrow(
                stem + 2, start + 15, first[0] - 2, middle, **stroke(word == best[0])
            ).box(first[0], middle - 15, first[1], 30, word, color=ink, size=size)
            drawing.text((stem + first[0]) / 2 - 5, middle + above, f"{p:.2f}", size)
            for end, q in tree[word].items():
                strong = (word, end) == best
                ink = None if strong else figures.GREY
                drawing.arrow(sum(first), middle, then[0] - 2, top + 15, **stroke(strong))
                drawing.box(then[0], top, then[1], 30, end, color=ink, size=size)
                drawing.text(at, top + 15, f"{q:.2f}", size).text(
                    product, top + 15, f"{whole[word, end]:.4f}", size,
                    weight="bold" if strong else None,
                )
                top += 42
            top += 8
        return drawing.svg()

    first = max(tree[""], key=tree[""].__getitem__)
    below = max(p for (word, _), p in whole.items() if word == first)
    return figures.sketch(
        draw,
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

    def draw(width: int) -> str:
        drawing, left, below = figures.Drawing(width, 46 + 22 * len(order)), 82, 22 * len(order)
        unit = (width - left - 8) / most
        for i, name in enumerate(order):
            steps, y = lengths[name], 4 + 22 * i
            drawing.text(left - 6, y + 9, name, 12, "end")
            drawing.box(left, y, unit * steps, 18, fill=figures.SLATE, color=figures.SLATE)
            if steps < most:
                rest = unit * (most - steps)
                drawing.box(left + unit * steps, y, rest, 18, color=figures.GREY, dash=True)
        for step in range(most):
            drawing.text(left + unit * (step + 0.5), 14 + below, step + 1, 11)
        return drawing.text(left + unit * most / 2, 34 + below, "step", 12).svg()

    told = ", ".join(f"{name} {lengths[name]} steps" for name in order)
    return figures.sketch(
        draw,
        f"Bars for the steps that each sentence stays in the batch: {told}. Dashed: work that is"
        " saved.",
        f"Of {most * len(order)} rows, {len(order)} in each of {most} steps,"
        f" {sum(lengths.values())} are computed; the dashed ones are saved.",
    )


def cached_rows(steps: int = 4) -> figures.Picture:
    "The scores computed at the last of some steps, without and with a cache."
    panels = (
        ("without a cache", f"{steps} rows computed"),
        ("with a cache", f"1 row computed, k1 to k{steps - 1} kept"),
    )

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        cell = 40 if wide else 28
        side, high = cell * steps, 88 + cell * steps
        drawing = figures.Drawing(width, high if wide else 2 * high)
        for cached, (title, note) in enumerate(panels):
            middle = width * (1 + 2 * cached) / 4 if wide else width / 2
            x, top = middle - side / 2, 0 if wide else high * cached
            drawing.text(middle, top + 16, f"{title}, step {steps}", 13)
            for row in range(steps):
                last = row == steps - 1
                for col in range(steps):
                    empty = col > row or (cached and not last)
                    colour = figures.DECODER if last else figures.GREY
                    drawing.box(
                        x + cell * col,
                        top + 36 + cell * row,
                        cell - 2,
                        cell - 2,
                        fill="none" if empty else colour,
                        color=figures.GREY if empty else None,
                        dash=empty,
                    )
                at = cell * (row + 0.5)
                drawing.text(x - 18, top + 35 + at, f"q{row + 1}")
                drawing.text(x + at - 1, top + 46 + side, f"k{row + 1}")
            drawing.text(middle, top + 68 + side, note)
        return drawing.svg()

    return figures.sketch(
        draw,
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
            fate = "cut"
            if word == end:
                fate = "done" if rank < beam_size else "cut"
            else:
                alive += 1
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
    path = ancestry(done[0]) if done else []
    most = max(map(len, rows))

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        left, row, high, gap = (58, 52, 30, 16) if wide else (22, 60, 32, 8)
        pitch = (width - left - 4) / most
        drawing, w = figures.Drawing(width, row * len(rows)), pitch - gap

        def corner(node: Node) -> tuple[float, float]:
            return left + pitch * node.rank, 6 + row * node.step

        for t in range(len(rows)):
            y = 6 + row * t + high / 2
            if wide:
                drawing.text(0, y, f"step {t + 1}", 13, "start")
            else:
                drawing.text(9, y, t + 1, 12)
        for node in nodes:  # lines first: boxes stand on them
            if node.parent:
                (x1, y1), (x2, y2), cut = corner(node.parent), corner(node), node.fate == "cut"
                ends = x1 + w / 2, y1 + high, x2 + w / 2, y2
                drawing.line(
                    *ends, figures.GREY if cut else None, cut, 2.6 if node in path else 1.3
                )
        for node in nodes:
            (x, y), cut, begun = corner(node), node.fate == "cut", len(drawing.parts)
            fill, ink = ("#dddddd", "#111111") if node in path else ("none", None)
            drawing.box(x, y, w, high, "", fill, figures.GREY if cut else None, cut)
            if wide:  # all in a row: the word, its sum, the score
                at, total = (0.16, 0.46) if node.fate == "done" else (0.34, 0.76)
                drawing.text(x + at * w, y + 15, node.word, 14.5, color=ink)
                drawing.text(x + total * w, y + 15, minus(node.log_p), 12.5, color=ink)
            else:
                size = max(9, min(11.5, 1.6 * w / max(len(node.word), 1)))
                drawing.text(x + w / 2, y + 10, node.word, size, color=ink)
                drawing.text(x + w / 2, y + 24, minus(node.log_p), 10, color=ink)
            if node.fate == "done":
                drawing.box(x - 3, y - 3, w + 6, high + 6)
                at, down, size, ink = (0.8, 15, 13, ink) if wide else (0.5, 44, 12, None)
                score = minus(node.score)
                drawing.text(x + at * w, y + down, score, size, color=ink, weight="bold")
            if cut:  # pale words, but still at 4.5 to the page
                drawing.parts[begun:] = [
                    part.replace("<text ", '<text opacity="0.7" ') for part in drawing.parts[begun:]
                ]
        return drawing.svg()

    told = "; ".join(f"'{ended(node)}' with {minus(node.score)}" for node in done)
    caption = f"{len(done)} of the beginnings finished; the best of them was ahead at every step."
    behind = next((node for node in path if node.rank and node.fate == "open"), None)
    if behind:
        caption = (
            f"At step {behind.step + 1} '{behind.word}' is behind '{rows[behind.step][0].word}'."
            f" The beam keeps both, and '{ended(path[-1])}' wins with {minus(path[-1].score)}."
        )
    return figures.sketch(
        draw,
        f"A tree of {len(rows)} steps with up to {most} candidates each, {beam_size} of which go"
        f" on. Finished, with their penalised scores: {told or 'none'}.",
        caption,
    )


def ancestry(node: Node | None) -> list[Node]:
    "A candidate and all that it continues, the first first."
    return [*ancestry(node.parent), node] if node else []


def minus(number: float) -> str:
    "Two decimals, and a minus sign instead of a hyphen."
    return f"{number:.2f}".replace("-", "−")


def ended(node: Node) -> str:
    "The last two words of a finished hypothesis, without its end and without signs."
    words = [one.word for one in ancestry(node.parent) if any(map(str.isalnum, one.word))]
    return " ".join(words[-2:])
