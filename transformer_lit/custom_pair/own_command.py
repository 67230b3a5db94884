"""A pair of one's own on the command line: which options belong together, where the translator
goes, and the call that trains it."""

# Nothing heavy is imported before the options are found to fit.
import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from transformer_lit.commands import DONE, command_again
from transformer_lit.corpora.texts import readable_text
from transformer_lit.recipes.run_options import field

if TYPE_CHECKING:
    import torch


def own_files(options: argparse.Namespace) -> list[Path]:
    """The files of one's own pairs; none where --pairs is a number or wasn't given. Raises
    ValueError or OSError for what doesn't fit."""
    given = options.pairs if isinstance(options.pairs, list) else []
    if not given:
        for option in "--languages", "--reverse", "--train-only", "--without", "--keep-languages":
            if getattr(options, field(option)):
                raise ValueError(
                    f"{option} is for pairs of your own: give their file as well, --pairs FILE"
                    " --languages en-de"
                )
        return []
    if any(isinstance(one, int) for one in given):
        raise ValueError("--pairs is one number, or one or two files, and not both")
    if options.recipe:
        raise ValueError(
            f"{options.recipe} has pairs of its own, and {given[0]} holds yours: leave --recipe"
            " out, or --pairs"
        )
    readable_text(given[0])  # a file that isn't there comes before what is in it
    if not options.languages:
        raise ValueError(
            f"what is in {given[0]}? Give the languages of both sides, as --languages en-de"
        )
    one_or_two("--train-only", options.train_only or [])
    for path in options.without or []:
        readable_text(path)
    return one_or_two("--pairs", given)


def one_or_two(option: str, given: list[Path]) -> list[Path]:
    """The files if they can be one text of two columns or two parallel texts. Raises ValueError or
    OSError otherwise."""
    if len(given) > 2:
        raise ValueError(
            f"{option} takes one file of two columns, or two parallel texts, and {len(given)} files"
            " were given"
        )
    if len(given) == 2 and given[0] == given[1]:
        raise ValueError(
            f"{given[0]} was given twice: a parallel text is two files, one for each language"
        )
    for path in map(readable_text, given):
        if not path.is_file():
            raise ValueError(
                f"{path} is a pipe, and {option} reads a file more than once: write it to a file"
                " first"
            )
    return given


def own_name(options: argparse.Namespace) -> str:
    "From which language into which, as en-de."
    return "-".join(options.languages[::-1] if options.reverse else options.languages)


def train_own(
    options: argparse.Namespace, files: list[Path], folder: Path, device: "torch.device"
) -> int:
    """Train on one's own pairs, and leave report.md, run.json, test.tsv, left_out.tsv and
    doubted.tsv beside the model."""
    from transformer_lit.custom_pair import own_pairs

    more = options.train_only or []
    keep = options.keep_languages or None
    again = {
        "pairs": files,
        "train_only": more or None,
        "without": options.without,
        "languages": "-".join(options.languages),
        "reverse": options.reverse or None,
        "keep_languages": keep,
        "epochs": options.epochs,
    }
    command = command_again("transformer-lit train", again)
    own_pairs.train(
        files,
        options.languages,
        folder,
        command,
        options.reverse,
        options.epochs,
        device,
        more,
        options.without or (),
        bool(keep),
    )
    return DONE
