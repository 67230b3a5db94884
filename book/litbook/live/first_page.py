"""The first page: the running sentence as the book's small translator says it, and four sentences
as each of the two shipped ones does.

What is recorded here when the page is built, `book/web/static/first.js` does again in the page, on
any sentence, once its reader has asked for it."""

import html
from typing import Any

from torch import Tensor

from transformer_lit.attention_maps import piece_names, read_pairs
from transformer_lit.pocket import PocketPair, frames, it_nouns
from transformer_lit.tokens import split_words
from transformer_lit.translation import Translator

from transformer_lit.serving.confidence import Calibration, load_calibration, translate_with_scores
from transformer_lit.corpora.files import shipped
from litbook.live.pages import attribute, compact, filled
from litbook.word_maps import cross_weights, maps_of

RUNNING = "The animal didn't cross the street because it was too {}."
WORDS = ("tired", "wide")
FAINT = 0.15  # a thinner link than this isn't drawn
RECORDED = (
    "I left my umbrella on the train again.",
    "She will call you when she arrives at the station.",
    "The animal didn't cross the street because it was too tired.",
    "I live in Lyon.",
)
SHIPPED = {
    "tatoeba-fr": "everyday sentences",
    "mixture-fr": "captions, news, law and manuals too",
}  # what each of the two has read
DOUBT = 45  # an answer that may be expected to have less chrF is greyed
# of the shipped translators' cross-attention, the one whose mean of heads aligns best:
# tests/test_first_page.py
LAYER = 1


def looks_of(translator: Any, adjective: str) -> dict:
    """The running sentence with this adjective, as `translator` says it, word by word.

    links: for each French piece the English piece that the first cross-attention layer's heads look
    at most, on average, while it is said; the pronoun's from the last layer's first head. note: one
    sentence with the pronoun's numbers. Raises ValueError when the answer has no pronoun to
    show."""
    english = RUNNING.format(adjective)
    (french,) = translator.translate([english])
    maps, source, target = read_pairs(translator, [(english, french)])
    read = piece_names(source[0], translator.source)[:-1]
    said = piece_names(target[0], translator.target)[1:-1]
    pronoun = next((i for i, word in enumerate(said) if word in ("il", "elle")), None)
    if pronoun is None:
        raise ValueError(f"{french!r} has neither il nor elle to show")
    # row i reads piece i and says piece i + 1
    first, last = (layer[0][..., : len(read)] for layer in maps["cross"][[0, -1]])  # (H, T, S)
    mean, looks = first.mean(0), last[0, pronoun]
    links = [
        link(row, mean[row])
        for row in range(len(said))
        if row != pronoun and mean[row].max() >= FAINT
    ]
    links.append(link(pronoun, looks) | {"pronoun": True})
    return {
        "english": read,
        "french": said,
        "links": links,
        "pronoun": pronoun,
        "note": (
            f"While it says {said[pronoun]}, one head of the last layer puts {looks.max():.0%} of"
            f" its attention on {read[links[-1]['word']]}."
        ),
    }


def link(row: int, weights: Tensor) -> dict:
    "From a French piece to the English one that it looks at most."
    word = int(weights.argmax())
    return {"row": row, "word": word, "weight": round(float(weights[word]), 2), "pronoun": False}


def menus() -> dict[str, list]:
    """Words for the running sentence, from the pocket corpus's frame of crossing: nouns as
    [English, French, gender], adjectives of either noun."""
    frame = next(frame for frame in frames() if frame.name == "cross-road")
    first, second = (
        [
            [noun.english, noun.french.lstrip("*"), noun.gender]
            for gender in "mf"
            for noun in it_nouns(classes, gender)
        ]
        for classes in (frame.first, frame.second)
    )
    return {
        "first": sorted(first),
        "second": sorted(second),
        "ofFirst": [one.english for one in frame.of_first],
        "ofSecond": [one.english for one in frame.of_second],
    }


def recorded(translator: Translator, worth: Calibration, english: str) -> dict:
    """A sentence as the shipped translator says it, by words, with links.

    links: the weights from FAINT on between words, in the mean of the heads of one layer of
    cross-attention. chrf: what answers as sure as this one had on sentences kept aside."""
    (answer,) = translate_with_scores(translator, [english])
    french = answer.text
    (maps,) = maps_of(
        cross_weights(translator.model),
        [PocketPair(english, french, (), "", "")],
        translator.source,
    )
    config = translator.model.config
    weights = maps[
        config.n_decoder_layers * config.n_heads + LAYER
    ]  # French words and EOS, English words and EOS
    said, read = split_words(french, "fr"), split_words(english, "en")
    links = [
        {"row": row, "word": word, "weight": round(float(weights[row, word]), 4)}
        for row in range(len(said))
        for word in range(len(read))
        if weights[row, word] >= FAINT
    ]
    return {
        "english": read,
        "french": said,
        "links": links,
        "text": english,
        "said": french,
        "chrf": round(worth(answer.log_prob), 1),
    }


def spans(words: list[str]) -> str:
    return "".join(f"<span>{html.escape(word)}</span>" for word in words)


def running_sentence(template: str, translator: Any, size: str) -> str:
    """`template` with both sentences; the first can be read without a script. size: what the
    translator weighs, in words."""
    cases = [looks_of(translator, adjective) for adjective in WORDS]
    return filled(
        template,
        data=attribute(compact({"cases": cases, "menus": menus()})),
        english=spans(cases[0]["english"]),
        french=spans(cases[0]["french"]),
        note=html.escape(cases[0]["note"]),
        pocket=size,
    )


def any_sentence(template: str, translators: dict[str, tuple[Translator, str]]) -> str:
    """`template` with the recorded sentences of each translator; the first can be read without a
    script.

    translators: by name as in SHIPPED, each with what it weighs, in words."""
    told: dict[str, dict] = {}
    for name, (translator, size) in translators.items():
        worth = load_calibration(shipped(f"data/checkpoints/{name}"))
        told[name] = {
            "cases": [recorded(translator, worth, english) for english in RECORDED],
            "size": size,
            "worth": [worth.log_probability, worth.chrf],
        }
    first = next(iter(told))
    cases = told[first]["cases"]
    buttons = "".join(
        f'<button type="button" class="tl-quiet" aria-pressed="{str(not i).lower()}"'
        f' lang="en">{html.escape(case["text"])}</button>'
        for i, case in enumerate(cases)
    )
    which = "".join(
        '<label><input type="radio" name="tl-which"'
        f' value="{name}"{" checked" if name == first else ""}>'
        f" {html.escape(SHIPPED[name])}</label>"
        for name in told
    )
    return filled(
        template,
        data=attribute(compact({"translators": told, "layer": LAYER, "doubt": DOUBT})),
        english=spans(cases[0]["english"]),
        french=spans(cases[0]["french"]),
        buttons=buttons,
        which=which,
        shipped=told[first]["size"],
        chrf=f"{cases[0]['chrf']:.0f}",
        layer=f"layer {LAYER + 1}",
        faint=f"{FAINT:.0%}",
    )
