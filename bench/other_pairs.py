"""Other pairs of languages, by the command that a reader types: `transformer-lit train --pairs
FILE.tsv --languages ...`.

    python bench/other_pairs.py              # four trainings of 25 minutes on one thread
    python bench/other_pairs.py de-en        # one of them; goes on after a stop
    python bench/other_pairs.py --trial      # 60 pairs of the pocket corpus; measures nothing

Each file has the first 12,500 pairs of one list of everyday sentences from Tatoeba, as two columns.
The command does the rest: it cleans, splits, chooses the model, trains, scores. English to German
and back, French to English, and English to French in a made-up script without spaces: each
letter is another sign. BLEU counts signs there; chrF can nearly be compared with that of French,
for cleaning by lengths keeps some other pairs.

What is done stands in book/results/bench/other-pairs.json. Needs a clean checkout, and
$TRANSFORMER_LIT_DATA or a download. Files and folders are under .run/other-pairs."""

import json
import os
import sys
from collections.abc import Iterable
from contextlib import chdir
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
from common import BENCH, ROOT, Record, options  # noqa: E402
from records import clean_commit  # noqa: E402

from transformer_lit import cli, data  # noqa: E402
from transformer_lit.corpora.files import write_text  # noqa: E402
from transformer_lit.corpora.texts import TextPair, read_columns, take_evenly  # noqa: E402

# of which the command leaves out some and puts a tenth aside for each test: about 10,000 train
PAIRS = 12_500
MARKS = str.maketrans(".,?!:;", "。，？！：；")
SIGNS = 0x4E00  # where signs begin in Unicode that no spaces part


KNOWN = {  # the file, and the languages of its columns
    "en-de": "german.tsv --languages en-de",
    "de-en": "german.tsv --languages en-de --reverse",
    "fr-en": "french.tsv --languages en-fr --reverse",
    "en-signs": "signs.tsv --languages en-xx",
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
        pairs = data.load_corpus("pocket")["train"][:60]
    else:
        pairs = data.load_corpus("tatoeba", "de" if file == "german.tsv" else "fr")["train"][:PAIRS]
    if file == "signs.tsv":
        english, french = zip(*pairs)
        return list(zip(english, in_signs(french), strict=True))
    return pairs


def train(name: str, home: Path, trial: bool) -> int:
    "Write the file and train on it, or go on; the command's status."
    file = KNOWN[name].split()[0]
    lines = map("\t".join, pairs_for(file, trial))
    write_text(home / file, "".join(f"{line}\n" for line in lines))
    typed = f"train --pairs {KNOWN[name]} --output-dir {name} --threads 1" + " --epochs 1" * trial
    with chdir(home):
        return cli.main(typed.split())


def shown(folder: Path) -> list[list[str]]:
    """Test sentences that nobody chose, spread evenly over the test: each with its first reference
    and the answer."""
    sources, references = data.group_references(read_columns(folder / "test.tsv"))
    said = (folder / "hypotheses.txt").read_text("utf-8").split("\n")[:-1]
    rows = zip(sources, references, said, strict=True)
    return take_evenly([[source, refs[0], answer] for source, refs, answer in rows], 20)


FACTS = """command commit hardware torch seed recipe data parameters tokens seconds scores interval
    copied_answers""".split()


def main() -> int:
    names = dict(nargs="*", help=f"of {', '.join(KNOWN)}; none: all")
    o = options(
        __doc__,
        {"names": names},
        home=ROOT / ".run/other-pairs",
        out=BENCH / "other-pairs.json",
        trial=False,
    )

    def work() -> int:
        "Train what isn't done and add it to the record; the command's status if it fails."
        if not o.trial:
            clean_commit()
        home = o.home.resolve() / ("trial" * o.trial)
        out = home / "record.json" if o.trial else o.out
        home.mkdir(parents=True, exist_ok=True)
        record = Record(out)
        held = json.loads(out.read_text("utf-8"))["pairs"] if out.exists() else {}
        for name in o.names or KNOWN:
            if name in held:
                continue
            if status := train(name, home, o.trial):
                return status
            made = json.loads((home / name / "run.json").read_text("utf-8"))
            held[name] = {key: made[key] for key in FACTS} | {"shown": shown(home / name)}
            record.write(command="python bench/other_pairs.py", pairs=held)
        return 0

    return cli.exit_status(work)


if __name__ == "__main__":
    sys.exit(main())
