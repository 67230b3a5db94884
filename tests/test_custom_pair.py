"""A pair of one's own: how text is read, cleaned and split, and a training from the command to its
report. What is refused: test_refusals.py; what a stop leaves: test_interrupted.py."""

import gzip
import itertools
import json
import re
from collections import Counter
from random import Random

import pytest
import torch
from plugins.commands import refused
from unspoken import line

from transformer_lit.corpora.files import shipped
from transformer_lit.custom_pair import clean, report, train
from transformer_lit.custom_pair.clean import matching_key, prepare_pairs, split_pairs
from transformer_lit.custom_pair.findings import shifted_lines
from transformer_lit.custom_pair.formats import find_columns, read_pairs
from transformer_lit.custom_pair.languages import THIRD
from transformer_lit.custom_pair.train import ModelSize, choose_size, recipe_for, train_on_files
from transformer_lit.data import load_corpus, sentence_key
from transformer_lit.recipes import recipes
from transformer_lit.translation import Translator

TINY = ModelSize(100, 300, 1, 64, 0.1, 256, 2, 400)
SUBJECTS = {"Tom": "Tomo", "Mary": "Maria", "Ann": "Anna", "The king": "La rego"}
VERBS = {"sees": "vidas", "wants": "volas", "has": "havas", "loves": "amas"}
OBJECTS = {
    "a cat": "katon",
    "a dog": "hundon",
    "two keys": "du ŝlosilojn",
    "no bread": "neniun panon",
    "the sea": "la maron",
}
PAIRS = [
    tuple(" ".join(words) + "." for words in zip(*chosen))
    for chosen in itertools.product(SUBJECTS.items(), VERBS.items(), OBJECTS.items())
]
SIGNS = dict(
    zip(
        " ".join([*SUBJECTS, *VERBS, *OBJECTS]).split(),
        "湯瑪安王見要有愛一二海貓狗鑰餅無其甲乙丙",
    )
)
TRAIN = "train --pairs own.tsv --languages en-eo --epochs 1 --device cpu --threads 1 --with seed=3"


def tsv(path, pairs=PAIRS):
    path.write_text("".join("\t".join(pair) + "\n" for pair in pairs), encoding="utf-8")
    return path


def rows_of(path):
    return [row.split("\t") for row in path.read_text("utf-8").splitlines()]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(train, "SIZES", (TINY,))


# Reading and cleaning -----------------------------------------------------------------------------


def test_a_first_sentence_is_no_header():
    assert not find_columns(["De er der!", "Da bist du ja!"], ("de", "da"))
    assert find_columns(["English (US)", "fr_CA"], ("en", "fr")) == ["English (US)", "fr_CA"]


def test_two_texts_and_packed_columns_say_the_same_as_a_plain_file(tmp_path):
    packed, sides = tmp_path / "b.tsv.gz", (tmp_path / "a.en", tmp_path / "a.eo")
    lines = "".join(f"{a}\t{b}\tby somebody\r\n" for a, b in PAIRS)
    packed.write_bytes(gzip.compress(("\ufeff" + lines).encode()))
    for side, sentences in zip(sides, zip(*PAIRS)):
        side.write_text("\ufeff" + "\n".join(sentences), encoding="utf-8")
    plain = tsv(tmp_path / "a.tsv")
    assert read_pairs([plain]) == PAIRS == read_pairs([packed]) == read_pairs(sides)


@pytest.mark.parametrize(
    "cells, plain",
    [
        ([('"Go!"', '"Iru!"'), ("No, thanks.", "Ne, dankon.")] * 9, None),
        ([('"Oh, yes."', '"Ho, jes."')] * 9 + [('"Oh, and', '"Ho, kaj'), ('then."', 'do."')], None),
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
    assert read_pairs([tsv(tmp_path / "own.tsv", cells)]) == (plain or cells)


TMX = """<?xml version="1.0" encoding="utf8mb4"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx xmlns="a"><body><tu>
<tuv xml:lang="fr-CA"><seg>Oui.</seg></tuv><tuv xml:lang="EN"><prop>x</prop>
<seg>Yes, <bpt i="1">&lt;b></bpt>you.</seg></tuv></tu></body></tmx>"""


@pytest.mark.parametrize(
    "name, text",
    [
        ("a.csv", '"Yes, you.";Oui.\n'),
        ("a.csv", 'id;"txt_fr";en;en-url\n1;Oui.;"Yes, you.";x\n'),
        ("a.json", '{"id": 1, "translation": {"fr": "Oui.", "en": "Yes, you."}}\n\n'),
        ("a.tmx", TMX),
        ("a.tsv", '"Yes, you."\t"Oui."\n'),
    ],
)
def test_formats_say_the_same(name, text, tmp_path):
    (tmp_path / name).write_text(text, "utf-8-sig")
    assert read_pairs([tmp_path / name], ("en", "fr")) == [("Yes, you.", "Oui.")]


@pytest.mark.parametrize(
    "pair, number, words",
    [
        (("{} said\tno.", "Li diris."), 1, "extra column"),
        (("{}\0s", "Vorto."), 1, "garbled"),
        (("w" * 2_000_000, "v"), 1, "too long"),
        (("\u200f{} sees.", "\ufeffVi vidas"), 1, "removed"),
        (("{} Р–Р¶ sees.", "Ã„Å“i vidas."), 1, "put right"),
        (("{} , no .", "Ne ."), 12, "tokenized"),
        (("{} se ##es", "Vidas"), 12, "subword"),
        (("{} \\u00e9 I", "Ni du."), 12, "HTML"),
        (("{} runs far away.", "Farenda traduko."), 12, "same translation"),
    ],
)
def test_what_is_found_has_a_count_and_an_example(pair, number, words, tmp_path):
    pairs = [tuple(side.format(f"Jo{k}") for side in pair) for k in range(number)]
    corpus = prepare_pairs([tsv(tmp_path / "a.tsv", PAIRS + pairs)])
    (note,) = (note for note in corpus.notes if words in note)
    assert note.startswith(f"{number} of {80 + number} pairs") and "(pair 81: " in note
    text = json.dumps(corpus.splits, ensure_ascii=False)
    assert not {"\ufeff", "\u200f", "Ä", "Ã", "Р"} & {*text} and "\\u0000" not in text


def clean_pairs(pairs, **options):
    "The useful pairs, and how many fell to which rule."
    judged = clean.reject_pairs(pairs, **options)
    useful = [pair for pair, reason in judged if not reason]
    return useful, clean.count_reasons(pairs, judged)


def test_two_texts_that_are_shifted_or_shuffled_are_told_with_the_place():
    rng = Random(1)
    lengths = [rng.randint(2, 90) for _ in range(1_000)]
    left, right = ([letter * (n + rng.randint(0, 5)) for n in lengths] for letter in "ab")
    assert not shifted_lines(list(zip(left, right)))
    for lag in 1, 2, 3:
        [note] = shifted_lines(list(zip(left, right[:600] + right[600 + lag :])))
        start, lines, place = re.search(r"line (\d+) to .* (\d) line.s. (\w+)", note).groups()
        assert abs(int(start) - 600) < 15 and (int(lines), place) == (lag, "above"), note
    [note] = shifted_lines(list(zip(left, sorted(right))))
    assert "sorted or shuffled" in note


def test_every_pair_is_useful_or_has_a_reason():
    usual = [(f"{'word ' * 7}{n:04d}.", f"{'vorto ' * 7}{n:04d}.") for n in range(90)]
    useful = [("Tom Dick Harry Mary.",) * 2, ("Go.", "Ek al la maro!")]
    reasons = {
        ("  ", "Vorto."): "empty",
        ("Word", "V\ufffdrto"): "garbled",
        ("w" * 601, "v" * 601): "too long",
        ("Tom, Dick, Harry and Mary", "TOM, DICK, HARRY and MARY"): "copied",
        usual[3]: "repeated",
        ("word " * 7 + "0004.", usual[4][1] + " "): "repeated",
        ("Go.", "Ek al la maro, " * 4): "lopsided",
        (usual[0][0], "Ne."): "lopsided",
        ("我很爱我的老猫",) * 2: "copied",  # a sign is more than a letter
    }
    result, counts = clean_pairs([*usual, *useful, *reasons])
    assert result == [*usual, *useful]
    assert counts == {"given": 101, "respelled": 3, "kept": 92} | Counter(reasons.values())


def test_the_corpus_itself_says_how_long_a_side_should_be():
    """A script without spaces says much in few characters: counted in words every pair would be
    lopsided, or none."""
    signs = [(f"{'word ' * 7}{n:04d}.", f"{'字' * 8}{n:04d}。") for n in range(90)]  # 40 and 13
    wrong = [("word " * 7, "字"), ("Word.", "字" * 26), ("word " * 8, "字" * 65)]
    assert clean_pairs(signs + wrong)[0] == signs


def test_sides_in_another_language_are_left_out_where_there_are_pairs_enough():
    rng = Random(1)
    pairs = [(line("a", rng), line("b", rng)) for _ in range(clean.MIN_PAIRS_FOR_LANGUAGES)]
    pairs[::20] = [(left, line("c", rng)) for left, _ in pairs[::20]]
    counts = clean_pairs(pairs)[1]
    assert counts[THIRD] >= 45 and counts["kept"] >= 930
    assert THIRD not in clean_pairs(pairs[:900])[1]  # too little is known
    assert clean_pairs(pairs, by_language=False)[0] == pairs


# Splitting ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "left, right",
    [
        ("我爱你。", "我爱你"),
        ("ไป\u200bไหน", "ไปไหน"),
        ("e\u200d\u0301te\u0301", "été"),
        ("Ｉ’m naïve,  isn't it", "I'm naive; isn't it?"),
    ],
)
def test_marks_and_invisible_signs_make_no_second_sentence(left, right):
    assert matching_key(left) == matching_key(right) != matching_key(right + "x")


def test_sentences_of_the_same_letters_stay_together():
    plain = [(f"我爱你{'我猫狗'[k % 3]}{k}。", f"Mi {k}.") for k in range(60)]
    spaced = [(" ".join(source[:-1]), f"{target[:-1]}!") for source, target in plain]
    parts = split_pairs(plain + spaced)
    part_of = {pair: name for name, part in parts.items() for pair in part}
    assert [part_of[pair] for pair in plain] == [part_of[pair] for pair in spaced]


@pytest.mark.parametrize("n, held_out", [(50, 5), (25_000, 2000)])
def test_how_many_are_held_out(n, held_out):
    parts = split_pairs([(f"a {k}", f"b {k}") for k in range(n)])
    assert sorted(map(len, parts.values())) == [held_out, held_out, n - 2 * held_out]


@pytest.mark.parametrize("reverse", [False, True])
def test_no_sentence_of_the_test_is_in_training(reverse, tmp_path):
    shouted = [(a.upper(), b + " ") for a, b in PAIRS]
    now = [(a, f"{b[:-1]} nun.") for a, b in PAIRS]
    corpus = prepare_pairs([tsv(tmp_path / "a.tsv", PAIRS + shouted + now)], reverse)
    keys = [{sentence_key(source) for source, _ in part} for part in corpus.splits.values()]
    assert sum(map(len, keys)) == len(set.union(*keys))  # a sentence stands in two parts
    assert sum(map(len, corpus.splits.values())) == corpus.counts["kept"] == 240


def test_both_directions_hold_out_the_same_pairs(tmp_path):
    "Then a reverse model can write pairs for the forward one and has seen nothing of its test."
    file = tsv(tmp_path / "a.tsv", PAIRS + [(f"Indeed, {a}", b) for a, b in PAIRS])
    forward, back = prepare_pairs([file]), prepare_pairs([file], True)
    assert [pair[::-1] for pair in back.splits["test"]] == forward.splits["test"]
    n_used = sum(map(len, back.splits.values()))
    assert n_used + len(back.rejected) == 160 and n_used < 160  # what both parts say is left out


# More pairs, and fewer ----------------------------------------------------------------------------


def test_swapped_columns_are_refused(tmp_path):
    rng = Random(1)
    pairs = [(line("a", rng), line("b", rng)) for _ in range(400)]
    file, more = tsv(tmp_path / "own.tsv", pairs[:300]), tsv(tmp_path / "more.tsv", pairs[300:])
    assert prepare_pairs([file], train_only=[more]).train_only_counts["kept"] == 100
    tsv(more, [pair[::-1] for pair in pairs[300:]])
    with pytest.raises(ValueError, match="more.tsv.*swapped"):
        prepare_pairs([file], train_only=[more])


@pytest.mark.parametrize("step", [1, -1])
def test_more_pairs_are_trained_on_and_never_tested_with(tmp_path, step):
    file, reverse = tsv(tmp_path / "own.tsv"), step < 0
    splits = prepare_pairs([file], reverse).splits
    train, valid, test = (splits[name] for name in ("train", "valid", "test"))
    new = [("A bird flies.", "Birdo flugas."), ("It rains here.", "Ĉi tie pluvas.")]
    reasons = {
        ("The reverse model made this.", test[0][::step][1].upper()): "held out",
        (valid[0][::step][0] + "!", "Io alia."): "held out",
        train[0][::step]: "repeated",
    }
    more = prepare_pairs([file], reverse, [tsv(tmp_path / "more.tsv", [*new, *reasons])])
    assert more.splits == splits | {"train": train + [pair[::step] for pair in new]}, (
        "pairs for training alone hold sentences of the test"
    )
    assert more.rejected == [(pair[::step], reason) for pair, reason in reasons.items()]


@pytest.fixture(params=[1, -1])
def doubtful(request, tmp_path):
    "A corpus in either direction, with a list of doubtful pairs: three of training, two held out."
    file, step = tsv(tmp_path / "own.tsv"), request.param
    splits = prepare_pairs([file], step < 0).splits
    pairs = [*splits["train"][3:6], splits["test"][0], splits["valid"][0]]
    listed = tsv(tmp_path / "low_confidence.tsv", [("-7.25", *pair) for pair in pairs])
    return file, step, splits, pairs, listed


@pytest.mark.parametrize("languages, wrong", [("en-de", 2), ("fr-en", 1), ("fi-en", 1)])
def test_columns_must_be_in_the_languages_that_were_named(languages, wrong, tmp_path):
    file = tsv(tmp_path / "a.tsv", load_corpus("pocket")["train"][:400])
    with pytest.raises(ValueError, match=f"column {wrong} .* looks like"):
        prepare_pairs([file], languages=languages.split("-"))


def test_columns_are_found_by_the_names_of_languages(tmp_path):
    named = [("id", "Esperanto", "Français", "English")]
    named += [(f"L{n}", "x", b, a) for n, (a, b) in enumerate(PAIRS)]
    assert read_pairs([tsv(tmp_path / "a.tsv", named)], ("en", "fr")) == PAIRS


def test_what_is_doubted_is_left_out_of_training_alone(doubtful):
    file, step, splits, pairs, listed = doubtful
    train = splits["train"]
    less = prepare_pairs([file], step < 0, exclude=[listed])
    assert less.splits == splits | {"train": train[:3] + train[6:]}
    assert less.rejected == [(pair, "low confidence") for pair in pairs[:3]]
    tsv(listed, [("-7", *pair) for pair in train])
    with pytest.raises(ValueError, match="low_confidence.tsv"):
        prepare_pairs([file], step < 0, exclude=[listed])


def test_a_list_may_come_back_from_a_table_program(doubtful):
    file, step, splits, pairs, listed = doubtful
    less = prepare_pairs([file], step < 0, exclude=[listed])
    first, second, third = ("\t".join(pair) for pair in pairs[:3])
    lines = f"\ufeff-7.25\t{first}\r\n\r\n-7,25\t{second}\t\n-7\t{third}"
    listed.write_text(lines, encoding="utf-8")
    assert prepare_pairs([file], step < 0, exclude=[listed]).splits == less.splits


# The model ----------------------------------------------------------------------------------------


def test_lines_are_translated_as_they_were_trained_on():
    single, several = (("He saw it.", "x"), ("He saw it. She did.", "Li vidis. Ŝi ankaŭ."))
    limits = [train.length_limits_for([single] * n + [several]) for n in (99, 100)]
    assert limits == [(128, 128), (128, 20)]


def test_a_short_training_warms_up_for_a_tenth_of_it(tmp_path):
    recipe = recipe_for({"train": PAIRS}, ("en", "eo"))
    recipe.training.epochs = 20
    translator = recipes.build_translator(recipe, PAIRS, tmp_path)
    trainer, batches = recipes.build_trainer(translator, PAIRS, recipe, tmp_path)
    rates = [trainer.lr_schedule(step) for step in range(1, batches.total_steps + 1)]
    assert batches.total_steps < TINY.warmup
    assert rates[batches.total_steps // 10 - 1] == max(rates) == pytest.approx(recipe.peak_lr)


def test_a_model_has_the_size_of_its_pairs(monkeypatch):
    monkeypatch.undo()
    pairs, languages = {"train": [("a", "b")] * 4400}, ("eo", "en")
    assert [choose_size(n) for n in (1, 10**8)] == [train.SIZES[0], train.SIZES[-1]]
    sizes = [recipe_for(pairs, languages, n_excluded=n).vocab_size for n in (0, 200)]
    assert sizes == [1000, 2000]  # pairs that are doubted make the model no smaller
    ours, theirs = recipes.RECIPES["tatoeba-fr"], train.recipe_of(train.SIZES[3], languages)
    assert (ours.model, ours.training) == (theirs.model, theirs.training)  # the book's own row


# The folder ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["test.tsv", "report.md", "log.jsonl", "tokenizer.json"])
def test_a_file_of_ones_own_is_never_written_over(name, typed, tmp_path):
    tsv(tmp_path / "own.tsv")
    (tmp_path / name).touch()
    refused(typed(f"{TRAIN} --output-dir ."), name)


# From the command to the report -------------------------------------------------------------------


def test_a_pair_is_trained_reported_used_and_scored_again(typed, tmp_path, monkeypatch):
    tsv(tmp_path / "own.tsv")
    output, folder = typed(TRAIN).out, tmp_path / "runs" / "en-eo"
    record = json.loads((folder / "run.json").read_text("utf-8"))
    bleu = record["scores"][1]
    score = f"BLEU {bleu['value']:.1f}"
    assert "train 64, valid 8, test 8" in output and score in output
    assert (record["command"], record["seed"]) == (f"transformer-lit {TRAIN}", 3)
    assert record["data"]["cleaning"]["kept"] == 80 and record["data"]["leak_by_sentence"] == 0
    page = (folder / "report.md").read_text("utf-8")
    for words in TRAIN, "80 pairs, 80 kept", f"{record['parameters']:,}", bleu["signature"]:
        assert words in page, f"the report should name {words}"
    tested = {source for source, _ in rows_of(folder / "test.tsv")}
    listed = rows_of(folder / "low_confidence.tsv")
    assert len(listed) == 6 and listed == sorted(listed, key=lambda row: float(row[0]))
    assert not {row[1] for row in listed} & tested  # what is tested isn't trained on

    monkeypatch.setattr(train.records, "hardware_name", lambda device=None: "another")
    assert typed(TRAIN).status == 0  # a finished run is tested again
    again = json.loads((folder / "run.json").read_text("utf-8"))["hardware"]
    assert again == record["hardware"]  # a run names the machine that trained it
    assert typed(f"translate --model {folder} Hello. --beam-size 1").status == 0
    assert score in typed(f"evaluate --model {folder}").out
    refused(typed(f"{TRAIN} --epochs 7"), "'epochs': 7")


def test_more_pairs_and_fewer_from_the_command_to_the_report(typed, tmp_path):
    tsv(tmp_path / "own.tsv")
    tsv(tmp_path / "made.tsv", [("A bird flies.", "Birdo flugas."), PAIRS[0], ("", "Nenio.")])
    assert typed(TRAIN).status == 0
    first, folder = tmp_path / "runs/en-eo", tmp_path / "changed"
    listed = rows_of(first / "low_confidence.tsv")
    options = "--extra-train made.tsv --exclude runs/en-eo/low_confidence.tsv --output-dir changed"
    assert f"train {64 + 1 - 6}, valid 8, test 8" in typed(f"{TRAIN} {options}").out
    page = (folder / "report.md").read_text("utf-8")
    for words in "1 kept for training only", "low_confidence.tsv: 6 of", "made.tsv":
        assert words in page, f"the report should name {words}"
    tests = [(place / "test.tsv").read_bytes() for place in (folder, first)]
    assert tests[0] == tests[1]  # so that the scores can be compared
    filtered = [["low confidence", *row[1:]] for row in listed] + [["empty", "", "Nenio."]]
    assert sorted(rows_of(folder / "filtered.tsv")) == sorted(filtered)
    refused(typed(f"{TRAIN} --output-dir changed"), "changed")
    assert "eo to en: train 65," in typed(f"{TRAIN} --extra-train made.tsv --reverse").out


def test_training_goes_on_from_a_pretrained_translator(typed, tmp_path, monkeypatch):
    tsv(tmp_path / "own.tsv")
    typed(TRAIN)
    parts = prepare_pairs([tmp_path / "own.tsv"]).splits
    everyday = [("Hello there.", "Saluton."), *parts["test"], *parts["valid"]]
    monkeypatch.setitem(train.CORPUS_LANGUAGES, "tatoeba", ("eo",))
    monkeypatch.setattr(train, "load_corpus", lambda *_: {"train": everyday})
    old, new = tmp_path / "runs/en-eo", tmp_path / "more"
    done = typed(f"{TRAIN} --init-from runs/en-eo --output-dir more")
    assert done.status == 0 and "1 pairs of Tatoeba" in done.out  # a test sentence is mixed in
    logs = [(run / "log.jsonl").read_text("utf-8") for run in (old, new)]
    before, after = (json.loads(log.split("\n")[0])["loss"] for log in logs)
    assert after < before - 0.3  # it starts from random weights
    assert (old / "tokenizer.json").read_bytes() == (new / "tokenizer.json").read_bytes()
    refused(typed(f"{TRAIN} --init-from runs/en-eo --with d_model=8"), "d_model")
    other = TRAIN.replace("en-eo", "en-nl")
    refused(typed(f"{other} --init-from runs/en-eo"), "en-eo")


@pytest.mark.parametrize("reverse, cut", [(False, "tok:char"), (True, "tok:13a")])
def test_a_script_without_spaces_in_either_direction(reverse, cut, tmp_path):
    signs = ["".join(SIGNS[word] for word in a.rstrip(".").split()) + "。" for a, _ in PAIRS]
    file = tsv(tmp_path / "a.tsv", [(a, b) for (a, _), b in zip(PAIRS, signs)])
    folder, cpu = tmp_path / "run", torch.device("cpu")
    record = train_on_files([file], ("en", "zh"), folder, "", reverse, {"epochs": 1}, cpu)
    assert cut in record["scores"][1]["signature"] and record["data"]["cleaning"]["kept"] == 80
    assert Translator.load(folder).languages == (("zh", "en") if reverse else ("en", "zh"))
    assert (rows_of(folder / "test.tsv")[0][0][0] in SIGNS.values()) == reverse


# The report ---------------------------------------------------------------------------------------


def test_the_least_likely_pairs_are_doubted():
    translator = Translator.load(shipped("data/checkpoints/pocket"))
    pairs = [pair[:2] for pair in load_corpus("pocket")["train"][:38]]
    swapped = [(pairs[0][0], pairs[20][1]), (pairs[20][0], pairs[0][1])]
    rows = train.least_likely_pairs(translator, pairs[:20] + swapped + pairs[20:])
    assert len(rows) == 4 and rows == sorted(rows)
    assert {pair for _, pair in rows[:2]} == set(swapped)


def test_what_would_break_a_table_does_not():
    table = report.markdown_table(("a", "b"), [("x|y", "\\"), ("<b>&amp;\nend", "")])
    assert table.splitlines()[2:] == ["| x\\|y | \\\\ |", "| &lt;b>&amp;amp; end |  |"]


def test_right_and_wrong_answers_are_chosen_over_the_range():
    sources = [f"s{k}" for k in range(60)]
    references = [[f"abcdefghij{k:02d}", f"second {k}"] for k in range(60)]
    answers = [f"second {k}" if k < 24 else "abcdefghij"[: k % 11] + "xyz" for k in range(60)]
    rows = report.choose_examples(sources, references, answers)
    right, wrong = rows["right"], [row.chrf for row in rows["wrong"]]
    assert len(right) == 10 == len(wrong) and all(row.is_right for row in right)
    assert wrong == sorted(wrong) and wrong[0] < 5 < wrong[-1]
    assert int(right[-1].source[1:]) > 20  # not the first ones alone
    rows = report.choose_examples(sources, references, ["second 0", *answers[30:], *answers[30:59]])
    assert [row.is_right for row in rows["right"]] == [True] + [False] * 9


def test_answers_are_counted_by_their_own_references(tmp_path):
    pairs = [("One.", "Unu."), ("One.", "Unua."), ("Two.", "Du.")]
    report.write_tsv(tmp_path / report.TEST, pairs)
    answers = {"One.": "Unua.", "Two.": "Tri."}
    scores = report.score_again(lambda lines: [answers[line] for line in lines], tmp_path)
    assert scores["sentences"] == 2 and scores["all"][1]["value"] > scores["one"][1]["value"]
    assert report.leaked_but_for_numbers(["Order 12.", "A cat."], [("Order 7!", "x")]) == 0.5
