"""Small translators, pairs and recipes for the tests of chapter 18 and of what it stands on."""

import torch

from transformer_lit.recipes.recipes import Recipe
from transformer_lit.tokenization import SubwordTokenizer, WordTokenizer
from transformer_lit.training import TrainingConfig
from transformer_lit.translation import Translator

TINY = dict(d_model=8, n_heads=2, d_ff=8, n_encoder_layers=1, n_decoder_layers=1, dropout=0.1)
PAIRS = [
    (f"I see {n} {w}.", f"Je vois {n} {m}.")
    for n in "abcdef"
    for w, m in (("cats", "chats"), ("dogs", "chiens"), ("keys", "clés"))
]
PARTS = {"train": PAIRS[:12], "valid": PAIRS[12:15], "test": PAIRS[15:]}


def of_words(pairs, language="fr", min_frequency=2, **sizes):
    "An untrained translator with a list of words for each side."
    source, target = zip(*pairs)
    tokenizers = (
        WordTokenizer.train(source, "en", min_frequency),
        WordTokenizer.train(target, language, min_frequency),
    )
    return Translator.untrained(*tokenizers, ("en", language), **sizes)


def of_subwords(tokenizer, language=None, **sizes):
    "An untrained translator with one tokenizer for both sides."
    return Translator.untrained(tokenizer, tokenizer, language and ("en", language), **sizes)


def words(**sizes):
    torch.manual_seed(0)
    return of_words(PAIRS, min_frequency=1, **TINY | sizes)


def joint(**sizes):
    torch.manual_seed(0)
    return of_subwords(
        SubwordTokenizer.train((s for pair in PAIRS for s in pair), 300), **TINY | sizes
    )


def recipe(**changes):
    "Three epochs of a few steps."
    return Recipe(
        vocab_size=300,
        model=TINY | {"norm": "pre"},
        training=TrainingConfig(epochs=3, max_tokens=64, checkpoint_every=1),
        **{"peak_lr": 0.02, **changes},
    )
