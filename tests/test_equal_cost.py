"""The rule of part IV, asked of the records themselves: equal parameters, tokens and search, counted operations, three seeds."""
import inspect
import itertools
import json
import math
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from statistics import mean

import pytest
import torch
from torch import nn

from transformer_lit import equal_cost as e
from transformer_lit.support import comparison, comparison_runs as made
from transformer_lit.support.records import commit
from transformer_lit.translation import Translator

RECORDS = sorted((Path(__file__).parents[1] / "book/results/equal").glob("*/*.json"))
NAMES = [f"{path.parent.name}/{path.stem}" for path in RECORDS]
BENCH = Path(__file__).parents[1] / "book/results/bench"
ALL = set(made.COMPETITORS)
EXPECTED = {"pocket": ALL, "tatoeba": {"transformer", "rnn", "rnn-attention", "decoder-only", "decoder-only-prefix", "decoder-only-both",
                                        "decoder-only-decay", "2017", "pre-norm-muon", "all-together"}}


def kept(name):
    return json.loads(RECORDS[NAMES.index(name)].read_text())


def counting(record):
    return made.results_of(record["runs"], bool(record["scale"]["search"]))


def test_what_the_rule_fixes():
    "Each number that all competitors share, and what a design or a run takes unless it is told otherwise."
    fixed = {"pocket": ("pocket", 2000, 200_000, None, 512, 500, (1, 2, 3)), "tatoeba": ("tatoeba", 8000, 1_650_000, 150_000, 1024, 1000, (1,))}
    assert {name: (s.corpus, s.vocabulary, s.tokens, s.search, s.max_tokens, s.lines, s.seeds) for name, s in e.SCALES.items()} == fixed
    assert all(scale.peaks == (3e-3, 6e-3, 1.2e-2) for scale in e.SCALES.values())
    small = dict(d_model=64, n_heads=4, d_ff=256, n_encoder_layers=3, n_decoder_layers=3, dropout=0.1, norm="pre")
    assert e.SMALL_SIZES == e.SCALES["pocket"].sizes == small and e.SCALES["tatoeba"].sizes == {**small, "d_model": 96, "d_ff": 384}
    assert e.EDGES == (1, 5, 7, 9, 12, 16) and list(e.OPTIMIZERS) == ["adam", "adamw", "muon", "muon0"]
    design = e.Design(None)
    assert (design.optimizer, design.smoothing, design.warmup, design.gradient, design.peaks) == ("adam", 0.1, 0.1, None, None)
    assert e.STUDENT == {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 10: 2.262}
    taken = {call.__name__: {name: one.default for name, one in inspect.signature(call).parameters.items() if one.default is not one.empty}
             for call in (e.fit_size, e.short_run, e.one_run, e.ground.__wrapped__, e.build_transformer)}
    assert taken == {"fit_size": {"sizes": range(8, 4096)}, "short_run": {"tokens": 60_000, "seed": 1, "peak": 3e-3, "corpus": "pocket"},
                     "one_run": {"looks": 8, "counted": 6}, "ground": {"longest": 100}, "build_transformer": {"parameters": 0}}
    assert e.MeteredTrainer.every == 100 and [getattr(e.MeteredTrainer, name) for name in ("counted", "flops", "timed", "wall", "cpu")] == [0] * 5


def test_the_records_are_there():
    for corpus, names in EXPECTED.items():
        assert names <= {path.stem for path in RECORDS if path.parent.name == corpus}, corpus


def test_the_runs_by_length_are_whole():
    runs = json.loads((BENCH / "length.json").read_text())["runs"]
    assert {(r["kind"], r["trained"], r["seed"]) for r in runs} == set(
        itertools.product(("sinusoids", "learned", "RoPE"), ("short", "all"), (1, 2, 3)))
    assert len({r["tokens"] // 1000 for r in runs}) == 1 and all("greedy" in r for r in runs)


def test_the_lines_of_ngrams_belong_to_the_records_and_do_as_the_page_says():
    record = json.loads((BENCH / "ngrams.json").read_text())
    assert {corpus: sorted(map(int, seeds)) for corpus, seeds in record["lines"].items()} == {
        corpus: sorted(scale.seeds) for corpus, scale in e.SCALES.items()} and not record["commit"].endswith("-dirty")
    for corpus in e.SCALES:
        lines = comparison.lines_of(corpus)
        assert lines["unigram"] > lines["bigram"] > lines["trigram"] == comparison.trigram_line(corpus)[0] > 2
    names = {corpus: [name.split("/")[1] for name in NAMES if name.startswith(corpus)] for corpus in e.SCALES}
    assert set(comparison.below_trigram(names["pocket"], "pocket")) == {
        "rnn", "rnn-attention", "rnn-attention-muon", "pre-norm-muon", "pre-norm-muon0", "all-together"}
    assert comparison.below_trigram(names["tatoeba"], "tatoeba") == names["tatoeba"]
    told = comparison.table_of(["transformer"])._repr_html_()
    assert f"{comparison.lines_of('pocket')['trigram']:.3f}" in told and "trigram of French alone" in told and "unigram" not in told


@pytest.mark.parametrize("name", NAMES)
def test_parameters_within_two_percent(name):
    record, reference = kept(name), kept(name.split("/")[0] + "/transformer")
    wanted = reference["runs"][0]["parameters"]
    for run in record["runs"]:
        if "failed" not in run:
            assert abs(run["parameters"] / wanted - 1) <= 0.02, (run["parameters"], wanted)


@pytest.mark.parametrize("name", NAMES)
def test_tokens_scale_and_search_are_the_references(name):
    record, reference = kept(name), kept(name.split("/")[0] + "/transformer")
    assert record["scale"] == reference["scale"]
    peaks = set(record["scale"]["peaks"])
    first = record["scale"]["seeds"][0]
    tried = {run["peak"] for run in record["runs"] if run["search"] and run["seed"] == first}
    assert peaks <= tried, "a peak of the grid was not tried"
    assert min(tried) < counting(record)[0]["peak"] < max(tried), "the search isn't closed: the best peak is its edge"
    by_seed = {run["seed"]: run["tokens"] for run in counting(reference)}
    for run in counting(record):
        assert run["tokens"] == by_seed[run["seed"]] >= record["scale"]["tokens"]


@pytest.mark.parametrize("name", NAMES)
def test_seeds_scores_and_counted_operations(name):
    record = kept(name)
    runs = counting(record)
    assert [run["seed"] for run in runs] == record["scale"]["seeds"]
    assert name.split("/")[0] != "pocket" or len(runs) == 3
    best = min(run["valid_loss"] for run in record["runs"] if run["search"])
    assert best in [run["valid_loss"] for run in record["runs"] if run["search"] and run["peak"] == runs[0]["peak"]]
    for run in runs:
        assert 0 < run["flops"] < 10 * run["flops_6nd"] and run["flops_6nd"] == 6 * run["parameters"] * run["tokens"]
        assert 0 <= run["low"] <= run["bleu"] <= run["high"] <= 100 and "version:" in run["signature"]
        assert run["lines"] == record["scale"]["lines"] == sum(group["sentences"] for group in run["by_length"])
        assert math.isfinite(run["valid_loss"]) and run["curve"][-1][0] == run["tokens"]
        assert run["cpu_seconds"] > 0 and run["decode_seconds"] > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_record_names_its_command_commit_and_what_was_said(name):
    record, corpus = kept(name), name.split("/")[0]
    design = name.split("/")[1]
    assert record["command"] == comparison.command(design, corpus) and record["design"] == design
    for made_from in [record["commit"], *(run.get("commit", record["commit"]) for run in record["runs"])]:
        assert made_from not in ("", "unknown") and "dirty" not in made_from
    lines = RECORDS[NAMES.index(name)].with_suffix(".txt").read_text("utf-8").split("\n")
    assert len(lines) == record["scale"]["lines"] + 1


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_design_can_be_built_as_it_was(name):
    record = kept(name)
    design, sizes = made.find_design(name.split("/")[1]), record["scale"]["sizes"]
    vocab = record["scale"]["vocabulary"]
    model = design.build(vocab, sizes, e.wanted_parameters(e.SCALES[record["scale"]["corpus"]], vocab))
    assert e.count_parameters(model) == counting(record)[0]["parameters"]


def test_scales_of_the_package_are_those_of_the_records():
    for corpus in EXPECTED:
        scale = json.loads(json.dumps(asdict(e.SCALES[corpus])))
        assert scale == kept(f"{corpus}/transformer")["scale"]


def test_an_unknown_name_gets_the_list(capsys):
    with pytest.raises(SystemExit):
        made.make_records(["perceptron"])
    said = capsys.readouterr().err
    assert "perceptron: choose from transformer" in said and "rnn-attention" in said


def test_a_search_and_a_result_get_their_budgets(monkeypatch):
    asked = []
    monkeypatch.setattr(made, "one_run", lambda design, scale, *_: asked.append(scale.tokens) or ({}, None))
    for corpus in ("pocket", "tatoeba"):
        for search in (True, False):
            made.attempt_run(None, e.SCALES[corpus], None, 0.1, 1, search)
    assert asked == [200_000, 200_000, 150_000, 1_650_000]


def test_a_missing_record_names_its_command():
    with pytest.raises(FileNotFoundError, match="python -m transformer_lit.equal_cost perceptron --corpus pocket"):
        e.runs_of(["perceptron"])


def test_a_run_that_ends_in_nan_has_a_row_and_no_model(monkeypatch):
    def stop(*args, **options):
        raise ValueError("loss nan after step 3")
    monkeypatch.setattr(made, "one_run", stop)
    row, model = made.attempt_run(None, e.SCALES["pocket"], None, 0.1, 1, True)
    assert row == {"seed": 1, "peak": 0.1, "search": True, "valid_loss": math.inf, "failed": "loss nan after step 3"}
    assert model is None


def test_optimisers_step_what_they_should():
    model = e.build_transformer(40, e.SMALL_SIZES | dict(d_model=8, n_heads=2, d_ff=16, n_encoder_layers=1, n_decoder_layers=1))
    stacks = {id(w) for stack in (model.encoder, model.decoder) for w in stack.parameters() if w.ndim == 2}
    for name in ("adamw", "muon", "muon0"):
        one, two = e.OPTIMIZERS[name](model).parts
        assert {id(w) for group in one.param_groups for w in group["params"]} == stacks
        assert all(id(w) not in stacks for group in two.param_groups for w in group["params"])
        assert one.param_groups[0]["weight_decay"] == (0.0 if name == "muon0" else 0.1)


def test_decay_shrinks_the_hidden_matrices_and_nothing_else():
    "With a gradient of zero Adam stays where it is, so all that moves is decay: by rate times decay."
    model = e.build_transformer(50, e.SMALL_SIZES | dict(d_model=8, n_heads=2, d_ff=16))
    weight, vectors = model.encoder.layers[0].feed_forward[0].weight, model.source.tokens.weight
    both = e.AdamWAndAdam(model, decay=0.5)
    for w in model.parameters():
        w.grad = torch.zeros_like(w)
    for group in both.param_groups:
        group["lr"] = 0.1
    before, read = weight.detach().clone(), vectors.detach().clone()
    both.step()
    torch.testing.assert_close(weight.detach(), before * (1 - 0.1 * 0.5))
    assert torch.equal(read, vectors)
    assert both.first == 3 * 6 + 3 * 10, "an encoder layer has 4 + 2 matrices, a decoder layer 8 + 2"


# The rule ------------------------------------------------------------------------------------------------------------

@cache
def field():
    return e.ground("pocket")


TINY = replace(e.SCALES["pocket"], sizes=e.SMALL_SIZES | dict(d_model=16, d_ff=32), tokens=600, max_tokens=256,
               seeds=(1, 2), peaks=(1e-3, 1e-2, 9.0))


@cache
def few():
    return replace(field(), valid=field().valid[:100], sources=field().sources[:8], references=field().references[:8])


def test_a_design_departs_in_nothing_unless_it_says_so():
    plain = e.Design(nn.Identity)
    assert (plain.optimizer, plain.smoothing, plain.warmup, plain.peaks) == ("adam", 0.1, 0.1, None)
    assert all(s.peaks == (3e-3, 6e-3, 1.2e-2) and s.sizes["norm"] == "pre" for s in e.SCALES.values())


def test_the_ground_can_say_its_references():
    encode = Translator(None, field().tokens, field().tokens).encode_pairs
    pairs = zip(field().sources, (refs[0] for refs in field().references))
    assert all(field().tokens.decode(ids[1:]) in refs for (_, ids), refs in zip(encode(pairs), field().references))
    assert len(field().sources) == len(set(field().sources)) == e.SCALES["pocket"].lines
    assert max(len(side) for pair in field().train for side in pair) <= 100


def test_batches_are_those_of_the_seed_and_meet_the_budget():
    some = field().train[:300]
    batches = e.batches_for(some, 256, 6000, seed=1)
    count = sum(e.labels(some, batch) for batch in batches)
    assert count >= 6000 > count - e.labels(some, batches[-1]), "the budget is met by the last batch, not before it"
    torch.rand(7)
    assert batches == e.batches_for(some, 256, 6000, 1) != e.batches_for(some, 256, 6000, 2)
    assert sorted([i for batch in batches for i in batch][:300]) == list(range(300)), "a pair twice in an epoch"


def test_the_size_that_comes_nearest():
    square = lambda n: nn.Linear(n, n)  # noqa: E731
    assert e.fit_size(square, 10_250) == 101
    assert [e.fit_size(square, n * n + n) for n in (8, 9, 4095)] == [8, 9, 4095]
    with pytest.raises(ValueError, match="size 95 comes nearest and is -11.0% off"):
        e.fit_size(square, 10_250, range(90, 96))


def row_of(peak, loss, seed=1, search=True):
    return {"peak": peak, "seed": seed, "search": search, "valid_loss": loss}


def test_the_best_peak_is_that_of_the_search():
    assert e.best_peak([row_of(1, 3.0), row_of(2, 2.0), row_of(3, math.inf)], 1) == 2
    assert e.best_peak([row_of(1, 3.0), row_of(2, 2.0, seed=2)], 1) == 1
    assert e.best_peak([row_of(1, 3.0), row_of(2, 2.0, search=False)], 1) == 1
    assert e.best_peak([row_of(1, math.inf)], 1) is None


def searched(losses, peaks):
    runs = []
    while (peak := e.next_peak(runs, 1, peaks)) is not None:
        runs.append(row_of(peak, losses[peak]))
    return [run["peak"] for run in runs]


def test_a_search_goes_on_beyond_its_edges():
    assert searched({0.1: 3.0, 0.2: 2.0, 0.4: 1.0, 0.8: 1.5}, (0.1, 0.2)) == [0.1, 0.2, 0.4, 0.8], (
        "the best peak lies at the edge, and the search must go on beyond it")
    assert searched({0.2: 1.0, 0.1: 2.0, 0.4: 2.0}, (0.2, 0.4)) == [0.2, 0.4, 0.1]
    assert searched({0.1: math.inf}, (0.1,)) == [0.1], "nothing trains"


def test_a_gap_is_that_of_the_pairs():
    assert e.gap_of([1.0, 2.0, 3.0], [0.0, 0.0, 0.0]) == (2.0, 4.303 / math.sqrt(3))
    assert e.gap_of([1.0, 5.0], [0.0, 4.0]) == (1.0, 0.0), "the same difference with both seeds"
    with pytest.raises(ValueError):
        e.gap_of([1.0, 2.0], [1.0])


# Which run is next, and what is kept ----------------------------------------------------------------------------------

def order_of(scale, losses, peaks=(0.1, 0.2, 0.3)):
    runs, order = [], []
    while following := made.next_run(runs, scale, peaks):
        order.append(following)
        runs.append(row_of(following[0], losses[following[0]], *following[1:]))
    return order


GRID = [(0.1, 1, True), (0.2, 1, True), (0.3, 1, True)]


def test_first_the_search_then_the_seeds():
    scale, losses = e.SCALES["pocket"], {0.1: 3.0, 0.2: 2.0, 0.3: math.inf}
    assert order_of(scale, losses) == GRID + [(0.2, 2, False), (0.2, 3, False)]
    assert order_of(replace(scale, search=9), losses) == GRID + [(0.2, seed, False) for seed in (1, 2, 3)]
    assert made.next_run([row_of(0.1, math.inf)], scale, (0.1,)) is None, "nothing trains: no result"


def test_a_run_outside_the_comparison():
    scale, runs = e.SCALES["pocket"], [row_of(0.1, 2.0)]
    assert made.next_extra(runs, scale, [0.1]) is None, "it ran at full length"
    assert made.next_extra(runs, replace(scale, search=9), [0.1]) == (0.1, 1, False)
    assert made.next_extra(runs, scale, [0.1, 0.4]) == (0.4, 1, False)


def test_the_results_are_the_runs_that_count():
    runs = [row_of(p, p, s, q) for p, s, q in GRID + [(0.1, 1, False), (0.1, 2, False)]]
    assert [(r["seed"], r["search"]) for r in made.results_of(runs, True)] == [(1, False), (2, False)]
    assert len(made.results_of(runs[:3] + runs[4:], False)) == 2


def test_a_record_is_made_once_and_goes_on(tmp_path, monkeypatch):
    path, how = tmp_path / "transformer.json", (e.DESIGNS["transformer"], TINY, few(), {"commit": "by hand"})
    once = made.run_all(path, *how)
    with monkeypatch.context() as nothing:
        nothing.setattr(made, "attempt_run", None)
        nothing.setattr(made, "score", None)
        assert made.run_all(path, *how) == once == json.loads(path.read_text())["runs"], "nothing is left to do"
    assert ["bleu" in row for row in once].count(True) == 2 and len({row["peak"] for row in once}) >= 3
    assert len(path.with_suffix(".txt").read_text().splitlines()) == 8
    made.keep(path, how[-1], [{k: v for k, v in row.items() if k != "bleu"} for row in once])
    assert [row.get("bleu") for row in made.run_all(path, *how)] == [row.get("bleu") for row in once], "the same seed, another model"


def test_the_command_makes_such_a_record(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(e.SCALES, "pocket", replace(TINY, tokens=300, seeds=(1,)))
    monkeypatch.setattr(made, "ground", lambda corpus: few())
    assert made.make_records(["transformer", "--out", str(tmp_path)]) == 0
    record = json.loads((tmp_path / "pocket/transformer.json").read_text())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"transformer: {tmp_path}/pocket/transformer.json" and len(lines) == 1 + len(record["runs"])
    assert lines[1].startswith("  peak 0.001, seed 1: validation loss ")
    assert record["command"] == comparison.command("transformer", "pocket") and record["commit"] == commit()


# The records, read ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_is_what_counts(name):
    corpus, design = name.split("/")
    assert comparison.runs_of([design], corpus)[design] == counting(kept(name))
    searched = comparison.search_of(design, corpus)
    assert list(searched) == sorted(searched) and comparison.has_record(design, corpus)
    assert min(searched, key=searched.get) == counting(kept(name))[0]["peak"]
    assert len(comparison.said(design, corpus)) == kept(name)["scale"]["lines"]


def test_what_the_search_is_worth_as_the_page_says():
    "Facts of the records that chapter 22 states: Muon harms the RNN at the lowest common peak and helps at the others."
    adam, muon = (comparison.search_of(name) for name in ("rnn-attention", "rnn-attention-muon"))
    gains = [muon[peak] - adam[peak] for peak in e.SCALES["pocket"].peaks]
    assert gains[0] > 0 > max(gains[1:]) and min(muon.values()) < min(adam.values())
    rnn, transformer = (comparison.search_of(name) for name in ("rnn", "pre-norm-muon"))
    assert rnn[0.003] < transformer[0.003] and min(rnn.values()) > min(transformer.values())
    searches = [comparison.search_of(name.split("/")[1]) for name in NAMES if name.startswith("pocket")]
    pairs = list(itertools.combinations(searches, 2))
    for peak in e.SCALES["pocket"].peaks:
        swapped = sum((a[peak] - b[peak]) * (min(a.values()) - min(b.values())) < 0 for a, b in pairs)
        assert 0 < swapped <= 0.06 * len(pairs), "about one pair in twenty, or fewer"


def test_what_three_seeds_decide_as_the_page_says():
    losses = {name: [run["valid_loss"] for run in runs] for name, runs in comparison.runs_of(
        ["gelu", "2017", "rnn", "rnn-attention", "rnn-attention-muon", "decoder-only", "decoder-only-prefix", "rope"]).items()}
    assert min(losses["2017"]) < max(losses["gelu"]), "the ranges overlap"
    for one, other, decided in (("gelu", "2017", True), ("rnn-attention", "rnn", True), ("rnn-attention-muon", "rnn-attention", True),
                                ("decoder-only-prefix", "decoder-only", False), ("rope", "2017", False)):
        gap, half = e.gap_of(losses[one], losses[other])
        assert (abs(gap) > half) == decided, (one, other)


def test_means_brackets_and_a_row_without_a_record():
    assert comparison.over_seeds([1.0, 2.0, 4.5]) == "2.50 (1.00 to 4.50)" and comparison.over_seeds([1.0]) == "1.00"
    runs = comparison.runs_of(["transformer"])["transformer"]
    assert "[" in comparison.bleu_text(runs[:1]) and "(" in comparison.bleu_text(runs)
    assert comparison.cost_row("perceptron") == {"": "perceptron", "BLEU": "not run yet", "made by": comparison.command(
        "perceptron", "pocket")}
    row = comparison.cost_row("transformer")
    assert row["tokens"] == runs[0]["tokens"] and row["cpu s"] == round(mean(run["cpu_seconds"] for run in runs))


# The command ---------------------------------------------------------------------------------------------------------

def rows_done():
    "Runs that leave nothing to train on the pocket ground."
    return [{"peak": peak, "seed": seed, "valid_loss": loss, "search": seed == 1, "bleu": 10.0}
            for peak, seed, loss in ((0.003, 1, 3.0), (0.006, 1, 2.0), (0.012, 1, 3.0), (0.006, 2, 2.0), (0.006, 3, 2.0))]


def test_records_stay_out_of_the_folder_one_stands_in(tmp_path, monkeypatch, capsys):
    "It used to write book/results/ wherever it was called, and printed tuples."
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(made, "ground", lambda corpus: None)
    monkeypatch.setattr(made, "run_all", lambda path, *_: asked.append(path) or rows_done())
    asked = []
    assert made.make_records(["transformer"]) == 0 and made.make_records(["transformer", "--out", "mine"]) == 0
    assert [str(path) for path in asked] == ["runs/equal/pocket/transformer.json", "mine/pocket/transformer.json"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "transformer: runs/equal/pocket/transformer.json"
    assert lines[1] == "  peak 0.003, seed 1: validation loss 3.000, BLEU 10.0 (of the search)"
    assert not list(tmp_path.iterdir())


def test_the_help_names_every_competitor(capsys):
    with pytest.raises(SystemExit):
        made.make_records(["--help"])
    said = "".join(capsys.readouterr().out.split())
    assert all(name in said for name in ALL) and "runs/equal" in said


def test_a_record_of_another_ground_or_design_is_refused_and_kept(tmp_path, capsys):
    path = tmp_path / "pocket" / "transformer.json"
    path.parent.mkdir()
    whole = {"command": "x", "commit": "y", "design": "transformer", "scale": asdict(e.SCALES["pocket"]), "runs": rows_done()}
    for change in ({"design": "rnn"}, {"scale": whole["scale"] | {"tokens": 5}}):
        path.write_text(text := json.dumps(whole | change))
        assert made.make_records(["transformer", "--out", str(tmp_path)]) == 1
        assert "was made with another" in capsys.readouterr().err and path.read_text() == text
