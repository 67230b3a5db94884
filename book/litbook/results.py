"""Recorded runs as tables: what trainings and the scripts of bench/ left under book/results."""

# runs/TABLE.jsonl has a line a run. What is kept of each test sentence is beside it, in
# TABLE-sentences.npz under RUN/WHAT, and its outputs in TABLE-outputs.tsv.xz. Part IV's rule is
# chapter 22's: a design's setting is the search's choice, by the loss on validation pairs.
import hashlib
import json
import lzma
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
from IPython import get_ipython

from litbook import figures
from litbook.commands import typed_today
from litbook.search import FULL, SEARCH, SEARCH_SEEDS, SEEDS, search
from transformer_lit.corpora.files import shipped
from transformer_lit.data import sentence_key, normalize_text
from transformer_lit.comparison import Hyperparameters, loss_difference, paired_t_interval
from transformer_lit.evaluation import bleu_from_stats, brevity_penalty

SETTING = ["peak", "warmup"]


# Files --------------------------------------------------------------------------------------------


@cache
def load_sentences(table: str) -> Mapping[str, np.ndarray]:
    "RUN/WHAT -> an array over the test sentences."
    return np.load(shipped(f"results/runs/{table}-sentences.npz"))


@cache
def load_runs(table: str) -> pd.DataFrame:
    """A row a run: of tatoeba, pocket, german or own.

    losses: nats of each test sentence; counts: what BLEU is computed from; None where a run was
    only to choose a setting."""
    text = shipped(f"results/runs/{table}.jsonl").read_text("utf-8")
    runs = pd.DataFrame(map(json.loads, text.splitlines()))
    if table in ("tatoeba", "pocket", "german"):
        arrays = load_sentences(table)
        for column, what in (("losses", "losses"), ("counts", "bleu")):
            names = runs.run + "/" + what
            # losses are kept with three digits
            runs[column] = [
                arrays[name].astype(float).round(3) if name in arrays else None for name in names
            ]
    return runs


def load_outputs(table: str, run: str) -> list[str]:
    "A run's outputs (hypotheses), a line for each test sentence."
    with lzma.open(shipped(f"results/runs/{table}-outputs.tsv.xz"), "rt", encoding="utf-8") as file:
        return [line[len(run) + 1 : -1] for line in file if line.startswith(run + "\t")]


def load_bench(name: str) -> dict:
    "What one script of bench/ left."
    return json.loads(shipped(f"results/bench/{name}.json").read_text("utf-8"))


def lines_of(file: str, run: str) -> list[dict]:
    "The lines that a run has in a file of JSON lines."
    lines = shipped(f"results/runs/{file}").read_text("utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row.pop("run") == run]


def load_record(run: str) -> tuple[dict, list[dict]]:
    """A training: its command, recipe, data, effort, scores, and what else was measured of it; and
    the entries of its log."""
    (record,) = lines_of("trainings.jsonl", run)
    return record, lines_of("trainings-logs.jsonl", run)


def outcome(run: str) -> dict:
    "A training as a row: pairs, parameters, perplexity, BLEU with the first reference."
    record, _ = load_record(run)
    loss, bleu = (score["value"] for score in record["scores"][:2])
    return {
        "pairs": record["data"]["train"],
        "parameters": record["parameters"],
        "perplexity": np.exp(loss),
        "BLEU": bleu,
    }


# Commands -----------------------------------------------------------------------------------------


def command_of(record: Mapping) -> str:
    "The command of a record as it is typed today; the record keeps the words that were typed."
    return typed_today(record["command"])


def made_by(record: Mapping) -> str:
    "Where a record was made, and by which command: the end of a caption."
    where = f"{record['hardware']}, torch {record['torch']}; " if "hardware" in record else ""
    return f"{where and 'hardware: '}{where}made by {command_of(record)}"


READ: dict[int, set[str]] = defaultdict(set)  # a cell's number -> the runs that it has read


def runs_of_cell() -> set[str]:
    "The runs that the cell which runs now has read."
    return READ[getattr(get_ipython(), "execution_count", 0)]


def read(runs: pd.DataFrame) -> pd.DataFrame:
    "The same runs; `with_commands` names them."
    runs_of_cell().update(runs.run)
    return runs


@cache
def search_names(ground: str, design: str) -> list[str]:
    "The runs that a search makes, walked through what is recorded."
    runs = select(design, ground, seed=SEARCH_SEEDS).fillna({"valid_loss": np.inf})
    trials, names = runs.set_index(["budget", *SETTING, "seed"]), []

    def loss_of(trial: tuple) -> float:
        names.append(trials.run[trial])
        return trials.valid_loss[trial]

    search(ground, loss_of)
    return names


def commands(names: Iterable[str]) -> list[str]:
    """What to type for these runs. A search is one command, and runs that differ in the seed alone
    are one: a shell expands the braces."""
    searches, seeds_of = set(), {}
    for name in sorted(names):
        start, _, seed = name.rpartition("-s")
        if int(seed) in SEARCH_SEEDS:
            ground, design = re.match(r"(\w+)-(.+)-\d+k-p", start).groups()
            if name in search_names(ground, design):
                where = f" --ground {ground}" * (ground != "tatoeba")
                searches.add(f"python bench/fair --search {design}{where}")
                continue
        seeds_of.setdefault(start, []).append(seed)
    return sorted(searches) + [
        f"python bench/{'own' if start[0].isdigit() else 'fair'} {start}-s"
        + ("{%s}" % ",".join(seeds) if len(seeds) > 1 else seeds[0])
        for start, seeds in seeds_of.items()
    ]


def with_commands(picture: figures.Picture) -> figures.Picture:
    "A table or a figure, and folded below it what to type for every run that its cell has read."
    rows = [{"made by": line} for line in commands(runs_of_cell())]
    caption = (
        "In the name of a run p is the peak learning rate, w the warmup, s the seed. A run that"
        " book/results/runs has already is not made again: see bench/fair"
    )
    return figures.folded(picture, figures.table(rows, caption=caption, wide=True), "the commands")


# A design's search and its runs -------------------------------------------------------------------


def select(design: str, ground: str = "tatoeba", **where) -> pd.DataFrame:
    "The runs of a design whose columns have these values, in the order of seeds."
    runs = load_runs(ground)
    chosen = runs.design == design
    for column, value in where.items():
        chosen &= runs[column].isin(np.atleast_1d(value))
    return runs[chosen].sort_values("seed", kind="stable")


def searched(design: str, ground: str) -> pd.DataFrame:
    "The trials of the search's first part."
    return select(design, ground, budget=SEARCH[ground], seed=SEARCH_SEEDS)


def by_setting(runs: pd.DataFrame) -> dict[Hyperparameters, float]:
    "(peak, warmup) -> mean validation loss of the trials that trained."
    losses = runs.groupby(SETTING).valid_loss
    return losses.apply(lambda loss: loss.mean(skipna=False)).dropna().to_dict()


def best_of(losses: Mapping) -> Hyperparameters:
    "The setting, or the peak, with the lowest loss."
    return min(losses, key=losses.__getitem__)


def second_part(design: str, ground: str, budget: int = FULL) -> pd.DataFrame:
    "The trials of the search's second part: peaks with the full budget, or another."
    warmup = best_of(by_setting(searched(design, ground)))[1]
    return select(design, ground, budget=budget, warmup=warmup, seed=SEARCH_SEEDS[0])


@cache
def choice(design: str, ground: str = "tatoeba") -> Hyperparameters:
    "What the search chose."
    peak = second_part(design, ground).set_index("peak").valid_loss.idxmin()
    return float(peak), best_of(by_setting(searched(design, ground)))[1]


def trials(design: str) -> dict[Hyperparameters, float]:
    "The search's first part: (peak, warmup) -> mean validation loss."
    return by_setting(read(searched(design, "tatoeba")))


def peaks(design: str, ground: str = "tatoeba", budget: int = FULL) -> dict[float, float]:
    "Its second part: peak -> validation loss with the full budget, or another."
    runs = read(second_part(design, ground, budget))
    return runs.set_index("peak").valid_loss.to_dict()


def results(design: str, ground: str = "tatoeba") -> pd.DataFrame:
    "The runs that count: the full budget, the search's choice, one for each seed."
    peak, warmup = choice(design, ground)
    return read(select(design, ground, budget=FULL, peak=peak, warmup=warmup, seed=SEEDS))


def by_budget(design: str) -> dict[int, pd.DataFrame]:
    """Target tokens -> a design's runs with that budget. Away from the full one: of the settings
    with most seeds the one with the lowest validation loss."""
    others = {
        budget: read(
            max(
                (group for _, group in runs.groupby(SETTING)),
                key=lambda group: (len(group), -group.valid_loss.mean()),
            )
        )
        for budget, runs in select(design, seed=SEEDS).groupby("budget")
        if budget != FULL
    }
    return dict(sorted({**others, FULL: results(design)}.items()))


def all_seeds(runs: pd.DataFrame) -> pd.DataFrame:
    "Those of the same design, budget and setting, with every seed that no search had."
    same = select(**runs[["design", "budget", *SETTING]].iloc[0])
    return read(same[~same.seed.isin(SEARCH_SEEDS)])


def designs(ground: str = "tatoeba") -> list[str]:
    "All designs with a search and a full run for each seed."
    runs = load_runs(ground)
    searched = runs[runs.seed == SEARCH_SEEDS[1]].design
    full = runs[(runs.budget == FULL) & runs.seed.isin(SEEDS) & runs.design.isin(searched)]
    seeds = full.groupby("design").seed.nunique()
    return sorted(seeds[seeds == len(SEEDS)].index)


# Beside them, and between them --------------------------------------------------------------------


def ngrams(ground: str = "tatoeba", part: str = "test", budget: int = FULL) -> dict[str, float]:
    """5-gram, ..., unigram of the French alone -> nats per token on "test" or "valid", counted
    on the batches of a run with that budget."""
    runs = load_runs(ground)
    line = read(runs[(runs.kind == "ngrams") & (runs.budget == budget)])[part].item()
    return dict(reversed(line.items()))


def ngrams_text(lines: Mapping[str, float]) -> str:
    "The n-gram baselines as the last sentence of a caption."
    parts = ", ".join(f"{name} {loss:.2f}" for name, loss in lines.items())
    return f"Target-side n-gram language models: {parts}."


def beside(ground: str = "tatoeba", part: str = "test", budget: int = FULL) -> str:
    "That sentence for these runs."
    return ngrams_text(ngrams(ground, part, budget))


def clock() -> dict[str, float]:
    "Design -> processor seconds of a target token, with all designs in turns."
    runs = load_runs("tatoeba")
    return read(runs[runs.kind == "clock"])["cpu_seconds_per_token"].iloc[0]


def bleu_difference(
    ours: Sequence, baseline: Sequence, n_samples: int = 1000, seed: int = 1
) -> dict:
    """BLEU that `ours` has more, as chapter 22's `loss_difference` has it for losses.

    ours, baseline: for each seed the counts of each sentence, (n, 10). By one seed nothing is
    significant."""
    draw = np.random.default_rng(seed).multinomial
    seeds, n = len(ours), len(ours[0])
    sentences = np.vstack([np.ones(n, int), draw(n, np.full(n, 1 / n), n_samples)])
    each = np.array(
        [
            [
                bleu_from_stats(a, True) - bleu_from_stats(b, True)
                for a, b in zip(sentences @ x, sentences @ y)
            ]
            for x, y in zip(ours, baseline)
        ]
    )  # (seeds, 1 + n_samples); the first: as the sentences are
    weights = draw(seeds, np.full(seeds, 1 / seeds), n_samples) / seeds
    low, high = np.quantile((each[:, 1:] * weights.T).sum(0), (0.025, 0.975)).tolist()
    value = each[:, 0].mean()
    significant = (
        seeds > 1
        and low * high > 0
        and abs(value) > paired_t_interval(each[:, 0], [0.0] * seeds)[1]
    )
    return {"value": value, "low": low, "high": high, "significant": significant}


def lengths(runs: pd.DataFrame) -> tuple[float, float]:
    "Length ratio of the outputs and brevity penalty of BLEU, means over the runs."
    sums = (sum(stats)[:2] for stats in runs.counts)
    return tuple(np.mean([(a / b, brevity_penalty(a, b)) for a, b in sums], 0))


def runs_with_searches(design: str, budget: int = FULL) -> pd.DataFrame:
    "The runs that were decoded greedily and with six length penalties."
    runs = select(design, budget=budget)
    return read(runs[runs.searches.notna()])


def by_search(runs: pd.DataFrame) -> dict:
    "((beam size, α), part) -> BLEU, chrF2 and length ratio, a row a seed."
    scores = defaultdict(list)
    for beam, alpha, part, *values in chain(*runs.searches):
        scores[(beam, alpha), part].append(values)
    return {key: np.array(rows) for key, rows in scores.items()}


def best_search(scores: dict) -> tuple[int, float]:
    "Beam size and α of the highest mean BLEU on validation pairs."
    return max((key[0] for key in scores), key=lambda x: scores[x, "valid"][:, 0].mean())


@cache
def gap_between(column: str, ours: tuple[str, ...], baseline: tuple[str, ...]) -> dict:
    "The difference between runs with these names."
    ground = ours[0].partition("-")[0]
    values = load_runs(ground).set_index("run")[column]
    sides = [list(values[list(names)]) for names in (ours, baseline)]
    if column == "counts":
        return bleu_difference(*sides)
    tokens = load_sentences(ground)[f"{ground}-ngrams-{FULL}-p0-s1/tokens"].astype(int)
    return loss_difference(*sides, tokens)


def gap(ours: pd.DataFrame, baseline: pd.DataFrame, column: str = "losses") -> dict:
    "What some runs have more than others with the same seeds: nats per token or, counts, BLEU."
    return gap_between(column, tuple(ours.run), tuple(baseline.run))


def gap_text(gap: Mapping, digits: int = 3, verdict: bool = True) -> str:
    "A difference with its interval, and `n.s.` where it isn't significant."
    value, low, high = (f"{gap[key]:+.{digits}f}" for key in ("value", "low", "high"))
    return f"{value} [{low}, {high}]" + ", n.s." * (verdict and not gap["significant"])


def gap_texts(ours: pd.DataFrame, baseline: pd.DataFrame) -> tuple[str, str]:
    "Differences in loss and in BLEU."
    return gap_text(gap(ours, baseline)), gap_text(gap(ours, baseline, "counts"), 1)


def over_seeds(values: Sequence[float], digits: int = 2) -> str:
    "The mean, and in brackets the lowest and the highest."
    values = np.array(values)
    mean, low, high = (f"{f():.{digits}f}" for f in (values.mean, values.min, values.max))
    return mean if len(values) == 1 else f"{mean} ({low} to {high})"


def along(design: str, column: str, ground: str = "tatoeba", since: int = 0) -> np.ndarray:
    "(looks, seeds, numbers) of the runs that count, by target tokens, from so many on."
    looks = np.array(list(zip(*results(design, ground)[column])))
    return looks[looks[:, 0, 0] >= since]


# What a translator has seen -----------------------------------------------------------------------


def fingerprint(english: str) -> bytes:
    "Four bytes of a sentence's hash; case and end marks don't count."
    return hashlib.sha256(sentence_key(normalize_text(english)).encode()).digest()[:4]


@cache
def fingerprints(folder: Path) -> frozenset[bytes]:
    "Those of all English sentences that a translator has trained on, kept in its folder."
    held = (folder / "seen.bin").read_bytes()
    return frozenset(held[i : i + 4] for i in range(0, len(held), 4))


def was_seen(english: str, folder: str | Path | None = None) -> bool:
    "Did the translator in `folder` train on this English sentence? None: tatoeba-fr."
    folder = folder or shipped("data/checkpoints/tatoeba-fr")
    return fingerprint(english) in fingerprints(Path(folder))
