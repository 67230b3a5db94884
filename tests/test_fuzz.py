"""Spoilt command lines and spoilt files: for each an exit status, one sentence, no traceback,
nothing changed, memory under 2 GB.

Every file that a command reads is spoilt in every way of SPOILS, and some in ways of their own. A
group of cases runs in one child process (torch is imported once), which writes what came out; then
all of it is judged. `python tests/test_fuzz.py GROUP FOLDER` is that child."""

import gzip
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import translators
from plugins.commands import Outcome, complaint, late, type_line
from plugins.corpus import write_small_corpora

ROOT = Path(__file__).resolve().parent.parent
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


def spoil(path, spoiling):
    if spoiling in SPOILS:
        path.write_bytes(SPOILS[spoiling](path.read_bytes()))
    elif spoiling == "unreadable":
        path.chmod(0)
    elif spoiling in PLACES:
        place(path, spoiling)
    else:
        path.write_bytes(spoiling(path.read_bytes()) if callable(spoiling) else spoiling)


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


def packed(lines):
    return gzip.compress("".join(line + "\n" for line in lines).encode())


def patched():
    "Small models, small test sets, and answers that take no time."
    from transformer_lit import data, translation
    from transformer_lit.recipes import recipes

    data.split_by_source.__defaults__ = (3, 3, 1)
    recipes.SMALL.update(translators.TINY)
    short = lambda model, ids, beam_size, batch_size, precision="fp32", **_: [i[:3] for i in ids]
    translation.translate_ids = short


def child(group, folder):
    "Run all cases of a group; what came of them to results.json."
    from transformer_lit.runtime.memory import peak_memory_mb

    signal.signal(signal.SIGALRM, late)
    patched()
    start, now, results = folder / "start", folder / "now", []
    os.environ.update(TRANSFORMER_LIT_DATA=str(now / "data"), XDG_CACHE_HOME=str(now / "cache"))
    base, cases = GROUPS[group]
    now.mkdir()
    base(now)
    shutil.copytree(now, start, symlinks=True)
    for name, command, spoils, stdin in cases():
        shutil.rmtree(now)
        shutil.copytree(start, now, symlinks=True)
        for file, spoiling in spoils:
            spoil(now / file, spoiling)
        words = [word.replace("{home}", str(now)) for word in command]
        results.append((name, type_line(words, now, stdin, SECONDS)))
    report = {"memory": peak_memory_mb(), "cases": results}
    (folder / "results.json").write_text(json.dumps(report))


# The groups ---------------------------------------------------------------------------------------


def data_folder(home):
    write_small_corpora(home / "data", 200)


def called(command):
    return " ".join(command[:2] if command[0] == "data" else command[:1])


def everywhere(files, command, stdin=b"", also=()):
    "Each file spoilt in every way, under one command."
    for file in files:
        for spoiling in (*SPOILS, *PLACES):
            yield f"{called(command)} {file}: {spoiling}", command, [(file, spoiling)], stdin
    for file, name, spoiling in also:
        yield f"{called(command)} {file}: {name}", command, [(file, spoiling)], stdin


def models(home):
    "A word translator and a subword translator; the folder of a training that is done."
    data_folder(home)
    translators.words().save(home / "words")
    translators.joint().save(home / "joint")
    (home / "text.txt").write_text("I see x.\nyou see y.\n")
    done("train --output-dir run --epochs 1 --with pairs=40", home)


def done(line, home):
    outcome = type_line(line, home)
    assert outcome.status == 0, outcome


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
        also=[("words/translator.json", *edit) for edit in SIZES + LISTS]
        + [("words/tokenizer.json", *edit) for edit in WORDS],
    )
    yield from everywhere(
        ["joint/tokenizer.json"],
        say("joint"),
        also=[
            ("joint/tokenizer.json", "an id out of range", edited(model__vocab__Ġ=999_999_999)),
            ("joint/tokenizer.json", "no model", edited(model=None)),
            ("joint/tokenizer.json", "no end", lambda old: old.replace(b'"<eos>"', b'"<e>"', 1)),
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
    for spoiling in SPOILS:
        yield (
            f"translate < {spoiling}",
            ["translate", "--model", "{home}/words"],
            [],
            SPOILS[spoiling](b"I eat x.\nyou see y.\n"),
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
        also=[("data/tatoeba/fra-eng.zip", *edit) for edit in ZIPS],
    )
    for more in (
        "--with pairs=1",
        "--with pairs=39",
        "--recipe pocket",
        "--recipe tatoeba-fr",
        "--recipe tatoeba-de",
    ):
        line = f"train --output-dir {{home}}/run --epochs 1 {more}"
        yield f"train {more}", line.split(), [], b""
    for folder in "text.txt", "text.txt/x", "words/model.safetensors":
        for line in (
            "train --output-dir {home}/%s",
            "train --recipe wmt14-en-de --output-dir {home}/%s",
            "export {home}/%s --model {home}/words",
        ):
            yield line % folder, (line % folder).split(), [], b""
    full = "export {home}/words --model {home}/words"
    yield "export into a full folder", full.split(), [], b""
    export = "export {home}/out --model {home}/words".split()
    for file in "translator.json", "model.safetensors":
        for spoiling in "half", "noise", "gone", "object":
            yield f"export of {file}: {spoiling}", export, [(f"words/{file}", spoiling)], b""


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
            (paths[0], *edit)
            for edit in (
                ZIPS
                if name == "tatoeba"
                else [("a bomb", bomb_gz), ("one line more", packed("abcde"))]
            )
        ]
        yield from everywhere(paths, ["data", "download", name, "--language", "fr"], also=also)
    yield from everywhere(
        ["data/tatoeba/fra-eng.zip"],
        ["data", "verify", "tatoeba", "--language", "fr"],
        also=[("data/tatoeba/fra-eng.zip", *edit) for edit in ZIPS],
    )


def stores(home):
    "A corpus of one's own, its token store, a run that has begun."
    data_folder(home)
    (home / "mine-fr").mkdir()
    (home / "mine-fr" / "a.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in translators.PAIRS))
    (home / "mine-fr" / "b.tsv.gz").write_bytes(
        packed(f"{a} again\t{b} encore" for a, b in translators.PAIRS)
    )
    done([word.replace("{home}", str(home)) for word in LARGE], home)
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
LINES = [  # beyond those of test_refusals.py
    ["data", "download", "pocket", "--language", "de"],
    ["data", "verify", "\udce9"],
    ["translate", "a", "--interactive"],
    ["translate", "--file", "a" * 5000],
    ["translate", "--model", "data", "a"],
    ["translate", "--model", "a" * 5000, "a"],
    ["translate", "x" * 30_000],
    ["translate", "\udce9"],
    ["evaluate", "--output", "."],
    ["export", "data"],
    ["train", "--recipe", "nowhere-fr"],
    ["train", "--recipe", ""],
    ["train", "--recipe", "data"],
]


def of_lines():
    for line in LINES:
        yield f"line {' '.join(line)[:60]!r}", line, [], b""
    for command, options in OF.items():
        more = ["out"] if command == "export" else []
        for option in options:
            for value in BAD[option].split(" "):
                name = f"{command} --{option}={value[:20]}"
                yield name, [command, *more, f"--{option}={value}"], [], b""


GROUPS = {
    "lines": (data_folder, of_lines),
    "translate": (models, of_translate),
    "train": (models, of_train),
    "data": (data_folder, of_data),
    "stores": (stores, of_stores),
}


# What is asked of them ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in ("train", "stores")))
        for name in GROUPS
    ],
)
def test_whatever_comes_there_is_one_sentence(group, tmp_path):
    dead = "http://127.0.0.1:9"
    process = subprocess.run(
        [sys.executable, __file__, group, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=900,
        env=os.environ
        | {
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "NO_PROXY": "*",
            "HTTPS_PROXY": dead,
            "HTTP_PROXY": dead,
        },
    )
    assert process.returncode == 0, process.stderr[-2000:]
    report = json.loads((tmp_path / "results.json").read_text())
    cases = [(name, complaint(Outcome(*outcome))) for name, outcome in report["cases"]]
    wrong = [f"{name}: {words}" for name, words in cases if words]
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong[:40])
    assert report["memory"] < MEMORY, f"{report['memory']:,} MB at the most"


def test_there_are_hundreds_of_cases():
    cases = [(group, name) for group, (_, of) in GROUPS.items() for name, *_ in of()]
    assert len(cases) == len(set(cases)) > 350, "a name is there twice, or cases were lost"


def test_the_judge_has_teeth():
    err = "transformer-lit: nowhere is not there, so type something else\n"
    good = Outcome(1, "", err, [])
    assert complaint(good) == ""
    for change in (
        {"status": "Traceback (most recent call last)"},
        {"status": 3},
        {"err": ""},
        {"err": "transformer-lit: [Errno 2] No such file\n"},
        {"changed": ["x"]},
        {"err": err + "another sentence, on a second line\n"},
        {"err": "Traceback (most recent call last): ValueError"},
    ):
        assert complaint(good._replace(**change)), change


if __name__ == "__main__":
    child(sys.argv[1], Path(sys.argv[2]))
