"""The model under examination, what belongs to it, and the inputs that it is examined with."""

import inspect
import re
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .probes import largest_gap, target_distribution
from .watch import GivenLogits, NoDropout

LABELS = {"labels", "targets", "target", "lm_labels"}
Hook = Callable | None
KINDS = "encoder-decoder", "decoder-only", "encoder-only"


def parameters_of(f: Callable) -> dict[str, bool]:
    "The names of f's parameters: has each no default?"
    each = inspect.signature(f).parameters.values()
    named = (p for p in each if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
    return {p.name: p.default is p.empty for p in named}


@dataclass
class Case:
    """A model and what belongs to it. Ids are (B, length). What is None leaves its checks out.

    logits: (source, decoder_input), or (ids) for one stack, -> (B, T, V); an encoder alone may
    answer (B, C). encode: source -> (B, S, D). start: source, or the batch size for one stack, ->
    state. step: ids (B,), state -> logits (B, V), state. decode: source (1, S) -> any, watched.
    loss: logits (B, T, V), labels (B, T) -> scalar. batch: () -> source, decoder input, labels; the
    last two for one stack. train_step: such a batch -> one update. accumulate: list of batches ->
    their gradients. rank: sum of log-probabilities, number of tokens -> what beam search compares.
    tied: is the output layer meant to be the embedding, with "all" the source's, too? trained: is
    it trained already? padding_side: "left" if batches are padded there."""

    model: nn.Module
    logits: Callable[..., Tensor] | None
    vocab_size: int
    kind: str | None = None
    pad_id: int | None = None
    bos_id: int | None = None
    eos_id: int | None = None
    ignore_index: int | None = None  # pads among the labels; None: pad_id
    source_vocab_size: int | None = None
    lengths: tuple[int, int] = (7, 5)
    padding_side: str = "right"
    trained: bool = False
    tied: bool | str = False
    encode: Hook = None
    start: Hook = None
    step: Hook = None
    decode: Hook = None
    loss: Hook = None
    batch: Hook = None
    optimizer: Any = None
    scheduler: Any = None
    train_step: Hook = None
    accumulate: Hook = None
    rank: Hook = None
    seed: int = 0
    steps: int = 300  # at most, to overfit a batch; 0 leaves that out
    # does the guessed adapter give an attention_mask? was the loss found inside forward?
    takes_mask = inside = False
    offset = 0  # the loss compares logits at t with labels at t + offset

    def __post_init__(self):
        self.names = parameters_of(getattr(self.model, "_orig_mod", self.model).forward)
        self.required = [name for name in self.names if self.names[name]]
        args = parameters_of(self.logits) if self.logits else self.names
        ids = [x for x, needed in args.items() if needed and not re.search("mask|pos|cache|len", x)]
        several = len(ids) > 1 or "decoder_input_ids" in self.names
        self.kind = self.kind or KINDS[not several]
        if self.kind not in KINDS:
            raise ValueError(f"kind={self.kind!r}: choose from {', '.join(KINDS)}")
        self.seq2seq, self.causal = self.kind == KINDS[0], self.kind != KINDS[2]
        self.pads, self.begins = self.pad_id is not None, self.bos_id is not None
        self.ignored = self.pad_id if self.ignore_index is None else self.ignore_index
        self.device = next(self.model.parameters(), torch.empty(0)).device
        self.parts = ("source", "target") if self.seq2seq else ("input",)
        self.alone, self.untrained = self.kind == KINDS[1], not self.trained

    def words(self, which: int) -> Tensor:
        "The ids of ordinary tokens, without special ones. (W,)"
        size = self.seq2seq and not which and self.source_vocab_size
        special = self.pad_id, self.bos_id, self.eos_id
        ids = range(min(size or self.vocab_size, 4096))
        return torch.tensor([i for i in ids if i not in special], device=self.device)

    def inputs(self, rows: int = 3, seed: int = 0) -> list[Tensor]:
        "Random sentences: [source (B, S), decoder input (B, T)], or [ids] for one stack."
        rng = torch.Generator().manual_seed(1000 * self.seed + seed)
        batch = []
        for which, length in enumerate(self.lengths[: len(self.parts)]):
            words = self.words(which)
            batch.append(words[torch.randint(len(words), (rows, length), generator=rng)])
        if self.causal and self.begins:
            batch[-1][:, 0] = self.bos_id
        return batch

    def part(self, which: int, training: bool = False) -> tuple[Callable, Tensor, Tensor]:
        "The logits as a function of one input, its ids, and another ordinary token for each."
        inputs, words = self.inputs(), self.words(which)
        old = inputs[which]
        changed = words[(torch.searchsorted(words, old) + len(words) // 2) % len(words)]

        def logits(ids):
            return self.run(*(ids if x is old else x for x in inputs), training=training)

        return logits, old, torch.where(torch.isin(old, words), changed, old)

    def alone_and_together(self) -> tuple[Tensor, Tensor]:
        "The logits of a sentence by itself, and as the last of eight."
        inputs = self.inputs(8)
        return self.run(*(ids[-1:] for ids in inputs)), self.run(*inputs)[-1:]

    @contextmanager
    def mode(self, training: bool, gradients: bool = False, dropout: bool = False):
        "The model in this mode, with the same random numbers each time; afterwards in its own."
        modes = [(module, module.training) for module in self.model.modules()]
        self.model.train(training)
        torch.manual_seed(self.seed)
        try:
            with NoDropout(active=not dropout), torch.set_grad_enabled(gradients):
                yield
        finally:
            for module, before in modes:
                module.training = before

    def __call__(self, *inputs: Tensor) -> Tensor:
        output = self.logits(*inputs)
        if output.dim() == 2:  # (B, C), or (B·T, V) flattened for a loss
            output = output.unflatten(0, (len(inputs[-1]), -1))
        return output

    def run(self, *inputs: Tensor, training: bool = False) -> Tensor:
        "Logits without dropout and gradients."
        with self.mode(training):
            return self(*inputs).detach().clone()


# The adapter, guessed -----------------------------------------------------------------------------


def tensors_of(output: Any, name: str) -> list[Tensor]:
    "The tensors among which a model returns logits or loss: it, an attribute, a key, or a tuple."
    output = output[name] if isinstance(output, dict) else getattr(output, name, output)
    parts = output if isinstance(output, (tuple, list)) else [output]
    return [part for part in parts if isinstance(part, Tensor)]


def find_logits(output: Any, vocab_size: int) -> Tensor:
    for part in (parts := tensors_of(output, "logits")):
        if part.dim() > 1 and part.size(-1) == vocab_size:
            return part
    shapes = [tuple(part.shape) for part in parts]
    raise ValueError(
        f"forward returns tensors of shape {shapes}, none with a last axis of vocab_size ="
        f" {vocab_size}: give logits=lambda ...: that returns logits (batch, length, vocabulary)"
    )


def guess_logits(case: Case) -> Callable:
    """The function of ids to logits for a `forward` of a usual signature: (src, tgt), (idx), (idx,
    targets) or Hugging Face's. ValueError with what to write for another."""
    names, required, model, size = case.names, case.required, case.model, case.vocab_size
    n = len(case.parts)
    if "input_ids" not in names and len(required) > n:
        call, masks = ", ".join(case.parts), ", ".join(required[n:])
        raise ValueError(
            f"forward takes ({', '.join(names)}): give logits=lambda {call}: model({call}, ...)"
            f" that makes {masks} as your training does; then masks are examined, too"
        )

    def logits(*inputs):
        if "input_ids" in names:
            words = dict(zip(("input_ids", "decoder_input_ids"), inputs))
            if case.pads and case.takes_mask:
                words["attention_mask"] = (inputs[0] != case.pad_id).long()
            return find_logits(model(**words), size)
        output = find_logits(model(*inputs), size)
        # some GPTs answer with the last position alone, unless they are given the labels
        short = output.size(1) < inputs[-1].size(1) and len(names) > len(inputs)
        return find_logits(model(*inputs, inputs[-1]), size) if short else output

    case.takes_mask = "attention_mask" in names
    return logits


def guess_loss(case: Case) -> None:
    """The loss of a forward that takes labels, if none is given. A loss that shifts the labels
    becomes one that doesn't, and `offset` says so. Nothing if it can't be found."""
    supplied, names = case.loss, LABELS & {*case.names} - {*case.required}

    def inside(logits, labels):
        ids = case.words(0)[:1].expand_as(labels)
        with case.mode(True, gradients=True), GivenLogits(logits) as answer:
            output = case.model(*[ids] * max(len(case.required), 1), **dict.fromkeys(names, labels))
        if case.ignore_index is None and answer.ignore_index < 0:
            case.ignored = answer.ignore_index
        return next(part for part in tensors_of(output, "loss") if part.dim() == 0)

    def shifted(logits, labels):
        zeros, first = 0 * logits[:, :n], labels[:, :1].expand(-1, n)
        return loss(torch.cat([logits, zeros], 1), torch.cat([first, labels], 1))

    loss = supplied or inside
    try:
        labels = case.words(-1)[-4:]
        _, targets = target_distribution(loss, labels[None], case.vocab_size)
        n = case.offset = int((labels == targets[1].argmax()).nonzero()) - 1
    except Exception:  # the check says what is wrong with the caller's loss
        return
    case.inside = supplied is None
    if n in (0, 1):
        case.loss = shifted


def length_first(case: Case) -> None:
    """A model that takes (length, batch), as nn.Transformer does by default, gets its ids so, and
    its logits are turned round."""
    logits = case.logits

    def transposed(*ids):
        return logits(*(x.T for x in ids)).transpose(0, 1)

    for case.logits in logits, transposed, logits:
        try:
            if largest_gap(*case.alone_and_together()) < 1e-3:
                return
        except Exception:  # sizes that don't fit: the report or a message will say so
            continue
