"""The rule of part IV, asked of the records themselves: equal parameters, tokens and search, counted operations, three seeds."""
import importlib
import itertools
import json
import math
from pathlib import Path

import pytest

from transformer_lit import equal_cost as e

RECORDS = sorted((Path(__file__).parents[1] / "book/results/equal").glob("*/*.json"))
NAMES = [f"{path.parent.name}/{path.stem}" for path in RECORDS]
BENCH = Path(__file__).parents[1] / "book/results/bench"
ALL = {name for module in e.MODULES for name in importlib.import_module(f"transformer_lit.{module}").DESIGNS}
EXPECTED = {"pocket": ALL, "tatoeba": {"transformer", "rnn", "rnn-attention", "decoder-only", "decoder-only-prefix", "decoder-only-both",
                                        "decoder-only-decay", "2017", "pre-norm-muon", "all-together"}}


def kept(name):
    return json.loads(RECORDS[NAMES.index(name)].read_text())


def counting(record):
    return e.results_of(record["runs"], bool(record["scale"]["search"]))


def test_the_records_are_there():
    for corpus, names in EXPECTED.items():
        assert names <= {path.stem for path in RECORDS if path.parent.name == corpus}, corpus


def test_depth_and_length_are_whole():
    deep, long = (json.loads((BENCH / f"{name}.json").read_text())["runs"] for name in ("depth", "length"))
    assert {(r["depth"], r["norm"], bool(r["warmup"])) for r in deep} == set(
        itertools.product((6, 12, 24, 48), ("post", "pre"), (True, False)))
    assert {(r["kind"], r["trained"], r["seed"]) for r in long} == set(
        itertools.product(("sinusoids", "learned", "RoPE"), ("short", "all"), (1, 2, 3)))
    assert len({r["tokens"] // 1000 for r in long}) == 1 and all("greedy" in r for r in long)


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
    assert record["command"] == e.command(design, corpus) and record["design"] == design
    for commit in [record["commit"], *(run.get("commit", record["commit"]) for run in record["runs"])]:
        assert commit not in ("", "unknown") and "dirty" not in commit
    lines = RECORDS[NAMES.index(name)].with_suffix(".txt").read_text("utf-8").split("\n")
    assert len(lines) == record["scale"]["lines"] + 1


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_design_can_be_built_as_it_was(name):
    record = kept(name)
    design, sizes = e.find_design(name.split("/")[1]), record["scale"]["sizes"]
    vocab = record["scale"]["vocabulary"]
    model = design.build(vocab, sizes, e.wanted_parameters(e.SCALES[record["scale"]["corpus"]], vocab))
    assert e.count_parameters(model) == counting(record)[0]["parameters"]


def test_scales_of_the_package_are_those_of_the_records():
    for corpus in EXPECTED:
        scale = json.loads(json.dumps(e.asdict(e.SCALES[corpus])))
        assert scale == kept(f"{corpus}/transformer")["scale"]


def test_an_unknown_name_gets_the_list(capsys):
    with pytest.raises(SystemExit):
        e.make_records(["perceptron"])
    said = capsys.readouterr().err
    assert "perceptron: choose from transformer" in said and "rnn-attention" in said


def test_a_missing_record_names_its_command():
    with pytest.raises(FileNotFoundError, match="python -m transformer_lit.equal_cost perceptron --corpus pocket"):
        e.runs_of(["perceptron"])


def test_a_run_that_ends_in_nan_has_a_row_and_no_model(monkeypatch):
    def stop(*args, **options):
        raise ValueError("loss nan after step 3")
    monkeypatch.setattr(e, "one_run", stop)
    row, model = e.attempted(None, e.SCALES["pocket"], None, 0.1, 1, True)
    assert row == {"seed": 1, "peak": 0.1, "search": True, "valid_loss": math.inf, "failed": "loss nan after step 3"}
    assert model is None


def test_optimisers_step_what_they_should():
    model = e.build_transformer(40, e.SMALL_SIZES | dict(d_model=8, n_heads=2, d_ff=16, n_encoder_layers=1, n_decoder_layers=1))
    stacks = {id(w) for stack in (model.encoder, model.decoder) for w in stack.parameters() if w.ndim == 2}
    for name in ("adamw", "muon", "muon0"):
        one, two = e.OPTIMIZERS[name](model).parts
        assert {id(w) for group in one.param_groups for w in group["params"]} == stacks
        assert all(id(w) not in stacks for group in two.param_groups for w in group["params"])
        assert one.param_groups[0]["weight_decay"] == (0.0 if name == "muon0" else e.DECAY)


# The command ---------------------------------------------------------------------------------------------------------

def rows_done():
    "Runs that leave nothing to train on the pocket ground."
    return [{"peak": peak, "seed": seed, "valid_loss": loss, "search": seed == 1, "bleu": 10.0}
            for peak, seed, loss in ((0.003, 1, 3.0), (0.006, 1, 2.0), (0.012, 1, 3.0), (0.006, 2, 2.0), (0.006, 3, 2.0))]


def test_records_stay_out_of_the_folder_one_stands_in(tmp_path, monkeypatch, capsys):
    "It used to write book/results/ wherever it was called, and printed tuples."
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(e, "ground", lambda corpus: None)
    monkeypatch.setattr(e, "run_all", lambda path, *_: asked.append(path) or rows_done())
    asked = []
    assert e.make_records(["transformer"]) == 0 and e.make_records(["transformer", "--out", "mine"]) == 0
    assert [str(path) for path in asked] == ["runs/equal/pocket/transformer.json", "mine/pocket/transformer.json"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "transformer: runs/equal/pocket/transformer.json"
    assert lines[1] == "  peak 0.003, seed 1: validation loss 3.000, BLEU 10.0 (of the search)"
    assert not list(tmp_path.iterdir())


def test_the_help_names_every_competitor(capsys):
    with pytest.raises(SystemExit):
        e.make_records(["--help"])
    said = "".join(capsys.readouterr().out.split())
    assert all(name in said for name in ALL) and "runs/equal" in said


def test_a_record_of_another_ground_or_design_is_refused_and_kept(tmp_path, capsys):
    path = tmp_path / "pocket" / "transformer.json"
    path.parent.mkdir()
    whole = {"command": "x", "commit": "y", "design": "transformer", "scale": e.asdict(e.SCALES["pocket"]), "runs": rows_done()}
    for change in ({"design": "rnn"}, {"scale": whole["scale"] | {"tokens": 5}}):
        path.write_text(text := json.dumps(whole | change))
        assert e.make_records(["transformer", "--out", str(tmp_path)]) == 1
        assert "was made with another" in capsys.readouterr().err and path.read_text() == text
