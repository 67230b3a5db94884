"""The records of the first rule, read: runs, searches, what was said, and the table that ends a chapter."""
# A record is book/results/equal/CORPUS/NAME.json, with every run of one competitor, and NAME.txt beside it, with what its first
# seed said. `comparison_runs` writes them; this file only reads, and knows no model.
import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import mean

from .figures import Picture, curves, folded, table
from .commands import command_again
from .files import shipped
from .rivals import recorded


def command(name: str, corpus: str) -> str:
    "What to type for the record of one competitor."
    return command_again(f"python -m transformer_lit.support.comparison_runs {name}", {"corpus": corpus})


def has_record(name: str, corpus: str = "pocket") -> bool:
    "Is there a record of this competitor, with its scores?"
    return shipped(f"results/equal/{corpus}/{name}.txt").exists()


def record_of(name: str, corpus: str = "pocket") -> dict:
    "A whole record. Raises FileNotFoundError, which says what to type, if there is none."
    path = shipped(f"results/equal/{corpus}/{name}.json")
    if not path.exists():
        raise FileNotFoundError(f"{name} has no record: type {command(name, corpus)}")
    return json.loads(path.read_text(encoding="utf-8"))


def runs_of(names: Sequence[str], corpus: str = "pocket") -> dict[str, list[dict]]:
    """name -> its results: the runs at the best peak with the full budget, one for each seed. They alone are scored.

    Raises FileNotFoundError with what to type if there is no record."""
    return {name: [run for run in record_of(name, corpus)["runs"] if "bleu" in run] for name in names}


def search_of(name: str, corpus: str = "pocket") -> dict[float, float]:
    "Peak -> validation loss of a recorded search, in order of peaks."
    record = record_of(name, corpus)
    return {run["peak"]: run["valid_loss"] for run in sorted(record["runs"], key=lambda run: run["peak"])
            if run["search"] and run["seed"] == record["scale"]["seeds"][0]}


def drawn_searches(names: Mapping[str, str], corpus: str = "pocket", worst: float = 20.0) -> dict[str, tuple]:
    "label -> (peaks, losses) of recorded searches, to be drawn; a run that broke down, above `worst`, is left out. names: label -> name."
    found = {label: {peak: loss for peak, loss in search_of(name, corpus).items() if loss < worst} for label, name in names.items()}
    return {label: (list(losses), list(losses.values())) for label, losses in found.items()}


def lowest_said(drawn: Mapping[str, tuple]) -> str:
    "In words, where each of some searches is lowest."
    return ", ".join(f"{label} {min(losses):.2f} at {peaks[losses.index(min(losses))]:g}" for label, (peaks, losses) in drawn.items())


def places_changed(drawn: Mapping[str, tuple]) -> tuple[float, int, int]:
    "Of some searches the lowest peak that all have, how many pairs stand the other way round there than at each one's best, and of how many."
    common = max(peaks[0] for peaks, _ in drawn.values())
    ranks = [(dict(zip(*one))[common], min(one[1])) for one in drawn.values()]
    pairs = list(combinations(ranks, 2))
    return common, sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for a, b in pairs), len(pairs)


def lines_of(corpus: str) -> dict[str, float]:
    """unigram, bigram, trigram -> nats per token: what French alone gives away, counted on the batches of the recorded runs.

    The mean over their seeds, from bench/ngrams.py."""
    found = recorded("ngrams")["lines"][corpus].values()
    return {name: mean(row[name] for row in found) for name in ("unigram", "bigram", "trigram")}


def trigram_line(corpus: str) -> tuple[float, str]:
    "The trigram's loss and its name: a dotted line for a figure of losses."
    return lines_of(corpus)["trigram"], "trigram"


def below_trigram(names: Sequence[str], corpus: str) -> list[str]:
    "Those whose mean loss is below the trigram's."
    line = lines_of(corpus)["trigram"]
    return [name for name, runs in runs_of(names, corpus).items() if mean(run["valid_loss"] for run in runs) < line]


def search_curves(names: Mapping[str, str], corpus: str = "pocket") -> Picture:
    "Recorded searches as curves: the loss against the peak of the learning rate."
    drawn = drawn_searches(names, corpus)
    common, swapped, pairs = places_changed(drawn)
    return curves(drawn, logx=True, xlabel="peak of the learning rate", ylabel="loss, nats per token", styles=dict.fromkeys(drawn, "o-"),
                  hline=trigram_line(corpus),
                  alt=f"Validation loss against the peak of the learning rate. Lowest: {lowest_said(drawn)}. Dotted: a trigram of French alone.",
                  caption=f"{swapped} of the {pairs} pairs change places between a common peak of {common:g} and the best peak of each.")


def said(name: str, corpus: str = "pocket") -> list[str]:
    "What the first seed said, a line for each test sentence."
    return shipped(f"results/equal/{corpus}/{name}.txt").read_text(encoding="utf-8").splitlines()


def over_seeds(values: Sequence[float], digits: int = 2) -> str:
    "The mean, and in brackets the lowest and the highest."
    text = f"{mean(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def bleu_text(runs: Sequence[dict]) -> str:
    "BLEU over seeds; of one seed with its interval on the test set, in square brackets."
    if len(runs) > 1:
        return over_seeds([run["bleu"] for run in runs], 1)
    return "{bleu:.1f} [{low:.1f} to {high:.1f}]".format(**runs[0])


def cost_row(name: str, corpus: str = "pocket") -> dict:
    "One competitor's row of the table, from its record; without one, what to type."
    if not has_record(name, corpus):
        return {"": name, "BLEU": "not run yet", "made by": command(name, corpus)}
    runs = runs_of([name], corpus)[name]

    def of(key: str) -> float:
        return mean(run[key] for run in runs)

    return {"": name, "BLEU": bleu_text(runs), "loss": over_seeds([run["valid_loss"] for run in runs], 3),
            "parameters": runs[0]["parameters"], "tokens": runs[0]["tokens"],
            "6ND, 10⁹": round(of("flops_6nd") / 1e9), "operations, 10⁹": round(of("flops") / 1e9),
            "cpu s": round(of("cpu_seconds")), "tokens/s": round(of("tokens_per_second")),
            "peak": f"{runs[0]['peak']:g}", "seeds": len(runs), "made by": command(name, corpus)}


FIRST = ["", "BLEU", "loss", "operations, 10⁹"]  # columns in view; the others wait in a fold


def table_of(names: Sequence[str], corpus: str = "pocket") -> Picture:
    "The table that ends a chapter, with the signature of its BLEU; what costs nothing to look up later is folded below it."
    recorded = [name for name in names if has_record(name, corpus)]
    caption = f"{corpus}: not run yet"
    if recorded:
        first = runs_of(recorded[:1], corpus)[recorded[0]][0]
        caption = f"{corpus}, {first['lines']:,} test sentences, {first['signature'].replace('|', ' ')}"
    rows = [cost_row(name, corpus) for name in names]
    more = ["", *dict.fromkeys(key for row in rows for key in row if key not in FIRST)]
    alone = [{"": f"{name} of French alone", "loss": f"{loss:.3f}"} for name, loss in lines_of(corpus).items() if name != "unigram"]
    return folded(table(rows + alone, FIRST, caption, wide=True), table(rows, more, wide=True), "the other columns, and the command of each row")


def away(name: str, base: str, key: str, corpus: str = "pocket") -> tuple[float, float, float]:
    """What `name` has of `key` more than `base`, seed by seed: mean, lowest, highest.

    Only seeds that both have count. Raises FileNotFoundError with what to type if there is no record."""
    found = runs_of([name, base], corpus)
    by_seed = {run["seed"]: run[key] for run in found[base]}
    gaps = [run[key] - by_seed[run["seed"]] for run in found[name] if run["seed"] in by_seed]
    return mean(gaps), min(gaps), max(gaps)
