"""Claims: statements about what was trained or timed, with a record of how often they held."""

# An `assert` is for what is true on every machine: arithmetic, parity, properties, arranged facts.
# What a training run or a clock measures can differ on another processor. It is a claim: a
# name, the effect that was measured, and a threshold that was fixed before the runs. A claim shows
# one line on the page and never stops a chapter.
#
#     claims.below("11/ramp", with_ramp, without, unit="nats per token",
#                  words="with the ramp the loss ends below the loss without it")
# claims.within("8/bridge", share, 0.0, 0.2, words="what is left of the content without the bridge")
#
# `make replicate` runs the chapters with other seeds, instruction sets and threads, and keeps each
# run's effect in `book/results/replication.jsonl`; the replication page shows
# them all. A number without a record is one run's.
#
# What a page writes of records in git is `claims.recorded(...)` in the folded cell before it.
import html
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import groupby
from operator import itemgetter

from IPython.display import display
from scipy.special import betaincinv

from litbook.figures import powers
from transformer_lit.corpora.files import shipped

PAGE = "A3_replication.html"
RECORD = "results/replication.jsonl"


@dataclass(frozen=True)
class Claim:
    """One claim and how it came out in this run. It holds when low < effect < high.

    kind: "below" (directional: `effect` is the mean gap over the pairs, upper minus lower) or
    "within" (magnitude: `effect` is the value itself). `values` are the numbers behind the effect,
    one per pair or one alone. `high` is None where there is no upper bound."""

    name: str
    kind: str
    words: str
    unit: str
    effect: float
    low: float
    high: float | None
    values: list

    @property
    def held(self) -> bool:
        return self.low < self.effect < (math.inf if self.high is None else self.high)


def numbers(values: float | Iterable[float]) -> list[float]:
    "One number or many (tensors and arrays too), as floats."
    values = values.tolist() if hasattr(values, "tolist") else values
    return [float(v) for v in values] if isinstance(values, Iterable) else [float(values)]


def below(name: str, lower, upper, *, by: float = 0.0, unit: str = "", words: str) -> None:
    """Claim that `lower` is below `upper` by more than `by`, on the mean of the pairs (one pair:
    two numbers)."""
    gaps = [b - a for a, b in zip(numbers(lower), numbers(upper), strict=True)]
    show(Claim(name, "below", words, unit, statistics.fmean(gaps), by, None, gaps))


def within(name: str, value: float, low: float, high: float, *, unit: str = "", words: str) -> None:
    "Claim that one measured number lies between `low` and `high`."
    (effect,) = numbers(value)
    show(Claim(name, "within", words, unit, effect, low, high, [effect]))


def recorded(name: str, value: float, low: float, high: float, *, words: str) -> None:
    """Hold a sentence to a record in git: the next paragraph says `words` of a number that lies
    between `low` and `high`. Else the page isn't built."""
    assert low <= value <= high, (
        f"{name}: the page says {words!r} of {number(low)} to {number(high)}, and the record has"
        f" {number(value)}"
    )


def interval(held: int, n_runs: int) -> tuple[float, float]:
    """Exact 95% interval of a share (Clopper and Pearson 1934): which chances of holding fit `held`
    of `n_runs`."""
    return (
        betaincinv(held, n_runs - held + 1, 0.025) if held else 0.0,
        betaincinv(held + 1, n_runs - held, 0.975) if held < n_runs else 1.0,
    )


def number(value: float | None) -> str:
    "Three digits that count, no exponent where a person wouldn't write one."
    if value is None or not math.isfinite(value):
        return "none" if value is None else str(value)
    if value == 0 or 1e-4 <= abs(value) < 1e5:
        value = float(f"{value:.2e}")  # 0.9997 is 1.00 and not 1.000
        digits = 2 if value == 0 else max(0, 2 - math.floor(math.log10(abs(value))))
        return f"{value:,.{digits}f}".replace("-", "−")
    return f"{value:.1e}"


@cache
def records() -> dict:
    "Every claim's record by name; {} before the first replication."
    path = shipped(RECORD)
    return read_record(path.read_text("utf-8")) if path.exists() else {}


SETTING = ("processor", "instructions", "threads", "shift", "torch")


def read_record(text: str) -> dict:
    """Every claim's record by name, from lines of JSON.

    A line with "words" says what a claim is; later lines with its name are its runs, until another
    experiment takes its place or it is withdrawn, a line that says why. Of two runs in one setting
    the later counts."""
    by_name: dict[str, dict] = {}
    for line in map(json.loads, text.splitlines()):
        name = line.pop("claim")
        if "withdrawn" in line:
            by_name.pop(name, None)
        elif "words" in line:
            same = by_name.get(name, {}).get("experiment") == line["experiment"]
            by_name[name] = {**line, "runs": by_name[name]["runs"] if same else {}}
        else:
            by_name[name]["runs"][tuple(line[key] for key in SETTING)] = line
    for record in by_name.values():
        record["runs"] = [run for _, run in sorted(record["runs"].items())]
    return dict(sorted(by_name.items()))


def by_processor(runs: Sequence[dict]) -> dict[str, list[dict]]:
    "The runs of each kind of processor, which stand together; kinds are never pooled."
    return {kind: list(group) for kind, group in groupby(runs, itemgetter("processor"))}


def summary(runs: Sequence[dict]) -> dict:
    """Of one kind's runs: held, tried, exact interval, median, least and greatest effect (null
    where a run stopped before it)."""
    effects = [run["effect"] for run in runs if run["effect"] is not None]
    held = sum(run["held"] for run in runs)
    low, high = interval(held, len(runs))
    return {
        **{"held": held, "tried": len(runs), "low": low, "high": high},
        "median": statistics.median(effects) if effects else None,
        "least": min(effects, default=None),
        "greatest": max(effects, default=None),
    }


def record_words(record: dict | None, unit: str) -> str:
    "The record as one sentence per kind of CPU."
    if not record or not record["runs"]:
        return "not replicated yet"
    parts = []
    for kind, runs in by_processor(record["runs"]).items():
        s = summary(runs)
        what = "gap " if record["kind"] == "below" else ""
        parts.append(
            f"{s['held']} of {s['tried']} runs on {kind} (95% interval: {100 * s['low']:.0f} to"
            f" {100 * s['high']:.0f}%), median"
            f" {what}{number(s['median'])}{' ' + unit if unit else ''}, range"
            f" {number(s['least'])} to {number(s['greatest'])}"
        )
    return "reproduced, by kind of CPU, in " + "; in ".join(parts)


def anchor(name: str) -> str:
    "The claim's place on the replication page."
    return "claim-" + "".join(c if c.isalnum() else "-" for c in name.lower())


def threshold(low: float, high: float | None, unit: str) -> str:
    "What was claimed of an effect, in words."
    if high is None:
        return f"above {number(low) if low else 0}"
    if not unit and -0.01 <= low < 0:  # bounds a hair outside of what a share can be
        return f"at most {number(high)}"
    if not unit and 1 < high <= 1.01:
        return f"at least {number(low)}"
    return f"between {number(low)} and {number(high)}"


def effect_words(claim: Claim) -> str:
    "This run's effect and its threshold, in words."
    effect = f"{number(claim.effect)} {claim.unit}".strip()
    gap = "gap " * (claim.kind == "below")
    return f"{gap}here {effect} ({threshold(claim.low, claim.high, claim.unit)} was claimed)"


def rendered(claim: Claim) -> dict[str, str]:
    "The claim's line as HTML and as plain text, with the record of today."
    verdict = f"Claim, {'reproduced' if claim.held else 'failed to replicate'} in this run"
    record = record_words(records().get(claim.name), claim.unit)
    plain = f"{verdict}: {claim.words}; {effect_words(claim)}. Record: {record}. [{claim.name}]"
    color = "currentColor" if claim.held else "#C2503C"
    page = (
        f'<p class="tl-claim" style="border-left:3px solid {color};margin:.6em 0;padding:.1em 0'
        f' .1em .8em;font-size:.92em"><b>{verdict}:</b> {html.escape(claim.words)};'
        f" {powers(html.escape(effect_words(claim)))}."
        f' <a href="{PAGE}#{anchor(claim.name)}">Record</a>:'
        f" {powers(html.escape(record))}.</p>"
    )
    return {"text/html": page, "text/plain": plain}


def show(claim: Claim) -> None:
    """The claim's line on the page; its values travel in the output's metadata, where tests and
    `make replicate` read them."""
    display(rendered(claim), raw=True, metadata={"claim": {**asdict(claim), "held": claim.held}})


def from_metadata(metadata: dict) -> Claim:
    "The claim that an output's metadata holds."
    return Claim(**{key: metadata[key] for key in Claim.__dataclass_fields__})


def from_notebook(notebook) -> list[dict]:
    "The claims in an executed notebook's outputs, in order."
    return [
        {**out["metadata"]["claim"], "cell": cell.id}
        for cell in notebook.cells
        for out in cell.get("outputs", [])
        if "claim" in out.get("metadata", {})
    ]


# Judging a run ------------------------------------------------------------------------------------

NEEDED, FEWEST = 0.9, 5  # nine of ten; all of five while there are only five


def stands(record: dict | None) -> str:
    """Empty when the record supports the claim, else why it doesn't: none, too few runs, or held
    too seldom on a kind of processor."""
    if not record or not record["runs"]:
        return "has no record: make replicate"
    for kind, runs in by_processor(record["runs"]).items():
        s = summary(runs)
        if s["tried"] < FEWEST:
            return f"has {s['tried']} runs on {kind}, {FEWEST} are the fewest"
        if s["held"] < (s["tried"] if s["tried"] < 10 else math.ceil(NEEDED * s["tried"])):
            return f"held in {s['held']} of {s['tried']} runs on {kind}"
    return ""
