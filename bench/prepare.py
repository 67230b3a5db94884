"""Pairs a second and memory of the preparation, by size: python bench/prepare.py [--full]

Each size is prepared in a process of its own, so that its peak is its own; the sample for the
subwords stays the same. Small sizes by default (CI); --full takes 100,000 pairs, 300,000 and all of
general-en-fr, with one worker and with two. Needs TRANSFORMER_LIT_DATA. The rows go to --out, in
the form that chapter 21 reads (book/results/general-en-fr/)."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

CODE ="""
import sys
from transformer_lit.recipes.prepare import PreparationConfig, prepare_store
if __name__ == "__main__":
    corpus, pairs, workers, sample, folder = sys.argv[1:]
    settings = PreparationConfig(
        corpus, vocabulary=8000, sample=int(sample), pairs=int(pairs) or None
    )
    prepare_store(settings, folder, int(workers))
"""


def row(corpus: str, pairs: int, workers: int, sample: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "one.py"
        script.write_text(CODE)
        subprocess.run(
            [
                sys.executable,
                str(script),
                corpus,
                str(pairs),
                str(workers),
                str(sample),
                f"{folder}/store",
            ],
            check=True,
        )
        made = json.loads((Path(folder) / "store" / "manifest.json").read_text())
    effort = made["effort"]
    return {
        "pairs": made["counts"]["given"],
        "workers": workers,
        "pairs a second": effort["pairs_per_second"],
        "MB, main process": effort["own_megabytes"],
        "MB, largest worker": effort["worker_megabytes"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", default="general-en-fr")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("preparation.json"))
    options = parser.parse_args()
    sizes = [100_000, 300_000, 0] if options.full else [2_000, 10_000]
    plan = [(n, 1) for n in sizes] + [(sizes[-1], 2)]
    rows = []
    for pairs, workers in plan:
        rows.append(row(options.corpus, pairs, workers, 100_000 if options.full else 1_000))
        print(rows[-1], flush=True)
    options.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
