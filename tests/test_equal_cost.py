"""The rule of part IV, asked of the records themselves: equal parameters, tokens and search, counted operations, three seeds."""
import inspect
import itertools
import json
import math
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from statistics import mean

import numpy as np
import pytest
import torch
from torch import nn

from transformer_lit import equal_cost as e
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.support import comparison, comparison_runs as made
from transformer_lit.support.records import commit
from transformer_lit.training import collate
from transformer_lit.translation import Translator

RECORDS = sorted((Path(__file__).parents[1] / "book/results/equal").glob("*/*.json"))
NAMES = [f"{path.parent.name}/{path.stem}" for path in RECORDS]
BENCH = Path(__file__).parents[1] / "book/results/bench"
ALL = set(made.COMPETITORS)
EXPECTED = {"pocket": {name for name in ALL if not name.startswith("decoder-only")}, "tatoeba": {"transformer", "2017", "pre-norm-muon", "all-together"}}


def kept(name):
    return json.loads(RECORDS[NAMES.index(name)].read_text())


def counting(record):
    return made.results_of(record["runs"], bool(record["scale"]["search"]))


def test_what_the_rule_fixes():
    "Each number that all competitors share, and what a design or a run takes unless it is told otherwise."
    fixed = {"tatoeba": ("tatoeba", 4000, 2_000_000, 500_000, 1024, 1000), "pocket": ("pocket", 2000, 200_000, 0, 512, 500)}
    assert {name: (s.corpus, s.vocabulary, s.tokens, s.search, s.max_tokens, s.lines) for name, s in e.SCALES.items()} == fixed
    assert all((s.seeds, s.search_seeds) == ((1, 2, 3), (4, 5)) for s in e.SCALES.values())
    assert (e.PEAKS, e.WARMUPS, e.TRIALS) == ((3e-3, 6e-3, 1.2e-2), (0.0, 0.03, 0.1, 0.3, 0.6, 0.9), 14)
    small = dict(d_model=64, n_heads=4, d_ff=256, n_encoder_layers=3, n_decoder_layers=3, dropout=0.1, norm="pre")
    assert e.SMALL_SIZES == e.SCALES["pocket"].sizes == small and e.SCALES["tatoeba"].sizes == {**small, "d_model": 96, "d_ff": 384}
    assert e.EDGES == (1, 5, 7, 9, 12, 16) and list(e.OPTIMIZERS) == ["adam", "adamw", "muon", "muon0"]
    design = e.Design(None)
    assert (design.optimizer, design.smoothing, design.warmup, design.gradient, design.peaks) == ("adam", 0.1, 0.1, None, None)
    assert e.STUDENT == {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 10: 2.262}
    taken = {call.__name__: {name: one.default for name, one in inspect.signature(call).parameters.items() if one.default is not one.empty}
             for call in (e.fit_size, e.short_run, e.one_run, e.ground.__wrapped__, e.build_transformer, e.next_setting, e.difference)}
    assert taken == {"fit_size": {"sizes": range(8, 4096)}, "short_run": {"tokens": 60_000, "seed": 1, "peak": 3e-3, "corpus": "pocket"},
                     "one_run": {"looks": 8, "counted": 6}, "ground": {"longest": 100, "tokens": None}, "build_transformer": {"parameters": 0},
                     "next_setting": {"most": 14}, "difference": {"samples": 2000, "seed": 1}}
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
        corpus: sorted(scale.seeds) for corpus, scale in made.SCALES.items()} and not record["commit"].endswith("-dirty")
    for corpus in made.SCALES:
        lines = comparison.lines_of(corpus)
        assert lines["unigram"] > lines["bigram"] > lines["trigram"] == comparison.trigram_line(corpus)[0] > 2
    names = {corpus: [name.split("/")[1] for name in NAMES if name.startswith(corpus)] for corpus in made.SCALES}
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
    today = record["command"].replace("transformer_lit.equal_cost", "transformer_lit.support.comparison_runs")
    assert today == comparison.command(design, corpus) and record["design"] == design
    for made_from in [record["commit"], *(run.get("commit", record["commit"]) for run in record["runs"])]:
        assert made_from not in ("", "unknown") and "dirty" not in made_from
    lines = RECORDS[NAMES.index(name)].with_suffix(".txt").read_text("utf-8").split("\n")
    assert len(lines) == record["scale"]["lines"] + 1


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_design_can_be_built_as_it_was(name):
    record = kept(name)
    design, sizes = made.find_design(name.split("/")[1]), record["scale"]["sizes"]
    vocab = record["scale"]["vocabulary"]
    model = design.build(vocab, sizes, e.wanted_parameters(made.SCALES[record["scale"]["corpus"]], vocab))
    assert e.count_parameters(model) == counting(record)[0]["parameters"]


def test_scales_of_the_first_rule_are_those_of_the_records():
    for corpus in EXPECTED:
        scale = json.loads(json.dumps(asdict(made.SCALES[corpus])))
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
            made.attempt_run(None, made.SCALES[corpus], None, 0.1, 1, search)
    assert asked == [200_000, 200_000, 150_000, 1_650_000]


def test_a_missing_record_names_its_command():
    with pytest.raises(FileNotFoundError, match="python -m transformer_lit.support.comparison_runs perceptron --corpus pocket"):
        e.runs_of(["perceptron"])


def test_a_run_that_ends_in_nan_has_a_row_and_no_model(monkeypatch):
    def stop(*args, **options):
        raise ValueError("loss nan after step 3")
    monkeypatch.setattr(made, "one_run", stop)
    row, model = made.attempt_run(None, made.SCALES["pocket"], None, 0.1, 1, True)
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


TINY = replace(made.SCALES["pocket"], sizes=e.SMALL_SIZES | dict(d_model=16, d_ff=32), tokens=600, max_tokens=256,
               seeds=(1, 2), peaks=(1e-3, 1e-2, 9.0))


@cache
def few():
    return replace(field(), valid=field().valid[:100], sources=field().sources[:8], references=field().references[:8])


def test_a_design_departs_in_nothing_unless_it_says_so():
    plain = e.Design(nn.Identity)
    assert (plain.optimizer, plain.smoothing, plain.warmup) == ("adam", 0.1, 0.1)
    assert all(s.sizes["norm"] == "pre" for s in e.SCALES.values())


def test_the_ground_can_say_its_references():
    encode = Translator(None, field().tokens, field().tokens).encode_pairs
    pairs = zip(field().sources, (refs[0] for refs in field().references))
    assert all(field().tokens.decode(ids[1:]) in refs for (_, ids), refs in zip(encode(pairs), field().references))
    assert len(field().sources) == len(set(field().sources)) == e.SCALES["pocket"].lines
    assert max(len(side) for pair in field().train for side in pair) <= 100
    assert [field().tokens.decode(ids[1:]) for _, ids in field().test[:9]] == [refs[0] for refs in field().references[:9]]
    assert [field().tokens.decode(ids) for ids, _ in field().test[:9]] == field().sources[:9] and len(field().test) >= len(field().sources)


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


def test_one_run_by_its_parts(monkeypatch):
    "What it asks of the others, and when it looks."
    scale, asked, looks = replace(TINY, tokens=700), [], []
    monkeypatch.setattr(e, "validation_loss", lambda model, pairs: looks.append(len(pairs)) or 1.5)
    counted = e.MeteredTrainer.train_step
    monkeypatch.setattr(e.MeteredTrainer, "train_step", lambda run, *pair: asked.append((run.step, run.every)) or counted(run, *pair))
    many = replace(few(), valid=few().valid * 4)
    row, model = e.one_run(e.DESIGNS["transformer"], scale, many, 1e-2, 3, looks=2, counted=3)
    batches = e.batches_for(many.train, 256, 700, 3)
    n = len(batches)
    assert [step for step, _ in asked] == list(range(n)) and {every for _, every in asked} == {max(2, n // 3)} and n >= 4
    at = [step for step in range(1, n + 1) if step % max(1, n // 2) == 0 or step == n]
    ends = list(itertools.accumulate(e.labels(many.train, batch) for batch in batches))
    assert [tokens for tokens, _, _ in row["curve"]] == [ends[step - 1] for step in at] and looks == [300] * len(at) + [400]
    assert (row["seed"], row["peak"], row["steps"], row["valid_loss"], row["tokens"]) == (3, 1e-2, n, 1.5, ends[-1]) and not model.training
    assert all(seconds == round(seconds, 2) and loss == 1.5 for _, seconds, loss in row["curve"])
    assert len(e.one_run(e.DESIGNS["transformer"], scale, many, 1e-2, 3, looks=n + 1)[0]["curve"]) == n, "fewer steps than looks: one at each"


def test_a_run_takes_what_its_design_and_scale_say():
    made_for = []
    design = e.Design(e.build_transformer, "muon0", 0.3, 0.5, gradient=lambda steps: made_for.append(steps) or "a gradient")
    run = e.training_for(design, replace(TINY, max_tokens=77), 2000, 0.4, steps=20, seed=9)
    assert (run.config.max_tokens, run.config.seed, run.config.smoothing, run.gradient, made_for) == (77, 9, 0.3, "a gradient", [20])
    assert isinstance(run.optimizer, e.MuonAndAdam) and [run.schedule(step) for step in (1, 5, 10)] == pytest.approx([0.04, 0.2, 0.4])
    assert run.schedule(15) == pytest.approx(0.4 * e.rise_and_fall(15, 20, 1.0, 10))
    none = e.training_for(replace(design, warmup=0.0, gradient=None), TINY, 2000, 0.4, 20, 9)
    assert none.gradient is None and none.schedule(1) == pytest.approx(e.rise_and_fall(1, 20, 0.4, 1)) and none.optimizer is not None
    torch.manual_seed(0)
    state = torch.get_rng_state()
    batches = e.RunBatches(few().train, run, [[1], [2]])
    torch.rand(9)
    assert batches.epoch(0) == [[1], [2]] and torch.equal(torch.get_rng_state(), state) and batches.steps == 2 and batches.pairs is few().train


def test_what_is_counted_and_timed(monkeypatch, capsys):
    "Each `every`-th step is counted and not timed, from the second on."
    clock = itertools.count()
    monkeypatch.setattr(e.time, "perf_counter", lambda: 10.0 * next(clock))
    monkeypatch.setattr(e.time, "process_time", lambda: 100.0 * next(clock))
    run = e.training_for(e.DESIGNS["transformer"], TINY, 2000, 1e-3, 9, 1)
    run.every = 3
    for _ in range(6):
        before = run.counted, run.timed
        batch = collate(few().train[:4])
        assert set(run.train_step(*batch)) == {"loss", "norm"}
        assert (run.counted > before[0]) == (run.step in (2, 5)) == (run.timed == before[1])
    assert run.wall == 4 * 20 and run.cpu == 4 * 200, "from one reading of a clock to its next"
    assert run.flops % 2 == 0 and capsys.readouterr().out == ""
    run.tokens = 1000
    found = e.cost(run)
    size = e.count_parameters(run.model)
    assert found["flops_6nd"] == 6 * size * 1000 and found["flops"] == pytest.approx(run.flops / run.counted * 1000)
    assert found["seconds"] == pytest.approx(80 * 6 / 4) and found["cpu_seconds"] == pytest.approx(800 * 6 / 4)
    assert found["tokens_per_second"] == pytest.approx(1000 / 1200) and found["parameters"] == size


def test_a_short_run_is_a_run_with_few_tokens(monkeypatch):
    monkeypatch.setattr(e, "one_run", lambda *a, **k: (a, k))
    monkeypatch.setattr(e, "ground", lambda corpus: f"the text of {corpus}")
    torch.set_num_threads(2)
    (design, scale, text, peak, seed), how = e.short_run("a design", 123, lines=7)
    assert (design, text, peak, seed, how) == ("a design", "the text of pocket", 3e-3, 1, {"counted": 2}) and torch.get_num_threads() == 1
    assert scale == replace(e.SCALES["pocket"], tokens=123, lines=7)


def test_batches_of_later_epochs_are_dealt_anew():
    some = few().train[:60]
    batches = e.batches_for(some, 256, 3000, 4)
    first = e.token_batches(some, 256, 4)
    assert batches[:len(first)] == first and batches[len(first):2 * len(first)] == e.token_batches(some, 256, 1004)
    exact = sum(e.labels(some, batch) for batch in first)
    assert e.batches_for(some, 256, exact, 4) == first, "a budget that is met exactly needs no batch more"
    assert len(e.batches_for(some, 256, exact + 1, 4)) == len(first) + 1


def test_sizes_at_the_edge_of_two_percent():
    square = lambda n: nn.Linear(n, n, bias=False)  # noqa: E731
    assert e.fit_size(square, 10_000, range(99, 102)) == 100 and e.fit_size(square, 10_000, [99, 101]) in (99, 101)
    assert e.fit_size(lambda n: nn.Linear(1, n, bias=False), 1000, [1019, 2000]) == 1019, "within 2%"
    with pytest.raises(ValueError, match=r"\+3.0% off"):
        e.fit_size(lambda n: nn.Linear(1, n, bias=False), 100, [103, 200])


def test_the_last_norm_begins_at_one_in_pre_norm_alone():
    pre, post = (e.build_transformer(40, {**TINY.sizes, "norm": norm}) for norm in ("pre", "post"))
    assert pre.decoder.norm.weight.unique().tolist() == [1.0] and isinstance(post.decoder.norm, nn.Identity)
    config = TransformerConfig(40, **TINY.sizes)
    assert Transformer(config).decoder.norm.weight.unique().tolist() != [1.0], "the book's own model begins lower"


def test_a_score_says_how_long_it_took(monkeypatch):
    begun = iter([5.0, 7.5])
    asked = []
    monkeypatch.setattr(e.time, "process_time", lambda: next(begun))
    monkeypatch.setattr(e.Translator, "translate", lambda self, lines, **how: asked.append(how) or ["un chat"] * len(lines))
    found, said = e.score(e.build_transformer(len(few().tokens), TINY.sizes), few())
    assert found["decode_seconds"] == 2.5 and asked == [{"precision": "fp32"}] and "BLEU" not in found and len(said) == 8
    assert found["bleu"] == e.scores(said, few().references)[0]["value"] and found["signature"].startswith("nrefs")


def row_of(peak, loss, seed=1, search=True):
    return {"peak": peak, "seed": seed, "search": search, "valid_loss": loss}


def test_the_best_peak_is_that_of_the_search():
    assert made.best_peak([row_of(1, 3.0), row_of(2, 2.0), row_of(3, math.inf)], 1) == 2
    assert made.best_peak([row_of(1, 3.0), row_of(2, 2.0, seed=2)], 1) == 1
    assert made.best_peak([row_of(1, 3.0), row_of(2, 2.0, search=False)], 1) == 1
    assert made.best_peak([row_of(1, math.inf)], 1) is None


def searched(losses, peaks):
    runs = []
    while (peak := made.next_peak(runs, 1, peaks)) is not None:
        runs.append(row_of(peak, losses[peak]))
    return [run["peak"] for run in runs]


def test_a_search_goes_on_beyond_its_edges():
    assert searched({0.1: 3.0, 0.2: 2.0, 0.4: 1.0, 0.8: 1.5}, (0.1, 0.2)) == [0.1, 0.2, 0.4, 0.8], (
        "the best peak lies at the edge, and the search must go on beyond it")
    assert searched({0.2: 1.0, 0.1: 2.0, 0.4: 2.0}, (0.2, 0.4)) == [0.2, 0.4, 0.1]
    assert searched({0.1: math.inf}, (0.1,)) == [0.1], "nothing trains"


def bowl(best):
    "A loss that is 0 at `best` and rises by 1 with each step away."
    return lambda s: abs(math.log2(s[0] / best[0])) + abs(e.WARMUPS.index(s[1]) - e.WARMUPS.index(best[1]))


def walked(loss, most=e.TRIALS):
    "All trials of a search."
    tried = {}
    while setting := e.next_setting(tried, most):
        assert setting not in tried
        tried[setting] = loss(setting)
    return tried


@pytest.mark.parametrize("best", [(6e-3, 0.1), (6e-3, 0.3), (3e-3, 0.03), (1.5e-3, 0.3), (2.4e-2, 0.1), (1.2e-2, 0.0), (3e-3, 0.9)])
def test_the_search_closes_around_the_best(best):
    tried = walked(bowl(best), 30)
    found = min(tried, key=tried.get)
    assert found == pytest.approx(best) and e.is_closed(tried)
    assert all(tried[near] > tried[found] for near in e.neighbours(found))


def test_every_design_has_as_many_trials_and_an_open_search_says_so():
    far = walked(bowl((2e-4, 0.9)))
    assert len(far) == e.TRIALS and not e.is_closed(far) and list(far)[:3] == [(peak, 0.1) for peak in e.PEAKS]


def test_where_nothing_trains_the_search_goes_down():
    tried = {(peak, 0.1): math.inf for peak in e.PEAKS}
    assert e.next_setting(tried) == (e.PEAKS[0] / 2, 0.1) and not e.is_closed(tried)
    tried[e.next_setting(tried)] = math.inf
    assert e.next_setting(tried) == (e.PEAKS[0] / 4, 0.1), "further down, not to the neighbours of a rate that is too high"


def test_the_order_of_neighbours_and_the_ends_of_the_warm_up():
    assert e.neighbours((0.006, 0.1)) == [(0.003, 0.1), (0.012, 0.1), (0.006, 0.03), (0.006, 0.3)]
    assert e.neighbours((0.006, 0.0)) == [(0.003, 0.0), (0.012, 0.0), (0.006, 0.03)]
    assert e.neighbours((0.006, 0.9)) == [(0.003, 0.9), (0.012, 0.9), (0.006, 0.6)]


def test_an_interval_that_ends_at_zero_decides_nothing():
    "One sentence of two differs, alike with every seed: draws of the other alone give exactly 0."
    found = e.difference([[1.0, 5.0]] * 3, [[0.0, 5.0]] * 3, [1, 1])
    assert found["low"] == 0 < found["value"] and found["half"] == 0 and not found["decided"]
    turned = e.difference([[0.0, 5.0]] * 3, [[1.0, 5.0]] * 3, [1, 1])
    assert turned["high"] == 0 > turned["value"] and not turned["decided"]


def test_the_bootstrap_holds_95_of_100():
    nats = np.random.default_rng(0).normal(0, 1, 3000)  # alike with every seed, so that only sentences are drawn
    found, error = e.difference([nats] * 3, [nats * 0] * 3, [1] * 3000, samples=4000), nats.std() / 3000 ** 0.5
    assert (found["value"] - found["low"]) / error == pytest.approx(1.96, abs=0.1) == (found["high"] - found["value"]) / error


def test_the_interval_of_a_difference():
    rng = np.random.default_rng(0)
    base, tokens = rng.gamma(2, 5, (3, 400)), rng.integers(3, 12, 400)
    shifted = base + 0.2 * tokens
    found = e.difference(shifted, base, tokens)
    assert found["value"] == pytest.approx(0.2) and found["low"] == pytest.approx(0.2) and found["high"] == pytest.approx(0.2)
    assert found["half"] == pytest.approx(0, abs=1e-9)
    unlike = base + rng.normal(0, 2, base.shape)
    found = e.difference(unlike, base, tokens)
    assert found["low"] < found["value"] < found["high"] and found["low"] < 0.1 and found["high"] > -0.1
    assert found == e.difference(unlike, base, tokens), "the same draws each time"
    seeds = base + np.array([[0.0], [0.0], [3.0]]) * tokens
    found = e.difference(seeds, base, tokens)
    assert found["value"] == pytest.approx(1) and found["low"] == pytest.approx(0) and found["high"] >= 2, "seeds are drawn as well"
    assert not e.difference(unlike, base, tokens)["decided"] and e.difference(shifted, base, tokens)["decided"]
    assert not found["decided"], "seed by seed the difference is 0, 0 and 3: three seeds decide nothing"
    alike = base + np.array([[0.9], [1.0], [1.1]]) * tokens
    found = e.difference(alike, base, tokens)
    assert found["decided"] and 0 < found["low"] and found["half"] == pytest.approx(4.303 * 0.1 / math.sqrt(3))
    assert e.difference(base, alike, tokens)["decided"], "below zero as well"
    mixed = base + np.array([[0.1], [1.0], [1.9]]) * tokens
    found = e.difference(mixed, base, tokens)
    assert found["low"] > 0 and not found["decided"], "the bootstrap alone would decide it; Student's interval holds 0"


def test_the_second_part_halves_or_doubles_the_peak():
    assert [e.next_peak(dict.fromkeys(tried, 1.0)) for tried in ([8.0], [8.0, 4.0], [8.0, 4.0, 16.0])] == [4.0, 16.0, None]
    assert e.next_peak({8.0: 2.0, 4.0: 1.0}) == 2.0 and e.next_peak({8.0: 2.0, 4.0: 3.0, 16.0: 1.0}) == 32.0
    assert e.next_peak({8.0: 2.0, 4.0: 3.0, 16.0: 2.5}) is None


def test_a_loss_between_budgets_and_beyond():
    points = {1000: 3.0, 4000: 2.0, 16000: 1.5}
    assert e.loss_at(points, 2000) == (pytest.approx(2.5), False) and e.loss_at(points, 8000) == (pytest.approx(1.75), False)
    assert e.loss_at(points, 4000) == (pytest.approx(2.0), False) and e.loss_at(points, 1000) == (pytest.approx(3.0), False)
    assert e.loss_at(points, 16000) == (pytest.approx(1.5), False)
    assert e.loss_at(points, 32000) == (pytest.approx(1.25), True) and e.loss_at(points, 500) == (pytest.approx(3.5), True)


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
    scale, losses = made.SCALES["pocket"], {0.1: 3.0, 0.2: 2.0, 0.3: math.inf}
    assert order_of(scale, losses) == GRID + [(0.2, 2, False), (0.2, 3, False)]
    assert order_of(replace(scale, search=9), losses) == GRID + [(0.2, seed, False) for seed in (1, 2, 3)]
    assert made.next_run([row_of(0.1, math.inf)], scale, (0.1,)) is None, "nothing trains: no result"


def test_a_run_outside_the_comparison():
    scale, runs = made.SCALES["pocket"], [row_of(0.1, 2.0)]
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
    monkeypatch.setitem(made.SCALES, "pocket", replace(TINY, tokens=300, seeds=(1,)))
    monkeypatch.setattr(made, "first_ground", lambda corpus: few())
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
    monkeypatch.setattr(made, "first_ground", lambda corpus: None)
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
    whole = {"command": "x", "commit": "y", "design": "transformer", "scale": asdict(made.SCALES["pocket"]), "runs": rows_done()}
    for change in ({"design": "rnn"}, {"scale": whole["scale"] | {"tokens": 5}}):
        path.write_text(text := json.dumps(whole | change))
        assert made.make_records(["transformer", "--out", str(tmp_path)]) == 1
        assert "was made with another" in capsys.readouterr().err and path.read_text() == text
