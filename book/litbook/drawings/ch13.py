"""Chapter 13: two words deep, how long sentences stay, and the steps of a beam."""

from collections.abc import Mapping, Sequence

from litbook import figures
from litbook.live.looks import followed

ALPHA = 0.6  # of the length penalty


def word_tree(tree: Mapping[str, Mapping[str, float]], before: str) -> figures.Picture:
    """Two words after `said`, with their probabilities.

    `tree[""]` holds the first words, `tree[word]` what may follow each. The likeliest pair is drawn
    strongly, and the product of both probabilities stands at its end."""
    products = {(word, end): p * q for word, p in tree[""].items() for end, q in tree[word].items()}
    best = max(products, key=products.get)
    sheet, top = figures.Drawing(344, 40 + 42 * len(products)), 39.0
    start = sheet.height / 2 + 8

    def branch(x, y, left, to, w, word, strong) -> None:
        ink = None if strong else figures.GRAY
        sheet.arrow(x, y, left - 2, to, ink, width=2.4 if strong else 1.3)
        sheet.box(left, to - 15, w, 30, word, color=ink, size=11)

    sheet.text(261, 10, "probability", 11).text(318, 10, "product", 11)
    sheet.box(2, start - 15, 62, 30, before, size=11)
    for word, p in tree[""].items():
        middle = top + 21 * (len(tree[word]) - 1)
        branch(66, start, 106, middle, 34, word, word == best[0])
        sheet.text(80, middle + (10 if middle > start else -6), f"{p:.2f}", 11)
        for end, q in tree[word].items():
            strong = (word, end) == best
            branch(140, middle, 164, top, 66, end, strong)
            sheet.text(261, top, f"{q:.2f}", 11)
            weight = "bold" if strong else "normal"
            sheet.text(318, top, f"{products[word, end]:.4f}", 11, weight=weight)
            top += 42
        top += 8
    first = max(tree[""], key=tree[""].get)
    below = max(p for (word, _), p in products.items() if word == first)
    return sheet.show(
        f"A tree of two words. '{first}' begins with {tree[''][first]:.2f}, and with no second word"
        f" is the product above {below:.4f}; '{best[0]}' with {tree[''][best[0]]:.2f} and then"
        f" '{best[1]}' make {products[best]:.4f}, the strong line.",
        f"The likelier first word is '{first}', with {tree[''][first]:.2f}; the likeliest sentence"
        f" is '{' '.join(best)}', {products[best]:.3f} against {below:.3f}.",
    )


def staying(lengths: Mapping[str, int]) -> figures.Picture:
    """How many steps each sentence stays in a batch: a bar from the first step to its last, the
    longest on top."""
    order, longest = sorted(lengths, key=lambda name: -lengths[name]), max(lengths.values())
    sheet, unit, foot = figures.Drawing(344, 46 + 22 * len(order)), 254 / longest, 22 * len(order)
    for i, name in enumerate(order):
        width, y = unit * lengths[name], 4 + 22 * i
        sheet.text(76, y + 9, name, 12, "end")
        sheet.box(82, y, width, 18, fill=figures.SLATE, color=figures.SLATE)
        if lengths[name] < longest:
            sheet.box(82 + width, y, 254 - width, 18, color=figures.GRAY, dash=True)
    for step in range(longest):
        sheet.text(82 + unit * (step + 0.5), 14 + foot, step + 1, 11)
    sheet.text(209, 34 + foot, "step")
    listed = ", ".join(f"{name} {lengths[name]} steps" for name in order)
    return sheet.show(
        f"Bars for the steps that each sentence stays in the batch: {listed}. Dashed: work that is"
        " saved.",
        f"Of {longest * len(order)} rows, {len(order)} in each of {longest} steps,"
        f" {sum(lengths.values())} are computed; the dashed ones are saved.",
    )


def beam_tree(steps: Sequence[Sequence[tuple[float, int, str]]], beam_size: int) -> figures.Picture:
    """A beam search as a tree, one row for each step: kept solid, dropped dashed and pale, finished
    in a double box with its penalized score. steps: as `looks.beam_steps` gives them."""
    rows = followed(steps, beam_size, "EOS")
    finished = sorted(
        (
            (log_p / ((6 + t) / 6) ** ALPHA, words)
            for t, row in enumerate(rows)
            for _, _, log_p, words, state in row
            if state == "ended"
        ),
        reverse=True,
    )
    best, widest = finished[0][1] if finished else [None], max(map(len, rows))
    pitch, caption, open_xs = 298 / widest, "", []
    sheet, w = figures.Drawing(344, 60 * len(rows)), pitch - 8
    for t, row in enumerate(rows):
        y, parents, open_xs = 6 + 60 * t, open_xs, []
        sheet.text(0, y + 16, f"step {t + 1}", 11, "start")
        for rank, (parent, word, log_p, words, state) in enumerate(row):
            x, strong = 42 + pitch * rank, words == best[: t + 1]
            cut = state == "cut" or (state == "open" and t == len(rows) - 1)
            color = figures.GRAY if cut else None
            if t:
                width = 2.6 if strong else 1.3
                sheet.line(parents[parent], y - 28, x + w / 2, y, color, cut, width)
            if state == "open":
                open_xs.append(x + w / 2)
            sheet.box(
                x, y, w, 32, word, "#dddddd" if strong else "none", color, cut,
                size=max(9, min(11.5, 1.6 * w / max(len(word), 1))),
                sub=f"{log_p:.2f}",
                opacity=0.7 if cut else 1,  # still at 4.5 to the page
            )
            if state == "ended":
                score = f"{log_p / ((6 + t) / 6) ** ALPHA:.2f}"
                sheet.box(x - 3, y - 3, w + 6, 38).text(x + w / 2, y + 44, score, weight="bold")
            if strong and rank and state == "open" and not caption:
                caption = (
                    f"At step {t + 1} '{word}' is behind '{row[0][1]}'. The beam keeps both, and"
                    f" '{ending(best)}' wins with {finished[0][0]:.2f}."
                )
    listed = "; ".join(f"'{ending(words)}' with {score:.2f}" for score, words in finished)
    return sheet.show(
        f"A tree of {len(rows)} steps with up to {widest} candidates each, {beam_size} of which go"
        f" on. Finished, with their penalized scores: {listed or 'none'}.",
        caption
        or f"{len(finished)} of the beginnings finished; the best of them was ahead at every step.",
    )


def ending(words: Sequence[str]) -> str:
    "The last two words, without signs."
    return " ".join([word for word in words if any(map(str.isalnum, word))][-2:])
