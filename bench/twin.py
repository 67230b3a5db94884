"""The book's model with nn.Transformer inside: what the rivals' tables train and time.

Around PyTorch's stacks stand the book's own embeddings (times the root of d_model, plus sinusoids),
its masks and its output, tied as the configuration says, so that only the stacks differ.
nn.Transformer comes with a last LayerNorm in both stacks and with dropout on attention weights and
inside the feed-forward layer; both stay. `twin_of` fills one with the weights of a model of the
book: the same logits, as `python bench/twin.py` shows and tests/test_bench.py asks."""

import sys
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from transformer_lit.embeddings import Embedding  # noqa: E402
from transformer_lit.masks import PAD, causal_mask  # noqa: E402
from transformer_lit.model import Transformer, TransformerConfig  # noqa: E402


class Twin(nn.Module):
    """source (B, S), target (B, T) -> logits (B, T, V), as `Transformer`, from the same
    configuration.

    Decodes with the book's search: the encoder runs once, the decoder on the whole prefix at each
    step."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config, c = config, config
        vocab = c.source_vocab if c.target_vocab is None else c.target_vocab
        self.source = Embedding(c.source_vocab, c.d_model, c.dropout)
        self.target = Embedding(vocab, c.d_model, c.dropout)
        with warnings.catch_warnings():  # with norm_first it announces a fast path that it lacks
            warnings.simplefilter("ignore")
            self.core = nn.Transformer(
                c.d_model,
                c.n_heads,
                c.n_encoder_layers,
                c.n_decoder_layers,
                c.d_ff,
                c.dropout,
                batch_first=True,
                norm_first=c.norm == "pre",
            )
        self.core.encoder.enable_nested_tensor = self.core.encoder.use_nested_tensor = (
            False  # it warns
        )
        self.output = nn.Linear(c.d_model, vocab, bias=False)
        nn.init.xavier_uniform_(self.output.weight)
        if c.tied:
            self.output.weight = self.target.tokens.weight
        if c.tied and c.target_vocab is None:
            self.source.tokens.weight = self.target.tokens.weight

    def encode(self, source: Tensor) -> Tensor:
        "(B, S) -> memory (B, S, D)"
        return self.core.encoder(self.source(source), src_key_padding_mask=source == PAD)

    def hidden(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        "What the output layer is given. (B, T, D)"
        closed = ~causal_mask(target.size(1), target.device)[
            0, 0
        ]  # True where a query may NOT look
        return self.core.decoder(
            self.target(target),
            memory,
            tgt_mask=closed,
            tgt_is_causal=True,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source == PAD,
        )

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        return self.output(self.hidden(target, memory, source))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(target, self.encode(source), source)

    def start(self, source: Tensor) -> dict:
        return {"source": source, "memory": self.encode(source), "said": source[:, :0]}

    def step(self, tokens: Tensor, state: dict) -> tuple[Tensor, dict]:
        said = torch.cat([state["said"], tokens[:, None]], 1)  # (B, t)
        last = self.hidden(said, state["memory"], state["source"])[:, -1]
        return self.output(last), {**state, "said": said}


def twin_of(model: Transformer) -> Twin:
    """A twin with the weights of `model`; post-norm, the two last LayerNorms are taken out, which
    the paper lacks."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from helpers import copy_layer  # needs what the tests need

    twin = Twin(model.config)
    twin.to(next(model.parameters()))
    with torch.no_grad():
        for name in ("source", "target"):
            getattr(twin, name).tokens.weight.copy_(getattr(model, name).tokens.weight)
        twin.output.weight.copy_(model.output.weight)
        for mine, its in ((model.encoder, twin.core.encoder), (model.decoder, twin.core.decoder)):
            for a, b in zip(mine.layers, its.layers, strict=True):
                copy_layer(a, b)
            if model.config.norm == "pre":
                its.norm.load_state_dict(mine.norm.state_dict())
            else:
                its.norm = None
    return twin.train(model.training)


def difference(norm: str, tied: bool = True) -> float:
    """The largest difference of a logit between a model and its twin, in evaluation mode, with pads
    on both sides."""
    torch.manual_seed(0)
    config = TransformerConfig(50, None if tied else 40, 16, 4, 32, 2, 3, norm=norm, tied=tied)
    model = Transformer(config).double().eval()
    source, target = torch.randint(4, 40, (3, 7)), torch.randint(4, 40, (3, 6))
    source[1, 5:] = target[2, 3:] = PAD
    with torch.no_grad():
        away = (model(source, target) - twin_of(model)(source, target))[target != PAD]
    return away.abs().max().item()


if __name__ == "__main__":
    for norm in ("post", "pre"):
        print(norm, [difference(norm, tied) for tied in (True, False)])
