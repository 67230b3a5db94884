"""Chapter 21's figures, tables and sentences: the recorded run beside the paper's, and how tokens
lie on the disk."""

# The run is book/results/general-en-fr: run.json, log.jsonl, and what it said of newstest2014. No
# number of it stands here.
import json
import re
from collections.abc import Mapping, Sequence
from statistics import mean

from litbook import figures
from transformer_lit.commands import in_lines
from transformer_lit.corpora.files import shipped
from litbook.rivals import listed
from litbook.prose import Prose

TEST = "newstest2014"
OWN, SIGNED, PLAIN = "tokenised; German: compounds split", "sacreBLEU, 13a", "of detokenised output"
PUBLISHED = (  # model, BLEU into German, into French, how it was counted, where that stands
    ("Vaswani et al. 2017, base", "27.3", "38.1", OWN, "table 2"),
    ("Vaswani et al. 2017, big", "28.4", "41.8", OWN, "table 2"),
    (
        "Shaw et al. 2018, big, relative positions",
        "29.2",
        "41.5",
        "the paper's, by its own account",
        "arXiv 1803.02155",
    ),
    (
        "Ott et al. 2018, big, large batches",
        "29.3",
        "43.2",
        "compounds split, French too",
        "arXiv 1806.00187",
    ),
    ("the same output", "28.6", "41.4", SIGNED, "fairseq, issues"),
    ("OpenNMT-tf, base", "26.9", "", PLAIN, "CTranslate2's README"),
    ("OpenNMT-py, base", "26.8", "", PLAIN, "CTranslate2's README"),
    ("JoeyNMT 2.1, 60.5M", "24.4", "", SIGNED, "its benchmarks page"),
    (
        "the part 2 article, base",
        "",
        "38.6",
        "mean of smoothed sentence BLEU, on subwords",
        "below",
    ),
)


def record() -> dict:
    "run.json of the recorded run."
    return json.loads(shipped("results/general-en-fr/run.json").read_text("utf-8"))


def log() -> list[dict]:
    "The entries of its log: steps and looks."
    return [
        json.loads(line)
        for line in shipped("results/general-en-fr/log.jsonl").read_text("utf-8").splitlines()
    ]


def scores_of(run: Mapping) -> list[dict]:
    "Every score of the run on the test set."
    return [score for score in run["scores"] if score["set"] == TEST]


def bleu_of(run: Mapping) -> dict:
    "The one that can be compared: BLEU with a signature and an interval."
    return next(score for score in scores_of(run) if score["metric"] == "BLEU")


def beside_the_paper(run: Mapping) -> dict[str, dict]:
    """Rows of a table: what the paper trained on, for how long, with which result; and the same of
    the recorded run."""
    return {
        "the paper, base": {
            "pairs": "4.5 M",
            "steps": "100,000",
            "cost": "12 h, 8 GPUs",
            "BLEU": "27.3, German",
        },
        "the paper, big": {
            "pairs": "4.5 M",
            "steps": "300,000",
            "cost": "84 h, 8 GPUs",
            "BLEU": "28.4, German",
        },
        "here, tiny": {
            "pairs": f"{run['data']['train'] / 1e6:.1f} M",
            "steps": f"{run['steps']:,}",
            "cost": f"{run['seconds'] / 60:.0f} min, {run['hardware'].split(',')[0]}",
            "BLEU": f"{bleu_of(run)['value']:.1f}, French",
        },
        "here, base": {"pairs": "–", "steps": "–", "cost": "–", "BLEU": "not run"},
    }


def tokens_on_disk() -> figures.Picture:
    "Two pairs as they lie in a shard: ids in a row, and offsets that say where each side begins."
    ids, offsets = (5, 9, 2, 1, 8, 2, 7, 2, 1, 6, 2), (0, 3, 6, 8, 11)
    sheet = figures.Drawing(350, 178)
    for side, (start, end) in enumerate(zip(offsets, offsets[1:])):
        source = side % 2 == 0
        sheet.text(14 + 14.5 * (start + end), 36, "source" if source else "target", 11.5)
        for k in range(start, end):
            sheet.box(
                14 + 29 * k, 50, 29, 29, str(ids[k]), fill=figures.SLATE if source else "none"
            )
    for pair, (start, end) in enumerate(zip(offsets[::2], offsets[2::2]), 1):
        sheet.text(14 + 14.5 * (start + end), 14, f"pair {pair}", weight="bold")
    for k in offsets:
        sheet.arrow(14 + 29 * k, 116, 14 + 29 * k, 82)
        sheet.text(14 + 29 * k, 128, str(k))
    sheet.text(14, 150, "boxes: ids-000.bin, two bytes each", anchor="start")
    sheet.text(14, 168, "arrows: offsets-000.npy", anchor="start")
    return sheet.show(
        alt=(
            f"Two pairs as they lie on the disk: {len(ids)} ids in a row, source and target by"
            f" turns, and below them the offsets {', '.join(map(str, offsets))} that point at where"
            " each side begins."
        ),
        caption=(
            f"{len(ids)} tokens take {2 * len(ids)} bytes; the offsets {offsets[2]} and"
            f" {offsets[3]} say where the source of pair 2 begins and ends."
        ),
    )


def preparation() -> figures.Picture:
    "The recorded preparations of the corpus, by size."
    rows = json.loads(shipped("results/general-en-fr/preparation.json").read_text("utf-8"))
    return figures.table(
        [{name.replace(" a ", " per "): value for name, value in row.items()} for row in rows],
        fmt="{:,.0f}",
        caption="Preparation by size, recorded",
    )


def cost_bars(four: Mapping[str, float]) -> figures.Picture:
    "Several counts of one run's operations as bars."
    told = ", ".join(f"{name} {count / 1e15:.3g}" for name, count in four.items())
    return figures.bars(
        {name: count / 1e15 for name, count in four.items()},
        fmt="{:.3g}",
        xlabel="10¹⁵ operations",
        alt=f"Bars: counts of one training run, in 10¹⁵ operations: {told}.",
        caption=(
            f"One run, counted in {len(four)} ways, from {min(four.values()) / 1e15:.3g} to"
            f" {max(four.values()) / 1e15:.3g} · 10¹⁵ operations: a factor of"
            f" {max(four.values()) / min(four.values()):.0f}."
        ),
    )


def share_said(four: Mapping[str, float], run: Mapping) -> Prose:
    "How much of what the processor could multiply the run's own products are."
    return Prose(
        f"Counted by hand, the run took {four['by hand'] / four['time × peak']:.0%} of the"
        f" operations that the processor ({run['hardware']}) could have done in that time: in one"
        f" large product it does {run['matmul_per_second'] / 1e9:,.0f} billion per second."
    )


def run_said(run: Mapping) -> Prose:
    "The command of the run, broken between options, and what it did."
    typed = re.sub(r" --(folder|store|threads) \S+", "", run["command"])
    limit, of_all = (
        run["recipe"]["training"]["max_tokens"],
        run["data"]["tokens"][1] - run["data"]["train"],
    )
    return Prose(
        f"```\n{in_lines(typed)}\n```",
        f"- {run['parameters']:,} parameters, {run['recipe']['size']:,} subwords\n-"
        f" {run['steps']:,} steps, batches of at most {limit:,} + {limit:,} tokens\n-"
        f" {run['tokens']:,} target tokens learned from, {run['tokens'] / of_all:.0%} of the"
        f" corpus, each pair at most once\n- {run['seconds'] / 60:.0f} minutes of training on"
        f" {run['hardware']}, torch {run['torch']}",
    )


def learning_curves(entries: Sequence[Mapping]) -> figures.Picture:
    "Loss and BLEU along the run; the training loss as a mean over a sixtieth of it."
    steps, looks = (
        [entry for entry in entries if entry["kind"] == kind] for kind in ("step", "look")
    )
    width = max(1, len(steps) // 60)
    smooth = [
        (entry["step"], mean(one["loss"] for one in steps[max(0, k - width) : k + 1]))
        for k, entry in enumerate(steps)
    ][::width]
    at = [look["step"] for look in looks]
    first, last = looks[0], looks[-1]
    before = looks[-2]["step"] if len(looks) > 1 else 0
    lately, recent = last["step"] - before, mean(
        entry["loss"] for entry in steps if entry["step"] > before
    )
    return figures.curve_panels(
        [
            dict(
                series={
                    "training, smoothed labels": tuple(zip(*smooth)),
                    "newstest2013": (at, [look["valid_loss"] for look in looks]),
                },
                xlabel="step",
                ylabel="nats per token",
                title="Loss",
            ),
            dict(
                series={"BLEU": (at, [look["bleu"] for look in looks])},
                xlabel="step",
                ylabel="BLEU, greedy",
                title=f"{first['lines']} lines of newstest2013",
            ),
        ],
        alt=(
            "The recorded run over its steps: the loss in training and on newstest2013, the latter"
            f" from {first['valid_loss']:.2f} to {last['valid_loss']:.2f} nats, and the BLEU of"
            f" greedy answers, from {first['bleu']:.1f} to {last['bleu']:.1f}."
        ),
        caption=(
            f"Over the last {lately} steps the training loss, with smoothed labels, is {recent:.2f}"
            f" nats on average; the plain loss on newstest2013 ends at {last['valid_loss']:.2f},"
            f" and greedy BLEU there has risen from {first['bleu']:.1f} to {last['bleu']:.1f}."
        ),
    )


def answers_over_time(entries: Sequence[Mapping]) -> figures.Picture:
    "The greedy answer to one line at some of the looks."
    looks = [entry for entry in entries if entry["kind"] == "look"]
    return figures.table(
        [
            {
                "step": f"{look['step']:,}",
                "held-out loss": f"{look['valid_loss']:.2f}",
                "greedy answer": look["said"][:90],
            }
            for look in looks[:: max(1, len(looks) // 5)]
        ],
        caption=(
            "The first line, a headline about a strategy against Obama's re-election, as training"
            " goes on"
        ),
    )


def every_ruler(run: Mapping) -> figures.Picture:
    """One file of translations under every ruler of BLEU as bars; all measures and signatures in a
    table below."""
    lines = len(
        shipped(f"results/general-en-fr/hypotheses-{TEST}.txt").read_text("utf-8").splitlines()
    )
    table = figures.table(
        [
            {
                "measure": score["metric"],
                "value": score["value"],
                "signature": score["signature"].replace("|", " "),
            }
            for score in scores_of(run)
        ],
        fmt="{:.1f}",
        caption=f"{lines:,} lines of {TEST}, beam 4, scored in every way",
    )
    ways = {
        score["metric"].removeprefix("BLEU, "): score["value"]
        for score in scores_of(run)
        if score["metric"].startswith("BLEU, ")
    }
    low, high = min(ways, key=ways.__getitem__), max(ways, key=ways.__getitem__)
    bars = figures.bars(
        ways,
        fmt="{:.1f}",
        xlabel=f"BLEU of {lines:,} lines of {TEST}",
        alt=f"Bars of one file's BLEU, a bar for each ruler: {listed(ways, '{:.1f}')}.",
        caption=(
            f"The same lines, {len(ways)} rulers: {ways[low]:.1f} by {low}, {ways[high]:.1f} by"
            f" {high}."
        ),
    )
    return figures.folded(bars, table, "all measures, with their signatures")


def interval_said(run: Mapping) -> Prose:
    "BLEU with its interval, and how far other rulers put it."
    bleu = bleu_of(run)
    values = [score["value"] for score in scores_of(run) if score["metric"].startswith("BLEU, ")]
    return Prose(
        f"By sacreBLEU (13a) it is {bleu['value']:.2f}, between {bleu['low']:.2f} and"
        f" {bleu['high']:.2f} by the bootstrap of chapter 19: an interval"
        f" {round(bleu['high'], 2) - round(bleu['low'], 2):.2f} points wide. The rulers are"
        f" {max(values) - min(values):.2f} points apart."
    )


def beside_others(run: Mapping) -> figures.Picture:
    "Published scores of newstest2014 with their rulers, the recorded run last."
    ours = (
        f"here, {run['parameters'] / 1e6:.1f}M, law and manuals",
        "",
        f"{bleu_of(run)['value']:.1f}",
        SIGNED,
        "the run above",
    )
    return figures.table(
        [
            {"model": f"{model} ({source})", "German": german, "French": french, "ruler": ruler}
            for model, german, french, ruler, source in (*PUBLISHED, ours)
        ],
        caption=f"BLEU on {TEST}",
    )


def to_fetch_said(archives: Mapping[str, tuple], hours: float) -> Prose:
    """How much each language's archives weigh, and what one A100 would take. archives: name -> (MB,
    languages, ...)."""
    weights = {
        name: sum(size for size, languages, *_ in archives.values() if language in languages) / 1000
        for language, name in (("de", "German"), ("fr", "French"))
    }
    return Prose(
        "To fetch: "
        + ", ".join(f"{weight:.1f} GB for {name}" for name, weight in weights.items())
        + ".",
        f"The paper's run took {12 * 8} GPU hours on P100s. One A100 that reaches a third of its"
        f" peak would take {hours:.1f}.",
    )
