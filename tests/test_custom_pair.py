"""A pair of one's own: what is refused, how text is read, cleaned and split, and a training from
the command to its report."""

import gzip
import itertools
import json
import math
import os
from collections import Counter
from contextlib import contextmanager
from random import Random

import pytest
from filelock import FileLock
import torch
from unspoken import line

from transformer_lit.data import load_corpus, sentence_key
from transformer_lit import cli
from transformer_lit.custom_pair import clean, report, train
from transformer_lit.recipes import recipes
from transformer_lit.runs.run import LOCK
from transformer_lit.corpora.files import shipped
from transformer_lit.custom_pair.languages import OTHER, THIRD
from transformer_lit.custom_pair.clean import (
    matching_key,
    prepare_pairs,
    read_pairs,
    split_pairs,
)
from transformer_lit.custom_pair.train import (
    ModelSize,
    choose_size,
    recipe_for,
    train_on_files,
)
from transformer_lit.translation import Translator

TINY = ModelSize(100, 300, 1, 64, 0.1, 256, 2, 400)
WHO, DOES, WHAT = (
    (("Tom", "Tomo"), ("Mary", "Maria"), ("Ann", "Anna"), ("The king", "La rego")),
    (("sees", "vidas"), ("wants", "volas"), ("has", "havas"), ("loves", "amas")),
    (
        ("a cat", "katon"),
        ("a dog", "hundon"),
        ("two keys", "du ŝlosilojn"),
        ("no bread", "neniun panon"),
        ("the sea", "la maron"),
    ),
)
PAIRS = [
    (f"{a} {b} {c}.", f"{x} {y} {z}.")
    for (a, x), (b, y), (c, z) in itertools.product(WHO, DOES, WHAT)
]
SIGNS = dict(
    zip(
        " ".join(word for words in (WHO, DOES, WHAT) for word, _ in words).split(),
        "湯瑪安王見要有愛一二海貓狗鑰餅無其甲乙丙",
    )
)


def tsv(path, pairs=PAIRS):
    path.write_text("".join("\t".join(pair) + "\n" for pair in pairs), encoding="utf-8")
    return path


@contextmanager
def lock_of_another(folder):
    "The lock of a folder, held as another process would hold it."
    with FileLock(folder / LOCK):
        yield


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(train, "SIZES", (TINY,))


@pytest.fixture
def typed(tmp_path, monkeypatch, capsys):
    "Type a command in a folder with the file own.tsv; its status, and what it said."
    monkeypatch.chdir(tmp_path)
    tsv(tmp_path / "own.tsv")

    def command(line):
        status = cli.main(line.split())
        said = capsys.readouterr()
        return status, said.err if status else said.out

    return command


# What is refused ----------------------------------------------------------------------------------


LATIN = "".join("\t".join(pair) + "\n" for pair in PAIRS).replace("ŝ", "é").encode("latin-1")
FILES = {
    "own.tsv": "".join("\t".join(pair) + "\n" for pair in PAIRS).encode(),
    "one.txt": b"a\nb\n",
    "two.txt": b"a\nb\nc",
    "mac.tsv": b"A cat.\tKato.\rA dog.\tHundo.\r",
    "table.tsv": b'"He said ""no""."\tNe.\n"One\nline\tLinio.\n',
    "wide.txt": "上 a\n上 b\n".encode("utf-16"),
    "latin.tsv": LATIN,
    "half.tsv.gz": gzip.compress(b"a\tb\n" * 9999)[:-20],
    "empty.tsv": b"",
    "bad.tsv": b"a\t\n\tb\n",
    "other.tsv": b"-9.00\tNobody said this.\tNeniu.\n",
    "few.tsv": "".join("\t".join(pair) + "\n" for pair in PAIRS[:49]).encode(),
}


@pytest.mark.parametrize(
    "line, words",
    [
        ("mac.tsv", "mac.tsv end in carriage returns"),
        ("table.tsv", "line 3 of table.tsv opens a quote"),
        ("wide.txt one.txt", "wide.txt: this is not UTF-8 text"),
        ("one.txt", "one.txt has no second column"),
        ("one.txt two.txt", "one.txt has 2 lines and two.txt 3"),
        ("own.tsv other.tsv", "own.tsv has two columns already"),
        ("latin.tsv", "latin.tsv: 16 of 80 lines are not UTF-8"),
        ("half.tsv.gz", "half.tsv.gz can't be read"),
        ("empty.tsv", "no pair of empty.tsv is left after cleaning: there is no line"),
        ("bad.tsv", "no pair of bad.tsv is left after cleaning: empty 2"),
        ("few.tsv", "49 different sentences are left in the first column, and 50"),
        ("own.tsv --extra-train one.txt", "one.txt has no second column"),
        ("own.tsv --extra-train bad.tsv", "no pair of bad.tsv is left"),
        ("own.tsv --exclude own.tsv", "line 1 of own.tsv isn't a number, a sentence"),
        ("own.tsv --exclude other.tsv", "none of the 1 pairs in other.tsv"),
    ],
)
def test_files_that_do_not_fit_are_one_sentence_and_leave_nothing(line, words, typed, tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    status, said = typed(f"train --languages en-eo --pairs {line}")
    assert status == 1 and said.startswith("transformer-lit: ") and said.count("\n") == 1
    assert words in said
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)


# Reading and cleaning -----------------------------------------------------------------------------


def test_two_texts_and_packed_columns_say_the_same_as_a_plain_file(tmp_path):
    plain = read_pairs([tsv(tmp_path / "a.tsv")])
    packed = tmp_path / "b.tsv.gz"
    packed.write_bytes(
        gzip.compress(("\ufeff" + "".join(f"{a}\t{b}\tby somebody\r\n" for a, b in PAIRS)).encode())
    )
    sides = tmp_path / "a.en", tmp_path / "a.eo"
    for k, side in enumerate(sides):
        side.write_text("\ufeff" * k + "\n".join(pair[k] for pair in PAIRS), encoding="utf-8")
    assert plain == PAIRS == read_pairs([packed]) == read_pairs(sides)
    assert prepare_pairs(sides) == prepare_pairs([packed])


def test_every_pair_is_kept_or_has_a_reason():
    usual = [
        (f"{'word ' * 7}{n:04d}.", f"{'vorto ' * 7}{n:04d}.") for n in range(90)
    ]  # 40 and 47 characters
    odd = [
        ("", "Vorto."),
        ("  ", "Vorto."),
        ("Word", "V\ufffdrto"),
        ("w" * 601, "v" * 601),
        ("Tom, Dick, Harry and Mary", "TOM, DICK, HARRY and MARY"),
        ("Tom Dick Harry Mary.", "Tom Dick Harry Mary."),
        usual[3],
        ("word " * 7 + "0004.", usual[4][1] + " "),
        ("Go.", "Ek al la maro!"),
        ("Go.", "Ek al la maro, " * 4),
        (usual[0][0], "Ne."),
        ("No\u2019s ", "Ne\u2019s  x"),
    ]
    kept, counts = clean_pairs(usual + odd)
    assert counts == {
        "given": 102,
        "respelled": 4,
        "kept": 93,
        "empty": 2,
        "garbled": 1,
        "too long": 1,
        "copied": 1,
        "repeated": 2,
        "lopsided": 2,
    }
    assert kept == usual + [
        odd[5],
        odd[8],
        ("No's", "Ne's x"),
    ], "20 characters may be the same, and a short sentence has some room"
    assert clean.rejection_reason(
        ("我很爱我的老猫", "我很爱我的老猫")
    ) == "copied" and not clean.rejection_reason(("我爱我的猫", "我爱我的猫")), (
        "a sign is more than a letter"
    )
    assert (
        clean_pairs([("", "")]) == ([], {"given": 1, "respelled": 0, "empty": 1, "kept": 0})
        and clean_pairs([])[0] == []
    )


def clean_pairs(pairs):
    "The useful pairs, and how many fell to which rule."
    judged = clean.reject_pairs(pairs)
    return [pair for pair, why in judged if not why], clean.count_reasons(pairs, judged)


def test_what_is_left_out_is_listed_with_its_reason(tmp_path):
    spoiled = PAIRS[:60] + [("  ", "Vorto."), PAIRS[3], ("Word.", "Vorto " * 50), ("x", "y\ufffd")]
    for reverse in (False, True):
        prepared = prepare_pairs([tsv(tmp_path / "own.tsv", spoiled)], reverse)
        assert len(prepared.rejected) == 4 == prepared.counts["given"] - prepared.counts["kept"]
        rejected = [(why, *pair) for pair, why in prepared.rejected if why != "repeated"]
        report.write_tsv(tmp_path / report.FILTERED, rejected)
        rows = [
            line.split("\t")
            for line in (tmp_path / "filtered.tsv").read_text(encoding="utf-8").splitlines()
        ]
        assert [reason for reason, *_ in rows] == [
            "empty",
            "lopsided",
            "garbled",
        ], "a repeated pair is in training, once"
        assert rows[1][1:] == [("Vorto " * 50).strip(), "Word."][:: 1 if reverse else -1]


def test_the_corpus_itself_says_how_long_a_side_should_be():
    """A script without spaces says much in few characters: counted in words every pair would be
    lopsided, or none."""
    signs = [(f"{'word ' * 7}{n:04d}.", f"{'字' * 8}{n:04d}。") for n in range(90)]  # 40 and 13
    wrong = [
        ("word " * 7 + "alone.", "字"),
        ("Word.", "字" * 26),
        ("word " * 7 + "beside.", "字" * 65),
    ]
    kept, counts = clean_pairs(signs + wrong)
    assert kept == signs and counts["lopsided"] == 3


def test_sides_in_another_language_are_left_out_where_there_are_pairs_enough():
    rng = Random(1)
    given = [(line("a", rng), line("b", rng)) for _ in range(clean.MIN_PAIRS_FOR_LANGUAGES)]
    spoiled = [
        (one, line("c", rng)) if k % 20 == 0 else (one, one[:18]) if k % 20 == 1 else (one, other)
        for k, (one, other) in enumerate(given)
    ]
    kept, counts = clean_pairs(spoiled)
    assert counts[THIRD] >= 45 and counts[OTHER] >= 45 and len(kept) == counts["kept"] <= 905
    few = clean_pairs(spoiled[:900])[1]
    assert THIRD not in few and OTHER not in few, "of so few too little is known"
    assert not any(
        why for _, why in clean.reject_pairs(spoiled, by_language=False)
    ), "asked not to"
    html = [("a &amp; b", "c"), ("d", "<i>e</i>"), ("1 < 2", "f & g;")]
    corpus = clean.CleanedCorpus({"train": html}, counts)
    languages, markup = report.warnings(corpus)
    assert languages.startswith(f"{counts[THIRD] + counts[OTHER]} pairs were left out")
    assert "filtered.tsv" in languages and "--no-langid-filter" in languages
    assert markup.startswith("67% of the pairs hold HTML")
    corpus = clean.CleanedCorpus({"train": html[2:]}, {"given": 1000, THIRD: 30})
    assert report.warnings(corpus) == []


@pytest.mark.parametrize(
    "cells, plain",
    [
        (
            [('"Yes, I do."', "Jes."), ("No.", '"Diru ""ne""."')],
            [("Yes, I do.", "Jes."), ("No.", 'Diru "ne".')],
        ),
        ([('"Go!"', '"Iru!"'), ("No, thanks.", "Ne, dankon.")] * 9, None),
        (
            [('"Oh, go."', '"Ho, iru."'), ("A cat.", '"Kato"')] * 9,
            [("Oh, go.", "Ho, iru."), ("A cat.", "Kato")] * 9,
        ),
        (
            [('"One\nline"', "Linio."), ("No.", '"Diru ""ne""."')],
            [("One\nline", "Linio."), ("No.", 'Diru "ne".')],
        ),
    ],
)
def test_a_table_programs_quotes_are_taken_off_and_a_speakers_stay(cells, plain, tmp_path):
    assert read_pairs([tsv(tmp_path / "own.tsv", cells)]) == (cells if plain is None else plain)


def test_sentences_of_the_same_letters_stay_together():
    given = [(f"我爱你{'我猫狗'[k % 3]}{k}。", f"Mi {k}.") for k in range(60)]
    spaced = [(" ".join(one[:-1]), f"{other[:-1]}!") for one, other in given]
    parts = split_pairs(given + spaced)
    where = {pair: name for name, part in parts.items() for pair in part}
    assert (
        all(where[one] == where[other] for one, other in zip(given, spaced))
        and len(parts["test"]) == len(parts["valid"]) == 12
    )
    assert (
        matching_key("Ｉ’m naïve,  isn't it")
        == matching_key("I'm naive; isn't it?")
        and matching_key("...") == "..."
    )
    assert (
        report.leaked_but_for_numbers(["Order 12 is here.", "A cat."], [("Order 7 is here!", "x")])
        == 0.5
    )


def test_no_sentence_of_the_test_is_in_training_whichever_way(tmp_path):
    file = tsv(
        tmp_path / "a.tsv",
        PAIRS
        + [(a.upper(), b + " ") for a, b in PAIRS]
        + [(a, f"{b[:-1]} nun.") for a, b in PAIRS],
    )
    for reverse in False, True:
        corpus = prepare_pairs([file], reverse)
        parts, counts = corpus.splits, corpus.counts
        assert {name: len({sentence_key(a) for a, _ in part}) for name, part in parts.items()} == (
            {"test": 16, "valid": 16, "train": 128}
            if reverse
            else {"test": 8, "valid": 8, "train": 64}
        )
        seen = Counter(
            key for part in parts.values() for key in {sentence_key(source) for source, _ in part}
        )
        assert set(seen.values()) == {1} and sum(map(len, parts.values())) == counts["kept"] == 240
        assert all(
            (target if reverse else source)[:3].upper() in ("TOM", "MAR", "ANN", "THE")
            for part in parts.values()
            for source, target in part
        )


def test_both_directions_hold_out_the_same_pairs(tmp_path):
    "Then a reverse model can write pairs for the forward one and has seen nothing of its test."
    file = tsv(
        tmp_path / "a.tsv", PAIRS + [(f"Indeed, {a}", b) for a, b in PAIRS]
    )  # each second sentence has two first ones
    forward, back = prepare_pairs([file]), prepare_pairs([file], True)
    assert [pair[::-1] for pair in back.splits["test"]] == forward.splits["test"]
    sides = {name: {target for target, _ in part} for name, part in back.splits.items()}
    assert not (
        sides["test"] & sides["train"]
        or sides["test"] & sides["valid"]
        or sides["valid"] & sides["train"]
    )
    lost = [pair for pair, reason in back.rejected if reason == "held out"]
    assert back.counts == forward.counts | {"kept": 160 - len(lost), "held out": len(lost)} and lost
    seen = {pair[::-1] for part in forward.splits.values() for pair in part}
    assert {*lost, *(pair for part in back.splits.values() for pair in part)} == seen


def test_a_second_column_of_few_sentences_has_no_other_direction(tmp_path):
    file = tsv(
        tmp_path / "a.tsv",
        [(english, "Jes." if k else "Ne.") for k, (english, _) in enumerate(PAIRS)],
    )
    assert len(prepare_pairs([file]).splits["train"]) == 64
    with pytest.raises(
        ValueError,
        match=(
            "too few different sentences are in the second column to be split into training and"
            " test with --reverse"
        ),
    ):
        prepare_pairs([file], True)


@pytest.mark.parametrize(
    "one, other",
    [
        ("我爱你。", "我爱你"),
        ("क्या?", "क्या"),
        ("Go!", "go"),
        ("Go \u00bb", "Go"),
        ("¿Qué?", "¿qué"),
        ("¿Qué?", "qué"),
        ("“Yes”", "Yes”"),
        ("ไป\u200bไหน", "ไปไหน"),
        ("\ufeffGo.", "Go."),
        ("co\u00adop", "coop"),
        ("e\u200d\u0301te\u0301", "été"),
    ],
)
def test_marks_and_invisible_signs_make_no_second_sentence(one, other):
    assert (
        matching_key(one)
        == matching_key(other)
        != matching_key(other + "x")
    )


def test_swapped_columns_are_refused(tmp_path):
    rng = Random(1)
    given = [(line("a", rng), line("b", rng)) for _ in range(400)]
    file, fine = tsv(tmp_path / "own.tsv", given[:300]), tsv(tmp_path / "more.tsv", given[300:])
    assert prepare_pairs([file], train_only=[fine]).train_only_counts["kept"] == 100
    with pytest.raises(
        ValueError,
        match=(
            "the columns of .*more.tsv look swapped: write its languages in the order of .*own.tsv"
        ),
    ):
        prepare_pairs([file], True, [tsv(fine, [pair[::-1] for pair in given[300:]])])


@pytest.mark.parametrize("reverse", [False, True])
def test_more_pairs_are_trained_on_and_never_tested_with(tmp_path, reverse):
    file = tsv(tmp_path / "own.tsv")
    alone = prepare_pairs([file], reverse)
    order = (lambda pair: pair[::-1]) if reverse else (lambda pair: pair)
    in_train, in_valid, in_test = (
        order(alone.splits[name][0]) for name in ("train", "valid", "test")
    )  # as the file has them
    new = [("A bird flies.", "Birdo flugas."), ("It rains here.", "Ĉi tie pluvas.")]
    near = [
        ("The reverse model made this.", in_test[1].upper()),
        (in_valid[0] + "!", "Io alia."),
        ("", "Nenio."),
        in_train,
    ]
    with_more = prepare_pairs([file], reverse, [tsv(tmp_path / "more.tsv", [*new, *near])])
    assert with_more.counts == alone.counts and alone.train_only_counts == {}
    assert with_more.splits == alone.splits | {
        "train": alone.splits["train"] + [order(pair) for pair in new]
    }
    assert with_more.train_only_counts == {
        "given": 6,
        "respelled": 0,
        "kept": 2,
        "held out": 2,
        "empty": 1,
        "repeated": 1,
    }
    assert with_more.rejected == [
        (order(near[0]), "held out"),
        (order(near[1]), "held out"),
        (order(near[2]), "empty"),
        (order(near[3]), "repeated"),
    ]


def test_the_report_tells_pairs_for_training_alone(small, typed, tmp_path):
    tsv(
        tmp_path / "made.tsv",
        [("A bird flies.", "Birdo flugas."), (PAIRS[0][0], PAIRS[0][1]), ("", "Nenio.")],
    )
    status, said = typed(
        "train --pairs own.tsv --extra-train made.tsv --languages en-eo --epochs 1 --device cpu"
        " --threads 1"
    )
    assert (
        status == 0
        and "\nmade.tsv: 3 pairs, 1 kept for training only; left out: " in said
        and "en to eo: train 65, valid 8, test 8" in said
    )
    folder = tmp_path / "runs" / "en-eo"
    record, page = json.loads((folder / "run.json").read_text(encoding="utf-8")), (
        folder / "report.md"
    ).read_text(encoding="utf-8")
    assert (
        record["command"]
        == "transformer-lit train --pairs own.tsv --extra-train made.tsv --languages en-eo"
        " --epochs 1 --device cpu --threads 1"
    )
    assert (
        record["data"]["train_only"]["cleaning"]["kept"] == 1
        and record["data"]["train_only"]["files"][0]["file"] == "made.tsv"
    )
    assert (
        "| kept (training only) | 1 |" in page
        and "| left out (training only): empty | 1 |" in page
        and "| kept | 80 |" in page
    )
    assert "made.tsv" in page and "Birdo" not in (folder / "test.tsv").read_text(encoding="utf-8")
    assert "empty\t\tNenio.\n" in (folder / "filtered.tsv").read_text(encoding="utf-8")
    again = (
        "train --pairs own.tsv --extra-train made.tsv --languages en-eo --epochs 1 --device cpu"
        " --threads 1"
    )
    assert (
        typed(again)[0] == 0
        and json.loads((folder / "run.json").read_text(encoding="utf-8"))["scores"]
        == record["scores"]
    )
    status, said = typed(f"{again} --reverse")
    assert (
        status == 0
        and "made.tsv: 3 pairs, 1 kept for training only" in said
        and "eo to en: train 65, valid 8, test 8" in said
    )
    status, why = typed(
        "train --pairs own.tsv --languages en-eo --epochs 1 --device cpu --threads 1"
    )
    assert status == 1 and "was begun with" in why and why.count("\n") == 1


@pytest.mark.parametrize("reverse", [False, True])
def test_what_is_doubted_is_left_out_of_training_alone(tmp_path, reverse):
    file, list_of = tsv(tmp_path / "own.tsv"), tmp_path / "low_confidence.tsv"
    alone = prepare_pairs([file], reverse)
    doubted = [*alone.splits["train"][3:6], alone.splits["test"][0], alone.splits["valid"][0]]
    list_of.write_text(
        "".join(f"-7.25\t{source}\t{target}\n" for source, target in doubted), encoding="utf-8"
    )
    less = prepare_pairs([file], reverse, exclude=[list_of])
    train = alone.splits["train"]
    assert less.splits == alone.splits | {"train": train[:3] + train[6:]}
    assert less.n_excluded == 3
    assert (
        less.rejected == alone.rejected + [(pair, "low confidence") for pair in doubted[:3]]
        and less.counts == alone.counts
        and less.n_listed == 5
    )
    more = tsv(
        tmp_path / "more.tsv",
        [
            pair[::-1] if reverse else pair
            for pair in [*doubted[:1], ("A bird flies.", "Birdo flugas.")]
        ],
    )
    both = prepare_pairs([file], reverse, [more], [list_of])
    assert (
        both.n_excluded == 3
        and not {*doubted[:3]} & {*both.splits["train"]}
        and len(both.splits["train"]) == len(less.splits["train"]) + 1
    )
    halves = [list_of, tmp_path / "second.tsv"]
    lines = list_of.read_text(encoding="utf-8").splitlines()
    list_of.write_text(
        "\ufeff" + lines[0] + "\r\n\r\n", encoding="utf-8"
    )  # as other programs write such a file
    halves[1].write_text(
        "\n".join(line.replace("-7.25", "-7,25") + "\t" for line in lines[1:2])
        + "\n"
        + lines[2].replace("-7.25", "-7"),
        encoding="utf-8",
    )
    assert prepare_pairs([file], reverse, exclude=halves).splits == less.splits
    quoted = tsv(tmp_path / "quoted.tsv", [*PAIRS, ('He said "no".', 'Li diris "ne".')])
    list_of.write_text(
        '-7.25\t"He said ""no""."\t"Li diris ""ne""."\n', encoding="utf-8"
    )  # as a table program writes quotes
    assert (
        prepare_pairs([quoted], reverse=False, exclude=[list_of]).n_excluded == 1
        and clean.unquote('"Go," he said, "go."') == '"Go," he said, "go."'
    )
    list_of.write_text(
        "".join(f"-7.25\t{source}\t{target}\n" for source, target in alone.splits["train"]),
        encoding="utf-8",
    )
    with pytest.raises(ValueError, match="low_confidence.tsv lists all training pairs"):
        prepare_pairs([file], reverse, exclude=[list_of])
    list_of.write_text("\n", encoding="utf-8")
    with pytest.raises(ValueError, match="low_confidence.tsv lists no pair"):
        prepare_pairs([file], reverse, exclude=[list_of])


def test_lines_are_translated_as_they_were_trained_on():
    one, two = ("He saw it.", "Li vidis ĝin."), (
        "He saw it. She did, too.",
        "Li vidis ĝin. Ŝi ankaŭ.",
    )
    assert train.length_limits_for([one] * 99 + [two]) == (
        128,
        128,
    ), "lines of several sentences were learned whole"
    assert (
        train.length_limits_for([one] * 100 + [two])
        == train.length_limits_for([("汤姆来了。玛丽走了。", "Tom came.")] * 9)
        == (128, 20)
    )


def test_a_short_training_warms_up_for_a_tenth_of_it(tmp_path, monkeypatch):
    recipe = recipes.replace(
        train.recipe_of(TINY, ("en", "eo")),
        training=recipes.replace(train.recipe_of(TINY, ("en", "eo")).training, epochs=20),
    )
    translator = recipes.build_translator(recipe, PAIRS, tmp_path)
    trainer, batches = recipes.build_trainer(translator, PAIRS, recipe, tmp_path)
    rates = [trainer.lr_schedule(step) for step in range(1, batches.n_steps + 1)]
    assert (
        batches.n_steps < TINY.warmup
        and max(rates) == pytest.approx(recipe.peak_lr)
        and rates.index(max(rates)) + 1 == batches.n_steps // 10
    )
    with pytest.raises(
        ValueError,
        match=(
            "each of the 80 training pairs has over 2 tokens on a side: put one sentence on a line"
        ),
    ):
        monkeypatch.setattr(recipes, "LONGEST", 2)
        recipes.build_trainer(translator, PAIRS, recipe, tmp_path)


def test_the_model_is_as_large_without_what_is_doubted():
    parts = {"train": [("a", "b")] * 4400, "valid": [], "test": []}
    assert (
        recipe_for(parts, ("en", "eo")).vocab_size == 1000
        and recipe_for(parts, ("en", "eo"), n_excluded=200).vocab_size == 2000
    )


def test_a_translator_learns_without_what_another_doubts(small, typed, tmp_path):
    with_all, plain = (
        tmp_path / "runs" / "en-eo",
        "train --pairs own.tsv --languages en-eo --epochs 1 --device cpu --threads 1",
    )
    assert typed(plain)[0] == 0
    listed = (with_all / "low_confidence.tsv").read_text(encoding="utf-8").splitlines()
    status, said = typed(f"{plain} --exclude runs/en-eo/low_confidence.tsv --output-dir runs/less")
    assert (
        status == 0
        and f"{len(listed)} of {len(listed)} listed pairs left out of training\n" in said
        and f"en to eo: train {64 - len(listed)}, valid 8, test 8\n" in said
    )
    less = tmp_path / "runs" / "less"
    record, page = json.loads((less / "run.json").read_text(encoding="utf-8")), (
        less / "report.md"
    ).read_text(encoding="utf-8")
    assert "--exclude runs/en-eo/low_confidence.tsv" in record["command"]
    assert record["data"]["without"]["pairs"] == len(listed) == 6 and record["data"]["train"] == 58
    assert "| left out of training: listed in runs/en-eo/low_confidence.tsv | 6 |" in page
    assert (less / "test.tsv").read_bytes() == (
        with_all / "test.tsv"
    ).read_bytes(), "so that the scores can be compared"
    left = (less / "filtered.tsv").read_text(encoding="utf-8").splitlines()
    assert sorted(left) == sorted("low confidence\t" + line.split("\t", 1)[1] for line in listed)
    status, why = typed(f"{plain} --output-dir runs/less")
    assert status == 1 and "was begun with" in why and why.count("\n") == 1


def test_how_many_are_held_out():
    many = lambda n: {
        name: len(part)
        for name, part in split_pairs([(f"a {k}", f"b {k}") for k in range(n)]).items()
    }
    assert many(50) == {"test": 5, "valid": 5, "train": 40}
    assert many(25_000) == {"test": 2000, "valid": 2000, "train": 21_000}


# The table ----------------------------------------------------------------------------------------


def test_a_model_has_the_size_of_its_pairs():
    rows, ours = train.SIZES, recipes.RECIPES["tatoeba-fr"]
    assert [
        choose_size(n).pairs for n in (1, 4000, 5000, 20_000, 25_000, 100_000, 400_000, 10**8)
    ] == [2000, 2000, 10_000, 10_000, 50_000, 150_000, 1_000_000, 1_000_000]
    for small, large in itertools.pairwise(rows):
        assert (
            small.pairs < large.pairs
            and small.vocabulary < large.vocabulary
            and small.dropout >= large.dropout
            and small.epochs > large.epochs
        )
        assert small.warmup <= large.warmup <= ours.training.warmup_steps
    assert all(
        size.width % 64 == 0 and size.max_tokens >= 128 and size.vocabulary > 260 for size in rows
    )
    shipped, row = train.recipe_of(
        rows[3], ("en", "fr")
    ), ours.model | ours.training.__dict__ | {"vocab_size": ours.vocab_size}
    assert row == shipped.model | shipped.training.__dict__ | {
        "vocab_size": shipped.vocab_size
    }, "the book's own translator is the row of 150,000"
    recipe = recipe_for({"train": PAIRS}, ("eo", "en"))
    assert (
        recipe.languages == ("eo", "en")
        and recipe.training.epochs == 40
        and recipe_for({"train": PAIRS}, ("eo", "en"), 3).training.epochs == 3
    )
    assert (recipe.peak_lr, recipe.optimizer, recipe.model["norm"]) == (
        ours.peak_lr,
        ours.optimizer,
        ours.model["norm"],
    )
    assert (
        ours.languages == ("en", "fr")
        and recipe.text != recipe_for({"train": PAIRS[1:]}, ("eo", "en")).text
    )


def test_what_is_left_out_can_be_read_while_it_trains(small, tmp_path, monkeypatch):
    folder = tmp_path / "deep" / "run"

    def stopped(at, *_, begin, **__):
        assert (
            at == folder and not folder.exists()
        ), "nothing is written before the folder is this run's"
        begin()
        assert len((folder / "test.tsv").read_text("utf-8").splitlines()) == 8
        assert (folder / "filtered.tsv").read_text("utf-8") == "empty\tA line.\t\n"
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "train_translator", stopped)
    with pytest.raises(KeyboardInterrupt):
        train_on_files(
            [tsv(tmp_path / "own.tsv", [*PAIRS, ("A line.", "")])], ("en", "eo"), folder, "again"
        )


def test_a_file_of_ones_own_is_never_written_over(small, typed, tmp_path):
    (tmp_path / "test.tsv").write_bytes((tmp_path / "own.tsv").read_bytes())
    for name in ("test.tsv", "report.md", "log.jsonl", "tokenizer.json"):
        kept = tmp_path / name
        kept.touch()
        before = kept.read_bytes()
        status, said = typed("train --pairs own.tsv --languages en-eo --output-dir . --epochs 1")
        assert (
            status == 1
            and "would write over it: use another folder" in said
            and kept.read_bytes() == before
        )
        kept.unlink()
    assert [path.name for path in tmp_path.iterdir()] == ["own.tsv"]


def test_a_folder_that_another_trains_in_stays_as_it_is(small, typed, tmp_path):
    assert typed("train --pairs own.tsv --languages en-eo --output-dir run --epochs 1")[0] == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with (tmp_path / "own.tsv").open("a", encoding="utf-8") as file:
        file.write("\tno source\n")
    with lock_of_another(tmp_path / "run"):
        status, said = typed("train --pairs own.tsv --languages en-eo --output-dir run --epochs 1")
    assert status == 1 and "another training is at work" in said
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


@pytest.mark.parametrize(
    "number", [str, "{:.4f}".format, "-{},25".format, "{:.1e}".format, '"{},25"'.format]
)
def test_ids_and_scores_are_no_sentences(number, small, typed, tmp_path):
    rows = [(number(1000 + k), one, str(2000 + k), other) for k, (one, other) in enumerate(PAIRS)]
    (tmp_path / "own.tsv").write_text(
        "".join("\t".join(row) + "\n" for row in rows), encoding="utf-8"
    )
    status, said = typed("train --pairs own.tsv --languages en-eo")
    assert (
        status == 1
        and "the first column of own.tsv holds numbers" in said
        and not (tmp_path / "runs").exists()
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_is_refused_before_it_is_opened(small, typed, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    status, said = typed("train --pairs pipe --languages en-eo")
    assert status == 1 and "pipe is no regular file" in said


# From the command to the report -------------------------------------------------------------------


def test_a_pair_is_trained_reported_used_and_scored_again(small, typed, tmp_path, monkeypatch):
    monkeypatch.setattr(train.records, "hardware_name", lambda device=None: "a GPU")
    monkeypatch.setattr(report, "MIN_FOR_INTERVAL", 8)
    status, said = typed("train --pairs own.tsv --languages en-eo --device cpu --threads 1")
    folder = tmp_path / "runs" / "en-eo"
    assert status == 0 and said.startswith(
        "own.tsv: 80 pairs, 80 kept\nen to eo: train 64, valid 8, test 8\nat most 300 subwords, 1 +"
        " 1 layers of width 64"
    )
    monkeypatch.setattr(report, "MIN_FOR_INTERVAL", 9)
    assert (
        "(too few sentences for an interval)"
        in report.score_lines(json.loads((folder / "run.json").read_text("utf-8")))[0]
    )
    monkeypatch.setattr(report, "MIN_FOR_INTERVAL", 8)
    assert (
        "8 test sentences, none of them in training:\nBLEU " in said
        and "(95% interval " in said
        and "tok:13a" in said
    )
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert record["command"].startswith("transformer-lit train --pairs own.tsv --languages en-eo")
    assert (
        record["data"]["cleaning"] == {"given": 80, "respelled": 0, "kept": 80}
        and record["data"]["leak_by_sentence"] == 0
    )
    assert [score["metric"] for score in record["scores"]] == [
        "cross-entropy, nats a token",
        "BLEU",
        "chrF",
        "BLEU",
        "chrF",
    ]
    page = (folder / "report.md").read_text(encoding="utf-8")
    assert page.startswith(
        "# A translator from en to eo\n\n    transformer-lit train --pairs own.tsv --languages"
        " en-eo --device cpu"
    )
    assert (
        "| given | 80 |" in page
        and f"{record['parameters']:,} parameters" in page
        and record["scores"][1]["signature"] in page
    )
    tested = [
        line.split("\t")[0]
        for line in (folder / "test.tsv").read_text(encoding="utf-8").splitlines()
    ]
    assert (
        len(tested) == 8 and [page.count(f"\n| {source} | ") for source in tested].count(1) == 6
    ), "the nearest four and two of the other half"
    assert (folder / "filtered.tsv").read_text(
        encoding="utf-8"
    ) == "" and "except repeated ones, is in filtered.tsv" in page
    rows = [
        line.split("\t")
        for line in (folder / "low_confidence.tsv").read_text(encoding="utf-8").splitlines()
    ]
    assert (
        len(rows) == 6
        and [float(row[0]) for row in rows] == sorted(float(row[0]) for row in rows)
        and "low_confidence.tsv lists" in page
    )
    assert {tuple(row[1:]) for row in rows} <= set(PAIRS) and not {row[1] for row in rows} & set(
        tested
    )
    assert Translator.load(folder).languages == ("en", "eo")
    monkeypatch.setattr(train.records, "hardware_name", lambda device=None: "no GPU")
    assert (
        typed("train --pairs own.tsv --languages en-eo --device cpu --threads 1")[0] == 0
    ), "a finished run is tested again"
    assert (
        json.loads((folder / "run.json").read_text(encoding="utf-8"))["hardware"] == "a GPU"
    ), "where it was trained"
    assert typed(f"translate --model {folder} Hello. --beam-size 1")[0] == 0
    status, again = typed(f"evaluate --model {folder} --output scores.json")
    assert (
        status == 0
        and again.startswith(f"own: BLEU {record['scores'][1]['value']:.1f}  ")
        and "own: chrF" in again
    )
    assert json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))[
        "interval"
    ].keys() == {"value", "low", "high"}
    tsv(tmp_path / "own.tsv", PAIRS[1:])
    for options, words in (
        ("--languages en-eo", "was begun with"),
        ("--languages de-eo", "'source': 'de'"),
        ("--languages en-eo --epochs 7", "'epochs': 7"),
    ):
        kept = (folder / "report.md").stat().st_mtime_ns, (folder / "test.tsv").read_bytes()
        status, why = typed(f"train --pairs own.tsv {options} --output-dir {folder} --threads 1")
        assert status == 1 and words in why and why.count("\n") == 1, why
        assert kept == (
            (folder / "report.md").stat().st_mtime_ns,
            (folder / "test.tsv").read_bytes(),
        ), "a refused command changes nothing"


def test_a_script_without_spaces_in_either_direction(small, tmp_path, capsys):
    signs = [(a, "".join(SIGNS[word] for word in a.rstrip(".").split()) + "。") for a, _ in PAIRS]
    assert len({b for _, b in signs}) == len(PAIRS)
    sides = tmp_path / "a.en", tmp_path / "a.zh"
    for k, side in enumerate(sides):
        side.write_text("\n".join(pair[k] for pair in signs) + "\n", encoding="utf-8")
    for reverse, cut, order in (False, "tok:char", ("en", "zh")), (True, "tok:13a", ("zh", "en")):
        folder = tmp_path / order[0]
        record = train_on_files(
            sides, ("en", "zh"), folder, "by hand", reverse, epochs=1, device=torch.device("cpu")
        )
        assert cut in record["scores"][1]["signature"] and cut in capsys.readouterr().out
        assert record["data"]["cleaning"]["kept"] == 80 and math.isfinite(
            record["scores"][0]["value"]
        )
        assert Translator.load(folder).languages == order
        source = (folder / "test.tsv").read_text(encoding="utf-8")[0]
        assert (source in SIGNS.values()) == reverse
        assert f"# A translator from {order[0]} to {order[1]}" in (folder / "report.md").read_text(
            encoding="utf-8"
        )


def test_a_stopped_training_goes_on_as_if_it_had_not_stopped(small, tmp_path):
    file, cpu = [tsv(tmp_path / "own.tsv")], torch.device("cpu")
    whole = train_on_files(file, ("en", "eo"), tmp_path / "a", "by hand", device=cpu)
    parts = prepare_pairs(file).splits
    looks = [source for source, _ in parts["valid"]]
    recipes.train_translator(
        tmp_path / "b", recipe_for(parts, ("en", "eo")), parts, looks, 3, cpu
    )
    assert not (tmp_path / "b" / "report.md").exists()
    resumed = train_on_files(file, ("en", "eo"), tmp_path / "b", "by hand", device=cpu)
    same = lambda record: [
        record[name] for name in ("scores", "recipe", "data", "tokens", "interval")
    ]
    assert same(whole) == same(resumed)
    one, other = (Translator.load(tmp_path / name).model.state_dict() for name in "ab")
    assert all(torch.equal(one[name], other[name]) for name in one)
    for name in "hypotheses.txt", "test.tsv", "tokenizer.json", "config.json":
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


# The report ---------------------------------------------------------------------------------------


def test_the_least_likely_pairs_are_doubted():
    translator = Translator.load(shipped("data/checkpoints/pocket"))
    fine = [(pair[0], pair[1]) for pair in load_corpus("pocket")["train"][:38]]
    swapped = [(fine[0][0], fine[20][1]), (fine[20][0], fine[0][1])]
    found = train.least_likely_pairs(translator, fine[:20] + swapped + fine[20:])
    assert (
        len(found) == 4
        and {pair for _, pair in found[:2]} == set(swapped)
        and found == sorted(found)
    )
    assert (
        train.least_likely_pairs(translator, [*fine[:9], ("long " * 200, "long " * 200)]) == []
    ), "what isn't trained on isn't judged"


def test_right_and_wrong_answers_are_chosen_over_the_whole_range():
    sources, references = [f"s{k}" for k in range(60)], [
        [f"abcdefghij{k:02d}", f"other {k}"] for k in range(60)
    ]
    said = [f"other {k}" if k < 24 else "abcdefghij"[: k % 11] + "xyz" for k in range(60)]
    found = report.choose_examples(sources, references, said)
    assert [row.source for row in found["right"]] == [
        "s0",
        "s2",
        "s4",
        "s7",
        "s9",
        "s12",
        "s14",
        "s16",
        "s19",
        "s21",
    ]
    assert all(
        row.is_right and row.reference == row.translation and row.chrf == pytest.approx(100)
        for row in found["right"]
    )
    wrong = [row.chrf for row in found["wrong"]]
    assert (
        len(wrong) == 10
        and wrong == sorted(wrong)
        and wrong[0] < 5 < wrong[-1]
        and not any(row.is_right for row in found["wrong"])
    )
    few = report.choose_examples(sources, references, ["other 0", *said[30:60], *said[30:59]])
    assert [row.is_right for row in few["right"]] == [True] + [False] * 9
    assert not {row.source for row in few["right"]} & {row.source for row in few["wrong"]}
    assert report.choose_examples(["a"], [["b"]], ["b"])["wrong"] == []


def test_what_would_break_a_table_does_not():
    assert (
        report.markdown_table(("a", "b"), [("x|y", "\\")])
        == "| a | b |\n| --- | --- |\n| x\\|y | \\\\ |\n"
    )
    table = report.markdown_table(("a",), [("<b>&amp;\nend",)])
    assert table.splitlines()[2] == "| &lt;b>&amp;amp; end |"


def test_answers_are_counted_by_their_own_references(tmp_path):
    pairs = [("One.", "Unu."), ("One.", "Unua."), ("Two.", "Du.")]
    report.write_tsv(tmp_path / report.TEST, pairs)
    found = report.score_again(
        lambda lines: ["Unua." if line == "One." else "Tri." for line in lines], tmp_path
    )
    assert found["sentences"] == 2 and found["all"][1]["value"] > found["one"][1]["value"]
    assert (
        report.leaked_references([["Unu."], ["Du.", "Tri."]], [("x", "Tri.")]) == 0.5
        and report.leaked_references([], []) == 0
    )
    assert (
        clean.rejection_summary(
            {"given": 9, "kept": 5, "respelled": 2, "empty": 1, "copied": 3, "garbled": 0}
        )
        == "copied 3, empty 1"
    )
