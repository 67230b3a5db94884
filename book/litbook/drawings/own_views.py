"""The appendix "Your own pair": what so many pairs give, which changes help, when to stop, from
recorded runs."""

# The record is book/results/bench/own-pair.json; `bench/own.py` makes it. Its cells hold runs that
# differ in the seed alone, its runs each one. A gain is BLEU over what it is compared with, from a
# bootstrap over seeds and test sentences.
from collections.abc import Mapping, Sequence
from statistics import mean

from litbook import figures
from litbook.fair import gap_and_verdict, gap_said
from transformer_lit.custom_pair.own_pairs import SIZES, Size
from litbook.rivals import recorded

TEST = "tatoeba"
FIELDS = {
    "vocabulary": "subwords",
    "layers": "layers of each stack",
    "dropout": "dropout",
    "max_tokens": "tokens in a batch",
}


def changes_of(pairs: int) -> list[dict]:
    "The cells of one change to a row of the table, whole runs on real pairs only."
    return [
        cell
        for cell in recorded("own-pair")["cells"]
        if (cell["pairs"], cell["text"], cell["epochs"]) == (pairs, "real", 0) and cell["change"]
    ]


def runs_of(pairs: int, change: str = "") -> list[dict]:
    """The whole runs of a row on real pairs, or of a change to it, in the order of seeds. The
    book's own translator is one of its row; the last row has other text besides, law and manuals,
    and its run is cut short."""
    return sorted(
        (
            run
            for run in recorded("own-pair")["runs"]
            if (run["pairs"], run["change"], run["epochs"]) == (pairs, change, 0)
            and run["text"] in ("real", "shipped", "general")
            and "tests" in run
        ),
        key=lambda run: run["seed"],
    )


def measured(seeds: int = 3) -> list[Size]:
    "The rows of the table that have runs with so many seeds."
    return [size for size in SIZES if len(runs_of(size.pairs)) >= seeds]


def scores_of(
    runs: Sequence[Mapping], metric: str, best: bool = False, which: str = "all"
) -> list[float]:
    """A score of each run on the everyday test: after the last epoch, as the command keeps a model,
    or at its best one.

    which: with all references or with the first."""
    return [
        (run["tests"][TEST] if best else run.get("last", run["tests"][TEST]))[which][metric][
            "value"
        ]
        for run in runs
    ]


def interval_said(value: float, low: float, high: float) -> str:
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"


def bleu_said(runs: Sequence[Mapping]) -> str:
    """BLEU on the everyday test after the last epoch, mean of the runs, with the interval that a
    single run has on average."""
    scores = [run.get("last", run["tests"][TEST])["all"]["bleu"] for run in runs]
    return interval_said(
        *(mean(score[key] for score in scores) for key in ("value", "low", "high"))
    )


def cell_runs(cell: Mapping) -> list[dict]:
    "The runs of a cell."
    return [
        run
        for run in recorded("own-pair")["runs"]
        if all(run[key] == cell[key] for key in ("pairs", "text", "change", "epochs"))
    ]


def loss_over(cell: Mapping, other: Mapping, seeds: Sequence[int]) -> str:
    """Validation loss per character of one cell's runs over that of another's, with these seeds, in
    percent."""
    one, two = (
        mean(run["valid_per_character"] for run in cell_runs(some) if run["seed"] in seeds)
        for some in (cell, other)
    )
    return f"{one / two - 1:+.1%}"


# How many pairs -----------------------------------------------------------------------------------


def sizing_table() -> figures.Picture:
    "A row for each size that was measured: scores over the seeds, and what a training takes."
    rows = []
    for size in measured(1):
        runs = runs_of(size.pairs)
        bleu = scores_of(runs, "bleu")
        rows.append(
            {
                "pairs": (
                    f"{runs[0]['train_pairs']:,}" + " (mixed)" * (runs[0]["text"] == "general")
                ),
                "BLEU": bleu_said(runs),
                "one reference": f"{mean(scores_of(runs, 'bleu', which='first')):.1f}",
                "chrF": f"{mean(scores_of(runs, 'chrf')):.1f}",
                "French known": f"{mean(run['copied_answers'] for run in runs):.1%}",
                "minutes": (
                    f"{mean(run['cpu_seconds'] for run in runs) / 60:.0f}"
                    + " (clock)" * (runs[0]["text"] == "shipped")
                ),
                "seeds": (
                    f"{len(runs)}" + f" ({min(bleu):.1f} to {max(bleu):.1f})" * (len(runs) > 1)
                ),
            }
        )
    first = runs_of(measured()[0].pairs)[0]["tests"][TEST]
    return figures.table(
        rows,
        caption=(
            f"{first['sentences']:,} test sentences, at the end of training, mean of the seeds; in"
            " square brackets the 95% interval of a single run; seeds: from the lowest BLEU to the"
            " highest; "
        )
        + first["all"]["bleu"]["signature"].replace("|", " "),
        wide=True,
    )


def shape_table() -> figures.Picture:
    """The table that sizes a model, as `train --pairs` uses it, and with how many seeds each row
    was run."""
    return figures.table(
        [
            {
                "pairs": size.pairs,
                "subwords": size.vocabulary,
                "layers": f"{size.layers} + {size.layers}",
                "width": size.width,
                "dropout": size.dropout,
                "batch": size.max_tokens,
                "epochs": size.epochs,
                "seeds run": len(runs_of(size.pairs)),
            }
            for size in SIZES
        ],
        caption="How a model is sized; batches in tokens of each side",
        fmt="{:g}",
        wide=True,
    )


def answers_table(sources: Sequence[str], sizes: Sequence[int]) -> figures.Picture:
    """What the first seed said to some test sentences, a column for each number of pairs. KeyError
    for a sentence that none was asked."""
    said = {
        f"{runs_of(pairs)[0]['train_pairs']:,} pairs": {
            source: one for source, _, one in runs_of(pairs)[0]["shown"]
        }
        for pairs in sizes
    }
    return figures.table(
        [
            {"English": source, **{name: answers[source] for name, answers in said.items()}}
            for source in sources
        ],
        caption="Answers to test sentences, at the epoch with the lowest validation loss",
    )


# One change at a time -----------------------------------------------------------------------------


def change_said(pairs: int, change: str) -> str:
    "A change in words, with what the row has: `subwords: 500, not 1,000`."
    field, _, value = change.partition("=")
    row = getattr(next(size for size in SIZES if size.pairs == pairs), field)
    new = type(row)(value)
    return f"{FIELDS[field]}: {new:,}, not {row:,}"


def change_rows(pairs: int) -> list[dict]:
    """Each change: validation loss per character over the row's with the same seeds, in percent,
    and gains in BLEU; the least loss first.

    The gain at the best epoch has its interval, the one at the end hasn't."""

    def of(change: str, seeds: Sequence[int]) -> list[dict]:
        return [run for run in runs_of(pairs, change) if run["seed"] in seeds]

    rows = []
    for cell in changes_of(pairs):
        gain = cell["more_than"][0]
        changed, row = of(cell["change"], gain["seeds"]), of("", gain["seeds"])
        more = (
            mean(run["valid_per_character"] for run in changed)
            / mean(run["valid_per_character"] for run in row)
            - 1
        )
        ends = mean(scores_of(changed, "bleu")) - mean(scores_of(row, "bleu"))
        rows.append(
            (
                more,
                {
                    "": change_said(pairs, cell["change"]),
                    "loss": f"{more:+.1%}",
                    "BLEU, best": gap_said(gain[TEST], 1),
                    "BLEU, end": f"{round(ends, 1) + 0.0:+.1f}",
                    "seeds": len(gain["seeds"]),
                },
            )
        )
    return [row for _, row in sorted(rows, key=lambda one: one[0])]


def loss_curves(pairs: int, field: str = "dropout") -> figures.Picture:
    """Validation loss over the epochs, first seed: the row, and its runs with another value of one
    field."""
    size = next(size for size in SIZES if size.pairs == pairs)
    found = {getattr(size, field): runs_of(pairs)[0]}
    for cell in changes_of(pairs):
        name, _, value = cell["change"].partition("=")
        if name == field:
            found[type(getattr(size, field))(value)] = runs_of(pairs, change=cell["change"])[0]
    lines = {
        f"{field} {value:g}": (
            [step * run["epochs_run"] / run["steps"] for step, _ in run["curve"]],
            [loss for _, loss in run["curve"]],
        )
        for value, run in sorted(found.items())
    }
    least = {name: min(zip(losses, epochs)) for name, (epochs, losses) in lines.items()}
    told = "; ".join(
        f"{name}: {loss:.2f} after {epoch:.0f} epochs" for name, (loss, epoch) in least.items()
    )
    return figures.curves(
        lines,
        xlabel="epochs",
        ylabel="validation loss, nats per token",
        caption=f"{pairs:,} pairs, first seed. Lowest: {told}.",
        alt=f"Validation loss over the epochs with {pairs:,} pairs, first seed. Lowest: {told}.",
    )


def stop_rows() -> list[dict]:
    """Of each measured row the epoch of least validation loss, and BLEU there and after the last
    epoch, mean of the seeds."""
    rows = []
    for size in measured():
        runs = runs_of(size.pairs)
        rows.append(
            {
                "pairs": f"{size.pairs:,}",
                "epochs": f"{mean(run['epochs_run'] for run in runs):.0f}",
                "best epoch": f"{mean(run['best_epoch'] for run in runs):.0f}",
                "BLEU there": f"{mean(scores_of(runs, 'bleu', best=True)):.1f}",
                "BLEU at the end": f"{mean(scores_of(runs, 'bleu')):.1f}",
            }
        )
    return rows


# Another subject ----------------------------------------------------------------------------------

DOMAIN = {
    "real": "everyday pairs alone",
    "mixed": "captions mixed in",
    "tuned": "then tuned on captions",
    "captions": "captions alone",
}


def domain_cells() -> dict[str, dict]:
    """The cells of the short runs that are compared on captions, by their text; real: without
    captions. Their means are over the seeds that all have: everyday pairs alone may have been run
    with more, for another part. KeyError if one isn't recorded."""
    found = {
        cell["text"]: cell
        for cell in recorded("own-pair")["cells"]
        if cell["text"] in DOMAIN and "multi30k" in cell["bleu"] and not cell["change"]
    }
    every = set.intersection(*(set(found[text]["seeds"]) for text in DOMAIN))
    told = {}
    for text in DOMAIN:
        runs = [run for run in cell_runs(found[text]) if run["seed"] in every]
        told[text] = found[text] | {
            "seeds": sorted(every),
            "bleu": {
                test: {"mean": mean(run["tests"][test]["all"]["bleu"]["value"] for run in runs)}
                for test in (TEST, "multi30k")
            },
        }
    return told


def domain_rows() -> list[dict]:
    """For each way to use captions: the updates of the weights that were kept, and BLEU on everyday
    sentences and on captions, with its gain over the everyday pairs alone."""
    cells = domain_cells()
    steps = {
        text: mean(run["best_step"] for run in cell_runs(cell) if run["seed"] in cell["seeds"])
        for text, cell in cells.items()
    }
    steps["tuned"] += steps["real"]  # what was trained is trained on
    return [
        {
            "": DOMAIN[text],
            "updates": f"{steps[text]:,.0f}",
            **{
                name: (
                    f"{cell['bleu'][test]['mean']:.1f}"
                    + "".join(
                        f", {gap_said(gain[test], 1)}" for gain in cell.get("more_than", [])[:1]
                    )
                )
                for name, test in (("everyday", TEST), ("captions", "multi30k"))
            },
        }
        for text, cell in cells.items()
    ]


# Text in one language -----------------------------------------------------------------------------

BACK = {
    "real": "real pairs alone",
    "greedy": "+ synthetic",
    "greedy+tagged": "+ synthetic, tagged",
    "sampled": "+ synthetic, sampled",
}


def cells_by_text(pairs: int, epochs: int) -> dict[str, dict]:
    "The cells of a row of the table as it is, by their text."
    return {
        cell["text"]: cell
        for cell in recorded("own-pair")["cells"]
        if (cell["pairs"], cell["change"], cell["epochs"]) == (pairs, "", epochs)
    }


def reverse_run(pairs: int) -> dict:
    "The run of the model that translates back. KeyError if there is none."
    for run in recorded("own-pair")["runs"]:
        if (run["pairs"], run["text"]) == (pairs, "reverse") and "tests" in run:
            return run
    raise KeyError(f"no reverse model of {pairs} pairs is recorded")


def synthetic_table(pairs: int, sentences: Sequence[str]) -> figures.Picture:
    """What the reverse model wrote for French sentences. KeyError for one that isn't among those
    which the record shows."""
    run = reverse_run(pairs)
    known = {french: made for french, *made in run["shown"]}
    (scores,) = run["tests"].values()
    return figures.table(
        [{"French": one, **dict(zip(("greedy", "sampled"), known[one]))} for one in sentences],
        caption=(
            f"A reverse model of {pairs:,} pairs, with {scores['all']['bleu']['value']:.1f} BLEU"
            " into English"
        ),
    )


def gain_judged(gain: Mapping) -> str:
    """A gain with its interval; of several seeds also whether it is decided by chapter 22's rule,
    by which Student's interval must leave zero out, too."""
    if len(gain["seeds"]) == 1:
        return gap_said(gain[TEST], 1)
    one = gain[TEST]
    return gap_and_verdict(
        one | {"decided": abs(one["value"]) > one["half"] and not one["low"] <= 0 <= one["high"]}, 1
    )


def back_rows(sizes: Sequence[int]) -> list[dict]:
    """For each number of real pairs: BLEU with these alone and with synthetic ones, and the gain
    over those alone, with the same seeds."""
    rows = []
    for pairs in sizes:
        cells = cells_by_text(pairs, 0)
        for text in BACK:
            if text in cells:
                cell = cells[text]
                bleu = cell["bleu"][TEST]
                spread = f" ({bleu['low']:.1f} to {bleu['high']:.1f})" * (len(cell["seeds"]) > 1)
                gains = cell.get("more_than", [])[:1]  # over real pairs alone
                rows.append(
                    {
                        "real pairs": f"{pairs:,}",
                        "": BACK[text],
                        "BLEU": f"{bleu['mean']:.1f}{spread}",
                        "gain": "".join(map(gain_judged, gains)),
                        "loss": "".join(
                            loss_over(cell, cells["real"], gain["seeds"]) for gain in gains
                        ),
                        "seeds": len(cell["seeds"]),
                    }
                )
    return rows


# Noise --------------------------------------------------------------------------------------------

NOISE = {
    "misaligned": "French of another pair",
    "misordered": "French words shuffled",
    "wrong-language": "German for French",
    "untranslated": "English on both sides",
}
WAYS = {
    "on all lines": ("", ""),
    "worst tenth out": ("+filtered", "own score"),
    "cleaned": ("+cleaned", "all rules"),
}  # and what finds it
RULES = {
    "copied": "copies",
    "languages": "languages",
    "all rules": "all rules",
    "own score": "own score",
}


def noisy_runs() -> dict[str, list[dict]]:
    'Runs with noise, each kind\'s in the order of seeds; "real": those without.'
    kinds: dict[str, list[dict]] = {"real": [], **{kind: [] for kind in NOISE}}
    cells = {
        (cell["pairs"], cell["epochs"])
        for cell in recorded("own-pair")["cells"]
        if cell["text"] in NOISE
    }
    for run in sorted(recorded("own-pair")["runs"], key=lambda run: run["seed"]):
        if (
            run["text"] in kinds
            and (run["pairs"], run["epochs"]) in cells
            and not run["change"]
            and "tests" in run
        ):
            kinds[run["text"]].append(run)
    return {kind: runs for kind, runs in kinds.items() if runs}


def ways_run(cells: Mapping[str, dict]) -> dict[str, tuple[str, str]]:
    "The ways of training on wrong lines that some kind of noise was run in."
    return {
        said: more for said, more in WAYS.items() if any(kind + more[0] in cells for kind in NOISE)
    }


def noise_rows() -> list[dict]:
    """For each kind of noise: what it takes from BLEU, in each way that was run, and what leaving
    the worst tenth out brings over training on all lines."""
    kinds = noisy_runs()
    cells = cells_by_text(kinds["real"][0]["pairs"], kinds["real"][0]["epochs"])

    def cost(kind: str, way: str, rule: str) -> str:
        if kind + way in cells:
            return gap_said(cells[kind + way]["more_than"][0][TEST], 1)
        found = mean(run["found"][rule]["recall"] for run in kinds[kind])
        return f"finds {found:.0%}" if found < 0.1 else "no run"

    def brought(kind: str, way: str) -> str:
        gains = [
            gain[TEST]
            for gain in cells.get(kind + way, {}).get("more_than", [])
            if gain["text"] == kind
        ]
        return gap_said(gains[0], 1) if gains else "–"

    rows = []
    for kind in (kind for kind in kinds if kind != "real"):
        row = {"added": NOISE[kind]}
        for said, (way, rule) in ways_run(cells).items():
            row |= {
                said: cost(kind, way, rule),
                **({"gain": brought(kind, way)} if way == "+filtered" else {}),
            }
        rows.append(row)
    return rows


def noise_losses() -> list[dict]:
    """For each kind of noise: validation loss over that of clean pairs alone, in each way that was
    run, and how often the model repeats the English."""
    kinds = noisy_runs()
    cells = cells_by_text(kinds["real"][0]["pairs"], kinds["real"][0]["epochs"])
    return [
        {
            "added": NOISE[kind],
            **{
                said: (
                    loss_over(cells[kind + way], cells["real"], cells[kind + way]["seeds"])
                    if kind + way in cells
                    else "no run"
                )
                for said, (way, _) in ways_run(cells).items()
            },
            "repeated": f"{mean(run['repeats'] for run in runs if 'repeats' in run):.1%}",
        }
        for kind, runs in kinds.items()
        if kind != "real"
    ]


def clean_bleu() -> float:
    "BLEU of what the noisy runs are compared with."
    run = noisy_runs()["real"][0]
    return cells_by_text(run["pairs"], run["epochs"])["real"]["bleu"][TEST]["mean"]


def found_rows() -> list[dict]:
    """For each kind of noise and each way to find it: the share that it throws out, and in brackets
    the share of clean pairs."""
    return [
        {
            "added": NOISE[kind],
            **{
                said: (
                    f"{mean(run['found'][rule]['recall'] for run in runs):.0%} "
                    f"({mean(run['found'][rule]['false_alarms'] for run in runs):.1%})"
                )
                for rule, said in RULES.items()
            },
        }
        for kind, runs in noisy_runs().items()
        if kind != "real"
    ]


# Other pairs of languages -------------------------------------------------------------------------

DIRECTIONS = {
    "en-de": "English to German",
    "de-en": "German to English",
    "en-fr": "English to French",
    "fr-en": "French to English",
    "en-signs": "English to French in signs",
}


def other_rows() -> list[dict]:
    """What the command made of other pairs: BLEU with its interval, counted as the script asks for,
    and chrF, with the first reference."""
    rows, pairs = [], recorded("other-pairs")["pairs"]
    for name, said in DIRECTIONS.items():
        if name in pairs:
            one = pairs[name]
            first = {
                score["metric"]: score
                for score in one["scores"]
                if score.get("references") == "first"
            }
            sure, bleu = one["interval"]["first"], first["BLEU"]
            signs = " (of signs)" * ("tok:char" in bleu["signature"])
            rows.append(
                {
                    "": said,
                    "training pairs": one["data"]["train"],
                    "BLEU": interval_said(bleu["value"], sure["low"], sure["high"]) + signs,
                    "chrF": f"{first['chrF']['value']:.1f}",
                    "minutes": f"{one['seconds'] / 60:.0f}",
                }
            )
    return rows


def other_answers(names: Sequence[str], sentences: int = 2) -> list[dict]:
    """The first test sentences of those that the record shows for each pair, with a reference and
    the answer. KeyError for a pair that wasn't run."""
    return [
        {"sentence": source, "reference": reference, "answer": answer}
        for name in names
        for source, reference, answer in recorded("other-pairs")["pairs"][name]["shown"][:sentences]
    ]
