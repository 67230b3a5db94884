"""The model under examination, what belongs to it, and the inputs that it is examined with."""

import inspect
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .probes import largest_gap, tolerance
from .watch import NoDropout

KINDS = "encoder-decoder", "decoder-only", "encoder-only"


@dataclass
class Case:
    """A model and what belongs to it. Ids are (B, length). What is None leaves its checks out.

    logits: (source, decoder_input), or (ids) for one stack, -> (B, T, V); an encoder alone may
    answer (B, C). encode: source -> (B, S, D). start: source, or the batch size for one stack, ->
    state. step: ids (B,), state -> logits (B, V), state. decode: source (1, S) -> any, watched.
    loss: logits (B, T, V), labels (B, T) -> scalar. batch: () -> source, decoder input, labels; the
    last two for one stack. train_step: such a batch -> one update. accumulate: list of batches ->
    their gradients. rank: sum of log-probabilities, number of tokens -> what beam search compares.
    tied: is the output layer meant to be the embedding? trained: is it trained already?"""

    model: nn.Module
    logits: Callable[..., Tensor]
    vocab_size: int
    kind: str = "encoder-decoder"
    pad_id: int | None = None
    bos_id: int | None = None
    eos_id: int | None = None
    ignore_index: int | None = None  # pads among the labels; None: pad_id
    source_vocab_size: int | None = None
    lengths: tuple[int, int] = (7, 5)
    trained: bool = False
    tied: bool = False
    encode: Callable | None = None
    start: Callable | None = None
    step: Callable | None = None
    decode: Callable | None = None
    loss: Callable | None = None
    batch: Callable | None = None
    optimizer: Any = None
    scheduler: Any = None
    train_step: Callable | None = None
    accumulate: Callable | None = None
    rank: Callable | None = None
    seed: int = 0
    steps: int = 300  # at most, to overfit a batch; 0 leaves that out

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"kind={self.kind!r}: choose from {', '.join(KINDS)}")
        self.seq2seq, self.causal = self.kind == KINDS[0], self.kind != KINDS[2]
        self.pads = self.pad_id is not None
        self.ignored = self.pad_id if self.ignore_index is None else self.ignore_index
        self.device = next((w.device for w in self.model.parameters()), torch.device("cpu"))
        self.parts = ("source", "target") if self.seq2seq else ("input",)
        self.alone, self.untrained = self.kind == KINDS[1], not self.trained
        self.random = False  # does dropout stay on in evaluation mode?

    def words(self, which: int) -> Tensor:
        "The ids of ordinary tokens, without special ones. (W,)"
        size = self.source_vocab_size if self.seq2seq and which == 0 else None
        special = [i for i in (self.pad_id, self.bos_id, self.eos_id) if i is not None]
        first = max((i + 1 for i in special if i < 5), default=0)
        ids = range(first, min(size or self.vocab_size, first + 4096))
        return torch.tensor([i for i in ids if i not in special], device=self.device)

    def inputs(self, rows: int = 3, seed: int = 0) -> list[Tensor]:
        "Random sentences: [source (B, S), decoder input (B, T)], or [ids] for one stack."
        rng = torch.Generator().manual_seed(1000 * self.seed + seed)
        lengths = self.lengths if self.seq2seq else self.lengths[self.causal :][:1]
        batch = []
        for which, length in enumerate(lengths):
            words = self.words(which)
            batch.append(words[torch.randint(len(words), (rows, length), generator=rng)])
        if self.causal and self.bos_id is not None:
            batch[-1][:, 0] = self.bos_id
        return batch

    def substitutes(self, inputs: list[Tensor], which: int) -> Tensor:
        "Another ordinary token in every place of inputs[which]; special ones stay."
        words, ids = self.words(which), inputs[which].contiguous()
        rng = torch.Generator().manual_seed(9)
        shift = torch.randint(1, len(words), ids.shape, generator=rng).to(ids.device)
        changed = words[(torch.searchsorted(words, ids) + shift) % len(words)]
        return torch.where(torch.isin(ids, words), changed, ids)

    def changed(self, inputs: list[Tensor], which: int) -> list[Tensor]:
        "The inputs with another one of them."
        return [self.substitutes(inputs, i) if i == which else x for i, x in enumerate(inputs)]

    def first_changed(self, inputs: list[Tensor]) -> list[Tensor]:
        "The inputs with another first sentence."
        changed = [self.substitutes(inputs, i)[:1] for i in range(len(inputs))]
        return [torch.cat([row, ids[1:]]) for row, ids in zip(changed, inputs)]

    @contextmanager
    def mode(self, training: bool, gradients: bool = False, dropout: bool = False):
        "The model in this mode, with the same random numbers each time; afterwards in its own."
        modes = [(module, module.training) for module in self.model.modules()]
        self.model.train(training)
        torch.manual_seed(self.seed)
        quiet = NoDropout(active=not dropout and (training or self.random))
        try:
            with quiet, torch.set_grad_enabled(gradients):
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


def find_logits(output: Any, vocab_size: int) -> Tensor:
    "The logits in what a model returns: a tensor, .logits, a dictionary or a tuple."
    output = output["logits"] if isinstance(output, dict) else getattr(output, "logits", output)
    parts = output if isinstance(output, (tuple, list)) else [output]
    shapes = [tuple(part.shape) for part in parts if isinstance(part, Tensor)]
    for part in parts:
        if isinstance(part, Tensor) and part.dim() > 1 and part.size(-1) == vocab_size:
            return part
    raise TypeError(
        f"forward returns tensors of shape {shapes}, none with a last axis of vocab_size ="
        f" {vocab_size}: give logits=lambda ...: that returns logits (batch, length, vocabulary)"
    )


def forward_inputs(model: nn.Module) -> tuple[list[str], list[str]]:
    "The names of forward's parameters, and of those without a default."
    parameters = inspect.signature(model.forward).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return [p.name for p in named], [p.name for p in named if p.default is p.empty]


def guess_kind(model: nn.Module) -> str:
    names, required = forward_inputs(model)
    return KINDS[len(required) < 2 and "decoder_input_ids" not in names]


def guess_logits(model: nn.Module, kind: str, vocab_size: int, pad_id: int | None) -> Callable:
    """The function of ids to logits for a `forward` of a usual signature: (src, tgt), (idx), (idx,
    targets) or Hugging Face's. TypeError with what to write for another."""
    names, required = forward_inputs(model)
    ids = ["source", "target"] if kind == KINDS[0] else ["ids"]
    if "input_ids" not in names and len(required) > len(ids):
        call, masks = ", ".join(ids), ", ".join(required[len(ids) :])
        raise TypeError(
            f"forward takes ({', '.join(names)}): give logits=lambda {call}: model({call}, ...)"
            f" that makes {masks} as your training does; then masks are examined, too"
        )

    def logits(*inputs: Tensor) -> Tensor:
        if "input_ids" in names:
            words = dict(zip(("input_ids", "decoder_input_ids"), inputs))
            if pad_id is not None and "attention_mask" in names:
                words["attention_mask"] = (inputs[0] != pad_id).long()
            return find_logits(model(**words), vocab_size)
        output = find_logits(model(*inputs), vocab_size)
        # some GPTs answer with the last position alone, unless they are given the labels
        short = output.size(1) < inputs[-1].size(1) and len(names) > len(inputs)
        return find_logits(model(*inputs, inputs[-1]), vocab_size) if short else output

    return logits


def length_first(case: Case) -> Callable | None:
    """For a model that takes (length, batch), as nn.Transformer does by default: the same logits,
    batch first. None if it works as it is."""
    inputs, logits = case.inputs(), case.logits

    def transposed(*ids: Tensor) -> Tensor:
        return logits(*(x.T for x in ids)).transpose(0, 1)

    def mixes_sentences(f: Callable) -> bool:
        case.logits = f
        try:
            a, b = (case.run(*ids)[1:] for ids in (inputs, case.first_changed(inputs)))
            return largest_gap(a, b) > tolerance(a)
        except Exception:  # sizes that don't fit: the report or a message will say so
            return True
        finally:
            case.logits = logits

    return transposed if mixes_sentences(logits) and not mixes_sentences(transposed) else None
