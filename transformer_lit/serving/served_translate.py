"""Translate: python translate.py SENTENCE ..., or < FILE"""

# `transformer-lit export` copies this file into each folder that it writes, as translate.py. It
# needs ctranslate2, and tokenizers for a model of subwords, but neither torch nor the book. Text is
# tidied and cut as in chapters 15, 17 and 18.
import io
import json
import re
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
SENTENCE_BOUNDARY = (
    r"(?<!^[A-Z]\.)(?<! [A-Z]\.)(?<!\.[A-Za-z]\.)(?<![DMS][rst]\.)(?<!vs\.)(?<!Mrs\.)(?<!etc\.)"
    r"(?<!Prof\.)(?<=[.!?…]) "
)


def clean_input(text: str) -> str:
    "Composed letters, straight apostrophes, single plain spaces; half a character becomes ?."
    text = unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode("utf-8"))
    return " ".join(text.replace("’", "'").split())


def split_long_text(
    text: str, count_tokens: Callable[[str], int], max_length: int = 100, preferred_length: int = 20
) -> list[str]:
    """The text in parts of at most max_length tokens, several sentences in parts of at most
    preferred_length: cut at the end of a sentence, else at a space, else anywhere, near the middle.
    """
    cuts = [match.span() for match in re.finditer(SENTENCE_BOUNDARY, text)]
    limit = min(preferred_length, max_length) if cuts else max_length
    if count_tokens(text) <= limit or len(text) < 2:
        return [text] if text else []
    for pattern in " ", "(?<=.)(?=.)":
        cuts = cuts or [match.span() for match in re.finditer(pattern, text)]
    start, end = min(cuts, key=lambda cut: abs(sum(cut) - len(text)))
    return [
        part
        for piece in (text[:start], text[end:])
        for part in split_long_text(piece, count_tokens, max_length, preferred_length)
    ]


def split_words(text: str, language: str) -> list[str]:
    "Words and marks; English keeps don't whole, French cuts after j', l', qu'."
    french, english = r"\w+(?:-\w+)*'?|[^\w\s]", r"\w+(?:['-]\w+)*|[^\w\s]"
    return re.findall(french if language == "fr" else english, clean_input(text))


def join_words(words: list[str], language: str) -> str:
    "The sentence again: marks close up as the language has it."
    tight = ".,…)" if language == "fr" else ".,…)?!;:"
    text = re.sub(rf" ([{re.escape(tight)}])", r"\1", " ".join(words))
    return re.sub(r"\( ", "(", text.replace("' ", "'") if language == "fr" else text)


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
    source, target = HERE / "tokenizer.json", HERE / "target_tokenizer.json"
    if "words" in (rules := json.loads(source.read_text("utf-8"))):
        target_rules = json.loads(target.read_text("utf-8")) if target.exists() else rules

        def encode(text):
            return split_words(text, rules["language"])

        def decode(tokens):
            return join_words(tokens, target_rules["language"])

    else:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(source))
        tokenizer.encode_special_tokens = True

        def encode(text):
            return tokenizer.encode(text).tokens

        def decode(tokens):
            return tokenizer.decode([tokenizer.token_to_id(token) for token in tokens])

    engine = ctranslate2.Translator(str(HERE), intra_threads=1)
    limits = settings["length_limits"]
    texts = [
        split_long_text(clean_input(line), lambda part: len(encode(part)) + 1, *limits)  # and EOS
        for line in read_sentences()
    ]
    outputs = iter(
        engine.translate_batch(
            [encode(part) for parts in texts for part in parts],
            beam_size=4,
            length_penalty=0.6,
            min_decoding_length=0,
        )
    )
    for parts in texts:
        print(" ".join(decode(next(outputs).hypotheses[0]) for _ in parts))


if __name__ == "__main__":
    main()
