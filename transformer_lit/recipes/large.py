"""A large run from archives to scores: prepared, trained with validation on the way, averaged,
evaluated. The same call resumes it wherever it was stopped."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from transformer_lit import evaluation
from transformer_lit.corpora.files import write_text
from transformer_lit.corpora.store import TokenStore
from transformer_lit.corpora.texts import Splits, TextPair, take_evenly
from transformer_lit.recipes.mixture import MixtureBatches, MixtureExperiment
from transformer_lit.recipes.prepare import PreparationConfig, prepare_store
from transformer_lit.recipes.recipes import (
    RECIPES,
    build_translator,
    fit_with_bar,
    in_plan,
    new_trainer,
)
from transformer_lit.recipes.settings import change_settings
from transformer_lit.recipes.training_sets import TRAINING_SETS
from transformer_lit.recipes.warm_start import weights_hash
from transformer_lit.runs import records
from transformer_lit.runs.checkpoints import average_files, save_weights
from transformer_lit.runs.run import check_folder, keep_config, only_run, run_config
from transformer_lit.runtime.devices import (
    decoding_precision,
    default_device,
    device_of,
    resolve_precision,
)
from transformer_lit.runtime.distributed import init_process_group, run_on_main, world_size
from transformer_lit.runtime.throughput import matmul_flops
from transformer_lit.schedule import linear_lr
from transformer_lit.training import Trainer, validation_loss
from transformer_lit.translation import Translator
from transformer_lit.wmt import Experiment, StoreBatches, build_experiment, snapshot_steps


def configure_experiment(
    corpus: str, preset: str, size: str, settings: Mapping[str, object], device: str
) -> Experiment:
    "What the command line describes: a preset and a model size, with some fields changed."
    if corpus not in TRAINING_SETS and not Path(corpus).is_dir():
        names = ", ".join((*RECIPES, *TRAINING_SETS))
        raise ValueError(f"unknown recipe {corpus}; choose from {names}, or name a folder of texts")
    experiment = build_experiment(corpus, preset, size)
    if corpus.startswith(("mixture-en-", "open-en-")):
        experiment = MixtureExperiment(**vars(experiment))
    place = default_device(device)
    precision = resolve_precision("auto", place)
    experiment.training = replace(experiment.training, precision=precision)
    experiment.compile = place.type == "cuda" and precision == "bf16"
    chosen = change_settings(experiment, settings, corpus)
    if chosen.vocab_size > 1 << 16:
        raise ValueError(f"vocab_size={chosen.vocab_size}: 65536 are the most that two bytes hold")
    return chosen


def batches_of(store: TokenStore, experiment: Experiment) -> StoreBatches:
    parts = store, experiment.training, experiment.max_steps
    if isinstance(experiment, MixtureExperiment):
        return MixtureBatches(*parts, experiment.temperature)
    return StoreBatches(*parts)


@dataclass
class EvaluationCallback:
    "A callback that evaluates and keeps weights at the steps where they are due."

    translator: Translator
    experiment: Experiment
    valid: Sequence[TextPair]
    valid_by_kind: Splits = field(default_factory=dict)

    def __call__(self, trainer: Trainer) -> dict | None:
        e, step = self.experiment, trainer.step
        if step in snapshot_steps(e):
            save_weights(trainer.folder / f"step-{step}.safetensors", trainer.model)
        if step < e.max_steps and step % e.eval_every:
            return None
        return run_on_main(self.evaluate) or {}

    def evaluate(self) -> dict:
        "Validation losses; BLEU of greedy search on some lines, its signature, a translation."
        translator, model = self.translator, self.translator.model
        sources, references = zip(*take_evenly(self.valid, self.experiment.n_eval_sentences))
        precision = decoding_precision(device_of(model))
        outputs = translator.translate(sources, beam_size=1, precision=precision)
        bleu = evaluation.sacrebleu_scores(outputs, [[reference] for reference in references])[0]

        def loss(pairs):
            ids = translator.encode_pairs(pairs)  # uncut, unlike those of training
            longest = max(len(side) for pair in ids for side in pair)
            max_tokens = min(4096, self.experiment.training.max_tokens)
            return validation_loss(model, ids, max(max_tokens, longest))

        by_kind = {kind: loss(pairs) for kind, pairs in self.valid_by_kind.items()}
        return {
            "valid_loss": loss(self.valid),
            "losses": by_kind,
            "bleu": bleu["value"],
            "signature": bleu["signature"],
            "lines": len(sources),
            "translation": outputs[0],
        }


# After the last step ------------------------------------------------------------------------------


def translate_to_file(
    translator: Translator, sources: Sequence[str], path: Path, deadline: float, size: int = 256
) -> list[str] | None:
    """Beam 4, α = 0.6 (§6.1), a line each; None if the deadline (time.monotonic()) came first: the
    next call resumes."""
    precision = decoding_precision(device_of(translator.model))
    lines = path.read_text("utf-8").split("\n")[:-1] if path.exists() else []
    while len(lines) < len(sources):
        if time.monotonic() > deadline:
            return None
        chunk = list(sources[len(lines) : len(lines) + size])
        outputs = translator.translate(chunk, precision=precision)
        lines += [" ".join(output.split()) for output in outputs]
        write_text(path, "".join(line + "\n" for line in lines))
    return lines


def evaluate_test_sets(
    translator: Translator, sets: Splits, folder: Path, end: float
) -> list[dict] | None:
    "Every score of chapter 19 on each set; None if `end` came first."
    rows = []
    for name, pairs in sets.items():
        sources, references = zip(*pairs)
        path = folder / f"hypotheses-{name}.txt"
        if (outputs := translate_to_file(translator, sources, path, end)) is None:
            return None
        columns = [[reference] for reference in references]
        bleu, *others = evaluation.sacrebleu_scores(outputs, columns)
        interval = evaluation.bootstrap_interval(evaluation.segment_stats(outputs, columns))
        variants = [
            {"metric": f"BLEU, {variant}", "value": value, "signature": "chapter 19's ways"}
            for variant, value in evaluation.bleu_variants(outputs, columns).items()
        ]
        rows += [{"set": name, **row} for row in (interval | bleu, *others, *variants)]
    return rows


def conclude(
    trainer: Trainer,
    translator: Translator,
    experiment: Experiment,
    store: TokenStore,
    command: str,
    deadline: float,
) -> dict | None:
    """Average the weights (§6.1), evaluate, write run.json; None if the deadline came first.

    A mixture is for many kinds of text: bench/domains.py scores it on each of them."""
    folder, config = trainer.folder, trainer.config
    device, scores = device_of(translator.model), []
    if not (folder / "model.safetensors").exists():
        if steps := snapshot_steps(experiment):
            average_files(translator.model, [folder / f"step-{n}.safetensors" for n in steps])
        translator.save(folder, "fp32")
    averaged = Translator.load(folder)
    averaged.model.to(device)
    if not isinstance(experiment, MixtureExperiment):
        names = store.manifest["held_out"]
        sets = {name: store.held_out()[part] for part, name in names.items()}
        scores = evaluate_test_sets(averaged, sets, folder, deadline)
    if scores is None:
        return None
    return records.write_record(
        folder,
        command,
        config.seed,
        experiment,
        store.record(experiment.corpus),
        records.effort(trainer.model, trainer),
        scores,
        **start_of(experiment),
        steps=trainer.step,
        accumulation_steps=config.accumulation_steps,
        processes=world_size(),
        matmul_per_second=matmul_flops(device, config.precision),
    )


# The whole run ------------------------------------------------------------------------------------


def start_of(experiment: Experiment) -> dict:
    "The hash of the weights that it starts from, if it does."
    start = getattr(experiment, "init_from", "")
    return {"first_weights": weights_hash(start)} if start else {}


def build_run(
    experiment: Experiment, store: TokenStore, folder: Path, device: torch.device
) -> tuple[Translator, Trainer, StoreBatches]:
    "Model, trainer and batches of an experiment; refuses a folder that holds another one."
    metadata = {
        "recipe": in_plan(experiment),
        **start_of(experiment),
        "tokenizer": store.manifest["tokenizer"],
        "ids": store.manifest["ids"],
    }
    outputs = [path.name for path in folder.glob("hypotheses-*.txt")]
    run_on_main(lambda: check_folder(folder, metadata, outputs))
    translator = build_translator(experiment, [], store.folder)
    translator.length_limits = 2 * (store.manifest["config"]["tokens"],)
    translator.model.to(device)
    batches = batches_of(store, experiment)
    batches.epoch_batches(0)  # raises ValueError if a sentence is longer than a batch
    trainer = new_trainer(
        translator,
        experiment,
        folder=folder,
        lr_schedule=(
            lambda step: linear_lr(
                step, experiment.max_steps, experiment.peak_lr, experiment.training.warmup_steps
            )
        )
        if experiment.lr_schedule == "linear"
        else None,
        metadata=metadata,
    )
    return translator, trainer, batches


def run_experiment(
    experiment: Experiment,
    folder: Path,
    store: Path,
    workers: int = 1,
    deadline: float = math.inf,
    command: str = "",
    device: str = "auto",
) -> dict | None:
    "From archives to the record of a scored model; None if the deadline came first."
    place = init_process_group(device)
    start_of(experiment)  # a mistyped name is told before the corpus is prepared
    preparation = PreparationConfig(
        experiment.corpus,
        experiment.vocab_size,
        experiment.tokenizer_sample,
        pairs=experiment.pairs,
    )
    run_on_main(lambda: prepare_store(preparation, store, workers))
    tokens = TokenStore(store)
    valid = tokens.held_out()
    by_kind = {part[6:]: pairs for part, pairs in valid.items() if part.startswith("valid-")}
    translator, trainer, batches = build_run(experiment, tokens, folder, place)
    evaluate = EvaluationCallback(translator, experiment, valid["valid"], by_kind)

    def on_step(trainer):
        trainer.run.stop_requested |= time.monotonic() > deadline
        return evaluate(trainer)

    with only_run(folder):
        run_on_main(lambda: keep_config(folder, run_config(trainer, batches)))
        run_on_main(lambda: translator.save_config(folder))
        fit_with_bar(trainer, batches, on_step)
        if trainer.step < experiment.max_steps:
            return None
        return run_on_main(
            lambda: conclude(trainer, translator, experiment, tokens, command, deadline)
        )
