"""Chapter 93 with the engine itself: the same probabilities, the same sentences, int8's loss, the folder used without the book.

Everything here but the last part is skipped where ctranslate2 is not installed (`pip install ctranslate2`).
"""
import subprocess
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent / "bench"))
import export as bench
from transformer_lit import cli
from transformer_lit.support.files import shipped
from transformer_lit.decoding import greedy_decode
from transformer_lit.export import QUANTIZATIONS, best_of, engine_answers, export, fill_linear, finish, names_of, own
from transformer_lit.masks import EOS
from transformer_lit.tokens import Subwords
from transformer_lit.training import collate
from transformer_lit.translation import Translator, answers, create_joint, create_translator, save_translator

try:
    import ctranslate2
    ctranslate2.set_log_level(40)  # errors only
except ImportError:
    ctranslate2 = None
ENGINE = pytest.mark.skipif(ctranslate2 is None, reason="ctranslate2 is not installed: pip install ctranslate2")
TINY = dict(d_model=16, n_heads=4, d_ff=24, n_encoder_layers=1, n_decoder_layers=3, dropout=0.1)
PAIRS = [(f"I see {n} {w}.", f"Je vois {n} {m}.") for n in "abcdef" for w, m in (("cats", "chats"), ("dogs", "chiens"))]


def made(joint, **changes):
    "A random translator whose norms and biases are not ones and zeros."
    torch.manual_seed(2)
    sizes = TINY | changes
    translator = (create_joint(Subwords.build((s for p in PAIRS for s in p), 300), **sizes) if joint
                  else create_translator(PAIRS, at_least=1, **sizes))
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
    translator = Translator.from_pretrained(shipped(f"data/checkpoints/{request.param}"))
    pairs = bench.forty() if request.param == "tatoeba-fr" else bench.unseen(200)
    ids = translator.encode_pairs(pairs)
    said = {k: answers(translator.model, [source for source, _ in ids], k, 64) for k in (1, 4)}
    return translator, ids, said, bench.exported(translator, tmp_path_factory.mktemp(request.param))


# The same model ------------------------------------------------------------------------------------------------------

@ENGINE
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("joint", [True, False], ids=["subwords", "words"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_any_translator_keeps_its_probabilities(norm, joint, tied, tmp_path):
    translator = made(joint, norm=norm, tied=tied)
    before = {name: weight.clone() for name, weight in translator.model.state_dict().items()}
    engine = bench.open_engine(export(translator, tmp_path / "out"))
    ids = translator.encode_pairs(PAIRS)
    gap = bench.largest_gap(bench.our_log_probs(translator, ids), bench.engine_log_probs(engine, translator, ids))
    assert gap < 1e-4, f"a log-probability differs by {gap}"
    export(translator, tmp_path / "int8", "int8")
    for name, weight in translator.model.state_dict().items():
        assert torch.equal(weight, before[name]), f"exporting changed {name} of the model itself"


@ENGINE
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_random_models_say_the_same(norm, tmp_path):
    translator = made(True, norm=norm)
    engine = bench.open_engine(export(translator, tmp_path / "out"))
    ids = [source for source, _ in translator.encode_pairs(PAIRS)]
    ours = [greedy_decode(translator.model, collate([(row, [1])])[0], 12)[0] for row in ids]
    theirs = engine_answers(engine, translator, ids, 1, max_decoding_length=12)
    for row, one, other in zip(ids, ours, theirs):
        assert parted(translator.model, row, one, other) < 1e-3, "greedy answers differ where one token is clearly likelier"
    beams = engine.translate_batch([[names_of(translator.source)[i] for i in row[:-1]] for row in ids], beam_size=3, num_hypotheses=3,
                                   length_penalty=0, max_decoding_length=12, min_decoding_length=0, return_scores=True)
    number = {name: i for i, name in enumerate(names_of(translator.target))}
    for row, found in zip(ids, beams):
        for said, score in zip(found.hypotheses, found.scores):
            out = [number[word] for word in said]
            end = [EOS] * (len(out) < 12)  # at the limit the engine counts an open one as finished
            assert abs(log_probability(translator.model, row, out + end) - score) < 1e-3, "the engine scores its beam otherwise"


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
    return abs(log_probability(model, source, one[:at + 1]) - log_probability(model, source, other[:at + 1]))


@ENGINE
def test_shipped_translators_say_the_same(shipped_one):
    translator, ids, said, folders = shipped_one
    engine = bench.open_engine(folders["float32"])
    gap = bench.largest_gap(bench.our_log_probs(translator, ids), bench.engine_log_probs(engine, translator, ids))
    assert gap < 1e-4, f"a log-probability differs by {gap}"
    for k in (1, 4):
        assert engine_answers(engine, translator, [source for source, _ in ids], k) == said[k], f"beam {k}: other sentences"


@ENGINE
def test_eight_bits_cost_little(shipped_one):
    translator, ids, said, folders = shipped_one
    sizes = {q: (folder / "model.bin").stat().st_size for q, folder in folders.items()}
    assert sizes["int8"] < 0.36 * sizes["float32"] and sizes["bfloat16"] < 0.6 * sizes["float32"]
    engine = bench.open_engine(folders["int8"])
    ours, theirs = bench.our_log_probs(translator, ids), bench.engine_log_probs(engine, translator, ids)
    mean = [sum(map(sum, rows)) / sum(map(len, rows)) for rows in (ours, theirs)]
    assert mean[0] - mean[1] < 0.02, f"int8 loses {mean[0] - mean[1]:.4f} nats a token"
    sources = [source for source, _ in ids]
    answers_in_int8 = engine_answers(engine, translator, sources)  # how many are equal depends on the processor's rounding
    rate = [sum(log_probability(translator.model, source, out + [EOS]) for source, out in zip(sources, some))
            / sum(len(out) + 1 for out in some) for some in (said[4], answers_in_int8)]
    assert rate[0] - rate[1] < 0.1, f"what is said in int8 is less likely by {rate[0] - rate[1]:.3f} nats per token"


@ENGINE
def test_long_and_empty_input(shipped_one):
    translator, _, _, folders = shipped_one
    engine = bench.open_engine(folders["float32"])
    rows = [[EOS], [9] * 1500 + [EOS], [9, EOS]]
    said = engine_answers(engine, translator, rows, 2, max_decoding_length=20)
    assert len(said) == 3 and said[2] == engine_answers(engine, translator, rows[2:], 2, max_decoding_length=20)[0]


def test_a_leaf_gets_a_copy():
    "The engine's writer turns weights into whole numbers in place."
    from types import SimpleNamespace

    layer, leaf = torch.nn.Linear(3, 2), SimpleNamespace()
    before = layer.weight.detach().clone()
    fill_linear(leaf, layer)
    with torch.no_grad():
        leaf.weight.zero_(), leaf.bias.zero_()
        own(layer.weight).zero_()
    assert torch.equal(layer.weight, before) and layer.bias.any(), "exporting changes the model itself"


def test_the_books_penalty_ranks_what_the_engine_found():
    "α = 1: sums -4 at three tokens and -6 at seven; the engine divides by 4 and 8, the book by 9/6 and 13/6 (EOS counts)."
    assert best_of([[5] * 7, [5] * 3], [-6 / 8, -4 / 4], 1.0) == [5] * 3, "the engine's penalty ranks, and not the paper's"


# The folder ----------------------------------------------------------------------------------------------------------

WITHOUT = "import runpy, sys\nfor name in {}: sys.modules[name] = None\nrunpy.run_path(sys.argv.pop(1), run_name='__main__')"


@ENGINE
def test_the_script_translates_without_the_book(shipped_one):
    translator, _, _, folders = shipped_one
    joint = isinstance(translator.target, Subwords)
    asked = ["I love you.", "He is very tall."] if joint else [english for english, _ in bench.unseen(2)]
    blocked = ["torch", "transformer_lit"]
    done = subprocess.run([sys.executable, "-c", WITHOUT.format(blocked), str(folders["float32"] / "translate.py"), *asked],
                          capture_output=True, text=True, env={"PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == translator.translate(asked)


ENGINE_OF_CAPITALS = """
from types import SimpleNamespace
class Translator:
    def __init__(self, folder, intra_threads): pass
    def translate_batch(self, rows, **options):
        assert all(rows), "an empty line is no sentence to translate"
        return [SimpleNamespace(hypotheses=[row]) for row in rows]
"""


@pytest.mark.parametrize("words", [True, False], ids=["words", "subwords"])
def test_the_script_needs_neither_torch_nor_the_book_and_reads_standard_input(words, tmp_path):
    "With a double for the engine, which says each sentence again."
    translator = made(not words)
    save_translator(translator, tmp_path)
    finish(tmp_path, words, None)
    (tmp_path / "ctranslate2.py").write_text(ENGINE_OF_CAPITALS)

    def run(*given, **how):
        return subprocess.run([sys.executable, "-c", WITHOUT.format(["torch", "transformer_lit"]), str(tmp_path / "translate.py"), *given],
                              capture_output=True, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, **how)

    done = run("I see a cats.", "")
    assert done.stdout.decode().splitlines() == ["I see a cats.", ""], done.stderr.decode()[-300:]
    piped = run(input="\ufeffI see a cats.\r\n\nI see b dogs.".encode())
    assert piped.stdout.decode().splitlines() == ["I see a cats.", "", "I see b dogs."], piped.stderr.decode()[-300:]
    latin = run(input="\xe9\n".encode("latin-1"))
    assert latin.returncode == 1 and b"not UTF-8" in latin.stderr and b"Traceback" not in latin.stderr
    pty = pytest.importorskip("pty", reason="no terminals of this kind here")
    _, follower = pty.openpty()
    silent = run(stdin=follower)
    assert silent.returncode == 1 and b"python translate.py SENTENCE" in silent.stderr, "without sentences it must say how to use it"


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
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "what was left by the first attempt must go"


# The command ---------------------------------------------------------------------------------------------------------

@ENGINE
def test_the_command_exports_and_says_where(tmp_path, capsys):
    checkpoint = shipped("data/checkpoints/pocket")
    line = ["export", str(tmp_path / "out"), "--folder", str(checkpoint), "--quantization", "int8"]
    assert cli.main(line) == 0
    assert str(tmp_path / "out") in capsys.readouterr().out
    assert (tmp_path / "out" / "README.md").read_bytes() == (checkpoint / "README.md").read_bytes()
    assert cli.main(line) == 1 and "not empty" in capsys.readouterr().err


def test_without_the_library_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert cli.main(["export", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err.strip()
    assert said.endswith("pip install ctranslate2") and "\n" not in said
    assert not any(tmp_path.iterdir()), "nothing may be written before the library is found"


def test_the_command_offers_what_the_package_has():
    made = cli.parser().parse_args(["export", "out"])
    assert (made.out, made.folder, made.quantization) == (Path("out"), None, "float32")
    assert cli.OPTIONS["export"]["--quantization"]["choices"] == QUANTIZATIONS
