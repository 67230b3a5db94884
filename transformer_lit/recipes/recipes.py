"""Named training configurations (recipes); training and evaluation by a recipe."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path

import torch
from torch import nn

from transformer_lit.data import group_references, overlap_rate
from transformer_lit.recipes.warm_start import initialize_from
from transformer_lit.runs import records
from transformer_lit.runs.checkpoints import average_files, save_weights
from transformer_lit.runs.run import check_folder, keep_config, only_run, run_config
from transformer_lit.runtime import devices
from transformer_lit.runtime.batches import Batches
from transformer_lit.runtime.distributed import rank
from transformer_lit.corpora.files import sha256_file, shipped, write_text
from transformer_lit.corpora.published import tatoeba_archive
from transformer_lit.corpora.texts import Pairs, Splits
from transformer_lit.runtime.optimizers import MuonAndAdam
from transformer_lit.runtime.progress import bar
from transformer_lit.evaluation import sacrebleu_scores
from transformer_lit.schedule import linear_lr
from transformer_lit.serving.files import find_translator
from transformer_lit.tokenization import SubwordTokenizer, WordTokenizer
from transformer_lit.batching import PairBatches
from transformer_lit.gradients import compute_gradients, summed_loss
from transformer_lit.training import Trainer, TrainingConfig, on_epoch_end, validation_loss
from transformer_lit.translation import Translator
from transformer_lit.wmt import model_preset


@dataclass
class Recipe:
    """All that decides how a translator comes out.

    pairs: training pairs, None for all; words: both sides have fewer, None for any; tokens: "words"
    seen min_frequency times, or vocab_size joint "subwords"; model: fields of TransformerConfig;
    peak_lr: after training.warmup_steps; optimizer: "adam" or "muon"; n_averaged: of the last
    epochs' weights."""

    corpus: str = "tatoeba"
    language: str = "fr"
    pairs: int | None = None
    words: int | None = None
    tokens: str = "subwords"
    vocab_size: int = 8000
    min_frequency: int = 2
    model: dict = field(default_factory=dict)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    peak_lr: float = 1e-3
    optimizer: str = "adam"
    n_averaged: int = 0
    compile: bool = False  # by torch.compile

    @property
    def languages(self) -> tuple[str, str]:
        "From which language into which; the recipes of the book read English."
        return "en", self.language


SMALL = model_preset("tiny")
FIRST = TrainingConfig(epochs=5, max_tokens=1024, precision="auto")
SHIPPED = dict(
    d_model=256,
    n_heads=4,
    d_ff=1024,
    n_encoder_layers=4,
    n_decoder_layers=4,
    norm="pre",
    dropout=0.1,
)
TATOEBA = Recipe(
    model=SHIPPED,
    training=TrainingConfig(epochs=8, max_tokens=2048, precision="auto"),
    peak_lr=4e-3,
    optimizer="muon",
)
RECIPES = {
    "words": Recipe(pairs=50_000, words=15, tokens="words", model=SMALL, training=FIRST),
    "tatoeba-fr": TATOEBA,
    "tatoeba-de": replace(TATOEBA, language="de"),
    "pocket": replace(
        TATOEBA,
        corpus="pocket",
        tokens="words",
        min_frequency=1,
        model=SMALL | dict(d_model=128, norm="pre"),
    ),
}
# Translated after each epoch: chosen before the first run, because a reader can judge them
SAMPLES = """\
I love you.
I'm hungry.
I have a cat.
Where is the bathroom?
She is my sister.
What is your name?
I don't understand.
He is very tall.
We are going home.
My father is a doctor.
This book is very interesting.
The animal was too tired.""".splitlines()


# Training -----------------------------------------------------------------------------------------


def build_translator(recipe: Recipe, pairs: Pairs, folder: Path) -> Translator:
    """A translator to train, on the CPU; its subwords are those in `folder`, if it has some; its
    weights those of `init_from`, if the recipe has one.

    The seed is set before the weights are drawn, so that two runs of one recipe begin alike."""
    torch.manual_seed(recipe.training.seed)
    start = getattr(recipe, "init_from", "")
    if recipe.tokens == "words":
        source, target = (
            WordTokenizer.train(side, language, recipe.min_frequency)
            for side, language in zip(zip(*pairs), recipe.languages)
        )
    else:
        path = (find_translator(start) if start and pairs else folder) / "tokenizer.json"
        source = target = (
            SubwordTokenizer.load(path)
            if path.exists() or not pairs
            else SubwordTokenizer.train(chain(*pairs), recipe.vocab_size)
        )
    translator = Translator.untrained(source, target, recipe.languages, **recipe.model)
    if start:
        initialize_from(translator, start)
    return translator


def in_plan(recipe: Recipe) -> dict:
    "What config.json of a run's folder holds of its recipe, besides sizes and training."
    plan = asdict(recipe) | {"epochs": recipe.training.epochs}
    del plan["model"], plan["training"]
    return plan


LONGEST = 128  # tokens of a side that is trained on


def build_trainer(
    translator: Translator, pairs: Pairs, recipe: Recipe, folder: Path
) -> tuple[Trainer, PairBatches]:
    """A trainer by `recipe`, and its batches; pairs over LONGEST tokens are left out. ValueError if
    none are left."""
    short = [pair for pair in translator.encode_pairs(pairs) if max(map(len, pair)) <= LONGEST]
    if pairs and not short:
        raise ValueError(
            f"each of the {len(pairs):,} training pairs has over {LONGEST} tokens on a side: put"
            " one sentence on a line"
        )
    batches = PairBatches(short, recipe.training)
    warmup, n = recipe.training.warmup_steps, batches.total_steps
    warmup = min(warmup, n // 10 or 1) if recipe.corpus == "own" else warmup
    trainer = new_trainer(
        translator,
        recipe,
        folder=folder,
        lr_schedule=lambda step: linear_lr(step, n, recipe.peak_lr, warmup),
        metadata={"recipe": in_plan(recipe)},
    )
    return trainer, batches


def new_trainer(translator: Translator, recipe, **options) -> Trainer:
    """A trainer with the optimizer of a recipe or an `Experiment`, compiled if that says so, in the
    precision of the model's device. A GPU waits for each loss that is logged."""
    model, config = translator.model, recipe.training
    device = devices.device_of(model)
    precision = devices.resolve_precision(config.precision, device)
    log_every = max(config.log_every, 10 if device.type == "cuda" else 1)
    return Trainer(
        model,
        replace(config, precision=precision, log_every=log_every),
        optimizer=MuonAndAdam(model, precision=precision if recipe.corpus == "own" else "auto")
        if recipe.optimizer == "muon"
        else None,
        gradient_fn=compiled_gradients(model) if recipe.compile else None,
        **options,
    )


def compiled_gradients(model: nn.Module) -> Callable:
    "A `gradient_fn` for a `Trainer`; compiles what a step calls of the model, and the loss."
    devices.compile_model(model)
    loss_fn = devices.compiled(summed_loss)
    return lambda trainer, source, target: compute_gradients(
        model, source, target, trainer.config, loss_fn
    )


def fit_with_bar(trainer: Trainer, data: Batches, callback: Callable) -> list[dict]:
    "`trainer.fit` under a progress bar."
    with bar(data.total_steps, "training", quiet=rank() > 0) as progress:

        def on_step(trainer):
            if not progress.n:  # a run that resumes begins where it stands
                progress.initial = progress.n = trainer.step - 1
            if isinstance(loss := trainer.metrics["loss"], float):
                words = f"epoch {trainer.epoch + 1}, loss {loss:.3f}"
                progress.set_postfix_str(words, refresh=False)
            progress.update()
            return callback(trainer)

        return trainer.fit(data, on_step)


def train_translator(
    folder: Path,
    recipe: Recipe,
    parts: Splits,
    samples: Sequence[str] = SAMPLES,
    device: torch.device | None = None,
    begin: Callable[[], object] = lambda: None,
    limits: tuple[int, int] | None = None,
) -> tuple[Translator, Trainer]:
    """Train by `recipe` into `folder`, resuming where it stopped; device: None, the default one;
    begin() once the folder is this run's; limits: the translator's, if not the usual ones.

    After each epoch the log gets the validation loss, in nats per token, and how `samples` are
    translated. In a folder that was begun before, perhaps on another machine, it goes on in that
    run's numbers. OSError or ValueError if it was begun otherwise; it stays as it was."""
    device = device or devices.default_device()
    begun = check_folder(folder, {"recipe": in_plan(recipe)})
    precision = begun.get("training", {}).get("precision")
    if precision and recipe.training.precision == "auto":
        recipe = replace(recipe, training=replace(recipe.training, precision=precision))
    translator = build_translator(recipe, parts["train"], folder)
    translator.length_limits = limits or translator.length_limits
    translator.model.to(device)  # before the optimizer holds the weights
    trainer, batches = build_trainer(translator, parts["train"], recipe, folder)
    valid = translator.encode_pairs(parts["valid"])
    epochs = recipe.training.epochs
    ends = [
        folder / f"epoch-{n}.safetensors"
        for n in range(max(1, epochs - recipe.n_averaged + 1), epochs + 1)
    ]

    def evaluate(trainer: Trainer) -> dict:
        end = folder / f"epoch-{trainer.epoch}.safetensors"
        if end in ends:
            save_weights(end, trainer.model)
        return {
            "valid_loss": validation_loss(translator.model, valid),
            "samples": dict(zip(samples, translator.translate(list(samples)))),
            "hardware": records.hardware_name(device),
        }

    with only_run(folder):
        keep_config(folder, run_config(trainer, batches))
        begin()
        translator.save_config(folder)
        fit_with_bar(trainer, batches, on_epoch_end(evaluate))
        if ends and trainer.epoch == epochs:
            average_files(translator.model, ends)
            translator.save(folder, "fp32")
    return translator, trainer


# Scores and records -------------------------------------------------------------------------------


def scored(hypotheses: list[str], references: list[list[str]], name: str) -> list[dict]:
    "Every score of chapter 19, with the first reference and with all."
    both = {"first": [refs[:1] for refs in references], "all": references}
    return [
        {"set": name, "references": which, **row}
        for which, refs in both.items()
        for row in sacrebleu_scores(hypotheses, refs)
    ]


def describe(parts: Splits, recipe: Recipe) -> dict:
    "The corpus: size, hash, and what either way of splitting leaks."
    pairs = [*chain(*reversed(parts.values()))]  # the order in which recorded runs were described
    mixed = [
        pairs[i]
        for i in torch.randperm(len(pairs), generator=torch.Generator().manual_seed(1)).tolist()
    ]
    cut = len(parts["test"])
    pocket = recipe.corpus == "pocket"
    archive = shipped("data/pocket.tsv.gz") if pocket else tatoeba_archive(recipe.language)
    return {
        "name": recipe.corpus,
        "sha256": sha256_file(archive),
        "pairs": len(pairs),
        "train": len(parts["train"]),
        "distinct_english": len({english for english, _ in pairs}),
        "leak_by_pair": overlap_rate(mixed[cut:], mixed[:cut]),
        "leak_by_sentence": overlap_rate(parts["train"], parts["test"]),
    }


def tested(
    folder: Path, recipe: Recipe, translator: Translator, parts: Splits
) -> tuple[list[str], list[list[str]], list[str], dict]:
    """The test's distinct sentences, all the references of each, the answers, which go to
    hypotheses.txt, and the validation loss as a score."""
    sources, references = group_references(parts["test"])
    hypotheses = translator.translate(sources, precision="fp32")
    write_text(folder / "hypotheses.txt", "\n".join(hypotheses) + "\n")
    held_out = {
        "set": recipe.corpus + "-valid",
        "metric": "cross-entropy, nats a token",
        "value": validation_loss(translator.model, translator.encode_pairs(parts["valid"])),
    }
    return sources, references, hypotheses, held_out


def evaluate_and_record(
    folder: Path,
    command: str,
    recipe: Recipe,
    translator: Translator,
    trainer: Trainer,
    parts: Splits,
) -> dict:
    """Translate the test part, score it, and write run.json; returns the record.

    hypotheses.txt has one line per distinct English test sentence."""
    _, references, hypotheses, held_out = tested(folder, recipe, translator, parts)
    return records.write_record(
        folder,
        command,
        trainer.config.seed,
        replace(recipe, training=trainer.config),
        describe(parts, recipe),
        records.effort(translator.model, trainer),
        [held_out] + scored(hypotheses, references, recipe.corpus + "-test"),
        seen={text: overlap_rate(parts["train"], [(text, "")]) > 0 for text in SAMPLES},
    )
