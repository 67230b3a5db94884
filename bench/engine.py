"""The engine in the page against a clock: fifteen tokens greedy and with beam 4, WebAssembly and plain JavaScript, and what it needs.

    python bench/engine.py                                                two rounds of each, a trial
    python bench/engine.py --rounds 25 --out book/results/bench/engine.json
    python bench/engine.py --browser firefox --rounds 25 --out FILE

The page is opened from a folder, as a reader opens the book, and the engine works in its worker. The sentence has fifteen tokens, and the
answer is made to have at most fifteen, so that times compare. Each way is asked twice before anything counts. `median` and `least` are
by the clock, from the question to the answer; `processor` is the processor time of all the browser's processes for one question, which
says the same on a busy machine. `opened` is the time from the press of a button to the
first question that can be asked. Memory is that of the browser's processes (Linux's Pss) after all questions, less what they had before the
engine was loaded; `block` is the engine's own memory.
For measure the package does the same on one thread.
"""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

sys.path[:0] = [
    str(Path(__file__).resolve().parents[1]),
    str(Path(__file__).parent),
    str(Path(__file__).resolve().parents[1] / "tools"),
]
import chromium  # noqa: E402
import firefox  # noqa: E402
from common import command, keep, where  # noqa: E402

import engine_models as packing  # noqa: E402
from transformer_lit.decoding import beam_search, greedy_decode  # noqa: E402
from transformer_lit.corpora.files import shipped  # noqa: E402
from transformer_lit.translation import Translator  # noqa: E402

TOKENS = 15
LONG = "I would like to know whether he will come to see us tonight."
SENTENCES = {
    "pocket": "The animal didn't cross the street because it was too tired today now.",
    "tatoeba-fr": LONG,
    "mixture-fr": LONG,
}
OPEN = """async ({name, plain}) => {
  const before = performance.now(), engine = await tlEngine.open(name, {plain});
  return {opened: performance.now() - before, kernel: engine.about.kernel, bytes: engine.about.bytes, agent: navigator.userAgent};
}"""
ASK = """async ({name, plain, ids, beam, rounds, tokens}) => {
  const engine = await tlEngine.open(name, {plain}), times = [];
  for (let round = 0; round < rounds; round++) {
    const start = performance.now();
    await engine.answer(ids, {beam, maxLength: tokens});
    times.push(performance.now() - start);
  }
  return times;
}"""
PAGE = '<!doctype html><meta charset="utf-8"><title>t</title><script src="engine.js"></script>'


def own_processes() -> list[Path]:
    "This process's children, their children and so on, as folders of /proc."
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(folder.name)] = int(
                (folder / "stat").read_text().rpartition(")")[2].split()[1]
            )

    def ours(number: int) -> bool:
        return parents.get(number) == os.getpid() or number in parents and ours(parents[number])

    return [Path("/proc") / str(number) for number in parents if ours(number)]


def memory() -> float:
    "MB of the browser: Pss, in which a page that several processes share counts once."
    total = 0
    for folder in own_processes():
        with contextlib.suppress(OSError):
            rollup = (folder / "smaps_rollup").read_text()
            total += int(
                next(line for line in rollup.splitlines() if line.startswith("Pss:")).split()[1]
            )
    return total / 1e3


def processor() -> float:
    "Milliseconds that the browser has computed so far."
    total = 0
    for folder in own_processes():
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return 1e3 * total / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def page_of(browser: str, folder: Path):
    "A page of that browser, opened from the folder."
    address = (folder / "page.html").as_uri()
    if browser == "firefox":
        with firefox.opened() as page:
            page.goto(address)
            yield page
    else:
        with chromium.opened() as one:
            page = one.new_page()
            page.set_default_timeout(900_000)
            page.goto(address)
            yield page


def ids_of(name: str) -> list[int]:
    "A source of fifteen tokens, EOS included."
    ids = Translator.from_pretrained(shipped(f"data/checkpoints/{name}")).source.encode(
        SENTENCES[name]
    )
    return ids[: TOKENS - 1] + [2]


def timed(browser: str, folder: Path, name: str, plain: bool, rounds: int) -> list[dict]:
    """Two rows, greedy and beam 4; a browser of its own for each, so that memory is that of one
    engine."""
    given, rows = {"name": name, "plain": plain, "ids": ids_of(name), "tokens": TOKENS}, []
    with page_of(browser, folder) as page:
        before = memory()
        about = page.evaluate(OPEN, given)
        for beam in 1, 4:
            page.evaluate(ASK, {**given, "beam": beam, "rounds": 2})
            start = processor()
            times = page.evaluate(ASK, {**given, "beam": beam, "rounds": rounds})
            rows.append(
                {
                    "model": name,
                    "kernel": about["kernel"],
                    "beam": beam,
                    "median": statistics.median(times),
                    "least": min(times),
                    "processor": (processor() - start) / rounds,
                    "rounds": rounds,
                    "opened": about["opened"],
                    "block": about["bytes"] / 1e6,
                    "browser": about["agent"],
                }
            )
        held = memory() - before
    return [{**row, "memory": held} for row in rows]


def package(name: str, rounds: int) -> list[dict]:
    "The same by the package."
    model, source, rows = (
        Translator.from_pretrained(shipped(f"data/checkpoints/{name}")).model,
        torch.tensor([ids_of(name)]),
        [],
    )
    for beam in 1, 4:
        times, computed = [], 0.0
        for turn in range(rounds + 2):
            start, begun = time.perf_counter(), time.process_time()
            (
                greedy_decode(model, source, TOKENS)
                if beam == 1
                else beam_search(model, source, beam, max_length=TOKENS)
            )
            if turn >= 2:
                times.append(1e3 * (time.perf_counter() - start))
                computed += 1e3 * (time.process_time() - begun)
        rows.append(
            {
                "model": name,
                "kernel": "package",
                "beam": beam,
                "median": statistics.median(times),
                "least": min(times),
                "processor": computed / rounds,
                "rounds": rounds,
                "opened": None,
                "memory": None,
                "block": None,
                "browser": None,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--browser", choices=("chromium", "firefox"), default="chromium")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        packing.write(folder)
        (folder / "page.html").write_text(PAGE, "utf-8")
        sizes = {
            name: sum(part.stat().st_size for part in folder.glob(f"model-{name}-*.js"))
            for name in SENTENCES
        }
        print("model       by       beam  median ms  least ms  processor ms  to open ms  memory MB")
        for name in SENTENCES:
            for plain in False, True:
                rows += timed(args.browser, folder, name, plain, args.rounds)
            rows += package(name, args.rounds)
            for row in rows[-6:]:
                opened, held = (
                    f"{row[key]:10.0f}" if row[key] is not None else f"{'-':>10}"
                    for key in ("opened", "memory")
                )
                print(
                    f"{row['model']:11} {row['kernel']:8} {row['beam']:4} {row['median']:10.1f}"
                    f" {row['least']:9.1f} {row['processor']:13.1f}  {opened} {held}"
                )
    if args.out:
        keep(
            args.out,
            {"command": command(parser), **where(), "tokens": TOKENS, "bytes": sizes, "rows": rows},
        )


if __name__ == "__main__":
    main()
