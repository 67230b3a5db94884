"""The records of part IV's rule, read: the trials of a search, the runs that count, lines of n-grams, and who stands before whom."""
# book/results/fair/GROUND/NAME.json has a design's search and its runs, NAME.txt what its first seed said, and summary.json what
# takes all designs together. `bench/fair.py` makes them; this file only reads, and knows no model.
import json
from collections.abc import Mapping, Sequence

from .comparison import over_seeds
from .figures import Picture, folded, heatmaps, table
from .files import shipped

Setting = tuple[float, float]  # peak of the rate, share of the warm-up


def command(name: str, ground: str = "tatoeba") -> str:
    "What to type for the record of one design."
    return f"python bench/fair.py run --ground {ground} --design {name}"


def record_of(name: str, ground: str = "tatoeba") -> dict:
    "A design's whole record. Raises FileNotFoundError, which says what to type, if there is none."
    path = shipped(f"results/fair/{ground}/{name}.json")
    if not path.exists():
        raise FileNotFoundError(f"{name} has no record: type {command(name, ground)}")
    return json.loads(path.read_text(encoding="utf-8"))


def summary_of(ground: str = "tatoeba") -> dict:
    "What the records of a ground say together."
    return json.loads(shipped(f"results/fair/{ground}/summary.json").read_text(encoding="utf-8"))


def designs_of(ground: str = "tatoeba") -> list[str]:
    "All designs that have a record."
    return sorted(path.stem for path in shipped(f"results/fair/{ground}").glob("*.json") if path.stem not in ("summary", "families"))


# The search -------------------------------------------------------------------------------------------------------------

def trials_of(name: str, ground: str = "tatoeba") -> dict[Setting, float]:
    "(peak, warm-up) -> mean validation loss of a search, in the order in which they were tried; a trial that failed is left out."
    return {(trial["peak"], trial["warmup"]): trial["loss"] for trial in record_of(name, ground)["search"]["trials"]
            if trial["loss"] is not None}


def best_of(trials: Mapping[Setting, float]) -> Setting:
    "The setting with the lowest loss."
    return min(trials, key=lambda setting: trials[setting])


def setting_said(setting: Setting) -> str:
    "A setting in words: `0.006, 10%`."
    return f"{setting[0]:g}, {setting[1]:.0%}"


def search_maps(names: Mapping[str, str], ground: str = "tatoeba") -> Picture:
    "Recorded searches as maps: peaks from left to right, warm-ups upwards, the loss in each cell that was tried. names: label -> design."
    found = {label: trials_of(name, ground) for label, name in names.items()}
    peaks, warmups = (sorted({setting[i] for trials in found.values() for setting in trials}) for i in (0, 1))
    low = min(min(trials.values()) for trials in found.values())
    high = max(max(trials.values()) for trials in found.values())
    nan = float("nan")
    panels = [{"matrix": [[trials.get((peak, warmup), nan) for peak in peaks] for warmup in reversed(warmups)], "title": label}
              for label, trials in found.items()]
    said = "; ".join(f"{label} {min(trials.values()):.2f} at {setting_said(best_of(trials))}" for label, trials in found.items())
    return heatmaps(panels, rows=[f"{warmup:.0%}" for warmup in reversed(warmups)], cols=[f"{peak:g}" for peak in peaks],
                    xlabel="peak of the rate", ylabel="warm-up", annotate=True, cmap="cividis_r", vmin=low, vmax=min(high, low + 2.5),
                    bar=False, caption=f"Lowest loss, at which peak and warm-up: {said}.",
                    alt=f"Validation loss over the peak of the learning rate and the share of the warm-up. Lowest: {said}.")


def peak_rows(ground: str = "tatoeba") -> list[dict]:
    "The peaks of the search's second part, a row for each design and peak: the loss in the first part, with a quarter of the budget, and with all."
    rows = []
    for name in designs_of(ground):
        search, short = record_of(name, ground)["search"], trials_of(name, ground)
        for k, row in enumerate(sorted(search["peaks"], key=lambda row: row["peak"])):
            quarter = short.get((row["peak"], search["warmup"]))
            rows.append({"": "" if k else name, "peak": f"{row['peak']:g}", "a quarter of the budget": "" if quarter is None else f"{quarter:.2f}",
                         "the full budget": "failed" if row["loss"] is None else f"{row['loss']:.2f}",
                         "chosen by": ", ".join(["the quarter"] * (row["peak"] == search["short_peak"]) + ["the full"] * (row["peak"] == search["peak"]))})
    return rows


# The runs that count -----------------------------------------------------------------------------------------------------

def results_of(name: str, ground: str = "tatoeba") -> list[dict]:
    "The runs with the search's setting and the full budget, one for each seed, in the order of seeds."
    record = record_of(name, ground)
    search, budget = record["search"], record["scale"]["tokens"]
    return sorted((run for run in record["runs"] if "test_loss" in run
                   and (run["budget"], run["peak"], run["warmup"]) == (budget, search["peak"], search["warmup"])), key=lambda run: run["seed"])


def lines_of(ground: str = "tatoeba") -> dict[str, float]:
    "unigram, bigram, trigram -> nats per token on the test sentences, counted on the batches of a run with the full budget."
    summary = summary_of(ground)
    return summary["ngrams"][str(summary["scale"]["tokens"])]["test"]


def gap_said(gap: Mapping[str, float]) -> str:
    "A difference with its interval, in words."
    return f"{gap['value']:+.3f} [{gap['low']:+.3f}, {gap['high']:+.3f}]"


def standing(names: Sequence[str] | None = None, ground: str = "tatoeba", against: str = "transformer") -> Picture:
    "The table of a comparison: ranks, losses, differences; what costs nothing to look up later is folded below it. names: None for all."
    summary = summary_of(ground)
    rows, more = [], []
    for row in summary["comparison"]:
        name = row["design"]
        if names is not None and name not in names:
            continue
        if row["rank"] is None:
            rows.append({"": name, "rank": "none", "loss": row["why"]})
            more.append({"": name, "made by": command(name, ground)})
            continue
        runs, gap = results_of(name, ground), row.get("more_than", {}).get(against)
        rows.append({"": name, "rank": row["rank"], "loss": over_seeds([run["test_loss"] for run in runs], 3),
                     f"more than {against}": gap_said(gap) if gap else "", "BLEU": over_seeds([run["bleu"] for run in runs], 1)})
        more.append({"": name, "chrF": over_seeds([run["chrf"]["value"] for run in runs], 1), "parameters": row["parameters"],
                     "tokens": row["tokens"], "operations, 10⁹": round(row["flops"] / 1e9), "cpu s": round(row["cpu_seconds"]),
                     "peak": f"{runs[0]['peak']:g}", "warm-up": f"{runs[0]['warmup']:.0%}", "made by": command(name, ground)})
    line = lines_of(ground)["trigram"]
    rows.append({"": "trigram of French alone", "rank": "", "loss": f"{line:.3f}"})
    first = next((results_of(row["design"], ground)[0] for row in summary["comparison"] if row["rank"]), None)
    caption = f"{ground}, test sentences" + (f"; BLEU of {first['lines']:,} with {first['signature'].replace('|', ' ')}" if first else "")
    columns = list(dict.fromkeys(key for row in more for key in row))
    return folded(table(rows, caption=caption, wide=True), table(more, columns, wide=True), "the other columns, and the command of each row")


def currency_rows(ground: str = "tatoeba") -> list[dict]:
    "Each design's loss with the reference's tokens, operations and seconds."
    rows = []
    for row in summary_of(ground)["currencies"]:
        rows.append({"": row["design"], "tokens": f"{row['at_equal_tokens']:.3f}", **{
            kind: f"{row[key]['loss']:.3f}" + (" *" if row[key]["beyond"] else "") for kind, key in (
                ("operations", "at_equal_operations"), ("seconds", "at_equal_seconds")) if key in row}})
    return rows
