"""From text to a token store: what it holds, what a stop leaves, and that memory stays flat."""

import dataclasses
import gc
import shutil
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import one_sentence
from plugins.corpus import HELD, PAIRS, Statmt, settings

from transformer_lit import data
from transformer_lit.corpora.store import write_tokens
from transformer_lit.corpora.texts import TextSource
from transformer_lit.recipes import prepare, training_sets
from transformer_lit.tokenization import SubwordTokenizer

HELD_OUT = [english for part in HELD.values() for english, _ in part]


def tidy(pairs):
    return [tuple(map(data.normalize_text, pair)) for pair in pairs]


@pytest.mark.parametrize("served", ["de", "fr"], indirect=True)
def test_from_the_archives_to_a_store(served, tmp_path):
    config = prepare.PreparationConfig(f"wmt14-en-{served}", vocabulary=400, sample=500)
    Statmt.cut.add("wmt13/training-parallel-commoncrawl.tgz")
    with pytest.raises(FileNotFoundError, match="commoncrawl.tgz") as broken:
        prepare.prepare_store(config, tmp_path / "store")
    assert one_sentence(str(broken.value))
    store = prepare.prepare_store(config, tmp_path / "store")
    starts = [start for name, start in Statmt.requests if name.endswith("commoncrawl.tgz")]
    assert starts[0] == 0 < starts[1], "the next try must go on where the last one broke off"
    tokens = SubwordTokenizer.load(store.tokenizer())
    pairs = {(tokens.decode(source), tokens.decode(target[1:])) for source, target in store}
    expected = tidy([*PAIRS, *HELD["valid"], *HELD["test"], ("Bad \x00 byte", "x")])
    assert pairs <= set(expected), "the two sides don't belong together"
    counts = store.manifest["counts"]
    assert counts["given"] == (3005 if served == "fr" else 2505), "a source is missing, or twice"
    assert counts.get("held out", 0) == 1, "a sentence of the tests stands in training"
    assert (counts["empty"], counts["too long"], counts["kept"]) == (1, 1, len(store))
    assert counts["repeated"] >= 1
    assert store.held_out() == {part: tidy(HELD[part]) for part in HELD}
    before = len(Statmt.requests)
    prepare.prepare_store(config, tmp_path / "store")
    assert len(Statmt.requests) == before, "what is here is not fetched again"


def test_the_store_holds_what_direct_encoding_gives(store):
    tokens = SubwordTokenizer.load(store.tokenizer())
    useful, _ = data.clean_pairs(PAIRS[:1200])
    pairs = data.exclude_sources(useful, HELD_OUT)
    direct = [(tokens.encode(e), [1] + tokens.encode(o)) for e, o in pairs]
    assert list(store) == direct, "the store holds something else than the translator would encode"
    assert store.lengths.tolist() == [[len(source), len(target)] for source, target in direct]


def test_a_changed_input_is_refused_and_a_missing_one_is_not(own, tmp_path):
    "The machine with the GPU may have neither the corpus nor a network."
    corpus, folder = tmp_path / "ours-fr", tmp_path / "store"
    shutil.copytree(own / "mine-fr", corpus)
    config = prepare.PreparationConfig(str(corpus), vocabulary=400, sample=400)
    before = list(prepare.prepare_store(config, folder))
    with (corpus / "a.tsv").open("a") as file:
        file.write("One more.\tEncore un.\n")
    with pytest.raises(ValueError, match="other texts"):
        prepare.prepare_store(config, folder)
    shutil.rmtree(corpus)
    assert list(prepare.prepare_store(config, folder)) == before
    with pytest.raises(ValueError, match="vocabulary 400"):
        prepare.prepare_store(dataclasses.replace(config, vocabulary=500), folder)


@pytest.mark.parametrize("workers", [1, 2])
def test_small_chunks_and_several_processes_give_the_same(
    own, store, tmp_path, monkeypatch, workers
):
    monkeypatch.setattr(prepare, "CHUNK", 50)
    again = prepare.prepare_store(settings(own), tmp_path / "store", workers)
    assert list(again) == list(store), "several processes make another store"
    assert again.manifest["counts"] == store.manifest["counts"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_a_stop_leaves_nothing_half(own, store, tmp_path, monkeypatch, error):
    encode, calls = prepare.ChunkEncoder.__call__, []

    def stopped(encoder, pairs):
        calls.append(1)
        if len(calls) == 3:
            raise error
        return encode(encoder, pairs)

    monkeypatch.setattr(prepare, "CHUNK", 50)
    monkeypatch.setattr(prepare.ChunkEncoder, "__call__", stopped)
    with pytest.raises(type(error)):
        prepare.prepare_store(settings(own), tmp_path / "store")
    assert not (tmp_path / "store").exists()
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "ids.bin").write_bytes(b"half")  # as a real kill leaves it
    assert list(prepare.prepare_store(settings(own), tmp_path / "store")) == list(store)


def test_a_folder_of_something_else_is_left_alone(own, tmp_path):
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(FileExistsError, match="thesis.txt"):
        prepare.prepare_store(settings(own), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_memory_stays_flat(own, store, tmp_path):
    """Ten times the corpus, the same memory: what Python holds at its most while chunks are encoded
    and written."""

    def read(n):
        for k in range(n):
            english, foreign = PAIRS[k % 1000]
            yield f"{english} {k}", f"{foreign} {k}"

    def most_memory(n, attempt):
        folder = tmp_path / f"{n}-{attempt}"
        folder.mkdir()
        gc.collect()
        tracemalloc.start()
        chunks = prepare.source_chunks([TextSource("long", (), lambda: read(n))])
        arguments = store.tokenizer(), settings(own), []
        write_tokens(folder, prepare.encode_chunks(chunks, arguments))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    # Threads that other tests have left here are counted too, so the lower of two attempts stands.
    most = [min(most_memory(n, attempt) for attempt in range(2)) for n in (1_500, 15_000)]
    assert most[1] < 1.5 * most[0] + 8e6, f"memory grows with the corpus: {most}"


# The parts ----------------------------------------------------------------------------------------


def test_a_sample_is_spread_evenly():
    counting = TextSource("n", (), lambda: [(f" {n}", f"{n}") for n in range(10)])
    assert list(prepare.sample_lines([counting], 3)) == ["0", "0", "4", "4", "7", "7"]
    assert len(list(prepare.sample_lines([counting], 99))) == 20
    assert len(list(prepare.sample_lines([counting], 99, pairs=4))) == 8


def test_every_pair_that_falls_is_counted(own):
    dog, wide, lopsided = ("A dog.", "Un chien."), ("a " * 7, "b " * 7), ("a b c d e", "b")
    pairs = [dog, dog, ("B\ufffdd.", "Mal."), ("A CAT!", "Un chat."), ("Alone.", "")]
    useful, counts = prepare.filter_pairs(pairs, settings(own), ["a cat"])
    assert useful == [dog]
    reasons = {"repeated": 1, "empty": 1, "garbled": 1, "held out": 1}
    assert counts == {"given": 5, "kept": 3} | reasons
    cases = (wide, {"words": 5}, 0), (lopsided, {"ratio": 1.0}, 0), (lopsided, {}, 1)
    for pair, changes, n in cases:
        assert len(prepare.filter_pairs([pair], settings(own, **changes), [])[0]) == n


def test_a_chunk_is_encoded_as_the_translator_would(own, store):
    tokens = SubwordTokenizer.load(store.tokenizer())
    encoder = prepare.ChunkEncoder(store.tokenizer(), settings(own), ["a cat"])
    odd = "", "a", "l'été, c'est (très) beau !", "<eos> <pad> 12,5 %", "naïve café 東京 🙂 a-b"
    for line in map(data.normalize_text, [*odd, *(english for english, _ in PAIRS[:50])]):
        assert [*encoder.encode(line), 2] == tokens.encode(line), line
    hits = encoder.word.cache_info().hits
    encoder.encode("a")
    assert encoder.word.cache_info().hits == hits + 1, "words are encoded again and again"
    chunk = encoder([*PAIRS[:3], ("A cat!", "Un chat."), ("x" * 400, "y" * 200)])
    assert chunk.ids.dtype == np.uint16 and chunk.lengths.shape == (3, 2)
    sides = [(tokens.encode(e), [1, *tokens.encode(o)]) for e, o in tidy(PAIRS[:3])]
    assert chunk.ids.tolist() == [i for pair in sides for side in pair for i in side]
    assert (chunk.counts["too many tokens"], chunk.counts["held out"]) == (1, 1)
    assert chunk.keys == list(map(prepare.pair_key, tidy(PAIRS[:3])))
    assert encoder([("", "")]).lengths.shape == (0, 2)
    longest = settings(own, tokens=int(chunk.lengths.max()))
    exactly = prepare.ChunkEncoder(store.tokenizer(), longest, [])
    assert len(exactly(PAIRS[:3]).lengths) == 3, "a side may have exactly so many tokens"


def test_a_preparation_counts_its_time(own, tmp_path, monkeypatch):
    clock = iter([0.0, 2.0, 5.0])
    monkeypatch.setattr(prepare, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    sources = training_sets.find_training_set(str(own / "mine-fr")).sources()
    effort = prepare.write_store(tmp_path, settings(own), sources, HELD)["effort"]
    assert (effort["learning_seconds"], effort["encoding_seconds"]) == (2, 3)
    assert (effort["pairs_per_second"], effort["workers"]) == (400, 1)
