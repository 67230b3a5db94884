"""What a translator knows: its scores on texts of nine kinds, what it copies, what it makes up or
leaves out.

    python bench/domains.py                                # the default translator; the same
                                                           # command goes on after a stop
    python bench/domains.py --folder data/checkpoints/mixture-fr    # another one

The tests: Tatoeba's, Multi30k 2016, newstest2013 and 2014, the news and articles of Parallel UD,
and a thousand sentences each of law, web pages and two manuals that `mixture-en-fr` holds out; with
all references and with the first alone. Beam 4. The record is written after each test; rows of the
same weights stay. Those of open-fr go into its card. Copying: 200 sentences each with an invented
name, a number, a date, a price; right is an answer that has it, written the English or the French
way. Words: 200 nouns of the pocket corpus alone; right is the noun, with or without its article.
Made up or left out: answers of less than half or more than twice as many words as the source, and
answers that say three words three times. The twelve sentences of the recipes and the forty of
data/try_it.tsv are kept with their answers. Needs $TRANSFORMER_LIT_DATA with `general/en-fr` and
`test_sets`. The record: book/results/bench/domains-NAME.json."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from statistics import mean

from common import BENCH, ROOT, Record, options, scores, try_it, where
from publish import with_sections

from transformer_lit import data
from transformer_lit.corpora.files import read_json, sha256_file, shipped, write_json
from transformer_lit.corpora.texts import read_columns, take_evenly
from transformer_lit.evaluation import ngram_counts
from transformer_lit.grammar.french import nouns
from transformer_lit.recipes import training_sets
from transformer_lit.recipes.recipes import SAMPLES
from transformer_lit.serving.confidence import translate_with_scores
from transformer_lit.translation import Translator

Test = tuple[list[str], list[list[str]]]  # sentences, the references of each
Probe = tuple[str, Callable[[str], bool]]  # a text, and a question to an answer: is it right?


def tests() -> dict[str, Test]:
    "Every test by its name."
    held_out = training_sets.mixture_held_out("fr")
    news, articles = held_out["valid"], training_sets.own_folder("test_sets") / "ud_pud.en-fr.tsv"
    return {
        "tatoeba": data.load_test_set("tatoeba"),
        "multi30k": data.load_test_set("multi30k"),
        "newstest2013": ([english for english, _ in news], [[french] for _, french in news]),
        "newstest2014": data.load_test_set("newstest2014"),
        "pud": data.group_references(read_columns(articles)),
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


def is_noun(french: str, text: str) -> bool:
    "Is the text this noun, alone or with an article?"
    noun = re.escape(french)
    return bool(re.fullmatch(rf"((une?|les?|la|des) |l')?{noun}\W*", text.casefold()))


def probes(kind: str) -> list[Probe]:
    "Sentences, each with its question; no value comes twice. Of `words`, nouns alone."
    if kind == "words":
        words = {noun.english: noun.french.lstrip("*") for noun in nouns()}
        chosen = take_evenly([*words.items()], 200)
        return [(english, partial(is_noun, french)) for english, french in chosen]
    rng, found, frames = Random(f"{kind} 1"), {}, FRAMES[kind]
    while len(found) < 200:
        value, is_right = one_probe(kind, rng)
        found.setdefault(value, (frames[len(found) % len(frames)].format(value), is_right))
    return list(found.values())


# Made up, left out --------------------------------------------------------------------------------


def repeats(text: str) -> bool:
    "Does it say some three words three times?"
    return max(ngram_counts(text.casefold().split(), 3).values(), default=0) > 2


def report(test: Test, outputs: list[str]) -> dict:
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
    """The translator in a folder (or the default one), the folder, the hash of its weights, and
    where answers of these weights are kept."""
    folder = folder or shipped("data/checkpoints/open-fr")
    translator = Translator.load(folder)
    weights = sha256_file(folder / "model.safetensors")
    return translator, folder, weights, ROOT / ".run/domains" / weights[:12]


def count_copied(translator: Translator, home: Path, shares: dict[str, float]) -> None:
    "Adds the share of right answers for each kind of thing that is copied, and of single words."
    for kind in (*FRAMES, "words"):
        if kind not in shares:
            sentences, questions = zip(*probes(kind))
            outputs, _ = answered(translator, list(sentences), home / f"{kind}.json")
            shares[kind] = mean(is_right(text) for is_right, text in zip(questions, outputs))


def score_table(rows: dict[str, dict]) -> str:
    "For the card."
    lines = [
        "By `bench/domains.py`: first reference, beam size 4, 95% intervals. Length: output to"
        " reference.\n\n| text | BLEU | chrF2 | length ratio |\n|---|---|---|---|"
    ]
    for name, row in rows.items():
        first = row.get("first", row)
        bleu, chrf = (
            "{value:.1f} ({low:.1f} to {high:.1f})".format(**first[metric])
            for metric in ("bleu", "chrf")
        )
        lines.append(f"| {name} | {bleu} | {chrf} | {first['bleu']['length_ratio']:.2f} |")
    return "\n".join(lines)


def main():
    o = options(__doc__, folder=Path)
    translator, folder, weights, home = english_french(o.folder)
    record = Record(BENCH / f"domains-{folder.name}.json", weights=weights, copied={}, tests={})
    place = where()  # before a record has changed the checkout
    if record.path.exists() and (known := read_json(record.path))["weights"] == weights:
        record |= known | {"command": record["command"]}
    count_copied(translator, home, record["copied"])
    spoken = record.setdefault("spoken", {})
    for name, sentences in ("recipe", SAMPLES), ("own", [row[0] for row in try_it()]):
        if name not in spoken:
            outputs = answered(translator, sentences, home / f"{name}.json")
            spoken[name] = list(zip(sentences, *outputs))
    for name, test in tests().items():
        if name not in record["tests"]:
            outputs, _ = answered(translator, test[0], home / f"{name}.json")
            record["tests"][name] = report(test, outputs) | place
        record.write()
        print(name)
    if folder.name == "open-fr":
        page = folder / "README.md"
        text = with_sections(page.read_text("utf-8"), {"Scores": score_table(record["tests"])})
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
