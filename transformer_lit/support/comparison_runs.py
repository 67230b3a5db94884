"""The first rule of part IV and its command, for the records that chapter 25 still reads."""
# python -m transformer_lit.support.comparison_runs NAME
# Chapter 22 has today's rule, and `bench/fair.py` makes its records. The first one searched the peak alone, with one seed, and had
# smaller budgets. Batches, sizes, runs and scores are chapter 22's. This file stands above the chapters of part IV and imports
# them; none of them imports it.
import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import nn

from .. import decoder_only, equal_cost, rnn, since_2017
from ..equal_cost import SMALL_SIZES, Design, Ground, ground, one_run, score
from ..tokens import Subwords
from . import options as types
from .commands import folder_or_new, guarded
from .comparison import command
from .files import shipped, write_json, write_text
from .reading import fields, json_file
from .records import commit, hardware

COMPETITORS: dict[str, Design] = {**equal_cost.DESIGNS, **rnn.DESIGNS, **decoder_only.DESIGNS, **since_2017.DESIGNS}

Plan = tuple[float, int, bool]  # a run to make: its peak, its seed, whether it belongs to the search


def find_design(name: str) -> Design:
    "The competitor of that name. Raises KeyError with all names if there is none."
    if name not in COMPETITORS:
        raise KeyError(f"{name}: choose from {', '.join(COMPETITORS)}")
    return COMPETITORS[name]


# The scales, and the search for a peak ------------------------------------------------------------------------------------

@dataclass
class FirstScale:
    "Corpus, vocabulary, sizes and budgets; search: target tokens of a run of the search, None for as many as a result has."
    corpus: str
    vocabulary: int
    sizes: dict
    tokens: int
    search: int | None = None
    max_tokens: int = 512
    peaks: tuple = (3e-3, 6e-3, 1.2e-2)
    lines: int = 500
    seeds: tuple = (1, 2, 3)

    @property
    def search_tokens(self) -> int:
        "The budget of a run of the search."
        return self.tokens if self.search is None else self.search


SCALES = {"pocket": FirstScale("pocket", 2000, SMALL_SIZES, 200_000),
          "tatoeba": FirstScale("tatoeba", 8000, SMALL_SIZES | dict(d_model=96, d_ff=384), 1_650_000, 150_000, 1024, lines=1000, seeds=(1,))}


def first_ground(corpus: str) -> Ground:
    "Chapter 22's text of a corpus, with the vocabulary of that time: on Tatoeba that of chapter 18's model."
    if corpus == "pocket":
        return ground(corpus)
    return ground(corpus, tokens=Subwords.load(shipped("data/checkpoints/tatoeba-fr/tokenizer.json")))


def best_peak(runs: Sequence[dict], seed: int) -> float | None:
    "The peak of lowest validation loss in the search with that seed."
    tried = {run["peak"]: run["valid_loss"] for run in runs if run["seed"] == seed and run["search"] and math.isfinite(run["valid_loss"])}
    return min(tried, key=lambda peak: tried[peak]) if tried else None


def next_peak(runs: Sequence[dict], seed: int, peaks: Sequence[float]) -> float | None:
    "What is left of the list, and beyond its edge as long as the best lies there. None: the search is closed."
    tried = {run["peak"] for run in runs if run["seed"] == seed and run["search"]}
    if left := [peak for peak in peaks if peak not in tried]:
        return left[0]
    best = best_peak(runs, seed)
    if best is None or min(tried) < best < max(tried):
        return None
    return best * 2 if best == max(tried) else best / 2


# Which run is next -----------------------------------------------------------------------------------------------------

def next_run(runs: Sequence[dict], scale: FirstScale, peaks: Sequence[float]) -> Plan | None:
    """The next run that the rule asks for, None at the end: the search with the first seed, then the best peak with all seeds.

    Where the search has the full budget, its best run is the first seed's result and isn't made again."""
    first = scale.seeds[0]
    peak = next_peak(runs, first, peaks)
    if peak is not None:
        return peak, first, True
    best = best_peak(runs, first)
    if best is None:
        return None
    done = {(run["peak"], run["seed"], run["search"]) for run in runs}
    plan = [(best, seed, seed == first and not scale.search) for seed in scale.seeds]
    return next((run for run in plan if run not in done), None)


def next_extra(runs: Sequence[dict], scale: FirstScale, also: Sequence[float]) -> Plan | None:
    "The next run outside the comparison (`--also`), at full length with the first seed; None at the end."
    first = scale.seeds[0]
    done = {(run["peak"], run["seed"]) for run in runs if not (run["search"] and scale.search)}
    return next(((peak, first, False) for peak in also if (peak, first) not in done), None)


def results_of(runs: Sequence[dict], search_is_shorter: bool) -> list[dict]:
    "The runs that count: at the best peak, with the full budget, one for each seed."
    best = best_peak(runs, runs[0]["seed"])
    return [run for run in runs if run["peak"] == best and not (search_is_shorter and run["search"])]


# The record ------------------------------------------------------------------------------------------------------------

def keep(path: Path, head: dict, runs: list[dict]) -> None:
    "Write the record, whole or not at all."
    write_json(path, {**head, "runs": runs})


def runs_before(path: Path, head: dict) -> list[dict]:
    "The runs of a record that exists already. Raises ValueError if it is damaged or belongs to another design or scale."
    if not path.exists():
        return []
    again = "put a whole one in its place, or take another --out"
    old = fields(json_file(path, advice=again, infinite=True), path, {"runs": list, "commit": str}, again)
    for run in old["runs"]:
        fields(run, path, {"peak": (int, float), "seed": int, "valid_loss": (int, float), "search": bool}, again)
    head = json.loads(json.dumps(head))
    for name in {"design", "scale"} & old.keys() & head.keys():
        if old[name] != head[name]:
            raise ValueError(f"{path} was made with another {name}: take another --out")
    return [{"commit": old["commit"], **run} for run in old["runs"]]


def attempt_run(design: Design, scale: FirstScale, field: Ground, peak: float, seed: int, search: bool) -> tuple[dict, nn.Module | None]:
    "`one_run` with the budget that is due; a run that ends in nan has a row that says so, and no model."
    tokens = scale.search_tokens if search else scale.tokens
    try:
        row, model = one_run(design, replace(scale, tokens=tokens), field, peak, seed)
    except ValueError as error:  # chapter 12's trainer stops at nan
        row, model = {"seed": seed, "peak": peak, "valid_loss": math.inf, "failed": str(error)}, None
    return row | {"search": search}, model


def train_missing(path: Path, design: Design, scale: FirstScale, field: Ground, head: dict, also: Sequence[float] = (),
                  ) -> tuple[list[dict], dict[Plan, nn.Module | None]]:
    "All runs of the record, and the models that were trained in this call. The file is written after each run."
    runs = runs_before(path, head)
    peaks, models = design.peaks or scale.peaks, {}
    while following := next_run(runs, scale, peaks) or next_extra(runs, scale, also):
        row, models[following] = attempt_run(design, scale, field, *following)
        runs.append(row | {"commit": head["commit"]})
        keep(path, head, runs)
    return runs, models


def run_all(path: Path, design: Design, scale: FirstScale, field: Ground, head: dict, also: Sequence[float] = ()) -> list[dict]:
    """Make whatever the record NAME.json lacks; returns all its runs.

    NAME.txt holds what the first seed said at the best peak. `also`: peaks to run at full length as well, which count for
    nothing. A result without a score, left by a stop between the two, is trained again: the same seed gives the same model."""
    runs, models = train_missing(path, design, scale, field, head, also)
    for row in results_of(runs, bool(scale.search)):
        if "bleu" in row:
            continue
        key = row["peak"], row["seed"], row["search"]
        model = models.get(key)
        if model is None:  # trained by an earlier call
            _, model = attempt_run(design, scale, field, *key)
        found, lines = score(model, field)
        row |= found
        if row["seed"] == scale.seeds[0]:
            write_text(path.with_suffix(".txt"), "\n".join(lines) + "\n")
        keep(path, head, runs)
    return runs


# The command -----------------------------------------------------------------------------------------------------------

def asked_for(args: Sequence[str] | None = None) -> argparse.Namespace:
    "The options of the command; `designs` are those that were named."
    parser = argparse.ArgumentParser(prog="python -m transformer_lit.support.comparison_runs", description=make_records.__doc__)
    parser.add_argument("names", nargs="+", metavar="name", help="competitors: " + ", ".join(COMPETITORS))
    parser.add_argument("--corpus", choices=list(SCALES), default="pocket", help="the ground (default: %(default)s)")
    parser.add_argument("--out", type=types.path, default=Path("runs/equal"), help=(
        "where records are kept (default: %(default)s; the book's own are in book/results/equal)"))
    parser.add_argument("--also", type=types.number(1e-8, 10), nargs="*", default=(), metavar="PEAK",
                        help="peaks to run as well, outside the comparison")
    options = parser.parse_args(args)
    try:
        options.designs = [find_design(name) for name in options.names]
    except KeyError as error:
        parser.error(error.args[0])
    return options


def make_records(args: Sequence[str] | None = None) -> int:
    "Train and score competitors as their records ask; goes on."
    options = asked_for(args)
    return guarded(lambda: records_for(options), "the same command goes on with the run that it was in")


def records_for(options: argparse.Namespace) -> int:
    "What `make_records` does, errors and all."
    torch.set_num_threads(1)  # so that the times can be compared
    folder_or_new(options.out)
    scale = SCALES[options.corpus]
    for name, design in zip(options.names, options.designs):
        head = {"command": command(name, options.corpus), "commit": commit(), "hardware": hardware(), "torch": torch.__version__,
                "design": name, "scale": asdict(scale)}
        path = options.out / options.corpus / f"{name}.json"
        runs_before(path, head)  # a record of something else is refused before the corpus is read
        runs = run_all(path, design, scale, first_ground(scale.corpus), head, options.also)
        print(f"{name}: {path}", *map(line_of, runs), sep="\n  ", flush=True)
    return 0


def line_of(run: dict) -> str:
    "One run as a line."
    bleu = f", BLEU {run['bleu']:.1f}" if "bleu" in run else ""
    search = " (of the search)" if run["search"] else ""
    return f"peak {run['peak']:g}, seed {run['seed']}: validation loss {run['valid_loss']:.3f}{bleu}{search}"


if __name__ == "__main__":
    sys.exit(make_records())
