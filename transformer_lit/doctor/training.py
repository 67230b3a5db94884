"""The checks of labels, loss, parameters and training; see `checks`."""

import math
import warnings

import torch
from torch import nn

from .checks import all_finite, check, gradients, random_label_loss
from .probes import append_padding, largest_gap, target_distribution
from .report import NOTE

# Labels and loss ----------------------------------------------------------------------------------


@check("label shift", "batch")
def label_shift(case):
    *source, decoder_input, labels = case.batch()
    if case.offset > 0:  # as the loss compares them
        decoder_input, labels = decoder_input[:, : -case.offset], labels[:, case.offset :]
    real = labels != (-1 if case.ignored is None else case.ignored)
    shifted = ((labels[:, :-1] == decoder_input[:, 1:]) | ~real[:, :-1]).all()
    cause = "shifted the wrong way, or twice"
    if torch.equal(decoder_input, labels):
        cause = "they aren't shifted: the input holds the labels. If train_step shifts them, give"
        cause += " batch=lambda: (ids[:, :-1], ids[:, 1:])"
    yield shifted, "is each label the next token of the decoder's input?", cause
    rows = [row[mask].tolist() for row, mask in zip(labels, real) if mask.any()]
    if case.eos_id is not None:
        cause = "cut off, or taken for padding: the model never learns to stop"
        yield all(row[-1] == case.eos_id for row in rows), "do labels end in eos_id?", cause
    if case.begins:
        starts = (decoder_input[:, 0] == case.bos_id).all()
        yield starts, "does the decoder's input start with bos_id?", "cut off, or never added"
    for ids in source:
        copied = all(str(row[:-1])[1:-1] in str(x) for row, x in zip(rows, ids.tolist()))
        words = f"the labels stand in the source: {'yes' if copied else 'no'}"
        yield not copied or NOTE, words, "a copying task, or the target in both"


@check("label shift in forward", "inside")
def label_shift_in_forward(case):
    ok, words = case.offset == 1, f"forward compares the logits at t with labels[t + {case.offset}]"
    if case.offset == 0:
        ok = case.batch or not case.alone or "input_ids" not in case.names or NOTE
    words += f"; {case.ignored} is ignored"
    yield ok, words, "labels that are the ids need a shift by one, here or in batch"


@check("loss function", "loss")
def loss_function(case):
    v, pad, loss = case.run(*case.inputs()).size(-1), case.ignored, case.loss
    ids = [i for i in range(v) if i != pad]
    labels = torch.tensor([(ids * 4)[-4:]], device=case.device)
    value, (target,) = target_distribution(loss, labels[:, :1], v)
    chance, label = math.log(v), int(labels[0, 0])
    entropy = torch.special.entr(target.clamp(min=0)).sum().item()
    # cross-entropy, or a KL divergence, which leaves out the target's own entropy
    proper = min(abs(value - chance), abs(value - chance + entropy)) < 0.02
    others = target[torch.arange(v, device=case.device) != label]
    words = (
        f"equal logits cost {value:.3g} nats, ln V = {chance:.3g}; the target is"
        f" {target[label]:.2g} for the label, {others.min():.1g} to {others.max():.1g} elsewhere"
    )
    cause = "a target that doesn't sum to one, softmax twice, or a loss of log-probabilities"
    yield proper and target[label] > 0.5 and others.min() > -1e-4, words, cause
    equal = torch.zeros(1, 1, v, device=case.device)
    ids = [i for i in range(min(v, 50)) if i != pad or i == case.eos_id]
    free = [i for i in ids if loss(equal, labels[:, :1] * 0 + i).nan_to_num().abs() < 1e-6]
    cause = "ignore_index is another id, or eos_id is pad_id: no stop is learned"
    yield not free, f"labels that cost nothing, besides padding: {free or 'none'}", cause
    logits = torch.randn(1, 8, v, device=case.device)
    large = (1e4 * logits[:, :4]).requires_grad_()
    value = loss(large, labels)
    finite = all_finite([value, *torch.autograd.grad(value, large)])
    words = "logits of 10,000: are loss and gradient finite?"
    yield finite, words, "log(softmax(x)) in two steps: use log_softmax"
    if pad is not None and pad < v:
        changed = torch.cat([logits[:, :4], logits[:, 4:].flip(-1)], 1)
        padded = append_padding(labels, pad, 4)
        short = loss(logits[:, :4], labels).item()
        a, b = (loss(x, padded).item() for x in (logits, changed))
        words = f"four labels cost {short:.3g}, with four pads {a:.3g}, with other logits there"
        cause = "the mean is taken over pads too"
        if abs(a - b) > 1e-4 * abs(a):
            cause = "pads count as labels (ignore_index?)"
        yield max(abs(a - b), abs(a - short)) <= 1e-3 * abs(short), f"{words} {b:.3g}", cause


@check("initial loss", "causal untrained")
def initial_loss(case):
    logits = case.run(*case.inputs(32), training=True)
    value, chance = random_label_loss(logits), math.log(logits.size(-1))
    cause = "large logits: embeddings N(0, 1) tied to the output layer, or no initialization"
    ok = value < chance + 1 or value < max(chance + 3, 1.5 * chance) and NOTE
    words = f"{value:.3g} nats on random labels, ln V = {chance:.3g}"
    yield ok, words, cause


# Parameters and training --------------------------------------------------------------------------


@check("shared layers")
def shared_layers(case):
    layers = [
        [layer for layer in part if list(layer.parameters())]
        for part in case.model.modules()
        if isinstance(part, (nn.ModuleList, nn.Sequential))
    ]
    n = sum(len(part) - len(set(part)) for part in layers)
    words = f"layers that stand in a list again: {n}"
    yield not n, words, "[layer] * n repeats one layer (ALBERT means it)"


@check("weight tying", "tied")
def weight_tying(case):
    read, *_, unread = case.words(1)
    inputs = [0 * ids + read for ids in case.inputs(1)]
    gradients(case, lambda: case(*inputs)[..., unread].sum().backward())
    tables = [m.weight.grad for m in case.model.modules() if isinstance(m, nn.Embedding)]
    tied = [bool(g[unread].any()) for g in tables if g is not None and len(g) == case.vocab_size]
    words = f"embeddings whose weight is the output layer's: {sum(tied)} of {len(tied)}"
    cause = "not tied, or by value or nn.Parameter(weight), not as one object: updates part them"
    yield (all if case.tied == "all" else any)(tied), words, cause


@check("gradient flow")
def gradient_flow(case):
    gradients(case, lambda: random_label_loss(case(*case.inputs(32))).backward())
    bad = {"no": [], "a nan": [], "a zero": [], "some": []}
    for name, w in case.model.named_parameters():
        kind = "no" if w.grad is None else "some" if all_finite([w.grad]) else "a nan"
        # the gradient of a key's bias is zero by construction
        if kind == "some" and w.numel() > 1 and "bias" not in name and not w.grad.any():
            kind = "a zero"
        if w.requires_grad:
            bad[kind].append(name)
    causes = "no part of logits, or detached", "sqrt(0), log(0), 0/0", "multiplied by zero"
    for (kind, names), cause in zip(bad.items(), causes):
        yield not names, f"parameters with {kind} gradient: {len(names)} {names[:2] or ''}", cause


@check("optimizer", "optimizer")
def optimizer(case):
    # a schedule may stand around the optimizer
    inner = getattr(
        case.optimizer, "_optimizer", getattr(case.optimizer, "optimizer", case.optimizer)
    )
    known = {id(w) for group in inner.param_groups for w in group["params"]}
    missing = [
        n for n, w in case.model.named_parameters() if w.requires_grad and id(w) not in known
    ]
    words = f"parameters that the optimizer lacks: {missing[:2] or 'none'}"
    yield not missing, words, "made or replaced after the optimizer"
    if not (case.train_step and case.batch):
        return
    batch, step = case.batch(), inner.step
    directions, progress = [], []

    def record(*args, **kwargs):
        progress.append((inner.param_groups[0]["lr"], getattr(case.scheduler, "last_epoch", 0)))
        grads = [w.grad for w in case.model.parameters() if w.grad is not None]
        gradient = torch.cat([g.flatten() for g in grads])
        directions.append(nn.functional.normalize(gradient, dim=0))
        for g in grads:
            g *= -1e4  # what is left of it turns the next gradient round

    inner.step = record
    try:
        for _ in range(3):
            with case.mode(True, gradients=True), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a schedule notices the other step
                case.train_step(*batch)
    finally:
        inner.step = step
    n = len(directions)
    yield n == 3, f"updates in three training steps: {n}", "no optimizer.step"
    cosine = min((x @ directions[0] for x in directions), default=1)
    words = f"cosine of the gradients of the same batch three times: {cosine:.3f}"
    yield cosine > 0.99, words, "zero_grad is missing"
    if case.scheduler is not None:
        words = f"learning rate and steps of the schedule: {progress}"
        yield len(set(progress)) > 1, words, "train_step doesn't call scheduler.step"


@check("gradient accumulation", "accumulate batch")
def gradient_accumulation(case):
    batch = case.batch()
    # equal rows, so that all ways to take a mean agree
    large, small = ([x[[0] * n] for x in batch] for n in (4, 2))
    full, parts = (
        torch.cat([g.flatten() for g in gradients(case, case.accumulate, batches)])
        for batches in ([large], [small, small])
    )
    ratio = parts @ full / (full @ full)
    words = f"two half batches give {ratio:.3g} times the gradient of the batch"
    cause = "the loss isn't divided by the number of parts"
    yield largest_gap(parts, full) < 0.01 * full.abs().max(), words, cause


@check("overfit one batch", "steps")
def overfit_one_batch(case):
    inputs, losses = case.inputs(8), []
    adam = torch.optim.Adam(case.model.parameters())
    while len(losses) < case.steps and (not losses or losses[-1] >= 0.05):
        with case.mode(True, gradients=True):
            loss = random_label_loss(case(*inputs))
        losses.append(loss.item())
        adam.zero_grad()
        loss.backward()
        adam.param_groups[0]["lr"] = 1e-3 * min(1.0, len(losses) / 10)
        nn.utils.clip_grad_norm_(case.model.parameters(), 1.0)
        adam.step()
    words = f"{losses[0]:.2f} to {losses[-1]:.2f} nats in {len(losses)} steps on eight sentences"
    ok = losses[-1] <= 0.5 * min(losses[0], math.log(case.vocab_size))
    yield ok, words, "the model can't learn by heart: see the checks above"
