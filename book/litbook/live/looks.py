"""What a trained model shows of itself: decoding steps of beam search, cross-attention weights,
and the page on which to try it."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from litbook.live.pages import live_view, script
from litbook.results import load_bench
from transformer_lit import decoding
from transformer_lit.attention_analysis import compute_attention
from transformer_lit.masks import EOS
from transformer_lit.runtime.devices import device_of
from transformer_lit.translation import Translator, clean_input

# right answers to the forty sentences of data/try_it.tsv besides our own, found by reading; any
# other answer is a failure
ALSO_RIGHT = {
    "Le pain est encore chaud du four.",
    "J'ai laissé mon parapluie dans le train à nouveau.",
    "Ma grand-mère cultive des tomates sur le balcon.",
    "Qui va nourrir le chat pendant que nous sommes partis ?",
    "Ils avaient déjà mangé quand les invités sont venus.",
}
LETTERS = (  # 64 steps of a weight, one letter per step
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
)


def candidates(
    model: nn.Module, source: list[int], k: int, *options: Any
) -> list[list[tuple[float, int, int]]]:
    """What `beam_search` ranks while it translates a sentence: of each step the best 2k.

    Each is (log-probability so far, beam that it continues, token); options: `beam_search`'s."""
    steps, expand_beams = [], decoding.expand_beams

    def recorded(*inputs: Tensor) -> decoding.Candidates:
        best = expand_beams(*inputs)
        steps.append(list(zip(*(x[0].tolist() for x in best))))
        return best

    with patch.object(decoding, "expand_beams", recorded):
        decoding.beam_search(model, torch.tensor([source], device=device_of(model)), k, *options)
    return steps


def followed(
    steps: list[list[tuple[float, int, Any]]], k: int, end: Any
) -> list[list[tuple[int, Any, float, list, str]]]:
    """Of each step's candidates, best first: (parent, token, score, answer so far, state).

    state is "open", "ended" or "cut"; parent counts the open rows of the step before."""
    answers, rows = [[]], []
    for ranked in steps:
        row, active = [], []
        for i, (score, parent, token) in enumerate(ranked):
            if token == end:
                answer, state = answers[parent], "ended" if i < k else "cut"
            else:
                answer, state = [*answers[parent], token], "open" if len(active) < k else "cut"
            active += [answer] * (state == "open")
            row.append((parent, token, score, answer, state))
        answers = active
        rows.append(row)
    return rows


def beam_steps(
    translator: Translator, english: str, beam_size: int
) -> list[list[tuple[float, int, str]]]:
    "`candidates` with words in place of tokens, without those that no sentence can begin with."
    steps = candidates(
        translator.model, translator.source_tokenizer.encode(clean_input(english)), beam_size
    )
    return [
        [
            (p, beam, "EOS" if i == EOS else translator.target_tokenizer.decode([i]).strip())
            for p, beam, i in step
            if p > -torch.inf
        ]
        for step in steps
    ]


def try_it(
    translator: Translator, rows: list[tuple[str, str]], was_seen: Callable[[str], bool]
) -> list[dict]:
    """Everything that the page shows, for (English, reference) rows: the answer, its pieces, and
    the attention that each paid to the English.

    was_seen(english) tells whether training held it; right is the reference, or what `ALSO_RIGHT`
    has. w holds one letter per weight, row by row of the answer: the mean over the heads of the
    later half of the layers. Leaves the model in evaluation mode."""
    page = []
    for english, reference in rows:
        (answer,) = translator.translate([clean_input(english)])
        maps, (source,), (target,) = compute_attention(translator, [(clean_input(english), answer)])
        later = maps["cross"][len(maps["cross"]) // 2 :, 0]  # (N / 2, H, T, S)
        weights = later.mean((0, 1))[:-1]  # the last row says EOS
        row = {
            "en": english,
            "ref": reference,
            "seen": bool(was_seen(english)),
            "said": answer,
            "s": [translator.source_tokenizer.decode([i]) for i in source[:-1].tolist()]
            + ["⟨end⟩"],
            "t": [translator.target_tokenizer.decode([i]) for i in target[1:-1].tolist()],
            "w": "".join(LETTERS[i] for i in (weights * 63).round().long().flatten().tolist()),
            "right": answer in {reference, *ALSO_RIGHT},
        }
        page.append(row)
    return page


def try_it_page(rows: list[dict] | None = None) -> str:
    """The page in book/web/views with these sentences, as HTML; None: the recorded ones of
    tatoeba-fr."""
    return live_view("try_it", data=script(load_bench("try_it") if rows is None else rows))
