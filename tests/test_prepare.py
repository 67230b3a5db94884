"""From text to a token store: what it holds, what a stop leaves, and that memory stays flat."""

import dataclasses
import gzip
import lzma
import time

import numpy as np
import pytest
from made_up import HELD, PAIRS, Statmt, here, own, served, settings, store, text  # noqa: F401
from helpers import one_sentence

from transformer_lit import data
from transformer_lit.recipes import prepare, training_sets
from transformer_lit import cli
from transformer_lit.corpora.store import write_tokens
from transformer_lit.corpora.texts import TextSource
from transformer_lit.tokenization import SubwordTokenizer


@pytest.mark.parametrize("served", ["de", "fr"], indirect=True)
def test_from_the_archives_to_a_store(served, tmp_path):
    corpus = f"wmt14-en-{served}"
    Statmt.cut.add("wmt13/training-parallel-commoncrawl.tgz")
    settings = prepare.PreparationConfig(corpus, vocabulary=400, sample=500)
    with pytest.raises(FileNotFoundError) as broken:
        prepare.prepare_store(settings, tmp_path / "store")
    assert one_sentence(str(broken.value)) and "What came is kept" in str(broken.value)
    store = prepare.prepare_store(settings, tmp_path / "store")
    asked = [start for name, start in Statmt.asked if name.endswith("commoncrawl.tgz")]
    assert len(asked) == 2 and asked[1] > 0, "the next try must go on where the last one broke off"
    tokens = SubwordTokenizer.load(store.tokenizer())
    seen = {(tokens.decode(source), tokens.decode(target[1:])) for source, target in store}
    assert seen <= {
        (data.normalize_text(e), data.normalize_text(o))
        for e, o in [*PAIRS, *HELD["valid"], *HELD["test"]]
    } | {("Bad \x00 byte", "x")}, "the two sides don't belong together"
    counts = store.manifest["counts"]
    given = 3005 if served == "fr" else 2505
    assert counts["given"] == given, "a source is missing, or read twice"
    assert counts.get("held out", 0) == 1, "a sentence of the tests stands in training"
    assert [counts.get(why, 0) for why in ("empty", "too long")] == [1, 1]
    assert counts["kept"] == len(store) and counts["repeated"] >= 1
    for source, target in store:
        assert source[-1] == target[-1] == 2 and target[0] == 1
    assert store.held_out() == {
        part: [tuple(map(data.normalize_text, p)) for p in HELD[part]] for part in HELD
    }
    before = len(Statmt.asked)
    prepare.prepare_store(settings, tmp_path / "store")
    assert len(Statmt.asked) == before, "what is here is not fetched again"


def test_the_store_holds_what_direct_encoding_gives(own, store):
    tokens = SubwordTokenizer.load(store.tokenizer())
    kept, _ = data.clean_pairs(PAIRS[:1200])
    direct = [
        (tokens.encode(e), [1] + tokens.encode(o))
        for e, o in data.exclude_sources(kept, [e for part in HELD.values() for e, _ in part])
    ]
    assert list(store) == direct, "the store holds something else than the translator would encode"
    assert store.lengths.tolist() == [[len(s), len(t)] for s, t in direct]
    assert all(isinstance(side, np.memmap) for side in store.ids(0))


def test_a_second_run_reuses_and_a_changed_one_is_refused(own, store, monkeypatch):
    monkeypatch.setattr(prepare, "write_store", None)
    assert list(prepare.prepare_store(settings(own), own / "store")) == list(store)
    with pytest.raises(ValueError) as caught:
        prepare.prepare_store(settings(own, vocabulary=500), own / "store")
    assert one_sentence(str(caught.value)) and "with vocabulary 400:" in str(caught.value)


def test_a_changed_input_is_refused(own, store, monkeypatch):
    path = own / "mine-fr" / "a.tsv"
    before = path.read_bytes()
    path.write_bytes(before + b"One more.\tEncore un.\n")
    try:
        with pytest.raises(ValueError, match="prepared with other texts"):
            prepare.prepare_store(settings(own), own / "store")
    finally:
        path.write_bytes(before)


def test_a_store_can_be_carried_to_where_its_corpus_is_not(own, tmp_path):
    "The machine with the GPU may have neither the corpus nor a network."
    import shutil

    corpus = tmp_path / "ours-fr"
    shutil.copytree(own / "mine-fr", corpus)
    wanted = prepare.PreparationConfig(str(corpus), vocabulary=400, sample=400)
    before = list(prepare.prepare_store(wanted, tmp_path / "store"))
    shutil.rmtree(corpus)
    assert list(prepare.prepare_store(wanted, tmp_path / "store")) == before
    with pytest.raises(ValueError, match="with vocabulary 400:"):
        prepare.prepare_store(dataclasses.replace(wanted, vocabulary=500), tmp_path / "store")


def test_plain_gz_and_xz_make_one_corpus(own):
    sources = training_sets.find_training_set(str(own / "mine-fr")).sources()
    assert list(prepare.stream_pairs(sources)) == PAIRS[:1200]


def test_words_looked_up_are_words_encoded(own, store):
    encoder = prepare.ChunkEncoder(store.tokenizer(), settings(own), [])
    tokens = SubwordTokenizer.load(store.tokenizer())
    for line in [
        "",
        "a",
        "l'été, c'est (très) beau !",
        "<eos> <pad> 12,5 %",
        "naïve café 東京 🙂 a-b",
        *[e for e, _ in PAIRS[:50]],
    ]:
        assert [*encoder.encode(data.normalize_text(line)), 2] == tokens.encode(
            data.normalize_text(line)
        ), line
    hits = encoder.word.cache_info().hits
    encoder.encode("a")
    assert encoder.word.cache_info().hits == hits + 1, "words are encoded again and again"


@pytest.mark.parametrize("workers", [1, 2])
def test_small_chunks_and_several_processes_give_the_same(
    own, store, tmp_path, monkeypatch, workers
):
    monkeypatch.setattr(prepare, "CHUNK", 50)
    other = prepare.prepare_store(settings(own), tmp_path / "store", workers)
    assert list(other) == list(store), "several processes make another store"
    assert other.manifest["counts"] == store.manifest["counts"]


def test_a_repeat_is_dropped_wherever_it_stands(own, tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "CHUNK", 50)
    corpus = tmp_path / "again-fr"
    corpus.mkdir()
    once = PAIRS[:800] + PAIRS[800:1000]
    (corpus / "a.tsv").write_bytes(text(f"{e}\t{o}" for e, o in PAIRS[:800] + PAIRS[:400]))
    (corpus / "b.tsv").write_bytes(text(f"{e}\t{o}" for e, o in PAIRS[800:1000]))
    config = prepare.PreparationConfig(str(corpus), vocabulary=400, sample=400)
    store = prepare.prepare_store(config, tmp_path / "store")
    tokens, counts = SubwordTokenizer.load(store.tokenizer()), store.manifest["counts"]
    held_out = [e for part in HELD.values() for e, _ in part]
    direct = data.exclude_sources(data.clean_pairs(once)[0], held_out)
    assert [tokens.decode(source) for source, _ in store] == [e for e, _ in direct]
    assert counts["repeated"] > 300 and counts["kept"] == len(store)
    assert counts["from a.tsv"] + counts["from b.tsv"] == len(store)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_a_stop_leaves_nothing_half(own, store, tmp_path, monkeypatch, error):
    real, calls = prepare.ChunkEncoder.__call__, []

    def stopped(encoder, pairs):
        calls.append(1)
        if len(calls) == 3:
            raise error
        return real(encoder, pairs)

    monkeypatch.setattr(prepare, "CHUNK", 50)
    monkeypatch.setattr(prepare.ChunkEncoder, "__call__", stopped)
    with pytest.raises(type(error)):
        prepare.prepare_store(settings(own), tmp_path / "store")
    assert not (tmp_path / "store").exists()
    assert list(prepare.prepare_store(settings(own), tmp_path / "store")) == list(store)


def test_a_preparation_that_was_killed_starts_anew(own, store, tmp_path):
    (tmp_path / "ids.bin").write_bytes(b"half")
    (tmp_path / "tokenizer.json").write_text("{")
    assert list(prepare.prepare_store(settings(own), tmp_path)) == list(store)


def test_a_folder_of_something_else_is_left_alone(own, tmp_path):
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(FileExistsError, match="holds thesis.txt: take a new folder"):
        prepare.prepare_store(settings(own), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("x.tsv.gz", gzip.compress(b"A\tB\n" * 999)[:-20], "x.tsv.gz can't be read"),
        ("x.tsv.xz", lzma.compress(b"A\tB\n" * 999)[:-20], "x.tsv.xz can't be read"),
        ("x.tsv.xz", b"no archive at all", "x.tsv.xz can't be read"),
        ("x.md", b"A\tB\n", "no file that ends in"),
        ("x.tsv", b"\tB\nA\t\n", "holds no pair"),
    ],
    ids=["cut gzip", "cut xz", "no archive", "no corpus", "empty halves"],
)  # gzip's bytes hold the time
def test_a_bad_file_is_one_sentence(tmp_path, name, content, words):
    folder = tmp_path / "mine-fr"
    folder.mkdir()
    (folder / name).write_bytes(content)
    with pytest.raises((ValueError, OSError)) as caught:
        config = prepare.PreparationConfig(str(folder), vocabulary=300)
        prepare.prepare_store(config, tmp_path / "store")
    assert one_sentence(str(caught.value)) and words in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"\n\n", b"no tab here\n", gzip.compress(b"A\tB\n" * 999)[:-20], b"A\tB" * 600_000],
    ids=["empty", "blank lines", "one column", "cut gzip", "one endless line"],
)
def test_a_preparation_that_is_refused_leaves_nothing(own, tmp_path, content, capsys):
    folder = tmp_path / "mine-fr"
    folder.mkdir()
    (folder / ("x.tsv.gz" if content[:1] == b"\x1f" else "x.tsv")).write_bytes(content)
    before = sorted(tmp_path.rglob("*"))
    given = f"train --recipe {folder} --data-dir {tmp_path / 'store'} --size tiny"
    given += f" --output-dir {tmp_path / 'run'} --with vocab_size=300"
    assert cli.main(given.split()) == 1
    said = capsys.readouterr()
    assert one_sentence(said.err) and not said.out, said
    assert sorted(tmp_path.rglob("*")) == before, "a refused command has changed something"


def test_bytes_that_are_no_text_are_counted(own, tmp_path):
    folder = tmp_path / "mine-fr"
    folder.mkdir()
    (folder / "x.tsv").write_bytes(
        b"".join(b"Good %d.\tBon %d.\n" % (n, n) for n in range(20)) + b"B\xe9d.\tMal.\n"
    )
    config = prepare.PreparationConfig(str(folder), vocabulary=300)
    store = prepare.prepare_store(config, tmp_path / "store")
    assert len(store) == 20 and store.manifest["counts"]["garbled"] == 1


def test_memory_stays_flat(own, tmp_path):
    """Ten times the corpus, the same memory: what Python holds at its most while chunks are encoded
    and written."""
    import gc
    import tracemalloc
    from itertools import islice

    tokenizer = own / "store" / "tokenizer.json"
    if not tokenizer.exists():
        prepare.prepare_store(settings(own), own / "store")

    def endless():
        for n in range(10**9):
            english, other = PAIRS[n % 1000]
            yield f"{english} {n}", f"{other} {n}"

    def most_held(n, attempt):
        folder = tmp_path / f"{n}-{attempt}"
        folder.mkdir()
        gc.collect()
        tracemalloc.start()
        source = TextSource("endless", (), lambda: islice(endless(), n))
        chunks = prepare.source_chunks([source])
        write_tokens(folder, prepare.encode_chunks(chunks, (tokenizer, settings(own), [])))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    # Threads that other tests have left here are counted too, so the lower of two attempts stands.
    most = [min(most_held(n, attempt) for attempt in range(2)) for n in (1_500, 15_000)]
    assert most[1] < 1.5 * most[0] + 8e6, f"memory grows with the corpus: {most}"


# The parts ----------------------------------------------------------------------------------------


def test_a_sample_is_spread_evenly():
    counting = TextSource("n", (), lambda: [(f" {n}", f"{n}") for n in range(10)])
    assert list(prepare.sample_lines([counting], 3)) == ["0", "0", "4", "4", "7", "7"]
    assert len(list(prepare.sample_lines([counting], 99))) == 20
    assert len(list(prepare.sample_lines([counting], 99, pairs=4))) == 8


def test_chunks_know_their_source_and_have_one_size(monkeypatch):
    monkeypatch.setattr(prepare, "CHUNK", 4)
    sources = [TextSource(name, (), lambda: PAIRS[:6]) for name in "ab"]
    chunks = [(name, len(chunk)) for name, chunk in prepare.source_chunks(sources)]
    assert chunks == [("a", 4), ("a", 2), ("b", 4), ("b", 2)]
    assert [len(chunk) for _, chunk in prepare.source_chunks(sources, 7)] == [4, 2, 1]


def test_a_key_is_the_same_everywhere_and_tells_the_sides_apart():
    import hashlib

    digest = hashlib.blake2b("a\tb\ud800".encode("utf-8", "replace"), digest_size=8).digest()
    assert prepare.pair_key(("a", "b\ud800")) == int.from_bytes(digest, "big")
    assert prepare.pair_key(("a", "bc")) != prepare.pair_key(("ab", "c"))


def test_every_pair_that_falls_is_counted(own):
    found, why = prepare.filter_pairs(
        [
            ("A dog.", "Un chien."),
            ("A dog.", "Un chien."),
            ("B\ufffdd.", "Mal."),
            ("A CAT!", "Un chat."),
            ("Alone.", ""),
        ],
        settings(own),
        ["a cat"],
    )
    assert found == [("A dog.", "Un chien.")]
    assert why == {"given": 5, "kept": 3, "repeated": 1, "empty": 1, "garbled": 1, "held out": 1}
    wide, lopsided = [("a " * 7, "b " * 7)], [("a b c d e", "b")]
    assert prepare.filter_pairs(wide, settings(own, words=5), [])[0] == []
    assert prepare.filter_pairs(lopsided, settings(own, ratio=1.0), [])[0] == []
    assert len(prepare.filter_pairs(lopsided, settings(own), [])[0]) == 1


def test_a_chunk_is_encoded_as_the_translator_would(own, store):
    tokens = SubwordTokenizer.load(store.tokenizer())
    encoder = prepare.ChunkEncoder(store.tokenizer(), settings(own), ["a cat"])
    some = encoder([*PAIRS[:3], ("A cat!", "Un chat."), ("x" * 400, "y" * 200)])
    assert (
        some.ids.dtype == np.uint16
        and some.lengths.shape == (3, 2)
        and some.lengths.sum() == len(some.ids)
    )
    assert some.ids.tolist() == [
        i
        for e, o in PAIRS[:3]
        for i in tokens.encode(data.normalize_text(e)) + [1] + tokens.encode(data.normalize_text(o))
    ]
    assert (some.counts["too many tokens"], some.counts["held out"]) == (1, 1)
    assert some.keys == [
        prepare.pair_key(tuple(map(data.normalize_text, pair))) for pair in PAIRS[:3]
    ]
    none = encoder([("", "")])
    assert none.ids.size == 0 and none.lengths.shape == (0, 2)
    exactly = prepare.ChunkEncoder(
        store.tokenizer(), settings(own, tokens=int(some.lengths.max())), []
    )
    assert len(exactly(PAIRS[:3]).lengths) == 3, "a side may have exactly so many tokens"


def test_a_preparation_counts_its_time(own, tmp_path, monkeypatch):
    began = time.perf_counter()
    made = prepare.write_store(
        tmp_path,
        settings(own),
        training_sets.find_training_set(str(own / "mine-fr")).sources(),
        HELD,
    )
    whole, cost = time.perf_counter() - began, made["effort"]
    assert made["counts"]["given"] == 1200 and cost["workers"] == 1
    parts = cost["learning_seconds"], cost["encoding_seconds"]
    assert min(parts) > 0 and sum(parts) < whole, "time is counted twice"
    assert (
        abs(cost["pairs_per_second"] * parts[1] - 1200) < 1e-6
        and 50 < cost["own_megabytes"] < 20_000
    )
