"""Files from the network: whole or not at all, continued where they broke off, and found again
afterwards."""

# pooch transfers, shows a bar and hashes. It starts from the beginning each time, knows one address
# per file, and notices an answer that ends too early only where the libraries below it do. So four
# things are ours: going on where a download broke off, mirrors, the check before a file gets its
# name, and one sentence that says what to do when a file can't be had.
import errno
import os
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from transformer_lit.corpora.files import cache_dir, sha256_file, write_text
from transformer_lit.corpora.texts import small_enough

if TYPE_CHECKING:
    import requests

Check = Callable[[Path], object]  # raises OSError for a file that isn't what was asked for


def quiet_pooch():
    """The library, imported on demand, since translating a sentence needs no download; its notes on
    each file are off."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on bars in a notebook
        import pooch
    pooch.get_logger().setLevel("WARNING")
    return pooch


# What makes a file whole --------------------------------------------------------------------------


def whole_zip(path: Path) -> None:
    "Raises OSError unless every member of the zip is intact; its checksums are compared."
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():  # before it is unpacked
                small_enough(member.file_size, member.filename)
            bad = archive.testzip()
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError):
        raise OSError("what came is not a whole zip archive") from None
    if bad:
        raise OSError(f"{bad} in the archive is damaged")


def not_a_page(path: Path) -> None:
    """Raises OSError if a web page came where a file was asked for: the commonest wrong content,
    sent with the status of success."""
    with open(path, "rb") as file:
        start = file.read(256).lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        raise OSError("a web page came instead of the file")


def as_promised(path: Path, sha1: str) -> None:
    "Raises OSError unless the file has this SHA-1; an empty one allows any file."
    if sha1 and quiet_pooch().file_hash(path, "sha1") != sha1:
        raise OSError("its SHA-1 is not the published one")


# One transfer -------------------------------------------------------------------------------------


def from_byte(have: int = 0) -> dict[str, str]:
    """The headers that ask for a file from byte `have` on.

    Servers like to compress on the way, and then byte 1000 means something else: so the bytes are
    asked for as they are."""
    plain = {"Accept-Encoding": "identity"}
    return plain | {"Range": f"bytes={have}-"} if have else plain


class Transfer:
    """One file on its way from `url` into `part`, which may hold its beginning already.

    `answer` is what the server answered last: its status and headers; None before it has answered.
    """

    def __init__(self, url: str, part: Path, timeout: float = 30):
        self.url, self.part, self.timeout = url, part, timeout
        self.answer: "requests.Response | None" = None

    def size(self) -> int:
        "How many bytes are there; none if there is no file."
        return self.part.stat().st_size if self.part.exists() else 0

    def append(self) -> None:
        """Let pooch write behind what `part` holds.

        Status 206 sends the rest. 200 sends everything, whatever was asked, and then the half must
        go first: appended to it the file would be too long. requests calls a hook before it reads
        an answer, which is the moment to empty the file."""

        def look(answer, **_):
            self.answer = answer
            if answer.status_code == 200:  # everything is coming
                file.truncate(0)

        with open(self.part, "ab") as file:
            quiet_pooch().HTTPDownloader(
                headers=from_byte(file.tell()),
                hooks={"response": look},
                timeout=self.timeout,
                chunk_size=1 << 13,
                progressbar=sys.stderr.isatty(),
            )(self.url, file, None)

    def complete(self) -> None:
        "Append; ConnectionError unless all that the server announced has arrived."
        from requests.exceptions import ChunkedEncodingError

        have, broke = self.size(), False
        try:
            self.append()
        except ChunkedEncodingError:
            broke = True
        assert self.answer is not None
        got, total = self.size(), int(self.answer.headers.get("Content-Length", 0))
        if total and self.answer.status_code == 206:  # counted from where we asked
            total += have
        if broke or got < total:
            raise ConnectionError(
                f"it broke off after {got:,} bytes" + (f" of {total:,}" if total else "")
            )

    def can_go_on(self) -> bool:
        "Does the server go on from a half? One that sends everything each time doesn't."
        answer = self.answer
        return (
            answer is None
            or answer.status_code != 200
            or answer.headers.get("Accept-Ranges") == "bytes"
        )

    def run(self) -> None:
        """Bring `part` to its full length, from wherever it stops. Raises OSError.

        Then a half is kept if the server can go on from it, and deleted if not or if the disk is
        full. 416 means that there is nothing from there on: the file was whole, or what we have is
        longer and no part of it."""
        have, self.answer = self.size(), None
        try:
            self.complete()
        except OSError as error:
            if have and self.answer is not None and self.answer.status_code == 416:
                if self.answer.headers.get("Content-Range") == f"bytes */{have}":
                    return
                self.part.unlink()
                return self.run()
            if error.errno == errno.ENOSPC or not self.can_go_on() or not self.size():
                self.part.unlink(missing_ok=True)
            raise


# One file -----------------------------------------------------------------------------------------


def reason(error: Exception) -> str:
    """Why a download failed, in a few words: first what is known best, last what a library says,
    cut to fit a line."""
    from requests import exceptions as known

    answer = getattr(error, "response", None)
    if answer is not None:
        return f"the server says {answer.status_code} {answer.reason}"
    if getattr(error, "errno", None) == errno.ENOSPC:
        return "the disk is full"
    if "timed out" in str(error):
        return "the server fell silent"
    if isinstance(error, known.ConnectionError):
        return "no server answers there"
    return str(error).strip()[:120]


def fetch(url: str, part: Path, check: Check, timeout: float = 30) -> None:
    """Transfer, then check; what is wrong is deleted at once, so that nobody continues it. Raises
    OSError.

    An address may carry the file's hash behind `#sha1=`, as pip's do. A file that was continued and
    fails its check may be two halves of two versions: it is fetched once more, from the
    beginning."""
    address, _, promised = url.partition("#sha1=")
    continued = part.exists()
    Transfer(address, part, timeout).run()
    try:
        not_a_page(part)
        as_promised(part, promised)
        check(part)
    except OSError:
        part.unlink()
        if not continued:
            raise
        fetch(url, part, check, timeout)


def download(
    urls: str | Sequence[str], path: Path, check: Check = whole_zip, timeout: float = 30
) -> Path:
    """Fetch `path` from the first of `urls` that has it whole; a mirror goes on where the one
    before it stopped.

    It is written under another name and moved when it has passed `check`: until then an older file
    stays as it was. Raises FileNotFoundError in one sentence that names every address with its
    reason, and what can be done."""
    part, failed = path.with_name(path.name + ".part"), []
    new = [folder for folder in path.parents if not folder.exists()]
    for url in [urls] if isinstance(urls, str) else urls:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fetch(url, part, check, timeout)
            os.replace(part, path)
            return path
        except (OSError, ValueError) as error:
            failed.append(f"{url.partition('#sha1=')[0]} ({reason(error)})")
    kept = "What came is kept, and the next try goes on from there. " if part.exists() else ""
    for folder in () if kept else filter(Path.exists, new):
        folder.rmdir()  # as if nothing had been tried
    raise FileNotFoundError(
        f"{path.name} could not be fetched from {' or '.join(failed) or 'anywhere'}. {kept}Download"
        f" it yourself and put it at {path}, or set TRANSFORMER_LIT_DATA to a folder that holds"
        f" {path.parent.name}/{path.name}."
    ) from None


# Three places -------------------------------------------------------------------------------------


def places() -> list[Path]:
    """Where files are looked for: $TRANSFORMER_LIT_DATA, then the cache. A folder that is named and
    isn't there is an error."""
    own = os.environ.get("TRANSFORMER_LIT_DATA")
    own = own and os.path.expanduser(own)  # an unknown ~name stays as it is
    if own and not Path(own).is_dir():
        raise NotADirectoryError(f"TRANSFORMER_LIT_DATA names {own}, which is no folder")
    return ([Path(own)] if own else []) + [cache_dir()]


def find_cached(name: str) -> Path | None:
    "Where the file or folder, such as `tatoeba/fra-eng.zip`, lies on this machine, if it does."
    found = (place / name for place in places())
    return next((path for path in found if path.exists()), None)


def recorded() -> dict[str, str]:
    """File -> its hash when it was fetched, from the list in the cache's own folder, which
    `sha256sum -c` can read."""
    sums = cache_dir() / "SHA256SUMS"
    text = sums.read_bytes() if sums.is_file() else b""
    lines = text.decode("utf-8", "replace").splitlines()
    return {line[66:]: line[:64] for line in lines}


def keep_hash(name: str) -> None:
    """Write down the hash of a file of the cache: the only way to say later whether it is still the
    one that was fetched."""
    sums = recorded() | {name: sha256_file(cache_dir() / name)}
    write_text(cache_dir() / "SHA256SUMS", "".join(f"{sums[n]}  {n}\n" for n in sorted(sums)))


def cached_file(name: str, urls: str | Sequence[str], check: Check = whole_zip) -> Path:
    """The file: yours, the cache's, or else downloaded and its hash recorded. Raises
    FileNotFoundError in one sentence.

    What lies in your own folder is taken as it is, since you put it there."""
    path = find_cached(name)
    if path is None:
        path = download(urls, cache_dir() / name, check)
        keep_hash(name)
    return path
