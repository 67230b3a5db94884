"""The book's model with nn.Transformer inside, and the step of tutorials: what rivals train.

Around PyTorch's stacks stand the book's own embeddings (times the root of d_model, plus sinusoids),
its masks and its output, tied as the configuration says, so that only the stacks differ.
nn.Transformer comes with a last LayerNorm in both stacks and with dropout on attention weights and
inside the feed-forward layer; both stay. With the weights of a model of the book it has the same
logits, as tests/test_bench.py asks."""

import random
import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lit.embeddings import InputEmbedding
from transformer_lit.loss import shift_right
from transformer_lit.masks import PAD, causal_mask
from transformer_lit.model import TransformerConfig
from transformer_lit.batching import PairBatches


class Uncached:
    """Decodes a model without a cache: the encoder runs once, the decoder on the whole prefix at
    each step; all_logits: of the whole prefix, too, as textbooks have it."""

    def __init__(self, model: nn.Module, all_logits: bool = False):
        self.model, self.all_logits = model, all_logits

    def initial_state(self, source: Tensor) -> dict:
        return {"source": source, "memory": self.model.encode(source), "prefix": source[:, :0]}

    def step(self, tokens: Tensor, state: dict) -> tuple[Tensor, dict]:
        prefix = torch.cat([state["prefix"], tokens[:, None]], 1)  # (B, t)
        states = self.model.hidden_states(prefix, state["memory"], state["source"])
        if not self.all_logits:
            states = states[:, -1:]
        return self.model.output_projection(states)[:, -1], {**state, "prefix": prefix}


class Twin(nn.Module):
    """source (B, S), target (B, T) -> logits (B, T, V), as `Transformer`, from the same
    configuration. Decodes with the book's search."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config, c = config, config
        vocab = c.target_vocab_size or c.source_vocab_size
        self.source_embedding = InputEmbedding(c.source_vocab_size, c.d_model, c.dropout)
        self.target_embedding = InputEmbedding(vocab, c.d_model, c.dropout)
        with warnings.catch_warnings():  # with norm_first it announces a fast path that it lacks
            warnings.simplefilter("ignore")
            layers = c.n_encoder_layers, c.n_decoder_layers
            self.core = nn.Transformer(
                *(c.d_model, c.n_heads, *layers, c.d_ff, c.dropout),
                batch_first=True,
                norm_first=c.norm == "pre",
            )
        encoder = self.core.encoder
        encoder.enable_nested_tensor = encoder.use_nested_tensor = False  # it warns
        self.output_projection = nn.Linear(c.d_model, vocab, bias=False)
        nn.init.xavier_uniform_(self.output_projection.weight)
        shared = self.target_embedding.token_embedding.weight
        if c.tied_embeddings:
            self.output_projection.weight = shared
        if c.tied_embeddings and c.target_vocab_size is None:
            self.source_embedding.token_embedding.weight = shared

    def encode(self, source: Tensor) -> Tensor:
        "(B, S) -> memory (B, S, D)"
        return self.core.encoder(self.source_embedding(source), src_key_padding_mask=source == PAD)

    def hidden_states(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        "What the output layer is given. (B, T, D)"
        masked = ~causal_mask(target.size(1), target.device)[0, 0]  # True: it may NOT be read
        return self.core.decoder(
            self.target_embedding(target),
            memory,
            tgt_mask=masked,
            tgt_is_causal=True,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source == PAD,
        )

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.output_projection(self.hidden_states(target, self.encode(source), source))

    def initial_state(self, source: Tensor) -> dict:
        return Uncached(self).initial_state(source)

    def step(self, tokens: Tensor, state: dict) -> tuple[Tensor, dict]:
        return Uncached(self).step(tokens, state)


# As tutorials train -------------------------------------------------------------------------------


class RandomBatches(PairBatches):
    "64 random pairs a batch."

    def epoch_batches(self, epoch: int) -> list[list[int]]:
        order = list(range(len(self.pairs)))
        random.Random(self.config.seed + 1000 * epoch).shuffle(order)
        return [order[i : i + 64] for i in range(0, len(order), 64)]


def textbook_adam(model: nn.Module, fused: bool | None = None) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=fused)


def textbook_loss(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    "PyTorch's cross-entropy on all logits."
    decoder_input, labels = shift_right(target)
    logits = model(source, decoder_input).float().flatten(0, 1)
    return F.cross_entropy(logits, labels.flatten(), ignore_index=PAD, label_smoothing=0.1)


def textbook_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: tuple[Tensor, Tensor],
    precision: str,
    loss: Callable = textbook_loss,
) -> Tensor:
    "One update, with no bound on the gradient."
    optimizer.zero_grad()
    with torch.autocast(batch[0].device.type, torch.bfloat16, enabled=precision == "bf16"):
        value = loss(model, *batch)
    value.backward()
    optimizer.step()
    return value.detach()
