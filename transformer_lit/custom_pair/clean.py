"""Your own parallel corpus: filtered and split."""

# Nothing here knows which languages these are. Lengths are compared in characters, because not
# every script has spaces between words; the corpus itself says how many characters of one language
# are as much as one of the other.
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import NamedTuple

from transformer_lit.corpora.texts import (
    INVISIBLE,
    Pairs,
    Splits,
    TextPair,
    is_garbled,
    read_lines,
    take_evenly,
)
from transformer_lit.custom_pair import findings
from transformer_lit.custom_pair.formats import names_of, read_pairs
from transformer_lit.custom_pair.languages import (
    columns_look_swapped,
    common_words,
    count_letters,
    likely_language,
    swapped_pairs,
    wrong_language_reasons,
)
from transformer_lit.data import split_by_source, normalize_text

JudgedPairs = list[tuple[TextPair, str]]  # each pair with the reason to leave it out, or ""


# Cleaning -----------------------------------------------------------------------------------------

MAX_CHARACTERS = 600  # of a side, some hundred words of English
MAX_RATIO = 3.0  # a side may be so many times as long as the corpus leads one to expect
SLACK = 0.2  # of the usual length, added to the shorter side: "Go." may have four words
MIN_PAIRS_FOR_LANGUAGES = 1000  # of fewer, too little is known of either language
MIN_COPIED = 20  # letters; names and numbers are the same in both languages, sentences aren't


def rejection_reason(pair: TextPair) -> str:
    "Why a tidied pair is of no use, whatever the rest of the corpus looks like, or nothing."
    if max(map(len, pair)) > MAX_CHARACTERS:
        return "too long"
    if not all(pair):
        return "empty"
    if is_garbled(pair[0] + pair[1]):
        return "garbled"
    if count_letters(pair[0]) > MIN_COPIED and pair[0].casefold() == pair[1].casefold():
        return "copied"
    return ""


def readable(text: str) -> str:
    "Normalized as the book's corpora are; without invisible marks, and not encoded twice."
    return normalize_text(INVISIBLE.sub("", findings.decode_twice(text)))


def reject_pairs(pairs: Sequence[TextPair], by_language: bool = True) -> JudgedPairs:
    """Every pair, readable, and why it is left out, or an empty string. What is lopsided or in
    another language, the corpus decides.

    by_language: leave out what looks like another one."""
    extra = ["extra column" * ("\t" in source + target) for source, target in pairs]
    pairs = [(readable(source), readable(target)) for source, target in pairs]
    reasons, accepted = [], set[TextPair]()
    for pair, reason in zip(pairs, extra):
        reasons.append("repeated" if pair in accepted else reason or rejection_reason(pair))
        if not reasons[-1]:
            accepted.add(pair)
    useful = [k for k, reason in enumerate(reasons) if not reason]
    if useful:
        # characters of a target: for one of its source, and of the usual one
        ratio = median(len(pairs[k][1]) / len(pairs[k][0]) for k in useful)
        usual = median(len(pairs[k][1]) for k in useful)
        for k in useful:
            shorter, longer = sorted((len(pairs[k][0]) * ratio, float(len(pairs[k][1]))))
            reasons[k] = "lopsided" * (longer > MAX_RATIO * (shorter + SLACK * usual))
        useful = [k for k in useful if not reasons[k]]
    if by_language and len(useful) >= MIN_PAIRS_FOR_LANGUAGES:
        for k, reason in zip(useful, wrong_language_reasons([pairs[k] for k in useful])):
            reasons[k] = reason
    return list(zip(pairs, reasons))


def count_reasons(raw_pairs: Sequence[TextPair], judged: JudgedPairs) -> dict[str, int]:
    "How many pairs were given, written otherwise, kept, and left out for each reason."
    counts = Counter(reason or "kept" for _, reason in judged)
    respelled = sum(pair != tuple(raw) for raw, (pair, _) in zip(raw_pairs, judged))
    return {"given": len(raw_pairs), "respelled": respelled, "kept": 0, **counts}


def rejection_summary(counts: dict[str, int]) -> str:
    "Why pairs were left out, and how many for each reason, most first."
    rejected = Counter({k: n for k, n in counts.items() if k not in ("given", "respelled", "kept")})
    return ", ".join(f"{reason} {n:,}" for reason, n in (+rejected).most_common())


# Splitting ----------------------------------------------------------------------------------------

MAX_TEST = 2000  # source sentences for the test, and as many for validation
MAX_TEST_SHARE = 10  # at most one in so many for each
MIN_SENTENCES = 50  # different source sentences


@cache
def matching_key(sentence: str) -> str:
    """What two spellings share of which one may have other case, spaces, marks, accents or widths:
    its letters and digits."""
    letters = "".join(
        c
        for c in unicodedata.normalize("NFKD", sentence.casefold())
        if not re.match("[PZ]|Mn|C[cf]", unicodedata.category(c))
    )
    return letters or sentence  # a line of marks alone is its own


def split_pairs(pairs: Pairs) -> Splits:
    """Training, validation and test, without a common sentence in the first column. ValueError if
    there are too few.

    Sentences whose letters are the same stay together."""
    keys = [matching_key(source) for source, _ in pairs]
    n_sentences = len(set(keys))
    if n_sentences < MIN_SENTENCES:
        raise ValueError(
            f"{n_sentences} different sentences are left in the first column, and {MIN_SENTENCES}"
            " are the fewest that can be split into training and test"
        )
    n_test = min(MAX_TEST, n_sentences // MAX_TEST_SHARE)
    indices = split_by_source([(key, str(k)) for k, key in enumerate(keys)], n_test, n_test)
    return {name: [pairs[int(k)] for _, k in rows] for name, rows in indices.items()}


def separate_targets(splits: Splits) -> tuple[Splits, Pairs]:
    """The splits without a common sentence in the second column either, for the other direction;
    and the pairs that this costs.

    The test is the same in both directions. So a reverse model never saw what the forward one is
    tested with, and may translate for it."""
    held_out, separated, removed = set[str](), {}, []
    for name in "test", "valid", "train":
        separated[name] = [pair for pair in splits[name] if matching_key(pair[1]) not in held_out]
        removed += [pair for pair in splits[name] if matching_key(pair[1]) in held_out]
        held_out |= {matching_key(target) for _, target in separated[name]}
    return separated, removed


def reject_held_out(judged: JudgedPairs, splits: Splits) -> JudgedPairs:
    """More pairs for training: those are left out, too, that training already has, and those with
    a sentence of validation or test on either side."""
    train, held_out = set(splits["train"]), [
        {matching_key(pair[side]) for name in ("valid", "test") for pair in splits[name]}
        for side in (0, 1)
    ]

    def reason(pair: TextPair) -> str:
        if pair in train:
            return "repeated"
        return "held out" * any(matching_key(text) in keys for text, keys in zip(pair, held_out))

    return [(pair, rejection or reason(pair)) for pair, rejection in judged]


def exclude_pairs(train: Pairs, paths: Sequence[Path]) -> Pairs:
    """Those training pairs that files like low_confidence.tsv list, with other quotes and spaces,
    too: what somebody kept of such a file may come from a table program. ValueError if it lists
    none or all."""
    lines = [line for path in paths for line in read_lines(path)]
    listed = {tuple(map(matching_key, line.split("\t")[1:3])) for line in lines}
    excluded = [pair for pair in train if tuple(map(matching_key, pair)) in listed]
    if not 0 < len(excluded) < len(train):
        raise ValueError(
            f"the {len(lines):,} lines of {names_of(paths)} list none of the training pairs, or"
            " all: keep those that you doubt of a low_confidence.tsv, which comes"
            " from a translator of the same pairs, in the same direction"
        )
    return excluded


class CleanedCorpus(NamedTuple):
    """The splits; what cleaning did, by reason; each rejected pair with its reason; what cleaning
    did to the pairs for training only; how many a list excluded; what was found, in sentences."""

    splits: Splits
    counts: dict[str, int]
    rejected: JudgedPairs
    train_only_counts: dict[str, int]
    n_excluded: int
    notes: list[str]


def prepare_pairs(
    paths: Sequence[Path],
    reverse: bool = False,
    train_only: Sequence[Path] = (),
    exclude: Sequence[Path] = (),
    by_language: bool = True,
    languages: Sequence[str] = ("source", "target"),
) -> CleanedCorpus:
    """What lies in `paths`, cleaned and split; reverse: the second column is the one to translate.

    train_only: files of pairs for training only, columns in the same order; none of their sentences
    is in validation or test, on either side. exclude: files like low_confidence.tsv, whose pairs
    are left out of training; validation and test stay as they are. by_language: leave out what
    looks like another language. languages: names of the columns, where a file has names. Raises
    ValueError if nothing is left, or if the columns of `train_only` look swapped."""

    def useful_pairs(judged, counts, paths):
        if not counts["kept"]:
            raise ValueError(
                f"no pair of {names_of(paths)} is left after cleaning:"
                f" {rejection_summary(counts) or 'there is no line'}"
                + findings.ADVICE["too"] * ("too long" in counts)
            )
        return [pair for pair, reason in judged if not reason]

    pairs = read_pairs(paths, languages)
    sides = [*map(common_words, zip(*take_evenly(pairs, 2000)))]
    for n, declared in enumerate(languages if by_language else ()):
        swapped = sides[1 - n][declared] > 3 * sides[n][declared] + 20
        likely = languages[1 - n] if swapped else likely_language(sides[n], declared)
        if likely != declared:
            raise ValueError(
                f"column {n + 1} of {names_of(paths)} looks like {likely}, and --languages says"
                f" {declared}: keep two columns, give their languages in order (--reverse for the"
                " other direction), or --no-langid-filter if that's right"
            )
    swapped = swapped_pairs(pairs, *languages) if by_language else []
    pairs = [pair[:: -1 if turn else 1] for pair, turn in zip(pairs, swapped)] or pairs
    judged = reject_pairs(pairs, by_language)
    counts, more_counts, excluded = count_reasons(pairs, judged), {}, []
    splits = split_pairs(useful_pairs(judged, counts, paths))
    notes = findings.corpus_notes(pairs, judged, int(not reverse), swapped)
    if reverse:
        splits, shared = separate_targets(splits)
        if not (splits["train"] and splits["valid"]):
            raise ValueError(
                "too few different sentences are in the second column to be split into training and"
                " test with --reverse"
            )
        judged += [(pair, "held out") for pair in shared]
        counts |= {"kept": counts["kept"] - len(shared), "held out": len(shared)}
    if train_only:
        pairs = read_pairs(train_only, languages)
        judged_more = reject_pairs(pairs, by_language)
        usable = useful_pairs(judged_more, count_reasons(pairs, judged_more), train_only)
        for note in findings.corpus_notes(pairs, judged_more, int(not reverse)):
            notes.append(f"{names_of(train_only)}: {note}")
        if columns_look_swapped(usable, splits["train"]):
            raise ValueError(
                f"the columns of {names_of(train_only)} look swapped: write its languages in the"
                f" order of {names_of(paths)}"
            )
        judged_more = reject_held_out(judged_more, splits)
        more_counts = count_reasons(pairs, judged_more)
        splits["train"] += useful_pairs(judged_more, more_counts, train_only)
        judged += judged_more
    rejected = [row for row in judged if row[1]]
    if reverse:
        splits = {name: [pair[::-1] for pair in pairs] for name, pairs in splits.items()}
        rejected = [(pair[::-1], reason) for pair, reason in rejected]
    if exclude:
        excluded = exclude_pairs(splits["train"], exclude)
        left_out = set(excluded)
        splits["train"] = [pair for pair in splits["train"] if pair not in left_out]
        rejected += [(pair, "low confidence") for pair in excluded]
    return CleanedCorpus(splits, counts, rejected, more_counts, len(excluded), notes)
