"""Pairs of a new domain, law: a model from scratch beside one that starts from `tatoeba-fr`.

    python bench/init_from.py          # seven hours of one core; the same command resumes

2,000 and 10,000 pairs of Canadian statutes, as `train --pairs` trains on them (with and without
`--init-from`). Tested on a thousand other sentences of law, none nearly in training, and on
Tatoeba's test: what was gained, with the paired difference in BLEU, and what was forgotten. Needs
$TRANSFORMER_LIT_DATA."""

from itertools import product
from random import Random

from common import BENCH, ROOT, Record, options, scores

from transformer_lit.corpora.texts import read_columns
from transformer_lit.custom_pair.report import write_tsv
from transformer_lit.custom_pair.train import train_on_files
from transformer_lit.data import clean_pairs, group_references, load_test_set
from transformer_lit.evaluation import bootstrap_interval, segment_stats
from transformer_lit.recipes import training_sets
from transformer_lit.serving.files import load_translator


def main():
    o = options(__doc__, home=ROOT / ".run/init-from", out=BENCH / "init-from.json")
    repeated = training_sets.near_duplicates("fr")
    texts = training_sets.own_folder("general/en-fr") / training_sets.GENERAL["law"]
    pairs, _ = clean_pairs(read_columns(texts))
    pairs = [pair for pair in pairs if not repeated.of(pair[0])]
    law = group_references(training_sets.mixture_held_out("fr")["test-law"])
    tests = {"law": law, "tatoeba": load_test_set("tatoeba")}
    record, counts = Record(o.out, runs={}), {}
    for size, start in product((0, 2_000, 10_000), ("", "tatoeba-fr")):
        run = o.home / f"{size}-{start or 'scratch'}"
        if size:
            run.mkdir(parents=True, exist_ok=True)
            write_tsv(file := run.with_suffix(".tsv"), Random(1).sample(pairs, size))
            settings = {"init_from": start} if start else {}
            train_on_files([file], ("en", "fr"), run, "", settings=settings)
        elif not start:
            continue
        translate = load_translator(run if size else start).translate
        for name, (sources, references) in tests.items():
            outputs = translate(sources)
            row = scores(outputs, references)
            counts[size, start, name] = segment_stats(outputs, references)
            if size and start:
                row["gain"] = bootstrap_interval(counts[size, start, name], counts[size, "", name])
            record["runs"][f"{size} {start or 'scratch'} {name}"] = row
            record.write()


if __name__ == "__main__":
    main()
