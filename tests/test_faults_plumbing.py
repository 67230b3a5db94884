"""What goes wrong around the mathematics: error sentences, downloads, interrupted saves, resuming.
"""

import dataclasses
import io
import json
import os
import math
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import pytest
import torch
from helpers import one_sentence, zipped

from translators import of_words
from transformer_lit import data
from transformer_lit.attention import fused_attention, scaled_dot_product_attention
from transformer_lit.embeddings import sinusoids
from transformer_lit.loss import label_smoothed_cross_entropy
from transformer_lit.multi_head_attention import MultiHeadAttention
from transformer_lit.schedule import noam_lr
from transformer_lit.sublayers import SublayerConnection
from transformer_lit import cli
from transformer_lit import schedule
from transformer_lit.recipes import recipes
from transformer_lit.runs import records
from transformer_lit.corpora.files import sha256_file
from transformer_lit.batching import token_batches
from transformer_lit.runs import checkpoints
from transformer_lit.translation import Translator

# Error sentences ----------------------------------------------------------------------------------

x = torch.zeros(1, 2, 4)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: scaled_dot_product_attention(x, x, x, torch.ones(2, 2)), "boolean mask"),
        (lambda: sinusoids(3, 5), "even"),
        (lambda: MultiHeadAttention(10, 3), "heads"),
        (lambda: SublayerConnection(4, norm="both"), '"post" or "pre"'),
        (
            lambda: label_smoothed_cross_entropy(x, torch.zeros(1, 2).long(), reduction="none"),
            '"mean" or "sum"',
        ),
        (lambda: noam_lr(0), "count from 1"),
        (lambda: noam_lr(1, warmup_steps=0), "count from 1"),
        (lambda: token_batches([([5] * 9, [6])], 8), "raise max_tokens"),
        (lambda: data.split_by_source([("a", "b")] * 5, 1, 1), "distinct English sentences"),
        (
            lambda: data.split_by_source([(c, "b") for c in "abcd"], 2, 2),
            "distinct English sentences",
        ),  # none left to train
    ],
    ids=(
        "float-mask odd-width heads norm reduction step warmup long-sentence few-sentences"
        " none-to-train".split()
    ),
)
def test_a_value_error_says_what_to_do(call, words):
    with pytest.raises(ValueError) as caught:
        call()
    assert words in str(caught.value), f"the error should speak of {words!r}: {caught.value}"


def test_attention_drops_nothing_unless_asked():
    "The default of `fused_attention`."
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 5, 8) for _ in range(3))
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    for closed in None, mask:
        ours = fused_attention(q, k, v, closed)
        expected, _ = scaled_dot_product_attention(q, k, v, closed)
        assert torch.allclose(
            ours, expected, atol=1e-5
        ), "weights are dropped that nobody asked to drop"


def tiny_translator():
    pairs = [("I am .", "je suis ."), ("you are .", "tu es .")] * 2
    return of_words(
        iter(pairs), d_model=8, n_heads=2, d_ff=8, n_encoder_layers=1, n_decoder_layers=1
    )


def test_translate_wants_a_list():
    with pytest.raises(TypeError, match=r"write translate\(\[...\]\)"):
        tiny_translator().translate("I am .")


def test_translations_come_in_the_order_of_the_sentences():
    torch.manual_seed(0)
    translator = tiny_translator()
    texts = ["I am .", "you are I am you .", "you .", "I am I .", ""]
    alone = [translator.translate([text])[0] for text in texts]
    assert (
        translator.translate(texts, batch_size=2) == alone
    ), "translations must come back in the order of the sentences"
    assert translator.translate([]) == []


def test_from_pretrained_says_how_to_train(tmp_path):
    with pytest.raises(FileNotFoundError, match="transformer-lit train --output-dir"):
        Translator.load(tmp_path)


def test_a_kept_translator_says_the_same(tmp_path):
    torch.manual_seed(0)
    translator = tiny_translator()
    optimizer = torch.optim.Adam(translator.model.parameters())
    folder = tmp_path / "new" / "folder"
    for _ in range(2):
        translator.save_config(folder)
    checkpoints.save(folder / "checkpoint.safetensors", translator.model, optimizer, {})
    again = Translator.load(folder)
    texts = ["I am .", "you are ."]
    assert again.translate(texts) == translator.translate(
        texts
    ), "what comes back from a folder must translate alike"
    assert again.target_tokenizer.language == "fr" and not again.model.training
    assert (again.source_tokenizer.tokens, again.target_tokenizer.tokens) == (
        translator.source_tokenizer.tokens,
        translator.target_tokenizer.tokens,
    )


# The command line ---------------------------------------------------------------------------------


def test_a_mistake_on_the_command_line_is_one_sentence(tmp_path, capsys):
    assert cli.main(["translate", "--model", str(tmp_path), "I love you."]) == 1
    said = capsys.readouterr()
    assert (
        one_sentence(said.err) and "train" in said.err and not said.out
    ), f"one sentence was expected: {said.err!r}"


@pytest.mark.parametrize("broken", ["archive", "member", "checkpoint", "words"])
def test_a_broken_file_is_one_sentence(broken, tmp_path, monkeypatch, capsys):
    zip_path = tmp_path / "tatoeba" / "fra-eng.zip"
    zip_path.parent.mkdir()
    with zipfile.ZipFile(zip_path, "w") as file:
        file.writestr("other.txt", "Go.\tVa !\n")
    if broken == "archive":
        zip_path.write_bytes(zip_path.read_bytes()[:40])
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", str(tmp_path))
    tiny_translator().save_config(tmp_path)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"half a file")
    if broken == "words":
        (tmp_path / "translator.json").write_text("{")
    command = (
        ["data", "download", "tatoeba", "--language", "fr"]
        if broken in ("archive", "member")
        else ["translate", "--model", str(tmp_path), "I am ."]
    )
    assert cli.main(command) == 1
    said = capsys.readouterr().err
    assert one_sentence(
        said
    ), f"a broken {broken} must give one sentence that says what to do: {said!r}"


# The translator, from the archive to a sentence ---------------------------------------------------

ENGLISH, FRENCH = "I you we they he she".split(), "je tu nous ils il elle".split()
VERBS = list(
    zip(
        "eat see know find take give make read".split(),
        "mange vois sais trouve prends donne fais lis".split(),
    )
)


@pytest.fixture
def corpus(monkeypatch, tmp_path):
    """A small archive in the reader's folder, a split of three sentences each, and a model that
    trains in a blink."""
    pairs = [
        (f"{a} {v} {end}.", f"{b} {w} {end}.")
        for a, b in zip(ENGLISH, FRENCH)
        for v, w in VERBS
        for end in ("x", "y")
    ]
    pairs += [
        (" ".join("abcdefghijklmno"), "long"),
        ("long", " ".join("abcdefghijklmno")),
    ]  # 15 words are too many
    path = tmp_path / "tatoeba" / "fra-eng.zip"
    path.parent.mkdir()
    path.write_bytes(zipped({"fra.txt": "".join(f"{en}\t{fr}\tCC-BY\n" for en, fr in pairs)}))
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", str(tmp_path))
    split = data.split_by_source
    monkeypatch.setattr(data, "split_by_source", lambda pairs: split(pairs, 3, 3))
    tiny = dict(d_model=8, n_heads=2, d_ff=8, n_encoder_layers=1, n_decoder_layers=1)
    for name, value in tiny.items():
        monkeypatch.setitem(recipes.SMALL, name, value)
    return pairs[:-2]


def test_short_pairs_are_kept_and_drawn_alike(corpus):
    parts = data.load_corpus("tatoeba", max_words=15)
    assert sorted(p for part in parts.values() for p in part) == sorted(
        corpus
    ), "pairs of 15 words or more stay out"
    assert [len(parts[name]) for name in ("train", "valid", "test")] == [90, 3, 3]
    some = data.load_corpus("tatoeba", max_words=15, max_pairs=10)
    assert (
        some["train"] == parts["train"][:10] and some["test"] == parts["test"]
    ), "fewer training pairs, the same test"
    assert parts["train"] != [
        p for p in corpus if p in parts["train"]
    ], "training pairs are drawn, not the archive's first"


def test_train_and_translate_on_the_command_line(corpus, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "kept"
    typed = f"train --output-dir {folder} --epochs 2 --with pairs=40 --threads 1"
    assert cli.main(typed.split()) == 0
    out, record = capsys.readouterr().out, json.loads(
        (folder / "run.json").read_text(encoding="utf-8")
    )
    log = [
        json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    epochs, steps = (
        [entry for entry in log if entry["kind"] == kind] for kind in ("eval", "step")
    )
    translator = Translator.load(folder)
    weights = sum(w.numel() for w in translator.model.parameters())
    assert (
        record["command"].startswith("transformer-lit train ")
        and record["seed"] == recipes.FIRST.seed
    )
    assert record["command"] == "transformer-lit " + typed, "not the command that was run"
    assert (
        len(epochs) == 2 and len(epochs[0]["samples"]) == 12
    ), "each epoch shows how the twelve samples are translated"
    assert record["tokens"] == log[-1]["n_tokens"] > 0 and record["parameters"] == weights
    assert (
        record["flops"] == 6 * record["parameters"] * record["tokens"]
    ), "about 6 operations a weight and token"
    assert record["tokens_per_second"] > 0
    assert (
        record["data"]["sha256"] == sha256_file(data.tatoeba_archive())
        and record["data"]["train"] == 40
    )
    assert record["data"]["leak_by_sentence"] == 0, "the test set leaks into training"
    assert record["scores"][0]["value"] == epochs[-1]["valid_loss"] and "validation" not in record
    assert record["torch"] == torch.__version__.split("+")[0] and "thread" in record["hardware"]
    rate = [
        schedule.linear_lr(
            entry["step"], len(steps), recipes.RECIPES["words"].peak_lr, recipes.FIRST.warmup_steps
        )
        for entry in steps
    ]
    assert [
        entry["lr"] for entry in steps
    ] == rate, "the rate isn't the recipe's, or ends at another step than the run"
    parts = data.load_corpus("tatoeba", max_words=15, max_pairs=40)
    said = (folder / "hypotheses.txt").read_text(encoding="utf-8").splitlines()
    assert said == translator.translate(
        [en for en, _ in parts["test"]], precision="fp32"
    ), "hypotheses.txt holds the test set, translated"
    assert out.count("\n") == len(record["scores"]) and "cross-entropy" in out
    assert (
        out.count("BLEU, first reference only") == out.count("BLEU, all references") == 1
    ), "two figures under one name"

    assert cli.main(["translate", "--model", str(folder), "I eat x.", "you see y."]) == 0
    two = capsys.readouterr().out
    assert two.splitlines() == translator.translate(
        ["I eat x.", "you see y."]
    ), "one line for each sentence"
    lines = io.BytesIO(b"I eat x.\nyou see y.\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(lines))
    assert cli.main(["translate", "--model", str(folder)]) == 0
    assert (
        capsys.readouterr().out == two
    ), "without sentences the lines of standard input are translated"


def test_the_command_line_knows_its_commands(capsys):
    for wrong in [], ["learn"], ["train", "--epochs", "two"], ["train", "--data", "wmt14"]:
        with pytest.raises(SystemExit) as stopped:
            cli.main(wrong)
        assert stopped.value.code == 2, f"{wrong} must be refused with how the command is used"
    assert "usage: transformer-lit" in capsys.readouterr().err


def test_the_record_says_what_was_seen(corpus, tmp_path):
    parts = data.load_corpus("tatoeba", max_words=15)
    samples = [parts["train"][0][0].upper(), parts["test"][0][0]]
    config = dataclasses.replace(
        recipes.RECIPES["words"], training=dataclasses.replace(recipes.FIRST, epochs=1)
    )
    done = recipes.train_translator(tmp_path / "kept", config, parts, samples)
    record = recipes.evaluate_and_record(tmp_path / "kept", "by hand", config, *done, parts)
    assert record == json.loads((tmp_path / "kept" / "run.json").read_text(encoding="utf-8"))
    assert record["seen"] == {
        samples[0]: True,
        samples[1]: False,
    }, "seen: does training hold the sentence, in any case?"
    assert record["data"] == recipes.describe(parts, config), "a description throws no new dice"
    assert record["data"]["pairs"] == 96 and record["data"]["distinct_english"] == 96
    torch.manual_seed(99)
    again = recipes.train_translator(tmp_path / "again", config, iter_parts(parts), samples)[1]
    assert [e.get("loss") for e in again.log] == [
        e.get("loss") for e in done[1].log
    ], "the seed decides about all of it"


def iter_parts(parts):
    return {name: list(part) for name, part in parts.items()}


def test_the_rate_rises_and_falls():
    rate = schedule.linear_lr
    assert math.isclose(rate(400, 2000), 1e-3), "the peak is 1e-3, at step 400"
    assert math.isclose(rate(100, 2000), 0.25e-3) and math.isclose(
        rate(1201, 2001), 1e-3 * 801 / 1602
    )
    assert 0 < rate(2000, 2000) < 1e-6 and rate(2001, 2000) == 0 == rate(
        2500, 2000
    ), "the last step is the last above 0"
    assert rate(3, 3, warmup_steps=6) == 0.5e-3, "a run that is shorter than its warm-up only rises"


def test_scores_come_with_their_signature():
    said = ["le chat est sur la table .", "il est trop fatigué ce soir ."]
    rows = recipes.scored(said, [[said[0]], ["elle est trop fatiguée ce soir .", said[1]]], "toy")
    found = {(row["references"], row["metric"]): row for row in rows}
    assert (
        round(found["all", "BLEU"]["value"], 3) == 100 > found["first", "BLEU"]["value"]
    ), "all references, and the first alone"
    assert "tok:13a" in found["first", "BLEU"]["signature"] and {row["set"] for row in rows} == {
        "toy"
    }


def a_repository(folder):
    "One commit of one file; returns its name."
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "file").write_text("1")
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    return subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_a_record_names_the_commit_of_its_own_code(monkeypatch, tmp_path):
    from transformer_lit.runs.records import PACKAGE, git_commit

    own = git_commit()
    stranger = a_repository(tmp_path / "another")
    monkeypatch.chdir(tmp_path / "another")
    assert (
        git_commit() == own != stranger
    ), "the current folder's repository was asked, which may be a stranger's"
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "another" / ".git"))
    assert git_commit() == own, "a hook's GIT_DIR was asked"
    monkeypatch.delenv("GIT_DIR")
    inside = tmp_path / "another" / ".venv" / "transformer_lit"
    inside.mkdir(parents=True)
    (inside / "__init__.py").touch()
    assert (
        git_commit(inside) == ""
    ), "a package that is installed inside somebody's repository has no commit"
    (tmp_path / "mine" / "transformer_lit").mkdir(parents=True)
    (tmp_path / "mine" / "transformer_lit" / "__init__.py").touch()
    mine = a_repository(tmp_path / "mine")
    assert git_commit(tmp_path / "mine" / "transformer_lit") == mine, "its own checkout has one"
    (tmp_path / "mine" / "file").write_text("2")
    assert (
        git_commit(tmp_path / "mine" / "transformer_lit") == mine + "-dirty"
    ), "files were changed and the commit doesn't say so"
    assert PACKAGE == Path(data.__file__).parent

    def no_git(*_, **__):
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", no_git)
    assert git_commit() == "", "without git there is none"


def test_the_record_names_machine_and_speed():
    model = torch.nn.Linear(3, 2, bias=False)
    found = records.effort(model, types.SimpleNamespace(n_tokens=1000, seconds=4.0))
    assert (found["parameters"], found["flops"], found["seconds"], found["tokens_per_second"]) == (
        6,
        36_000.0,
        4.0,
        250,
    )
    assert f"{torch.get_num_threads()} thread" in records.hardware_name()


def test_threads_on_the_command_line(corpus, tmp_path, monkeypatch):
    threads = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    folder = str(tmp_path / "kept")
    train = ["train", "--output-dir", folder, "--epochs", "1", "--with", "pairs=20"]
    assert cli.main([*train, "--threads", "3"]) == 0
    assert threads == [3], "--threads is not passed on"
    assert cli.main(["translate", "--model", folder, "I eat x."]) == 0
    assert threads[1:] == [1], "one sentence on busy cores is quickest with one thread"


def test_half_of_the_cores_unless_asked(monkeypatch):
    threads = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setattr("transformer_lit.recipes.large.run_experiment", lambda *_: {"scores": []})
    train = ["train", "--recipe", "wmt14-en-de"]
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for cores, expected in (1, 1), (2, 1), (3, 1), (16, 8):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(cores), raising=False)
        assert cli.main(train) == cli.main([*train, "--threads", "5"]) == 0
        assert threads == [expected, 5]
        threads.clear()
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert cli.main(train) == 0 and not threads, "who has set the variable has decided"



