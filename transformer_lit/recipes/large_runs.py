"""The command of the large runs: options, the experiment that they describe, and an exit status
that a script can read."""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import torch

from transformer_lit.wmt import Experiment, experiment_for
from transformer_lit import options as types
from transformer_lit.runs import plan
from transformer_lit.commands import DONE, LATER, command_again, folder_or_new, guarded, may_write
from transformer_lit.runtime.devices import default_device
from transformer_lit.recipes.experiments import run_experiment
from transformer_lit.recipes.mixing import Mixture
from transformer_lit.runtime.devices import resolve_precision
from transformer_lit.runtime.distributed import process
from transformer_lit.runtime.progress import tell
from transformer_lit.recipes.run_options import ASIDE, RUN_OPTIONS, field
from transformer_lit.recipes.training_sets import family_of

PROGRAM = "python -m transformer_lit.wmt"


def parser() -> argparse.ArgumentParser:
    "The command's own parser."
    made = argparse.ArgumentParser(
        PROGRAM, description="From archives to a scored translator; run again to go on."
    )
    for option, settings in RUN_OPTIONS.items():
        made.add_argument(option, **settings)
    return made


def compile_choice(options: argparse.Namespace, device: str) -> bool | str | None:
    "What `TrainingConfig.compile` gets; None: nobody said."
    if (
        options.compile is None
        and device == "cuda"
        and torch.cuda.get_device_capability() >= (8, 0)
    ):
        return "dynamic" if options.dynamic else True
    return "dynamic" if options.compile and options.dynamic else options.compile


def as_begun(options: argparse.Namespace, folder: Path) -> argparse.Namespace:
    """The options, with what follows the machine where nobody says it, precision and compiling, as
    the run in `folder` has it."""
    found, kept = argparse.Namespace(**vars(options)), plan.settings_in(folder)
    if found.precision is None:
        found.precision = kept.get("precision")
    if found.compile is None and "compile" in kept:
        found.compile, found.dynamic = bool(kept["compile"]), kept["compile"] == "dynamic" or None
    return found


def experiment_of(options: argparse.Namespace) -> Experiment:
    "The experiment that the options describe; what is unset stays as the way to train has it."

    def given(*names: str) -> dict:
        return {
            name: getattr(options, name) for name in names if getattr(options, name) is not None
        }

    training = given("max_tokens", "warmup", "seed", "precision", "checkpoint_every")
    device = default_device(options.device).type
    training.setdefault("precision", resolve_precision("auto", device))
    compiled = compile_choice(options, device)
    if compiled is not None:
        training["compile"] = compiled
    experiment = experiment_for(
        str(Path(options.corpus)),
        options.way,
        options.size,
        options.vocabulary,
        training,
        **given("sample", "pairs", "steps", "look_every", "lines", "keep_every", "peak"),
    )
    experiment = replace(experiment, model=experiment.model | given("dropout"))
    for option, idle in {
        "--peak": options.way == "paper",
        "--keep-every": options.way == "ours",
        "--dynamic": not compiled,
    }.items():
        if idle and getattr(options, field(option)):
            raise ValueError(f"{option} would change nothing here: leave it out")
    if family_of(experiment.corpus) == "mixture":
        return Mixture(**vars(experiment), **given("temperature", "begin_with"))
    for option in "--temperature", "--begin-with":
        if getattr(options, field(option)) is not None:
            raise ValueError(
                f"{option} is for a mixture of texts, and {options.corpus} is none: leave it out"
            )
    return experiment


def command_line(options: argparse.Namespace) -> str:
    "The command that trains the same; where and how long is left out."
    return command_again(
        PROGRAM, {name: value for name, value in vars(options).items() if name not in ASIDE}
    )


def run(options: argparse.Namespace, began: float) -> int:
    """Prepare, train, score; 0 when all is done, 75 when the time since `began` (time.monotonic())
    was up."""
    torch.set_num_threads(types.threads(options.threads))
    name = Path(options.corpus).name
    folder = options.folder or Path("runs") / f"{name}-{options.way}-{options.size}"
    store = options.store or Path("runs") / f"store-{name}"
    may_write(folder)
    folder_or_new(store)  # one that is whole is only read
    options = as_begun(options, folder)
    record = run_experiment(
        experiment_of(options),
        folder,
        store,
        options.workers or 1,
        began + 60 * options.minutes,
        command_line(options),
        options.device,
    )
    if process()[0]:
        return DONE
    if record is None:
        tell(f"stopped in time; {folder} goes on with the same command")
        return LATER
    tell(*(f"{score['set']}: {score['metric']} {score['value']:.2f}" for score in record["scores"]))
    return DONE


def run_command(given: list[str] | None = None) -> int:
    "The command: 0 when all is done, 75 when the time was up, 1 with one sentence."
    began, options = time.monotonic(), parser().parse_args(given)
    return guarded(lambda: run(options, began), "the same command goes on from the last checkpoint")
