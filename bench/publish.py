"""What a finished training leaves in the book: its checkpoint, its record and the "Try it" view.

    python bench/publish.py tatoeba-fr --run runs/tatoeba-fr
    python bench/publish.py pocket --run runs/pocket
    python bench/publish.py mixture-fr --run runs/mixture-fourth --before mixture-fr-first \\
        mixture-fr-second mixture-fr-third
    python bench/publish.py open-fr --run runs/open-fourth --before open-fr-first open-fr-second \\
        open-fr-third

Packs the weights (int8) with tokens, card and fingerprints into data/checkpoints/NAME, scores them
as packed on the test part, and keeps record, log (every tenth step) and outputs among the trainings
of book/results/runs and, of tatoeba-fr, bench/try_it.json. The corpus must be at hand
($TRANSFORMER_LIT_DATA). Takes minutes. Of a mixture weights, card, record and log are taken over;
bench/domains.py scores it as packed. --before names the records of the runs that it went on from:
the card tells of them, too."""

import json
import re
from pathlib import Path

from common import ROOT, options, try_it
from records import add_training, rows_of

from litbook.live import looks
from litbook.quantization import precision_losses
from litbook.results import fingerprint, fingerprints, was_seen
from transformer_lit.corpora.files import sha256_file, write_json
from transformer_lit.data import load_corpus
from transformer_lit.recipes import recipes
from transformer_lit.serving.confidence import NAME
from transformer_lit.translation import Translator

MIXTURES = ("mixture-fr", "open-fr")


def save_seen(pairs, box):
    "The fingerprints of all English sentences, to `box`/seen.bin."
    marks = {fingerprint(english) for english, _ in pairs}
    (box / "seen.bin").write_bytes(b"".join(sorted(marks)))
    fingerprints.cache_clear()


def pack(translator: Translator, box: Path) -> None:
    "Weights and tokens; the weights' hash goes into translator.json: no others are loaded with it."
    translator.save(box)
    weights, path = box / "model.safetensors", box / "translator.json"
    weights.chmod(0o644)
    write_json(path, json.loads(path.read_text("utf-8")) | {"sha256": sha256_file(weights)})


def score_lines(record):
    "The record's scores as lines of Markdown, signatures with them."
    lines = []
    for score in record["scores"]:
        which = f", {score['references']}" if "references" in score else ""
        sign = f" (`{score['signature']}`)" if "signature" in score else ""
        lines.append(f"- {score['set']}, {score['metric']}{which}: {score['value']:.3f}{sign}")
    return "\n".join(lines)


def effort_lines(record):
    "The command of a run and what it took, as lines of Markdown."
    n = record.get("processes", 1)
    place = record["hardware"] + f" in each of {n} processes" * (n > 1)
    minutes, commit = record["seconds"] / 60, record["commit"] or "unknown"
    return (
        f"    {record['command']}\n\n{record['parameters']:,} parameters, {record['tokens']:,}"
        f" target tokens, {minutes:.0f} minutes\non {place}, torch {record['torch']}, seed"
        f" {record['seed']}, commit {commit}."
    )


def card(text, record, before=()):
    """The page beside the weights with this run's data, training and scores; whose the data is, and
    what the weights can't do, stays as a person wrote it. before: the runs that it went on from."""
    data = record["data"]
    counts = rf"{data['train']:,} pairs to train; SHA-256 of the \1 {data['sha256']}."
    text = re.sub(r"[\d,]+ pairs to train; SHA-256 of the (.*) \w+\.", counts, text)
    parts = {"Training": "\n\nThen:\n\n".join(map(effort_lines, [*before, record]))}
    if record["scores"]:
        parts["Scores"] = score_lines(record)
    return with_sections(text, parts)


def with_sections(text, parts):
    "A card with these lines below these titles."
    for title, lines in parts.items():
        text = re.sub(rf"(?s)(## {title}\n\n).*?(?=\n\n## )", lambda m: m[1] + lines, text)
    return text


def publish(name, run, parts, training, translator, command):
    "`translator` and `training` as `train_translator` returns them."
    recipe, box = recipes.RECIPES[name], ROOT / "data/checkpoints" / name
    precision = precision_losses(translator, parts["valid"])
    pack(translator, box)
    save_seen(parts["train"], box)
    packed = Translator.load(box)  # what the book ships is what is scored
    record = recipes.evaluate_and_record(run, command, recipe, packed, training, parts)
    page = box / "README.md"
    page.write_text(card(page.read_text("utf-8"), record), encoding="utf-8")
    add_training(name, run, every=10, precision=precision)
    if name == "tatoeba-fr":
        view = looks.try_it(packed, try_it(), lambda english: was_seen(english, box))
        write_json(ROOT / "book/results/bench/try_it.json", view, indent=None)


def publish_mixture(name, run, root=ROOT, before=()):
    """A finished run of `train --recipe mixture-...` or `open-...`, which went on from those
    `before`: packed, with its card and its record; into `root`."""
    record = json.loads((run / "run.json").read_text("utf-8"))
    box, runs = root / "data/checkpoints" / name, root / "book/results/runs"
    known = rows_of("trainings", runs)
    # all is read before anything is written
    page = card((box / "README.md").read_text("utf-8"), record, [known[part] for part in before])
    pack(Translator.load(run), box)
    (box / NAME).unlink(missing_ok=True)  # other weights: bench/confidence.py writes it anew
    (box / "README.md").write_text(page, encoding="utf-8")
    add_training(name, run, runs)


def main():
    o = options(
        __doc__,
        {
            "name": dict(choices=[*recipes.RECIPES, *MIXTURES]),
            "--run": dict(type=Path, required=True),
            "--before": dict(nargs="+", default=[]),
        },
    )
    if o.name in MIXTURES:
        publish_mixture(o.name, o.run, before=o.before)
    else:
        recipe = recipes.RECIPES[o.name]
        parts = load_corpus(recipe.corpus, recipe.language, recipe.words, recipe.pairs)
        # a finished run is only read
        translator, training = recipes.train_translator(o.run, recipe, parts)
        command = f"transformer-lit train --recipe {o.name} --output-dir {o.run}"
        publish(o.name, o.run, parts, training, translator, command)


if __name__ == "__main__":
    main()
