"""The options of `transformer-lit`. None has a default here: what isn't typed isn't passed on."""

import argparse
import contextlib
import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from transformer_lit import __version__
from transformer_lit.custom_pair.formats import LANGUAGE_NAMES


def number(kind: Callable, low: float, high: float) -> dict:
    "What `add_argument` is given for an int or a float from `low` to `high`."

    def parse(text: str) -> float:
        with contextlib.suppress(ValueError):
            if low <= (value := kind(text)) <= high:
                return value
        name = "an integer" if kind is int else "a number"
        raise argparse.ArgumentTypeError(f"{text[:40]} is not {name} from {low:,} to {high:,}")

    return dict(type=parse, metavar="N")


def path(text: str) -> Path:
    "A type for argparse; an empty path is mostly a shell variable that nobody has set."
    if not text.strip() or re.search("[\0-\x1f\ud800-\udfff]", text):
        raise argparse.ArgumentTypeError("a path was expected, in UTF-8 without control characters")
    return Path(text)


def language_pair(text: str) -> tuple[str, ...]:
    "A type for argparse: en-de; eng-deu and english-german are the same."
    pair = tuple(LANGUAGE_NAMES.get(tag, tag) for tag in text.lower().split("-"))
    if not re.fullmatch(r"([a-z]{2,8})-(?!\1$)([a-z]{2,8})", "-".join(pair)):
        raise argparse.ArgumentTypeError(f"{text[:40]} is not a pair of two languages, as en-de")
    return pair


def setting(key: str = "") -> dict:
    "What `add_argument` is given for a field of the recipe: `key`, or what is typed as KEY=VALUE."

    def pair(text):
        name, equals, value = (key, "=", text) if key else text.partition("=")
        if not equals:
            raise argparse.ArgumentTypeError(f"{text[:40]} is not KEY=VALUE, as seed=2")
        return name, value

    return dict(dest="settings", action="append", type=pair, metavar="N" if key else "KEY=VALUE")


def build_parser(commands: Mapping[str, Callable[..., int]]) -> argparse.ArgumentParser:
    "The options of each command; `run` is the function of `commands` that runs it."
    top = argparse.ArgumentParser(
        prog="transformer-lit", description="Train, use and evaluate a small Transformer."
    )
    top.add_argument("--version", action="version", version=__version__)
    parsers = top.add_subparsers(required=True, metavar="COMMAND")

    def command(name, text):
        parser = parsers.add_parser(
            name,
            help=text,
            description=text,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
        )
        parser.set_defaults(run=commands[name])
        return parser

    count, folder = partial(number, int, 1), dict(type=path, metavar="DIR")
    file = dict(type=path, metavar="FILE")
    files = file | dict(nargs="+", action="extend")

    add = command("data", "Download, list and verify datasets.").add_argument
    add("action", nargs="?", default="list", choices=["download", "list", "verify"])
    add("names", nargs="*", metavar="DATASET", help="pocket, tatoeba, multi30k or wmt14")
    add("--language", metavar="fr|de", help="target language (default: both)")

    train = command("train", "Train a model; rerun to resume.")
    add = train.add_argument
    add(
        "--recipe",
        metavar="NAME",
        help="words (default), tatoeba-fr, tatoeba-de or pocket; a training set of chapter 21, such"
        " as wmt14-en-de; or a folder of texts, such as my-texts-nl",
    )
    add("--output-dir", **folder, help="default: runs/RECIPE, or runs/en-de for your own pairs")
    add("--epochs", **setting("epochs"), help="default: the recipe's")
    add(
        "--threads",
        **count(256),
        help="CPU threads (default: OMP_NUM_THREADS, or half of the cores)",
    )
    add(
        "--with",
        **setting(),
        help="any other hyperparameter of recipe, model or training, as seed=2; an unknown key is"
        " answered with the list",
    )
    add(
        "--init-from",
        **setting("init_from") | {"metavar": "MODEL"},
        help="for --pairs or a mixture: a pretrained model to start from (default: random weights)",
    )
    add = train.add_argument_group("your own parallel corpus").add_argument
    add("--pairs", **files, help="TSV, CSV, TMX, JSON lines, or two texts")
    add("--languages", type=language_pair, help="source and target, as en-de")
    add("--reverse", action="store_true", help="translate the second column into the first")
    add("--extra-train", **files, help="more pairs, for training only")
    add("--exclude", **files, help="pairs to remove, as an earlier low_confidence.tsv")
    add(
        "--no-langid-filter",
        action="store_true",
        help="keep pairs that look like another language: for close ones, or two scripts in one",
    )
    add = train.add_argument_group("training sets of chapter 21").add_argument
    add(
        "--preset",
        choices=["paper", "modern"],
        help="hyperparameters: the paper's (default), or chapter 18's",
    )
    add("--size", choices=["tiny", "small", "base", "big"], help="model preset (default: base)")
    add("--max-steps", **setting("max_steps"), help="training steps (default: 100,000)")
    add("--eval-every", **setting("eval_every"), help="validation interval (default: 2,000)")
    add(
        "--max-minutes",
        **number(float, 0, math.inf),
        help="save and stop after this time, with exit status 75",
    )
    add("--workers", **count(256), help="for the preparation (default: 1)")
    add("--data-dir", **folder, help="the tokenized corpus (default: runs/store-RECIPE)")
    add(
        "--sampling-temperature",
        **setting("temperature"),
        help="for a mixture: 1 samples in proportion to size, higher more evenly (default: 9)",
    )

    translate = command("translate", "Translate sentences.")
    add = translate.add_mutually_exclusive_group().add_argument
    add("sentences", nargs="*", default=[], help="default: read lines from stdin")
    add("--file", **file, help="a text file, one sentence per line")
    add("--interactive", action="store_true", help="ask for one sentence after the other")
    translate.add_argument(
        "--show-confidence",
        action="store_true",
        help="add a tab and the expected chrF2, 0 to 100: a calibrated confidence score",
    )
    translate.add_argument(
        "--glossary",
        **file,
        help="a term list, TERM<TAB>TRANSLATION: names, codes, fixed translations to keep",
    )

    evaluate = command("evaluate", "Score a model on a test set.")
    evaluate.add_argument(
        "--test-set",
        metavar="NAME",
        help="tatoeba, multi30k, newstest2014, pocket, or own: the held-out pairs of your own"
        " corpus (default: own if there is one, else tatoeba)",
    )
    evaluate.add_argument("--output", **file, help="the report (default: scores-NAME.json)")

    export = command("export", "Convert a model for CTranslate2.")
    export.add_argument("output", **folder, help="a new folder")
    export.add_argument(
        "--quantization",
        choices=["float32", "bfloat16", "int8"],
        help="weight precision (default: float32)",
    )

    doctor = command("doctor", "Test a Transformer of your own for silent bugs.")
    doctor.add_argument("case", type=path, help="a Python file whose report() returns examine(...)")
    doctor.add_argument("--json", action="store_true", help="the report as JSON")

    for parser in translate, evaluate, export:
        parser.add_argument(
            "--model",
            type=path,
            help="a trained model's folder, or one of the book's (default: open-fr)",
        )
    for parser in translate, evaluate:
        parser.add_argument("--beam-size", **count(64), help="(default: 4)")
    for parser in train, translate, evaluate:
        parser.add_argument(
            "--device",
            choices=["auto", "cpu", "cuda", "mps"],
            help="default: an NVIDIA GPU if PyTorch finds one, else the CPU",
        )
    return top
