"""What a finished training leaves in the book: its checkpoint, its record and the "Try it" view.

    python bench/publish.py tatoeba-fr --run runs/tatoeba-fr
    python bench/publish.py pocket --run runs/pocket
    python bench/publish.py mixture-fr --run runs/mixture-fourth --before mixture-fr-first mixture-fr-second mixture-fr-third

Packs the weights (int8) with tokens, card and fingerprints into data/checkpoints/NAME, scores them as packed on the
test part, and writes run.json, hypotheses.txt, log.jsonl (every tenth step), precision.json and, of tatoeba-fr, try_it.json to
book/results/NAME. The corpus must be at hand ($TRANSFORMER_LIT_DATA). Takes minutes. Of a mixture
weights, card, run.json and log.jsonl are taken over; bench/domains.py scores it as packed. --before names the records of the
runs that it went on from: the card tells of them, too.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from transformer_lit.data import load  # noqa: E402
from litbook import seen  # noqa: E402
from litbook.live import looks  # noqa: E402
from transformer_lit.recipes import recipes  # noqa: E402
from transformer_lit.runs import records  # noqa: E402
from transformer_lit.serving.confidence import NAME  # noqa: E402
from transformer_lit.corpora.files import sha256_file, shipped, write_json  # noqa: E402
from litbook.quantization import precision_losses  # noqa: E402
from transformer_lit.translation import from_pretrained, save_pretrained  # noqa: E402

MIXTURES = ("mixture-fr",)


def keep_log(training, results):
    "Every tenth step and each epoch, to `results`/log.jsonl."
    (results / "log.jsonl").write_text(
        "".join(
            json.dumps(e, ensure_ascii=False) + "\n"
            for e in training.log
            if e["kind"] == "epoch" or e["step"] % 10 == 0
        ),
        encoding="utf-8",
    )


def sealed(box):
    "The hash of the weights, into translator.json: they are loaded with it and with no other."
    path = box / "translator.json"
    write_json(
        path,
        json.loads(path.read_text("utf-8")) | {"sha256": sha256_file(box / "model.safetensors")},
    )


def publish(name, run, parts, training, translator, command, root=ROOT):
    "`translator` and `training` as `train_translator` returns them; results into `root`."
    recipe, box, results = (
        recipes.RECIPES[name],
        root / "data/checkpoints" / name,
        root / "book/results" / name,
    )
    results.mkdir(parents=True, exist_ok=True)
    (results / "precision.json").write_text(
        json.dumps(precision_losses(translator, parts["valid"]), indent=1)
    )
    save_pretrained(translator, box)
    (box / "model.safetensors").chmod(0o644)
    sealed(box)
    seen.save_seen(parts["train"], box)
    packed = from_pretrained(box)  # what the book ships is what is scored
    record = recipes.evaluate_and_record(run, command, recipe, packed, training, parts)
    for file in "run.json", "hypotheses.txt":
        shutil.copyfile(run / file, results / file)
    (box / "README.md").write_text(records.model_card(record, name), encoding="utf-8")
    keep_log(training, results)
    if name == "tatoeba-fr":
        rows = [
            line.split("\t") for line in shipped("data/try_it.tsv").read_text("utf-8").splitlines()
        ]
        (results / "try_it.json").write_text(
            json.dumps(
                looks.try_it(packed, rows, lambda english: seen.was_seen(english, box)),
                ensure_ascii=False,
            ),
            encoding="utf-8",
        )
    return record


def publish_mixture(name, run, root=ROOT, before=()):
    """A finished run of `train --recipe mixture-...`, which went on from those `before`: packed,
    with its card and its record; into `root`."""
    record = json.loads((run / "run.json").read_text("utf-8"))
    box, results = root / "data/checkpoints" / name, root / "book/results" / name
    earlier = [
        json.loads((root / "book/results" / part / "run.json").read_text("utf-8"))
        for part in before
    ]
    card = records.model_card(record, name, earlier)  # all is read before anything is written
    results.mkdir(parents=True, exist_ok=True)
    save_pretrained(from_pretrained(run), box)
    (box / "model.safetensors").chmod(0o644)
    sealed(box)
    (box / NAME).unlink(missing_ok=True)  # other weights: bench/confidence.py writes it anew
    (box / "README.md").write_text(card, encoding="utf-8")
    for file in "run.json", "log.jsonl":
        shutil.copyfile(run / file, results / file)
    return record


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("name", choices=[*recipes.RECIPES, *MIXTURES])
    p.add_argument("--run", type=Path, required=True, help="the folder of the training, finished")
    p.add_argument(
        "--before",
        nargs="+",
        default=[],
        help="of a mixture: the records of the runs that it went on from, in their order",
    )
    o = p.parse_args()
    torch.set_num_threads(1)
    if o.name in MIXTURES:
        record = publish_mixture(o.name, o.run, before=o.before)
    else:
        recipe = recipes.RECIPES[o.name]
        parts = load(recipe.corpus, recipe.language, recipe.words, recipe.pairs)
        translator, training = recipes.train_translator(
            o.run, recipe, parts
        )  # a finished run is only read
        command = f"transformer-lit train --recipe {o.name} --output-dir {o.run}"
        record = publish(o.name, o.run, parts, training, translator, command)
    for score in record["scores"]:
        print(score["set"], score.get("references", ""), score["metric"], round(score["value"], 3))


if __name__ == "__main__":
    main()
