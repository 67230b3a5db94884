"""Chapter 18: strange input, lines cut and joined, answers in order, translators saved and loaded.
"""

import dataclasses
import hashlib
import inspect
import json
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from translators import PAIRS, TINY, joint, of_subwords, of_words, words

from transformer_lit import data
from transformer_lit.masks import UNK
from transformer_lit.model import TransformerConfig
from transformer_lit.runs.limits import WIDEST, require_search_options
from transformer_lit.tokenization import SubwordTokenizer, WordTokenizer
from transformer_lit.runs.checkpoints import model_tensors
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


@KINDS
def test_any_text_gets_an_answer(make):
    asked = [
        "",
        " \n\t",
        "I see a cats.",
        "🦔",
        "\ud800",
        "<eos> <pad> <bos>",
        "\x00\x07",
        "日本語",
        "ﬁ",
        "́",
        "a" * 3000,
        "I see. " * 300,
    ]
    said = make().translate(asked, batch_size=3)
    assert len(said) == len(asked) and all(
        isinstance(text, str) for text in said
    ), "one answer for each line"
    assert said[:2] == ["", ""], "what is empty stays empty"


@KINDS
def test_answers_do_not_depend_on_the_company(make):
    translator, asked = make(), [english for english, _ in PAIRS] + ["", "I."]
    together = translator.translate(asked, batch_size=5)
    assert together[::-1] == translator.translate(
        asked[::-1]
    ), "answers must come back in the order of the sentences"
    assert together[3] == translator.translate([asked[3]])[0]
    assert translator.translate([]) == []
    with pytest.raises(TypeError, match="takes a list of sentences"):
        translator.translate("I am.")


def test_every_sentence_gets_its_own_answer_however_batches_are_cut():
    asked = ["a b c", "b", "c a", "", "b b b b", "a <b>", "c " * 300]
    said = echo().translate(asked)
    assert (
        said[:5] == asked[:5] and said[6] == asked[6].strip()
    ), "answers must come back in the order of the sentences"
    for batch_size in 1, 2, 3:
        assert echo().translate(asked, batch_size=batch_size) == said
        assert translate_ids(Echo(), [[4, 5, 2], [5, 2], [6, 4, 5, 2]], 2, batch_size) == [
            [4, 5],
            [5],
            [6, 4, 5],
        ]
    assert echo().translate([]) == [] and echo().encode_pairs([("a b", "c")]) == [
        ([4, 5, 2], [1, 6, 2])
    ]
    defaults = [p.default for p in inspect.signature(Translator.translate).parameters.values()][2:]
    assert defaults == [4, 64, "auto"], "beam, batch, precision"


def test_sentences_of_like_length_share_a_batch():
    speaker = echo()
    assert speaker.translate(["a b c a b", "b", "c b a b c", "a"], batch_size=2) == [
        "a b c a b",
        "b",
        "c b a b c",
        "a",
    ]
    assert speaker.model.shapes == [(2, 2), (2, 6)], "sorted by length, less is padded"


def test_no_text_is_encoded_twice():
    translator, seen = joint(), []
    encode = translator.source_tokenizer.encode

    class Counting:
        encode = staticmethod(lambda text: seen.append(text) or encode(text))

    translator.source_tokenizer = Counting()
    translator.translate(["I see a cats.", "I see b dogs. " * 12, "I see a cats."])
    assert "I see a cats." in seen and len(seen) == len(
        set(seen)
    ), "a sentence was cut into tokens more than once"


@pytest.mark.parametrize("limits, parts", [((100, 20), 4), ((100, 100), 1), ((9, 9), 8)])
def test_limits_belong_to_the_translator_and_are_kept(limits, parts, tmp_path):
    """Whoever loads a translator cuts text as the run that trained it did: `evaluate` and a run's
    own looks answer alike.

    Only limits of its own are written: older files stay as they are."""
    lines = ["a b c a b c a. " * 8]
    translator = echo()
    translator.length_limits = limits
    assert translator.length_limits == limits
    translator.translate(lines)
    assert sum(rows for rows, _ in translator.model.shapes) == parts
    kept = words()
    kept.length_limits = limits
    kept.save(tmp_path)
    told = json.loads((tmp_path / "translator.json").read_text("utf-8"))
    assert told["length_limits"] == list(limits)
    assert (
        Translator.load(tmp_path).length_limits == limits
    ), "whoever loads a translator cuts text as the run that trained it did"


@pytest.mark.parametrize("units", [True, False])
def test_fewer_bits_only_for_many_rows_and_where_they_are_faster(monkeypatch, units):
    for name in "amx_tile", "avx512_bf16":
        monkeypatch.setattr(torch.cpu, f"_is_{name}_supported", lambda: units, raising=False)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    translator, seen = words(), []
    translator.model.output_projection.register_forward_hook(
        lambda m, i, logits: seen.append(logits.dtype)
    )

    def kinds(n, **options):
        seen.clear()
        assert len(translator.translate(["I see a cats."] * n, **options)) == n
        return set(seen)

    many = {torch.bfloat16 if units else torch.float32}
    assert kinds(31) == {torch.float32}, "31 sentences with a beam of 4 are few"
    assert (
        kinds(32) == many and kinds(65) == many
    ), "all batches of a call are computed alike, also a last one of few"
    assert (
        kinds(65, batch_size=31) == kinds(65, beam_size=1) == {torch.float32}
    ), "it is the rows of a batch that count"
    assert kinds(32, precision="fp32") == {torch.float32} and kinds(1, precision="bf16") == {
        torch.bfloat16
    }
    assert not torch.is_autocast_enabled("cpu"), "autocast is left on"
    with pytest.raises(ValueError, match="precision='int8': choose"):
        translator.translate(["I see."], precision="int8")


@pytest.mark.parametrize(
    "options, kind", [((), torch.float32), (("fp32",), torch.float32), (("bf16",), torch.bfloat16)]
)
def test_products_are_computed_in_the_precision_that_was_asked_for(options, kind):
    model = Echo()
    assert translate_ids(model, [[4, 2]], 2, 1, *options) == [[4]] and set(model.kinds) == {kind}


def test_what_cannot_be_searched_is_one_sentence():
    for beam, batch, precision, words_of in (
        (0, 1, "fp32", "beam_size=0"),
        (65, 1, "fp32", "beam_size=65"),
        (-3, 1, "fp32", "beam_size=-3"),
        (4, 0, "fp32", "batch_size=0"),
        (4, 1, "int8", "precision='int8': choose"),
    ):
        with pytest.raises(ValueError, match=re.escape(words_of)):
            translate_ids(Echo(), [[4, 2]], beam, batch, precision)
    require_search_options(1, 1, "bf16")
    require_search_options(WIDEST, 1, "fp32")


@given(st.text(alphabet="ab .!?…é", max_size=120), st.integers(1, 9))
def test_pieces_lose_nothing_and_fit(text, most):
    text = data.normalize_text(text)
    parts = split_long_text(text, len, most)
    assert "".join(parts).replace(" ", "") == text.replace(" ", ""), "cutting a line loses letters"
    assert all(0 < len(part) <= most for part in parts), "a piece is too long, or empty"


def test_pieces_cut_at_sentence_ends_first():
    assert split_long_text("Aa bb. Cc dd ee ff. Gg.", lambda part: len(part.split()), 5) == [
        "Aa bb.",
        "Cc dd ee ff. Gg.",
    ]


def test_pieces_are_cut_near_the_middle():
    count = lambda part: len(part.split())
    assert split_long_text("One two. Three. Four five six.", count, 4) == [
        "One two. Three.",
        "Four five six.",
    ]
    assert split_long_text("a b c d e", count, 3) == ["a b", "c d e"] and split_long_text(
        "x" * 10, len, 4
    ) == [
        "xx",
        "xxx",
        "xx",
        "xxx",
    ]
    assert (
        split_long_text("", count) == []
        and split_long_text("a", count, 0) == ["a"]
        and split_long_text.__defaults__ == (100, 20)
    )
    long = ("Is it? Yes! " * 40 + "no " * 300).strip()
    cut = split_long_text(long, count, 20)
    assert " ".join(cut) == long and max(map(count, cut)) <= 20
    assert min(map(count, cut)) >= 5, "near the middle"


def test_one_sentence_is_longer_than_several_may_be():
    count = lambda part: len(part.split())
    assert split_long_text("He saw Mr. Lee. " + "a " * 19 + "a", count) == [
        "He saw Mr. Lee.",
        "a " * 19 + "a",
    ], "no sentence ends at Mr."
    assert (
        len(split_long_text(("a " * 99).strip(), count)) == 1
    ), "a single sentence of 99 is left whole"
    for short in "Mr.", "Mrs.", "Ms.", "Dr.":
        assert (
            len(
                split_long_text(f"I met {short} Lee there. " * 2 + "And left early.", count, 100, 6)
            )
            == 3
        )


# Making, saving, loading --------------------------------------------------------------------------


def test_a_new_translator_lists_the_words_of_its_pairs():
    assert (
        of_words([("a", "b")], d_model=8).source_tokenizer.tokens[4:] == []
    ), "once is not often enough"
    once = of_words(iter([("a", "b")] * 2), "fr", d_model=8)
    assert (once.source_tokenizer.tokens[4:], once.target_tokenizer.tokens[4:]) == (["a"], ["b"])
    assert once.languages == ("en", "fr")
    assert (once.source_tokenizer.language, once.target_tokenizer.language) == ("en", "fr")
    assert once.model.config == TransformerConfig(5, 5, d_model=8)
    [(source, target)] = words().encode_pairs([PAIRS[0]])
    assert (
        source[-1] == 2 and target[0] == 1 and target[-1] == 2 and UNK not in source + target
    ), "EOS is missing, or BOS"


def test_a_joint_translator_has_one_table():
    made = joint()
    assert (
        made.model.output_projection.weight is made.model.source_embedding.token_embedding.weight
        and made.source_tokenizer is made.target_tokenizer
    )
    assert made.languages is None and of_subwords(
        made.source_tokenizer, "de", **TINY
    ).languages == (
        "en",
        "de",
    )
    [(source, target)] = made.encode_pairs([PAIRS[0]])
    assert (
        source[-1] == 2
        and target[0] == 1
        and target[-1] == 2
        and made.target_tokenizer.decode(target) == PAIRS[0][1]
    )


def test_what_is_written_of_a_translator(tmp_path):
    made = words()
    made.save_config(str(tmp_path / "new" / "folder"))
    folder = tmp_path / "new" / "folder"
    words_of_french = (folder / "target_tokenizer.json").read_text("utf-8")
    assert "clés" in words_of_french, "readable, without codes for accents"
    assert json.loads((folder / "translator.json").read_text("utf-8")) == {
        "config": dataclasses.asdict(made.model.config),
        "languages": ["en", "fr"],
        "length_limits": [100, 20],
    }
    joint().save_config(tmp_path / "joint")
    assert sorted(path.name for path in (tmp_path / "joint").iterdir()) == [
        "tokenizer.json",
        "translator.json",
    ]


@KINDS
@pytest.mark.parametrize(
    "precision, most", [("fp32", 0.0), ("bf16", 2**-8), ("int8", 0.5 / 127 + 1e-6)]
)
def test_a_packed_translator_comes_back(make, precision, most, tmp_path):
    translator = make()
    translator.save(tmp_path, precision)
    again = Translator.load(tmp_path)
    back, own = model_tensors(again.model), model_tensors(translator.model)
    for name, weight in own.items():
        away = (back[name] - weight).abs()
        bound = weight.abs().amax(-1, keepdim=True) * most if weight.ndim == 2 else 0 * weight
        assert (
            away <= bound + 1e-12
        ).all(), f"{name} moves more than {precision} may: does each row have its own scale?"
    assert again.source_tokenizer.encode("I see a.") == translator.source_tokenizer.encode(
        "I see a."
    )
    assert not again.model.training and isinstance(
        again.target_tokenizer, type(translator.target_tokenizer)
    )


def test_int8_is_a_quarter(tmp_path):
    sizes = []
    for precision in "fp32", "int8":
        of_subwords(joint().source_tokenizer, d_model=64, n_heads=4, d_ff=256).save(
            tmp_path, precision
        )
        sizes.append((tmp_path / "model.safetensors").stat().st_size)
    assert 3.4 < sizes[0] / sizes[1] < 4


def test_a_broken_folder_is_one_sentence(tmp_path):
    for missing in "translator.json", "model.safetensors":
        words().save(tmp_path)
        (tmp_path / missing).unlink()
        words_of = f"transformer-lit train --output-dir {re.escape(str(tmp_path))}"
        with pytest.raises(FileNotFoundError, match=words_of):
            Translator.load(tmp_path)
    words().save(tmp_path)
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[:-9])
    with pytest.raises(ValueError, match="no whole checkpoint"):
        Translator.load(tmp_path)
    joint().save(tmp_path / "other")
    (tmp_path / "model.safetensors").write_bytes(
        (tmp_path / "other" / "model.safetensors").read_bytes()
    )
    with pytest.raises(ValueError, match="another shape"):
        Translator.load(tmp_path)


def test_weights_of_another_day_are_refused(tmp_path):
    words().save(tmp_path)
    kept = json.loads((tmp_path / "translator.json").read_text("utf-8"))
    for digest in (
        hashlib.sha256((tmp_path / "model.safetensors").read_bytes()).hexdigest(),
        "0" * 64,
    ):
        (tmp_path / "translator.json").write_text(json.dumps({**kept, "sha256": digest}), "utf-8")
        if digest != "0" * 64:
            assert (
                Translator.load(tmp_path).target_tokenizer.tokens == words().target_tokenizer.tokens
            )
    with pytest.raises(ValueError, match="not the file that translator.json was written for"):
        Translator.load(tmp_path)


def test_a_training_folder_is_found_by_its_checkpoint(tmp_path):
    translator = joint()
    translator.save_config(tmp_path)
    checkpoints.save(
        tmp_path / "checkpoint.safetensors",
        translator.model,
        torch.optim.Adam(translator.model.parameters()),
        {},
    )
    asked = [english for english, _ in PAIRS[:4]]
    assert Translator.load(tmp_path).translate(asked) == translator.translate(asked)


def test_a_loaded_translator_is_the_one_that_was_saved(tmp_path):
    made = words()
    made.save(tmp_path, "fp32")
    again = Translator.load(str(tmp_path))
    own = made.model.state_dict()
    assert all(torch.equal(own[name], weight) for name, weight in again.model.state_dict().items())
    assert (
        again.model.config == made.model.config
        and again.languages == ("en", "fr")
        and not again.model.training
    )
    assert Translator.save.__defaults__ == ("int8",)
    asked = [english for english, _ in PAIRS[:5]]
    assert again.translate(asked) == made.translate(asked)


def test_vocabulary_and_subwords_are_told_apart(tmp_path):
    for make, kind in (
        (words, WordTokenizer),
        (joint, SubwordTokenizer),
        (words, WordTokenizer),
    ):  # into the same folder
        make().save(tmp_path)
        assert type(Translator.load(str(tmp_path)).source_tokenizer) is kind


def test_what_can_be_read_only_once_is_refused():
    with pytest.raises(TypeError, match="takes a list of sentences"):
        words().translate(line for line in ["A cat.", "A dog."])


def test_two_tokenizers_of_subwords_are_saved(tmp_path):
    sides = [side for pair in PAIRS for side in pair]
    tokenizers = SubwordTokenizer.train(sides, 270), SubwordTokenizer.train(sides, 280)
    both = Translator.untrained(*tokenizers, **TINY)
    both.save(tmp_path, "fp32")
    loaded = Translator.load(tmp_path)
    assert [len(loaded.source_tokenizer), len(loaded.target_tokenizer)] == [270, 280]
    assert loaded.translate(["I see a cats."]) == both.translate(["I see a cats."])
