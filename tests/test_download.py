"""Downloads that fail in every way, from a server on this machine: whole or not at all, and one
sentence that says what to do."""

import hashlib
import zipfile
from functools import partial

import pytest
import requests
from helpers import one_sentence, zipped
from web_server import BODIES, WHOLE, Answers, archive, server  # noqa: F401

from transformer_lit.corpora import download, published as corpora


tatoeba = partial(download.download, validate=corpora.tatoeba_shape)


def fails(urls, path, check=corpora.tatoeba_shape):
    timeout = 0.3 if "/slow" in str(urls) else 20  # a busy machine is slow as well
    with pytest.raises(FileNotFoundError) as caught:
        download.download(urls, path, check, timeout)
    assert one_sentence(str(caught.value)) and str(path) in str(caught.value)
    assert "TRANSFORMER_LIT_DATA" in str(caught.value)
    return str(caught.value)


def another(path):
    row = {"md5": "", "bytes": 7, "sha256": hashlib.sha256(b"A cat.\n").hexdigest()}
    corpora.verify_published(path, row)


def damaged(kind):
    "An archive with a wrong byte in its text."
    whole = zipped({"fra.txt": "".join(f"line {n * n}\tligne {n}\n" for n in range(300))}, kind)
    place = (
        37 if kind == zipfile.ZIP_DEFLATED else len(whole) // 2
    )  # 37: the compressed text's first byte, a wrong one
    return whole[:place] + b"\x07" + whole[place + 1 :]


DAMAGED = {"stored": damaged(zipfile.ZIP_STORED), "deflated": damaged(zipfile.ZIP_DEFLATED)}


# What is said, and what is left -------------------------------------------------------------------


@pytest.mark.parametrize("good_before", [False, True])
@pytest.mark.parametrize(
    "fault, words",
    [
        ("missing", "the server says 404"),
        ("error", "the server says 503"),
        ("page", "not a zip file"),
        ("empty", "not a zip file"),
        ("half", "not a zip file"),
        ("text", "not a zip file"),
        ("tsv.gz", "is not the published one"),
        ("stored", "Bad CRC-32"),
        ("deflated", "Error -3 while decompressing"),
    ],
)
def test_a_failed_download_is_one_sentence(
    server, fault, words, good_before, tmp_path, monkeypatch
):  # noqa: F811
    for name, body in DAMAGED.items():
        monkeypatch.setitem(BODIES, name, body)
    path = tmp_path / "kept" / "fra-eng.zip"
    if good_before:
        path.parent.mkdir()
        path.write_bytes(b"a good one")
    assert words in fails(
        f"{server}/{fault}/x", path, another if fault == "tsv.gz" else corpora.tatoeba_shape
    )
    left = [p.name for p in path.parent.glob("*")]
    assert left == ["fra-eng.zip"] * good_before, f"a failed download leaves {left}"
    assert not good_before or path.read_bytes() == b"a good one", "a good file was overwritten"


def test_a_server_that_is_gone(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert "no server answers" in fails("http://127.0.0.1:9/x", tmp_path / "a.zip")
    assert "a.zip" in fails("no address at all", tmp_path / "a.zip")
    assert "fetched from anywhere" in fails([], tmp_path / "a.zip")
    assert not list(tmp_path.iterdir())


def test_the_sentence_names_every_address_and_what_to_do(server, tmp_path):  # noqa: F811
    said = fails(
        [f"{server}/missing/a", f"{server}/page/a"], tmp_path / "tatoeba" / "fra-eng.zip"
    )
    assert (
        said.count("http") == 2
        and "holds tatoeba/fra-eng.zip" in said
        and "What came is kept" not in said
    )


@pytest.mark.parametrize("name", ["cut", "slow"])
def test_what_came_is_kept_where_the_server_can_go_on(server, name, tmp_path):  # noqa: F811
    path = tmp_path / "a.zip"
    said = fails(f"{server}/{name}/a.zip", path)
    assert "fell silent" in said if name == "slow" else "it broke off" in said
    assert ". What came is kept for the next try. Download it yourself and put it at " in said
    assert not path.exists()
    half = (tmp_path / "a.zip.part").read_bytes()
    assert half and WHOLE.startswith(half), "half a file under another name, for the next try"
    tatoeba(f"{server}/good/a.zip", path)
    assert Answers.asked[-1][:2] == (
        "good",
        len(half),
    ), "the next try must go on where the last one stopped"
    assert path.read_bytes() == WHOLE and [p.name for p in tmp_path.iterdir()] == ["a.zip"]


def test_a_mirror_goes_on_where_the_first_stopped(server, tmp_path):  # noqa: F811
    Answers.broken["first"] = 1
    tatoeba(
        [f"{server}/missing/a", f"{server}/first/a", f"{server}/second/a"], tmp_path / "a.zip"
    )
    assert [name for name, *_ in Answers.asked] == ["missing", "first", "second"] and Answers.asked[
        -1
    ][1] > 0
    assert (tmp_path / "a.zip").read_bytes() == WHOLE
    said = fails([f"{server}/missing/a", f"{server}/page/a"], tmp_path / "b.zip")
    assert "404" in said and "not a zip" in said, "every address is named with its reason"


@pytest.mark.parametrize("half", [b"another file's first half" * 9, WHOLE + b"more", WHOLE])
def test_an_old_half_never_spoils_a_file(server, half, tmp_path):  # noqa: F811
    (tmp_path / "a.zip.part").write_bytes(half)
    tatoeba(f"{server}/good/a.zip", tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == WHOLE and len(list(tmp_path.iterdir())) == 1
    starts = [start for _, start, _ in Answers.asked]
    assert starts == (
        [len(half)] if half == WHOLE else [len(half), 0]
    ), "asked from there, then from the beginning, or left as it is"


def test_a_server_without_ranges_starts_again(server, tmp_path):  # noqa: F811
    (tmp_path / "a.zip.part").write_bytes(WHOLE[:100])
    tatoeba(f"{server}/good-noranges/a.zip", tmp_path / "a.zip")
    assert (
        tmp_path / "a.zip"
    ).read_bytes() == WHOLE, "200 sends everything: it must not be put behind the half"


def test_ctrl_c_keeps_the_half(server, tmp_path, monkeypatch):  # noqa: F811
    iter_content = requests.Response.iter_content

    def stopped(answer, chunk_size):
        yield next(iter_content(answer, chunk_size))
        raise KeyboardInterrupt

    monkeypatch.setattr(requests.Response, "iter_content", stopped)
    with pytest.raises(KeyboardInterrupt):
        tatoeba(f"{server}/good/a.zip", tmp_path / "a.zip")
    half = (tmp_path / "a.zip.part").stat().st_size
    monkeypatch.setattr(requests.Response, "iter_content", iter_content)
    tatoeba(f"{server}/good/a.zip", tmp_path / "a.zip")
    assert (
        0 < half
        and Answers.asked[-1][:2] == ("good", half)
        and (tmp_path / "a.zip").read_bytes() == WHOLE
    )


def test_a_mirror_gives_the_file_that_was_published(server, tmp_path):  # noqa: F811
    assert all(
        "#sha1=" in url and url.startswith("https:")
        for urls in corpora.MIRRORS.values()
        for url in urls
    )
    good, other = hashlib.sha1(WHOLE).hexdigest(), "0" * 40
    said = fails(f"{server}/good/a#sha1={other}", tmp_path / "a.zip")
    assert "its SHA-1 is not the published one" in said and "#sha1" not in said
    assert (
        tatoeba(f"{server}/good/a#sha1={good}", tmp_path / "a.zip").read_bytes() == WHOLE
    )


# Three places -------------------------------------------------------------------------------------


def test_a_download_is_fresh_and_says_nothing(server, tmp_path, capsys):  # noqa: F811
    (tmp_path / "one.zip.part").write_bytes(archive("an older try\n"))
    for name in "one.zip", "two.zip":
        assert tatoeba(f"{server}/good/{name}", tmp_path / name) == tmp_path / name
        assert (
            tmp_path / name
        ).read_bytes() == WHOLE, "what came is not what the server has: was an older try kept?"
    said = capsys.readouterr()
    assert not said.out + said.err, "with no terminal there is no bar"


def test_yours_first_then_the_cache_then_the_publisher(server, tmp_path, monkeypatch):  # noqa: F811
    dead = "http://127.0.0.1:9/"
    assert download.find_cached("x/good.zip") is None
    kept = download.cached_file("x/good.zip", f"{server}/good/", corpora.tatoeba_shape)
    assert kept == tmp_path / "cache/transformer-lit/x/good.zip" and kept.read_bytes() == WHOLE
    assert [p.name for p in kept.parent.iterdir()] == [
        "good.zip"
    ], "a download leaves only the file that was asked for"
    assert (
        download.cached_file("x/good.zip", dead, bool) == kept == download.find_cached("x/good.zip")
    ), "what is in the cache is not fetched again"
    own = tmp_path / "own"
    (own / "x").mkdir(parents=True)
    (own / "x/good.zip").write_bytes(b"mine, as it is")
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", str(own))
    assert (
        download.cached_file("x/good.zip", dead, bool) == own / "x/good.zip"
    ), "the reader's own folder comes before the cache"
    assert download.places() == [own, tmp_path / "cache/transformer-lit"]


def test_a_folder_that_is_named_and_not_there_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", str(tmp_path / "mistyped"))
    with pytest.raises(NotADirectoryError, match="mistyped, which is no folder"):
        download.find_cached("a")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "corpora").mkdir()
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", "~/corpora")
    assert download.places()[0] == tmp_path / "corpora"
