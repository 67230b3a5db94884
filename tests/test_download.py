"""Downloads that fail in every way, from a server on this machine: complete or not at all, and one
sentence that says what to do."""

import hashlib
import zipfile

import pytest
from helpers import one_sentence, zipped
from plugins.server import BODIES, WHOLE, Answers

from transformer_lit.corpora import download, published as corpora


def tatoeba(path, *urls):
    return download.download(urls, path, corpora.tatoeba_shape)


def failure(path, *urls, check=corpora.tatoeba_shape):
    "The sentence that a reader gets, which names the file and the folder's variable."
    with pytest.raises(FileNotFoundError) as refusal:
        download.download(urls, path, check)
    sentence = str(refusal.value)
    assert one_sentence(sentence) and str(path) in sentence and "TRANSFORMER_LIT_DATA" in sentence
    return sentence


def files_in(folder):
    return [path.name for path in folder.iterdir()]


def damaged(kind):
    "An archive with a wrong byte in its text; 37 is the first of a compressed one."
    text = "".join(f"line {n * n}\tligne {n}\n" for n in range(300))
    content = zipped({"fra.txt": text}, kind)
    place = 37 if kind == zipfile.ZIP_DEFLATED else len(content) // 2
    return content[:place] + b"\x07" + content[place + 1 :]


DAMAGED = {"stored": damaged(zipfile.ZIP_STORED), "deflated": damaged(zipfile.ZIP_DEFLATED)}


def check_cat(path):
    row = {"md5": "", "bytes": 7, "sha256": hashlib.sha256(b"A cat.\n").hexdigest()}
    corpora.verify_published(path, row)


# What is left -------------------------------------------------------------------------------------


@pytest.mark.parametrize("old", [b"", b"a good one"])
@pytest.mark.parametrize(
    "fault, words",
    [
        ("missing", "404"),
        ("error", "503"),
        ("page", "not a zip file"),
        ("empty", "not a zip file"),
        ("half", "not a zip file"),
        ("text", "not a zip file"),
        ("tsv.gz", "not the published one"),
        ("stored", "CRC"),
        ("deflated", "decompressing"),
    ],
)
def test_a_failed_download_is_one_sentence(server, fault, words, old, tmp_path, monkeypatch):
    for name, body in DAMAGED.items():
        monkeypatch.setitem(BODIES, name, body)
    path = tmp_path / "kept" / "fra-eng.zip"
    path.parent.mkdir()
    if old:
        path.write_bytes(old)
    check = check_cat if fault == "tsv.gz" else corpora.tatoeba_shape
    assert words in failure(path, f"{server}/{fault}/x", check=check)
    assert files_in(path.parent) == ["fra-eng.zip"] * bool(old)  # a failed download leaves a file
    assert not old or path.read_bytes() == old  # a good file was overwritten


def test_every_address_is_named_with_its_reason(server, tmp_path):
    urls = [f"{server}/missing/a", f"{server}/page/a", "http://127.0.0.1:9/x"]
    sentence = failure(tmp_path / "x" / "a.zip", *urls)
    assert sentence.count("http") == 3 and "404" in sentence and "not a zip" in sentence


@pytest.mark.parametrize("name", ["cut", "slow"])
def test_what_came_is_there_for_a_server_that_can_go_on(server, name, tmp_path, monkeypatch):
    path = tmp_path / "a.zip"
    with monkeypatch.context() as patch:
        patch.setattr(download, "TIMEOUT", 0.3 if name == "slow" else 20)
        failure(path, f"{server}/{name}/a.zip")
    first = (tmp_path / "a.zip.part").read_bytes()
    assert not path.exists() and first and WHOLE.startswith(first)
    tatoeba(path, f"{server}/good/a.zip")
    request = Answers.requests[-1][:2]
    assert request == ("good", len(first))  # the next try must go on where the last one stopped
    assert path.read_bytes() == WHOLE and files_in(tmp_path) == ["a.zip"]


def test_a_mirror_goes_on_where_the_first_stopped(server, tmp_path):
    Answers.broken["first"] = 1
    urls = [f"{server}/{name}/a" for name in ("missing", "first", "second")]
    tatoeba(tmp_path / "a.zip", *urls)
    assert [name for name, *_ in Answers.requests] == ["missing", "first", "second"]
    assert Answers.requests[-1][1] > 0 and (tmp_path / "a.zip").read_bytes() == WHOLE


@pytest.mark.parametrize("part", [b"another file's first half" * 9, WHOLE + b"more", WHOLE])
def test_an_old_part_never_spoils_a_file(server, part, tmp_path):
    (tmp_path / "a.zip.part").write_bytes(part)
    tatoeba(tmp_path / "a.zip", f"{server}/good/a.zip")
    assert (tmp_path / "a.zip").read_bytes() == WHOLE and files_in(tmp_path) == ["a.zip"]
    starts = [start for _, start, _ in Answers.requests]
    assert starts == [len(part)] + [0] * (part != WHOLE)  # from there, then from the beginning


def test_a_server_without_ranges_starts_again(server, tmp_path):
    (tmp_path / "a.zip.part").write_bytes(WHOLE[:100])
    tatoeba(tmp_path / "a.zip", f"{server}/good-noranges/a.zip")
    content = (tmp_path / "a.zip").read_bytes()
    assert content == WHOLE  # 200 sends everything: it must not be put behind the half


def test_a_mirror_gives_the_file_that_was_published(server, tmp_path):
    mirrors = [url for urls in corpora.MIRRORS.values() for url in urls]
    assert all("#sha1=" in url and url.startswith("https:") for url in mirrors)
    good = hashlib.sha1(WHOLE).hexdigest()
    sentence = failure(tmp_path / "a.zip", f"{server}/good/a#sha1={'0' * 40}")
    assert "SHA-1" in sentence and "#sha1" not in sentence
    assert tatoeba(tmp_path / "a.zip", f"{server}/good/a#sha1={good}").read_bytes() == WHOLE


# Three places -------------------------------------------------------------------------------------


def test_yours_first_then_the_cache_then_the_publisher(server, tmp_path, monkeypatch):
    dead, own = ["http://127.0.0.1:9/"], tmp_path / "own"
    cached = download.cached_file("x/good.zip", [f"{server}/good/"], corpora.tatoeba_shape)
    assert cached == tmp_path / "cache/transformer-lit/x/good.zip"
    assert download.cached_file("x/good.zip", dead, bool) == cached  # it is fetched again
    (own / "x").mkdir(parents=True)
    (own / "x/good.zip").write_bytes(b"mine, as it is")
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", str(own))
    assert download.cached_file("x/good.zip", dead, bool) == own / "x/good.zip"


def test_a_folder_that_is_named_and_not_there_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", str(tmp_path / "mistyped"))
    with pytest.raises(NotADirectoryError, match="mistyped"):
        download.find_cached("a")
