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
from functools import cache
from pathlib import Path

import pytest
import translators
from helpers import zipped
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
    "digits": lambda old: b"9" * 6000,
    "deep": lambda old: b"[" * 100_000,
    "text": lambda old: b'"words"',
}
PLACES = {  # something else than a file stands there
    "gone": lambda path: path.unlink(),
    "unreadable": lambda path: path.chmod(0),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link to nothing": lambda path: (path.unlink(), path.symlink_to("nowhere")),
    "a link to itself": lambda path: (path.unlink(), path.symlink_to(path.name)),
}


def spoil(path, spoiling):
    if spoiling in PLACES:
        PLACES[spoiling](path)
    else:
        edit = SPOILS.get(spoiling, spoiling)
        path.write_bytes(edit(path.read_bytes()) if callable(edit) else edit)


def edited(name, value):
    "One field of a JSON file, by its dotted name; None takes it away."

    def edit(old):
        record = part = json.loads(old)
        *way, last = name.split(".")
        for step in way:
            part = part[step]
        part[last] = value
        if value is None:
            del part[last]
        return json.dumps(record).encode()

    return edit


# What the child does ------------------------------------------------------------------------------


def packed(lines):
    return gzip.compress("".join(line + "\n" for line in lines).encode())


def patched():
    "Small models, small test sets, and answers and measurements that take no time."
    from transformer_lit import data, translation, wmt
    from transformer_lit.recipes import large, recipes

    data.split_by_source.__defaults__ = (3, 3, 1)
    recipes.SMALL.update(translators.TINY)
    wmt.model_preset = lambda _: translators.TINY
    large.matmul_flops = lambda *_: 1e9
    short = lambda model, ids, beam_size, batch_size, precision="fp32", **_: [i[:3] for i in ids]
    translation.translate_ids = short


def child(group, folder):
    "Run all cases of a group; what came of them to results.json."
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
    # not ru_maxrss: it counts what the process that started this one held
    peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
    report = {"memory": int(peak) // 1000, "cases": results}
    (folder / "results.json").write_text(json.dumps(report))


# The groups ---------------------------------------------------------------------------------------


def data_folder(home):
    write_small_corpora(home / "data", 200)


def everywhere(files, command, also=(), spoilings=(*SPOILS, *PLACES)):
    "Each file spoilt in every way, under one command."
    ways = [(file, name, name) for file in files for name in spoilings]
    for file, name, spoiling in (*ways, *also):
        yield f"{' '.join(command[:2])} {file}: {name}", command, [(file, spoiling)], b""


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


# file -> JSON by dotted names -> values, each a case; None: the name is gone
VALUES = {
    "words/translator.json": {
        "config": [None, [1]],
        "languages": [3],
        "config.d_model": [200_000, -8, "8", 8.5, True],
        "config.n_heads": [3, 0],
        "config.d_ff": [10**15],
        "config.source_vocab_size": [10**9, 5, None],
        "config.dropout": [float("nan")],
        "config.norm": ["both"],
        "config.color": [1],
    },
    "words/tokenizer.json": {"words": [[1, 2], [], None], "language": [None]},
    "joint/tokenizer.json": {
        "model": [None],
        "model.vocab.Ġ": [999_999_999],
        "model.type": ["none"],
    },
}


def of_translate():
    say = lambda folder: ["translate", "--model", f"{{home}}/{folder}", "I eat x."]
    yield from everywhere(["words/translator.json", "words/model.safetensors"], say("words"))
    yield from everywhere(["joint/tokenizer.json"], say("joint"))
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
    for file, names in VALUES.items():
        for name, value in ((name, value) for name in names for value in names[name]):
            spoiling = edited(name, value)
            yield f"{file}: {name} {value!r:.20}", say(file[:5]), [(file, spoiling)], b""
    for name, spoiling in SPOILS.items():
        text = spoiling(b"I eat x.\nyou see y.\n")
        yield f"translate < {name}", ["translate", "--model", "{home}/words"], [], text


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
    for more in "--with pairs=39", "--recipe pocket", "--recipe tatoeba-de":
        line = f"train --output-dir {{home}}/run --epochs 1 {more}"
        yield f"train {more}", line.split(), [], b""
    for folder in "text.txt", "text.txt/x":
        for line in (
            "train --output-dir {home}/%s",
            "train --recipe wmt14-en-de --output-dir {home}/%s",
            "export {home}/%s --model {home}/words",
        ):
            yield line % folder, (line % folder).split(), [], b""
    yield "export into a full folder", "export {home}/words --model {home}/words".split(), [], b""


@cache
def bomb_zip(old):
    held = io.BytesIO()
    with (
        zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as file,
        file.open("fra.txt", "w") as text,
    ):
        for _ in range(600):
            text.write(bytes(1 << 20))
    return held.getvalue()


def bomb_gz(old):
    return gzip.compress(bytes(1 << 24)) * 80  # gzip's parts may follow each other


ZIPS = [
    ("a bomb", bomb_zip),
    ("no text in it", zipped({"other.txt": "a\tb\n"})),
    ("no tab", zipped({"fra.txt": "a b\n" * 50})),
    ("a text in latin-1", zipped({"fra.txt": "\xe9\tb\n".encode("latin-1")})),
    ("few pairs", zipped({"fra.txt": "a\tb\nc\td\n"})),
    ("a path that climbs", zipped({"../../fra.txt": "a\tb\n"})),
]


def of_data():
    texts = [("a bomb", bomb_gz), ("one line more", packed("abcde"))]
    for what, name, path, edits in (
        ("download", "tatoeba", "tatoeba/fra-eng.zip", ZIPS),
        ("verify", "tatoeba", "tatoeba/fra-eng.zip", ZIPS),
        ("download", "multi30k", "multi30k/train.en.gz", texts),
        ("download", "wmt14", "newstest/en-fr/newstest2014.fr.gz", texts),
    ):
        command, file = f"data {what} {name} --language fr".split(), f"data/{path}"
        yield from everywhere([file], command, also=[(file, *edit) for edit in edits])


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
# each case reads or writes a store and may train: the ways that differ there
DIFFERENT = "empty", "half", "noise inside", "null", "gone", "a folder"


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
        spoilings=DIFFERENT,
    )
    yield from spoilt
    fresh = [
        word.replace("{home}/store", "{home}/new").replace("{home}/run", "{home}/newrun")
        for word in LARGE
    ]
    yield from everywhere(
        ["mine-fr/a.tsv", "mine-fr/b.tsv.gz"],
        fresh,
        spoilings=DIFFERENT,
        also=[
            ("mine-fr/b.tsv.gz", "a bomb in one line", bomb_gz),
            ("mine-fr/a.tsv", "a long line", b"x" * 3_000_000),
        ],
    )


BAD = {
    "beam-size": "0 -1 65 100000 x 1.5 nan 9" + "9" * 40,
    "epochs": "0 -1 x",
    "max-steps": "0 1e9",
    "eval-every": "0",
    "max-minutes": "-1 nan",
    "workers": "0 9999",
    "sampling-temperature": "0 nan",
    "threads": "0 1000000 x",
    "size": "huge",
    "preset": "ours",
    "languages": "en en-en en-d\u00e9",
    **dict.fromkeys("output-dir data-dir model file output".split(), ""),
    "device": "gpu cuda:0",
    "with": "seed seed=-1 seed=x peak_lr=nan lr=1 n_heads=3 optimizer=sgd precision=int8 =",
}
OF = {
    "train": [name for name in BAD if name not in ("beam-size", "model", "file", "output")],
    "translate": ["beam-size", "model", "file", "device"],
    "evaluate": ["beam-size", "model", "output", "device"],
    "export": ["model"],
}
LINES = f"""data download pocket --language de
data verify \udce9
translate a --interactive
translate --file {"a" * 5000}
translate --model data a
translate --model {"a" * 5000} a
translate {"x" * 30_000}
translate \udce9
evaluate --output .
export data
train --recipe nowhere-fr
train --recipe data"""  # beyond those of test_refusals.py


def of_lines():
    for line in LINES.splitlines():
        yield f"line {line[:60]!r}", line.split(), [], b""
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


@pytest.mark.parametrize("group", GROUPS)
def test_whatever_comes_there_is_one_sentence(group, tmp_path):
    alone = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "NO_PROXY": "*"}
    alone |= dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY"), "http://127.0.0.1:9")
    process = subprocess.run(
        [sys.executable, __file__, group, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=900,
        env=os.environ | alone,
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
