"""The command of the large runs: options, the experiment that they describe, and an exit status that a script can read."""
import argparse
import math
import shlex
import time
from dataclasses import replace
from pathlib import Path

import torch

from ..wmt import PAPER, WAYS, Experiment, experiment_for, run_experiment
from . import options as types
from .commands import DONE, LATER, folder_or_new, guarded
from .precision import precision_here
from .processes import process
from .training_sets import TRAINING_SETS

PROGRAM = "python -m transformer_lit.wmt"
WHOLE = {  # option -> least, most, what it means
    "vocabulary": (260, 65_536, "joint subwords (default: the paper's, 37,000 and 32,000 for WMT14; else 32,000)"),
    "sample": (1, 10 ** 9, "pairs that the subwords are learned from (default: {sample:,})"),
    "pairs": (1, 10 ** 9, "the first so many of the corpus (default: all)"),
    "steps": (1, 10 ** 7, "steps in all (default: {steps:,})"),
    "look-every": (1, 10 ** 7, "steps between two looks at held-out loss and BLEU (default: {look_every:,})"),
    "keep-every": (1, 10 ** 7, "steps between the last weights that are averaged, the paper's way (default: {keep_every:,})"),
    "lines": (1, 10 ** 5, "sentences that a look translates (default: {lines})"),
    "max-tokens": (8, 10 ** 7, "tokens of a batch, each side (default: {max_tokens:,})"),
    "warmup": (1, 10 ** 6, "steps in which the rate rises (default: {warmup:,}; 400 our way)"),
    "seed": (0, 2 ** 31 - 1, "of weights, batches and dropout (default: {seed})"),
    "checkpoint-every": (0, 10 ** 6, "steps between two checkpoints, 0 for only at looks (default: {checkpoint_every:,})"),
    "workers": (1, 256, "processes that prepare the corpus (default: 1)"),
    "threads": (1, types.THREADS, types.THREADS_HELP),
}
ASIDE = ("folder", "store", "minutes", "workers", "threads")  # where and how long, not what


def add_options(parser: argparse.ArgumentParser) -> None:
    "The options of a large run, for any parser."
    add, paper = parser.add_argument, {**vars(WAYS["paper"]), **vars(PAPER)}
    add("--corpus", default="wmt14-en-de",
        help=", ".join(TRAINING_SETS) + ", or a folder that ends in -fr or -de (default: %(default)s)")
    add("--way", choices=list(WAYS), default="paper", help="how to train: as the paper did, or as chapter 18 does (default: %(default)s)")
    add("--size", choices=["base", "big", "small", "tiny"], default="base", help="of the model (default: %(default)s)")
    add("--folder", type=types.path, help="default: runs/CORPUS-WAY-SIZE")
    add("--store", type=types.path, help="default: runs/store-CORPUS")
    add("--minutes", type=types.number(0, math.inf), default=math.inf, help="stop cleanly after so many, with exit status 75")
    for name, (low, high, text) in WHOLE.items():
        add("--" + name, type=types.whole(low, high), help=text.format(**paper))
    add("--peak", type=types.number(1e-8, 10), help="highest rate, our way (default: 0.004; the paper's way has none)")
    add("--dropout", type=types.number(0, 0.99), help="default: the size's")
    add("--precision", choices=["fp32", "bf16"], help="default: bf16 where the machine has units for it")
    add("--compile", action=argparse.BooleanOptionalAction,
        help="torch.compile, in few shapes and with a graph for each (default: on a GPU with bf16)")
    add("--dynamic", action=argparse.BooleanOptionalAction, help="with --compile: one graph for all shapes (default: no)")


def parser() -> argparse.ArgumentParser:
    "The command's own parser."
    made = argparse.ArgumentParser(PROGRAM, description="From archives to a scored translator; run again to go on.")
    add_options(made)
    return made


def options_for(**given) -> argparse.Namespace:
    "The options with their defaults, and `given` in place of some: for a caller that has values and no words."
    options = parser().parse_args([])
    for name, value in given.items():
        if value is not None:
            setattr(options, name, value)
    return options


def compile_choice(options: argparse.Namespace) -> bool | str | None:
    "What `TrainingConfig.compile` gets; None: nobody said."
    if options.compile is None and torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0):
        return "dynamic" if options.dynamic else True
    return "dynamic" if options.compile and options.dynamic else options.compile


def experiment_of(options: argparse.Namespace) -> Experiment:
    "The experiment that the options describe; what is unset stays as the way to train has it."
    def given(*names: str) -> dict:
        return {name: getattr(options, name) for name in names if getattr(options, name) is not None}

    training = given("max_tokens", "warmup", "seed", "precision", "checkpoint_every")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    training.setdefault("precision", precision_here(device))
    compiled = compile_choice(options)
    if compiled is not None:
        training["compile"] = compiled
    experiment = experiment_for(options.corpus, options.way, options.size, options.vocabulary, training,
                                **given("sample", "pairs", "steps", "look_every", "lines", "keep_every", "peak"))
    return replace(experiment, model=experiment.model | given("dropout"))


def command_line(options: argparse.Namespace) -> str:
    "The command that trains the same; where and how long is left out."
    words = PROGRAM.split()
    for name, value in vars(options).items():
        if name in ASIDE or value is None:
            continue
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            words += [f"--{option}", str(value)]
    return shlex.join(words)


def run(options: argparse.Namespace, began: float) -> int:
    "Prepare, train, score; 0 when all is done, 75 when the time since `began` (time.monotonic()) was up."
    torch.set_num_threads(types.threads(options.threads))
    name = Path(options.corpus).name
    folder = options.folder or Path("runs") / f"{name}-{options.way}-{options.size}"
    store = options.store or Path("runs") / f"store-{name}"
    for place in folder, store:
        folder_or_new(place)
    record = run_experiment(experiment_of(options), folder, store, options.workers or 1, began + 60 * options.minutes,
                            command_line(options))
    if process()[0]:
        return DONE
    if record is None:
        print(f"stopped in time; {folder} goes on with the same command")
        return LATER
    for score in record["scores"]:
        print(f"{score['set']}: {score['metric']} {score['value']:.2f}")
    return DONE


def run_command(given: list[str] | None = None) -> int:
    "The command: 0 when all is done, 75 when the time was up, 1 with one sentence."
    began, options = time.monotonic(), parser().parse_args(given)
    return guarded(lambda: run(options, began), "the same command goes on from the last checkpoint")
