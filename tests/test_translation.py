"""Chapter 18: strange input, lines cut and joined, answers in order, translators saved and loaded.
"""


import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from translators import PAIRS, joint, of_words, words

from transformer_lit import data
from transformer_lit.masks import BOS, EOS, UNK
from transformer_lit.tokenization import WordTokenizer
from transformer_lit.runs import checkpoints
from transformer_lit.translation import Translator, clean_input, split_long_text, translate_ids

KINDS = pytest.mark.parametrize("make", [words, joint])


class Echo(nn.Module):
    "Says its source again: a model with nothing to learn."

    def __init__(self):
        super().__init__()
        self.vocab, self.shapes, self.kinds = nn.Parameter(torch.tensor(8.0)), [], []

    def initial_state(self, source):
        self.shapes.append(tuple(source.shape))
        return {"left": source}

    def step(self, tokens, state):
        self.kinds.append((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)
        return nn.functional.one_hot(state["left"][:, 0], 8) * 50.0, {
            "left": state["left"].roll(-1, 1)
        }


def echo():
    letters = WordTokenizer(["a", "b", "c"], "en")
    return Translator(Echo(), letters, letters)


# Input --------------------------------------------------------------------------------------------


def test_what_no_file_can_hold_becomes_a_question_mark():
    assert clean_input("  l’été\u00a0!\n") == "l'été !" and clean_input("a\ud800b") == "a?b"


@pytest.mark.seconds
@KINDS
def test_any_text_gets_an_answer(make):
    lines = ["", " \n\t", "🦔", "\ud800", "<eos> <pad> <bos>", "\x00\x07", "日本語", "ﬁ", "́"]
    answers = make().translate([*lines, "a" * 3000, "I see. " * 300], batch_size=3)
    assert len(answers) == len(lines) + 2 and all(isinstance(text, str) for text in answers)
    assert answers[:2] == ["", ""], "what is empty stays empty"


@pytest.mark.parametrize("lines", ["I am.", (line for line in ["A cat.", "A dog."])])
def test_what_is_no_list_of_sentences_is_refused(lines):
    with pytest.raises(TypeError, match="list of sentences"):
        words().translate(lines)


@pytest.mark.parametrize("batch_size", [1, 2, 3, 64])
def test_every_sentence_gets_its_own_answer_however_batches_are_cut(batch_size):
    lines = ["a b c", "b", "c a", "", "b b b b", "a <b>", "c " * 300]
    answers = echo().translate(lines, batch_size=batch_size)
    in_order = "answers must come back in the order of the sentences"
    assert answers[:5] == lines[:5] and answers[6] == lines[6].strip(), in_order
    ids = [[4, 5, 2], [5, 2], [6, 4, 5, 2]]
    assert translate_ids(Echo(), ids, 2, batch_size) == [[4, 5], [5], [6, 4, 5]]
    assert echo().translate([], batch_size=batch_size) == []


def test_sentences_of_like_length_share_a_batch():
    speaker = echo()
    speaker.translate(["a b c a b", "b", "c b a b c", "a"], batch_size=2)
    assert speaker.model.shapes == [(2, 2), (2, 6)], "sorted by length, less is padded"


def test_no_text_is_encoded_twice():
    translator, seen = joint(), []
    encode = translator.source_tokenizer.encode

    class Counting:
        encode = staticmethod(lambda text: seen.append(text) or encode(text))

    translator.source_tokenizer = Counting()
    translator.translate(["I see a cats.", "I see b dogs. " * 12, "I see a cats."])
    assert len(seen) == len(set(seen)) > 1, "a sentence was cut into tokens more than once"


@pytest.mark.parametrize("limits, parts", [((100, 20), 4), ((100, 100), 1), ((9, 9), 8)])
def test_limits_belong_to_the_translator_and_are_kept(limits, parts, tmp_path):
    translator = echo()
    translator.length_limits = limits
    translator.translate(["a b c a b c a. " * 8])
    assert sum(rows for rows, _ in translator.model.shapes) == parts
    saved = words()
    saved.length_limits = limits
    saved.save(tmp_path)
    assert (
        Translator.load(tmp_path).length_limits == limits
    ), "whoever loads a translator cuts text as the run that trained it did"


@pytest.mark.parametrize(
    "options, kind", [((), torch.float32), (("fp32",), torch.float32), (("bf16",), torch.bfloat16)]
)
def test_products_are_computed_in_the_precision_that_was_asked_for(options, kind):
    model = Echo()
    assert translate_ids(model, [[4, 2]], 2, 1, *options) == [[4]] and set(model.kinds) == {kind}


@given(st.text(alphabet="ab .!?…,é", max_size=120), st.integers(1, 9))
def test_pieces_lose_nothing_and_fit(text, most):
    text = data.normalize_text(text)
    parts = split_long_text(text, len, most)
    assert "".join(parts).replace(" ", "") == text.replace(" ", ""), "cutting a line loses letters"
    assert all(0 < len(part) <= most for part in parts), "a piece is too long, or empty"


@pytest.mark.parametrize(
    "text, limits, parts",
    [
        ("One two. Three. Four five six.", (4,), ["One two. Three.", "Four five six."]),
        ("", (9,), []),
        ("He saw Mr. Lee. " + "a " * 19 + "a", (), ["He saw Mr. Lee.", "a " * 19 + "a"]),
        ("a " * 98 + "a", (), ["a " * 98 + "a"]),
        ("a " * 12 + "x, " + "b " * 13, (30, 8), ["a " * 12 + "x,", "b " * 13]),
        ("I met Dr. Lee. I left early.", (9, 4), ["I met Dr. Lee.", "I left early."]),
        ("J. F. Lee, e.g. in p.m. vs. me. Go.", (9, 4), ["J. F. Lee, e.g. in p.m. vs. me.", "Go."]),
    ],
)
def test_pieces_are_cut_at_sentence_ends_first_and_near_the_middle(text, limits, parts):
    "One sentence may be longer than several; none ends at Mr."
    assert split_long_text(text, lambda part: len(part.split()), *limits) == parts


# Making, saving, loading --------------------------------------------------------------------------


def test_words_of_each_side_are_listed_and_pairs_have_their_ends():
    rare = of_words([("a", "b")] * 2 + [("c", "d")], "it", d_model=8)
    sides = rare.source_tokenizer, rare.target_tokenizer
    assert [side.tokens[4:] for side in sides] == [["a"], ["b"]], "once is not often enough"
    assert [side.language for side in sides] == list(rare.languages) == ["en", "it"]
    [(source, target)] = words().encode_pairs([PAIRS[0]])
    ends = source[-1], target[0], target[-1]
    assert ends == (EOS, BOS, EOS) and UNK not in source + target, "EOS is missing, or BOS"


@KINDS
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_a_packed_translator_comes_back(make, precision, tmp_path):
    translator, lines = make(), [english for english, _ in PAIRS[:5]]
    translator.save(tmp_path, precision)
    again = Translator.load(tmp_path)
    for back, own in zip(again.model.parameters(), translator.model.parameters(), strict=True):
        assert (back - own).abs().max() <= 0.004 * own.abs().max(), f"more than {precision} may"
    assert again.encode_pairs(PAIRS) == translator.encode_pairs(PAIRS)
    assert again.languages == translator.languages and not again.model.training
    assert precision != "fp32" or again.translate(lines) == translator.translate(lines)


def test_a_training_folder_is_found_by_its_checkpoint(tmp_path):
    translator = joint()
    translator.save_config(tmp_path)
    checkpoints.save(
        tmp_path / "checkpoint.safetensors",
        translator.model,
        torch.optim.Adam(translator.model.parameters()),
        {},
    )
    lines = [english for english, _ in PAIRS[:4]]
    assert Translator.load(tmp_path).translate(lines) == translator.translate(lines)
