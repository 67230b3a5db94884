"""The workshop's ten patients: small Transformers, each with one fault that was really made;
probes, hints and a verdict."""

# Whoever wants to heal them reads this file afterwards: the faults stand below. A patient keeps
# nine parts beside its model, each a function as the book has it. A fault is another function in
# the place of one of them, and a mend puts one back. Task, sizes and seed are the same for all, so
# that faults of decoding share their weights.
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lit import decoding
from transformer_lit.attention import scaled_dot_product_attention
from transformer_lit.decoding import beam_search, greedy_decode, penalty
from transformer_lit.loss import shift_right, smoothed_cross_entropy
from transformer_lit.masks import BOS, EOS, PAD, padding_mask, target_mask
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.multi_head import MultiHeadAttention
from transformer_lit.training import Pair, collate
from litbook import figures
from litbook.exercises import unwritten
from litbook.prose import Prose, in_a_row

VOCAB, UM, WORDS, SENTENCES = 24, 4, 8, 24
STEPS, RATE = 160, 3e-3
LIMIT = 12  # tokens of an answer
BUDGET = 3  # probes for each case
PARTS = {  # name -> the call, what it gives
    "attend": (
        "attend(query, key, value, mask)",
        "the output of equation 1, and its weights",
        "scaled_dot_product_attention",
    ),
    "self_mask": ("self_mask(target)", "what the decoder may see of its own words", "target_mask"),
    "cross_mask": ("cross_mask(source)", "what the decoder may see of the source", "padding_mask"),
    "shift": ("shift(target)", "what the decoder reads, and what it must say", "shift_right"),
    "loss": ("loss(logits, labels)", "nats per token", "smoothed_cross_entropy, smoothing=0"),
    "clear": ("clear(optimizer)", "nothing; it empties the gradients", "optimizer.zero_grad"),
    "position": ("position(past)", "the position of a new token after so many", "past"),
    "first": (
        "first(rows)",
        "the token that begins each row; rows: ids, shape (rows,)",
        "BOS in each",
    ),
    "penalty": ("penalty(length, alpha)", "what a hypothesis's score is divided by", "penalty"),
}
LEARNED = (
    "attend",
    "self_mask",
    "cross_mask",
    "shift",
    "loss",
    "clear",
)  # with another one of these the weights come out otherwise
SPECIAL = {PAD: "PAD", BOS: "BOS", EOS: "EOS", UM: "um"}


# The task -----------------------------------------------------------------------------------------
@cache
def plain() -> list[Pair]:
    """The sentences: eight words, up to five of them um; the target leaves those out, so that
    targets are padded and sources aren't."""
    rng, found = torch.Generator().manual_seed(0), []
    for i in range(SENTENCES):
        words = torch.randint(UM + 1, VOCAB, (WORDS,), generator=rng).tolist()
        ums = torch.randperm(WORDS, generator=rng)[: i % 6].tolist()
        source = [UM if place in ums else word for place, word in enumerate(words)]
        found.append((source + [EOS], [BOS] + [word for word in source if word != UM] + [EOS]))
    return found


@cache
def two_answers() -> list[Pair]:
    """One source ten times: said again in full six times, with one of two last words, and answered
    by one word four times."""
    rng = torch.Generator().manual_seed(1)
    words = torch.randint(UM + 1, VOCAB, (WORDS,), generator=rng).tolist()
    other, short = (UM + 1 + (word - UM) % (VOCAB - UM - 1) for word in (words[-1], words[0]))
    answers = [words] * 3 + [words[:-1] + [other]] * 3 + [[short]] * 4
    return [(words + [EOS], [BOS] + answer + [EOS]) for answer in answers]


@cache
def floor() -> float:
    """Nats per token that nobody can get below: which of its three answers the one source has is
    chance."""
    chance = -sum(n * math.log(n / 10) for n in (3, 3, 4))
    return chance / sum(len(target) - 1 for _, target in plain() + two_answers())


def longer() -> Pair:
    "A source of 14 words, beside which the others are padded."
    rng = torch.Generator().manual_seed(2)
    words = torch.randint(UM + 1, VOCAB, (14,), generator=rng).tolist()
    return words + [EOS], [BOS] + words[:WORDS] + [EOS]


# The parts, and their faults ----------------------------------------------------------------------
def sound() -> dict[str, Callable]:
    "The nine parts as the book has them."
    return {
        "attend": scaled_dot_product_attention,
        "self_mask": target_mask,
        "cross_mask": padding_mask,
        "shift": shift_right,
        "loss": partial(smoothed_cross_entropy, smoothing=0.0),
        "clear": lambda optimizer: optimizer.zero_grad(),
        "position": lambda past: past,
        "first": lambda rows: torch.full_like(rows, BOS),
        "penalty": penalty,
    }


def bare_products(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    "Equation 1 without its root."
    return scaled_dot_product_attention(query * math.sqrt(query.size(-1)), key, value, mask)


def mean_of_all(logits: Tensor, labels: Tensor) -> Tensor:
    "The loss over the number of labels, pads among them."
    return smoothed_cross_entropy(logits, labels, 0.0, reduction="sum") / labels.numel()


def without_end(target: Tensor) -> tuple[Tensor, Tensor]:
    "A shift in which EOS is taken for padding."
    read, say = shift_right(target)
    return read, say.masked_fill(say == EOS, PAD)


def whenever_trained(patient: "Patient", target: Tensor) -> Tensor:
    "The decoder's mask, but in training only."
    return target_mask(target) if patient.model.training else padding_mask(target)


class Fault(NamedTuple):
    """A part that is another than the book's, the probes that find it, three hints, and who has
    made it."""

    part: str
    make: Callable[["Patient"], Callable]
    probes: tuple[str, ...]
    hints: tuple[str, str, str]
    made: str


FAULTS = {
    "eos": Fault(
        "shift",
        lambda patient: without_end,
        ("ids",),
        (
            "It says the right words and then doesn't stop. Who should have taught it to?",
            "Look at the labels with the probe `ids`.",
            "The fault is in `shift`.",
        ),
        "This mistake is common: a tokenizer without a token for padding is given `EOS` for it,"
        " padding is left out of the loss, and `EOS` with it ([a reader's"
        " report](https://github.com/mlabonne/llm-course/issues/33)).",
    ),
    "scale": Fault(
        "attend",
        lambda patient: bare_products,
        ("overfit", "attention"),
        (
            "It learns, but slower than it should. Nothing is wrong with the data or the loss.",
            "Compare fresh models, before any training: the probe `attention`.",
            "The fault is in `attend`.",
        ),
        "A library for CNTK made this mistake and fixed it in version 0.1.33, after a question"
        " ([cntkx#10](https://github.com/delzac/cntkx/issues/10)). Without the division by √dₖ the"
        " softmax starts out peaked, and little gradient comes through.",
    ),
    "transposed": Fault(
        "self_mask",
        lambda patient: lambda target: target_mask(target).mT,
        ("future",),
        (
            "A loss below what chance allows means that the answer was seen.",
            (
                "There are two ways to see it: in the tokens that come in, or through attention."
                " `ids` and `future` tell them apart."
            ),
            "The fault is in `self_mask`.",
        ),
        "PyTorch made this mistake: in version 1.3 `generate_square_subsequent_mask` of"
        " `nn.Transformer` gave the mask the wrong way round"
        " ([pytorch#29546](https://github.com/pytorch/pytorch/issues/29546)). With rows and columns"
        " swapped, each position sees its future and none of its past.",
    ),
    "training": Fault(
        "self_mask",
        lambda patient: partial(whenever_trained, patient),
        ("future",),
        (
            (
                "Two losses of the same sentences and the same weights disagree. What differs"
                " between them?"
            ),
            "`model.train()` and `model.eval()`: which probe is run in both modes?",
            "The fault is in `self_mask`.",
        ),
        "A textbook made this mistake: [Dive into Deep"
        " Learning](https://d2l.ai/chapter_attention-mechanisms-and-transformers/transformer.html)"
        " builds the decoder's causal mask in training only. Decoding with a cache has no future to"
        " hide, so it doesn't notice; every loss in evaluation mode is wrong.",
    ),
    "position": Fault(
        "position",
        lambda patient: lambda past: 0,
        ("cache",),
        (
            "The losses are fine, so the weights are. Look at how the answers are made.",
            (
                "Answers are made one token at a time. Compare that with all at once: the probe"
                " `cache`."
            ),
            "The fault is in `position`.",
        ),
        "A textbook made this mistake: [Dive into Deep"
        " Learning](https://d2l.ai/chapter_attention-mechanisms-and-transformers/transformer.html)"
        " decodes one token at a time with a cache, and each gets the position of the first.",
    ),
    "pad": Fault(
        "first",
        lambda patient: lambda rows: torch.full_like(rows, PAD),
        ("ids",),
        (
            "The losses are fine, so the weights are. Look at how the answers are made.",
            (
                "Fed the right words, decoding one token at a time gives what it should. So look at"
                " what is fed in: the probe `ids`."
            ),
            "The fault is in `first`.",
        ),
        "[The Annotated Transformer](https://nlp.seas.harvard.edu/annotated-transformer/) made this"
        " mistake in its 2022 version: its copy task is trained with token 1 in front and decoded"
        " from token 0, the pad.",
    ),
    "cross": Fault(
        "cross_mask",
        lambda patient: lambda source: torch.ones_like(padding_mask(source)),
        ("batch",),
        (
            (
                "Nothing is wrong in training. What does the batch of answers have that no training"
                " batch had?"
            ),
            "One of the sources is longer, so the others are padded: the probe `batch`.",
            "The fault is in `cross_mask`.",
        ),
        "SpeechBrain made this mistake in decoding: there the source's mask was not passed on, and"
        " padding was attended to"
        " ([speechbrain#1107](https://github.com/speechbrain/speechbrain/issues/1107)). Our patient"
        " lacks it everywhere; its training sources are equally long, so nothing showed.",
    ),
    "shift": Fault(
        "shift",
        lambda patient: lambda target: (target[:, 1:], target[:, 1:]),
        ("ids",),
        (
            "A loss below what chance allows means that the answer was seen.",
            (
                "There are two ways to see it: in the tokens that come in, or through attention."
                " `ids` and `future` tell them apart."
            ),
            "The fault is in `shift`.",
        ),
        "MONAI's generative models made this mistake: token N was predicted from the tokens 0 to N,"
        " itself among them"
        " ([GenerativeModels#314](https://github.com/Project-MONAI/GenerativeModels/issues/314)).",
    ),
    "mean": Fault(
        "loss",
        lambda patient: mean_of_all,
        ("batch",),
        (
            "The answers are right. Only one number is too good, and it is so from the first step.",
            (
                "What is it the mean of? Give it the same sentence with more padding: the probe"
                " `batch`."
            ),
            "The fault is in `loss`.",
        ),
        "A textbook made this mistake: its masked loss sets the loss at pads to 0, and then the"
        " mean is taken over pads as well"
        " ([d2l-en#2076](https://github.com/d2l-ai/d2l-en/issues/2076)). The more padding a batch"
        " has, the less each of its words counts.",
    ),
    "pile": Fault(
        "clear",
        lambda patient: lambda optimizer: None,
        ("overfit", "gradients"),
        (
            "It doesn't even learn what it is shown again and again. Look at a step of training.",
            (
                "At a learning rate of 0 every step should have the same gradient. Does it? The"
                " probe `gradients`."
            ),
            "The fault is in `clear`.",
        ),
        "This is a common mistake: `zero_grad` is missing. PyTorch adds to the gradients that are"
        " there, so every step repeats all steps before it.",
    ),
    "length": Fault(
        "penalty",
        lambda patient: lambda length, alpha=0.6: 1.0,
        ("search",),
        (
            "One token at a time it answers well. Only the beam's answer is short.",
            (
                "What does a beam search compare when one answer has ended and another hasn't? The"
                " probe `search`."
            ),
            "The fault is in `penalty`.",
        ),
        "A system for dialogue about pictures has no length penalty: its beam search compares sums"
        " of log-probabilities, and so it prefers short answers, as its authors confirmed"
        " ([visdial#5](https://github.com/batra-mlp-lab/visdial/issues/5)). Every further token can"
        " only lower a sum.",
    ),
}


@cache
def ward() -> tuple[str, ...]:
    """The fault of each case: case 0 is the one that the page goes through; the ten others are
    shuffled, on every machine alike."""
    ten = sorted(
        set(FAULTS) - {"eos"}, key=lambda name: hashlib.sha256(f"case {name}".encode()).hexdigest()
    )
    return "eos", *ten


# A patient ----------------------------------------------------------------------------------------
class Parted(Transformer):
    "The book's Transformer, which asks its patient for masks and positions."

    patient: "Patient"

    def hidden(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        return self.decoder(
            self.target(target),
            memory,
            self.patient.self_mask(target),
            self.patient.cross_mask(source),
        )

    def start(self, source: Tensor) -> dict:
        return {**super().start(source), "source_mask": self.patient.cross_mask(source)}

    def step(self, tokens: Tensor, state: dict) -> tuple[Tensor, dict]:
        caches = [dict(one) for one in state["caches"]]
        past = caches[0]["keys"].size(2) if "keys" in caches[0] else 0
        x = self.decoder(
            self.target(tokens[:, None], self.patient.position(past)),
            None,
            None,
            state["source_mask"],
            caches,
        )
        return self.output(x[:, -1]), {**state, "caches": caches}


Parted.__name__ = Parted.__qualname__ = "Transformer"  # its name tells nothing


def attend_as(
    patient: "Patient",
    part: MultiHeadAttention,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    "`MultiHeadAttention.attend`, with the patient's own equation 1."
    x, weights = patient.attend(part.heads(part.query(query)), keys, values, mask)
    return part.output(x.transpose(1, 2).flatten(2)), weights


class Begun:
    "A model whose decoding begins with its patient's first token; it writes down what is fed in."

    def __init__(self, patient: "Patient"):
        self.patient, self.fed = patient, []  # type: tuple[Patient, list[Tensor]]

    def start(self, source: Tensor) -> dict:
        return self.patient.model.start(source)

    def step(self, tokens: Tensor, state: dict) -> tuple[Tensor, dict]:
        fed = torch.where(tokens == BOS, self.patient.first(tokens), tokens)
        self.fed.append(fed)
        return self.patient.model.step(fed, state)


def unnamed(part: Callable) -> Callable:
    "The same function without its name; the book's own in its place counts as another."
    return lambda *inputs, **options: part(*inputs, **options)


class Patient:
    """A model with what trains it and what decodes with it; its PARTS are functions that can be
    replaced.

    `model`, `train_step(source, target)`, `greedy(source)` and `beam(source)` are used as the
    book's own."""

    attend: Callable
    self_mask: Callable
    cross_mask: Callable
    shift: Callable
    loss: Callable
    clear: Callable
    position: Callable
    first: Callable
    penalty: Callable

    def __init__(self, fault: str = "", seed: int = 0):
        self._fault, self._seed, self._given = fault, seed, sound()
        if fault:
            self._given[FAULTS[fault].part] = FAULTS[fault].make(self)
        self._given = {name: unnamed(part) for name, part in self._given.items()}
        vars(self).update(self._given)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.model = Parted(
                TransformerConfig(
                    VOCAB,
                    d_model=64,
                    n_heads=1,
                    d_ff=64,
                    n_encoder_layers=1,
                    n_decoder_layers=2,
                    dropout=0.0,
                )
            )
        self.model.__dict__["patient"] = self  # no part of the model
        for part in self.model.modules():
            if isinstance(part, MultiHeadAttention):
                part.__dict__["attend"] = partial(attend_as, self, part)
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9
        )
        self.losses: list[float] = []

    def __repr__(self) -> str:
        return f"a patient after {len(self.losses)} steps of training"

    def changed(self) -> list[str]:
        "The parts that are no longer those it came with."
        return [name for name in PARTS if getattr(self, name) is not self._given[name]]

    def fresh(self) -> "Patient":
        "The same patient before its training, what was mended included."
        other = Patient(self._fault, self._seed)
        vars(other).update({name: getattr(self, name) for name in self.changed()})
        return other

    def train_step(self, source: Tensor, target: Tensor) -> dict[str, float]:
        "One update from source (B, S), target (B, T+1): loss and norm."
        self.model.train()
        self.clear(self.optimizer)
        read, say = self.shift(target)
        loss = self.loss(self.model(source, read), say)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), math.inf)
        self.optimizer.step()
        self.losses.append(loss.item())
        return {"loss": loss.item(), "norm": norm.item()}

    def learn(self, pairs: list[Pair], steps: int = STEPS, rate: float = RATE) -> "Patient":
        "All the pairs in one batch, so many times; the rate falls to 0."
        source, target = collate(pairs)
        for step in range(steps):
            self.optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
            self.train_step(source, target)
        self.model.eval()
        return self

    def greedy(self, source: Tensor, max_length: int = LIMIT) -> list[list[int]]:
        "As `greedy_decode`."
        self.model.eval()
        return greedy_decode(Begun(self), source, max_length)

    def beam(self, source: Tensor, max_length: int = LIMIT) -> list[list[int]]:
        "As `beam_search`, with four hypotheses that are all waited for."
        self.model.eval()
        with patch.object(decoding, "penalty", self.penalty):
            return beam_search(Begun(self), source, 4, 0.6, max_length, patient=True)

    def batch(self) -> tuple[Tensor, Tensor]:
        "All that it was trained on: source (B, S), target (B, T+1)."
        return collate(plain() + two_answers())


@cache
def learned(fault: str) -> tuple[dict[str, Tensor], tuple[float, ...]]:
    "Weights and losses after training; faults of decoding share those of the healthy."
    if fault and FAULTS[fault].part not in LEARNED or fault == "training":
        return learned("")
    one = Patient(fault).learn(plain() + two_answers())
    return one.model.state_dict(), tuple(one.losses)


def admitted(fault: str) -> Patient:
    "A trained patient of one's own, to be changed at will."
    one = Patient(fault)
    weights, losses = learned(fault)
    one.model.load_state_dict(weights)
    one.model.eval()
    one.losses = list(losses)
    return one


def patient(n: int) -> Patient:
    "Case 0 to 10, trained; each call gives another copy."
    if n not in range(len(ward())):
        raise ValueError(f"there are cases 0 to {len(ward()) - 1}, and no case {n}")
    return admitted(ward()[n])


def healthy() -> Patient:
    "The same model without a fault, trained alike."
    return admitted("")


# Symptoms -----------------------------------------------------------------------------------------
def in_words(ids: list[int]) -> str:
    "Ids as a reader sees them; the special ones by name."
    return " ".join(SPECIAL.get(i, str(i)) for i in ids) or "nothing"


@torch.no_grad()
def symptoms(case: Patient) -> dict[str, float]:
    "What one sees of a patient without any probe."
    source, target = case.batch()
    case.model.eval()
    read, say = case.shift(target)
    together, _ = collate([*plain(), longer()])
    right = sum(said == wanted[1:-1] for said, (_, wanted) in zip(case.greedy(together), plain()))
    asked, _ = collate(two_answers()[:1])
    return {
        "first": case.losses[0],
        "quarter": case.losses[STEPS // 4],
        "last": case.losses[-1],
        "evaluation": case.loss(case.model(source, read), say).item(),
        "right": right,
        "greedy": len(case.greedy(asked)[0]),
        "beam": len(case.beam(asked)[0]),
    }


SIGNS = {
    "slow": "it learns too slowly",
    "too good": "its loss in training is lower than it can be",
    "two losses": "its losses in training and in evaluation mode disagree",
    "wrong": "it gives wrong answers",
    "short": "the beam's answer is too short",
}


def unwell(seen: Mapping[str, float]) -> list[str]:
    "Which of the symptoms are none of a healthy model's, by name."
    signs = {
        "slow": seen["quarter"] > 0.6 or seen["last"] > 2.5 * floor(),
        "too good": seen["first"] < 0.95 * math.log(VOCAB) or seen["last"] < 0.95 * floor(),
        "two losses": abs(seen["evaluation"] - seen["last"]) > floor(),
        "wrong": seen["right"] < SENTENCES,
        "short": seen["beam"] < min(seen["greedy"], WORDS),
    }
    return [name for name, there in signs.items() if there]


# Probes -------------------------------------------------------------------------------------------
Reading = dict[str, float | str]


@contextmanager
def borrowed(case: Patient, **parts: Callable) -> Iterator[None]:
    "Other parts for a while."
    kept = {name: getattr(case, name) for name in parts}
    vars(case).update(parts)
    try:
        yield
    finally:
        vars(case).update(kept)


def overfit(case: Patient) -> Reading:
    "A fresh copy, eight sentences, again and again."
    losses = case.fresh().learn(plain()[:8], 50).losses
    return {f"loss at step {n}": losses[n - 1] for n in (1, 10, 25, 50)}


@torch.no_grad()
def future(case: Patient, t: int = 2) -> Reading:
    "How much the logits up to position t change with the words after it."
    source, target = collate(plain()[:8])
    read, _ = case.shift(target)
    later = torch.arange(read.size(1)) > t
    other = torch.where(later & (read > UM), UM + 1 + (read - UM) % (VOCAB - UM - 1), read)
    found: Reading = {}
    for name, mode in (("in training mode", True), ("in evaluation mode", False)):
        case.model.train(mode)
        change = case.model(source, other) - case.model(source, read)
        found[f"largest change before it, {name}"] = change[:, : t + 1].abs().max().item()
    case.model.eval()
    return found


@torch.no_grad()
def batch(case: Patient) -> Reading:
    """The sentence with the shortest answer: by itself, and beside seven others, padded to their
    widths."""
    short = min(plain(), key=lambda pair: len(pair[1]))
    case.model.eval()
    (one, target), (eight, targets) = collate([short]), collate([short, *plain()[:6], longer()])
    read, say = case.shift(
        target
    )  # the same words are read in both, so that only the company differs
    alone, among = case.model(one, read), case.model(eight, read.expand(len(eight), -1))[:1]
    wide = targets.size(1) - target.size(1)
    padded = case.loss(F.pad(among, (0, 0, 0, wide)), F.pad(say, (0, wide), value=PAD))
    return {
        "largest difference of its logits": (alone - among).abs().max().item(),
        "its loss, alone": case.loss(alone, say).item(),
        "its loss, in the batch": padded.item(),
    }


@torch.no_grad()
def cached(case: Patient) -> Reading:
    """Feeds in the right words twice: one by one with the cache, and all at once. Both with the
    book's causal mask."""
    source, target = collate(plain()[::6])  # four without um: no padding
    case.model.eval()
    with borrowed(case, self_mask=target_mask):
        whole = case.model(source, target[:, :-1])
        state, steps = case.model.start(source), []
        for tokens in target[:, :-1].T:
            logits, state = case.model.step(tokens, state)
            steps.append(logits)
    gaps = (torch.stack(steps, 1) - whole).abs().amax((0, 2))
    return {f"largest difference at word {t + 1}": gaps[t].item() for t in (0, 1, 4, 7)}


def gradients(case: Patient) -> Reading:
    "The gradient's norm at five steps on one batch, at a learning rate of 0."
    other, pairs = case.fresh(), collate(plain()[:8])
    other.optimizer.param_groups[0]["lr"] = 0.0
    return {f"norm at step {n}": other.train_step(*pairs)["norm"] for n in range(1, 6)}


@torch.no_grad()
def ids(case: Patient) -> Reading:
    "One sentence: what goes in and what must come out, in training and when decoding."
    source, target = collate(plain()[3:4])
    (read,), (say,) = (side.tolist() for side in case.shift(target))
    begun = Begun(case)
    greedy_decode(begun, source, LIMIT)
    return {
        "the source": in_words(source[0].tolist()),
        "the decoder reads": in_words(read),
        "and must say": in_words(say),
        "when decoding it reads": in_words([int(fed[0]) for fed in begun.fed]),
    }


@torch.no_grad()
def attention(case: Patient) -> Reading:
    """An untrained copy: how many of nine keys get a share of the attention. Equal weights count as
    nine, a single one as one."""
    other, seen = case.fresh(), []  # type: tuple[Patient, list[Tensor]]
    attend = other.attend

    def noted(*inputs: Any) -> tuple[Tensor, Tensor]:
        x, weights = attend(*inputs)
        seen.append(weights)
        return x, weights

    source, target = collate(plain()[::6])
    with borrowed(other, attend=noted):
        other.model(source, other.shift(target)[0])
    spread = [(-(w * w.clamp(min=1e-30).log()).sum(-1)).exp().mean().item() for w in seen]
    return {"keys used in the encoder": spread[0], "keys used in cross-attention": spread[2]}


@torch.no_grad()
def log_probability(case: Patient, source: Tensor, answer: list[int]) -> float:
    "The sum over an answer's tokens, EOS included, as decoding sees it."
    begun, total, tokens = Begun(case), 0.0, [BOS, *answer, EOS]
    state = begun.start(source)
    for before, after in zip(tokens, tokens[1:]):
        logits, state = begun.step(torch.tensor([before]), state)
        total += logits.log_softmax(-1)[0, after].item()
    return total


def search(case: Patient) -> Reading:
    """Two answers to one source, greedy's and the beam's: their words, their log-probabilities, and
    these over the book's penalty."""
    source, _ = collate(two_answers()[:1])
    found: Reading = {}
    for name, answer in (("greedy", case.greedy(source)[0]), ("beam", case.beam(source)[0])):
        total = log_probability(case, source, answer)
        found |= {
            f"{name}: words": float(len(answer)),
            f"{name}: log-probability": total,
            f"{name}: over the penalty": total / penalty(len(answer) + 1),
        }
    return found


def number(reading: Reading, name: str) -> float:
    "A line of a reading that is a number."
    return float(reading[name])


class Probe(NamedTuple):
    "What a button runs, in words, and when its reading is no healthy model's."

    run: Callable[[Patient], Reading]
    title: str
    what: str  # it does
    trouble: Callable[[Reading], bool]


PROBES = {
    "overfit": Probe(
        overfit,
        "Overfit one batch",
        "A fresh copy, eight sentences, again and again.",
        lambda r: number(r, "loss at step 25") > 0.6,
    ),
    "future": Probe(
        future,
        "Change a future token",
        "How much the logits up to position t change with the words after it.",
        lambda r: max(float(x) for x in r.values()) > 1e-3,
    ),
    "batch": Probe(
        batch,
        "A batch of 1 against 8",
        "The sentence with the shortest answer: by itself, and beside seven others, padded to their"
        " widths.",
        lambda r: number(r, "largest difference of its logits") > 1e-3
        or abs(number(r, "its loss, alone") - number(r, "its loss, in the batch"))
        > 0.05 * number(r, "its loss, alone"),
    ),
    "cache": Probe(
        cached,
        "Cached against uncached",
        "Feeds in the right words twice: one by one with the cache, and all at once. Both with the"
        " book's causal mask.",
        lambda r: max(float(x) for x in r.values()) > 1e-3,
    ),
    "gradients": Probe(
        gradients,
        "Gradient norms at a rate of 0",
        "The gradient's norm at five steps on one batch, at a learning rate of 0.",
        lambda r: number(r, "norm at step 5") > 1.5 * number(r, "norm at step 1"),
    ),
    "ids": Probe(
        ids,
        "Read the ids",
        "One sentence: what goes in and what must come out, in training and when decoding.",
        lambda r: not str(r["the decoder reads"]).startswith("BOS")
        or not str(r["when decoding it reads"]).startswith("BOS")
        or not str(r["and must say"]).endswith("EOS"),
    ),
    "attention": Probe(
        attention,
        "Attention before training",
        "An untrained copy: how many of nine keys get a share of the attention. Equal weights count"
        " as nine, a single one as one.",
        lambda r: number(r, "keys used in cross-attention") < 4.5,
    ),
    "search": Probe(
        search,
        "Beam against greedy",
        "Two answers to one source, greedy's and the beam's: their words, their log-probabilities,"
        " and these over the book's penalty.",
        lambda r: number(r, "beam: words") < number(r, "greedy: words")
        and number(r, "beam: over the penalty") < number(r, "greedy: over the penalty") - 1e-3,
    ),
}


@cache
def reading(name: str, fault: str) -> Reading:
    "What a probe reads of a patient with this fault; made once."
    return PROBES[name].run(admitted(fault))


# The workshop -------------------------------------------------------------------------------------
SPENT: dict[int, list[str]] = {}  # case -> the probes asked for


def beside(seen: Mapping[str, Any], well: Mapping[str, Any], caption: str) -> figures.Picture:
    "A patient's lines beside a healthy model's."
    return figures.table(
        [
            {"": name, "this case": shown(value), "a healthy model": shown(well[name])}
            for name, value in seen.items()
        ],
        caption=caption,
    )


def shown(value: float | str) -> str:
    "A number with three decimals; a whole one, and words, as they are."
    return (
        value
        if isinstance(value, str)
        else f"{value:.0f}" if float(value).is_integer() else f"{value:.3f}"
    )


def read(n: int, name: str) -> figures.Picture:
    "The reading of a probe, of a case and of a healthy model; it isn't counted."
    return beside(reading(name, ward()[n]), reading(name, ""), f"Case {n} · {PROBES[name].title}")


def probe(n: int, name: str) -> figures.Picture | Prose:
    "The reading of a probe; three for each case, the same one again is free."
    if name not in PROBES:
        return Prose(
            f"There is no probe `{name}`. There are {in_a_row([f'`{one}`' for one in PROBES])}."
        )
    patient(n)  # is there such a case?
    spent = SPENT.setdefault(n, [])
    if name not in spent and len(spent) == BUDGET:
        return Prose(
            f"Three probes are spent on case {n}: {in_a_row([f'`{one}`' for one in spent])}. "
            f"Write a check with what they said, or take a hint: `hint({n}, 1)`."
        )
    spent += [] if name in spent else [name]
    return read(n, name)


def hint(n: int, grade: int = 1) -> Prose:
    "Of grade 1, where to look; 2, with which probe; 3, in which part."
    patient(n)
    if grade not in (1, 2, 3):
        return Prose("Hints have the grades 1, 2 and 3.")
    return Prose(f"Case {n}, hint {grade}: {FAULTS[ward()[n]].hints[grade - 1]}")


LINES = {
    "first": "loss at step 1",
    "quarter": f"loss at step {STEPS // 4 + 1}",
    "last": f"loss at step {STEPS}",
    "evaluation": "the same loss, in evaluation mode",
    "right": f"right answers of {SENTENCES}, by greedy decoding",
    "greedy": "two answers: words by greedy decoding",
    "beam": "two answers: words by a beam of 4",
}


@cache
def seen(fault: str) -> dict[str, float]:
    "The symptoms of a fault; made once."
    return symptoms(admitted(fault))


def answers(n: int, many: int = 3) -> figures.Picture:
    "What a case says to some sentences, wrong answers first."
    source, _ = collate([*plain(), longer()])
    rows = [
        {"expected": in_words(target[1:-1]), "said": in_words(said)}
        for (_, target), said in zip(plain(), patient(n).greedy(source))
    ]
    rows.sort(key=lambda row: row["expected"] == row["said"])
    return figures.table(rows[:many], caption=f"Case {n} · answers, wrong ones first")


def curves(n: int) -> figures.Picture:
    "The training loss of a case and of the healthy model."
    ours, well = patient(n).losses, healthy().losses
    told = (
        f"the loss goes from {ours[0]:.2f} to {ours[-1]:.3f}, a healthy model's from {well[0]:.2f}"
        f" to {well[-1]:.3f}"
    )
    if max(abs(a - b) for a, b in zip(ours, well)) < 0.005:
        told = (
            f"the loss is that of a healthy model, from {well[0]:.2f} to {well[-1]:.3f}, so the two"
            " lines coincide"
        )
    return figures.curves(
        {"a healthy model": well, f"case {n}": ours},
        xlabel="step",
        ylabel="nats per token",
        logy=True,
        colors={"a healthy model": figures.GREY, f"case {n}": figures.FAULT},
        hline=(floor(), "chance"),
        height=250,
        alt=(
            f"Training loss by step of case {n} and of a healthy model. After {STEPS} steps: case"
            f" {n} {ours[-1]:.3f}, the healthy model {well[-1]:.3f}. A dotted line at"
            f" {floor():.3f}: what chance allows."
        ),
        caption=f"Case {n}: {told}. Chance allows no less than {floor():.3f}.",
    )


def fold(summary: str, inside: str) -> str:
    "HTML behind a line that opens by mouse and by keyboard."
    return (
        '<details class="tl-more" style="margin:.2em 0"><summary'
        f' style="cursor:pointer;font-size:.85em">{summary}</summary>{inside}</details>'
    )


def chart(n: int) -> figures.Picture:
    "A case's sheet: its curve, its symptoms, some answers; recorded probes and hints behind folds."
    ours, well = (
        {LINES[name]: value for name, value in seen(fault).items()} for fault in (ward()[n], "")
    )
    parts = [curves(n).html, beside(ours, well, f"Case {n} · symptoms").html, answers(n).html]
    parts += [fold(f"Probe: {one.title}", read(n, name).html) for name, one in PROBES.items()]
    told = [text.replace("`", "") for text in FAULTS[ward()[n]].hints]
    parts += [fold(f"Hint {grade}", f"<p>{text}</p>") for grade, text in enumerate(told, 1)]
    return figures.Picture("".join(parts), None)


def round_of_the_ward() -> figures.Picture:
    "Every case in one row, and a healthy model in the last."

    def row(fault: str) -> dict[str, str]:
        one = seen(fault)
        return {
            "loss": f"{one['last']:.3f}",
            "in evaluation": f"{one['evaluation']:.3f}",
            f"right of {SENTENCES}": f"{one['right']:.0f}",
            "words by greedy": f"{one['greedy']:.0f}",
            "by a beam": f"{one['beam']:.0f}",
        }

    rows = {f"case {n}": row(ward()[n]) for n in range(1, len(ward()))}
    return figures.table(
        rows | {"healthy": row("")},
        caption="Loss after training, right answers, and two answers to one source",
    )


def passes(check: Callable[[Patient], Any], case: Patient) -> bool:
    "Does a check say yes? It returns True or False, or asserts."
    try:
        said = check(case)
    except AssertionError:
        return False
    return said is None or bool(said)


def judged_check(check: Callable[[Patient], Any], fault: str) -> str:
    "What is wrong with a check, in a sentence; nothing if it tells the healthy from the ill."
    for name, kind, wanted in (("a healthy model", "", True), ("the patient", fault, False)):
        try:
            said = [passes(check, admitted(kind)) for _ in range(2)]
        except Exception as error:
            return f"On {name} your check stops with {type(error).__name__}: {error}."
        if said[0] != said[1]:
            return f"Asked twice about {name}, your check gives two answers."
        if said[0] != wanted:
            return (
                "Your check fails a healthy model: what it demands isn't true there."
                if wanted
                else "Your check passes the patient: what it tests is not what is wrong here."
            )
    return ""


def mended(fault: str, mend: Callable[[Patient], Any]) -> Patient | str:
    "A patient after a mend, trained again if that is due; or what is wrong with the mend."
    one = Patient(fault)
    try:
        mend(one)
        changed = one.changed()
        if len(changed) != 1:
            return (
                "Your mend changes none of the nine parts."
                if not changed
                else f"Your mend changes {len(changed)} parts. The fault is in one; say in which."
            )
        if changed[0] in LEARNED:
            return one.learn(plain() + two_answers())
        one.model.load_state_dict(learned(fault)[0])
        one.losses = list(learned(fault)[1])
        one.model.eval()
        symptoms(one)
    except Exception as error:
        return f"With your mend the model stops with {type(error).__name__}: {error}."
    return one


def judged(n: int, check: Callable[[Patient], Any], mend: Callable[[Patient], Any]) -> str:
    "The verdict on a check and a mend, in a sentence or two that give nothing away."
    fault = ward()[n]
    if unwritten(check):
        return "The check is not written yet."
    if wrong := judged_check(check, fault):
        return wrong
    if unwritten(mend):
        return (
            "The check is right: a healthy model passes it and the patient doesn't. The mend is not"
            " written yet."
        )
    one = mended(fault, mend)
    if isinstance(one, str):
        return one
    try:
        if not passes(check, one):
            return "After your mend your own check still fails."
        ill = [SIGNS[name] for name in unwell(symptoms(one))] or [
            f"the probe {kind.title} still differs from a healthy model's"
            for kind in PROBES.values()
            if kind.trouble(kind.run(one))
        ]
    except Exception as error:
        return f"With your mend the model stops with {type(error).__name__}: {error}."
    if ill:
        return f"Your check passes after your mend, but the model isn't well: {in_a_row(ill)}."
    return (
        "Right. A healthy model passes your check and the patient doesn't. After your mend it"
        f" passes too, its symptom is gone, and all {len(PROBES)} probes are quiet."
        f" {FAULTS[fault].made}"
    )


def verdict(n: int, check: Callable[[Patient], Any], mend: Callable[[Patient], Any]) -> Prose:
    """On case n: check(case) must be true of a healthy model and not of the patient; mend(case)
    replaces one part.

    After a mend the model is trained again if the part takes part in training."""
    patient(n)
    return Prose(f"**Case {n}.** {judged(n, check, mend)}")
