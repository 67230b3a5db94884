"""From text to a token store: what it holds, that it can be stopped anywhere, and that memory stays
flat."""

import dataclasses
import errno
import gzip
import lzma
import os
import shutil
import time
import types

import numpy as np
import pytest
from filelock import FileLock
from made_up import HELD, PAIRS, Statmt, here, own, served, settings, store, text  # noqa: F401
from helpers import one_sentence

from transformer_lit import data
from transformer_lit.corpora import download, files
from transformer_lit.recipes import prepare, training_sets
from transformer_lit import cli
from transformer_lit.runs.run import LOCK
from transformer_lit.corpora import store as store_


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
    tokens = store.tokens()
    seen = {(tokens.decode(source), tokens.decode(target[1:])) for source, target in store}
    assert seen <= {
        (data.tidy(e), data.tidy(o)) for e, o in [*PAIRS, *HELD["valid"], *HELD["test"]]
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
        part: [tuple(map(data.tidy, p)) for p in HELD[part]] for part in HELD
    }
    before = len(Statmt.asked)
    prepare.prepare_store(settings, tmp_path / "store")
    assert len(Statmt.asked) == before, "what is here is not fetched again"


def test_plain_gz_and_xz_make_one_corpus(own):
    assert (
        list(prepare.stream_pairs(training_sets.sources_of(str(own / "mine-fr")))) == PAIRS[:1200]
    )


def test_the_store_holds_what_direct_encoding_gives(own, store):
    tokens = store.tokens()
    kept, _ = data.clean(PAIRS[:1200])
    direct = [
        (tokens.encode(e), [1] + tokens.encode(o))
        for e, o in data.without(kept, [e for part in HELD.values() for e, _ in part])
    ]
    assert list(store) == direct, "the store holds something else than the translator would encode"
    assert store.lengths.tolist() == [[len(s), len(t)] for s, t in direct]
    assert all(isinstance(ids, np.memmap) and ids.dtype == np.uint16 for ids, _ in store.parts)


def test_words_looked_up_are_words_encoded(store):
    tokens = store.tokens()
    encode = prepare.WordEncoder(tokens, most=5)
    for line in [
        "",
        "a",
        "l'été, c'est (très) beau !",
        "<eos> <pad> 12,5 %",
        "naïve café 東京 🙂 a-b",
        *[e for e, _ in PAIRS[:50]],
    ]:
        assert encode(data.tidy(line)) == tokens.encode(data.tidy(line)), line


def test_several_processes_and_small_shards_give_the_same(own, store, tmp_path, monkeypatch):
    part = tmp_path / "part"
    part.mkdir()
    monkeypatch.setattr(prepare.chunks_of, "__defaults__", (100,))
    monkeypatch.setattr(store_.ShardWriter.__init__, "__defaults__", (3000, 1 << 12))
    sources = training_sets.sources_of(str(own / "mine-fr"))
    made = prepare.write_store(part, settings(own), sources, HELD, workers=2)
    files.write_json(part / "manifest.json", {"wanted": {}, **made})
    other = store_.TokenStore(part)
    assert len(other.parts) > 3 and list(other) == list(
        store
    ), "several processes make another store"
    assert (
        np.array_equal(other.lengths, store.lengths) and made["counts"] == store.manifest["counts"]
    )
    with pytest.raises(IndexError):
        other[len(other)]


def test_a_second_run_reuses_and_a_changed_one_is_refused(own, store, monkeypatch):
    monkeypatch.setattr(prepare, "write_store", None)
    assert list(prepare.prepare_store(settings(own), own / "store")) == list(store)
    with pytest.raises(ValueError) as caught:
        prepare.prepare_store(settings(own, vocabulary=500), own / "store")
    assert one_sentence(str(caught.value)) and "vocabulary=400; now vocabulary=500" in str(
        caught.value
    )


def test_a_changed_input_is_refused(own, store, monkeypatch):
    path = own / "mine-fr" / "a.tsv"
    before = path.read_bytes()
    path.write_bytes(before + b"One more.\tEncore un.\n")
    try:
        with pytest.raises(ValueError, match="prepared with other inputs"):
            prepare.prepare_store(settings(own), own / "store")
    finally:
        path.write_bytes(before)


def test_a_store_can_be_carried_to_where_its_corpus_is_not(own, tmp_path, monkeypatch):
    "The machine with the GPU may have neither the corpus nor a network."
    import shutil

    corpus = tmp_path / "ours-fr"
    shutil.copytree(own / "mine-fr", corpus)
    wanted = prepare.PreparationConfig(str(corpus), vocabulary=400, sample=400)
    before = list(prepare.prepare_store(wanted, tmp_path / "store"))
    shutil.rmtree(corpus)
    assert list(prepare.prepare_store(wanted, tmp_path / "store")) == before
    with pytest.raises(ValueError, match="vocabulary=400; now vocabulary=500"):
        prepare.prepare_store(dataclasses.replace(wanted, vocabulary=500), tmp_path / "store")
    monkeypatch.setattr(download, "cached_file", None)
    assert (
        training_sets.inputs_here("wmt14-en-de") is None
    ), "nothing may be fetched only to compare hashes"


# A preparation that is stopped --------------------------------------------------------------------

SIZES = (prepare.chunks_of, (50,)), (store_.ShardWriter.__init__, (3000, 1 << 12))


@pytest.fixture(scope="module")
def unbroken(own):
    """Settings, and the store that nothing stopped: many small shards of a corpus in which a third
    of the pairs come again."""
    corpus = own / "again-fr"
    corpus.mkdir()
    (corpus / "a.tsv").write_bytes(
        text(f"{e}\t{o}" for e, o in PAIRS[:800] + PAIRS[:400] + PAIRS[800:1000])
    )
    again = prepare.PreparationConfig(str(corpus), vocabulary=400, sample=400)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_LIT_DATA", str(own))
        for function, sizes in SIZES:
            patch.setattr(function, "__defaults__", sizes)
        store = prepare.prepare_store(again, own / "unbroken")
    assert store.manifest["counts"]["repeated"] > 300 and len(store.parts) > 5
    return again, store


@pytest.fixture
def small(monkeypatch, unbroken):
    for function, sizes in SIZES:
        monkeypatch.setattr(function, "__defaults__", sizes)
    return unbroken[0]


def same_store(store, other, shards=True):
    for name in ("counts", "tokenizer", "wanted", *["shards"] * shards):
        assert store.manifest[name] == other.manifest[name], f"a stop changes the store: {name}"
    assert list(store) == list(other), "a stop changes the store"
    assert not store.folder.with_name(store.folder.name + ".part").exists()
    assert len(list(store.folder.iterdir())) == 3 + 2 * len(
        store.parts
    ), "what was for going on is left"


@pytest.mark.parametrize("workers, cycle", [(1, 3), (2, 13)])
def test_a_preparation_stops_in_time_and_goes_on(
    small, unbroken, tmp_path, monkeypatch, workers, cycle
):
    calls, asked = 0, []
    clock = types.SimpleNamespace(
        **{**vars(time), "monotonic": lambda: asked.append(1) or len(asked) % cycle}
    )
    monkeypatch.setattr(store_, "time", clock)
    while (store := prepare.prepare_store(small, tmp_path / "store", workers, until=cycle - 2)) is None:
        calls += 1
        assert not (tmp_path / "store").exists()
        assert calls < 50, "a stopped preparation never ends: does it read past what is done?"
    assert calls == 29 // cycle, "each call must do what its time allows, and none of it again"
    same_store(store, unbroken[1], shards=False)


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        OSError(errno.ENOSPC, "No space left on device"),
        OSError("9 requested and 4 written"),
        Exception("No space left on device (os error 28)"),
    ],
    ids=["stopped", "errno", "numpy", "tokenizers"],
)
@pytest.mark.parametrize(
    "where",
    [
        "prepare.Subwords.save",
        "store.Shard.close",
        "store.ShardWriter.close",
        "store.Shard.add",
        "store.write_json",
        "prepare.write_json",
    ],
)
def test_a_full_disk_or_a_stop_anywhere_and_the_same_store(
    small, unbroken, tmp_path, monkeypatch, error, where
):
    calls = []
    module, *inside, name = where.split(".")
    owner = {"prepare": prepare, "store": store_}[module]
    owner = getattr(owner, inside[0]) if inside else owner
    real = getattr(owner, name)

    def harmed(*given):
        calls.append(1)
        if len(calls) in (1, 3, 4, 9):
            raise error
        return real(*given)

    monkeypatch.setattr(owner, name, harmed)
    for _ in range(9):
        try:
            store = prepare.prepare_store(small, tmp_path / "store")
            break
        except (OSError, KeyboardInterrupt) as caught:
            assert not (tmp_path / "store").exists(), "half a store has the name of a whole one"
            if isinstance(caught, OSError):
                assert (
                    one_sentence(str(caught))
                    and "the disk is full" in str(caught)
                    and "goes on" in str(caught)
                )
    same_store(store, unbroken[1])


def test_a_shard_that_is_whole_is_not_made_again(small, unbroken, tmp_path, monkeypatch):
    real, made = store_.Shard.close, []

    def close(shard):
        made.append(shard.files["ids"].name)
        if len(made) == 4:
            raise KeyboardInterrupt
        return real(shard)

    monkeypatch.setattr(store_.Shard, "close", close)
    monkeypatch.setattr(
        prepare.Subwords,
        "build",
        lambda *a, real=prepare.Subwords.build: made.append("subwords") or real(*a),
    )
    with pytest.raises(KeyboardInterrupt):
        prepare.prepare_store(small, tmp_path / "store")
    same_store(prepare.prepare_store(small, tmp_path / "store"), unbroken[1])
    assert made == ["subwords"] + [
        f"ids-{n:03d}.bin" for n in (0, 1, 2, 2, *range(3, len(unbroken[1].parts)))
    ]


def test_other_settings_begin_anew(small, tmp_path, monkeypatch):
    assert prepare.prepare_store(small, tmp_path / "store", until=0) is None
    other = dataclasses.replace(small, vocabulary=350)
    begun = sorted(path.name for path in (tmp_path / "store.part").glob("ids-*.bin"))
    assert begun
    with pytest.raises(
        ValueError,
        match="a preparation that isn't done, begun with vocabulary=.*take another folder",
    ):
        prepare.prepare_store(other, tmp_path / "store")
    assert (
        sorted(path.name for path in (tmp_path / "store.part").glob("ids-*.bin")) == begun
    ), "what took hours was thrown away"
    shutil.rmtree(tmp_path / "store.part")
    assert len(prepare.prepare_store(other, tmp_path / "store").tokens()) == 350


def killed(given):
    os.kill(os.getpid(), 9)


def test_a_killed_worker_is_one_sentence_and_the_shards_are_kept(
    small, unbroken, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(prepare, "encode_chunk", killed)
        with pytest.raises(ChildProcessError) as caught:
            prepare.prepare_store(small, tmp_path / "store", workers=2)
    assert one_sentence(str(caught.value)) and "a worker was killed" in str(caught.value)
    same_store(prepare.prepare_store(small, tmp_path / "store", workers=2), unbroken[1])


def test_the_command_stops_in_time_while_it_prepares(small, own, tmp_path, capsys):
    given = f"train --recipe {small.corpus} --data-dir {tmp_path / 'store'} --max-minutes 0"
    given += f" --output-dir {tmp_path / 'run'} --with size=400 --with sample=400 --size tiny"
    assert cli.main(given.split()) == 75
    assert "the same command resumes" in capsys.readouterr().err
    assert (tmp_path / "store.part" / "progress.json").exists() and not (
        tmp_path / "store"
    ).exists()


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
        prepare.prepare_store(prepare.PreparationConfig(str(folder), vocabulary=300), tmp_path / "store")
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
    given = f"train --recipe {folder} --data-dir {tmp_path / 'runs' / 'store'} --size tiny"
    given += f" --output-dir {tmp_path / 'runs' / 'run'} --with size=300"
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
    store = prepare.prepare_store(prepare.PreparationConfig(str(folder), vocabulary=300), tmp_path / "store")
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
        shards = store_.ShardWriter(folder, 20_000, 1 << 12)
        how = (tokenizer, settings(own), [])
        store_.fill_shards(
            shards, prepare.encode_chunks(prepare.chunks_of(islice(endless(), n), 500), how)
        )
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    # Threads that other tests have left here are counted too, so the lower of two attempts stands.
    most = [min(most_held(n, attempt) for attempt in range(2)) for n in (1_500, 15_000)]
    assert most[1] < 1.5 * most[0] + 8e6, f"memory grows with the corpus: {most}"


# The parts ----------------------------------------------------------------------------------------


def test_a_sample_is_spread_evenly():
    counting = prepare.TextSource("n", (), lambda: [(f" {n}", f"{n}") for n in range(10)])
    assert list(prepare.sample_lines([counting], 3)) == ["0", "0", "4", "4", "7", "7"]
    assert len(list(prepare.sample_lines([counting], 99))) == 20
    assert len(list(prepare.sample_lines([counting], 99, pairs=4))) == 8


def test_chunks_have_one_size():
    assert list(map(len, prepare.chunks_of(iter(PAIRS[:10]), 4))) == [4, 4, 2]
    assert len(next(prepare.chunks_of(iter(PAIRS * 2)))) == 4096


def test_a_key_is_the_same_everywhere_and_tells_the_sides_apart():
    import hashlib

    digest = hashlib.blake2b("a\tb\ud800".encode("utf-8", "replace"), digest_size=8).digest()
    assert prepare.pair_key(("a", "b\ud800")) == int.from_bytes(digest, "big")
    assert prepare.pair_key(("a", "bc")) != prepare.pair_key(("ab", "c"))


def test_every_pair_that_falls_is_counted(own):
    found, why = prepare.clean_pairs(
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
    assert prepare.clean_pairs(wide, settings(own, words=5), [])[0] == []
    assert prepare.clean_pairs(lopsided, settings(own, ratio=1.0), [])[0] == []
    assert len(prepare.clean_pairs(lopsided, settings(own), [])[0]) == 1


def test_a_chunk_is_encoded_as_the_translator_would(own, store):
    tokens = store.tokens()
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
        for i in tokens.encode(data.tidy(e)) + [1] + tokens.encode(data.tidy(o))
    ]
    assert (some.counts["too many tokens"], some.counts["held out"], some.counts["kept"]) == (
        1,
        1,
        3,
    )
    assert some.keys.tolist() == [
        prepare.pair_key(tuple(map(data.tidy, pair))) for pair in PAIRS[:3]
    ]
    none = encoder([("", "")])
    assert none.ids.size == 0 and none.lengths.shape == (0, 2)
    exactly = prepare.ChunkEncoder(
        store.tokenizer(), settings(own, tokens=int(some.lengths.max())), []
    )
    assert len(exactly(PAIRS[:3]).lengths) == 3, "a side may have exactly so many tokens"


def test_a_common_word_is_looked_up(store):
    encode = prepare.WordEncoder(store.tokens())
    assert (
        encode.word.cache_info().maxsize == 1 << 16
        and prepare.WordEncoder(store.tokens(), most=2).word.cache_info().maxsize == 2
    )
    for english, _ in PAIRS:
        encode(english)
    hits, misses = encode.word.cache_info()[:2]
    assert hits > misses, "words are encoded again and again"


def test_chunks_come_back_in_order(own, store):
    how = (store.tokenizer(), settings(own), [])
    alone = list(prepare.encode_chunks(prepare.chunks_of(iter(PAIRS[:50]), 20), how))
    assert [len(chunk.lengths) for chunk in alone] == [20, 20, 10]
    prepare.begin_worker(*how)
    assert (
        prepare.encode_chunk(PAIRS[:20]).ids.tolist() == alone[0].ids.tolist()
        and len(prepare.WORKER) == 1
    )


def test_a_store_is_prepared_by_one_at_a_time(small, tmp_path):
    place = tmp_path / ".store.lock"
    place.mkdir()
    with FileLock(place / LOCK):
        with pytest.raises(BlockingIOError, match="another command prepares .*store: let it end"):
            prepare.prepare_store(small, tmp_path / "store")
    assert prepare.prepare_store(small, tmp_path / "store") is not None and not place.exists()


def test_a_folder_of_somebody_elses_is_not_grown_in(tmp_path):
    (tmp_path / "store.part").mkdir()
    (tmp_path / "store.part" / "thesis.txt").write_text("x")
    with pytest.raises(FileExistsError, match="holds something else: move it"):
        prepare.growing_folder(tmp_path / "store", {"a": 1})
    assert (tmp_path / "store.part" / "thesis.txt").exists()


def test_a_folder_grows_under_another_name(tmp_path):
    part = prepare.growing_folder(tmp_path / "grows", {"a": [1, None]})
    (part / "x").write_text("x")
    assert (
        part.name == "grows.part"
        and (prepare.growing_folder(tmp_path / "grows", {"a": [1, None]}) / "x").exists()
    )
    assert (
        not (prepare.growing_folder(tmp_path / "grows", {"a": [2]}) / "x").exists()
        and not (tmp_path / "grows").exists()
    )


def test_a_full_disk_is_told_from_other_errors(tmp_path):
    with pytest.raises(KeyError), prepare.enough_room(tmp_path):
        raise KeyError("x")
    with prepare.enough_room(tmp_path):
        pass


def test_a_preparation_counts_its_time(own, tmp_path, monkeypatch):
    began = time.perf_counter()
    made = prepare.write_store(
        tmp_path, settings(own), training_sets.sources_of(str(own / "mine-fr")), HELD
    )
    whole, cost = time.perf_counter() - began, made["effort"]
    assert made["counts"]["given"] == 1200 and cost["workers"] == 1
    parts = cost["learning_seconds"], cost["encoding_seconds"]
    assert min(parts) > 0 and sum(parts) < whole, "time is counted twice"
    assert (
        abs(cost["pairs_per_second"] * parts[1] - 1200) < 1e-6
        and 50 < cost["own_megabytes"] < 20_000
    )
