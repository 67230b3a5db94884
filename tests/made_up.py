"""A small corpus of made-up text for the tests of large runs: archives in statmt.org's formats from
a server here, a folder of pairs, a token store.

All text is made up from the pocket corpus; nothing is fetched from outside.
"""

import gzip
import hashlib
import http.server
import io
import lzma
import tarfile

import pytest
from helpers import serving
from test_data import put

from transformer_lit import pocket_corpus
from transformer_lit.corpora import published as corpora
from transformer_lit.recipes import prepare

PAIRS = [(p.english, p.french) for p in pocket_corpus.load_pocket()["train"]][:3000]
HELD = {
    "valid": [(e + " Really?", o) for e, o in PAIRS[:30]],
    "test": [(e + " Truly?", o) for e, o in PAIRS[30:60]],
}


# Archives as statmt.org has them ------------------------------------------------------------------


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
    return (
        '<refset setid="x" srclang="any">\n<doc>\n<p>\n'
        + "".join(
            f'<seg id="{n}">{line.replace("&", "&amp;")}</seg>\n' for n, line in enumerate(lines, 1)
        )
        + "</p></doc></refset>"
    ).encode()


def parallel(name, pairs, language):
    return {
        f"{name}.{language}": text(o for _, o in pairs),
        f"{name}.en": text(e for e, _ in pairs),
    }


def statmt(language):
    """Path -> content of the archives of WMT14, small; other languages stand in them too, as in the
    real ones."""
    cut = [PAIRS[:1000], PAIRS[1000:2000], PAIRS[2000:2500], PAIRS[2500:2700], PAIRS[2700:]]
    noisy = cut[1] + [
        ("Only English.", ""),
        ("one " * 120, "un " * 120),
        HELD["test"][3],
        PAIRS[7],
        ("Bad \x00 byte", "x"),
    ]
    other = parallel("training/europarl-v7.cs-en", [("A", "B")], "cs")
    found = {
        "wmt13/training-parallel-europarl-v7.tgz": tar(
            other | parallel(f"training/europarl-v7.{language}-en", cut[0], language)
        ),
        "wmt13/training-parallel-commoncrawl.tgz": tar(
            parallel(f"commoncrawl.{language}-en", noisy, language) | {
                "commoncrawl.annotation": b"x\n"
            }
        ),
        "wmt14/training-parallel-nc-v9.tgz": tar(
            parallel(f"training/news-commentary-v9.{language}-en", cut[2], language)
        ),
        "wmt13/training-parallel-un.tgz": tar(parallel("un/undoc.2000.fr-en", cut[3], "fr")),
        "wmt10/training-giga-fren.tar": tar(
            {
                name + ".gz": gzip.compress(content)
                for name, content in parallel("giga-fren.release2.fixed", cut[4], "fr").items()
            },
            "w",
        ),
    }
    sides = [[e for e, _ in HELD[part]] for part in HELD], [
        [o for _, o in HELD[part]] for part in HELD
    ]
    found["wmt13/test.tgz"] = tar(
        {
            "test/newstest2013-src.en.sgm": sgm(sides[0][0]),
            f"test/newstest2013-src.{language}.sgm": sgm(sides[1][0]),
        }
    )
    found["wmt14/test-full.tgz"] = tar(
        {
            f"test-full/newstest2014-{language}en-src.en.sgm": sgm(sides[0][1]),
            f"test-full/newstest2014-{language}en-ref.{language}.sgm": sgm(sides[1][1]),
        }
    )
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
            body = body[: len(body) // 2]
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def served(monkeypatch, tmp_path, request):
    language = getattr(request, "param", "de")
    monkeypatch.setattr(Statmt, "files", statmt(language))
    monkeypatch.setattr(Statmt, "asked", [])
    monkeypatch.setattr(Statmt, "cut", set())
    sums = {
        local: hashlib.md5(Statmt.files[remote]).hexdigest()
        for remote, local, *_ in corpora.NEWS.values()
    }
    monkeypatch.setattr(
        corpora, "published", lambda name: {"md5": sums[name], "bytes": 0} if name in sums else None
    )
    with serving(Statmt, monkeypatch, tmp_path / "cache") as address:
        monkeypatch.setattr(corpora, "STATMT", [address + "/"])
        yield language


# A folder of one's own ----------------------------------------------------------------------------


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
    rest = lines[lines[:20_000].rindex(b"\n") + 1 :]
    (corpus / "b.tsv.gz").write_bytes(gzip.compress(rest[:20_000].rpartition(b"\n")[0]))
    (corpus / "c.txt.xz").write_bytes(lzma.compress(rest[rest[:20_000].rindex(b"\n") + 1 :]))
    (corpus / "README.md").write_text("no corpus")
    return folder


@pytest.fixture(autouse=True)
def here(monkeypatch, own):
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", str(own))


def settings(own, **changes):
    return prepare.PreparationConfig(
        str(own / "mine-fr"), **{**dict(vocabulary=400, sample=400), **changes}
    )


@pytest.fixture(scope="module")
def store(own):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_LIT_DATA", str(own))
        return prepare.prepare_store(settings(own), own / "store")
