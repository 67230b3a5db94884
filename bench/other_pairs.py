"""Other pairs of languages, by the command that a reader types: `transformer-lit train --pairs FILE.tsv --languages ...`.

    python bench/other_pairs.py run                   # what is left of five trainings of 25 minutes on one thread; goes on after a stop
    python bench/other_pairs.py run --only de-en      # one of them
    python bench/other_pairs.py collect               # what is done becomes book/results/bench/other-pairs.json
    python bench/other_pairs.py run --trial           # 60 pairs of the pocket corpus, one epoch; measures nothing

Each file has the first 12,500 pairs of one list of everyday sentences from Tatoeba, as two columns. The command does the rest: it
cleans, splits, chooses the model, trains, scores. English to German and back, English to French and back, and English to French in a
made-up script without spaces: each letter is another sign. BLEU counts signs there; chrF can nearly be compared with that of French, for
cleaning by lengths keeps some other pairs.

`run` needs a clean checkout. Files and folders are under .run/other-pairs. Needs $TRANSFORMER_LIT_DATA or a download.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
import jobs  # noqa: E402
from common import BENCH, where  # noqa: E402

from transformer_lit import data  # noqa: E402
from transformer_lit import cli  # noqa: E402
from transformer_lit.corpora.texts import TextPair, read_columns  # noqa: E402
from transformer_lit.corpora.files import write_json, write_text  # noqa: E402
from transformer_lit.runs.records import git_commit  # noqa: E402
from transformer_lit.corpora.texts import take_evenly  # noqa: E402

HOME, RECORD = ROOT / ".run/other-pairs", BENCH / "other-pairs.json"
# of which the command leaves out some and puts a tenth aside for each test: about 10,000 train
PAIRS = 12_500
MARKS = str.maketrans(".,?!:;", "。，？！：；")
SIGNS = 0x4E00  # where signs begin in Unicode that no spaces part


class Pair(NamedTuple):
    "The file, the languages of its columns, and whether to go from the second to the first."

    file: str
    languages: str
    reverse: bool = False


KNOWN = {
    "en-de": Pair("german.tsv", "en-de"),
    "de-en": Pair("german.tsv", "en-de", True),
    "fr-en": Pair("french.tsv", "en-fr", True),
    "en-signs": Pair("signs.tsv", "en-xx"),
    "en-fr": Pair("french.tsv", "en-fr"),
}


def in_signs(lines: Iterable[str]) -> list[str]:
    "Each letter as a sign of its own, the usual marks as they stand beside signs, and no spaces."
    lines = ["".join(line.split()) for line in lines]
    letters = sorted({letter for line in lines for letter in line if letter.isalpha()})
    table = {ord(letter): chr(SIGNS + k) for k, letter in enumerate(letters)} | MARKS
    return [line.translate(table) for line in lines]


def pairs_for(file: str, trial: bool) -> list[TextPair]:
    "The lines of a file."
    if trial:
        pairs = data.load("pocket")["train"][:60]
    else:
        pairs = data.load("tatoeba", "de" if file == "german.tsv" else "fr")["train"][:PAIRS]
    if file == "signs.tsv":
        return list(
            zip(
                (english for english, _ in pairs),
                in_signs(french for _, french in pairs),
                strict=True,
            )
        )
    return [tuple(pair[:2]) for pair in pairs]


def run(names: list[str], home: Path, trial: bool) -> int:
    "Write each file and train on it, or go on; the command's status if it fails."
    if not trial:
        jobs.clean(git_commit())
    home.mkdir(parents=True, exist_ok=True)
    for name in names:
        pair = KNOWN[name]
        if (home / name / "report.md").exists():
            continue
        write_text(
            home / pair.file,
            "".join(f"{one}\t{other}\n" for one, other in pairs_for(pair.file, trial)),
        )
        typed = [
            "train",
            "--pairs",
            pair.file,
            "--languages",
            pair.languages,
            *["--reverse"] * pair.reverse,
            "--output-dir",
            name,
            "--threads",
            "1",
            *(["--epochs", "1"] if trial else []),
        ]
        with chdir(home):
            if status := cli.main(typed):
                return status
    return 0


def shown(folder: Path, number: int = 20) -> list[list[str]]:
    """Test sentences that nobody chose, spread evenly over the test: each with its first reference
    and the answer."""
    sources, references = data.grouped(read_columns(folder / "test.tsv"))
    said = (folder / "hypotheses.txt").read_text("utf-8").split("\n")[:-1]
    return take_evenly(
        [
            [source, refs[0], answer]
            for source, refs, answer in zip(sources, references, said, strict=True)
        ],
        number,
    )


def collect(home: Path, out: Path, trial: bool) -> int:
    "Write the record of all that is done. ValueError if a training's commit isn't known whole."
    found = {}
    for name in KNOWN:
        if (home / name / "report.md").exists():
            record = json.loads((home / name / "run.json").read_text("utf-8"))
            if len(record["commit"]) != 40 and not trial:
                raise ValueError(
                    f"{home / name} was made from a tree that no commit says: {record['commit']}"
                )
            found[name] = {
                key: record[key]
                for key in (
                    "command",
                    "commit",
                    "hardware",
                    "torch",
                    "seed",
                    "recipe",
                    "data",
                    "parameters",
                    "tokens",
                    "seconds",
                    "scores",
                    "interval",
                    "copied_answers",
                )
            } | {"shown": shown(home / name)}
    write_json(out, {"command": "python bench/other_pairs.py run", **where(), "pairs": found})
    print(f"{len(found)} pairs in {out}")
    return 0


def main(args: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("what", choices=["run", "collect"])
    p.add_argument(
        "--only", nargs="+", choices=list(KNOWN), default=list(KNOWN), help="some of the pairs"
    )
    p.add_argument("--home", type=Path, default=HOME, help="default: %(default)s")
    p.add_argument("--out", type=Path, default=RECORD, help="default: %(default)s")
    p.add_argument(
        "--trial", action="store_true", help="some seconds, in .run/other-trial; measures nothing"
    )
    o = p.parse_args(args)
    home = ROOT / ".run/other-trial" if o.trial and o.home == HOME else o.home.resolve()
    if o.what == "collect":
        return cli.exit_status(
            lambda: collect(
                home, home / RECORD.name if o.trial and o.out == RECORD else o.out, o.trial
            )
        )
    return cli.exit_status(lambda: run(o.only, home, o.trial))


if __name__ == "__main__":
    sys.exit(main())
