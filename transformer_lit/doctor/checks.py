"""The checks. Each yields (is it as it should be, what was measured, the likely cause if it isn't).

In place of True or False stands NOTE where only the user can tell whether it is meant."""

import math
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from .case import Case
from .probes import (
    append_padding,
    influence,
    largest_gap,
    rms,
    spread,
    stepwise_logits,
    tolerance,
    without_padding,
)
from .report import NOTE
from .watch import Watch

CHECKS: dict[str, tuple[Callable, list[str]]] = {}
ADAPTER = "; or the argument logits makes other masks than your training does"


def check(name: str, needs: str = "") -> Callable:
    "A decorator: the check's name, and the fields of a case that it needs."

    def register(f: Callable[[Case], Iterator]) -> None:
        CHECKS[name] = f, needs.split()

    return register


def random_label_loss(logits: Tensor) -> Tensor:
    "Cross-entropy of logits (B, T, V) with labels that no input tells."
    flat = logits.flatten(0, -2).float()
    return F.cross_entropy(flat, 7919 * torch.arange(len(flat), device=flat.device) % flat.size(-1))


def gradients(case: Case, f: Callable, *args) -> list[Tensor]:
    "What f(*args) adds to the gradients, in training mode."
    case.model.zero_grad()
    with case.mode(True, gradients=True):
        f(*args)
    return [w.grad.clone() for w in case.model.parameters() if w.grad is not None]


def watched(case: Case) -> Watch:
    inputs = case.inputs()
    with case.mode(True, gradients=True), Watch(inputs) as watch:
        case(*inputs)
    return watch


def all_finite(tensors: list[Tensor]) -> bool:
    return all(torch.isfinite(x).all() for x in tensors)


# The forward pass ---------------------------------------------------------------------------------


@check("output")
def output(case):
    inputs = case.inputs()
    logits, shape = case.run(*inputs), tuple(inputs[-1].shape)
    words = f"ids of shape {shape} give logits of shape {tuple(logits.shape)}"
    yield not case.causal or logits.shape[:2] == shape, words, "length and batch are swapped"
    n_bad = (~torch.isfinite(logits)).sum()
    cause = "a row with no key to attend to, or weights that nobody initialized"
    yield not n_bad, f"{n_bad} of {logits.numel()} logits are nan or inf", cause
    total = logits.float().sum(-1)
    if (logits >= 0).all() and (total - 1).abs().max() < 1e-3:
        cause = "softmax before a loss that applies it again, such as F.cross_entropy"
        yield False, "the logits of a position sum to one: they are probabilities", cause


@check("deterministic evaluation")
def deterministic_evaluation(case):
    inputs, between, outputs, names = case.inputs(), case.inputs(seed=5), [], []
    if case.pads:
        between[0][:, -2:] = case.pad_id
    hook = register_module_parameter_registration_hook(
        lambda module, *_: names.append(type(module).__name__)
    )
    with hook, case.mode(False, dropout=True):
        for seed, batch in (1, inputs), (2, inputs), (1, between), (1, inputs):
            torch.manual_seed(seed)
            outputs.append(case(*batch).clone())
    first, second, _, again = outputs
    gap, later = largest_gap(first, second), largest_gap(first, again)
    words = f"forward makes new parameters in {sorted(set(names)) or 'no module'}"
    yield not names, words, "a layer built in forward: no optimizer sees it, no file keeps it"
    cause = "dropout stays on: F.dropout without training=self.training"
    yield gap <= tolerance(first), f"the same ids twice differ by {gap:.2g}", cause
    words = f"the same ids after another batch differ by {later:.2g}"
    yield later <= tolerance(first), words, "a mask or a cache is kept between calls"


@check("train/eval agreement")
def train_eval_agreement(case):
    a, b = (case.run(*case.inputs(), training=training) for training in (True, False))
    gap = largest_gap(a, b) if a.shape == b.shape else math.inf
    words = f"without dropout, training and evaluation mode differ by {gap:.2g}"
    yield gap <= tolerance(a), words, "BatchNorm, drop path, or a mask by self.training"


@check("future leak", "causal")
def future_leak(case):
    for mode in "training", "evaluation":
        matrix = influence(*case.part(-1, mode == "training"))
        later = matrix.triu(1)
        t, s = divmod(int(later.argmax()), later.size(1))
        cause = "no causal mask, or off by one; heads merged without transpose; a norm over time"
        if not matrix.tril(-1).any():
            cause = "the mask is transposed or inverted (does True mean attend or ignore?)"
        words = f"{mode}: later tokens change the logits by {later.max():.2g}"
        words += f" (position {t}, token {s})" if later.any() else ""
        yield not later.any(), words, cause + ADAPTER


@check("causal visibility", "causal")
def causal_visibility(case):
    first = case.begins  # it can't be changed
    visible = influence(*case.part(-1))[first:, first:] > 0
    hidden = ((~visible).tril().nonzero() + first).tolist()
    cause = "the mask hides the diagonal, or the target is shifted twice (in forward, too?)"
    yield visible.diagonal().all(), "do logits depend on the token at their position?", cause
    cause = "the decoder's self-attention has no effect" + ADAPTER
    yield visible.tril(-1).any(), "do logits depend on earlier tokens?", cause
    words = f"pairs (position, earlier token) without influence: {hidden[:3] or 'none'}"
    yield not hidden or NOTE, words, "a window, or a mask that hides too much"


@check("source use", "seq2seq")
def source_use(case):
    matrix = influence(*case.part(0))
    unread = (~matrix.any(0)).nonzero().flatten().tolist()
    cause = "cross-attention reads the decoder's own states, or its output is dropped"
    if matrix.any():
        cause = "a mask that hides words, or lengths off by one" + ADAPTER
    yield not unread, f"source tokens that change no logits: {unread or 'none'}", cause


@check("encoder visibility", "seq2seq encode")
def encoder_visibility(case):
    with case.mode(False):
        later = influence(case.encode, *case.part(0)[1:]).triu(1)
    words = f"{later.count_nonzero()} pairs of a position and a later token that it reads"
    yield later.any(), words, "a causal mask in the encoder"


# Padding and batches ------------------------------------------------------------------------------


@check("padding leak", "pads")
def padding_leak(case):
    for which, name in enumerate(case.parts):
        logits, ids, _ = case.part(which)
        ids = torch.cat([ids, ids[:, -3:]], 1)
        logits(ids)  # a mask that is kept for this shape will be wrong
        ids[0, -3:] = case.pad_id  # the other rows are longer
        _, padded, base = next(without_padding(logits, ids, case.pad_id))
        gap = largest_gap(padded[: len(base)], base)
        cause = "the padding mask is missing or inverted, isn't passed on, or has no effect"
        words = f"three pads after the {name}, beside longer ones, change the logits by {gap:.2g}"
        yield gap <= tolerance(base), words, cause + ADAPTER


@check("left padding", "pads alone")
def left_padding(case):
    (ids,) = case.inputs()
    base, left = case.run(ids), append_padding(ids, case.pad_id, left=True)
    padded = case.run(left)
    for module in case.model.modules():
        if isinstance(module, nn.Embedding) and module.num_embeddings == case.vocab_size:
            module.weight.data[case.pad_id] += torch.arange(module.embedding_dim)
    others = case.run(left)
    others[..., case.pad_id] = padded[..., case.pad_id]  # tied
    gap, read = (largest_gap(padded[:, 3:], x) for x in (base, others[:, 3:]))
    words = f"three pads before the input change the logits by {gap:.2g}"
    masked = read <= tolerance(base)
    meant = case.padding_side == "right" and masked >= case.takes_mask and NOTE
    causes = "words attend to the pads", "positions count the pads, as GPT-2's do"
    only = ": a fault only if you pad on the left, as for generation in batches"
    yield gap <= tolerance(base) or meant, words, causes[masked] + only * bool(meant)


@check("batch invariance")
def batch_invariance(case):
    alone, base = case.alone_and_together()
    gap = largest_gap(alone, base)
    cause = "positions or attention along the batch axis (batch_first?), or BatchNorm"
    yield gap <= tolerance(base), f"a sentence alone and among eight differs by {gap:.2g}", cause


@check("fully padded row", "pads")
def fully_padded_row(case):
    inputs = case.inputs()
    inputs[0][-1] = case.pad_id
    grads = gradients(case, lambda: random_label_loss(case(*inputs)[:-1]).backward())
    finite = all_finite([*grads, case.run(*inputs)[:-1]])
    words = "a row of pads beside others: are their logits and all gradients finite?"
    cause = "softmax over -inf alone: keep one key visible, or add a large negative number"
    yield finite or NOTE, words, cause


@check("position sensitivity")
def position_sensitivity(case):
    for which, name in enumerate(case.parts):
        logits, ids, _ = case.part(which)
        swapped = ids[:, [*range(ids.size(1) - 2, -1, -1), -1]]
        gap = influence(logits, ids, swapped, [swapped != ids])[-1, 0]
        words = f"the {name} in another order changes the logits by {gap:.2g}"
        cause = "no positions are added, or every token has the same one"
        yield gap > 0, words, cause


@check("sinusoidal positions")
def sinusoidal_positions(case):
    for _, table in watched(case).sums:
        table = table.squeeze().float().cpu()
        sine, n = table[0] == 0, table.size(-1) // 2  # at position 0; interleaved, or two halves
        cosine = table[0] == table.max()
        if table.requires_grad or not sine.sum() == n == cosine.sum():
            continue  # learned, or no sines and cosines
        z = torch.complex(table[:, ~sine], table[:, sine]) / table.max()
        frequencies = z[1].angle()
        ratio, (t, k) = frequencies[-1] ** (1 / (n - 1)), map(torch.arange, z.shape)
        gap = (z - torch.exp(1j * t[:, None] * ratio**k)).abs().max()
        words = "frequencies of a fixed table: {:.3g}, {:.3g}, {:.3g} ...".format(*frequencies)
        cause = "1 comes first, each next is smaller by one factor, sine and cosine share it (§3.5)"
        yield gap < 0.02 and 1e-7 < ratio**n < 1, words, cause


# Decoding -----------------------------------------------------------------------------------------


@check("KV cache consistency", "causal step start")
def cache_consistency(case):
    inputs = case.inputs()
    if case.seq2seq and case.pads:
        inputs[0][0, -2:] = case.pad_id
    with case.mode(False):
        state = case.start(inputs[0] if case.seq2seq else len(inputs[0]))
        steps = stepwise_logits(state, case.step, inputs[-1])
    full = case.run(*inputs)
    gaps = (full.log_softmax(-1) - steps.log_softmax(-1)).abs().amax(-1)  # (B, T)
    wrong = gaps > 2 * tolerance(full)
    cause = "another mask or other inputs when decoding"
    if not wrong[:, 0].any():
        cause = "cached tokens get a wrong position, or the past is lost"
    if case.pads and not wrong[1:].any():
        cause = "the source's padding mask is missing when decoding"
    words = f"token by token and the full pass differ by {gaps.max():.2g} in log-probability"
    yield not wrong.any(), words, cause


@check("start token", "seq2seq decode begins")
def start_token(case):
    source = case.inputs(1)[0]
    with case.mode(False), Watch([source]) as watch:
        case.decode(source)
    ids = [x.flatten() for x in watch.embedded if not torch.equal(x.flatten(), source[0])]
    if ids:  # else no embedding was looked up
        first = ids[0][0]
        words = f"decoding starts with id {first}, training with bos_id = {case.bos_id}"
        yield first == case.bos_id, words, "another first id than in training"


@check("length normalization", "causal rank")
def length_normalization(case):
    scores = [float(case.rank(-6.0, n)) for n in (2, 8)]
    words = f"2 and 8 tokens of one log-probability rank {scores[0]:.3g} and {scores[1]:.3g}"
    cause = "each further token lowers a sum of log-probabilities, so short outputs win"
    yield scores[1] > scores[0], words, cause


# Inside -------------------------------------------------------------------------------------------


@check("attention")
def attention(case):
    watch = watched(case)
    factors = {round(d_k * f * f, 3) for f, d_k in watch.scales}
    words = f"{len(watch.scales)} products of queries and keys, (factor * sqrt(d_k))^2: {factors}"
    cause = "sqrt(d_model) in place of sqrt(d_k), or no scale (T5 has none on purpose)"
    yield factors == {1.0} or not factors and NOTE, words, cause
    wrong = [(axis, shape) for fits, axis, shape in watch.softmax_axes if not fits]
    words = f"softmax over another axis than the sum with the values: {wrong[:1] or 'nowhere'}"
    yield not wrong, words, "weights don't sum to one over the keys"
    gaps = [(w.float().sum(-1) - 1).abs().max() for w in watch.attention_weights]
    bad = sum(gap > 0.02 for gap in gaps)
    words = f"attentions whose weights don't sum to one: {bad} of {len(gaps)}"
    yield not bad, words, "nan from a row without keys, or a mask after the softmax"
    wrong = [norm for norm in watch.norms if norm[1] != [-1]]
    words = f"norms over other axes than the features: {wrong[:1] or 'none'} of {len(watch.norms)}"
    yield not wrong, words, "statistics over tokens or sentences"
    for tokens, positions in sorted((rms(x), rms(y)) for x, y in watch.sums)[:1]:
        words = f"embeddings of size {tokens:.2g} beside positions of size {positions:.2g}"
        cause = "not multiplied by sqrt(d_model), or initialized too small: positions drown words"
        yield tokens >= 0.2 * positions or NOTE, words, cause


@check("half precision")
def half_precision(case):
    base = case.run(*case.inputs())
    with torch.autocast(case.device.type, torch.bfloat16):
        gap = largest_gap(case.run(*case.inputs()), base) / (spread(base) + 1e-9)
    words = f"in bf16 logits differ by {gap:.0%} of their spread"
    yield gap < 0.5 or NOTE, words, "a mask value or a sum that bf16 can't hold"
