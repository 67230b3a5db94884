"""What goes wrong around the mathematics: error sentences, a training from the archive to a
sentence, and the commit of a record."""

import json
import subprocess

import pytest
import torch
from helpers import zipped

from transformer_lit import data, schedule
from transformer_lit.attention import scaled_dot_product_attention
from transformer_lit.batching import token_batches
from transformer_lit.embeddings import sinusoids
from transformer_lit.loss import label_smoothed_cross_entropy
from transformer_lit.multi_head_attention import MultiHeadAttention
from transformer_lit.recipes import recipes
from transformer_lit.runs.records import git_commit
from transformer_lit.schedule import noam_lr
from transformer_lit.sublayers import SublayerConnection
from transformer_lit.translation import Translator

x = torch.zeros(1, 2, 4)
LABELS = torch.zeros(1, 2).long()


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: scaled_dot_product_attention(x, x, x, torch.ones(2, 2)), "boolean mask"),
        (lambda: sinusoids(3, 5), "even"),
        (lambda: MultiHeadAttention(10, 3), "heads"),
        (lambda: SublayerConnection(4, norm="both"), '"post" or "pre"'),
        (lambda: label_smoothed_cross_entropy(x, LABELS, reduction="none"), '"mean" or "sum"'),
        (lambda: noam_lr(0), "step=0"),
        (lambda: token_batches([([5] * 9, [6])], 8), "max_tokens"),
    ],
    ids="float-mask odd-width heads norm reduction step long-sentence".split(),
)
def test_a_value_error_says_what_to_do(call, words):
    with pytest.raises(ValueError) as error:
        call()
    assert words in str(error.value), f"the error should speak of {words!r}: {error.value}"


# The translator, from the archive to a sentence ---------------------------------------------------

SUBJECTS = {"I": "je", "you": "tu", "we": "nous", "they": "ils", "he": "il", "she": "elle"}
VERBS = dict(
    zip(
        "eat see know find take give make read".split(),
        "mange vois sais trouve prends donne fais lis".split(),
    )
)
TINY = dict(d_model=8, n_heads=2, d_ff=8, n_encoder_layers=1, n_decoder_layers=1)


def test_train_and_translate_on_the_command_line(typed, tmp_path, monkeypatch):
    pairs = [
        (f"{a} {v} {end}.", f"{b} {w} {end}.")
        for a, b in SUBJECTS.items()
        for v, w in VERBS.items()
        for end in ("x", "y")
    ]
    long = " ".join("abcdefghijklmno")  # 15 words are too many
    text = "".join(f"{en}\t{fr}\n" for en, fr in [*pairs, (long, "long"), ("long", long)])
    archive = tmp_path / "tatoeba" / "fra-eng.zip"
    archive.parent.mkdir()
    archive.write_bytes(zipped({"fra.txt": text}))
    split = data.split_by_source
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", str(tmp_path))
    monkeypatch.setattr(data, "split_by_source", lambda pairs: split(pairs, 3, 3))
    for name, value in TINY.items():
        monkeypatch.setitem(recipes.SMALL, name, value)

    line = "train --output-dir run --epochs 2 --with pairs=40 --threads 1"
    outcome, folder = typed(line), tmp_path / "run"
    assert outcome.status == 0, outcome
    record = json.loads((folder / "run.json").read_text("utf-8"))
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text("utf-8").splitlines()]
    rates = [entry["lr"] for entry in log if entry["kind"] == "step"]
    assert record["command"] == f"transformer-lit {line}" and record["data"]["train"] == 40
    assert record["data"]["leak_by_sentence"] == 0, "the test set leaks into training"
    peak, warmup = recipes.RECIPES["words"].peak_lr, recipes.FIRST.warmup_steps
    last = schedule.linear_lr(len(rates), len(rates), peak, warmup)
    assert rates[-1] == last, "the rate ends at another step than the run"
    translator = Translator.load(folder)
    parts = data.load_corpus("tatoeba", max_words=15, max_pairs=40)
    answers = translator.translate([english for english, _ in parts["test"]], precision="fp32")
    assert (folder / "hypotheses.txt").read_text("utf-8").splitlines() == answers
    texts = ["I eat x.", "you see y."]
    two = typed(["translate", "--model", "run", *texts]).out
    assert two.splitlines() == translator.translate(texts), "one line for each sentence"
    assert typed("translate --model run", stdin="\n".join(texts).encode()).out == two


# Records ------------------------------------------------------------------------------------------


def repository(folder):
    "One commit of a package; returns its name."
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "file").write_text("1")
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    result = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True)
    return result.stdout.strip()


def package(folder):
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    return folder


def test_a_record_names_the_commit_of_its_own_code(monkeypatch, tmp_path):
    own, strange = git_commit(), repository(tmp_path / "strange")
    monkeypatch.chdir(tmp_path / "strange")
    assert git_commit() == own != strange, "the current folder's repository was asked"
    with monkeypatch.context() as patch:
        patch.setenv("GIT_DIR", str(tmp_path / "strange" / ".git"))
        assert git_commit() == own, "a hook's GIT_DIR was asked"
    installed = package(tmp_path / "strange" / ".venv" / "transformer_lit")
    assert git_commit(installed) == "", "a package inside somebody's repository has no commit"
    mine = package(tmp_path / "mine" / "transformer_lit")
    commit = repository(tmp_path / "mine")
    assert git_commit(mine) == commit, "its own checkout has one"
    (tmp_path / "mine" / "file").write_text("2")
    assert git_commit(mine) == commit + "-dirty", "files were changed and the commit doesn't say so"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_commit() == "", "without git there is none"
