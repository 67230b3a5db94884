"""The page Inside the model: the running sentence, recorded, and a model with components
ablated.

`broken` takes the same names as the option `broken` of the engine in the page
(book/web/engine.js), so that a test can hold the two equal.
"""

import base64
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, product
from typing import Any

import torch

from litbook.live.looks import candidates, followed
from litbook.live.map_view import packed
from litbook.live.pages import compact
from transformer_lit.attention_analysis import attention_modules, compute_attention, ablate_heads
from transformer_lit.masks import BOS, EOS, PAD
from transformer_lit.sublayers import SublayerConnection
from transformer_lit.translation import Translator

RUNNING = "The animal didn't cross the street because it was too tired."
MOST = 40  # tokens of an answer: a broken model may never end
PADS = 8  # added to the source where its mask is taken out
BEAM, ALPHA, TOP = 4, 0.6, 5
# for each switch a sentence of the test set that it breaks; most leave the running sentence whole
EXAMPLES = {
    "noScale": "Nina looks for many dirty animals.",
    "noSourceMask": "I follow their businesswoman every week.",
    "noPositions:source": "The son is more frightened than the shepherd.",
    "noPositions:target": "Julie disappeared, but Jean didn't disappear.",
    "stuckPosition": "The furious cousin talked about the crocodiles.",
    "noResidual:encoder.2": "They don't fill his old white baskets.",
    "noNorm:decoder.2": "They don't fill his old white baskets.",
    "noCross": "A rich actor follows a rat.",
    "noHeads:cross.1.2": "My duchess never lifted her light cradle.",
    "noHeads:encoder": "The flute won't fit in the barrel because it is too long.",
}


@contextmanager
def broken(
    model: Any,
    *,
    noHeads: Iterable[tuple[str, int, int]] = (),
    noScale: bool = False,
    noSourceMask: bool = False,
    noPositions: bool | str = False,
    noResidual: Iterable[str] = (),
    noNorm: Iterable[str] = (),
    noCross: bool = False,
    stuckPosition: bool = False,
) -> Iterator[None]:
    """The model without some of its parts, while the block runs.

    noHeads: (kind, layer, head) each; noPositions: True, "source" or "target"; noResidual and
    noNorm: layers, as "encoder.0"."""
    c = model.config
    with ExitStack() as undo:
        undo.enter_context(ablate_heads(model, noHeads))
        if noScale:  # queries longer by √d_k leave the scores as if they hadn't been divided
            for part in attention_modules(model).values():
                longer = part.q_proj.register_forward_hook(
                    lambda _, x, query: query * math.sqrt(c.d_model // c.n_heads)
                )
                undo.enter_context(longer)
        for (kind, _), part in attention_modules(model).items() if noSourceMask else ():
            if kind != "decoder":  # called with query, key, value and the mask
                undo.enter_context(part.register_forward_pre_hook(lambda _, x: x[:3]))
        for side in ("source", "target"):
            table = getattr(model, f"{side}_embedding").position_encodings
            undo.callback(table.copy_, table.clone())
            if noPositions in (True, side):
                table.zero_()
            elif stuckPosition and side == "target":
                table.copy_(table[:1].clone())
        for around in sublayers(model, noNorm):
            undo.enter_context(around.norm.register_forward_hook(lambda _, x, out: x[0]))
        for around in sublayers(model, noResidual):  # in evaluation, of pre-norm as pocket has it
            undo.enter_context(around.register_forward_pre_hook(without_residual))
        for layer in model.decoder.layers if noCross else ():
            unread = layer.cross_attention_residual.register_forward_hook(lambda _, x, out: x[0])
            undo.enter_context(unread)
        yield


def without_residual(around: SublayerConnection, inputs: tuple) -> tuple:
    "Zeros to add to, and a sublayer that was given what stood there."
    x, sublayer = inputs
    return torch.zeros_like(x), lambda _: sublayer(around.norm(x))


def sublayers(model: Any, layers: Iterable[str]) -> list[SublayerConnection]:
    "All that these layers have, as of encoder.0."
    modules = (model.get_submodule(name.replace(".", ".layers.")) for name in layers)
    parts = (part for module in modules for part in module.children())
    return [part for part in parts if isinstance(part, SublayerConnection)]


@torch.no_grad()
def greedy_steps(
    model: Any, source: list[int], prefix: Sequence[int] = ()
) -> list[tuple[int, list[tuple[int, float]]]]:
    """What greedy decoding says after `prefix`, EOS included: for each token its id, and the
    likeliest ids with their log-probabilities."""
    state, steps = model.initial_state(torch.tensor([source])), []
    for token in [BOS, *prefix]:
        logits, state = model.step(torch.tensor([token]), state)
    while token != EOS and len(prefix) + len(steps) < MOST:
        best = logits[0].log_softmax(-1).topk(TOP)
        token = int(best.indices[0])
        steps.append((token, list(zip(best.indices.tolist(), best.values.tolist()))))
        logits, state = model.step(best.indices[:1], state)
    return steps


def single_breaks(config: Any) -> dict[str, dict]:
    "Every switch of the page by itself: its name there -> what `broken` takes."
    depths = {"encoder": config.n_encoder_layers, "decoder": config.n_decoder_layers}
    places = [f"{side}.{n}" for side, depth in depths.items() for n in range(depth)]
    sides = {"source": "source", "target": "target", "both": True}
    heads = {
        kind: list(product([kind], range(depth), range(config.n_heads)))
        for kind, depth in {**depths, "cross": config.n_decoder_layers}.items()
    }
    return (
        {name: {name: True} for name in ("noScale", "noSourceMask", "noCross", "stuckPosition")}
        | {f"noPositions:{name}": {"noPositions": side} for name, side in sides.items()}
        | {f"{name}:{at}": {name: [at]} for name in ("noResidual", "noNorm") for at in places}
        | {"noHeads:%s.%d.%d" % head: {"noHeads": [head]} for head in chain(*heads.values())}
        | {f"noHeads:{kind}": {"noHeads": of_kind} for kind, of_kind in heads.items()}
    )


def broken_answer(
    translator: Translator, english: str, parts: dict
) -> tuple[str, list[int], list[float]]:
    """What the model says greedily without these parts: text, ids, and each token's probability;
    with pads behind the source if its mask is one of them."""
    source = translator.source_tokenizer.encode(english)
    with broken(translator.model, **parts):
        steps = greedy_steps(translator.model, source + [PAD] * PADS * ("noSourceMask" in parts))
    steps = [(token, top[0][1]) for token, top in steps if token != EOS]
    ids = [token for token, _ in steps]
    return translator.target_tokenizer.decode(ids), ids, [round(math.exp(p), 3) for _, p in steps]


def recorded(translator: Translator) -> dict:
    "All that the page shows before its reader asks for the model itself."
    model, target, c = translator.model.eval(), translator.target_tokenizer, translator.model.config
    source = translator.source_tokenizer.encode(RUNNING)
    steps = greedy_steps(model, source)
    beam = followed(candidates(model, source, BEAM, ALPHA, MOST), BEAM, EOS)
    answer = target.decode([token for token, _ in steps])
    maps, _, _ = compute_attention(translator, [(RUNNING, answer)])
    singles = single_breaks(c)
    breaks = {key: broken_answer(translator, RUNNING, off) for key, off in singles.items()}
    examples = {
        key: [broken_answer(translator, text, off) for off in ({}, singles[key])]
        for key, text in EXAMPLES.items()
    }
    named = {BOS, EOS, PAD}.union(
        *(ids for _, ids, _ in [*breaks.values(), *chain(*examples.values())]),
        *([i for i, _ in top] for _, top in steps),
        *([token for _, token, *_ in rows] for rows in beam),
    )
    sizes = "n_heads", "n_encoder_layers", "n_decoder_layers", "d_model"
    return {
        "name": "pocket",
        "sentence": RUNNING,
        "most": MOST,
        "pads": PADS,
        "vocabulary": c.target_vocab_size or c.source_vocab_size,
        "config": {key: getattr(c, key) for key in sizes},
        "source": source,
        "pieces": [translator.source_tokenizer.tokens[i] for i in source],
        "names": {i: target.tokens[i] for i in sorted(named)},
        "text": answer,
        "steps": [[token, [[i, round(p, 4)] for i, p in top]] for token, top in steps],
        "attention": {
            kind: {
                "shape": list(weights[:, 0].shape),
                "weights": base64.b64encode(packed(weights[:, 0], False)).decode(),
            }
            for kind, weights in maps.items()
        },
        "beam": [
            [
                [parent, token, round(score, 3), target.decode(ids), state]
                for parent, token, score, ids, state in rows
            ]
            for rows in beam
        ],
        "broken": breaks,
        "examples": {key: [EXAMPLES[key], *both] for key, both in examples.items()},
    }


def script(translator: Translator) -> str:
    "The record as a script, since a page that was opened from a folder may read no other file."
    return (
        "/* What the translator does with the running sentence, recorded when the book was built."
        f" */\nwindow.tlInside = {compact(recorded(translator))};\n"
    )
