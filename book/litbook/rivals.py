"""What the scripts of bench/ recorded, as bars and as rows of tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from litbook import figures
from litbook.results import command_of, load_bench as recorded, made_by, was_seen  # noqa: F401

FORMS = {"torch": "nn.Transformer"}
RECIPES = {
    "laptop": "the article's, book's model",
    "twin": "the article's, nn.Transformer",
    "ours": "ours",
}
Row = dict[str, object]


def step_rows(record: dict) -> list[Row]:
    "Time of a step: a row for each form and precision."
    return [
        {
            "": f"{FORMS.get(name, name)}, {precision}",
            "tokens per second": round(form["tokens_per_second"]),
            "time, ours = 1": form["times_ours"],
            "share": f"{form['share_of_ceiling']:.0%}",
        }
        for precision, found in record["precisions"].items()
        for name, form in found["forms"].items()
    ]


def loss_rows(record: dict) -> list[Row]:
    "Peak memory of output layer and loss: a row for each form."
    return [
        {"loss": name, "peak, MB": round(row["peak"] / 1e6), "seconds": row["seconds"]}
        for name, row in record["forms"].items()
    ]


def stopping_pairs(record: dict) -> list[tuple[dict, dict]]:
    "The runs of both rules for stopping a beam, hasty and patient, at each penalty."
    return list(zip(record["rows"][::2], record["rows"][1::2]))


def stopping_rows(record: dict) -> dict[str, Row]:
    "Two rules for stopping a beam: a row for each length penalty."
    return {
        f"α = {hasty['alpha']}": {
            "BLEU": f"{hasty['bleu']:.2f} → {calm['bleu']:.2f}",
            "gap [95%]": "{value:+.2f} [{low:+.2f}, {high:+.2f}]".format(
                **{k: round(v, 2) + 0.0 for k, v in calm["difference"].items()}
            ),
            "length": f"{hasty['length']:.1%} → {calm['length']:.1%}",
            "changed": calm["changed"],
            "rows": f"{calm['rows'] / hasty['rows']:.2f} times",
        }
        for hasty, calm in stopping_pairs(record)
    }


def stopping_words(record: dict) -> str:
    "What patience changes at the second penalty, the paper's, in a sentence."
    calm = stopping_pairs(record)[1][1]
    return (
        f"At α = {calm['alpha']}, {calm['changed']} of {record['sentences']:,} answers change, and"
        f" {calm['longer']} of them become longer."
    )


def units_of(hardware: str) -> str:
    """What a CPU of the records computes with, by what it can multiply: minutes compare only where
    this is the same."""
    named = [units for units in ("bf16 matrix units", "bf16 products") if units in hardware]
    return named[0].replace("bf16", "bf16,") if named else "fp32"


def goal_rows(record: dict) -> list[Row]:
    "Training to a loss: when each recipe got there on each machine, or that it didn't."
    rows = []
    for row in sorted(record["rows"], key=lambda row: row["hardware"]):
        there = row["goal_epoch"]
        minutes = (
            f"{row['goal_cpu_seconds'] / 60:.0f}"
            if there
            else f"over {row['cpu_seconds'] / 60:.0f}"
        )
        rows.append(
            {
                "recipe": RECIPES[row["name"].split(",")[0]],
                "in": units_of(row["hardware"]),
                "lowest loss": row["best"],
                "goal reached": (
                    f"epoch {there} of {row['planned_epochs']}"
                    if there
                    else f"not by epoch {row['epochs']}"
                ),
                "minutes": minutes,
            }
        )
    return rows


def decoding_rows(record: dict) -> dict[str, Row]:
    """Time of decoding, ours = 1: a row for each decoder, a column for each batch and way; answers
    of one length."""
    table: dict[str, Row] = {}
    for row in record["rows"]:
        if row["length"]:
            way = "greedy" if row["beam"] == 1 else f"beam {row['beam']}"
            table.setdefault(row["name"], {})[f"{row['batch']}, {way}"] = row["ratio"]
    return table


def lowest_runs(record: dict) -> dict[tuple[str, str], dict]:
    "Multi30k in a budget: for each language and way the run with the lowest validation loss."
    best: dict[tuple[str, str], dict] = {}
    for row in record["runs"]:
        key = row["language"], row["way"]
        best[key] = min(row, best.get(key, row), key=lambda row: row["valid_loss"])
    return best


def caption_rows(record: dict) -> list[Row]:
    "The same runs as rows."
    return [
        {
            "": f"en-{language}, {way}",
            "steps": row["steps"],
            "tokens": row["tokens"],
            "loss": row["valid_loss"],
            "BLEU": f"{row['bleu']:.1f} ({row['low']:.1f} to {row['high']:.1f})",
        }
        for (language, way), row in lowest_runs(record).items()
    ]


TEXTS = {
    "tatoeba": "everyday sentences",
    "multi30k": "captions",
    "newstest2013": "news of 2013",
    "newstest2014": "news of 2014",
    "web": "web pages",
    "php": "PHP's manual",
    "python": "Python's manual",
    "law": "law",
}


def domain_rows(record: dict) -> list[Row]:
    "What a translator knows: its scores on each kind of text, with their intervals."
    return [
        {
            "text": TEXTS[name],
            "BLEU": span(row["bleu"]),
            "chrF": span(row["chrf"]),
            "under half as long": f"{row['short']:.1%}",
            "over twice": f"{row['long']:.1%}",
        }
        for name, row in sorted(record["tests"].items(), key=lambda row: list(TEXTS).index(row[0]))
    ]


def titles(record: dict) -> dict[str, str]:
    "The first words of each table's caption."
    fields = {name: record.get(name, 0) for name in ("tokens", "vocab", "goal", "budget")}
    return {
        "step": "A step of training",
        "loss": "Output layer and loss: {tokens:,} tokens, {vocab:,} words".format(**fields),
        "to_loss": (
            "Training to {goal:.3f} nats per word: the runs of laptop, twin and ours, each on the"
            " machine in its row".format(**fields)
        ),
        "decoding": (
            "Decoding time, ours = 1, by sentences at once and search; on a processor with bf16"
            " units"
        ),
        "decoding-fp32": (
            "Decoding time, ours = 1, by sentences at once and search; on a processor without bf16"
            " units"
        ),
        "multi30k": (
            "{budget:.0f} s of Multi30k; in brackets chapter 19's bootstrap over sentences, which"
            " says nothing about other seeds".format(**fields)
        ),
        "domains-tatoeba-fr": (
            "The shipped translator on eight kinds of text; the last two columns compare the length"
            " of an answer, in words, with that of its source"
        ),
    }


ROWS: dict[str, tuple[Callable[[dict], list[Row] | dict[str, Row]], str]] = (
    {  # the rows of each table, and how its numbers look
        "step": (step_rows, "{:.2f}"),
        "loss": (loss_rows, "{:.1f}"),
        "to_loss": (goal_rows, "{:.3f}"),
        "decoding": (decoding_rows, "{:.2f}"),
        "decoding-fp32": (decoding_rows, "{:.2f}"),
        "multi30k": (caption_rows, "{:.2f}"),
        "domains-tatoeba-fr": (domain_rows, "{:.1f}"),
    }
)


# Bars ---------------------------------------------------------------------------------------------


def listed(values: Mapping[str, object], fmt: str) -> str:
    "Names and numbers in a row, for an alt text; of a number with its whisker the number."
    return ", ".join(
        f"{name} {fmt.format(value[0] if isinstance(value, tuple) else value)}"
        for name, value in values.items()
    )


def quiet(names: Iterable[str]) -> dict[str, str]:
    "Ours in ink, by default; the others in the grey of a reference."
    return {name: figures.GREY for name in names if "ours" not in name}


def step_bars(record: dict) -> figures.Picture:
    "Speed of a step, a bar for each form and precision."
    speeds: dict[str, float] = {}
    slower = []
    for precision, found in record["precisions"].items():
        speeds |= {
            f"{FORMS.get(name, name)}, {precision}": form["tokens_per_second"]
            for name, form in found["forms"].items()
        }
        times = [form["times_ours"] for name, form in found["forms"].items() if name != "ours"]
        slower.append(f"{min(times):.2f} to {max(times):.2f} times our time in {precision}")
    return figures.bars(
        speeds,
        fmt="{:,.0f}",
        xlabel="tokens per second",
        colors=quiet(speeds),
        alt=f"Bars of speed in training, in tokens per second: {listed(speeds, '{:,.0f}')}.",
        caption=f"The other forms take {' and '.join(slower)}.",
    )


def loss_bars(record: dict) -> figures.Picture:
    "Peak memory of output layer and loss, a bar for each form."
    peaks = {name: row["peak"] / 1e9 for name, row in record["forms"].items()}
    fell = [
        f"from {peaks[name]:.1f} to {peaks[name.replace('whole', 'blocks')]:.1f} GB in"
        f" {name.split(', ')[1]}"
        for name in peaks
        if name.startswith("whole")
    ]
    return figures.bars(
        peaks,
        fmt="{:.1f}",
        xlabel="peak, GB",
        colors={name: figures.GREY for name in peaks if "whole" in name},
        alt=f"Bars of the peak memory of output layer and loss, in GB: {listed(peaks, '{:.1f}')}.",
        caption=f"In blocks the peak falls {' and '.join(fell)}.",
    )


def decoding_bars(record: dict, way: str = "32, beam 4") -> figures.Picture:
    "Time of decoding in one way, ours = 1, a bar for each decoder."
    times = {name: float(str(row[way])) for name, row in decoding_rows(record).items()}
    at_once, search = way.split(", ")
    engine = [
        f"{time:.2f} in {name.split(', ')[1]}"
        for name, time in times.items()
        if name.startswith("CTranslate2")
    ]
    return figures.bars(
        times,
        xlabel="time, ours = 1",
        colors=quiet(times),
        alt=f"Bars of the time that decoding takes, ours = 1: {listed(times, '{:.2f}')}.",
        caption=(
            f"{at_once} sentences at once, {search}: without its cache our decoder takes"
            f" {times['ours, uncached']:.1f} times as long; CTranslate2 takes"
            f" {' and '.join(engine)} of ours."
        ),
    )


def caption_bars(record: dict) -> figures.Picture:
    "BLEU on Multi30k after a budget, with its interval."
    found = {
        f"en-{language}, {way}": (row["bleu"], row["low"], row["high"])
        for (language, way), row in lowest_runs(record).items()
    }
    languages = list(dict.fromkeys(language for language, _ in lowest_runs(record)))
    told = "; ".join(
        f"en-{language} {found[f'en-{language}, ours'][0]:.1f} against"
        f" {found[f'en-{language}, textbook'][0]:.1f}"
        for language in languages
    )
    return figures.bars(
        found,
        fmt="{:.1f}",
        xlabel="BLEU on test 2016; line: its interval",
        colors=quiet(found),
        alt=f"Bars of BLEU with their intervals: {listed(found, '{:.1f}')}.",
        caption=f"BLEU after {record['budget']:.0f} seconds, ours against the textbook's: {told}.",
    )


def calibration_curves(name: str) -> figures.Picture:
    """What was expected of answers and what came, in ten groups of each test, from a record of
    bench/confidence.py."""
    record, words = recorded(name), {
        "tatoeba": "everyday sentences",
        "multi30k": "captions",
        "newstest2014": "news",
    }
    found = {
        words[test]: ([g["expected"] for g in row["groups"]], [g["chrf"] for g in row["groups"]])
        for test, row in record["tests"].items()
    }
    ranks = [row["rank_correlation"] for row in record["tests"].values()]
    furthest = {
        words[test]: max(abs(g["expected"] - g["chrf"]) for g in row["groups"])
        for test, row in record["tests"].items()
    }
    far = ", ".join(f"{distance:.0f} on {test}" for test, distance in furthest.items())
    return figures.curves(
        {**found, "as expected": ([0, 100], [0, 100])},
        xlabel="expected chrF",
        ylabel="actual chrF",
        ylim=(0, 100),
        colors={"as expected": figures.GREY},
        styles={"as expected": ":"},
        alt="Curves of the actual chrF over the expected one, beside the diagonal: "
        + "; ".join(
            f"{name} from {xs[0]:.0f} expected and {ys[0]:.0f} actual to {xs[-1]:.0f} and"
            f" {ys[-1]:.0f}"
            for name, (xs, ys) in found.items()
        )
        + ".",
        caption=(
            f"The largest gaps between expected and actual chrF, in points: {far}. Rank correlation"
            f" of single answers: {min(ranks):.2f} to {max(ranks):.2f}."
        ),
    )


def copying_bars(record: dict) -> figures.Picture:
    "How much of what should be copied comes over, a bar for each kind."
    shares = {name: 100 * share for name, share in record["copied"].items()}
    return figures.bars(
        shares,
        fmt="{:.1f}",
        xlabel="right, % of 200 sentences",
        alt=f"Bars of what is copied correctly: {listed(shares, '{:.1f}')}.",
        caption=(
            "Copied correctly:"
            f" {', '.join(f'{share:.1f}% of {name}' for name, share in shares.items())}."
        ),
    )


def span(score: Mapping[str, float]) -> str:
    "A score with its interval."
    return "{value:.1f} ({low:.1f} to {high:.1f})".format(**score)


def signed(number: float) -> str:
    "With its sign, and a minus that is one."
    return f"{number:+.1f}".replace("-", "−")


def two_translators(names: tuple[str, str]) -> figures.Picture:
    """BLEU of two translators on each kind of text, with intervals; below it chrF, and what each
    copies rightly."""
    records = {name: recorded(f"domains-{name}") for name in names}
    one, two = (record["tests"] for record in records.values())
    known = [name for name in TEXTS if name in one and name in two]
    found = {
        f"{TEXTS[text]}, {name}": tuple(
            record["tests"][text]["bleu"][part] for part in ("value", "low", "high")
        )
        for text in known
        for name, record in records.items()
    }
    gains = {TEXTS[text]: two[text]["bleu"]["value"] - one[text]["bleu"]["value"] for text in known}
    kinds = [
        (TEXTS[text], [record["tests"][text] for record in records.values()]) for text in known
    ]
    kinds += [
        (
            f"{TEXTS[text]}, first reference alone",
            [record["tests"][text]["first"] for record in records.values()],
        )
        for text in known
        if "first" in one[text] and "first" in two[text]
    ]
    rows: list[Row] = [
        {
            "": kind,
            **{
                f"{name}, {metric}": span(tests[metric.casefold()])
                for metric in ("BLEU", "chrF")
                for name, tests in zip(names, both)
            },
        }
        for kind, both in kinds
    ]
    copies: list[Row] = [
        {
            "copied correctly, %": kind,
            **{name: 100 * record["copied"][kind] for name, record in records.items()},
        }
        for kind in records[names[0]]["copied"]
    ]
    lost: list[Row] = [
        {
            "news of 2014, %": words,
            **{
                name: 100 * record["tests"]["newstest2014"][field]
                for name, record in records.items()
            },
        }
        for field, words in (
            ("short", "answers under half as long"),
            ("long", "answers over twice as long"),
            ("repeats", "answers that say three words three times"),
            ("untouched", "English pieces hardly looked at"),
        )
    ]
    made = "; ".join(f"{name}: {made_by(record)}" for name, record in records.items())
    several = ", all references where there are several" * (len(kinds) > len(known))
    tables = [
        figures.table(rows, caption=f"With 95% intervals{several}. {made}", wide=True),
        figures.table(copies, fmt="{:.1f}"),
        figures.table(lost, fmt="{:.1f}"),
    ]
    drawn = figures.bars(
        found,
        fmt="{:.1f}",
        xlabel="BLEU",
        colors={name: figures.GREY for name in found if name.endswith(names[0])},
        alt=f"Bars of BLEU for two translators: {listed(found, '{:.1f}')}.",
        caption=f"{names[1]} against {names[0]}, BLEU: "
        + ", ".join(f"{signed(gain)} on {text}" for text, gain in gains.items())
        + ".",
    )
    return figures.folded(
        drawn, figures.Picture("".join(table.html for table in tables), None), "all numbers"
    )


def losses_by_text(*logs: Sequence[Mapping]) -> figures.Picture:
    """The held-out loss on each kind of text over the tokens that were learned from, from the looks
    of a mixture's run.

    Of a run that went on from another, the logs of both, in their order: their tokens add up."""
    looks, before = [], 0
    for log in logs:
        looks += [
            {**entry, "tokens": entry["tokens"] + before}
            for entry in log
            if entry["kind"] == "look"
        ]
        before += log[-1]["tokens"]
    tokens = [look["tokens"] / 1e6 for look in looks]
    found = {"news": (tokens, [look["valid_loss"] for look in looks])}
    found |= {
        TEXTS[name]: (tokens, [look["losses"][name] for look in looks])
        for name in TEXTS
        if name in looks[0]["losses"]
    }
    return figures.curves(
        found,
        xlabel="millions of target tokens",
        ylabel="loss, nats per token",
        alt=(
            "Held-out loss while it learns, falling on every text:"
            f" {figures.heights(found, tokens[0], tokens[-1])}."
        ),
        caption="From the first look to the last: "
        + ", ".join(f"{name} {ys[0]:.2f} to {ys[-1]:.2f}" for name, (_, ys) in found.items())
        + ".",
    )


def answers_beside(names: tuple[str, str], group: str = "recipe") -> figures.Picture:
    "The same sentences said by two translators, from their records."
    one, two = (recorded(f"domains-{name}")["spoken"][group] for name in names)
    said: list[Row] = [
        {"English": sentence, names[0]: was, names[1]: now}
        for (sentence, was, *_), (_, now, *_) in zip(one, two, strict=True)
    ]
    seen = sum(was_seen(sentence) for sentence, *_ in one)
    return figures.table(
        said,
        caption=(
            f"Of these {len(said)} English sentences the shipped translator's training held"
            f" {seen or 'none'}"
        ),
    )


BARS: dict[str, Callable[[dict], figures.Picture]] = (
    {  # which records are drawn; the others are tables
        "step": step_bars,
        "loss": loss_bars,
        "decoding": decoding_bars,
        "decoding-fp32": decoding_bars,
        "multi30k": caption_bars,
        "domains-tatoeba-fr": copying_bars,
    }
)


def shown(name: str) -> figures.Picture:
    "One record: its bars, and its table with where it was made and by which command."
    record, (rows, fmt) = recorded(name), ROWS[name]
    table = figures.table(
        rows(record), fmt=fmt, caption=f"{titles(record)[name]}. {made_by(record)}", wide=True
    )
    return (
        figures.folded(BARS[name](record), table, "all numbers, and the command that made them")
        if name in BARS
        else table
    )
