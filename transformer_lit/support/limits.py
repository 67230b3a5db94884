"""What a translator refuses before it begins, each in one sentence that says what to do instead."""
LONGEST = 20_000  # characters in one line
WIDEST = 64  # hypotheses: a wider beam costs more and soon finds nothing better


def search_bounds(beam_size: int, batch_size: int, precision: str) -> None:
    "ValueError for what can't be searched."
    if precision not in ("fp32", "bf16"):
        raise ValueError(f'precision={precision!r}: choose "fp32" or "bf16"')
    if not 1 <= beam_size <= WIDEST:
        raise ValueError(f"beam_size={beam_size}: choose 1 to {WIDEST}")
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size}: 1 is the least")


def askable(sentences: list[str]) -> None:
    """TypeError for a single text, ValueError for a line without end.

    To Python a string is a list of letters: without brackets one sentence would be translated letter by letter."""
    if isinstance(sentences, str):
        raise TypeError(f"translate takes a list of sentences: write translate([{sentences[:200]!r}])")
    longest = max(map(len, sentences), default=0)
    if longest > LONGEST:
        raise ValueError(f"a line has {longest:,} characters, {LONGEST:,} are the most: write one sentence a line")
