"""Serving: with the engine the same probabilities and sentences; the folder and its script."""

import copy
import subprocess
import sys
from pathlib import Path

import ctranslate2
import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
import export as bench
from helpers import one_sentence
from translators import PAIRS, joint, words
from transformer_lit.masks import EOS
from transformer_lit.variants import SwiGLU
from transformer_lit import cli
from transformer_lit.corpora.files import shipped
from transformer_lit.serving.ctranslate import (
    build_spec,
    engine_answers,
    export,
    rerank,
    standalone_script,
)
from transformer_lit.translation import Translator, translate_ids

ctranslate2.set_log_level(40)  # errors only


def made(is_joint, **changes):
    "A random translator whose norms and biases are not ones and zeros."
    translator = (joint if is_joint else words)(d_model=16, n_decoder_layers=3, **changes)
    for weight in translator.model.parameters():
        if weight.ndim == 1:
            nn.init.normal_(weight, std=0.5)
    translator.model.eval()
    return translator


@pytest.fixture(scope="module", params=["open-fr", "pocket"])
def shipped_one(request, tmp_path_factory):
    "A translator that comes with the book, its sentences, our answers, and its export."
    translator = Translator.load(shipped(f"data/checkpoints/{request.param}"))
    pairs = bench.try_it()
    if request.param == "pocket":
        pairs = bench.load_corpus("pocket")["test"][:200]
    ids = translator.encode_pairs(pairs)
    sources = [source for source, _ in ids]
    answers = {k: translate_ids(translator.model, sources, k, 64, "fp32") for k in (1, 4)}
    return translator, ids, answers, export(translator, tmp_path_factory.mktemp("out") / "it")


# What is written ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "norm, is_joint, tied", [("pre", True, True), ("post", True, False), ("pre", False, False)]
)
def test_any_translator_keeps_its_probabilities(norm, is_joint, tied, tmp_path):
    "Its norms are away from one and zero, so that none can be forgotten."
    translator = made(is_joint, norm=norm, tied_embeddings=tied)
    before = copy.deepcopy(translator.model.state_dict())
    engine = bench.open_engine(export(translator, tmp_path / "out"))
    gap = gap_to(engine, translator, translator.encode_pairs(PAIRS))
    assert gap < 1e-4, f"a log-probability differs by {gap}"
    export(translator, tmp_path / "int8", "int8")
    for name, weight in translator.model.state_dict().items():
        assert torch.equal(weight, before[name]), f"exporting changes the model itself: {name}"


def test_the_engine_has_a_position_for_each_token_of_its_longest_source():
    spec = build_spec(made(True))
    shortest = min(len(s.position_encodings.encodings) for s in (spec.encoder, spec.decoder))
    assert shortest >= 1024, "the engine's table of positions ends before its sources do"


@pytest.mark.parametrize(
    "where, name, part",
    [
        ("encoder.layers.0.feed_forward", "1", nn.GELU()),
        ("decoder.layers.1.feed_forward_residual", "norm", nn.RMSNorm(16)),
        ("encoder.layers.0", "feed_forward", SwiGLU(16, 24)),
    ],
)
def test_a_part_that_the_engine_lacks_is_refused(where, name, part):
    odd = made(True)
    setattr(odd.model.get_submodule(where), name, part)
    with pytest.raises(ValueError, match=type(part).__name__):
        build_spec(odd)


def test_the_command_exports_once(tmp_path, capsys):
    out, checkpoint = tmp_path / "new" / "out", shipped("data/checkpoints/pocket")
    line = ["export", str(out), "--model", str(checkpoint), "--quantization", "int8"]
    assert cli.main(line) == 0
    card = (out / "README.md").read_bytes()
    assert card == (checkpoint / "README.md").read_bytes() and [*out.parent.iterdir()] == [out]
    capsys.readouterr()
    assert cli.main(line) == 1 and one_sentence(capsys.readouterr().err), "a full folder is kept"


# Asking the engine --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lengths, scores, alpha, best",
    [((7, 3), (-6 / 8, -4 / 4), 1.0, 3), ((7, 3), (-0.65, -1.0), 1.0, 7)],
)
def test_the_books_penalty_ranks(lengths, scores, alpha, best):
    """α = 1: sums -4 at three tokens and -6 at seven; the engine divides by 4 and 8, the book by
    9/6 and 13/6 (EOS counts)."""
    answer = rerank([[5] * n for n in lengths], scores, alpha)
    assert len(answer) == best, "the engine's penalty ranks, and not the paper's"


# The same model, with the engine ------------------------------------------------------------------


def gap_to(engine, translator, ids):
    ours = bench.our_log_probs(translator, ids)
    return bench.largest_gap(ours, bench.engine_log_probs(engine, translator, ids))


def test_shipped_translators_answer_alike(shipped_one):
    translator, ids, answers, folder = shipped_one
    engine = bench.open_engine(folder)
    gap = gap_to(engine, translator, ids)
    assert gap < 1e-4, f"a log-probability differs by {gap}"
    for k, expected in answers.items():
        sources = [source for source, _ in ids]
        assert engine_answers(engine, translator, sources, k) == expected, f"beam {k} differs"
    rows = [[EOS], [9] * 1500 + [EOS], [9, EOS]]
    batch = engine_answers(engine, translator, rows, 2, max_decoding_length=20)
    alone = engine_answers(engine, translator, rows[2:], 2, max_decoding_length=20)
    assert len(batch) == 3 and batch[2:] == alone, "empty and long input spoil their batch"


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
    translator, ids, _, folder = shipped_one
    sentences = [translator.source_tokenizer.decode(source) for source, _ in ids[:2]]
    done = run_script(folder, *sentences)
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


@pytest.fixture(params=[True, False], ids=["subwords", "words"])
def echo(request, tmp_path):
    "An export with a double for the engine, which gives each sentence back."
    made(request.param).save_config(tmp_path)
    (tmp_path / "translate.py").write_text(standalone_script(), "utf-8")
    (tmp_path / "ctranslate2.py").write_text(ECHO)
    return tmp_path


def test_the_script_reads_sentences_and_standard_input(echo):
    long = " ".join(f"I see {n} cats." for n in "abcdef" * 3)
    for sentences, text, expected in (
        (("I see a cats.", ""), "", ["I see a cats.", ""]),
        ((), "\ufeffI see a cats.\r\n\nI see b dogs.", ["I see a cats.", "", "I see b dogs."]),
        ((long + "\r",), "", [long]),
    ):
        done = run_script(echo, *sentences, input=text.encode())
        assert done.stdout.decode().splitlines() == expected, done.stderr.decode()[-300:]
    rows = int((echo / "rows.txt").read_text("utf-8").split()[-1])
    assert rows > 1, "many sentences are translated one by one, as in the book"


def test_the_script_refuses_in_one_sentence(echo):
    done = run_script(echo, input=b"\xe9\n")
    assert done.returncode == 1 and b"UTF-8" in done.stderr and b"Traceback" not in done.stderr


def test_a_full_disk_leaves_no_folder(tmp_path, monkeypatch):
    def full(self, path):
        (Path(path) / "model.bin").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ctranslate2.specs.TransformerSpec, "save", full)
    with pytest.raises(OSError, match="No space left"):
        export(made(True), tmp_path / "out")
    assert not list(tmp_path.iterdir()), "a full disk leaves half an export, under whichever name"
