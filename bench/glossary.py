"""How often names, codes and fixed translations come through, without and with a term list
(`transformer-lit translate --glossary`).

    python bench/glossary.py            # the translators that come with the book; ten minutes

200 sentences each: with an invented name; with a code such as BRA-417; and of the Tatoeba test,
with a noun whose translation is fixed to another than the usual one. The share of outputs that have
what was asked for."""

from collections import defaultdict
from random import Random

from common import BENCH, Record, options
from domains import FRAMES, HEADS, one_probe

from transformer_lit.data import load_test_set
from transformer_lit.serving.files import load_translator
from transformer_lit.serving.glossary import with_glossary

FIXED = """car automobile house demeure dog cabot boss supérieur job poste kids gamins money fonds
book ouvrage boat navire road chaussée""".split()


def probes() -> dict[str, list[tuple[str, str, str]]]:
    "Sentence, term, translation."
    rng = Random(1)
    names = [one_probe("names", rng)[0] for _ in range(200)]
    codes = [f"{rng.choice(HEADS)[:3].upper()}-{rng.randint(100, 999)}" for _ in range(200)]
    rows = {
        kind: [(FRAMES["names"][i % 5].format(term), term, term) for i, term in enumerate(terms)]
        for kind, terms in (("names", names), ("codes", codes))
    }
    terms, lines = [*zip(FIXED[::2], FIXED[1::2])], load_test_set("tatoeba")[0]
    fixed = [(line, en, fr) for line in lines for en, fr in terms if f" {en} " in line]
    return rows | {"fixed": fixed[:200]}


def main():
    record = Record(options(__doc__, out=BENCH / "glossary.json").out)
    kept = defaultdict(lambda: defaultdict(dict))
    for model in "open-fr", "tatoeba-fr", "mixture-fr":
        translate = load_translator(model).translate
        for kind, rows in probes().items():
            lines, terms, targets = zip(*rows)
            listed = with_glossary(translate, dict(zip(terms, targets)))
            for way, run in ("without", translate), ("with", listed):
                outputs = zip(targets, run([*lines]))
                kept[model][kind][way] = sum(term in text for term, text in outputs) / len(rows)
    record.write(kept=kept)


if __name__ == "__main__":
    main()
