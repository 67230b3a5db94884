"""Export to CTranslate2, an inference engine in C++: weights, vocabularies, quantization, a
script."""

import inspect
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lit.data import normalize_text
from transformer_lit.decoding import length_penalty
from transformer_lit.embeddings import InputEmbedding, sinusoids
from transformer_lit.masks import EOS
from transformer_lit.serving import served_translate
from transformer_lit.sublayers import SublayerConnection
from transformer_lit.tokenization import SPECIAL_TOKENS, WORD_PATTERNS, join_words, split_words
from transformer_lit.translation import (
    CLAUSE_BOUNDARY,
    SENTENCE_BOUNDARY,
    Translator,
    clean_input,
    require_standard_layers,
    split_long_text,
)

# positions in the table: there the engine cuts a source, and an answer has at most 256 unless it is
# told otherwise
N_POSITIONS = 1024


# The weights --------------------------------------------------------------------------------------
# The engine's model is a tree of nodes that are filled from outside. Its names aren't ours, so
# nodes are of type Any.


def weight_copy(weight: Tensor) -> Tensor:
    "In fp32 on the CPU. A copy, because the engine's writer quantizes weights in place."
    return weight.detach().float().cpu().clone()


def fill_linear(node: Any, *layers: nn.Linear) -> None:
    "One linear layer whose output is the outputs of `layers`, concatenated."
    node.weight = torch.cat([weight_copy(layer.weight) for layer in layers])
    if layers[0].bias is not None:
        node.bias = torch.cat([weight_copy(layer.bias) for layer in layers])


def fill_norm(node: Any, norm: nn.LayerNorm) -> None:
    "Weight (gamma) and bias (beta) of a layer norm."
    node.gamma, node.beta = weight_copy(norm.weight), weight_copy(norm.bias)


def fill_attention(node: Any, attention: nn.Module, residual: SublayerConnection) -> None:
    """Self- or cross-attention, and the norm of its residual connection.

    A node with two linear layers is self-attention: queries, keys and values in one, and the
    output. One with three is cross-attention: the queries come from the decoder, so only keys and
    values share a layer."""
    fill_norm(node.layer_norm, residual.norm)
    projections = [attention.q_proj, attention.k_proj, attention.v_proj]
    if len(node.linear) == 2:
        fill_linear(node.linear[0], *projections)
    else:
        fill_linear(node.linear[0], projections[0])
        fill_linear(node.linear[1], *projections[1:])
    fill_linear(node.linear[-1], attention.out_proj)


def fill_stack(
    stack_node: Any, embedding_node: Any, embedding: InputEmbedding, stack: nn.Module
) -> None:
    """The encoder or the decoder, with its embedding.

    Position encodings are written as a table: the engine's own sinusoids put all sines before all
    cosines, and ours alternate."""
    embedding_node.weight = weight_copy(embedding.token_embedding.weight)
    d_model = embedding_node.weight.size(1)
    stack_node.position_encodings.encodings = sinusoids(N_POSITIONS, d_model)
    if isinstance(stack.norm, nn.LayerNorm):
        fill_norm(stack_node.layer_norm, stack.norm)
    for node, layer in zip(stack_node.layer, stack.layers):
        fill_attention(node.self_attention, layer.self_attention, layer.self_attention_residual)
        if hasattr(layer, "cross_attention"):
            fill_attention(node.attention, layer.cross_attention, layer.cross_attention_residual)
        fill_norm(node.ffn.layer_norm, layer.feed_forward_residual.norm)
        fill_linear(node.ffn.linear_0, layer.feed_forward[0])
        fill_linear(node.ffn.linear_1, layer.feed_forward[2])


def build_spec(translator: Translator) -> Any:
    """The model as a ctranslate2 TransformerSpec, filled with its weights. The engine is told to
    add EOS to a source, and to begin with BOS."""
    import ctranslate2  # on demand: an extra of the package

    model, c = translator.model, translator.model.config
    require_standard_layers(model)
    spec = ctranslate2.specs.TransformerSpec.from_config(
        (c.n_encoder_layers, c.n_decoder_layers), c.n_heads, pre_norm=c.norm == "pre"
    )
    fill_stack(spec.encoder, spec.encoder.embeddings[0], model.source_embedding, model.encoder)
    fill_stack(spec.decoder, spec.decoder.embeddings, model.target_embedding, model.decoder)
    fill_linear(spec.decoder.projection, model.output_projection)
    spec.register_source_vocabulary(translator.source_tokenizer.tokens)
    spec.register_target_vocabulary(translator.target_tokenizer.tokens)
    _, bos, eos, unk = SPECIAL_TOKENS
    config = spec.config
    config.bos_token, config.eos_token, config.unk_token = bos, eos, unk
    config.decoder_start_token, config.add_source_eos = bos, True
    config.layer_norm_epsilon = model.decoder.layers[0].self_attention_residual.norm.eps
    return spec


# The folder ---------------------------------------------------------------------------------------


def standalone_script() -> str:
    "served_translate.py, with the text of the chapters' functions in place of their imports."
    functions = normalize_text, clean_input, split_long_text, split_words, join_words
    header = (
        "import re\nimport unicodedata\nfrom collections.abc import Callable\n\n"
        f"WORD_PATTERNS = {WORD_PATTERNS}\nSENTENCE_BOUNDARY = {SENTENCE_BOUNDARY!r}\n"
        f"CLAUSE_BOUNDARY = {CLAUSE_BOUNDARY!r}\n"
    )
    text = "\n\n".join([header, *map(inspect.getsource, functions)])
    script = Path(served_translate.__file__).read_text("utf-8")
    return re.sub(r"(from transformer_lit.*\n)+", lambda _: text, script)


def export(
    translator: Translator,
    folder: str | Path,
    quantization: str = "float32",
    card: Path | None = None,
) -> Path:
    """Write a folder for ctranslate2.Translator, atomically; returns its path.

    bfloat16 is for GPUs: a CPU computes with it in float32. `card` is copied as README.md, if it is
    there. Raises FileExistsError if `folder` isn't empty, ValueError for a model that the engine
    doesn't have."""
    folder = Path(folder)
    if not folder.name or folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is there already: name a new folder")
    spec = build_spec(translator)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # a full disk or Ctrl-C leaves nothing
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
        part = Path(temporary) / folder.name
        translator.save_config(part)
        spec.validate()
        spec.optimize(quantization)
        spec.save(str(part))
        (part / "translate.py").write_text(standalone_script(), "utf-8")
        if card and card.exists():
            shutil.copyfile(card, part / "README.md")
        return part.replace(folder)


# Asking the engine --------------------------------------------------------------------------------


def rerank(hypotheses: Sequence[list], scores: Sequence[float], alpha: float) -> list:
    """The best hypothesis by the book's length penalty (chapter 13). The engine's scores are
    divided by |y|^α, the book's by ((5 + |y|)/6)^α; |y| counts EOS.

    When more hypotheses finish than the beam is wide, the engine has already dropped some by its
    own measure."""

    def penalized(k: int) -> float:
        length = len(hypotheses[k]) + 1
        return scores[k] * length**alpha / length_penalty(length, alpha)

    return hypotheses[max(range(len(scores)), key=penalized)]


def engine_answers(
    engine: Any,
    translator: Translator,
    sources: list[list[int]],
    beam_size: int = 4,
    **options: Any,
) -> list[list[int]]:
    """The translations of a ctranslate2.Translator, as ids: a list for each source, as from
    `beam_search`.

    `sources` end in EOS, translations don't; `options` are passed to translate_batch."""
    options = dict(length_penalty=0.6, max_batch_size=64, min_decoding_length=0) | options
    tokens = translator.source_tokenizer.tokens
    token_to_id = translator.target_tokenizer.token_to_id
    results = engine.translate_batch(
        [[tokens[i] for i in source if i != EOS] for source in sources],
        beam_size=beam_size,
        num_hypotheses=beam_size,
        return_scores=True,
        **options,
    )
    alpha = options["length_penalty"]
    return [
        [token_to_id[token] for token in rerank(result.hypotheses, result.scores, alpha)]
        for result in results
    ]
