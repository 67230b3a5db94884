"""Drawings and tables of single chapters, each one call with numbers that the page has made; and sentences made from numbers."""
import html
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.patches import Circle, Rectangle

from transformer_lit.support import figures
from transformer_lit.support.figures.drawing import square_colours
from transformer_lit.support.figures.style import COLUMN, PHONE, as_array, responsive



SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"


def in_a_row(words: Sequence[str]) -> str:
    "Words as a sentence holds them: a, b and c."
    return " and ".join([*([", ".join(words[:-1])] if words[1:] else []), *words[-1:]])


def unrolled(words: Sequence[str], states: Any) -> figures.Picture:
    "A recurrent network over `words`: the state after each, (T, H), and the step that leads from one to the next."
    drawing = figures.Drawing(18 + 92 * len(words), 84 + 46 * states.shape[1])
    bottom, middle = 34 + 46 * states.shape[1], 34 + 23 * states.shape[1]
    for t, (word, state) in enumerate(zip(words, states)):
        left = 24 + 92 * t
        drawing.matrix(left, 34, state[:, None], cell=46, fmt="{:.4f}")
        drawing.text(left + 23, 18, f"h{SUBSCRIPTS[t + 1]}", 13, weight="bold")
        drawing.arrow(left + 23, bottom + 22, left + 23, bottom + 3)
        drawing.text(left + 31, bottom + 13, "W", 11, "start", mono=True)
        drawing.box(left - 8, bottom + 23, 62, 25, word)
        if t:
            drawing.arrow(left - 44, middle, left - 3, middle)
            drawing.text(left - 24, middle - 12, "U", mono=True)
    return drawing.show(alt=(
        f"{len(words)} words in a row, each with the {states.shape[1]} numbers of the state after it; an arrow labelled U leads "
        "from each state to the next."), caption=f"The last of the {len(words)} states waits for all the others.")


def draw_reading(drawing: figures.Drawing, words: Sequence[str], left: float, top: float, look: bool) -> None:
    "The words and, on a clock below them, the result for each: at once, or each after the one before."
    n = len(words)
    drawing.text(left + 31 * n - 4, top + 10, f"{'look' if look else 'loop'}: {'1 tick' if look else f'{n} ticks'}", 12, weight="bold")
    for t, word in enumerate(words):
        x, y = left + 62 * t, top + 93 + (0 if look else 42 * t)
        drawing.box(x, top + 24, 54, 24, word)
        for s in range(n) if look else [t]:
            last = look and t == n - 1
            drawing.line(x + 27, y, left + 62 * s + 27, top + 49, figures.QUERY if last else figures.GREY, width=1.6 if last else 0.7)
        drawing.box(x, y, 54, 26, f"{'y' if look else 'h'}{SUBSCRIPTS[t + 1]}", "#dddddd")
        if t and not look:
            drawing.arrow(x - 35, y - 15, x - 2, y + 9)


def loop_and_look(words: Sequence[str]) -> figures.Picture:
    "The same words read in a loop and by attention, on one clock: on which tick is each result there? On a phone one is below the other."
    n = len(words)

    def sheet(width: int) -> str:
        wide = width > PHONE
        drawing = figures.Drawing(80 + 124 * n if wide else 48 + 62 * n, 88 + 42 * n + (0 if wide else 146))
        for t in range(n if wide else n + 1):
            y = 106 + 42 * t + (0 if t < n else 88)
            drawing.text(4, y, f"tick {t % n + 1}", 11, "start")
            drawing.line(44, y, drawing.width, y, figures.GREY, dash=True, width=0.5)
        draw_reading(drawing, words, 48, 0, False)
        draw_reading(drawing, words, *((64 + 62 * n, 0) if wide else (48, 42 * n + 88)), True)
        return drawing.svg()

    return figures.Picture(responsive(sheet, COLUMN), (
        f"{n} words, read twice. In the loop state 1 is there at tick 1 and state {n} at tick {n}, each waiting for the one before. "
        f"In the look all {n} results are there at tick 1, each joined to all {n} words."),
        f"For {n} words the loop takes {n} ticks, and the look takes one.")


def query_key_value(word: str, x: Any, matrices: Sequence[Any], other: str, y: Any) -> figures.Picture:
    """The vector of one word, (D,), times W_Q, W_K and W_V, (D, K) each: the rows that its ones pick out are shaded, and their
    sum is its query, its key or its value. At the bottom its query meets the key of another word, whose vector is `y`."""
    size, parts = len(x), zip("QKV", matrices, (figures.QUERY, figures.KEY, figures.VALUE),
                              ("query: what I look for", "key: what I offer", "value: what I give"))
    high = 22 * size + 46
    drawing = figures.Drawing(44 + 72 * size, 3 * high + 128)
    for i, (name, matrix, colour, note) in enumerate(parts):
        top = 30 + high * i
        middle = top + 11 * size
        drawing.matrix(2, middle - 11, x[None], 22, "{:.0f}", title=f"x of {word}")
        drawing.text(12 + 22 * size, middle, "×", 14)
        left = 22 + 22 * size
        for row, feature in enumerate(x.tolist()):
            if feature:
                drawing.parts.append(f'<rect x="{left}" y="{top + 22 * row}" width="{22 * size}" height="22" fill="{colour}" opacity="0.35"/>')
        drawing.matrix(left, top, matrix, 22, "{:.0f}", title=f"W_{name}")
        drawing.text(left + 10 + 22 * size, middle, "=", 14)
        drawing.matrix(left + 20 + 22 * size, middle - 11, (x @ matrix)[None], 22, "{:.0f}", title=name.lower())
        drawing.text(drawing.width, middle + 24, note, 11, "end")
    query, key = x @ matrices[0], y @ matrices[1]
    top, left = 3 * high + 14, 116
    for y_at, name, one, colour in ((top, f"q of {word}", query, figures.QUERY), (top + 34, f"k of {other}", key, figures.KEY)):
        drawing.text(left - 8, y_at + 13, name, 12, "end", weight="bold")
        for j, number in enumerate(one.tolist()):
            drawing.box(left + 34 * j, y_at, 26, 26, f"{number:.0f}", color=colour)
    for j, product in enumerate((query * key).tolist()):
        drawing.text(left + 34 * j + 13, top + 30, "×", 11)
        drawing.text(left + 34 * j + 13, top + 78, f"{product:.0f}", 12)
        if j:
            drawing.text(left + 34 * j - 4, top + 78, "+", 12)
    score, ones = float(query @ key), " and ".join(str(row + 1) for row, feature in enumerate(x.tolist()) if feature)
    drawing.text(left + 34 * size, top + 78, f"= {score:.0f}", 13, "start", weight="bold")
    return drawing.show(alt=(
        f"The vector of {word} times three matrices. Its ones pick out rows {ones} of each, and the sum of these rows is its query, "
        f"its key and its value. Below, its query times the key of {other}, number by number, adds up to {score:.0f}."),
        caption=f"Rows {ones} make the query of {word}. It meets the key of {other} with a score of {score:.0f}.")


def attention_sheet(words: Sequence[str], qkv: Sequence[Any], scores: Any, weights: Any, output: Any) -> figures.Picture:
    "Attention over three words on one sheet: Q, K and V, their scores, the scaled scores, the weights and the output."
    drawing = figures.Drawing(340, 400)
    drawing.text(4, 12, "1  project", 12, "start", weight="bold")
    for i, (name, one) in enumerate(zip("QKV", qkv)):
        drawing.matrix(50 + 100 * i, 46, one, 22, "{:.0f}", rows=words if i == 0 else None, title=name)
    for x, step in ((4, "2  compare"), (138, "3  scale"), (232, "4  softmax")):
        drawing.text(x, 132, step, 12, "start", weight="bold")
    drawing.matrix(50, 176, scores, 22, "{:.0f}", rows=words, title="Q Kᵀ")
    drawing.matrix(148, 176, scores / qkv[0].shape[1] ** 0.5, 22, "{:.0f}", title=f"÷ √{qkv[0].shape[1]}")
    drawing.matrix(246, 164, weights, 31, "{:.2f}", "cividis", title="weights")
    for x in (120, 218):
        drawing.arrow(x, 209, x + 22, 209)
    drawing.arrow(292, 260, 292, 296)
    drawing.text(302, 278, "× V", 11, "start")
    drawing.text(4, 284, "5  average the values", 12, "start", weight="bold")
    drawing.matrix(213, 300, output, 31, "{:.1f}")
    for i, word in enumerate(words):
        drawing.text(207, 316 + 31 * i, word, 11, "end")
    drawing.text(4, 330, "each row of weights", 11, "start")
    drawing.text(4, 346, "adds up to 1", 11, "start")
    told = ", ".join(f"{word} {row.max():.2f} on {words[int(row.argmax())]}" for word, row in zip(words, weights))
    return drawing.show(alt="Five steps on one sheet, from queries, keys and values over scores and weights to the output.",
                        caption=f"The largest weight of each word: {told}.")


def two_masks(words: Sequence[str], padding: Any, causal: Any) -> figures.Picture:
    "The padding mask (S,), repeated for every query, and the causal mask (T, T): open is what both leave open."
    padding, causal = as_array(padding, bool), as_array(causal, bool)
    both, n = padding & causal, len(words)

    def sheet(width: int) -> str:
        wide = width > PHONE
        cell = 30 if wide else 21
        side, gap, left, top = n * cell, 40, 62, 46
        drawing = figures.Drawing(width, top + side + 26 if wide else 2 * (top + side) + 34)
        places = [(left, top), (left + side + gap, top), (left + 2 * (side + gap), top) if wide else (left + (side + gap) / 2, 2 * top + side + 24)]

        def cells(x: float, y: float, row: Sequence[bool], ghost: bool) -> None:
            inset = cell * 0.3 if ghost else 0
            for j, is_open in enumerate(row):
                drawing.box(x + j * cell + inset, y + inset, cell - 2 * inset, cell - 2 * inset, "", square_colours(float(is_open), "mask")[0], figures.GREY)

        for (x, y), name, mask in zip(places, ("padding", "causal", "both"), (np.tile(padding, (n, 1)), causal, both)):
            drawing.text(x + side / 2, y - 34, name, 12, weight="bold")
            for j, word in enumerate(words):
                drawing.text(x + (j + 0.5) * cell, y - 11 + (0 if wide else 7 * (j % 2) - 5), word, 10)
            for i in range(n):
                cells(x, y + i * cell, mask[i], name == "padding" and i > 0)
            if name == "padding" or (name == "both" and not wide):
                for i, word in enumerate(words):
                    drawing.text(x - 6, y + (i + 0.5) * cell, word, 10, "end")
        drawing.arrow(left - 50, top + cell / 2, left - 50, top + side, figures.GREY)
        drawing.text(left + side / 2, top + side + 14, "one row, used by every query", 11)
        drawing.text(left + side + gap / 2, top + side / 2, "and", 12, weight="bold")
        x, y = places[2]
        drawing.text(x - gap / 2 if wide else x - 52, y + side / 2 - 12 if wide else y - 30, "=", 16, weight="bold")
        return drawing.svg()

    return figures.Picture(responsive(sheet, COLUMN), (
        "The padding mask is one row of keys, repeated in small for every query; the causal mask is a triangle; a cell of the third "
        "square is open where both are."), f"A pair stays open only where both masks are open: {both.sum()} of {n * n}. Light is open.")


def heads_apart(x: Any, heads: Any) -> figures.Picture:
    "Two heads: (T, 4) cut by columns into two of (T, 2), attended apart, joined side by side and multiplied by the output matrix."
    fills = ("#dddddd", "none")
    drawing = figures.Drawing(340, 424)

    def cells(x: float, y: float, numbers: Sequence[Sequence[int]], columns: Sequence[str]) -> None:
        for i, row in enumerate(numbers):
            for j, number in enumerate(row):
                drawing.box(x + 28 * j, y + 28 * i, 28, 28, number, columns[j])

    drawing.text(170, 11, "queries, keys or values: (T, D)", 12)
    cells(114, 24, x.tolist(), [fill for fill in fills for _ in range(2)])
    for h, (left, fill) in enumerate(zip((44, 240), fills)):
        middle = left + 28
        drawing.arrow(142 + 56 * h, 109, middle, 150)
        cells(left, 152, heads[h].tolist(), [fill, fill])
        for y, label in ((188, f"head {h + 1}"), (204, "(T, K)")):
            drawing.text(middle + (1 - 2 * h) * 58, y, label, 11)
        drawing.arrow(middle, 238, middle, 258)
        drawing.box(left - 36, 260, 128, 30, "softmax(QKᵀ/√K) V", fill, size=11)
        drawing.arrow(middle, 292, 142 + 56 * h, 320)
        drawing.box(114 + 56 * h, 322, 56, 26, f"head {h + 1}", fill)
    drawing.text(104, 335, "side by side", 11, "end")
    drawing.arrow(170, 349, 170, 367)
    drawing.box(114, 369, 112, 26, "times Wᴼ")
    drawing.text(170, 410, "output: (T, D)", 12)
    return drawing.show(alt=(
        f"A matrix of {len(x)} tokens by {x.shape[1]} features is cut by columns into two heads; each attends by itself, the results "
        "are laid side by side and multiplied by the output matrix."),
        caption=f"Head 1 has the left half of every token, head 2 the right half: {x.shape[1] // 2} features each.")


def word_tree(tree: Mapping[str, Mapping[str, float]], said: str) -> figures.Picture:
    """Two words after `said`, with their probabilities.

    `tree[""]` holds the first words, `tree[word]` what may follow each. The likeliest pair is drawn strongly, and the product
    of both probabilities stands at its end."""
    whole = {(word, end): p * q for word, p in tree[""].items() for end, q in tree[word].items()}
    best = max(whole, key=whole.__getitem__)

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        size, first, then, at, product = (13, (180, 92), (378, 116), 558, 650) if wide else (11, (106, 34), (164, 66), 261, 318)
        drawing, top = figures.Drawing(704 if wide else 344, 40 + 42 * len(whole)), 24.0
        start, stem = drawing.height / 2 - 7, 92 if wide else 64
        drawing.text(at, 10, "probability", size=size).text(product, 10, "product", size=size).box(2, start, stem, 30, said, size=size)
        for word, p in tree[""].items():
            middle = top + 21 * len(tree[word]) - 6
            how = (None, 2.4) if word == best[0] else (figures.GREY, 1.3)
            drawing.arrow(stem + 2, start + 15, first[0] - 2, middle, how[0], width=how[1]).box(first[0], middle - 15, first[1], 30, word, color=how[0], size=size)
            drawing.text((stem + first[0]) / 2 - 5, middle + (10 if middle > start + 15 else -6), f"{p:.2f}", size=size)
            for end, q in tree[word].items():
                how, bold = ((None, 2.4), "bold") if (word, end) == best else ((figures.GREY, 1.3), None)
                drawing.arrow(sum(first), middle, then[0] - 2, top + 15, how[0], width=how[1])
                drawing.box(then[0], top, then[1], 30, end, color=how[0], size=size).text(at, top + 15, f"{q:.2f}", size=size)
                drawing.text(product, top + 15, f"{whole[word, end]:.4f}", size=size, weight=bold)
                top += 42
            top += 8
        return drawing.svg()

    first = max(tree[""], key=tree[""].__getitem__)
    below = max(p for (word, _), p in whole.items() if word == first)
    return figures.Picture(figures.style.responsive(draw, figures.COLUMN), (
        f"A tree of two words. '{first}' begins with {tree[''][first]:.2f}, and no end makes more than {below:.4f} of it; "
        f"'{best[0]}' with {tree[''][best[0]]:.2f} and then '{best[1]}' make {whole[best]:.4f}, the strong line."),
        f"The likelier word is '{first}', with {tree[''][first]:.2f}; the likeliest sentence is '{' '.join(best)}', {whole[best]:.3f} "
        f"against {below:.3f}.")


def staying(lengths: Mapping[str, int]) -> figures.Picture:
    "How many steps each sentence stays in a batch: a bar from the first step to its last, the longest on top."
    order, most = sorted(lengths, key=lambda name: -lengths[name]), max(lengths.values())

    def draw(width: int) -> str:
        drawing, left = figures.Drawing(width, 46 + 22 * len(order)), 82
        unit = (width - left - 8) / most
        for i, name in enumerate(order):
            drawing.text(left - 6, 13 + 22 * i, name, 12, "end").box(left, 4 + 22 * i, unit * lengths[name], 18, fill=figures.SLATE, color=figures.SLATE)
            if lengths[name] < most:
                drawing.box(left + unit * lengths[name], 4 + 22 * i, unit * (most - lengths[name]), 18, color=figures.GREY, dash=True)
        for step in range(1, most + 1):
            drawing.text(left + unit * (step - 0.5), 14 + 22 * len(order), step, 11)
        drawing.text(left + unit * most / 2, 34 + 22 * len(order), "step", 12)
        return drawing.svg()

    told, steps = ", ".join(f"{name} {lengths[name]}" for name in order), sum(lengths.values())
    return figures.Picture(
        figures.style.responsive(draw, figures.COLUMN),
        f"Bars for the steps that each sentence stays in the batch: {told}. Dashed: work that is saved.",
        f"Of {most * len(order)} rows, {len(order)} in each of {most} steps, {steps} are computed; the dashed ones are saved.")


def shifted(words: Sequence[str]) -> figures.Picture:
    "What a decoder reads (below) and is asked to say (above); dashed lines carry each true word back as the next input."
    last = len(words) - 2

    def draw(width: int) -> str:
        pitch = (width - 8) / (last + 1)
        sheet, w, size = figures.Drawing(width, 178), pitch - 9, 13 if width > figures.PHONE else 11
        sheet.text(4, 12, "is asked to say", 12, "start", weight="bold").text(4, 166, "reads", 12, "start", weight="bold")
        for t, (reads, says) in enumerate(zip(words, words[1:])):
            x = 4 + pitch * t
            sheet.box(x, 24, w, 26, says, figures.DECODER, size=size).box(x, 128, w, 26, reads, "none", figures.GREY, size=size)
            sheet.arrow(x + w / 2, 128, x + w / 2, 51)
            if t < last:
                out, back = x + 0.75 * w, x + pitch + 0.25 * w
                sheet.line(out, 51, out, 90, figures.GREY, dash=True).line(out, 90, back, 90, figures.GREY, dash=True)
                sheet.arrow(back, 90, back, 127, figures.GREY, dash=True)
        return sheet.svg()

    return figures.Picture(
        figures.style.responsive(draw, figures.COLUMN),
        f"The decoder reads {', '.join(words[:-1])} and is asked for {', '.join(words[1:])}; dashed lines carry each true word back "
        "as the next input.",
        f"One pass asks for {last + 1} words at once: each position reads a true word and must say the next.")


def one_matrix(words: Sequence[str] = ("the", "animal", "street", "l'", "rue"), chosen: int = 1, vocab: int = 37_000,
               d_model: int = 512) -> figures.Picture:
    "Source, target and output over one matrix with a row for each word; vocab, d_model: the sizes that the caption counts."
    def draw(width: int) -> str:
        wide = width > figures.PHONE
        w, cell, size = (170, 24, 13) if wide else (100, 15, 11)
        gap = (width - 3 * w) / 3
        left, top = (width - 8 * cell) / 2, 130 + cell * chosen
        sheet = figures.Drawing(width, 161 + cell * len(words))
        middles = [gap / 2 + w / 2 + (w + gap) * i for i in range(3)]
        for x, colour, above, name in zip(middles, (figures.ENCODER, figures.DECODER, figures.DECODER),
                                          ("source id", "target id", "D numbers"), ("source", "target", "output")):
            sheet.text(x, 12, above, size).arrow(x, 22, x, 40).box(x - w / 2, 42, w, 28, name, colour, size=size + 1)
        for i, word in enumerate(words):
            for j in range(8):
                sheet.box(left + cell * j, 130 + cell * i, cell, cell, "", figures.GREY if i == chosen else "none")
            sheet.text(left - 8, 130 + cell * (i + 0.5), word, size, "end")
        one, two, three = middles
        sheet.arrow(one, 70, left + cell, top - 2).text(one - 6 if wide else one, 104, "its row", size)
        sheet.arrow(two, 70, two, top - 2).text(two + 8, 96, "its row", size, "start")
        sheet.arrow(three, 70, left + 8 * cell + 3, 128).text(three, 104, "every row", size)
        sheet.text(width / 2, 147 + cell * len(words), "one Parameter: V rows, D columns", size)
        return sheet.svg()

    one = vocab * d_model / 1e6
    return figures.Picture(
        figures.style.responsive(draw, figures.COLUMN),
        "Three boxes, source, target and output, point to one matrix with a row for each word: the two embeddings "
        "read out the row of an id, the output layer multiplies with every row.",
        f"Tied, a model of {vocab:,} tokens and width {d_model} holds {one:.1f} million numbers here; untied it would hold {3 * one:.1f}.")


def parameter_areas(parts: Mapping[str, float], layers: int = 6) -> figures.Picture:
    """The parts of a tied model with one joint vocabulary, where they stand in the architecture; area is in proportion to parameters.

    parts: "embedding", "encoder attention", "decoder attention", "cross-attention" and "feed-forward", of which each side
    has half, each of them in so many layers; what else there is stands in the last line."""
    half, whole = parts["feed-forward"] / 2, sum(parts.values())
    parts = {**{name: n for name, n in parts.items() if name != "feed-forward"}, "encoder feed-forward": half,
             "decoder feed-forward": half}
    towers = ((figures.ENCODER, ("encoder feed-forward", "encoder attention")),
              (figures.DECODER, ("decoder feed-forward", "cross-attention", "decoder attention")))
    drawn = ["embedding", *(name for _, names in towers for name in names)]
    rest = ", ".join(f"{name} {n / 1e6:.2f} M" for name, n in parts.items() if name not in drawn)

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        tower, gap, size = (220, 76, 13) if wide else (142, 28, 11.5)
        left = (width - 2 * tower - gap) / 2
        per = 300 * tower / max(sum(parts[name] for name in names) for _, names in towers)  # square pixels for a parameter
        ground = 344.0
        base = parts["embedding"] * per / (2 * tower + gap)
        sheet, level, tops = figures.Drawing(width, round(ground + base + 82)), {}, []

        def box(x: float, bottom: float, w: float, name: str, colour: str, of: str) -> float:
            height = parts[name] * per / w
            sheet.box(x, bottom - height, w, height, name, colour, colour, size=size, sub=f"{of}{parts[name] / 1e6:.1f} M")
            level[name] = bottom - height / 2
            return bottom - height

        for x, (colour, names) in zip((left, left + tower + gap), towers):
            sheet.arrow(x + tower / 2, ground + 26, x + tower / 2, ground + 1)
            bottom = ground
            for name in reversed(names):
                bottom = box(x, bottom, tower, name, figures.BRIDGE if name == "cross-attention" else colour,
                             f"{layers} × {parts[name] / layers / 1e6:.2f} M = ")
            tops.append(bottom)
        box(left, ground + 26 + base, 2 * tower + gap, "embedding", figures.GREY, "one matrix, ")
        lane, right = left + tower + gap / 2, left + tower + gap
        sheet.path([(left + tower / 2, tops[0]), (left + tower / 2, tops[0] - 18), (lane, tops[0] - 18), (lane, level["cross-attention"]),
                    (right - 1, level["cross-attention"])], figures.BRIDGE, 2)
        sheet.text(left + tower / 2 - 6, tops[0] - 29, "memory", 12)
        sheet.arrow(right + tower / 2, tops[1], right + tower / 2, tops[1] - 18)
        sheet.text(right + tower / 2, 12, "linear: the embedding again" if wide else "linear: embedding", 12)
        edge, tie = right + tower, right + tower + (30 if wide else 12)
        for x1, y1, x2, y2 in ((edge, level["embedding"], tie, level["embedding"]), (tie, level["embedding"], tie, 12.0),
                               (tie, 12.0, right + tower / 2 + (88 if wide else 52), 12.0)):
            sheet.line(x1, y1, x2, y2, figures.GREY, dash=True)
        for x, word in ((left, "source words"), (right, "target, shifted right")):
            sheet.text(x + tower / 2, ground + base + 42, word, 12)
        sheet.text(width / 2, ground + base + 68, f"too thin to draw: {rest}", 11.5)
        return sheet.svg()

    most = max(drawn, key=parts.__getitem__)
    return figures.Picture(
        figures.style.responsive(draw, figures.COLUMN),
        "Boxes with areas in proportion to parameters, in millions: " + ", ".join(
            f"{name} {parts[name] / 1e6:.1f}" for name in drawn) + f". The largest single box is the {most}; the two feed-forward "
        f"boxes together hold {2 * half / 1e6:.1f}.",
        f"Of {whole / 1e6:.0f} million parameters the feed-forward boxes hold {2 * half / whole:.0%}, the embedding "
        f"{parts['embedding'] / whole:.0%} and the attentions {sum(parts[n] for n in drawn if 'attention' in n) / whole:.0%}.")


def cached_rows(steps: int = 4) -> figures.Picture:
    "The scores computed at the last of some steps, without and with a cache."
    def draw(width: int) -> str:
        wide = width > figures.PHONE
        cell = 40 if wide else 28
        high = 88 + cell * steps
        drawing = figures.Drawing(width, high if wide else 2 * high)
        for i, (cached, title, note) in enumerate((
                (False, f"without a cache, step {steps}", f"{steps} rows computed"),
                (True, f"with a cache, step {steps}", f"1 row computed, k1 to k{steps - 1} kept"))):
            middle, top = (width * (1 + 2 * i) / 4, 0) if wide else (width / 2, high * i)
            x = middle - cell * steps / 2
            drawing.text(middle, top + 16, title, size=13)
            for row in range(steps):
                for col in range(steps):
                    empty = col > row or (cached and row < steps - 1)
                    colour = figures.DECODER if row == steps - 1 else figures.GREY
                    drawing.box(x + cell * col, top + 36 + cell * row, cell - 2, cell - 2, fill="none" if empty else colour,
                                color=figures.GREY if empty else None, dash=empty)
                drawing.text(x - 18, top + 35 + cell * (row + 0.5), f"q{row + 1}", size=12)
                drawing.text(x + cell * (row + 0.5) - 1, top + 46 + cell * steps, f"k{row + 1}", size=12)
            drawing.text(middle, top + 68 + cell * steps, note, size=12)
        return drawing.svg()

    without = steps * (steps + 1) // 2
    return figures.Picture(figures.style.responsive(draw, figures.COLUMN), (
        f"Two triangles of attention scores, {steps} by {steps}. Without a cache all {steps} rows are filled at step {steps}; "
        f"with it only the last row, and {steps - 1} of the {steps} keys come from before."),
        f"At step {steps} the cache leaves {steps} of {without} scores to compute: the new word's row.")


def read_and_said(words: Sequence[str]) -> figures.Picture:
    "The rows of a decoder: each reads one of `words` and says the next."
    rows = list(zip(words, words[1:]))
    drawing = figures.Drawing(36 + 76 * len(rows), 150)
    for i, (reads, says) in enumerate(rows):
        x = 62 + 76 * i
        drawing.text(x, 132, reads, 12)
        drawing.box(x - 32, 62, 64, 28, f"row {i + 1}", figures.DECODER, figures.DECODER)
        drawing.text(x, 22, says, 12, weight="bold")
        drawing.arrow(x, 122, x, 92)
        drawing.arrow(x, 60, x, 34)
    drawing.text(4, 112, "reads", 11, "start")
    drawing.text(4, 46, "says", 11, "start")
    told = ", ".join(f"row {i} reads {reads.strip('<>')} and says {says.strip('<>')}" for i, (reads, says) in enumerate(rows, 1))
    return drawing.show(alt=f"{len(rows)} rows of the decoder: {told}.",
                        caption=f"Each of the {len(rows)} rows says the word after the one that it reads. Named by the wrong one, the map slips by one word.")


def across_then_alone(words: Sequence[str], chosen: str) -> figures.Picture:
    "An encoder layer's two steps: all words reach the chosen one, then each goes up alone."
    drawing, at = figures.Drawing(30 + 62 * len(words), 264), words.index(chosen)
    for i, word in enumerate(words):
        x, lit = 24 + 62 * i, i == at
        drawing.text(x + 22, 252, word, 12)
        for row, fill in ((212, "none"), (116, figures.ENCODER), (20, figures.ENCODER)):
            drawing.box(x, row, 44, 22, "", fill if lit else "none")
        ink = None if lit else figures.GREY
        drawing.arrow(x + 22, 76 if i < len(words) - 1 else 116, x + 22, 43, ink).line(x + 22, 116, x + 22, 96, ink)
        drawing.arrow(x + 22, 212, 46 + 62 * at, 139, figures.VALUE)
    right = drawing.width - 6
    drawing.text(drawing.width / 2, 86, "feed-forward: each word alone", 12)
    drawing.text(right, 156, "self-attention:", 12, "end").text(right, 172, "across words", 12, "end")
    return drawing.show(
        alt=f"{len(words)} words in three rows. From the first row to the second all words send arrows to {chosen}. From the second "
            "to the third each word goes straight up alone.",
        caption=f"Self-attention brings something of all {len(words)} words to {chosen}; the feed-forward then works on each word alone.")


def runs(rows: Sequence[str], cols: Sequence[str]) -> np.ndarray:
    "How long a run of equal words ends at each pair of words: (rows, cols)."
    length = np.zeros((len(rows) + 1, len(cols) + 1), int)
    for i, j in np.ndindex(len(rows), len(cols)):
        if rows[i] == cols[j]:
            length[i + 1, j + 1] = length[i, j] + 1
    return length[1:, 1:]


def equal_runs(output: str, reference: str) -> figures.Picture:
    "Words of an output against words of a reference, with the length of the run of equal words that ends at each pair."
    rows, cols = output.split(), reference.split()
    lengths = runs(rows, cols)
    ends = [int(lengths[i, j]) for i, j in np.ndindex(*lengths.shape)
            if lengths[i, j] and not (i + 1 < len(rows) and j + 1 < len(cols) and lengths[i + 1, j + 1])]
    found = ", ".join(map(str, ends))
    return figures.heatmap(lengths, rows=rows, cols=cols, annotate=True, fmt=".0f",
                           caption=f"{sum(ends)} of {len(rows)} words agree, in runs of {found}; a wrong word ends every run that would cross it.",
                           alt=f"Runs of equal words along the diagonal, of {found} words.")


def filled_slots(parts: Sequence[tuple[str, str, str]]) -> figures.Picture:
    "One side of a pattern in three rows: each slot, the words that fill it, and the words after elision, dashed where they changed."
    widths = [max(52, 13 + 9 * max(len(slot), len(word), len(done))) for slot, word, done in parts]
    sheet, x = figures.Drawing(16 + sum(widths) + 6 * len(parts), 190), 8
    for (slot, word, done), w in zip(parts, widths):
        sheet.box(x, 34, w, 26, slot, color=figures.GREY).arrow(x + w / 2, 60, x + w / 2, 92)
        sheet.box(x, 94, w, 26, word).arrow(x + w / 2, 120, x + w / 2, 152)
        sheet.box(x, 154, w, 26, done, dash=done != word)
        x += w + 6
    for y, text in ((20, "the pattern"), (80, "filled"), (140, "elided")):
        sheet.text(96, y, text, 12)
    changed = ", ".join(f"{word} became {done}" for _, word, done in parts if done != word)
    return sheet.show(alt=f"A pattern in three rows: slots, the words that fill them, and the same words after elision, where {changed}.",
                      caption=f"Elision looks at the next word: {changed.replace(' became ', ' becomes ')}.")


def word_links(english: Sequence[str], french: Sequence[str], links: Collection[tuple[int, int]]) -> figures.Picture:
    "French words as rows, English ones as columns, light where two are linked; `links` are (English, French) places."
    told = [f"{word} with {' and '.join(french[j] for k, j in sorted(links) if k == i)}" for i, word in enumerate(english)
            if any(k == i for k, _ in links)]
    grid = np.array([[(i, j) in links for i in range(len(english))] for j in range(len(french))])
    several = [word for i, word in enumerate(english) if sum(k == i for k, _ in links) > 1]
    return figures.heatmap(grid, rows=french, cols=english, cmap="mask",
                           alt="French words as rows, English words as columns, linked words light: " + ", ".join(told) + ".",
                           caption=f"{len(told)} English words have {len(links)} links; {in_a_row(several) or 'none'} "
                                   f"{'has' if len(several) == 1 else 'have'} more than one.")


def dealt_out(parts: Mapping[str, Sequence[tuple[str, str]]]) -> figures.Picture:
    "Pairs of sentences, and an arrow from each to the part of a split that it went to."
    rows = [(pair, k) for k, pairs in enumerate(parts.values()) for pair in pairs]
    sheet = figures.Drawing(340, 41 + 27 * len(rows))
    middles = [34 + 27 * sum(i for i, (_, n) in enumerate(rows) if n == k) / len(pairs) for k, pairs in enumerate(parts.values())]
    for i, ((english, other), k) in enumerate(rows):
        sheet.text(12, 34 + 27 * i, english, 12, "start")
        sheet.text(70, 34 + 27 * i, other, 12, "start").arrow(176, 34 + 27 * i, 226, middles[k])
    sheet.text(12, 12, "pairs", 11, "start", weight="bold").text(230, 12, "one part each", 11, "start", weight="bold")
    for k, name in enumerate(parts):
        sheet.box(230, middles[k] - 14, 100, 28, name, "#dddddd" if k == 0 else "none")
    told = [f"{name} gets {len(pairs)} of {', '.join(dict.fromkeys(english for english, _ in pairs))}" for name, pairs in parts.items()]
    groups = len({english.casefold().rstrip(" .!?…") for (english, _), _ in rows})
    return sheet.show(alt=f"{len(rows)} pairs, dealt out by their English: {'; '.join(told)}.",
                      caption=f"{len(rows)} pairs of {groups} English sentences: all pairs of one sentence go to one part.")


def training_curves(log: Sequence[Mapping[str, Any]]) -> figures.Picture:
    "The two losses of a recorded run: of training by step, held out after each epoch."
    steps, ends = ([line for line in log if line["kind"] == kind] for kind in ("step", "epoch"))
    low = min(ends, key=lambda line: line["valid_loss"])
    return figures.curves(
        {"training, smoothed": ([line["step"] for line in steps], [line["loss"] for line in steps]),
         "held out": ([line["step"] for line in ends], [line["valid_loss"] for line in ends])},
        colors={"training, smoothed": figures.GREY, "held out": figures.INK}, xlabel="step", ylabel="nats per token",
        alt=f"Training loss falls from {steps[0]['loss']:.1f} to {steps[-1]['loss']:.1f} nats per token in {steps[-1]['step']:,} "
            f"steps, held-out loss from {ends[0]['valid_loss']:.2f} after the first epoch to {ends[-1]['valid_loss']:.2f}.",
        caption=f"The held-out loss is lowest after epoch {1 + ends.index(low)} of {len(ends)}, at {low['valid_loss']:.2f} nats per token.")


def validation_by_epoch(series: Mapping[str, tuple[Sequence[int], Sequence[float]]], reference: str | None = None,
                        fault: str | None = None, caption: str | None = None) -> figures.Picture:
    """Validation losses of several runs by epoch, (epochs, losses) each; a name with a comma is a part of a run, dotted.

    reference: the name of the run to compare with, in grey; fault: that of the faulty one, dashed. caption: without one it
    says after which epoch each run is best."""
    last = "; ".join(f"{name} {losses[-1]:.2f}" for name, (_, losses) in series.items())
    runs = {name: entry for name, entry in series.items() if "," not in name}
    best = [(name, epochs[int(np.argmin(losses))]) for name, (epochs, losses) in runs.items()]
    colours = {name: colour for name, colour in ((reference, figures.GREY), (fault, figures.FAULT)) if name}
    colours |= {name: figures.INK for name in [name for name in runs if name not in colours][:1]}  # the first of ours
    return figures.curves(dict(series), xlabel="epoch", ylabel="validation loss, nats per word", colors=colours,
                          styles={name: ":" if "," in name else "--" for name in series if "," in name or name == fault},
                          alt=f"Validation loss by epoch. After the last epoch: {last}.",
                          caption=caption or "The loss is lowest after " + in_a_row([f"epoch {n} {name}" for name, n in best]) + ".")


def words_kept(whole: Sequence[tuple[int, float]], cut: Sequence[tuple[int, float]]) -> figures.Picture:
    "What is left of single translations when 1, 2, 3 … sentences are asked for as one text, (tokens, share): whole, and cut at their ends."
    return figures.curves(
        {"whole": tuple(zip(*whole)), "cut": tuple(zip(*cut))}, xlabel="source tokens", ylabel="share of words kept",
        colors={"whole": figures.FAULT, "cut": figures.INK}, styles={"whole": "--"},
        alt="Share of the words of the single translations that remain when the sentences are asked for as one text: "
            f"{whole[-1][1]:.0%} of {whole[-1][0]} tokens whole, {cut[-1][1]:.0%} cut at sentence ends.",
        caption=f"Of {len(whole)} sentences in a row, cut at their ends, {cut[-1][1]:.0%} of the words are kept; asked whole, {whole[-1][1]:.0%}.")


def precisions_compared(rows: Sequence[Mapping[str, Any]]) -> figures.Picture:
    "Recorded decoding in fewer bits, each row against fp32: equal answers, BLEU with the interval of the difference, time."
    return figures.table([{
        "products in": row["name"], "beam": str(row["beam"]), "same answers": f"{row['same']} of {row['sentences']}",
        "BLEU": f"{row['bleu']:.2f}", "difference": "{low:+.2f} to {high:+.2f}".format(**row["difference"]),
        "time": f"{row['ratio']:.2f}"} for row in rows if row["name"] != "fp32"], caption="Against fp32, time as a share")


def averaged_checkpoints(kept: Sequence[Mapping[str, Any]], pairs: Sequence[tuple[int, int]],
                         rate: Callable[[int], float]) -> figures.Picture:
    """Held-out loss of single epochs and of their means with an earlier one.

    kept: rows with `epochs`, `step` and `loss`; pairs: (earlier epoch, epoch); rate(step): a share of the peak."""
    held = {tuple(row["epochs"]): row["loss"] for row in kept}
    step = {row["epochs"][-1]: row["step"] for row in kept}
    return figures.table([{"epoch": str(n), "rate, of its peak": rate(step[n]), "alone": held[n,],
                           "mean with an epoch before": f"{held[before, n]:.3f} (epoch {before})"} for before, n in pairs],
                         caption="Held-out loss, nats per subword")


def answers_by_epoch(ends: Sequence[Mapping[str, Any]], seen: Mapping[str, bool], right: Callable[[str, str], bool]) -> figures.Picture:
    """A grid of sentence and epoch: what a run answered after its first two epochs, half way and at the end.

    ends: the run's lines of epochs, whose `samples` map each sentence to its answer; right(sentence, answer)."""
    columns = sorted({1, 2, len(ends) // 2, len(ends)} - {0})
    last = ends[-1]["samples"]
    done = sum(right(english, answer) for english, answer in last.items())
    return figures.table([{"English": english, "seen": bool(seen[english]), **{f"epoch {n}": ends[n - 1]["samples"][english] for n in columns},
                           "right": right(english, ends[-1]["samples"][english])} for english in last],
                         caption=f"After {len(ends)} epochs {done} of {len(last)} answers are right")


def scores_by_group(groups: Mapping[str, Sequence[Mapping[str, Any]]], xlabel: str, title: str, at_least: int = 25,
                    log: bool = False) -> figures.Picture:
    """BLEU with its band by group, a line for each set; groups of fewer than `at_least` sentences are left out.

    log: groups are counts, on a logarithmic axis that shows 0 as 0.3."""
    drawn = {}
    for name, rows in groups.items():
        kept = [row for row in rows if row["sentences"] >= at_least]
        if kept:
            at = [max(row["group"], 0.3) if log else row["group"] for row in kept]
            drawn[name] = (at, *([row[field] for row in kept] for field in ("BLEU", "low", "high")))
    scores = {name: dict(zip(entry[0], entry[1])) for name, entry in drawn.items()}
    first, *others = scores
    shared = sorted(group for group in scores[first] if any(group in scores[name] for name in others))
    at_best = sum(all(scores[first][group] >= scores[name].get(group, 0) for name in others) for group in shared)
    ends = "; ".join(f"{name} from {entry[1][0]:.0f} to {entry[1][-1]:.0f}" for name, entry in drawn.items())
    told = f"{first} scores highest in {at_best} of the {len(shared)} groups that it shares with another set." if shared else None
    return figures.curves(drawn, logx=log, xlabel=xlabel, ylabel="BLEU", caption=told,
                          alt=f"{title}, with 95% bands, first to last group: {ends}.")


def narrowing(sizes: Sequence[int], around: Sequence[Mapping[str, float]], truth: float) -> figures.Picture:
    "BLEU of growing parts of a test set with its 95% band, and a dotted line for the whole."
    first, last = (x["high"] - x["low"] for x in (around[0], around[-1]))
    return figures.curves({"BLEU": (list(sizes), *([x[k] for x in around] for k in ("value", "low", "high")))}, logx=True,
                          xlabel="sentences", ylabel="BLEU", hline=(truth, "all"),
                          caption=f"{sizes[-1] / sizes[0]:.0f} times the sentences make the 95% interval {first / last:.1f} times narrower: "
                                  f"{first:.1f} points with {sizes[0]:,} sentences, {last:.1f} with {sizes[-1]:,}.",
                          alt="BLEU of growing parts of the test set with its 95% band, which narrows from "
                              f"{first:.1f} to {last:.1f} points.")


def damaged_scores(shares: Sequence[float], moved: Mapping[str, np.ndarray]) -> figures.Picture:
    "BLEU and chrF by the share of damaged words, a panel each. moved: fault -> (seeds, shares, 2); the band spans the seeds."
    last = {name: v[:, -1].mean(0) for name, v in moved.items()}
    told = "; ".join(f"{name}, BLEU {bleu:.0f}, chrF {chrf:.0f}" for name, (bleu, chrf) in last.items())
    least, most = (pick(last, key=lambda name: last[name][1]) for pick in (min, max))
    return figures.curve_panels(
        [{"title": metric, "xlabel": "share of words", "ylabel": metric, "series": {
            name: (list(shares), v[..., k].mean(0), v[..., k].min(0), v[..., k].max(0)) for name, v in moved.items()}}
         for k, metric in enumerate(("BLEU", "chrF"))],
        caption=f"At {shares[-1]:.0%} BLEU is {min(v[0] for v in last.values()):.0f} to {max(v[0] for v in last.values()):.0f} for every fault; "
                f"chrF tells them apart, from {last[least][1]:.0f} ({least}) to {last[most][1]:.0f} ({most}).",
        alt=f"Scores against the share of damaged words, two panels. At {shares[-1]:.0%}: {told}.")


def rates_by_head(by_head: Any, mean: Any) -> figures.Picture:
    "Alignment error rates of every head, (N, H), with the rates of each layer's mean as a last column."
    by_head, mean = np.asarray(by_head), np.asarray(mean)
    n, h = np.unravel_index(by_head.argmin(), by_head.shape)
    layers, heads = by_head.shape
    return figures.heatmap(
        np.concatenate([by_head, mean[:, None]], 1), annotate=True, vmin=0, vmax=1, ylabel="layer", xlabel="head",
        rows=range(1, layers + 1), cols=[*range(1, heads + 1), "mean"],
        caption=f"Head {h + 1} of layer {n + 1} aligns best of all heads, with {by_head.min():.1%} errors; the mean of the heads of layer "
                f"{mean.argmin() + 1} has {mean.min():.1%}.",
        alt="Alignment error rate of every cross-attention head and of the mean of each layer's heads; dark is better. Best head: "
            f"layer {n + 1}, head {h + 1}, with {by_head.min():.1%}; the lowest mean is {mean.min():.1%}.")


def head_turns(turns: Mapping[str, Any]) -> figures.Picture:
    "How far each head turns, kind -> (N, H), in hundredths, on one scale of colours; so small ones can be read as well."
    hundredths = {kind: 100 * np.asarray(t) for kind, t in turns.items()}
    most = max(float(np.abs(t).max()) for t in hundredths.values())
    furthest, *others = sorted(hundredths, key=lambda kind: -np.abs(hundredths[kind]).max())
    n, h = np.unravel_index(np.abs(hundredths[furthest]).argmax(), hundredths[furthest].shape)
    told = ", ".join(f"{np.abs(t).max():.1f} in {kind}" for kind, t in hundredths.items())
    return figures.heatmaps(
        [{"matrix": t.round(1) + 0.0, "title": f"{kind}, hundredths", "rows": range(1, 1 + len(t)), "cols": range(1, 1 + t.shape[1])}
         for kind, t in hundredths.items()], annotate=True, fmt=".1f", xlabel="head", ylabel="layer", cmap="signed", vmin=-most, vmax=most, bar=False,
        caption=f"Head {h + 1} of {furthest} layer {n + 1} turns most, by {hundredths[furthest][n, h]:.1f} hundredths; "
                + ", ".join(f"no {kind} head by more than {np.abs(hundredths[kind]).max():.1f}" for kind in others) + ".",
        alt=f"How far each head turns from one noun to the other as the adjective changes, in hundredths. Furthest: {told}.")


def heads_off(steps: Sequence[int], by_turn: Sequence[float], mixed: Any, common: float) -> figures.Picture:
    "Right pronouns by the number of heads off: the most turning first, and random orders, (orders, steps), as a band."
    mixed, half, bound = np.asarray(mixed), len(by_turn) // 2, (by_turn[0] + common) / 2
    fallen = [next((n for n, right in zip(steps, run) if right < bound), steps[-1]) for run in (by_turn, *mixed)]
    return figures.curves(
        {"most turning first": (list(steps), by_turn), "random order": (list(steps), mixed.mean(0), mixed.min(0), mixed.max(0)),
         "the commoner one": ([steps[0], steps[-1]], [common, common])},
        xlabel="heads switched off", ylabel="right pronoun", styles={"the commoner one": ":"},
        colors={"random order": figures.GREY, "the commoner one": figures.INK},
        caption=f"Half of what the model knows is lost with {fallen[0]} heads off, most turning first, and with "
                f"{np.mean(fallen[1:]):.0f} in random order.",
        alt=f"Right pronouns over the number of heads switched off. With half of the heads off: {by_turn[half]:.0%}, most turning "
            f"first, and {mixed.mean(0)[half]:.0%} in random order; at the end {by_turn[-1]:.0%} and {mixed.mean(0)[-1]:.0%}.")


def listed(values: Mapping[Any, Any], name: str = "", value: str = "", fmt: str = "{:.3f}", caption: str | None = None) -> figures.Picture:
    "A mapping as a table of two columns with these names."
    return figures.table([{name: key, value: held} for key, held in values.items()], [name, value], caption, fmt)


def words_and_pieces(length: Mapping[int, float], words: float, ceiling: Sequence[Mapping[str, Any]]) -> figures.Picture:
    """What byte pairs cost and what they save, two panels by size of the vocabulary.

    length: size -> tokens per unseen sentence; words: words per sentence; ceiling: rows with `words`, the size of a list of
    words, and `sentences lost, %`."""
    rows, sizes = list(ceiling)[::-1], list(length)
    told = "; ".join(f"{n:,}, {length[n]:.1f}" for n in sizes)
    lost = "; ".join(f"{row['words']:,}, {row['sentences lost, %']:.0f}%" for row in rows)
    return figures.curve_panels(
        [{"series": {"byte pairs": (sizes, list(length.values()))}, "title": "Length of an unseen sentence", "xlabel": "vocabulary",
          "ylabel": "tokens", "hline": (words, "words")},
         {"series": {"words": ([row["words"] for row in rows], [row["sentences lost, %"] for row in rows]),
                     "byte pairs": (sizes, [0 for _ in sizes])},
          "title": "Sentences with an unknown word", "xlabel": "vocabulary", "ylabel": "%"}],
        caption=f"With {sizes[-1]:,} byte pairs a sentence has {length[sizes[-1]]:.1f} tokens instead of {words:.1f} words, and none is "
                f"lost; lists of words lose {rows[-1]['sentences lost, %']:.0f}% to {rows[0]['sentences lost, %']:.0f}%.",
        alt=f"Tokens in an unseen sentence, by size of the vocabulary: {told}; words: {words:.1f}. Unseen French sentences with an "
            f"unknown word, by words in the list: {lost}; byte pairs: 0% at any size.")


def unknown_by_size(counts: Sequence[Mapping[str, Any]]) -> figures.Picture:
    "Share of unknown words by the size of a list of words; rows with `words` and `unknown`, a share."
    rows = sorted(counts, key=lambda row: row["words"])
    few, many = rows[0], rows[-1]
    return figures.curves({"unknown, %": ([c["words"] for c in rows], [100 * c["unknown"] for c in rows])}, height=250,
                          xlabel="words in the list", ylabel="unknown, %",
                          alt="Words in the list, and unknown words in held-out French: "
                              + "; ".join(f"{c['words']:,}, {c['unknown']:.1%}" for c in counts) + ".",
                          caption=f"A list {many['words'] / few['words']:.0f} times as long leaves {many['unknown']:.1%} of the words "
                                  f"unknown instead of {few['unknown']:.1%}.")


def shortcuts_compared(shortcuts: Mapping[str, Mapping[str, float]], features: Sequence[str], samples: tuple[str, str]) -> figures.Picture:
    "Pronouns guessed right from single features in two samples, the first grey; shortcuts: feature -> sample -> share."
    colours = dict(zip(samples, (figures.GREY, figures.INK)))
    best = max(features, key=lambda feature: shortcuts[feature][samples[0]])
    told = "; ".join(f"{feature} {shortcuts[feature][samples[0]]:.2f} and {shortcuts[feature][samples[1]]:.2f}" for feature in features)
    return figures.bars({f"{feature}, {sample}": shortcuts[feature][sample] for feature in features for sample in samples},
                        colors={f"{feature}, {sample}": colours[sample] for feature in features for sample in samples},
                        xlabel="pronouns guessed right", alt=f"Guessed right, {samples[0]} and {samples[1]}: {told}.",
                        caption=f"The best of these shortcuts, the {best.removeprefix('the ')}, is right on {shortcuts[best][samples[0]]:.0%} of the "
                                f"sample “{samples[0]}” and on {shortcuts[best][samples[1]]:.0%} of “{samples[1]}”.")


def two_readers() -> figures.Picture:
    "The two RNN translators of chapter 23: one summary of the sentence, or a look at all its states for each word."
    sheet = figures.Drawing(350, 236)
    for top, look in ((-40, False), (94, True)):
        for j, word in enumerate(("it", "was", "tired")):
            x = 12 + 56 * j
            sheet.box(x, top + 62, 42, 26, "h" + "₁₂₃"[j], figures.ENCODER, figures.ENCODER)
            sheet.text(x + 21, top + 108, word)
            if j:
                sheet.arrow(x - 14, top + 70, x - 1, top + 70)
                sheet.arrow(x - 1, top + 80, x - 14, top + 80)
            if look:
                sheet.line(x + 21, top + 61, 252, top + 34, figures.BRIDGE, width=(0.8, 1.2, 4)[j])
        for t, word in enumerate(("il", "était", "fatigué")):
            x = 196 + 52 * t
            sheet.box(x - 4, top + 62, 40, 26, "s" + "₁₂₃"[t], figures.DECODER, figures.DECODER)
            sheet.text(x + 16, top + 108, word)
            if t:
                sheet.arrow(x - 16, top + 75, x - 5, top + 75)
        if look:
            sheet.arrow(252, top + 34, 310, top + 60, figures.BRIDGE)
            sheet.text(204, top + 22, "a look for each word", 11)
        else:
            sheet.arrow(167, top + 75, 190, top + 75, figures.BRIDGE)
            sheet.text(204, top + 54, "one summary", 11)
    return sheet.show(alt="Twice an encoder of three states that reads from both ends and a decoder of three states. Above, one "
                      "arrow leads from the one to the other; below, the state that says fatigué looks at all three, most at tired.",
                      caption="Above, one summary is all that the decoder gets; below, each word takes a look of its own.")


def padded(sentences: Sequence[str], orders: Mapping[str, Sequence[int]]) -> figures.Picture:
    "Sentences of words and an end, two to a batch, in several orders: words light, padding dark."
    lengths, told = [len(text.split()) + 1 for text in sentences], []
    for name, order in orders.items():
        ordered = [lengths[i] for i in order]
        places = sum(2 * max(ordered[k:k + 2]) for k in range(0, len(ordered), 2))
        told.append(f"{name.lower()}, {places - sum(ordered)} of {places} places are padding")
    found = "; ".join(told)
    return figures.heatmaps([dict(
        matrix=np.array([[lengths[i] > k for k in range(max(lengths))] for i in order]), title=f"{name} (dark: padding)",
        rows=[" ".join(sentences[i].split()[:2]) + " …" for i in order])
        for name, order in orders.items()], cmap="mask", alt=(
            f"{len(sentences)} sentences as rows, words light, the rest dark, two rows to a batch: {found}."),
        caption=f"{found[0].upper()}{found[1:]}.")


def killed_and_resumed(killed: int, saved: Sequence[int], end: int) -> figures.Picture:
    "A run with checkpoints at `saved` that is killed, and goes on from the last of them to `end`; and the lines of its log."
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
        for y, step in [(40, step) for step in saved] + [(100, step) for step in range(last + every, end + 1, every)]:
            drawing.box(at(step) - 10, y - 10, 20, 20, str(step), size=11, fill="#dddddd")
        drawing.arrow(at(last), 52, at(last), 96, dash=True).text(at(last) + 8, 76, "resume", anchor="start")
        drawing.text(left - 8, 150, "log", anchor="end")
        half = min(unit, 22) / 2
        for step in range(1, end + 1):
            drawing.box(at(step) - half, 140, 2 * half - 1, 20, str(step) if wide else "", size=11, dash=last < step <= killed)
            if not wide and step in (1, *saved, killed, end):
                drawing.text(at(step), 131, step, 11)
        drawing.text((at(last + 1) + at(killed)) / 2, 178, f"{last + 1} to {killed}: cut, then written again")
        return drawing.svg()

    return figures.Picture(figures.style.responsive(draw, figures.COLUMN), (
        f"A run goes to step {killed} with checkpoints at {', '.join(map(str, saved))} and is killed. It resumes at {last}; the "
        f"log's lines {last + 1} to {killed} are cut and written again."),
        f"Killed at step {killed}, the run goes on from the checkpoint of step {last}: {killed - last} lines of the log are written twice.")


class Prose:
    "Sentences made from numbers; a notebook shows them as text, not as output."
    def __init__(self, *texts: str):
        self.texts = texts

    def _repr_markdown_(self) -> str:
        return "\n\n".join(self.texts)

    def __repr__(self) -> str:
        return "\n".join(self.texts)


def over_clocks(table: Any, hands: Mapping[str, Any], alt: str, caption: str, annotate: bool = False, rows: Sequence[str] | None = None,
                ylabel: str = "") -> figures.Picture:
    """A table of signed numbers whose columns are pairs, sine and cosine of one clock each; under each pair stand its clocks.

    table: (T, 2 n). hands: name of a row of clocks -> n angles in radians, clockwise from twelve. annotate: the numbers in their
    cells, zeros left out. rows: words for the lines of the table; without them every tenth is numbered."""
    array = figures.style.as_array(table, float)
    (t, n), names = array.shape, [f"{i}" for i in range(array.shape[1] // 2)]

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        left, right = 78 if wide else 62, 4 if annotate else 34
        cell = (width - left - right) / n
        height = min(cell, 40) * t if annotate else 300
        radius = min(0.84 * cell, 24)
        step, top = 2 * radius + 10, 6
        bottom = top + height
        figure, axes = figures.panel(width, round(bottom + step * len(hands) + 44))
        figure.set_layout_engine("none")
        axes.set_position((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(round(bottom + step * len(hands) + 44), 0))
        axes.axis("off")
        most = float(np.abs(array).max()) or 1.0
        paints = matplotlib.colormaps["PuOr"]
        axes.imshow(array, cmap=paints, vmin=-most, vmax=most, extent=(left, width - right, bottom, top), aspect="auto",
                    interpolation="none")

        def word(x: float, y: float, text: str, ha: str = "center", colour: str = figures.INK, size: float = 11) -> None:
            axes.text(x, y, text, ha=ha, va="center", fontsize=size, color=colour)

        for (i, j), value in np.ndenumerate(array):
            if annotate and abs(value) >= 0.005:  # a zero is an empty cell
                word(left + (j + 0.5) * cell, top + (i + 0.5) * height / t, f"{value:.2f}",
                     colour=figures.style.ink_on(paints((value / most + 1) / 2)), size=11 if wide else 10)
        for i in range(t) if rows else range(0, t, 10):
            word(left - 6, top + (i + 0.5) * height / t, str(rows[i] if rows else i), "right", size=10.5)
        if ylabel:
            axes.text(12, top + height / 2, ylabel, rotation=90, ha="center", va="center", fontsize=11, color=figures.INK)
        for k, value in enumerate(() if annotate else (most, 0.0, -most)):  # the scale of colours
            word(width - 18, top + 8 + k * 15 + 18, f"{value:+.0f}" if value else "0", "left", size=10.5)
            axes.add_patch(Rectangle((width - right + 6, top + 21 + 15 * k), 8, 10, facecolor=paints((value / most + 1) / 2),
                                     edgecolor=figures.GREY, linewidth=0.8))
        for r, (name, angles) in enumerate(hands.items()):
            y = bottom + 8 + radius + step * r
            word(left - 6, y, name, "right", size=10.5)
            for i, angle in enumerate(np.asarray(angles, float)):
                x = left + (2 * i + 1) * cell
                axes.add_patch(Circle((x, y), radius, fill=False, edgecolor=figures.GREY, linewidth=1))
                axes.plot([x, x], [y - radius, y - 0.65 * radius], color=figures.GREY, linewidth=1)
                axes.plot([x, x + 0.86 * radius * np.sin(angle)], [y, y - 0.86 * radius * np.cos(angle)], color=figures.INK,
                          linewidth=1.8 if wide else 1.4, solid_capstyle="round")
        for i, name in enumerate(names):
            if wide or len(names) <= 8 or i % 5 == 0:
                word(left + (2 * i + 1) * cell, bottom + step * len(hands) + 16, name, size=10.5)
        word(left + n * cell / 2, bottom + step * len(hands) + 33, "clock")
        return figures.to_svg(figure, width)

    width = min(figures.COLUMN, 90 + 56 * n) if annotate else figures.COLUMN
    return figures.Picture(figures.style.responsive(draw, width), alt, caption)


def table_of_clocks(length: int, n: int, stops: Sequence[int]) -> figures.Picture:
    "The paper's encodings of `length` positions by `n` clocks, and under them the clocks at the positions in `stops`."
    rates = 10000.0 ** (-np.arange(n) / n)
    angles = np.arange(length)[:, None] * rates
    table = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, 2 * n)
    turns = rates * stops[-1] / (2 * np.pi)
    return over_clocks(
        table, {f"at {p}": rates * p for p in stops}, ylabel="position",
        alt=f"{length} positions by {2 * n} features: stripes that alternate fast on the left and slowly, then not at all, on the right. "
            f"Under them {n} clocks at positions {' and '.join(map(str, stops))}.",
        caption=f"Each pair of columns is one clock. By position {stops[-1]} clock 0 has turned {turns[0]:.1f} times and the last one "
                f"{360 * turns[-1]:.1f} degrees.")


def moved_by_layer(moved: Mapping[str, Any], words: Sequence[str], alike: Any) -> figures.Picture:
    """By how many percent each token's vector differs between two sentences, a row for each layer, the first before any layer.

    moved: layer -> (S,) percents. alike: (S,) booleans, True where both sentences have the same token."""
    rows = {name: figures.style.as_array(row, float) for name, row in moved.items()}
    same = figures.style.as_array(alike, bool)
    (_, start), (name, first), *_ = rows.items()
    told = "; ".join(f"{layer} {row[same].min():.1f} to {row[same].max():.1f}" for layer, row in rows.items())
    return figures.heatmap(
        np.stack(list(rows.values())), rows=list(rows), cols=words, annotate=True, fmt=".1f", vmin=0, vmax=5, bar=False, turned=True,
        alt=f"A row for each layer and a column for each token. Percent by which the tokens that both sentences share differ: {told}.",
        caption=f"Before any layer the shared words differ by at most {start[same].max():.1f}%; after {name} each of them differs, by "
                f"{first[same].min():.1f}% to {first[same].max():.1f}%.")


class Node(NamedTuple):
    "A candidate of a beam search: where it stands, whom it continues, what became of it, and its penalised score once it has finished."
    step: int
    rank: int
    parent: "Node | None"
    word: str
    log_p: float
    fate: str  # "open", "cut" or "done"
    score: float


def beam_nodes(steps: Sequence[Sequence[tuple[float, int, str]]], beam_size: int, length_penalty: float, end: str) -> list[list[Node]]:
    "The candidates of each step, best first, each with its fate: the best `beam_size` that haven't said `end` go on."
    found: list[list[Node]] = []
    open_: list[Node] = []
    for t, candidates in enumerate(steps):
        left, column = 0, []
        for rank, (log_p, beam, word) in enumerate(candidates):
            going = word != end and left < beam_size
            left += going
            fate = "done" if word == end and rank < beam_size else "open" if going and t < len(steps) - 1 else "cut"
            column.append(Node(t, rank, open_[beam] if t else None, word, log_p, fate, log_p / ((6 + t) / 6) ** length_penalty))
        open_ = [node for node in column if node.word != end][:beam_size]
        found.append(column)
    return found


def beam_tree(steps: Sequence[Sequence[tuple[float, int, str]]], beam_size: int, length_penalty: float = 0.6,
              end: str = "EOS") -> figures.Picture:
    """A beam search as a tree by step: kept solid, dropped dashed and pale, finished in a double box over its penalised score.

    steps: of each step the candidates, best first, as (log-probability so far, beam of the step before, word). On a phone the
    steps go down."""
    nodes = beam_nodes(steps, beam_size, length_penalty, end)
    done = sorted((node for column in nodes for node in column if node.fate == "done"), key=lambda node: -node.score)
    path: list[Node] = []
    at = done[0] if done else None
    while at is not None:
        path.insert(0, at)
        at = at.parent
    most = max(map(len, nodes))

    def draw(width: int) -> str:
        wide = width > figures.PHONE
        across, along = (len(nodes), most) if wide else (most, len(nodes))
        left, pitch, row = (4, (width - 8) / across, 58) if wide else (22, (width - 24) / across, 60)
        drawing, w = figures.Drawing(width, 34 + row * along), pitch - (12 if wide else 8)

        def corner(node: Node) -> tuple[float, float]:
            column, line = (node.step, node.rank) if wide else (node.rank, node.step)
            return left + pitch * column, 26 + row * line

        for t in range(len(nodes)):
            x, y = corner(nodes[t][0])
            drawing.text(x + w / 2 if wide else 9, 12 if wide else y + 16, t + 1, 12)
        for node in (node for column in nodes for node in column):  # lines first: boxes stand on them
            if node.parent is not None:
                (x1, y1), (x2, y2) = corner(node.parent), corner(node)
                ends = (x1 + w, y1 + 16, x2, y2 + 16) if wide else (x1 + w / 2, y1 + 32, x2 + w / 2, y2)
                drawing.line(*ends, figures.GREY if node.fate == "cut" else None, node.fate == "cut", 2.6 if node in path else 1.3)
        for node in (node for column in nodes for node in column):
            x, y = corner(node)
            cut, last = node.fate == "cut", len(drawing.parts)
            drawing.box(x, y, w, 32, "", "#dddddd" if node in path else "none", figures.GREY if cut else None, cut)
            ink = "#111111" if node in path else None
            drawing.text(x + w / 2, y + 10, node.word, max(9, min(11.5, 1.6 * w / max(len(node.word), 1))), color=ink).text(x + w / 2, y + 24, minus(node.log_p), 10, color=ink)
            if node.fate == "done":
                drawing.box(x - 3, y - 3, w + 6, 38).text(x + w / 2, y + 44, minus(node.score), 12, weight="bold")
            if cut:  # pale words, but still at 4.5 to the page
                drawing.parts[last:] = [part.replace("<text ", '<text opacity="0.7" ') for part in drawing.parts[last:]]
        return drawing.svg()

    told = "; ".join(f"'{ended(node)}' with {minus(node.score)}" for node in done)
    behind = next((node for node in path if node.rank and node.fate == "open"), None)
    ahead = nodes[behind.step][0].word if behind else ""
    return figures.Picture(
        figures.style.responsive(draw, figures.COLUMN),
        f"A tree of {len(nodes)} steps with up to {most} candidates each, {beam_size} of which go on. Finished, with their penalised "
        f"scores: {told or 'none'}.",
        (f"At step {behind.step + 1} '{behind.word}' is behind '{ahead}'. The beam keeps both, and '{ended(path[-1])}' wins "
         f"with {minus(path[-1].score)}." if behind else f"{len(done)} of the beginnings finished; the best of them was ahead at every step."))


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


# Chapter 15: words and pieces of words -----------------------------------------------------------------------------

def readable_piece(piece: str | bytes) -> str:
    "A piece as one reads it: ␣ for a space, hexadecimal digits for bytes that are no text."
    if isinstance(piece, bytes):
        try:
            piece = piece.decode("utf-8")
        except UnicodeDecodeError:
            return " ".join(f"{byte:02X}" for byte in piece)
    return piece.replace("\u0120", " ").replace(" ", "␣").replace("\n", "↵").replace("\t", "⇥")


def pieces(rows: Mapping[str, Sequence[str | bytes]], numbers: Mapping[str, Sequence[int]] | None = None) -> figures.Picture:
    "Tokens in boxes, a row for each name, with their `numbers` below them; \"\" as the only name leaves the names out."
    box = ('<span style="display:inline-flex;flex-direction:column;align-items:center;vertical-align:top;margin:2px 3px 2px 0">'
           '<span style="border:1px solid #888;border-radius:4px;padding:0 5px;font-family:var(--tl-code,monospace);font-size:13px;'
           'line-height:1.6;white-space:nowrap">{}</span>{}</span>')
    lines = []
    for name, row in rows.items():
        below = [f'<span style="font-size:11px;line-height:1.4">{n}</span>' for n in (numbers or {}).get(name, [])]
        cells = "".join(box.format(html.escape(readable_piece(piece)) or "&nbsp;", below[i] if i < len(below) else "")
                        for i, piece in enumerate(row))
        head = f'<span style="flex:0 0 auto;min-width:4.5em">{html.escape(name)}</span>' if name else ""
        lines.append(f'<div style="display:flex;flex-wrap:wrap;gap:0 10px;align-items:baseline;margin:3px 0">{head}<span>{cells}</span></div>')
    return figures.Picture(f'<div style="font-size:14px">{"".join(lines)}</div>', None)


def points_lost(left: Mapping[tuple[str, int, int], float], whole: float) -> figures.Picture:
    """A dot for each head, layer by head: its colour and number are the points of right answers lost when it alone is off.

    left: (kind, layer, head), from 0 -> the share that is right without it; whole: the share with all heads."""
    lost = {place: 100 * (whole - share) for place, share in left.items()}
    kinds = list(dict.fromkeys(kind for kind, _, _ in sorted(lost, key=lambda place: place[0] != "encoder")))
    layers, heads = 1 + max(layer for _, layer, _ in lost), 1 + max(head for _, _, head in lost)
    scale, wide = max(5.0, *lost.values()), 36 * heads + 26  # a loss of little is not to look like much
    sheet = figures.Drawing(30 + wide * len(kinds), 66 + 36 * layers)
    for layer in range(layers):
        sheet.text(48, 46 + 36 * layer, f"layer {layer + 1}", 11, "end")
    for head in range(heads * len(kinds)):
        sheet.text(74 + 36 * head + 26 * (head // heads), 42 + 36 * layers, head % heads + 1, 11)
    for k, kind in enumerate(kinds):
        sheet.text(56 + wide * k + 18 * heads, 12, kind, 12, weight="bold").text(56 + wide * k + 18 * heads, 58 + 36 * layers, "head", 11)
    for (kind, layer, head), points in lost.items():
        x, y = 74 + wide * kinds.index(kind) + 36 * head, 46 + 36 * layer
        fill, ink = square_colours(max(points, 0) / scale, "cividis")
        sheet.parts.append(f'<circle cx="{x}" cy="{y}" r="15" fill="{fill}" stroke="currentColor"/>')
        sheet.text(x, y, f"{points:.1f}".replace("-0.0", "0.0"), 10.5, color=ink)
    kind, layer, head = worst = max(lost, key=lost.__getitem__)
    free = sum(points < 0.5 for points in lost.values())
    return sheet.show(
        caption=f"{free} of {len(lost)} heads can be switched off alone at a cost of less than half a point; the dearest, head {head + 1} of "
                f"{kind} layer {layer + 1}, costs {lost[worst]:.1f}.",
        alt=f"A dot for each head of {' and '.join(kinds)}, a row for each layer; the number in it says how many points are lost without it, "
            f"{min(lost.values()):.1f} to {lost[worst]:.1f}.")


def shift_by(steps: int, matrix: Any, turns: Sequence[float]) -> figures.Picture:
    "The matrix that moves every encoding on by so many steps, (2 n, 2 n), and below it the turn of each of its n clocks, in radians."
    array = figures.style.as_array(matrix, float)
    outside = np.abs(array * (1 - np.kron(np.eye(len(turns)), np.ones((2, 2))))).max()
    return over_clocks(
        array, {f"turn by {steps}": turns}, annotate=True, rows=[f"{name} {i}" for i in range(len(turns)) for name in ("sin", "cos")],
        alt=f"A matrix with {len(turns)} two-by-two rotations on its diagonal, the slow ones close to the identity. Under each stands "
            "a clock with its turn.",
        caption=f"Moving on by {steps} turns each clock by its own angle: " + ", ".join(f"{np.degrees(a):.1f}°" for a in turns)
                + f". Outside the blocks no entry exceeds {outside:.0e}.")


def windows_read(right: Any, alike: Any, guess: float) -> figures.Picture:
    "Share right in sentences by the position at which they start, and the likeness of their scores to those at 0: (seeds, starts) each."
    lines = {"share right": figures.spread(right), "likeness": figures.spread(alike)}
    mean, like = (entry[1] for entry in lines.values())
    return figures.curves(
        lines, xlabel="first position", hline=(guess, "a guess"),
        alt="Share right in sentences of 16 words, and likeness of their scores, mean of the seeds, at first positions 0, 10 and so on: "
            f"{figures.heights(lines, *range(0, len(mean), 10))}.",
        caption=f"Share right and likeness of the scores have a correlation of {np.corrcoef(mean, like)[0, 1]:.2f}: {mean[44]:.0%} are right "
                f"in sentences that start at 44, {mean[50]:.0%} at 50.")


def joined_clocks(pairs: Any) -> figures.Picture:
    "How much each pair of clocks counts, (n, n), a row for each clock of the query."
    array = figures.style.as_array(pairs, float)
    names, rest = [f"clock {i}" for i in range(len(array))], array[1:, 1:]
    others = rest[~np.eye(len(rest), dtype=bool)].mean()
    return figures.heatmap(
        array, rows=names, cols=names, annotate=True, vmin=0, vmax=1, xlabel="key", ylabel="query",
        alt="Size of the blocks that join a clock of the query with a clock of the key, mean of three seeds, by rows: "
            + "; ".join(", ".join(f"{n:.2f}" for n in row) for row in array) + ".",
        caption=f"Clock 0 with itself counts {array[0, 0]:.2f}. On average the other clocks count {others:.2f} with one another and "
                f"{np.mean([*array[0, 1:], *array[1:, 0]]):.2f} with clock 0.")


def residual_or_none(depths: Sequence[int], slopes: Mapping[bool, Any], trained: Sequence[int], right: Mapping[bool, Any]) -> figures.Picture:
    """Stacks with residuals (True) and without (False), two panels.

    slopes: gradient at the words before the first step, (seeds, depths); right: share learned, (seeds, trained depths)."""
    names = {True: "residual", False: "none"}
    left, after = ({names[r]: figures.spread(found[r], at) for r in names} for found, at in ((slopes, depths), (right, trained)))
    return figures.curve_panels(
        [{"series": left, "title": "Gradient at the words", "xlabel": "layers", "logy": True},
         {"series": after, "title": "Share learned in 150 steps", "xlabel": "layers", "hline": (1 / 8, "guessing")}],
        colors={"none": figures.FAULT}, styles={"none": "--"},
        alt=f"Left: gradient at the words at {depths[0]} and at {depths[-1]} layers: "
            f"{figures.heights(left, depths[0], depths[-1], fmt='{:.0e}')}. Right: share learned at {trained[0]} and at {trained[-1]} layers: "
            f"{figures.heights(after, trained[0], trained[-1])}.",
        caption=f"Through {trained[-1]} layers the stack learns {after['residual'][1][-1]:.0%} of the phrases with residuals and "
                f"{after['none'][1][-1]:.0%} without.")


def post_or_pre(by_layer: Mapping[str, Any], losses: Mapping[float, Mapping[str, Any]]) -> figures.Picture:
    """Both orders of the norm, three panels: first gradients by layer, and losses by step at each learning rate.

    by_layer: "post-norm" and "pre-norm" -> (seeds, layers); losses: rate -> setting -> (seeds, steps)."""
    layers = len(by_layer["post-norm"][0])
    lines = {name: figures.spread(runs, range(1, layers + 1)) for name, runs in by_layer.items()}
    means = {rate: {name: np.asarray(runs)[:, -10:].mean() for name, runs in settings.items()} for rate, settings in losses.items()}
    told = {rate: ", ".join(f"{name} {mean:.2f}" for name, mean in ends.items()) for rate, ends in means.items()}
    highest = max(losses)
    return figures.curve_panels(
        [{"series": lines, "title": "Gradient at the start", "xlabel": f"layer of {layers}"},
         *({"series": {name: figures.spread(runs) for name, runs in settings.items()}, "title": f"Six layers, rate {rate}",
            "xlabel": "step", "ylabel": "loss (nats)"} for rate, settings in losses.items())],
        alt=f"Gradient at layer 1 and at layer {layers}: {figures.heights(lines, 1, layers)}. Loss over the last ten steps, mean of the seeds: "
            + "; ".join(f"rate {rate}, {ends}" for rate, ends in told.items()) + ".",
        caption=f"The last layer's first gradient is {lines['post-norm'][1][-1] / lines['pre-norm'][1][-1]:.1f} times as large under "
                f"post-norm. Loss at the end, rate {highest}: {told[highest]}.")


def leaning_on(shares: Any, readers: Sequence[str], words: Sequence[str], at: str) -> figures.Picture:
    "Shares of the words in the gradient of a score at one of them, a row for each reader; the caption follows the last word."
    array = figures.style.as_array(shares, float)
    told = "; ".join(f"{name}: " + ", ".join(f"{word} {share:.2f}" for word, share in zip(words, row)) for name, row in zip(readers, array))
    return figures.heatmap(
        array, rows=readers, cols=words, annotate=True, vmin=0, vmax=float(array.max()), bar=False,
        alt=f"Shares of the gradient, a row for each of {len(readers)} readers. {told}.",
        caption=f"Share of {words[-1]} in the gradient at {at}: " + ", ".join(f"{name} {row[-1]:.0%}" for name, row in zip(readers, array)) + ".")


def who_reads(target: Any, source: Any, rows: Sequence[str], cols: Sequence[str]) -> figures.Picture:
    "What each row of a decoder layer reads: booleans over the target, (T, T), and over the source, (T, S)."
    of_source = figures.style.as_array(source, bool)
    ahead = int(np.triu(figures.style.as_array(target, bool), 1).sum())
    return figures.heatmaps(
        [{"matrix": target, "title": "Reads of the target", "xlabel": "target word", "ylabel": "output row", "cols": rows, "rows": rows},
         {"matrix": source, "title": "Reads of the source", "xlabel": "source word", "cols": cols, "rows": rows}], cmap="mask",
        alt="Light cells are read. Of the target a lower triangle, plus each padded row reading itself through its residual; of the source "
            "the words before the padding.",
        caption=f"Every row reads {of_source.all(0).sum()} of the {len(cols)} source words, and no row reads the other "
                f"{(~of_source.any(0)).sum()}. {ahead or 'No'} target word is read from further left.")


def known_and_found(known: Any, weights: Any, rows: Sequence[Any], cols: Sequence[Any], fixed: Any) -> figures.Picture:
    """The known alignment beside the weights of a bridge, (T, S) each.

    fixed: (T,) booleans, True where the next word follows from the last one and needs no source."""
    truth, found, sure = (figures.style.as_array(one, float) for one in (known, weights, fixed))
    hit, sure = found.argmax(1) == truth.argmax(1), sure > 0
    return figures.heatmaps(
        [{"matrix": matrix, "title": title, "xlabel": "source word", "ylabel": "word to be written", "rows": rows, "cols": cols}
         for matrix, title in ((truth, "Known alignment"), (found, "Layer 2"))], vmin=0, vmax=1,
        alt="Target words against source words: the known alignment, and the weights of the second decoder layer. Weight on the aligned "
            "word, row by row: " + ", ".join(f"{word} {w:.2f}" for word, w in zip(rows, (found * truth).sum(1))) + ".",
        caption=f"The aligned word has the most weight in {hit[~sure].sum()} of {(~sure).sum()} rows that need the source, and in "
                f"{hit[sure].sum()} of {sure.sum()} whose word is fixed.")


def ways_apart(scores: Mapping[str, float], base: str) -> figures.Picture:
    "One output scored in several ways: the points of each above the way called `base`."
    above = {way: score - scores[base] for way, score in scores.items()}
    return figures.bars(above, fmt="{:+.1f}", xlabel=f"BLEU points above {base}",
                        caption=f"One output, {len(scores)} ways to score it: BLEU {min(scores.values()):.1f} to {max(scores.values()):.1f}.",
                        alt=f"A bar for each way, as long as the points above {base}: "
                            + ", ".join(f"{way} {more:+.1f}" for way, more in above.items()) + ".")
