"""Several kinds of text in one training set: how often each is seen, and that a store knows which
pair is of which kind."""

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
import publish
import temperature as on_temperature

from transformer_lit import wmt
from transformer_lit.recipes import prepare, training_sets
from transformer_lit.recipes import large, mixture
from transformer_lit.corpora.texts import TextSource
from transformer_lit.recipes.augmentation import VARIANTS
from transformer_lit.corpora.files import sha256_file, shipped
from transformer_lit.tokenization import SubwordTokenizer
from transformer_lit.translation import Translator

KINDS = {"few": 10, "many": 1000}
WORDS = "red blue green small big old new cat dog bird tree house car boat cup pen".split()


def text(name, n):
    "Pairs of one kind, all different."
    return TextSource(
        name,
        (),
        lambda: [
            (f"{name} {WORDS[k % 16]} {WORDS[k // 16 % 16]} {k}.", f"le {WORDS[k % 16]} {k}")
            for k in range(n)
        ],
    )


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Thirty everyday pairs, five captions, one of them a repeat of an everyday one, and sixty of
    law."""
    caption = text("caption", 5)
    sources = [
        text("tatoeba", 30),
        replace(caption, read=lambda: [*caption.read(), ("tatoeba red red 0.", "le red 0")]),
        text("law", 60),
    ]
    made_up = replace(training_sets.TRAINING_SETS["mixture-en-fr"], sources=lambda: sources)
    monkeypatch.setitem(training_sets.TRAINING_SETS, "mixture-en-fr", made_up)
    monkeypatch.setattr(prepare, "CHUNK", 7)
    held = {
        "valid": [("tatoeba green red 2.", "le green 2")],
        "valid-law": [("law red.", "le red")],
        "test": [("y", "z")],
    }
    config = prepare.PreparationConfig("mixture-en-fr", 300)
    return prepare.prepare_store(config, tmp_path / "store", held_out=held)


def test_shares_by_temperature():
    rates = mixture.sampling_rates(KINDS, 1)
    assert rates == pytest.approx({"few": 10 / 1010, "many": 1000 / 1010})
    assert mixture.sampling_rates(KINDS, 2) == pytest.approx(
        {"few": 1 / 11, "many": 10 / 11}
    )  # roots: 1 to 10
    assert mixture.sampling_rates(KINDS, 1e9) == pytest.approx({"few": 0.5, "many": 0.5})
    assert mixture.sampling_rates({"none": 0, "some": 5}, 3) == {"none": 0.0, "some": 1.0}


def test_a_kind_that_is_due_k_times_comes_k_times():
    order = mixture.sample_epoch(KINDS, 2, 1)  # 1010 / 11 = 92 of the few, 918 of the many
    seen = Counter(order.tolist())
    assert len(order) == 92 + 918
    assert (
        sorted(seen[k] for k in range(10)) == [9] * 8 + [10] * 2
    ), "nine times whole, and two of them once more"
    assert (
        max(seen[k] for k in range(10, 1010)) == 1 and sum(seen[k] for k in range(10, 1010)) == 918
    )


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=5).filter(any),
    st.floats(0.5, 20),
    st.integers(0, 9),
)
def test_an_epoch_holds_each_kind_evenly(sizes, temperature, seed):
    kinds = {str(k): n for k, n in enumerate(sizes)}
    order = mixture.sample_epoch(kinds, temperature, seed)
    assert np.array_equal(order, mixture.sample_epoch(kinds, temperature, seed))
    assert abs(len(order) - sum(sizes)) <= len(sizes) and order.max() < sum(sizes)
    start = 0
    for n in sizes:
        times = np.bincount(order, minlength=sum(sizes))[start : start + n]
        assert n == 0 or times.max() - times.min() <= 1
        start += n


@given(st.lists(st.integers(0, 40), min_size=1, max_size=200), st.integers(0, 9))
def test_no_part_holds_a_pair_twice(pairs, seed):
    order = np.array(pairs)
    parts = mixture.split_repeats(order, seed, 200)
    assert sorted(np.concatenate(parts)) == list(range(len(order))), "each entry once"
    assert (
        all(len(set(order[part])) == len(part) for part in parts)
        and len(parts) == np.bincount(order).max()
    )
    assert (
        len(mixture.split_repeats(np.zeros(50, dtype=int), seed)) == 16
    ), "a pair that comes all the time isn't worth a part each time"


def test_no_batch_of_a_mixture_holds_a_pair_twice(store):
    config = wmt.TrainingConfig(max_tokens=64)
    epoch = mixture.MixtureBatches(store, config, 9, 3.0).epoch_batches(0)
    order = mixture.sample_epoch(mixture.kinds_in(store.manifest["counts"]), 3.0, config.seed)
    assert (
        Counter(np.concatenate(epoch).tolist()) == Counter(order.tolist())
        and max(Counter(order.tolist()).values()) > 1
    )
    assert all(len(set(batch.tolist())) == len(batch) for batch in epoch)


def test_a_store_says_which_pairs_are_of_which_kind(store):
    kinds = mixture.kinds_in(store.manifest["counts"])
    assert kinds == {"tatoeba": 29, "caption": 5, "law": 60}, "one held out, one a repeat"
    words = [SubwordTokenizer.load(store.tokenizer()).decode(source) for source, _ in store]
    assert all(line.startswith("tatoeba") for line in words[:29]) and all(
        line.startswith("caption") for line in words[29:34]
    )
    assert all(line.startswith("law") for line in words[34:])


def test_a_store_that_does_not_say_is_refused(store):
    store.manifest["counts"].pop("from law")
    with pytest.raises(ValueError, match="doesn't count its kinds of text: prepare it again"):
        mixture.MixtureBatches(store, wmt.TrainingConfig(), 9, 3.0)


def test_batches_of_a_mixture(store):
    e = mixture.MixtureExperiment(
        **vars(wmt.build_experiment("mixture-en-fr", "modern", "tiny", 300)), temperature=1e6
    )
    config = replace(e.training, max_tokens=128)
    batches = large.batches_of(store, config, e)
    epochs = [batches.epoch_batches(n) for n in range(2)]
    assert (
        [list(map(list, epoch)) for epoch in epochs][0]
        == [list(batch) for batch in batches.epoch_batches(0)]
        != [list(b) for b in epochs[1]]
    )
    for epoch in epochs:
        every = np.concatenate(epoch)
        kind = np.digitize(every, [29, 34])
        assert np.bincount(kind).tolist() == [31, 31, 31], "three kinds, alike"
        assert all(store.lengths[batch].max() * len(batch) <= 128 for batch in epoch)
    assert type(large.batches_of(store, config, wmt.build_experiment())) is wmt.StoreBatches


def test_what_a_mixture_is_made_of(monkeypatch):
    """Near-copies go from every kind; of the general text four kinds are held out by English
    sentence."""
    made = {
        name: TextSource(name, (), lambda name=name: [(f"{name} {k}",) * 2 for k in range(3)])
        for name in ("t", "m", "n")
    }
    law = TextSource(
        "canada_laws.tsv.xz",
        (Path("canada_laws.tsv.xz"),),
        lambda: [(f"section {k} of {WORDS[k % 16]}", f"article {k}") for k in range(2000)],
    )
    monkeypatch.setattr(training_sets, "general_files", lambda language: [law])
    for name, source in zip(("tatoeba_source", "multi30k_source", "news_source"), made.values()):
        monkeypatch.setattr(training_sets, name, lambda language, source=source: source)
    monkeypatch.setattr(
        training_sets.data, "read_newstest", lambda name, language: [(name[-2:], "x")]
    )
    monkeypatch.setattr(
        training_sets.data,
        "load_corpus",
        lambda name, language: {"valid": [("T 1!", "x")], "test": [("M 2", "x")]},
    )
    training_sets.mixture_held_out.cache_clear()
    training_sets.near_duplicates.cache_clear()
    try:
        held = training_sets.TRAINING_SETS["mixture-en-fr"].held_out()
        assert list(held) == [
            part + kind
            for part in ("valid", "test")
            for kind in ("", "-tatoeba", "-multi30k", "-law")
        ]
        assert len(held["valid-law"]) == 300 and len(held["test-law"]) == 1000
        found = {
            source.name: [english for english, _ in source.read()]
            for source in training_sets.TRAINING_SETS["mixture-en-fr"].sources()
        }
        assert {
            name: lines for name, lines in found.items() if name not in ("general", "copying")
        } == {"t": ["t 0", "t 2"], "m": ["m 0", "m 1"], "n": ["n 0", "n 1", "n 2"]}
        assert (
            len(found["copying"]) == VARIANTS and "t 2" not in found["copying"]
        ), "of the 2, since 0 says nothing"
        assert len(found["general"]) == 700 and not set(found["general"]) & {
            english for english, _ in held["test-law"]
        }
    finally:
        training_sets.mixture_held_out.cache_clear()
        training_sets.near_duplicates.cache_clear()


def test_the_experiment_on_temperature(store):
    """One run of bench/temperature.py, on the small store: the same once more, and what it is
    judged by."""
    assert on_temperature.judged(
        {"news": 4, "tatoeba": 2, "multi30k": 3, "law": 1, "web": 3}
    ) == pytest.approx((4 + 2 + 3 + 2) / 4)
    one, again = (on_temperature.trained(store, 2, 1, 3) for _ in range(2))
    assert (
        one == again
        and one["tokens"] > 0
        and list(one["losses"]) == ["news", "law"]
        and one["judged"] == pytest.approx(sum(one["losses"].values()) / 2)
    )
    assert on_temperature.trained(store, 2, 2, 3)["losses"] != one["losses"]


def test_a_finished_mixture_leaves_weights_and_a_record_and_is_scored_elsewhere(store, tmp_path):
    plain = wmt.build_experiment(
        "mixture-en-fr",
        "modern",
        "tiny",
        300,
        dict(precision="fp32", max_tokens=128),
        max_steps=2,
        eval_every=2,
        n_eval_sentences=1,
    )
    record = large.run_experiment(
        mixture.MixtureExperiment(**vars(plain)),
        tmp_path / "run",
        tmp_path / "store",
        command="as typed",
        device="cpu",
    )
    kept = json.loads((tmp_path / "run/run.json").read_text("utf-8"))
    assert (
        kept["scores"] == record["scores"] == []
        and kept["command"] == "as typed"
        and kept["data"]["name"] == "mixture-en-fr"
    )
    assert (tmp_path / "run/model.safetensors").exists()
    look = [
        entry
        for entry in map(json.loads, (tmp_path / "run/log.jsonl").read_text("utf-8").splitlines())
        if entry["kind"] == "eval"
    ][-1]
    assert set(look["losses"]) == {"law"} and look["losses"]["law"] > 0
    further = mixture.MixtureExperiment(**vars(plain), begin_with=str(tmp_path / "run"))
    went_on = large.run_experiment(
        further, tmp_path / "further", tmp_path / "store", device="cpu"
    )
    assert (
        went_on["first_weights"] == sha256_file(tmp_path / "run/model.safetensors")
        and "first_weights" not in record
    )
    (tmp_path / "published/data/checkpoints/mixture-fr").mkdir(parents=True)
    page = shipped("data/checkpoints/mixture-fr/README.md").read_text("utf-8")
    (tmp_path / "published/data/checkpoints/mixture-fr/README.md").write_text(page, "utf-8")
    publish.publish_mixture("mixture-fr", tmp_path / "run", tmp_path / "published")
    box = tmp_path / "published/data/checkpoints/mixture-fr"
    assert Translator.load(box).translate(["law red."]) == Translator.load(
        tmp_path / "run"
    ).translate(["law red."])
    publish.publish_mixture(
        "mixture-fr", tmp_path / "run", tmp_path / "published", before=["mixture-fr"]
    )
    assert (box / "README.md").read_text("utf-8").count("as typed") == 2
    line = (tmp_path / "published/book/results/runs/trainings.jsonl").read_text("utf-8")
    assert json.loads(line)["command"] == "as typed"
