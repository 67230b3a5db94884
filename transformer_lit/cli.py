"""The command `transformer-lit`: data, train, translate, evaluate, export, doctor."""

# `--help` is fast because whatever imports torch is imported in the command that needs it. Options
# have no defaults here. What was typed is passed by name to the function that runs the command, or
# becomes a setting of the recipe, and what neither takes is refused: no option can be forgotten.
#
# Exit statuses: 0 done; 1 a mistake, in one sentence on standard error; 2 a wrong option; 75 time
# is up (--max-minutes), the same command resumes; 130 Ctrl-C. Anything else is a fault of ours and
# shows its traceback.
import inspect
import math
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from transformer_lit.options import build_parser

MISTAKE, TIME_UP, INTERRUPTED = 1, 75, 130


def run_data(action: str, names: Sequence[str] = (), language: str | None = None) -> int:
    "Download, list or verify; 1 if a file is damaged, which doesn't end the round."
    from transformer_lit.data import CORPUS_LANGUAGES

    wanted = [
        (name, tag)
        for name in names or CORPUS_LANGUAGES
        for tag in CORPUS_LANGUAGES.get(name, ())
        if language in (None, tag)
    ]
    unknown = {*names} - {name for name, _ in wanted}
    if unknown or not wanted or action == "download" and not names:
        known = ", ".join(
            f"{name} ({' or '.join(tags)})" for name, tags in CORPUS_LANGUAGES.items()
        )
        raise ValueError(f"choose from the datasets that there are: {known}")
    damaged = False
    for name, tag in wanted:
        for line in data_lines(action, name, tag):
            print(line, flush=True)
            damaged |= "DAMAGED" in line
    return MISTAKE * damaged


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
        parts = data.load_corpus(name, language)
        sizes = ", ".join(f"{part} {len(pairs):,}" for part, pairs in parts.items())
        yield f"{name} {language}: {sizes}"
        for path in map(download.find_cached, names):
            yield f"  {files.sha256_file(path)}  {path}"


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
    parts = data.load_corpus(chosen.corpus, chosen.language, chosen.words, chosen.pairs)
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
    if languages is None:
        raise ValueError(f"what is in {pairs[0]}? Give both languages, as --languages en-de")
    from transformer_lit.custom_pair.train import train_on_files
    from transformer_lit.runtime.devices import default_device

    folder = output_dir or Path("runs") / "-".join(languages[::-1] if reverse else languages)
    train_on_files(
        pairs, languages, folder, command, reverse, dict(settings), default_device(device),
        extra_train, exclude, no_langid_filter,
    )  # fmt: skip
    return 0


def train_at_scale(
    command, recipe, output_dir=None, data_dir=None, preset="paper", size="base", settings=(),
    max_minutes=math.inf, workers=1, device="auto",
) -> int:  # fmt: skip
    "A training set of chapter 21; 75 if --max-minutes were over first."
    deadline = time.monotonic() + 60 * max_minutes
    from transformer_lit.recipes import large
    from transformer_lit.runtime.distributed import rank

    experiment = large.configure_experiment(recipe, preset, size, dict(settings), device)
    folder = output_dir or Path("runs") / Path(recipe).name
    store = data_dir or Path("runs") / f"store-{Path(recipe).name}"
    record = large.run_experiment(experiment, folder, store, workers, deadline, command, device)
    if rank():
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


def run_translate(
    sentences=(), file=None, interactive=False, show_confidence=False, glossary=None,
    model=Path("open-fr"), beam_size=4, device="auto",
) -> int:  # fmt: skip
    "One line per sentence, or a conversation."
    from transformer_lit.serving.glossary import load_glossary, with_glossary
    from transformer_lit.serving.lines import input_lines, translate_lines, typed_lines

    terms = load_glossary(glossary) if glossary else {}
    translator, folder = load_translator(model, device)
    search = dict(beam_size=beam_size, batch_size=min(64, 256 // beam_size))  # a matter of memory
    translate = partial(translator.translate, **search)
    if show_confidence:
        from transformer_lit.serving import confidence

        expected_chrf = confidence.load_calibration(folder)

        def translate(lines):
            scored = confidence.translate_with_scores(translator, lines, **search)
            return [f"{t.text}\t{expected_chrf(t.log_prob):.0f}" for t in scored]

    if terms:
        translate = with_glossary(translate, terms)
    if interactive or not (sentences or file) and sys.stdin.isatty():
        answers = translate_lines(translate, typed_lines(), size=1)
    else:
        answers = translate_lines(translate, input_lines(sentences, file))
    for answer in answers:  # a line of marks alone has an empty second column
        print(answer + "\t" * (show_confidence and "\t" not in answer), flush=True)
    return 0


def run_evaluate(test_set=None, output=None, model=None, beam_size=4, device="auto") -> int:
    "Translate a test set, score it, write the report; what can go wrong is checked first."
    from transformer_lit import data, evaluation
    from transformer_lit.corpora.files import write_json
    from transformer_lit.custom_pair import report as own_report

    usual = "pocket" if test_set == "pocket" else "open-fr"
    translator, folder = load_translator(model or Path(usual), device)
    translate = partial(
        translator.translate,
        beam_size=beam_size,
        batch_size=min(64, 256 // beam_size),
        precision="fp32",
    )
    own = (folder / own_report.TEST).is_file()
    test_set = test_set or ("own" if own else "tatoeba")
    output = output or Path(f"scores-{test_set}.json")
    if output.suffix != ".json" or not os.access(output.parent, os.W_OK):
        raise ValueError(f"{output} can't be written: name a .json file in a folder that is there")
    if test_set == "own":
        if not own:
            raise ValueError(f"{folder} has no test set of its own, {own_report.TEST}")
        report = own_report.score_again(translate, folder)
    else:
        source, target = translator.languages or ("en", "fr")
        if source != "en":
            raise ValueError(f"{folder} translates {source}-{target}, and {test_set} is English")
        sources, references = data.load_test_set(test_set, target)
        train = data.load_corpus("pocket" if test_set == "pocket" else "tatoeba", target)["train"]
        english, targets = zip(*train)
        rarity = evaluation.min_word_frequency(sources, evaluation.word_frequencies(english))
        report = evaluation.evaluation_report(
            translate(sources), references, sources, rarity, targets
        )
    for score in report["one"]:  # first, so that a full disk doesn't cost them
        print(f"{test_set}: {score['metric']} {score['value']:.1f}  {score['signature']}")
    print(f"{test_set}: length ratio {report['one'][0]['length_ratio']:.3f}")
    write_json(output, {"set": test_set, "beam": beam_size, **report})
    return 0


def run_export(output: Path, model=Path("open-fr"), quantization="float32") -> int:
    "A folder for CTranslate2; the model card goes with it, because the data's license does."
    from transformer_lit.serving import ctranslate

    translator, folder = load_translator(model, "cpu")
    ctranslate.export(translator, output, quantization, folder / "README.md")
    print(f'{output}: ctranslate2.Translator reads it; python {output}/translate.py "..." tries it')
    return 0


def run_doctor(case: Path, json: bool = False) -> int:
    "Examine somebody's own Transformer; 1 if it has a fault."
    from transformer_lit.doctor.__main__ import main

    return main(case, json)


COMMANDS = {
    "data": run_data,
    "train": run_train,
    "translate": run_translate,
    "evaluate": run_evaluate,
    "export": run_export,
    "doctor": run_doctor,
}


def exit_status(run: Callable[[], int]) -> int:
    "Run a command: a mistake is one sentence and status 1, Ctrl-C 130; anything else is raised."
    status = 141  # as that of a program which the signal for a closed pipe ends
    try:
        try:
            status = run()
        finally:  # here a reader that is gone, as after `| head`, shows
            sys.stdout.flush()
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return status
    except KeyboardInterrupt as stop:  # a training says where it is saved
        print(f"\ntransformer-lit: {str(stop) or 'interrupted'}", file=sys.stderr)
        return INTERRUPTED
    except ModuleNotFoundError as error:
        message = f"{error.name} is missing: if it is a package, pip install {error.name}"
    except (OSError, ValueError, OverflowError, MemoryError, EOFError, RecursionError) as error:
        message = re.sub(r"\[Errno \d+\] ", "", str(error)) or "out of memory"
        if isinstance(error, OSError) and error.filename is not None:
            message = f"{error.filename}: {str(error.strerror).lower()}"
    except Exception as error:
        spoilt = type(error) is Exception  # of a file, by tokenizers
        if not spoilt and not re.search("out of memory|to allocate", str(error)):
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
        typed = vars(build_parser(COMMANDS).parse_args(arguments))
        run = typed.pop("run")
        if run is run_train:
            typed["command"] = shlex.join(["transformer-lit", *arguments])
        return run(**typed)

    return exit_status(run_command)
