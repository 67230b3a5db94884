"""The command `transformer-lit`: what its options are, what each command is given and gives, and
what it refuses."""

import argparse
import dataclasses
import io
import math
import os
import subprocess
import sys
import traceback
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

import transformer_lit
from transformer_lit import data, wmt
from transformer_lit import cli, commands, options as types
from transformer_lit.recipes import training_sets
from transformer_lit.custom_pair import own_report
from transformer_lit.recipes import large_runs, recipes, run_options
from transformer_lit.runtime import devices, progress
from transformer_lit.serving import ctranslate as serving
from transformer_lit.corpora.files import shipped
from transformer_lit.translation import from_pretrained

PACKAGE = Path(transformer_lit.__file__).parent


def parse(line):
    return cli.parser().parse_args(line.split())


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def echo(monkeypatch):
    "A translator that gives back what it is given; how it was asked for."
    found = Mock(
        return_value=Mock(
            translate=lambda lines, beam_size, batch_size, precision=None: list(lines)
        )
    )
    monkeypatch.setattr("transformer_lit.translation.Translator.from_pretrained", found)
    return found


@pytest.fixture
def threads(monkeypatch):
    found = Mock()
    monkeypatch.setattr(torch, "set_num_threads", found)
    return found


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "abc"
    path.write_text("abc")
    return path


# Options ------------------------------------------------------------------------------------------


def test_a_number_out_of_range_is_a_slip():
    beam, refused = types.whole(1, 64), []
    for word in ("7", "1", "64", "65", "0", "-1", "2.5", "two", "9" * 30):
        try:
            assert beam(word) == int(word)
        except argparse.ArgumentTypeError as error:
            refused.append(str(error).split(" is ")[0])
    assert refused == ["65", "0", "-1", "2.5", "two", "9" * 30]
    assert parse("translate --beam 64").beam == 64 and refuses("translate --beam 65", "64")


def test_what_nobody_typed_has_a_default():
    train = parse("train --epochs 2")
    assert (train.epochs, train.pairs, train.recipe, train.folder, train.threads) == (
        2,
        None,
        None,
        None,
        None,
    )
    asked = parse("translate a b")
    assert asked.sentences == ["a", "b"] and asked.beam == 4 and not asked.interactive
    plain = parse("data")
    assert (plain.action, plain.names, plain.language) == ("list", [], None)
    scored = parse("evaluate")
    assert (scored.set, scored.language, scored.beam) == (None, None, 4)
    assert scored.out == Path("scores.json") and scored.folder is None
    made = parse("export out")
    assert (made.out, made.folder, made.quantization) == (Path("out"), None, "float32")


def test_what_was_typed_arrives():
    given = parse("data fetch tatoeba pocket")
    assert (given.action, given.names) == ("fetch", ["tatoeba", "pocket"])
    typed = parse("translate --file a --folder b")
    assert (typed.file, typed.folder) == (Path("a"), Path("b"))
    assert parse("train --pairs 3").pairs == 3


def test_names_that_stand_twice_agree():
    assert cli.RECIPES == tuple(recipes.RECIPES) and cli.TEST_SETS == data.TEST_SETS
    assert cli.QUANTIZATIONS == serving.QUANTIZATIONS and cli.OWN_TEST == own_report.TEST
    assert set(cli.OPTIONS) == set(cli.COMMANDS) == set(cli.RUN)


def refuses(line, words):
    "Does the parser end with status 2 and these words?"
    err, kept = io.StringIO(), sys.stderr
    sys.stderr = err
    try:
        parse(line)
    except SystemExit as end:
        return (
            end.code == 2
            and err.getvalue().startswith("usage: transformer-lit")
            and words in err.getvalue()
        )
    finally:
        sys.stderr = kept
    return False


@pytest.mark.parametrize(
    "line",
    [
        "",
        "data eat",
        "data list --language it",
        "train --recipe none",
        "evaluate --set none",
        "train --way best",
        "train --dropout 1",
    ],
)
def test_a_wrong_option_is_status_2_and_says_how_the_command_is_used(line):
    assert refuses(line, "error: ")


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["--version"])
    assert end.value.code == 0 and capsys.readouterr().out == transformer_lit.__version__ + "\n"


# data ---------------------------------------------------------------------------------------------


def test_which_corpora_are_asked_for():
    pairs = lambda line: cli.asked_corpora(parse(f"data {line}"))
    assert len(pairs("")) == 7
    assert pairs("fetch tatoeba --language de") == [("tatoeba", "de")]
    assert pairs("verify multi30k pocket") == [
        ("multi30k", "fr"),
        ("multi30k", "de"),
        ("pocket", "fr"),
    ]
    for line, words in (
        ("list pocked", "no pocked; there are: pocket"),
        ("fetch", "fetch what; there are"),
        ("list pocket --language de", "none of the corpora named has de"),
    ):
        with pytest.raises(ValueError, match=words):
            pairs(line)


def test_where_a_corpus_lies_or_what_fetches_it(monkeypatch):
    places = {
        "tatoeba/fra-eng.zip": Path("x/tatoeba/fra-eng.zip"),
        "multi30k/val.de.gz": Path("x/multi30k/val.de.gz"),
    }
    monkeypatch.setattr("transformer_lit.corpora.download.find_cached", places.get)
    assert cli.describe_place("pocket", "fr") == "comes with the book"
    assert cli.describe_place("tatoeba", "fr") == "in x/tatoeba"
    assert (
        cli.describe_place("tatoeba", "de")
        == "not here; transformer-lit data fetch tatoeba --language de"
    )
    assert cli.describe_place("multi30k", "de").startswith(
        "1 of 6 files here; transformer-lit data"
    )


def test_fetch_counts_hashes_and_names_what_is_too_large(monkeypatch, text):
    monkeypatch.setattr("transformer_lit.corpora.download.find_cached", lambda file: text)
    monkeypatch.setattr(
        data, "load", lambda name, language: {"train": [("a", "b")] * 2000, "test": []}
    )
    few, lines = list(cli.fetch_corpus("tatoeba", "fr")), list(cli.fetch_corpus("wmt14", "de"))
    assert few[0] == "tatoeba fr: train 2,000, test 0"
    assert len(few) == 2 and few[1].startswith("  ba7816bf8f01cfea4141")
    assert [line[:14] for line in lines[-3:]] == ["  not fetched,"] * 3
    assert "MB: https://www.statmt.org/wmt13/" in lines[-3]


def test_verify_looks_at_every_file(monkeypatch):
    monkeypatch.setattr(
        "transformer_lit.corpora.published.state", lambda file, language: f"{language}: {file[-6:]}"
    )
    found = cli.check_files("tatoeba", "de") | cli.check_files("multi30k", "fr")
    assert found["tatoeba/deu-eng.zip"] == "de: ng.zip" and len(found) == 7
    assert cli.check_files("pocket", "fr")["pocket"].startswith("whole, ")


def test_one_damaged_file_is_status_1_and_does_not_end_the_round(monkeypatch, capsys):
    monkeypatch.setattr(cli, "describe_place", lambda n, l: "there")
    monkeypatch.setattr(cli, "fetch_corpus", lambda n, l: [n, l])
    monkeypatch.setattr(cli, "check_files", lambda n, l: {"a": "DAMAGED: x", "b": "whole"})
    said = lambda: capsys.readouterr().out
    assert cli.run_data(parse("data list pocket")) == 0 and said() == "pocket    fr  there\n"
    assert cli.run_data(parse("data fetch pocket")) == 0 and said() == "pocket\nfr\n"
    assert (
        cli.run_data(parse("data verify tatoeba")) == 1
        and said() == "a: DAMAGED: x\nb: whole\n" * 2
    )
    monkeypatch.setattr(cli, "check_files", lambda n, l: {"a": "CHANGED: x"})
    assert cli.run_data(parse("data verify pocket")) == 1 and said() == "a: CHANGED: x\n"
    monkeypatch.setattr(cli, "check_files", lambda n, l: {"a": "not here"})
    assert cli.run_data(parse("data verify pocket")) == 0 and said() == "a: not here\n"


# train --------------------------------------------------------------------------------------------


def test_the_same_command_again():
    again = commands.command_again
    assert again("a b", {"steps": 5, "look_every": None, "peak": 0.5}) == "a b --steps 5 --peak 0.5"
    assert again("a", {"seeds": [1, 2]}) == "a --seeds 1 2"
    assert (
        again("a", {"compile": True, "dynamic": False, "way": "our way"})
        == "a --compile --no-dynamic --way 'our way'"
    )


def test_a_recipe_is_copied_and_what_was_typed_replaces_a_field():
    words = recipes.RECIPES["words"]
    other = cli.adapt_recipe(words, 2, 30)
    assert (other.training.epochs, other.pairs) == (2, 30)
    assert (
        dataclasses.replace(other, training=words.training, pairs=words.pairs)
        == words
        == cli.adapt_recipe(words, None, None)
    )
    assert cli.adapt_recipe(words, 2, None).pairs == words.pairs


def test_a_score_says_which_references_were_counted():
    line = lambda value, **more: cli.score_line(
        {"set": "test", "metric": "BLEU", "value": value, **more}
    )
    assert line(30.5, references="first") == "test: BLEU, first reference only 30.500"
    assert line(41.25, references="all") == "test: BLEU, all references 41.250"
    assert line(1.0) == "test: BLEU 1.000"


@pytest.fixture
def untrained(monkeypatch):
    "Doubles of what loads and trains: load, train_translator, score_and_record."
    record = {"scores": [{"set": "none", "metric": "a double", "value": 0}]}
    made = {
        "load": Mock(return_value={"train": ["a", "b"], "test": ["c"]}),
        "train_translator": Mock(return_value=("translator", "trainer")),
        "score_and_record": Mock(return_value=record),
    }
    for name, double in made.items():
        monkeypatch.setattr(data if name == "load" else recipes, name, double)
    monkeypatch.setattr(
        "transformer_lit.corpora.published.tatoeba_archive", lambda language: f"archive {language}"
    )
    return made


def test_train_passes_on_what_was_typed(untrained, threads, capsys):
    words, options = recipes.RECIPES["words"], parse("train --epochs 2 --threads 3")
    assert cli.run_train(options) == 0 and capsys.readouterr().out == "none: a double 0.000\n"
    folder, recipe, parts = untrained["train_translator"].call_args.args
    assert folder == Path("runs/words") and parts == untrained["load"].return_value
    assert recipe == cli.adapt_recipe(words, 2, None)
    assert untrained["load"].call_args.args == ("tatoeba", "fr", words.words, words.pairs)
    again = "transformer-lit train --recipe words --epochs 2"
    assert untrained["score_and_record"].call_args.args == (
        folder,
        again,
        recipe,
        "translator",
        "trainer",
        parts,
        "archive fr",
    )
    threads.assert_called_once_with(3)
    assert dataclasses.replace(recipe, training=words.training) == words
    assert untrained["train_translator"].call_args.kwargs == {"device": devices.default_device()}
    assert vars(parse(again.split(" ", 1)[1])) == vars(options) | {
        "threads": None,
        "recipe": "words",
    }, "the record's command trains something else"


def test_train_pocket_and_german(untrained, threads):
    assert cli.run_train(parse("train --recipe pocket --folder f")) == 0
    assert untrained["score_and_record"].call_args.args[-1].name == "pocket.tsv.gz"
    assert untrained["train_translator"].call_args.args[0] == Path("f")
    assert cli.run_train(parse("train --recipe tatoeba-de --pairs 9")) == 0
    assert (
        untrained["score_and_record"].call_args.args[1]
        == "transformer-lit train --recipe tatoeba-de --pairs 9"
    )
    assert untrained["score_and_record"].call_args.args[-1] == "archive de"


@pytest.mark.parametrize("gpu", [True, False])
def test_a_recipe_trains_on_the_gpu_where_there_is_one(gpu, monkeypatch, tmp_path, threads):
    """The device `meta` stands for the GPU: it holds shapes and no numbers, so the run ends before
    its first step."""

    class Reached(Exception):
        pass

    def prepare(translator, *_):
        raise Reached({weight.device.type for weight in translator.model.parameters()}.pop())

    device = torch.device("meta" if gpu else "cpu")
    monkeypatch.setattr(devices, "default_device", lambda *_: device)
    monkeypatch.setattr(recipes, "prepare_training", prepare)
    some = {name: data.load("pocket")[name][:200] for name in ("train", "valid", "test")}
    monkeypatch.setattr(data, "load", lambda *_: some)
    with pytest.raises(Reached, match=device.type):
        cli.run_train(parse(f"train --recipe tatoeba-fr --folder {tmp_path / 'run'}"))


def test_eight_frames_from_the_command_to_the_optimisers_step(monkeypatch, tmp_path):
    """`train --recipe pocket`: the frames of our own files between the command and torch's
    optimiser."""

    class Reached(BaseException):
        pass

    found = []

    def step(*_, **__):
        found.extend(
            f"{Path(frame.filename).relative_to(PACKAGE)}: {frame.name}"
            for frame in traceback.extract_stack()
            if Path(frame.filename).is_relative_to(PACKAGE)
        )
        raise Reached()

    monkeypatch.setattr(torch.optim.Adam, "step", step)
    with pytest.raises(Reached):
        cli.main(
            [
                "train",
                "--recipe",
                "pocket",
                "--folder",
                str(tmp_path / "run"),
                "--pairs",
                "300",
                "--epochs",
                "1",
                "--threads",
                "1",
            ]
        )
    assert found[0] == "transformer_lit/cli.py: main" and len(found) <= 8, found
    print("\n".join(found))


def test_a_translator_that_comes_along_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = lambda name: cli.parser().parse_args(["translate", "--folder", name]).folder
    assert asked("pocket") == shipped("data/checkpoints/pocket")
    assert asked("nowhere") == Path("nowhere") and asked("../pocket") == Path("../pocket")
    Path("pocket").mkdir()
    assert asked("pocket") == Path("pocket"), "your own folder comes first"


# train, the large runs ----------------------------------------------------------------------------


def test_train_takes_every_option_of_a_large_run(monkeypatch):
    train = cli.parser()._subparsers._group_actions[0].choices["train"]
    names = {name for action in train._actions for name in action.option_strings}
    assert {name for action in large_runs.parser()._actions for name in action.option_strings} - {
        "--corpus"
    } <= names
    passed = []
    monkeypatch.setattr(
        large_runs, "run", lambda options, began: passed.append((options, began)) or 75
    )
    typed = (
        "--way ours --size tiny --store s --minutes 9 --vocabulary 8000 --sample 8 --pairs 9"
        " --steps 5 --look-every 6 --keep-every 2 --lines 4 --max-tokens 2048 --warmup 2 --seed 3"
        " --checkpoint-every 4 --workers 2 --threads 1 --peak 1e-3 --dropout 0.3 --precision fp32"
        " --device cpu --no-compile --dynamic --temperature 2 --begin-with book"
    )
    assert {word for word in typed.split() if word.startswith("--")} | {
        "--folder",
        "--no-dynamic",
        "--compile",
    } == {
        name
        for action in large_runs.parser()._actions
        for name in action.option_strings
        if name not in ("--help", "-h", "--corpus")
    }
    assert cli.main(["train", "--recipe", "general-en-fr", "--folder", "f", *typed.split()]) == 75
    ((options, began),) = passed
    alone = large_runs.parser().parse_args(
        ["--corpus", "general-en-fr", "--folder", "f", *typed.split()]
    )
    assert vars(options) == vars(alone) and math.isfinite(began)
    assert large_runs.command_line(options) == large_runs.command_line(alone)
    assert cli.main(["train", "--recipe", "wmt14-en-de"]) == 75
    bare, alone = passed[1][0], large_runs.parser().parse_args([])
    assert vars(bare) == vars(alone) | {"folder": Path("runs/wmt14-en-de")}


@pytest.mark.parametrize(
    "line, words",
    [
        (
            "train --recipe wmt14-en-de --epochs 3",
            "wmt14-en-de is trained for --steps and not for --epochs",
        ),
        ("train --steps 5", "--steps belongs to the large runs"),
        ("train --recipe pocket --minutes 5", "--minutes belongs"),
        ("train --recipe pocket --size base", "--size belongs to the large runs"),
        ("train --way paper", "--way belongs to the large runs"),
        ("train --recipe tatoeba-fr --no-compile", "--compile belongs"),
        ("train --way ours", "and words is none of them"),
    ],
)
def test_an_option_that_would_be_forgotten_is_refused(line, words, monkeypatch, capsys):
    monkeypatch.setattr(large_runs, "run", None)
    assert cli.main(line.split()) == 1
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


def test_the_help_of_the_large_runs_has_the_papers_numbers():
    paper = {**vars(wmt.WAYS["paper"]), **vars(wmt.PAPER)}
    assert run_options.PAPER_DEFAULTS == {name: paper[name] for name in run_options.PAPER_DEFAULTS}
    assert (
        run_options.WAYS == tuple(wmt.WAYS)
        and training_sets.TRAINING_SETS is run_options.TRAINING_SETS
    )
    assert run_options.field("--look-every") == "look_every"


# translate ----------------------------------------------------------------------------------------


def test_two_sources_are_refused_and_a_missing_file_is_named():
    for line, words in (
        ("a --file x", "a typed sentence and --file"),
        ("--file x --interactive", "--file and --interactive"),
        ("a --interactive", "a typed sentence and --interactive"),
        ("--file no/such", "no/such"),
    ):
        with pytest.raises((OSError, ValueError), match=words):
            cli.check_source(parse(f"translate {line}"))
    assert cli.check_source(parse("translate a")) is cli.check_source(parse("translate")) is None


def test_lines_are_typed_or_from_a_file_or_from_standard_input(text, monkeypatch):
    text.write_text("One.\n\nDeux à deux.\n", encoding="utf-8")
    assert list(cli.input_lines(parse(f"translate --file {text}"))) == ["One.", "", "Deux à deux."]
    monkeypatch.setattr(sys, "stdin", io.StringIO("One.\nTwo."))
    assert list(cli.input_lines(parse("translate a b"))) == ["a", "b"]
    assert list(cli.input_lines(parse("translate"))) == ["One.", "Two."]
    with pytest.raises(ValueError, match="not UTF-8"):
        list(cli.input_lines(cli.parser().parse_args(["translate", "\udce9"])))


def test_a_file_that_is_no_text_is_refused(text):
    asked = parse(f"translate --file {text}")
    for spoilt in "é".encode("latin-1"), "é".encode("utf-16"):
        text.write_bytes(spoilt)
        with pytest.raises(ValueError) as caught:
            list(cli.input_lines(asked))
        assert str(caught.value) == f"line 1 of {text} is not UTF-8 text: convert it first"
    text.write_bytes("One.\r\n".encode("utf-8-sig") + b"x" * 20_001)
    lines = cli.input_lines(asked)
    assert next(lines) == "One."
    with pytest.raises(ValueError) as caught:
        next(lines)
    assert str(caught.value).startswith(f"line 2 of {text} has over 20,000")


def test_answers_come_batch_by_batch_in_their_order():
    upper = Mock(side_effect=lambda batch: [line.upper() for line in batch])
    assert list(cli.translate_lines(upper, iter("abcde"), size=2)) == list("ABCDE")
    assert [len(call.args[0]) for call in upper.call_args_list] == [2, 2, 1]
    assert list(cli.translate_lines(upper, [])) == []
    assert cli.next_batch(iter("abc"), 3, letters=1) == (
        ["a", "b"],
        None,
    ), "long lines make smaller batches"
    assert cli.translate_lines.__defaults__ == (256,) and cli.next_batch.__defaults__ == (20_000,)

    def broken():
        yield from "ab"
        raise ValueError("line 3")

    answers = cli.translate_lines(upper, broken())
    assert [next(answers), next(answers)] == ["A", "B"], "what came before a bad line is answered"
    with pytest.raises(ValueError, match="line 3"):
        next(answers)


@pytest.mark.parametrize(
    "out, word",
    [(io.StringIO(), "translating"), (Terminal(), "")],
    ids=["into a file", "onto a terminal"],
)
def test_progress_shows_where_the_answers_go_elsewhere(out, word, monkeypatch):
    monkeypatch.setattr(sys, "stderr", err := Terminal())
    monkeypatch.setattr(sys, "stdout", out)
    list(cli.translate_lines(list, "abc", 2))
    assert word in err.getvalue() and bool(word) == bool(err.getvalue())


def test_a_conversation_ends_with_the_input(monkeypatch, capsys):
    monkeypatch.setattr("builtins.input", Mock(side_effect=["hello", "", "  you ", EOFError]))
    cli.converse(lambda batch: [line.upper() for line in batch])
    said = capsys.readouterr()
    assert said.out.split() == ["HELLO", "YOU"] and said.err.endswith("Ctrl-D ends.\n\n")


@pytest.mark.parametrize("beam, rows", [(1, 64), (4, 64), (64, 4)])
def test_a_wide_beam_gets_fewer_sentences_at_a_time(beam, rows):
    translator = Mock()
    cli.with_beam(translator, beam)(["a"])
    translator.translate.assert_called_once_with(["a"], beam_size=beam, batch_size=rows)


def test_translate_answers_one_line_per_sentence_on_one_thread(echo, threads, capsys):
    assert cli.run_translate(parse("translate a b")) == 0
    assert capsys.readouterr().out == "a\nb\n"
    echo.assert_called_once_with(None)
    threads.assert_called_once_with(1)


@pytest.mark.parametrize(
    "there, typed, used",
    [
        (True, "", "cuda"),
        (False, "", "cpu"),
        (True, "--device cpu", "cpu"),
        (True, "--device cuda", "cuda"),
    ],
)
@pytest.mark.parametrize("line", ["translate a", "evaluate --set pocket"])
def test_the_model_is_where_it_was_asked_for_before_it_translates(
    there, typed, used, line, echo, threads, monkeypatch, text
):
    "`evaluate` and `translate` stayed on the processor of a machine with a GPU."
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(
        "transformer_lit.reports.all_reports", Mock(return_value={"pocket": {"one": []}})
    )
    out = f"--out {text.parent / 'scores.json'}" if line.startswith("evaluate") else ""
    assert cli.main(f"{line} {typed} {out}".split()) == 0
    echo.return_value.model.to.assert_called_once_with(torch.device(used))


@pytest.mark.parametrize("line", ["translate a", "evaluate", "train", "train --recipe wmt14-en-de"])
@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_device_that_is_not_there_is_one_sentence_before_anything_is_loaded(
    line, device, echo, untrained, monkeypatch, tmp_path, capsys
):
    monkeypatch.chdir(tmp_path)
    for library in torch.cuda, torch.backends.mps:
        monkeypatch.setattr(library, "is_available", lambda: False)
    assert cli.main([*line.split(), "--device", device]) == 1
    said = capsys.readouterr().err
    assert (
        "PyTorch sees no" in said
        and f"leave --device {device} out" in said
        and said.count("\n") == 1
    )
    assert (
        not echo.called and not untrained["load"].called and not list(tmp_path.rglob("*"))
    ), "nothing is loaded and nothing is left"


def test_at_a_terminal_it_converses(echo, threads, monkeypatch, capsys):
    for line, times, out in (
        ("translate --interactive", 1, ""),
        ("translate", 1, ""),
        ("translate a", 0, "a\n"),
    ):
        monkeypatch.setattr(cli, "converse", talk := Mock())
        monkeypatch.setattr(sys, "stdin", Terminal("x\n"))
        assert cli.run_translate(parse(line)) == 0
        assert (talk.call_count, capsys.readouterr().out) == (times, out), line


# evaluate -----------------------------------------------------------------------------------------


def test_a_report_that_cannot_be_written_is_refused_first(text):
    assert cli.check_writable(text.parent / "new.json") is None
    with pytest.raises(FileExistsError, match="no report of scores"):
        cli.check_writable(text)
    with pytest.raises(PermissionError):
        cli.check_writable(text.parent)
    with pytest.raises(NotADirectoryError):
        cli.check_writable(text.parent / "no" / "x.json")
    for name, make in (("link.json", lambda path: path.symlink_to(text)), ("pipe", os.mkfifo)):
        make(text.parent / name)
        with pytest.raises(PermissionError, match="no regular file"):
            cli.check_writable(text.parent / name)


def test_a_translator_is_scored_in_its_language(tmp_path):
    (tmp_path / "run.json").write_text('{"recipe": {"language": "de"}}')
    assert cli.check_language(None, "fr") is cli.check_language(tmp_path, "de") is None
    assert cli.check_language(tmp_path / "none", "de") is None, "nothing is known"
    for folder, language in (None, "de"), (tmp_path, "fr"):
        with pytest.raises(ValueError, match=f"and not {language}"):
            cli.check_language(folder, language)


def test_evaluate_reports_what_was_measured(echo, threads, monkeypatch, text):
    score = {"metric": "BLEU", "value": 41.25, "signature": "nrefs:1"}
    reports, test = Mock(return_value={"pocket": {"one": [score], "é": 1}}), (
        ["a", "b", "c"],
        [["A"], ["B"], ["C"]],
    )
    monkeypatch.setattr(data, "test_set", lambda name, language: test)
    monkeypatch.setattr(data, "load", lambda name, language: {"train": [(name, language)]})
    monkeypatch.setattr("transformer_lit.reports.all_reports", reports)
    monkeypatch.setattr(cli, "check_writable", looked := Mock())
    assert cli.run_evaluate(parse(f"evaluate --set pocket --beam 2 --out {text}")) == 0
    looked.assert_called_once_with(text)
    threads.assert_called_once_with(1)
    assert reports.call_args.kwargs == {"key": data.sentence_key}
    translate, sets, training = reports.call_args.args
    assert (
        sets == {"pocket": test}
        and training == [("pocket", "fr")]
        and translate(["a", "b"]) == ["a", "b"]
    )
    assert echo.call_args.args[0].parts[-2:] == (
        "checkpoints",
        "pocket",
    ), "pocket sentences are for the pocket translator"
    assert text.read_text(encoding="utf-8").startswith(
        '{\n "set": "pocket",\n "beam": 2,\n "one": ['
    )
    assert "é" in text.read_text(encoding="utf-8") and [
        path.name for path in text.parent.iterdir()
    ] == ["abc"], "not whole or not at all"
    reports.return_value = {"tatoeba": {"one": []}}
    assert cli.run_evaluate(parse(f"evaluate --out {text}")) == 0
    assert echo.call_args.args == (None,) and reports.call_args.args[2] == [("tatoeba", "fr")]


# export -------------------------------------------------------------------------------------------


def test_export_passes_on_translator_weights_and_card(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(
        "transformer_lit.translation.Translator.from_pretrained", lambda folder: folder
    )
    monkeypatch.setattr(serving, "export", written := Mock(side_effect=lambda *given: given[1]))
    monkeypatch.setattr(serving, "engine_library", library := Mock())
    monkeypatch.setattr(cli, "new_folder", new := Mock())
    assert (
        cli.run_export(parse("export o --quantization int8"))
        == cli.run_export(parse(f"export o --folder {tmp_path}"))
        == 0
    )
    new.assert_called_with(Path("o"))
    home = shipped("data/checkpoints/tatoeba-fr")
    assert [call.args for call in written.call_args_list] == [
        (home, Path("o"), "int8", home / "README.md"),
        (tmp_path, Path("o"), "float32", None),
    ]
    assert library.call_count == 2 == len(capsys.readouterr().out.splitlines())


# One sentence, one status -------------------------------------------------------------------------


def test_a_folder_without_a_translator_is_one_sentence_that_mends_it(capsys):
    assert cli.main(["translate", "--folder", "nowhere", "Hello."]) == 1
    said = capsys.readouterr().err.strip()
    assert "train" in said and "nowhere" in said and "\n" not in said


@pytest.mark.parametrize(
    "error, status, words",
    [
        (ModuleNotFoundError(name="sacrebleu"), 1, "pip install sacrebleu"),
        (ValueError("a\nb"), 1, "transformer-lit: a b\n"),
        (KeyboardInterrupt(), 130, "goes on"),
        (torch.OutOfMemoryError("CUDA out of memory"), 1, "on a GPU, try --device cpu"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to"),
            1,
            "there is not enough memory",
        ),
        (RuntimeError("MPS backend out of memory"), 1, "there is not enough memory"),
    ],
)
def test_each_mistake_has_its_status(error, status, words, monkeypatch, capsys):
    monkeypatch.setitem(cli.RUN, "data", Mock(side_effect=error))
    assert cli.main(["data"]) == status and words in capsys.readouterr().err


def test_any_other_error_is_a_fault_of_the_book_and_is_shown(monkeypatch):
    monkeypatch.setitem(cli.RUN, "data", Mock(side_effect=RuntimeError("shapes")))
    with pytest.raises(RuntimeError, match="shapes"):
        cli.main(["data"])


def test_without_standard_input_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    assert (
        cli.main(["translate"]) == 1
        and "there is no standard input: type a sentence" in capsys.readouterr().err
    )
    assert (
        cli.main(["translate", "--interactive"]) == 1
        and "there is no standard input to ask from" in capsys.readouterr().err
    )
    monkeypatch.setattr(sys, "stdout", None)
    assert list(cli.translate_lines(lambda lines: lines, ["Go."])) == ["Go."]


def test_a_damaged_translator_is_left_to_who_loads_it(tmp_path):
    (tmp_path / "translator.json").write_text('{"config": {}, "languages": null}', encoding="utf-8")
    (tmp_path / "model.safetensors").touch()
    assert cli.check_language(tmp_path, "fr") is None
    with pytest.raises(ValueError, match="translator.json"):
        from_pretrained(tmp_path)


def test_a_reader_that_has_gone_is_no_mistake(monkeypatch):
    monkeypatch.setitem(cli.RUN, "data", Mock(side_effect=BrokenPipeError))
    monkeypatch.setattr(os, "dup2", closed := Mock())
    monkeypatch.setattr(sys, "stdout", Mock())
    assert cli.main(["data"]) == 0 and closed.call_count == 1


@pytest.mark.parametrize("option", ["--pairs", "--train-only", "--without"])
def test_a_list_of_files_is_given_once(option, capsys):
    "The second list silently replaced the first."
    with pytest.raises(SystemExit):
        cli.main(["train", option, "a.tsv", option, "b.tsv"])
    assert "was given twice: name all files after one" in capsys.readouterr().err


def test_a_reader_that_has_gone_ends_no_training(monkeypatch):
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    monkeypatch.setattr(sys, "stderr", Gone())
    progress.tell("a", "b")
    lines = progress.Lines(10, "training", "step")
    lines.told -= progress.EVERY
    lines.update(3)
    assert lines.done == 3


def test_help_into_a_closed_pipe_leaves_no_traceback():
    done = subprocess.run(
        f"{sys.executable} -m transformer_lit.cli train --help | head -c 1; exit"
        " ${PIPESTATUS[0]}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
    )
    assert done.stderr == "" and done.returncode == 0


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_read(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(commands.os, "access", lambda path, mode: Path(path) != tmp_path)
    assert cli.main(["train", "--folder", str(tmp_path / "a" / "b")]) == 1
    assert (
        capsys.readouterr().err
        == f"transformer-lit: {tmp_path} can't be opened: permission denied\n"
        and not list(tmp_path.iterdir())
    )


@pytest.mark.parametrize(
    "does, status, words", [("75", 75, ""), ("int('x')", 1, "transformer-lit: invalid literal")]
)
def test_a_status_outlives_its_reader(does, status, words):
    code = (
        "import sys, time; from transformer_lit.commands import guarded; print('x');"
        f" time.sleep(0.5); sys.exit(guarded(lambda: {does}))"
    )
    done = subprocess.run(
        ["/bin/bash", "-c", '"$0" -c "$1" | true; exit ${PIPESTATUS[0]}', sys.executable, code],
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"},
    )
    assert done.returncode in (status, 120 if status == 1 else status) and done.stderr.startswith(
        words
    )
