"""Report on a model of your own pair: a page in Markdown, a summary on the screen, and its test
set, to be scored again."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from transformer_lit import evaluation
from transformer_lit.corpora.files import write_text
from transformer_lit.corpora.texts import TextPair, read_columns, take_evenly
from transformer_lit.custom_pair.clean import CleanedCorpus, matching_key, rejection_summary
from transformer_lit.custom_pair.formats import names_of
from transformer_lit.custom_pair.languages import has_spaces
from transformer_lit.data import group_references
from transformer_lit.serving.confidence import sentence_chrf

TEST, REPORT = "test.tsv", "report.md"
LOW_CONFIDENCE = "low_confidence.tsv"
N_EXAMPLES = 10  # right ones, and as many wrong ones
MIN_FOR_INTERVAL = 20  # sentences of a test below which a bootstrap says nothing
ESCAPES = str.maketrans({"\\": "\\\\", "|": "\\|", "&": "&amp;", "<": "&lt;"})  # of Markdown
References = Sequence[Sequence[str]]


def write_tsv(path: Path, rows: Iterable[Sequence[str]]) -> None:
    "A line for each row."
    write_text(path, "".join("\t".join(row) + "\n" for row in rows))


# What is measured ---------------------------------------------------------------------------------


def score(hypotheses: Sequence[str], references: References) -> tuple[list[dict], dict]:
    """BLEU and chrF, and BLEU with its 95% interval. Where the references put no spaces between
    words, BLEU is of characters: its signature says so."""
    tokenize = "13a" if has_spaces(ref for refs in references for ref in refs) else "char"
    stats = evaluation.segment_stats(hypotheses, references, tokenize)
    scores = evaluation.sacrebleu_scores(hypotheses, references, tokenize)
    return scores, evaluation.bootstrap_interval(stats)


def score_again(translate: Callable[[list[str]], list[str]], folder: Path) -> dict:
    """A report of the folder's own test: scores with the first reference and with all, and BLEU's
    interval."""
    sources, references = group_references(list(read_columns(folder / TEST)))
    hypotheses = translate(sources)
    scores, interval = score(hypotheses, [refs[:1] for refs in references])
    return {
        "sentences": len(sources),
        "sha256": evaluation.hash_test_set(sources, references),
        "one": scores,
        "interval": interval,
        "all": score(hypotheses, references)[0],
    }


def leaked_but_for_numbers(sources: Sequence[str], train: Iterable[TextPair]) -> float:
    """The share of test sentences that training holds with other numbers: lines made from templates
    flatter a score."""

    def frame(sentence):
        return re.sub(r"\d+", "0", matching_key(sentence))

    frames = {frame(source) for source, _ in train}
    return fmean(frame(source) in frames for source in sources)


class Example(NamedTuple):
    """A sentence of the test, a reference, its translation, and how near the two are (chrF, 0 to
    100)."""

    source: str
    reference: str
    translation: str
    chrf: float

    @property
    def is_right(self) -> bool:
        return self.translation == self.reference


Examples = Mapping[str, Sequence[Example]]  # "right" and "wrong" ones


def choose_examples(
    sources: Sequence[str], references: References, translations: Sequence[str]
) -> Examples:
    """Translations to look at: at most N_EXAMPLES "right" and as many "wrong" ones.

    Right is what equals a reference, or, where too few do, what comes nearest by chrF. Wrong ones
    are spread over the half of the others that is farthest from its references: the very worst
    alone would show only what no reader doubts."""
    chrf = sentence_chrf(translations, references)
    rows = [
        Example(source, text if text in refs else refs[0], text, score)
        for source, refs, text, score in zip(sources, references, translations, chrf)
    ]
    rows.sort(key=lambda row: (-row.is_right, -row.chrf))
    n_right = max(sum(row.is_right for row in rows), min(N_EXAMPLES, len(rows) // 2))
    wrong = rows[n_right:][::-1]
    return {
        "right": take_evenly(rows[:n_right], N_EXAMPLES),
        "wrong": take_evenly(wrong[: (len(wrong) + 1) // 2], N_EXAMPLES),
    }


# In words -----------------------------------------------------------------------------------------


def lines_before(
    paths: Sequence[Path],
    corpus: CleanedCorpus,
    recipe,
    train_only: Sequence[Path],
    exclude: Sequence[Path],
) -> list[str]:
    """What is printed before the training: pairs, also those for training only and excluded ones,
    parts, model."""

    def summary(paths, counts, use=""):
        rejected = rejection_summary(counts)
        return (
            f"{names_of(paths)}: {counts['given']:,} pairs, {counts['kept']:,} kept{use}"
            + f"; left out: {rejected}" * bool(rejected)
        )

    lines = [summary(paths, corpus.counts), *corpus.notes]
    if train_only:
        lines.append(summary(train_only, corpus.train_only_counts, " for training only"))
    if exclude:
        lines.append(
            f"{names_of(exclude)}: {corpus.n_excluded:,} of its pairs are left out of training"
        )
    sizes = ", ".join(f"{name} {len(corpus.splits[name]):,}" for name in ("train", "valid", "test"))
    model, training = recipe.model, recipe.training
    return [
        *lines,
        f"{recipe.source} to {recipe.language}: {sizes}",
        f"at most {recipe.vocab_size:,} subwords, {model['n_encoder_layers']} +"
        f" {model['n_decoder_layers']} layers of width {model['d_model']}, dropout"
        f" {model['dropout']}, {training.epochs} epoch{'s' * (training.epochs > 1)} in batches of"
        f" {training.max_tokens:,} tokens",
    ]


def score_lines(record: Mapping) -> list[str]:
    """The scores of the test, each with its signature, BLEU with its interval; twice where some
    sentences have several references."""
    data = record["data"]
    scores = [row for row in record["scores"] if "references" in row]
    several = data["distinct_test"] < data["test"]
    which = {"first": ", first reference only", "all": ", all references"}
    lines = []
    for row in scores if several else scores[:2]:
        ends = record["interval"][row["references"]]
        interval = f" (95% interval {ends['low']:.1f} to {ends['high']:.1f})"
        if data["distinct_test"] < MIN_FOR_INTERVAL:
            interval = " (too few sentences for an interval)"
        lines.append(
            f"{row['metric']} {row['value']:.1f}{interval * (row['metric'] == 'BLEU')}"
            f"{which[row['references']] * several}  {row['signature']}"
        )
    return lines


def too_long_line(record: Mapping) -> str:
    "What was left out for its tokens, as a sentence; empty if nothing was."
    n = record["data"]["too_many_tokens"]
    return f"{n:,} training pairs were left out because a side has over 128 tokens." * bool(n)


def lines_after(folder: Path, record: Mapping, examples: Examples) -> list[str]:
    "What is printed at the end: scores, some translations, where the rest stands."
    lines = [too_long_line(record)] if too_long_line(record) else []
    lines += [
        f"{record['data']['distinct_test']:,} test sentences, none of them among the training"
        " pairs:",
        *score_lines(record),
    ]
    for name, rows in examples.items():
        for row in take_evenly(rows, 3):
            label = "right" if row.is_right else "near" if name == "right" else name
            reference = f"  (reference: {row.reference})" * (not row.is_right)
            lines.append(f"{label}: {row.source} → {row.translation or 'nothing'}{reference}")
    return lines + [
        f"more in {folder / REPORT}; to use it: transformer-lit translate --model"
        f' {shlex.quote(str(folder))} "..."'
    ]


def bullets(lines: Iterable[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    "A table of Markdown."
    lines = [head, ["---"] * len(head), *rows]
    cells = [[" ".join(cell.translate(ESCAPES).splitlines()) for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells) + "\n"


CHARACTERS = """
BLEU is counted on characters (`tok:char`), because words aren't separated by spaces here.
Published scores for such languages often use another tokenizer (`zh`, `ja-mecab`, `flores200`) and
can't be compared with these.
"""
PAGE = """# A translator from {recipe[source]} to {recipe[language]}

    {command}

## Pairs

{pairs}
{data[cleaning][respelled]:,} pairs were respelled by tidying: spaces, apostrophes, composed
letters. Every pair that was left out, except repeated ones, is in filtered.tsv with its reason:
"perhaps" marks a guess from the letters alone, "held out" a training pair that shares a sentence
with the test or validation part, and "low confidence" a pair that a list excluded.
low_confidence.tsv lists the training pairs that the trained model finds least likely, each with its
mean log-probability per token: look there for wrong translations.

No two parts share a source sentence, not even one with other punctuation, spaces or accents. Of the
test sentences, {copied_answers:.0%} have a reference that also occurs in training, as the
translation of another sentence, {but_for_numbers:.0%} occur in training with other numbers, and
{near_copies:.0%} are nearly repeated by a training sentence (of eight words or more: most runs of
four words are the same). Such sentences inflate the scores.

{too_long}

## Model

{model}; {parameters:,} parameters. Trained {minutes:.1f} minutes on {hardware}, torch {torch}, seed
{seed}.

## Scores

On {data[distinct_test]:,} test sentences, kept in test.tsv:

{score_list}{characters}
Validation loss: {scores[0][value]:.3f} nats per token.

## Right

{n_right} of these equal a reference; others come nearest to theirs by chrF.

{right}
## Wrong

A sample from the half of the other translations that is farthest from the references.

{wrong}"""


def write_report(folder: Path, record: Mapping, examples: Examples) -> None:
    "All of it as a page, to `folder`/report.md."
    *pairs, model = record["data"]["lines"]
    tables = {
        name: markdown_table(
            ("source", "reference", "translation", "chrF2"),
            [(row.source, row.reference, row.translation, f"{row.chrf:.0f}") for row in rows],
        )
        for name, rows in examples.items()
    }
    write_text(
        folder / REPORT,
        PAGE.format(
            **record,
            **tables,
            pairs=bullets(pairs),
            too_long=too_long_line(record),
            model=model,
            minutes=record["seconds"] / 60,
            score_list=bullets(score_lines(record)),
            characters=CHARACTERS * ("tok:char" in str(record["scores"])),
            n_right=sum(row.is_right for row in examples["right"]),
        ),
    )
