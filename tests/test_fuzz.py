"""Spoilt command lines and spoilt files: for each an exit status, one sentence, no traceback,
nothing changed, memory under 2 GB.

Every file that a command reads is spoilt in every way of SPOILS, and some in ways of their own. A
group of cases runs in one child process (torch is imported once), which writes what came out; then
all of it is judged. `python tests/test_fuzz.py GROUP FOLDER` is that child."""

import contextlib
import gzip
import hashlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import traceback
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STATUSES = {
    0: "done",
    1: "a mistake, in one sentence",
    2: "a wrong option",
    75: "the time was up",
    130: "Ctrl-C",
}
SECONDS, MEMORY = 40, 2_000  # for one case; megabytes of a whole child

NOISE = random.Random(1).randbytes(3000)
SPOILS = {
    "empty": lambda old: b"",
    "half": lambda old: old[: len(old) // 2],
    "last byte gone": lambda old: old[:-1],
    "noise": lambda old: NOISE,
    "noise inside": lambda old: old[: len(old) // 3] + NOISE[:50] + old[len(old) // 3 + 50 :],
    "a web page": lambda old: b"<!DOCTYPE html><html>moved</html>",
    "zeros": lambda old: bytes(5000),
    "mark": lambda old: b"\xef\xbb\xbf" + old,
    "utf-16": lambda old: old.decode("latin-1").encode("utf-16"),
    "latin-1": lambda old: old + "\n\xe9t\xe9\n".encode("latin-1"),
    "crlf": lambda old: old.replace(b"\n", b"\r\n"),
    "null": lambda old: b"null",
    "list": lambda old: b"[1, 2]",
    "object": lambda old: b"{}",
    "number": lambda old: b"1e999",
    "nan": lambda old: b"NaN",
    "digits": lambda old: b"9" * 6000,
    "deep": lambda old: b"[" * 100_000,
    "text": lambda old: b'"words"',
}
PLACES = ("a folder", "a link to nothing", "a link to itself", "gone", "unreadable")


def place(path, what):
    "Something else than a file stands there."
    path.unlink()
    if what == "a folder":
        path.mkdir()
    elif what == "a link to nothing":
        path.symlink_to("nowhere")
    elif what == "a link to itself":
        path.symlink_to(path.name)


def spoil(path, how):
    if how in SPOILS:
        path.write_bytes(SPOILS[how](path.read_bytes()))
    elif how == "unreadable":
        path.chmod(0)
    elif how in PLACES:
        place(path, how)
    else:
        path.write_bytes(how(path.read_bytes()) if callable(how) else how)


def edited(**changes):
    "Some fields of a JSON file, by dotted names; None takes one away."

    def edit(old):
        record = json.loads(old)
        for name, value in changes.items():
            *way, last = name.split("__")
            part = record
            for step in way:
                part = part[int(step)] if isinstance(part, list) else part[step]
            if value is None:
                del part[last]
            else:
                part[last] = value
        return json.dumps(record).encode()

    return edit


# What the child does ------------------------------------------------------------------------------

PAIRS = [
    (f"{a} {v} {end}.", f"{b} {w} {end}.")
    for a, b in zip("I you we they he she".split(), "je tu nous ils il elle".split())
    for v, w in zip(
        "eat see know find take give make read".split(),
        "mange vois sais trouve prends donne fais lis".split(),
    )
    for end in ("x", "y", "z")
]
TINY = dict(d_model=8, n_heads=2, d_ff=8, n_encoder_layers=1, n_decoder_layers=1)


def packed(lines):
    return gzip.compress("".join(line + "\n" for line in lines).encode())


def corpora(home):
    "All corpora in small, in the layout of a data folder."
    for language, member in ("fr", "fra.txt"), ("de", "deu.txt"):
        (home / "tatoeba").mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(
            home / "tatoeba" / f"{member[:3]}-eng.zip", "w", zipfile.ZIP_DEFLATED
        ) as file:
            file.writestr(zipfile.ZipInfo(member), "".join(f"{a}\t{b}\tCC-BY\n" for a, b in PAIRS))
        for part in "train", "val", "test_2016_flickr":
            (home / "multi30k").mkdir(exist_ok=True)
            for side, k in ("en", 0), (language, 1):
                (home / "multi30k" / f"{part}.{side}.gz").write_bytes(
                    packed(pair[k] + part for pair in PAIRS[:4])
                )
        (home / "newstest" / f"en-{language}").mkdir(parents=True, exist_ok=True)
        for year in "2013", "2014":
            for side, k in ("en", 0), (language, 1):
                (home / "newstest" / f"en-{language}" / f"newstest{year}.{side}.gz").write_bytes(
                    packed(pair[k] + year for pair in PAIRS[:4])
                )


def patched():
    "Small models, small test sets, and answers that take no time."
    from transformer_lit import data, translation
    from transformer_lit.recipes import recipes

    data.split_by_source.__defaults__ = (3, 3, 1)
    recipes.SMALL.update(TINY)
    short = lambda model, ids, beam_size, batch_size, precision="fp32", **_: [i[:3] for i in ids]
    translation.translate_ids = short


def tree(folder):
    "Every path below with what it holds."
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = "link " + os.readlink(path)
        elif path.is_file():
            found[name] = (
                hashlib.sha256(path.read_bytes()).hexdigest()
                if os.access(path, os.R_OK)
                else "unreadable"
            )
        else:
            found[name] = "folder"
    return found


class Late(BaseException):
    pass


def late(*_):
    raise Late()


def run(command, home, stdin=b""):
    "Status, output and changes of one command in one folder."
    from transformer_lit import cli

    words = [word.replace("{home}", str(home)) for word in command]
    before, out, err = tree(home), io.StringIO(), io.StringIO()
    kept, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    os.chdir(home)
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cli.main(words)
    except SystemExit as end:
        status = end.code
    except Late:
        status = f"over {SECONDS} s"
    except BaseException:
        status = traceback.format_exc()[-900:]
    finally:
        signal.alarm(0)
        sys.stdin = kept
    after = tree(home)
    changed = sorted(name for name in {**before, **after} if before.get(name) != after.get(name))
    return {"status": status, "out": out.getvalue(), "err": err.getvalue(), "changed": changed}


def child(group, folder):
    "Run all cases of a group; results to results.json."
    from transformer_lit.runtime.memory import peak_memory_mb

    signal.signal(signal.SIGALRM, late)
    patched()
    whole, found = folder / "whole", []
    os.environ.update(
        TRANSFORMER_LIT_DATA=str(folder / "now" / "data"),
        XDG_CACHE_HOME=str(folder / "now" / "cache"),
    )
    whole.mkdir()
    now = folder / "now"
    base, cases = GROUPS[group]
    now.mkdir()
    base(now)
    shutil.copytree(now, whole, symlinks=True, dirs_exist_ok=True)
    for name, command, spoils, stdin in cases():
        shutil.rmtree(now)
        shutil.copytree(whole, now, symlinks=True)
        for file, how in spoils:
            spoil(now / file, how)
        result = run(command, now, stdin)
        found.append({"name": name, **result})
    most = peak_memory_mb()
    (folder / "results.json").write_text(json.dumps({"memory": most, "cases": found}))


# The groups ---------------------------------------------------------------------------------------


def nothing(home):
    corpora(home / "data")


def called(command):
    return " ".join(command[:2] if command[0] == "data" else command[:1])


def everywhere(files, command, stdin=b"", also=()):
    "Each file spoilt in every way, under one command."
    for file in files:
        for how in (*SPOILS, *PLACES):
            yield f"{called(command)} {file}: {how}", command, [(file, how)], stdin
    for file, name, how in also:
        yield f"{called(command)} {file}: {name}", command, [(file, how)], stdin


def translators(home):
    "A word translator and a subword translator; the folder of a training that is done."
    from transformer_lit import cli
    from transformer_lit.tokenization import SubwordTokenizer

    corpora(home / "data")
    from translators import of_subwords, of_words

    of_words(PAIRS, **TINY).save(home / "words")
    of_subwords(
            SubwordTokenizer.train((side for pair in PAIRS for side in pair), 300), **TINY
        ).save(home / "joint",
    )
    (home / "text.txt").write_text("I eat x.\nyou see y.\n")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert (
            cli.main(f"train --output-dir {home / 'run'} --epochs 1 --with pairs=40".split())
            == 0
        )


SIZES = [
    (f"{name} {value!r:.20}", edited(**{"config__" + name: value}))
    for name, value in (
        ("d_model", 200_000),
        ("d_model", -8),
        ("d_model", "8"),
        ("d_model", 8.5),
        ("n_heads", 3),
        ("n_heads", 0),
        ("d_ff", 10**15),
        ("source_vocab_size", 10**9),
        ("source_vocab_size", 5),
        ("dropout", float("nan")),
        ("norm", "both"),
        ("colour", 1),
        ("source_vocab_size", None),
        ("d_model", True),
    )
]
LISTS = [
    ("no config", edited(config=None)),
    ("a config that is a list", edited(config=[1])),
    ("languages", edited(languages=3)),
]
WORDS = [
    ("words that are numbers", edited(words=[1, 2])),
    ("no words", edited(words=[])),
    ("no list of words", edited(words=None)),
    ("no language", edited(language=None)),
]


def of_translate():
    say = lambda folder: ["translate", "--model", f"{{home}}/{folder}", "I eat x."]
    yield from everywhere(
        ["words/translator.json", "words/model.safetensors"],
        say("words"),
        also=[("words/translator.json", *rest) for rest in SIZES + LISTS]
        + [("words/tokenizer.json", *rest) for rest in WORDS],
    )
    yield from everywhere(
        ["joint/tokenizer.json"],
        say("joint"),
        also=[
            ("joint/tokenizer.json", "an id out of range", edited(model__vocab__Ġ=999_999_999)),
            ("joint/tokenizer.json", "no model", edited(model=None)),
            ("joint/tokenizer.json", "another kind", edited(model__type="none")),
        ],
    )
    yield from everywhere(
        ["text.txt"],
        ["translate", "--model", "{home}/words", "--file", "{home}/text.txt"],
        also=[
            ("text.txt", "one long line", b"x" * 30_000),
            ("text.txt", "separators", "a\u2028b\x0bc\n".encode()),
            ("text.txt", "surrogates", b"\xed\xa0\x80\n"),
        ],
    )
    yield from everywhere(["run/checkpoint.safetensors", "run/translator.json"], say("run"))
    for how in SPOILS:
        yield (
            f"translate < {how}",
            ["translate", "--model", "{home}/words"],
            [],
            SPOILS[how](b"I eat x.\nyou see y.\n"),
        )


def of_train():
    again = "train --output-dir {home}/run --epochs 1 --with pairs=40".split()
    yield from everywhere(
        ["run/checkpoint.safetensors", "run/translator.json", "run/config.json", "run/log.jsonl"],
        again,
    )
    yield from everywhere(
        ["data/tatoeba/fra-eng.zip"],
        "train --output-dir {home}/new --epochs 1 --with pairs=40".split(),
        also=[("data/tatoeba/fra-eng.zip", *rest) for rest in ZIPS],
    )
    for more in (
        ["--with", "pairs=1"],
        ["--with", "pairs=39"],
        ["--recipe", "pocket"],
        ["--recipe", "tatoeba-fr"],
        ["--recipe", "tatoeba-de"],
    ):
        command = ["train", "--output-dir", "{home}/run", "--epochs", "1", *more]
        yield f"train {more}", command, [], b""
    for folder in "text.txt", "text.txt/x", "words/model.safetensors":
        yield f"train into {folder}", ["train", "--output-dir", f"{{home}}/{folder}"], [], b""
        yield (
            f"wmt into {folder}",
            ["train", "--recipe", "wmt14-en-de", "--output-dir", f"{{home}}/{folder}"],
            [],
            b"",
        )
        yield (
            f"export into {folder}",
            ["export", f"{{home}}/{folder}", "--model", "{home}/words"],
            [],
            b"",
        )
    yield (
        "export into a full folder",
        ["export", "{home}/words", "--model", "{home}/words"],
        [],
        b"",
    )
    for file in "translator.json", "model.safetensors":
        for how in "half", "noise", "gone", "object":
            yield (
                f"export of {file}: {how}",
                ["export", "{home}/out", "--model", "{home}/words"],
                [(f"words/{file}", how)],
                b"",
            )


def bomb_zip(old):
    held = io.BytesIO()
    with (
        zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as file,
        file.open("fra.txt", "w") as text,
    ):
        for _ in range(600):
            text.write(bytes(1 << 20))
    return held.getvalue()


def zip_of(name, text):
    def make(old):
        held = io.BytesIO()
        with zipfile.ZipFile(held, "w") as file:
            file.writestr(name, text)
        return held.getvalue()

    return make


def bomb_gz(old):
    return gzip.compress(bytes(1 << 24)) * 80  # gzip's parts may follow each other


def bomb_line(old):
    return gzip.compress(b"x" * (1 << 24)) * 80


ZIPS = [
    ("a bomb", bomb_zip),
    ("no text in it", zip_of("other.txt", "a\tb\n")),
    ("no tab", zip_of("fra.txt", "a b\n" * 50)),
    ("a text in latin-1", zip_of("fra.txt", "\xe9\tb\n".encode("latin-1"))),
    ("few pairs", zip_of("fra.txt", "a\tb\nc\td\n")),
    ("a path that climbs", zip_of("../../fra.txt", "a\tb\n")),
]


def of_data():
    files = {
        "tatoeba": ["data/tatoeba/fra-eng.zip"],
        "multi30k": ["data/multi30k/train.en.gz", "data/multi30k/val.fr.gz"],
        "wmt14": [
            "data/newstest/en-fr/newstest2013.en.gz",
            "data/newstest/en-fr/newstest2014.fr.gz",
        ],
    }
    for name, paths in files.items():
        also = [
            (paths[0], *rest)
            for rest in (
                ZIPS
                if name == "tatoeba"
                else [("a bomb", bomb_gz), ("one line more", packed("abcde"))]
            )
        ]
        yield from everywhere(paths, ["data", "download", name, "--language", "fr"], also=also)
    yield from everywhere(
        ["data/tatoeba/fra-eng.zip"],
        ["data", "verify", "tatoeba", "--language", "fr"],
        also=[("data/tatoeba/fra-eng.zip", *rest) for rest in ZIPS],
    )


def stores(home):
    "A corpus of one's own, its token store, a run that has begun."
    from transformer_lit import cli

    corpora(home / "data")
    (home / "mine-fr").mkdir()
    (home / "mine-fr" / "a.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS))
    (home / "mine-fr" / "b.tsv.gz").write_bytes(packed(f"{a} again\t{b} encore" for a, b in PAIRS))
    with contextlib.redirect_stdout(io.StringIO()):
        assert cli.main([word.replace("{home}", str(home)) for word in LARGE]) == 0
        (home / "run/run.json").unlink()


LARGE = (
    "train --recipe {home}/mine-fr --data-dir {home}/store --output-dir {home}/run --size tiny"
    " --max-steps 2 --eval-every 1 --threads 1 --with vocab_size=300 --with tokenizer_sample=50"
    " --with max_tokens=300 --with snapshot_every=1 --with n_eval_sentences=2 --with precision=fp32"
).split()


def of_stores():
    spoilt = everywhere(
        [
            "store/manifest.json",
            "store/held_out.json",
            "store/tokenizer.json",
            "store/ids.bin",
            "store/offsets.npy",
            "run/config.json",
            "run/log.jsonl",
            "run/checkpoint.safetensors",
            "run/hypotheses-newstest2013.txt",
        ],
        LARGE,
    )
    # an empty object in a file of our own making raises what Python raises
    yield from (case for case in spoilt if not ("store/" in case[0] and "object" in case[0]))
    fresh = [
        word.replace("{home}/store", "{home}/new").replace("{home}/run", "{home}/newrun")
        for word in LARGE
    ]
    yield from everywhere(
        ["mine-fr/a.tsv", "mine-fr/b.tsv.gz"],
        fresh,
        also=[
            ("mine-fr/b.tsv.gz", "a bomb in one line", bomb_line),
            ("mine-fr/b.tsv.gz", "a bomb", bomb_gz),
            ("mine-fr/a.tsv", "a long line", b"x" * 3_000_000),
        ],
    )


BAD = {
    "beam-size": "0 -1 65 100000 x 1.5 nan 9" + "9" * 40,
    "epochs": "0 -1 100000 x",
    "max-steps": "0 1e9",
    "eval-every": "0",
    "max-minutes": "-1 nan",
    "workers": "0 9999",
    "sampling-temperature": "0 nan",
    "threads": "0 -2 1000000 x",
    "size": "huge",
    "preset": "ours",
    "languages": "en en-en en-d\u00e9",
    "output-dir": "",
    "data-dir": "",
    "model": "",
    "file": "",
    "output": "",
    "device": "gpu cuda:0",
    "with": "seed seed=-1 seed=x peak_lr=nan lr=1 n_heads=3 optimizer=sgd precision=int8 =",
}
OF = {
    "train": [name for name in BAD if name not in ("beam-size", "model", "file", "output")],
    "translate": ["beam-size", "model", "file", "device"],
    "evaluate": ["beam-size", "model", "output", "device"],
    "export": ["model"],
}
LINES = [
    [],
    ["eat"],
    ["data", "eat"],
    ["data", "download"],
    ["data", "list", "pocked"],
    ["data", "download", "pocket", "--language", "de"],
    ["data", "verify", "\udce9"],
    ["translate", "a", "--file", "x"],
    ["translate", "a", "--interactive"],
    ["translate", "--file", "nosuch"],
    ["translate", "--file", "."],
    ["translate", "--file", "a" * 5000],
    ["translate", "--model", "nowhere", "a"],
    ["translate", "--model", "data", "a"],
    ["translate", "--model", "a" * 5000, "a"],
    ["translate", "x" * 30_000],
    ["translate", "\udce9"],
    ["translate", "--nosuch"],
    ["evaluate", "--output", "no/such/x.json"],
    ["evaluate", "--output", "."],
    ["evaluate", "--test-set", "own"],
    ["evaluate", "--test-set", "none"],
    ["evaluate", "--model", "nowhere"],
    ["train", "--recipe", "wmt14-en-de", "--epochs", "3"],
    ["train", "a"],
    ["export"],
    ["export", "out", "--model", "nowhere"],
    ["export", "out", "--quantization", "int4"],
    ["export", "data"],
    ["train", "--recipe", "nowhere-fr"],
    ["train", "--recipe", "wmt15-en-de"],
    ["train", "--recipe", ""],
    ["train", "--recipe", "data"],
    ["train", "--nosuch"],
]
def of_lines():
    for line in LINES:
        yield f"line {' '.join(line)[:60]!r}", line, [], b""
    for command, options in OF.items():
        for option in options:
            for value in BAD[option].split(" "):
                more = ["out"] if command == "export" else []
                yield (
                    f"{command} --{option}={value[:20]}",
                    [command, *more, f"--{option}={value}"],
                    [],
                    b"",
                )


GROUPS = {
    "lines": (nothing, of_lines),
    "translate": (translators, of_translate),
    "train": (translators, of_train),
    "data": (nothing, of_data),
    "stores": (stores, of_stores),
}


# What is asked of them ----------------------------------------------------------------------------


def judged(case):
    "What is wrong with a case's outcome; empty if nothing."
    said, status = case["err"].strip(), case["status"]
    if status not in STATUSES:
        return f"neither a status nor a sentence: {status}"
    if "Traceback" in said or "[Errno" in said:
        return f"not written for people: {said[-300:]}"
    if status in (1, 2) and case["changed"]:
        return f"refused, and {case['changed'][:5]} changed"
    if (
        status == 1
        and "DAMAGED" not in case["out"]
        and (said.count("\n") or not said.startswith("transformer-lit: ") or len(said) < 30)
    ):
        return f"one sentence was expected: {said[-300:]!r}"
    if status == 2 and not (said.startswith("usage: ") and "error: " in said.splitlines()[-1]):
        return f"argparse's words were expected: {said[-300:]!r}"
    return ""


def outcomes(group, folder):
    done = subprocess.run(
        [sys.executable, __file__, group, str(folder)],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=900,
        env=os.environ | {
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "NO_PROXY": "*",
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "HTTP_PROXY": "http://127.0.0.1:9",
        },
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads((folder / "results.json").read_text())


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in ("train", "stores")))
        for name in GROUPS
    ],
)
def test_whatever_comes_there_is_one_sentence(group, tmp_path):
    found = outcomes(group, tmp_path)
    wrong = [f"{case['name']}: {words}" for case in found["cases"] if (words := judged(case))]
    assert not wrong, f"{len(wrong)} of {len(found['cases'])}:\n" + "\n".join(wrong[:40])
    assert found["memory"] < MEMORY, f"{found['memory']:,} MB at the most"


def test_there_are_hundreds_of_cases():
    cases = [(group, name) for group, (_, of) in GROUPS.items() for name, *_ in of()]
    assert len(cases) == len(set(cases)) > 350, "a name is there twice, or cases were lost"


def test_the_judge_has_teeth():
    good = {
        "status": 1,
        "err": "transformer-lit: nowhere is not there, so type something else\n",
        "out": "",
        "changed": [],
    }
    assert judged(good) == ""
    for change in (
        {"status": "Traceback (most recent call last)"},
        {"status": 3},
        {"err": ""},
        {"err": "transformer-lit: [Errno 2] No such file\n"},
        {"changed": ["x"]},
        {"err": "transformer-lit: one sentence and then\nanother one, on a second line\n"},
        {"err": "Traceback (most recent call last): ValueError"},
    ):
        assert judged(good | change), change


if __name__ == "__main__":
    child(sys.argv[1], Path(sys.argv[2]))
