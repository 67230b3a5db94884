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
from transformer_lit.data import overlap_rate, filter_by_length, split_by_source
from transformer_lit.decoder import DecoderLayer
from transformer_lit.decoding import beam_search, greedy_decode, length_penalty
from transformer_lit.loss import shift_right, label_smoothed_cross_entropy
from transformer_lit.masks import BOS, EOS, PAD, UNK, depends_on_future, depends_on_padding
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.tokenization import SPECIAL_TOKENS, WordTokenizer, join_words, split_words
from transformer_lit.batching import collate, token_batches

ROWS, LENGTHS, PADS = (
    st.integers(1, 4),
    st.integers(1, 7),
    st.sampled_from([None, "right", "anywhere"]),
)


# Special tokens: who begins, who ends -------------------------------------------------------------


def test_special_ids():
    assert (PAD, BOS, EOS, UNK) == (
        0,
        1,
        2,
        3,
    ), "bos and pad are confused: PAD, BOS, EOS, UNK are 0, 1, 2, 3"
    assert SPECIAL_TOKENS == [
        "<pad>",
        "<bos>",
        "<eos>",
        "<unk>",
    ], "the words of the special ids stand in the order of the ids"


def test_shift_right():
    target = torch.tensor([[BOS, 5, 6, EOS, PAD], [BOS, 7, EOS, PAD, PAD]])
    read, say = shift_right(target)
    assert not torch.equal(
        read, say
    ), "the shift is off by one: the decoder reads the very word that it must say"
    assert (read[:, 0] == BOS).all(), "the shift is off by one: the decoder must read BOS first"
    assert torch.equal(
        say, target[:, 1:]
    ), "the shift is off by one: it must say the word after the one that it reads"


@given(ROWS, st.integers(1, 9), st.integers(5, 90), SEEDS)
def test_copy_batch(batch_size, length, vocab_size, seed):
    source, target = copy_batch(batch_size, length, vocab_size, torch.Generator().manual_seed(seed))
    again, _ = copy_batch(batch_size, length, vocab_size, torch.Generator().manual_seed(seed))
    assert torch.equal(source, again), "the same generator must give the same sequences"
    begins = (target[:, 0] == BOS).all()
    assert begins, "bos and pad are confused: the target must begin with BOS, as decoding will"
    assert (
        source.shape == (batch_size, length + 1) and (source[:, -1] == EOS).all()
    ), "EOS is missing at the end of the source"
    assert torch.equal(target[:, 1:], source), "the target is the source behind a BOS"
    words = source[:, :-1]
    assert (
        words.min() > UNK and words.max() < vocab_size
    ), "words are ids above UNK and below the size of the vocabulary"


def test_copy_batch_uses_every_word():
    words = copy_batch(200, 10, 10)[0][:, :-1].unique().tolist()
    assert words == [4, 5, 6, 7, 8, 9], f"words are the ids 4 ... vocab_size - 1, here {words}"


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


def test_reads_future_has_teeth():
    tokens = sentences(3, 5, 0, None)
    for t in range(4):
        peek = lambda x, t=t: x.double().roll(-1, 1)  # position t says what stands at t + 1
        assert depends_on_future(
            peek, tokens, t
        ), "depends_on_future lets a model through that repeats the next token"
        assert not depends_on_future(
            lambda x: x.double().cumsum(1), tokens, t
        ), "depends_on_future accuses a model that looks back"


@given(models(), ROWS, LENGTHS, PADS, SEEDS)
def test_pads_in_the_source_change_nothing(model, rows, s, pads, seed):
    model.eval()
    source, target = sentences(rows, s, seed, pads), sentences(rows, 3, seed + 1, None)
    assert not depends_on_padding(
        model.encode, source
    ), "the encoder reads padding: is the padding mask there, and not inverted?"
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
    assert not depends_on_padding(
        lambda tokens: model(source, tokens), target
    ), "the decoder reads padding in the target"


def test_reads_padding_has_teeth():
    tokens = sentences(3, 5, 0)
    assert depends_on_padding(
        lambda x: x.double() - x.double().mean(1, keepdim=True), tokens
    ), "depends_on_padding lets a model through that averages over pads"
    assert not depends_on_padding(
        lambda x: x.double(), tokens
    ), "depends_on_padding accuses a model that reads one token at a time"


def test_dropout_is_on_in_training_only():
    model, source, target = small_model(dropout=0.5), sentences(2, 5, 0), sentences(2, 4, 1)
    model.eval()
    same(
        model(source, target),
        model(source, target),
        "evaluation must not throw dice: is dropout on?",
    )
    model.train()
    assert not torch.equal(
        model(source, target), model(source, target)
    ), "training throws no dice: is dropout passed on?"


@given(models(), ROWS, SEEDS)
def test_rows_of_pads_stay_finite(model, rows, seed):
    model.eval()
    source, target = sentences(rows, 4, seed), sentences(rows, 5, seed, None)
    source[0], target[0, :2] = PAD, PAD  # a sentence of pads alone, and left padding
    logits = model(source, target)
    logits.sum().backward()
    assert (
        logits.isfinite().all()
    ), "a sentence of pads alone gives nan: a row closed everywhere must return zeros"
    assert all(
        w.grad.isfinite().all() for w in model.parameters() if w.grad is not None
    ), "a closed row's gradient is nan"


# Weights and first loss ---------------------------------------------------------------------------


@pytest.mark.parametrize("joint", [False, True])
def test_tied_weights_are_one_storage(joint):
    model = small_model(target_vocab_size=None if joint else VOCAB)
    source, target, output = (
        model.source_embedding.token_embedding.weight,
        model.target_embedding.token_embedding.weight,
        model.output_projection.weight,
    )
    assert (
        joint or output.data_ptr() != source.data_ptr()
    ), "the output is tied to the source's embedding, not the target's"
    assert (
        output.data_ptr() == target.data_ptr()
    ), "untied: output and target embedding must be ONE matrix (§3.4)"
    assert (
        source.data_ptr() == target.data_ptr()
    ) is joint, "source and target embeddings are one only for a joint vocabulary"
    with torch.no_grad():
        target[5, 0] = 123.0
    assert output[5, 0] == 123.0 and (
        not joint or source[5, 0] == 123.0
    ), "untied: a change of one must change all"
    assert len({id(p) for p in model.parameters()}) == len(list(model.parameters()))


def test_untied_on_request():
    model = small_model(tied_embeddings=False)
    matrices = {
        m.data_ptr()
        for m in (
            model.source_embedding.token_embedding.weight,
            model.target_embedding.token_embedding.weight,
            model.output_projection.weight,
        )
    }
    assert len(matrices) == 3, "tied_embeddings=False gives each of the three its own matrix"


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("tied", [True, False])
def test_first_loss_is_near_the_logarithm_of_the_vocabulary(norm, tied):
    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(
            1000,
            d_model=256,
            n_heads=4,
            d_ff=256,
            n_encoder_layers=2,
            n_decoder_layers=2,
            norm=norm,
            tied_embeddings=tied,
        )
    ).eval()
    source, target = (torch.randint(4, 1000, (8, length)) for length in (11, 13))
    read, say = shift_right(target)
    with torch.no_grad():
        logits = model(source, read)
    loss = label_smoothed_cross_entropy(logits, say, 0.0).item()
    slack = 2.0 if tied and norm == "pre" else 1.0  # the word just read stands in its own logit
    assert loss < math.log(1000) + slack, (
        f"the first loss is {loss:.1f}, and ln V is {math.log(1000):.1f}: an untrained model must"
        " not be sure of anything. Does it begin by repeating the word just read?"
    )


# Decoding -----------------------------------------------------------------------------------------


def test_the_cache_keeps_keys_beside_their_values():
    torch.manual_seed(0)
    layer = DecoderLayer(8, 2, 16, 0.0).double().eval()
    x, memory = torch.randn(1, 4, 8, dtype=torch.float64), torch.randn(1, 3, 8, dtype=torch.float64)
    cache = layer.initial_cache(memory)
    for t in range(4):
        _, cache = layer.step(x[:, t : t + 1], cache)
    keys, values = layer.self_attention.project_keys_values(*[torch.zeros_like(x)] * 2)
    assert (
        cache.keys.shape == keys.shape and cache.values.shape == values.shape
    ), "the cache loses a token: after four steps it must hold four keys and four values"


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
            logits, state = model.step(target[:, at], state)
            hint = (
                "the cache has a wrong offset: a token's position is the number of tokens before it"
                if at
                else (
                    "the first cached step already differs: BOS has position 0, and the source's"
                    " mask is needed"
                )
            )
            same(logits, full[:, at], f"step {at}: cached logits differ from uncached ones; {hint}")


def test_a_step_leaves_the_old_state_alone():
    model, source = small_model(), sentences(2, 4, 0)
    state = model.initial_state(source)
    model.step(torch.tensor([BOS, BOS]), state)
    first, _ = model.step(torch.tensor([BOS, BOS]), state)
    same(
        first,
        model(source, torch.tensor([[BOS], [BOS]]))[:, 0],
        "a step changed the state it was given: copy the caches",
    )


def tables(seed, rows=3, length=4, vocab=5):
    return (
        torch.randn(rows, length, vocab, vocab, generator=torch.Generator().manual_seed(seed)) * 2
    )


@given(SEEDS, ROWS)
def test_greedy_follows_the_table(seed, rows):
    table, source = tables(seed), torch.arange(rows)[:, None] % 3
    model, right, said_at = Scripted(table), [], []
    for row in source[:, 0].tolist():
        ids, token = [], BOS
        for at in range(4):
            token = table[row, at, token].argmax().item()
            if token == EOS:
                break
            ids.append(token)
        right.append(ids)
        said_at.append(len(ids) + (len(ids) < 4))
    said = greedy_decode(model, source, max_length=4)
    assert all(
        token == BOS for token in model.seen[0]
    ), "decoding starts with BOS: are bos and pad confused?"
    assert all(
        EOS not in ids for ids in said
    ), "a finished sentence is kept: EOS was said, and it goes on"
    assert [len(step) for step in model.seen] == [
        sum(n > at for n in said_at) for at in range(max(said_at))
    ], "a finished sentence is kept in the batch: rows that have said EOS must leave it"
    assert (
        said == right
    ), f"greedy decoding takes the likeliest word at each step: {right}, and not {said}"


def test_a_beam_holds_different_sentences():
    source, table = torch.zeros(1, 1, dtype=torch.long), torch.full((1, 4, 8, 8), -30.0)
    table[0, :, :, EOS] = 0.0
    table[0, 0, BOS, [EOS, 4, 5]] = torch.tensor([1e-9, 0.55, 0.45]).log()
    table[0, 1, 4, [EOS, 4, 5]] = torch.tensor([0.4, 0.3, 0.3]).log()
    assert beam_search(Scripted(table), source, 2, 0.0, 4) == [[5]], (
        "a beam of two must hold two different sentences: 5 (0.45) is likelier than 4 EOS (0.55 ·"
        " 0.4)"
    )


def two_ways(short=0.4, end=0.6):
    "EOS at once with probability `short`; or word 4 and then EOS with probability `end`."
    table = torch.full((1, 6, 6, 6), -30.0)
    table[0, :, :, EOS] = 0.0
    table[0, 0, BOS, EOS], table[0, 0, BOS, 4] = math.log(short), math.log(1 - short)
    table[0, 1, 4, EOS], table[0, 1, 4, 5] = math.log(end), math.log(1 - end)
    return Scripted(table)


def test_long_sentences_are_helped_by_the_penalty():
    source = torch.zeros(1, 1, dtype=torch.long)
    assert beam_search(two_ways(), source, 2, 0.0, 6) == [
        []
    ], "without a penalty the likelier sentence wins: 0.4 for the short one, 0.36 for the long one"
    assert beam_search(two_ways(), source, 2, 1.0, 6) == [
        [4]
    ], "scores are not divided by the length penalty: ln 0.36 / (7/6) = -0.88 beats ln 0.4 = -0.92"
    assert math.isclose(length_penalty(1, 0.6), 1.0) and math.isclose(
        length_penalty(7, 0.6), 2**0.6
    ), "the penalty is ((5 + length) / 6)^α"


@given(SEEDS, ROWS, st.integers(2, 6), st.booleans())
def test_a_larger_penalty_never_shortens_an_answer(seed, rows, beam, early_stopping):
    model, source = Scripted(tables(seed, length=6)), torch.arange(rows)[:, None] % 3
    said = [
        beam_search(model, source, beam, alpha, 5, early_stopping=early_stopping)
        for alpha in (0.0, 0.6, 1.0, 2.0, 4.0)
    ]
    for less, more in zip(said, said[1:]):
        assert all(len(a) <= len(b) for a, b in zip(less, more)), (
            f"α chooses from a fixed set, so a larger one can't choose a shorter answer: {less},"
            f" then {more}"
        )


class Remembering:
    "A model whose next word depends on all words before it, as its state has them."

    def __init__(self, seed):
        self.table = tables(seed, 1, 97, 5)[0, :, 0].log_softmax(-1)

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
    assert math.isclose(
        model.score(ids), max(map(model.score, bodies)), rel_tol=1e-5
    ), f"{ids} is not the likeliest sentence: does each beam go on from its own rows of the state?"


def test_a_finished_sentence_leaves_the_beam():
    table = torch.full((2, 6, 6, 6), -30.0)
    table[0, :, :, EOS] = 0.0  # row 0 ends at once, row 1 says 4 4 4 EOS
    table[1, :3, :, 4], table[1, 3:, :, EOS] = 0.0, 0.0
    model = Scripted(table)
    assert beam_search(model, torch.tensor([[0], [1]]), 2, 0.6, 6) == [[], [4, 4, 4]]
    assert [len(tokens) for tokens in model.seen] == [
        4,
        2,
        2,
        2,
    ], "a finished sentence is kept: it must leave the batch"


@given(models(vocab=8, target_vocab_size=None), st.integers(2, 5), LENGTHS, SEEDS)
def test_the_order_of_a_batch_does_not_matter(model, rows, s, seed):
    model.eval()
    source = sentences(rows, s, seed).clamp(max=7)
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        same(
            model.encode(source[order]),
            model.encode(source)[order],
            "the encoder mixes the sentences of a batch",
        )
    for name, decode in ("greedy_decode", greedy_decode), ("beam_search", beam_search):
        said = decode(model, source, max_length=6)
        assert decode(model, source[order], max_length=6) == [said[i] for i in order], (
            f"{name} mixes the sentences of a batch: do the rows of the state follow the rows that"
            " are still open?"
        )
        alone = [decode(model, row[None], max_length=6)[0] for row in source]
        assert alone == said, f"{name}: a sentence alone is translated otherwise than in company"


@given(
    models(vocab=8, target_vocab_size=None), ROWS, LENGTHS, st.sampled_from([0.0, 0.6, 1.0]), SEEDS
)
def test_a_beam_of_one_is_greedy(model, rows, s, alpha, seed):
    model.eval()
    source = sentences(rows, s, seed).clamp(max=7)
    assert beam_search(model, source, 1, alpha, max_length=6) == greedy_decode(
        model, source, max_length=6
    ), "a beam of one must say what greedy decoding says"


def test_the_longest_answer_is_the_sources_length_and_fifty():
    table = torch.zeros(2, 60, 6, 6)
    table[..., 4], table[..., EOS] = 1.0, -9.0  # never says EOS
    source = torch.tensor([[1, 5, EOS, PAD, PAD], [1, EOS, PAD, PAD, PAD]])
    for decode in greedy_decode, beam_search:
        assert [len(ids) for ids in decode(Scripted(table), source)] == [
            53,
            52,
        ], "the longest answer has the source's length + 50 tokens, pads not counted"
        assert [len(ids) for ids in decode(Scripted(table), source, max_length=2)] == [2, 2]


# Batches and gradients ----------------------------------------------------------------------------

PAIRS = st.lists(st.tuples(*[st.integers(1, 12)] * 2), max_size=40).map(
    lambda sizes: [([5] * s, [BOS] + [6] * t) for s, t in sizes]
)


@given(PAIRS, st.integers(13, 60), SEEDS)
def test_token_batches(pairs, max_tokens, seed):
    batches = token_batches(pairs, max_tokens, seed)
    assert sorted(i for batch in batches for i in batch) == list(
        range(len(pairs))
    ), "each pair must come exactly once"
    for batch in batches:
        size = len(batch) * max(len(side) for i in batch for side in pairs[i])
        assert (
            batch and size <= max_tokens
        ), f"a batch of {size} tokens, pads counted, is over {max_tokens}"
    again = token_batches(pairs, max_tokens, seed)
    assert batches == again, "the same seed must give the same batches"


def test_token_batches_put_like_with_like():
    dice = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 30, (400,), generator=dice).tolist()
    batches = token_batches([([5] * n, [6] * n) for n in lengths], 120)
    widths = [max(lengths[i] for i in batch) for batch in batches]
    padded = sum(len(b) * w for b, w in zip(batches, widths))
    assert padded < 1.1 * sum(lengths), "too many pads: are pairs sorted by length?"
    room = [120 // width - len(batch) for batch, width in zip(batches, widths)]
    assert sum(room) < len(room), "batches are left half empty"
    assert widths != sorted(widths), "batches come in order of length: shuffle them"


@given(PAIRS.filter(bool))
def test_collate(pairs):
    source, target = collate(pairs)
    for row, pair in enumerate(pairs):
        for side, ids in zip((source, target), pair):
            assert side[row].tolist() == ids + [PAD] * (
                side.size(1) - len(ids)
            ), "sentences first, then pads"


# Text ---------------------------------------------------------------------------------------------

ENGLISH = st.text("abA.! ?", min_size=1, max_size=4)


@given(
    st.lists(st.tuples(ENGLISH, st.text("xyz", max_size=2)), min_size=8, max_size=60),
    st.integers(0, 3),
    st.integers(0, 3),
    SEEDS,
)
def test_splits_share_no_english_sentence(pairs, valid, test, seed):
    bare = {pair[0].casefold().rstrip(" .!?…") for pair in pairs}
    assume(valid + test < len(bare))
    parts = split_by_source(pairs, valid, test, seed)
    groups = {
        name: {en.casefold().rstrip(" .!?…") for en, _ in part} for name, part in parts.items()
    }
    for a, b in itertools.combinations(groups, 2):
        assert (
            not groups[a] & groups[b]
        ), f"{a} and {b} share an English sentence: the test set leaks into training"
    assert sorted(pair for part in parts.values() for pair in part) == sorted(
        pairs
    ), "each pair goes to exactly one part"
    assert (len(groups["valid"]), len(groups["test"])) == (
        valid,
        test,
    ), "valid and test count English sentences"
    assert parts == split_by_source(
        pairs, valid, test, seed
    ), "the same seed must give the same split"


def test_shared_english_is_a_share_of_the_held_out_pairs():
    train, held = [("I see.", "Je vois.")], [("i see!", "Ah !"), ("Go.", "Va !")]
    assert overlap_rate(train, iter(held)) == 0.5 and overlap_rate(iter(train), held[:1]) == 1.0
    assert overlap_rate(train, []) == 0, "no pair at all shares nothing"


def test_shorter_than_counts_both_sides():
    pairs = [("a b", "x"), ("a", "x y z"), ("a b c", "x")]
    assert filter_by_length(pairs, 3) == [
        ("a b", "x")
    ], "both sides must have FEWER words than the limit"


WORDS = st.lists(
    st.text(string.ascii_lowercase + "éàç", min_size=1, max_size=6), min_size=1, max_size=8
)


@given(WORDS, st.sampled_from(["en", "fr"]), st.sampled_from([".", "!", "?", ", and."]))
def test_words_come_back_as_a_sentence(words, language, mark):
    space = " " if language == "fr" and mark in "!?" else ""
    text = " ".join(words) + space + mark
    assert (
        join_words(split_words(text, language), language) == text
    ), "splitting and joining must give the sentence back"
    vocabulary = WordTokenizer.train([text], language, min_frequency=1)
    ids = vocabulary.encode(text)
    assert (
        ids[-1] == EOS
    ), "EOS is missing at the end of the sentence: the model would never learn where it stops"
    assert vocabulary.decode(ids) == text, "encoding and decoding must give the sentence back"
    assert vocabulary.decode(torch.tensor(ids)) == text, "ids may come as a tensor"
    assert (
        vocabulary.decode([BOS, *ids, PAD, PAD, 5]) == text
    ), "decoding stops at EOS and shows no <bos> and no <pad>"
