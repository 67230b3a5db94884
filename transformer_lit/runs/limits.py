"""Limits on the input of inference, each with its error message."""

from collections.abc import Sequence

LONGEST = 20_000  # characters in one line
WIDEST = 64  # hypotheses: a wider beam costs more and soon finds nothing better


def require_search_options(beam_size: int, batch_size: int, precision: str) -> None:
    "ValueError for a precision, a width of the beam or a batch that can't be."
    if precision not in ("fp32", "bf16"):
        raise ValueError(f'precision={precision!r}: choose "fp32" or "bf16"')
    if not 1 <= beam_size <= WIDEST:
        raise ValueError(f"beam_size={beam_size}: choose 1 to {WIDEST}")
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size}: 1 is the least")


def require_list_of_strings(sentences: Sequence[str]) -> None:
    """TypeError for a single text, which to Python is a list of letters, and for what can be read
    only once; ValueError for a line without end."""
    if isinstance(sentences, str) or not hasattr(sentences, "__len__"):
        raise TypeError("translate takes a list of sentences: write translate([...])")
    longest = max(map(len, sentences), default=0)
    if longest > LONGEST:
        raise ValueError(
            f"a line has {longest:,} characters, {LONGEST:,} are the most: write one sentence per"
            " line"
        )
