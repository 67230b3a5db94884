"""Several kinds of text in one training set: how often each is seen, and that a store knows which
pair is of which kind."""

import json
import lzma
import shutil
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

from transformer_lit import wmt
from transformer_lit.recipes import large, mixture, prepare, training_sets
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
        caption._replace(read=lambda: [*caption.read(), ("tatoeba red red 0.", "le red 0")]),
        text("law", 60),
    ]
    made_up = training_sets.TRAINING_SETS["mixture-en-fr"]._replace(sources=lambda: sources)
    monkeypatch.setitem(training_sets.TRAINING_SETS, "mixture-en-fr", made_up)
    monkeypatch.setattr(prepare, "CHUNK", 7)
    held = {
        "valid": [("tatoeba green red 2.", "le green 2")],
        "valid-law": [("law red.", "le red")],
        "test": [("y", "z")],
    }
    config = prepare.PreparationConfig("mixture-en-fr", 300)
    return prepare.prepare_store(config, tmp_path / "store", held_out=held)


@pytest.mark.parametrize(
    "kinds, temperature, rates",
    [
        (KINDS, 1, [10 / 1010, 1000 / 1010]),
        (KINDS, 2, [1 / 11, 10 / 11]),  # roots: 1 to 10
    ],
)
def test_shares_by_temperature(kinds, temperature, rates):
    shares = mixture.sampling_rates(kinds, temperature)
    assert list(shares) == list(kinds) and list(shares.values()) == pytest.approx(rates)


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=5),
    st.floats(0.5, 20),
    st.integers(0, 9),
)
def test_an_epoch_holds_each_kind_evenly_and_its_share_of_the_tokens(sizes, temperature, seed):
    kinds = {str(k): n for k, n in enumerate(sizes)}
    lengths = np.repeat(np.arange(2, 2 + len(sizes)), sizes)
    order = mixture.sample_epoch(kinds, lengths, temperature, seed)
    tokens = {kind: n * (2 + k) for k, (kind, n) in enumerate(kinds.items())}
    shares = [*mixture.sampling_rates(tokens, temperature).values()]
    drawn = np.split(np.bincount(order, minlength=sum(sizes)), np.cumsum(sizes)[:-1])
    for k, (times, share) in enumerate(zip(drawn, shares)):
        assert times.max() - times.min() <= 1
        assert abs(times.sum() * (2 + k) - share * lengths.sum()) <= 2 + k


@given(st.lists(st.integers(0, 40), min_size=1, max_size=16))
def test_no_part_holds_a_pair_twice(pairs):
    parts = mixture.split_repeats(np.array(pairs))
    assert sorted(np.concatenate(parts)) == sorted(pairs), "each entry once"
    assert all(len(set(part)) == len(part) for part in parts)


def test_a_store_says_which_pairs_are_of_which_kind(store):
    kinds = mixture.kinds_in(store.manifest["counts"])
    assert kinds == {"tatoeba": 29, "caption": 5, "law": 60}, "one held out, one a repeat"
    tokens = SubwordTokenizer.load(store.tokenizer())
    names = [tokens.decode(source).split()[0] for source, _ in store]
    assert names == [name for name, n in kinds.items() for _ in range(n)]


def test_batches_of_a_mixture(store):
    plan = wmt.build_experiment("mixture-en-fr", "modern", "tiny", 300)
    plan = replace(plan, training=replace(plan.training, max_tokens=128))
    assert type(large.batches_of(store, plan)) is wmt.StoreBatches
    kinds = mixture.kinds_in(store.manifest["counts"])
    for temperature in 1e6, 3.0:
        experiment = mixture.MixtureExperiment(**vars(plan), temperature=temperature)
        batches = large.batches_of(store, experiment)
        first, again, second = ([*map(list, batches.epoch_batches(n))] for n in (0, 0, 1))
        assert first == again != second
        for batch in first:
            assert len(set(batch)) == len(batch), "a batch holds a pair twice"
            assert store.lengths[batch].max() * len(batch) <= 128
        tokens = store.lengths.sum(1)
        order = mixture.sample_epoch(kinds, tokens, temperature, plan.training.seed)
        assert Counter(sum(first, [])) == Counter(order.tolist())


@pytest.fixture
def kinds_of_text(monkeypatch, tmp_path):
    "Three pairs of everyday text, of debates and of prose, and 2,000 of law."
    law = [(f"section {k} of {WORDS[k % 16]}", f"article {k}") for k in range(2000)]
    everyday, debates, prose = ([(f"{kind} {k}",) * 2 for k in range(3)] for kind in "tep")
    for name, pairs in {
        "general/en-fr/canada_laws": law,
        "clean/europarl.en-fr": debates,
        "clean/gpl/game.en-fr": prose,
        "clean/gpl/game.en-de": law,
    }.items():
        path = tmp_path / f"{name}.tsv.xz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lzma.compress("".join(f"{a}\t{b}\n" for a, b in pairs).encode()))
    monkeypatch.setattr(training_sets, "own_folder", tmp_path.joinpath)
    tatoeba = TextSource("tatoeba", (tmp_path,), lambda: everyday)
    monkeypatch.setattr(training_sets, "tatoeba_source", lambda language: tatoeba)
    held_out = {"valid": [("T 1!", "x")], "test": [("E 2", "x")]}
    monkeypatch.setattr(training_sets.data, "read_newstest", lambda name, tag: [(name[-2:], "x")])
    monkeypatch.setattr(training_sets.data, "load_corpus", lambda name, tag: held_out)
    caches = training_sets.mixture_held_out, training_sets.near_duplicates
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def test_near_copies_go_from_every_kind_of_a_mixture(kinds_of_text):
    corpus = training_sets.TRAINING_SETS["open-en-fr"]
    held_out = corpus.held_out()
    assert (len(held_out["valid-law"]), len(held_out["test-law"])) == (300, 1000)
    english = {source.name: [e for e, _ in source.read()] for source in corpus.sources()}
    general, copying, words = (english.pop(name) for name in ("general", "copying", "words"))
    left = {"tatoeba": ["t 0", "t 2"], "europarl": ["e 0", "e 1"], "clean": ["p 0", "p 1", "p 2"]}
    assert english == left
    assert len(copying) == VARIANTS and "section" in words, "of the 2, since 0 says nothing"
    assert len(general) == 700 and not set(general) & {e for e, _ in held_out["test-law"]}


def test_a_finished_mixture_leaves_weights_and_a_record_and_is_published(store, tmp_path):
    training = dict(precision="fp32", max_tokens=128)
    lengths = dict(max_steps=2, eval_every=2, n_eval_sentences=1)
    plan = wmt.build_experiment("mixture-en-fr", "modern", "tiny", 300, training, **lengths)
    run, options = tmp_path / "run", dict(command="as typed", device="cpu")

    def train(folder, **changes):
        experiment = mixture.MixtureExperiment(**vars(plan), **changes)
        return large.run_experiment(experiment, folder, tmp_path / "store", **options)

    assert "first_weights" not in train(run)
    last = json.loads((run / "log.jsonl").read_text("utf-8").splitlines()[-1])
    assert set(last["losses"]) == {"law"}
    hash = sha256_file(run / "model.safetensors")
    assert train(tmp_path / "further", init_from=str(run))["first_weights"] == hash

    published, name = tmp_path / "published", "data/checkpoints/mixture-fr"
    shutil.copytree(shipped(name), published / name)
    publish.publish_mixture("mixture-fr", run, published, before=[])
    answers = [Translator.load(path).translate(["law red."]) for path in (published / name, run)]
    assert answers[0] == answers[1]
    assert (published / name / "README.md").read_text("utf-8").count("as typed") == 1
