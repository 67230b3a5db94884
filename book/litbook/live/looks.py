"""What a trained translator shows of itself: the steps of its beam, where it looked, and the page
on which to try it."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from transformer_lit import decoding
from transformer_lit.attention_maps import record
from transformer_lit.masks import BOS, EOS
from litbook.live.pages import live_view, script
from litbook.results import load_bench, was_seen
from transformer_lit.translation import Translator, answers, readable

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
    steps, grow = [], decoding.grow_beams

    def watched(*inputs: Tensor) -> tuple[Tensor, ...]:
        grown = grow(*inputs)
        steps.append(list(zip(*(part[0].tolist() for part in grown))))
        return grown

    device = next(model.parameters()).device
    with patch.object(decoding, "grow_beams", watched):
        decoding.beam_search(model, torch.tensor([source], device=device), k, *options)
    return steps


def beam_steps(
    translator: Translator, english: str, beam_size: int = 2
) -> list[list[tuple[float, int, str]]]:
    "`candidates` with words in place of tokens, without those that no sentence can begin with."
    source = translator.source.encode(readable(english))
    return [
        [
            (p, beam, "EOS" if i == EOS else translator.target.decode([i]).strip())
            for p, beam, i in step
            if p > -torch.inf
        ]
        for step in candidates(translator.model, source, beam_size)
    ]


@torch.no_grad()
def looked_at(translator: Translator, english: str) -> dict:
    """What a page needs to show one sentence: the answer, its pieces, and the attention that each
    paid to the English.

    w holds one letter per weight, row by row of what was said: the mean over the heads of the later
    half of the layers. Leaves the model in evaluation mode."""
    source, target = translator.source, translator.target
    translator.model.eval()
    ids = source.encode(readable(english))
    [said] = answers(translator.model, [ids], beam_size=4, batch_size=1)
    device = next(translator.model.parameters()).device
    with record(translator.model) as seen:
        translator.model(
            torch.tensor([ids], device=device), torch.tensor([[BOS] + said], device=device)
        )
    later = torch.stack(seen["cross"][len(seen["cross"]) // 2 :])  # (N / 2, 1, H, T, S)
    steps = (later[:, 0].mean((0, 1))[: len(said)] * 63).round().long().flatten().tolist()
    return {
        "said": target.decode(said),
        "s": [source.decode([i]) for i in ids[:-1]] + ["⟨end⟩"],
        "t": [target.decode([i]) for i in said],
        "w": "".join(LETTERS[i] for i in steps),
    }


def try_it(
    translator: Translator, rows: list[tuple[str, str]], seen: Callable[[str], bool] = was_seen
) -> list[dict]:
    """Everything that the page shows, for (English, reference) rows; seen(english) tells whether
    training held it.

    An answer is right that is the reference or in `ALSO_RIGHT`."""
    shown = []
    for english, reference in rows:
        look = looked_at(translator, english)
        right = look["said"] == reference or look["said"] in ALSO_RIGHT
        about = {"en": english, "ref": reference, "seen": bool(seen(english))}
        shown.append({**about, **look, "right": right})
    return shown


def try_it_page(rows: list[dict] | None = None) -> str:
    """The page in book/web/views with these sentences, as HTML; None: the recorded ones of the
    translator that ships."""
    if rows is None:
        rows = load_bench("try_it")
    return live_view("try_it", data=script(rows))
