"""Resumable downloads with checksums."""

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from tqdm import tqdm

from transformer_lit.corpora.files import cache_dir

Validate = Callable[[Path], object]  # raises OSError or ValueError for another file
TIMEOUT = 30  # seconds


def transfer(url: str, part: Path) -> None:
    """Bring `part` to its full length, going on from what it holds. Raises OSError, and then what
    came is kept.

    Status 206 sends the rest. 200 sends everything, whatever was asked, so it takes the place of
    the half. 416 means that there is nothing from there on: the file was whole, or what we have is
    longer and no part of it."""
    import requests  # on demand: translating a sentence needs no download

    size = part.stat().st_size if part.exists() else 0
    # servers like to compress on the way, and then byte 1000 means something else
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={size}-"} if size else {})
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
        if size and response.status_code == 416:
            if response.headers.get("Content-Range") == f"bytes */{size}":
                return
            part.unlink()
            return transfer(url, part)
        response.raise_for_status()
        is_rest = response.status_code == 206
        total = int(response.headers.get("Content-Length", 0)) + size * is_rest
        part.parent.mkdir(parents=True, exist_ok=True)
        with (
            open(part, "ab" if is_rest else "wb") as file,
            tqdm.wrapattr(
                file,
                "write",
                total or None,
                initial=size * is_rest,
                desc=part.stem,
                leave=False,
                disable=None,  # where there is no terminal
            ) as counted,
        ):
            for block in response.iter_content(1 << 13):
                counted.write(block)
            if file.tell() < total:
                raise ConnectionError(f"it broke off after {file.tell():,} of {total:,} bytes")


def fetch(url: str, part: Path, validate: Validate) -> None:
    """Transfer, then validate; a wrong file is deleted at once, so that nobody continues it.

    An address may carry the file's hash behind `#sha1=`, as pip's do. A file that was continued and
    is wrong may be two halves of two versions: it is fetched once more, from the beginning."""
    address, _, sha1 = url.partition("#sha1=")
    continued = part.exists()
    transfer(address, part)
    try:
        if sha1 and hashlib.sha1(part.read_bytes()).hexdigest() != sha1:
            raise OSError("its SHA-1 is not the published one")
        validate(part)
    except (OSError, ValueError):
        part.unlink()
        if not continued:
            raise
        fetch(url, part, validate)


def download(urls: Sequence[str], path: Path, validate: Validate) -> Path:
    """Fetch `path` from the first of `urls` that has it whole; a mirror goes on where the one
    before it stopped.

    It is written under another name and moved when it is validated: until then an older file stays
    as it was. Raises FileNotFoundError in one sentence that names every address with its reason,
    and what can be done."""
    part, failures = path.with_name(path.name + ".part"), []
    for url in urls:
        try:
            fetch(url, part, validate)
            os.replace(part, path)
            return path
        except (OSError, ValueError) as error:
            failures.append(f"{url.partition('#sha1=')[0]} ({short_reason(error)})")
    advice = "What came is kept for the next try. " if part.exists() else ""
    raise FileNotFoundError(
        f"{path.name} could not be fetched from {' or '.join(failures) or 'anywhere'}. {advice}"
        f"Download it yourself and put it at {path}, or at the same place in a folder that"
        " TRANSFORMER_LIT_DATA names instead of the cache."
    )


def short_reason(error: Exception) -> str:
    "Why a download failed, in a few words: what requests says fills a paragraph."
    from requests import RequestException

    if isinstance(error, RequestException):  # 404, or ConnectionError
        return getattr(error.response, "status_code", type(error).__name__)
    return str(error)


def find_cached(name: str) -> Path | None:
    """Where the file or folder, such as `tatoeba/fra-eng.zip`, lies, if it is here: in
    $TRANSFORMER_LIT_DATA, or else in the cache. A folder that is named and isn't there is an
    error."""
    own = os.path.expanduser(os.environ.get("TRANSFORMER_LIT_DATA", ""))
    if own and not Path(own).is_dir():
        raise NotADirectoryError(f"TRANSFORMER_LIT_DATA names {own}, which is no folder")
    paths = [Path(folder) / name for folder in (own, cache_dir()) if folder]
    return next((path for path in paths if path.exists()), None)


def cached_file(name: str, urls: Sequence[str], validate: Validate) -> Path:
    """The file: yours, as it is; the cache's; or else downloaded. Raises FileNotFoundError in one
    sentence."""
    return find_cached(name) or download(urls, cache_dir() / name, validate)
