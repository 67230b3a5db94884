"""Claims: statements about what was trained or timed, with a record of how often they held."""

# An `assert` is for what is true on every machine: arithmetic, parity, properties, arranged facts.
# What a training run or a clock says can come out otherwise on another processor. It is a claim: a
# name, the effect that was measured, and a threshold that was fixed before the runs. A claim shows
# one line on the page and never stops a chapter.
#
#     claims.below("11/ramp", with_ramp, without, unit="nats per token",
#                  words="with the ramp the loss ends below the loss without it")
# claims.within("8/bridge", share, 0.0, 0.2, words="what is left of the content without the bridge")
#
# `make replicate` runs the chapters with other seeds, instruction sets and threads, and keeps each
# run's effect in `book/results/replication.jsonl`; the page *What held* shows them all. A number
# without a record is one run's.
import html
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, reduce

import numpy as np
from IPython.display import display
from scipy.special import betaincinv, stdtr

from litbook.figures import powers
from transformer_lit.corpora.files import shipped

PAGE = "95_what_held.html"
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


def interval(held: int, tried: int, level: float = 0.95) -> tuple[float, float]:
    """Exact interval of a share (Clopper and Pearson 1934): which chances of holding fit `held` of
    `tried`."""
    tail = (1 - level) / 2
    low = betaincinv(held, tried - held + 1, tail) if held else 0.0
    high = betaincinv(held + 1, tried - held, 1 - tail) if held < tried else 1.0
    return float(low), float(high)


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
    experiment takes its place or it is withdrawn. Of two runs in one setting the later counts."""
    found: dict[str, dict] = {}
    for line in map(json.loads, text.splitlines()):
        name = line.pop("claim")
        if "withdrawn" in line:
            del found[name]
        elif "words" in line:
            same = found.get(name, {}).get("experiment") == line["experiment"]
            found[name] = {**line, "runs": found[name]["runs"] if same else {}}
        else:
            found[name]["runs"][tuple(line[key] for key in SETTING)] = line
    for record in found.values():
        record["runs"] = [run for _, run in sorted(record["runs"].items())]
    return dict(sorted(found.items()))


def by_processor(runs: Sequence[dict]) -> dict[str, list[dict]]:
    "The runs of each kind of processor; kinds are never pooled."
    kinds: dict[str, list[dict]] = {}
    for run in runs:
        kinds.setdefault(run["processor"], []).append(run)
    return kinds


def summary(runs: Sequence[dict]) -> dict:
    """Of one kind's runs: held, tried, exact interval, median, least and greatest effect (null
    where a run stopped before it)."""
    effects = [run["effect"] for run in runs if run["effect"] is not None]
    held = sum(run["held"] for run in runs)
    low, high = interval(held, len(runs))
    measures = {"median": statistics.median, "least": min, "greatest": max}
    return {"held": held, "tried": len(runs), "low": low, "high": high} | {
        name: f(effects) if effects else None for name, f in measures.items()
    }


def record_words(record: dict | None, unit: str) -> str:
    "The record as one sentence per kind of processor."
    if not record or not record["runs"]:
        return "not replicated yet"
    said = []
    for kind, runs in by_processor(record["runs"]).items():
        s = summary(runs)
        what = "gap " if record["kind"] == "below" else ""
        said.append(
            f"{s['held']} of {s['tried']} runs on {kind} (95%: {100 * s['low']:.0f} to"
            f" {100 * s['high']:.0f}%), median"
            f" {what}{number(s['median'])}{' ' + unit if unit else ''} [{number(s['least'])},"
            f" {number(s['greatest'])}]"
        )
    return "; ".join(said)


def anchor(name: str) -> str:
    "The claim's place on the page What held."
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


def told(claim: Claim) -> str:
    "This run's effect and its threshold, in words."
    effect = f"{number(claim.effect)} {claim.unit}".strip()
    gap = "gap " * (claim.kind == "below")
    return f"{gap}here {effect} ({threshold(claim.low, claim.high, claim.unit)} was claimed)"


def rendered(claim: Claim) -> dict[str, str]:
    "The claim's line as HTML and as plain text, with the record of today."
    verdict = "Claim, held here" if claim.held else "Claim, came out otherwise on this machine"
    record = record_words(records().get(claim.name), claim.unit)
    plain = f"{verdict}: {claim.words}; {told(claim)}. Record: {record}. [{claim.name}]"
    colour = "currentColor" if claim.held else "#C2503C"
    page = (
        f'<p class="tl-claim" style="border-left:3px solid {colour};margin:.6em 0;padding:.1em 0'
        f' .1em .8em;font-size:.92em"><b>{verdict}:</b> {html.escape(claim.words)};'
        f' {powers(html.escape(told(claim)))}. <a href="{PAGE}#{anchor(claim.name)}">Record</a>:'
        f" {powers(html.escape(record))}.</p>"
    )
    return {"text/html": page, "text/plain": plain}


def show(claim: Claim) -> None:
    """The claim's line on the page; its values travel in the output's metadata, where tests and
    `make replicate` read them."""
    display(rendered(claim), raw=True, metadata={"claim": {**asdict(claim), "held": claim.held}})


def again(told_: dict) -> Claim:
    "The claim that an output's metadata holds."
    return Claim(**{key: told_[key] for key in Claim.__dataclass_fields__})


def shown(notebook) -> list[dict]:
    "The claims in an executed notebook's outputs, in order."
    found = []
    for cell in notebook.cells:
        for out in cell.get("outputs", []) if cell.cell_type == "code" else []:
            if "claim" in out.get("metadata", {}):
                found.append({**out["metadata"]["claim"], "cell": cell.id})
    return found


# Judging a run ------------------------------------------------------------------------------------

NEEDED, FEWEST = 0.9, 5  # nine of ten; all of five while there are only five
UNLIKELY = 1e-3


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


def surprise(effect: float, record: dict) -> float:
    """How seldom a run like the recorded ones gives an effect this far on the wrong side: Student's
    t for one more observation, n - 1 degrees of freedom, the smaller tail. 1.0 where the record is
    too small to say."""
    seen = [run["effect"] for run in record["runs"] if run["effect"] is not None]
    if len(seen) < 3:
        return 1.0
    spread = max(statistics.stdev(seen), 1e-9 * max(1.0, *map(abs, seen)))
    t = abs(effect - statistics.fmean(seen)) / (spread * math.sqrt(1 + 1 / len(seen)))
    return float(stdtr(len(seen) - 1, -t))


def allowed(chances: Sequence[float]) -> int:
    """The most claims that may come out otherwise: with these chances of doing so, more happens
    less than once in a thousand (the exact distribution of a sum of independent trials)."""
    # P(0 fail), P(1 fails), ...
    failing = reduce(np.convolve, [[1 - p, p] for p in chances], [1.0])
    return int(np.searchsorted(np.cumsum(failing), 1 - UNLIKELY))


def judge(found: Sequence[dict], record: dict[str, dict]) -> list[str]:
    """What is wrong with a run of the book, in words; [] when nothing is.

    A claim that came out otherwise fails alone when an effect like its own comes less than once in
    a thousand runs like the recorded ones: then the experiment is broken, not the processor. The
    rest are counted: with a record of h of n, a claim may come out otherwise with chance (n - h +
    1) / (n + 2) (Laplace), and more than `allowed` of them fails."""
    wrong, otherwise, chances = [], [], []
    for claim in found:
        of_it = record.get(claim["name"])
        if of_it is None or stands(of_it):
            wrong.append(f"{claim['name']} {stands(of_it)}")
            continue
        runs = of_it["runs"]
        chances.append((len(runs) - sum(run["held"] for run in runs) + 1) / (len(runs) + 2))
        if claim["held"]:
            continue
        p = surprise(claim["effect"], of_it)
        if not math.isfinite(claim["effect"]) or p < UNLIKELY:
            wrong.append(
                f"{claim['name']} came out otherwise with {number(claim['effect'])}"
                f" {claim['unit']}, which runs like the recorded give with chance {p:.0e}: is its"
                f" experiment broken? {claim['words']}"
            )
        else:
            otherwise.append(claim["name"])
    if len(otherwise) > allowed(chances):
        wrong.append(
            f"{len(otherwise)} claims came out otherwise, chance allows {allowed(chances)}:"
            f" {', '.join(otherwise)}"
        )
    return wrong
