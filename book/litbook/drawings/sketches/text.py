"""Chapters 15 to 17: words, pieces of words, patterns and pairs of sentences."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any


from litbook import figures
from litbook.prose import Prose, in_a_row


def filled_slots(parts: Sequence[tuple[str, str, str]]) -> figures.Picture:
    """One side of a pattern in three rows: each slot, the words that fill it, and the words after
    elision, dashed where they changed."""
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
    return sheet.show(
        alt=(
            "A pattern in three rows: slots, the words that fill them, and the same words after"
            f" elision, where {changed}."
        ),
        caption=f"Elision looks at the next word: {changed.replace(' became ', ' becomes ')}.",
    )


def word_links(
    english: Sequence[str], french: Sequence[str], links: Collection[tuple[int, int]]
) -> figures.Picture:
    """English words on the left, French ones on the right, and a line for each link; `links` are
    (English, French) places."""
    told = [
        f"{word} with {' and '.join(french[j] for k, j in sorted(links) if k == i)}"
        for i, word in enumerate(english)
        if any(k == i for k, _ in links)
    ]
    drawn = [[0.3 * ((i, j) in links) for j in range(len(french))] for i in range(len(english))]
    several = [word for i, word in enumerate(english) if sum(k == i for k, _ in links) > 1]
    return figures.attention_lines(
        drawn,
        english,
        french,
        heads=("English", "French"),
        alt="English words, French words, lines between those that are linked: "
        + ", ".join(told)
        + ".",
        caption=(
            f"{len(told)} English words have {len(links)} links; {in_a_row(several) or 'none'} "
            f"{'has' if len(several) == 1 else 'have'} more than one."
        ),
    )


def dealt_out(parts: Mapping[str, Sequence[tuple[str, str]]]) -> figures.Picture:
    "Pairs of sentences, and an arrow from each to the part of a split that it went to."
    rows = [(pair, k) for k, pairs in enumerate(parts.values()) for pair in pairs]
    sheet = figures.Drawing(340, 41 + 27 * len(rows))
    middles = [
        34 + 27 * sum(i for i, (_, n) in enumerate(rows) if n == k) / len(pairs)
        for k, pairs in enumerate(parts.values())
    ]
    for i, ((english, other), k) in enumerate(rows):
        sheet.text(12, 34 + 27 * i, english, 12, "start")
        sheet.text(70, 34 + 27 * i, other, 12, "start").arrow(176, 34 + 27 * i, 226, middles[k])
    sheet.text(12, 12, "pairs", 11, "start", weight="bold").text(
        230, 12, "one part each", 11, "start", weight="bold"
    )
    for k, name in enumerate(parts):
        sheet.box(230, middles[k] - 14, 100, 28, name, "#dddddd" if k == 0 else "none")
    told = [
        f"{name} gets {len(pairs)} of {', '.join(dict.fromkeys(english for english, _ in pairs))}"
        for name, pairs in parts.items()
    ]
    groups = len({english.casefold().rstrip(" .!?…") for (english, _), _ in rows})
    return sheet.show(
        alt=f"{len(rows)} pairs, dealt out by their English: {'; '.join(told).rstrip('.')}.",
        caption=(
            f"{len(rows)} pairs of {groups} English sentences: all pairs of one sentence go to one"
            " part."
        ),
    )


def words_and_pieces(
    length: Mapping[int, float], words: float, ceiling: Sequence[Mapping[str, Any]]
) -> figures.Picture:
    """What byte pairs cost and what they save, two panels by size of the vocabulary.

    length: size -> tokens per unseen sentence; words: words per sentence; ceiling: rows with
    `words`, the size of a list of words, and `sentences lost, %`."""
    rows, sizes = list(ceiling)[::-1], list(length)
    told = "; ".join(f"{n:,}, {length[n]:.1f}" for n in sizes)
    lost = "; ".join(f"{row['words']:,}, {row['sentences lost, %']:.0f}%" for row in rows)
    return figures.curve_panels(
        [
            {
                "series": {"byte pairs": (sizes, list(length.values()))},
                "title": "Length of an unseen sentence",
                "xlabel": "vocabulary",
                "ylabel": "tokens",
                "hline": (words, "words"),
            },
            {
                "series": {
                    "words": (
                        [row["words"] for row in rows],
                        [row["sentences lost, %"] for row in rows],
                    ),
                    "byte pairs": (sizes, [0 for _ in sizes]),
                },
                "title": "Sentences with an unknown word",
                "xlabel": "vocabulary",
                "ylabel": "%",
            },
        ],
        colors={"byte pairs": figures.INK, "words": figures.GREY},
        caption=(
            f"With a vocabulary of {sizes[-1]:,} an unseen sentence has {length[sizes[-1]]:.1f}"
            f" tokens and not {words:.1f} words, and nothing is lost; lists of words lose"
            f" {rows[-1]['sentences lost, %']:.1f}% to {rows[0]['sentences lost, %']:.1f}% of the"
            " French sentences."
        ),
        alt=(
            f"Tokens in an unseen sentence, by size of the vocabulary: {told}; words: {words:.1f}."
            f" Unseen French sentences with an unknown word, by words in the list: {lost}; byte"
            " pairs: 0% at any size."
        ),
    )


def unknown_by_size(counts: Sequence[Mapping[str, Any]]) -> figures.Picture:
    """Share of unknown words by the size of a list of words; rows with `words` and `unknown`, a
    share."""
    rows = sorted(counts, key=lambda row: row["words"])
    few, many = rows[0], rows[-1]
    return figures.curves(
        {"unknown, %": ([c["words"] for c in rows], [100 * c["unknown"] for c in rows])},
        height=250,
        xlabel="words in the list",
        ylabel="unknown, %",
        alt="Words in the list, and unknown words in held-out French: "
        + "; ".join(f"{c['words']:,}, {c['unknown']:.1%}" for c in counts)
        + ".",
        caption=(
            f"A list {many['words'] / few['words']:.0f} times as long leaves {many['unknown']:.1%}"
            f" of the words unknown instead of {few['unknown']:.1%}."
        ),
    )


def shortcuts_compared(
    shortcuts: Mapping[str, Mapping[str, float]], features: Sequence[str], samples: tuple[str, str]
) -> figures.Picture:
    """Pronouns guessed right from single features in two samples, the first grey; shortcuts:
    feature -> sample -> share."""
    colours = dict(zip(samples, (figures.GREY, figures.INK)))
    best = max(features, key=lambda feature: shortcuts[feature][samples[0]])
    told = "; ".join(
        f"{feature} {shortcuts[feature][samples[0]]:.2f} and {shortcuts[feature][samples[1]]:.2f}"
        for feature in features
    )
    return figures.bars(
        {
            f"{feature}, {sample}": shortcuts[feature][sample]
            for feature in features
            for sample in samples
        },
        colors={
            f"{feature}, {sample}": colours[sample] for feature in features for sample in samples
        },
        xlabel="pronouns guessed right",
        alt=f"Guessed right, {samples[0]} and {samples[1]}: {told}.",
        caption=(
            f"The best of these shortcuts, the {best.removeprefix('the ')}, is right on"
            f" {shortcuts[best][samples[0]]:.0%} of the sample “{samples[0]}” and on"
            f" {shortcuts[best][samples[1]]:.0%} of “{samples[1]}”."
        ),
    )


def without_rare_words(counts: Sequence[Mapping[str, Any]]) -> Prose:
    """What leaving out words seen once does to a list of words, in a sentence; rows with
    `at_least`, `words` and `unknown`, a share."""
    one, two = ({row["at_least"]: row for row in counts}[n] for n in (1, 2))
    return Prose(
        f"Leaving out words seen once shortens the list from {one['words']:,} to {two['words']:,}"
        f" words. The share of unknown words rises from {one['unknown']:.1%} to"
        f" {two['unknown']:.1%}."
    )


def numbered_words(
    text: str, words: Sequence[str], ids: Sequence[int], unknown: int
) -> figures.Picture:
    """A sentence, the words that it is cut into, and the number of each; the box of the `unknown`
    number is dashed."""
    sheet = figures.Drawing(20 + 80 * len(words), 150)
    for i, (word, n) in enumerate(zip(words, ids)):
        x = 14 + 80 * i
        sheet.box(x, 40, 70, 26, word).arrow(x + 35, 66, x + 35, 96)
        sheet.box(x, 98, 70, 26, str(n), dash=n == unknown)
    sheet.text(40 * len(words), 18, text, 13, weight="bold")
    lost = [word for word, n in zip(words, ids) if n == unknown]
    return sheet.show(
        alt=f"The sentence “{text}” is cut, and each part has a number: "
        + ", ".join(f"{word} {n}" for word, n in zip(words, ids))
        + (f"; a dashed box for each {unknown}." if lost else "."),
        caption=(
            f"The number {unknown}, of the unknown word, stands for"
            f" {in_a_row([f'“{word}”' for word in lost])}."
            if lost
            else "No word is unknown."
        ),
    )


def growing_word(grown: Mapping[Sequence[str], int]) -> figures.Picture:
    """A word from its bytes to one token, a row for each new cut and after how many merges; what a
    merge made is coloured."""
    cuts = list(grown)
    sheet = figures.Drawing(84 + 36 * max(map(len, cuts)), 44 * len(cuts) + 8)
    for i, (cut, n) in enumerate(grown.items()):
        x, y = 70.0, 8 + 44 * i
        sheet.text(60, y + 13, f"{n} merges" if n else "bytes", 11, "end")
        for token in cut:
            width, new = 36 * len(token) - 6, bool(i) and token not in cuts[i - 1]
            sheet.box(
                x,
                y,
                width,
                26,
                token.replace(" ", "␣"),
                size=13,
                fill=figures.DECODER if new else "none",
            )
            if new:
                sheet.line(x + 15, y - 18, x + width / 2, y).line(
                    x + width - 15, y - 18, x + width / 2, y
                )
            x += 36 * len(token)
    last, n = cuts[-1], list(grown.values())[-1]
    return sheet.show(
        alt=(
            f"“{''.join(last).strip()}” grows from {len(cuts[0])} bytes to {len(last)}"
            f" token{'s' * (len(last) > 1)}: in each row two neighbours, joined by lines, become"
            " one box. "
        )
        + "; ".join(
            f"after {n} merges {' '.join(token.replace(' ', '␣') for token in cut)}"
            for cut, n in grown.items()
        )
        + ".",
        caption=(
            f"“{''.join(last).strip()}” and its space are {len(cuts[0])} bytes at first, and one"
            f" token after {n} merges of the whole text."
        ),
    )


def joint_use(share: Mapping[str, int]) -> figures.Picture:
    """How many tokens of a joint vocabulary each language uses: `English only`, `both`, `French
    only` and `neither`."""
    size = sum(share.values())
    return figures.bars(
        dict(share),
        fmt="{:.0f}",
        xlabel="tokens of the joint vocabulary",
        alt=f"Of {size:,} joint tokens: "
        + ", ".join(f"{name} {n:,}" for name, n in share.items())
        + ".",
        caption=(
            f"{share['both'] / size:.0%} of the joint list is used by both languages, and"
            f" {share['neither']} of its tokens by neither."
        ),
    )
