"""What a translator knows: its scores on texts of eight kinds, what it copies, what it makes up or
leaves out.

    python bench/domains.py                                # the shipped translator; the same
                                                           # command goes on after a stop
    python bench/domains.py --folder runs/mixture-en-fr    # another one

The tests: Tatoeba's, Multi30k 2016, newstest2013 and 2014, and a thousand sentences each of law,
web pages and two manuals that `mixture-en-fr` holds out; where a sentence has several references,
with all and with the first alone. Beam 4. The record is written after each of them. Copying: 200
sentences each with an invented name, a number, a date, a price; right is an answer that has it,
written the English or the French way. Made up or left out: answers of less than half or more than
twice as many words as the source, answers that say three words three times, and the share of the
source's pieces that the cross-attention (mean over heads and layers) hardly touches. The twelve
sentences of the recipes and the forty of data/try_it.tsv are kept with their answers. Needs
$TRANSFORMER_LIT_DATA with `general/en-fr`. The record: book/results/bench/domains-NAME.json."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import mean

import torch
from common import BENCH, ROOT, Record, options, scores, try_it

from transformer_lit import data
from transformer_lit.attention_analysis import record_attention
from transformer_lit.corpora.files import sha256_file, shipped, write_json
from transformer_lit.evaluation import ngram_counts
from transformer_lit.masks import PAD
from transformer_lit.recipes import training_sets
from transformer_lit.recipes.recipes import SAMPLES
from transformer_lit.serving.confidence import translate_with_scores
from transformer_lit.batching import collate
from transformer_lit.translation import Translator

Test = tuple[list[str], list[list[str]]]  # sentences, the references of each
Probe = tuple[str, Callable[[str], bool]]  # a text, and a question to an answer: is it right?


def tests() -> dict[str, Test]:
    "Every test by its name."
    held_out = training_sets.mixture_held_out("fr")
    news = held_out["valid"]
    return {
        "tatoeba": data.load_test_set("tatoeba"),
        "multi30k": data.load_test_set("multi30k"),
        "newstest2013": ([english for english, _ in news], [[french] for _, french in news]),
        "newstest2014": data.load_test_set("newstest2014"),
        **{kind: data.group_references(held_out[f"test-{kind}"]) for kind in training_sets.GENERAL},
    }


# Copying ------------------------------------------------------------------------------------------

MONTHS = dict(
    zip(
        "January February March April May June July August September October November"
        " December".split(),
        "janvier février mars avril mai juin juillet août septembre octobre novembre"
        " décembre".split(),
    )
)
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


def one_probe(kind: str, rng: Random) -> Probe:
    "What stands in a sentence, and whether an answer has it."
    if kind == "names":
        name = rng.choice(HEADS) + rng.choice(MIDDLES) + rng.choice(TAILS)
        return name, lambda text: name in re.findall(r"\w+", text)
    if kind == "numbers":
        n = rng.choice([rng.randint(13, 99), rng.randint(101, 999), rng.randint(1001, 99_999)])
        return f"{n:,}", lambda text: str(n) in re.findall(r"\d+", digits_joined(text))
    if kind == "dates":
        day, month, year = rng.randint(2, 28), rng.choice(list(MONTHS)), rng.randint(1801, 2029)
        value, pattern = f"{month} {day}, {year}", f"{day} {MONTHS[month]} {year}"
    else:
        whole, cents = rng.randint(2, 980), rng.randint(1, 99)
        value, pattern = f"${whole}.{cents:02d}", f"{whole}[.,]{cents:02d}"
    wanted = re.compile(rf"(?<!\d){pattern}(?!\d)")
    return value, lambda text: bool(wanted.search(text.casefold()))


def probes(kind: str, n: int = 200, seed: int = 1) -> list[Probe]:
    "Sentences, each with its question; no value comes twice."
    rng, found, frames = Random(f"{kind} {seed}"), {}, FRAMES[kind]
    while len(found) < n:
        value, is_right = one_probe(kind, rng)
        found.setdefault(value, (frames[len(found) % len(frames)].format(value), is_right))
    return list(found.values())


# Made up, left out --------------------------------------------------------------------------------


def repeats(text: str) -> bool:
    "Does it say some three words three times?"
    return max(ngram_counts(text.casefold().split(), 3).values(), default=0) > 2


@torch.no_grad()
def untouched(
    translator: Translator, sentences: list[str], outputs: list[str], least: float = 0.1
) -> float:
    """The share of the sources' pieces whose attention, added up over the answer's pieces, is less
    than `least`."""
    few = total = 0
    pairs = translator.encode_pairs(zip(sentences, outputs))
    pairs = [pair for pair in pairs if max(map(len, pair)) <= 200]
    for k in range(0, len(pairs), 32):
        source, target = collate(pairs[k : k + 32])
        with record_attention(translator.model.eval()) as weights:
            translator.model(source, target[:, :-1])
        maps = torch.stack(weights["cross"]).mean((0, 2))  # (B, T, S)
        touched = maps.masked_fill((target[:, 1:] == PAD)[..., None], 0.0).sum(1)
        pieces = source != PAD
        pieces[torch.arange(len(source)), pieces.sum(1) - 1] = False  # EOS
        few += int((touched[pieces] < least).sum())
        total += int(pieces.sum())
    return few / max(total, 1)


def report(
    translator: Translator, test: Test, outputs: list[str], log_probs: list[float]
) -> dict:
    "All that is recorded of one test."
    sentences, references = test
    ratios = [len(o.split()) / max(len(s.split()), 1) for o, s in zip(outputs, sentences)]
    row = {"sentences": len(sentences), **scores(outputs, references)}
    if any(len(several) > 1 for several in references):
        row["first"] = scores(outputs, [several[:1] for several in references])
    return row | {
        "short": mean(ratio < 0.5 for ratio in ratios),
        "long": mean(ratio > 2 for ratio in ratios),
        "repeats": mean(map(repeats, outputs)),
        "untouched": untouched(translator, sentences, outputs),
        "log_probability": mean(log_probs),
    }


def answered(
    translator: Translator, sentences: list[str], path: Path, size: int = 256
) -> tuple[list[str], list[float]]:
    """Answers and their mean log-probabilities, from the file at `path` as far as it goes and is
    of these sentences."""
    rows = json.loads(path.read_text("utf-8")) if path.exists() else []
    if [sentence for sentence, _, _ in rows] != sentences[: len(rows)]:
        rows = []
    path.parent.mkdir(parents=True, exist_ok=True)
    for k in range(len(rows), len(sentences), size):
        chunk = sentences[k : k + size]
        answers = translate_with_scores(translator, chunk)
        rows += [[sentence, a.text, a.log_prob] for sentence, a in zip(chunk, answers)]
        write_json(path, rows)
    return [text for _, text, _ in rows], [log_prob for _, _, log_prob in rows]


def english_french(folder: Path | None) -> tuple[Translator, Path, str, Path]:
    """The translator in a folder (or the shipped one), the folder, the hash of its weights, and
    where answers of these weights are kept."""
    folder = folder or shipped("data/checkpoints/tatoeba-fr")
    translator = Translator.load(folder)
    if translator.languages != ("en", "fr"):
        raise ValueError(f"{folder} isn't English-French, and the tests here are")
    weights = sha256_file(folder / "model.safetensors")
    return translator, folder, weights, ROOT / ".run/domains" / weights[:12]


def copied(translator: Translator, home: Path) -> dict[str, float]:
    "The share of right answers for each kind of thing that is copied."
    shares = {}
    for kind in FRAMES:
        sentences, questions = zip(*probes(kind))
        outputs, _ = answered(translator, list(sentences), home / f"{kind}.json")
        shares[kind] = mean(is_right(text) for is_right, text in zip(questions, outputs))
    return shares


def main():
    o = options(__doc__, folder=Path)
    translator, folder, weights, home = english_french(o.folder)
    copies = copied(translator, home)
    print(copies)
    record = Record(BENCH / f"domains-{folder.name}.json", weights=weights, copied=copies, tests={})
    record["spoken"] = {
        name: list(zip(sentences, *answered(translator, sentences, home / f"{name}.json")))
        for name, sentences in (
            ("recipe", SAMPLES),
            ("own", [row[0] for row in try_it()]),
        )
    }
    for name, test in tests().items():
        outputs = answered(translator, test[0], home / f"{name}.json")
        row = record["tests"][name] = report(translator, test, *outputs)
        print(f"{name}: BLEU {row['bleu']['value']:.1f}, chrF {row['chrf']['value']:.1f}")
        record.write()


if __name__ == "__main__":
    main()
