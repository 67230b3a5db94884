"""Translate: python translate.py SENTENCE ..., or < FILE"""

# `transformer-lit export` writes this file into each folder, as translate.py, with the text of the
# chapters' functions in place of their imports. It needs ctranslate2, and tokenizers for a model of
# subwords, but neither torch nor the book.
import io
import json
import re
import sys
from pathlib import Path

from transformer_lit.tokenization import join_words, split_words
from transformer_lit.translation import clean_input, split_long_text

HERE = Path(__file__).resolve().parent


def read_sentences() -> list[str]:
    "What was typed, or the lines of standard input."
    if sys.argv[1:] or sys.stdin.isatty():
        return sys.argv[1:] or sys.exit(__doc__)
    try:
        return [*io.TextIOWrapper(sys.stdin.buffer, "utf-8-sig", newline="\n")]
    except UnicodeDecodeError:
        sys.exit("standard input is not UTF-8 text: convert it first")


def main() -> None:
    import ctranslate2

    settings = json.loads((HERE / "translator.json").read_text("utf-8"))
    path = HERE / "tokenizer.json"
    if "words" in json.loads(path.read_text("utf-8")):
        languages = settings["languages"]

        def encode(text):
            return split_words(text, languages[0])

        def decode(tokens):
            return join_words(tokens, languages[-1])

    else:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.encode_special_tokens = True

        def encode(text):
            return tokenizer.encode(text).tokens

        def decode(tokens):
            return tokenizer.decode([tokenizer.token_to_id(token) for token in tokens])

    engine = ctranslate2.Translator(str(HERE), intra_threads=1)
    limits = settings["length_limits"]
    # lines of marks alone, and marks that nobody sees
    marks = "^[\\W_]+$|[\u00ad\u200b\ufeff\u200e\u200f\u202a-\u202e\u2066-\u2069]"
    lines = read_sentences()
    texts = [
        split_long_text(
            clean_input(re.sub(marks, "", line)), lambda part: len(encode(part)) + 1, *limits
        )  # and EOS
        for line in lines
    ]
    outputs = iter(
        engine.translate_batch(
            [encode(part) for parts in texts for part in parts],
            beam_size=4,
            length_penalty=0.6,
            min_decoding_length=0,
            max_batch_size=64,
        )
    )
    for line, parts in zip(lines, texts):
        print(" ".join(decode(next(outputs).hypotheses[0]) for _ in parts) or line.strip())


if __name__ == "__main__":
    main()
