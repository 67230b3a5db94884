"""Serving: the tree that the engine is given, the folder, and with the engine itself the same
probabilities and sentences.

What needs the engine is skipped where ctranslate2 is not installed (`pip install ctranslate2`). The
tree is also read back by a few lines that know nothing but the engine's names for its nodes."""

import math
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace as Leaf
from unittest.mock import Mock

import pytest
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
import export as bench
from translators import of_subwords, of_words
from transformer_lit.decoder import DecoderLayer
from transformer_lit.decoding import greedy_decode, length_penalty
from transformer_lit.masks import BOS, EOS, PAD, padding_mask, target_mask
from transformer_lit.variants import SwiGLU
from transformer_lit import cli
from transformer_lit.serving import served_translate
from transformer_lit.corpora.files import shipped
from transformer_lit.serving.ctranslate import (
    build_spec,
    engine_answers,
    engine_library,
    export,
    fill_attention,
    fill_linear,
    fill_stack,
    rerank,
    weight_copy,
)
from transformer_lit.tokenization import SPECIAL_TOKENS, SubwordTokenizer, join_words, split_words
from transformer_lit.batching import collate
from transformer_lit.translation import Translator, clean_input, split_long_text, translate_ids

try:
    import ctranslate2

    ctranslate2.set_log_level(40)  # errors only
except ImportError:
    ctranslate2 = None
ENGINE = pytest.mark.skipif(
    ctranslate2 is None, reason="ctranslate2 is not installed: pip install ctranslate2"
)
TINY = dict(d_model=16, n_heads=4, d_ff=24, n_encoder_layers=1, n_decoder_layers=3, dropout=0.1)
PAIRS = [
    (f"I see {n} {w}.", f"Je vois {n} {m}.")
    for n in "abcdef"
    for w, m in (("cats", "chats"), ("dogs", "chiens"))
]


def made(joint, **changes):
    "A random translator whose norms and biases are not ones and zeros."
    torch.manual_seed(2)
    sizes = TINY | changes
    translator = (
        of_subwords(SubwordTokenizer.train((s for p in PAIRS for s in p), 300), **sizes)
        if joint
        else of_words(PAIRS, min_frequency=1, **sizes)
    )
    for weight in translator.model.parameters():
        if weight.ndim == 1:
            torch.nn.init.normal_(weight, std=0.5)
    translator.model.eval()
    return translator


@pytest.fixture(scope="module", params=["tatoeba-fr", "pocket"])
def shipped_one(request, tmp_path_factory):
    "A translator that comes with the book, its sentences, our answers, and its three exports."
    if ctranslate2 is None:
        pytest.skip("ctranslate2 is not installed: pip install ctranslate2")
    translator = Translator.load(shipped(f"data/checkpoints/{request.param}"))
    pairs = bench.try_it()
    if request.param == "pocket":
        pairs = bench.load_corpus("pocket")["test"][:200]
    ids = translator.encode_pairs(pairs)
    sources = [source for source, _ in ids]
    said = {k: translate_ids(translator.model, sources, k, 64, "fp32") for k in (1, 4)}
    home = tmp_path_factory.mktemp(request.param)
    return translator, ids, said, {q: export(translator, home / q, q) for q in bench.QUANTIZATIONS}


# The tree, without the engine ---------------------------------------------------------------------


def attention_tree(maps):
    return Leaf(layer_norm=Leaf(), linear=[Leaf() for _ in range(maps)])


def side_tree(layers, cross):
    "An empty side: the engine's names, as many layers as asked for."
    side = Leaf(
        layer=[
            Leaf(
                self_attention=attention_tree(2),
                ffn=Leaf(layer_norm=Leaf(), linear_0=Leaf(), linear_1=Leaf()),
                **({"attention": attention_tree(3)} if cross else {}),
            )
            for _ in range(layers)
        ]
    )
    side.position_encodings, side.layer_norm = Leaf(), Leaf()
    side.embeddings = Leaf() if cross else [Leaf()]
    if cross:
        side.projection = Leaf()
    return side


def empty_tree(layers, heads, pre_norm):
    "As the library's `from_config`, with what was asked kept in `asked`."
    return Leaf(
        encoder=side_tree(layers[0], False),
        decoder=side_tree(layers[1], True),
        config=Leaf(),
        asked=(layers, heads, pre_norm),
        register_source_vocabulary=Mock(),
        register_target_vocabulary=Mock(),
        validate=Mock(),
        optimize=Mock(),
        save=Mock(),
    )


@pytest.fixture
def no_engine(monkeypatch):
    "A double for the library, which gives empty trees and keeps them."
    trees = []

    def from_config(*given, **more):
        trees.append(empty_tree(*given, **more))
        return trees[-1]

    monkeypatch.setitem(
        sys.modules, "ctranslate2", Leaf(specs=Leaf(TransformerSpec=Leaf(from_config=from_config)))
    )
    return trees


def linear(leaf, x):
    return F.linear(x, leaf.weight, getattr(leaf, "bias", None))


def norm_of(leaf, x):
    return F.layer_norm(x, x.shape[-1:], leaf.gamma, leaf.beta, 1e-5)


def attend(node, x, memory, heads, mask):
    "Attention from a filled node. (B, T, D) -> (B, T, D)"
    if len(node.linear) == 2:
        query, key, value = linear(node.linear[0], x).chunk(3, -1)
    else:
        query = linear(node.linear[0], x)
        key, value = linear(node.linear[1], memory).chunk(2, -1)
    split = lambda t: t.unflatten(-1, (heads, -1)).transpose(1, 2)
    y = F.scaled_dot_product_attention(split(query), split(key), split(value), mask)  # (B, H, T, K)
    return linear(node.linear[-1], y.transpose(1, 2).flatten(2))


def around(node, x, f, pre):
    return x + f(norm_of(node.layer_norm, x)) if pre else norm_of(node.layer_norm, x + f(x))


def read_side(side, words, ids, heads, mask, memory=None, closed=None):
    "What a filled side makes of ids. (B, T) -> (B, T, D)"
    pre, size = hasattr(side.layer_norm, "gamma"), words.weight.size(1)
    x = (
        F.embedding(ids, words.weight) * math.sqrt(size)
        + side.position_encodings.encodings[: ids.size(1)]
    )
    for layer in side.layer:
        x = around(
            layer.self_attention, x, lambda y: attend(layer.self_attention, y, y, heads, mask), pre
        )
        if memory is not None:
            x = around(
                layer.attention, x, lambda y: attend(layer.attention, y, memory, heads, closed), pre
            )
        x = around(
            layer.ffn,
            x,
            lambda y: linear(layer.ffn.linear_1, linear(layer.ffn.linear_0, y).relu()),
            pre,
        )
    return norm_of(side.layer_norm, x) if pre else x


def read_tree(spec, source, target, heads):
    "Logits from a filled tree and nothing else. (B, T, V)"
    memory = read_side(
        spec.encoder, spec.encoder.embeddings[0], source, heads, padding_mask(source)
    )
    x = read_side(
        spec.decoder,
        spec.decoder.embeddings,
        target,
        heads,
        target_mask(target),
        memory,
        padding_mask(source),
    )
    return linear(spec.decoder.projection, x)


def test_without_the_library_it_says_what_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ModuleNotFoundError, match="pip install ctranslate2") as caught:
        engine_library()
    assert caught.value.name == "ctranslate2"
    monkeypatch.setitem(sys.modules, "ctranslate2", math)
    assert engine_library() is math


def test_three_maps_side_by_side_are_one():
    torch.manual_seed(0)
    three, x, leaf, bare = [nn.Linear(4, 6) for _ in range(3)], torch.randn(2, 5, 4), Leaf(), Leaf()
    fill_linear(leaf, *three)
    torch.testing.assert_close(
        F.linear(x, leaf.weight, leaf.bias), torch.cat([f(x) for f in three], -1)
    )  # (2, 5, 18)
    fill_linear(bare, nn.Linear(4, 6, bias=False))
    assert not hasattr(bare, "bias")


def test_a_leaf_of_a_bf16_layer_is_a_copy_in_fp32():
    half, leaf = nn.Linear(4, 6).to(torch.bfloat16), Leaf()
    before = half.weight.detach().clone()
    fill_linear(leaf, half)
    assert leaf.weight.dtype == torch.float32 and not leaf.weight.requires_grad
    leaf.weight.mul_(0)
    weight_copy(before).mul_(0)
    assert torch.equal(half.weight, before) and before.any()


def test_cross_attention_and_its_norm_are_read_back():
    torch.manual_seed(0)
    block = DecoderLayer(8, 2, 16).eval()
    nn.init.normal_(block.cross_attention_residual.norm.weight)
    x, memory, node = torch.randn(3, 4, 8), torch.randn(3, 5, 8), attention_tree(3)
    fill_attention(node, block.cross_attention, block.cross_attention_residual)
    torch.testing.assert_close(
        attend(node, x, memory, 2, None), block.cross_attention(x, memory, memory)[0]
    )
    torch.testing.assert_close(norm_of(node.layer_norm, x), block.cross_attention_residual.norm(x))


@pytest.mark.parametrize("place", ["pre", "post"])
def test_an_encoder_is_read_back(place):
    "Its norms are away from one and zero, so that none can be forgotten."
    model = made(True, norm=place, n_heads=2, n_encoder_layers=3).model
    side, ids = side_tree(3, False), torch.tensor([[5, 9, 7, EOS, PAD]])
    fill_stack(side, side.embeddings[0], model.source_embedding, model.encoder)
    got = read_side(side, side.embeddings[0], ids, 2, padding_mask(ids))
    assert (got - model.encode(ids)).abs().max() < 1e-5
    assert hasattr(side.layer_norm, "gamma") == (place == "pre")
    assert len(side.position_encodings.encodings) == 1024, "the engine cuts a source at 1,024"
    fill_stack(side, side.embeddings[0], model.source_embedding, model.encoder, 7)
    assert len(side.position_encodings.encodings) == 7


def test_tokens_have_names_in_the_order_of_their_ids():
    joint, apart = made(True), made(False)
    names, words = joint.source_tokenizer.tokens, apart.target_tokenizer.tokens
    assert (
        names[:4] == words[:4] == SPECIAL_TOKENS
        and len(names) == len(joint.source_tokenizer)
        and len(words) == len(apart.target_tokenizer)
    )
    assert [
        names[i] for i in joint.source_tokenizer.encode("I see a")[:-1]
    ] == joint.source_tokenizer.tokenizer.encode("I see a").tokens
    assert [words[i] for i in apart.target_tokenizer.encode("Je vois")[:-1]] == ["Je", "vois"]


class Later(DecoderLayer):
    "A part that the tree has no leaf for."


def test_a_model_with_another_part_is_refused(no_engine):
    odd = made(True)
    odd.model.decoder.layers[1] = Later(16, 4, 24)
    with pytest.raises(ValueError, match="Later: only the Transformer"):
        build_spec(odd)
    assert not no_engine, "a tree was begun for it"


@pytest.mark.parametrize(
    "where, part",
    [
        (lambda model: (model.encoder.layers[0].feed_forward, "1"), nn.GELU()),
        (lambda model: (model.decoder.layers[1].feed_forward_residual, "norm"), nn.RMSNorm(16)),
        (lambda model: (model.encoder.layers[0], "feed_forward"), SwiGLU(16, 24)),
    ],
    ids=["GELU", "RMSNorm", "SwiGLU"],
)
def test_a_part_inside_a_layer_is_refused_too(where, part, no_engine):
    odd = made(True)
    setattr(*where(odd.model), part)
    with pytest.raises(ValueError, match=f"{type(part).__name__}: only the Transformer"):
        build_spec(odd)
    assert not no_engine, "a tree was begun for it"


@pytest.mark.parametrize("place", ["pre", "post"])
@pytest.mark.parametrize("joint", [True, False], ids=["subwords", "words"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_the_trees_logits_are_the_models(place, joint, tied, no_engine):
    translator = made(joint, norm=place, tied_embeddings=tied)
    source, target = torch.tensor([[5, 6, 7, EOS], [5, EOS, PAD, PAD]]), torch.tensor(
        [[BOS, 4, 6], [BOS, 7, PAD]]
    )
    with torch.no_grad():
        gap = read_tree(build_spec(translator), source, target, 4) - translator.model(
            source, target
        )
    assert gap[target != PAD].abs().max() < 1e-5


@pytest.mark.parametrize("place", ["pre", "post"])
def test_what_the_library_is_told(place, no_engine):
    translator = made(False, norm=place)
    spec = build_spec(translator)
    assert spec.asked == ((1, 3), 4, place == "pre")
    assert vars(spec.config) == {
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "unk_token": "<unk>",
        "decoder_start_token": "<bos>",
        "add_source_eos": True,
        "layer_norm_epsilon": 1e-5,
    }
    assert spec.register_source_vocabulary.call_args.args[0] == translator.source_tokenizer.tokens
    assert spec.register_target_vocabulary.call_args.args[0] == translator.target_tokenizer.tokens


# The folder, without the engine -------------------------------------------------------------------


@pytest.fixture
def card(tmp_path):
    path = tmp_path / "card.md"
    path.write_text("Whose it is.", encoding="utf-8")
    return path


def test_the_script_treats_text_as_the_book_does():
    texts = ["", " ", "It’s  here.\u00a0Now!", "l’été (oui) : c'est-à-dire...", "a\ud800b"]
    texts += ["Mr. A. B? C!", "One. " * 60, "word " * 150, "x" * 250, "“Yes!” he said; 3.5 km."]
    for text in texts:
        assert served_translate.clean_input(text) == clean_input(text)
        parts = served_translate.split_long_text(text, len, 9, 6), split_long_text(text, len, 9, 6)
        assert parts[0] == parts[1]
        for language in "en", "fr", "eo":
            words = split_words(clean_input(text), language)
            assert served_translate.split_words(clean_input(text), language) == words
            assert served_translate.join_words(words, language) == join_words(words, language)
    assert served_translate.split_long_text.__defaults__ == split_long_text.__defaults__


def test_an_export_is_whole_and_alone_in_its_place(tmp_path, card, no_engine):
    out = export(made(True), tmp_path / "new" / "out", "int8", card)
    assert out == tmp_path / "new" / "out" and [*out.parent.iterdir()] == [out]
    assert sorted(path.name for path in out.iterdir()) == [
        "README.md",
        "tokenizer.json",
        "translate.py",
        "translator.json",
    ]
    (spec,) = no_engine
    spec.validate.assert_called_once_with()
    spec.optimize.assert_called_once_with("int8")
    (written,), _ = spec.save.call_args
    assert (
        Path(written).name == "out" and Path(written).parent.parent == tmp_path / "new"
    ), "beside its place, under another name"
    assert (out / "README.md").read_text(encoding="utf-8") == "Whose it is."


def test_a_folder_of_a_like_name_stays(tmp_path, no_engine):
    (tmp_path / "half.part" / "old").mkdir(parents=True)
    (tmp_path / "half").mkdir()
    whole, plain = export(made(True), tmp_path / "half"), export(made(False), tmp_path / "words")
    assert (
        whole == tmp_path / "half"
        and not (whole / "old").exists()
        and (tmp_path / "half.part" / "old").exists()
    )
    assert not (plain / "README.md").exists()


def test_an_export_is_refused_with_what_to_do(tmp_path, card, no_engine):
    (tmp_path / "new" / "out").mkdir(parents=True)
    for folder, more, error, words in (
        (tmp_path / "new", (), FileExistsError, "new is there already"),
        (card, (), FileExistsError, "card.md"),
        (tmp_path / "x", ("int4",), ValueError, "float32, bfloat16, int8"),
    ):
        with pytest.raises(error, match=words):
            export(made(True), folder, *more)
    assert not (tmp_path / "x").exists() and card.read_text() == "Whose it is."


# Asking the engine --------------------------------------------------------------------------------


def test_the_books_penalty_ranks():
    """α = 1: sums -4 at three tokens, -6 at seven. The engine's scores are -4/4 and -6/8, the
    book's -4/(9/6) and -6/(13/6)."""
    short, long = [5] * 3, [5] * 7
    assert rerank([long, short], [-0.75, -1.0], 1.0) == short
    assert rerank([long, short], [-0.65, -1.0], 1.0) == long
    assert rerank([short, long], [-4.0, -3.9], 0.0) == long
    assert [round(total / length_penalty(n, 1.0), 2) for total, n in ((-4.0, 4), (-6.0, 8))] == [
        -2.67,
        -2.77,
    ]


def test_the_engine_is_asked_with_tokens_and_answers_in_ids():
    apart, engine = made(False), Mock()
    engine.translate_batch.return_value = [
        Leaf(hypotheses=[["Je", "vois", "."], ["Je"]], scores=[-1.0, -2.0])
    ]
    ids = [apart.source_tokenizer.encode("I see .")]
    assert apart.target_tokenizer.decode(engine_answers(engine, apart, ids, 2)[0]) == "Je vois."
    given = engine.translate_batch.call_args
    assert given.args == ([["I", "see", "."]],)
    assert given.kwargs == {
        "beam_size": 2,
        "num_hypotheses": 2,
        "length_penalty": 0.6,
        "max_batch_size": 64,
        "return_scores": True,
        "min_decoding_length": 0,
    }
    engine_answers(engine, apart, ids, 3, 0.5, 7, min_decoding_length=9)
    assert engine.translate_batch.call_args.kwargs == {
        "beam_size": 3,
        "num_hypotheses": 3,
        "length_penalty": 0.5,
        "max_batch_size": 7,
        "return_scores": True,
        "min_decoding_length": 9,
    }
    assert engine_answers.__defaults__ == (4, 0.6, 64)


def test_the_recorded_comparison_says_what_the_page_says():
    "Page 93: in float32 the engine is ours, up to rounding."
    import json

    record = json.loads(shipped("results/bench/export.json").read_text("utf-8"))
    exact = [row for row in record["rows"] if row["quantization"] == "float32"]
    assert {row["translator"] for row in exact} == {"tatoeba-fr", "pocket"}
    assert max(row["largest_gap"] for row in exact) < 1e-4
    assert all(row["same_beam"] == row["same_greedy"] == row["sentences"] for row in exact)


# The same model, with the engine ------------------------------------------------------------------


@ENGINE
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("joint", [True, False], ids=["subwords", "words"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_any_translator_keeps_its_probabilities(norm, joint, tied, tmp_path):
    translator = made(joint, norm=norm, tied_embeddings=tied)
    before = {name: weight.clone() for name, weight in translator.model.state_dict().items()}
    engine = bench.open_engine(export(translator, tmp_path / "out"))
    ids = translator.encode_pairs(PAIRS)
    gap = bench.largest_gap(
        bench.our_log_probs(translator, ids), bench.engine_log_probs(engine, translator, ids)
    )
    assert gap < 1e-4, f"a log-probability differs by {gap}"
    export(translator, tmp_path / "int8", "int8")
    for name, weight in translator.model.state_dict().items():
        assert torch.equal(weight, before[name]), f"exporting changes the model itself: {name}"


@ENGINE
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_random_models_say_the_same(norm, tmp_path):
    translator = made(True, norm=norm)
    engine = bench.open_engine(export(translator, tmp_path / "out"))
    ids = [source for source, _ in translator.encode_pairs(PAIRS)]
    ours = [greedy_decode(translator.model, collate([(row, [1])])[0], 12)[0] for row in ids]
    theirs = engine_answers(engine, translator, ids, 1, max_decoding_length=12)
    for row, one, other in zip(ids, ours, theirs):
        assert (
            parted(translator.model, row, one, other) < 1e-3
        ), "greedy answers differ where one token is clearly likelier"
    beams = engine.translate_batch(
        [[translator.source_tokenizer.tokens[i] for i in row[:-1]] for row in ids],
        beam_size=3,
        num_hypotheses=3,
        length_penalty=0,
        max_decoding_length=12,
        min_decoding_length=0,
        return_scores=True,
    )
    number = {name: i for i, name in enumerate(translator.target_tokenizer.tokens)}
    for row, found in zip(ids, beams):
        for said, score in zip(found.hypotheses, found.scores):
            out = [number[word] for word in said]
            end = [EOS] * (len(out) < 12)  # at the limit the engine counts an open one as finished
            assert (
                abs(log_probability(translator.model, row, out + end) - score) < 1e-3
            ), "the engine scores its beam otherwise"


def log_probability(model, source, said):
    "The sum over the tokens of `said`, the first one after BOS."
    with torch.no_grad():
        logits = model(torch.tensor([source]), torch.tensor([[1] + said[:-1]]))[0]
    return logits.log_softmax(-1)[torch.arange(len(said)), said].sum().item()


def parted(model, source, one, other):
    "How much likelier is one of the two tokens where two answers part? 0 where they are the same."
    one, other = one + [EOS], other + [EOS]
    at = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), None)
    if at is None:
        return 0.0
    return abs(
        log_probability(model, source, one[: at + 1])
        - log_probability(model, source, other[: at + 1])
    )


@ENGINE
def test_shipped_translators_say_the_same(shipped_one):
    translator, ids, said, folders = shipped_one
    engine = bench.open_engine(folders["float32"])
    gap = bench.largest_gap(
        bench.our_log_probs(translator, ids), bench.engine_log_probs(engine, translator, ids)
    )
    assert gap < 1e-4, f"a log-probability differs by {gap}"
    for k in (1, 4):
        assert (
            engine_answers(engine, translator, [source for source, _ in ids], k) == said[k]
        ), f"beam {k}: other sentences"


@ENGINE
def test_eight_bits_cost_little(shipped_one):
    translator, ids, said, folders = shipped_one
    sizes = {q: (folder / "model.bin").stat().st_size for q, folder in folders.items()}
    assert sizes["int8"] < 0.36 * sizes["float32"] and sizes["bfloat16"] < 0.6 * sizes["float32"]
    engine = bench.open_engine(folders["int8"])
    ours, theirs = bench.our_log_probs(translator, ids), bench.engine_log_probs(
        engine, translator, ids
    )
    mean = [sum(map(sum, rows)) / sum(map(len, rows)) for rows in (ours, theirs)]
    assert mean[0] - mean[1] < 0.02, f"int8 loses {mean[0] - mean[1]:.4f} nats a token"
    sources = [source for source, _ in ids]
    answers_in_int8 = engine_answers(
        engine, translator, sources
    )  # how many are equal depends on the processor's rounding
    rate = [
        sum(
            log_probability(translator.model, source, out + [EOS])
            for source, out in zip(sources, some)
        )
        / sum(len(out) + 1 for out in some)
        for some in (said[4], answers_in_int8)
    ]
    assert (
        rate[0] - rate[1] < 0.1
    ), f"what is said in int8 is less likely by {rate[0] - rate[1]:.3f} nats per token"


@ENGINE
def test_long_and_empty_input(shipped_one):
    translator, _, _, folders = shipped_one
    engine = bench.open_engine(folders["float32"])
    rows = [[EOS], [9] * 1500 + [EOS], [9, EOS]]
    said = engine_answers(engine, translator, rows, 2, max_decoding_length=20)
    assert (
        len(said) == 3
        and said[2] == engine_answers(engine, translator, rows[2:], 2, max_decoding_length=20)[0]
    )


def test_a_leaf_gets_a_copy():
    "The engine's writer turns weights into whole numbers in place."
    from types import SimpleNamespace

    layer, leaf = torch.nn.Linear(3, 2), SimpleNamespace()
    before = layer.weight.detach().clone()
    fill_linear(leaf, layer)
    with torch.no_grad():
        leaf.weight.zero_(), leaf.bias.zero_()
        weight_copy(layer.weight).zero_()
    assert (
        torch.equal(layer.weight, before) and layer.bias.any()
    ), "exporting changes the model itself"


def test_the_books_penalty_ranks_what_the_engine_found():
    """α = 1: sums -4 at three tokens and -6 at seven; the engine divides by 4 and 8, the book by
    9/6 and 13/6 (EOS counts)."""
    assert (
        rerank([[5] * 7, [5] * 3], [-6 / 8, -4 / 4], 1.0) == [5] * 3
    ), "the engine's penalty ranks, and not the paper's"


# The folder ---------------------------------------------------------------------------------------

WITHOUT = (
    "import runpy, sys\nfor name in {}: sys.modules[name] = None\nrunpy.run_path(sys.argv.pop(1),"
    " run_name='__main__')"
)


@ENGINE
def test_the_script_translates_without_the_book(shipped_one):
    translator, _, _, folders = shipped_one
    joint = isinstance(translator.target_tokenizer, SubwordTokenizer)
    asked = (
        ["I love you.", "He is very tall."]
        if joint
        else [english for english, _ in bench.load_corpus("pocket")["test"][:2]]
    )
    blocked = ["torch", "transformer_lit"]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            WITHOUT.format(blocked),
            str(folders["float32"] / "translate.py"),
            *asked,
        ],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == translator.translate(asked)


ENGINE_OF_CAPITALS ="""
from types import SimpleNamespace
class Translator:
    def __init__(self, folder, intra_threads): pass
    def translate_batch(self, rows, **options):
        assert all(rows), "an empty line is no sentence to translate"
        open("asked.txt", "a").write(f"{len(rows)} ")
        return [SimpleNamespace(hypotheses=[row]) for row in rows]
"""


@pytest.mark.parametrize("words", [True, False], ids=["words", "subwords"])
def test_the_script_needs_neither_torch_nor_the_book_and_reads_standard_input(words, tmp_path):
    "With a double for the engine, which says each sentence again."
    translator = made(not words)
    translator.save_config(tmp_path)
    shutil.copyfile(served_translate.__file__, tmp_path / "translate.py")
    (tmp_path / "ctranslate2.py").write_text(ENGINE_OF_CAPITALS)

    def run(*given, **how):
        return subprocess.run(
            [
                sys.executable,
                "-c",
                WITHOUT.format(["torch", "transformer_lit"]),
                str(tmp_path / "translate.py"),
                *given,
            ],
            capture_output=True,
            cwd=tmp_path,
            env={"PYTHONPATH": str(tmp_path)},
            **how,
        )

    done = run("I see a cats.", "")
    assert done.stdout.decode().splitlines() == ["I see a cats.", ""], done.stderr.decode()[-300:]
    piped = run(input="\ufeffI see a cats.\r\n\nI see b dogs.".encode())
    assert piped.stdout.decode().splitlines() == [
        "I see a cats.",
        "",
        "I see b dogs.",
    ], piped.stderr.decode()[-300:]
    if not words:  # a list of words has none of these
        tidied = run(input="I  see\u00a0a cats\u2019 e\u0301.\n".encode())
        assert (
            tidied.stdout.decode() == "I see a cats' \xe9.\n"
        ), "the text must be tidied as it is in the book"
    long = " ".join(f"I see {n} cats." for n in "abcdef" * 3)
    cut = run(long + "\r").stdout.decode().splitlines()
    asked = (tmp_path / "asked.txt").read_text("utf-8").split()
    assert (
        cut == [long] and int(asked[-1]) > 1
    ), "many sentences are translated one by one, as in the book"
    latin = run(input="\xe9\n".encode("latin-1"))
    assert (
        latin.returncode == 1 and b"not UTF-8" in latin.stderr and b"Traceback" not in latin.stderr
    )
    pty = pytest.importorskip("pty", reason="no terminals of this kind here")
    _, follower = pty.openpty()
    silent = run(stdin=follower)
    assert (
        silent.returncode == 1 and b"python translate.py SENTENCE" in silent.stderr
    ), "without sentences it must say how to use it"


@ENGINE
def test_a_full_disk_leaves_no_folder(tmp_path, monkeypatch):
    def full(self, path):
        (Path(path) / "model.bin").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(ctranslate2.specs.TransformerSpec, "save", full)
        with pytest.raises(OSError, match="No space left"):
            export(made(True), tmp_path / "out")
    assert not list(tmp_path.iterdir()), "a full disk leaves half an export, under whichever name"
    bench.open_engine(export(made(True), tmp_path / "out"))
    assert [path.name for path in tmp_path.iterdir()] == [
        "out"
    ], "what was left by the first attempt must go"


# The command --------------------------------------------------------------------------------------


@ENGINE
def test_the_command_exports_and_says_where(tmp_path, capsys):
    checkpoint = shipped("data/checkpoints/pocket")
    line = ["export", str(tmp_path / "out"), "--model", str(checkpoint), "--quantization", "int8"]
    assert cli.main(line) == 0
    assert str(tmp_path / "out") in capsys.readouterr().out
    assert (tmp_path / "out" / "README.md").read_bytes() == (checkpoint / "README.md").read_bytes()
    assert cli.main(line) == 1 and "name a new folder" in capsys.readouterr().err


def test_without_the_library_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert cli.main(["export", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err.strip()
    assert said.endswith("pip install ctranslate2") and "\n" not in said
    assert not any(tmp_path.iterdir()), "nothing may be written before the library is found"
