"""Every kind of drawing: what it says is in tests/drawings.txt, its numbers are those it was given,
and nothing on it overlaps.

After an edit of a caption, a description or the words on a drawing: python tests/test_drawings.py
writes that file anew."""

import html
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

from litbook import figures, prose
from litbook.drawings import ch01, ch02, ch03, ch04, ch05, ch09, ch12, ch13, ch15
from litbook.live import looks

SNAPSHOT = Path(__file__).with_name("drawings.txt")
EYE = torch.eye(4)
WEIGHTS = torch.tensor([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [0.6, 0.2, 0.2]])
TREE = {
    "": {"elle": 0.55, "il": 0.45},
    "elle": {"large": 0.4, "étroite": 0.35, "fatiguée": 0.25},
    "il": {"fatigué": 0.9, "grand": 0.1},
}
BEAM = [
    [(-0.5, 0, "elle"), (-0.8, 0, "il"), (-9.0, 0, "on"), (-9.5, 0, "EOS")],
    [(-0.9, 1, "fatigué"), (-1.5, 0, "large"), (-1.6, 0, "étroite"), (-1.9, 1, "EOS")],
    [(-0.9, 0, "EOS"), (-1.5, 1, "EOS"), (-3.0, 0, "et"), (-3.1, 1, "et")],
]
PARAMETERS = {
    "embedding": 4e6,
    "encoder attention": 8e6,
    "decoder attention": 8e6,
    "cross-attention": 8e6,
    "LayerNorm": 4e4,
    "feed-forward": 3e7,
}
SENTENCES = ["a", "b c d", "e", "f g h"]
ORDERS = {"As they come": (0, 1, 2, 3), "Sorted": (0, 2, 1, 3)}
QUARTER = {"one": np.array([0.0, np.pi / 2])}
RUNS = {
    "built": ([1, 5], [5.0, 2.0]),
    "ours": ([1, 2, 3], [4.0, 2.0, 3.0]),
    "ours, again": ([2, 3], [1.0, 1.0]),
}


def masked():
    padding, causal = torch.tensor([True, True, False]), torch.ones(3, 3).tril() == 1
    return ch03.two_masks("a b pad".split(), padding, causal)


def halves():
    x = torch.arange(12).view(3, 4)
    return ch04.heads_apart(x, x.unflatten(-1, (2, 2)).transpose(0, 1))


# a picture, and the numbers of its caption and description that are not drawn but reckoned
DRAWINGS = {
    "unrolled": (
        lambda: ch01.unrolled("a b c d".split(), torch.arange(12.0).view(4, 3) / 8),
        "4 3",
    ),
    "rnn and attention": (lambda: ch01.rnn_and_attention("a b c".split()), ""),
    "query key value": (
        lambda: ch02.query_key_value(
            *("dog", torch.tensor([0.0, 1, 0, 1]), (2 * EYE, EYE, 3 * EYE)),
            *("cat", torch.tensor([0.0, 1, 0, 3])),
        ),
        "4",
    ),
    "attention sheet": (
        lambda: ch02.attention_sheet(
            "a b c".split(), [EYE[:3]] * 3, 4 * EYE[:3, :3], WEIGHTS, WEIGHTS @ EYE[:3]
        ),
        "",
    ),
    "two masks": (masked, "5 9"),
    "heads apart": (halves, ""),
    "a table over clocks": (
        lambda: ch05.over_clocks(
            np.array([[0.0, 1, 1, 0]]), QUARTER, "One row of two clocks.", "Found.", ["here"]
        ),
        "",
    ),
    "parameter areas": (lambda: ch09.parameter_areas(PARAMETERS, layers=2), "58 52 30 7 41"),
    "padded batches": (lambda: ch12.padded(SENTENCES, ORDERS), "16 0 12"),
    "word tree": (lambda: ch13.word_tree(TREE, "parce qu'"), ""),
    "staying": (lambda: ch13.staying({"one": 2, "two": 5, "three": 3}), "15 10"),
    "beam tree": (lambda: ch13.beam_tree(BEAM, 2), "4"),
    "numbered words": (
        lambda: ch15.numbered_words("a b !", ["a", "b", "!", "<eos>"], [4, 3, 3, 2], unknown=3),
        "",
    ),
    "growing word": (
        lambda: ch15.growing_word({(" ", "a", "b"): 0, (" ", "ab"): 3, (" ab",): 12}),
        "0 1",
    ),
    "attention lines": (
        lambda: figures.attention_lines(
            [[0.9, 0.1], [0.0, 1.0]], ["il", "est"], ["it", "is"], "Two words look at two.", "Two."
        ),
        "",
    ),
    "validation by epoch": (
        lambda: prose.validation_by_epoch(RUNS, reference="built", fault="ours"),
        "",
    ),
    "curves": (
        lambda: figures.curves(
            {"a": [1, 2, 4], "b": [3, 2, 4], "c": [4, 4, 4]}, xlabel="step", ylabel="loss"
        ),
        "",
    ),
    "bars": (
        lambda: figures.bars({"one": 1.0, "two": (2.0, 1.8, 2.3)}, fmt="{:.1f}", xlabel="share"),
        "",
    ),
    "heat maps": (
        lambda: figures.heatmaps(
            [{"matrix": WEIGHTS.repeat(1, 3), "title": name} for name in ("left", "right")],
            "Two maps of three rows.",
            rows="it was too".split(),
            annotate=True,
        ),
        "",
    ),
    "architecture": (figures.architecture, ""),
}
EACH = pytest.mark.parametrize("name", DRAWINGS)


def desk(picture):
    return picture.html.split('class="tl-phone"')[0]


def words(picture):
    return [html.unescape(word) for word in re.findall(r">([^<>]+)</text>", desk(picture))]


def numbers(text):
    return {float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)}


def described(name):
    picture = DRAWINGS[name][0]()
    lines = {"alt": picture.alt, "caption": picture.caption, "words": " | ".join(words(picture))}
    return "".join([f"[{name}]\n", *(f"{what}: {text}\n" for what, text in lines.items())])


@EACH
def test_what_it_says_is_what_was_approved(name):
    approved = re.split(r"^(?=\[)", SNAPSHOT.read_text(encoding="utf-8"), flags=re.M)
    assert described(name) in approved, f"{name!r} says something else; see the file's head"


@EACH
def test_its_numbers_come_from_the_data(name):
    picture, reckoned = DRAWINGS[name][0](), numbers(DRAWINGS[name][1])
    drawn = numbers(" ".join(words(picture)))
    assert numbers(f"{picture.alt} {picture.caption}") - drawn == reckoned


@EACH
def test_it_has_a_description_and_a_caption(name):
    picture = DRAWINGS[name][0]()
    label = html.unescape(re.search(r'role="img" aria-label="([^"]*)"', picture.html)[1])
    assert label == picture.alt and "</figcaption>" in picture.html


def placed(svg):
    "(left, top, right, bottom, words) of each flat text, its letters half as wide as high."
    for attributes, text in re.findall(r"<text ([^>]*)>([^<]+)", svg):
        if re.search(r"rotate\(-?[1-9]", attributes):
            continue
        size = float(re.search(r'font-size[:=] ?"?([\d.]+)', attributes)[1])
        x, y = (float(re.search(rf'\b{axis}="([-\d.]+)', attributes)[1]) for axis in "xy")
        anchor = re.search(r'text-anchor[:=] ?"?(\w+)', attributes)
        wide = 0.5 * size * len(html.unescape(text))
        left = x - wide * {"start": 0, "middle": 0.5, "end": 1}[anchor[1] if anchor else "start"]
        middle = y if "central" in attributes else y - 0.35 * size
        yield left, middle - 0.35 * size, left + wide, middle + 0.35 * size, text


def collisions(page):
    for svg in re.findall(r"<svg.*?</svg>", page, re.S):
        x, y, width, height = map(float, re.search(r'viewBox="([^"]+)"', svg)[1].split())
        texts = list(placed(svg))
        for left, top, right, bottom, text in texts:
            if left < x - 1 or top < y or right > x + width + 1 or bottom > y + height:
                yield f"{text} lies outside the sheet"
        for a, b in combinations(texts, 2):
            if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]:
                yield f"{a[4]} and {b[4]} collide"


@EACH
def test_nothing_overlaps_at_a_desk_or_on_a_phone(name):
    assert not list(collisions(DRAWINGS[name][0]().html))


@pytest.mark.parametrize("x, count", [(60, 1), (80, 0), (95, 1)])
def test_an_overlap_would_be_seen(x, count):
    sheet = figures.Drawing(100, 30).text(50, 15, "four").text(x, 15, "four")
    assert len(list(collisions(sheet.svg()))) == count


# What words can't tell ----------------------------------------------------------------------------


def test_areas_are_in_proportion():
    picture = DRAWINGS["parameter areas"][0]()
    parts = PARAMETERS | dict.fromkeys(("encoder feed-forward", "decoder feed-forward"), 1.5e7)
    names = [word for word in words(picture) if word in parts]
    box = r'<rect [^>]*width="([\d.]+)" height="([\d.]+)"'
    areas = [float(w) * float(h) for w, h in re.findall(box, picture.html)]
    for name, area in zip(names, areas, strict=True):
        assert area / areas[0] == pytest.approx(parts[name] / parts[names[0]], rel=1e-3)


@pytest.mark.parametrize(
    "name, mark, count",
    [
        ("two masks", "#e8e8e8", 6 + 6 + 5),
        ("two masks", "#666666", 3 + 3 + 4),
        ("staying", "stroke-dasharray", 2),
        ("numbered words", "stroke-dasharray", 2),
        ("validation by epoch", figures.FAULT.lower(), 2),
    ],
)
def test_what_is_marked(name, mark, count):
    "Open and closed pairs, work that is saved, unknown words, faults."
    marks = desk(DRAWINGS[name][0]()).count(mark)
    assert marks == count, f"{name!r} marks {marks} places"


def test_a_line_of_attention_is_as_thick_as_its_weight():
    page = DRAWINGS["attention lines"][0]().html
    widths = [float(width) for width in re.findall(r'stroke-width="([\d.]+)"', page)]
    assert np.argsort(widths).tolist() == [1, 0, 2]  # weights 0.9, 0.1 and 1; 0 draws nothing


def test_candidates_continue_the_beams_that_went_on():
    steps = [
        BEAM[0],
        [(-0.9, 0, "EOS"), (-1.0, 1, "fatigué"), (-1.5, 0, "large"), (-2.0, 0, "x")],
        [(-1.1, 0, "EOS"), (-1.6, 1, "EOS")],
    ]
    answers = [[answer for *_, answer, _ in row] for row in looks.followed(steps, 2, "EOS")]
    assert answers[1] == [["elle"], ["il", "fatigué"], ["elle", "large"], ["elle", "x"]]
    assert answers[2] == [["il", "fatigué"], ["elle", "large"]]  # an end makes room


def test_pieces_stand_in_boxes_over_their_numbers():
    pieces = {"it's <b>": ["it", "Ġs", "\n"], "": [b"\xc3\xa9", b"\xc3"]}
    page = prose.token_boxes(pieces, {"it's <b>": [7, 8]}).html
    shown = [html.unescape(text) for text in re.findall(r">([^<>]+)</span>", page)]
    assert shown == ["it's <b>", "it", "7", "␣s", "8", "↵", "é", "C3"]


if __name__ == "__main__":
    SNAPSHOT.write_text("".join(map(described, DRAWINGS)), encoding="utf-8")
