"""Downloads that fail in every way, from a server on this machine: whole or not at all, and one
sentence that says what to do."""

import errno
import hashlib
import io
import logging
import warnings
import zipfile
from types import SimpleNamespace
from unittest import mock

import pooch
import pytest
import requests
from helpers import one_sentence, zipped
from web_server import BODIES, WHOLE, Answers, archive, server  # noqa: F401

from transformer_lit.corpora import download, published as corpora
from transformer_lit.corpora.download import Transfer


def fails(urls, path, check=download.whole_zip):
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


# What makes a file whole --------------------------------------------------------------------------


def test_a_whole_zip_and_one_wrong_bit(tmp_path):
    path = tmp_path / "a.zip"
    path.write_bytes(zipped({"a.txt": "abc" * 50}))
    assert download.whole_zip(path) is None
    spoilt = bytearray(path.read_bytes())
    spoilt[40] ^= 1  # one bit of the text, the zip's frame untouched
    path.write_bytes(spoilt)
    with pytest.raises(OSError, match="^a.txt in the archive is damaged$"):
        download.whole_zip(path)


def test_a_page_is_no_file(tmp_path):
    path = tmp_path / "a"
    for text in ("\n<HTML>We have moved.</html>", "  <!DOCTYPE html>"):
        path.write_text(text)
        with pytest.raises(OSError, match="^a web page came instead of the file$"):
            download.not_a_page(path)
    path.write_text("1 < 2 <html>")
    assert download.not_a_page(path) is None


# What is said, and what is left -------------------------------------------------------------------


@pytest.mark.parametrize("good_before", [False, True])
@pytest.mark.parametrize(
    "fault, words",
    [
        ("missing", "the server says 404"),
        ("error", "the server says 503"),
        ("page", "a web page came instead of the file"),
        ("empty", "not a whole zip"),
        ("half", "not a whole zip"),
        ("text", "not a whole zip"),
        ("cut-noranges", "it broke off after"),
        ("slow-noranges", "fell silent"),
        ("tsv.gz", "SHA-256 of its text"),
        ("stored", "is damaged"),
        ("deflated", "not a whole zip"),
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
        f"{server}/{fault}/x", path, another if fault == "tsv.gz" else download.whole_zip
    )
    left = [p.name for p in path.parent.glob("*")]
    assert left == ["fra-eng.zip"] * good_before, f"a failed download leaves {left}"
    assert not good_before or path.read_bytes() == b"a good one", "a good file was overwritten"
    assert (
        good_before or not path.parent.exists()
    ), "a folder that was made for nothing is taken away again"


def test_a_server_that_is_gone(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert "no server answers" in fails("http://127.0.0.1:9/x", tmp_path / "a.zip")
    assert "a.zip" in fails("no address at all", tmp_path / "a.zip")
    assert "fetched from anywhere" in fails([], tmp_path / "a.zip")
    assert not list(tmp_path.iterdir())


def test_the_sentence_names_every_address_and_what_to_do(server, tmp_path):  # noqa: F811
    said = fails(
        [f"{server}/missing/a", f"{server}/cut-noranges/a"], tmp_path / "tatoeba" / "fra-eng.zip"
    )
    assert (
        said.count("http") == 2
        and "holds tatoeba/fra-eng.zip" in said
        and "What came is kept" not in said
    )


def test_the_reason_is_the_best_known_one():
    full = OSError(errno.ENOSPC, "No space left on device")
    silent = requests.ConnectionError("HTTPConnectionPool: Read timed out.")
    nobody = requests.ConnectionError("Max retries exceeded (Caused by ...)")
    refused = requests.HTTPError("x", response=SimpleNamespace(status_code=403, reason="Forbidden"))
    assert [download.reason(e) for e in (full, silent, nobody, refused, OSError("x" * 500))] == [
        "the disk is full",
        "the server fell silent",
        "no server answers there",
        "the server says 403 Forbidden",
        "x" * 120,
    ]


@pytest.mark.parametrize("name", ["cut", "slow"])
def test_what_came_is_kept_where_the_server_can_go_on(server, name, tmp_path):  # noqa: F811
    path = tmp_path / "a.zip"
    said = fails(f"{server}/{name}/a.zip", path)
    assert (
        ". What came is kept, and the next try goes on from there. Download it yourself and put"
        " it at "
        in said
    )
    assert not path.exists()
    half = (tmp_path / "a.zip.part").read_bytes()
    assert half and WHOLE.startswith(half), "half a file under another name, for the next try"
    download.download(f"{server}/good/a.zip", path)
    assert Answers.asked[-1][:2] == (
        "good",
        len(half),
    ), "the next try must go on where the last one stopped"
    assert path.read_bytes() == WHOLE and [p.name for p in tmp_path.iterdir()] == ["a.zip"]


def test_a_mirror_goes_on_where_the_first_stopped(server, tmp_path):  # noqa: F811
    Answers.broken["first"] = 1
    download.download(
        [f"{server}/missing/a", f"{server}/first/a", f"{server}/second/a"], tmp_path / "a.zip"
    )
    assert [name for name, *_ in Answers.asked] == ["missing", "first", "second"] and Answers.asked[
        -1
    ][1] > 0
    assert (tmp_path / "a.zip").read_bytes() == WHOLE
    said = fails([f"{server}/missing/a", f"{server}/page/a"], tmp_path / "b.zip")
    assert "404" in said and "web page" in said, "every address is named with its reason"


@pytest.mark.parametrize("half", [b"another file's first half", WHOLE + b"more", WHOLE])
def test_an_old_half_never_spoils_a_file(server, half, tmp_path):  # noqa: F811
    (tmp_path / "a.zip.part").write_bytes(half)
    download.download(f"{server}/good/a.zip", tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == WHOLE and len(list(tmp_path.iterdir())) == 1
    starts = [start for _, start, _ in Answers.asked]
    assert starts == (
        [len(half)] if half == WHOLE else [len(half), 0]
    ), "asked from there, then from the beginning, or left as it is"


def test_a_server_without_ranges_starts_again(server, tmp_path):  # noqa: F811
    (tmp_path / "a.zip.part").write_bytes(WHOLE[:100])
    download.download(f"{server}/good-noranges/a.zip", tmp_path / "a.zip")
    assert (
        tmp_path / "a.zip"
    ).read_bytes() == WHOLE, "200 sends everything: it must not be put behind the half"


def test_a_full_disk(server, tmp_path, monkeypatch):  # noqa: F811
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Transfer, "append", full)
    (tmp_path / "a.zip.part").write_bytes(WHOLE[:100])
    assert "the disk is full" in fails(f"{server}/good/a.zip", tmp_path / "a.zip")
    assert not list(tmp_path.iterdir()), "on a full disk nothing half is kept"


def test_ctrl_c_keeps_the_half(server, tmp_path, monkeypatch):  # noqa: F811
    iter_content = requests.Response.iter_content

    def stopped(answer, chunk_size):
        yield next(iter_content(answer, chunk_size))
        raise KeyboardInterrupt

    monkeypatch.setattr(requests.Response, "iter_content", stopped)
    with pytest.raises(KeyboardInterrupt):
        download.download(f"{server}/good/a.zip", tmp_path / "a.zip")
    half = (tmp_path / "a.zip.part").stat().st_size
    monkeypatch.setattr(requests.Response, "iter_content", iter_content)
    download.download(f"{server}/good/a.zip", tmp_path / "a.zip")
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
        download.download(f"{server}/good/a#sha1={good}", tmp_path / "a.zip").read_bytes() == WHOLE
    )


# One transfer -------------------------------------------------------------------------------------


def test_bytes_are_asked_for_as_they_are(server, tmp_path):  # noqa: F811
    assert download.from_byte() == {
        "Accept-Encoding": "identity"
    }, "with nothing in hand any server understands the question"
    assert download.from_byte(1000) == {"Accept-Encoding": "identity", "Range": "bytes=1000-"}
    part, statuses = tmp_path / "part", []
    for name in "good", "good-noranges":
        part.write_bytes(WHOLE[:100])
        transfer = Transfer(f"{server}/{name}/x", part)
        transfer.append()
        statuses.append(transfer.answer.status_code)
        assert part.read_bytes() == WHOLE, f"{name} gave another file"
    assert statuses == [206, 200] and Answers.asked == [("good", 100, "identity")] * 2


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_only_where_somebody_looks(terminal, tmp_path, monkeypatch):
    err = io.StringIO()
    err.isatty = lambda: terminal
    monkeypatch.setattr("sys.stderr", err)
    with mock.patch("pooch.HTTPDownloader") as given:
        Transfer("x", tmp_path / "part", 7).append()
    assert given.call_args.kwargs["progressbar"] is terminal, "a bar where nobody looks, or none"
    assert given.call_args.kwargs["timeout"] == 7 and given.call_args.kwargs["chunk_size"] == 8192


def test_pooch_is_quiet_and_warnings_are_as_before():
    pooch.get_logger().setLevel("INFO")
    before = list(warnings.filters)
    assert download.quiet_pooch() is pooch and warnings.filters == before
    assert pooch.get_logger().level == logging.WARNING
    with mock.patch("warnings.simplefilter") as given:
        download.quiet_pooch()
    given.assert_called_once_with("ignore")


@pytest.mark.parametrize(
    "sent, status, broke, length, said",
    [
        (b"efghij", 206, False, 6, None),
        (b"efgh", 206, False, 6, "it broke off after 8 bytes of 10"),
        (b"ef", 200, False, 6, None),
        (b"e", 200, False, 6, "it broke off after 5 bytes of 6"),
        (b"ef", 206, False, None, None),
        (b"ef", 206, True, None, "it broke off after 6 bytes"),
    ],
)
def test_all_that_was_announced_must_arrive(
    sent, status, broke, length, said, tmp_path, monkeypatch
):
    def append(self):
        self.part.write_bytes(self.part.read_bytes() + sent)
        self.answer = SimpleNamespace(
            status_code=status, headers={"Content-Length": str(length)} if length else {}
        )
        if broke:
            raise requests.exceptions.ChunkedEncodingError

    monkeypatch.setattr(Transfer, "append", append)
    part = tmp_path / "part"
    part.write_bytes(b"abcd")
    if said is None:
        return Transfer("x", part).complete()
    with pytest.raises(ConnectionError) as caught:
        Transfer("x", part).complete()
    assert str(caught.value) == said


def test_a_half_that_no_answer_touched_is_left_alone(server, tmp_path):  # noqa: F811
    left = tmp_path / "x.part"
    for name in "cut-noranges", "missing":
        with pytest.raises(OSError):
            Transfer(f"{server}/{name}/x", left).run()
        assert not left.exists(), f"{name} left a half"
    left.write_bytes(WHOLE[:9])
    with pytest.raises(OSError, match="404"):
        Transfer(f"{server}/missing/x", left).run()
    assert left.read_bytes() == WHOLE[:9], "no answer, no harm"


@pytest.mark.parametrize("empty", [True, False])
def test_416_with_nothing_in_hand_is_an_error_and_leaves_nothing(empty, tmp_path, monkeypatch):
    def refuse(self):
        self.answer = SimpleNamespace(status_code=416, headers={})
        raise OSError("416")

    monkeypatch.setattr(Transfer, "complete", refuse)
    left = tmp_path / "x.part"
    if empty:
        left.write_bytes(b"")
    with pytest.raises(OSError, match="416"):
        Transfer("x", left).run()
    assert not left.exists()


def test_a_silent_server_is_waited_for_half_a_minute():
    for waits in Transfer.__init__, download.fetch, download.download:
        assert waits.__defaults__[-1] == 30, f"{waits.__qualname__}: seconds"
    assert download.download.__defaults__[0] is download.whole_zip


# Three places -------------------------------------------------------------------------------------


def test_a_download_is_fresh_and_says_nothing(server, tmp_path, capsys):  # noqa: F811
    (tmp_path / "one.zip.part").write_bytes(archive("an older try\n"))
    for name in "one.zip", "two.zip":
        assert download.download(f"{server}/good/{name}", tmp_path / name) == tmp_path / name
        assert (
            tmp_path / name
        ).read_bytes() == WHOLE, "what came is not what the server has: was an older try kept?"
    said = capsys.readouterr()
    assert not said.out + said.err, "with no terminal there is no bar"


def test_yours_first_then_the_cache_then_the_publisher(server, tmp_path, monkeypatch):  # noqa: F811
    dead = "http://127.0.0.1:9/"
    assert download.find_cached("x/good.zip") is None
    kept = download.cached_file("x/good.zip", f"{server}/good/")
    assert kept == tmp_path / "cache/transformer-lit/x/good.zip" and kept.read_bytes() == WHOLE
    assert [p.name for p in kept.parent.iterdir()] == [
        "good.zip"
    ], "a download leaves only the file that was asked for"
    assert (
        download.cached_file("x/good.zip", dead) == kept == download.find_cached("x/good.zip")
    ), "what is in the cache is not fetched again"
    assert download.recorded() == {"x/good.zip": hashlib.sha256(WHOLE).hexdigest()}
    own = tmp_path / "own"
    (own / "x").mkdir(parents=True)
    (own / "x/good.zip").write_bytes(b"mine, as it is")
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", str(own))
    assert (
        download.cached_file("x/good.zip", dead) == own / "x/good.zip"
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


def test_the_list_of_hashes_is_what_sha256sum_reads(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "transformer-lit"
    folder.mkdir()
    assert download.recorded() == {}
    for name in "b", "a", "b":
        (folder / name).write_text(name)
        download.keep_hash(name)
    one, two = (hashlib.sha256(name).hexdigest() for name in (b"a", b"b"))
    assert (folder / "SHA256SUMS").read_text() == f"{one}  a\n{two}  b\n"
    assert list(download.recorded().items()) == [("a", one), ("b", two)]
