"""The inside of a model, as its page shows it: what it does with the running sentence, recorded,
and a model with parts taken out.

`broken` takes the same names as the option `broken` of the engine in the page
(book/web/engine.js), so that a test can hold the two equal.
"""

import base64
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from litbook.live.looks import candidates
from litbook.live.map_view import packed
from litbook.live.pages import compact
from transformer_lit.attention_maps import attention_modules, read_pairs, without_heads
from transformer_lit.masks import BOS, EOS, PAD
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
    noHeads: Iterable = (),
    noScale: bool = False,
    noSourceMask: bool = False,
    noPositions: bool | str = False,
    noResidual: Iterable[str] = (),
    noNorm: Iterable[str] = (),
    noCross: bool = False,
    stuckPosition: bool = False,
) -> Iterator[nn.Module]:
    """The model without some of its parts, while the block runs.

    noHeads: (kind, layer, head) each; noPositions: True, "source" or "target"; noResidual and
    noNorm: "decoder.2.attention" or, for a whole layer, "encoder.0"."""
    with ExitStack() as undo:
        undo.enter_context(without_heads(model, [tuple(head) for head in noHeads]))

        def put(module: nn.Module, forward: Callable) -> None:
            undo.enter_context(patch.object(module, "forward", forward))

        if noScale:  # queries longer by √d_k leave the scores as if they hadn't been divided
            for part in attention_modules(model).values():
                root = math.sqrt(part.query.out_features // part.n_heads)
                hook = part.query.register_forward_hook(lambda _, x, out, root=root: out * root)
                undo.callback(hook.remove)
        if noSourceMask:
            encoder, decoder = model.encoder.forward, model.decoder.forward
            put(model.encoder, lambda x, mask=None: encoder(x, None))
            put(
                model.decoder,
                lambda x, memory, target=None, source=None, caches=None: decoder(
                    x, memory, target, None, caches
                ),
            )
        for side in ("source", "target"):
            table = getattr(model, side).positions
            undo.callback(table.copy_, table.clone())
            if noPositions in (True, side):
                table.zero_()
            elif side == "target" and stuckPosition:
                table.copy_(table[:1].clone())
        for place in noNorm:
            for around in sublayers(model, place):
                undo.callback(around.norm.register_forward_hook(lambda _, x, out: x[0]).remove)
        for place in noResidual:
            for around in sublayers(model, place):
                put(around, without_residual(around))
        for layer in model.decoder.layers if noCross else ():
            put(layer.around_cross_attention, lambda x, f: x)
        yield model


def without_residual(around: Any) -> Callable:
    "A sublayer's forward whose input isn't added again."
    if around.first:
        return lambda x, f: around.dropout(f(around.norm(x)))
    return lambda x, f: around.norm(around.dropout(f(x)))


def sublayers(model: Any, place: str) -> list[nn.Module]:
    "The sublayers that a name means: one for decoder.2.attention, all of the layer for decoder.2."
    side, layer, *name = place.split(".")
    parts = getattr(model, side).layers[int(layer)].named_children()
    wanted = f"around_{name[0] if name else ''}"
    return [part for key, part in parts if key.startswith(wanted)]


@torch.no_grad()
def greedy_steps(
    model: Any, source: list[int], prefix: Sequence[int] = (), most: int = MOST, top: int = TOP
) -> list[tuple[int, list[tuple[int, float]]]]:
    """What greedy decoding says after `prefix`, EOS included: for each token its id, and the
    likeliest ids with their log-probabilities."""
    state, steps = model.start(torch.tensor([source])), []
    *begun, token = [BOS, *prefix]
    for before in begun:
        _, state = model.step(torch.tensor([before]), state)
    while token != EOS and len(prefix) + len(steps) < most:
        logits, state = model.step(torch.tensor([token]), state)
        best = logits[0].log_softmax(-1).topk(top)
        token = int(best.indices[0])
        steps.append((token, list(zip(best.indices.tolist(), best.values.tolist()))))
    return steps


def beam_rows(model: Any, source: list[int]) -> list[list[tuple[int, int, float, list[int], str]]]:
    """Beam search step by step: of each step the 2k best, best first, as (parent, token, score,
    said, state).

    state is "open", "ended" or "cut"; parent counts the open rows of the step before."""
    open_rows, steps = [[]], []
    for ranked in candidates(model, source, BEAM, ALPHA, MOST):
        rows, going = [], []
        for i, (score, parent, token) in enumerate(ranked):
            said, state = open_rows[parent], "cut"
            if token == EOS:
                state = "ended" if i < BEAM else "cut"
            else:
                said = [*said, token]
                if len(going) < BEAM:
                    state = "open"
                    going.append(said)
            rows.append((parent, token, score, said, state))
        open_rows = going
        steps.append(rows)
    return steps


def single_breaks(config: Any) -> dict[str, dict]:
    "Every switch of the page by itself: its name there -> what `broken` takes."
    layers = {
        "encoder": config.n_encoder_layers,
        "cross": config.n_decoder_layers,
        "decoder": config.n_decoder_layers,
    }
    places = [f"{side}.{n}" for side in ("encoder", "decoder") for n in range(layers[side])]
    heads = {
        kind: [(kind, n, head) for n in range(layers[kind]) for head in range(config.n_heads)]
        for kind in layers
    }
    return (
        {name: {name: True} for name in ("noScale", "noSourceMask", "noCross", "stuckPosition")}
        | {f"noPositions:{side}": {"noPositions": side} for side in ("source", "target")}
        | {"noPositions:both": {"noPositions": True}}
        | {f"{name}:{at}": {name: [at]} for name in ("noResidual", "noNorm") for at in places}
        | {
            f"noHeads:{'.'.join(map(str, head))}": {"noHeads": [head]}
            for of_kind in heads.values()
            for head in of_kind
        }
        | {f"noHeads:{kind}": {"noHeads": of_kind} for kind, of_kind in heads.items()}
    )


def said_broken(model: Any, source: list[int], parts: dict) -> tuple[list[int], list[float]]:
    """What the model says greedily without these parts, and each token's probability; with pads
    behind the source if its mask is one of them."""
    with broken(model, **parts):
        steps = greedy_steps(model, source + [PAD] * (PADS * ("noSourceMask" in parts)), top=1)
    said = [(token, round(math.exp(top[0][1]), 3)) for token, top in steps if token != EOS]
    return [token for token, _ in said], [p for _, p in said]


def recorded(translator: Translator) -> dict:
    "All that the page shows before its reader asks for the model itself."
    model, target = translator.model.eval(), translator.target
    source = translator.source.encode(RUNNING)
    steps = greedy_steps(model, source)
    said = target.decode([token for token, _ in steps])
    beam = beam_rows(model, source)
    maps, _, _ = read_pairs(translator, [(RUNNING, said)])
    singles = single_breaks(model.config)
    breaks = {key: said_broken(model, source, parts) for key, parts in singles.items()}
    examples = {
        key: [said_broken(model, translator.source.encode(text), off) for off in ({}, singles[key])]
        for key, text in EXAMPLES.items()
    }
    answers = [*breaks.values(), *(answer for both in examples.values() for answer in both)]
    used = {BOS, EOS, PAD}.union(
        *(ids for ids, _ in answers),
        *([i for i, _ in top] for _, top in steps),
        *([token for _, token, *_ in rows] for rows in beam),
    )
    sizes = "n_heads", "n_encoder_layers", "n_decoder_layers", "d_model"
    c = model.config
    return {
        "name": "pocket",
        "sentence": RUNNING,
        "most": MOST,
        "pads": PADS,
        "vocabulary": c.target_vocab or c.source_vocab,
        "config": {key: getattr(c, key) for key in sizes},
        "source": source,
        "pieces": [translator.source.words[i] for i in source],
        "names": {i: target.words[i] for i in sorted(used)},
        "text": said,
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
        "broken": {key: [target.decode(ids), ids, p] for key, (ids, p) in breaks.items()},
        "examples": {
            key: [EXAMPLES[key], *([target.decode(ids), ids, p] for ids, p in both)]
            for key, both in examples.items()
        },
    }


def script(translator: Translator) -> str:
    "The record as a script, since a page that was opened from a folder may read no other file."
    return (
        "/* What the translator does with the running sentence, recorded when the book was built."
        f" */\nwindow.tlInside = {compact(recorded(translator))};\n"
    )
