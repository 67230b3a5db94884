"""Serving: with the engine the same probabilities and sentences; the folder and its script."""

import copy
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace as Leaf

import ctranslate2
import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
import export as bench
from helpers import one_sentence
from translators import of_subwords, of_words
from transformer_lit.decoder import DecoderLayer
from transformer_lit.masks import BOS, EOS
from transformer_lit.variants import SwiGLU
from transformer_lit import cli
from transformer_lit.serving import served_translate
from transformer_lit.corpora.files import shipped
from transformer_lit.serving.ctranslate import (
    build_spec,
    engine_answers,
    export,
    fill_linear,
    rerank,
    weight_copy,
)
from transformer_lit.tokenization import SubwordTokenizer, join_words, split_words
from transformer_lit.translation import Translator, clean_input, split_long_text, translate_ids

ctranslate2.set_log_level(40)  # errors only
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
    translator = Translator.load(shipped(f"data/checkpoints/{request.param}"))
    pairs = bench.try_it()
    if request.param == "pocket":
        pairs = bench.load_corpus("pocket")["test"][:200]
    ids = translator.encode_pairs(pairs)
    sources = [source for source, _ in ids]
    answers = {k: translate_ids(translator.model, sources, k, 64, "fp32") for k in (1, 4)}
    home = tmp_path_factory.mktemp(request.param)
    folders = {q: export(translator, home / q, q) for q in bench.QUANTIZATIONS}
    return translator, ids, answers, folders


# What is written ----------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("joint", [True, False], ids=["subwords", "words"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_any_translator_keeps_its_probabilities(norm, joint, tied, tmp_path):
    "Its norms are away from one and zero, so that none can be forgotten."
    translator = made(joint, norm=norm, tied_embeddings=tied)
    before = copy.deepcopy(translator.model.state_dict())
    engine = bench.open_engine(export(translator, tmp_path / "out"))
    gap = gap_to(engine, translator, translator.encode_pairs(PAIRS))
    assert gap < 1e-4, f"a log-probability differs by {gap}"
    export(translator, tmp_path / "int8", "int8")
    for name, weight in translator.model.state_dict().items():
        assert torch.equal(weight, before[name]), f"exporting changes the model itself: {name}"


def test_the_engine_has_a_position_for_each_token_of_its_longest_source():
    spec = build_spec(made(True))
    for side in (spec.encoder, spec.decoder):
        assert (
            len(side.position_encodings.encodings) >= 1024
        ), "the engine's table of positions ends before its sources do"


def test_a_leaf_of_a_bf16_layer_is_a_copy_in_fp32():
    "The engine's writer turns weights into whole numbers in place."
    layer, leaf = nn.Linear(4, 6, bias=False).to(torch.bfloat16), Leaf()
    before = layer.weight.detach().clone()
    fill_linear(leaf, layer)
    assert leaf.weight.dtype == torch.float32 and not hasattr(leaf, "bias")
    leaf.weight.zero_()
    weight_copy(layer.weight).zero_()
    assert torch.equal(layer.weight, before), "exporting changes the model itself"


@pytest.mark.parametrize(
    "where, part",
    [
        (lambda model: (model.decoder.layers, "1"), type("Later", (DecoderLayer,), {})(16, 4, 24)),
        (lambda model: (model.encoder.layers[0].feed_forward, "1"), nn.GELU()),
        (lambda model: (model.decoder.layers[1].feed_forward_residual, "norm"), nn.RMSNorm(16)),
        (lambda model: (model.encoder.layers[0], "feed_forward"), SwiGLU(16, 24)),
    ],
    ids=["layer", "GELU", "RMSNorm", "SwiGLU"],
)
def test_a_part_that_the_engine_lacks_is_refused(where, part):
    odd = made(True)
    setattr(*where(odd.model), part)
    with pytest.raises(ValueError, match=type(part).__name__):
        build_spec(odd)


@pytest.mark.parametrize(
    "text",
    ["", " ", "It’s  here.\u00a0Now!", "l’été (oui) : c'est-à-dire...", "a\ud800b"]
    + ["Mr. A. B? C!", "One. " * 60, "word " * 150, "x" * 250, "“Yes!” he said; 3.5 km."],
)
def test_the_script_treats_text_as_the_book_does(text):
    theirs, clean = served_translate, clean_input(text)
    assert theirs.clean_input(text) == clean
    assert theirs.split_long_text(text, len, 9, 6) == split_long_text(text, len, 9, 6)
    assert theirs.split_long_text(text, len) == split_long_text(text, len)
    for language in "en", "fr", "eo":
        words = split_words(clean, language)
        assert theirs.split_words(clean, language) == words
        assert theirs.join_words(words, language) == join_words(words, language)


def test_an_export_is_whole_and_alone_in_its_place(tmp_path):
    (tmp_path / "card.md").write_text("Whose it is.", encoding="utf-8")
    out = export(made(True), tmp_path / "new" / "out", "int8", tmp_path / "card.md")
    assert [*out.parent.iterdir()] == [tmp_path / "new" / "out"]
    assert {path.name for path in out.iterdir()} == {
        *("README.md", "tokenizer.json", "translate.py", "translator.json"),
        *("config.json", "model.bin", "shared_vocabulary.json"),
    }
    assert (out / "README.md").read_text(encoding="utf-8") == "Whose it is."


@pytest.mark.parametrize(
    "name, options, error, words",
    [
        ("full", (), FileExistsError, "full"),
        ("full/file", (), FileExistsError, "file"),
        ("new", ("int4",), ValueError, "int8"),
    ],
)
def test_an_export_is_refused(name, options, error, words, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    with pytest.raises(error, match=words):
        export(made(True), tmp_path / name, *options)
    assert not (tmp_path / "new").exists() and (tmp_path / "full/file").read_text() == "mine"


# Asking the engine --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lengths, scores, alpha, best",
    [((7, 3), (-6 / 8, -4 / 4), 1.0, 3), ((7, 3), (-0.65, -1.0), 1.0, 7)]
    + [((3, 7), (-4.0, -3.9), 0.0, 7)],
)
def test_the_books_penalty_ranks(lengths, scores, alpha, best):
    """α = 1: sums -4 at three tokens and -6 at seven; the engine divides by 4 and 8, the book by
    9/6 and 13/6 (EOS counts)."""
    answer = rerank([[5] * n for n in lengths], scores, alpha)
    assert len(answer) == best, "the engine's penalty ranks, and not the paper's"


def test_the_recorded_engine_in_float32_is_ours_up_to_rounding():
    rows = json.loads(shipped("results/bench/export.json").read_text("utf-8"))["rows"]
    exact = [row for row in rows if row["quantization"] == "float32"]
    assert {row["translator"] for row in exact} == {"tatoeba-fr", "pocket"}
    for row in exact:
        assert row["largest_gap"] < 1e-4
        assert row["same_beam"] == row["same_greedy"] == row["sentences"]


# The same model, with the engine ------------------------------------------------------------------


def gap_to(engine, translator, ids):
    ours, theirs = (
        bench.our_log_probs(translator, ids),
        bench.engine_log_probs(engine, translator, ids),
    )
    return bench.largest_gap(ours, theirs)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_engine_scores_its_beam_as_the_book_does(norm, tmp_path):
    translator = made(True, norm=norm)
    engine = bench.open_engine(export(translator, tmp_path / "out"))
    ids = [source for source, _ in translator.encode_pairs(PAIRS)]
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
    for row, result in zip(ids, beams):
        for words, score in zip(result.hypotheses, result.scores):
            out = [number[word] for word in words]
            end = [EOS] * (len(out) < 12)  # at the limit the engine counts an open one as finished
            ours = log_probability(translator.model, row, out + end)
            assert abs(ours - score) < 1e-3, "the engine scores its beam otherwise"


def log_probability(model, source, answer):
    "The sum over the tokens of an answer, the first one after BOS."
    with torch.no_grad():
        logits = model(torch.tensor([source]), torch.tensor([[BOS] + answer[:-1]]))[0]
    return logits.log_softmax(-1)[torch.arange(len(answer)), answer].sum().item()


def test_shipped_translators_answer_alike(shipped_one):
    translator, ids, answers, folders = shipped_one
    engine = bench.open_engine(folders["float32"])
    gap = gap_to(engine, translator, ids)
    assert gap < 1e-4, f"a log-probability differs by {gap}"
    for k, expected in answers.items():
        sources = [source for source, _ in ids]
        assert engine_answers(engine, translator, sources, k) == expected, f"beam {k} differs"
    rows = [[EOS], [9] * 1500 + [EOS], [9, EOS]]
    batch = engine_answers(engine, translator, rows, 2, max_decoding_length=20)
    alone = engine_answers(engine, translator, rows[2:], 2, max_decoding_length=20)
    assert len(batch) == 3 and batch[2:] == alone, "empty and long input spoil their batch"


def test_eight_bits_cost_little(shipped_one):
    translator, ids, answers, folders = shipped_one
    sizes = {q: (folder / "model.bin").stat().st_size for q, folder in folders.items()}
    assert sizes["int8"] < 0.36 * sizes["float32"] and sizes["bfloat16"] < 0.6 * sizes["float32"]
    engine = bench.open_engine(folders["int8"])
    ours, theirs = (
        bench.our_log_probs(translator, ids),
        bench.engine_log_probs(engine, translator, ids),
    )
    mean = [sum(map(sum, rows)) / sum(map(len, rows)) for rows in (ours, theirs)]
    assert mean[0] - mean[1] < 0.02, f"int8 loses {mean[0] - mean[1]:.4f} nats a token"


# The folder ---------------------------------------------------------------------------------------

WITHOUT = (
    "import runpy, sys\nsys.modules |= dict.fromkeys(['torch', 'transformer_lit'])\n"
    "runpy.run_path(sys.argv.pop(1), run_name='__main__')"
)


def run_script(folder, *sentences, **how):
    "The folder's script, in a Python that has neither torch nor the book."
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, str(folder / "translate.py"), *sentences],
        capture_output=True,
        cwd=folder,
        env={"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"},
        **how,
    )


def test_the_script_translates_without_the_book(shipped_one):
    translator, ids, _, folders = shipped_one
    sentences = [translator.source_tokenizer.decode(source) for source, _ in ids[:2]]
    done = run_script(folders["float32"], *sentences)
    assert done.stdout.decode().splitlines() == translator.translate(sentences), done.stderr


ECHO = """
from types import SimpleNamespace
class Translator:
    def __init__(self, folder, intra_threads): pass
    def translate_batch(self, rows, **options):
        assert all(rows), "an empty line is no sentence to translate"
        open("rows.txt", "a").write(f"{len(rows)} ")
        return [SimpleNamespace(hypotheses=[row]) for row in rows]
"""


@pytest.fixture(params=[True, False], ids=["words", "subwords"])
def echo(request, tmp_path):
    "An export with a double for the engine, which gives each sentence back."
    made(not request.param).save_config(tmp_path)
    shutil.copyfile(served_translate.__file__, tmp_path / "translate.py")
    (tmp_path / "ctranslate2.py").write_text(ECHO)
    return tmp_path, request.param


def test_the_script_reads_sentences_and_standard_input(echo):
    folder, of_words = echo
    cases = [
        (("I see a cats.", ""), "", ["I see a cats.", ""]),
        ((), "\ufeffI see a cats.\r\n\nI see b dogs.", ["I see a cats.", "", "I see b dogs."]),
    ]
    if not of_words:  # a list of words has none of these
        cases += [((), "I  see\u00a0a cats\u2019 e\u0301.\n", ["I see a cats' \xe9."])]
    for sentences, text, expected in cases:
        done = run_script(folder, *sentences, input=text.encode())
        assert done.stdout.decode().splitlines() == expected, done.stderr.decode()[-300:]
    long = " ".join(f"I see {n} cats." for n in "abcdef" * 3)
    assert run_script(folder, long + "\r").stdout.decode().splitlines() == [long]
    rows = int((folder / "rows.txt").read_text("utf-8").split()[-1])
    assert rows > 1, "many sentences are translated one by one, as in the book"


def test_the_script_refuses_in_one_sentence(echo):
    pty = pytest.importorskip("pty", reason="no terminals of this kind here")
    _, terminal = pty.openpty()
    for words, how in ((b"UTF-8", {"input": b"\xe9\n"}), (b"translate.py", {"stdin": terminal})):
        done = run_script(echo[0], **how)
        assert done.returncode == 1 and words in done.stderr and b"Traceback" not in done.stderr


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
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# The command --------------------------------------------------------------------------------------


def test_the_command_exports_once(tmp_path, capsys):
    checkpoint = shipped("data/checkpoints/pocket")
    line = ["export", str(tmp_path / "out"), "--model", str(checkpoint), "--quantization", "int8"]
    assert cli.main(line) == 0
    assert str(tmp_path / "out") in capsys.readouterr().out
    assert (tmp_path / "out" / "README.md").read_bytes() == (checkpoint / "README.md").read_bytes()
    assert cli.main(line) == 1 and one_sentence(capsys.readouterr().err)


def test_without_the_library_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert cli.main(["export", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert one_sentence(error) and "pip install ctranslate2" in error
    assert not any(tmp_path.iterdir()), "nothing may be written before the library is found"
