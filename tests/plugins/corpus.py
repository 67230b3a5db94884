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
from helpers import serving, zipped

from transformer_lit import pocket_corpus
from transformer_lit.corpora import published as corpora
from transformer_lit.recipes import prepare

PAIRS = [(p.english, p.french) for p in pocket_corpus.load_pocket()["train"]][:3000]
HELD = {
    "valid": [(e + " Really?", o) for e, o in PAIRS[:30]],
    "test": [(e + " Truly?", o) for e, o in PAIRS[30:60]],
}


def put_lines(folder, name, lines):
    "A gzipped text below a folder."
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(line + "\n" for line in lines).encode()))
    return path


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
    noisy = PAIRS[1000:2000] + [
        ("Only English.", ""),
        ("one " * 120, "un " * 120),
        HELD["test"][3],
        PAIRS[7],
        ("Bad \x00 byte", "x"),
    ]

    def packed(name, pairs, side=language, **more):
        return tar(parallel(name, pairs, side) | more)

    giga = parallel("giga-fren.release2.fixed", PAIRS[2700:], "fr").items()
    archives = {
        "wmt13/training-parallel-europarl-v7.tgz": tar(
            parallel("training/europarl-v7.cs-en", [("A", "B")], "cs")
            | parallel(f"training/europarl-v7.{language}-en", PAIRS[:1000], language)
        ),
        "wmt13/training-parallel-commoncrawl.tgz": packed(
            f"commoncrawl.{language}-en", noisy, annotation=b"x\n"
        ),
        "wmt14/training-parallel-nc-v9.tgz": packed(
            f"training/news-commentary-v9.{language}-en", PAIRS[2000:2500]
        ),
        "wmt13/training-parallel-un.tgz": packed("un/undoc.2000.fr-en", PAIRS[2500:2700], "fr"),
        "wmt10/training-giga-fren.tar": tar(
            {name + ".gz": gzip.compress(content) for name, content in giga}, "w"
        ),
    }
    tests = {
        "wmt13/test.tgz": ("valid", "test/newstest2013-src.en", "test/newstest2013-src"),
        "wmt14/test-full.tgz": (
            "test",
            f"test-full/newstest2014-{language}en-src.en",
            f"test-full/newstest2014-{language}en-ref",
        ),
    }
    for archive, (part, english, foreign) in tests.items():
        sides = zip(*HELD[part])
        names = f"{english}.sgm", f"{foreign}.{language}.sgm"
        archives[archive] = tar({name: sgm(side) for name, side in zip(names, sides)})
    return archives


class Statmt(http.server.BaseHTTPRequestHandler):
    files, requests, cut = {}, [], set()

    def do_GET(self):
        name = self.path.strip("/")
        start = int((self.headers["Range"] or "bytes=0-")[6:-1])
        self.requests.append((name, start))
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
    monkeypatch.setattr(Statmt, "requests", [])
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


# All corpora in small ----------------------------------------------------------------------------


def write_small_corpora(folder, n=9001):
    "Each corpus with sentences that stand in two parts, in other spellings."
    texts = {
        "multi30k/train": ["A dog.", "A cat.", "A cow."],
        "multi30k/val": ["a cat", "A hen."],
        "multi30k/test_2016_flickr": ["A HEN!", "A cow"],
        "newstest/en-{}/newstest2010": ["War.", "Peace.", "Rain."],
        "newstest/en-{}/newstest2013": ["peace", "Sun."],
        "newstest/en-{}/newstest2014": ["RAIN", "Sun!"],
    }
    for language, (file, member) in corpora.ARCHIVES.items():
        pairs = (f"Sentence {i % (n // 2)}{'.!'[i % 2]}\tPhrase {i // 2}.\n" for i in range(n))
        (folder / "tatoeba").mkdir(exist_ok=True, parents=True)
        (folder / "tatoeba" / file).write_bytes(zipped({f"folder/{member}": "".join(pairs)}))
        for name, english in texts.items():
            name = name.format(language)
            put_lines(folder, f"{name}.en.gz", english)
            foreign = [f"{name.rpartition('/')[2]} {i}" for i in range(len(english))]
            put_lines(folder, f"{name}.{language}.gz", foreign)


@pytest.fixture
def small_corpora(tmp_path, monkeypatch):
    write_small_corpora(tmp_path)
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", str(tmp_path))
    return tmp_path


# A folder of one's own ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own_folder(tmp_path_factory):
    "A data folder with made-up news tests, and a corpus of one's own in each of the formats."
    folder = tmp_path_factory.mktemp("own")
    for name, part in ("newstest2013", "valid"), ("newstest2014", "test"):
        for language, side in zip(("en", "fr"), zip(*HELD[part])):
            put_lines(folder, f"newstest/en-fr/{name}.{language}.gz", side)
    corpus = folder / "mine-fr"
    corpus.mkdir()
    lines = [f"{e}\t{o}" for e, o in PAIRS[:1200]]
    (corpus / "a.tsv").write_bytes(text(lines[:400]))
    (corpus / "b.tsv.gz").write_bytes(gzip.compress(text(lines[400:800]).rstrip()))
    (corpus / "c.txt.xz").write_bytes(lzma.compress(text(lines[800:])))
    (corpus / "README.md").write_text("no corpus")
    return folder


@pytest.fixture
def own(own_folder, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LIT_DATA", str(own_folder))
    return own_folder


def settings(folder, **changes):
    changes = {"vocabulary": 400, "sample": 400, **changes}
    return prepare.PreparationConfig(str(folder / "mine-fr"), **changes)


@pytest.fixture(scope="module")
def store(own_folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_LIT_DATA", str(own_folder))
        return prepare.prepare_store(settings(own_folder), own_folder / "store")
