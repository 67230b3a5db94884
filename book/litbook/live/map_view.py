"""The view of attention that can be turned: all weights of one pair of sentences in one page of
HTML, without a kernel."""

# The page is book/web/views/attention.html; it draws from one attribute, which holds the words
# and the weights, a byte each.
import base64
import json
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from transformer_lit.corpora.files import shipped
from litbook.live.pages import attribute, filled


class AttentionView:
    "A self-contained page with controls; notebooks show it by itself."

    def __init__(self, html: str, alt: str):
        self.html, self.alt = html, alt

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.alt


def packed(weights: Tensor, causal: bool) -> bytes:
    "Weights (N, H, T, S), a byte each; `causal` leaves out the future."
    kept = torch.ones(weights.shape[-2:], dtype=torch.bool)
    kept = kept.tril() if causal else kept
    return (weights.cpu()[..., kept] * 255).round().byte().numpy().tobytes()


def named_maps(
    recorded: Mapping[str, Sequence[Tensor] | Tensor], source: Sequence[str], target: Sequence[str]
) -> dict[str, Tensor]:
    """kind -> (N, H, T, S) of the first sentence, held against its words.

    A forgotten <bos> would shift every row by one without a complaint, so sizes are compared.
    Raises ValueError naming both."""
    s, t = len(source), len(target) - 1
    maps: dict[str, Tensor] = {}
    sizes = {"decoder": (t, t), "cross": (t, s)}
    for kind, layers in recorded.items():
        maps[kind] = torch.stack([w[0] for w in layers])
        size, named = tuple(maps[kind].shape[2:]), sizes.get(kind, (s, s))
        if size != named:
            raise ValueError(
                f"{kind} weights {size}, and the words make {named}: source with EOS, target from"
                " BOS to EOS"
            )
    return maps


def attention_view(
    recorded: Mapping[str, Sequence[Tensor] | Tensor],
    source_words: Sequence[str],
    target_words: Sequence[str] = (),
    *,
    alt: str,
    show: tuple = (),
) -> AttentionView:
    """All weights of one pair of sentences, to be turned by hand.

    recorded: from `record` or `read_pairs` of chapter 20, first of the batch; source_words with
    EOS, target_words from BOS to EOS; `show` is the (kind, layer, head) that it opens with, else
    the last kind's sharpest head; a fourth entry is the word that its button tries."""
    words = list(source_words), list(target_words)
    maps = named_maps(recorded, *words)
    raw = b"".join(packed(w, kind == "decoder") for kind, w in maps.items())
    data = json.dumps(
        {
            "s": words[0],
            "t": words[1],
            "m": [[kind, *w.shape[:2]] for kind, w in maps.items()],
            "w": base64.b64encode(raw).decode(),
            "k": list(show) or [list(maps)[-1]],
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )
    page = shipped("web/views/attention.html").read_text("utf-8")
    page = "\n".join(line.strip() for line in page.splitlines())
    return AttentionView(filled(page, alt=attribute(alt), data=attribute(data)), alt)
