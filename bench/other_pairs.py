"""Other pairs of languages, by the command that a reader types: `transformer-lit train --pairs
FILE.tsv --languages ...`.

    python bench/other_pairs.py              # five trainings of 25 minutes on one thread
    python bench/other_pairs.py de-en        # one of them; goes on after a stop
    python bench/other_pairs.py --trial      # 60 pairs of the pocket corpus; measures nothing

Each file has the first 12,500 pairs of one list of everyday sentences from Tatoeba, as two columns.
The command does the rest: it cleans, splits, chooses the model, trains, scores. English to German
and back, English to French and back, and English to French in a made-up script without spaces: each
letter is another sign. BLEU counts signs there; chrF can nearly be compared with that of French,
for cleaning by lengths keeps some other pairs.

What is done stands in book/results/bench/other-pairs.json. Needs a clean checkout, and
$TRANSFORMER_LIT_DATA or a download. Files and folders are under .run/other-pairs."""

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
from common import BENCH, where  # noqa: E402
from records import clean_commit  # noqa: E402

from transformer_lit import data  # noqa: E402
from transformer_lit import cli  # noqa: E402
from transformer_lit.corpora.texts import TextPair, read_columns  # noqa: E402
from transformer_lit.corpora.files import write_json, write_text  # noqa: E402
from transformer_lit.corpora.texts import take_evenly  # noqa: E402

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


def train(name: str, home: Path, trial: bool) -> int:
    "Write the file and train on it, or go on; the command's status."
    pair = KNOWN[name]
    lines = (f"{one}\t{other}\n" for one, other in pairs_for(pair.file, trial))
    write_text(home / pair.file, "".join(lines))
    typed = f"train --pairs {pair.file} --languages {pair.languages}" + " --reverse" * pair.reverse
    typed += f" --output-dir {name} --threads 1" + " --epochs 1" * trial
    with chdir(home):
        return cli.main(typed.split())


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


FACTS = """command commit hardware torch seed recipe data parameters tokens seconds scores interval
    copied_answers""".split()


def run(names: list[str], home: Path, out: Path, trial: bool) -> int:
    "Train what isn't done and add it to the record; the command's status if it fails."
    if not trial:
        clean_commit()
    home.mkdir(parents=True, exist_ok=True)
    record = json.loads(out.read_text("utf-8")) if out.exists() else {"pairs": {}}
    for name in names:
        if name in record["pairs"]:
            continue
        if status := train(name, home, trial):
            return status
        made = json.loads((home / name / "run.json").read_text("utf-8"))
        facts = {key: made[key] for key in FACTS} | {"shown": shown(home / name)}
        record["pairs"][name] = facts
        write_json(out, {"command": "python bench/other_pairs.py", **where(), **record})
    return 0


def main(args: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("names", nargs="*", help=f"of {', '.join(KNOWN)}; none: all")
    p.add_argument("--home", type=Path, help="default: .run/other-pairs")
    p.add_argument("--out", type=Path, help="default: book/results/bench/other-pairs.json")
    p.add_argument("--trial", action="store_true", help="some seconds, in .run/other-trial")
    o = p.parse_args(args)
    home = (o.home or ROOT / (".run/other-trial" if o.trial else ".run/other-pairs")).resolve()
    out = o.out or (home if o.trial else BENCH) / "other-pairs.json"
    return cli.exit_status(lambda: run(o.names or list(KNOWN), home, out, o.trial))


if __name__ == "__main__":
    sys.exit(main())
