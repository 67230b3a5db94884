"""Recorded commands: as they are typed today, and over several lines."""

import re

# A record keeps the words that were typed; these are their names today. Of options that have become
# fields of the recipe the value goes along: --seed 2 is --with seed=2.
OLD_OPTIONS = {
    "python -m transformer_lit.wmt --corpus": "transformer-lit train --recipe",
    "--data tatoeba --pairs 50000": "--recipe words",
    "--way ours": "--preset modern",
    "--begin-with book": "--init-from tatoeba-fr",
    "--begin-with": "--init-from",
    "--temperature": "--sampling-temperature",
    "--steps": "--max-steps",
    "--look-every": "--eval-every",
    "--folder": "--output-dir",
}
OLD_FIELDS = dict(
    word.split("=")
    for word in """vocabulary=vocab_size sample=tokenizer_sample warmup=warmup_steps peak=peak_lr
    keep-every=snapshot_every lines=n_eval_sentences max-tokens=max_tokens seed=seed
    checkpoint-every=checkpoint_every dropout=dropout precision=precision""".split()
)


def typed_today(command: str) -> str:
    "The options of a recorded command under their names of today."
    if "transformer" not in command:
        return command.replace("python tests/bench/", "python bench/")
    for old, new in OLD_OPTIONS.items():
        command = re.sub(rf"{old}(?![\w-])" if old.startswith("--") else old, new, command)
    for old, new in OLD_FIELDS.items():
        command = re.sub(rf"--{old} (\S+)", rf"--with {new}=\1", command)
    return re.sub(r"--pairs (\d+)(?!\S)", r"--with pairs=\1", command)


def in_lines(command: str) -> str:
    "A long command over several lines, broken only before an option."
    first, *options = re.split(r" (?=--)", command)
    lines = [first]
    for option in options:
        if len(lines[-1]) + len(option) + 3 > 64:
            lines.append(f"    {option}")
        else:
            lines[-1] += f" {option}"
    return " \\\n".join(lines)
