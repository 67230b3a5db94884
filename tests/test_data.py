"""Corpora and the command line: downloads that fail on a server here, test sets that training never meets, exit codes.

Real archives are read only where TRANSFORMER_LIT_DATA names a folder in the layout of data/README.md.
"""
import errno
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import requests
from helpers import serving, zipped

from transformer_lit import cli, data

ROOT = Path(__file__).resolve().parent.parent
REAL = os.environ.get("TRANSFORMER_LIT_DATA")
real_corpora = pytest.mark.skipif(not REAL, reason="TRANSFORMER_LIT_DATA names no folder with the real corpora")


def one_sentence(text):
    return len(text.strip()) > 20 and "Traceback" not in text and text.strip().count("\n") == 0


# A server whose every name is one behaviour ----------------------------------------------------------------------

def archive(text="Go.\tVa !\tCC-BY\n" * 4000, member="fra.txt"):
    return zipped({"_about.txt": "made up", member: text})


WHOLE = archive()
BODIES = {"page": b"\n <!DOCTYPE html><html>moved</html>", "empty": b"", "half": WHOLE[:len(WHOLE) // 2], "text": b"no archive",
          "tsv.gz": gzip.compress(b"A dog.\n")}


class Answers(BaseHTTPRequestHandler):
    broken, starts = {}, []

    def do_GET(self):
        name, _, ranges = self.path.strip("/").partition("/")[0].partition("-")
        start = int((self.headers["Range"] or "bytes=0-")[6:-1]) if ranges != "noranges" else 0
        self.starts.append((name, start))
        body = BODIES.get(name, WHOLE)[start:]
        if name in ("missing", "error"):
            return self.send_error(404 if name == "missing" else 503)
        self.send_response((206 if body else 416) if start else 200)
        if start and not body:
            self.send_header("Content-Range", f"bytes */{len(BODIES.get(name, WHOLE))}")
        self.send_header("Content-Length", str(len(body)))
        if ranges != "noranges":
            self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        first = self.broken.get(name, 0) > 0
        self.broken[name] = self.broken.get(name, 0) - 1
        self.wfile.write(body[:len(body) // 2] if name in ("cut", "slow") or first else body)
        self.wfile.flush()
        if name == "slow":
            time.sleep(0.8)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch, tmp_path):
    monkeypatch.setattr(Answers, "broken", {})
    monkeypatch.setattr(Answers, "starts", [])
    with serving(Answers, monkeypatch, tmp_path / "cache") as address:
        yield address


def fails(urls, path, check=data.whole_zip, timeout=0.3):
    with pytest.raises(FileNotFoundError) as caught:
        data.download(urls, path, check, timeout)
    assert one_sentence(str(caught.value)) and str(path) in str(caught.value)
    assert "TRANSFORMER_LIT_DATA" in str(caught.value)
    return str(caught.value)


def another(path):
    row = {"md5": "", "bytes": 7, "sha256": hashlib.sha256(b"A cat.\n").hexdigest()}
    data.as_published(path, row)


@pytest.mark.parametrize("good_before", [False, True])
@pytest.mark.parametrize("fault, words", [
    ("missing", "the server says 404"), ("error", "the server says 503"), ("page", "a web page came"),
    ("empty", "not a whole zip"), ("half", "not a whole zip"), ("text", "not a whole zip"), ("cut-noranges", "it broke off after"),
    ("slow-noranges", "fell silent"), ("tsv.gz", "SHA-256 of its text")])
def test_a_failed_download_is_one_sentence(server, fault, words, good_before, tmp_path):
    path = tmp_path / "kept" / "fra-eng.zip"
    if good_before:
        path.parent.mkdir()
        path.write_bytes(b"a good one")
    assert words in fails(f"{server}/{fault}/x", path, another if fault == "tsv.gz" else data.whole_zip)
    left = [p.name for p in path.parent.glob("*")]
    assert left == ["fra-eng.zip"] * good_before, f"a failed download leaves {left}"
    assert not good_before or path.read_bytes() == b"a good one", "a good file was overwritten"


def test_a_server_that_is_gone(tmp_path):
    assert "no server answers" in fails("http://127.0.0.1:9/x", tmp_path / "a.zip")
    assert "a.zip" in fails("no address at all", tmp_path / "a.zip")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["cut", "slow"])
def test_what_came_is_kept_where_the_server_can_go_on(server, name, tmp_path):
    path = tmp_path / "a.zip"
    said = fails(f"{server}/{name}/a.zip", path)
    assert "What came is kept" in said and not path.exists()
    half = (tmp_path / "a.zip.part").read_bytes()
    assert half and WHOLE.startswith(half), "half a file under another name, for the next try"
    data.download(f"{server}/good/a.zip", path)
    assert Answers.starts[-1] == ("good", len(half)), "the next try must go on where the last one stopped"
    assert path.read_bytes() == WHOLE and [p.name for p in tmp_path.iterdir()] == ["a.zip"]


def test_a_mirror_goes_on_where_the_first_stopped(server, tmp_path):
    Answers.broken["first"] = 1
    data.download([f"{server}/missing/a", f"{server}/first/a", f"{server}/second/a"], tmp_path / "a.zip")
    assert [name for name, _ in Answers.starts] == ["missing", "first", "second"] and Answers.starts[-1][1] > 0
    assert (tmp_path / "a.zip").read_bytes() == WHOLE
    said = fails([f"{server}/missing/a", f"{server}/page/a"], tmp_path / "b.zip")
    assert "404" in said and "web page" in said, "every address is named with its reason"


@pytest.mark.parametrize("half", [b"another file's first half", WHOLE + b"more", WHOLE])
def test_an_old_half_never_spoils_a_file(server, half, tmp_path):
    (tmp_path / "a.zip.part").write_bytes(half)
    data.download(f"{server}/good/a.zip", tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == WHOLE and len(list(tmp_path.iterdir())) == 1


def test_a_server_without_ranges_starts_again(server, tmp_path):
    (tmp_path / "a.zip.part").write_bytes(WHOLE[:100])
    data.download(f"{server}/good-noranges/a.zip", tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == WHOLE, "200 sends everything: it must not be put behind the half"


def test_a_full_disk(server, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(data, "append", full)
    (tmp_path / "a.zip.part").write_bytes(WHOLE[:100])
    assert "the disk is full" in fails(f"{server}/good/a.zip", tmp_path / "a.zip")
    assert not list(tmp_path.iterdir()), "on a full disk nothing half is kept"


def test_ctrl_c_keeps_the_half(server, tmp_path, monkeypatch):
    iter_content = requests.Response.iter_content

    def stopped(answer, chunk_size):
        yield next(iter_content(answer, chunk_size))
        raise KeyboardInterrupt

    monkeypatch.setattr(requests.Response, "iter_content", stopped)
    with pytest.raises(KeyboardInterrupt):
        data.download(f"{server}/good/a.zip", tmp_path / "a.zip")
    half = (tmp_path / "a.zip.part").stat().st_size
    monkeypatch.setattr(requests.Response, "iter_content", iter_content)
    data.download(f"{server}/good/a.zip", tmp_path / "a.zip")
    assert 0 < half and Answers.starts[-1] == ("good", half) and (tmp_path / "a.zip").read_bytes() == WHOLE


def test_the_hash_of_what_was_fetched_is_recorded(server, monkeypatch):
    path = data.tatoeba_archive("fr", f"{server}/good/")
    assert data.recorded() == {"tatoeba/fra-eng.zip": hashlib.sha256(WHOLE).hexdigest()}
    assert data.state("tatoeba/fra-eng.zip") == "whole, 4,000 pairs"
    path.write_bytes(archive("Go.\tVa !\n" * 5))
    assert data.state("tatoeba/fra-eng.zip").startswith("CHANGED"), "another archive than the one that was fetched"
    path.write_bytes(WHOLE[:500])
    assert data.state("tatoeba/fra-eng.zip").startswith("DAMAGED")


def test_the_publishers_archive_must_be_large_and_has_a_mirror(server, monkeypatch, tmp_path):
    monkeypatch.setattr(data, "TATOEBA", f"{server}/good/")
    monkeypatch.setattr(data, "MIRRORS", {"fr": [f"{server}/mirror/fra-eng.zip#sha1={hashlib.sha1(WHOLE).hexdigest()}"]})
    with pytest.raises(FileNotFoundError) as caught:
        data.tatoeba_archive("fr", data.TATOEBA)
    assert str(caught.value).count("150,000 were expected") == 2, "4,000 lines are too few, also at the mirror"
    monkeypatch.setattr(data, "FEWEST", 4000)
    assert data.tatoeba_archive("fr", data.TATOEBA).exists()


def test_a_folder_that_is_not_there_is_said(monkeypatch, capsys):
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", "/no/such/folder")
    assert cli.main(["data", "list", "tatoeba"]) == 1
    said = capsys.readouterr().err
    assert one_sentence(said) and "/no/such/folder" in said


def test_streaming_keeps_nothing(server, monkeypatch):
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as file:
        member = tarfile.TarInfo("training/x.fr-en.en")
        member.size = 10
        file.addfile(member, io.BytesIO(b"One.\nTwo.\n"))
    monkeypatch.setitem(BODIES, "tgz", held.getvalue())
    lines = list(data.stream_archive(f"{server}/tgz/x.tgz", ["training/x.fr-en.en"]))
    assert [line for _, line in lines] == ["One.", "Two."]
    monkeypatch.setitem(BODIES, "tgz", held.getvalue()[:60])
    with pytest.raises(OSError, match="broke off"):
        list(data.stream_archive(f"{server}/tgz/x.tgz", ["training/x.fr-en.en"]))


# Test sets never meet training -----------------------------------------------------------------------------------

def put(folder, name, lines):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(line + "\n" for line in lines).encode()))


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    "All corpora in small, each with sentences that stand in two parts, in other spellings."
    for language, (file, member) in data.ARCHIVES.items():
        pairs = [f"Sentence {i % 4500}{'.!'[i % 2]}\tPhrase {i // 2}.\tCC-BY" for i in range(9001)]
        path = tmp_path / "tatoeba" / file
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(archive("\n".join(pairs) + "\n", f"folder/{member}"))
        for part, english in (("train", ["A dog.", "A cat.", "A cow."]), ("val", ["a cat", "A hen."]),
                              ("test_2016_flickr", ["A HEN!", "A cow"])):
            put(tmp_path, f"multi30k/{part}.en.gz", english)
            put(tmp_path, f"multi30k/{part}.{language}.gz", [f"{part} {i}" for i in range(len(english))])
        for name, english in (("newstest2010", ["War.", "Peace.", "Rain."]), ("newstest2013", ["peace", "Sun."]),
                              ("newstest2014", ["RAIN", "Sun!"])):
            put(tmp_path, f"newstest/en-{language}/{name}.en.gz", english)
            put(tmp_path, f"newstest/en-{language}/{name}.{language}.gz", [f"{name} {i}" for i in range(len(english))])
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", str(tmp_path))
    return tmp_path


EVERY = [(name, language) for name, languages in data.CORPORA.items() for language in languages]


def disjoint(parts):
    keys = {name: {data.sentence_key(english) for english, _ in pairs} for name, pairs in parts.items()}
    assert {"train", "valid", "test"} <= set(parts) and parts["test"] and parts["valid"]
    for name in keys.keys() - {"train"}:
        leak = keys["train"] & keys[name]
        assert not leak, f"{len(leak)} English sentences of {name} stand in training: the split leaks"
        assert data.shared_english(parts["train"], parts[name]) == 0
    leak = keys["valid"] & set().union(*(keys[name] for name in keys if name.startswith("test")))
    assert not leak, f"{len(leak)} English sentences stand in validation and test: the split leaks"


@pytest.mark.parametrize("name, language", EVERY)
def test_no_test_sentence_is_in_training(made_up, name, language):
    disjoint(data.load(name, language))


def test_the_official_tests_stay_whole(made_up):
    for language in "fr", "de":
        assert data.test_set("multi30k", language) == (["A HEN!", "A cow"], [["test_2016_flickr 0"], ["test_2016_flickr 1"]])
        assert data.test_set("newstest2014", language)[0] == ["RAIN", "Sun!"]
        assert [e for e, _ in data.load("multi30k", language)["train"]] == ["A dog."], "training gives way to both others"
        assert [e for e, _ in data.load("wmt14", language)["valid"]] == ["peace"], "validation gives way to the test"


def test_tatoeba_has_2000_sentences_with_all_their_references(made_up):
    sources, references = data.test_set("tatoeba")
    pairs = data.load("tatoeba")["test"]
    assert len({data.sentence_key(s) for s in sources}) == len(sources) == len(references) == 2000
    wanted = {}
    for english, other in pairs:
        wanted.setdefault(data.sentence_key(english), set()).add(other)
    assert [set(r) for r in references] == [wanted[data.sentence_key(s)] for s in sources], "all references, none of another's"
    assert all(len(r) == len(set(r)) for r in references) and max(map(len, references)) > 1


def test_what_a_translator_was_trained_on_is_what_load_gives(made_up):
    every = data.read_tatoeba(data.tatoeba_archive())
    assert data.load("tatoeba") == {k: data.split_by_english(every)[k] for k in ("train", "valid", "test")}


@pytest.mark.slow
@real_corpora
@pytest.mark.parametrize("language", ["fr", "de"])
def test_no_real_test_sentence_is_in_training(language):
    everything = {name: data.load(name, language) for name, languages in data.CORPORA.items() if language in languages}
    for parts in everything.values():
        disjoint(parts)
    shown = everything["tatoeba"]["train"]
    for name in "tatoeba", "multi30k", "newstest2014":
        sources, references = data.test_set(name, language)
        assert data.shared_english(shown, [(s, "") for s in sources]) == 0, f"{name} meets Tatoeba's training sentences"
        assert len(sources) == len(references) == {"tatoeba": 2000, "multi30k": 1000, "newstest2014": 3003}[name]
    known = data.known_answers(data.test_set("tatoeba", language)[1], shown)
    assert 0 < sum(known) < 400, "answers that training knows under another sentence are few, and counted"


@real_corpora
def test_the_real_files_are_as_published():
    for name, language in EVERY:
        for file in data.files_of(name, language):
            words = data.state(file, language)
            assert words == "as published" or words.startswith("whole, 16"), f"{file}: {words}"


def test_damage_to_a_published_file_is_found(tmp_path):
    text = b"A dog runs.\n" * 50
    row = {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest(), "md5": "none"}
    path = tmp_path / "a.gz"
    for content, words in ((gzip.compress(text)[:-5], "whole gzip"), (gzip.compress(text[:-1]), "bytes, and not"),
                           (gzip.compress(text.upper()), "SHA-256"), (text, "whole gzip")):
        path.write_bytes(content)
        with pytest.raises(OSError, match=words):
            data.as_published(path, row)
    for level in 1, 9:
        path.write_bytes(gzip.compress(text, level))
        data.as_published(path, row)


# The command line ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("words", [["--help"], ["--version"], ["data", "--help"], ["train", "--help"], ["translate", "--help"],
                                   ["evaluate", "--help"], ["train", "--epochs", "0"]])
def test_help_does_not_wait_for_torch(words):
    code = ("import sys\nfrom transformer_lit.cli import main\ntry: main(sys.argv[1:])\nexcept SystemExit as end: status = end.code\n"
            "assert 'torch' not in sys.modules, 'torch is imported'\nsys.exit(status)")
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == (2 if "0" in words else 0), done.stderr[-300:]
    assert done.stdout or "whole number" in done.stderr


def test_names_written_twice_agree():
    from transformer_lit.support.recipes import RECIPES
    assert cli.RECIPE_NAMES == tuple(RECIPES), "the command line offers other recipes than chapter 18 has"
    assert cli.SETS == data.TEST_SETS and set(cli.OPTIONS) == set(cli.COMMANDS) == set(cli.RUN)


def test_data_list_and_verify(made_up, capsys):
    assert cli.main(["data", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(EVERY) and lines[0].split(None, 2) == ["pocket", "fr", "comes with the book"]
    assert str(made_up) in lines[1], "list names the folder in which a corpus lies"
    assert cli.main(["data", "verify", "multi30k", "--language", "fr"]) == 1, "made-up files are not the published ones"
    out = capsys.readouterr().out
    assert out.count("DAMAGED") == 6
    assert cli.main(["data", "verify", "tatoeba"]) == 0
    assert capsys.readouterr().out.count("whole, 9,001 pairs") == 2


def test_data_fetch_from_a_server(server, monkeypatch, capsys):
    pairs = "".join(f"Sentence {i}.\tPhrase {i}.\n" for i in range(4100))
    monkeypatch.setitem(BODIES, "many", archive(pairs))
    monkeypatch.setattr(data.tatoeba_archive, "__defaults__", ("fr", f"{server}/many/"))
    assert cli.main(["data", "fetch", "tatoeba", "--language", "fr"]) == 0
    out = capsys.readouterr().out
    assert "train 100, valid 2,000, test 2,000" in out and hashlib.sha256(archive(pairs)).hexdigest() in out
    assert cli.main(["data", "fetch"]) == 1 and one_sentence(capsys.readouterr().err), "nothing is fetched unasked"


@pytest.mark.parametrize("command, words", [
    (["data", "list", "pocked"], "there are: pocket"), (["data", "fetch", "pocket", "--language", "de"], "de"),
    (["translate", "--file", "no_such_file.txt"], "no_such_file.txt"), (["translate", "--folder", "nowhere", "Hi."], "nowhere"),
    (["evaluate", "--out", "no/such/folder/x.json"], "no/such/folder")])
def test_bad_input_is_one_sentence(command, words, capsys, monkeypatch):
    monkeypatch.setattr("transformer_lit.translation.Translator.from_pretrained", staticmethod(pretend))
    assert cli.main(command) == 1
    said = capsys.readouterr()
    assert one_sentence(said.err) and words in said.err and not said.out, said.err


def pretend(folder=None):
    if folder and not Path(folder).exists():
        raise FileNotFoundError(f"no trained translator in {folder}: train one with transformer-lit train --folder {folder}")

    class Loud:
        def translate(self, lines, beam_size=4, batch_size=64):
            return [line.upper() for line in lines]

    return Loud()


def test_translate_takes_sentences_a_file_and_a_pipe(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("transformer_lit.translation.Translator.from_pretrained", staticmethod(pretend))
    (tmp_path / "text.txt").write_text("".join(f"line {i}\n" for i in range(600)) + "\nend", encoding="utf-8")
    assert cli.main(["translate", "one", ""]) == 0
    assert capsys.readouterr().out == "ONE\n\n"
    assert cli.main(["translate", "--file", str(tmp_path / "text.txt")]) == 0
    out = capsys.readouterr()
    assert out.out.splitlines() == [f"LINE {i}" for i in range(600)] + ["", "END"] and not out.err
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\ntwo\n"))
    assert cli.main(["translate"]) == 0
    assert capsys.readouterr().out == "ONE\nTWO\n"
    (tmp_path / "text.txt").write_bytes("é".encode("latin-1"))
    assert cli.main(["translate", "--file", str(tmp_path / "text.txt")]) == 1
    assert "is not UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize("spoilt, words", [("é".encode("latin-1"), "standard input is not UTF-8 text"),
                                           ("Good morning.".encode("utf-16"), "standard input is not UTF-8 text"),
                                           ("Hi.\n".encode("utf-16-le"), "zero bytes"), (b"x" * 20_001, "over 20,000 characters")],
                         ids=["latin-1", "utf-16", "utf-16 without a mark", "one long line"])
def test_standard_input_is_utf_8_whatever_the_locale(spoilt, words, capsys, monkeypatch):
    monkeypatch.setattr("transformer_lit.translation.Translator.from_pretrained", staticmethod(pretend))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(spoilt), encoding="latin-1"))
    assert cli.main(["translate"]) == 1
    said = capsys.readouterr()
    assert one_sentence(said.err) and words in said.err and not said.out


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("transformer_lit.translation.Translator.from_pretrained", staticmethod(pretend))
    text = "I'm hungry.\r\nHi.\r\n".encode("utf-8-sig")
    (tmp_path / "text.txt").write_bytes(text)
    assert cli.main(["translate", "--file", str(tmp_path / "text.txt")]) == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text), encoding="utf-8"))
    assert cli.main(["translate"]) == 0
    assert capsys.readouterr().out == "I'M HUNGRY.\nHI.\n" * 2
    path = tmp_path / "fra-eng.zip"
    path.write_bytes(archive("\ufeffGo.\tVa !\n"))
    assert data.read_tatoeba(path) == [("Go.", "Va !")]


@pytest.mark.parametrize("words", [["Hi.", "--file", "{file}"], ["--interactive", "--file", "{file}"], ["Hi.", "--interactive"]])
def test_two_sources_of_sentences_are_refused(words, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("transformer_lit.translation.Translator.from_pretrained", staticmethod(loaded))
    (tmp_path / "text.txt").write_text("one\n")
    assert cli.main(["translate", *(word.format(file=tmp_path / "text.txt") for word in words)]) == 1
    assert "choose one of them" in capsys.readouterr().err


def loaded(folder=None):
    raise AssertionError("the model is loaded before the mistake is said")


@pytest.mark.parametrize("command", [["translate", "--file", "no_such.txt"], ["translate", "--file", "."],
                                     ["evaluate", "--language", "de"], ["evaluate", "--out", "no/such/x.json"]])
def test_a_mistake_is_said_before_the_model_is_loaded(command, capsys, monkeypatch):
    monkeypatch.setattr("transformer_lit.translation.Translator.from_pretrained", staticmethod(loaded))
    assert cli.main(command) == 1 and one_sentence(capsys.readouterr().err)


def test_a_translator_is_scored_in_its_own_language(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("transformer_lit.translation.Translator.from_pretrained", staticmethod(loaded))
    for name, kept in (("run.json", {"recipe": {"language": "fr"}}), ("translator.json", {"language": "fr"}),
                       ("translator.json", {"languages": ["en", "fr"]})):
        (tmp_path / name).write_text(json.dumps(kept))
        assert cli.main(["evaluate", "--set", "multi30k", "--language", "de", "--folder", str(tmp_path)]) == 1
        assert "says fr and not de" in capsys.readouterr().err
        (tmp_path / name).unlink()


def test_a_wide_beam_takes_fewer_sentences_at_a_time():
    from types import SimpleNamespace
    seen = []
    one = SimpleNamespace(translate=lambda lines, beam_size, batch_size: seen.append((beam_size, batch_size)))
    for beam in (1, 4, 16, 64):
        cli.translating(one, beam)([])
    assert seen == [(1, 64), (4, 64), (16, 16), (64, 4)]


@pytest.mark.parametrize("language, spoil", [("fr", "sizes"), ("de", "whole")])
def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path, language, spoil):
    "Seven megabytes that unpack to gigabytes; one whose size is only claimed in the zip's list is as good."
    import resource
    import zipfile

    path, (_, member) = tmp_path / "bomb.zip", data.ARCHIVES[language]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open(member, "w") as text:
        for _ in range(600):
            text.write(bytes(1 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match="would unpack to 629,145,600 bytes"):
        data.read_tatoeba(path, language)
    with pytest.raises(OSError, match="would unpack to"):
        data.tatoeba_shape(path, language)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000, "it was unpacked first"


def test_a_mirror_gives_the_file_that_was_published(server, tmp_path, monkeypatch):
    assert all("#sha1=" in url and url.startswith("https:") for urls in data.MIRRORS.values() for url in urls)
    good, other = hashlib.sha1(WHOLE).hexdigest(), "0" * 40
    said = fails(f"{server}/good/a#sha1={other}", tmp_path / "a.zip")
    assert "its SHA-1 is not the published one" in said and "#sha1" not in said
    assert data.download(f"{server}/good/a#sha1={good}", tmp_path / "a.zip").read_bytes() == WHOLE


def test_a_reader_that_goes_away_is_no_error():
    code = ("import sys\nfrom transformer_lit import cli\nsys.path.insert(0, 'tests')\nfrom test_data import pretend\n"
            "from transformer_lit.translation import Translator\nTranslator.from_pretrained = staticmethod(pretend)\n"
            "sys.exit(cli.main(['translate', *map(str, range(20000))]))")
    done = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert done.stdout.readline() == "0\n"
    done.stdout.close()
    assert done.stderr.read() == "" and done.wait() == 0


def test_evaluate_writes_a_report(made_up, tmp_path, capsys, monkeypatch):
    pytest.importorskip("sacrebleu")
    monkeypatch.setattr("transformer_lit.translation.Translator.from_pretrained", staticmethod(pretend))
    out = tmp_path / "scores.json"
    out.write_text("an older report")
    assert cli.main(["evaluate", "--set", "multi30k", "--out", str(out), "--beam", "1"]) == 0
    report = json.loads(out.read_text(encoding="utf-8"))
    assert report["set"] == "multi30k" and report["beam"] == 1 and report["sentences"] == 2
    assert {score["metric"] for score in report["one"]} == {"BLEU", "chrF"}
    said = capsys.readouterr().out
    assert "BLEU" in said and "nrefs:1" in said and not list(tmp_path.glob("*.part"))


def test_ctrl_c_has_its_own_status(monkeypatch, capsys):
    monkeypatch.setitem(cli.RUN, "train", partial(stop, KeyboardInterrupt))
    assert cli.main(["train"]) == 130
    assert "goes on" in capsys.readouterr().err
    monkeypatch.setitem(cli.RUN, "train", partial(stop, RecursionError))
    with pytest.raises(RecursionError):
        cli.main(["train"])


def stop(error, options):
    raise error


def test_a_first_sentence_waits_for_nothing_that_it_does_not_need():
    "A clock would measure the machine; what is imported is the same on all of them."
    assert data.shipped("data/checkpoints/tatoeba-fr/model.safetensors").exists(), "the translator that comes with the book is gone"
    code = ("import sys\nfrom transformer_lit.cli import main\nstatus = main(['translate', 'Good morning.'])\nimport torch\n"
            "for name in sys.argv[1:]: assert name not in sys.modules, f'{name} is imported to translate a sentence'\n"
            "assert torch.get_num_threads() == 1\nsys.exit(status)")
    heavy = ["sacrebleu", "matplotlib", "seaborn", "pandas", "IPython", "ipywidgets", "pooch", "requests"]
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip(), done.stderr[-300:]
