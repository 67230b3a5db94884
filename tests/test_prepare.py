"""From text to a token store: what it holds, what a stop leaves, and that memory stays flat."""

import dataclasses
import gc
import shutil
import tracemalloc
from itertools import cycle

import pytest
from plugins.corpus import HELD, PAIRS, Statmt, settings

from transformer_lit import data
from transformer_lit.corpora.store import write_tokens
from transformer_lit.corpora.texts import TextSource
from transformer_lit.recipes import prepare
from transformer_lit.tokenization import SubwordTokenizer

HELD_OUT = [english for part in HELD.values() for english, _ in part]


def tidy(pairs):
    return [tuple(map(data.normalize_text, pair)) for pair in pairs]


@pytest.mark.parametrize("served", ["de", "fr"], indirect=True)
def test_from_the_archives_to_a_store(served, tmp_path):
    config = prepare.PreparationConfig(f"wmt14-en-{served}", vocabulary=400, sample=500)
    Statmt.cut.add("wmt13/training-parallel-commoncrawl.tgz")
    with pytest.raises(FileNotFoundError, match="commoncrawl.tgz"):
        prepare.prepare_store(config, tmp_path / "store")
    store = prepare.prepare_store(config, tmp_path / "store")
    starts = [start for name, start in Statmt.requests if name.endswith("commoncrawl.tgz")]
    assert starts[0] == 0 < starts[1]  # the next try must go on where the last one broke off
    tokens = SubwordTokenizer.load(store.tokenizer())
    pairs = {(tokens.decode(source), tokens.decode(target[1:])) for source, target in store}
    expected = tidy([*PAIRS, *HELD["valid"], *HELD["test"], ("Bad \x00 byte", "x")])
    assert pairs <= set(expected), "the two sides don't belong together"
    counts = store.manifest["counts"]
    assert counts["given"] == (3005 if served == "fr" else 2505)  # a source is missing, or twice
    assert counts.get("held out", 0) == 1, "a sentence of the tests stands in training"
    assert (counts["empty"], counts["too long"], counts["kept"]) == (1, 1, len(store))
    assert store.held_out() == {part: tidy(HELD[part]) for part in HELD}


def test_the_store_holds_what_direct_encoding_gives(store):
    tokens = SubwordTokenizer.load(store.tokenizer())
    useful, _ = data.clean_pairs(PAIRS[:1200])
    pairs = data.exclude_sources(useful, HELD_OUT)
    direct = [(tokens.encode(e), [1] + tokens.encode(o)) for e, o in pairs]
    assert list(store) == direct  # the store holds something else than the translator would encode
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


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_stop_leaves_nothing_half(own, store, tmp_path, monkeypatch, error):
    encode, chunks = prepare.encode_chunk, [1, 2]

    def stopped(*arguments):
        if not chunks:
            raise error("No space left on device")
        chunks.pop()
        return encode(*arguments)

    with monkeypatch.context() as patch, pytest.raises(error):
        patch.setattr(prepare, "CHUNK", 50)
        patch.setattr(prepare, "encode_chunk", stopped)
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

    def most_memory(n, folder):
        pairs = ((f"{a} {k}", f"{b} {k}") for k, (a, b) in zip(range(n), cycle(PAIRS)))
        folder.mkdir()
        gc.collect()
        tracemalloc.start()
        chunks = prepare.source_chunks([TextSource("long", (), lambda: pairs)])
        write_tokens(folder, prepare.encode_chunks(chunks, (store.tokenizer(), settings(own), [])))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    # Threads that other tests have left here are counted too, so the lower of two attempts stands.
    sizes = 1_500, 15_000
    few, many = (min(most_memory(n, tmp_path / f"{n}-{k}") for k in range(2)) for n in sizes)
    assert many < 1.5 * few + 8e6, f"memory grows with the corpus: {few}, {many}"


# The parts ----------------------------------------------------------------------------------------


def test_a_sample_is_spread_evenly():
    counting = TextSource("n", (), lambda: [(f" {n}", f"{n}") for n in range(10)])
    assert list(prepare.sample_lines([counting], 3)) == ["0", "0", "4", "4", "7", "7"]
    assert len(list(prepare.sample_lines([counting], 99, pairs=4))) == 8


def test_every_pair_that_falls_is_counted(own):
    dog = "A dog.", "Un chien."
    pairs = [dog, dog, ("B\ufffdd.", "Mal."), ("A CAT!", "Un chat."), ("Alone.", "")]
    useful, counts = prepare.filter_pairs(pairs, settings(own), ["a cat"])
    assert useful == [dog]
    reasons = {"repeated": 1, "empty": 1, "garbled": 1, "held out": 1}
    assert counts == {"given": 5, "kept": 3} | reasons
    for limit in {"words": 1}, {"ratio": 0.5}:
        assert not prepare.filter_pairs([dog], settings(own, **limit), [])[0]


def test_a_chunk_is_encoded_as_the_translator_would(own, store):
    tokens = SubwordTokenizer.load(store.tokenizer())
    encode = prepare.text_encoder(store.tokenizer(), 0)
    for line in "", "l'été, c'est (très) beau !", "<eos> <pad> 12,5 %", "naïve café 東京 🙂 a-b":
        assert [*encode(line), 2] == tokens.encode(line), line

    def chunk(config, held_out, pairs):
        return prepare.encode_chunk(store.tokenizer(), config, held_out, ("n", pairs))[1]

    pairs = [*PAIRS[:3], ("A cat!", "Un chat."), ("x" * 400, "y" * 200)]
    encoded = chunk(settings(own), ["a cat"], pairs)
    assert (encoded.counts["too many tokens"], encoded.counts["held out"]) == (1, 1)
    longest = settings(own, tokens=int(encoded.lengths.max()))
    assert len(chunk(longest, [], PAIRS[:3]).lengths) == 3  # a side may have exactly so many tokens
