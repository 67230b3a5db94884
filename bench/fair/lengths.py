"""A run's scores by length penalty, so that designs are compared at the α that suits each on
validation pairs; and where its model expects the end."""

from functools import partial
from unittest.mock import patch

import torch

from transformer_lit import translation
from transformer_lit.batching import collate
from transformer_lit.decoding import beam_search
from transformer_lit.evaluation import sacrebleu_scores
from transformer_lit.masks import EOS, PAD

SEARCHES = (1, 0.0), *((4, alpha) for alpha in (0.0, 0.6, 1.0, 1.5, 2.0, 3.0))


def by_length_penalty(translator: translation.Translator, parts: dict) -> list[list]:
    "Beam size, α, part, BLEU, chrF2 and length ratio. parts: name -> sources, references."
    rows = []
    for beam, alpha in SEARCHES:
        with patch.object(translation, "beam_search", partial(beam_search, alpha=alpha)):
            for part, (sources, references) in parts.items():
                outputs = translator.translate(sources, beam_size=beam, precision="fp32")
                bleu, chrf = sacrebleu_scores(outputs, references)
                values = bleu["value"], chrf["value"], bleu["length_ratio"]
                rows.append([beam, alpha, part, *values])
    return rows


@torch.no_grad()
def early_ends(model: torch.nn.Module, pairs: list) -> list[float]:
    "Mean probability of EOS by target position, where the reference goes on."
    sums = torch.zeros(2, 20)
    for start in range(0, len(pairs), 64):
        source, target = collate(pairs[start : start + 64])
        goes_on = ~torch.isin(target[:, 1:21], torch.tensor([EOS, PAD]))
        ends = model(source, target[:, :-1]).softmax(-1)[:, :20, EOS]
        sums[:, : ends.size(1)] += torch.stack([(ends * goes_on).sum(0), goes_on.sum(0)])
    return (sums[0] / sums[1].clamp(min=1)).tolist()
