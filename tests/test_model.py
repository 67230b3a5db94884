"""The whole model's settings: sizes, starts, and what decoding and the loss in blocks take from it.
"""


import inspect

import pytest
import torch
from torch import nn

from transformer_lit.decoder_only import DecoderOnlyTransformer
from transformer_lit.decoding import beam_search
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.schedule import noam_lr, paper_adam
from transformer_lit.variants import build_modern
from transformer_lit.wmt import PAPER_TRAINING, PRESETS, VOCAB_SIZES


# what the package has, the paper's value and where the paper has it; nowhere else in the tests
BASE, BIG = (vars(TransformerConfig.base(9)), vars(TransformerConfig.big(9)))
DEFAULTS = {
    name: default.default
    for function in (noam_lr, beam_search)
    for name, default in inspect.signature(function).parameters.items()
}
PAPER = {
    "layers": ((BASE["n_encoder_layers"], BASE["n_decoder_layers"]), (6, 6), "section 3.1"),
    "width": ((BASE["d_model"], BIG["d_model"]), (512, 1024), "table 3"),
    "feed-forward": ((BASE["d_ff"], BIG["d_ff"]), (2048, 4096), "table 3"),
    "heads": ((BASE["n_heads"], BIG["n_heads"]), (8, 16), "table 3"),
    "dropout": ((BASE["dropout"], BIG["dropout"]), (0.1, 0.3), "table 3"),
    "norm": (BASE["norm"], "post", "section 3.1"),
    "one matrix": (BASE["tied_embeddings"], True, "section 3.4"),
    "β of Adam": (paper_adam(nn.Linear(1, 1)).defaults["betas"], (0.9, 0.98), "section 5.3"),
    "ε of Adam": (paper_adam(nn.Linear(1, 1)).defaults["eps"], 1e-9, "section 5.3"),
    "warm-up": ((PAPER_TRAINING.warmup_steps, DEFAULTS["warmup_steps"]), (4000, 4000), "5.3"),
    "smoothing": (PAPER_TRAINING.label_smoothing, 0.1, "section 5.4"),
    "clipping": (PAPER_TRAINING.clip_norm, 0, "none in section 5"),
    "tokens of a batch": (PAPER_TRAINING.max_tokens, 25_000, "section 5.1"),
    "vocabulary": (VOCAB_SIZES, {"wmt14-en-de": 37_000, "wmt14-en-fr": 32_000}, "section 5.1"),
    "steps": (PRESETS["paper"].max_steps, 100_000, "section 5.2"),
    "averaged": (PRESETS["paper"].n_averaged, 5, "section 6.1"),
    "beam": (DEFAULTS["beam_size"], 4, "section 6.1"),
    "length penalty": (DEFAULTS["alpha"], 0.6, "section 6.1"),
}


@pytest.mark.parametrize("name", PAPER)
def test_numbers_are_the_papers(name):
    ours, papers, source = PAPER[name]
    assert ours == papers, f"{name}: {source} of the paper"


@pytest.mark.seconds
@pytest.mark.parametrize("length", [6, 600], ids=["in the table", "beyond it"])
@pytest.mark.parametrize("kind", ["book", "modern", "decoder-only"])
def test_forward_is_one_graph(kind, length):
    "torch.compile finds nothing in `forward` at which it must stop."
    config = TransformerConfig(30, None, 16, 2, 32, 1, 1, norm="pre")
    build = {"book": Transformer, "modern": build_modern, "decoder-only": DecoderOnlyTransformer}
    model = build[kind](config).eval()
    source, target = torch.full((2, length), 5), torch.full((2, 4), 6)
    whole = torch.compile(model, backend="eager", fullgraph=True)
    assert torch.allclose(whole(source, target), model(source, target), atol=1e-5)
