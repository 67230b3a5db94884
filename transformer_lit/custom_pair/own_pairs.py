"""Your own pair of languages: two columns of a file, or two parallel texts, cleaned, split, and
trained on with a model of their size."""

# Nothing here knows which languages these are. Lengths are compared in characters, because not
# every script has spaces between words; the corpus itself says how many characters of one language
# are as much as one of the other.
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch

from transformer_lit.data import grouped, sentence_key, shared_english, split_by_english, tidy
from transformer_lit.training import TrainingConfig
from transformer_lit.translation import ENDS, Translator
from transformer_lit.custom_pair import own_report
from transformer_lit.runs import records
from transformer_lit.runs.run import fingerprint
from transformer_lit.serving import confidence
from transformer_lit.corpora.texts import (
    TextPair,
    require_two_columns,
    must_be_sentences,
    must_be_text,
    read_columns,
    read_lines,
)
from transformer_lit.runtime.devices import default_device
from transformer_lit.corpora.files import sha256_file
from transformer_lit.custom_pair.noise import language_faults, letters_in, look_swapped
from transformer_lit.runtime.progress import tell
from transformer_lit.recipes.recipes import LONGEST as MOST_TOKENS
from transformer_lit.recipes.recipes import (
    Recipe,
    for_device,
    may_train,
    scored,
    tested,
    train_translator,
)
from transformer_lit.corpora.texts import take_evenly
from transformer_lit.custom_pair.spaceless import cut_for

# The table ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """How to train on about so many pairs.

    vocabulary: joint subwords; layers: of the encoder, and as many of the decoder; width: d_model,
    with a head for each 64 of it and a feed-forward layer four times as wide; max_tokens: of a
    batch, each side; warmup: steps, a tenth of all or less."""

    pairs: int
    vocabulary: int
    layers: int
    width: int
    dropout: float
    max_tokens: int
    epochs: int
    warmup: int


# the fewer the pairs, the fewer the tokens (each must be met often), the more dropout, the more
# epochs
SIZES = (
    Size(2_000, 1_000, 2, 128, 0.3, 512, 40, 100),
    Size(10_000, 2_000, 3, 192, 0.3, 1024, 25, 200),
    Size(50_000, 4_000, 3, 256, 0.2, 1024, 12, 400),
    Size(150_000, 8_000, 4, 256, 0.1, 2048, 8, 400),
    Size(1_000_000, 16_000, 6, 384, 0.1, 4096, 5, 400),
)


def size_for(pairs: int) -> Size:
    "The row of the table that is nearest by ratio."
    return min(SIZES, key=lambda size: abs(math.log(max(pairs, 1) / size.pairs)))


@dataclass
class OwnRecipe(Recipe):
    """A recipe for text that somebody brings.

    source: the language that it reads; text: the SHA-256 of all pairs that were kept, so that a
    folder goes on with no other ones."""

    corpus: str = "own"
    source: str = "en"
    text: str = ""

    @property
    def languages(self) -> tuple[str, str]:
        return self.source, self.language


def recipe_of(size: Size, languages: tuple[str, str], text: str = "") -> OwnRecipe:
    """How to train by a row of the table, from the first language to the second, with the rates of
    the book's own translators."""
    model = dict(
        d_model=size.width,
        n_heads=size.width // 64,
        d_ff=4 * size.width,
        n_encoder_layers=size.layers,
        n_decoder_layers=size.layers,
        norm="pre",
        dropout=size.dropout,
    )
    training = TrainingConfig(
        epochs=size.epochs,
        max_tokens=size.max_tokens,
        warmup=size.warmup,
        precision="auto",
    )
    return OwnRecipe(
        language=languages[1],
        source=languages[0],
        size=size.vocabulary,
        model=model,
        training=training,
        peak=4e-3,
        optimizer="muon",
        gain=1.0,
        text=text,
    )


def recipe_for(
    parts: dict[str, list[TextPair]],
    languages: tuple[str, str],
    epochs: int | None = None,
    besides: int = 0,
) -> OwnRecipe:
    """How to train on these pairs: by the table's row for so many.

    besides: pairs that were left out because they are doubted. They count for the row, so that
    models with and without can be compared."""
    size = size_for(len(parts["train"]) + besides)
    text = fingerprint(pair for part in parts.values() for pair in part)
    return recipe_of(replace(size, epochs=epochs or size.epochs), languages, text)


# Reading ------------------------------------------------------------------------------------------


def read_pairs(files: Sequence[Path]) -> list[TextPair]:
    """The lines of one file with two columns, or of two parallel texts, as they stand.

    Raises ValueError with one sentence if the columns or the sides don't fit, or if it is no text.
    """
    if len(files) == 1:
        pairs = list(read_columns(files[0]))
        require_two_columns(pairs, files[0])
        pairs = from_table(pairs, files[0])  # numbers may have stood in quotes
    else:
        one, other = (list(read_lines(file)) for file in files)
        for lines, file in zip((one, other), files):
            must_be_text(lines, file)
            if 2 * sum("\t" in line for line in lines) > len(lines) > 0:
                raise ValueError(
                    f"{file} has two columns already, and two files are one side each: join such"
                    " files with cat, or name one"
                )
        if len(one) != len(other):
            raise ValueError(
                f"{files[0]} has {len(one):,} lines and {files[1]} {len(other):,}: line by line"
                " they must say the same"
            )
        pairs = list(zip(one, other))
    must_be_sentences(pairs, " and ".join(map(str, files)))
    return pairs


QUOTED = re.compile(
    r'"([^"]|"")*"'
)  # a cell as a table program writes one that holds quotes or commas


def unquoted(cell: str) -> str:
    "A cell without the quotes that a table program puts around one that holds quotes or commas."
    return cell[1:-1].replace('""', '"') if QUOTED.fullmatch(cell) else cell


def from_table(pairs: list[TextPair], file: Path) -> list[TextPair]:
    """The pairs without a table program's quotes, if one wrote them: a quoted cell has doubled
    quotes inside, or nearly all with a comma are quoted. ValueError for a quote that isn't closed:
    a tab or an end of a line stands inside that cell."""
    cells = [cell for pair in pairs for cell in pair]
    with_comma = [cell for cell in cells if "," in cell]
    doubled = any('""' in cell[1:-1] and QUOTED.fullmatch(cell) for cell in cells)
    if not doubled and not (
        len(with_comma) > 9
        and 10 * sum(bool(QUOTED.fullmatch(cell)) for cell in with_comma) > 9 * len(with_comma)
    ):
        return pairs
    for number, pair in enumerate(pairs, 1):
        if any(cell.startswith('"') and not QUOTED.fullmatch(cell) for cell in pair):
            raise ValueError(
                f"line {number} of {file} opens a quote and doesn't close it: a table program put a"
                " cell there that holds a tab or an end of a line. Take those out of the table,"
                " and save it again"
            )
    return [(unquoted(one), unquoted(other)) for one, other in pairs]


# Cleaning -----------------------------------------------------------------------------------------

LONGEST = 600  # characters of a side, some hundred words of English
RATIO = 3.0  # a side may be so many times as long as the corpus leads one to expect
SLACK = 0.2  # of the usual length, added to the shorter side: "Go." may have four words
JUDGED = 1000  # pairs from which on languages are judged: of fewer, too little is known of either
SAME = 20  # letters; names and numbers are the same in both languages, sentences aren't


def fault(pair: TextPair) -> str:
    """Why a tidied pair is of no use, whatever the rest of the corpus looks like, or an empty
    string."""
    if not all(pair):
        return "empty"
    if "\ufffd" in pair[0] + pair[1]:
        return "garbled"
    if max(map(len, pair)) > LONGEST:
        return "too long"
    if letters_in(pair[0]) > SAME and pair[0].casefold() == pair[1].casefold():
        return "copied"
    return ""


def lopsided(pair: TextPair, per: float, usual: float) -> bool:
    """Is one side far longer than the other? per: target characters for one of the source; usual:
    characters of a target."""
    short, long = sorted((len(pair[0]) * per, float(len(pair[1]))))
    return long > RATIO * (short + SLACK * usual)


def judge_pairs(given: Sequence[TextPair], languages: bool = True) -> list[tuple[TextPair, str]]:
    """Every pair, tidied, and why it is left out, or an empty string. What is lopsided or in
    another language, the corpus decides.

    languages: leave out what looks like another one."""
    pairs, reasons, seen = [(tidy(source), tidy(target)) for source, target in given], [], set()
    for pair in pairs:
        reasons.append("repeated" if pair in seen else fault(pair))
        if not reasons[-1]:
            seen.add(pair)
    fine = [k for k, reason in enumerate(reasons) if not reason]
    if fine:
        per = median(len(target) / len(source) for source, target in (pairs[k] for k in fine))
        usual = median(len(pairs[k][1]) for k in fine)
        for k in fine:
            reasons[k] = "lopsided" if lopsided(pairs[k], per, usual) else ""
    even = [k for k in fine if not reasons[k]]
    if languages and len(even) >= JUDGED:
        for k, reason in zip(even, language_faults([pairs[k] for k in even])):
            reasons[k] = reason
    return list(zip(pairs, reasons))


def counted(given: Sequence[TextPair], judged: Sequence[tuple[TextPair, str]]) -> dict[str, int]:
    "How many pairs were given, written otherwise, kept, and left out for each reason."
    counts = Counter(reason or "kept" for _, reason in judged)
    respelled = sum(pair != tuple(raw) for raw, (pair, _) in zip(given, judged))
    return {"given": len(given), "respelled": respelled, "kept": 0} | dict(counts)


def clean_pairs(given: Sequence[TextPair]) -> tuple[list[TextPair], dict[str, int]]:
    "The useful pairs, each once and tidied, and how many fell to which rule."
    judged = judge_pairs(given)
    return [pair for pair, reason in judged if not reason], counted(given, judged)


# Splitting ----------------------------------------------------------------------------------------

HELD = 2000  # source sentences for the test, and as many to watch the training with
SHARE = 10  # at most one in so many for each
FEWEST = 50  # different source sentences


def spelled_alike(sentence: str) -> str:
    """What two spellings of one sentence share, in any script: all but letter case, invisible
    signs, and the marks at either end."""
    seen = "".join(
        sign for sign in sentence if unicodedata.category(sign) != "Cf"
    )  # invisible signs: between Thai words, soft hyphens
    kept = [
        (sign, unicodedata.category(sign)[0] in "PZ") for sign in unicodedata.normalize("NFC", seen)
    ]
    while kept and kept[-1][1]:
        kept.pop()
    start = next((k for k, (_, mark) in enumerate(kept) if not mark), 0)
    return sentence_key("".join(sign for sign, _ in kept[start:]))


@cache
def letters_alike(sentence: str) -> str:
    """What two spellings share of which one may have other spaces, marks, accents or widths: its
    letters and digits."""
    kept = (
        sign
        for sign in unicodedata.normalize("NFKD", sentence.casefold())
        if unicodedata.category(sign)[0] not in "PZ"
    )
    bare = "".join(sign for sign in kept if unicodedata.category(sign) not in ("Mn", "Cf", "Cc"))
    return bare or sentence  # a line of marks alone is its own


def split_pairs(pairs: list[TextPair]) -> dict[str, list[TextPair]]:
    """Training, validation and test, without a common sentence in the first column. ValueError if
    there are too few.

    Sentences whose letters are the same stay together: the first one decides where."""
    first: dict[str, str] = {}
    sources = [
        first.setdefault(letters_alike(source), spelled_alike(source)) for source, _ in pairs
    ]
    different = len(set(sources))
    if different < FEWEST:
        raise ValueError(
            f"{different} different sentences are left in the first column, and {FEWEST} are the"
            " fewest that can be split into training and test"
        )
    held = min(HELD, different // SHARE)
    parts = split_by_english([(source, str(k)) for k, source in enumerate(sources)], held, held)
    return {name: [pairs[int(k)] for _, k in part] for name, part in parts.items()}


class Prepared(NamedTuple):
    """The parts, what cleaning did, each pair that was left out with the reason, what cleaning did
    to pairs for training only, how many pairs were left out because they are doubted, and how many
    are listed as such."""

    parts: dict[str, list[TextPair]]
    counts: dict[str, int]
    left_out: list[tuple[TextPair, str]]
    more: dict[str, int]
    doubted: int = 0
    listed: int = 0


def has_one_of(pair: TextPair, held: Sequence[set[str]]) -> bool:
    """Is a side of the pair among these sentences? held: of the first and the second column, as
    `letters_alike`."""
    return any(letters_alike(sentence) in some for sentence, some in zip(pair, held))


def sentences_of(parts: dict[str, list[TextPair]], *names: str) -> list[set[str]]:
    "The sentences of these parts, of the first and the second column, as `letters_alike`."
    return [
        {letters_alike(pair[side]) for name in names for pair in parts[name]} for side in (0, 1)
    ]


def apart_by_second(
    parts: dict[str, list[TextPair]],
) -> tuple[dict[str, list[TextPair]], list[TextPair]]:
    """The parts without a common sentence in the second column either, for the other direction; and
    the pairs that this costs.

    The test is the same in both directions. So a reverse model never saw what the forward one is
    tested with, and may translate for it."""
    held, kept, lost = set[str](), {"test": parts["test"]}, []
    for part, before in (("valid", "test"), ("train", "valid")):
        held |= {letters_alike(target) for _, target in kept[before]}
        kept[part] = [pair for pair in parts[part] if letters_alike(pair[1]) not in held]
        lost += [pair for pair in parts[part] if letters_alike(pair[1]) in held]
    return kept, lost


def may_train_on(
    judged: Sequence[tuple[TextPair, str]], parts: dict[str, list[TextPair]]
) -> list[tuple[TextPair, str]]:
    """More pairs, judged. Also leaves out pairs that training already has, and pairs with a
    sentence of validation or test on either side."""
    known, held = set(parts["train"]), sentences_of(parts, "valid", "test")
    return [
        (
            pair,
            why or ("repeated" if pair in known else "held out" if has_one_of(pair, held) else ""),
        )
        for pair, why in judged
    ]


def without_doubted(
    train: Sequence[TextPair], files: Sequence[Path]
) -> tuple[list[TextPair], list[TextPair], int]:
    """Training pairs without those that files like doubted.tsv list, those, and how many are
    listed. ValueError if that leaves out none, or all."""
    named = " and ".join(map(str, files))
    doubted = {
        (tidy(source), tidy(target))
        for file in files
        for source, target in own_report.read_doubted(file)
    }
    if not doubted:
        raise ValueError(f"{named} lists no pair: leave --without out")
    known = set(train)
    doubted = {
        pair if pair in known else (tidy(unquoted(pair[0])), tidy(unquoted(pair[1])))
        for pair in doubted
    }
    kept, lost = [pair for pair in train if pair not in doubted], [
        pair for pair in train if pair in doubted
    ]
    if not lost:
        raise ValueError(
            f"none of the {len(doubted):,} pairs in {named} would be trained on: it must come from"
            " a translator of the same pairs, in the same direction"
        )
    if not kept:
        raise ValueError(f"{named} lists all training pairs: keep in it only those that you doubt")
    return kept, lost, len(doubted)


def prepare_pairs(
    files: Sequence[Path],
    reverse: bool = False,
    more: Sequence[Path] = (),
    without: Sequence[Path] = (),
    languages: bool = True,
) -> Prepared:
    """What lies in `files`, cleaned and split; reverse: the second column is the one to translate.

    more: files of pairs for training only, columns in the same order; none of their sentences is in
    validation or test, on either side. without: files like doubted.tsv, whose pairs are left out of
    training; validation and test stay as they are. languages: leave out what looks like another
    language. Raises ValueError if nothing is left, or if the columns of `more` look swapped."""

    def judged_of(files: Sequence[Path]) -> tuple[list[TextPair], list[tuple[TextPair, str]]]:
        given = read_pairs(files)
        return given, judge_pairs(given, languages)

    def kept(
        files: Sequence[Path], judged: Sequence[tuple[TextPair, str]], counts: dict[str, int]
    ) -> list[TextPair]:
        if not counts["kept"]:
            lost = own_report.reasons(counts) or "there is no line"
            raise ValueError(
                f"no pair of {' and '.join(map(str, files))} is left after cleaning: {lost}"
            )
        return [pair for pair, reason in judged if not reason]

    given, judged = judged_of(files)
    counts = counted(given, judged)
    parts = split_pairs(kept(files, judged, counts))
    if reverse:
        parts, shared = apart_by_second(parts)
        if not (parts["train"] and parts["valid"]):
            raise ValueError(
                "too few different sentences are in the second column to be split into training and"
                " test with --reverse"
            )
        judged += [(pair, "held out") for pair in shared]
        counts |= {"kept": counts["kept"] - len(shared), "held out": len(shared)}
    others: list[tuple[TextPair, str]] = []
    counts_of_more: dict[str, int] = {}
    if more:
        given, others = judged_of(more)
        if look_swapped([pair for pair, reason in others if not reason], parts["train"]):
            raise ValueError(
                f"the columns of {' and '.join(map(str, more))} look swapped: write its languages"
                f" in the order of {' and '.join(map(str, files))}"
            )
        others = may_train_on(others, parts)
        counts_of_more = counted(given, others)
        parts["train"] = parts["train"] + kept(more, others, counts_of_more)
    left_out = [row for row in [*judged, *others] if row[1]]
    if reverse:
        parts = {name: [pair[::-1] for pair in part] for name, part in parts.items()}
        left_out = [(pair[::-1], reason) for pair, reason in left_out]
    lost, listed = list[TextPair](), 0
    if without:
        parts["train"], lost, listed = without_doubted(parts["train"], without)
    return Prepared(
        parts,
        counts,
        left_out + [(pair, "doubted") for pair in lost],
        counts_of_more,
        len(lost),
        listed,
    )


# Training -----------------------------------------------------------------------------------------


def looked_at(parts: dict[str, list[TextPair]], most: int = 10) -> list[str]:
    "Source sentences of the validation part whose translations the log shows after each epoch."
    return list(dict.fromkeys(source for source, _ in take_evenly(parts["valid"], most)))


def limits_for(pairs: list[TextPair], easy: int = 20) -> tuple[int, int]:
    """The translator's limits: lines as long as those of training are translated whole.

    Where hardly one line in a hundred has several sentences, training held too few of them, and
    `pieces` cuts them as it does for the book's own translators."""
    several = sum(bool(re.search(ENDS, source)) for source, _ in pairs)
    return MOST_TOKENS, MOST_TOKENS if 100 * several >= len(pairs) else easy


def doubted(translator: Translator, pairs: list[TextPair]) -> list[tuple[float, TextPair]]:
    """The tenth of the training pairs that the trained model finds least likely, the least likely
    first.

    Wrong translations of the right length are among them, and right ones of rare words; copies
    aren't, where there were enough to learn them."""
    short = [
        (ids, pair)
        for ids, pair in zip(translator.encode_pairs(pairs), pairs)
        if max(map(len, ids)) <= MOST_TOKENS
    ]  # as in training
    rows = sorted(
        zip(
            confidence.pair_scores(translator, [ids for ids, _ in short]),
            [pair for _, pair in short],
        )
    )
    return rows[: len(rows) // 10]


def keep_calibration(
    translator: Translator, pairs: list[TextPair], folder: Path, most: int = 500
) -> None:
    """What the translator's probabilities are worth, from validation sentences, for `translate
    --show-confidence`; nothing if they are too few."""
    sources, references = zip(
        *take_evenly(list(zip(*grouped(pairs))), most)
    )  # a sentence keeps all its references
    said = confidence.translate_surely(translator, sources)
    chrf = confidence.sentence_chrf([one.text for one in said], references)
    if len(said) >= 2 * confidence.LEAST:
        confidence.save_calibration(
            confidence.calibrate([one.log_probability for one in said], chrf), folder
        )


def but_for_numbers(sources: Sequence[str], train: Sequence[TextPair]) -> float:
    """The share of test sentences that training holds with other numbers: lines made from templates
    flatter a score."""

    def frame(sentence: str) -> str:
        return re.sub(r"\d+", "0", letters_alike(sentence))

    held = {frame(source) for source, _ in train}
    return sum(frame(source) in held for source in sources) / max(len(sources), 1)


def train(
    files: Sequence[Path],
    languages: tuple[str, str],
    folder: Path,
    command: str,
    reverse: bool = False,
    epochs: int | None = None,
    device: torch.device | None = None,
    more: Sequence[Path] = (),
    without: Sequence[Path] = (),
    keep_languages: bool = False,
) -> dict:
    """Train a translator on `files` into `folder`, or go on; then test it.

    It leaves run.json and report.md, and pairs: test.tsv; left_out.tsv, by cleaning; doubted.tsv,
    of the training, by the trained model. The record is returned. languages: of the first and the
    second column; reverse: from the second to the first; more: files of pairs for training only;
    without: files like doubted.tsv, whose pairs aren't trained on; keep_languages: no pair is left
    out for its language."""
    parts, counts, left_out, counts_of_more, lost, listed = prepare_pairs(
        files, reverse, more, without, not keep_languages
    )
    recipe = recipe_for(parts, languages[::-1] if reverse else languages, epochs, lost)
    device = device or default_device()
    written = (
        own_report.TEST,
        own_report.REPORT,
        own_report.LEFT_OUT,
        own_report.DOUBTED,
        confidence.NAME,
    )
    may_train(folder, for_device(recipe, device, folder), written)  # before anything is written
    hashes = {file: sha256_file(file) for file in (*files, *more)}
    html = own_report.html_share(parts["train"])
    tell(
        *own_report.begun(
            files, parts, counts, recipe, more, counts_of_more, without, lost, listed, html
        )
    )

    def begin() -> None:  # to be read while it trains
        own_report.write_test(folder, parts["test"])
        own_report.write_left_out(folder, left_out)

    translator, trainer = train_translator(
        folder,
        recipe,
        parts,
        looked_at(parts),
        device=device,
        begin=begin,
        limits=limits_for(parts["train"]),
    )
    sources, references, said, held_out = tested(folder, recipe, translator, trainer, parts)
    cut = cut_for(ref for refs in references for ref in refs)
    data = {
        "name": recipe.corpus,
        "files": [{"file": file.name, "sha256": hashes[file]} for file in files],
        "cleaning": counts,
        **{name: len(part) for name, part in parts.items()},
        "distinct_test": len(sources),
        "too_many_tokens": len(parts["train"]) - trainer.n_pairs,
        "leak_by_sentence": shared_english(parts["train"], parts["test"]),
    }
    if more:
        data["train_only"] = {
            "files": [{"file": file.name, "sha256": hashes[file]} for file in more],
            "cleaning": counts_of_more,
        }
    if without:
        data["without"] = {
            "files": [str(file) for file in without],
            "listed": listed,
            "pairs": lost,
        }
    keep_calibration(
        translator, parts["valid"], folder
    )  # before the record, which says that all is done
    effort = records.effort(translator.model, trainer)
    where = [
        entry.get("hardware", effort["hardware"])
        for entry in trainer.log
        if entry["kind"] == "epoch"
    ]
    effort["hardware"] = ", then ".join(
        dict.fromkeys(where)
    )  # where it was trained, and not where it is tested
    record = records.write_record(
        folder,
        command,
        trainer.config.seed,
        replace(recipe, training=trainer.config),
        data,
        effort,
        [held_out] + scored(said, references, recipe.corpus + "-test", cut),
        interval=own_report.intervals(said, references, cut),
        copied_answers=own_report.known(references, parts["train"]),
        but_for_numbers=but_for_numbers(sources, parts["train"]),
        near_copies=own_report.nearly_known(sources, parts["train"]),
    )
    if not own_report.write_doubted(folder, lambda: doubted(translator, parts["train"])):
        tell(
            f"{folder / own_report.DOUBTED} stays as it is, you may have worked on it; once you"
            " have moved it, the same command writes it anew"
        )
    shown = own_report.examples(sources, references, said)
    own_report.write_report(folder, record, shown)
    tell(*own_report.ended(folder, record, shown))
    return record
