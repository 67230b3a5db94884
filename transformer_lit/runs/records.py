"""What a run leaves behind: run.json, with the commit, the machine and the effort, and a page of
words about the weights."""

import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from torch import nn

from transformer_lit.corpora.files import write_json
from transformer_lit.runtime.distributed import process

PACKAGE = Path(__file__).resolve().parents[1]


def git_commit(package: Path = PACKAGE) -> str:
    """The commit of the checkout that this package belongs to, with -dirty where files were
    changed; "" without one.

    Git is asked about the package's own folder and not about the current one, which may be another
    project's. A package that was installed into somebody's repository (an environment inside a
    checkout) isn't part of it."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(package), *words], capture_output=True, text=True, env=clean
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        top = git("rev-parse", "--show-toplevel")
        if not top or Path(top).resolve() != package.parent or not git("ls-files", "__init__.py"):
            return ""
        return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except OSError:  # git is not installed
        return ""


def hardware_name(device: torch.device | None = None) -> str:
    """GPU, if `device` is one (None: if there is one), how many of them, threads and processor, as
    far as the system tells."""
    n, gpus = torch.get_num_threads(), process()[1]
    words = f"{n} thread{'s' * (n > 1)}, {platform.machine()}"
    if device is not None and device.type == "mps":
        return f"Apple GPU, {words}"
    if not (torch.cuda.is_available() if device is None else device.type == "cuda"):
        return words
    return f"{gpus} × " * (gpus > 1) + f"{torch.cuda.get_device_name(device)}, {words}"


def effort(model: nn.Module, run) -> dict:
    """Machine, size, tokens, operations, time of a training, which has `tokens` and `seconds`.

    Operations are counted as 6 per weight and token: two on the way forward, four for the gradient.
    """
    parameters = sum(w.numel() for w in model.parameters())
    return {
        "hardware": hardware_name(next(model.parameters()).device),
        "torch": torch.__version__.split("+")[0],
        "parameters": parameters,
        "tokens": run.tokens,
        "flops": 6.0 * parameters * run.tokens,
        "seconds": round(run.seconds, 1),
        "tokens_per_second": round(run.tokens / max(run.seconds, 1e-9)),
    }


def write_record(
    folder: str | Path,
    command: str,
    seed: int,
    recipe,
    data: dict,
    effort: dict,
    scores: list[dict],
    **more,
) -> dict:
    """What a run was and what came of it, to `folder`/run.json, whole or not at all; returns it.

    `recipe` is a dataclass with all choices, `data` tells the corpus, its size and hash, `more`
    goes between effort and scores. The commit is that of the package's own checkout."""
    record = {
        "command": command,
        "commit": git_commit(),
        "seed": seed,
        "recipe": asdict(recipe),
        "data": data,
        **effort,
        **more,
        "scores": scores,
    }
    write_json(Path(folder) / "run.json", record)
    return record


# A page about weights, for whoever finds them without the book ------------------------------------

LICENCES = {  # corpus -> whose it is, what it allows
    "tatoeba": (
        "Tatoeba, https://tatoeba.org, through manythings.org/anki; CC BY 2.0 FR. The sentences are"
        " by Tatoeba's contributors, who must be named."
    ),
    "pocket": "The book's own grammar (chapter 16); CC BY 4.0.",
    "mixture-en-fr": (
        """- Tatoeba, https://tatoeba.org, through manythings.org/anki; CC BY 2.0 FR. By Tatoeba's contributors.
- Captions of Multi30k (Elliott et al. 2016, 2017), with Flickr30k's terms; for non-commercial research and education.
- The news tests of 2008 to 2012, WMT shared tasks; for research.
- Statutes of Canada; Open Government Licence. Debian's web pages; MIT and GPL-2+. Documentation of PHP (CC BY 3.0), of
  Python (CC0 and PSF) and of GNOME (CC BY-SA 3.0), manual pages (GPL-3+).

The second and third allow research and education and no more, the second only where that isn't commercial. So do these weights. `tatoeba-fr` has no such limit."""
    ),
}
CARD = """# {name}

A small Transformer that translates English into {language}, trained by
the book The Literate Transformer with its own package.

## Data

{licence}
{train:,} pairs to train; SHA-256 of the {files} {sha256}.
{apart}

## Training

{training}

## Scores

{scores}

## Limits

{limits}
"""
TRAINING = """    {command}

{parameters:,} parameters, {tokens:,} target tokens, {minutes:.0f} minutes
on {hardware}{processes}, torch {torch}, seed {seed}, commit {commit}."""
LIMITS = {
    "tatoeba": (
        """Trained on short everyday sentences: idioms, rare words,
names, numbers and long sentences come out badly, and gender follows the
defaults of its data. Chapter 18 shows each with its cause. It says
something for any input, also where it knows nothing. Not for use where
a wrong translation does harm."""
    ),
    "pocket": (
        """It knows the words and the patterns of one grammar and
nothing else; any other word is unknown to it. Made for experiments."""
    ),
    "mixture-en-fr": (
        """It has read captions, old news, law and manuals besides everyday
sentences, and little of each. Chapter 18 has its scores beside those of
`tatoeba-fr`, text by text. It says something for any input, also where it
knows nothing. Not for use where a wrong translation does harm."""
    ),
}
APART = "No English sentence of the test is in the training data."
MIXED_APART = """No English sentence of a test is in the training data, and no near-copy of one of eight words or more.
From the text of the weights that it began with no near-copies were taken out (chapter 18)."""
LANGUAGES = {"fr": "French", "de": "German"}


def score_lines(record: dict) -> str:
    "The record's scores as lines of Markdown, signatures with them."
    lines = []
    for score in record["scores"]:
        which = f", {score['references']}" if "references" in score else ""
        sign = f" (`{score['signature']}`)" if "signature" in score else ""
        lines.append(f"- {score['set']}, {score['metric']}{which}: {score['value']:.3f}{sign}")
    return "\n".join(lines)


def effort_lines(record: dict, folder: str = "") -> str:
    "The command of a run, which goes to `folder`, and what it took, as lines of Markdown."
    told, n = {
        key: record[key] for key in ("parameters", "tokens", "hardware", "torch", "seed")
    }, record.get("processes", 1)
    command = record["command"] + f" --folder {folder}" * bool(folder)
    if n > 1:
        command = command.replace("python -m", f"torchrun --standalone --nproc-per-node {n} -m", 1)
    return TRAINING.format(
        minutes=record["seconds"] / 60,
        commit=record["commit"] or "unknown",
        command=command,
        processes=f" in each of {n} processes" * (n > 1),
        **told,
    )


def model_card(record: dict, name: str = "tatoeba-fr", before: Sequence[dict] = ()) -> str:
    """Data, licence, training, scores and limits of the run that `write_record` wrote, as Markdown.

    before: the records of the runs that it went on from, in their order."""
    data, parts = record["data"], [*before, record]
    folders = [part["recipe"].get("begin_with", "") for part in parts[1:]] + [
        ""
    ]  # each goes on from where the one before it went
    return CARD.format(
        name=name,
        language=LANGUAGES[record["recipe"]["language"]],
        licence=LICENCES[data["name"]],
        train=data["train"],
        files="list of files" if "inputs" in data else "archive",
        sha256=data["sha256"],
        limits=LIMITS[data["name"]],
        scores=score_lines(record) or "Chapter 18 has them, text by text (`bench/domains.py`).",
        apart=MIXED_APART if before else APART,
        training="\n\nThen:\n\n".join(map(effort_lines, parts, folders)),
    )
