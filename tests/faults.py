"""Plants faults in a copy of the package and sees the fast tests name them: python tests/faults.py
[--list] [name ...]

Each fault is one edit of an exported file. It counts as caught when a test fails whose message
holds the words that name the likely mistake; the comparison of package and notebooks
(tests/test_book.py) is left out, it would catch them all."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Small parts first: the first failure is the one that a learner reads.
FILES = [
    "test_parity.py",
    "test_properties.py",
    "test_exercises.py",
    "test_faults_plumbing.py",
    "test_checkpoint.py",
    "test_training.py",
    "test_whole.py",
]
SAME_NAME = set(
    """tokenization evaluation attention_analysis translation optimizers recipes data download
    wmt prepare store decoding rnn decoder_only variants comparison claims french
    augmentation languages devices cli literate""".split()
)  # modules whose own tests have their name, tried first
LATE = {
    "transformer_lit/corpora/texts": "test_archives.py",
    "transformer_lit/runtime/batches": "test_prepare.py",
    "transformer_lit/serving/ctranslate": "test_serving.py",
    "transformer_lit/runs/run": "test_nothing_lost.py",
    "transformer_lit/runs/checkpoints": "test_checkpoint.py",
    "transformer_lit/recipes/large": "test_wmt.py",
    "transformer_lit/runs/records": "test_faults_plumbing.py",
    "tools/text": "test_tools.py",
    "tools/execute": "test_tools.py",
    "transformer_lit/grammar/slots": "test_choosers.py",
    "bench/own/text": "test_own_bench.py",
    "bench/fair/runs": "test_fair.py",
    "transformer_lit/runtime/distributed": "test_devices.py",
    "book/litbook/figures/plots": "test_drawings.py",
    "book/litbook/figures/diagram": "test_figures.py",
    "book/litbook/drawings/ch12": "test_drawings.py",
    "book/litbook/drawings/ch13": "test_drawings.py",
    "book/litbook/live/pages": "test_map_view.py",
    "book/litbook/live/looks": "test_try_it.py",
    "book/litbook/workshop/__init__": (
        "test_patients.py::test_the_fourth_probe_is_refused_and_a_repeated_one_is_free"
    ),
    "book/web/engine.js": "test_engine.py::test_parts_of_two_models_are_never_mixed",
    "book/web/static/first.js": (
        "test_first_page.py::test_nothing_of_the_engine_comes_before_it_is_asked_for"
    ),
    "book/web/static/inside.js": (
        "test_inside.py::test_switches_of_the_page_change_the_answer_as_the_package_does"
    ),
    **dict.fromkeys(
        (
            "a step looks at its loss",
            "a mask made on the processor",
            "a search waits for each row",
            "zeros of tokens × vocabulary",
            "a record without its GPU",
            "the GPU's random state is set anew",
        ),
        "test_fake_cuda.py",
    ),
    "a pause is not saved": "test_interrupted.py",
    "Adam's state lost in a resume": "test_interrupted.py",
    "lists are written before the lock": "test_nothing_lost.py",
    "a resumed run logs steps twice": "test_interrupted.py",
    "transformer_lit/custom_pair/clean": "test_custom_pair.py",
    "cuDNN while decoding": "test_decoding.py",
    "one scale for a whole matrix": "test_precision.py",
}  # of a module, or of one fault: a file of its own, tried first

FAULTS = [  # name, module, old text, new text, words of the message
    ("scale dropped", "attention", " / math.sqrt(query.size(-1))", "", "the scale is dropped"),
    (
        "scaled by d_k, not its root",
        "attention",
        "math.sqrt(query.size(-1))",
        "query.size(-1)",
        "not by its root",
    ),
    (
        "mask after the softmax",
        "attention",
        "scores.masked_fill(~mask, torch.finfo(scores.dtype).min)",
        "scores",
        "after the softmax",
    ),
    (
        "closed row not zeroed",
        "attention",
        "weights.masked_fill(~mask, 0.0)",
        "weights",
        "must return zeros",
    ),
    (
        "dropout not passed on",
        "attention",
        "F.dropout(weights, dropout_p)",
        "weights",
        "dropout does nothing",
    ),
    ("mask transposed", "masks", ".tril()", ".triu()", "transposed"),
    ("diagonal off by one, back", "masks", ".tril()", ".tril(-1)", "can't see itself"),
    ("diagonal off by one, forward", "masks", ".tril()", ".tril(1)", "sees the next token"),
    ("padding mask inverted", "masks", "(tokens != pad_id)[:", "(tokens == pad_id)[:", "inverted"),
    (
        "bos and pad confused",
        "masks",
        "PAD, BOS, EOS, UNK = 0, 1",
        "BOS, PAD, EOS, UNK = 0, 1",
        "bos and pad are confused",
    ),
    (
        "mask only in training",
        "model",
        "target_mask(decoder_input),",
        "target_mask(decoder_input) if self.training else padding_mask(decoder_input),",
        "training only",
    ),
    (
        "heads merged without transposing back",
        "multi_head_attention",
        "x.transpose(1, 2).flatten(2)",
        "x.reshape(len(x), x.size(2), -1)",
        "without transposing back",
    ),
    (
        "key and value swapped",
        "multi_head_attention",
        "key, value = self.project_keys_values(key, value)",
        "value, key = self.project_keys_values(key, value)",
        "keys and values are swapped",
    ),
    (
        "output matrix skipped",
        "multi_head_attention",
        "self.out_proj(x.transpose(1, 2).flatten(2))",
        "x.transpose(1, 2).flatten(2)",
        "differs from nn.MultiheadAttention",
    ),
    (
        "sine and cosine swapped",
        "embeddings",
        "[angle.sin(), angle.cos()]",
        "[angle.cos(), angle.sin()]",
        "sines and cosines are swapped",
    ),
    ("base of the waves", "embeddings", "10000.0", "1000.0", "is the base 10000?"),
    (
        "positions off by one in the table",
        "embeddings",
        "torch.arange(start_pos, start_pos + length,",
        "torch.arange(start_pos + 1, start_pos + length + 1,",
        "positions are off by one",
    ),
    (
        "positions off by one in the embedding",
        "embeddings",
        "table[start_pos:start_pos + T]",
        "table[start_pos + 1:start_pos + T + 1]",
        "positions are off by one",
    ),
    ("√d_model dropped", "embeddings", " * math.sqrt(table.size(1))", "", "√d_model is dropped"),
    (
        "residual dropped",
        "sublayers",
        "self.norm(x + self.dropout(sublayer(x)))",
        "self.norm(self.dropout(sublayer(x)))",
        "the residual is dropped",
    ),
    (
        "post and pre swapped",
        "sublayers",
        'self.pre_norm = norm == "pre"',
        'self.pre_norm = norm == "post"',
        "post-norm and pre-norm are swapped",
    ),
    ("ReLU dropped", "sublayers", "nn.ReLU()", "nn.Identity()", "the ReLU is missing"),
    (
        "final norm missing in pre",
        "encoder",
        'norm == "pre"',
        'norm == "none"',
        "one last LayerNorm",
    ),
    (
        "cross-attention reads x",
        "decoder",
        "cross_attention(y, memory, memory,",
        "cross_attention(y, y, y,",
        "reads x and not memory",
    ),
    (
        "cross-attention without the mask",
        "decoder",
        "y, memory, memory,\n                                              source_mask)",
        "y, memory, memory)",
        "reads padding",
    ),
    (
        "cache reversed",
        "decoder",
        "[self.values, values]",
        "[values, self.values]",
        "the cache is reversed",
    ),
    (
        "cache forgets the past",
        "decoder",
        "keys=torch.cat([self.keys, keys], 2)",
        "keys=keys",
        "the cache loses a token",
    ),
    (
        "cache with a wrong offset",
        "model",
        "keys.size(2)",
        "keys.size(2) + 1",
        "the cache has a wrong offset",
    ),
    (
        "every cached token at position 0",
        "model",
        "self.target_embedding(tokens[:, None], caches[0].keys.size(2))",
        "self.target_embedding(tokens[:, None])",
        "the cache has a wrong offset",
    ),
    (
        "untied",
        "model",
        "self.output_projection.weight = shared",
        "pass",
        "untied",
    ),
    (
        "tied to the wrong matrix",
        "model",
        "self.output_projection.weight = shared",
        "self.output_projection.weight = self.source_embedding.token_embedding.weight",
        "tied to the source's embedding",
    ),
    (
        "shift off by one",
        "loss",
        "target[:, :-1], target[:, 1:]",
        "target[:, 1:], target[:, 1:]",
        "the shift is off by one",
    ),
    (
        "smoothing mis-normalized",
        "loss",
        "sum(-1) / V",
        "sum(-1) / (V - 1)",
        "shared by V - 1 words",
    ),
    (
        "smoothed labels above 1",
        "loss",
        "((1 - label_smoothing) * nll_loss",
        "(nll_loss",
        "the smoothed labels add up to more than 1",
    ),
    (
        "pads counted in the sum",
        "loss",
        (
            'ignore_index=ignore_index,\n                          reduction="sum")\n'
            "    smooth_loss = -(log_p.sum(-1) / V).masked_fill(~is_token, 0.0)"
        ),
        'reduction="sum")\n    smooth_loss = -(log_p.sum(-1) / V)',
        "pads are counted in",
    ),
    (
        "pads counted in the mean",
        "loss",
        "is_token.sum().clamp(min=1)",
        "labels.numel()",
        "pads are counted in the mean",
    ),
    (
        "schedule off by one, early",
        "schedule",
        "        n + 1, d_model",
        "        n, d_model",
        "the schedule is off by one",
    ),
    (
        "schedule off by one, late",
        "schedule",
        "        n + 1, d_model",
        "        n + 2, d_model",
        "the schedule is off by one",
    ),
    (
        "warm-up power wrong",
        "schedule",
        "warmup_steps ** -1.5",
        "warmup_steps ** -0.5",
        "the power of the warm-up",
    ),
    (
        "trainer's rate off by one",
        "training",
        "self.lr_schedule(self.step)",
        "self.lr_schedule(self.step + 1)",
        "the schedule is off by one",
    ),
    (
        "gradient divided by the block's count",
        "loss",
        "loss_fn(chunk, chunk_labels) / normalizer",
        "loss_fn(chunk, chunk_labels) / (chunk_labels != PAD).sum()",
        "divided by each block's own count",
    ),
    ("gradients pile up", "training", "self.optimizer.zero_grad()", "pass", "zero_grad is missing"),
    (
        "random state not restored",
        "transformer_lit/runs/checkpoints",
        "if state is not None:",
        "if False:",
        "the random state is not restored",
    ),
    (
        "checkpoint written in place",
        "transformer_lit/corpora/files",
        'path.with_name(f"{path.name}.{os.getpid()}.part")',
        "path",
        "destroys the old checkpoint",
    ),
    (
        "last batch lost",
        "batching",
        "while start < len(order):",
        "while start < len(order) - 1:",
        "each pair must come exactly once",
    ),
    (
        "decoding starts with the pad",
        "decoding",
        "torch.full((len(source),), BOS,",
        "torch.full((len(source),), 0,",
        "starts with BOS",
    ),
    (
        "finished sentence kept",
        "decoding",
        "[token] if token != EOS else []\n            if token != EOS and len(outputs[i]) <",
        "[token]\n            if len(outputs[i]) <",
        "a finished sentence is kept",
    ),
    (
        "beam scores not divided",
        "decoding",
        "((5 + length) / 6) ** alpha",
        "1.0",
        "not divided by the length penalty",
    ),
    (
        "a beam of copies",
        "decoding",
        "log_probs[:, 1:] = -torch.inf",
        "pass",
        "two different sentences",
    ),
    (
        "beams go on from one state",
        "decoding",
        "rows[keep].flatten(),",
        "(rows - beams)[keep].flatten(),",
        "its own rows of the state",
    ),
    (
        "EOS missing in the source",
        "tokenization",
        "for token in self.tokenize(text)] + [EOS]",
        "for token in self.tokenize(text)]",
        "EOS is missing",
    ),
    (
        "EOS missing in the copy task",
        "copy_task",
        "torch.cat([words, eos], 1)",
        "words",
        "EOS is missing",
    ),
    ("copy task begins with the pad", "copy_task", "BOS)", "0)", "bos and pad are confused"),
    ("test set leaks", "data", '.casefold().rstrip(" .!?…")', "", "leaks into training"),
    # the chapters on translation
    (
        "merges in the wrong order",
        "tokenization",
        "min(pairs, key=ranks.get)",
        "max(pairs, key=ranks.get)",
        "merges applied in another order",
    ),
    (
        "a piece pattern without spaces",
        "tokenization",
        '[^\\w\\s]|\\s"',
        '[^\\w\\s]"',
        "does the pattern drop a character",
    ),
    (
        "n-grams counted without limit",
        "evaluation",
        "(ngram_counts(hypothesis, n) & max_counts).total()",
        "sum(v for k, v in ngram_counts(hypothesis, n).items() if k in max_counts)",
        "differs from sacreBLEU",
    ),
    (
        "a head stays switched off",
        "attention_analysis",
        "undo.callback(hook.remove)",
        "pass",
        "a head is still switched off",
    ),
    (
        "weights of the wrong layer",
        "attention_analysis",
        "seen[kind][layer] = weights",
        "seen[kind][0] = seen[kind][layer] = weights",
        "don't explain what the heads gave out",
    ),
    (
        "one scale for a whole matrix",
        "transformer_lit/runs/checkpoints",
        "weight.abs().amax(1, keepdim=True) / 127",
        "weight.abs().amax().expand(len(weight), 1) / 127",
        "each row needs its own step",
    ),
    (
        "answers in another order",
        "translation",
        "outputs[i] = output",
        "outputs[start + indices.index(i)] = output",
        "in the order of the sentences",
    ),
    (
        "embeddings given to Muon",
        "transformer_lit/runtime/optimizers",
        "stacks = [*model.encoder.parameters(),",
        "stacks = [model.output_projection.weight, *model.encoder.parameters(),",
        "embeddings belong to Adam",
    ),
    (
        "Muon looks back only",
        "transformer_lit/runtime/optimizers",
        "w.grad.lerp(mean, MOMENTUM)",
        "mean",
        "another Muon than PyTorch's",
    ),
    (
        "Muon divides by the wrong side",
        "transformer_lit/runtime/optimizers",
        "0.2 * max(w.shape)",
        "0.2 * min(w.shape)",
        "another Muon than PyTorch's",
    ),
    (
        "a GPU stays idle",
        "transformer_lit/recipes/recipes",
        "translator.model.to(device)  #",
        "pass  #",
        "the weights move to the GPU",
    ),
    (
        "text is encoded twice",
        "translation",
        "encode = cache(self.source_tokenizer.encode)",
        "encode = self.source_tokenizer.encode",
        "cut into tokens more than once",
    ),
    (
        "loading forgets the limits",
        "translation",
        'settings.get("length_limits", (100, 20)))',
        "(100, 20))",
        "cuts text as the run that trained it did",
    ),
    (
        "Adam's state lost in a resume",
        "transformer_lit/runtime/optimizers",
        "zip(self.parts, states)",
        "zip(self.parts, (states[0], {}))",
        "must go on with the very losses",
    ),
    (
        "validation keeps test sentences",
        "data",
        'valid = exclude_sources(splits["valid"], held_out)',
        'valid = list(splits["valid"])',
        "stand in validation and test",
    ),
    # the paper's experiment, and the export
    (
        "both sides from one file",
        "transformer_lit/corpora/texts",
        'for side in ("en", language))',
        'for side in ("en", "en"))',
        "the two sides don't belong together",
    ),
    (
        "held-out sentences left in",
        "transformer_lit/recipes/prepare",
        "good = exclude_sources(intact, held_out)",
        "good = intact",
        "of the tests stands in training",
    ),
    (
        "repeats kept",
        "transformer_lit/corpora/store",
        "key not in keys for key",
        "True for key",
        "a repeat is kept",
    ),
    (
        "chunks in another order",
        "transformer_lit/runtime/batches",
        "                yield waiting.popleft()",
        "                yield waiting.pop()",
        "several processes make another store",
    ),
    (
        "offset off by one",
        "transformer_lit/corpora/store",
        "self.data[middle:end]",
        "self.data[middle + 1 : end + 1]",
        "the two sides don't belong together",
    ),
    (
        "every epoch alike",
        "wmt",
        "self.config.seed + 1000 * epoch)",
        "self.config.seed)",
        "every epoch deals the same batches",
    ),
    (
        "averaged steps off by one",
        "wmt",
        "e.max_steps - k * e.snapshot_every",
        "e.max_steps - (k + 1) * e.snapshot_every",
        "other weights than the last",
    ),
    (
        "the time is never up",
        "transformer_lit/recipes/large",
        "trainer.run.stop_requested |= time.monotonic() > deadline",
        "pass",
        "must go on where the one before it stopped",
    ),
    (
        "the export shares the weights",
        "transformer_lit/serving/ctranslate",
        ".detach().float().cpu().clone()",
        ".detach().float().cpu()",
        "exporting changes the model",
    ),
    (
        "the engine's penalty ranks",
        "transformer_lit/serving/ctranslate",
        "return scores[k] * length**alpha / length_penalty(length, alpha)",
        "return scores[k]",
        "and not the paper's",
    ),
    (
        "prefix mask leaking",
        "decoder_only",
        "start if self.prefix_lm else 0",
        "start + 2 if self.prefix_lm else 0",
        "the prefix leaks the target",
    ),
    (
        "stream counts pads in positions",
        "decoder_only",
        "(tokens != PAD).cumsum(1) - 1",
        "torch.ones_like(tokens).cumsum(1) - 1",
        "pads are counted in the positions",
    ),
    (
        "decay off by one",
        "decoder_only",
        "source_weight(trainer.step)",
        "source_weight(trainer.step + 1)",
        "the decay is off by one",
    ),
    (
        "stream loss asks for the tag",
        "decoder_only",
        "(states[:, start:], labels, 1.0)",
        "(states[:, start - 1:-1], labels, 1.0)",
        "the loss is over other labels",
    ),
    (
        "stream's cache keeps its position",
        "decoder_only",
        '"positions": positions + 1',
        '"positions": positions',
        "the cache differs from the stream",
    ),
    (
        "update gate turned round",
        "rnn",
        "(1 - z) * n + z * h",
        "z * n + (1 - z) * h",
        "the update gate is turned round",
    ),
    (
        "reset gate unused",
        "rnn",
        "torch.tanh(a_n + r * u_n)",
        "torch.tanh(a_n + u_n)",
        "the reset gate is not used",
    ),
    (
        "pads read from the far end",
        "rnn",
        "lengths = mask.sum(1).clamp(min=1).cpu()",
        "lengths = (0 * mask.sum(1) + mask.size(1)).cpu()",
        "padding leaks into the backward direction",
    ),
    (
        "summary after the last pad",
        "rnn",
        "last_token = mask.sum(1).clamp(min=1) - 1",
        "last_token = 0 * mask.sum(1) - 1",
        "the summary is the last word's forward",
    ),
    (
        "additive attention without its tanh",
        "rnn",
        "self.score_proj(torch.tanh(sums))",
        "self.score_proj(sums)",
        "the query is not heard",
    ),
    (
        "beams look at another sentence",
        "rnn",
        "h.view(len(keys), -1, h.size(-1)), keys,",
        "h.view(-1, len(keys), h.size(-1)).transpose(0, 1), keys,",
        "each beam must ask with its own state",
    ),
    (
        "pieces' rows added, not averaged",
        "rnn",
        "(rows / rows.sum(0)).mT",
        "rows.mT",
        "rows of a word's pieces are averaged",
    ),
    (
        "RoPE applied to values",
        "variants",
        "apply_rotary(keys), values, mask",
        "apply_rotary(keys), apply_rotary(values), mask",
        "values are turned as well",
    ),
    (
        "grouped heads in the wrong order",
        "variants",
        "values.repeat_interleave(n, 1)",
        "values.repeat(1, n, 1, 1)",
        "values are repeated in the wrong order",
    ),
    (
        "RMSNorm's mean left in",
        "variants",
        "square = x.square()",
        "x = x - x.mean(-1, keepdim=True)\n        square = x.square()",
        "RMSNorm takes the mean away",
    ),
    (
        "a query at place 0",
        "variants",
        "apply_rotary(queries, past)",
        "apply_rotary(queries)",
        "the last query must stand at the last key's place",
    ),
    # what lasts: runs that stop, plans, records, claims
    (
        "a pause is not saved",
        "training",
        "            self.end_step(batch, started, callback)\n        self.save()\n",
        "            self.end_step(batch, started, callback)\n",
        "a run that pauses must be saved first",
    ),
    (
        "another plan goes on",
        "transformer_lit/runs/run",
        "if old != new:",
        "if old.keys() != new.keys():",
        "DID NOT RAISE",
    ),
    (
        "past scores are dropped",
        "decoding",
        "(log_probs.view(-1, 1) + next_log_probs)",
        "(next_log_probs.masked_fill(log_probs.view(-1, 1).isinf(), -torch.inf))",
        "past scores are dropped",
    ),
    (
        "finished ones go on",
        "decoding",
        "ended.argsort(dim=1, stable=True)[:, :k]",
        "ended.argsort(dim=1, stable=True)[:, :k].sort().values.clamp(max=k - 1)",
        "a finished hypothesis goes on",
    ),
    (
        "a search that ends early",
        "decoding",
        "best.n_finished[batch_index] >= k",
        "best.n_finished[batch_index] >= 1",
        "the search ends while an open one can win",
    ),
    (
        "a dirty tree passes as clean",
        "transformer_lit/runs/records",
        '"--always", "--dirty",',
        '"--always",',
        "files were changed and the commit doesn't say so",
    ),
    (
        "a claim's threshold is turned",
        "book/litbook/claims",
        "self.low < self.effect <",
        "self.low > self.effect <",
        "the threshold is turned",
    ),
    (
        "nine of ten become five of ten",
        "book/litbook/claims",
        "NEEDED, FEWEST = 0.9, 5",
        "NEEDED, FEWEST = 0.5, 5",
        "a claim that held too seldom stands",
    ),
    (
        "a GPU that isn't there is taken",
        "transformer_lit/runtime/devices",
        "if not available[name]:",
        "if False:",
        "a device that isn't there must be refused",
    ),
    (
        "translate stays on the processor",
        "transformer_lit/cli",
        "    translator.model.to(place)\n",
        "",
        "the model stays on the processor",
    ),
    # an author's tools, the generated corpus, the text of runs
    (
        "an author's edit written over",
        "tools/text",
        'if written != text and found != agreed and "FORCE" not in os.environ:',
        "if False:",
        "an edit is written over",
    ),
    (
        "an upgrade that chapters don't see",
        "tools/execute",
        'stamps.content(ROOT / "requirements.txt", with_words=True)',
        '""',
        "a library has changed",
    ),
    (
        "a sentence of a smaller number",
        "book/litbook/claims",
        "assert low <= value <= high, (",
        "assert value <= high, (",
        "a number that the record doesn't have",
    ),
    (
        "vieil in the plural",
        "transformer_lit/grammar/french",
        "elif vowel and not plural:",
        "elif vowel:",
        "vieil is a singular",
    ),
    (
        "tu becomes vous",
        "transformer_lit/grammar/slots",
        'word = "tu" if spoken_to.person == 1 else "vous"',
        'word = "vous"',
        "a father is vous",
    ),
    (
        "a subject that is its own object",
        "transformer_lit/grammar/slots",
        'bool(singular), exclude=slots.get("S"))',
        "bool(singular))",
        "bread eats bread",
    ),
    (
        "an invented year of no century",
        "transformer_lit/recipes/augmentation",
        "year = str(rng.randint(1100, 2099))",
        "year = str(rng.randint(1000, 9999))",
        "a year is no year any more",
    ),
    (
        "models of letters that grow",
        "transformer_lit/custom_pair/languages",
        "if trigram in self.counts:",
        "if True:",
        "a trigram that was not counted is remembered",
    ),
    (
        "a recorded text with test sentences",
        "bench/own/text",
        'exclude_sources(corpus["train"], held_out) for corpus',
        'list(corpus["train"]) for corpus',
        "the test leaks into training",
    ),
    (
        "a bag of words in its order",
        "bench/fair/runs",
        "encode(source.sort(1, descending=True).values)",
        "encode(source)",
        "a bag has an order",
    ),
    # on a GPU
    (
        "a step looks at its loss",
        "training",
        "    if not loss.is_cuda:",
        "    if True:",
        "a step waits for the GPU",
    ),
    (
        "the clock stops where an epoch ends",
        "training",
        "should_log = batch.ends_epoch or self.step %",
        "should_log = self.step %",
        "where the clock has to be right",
    ),
    (
        "a mask made on the processor",
        "masks",
        "dtype=torch.bool, device=device)",
        "dtype=torch.bool)",
        "tensors of two devices",
    ),
    (
        "a search waits for each row",
        "decoding",
        "    best.n_finished[batch_index] += (scores > -torch.inf).sum(1)\n",
        (
            "    for i, row in enumerate(scores > -torch.inf):\n"
            "        best.n_finished[int(batch_index[i])] += row.sum()\n"
        ),
        "the waits grow with the rows",
    ),
    (
        "cuDNN while decoding",
        "transformer_lit/runtime/devices",
        "torch.no_grad(), sdpa_kernel(ANY_LENGTH):",
        "torch.no_grad():",
        "decoding takes cuDNN's attention",
    ),
    (
        "zeros of tokens × vocabulary",
        "loss",
        (
            "F.nll_loss(log_p, labels, ignore_index=ignore_index,\n"
            '                          reduction="sum")'
        ),
        "-log_p.gather(-1, labels[:, None])[:, 0].masked_fill(~is_token, 0.0).sum()",
        "into zeros of tokens",
    ),
    (
        "a record without its GPU",
        "transformer_lit/runs/records",
        'f"{torch.cuda.get_device_name(device)}, {words}"',
        "words",
        "the record must name its GPU",
    ),
    (
        "processes meet before they choose a GPU",
        "transformer_lit/runtime/distributed",
        "        torch.cuda.set_device(device)\n",
        "",
        "the GPU is chosen before they meet",
    ),
    (
        "the GPU's random state is set anew",
        "masks",
        "torch.random.fork_rng()",
        "torch.random.fork_rng(devices=[])",
        "leaves the GPU with another random state",
    ),
    (
        "rotation off by one",
        "variants",
        "*x.shape[-2:], start_pos, x.device",
        "*x.shape[-2:], start_pos + 1, x.device",
        "positions are off by one",
    ),
    # drawings, comparisons, scores
    (
        "names pile up at the ends of curves",
        "book/litbook/figures/plots",
        "low + 0.085",
        "low + 0.01",
        "collide",
    ),
    (
        "keys of the cross-attention from the stem",
        "book/litbook/figures/diagram",
        "(i if memory is None else -i)",
        "i",
        "comes from elsewhere",
    ),
    (
        "a caption counts words as padding",
        "book/litbook/drawings/ch12",
        "padding = places - sum(lengths)",
        "padding = sum(lengths)",
        "'padded batches' says something else",
    ),
    (
        "what is saved is not dashed",
        "book/litbook/drawings/ch13",
        "color=figures.GRAY, dash=True",
        "color=figures.GRAY",
        "'staying' marks",
    ),
    (
        "the token that begins is counted",
        "comparison",
        "len(pairs[i][1]) - 1 for",
        "len(pairs[i][1]) for",
        "the last batch meets the budget",
    ),
    (
        "the bootstrap alone decides",
        "comparison",
        " and abs(value) > half_width",
        "",
        "Student's interval holds 0",
    ),
    # commands, files, stops
    (
        "what was translated is translated anew",
        "transformer_lit/recipes/large",
        'lines = path.read_text("utf-8").split("\\n")[:-1] if path.exists() else []',
        "lines = []",
        "is not translated again",
    ),
    (
        "lists are written before the lock",
        "transformer_lit/recipes/recipes",
        (
            "    with only_run(folder):\n"
            "        keep_config(folder, run_config(trainer, batches))\n"
            "        begin()\n"
        ),
        (
            "    begin()\n"
            "    with only_run(folder):\n"
            "        keep_config(folder, run_config(trainer, batches))\n"
        ),
        "a refused command changes nothing",
    ),
    (
        "a resumed run logs steps twice",
        "training",
        'self.run.rewind_log(progress.pop("log_length"))',
        'progress.pop("log_length")',
        "must go on with the very losses",
    ),
    (
        "translations of the test may be trained on",
        "transformer_lit/custom_pair/clean",
        "for side in (0, 1)\n    ]",
        "for side in (0,)\n    ]",
        "pairs for training alone hold sentences of the test",
    ),
    (
        "--threads is dropped",
        "transformer_lit/cli",
        "torch.set_num_threads(threads or max(",
        "torch.set_num_threads(max(",
        "--threads is not passed on",
    ),
    (
        "validation holds long sentences",
        "data",
        "splits = {split: filter_by_length(pairs, max_words)\n",
        (
            'splits = {split: pairs if split == "valid" else '
            "filter_by_length(pairs, max_words)\n"
        ),
        "forgets how long its sentences may be",
    ),
    # the book's pages
    (
        "a hook goes on asking for weights",
        "attention_analysis",
        "        module.need_weights = need_weights\n",
        "",
        "weights are asked for after the block",
    ),
    (
        "what fills a page is filled again",
        "book/litbook/live/pages",
        r'return re.sub(r"\{\{(\w+)\}\}", lambda place: texts[place[1]], page)',
        (
            'for name in texts: page = page.replace("{{" + name + "}}", texts[name])\n'
            "    return page"
        ),
        "a token has become HTML",
    ),
    (
        "the page draws the early layers",
        "book/litbook/live/looks",
        'maps["cross"][len(maps["cross"]) // 2 :, 0]',
        'maps["cross"][:, 0]',
        "not the mean over the later layers",
    ),
    (
        "a table too short for long sentences",
        "transformer_lit/serving/ctranslate",
        "sinusoids(N_POSITIONS, d_model)",
        "sinusoids(64, d_model)",
        "the engine's table of positions ends before its sources do",
    ),
    (
        "a fourth probe is free",
        "book/litbook/workshop/__init__",
        "len(spent) == BUDGET",
        "len(spent) > BUDGET",
        "the fourth probe of a case must be refused",
    ),
    (
        "ticks on definitions, not on checks",
        "book/_ext/literate",
        'if not re.search(r"^(def|class) "',
        'if re.search(r"^(def|class) "',
        "a check has its tick",
    ),
    (
        "parts of an older model are taken",
        "book/web/engine.js",
        "if (stamp && part.stamp != stamp) {",
        "if (false) {",
        "parts of two models are mixed",
    ),
    (
        "the switch shows one case",
        "book/web/static/first.js",
        "cases[asked.adjective == TIRED ? 0 : 1]",
        "cases[0]",
        "the switch doesn't turn the pronoun",
    ),
    (
        "mended switches stay off",
        "book/web/static/inside.js",
        "gone.clear(); clearCounts(); stopAll(); again(); one(",
        "clearCounts(); stopAll(); again(); one(",
        "a part is still switched off",
    ),
]


def path_of(module: str) -> str:
    "decoding: a chapter's module; with a folder, the file's path below the root, without .py."
    if Path(module).suffix:
        return module
    return f"{module}.py" if "/" in module else f"transformer_lit/{module}.py"


def gone(fault) -> bool:
    path = ROOT / path_of(fault[1])
    return not path.exists() or fault[2] not in path.read_text(encoding="utf-8")


def plant(folder: Path, fault) -> None:
    _, module, old, new, _ = fault
    path = folder / path_of(module)
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def failing(text: str) -> list[str]:
    return re.findall(r"^(?:FAILED|ERROR) (\S+)", text, re.M)


def fast_tests(folder: Path, *options: str, files=FILES) -> tuple[int, str]:
    paths = os.pathsep.join(map(str, (folder, folder / "book")))
    hidden = {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    quiet = "-q --tb=short --no-header -p no:cacheprovider -p no:xdist".split()
    command = [sys.executable, "-m", "pytest", "-m", "not slow", *quiet, *options]
    command += [f"tests/{name}" for name in files]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **hidden},
            capture_output=True,
            text=True,
            timeout=300,
        )
    except subprocess.TimeoutExpired:
        return 1, "FAILED ran for five minutes"
    return done.returncode, done.stdout + done.stderr


def tests_of(fault) -> list[str]:
    "Its own file first; what concerns a page has no other."
    stem = Path(fault[1]).stem
    named = f"test_{stem}.py" if stem in SAME_NAME else None
    own = LATE.get(fault[0], LATE.get(fault[1], named))
    if own and fault[1].startswith("book/"):
        return [own]
    return [own, *FILES] if own else FILES


def copy(folder: Path) -> None:
    ignore = shutil.ignore_patterns("__pycache__", "_shipped")
    copies = "transformer_lit book/litbook book/_ext book/web tests tools bench".split()
    for name in copies:
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)  # a link would import our own
    pages = (path for kind in ("*.ipynb", "*.md") for path in (ROOT / "book").glob(kind))
    for path in (ROOT / "data", ROOT / "book" / "results", ROOT / "_toc.yml", *pages):
        os.symlink(path, folder / path.relative_to(ROOT))
    shutil.copy(ROOT / "pyproject.toml", folder)


def try_fault(fault, known: list[str]) -> dict:
    name, *_, words = fault
    if gone(fault):
        return dict(
            fault=name,
            state="ANCHOR GONE",
            by="-",
            message=f"edit tests/faults.py: {fault[2]!r} is no longer there",
        )
    with tempfile.TemporaryDirectory() as folder:
        copy(Path(folder))
        plant(Path(folder), fault)
        code, text = fast_tests(
            Path(folder),
            "--maxfail=6",
            *(f"--deselect={test}" for test in known),
            files=tests_of(fault),
        )
    if code == 0:
        return dict(fault=name, state="SURVIVES", by="-", message="no test fails")
    test = re.search(r"^(?:FAILED|ERROR) (?:tests/)?(\S+)", text, re.M)
    lines = [line[4:].strip() for line in text.splitlines() if line.startswith("E  ")]
    said = next((line for line in lines if words in line), None)
    message = re.sub(r"^\w*Error: ", "", said or (lines or [text.strip()[-200:]])[0])
    return dict(
        fault=name,
        state="caught" if said else "OTHER WORDS",
        by=test[1] if test else "?",
        message=message,
    )


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument(
        "--list",
        action="store_true",
        help="the faults, and whether their text is still in the package",
    )
    options.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    options.add_argument("names", nargs="*", help="only faults whose name holds one of these")
    options = options.parse_args()
    faults = [f for f in FAULTS if not options.names or any(name in f[0] for name in options.names)]
    if options.list:
        for fault in faults:
            print(
                f"{'GONE' if gone(fault) else 'there':6} {fault[0]:40} {path_of(fault[1])}:"
                f" {fault[2]} -> {fault[3]}"
            )
        return any(map(gone, faults))
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        copy(Path(folder))
        files = list(dict.fromkeys(file for fault in faults for file in tests_of(fault)))
        code, text = fast_tests(Path(folder), files=files)
    known = failing(text)
    if code and not known:
        print(text[-2000:])
        return 1
    if known:
        print("These fail without any fault and are left out:", *known, sep="\n  ")
    print(f"without a fault: {time.time() - began:.0f} s", flush=True)
    rows = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for row in pool.map(lambda fault: try_fault(fault, known), faults):
            rows.append(row)
            print(f"{row['state']:11} {row['fault']}", flush=True)
    print("\n| fault | caught by | message |\n|---|---|---|")
    for row in rows:
        by = row["by"] if row["state"] == "caught" else f"**{row['state']}** {row['by']}"
        print(f"| {row['fault']} | {by} | {row['message'][:150]} |")
    caught = sum(row["state"] == "caught" for row in rows)
    print(f"\n{caught} of {len(rows)} faults are caught and named, {time.time() - began:.0f} s")
    return caught < len(rows) or bool(known)


if __name__ == "__main__":
    sys.exit(main())
