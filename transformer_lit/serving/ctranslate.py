"""A translator's weights, words and a script, in a folder that CTranslate2 reads: an engine in C++
that needs no torch."""

import importlib
import inspect
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lit.data import tidy
from transformer_lit.decoding import penalty
from transformer_lit.embeddings import Embedding, sinusoids
from transformer_lit.masks import EOS
from transformer_lit.tokens import SPECIAL, WORD, Subwords, Vocabulary, join_words, split_words
from transformer_lit.translation import ENDS, Translator, pieces, readable, save_translator
from transformer_lit.commands import new_folder
from transformer_lit.serving.parts import check_parts

QUANTIZATIONS = ("float32", "bfloat16", "int8")
# positions in the table: there the engine cuts a source, and an answer has at most 256 unless it is
# told otherwise
LONGEST = 1024


def engine_library() -> ModuleType:
    "The module ctranslate2; ModuleNotFoundError says how to get it."
    try:
        return importlib.import_module("ctranslate2")
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "exporting needs the engine's library: pip install ctranslate2", name="ctranslate2"
        ) from None


# The weights --------------------------------------------------------------------------------------
# The engine's model is a tree of nodes that are filled from outside. Its names aren't ours, so
# nodes are of type Any.


def weight_copy(weight: Tensor) -> Tensor:
    """In fp32 on the CPU. A copy, because the engine's writer turns weights into whole numbers in
    place."""
    return weight.detach().float().cpu().clone()


def fill_linear(leaf: Any, *layers: nn.Linear) -> None:
    "One map whose output is the outputs of `layers` side by side."
    leaf.weight = torch.cat([weight_copy(layer.weight) for layer in layers])
    if layers[0].bias is not None:
        leaf.bias = torch.cat([weight_copy(layer.bias) for layer in layers])


def fill_norm(leaf: Any, norm: nn.LayerNorm) -> None:
    "Gain and bias of a norm."
    leaf.gamma, leaf.beta = weight_copy(norm.weight), weight_copy(norm.bias)


def fill_attention(node: Any, part: nn.Module, around: nn.Module) -> None:
    """Self- or cross-attention `part`, and the norm of the sublayer `around` it.

    A node with two maps is self-attention: query, key and value in one, and the output. One with
    three is cross-attention: the queries come from the other side, so only keys and values are in
    one map."""
    fill_norm(node.layer_norm, around.norm)
    if len(node.linear) == 2:
        fill_linear(node.linear[0], part.query, part.key, part.value)
    else:
        fill_linear(node.linear[0], part.query)
        fill_linear(node.linear[1], part.key, part.value)
    fill_linear(node.linear[-1], part.output)


def fill_side(
    side: Any, words: Any, embedding: Embedding, stack: nn.Module, longest: int = LONGEST
) -> None:
    """Encoder or decoder; `words` is the node for the embedding.

    Positions go along as a table: the engine's own sinusoids put all sines before all cosines, and
    ours alternate."""
    words.weight = weight_copy(embedding.tokens.weight)
    side.position_encodings.encodings = sinusoids(longest, words.weight.size(1))  # (longest, D)
    if isinstance(stack.norm, nn.LayerNorm):
        fill_norm(side.layer_norm, stack.norm)
    for node, layer in zip(side.layer, stack.layers):
        fill_attention(node.self_attention, layer.attention, layer.around_attention)
        if hasattr(layer, "cross_attention"):
            fill_attention(node.attention, layer.cross_attention, layer.around_cross_attention)
        fill_norm(node.ffn.layer_norm, layer.around_feed_forward.norm)
        fill_linear(node.ffn.linear_0, layer.feed_forward[0])
        fill_linear(node.ffn.linear_1, layer.feed_forward[2])


def token_names(tokens: Vocabulary | Subwords) -> list[str]:
    "The text of each token, in the order of their ids: the engine takes and gives tokens as text."
    if isinstance(tokens, Vocabulary):
        return list(tokens.words)
    return [tokens.tokenizer.id_to_token(i) for i in range(len(tokens))]


def specification(translator: Translator) -> Any:
    """The model as ctranslate2 wants it: a filled TransformerSpec. The engine is told to add EOS to
    a source, and to begin with BOS."""
    model, c = translator.model, translator.model.config
    check_parts(model)
    spec = engine_library().specs.TransformerSpec.from_config(
        (c.n_encoder_layers, c.n_decoder_layers), c.n_heads, pre_norm=c.norm == "pre"
    )
    fill_side(spec.encoder, spec.encoder.embeddings[0], model.source, model.encoder)
    fill_side(spec.decoder, spec.decoder.embeddings, model.target, model.decoder)
    fill_linear(spec.decoder.projection, model.output)
    spec.register_source_vocabulary(token_names(translator.source))
    spec.register_target_vocabulary(token_names(translator.target))
    _, bos, eos, unk = SPECIAL
    given = spec.config
    given.bos_token, given.eos_token, given.unk_token = bos, eos, unk
    given.decoder_start_token, given.add_source_eos = bos, True
    given.layer_norm_epsilon = model.decoder.layers[0].around_attention.norm.eps
    return spec


# The script that goes along -----------------------------------------------------------------------

BEGIN = """"Translate: python translate.py SENTENCE ..., or < FILE"
import io
import json
import re
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import ctranslate2

here = Path(__file__).resolve().parent
kept = json.loads((here / "translator.json").read_text("utf-8"))
"""
END ="""

def asked():
    if sys.argv[1:] or sys.stdin.isatty():
        return sys.argv[1:] or sys.exit(__doc__)
    try:
        return [*io.TextIOWrapper(sys.stdin.buffer, "utf-8-sig", newline="\\n")]
    except UnicodeDecodeError:
        sys.exit("standard input is not UTF-8 text: convert it first")


engine = ctranslate2.Translator(str(here), intra_threads=1)
parts = [pieces(readable(line), lambda part: len(cut(part)) + 1,  # and EOS
                *kept.get("limits", (100, 20))) for line in asked()]
found = iter(engine.translate_batch(
    [cut(part) for some in parts for part in some], beam_size=4,
    length_penalty=0.6, min_decoding_length=0))
for some in parts:
    print(" ".join(joined(next(found).hypotheses[0]) for _ in some))
"""
SUBWORDS ="""
from tokenizers import Tokenizer

tokens = Tokenizer.from_file(str(here / "tokenizer.json"))
tokens.encode_special_tokens = True
cut = lambda text: tokens.encode(text).tokens
joined = lambda said: tokens.decode([*map(tokens.token_to_id, said)])
"""
WORDS ="""
cut = split_words
joined = lambda said: join_words(said, kept["language"])
"""


def text_rules() -> str:
    """How chapters 17 and 18 tidy a text and cut it into sentences, as it stands there: the script
    asks the engine what the book asks."""
    return f"\nENDS = {ENDS!r}\n\n\n" + "\n\n".join(
        map(inspect.getsource, (tidy, readable, pieces))
    )


def word_rules() -> str:
    "Chapter 15's rules for words as they stand there, so that the script needs no book."
    patterns = "".join(
        f"    {language!r}: re.compile({rule.pattern!r}),\n" for language, rule in WORD.items()
    )
    return (
        f"\nWORD = {{\n{patterns}}}\n\n\n"
        + inspect.getsource(split_words)
        + "\n\n"
        + inspect.getsource(join_words)
        + "\n"
    )


def write_script(folder: Path, words: bool, card: Path | None) -> None:
    "translate.py, for words or for subwords, and the card as README.md."
    middle = text_rules() + (word_rules() + WORDS if words else SUBWORDS)
    (folder / "translate.py").write_text(BEGIN + middle + END, encoding="utf-8")
    if card:
        shutil.copyfile(card, folder / "README.md")


# The folder ---------------------------------------------------------------------------------------


def export(
    translator: Translator,
    folder: str | Path,
    quantization: str = "float32",
    card: Path | None = None,
) -> Path:
    """Write a folder for ctranslate2.Translator, whole or not at all; returns it.

    bfloat16 is for GPUs: a CPU computes with it in float32. `card` goes along as README.md. Raises
    FileExistsError if `folder` holds something, ValueError for another quantization or model."""
    folder = new_folder(Path(folder))
    if quantization not in QUANTIZATIONS:
        raise ValueError(
            f"quantization {quantization!r}: choose one of " + ", ".join(QUANTIZATIONS)
        )
    spec = specification(translator)
    folder.parent.mkdir(parents=True, exist_ok=True)
    around = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    part = around / folder.name
    try:
        save_translator(translator, part)
        spec.validate()
        spec.optimize(quantization)
        spec.save(str(part))
        write_script(part, isinstance(translator.target, Vocabulary), card)
        return part.replace(folder)
    finally:  # a full disk or Ctrl-C leaves nothing
        shutil.rmtree(around, ignore_errors=True)


# Asking the engine --------------------------------------------------------------------------------


def best_by_penalty(
    hypotheses: Sequence[list[int]], scores: Sequence[float], length_penalty: float
) -> list[int]:
    """The first by the book's penalty (chapter 13). The engine's scores are divided by |y|^α, the
    book's by ((5 + |y|)/6)^α.

    When more hypotheses finish than the beam is wide, the engine has already dropped some by its
    own measure."""

    def ours(row: tuple[list[int], float]) -> float:
        ids, score = row
        n = len(ids) + 1  # with EOS
        total = score * n**length_penalty
        return total / penalty(n, length_penalty)

    return max(zip(hypotheses, scores), key=ours)[0]


def engine_answers(
    engine: Any,
    translator: Translator,
    ids: list[list[int]],
    beam_size: int = 4,
    length_penalty: float = 0.6,
    batch_size: int = 64,
    **options: Any,
) -> list[list[int]]:
    """What a ctranslate2.Translator says, as ids like `beam_search`.

    `ids` end in EOS, answers don't; `options` go to translate_batch."""
    source = token_names(translator.source)
    number = {s: i for i, s in enumerate(token_names(translator.target))}
    found = engine.translate_batch(
        [[source[i] for i in row if i != EOS] for row in ids],
        beam_size=beam_size,
        num_hypotheses=beam_size,
        length_penalty=length_penalty,
        max_batch_size=batch_size,
        return_scores=True,
        **{"min_decoding_length": 0} | options,
    )
    return [
        best_by_penalty(
            [[number[word] for word in said] for said in one.hypotheses], one.scores, length_penalty
        )
        for one in found
    ]
