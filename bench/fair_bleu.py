"""Differences in BLEU and their intervals: `python bench/fair.py score` writes
book/results/fair/GROUND/bleu.json.

summary.json beside it says which designs are set against which; this adds to each of these pairs
the difference of their BLEU, from what every seed said. Needs the corpus, for the references."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from fair import CROSSING
from fair_jobs import GROUNDS, Job, field_of
from fair_records import by_budget, chosen_runs

from transformer_lit.equal_cost import gap_of
from transformer_lit.evaluation import bleu_of, line_counts
from transformer_lit.corpora.files import write_json

Counts = Sequence[np.ndarray]  # for each seed the ten counts of each sentence, (n, 10)


def bleu_difference(ours: Counts, theirs: Counts, samples: int = 1000, seed: int = 1) -> dict:
    """BLEU that `ours` has more, mean over the seeds, with 95% intervals as chapter 22's
    `difference` has them for losses.

    low, high: bootstrap over seeds and sentences, both in pairs, BLEU computed anew from the counts
    of each draw. half: half of Student's interval over the seeds. decided: both leave 0 out."""
    draw = np.random.default_rng(seed).multinomial
    seeds, n = len(ours), len(ours[0])
    sentences = np.vstack(
        [np.ones(n, int), draw(n, np.full(n, 1 / n), samples)]
    )  # the first: as they are
    weights = draw(seeds, np.full(seeds, 1 / seeds), samples)  # (samples, seeds)

    def of(counts: np.ndarray) -> np.ndarray:
        return np.array([bleu_of(sums, True) for sums in sentences @ counts])

    one, other = (
        np.stack([of(counts) for counts in side], 1) for side in (ours, theirs)
    )  # (1 + samples, seeds)
    low, high = np.quantile(((one - other)[1:] * weights).sum(1) / seeds, (0.025, 0.975)).tolist()
    value, half = gap_of(one[0].tolist(), other[0].tolist())
    return {
        "value": value,
        "low": low,
        "high": high,
        "half": half,
        "decided": low * high > 0 and abs(value) > half,
    }


def pairs_of(summary: dict, records: dict[str, dict]) -> list[tuple[tuple, tuple]]:
    "All pairs that the summary takes differences of: (design, its runs), twice."
    full = {
        name: chosen_runs(record, summary["scale"]["tokens"]) for name, record in records.items()
    }
    found = [
        ((row["design"], full[row["design"]]), (other, full[other]))
        for row in summary.get("comparison", [])
        for other in row.get("more_than", {})
    ]
    for row in summary.get("crossing", []):
        one, other = ((name, by_budget(records[name])[row["tokens"]]) for name in CROSSING)
        found.append((one, other))
    for row in summary.get("muon", []) + summary.get("streams", []):
        name, other = row["design"], row["against"]
        found.append(((name, by_budget(records[name])[row["tokens"]]), (other, full[other])))
    return found


def score(home: Path, out: Path) -> int:
    """Add bleu.json to the records of each ground. Raises FileNotFoundError if what a run said is
    missing."""
    for ground in GROUNDS:
        folder = out / ground
        if not (folder / "summary.json").exists():
            continue
        read = {
            path.stem: json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))
        }
        summary, records = read["summary"], {
            name: one for name, one in read.items() if "design" in one
        }
        references, cache, gaps = field_of(ground).references, {}, {}

        def counts(run: dict) -> np.ndarray:
            job = Job(
                "train",
                ground,
                run["design"],
                run["budget"],
                run["peak"],
                run["warmup"],
                run["seed"],
            )
            if job not in cache:
                cache[job] = line_counts(
                    (home / "done" / f"{job.name}.txt").read_text("utf-8").splitlines(), references
                )
            return cache[job]

        for (name, ours), (other, theirs) in pairs_of(summary, records):
            gaps[name, other, ours[0]["budget"]] = bleu_difference(
                [counts(run) for run in ours], [counts(run) for run in theirs]
            )
        write_json(
            folder / "bleu.json",
            {
                "command": "python bench/fair.py score",
                "ground": ground,
                "gaps": [
                    {"design": name, "against": other, "tokens": int(budget), **gap}
                    for (name, other, budget), gap in sorted(gaps.items())
                ],
            },
        )
        print(f"{ground}: {len(gaps)} differences in {folder / 'bleu.json'}")
    return 0
