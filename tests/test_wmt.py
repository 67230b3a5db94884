"""The paper's experiment in small: archives in statmt.org's formats from a server here, a token store, a run that is stopped.

All text is made up from the pocket corpus; nothing is fetched from outside.
"""
import dataclasses
import errno
import gzip
import hashlib
import http.server
import io
import json
import lzma
import math
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import serving
from test_data import one_sentence, put

from transformer_lit import cli, data, pocket, training, wmt
from transformer_lit.support import corpora
from transformer_lit.training import collate, token_batches

PAIRS = [(p.english, p.french) for p in pocket.load_pocket()["train"]][:3000]
HELD = {"valid": [(e + " Really?", o) for e, o in PAIRS[:30]], "test": [(e + " Truly?", o) for e, o in PAIRS[30:60]]}
MODEL = dict(d_model=16, n_heads=2, d_ff=32, n_encoder_layers=1, n_decoder_layers=1, dropout=0.0, norm="pre")


# Archives as statmt.org has them ---------------------------------------------------------------------------------

def tar(members, mode="w:gz"):
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode=mode) as file:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            file.addfile(entry, io.BytesIO(content))
    return held.getvalue()


def text(lines):
    return "".join(line + "\n" for line in lines).encode()


def sgm(lines):
    return ('<refset setid="x" srclang="any">\n<doc>\n<p>\n' + "".join(
        f'<seg id="{n}">{line.replace("&", "&amp;")}</seg>\n' for n, line in enumerate(lines, 1)) + "</p></doc></refset>").encode()


def parallel(name, pairs, language):
    return {f"{name}.{language}": text(o for _, o in pairs), f"{name}.en": text(e for e, _ in pairs)}


def statmt(language):
    "Path -> content of the archives of WMT14, small; other languages stand in them too, as in the real ones."
    cut = [PAIRS[:1000], PAIRS[1000:2000], PAIRS[2000:2500], PAIRS[2500:2700], PAIRS[2700:]]
    noisy = cut[1] + [("Only English.", ""), ("one " * 120, "un " * 120), HELD["test"][3], PAIRS[7], ("Bad \x00 byte", "x")]
    other = parallel("training/europarl-v7.cs-en", [("A", "B")], "cs")
    found = {
        "wmt13/training-parallel-europarl-v7.tgz": tar(other | parallel(f"training/europarl-v7.{language}-en", cut[0], language)),
        "wmt13/training-parallel-commoncrawl.tgz": tar(parallel(f"commoncrawl.{language}-en", noisy, language)
                                                       | {"commoncrawl.annotation": b"x\n"}),
        "wmt14/training-parallel-nc-v9.tgz": tar(parallel(f"training/news-commentary-v9.{language}-en", cut[2], language)),
        "wmt13/training-parallel-un.tgz": tar(parallel("un/undoc.2000.fr-en", cut[3], "fr")),
        "wmt10/training-giga-fren.tar": tar({name + ".gz": gzip.compress(content) for name, content in parallel(
            "giga-fren.release2.fixed", cut[4], "fr").items()}, "w")}
    sides = [[e for e, _ in HELD[part]] for part in HELD], [[o for _, o in HELD[part]] for part in HELD]
    found["wmt13/test.tgz"] = tar({"test/newstest2013-src.en.sgm": sgm(sides[0][0]),
                                   f"test/newstest2013-src.{language}.sgm": sgm(sides[1][0])})
    found["wmt14/test-full.tgz"] = tar({f"test-full/newstest2014-{language}en-src.en.sgm": sgm(sides[0][1]),
                                        f"test-full/newstest2014-{language}en-ref.{language}.sgm": sgm(sides[1][1])})
    return found


class Statmt(http.server.BaseHTTPRequestHandler):
    files, asked, cut = {}, [], set()

    def do_GET(self):
        name = self.path.strip("/")
        start = int((self.headers["Range"] or "bytes=0-")[6:-1])
        self.asked.append((name, start))
        if name not in self.files:
            return self.send_error(404)
        body = self.files[name][start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if name in self.cut:
            self.cut.remove(name)
            body = body[:len(body) // 2]
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def served(monkeypatch, tmp_path, request):
    language = getattr(request, "param", "de")
    monkeypatch.setattr(Statmt, "files", statmt(language))
    monkeypatch.setattr(Statmt, "asked", [])
    monkeypatch.setattr(Statmt, "cut", set())
    sums = {local: hashlib.md5(Statmt.files[remote]).hexdigest() for remote, local, *_ in corpora.NEWS.values()}
    monkeypatch.setattr(corpora, "published", lambda name: {"md5": sums[name], "bytes": 0} if name in sums else None)
    with serving(Statmt, monkeypatch, tmp_path / "cache") as address:
        for module in data, corpora:
            monkeypatch.setattr(module, "STATMT", [address + "/"])
        yield language


@pytest.mark.parametrize("served", ["de", "fr"], indirect=True)
def test_from_the_archives_to_a_store(served, tmp_path):
    corpus = f"wmt14-en-{served}"
    Statmt.cut.add("wmt13/training-parallel-commoncrawl.tgz")
    settings = wmt.Preparation(corpus, vocabulary=400, sample=500)
    with pytest.raises(FileNotFoundError) as broken:
        wmt.prepare(settings, tmp_path / "store")
    assert one_sentence(str(broken.value)) and "What came is kept" in str(broken.value)
    store = wmt.prepare(settings, tmp_path / "store")
    asked = [start for name, start in Statmt.asked if name.endswith("commoncrawl.tgz")]
    assert len(asked) == 2 and asked[1] > 0, "the next try must go on where the last one broke off"
    tokens = store.tokens()
    seen = {(tokens.decode(source), tokens.decode(target[1:])) for source, target in store}
    assert seen <= {(data.tidy(e), data.tidy(o)) for e, o in [*PAIRS, *HELD["valid"], *HELD["test"]]} | {("Bad \x00 byte", "x")}, (
        "the two sides don't belong together")
    counts = store.manifest["counts"]
    given = 3005 if served == "fr" else 2505
    assert counts["given"] == given, "a source is missing, or read twice"
    assert counts.get("held out", 0) == 1, "a sentence of the tests stands in training"
    assert [counts.get(why, 0) for why in ("empty", "too long")] == [1, 1]
    assert counts["kept"] == len(store) and counts["repeated"] >= 1
    for source, target in store:
        assert source[-1] == target[-1] == 2 and target[0] == 1
    assert store.held_out() == {part: [tuple(map(data.tidy, p)) for p in HELD[part]] for part in HELD}
    before = len(Statmt.asked)
    wmt.prepare(settings, tmp_path / "store")
    assert len(Statmt.asked) == before, "what is here is not fetched again"


# A folder of one's own -------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def own(tmp_path_factory):
    "A data folder with made-up news tests, and a corpus of one's own in each of the formats."
    folder = tmp_path_factory.mktemp("own")
    for name, part in ("newstest2013", "valid"), ("newstest2014", "test"):
        put(folder, f"newstest/en-fr/{name}.en.gz", [e for e, _ in HELD[part]])
        put(folder, f"newstest/en-fr/{name}.fr.gz", [o for _, o in HELD[part]])
    corpus = folder / "mine-fr"
    corpus.mkdir()
    lines = text(f"{e}\t{o}" for e, o in PAIRS[:1200])
    (corpus / "a.tsv").write_bytes(lines[:20_000].rpartition(b"\n")[0] + b"\n")
    rest = lines[lines[:20_000].rindex(b"\n") + 1:]
    (corpus / "b.tsv.gz").write_bytes(gzip.compress(rest[:20_000].rpartition(b"\n")[0]))
    (corpus / "c.txt.xz").write_bytes(lzma.compress(rest[rest[:20_000].rindex(b"\n") + 1:]))
    (corpus / "README.md").write_text("no corpus")
    return folder


@pytest.fixture(autouse=True)
def here(monkeypatch, own):
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", str(own))


def settings(own, **changes):
    return wmt.Preparation(str(own / "mine-fr"), **{**dict(vocabulary=400, sample=400), **changes})


@pytest.fixture(scope="module")
def store(own):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_LIT_DATA", str(own))
        return wmt.prepare(settings(own), own / "store")


def test_plain_gz_and_xz_make_one_corpus(own):
    assert list(wmt.streamed(wmt.sources_of(str(own / "mine-fr")))) == PAIRS[:1200]


def test_the_store_holds_what_direct_encoding_gives(own, store):
    tokens = store.tokens()
    kept, _ = data.clean(PAIRS[:1200])
    direct = [(tokens.encode(e), [1] + tokens.encode(o)) for e, o in data.without(
        kept, [e for part in HELD.values() for e, _ in part])]
    assert list(store) == direct, "the store holds something else than the translator would encode"
    assert store.lengths.tolist() == [[len(s), len(t)] for s, t in direct]
    assert all(isinstance(ids, np.memmap) and ids.dtype == np.uint16 for ids, _ in store.parts)


def test_words_looked_up_are_words_encoded(store):
    tokens = store.tokens()
    encode = wmt.ByWords(tokens, most=5)
    for line in ["", "a", "l'été, c'est (très) beau !", "<eos> <pad> 12,5 %", "naïve café 東京 🙂 a-b", *[e for e, _ in PAIRS[:50]]]:
        assert encode(data.tidy(line)) == tokens.encode(data.tidy(line)), line


def test_several_processes_and_small_shards_give_the_same(own, store, tmp_path, monkeypatch):
    part = tmp_path / "part"
    part.mkdir()
    monkeypatch.setattr(wmt.chunks, "__defaults__", (100,))
    monkeypatch.setattr(wmt.Shards.__init__, "__defaults__", (3000, 1 << 12))
    sources = wmt.sources_of(str(own / "mine-fr"))
    made = wmt.write_store(part, settings(own), sources, HELD, workers=2)
    wmt.write_json(part / "manifest.json", {"wanted": {}, **made})
    other = wmt.TokenStore(part)
    assert len(other.parts) > 3 and list(other) == list(store), "several processes make another store"
    assert np.array_equal(other.lengths, store.lengths) and made["counts"] == store.manifest["counts"]
    with pytest.raises(IndexError):
        other[len(other)]


def test_a_second_run_reuses_and_a_changed_one_is_refused(own, store, monkeypatch):
    monkeypatch.setattr(wmt, "write_store", None)
    assert list(wmt.prepare(settings(own), own / "store")) == list(store)
    with pytest.raises(ValueError) as caught:
        wmt.prepare(settings(own, vocabulary=500), own / "store")
    assert one_sentence(str(caught.value)) and "vocabulary 400 and not 500" in str(caught.value)


def test_a_changed_input_is_refused(own, store, monkeypatch):
    path = own / "mine-fr" / "a.tsv"
    before = path.read_bytes()
    path.write_bytes(before + b"One more.\tEncore un.\n")
    try:
        with pytest.raises(ValueError, match="prepared with other inputs"):
            wmt.prepare(settings(own), own / "store")
    finally:
        path.write_bytes(before)


def test_a_store_can_be_carried_to_where_its_corpus_is_not(own, tmp_path, monkeypatch):
    "The machine with the GPU may have neither the corpus nor a network."
    import shutil

    corpus = tmp_path / "ours-fr"
    shutil.copytree(own / "mine-fr", corpus)
    wanted = wmt.Preparation(str(corpus), vocabulary=400, sample=400)
    before = list(wmt.prepare(wanted, tmp_path / "store"))
    shutil.rmtree(corpus)
    assert list(wmt.prepare(wanted, tmp_path / "store")) == before
    with pytest.raises(ValueError, match="vocabulary 400 and not 500"):
        wmt.prepare(dataclasses.replace(wanted, vocabulary=500), tmp_path / "store")
    monkeypatch.setattr(data, "find", None)
    assert wmt.inputs_here("wmt14-en-de") is None, "nothing may be fetched only to compare hashes"


@pytest.mark.parametrize("name", ["ids-000.bin", "offsets-000.npy"])
@pytest.mark.parametrize("harm", ["cut", "flipped", "gone"])
def test_a_damaged_shard_is_found(store, tmp_path, name, harm):
    import shutil

    folder = tmp_path / "copy"
    shutil.copytree(store.folder, folder)
    held = bytearray((folder / name).read_bytes())
    held[len(held) // 2] ^= 1
    if harm == "gone":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(held if harm == "flipped" else held[:-100])
    with pytest.raises(ValueError) as caught:
        wmt.TokenStore(folder)
    assert one_sentence(str(caught.value)) and name in str(caught.value) and "prepare it again" in str(caught.value)


# A preparation that is stopped -----------------------------------------------------------------------------------

SIZES = (wmt.chunks, (50,)), (wmt.Shards.__init__, (3000, 1 << 12))


@pytest.fixture(scope="module")
def unbroken(own):
    "Settings, and the store that nothing stopped: many small shards of a corpus in which a third of the pairs come again."
    corpus = own / "again-fr"
    corpus.mkdir()
    (corpus / "a.tsv").write_bytes(text(f"{e}\t{o}" for e, o in PAIRS[:800] + PAIRS[:400] + PAIRS[800:1000]))
    again = wmt.Preparation(str(corpus), vocabulary=400, sample=400)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_LIT_DATA", str(own))
        for function, sizes in SIZES:
            patch.setattr(function, "__defaults__", sizes)
        store = wmt.prepare(again, own / "unbroken")
    assert store.manifest["counts"]["repeated"] > 300 and len(store.parts) > 5
    return again, store


@pytest.fixture
def small(monkeypatch, unbroken):
    for function, sizes in SIZES:
        monkeypatch.setattr(function, "__defaults__", sizes)
    return unbroken[0]


def same_store(store, other, shards=True):
    for name in ("counts", "tokenizer", "wanted", *["shards"] * shards):
        assert store.manifest[name] == other.manifest[name], f"a stop changes the store: {name}"
    assert list(store) == list(other), "a stop changes the store"
    assert not store.folder.with_name(store.folder.name + ".part").exists()
    assert len(list(store.folder.iterdir())) == 3 + 2 * len(store.parts), "what was for going on is left"


@pytest.mark.parametrize("workers, cycle", [(1, 3), (2, 13)])
def test_a_preparation_stops_in_time_and_goes_on(small, unbroken, tmp_path, monkeypatch, workers, cycle):
    calls, asked = 0, []
    clock = types.SimpleNamespace(**{**vars(time), "monotonic": lambda: asked.append(1) or len(asked) % cycle})
    monkeypatch.setattr(wmt, "time", clock)
    while (store := wmt.prepare(small, tmp_path / "store", workers, until=cycle - 2)) is None:
        calls += 1
        assert not (tmp_path / "store").exists()
        assert calls < 50, "a stopped preparation never ends: does it read past what is done?"
    assert calls == 29 // cycle, "each call must do what its time allows, and none of it again"
    same_store(store, unbroken[1], shards=False)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device"), OSError("9 requested and 4 written"),
                                   Exception("No space left on device (os error 28)")], ids=["stopped", "errno", "numpy", "tokenizers"])
@pytest.mark.parametrize("where", ["Subwords.save", "Shard.close", "Shards.close", "Shard.add", "write_json"])
def test_a_full_disk_or_a_stop_anywhere_and_the_same_store(small, unbroken, tmp_path, monkeypatch, error, where):
    calls = []
    owner, _, name = where.rpartition(".")
    owner = getattr(wmt, owner) if owner else wmt
    real = getattr(owner, name)

    def harmed(*given):
        calls.append(1)
        if len(calls) in (1, 3, 4, 9):
            raise error
        return real(*given)

    monkeypatch.setattr(owner, name, harmed)
    for _ in range(9):
        try:
            store = wmt.prepare(small, tmp_path / "store")
            break
        except (OSError, KeyboardInterrupt) as caught:
            assert not (tmp_path / "store").exists(), "half a store has the name of a whole one"
            if isinstance(caught, OSError):
                assert one_sentence(str(caught)) and "the disk is full" in str(caught) and "goes on" in str(caught)
    same_store(store, unbroken[1])


def test_a_shard_that_is_whole_is_not_made_again(small, unbroken, tmp_path, monkeypatch):
    real, made = wmt.Shard.close, []

    def close(shard):
        made.append(shard.files["ids"].name)
        if len(made) == 4:
            raise KeyboardInterrupt
        return real(shard)

    monkeypatch.setattr(wmt.Shard, "close", close)
    monkeypatch.setattr(wmt.Subwords, "build", lambda *a, real=wmt.Subwords.build: made.append("subwords") or real(*a))
    with pytest.raises(KeyboardInterrupt):
        wmt.prepare(small, tmp_path / "store")
    same_store(wmt.prepare(small, tmp_path / "store"), unbroken[1])
    assert made == ["subwords"] + [f"ids-{n:03d}.bin" for n in (0, 1, 2, 2, *range(3, len(unbroken[1].parts)))]


def test_other_settings_begin_anew(small, tmp_path, monkeypatch):
    assert wmt.prepare(small, tmp_path / "store", until=0) is None
    other = dataclasses.replace(small, vocabulary=350)
    assert len(wmt.prepare(other, tmp_path / "store").tokens()) == 350, "what another preparation left was gone on with"


def killed(given):
    os.kill(os.getpid(), 9)


def test_a_killed_worker_is_one_sentence_and_the_shards_are_kept(small, unbroken, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(wmt, "work", killed)
        with pytest.raises(ChildProcessError) as caught:
            wmt.prepare(small, tmp_path / "store", workers=2)
    assert one_sentence(str(caught.value)) and "a worker was killed" in str(caught.value)
    same_store(wmt.prepare(small, tmp_path / "store", workers=2), unbroken[1])


def test_the_command_stops_in_time_while_it_prepares(small, own, tmp_path, capsys):
    given = ["--corpus", small.corpus, "--store", str(tmp_path / "store"), "--folder", str(tmp_path / "run"), "--minutes", "0",
             "--vocabulary", "400", "--sample", "400", "--size", "tiny"]
    assert wmt.run_command(given) == 75 and "goes on with the same command" in capsys.readouterr().out
    assert (tmp_path / "store.part" / "progress.json").exists() and not (tmp_path / "store").exists()


@pytest.mark.parametrize("name, content, words", [
    ("x.tsv.gz", gzip.compress(b"A\tB\n" * 999)[:-20], "x.tsv.gz can't be read"),
    ("x.tsv.xz", lzma.compress(b"A\tB\n" * 999)[:-20], "x.tsv.xz can't be read"),
    ("x.tsv.xz", b"no archive at all", "x.tsv.xz can't be read"),
    ("x.md", b"A\tB\n", "no file that ends in"),
    ("x.tsv", b"\tB\nA\t\n", "holds no pair"),
], ids=["cut gzip", "cut xz", "no archive", "no corpus", "empty halves"])  # gzip's bytes hold the time
def test_a_bad_file_is_one_sentence(tmp_path, name, content, words):
    folder = tmp_path / "mine-fr"
    folder.mkdir()
    (folder / name).write_bytes(content)
    with pytest.raises((ValueError, OSError)) as caught:
        wmt.prepare(wmt.Preparation(str(folder), vocabulary=300), tmp_path / "store")
    assert one_sentence(str(caught.value)) and words in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"no tab here\n", gzip.compress(b"A\tB\n" * 999)[:-20], b"A\tB" * 600_000],
                         ids=["empty", "blank lines", "one column", "cut gzip", "one endless line"])
def test_a_preparation_that_is_refused_leaves_nothing(own, tmp_path, content, capsys):
    folder = tmp_path / "mine-fr"
    folder.mkdir()
    (folder / ("x.tsv.gz" if content[:1] == b"\x1f" else "x.tsv")).write_bytes(content)
    before = sorted(tmp_path.rglob("*"))
    given = ["--corpus", str(folder), "--store", str(tmp_path / "runs" / "store"), "--folder", str(tmp_path / "runs" / "run"),
             "--vocabulary", "300", "--size", "tiny"]
    assert wmt.run_command(given) == 1
    said = capsys.readouterr()
    assert one_sentence(said.err) and not said.out, said
    assert sorted(tmp_path.rglob("*")) == before, "a refused command has changed something"


def test_a_byte_order_mark_is_no_part_of_the_first_pair(tmp_path):
    (tmp_path / "a.tsv").write_bytes("\ufeffGo.\tVa !\n\ufeffHi.\tSalut.\n".encode())
    (tmp_path / "b.tsv.gz").write_bytes(gzip.compress("\ufeffGo.\tVa !\r\n".encode()))
    assert list(wmt.read_columns(tmp_path / "a.tsv")) == [("Go.", "Va !"), ("\ufeffHi.", "Salut.")]
    assert list(wmt.read_columns(tmp_path / "b.tsv.gz")) == [("Go.", "Va !")]


@pytest.mark.parametrize("name, spoil, words", [
    ("manifest.json", lambda b: b[:-30], "is not valid JSON"), ("manifest.json", lambda b: b"[1]", "and not an object"),
    ("manifest.json", lambda b: b'{"shards": [{"ids": 3}]}', "no usable 'ids'"), ("tokenizer.json", lambda b: b.replace(b"a", b"b", 1), "not what was written"),
    ("held_out.json", lambda b: b"{}", "no usable 'valid'"), ("held_out.json", lambda b: b'{"valid": [["a"]], "test": []}', "something else than pairs"),
    ("held_out.json", lambda b: b"\xff\xfe", "is not valid JSON")])
def test_a_damaged_store_is_one_sentence(store, own, tmp_path, name, spoil, words):
    import shutil

    shutil.copytree(store.folder, tmp_path / "copy")
    path = tmp_path / "copy" / name
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(ValueError) as caught:
        wmt.run_experiment(experiment(own), tmp_path / "run", tmp_path / "copy")
    assert one_sentence(str(caught.value)) and words in str(caught.value) and name in str(caught.value)
    assert not (tmp_path / "run" / "plan.json").exists(), "a refused run must not fix a plan"


def test_a_batch_that_is_too_small_does_not_spoil_the_folder(own, store, tmp_path):
    e = experiment(own)
    small = dataclasses.replace(e, training=dataclasses.replace(e.training, max_tokens=9))
    with pytest.raises(ValueError, match="raise max_tokens"):
        wmt.run_experiment(small, tmp_path / "run", own / "store")
    assert not (tmp_path / "run").exists(), "the next try would be refused, because a plan was written"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_stop_saves_where_it_is(own, store, tmp_path, monkeypatch, every_step, capsys, name):
    short_answers(monkeypatch)
    e = dataclasses.replace(experiment(own), look_every=100)
    e = dataclasses.replace(e, training=dataclasses.replace(e.training, checkpoint_every=0))
    wmt.run_experiment(e, tmp_path / "whole", own / "store")
    with monkeypatch.context() as patch:
        before_step(patch, 7, lambda run: os.kill(os.getpid(), getattr(signal, name)))
        with pytest.raises((KeyboardInterrupt, SystemExit)) as caught:
            wmt.run_experiment(e, tmp_path / "cut", own / "store")
    said = str(caught.value) if name == "SIGINT" else capsys.readouterr().err
    assert "stopped at step 8, saved in" in said and (tmp_path / "cut" / "checkpoint.safetensors").exists()
    steps, take = [], wmt.StoreTraining.take
    monkeypatch.setattr(wmt.StoreTraining, "take", lambda run, batch: (steps.append(run.step), take(run, batch)))
    wmt.run_experiment(e, tmp_path / "cut", own / "store")
    assert steps[0] == 8 and losses(tmp_path / "cut") == losses(tmp_path / "whole"), "steps are lost, or taken twice"


def test_one_folder_has_one_training(own, store, tmp_path, monkeypatch):
    import threading

    short_answers(monkeypatch)
    e, errors = experiment(own), []

    def other(run):
        def go():
            try:
                wmt.run_experiment(e, tmp_path / "run", own / "store")
            except OSError as error:
                errors.append(str(error))
        thread = threading.Thread(target=go)
        thread.start()
        thread.join()

    with monkeypatch.context() as patch:
        before_step(patch, 3, other)
        wmt.run_experiment(e, tmp_path / "run", own / "store")
    assert len(errors) == 1 and one_sentence(errors[0]) and "another training is at work" in errors[0]


def test_the_help_says_what_every_option_is_and_what_stands_otherwise(capsys):
    for action in wmt.arguments()._actions:
        assert action.help and (action.dest in ("help", "minutes", "size", "way", "corpus") or "default" in action.help), action.dest
    with pytest.raises(SystemExit):
        wmt.arguments().parse_args(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    for words in "default: 100,000", "default: 25,000", "default: 1,000,000", "exit status 75", "half of the cores":
        assert words in said, words


@pytest.mark.parametrize("option, values", [
    ("vocabulary", "0 -1 259 65537 1e4 x"), ("steps", "0 -5 99999999999999999999 1.5"), ("max-tokens", "0 7 -1"), ("workers", "0 -1 100000"),
    ("minutes", "-1 nan x"), ("peak", "0 -1 nan inf"), ("dropout", "-0.1 1 nan"), ("seed", "-1 99999999999"), ("threads", "0 -2 100000"),
    ("folder", "")])
def test_a_bad_value_is_refused_before_anything_is_done(option, values, capsys, monkeypatch):
    monkeypatch.setattr(wmt, "run_experiment", None)
    for value in values.split(" "):
        with pytest.raises(SystemExit) as stop:
            wmt.run_command([f"--{option}={value}"])
        assert stop.value.code == 2 and f"argument --{option}: " in capsys.readouterr().err


def test_a_member_that_is_missing_or_short(tmp_path):
    path = tmp_path / "a.tgz"
    path.write_bytes(tar({"training/x.de-en.en": b"A\nB\n", "training/x.de-en.de": b"A\n"}))
    with pytest.raises(ValueError, match="ends before the other"):
        list(wmt.two_members(path, "training/x.de-en", "de"))
    with pytest.raises(ValueError, match="holds no x.de-en.fr"):
        list(wmt.two_members(path, "training/x.de-en", "fr"))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(OSError, match="no whole archive"):
        wmt.whole_archive(path)


def test_bytes_that_are_no_text_are_counted(own, tmp_path):
    folder = tmp_path / "mine-fr"
    folder.mkdir()
    (folder / "x.tsv").write_bytes(b"Good.\tBon.\nB\xe9d.\tMal.\n")
    store = wmt.prepare(wmt.Preparation(str(folder), vocabulary=300), tmp_path / "store")
    assert len(store) == 1 and store.manifest["counts"]["garbled"] == 1


def test_memory_stays_flat(own, tmp_path):
    "Ten times the corpus, the same memory: what Python holds at its most while chunks are encoded and written."
    import tracemalloc

    from itertools import islice

    tokenizer = own / "store" / "tokenizer.json"
    if not tokenizer.exists():
        wmt.prepare(settings(own), own / "store")

    def endless():
        for n in range(10**9):
            english, other = PAIRS[n % 1000]
            yield f"{english} {n}", f"{other} {n}"

    most = []
    for n in 1_500, 15_000:
        folder = tmp_path / str(n)
        folder.mkdir()
        tracemalloc.start()
        shards = wmt.Shards(folder, 20_000, 1 << 12)
        how = (tokenizer, settings(own), [])
        wmt.fill_shards(shards, wmt.encoded(wmt.chunks(islice(endless(), n), 500), how))
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert most[1] < 1.5 * most[0] + 8e6, f"memory grows with the corpus: {most}"


def test_repeats_are_found_and_nothing_new_is_lost():
    before = wmt.Before(1 << 10)
    keys = np.arange(1, 500, dtype=np.uint64)
    assert before.new(keys).all()
    assert not before.new(keys).any(), "a repeat is taken for new"
    many = np.random.default_rng(1).integers(1, 2**63, 5000).astype(np.uint64)
    assert before.new(many).all(), "a key that never came was called a repeat"


# Batches ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("limit", [60, 300, 5000])
def test_batches_follow_chapter_12s_rule(store, limit):
    pairs = list(store)
    ours, theirs = wmt.length_batches(store.lengths, limit, 3), token_batches(pairs, limit, 3)
    assert sorted(np.concatenate(ours).tolist()) == list(range(len(pairs))), "each pair must come exactly once"
    shape = lambda batches: sorted((len(b), max(max(map(len, pairs[i])) for i in b)) for b in batches)
    assert shape(ours) == shape(theirs), "batches are cut elsewhere than in chapter 12"
    again, other = (wmt.length_batches(store.lengths, limit, seed) for seed in (3, 4))
    assert all(map(np.array_equal, ours, again)) and not all(map(np.array_equal, ours, other))
    for batch in ours[:5]:
        for mine, chapter_12s in zip(wmt.gather(store, batch), collate([pairs[i] for i in batch])):
            assert torch.equal(mine, chapter_12s)


def test_each_epoch_has_batches_of_its_own(store):
    from helpers import small_model

    run = wmt.StoreTraining(small_model(vocab=len(store.tokens())), store, training.TrainingConfig(max_tokens=400))
    first, run.epoch = run.batches(), 1
    assert not all(map(np.array_equal, first, run.batches())), "every epoch deals the same batches"


@pytest.mark.parametrize("make", [wmt.length_batches, wmt.static_batches])
def test_a_pair_that_is_too_wide_is_one_sentence(store, make):
    with pytest.raises(ValueError, match="raise max_tokens"):
        make(store.lengths, 10)


@pytest.mark.parametrize("parts", [1, 3, 8])
def test_few_shapes_and_the_same_loss(store, parts):
    "What a compiler sees: a few shapes, for the whole batch and for each part of it. What is learned: the same."
    from helpers import small_model

    shapes, bites = set(), set()
    for batch in wmt.static_batches(store.lengths, 400, 1):
        shape = wmt.static_shape(store.lengths, batch, 400, parts)
        source, target = wmt.gather(store, batch, shape)
        assert source.shape == shape and target.shape == (shape[0], shape[1] + 1)
        assert (source != 0).any(1).all() and (target[:, :-1] != 0).any(1).all(), "a row without a sign has nothing to attend to"
        assert (target[len(batch):, 1:] == 0).all(), "rows that are filling must hold no label"
        shapes.add(shape)
        bites |= {len(rows) for rank in range(parts) for rows in [range(shape[0])[rank::parts]]}
    assert len(shapes) <= 16 and len(bites) <= len(shapes), "each part of a batch must have one shape, too"
    found = {}
    for padded in False, True:
        model = small_model(vocab=len(store.tokens())).float()
        config = training.TrainingConfig(accumulate=parts)
        loss = training.backward(model, *wmt.gather(store, batch, shape if padded else None), config)
        found[padded] = loss, [w.grad for w in model.parameters()]
    assert math.isclose(found[True][0], found[False][0], rel_tol=1e-6), "filling changes the loss"
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found[True][1], found[False][1])), "filling changes the gradient"


def test_shapes_stay_few_for_a_large_corpus():
    lengths = np.random.default_rng(0).geometric(1 / 28, (200_000, 2)).clip(2, 256).astype(np.uint16)
    batches = wmt.static_batches(lengths, 25_000)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths))), "each pair must come exactly once"
    assert len({wmt.static_shape(lengths, b, 25_000, 4) for b in batches}) <= 16
    assert all(len(b) * lengths[b].max() <= 25_000 for b in batches)


def test_a_run_that_compiles_trains_on_static_shapes(own, store, tmp_path, monkeypatch):
    short_answers(monkeypatch)
    seen = set()
    monkeypatch.setattr(training, "compiled", lambda f: f)  # the compiler itself would take minutes
    e = experiment(own, steps=30)
    e = dataclasses.replace(e, training=dataclasses.replace(e.training, compile=True))
    step = wmt.StoreTraining.train_step
    monkeypatch.setattr(wmt.StoreTraining, "train_step", lambda run, s, t: seen.add(tuple(s.shape)) or step(run, s, t))
    record = wmt.run_experiment(e, tmp_path / "run", own / "store")
    assert len(seen) <= 16 and record["tokens"] > 0 and all(rows == max(1, 400 // width) for rows, width in seen)


# Training --------------------------------------------------------------------------------------------------------

def experiment(own, **changes):
    e = wmt.experiment_for(str(own / "mine-fr"), "ours", "tiny", 400, dict(max_tokens=400, warmup=5, precision="fp32", checkpoint_every=3))
    return dataclasses.replace(e, **{**dict(model=MODEL, sample=400, optimizer="adam", steps=12, look_every=5, lines=5, average=2,
                                            keep_every=2, peak=5e-3), **changes})


def losses(folder):
    found = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [(e["step"], e["kind"], e.get("loss", e.get("valid_loss"))) for e in found]


@pytest.fixture
def every_step(monkeypatch):
    monkeypatch.setattr(wmt.StoreTraining, "log_every", 1)


def short_answers(monkeypatch):
    "An untrained model says nothing sensible: a few tokens will do."
    monkeypatch.setattr(wmt, "answers", lambda model, ids, beam_size, batch_size, precision: [i[:4] for i in ids])


def test_one_command_from_folder_to_scores(own, store, tmp_path, monkeypatch, capsys, every_step):
    short_answers(monkeypatch)
    folder = tmp_path / "run"
    monkeypatch.setattr(wmt, "planned", lambda options: experiment(own))
    given = ["--corpus", str(own / "mine-fr"), "--store", str(own / "store"), "--folder", str(folder), "--threads", "1"]
    assert wmt.run_command(given) == 0
    record = json.loads((folder / "run.json").read_text())
    assert {s["set"] for s in record["scores"]} == {"newstest2013", "newstest2014"}
    assert [s["metric"] for s in record["scores"]][:2] == ["BLEU", "chrF"]
    assert "BLEU, tokenised, compound-split" in {s["metric"] for s in record["scores"]}
    assert record["scores"][0]["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")
    assert record["steps"] == 12 and record["tokens"] > 0 and record["data"]["train"] == len(store)
    assert len((folder / "hypotheses-newstest2014.txt").read_text().splitlines()) == 30
    log = losses(folder)
    assert [step for step, kind, _ in log if kind == "look"] == [5, 10, 12]
    assert sorted(p.name for p in folder.glob("step-*")) == ["step-10.safetensors", "step-12.safetensors"], (
        "other weights than the last ones are averaged")
    held = [training.read_checkpoint(folder / f"step-{n}.safetensors", False)[0] for n in (10, 12)]
    mean = training.read_checkpoint(folder / "model.safetensors", False)[0]
    for name, weight in mean.items():
        assert torch.allclose(weight, (held[0][name] + held[1][name]) / 2, atol=1e-6), "the model is not the mean of the last ones"
    said = capsys.readouterr().out
    assert "newstest2014: BLEU" in said
    assert wmt.run_command(given) == 0 and losses(folder) == log, "a finished run must stay as it is"


@pytest.mark.parametrize("served", ["de", "fr"], indirect=True)
def test_one_command_from_archives_to_bleu(served, tmp_path, monkeypatch, capsys):
    "tar.gz, a tar with gz inside, sgm: fetched from a server, prepared, trained, averaged, translated, scored."
    short_answers(monkeypatch)
    words = ("--size tiny --vocabulary 400 --sample 500 --max-tokens 400 --steps 4 --keep-every 2 --look-every 3 --lines 3 "
             "--precision fp32 --threads 1")
    given = ["--corpus", f"wmt14-en-{served}", "--store", str(tmp_path / "store"), "--folder", str(tmp_path / "run"), *words.split()]
    assert wmt.run_command(given) == 0, capsys.readouterr().err
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    metrics = {s["metric"]: s for s in record["scores"] if s["set"] == "newstest2014"}
    assert metrics["BLEU"]["signature"].startswith("nrefs:1|case:mixed") and "BLEU, tokenised, compound-split" in metrics
    assert {i["file"] for i in record["data"]["inputs"]} >= {"training-parallel-europarl-v7.tgz", "training-parallel-nc-v9.tgz"}
    assert str(tmp_path) not in json.dumps(record), "a path of one machine"
    assert record["recipe"]["model"].get("norm", "post") == "post" and record["steps"] == 4
    before = len(Statmt.asked)
    assert wmt.run_command(given) == 0 and len(Statmt.asked) == before, "nothing is fetched a second time"


@pytest.mark.parametrize("stops", [[4], [1, 7, 10]])
def test_stopped_and_resumed_gives_the_same_losses(own, store, tmp_path, monkeypatch, every_step, stops):
    "Killed after a step that no checkpoint holds: the steps since the last one are taken again."
    short_answers(monkeypatch)
    e = experiment(own, model={**MODEL, "dropout": 0.1})
    wmt.run_experiment(e, tmp_path / "whole", own / "store")
    take = wmt.StoreTraining.take
    for stop in stops:
        def taking(run, batch):
            if run.step == stop:
                raise KeyboardInterrupt
            take(run, batch)
        monkeypatch.setattr(wmt.StoreTraining, "take", taking)
        with pytest.raises(KeyboardInterrupt):
            wmt.run_experiment(e, tmp_path / "cut", own / "store")
    monkeypatch.setattr(wmt.StoreTraining, "take", take)
    wmt.run_experiment(e, tmp_path / "cut", own / "store")
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole"), "a resumed run reaches other losses"
    held = [training.read_checkpoint(tmp_path / n / "model.safetensors", False)[0] for n in ("cut", "whole")]
    assert all(torch.equal(held[0][name], held[1][name]) for name in held[0])


def test_segments_stop_in_time_and_chain(own, store, tmp_path, monkeypatch, capsys, every_step):
    short_answers(monkeypatch)
    e = experiment(own)
    wmt.run_experiment(e, tmp_path / "whole", own / "store")
    take = wmt.StoreTraining.take
    clock, taken = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(wmt.StoreTraining, "take", lambda run, batch: (
        take(run, batch), taken.append(run.step), clock.__setitem__(0, clock[0] + 60)))
    monkeypatch.setattr(wmt, "planned", lambda options: e)
    given = ["--corpus", str(own / "mine-fr"), "--store", str(own / "store"), "--folder", str(tmp_path / "chained"), "--minutes",
             "3.5", "--threads", "1"]
    codes = []
    while not codes or codes[-1] == 75 and len(codes) < 9:
        codes.append(wmt.run_command(given))
    assert codes == [75, 75, 75, 0], f"a segment must go on where the one before it stopped: {codes}"
    assert losses(tmp_path / "chained") == losses(tmp_path / "whole")
    assert taken == list(range(1, 13)), f"a segment must go on where the one before it stopped, no step is taken twice: {taken}"
    assert capsys.readouterr().out.count("goes on with the same command") == 3


def test_translating_stops_in_time_and_goes_on(own, store, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(wmt, "answers", lambda model, ids, beam_size, batch_size, precision: asked.append(len(ids)) or ids)
    tokens = store.tokens()
    lines = [e for e, _ in PAIRS[:25]]
    translator = wmt.Translator(torch.nn.Linear(1, 1), tokens, tokens)
    path = tmp_path / "said.txt"
    clock = iter([0, 0, 9])
    monkeypatch.setattr(wmt, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    assert wmt.translate_lines(translator, lines, path, until=5, size=10) is None and not path.exists()
    monkeypatch.setattr(wmt, "time", time)
    assert wmt.translate_lines(translator, lines, path, size=10) == lines
    assert asked == [10, 10, 5], "what was translated is not translated again"


def refusals(own, **changes):
    return dataclasses.replace(experiment(own), **changes)


def test_what_does_not_fit_a_run_is_one_sentence(own, store, tmp_path, monkeypatch):
    short_answers(monkeypatch)
    wmt.run_experiment(experiment(own, steps=2), tmp_path / "run", own / "store")
    with pytest.raises(ValueError, match="steps 2 and not 4"):
        wmt.run_experiment(experiment(own, steps=4), tmp_path / "run", own / "store")
    wmt.prepare(settings(own, vocabulary=500), tmp_path / "other")
    with pytest.raises(ValueError) as caught:
        wmt.run_experiment(experiment(own, steps=2, size=500), tmp_path / "run", tmp_path / "other")
    assert one_sentence(str(caught.value)) and "size 400 and not 500" in str(caught.value)
    assert "other tokenizer" in str(caught.value) and "another folder" in str(caught.value)


def test_a_checkpoint_of_another_vocabulary_or_cut_short(own, store, tmp_path, monkeypatch):
    short_answers(monkeypatch)
    e, folder = experiment(own, steps=4), tmp_path / "run"
    run = wmt.begin(e, store, folder, torch.device("cpu"))[1] if folder.mkdir() is None else None
    run.fit(lambda run: run.step >= 2)
    run.save()
    path = folder / "checkpoint.safetensors"
    whole = path.read_bytes()
    other = tmp_path / "other"
    bigger = wmt.prepare(settings(own, vocabulary=500), tmp_path / "store500")
    other.mkdir()
    run = wmt.begin(dataclasses.replace(e, size=500), bigger, other, torch.device("cpu"))[1]
    (other / path.name).write_bytes(whole)
    with pytest.raises(ValueError, match="a model of another shape"):
        run.fit(lambda run: True)
    path.write_bytes(whole[:-100])
    with pytest.raises(ValueError) as caught:
        wmt.run_experiment(e, folder, own / "store")
    assert one_sentence(str(caught.value)) and "no whole checkpoint" in str(caught.value)


def before_step(patch, step, act):
    "The training does `act` before it takes the batch after that step."
    take = wmt.StoreTraining.take

    def taking(run, batch):
        if run.step == step:
            act(run)
        take(run, batch)

    patch.setattr(wmt.StoreTraining, "take", taking)


def test_nan_leaves_a_state_to_resume_from(own, store, tmp_path, monkeypatch, capsys, every_step):
    short_answers(monkeypatch)
    e = experiment(own)
    wmt.run_experiment(e, tmp_path / "whole", own / "store")
    def poisoned(run):
        next(run.model.parameters()).data.fill_(math.nan)

    with monkeypatch.context() as patch:
        before_step(patch, 7, poisoned)
        with pytest.raises(ValueError) as caught:
            wmt.run_experiment(e, tmp_path / "ill", own / "store")
    assert one_sentence(str(caught.value)) and "nan" in str(caught.value)
    wmt.run_experiment(e, tmp_path / "ill", own / "store")
    assert losses(tmp_path / "ill") == losses(tmp_path / "whole")


def test_a_lost_checkpoint_and_the_one_before(own, store, tmp_path, monkeypatch, every_step):
    "Cut short by a drive that lost its connection: one sentence, and after its advice the run goes on from the one before."
    short_answers(monkeypatch)
    e = experiment(own)
    wmt.run_experiment(e, tmp_path / "whole", own / "store")
    def stop(run):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        before_step(patch, 8, stop)
        with pytest.raises(KeyboardInterrupt):
            wmt.run_experiment(e, tmp_path / "cut", own / "store")
    path = tmp_path / "cut" / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(ValueError) as caught:
        wmt.run_experiment(e, tmp_path / "cut", own / "store")
    assert one_sentence(str(caught.value)) and "no whole checkpoint" in str(caught.value) and "delete it" in str(caught.value)
    path.unlink()
    steps, take = [], wmt.StoreTraining.take
    monkeypatch.setattr(wmt.StoreTraining, "take", lambda run, batch: (steps.append(run.step), take(run, batch)))
    wmt.run_experiment(e, tmp_path / "cut", own / "store")
    assert 0 < steps[0] < 6, f"the run must go on from the checkpoint before the last, and begins at {steps[0]}"
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")


@pytest.mark.parametrize("where", ["checkpoint", "log"])
def test_a_full_disk_in_a_run_is_one_sentence(own, store, tmp_path, monkeypatch, capsys, every_step, where):
    short_answers(monkeypatch)
    e = experiment(own)
    wmt.run_experiment(e, tmp_path / "whole", own / "store")
    monkeypatch.setattr(wmt, "planned", lambda options: e)
    given = ["--corpus", str(own / "mine-fr"), "--store", str(own / "store"), "--folder", str(tmp_path / "full"), "--threads", "1"]
    full = OSError(errno.ENOSPC, "No space left on device")
    note, keep = wmt.StoreTraining.note, training.save_file
    asked = []

    def noting(run, **entry):
        if run.step == 7:
            raise full
        note(run, **entry)

    def keeping(*given):
        asked.append(given)
        if len(asked) == 3:
            raise full
        keep(*given)

    with monkeypatch.context() as patch:
        if where == "log":
            patch.setattr(wmt.StoreTraining, "note", noting)
        else:
            patch.setattr(training, "save_file", keeping)
        assert wmt.run_command(given) == 1
    said = capsys.readouterr().err
    assert one_sentence(said) and ("the disk is full" in said or "can't be written, the old one stands" in said), said
    assert wmt.run_command(given) == 0 and losses(tmp_path / "full") == losses(tmp_path / "whole")


def test_a_torn_line_of_translations_is_said_again(own, store, tmp_path, monkeypatch):
    monkeypatch.setattr(wmt, "answers", lambda model, ids, beam_size, batch_size, precision: ids)
    translator, lines = wmt.Translator(torch.nn.Linear(1, 1), store.tokens(), store.tokens()), [e for e, _ in PAIRS[:6]]
    (tmp_path / "said.txt.part").write_bytes(text(lines[:2]) + "Déj".encode()[:-2])
    assert wmt.translate_lines(translator, lines, tmp_path / "said.txt", size=3) == lines, "half a line was gone on with"
    assert (tmp_path / "said.txt").read_text("utf-8").splitlines() == lines


class Greedy(torch.nn.Module):
    "A model that has room for so many tokens at a time and no more."

    def __init__(self, model, room):
        super().__init__()
        self.model, self.room, self.config = model, room, model.config

    def forward(self, source, target):
        if source.numel() + target.numel() > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return self.model(source, target)


def test_the_budget_fits_itself_and_the_result_is_the_same(own, store):
    from helpers import small_model

    config = training.TrainingConfig(max_tokens=400)
    batch = max(wmt.length_batches(store.lengths, 400), key=len)
    gradients = {}
    for room in 10**9, 300, 100:
        model = small_model(vocab=len(store.tokens()))
        bites = wmt.bites_that_fit(Greedy(model, room), store, config)
        assert all(weight.grad is None for weight in model.parameters())
        loss = training.backward(Greedy(model, 10**9), *wmt.gather(store, batch), dataclasses.replace(config, accumulate=bites))
        gradients[room] = bites, loss, [w.grad for w in model.parameters()]
    assert gradients[10**9][0] == 1 < gradients[300][0] < gradients[100][0]
    for _, loss, grads in gradients.values():
        assert math.isclose(loss, gradients[10**9][1], rel_tol=1e-6)
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(grads, gradients[10**9][2]))
    with pytest.raises(MemoryError) as caught:
        wmt.bites_that_fit(Greedy(model, 3), store, config)
    assert one_sentence(str(caught.value))


def joined(rank, world, own, folder, changes):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), TRANSFORMER_LIT_DATA=str(own))
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}.meeting", rank=rank, world_size=world)
    wmt.StoreTraining.log_every = 1
    wmt.answers = lambda model, ids, beam_size, batch_size, precision: [i[:4] for i in ids]
    wmt.run_experiment(experiment(own, **changes), folder, own / "store")
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_reach_the_losses_of_one(own, store, tmp_path, monkeypatch, every_step):
    import torch.multiprocessing as mp

    short_answers(monkeypatch)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    wmt.run_experiment(experiment(own), tmp_path / "one", own / "store")
    mp.start_processes(joined, (2, own, tmp_path / "two", {}), nprocs=2, start_method="spawn")
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert [x[:2] for x in one] == [x[:2] for x in two]
    assert max(abs(a[2] - b[2]) for a, b in zip(one, two)) < 1e-4, "two processes reach other losses than one"
    assert json.loads((tmp_path / "two" / "run.json").read_text())["processes"] == 2


ROOT = Path(__file__).resolve().parent.parent
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--monitor-interval", "0.2"]
WAITING = """# The command, which waits at a step until it is killed.
import signal, sys, time
from transformer_lit import wmt
step, take = int(sys.argv.pop(1)), wmt.StoreTraining.take
def taking(run, made):
    if run.step == step:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if not wmt.process()[0]:
            (run.folder / "waiting").touch()
        time.sleep(600)
    take(run, made)
wmt.StoreTraining.take = taking
sys.exit(wmt.run_command())
"""


def typed(own, folder):
    "The options of a run that is small on any machine; without dropout, whose dice each process throws for itself."
    words = ("--way ours --size tiny --vocabulary 400 --sample 400 --dropout 0 --max-tokens 500 --warmup 4 --steps 20 --look-every 4 "
             "--lines 2 --checkpoint-every 3 --precision fp32 --peak 1e-3 --threads 1")
    return ["-m", "transformer_lit.wmt", "--corpus", str(own / "mine-fr"), "--store", str(own / "store"), "--folder", str(folder), *words.split()]


def started(command, own):
    kept = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=kept | dict(
        PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1", TRANSFORMER_LIT_DATA=str(own), GLOO_SOCKET_IFNAME="lo"))


def killed_at(command, own, folder):
    "SIGKILL for one worker, once all of them wait for it at a step; waits for the end."
    done = started(command, own)
    for _ in range(4800):
        if done.poll() is not None or (folder / "waiting").exists():
            break
        time.sleep(0.05)
    assert done.poll() is None, f"it ended before it could be killed: {done.stderr.read()[-800:]}"
    workers = Path(f"/proc/{done.pid}/task/{done.pid}/children").read_text().split() if "torch.distributed.run" in command else []
    os.kill(int(workers[-1]) if workers else done.pid, signal.SIGKILL)
    said = done.communicate(timeout=120)[1]
    assert done.returncode != 0, said


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds a worker in /proc")
def test_killed_at_a_random_step_and_resumed(own, store, tmp_path):
    "With a real SIGKILL, from the command line, alone and under torchrun; two processes reach the losses of one."
    whole, waiting = tmp_path / "whole", tmp_path / "waiting.py"
    waiting.write_text(WAITING)
    first = started([sys.executable, *typed(own, whole)], own)
    assert first.wait(240) == 0, first.stderr.read()[-800:]
    for processes, command in (1, [sys.executable]), (2, TORCHRUN):
        cut = tmp_path / f"cut by {processes}"
        lines = random.SystemRandom().randrange(2, 20)
        killed_at([*command, str(waiting), str(lines), *typed(own, cut)[2:]], own, cut)
        (cut / "waiting").unlink()
        assert not (cut / "run.json").exists()
        again = started([*command, *typed(own, cut)], own)
        assert again.wait(240) == 0, again.stderr.read()[-800:]
        one, other, said = losses(whole), losses(cut), f"{processes} processes, killed at step {lines}"
        assert [x[:2] for x in one] == [x[:2] for x in other] and len(one) == 7, f"{said}: another log"
        gap = max(abs(a[2] - b[2]) for a, b in zip(one, other))
        assert gap < (1e-12 if processes == 1 else 1e-4), f"{said}: the losses differ by {gap}"
        assert json.loads((cut / "run.json").read_text())["processes"] == processes


# Plans -----------------------------------------------------------------------------------------------------------

def test_the_papers_recipe_is_the_papers():
    e = wmt.experiment_for()
    assert (e.corpus, e.size, e.steps, e.average, e.rate, e.optimizer) == ("wmt14-en-de", 37_000, 100_000, 5, "noam", "adam")
    t = e.training
    assert (t.max_tokens, t.warmup, t.smoothing, t.clip, t.factor) == (25_000, 4_000, 0.1, 0.0, 1.0)
    m = e.model
    assert [m[k] for k in ("d_model", "d_ff", "n_heads", "n_encoder_layers", "n_decoder_layers", "dropout", "norm")] == [
        512, 2048, 8, 6, 6, 0.1, "post"]
    assert wmt.experiment_for("wmt14-en-fr").size == 32_000 and wmt.experiment_for("wmt14-en-fr").language == "fr"
    assert wmt.experiment_for(way="ours").model["norm"] == "pre"


@pytest.mark.parametrize("given, words", [
    (["--corpus", "wmt15-en-de"], "there is no training set wmt15-en-de"),
    (["--corpus", "general-en-fr"], "general/en-fr is not on this machine")])
def test_a_wrong_name_is_one_sentence(given, words, tmp_path, capsys):
    assert wmt.run_command([*given, "--folder", str(tmp_path / "run"), "--store", str(tmp_path / "store"), "--threads", "1"]) == 1
    said = capsys.readouterr().err
    assert one_sentence(said) and words in said


def test_one_line_takes_the_paper_from_archives_to_bleu(monkeypatch, tmp_path):
    assert cli.LARGE == wmt.TRAINING_SETS, "the command line offers other training sets than chapter 21 has"
    asked = []
    monkeypatch.setattr(wmt, "run_experiment", lambda e, folder, *more: asked.append((e, folder, more)) or {"scores": []})
    assert cli.main(["train", "--recipe", "wmt14-en-de", "--folder", str(tmp_path), "--threads", "1"]) == 0
    (e, folder, more), = asked
    assert dataclasses.replace(e, training=wmt.PAPER) == wmt.experiment_for() and folder == tmp_path
    assert more[-1] == "python -m transformer_lit.wmt --corpus wmt14-en-de --way paper --size base", "the record's command"
    assert cli.main(["train", "--recipe", "wmt14-en-de", "--epochs", "3"]) == 1 and len(asked) == 1
