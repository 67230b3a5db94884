"""The patients: their task, the nine components that can have a bug, the bugs, and the models."""

# A patient keeps nine parts beside its model, each a function as the book has it. A fault is
# another function in the place of one of them, and a mend puts one back. Task, sizes and seed are
# the same for all, so that faults of decoding share their weights.
import configparser
import math
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from unittest.mock import patch

import torch
from torch import Tensor, nn

from transformer_lit import decoding
from transformer_lit.attention import scaled_dot_product_attention
from transformer_lit.decoder import DecoderLayer
from transformer_lit.decoding import beam_search, greedy_decode, length_penalty
from transformer_lit.encoder import EncoderLayer
from transformer_lit.loss import shift_right, label_smoothed_cross_entropy
from transformer_lit.masks import BOS, EOS, PAD, padding_mask, target_mask
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.multi_head_attention import MultiHeadAttention
from transformer_lit.batching import Pair, collate

VOCAB, UM, WORDS, SENTENCES = 24, 4, 8, 18
STEPS, RATE = 100, 4e-3
LIMIT = 12  # tokens of an answer


# The task -----------------------------------------------------------------------------------------
def draw(n: int, rng: torch.Generator) -> list[int]:
    "Words other than um."
    return torch.randint(UM + 1, VOCAB, (n,), generator=rng).tolist()


@cache
def plain() -> list[Pair]:
    """The sentences: eight words, up to five of them um; the target leaves those out, so that
    targets are padded and sources aren't."""
    rng, pairs = torch.Generator().manual_seed(0), []
    for i in range(SENTENCES):
        source = draw(WORDS, rng)
        for place in torch.randperm(WORDS, generator=rng)[: i % 6].tolist():
            source[place] = UM
        pairs.append((source + [EOS], [BOS] + [word for word in source if word != UM] + [EOS]))
    return pairs


@cache
def two_answers() -> list[Pair]:
    """One source ten times: said again in full six times, with one of two last words, and answered
    by one word four times."""
    words = draw(WORDS, torch.Generator().manual_seed(1))
    changed_end, single_word = (after(word) for word in (words[-1], words[0]))
    answers = [words] * 3 + [[*words[:-1], changed_end]] * 3 + [[single_word]] * 4
    return [(words + [EOS], [BOS] + answer + [EOS]) for answer in answers]


def after(word):
    "The next word of the vocabulary; of a tensor, of each."
    return UM + 1 + (word - UM) % (VOCAB - UM - 1)


@cache
def floor() -> float:
    """Nats per token that nobody can get below: which of its three answers the one source has is
    chance."""
    chance = -sum(n * math.log(n / 10) for n in (3, 3, 4))
    return chance / sum(len(target) - 1 for _, target in plain() + two_answers())


def longer() -> Pair:
    "A source of 14 words, beside which the others are padded."
    words = draw(14, torch.Generator().manual_seed(2))
    return words + [EOS], [BOS] + words[:WORDS] + [EOS]


# The parts, and their faults ----------------------------------------------------------------------
SOUND: dict[str, Callable] = {  # as the book has them
    "attend": scaled_dot_product_attention,
    "self_mask": target_mask,
    "cross_mask": padding_mask,
    "shift": shift_right,
    "loss": partial(label_smoothed_cross_entropy, label_smoothing=0.0),
    "clear": lambda optimizer: optimizer.zero_grad(),
    "position": lambda past: past,
    "first": lambda rows: torch.full_like(rows, BOS),
    "penalty": length_penalty,
}
LEARNED = "attend", "self_mask", "cross_mask", "shift", "loss", "clear"  # these change the weights


def without_end(target: Tensor) -> tuple[Tensor, Tensor]:
    "A shift in which EOS is taken for padding."
    decoder_input, labels = shift_right(target)
    return decoder_input, labels.masked_fill(labels == EOS, PAD)


def whenever_trained(patient: "Patient", target: Tensor) -> Tensor:
    "The decoder's mask, but in training only."
    return target_mask(target) if patient.model.training else padding_mask(target)


FAULTY: dict[str, Callable] = {  # what stands in the place of the part that faults.ini names
    "eos": without_end,
    "scale": lambda query, *keys_values_mask: scaled_dot_product_attention(
        query * math.sqrt(query.size(-1)), *keys_values_mask
    ),
    "transposed": lambda target: target_mask(target).mT,
    "training": whenever_trained,
    "position": lambda past: 0,
    "pad": lambda rows: torch.full_like(rows, PAD),
    "cross": lambda source: torch.ones_like(padding_mask(source)),
    "shift": lambda target: (target[:, 1:], target[:, 1:]),
    "mean": lambda logits, labels: (
        label_smoothed_cross_entropy(logits, labels, 0.0, reduction="sum") / labels.numel()
    ),
    "pile": lambda optimizer: None,
    "length": lambda length, alpha=0.6: 1.0,
}
FAULTS = configparser.ConfigParser(interpolation=None)
FAULTS.read(Path(__file__).with_name("faults.ini"), encoding="utf-8")
WARD = FAULTS.sections()  # the fault of each case; the page goes through case 0 itself


# A patient ----------------------------------------------------------------------------------------
class Parted(Transformer):
    "The book's Transformer, which asks its patient for masks."

    patient: "Patient"

    def hidden_states(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        masks = self.patient.self_mask(target), self.patient.cross_mask(source)
        return self.decoder(self.target_embedding(target), memory, *masks)

    def initial_state(self, source: Tensor) -> dict:
        return {**super().initial_state(source), "source_mask": self.patient.cross_mask(source)}


class PartedAttention(MultiHeadAttention):
    "The book's attention, which asks its patient for equation 1."

    patient: "Patient"

    def attend(self, *inputs):
        return self.patient.attend(*inputs)


def parted(layer: Callable) -> Callable:
    "A factory of the book's layers with such attentions; it draws no more random numbers."

    def make(d_model: int, n_heads: int, *sizes):
        built = layer(d_model, n_heads, *sizes)
        with torch.random.fork_rng(devices=[]):
            for name, part in list(built.named_children()):
                if isinstance(part, MultiHeadAttention):
                    setattr(built, name, PartedAttention(d_model, n_heads))
        return built

    return make


class Begun:
    "A model whose decoding begins with its patient's first token; it writes down what is fed in."

    def __init__(self, patient: "Patient"):
        self.patient, self.initial_state, self.fed = patient, patient.model.eval().initial_state, []

    def step(self, tokens: Tensor, state: dict) -> tuple[Tensor, dict]:
        self.fed.append(torch.where(tokens == BOS, self.patient.first(tokens), tokens))
        return self.patient.model.step(self.fed[-1], state)


def unnamed(part: Callable) -> Callable:
    "The same function without its name; the book's own in its place counts as another."
    return lambda *inputs, **options: part(*inputs, **options)


class Patient:
    """A model with what trains it and what decodes with it; its nine parts are functions that can
    be replaced.

    `model`, `train_step(source, target)`, `greedy(source)` and `beam(source)` are used as the
    book's own."""

    def __init__(self, fault: str = ""):
        self._fault, parts = fault, dict(SOUND)
        if fault:
            part = FAULTY[fault]
            parts[FAULTS[fault]["part"]] = partial(part, self) if fault == "training" else part
        self._given = {name: unnamed(part) for name, part in parts.items()}
        vars(self).update(self._given)
        config = TransformerConfig(VOCAB, None, 64, 1, 64, 1, 2, dropout=0.0)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.model = Parted(config, parted(EncoderLayer), parted(DecoderLayer))
        self.model.patient = self
        self.model.target_embedding.register_forward_pre_hook(
            lambda _, inputs: (inputs[0], self.position(*inputs[1:] or (0,)))
        )
        for module in self.model.modules():
            if isinstance(module, PartedAttention):
                module.patient = self
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), betas=(0.9, 0.98), eps=1e-9, fused=True
        )
        self.losses: list[float] = []

    def changed(self) -> list[str]:
        "The parts that are no longer those it came with."
        return [name for name, part in self._given.items() if getattr(self, name) is not part]

    def fresh(self) -> "Patient":
        "The same patient before its training, what was mended included."
        untrained = Patient(self._fault)
        vars(untrained).update({name: getattr(self, name) for name in self.changed()})
        return untrained

    def batch(self) -> tuple[Tensor, Tensor]:
        "All that it was trained on: source (B, S), target (B, T+1)."
        return collate(plain() + two_answers())

    def train_step(self, source: Tensor, target: Tensor) -> dict[str, float]:
        "One update from source (B, S), target (B, T+1): loss and norm."
        self.model.train()
        self.clear(self.optimizer)
        decoder_input, labels = self.shift(target)
        loss = self.loss(self.model(source, decoder_input), labels)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), math.inf)
        self.optimizer.step()
        self.losses.append(loss.item())
        return {"loss": loss.item(), "grad_norm": norm.item()}

    def learn(self, source: Tensor, target: Tensor, steps: int = STEPS) -> "Patient":
        "One batch, so many times; the rate falls to 0."
        for step in range(steps):
            self.optimizer.param_groups[0]["lr"] = RATE * (1 - step / steps)
            self.train_step(source, target)
        self.model.eval()
        return self

    def greedy(self, source: Tensor) -> list[list[int]]:
        "As `greedy_decode`."
        return greedy_decode(Begun(self), source, LIMIT)

    def beam(self, source: Tensor) -> list[list[int]]:
        "As `beam_search`, with four hypotheses that are all waited for."
        with patch.object(decoding, "length_penalty", self.penalty):
            return beam_search(Begun(self), source, 4, 0.6, LIMIT, early_stopping=False)


@cache
def trained(fault: str) -> Patient:
    "A patient after its training, of which `admitted` gives copies."
    case = Patient(fault)
    return case.learn(*case.batch())


def admitted(fault: str) -> Patient:
    """A trained patient of one's own, to be changed at will; without a fault it is healthy. Faults
    of decoding have the weights of the healthy."""
    part = FAULTS.get(fault, "part", fallback="")
    copy, case = Patient(fault), trained(fault if part in LEARNED else "")
    copy.model.load_state_dict(case.model.state_dict())
    copy.model.eval()
    copy.losses += case.losses
    return copy


def patient(n: int) -> Patient:
    "Case 0 to 10, trained; each call gives another copy."
    return admitted(WARD[n])
