"""A server on this machine whose every path is one behavior, for what downloads."""

import gzip
import time
from http.server import BaseHTTPRequestHandler

import pytest
from helpers import serving, zipped


def archive(text="Go.\tVa !\tCC-BY\n" * 4000, member="fra.txt"):
    return zipped({"_about.txt": "made up", member: text})


WHOLE = archive()
BODIES = {
    "page": b"\n <!DOCTYPE html><html>moved</html>",
    "empty": b"",
    "half": WHOLE[: len(WHOLE) // 2],
    "text": b"no archive",
    "tsv.gz": gzip.compress(b"A dog.\n"),
}


class Answers(BaseHTTPRequestHandler):
    """`broken`: how often a path still breaks off; `requests`: path, first byte and accepted
    encoding of each."""

    broken, requests = {}, []

    def do_GET(self):
        name, _, ranges = self.path.strip("/").partition("/")[0].partition("-")
        start = int((self.headers["Range"] or "bytes=0-")[6:-1])
        self.requests.append((name, start, self.headers["Accept-Encoding"]))
        start = start if ranges != "noranges" else 0
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
        self.wfile.write(body[: len(body) // 2] if name in ("cut", "slow") or first else body)
        self.wfile.flush()
        if name == "slow":
            time.sleep(0.8)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch, tmp_path):
    monkeypatch.setattr(Answers, "broken", {})
    monkeypatch.setattr(Answers, "requests", [])
    with serving(Answers, monkeypatch, tmp_path / "cache") as address:
        yield address
