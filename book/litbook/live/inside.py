"""The inside of a model, as its page shows it: what it does with the running sentence, recorded,
and a model with parts taken out.

`broken` takes the same names as the option `broken` of the engine in the page
(book/web/engine.js), so that a test can hold the two equal.
"""

import base64
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lit.attention_maps import attention_modules, record, without_heads
from transformer_lit.decoding import beam_search, grow_beams, open_ones
from transformer_lit.masks import BOS, EOS, PAD

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
def broken(model: nn.Module, **parts: Any) -> Iterator[nn.Module]:
    """The model without some of its parts, while the block runs.

    noHeads [(kind, layer, head), ...], noScale, noSourceMask, noPositions (True, "source" or
    "target"), noResidual and noNorm (["decoder.2.attention", ...] or ["encoder.0", ...] for a whole
    layer), noCross, stuckPosition. ValueError for a name that isn't one."""
    wrong = set(parts) - {
        "noHeads",
        "noScale",
        "noSourceMask",
        "noPositions",
        "noResidual",
        "noNorm",
        "noCross",
        "stuckPosition",
    }
    if wrong:
        raise ValueError(f"nothing in the model is called {', '.join(sorted(wrong))}")
    with ExitStack() as undo:

        def put(where: nn.Module, name: str, what: Any) -> None:
            before, own = (
                getattr(where, name),
                name in where.__dict__ or name in where._buffers or name in where._modules,
            )
            setattr(where, name, what)
            undo.callback(lambda: setattr(where, name, before) if own else delattr(where, name))

        if parts.get("noHeads"):
            undo.enter_context(without_heads(model, [tuple(one) for one in parts["noHeads"]]))
        if parts.get(
            "noScale"
        ):  # queries that are longer by √d_k leave the scores as if they hadn't been divided
            for part in attention_modules(model).values():
                undo.callback(
                    part.query.register_forward_hook(
                        lambda module, given, out, part=part: out
                        * math.sqrt(out.size(-1) // part.n_heads)
                    ).remove
                )
        if parts.get("noSourceMask"):
            encoder, decoder = model.encoder.forward, model.decoder.forward
            put(model.encoder, "forward", lambda x, mask=None: encoder(x, None))
            put(
                model.decoder,
                "forward",
                lambda x, memory, target=None, source=None, caches=None: decoder(
                    x, memory, target, None, caches
                ),
            )
        without = parts.get("noPositions")
        for side in ("source", "target"):
            embedding = getattr(model, side)
            if without in (True, side):
                put(embedding, "positions", torch.zeros_like(embedding.positions))
            elif side == "target" and parts.get("stuckPosition"):
                put(
                    embedding,
                    "positions",
                    embedding.positions[:1].expand_as(embedding.positions).clone(),
                )
        for place in parts.get("noNorm", []):
            for around in sublayers(model, place):
                put(around, "norm", nn.Identity())
        for place in parts.get("noResidual", []):
            for around in sublayers(model, place):
                put(around, "forward", without_residual(around))
        if parts.get("noCross"):
            for layer in model.decoder.layers:
                put(layer.around_cross_attention, "forward", lambda x, f: x)
        yield model


def without_residual(around: Any) -> Callable:
    """A sublayer's forward whose input isn't added again; the norm is looked up late, since it may
    be taken out as well."""
    return lambda x, f: (
        around.dropout(f(around.norm(x))) if around.first else around.norm(around.dropout(f(x)))
    )


def sublayers(model: Any, place: str) -> list[nn.Module]:
    """The sublayers that a name means: one for decoder.2.attention, all of the layer for decoder.2.
    ValueError if there is none."""
    side, layer, *name = place.split(".")
    try:
        whole = getattr(model, side).layers[int(layer)]
        return (
            [getattr(whole, f"around_{name[0]}")]
            if name
            else [part for key, part in whole.named_children() if key.startswith("around_")]
        )
    except (AttributeError, IndexError, ValueError):
        raise ValueError(f"there is no sublayer {place}") from None


@torch.no_grad()
def greedy_steps(
    model: Any, source: list[int], prefix: Sequence[int] = (), most: int = MOST, top: int = TOP
) -> list[tuple[int, list[tuple[int, float]]]]:
    """What greedy decoding says after `prefix`, EOS included: for each token its id, and the
    likeliest ids with their log-probabilities."""
    steps: list[tuple[int, list[tuple[int, float]]]] = []
    state, said = model.start(torch.tensor([source])), list(prefix)
    for token in [BOS, *prefix[:-1]] if prefix else []:
        _, state = model.step(torch.tensor([token]), state)
    token = prefix[-1] if prefix else BOS
    while token != EOS and len(said) < most:
        logits, state = model.step(torch.tensor([token]), state)
        found = logits[0].log_softmax(-1).topk(top)
        token = int(found.indices[0])
        steps.append((token, list(zip(found.indices.tolist(), found.values.tolist()))))
        said += [token] if token != EOS else []
    return steps


class Watched:
    """A model for `beam_search`, one sentence at a time, that keeps what the search does: `steps`
    holds the 2k best of each step."""

    def __init__(self, model: Any, k: int):
        self.model, self.k = model, k
        self.steps: list[list[tuple[int, int, float]]] = []
        self.scores = torch.full((1, k), -torch.inf)
        self.scores[0, 0] = 0

    def start(self, source: Tensor) -> Any:
        return self.model.start(source)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        logits, state = self.model.step(tokens, state)
        top, beams, ids = grow_beams(logits, self.scores)
        self.steps.append(list(zip(beams[0].tolist(), ids[0].tolist(), top[0].tolist())))
        self.scores, _, _ = open_ones(top, beams, ids, self.k)
        return logits, state


def beam_rows(
    model: Any, source: list[int], k: int = BEAM, alpha: float = ALPHA, most: int = MOST
) -> list[list[dict]]:
    """Beam search step by step: the 2k best, best first, as {parent, id, score, said, state}; state
    is "open", "ended" or "cut", parent counts the open rows of the step before."""
    watched = Watched(model, k)
    beam_search(watched, torch.tensor([source]), k, alpha, most)
    open_: list[list[int]] = [[]]
    steps: list[list[dict]] = []
    for rows in watched.steps:
        step: list[dict] = []
        going: list[list[int]] = []
        for i, (parent, token, score) in enumerate(rows):
            said = open_[parent] + ([token] if token != EOS else [])
            state = (
                ("ended" if i < k else "cut")
                if token == EOS
                else "open" if len(going) < k else "cut"
            )
            if state == "open":
                going.append(said)
            step.append(
                {"parent": parent, "id": token, "score": score, "said": said, "state": state}
            )
        open_ = going
        steps.append(step)
    return steps


@torch.no_grad()
def all_weights(model: Any, source: list[int], said: list[int]) -> dict[str, Tensor]:
    """The weights of every attention while `said` is read and said again: kind -> (layers, heads,
    rows, columns)."""
    with record(model) as seen:
        model(torch.tensor([source]), torch.tensor([[BOS] + said]))
    return {kind: torch.cat(layers) for kind, layers in seen.items()}


def single_breaks(config: Any) -> dict[str, dict]:
    "Every switch of the page by itself: its name there -> what `broken` takes."
    sides = {
        "encoder": config.n_encoder_layers,
        "cross": config.n_decoder_layers,
        "decoder": config.n_decoder_layers,
    }
    heads = range(config.n_heads)
    layers = [f"{side}.{layer}" for side in ("encoder", "decoder") for layer in range(sides[side])]
    found: dict[str, dict] = {
        name: {name: True} for name in ("noScale", "noSourceMask", "noCross", "stuckPosition")
    }
    found |= {
        f"noPositions:{name}": {"noPositions": True if name == "both" else name}
        for name in ("source", "target", "both")
    }
    found |= {
        f"{name}:{place}": {name: [place]} for name in ("noResidual", "noNorm") for place in layers
    }
    found |= {
        f"noHeads:{kind}.{layer}.{head}": {"noHeads": [(kind, layer, head)]}
        for kind in sides
        for layer in range(sides[kind])
        for head in heads
    }
    return found | {
        f"noHeads:{kind}": {
            "noHeads": [(kind, layer, head) for layer in range(sides[kind]) for head in heads]
        }
        for kind in sides
    }


def said_broken(
    model: Any, source: list[int], parts: dict, most: int = MOST
) -> tuple[list[int], list[float]]:
    """What the model says greedily without these parts, and each token's probability; with pads
    behind the source if its mask is one of them."""
    with broken(model, **parts):
        steps = greedy_steps(
            model, source + [PAD] * (PADS if parts.get("noSourceMask") else 0), most=most, top=1
        )
    said = [(token, round(math.exp(top[0][1]), 3)) for token, top in steps if token != EOS]
    return [token for token, _ in said], [p for _, p in said]


def as_text(weights: Tensor) -> str:
    "Weights from 0 to 1 as a byte each, in base64."
    return base64.b64encode(
        (weights.clamp(0, 1) * 255).round().to(torch.uint8).numpy().tobytes()
    ).decode()


def recorded(translator: Any, name: str = "pocket", sentence: str = RUNNING) -> dict:
    "All that the page shows before its reader asks for the model itself."
    model, source, target = (
        translator.model.eval(),
        translator.source.encode(sentence),
        translator.target,
    )
    steps = greedy_steps(model, source)
    said = [token for token, _ in steps if token != EOS]
    beam = beam_rows(model, source)
    singles = single_breaks(model.config)
    breaks = {key: said_broken(model, source, parts) for key, parts in singles.items()}
    others = {
        key: (
            text,
            said_broken(model, translator.source.encode(text), {}),
            said_broken(model, translator.source.encode(text), singles[key]),
        )
        for key, text in EXAMPLES.items()
    }
    answers = [*breaks.values(), *(answer for _, *both in others.values() for answer in both)]
    used = (
        {i for ids, _ in answers for i in ids}
        | {i for _, top in steps for i, _ in top}
        | {row["id"] for rows in beam for row in rows}
    )
    weights = all_weights(model, source, said)
    c = model.config
    return {
        "name": name,
        "sentence": sentence,
        "most": MOST,
        "pads": PADS,
        "vocabulary": c.target_vocab or c.source_vocab,
        "config": {
            key: getattr(c, key)
            for key in ("n_heads", "n_encoder_layers", "n_decoder_layers", "d_model")
        },
        "source": source,
        "pieces": [translator.source.words[i] for i in source],
        "names": {i: target.words[i] for i in sorted(used | {BOS, EOS, PAD})},
        "text": target.decode(said),
        "steps": [[token, [[i, round(p, 4)] for i, p in top]] for token, top in steps],
        "attention": {
            kind: {"shape": list(maps.shape), "weights": as_text(maps)}
            for kind, maps in weights.items()
        },
        "beam": [
            [
                [
                    row["parent"],
                    row["id"],
                    round(row["score"], 3),
                    target.decode(row["said"]),
                    row["state"],
                ]
                for row in rows
            ]
            for rows in beam
        ],
        "broken": {key: [target.decode(ids), ids, p] for key, (ids, p) in breaks.items()},
        "examples": {
            key: [text, *([target.decode(ids), ids, p] for ids, p in both)]
            for key, (text, *both) in others.items()
        },
    }


def script(translator: Any, name: str = "pocket") -> str:
    "The record as a script, since a page that was opened from a folder may read no other file."
    held = json.dumps(recorded(translator, name), ensure_ascii=False, separators=(",", ":"))
    return (
        "/* What the translator does with the running sentence, recorded when the book was built."
        f" */\nwindow.tlInside = {held};\n"
    )
