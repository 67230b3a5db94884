"""One large run from archives to a score: prepared, planned, trained with looks on the way,
averaged, translated, scored.

What a run is (recipe, batches) stands in chapter 21's module; here is what keeps it going on
wherever it was stopped."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from transformer_lit import evaluation
from transformer_lit.training import Trainer, TrainingConfig, validation_loss
from transformer_lit.translation import Translator, save_pretrained, save_translator
from transformer_lit.wmt import Experiment, StoreBatches, kept_steps
from transformer_lit.runs import lock, plan, records
from transformer_lit.recipes.answers import translate_lines
from transformer_lit.runs.checkpoints import average_files, save_weights
from transformer_lit.commands import nothing_left
from transformer_lit.runtime.devices import decoding_precision
from transformer_lit.runtime.distributed import init_process_group
from transformer_lit.runtime.memory import matmul_flops, micro_batches_that_fit, peak_memory_mb
from transformer_lit.recipes.mixing import Mixture, batches_of
from transformer_lit.runtime.optimizers import MuonAndAdam
from transformer_lit.recipes.prepare import PreparationConfig, prepare_store
from transformer_lit.runtime.distributed import run_on_main, largest, process
from transformer_lit.recipes.recipes import begin_translator, nothing_there, rise_and_fall
from transformer_lit.corpora.texts import take_evenly
from transformer_lit.corpora.store import TokenStore
from transformer_lit.recipes.training_sets import held_names
from transformer_lit.recipes.warm_start import begin_as, may_begin_as, weights_hash

LOG_EVERY = 10  # steps


# Memory -------------------------------------------------------------------------------------------


def hardest(batches: StoreBatches) -> list[tuple[Tensor, Tensor]]:
    """The batch with the largest attention and the one with most tokens, both sides together: they
    need most memory."""
    lengths, cut = batches.store.lengths, batches.epoch(0)
    widest = max(cut, key=lambda b: len(b) * int(lengths[b].max()) ** 2)
    fullest = max(cut, key=lambda b: len(b) * int(lengths[b].max(0).sum(dtype=int)))
    return [batches.tensors(widest), batches.tensors(fullest)]


def fit_to_memory(
    model: torch.nn.Module, batches: StoreBatches, device: torch.device
) -> TrainingConfig:
    "The configuration, with as many micro-batches as all GPUs need."
    if device.type != "cuda":
        return batches.config
    parts = micro_batches_that_fit(model, hardest(batches), batches.config)
    return replace(batches.config, accumulate=int(largest(parts, device)))


# Looks --------------------------------------------------------------------------------------------


def of_kinds(apart: dict[str, list]) -> dict[str, list]:
    "The pairs to develop with of each kind of text: a mixture holds them out as valid-KIND."
    return {
        part.removeprefix("valid-"): pairs
        for part, pairs in apart.items()
        if part.startswith("valid-")
    }


@dataclass
class Looks:
    "An `on_step` that looks and keeps weights where they are due."

    translator: Translator
    experiment: Experiment
    held: Sequence[tuple[str, str]]  # to develop with
    kinds: Mapping[str, Sequence[tuple[str, str]]] = field(
        default_factory=dict
    )  # of a mixture: held-out pairs of each kind of text

    def __call__(self, trainer: Trainer) -> dict | None:
        e, step = self.experiment, trainer.step
        if step in kept_steps(e):
            save_weights(trainer.folder / f"step-{step}.safetensors", trainer.model)
        if step < e.steps and step % e.look_every:
            return None
        if any((entry["kind"], entry["step"]) == ("look", step) for entry in trainer.log[-3:]):
            return None  # before a stop
        return {"kind": "look", **(run_on_main(self.look) or {})}

    def look(self) -> dict:
        "Held-out loss; BLEU of greedy answers, its signature, an answer."
        translator = self.translator
        model, some = translator.model, take_evenly(self.held, self.experiment.lines)
        said = translator.translate(
            [english for english, _ in some],
            beam_size=1,
            precision=decoding_precision(next(model.parameters()).device),
        )
        bleu = evaluation.scores(said, [[other] for _, other in some])[0]
        most = min(4096, self.experiment.training.max_tokens)

        def loss_of(
            pairs: Sequence[tuple[str, str]],
        ) -> float:  # what is held out isn't cut as training is
            ids = translator.encode_pairs(pairs)
            return validation_loss(
                model, ids, max([most, *(len(side) for pair in ids for side in pair)])
            )

        loss, *kinds = map(loss_of, (self.held, *self.kinds.values()))
        return {
            "valid_loss": loss,
            **({"losses": dict(zip(self.kinds, kinds))} if kinds else {}),
            "bleu": bleu["value"],
            "signature": bleu["signature"],
            "lines": len(some),
            "said": said[0],
        }


# After the last step ------------------------------------------------------------------------------


def all_scores(name: str, said: Sequence[str], others: Sequence[str]) -> list[dict]:
    """BLEU with signature and interval, chrF, and every other measure of chapter 19, the paper's
    among them, of the same lines."""
    references = [[other] for other in others]
    found = evaluation.scores(said, references)
    found[0] |= {
        k: v
        for k, v in evaluation.interval(evaluation.line_counts(said, references)).items()
        if k != "value"
    }
    found += [
        {"metric": "BLEU, " + way, "value": value, "signature": "chapter 19's ways"}
        for way, value in evaluation.ways(said, references).items()
    ]
    return [{"set": name, **row} for row in found]


def translated(
    translator: Translator, names: dict[str, str], held: dict, folder: Path, until: float
) -> list | None:
    """The scores of both held-out sets, "valid" and "test", under these names; None if `until` came
    first."""
    found = []
    for part, name in names.items():
        english, others = zip(*held[part])
        said = translate_lines(translator, english, folder / f"hypotheses-{name}.txt", until)
        if said is None:
            return None
        found += all_scores(name, said, others)
    return found


def last_weights(translator: Translator, experiment: Experiment, folder: Path) -> Translator:
    "The translator with its averaged weights, which are written once."
    if not (folder / "model.safetensors").exists():
        kept = kept_steps(experiment)
        if kept:
            average_files(translator.model, [folder / f"step-{step}.safetensors" for step in kept])
        save_pretrained(translator, folder, "fp32")
    device = next(translator.model.parameters()).device
    finished = Translator.from_pretrained(folder)
    finished.model.to(device)
    return finished


def conclude(
    trainer: Trainer,
    translator: Translator,
    experiment: Experiment,
    store: TokenStore,
    command: str,
    until: float = math.inf,
) -> dict | None:
    """Average, translate both tests, score them: run.json. None: later.

    A mixture is for many kinds of text: bench/domains.py scores it on each of them, as it is
    packed."""
    e, folder, config = experiment, trainer.folder, trainer.config
    device = next(trainer.model.parameters()).device
    finished = last_weights(translator, e, folder)
    scores = (
        []
        if isinstance(e, Mixture)
        else translated(
            finished,
            held_names(e.corpus, store.manifest["wanted"]["inputs"]),
            store.held_out(),
            folder,
            until,
        )
    )
    if scores is None:
        return None
    return records.write_record(
        folder,
        command,
        config.seed,
        e,
        store.record(e.corpus),
        records.effort(trainer.model, trainer),
        scores,
        **{key: value for key, value in (trainer.plan or {}).items() if key == "first_weights"},
        steps=trainer.step,
        accumulate=config.accumulate,
        processes=process()[1],
        matmul_per_second=matmul_flops(device, config.precision),
        own_megabytes=peak_memory_mb().get("own_megabytes"),
    )


# The whole run ------------------------------------------------------------------------------------


def plan_of(experiment: Experiment, store: TokenStore) -> dict:
    "All that decides how the run comes out, for plan.json."
    widest, limit = int(store.lengths.max()), experiment.training.max_tokens
    if widest > limit:
        raise ValueError(
            f"a sentence has {widest} tokens and a batch holds {limit}: give --max-tokens {widest}"
        )
    first = (
        {"first_weights": weights_hash(experiment.begin_with)}
        if isinstance(experiment, Mixture) and experiment.begin_with
        else {}
    )
    return {
        **asdict(experiment),
        **first,
        "tokenizer": store.manifest["tokenizer"],
        "shards": [shard["ids"] for shard in store.manifest["shards"]],
    }


def time_is_up(until: float) -> Callable[[Trainer], bool]:
    "For `fit`: is the time over, for all processes alike?"

    def late(trainer: Trainer) -> bool:
        device = next(trainer.model.parameters()).device
        if process()[1] > 1 and device.type == "cuda" and trainer.step % 10:
            return False  # several GPUs ask each other seldom
        return largest(time.monotonic() > until, device) > 0

    return late


def begin(
    experiment: Experiment, store: TokenStore, folder: Path, device: torch.device
) -> tuple[Translator, Trainer, StoreBatches]:
    "Model, trainer and batches as planned, in the folder of the run."
    e, kept = experiment, plan_of(experiment, store)

    def may_begin() -> None:
        if not plan.compare(folder / plan.NAME, kept):
            nothing_there(folder, [path.name for path in folder.glob("hypotheses-*.txt")])

    def fill_folder() -> None:
        plan.agree(folder, kept)
        save_translator(translator, folder)

    run_on_main(may_begin)
    translator = begin_translator(e, [], store.tokenizer().parent, keep=False)
    translator.limits = 2 * (store.manifest["wanted"]["tokens"],)
    if isinstance(e, Mixture) and e.begin_with:
        begin_as(translator, e.begin_with)
    model, optimizer, schedule = translator.model.to(device), None, None
    if e.optimizer == "muon":
        optimizer = MuonAndAdam(model)
    if e.rate == "fall":

        def schedule(step: int) -> float:
            return rise_and_fall(step, e.steps, e.peak, e.training.warmup)

    config = fit_to_memory(model, batches_of(store, e.training, e), device)
    run_on_main(fill_folder)  # only now: what was refused leaves no plan
    trainer = Trainer(
        model,
        config,
        optimizer=optimizer,
        folder=folder,
        schedule=schedule,
        plan=kept,
        spare=True,
        log_every=LOG_EVERY,
    )
    return translator, trainer, batches_of(store, config, e)


def run_experiment(
    experiment: Experiment,
    folder: str | Path,
    store: str | Path,
    workers: int = 1,
    until: float = math.inf,
    command: str = "",
    device: str = "auto",
) -> dict | None:
    """From archives to a scored model, going on wherever it stopped.

    Returns run.json's record, or None if `until` came first."""
    e, folder, place = experiment, Path(folder), init_process_group(device)
    settings = PreparationConfig(e.corpus, e.size, e.sample, pairs=e.pairs)
    if isinstance(e, Mixture) and e.begin_with:
        may_begin_as(
            e.begin_with, e.model
        )  # a mistyped name or another size is told before the corpus is prepared
    run_on_main(lambda: prepare_store(settings, store, workers, until))
    if not (Path(store) / "manifest.json").exists():
        return None
    held = TokenStore(store)
    apart = held.held_out()
    with nothing_left(folder, "plan.json"), lock.only_training(None if process()[0] else folder):
        translator, trainer, batches = begin(e, held, folder, place)
        trainer.fit(
            batches, time_is_up(until), Looks(translator, e, apart["valid"], of_kinds(apart))
        )
        if trainer.step < e.steps:
            return None
        return run_on_main(lambda: conclude(trainer, translator, e, held, command, until))
