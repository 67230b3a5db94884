"""The command `transformer-lit`: data, train, translate, evaluate and export, in one tree."""

# `--help` is fast because whatever imports torch is imported in the command that needs it. Options
# have no defaults here. What was typed is passed by name to the function that runs the command, or
# becomes a setting of the recipe, and what neither takes is refused: no option can be forgotten.
#
# Exit statuses: 0 done; 1 a mistake, in one sentence on standard error; 2 a wrong option; 75 time
# is up (--max-minutes), the same command resumes; 130 Ctrl-C. Anything else is a fault of ours and
# shows its traceback.
import argparse
import contextlib
import inspect
import math
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from transformer_lit import __version__

MISTAKE, TIME_UP, INTERRUPTED = 1, 75, 130


def number(kind: Callable, low: float, high: float) -> Callable[[str], float]:
    "A type for argparse: an int or a float from `low` to `high`."

    def parse(text: str) -> float:
        with contextlib.suppress(ValueError):
            if low <= (value := kind(text)) <= high:
                return value
        name = "an integer" if kind is int else "a number"
        raise argparse.ArgumentTypeError(f"{text[:40]} is not {name} from {low:,} to {high:,}")

    return parse


def path(text: str) -> Path:
    "A type for argparse; an empty path is mostly a shell variable that nobody has set."
    if not text.strip() or not text.isprintable():
        raise argparse.ArgumentTypeError("a path was expected, in printable UTF-8")
    return Path(text)


def language_pair(text: str) -> tuple[str, str]:
    "A type for argparse: en-de."
    if not (tags := re.fullmatch(r"([a-z]{2,8})-(?!\1$)([a-z]{2,8})", text.lower())):
        raise argparse.ArgumentTypeError(f"{text[:40]} is not a pair of two languages, as en-de")
    return tags[1], tags[2]


def setting(key: str = "", parse: Callable = str) -> dict:
    "What `add_argument` is given for a field of the recipe: `key`, or what is typed as KEY=VALUE."

    def pair(text: str) -> tuple[str, object]:
        name, equals, value = (key, "=", text) if key else text.partition("=")
        if not equals:
            raise argparse.ArgumentTypeError(f"{text[:40]} is not KEY=VALUE, as seed=2")
        return name, parse(value)

    return dict(dest="settings", action="append", type=pair, metavar="N" if key else "KEY=VALUE")


def build_parser() -> argparse.ArgumentParser:
    "The commands and their options; nothing heavy is imported."
    about = "Train, use and evaluate a small Transformer."
    top = argparse.ArgumentParser(prog="transformer-lit", description=about)
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def command(run: Callable[..., int], text: str) -> argparse.ArgumentParser:
        more = dict(help=text, description=text, allow_abbrev=False)
        name = run.__name__.removeprefix("run_")
        parser = commands.add_parser(name, argument_default=argparse.SUPPRESS, **more)
        parser.set_defaults(run=run)
        return parser

    count, folder = partial(number, int, 1), dict(type=path, metavar="DIR")
    files = dict(type=path, nargs="+", action="extend", metavar="FILE")

    add = command(run_data, "Download, list and verify datasets.").add_argument
    add("action", nargs="?", default="list", choices=["download", "list", "verify"])
    add("names", nargs="*", metavar="DATASET", help="pocket, tatoeba, multi30k or wmt14")
    add("--language", metavar="fr|de", help="target language (default: both)")

    train = command(run_train, "Train a model; rerun to resume.")
    add = train.add_argument
    text = (
        "words (default), tatoeba-fr, tatoeba-de or pocket; a training set of chapter 21, such as"
        " wmt14-en-de; or a folder of texts, such as my-texts-nl"
    )
    add("--recipe", metavar="NAME", help=text)
    add("--output-dir", **folder, help="default: runs/RECIPE, or runs/en-de for your own pairs")
    add("--epochs", **setting("epochs", count(10_000)), help="default: the recipe's")
    text = "CPU threads (default: OMP_NUM_THREADS, or half of the cores)"
    add("--threads", type=count(256), metavar="N", help=text)
    text = (
        "any other field of the recipe, its model or its training, as seed=2; an unknown key is"
        " answered with the list"
    )
    add("--with", **setting(), help=text)
    add = train.add_argument_group("pairs of your own").add_argument
    add("--pairs", **files, help="a file of two columns, or two parallel texts")
    add("--languages", type=language_pair, help="of first and second column, as en-de")
    add("--reverse", action="store_true", help="translate the second column into the first")
    add("--extra-train", **files, help="more pairs, for training only")
    add("--exclude", **files, help="pairs to leave out, as an earlier low_confidence.tsv")
    text = "keep pairs that look like another language: for close ones, or two scripts in one"
    add("--no-langid-filter", action="store_true", help=text)
    add = train.add_argument_group("training sets of chapter 21").add_argument
    text = "hyperparameters: the paper's (default), or chapter 18's"
    add("--preset", choices=["paper", "modern"], help=text)
    add("--size", choices=["tiny", "small", "base", "big"], help="of the model (default: base)")
    steps = count(10**7)
    add("--max-steps", **setting("steps", steps), help="training steps (default: 100,000)")
    add("--eval-every", **setting("look_every", steps), help="steps (default: 2,000)")
    text = "save and stop after this time, with exit status 75"
    add("--max-minutes", type=number(float, 0, math.inf), metavar="N", help=text)
    add("--workers", type=count(256), metavar="N", help="to prepare the corpus (default: 1)")
    add("--data-dir", **folder, help="the tokenized corpus (default: runs/store-RECIPE)")
    text = "for a mixture: a trained model to start from (default: random weights)"
    add("--init-from", **setting("begin_with") | {"metavar": "MODEL"}, help=text)
    text = "for a mixture: 1 samples in proportion to size, higher more evenly (default: 9)"
    temperature = setting("temperature", number(float, 0.1, 100))
    add("--sampling-temperature", **temperature, help=text)

    translate = command(run_translate, "Translate sentences.")
    add = translate.add_mutually_exclusive_group().add_argument
    add("sentences", nargs="*", default=[], help="none: read lines from stdin")
    add("--file", type=path, help="a text, one sentence per line")
    add("--interactive", action="store_true", help="ask for one sentence after the other")
    text = "add a tab and the chrF, 0 to 100, of equally confident held-out translations"
    translate.add_argument("--show-confidence", action="store_true", help=text)

    evaluate = command(run_evaluate, "Score a model on a test set.")
    text = (
        "tatoeba, multi30k, newstest2014, pocket, or own: what a model of your own pairs holds out"
        " (default: own if there is one, else tatoeba)"
    )
    evaluate.add_argument("--test-set", metavar="NAME", help=text)
    text = "the report (default: scores.json)"
    evaluate.add_argument("--output", type=path, metavar="FILE", help=text)

    export = command(run_export, "Convert a model for CTranslate2.")
    export.add_argument("output", **folder, help="a new folder")
    text = "weight precision: float32 (default), bfloat16 or int8"
    export.add_argument("--quantization", metavar="TYPE", help=text)

    for parser in translate, evaluate, export:
        text = "a trained model's folder, or one of the book's (default: tatoeba-fr)"
        parser.add_argument("--model", type=path, help=text)
    for parser in translate, evaluate:
        parser.add_argument("--beam-size", type=count(64), metavar="N", help="(default: 4)")
    for parser in train, translate, evaluate:
        text = "default: an NVIDIA GPU if PyTorch finds one, else the CPU"
        parser.add_argument("--device", choices=["auto", "cpu", "cuda", "mps"], help=text)
    return top


def run_data(action: str, names: Sequence[str] = (), language: str | None = None) -> int:
    "Download, list or verify; 1 if a file is damaged, which doesn't end the round."
    from transformer_lit.data import CORPORA

    languages = {
        name: [tag for tag in CORPORA.get(name, ()) if language in (None, tag)]
        for name in names or CORPORA
    }
    if not all(languages.values() if names else [action != "download", any(languages.values())]):
        known = ", ".join(f"{name} ({' or '.join(tags)})" for name, tags in CORPORA.items())
        raise ValueError(f"choose from the datasets that there are: {known}")
    damaged = False
    for name, tag in ((name, tag) for name, tags in languages.items() for tag in tags):
        for line in data_lines(action, name, tag):
            print(line, flush=True)
            damaged |= "DAMAGED" in line or "CHANGED" in line
    return MISTAKE if damaged else 0


def data_lines(action: str, name: str, language: str) -> Iterator[str]:
    "Where a dataset lies; or whether its files are as published; or its sizes and hashes."
    from transformer_lit import data
    from transformer_lit.corpora import download, files, published

    names = published.files_of(name, language)
    if action == "list":  # no file is opened
        paths = [path for path in map(download.find_cached, names) if path]
        place = f"in {paths[0].parent}" if paths else "comes with the book"
        if len(paths) < len(names):
            again = f"transformer-lit data download {name} --language {language}"
            place = f"{len(paths)} of {len(names)} files here; {again}"
        yield f"{name:9} {language}  {place}"
    elif action == "verify" and names:
        yield from (f"{file}: {published.state(file, language)}" for file in names)
    else:
        parts = data.load(name, language)
        sizes = ", ".join(f"{part} {len(pairs):,}" for part, pairs in parts.items())
        yield f"{name} {language}: {sizes}"
        for path in map(download.find_cached, names):
            yield f"  {files.sha256_file(path)}  {path}"
        for archive, (size, languages, _) in published.WMT14.items():
            if name == "wmt14" and language in languages:
                yield f"  not downloaded, {size:,} MB: {published.STATMT[0]}{archive}"


def run_train(threads: int | None = None, **typed) -> int:
    "Train by a recipe, on pairs of one's own, or on a training set of chapter 21."
    import torch

    from transformer_lit.recipes.recipes import RECIPES

    recipe = typed.get("recipe", "words")
    train = train_recipe if recipe in RECIPES else train_at_scale
    if "pairs" in typed:
        train, recipe = train_on_pairs, "--pairs"
    if unused := typed.keys() - inspect.signature(train).parameters:
        option = f"--{min(unused).replace('_', '-')}"
        raise ValueError(f"{option} has no effect with {recipe}: leave it out")
    if threads or "OMP_NUM_THREADS" not in os.environ:  # one a core is slow if others compute, too
        cores = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)
        torch.set_num_threads(threads or max(1, len(cores) // 2))
    return train(**typed)


def train_recipe(command, recipe="words", output_dir=None, settings=(), device="auto") -> int:
    "A recipe of chapter 18; its scores go to run.json, beside the model."
    from transformer_lit import data
    from transformer_lit.recipes import recipes, settings as fields
    from transformer_lit.runtime.devices import default_device

    chosen = fields.change_settings(recipes.RECIPES[recipe], dict(settings), recipe)
    place, folder = default_device(device), output_dir or Path("runs") / recipe
    parts = data.load(chosen.corpus, chosen.language, chosen.words, chosen.pairs)
    translator, trainer = recipes.train_translator(folder, chosen, parts, device=place)
    print_scores(recipes.evaluate_and_record(folder, command, chosen, translator, trainer, parts))
    return 0


def print_scores(record: dict) -> None:
    "Test set, metric, value, and which references were counted."
    for score in record["scores"]:
        which = {"first": ", first reference only", "all": ", all references"}
        metric = score["metric"] + which.get(score.get("references"), "")
        print(f"{score['set']}: {metric} {score['value']:.3f}")


def train_on_pairs(
    command, pairs, languages=None, reverse=False, extra_train=(), exclude=(),
    no_langid_filter=False, output_dir=None, settings=(), device="auto",
) -> int:  # fmt: skip
    "Pairs of one's own; report.md and lists of pairs go beside the model."
    for option, files in ("--pairs", pairs), ("--extra-train", extra_train):
        if len(files) > 2 or len(set(files)) < len(files):
            raise ValueError(f"{option} takes one file of two columns, or two parallel texts")
    for file in (*pairs, *extra_train, *exclude):
        if file.exists() and not file.is_file():  # a pipe, which would wait to be written
            raise ValueError(f"{file} is no regular file, and it is read more than once")
        open(file).close()
    if languages is None:
        raise ValueError(f"what is in {pairs[0]}? Give both languages, as --languages en-de")
    if unused := dict(settings).keys() - {"epochs"}:
        raise ValueError(f"{min(unused)} has no effect with --pairs: leave it out")
    from transformer_lit.custom_pair.train import train_on_files
    from transformer_lit.runtime.devices import default_device

    place, epochs = default_device(device), dict(settings).get("epochs")
    folder = output_dir or Path("runs") / "-".join(languages[::-1] if reverse else languages)
    lists = extra_train, exclude, no_langid_filter
    train_on_files(pairs, languages, folder, command, reverse, epochs, place, *lists)
    return 0


def train_at_scale(
    command, recipe, output_dir=None, data_dir=None, preset="paper", size="base", settings=(),
    max_minutes=math.inf, workers=1, device="auto",
) -> int:  # fmt: skip
    "A training set of chapter 21; 75 if --max-minutes were over first."
    deadline = time.monotonic() + 60 * max_minutes
    from transformer_lit.recipes import large
    from transformer_lit.runtime.distributed import process

    experiment = large.build_experiment(recipe, preset, size, dict(settings), device)
    folder = output_dir or Path("runs") / Path(recipe).name
    store = data_dir or Path("runs") / f"store-{Path(recipe).name}"
    record = large.run_experiment(experiment, folder, store, workers, deadline, command, device)
    if process()[0]:
        return 0
    if record is None:
        print(f"time is up; the same command resumes {folder}", file=sys.stderr)
        return TIME_UP
    print_scores(record)
    return 0


def load_translator(model: Path, device: str):
    "The translator of a folder, or one that comes with the book, on a device; and its folder."
    import torch

    from transformer_lit.runtime.devices import default_device
    from transformer_lit.serving import files

    torch.set_num_threads(1)  # on busy cores more threads are slower
    place, folder = default_device(device), files.find_translator(model)
    translator = files.load_translator(folder)
    translator.model.to(place)
    return translator, folder


def input_lines(sentences: Sequence[str], file: Path | None) -> Iterator[str]:
    "What was typed, or the lines of a file or of stdin; ValueError for what isn't UTF-8."
    if sentences:
        yield from sentences
        return
    with open(file, "rb") if file else sys.stdin.buffer as lines:
        for n, line in enumerate(lines, 1):
            try:
                yield line.decode("utf-8-sig" if n == 1 else "utf-8").strip()
            except UnicodeDecodeError:
                name = file or "standard input"
                raise ValueError(f"line {n} of {name} isn't UTF-8: convert it first") from None


def typed_lines() -> Iterator[str]:
    "Lines typed at a prompt, until Ctrl-D or Ctrl-C."
    print("One sentence per line; Ctrl-D ends.", file=sys.stderr)
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            yield input("> ").strip()
    print(file=sys.stderr)


def translate_lines(translate: Callable, lines: Iterable[str], size: int = 256) -> Iterator[str]:
    "Translations in order, batch by batch: a long text takes no more memory than a short one."
    lines = iter(lines)
    while batch := list(islice(lines, size)):
        yield from translate(batch)


def run_translate(
    sentences=(), file=None, interactive=False, show_confidence=False, model=Path("tatoeba-fr"),
    beam_size=4, device="auto",
) -> int:  # fmt: skip
    "One line per sentence, or a conversation."
    if file:
        open(file, "rb").close()  # before a model is loaded
    translator, folder = load_translator(model, device)
    search = dict(beam_size=beam_size, batch_size=min(64, 256 // beam_size))  # a matter of memory
    translate = partial(translator.translate, **search)
    if show_confidence:
        from transformer_lit.serving import confidence

        expected_chrf = confidence.load_calibration(folder)

        def translate(lines: list[str]) -> list[str]:
            scored = confidence.translate_with_scores(translator, lines, **search)
            chrf = [f"{expected_chrf(t.log_prob):.0f}" for t in scored]
            return [f"{t.text}\t{value}" if t.text else "" for t, value in zip(scored, chrf)]

    if interactive or not (sentences or file) and sys.stdin.isatty():
        answers = translate_lines(translate, typed_lines(), size=1)
    else:
        answers = translate_lines(translate, input_lines(sentences, file))
    for answer in answers:
        print(answer, flush=True)
    return 0


def run_evaluate(
    test_set=None, output=Path("scores.json"), model=None, beam_size=4, device="auto"
) -> int:
    "Translate a test set, score it, write the report; what can go wrong is checked first."
    if output.suffix != ".json" or output.is_dir() or not os.access(output.parent, os.W_OK):
        raise ValueError(f"{output} can't be written: name a .json file in a folder that is there")
    from transformer_lit import data, evaluation
    from transformer_lit.corpora.files import write_json
    from transformer_lit.custom_pair import report as own_report

    usual = "pocket" if test_set == "pocket" else "tatoeba-fr"
    translator, folder = load_translator(model or Path(usual), device)
    search = dict(beam_size=beam_size, batch_size=min(64, 256 // beam_size), precision="fp32")
    translate = partial(translator.translate, **search)
    own = (folder / own_report.TEST).is_file()
    test_set = test_set or ("own" if own else "tatoeba")
    if test_set == "own":
        if not own:
            raise ValueError(f"{folder} has no test set of its own, {own_report.TEST}")
        report = own_report.score_again(translate, folder)
    else:
        source, target = translator.languages or ("en", "fr")
        if source != "en":
            raise ValueError(f"{folder} translates {source}-{target}, and {test_set} is English")
        sources, references = data.test_set(test_set, target)
        train = data.load("pocket" if test_set == "pocket" else "tatoeba", target)["train"]
        known = evaluation.word_counts(english for english, _ in train)
        rarity, seen = evaluation.rarest(sources, known), [other for _, other in train]
        report = evaluation.report(translate(sources), references, sources, rarity, seen)
    for score in report["one"]:  # first, so that a full disk doesn't cost them
        print(f"{test_set}: {score['metric']} {score['value']:.1f}  {score['signature']}")
    write_json(output, {"set": test_set, "beam": beam_size, **report})
    return 0


def run_export(output: Path, model=Path("tatoeba-fr"), quantization="float32") -> int:
    "A folder for CTranslate2; the model card goes with it, because the data's license does."
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ValueError(f"{output} is there already: name a new folder")
    from transformer_lit.serving import ctranslate

    translator, folder = load_translator(model, "cpu")
    card = folder / "README.md"
    ctranslate.export(translator, output, quantization, card if card.exists() else None)
    script = shlex.join(["python", str(output / "translate.py")])
    print(f'{output}: ctranslate2.Translator reads it; {script} "..." tries it')
    return 0


def exit_status(run: Callable[[], int]) -> int:
    "Run a command: a mistake is one sentence and status 1, Ctrl-C 130; anything else is raised."
    status = 0
    try:
        try:
            status = run()
        finally:  # here a reader that is gone, as after `| head`, is no mistake
            sys.stdout.flush()
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return status
    except KeyboardInterrupt as stop:  # a training says where it is saved
        print(f"\ntransformer-lit: {str(stop) or 'interrupted'}", file=sys.stderr)
        return INTERRUPTED
    except ModuleNotFoundError as error:
        message = f"{error.name} is missing: pip install {error.name}"
    except (OSError, ValueError, MemoryError, EOFError, RecursionError) as error:
        message = re.sub(r"\[Errno \d+\] ", "", str(error)) or "out of memory"
        if isinstance(error, OSError) and error.filename is not None:
            message = f"{error.filename}: {str(error.strerror).lower()}"
    except Exception as error:
        spoilt = type(error) is Exception or type(error).__name__ == "SafetensorError"  # of a file
        if not spoilt and "out of memory" not in str(error):
            raise
        message = str(error) if spoilt else "out of memory; on a GPU, try --device cpu"
    print(f"transformer-lit: {' '.join(message.split())}", file=sys.stderr)
    return MISTAKE


def main(arguments: list[str] | None = None) -> int:
    "Run one command, and return its exit status."
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in sys.stdout, sys.stderr:
        if hasattr(stream, "reconfigure"):  # into a file as it came, whatever the locale
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="replace")

    def run_command() -> int:
        typed = vars(build_parser().parse_args(arguments))
        run = typed.pop("run")
        if run is run_train:
            typed["command"] = shlex.join(["transformer-lit", *arguments])
        return run(**typed)

    return exit_status(run_command)


if __name__ == "__main__":
    sys.exit(main())
