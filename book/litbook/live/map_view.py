"""Interactive attention view: all weights of one sentence pair in one page of HTML, without a
kernel."""

# The page is book/web/views/attention.html; it draws from one attribute, which holds the words
# and the weights, a byte each.
import base64
import html
import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from litbook.figures import Picture
from litbook.live.pages import attribute, filled
from transformer_lit.attention_analysis import token_strings, compute_attention
from transformer_lit.corpora.files import shipped
from transformer_lit.translation import Translator


class AttentionView(Picture):
    "A self-contained page with controls; notebooks show it by itself."

    def __init__(self, html: str, alt: str):
        self.html, self.alt = html, alt


def packed(weights: Tensor, causal: bool) -> bytes:
    "Weights (N, H, T, S), a byte each; `causal` leaves out the future."
    rows, columns = weights.shape[-2:]
    visible = torch.ones(rows, columns).tril(0 if causal else columns).bool()
    return (weights.cpu()[..., visible] * 255).round().byte().numpy().tobytes()


def attention_page(
    maps: Mapping[str, Tensor],
    source_words: Sequence[str],
    target_words: Sequence[str],
    alt: str,
    show: Sequence = (),
) -> AttentionView:
    """All weights of one pair of sentences, to be turned by hand.

    maps: kind -> (N, H, T, S); source_words with EOS, target_words from BOS to EOS; `show` is the
    (kind, layer, head) that it opens with, else the last kind's sharpest head; a fourth entry is
    the word that its button tries."""
    raw = b"".join(packed(weights, kind == "decoder") for kind, weights in maps.items())
    data = {
        "s": source_words,
        "t": target_words,
        "m": [[kind, *weights.shape[:2]] for kind, weights in maps.items()],
        "w": base64.b64encode(raw).decode(),
        "k": show or [list(maps)[-1]],
    }
    page = re.sub("\n +", "\n", shipped("web/views/attention.html").read_text("utf-8")).strip()
    return AttentionView(filled(page, alt=html.escape(alt), data=attribute(data)), alt)


def show_attention(
    translator: Translator, source: str, target: str, *, alt: str, show: Sequence = ()
) -> AttentionView:
    "The view of one pair of sentences, read by a translator."
    weights, *ids = compute_attention(translator, [(source, target)])
    words = (
        token_strings(row[0], side)
        for row, side in zip(ids, (translator.source_tokenizer, translator.target_tokenizer))
    )
    return attention_page({kind: w[:, 0] for kind, w in weights.items()}, *words, alt, show)
