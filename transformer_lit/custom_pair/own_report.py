"""What a translator of your own pair learned: a page in its folder, some lines on the screen, and
its held-out test, to be scored again."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transformer_lit.data import grouped, known_answers
from transformer_lit.evaluation import checksum, interval
from transformer_lit.corpora.texts import TextPair, require_two_columns, read_columns, read_lines
from transformer_lit.corpora.files import write_text
from transformer_lit.recipes.augmentation import NearDuplicates
from transformer_lit.corpora.texts import take_evenly
from transformer_lit.custom_pair.spaceless import cut_for, line_counts_by, scores_by

if TYPE_CHECKING:
    from transformer_lit.custom_pair.own_pairs import OwnRecipe

TEST, REPORT, LEFT_OUT, DOUBTED = "test.tsv", "report.md", "left_out.tsv", "doubted.tsv"
FEW = 20  # sentences of a test below which a bootstrap says nothing


# What a folder keeps of the text ------------------------------------------------------------------


def write_test(folder: Path, pairs: Iterable[TextPair]) -> None:
    "The held-out pairs, as two columns."
    write_text(folder / TEST, "".join(f"{source}\t{target}\n" for source, target in pairs))


def write_left_out(folder: Path, judged: Iterable[tuple[TextPair, str]]) -> None:
    """The pairs that cleaning left out, as three columns, the reason first. Repeated ones stay
    away: they are in training once."""
    write_text(
        folder / LEFT_OUT,
        "".join(
            f"{reason}\t{source}\t{target}\n"
            for (source, target), reason in judged
            if reason != "repeated"
        ),
    )


def write_doubted(folder: Path, rows: Callable[[], Iterable[tuple[float, TextPair]]]) -> bool:
    """Training pairs to look at, as three columns, the mean log-probability of a token first. A
    list that stands there stays, because somebody may have worked on it; False then, and `rows`
    isn't asked."""
    if (folder / DOUBTED).exists():
        return False
    write_text(
        folder / DOUBTED,
        "".join(f"{score:.2f}\t{source}\t{target}\n" for score, (source, target) in rows()),
    )
    return True


def read_doubted(path: Path) -> list[TextPair]:
    """The pairs of doubted.tsv, or of what somebody kept of it, perhaps with a table program.
    ValueError if a line has no number and two sentences."""
    pairs = []
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        score, *pair = line.rstrip("\t").split("\t")
        if len(pair) != 2 or not re.fullmatch(r"\ufeff?-?\d+([.,]\d+)?", score):
            raise ValueError(
                f"line {number} of {path} isn't a number, a sentence and its translation, with tabs"
                f" between: give a {DOUBTED} as training leaves it, less the lines of pairs that"
                " are right"
            )
        pairs.append((pair[0], pair[1]))
    return pairs


def score_again(translate: Callable[[list[str]], list[str]], folder: Path) -> dict:
    """A report of the folder's own test: scores with the first reference and with all, and BLEU's
    interval."""
    pairs = list(read_columns(folder / TEST))
    require_two_columns(pairs, folder / TEST)
    sources, references = grouped(pairs)
    if not sources:
        raise ValueError(f"{folder / TEST} is empty: only another training writes it again")
    said, first = translate(sources), [refs[:1] for refs in references]
    cut = cut_for(ref for refs in references for ref in refs)
    return {
        "sentences": len(sources),
        "sha256": checksum(sources, references),
        "one": scores_by(said, first, cut),
        "interval": intervals(said, references, cut)["first"],
        "all": scores_by(said, references, cut),
    }


# What is measured besides the scores --------------------------------------------------------------


def intervals(
    said: Sequence[str], references: Sequence[Sequence[str]], cut: str
) -> dict[str, dict]:
    "BLEU with its 95% interval, with the first reference and with all."
    which = {"first": [refs[:1] for refs in references], "all": references}
    return {name: interval(line_counts_by(said, some, cut)) for name, some in which.items()}


def known(references: Sequence[Sequence[str]], train: Iterable[TextPair]) -> float:
    """The share of test sentences with a reference that training holds too, as the translation of
    another sentence."""
    found = known_answers(references, train)
    return sum(found) / max(len(found), 1)


def nearly_known(sources: Sequence[str], train: Iterable[TextPair]) -> float:
    """The share of test sentences that a training sentence nearly repeats: the same words, or for
    one of eight words or more most runs of four."""
    near, found = NearDuplicates(sources), set[int]()
    for source, _ in train:
        found |= near.of(source)
    return len(found) / max(len(sources), 1)


@dataclass(frozen=True)
class Answer:
    """A sentence of the test, a reference of it, what was said, and how near the two are (chrF, 0
    to 100)."""

    source: str
    reference: str
    said: str
    chrf: float
    right: bool


def examples(
    sources: Sequence[str], references: Sequence[Sequence[str]], said: Sequence[str], most: int = 10
) -> dict[str, list[Answer]]:
    """Answers to look at: at most so many "right" and so many "wrong" ones.

    Right is what equals a reference; where too few do, the nearest ones by chrF. Wrong ones are
    spread over the half of the others that is farthest from its references: the very worst alone
    would show only what no reader doubts."""
    import sacrebleu

    metric = sacrebleu.CHRF()
    rows = [
        Answer(
            source,
            one if one in refs else refs[0],
            one,
            metric.sentence_score(one, list(refs)).score,
            one in refs,
        )
        for source, refs, one in zip(sources, references, said, strict=True)
    ]
    equal = [row for row in rows if row.right]
    others = sorted((row for row in rows if not row.right), key=lambda row: row.chrf)
    near = others[len(others) - max(0, min(most - len(equal), len(others) // 2)) :]
    far = others[: len(others) - len(near)]
    return {
        "right": take_evenly(equal, most) + near[::-1],
        "wrong": take_evenly(far[: (len(far) + 1) // 2], most),
    }


# In words -----------------------------------------------------------------------------------------


def reasons(counts: Mapping[str, int]) -> str:
    "Why pairs were left out, and how many for each reason, most first."
    lost = {
        name: n for name, n in counts.items() if name not in ("given", "respelled", "kept") and n
    }
    return ", ".join(f"{name} {n:,}" for name, n in sorted(lost.items(), key=lambda row: -row[1]))


def shape(recipe: Mapping) -> str:
    "The size of the model and how it is trained, in a line; recipe: as a record has it."
    model, training = recipe["model"], recipe["training"]
    epochs = f"{training['epochs']} epoch" + "s" * (training["epochs"] > 1)
    return (
        f"at most {recipe['size']:,} subwords, {model['n_encoder_layers']} +"
        f" {model['n_decoder_layers']} layers of width {model['d_model']}, dropout"
        f" {model['dropout']}, {epochs} in batches of {training['max_tokens']:,} tokens"
    )


MARKUP = re.compile(r"&(#\d+|[a-z]+);|<[a-z/][^>]*>", re.I)  # of HTML


def html_share(pairs: Sequence[TextPair]) -> float:
    "The share of pairs with signs of HTML."
    return sum(bool(MARKUP.search(f"{one} {other}")) for one, other in pairs) / max(len(pairs), 1)


def warnings(counts: Mapping[str, int], html: float) -> list[str]:
    "What to look at before one goes on; html: as `html_share` gives it."
    other = sum(n for reason, n in counts.items() if reason.startswith("perhaps"))
    return [
        f"{other:,} pairs were left out as perhaps in another language: read {LEFT_OUT}, and if"
        " they are right, train with --keep-languages into another folder"
    ] * (100 * other > 3 * counts["given"]) + [
        f"{html:.0%} of the pairs hold HTML, as &amp; or <b>, and are trained on as they stand:"
        " convert them first"
    ] * (
        html > 0.01
    )


def begun(
    files: Sequence[Path],
    parts: Mapping[str, Sequence],
    counts: Mapping[str, int],
    recipe: "OwnRecipe",
    more: Sequence[Path] = (),
    counts_of_more: Mapping[str, int] | None = None,
    without: Sequence[Path] = (),
    doubted: int = 0,
    listed: int = 0,
    html: float = 0.0,
) -> list[str]:
    """What is said before the training: pairs, also those for training only, those that are
    doubted, parts, model."""
    from dataclasses import asdict

    def kept(files: Sequence[Path], counts: Mapping[str, int], to_do: str = "") -> str:
        lost = reasons(counts)
        return (
            f"{' and '.join(map(str, files))}: {counts['given']:,} pairs, {counts['kept']:,}"
            f" kept{to_do}"
            + (f"; left out: {lost}" if lost else "")
        )

    return [
        kept(files, counts),
        *warnings(counts, html),
        *([kept(more, counts_of_more, " for training only")] if more and counts_of_more else []),
        *(
            [
                f"{' and '.join(map(str, without))}: {doubted:,} of {listed:,} listed pairs left"
                " out of training"
            ]
            if without
            else []
        ),
        f"{recipe.source} to {recipe.language}: "
        + ", ".join(f"{name} {len(parts[name]):,}" for name in ("train", "valid", "test")),
        shape(asdict(recipe)),
    ]


def bleu_lines(record: Mapping) -> list[str]:
    """The scores of the test, each with its signature, BLEU with its interval; twice where some
    sentences have several references."""
    lines, tests = [], [score for score in record["scores"] if "references" in score]
    one = record["data"]["distinct_test"] == record["data"]["test"]
    for score in tests[:2] if one else tests:
        which = (
            ""
            if one
            else {"first": ", first reference only", "all": ", all references"}[score["references"]]
        )
        sure = record["interval"][score["references"]]
        told = (
            f"95% interval {sure['low']:.1f} to {sure['high']:.1f}"
            if record["data"]["distinct_test"] >= FEW
            else "too few sentences for an interval"
        )
        between = f" ({told})" if score["metric"] == "BLEU" else ""
        lines.append(
            f"{score['metric']} {score['value']:.1f}{between}{which}  {score['signature']}"
        )
    return lines


def over_long(record: Mapping) -> str:
    "What was left out for its tokens, as a sentence; empty if nothing was."
    over = record["data"]["too_many_tokens"]
    return (
        f"{over:,} training pairs were left out because a side has over 128 tokens." if over else ""
    )


def ended(
    folder: Path, record: Mapping, shown: Mapping[str, Sequence[Answer]], most: int = 3
) -> list[str]:
    "What is said at the end: scores, some answers, where the rest stands."
    lines = [over_long(record)] * bool(over_long(record))
    lines += [
        f"{record['data']['distinct_test']:,} test sentences, none of them in training:",
        *bleu_lines(record),
    ]
    for name, rows in shown.items():
        for row in take_evenly(rows, most):
            asked = "" if row.right else f"  (reference: {row.reference})"
            lines.append(
                f"{'right' if row.right else 'near' if name == 'right' else name}: {row.source} →"
                f" {row.said or 'nothing'}{asked}"
            )
    return lines + [
        f"more in {folder / REPORT}; to use it: transformer-lit translate --folder"
        f' {shlex.quote(str(folder))} "..."'
    ]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    "A table of Markdown."

    def safe(cell: str) -> str:
        for sign, as_text in ("\\", "\\\\"), ("|", "\\|"), ("&", "&amp;"), ("<", "&lt;"):
            cell = cell.replace(sign, as_text)
        return " ".join(cell.splitlines())

    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(safe, line)) + " |" for line in lines) + "\n"


def pair_rows(counts: Mapping[str, int], only: str = "") -> list[tuple[str, str]]:
    """What was given, kept, and left out for which reason, as a table's rows; only: what these
    pairs are for."""
    return [(name + only, f"{counts[name]:,}") for name in ("given", "kept")] + [
        (f"left out{only}: {name}", f"{n:,}")
        for name, n in counts.items()
        if name not in ("given", "kept", "respelled")
    ]


BY_CHARACTERS ="""
BLEU is counted on characters (`tok:char`), because words aren't separated by spaces here. Published scores for such languages often use another
tokeniser (`zh`, `ja-mecab`, `flores200`) and can't be compared with these.
"""
PAGE = """# A translator from {source} to {target}

    {command}

## Pairs

{pairs}
{respelled:,} pairs were respelled by tidying: spaces, apostrophes, composed letters. Every pair that was left out, except repeated ones, is in {left_out} with
its reason: "perhaps" marks a guess from the letters alone, "held out" a training pair that shares a sentence with
the test or validation part, and "doubted" a pair listed in the file after --without.
{doubted} lists the training pairs that the trained model finds least likely, each with its mean log-probability per token: look there for wrong translations.

{parts}
No two parts share a source sentence, not even one with other punctuation, spaces or accents. Of the test sentences, {copied:.0%} have a reference that
also occurs in training, as the translation of another sentence, {templates:.0%} occur in training with other numbers, and {near:.0%} are nearly repeated by a
training sentence (of eight words or more: most runs of four words are the same). Such sentences inflate the scores.

{tokens}

## Model

{shape}; {parameters:,} parameters. Trained {minutes:.1f} minutes on {hardware}, torch {torch}, seed {seed}.

## Scores

On {sentences:,} test sentences, kept in {test}:

{scores}{characters}
Validation loss: {loss:.3f} nats per token.

## Right

{right_text}

{right}
## Wrong

A sample from the half of the other answers that is farthest from the references.

{wrong}"""


def write_report(folder: Path, record: Mapping, shown: Mapping[str, Sequence[Answer]]) -> None:
    "All of it as a page, to `folder`/report.md."
    data, recipe = record["data"], record["recipe"]
    counts, more, without = data["cleaning"], data.get("train_only"), data.get("without")
    head = ("source", "reference", "answer", "chrF")
    rows = {
        name: table(
            head, [(row.source, row.reference, row.said, f"{row.chrf:.0f}") for row in some]
        )
        for name, some in shown.items()
    }
    equal = sum(row.right for row in shown["right"])
    write_text(
        folder / REPORT,
        PAGE.format(
            source=recipe["source"],
            target=recipe["language"],
            command=record["command"],
            respelled=counts["respelled"] + (more["cleaning"]["respelled"] if more else 0),
            pairs=table(
                ("pairs", "number"),
                pair_rows(counts)
                + (pair_rows(more["cleaning"], " (training only)") if more else [])
                + (
                    [
                        (
                            f"left out of training: listed in {' and '.join(without['files'])}",
                            f"{without['pairs']:,}",
                        )
                    ]
                    if without
                    else []
                ),
            ),
            parts=table(
                ("part", "pairs"),
                [(name, f"{data[name]:,}") for name in ("train", "valid", "test")],
            ),
            copied=record["copied_answers"],
            templates=record["but_for_numbers"],
            near=record["near_copies"],
            characters=BY_CHARACTERS
            * any("tok:char" in score.get("signature", "") for score in record["scores"]),
            shape=shape(recipe),
            parameters=record["parameters"],
            minutes=record["seconds"] / 60,
            tokens=over_long(record),
            hardware=record["hardware"],
            torch=record["torch"],
            seed=record["seed"],
            sentences=data["distinct_test"],
            test=TEST,
            left_out=LEFT_OUT,
            doubted=DOUBTED,
            scores="".join(f"- {line}\n" for line in bleu_lines(record)),
            loss=record["scores"][0]["value"],
            right=rows["right"],
            right_text=(
                "Each equals a reference."
                if equal == len(shown["right"])
                else (
                    f"{equal} of these equal a reference; the others come nearest to theirs by"
                    " chrF."
                )
            ),
            wrong=rows["wrong"],
        ),
    )
