"""The command `transformer-lit`: corpora, training, translation, scores and export, as one tree of
commands."""

# `--help` answers at once: whatever imports torch is imported inside the command that needs it.
# That is why names which belong to heavier modules stand here a second time (RECIPES, TEST_SETS,
# QUANTIZATIONS, OWN_TEST); tests hold them equal.
import argparse
import contextlib
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer_lit import __version__
from transformer_lit import options as types
from transformer_lit.commands import DONE, MISTAKE, command_again, guarded, may_write, new_folder
from transformer_lit.runs.limits import LONGEST, WIDEST
from transformer_lit.custom_pair.own_command import own_files, own_name, train_own
from transformer_lit.runtime.progress import bar, tell
from transformer_lit.corpora.texts import json_file, readable_text, standard_input, text_lines
from transformer_lit.recipes.run_options import RUN_OPTIONS, TRAINING_SETS, field

if TYPE_CHECKING:
    from transformer_lit.translation import Translator
    from transformer_lit.recipes.recipes import Recipe

COMMANDS = {
    "data": "Fetch corpora, list them, verify them.",
    "train": "Train by a recipe; run again to go on.",
    "translate": "Translate sentences.",
    "evaluate": "Score a translator on a test set.",
    "export": "Write a translator for CTranslate2.",
}
OWN, OWN_TEST = (
    "own",
    "test.tsv",
)  # the test that a translator of one's own pair keeps in its folder
RECIPES = ("words", "tatoeba-fr", "tatoeba-de", "pocket")
TEST_SETS = ("tatoeba", "multi30k", "newstest2014", "pocket")
QUANTIZATIONS = ("float32", "bfloat16", "int8")

Translate = Callable[[list[str]], list[str]]

# The options --------------------------------------------------------------------------------------

FOLDER_HELP = (
    "a trained translator's folder, or the name of one that comes with the book (default:"
    " tatoeba-fr)"
)
FOLDER = dict(type=types.translator, help=FOLDER_HELP)
LANGUAGE = dict(choices=["fr", "de"], help="the other language")
BEAM = dict(
    type=types.whole(1, WIDEST),
    default=4,
    help=f"beam size, at most {WIDEST} (default: %(default)s)",
)
OPTIONS: dict[str, dict[str, dict[str, Any]]] = (
    {  # command -> option -> what argparse's add_argument is given
        "data": {
            "action": dict(nargs="?", default="list", choices=["fetch", "list", "verify"]),
            "names": dict(nargs="*", metavar="corpus", help="pocket, tatoeba, multi30k or wmt14"),
            "--language": LANGUAGE,
        },
        "train": {
            "--recipe": dict(
                choices=RECIPES + TRAINING_SETS,
                metavar="NAME",
                help=f"what to train: {', '.join(RECIPES + TRAINING_SETS)} (default: words)",
            ),
            "--folder": dict(
                type=types.path, help="default: runs/RECIPE, or runs/en-de for a pair of your own"
            ),
            "--epochs": dict(type=types.whole(1, 10_000), help="default: the recipe's"),
            "--pairs": dict(
                type=types.number_or_path,
                nargs="+",
                action=types.NumberOrPaths,
                metavar="N|FILE",
                help=(
                    "training pairs (default: the recipe's); or your own: a file of two columns, or"
                    " two parallel texts"
                ),
            ),
            "--train-only": dict(
                type=types.path,
                nargs="+",
                action=types.Paths,
                metavar="FILE",
                help=(
                    "more pairs of your own for training only (back-translated ones, or another"
                    " subject), columns in the same order"
                ),
            ),
            "--without": dict(
                type=types.path,
                nargs="+",
                action=types.Paths,
                metavar="FILE",
                help=(
                    "leave these pairs out of training: the doubted.tsv of a translator of the same"
                    " pairs, from which you may delete what is right"
                ),
            ),
            "--languages": dict(
                type=types.two_languages,
                help="the languages of your own pairs, first and second column, such as en-de",
            ),
            "--reverse": dict(
                action="store_true", help="with --languages: translate the second into the first"
            ),
            "--keep-languages": dict(
                action="store_true",
                help=(
                    "keep pairs of your own that look like another language: for closely related"
                    " languages, or one written in two scripts"
                ),
            ),
            "--device": types.DEVICE,
            "--threads": dict(type=types.whole(1, types.THREADS), help=types.THREADS_HELP),
        },
        "translate": {
            "sentences": dict(nargs="*", help="sentences; none: lines from standard input"),
            "--file": dict(type=types.path, help="a text, one sentence per line"),
            "--interactive": dict(action="store_true", help="ask for one sentence after the other"),
            "--show-confidence": dict(
                action="store_true",
                help=(
                    "after each answer print a tab and the chrF, 0 to 100, that equally confident "
                    "answers had on held-out sentences"
                ),
            ),
            "--folder": FOLDER,
            "--beam": BEAM,
            "--device": types.DEVICE,
        },
        "evaluate": {
            "--set": dict(
                choices=(*TEST_SETS, OWN),
                help="the test set (default: the translator's own, if it keeps one, else tatoeba)",
            ),
            "--language": LANGUAGE | dict(help="the other language (default: fr)"),
            "--folder": FOLDER | dict(help=FOLDER_HELP[:-1] + "; pocket for --set pocket)"),
            "--beam": BEAM,
            "--device": types.DEVICE,
            "--out": dict(
                type=types.path,
                default=Path("scores.json"),
                help="where the report goes (default: %(default)s)",
            ),
        },
        "export": {
            "out": dict(type=types.path, metavar="FOLDER", help="a new folder, for CTranslate2"),
            "--folder": FOLDER,
            "--quantization": dict(
                choices=QUANTIZATIONS,
                default="float32",
                help="how weights are written (default: %(default)s)",
            ),
        },
    }
)
LARGE_ONLY = {
    option: settings
    for option, settings in RUN_OPTIONS.items()
    if option not in ("--corpus", *OPTIONS["train"])
}


def parser() -> argparse.ArgumentParser:
    "The commands and their options; nothing heavy is imported."
    top = argparse.ArgumentParser(
        prog="transformer-lit", description="A small translator: use it, train it, score it."
    )
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(dest="command", required=True)
    made = {
        name: commands.add_parser(name, help=text, description=text)
        for name, text in COMMANDS.items()
    }
    for name, options in OPTIONS.items():
        for option, settings in options.items():
            made[name].add_argument(option, **settings)
    large = made["train"].add_argument_group("large runs", f"For {', '.join(TRAINING_SETS)} only.")
    for (
        option,
        settings,
    ) in (
        LARGE_ONLY.items()
    ):  # one that isn't typed leaves no trace, so that one that is can be refused
        default = str(settings.get("default"))
        large.add_argument(
            option,
            **settings | {
                "default": argparse.SUPPRESS,
                "help": settings["help"].replace("%(default)s", default),
            },
        )
    return top


# data ---------------------------------------------------------------------------------------------


def asked_corpora(options: argparse.Namespace) -> list[tuple[str, str]]:
    """The (corpus, language) pairs that were asked for: all of them if none was named, but not for
    fetch."""
    from transformer_lit.data import CORPORA

    wrong = [name for name in options.names if name not in CORPORA]
    if wrong or (options.action == "fetch" and not options.names):
        what = f"there is no {wrong[0]}" if wrong else "fetch what"
        raise ValueError(f"{what}; there are: {', '.join(CORPORA)}")
    found = [
        (name, language)
        for name in options.names or CORPORA
        for language in CORPORA[name]
        if options.language in (None, language)
    ]
    if not found:
        raise ValueError(f"none of the corpora named has {options.language}")
    return found


def describe_place(name: str, language: str) -> str:
    "Where a corpus lies, or the command that gets it. No file is opened."
    from transformer_lit.corpora import download, published as corpora

    files = corpora.files_of(name, language)
    found = [path for path in map(download.find_cached, files) if path]
    if not files:
        return "comes with the book"
    if len(found) == len(files):
        return f"in {found[0].parent}"
    some = f"{len(found)} of {len(files)} files here" if found else "not here"
    return f"{some}; transformer-lit data fetch {name} --language {language}"


def fetch_corpus(name: str, language: str) -> Iterator[str]:
    """Find or fetch a corpus; lines with its size, its files' hashes, and what is too large to be
    fetched unasked."""
    from transformer_lit import data
    from transformer_lit.corpora import download, published as corpora
    from transformer_lit.corpora.files import sha256_file

    parts = data.load(name, language)
    yield f"{name} {language}: " + ", ".join(
        f"{part} {len(pairs):,}" for part, pairs in parts.items()
    )
    for file in corpora.files_of(name, language):
        if path := download.find_cached(file):
            yield f"  {sha256_file(path)}  {path}"
    for archive, (size, languages, _) in corpora.WMT14.items():
        if name == "wmt14" and language in languages:
            yield f"  not fetched, {size:,} MB: {corpora.STATMT[0]}{archive}"


def check_files(name: str, language: str) -> dict[str, str]:
    "File -> what it is: not here, as published, damaged."
    from transformer_lit import data
    from transformer_lit.corpora import published as corpora

    if name == "pocket":
        parts = data.load("pocket")
        return {"pocket": f"whole, {sum(map(len, parts.values())):,} pairs"}
    return {file: corpora.state(file, language) for file in corpora.files_of(name, language)}


def run_data(options: argparse.Namespace) -> int:
    "Fetch, list or verify; 1 if a file is damaged. A damaged file doesn't end the round."
    damaged = 0
    for name, language in asked_corpora(options):
        if options.action == "list":
            print(f"{name:9} {language}  {describe_place(name, language)}")
        elif options.action == "fetch":
            print("\n".join(fetch_corpus(name, language)), flush=True)
        else:
            for file, state in check_files(name, language).items():
                print(f"{file}: {state}")
                damaged += state.startswith(("DAMAGED", "CHANGED"))
    return MISTAKE if damaged else DONE


# train --------------------------------------------------------------------------------------------


def refuse_unused(options: argparse.Namespace) -> None:
    "Raises ValueError for an option that the recipe would forget."
    if options.recipe in TRAINING_SETS:
        if options.epochs:
            raise ValueError(f"{options.recipe} is trained for --steps and not for --epochs")
        return
    for option in LARGE_ONLY:
        if hasattr(options, field(option)):
            what = (
                "a pair of your own"
                if isinstance(options.pairs, list)
                else options.recipe or "words"
            )
            raise ValueError(
                f"{option} belongs to the large runs ({', '.join(TRAINING_SETS)}), and {what} is"
                " none of them"
            )


def train_large(options: argparse.Namespace, began: float) -> int:
    "A run of chapter 21 with its own options; 75: not done yet."
    from transformer_lit.recipes import large_runs

    given = {
        field(option): getattr(options, field(option), settings.get("default"))
        for option, settings in RUN_OPTIONS.items()
    }
    given |= {"corpus": options.recipe, "folder": options.folder or Path("runs") / options.recipe}
    return large_runs.run(argparse.Namespace(**given), began)


def adapt_recipe(recipe: "Recipe", epochs: int | None, pairs: int | None) -> "Recipe":
    "The recipe with other epochs or pairs, where they were given."
    training = replace(recipe.training, epochs=epochs or recipe.training.epochs)
    return replace(recipe, training=training, pairs=pairs or recipe.pairs)


def run_train(options: argparse.Namespace) -> int:
    "Train, and leave run.json beside the model."
    began = time.monotonic()
    refuse_unused(options)
    files, name = own_files(options), options.recipe or "words"
    if name in TRAINING_SETS:
        return train_large(options, began)
    folder = options.folder or Path("runs") / (own_name(options) if files else name)
    may_write(folder)
    import torch

    from transformer_lit import data
    from transformer_lit.corpora import published as corpora
    from transformer_lit.recipes import recipes
    from transformer_lit.runtime.devices import default_device
    from transformer_lit.corpora.files import shipped

    device = default_device(options.device)
    torch.set_num_threads(types.threads(options.threads))
    if files:
        return train_own(options, files, folder, device)
    recipe = adapt_recipe(recipes.RECIPES[name], options.epochs, options.pairs)
    parts = data.load(recipe.corpus, recipe.language, recipe.words, recipe.pairs)
    translator, trainer = recipes.train_translator(folder, recipe, parts, device=device)
    archive = (
        shipped("data/pocket.tsv.gz")
        if recipe.corpus == "pocket"
        else corpora.tatoeba_archive(recipe.language)
    )
    again = command_again(
        "transformer-lit train", {"recipe": name, "epochs": options.epochs, "pairs": options.pairs}
    )
    record = recipes.score_and_record(folder, again, recipe, translator, trainer, parts, archive)
    tell(*map(score_line, record["scores"]))
    return DONE


def score_line(score: dict) -> str:
    "Set, measure, value, and which references were counted."
    which = {"first": ", first reference only", "all": ", all references"}.get(
        score.get("references", ""), ""
    )
    metric = score["metric"].replace("nats a token", "nats per token")  # as older records have it
    return f"{score['set']}: {metric}{which} {score['value']:.3f}"


# translate ----------------------------------------------------------------------------------------


def check_source(options: argparse.Namespace) -> None:
    "Raises ValueError if sentences were given in two ways, OSError for a file that can't be read."
    ways = {
        "a typed sentence": options.sentences,
        "--file": options.file,
        "--interactive": options.interactive,
    }
    given = [name for name, value in ways.items() if value]
    if len(given) > 1:
        raise ValueError(f"{given[0]} and {given[1]} were given: choose one of them")
    if options.file:
        readable_text(options.file)


def input_lines(options: argparse.Namespace) -> Iterator[str]:
    """The sentences: typed ones, a file's lines, or those of standard input.

    Bytes are UTF-8 wherever they come from. Raises ValueError for other bytes, and for a line of
    over 20,000 characters."""
    for text in options.sentences:
        if any("\ud800" <= sign <= "\udfff" for sign in text):
            raise ValueError("what was typed is not UTF-8 text")
        yield text
    if options.sentences:
        return
    name = str(options.file or "standard input")
    with open(options.file, "rb") if options.file else standard_input() as file:
        for line in text_lines(file, name, LONGEST):
            yield line.strip()


def next_batch(
    lines: Iterator[str], size: int, letters: int = 20_000
) -> tuple[list[str], ValueError | None]:
    """The next `size` lines; fewer where they hold over `letters`, or where a line can't be read:
    then that error as well."""
    batch: list[str] = []
    held = 0
    try:
        for line in lines:
            batch.append(line)
            held += len(line)
            if len(batch) == size or held > letters:
                break
    except ValueError as error:
        return batch, error
    return batch, None


def translate_lines(translate: Translate, lines: Iterable[str], size: int = 256) -> Iterator[str]:
    """The answers to `lines`, in their order, batch by batch, so that a text of any length takes
    the same memory."""
    total = len(lines) if isinstance(lines, Sized) else None
    lines = iter(lines)
    with bar(
        total, "translating", unit="sentence", quiet=sys.stdout is not None and sys.stdout.isatty()
    ) as shown:
        while True:
            batch, error = next_batch(lines, size)
            if batch:
                yield from translate(batch)
                shown.update(len(batch))
            if error:  # the lines before it have their answers
                raise error
            if not batch:
                return


def converse(translate: Translate) -> None:
    "Ask, answer, ask again; ends with the input or with Ctrl-C."
    print("One sentence per line; Ctrl-D ends.", file=sys.stderr)
    while True:
        try:
            line = input("> ").strip()
        except (EOFError, KeyboardInterrupt):
            print(file=sys.stderr)
            return
        except UnicodeDecodeError:
            print("that line isn't UTF-8 text", file=sys.stderr)
            continue
        try:
            if any("\ud800" <= sign <= "\udfff" for sign in line):
                raise ValueError("that line isn't UTF-8 text")
            if line:
                print(translate([line])[0], flush=True)
        except ValueError as error:  # too long, for one: the next line may be shorter
            print(error, file=sys.stderr)


def load_translator(folder: Path | None, device: str) -> "Translator":
    """The translator of a folder, or the shipped one, on a device. A device that isn't there is
    refused before anything is loaded."""
    from transformer_lit.translation import Translator
    from transformer_lit.runtime.devices import default_device

    place = default_device(device)
    translator = Translator.from_pretrained(folder)
    translator.model.to(place)
    return translator


def with_beam(translator: "Translator", beam: int, precision: str | None = None) -> Translate:
    """Its `translate` with a beam. Memory grows with the beam, so a wide one takes fewer sentences
    at a time.

    precision: None for the faster one, which depends on the machine."""
    how = {"precision": precision} if precision else {}
    return partial(
        translator.translate, beam_size=beam, batch_size=max(1, min(64, 256 // beam)), **how
    )


def with_confidence(translator: "Translator", folder: Path | None, beam: int) -> Translate:
    """Answers, each with a tab and how good it may be expected to be. FileNotFoundError if the
    folder doesn't say what sureness is worth."""
    from transformer_lit.serving import confidence
    from transformer_lit.corpora.files import shipped

    worth = confidence.load_calibration(folder or shipped("data/checkpoints/tatoeba-fr"))

    def translate(lines: list[str]) -> list[str]:
        said = confidence.translate_surely(translator, lines, beam, max(1, min(64, 256 // beam)))
        return [f"{one.text}\t{worth(one.log_probability):.0f}" if one.text else "" for one in said]

    return translate


def run_translate(options: argparse.Namespace) -> int:
    "One line per sentence, or a conversation."
    check_source(options)
    if options.interactive and sys.stdin is None:
        raise ValueError("there is no standard input to ask from: type a sentence, or give --file")
    import torch

    torch.set_num_threads(1)  # busy cores: more threads are slower
    translator = load_translator(options.folder, options.device)
    translate = (
        with_confidence(translator, options.folder, options.beam)
        if options.show_confidence
        else with_beam(translator, options.beam)
    )
    if (
        options.interactive
        or not (options.sentences or options.file)
        and sys.stdin is not None
        and sys.stdin.isatty()
    ):
        converse(translate)
        return DONE
    for answer in translate_lines(translate, input_lines(options)):
        print(answer, flush=True)
    return DONE


# evaluate -----------------------------------------------------------------------------------------


def check_writable(path: Path) -> None:
    "Raises OSError now if the report could not be written later."
    if not path.parent.is_dir():
        raise NotADirectoryError(
            f"{path.parent} is no folder, so {path.name} can't be written there"
        )
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise PermissionError(f"{path} can't be written")
    if path.is_symlink() or path.exists() and not path.is_file():
        raise PermissionError(
            f"{path} is no regular file, and writing would replace it: name another"
        )
    if path.exists():
        with contextlib.suppress(OSError, ValueError):
            if {"set", "one"} <= json_file(path).keys():
                return
        raise FileExistsError(
            f"{path} is there and is no report of scores, and writing would replace it: name"
            " another"
        )


def check_language(folder: Path | None, language: str) -> None:
    """Raises ValueError if the folder's translator doesn't translate English into `language`. None
    is the shipped one, into French."""
    read, found = "en", "fr" if folder is None else None
    for path in [folder / name for name in ("run.json", "translator.json")] if folder else []:
        with contextlib.suppress(
            OSError, ValueError, AttributeError, TypeError
        ):  # what is wrong there, loading says
            kept = json_file(path)
            kept = kept.get("recipe", kept)
            found = kept.get("language") or found
            read, found = kept.get("languages", [read, found])
    if read != "en" or found not in (None, *LANGUAGE["choices"]):
        raise ValueError(
            f"this translator reads {read} and says {found}, and no corpus has a test set for that:"
            f" --set {OWN} scores it on its own test, if it keeps one"
        )
    if found is not None and found != language:
        raise ValueError(
            f"this translator says {found} and not {language}: evaluate it with --language {found}"
        )


def test_asked(options: argparse.Namespace) -> str:
    """The name of the test set: what was typed, else the translator's own, else Tatoeba's. Raises
    ValueError if it has none of its own."""
    own = bool(options.folder) and (options.folder / OWN_TEST).is_file()
    name = options.set or (OWN if own and not options.language else "tatoeba")
    if name != OWN:
        check_language(options.folder, options.language or "fr")
    elif not own:
        raise ValueError(
            f"--set {OWN} is for a translator of your own pair, and there is no {OWN_TEST} in "
            f"{options.folder or 'the shipped one'}"
        )
    elif options.language:
        raise ValueError(f"--set {OWN} is in the translator's own language: leave --language out")
    return name


def run_evaluate(options: argparse.Namespace) -> int:
    """Translate a test set, score it, write the report. What can go wrong is asked before the
    translation."""
    check_writable(options.out)
    name, language = test_asked(options), options.language or "fr"
    import torch

    from transformer_lit import data
    from transformer_lit.custom_pair import own_report
    from transformer_lit.corpora.files import shipped, write_json
    from transformer_lit.reports import all_reports

    torch.set_num_threads(1)
    pocket = name == "pocket"
    translator = load_translator(
        options.folder or (shipped("data/checkpoints/pocket") if pocket else None), options.device
    )
    beam = with_beam(translator, options.beam, "fp32")  # the same scores on every machine

    def translate(lines: list[str]) -> list[str]:
        return list(translate_lines(beam, lines))

    if name == OWN:
        report = own_report.score_again(translate, options.folder)
    else:
        test = data.test_set(name, language)
        train = data.load("pocket" if pocket else "tatoeba", language)["train"]
        report = all_reports(translate, {name: test}, train, key=data.sentence_key)[name]
    for score in report["one"]:  # first, so that a full disk doesn't cost them
        print(f"{name}: {score['metric']} {score['value']:.1f}  {score['signature']}")
    write_json(options.out, {"set": name, "beam": options.beam, **report})
    return DONE


# export -------------------------------------------------------------------------------------------


def run_export(options: argparse.Namespace) -> int:
    """A folder for CTranslate2. The card of a translator goes with it, because the licence of its
    data does."""
    from transformer_lit.translation import Translator
    from transformer_lit.serving import ctranslate as serving
    from transformer_lit.corpora.files import shipped

    new_folder(options.out)
    serving.engine_library()
    home = options.folder or shipped("data/checkpoints/tatoeba-fr")
    card = home / "README.md"
    out = serving.export(
        Translator.from_pretrained(home),
        options.out,
        options.quantization,
        card if card.exists() else None,
    )
    print(
        f"{out}: ctranslate2.Translator reads it;"
        f" {shlex.join(['python', str(out / 'translate.py')])} \"...\" tries it"
    )
    return DONE


# The command --------------------------------------------------------------------------------------

RUN = {
    "data": run_data,
    "train": run_train,
    "translate": run_translate,
    "evaluate": run_evaluate,
    "export": run_export,
}
AFTER_STOP = {
    "train": "the same command goes on from the last checkpoint",
    "data": "the same command goes on from where it was",
    "translate": "the answers so far stand",
}


def main(arguments: list[str] | None = None) -> int:
    "Run one command; a mistake is one sentence and exit status 1."
    for stream in sys.stdout, sys.stderr:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # an encoding without é is no reason to stop
    if (
        hasattr(sys.stdout, "reconfigure")
        and not sys.stdout.isatty()
        and not os.environ.get("PYTHONIOENCODING")
    ):
        sys.stdout.reconfigure(
            encoding="utf-8"
        )  # into a file or a pipe as it comes in, whatever the locale
    options: argparse.Namespace | None = None

    def parse() -> int:
        nonlocal options
        options = parser().parse_args(arguments)
        return DONE

    guarded(parse)
    if options is None:  # nobody was left to read the help
        return DONE
    return guarded(
        partial(RUN[options.command], options),
        AFTER_STOP.get(options.command, "nothing was written"),
    )


if __name__ == "__main__":
    sys.exit(main())
