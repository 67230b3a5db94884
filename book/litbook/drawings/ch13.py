"""Chapter 13: two words deep, the steps of a beam, and what a cache saves."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from litbook import figures


def word_tree(tree: Mapping[str, Mapping[str, float]], said: str) -> figures.Picture:
    """Two words after `said`, with their probabilities.

    `tree[""]` holds the first words, `tree[word]` what may follow each. The likeliest pair is drawn
    strongly, and the product of both probabilities stands at its end."""
    whole = {(word, end): p * q for word, p in tree[""].items() for end, q in tree[word].items()}
    best = max(whole, key=whole.__getitem__)

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        size, first, then, at, product = (
            (13, (180, 92), (378, 116), 558, 650) if wide else (11, (106, 34), (164, 66), 261, 318)
        )
        drawing, top = figures.Drawing(704 if wide else 344, 40 + 42 * len(whole)), 24.0
        start, stem = drawing.height / 2 - 7, 92 if wide else 64
        drawing.text(at, 10, "probability", size=size).text(product, 10, "product", size=size).box(
            2, start, stem, 30, said, size=size
        )
        for word, p in tree[""].items():
            middle = top + 21 * len(tree[word]) - 6
            how = (None, 2.4) if word == best[0] else (figures.GREY, 1.3)
            drawing.arrow(stem + 2, start + 15, first[0] - 2, middle, how[0], width=how[1]).box(
                first[0], middle - 15, first[1], 30, word, color=how[0], size=size
            )
            drawing.text(
                (stem + first[0]) / 2 - 5,
                middle + (10 if middle > start + 15 else -6),
                f"{p:.2f}",
                size=size,
            )
            for end, q in tree[word].items():
                how, bold = (
                    ((None, 2.4), "bold") if (word, end) == best else ((figures.GREY, 1.3), None)
                )
                drawing.arrow(sum(first), middle, then[0] - 2, top + 15, how[0], width=how[1])
                drawing.box(then[0], top, then[1], 30, end, color=how[0], size=size).text(
                    at, top + 15, f"{q:.2f}", size=size
                )
                drawing.text(product, top + 15, f"{whole[word, end]:.4f}", size=size, weight=bold)
                top += 42
            top += 8
        return drawing.svg()

    first = max(tree[""], key=tree[""].__getitem__)
    below = max(p for (word, _), p in whole.items() if word == first)
    return figures.Picture(
        figures.style.responsive(draw, figures.COLUMN),
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
        drawing, left = figures.Drawing(width, 46 + 22 * len(order)), 82
        unit = (width - left - 8) / most
        for i, name in enumerate(order):
            drawing.text(left - 6, 13 + 22 * i, name, 12, "end").box(
                left, 4 + 22 * i, unit * lengths[name], 18, fill=figures.SLATE, color=figures.SLATE
            )
            if lengths[name] < most:
                drawing.box(
                    left + unit * lengths[name],
                    4 + 22 * i,
                    unit * (most - lengths[name]),
                    18,
                    color=figures.GREY,
                    dash=True,
                )
        for step in range(1, most + 1):
            drawing.text(left + unit * (step - 0.5), 14 + 22 * len(order), step, 11)
        drawing.text(left + unit * most / 2, 34 + 22 * len(order), "step", 12)
        return drawing.svg()

    told, steps = ", ".join(f"{name} {lengths[name]} steps" for name in order), sum(
        lengths.values()
    )
    return figures.Picture(
        figures.style.responsive(draw, figures.COLUMN),
        f"Bars for the steps that each sentence stays in the batch: {told}. Dashed: work that is"
        " saved.",
        f"Of {most * len(order)} rows, {len(order)} in each of {most} steps, {steps} are computed;"
        " the dashed ones are saved.",
    )


def cached_rows(steps: int = 4) -> figures.Picture:
    "The scores computed at the last of some steps, without and with a cache."

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        cell = 40 if wide else 28
        high = 88 + cell * steps
        drawing = figures.Drawing(width, high if wide else 2 * high)
        for i, (cached, title, note) in enumerate(
            (
                (False, f"without a cache, step {steps}", f"{steps} rows computed"),
                (True, f"with a cache, step {steps}", f"1 row computed, k1 to k{steps - 1} kept"),
            )
        ):
            middle, top = (width * (1 + 2 * i) / 4, 0) if wide else (width / 2, high * i)
            x = middle - cell * steps / 2
            drawing.text(middle, top + 16, title, size=13)
            for row in range(steps):
                for col in range(steps):
                    empty = col > row or (cached and row < steps - 1)
                    colour = figures.DECODER if row == steps - 1 else figures.GREY
                    drawing.box(
                        x + cell * col,
                        top + 36 + cell * row,
                        cell - 2,
                        cell - 2,
                        fill="none" if empty else colour,
                        color=figures.GREY if empty else None,
                        dash=empty,
                    )
                drawing.text(x - 18, top + 35 + cell * (row + 0.5), f"q{row + 1}", size=12)
                drawing.text(
                    x + cell * (row + 0.5) - 1, top + 46 + cell * steps, f"k{row + 1}", size=12
                )
            drawing.text(middle, top + 68 + cell * steps, note, size=12)
        return drawing.svg()

    without = steps * (steps + 1) // 2
    return figures.Picture(
        figures.style.responsive(draw, figures.COLUMN),
        f"Two triangles of attention scores, {steps} by {steps}. Without a cache all {steps} rows"
        f" are filled at step {steps}; with it only the last row, and {steps - 1} of the {steps}"
        " keys come from before.",
        f"At step {steps} the cache leaves {steps} of {without} scores to compute: the new word's"
        " row.",
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
    steps: Sequence[Sequence[tuple[float, int, str]]],
    beam_size: int,
    length_penalty: float,
    end: str,
) -> list[list[Node]]:
    """The candidates of each step, best first, each with its fate: the best `beam_size` that
    haven't said `end` go on."""
    found: list[list[Node]] = []
    open_: list[Node] = []
    for t, candidates in enumerate(steps):
        left, column = 0, []
        for rank, (log_p, beam, word) in enumerate(candidates):
            going = word != end and left < beam_size
            left += going
            fate = (
                "done"
                if word == end and rank < beam_size
                else "open" if going and t < len(steps) - 1 else "cut"
            )
            column.append(
                Node(
                    t,
                    rank,
                    open_[beam] if t else None,
                    word,
                    log_p,
                    fate,
                    log_p / ((6 + t) / 6) ** length_penalty,
                )
            )
        open_ = [node for node in column if node.word != end][:beam_size]
        found.append(column)
    return found


def beam_tree(
    steps: Sequence[Sequence[tuple[float, int, str]]],
    beam_size: int,
    length_penalty: float = 0.6,
    end: str = "EOS",
) -> figures.Picture:
    """A beam search as a tree, one row for each step: kept solid, dropped dashed and pale, finished
    in a double box with its penalised score.

    steps: of each step the candidates, best first, as (log-probability so far, beam of the step
    before, word)."""
    nodes = beam_nodes(steps, beam_size, length_penalty, end)
    done = sorted(
        (node for column in nodes for node in column if node.fate == "done"),
        key=lambda node: -node.score,
    )
    path: list[Node] = []
    at = done[0] if done else None
    while at is not None:
        path.insert(0, at)
        at = at.parent
    most = max(map(len, nodes))

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        left, row, high, gap = (58, 52, 30, 16) if wide else (22, 60, 32, 8)
        pitch = (width - left - 4) / most
        drawing, w = figures.Drawing(width, row * len(nodes)), pitch - gap

        def corner(node: Node) -> tuple[float, float]:
            return left + pitch * node.rank, 6 + row * node.step

        for t in range(len(nodes)):
            drawing.text(
                0 if wide else 9,
                corner(nodes[t][0])[1] + high / 2,
                f"step {t + 1}" if wide else t + 1,
                13 if wide else 12,
                "start" if wide else "middle",
            )
        for node in (
            node for column in nodes for node in column
        ):  # lines first: boxes stand on them
            if node.parent is not None:
                (x1, y1), (x2, y2) = corner(node.parent), corner(node)
                drawing.line(
                    x1 + w / 2,
                    y1 + high,
                    x2 + w / 2,
                    y2,
                    figures.GREY if node.fate == "cut" else None,
                    node.fate == "cut",
                    2.6 if node in path else 1.3,
                )
        for node in (node for column in nodes for node in column):
            x, y = corner(node)
            cut, last = node.fate == "cut", len(drawing.parts)
            drawing.box(
                x,
                y,
                w,
                high,
                "",
                "#dddddd" if node in path else "none",
                figures.GREY if cut else None,
                cut,
            )
            ink = "#111111" if node in path else None
            if wide:  # all in a row: the word, its sum, the score
                word, total = (0.16, 0.46) if node.fate == "done" else (0.34, 0.76)
                drawing.text(x + word * w, y + 15, node.word, 14.5, color=ink).text(
                    x + total * w, y + 15, minus(node.log_p), 12.5, color=ink
                )
            else:
                drawing.text(
                    x + w / 2,
                    y + 10,
                    node.word,
                    max(9, min(11.5, 1.6 * w / max(len(node.word), 1))),
                    color=ink,
                ).text(x + w / 2, y + 24, minus(node.log_p), 10, color=ink)
            if node.fate == "done":
                drawing.box(x - 3, y - 3, w + 6, high + 6)
                drawing.text(
                    x + (0.8 if wide else 0.5) * w,
                    y + (15 if wide else 44),
                    minus(node.score),
                    13 if wide else 12,
                    color=ink if wide else None,
                    weight="bold",
                )
            if cut:  # pale words, but still at 4.5 to the page
                drawing.parts[last:] = [
                    part.replace("<text ", '<text opacity="0.7" ') for part in drawing.parts[last:]
                ]
        return drawing.svg()

    told = "; ".join(f"'{ended(node)}' with {minus(node.score)}" for node in done)
    behind = next((node for node in path if node.rank and node.fate == "open"), None)
    ahead = nodes[behind.step][0].word if behind else ""
    return figures.Picture(
        figures.style.responsive(draw, figures.COLUMN),
        f"A tree of {len(nodes)} steps with up to {most} candidates each, {beam_size} of which go"
        f" on. Finished, with their penalised scores: {told or 'none'}.",
        (
            f"At step {behind.step + 1} '{behind.word}' is behind '{ahead}'. The beam keeps both,"
            f" and '{ended(path[-1])}' wins with {minus(path[-1].score)}."
            if behind
            else (
                f"{len(done)} of the beginnings finished; the best of them was ahead at every step."
            )
        ),
    )


def minus(number: float) -> str:
    "Two decimals, and a minus sign instead of a hyphen."
    return f"{number:.2f}".replace("-", "−")


def ended(node: Node) -> str:
    "The last two words of a finished hypothesis, without its end and without signs."
    words: list[str] = []
    at = node.parent
    while at is not None and len(words) < 2:
        words[:0] = [at.word] if any(map(str.isalnum, at.word)) else []
        at = at.parent
    return " ".join(words)
