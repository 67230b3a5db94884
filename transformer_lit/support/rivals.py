"""What the scripts of tests/bench recorded, as rows of tables."""
import json
import textwrap

from .files import shipped

RECIPES = {"laptop": "the article's, book's model", "twin": "the article's, nn.Transformer", "ours": "ours"}
Row = dict[str, object]


def recorded(name: str) -> dict:
    "What one script left in book/results/bench."
    return json.loads(shipped(f"results/bench/{name}.json").read_text("utf-8"))


def origin(record: dict, width: int = 46) -> str:
    "The command, and where it ran, in lines that a phone has room for."
    texts = [record["command"]]
    if "hardware" in record:
        texts.append(f"on {record['hardware']}, torch {record['torch']}")
    return "\n".join(textwrap.fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) for text in texts)


def step_rows(record: dict) -> list[Row]:
    "Time of a step: a row for each form and precision."
    names = {"torch": "nn.Transformer"}
    return [{"": f"{names.get(name, name)}, {precision}", "tokens per second": round(form["tokens_per_second"]),
             "time, ours = 1": form["times_ours"], "share": f"{form['share_of_ceiling']:.0%}"}
            for precision, found in record["precisions"].items() for name, form in found["forms"].items()]


def loss_rows(record: dict) -> list[Row]:
    "Peak memory of output layer and loss: a row for each form."
    return [{"loss": name, "peak, MB": round(row["peak"] / 1e6), "seconds": row["seconds"]} for name, row in record["forms"].items()]


def goal_rows(record: dict) -> list[Row]:
    "Training to a loss: when each recipe got there on each machine, or that it didn't."
    rows = []
    for row in sorted(record["rows"], key=lambda row: row["hardware"]):
        there = row["goal_epoch"]
        minutes = f"{row['goal_cpu_seconds'] / 60:.0f}" if there else f"over {row['cpu_seconds'] / 60:.0f}"
        rows.append({"recipe": RECIPES[row["name"].split(",")[0]], "in": "bf16" if "bf16" in row["hardware"] else "fp32",
                     "epochs": f"{row['epochs']} of {row['planned_epochs']}", "lowest loss": row["best"],
                     "goal in epoch": there or "not reached", "minutes": minutes})
    return rows


def decoding_rows(record: dict) -> dict[str, Row]:
    "Time of decoding, ours = 1: a row for each decoder, a column for each batch and way; answers of one length."
    table: dict[str, Row] = {}
    for row in record["rows"]:
        if row["length"]:
            way = "greedy" if row["beam"] == 1 else f"beam {row['beam']}"
            table.setdefault(row["name"], {})[f"{row['batch']}, {way}"] = row["ratio"]
    return table


def caption_rows(record: dict) -> list[Row]:
    "Multi30k in a budget: for each language and way the run with the lowest validation loss."
    best: dict[tuple, dict] = {}
    for row in record["runs"]:
        key = row["language"], row["way"]
        best[key] = min(row, best.get(key, row), key=lambda row: row["valid_loss"])
    return [{"": f"en-{language}, {way}", "steps": row["steps"], "tokens": row["tokens"], "loss": row["valid_loss"],
             "BLEU": f"{row['bleu']:.1f} ({row['low']:.1f} to {row['high']:.1f})"} for (language, way), row in best.items()]


def choice_rows(record: dict) -> list[Row]:
    "Each choice taken back alone: the loss on news, and how much worse it is there and on held-out pairs of the corpus."
    def span(row: dict, name: str) -> str:
        mean, low, high = (f"{row[name + end]:+.2f}" for end in ("", "_low", "_high"))
        return f"{mean} ({low} to {high})"

    rows: list[Row] = []
    for row in record["choices"]:
        rows.append({"": row["choice"], "steps": row["steps"], "peak": f"{row['peak']:g}", "loss on news": f"{row['news']:.2f}"})
        if row["choice"] != "ours":
            rows[-1] |= {"worse on news by": span(row, "news_worse"), "worse on the corpus by": span(row, "corpus_worse")}
    return rows
