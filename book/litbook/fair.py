"""The records of part IV's rule, read: the trials of a search, the runs that count, lines of
n-grams, and who stands before whom."""

# book/results/fair/GROUND/NAME.json has a design's search and its runs, NAME.txt what its first
# seed said, and summary.json what takes all designs together. `bench/fair.py` makes them; this file
# only reads, and knows no model.
import json
import math
from collections.abc import Mapping, Sequence
from statistics import mean

from litbook.figures import Picture, folded, heatmaps, table
from transformer_lit.corpora.files import shipped

Setting = tuple[float, float]  # peak of the rate, share of the warm-up
BESIDES = ("summary", "bleu", "families")  # files of a ground that are no design's


MACHINES = "¹ On a machine with bf16 products; its seconds can't be set against the others. "
AFRESH = (
    "As they stand, these commands treat the book's own runs as done; with --packed runs/none"
    " --home runs/fair they train anew, and python bench/fair.py collect with the same options and"
    " --out runs/records makes records of them"
)


def command(name: str, ground: str = "tatoeba") -> str:
    "What to type for the record of one design."
    return f"python bench/fair.py run --ground {ground} --design {name}"


def with_commands(
    shown: Picture, *designs: str, parts: Sequence[str] = (), ground: str = "tatoeba"
) -> Picture:
    """A table or a figure, and folded below it what to type for its records. parts: titles of the
    plan, as `bench/fair.py status` has them."""
    rows = [{"": name, "made by": command(name, ground)} for name in designs]
    rows += [
        {"": title, "made by": f'python bench/fair.py run --part "{title}"'} for title in parts
    ]
    return folded(shown, table(rows, caption=AFRESH, wide=True), "the commands")


def record_of(name: str, ground: str = "tatoeba") -> dict:
    "A design's whole record. Raises FileNotFoundError, which says what to type, if there is none."
    path = shipped(f"results/fair/{ground}/{name}.json")
    if not path.exists():
        raise FileNotFoundError(
            f"{name} has no record: type {command(name, ground)}, and then python bench/fair.py"
            " collect"
        )
    return json.loads(path.read_text(encoding="utf-8"))


def summary_of(ground: str = "tatoeba") -> dict:
    "What the records of a ground say together."
    return json.loads(shipped(f"results/fair/{ground}/summary.json").read_text(encoding="utf-8"))


def designs_of(ground: str = "tatoeba") -> list[str]:
    "All designs that have a record."
    return sorted(
        path.stem
        for path in shipped(f"results/fair/{ground}").glob("*.json")
        if path.stem not in BESIDES
    )


# The search ---------------------------------------------------------------------------------------


def trials_of(name: str, ground: str = "tatoeba") -> dict[Setting, float]:
    """(peak, warm-up) -> mean validation loss of a search, in the order in which they were tried; a
    trial that failed is left out."""
    return {
        (trial["peak"], trial["warmup"]): trial["loss"]
        for trial in record_of(name, ground)["search"]["trials"]
        if trial["loss"] is not None
    }


def best_of(trials: Mapping[Setting, float]) -> Setting:
    "The setting with the lowest loss."
    return min(trials, key=lambda setting: trials[setting])


def setting_said(setting: Setting) -> str:
    "A setting in words: `0.006, 10%`."
    return f"{setting[0]:g}, {setting[1]:.0%}"


def search_maps(names: Mapping[str, str], ground: str = "tatoeba") -> Picture:
    """Recorded searches as maps: peaks from left to right, warm-ups upwards, the loss in each cell
    that was tried. names: label -> design."""
    found = {label: trials_of(name, ground) for label, name in names.items()}
    peaks, warmups = (
        sorted({setting[i] for trials in found.values() for setting in trials}) for i in (0, 1)
    )
    low = min(min(trials.values()) for trials in found.values())
    high = max(max(trials.values()) for trials in found.values())
    nan = float("nan")
    panels = [
        {
            "matrix": [
                [trials.get((peak, warmup), nan) for peak in peaks] for warmup in reversed(warmups)
            ],
            "title": label,
        }
        for label, trials in found.items()
    ]
    said = "; ".join(
        f"{label} {min(trials.values()):.2f} at {setting_said(best_of(trials))}"
        for label, trials in found.items()
    )
    budget = record_of(next(iter(names.values())), ground)["search"]["tokens"]
    lines = (
        " " + beside(ground, "valid", budget) if str(budget) in summary_of(ground)["ngrams"] else ""
    )
    maps = heatmaps(
        panels,
        rows=[f"{warmup:.0%}" for warmup in reversed(warmups)],
        cols=[f"{peak:g}" for peak in peaks],
        xlabel="peak of the rate",
        ylabel="warm-up",
        annotate=True,
        cmap="cividis_r",
        vmin=low,
        vmax=min(high, low + 2.5),
        bar=False,
        caption=f"Lowest loss, with its peak and warm-up: {said}.{lines}",
        alt=(
            "Validation loss over the peak of the learning rate and the share of the warm-up."
            f" Lowest: {said}."
        ),
    )
    return with_commands(maps, *names.values(), ground=ground)


def peak_rows(names: Sequence[str], ground: str = "tatoeba") -> list[dict]:
    """The peaks of the search's second part, a row for each design and peak: the loss in the first
    part, with a quarter of the budget, and with all."""
    rows = []
    for name in names:
        search, short = record_of(name, ground)["search"], trials_of(name, ground)
        for k, row in enumerate(sorted(search["peaks"], key=lambda row: row["peak"])):
            quarter = short.get((row["peak"], search["warmup"]))
            rows.append(
                {
                    "": "" if k else name,
                    "peak": f"{row['peak']:g}",
                    "a quarter of the budget": "" if quarter is None else f"{quarter:.2f}",
                    "the full budget": "failed" if row["loss"] is None else f"{row['loss']:.2f}",
                    "chosen by": ", ".join(
                        ["the quarter"] * (row["peak"] == search["short_peak"])
                        + ["the full"] * (row["peak"] == search["peak"])
                    ),
                }
            )
    return rows


def warmup_rows(names: Sequence[str], ground: str = "tatoeba") -> list[dict]:
    """The full budget with the chosen warm-up, with less and with more, all with the chosen peak
    and the first seed: validation losses. Those that ran."""
    found, rows = summary_of(ground)["warmups_at_full"], []
    for name in names:
        choice = record_of(name, ground)["search"]["warmup"]
        for k, row in enumerate(found.get(name, ())):
            rows.append(
                {
                    "": "" if k else name,
                    "warm-up": f"{row['warmup']:.0%}",
                    "loss": "failed" if row["loss"] is None else f"{row['loss']:.2f}",
                    "chosen": "✓" * (row["warmup"] == choice),
                }
            )
    return rows


def pairs_in_order(ground: str = "tatoeba") -> tuple[int, int]:
    """Of the pairs of designs that the full runs decide: how many have the same order with a
    quarter of the budget, and how many there are."""
    summary = summary_of(ground)
    losses = summary["search_against_full"]["losses"]
    ahead = [
        losses[other][0] < losses[row["design"]][0]
        for row in summary["comparison"]
        for other in row.get("behind", ())
    ]
    return sum(ahead), len(ahead)


def order_of_designs(ground: str = "tatoeba") -> Picture:
    """Do the designs come in the same order with a quarter of the budget? The best trial and the
    full runs of each, with their places."""
    found = summary_of(ground)["search_against_full"]
    places = [
        {
            name: 1 + place
            for place, name in enumerate(
                sorted(found["losses"], key=lambda name: found["losses"][name][k])
            )
        }
        for k in (0, 1)
    ]
    rows = [
        {
            "": name,
            "a quarter": f"{found['losses'][name][0]:.2f}",
            "place": places[0][name],
            "the full budget": f"{found['losses'][name][1]:.2f}",
            "its place": place,
        }
        for name, place in places[1].items()
    ]
    short, full = (
        lines_of(ground, "valid", tokens)
        for tokens in (record_of(next(iter(found["losses"])), ground)["search"]["tokens"], 0)
    )
    rows += [
        {
            "": f"{name} of French alone",
            "a quarter": f"{line:.2f}",
            "place": "",
            "the full budget": f"{full[name]:.2f}",
            "its place": "",
        }
        for name, line in reversed(short.items())
    ]
    same, pairs = pairs_in_order(ground)
    return table(
        rows,
        caption=(
            "Validation loss of the best trial and of the full runs; rank correlation (Spearman's)"
            f" {found['rank_correlation']:.2f}. Of the {pairs} pairs that the full runs decide,"
            f" {same} have the same order with a quarter of the budget"
        ),
    )


# The runs that count ------------------------------------------------------------------------------


def results_of(name: str, ground: str = "tatoeba") -> list[dict]:
    """The runs with the search's setting and the full budget, one for each seed, in the order of
    seeds; no run before the search is over."""
    record = record_of(name, ground)
    search, budget = record["search"], record["scale"]["tokens"]
    if search is None:
        return []
    return sorted(
        (
            run
            for run in record["runs"]
            if "test_loss" in run
            and (run["budget"], run["peak"], run["warmup"])
            == (budget, search["peak"], search["warmup"])
        ),
        key=lambda run: run["seed"],
    )


def settings_rows(name: str, ground: str = "tatoeba") -> list[dict]:
    """Every setting with which a design had the full budget and at least three seeds, the search's
    choice last: loss and BLEU on the test."""
    record = record_of(name, ground)
    found: dict[Setting, list[dict]] = {}
    for run in record["runs"]:
        if "test_loss" in run and run["budget"] == record["scale"]["tokens"]:
            found.setdefault((run["peak"], run["warmup"]), []).append(run)
    choice = record["search"]["peak"], record["search"]["warmup"]
    return [
        {
            "peak": f"{peak:g}",
            "warm-up": f"{warmup:.0%}",
            "loss": over_seeds([run["test_loss"] for run in runs]),
            "BLEU": over_seeds([run["bleu"] for run in runs], 1),
        }
        for (peak, warmup), runs in sorted(
            found.items(), key=lambda one: (one[0] == choice, one[0])
        )
        if len(runs) >= 3
    ]


def lines_of(ground: str = "tatoeba", part: str = "test", budget: int = 0) -> dict[str, float]:
    """unigram, bigram, trigram -> nats per token on the test sentences or, "valid", the validation
    pairs.

    budget: target tokens on whose batches they are counted, 0 for those of a full run. KeyError for
    a budget that has none."""
    summary = summary_of(ground)
    return summary["ngrams"][str(budget or summary["scale"]["tokens"])][part]


def lines_said(ground: str = "tatoeba", part: str = "test", budget: int = 0) -> str:
    "The n-grams' losses in words: `trigram 2.97, bigram 3.52, unigram 6.10`."
    return ", ".join(
        f"{name} {line:.2f}" for name, line in reversed(lines_of(ground, part, budget).items())
    )


def beside(ground: str = "tatoeba", part: str = "test", budget: int = 0) -> str:
    "The n-grams of a table or a figure of losses, as the last sentence of its caption."
    return named_beside(lines_of(ground, part, budget))


def named_beside(lines: Mapping[str, float]) -> str:
    "Any n-grams, from the best, as such a sentence."
    return (
        "N-grams that see the French alone:"
        f" {', '.join(f'{name} {line:.2f}' for name, line in reversed(list(lines.items())))}."
    )


def over_seeds(values: Sequence[float], digits: int = 2) -> str:
    "The mean, and in brackets the lowest and the highest."
    text = f"{mean(values):.{digits}f}"
    return (
        text
        if len(values) == 1
        else f"{text} ({min(values):.{digits}f} to {max(values):.{digits}f})"
    )


def gap_said(gap: Mapping[str, float], digits: int = 3) -> str:
    "A difference with its interval, in words."
    value, low, high = (f"{gap[key]:+.{digits}f}" for key in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"


def gap_and_verdict(gap: Mapping, digits: int = 3) -> str:
    "The same, and a word where the interval decides nothing."
    return gap_said(gap, digits) + ", undecided" * (not gap["decided"])


def bleu_gap(name: str, against: str, tokens: int = 0, ground: str = "tatoeba") -> dict | None:
    """By how much a design's BLEU is above another's, with its interval over seeds and test
    sentences; None if that isn't recorded.

    tokens: of its runs, 0 for the full budget."""
    path = shipped(f"results/fair/{ground}/bleu.json")
    gaps = json.loads(path.read_text(encoding="utf-8"))["gaps"] if path.exists() else []
    tokens = tokens or summary_of(ground)["scale"]["tokens"]
    return next(
        (
            gap
            for gap in gaps
            if (gap["design"], gap["against"], gap["tokens"]) == (name, against, int(tokens))
        ),
        None,
    )


def bleu_gap_said(name: str, against: str, tokens: int = 0, ground: str = "tatoeba") -> str:
    "The same in words, and whether it is decided; nothing if it isn't recorded."
    gap = bleu_gap(name, against, tokens, ground)
    return gap_and_verdict(gap, 1) if gap else ""


def standing(
    names: Sequence[str] | None = None,
    ground: str = "tatoeba",
    against: str = "transformer",
    ranked: bool = True,
) -> Picture:
    """The table of a comparison: ranks, losses, differences; what costs nothing to look up later is
    folded below it.

    names: None for all; ranks are among those that are shown, or not shown. against: whose loss the
    differences count from."""
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
        ahead = [other for other in row["behind"] if names is None or other in names]
        rows.append(
            {
                "": name,
                "rank": 1 + len(ahead),
                "loss": f"{mean(run['test_loss'] for run in runs):.3f}",
                f"more than {against}": gap_and_verdict(gap) if gap else "",
                "BLEU": f"{row['bleu']:.1f}",
                f"BLEU, more than {against}": bleu_gap_said(name, against, ground=ground),
            }
        )
        more.append(
            {
                "": name,
                "loss": over_seeds([run["test_loss"] for run in runs], 3),
                "BLEU": over_seeds([run["bleu"] for run in runs], 1),
                "chrF": over_seeds([run["chrf"]["value"] for run in runs], 1),
                "parameters": row["parameters"],
                "tokens": row["tokens"],
                "operations, 10⁹": round(row["flops"] / 1e9),
                "cpu s": f"{row['cpu_seconds']:.0f}" + "¹" * (runs[0].get("muon") == "bf16"),
                "peak": f"{runs[0]['peak']:g}",
                "warm-up": f"{runs[0]['warmup']:.0%}",
                "made by": command(name, ground),
            }
        )
    rows += [
        {"": f"{name} of French alone", "rank": "", "loss": f"{line:.3f}"}
        for name, line in reversed(lines_of(ground).items())
    ]
    first = next(
        (results_of(row["design"], ground)[0] for row in summary["comparison"] if row["rank"]), None
    )
    caption = f"{ground}, test sentences" + (
        f"; BLEU of {first['lines']:,} with {first['signature'].replace('|', ' ')}" if first else ""
    )
    note = MACHINES * any("¹" in row.get("cpu s", "") for row in more) + AFRESH
    chrf = (first or {}).get("chrf", {}).get("signature", "").replace("|", " ")
    columns = list(dict.fromkeys(key for row in more for key in row))
    rows = (
        rows
        if ranked
        else [{key: value for key, value in row.items() if key != "rank"} for row in rows]
    )
    return folded(
        table(rows, caption=caption, wide=True),
        table(more, columns, wide=True, caption=f"chrF with {chrf}. {note}" if chrf else note),
        "the other columns, and the command of each row",
    )


def gap_rows(names: Sequence[str], against: str, ground: str = "tatoeba") -> list[dict]:
    """By how much loss and BLEU of each are above those of `against`, and whether the interval
    decides; of those that aren't ranked, why."""
    found = {row["design"]: row for row in summary_of(ground)["comparison"]}
    gaps = {name: found[name].get("more_than", {}).get(against) for name in names}
    return [
        {
            "": name,
            f"more than {against}": gap_and_verdict(gap) if gap else found[name].get("why", ""),
            "BLEU": bleu_gap_said(name, against, ground=ground),
        }
        for name, gap in gaps.items()
    ]


def pair_rows(pairs: Mapping[str, tuple[str, str]], ground: str = "tatoeba") -> list[dict]:
    """Named pairs of designs: by how much loss and BLEU of the first are above those of the second,
    and whether the interval decides."""
    found = {
        what: (gap_rows([one], other, ground)[0], other) for what, (one, other) in pairs.items()
    }
    return [
        {"": what, "nats per token": row[f"more than {other}"], "BLEU": row["BLEU"]}
        for what, (row, other) in found.items()
    ]


def currency_rows(names: Sequence[str] | None = None, ground: str = "tatoeba") -> list[dict]:
    """Each design's loss with the reference's tokens, operations and seconds. names: None for all
    that are ranked."""
    rows = []
    for row in summary_of(ground)["currencies"]:
        if names is not None and row["design"] not in names:
            continue
        rows.append(
            {
                "": row["design"],
                "tokens": f"{row['at_equal_tokens']:.3f}",
                **{
                    kind: f"{row[key]['loss']:.3f}" + (" *" if row[key]["beyond"] else "")
                    for kind, key in (
                        ("operations", "at_equal_operations"),
                        ("seconds", "at_equal_seconds"),
                    )
                    if key in row
                },
            }
        )
    return rows


def measured_rows(
    name: str, kinds: Sequence[str] = ("tokens", "operations", "seconds"), ground: str = "tatoeba"
) -> list[dict]:
    """A design at as many tokens, operations, seconds as another had: what its runs took, over the
    other's, and the difference.

    Muon against AdamW, streams against the Transformer. By the runs' clocks: what the runs
    themselves took, all of Muon's and AdamW's on one machine, which isn't that of the seconds;
    streams ran on two. A currency in which it wasn't run has no row."""
    summary = summary_of(ground)
    found = [
        row for row in [*summary["muon"], *summary.get("streams", ())] if row["design"] == name
    ]
    equal = {"tokens": next(row for row in found if row["tokens"] == summary["scale"]["tokens"])}
    for key in ("operations", "seconds"):
        near = min(found, key=lambda row: abs(row.get(key, math.inf) - 1))
        equal |= {key: near} if abs(near.get(key, math.inf) - 1) < 0.02 else {}
    return [
        {
            "as many": f"{key} ({row['tokens'] / 1e6:.2f}M{'' if key == 'tokens' else ' tokens'})",
            **{of: f"{row[of]:.2f}" for of in ("operations", "seconds") if of in row},
            **(
                {"by the runs' clocks": f"{row['cpu_seconds']:.2f}"}
                if row in summary["muon"]
                else {}
            ),
            "loss": gap_and_verdict(row["more"]),
            "BLEU": bleu_gap_said(row["design"], row["against"], row["tokens"], ground),
        }
        for key, row in equal.items()
        if key in kinds
    ]


# By budget, along a run, by length ----------------------------------------------------------------

Band = tuple[
    list, list[float], list[float], list[float]
]  # places, mean, lowest, highest; the last three over the seeds


def band(places: Sequence, values: Sequence[Sequence[float]]) -> Band:
    "Places and, of each, the mean, the lowest and the highest of its values."
    return (
        list(places),
        [mean(row) for row in values],
        [min(row) for row in values],
        [max(row) for row in values],
    )


def by_budget(name: str, ground: str = "tatoeba") -> dict[int, list[dict]]:
    """Target tokens -> the runs with that budget, one for each seed. Away from the full budget: of
    the settings with most seeds the one with the lowest validation loss."""
    record = record_of(name, ground)
    found: dict[int, dict[Setting, list[dict]]] = {}
    for run in sorted(record["runs"], key=lambda run: run["seed"]):
        if "test_loss" in run:
            found.setdefault(run["budget"], {}).setdefault((run["peak"], run["warmup"]), []).append(
                run
            )
    best = {
        budget: max(
            settings.values(),
            key=lambda runs: (len(runs), -mean(run["valid_loss"] for run in runs)),
        )
        for budget, settings in sorted(found.items())
    }
    full = results_of(name, ground)
    return best | ({record["scale"]["tokens"]: full} if full else {})


def trigram_by_budget(ground: str = "tatoeba") -> dict[int, float]:
    "Target tokens -> the trigram's loss on the test, counted on the batches of such a run."
    return {
        int(budget): row["test"]["trigram"]
        for budget, row in sorted(summary_of(ground)["ngrams"].items(), key=lambda row: int(row[0]))
    }


def looks_of(name: str, ground: str = "tatoeba") -> list[tuple]:
    """Of each look at the runs with the full budget one entry per seed: target tokens, processor
    seconds, validation loss, the same with another source."""
    return list(zip(*(run["curve"] for run in results_of(name, ground))))


def losses_along(
    name: str, operations: bool = False, ground: str = "tatoeba", since: int = 0
) -> Band:
    """Along the runs with the full budget, from so many target tokens on: millions of target
    tokens, or 10¹² operations, and the validation loss."""
    each = (
        mean(run["flops"] / run["tokens"] for run in results_of(name, ground)) / 1e12
        if operations
        else 1e-6
    )
    looks = [look for look in looks_of(name, ground) if look[0][0] >= since]
    return band(
        [look[0][0] * each for look in looks],
        [[valid for _, _, valid, _ in look] for look in looks],
    )


def worth_along(name: str, ground: str = "tatoeba") -> Band:
    """Along the runs with the full budget: millions of target tokens, and how much the loss rises
    with another sentence's source."""
    looks = looks_of(name, ground)
    return band(
        [look[0][0] / 1e6 for look in looks],
        [[other - valid for _, _, valid, other in look] for look in looks],
    )


def alignment_along(name: str, ground: str = "pocket") -> Band:
    """Along the runs with the full budget: millions of target tokens, and the alignment error rate
    of the map of attention that aligns best."""
    looks = list(zip(*(run["alignment"] for run in results_of(name, ground))))
    return band(
        [look[0][0] / 1e6 for look in looks], [[error for _, error in look] for look in looks]
    )


def by_length(name: str, ground: str = "tatoeba", least: int = 20) -> Band:
    """Length of the English, and BLEU. A length stands for its group, from that many words on.

    Groups of fewer than `least` sentences are left out."""
    groups = [
        rows
        for rows in zip(*(run["by_length"] for run in results_of(name, ground)))
        if rows[0]["sentences"] >= least
    ]
    return band(
        [rows[0]["group"] for rows in groups], [[row["BLEU"] for row in rows] for rows in groups]
    )


def crossing_rows(ground: str = "tatoeba") -> list[dict]:
    "RNN with attention and Transformer at each budget that both ran with all seeds."
    return [
        {
            "target tokens": row["tokens"],
            "RNN with attention": f"{row['rnn-attention']:.3f}",
            "Transformer": f"{row['transformer']:.3f}",
            "RNN − Transformer": gap_and_verdict(row["more"]),
            "BLEU": "\u00a0/\u00a0".join(
                f"{row['bleu'][name]:.1f}" for name in ("rnn-attention", "transformer")
            ),
            "BLEU, RNN − Transformer": bleu_gap_said(
                "rnn-attention", "transformer", row["tokens"], ground
            ),
        }
        for row in summary_of(ground)["crossing"]
    ]


def crossing_places(ground: str = "tatoeba") -> list[float]:
    """Target tokens at which the Transformer's loss falls below that of the RNN with attention, one
    for each seed.

    On a line over the logarithm of the tokens, between the last budget where it is behind on the
    mean and the next one."""
    rnn, whole = (by_budget(name, ground) for name in ("rnn-attention", "transformer"))
    gaps = {
        budget: [a["test_loss"] - b["test_loss"] for a, b in zip(rnn[budget], whole[budget])]
        for budget in sorted(rnn.keys() & whole.keys())
        if len(rnn[budget]) == len(whole[budget])
    }
    low, high = next(
        ((a, b) for a, b in zip(gaps, list(gaps)[1:]) if mean(gaps[a]) < 0 <= mean(gaps[b])), (0, 0)
    )
    if not high:
        raise ValueError(
            f"at no budget that was run on {ground} does the Transformer overtake the RNN with"
            " attention"
        )
    return [low * (high / low) ** (a / (a - b)) for a, b in zip(gaps[low], gaps[high])]


def longer_rows(ground: str = "tatoeba") -> list[dict]:
    """RNN with attention and Transformer at the peaks that were tried with twice the full budget
    and one seed: validation losses."""
    found = {
        title: {
            row["peak"]: row["loss"]
            for row in record_of(name, ground)["search"]["longer"]["peaks"]
            if row["loss"] is not None
        }
        for title, name in (("RNN with attention", "rnn-attention"), ("Transformer", "transformer"))
    }
    return [
        {
            "peak": f"{peak:g}",
            **{
                title: f"{losses[peak]:.3f}" if peak in losses else ""
                for title, losses in found.items()
            },
        }
        for peak in sorted({peak for losses in found.values() for peak in losses})
    ]


def order_rows(ground: str = "tatoeba") -> list[dict]:
    """RNN with attention and Transformer, with the order of the source and without it, and the gap
    between them."""
    found = summary_of(ground)["without_order"]
    rows: dict[str, dict] = {
        what: {"": what}
        for what in ("with order", "without", "lost without it", "BLEU with order", "BLEU without")
    }
    for one in found["designs"]:
        said = (
            f"{one['with']:.2f}",
            f"{one['without']:.2f}",
            gap_said(one["more"], 2),
            *(f"{bleu:.1f}" for bleu in one["bleu"]),
        )
        for row, value in zip(rows.values(), said):
            row[one["design"]] = value
    rows["with order"]["RNN − Transformer"] = gap_said(found["gap_with"], 2)
    rows["without"]["RNN − Transformer"] = gap_said(found["gap_without"], 2)
    return list(rows.values())
