"""Training on your own parallel corpus: a model sized to it, trained, tested and reported."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean

import torch

from transformer_lit.corpora.files import sha256_file
from transformer_lit.corpora.texts import Pairs, Splits, TextPair, take_evenly
from transformer_lit.custom_pair import report
from transformer_lit.custom_pair.clean import prepare_pairs, reject_held_out
from transformer_lit.custom_pair.findings import FILTERED
from transformer_lit.data import (
    CORPUS_LANGUAGES,
    group_references,
    load_corpus,
    overlap_rate,
    seen_in_training,
)
from transformer_lit.recipes.augmentation import NearDuplicates
from transformer_lit.recipes.recipes import LONGEST, Recipe, in_plan, tested, train_translator
from transformer_lit.recipes.settings import change_settings
from transformer_lit.runs import records
from transformer_lit.runs.run import check_folder, fingerprint
from transformer_lit.runtime.progress import tell
from transformer_lit.serving import confidence
from transformer_lit.serving.files import load_translator
from transformer_lit.tokenization import SubwordTokenizer
from transformer_lit.training import TrainingConfig
from transformer_lit.translation import SENTENCE_BOUNDARY, Translator

# The model ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelSize:
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
    ModelSize(2_000, 1_000, 2, 128, 0.3, 512, 40, 100),
    ModelSize(10_000, 2_000, 3, 192, 0.3, 1024, 25, 200),
    ModelSize(50_000, 4_000, 3, 256, 0.2, 1024, 12, 400),
    ModelSize(150_000, 8_000, 4, 256, 0.1, 2048, 8, 400),
    ModelSize(1_000_000, 16_000, 6, 384, 0.1, 4096, 5, 400),
)


def choose_size(n_pairs: int) -> ModelSize:
    "The row of the table that is nearest by ratio."
    return min(SIZES, key=lambda size: abs(math.log(n_pairs / size.pairs)))


@dataclass
class PairRecipe(Recipe):
    """A recipe for text that somebody brings.

    source: the language that it reads; text: the SHA-256 of all pairs that were kept, so that a
    folder goes on with no other ones; init_from: a pretrained translator to start from."""

    corpus: str = "own"
    source: str = "en"
    text: str = ""
    init_from: str = ""

    @property
    def languages(self) -> tuple[str, str]:
        return self.source, self.language


def recipe_of(size: ModelSize, languages: tuple[str, str], text: str = "") -> PairRecipe:
    """How to train by a row of the table, from the first language to the second, with the rates of
    the book's own translators."""
    return PairRecipe(
        language=languages[1],
        source=languages[0],
        vocab_size=size.vocabulary,
        model=dict(
            d_model=size.width,
            n_heads=size.width // 64,
            d_ff=4 * size.width,
            n_encoder_layers=size.layers,
            n_decoder_layers=size.layers,
            norm="pre",
            dropout=size.dropout,
        ),
        training=TrainingConfig(
            epochs=size.epochs,
            max_tokens=size.max_tokens,
            warmup_steps=size.warmup,
            precision="auto",
        ),
        peak_lr=4e-3,
        optimizer="muon",
        text=text,
    )


def recipe_for(parts: Splits, languages: tuple[str, str], n_excluded: int = 0) -> PairRecipe:
    """How to train on these pairs: by the table's row for so many. Excluded pairs count for the
    row, so that models with and without them can be compared."""
    size = choose_size(len(parts["train"]) + n_excluded)
    return recipe_of(size, languages, fingerprint(pair for part in parts.values() for pair in part))


def fine_tuning(recipe: PairRecipe, name: str) -> PairRecipe:
    """The recipe in the sizes and with the subwords of a pretrained translator: fewer epochs, at a
    lower learning rate. ValueError if it is one of other languages."""
    pretrained = load_translator(name)
    if not isinstance(pretrained.source_tokenizer, SubwordTokenizer):
        raise ValueError(f"{name} knows whole words alone: start from one with subwords")
    if pretrained.languages not in (None, recipe.languages):
        ours, theirs = map("-".join, (recipe.languages, pretrained.languages))
        raise ValueError(f"{name} translates {theirs}, and your pairs are {ours}")
    model = asdict(pretrained.model.config) | {"dropout": recipe.model["dropout"]}
    vocab_size, _ = model.pop("source_vocab_size"), model.pop("target_vocab_size")
    return replace(
        recipe,
        model=model,
        training=replace(recipe.training, epochs=max(3, recipe.training.epochs // 4)),
        vocab_size=vocab_size,
        peak_lr=recipe.peak_lr / 4,
        init_from=name,
    )


def replay_pairs(recipe: PairRecipe, parts: Splits) -> Pairs:
    """Pairs of Tatoeba, together as long as those to train on, so that a pretrained translator
    keeps its everyday language; none with a held-out sentence on either side, none where Tatoeba
    can't be had."""
    if recipe.source != "en" or recipe.language not in CORPUS_LANGUAGES["tatoeba"]:
        return []
    try:
        pairs = load_corpus("tatoeba", recipe.language)["train"]
    except FileNotFoundError as error:
        tell(f"Nothing of Tatoeba is mixed in: {error}")
        return []
    judged = reject_held_out([(pair, "") for pair in pairs], parts)
    pairs = [pair for pair, reason in judged if not reason]
    ours, theirs = (sum(len(source.split()) for source, _ in p) for p in (parts["train"], pairs))
    return take_evenly(pairs, round(len(pairs) * ours / theirs))


def length_limits_for(pairs: Sequence[TextPair]) -> tuple[int, int]:
    """The translator's limits: lines as long as those of training are translated whole.

    Where hardly one line in a hundred has several sentences, training held too few of them, and
    `split_long_text` cuts them as it does for the book's own translators."""
    several = sum(bool(re.search(SENTENCE_BOUNDARY, source)) for source, _ in pairs)
    return LONGEST, LONGEST if 100 * several >= len(pairs) else 20


# What its probabilities tell ----------------------------------------------------------------------


def least_likely_pairs(translator: Translator, pairs: Pairs) -> list[tuple[float, TextPair]]:
    """The tenth of the training pairs that the trained model finds least likely, the least likely
    first.

    Wrong translations of the right length are among them, and right ones of rare words; copies
    aren't, where there were enough to learn them."""
    encoded = zip(translator.encode_pairs(pairs), pairs)
    short = [(ids, pair) for ids, pair in encoded if max(map(len, ids)) <= LONGEST]
    sums = confidence.log_probabilities(
        translator, [(source, target[1:-1]) for (source, target), _ in short]
    )
    rows = sorted(
        (total / (len(target) - 1), pair) for total, ((_, target), pair) in zip(sums, short)
    )
    return rows[: len(rows) // 10]


# Training -----------------------------------------------------------------------------------------


def train_on_files(
    paths: Sequence[Path],
    languages: tuple[str, str],
    folder: Path,
    command: str,
    reverse: bool = False,
    settings: Mapping[str, object] = {},
    device: torch.device | None = None,
    train_only: Sequence[Path] = (),
    exclude: Sequence[Path] = (),
    keep_languages: bool = False,
) -> dict:
    """Train a translator on `paths` into `folder`, or go on; then test it. Returns the record.

    It leaves run.json and report.md, and pairs: test.tsv; filtered.tsv, by cleaning;
    low_confidence.tsv, of the training, by the trained model. languages: of the first and the
    second column; reverse: from the second to the first; settings: fields of recipe, training and
    model that are not the table's; the other arguments: see `prepare_pairs`."""
    corpus = prepare_pairs(paths, reverse, train_only, exclude, not keep_languages, languages)
    parts = corpus.splits
    recipe = recipe_for(parts, languages[::-1] if reverse else languages, corpus.n_excluded)
    if start := settings.get("init_from"):
        recipe = fine_tuning(recipe, start)
    recipe = change_settings(recipe, settings, "--pairs")
    names = report.TEST, report.REPORT, FILTERED, report.LOW_CONFIDENCE, confidence.NAME
    check_folder(folder, {"recipe": in_plan(recipe)}, names)  # before anything is written
    mixed_in = replay_pairs(recipe, parts) if start else []
    train = parts["train"] + mixed_in
    lines = report.lines_before(paths, corpus, recipe, train_only, exclude)
    if start:
        forgets = "" if mixed_in else ": everyday language may be forgotten"
        lines.insert(
            -1,
            f"from {start}, with {len(mixed_in):,} pairs of Tatoeba mixed in{forgets}; its own"
            " training may hold some of the test sentences",
        )
    tell(*lines)
    files = (*paths, *train_only, *exclude)
    data = {
        "name": PairRecipe.corpus,
        "files": [{"file": path.name, "sha256": sha256_file(path)} for path in files],
        "cleaning": corpus.counts,
        "lines": lines,
        **{name: len(part) for name, part in parts.items()},
        "leak_by_sentence": overlap_rate(train, parts["test"]),
    }

    def begin() -> None:  # to be read while it trains
        report.write_tsv(folder / report.TEST, parts["test"])
        report.write_tsv(
            folder / FILTERED, ((why, *pair) for pair, why in corpus.rejected if why != "repeated")
        )

    translator, trainer = train_translator(
        folder,
        recipe,
        parts | {"train": train},
        list(dict.fromkeys(source for source, _ in take_evenly(parts["valid"], 10))),
        device=device,
        begin=begin,
        limits=length_limits_for(parts["train"]),
    )
    # what its probabilities are worth, for `translate --show-confidence`
    valid = list(zip(*group_references(parts["valid"])))
    sources, references = zip(*take_evenly(valid, 500))
    if len(sources) >= 2 * confidence.MIN_GROUP_SIZE:
        scored = confidence.translate_with_scores(translator, sources)
        chrf = confidence.sentence_chrf([row.text for row in scored], references)
        curve = confidence.fit_calibration([row.log_prob for row in scored], chrf)
        confidence.save_calibration(curve, folder)
    sources, references, hypotheses, valid_loss = tested(folder, recipe, translator, parts)
    effort = records.effort(translator.model, trainer)
    effort["hardware"] = ", then ".join(  # where it was trained, and not where it is tested
        dict.fromkeys(row["hardware"] for row in trainer.log_history if row["kind"] == "eval")
    )
    scores, intervals, duplicates = [valid_loss], {}, NearDuplicates(sources)
    for which, refs in {"first": [refs[:1] for refs in references], "all": references}.items():
        rows, intervals[which] = report.score(hypotheses, refs)
        scores += [{"set": "own-test", "references": which, **row} for row in rows]
    record = records.write_record(
        folder,
        command,
        trainer.config.seed,
        replace(recipe, training=trainer.config),
        data
        | {
            "distinct_test": len(sources),
            "too_many_tokens": sum(
                max(map(len, pair)) > LONGEST for pair in translator.encode_pairs(parts["train"])
            ),
        },
        effort,
        scores,
        interval=intervals,
        copied_answers=fmean(seen_in_training(references, train)),
        but_for_numbers=report.leaked_but_for_numbers(sources, train),
        near_copies=len({k for source, _ in train for k in duplicates.of(source)}) / len(sources),
    )
    path = folder / report.LOW_CONFIDENCE
    if path.exists():
        tell(
            f"{path} stays as it is, you may have worked on it; once you have moved it, the same"
            " command writes it anew"
        )
    else:
        rows = least_likely_pairs(translator, parts["train"])
        report.write_tsv(path, ((f"{score:.2f}", *pair) for score, pair in rows))
    examples = report.choose_examples(sources, references, hypotheses)
    report.write_report(folder, record, examples)
    tell(*report.lines_after(folder, record, examples))
    return record
