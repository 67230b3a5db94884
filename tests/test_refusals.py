"""What the command line refuses: one sentence that names the file or the option, and nothing on the
disk is changed."""

import gzip
import lzma
import os
import zipfile
from io import BytesIO

import pytest
import torch
from plugins.commands import complaint, refused
from plugins.server import archive
from translators import joint

CAT = "A cat.\tKato.\n"
PAIRS = "".join(f"Sentence {k} of them.\tFrazo {k}.\n" for k in range(60))
LATIN = (PAIRS + "\xe9\tb\n" * 20).encode("latin-1")
FILES = {
    "own.tsv": PAIRS.encode(),
    "one.txt": b"a\nb\n",
    "two.txt": b"a\nb\nc",
    "mac.tsv": CAT.replace("\n", "\r").encode() * 2,
    "table.csv": b'"He said ""no"".",Ne.\n"One\nline,Linio.\n',
    "wide.tsv": "上\ta\n".encode("utf-16"),
    "bomb.tmx": '<!DOCTYPE t [<!ENTITY e "e">]><tmx/>'.encode("utf-16"),
    "list.json": b'[{"en": "a"}]',
    "some.eo": b"a\n",
    "some.en": b"a\n",
    "latin.tsv": LATIN,
    "half.tsv.gz": gzip.compress(b"a\tb\n" * 9999)[:-20],
    "empty.tsv": b"",
    "bad.tsv": b"a\t\n\tb\n",
    "other.tsv": b"-9.00\tNobody said this.\tNeniu.\n",
    "yes.tsv": "".join(f"Sentence {k}.\tJes.\n" for k in range(60)).encode(),
    "few.tsv": "".join(PAIRS.splitlines(True)[:49]).encode(),
    "ids.tsv": "".join(f"Mark 3:{k}\t{CAT}" for k in range(20)).encode(),
    "scores.tsv": "".join(f"-{k},2\t{CAT}" for k in range(20)).encode(),
}
OWN, LARGE = "train --languages en-eo --pairs own.tsv", "train --recipe wmt14-en-de"
MINE = "train --recipe mine-fr --data-dir store --size tiny --output-dir run --with vocab_size=300"


@pytest.mark.parametrize(
    "line, names",
    [
        # a recipe takes only its own options
        ("train --recipe nosuch", "nosuch,tatoeba-fr"),
        ("train --languages en-fr", "--languages,words"),
        ("train --recipe pocket --preset paper", "--preset,pocket"),
        ("train --recipe pocket --max-steps 5", "max_steps,pocket"),
        (f"{LARGE} --epochs 3", "epochs,wmt14-en-de"),
        (f"{LARGE} --with peak_lr=1", "peak_lr"),
        (f"{LARGE} --preset modern --with snapshot_every=1", "snapshot_every"),
        (f"{LARGE} --init-from pocket", "init_from"),
        ("train --recipe mixture-en-fr --init-from nowhere", "nowhere"),
        ("train --with sed=2", "sed,accumulation_steps"),
        ("train --with seed=x", "seed=x"),
        ("train --with model=big", "model,words,d_model"),
        ("train --epochs 0", "epochs=0"),
        ("train --with optimizer=sgd", "optimizer=sgd,muon"),
        ("train --with peak_lr=nan", "peak_lr=nan"),
        ("train --with dropout=30", "dropout=30"),
        ("train --recipe pocket --output-dir own.tsv", "own.tsv"),
        # pairs of one's own
        ("train --pairs own.tsv", "own.tsv,--languages"),
        ("train --languages en-eo --pairs nosuch.tsv", "nosuch.tsv"),
        ("train --languages en-eo --pairs own.tsv own.tsv", "--pairs"),
        (f"{OWN} one.txt two.txt", "--pairs"),
        ("train --pairs own.tsv --recipe pocket", "--recipe,--pairs"),
        (f"{OWN} --with words=9", "words,--pairs,dropout"),
        (f"{OWN} --with text=x", "text,--pairs"),
        ("train --languages en-eo --pairs .", "regular file"),
        ("train --languages en-eo --pairs mac.tsv", "mac.tsv,carriage"),
        ("train --languages en-eo --pairs table.csv", "line 3,table.csv,quote"),
        ("train --languages en-eo --pairs wide.tsv", "wide.tsv,UTF-8"),
        ("train --languages en-eo --pairs bomb.tmx", "bomb.tmx,entities"),
        ("train --languages en-eo --pairs list.json", "list.json,JSON"),
        ("train --languages en-eo --pairs film.srt", "film.srt,.tsv"),
        ("train --languages epo-eng --pairs own.tsv", "own.tsv,column 2"),
        ("train --languages en-eo --pairs some.eo some.en", "some.eo,--languages"),
        ("train --languages en-eo --pairs one.txt", "one.txt,second column"),
        ("train --languages en-eo --pairs one.txt two.txt", "one.txt,2 lines,two.txt,3"),
        (f"{OWN} other.tsv", "own.tsv,60 lines"),
        ("train --languages en-eo --pairs latin.tsv", "latin.tsv,20 of 80,UTF-8"),
        ("train --languages en-eo --pairs half.tsv.gz", "half.tsv.gz"),
        ("train --languages en-eo --pairs empty.tsv", "empty.tsv,no line"),
        ("train --languages en-eo --pairs bad.tsv", "bad.tsv,empty 2"),
        ("train --languages en-eo --pairs few.tsv", "49,50"),
        ("train --languages en-eo --pairs yes.tsv --reverse", "--reverse"),
        ("train --languages en-eo --pairs ids.tsv", "ids.tsv,Mark 3:0"),
        ("train --languages en-eo --pairs scores.tsv", "scores.tsv,numbers"),
        (f"{OWN} --init-from=", "init_from,word"),
        (f"{OWN} --extra-train one.txt", "one.txt,second column"),
        (f"{OWN} --exclude nosuch.tsv", "nosuch.tsv"),
        (f"{OWN} --exclude own.tsv", "own.tsv,none"),
        (f"{OWN} --exclude other.tsv", "1 lines,other.tsv"),
        # models, files, test sets, corpora
        ("translate --model nowhere Hello.", "nowhere,transformer-lit train"),
        ("translate --file nosuch", "nosuch"),
        ("translate --file .", ".: is a directory"),
        ("evaluate --model nowhere", "nowhere"),
        ("evaluate --output no/such.json", "no/such.json"),
        ("evaluate --output letter.txt", "letter.txt,.json"),
        ("evaluate --test-set own", "test set of its own"),
        ("evaluate --test-set nosuch", "nosuch"),
        ("export .", "new folder"),
        ("export out --model nowhere", "nowhere"),
        ("data download", "pocket (fr),tatoeba"),
        ("data list pocket --language de", "pocket (fr)"),
    ],
)
def test_a_mistake_is_one_sentence_and_changes_nothing(line, names, typed, tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    refused(typed(line), *names.split(","))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "train --output-dir=",
        "train --max-minutes nan",
        "train --languages en-en",
        "export out --quantization int4",
        "train --with seed",
        "translate --beam-size 65",
        "translate a --file b",
        "translate --file b --interactive",
        "export",
    ],
)
def test_a_wrong_option_is_status_2_and_shows_the_usage(line, typed):
    outcome = typed(line)
    assert outcome.status == 2 and complaint(outcome) == ""


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("x.tsv", b"", "mine-fr"),
        ("x.tsv", b"\n\n", "x.tsv"),
        ("x.tsv", b"no tab here\n", "x.tsv,second column"),
        ("x.tsv", b"\tB\nA\t\n", "mine-fr"),
        ("x.tsv.gz", FILES["half.tsv.gz"], "x.tsv.gz"),
        ("x.tsv.xz", lzma.compress(b"A\tB\n" * 999)[:-20], "x.tsv.xz"),
        ("x.tsv.xz", b"no archive at all", "x.tsv.xz"),
        ("x.md", b"A\tB\n", ".tsv.gz"),
        ("x.tsv", b"1\tHold fire.\n" * 9, "x.tsv,numbers"),
        ("x.tsv", "Käse.\tfromage.\n".encode("utf-16"), "x.tsv,zero bytes"),
    ],
    ids=range(10),  # gzip's bytes hold the time
)
def test_a_folder_of_texts_is_looked_at_before_hours_of_training(
    name, content, words, typed, tmp_path, own
):
    (tmp_path / "mine-fr").mkdir()
    (tmp_path / "mine-fr" / name).write_bytes(content)
    refused(typed(MINE), *words.split(","))


def zip_of(name, text):
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr(name, text)
    return content.getvalue()


@pytest.mark.parametrize(
    "path, content, line, words",
    [
        ("tatoeba/fra-eng.zip", zip_of("other.txt", CAT), "data download tatoeba", "fra-eng.zip"),
        ("tatoeba/fra-eng.zip", archive()[:40], "data download tatoeba", "fra-eng.zip"),
        (
            "model/model.safetensors",
            b"half a file",
            "translate --model model a",
            "model.safetensors",
        ),
        ("model/translator.json", b"{", "translate --model model a", "translator.json"),
    ],
    ids=["member", "archive", "weights", "words"],
)
def test_a_broken_file_is_named(path, content, line, words, typed, tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", str(tmp_path))
    joint().save(tmp_path / "model")
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_bytes(content)
    refused(typed(line), words)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_is_refused_before_it_is_opened(typed, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    refused(typed("train --pairs pipe --languages en-eo"), "pipe")


@pytest.mark.parametrize("device", ["cuda", "mps"])
@pytest.mark.parametrize(
    "line", ["translate a", "evaluate", "train", "train --recipe mixture-en-fr"]
)
def test_a_device_that_is_not_there_is_refused_before_anything_is_loaded(
    line, device, typed, monkeypatch
):
    for library in torch.cuda, torch.backends.mps:
        monkeypatch.setattr(library, "is_available", lambda: False)
    refused(typed(f"{line} --device {device}"), "--device")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_standard_input_is_utf_8(encoding, typed):
    refused(typed("translate --model pocket", stdin="Été.\n".encode(encoding)), "standard input")


def test_a_data_folder_that_is_not_there_is_named(typed, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", "/no/such/folder")
    refused(typed("data list tatoeba"), "/no/such/folder")
