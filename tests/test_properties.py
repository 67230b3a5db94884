"""What must hold for any shape, any padding, any mask, any model: no reference implementation, only
promises."""

import itertools
import math
import string

import pytest
import torch
from helpers import MODES, SEEDS, VOCAB, Scripted, models, same, sentences, small_model
from hypothesis import assume, given
from hypothesis import strategies as st

from transformer_lit.copy_task import copy_batch
from transformer_lit.data import filter_by_length, sentence_key, split_by_source
from transformer_lit.decoder import LayerCache
from transformer_lit.decoding import beam_search, greedy_decode
from transformer_lit.loss import shift_right, label_smoothed_cross_entropy
from transformer_lit.masks import BOS, EOS, PAD, UNK, depends_on_future, depends_on_padding
from transformer_lit.tokenization import SPECIAL_TOKENS, WordTokenizer, join_words, split_words
from transformer_lit.batching import collate, token_batches

ROWS, LENGTHS, PADS = (
    st.integers(1, 4),
    st.integers(1, 7),
    st.sampled_from([None, "right", "anywhere"]),
)


# Special tokens: who begins, who ends -------------------------------------------------------------


def test_special_ids():
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3), "bos and pad are confused: they are 1 and 0"
    assert SPECIAL_TOKENS == ["<pad>", "<bos>", "<eos>", "<unk>"], "words in the order of the ids"


def test_shift_right():
    target = torch.tensor([[BOS, 5, 6, EOS, PAD], [BOS, 7, EOS, PAD, PAD]])
    read, say = shift_right(target)
    assert not torch.equal(read, say), (
        "the shift is off by one: the decoder reads the very word that it must say"
    )
    assert (read[:, 0] == BOS).all(), "the shift is off by one: the decoder must read BOS first"
    assert torch.equal(say, target[:, 1:]), (
        "the shift is off by one: it must say the word after the one that it reads"
    )


@given(ROWS, st.integers(1, 9), st.integers(5, 90), SEEDS)
def test_copy_batch(batch_size, length, vocab_size, seed):
    source, target = copy_batch(batch_size, length, vocab_size, torch.Generator().manual_seed(seed))
    begins = (target[:, 0] == BOS).all()
    assert begins, "bos and pad are confused: the target must begin with BOS, as decoding will"
    assert (source[:, -1] == EOS).all(), "EOS is missing at the end of the source"
    assert source.shape == (batch_size, length + 1)
    assert torch.equal(target[:, 1:], source), "the target is the source behind a BOS"
    words = source[:, :-1]
    assert words.min() > UNK and words.max() < vocab_size, "words are ids above UNK"


# What a model may read ----------------------------------------------------------------------------


@MODES
@given(models(dropout=0.3), ROWS, LENGTHS, LENGTHS, PADS, SEEDS, st.data())
def test_the_decoder_never_reads_the_future(training, model, rows, s, t, pads, seed, data):
    source, target = sentences(rows, s, seed), sentences(rows, t, seed + 1, pads)
    at = data.draw(st.integers(0, t - 1))
    where = "in training" if training else "in evaluation (is the mask used in training only?)"
    assert not depends_on_future(
        lambda tokens: model.train(training)(source, tokens), target, at
    ), f"the decoder reads the future {where}: is its mask transposed, or its diagonal off by one?"


@given(models(), ROWS, LENGTHS, PADS, SEEDS)
def test_pads_in_the_source_change_nothing(model, rows, s, pads, seed):
    model.eval()
    source, target = sentences(rows, s, seed, pads), sentences(rows, 3, seed + 1, None)
    assert not depends_on_padding(model.encode, source), (
        "the encoder reads padding: is the padding mask there, and not inverted?"
    )
    more = torch.nn.functional.pad(source, (0, 2), value=PAD)
    same(
        model(more, target),
        model(source, target),
        "cross-attention reads padding: the decoder needs the source's mask",
    )


@given(models(), ROWS, LENGTHS, PADS, SEEDS)
def test_pads_in_the_target_change_nothing(model, rows, t, pads, seed):
    model.eval()
    source, target = sentences(rows, 4, seed), sentences(rows, t, seed + 1, pads)
    assert not depends_on_padding(lambda tokens: model(source, tokens), target), (
        "the decoder reads padding in the target"
    )


def test_dropout_is_on_in_training_only():
    model, source, target = small_model(dropout=0.5), sentences(2, 5, 0), sentences(2, 4, 1)
    model.eval()
    same(
        model(source, target),
        model(source, target),
        "evaluation must not throw dice: is dropout on?",
    )
    model.train()
    assert not torch.equal(model(source, target), model(source, target)), (
        "training throws no dice: is dropout passed on?"
    )


@given(models(), ROWS, SEEDS)
def test_rows_of_pads_stay_finite(model, rows, seed):
    model.eval()
    source, target = sentences(rows, 4, seed), sentences(rows, 5, seed, None)
    source[0], target[0, :2] = PAD, PAD  # a sentence of pads alone, and left padding
    logits = model(source, target)
    logits.sum().backward()
    assert logits.isfinite().all(), (
        "a sentence of pads alone gives nan: a row closed everywhere must return zeros"
    )
    assert all(w.grad.isfinite().all() for w in model.parameters() if w.grad is not None), (
        "a closed row's gradient is nan"
    )


# Weights and first loss ---------------------------------------------------------------------------


@pytest.mark.parametrize("joint, tied, n", [(False, True, 2), (True, True, 1), (False, False, 3)])
def test_tied_weights_are_one_matrix(joint, tied, n):
    model = small_model(target_vocab_size=None if joint else VOCAB, tied_embeddings=tied)
    embeddings = model.source_embedding, model.target_embedding
    source, target = (embedding.token_embedding.weight for embedding in embeddings)
    output = model.output_projection.weight
    wrong = output is source and not joint
    assert not wrong, "the output is tied to the source's embedding, not the target's"
    assert (output is target) == tied, "untied: output and target embedding are one matrix (§3.4)"
    assert len(set(map(id, (source, target, output)))) == n


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("tied", [True, False])
def test_first_loss_is_near_the_logarithm_of_the_vocabulary(norm, tied):
    sizes = dict(d_model=256, n_heads=4, d_ff=256)
    model = small_model(vocab=1000, norm=norm, tied_embeddings=tied, **sizes)
    source, target = (torch.randint(4, 1000, (8, length)) for length in (11, 13))
    read, say = shift_right(target)
    with torch.no_grad():
        loss = label_smoothed_cross_entropy(model(source, read), say, 0.0).item()
    slack = 2.0 if tied and norm == "pre" else 1.0  # the word just read stands in its own logit
    assert loss < math.log(1000) + slack, (
        "an untrained model must not be sure of anything: does it begin by repeating the word just"
        " read?"
    )


# Decoding -----------------------------------------------------------------------------------------


def test_the_cache_keeps_keys_beside_their_values():
    cache = LayerCache(*torch.zeros(4, 1, 2, 0, 3))
    for _ in range(4):
        cache = cache.append(*torch.ones(2, 1, 2, 1, 3))
    assert cache.keys.size(2) == cache.values.size(2) == 4, "the cache loses a token"


def test_the_cache_is_in_the_order_of_the_words():
    model = small_model(n_decoder_layers=1)
    source, target = sentences(2, 4, 0, None), sentences(2, 4, 1, None)
    state = model.initial_state(source)
    for t in range(4):
        _, state = model.step(target[:, t], state)
    right = model.decoder.layers[0].self_attention.project_keys_values(
        *[model.target_embedding(target)] * 2
    )
    for name, theirs in zip(("keys", "values"), right):
        same(
            getattr(state["caches"][0], name),
            theirs,
            f"the cached {name} are not those of the words in their order; the cache has a wrong"
            " offset: a token's position is the number of tokens before it",
            {f"the cache is reversed: new {name} come last": theirs.flip(2)},
        )


@given(models(), ROWS, LENGTHS, st.integers(1, 6), SEEDS)
def test_cached_equals_uncached(model, rows, s, t, seed):
    model.eval()
    source, target = sentences(rows, s, seed), sentences(rows, t, seed + 1, None)
    with torch.no_grad():
        full, state = model(source, target), model.initial_state(source)
        for at in range(t):
            model.step(target[:, at], state)  # which leaves the state that it is given alone
            logits, state = model.step(target[:, at], state)
            hint = "the cache has a wrong offset, or a step needs the source's mask"
            same(logits, full[:, at], f"at step {at} {hint}")


def tables(seed, rows=3, length=4, vocab=5):
    return (
        torch.randn(rows, length, vocab, vocab, generator=torch.Generator().manual_seed(seed)) * 2
    )


@given(SEEDS, ROWS)
def test_greedy_follows_the_table(seed, rows):
    table, source = tables(seed), torch.arange(rows)[:, None] % 3
    model, right = Scripted(table), []
    for row in source[:, 0].tolist():
        ids = [BOS]
        while len(ids) < 5 and ids[-1] != EOS:
            ids.append(table[row, len(ids) - 1, ids[-1]].argmax().item())
        right.append([token for token in ids[1:] if token != EOS])
    said = greedy_decode(model, source, max_length=4)
    assert set(model.seen[0]) == {BOS}, "decoding starts with BOS: are bos and pad confused?"
    assert EOS not in sum(said, []), "a finished sentence is kept: EOS was said, and it goes on"
    assert said == right, "greedy decoding takes the likeliest word at each step"


def test_a_beam_holds_different_sentences():
    source, table = torch.zeros(1, 1, dtype=torch.long), torch.full((1, 4, 8, 8), -30.0)
    table[0, :, :, EOS] = 0.0
    table[0, 0, BOS, [EOS, 4, 5]] = torch.tensor([1e-9, 0.55, 0.45]).log()
    table[0, 1, 4, [EOS, 4, 5]] = torch.tensor([0.4, 0.3, 0.3]).log()
    answer = beam_search(Scripted(table), source, 2, 0.0, 4)
    assert answer == [[5]], "a beam of two must hold two different sentences: .45 is over .55 · .4"


@pytest.mark.parametrize("alpha, answer", [(0.0, []), (1.0, [4])])
def test_long_sentences_are_helped_by_the_penalty(alpha, answer):
    "EOS at once has probability 0.4; 4 EOS has 0.36, and ln 0.36 / (7/6) is over ln 0.4."
    table = torch.full((1, 6, 6, 6), -30.0)
    table[0, :, :, EOS] = 0.0
    table[0, 0, BOS, [EOS, 4]] = torch.tensor([0.4, 0.6]).log()
    table[0, 1, 4, [EOS, 5]] = torch.tensor([0.6, 0.4]).log()
    said = beam_search(Scripted(table), torch.zeros(1, 1, dtype=torch.long), 2, alpha, 6)
    assert said == [answer], "scores are not divided by the length penalty"


class Remembering:
    "A model whose next word depends on all words before it, as its state has them."

    def __init__(self, seed):
        logits = tables(seed, 1, 97, 5)[0, :, 0]
        logits[:, EOS] -= 4  # the likeliest sentence is long
        self.table = logits.log_softmax(-1)

    def initial_state(self, source):
        return [torch.zeros_like(source[:, 0])]

    def step(self, tokens, state):
        past = (state[0] * 5 + tokens + 1) % 97
        return self.table[past], [past]

    def score(self, words):
        state, total = self.initial_state(torch.zeros(1, 1).long()), 0.0
        for a, b in zip([BOS, *words], [*words, EOS]):
            logits, state = self.step(torch.tensor([a]), state)
            total += logits[0, b].item()
        return total


@given(SEEDS)
def test_each_beam_goes_on_from_its_own_state(seed):
    model = Remembering(seed)
    [ids] = beam_search(model, torch.ones(1, 1).long(), 99, 0.0, max_length=4)
    bodies = [[*body] for n in range(4) for body in itertools.product([0, 1, 3, 4], repeat=n)]
    assert math.isclose(model.score(ids), max(map(model.score, bodies)), rel_tol=1e-5), (
        f"{ids} is not the likeliest sentence: does each beam go on from its own rows of the state?"
    )


@given(models(vocab=8, target_vocab_size=None), st.integers(2, 5), LENGTHS, SEEDS)
def test_a_sentence_is_translated_alone_as_in_company(model, rows, s, seed):
    model.eval()
    source = sentences(rows, s, seed).clamp(max=7)
    for decode in greedy_decode, beam_search:
        alone = [decode(model, row[None], max_length=6)[0] for row in source]
        said = decode(model, source.flip(0), max_length=6)
        assert said[::-1] == alone, (
            f"{decode.__name__} mixes the sentences of a batch: do the rows of the state follow the"
            " rows that are still open?"
        )


@given(models(vocab=8, target_vocab_size=None), ROWS, LENGTHS, SEEDS)
def test_a_beam_of_one_is_greedy(model, rows, s, seed):
    model.eval()
    source = sentences(rows, s, seed).clamp(max=7)
    assert beam_search(model, source, 1, max_length=6) == greedy_decode(model, source, max_length=6)


def test_the_longest_answer_is_the_sources_length_and_fifty():
    table = torch.zeros(2, 60, 6, 6)
    table[..., 4], table[..., EOS] = 1.0, -9.0  # never says EOS
    source = torch.tensor([[1, 5, EOS, PAD, PAD], [1, EOS, PAD, PAD, PAD]])
    for decode in greedy_decode, beam_search:
        assert [len(ids) for ids in decode(Scripted(table), source)] == [53, 52], "pads don't count"


# Batches and gradients ----------------------------------------------------------------------------

PAIRS = st.lists(st.tuples(*[st.integers(1, 12)] * 2), max_size=40).map(
    lambda sizes: [([5] * s, [BOS] + [6] * t) for s, t in sizes]
)


@given(PAIRS, st.integers(13, 60), SEEDS)
def test_token_batches(pairs, max_tokens, seed):
    batches = token_batches(pairs, max_tokens, seed)
    indices = sorted(i for batch in batches for i in batch)
    assert indices == list(range(len(pairs))), "each pair must come exactly once"
    for batch in batches:
        size = len(batch) * max(len(side) for i in batch for side in pairs[i])
        assert 0 < size <= max_tokens, f"{size} tokens, pads counted, are over {max_tokens}"
    assert batches == token_batches(pairs, max_tokens, seed)


def test_token_batches_put_like_with_like():
    lengths = torch.randint(1, 30, (400,), generator=torch.Generator().manual_seed(0)).tolist()
    batches = token_batches([([5] * n, [6] * n) for n in lengths], 120)
    widths = [max(lengths[i] for i in batch) for batch in batches]
    padded = sum(len(batch) * width for batch, width in zip(batches, widths))
    assert padded < 1.1 * sum(lengths), "too many pads: are pairs sorted by length?"
    assert padded > 0.8 * 120 * len(batches), "batches are left half empty"
    assert widths != sorted(widths), "batches come in order of length: shuffle them"


@given(PAIRS.filter(bool))
def test_collate(pairs):
    for side, rows in zip(collate(pairs), zip(*pairs)):
        assert side.tolist() == [ids + [PAD] * (side.size(1) - len(ids)) for ids in rows]


# Text ---------------------------------------------------------------------------------------------

ENGLISH = st.text("abA.! ?", min_size=1, max_size=4)


@given(
    st.lists(st.tuples(ENGLISH, st.text("xyz", max_size=2)), min_size=8, max_size=60),
    *(st.integers(0, 3), st.integers(0, 3), SEEDS),
)
def test_splits_share_no_english_sentence(pairs, valid, test, seed):
    assume(valid + test < len({sentence_key(english) for english, _ in pairs}))
    parts = split_by_source(pairs, valid, test, seed)
    train, held, tested = (
        {english.casefold().rstrip(" .!?…") for english, _ in parts[name]}
        for name in ("train", "valid", "test")
    )
    n = len(train | held | tested)
    assert n == len(train) + valid + test, "two parts share a sentence: it leaks into training"
    assert (len(held), len(tested)) == (valid, test), "valid and test count English sentences"
    assert sorted(pair for part in parts.values() for pair in part) == sorted(pairs)
    assert parts == split_by_source(pairs, valid, test, seed)


def test_shorter_than_counts_both_sides():
    pairs = [("a b", "x"), ("a", "x y z"), ("a b c", "x")]
    assert filter_by_length(pairs, 3) == pairs[:1], "both sides have FEWER words than the limit"


WORDS = st.lists(
    st.text(string.ascii_lowercase + "éàç", min_size=1, max_size=6), min_size=1, max_size=8
)


@given(WORDS, st.sampled_from(["en", "fr"]), st.sampled_from([".", "!", "?", ", and."]))
def test_words_come_back_as_a_sentence(words, language, mark):
    space = " " if language == "fr" and mark in "!?" else ""
    text = " ".join(words) + space + mark
    assert join_words(split_words(text, language), language) == text
    vocabulary = WordTokenizer.train([text], language, min_frequency=1)
    ids = vocabulary.encode(text)
    assert ids[-1] == EOS, "EOS is missing: the model would never learn where it stops"
    assert vocabulary.decode(ids) == text, "encoding and decoding must give the sentence back"
    assert vocabulary.decode([BOS, *ids, PAD, 5]) == text, "decoding stops at EOS"
