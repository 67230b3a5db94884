"""The doctor's own examination: healthy models raise no alarm, and each planted fault is found by
the check meant for it."""

import ast
import json
import math
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from transformer_lit import cli, decoder, doctor, encoder, multi_head_attention, sublayers
from transformer_lit import model as book
from transformer_lit.decoder_only import DecoderOnlyTransformer
from transformer_lit.decoding import length_penalty
from transformer_lit.doctor import examine
from transformer_lit.embeddings import InputEmbedding
from transformer_lit.loss import label_smoothed_cross_entropy, shift_right
from transformer_lit.masks import BOS, EOS, PAD, padding_mask, target_mask
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.variants import build_modern

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")
V, D = 40, 32
IDS = dict(vocab_size=V, pad_id=PAD, bos_id=BOS, eos_id=EOS)
TINY = dict(d_model=D, n_heads=4, d_ff=64, n_encoder_layers=2, n_decoder_layers=2)


class Training:
    "A model with all that belongs to it; a planted fault replaces a part."

    def __init__(self, **config):
        torch.manual_seed(0)
        self.model = Transformer(TransformerConfig(V, **TINY | config))
        self.shift, self.loss = shift_right, label_smoothed_cross_entropy
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda n: 1 / (1 + n))
        self.zero_grad, self.schedule, self.divide = True, True, True
        self.start_id, self.source = BOS, lambda source, target: source
        self.rank = lambda log_prob, length: log_prob / length_penalty(length)
        self.start, self.step, self.encode = (
            lambda source: self.model.initial_state(source),
            lambda tokens, state: self.model.step(tokens, state),
            lambda source: self.model.encode(source),
        )

    def batch(self):
        rng = torch.Generator().manual_seed(3)
        source = torch.randint(4, V, (4, 7), generator=rng)
        target = torch.randint(4, V, (4, 5), generator=rng)
        source[:, -1], target[:, 0], target[:, -1] = EOS, BOS, EOS
        return self.source(source, target), *self.shift(target)

    def train_step(self, source, decoder_input, labels):
        if self.zero_grad:
            self.optimizer.zero_grad()
        self.loss(self.model(source, decoder_input), labels).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)
        self.optimizer.step()
        if self.schedule:
            self.scheduler.step()

    def accumulate(self, batches):
        for source, decoder_input, labels in batches:
            loss = self.loss(self.model(source, decoder_input), labels)
            (loss / (len(batches) if self.divide else 1)).backward()

    def decode(self, source):
        state, tokens = self.start(source), torch.tensor([self.start_id])
        for _ in range(3):
            logits, state = self.step(tokens, state)
            tokens = logits.argmax(-1)

    def examine(self, **options):
        parts = "start step decode encode loss batch optimizer scheduler train_step accumulate rank"
        fields = {name: getattr(self, name) for name in parts.split()}
        tied = self.model.config.tied_embeddings and "all"
        return examine(self.model, tied=tied, **IDS, **fields, **options)


# Healthy -----------------------------------------------------------------------------------------


def torch_transformer(norm_first=False, batch_first=True, call=None):
    return Host(call or as_documented, batch_first=batch_first, norm_first=norm_first)


class Host(nn.Module):
    "nn.Transformer with what it leaves to its user."

    def __init__(self, call, **options):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Transformer(D, 4, 2, 2, 64, **options)
        tables = (nn.Embedding(n, D) for n in (V, V, 40))
        self.source, self.target, self.positions = tables
        for table in (self.source, self.target, self.positions):
            nn.init.normal_(table.weight, std=D**-0.5)
        self.output, self.call = nn.Linear(D, V), call

    def embed(self, table, ids):
        length = ids.size(1 if self.body.batch_first else 0)
        positions = self.positions(torch.arange(length))
        positions = positions if self.body.batch_first else positions[:, None]
        return (table(ids) + positions) * math.sqrt(D)

    def forward(self, src, tgt):
        length = tgt.size(1 if self.body.batch_first else 0)
        causal = torch.ones(length, length, dtype=torch.bool).triu(1)  # True: hidden
        x, y = self.embed(self.source, src), self.embed(self.target, tgt)
        pads = (src == PAD, tgt == PAD) if self.body.batch_first else (src.T == PAD, tgt.T == PAD)
        return self.output(self.call(self.body, x, y, causal, *pads))


def as_documented(body, x, y, causal, src_pads, tgt_pads):
    return body(
        x,
        y,
        tgt_mask=causal,
        src_key_padding_mask=src_pads,
        tgt_key_padding_mask=tgt_pads,
        memory_key_padding_mask=src_pads,
    )


class GPT(nn.Module):
    "A decoder-only model as many write it: learned positions or ALiBi, grouped keys if asked for."

    def __init__(self, alibi=False, n_key_heads=4):
        super().__init__()
        torch.manual_seed(0)
        self.alibi, self.n_key_heads = alibi, n_key_heads
        self.wte, self.wpe = nn.Embedding(V, D), nn.Embedding(64, D)
        n_qkv = D + 2 * n_key_heads * D // 4
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                dict(
                    ln1=nn.LayerNorm(D),
                    qkv=nn.Linear(D, n_qkv),
                    proj=nn.Linear(D, D),
                    ln2=nn.LayerNorm(D),
                    mlp=nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D)),
                )
            )
            for _ in range(2)
        )
        self.ln_f, self.head = nn.LayerNorm(D), nn.Linear(D, V, bias=False)
        for table in (self.wte, self.wpe):
            nn.init.normal_(table.weight, std=0.02)
        if alibi:
            del self.wpe

    def attend(self, block, x):
        B, T, K = *x.shape[:2], D // 4
        q, k, v = block["qkv"](block["ln1"](x)).split([D, *[self.n_key_heads * K] * 2], 2)
        q, k, v = (y.view(B, T, -1, K).transpose(1, 2) for y in (q, k, v))
        bias = torch.full((T, T), -math.inf).triu(1)
        if self.alibi:
            distance = torch.arange(T)[:, None] - torch.arange(T)
            slopes = torch.tensor([1.0, 0.5, 0.2, 0.1])
            bias = bias - torch.einsum("h,ts->hts", slopes, distance.clamp(min=0).float())
        y = F.scaled_dot_product_attention(q, k, v, bias, enable_gqa=self.n_key_heads < 4)
        return block["proj"](y.transpose(1, 2).reshape(B, T, D))

    def forward(self, idx, targets=None):
        x = self.wte(idx)
        if not self.alibi:
            x = x + self.wpe(torch.arange(idx.size(1)))
        for block in self.blocks:
            x = x + self.attend(block, x)
            x = x + block["mlp"](block["ln2"](x))
        logits = self.head(self.ln_f(x))
        if targets is None:
            return logits[:, [-1]], None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class HuggingFaceLike(nn.Module):
    "input_ids and attention_mask, an object with .logits."

    def __init__(self, causal=True, offset=1, takes_mask=True):
        super().__init__()
        torch.manual_seed(0)
        self.offset, self.takes_mask = offset, takes_mask
        layer = partial(nn.TransformerEncoderLayer, D, 4, 64, batch_first=True, norm_first=True)
        self.layers, self.causal = nn.ModuleList(layer() for _ in range(2)), causal
        self.embed, self.positions, self.head = (
            nn.Embedding(V, D),
            nn.Embedding(64, D),
            nn.Linear(D, V),
        )

    def forward(self, input_ids=None, attention_mask=None, labels=None):
        x = self.embed(input_ids) + self.positions(torch.arange(input_ids.size(1)))
        causal = nn.Transformer.generate_square_subsequent_mask(input_ids.size(1)).isinf()
        for layer in self.layers:
            pads = attention_mask == 0 if self.takes_mask and attention_mask is not None else None
            x = layer(x, causal if self.causal else None, pads)
        logits, n = self.head(x), self.offset
        if labels is None:
            return type("Output", (), {"logits": logits})()
        loss = F.cross_entropy(logits[:, : labels.size(1) - n].mT, labels[:, n:])
        return {"loss": loss, "logits": logits}


HEALTHY = {
    "the book's, post-norm": lambda: Training().examine(),
    "pre-norm": lambda: Training(norm="pre").examine(),
    "untied": lambda: Training(tied_embeddings=False).examine(),
    "RoPE, SwiGLU, grouped queries": lambda: examine(
        seeded(build_modern, TransformerConfig(V, **TINY)), **IDS
    ),
    "the book's decoder-only": lambda: examine(
        seeded(DecoderOnlyTransformer, TransformerConfig(V, **TINY)), **IDS
    ),
    "nn.Transformer": lambda: examine(torch_transformer(), **IDS),
    "nn.Transformer, pre-norm": lambda: examine(torch_transformer(norm_first=True), **IDS),
    "nn.Transformer, length first": lambda: examine(torch_transformer(batch_first=False), **IDS),
    "a GPT": lambda: examine(GPT(), vocab_size=V),
    "a GPT with ALiBi": lambda: examine(GPT(alibi=True), vocab_size=V),
    "a GPT with grouped keys": lambda: examine(GPT(n_key_heads=2), vocab_size=V),
    "Hugging Face's way": lambda: examine(HuggingFaceLike(), vocab_size=V, pad_id=PAD),
    "an encoder": lambda: examine(
        HuggingFaceLike(causal=False, offset=0), vocab_size=V, pad_id=PAD, kind="encoder-only"
    ),
    "bf16": lambda: examine(Training().model.bfloat16(), **IDS, quick=True),
}


def seeded(build, config):
    torch.manual_seed(0)
    return build(config)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_model_raises_no_alarm(name):
    report = HEALTHY[name]()
    report.check()
    assert {f.verdict for f in report.findings} <= {"ok", "note", "not checked"}, str(report)
    assert sum(f.verdict == "ok" for f in report.findings) > 20


def test_a_trained_model_is_healthy_too():
    training = Training()
    for _ in range(30):
        training.train_step(*training.batch())
    training.examine(trained=True, quick=True).check()


# Planted ------------------------------------------------------------------------------------------

FAULTS = {}


def fault(check, **config):
    "A fault in a part of `Training`, or in the package by `patch`; the check that is to find it."

    def register(plant):
        FAULTS[plant.__name__.replace("_", " ")] = check, plant, config
        return plant

    return register


def masks(target=target_mask, source=padding_mask, encoder_mask=padding_mask):
    "The book's model with other masks; each a function of ids."

    def plant(training, patch):
        def hidden_states(self, ids, memory, source_ids):
            x = self.target_embedding(ids)
            return self.decoder(x, memory, target(ids), source(source_ids))

        def encode(self, source_ids):
            return self.encoder(self.source_embedding(source_ids), encoder_mask(source_ids))

        patch.setattr(Transformer, "hidden_states", hidden_states)
        patch.setattr(Transformer, "encode", encode)

    return plant


def everything(ids):
    return torch.ones_like(ids, dtype=torch.bool)[:, None, None, :]


def band(k):
    "Token s is visible from position t if s <= t + k."
    return lambda ids: padding_mask(ids) & torch.ones(2 * ids.shape[-1:]).tril(k).bool()


for name, check, plant in (
    ("no causal mask", "future leak", masks(padding_mask)),
    ("a transposed causal mask", "future leak", masks(lambda ids: target_mask(ids).mT)),
    ("an inverted causal mask", "future leak", masks(lambda ids: ~target_mask(ids))),
    ("one future token visible", "future leak", masks(band(1))),
    ("the earliest tokens hidden", "causal visibility",
     masks(lambda ids: target_mask(ids) & ~band(-2)(ids))),
    ("no padding mask", "padding leak", masks(source=everything, encoder_mask=everything)),
    ("no padding mask in the encoder", "padding leak", masks(encoder_mask=everything)),
    ("no padding mask in cross-attention", "padding leak", masks(source=everything)),
    ("an inverted source mask", "padding leak", masks(source=lambda ids: ~padding_mask(ids))),
    ("a causal encoder", "encoder visibility", masks(encoder_mask=target_mask)),
    ("hidden source words", "source use", masks(
        source=lambda ids: padding_mask(ids) & (torch.arange(ids.size(1)) > 0),
        encoder_mask=lambda ids: padding_mask(ids) & torch.eye(ids.size(1)).bool())),
):  # fmt: skip
    FAULTS[name] = check, plant, {}


@fault("train/eval agreement")
def causal_mask_in_training_only(training, patch):
    masks(lambda ids: target_mask(ids) if training.model.training else padding_mask(ids))(
        training, patch
    )


@fault("future leak")
def causal_mask_in_evaluation_only(training, patch):
    masks(lambda ids: padding_mask(ids) if training.model.training else target_mask(ids))(
        training, patch
    )


@fault("future leak")
def a_leak_behind_weights_of_zero(training, patch):
    masks(padding_mask)(training, patch)
    for w in training.model.decoder.parameters():
        w.data *= w.dim() < 2


def attention(scale=None, axis=-1, hidden=-1e9, after=False, product=torch.matmul):
    "Another attention in every layer."

    def attend(query, key, value, mask=None, dropout_p=0.0):
        scores = torch.true_divide(query @ key.mT, math.sqrt(scale or query.size(-1)))
        if mask is not None and not after:
            scores = scores.masked_fill(~mask, hidden)
        weights = scores.softmax(axis)
        if after and mask is not None:
            weights = weights.masked_fill(~mask, 0.0)
        return product(F.dropout(weights, dropout_p), value), weights

    return lambda training, patch: patch.setattr(
        multi_head_attention, "scaled_dot_product_attention", attend
    )


for name, check, plant in (
    ("scores that are not divided", "attention", attention(scale=1)),
    ("scores divided by the root of d model", "attention", attention(scale=D)),
    ("scores divided by d k", "attention", attention(scale=64)),
    ("softmax over the queries", "attention", attention(axis=-2)),
    ("softmax over the heads", "attention", attention(axis=1)),
    ("minus infinity in a row without keys", "fully padded row", attention(hidden=-math.inf)),
    ("a mask of zeros that are added", "future leak", attention(hidden=0.0)),
    ("a mask after the softmax", "future leak", attention(after=True)),
):
    FAULTS[name] = check, plant, {}


@fault("future leak")
def heads_merged_without_transpose(training, patch):
    def forward(self, query, key, value, mask=None):
        if key.ndim == 3:
            key, value = self.project_keys_values(key, value)
        x, weights = self.attend(self.split_heads(self.q_proj(query)), key, value, mask)
        return self.out_proj(x.reshape(query.shape)), weights

    patch.setattr(multi_head_attention.MultiHeadAttention, "forward", forward)


def embed(f):
    "Another forward of the input embedding: f(self, token vectors, ids, start)."

    def forward(self, tokens, start_pos=0):
        return self.dropout(f(self, self.token_embedding(tokens), tokens, start_pos))

    return lambda training, patch: patch.setattr(InputEmbedding, "forward", forward)


ROOT = math.sqrt(D)
for name, check, plant in (
    ("no positions", "position sensitivity", embed(lambda self, x, ids, start: x * ROOT)),
    ("frequencies that begin below 1", "sinusoidal positions", embed(lambda self, x, ids, start:
     x * ROOT + torch.stack([f(torch.arange(ids.size(1))[:, None] * 0.5 ** torch.arange(1, 17))
                             for f in (torch.sin, torch.cos)], -1).flatten(1))),
    ("one position for all", "position sensitivity",
     embed(lambda self, x, ids, start: x * ROOT + self.position_encodings[0])),
    ("positions along the batch axis", "batch invariance",
     embed(lambda self, x, ids, start: x * ROOT + self.position_encodings[: len(x), None])),
    ("embeddings that are not scaled", "attention", embed(
        lambda self, x, ids, start: x / 8 + self.position_encodings[start : start + ids.size(1)])),
    ("a cached token always at position 0", "KV cache consistency", embed(
        lambda self, x, ids, start: x * ROOT + self.position_encodings[: ids.size(1)])),
):  # fmt: skip
    FAULTS[name] = check, plant, {}


@fault("position sensitivity")
def no_positions_in_the_encoder(training, patch):
    training.model.source_embedding.position_encodings.zero_()


class OtherNorm(nn.LayerNorm):
    axes: tuple = (1,)

    def forward(self, x):
        mean, std = x.mean(self.axes, keepdim=True), x.std(self.axes, keepdim=True, unbiased=False)
        return (x - mean) / (std + 1e-5) * self.weight + self.bias


class OverBatch(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.norm = nn.BatchNorm1d(d_model)

    def forward(self, x):
        return self.norm(x.mT).mT


def norm(kind, **attributes):
    def plant(training, patch):
        patch.setattr(sublayers.nn, "LayerNorm", type("Norm", (kind,), attributes))
        training.__init__()

    return plant


FAULTS["a norm over time"] = "future leak", norm(OtherNorm), {}
FAULTS["a norm over time, seen inside"] = "attention", norm(OtherNorm), {}
FAULTS["a norm over the batch"] = "batch invariance", norm(OtherNorm, axes=(0,)), {}
FAULTS["batch norm"] = "train/eval agreement", norm(OverBatch), {}


@fault("KV cache consistency")
def cache_that_forgets(training, patch):
    patch.setattr(decoder.LayerCache, "append", lambda self, k, v: self._replace(keys=k, values=v))


@fault("KV cache consistency")
def decoding_without_the_source_mask(training, patch):
    def start(source):
        state = training.model.initial_state(source)
        return {**state, "source_mask": torch.ones_like(state["source_mask"])}

    training.start = start


@fault("KV cache consistency")
def other_logits_when_decoding(training, patch):
    def step(tokens, state):
        logits, state = training.model.step(tokens, state)
        return logits * 8, state

    training.step = step


@fault("KV cache consistency")
def dropout_while_decoding(training, patch):
    def step(tokens, state):
        logits, state = training.model.step(tokens, state)
        return logits + torch.randn_like(logits), state

    training.step = step


@fault("source use", tied_embeddings=False)
def cross_attention_to_the_decoder(training, patch):
    def forward(self, x, memory, target_mask=None, source_mask=None):
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, y, y, target_mask)[0])
        x = self.cross_attention_residual(
            x, lambda y: self.cross_attention(y, y, y, target_mask)[0]
        )
        return self.feed_forward_residual(x, self.feed_forward)

    patch.setattr(decoder.DecoderLayer, "forward", forward)


@fault("gradient flow", tied_embeddings=False)
def memory_detached(training, patch):
    hidden_states = Transformer.hidden_states
    patch.setattr(
        Transformer,
        "hidden_states",
        lambda self, x, memory, y: hidden_states(self, x, memory.detach(), y),
    )


@fault("gradient flow")
def a_layer_never_used(training, patch):
    def forward(self, x, mask=None):
        for layer in self.layers[:-1]:
            x = layer(x, mask)
        return self.norm(x)

    patch.setattr(encoder.Encoder, "forward", forward)


@fault("gradient flow")
def a_sublayer_times_zero(training, patch):
    patch.setattr(
        sublayers.FeedForward, "forward", lambda self, x: 0 * nn.Sequential.forward(self, x)
    )


@fault("gradient flow")
def nan_in_the_backward_pass(training, patch):
    def forward(self, x):
        return nn.Sequential.forward(self, x) + (x - x).abs().sqrt()

    patch.setattr(sublayers.FeedForward, "forward", forward)


@fault("shared layers")
def one_layer_n_times(training, patch):
    training.model.decoder.layers = nn.ModuleList([training.model.decoder.layers[0]] * 2)


def untied(part, copy):
    def plant(training, patch):
        module = training.model.get_submodule(part)
        module.weight = nn.Parameter(copy(module.weight.detach()))

    return plant


for name, part, copy in (
    ("tied by copy", "output_projection", torch.clone),
    ("tied by memory", "output_projection", torch.detach),
    ("a source embedding of its own", "source_embedding.token_embedding", torch.clone),
):
    FAULTS[name] = "weight tying", untied(part, copy), {}


@fault("initial loss")
def tied_embeddings_of_size_1(training, patch):
    nn.init.normal_(training.model.output_projection.weight)


@fault("output")
def logits_of_nan(training, patch):
    training.model.output_projection.weight.data[5] = math.nan


@fault("output")
def softmax_before_the_loss(training, patch):
    forward = Transformer.forward
    patch.setattr(
        Transformer, "forward", lambda self, source, ids: forward(self, source, ids).softmax(-1)
    )


FAULTS["softmax before the loss, by heart"] = "overfit one batch", softmax_before_the_loss, {}


@fault("overfit one batch", tied_embeddings=False)
def output_layer_without_gradient(training, patch):
    hidden_states = Transformer.hidden_states
    patch.setattr(
        Transformer, "hidden_states", lambda self, *x: hidden_states(self, *x).detach() * 0
    )


@fault("deterministic evaluation")
def dropout_in_evaluation(training, patch):
    patch.setattr(nn.Dropout, "forward", lambda self, x: F.dropout(x, 0.1))


@fault("deterministic evaluation")
def a_layer_made_in_forward(training, patch):
    def forward(self, x, sublayer):
        return nn.LayerNorm(x.size(-1))(x + self.dropout(sublayer(x)))

    patch.setattr(sublayers.SublayerConnection, "forward", forward)


@fault("padding leak")
def a_mask_from_the_last_batch(training, patch):
    cache = {}
    patch.setattr(
        book, "padding_mask", lambda ids: cache.setdefault(tuple(ids.shape), padding_mask(ids))
    )


def smoothed(logits, labels, other, log_softmax=None):
    target = torch.full_like(logits, other).scatter(-1, labels[..., None], 0.9)
    log_probs = logits.log_softmax(-1) if log_softmax is None else log_softmax(logits)
    return -(target * log_probs).sum(-1)[labels != PAD].mean()


def flat(f):
    return lambda logits, labels: f(logits.flatten(0, -2), labels.flatten())


LOSSES = {
    "pads are labels": flat(F.cross_entropy),
    "another id is ignored": flat(partial(F.cross_entropy, ignore_index=7)),
    "eos is ignored": flat(partial(F.cross_entropy, ignore_index=EOS)),
    "a mean over pads too": lambda x, y: (
        label_smoothed_cross_entropy(x, y, reduction="sum") / y.numel()
    ),
    "smoothing that sums to five": lambda x, y: smoothed(x, y, 0.1),
    "a label that is worth half": lambda x, y: 0.5 * label_smoothed_cross_entropy(x, y),
    "log of softmax": lambda x, y: smoothed(x, y, 0.1 / (V - 1), lambda z: z.softmax(-1).log()),
    "softmax twice": lambda x, y: label_smoothed_cross_entropy(x.softmax(-1), y),
}


@fault("optimizer")
def an_optimizer_of_the_encoder_alone(training, patch):
    training.optimizer = torch.optim.Adam(training.model.encoder.parameters())


for name, check, part, value in (
    ("decoding starts with pad", "start token", "start_id", PAD),
    ("decoding starts with eos", "start token", "start_id", EOS),
    ("beam search by the sum", "length normalization", "rank", lambda x, n: x),
    ("length divided the wrong way", "length normalization", "rank", lambda x, n: x * n),
    ("labels not shifted", "label shift", "shift", lambda x: (x[:, 1:], x[:, 1:])),
    ("labels shifted the wrong way", "label shift", "shift", lambda x: (x[:, 1:], x[:, :-1])),
    ("labels shifted twice", "label shift", "shift", lambda x: (x[:, :-2], x[:, 2:])),
    ("labels without eos", "label shift", "shift", lambda x: (x[:, :-2], x[:, 1:-1])),
    ("decoder input without bos", "label shift", "shift", lambda x: (x[:, 1:-1], x[:, 2:])),
    *((name, "loss function", "loss", f) for name, f in LOSSES.items()),
    ("zero_grad missing", "optimizer", "zero_grad", False),
    ("a schedule that stands still", "optimizer", "schedule", False),
    ("no optimizer step", "optimizer", "train_step", lambda *batch: None),
    ("parts that are not divided", "gradient accumulation", "divide", False),
):
    FAULTS[name] = check, lambda training, _, part=part, f=value: setattr(training, part, f), {}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_by_its_check(name, monkeypatch):
    check, plant, config = FAULTS[name]
    training = Training(**config)
    plant(training, monkeypatch)
    report = training.examine(checks=[check])
    assert {f.verdict for f in report.findings} & {"FAULT", "note"}, str(report)
    assert report.faults or name in MAY_BE_MEANT, str(report)


MAY_BE_MEANT = (
    "the earliest tokens hidden",
    "minus infinity in a row without keys",
    "embeddings that are not scaled",
)


# The report, the adapter, and what must stay as it was --------------------------------------------


def test_everything_is_as_it_was_afterwards():
    training = Training()
    training.model.train()
    for w in training.model.parameters():
        w.grad = torch.ones_like(w)
    weights = {name: w.clone() for name, w in training.model.state_dict().items()}
    state, rate = torch.get_rng_state(), training.optimizer.param_groups[0]["lr"]
    training.examine()
    assert training.optimizer.param_groups[0]["lr"] == rate and training.scheduler.last_epoch == 0
    assert torch.equal(state, torch.get_rng_state()) and training.model.training
    assert all(torch.equal(w, weights[name]) for name, w in training.model.state_dict().items())
    assert all((w.grad == 1).all() for w in training.model.parameters())
    assert all(m.training for m in training.model.modules())


def test_a_report_is_text_a_table_and_json():
    model = Training().model
    model.decoder.layers = nn.ModuleList([model.decoder.layers[0]] * 2)
    report = examine(model, **IDS, quick=True)
    with pytest.raises(AssertionError, match="shared layers"):
        report.check()
    assert "[layer] * n" in str(report) and "<td>shared layers</td>" in report._repr_html_()
    assert json.loads(report.to_json())["faults"] == 1
    examine(model, **IDS, quick=True, allow={"shared layers"}).check()


class Masked(nn.Module):
    def forward(self, src, src_mask):
        raise NotImplementedError


class Hidden(nn.Module):
    def forward(self, ids):
        return ids.float()[..., None].expand(-1, -1, 7)


@pytest.mark.parametrize(
    "model, words",
    [(Masked(), "logits=lambda input: model(input, ...)"), (Hidden(), "7")],
)
def test_what_cannot_be_guessed_is_said_with_what_to_write(model, words):
    with pytest.raises(ValueError) as caught:
        examine(model, vocab_size=V)
    assert words in str(caught.value)


def test_a_hook_that_fails_is_a_fault_with_what_it_must_be():
    case = Training()
    case.start = lambda: None
    (fault,) = case.examine(checks=["KV cache consistency"]).faults
    assert "start is source, or the batch size for one stack" in fault.cause
    with pytest.raises(ValueError, match="future leak"):
        examine(Hidden(), vocab_size=7, allow=["leak"])


def test_labels_may_be_padded_otherwise():
    case = Training()
    case.loss = lambda logits, labels: F.cross_entropy(logits.mT, labels)
    for ignored, n in (-100, 0), (None, 1):
        faults = case.examine(checks=["loss function"], ignore_index=ignored).faults
        assert len(faults) == n


def test_the_command_examines_a_file(tmp_path, capsys):
    path = tmp_path / "case.py"
    path.write_text("import torch\nfrom transformer_lit.doctor import examine\n"
        "class Leaky(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.table, self.output = torch.nn.Embedding(20, 20), torch.nn.LazyLinear(20)\n"
        "    def forward(self, idx):\n"
        "        x = self.table(idx).mean(1, keepdim=True).expand(-1, idx.size(1), -1)\n"
        "        return self.output(x)\n"
        "def report():\n"
        "    return examine(Leaky(), vocab_size=20, quick=True)\n")  # fmt: skip
    assert cli.main(["doctor", str(path), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    faults = {f["check"] for f in report["findings"] if f["verdict"] == "FAULT"}
    assert {"future leak", "position sensitivity"} <= faults
    path.write_text("")
    assert cli.main(["doctor", str(path)]) == 1
    assert "report()" in capsys.readouterr().err


def test_the_kind_is_told_by_logits():
    assert doctor.Case(nn.Module(), lambda source, target: 0, V).seq2seq
    assert not doctor.Case(Masked(), lambda ids: 0, V).seq2seq


def test_a_kind_that_there_is_not():
    with pytest.raises(ValueError, match="encoder-only"):
        examine(Hidden(), vocab_size=7, kind="decoder")


@pytest.mark.parametrize(
    "model, options, verdict",
    [
        (GPT(), {}, "note"),
        (HuggingFaceLike(), {}, "note"),  # counts positions from the left, as GPT-2 does
        (HuggingFaceLike(), {"padding_side": "left"}, "FAULT"),
        (HuggingFaceLike(takes_mask=False), {}, "FAULT"),
        (GPT(alibi=True), {"padding_side": "left"}, "FAULT"),
    ],
)
def test_left_padding_is_a_fault_where_it_is_meant_to_work(model, options, verdict):
    report = examine(model, **IDS, **options, checks=["left padding"])
    assert [f.verdict for f in report.findings] == [verdict]


@pytest.mark.parametrize("offset, verdicts", [(0, {"note"}), (1, {"ok"}), (2, {"FAULT"})])
def test_a_loss_inside_forward_is_examined(offset, verdicts):
    model, checks = HuggingFaceLike(offset=offset), ["label shift in forward", "loss function"]
    report = examine(model, **IDS, checks=checks)
    assert {f.verdict for f in report.findings if f.check == checks[0]} == verdicts
    assert ("equal logits cost" in str(report)) == (offset < 2)


@pytest.mark.parametrize(
    "batch, faults", [(lambda x: (x, x), 0), (lambda x: (x[:, :-1], x[:, 1:]), 1)]
)
def test_labels_may_be_shifted_in_the_loss(batch, faults):
    _, _, target = Training().batch()
    loss = lambda logits, labels: F.cross_entropy(
        logits[:, :-1].mT, labels[:, 1:], ignore_index=PAD
    )  # noqa: E731
    ids = dict(IDS, bos_id=None)
    for model, losses in (HuggingFaceLike(), {}), (GPT(), {"loss": loss}):
        report = examine(
            model,
            **ids,
            **losses,
            batch=lambda: batch(target),
            checks=["label shift", "loss function"],
        )
        assert len(report.faults) == faults, str(report)


def test_the_wheel_needs_torch_alone():
    "The same source is a wheel of its own: nothing of the book is imported."
    for path in Path(doctor.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                name = node.module.split(".")[0]
                assert name == "torch" or name in sys.stdlib_module_names, (path.name, name)
