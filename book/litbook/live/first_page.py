"""The first page: the running sentence as translated by the pocket model, and four sentences as
translated by the default model.

What is recorded here when the page is built, `book/web/static/first.js` does again in the page, on
any sentence, once its reader has asked for it."""

import html
from typing import Any

from litbook.live.pages import attribute, filled
from litbook.results import load_bench
from litbook.word_maps import cross_weights, maps_of
from transformer_lit.attention_analysis import token_strings, compute_attention
from transformer_lit.corpora.files import shipped
from transformer_lit.pocket_corpus import PocketPair, load_frames, nouns_of_gender
from transformer_lit.serving.confidence import Calibration, load_calibration, translate_with_scores
from transformer_lit.tokenization import split_words
from transformer_lit.translation import Translator

RUNNING = "The animal didn't cross the street because it was too {}."
WORDS = ("tired", "wide")
FAINT = 0.15  # a thinner link than this isn't drawn
RECORDED = (
    "Where did you put the blue scissors?",
    "The animal didn't cross the street because it was too tired.",
    "The committee adopted the report by a large majority.",
    "The glassblower dipped his pipe into the furnace.",
)
MODEL = "open-fr"
TEXTS = {
    "tatoeba": "everyday sentences",
    "web": "web pages",
    "law": "law",
    "multi30k": "captions",
    "newstest2014": "news",
}
DOUBT = 45  # an answer that may be expected to have less chrF is grayed
LAYER = 1  # of the model's cross-attention, the one whose mean of heads aligns best


def looks_of(translator: Any, adjective: str) -> dict:
    """The running sentence with this adjective, as `translator` translates it, token by token.

    links: for each French token the English token with the largest weight in the first layer of
    cross-attention (mean over heads) while it is generated; the pronoun's from the last layer's
    first head. note: one sentence with the pronoun's numbers."""
    english = RUNNING.format(adjective)
    (french,) = translator.translate([english])
    maps, source, target = compute_attention(translator, [(english, french)])
    source_words = token_strings(source[0], translator.source_tokenizer)[:-1]
    target_words = token_strings(target[0], translator.target_tokenizer)[1:-1]
    pronoun = next(i for i, word in enumerate(target_words) if word in ("il", "elle"))
    # row i has token i as input and predicts token i + 1
    cross = maps["cross"][:, 0, :, :-1, :-1]  # (N, H, T, S) without EOS
    weights = cross[0].mean(0)
    weights[pronoun] = cross[-1][0, pronoun]
    links = [
        {"row": row, "word": int(at), "weight": round(float(share), 2), "pronoun": row == pronoun}
        for row, (share, at) in enumerate(zip(*weights.max(-1)))
        if share >= FAINT
    ]
    links.sort(key=lambda link: link["pronoun"])
    return {
        "english": source_words,
        "french": target_words,
        "links": links,
        "pronoun": pronoun,
        "note": (
            f"While it generates {target_words[pronoun]}, one cross-attention head of the last"
            f" layer gives {source_words[links[-1]['word']]} {weights[pronoun].max():.0%} of its"
            " attention weight."
        ),
    }


def menus() -> dict[str, list]:
    """Words for the running sentence, from the pocket corpus's frame of crossing: nouns as
    [English, French, gender], adjectives of either noun."""
    frame = next(frame for frame in load_frames() if frame.name == "cross-road")

    def nouns(classes: Any) -> list[list[str]]:
        return sorted(
            [noun.english, noun.french.lstrip("*"), noun.gender]
            for gender in "mf"
            for noun in nouns_of_gender(classes, gender)
        )

    return {
        "first": nouns(frame.subject_classes),
        "second": nouns(frame.object_classes),
        "ofFirst": [adjective.english for adjective in frame.subject_adjectives],
        "ofSecond": [adjective.english for adjective in frame.object_adjectives],
    }


def recorded(translator: Translator, worth: Calibration, english: str) -> dict:
    """A sentence as the default model translates it, by words, with links.

    links: the weights from FAINT on between words, in the mean of the heads of one layer of
    cross-attention. chrf: what outputs with this confidence had on held-out sentences."""
    (answer,) = translate_with_scores(translator, [english])
    model, french = translator.model, answer.text
    pair = PocketPair(english, french, (), "", "")
    (maps,) = maps_of(cross_weights(model), [pair], translator.source_tokenizer)
    target_words, source_words = split_words(french, "fr"), split_words(english, "en")
    weights = maps[LAYER - model.config.n_decoder_layers, :-1, :-1]  # without EOS
    return {
        "english": source_words,
        "french": target_words,
        "links": [
            {"row": row, "word": word, "weight": round(float(weights[row, word]), 4)}
            for row, word in (weights >= FAINT).nonzero().tolist()
        ],
        "text": english,
        "said": french,
        "chrf": round(worth(answer.log_prob), 1),
    }


def page_of(template: str, cases: list[dict], data: dict, **texts: str) -> str:
    "`template` with its data, and with the first case as it can be read without a script."
    english, french = (
        "".join(f"<span>{html.escape(word)}</span>" for word in cases[0][side])
        for side in ("english", "french")
    )
    return filled(template, data=attribute(data), english=english, french=french, **texts)


def running_sentence(template: str, translator: Any, size: str) -> str:
    "`template` with both sentences. size: what the translator weighs, in words."
    cases = [looks_of(translator, adjective) for adjective in WORDS]
    data = {"cases": cases, "menus": menus()}
    return page_of(template, cases, data, note=html.escape(cases[0]["note"]), pocket=size)


def known_scores() -> str:
    "BLEU of the default model, with the first reference, by kind of text."
    tests = load_bench(f"domains-{MODEL}")["tests"]
    return ", ".join(
        f"{kind} {tests[name].get('first', tests[name])['bleu']['value']:.0f}"
        for name, kind in TEXTS.items()
    )


def any_sentence(template: str, translator: Translator, size: str) -> str:
    "`template` with the recorded sentences. size: what the translator weighs, in words."
    worth = load_calibration(shipped(f"data/checkpoints/{MODEL}"))
    cases = [recorded(translator, worth, english) for english in RECORDED]
    data = {"worth": [worth.log_probability, worth.chrf], "layer": LAYER, "doubt": DOUBT}
    buttons = [
        f'<button type="button" class="tl-quiet" aria-pressed="{pressed}" lang="en">{text}</button>'
        for text, pressed in zip(map(html.escape, RECORDED), ("true", "false", "false", "false"))
    ]
    return page_of(
        template,
        cases,
        data | {"cases": cases, "name": MODEL},
        buttons="".join(buttons),
        scores=known_scores(),
        size=size,
        chrf=f"{cases[0]['chrf']:.0f}",
        layer=f"layer {LAYER + 1}",
        faint=f"{FAINT:.0%}",
    )
