"""What a translator knows: its scores on texts of eight kinds, what it copies, what it makes up or leaves out.

    python bench/domains.py                                        # the shipped translator; the same command goes on after a stop
    python bench/domains.py --folder runs/mixture-en-fr            # another one
    python bench/domains.py --only copying                         # some seconds: names, numbers, dates and prices

The tests: Tatoeba's, Multi30k 2016, newstest2013 and 2014, and a thousand sentences each of law, web pages and two manuals that
`mixture-en-fr` holds out; where a sentence has several references, with all and with the first alone. Beam 4. The record is written after each of them. Copying: 200 sentences each with an
invented name, a number, a date, a price; right is an answer that has it, written the English or the French way. Made up or left out: answers of less than half or more than
twice as many words as the source, answers that say three words three times, and the share of the source's pieces that the
cross-attention (mean over heads and layers) hardly touches. The twelve sentences of the recipes and the forty of data/try_it.tsv
are kept with their answers. Needs $TRANSFORMER_LIT_DATA with `general/en-fr`. The record: book/results/bench/domains-NAME.json.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import mean

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from common import BENCH, command, keep, scores, where  # noqa: E402

from transformer_lit import data  # noqa: E402
from transformer_lit.attention_maps import record  # noqa: E402
from transformer_lit.masks import PAD  # noqa: E402
from transformer_lit.recipes import training_sets  # noqa: E402
from transformer_lit.serving.confidence import translate_with_scores  # noqa: E402
from transformer_lit.corpora.files import sha256_file, shipped, write_json  # noqa: E402
from transformer_lit.recipes.recipes import SAMPLES  # noqa: E402
from transformer_lit.training import collate  # noqa: E402
from transformer_lit.translation import Translator  # noqa: E402

Test = tuple[list[str], list[list[str]]]  # sentences, the references of each


def tests() -> dict[str, Test]:
    "Every test by its name."
    held = training_sets.mixture_held_out("fr")
    found = {
        "tatoeba": data.test_set("tatoeba"),
        "multi30k": data.test_set("multi30k"),
        "newstest2013": ([e for e, _ in held["valid"]], [[f] for _, f in held["valid"]]),
        "newstest2014": data.test_set("newstest2014"),
    }
    return found | {kind: data.grouped(held[f"test-{kind}"]) for kind in training_sets.GENERAL}


# Copying ------------------------------------------------------------------------------------------

MONTHS = {
    "January": "janvier",
    "February": "février",
    "March": "mars",
    "April": "avril",
    "May": "mai",
    "June": "juin",
    "July": "juillet",
    "August": "août",
    "September": "septembre",
    "October": "octobre",
    "November": "novembre",
    "December": "décembre",
}
FRAMES = {
    "names": (
        "My friend {} lives here.",
        "I met {} yesterday.",
        "{} was born in Paris.",
        "Where does {} work?",
        "I got a letter from {}.",
    ),
    "numbers": (
        "There are {} people in this town.",
        "The number of my room is {}.",
        "She has read {} pages.",
        "It took {} days.",
        "The school has {} pupils.",
    ),
    "dates": (
        "He was born on {}.",
        "The war ended on {}.",
        "We were married on {}.",
        "The letter is dated {}.",
        "On {} it rained.",
    ),
    "prices": (
        "The ticket costs {}.",
        "I paid {} for this book.",
        "He owes me {}.",
        "It was sold for {}.",
        "The meal was {}.",
    ),
}
HEADS = "Bra Dor Fel Gri Hal Jor Kel Lum Mar Nev Ost Per Quin Ros Sken Tor Urb Vel Wen Zak".split()
MIDDLES, TAILS = "a e i o u".split(), "bek dran fors gard kov lund mont nik ster vitz".split()


def digits_joined(text: str) -> str:
    "Without what parts the thousands: 4,718, 4 718 and 4.718 are 4718."
    return re.sub(r"(?<=\d)[\s.,\u00a0\u202f](?=\d{3}(?!\d))", "", text)


def one_probe(kind: str, rng: Random) -> tuple[str, Callable[[str], bool]]:
    "What stands in a sentence, and a question to an answer: is it there?"
    if kind == "names":
        name = rng.choice(HEADS) + rng.choice(MIDDLES) + rng.choice(TAILS)
        return name, lambda said: name in re.findall(r"\w+", said)
    if kind == "numbers":
        n = rng.choice([rng.randint(13, 99), rng.randint(101, 999), rng.randint(1001, 99_999)])
        return f"{n:,}", lambda said: str(n) in re.findall(r"\d+", digits_joined(said))
    if kind == "dates":
        day, month, year = rng.randint(2, 28), rng.choice(list(MONTHS)), rng.randint(1801, 2029)
        return f"{month} {day}, {year}", lambda said: bool(
            re.search(rf"(?<!\d){day} {MONTHS[month]} {year}(?!\d)", said.casefold())
        )
    whole, cents = rng.randint(2, 980), rng.randint(1, 99)
    return f"${whole}.{cents:02d}", lambda said: bool(
        re.search(rf"(?<!\d){whole}[.,]{cents:02d}(?!\d)", said)
    )


def probes(kind: str, n: int = 200, seed: int = 1) -> list[tuple[str, Callable[[str], bool]]]:
    "Sentences, each with its question; no value comes twice."
    rng, found = Random(f"{kind} {seed}"), {}
    while len(found) < n:
        value, right = one_probe(kind, rng)
        found.setdefault(value, (FRAMES[kind][len(found) % len(FRAMES[kind])].format(value), right))
    return list(found.values())


# Made up, left out --------------------------------------------------------------------------------


def repeats(text: str) -> bool:
    "Does it say some three words three times?"
    words = text.casefold().split()
    return max(Counter(zip(words, words[1:], words[2:])).values(), default=0) > 2


@torch.no_grad()
def untouched(
    translator: Translator, sentences: list[str], said: list[str], least: float = 0.1
) -> float:
    """The share of the sources' pieces whose attention, added up over the answer's pieces, is less
    than `least`."""
    few = total = 0
    pairs = [
        pair for pair in translator.encode_pairs(zip(sentences, said)) if max(map(len, pair)) <= 200
    ]
    for k in range(0, len(pairs), 32):
        source, target = collate(pairs[k : k + 32])
        with record(translator.model.eval()) as seen:
            translator.model(source, target[:, :-1])
        maps = torch.stack(seen["cross"]).mean((0, 2))  # (B, T, S)
        touched = maps.masked_fill((target[:, 1:] == PAD)[..., None], 0.0).sum(1)
        there = source != PAD
        there[torch.arange(len(source)), there.sum(1) - 1] = False  # EOS
        few += int((touched[there] < least).sum())
        total += int(there.sum())
    return few / max(total, 1)


def told(translator: Translator, test: Test, said: list[str], sure: list[float]) -> dict:
    "All that is reported of one test."
    sentences, references = test
    ratio = [
        len(one.split()) / max(len(english.split()), 1) for one, english in zip(said, sentences)
    ]
    several = any(len(refs) > 1 for refs in references)
    return {
        "sentences": len(sentences),
        **scores(said, references),
        **({"first": scores(said, [refs[:1] for refs in references])} if several else {}),
        "short": mean(r < 0.5 for r in ratio),
        "long": mean(r > 2 for r in ratio),
        "repeats": mean(map(repeats, said)),
        "untouched": untouched(translator, sentences, said),
        "log_probability": mean(sure),
    }


def answered(
    translator: Translator, sentences: list[str], place: Path, size: int = 256
) -> tuple[list[str], list[float]]:
    """Answers and their mean log-probabilities, from the file at `place` as far as it goes and is
    of these sentences."""
    kept = json.loads(place.read_text("utf-8")) if place.exists() else []
    if [sentence for sentence, _, _ in kept] != sentences[: len(kept)]:
        kept = []
    for k in range(len(kept), len(sentences), size):
        some = sentences[k : k + size]
        kept += [
            [sentence, said.text, said.log_prob]
            for sentence, said in zip(some, translate_with_scores(translator, some))
        ]
        place.parent.mkdir(parents=True, exist_ok=True)
        write_json(place, kept)
    return [text for _, text, _ in kept], [sure for _, _, sure in kept]


def english_french(folder: Path) -> Translator:
    """The translator in a folder. ValueError with one sentence if its pair isn't the one that the
    tests here are of."""
    translator = Translator.from_pretrained(folder)
    if translator.languages != ("en", "fr"):
        pair = " into ".join(translator.languages or ("a language", "another"))
        raise ValueError(f"{folder} translates {pair}, and these tests are English-French")
    return translator


def copied(translator: Translator, place: Path, n: int = 200) -> dict[str, float]:
    "The share of right answers for each kind of thing that is copied."
    shares = {}
    for kind in FRAMES:
        asked = probes(kind, n)
        said, _ = answered(translator, [sentence for sentence, _ in asked], place / f"{kind}.json")
        shares[kind] = mean(right(one) for (_, right), one in zip(asked, said))
    return shares


def spoken(translator: Translator, place: Path) -> dict[str, list]:
    "The recipes' sentences, and the book's own, each with its answer."
    own = [
        line.split("\t")[0] for line in shipped("data/try_it.tsv").read_text("utf-8").splitlines()
    ]
    return {
        name: list(zip(lines, *answered(translator, lines, place / f"{name}.json")))
        for name, lines in (("recipe", SAMPLES), ("own", own))
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, help="a translator (default: the shipped one)")
    parser.add_argument("--only", choices=["copying"], help="print this and record nothing")
    parser.add_argument("--out", type=Path, help="where the record goes")
    o = parser.parse_args()
    torch.set_num_threads(1)
    made = where()  # now: the first record that is written here changes a checkout
    folder = o.folder or shipped("data/checkpoints/tatoeba-fr")
    translator, weights = english_french(folder), sha256_file(folder / "model.safetensors")
    place = ROOT / ".run/domains" / weights[:12]  # other weights, other answers
    copies = copied(translator, place)
    print(*(f"{kind}: {share:.1%} right" for kind, share in copies.items()), sep="\n")
    if not o.only:
        rows, lines = {}, spoken(translator, place)
        for name, test in tests().items():
            rows[name] = told(
                translator, test, *answered(translator, test[0], place / f"{name}.json")
            )
            print(
                f"{name}: BLEU {rows[name]['bleu']['value']:.1f}, chrF"
                f" {rows[name]['chrf']['value']:.1f}",
                flush=True,
            )
            keep(
                o.out or BENCH / f"domains-{folder.name}.json",
                made | {
                    "command": command(parser, out=None),
                    "weights": weights,
                    "copied": copies,
                    "tests": rows,
                    "spoken": lines,
                },
            )
